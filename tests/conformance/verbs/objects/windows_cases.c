/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory windows of both types and of type 1: rights, bounds, domains, and how they end. */
#include "tests/conformance/verbs/objects/window.h"

static const char *type_name(int param)
{
	return param ? "type_2" : "type_1";
}
static enum ibv_mw_type type_here(void)
{
	enum vs_need need = vs_param ? VS_NEED_MW2 : VS_NEED_MW1;

	if (!vs_has(need))
		vs_skip("no memory windows of type %d", vs_param + 1);
	return vs_param ? IBV_MW_TYPE_2 : IBV_MW_TYPE_1;
}

/* ---- both types ----------------------------------------------------------------------------- */

CASE(a_window_opens_a_part_of_a_region, .count = 2, .label = type_name)
{
	struct window t;

	window_make(&t, type_here());
	CHECK(t.mw->pd == t.p.end[1].pd && t.mw->context == t.p.end[1].ctx);
	uint32_t rkey = window_bind(&t, 4096, 1000, READ_WRITE);

	vs_pattern(t.p.end[0].buffer, 1000, 1);
	window_use(&t, IBV_WR_RDMA_WRITE, rkey, window_at(&t, 4096), 1000, IBV_WC_SUCCESS);
	vs_expect_bytes(t.p.end[1].buffer, 4096, 0);
	vs_expect_pattern(t.p.end[1].buffer + 4096, 1000, 1);
	memset(t.p.end[0].buffer, 0, 1000);
	window_use(&t, IBV_WR_RDMA_READ, rkey, window_at(&t, 4096), 1000, IBV_WC_SUCCESS);
	vs_expect_pattern(t.p.end[0].buffer, 1000, 1);
	window_free(&t);
}

static const char *edge_name(int param)
{
	static const char *const name[] = {"type_1_before", "type_1_behind", "type_2_before",
					   "type_2_behind"};

	return name[param];
}

CASE(a_window_ends_where_it_ends, .count = 4, .label = edge_name)
{
	struct window t;
	int beyond = vs_param & 1;

	vs_param >>= 1;
	window_make(&t, type_here());
	uint32_t rkey = window_bind(&t, 4096, 1000, READ_WRITE);

	window_use(&t, IBV_WR_RDMA_WRITE, rkey, window_at(&t, beyond ? 4097 : 4095), 1000,
		   IBV_WC_REM_ACCESS_ERR);
	vs_expect_bytes(t.p.end[1].buffer, 8192, 0);
	window_free(&t);
}

CASE(a_window_gives_the_rights_that_it_was_bound_with, .count = 2, .label = type_name)
{
	struct window t;

	window_make(&t, type_here());
	uint32_t rkey = window_bind(&t, 0, 1000, IBV_ACCESS_REMOTE_READ);

	window_use(&t, IBV_WR_RDMA_READ, rkey, window_at(&t, 0), 64, IBV_WC_SUCCESS);
	window_use(&t, IBV_WR_RDMA_WRITE, rkey, window_at(&t, 0), 64, IBV_WC_REM_ACCESS_ERR);
	window_free(&t);
}

CASE(atomics_go_through_windows, .count = 2, .label = type_name, .needs = NEED(ATOMIC))
{
	struct window t;
	struct vs_wr w;

	window_make(&t, type_here());
	uint32_t rkey = window_bind(&t, 8, 8, IBV_ACCESS_REMOTE_ATOMIC);

	vs_fill(&w, &t.p, 0, IBV_WR_ATOMIC_FETCH_AND_ADD, 4, 0, 8);
	w.wr.wr.atomic.remote_addr = window_at(&t, 8);
	w.wr.wr.atomic.rkey = rkey;
	w.wr.wr.atomic.compare_add = 3;
	CHECK_EQ(vs_post(t.p.end[0].qp, &w.wr), 0);
	vs_expect(t.p.end[0].send_cq, 4, IBV_WC_SUCCESS, NULL);
	CHECK_EQ(t.p.end[1].buffer[8], 3);
	window_free(&t);
}

CASE(a_window_that_was_never_bound_opens_nothing, .count = 2, .label = type_name)
{
	struct window t;

	window_make(&t, type_here());
	window_use(&t, IBV_WR_RDMA_WRITE, t.mw->rkey, window_at(&t, 0), 8, IBV_WC_REM_ACCESS_ERR);
	window_free(&t);
}

CASE(a_window_that_was_freed_opens_nothing, .count = 2, .label = type_name)
{
	struct window t;

	window_make(&t, type_here());
	uint32_t rkey = window_bind(&t, 0, 1000, READ_WRITE);

	window_use(&t, IBV_WR_RDMA_WRITE, rkey, window_at(&t, 0), 8, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_dealloc_mw(t.mw), 0);
	t.mw = NULL;
	window_use(&t, IBV_WR_RDMA_WRITE, rkey, window_at(&t, 0), 8, IBV_WC_REM_ACCESS_ERR);
	window_free(&t);
}

CASE(a_key_of_a_window_is_no_local_key, .count = 2, .label = type_name)
{
	struct window t;
	struct vs_wr w;

	window_make(&t, type_here());
	uint32_t rkey = window_bind(&t, 0, 4096, READ_WRITE);

	vs_fill(&w, &t.p, 1, IBV_WR_RDMA_WRITE, 6, 0, 8);
	w.sge.lkey = rkey;
	CHECK_EQ(vs_post(t.p.end[1].qp, &w.wr), 0);
	vs_expect(t.p.end[1].send_cq, 6, IBV_WC_LOC_PROT_ERR, NULL);
	window_free(&t);
}

CASE(windows_keep_their_region_and_domain, .count = 2, .label = type_name, .misuse = true)
{
	struct window t;

	window_make(&t, type_here());
	window_bind(&t, 0, 1000, READ_WRITE);
	CHECK_EQ(ibv_dereg_mr(t.mr), EBUSY);
	if (vs_has(VS_NEED_REREG)) {
		CHECK_EQ(ibv_rereg_mr(t.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0),
			 IBV_REREG_MR_ERR_CMD);
		CHECK_EQ(errno, EBUSY);
	}
	struct ibv_pd *other = ibv_alloc_pd(t.p.end[1].ctx);
	struct ibv_mw *mw = ibv_alloc_mw(other, t.mw->type);

	CHECK(other && mw);
	CHECK_EQ(ibv_dealloc_pd(other), EBUSY);
	CHECK_EQ(ibv_dealloc_mw(mw), 0);
	CHECK_EQ(ibv_dealloc_pd(other), 0);
	window_free(&t);
}

static const char *refusal_name(int param)
{
	static const char *const name[] = {"no_bind_right", "outside", "writes_without_local_write",
					   "atomics_without_local_write"};
	static char text[64];

	snprintf(text, sizeof text, "%s_%s", type_name(param & 1), name[param >> 1]);
	return text;
}

CASE(what_the_region_does_not_allow_is_not_bound, .count = 8, .label = refusal_name)
{
	struct window t;
	int what = vs_param >> 1;
	unsigned int mr_access = what == 0   ? IBV_ACCESS_LOCAL_WRITE
				 : what == 1 ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND
					     : IBV_ACCESS_MW_BIND;
	unsigned int access = what == 2   ? IBV_ACCESS_REMOTE_WRITE
			      : what == 3 ? IBV_ACCESS_REMOTE_ATOMIC
					  : IBV_ACCESS_REMOTE_READ;

	vs_param &= 1;
	window_make_with(&t, type_here(), mr_access);
	window_bind_as(&t, what == 1 ? t.p.options.buffer_bytes - 10 : 0, 11, access,
		       IBV_WC_MW_BIND_ERR);
	CHECK_EQ(vs_state(t.p.end[1].qp), IBV_QPS_ERR);
	window_free(&t);
}

CASE(reading_needs_no_local_write, .count = 2, .label = type_name)
{
	struct window t;

	window_make_with(&t, type_here(), IBV_ACCESS_MW_BIND);
	uint32_t rkey = window_bind(&t, 0, 1000, IBV_ACCESS_REMOTE_READ);

	window_use(&t, IBV_WR_RDMA_READ, rkey, window_at(&t, 0), 64, IBV_WC_SUCCESS);
	window_free(&t);
}

/* A request after a bind is not begun before it; one that fails flushes it. */
CASE(what_follows_a_bind_that_fails_is_flushed, .needs = NEED(MW2))
{
	struct window t;
	struct vs_wr w;
	struct ibv_send_wr wr;

	window_make_with(&t, IBV_MW_TYPE_2, IBV_ACCESS_LOCAL_WRITE);
	memset(t.p.end[1].buffer, 9, 64);
	vs_fill(&w, &t.p, 1, IBV_WR_RDMA_WRITE, 6, 0, 64);
	CHECK_EQ(vs_post(t.p.end[1].qp, &w.wr), 0);
	bind_fill(&t, &wr, 0, 8, READ_WRITE);
	CHECK_EQ(vs_post(t.p.end[1].qp, &wr), 0);
	vs_fill(&w, &t.p, 1, IBV_WR_RDMA_WRITE, 7, 4096, 64);
	CHECK_EQ(vs_post(t.p.end[1].qp, &w.wr), 0);
	vs_expect(t.p.end[1].send_cq, 6, IBV_WC_SUCCESS, NULL);
	vs_expect(t.p.end[1].send_cq, 50, IBV_WC_MW_BIND_ERR, NULL);
	vs_expect(t.p.end[1].send_cq, 7, IBV_WC_WR_FLUSH_ERR, NULL);
	vs_expect_bytes(t.p.end[0].buffer, 64, 9);
	window_free(&t);
}

/* Binds, announces the key, invalidates: between other requests, in the order of posting. */
CASE(binds_keep_their_place_in_the_order, .needs = NEED(MW2) | NEED(LOCAL_INV))
{
	struct window t;
	struct vs_wr w;
	struct ibv_send_wr wr;

	window_make(&t, IBV_MW_TYPE_2);
	for (uint64_t i = 0; i < 4; i++) {
		bind_fill(&t, &wr, 0, 64, READ_WRITE);
		wr.wr_id = i * 3;
		wr.bind_mw.rkey = t.mw->rkey = ibv_inc_rkey(t.mw->rkey);
		CHECK_EQ(vs_post(t.p.end[1].qp, &wr), 0);
		vs_fill(&w, &t.p, 1, IBV_WR_RDMA_WRITE, i * 3 + 1, 0, 5000);
		CHECK_EQ(vs_post(t.p.end[1].qp, &w.wr), 0);
		wr = (struct ibv_send_wr){.wr_id = i * 3 + 2,
					  .opcode = IBV_WR_LOCAL_INV,
					  .send_flags = IBV_SEND_SIGNALED,
					  .invalidate_rkey = t.mw->rkey};
		CHECK_EQ(vs_post(t.p.end[1].qp, &wr), 0);
	}
	for (uint64_t i = 0; i < 12; i++) {
		static const enum ibv_wc_opcode want[] = {IBV_WC_BIND_MW, IBV_WC_RDMA_WRITE,
							  IBV_WC_LOCAL_INV};
		struct ibv_wc wc;

		vs_expect(t.p.end[1].send_cq, i, IBV_WC_SUCCESS, &wc);
		CHECK_EQ(wc.opcode, want[i % 3]);
	}
	window_free(&t);
}

/* ---- type 1 --------------------------------------------------------------------------------- */

CASE(type_1_is_bound_anew, .needs = NEED(MW1))
{
	struct window t;

	window_make(&t, IBV_MW_TYPE_1);
	uint32_t first = window_bind(&t, 0, 1000, READ_WRITE);
	uint32_t second = window_bind(&t, 8192, 1000, READ_WRITE);

	CHECK(first != second && first >> 8 == second >> 8);
	window_use(&t, IBV_WR_RDMA_WRITE, second, window_at(&t, 8192), 64, IBV_WC_SUCCESS);
	window_use(&t, IBV_WR_RDMA_WRITE, first, window_at(&t, 0), 64, IBV_WC_REM_ACCESS_ERR);
	window_free(&t);
}

CASE(type_1_is_closed_by_binding_it_to_nothing, .needs = NEED(MW1))
{
	struct window t;

	window_make(&t, IBV_MW_TYPE_1);
	window_bind(&t, 0, 1000, READ_WRITE);
	uint32_t rkey = window_bind(&t, 0, 0, 0);

	window_use(&t, IBV_WR_RDMA_WRITE, rkey, window_at(&t, 0), 8, IBV_WC_REM_ACCESS_ERR);
	CHECK_EQ(ibv_dereg_mr(t.mr), 0); /* no longer held */
	t.mr = ibv_reg_mr(t.p.end[1].pd, t.p.end[1].buffer, 64, 0);
	window_free(&t);
}

CASE(type_1_is_good_for_every_queue_pair_of_its_domain, .needs = NEED(MW1))
{
	struct window t;

	window_make(&t, IBV_MW_TYPE_1);
	/* bound by another queue pair than the one that uses it */
	struct ibv_qp *own = t.p.end[1].qp, *other = vs_qp(&t.p, 1);
	struct ibv_qp_attr a = vs_attr_to(&t.p, 1, t.p.end[0].qp->qp_num);

	vs_raise(other, &a, IBV_QPS_RTS);
	t.p.end[1].qp = other;
	uint32_t rkey = window_bind(&t, 0, 1000, READ_WRITE);

	t.p.end[1].qp = own;
	window_use(&t, IBV_WR_RDMA_WRITE, rkey, window_at(&t, 0), 64, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_destroy_qp(other), 0);
	window_use(&t, IBV_WR_RDMA_WRITE, rkey, window_at(&t, 0), 64, IBV_WC_SUCCESS);
	window_free(&t);
}

CASE(type_1_is_not_for_post_send_nor_type_2_for_bind, .needs = NEED(MW1) | NEED(MW2))
{
	struct window t;
	struct ibv_send_wr wr;

	window_make(&t, IBV_MW_TYPE_1);
	struct ibv_mw *two = ibv_alloc_mw(t.p.end[1].pd, IBV_MW_TYPE_2);
	struct ibv_mw_bind bind = {.bind_info = {.mr = t.mr,
						 .addr = window_at(&t, 0),
						 .length = 8,
						 .mw_access_flags = IBV_ACCESS_REMOTE_READ}};

	CHECK(two);
	CHECK_EQ(ibv_bind_mw(t.p.end[1].qp, two, &bind), EINVAL);
	bind_fill(&t, &wr, 0, 8, IBV_ACCESS_REMOTE_READ);
	CHECK_EQ(vs_post(t.p.end[1].qp, &wr), EINVAL);
	CHECK_EQ(ibv_dealloc_mw(two), 0);
	window_free(&t);
}

CASE(type_1_and_its_region_are_of_one_domain, .needs = NEED(MW1))
{
	struct window t;

	window_make(&t, IBV_MW_TYPE_1);
	struct ibv_pd *pd = ibv_alloc_pd(t.p.end[1].ctx);
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {.bind_info = {.mr = t.mr,
						 .addr = window_at(&t, 0),
						 .length = 8,
						 .mw_access_flags = IBV_ACCESS_REMOTE_READ}};

	CHECK(pd && mw);
	CHECK_EQ(ibv_bind_mw(t.p.end[1].qp, mw, &bind), EPERM);
	CHECK_EQ(ibv_dealloc_mw(mw), 0);
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
	window_free(&t);
}
