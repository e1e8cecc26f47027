/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests that fail on the double: addresses that wrap, regions that are deregistered, slots that
 * become free, limits that are exceeded by one. Failures that every device must report are tested
 * in keys_cases.c and errors_cases.c. */
#include "tests/conformance/verbs/harness/world.h"

#define ACCESS_ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static void expect_event(struct vs_end *e, enum ibv_event_type type)
{
	struct ibv_async_event event;

	do { /* COMM_EST comes only if the other end was ready first */
		CHECK_EQ(ibv_get_async_event(e->ctx, &event), 0);
		ibv_ack_async_event(&event);
	} while (event.event_type == IBV_EVENT_COMM_EST);
	CHECK_EQ(event.event_type, type);
}

/* ---- local ---------------------------------------------------------------------------------- */

CASE(a_request_that_fails_locally_waits_for_the_ones_before_it)
{
	struct vs_pair h;
	struct vs_wr w;

	vs_pair(&h, &vw_defaults);
	vs_pattern(h.end[0].buffer, 500000, 3);
	vs_send(&h, 0, IBV_WR_RDMA_WRITE, 1, 0, 500000);
	vs_send(&h, 0, IBV_WR_RDMA_READ, 2, 600000, 1000);
	vs_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, 3, 0, 10);
	w.sge.lkey = 0;
	CHECK_EQ(vs_post(h.end[0].qp, &w.wr), 0);
	vs_send(&h, 0, IBV_WR_RDMA_WRITE, 4, 0, 10);
	vs_expect(h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_expect(h.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL);
	vs_expect(h.end[0].send_cq, 3, IBV_WC_LOC_PROT_ERR, NULL);
	vs_expect(h.end[0].send_cq, 4, IBV_WC_WR_FLUSH_ERR, NULL);
	vs_expect_pattern(h.end[1].buffer, 500000, 3);
	vs_free(&h);
}

CASE(deregistering_under_an_outstanding_request_fails_it)
{
	struct vs_options o = vw_defaults;
	struct vs_pair h;
	struct vs_wr w;

	o.rnr_retry = 7;
	o.retry_count = 7;
	vs_pair(&h, &o);
	struct vs_end *a = &h.end[0];
	struct ibv_mr *mr = ibv_reg_mr(a->pd, a->buffer, 4096, ACCESS_ALL);

	/* the receiver is not ready for the first, so the second is outstanding */
	vs_send(&h, 0, IBV_WR_SEND, 1, 0, 10);
	os_sleep_ns(1000);
	vs_fill(&w, &h, 0, IBV_WR_SEND, 2, 0, 100);
	w.sge.lkey = mr->lkey;
	vw_link(0, false);
	CHECK_EQ(vs_post(a->qp, &w.wr), 0);
	sim_expect_misuse("verbs-mr-in-use");
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	vw_link(0, true);
	vs_recv(&h, 1, 1, 0, 100);
	vs_recv(&h, 1, 2, 0, 100);
	vs_expect(a->send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_expect(a->send_cq, 2, IBV_WC_LOC_PROT_ERR, NULL);
	vs_free(&h);
}

/* ---- remote: access ------------------------------------------------------------------------- */

static void expect_remote_access(struct vs_pair *h, struct vs_wr *w)
{
	vw_expect_failure(h, w, IBV_WC_REM_ACCESS_ERR);
	CHECK_EQ(vs_state(h->end[1].qp), IBV_QPS_ERR);
	expect_event(&h->end[1], IBV_EVENT_QP_ACCESS_ERR);
	vw_again(h);
}

CASE(a_key_is_stale_after_dereg_and_never_right_again_soon)
{
	struct vs_pair h;
	struct vs_wr w;
	uint32_t stale[300];
	bool reused = false;

	vs_pair(&h, &vw_defaults);
	struct vs_end *b = &h.end[1];

	for (int i = 0; i < 300; i++) {
		struct ibv_mr *mr = ibv_reg_mr(b->pd, b->buffer, 4096, ACCESS_ALL);

		stale[i] = mr->rkey;
		for (int k = 0; k < i; k++) {
			CHECK(stale[k] != mr->rkey);
			reused |= stale[k] >> 8 == mr->rkey >> 8;
		}
		CHECK_EQ(ibv_dereg_mr(mr), 0);
	}
	CHECK(reused); /* an index is used again, with another tag */
	vs_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, 1, 0, 100);
	w.wr.wr.rdma.rkey = stale[0];
	expect_remote_access(&h, &w);
	w.wr.wr.rdma.rkey = stale[299];
	expect_remote_access(&h, &w);
	vs_free(&h);
}

CASE(an_address_that_wraps_is_out_of_bounds)
{
	struct vs_pair h;
	struct vs_wr w;

	vs_pair(&h, &vw_defaults);
	vs_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, 1, 0, 100);
	w.sge.addr = UINT64_MAX - 10;
	vw_expect_failure(&h, &w, IBV_WC_LOC_PROT_ERR);
	vw_again(&h);
	for (int read = 0; read < 2; read++) {
		vs_fill(&w, &h, 0, read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, 1, 0, 100);
		w.wr.wr.rdma.remote_addr = UINT64_MAX - 10;
		expect_remote_access(&h, &w);
	}
	vs_free(&h);
}

/* ---- posts ---------------------------------------------------------------------------------- */

CASE(a_full_queue_refuses_until_completions_are_polled)
{
	struct vs_pair h;
	struct vs_wr w;

	vs_pair(&h, &vw_defaults);
	for (uint32_t i = 0; i < 16; i++) {
		vs_recv(&h, 1, i, 0, 0);
		vs_fill(&w, &h, 0, IBV_WR_RDMA_WRITE_WITH_IMM, i, 0, 8);
		w.wr.send_flags = i == 15 ? IBV_SEND_SIGNALED : 0;
		CHECK_EQ(vs_post(h.end[0].qp, &w.wr), 0);
	}
	CHECK_EQ(vs_post(h.end[0].qp, &w.wr), ENOMEM);
	CHECK_EQ(vs_recv_try(&h, 1, 16, 0, 0), ENOMEM);
	os_sleep_ns(VS_SECOND / 100); /* all have completed, and no completion was polled */
	CHECK_EQ(vs_post(h.end[0].qp, &w.wr), ENOMEM);
	CHECK_EQ(vs_recv_try(&h, 1, 16, 0, 0), ENOMEM);
	vs_expect(h.end[0].send_cq, 15, IBV_WC_SUCCESS, NULL);
	vs_expect(h.end[1].recv_cq, 0, IBV_WC_SUCCESS, NULL);
	vs_recv(&h, 1, 16, 0, 0);
	CHECK_EQ(vs_recv_try(&h, 1, 17, 0, 0),
		 ENOMEM); /* one completion was polled, so one slot is free */
	for (uint32_t i = 0; i < 16; i++)
		CHECK_EQ(vs_post(h.end[0].qp, &w.wr), 0); /* the last completion freed all slots */
	vs_free(&h);
}

/* Other malformed requests are tested in post_cases.c. */
CASE(a_flag_an_entry_or_a_byte_too_many_is_refused_at_the_post)
{
	struct vs_pair h;
	struct vs_wr w;
	struct ibv_send_wr *bad;

	vs_pair(&h, &vw_defaults);
#define REFUSES(code, change)                                                                      \
	do {                                                                                       \
		vs_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, 1, 0, 8);                                    \
		change;                                                                            \
		bad = NULL;                                                                        \
		CHECK_MSG(ibv_post_send(h.end[0].qp, &w.wr, &bad) == (code), #change);             \
		CHECK(bad == &w.wr);                                                               \
	} while (0)
	REFUSES(EINVAL, w.wr.send_flags |= 1 << 9);
	REFUSES(EINVAL, w.wr.num_sge = 5);
	REFUSES(EINVAL, (w.wr.send_flags |= IBV_SEND_INLINE, w.sge.length = 65));
#undef REFUSES
	vs_expect_none(h.end[0].send_cq);
	CHECK_EQ(vs_state(h.end[0].qp), IBV_QPS_RTS);
	vs_free(&h);
}
