/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups of different calls, drawn from the run's seed. */
#include "sim/lab/program/mixed.h"

enum {
	MIXED_CALLS_OFTEN = 6,
	MIXED_OPS = 400, /* more than a slot of operations has numbers */
	MIXED_SALT = 0x6d697865,
};

uint32_t mixed_streams(const struct lab_config *c)
{
	struct sim_rng rng;

	sim_rng_seed(&rng, c->sim.seed, "lab.mixed_stream_count");
	return sim_rng_below(&rng, 3) ? MIXED_STREAMS_OFTEN : MIXED_STREAMS;
}

/* Sizes of 10 B are as frequent as sizes of 10 KiB. */
static uint64_t mixed_bytes(struct sim_rng *rng)
{
	uint64_t shift = sim_rng_below(rng, 15);
	bool empty = sim_rng_below(rng, 8) == 0;
	uint64_t bytes = sim_rng_below(rng, MIN_OF(2ull << shift, (uint64_t)MIXED_BYTES) + 1);

	return empty ? 0 : bytes;
}

static void mixed_draw_call(const struct lab_run *run, struct sim_rng *rng, uint64_t salt,
			    bool many, struct mixed_call *call)
{
	const struct lab_config *c = run->config;
	uint64_t which = sim_rng_below(rng, LAB_COLLECTIVES_OF_NCCL + 2);
	bool message = many || which >= LAB_COLLECTIVES_OF_NCCL;
	struct payload p = {
		.type = (ncclDataType_t)sim_rng_below(rng, LAB_MAX_TYPES),
		.op = (ncclRedOp_t)sim_rng_below(rng, PAYLOAD_MULSUM + 1),
		.nranks = run->nranks,
		.salt = salt,
		.any = c->any_numbers,
	};
	int32_t one = (int32_t)sim_rng_below(rng, (uint64_t)run->nranks);
	bool in_place = sim_rng_below(rng, 2) == 0;
	/* a message is a broadcast as far as buffers go: one block in, one block out */
	const struct lab_collective *of = lab_collective_find("broadcast", 9);

	if (!message)
		of = &lab_collectives[which];
	call->row = lab_row_make(of, &p, one, mixed_bytes(rng), 1);
	call->row.in_place = !message && lab_collective_in_place(of, in_place);
	ASSERT(call->row.bytes <= MIXED_BYTES); /* rounded to whole elements, never up */
	call->distance = message ? one : -1;
	call->comm = (uint32_t)sim_rng_below(rng, lab_comms(c));
	call->stream = (uint32_t)sim_rng_below(rng, mixed_streams(c));
	call->nested = sim_rng_below(rng, 4) == 0;
	bool alone = sim_rng_below(rng, 2) == 0;
	int32_t only = (int32_t)sim_rng_below(rng, (uint64_t)run->nranks);
	call->only = message && alone ? only : -1;
	call->recv_first = sim_rng_below(rng, 3) == 0;
	call->adjacent = sim_rng_below(rng, 4) == 0;
	call->send_late = call->recv_late = 0;
	call->options = 0;
	call->completes = call->after = false;
}

/* Calls without elements have no part in a group, those of some ranks none elsewhere, and in a
 * communicator of one rank each call stays in its stream. */
static bool mixed_joins(const struct mixed_call *call)
{
	return call->row.count && call->row.payload.nranks > 1 && call->only < 0;
}

/* One of the streams of the group's calls on that communicator. */
static uint32_t mixed_any_stream(const struct mixed_group *g, uint32_t comm, struct sim_rng *rng)
{
	uint32_t n = 0, stream = 0;

	for (uint32_t i = 0; i < g->n; i++)
		if (g->call[i].comm == comm && mixed_joins(&g->call[i]) &&
		    sim_rng_below(rng, ++n) == 0)
			stream = g->call[i].stream;
	ASSERT(n > 0); /* the call that is drawn for is one of them */
	return stream;
}

/* Half of the buffers begin late. A call that reduces needs whole elements. */
static uint32_t mixed_draw_late(const struct mixed_call *call, struct sim_rng *rng)
{
	uint32_t late = (uint32_t)sim_rng_below(rng, MIXED_LATE + 1);
	uint32_t width = (uint32_t)payload_type_bytes(call->row.payload.type);

	if (sim_rng_below(rng, 2))
		return 0;
	return call->row.payload.moved || call->distance >= 0 ? late : late / width * width;
}

/* Each rank has its own, one group in two. */
static void mixed_draw_lates(struct mixed_group *g, struct sim_rng *rng)
{
	bool late = sim_rng_below(rng, 2);

	for (uint32_t i = 0; i < g->n && late; i++) {
		g->call[i].send_late = mixed_draw_late(&g->call[i], rng);
		g->call[i].recv_late = mixed_draw_late(&g->call[i], rng);
	}
}

void mixed_draw_order(const struct lab_rank *me, uint32_t round, struct mixed_group *g)
{
	struct sim_rng rng;

	for (uint32_t i = 0; i < g->n; i++)
		g->order[i] = i;
	sim_rng_seed(&rng, me->run->config->sim.seed + round * LAB_MAX_DEVICES + (uint64_t)me->rank,
		     "lab.mixed_order");
	if (g->orders)
		mixed_order_shuffle(g->call, g->n, &rng, g->order);
	sim_rng_seed(&rng, me->run->config->sim.seed + round * LAB_MAX_DEVICES + (uint64_t)me->rank,
		     "lab.mixed_late");
	mixed_draw_lates(g, &rng);
}

/* A call of each communicator has a completion event, after which results of all its calls in the
 * group may be taken. */
static void mixed_draw_completion(struct mixed_group *g, uint32_t comm, struct sim_rng *rng)
{
	struct mixed_call *one = NULL;
	uint32_t n = 0;

	for (uint32_t i = 0; i < g->n; i++)
		if (g->call[i].comm == comm && mixed_joins(&g->call[i]) &&
		    g->call[i].distance < 0 && sim_rng_below(rng, ++n) == 0)
			one = &g->call[i];
	if (!one)
		return;
	one->completes = true;
	for (uint32_t i = 0; i < g->n; i++)
		g->call[i].after =
			g->call[i].after || (g->call[i].comm == comm && mixed_joins(&g->call[i]));
}

static void mixed_draw_options(const struct lab_run *run, uint32_t round, struct mixed_group *g)
{
	struct sim_rng rng;

	sim_rng_seed(&rng, run->config->sim.seed + round, "lab.mixed_options");
	for (uint32_t i = 0; i < g->n; i++)
		g->call[i].options = g->call[i].row.payload.salt;
	for (uint32_t comm = 0; comm < lab_comms(run->config); comm++)
		if (sim_rng_below(&rng, 3))
			mixed_draw_completion(g, comm, &rng);
}

void mixed_draw(const struct lab_run *run, uint32_t round, struct mixed_group *g)
{
	struct sim_rng rng;

	sim_rng_seed(&rng, run->config->sim.seed + round, "lab.mixed");
	g->renews = sim_rng_below(&rng, 4) == 0;
	bool many = sim_rng_below(&rng, 6) == 0;
	g->n = 2 + (uint32_t)sim_rng_below(&rng, (many ? MIXED_CALLS : MIXED_CALLS_OFTEN) - 1);
	ASSERT(g->n <= MIXED_CALLS);
	bool refused = sim_rng_below(&rng, 4) == 0;
	g->refused = refused ? (int32_t)sim_rng_below(&rng, g->n + 1) : -1;
	g->refused_apart = sim_rng_below(&rng, 2) == 0;
	g->ops = sim_rng_below(&rng, 4) ? 0 : 1 + (uint32_t)sim_rng_below(&rng, MIXED_OPS);
	for (uint32_t i = 0; i < g->n; i++)
		mixed_draw_call(run, &rng, MIXED_SALT + (uint64_t)round * MIXED_CALLS + i, many,
				&g->call[i]);
	g->orders = sim_rng_below(&rng, 2) == 0;
	mixed_order_comms(g->call, g->n);
	for (uint32_t i = 0; i < g->n; i++) {
		struct mixed_call *call = &g->call[i];

		call->from = call->to = call->stream;
		if (!mixed_joins(call))
			continue;
		call->from = mixed_any_stream(g, call->comm, &rng);
		call->to = mixed_any_stream(g, call->comm, &rng);
	}
	if (run->config->options)
		mixed_draw_options(run, round, g);
}
