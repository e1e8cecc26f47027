/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long a collective over a ring may take: K times the alpha-beta estimate
 *
 *	tours * (latency of every hop) * loops + bus factor * bytes / bandwidth of the slowest link
 *
 * on one channel. Under fifo, where charges are exact, a collective that takes longer has been
 * serialised somewhere although every result is right: exit 10, class "time".
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sim/lab/run/runner_internal.h"
#include "sim/world/world.h"

enum {
	BOUND_K = 4,
	BOUND_HOP_NS = 1500,     /* kernel to kernel within a host */
	BOUND_NET_HOP_NS = 6000, /* kernel, proxy, wire, flush, proxy, kernel */
	BOUND_CALL_NS = 20000,   /* launch and end */
	BOUND_PAIR_NS = 200000,  /* two ranks connect a channel, both ways */
	BOUND_PAIR_CHANNELS = 2, /* without NCCL_NCHANNELS_PER_NET_PEER */
};

/* The value of an environment variable, `name` with its "="; NULL: it is not set. */
static const char *bound_env(const struct lab_config *c, const char *name)
{
	const char *value = NULL;

	for (const char *const *e = c->env; e && *e; e++)
		if (!strncmp(*e, name, strlen(name)))
			value = *e + strlen(name);
	return value;
}

static uint64_t bound_env_bytes(const struct lab_config *c, const char *name, uint64_t unset)
{
	const char *value = bound_env(c, name);

	return value ? strtoull(value, NULL, 0) : unset;
}

/* How the collective's bytes lie in a connection's buffer. */
struct bound_protocol {
	const char *name, *variable; /* of NCCL_PROTO; that of the buffer's size */
	uint64_t bytes, chunks;      /* the buffer without it; chunks that a buffer has */
	uint64_t data;               /* of 16 bytes */
};
static const struct bound_protocol bound_protocols[] = {
	{"Simple", "NCCL_BUFFSIZE=", 4 << 20, 2, 16}, /* the first: without NCCL_PROTO */
	{"LL", "NCCL_LL_BUFFSIZE=", 512 << 10, 8, 8},
	{"LL128", "NCCL_LL128_BUFFSIZE=", 4800 << 10, 8, 15},
};

static const struct bound_protocol *bound_protocol(const struct lab_config *c)
{
	const char *proto = bound_env(c, "NCCL_PROTO=");

	for (size_t i = 1; proto && i < ARRAY_LEN(bound_protocols); i++)
		if (!strcasecmp(proto, bound_protocols[i].name))
			return &bound_protocols[i];
	return bound_protocols;
}

static uint64_t bound_chunk_bytes(const struct lab_config *c)
{
	const struct bound_protocol *p = bound_protocol(c);
	uint64_t buffer = MAX_OF(bound_env_bytes(c, p->variable, p->bytes), (uint64_t)4096);

	return buffer / p->chunks * p->data / 16;
}

/* The slowest link that one channel may have to use. */
static uint64_t bound_mbps(const struct lab_config *c)
{
	uint64_t slowest = UINT64_MAX;

	for (uint32_t h = 0; h < c->hosts; h++) {
		const struct world_machine *m = world_host_machine(h);

		for (int32_t i = 0; i < m->gpu_count; i++)
			slowest = MIN_OF(slowest, m->gpu[i].pci_mbps);
		for (int32_t i = 0; i < m->nic_count && c->hosts > 1; i++)
			slowest = MIN_OF(slowest, m->nic[i].mbps);
	}
	return slowest == UINT64_MAX || !slowest ? 1000 : slowest;
}

/* Each is a connection of its own to set up. */
static uint64_t bound_pair_channels(const struct lab_config *c)
{
	uint64_t n = bound_env_bytes(c, "NCCL_NCHANNELS_PER_NET_PEER=", BOUND_PAIR_CHANNELS);

	return c->hosts > 1 ? MAX_OF(n, (uint64_t)BOUND_PAIR_CHANNELS) : BOUND_PAIR_CHANNELS;
}

uint64_t lab_bound_ns(const struct lab_run *run, const struct lab_row *row)
{
	const struct lab_config *c = run->config;
	const struct lab_collective *coll = row->collective;
	uint64_t n = (uint64_t)run->nranks, nets = c->hosts > 1 ? c->hosts : 0;
	uint64_t tour = nets * BOUND_NET_HOP_NS + (n - nets) * BOUND_HOP_NS;
	uint64_t loops = 1 + row->bytes / (n * bound_chunk_bytes(c));
	/* of each byte, what crosses a link */
	uint64_t bytes = coll->own_share_stays ? coll->tours * (n - 1) * row->bytes / n
					       : coll->tours * row->bytes;
	uint64_t wire = bytes * 16 / bound_protocol(c)->data * 1000 / bound_mbps(c);

	uint64_t connect = coll->connects ? (n - 1) * bound_pair_channels(c) * BOUND_PAIR_NS : 0;

	ASSERT(nets <= n); /* lab_check_host: each host has a rank */
	return BOUND_K * (BOUND_CALL_NS + connect + coll->tours * tour * loops + wire);
}

void lab_bound_check(struct lab_rank *me, const struct lab_row *row)
{
	const struct lab_config *c = me->run->config;
	uint64_t bound = lab_bound_ns(me->run, row),
		 took = me->elapsed_ns / c->iterations / MAX_OF(c->aggregate, 1u);

	ASSERT(c->iterations > 0);

	if (sim_engine_kind() != SIM_ENGINE_SIM || strcmp(sim_strategy_name(), "fifo") != 0 ||
	    sim_faults_armed() || c->plugins || lab_parts(c) > 1 || c->transient || c->pauses ||
	    c->blocking || took <= bound)
		return;
	lab_judge(me, SIM_NO_PROGRESS, "time",
		  "%s of %llu bytes took %llu ns of virtual time, %d times the alpha-beta "
		  "estimate is %llu ns",
		  row->collective->name, (unsigned long long)row->bytes, (unsigned long long)took,
		  BOUND_K, (unsigned long long)bound);
}
