/* SPDX-License-Identifier: BSD-3-Clause */
/* Posting: when it is legal, what is refused, which request of a chain was, and what is
 * signaled. */
#include "tests/conformance/verbs/suite.h"

static const char *const state_name[] = {"RESET", "INIT", "RTR"};
static const char *state_label(int param)
{
	return state_name[param];
}

CASE(a_send_before_rts_is_refused, .count = 3, .label = state_label)
{
	struct vs_pair p;
	struct vs_wr w;
	struct ibv_send_wr *bad = NULL;

	vs_make(&p, &vs_defaults);
	vs_connect(&p, 0, (enum ibv_qp_state)(IBV_QPS_RESET + vs_param));
	vs_fill(&w, &p, 0, IBV_WR_SEND, 1, 0, 8);
	CHECK_REFUSED(ibv_post_send(p.end[0].qp, &w.wr, &bad));
	CHECK(bad == &w.wr);
	vs_expect_none(p.end[0].send_cq);
	vs_free(&p);
}

CASE(a_receive_in_reset_is_refused)
{
	struct vs_pair p;

	vs_make(&p, &vs_defaults);
	CHECK_REFUSED(vs_recv_try(&p, 0, 1, 0, 8));
	vs_free(&p);
}

CASE(receives_are_posted_from_init_on)
{
	struct vs_pair p;

	vs_make(&p, &vs_defaults);
	for (int s = 0; s < 2; s++) {
		struct ibv_qp_attr a = vs_attr(&p, s);

		for (int state = IBV_QPS_INIT; state <= IBV_QPS_RTS; state++) {
			a.qp_state = (enum ibv_qp_state)state;
			CHECK_EQ(ibv_modify_qp(p.end[s].qp, &a, vs_mask(IBV_QPT_RC, a.qp_state)),
				 0);
			vs_recv(&p, s, (uint64_t)state, 64 * (uint64_t)state, 64);
		}
	}
	for (uint64_t i = IBV_QPS_INIT; i <= IBV_QPS_RTS; i++) {
		vs_send(&p, 0, IBV_WR_SEND, i, 0, 8);
		vs_expect(p.end[0].send_cq, i, IBV_WC_SUCCESS, NULL);
		vs_expect(p.end[1].recv_cq, i, IBV_WC_SUCCESS, NULL);
	}
	vs_free(&p);
}

/* ---- what is refused ------------------------------------------------------------------------ */

static void spoil_opcode(struct vs_wr *w)
{
	w->wr.opcode = (enum ibv_wr_opcode)99;
}
static void spoil_entries(struct vs_wr *w)
{
	w->wr.num_sge = 200;
}
static void spoil_entries_negative(struct vs_wr *w)
{
	w->wr.num_sge = -1;
}
static void spoil_inline_length(struct vs_wr *w)
{
	w->wr.send_flags |= IBV_SEND_INLINE;
	w->sge.length = 100000;
}
static void spoil_inline_read(struct vs_wr *w)
{
	w->wr.opcode = IBV_WR_RDMA_READ;
	w->wr.send_flags |= IBV_SEND_INLINE;
}

static const struct {
	const char *name;
	void (*spoil)(struct vs_wr *w);
} spoilt[] = {
	{"unknown_opcode", spoil_opcode},           {"too_many_entries", spoil_entries},
	{"negative_count", spoil_entries_negative}, {"inline_too_long", spoil_inline_length},
	{"inline_read", spoil_inline_read},
};
static const char *spoilt_label(int param)
{
	return spoilt[param].name;
}

CASE(malformed_requests_are_refused, .count = 5, .label = spoilt_label, .misuse = true)
{
	struct vs_pair p;
	struct vs_wr w;
	struct ibv_sge many[200];
	struct ibv_send_wr *bad = NULL;

	vs_pair(&p, &vs_defaults);
	vs_fill(&w, &p, 0, IBV_WR_RDMA_WRITE, 1, 0, 8);
	for (int i = 0; i < 200; i++)
		many[i] = w.sge;
	spoilt[vs_param].spoil(&w);
	if (w.wr.num_sge > 1)
		w.wr.sg_list = many;
	CHECK_REFUSED(ibv_post_send(p.end[0].qp, &w.wr, &bad));
	CHECK(bad == &w.wr);
	CHECK_EQ(vs_state(p.end[0].qp), IBV_QPS_RTS);
	vs_send(&p, 0, IBV_WR_RDMA_WRITE, 2, 0, 8); /* nothing happened */
	vs_expect(p.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL);
	vs_free(&p);
}

CASE(a_receive_with_too_many_entries_is_refused, .misuse = true)
{
	struct vs_pair p;
	struct ibv_sge many[200];
	struct ibv_recv_wr wr = {.wr_id = 1, .sg_list = many, .num_sge = 200}, *bad = NULL;

	vs_pair(&p, &vs_defaults);
	for (int i = 0; i < 200; i++)
		many[i] = (struct ibv_sge){(uintptr_t)p.end[0].buffer, 1, p.end[0].mr->lkey};
	CHECK_REFUSED(ibv_post_recv(p.end[0].qp, &wr, &bad));
	CHECK(bad == &wr);
	vs_free(&p);
}

/* ---- chains --------------------------------------------------------------------------------- */

CASE(a_chain_is_posted_in_its_order)
{
	struct vs_pair p;
	struct vs_wr w[6];
	struct ibv_send_wr *bad = NULL;

	vs_pair(&p, &vs_defaults);
	vs_pattern(p.end[0].buffer, 600, 1);
	for (uint64_t i = 0; i < 6; i++) {
		vs_fill(&w[i], &p, 0, IBV_WR_RDMA_WRITE, i, 100 * i, 100);
		w[i].wr.next = i < 5 ? &w[i + 1].wr : NULL;
	}
	CHECK_EQ(ibv_post_send(p.end[0].qp, &w[0].wr, &bad), 0);
	for (uint64_t i = 0; i < 6; i++)
		vs_expect(p.end[0].send_cq, i, IBV_WC_SUCCESS, NULL);
	vs_expect_pattern(p.end[1].buffer, 600, 1);
	vs_free(&p);
}

CASE(a_chain_stops_at_the_first_bad_request, .misuse = true)
{
	struct vs_pair p;
	struct vs_wr w[5];
	struct ibv_send_wr *bad = NULL;

	vs_pair(&p, &vs_defaults);
	vs_pattern(p.end[0].buffer, 500, 1);
	for (uint64_t i = 0; i < 5; i++) {
		vs_fill(&w[i], &p, 0, IBV_WR_RDMA_WRITE, i, 100 * i, 100);
		w[i].wr.next = i < 4 ? &w[i + 1].wr : NULL;
	}
	w[3].wr.opcode = (enum ibv_wr_opcode)99;
	CHECK_REFUSED(ibv_post_send(p.end[0].qp, &w[0].wr, &bad));
	CHECK(bad == &w[3].wr);
	for (uint64_t i = 0; i < 3; i++) /* those before it are on their way */
		vs_expect(p.end[0].send_cq, i, IBV_WC_SUCCESS, NULL);
	vs_sleep_ns(20 * VS_MS);
	vs_expect_none(p.end[0].send_cq);
	vs_expect_pattern(p.end[1].buffer, 300, 1);
	vs_expect_bytes(p.end[1].buffer + 300, 200, 0);
	vs_free(&p);
}

CASE(a_chain_of_receives)
{
	struct vs_pair p;
	struct ibv_sge sge[4];
	struct ibv_recv_wr wr[4], *bad = NULL;

	vs_pair(&p, &vs_defaults);
	for (uint64_t i = 0; i < 4; i++) {
		sge[i] = (struct ibv_sge){(uintptr_t)p.end[1].buffer + 100 * i, 100,
					  p.end[1].mr->lkey};
		wr[i] = (struct ibv_recv_wr){.wr_id = i,
					     .next = i < 3 ? &wr[i + 1] : NULL,
					     .sg_list = &sge[i],
					     .num_sge = 1};
	}
	CHECK_EQ(ibv_post_recv(p.end[1].qp, &wr[0], &bad), 0);
	vs_pattern(p.end[0].buffer, 400, 1);
	for (uint64_t i = 0; i < 4; i++) {
		vs_send(&p, 0, IBV_WR_SEND, i, 100 * i, 100);
		vs_expect(p.end[0].send_cq, i, IBV_WC_SUCCESS, NULL);
		vs_expect(p.end[1].recv_cq, i, IBV_WC_SUCCESS, NULL);
	}
	vs_expect_pattern(p.end[1].buffer, 400, 1);
	vs_free(&p);
}

/* ---- full queues ---------------------------------------------------------------------------- */

#define ROOM_MAX 4096

/* No receive is posted at the other end, and the sender retries without end: no request
 * completes. */
static void blocked(struct vs_pair *p)
{
	struct vs_options o = vs_defaults;

	o.rnr_retry = 7;
	o.min_rnr_timer = 26; /* 82 ms */
	vs_pair(p, &o);
}

static uint32_t room(const struct vs_pair *p, bool sends)
{
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;

	CHECK_EQ(ibv_query_qp(p->end[0].qp, &a, IBV_QP_CAP, &init), 0);
	uint32_t n = sends ? init.cap.max_send_wr : init.cap.max_recv_wr;

	NEEDS_AT_LEAST(ROOM_MAX, n);
	return n;
}

CASE(a_full_send_queue_is_enomem, .misuse = true)
{
	struct vs_pair p;
	struct vs_wr w;
	struct ibv_send_wr *bad = NULL;

	blocked(&p);
	uint32_t n = room(&p, true);

	vs_fill(&w, &p, 0, IBV_WR_SEND, 1, 0, 8);
	for (uint32_t i = 0; i < n; i++)
		CHECK_EQ(vs_post(p.end[0].qp, &w.wr), 0);
	CHECK_CODE(ibv_post_send(p.end[0].qp, &w.wr, &bad), ENOMEM);
	CHECK(bad == &w.wr);
	vs_free(&p);
}

CASE(a_chain_that_overfills_is_posted_as_far_as_it_goes, .misuse = true)
{
	static struct vs_wr w[ROOM_MAX + 2];
	struct vs_pair p;
	struct ibv_send_wr *bad = NULL;

	blocked(&p);
	uint32_t n = room(&p, true);

	for (uint32_t i = 0; i < n + 2; i++) {
		vs_fill(&w[i], &p, 0, IBV_WR_SEND, i, 0, 8);
		w[i].wr.next = i < n + 1 ? &w[i + 1].wr : NULL;
	}
	CHECK_CODE(ibv_post_send(p.end[0].qp, &w[0].wr, &bad), ENOMEM);
	CHECK(bad == &w[n].wr);
	for (uint32_t i = 0; i < n; i++) {
		CHECK_EQ(vs_recv_try(&p, 1, i, 64, 8), 0);
		vs_expect(p.end[0].send_cq, i, IBV_WC_SUCCESS, NULL);
		vs_expect(p.end[1].recv_cq, i, IBV_WC_SUCCESS, NULL);
	}
	vs_send(&p, 0, IBV_WR_RDMA_WRITE, 7777, 0, 8); /* room again */
	vs_expect(p.end[0].send_cq, 7777, IBV_WC_SUCCESS, NULL);
	vs_free(&p);
}

CASE(a_full_receive_queue_is_enomem, .misuse = true)
{
	struct vs_pair p;

	vs_pair(&p, &vs_defaults);
	uint32_t n = room(&p, false);

	for (uint32_t i = 0; i < n; i++)
		CHECK_EQ(vs_recv_try(&p, 0, i, 0, 8), 0);
	CHECK_CODE(vs_recv_try(&p, 0, n, 0, 8), ENOMEM);
	vs_send(&p, 1, IBV_WR_SEND, 1, 0, 8);
	vs_expect(p.end[0].recv_cq, 0, IBV_WC_SUCCESS, NULL);
	CHECK_EQ(vs_recv_try(&p, 0, n, 0, 8), 0); /* one is free */
	vs_free(&p);
}

/* ---- signals -------------------------------------------------------------------------------- */

CASE(what_is_not_signaled_completes_in_silence)
{
	struct vs_pair p;
	struct vs_wr w;

	vs_pair(&p, &vs_defaults);
	vs_pattern(p.end[0].buffer, 900, 1);
	for (uint64_t i = 0; i < 9; i++) {
		vs_fill(&w, &p, 0, IBV_WR_RDMA_WRITE, i, 100 * i, 100);
		w.wr.send_flags = i % 3 == 2 ? IBV_SEND_SIGNALED : 0;
		CHECK_EQ(vs_post(p.end[0].qp, &w.wr), 0);
	}
	for (uint64_t i = 2; i < 9; i += 3)
		vs_expect(p.end[0].send_cq, i, IBV_WC_SUCCESS, NULL);
	vs_expect_none(p.end[0].send_cq);
	vs_expect_pattern(p.end[1].buffer, 900, 1); /* 8 was signaled: all are done */
	vs_free(&p);
}

CASE(every_request_is_signaled_if_the_queue_pair_says_so)
{
	struct vs_options o = vs_defaults;
	struct vs_pair p;
	struct vs_wr w;

	o.signal_all = 1;
	vs_pair(&p, &o);
	for (uint64_t i = 0; i < 5; i++) {
		vs_fill(&w, &p, 0, IBV_WR_RDMA_WRITE, i, 0, 8);
		w.wr.send_flags = i & 1 ? IBV_SEND_SIGNALED : 0;
		CHECK_EQ(vs_post(p.end[0].qp, &w.wr), 0);
	}
	for (uint64_t i = 0; i < 5; i++)
		vs_expect(p.end[0].send_cq, i, IBV_WC_SUCCESS, NULL);
	vs_expect_none(p.end[0].send_cq);
	vs_free(&p);
}

CASE(a_silent_request_still_completes_its_receive)
{
	struct vs_pair p;
	struct vs_wr w;

	vs_pair(&p, &vs_defaults);
	vs_recv(&p, 1, 1, 0, 64);
	vs_fill(&w, &p, 0, IBV_WR_SEND, 1, 0, 8);
	w.wr.send_flags = 0;
	CHECK_EQ(vs_post(p.end[0].qp, &w.wr), 0);
	vs_expect(p.end[1].recv_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_sleep_ns(20 * VS_MS);
	vs_expect_none(p.end[0].send_cq);
	vs_free(&p);
}

CASE(a_silent_request_that_fails_is_told)
{
	struct vs_pair p;
	struct vs_wr w;

	vs_pair(&p, &vs_defaults);
	vs_fill(&w, &p, 0, IBV_WR_RDMA_WRITE, 1, 0, 8);
	w.wr.send_flags = 0;
	w.wr.wr.rdma.rkey ^= 0x5a;
	vs_expect_failure(&p, &w, IBV_WC_REM_ACCESS_ERR);
	vs_free(&p);
}

/* Slots of silent requests come free with the next signaled one. */
CASE(a_queue_that_signals_now_and_then_goes_on_for_ever)
{
	struct vs_pair p;
	struct vs_wr w;

	vs_pair(&p, &vs_defaults);
	for (uint64_t i = 0; i < 160; i++) {
		bool last = i % 8 == 7;

		vs_fill(&w, &p, 0, IBV_WR_RDMA_WRITE, i, 0, 8);
		w.wr.send_flags = last ? IBV_SEND_SIGNALED : 0;
		CHECK_EQ(vs_post(p.end[0].qp, &w.wr), 0);
		if (last)
			vs_expect(p.end[0].send_cq, i, IBV_WC_SUCCESS, NULL);
	}
	vs_expect_none(p.end[0].send_cq);
	vs_free(&p);
}
