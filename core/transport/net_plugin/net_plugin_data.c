/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registrations and requests.
 */
#include <limits.h>

#include "core/mem/mem.h"
#include "core/transport/net_plugin/net_plugin_internal.h"

/* ---- registrations -------------------------------------------------------------------------- */

/* ncclInvalidUsage: not possible as a dma-buf. An error of the plugin is logged at INFO. */
static ncclResult_t net_plugin_reg_dmabuf(struct net_plugin_conn *c, void *data, size_t bytes,
					  void **mr)
{
	const struct net_abi *a = c->of->plugin->abi;
	size_t offset;
	ncclResult_t rc;
	int fd;

	if (!(c->dev->props.ptr_support & NET_ABI_DMABUF) || !a->reg_dmabuf ||
	    !param_bool(PARAM_DMABUF_ENABLE) || mem_dmabuf(data, bytes, &fd, &offset))
		return ncclInvalidUsage;
	rc = a->reg_dmabuf(c->net_comm, data, bytes, NET_ABI_CUDA, offset, fd, mr);
	os_descriptor_close(fd); /* the registration keeps the memory */
	if (!rc)
		return ncclSuccess;
	INFO(LOG_INIT | LOG_NET, "NET/Plugin: rank %d: regMrDmaBuf of %s on %s returns %s",
	     c->comm->rank, c->of->plugin->name, c->dev->props.name, plugin_result(rc));
	return ncclInvalidUsage;
}

static ncclResult_t net_plugin_reg_gpu(struct net_plugin_conn *c, void *data, size_t bytes,
				       void **mr)
{
	ncclResult_t rc = net_plugin_reg_dmabuf(c, data, bytes, mr);

	if (!rc || !(c->dev->props.ptr_support & NET_ABI_CUDA))
		return rc;
	rc = c->of->plugin->abi->reg_mr(c->net_comm, data, bytes, NET_ABI_CUDA, mr);
	if (!rc)
		return ncclSuccess;
	INFO(LOG_INIT | LOG_NET, "NET/Plugin: rank %d: regMr of %s on %s returns %s for GPU memory",
	     c->comm->rank, c->of->plugin->name, c->dev->props.name, plugin_result(rc));
	return ncclInvalidUsage;
}

ncclResult_t net_plugin_reg_mr(void *net_comm, void *data, size_t bytes, enum net_memory where,
			       void **mr)
{
	struct net_plugin_mr *r = os_alloc(sizeof *r, "registration of a net plugin");
	struct net_plugin_conn *c = net_comm;
	ncclResult_t rc;

	*mr = NULL;
	if (r)
		r->gpu = where != NET_HOST;
	if (!r) {
		WARN("NET/Plugin: rank %d: no memory to register %zu bytes", c->comm->rank, bytes);
		return ncclSystemError;
	}
	if (where != NET_HOST) {
		rc = net_plugin_reg_gpu(c, data, bytes, &r->mr);
	} else {
		rc = c->of->plugin->abi->reg_mr(c->net_comm, data, bytes, NET_ABI_HOST, &r->mr);
		if (rc)
			rc = plugin_end_failed(&c->end, "regMr of host memory", rc);
	}
	if (rc)
		os_free(r);
	else
		*mr = r;
	return rc;
}

ncclResult_t net_plugin_dereg_mr(void *net_comm, void *mr)
{
	struct net_plugin_conn *c = net_comm;
	struct net_plugin_mr *r = mr;
	ncclResult_t rc = c->of->plugin->abi->dereg_mr(c->net_comm, r->mr);

	os_free(r);
	return rc ? plugin_end_failed(&c->end, "deregMr", rc) : ncclSuccess;
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
	*w = (struct wait){
		.on = c,
		.want = os_event_seq(c),
		.kind = WAIT_OBJECT,
		.why = "a failure of the connection",
		.from = {.rank = c->who.peer, .channel = c->who.channel, .step = -1},
	};
	return ncclSuccess;
}
