/* SPDX-License-Identifier: BSD-3-Clause */
/* What goes wrong with requests on the double beyond what every device must do, which is in the
 * suite (verbs/keys.c, verbs/errors.c): addresses that wrap, regions that end, slots that come
 * free, what is refused by one. */
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

VH_TEST(an_address_that_wraps_is_out_of_bounds)
{
	struct vh h;
	struct vh_wr w;

	vh_pair(&h, &vh_defaults);
	vh_wr_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, 1, 0, 100);
	w.sge.addr = UINT64_MAX - 10;
	vh_expect_failure(&h, &w, IBV_WC_LOC_PROT_ERR);
	vh_again(&h);
	for (int read = 0; read < 2; read++) {
		vh_wr_fill(&w, &h, 0, read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, 1, 0, 100);
		w.wr.wr.rdma.remote_addr = UINT64_MAX - 10;
		expect_remote_access(&h, &w);
	}
	vh_free(&h);
}

/* ---- posts ---------------------------------------------------------------------------------- */

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

/* What is malformed by more is in verbs/post.c. */
VH_TEST(a_flag_an_entry_or_a_byte_too_many_is_refused_at_the_post)
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
	REFUSES(EINVAL, w.wr.send_flags |= 1 << 9);
	REFUSES(EINVAL, w.wr.num_sge = 5);
	REFUSES(EINVAL, (w.wr.send_flags |= IBV_SEND_INLINE, w.sge.length = 65));
#undef REFUSES
	vh_expect_none(h.end[0].send_cq);
	ck_assert_int_eq(vh_state(h.end[0].qp), IBV_QPS_RTS);
	vh_free(&h);
}

int main(void)
{
	TCase *t = tcase_create("errors");

	VH_ADD(t, a_request_that_fails_locally_waits_for_the_ones_before_it);
	VH_ADD(t, deregistering_under_an_outstanding_request_fails_it);
	VH_ADD(t, a_key_is_stale_after_dereg_and_never_right_again_soon);
	VH_ADD(t, an_address_that_wraps_is_out_of_bounds);
	VH_ADD(t, a_full_queue_refuses_until_completions_are_polled);
	VH_ADD(t, a_flag_an_entry_or_a_byte_too_many_is_refused_at_the_post);
	return vh_suite_run("verbs errors", t);
}
