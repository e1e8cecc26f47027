/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Slices that a proxy sends and receives, in the trace file. The flow of a message leads from the
 * sender's proxy over the HCA to the receiver's.
 */
#include "core/proxy/proxy_internal.h"

static uint64_t proxy_trace_flow(const struct proxy_conn *pc, uint64_t step)
{
	return os_trace_flow(pc->comm->id_hash, pc->is_send ? pc->rank : pc->peer,
			     pc->is_send ? pc->peer : pc->rank,
			     pc->channel + DEV_MAX_CHANNELS * pc->conn_index, step);
}

static void proxy_trace_slice(const struct proxy_conn *pc, uint64_t step, size_t bytes,
			      uint64_t from_ns)
{
	const bool relays = pc->rank != pc->comm->rank;
	const struct os_trace_slice slice = {
		.name = pc->is_send ? "send" : "received",
		.arg = {{pc->is_send ? "to" : "from", (uint64_t)pc->peer, NULL},
			{"channel", (uint64_t)pc->channel, NULL},
			{"step", step, NULL},
			{"bytes", bytes, NULL},
			{relays ? "relayed for" : NULL, (uint64_t)pc->rank, NULL}},
		.flow = proxy_trace_flow(pc, step),
		.flow_in = !pc->is_send,
		.flow_out = pc->is_send,
	};

	os_trace_span(&slice, from_ns);
}

uint64_t proxy_trace_send_begins(const struct proxy_conn *pc, uint64_t step)
{
	if (!os_tracing())
		return 0;
	os_self()->flow = proxy_trace_flow(pc, step);
	return os_now_ns();
}

void proxy_trace_send_ends(const struct proxy_conn *pc, uint64_t step, size_t bytes, bool sent,
			   uint64_t from_ns)
{
	if (!from_ns)
		return;
	os_self()->flow = 0;
	if (sent)
		proxy_trace_slice(pc, step, bytes, from_ns);
}

void proxy_trace_received(const struct proxy_conn *pc, uint64_t step, size_t bytes)
{
	if (os_tracing())
		proxy_trace_slice(pc, step, bytes, os_now_ns());
}
