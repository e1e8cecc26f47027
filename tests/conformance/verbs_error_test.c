/* SPDX-License-Identifier: BSD-3-Clause */
/* Everything that can go wrong with a request: its completion status at both ends, what the queue
 * pairs do then, and what recovers. */
#include "tests/conformance/verbs_harness.h"

#define ACCESS_ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static void expect_event(struct vh_end *e, enum ibv_event_type type)
{
	struct ibv_async_event event;

	do { /* whether "established" comes depends on who was ready first */
		ck_assert_int_eq(ibv_get_async_event(e->ctx, &event), 0);
		ibv_ack_async_event(&event);
	} while (event.event_type == IBV_EVENT_COMM_EST);
	ck_assert_int_eq(event.event_type, type);
}

/* Posts one request of end 0 that must fail with `status`; end 0 is in ERR then. */
static void expect_failure(struct vh *h, struct vh_wr *w, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	ck_assert_int_eq(vh_post(h->end[0].qp, &w->wr), 0);
	vh_expect(h->end[0].send_cq, w->wr.wr_id, status, &wc);
	ck_assert_uint_eq(wc.qp_num, h->end[0].qp->qp_num);
	ck_assert_uint_ne(wc.vendor_err, 0);
	ck_assert_int_eq(vh_state(h->end[0].qp), IBV_QPS_ERR);
}

/* Both ends again in RTS, whatever happened. */
static void again(struct vh *h)
{
	for (int i = 0; i < 2; i++)
		vh_to_state(h->end[i].qp, IBV_QPS_RESET);
	for (int i = 0; i < 2; i++) {
		h->end[i].psn = (h->end[i].psn + 5000) & 0xffffff;
	}
	for (int i = 0; i < 2; i++)
		vh_connect_end(h, i, IBV_QPS_RTS);
}

static const enum ibv_wr_opcode writes_and_sends[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
						      IBV_WR_SEND, IBV_WR_SEND_WITH_IMM};

/* ---- local ------------------------------------------------------------------------------ */

VH_TEST(a_bad_local_key_is_local_protection_error)
{
	struct vh h;
	struct vh_wr w;

	vh_pair(&h, &vh_defaults);
	for (size_t i = 0; i < 4; i++) {
		vh_wr_fill(&w, &h, 0, writes_and_sends[i], i, 0, 100);
		w.sge.lkey ^= 0x1;
		expect_failure(&h, &w, IBV_WC_LOC_PROT_ERR);
		ck_assert_int_eq(vh_state(h.end[1].qp), IBV_QPS_RTS); /* nothing was sent */
		again(&h);
	}
	vh_free(&h);
}

VH_TEST(local_bounds_are_exact)
{
	struct vh h;
	struct vh_wr w;

	vh_pair(&h, &vh_defaults);
	struct vh_end *a = &h.end[0];

	vh_wr_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, 1, VH_BUFFER_BYTES - 100, 100);
	ck_assert_int_eq(vh_post(a->qp, &w.wr), 0);
	vh_expect(a->send_cq, 1, IBV_WC_SUCCESS, NULL);
	w.sge.addr++;
	expect_failure(&h, &w, IBV_WC_LOC_PROT_ERR);
	again(&h);
	vh_wr_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, 2, 0, 100);
	w.sge.addr--;
	expect_failure(&h, &w, IBV_WC_LOC_PROT_ERR);
	again(&h);
	w.sge.addr = UINT64_MAX - 10; /* wraps */
	expect_failure(&h, &w, IBV_WC_LOC_PROT_ERR);
	vh_free(&h);
}

VH_TEST(a_region_of_another_protection_domain_is_no_local_memory)
{
	struct vh h;
	struct vh_wr w;

	vh_pair(&h, &vh_defaults);
	struct vh_end *a = &h.end[0];
	struct ibv_pd *pd = ibv_alloc_pd(a->ctx);
	struct ibv_mr *mr = ibv_reg_mr(pd, a->buffer, 4096, ACCESS_ALL);

	ck_assert_ptr_nonnull(mr);
	vh_wr_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, 1, 0, 100);
	w.sge.lkey = mr->lkey;
	expect_failure(&h, &w, IBV_WC_LOC_PROT_ERR);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
	vh_free(&h);
}

VH_TEST(a_read_into_memory_without_local_write_is_local_protection_error)
{
	struct vh h;
	struct vh_wr w;

	vh_pair(&h, &vh_defaults);
	struct vh_end *a = &h.end[0];
	struct ibv_mr *mr = ibv_reg_mr(a->pd, a->buffer, 4096, IBV_ACCESS_REMOTE_READ);

	vh_wr_fill(&w, &h, 0, IBV_WR_RDMA_READ, 1, 0, 100);
	w.sge.lkey = mr->lkey;
	expect_failure(&h, &w, IBV_WC_LOC_PROT_ERR);
	again(&h);
	/* but it may be sent from */
	vh_wr_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, 2, 0, 100);
	w.sge.lkey = mr->lkey;
	ck_assert_int_eq(vh_post(a->qp, &w.wr), 0);
	vh_expect(a->send_cq, 2, IBV_WC_SUCCESS, NULL);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	vh_free(&h);
}

VH_TEST(a_message_longer_than_the_port_allows_is_local_length_error)
{
	struct vh h;
	struct vh_wr w;
	struct ibv_port_attr port;

	vh_pair(&h, &vh_defaults);
	ck_assert_int_eq(ibv_query_port(h.end[0].ctx, 1, &port), 0);
	vh_wr_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, 1, 0, port.max_msg_sz + 1);
	expect_failure(&h, &w, IBV_WC_LOC_LEN_ERR);
	vh_free(&h);
}

VH_TEST(a_read_without_read_resources_is_local_operation_error)
{
	struct vh_options o = vh_defaults;
	struct vh h;
	struct vh_wr w;

	o.rd_atomic = 0;
	vh_pair(&h, &o);
	vh_wr_fill(&w, &h, 0, IBV_WR_RDMA_READ, 1, 0, 8);
	expect_failure(&h, &w, IBV_WC_LOC_QP_OP_ERR);
	vh_free(&h);
}

VH_TEST(a_request_that_fails_locally_waits_for_the_ones_before_it)
{
	struct vh h;
	struct vh_wr w;

	vh_pair(&h, &vh_defaults);
	vh_pattern(h.end[0].buffer, 500000, 3);
	vh_send(&h, 0, IBV_WR_RDMA_WRITE, 1, 0, 500000);
	vh_send(&h, 0, IBV_WR_RDMA_READ, 2, 600000, 1000);
	vh_wr_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, 3, 0, 10);
	w.sge.lkey = 0;
	ck_assert_int_eq(vh_post(h.end[0].qp, &w.wr), 0);
	vh_send(&h, 0, IBV_WR_RDMA_WRITE, 4, 0, 10);
	vh_expect(h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vh_expect(h.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL);
	vh_expect(h.end[0].send_cq, 3, IBV_WC_LOC_PROT_ERR, NULL);
	vh_expect(h.end[0].send_cq, 4, IBV_WC_WR_FLUSH_ERR, NULL);
	vh_expect_pattern(h.end[1].buffer, 500000, 3);
	vh_free(&h);
}

VH_TEST(deregistering_under_an_outstanding_request_fails_it)
{
	struct vh_options o = vh_defaults;
	struct vh h;
	struct vh_wr w;

	o.rnr_retry = 7;
	o.retry_count = 7;
	vh_pair(&h, &o);
	struct vh_end *a = &h.end[0];
	struct ibv_mr *mr = ibv_reg_mr(a->pd, a->buffer, 4096, ACCESS_ALL);

	/* the receiver is not ready for the first, so the second is outstanding for sure */
	vh_send(&h, 0, IBV_WR_SEND, 1, 0, 10);
	os_sleep_ns(1000);
	vh_wr_fill(&w, &h, 0, IBV_WR_SEND, 2, 0, 100);
	w.sge.lkey = mr->lkey;
	vh_link(0, false);
	ck_assert_int_eq(vh_post(a->qp, &w.wr), 0);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	vh_link(0, true);
	vh_recv(&h, 1, 1, 0, 100);
	vh_recv(&h, 1, 2, 0, 100);
	vh_expect(a->send_cq, 1, IBV_WC_SUCCESS, NULL);
	vh_expect(a->send_cq, 2, IBV_WC_LOC_PROT_ERR, NULL);
	vh_free(&h);
}

/* ---- remote: access --------------------------------------------------------------------- */

static void expect_remote_access(struct vh *h, struct vh_wr *w)
{
	expect_failure(h, w, IBV_WC_REM_ACCESS_ERR);
	ck_assert_int_eq(vh_state(h->end[1].qp), IBV_QPS_ERR);
	expect_event(&h->end[1], IBV_EVENT_QP_ACCESS_ERR);
	again(h);
}

VH_TEST(a_bad_remote_key_is_remote_access_error)
{
	struct vh h;
	struct vh_wr w;

	vh_pair(&h, &vh_defaults);
	static const uint32_t wrong[] = {1, 0x100, 0x80000000, 0xffffffff};

	for (size_t i = 0; i < 4; i++) {
		vh_wr_fill(&w, &h, 0, i % 2 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, i, 0, 100);
		w.wr.wr.rdma.rkey ^= wrong[i];
		expect_remote_access(&h, &w);
	}
	vh_expect_zero(h.end[1].buffer, 100);
	vh_free(&h);
}

VH_TEST(remote_bounds_are_exact)
{
	struct vh h;
	struct vh_wr w;
	static const enum ibv_wr_opcode op[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};

	vh_pair(&h, &vh_defaults);
	for (size_t i = 0; i < 2; i++) {
		vh_wr_fill(&w, &h, 0, op[i], 1, VH_BUFFER_BYTES - 100, 100);
		ck_assert_int_eq(vh_post(h.end[0].qp, &w.wr), 0);
		vh_expect(h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
		w.wr.wr.rdma.remote_addr++;
		expect_remote_access(&h, &w);
		w.wr.wr.rdma.remote_addr = (uintptr_t)h.end[1].buffer - 1;
		expect_remote_access(&h, &w);
		w.wr.wr.rdma.remote_addr = UINT64_MAX - 10;
		expect_remote_access(&h, &w);
	}
	vh_free(&h);
}

VH_TEST(a_region_without_the_right_is_remote_access_error)
{
	struct vh h;
	struct vh_wr w;

	vh_pair(&h, &vh_defaults);
	struct vh_end *b = &h.end[1];
	struct ibv_mr *read_only = ibv_reg_mr(b->pd, b->buffer, 4096, IBV_ACCESS_REMOTE_READ);
	struct ibv_mr *write_only = ibv_reg_mr(b->pd, b->buffer, 4096,
					       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

	vh_wr_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, 1, 0, 100);
	w.wr.wr.rdma.rkey = read_only->rkey;
	expect_remote_access(&h, &w);
	vh_wr_fill(&w, &h, 0, IBV_WR_RDMA_READ, 2, 0, 100);
	w.wr.wr.rdma.rkey = write_only->rkey;
	expect_remote_access(&h, &w);
	ck_assert_int_eq(ibv_dereg_mr(read_only), 0);
	ck_assert_int_eq(ibv_dereg_mr(write_only), 0);
	vh_free(&h);
}

VH_TEST(a_region_of_another_protection_domain_is_remote_access_error)
{
	struct vh h;
	struct vh_wr w;

	vh_pair(&h, &vh_defaults);
	struct vh_end *b = &h.end[1];
	struct ibv_pd *pd = ibv_alloc_pd(b->ctx);
	struct ibv_mr *mr = ibv_reg_mr(pd, b->buffer, 4096, ACCESS_ALL);

	vh_wr_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, 1, 0, 100);
	w.wr.wr.rdma.rkey = mr->rkey;
	expect_remote_access(&h, &w);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
	vh_free(&h);
}

VH_TEST(a_key_is_stale_after_dereg_and_never_right_again_soon)
{
	struct vh h;
	struct vh_wr w;
	uint32_t stale[300];
	bool reused = false;

	vh_pair(&h, &vh_defaults);
	struct vh_end *b = &h.end[1];

	for (int i = 0; i < 300; i++) {
		struct ibv_mr *mr = ibv_reg_mr(b->pd, b->buffer, 4096, ACCESS_ALL);

		stale[i] = mr->rkey;
		for (int k = 0; k < i; k++) {
			ck_assert_uint_ne(stale[k], mr->rkey);
			reused |= stale[k] >> 8 == mr->rkey >> 8;
		}
		ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	}
	ck_assert(reused); /* the index comes again, with another tag */
	vh_wr_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, 1, 0, 100);
	w.wr.wr.rdma.rkey = stale[0];
	expect_remote_access(&h, &w);
	w.wr.wr.rdma.rkey = stale[299];
	expect_remote_access(&h, &w);
	vh_free(&h);
}

VH_TEST(nothing_written_or_read_needs_no_key)
{
	struct vh h;
	struct vh_wr w;

	vh_pair(&h, &vh_defaults);
	for (int i = 0; i < 2; i++) {
		vh_wr_fill(&w, &h, 0, i ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, 1, 0, 0);
		w.wr.wr.rdma.rkey = 0xdeadbeef;
		w.wr.wr.rdma.remote_addr = 0;
		ck_assert_int_eq(vh_post(h.end[0].qp, &w.wr), 0);
		vh_expect(h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	}
	vh_free(&h);
}

/* ---- remote: invalid request, operation ------------------------------------------------- */

VH_TEST(an_operation_that_the_queue_pair_does_not_allow_is_invalid_request)
{
	static const struct {
		int access, dest_rd_atomic;
		enum ibv_wr_opcode opcode;
	} cases[] = {{IBV_ACCESS_REMOTE_READ, 4, IBV_WR_RDMA_WRITE},
		     {IBV_ACCESS_REMOTE_READ, 4, IBV_WR_RDMA_WRITE_WITH_IMM},
		     {IBV_ACCESS_REMOTE_WRITE, 4, IBV_WR_RDMA_READ},
		     {IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ, 0, IBV_WR_RDMA_READ}};

	for (size_t i = 0; i < 4; i++) {
		struct vh_options o = vh_defaults;
		struct vh h;
		struct vh_wr w;

		o.access = cases[i].access;
		o.dest_rd_atomic = cases[i].dest_rd_atomic;
		vh_pair(&h, &o);
		vh_recv(&h, 1, 9, 0, 0);
		vh_wr_fill(&w, &h, 0, cases[i].opcode, i, 0, 100);
		expect_failure(&h, &w, IBV_WC_REM_INV_REQ_ERR);
		vh_expect(h.end[1].recv_cq, 9, IBV_WC_WR_FLUSH_ERR, NULL);
		expect_event(&h.end[1], IBV_EVENT_QP_REQ_ERR);
		vh_free(&h);
	}
}

VH_TEST(a_message_longer_than_its_receive_is_a_length_error_there)
{
	struct vh h;
	struct vh_wr w;
	static const uint32_t room[] = {99, 65535, 65536};
	static const uint32_t bytes[] = {100, 65536, 65537};

	vh_pair(&h, &vh_defaults);
	for (size_t i = 0; i < 3; i++) {
		vh_recv(&h, 1, 8, 0, room[i]);
		vh_recv(&h, 1, 9, 0, room[i]);
		vh_wr_fill(&w, &h, 0, IBV_WR_SEND, i, 0, bytes[i]);
		expect_failure(&h, &w, IBV_WC_REM_INV_REQ_ERR);
		vh_expect(h.end[1].recv_cq, 8, IBV_WC_LOC_LEN_ERR, NULL);
		vh_expect(h.end[1].recv_cq, 9, IBV_WC_WR_FLUSH_ERR, NULL);
		ck_assert_int_eq(vh_state(h.end[1].qp), IBV_QPS_ERR);
		again(&h);
	}
	vh_free(&h);
}

VH_TEST(a_receive_that_may_not_be_written_is_a_protection_error_there)
{
	struct vh h;
	struct vh_wr w;

	vh_pair(&h, &vh_defaults);
	struct vh_end *b = &h.end[1];
	struct ibv_mr *mr = ibv_reg_mr(b->pd, b->buffer, 4096, IBV_ACCESS_REMOTE_READ);
	const uint32_t lkey[] = {b->mr->lkey ^ 2, mr->lkey};

	for (int i = 0; i < 2; i++) {
		struct ibv_sge sge = {(uintptr_t)b->buffer, 100, lkey[i]};
		struct ibv_recv_wr wr = {.wr_id = 8, .sg_list = &sge, .num_sge = 1}, *bad;

		ck_assert_int_eq(ibv_post_recv(b->qp, &wr, &bad), 0);
		vh_wr_fill(&w, &h, 0, IBV_WR_SEND, 1, 0, 100);
		expect_failure(&h, &w, IBV_WC_REM_OP_ERR);
		vh_expect(b->recv_cq, 8, IBV_WC_LOC_PROT_ERR, NULL);
		ck_assert_int_eq(vh_state(b->qp), IBV_QPS_ERR);
		again(&h);
	}
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	vh_free(&h);
}

/* ---- flush ------------------------------------------------------------------------------ */

VH_TEST(after_an_error_everything_is_flushed_in_order_unsignaled_too)
{
	struct vh h;
	struct vh_wr w;

	vh_pair(&h, &vh_defaults);
	for (uint32_t i = 0; i < 3; i++)
		vh_recv(&h, 0, 100 + i, 0, 10);
	for (uint32_t i = 0; i < 6; i++) {
		vh_wr_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, i, 0, 10);
		if (i == 1 || i == 4)
			w.wr.send_flags = 0;
		if (i == 2)
			w.wr.wr.rdma.rkey ^= 0x55;
		ck_assert_int_eq(vh_post(h.end[0].qp, &w.wr), 0);
	}
	vh_expect(h.end[0].send_cq, 0, IBV_WC_SUCCESS, NULL); /* 1 succeeds in silence */
	vh_expect(h.end[0].send_cq, 2, IBV_WC_REM_ACCESS_ERR, NULL);
	for (uint32_t i = 3; i < 6; i++)
		vh_expect(h.end[0].send_cq, i, IBV_WC_WR_FLUSH_ERR, NULL);
	for (uint32_t i = 0; i < 3; i++)
		vh_expect(h.end[0].recv_cq, 100 + i, IBV_WC_WR_FLUSH_ERR, NULL);
	vh_expect_none(h.end[0].send_cq);
	vh_expect_none(h.end[0].recv_cq);
	vh_free(&h);
}

VH_TEST(requests_posted_in_error_are_flushed)
{
	struct vh h;

	vh_pair(&h, &vh_defaults);
	vh_recv(&h, 0, 1, 0, 10);
	vh_to_state(h.end[0].qp, IBV_QPS_ERR);
	vh_expect(h.end[0].recv_cq, 1, IBV_WC_WR_FLUSH_ERR, NULL);
	for (uint32_t i = 0; i < 40; i++) { /* more than the queue holds: slots come free */
		vh_send(&h, 0, IBV_WR_RDMA_WRITE, i, 0, 10);
		vh_recv(&h, 0, i, 0, 10);
		vh_expect(h.end[0].send_cq, i, IBV_WC_WR_FLUSH_ERR, NULL);
		vh_expect(h.end[0].recv_cq, i, IBV_WC_WR_FLUSH_ERR, NULL);
	}
	vh_free(&h);
}

VH_TEST(a_full_queue_refuses_until_completions_are_polled)
{
	struct vh h;
	struct vh_wr w;

	vh_pair(&h, &vh_defaults);
	for (uint32_t i = 0; i < 16; i++) {
		vh_recv(&h, 1, i, 0, 0);
		vh_wr_fill(&w, &h, 0, IBV_WR_RDMA_WRITE_WITH_IMM, i, 0, 8);
		w.wr.send_flags = i == 15 ? IBV_SEND_SIGNALED : 0;
		ck_assert_int_eq(vh_post(h.end[0].qp, &w.wr), 0);
	}
	ck_assert_int_eq(vh_post(h.end[0].qp, &w.wr), ENOMEM);
	ck_assert_int_eq(vh_recv_try(&h, 1, 16, 0, 0), ENOMEM);
	os_sleep_ns(VH_SECOND_NS / 100); /* all complete by now; but nobody polled */
	ck_assert_int_eq(vh_post(h.end[0].qp, &w.wr), ENOMEM);
	ck_assert_int_eq(vh_recv_try(&h, 1, 16, 0, 0), ENOMEM);
	vh_expect(h.end[0].send_cq, 15, IBV_WC_SUCCESS, NULL);
	vh_expect(h.end[1].recv_cq, 0, IBV_WC_SUCCESS, NULL);
	vh_recv(&h, 1, 16, 0, 0);
	ck_assert_int_eq(vh_recv_try(&h, 1, 17, 0, 0), ENOMEM); /* one polled, one free */
	for (uint32_t i = 0; i < 16; i++)
		ck_assert_int_eq(vh_post(h.end[0].qp, &w.wr),
				 0); /* the last one's completion freed all */
	vh_free(&h);
}

VH_TEST(requests_that_are_malformed_are_refused_at_the_post)
{
	struct vh h;
	struct vh_wr w;
	struct ibv_send_wr *bad;

	vh_pair(&h, &vh_defaults);
#define REFUSES(code, change)                                                                      \
	do {                                                                                       \
		vh_wr_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, 1, 0, 8);                                 \
		change;                                                                            \
		bad = NULL;                                                                        \
		ck_assert_msg(ibv_post_send(h.end[0].qp, &w.wr, &bad) == (code), #change);         \
		ck_assert_ptr_eq(bad, &w.wr);                                                      \
	} while (0)
	REFUSES(EINVAL, w.wr.opcode = (enum ibv_wr_opcode)99);
	REFUSES(EOPNOTSUPP, w.wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD);
	REFUSES(EOPNOTSUPP, w.wr.opcode = IBV_WR_LOCAL_INV);
	REFUSES(EINVAL, w.wr.send_flags |= 1 << 9);
	REFUSES(EINVAL, w.wr.num_sge = 5);
	REFUSES(EINVAL, w.wr.num_sge = -1);
	REFUSES(EINVAL, (w.wr.send_flags |= IBV_SEND_INLINE, w.sge.length = 65));
	REFUSES(EINVAL, (w.wr.send_flags |= IBV_SEND_INLINE, w.wr.opcode = IBV_WR_RDMA_READ));
#undef REFUSES
	vh_expect_none(h.end[0].send_cq);
	ck_assert_int_eq(vh_state(h.end[0].qp), IBV_QPS_RTS);
	vh_free(&h);
}

/* ---- silence: the acknowledge timer ----------------------------------------------------- */

/* A request of end 0 that nobody answers. */
static void expect_retry_exceeded(struct vh *h)
{
	uint64_t timeout_ns = 4096ull << h->options.timeout;
	uint64_t least_ns = (uint64_t)(h->options.retry_count + 1) * timeout_ns;
	struct vh_wr w;
	uint64_t start_ns = os_now_ns();

	vh_wr_fill(&w, h, 0, IBV_WR_RDMA_WRITE, 77, 0, 100);
	expect_failure(h, &w, IBV_WC_RETRY_EXC_ERR);
	ck_assert_uint_ge(os_now_ns() - start_ns, least_ns);
	if (sim_engine_kind() == SIM_ENGINE_SIM)
		ck_assert_uint_le(os_now_ns() - start_ns, 4 * least_ns);
}

VH_TEST(a_peer_that_is_not_ready_is_retried_and_given_up)
{
	struct vh h;

	vh_make(&h, &vh_defaults);
	vh_connect_end(&h, 0, IBV_QPS_RTS);
	vh_connect_end(&h, 1, IBV_QPS_INIT);
	expect_retry_exceeded(&h);
	vh_free(&h);
}

VH_TEST(a_peer_that_becomes_ready_in_time_is_reached)
{
	struct vh_options o = vh_defaults;
	struct vh h;

	o.timeout = 15; /* 134 ms: slow machines have real time too */
	vh_make(&h, &o);
	vh_connect_end(&h, 0, IBV_QPS_RTS);
	vh_pattern(h.end[0].buffer, 200000, 5);
	vh_send(&h, 0, IBV_WR_RDMA_WRITE, 1, 0, 200000);
	os_sleep_ns((4096ull << o.timeout) * 2);
	vh_expect_none(h.end[0].send_cq);
	vh_connect_end(&h, 1, IBV_QPS_RTR);
	vh_expect(h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vh_expect_pattern(h.end[1].buffer, 200000, 5);
	vh_free(&h);
}

VH_TEST(a_wrong_queue_pair_number_is_retried_and_given_up)
{
	struct vh h;

	vh_make(&h, &vh_defaults);
	struct ibv_qp_attr a = vh_attr_of(&h, 0);

	a.dest_qp_num = h.end[1].qp->qp_num + 1000;
	vh_connect(h.end[0].qp, &a, IBV_QPS_RTS);
	vh_connect_end(&h, 1, IBV_QPS_RTS);
	expect_retry_exceeded(&h);
	vh_free(&h);
}

VH_TEST(a_stranger_is_not_heard)
{
	struct vh h;
	struct vh_wr w;

	vh_pair(&h, &vh_defaults);
	struct vh_end *a = &h.end[0];
	struct ibv_qp_init_attr init = vh_init_attr(&h.options, a->send_cq, a->recv_cq);
	struct ibv_qp *stranger = ibv_create_qp(a->pd, &init);
	struct ibv_qp_attr attr = vh_attr_of(&h, 0);

	/* the right number, address and packet number; but end 1 is connected to somebody else */
	vh_connect(stranger, &attr, IBV_QPS_RTS);
	memset(a->buffer, 1, 100);
	vh_wr_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, 1, 0, 100);
	ck_assert_int_eq(vh_post(stranger, &w.wr), 0);
	vh_expect(a->send_cq, 1, IBV_WC_RETRY_EXC_ERR, NULL);
	vh_expect_zero(h.end[1].buffer, 100);
	ck_assert_int_eq(vh_post(a->qp, &w.wr), 0);
	vh_expect(a->send_cq, 1, IBV_WC_SUCCESS, NULL);
	ck_assert_int_eq(ibv_destroy_qp(stranger), 0);
	vh_free(&h);
}

VH_TEST(packet_numbers_that_do_not_match_are_retried_and_given_up)
{
	static const int32_t off[] = {-1, 1, 1000, 0x400000};

	for (size_t i = 0; i < 4; i++) {
		struct vh h;

		vh_make(&h, &vh_defaults);
		struct ibv_qp_attr a = vh_attr_of(&h, 0);

		a.sq_psn = (a.sq_psn + (uint32_t)off[i]) & 0xffffff;
		vh_connect(h.end[0].qp, &a, IBV_QPS_RTS);
		vh_connect_end(&h, 1, IBV_QPS_RTS);
		struct vh_wr w;
		struct ibv_wc wc;

		vh_wr_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, 7, 0, 100);
		ck_assert_int_eq(vh_post(h.end[0].qp, &w.wr), 0);
		ck_assert(vh_wait(h.end[0].send_cq, &wc, 60 * VH_SECOND_NS));
		/* behind: taken for a duplicate and, if near, acknowledged; never written */
		ck_assert(wc.status == IBV_WC_RETRY_EXC_ERR || off[i] < 0);
		vh_expect_zero(h.end[1].buffer, 100);
		vh_free(&h);
	}
}

VH_TEST(a_link_that_is_down_is_retried_and_given_up)
{
	for (int device = 0; device < 2; device++) {
		struct vh h;

		vh_pair(&h, &vh_defaults);
		vh_recv(&h, 0, 1, 0, 10);
		vh_link(device, false);
		expect_retry_exceeded(&h);
		vh_expect(h.end[0].recv_cq, 1, IBV_WC_WR_FLUSH_ERR, NULL);
		ck_assert_int_eq(vh_state(h.end[1].qp), IBV_QPS_RTS); /* it knows nothing */
		vh_link(device, true);
		vh_free(&h);
	}
}

VH_TEST(a_link_that_comes_back_in_time_loses_nothing)
{
	struct vh_options o = vh_defaults;
	struct vh h;

	o.retry_count = 7;
	vh_pair(&h, &o);
	vh_pattern(h.end[0].buffer, 400000, 6);
	vh_pattern(h.end[1].buffer + 500000, 400000, 7);
	vh_recv(&h, 1, 9, 0, 0);
	vh_send(&h, 0, IBV_WR_RDMA_WRITE_WITH_IMM, 1, 0, 400000);
	vh_send(&h, 0, IBV_WR_RDMA_READ, 2, 500000, 400000);
	for (int i = 0; i < 3; i++) {
		os_sleep_ns(4000);
		vh_link(0, false);
		os_sleep_ns(3000);
		vh_link(0, true);
	}
	vh_expect(h.end[1].recv_cq, 9, IBV_WC_SUCCESS, NULL);
	vh_expect_pattern(h.end[1].buffer, 400000, 6);
	vh_expect(h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vh_expect(h.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL);
	vh_expect_pattern(h.end[0].buffer + 500000, 400000, 7);
	vh_expect_none(h.end[1].recv_cq); /* once only */
	vh_free(&h);
}

VH_TEST(timeout_zero_waits_for_ever)
{
	struct vh_options o = vh_defaults;
	struct vh h;

	o.timeout = 0;
	vh_pair(&h, &o);
	vh_link(0, false);
	vh_send(&h, 0, IBV_WR_RDMA_WRITE, 1, 0, 10);
	os_sleep_ns(sim_engine_kind() == SIM_ENGINE_SIM ? 600 * VH_SECOND_NS : VH_SECOND_NS / 10);
	vh_expect_none(h.end[0].send_cq);
	ck_assert_int_eq(vh_state(h.end[0].qp), IBV_QPS_RTS);
	vh_link(0, true);
	/* the next request shows the gap, and the lost one is sent again */
	vh_send(&h, 0, IBV_WR_RDMA_WRITE, 2, 0, 10);
	vh_expect(h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vh_expect(h.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL);
	vh_free(&h);
}

/* ---- receiver not ready ----------------------------------------------------------------- */

VH_TEST(a_receiver_without_receive_is_retried_and_given_up)
{
	static const enum ibv_wr_opcode op[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE_WITH_IMM};

	for (int retries = 0; retries < 4; retries += 3) {
		struct vh_options o = vh_defaults;
		struct vh h;

		o.rnr_retry = retries;
		vh_pair(&h, &o);
		for (int i = 0; i < 2; i++) {
			struct vh_wr w;
			uint64_t start_ns = os_now_ns();

			vh_wr_fill(&w, &h, 0, op[i], 5, 0, 100);
			expect_failure(&h, &w, IBV_WC_RNR_RETRY_EXC_ERR);
			ck_assert_uint_ge(os_now_ns() - start_ns, (uint64_t)retries * 10000);
			/* the receiver did nothing wrong, and nothing happened to it */
			ck_assert_int_eq(vh_state(h.end[1].qp), IBV_QPS_RTS);
			again(&h);
		}
		vh_free(&h);
	}
}

VH_TEST(a_receiver_that_becomes_ready_is_reached)
{
	static const uint32_t bytes[] = {0, 100, 300000};
	static const enum ibv_wr_opcode op[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE_WITH_IMM};

	for (int i = 0; i < 6; i++) {
		struct vh_options o = vh_defaults;
		struct vh h;
		uint32_t n = bytes[i % 3];

		o.rnr_retry = 7; /* for ever */
		vh_pair(&h, &o);
		vh_pattern(h.end[0].buffer, n, 3);
		vh_send(&h, 0, op[i / 3], 1, 0, n);
		vh_send(&h, 0, IBV_WR_RDMA_WRITE, 2, 400000, 100);
		os_sleep_ns(VH_SECOND_NS / 200); /* five hundred waits of 10 us */
		vh_expect_none(h.end[0].send_cq);
		vh_recv(&h, 1, 9, 0, n ? n : 1);
		vh_expect(h.end[1].recv_cq, 9, IBV_WC_SUCCESS, NULL);
		vh_expect_pattern(h.end[1].buffer, n, 3);
		vh_expect(h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
		vh_expect(h.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL);
		vh_free(&h);
	}
}

VH_TEST(the_receiver_says_how_long_to_wait)
{
	static const struct {
		int timer;
		uint64_t ns;
	} cases[] = {{1, 10000}, {12, 640000}, {18, 5120000}, {31, 491520000}, {0, 655360000}};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct vh_options o = vh_defaults;
		struct vh h;
		struct vh_wr w;

		if (sim_engine_kind() == SIM_ENGINE_THREADS && cases[i].ns > 100000000)
			continue; /* real time */
		o.min_rnr_timer = cases[i].timer;
		o.rnr_retry = 2;
		vh_pair(&h, &o);
		uint64_t start_ns = os_now_ns();

		vh_wr_fill(&w, &h, 0, IBV_WR_SEND, 5, 0, 100);
		expect_failure(&h, &w, IBV_WC_RNR_RETRY_EXC_ERR);
		uint64_t took_ns = os_now_ns() - start_ns;

		ck_assert_uint_ge(took_ns, 2 * cases[i].ns);
		if (sim_engine_kind() == SIM_ENGINE_SIM)
			ck_assert_uint_le(took_ns, 2 * cases[i].ns + 1000000);
		vh_free(&h);
	}
}

int main(void)
{
	TCase *t = tcase_create("errors");

	VH_ADD(t, a_bad_local_key_is_local_protection_error);
	VH_ADD(t, local_bounds_are_exact);
	VH_ADD(t, a_region_of_another_protection_domain_is_no_local_memory);
	VH_ADD(t, a_read_into_memory_without_local_write_is_local_protection_error);
	VH_ADD(t, a_message_longer_than_the_port_allows_is_local_length_error);
	VH_ADD(t, a_read_without_read_resources_is_local_operation_error);
	VH_ADD(t, a_request_that_fails_locally_waits_for_the_ones_before_it);
	VH_ADD(t, deregistering_under_an_outstanding_request_fails_it);
	VH_ADD(t, a_bad_remote_key_is_remote_access_error);
	VH_ADD(t, remote_bounds_are_exact);
	VH_ADD(t, a_region_without_the_right_is_remote_access_error);
	VH_ADD(t, a_region_of_another_protection_domain_is_remote_access_error);
	VH_ADD(t, a_key_is_stale_after_dereg_and_never_right_again_soon);
	VH_ADD(t, nothing_written_or_read_needs_no_key);
	VH_ADD(t, an_operation_that_the_queue_pair_does_not_allow_is_invalid_request);
	VH_ADD(t, a_message_longer_than_its_receive_is_a_length_error_there);
	VH_ADD(t, a_receive_that_may_not_be_written_is_a_protection_error_there);
	VH_ADD(t, after_an_error_everything_is_flushed_in_order_unsignaled_too);
	VH_ADD(t, requests_posted_in_error_are_flushed);
	VH_ADD(t, a_full_queue_refuses_until_completions_are_polled);
	VH_ADD(t, requests_that_are_malformed_are_refused_at_the_post);
	VH_ADD(t, a_peer_that_is_not_ready_is_retried_and_given_up);
	VH_ADD(t, a_peer_that_becomes_ready_in_time_is_reached);
	VH_ADD(t, a_wrong_queue_pair_number_is_retried_and_given_up);
	VH_ADD(t, a_stranger_is_not_heard);
	VH_ADD(t, packet_numbers_that_do_not_match_are_retried_and_given_up);
	VH_ADD(t, a_link_that_is_down_is_retried_and_given_up);
	VH_ADD(t, a_link_that_comes_back_in_time_loses_nothing);
	VH_ADD(t, timeout_zero_waits_for_ever);
	VH_ADD(t, a_receiver_without_receive_is_retried_and_given_up);
	VH_ADD(t, a_receiver_that_becomes_ready_is_reached);
	VH_ADD(t, the_receiver_says_how_long_to_wait);
	return vh_suite_run("verbs errors", t);
}
