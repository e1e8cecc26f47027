/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registrations and requests.
 */
#include <limits.h>

#include "core/mem/mem.h"
#include "core/transport/net_plugin/net_plugin_internal.h"

/* ---- registrations -------------------------------------------------------------------------- */

static struct net_plugin_registrar net_plugin_registrar_of(struct net_plugin_conn *c)
{
	const struct net_abi *a = c->of->plugin->abi;

	return (struct net_plugin_registrar){&c->end,   &c->dev->props, c->net_comm,
					     a->reg_mr, a->reg_dmabuf,  a->dereg_mr};
}

ncclResult_t net_plugin_reg_mr(void *net_comm, void *data, size_t bytes, enum net_memory where,
			       void **mr)
{
	const struct net_plugin_registrar g = net_plugin_registrar_of(net_comm);

	return net_plugin_mr_make(&g, data, bytes, where, mr);
}

ncclResult_t net_plugin_dereg_mr(void *net_comm, void *mr)
{
	const struct net_plugin_registrar g = net_plugin_registrar_of(net_comm);

	return net_plugin_mr_free(&g, mr);
}

/* ---- requests ------------------------------------------------------------------------------- */

int net_plugin_max_recvs(void *recv_comm)
{
	const struct net_plugin_conn *c = recv_comm;

	return MIN_OF(c->dev->props.max_recvs, NET_MAX_RECVS);
}

/* Returns a free request, of which `reserved` stay free; NULL: all are in use. */
static struct net_request *net_plugin_req(struct net_plugin_conn *c, uint32_t reserved)
{
	struct net_request *r = c->req;

	if (c->in_flight + reserved >= NET_MAX_REQUESTS)
		return NULL;
	while (r->used)
		r++;
	return r;
}

static void net_plugin_req_begin(struct net_plugin_conn *c, struct net_request *r, void *request,
				 const struct net_buffer *b, int n)
{
	*r = (struct net_request){.conn = c, .request = request, .used = true, .n = n};
	for (int i = 0; i < n; i++) {
		r->part[i].data = b[i].data;
		r->part[i].bytes = b[i].bytes;
		r->part[i].gpu = b[i].mr && ((const struct net_plugin_mr *)b[i].mr)->gpu;
	}
	c->in_flight++;
	c->end.misses = 0;
}

static ncclResult_t net_plugin_size_check(struct net_plugin_conn *c, const struct net_buffer *b,
					  int n)
{
	for (int i = 0; i < n; i++)
		if (b[i].bytes > c->dev->props.max_bytes)
			return plugin_end_refuse(
				&c->end,
				"a message of %zu bytes, more than its longest one, %zu: "
				"NCCL_BUFFSIZE and its likes must be lower",
				b[i].bytes, c->dev->props.max_bytes);
	return ncclSuccess;
}

ncclResult_t net_plugin_isend(void *send_comm, const struct net_buffer *b, struct net_request **req,
			      struct wait *w)
{
	struct net_plugin_conn *c = send_comm;
	struct net_request *r = net_plugin_req(c, 0);
	const struct net_plugin_mr *mr = b->mr;
	ncclResult_t rc = c->end.failed;
	void *request = NULL;

	*req = NULL;
	if (!rc)
		rc = net_plugin_size_check(c, b, 1);
	if (rc)
		return rc;
	if (r) {
		if (!mr->gpu)
			shared_note_read(b->data, b->bytes);
		rc = net_plugin_call_isend(c->of->plugin, c->net_comm, b, mr->mr, &request);
	}
	if (rc)
		return plugin_end_failed(&c->end, "isend", rc);
	if (!request) {
		net_plugin_wait(c, "the plugin to take a message", w);
		return ncclSuccess;
	}
	net_plugin_req_begin(c, r, request, b, 1);
	*req = r;
	return ncclSuccess;
}

ncclResult_t net_plugin_irecv(void *recv_comm, const struct net_buffer *b, int n,
			      struct net_request **req, struct wait *w)
{
	struct net_plugin_conn *c = recv_comm;
	struct net_request *r = net_plugin_req(c, 1); /* a flush needs one */
	void *request = NULL, *mr[NET_MAX_RECVS];
	ncclResult_t rc = c->end.failed;

	ASSERT(n >= 1 && n <= net_plugin_max_recvs(c));
	*req = NULL;
	for (int i = 0; i < n; i++)
		mr[i] = ((const struct net_plugin_mr *)b[i].mr)->mr;
	if (!rc)
		rc = net_plugin_size_check(c, b, n);
	if (rc)
		return rc;
	if (r)
		rc = net_plugin_call_irecv(c->of->plugin, c->net_comm, b, mr, n, &request);
	if (rc)
		return plugin_end_failed(&c->end, "irecv", rc);
	if (!request) {
		net_plugin_wait(c, "the plugin to take a receive", w);
		return ncclSuccess;
	}
	net_plugin_req_begin(c, r, request, b, n);
	r->is_recv = true;
	*req = r;
	return ncclSuccess;
}

/* A plugin that returns no request needs no flush: the request is done. */
ncclResult_t net_plugin_iflush(void *recv_comm, void *data, size_t bytes, void *mr,
			       struct net_request **req, struct wait *w)
{
	const struct net_buffer b = {.data = data, .bytes = bytes};
	struct net_plugin_conn *c = recv_comm;
	struct net_request *r = net_plugin_req(c, 0);
	void *request = NULL, *mrs = ((struct net_plugin_mr *)mr)->mr;
	int size = (int)MIN_OF(bytes, (size_t)INT_MAX);
	ncclResult_t rc = c->end.failed;

	*req = NULL;
	if (rc)
		return rc;
	if (!r) {
		net_plugin_wait(c, "a request of the connection to end", w);
		return ncclSuccess;
	}
	rc = c->of->plugin->abi->iflush(c->net_comm, 1, &data, &size, &mrs, &request);
	if (rc)
		return plugin_end_failed(&c->end, "iflush", rc);
	net_plugin_req_begin(c, r, request, &b, 1);
	*req = r;
	return ncclSuccess;
}

/* Copies the sizes of a receive's messages. */
static ncclResult_t net_plugin_sizes(struct net_request *r, const int *sizes, size_t *bytes)
{
	for (int i = 0; i < r->n; i++) {
		bytes[i] = r->part[i].bytes;
		if (!r->is_recv)
			continue;
		if (sizes[i] < 0 || (size_t)sizes[i] > r->part[i].bytes)
			return plugin_end_refuse(
				&r->conn->end,
				"test reports a message of %d bytes in a receive of %zu", sizes[i],
				r->part[i].bytes);
		bytes[i] = (size_t)sizes[i];
		if (!r->part[i].gpu)
			shared_note_write(r->part[i].data, bytes[i]);
	}
	return ncclSuccess;
}

ncclResult_t net_plugin_test(struct net_request *r, bool *done, size_t *bytes, struct wait *w)
{
	struct net_plugin_conn *c = r->conn;
	int finished = 1, sizes[NET_MAX_RECVS] = {0};
	ncclResult_t rc = c->end.failed;

	ASSERT(r->used);
	*done = false;
	if (rc)
		return rc;
	if (r->request) {
		finished = 0;
		rc = c->of->plugin->abi->test(r->request, &finished, sizes);
	}
	if (rc)
		return plugin_end_failed(&c->end, "test", rc);
	if (!finished) {
		net_plugin_wait(c, c->is_send ? "the plugin to send" : "data from the peer", w);
		return ncclSuccess;
	}
	rc = net_plugin_sizes(r, sizes, bytes);
	if (rc)
		return rc;
	r->used = false;
	c->in_flight--;
	c->end.misses = 0;
	*done = true;
	return ncclSuccess;
}

/* A plugin has no function that looks for failures: they show in the next transfer. */
ncclResult_t net_plugin_check(void *net_comm, bool busy, struct wait *w)
{
	struct net_plugin_conn *c = net_comm;

	(void)busy;
	*w = wait_object(c, os_event_seq(c), "a failure of the connection",
			 wait_by(c->who.peer, c->who.channel, NULL));
	return ncclSuccess;
}
