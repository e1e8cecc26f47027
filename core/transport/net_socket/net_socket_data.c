/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The data path: requests, headers, parts.
 */
#include "core/transport/net_socket/net_socket_internal.h"

ncclResult_t net_socket_reg_mr(void *net_comm, void *data, size_t bytes, enum net_memory where,
			       void **mr)
{
	(void)data;
	(void)bytes;
	*mr = net_comm; /* not NULL, so that dereg_mr is called */
	return where == NET_HOST ? ncclSuccess : ncclInvalidUsage;
}

/* Stops the helper tasks, so that none uses the memory after the call. */
ncclResult_t net_socket_dereg_mr(void *net_comm, void *mr)
{
	ASSERT(mr == net_comm);
	net_socket_tasks_stop(net_comm);
	return ncclSuccess;
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* The bytes of each part except the last one. */
static size_t net_socket_part_bytes(size_t bytes, uint32_t lanes)
{
	return MAX_OF((bytes + lanes - 1) / lanes, (size_t)NET_SOCKET_WHOLE);
}

uint32_t net_socket_parts(size_t bytes, uint32_t lanes)
{
	size_t size;

	if (!lanes || bytes <= NET_SOCKET_WHOLE)
		return 0;
	size = net_socket_part_bytes(bytes, lanes);
	return (uint32_t)((bytes + size - 1) / size);
}

static void net_socket_give(struct net_socket_conn *c, struct net_request *r, size_t at,
			    size_t bytes)
{
	struct net_socket_lane *lane = &c->lane[c->turn_lane];
	uint64_t given = shared_load_u64(&lane->given, SHARED_RELAXED);
	struct net_socket_part *part = &lane->part[given % NET_MAX_REQUESTS];

	*part = (struct net_socket_part){.data = r->data + at, .bytes = bytes, .req = r};
	shared_note_write(part, sizeof *part);
	shared_store_u64(&lane->given, given + 1, SHARED_RELEASE);
	c->turn_lane = (c->turn_lane + 1) % c->lanes;
}

/* Gives the lanes the parts of a message whose header is complete. */
static void net_socket_give_all(struct net_socket_conn *c, struct net_request *r)
{
	uint32_t parts = net_socket_parts(r->bytes, c->lanes);
	size_t size = parts ? net_socket_part_bytes(r->bytes, c->lanes) : 0;

	shared_add_u32(&r->left, parts, SHARED_RELAXED); /* before a lane has a part */
	for (uint32_t i = 0; i < parts; i++)
		net_socket_give(c, r, i * size, MIN_OF(size, r->bytes - i * size));
}

/* ---- the control socket ---------------------------------------------------------------------- */

/* ncclInProgress: the socket is not ready. */
static ncclResult_t net_socket_control_result(struct net_socket_conn *c, int rc)
{
	if (!rc)
		return ncclSuccess;
	if (rc == EAGAIN)
		return ncclInProgress;
	return net_socket_failed(c, c->is_send ? "sending" : "receiving", rc);
}

/* A short message is sent with its header. */
static bool net_socket_is_inline(const struct net_socket_conn *c, const struct net_request *r)
{
	return c->is_send && r->bytes <= NET_SOCKET_INLINE;
}

static ncclResult_t net_socket_header_send(struct net_socket_conn *c, const struct net_request *r)
{
	size_t bytes = sizeof c->head.header;

	if (c->has_header)
		return ncclSuccess;
	c->head.header = (struct net_socket_header){
		.magic = NET_SOCKET_MESSAGE_MAGIC,
		.turn = (uint32_t)r->number,
		.bytes = r->bytes,
	};
	if (net_socket_is_inline(c, r) && r->bytes) {
		shared_note_read(r->data, r->bytes);
		memcpy(c->head.inline_data, r->data, r->bytes);
		bytes += r->bytes;
	}
	return net_socket_control_result(c, net_socket_move(&c->control, true, &c->head, bytes));
}

static ncclResult_t net_socket_header_check(struct net_socket_conn *c)
{
	char what[96];

	if (c->head.header.magic == NET_SOCKET_NOTICE_MAGIC)
		return net_socket_notice_take(c, &c->head.notice);
	if (c->head.header.magic == NET_SOCKET_MESSAGE_MAGIC &&
	    c->head.header.turn == (uint32_t)c->passed)
		return ncclSuccess;
	snprintf(what, sizeof what,
		 "invalid header: magic %#x, expected %#x; message %u, expected %u",
		 c->head.header.magic, NET_SOCKET_MESSAGE_MAGIC, c->head.header.turn,
		 (uint32_t)c->passed);
	return net_socket_failed(c, what, EPROTO);
}

/* A header may arrive before its receive is posted. The end of the stream is not an error then. */
static ncclResult_t net_socket_header_recv(struct net_socket_conn *c)
{
	ncclResult_t gone;
	int rc;

	if (c->has_header)
		return ncclSuccess;
	rc = c->peer_gone
		     ? c->gone_error
		     : net_socket_move(&c->control, false, &c->head.header, sizeof c->head.header);
	if (rc && rc != EAGAIN && !c->control.moved && c->passed == c->posted) {
		gone = net_socket_gone(c, rc);
		return gone ? gone : ncclInProgress;
	}
	if (rc)
		return net_socket_control_result(c, rc);
	c->has_header = true;
	return net_socket_header_check(c);
}

static ncclResult_t net_socket_room_check(struct net_socket_conn *c, struct net_request *r)
{
	char what[96];

	if (c->head.header.bytes <= r->bytes) {
		r->bytes = c->head.header.bytes;
		return ncclSuccess;
	}
	snprintf(what, sizeof what, "a message of %llu bytes for a receive of %zu",
		 (unsigned long long)c->head.header.bytes, r->bytes);
	return net_socket_failed(c, what, EMSGSIZE);
}

/* Moves header and control part of the next request. */
static ncclResult_t net_socket_pass(struct net_socket_conn *c)
{
	struct net_request *r = &c->req[c->passed % NET_MAX_REQUESTS];
	ncclResult_t rc = c->is_send ? net_socket_header_send(c, r) : net_socket_header_recv(c);

	if (!rc && !c->is_send)
		rc = net_socket_room_check(c, r);
	if (rc)
		return rc;
	c->has_header = true;
	if (!net_socket_parts(r->bytes, c->lanes) && !net_socket_is_inline(c, r))
		rc = net_socket_control_result(
			c, net_socket_payload(&c->control, c->is_send, r->data, r->bytes));
	if (rc)
		return rc;
	net_socket_give_all(c, r);
	c->has_header = false;
	c->passed++;
	shared_add_u32(&r->left, -1u, SHARED_RELEASE);
	return ncclSuccess;
}

/* ---- progress ------------------------------------------------------------------------------- */

static ncclResult_t net_socket_lane_progress(struct net_socket_conn *c,
					     struct net_socket_lane *lane)
{
	int rc = 0;

	if (!c->tasks)
		rc = net_socket_lane_run(c, lane);
	else if (shared_load_u32(&lane->result, SHARED_ACQUIRE) == NET_SOCKET_FAILED)
		rc = lane->error;
	return rc && rc != EAGAIN ? net_socket_control_result(c, rc) : ncclSuccess;
}

ncclResult_t net_socket_progress(struct net_socket_conn *c)
{
	ncclResult_t rc = c->failed ? ncclRemoteError : ncclSuccess;

	while (!rc && c->passed < c->posted)
		rc = net_socket_pass(c);
	if (!rc && !c->is_send)
		rc = net_socket_header_recv(c);
	if (rc == ncclInProgress)
		rc = ncclSuccess;
	for (uint32_t i = 0; i < c->lanes && !rc; i++)
		rc = net_socket_lane_progress(c, &c->lane[i]);
	return rc;
}

/* ---- requests -------------------------------------------------------------------------------- */

/* True if the lane has an unfinished part of the request. */
static bool net_socket_lane_has(const struct net_socket_lane *lane, const struct net_request *r)
{
	uint64_t given = shared_load_u64(&lane->given, SHARED_RELAXED);

	for (uint64_t i = lane->taken; i < given; i++)
		if (lane->part[i % NET_MAX_REQUESTS].req == r)
			return true;
	return false;
}

/* The request's wait: for its control part, for a helper task, or for the first of its lanes. `seq`
 * is the connection's event count before the request was checked. */
static void net_socket_request_wait(const struct net_socket_conn *c, const struct net_request *r,
				    uint64_t seq, struct wait *w)
{
	const struct net_socket_stream *s = &c->control;
	const char *why = c->is_send ? "a socket to take more of a message" : "data from the peer";

	for (uint32_t i = 0; i < c->lanes && !c->tasks && r->number < c->passed; i++) {
		if (!net_socket_lane_has(&c->lane[i], r))
			continue;
		s = &c->lane[i].stream;
		break;
	}
	net_socket_wait(c, s, why, w);
	if (c->tasks && r->number < c->passed) {
		w->on = c;
		w->want = seq;
	}
}

static ncclResult_t net_socket_post(struct net_socket_conn *c, void *data, size_t bytes,
				    struct net_request **req, struct wait *w)
{
	struct net_request *r = &c->req[c->posted % NET_MAX_REQUESTS];
	uint64_t seq = os_event_seq(c);
	ncclResult_t rc;

	*req = NULL;
	if (c->failed)
		return ncclRemoteError;
	if (c->peer_ends)
		return net_socket_failed(c, "sending", NET_SOCKET_ENDS);
	if (r->used) {
		net_socket_request_wait(c, r, seq, w);
		return ncclSuccess;
	}
	*r = (struct net_request){
		.conn = c,
		.data = data,
		.bytes = bytes,
		.number = c->posted++,
		.used = true,
		.left = {1},
	};
	rc = net_socket_progress(c);
	if (!rc)
		*req = r;
	return rc;
}

/* Messages arrive in the order of the receives, each of which has one buffer. Tags are not
 * compared. */
ncclResult_t net_socket_isend(void *send_comm, const struct net_buffer *b, struct net_request **req,
			      struct wait *w)
{
	struct net_socket_conn *c = send_comm;

	ASSERT(c->is_send && c->ready);
	return net_socket_post(c, b->data, b->bytes, req, w);
}

ncclResult_t net_socket_irecv(void *recv_comm, const struct net_buffer *b, int n,
			      struct net_request **req, struct wait *w)
{
	struct net_socket_conn *c = recv_comm;

	ASSERT(!c->is_send && c->ready && n == 1);
	return net_socket_post(c, b->data, b->bytes, req, w);
}

ncclResult_t net_socket_test(struct net_request *r, bool *done, size_t *bytes, struct wait *w)
{
	struct net_socket_conn *c = r->conn;
	uint64_t seq = os_event_seq(c);
	ncclResult_t rc = ncclSuccess;

	ASSERT(r->used);
	*done = shared_load_u32(&r->left, SHARED_ACQUIRE) == 0;
	if (!*done) {
		rc = net_socket_progress(c);
		if (rc)
			return rc;
		*done = shared_load_u32(&r->left, SHARED_ACQUIRE) == 0;
	}
	if (!*done) {
		net_socket_request_wait(c, r, seq, w);
		return ncclSuccess;
	}
	*bytes = r->bytes;
	r->used = false;
	return ncclSuccess;
}
