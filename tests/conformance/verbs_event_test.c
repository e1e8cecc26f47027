/* SPDX-License-Identifier: BSD-3-Clause */
/* Events that need a world: ports that go down and up, and what a completion queue that runs over
 * does to its queue pairs. Channels and the other events are in verbs/channel.c. */
#include "tests/conformance/verbs_harness.h"

static void expect_event(struct vh_end *e, enum ibv_event_type type)
{
	struct ibv_async_event event;

	ck_assert_int_eq(ibv_get_async_event(e->ctx, &event), 0);
	ck_assert_msg(event.event_type == type, "got \"%s\", expected \"%s\"",
		      ibv_event_type_str(event.event_type), ibv_event_type_str(type));
	if (type == IBV_EVENT_QP_FATAL)
		ck_assert_ptr_eq(event.element.qp, e->qp);
	if (type == IBV_EVENT_PORT_ERR || type == IBV_EVENT_PORT_ACTIVE)
		ck_assert_int_eq(event.element.port_num, 1);
	ibv_ack_async_event(&event);
}

/* ---- asynchronous events -------------------------------------------------------------------- */

VH_TEST(a_port_that_goes_down_and_up_tells_its_contexts)
{
	struct vh h;
	struct ibv_port_attr port;

	vh_make(&h, &vh_defaults);
	vh_link(0, false);
	expect_event(&h.end[0], IBV_EVENT_PORT_ERR);
	ck_assert_int_eq(ibv_query_port(h.end[0].ctx, 1, &port), 0);
	ck_assert_int_eq(port.state, IBV_PORT_DOWN);
	ck_assert_int_eq(ibv_query_port(h.end[1].ctx, 1, &port), 0);
	ck_assert_int_eq(port.state, IBV_PORT_ACTIVE);
	vh_link(0, true);
	expect_event(&h.end[0], IBV_EVENT_PORT_ACTIVE);
	ck_assert_int_eq(ibv_query_port(h.end[0].ctx, 1, &port), 0);
	ck_assert_int_eq(port.state, IBV_PORT_ACTIVE);
	vh_free(&h);
}

/* A task that takes one event of end 0 and records what it was. */
struct taker {
	struct vh *h;
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

VH_TEST(a_task_waits_for_an_event_that_comes_later)
{
	struct vh h;
	struct taker t = {.h = &h};
	struct os_thread *thread;
	const struct os_thread_attr attr = {.name = "taker", .rank = -1};

	vh_make(&h, &vh_defaults);
	ck_assert_int_eq(os_thread_start(&thread, &attr, take_event, &t), 0);
	os_sleep_ns(100000);
	ck_assert_uint_eq(shared_load_u32(&t.took, SHARED_ACQUIRE), 0);
	vh_link(0, false);
	ck_assert_int_eq(os_thread_join(thread), 0);
	ck_assert_int_eq(t.rc, 0);
	ck_assert_int_eq(t.event.event_type, IBV_EVENT_PORT_ERR);
	ibv_ack_async_event(&t.event);
	vh_free(&h);
}

/* ---- a completion queue that runs over ------------------------------------------------------ */

VH_TEST(a_completion_queue_that_runs_over_ends_its_queue_pairs)
{
	struct vh_options o = vh_defaults;
	struct vh h;
	struct ibv_wc wc;
	int n = 0;

	o.cqe = 4;
	vh_pair(&h, &o);
	sim_expect_misuse("verbs-cq-overrun");
	for (uint32_t i = 0; i < 8; i++)
		vh_send(&h, 0, IBV_WR_RDMA_WRITE, i, 0, 10);
	expect_event(&h.end[0], IBV_EVENT_CQ_ERR);
	expect_event(&h.end[0], IBV_EVENT_QP_FATAL);
	ck_assert_int_eq(vh_state(h.end[0].qp), IBV_QPS_ERR);
	ck_assert_int_eq(vh_state(h.end[1].qp), IBV_QPS_RTS);
	while (ibv_poll_cq(h.end[0].send_cq, 1, &wc) == 1) {
		ck_assert_uint_eq(wc.wr_id, (uint64_t)n++);
		ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	}
	ck_assert_int_eq(n, 4); /* the first ones were not overwritten */
	vh_free(&h);
}

int main(void)
{
	TCase *t = tcase_create("events");

	VH_ADD(t, a_port_that_goes_down_and_up_tells_its_contexts);
	VH_ADD(t, a_task_waits_for_an_event_that_comes_later);
	VH_ADD(t, a_completion_queue_that_runs_over_ends_its_queue_pairs);
	return vh_suite_run("verbs events", t);
}
