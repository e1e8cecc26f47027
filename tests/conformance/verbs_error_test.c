/* SPDX-License-Identifier: BSD-3-Clause */
/* What goes wrong with requests on the double beyond what every device must do, which is in the suite
 * (verbs/keys.c, verbs/errors.c): exact bounds, regions that end, full queues, refused posts. */
#include "tests/conformance/verbs_harness.h"

#define ACCESS_ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static void expect_event(struct vh_end *e, enum ibv_event_type type)
{
	struct ibv_async_event event;

	do { /* whether "established" comes depends on which end was ready first */
		ck_assert_int_eq(ibv_get_async_event(e->ctx, &event), 0);
		ibv_ack_async_event(&event);
	} while (event.event_type == IBV_EVENT_COMM_EST);
	ck_assert_int_eq(event.event_type, type);
}

/* ---- local ---------------------------------------------------------------------------------- */

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
	vh_expect_failure(&h, &w, IBV_WC_LOC_PROT_ERR);
	vh_again(&h);
	vh_wr_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, 2, 0, 100);
	w.sge.addr--;
	vh_expect_failure(&h, &w, IBV_WC_LOC_PROT_ERR);
	vh_again(&h);
	w.sge.addr = UINT64_MAX - 10; /* wraps */
	vh_expect_failure(&h, &w, IBV_WC_LOC_PROT_ERR);
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
	vh_expect_failure(&h, &w, IBV_WC_LOC_PROT_ERR);
	vh_again(&h);
	/* but it may be sent from */
	vh_wr_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, 2, 0, 100);
	w.sge.lkey = mr->lkey;
	ck_assert_int_eq(vh_post(a->qp, &w.wr), 0);
	vh_expect(a->send_cq, 2, IBV_WC_SUCCESS, NULL);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
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
	sim_expect_misuse("verbs-mr-in-use");
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	vh_link(0, true);
	vh_recv(&h, 1, 1, 0, 100);
	vh_recv(&h, 1, 2, 0, 100);
	vh_expect(a->send_cq, 1, IBV_WC_SUCCESS, NULL);
	vh_expect(a->send_cq, 2, IBV_WC_LOC_PROT_ERR, NULL);
	vh_free(&h);
}

/* ---- remote: access ------------------------------------------------------------------------- */

static void expect_remote_access(struct vh *h, struct vh_wr *w)
{
	vh_expect_failure(h, w, IBV_WC_REM_ACCESS_ERR);
	ck_assert_int_eq(vh_state(h->end[1].qp), IBV_QPS_ERR);
	expect_event(&h->end[1], IBV_EVENT_QP_ACCESS_ERR);
	vh_again(h);
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

/* ---- remote: invalid request, operation ----------------------------------------------------- */

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
		vh_expect_failure(&h, &w, IBV_WC_REM_INV_REQ_ERR);
		vh_expect(h.end[1].recv_cq, 8, IBV_WC_LOC_LEN_ERR, NULL);
		vh_expect(h.end[1].recv_cq, 9, IBV_WC_WR_FLUSH_ERR, NULL);
		ck_assert_int_eq(vh_state(h.end[1].qp), IBV_QPS_ERR);
		vh_again(&h);
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
		vh_expect_failure(&h, &w, IBV_WC_REM_OP_ERR);
		vh_expect(b->recv_cq, 8, IBV_WC_LOC_PROT_ERR, NULL);
		ck_assert_int_eq(vh_state(b->qp), IBV_QPS_ERR);
		vh_again(&h);
	}
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	vh_free(&h);
}

/* ---- flush ---------------------------------------------------------------------------------- */

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
	os_sleep_ns(VH_SECOND_NS / 100); /* all complete by now, and not polled */
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

int main(void)
{
	TCase *t = tcase_create("errors");

	VH_ADD(t, local_bounds_are_exact);
	VH_ADD(t, a_read_into_memory_without_local_write_is_local_protection_error);
	VH_ADD(t, a_request_that_fails_locally_waits_for_the_ones_before_it);
	VH_ADD(t, deregistering_under_an_outstanding_request_fails_it);
	VH_ADD(t, remote_bounds_are_exact);
	VH_ADD(t, a_region_without_the_right_is_remote_access_error);
	VH_ADD(t, a_key_is_stale_after_dereg_and_never_right_again_soon);
	VH_ADD(t, a_message_longer_than_its_receive_is_a_length_error_there);
	VH_ADD(t, a_receive_that_may_not_be_written_is_a_protection_error_there);
	VH_ADD(t, requests_posted_in_error_are_flushed);
	VH_ADD(t, a_full_queue_refuses_until_completions_are_polled);
	VH_ADD(t, requests_that_are_malformed_are_refused_at_the_post);
	return vh_suite_run("verbs errors", t);
}
