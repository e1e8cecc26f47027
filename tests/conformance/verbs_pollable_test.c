/* SPDX-License-Identifier: BSD-3-Clause */
/* The descriptors that programs poll: readable exactly while an event is queued, and blocking only
 * as long as the program did not make them otherwise. Engine threads; under sim there are none. */
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "tests/conformance/verbs_harness.h"

#define POLLABLE_TEST(name)                                                                        \
	static void name##_body(void);                                                             \
	START_TEST(name)                                                                           \
	{                                                                                          \
		vh_run(1, name##_body);                                                            \
	}                                                                                          \
	END_TEST                                                                                   \
	static void name##_body(void)

static bool readable(int fd, int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int n = poll(&p, 1, ms);

	ck_assert_int_ge(n, 0);
	ck_assert(n == 0 || p.revents == POLLIN);
	return n == 1;
}

static void nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	ck_assert_int_eq(flags & O_NONBLOCK, 0); /* as it was made */
	ck_assert_int_eq(fcntl(fd, F_SETFL, flags | O_NONBLOCK), 0);
}

/* End 0's sends complete on `cq`, which notifies `channel`. */
struct notified {
	struct vh h;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq[2];
};

static void notified_make(struct notified *t)
{
	vh_make(&t->h, &vh_defaults);
	struct vh_end *e = &t->h.end[0];

	t->channel = ibv_create_comp_channel(e->ctx);
	ck_assert_ptr_nonnull(t->channel);
	ck_assert_int_ge(t->channel->fd, 0);
	ck_assert_int_eq(ibv_destroy_qp(e->qp), 0);
	for (int i = 0; i < 2; i++)
		t->cq[i] = ibv_create_cq(e->ctx, 64, t, t->channel, 0);
	struct ibv_qp_init_attr init = vh_init_attr(&t->h.options, t->cq[0], t->cq[1]);

	e->qp = ibv_create_qp(e->pd, &init);
	ck_assert_ptr_nonnull(e->qp);
	vh_connect_end(&t->h, 0, IBV_QPS_RTS);
	vh_connect_end(&t->h, 1, IBV_QPS_RTS);
}

static void notified_free(struct notified *t)
{
	struct vh_end *e = &t->h.end[0];

	ck_assert_int_eq(ibv_destroy_qp(e->qp), 0);
	for (int i = 0; i < 2; i++)
		if (t->cq[i])
			ck_assert_int_eq(ibv_destroy_cq(t->cq[i]), 0);
	ck_assert_int_eq(ibv_destroy_comp_channel(t->channel), 0);
	struct ibv_qp_init_attr init = vh_init_attr(&t->h.options, e->send_cq, e->recv_cq);

	e->qp = ibv_create_qp(e->pd, &init);
	vh_free(&t->h);
}

POLLABLE_TEST(a_channels_descriptor_is_readable_while_an_event_is_queued)
{
	struct ibv_cq *cq = NULL;
	void *context = NULL;
	struct notified t;

	notified_make(&t);
	ck_assert(!readable(t.channel->fd, 0));
	vh_send(&t.h, 0, IBV_WR_RDMA_WRITE, 1, 0, 10); /* no event was requested */
	vh_expect(t.cq[0], 1, IBV_WC_SUCCESS, NULL);
	ck_assert(!readable(t.channel->fd, 0));
	for (int round = 0; round < 3; round++) {
		ck_assert_int_eq(ibv_req_notify_cq(t.cq[0], 0), 0);
		vh_send(&t.h, 0, IBV_WR_RDMA_WRITE, 2, 0, 10);
		ck_assert(readable(t.channel->fd, 60000));
		ck_assert(readable(t.channel->fd, 0)); /* looking takes nothing */
		ck_assert_int_eq(ibv_get_cq_event(t.channel, &cq, &context), 0);
		ck_assert_ptr_eq(cq, t.cq[0]);
		ck_assert(!readable(t.channel->fd, 0));
		ibv_ack_cq_events(cq, 1);
		vh_expect(t.cq[0], 2, IBV_WC_SUCCESS, NULL);
	}
	notified_free(&t);
}

POLLABLE_TEST(two_queues_make_one_descriptor_readable_until_both_were_taken)
{
	struct ibv_cq *cq = NULL;
	void *context = NULL;
	struct notified t;

	notified_make(&t);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(ibv_req_notify_cq(t.cq[i], 0), 0);
	vh_recv(&t.h, 0, 5, 0, 100);
	vh_send(&t.h, 0, IBV_WR_RDMA_WRITE, 1, 0, 10);
	vh_send(&t.h, 1, IBV_WR_SEND, 2, 0, 10);
	vh_expect(t.cq[0], 1, IBV_WC_SUCCESS, NULL);
	vh_expect(t.cq[1], 5, IBV_WC_SUCCESS, NULL);
	ck_assert_int_eq(ibv_get_cq_event(t.channel, &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
	ck_assert(readable(t.channel->fd, 0));
	ck_assert_int_eq(ibv_get_cq_event(t.channel, &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
	ck_assert(!readable(t.channel->fd, 0));
	notified_free(&t);
}

POLLABLE_TEST(the_event_of_a_queue_that_goes_away_is_not_readable)
{
	struct notified t;

	notified_make(&t);
	ck_assert_int_eq(ibv_req_notify_cq(t.cq[0], 0), 0);
	vh_send(&t.h, 0, IBV_WR_RDMA_WRITE, 1, 0, 10);
	ck_assert(readable(t.channel->fd, 60000));
	ck_assert_int_eq(ibv_destroy_qp(t.h.end[0].qp), 0);
	ck_assert_int_eq(ibv_destroy_cq(t.cq[0]), 0);
	t.cq[0] = NULL;
	ck_assert(!readable(t.channel->fd, 0));
	struct vh_end *e = &t.h.end[0];
	struct ibv_qp_init_attr init = vh_init_attr(&t.h.options, e->send_cq, e->recv_cq);

	e->qp = ibv_create_qp(e->pd, &init);
	notified_free(&t);
}

POLLABLE_TEST(without_blocking_there_is_nothing_or_an_event)
{
	struct ibv_async_event event;
	struct ibv_cq *cq = NULL;
	void *context = NULL;
	struct notified t;

	notified_make(&t);
	nonblocking(t.channel->fd);
	nonblocking(t.h.end[0].ctx->async_fd);
	errno = 0;
	ck_assert_int_eq(ibv_get_cq_event(t.channel, &cq, &context), -1);
	ck_assert_int_eq(errno, EAGAIN);
	errno = 0;
	ck_assert_int_eq(ibv_get_async_event(t.h.end[0].ctx, &event), -1);
	ck_assert_int_eq(errno, EAGAIN);
	ck_assert_int_eq(ibv_req_notify_cq(t.cq[0], 0), 0);
	vh_send(&t.h, 0, IBV_WR_RDMA_WRITE, 1, 0, 10);
	ck_assert(readable(t.channel->fd, 60000));
	ck_assert_int_eq(ibv_get_cq_event(t.channel, &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
	ck_assert_int_eq(ibv_get_cq_event(t.channel, &cq, &context), -1);
	notified_free(&t);
}

POLLABLE_TEST(a_contexts_descriptor_is_readable_while_an_event_is_queued)
{
	struct ibv_async_event event;
	struct vh h;

	vh_make(&h, &vh_defaults);
	int fd = h.end[0].ctx->async_fd;

	ck_assert_int_ge(fd, 0);
	ck_assert(!readable(fd, 0));
	vh_link(0, false);
	os_sleep_ns(1000); /* poll(2) does not drive the events of the world */
	ck_assert(readable(fd, 60000));
	vh_link(0, true);
	os_sleep_ns(1000);
	ck_assert_int_eq(ibv_get_async_event(h.end[0].ctx, &event), 0);
	ck_assert_int_eq(event.event_type, IBV_EVENT_PORT_ERR);
	ibv_ack_async_event(&event);
	ck_assert(readable(fd, 60000));
	ck_assert_int_eq(ibv_get_async_event(h.end[0].ctx, &event), 0);
	ck_assert_int_eq(event.event_type, IBV_EVENT_PORT_ACTIVE);
	ibv_ack_async_event(&event);
	ck_assert(!readable(fd, 0));
	ck_assert(!readable(h.end[1].ctx->async_fd, 0));
	vh_free(&h);
	ck_assert_int_eq(fcntl(fd, F_GETFD), -1); /* closed with the context */
}

POLLABLE_TEST(edges_are_seen_for_each_event)
{
	struct epoll_event want = {.events = EPOLLIN | EPOLLET}, got;
	struct ibv_cq *cq = NULL;
	void *context = NULL;
	struct notified t;
	int poller = epoll_create1(0);

	notified_make(&t);
	ck_assert_int_eq(epoll_ctl(poller, EPOLL_CTL_ADD, t.channel->fd, &want), 0);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(ibv_req_notify_cq(t.cq[i], 0), 0);
	vh_recv(&t.h, 0, 5, 0, 100);
	vh_send(&t.h, 0, IBV_WR_RDMA_WRITE, 1, 0, 10);
	ck_assert_int_eq(epoll_wait(poller, &got, 1, 60000), 1);
	ck_assert_int_eq(epoll_wait(poller, &got, 1, 0), 0);
	vh_send(&t.h, 1, IBV_WR_SEND, 2, 0, 10); /* the first one still waits there */
	ck_assert_int_eq(epoll_wait(poller, &got, 1, 60000), 1);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(ibv_get_cq_event(t.channel, &cq, &context), 0);
		ibv_ack_cq_events(cq, 1);
	}
	ck_assert_int_eq(close(poller), 0);
	notified_free(&t);
}

int main(void)
{
	TCase *t = tcase_create("pollable");

	tcase_add_test(t, a_channels_descriptor_is_readable_while_an_event_is_queued);
	tcase_add_test(t, two_queues_make_one_descriptor_readable_until_both_were_taken);
	tcase_add_test(t, the_event_of_a_queue_that_goes_away_is_not_readable);
	tcase_add_test(t, without_blocking_there_is_nothing_or_an_event);
	tcase_add_test(t, a_contexts_descriptor_is_readable_while_an_event_is_queued);
	tcase_add_test(t, edges_are_seen_for_each_event);
	return vh_suite_run("verbs pollable", t);
}
