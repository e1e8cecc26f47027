/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport_net connects two ranks that share no memory. This rank's proxy is between each kernel
 * and the network: the kernel fills or empties slots in memory of its own host, and the proxy moves
 * them. With PXN, it is the proxy of another rank of the host (relay.h). This file passes requests
 * to the proxy's service task and fills in the kernel's view.
 */
#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "core/proxy/relay/relay.h"
#include "core/transport/transport_internal.h"

static bool net_can_connect(const struct ncclComm *comm, int32_t from, int32_t to)
{
	(void)comm;
	return from != to; /* without a NIC, set-up fails with an error */
}

static ncclResult_t net_info_check(const struct conn *c, const struct net_info *info)
{
	if (info->magic != NET_INFO_MAGIC || info->rank != c->peer || info->channel != c->channel ||
	    info->index != c->index || !!info->is_send == c->is_send) {
		WARN("rank %d: invalid network description of channel %d from rank %d (magic %#x, "
		     "rank %d, channel %d)",
		     c->comm->rank, c->channel, c->peer, info->magic, info->rank, info->channel);
		return ncclInternalError;
	}
	return transport_steps_check(c, info->step_bytes);
}

/* Fills in the kernel's view of the connection. Host memory has one address for host and device. */
static void net_fill_dev(struct conn *c)
{
	const struct proxy_conn *pc = c->proxy->conn;

	ASSERT(pc->send_mem && pc->recv_mem);
	for (int p = 0; p < DEV_PROTO_COUNT; p++) {
		c->dev.buffer[p] = pc->buffer[p].at;
		c->dev.step_bytes[p] = pc->buffer[p].step_bytes;
	}
	c->dev.tail = &pc->recv_mem->tail;
	c->dev.head = &pc->send_mem->head;
	c->dev.fifo = c->is_send ? pc->recv_mem->fifo : NULL;
	c->dev.network = conn_reduces(c->comm, c->index, c->comm->rank, c->peer);
	if (c->dev.network)
		snprintf(c->via, sizeof c->via, "/%d%s", pc->nic,
			 pc->buffer[DEV_SIMPLE].on_gpu ? "/GDRDMA" : "");
}

static ncclResult_t net_connect(struct conn *c, const struct connect_info *theirs, struct wait *w)
{
	struct net_info info;
	ncclResult_t rc;

	memcpy(&info, theirs->bytes, sizeof info);
	rc = net_info_check(c, &info);
	if (rc)
		return rc;
	c->dev.step = transport_first_step();
	c->dev.peer = c->peer;
	c->dev.channel = c->channel;
	c->dev.index = c->index;
	if (c->proxy->use)
		return relay_connect(c, theirs, w);
	rc = proxy_connect(c, theirs, w);
	if (!rc)
		net_fill_dev(c);
	return rc;
}

static void net_close(struct conn *c)
{
	proxy_close(c);
	ASSERT(!c->proxy);
	c->transport = NULL;
}

const struct transport transport_net = {
	.name = "NET",
	.network = true,
	.can_connect = net_can_connect,
	.send = {.setup = proxy_setup, .connect = net_connect, .close = net_close},
	.recv = {.setup = proxy_setup, .connect = net_connect, .close = net_close},
};
