/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The network of --plugins net: connections in the memory of this program, which has all ranks. A
 * message is copied when its sender delivers it, in a call of the sender, and again into the
 * receive, in a test of the receiver: no end touches memory of the other one, which may have ended.
 * Messages take the buffers of receives in order, each the one with its tag.
 *
 *	connect -> link -> accept
 *	irecv: buffers to take    isend: takes one    test of the send: delivers it, is done
 *	test of the receive: writes what is delivered; done when all buffers are written
 *
 * A draw from the run's seed, the link and the call decides how many tests a request needs, and
 * which calls return nothing (PLUG_LATE of 8). When an end is closed, requests of the other one
 * that cannot complete fail with ncclRemoteError. Numbers count from the run's start.
 */
#include <pthread.h>

#include "core/base/hash.h"
#include "sim/lab/plugin/lab_plugins.h"
#include "sim/lab/plugin/net_plugin.h"

#define PLUG_HANDLE_MAGIC 0x706c7567u
#define PLUG_COMM_MAGIC   0x636f6d6du

struct plug_handle {
	uint32_t magic;
	uint32_t number; /* of the listener */
};

struct plug_buffer {
	uint8_t *data, *message; /* message: a copy, once it is delivered */
	size_t bytes, got;
	uint32_t tag;
	bool taken, delivered, written;
};

/* A receive, or a message to send, whose place is a buffer of a receive. */
struct plug_req {
	struct plug_comm *comm;
	bool used;
	int n, polls; /* polls: fruitless tests that are left */
	uint64_t number;
	struct plug_buffer b[PLUG_MOST_RECVS], *to;
};

struct plug_comm {
	uint32_t magic;
	bool is_send, open;
	struct plug_link *link;
	struct plug_req req[NET_ABI_REQUESTS];
};

struct plug_link {
	struct plug_link *next;
	uint32_t number, listener, calls;
	bool accepted;
	uint64_t posted, taking; /* receives; the oldest with a buffer that no message has taken */
	struct plug_comm send, recv;
};

struct plug_listener {
	uint32_t number, calls;
	struct plug_listener *next;
};

static struct {
	pthread_mutex_t lock; /* all below */
	struct plug_link *links;
	struct plug_listener *listeners;
	uint32_t link_numbers, listener_numbers;
} net = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- draws ----------------------------------------------------------------------------------- */

static uint64_t plug_draw(uint32_t number, uint32_t call, uint64_t below)
{
	const uint64_t of[3] = {lab_plugin_seed(), number, call};

	return hash64(of, sizeof of) % below;
}

static bool plug_is_late(uint32_t number, uint32_t *calls)
{
	return plug_draw(number, ++*calls, 8) < (uint64_t)plug_number("PLUG_LATE", 0);
}

/* Half of the requests end in their first test. */
static int plug_polls(struct plug_link *l)
{
	uint64_t polls = plug_draw(l->number, ++l->calls, 12);

	return polls < 6 ? 0 : (int)polls - 5;
}

/* ---- connections ----------------------------------------------------------------------------- */

ncclResult_t plug_listen(int dev, void *handle, void **listen_comm)
{
	struct plug_listener *l = calloc(1, sizeof *l);
	struct plug_handle h = {.magic = PLUG_HANDLE_MAGIC};

	(void)dev;
	if (!l || plug_fault("listen")) {
		free(l);
		return ncclSystemError;
	}
	pthread_mutex_lock(&net.lock);
	h.number = l->number = ++net.listener_numbers;
	l->next = net.listeners;
	net.listeners = l;
	pthread_mutex_unlock(&net.lock);
	memcpy(handle, &h, sizeof h);
	*listen_comm = l;
	return ncclSuccess;
}

static struct plug_listener *plug_listener_find(uint32_t number)
{
	struct plug_listener *l = net.listeners;

	while (l && l->number != number)
		l = l->next;
	return l;
}

/* Makes a link, whose receiving end is open from now on. Under the lock. */
static struct plug_link *plug_link_make(uint32_t listener)
{
	struct plug_link *l = calloc(1, sizeof *l);

	if (!l)
		return NULL;
	l->number = 1u << 16 | ++net.link_numbers;
	l->listener = listener;
	l->send = (struct plug_comm){
		.magic = PLUG_COMM_MAGIC, .is_send = true, .open = true, .link = l};
	l->recv = (struct plug_comm){.magic = PLUG_COMM_MAGIC, .open = true, .link = l};
	l->next = net.links;
	net.links = l;
	return l;
}

static ncclResult_t plug_connect_one(uint32_t number, void **comm)
{
	struct plug_listener *to = plug_listener_find(number);
	struct plug_link *l;

	if (!to)
		return ncclRemoteError;
	if (plug_is_late(number, &to->calls))
		return ncclSuccess;
	l = plug_link_make(number);
	if (!l)
		return ncclSystemError;
	*comm = &l->send;
	return ncclSuccess;
}

ncclResult_t plug_connect(int dev, void *handle, void **comm, struct net_abi_offload **offload)
{
	const struct plug_handle *h = handle;
	ncclResult_t rc;

	(void)dev;
	if (h->magic != PLUG_HANDLE_MAGIC || !offload || *offload || *comm) {
		plug_wrong("net: connect with a handle that listen has not made");
		return ncclInternalError;
	}
	if (plug_fault("connect"))
		return ncclSystemError;
	pthread_mutex_lock(&net.lock);
	rc = plug_connect_one(h->number, comm);
	pthread_mutex_unlock(&net.lock);
	return rc;
}

ncclResult_t plug_accept(void *listen_comm, void **comm, struct net_abi_offload **offload)
{
	struct plug_listener *of = listen_comm;
	struct plug_link *first = NULL;

	(void)offload;
	if (plug_fault("accept"))
		return ncclSystemError;
	pthread_mutex_lock(&net.lock);
	for (struct plug_link *l = net.links; l; l = l->next)
		if (l->listener == of->number && !l->accepted)
			first = l; /* the newest is first */
	if (first && !plug_is_late(of->number, &of->calls)) {
		first->accepted = true;
		*comm = &first->recv;
	}
	pthread_mutex_unlock(&net.lock);
	return ncclSuccess;
}

static void plug_link_free(struct plug_link *l)
{
	for (int i = 0; i < NET_ABI_REQUESTS * PLUG_MOST_RECVS; i++)
		free(l->recv.req[i / PLUG_MOST_RECVS].b[i % PLUG_MOST_RECVS].message);
	free(l);
}

/* Frees links both ends of which are closed. Under the lock. */
static void plug_links_collect(void)
{
	struct plug_link **at = &net.links, *l;

	while ((l = *at)) {
		if (l->send.open || l->recv.open) {
			at = &l->next;
			continue;
		}
		*at = l->next;
		plug_link_free(l);
	}
}

ncclResult_t plug_close(void *comm)
{
	struct plug_comm *c = comm;

	if (c->magic != PLUG_COMM_MAGIC || !c->open)
		plug_wrong("net: close of a connection that is not open");
	pthread_mutex_lock(&net.lock);
	c->open = false;
	plug_links_collect();
	pthread_mutex_unlock(&net.lock);
	return ncclSuccess;
}

/* Links that were not accepted lose their receiving end. */
ncclResult_t plug_close_listen(void *listen_comm)
{
	struct plug_listener *l = listen_comm, **at = &net.listeners;

	pthread_mutex_lock(&net.lock);
	while (*at && *at != l)
		at = &(*at)->next;
	if (*at)
		*at = l->next;
	else
		plug_wrong("net: closeListen of what does not listen");
	for (struct plug_link *k = net.links; k; k = k->next)
		if (k->listener == l->number && !k->accepted)
			k->recv.open = false;
	plug_links_collect();
	pthread_mutex_unlock(&net.lock);
	free(l);
	return ncclSuccess;
}

/* ---- requests -------------------------------------------------------------------------------- */

static struct plug_req *plug_req_free(struct plug_comm *c)
{
	for (int i = 0; i < NET_ABI_REQUESTS; i++)
		if (!c->req[i].used)
			return &c->req[i];
	return NULL;
}

/* Returns the buffer that the next message of this tag takes; NULL: none is there yet. */
static struct plug_buffer *plug_buffer_find(struct plug_link *l, uint32_t tag)
{
	for (int i = 0; i < NET_ABI_REQUESTS; i++) {
		struct plug_req *r = &l->recv.req[i];

		if (!r->used || r->number != l->taking)
			continue;
		for (int k = 0; k < r->n; k++)
			if (!r->b[k].taken && r->b[k].tag == tag)
				return &r->b[k];
	}
	return NULL;
}

/* Takes the buffer. When all of its receive are taken, the next receive is. */
static void plug_buffer_take(struct plug_link *l, struct plug_buffer *b)
{
	b->taken = true;
	for (int i = 0; i < NET_ABI_REQUESTS; i++) {
		struct plug_req *r = &l->recv.req[i];
		int left = 0;

		if (!r->used || r->number != l->taking)
			continue;
		for (int k = 0; k < r->n; k++)
			left += !r->b[k].taken;
		l->taking += !left;
		return;
	}
}

static void plug_deliver(struct plug_req *r)
{
	struct plug_buffer *to = r->to;

	to->message = malloc(r->b[0].bytes ? r->b[0].bytes : 1);
	if (!to->message)
		abort();
	memcpy(to->message, r->b[0].data, r->b[0].bytes);
	to->got = r->b[0].bytes;
	to->delivered = true;
}

static ncclResult_t plug_send_one(struct plug_comm *c, void *data, size_t bytes, int tag,
				  void **request)
{
	struct plug_req *r = plug_req_free(c);
	struct plug_buffer *to;

	if (!c->link->recv.open)
		return ncclRemoteError;
	if (!r || plug_is_late(c->link->number, &c->link->calls))
		return ncclSuccess;
	to = plug_buffer_find(c->link, (uint32_t)tag);
	if (!to)
		return ncclSuccess;
	if (bytes > to->bytes) {
		plug_wrong("net: a message of %zu bytes for a receive of %zu", bytes, to->bytes);
		return ncclInternalError;
	}
	*r = (struct plug_req){
		.comm = c, .used = true, .n = 1, .to = to, .polls = plug_polls(c->link)};
	r->b[0] = (struct plug_buffer){.data = data, .bytes = bytes, .tag = (uint32_t)tag};
	plug_buffer_take(c->link, to);
	*request = r;
	return ncclSuccess;
}

ncclResult_t plug_isend(void *comm, void *data, size_t bytes, int tag, void *mr, void **request)
{
	struct plug_comm *c = comm;
	ncclResult_t rc;

	if (c->magic != PLUG_COMM_MAGIC || !c->open || !c->is_send || !mr || *request) {
		plug_wrong("net: isend on what is no open sending end");
		return ncclInternalError;
	}
	if (plug_fault("isend"))
		return ncclRemoteError;
	pthread_mutex_lock(&net.lock);
	rc = plug_send_one(c, data, bytes, tag, request);
	pthread_mutex_unlock(&net.lock);
	return rc;
}

ncclResult_t plug_irecv(void *comm, int n, void **data, const size_t *bytes, const int *tags,
			void **mrs, void **request)
{
	struct plug_comm *c = comm;
	struct plug_req *r;

	if (c->magic != PLUG_COMM_MAGIC || !c->open || c->is_send || n < 1 ||
	    n > plug_number("PLUG_RECVS", 1) || !mrs[n - 1] || *request) {
		plug_wrong("net: irecv of %d buffers", n);
		return ncclInternalError;
	}
	if (plug_fault("irecv"))
		return ncclInvalidArgument;
	pthread_mutex_lock(&net.lock);
	r = plug_req_free(c);
	if (r && !plug_is_late(c->link->number, &c->link->calls)) {
		*r = (struct plug_req){.comm = c, .used = true, .n = n};
		r->number = c->link->posted++;
		r->polls = plug_polls(c->link);
		for (int i = 0; i < n; i++)
			r->b[i] = (struct plug_buffer){
				.data = data[i], .bytes = bytes[i], .tag = (uint32_t)tags[i]};
		*request = r;
	}
	pthread_mutex_unlock(&net.lock);
	return ncclSuccess;
}

static ncclResult_t plug_test_send(struct plug_req *r, int *done)
{
	if (!r->comm->link->recv.open)
		return ncclRemoteError;
	if (r->polls-- > 0)
		return ncclSuccess;
	plug_deliver(r);
	*done = 1;
	return ncclSuccess;
}

/* Writes the messages that have come. */
static ncclResult_t plug_test_recv(struct plug_req *r, int *done, int *sizes)
{
	int left = 0;

	for (int i = 0; i < r->n; i++) {
		struct plug_buffer *b = &r->b[i];

		if (b->delivered && !b->written) {
			memcpy(b->data, b->message, b->got);
			free(b->message);
			b->message = NULL;
			b->written = true;
		}
		sizes[i] = (int)b->got;
		left += !b->written;
	}
	if (left)
		return r->comm->link->send.open ? ncclSuccess : ncclRemoteError;
	*done = r->polls-- <= 0;
	return ncclSuccess;
}

ncclResult_t plug_test(void *request, int *done, int *sizes)
{
	struct plug_req *r = request;
	ncclResult_t rc;

	*done = 0;
	if (!r->used || !r->comm->open) {
		plug_wrong("net: test of a request that has ended");
		return ncclInternalError;
	}
	if (plug_fault("test"))
		return ncclInternalError;
	pthread_mutex_lock(&net.lock);
	rc = r->comm->is_send ? plug_test_send(r, done) : plug_test_recv(r, done, sizes);
	r->used = rc || !*done;
	pthread_mutex_unlock(&net.lock);
	return rc;
}

/* ---- the run --------------------------------------------------------------------------------- */

bool plug_net_end(bool passed)
{
	const bool used = net.link_numbers > 0;

	if (passed && (net.links || net.listeners))
		plug_wrong("net: %s are not closed", net.links ? "connections" : "listeners");
	while (net.links) {
		struct plug_link *l = net.links;

		net.links = l->next;
		plug_link_free(l);
	}
	while (net.listeners) {
		struct plug_listener *l = net.listeners;

		net.listeners = l->next;
		free(l);
	}
	net.link_numbers = net.listener_numbers = 0;
	return used;
}
