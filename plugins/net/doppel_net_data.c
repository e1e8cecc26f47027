/* SPDX-License-Identifier: BSD-3-Clause */
/* The net plugin's connections, registrations and data. */
#include <string.h>

#include "core/base/log.h"
#include "plugins/net/doppel_net.h"

/* Ranks of connections are not known to a plugin. Both ends name themselves and each other 0. */
static const struct net_who doppel_who = {.rank = 0, .peer = 0, .channel = 0};

/* Offset in the caller's copy of a handle. The pending connection of the network is kept there
 * between two calls. The networks' handles are shorter. */
#define DOPPEL_PENDING_AT (NET_HANDLE_BYTES - sizeof(void *))

/* ---- connections ----------------------------------------------------------------------------- */

ncclResult_t doppel_listen(int dev, void *handle, void **listen)
{
	struct doppel_net *s = doppel_state();
	struct net_nic nic;
	ncclResult_t rc;

	*listen = NULL;
	memset(handle, 0, NET_HANDLE_BYTES);
	if (!doppel_nic(s, dev, &nic))
		return ncclInvalidArgument;
	os_mutex_lock(&s->lock);
	rc = s->ops->listen(s->comm, &nic, &doppel_who, handle, listen);
	os_mutex_unlock(&s->lock);
	return rc;
}

ncclResult_t doppel_listen_v11(void *context, int dev, void *handle, void **listen)
{
	(void)context;
	return doppel_listen(dev, handle, listen);
}

/* A call that is not complete returns ncclSuccess with *comm NULL, and comes again. */
static ncclResult_t doppel_result(ncclResult_t rc, struct net_abi_offload **offload)
{
	if (offload)
		*offload = NULL;
	return rc == ncclInProgress ? ncclSuccess : rc;
}

ncclResult_t doppel_connect(int dev, void *handle, void **comm, struct net_abi_offload **offload)
{
	struct doppel_net *s = doppel_state();
	uint8_t *pending_at = (uint8_t *)handle + DOPPEL_PENDING_AT;
	struct net_handle h;
	struct net_nic nic;
	struct wait w;
	ncclResult_t rc;
	void *pending;

	*comm = NULL;
	if (!doppel_nic(s, dev, &nic))
		return ncclInvalidArgument;
	memcpy(&h, handle, sizeof h);
	memcpy(&pending, pending_at, sizeof pending);
	memset(h.bytes + DOPPEL_PENDING_AT, 0, sizeof pending);
	os_mutex_lock(&s->lock);
	rc = s->ops->connect(s->comm, &nic, &doppel_who, &h, &pending, comm, &w);
	os_mutex_unlock(&s->lock);
	memcpy(pending_at, &pending, sizeof pending);
	return doppel_result(rc, offload);
}

ncclResult_t doppel_connect_v10(int dev, struct net_abi_config *config, void *handle, void **comm,
				struct net_abi_offload **offload)
{
	(void)config;
	return doppel_connect(dev, handle, comm, offload);
}

ncclResult_t doppel_connect_v11(void *context, int dev, void *handle, void **comm,
				struct net_abi_offload **offload)
{
	(void)context;
	return doppel_connect(dev, handle, comm, offload);
}

ncclResult_t doppel_accept(void *listen, void **comm, struct net_abi_offload **offload)
{
	struct doppel_net *s = doppel_state();
	struct wait w;
	ncclResult_t rc;

	*comm = NULL;
	os_mutex_lock(&s->lock);
	rc = s->ops->accept(listen, comm, &w);
	os_mutex_unlock(&s->lock);
	return doppel_result(rc, offload);
}

static ncclResult_t doppel_close_with(void (*close)(void *), void *object)
{
	struct doppel_net *s = doppel_state();

	if (!object)
		return ncclSuccess;
	os_mutex_lock(&s->lock);
	close(object);
	os_mutex_unlock(&s->lock);
	return ncclSuccess;
}

ncclResult_t doppel_close_send(void *comm)
{
	return doppel_close_with(doppel_state()->ops->close_send, comm);
}

ncclResult_t doppel_close_recv(void *comm)
{
	if (comm)
		doppel_state()->ops->finish(comm);
	return doppel_close_with(doppel_state()->ops->close_recv, comm);
}

ncclResult_t doppel_close_listen(void *listen)
{
	return doppel_close_with(doppel_state()->ops->close_listen, listen);
}

/* ---- memory ---------------------------------------------------------------------------------- */

ncclResult_t doppel_reg_mr(void *comm, void *data, size_t bytes, int type, void **mr)
{
	struct doppel_net *s = doppel_state();
	ncclResult_t rc;

	*mr = NULL;
	if (type != NET_ABI_HOST && type != NET_ABI_CUDA) {
		WARN("NET/Doppel: memory of type %d, expected %d or %d", type, NET_ABI_HOST,
		     NET_ABI_CUDA);
		return ncclInvalidArgument;
	}
	os_mutex_lock(&s->lock);
	rc = s->ops->reg_mr(comm, data, bytes, type == NET_ABI_HOST ? NET_HOST : NET_GPU_FLUSH, mr);
	os_mutex_unlock(&s->lock);
	return rc;
}

ncclResult_t doppel_dereg_mr(void *comm, void *mr)
{
	struct doppel_net *s = doppel_state();
	ncclResult_t rc;

	os_mutex_lock(&s->lock);
	rc = s->ops->dereg_mr(comm, mr);
	os_mutex_unlock(&s->lock);
	return rc;
}

/* ---- data ------------------------------------------------------------------------------------ */

ncclResult_t doppel_isend_v9(void *comm, void *data, size_t bytes, int tag, void *mr,
			     void **request)
{
	const struct net_buffer b = {.data = data, .bytes = bytes, .mr = mr, .tag = (uint32_t)tag};
	struct net_request *req = NULL;
	struct wait w;
	ncclResult_t rc = doppel_state()->ops->isend(comm, &b, &req, &w);

	*request = req;
	return rc;
}

ncclResult_t doppel_isend_v8(void *comm, void *data, int bytes, int tag, void *mr, void **request)
{
	return doppel_isend_v9(comm, data, (size_t)bytes, tag, mr, request);
}

ncclResult_t doppel_isend_v10(void *comm, void *data, size_t bytes, int tag, void *mr, void *event,
			      void **request)
{
	(void)event;
	return doppel_isend_v9(comm, data, bytes, tag, mr, request);
}

ncclResult_t doppel_irecv_v9(void *comm, int n, void **data, size_t *bytes, int *tags, void **mrs,
			     void **request)
{
	struct net_buffer b[NET_MAX_RECVS];
	struct net_request *req = NULL;
	struct wait w;
	ncclResult_t rc;

	*request = NULL;
	if (n < 1 || n > NET_MAX_RECVS) {
		WARN("NET/Doppel: a receive of %d buffers, expected 1 to %d", n, NET_MAX_RECVS);
		return ncclInvalidArgument;
	}
	for (int i = 0; i < n; i++)
		b[i] = (struct net_buffer){
			.data = data[i], .bytes = bytes[i], .mr = mrs[i], .tag = (uint32_t)tags[i]};
	rc = doppel_state()->ops->irecv(comm, b, n, &req, &w);
	*request = req;
	return rc;
}

ncclResult_t doppel_irecv_v8(void *comm, int n, void **data, int *bytes, int *tags, void **mrs,
			     void **request)
{
	size_t size[NET_MAX_RECVS] = {0};

	for (int i = 0; i < n && i < NET_MAX_RECVS; i++)
		size[i] = (size_t)bytes[i];
	return doppel_irecv_v9(comm, n, data, size, tags, mrs, request);
}

ncclResult_t doppel_irecv_v10(void *comm, int n, void **data, size_t *bytes, int *tags, void **mrs,
			      void **events, void **request)
{
	(void)events;
	return doppel_irecv_v9(comm, n, data, bytes, tags, mrs, request);
}

/* One flush is enough for all buffers of a receive. A connection has room for a flush of each of
 * its receives. */
ncclResult_t doppel_iflush(void *comm, int n, void **data, int *bytes, void **mrs, void **request)
{
	struct net_request *req = NULL;
	struct wait w;
	ncclResult_t rc;
	int last = n - 1;

	*request = NULL;
	while (last >= 0 && !bytes[last])
		last--;
	if (last < 0)
		return ncclSuccess;
	rc = doppel_state()->ops->iflush(comm, data[last], (size_t)bytes[last], mrs[last], &req,
					 &w);
	if (!rc && !req) {
		WARN("NET/Doppel: a flush beside %d requests", NET_MAX_REQUESTS);
		rc = ncclInternalError;
	}
	*request = req;
	return rc;
}

ncclResult_t doppel_test(void *request, int *done, int *sizes)
{
	size_t bytes[NET_MAX_RECVS] = {0};
	bool is_done = false;
	struct wait w;
	ncclResult_t rc;

	*done = 0;
	for (int i = 0; i < NET_MAX_RECVS; i++)
		bytes[i] = SIZE_MAX; /* not a receive's */
	rc = doppel_state()->ops->test(request, &is_done, bytes, &w);
	*done = is_done;
	for (int i = 0; sizes && is_done && i < NET_MAX_RECVS && bytes[i] != SIZE_MAX; i++)
		sizes[i] = (int)bytes[i];
	return rc;
}
