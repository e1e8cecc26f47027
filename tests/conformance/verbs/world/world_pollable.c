/* SPDX-License-Identifier: BSD-3-Clause */
/* The descriptors that programs poll: readable only while an event is queued, and blocking unless
 * the program sets O_NONBLOCK. The engine sim has no descriptors. */
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "tests/conformance/verbs/harness/world.h"

static bool readable(int fd, int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int n = poll(&p, 1, ms);

	CHECK_GE(n, 0);
	CHECK(n == 0 || p.revents == POLLIN);
	return n == 1;
}

static void nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	CHECK_EQ(flags & O_NONBLOCK, 0); /* as after its creation */
	CHECK_EQ(fcntl(fd, F_SETFL, flags | O_NONBLOCK), 0);
}

/* End 0's sends complete on `cq`, which notifies `channel`. */
struct notified {
	struct vs_pair h;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq[2];
};

static void notified_make(struct notified *t)
{
	vs_make(&t->h, &vw_defaults);
	struct vs_end *e = &t->h.end[0];

	t->channel = ibv_create_comp_channel(e->ctx);
	CHECK(t->channel);
	CHECK_GE(t->channel->fd, 0);
	CHECK_EQ(ibv_destroy_qp(e->qp), 0);
	for (int i = 0; i < 2; i++)
		t->cq[i] = ibv_create_cq(e->ctx, 64, t, t->channel, 0);
	struct ibv_qp_init_attr init = vw_init_attr(&t->h.options, t->cq[0], t->cq[1]);

	e->qp = ibv_create_qp(e->pd, &init);
	CHECK(e->qp);
	vs_connect(&t->h, 0, IBV_QPS_RTS);
	vs_connect(&t->h, 1, IBV_QPS_RTS);
}

static void notified_free(struct notified *t)
{
	struct vs_end *e = &t->h.end[0];

	CHECK_EQ(ibv_destroy_qp(e->qp), 0);
	for (int i = 0; i < 2; i++)
		if (t->cq[i])
			CHECK_EQ(ibv_destroy_cq(t->cq[i]), 0);
	CHECK_EQ(ibv_destroy_comp_channel(t->channel), 0);
	struct ibv_qp_init_attr init = vw_init_attr(&t->h.options, e->send_cq, e->recv_cq);

	e->qp = ibv_create_qp(e->pd, &init);
	vs_free(&t->h);
}

CASE(a_channels_descriptor_is_readable_while_an_event_is_queued, .engine = "threads")
{
	struct ibv_cq *cq = NULL;
	void *context = NULL;
	struct notified t;

	notified_make(&t);
	CHECK(!readable(t.channel->fd, 0));
	vs_send(&t.h, 0, IBV_WR_RDMA_WRITE, 1, 0, 10); /* no event was requested */
	vs_expect(t.cq[0], 1, IBV_WC_SUCCESS, NULL);
	CHECK(!readable(t.channel->fd, 0));
	for (int round = 0; round < 3; round++) {
		CHECK_EQ(ibv_req_notify_cq(t.cq[0], 0), 0);
		vs_send(&t.h, 0, IBV_WR_RDMA_WRITE, 2, 0, 10);
		CHECK(readable(t.channel->fd, 60000));
		CHECK(readable(t.channel->fd, 0)); /* poll(2) takes no event */
		CHECK_EQ(ibv_get_cq_event(t.channel, &cq, &context), 0);
		CHECK(cq == t.cq[0]);
		CHECK(!readable(t.channel->fd, 0));
		ibv_ack_cq_events(cq, 1);
		vs_expect(t.cq[0], 2, IBV_WC_SUCCESS, NULL);
	}
	notified_free(&t);
}

CASE(two_queues_make_one_descriptor_readable_until_both_were_taken, .engine = "threads")
{
	struct ibv_cq *cq = NULL;
	void *context = NULL;
	struct notified t;

	notified_make(&t);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(ibv_req_notify_cq(t.cq[i], 0), 0);
	vs_recv(&t.h, 0, 5, 0, 100);
	vs_send(&t.h, 0, IBV_WR_RDMA_WRITE, 1, 0, 10);
	vs_send(&t.h, 1, IBV_WR_SEND, 2, 0, 10);
	vs_expect(t.cq[0], 1, IBV_WC_SUCCESS, NULL);
	vs_expect(t.cq[1], 5, IBV_WC_SUCCESS, NULL);
	CHECK_EQ(ibv_get_cq_event(t.channel, &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
	CHECK(readable(t.channel->fd, 0));
	CHECK_EQ(ibv_get_cq_event(t.channel, &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
	CHECK(!readable(t.channel->fd, 0));
	notified_free(&t);
}

CASE(the_event_of_a_queue_that_goes_away_is_not_readable, .engine = "threads")
{
	struct notified t;

	notified_make(&t);
	CHECK_EQ(ibv_req_notify_cq(t.cq[0], 0), 0);
	vs_send(&t.h, 0, IBV_WR_RDMA_WRITE, 1, 0, 10);
	CHECK(readable(t.channel->fd, 60000));
	CHECK_EQ(ibv_destroy_qp(t.h.end[0].qp), 0);
	CHECK_EQ(ibv_destroy_cq(t.cq[0]), 0);
	t.cq[0] = NULL;
	CHECK(!readable(t.channel->fd, 0));
	struct vs_end *e = &t.h.end[0];
	struct ibv_qp_init_attr init = vw_init_attr(&t.h.options, e->send_cq, e->recv_cq);

	e->qp = ibv_create_qp(e->pd, &init);
	notified_free(&t);
}

CASE(without_blocking_there_is_nothing_or_an_event, .engine = "threads")
{
	struct ibv_async_event event;
	struct ibv_cq *cq = NULL;
	void *context = NULL;
	struct notified t;

	notified_make(&t);
	nonblocking(t.channel->fd);
	nonblocking(t.h.end[0].ctx->async_fd);
	errno = 0;
	CHECK_EQ(ibv_get_cq_event(t.channel, &cq, &context), -1);
	CHECK_EQ(errno, EAGAIN);
	errno = 0;
	CHECK_EQ(ibv_get_async_event(t.h.end[0].ctx, &event), -1);
	CHECK_EQ(errno, EAGAIN);
	CHECK_EQ(ibv_req_notify_cq(t.cq[0], 0), 0);
	vs_send(&t.h, 0, IBV_WR_RDMA_WRITE, 1, 0, 10);
	CHECK(readable(t.channel->fd, 60000));
	CHECK_EQ(ibv_get_cq_event(t.channel, &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
	CHECK_EQ(ibv_get_cq_event(t.channel, &cq, &context), -1);
	notified_free(&t);
}

CASE(a_contexts_descriptor_is_readable_while_an_event_is_queued, .engine = "threads")
{
	struct ibv_async_event event;
	struct vs_pair h;

	vs_make(&h, &vw_defaults);
	int fd = h.end[0].ctx->async_fd;

	CHECK_GE(fd, 0);
	CHECK(!readable(fd, 0));
	vw_link(0, false);
	os_sleep_ns(1000); /* poll(2) does not drive the events of the world */
	CHECK(readable(fd, 60000));
	vw_link(0, true);
	os_sleep_ns(1000);
	CHECK_EQ(ibv_get_async_event(h.end[0].ctx, &event), 0);
	CHECK_EQ(event.event_type, IBV_EVENT_PORT_ERR);
	ibv_ack_async_event(&event);
	CHECK(readable(fd, 60000));
	CHECK_EQ(ibv_get_async_event(h.end[0].ctx, &event), 0);
	CHECK_EQ(event.event_type, IBV_EVENT_PORT_ACTIVE);
	ibv_ack_async_event(&event);
	CHECK(!readable(fd, 0));
	CHECK(!readable(h.end[1].ctx->async_fd, 0));
	vs_free(&h);
	CHECK_EQ(fcntl(fd, F_GETFD), -1); /* closed with the context */
}

CASE(edges_are_seen_for_each_event, .engine = "threads")
{
	struct epoll_event want = {.events = EPOLLIN | EPOLLET}, got;
	struct ibv_cq *cq = NULL;
	void *context = NULL;
	struct notified t;
	int poller = epoll_create1(0);

	notified_make(&t);
	CHECK_EQ(epoll_ctl(poller, EPOLL_CTL_ADD, t.channel->fd, &want), 0);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(ibv_req_notify_cq(t.cq[i], 0), 0);
	vs_recv(&t.h, 0, 5, 0, 100);
	vs_send(&t.h, 0, IBV_WR_RDMA_WRITE, 1, 0, 10);
	CHECK_EQ(epoll_wait(poller, &got, 1, 60000), 1);
	CHECK_EQ(epoll_wait(poller, &got, 1, 0), 0);
	vs_send(&t.h, 1, IBV_WR_SEND, 2, 0, 10); /* the first event is still queued */
	CHECK_EQ(epoll_wait(poller, &got, 1, 60000), 1);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(ibv_get_cq_event(t.channel, &cq, &context), 0);
		ibv_ack_cq_events(cq, 1);
	}
	CHECK_EQ(close(poller), 0);
	notified_free(&t);
}
