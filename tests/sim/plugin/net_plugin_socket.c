/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection is one socket. Requests have numbers, and messages go in the order of the receives:
 *
 *	receiver -> sender   offer: number of buffers, and for each its tag and size
 *	sender -> receiver   for each message of that receive, in any order: tag, size, bytes
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "sim/lab/plugin/net_plugin.h"

#define PLUG_MAGIC 0x706c7567u

struct plug_handle {
	uint32_t magic;
	uint32_t number; /* of the listener in its process */
	int pid;
	int fd; /* of the connecting end: NCCL keeps the handle between calls */
};

struct plug_buffer {
	uint8_t *data;
	uint32_t bytes, tag;
	bool filled;
	uint32_t got;
};

/* A receive, or a message to send. */
struct plug_req {
	struct plug_comm *comm;
	bool used, done, is_recv;
	int n;
	uint64_t number;
	struct plug_buffer b[PLUG_MOST_RECVS];
	uint32_t moved; /* of a message: header and bytes */
};

struct plug_offer {
	uint32_t n;
	struct {
		uint32_t tag, bytes;
	} b[PLUG_MOST_RECVS];
};

struct plug_head {
	uint32_t tag, bytes;
};

struct plug_comm {
	int fd;
	bool is_send;
	struct plug_req req[NET_ABI_REQUESTS];
	uint64_t posted;
	/* sender: the offer that is used, and how much of the next one is here */
	struct plug_offer offer;
	uint32_t offer_used; /* bits of its buffers */
	bool has_offer;
	size_t offer_got;
	uint64_t sent, finished; /* messages begun, and complete */
	/* receiver */
	uint64_t passed; /* receives that are complete */
	size_t offer_sent;
	uint64_t offered;
	struct plug_head head;
	size_t head_got;
	struct plug_buffer *into;
};

static long plug_isends;

/* About each second call, in no order that two callers in rotation could always meet. */
static bool plug_is_late(void)
{
	static uint32_t calls;

	return plug_fault("late") &&
	       __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED) * 2654435761u >> 31;
}

/* ---- connections ---------------------------------------------------------------------------- */

/* The name of a listener is in the abstract name space: it has no file. */
static void plug_address(const struct plug_handle *h, struct sockaddr_un *at)
{
	memset(at, 0, sizeof *at);
	at->sun_family = AF_UNIX;
	snprintf(at->sun_path + 1, sizeof at->sun_path - 1, "net-plugin-%d-%u",
		 h->pid ? h->pid : (int)getpid(), h->number);
}

static int plug_socket(void)
{
	return socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

ncclResult_t plug_listen(int dev, void *handle, void **listen_comm)
{
	static uint32_t listeners;
	struct plug_handle h = {
		.magic = PLUG_MAGIC,
		.number = __atomic_fetch_add(&listeners, 1, __ATOMIC_RELAXED),
		.pid = plug_number("PLUG_PROCESSES", 0) ? (int)getpid() : 0,
		.fd = -1,
	};
	int *fd = malloc(sizeof *fd);
	struct sockaddr_un at;

	(void)dev;
	*fd = plug_socket();
	plug_address(&h, &at);
	memcpy(handle, &h, sizeof h);
	if (plug_fault("nolisten"))
		return plug_close_listen(fd);
	*listen_comm = fd;
	if (bind(*fd, (struct sockaddr *)&at, sizeof at) || listen(*fd, 8) || plug_fault("listen"))
		return ncclSystemError;
	return ncclSuccess;
}

static struct plug_comm *plug_comm_make(int fd, bool is_send)
{
	struct plug_comm *c = calloc(1, sizeof *c);

	c->fd = fd;
	c->is_send = is_send;
	return c;
}

ncclResult_t plug_connect(int dev, void *handle, void **comm, struct net_abi_offload **offload)
{
	struct plug_handle *h = handle;
	struct sockaddr_un at;

	(void)dev;
	if (h->magic != PLUG_MAGIC || !offload || *offload)
		return ncclInternalError;
	if (plug_fault("connect"))
		return ncclRemoteError;
	if (h->fd < 0)
		h->fd = plug_socket();
	if (plug_is_late())
		return ncclSuccess;
	plug_address(h, &at);
	if (connect(h->fd, (struct sockaddr *)&at, sizeof at))
		return errno == EAGAIN         ? ncclSuccess
		       : errno == ECONNREFUSED ? ncclRemoteError /* the listener has gone */
					       : ncclSystemError;
	*comm = plug_comm_make(h->fd, true);
	return plug_fault("both") ? ncclSystemError : ncclSuccess;
}

ncclResult_t plug_accept(void *listen_comm, void **comm, struct net_abi_offload **offload)
{
	int fd = accept4(*(int *)listen_comm, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	(void)offload;
	if (plug_fault("accept"))
		return ncclSystemError;
	if (fd < 0)
		return errno == EAGAIN ? ncclSuccess : ncclSystemError;
	*comm = plug_comm_make(fd, false);
	return ncclSuccess;
}

ncclResult_t plug_close(void *comm)
{
	struct plug_comm *c = comm;

	close(c->fd);
	free(c);
	return ncclSuccess;
}

ncclResult_t plug_close_listen(void *listen_comm)
{
	close(*(int *)listen_comm);
	free(listen_comm);
	return ncclSuccess;
}

ncclResult_t plug_reg_mr(void *comm, void *data, size_t bytes, int type, void **mr)
{
	(void)comm;
	(void)bytes;
	if (type != NET_ABI_HOST)
		return ncclInternalError;
	*mr = data;
	return plug_fault("regmr") ? ncclSystemError : ncclSuccess;
}

ncclResult_t plug_dereg_mr(void *comm, void *mr)
{
	(void)comm;
	return mr ? ncclSuccess : ncclInternalError;
}

/* ---- bytes ---------------------------------------------------------------------------------- */

/* Moves the rest of a piece. 1: complete; 0: not yet; -1: the connection has ended. */
static int plug_move(int fd, bool is_send, void *piece, size_t bytes, size_t *moved)
{
	while (*moved < bytes) {
		uint8_t *at = (uint8_t *)piece + *moved;
		ssize_t n = is_send ? send(fd, at, bytes - *moved, MSG_NOSIGNAL)
				    : recv(fd, at, bytes - *moved, 0);

		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n <= 0)
			return -1;
		*moved += (size_t)n;
	}
	return 1;
}

static struct plug_req *plug_req_free(struct plug_comm *c)
{
	for (int i = 0; i < NET_ABI_REQUESTS; i++)
		if (!c->req[i].used)
			return &c->req[i];
	return NULL;
}

static struct plug_req *plug_req_number(struct plug_comm *c, uint64_t number)
{
	for (int i = 0; i < NET_ABI_REQUESTS; i++)
		if (c->req[i].used && c->req[i].number == number)
			return &c->req[i];
	return NULL;
}

/* ---- sending end ---------------------------------------------------------------------------- */

/* Reads the next offer, once all buffers of the one before are used. */
static int plug_offer_read(struct plug_comm *c)
{
	int got;

	if (c->has_offer && c->offer_used != (1u << c->offer.n) - 1)
		return 1;
	if (c->has_offer) {
		c->has_offer = false;
		c->offer_got = 0;
	}
	got = plug_move(c->fd, false, &c->offer, sizeof c->offer, &c->offer_got);
	if (got == 1) {
		c->has_offer = true;
		c->offer_used = 0;
	}
	return got;
}

/* Returns the buffer of the offer for a message; -1: it has none. */
static int plug_offer_find(const struct plug_comm *c, uint32_t tag)
{
	for (uint32_t i = 0; i < c->offer.n; i++)
		if (c->offer.b[i].tag == tag && !(c->offer_used & 1u << i))
			return (int)i;
	return -1;
}

static ncclResult_t plug_send_progress(struct plug_comm *c)
{
	for (;;) {
		struct plug_req *r = plug_req_number(c, c->finished);
		struct plug_head head;
		size_t moved;
		int rc;

		if (!r)
			return ncclSuccess;
		head = (struct plug_head){.tag = r->b[0].tag, .bytes = r->b[0].bytes};
		moved = r->moved;
		if (moved < sizeof head) {
			rc = plug_move(c->fd, true, &head, sizeof head, &moved);
			r->moved = (uint32_t)moved;
			if (rc < 1)
				return rc ? ncclRemoteError : ncclSuccess;
		}
		moved = r->moved - sizeof head;
		rc = plug_move(c->fd, true, r->b[0].data, r->b[0].bytes, &moved);
		r->moved = (uint32_t)(moved + sizeof head);
		if (rc < 1)
			return rc ? ncclRemoteError : ncclSuccess;
		r->done = true;
		c->finished++;
	}
}

ncclResult_t plug_isend(void *comm, void *data, size_t bytes, int tag, void *mr, void **request)
{
	long least = plug_fault_number("isend");
	struct plug_comm *c = comm;
	struct plug_req *r = plug_req_free(c);
	int offer, at;

	if (!mr || *request)
		return ncclInternalError;
	if (least >= 0 && __atomic_fetch_add(&plug_isends, 1, __ATOMIC_RELAXED) >= least)
		return ncclRemoteError;
	if (plug_is_late() || !r)
		return ncclSuccess;
	offer = plug_offer_read(c);
	if (offer < 1)
		return offer ? ncclRemoteError : ncclSuccess;
	at = plug_offer_find(c, (uint32_t)tag);
	if (at < 0)
		return ncclSuccess;
	if (bytes > c->offer.b[at].bytes)
		return ncclInternalError;
	c->offer_used |= 1u << at;
	*r = (struct plug_req){.comm = c, .used = true, .n = 1, .number = c->sent++};
	r->b[0] =
		(struct plug_buffer){.data = data, .bytes = (uint32_t)bytes, .tag = (uint32_t)tag};
	*request = r;
	return plug_send_progress(c);
}

/* ---- receiving end -------------------------------------------------------------------------- */

/* Sends the offers of all receives that are posted. */
static ncclResult_t plug_offer_send(struct plug_comm *c)
{
	struct plug_req *r;

	while ((r = plug_req_number(c, c->offered))) {
		struct plug_offer o = {.n = (uint32_t)r->n};
		int rc;

		for (int i = 0; i < r->n; i++) {
			o.b[i].tag = r->b[i].tag;
			o.b[i].bytes = r->b[i].bytes;
		}
		rc = plug_move(c->fd, true, &o, sizeof o, &c->offer_sent);
		if (rc < 1)
			return rc ? ncclRemoteError : ncclSuccess;
		c->offer_sent = 0;
		c->offered++;
	}
	return ncclSuccess;
}

/* Finds the buffer of the message whose header is here. */
static bool plug_recv_match(struct plug_comm *c, struct plug_req *r)
{
	for (int i = 0; i < r->n && !c->into; i++)
		if (r->b[i].tag == c->head.tag && !r->b[i].filled)
			c->into = &r->b[i];
	return c->into && c->head.bytes <= c->into->bytes;
}

static bool plug_recv_is_complete(const struct plug_req *r)
{
	for (int i = 0; i < r->n; i++)
		if (!r->b[i].filled)
			return false;
	return true;
}

/* Receives one message. 1: it is complete; 0: not yet; -1: the connection has ended. */
static int plug_recv_one(struct plug_comm *c, struct plug_req *r)
{
	int rc = plug_move(c->fd, false, &c->head, sizeof c->head, &c->head_got);
	size_t moved;

	if (rc < 1)
		return rc;
	if (!c->into && !plug_recv_match(c, r))
		return -1;
	moved = c->into->got;
	rc = plug_move(c->fd, false, c->into->data, c->head.bytes, &moved);
	c->into->got = (uint32_t)moved;
	if (rc < 1)
		return rc;
	c->into->filled = true;
	c->into = NULL;
	c->head_got = 0;
	return 1;
}

static ncclResult_t plug_recv_progress(struct plug_comm *c)
{
	ncclResult_t rc = plug_offer_send(c);
	struct plug_req *r;

	while (!rc && (r = plug_req_number(c, c->passed))) {
		int got = plug_fault("never") ? 0 : plug_recv_one(c, r);

		if (got < 1)
			return got ? ncclRemoteError : ncclSuccess;
		if (!plug_recv_is_complete(r))
			continue;
		r->done = true;
		c->passed++;
	}
	return rc;
}

ncclResult_t plug_irecv(void *comm, int n, void **data, const size_t *bytes, const int *tags,
			void **mrs, void **request)
{
	struct plug_comm *c = comm;
	struct plug_req *r = plug_req_free(c);

	if (n < 1 || n > plug_number("PLUG_RECVS", 1) || !mrs[n - 1] || *request)
		return ncclInternalError;
	if (plug_fault("irecv"))
		return ncclInvalidArgument;
	if (plug_is_late() || !r)
		return ncclSuccess;
	*r = (struct plug_req){
		.comm = c, .used = true, .is_recv = true, .n = n, .number = c->posted++};
	for (int i = 0; i < n; i++)
		r->b[i] = (struct plug_buffer){
			.data = data[i], .bytes = (uint32_t)bytes[i], .tag = (uint32_t)tags[i]};
	*request = r;
	return plug_recv_progress(c);
}

ncclResult_t plug_iflush(void *comm, int n, void **data, int *bytes, void **mrs, void **request)
{
	(void)comm, (void)n, (void)data, (void)bytes, (void)mrs, (void)request;
	return ncclInternalError; /* it has no GPU memory */
}

ncclResult_t plug_test(void *request, int *done, int *sizes)
{
	struct plug_req *r = request;
	ncclResult_t rc = r->is_recv ? plug_recv_progress(r->comm) : plug_send_progress(r->comm);

	if (!rc && plug_fault("test"))
		rc = ncclInternalError;
	*done = r->done;
	if (rc || !r->done)
		return rc;
	for (int i = 0; i < r->n; i++)
		sizes[i] = plug_fault("size") ? 1 << 30 : (int)r->b[i].got;
	r->used = false;
	return ncclSuccess;
}
