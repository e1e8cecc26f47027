/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion channels: arming, what makes an event, and acknowledging. And the events of a context
 * that a program must acknowledge before it destroys what they name. */
#include "tests/conformance/verbs/suite.h"

static const uint64_t soon = 30 * VS_MS; /* long enough that what does not come would have */

static void pair(struct vs_pair *p)
{
	struct vs_options o = vs_defaults;

	o.channel = true;
	vs_pair(p, &o);
}

static void write_one(struct vs_pair *p, uint64_t id)
{
	vs_send(p, 0, IBV_WR_RDMA_WRITE, id, 0, 8);
}

static void expect_event(struct ibv_comp_channel *channel, struct ibv_cq *cq)
{
	struct ibv_cq *got = vs_cq_event(channel, VS_LONG);

	CHECK_MSG(got, "no event");
	CHECK(got == cq);
	ibv_ack_cq_events(got, 1);
}

CASE(an_armed_queue_tells_of_its_next_completion)
{
	struct vs_pair p;

	pair(&p);
	CHECK_EQ(ibv_req_notify_cq(p.end[0].send_cq, 0), 0);
	CHECK(!vs_cq_event(p.end[0].channel, soon));
	write_one(&p, 1);
	expect_event(p.end[0].channel, p.end[0].send_cq);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_free(&p);
}

CASE(a_queue_that_is_not_armed_is_silent)
{
	struct vs_pair p;

	pair(&p);
	write_one(&p, 1);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	CHECK(!vs_cq_event(p.end[0].channel, soon));
	vs_free(&p);
}

CASE(an_arm_is_for_one_event)
{
	struct vs_pair p;

	pair(&p);
	CHECK_EQ(ibv_req_notify_cq(p.end[0].send_cq, 0), 0);
	write_one(&p, 1);
	expect_event(p.end[0].channel, p.end[0].send_cq);
	write_one(&p, 2);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_expect(p.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL);
	CHECK(!vs_cq_event(p.end[0].channel, soon));
	CHECK_EQ(ibv_req_notify_cq(p.end[0].send_cq, 0), 0);
	write_one(&p, 3);
	expect_event(p.end[0].channel, p.end[0].send_cq);
	vs_expect(p.end[0].send_cq, 3, IBV_WC_SUCCESS, NULL);
	vs_free(&p);
}

CASE(arming_twice_is_arming_once)
{
	struct vs_pair p;

	pair(&p);
	CHECK_EQ(ibv_req_notify_cq(p.end[0].send_cq, 0), 0);
	CHECK_EQ(ibv_req_notify_cq(p.end[0].send_cq, 0), 0);
	write_one(&p, 1);
	expect_event(p.end[0].channel, p.end[0].send_cq);
	write_one(&p, 2);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_expect(p.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL);
	CHECK(!vs_cq_event(p.end[0].channel, soon));
	vs_free(&p);
}

/* The loop that every program has: arm, poll again, only then wait. */
CASE(arm_poll_wait_loses_nothing)
{
	struct vs_pair p;
	struct ibv_wc wc;
	uint64_t done = 0;

	pair(&p);
	CHECK_EQ(ibv_req_notify_cq(p.end[0].send_cq, 0), 0);
	for (uint64_t i = 0; i < 30; i++) {
		write_one(&p, i);
		while (done <= i) {
			struct ibv_cq *cq = vs_cq_event(p.end[0].channel, VS_LONG);

			CHECK_MSG(cq, "no event for %llu", (unsigned long long)i);
			ibv_ack_cq_events(cq, 1);
			CHECK_EQ(ibv_req_notify_cq(cq, 0), 0);
			while (ibv_poll_cq(cq, 1, &wc) == 1) {
				CHECK_EQ(wc.status, IBV_WC_SUCCESS);
				CHECK_EQ(wc.wr_id, done++);
			}
			if (done <= i && vs_wait(cq, &wc, 0))
				CHECK_EQ(wc.wr_id, done++);
		}
	}
	vs_free(&p);
}

/* ---- solicited ------------------------------------------------------------------------------ */

static void send_to_1(struct vs_pair *p, uint64_t id, unsigned int flags)
{
	struct vs_wr w;

	vs_recv(p, 1, id, 4096, 64);
	vs_fill(&w, p, 0, IBV_WR_SEND, id, 0, 8);
	w.wr.send_flags |= flags;
	CHECK_EQ(vs_post(p->end[0].qp, &w.wr), 0);
	vs_expect(p->end[0].send_cq, id, IBV_WC_SUCCESS, NULL);
}

CASE(solicited_only_waits_for_a_solicited_one)
{
	struct vs_pair p;

	pair(&p);
	CHECK_EQ(ibv_req_notify_cq(p.end[1].recv_cq, 1), 0);
	send_to_1(&p, 1, 0);
	CHECK(!vs_cq_event(p.end[1].channel, soon));
	send_to_1(&p, 2, IBV_SEND_SOLICITED);
	expect_event(p.end[1].channel, p.end[1].recv_cq);
	vs_expect(p.end[1].recv_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_expect(p.end[1].recv_cq, 2, IBV_WC_SUCCESS, NULL);
	vs_free(&p);
}

CASE(a_solicited_write_with_immediate)
{
	struct vs_pair p;
	struct vs_wr w;

	pair(&p);
	CHECK_EQ(ibv_req_notify_cq(p.end[1].recv_cq, 1), 0);
	for (uint64_t i = 0; i < 2; i++) {
		vs_recv(&p, 1, i, 0, 0);
		vs_fill(&w, &p, 0, IBV_WR_RDMA_WRITE_WITH_IMM, i, 0, 8);
		w.wr.send_flags |= i ? IBV_SEND_SOLICITED : 0;
		CHECK_EQ(vs_post(p.end[0].qp, &w.wr), 0);
		vs_expect(p.end[0].send_cq, i, IBV_WC_SUCCESS, NULL);
		if (!i)
			CHECK(!vs_cq_event(p.end[1].channel, soon));
	}
	expect_event(p.end[1].channel, p.end[1].recv_cq);
	vs_free(&p);
}

CASE(an_error_counts_as_solicited)
{
	struct vs_pair p;

	pair(&p);
	vs_recv(&p, 1, 1, 0, 64);
	CHECK_EQ(ibv_req_notify_cq(p.end[1].recv_cq, 1), 0);
	vs_set_state(p.end[1].qp, IBV_QPS_ERR);
	expect_event(p.end[1].channel, p.end[1].recv_cq);
	vs_expect(p.end[1].recv_cq, 1, IBV_WC_WR_FLUSH_ERR, NULL);
	vs_free(&p);
}

CASE(solicited_only_becomes_any)
{
	struct vs_pair p;

	pair(&p);
	CHECK_EQ(ibv_req_notify_cq(p.end[1].recv_cq, 1), 0);
	CHECK_EQ(ibv_req_notify_cq(p.end[1].recv_cq, 0), 0);
	send_to_1(&p, 1, 0);
	expect_event(p.end[1].channel, p.end[1].recv_cq);
	vs_free(&p);
}

CASE(any_does_not_become_solicited_only)
{
	struct vs_pair p;

	pair(&p);
	CHECK_EQ(ibv_req_notify_cq(p.end[1].recv_cq, 0), 0);
	CHECK_EQ(ibv_req_notify_cq(p.end[1].recv_cq, 1), 0);
	send_to_1(&p, 1, 0);
	expect_event(p.end[1].channel, p.end[1].recv_cq);
	vs_free(&p);
}

/* ---- channels ------------------------------------------------------------------------------- */

CASE(a_channel_serves_several_queues)
{
	struct vs_pair p;
	struct ibv_cq *a, *b;

	pair(&p);
	CHECK_EQ(ibv_req_notify_cq(p.end[1].recv_cq, 0), 0);
	CHECK_EQ(ibv_req_notify_cq(p.end[1].send_cq, 0), 0);
	send_to_1(&p, 1, 0);
	vs_send(&p, 1, IBV_WR_RDMA_WRITE, 2, 0, 8);
	CHECK(a = vs_cq_event(p.end[1].channel, VS_LONG));
	CHECK(b = vs_cq_event(p.end[1].channel, VS_LONG));
	CHECK(a != b);
	CHECK((a == p.end[1].recv_cq && b == p.end[1].send_cq) ||
	      (b == p.end[1].recv_cq && a == p.end[1].send_cq));
	ibv_ack_cq_events(a, 1);
	ibv_ack_cq_events(b, 1);
	vs_free(&p);
}

CASE(a_channel_with_a_queue_is_busy, .misuse = true)
{
	struct vs_pair p;

	pair(&p);
	CHECK_CODE(ibv_destroy_comp_channel(p.end[0].channel), EBUSY);
	CHECK_EQ(ibv_req_notify_cq(p.end[0].send_cq, 0), 0); /* still good */
	write_one(&p, 1);
	expect_event(p.end[0].channel, p.end[0].send_cq);
	vs_free(&p);
}

CASE(events_may_be_acknowledged_together)
{
	struct vs_pair p;

	pair(&p);
	for (uint64_t i = 0; i < 5; i++) {
		CHECK_EQ(ibv_req_notify_cq(p.end[0].send_cq, 0), 0);
		write_one(&p, i);
		CHECK(vs_cq_event(p.end[0].channel, VS_LONG));
		vs_expect(p.end[0].send_cq, i, IBV_WC_SUCCESS, NULL);
	}
	ibv_ack_cq_events(p.end[0].send_cq, 5);
	vs_free(&p); /* otherwise it would wait without end */
}

CASE(a_queue_with_an_event_that_nobody_took_is_destroyed)
{
	struct vs_pair p;

	pair(&p);
	CHECK_EQ(ibv_req_notify_cq(p.end[0].send_cq, 0), 0);
	write_one(&p, 1);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_free(&p);
}

struct late {
	struct ibv_cq *cq;
	uint64_t at_ns;
};

static void late_ack(void *arg)
{
	struct late *l = arg;

	vs_sleep_ns(50 * VS_MS);
	l->at_ns = vs_now_ns();
	ibv_ack_cq_events(l->cq, 1);
}

CASE(destroying_a_queue_waits_for_acknowledgement)
{
	struct vs_pair p;
	struct late l = {0};

	pair(&p);
	CHECK_EQ(ibv_req_notify_cq(p.end[0].send_cq, 0), 0);
	write_one(&p, 1);
	CHECK(vs_cq_event(p.end[0].channel, VS_LONG));
	l.cq = p.end[0].send_cq;
	CHECK_EQ(ibv_destroy_qp(p.end[0].qp), 0);
	p.end[0].qp = NULL;
	struct vs_thread *t = vs_thread_start(late_ack, &l);

	CHECK_EQ(ibv_destroy_cq(p.end[0].send_cq), 0);
	CHECK(l.at_ns != 0 && vs_now_ns() >= l.at_ns);
	p.end[0].send_cq = NULL;
	vs_thread_join(t);
	vs_free(&p);
}

struct waiter {
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	void *context;
	int rc;
};

static void waiter_run(void *arg)
{
	struct waiter *w = arg;

	w->rc = ibv_get_cq_event(w->channel, &w->cq, &w->context);
}

CASE(taking_an_event_waits_for_it)
{
	struct vs_pair p;
	struct waiter w = {.rc = -99};

	pair(&p);
	w.channel = p.end[0].channel;
	CHECK_EQ(ibv_req_notify_cq(p.end[0].send_cq, 0), 0);
	struct vs_thread *t = vs_thread_start(waiter_run, &w);

	vs_sleep_ns(20 * VS_MS);
	write_one(&p, 1);
	vs_thread_join(t);
	CHECK_EQ(w.rc, 0);
	CHECK(w.cq == p.end[0].send_cq);
	CHECK(w.context == &p.end[0]);
	ibv_ack_cq_events(w.cq, 1);
	vs_free(&p);
}

/* ---- events of the context ------------------------------------------------------------------ */

struct async_late {
	struct ibv_async_event event;
	uint64_t at_ns;
};

static void async_late_ack(void *arg)
{
	struct async_late *l = arg;

	vs_sleep_ns(50 * VS_MS);
	l->at_ns = vs_now_ns();
	ibv_ack_async_event(&l->event);
}

/* A queue pair with an event: its peer used a wrong key. */
static void with_event(struct vs_pair *p)
{
	struct vs_wr w;

	vs_pair(p, &vs_defaults);
	vs_fill(&w, p, 0, IBV_WR_RDMA_WRITE, 1, 0, 8);
	w.wr.wr.rdma.rkey ^= 0x5a;
	vs_expect_failure(p, &w, IBV_WC_REM_ACCESS_ERR);
}

CASE(destroying_a_queue_pair_waits_for_acknowledgement)
{
	struct vs_pair p;
	struct async_late l = {.at_ns = 0};

	with_event(&p);
	do {
		CHECK(vs_async(p.end[1].ctx, &l.event, VS_LONG));
		if (l.event.event_type != IBV_EVENT_QP_ACCESS_ERR)
			ibv_ack_async_event(&l.event);
	} while (l.event.event_type != IBV_EVENT_QP_ACCESS_ERR);
	struct vs_thread *t = vs_thread_start(async_late_ack, &l);

	CHECK_EQ(ibv_destroy_qp(p.end[1].qp), 0);
	CHECK(l.at_ns != 0 && vs_now_ns() >= l.at_ns);
	p.end[1].qp = NULL;
	vs_thread_join(t);
	vs_free(&p);
}

CASE(an_event_that_nobody_took_goes_with_its_queue_pair)
{
	struct vs_pair p;
	struct ibv_async_event e;

	with_event(&p);
	vs_await_state(p.end[1].qp, IBV_QPS_ERR);
	CHECK_EQ(ibv_destroy_qp(p.end[1].qp), 0);
	p.end[1].qp = NULL;
	CHECK(!vs_async(p.end[1].ctx, &e, soon));
	vs_free(&p);
}

CASE(the_first_packet_establishes_communication)
{
	struct vs_pair p;
	struct ibv_async_event e;

	vs_make(&p, &vs_defaults);
	vs_connect(&p, 1, IBV_QPS_RTR);
	vs_connect(&p, 0, IBV_QPS_RTS);
	vs_send(&p, 0, IBV_WR_RDMA_WRITE, 1, 0, 8);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_expect_async(p.end[1].ctx, IBV_EVENT_COMM_EST, &e);
	CHECK(e.element.qp == p.end[1].qp);
	vs_send(&p, 0, IBV_WR_RDMA_WRITE, 2, 0, 8); /* once */
	vs_expect(p.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL);
	CHECK(!vs_async(p.end[1].ctx, &e, soon));
	vs_free(&p);
}

CASE(a_quiet_context_has_no_events)
{
	struct vs_pair p;
	struct ibv_async_event e;

	vs_pair(&p, &vs_defaults);
	vs_send(&p, 0, IBV_WR_RDMA_WRITE, 1, 0, 8);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	CHECK(!vs_async(p.end[0].ctx, &e, soon));
	CHECK(!vs_async(p.end[1].ctx, &e, 0));
	vs_free(&p);
}
