/* SPDX-License-Identifier: BSD-3-Clause */
/* Events: completion channels, asynchronous events of ports, queues and queue pairs, a completion
 * queue that runs over, and acknowledgements that destroy waits for. */
#include "tests/conformance/verbs_harness.h"

static void expect_event(struct vh_end *e, enum ibv_event_type type)
{
	struct ibv_async_event event;

	ck_assert_int_eq(ibv_get_async_event(e->ctx, &event), 0);
	ck_assert_msg(event.event_type == type, "got \"%s\", expected \"%s\"",
		      ibv_event_type_str(event.event_type), ibv_event_type_str(type));
	if (type == IBV_EVENT_COMM_EST || type == IBV_EVENT_QP_ACCESS_ERR ||
	    type == IBV_EVENT_QP_FATAL)
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

VH_TEST(the_first_packet_in_rtr_establishes_communication)
{
	struct vh h;

	vh_make(&h, &vh_defaults);
	vh_connect_end(&h, 0, IBV_QPS_RTS);
	vh_connect_end(&h, 1, IBV_QPS_RTR);
	vh_send(&h, 0, IBV_WR_RDMA_WRITE, 1, 0, 100);
	vh_send(&h, 0, IBV_WR_RDMA_WRITE, 2, 0, 100);
	vh_expect(h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vh_expect(h.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL);
	expect_event(&h.end[1], IBV_EVENT_COMM_EST);
	/* once */
	vh_link(1, false);
	expect_event(&h.end[1], IBV_EVENT_PORT_ERR);
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

static void ack_later(void *arg)
{
	struct taker *t = arg;

	os_sleep_ns(1000000);
	shared_store_u32(&t->took, 1, SHARED_RELEASE);
	ibv_ack_async_event(&t->event);
}

VH_TEST(destroying_a_queue_pair_waits_for_the_acknowledgement)
{
	struct vh h;
	struct taker t = {.h = &h};
	struct os_thread *thread;
	const struct os_thread_attr attr = {.name = "acker", .rank = -1};

	vh_make(&h, &vh_defaults);
	vh_connect_end(&h, 0, IBV_QPS_RTR);
	vh_connect_end(&h, 1, IBV_QPS_RTS);
	vh_send(&h, 1, IBV_WR_RDMA_WRITE, 1, 0, 100);
	ck_assert_int_eq(ibv_get_async_event(h.end[0].ctx, &t.event), 0);
	ck_assert_int_eq(t.event.event_type, IBV_EVENT_COMM_EST);
	ck_assert_int_eq(os_thread_start(&thread, &attr, ack_later, &t), 0);
	vh_free(&h);
	ck_assert_uint_eq(shared_load_u32(&t.took, SHARED_ACQUIRE), 1);
	ck_assert_int_eq(os_thread_join(thread), 0);
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

VH_TEST(a_completion_queue_that_is_exactly_full_is_fine)
{
	struct vh_options o = vh_defaults;
	struct vh h;

	o.cqe = 4;
	vh_pair(&h, &o);
	for (uint32_t round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < 4; i++)
			vh_send(&h, 0, IBV_WR_RDMA_WRITE, i, 0, 10);
		os_sleep_ns(VH_SECOND_NS / 100);
		for (uint32_t i = 0; i < 4; i++)
			vh_expect(h.end[0].send_cq, i, IBV_WC_SUCCESS, NULL);
	}
	vh_free(&h);
}

/* ---- completion channels -------------------------------------------------------------------- */

struct channel {
	struct vh h;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

/* End 0 with a queue pair more, whose completions go to a queue with a channel. */
static void channel_make(struct channel *c)
{
	vh_make(&c->h, &vh_defaults);
	struct vh_end *e = &c->h.end[0];

	c->channel = ibv_create_comp_channel(e->ctx);
	ck_assert_ptr_nonnull(c->channel);
	c->cq = ibv_create_cq(e->ctx, 32, c, c->channel, 0);
	ck_assert_ptr_nonnull(c->cq);
	struct ibv_qp_init_attr init = vh_init_attr(&c->h.options, c->cq, c->cq);

	ck_assert_int_eq(ibv_destroy_qp(e->qp), 0);
	c->qp = e->qp = ibv_create_qp(e->pd, &init);
	ck_assert_ptr_nonnull(e->qp);
	vh_connect_end(&c->h, 0, IBV_QPS_RTS);
	vh_connect_end(&c->h, 1, IBV_QPS_RTS);
}

static void channel_free(struct channel *c)
{
	struct vh_end *e = &c->h.end[0];
	struct ibv_qp_init_attr init = vh_init_attr(&c->h.options, e->send_cq, e->recv_cq);

	ck_assert_int_eq(ibv_destroy_qp(e->qp), 0);
	errno = 0; /* rdma-core refuses this one without the kernel; here errno is set all the same */
	ck_assert_int_eq(ibv_destroy_comp_channel(c->channel), EBUSY);
	ck_assert_int_eq(errno, EBUSY);
	ck_assert_int_eq(ibv_destroy_cq(c->cq), 0);
	ck_assert_int_eq(ibv_destroy_comp_channel(c->channel), 0);
	e->qp = ibv_create_qp(e->pd, &init);
	vh_free(&c->h);
}

static void expect_cq_event(struct channel *c)
{
	struct ibv_cq *cq = NULL;
	void *context = NULL;

	ck_assert_int_eq(ibv_get_cq_event(c->channel, &cq, &context), 0);
	ck_assert_ptr_eq(cq, c->cq);
	ck_assert_ptr_eq(context, c);
	ibv_ack_cq_events(cq, 1);
}

VH_TEST(an_armed_queue_makes_one_event)
{
	struct channel c;
	struct ibv_wc wc[4];

	channel_make(&c);
	vh_send(&c.h, 0, IBV_WR_RDMA_WRITE, 1, 0, 10); /* not armed: no event */
	os_sleep_ns(VH_SECOND_NS / 100);
	ck_assert_int_eq(ibv_poll_cq(c.cq, 4, wc), 1);
	ck_assert_int_eq(ibv_req_notify_cq(c.cq, 0), 0);
	vh_send(&c.h, 0, IBV_WR_RDMA_WRITE, 2, 0, 10);
	vh_send(&c.h, 0, IBV_WR_RDMA_WRITE, 3, 0, 10);
	expect_cq_event(&c);
	os_sleep_ns(VH_SECOND_NS / 100);
	ck_assert_int_eq(ibv_poll_cq(c.cq, 4, wc), 2);
	/* armed anew: the next completion makes the next event */
	ck_assert_int_eq(ibv_req_notify_cq(c.cq, 0), 0);
	vh_send(&c.h, 0, IBV_WR_RDMA_WRITE, 4, 0, 10);
	expect_cq_event(&c);
	ck_assert_int_eq(ibv_poll_cq(c.cq, 4, wc), 1);
	ck_assert_uint_eq(wc[0].wr_id, 4);
	channel_free(&c);
}

VH_TEST(a_solicited_event_waits_for_a_solicited_completion)
{
	struct channel c;
	struct vh_wr w;
	struct ibv_wc wc[4];

	channel_make(&c);
	for (uint32_t i = 0; i < 2; i++)
		vh_recv(&c.h, 0, 10 + i, 0, 100);
	ck_assert_int_eq(ibv_req_notify_cq(c.cq, 1), 0);
	vh_send(&c.h, 1, IBV_WR_SEND, 1, 0, 10);
	vh_expect(c.h.end[1].send_cq, 1, IBV_WC_SUCCESS, NULL);
	ck_assert_int_eq(ibv_poll_cq(c.cq, 4, wc), 1);
	vh_wr_fill(&w, &c.h, 1, IBV_WR_SEND, 2, 0, 10);
	w.wr.send_flags |= IBV_SEND_SOLICITED;
	ck_assert_int_eq(vh_post(c.h.end[1].qp, &w.wr), 0);
	expect_cq_event(&c);
	ck_assert_int_eq(ibv_poll_cq(c.cq, 4, wc), 1);
	ck_assert_uint_eq(wc[0].wr_id, 11);
	/* an error counts as solicited */
	ck_assert_int_eq(ibv_req_notify_cq(c.cq, 1), 0);
	vh_recv(&c.h, 0, 12, 0, 100);
	vh_to_state(c.qp, IBV_QPS_ERR);
	expect_cq_event(&c);
	ck_assert_int_eq(ibv_poll_cq(c.cq, 4, wc), 1);
	ck_assert_int_eq(wc[0].status, IBV_WC_WR_FLUSH_ERR);
	channel_free(&c);
}

VH_TEST(arming_for_any_is_not_weakened_to_solicited)
{
	struct channel c;
	struct ibv_wc wc;

	channel_make(&c);
	ck_assert_int_eq(ibv_req_notify_cq(c.cq, 0), 0);
	ck_assert_int_eq(ibv_req_notify_cq(c.cq, 1), 0);
	vh_send(&c.h, 0, IBV_WR_RDMA_WRITE, 1, 0, 10);
	expect_cq_event(&c);
	ck_assert_int_eq(ibv_poll_cq(c.cq, 1, &wc), 1);
	channel_free(&c);
}

int main(void)
{
	TCase *t = tcase_create("events");

	VH_ADD(t, a_port_that_goes_down_and_up_tells_its_contexts);
	VH_ADD(t, the_first_packet_in_rtr_establishes_communication);
	VH_ADD(t, a_task_waits_for_an_event_that_comes_later);
	VH_ADD(t, destroying_a_queue_pair_waits_for_the_acknowledgement);
	VH_ADD(t, a_completion_queue_that_runs_over_ends_its_queue_pairs);
	VH_ADD(t, a_completion_queue_that_is_exactly_full_is_fine);
	VH_ADD(t, an_armed_queue_makes_one_event);
	VH_ADD(t, a_solicited_event_waits_for_a_solicited_completion);
	VH_ADD(t, arming_for_any_is_not_weakened_to_solicited);
	return vh_suite_run("verbs events", t);
}
