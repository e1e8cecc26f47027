/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/transport/transport.h"

#include <string.h>

#include "core/base/log.h"
#include "core/base/param.h"
#include "core/transport/transport_internal.h"

/* NCCL's: a pair of ranks sends over two channels; toward the network in smaller steps, because most
 * pairs of a communicator have a network between them. */
#define TRANSPORT_PAIR_CHANNELS       2
#define TRANSPORT_PAIR_NET_STEP_BYTES (128u << 10)

static uint32_t transport_simple_step_bytes(void)
{
	uint64_t buffer = (uint64_t)param_i64(PARAM_BUFFSIZE);
	uint32_t grain = steps_grain_bytes(DEV_SIMPLE);
	uint64_t step = buffer / DEV_STEPS / grain * grain;
	const uint64_t most = 64u << 20;

	return (uint32_t)MIN_OF(MAX_OF(step, grain), most);
}

uint32_t transport_step_bytes(enum dev_proto proto)
{
	switch (proto) {
	case DEV_SIMPLE:
		return transport_simple_step_bytes();
	case DEV_PROTO_COUNT:
		break;
	}
	ASSERT(!"a protocol of programs.h");
	return 0;
}

uint64_t transport_first_step(void)
{
	return (uint64_t)param_i64(PARAM_FIRST_STEP) / DEV_STEPS * DEV_STEPS;
}

int32_t transport_local_rank(const struct ncclComm *comm, int32_t rank)
{
	for (int32_t i = 0; i < comm->local_ranks; i++)
		if (comm->local_to_rank[i] == rank)
			return i;
	return -1;
}

ncclResult_t transport_choose(struct conn *c)
{
	int32_t from = c->is_send ? c->comm->rank : c->peer;
	int32_t to = c->is_send ? c->peer : c->comm->rank;

	for (const struct transport *const *t = c->comm->transports; *t; t++) {
		if (!(*t)->can_connect(c->comm, from, to))
			continue;
		c->transport = *t;
		return ncclSuccess;
	}
	WARN("no transport from rank %d to rank %d: neither p2p nor network can connect them", from,
	     to);
	return ncclSystemError;
}

uint32_t transport_conn_step_bytes(const struct conn *c, enum dev_proto proto)
{
	uint32_t bytes = transport_step_bytes(proto);

	return c->index == CONN_PAIR && c->transport->network
		       ? MIN_OF(bytes, TRANSPORT_PAIR_NET_STEP_BYTES)
		       : bytes;
}

uint64_t transport_conn_layout(const struct conn *c, uint32_t step_bytes[DEV_PROTO_COUNT],
			       uint64_t offset[DEV_PROTO_COUNT])
{
	uint64_t bytes = 0;

	for (int p = 0; p < DEV_PROTO_COUNT; p++) {
		step_bytes[p] = transport_conn_step_bytes(c, (enum dev_proto)p);
		offset[p] = bytes;
		bytes += (uint64_t)DEV_STEPS * step_bytes[p];
	}
	return bytes;
}

int32_t transport_pair_channels(const struct ncclComm *comm)
{
	int32_t n = 1;

	while (2 * n <= MIN_OF(comm->nchannels, TRANSPORT_PAIR_CHANNELS))
		n *= 2;
	return n;
}

uint32_t transport_conns_most(const struct ncclComm *comm)
{
	return 2 * (uint32_t)(comm->nchannels + comm->nranks * transport_pair_channels(comm));
}

ncclResult_t transport_connect_rings(struct ncclComm *comm)
{
	struct conn_want wants[2 * DEV_MAX_CHANNELS];
	int n = 0;
	ncclResult_t rc;

	if (comm->nranks == 1)
		return ncclSuccess;
	ASSERT(comm->nchannels > 0 && comm->nchannels <= DEV_MAX_CHANNELS);
	for (int32_t i = 0; i < comm->nchannels; i++) {
		const struct channel *ch = &comm->channels[i];

		wants[n++] = (struct conn_want){.channel = i, .peer = ch->ring_prev};
		wants[n++] =
			(struct conn_want){.channel = i, .peer = ch->ring_next, .is_send = true};
	}
	rc = transport_connect(comm, wants, n);
	for (int32_t i = 0; i < comm->nchannels && !rc; i++) {
		comm->channels[i].ring_recv = transport_conn_find(comm, &wants[2 * i]);
		comm->channels[i].ring_send = transport_conn_find(comm, &wants[2 * i + 1]);
	}
	return rc;
}

void transport_let_go(struct ncclComm *comm)
{
	p2p_imports_close(comm);
}

void transport_close_all(struct ncclComm *comm)
{
	for (int32_t i = 0; i < comm->nchannels; i++)
		comm->channels[i].ring_send = comm->channels[i].ring_recv = NULL;
	transport_conns_close(comm);
	p2p_state_close(comm);
}
