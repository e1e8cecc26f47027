/* SPDX-License-Identifier: BSD-3-Clause */
/* Differences between the personality mlx5, which behaves as libmlx5 and the kernel's driver do,
 * and `spec`, which behaves as specified: rows of docs/verbs/fidelity.md. */
#include "backends/fakeverbs/objects/handles.h"
#include "tests/conformance/verbs/harness/world.h"
#include "tests/conformance/verbs/harness/world_ud.h"

#define MLX5 "DOPPEL_HCA_PERSONALITY=mlx5"
#define SPEC "DOPPEL_HCA_PERSONALITY=spec"

/* ---- windows -------------------------------------------------------------------------------- */

static struct ibv_mr *region_make(struct vs_pair *h)
{
	const int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND;
	struct ibv_mr *mr = ibv_reg_mr(h->end[0].pd, h->end[0].buffer, 4096, rights);

	CHECK(mr);
	return mr;
}

/* Binds a window of type 2 with an R_Key of another index, and expects `status`. */
static void bind_with_another_index(enum ibv_wc_status status)
{
	struct vs_pair h;

	vs_pair(&h, &vw_defaults);
	struct vs_end *e = &h.end[0];
	struct ibv_mr *mr = region_make(&h);
	struct ibv_mw *mw = ibv_alloc_mw(e->pd, IBV_MW_TYPE_2);

	CHECK(mw);
	struct ibv_send_wr wr = {
		.wr_id = 9,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = {.mw = mw,
			    .rkey = (mw->rkey ^ 0xff00) + 1,
			    .bind_info = {.mr = mr,
					  .addr = (uintptr_t)mr->addr,
					  .length = 64,
					  .mw_access_flags = IBV_ACCESS_REMOTE_WRITE}}};

	CHECK_EQ(vs_post(e->qp, &wr), 0);
	vs_expect(e->send_cq, 9, status, NULL);
	if (status == IBV_WC_SUCCESS) { /* the window's own index and the tag that was given */
		struct vs_wr w;

		vs_fill(&w, &h, 1, IBV_WR_RDMA_WRITE, 5, 0, 8);
		w.wr.wr.rdma.rkey = (mw->rkey & ~0xffu) | (wr.bind_mw.rkey & 0xff);
		w.wr.wr.rdma.remote_addr = (uintptr_t)mr->addr;
		CHECK_EQ(vs_post(h.end[1].qp, &w.wr), 0);
		vs_expect(h.end[1].send_cq, 5, IBV_WC_SUCCESS, NULL);
	}
	CHECK_EQ(ibv_dealloc_mw(mw), 0);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	vs_free(&h);
}

CASE(a_bind_with_another_index_fails_on_spec, .engine = "sim", .world = VW_ENV(SPEC))
{
	bind_with_another_index(IBV_WC_MW_BIND_ERR);
}

CASE(a_bind_takes_the_tag_alone_on_mlx5, .engine = "sim", .world = VW_ENV(MLX5))
{
	bind_with_another_index(IBV_WC_SUCCESS);
}

/* Binds a window to a region of its own domain, on a queue pair of another domain. */
static int bind_across_domains(struct vs_pair *h, struct ibv_pd *pd, struct ibv_mw **mw,
			       struct ibv_mr **mr)
{
	struct vs_end *e = &h->end[0];

	*mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	*mr = ibv_reg_mr(pd, e->buffer, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	CHECK(*mw && *mr);
	struct ibv_mw_bind bind = {.wr_id = 9,
				   .send_flags = IBV_SEND_SIGNALED,
				   .bind_info = {.mr = *mr,
						 .addr = (uintptr_t)e->buffer,
						 .length = 64,
						 .mw_access_flags = IBV_ACCESS_REMOTE_READ}};

	return ibv_bind_mw(e->qp, *mw, &bind);
}

static void bind_across_domains_gives(int code, bool completes)
{
	struct ibv_mw *mw;
	struct ibv_mr *mr;
	struct vs_pair h;

	vs_pair(&h, &vw_defaults);
	struct ibv_pd *pd = ibv_alloc_pd(h.end[0].ctx);

	CHECK_EQ(bind_across_domains(&h, pd, &mw, &mr), code);
	if (completes)
		vs_expect(h.end[0].send_cq, 9, IBV_WC_MW_BIND_ERR, NULL);
	CHECK_EQ(ibv_dealloc_mw(mw), 0);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
	vs_free(&h);
}

CASE(a_bind_across_domains_is_refused_on_spec, .engine = "sim", .world = VW_ENV(SPEC))
{
	bind_across_domains_gives(EPERM, false);
}

CASE(a_bind_across_domains_is_a_completion_on_mlx5, .engine = "sim", .world = VW_ENV(MLX5))
{
	bind_across_domains_gives(0, true);
}

/* ---- regions of no bytes -------------------------------------------------------------------- */

static void empty_regions(bool at_a_page, bool inside)
{
	struct vs_pair h;

	vs_make(&h, &vw_defaults);
	for (int i = 0; i < 2; i++) {
		uint8_t *page = (uint8_t *)(((uintptr_t)h.end[0].buffer + 4095) & ~4095ull);
		struct ibv_mr *mr = ibv_reg_mr(h.end[0].pd, page + 8 * i, 0, 0);

		CHECK_EQ(mr != NULL, i ? inside : at_a_page);
		if (mr)
			CHECK_EQ(ibv_dereg_mr(mr), 0);
		else
			CHECK_EQ(errno, EINVAL);
	}
	vs_free(&h);
}

CASE(a_region_of_no_bytes_is_refused_on_spec, .engine = "sim", .world = VW_ENV(SPEC))
{
	empty_regions(false, false);
}

CASE(a_region_of_no_bytes_may_lie_inside_a_page_on_mlx5, .engine = "sim", .world = VW_ENV(MLX5))
{
	empty_regions(false, true);
}

CASE(a_region_of_no_bytes_is_taken_on_rxe, .engine = "sim",
     .world = VW_ENV("DOPPEL_HCA_PERSONALITY=rxe"))
{
	empty_regions(true, true);
}

/* Every personality accepts an optional right. `has_effect`: the region then has it. */
static void relaxed_region(bool has_effect)
{
	struct vs_pair h;

	vs_make(&h, &vw_defaults);
	struct ibv_mr *mr = ibv_reg_mr(h.end[0].pd, h.end[0].buffer, 4096,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING);

	CHECK(mr);
	CHECK_EQ(CONTAINER_OF(mr, struct hca_mr_handle, ibv)->hca->access,
		 IBV_ACCESS_LOCAL_WRITE | (has_effect ? (unsigned)IBV_ACCESS_RELAXED_ORDERING : 0));
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	vs_free(&h);
}

CASE(relaxed_ordering_has_an_effect_on_mlx5, .engine = "sim", .world = VW_ENV(MLX5))
{
	relaxed_region(true);
}

CASE(relaxed_ordering_is_ignored_on_rxe, .engine = "sim",
     .world = VW_ENV("DOPPEL_HCA_PERSONALITY=rxe"))
{
	relaxed_region(false);
}

/* ---- datagrams ------------------------------------------------------------------------------ */

static void number_of_more_than_24_bits(int code)
{
	struct ud u;

	ud_make(&u);
	struct vs_end *e = &u.h.end[0];
	struct ibv_sge sge = {(uintptr_t)e->buffer, 64, e->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 3,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.ud = {.ah = u.ah,
					   .remote_qpn = u.qp[1]->qp_num | 1u << 24,
					   .remote_qkey = UD_QKEY}};

	ud_recv(&u, 4096);
	CHECK_EQ(vs_post(u.qp[0], &wr), code);
	if (!code)
		vs_expect(e->send_cq, 3, IBV_WC_SUCCESS, NULL);
	os_sleep_ns(VS_SECOND / 100);
	vs_expect_none(u.h.end[1].recv_cq);
	ud_free(&u);
}

CASE(a_number_of_more_than_24_bits_is_refused_on_spec, .engine = "sim", .world = VW_ENV(SPEC))
{
	number_of_more_than_24_bits(EINVAL);
}

CASE(a_number_of_more_than_24_bits_is_lost_on_mlx5, .engine = "sim", .world = VW_ENV(MLX5))
{
	number_of_more_than_24_bits(0);
}

/* A datagram is longer than the receive. `waits`: the receive waits for the next datagram. */
static void datagram_longer_than_its_receive(bool waits)
{
	struct ud u;

	ud_make(&u);
	ud_recv(&u, UD_GRH + 63);
	ud_post(&u, 64, UD_QKEY);
	vs_expect(u.h.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL);
	if (waits) {
		os_sleep_ns(VS_SECOND / 100);
		vs_expect_none(u.h.end[1].recv_cq);
		ud_post(&u, 63, UD_QKEY);
		vs_expect(u.h.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL);
	}
	vs_expect(u.h.end[1].recv_cq, 1, waits ? IBV_WC_SUCCESS : IBV_WC_LOC_LEN_ERR, NULL);
	CHECK_EQ(vs_state(u.qp[1]), waits ? IBV_QPS_RTS : IBV_QPS_ERR);
	ud_free(&u);
}

CASE(a_receive_that_is_too_small_fails_on_spec, .engine = "sim", .world = VW_ENV(SPEC))
{
	datagram_longer_than_its_receive(false);
}

CASE(a_receive_that_is_too_small_is_the_next_datagrams_on_mlx5, .engine = "sim",
     .world = VW_ENV(MLX5))
{
	datagram_longer_than_its_receive(true);
}

/* ---- a WRITE with immediate data and a wrong R_Key ------------------------------------------- */

static void write_with_immediate_and_a_wrong_key(enum ibv_wc_status status)
{
	struct vs_options o = vw_defaults;
	struct vs_pair h;
	struct vs_wr w;

	vs_pair(&h, &o);
	vs_recv(&h, 1, 9, 0, 64);
	vs_fill(&w, &h, 0, IBV_WR_RDMA_WRITE_WITH_IMM, 2, 0, 64);
	w.wr.wr.rdma.rkey ^= 0x55;
	vw_expect_failure(&h, &w, IBV_WC_REM_ACCESS_ERR);
	vs_expect(h.end[1].recv_cq, 9, status, NULL);
	vs_free(&h);
}

CASE(a_refused_write_with_immediate_flushes_its_receive_on_spec, .engine = "sim",
     .world = VW_ENV(SPEC))
{
	write_with_immediate_and_a_wrong_key(IBV_WC_WR_FLUSH_ERR);
}

CASE(a_refused_write_with_immediate_is_an_access_error_of_its_receive_on_mlx5, .engine = "sim",
     .world = VW_ENV(MLX5))
{
	write_with_immediate_and_a_wrong_key(IBV_WC_LOC_ACCESS_ERR);
}

/* ---- an atomic whose result has no place ----------------------------------------------------- */

CASE(an_atomic_with_a_bad_local_key_is_not_executed_on_mlx5, .engine = "sim", .world = VW_ENV(MLX5))
{
	struct vs_options o = vw_defaults;
	struct vs_pair h;
	struct vs_wr w;

	vs_pair(&h, &o);
	vs_fill(&w, &h, 0, IBV_WR_ATOMIC_FETCH_AND_ADD, 2, 0, 8);
	uint64_t *word = (void *)h.end[1].buffer;

	*word = 2;
	w.wr.wr.atomic.remote_addr = (uintptr_t)word;
	w.wr.wr.atomic.rkey = h.end[1].mr->rkey;
	w.wr.wr.atomic.compare_add = 1;
	w.sge.lkey ^= 0x55;
	vw_expect_failure(&h, &w, IBV_WC_LOC_PROT_ERR);
	CHECK_EQ(*word, 2);
	vs_free(&h);
}
