/* SPDX-License-Identifier: BSD-3-Clause */
/* Event channels: events of identifiers, in order. The program gets them one by one and
 * acknowledges each. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "dropin/rdmacm/cm.h"

#define CM_BATCH         16
#define CM_GONE_CHANNELS 16 /* destroyed channels that are kept */

struct cm cm = {.lock = PTHREAD_MUTEX_INITIALIZER,
		.defaults = PTHREAD_MUTEX_INITIALIZER,
		.acknowledged = PTHREAD_COND_INITIALIZER};

int cm_result(int e)
{
	if (!e)
		return 0;
	errno = e;
	return -1;
}

/* ---- create and destroy --------------------------------------------------------------------- */

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct epoll_event on = {.events = EPOLLIN};
	struct cm_channel *c = calloc(1, sizeof *c);

	if (!c)
		return NULL;
	c->last = &c->first;
	c->ready = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	c->rdma.fd = epoll_create1(EPOLL_CLOEXEC);
	if (c->ready >= 0 && c->rdma.fd >= 0 &&
	    epoll_ctl(c->rdma.fd, EPOLL_CTL_ADD, c->ready, &on) == 0)
		return &c->rdma;
	int e = errno;

	if (c->rdma.fd >= 0)
		close(c->rdma.fd);
	if (c->ready >= 0)
		close(c->ready);
	free(c);
	errno = e;
	return NULL;
}

/* Keeps a destroyed channel for threads that still wait for its events, or are about to, as rping's
 * when it exits. Frees older ones. Caller holds cm.lock. */
static void cm_channel_keep(struct cm_channel *c)
{
	static struct cm_channel *newest;
	struct cm_channel **at = &newest;

	c->destroyed = true;
	c->gone_before = newest;
	newest = c;
	for (int n = 0; *at; n++) {
		struct cm_channel *old = *at;

		if (n < CM_GONE_CHANNELS || old->waiters) {
			at = &old->gone_before;
			continue;
		}
		*at = old->gone_before;
		free(old);
	}
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	struct cm_channel *c = cm_channel_of(channel);

	if (!c)
		return;
	pthread_mutex_lock(&cm.lock);
	while (c->first) {
		struct cm_event *e = c->first;

		c->first = e->next;
		free(e);
	}
	c->last = &c->first;
	close(c->rdma.fd);
	close(c->ready);
	cm_channel_keep(c);
	pthread_mutex_unlock(&cm.lock);
}

int cm_channel_watch(struct cm_id *id)
{
	struct epoll_event on = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = id};

	return epoll_ctl(id->rdma.channel->fd, EPOLL_CTL_ADD, id->fd, &on) ? errno : 0;
}

void cm_channel_unwatch(struct cm_id *id)
{
	if (id->fd >= 0)
		epoll_ctl(id->rdma.channel->fd, EPOLL_CTL_DEL, id->fd, NULL);
}

/* ---- time wait ------------------------------------------------------------------------------ */

/* Returns the epoll tag of the identifier's timer: an odd pointer, because identifiers are
 * aligned. */
static void *cm_timer_tag(struct cm_id *id)
{
	return (uint8_t *)id + 1;
}

static int cm_timewait_watch(struct cm_id *id)
{
	struct epoll_event on = {.events = EPOLLIN, .data.ptr = cm_timer_tag(id)};

	return epoll_ctl(id->rdma.channel->fd, EPOLL_CTL_ADD, id->timewait, &on);
}

/* The kernel's rule: 2^(timeout - 8) ms approximates 4.096 us << timeout, the time of a packet and
 * its acknowledgement. */
void cm_timewait_begin(struct cm_id *id)
{
	uint8_t timeout = cm_qp_ack_timeout(id);
	uint64_t ms = timeout > 8 ? 1ull << (timeout - 8) : 1;
	const struct itimerspec after = {.it_value = {.tv_sec = (time_t)(ms / 1000),
						      .tv_nsec = (long)(ms % 1000 * 1000000)}};

	cm_timewait_cancel(id);
	id->timewait = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (id->timewait >= 0 && timerfd_settime(id->timewait, 0, &after, NULL) == 0 &&
	    cm_timewait_watch(id) == 0)
		return;
	fprintf(stderr,
		"rdmacm: no timer for RDMA_CM_EVENT_TIMEWAIT_EXIT, which will not arrive: %s\n",
		strerror(errno));
	cm_timewait_cancel(id);
}

void cm_timewait_cancel(struct cm_id *id)
{
	if (id->timewait < 0)
		return;
	/* A child of fork() may hold the descriptor too. Then close() would not remove it from the
	 * set. */
	epoll_ctl(id->rdma.channel->fd, EPOLL_CTL_DEL, id->timewait, NULL);
	close(id->timewait);
	id->timewait = -1;
}

static void cm_timewait_over(struct cm_id *id)
{
	cm_timewait_cancel(id);
	cm_event_add(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
}

/* ---- events --------------------------------------------------------------------------------- */

static void cm_channel_put(struct cm_channel *c, struct cm_event *e)
{
	const uint64_t one = 1;
	ssize_t n = 0;

	e->next = NULL;
	if (!c->first)
		n = write(c->ready, &one, sizeof one);
	(void)n; /* cannot fail: the counter is 0 or 1 */
	*c->last = e;
	c->last = &e->next;
}

static struct cm_event *cm_channel_take(struct cm_channel *c)
{
	struct cm_event *e = c->first;
	uint64_t count;

	if (!e)
		return NULL;
	c->first = e->next;
	if (c->first)
		return e;
	c->last = &c->first;
	ssize_t n = read(c->ready, &count, sizeof count);

	(void)n; /* cannot fail: it was readable, because the queue was not empty */
	return e;
}

struct cm_event *cm_event_add(struct cm_id *id, enum rdma_cm_event_type type, int status)
{
	struct cm_event *e = calloc(1, sizeof *e);

	if (!e)
		return NULL;
	e->event.id = &id->rdma;
	e->event.event = type;
	e->event.status = status;
	e->counted = id;
	cm_channel_put(cm_channel_of(id->rdma.channel), e);
	return e;
}

static void cm_event_fill_private(struct cm_event *e, const void *data, size_t bytes, size_t room)
{
	if (bytes)
		memcpy(e->private_data, data, bytes < room ? bytes : room);
}

void cm_event_private(struct cm_event *e, const void *data, size_t bytes, size_t room)
{
	cm_event_fill_private(e, data, bytes, room);
	e->event.param.ud.private_data = bytes ? e->private_data : NULL;
	e->event.param.ud.private_data_len = bytes ? (uint8_t)room : 0;
}

void cm_event_conn(struct cm_event *e, const struct cm_message *m, size_t room)
{
	cm_event_fill_private(e, m->private_data, m->private_bytes, room);
	e->event.param.conn =
		(struct rdma_conn_param){.private_data = m->private_bytes ? e->private_data : NULL,
					 .private_data_len = m->private_bytes ? (uint8_t)room : 0,
					 .responder_resources = m->initiator_depth,
					 .initiator_depth = m->responder_resources,
					 .flow_control = m->flow_control,
					 .retry_count = m->retry_count,
					 .rnr_retry_count = m->rnr_retry_count,
					 .srq = m->has_srq,
					 .qp_num = m->qpn};
}

static void cm_channel_ready(void *tag)
{
	if (!tag)
		return; /* only the eventfd: events are queued */
	if ((uintptr_t)tag & 1)
		cm_timewait_over((struct cm_id *)((uint8_t *)tag - 1));
	else
		cm_id_progress(tag);
}

/* Reads what arrived for identifiers of the channel, and queues the resulting events. */
static void cm_channel_progress(struct cm_channel *c)
{
	struct epoll_event ready[CM_BATCH];

	for (int again = CM_BATCH; again > 0 && !c->first; again--) {
		int n = epoll_wait(c->rdma.fd, ready, CM_BATCH, 0);

		if (n <= 0)
			return;
		for (int i = 0; i < n; i++)
			cm_channel_ready(ready[i].data.ptr);
	}
}

static void cm_event_taken(struct cm_event *e)
{
	e->counted->taken++;
	if (e->event.event == RDMA_CM_EVENT_CONNECT_REQUEST)
		cm_id_of(e->event.id)->known = true;
}

/* Waits until the channel may have an event. The caller holds cm.lock, which is released meanwhile.
 * Returns -1 with errno after a signal. With the kernel, a thread that waits for the events of a
 * channel that is destroyed sleeps until the process ends. */
static int cm_channel_wait(struct cm_channel *c)
{
	struct pollfd p = {.fd = c->rdma.fd, .events = POLLIN};
	bool gone = c->destroyed;

	c->waiters++;
	pthread_mutex_unlock(&cm.lock);
	int n = poll(&p, gone ? 0 : 1, -1), e = errno;

	pthread_mutex_lock(&cm.lock);
	c->waiters--;
	errno = e;
	return n;
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	struct cm_channel *c = cm_channel_of(channel);

	if (!event)
		return cm_result(EINVAL);
	*event = NULL;
	if (!channel)
		return cm_result(EINVAL);
	pthread_mutex_lock(&cm.lock);
	for (;;) {
		if (!c->destroyed)
			cm_channel_progress(c);
		struct cm_event *e = cm_channel_take(c);

		if (e) {
			cm_event_taken(e);
			pthread_mutex_unlock(&cm.lock);
			*event = &e->event;
			return 0;
		}
		bool blocks = c->destroyed || !(fcntl(c->rdma.fd, F_GETFL) & O_NONBLOCK);

		if (blocks && cm_channel_wait(c) >= 0)
			continue;
		pthread_mutex_unlock(&cm.lock);
		return blocks ? -1 : cm_result(EAGAIN);
	}
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	struct cm_event *e = (struct cm_event *)event;

	if (!event)
		return cm_result(EINVAL);
	pthread_mutex_lock(&cm.lock);
	e->counted->acked++;
	pthread_cond_broadcast(&cm.acknowledged);
	pthread_mutex_unlock(&cm.lock);
	free(e);
	return 0;
}

const char *rdma_event_str(enum rdma_cm_event_type event)
{
	static const char *const name[] = {
		[RDMA_CM_EVENT_ADDR_RESOLVED] = "RDMA_CM_EVENT_ADDR_RESOLVED",
		[RDMA_CM_EVENT_ADDR_ERROR] = "RDMA_CM_EVENT_ADDR_ERROR",
		[RDMA_CM_EVENT_ROUTE_RESOLVED] = "RDMA_CM_EVENT_ROUTE_RESOLVED",
		[RDMA_CM_EVENT_ROUTE_ERROR] = "RDMA_CM_EVENT_ROUTE_ERROR",
		[RDMA_CM_EVENT_CONNECT_REQUEST] = "RDMA_CM_EVENT_CONNECT_REQUEST",
		[RDMA_CM_EVENT_CONNECT_RESPONSE] = "RDMA_CM_EVENT_CONNECT_RESPONSE",
		[RDMA_CM_EVENT_CONNECT_ERROR] = "RDMA_CM_EVENT_CONNECT_ERROR",
		[RDMA_CM_EVENT_UNREACHABLE] = "RDMA_CM_EVENT_UNREACHABLE",
		[RDMA_CM_EVENT_REJECTED] = "RDMA_CM_EVENT_REJECTED",
		[RDMA_CM_EVENT_ESTABLISHED] = "RDMA_CM_EVENT_ESTABLISHED",
		[RDMA_CM_EVENT_DISCONNECTED] = "RDMA_CM_EVENT_DISCONNECTED",
		[RDMA_CM_EVENT_DEVICE_REMOVAL] = "RDMA_CM_EVENT_DEVICE_REMOVAL",
		[RDMA_CM_EVENT_MULTICAST_JOIN] = "RDMA_CM_EVENT_MULTICAST_JOIN",
		[RDMA_CM_EVENT_MULTICAST_ERROR] = "RDMA_CM_EVENT_MULTICAST_ERROR",
		[RDMA_CM_EVENT_ADDR_CHANGE] = "RDMA_CM_EVENT_ADDR_CHANGE",
		[RDMA_CM_EVENT_TIMEWAIT_EXIT] = "RDMA_CM_EVENT_TIMEWAIT_EXIT",
	};

	if ((size_t)event >= sizeof name / sizeof name[0])
		return "UNKNOWN EVENT";
	return name[event];
}

/* ---- synchronous identifiers, and migration ------------------------------------------------- */

int cm_wait_done(struct cm_id *id)
{
	if (!id->synchronous)
		return 0;
	if (id->rdma.event) {
		rdma_ack_cm_event(id->rdma.event);
		id->rdma.event = NULL;
	}
	if (rdma_get_cm_event(id->rdma.channel, &id->rdma.event))
		return errno;
	if (!id->rdma.event->status)
		return 0;
	if (id->rdma.event->event == RDMA_CM_EVENT_REJECTED)
		return ECONNREFUSED;
	return id->rdma.event->status < 0 ? -id->rdma.event->status : id->rdma.event->status;
}

void cm_channel_move(struct cm_id *id, struct cm_channel *from, struct cm_channel *to)
{
	struct cm_event *rest = NULL, **last = &rest, *e;

	while ((e = cm_channel_take(from))) {
		e->next = NULL;
		*last = e;
		last = &e->next;
	}
	while ((e = rest)) {
		rest = e->next;
		if (e->counted != id)
			cm_channel_put(from, e);
		else if (to)
			cm_channel_put(to, e);
		else
			free(e);
	}
}

/* Makes the identifier's later events arrive at `channel`. Returns an errno, or 0. */
static int cm_id_move(struct cm_id *id, struct rdma_event_channel *channel)
{
	bool watched = id->fd >= 0 && id->state != CM_BOUND && id->state != CM_IDLE &&
		       id->state != CM_RESOLVED && id->state != CM_ROUTED && id->state != CM_ENDED;
	int rc = 0;

	if (watched)
		cm_channel_unwatch(id);
	if (id->timewait >= 0)
		epoll_ctl(id->rdma.channel->fd, EPOLL_CTL_DEL, id->timewait, NULL);
	id->rdma.channel = channel;
	if (watched)
		rc = cm_channel_watch(id);
	if (!rc && id->timewait >= 0)
		rc = cm_timewait_watch(id) ? errno : 0;
	return rc;
}

/* Moves, with their listener, the connections of which the program has received no event. */
static int cm_arrivals_move(const struct cm_id *listener, struct rdma_event_channel *channel)
{
	int rc = 0;

	for (struct cm_id *i = cm.ids; i && !rc; i = i->next)
		if (i->listener == listener && !i->known)
			rc = cm_id_move(i, channel);
	return rc;
}

int rdma_migrate_id(struct rdma_cm_id *rdma, struct rdma_event_channel *channel)
{
	struct cm_id *id = cm_id_of(rdma);
	bool make = !channel;
	int rc;

	if (make)
		channel = rdma_create_event_channel();
	if (!channel)
		return -1;
	pthread_mutex_lock(&cm.lock);
	struct rdma_event_channel *old = rdma->channel;

	rc = cm_id_move(id, channel);
	if (!rc)
		rc = cm_arrivals_move(id, channel);
	cm_channel_move(id, cm_channel_of(old), cm_channel_of(channel));
	bool drop = id->own_channel;

	id->own_channel = id->synchronous = make;
	pthread_mutex_unlock(&cm.lock);
	if (rdma->event && !make) {
		rdma_ack_cm_event(rdma->event);
		rdma->event = NULL;
	}
	if (drop)
		rdma_destroy_event_channel(old);
	return cm_result(rc);
}
