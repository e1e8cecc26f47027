/* SPDX-License-Identifier: BSD-3-Clause */
/* Events that need a world: ports that go down and up, and a completion queue that overruns.
 * Channels and other events are tested in channel_cases.c. */
#include "tests/conformance/verbs/harness/world.h"

static void expect_event(struct vs_end *e, enum ibv_event_type type)
{
	struct ibv_async_event event;

	CHECK_EQ(ibv_get_async_event(e->ctx, &event), 0);
	CHECK_MSG(event.event_type == type, "got \"%s\", expected \"%s\"",
		  ibv_event_type_str(event.event_type), ibv_event_type_str(type));
	if (type == IBV_EVENT_QP_FATAL)
		CHECK(event.element.qp == e->qp);
	if (type == IBV_EVENT_PORT_ERR || type == IBV_EVENT_PORT_ACTIVE)
		CHECK_EQ(event.element.port_num, 1);
	ibv_ack_async_event(&event);
}

/* ---- asynchronous events -------------------------------------------------------------------- */

CASE(a_port_that_goes_down_and_up_tells_its_contexts)
{
	struct vs_pair h;
	struct ibv_port_attr port;

	vs_make(&h, &vw_defaults);
	vw_link(0, false);
	expect_event(&h.end[0], IBV_EVENT_PORT_ERR);
	CHECK_EQ(ibv_query_port(h.end[0].ctx, 1, &port), 0);
	CHECK_EQ(port.state, IBV_PORT_DOWN);
	CHECK_EQ(ibv_query_port(h.end[1].ctx, 1, &port), 0);
	CHECK_EQ(port.state, IBV_PORT_ACTIVE);
	vw_link(0, true);
	expect_event(&h.end[0], IBV_EVENT_PORT_ACTIVE);
	CHECK_EQ(ibv_query_port(h.end[0].ctx, 1, &port), 0);
	CHECK_EQ(port.state, IBV_PORT_ACTIVE);
	vs_free(&h);
}

/* A task that takes one event of end 0 and records it. */
struct taker {
	struct vs_pair *h;
	struct ibv_async_event event;
	int rc, error;
	shared_u32 took;
};

static void take_event(void *arg)
{
	struct taker *t = arg;

	t->rc = ibv_get_async_event(t->h->end[0].ctx, &t->event);
	t->error = errno;
	shared_store_u32(&t->took, 1, SHARED_RELEASE);
}

CASE(a_task_waits_for_an_event_that_comes_later)
{
	struct vs_pair h;
	struct taker t = {.h = &h};
	struct os_thread *thread;
	const struct os_thread_attr attr = {.name = "taker", .rank = -1};

	vs_make(&h, &vw_defaults);
	CHECK_EQ(os_thread_start(&thread, &attr, take_event, &t), 0);
	os_sleep_ns(100000);
	CHECK_EQ(shared_load_u32(&t.took, SHARED_ACQUIRE), 0);
	vw_link(0, false);
	CHECK_EQ(os_thread_join(thread), 0);
	CHECK_EQ(t.rc, 0);
	CHECK_EQ(t.event.event_type, IBV_EVENT_PORT_ERR);
	ibv_ack_async_event(&t.event);
	vs_free(&h);
}

/* ---- a completion queue that runs over ------------------------------------------------------ */

CASE(a_completion_queue_that_runs_over_ends_its_queue_pairs)
{
	struct vs_options o = vw_defaults;
	struct vs_pair h;
	struct ibv_wc wc;
	int n = 0;

	o.cqe = 4;
	vs_pair(&h, &o);
	sim_expect_misuse("verbs-cq-overrun");
	for (uint32_t i = 0; i < 8; i++)
		vs_send(&h, 0, IBV_WR_RDMA_WRITE, i, 0, 10);
	expect_event(&h.end[0], IBV_EVENT_CQ_ERR);
	expect_event(&h.end[0], IBV_EVENT_QP_FATAL);
	CHECK_EQ(vs_state(h.end[0].qp), IBV_QPS_ERR);
	CHECK_EQ(vs_state(h.end[1].qp), IBV_QPS_RTS);
	while (ibv_poll_cq(h.end[0].send_cq, 1, &wc) == 1) {
		CHECK_EQ(wc.wr_id, (uint64_t)n++);
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	}
	CHECK_EQ(n, 4); /* the first ones were not overwritten */
	vs_free(&h);
}
