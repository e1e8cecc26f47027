/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sockets that move bytes, and the helper tasks. A helper task moves the parts on its lanes until
 * it is stopped or a lane fails. The caller's task reports the failure.
 */
#include "core/transport/net_socket/net_socket_internal.h"

int net_socket_move(struct net_socket_stream *s, bool is_send, void *data, size_t n)
{
	while (s->moved < n) {
		uint8_t *at = (uint8_t *)data + s->moved;
		size_t done = 0;
		int rc;

		s->seq = os_event_seq(os_socket_object(s->fd)); /* before the attempt */
		rc = is_send ? os_send(s->fd, at, n - s->moved, &done)
			     : os_recv(s->fd, at, n - s->moved, &done);
		if (rc)
			return rc;
		if (!done)
			return is_send ? EAGAIN : NET_SOCKET_CLOSED;
		s->moved += done;
	}
	s->moved = 0;
	return 0;
}

int net_socket_payload(struct net_socket_stream *s, bool is_send, uint8_t *data, size_t n)
{
	int rc;

	if (is_send)
		shared_note_read(data, n);
	rc = net_socket_move(s, is_send, data, n);
	if (!is_send)
		shared_note_write(data, n);
	return rc;
}

int net_socket_lane_run(struct net_socket_conn *c, struct net_socket_lane *lane)
{
	uint64_t given = shared_load_u64(&lane->given, SHARED_ACQUIRE);

	while (lane->taken < given) {
		const struct net_socket_part *part = &lane->part[lane->taken % NET_MAX_REQUESTS];
		struct net_request *req = part->req;
		int rc;

		shared_note_read(part, sizeof *part);
		rc = net_socket_payload(&lane->stream, c->is_send, part->data, part->bytes);
		if (rc)
			return rc;
		lane->taken++;
		shared_add_u32(&req->left, -1u, SHARED_RELEASE);
		if (c->tasks)
			os_event_post(c);
	}
	return 0;
}

/* ---- helper tasks --------------------------------------------------------------------------- */

static struct wait net_socket_given_wait(const struct net_socket_conn *c,
					 const struct net_socket_lane *lane)
{
	return wait_word(&lane->given, 8, WAIT_NE, lane->taken, "a part of a message to move",
			 wait_by(c->comm->rank, c->who.channel, "proxy progress"));
}

static struct wait net_socket_stop_wait(const struct net_socket_conn *c)
{
	struct wait w = wait_word(&c->stop, 4, WAIT_NE, 0, "the connection to close",
				  wait_by(c->comm->rank, c->who.channel, "proxy service"));

	w.idle = true;
	return w;
}

static void net_socket_lane_fail(struct net_socket_conn *c, struct net_socket_lane *lane, int error)
{
	lane->error = error;
	shared_store_u32(&lane->result, NET_SOCKET_FAILED, SHARED_RELEASE);
	os_event_post(c);
}

/* One pass over the task's lanes; w[] has a wait for each. False: a lane failed. */
static bool net_socket_task_pass(const struct net_socket_task *t, struct wait *w)
{
	struct net_socket_conn *c = t->conn;

	for (uint32_t i = 0; i < t->count; i++) {
		struct net_socket_lane *lane = &c->lane[t->first + i];
		int rc = net_socket_lane_run(c, lane);

		if (rc == EAGAIN) {
			net_socket_wait(c, &lane->stream, "a lane of a connection", &w[i]);
		} else if (rc) {
			net_socket_lane_fail(c, lane, rc);
			return false;
		} else {
			w[i] = net_socket_given_wait(c, lane);
		}
	}
	return true;
}

static void net_socket_task_main(void *arg)
{
	struct net_socket_task *t = arg;
	struct wait w[NET_SOCKET_LANES + 1];
	const struct wait *list[NET_SOCKET_LANES + 1];

	w[t->count] = net_socket_stop_wait(t->conn);
	for (uint32_t i = 0; i <= t->count; i++)
		list[i] = &w[i];
	while (!shared_load_u32(&t->conn->stop, SHARED_ACQUIRE) && net_socket_task_pass(t, w))
		(void)os_wait(list, (int)t->count + 1, NULL, NULL);
}

ncclResult_t net_socket_tasks_start(struct net_socket_conn *c)
{
	for (uint32_t i = 0; i < c->tasks; i++) {
		struct net_socket_task *t = &c->task[i];
		char name[48];
		const struct os_thread_attr attr = {.name = name, .rank = c->comm->rank};
		int rc;

		*t = (struct net_socket_task){.conn = c, .count = c->lanes / c->tasks};
		t->first = i * t->count;
		snprintf(name, sizeof name, "rank%d socket %s %d.%u", c->comm->rank,
			 c->is_send ? "to" : "from", c->who.peer, i);
		rc = os_thread_start(&t->thread, &attr, net_socket_task_main, t);
		if (rc) {
			t->thread = NULL;
			return net_socket_failed(c, "starting a task for its sockets", rc);
		}
	}
	return ncclSuccess;
}

void net_socket_tasks_stop(struct net_socket_conn *c)
{
	shared_store_u32(&c->stop, 1, SHARED_RELEASE);
	for (uint32_t i = 0; i < c->tasks; i++) {
		if (c->task[i].thread)
			os_thread_join(c->task[i].thread);
		c->task[i].thread = NULL;
	}
}
