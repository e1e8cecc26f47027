/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/lab/scene/scene_program.h"

#include <string.h>

#define PROGRAM_COUNT 1024 /* words of a call, at most */
#define PROGRAM_FEW   8    /* calls of most groups */
#define PROGRAM_LEAST 100  /* calls of the others */
#define PROGRAM_MOST  200  /* of half of these; else PROGRAM_CALLS */
#define PROGRAM_GROUP "lab.program_step"
#define PROGRAM_APART 4 /* most calls of a group that a task makes for one of its ranks */
#define PROGRAM_CTAS  5 /* up to 2^4 channels of a call */

_Static_assert(PROGRAM_WORDS / 2 / PROGRAM_CALLS > 0, "each call has a word");

/* ---- the plan -------------------------------------------------------------------------------- */

/* All communicators are non-blocking in one program of three. A split that is dropped waits in its
 * parent: the first communicator is blocking then. */
static void program_draw_comms(struct program_plan *p, struct sim_rng *rng)
{
	bool all = sim_rng_below(rng, 3) == 0;

	p->comms = 1 + (int)sim_rng_below(rng, PROGRAM_COMMS);
	for (int i = 0; i < PROGRAM_COMMS; i++)
		p->nonblocking[i] = sim_rng_below(rng, 3) == 0 || all;
	if (p->end == PROGRAM_DROPS_SPLIT)
		p->nonblocking[0] = false;
	p->grouped_inits = sim_rng_below(rng, 2);
	bool split = sim_rng_below(rng, 2);

	p->split = split && p->comms == PROGRAM_COMMS;
	if (p->split)
		p->nonblocking[PROGRAM_COMMS - 1] = p->nonblocking[0];
}

void program_draw(struct program_plan *p, uint64_t seed, int32_t n)
{
	struct sim_rng rng;

	ASSERT(n > 1); /* a message has two ends */
	sim_rng_seed(&rng, seed, "lab.program");
	*p = (struct program_plan){.seed = seed, .n = n, .fails_at = -1};
	p->culprit = (int32_t)sim_rng_below(&rng, (uint64_t)n);
	p->steps = 4 + (int)sim_rng_below(&rng, PROGRAM_STEPS - 3);
	p->end = (enum program_end)sim_rng_below(&rng, PROGRAM_ENDS);
	p->driven = sim_rng_below(&rng, 2) == 0;
	p->options = sim_rng_below(&rng, 2) == 0;
	bool fails = sim_rng_below(&rng, 3) == 0;
	int fails_at = (int)sim_rng_below(&rng, (uint64_t)p->steps);

	if (fails)
		p->fails_at = fails_at;
	p->first = (int)sim_rng_below(&rng, 2);
	p->gone = (int)sim_rng_below(&rng, 2);
	p->collective = sim_rng_below(&rng, 2);
	program_draw_comms(p, &rng);
}

/* ---- a step ---------------------------------------------------------------------------------- */

size_t program_words(const struct program_step *step)
{
	return PROGRAM_WORDS / 2 / (size_t)step->n;
}

bool program_runs(const struct program_step *step)
{
	return step->wrong == PROGRAM_RIGHT;
}

static void program_draw_call(const struct program_plan *p, const struct program_step *step,
			      struct sim_rng *rng, struct program_call *c, bool message)
{
	size_t most = MIN_OF(program_words(step) / (size_t)p->n, (size_t)PROGRAM_COUNT);

	ASSERT(most > 0);
	c->op = (enum program_op)sim_rng_below(rng, PROGRAM_OPS);
	if (message)
		c->op = PROGRAM_MESSAGE;
	c->comm = (int)sim_rng_below(rng, (uint64_t)p->comms);
	c->stream = (int)sim_rng_below(rng, PROGRAM_STREAMS);
	c->recv_stream = (int)sim_rng_below(rng, PROGRAM_STREAMS);
	c->root = (int32_t)sim_rng_below(rng, (uint64_t)p->n);
	c->count = 1 + sim_rng_below(rng, most);
	if (sim_rng_below(rng, 16) == 0)
		c->count = 0;
	c->salt = (uint32_t)sim_rng_below(rng, 1u << 30);
	bool ctas = sim_rng_below(rng, 2);
	int n = 1 << sim_rng_below(rng, PROGRAM_CTAS);

	c->ctas = ctas && p->options && c->op != PROGRAM_MESSAGE ? n : 0;
	if (c->op != PROGRAM_MESSAGE)
		c->recv_stream = c->stream;
}

/* Work of the legacy stream and of a blocking one are ordered. */
static uint32_t program_draw_mask(const struct program_step *step, int comm)
{
	uint32_t mask = 0;

	for (int i = 0; i < step->n; i++) {
		const struct program_call *c = &step->call[i];

		if (c->comm == comm && c->count)
			mask |= 1u << c->stream | 1u << c->recv_stream;
	}
	return mask & 3 ? mask | 3 : mask;
}

static int program_draw_stream(uint32_t mask, struct sim_rng *rng)
{
	int k = (int)sim_rng_below(rng, (uint64_t)__builtin_popcount(mask));

	for (; k; k--)
		mask &= mask - 1;
	return __builtin_ctz(mask);
}

/* A group waits for all streams that its calls on a communicator name, and they for it. A call
 * without elements adds no stream. A group that is refused orders nothing. */
static void program_draw_ends(struct program_step *step, struct sim_rng *rng)
{
	uint32_t mask[PROGRAM_COMMS];

	for (int k = 0; k < PROGRAM_COMMS; k++)
		mask[k] = program_draw_mask(step, k);
	for (int i = 0; i < step->n; i++) {
		struct program_call *c = &step->call[i];

		c->from = c->to = c->stream;
		if (!c->count || step->many || !program_runs(step))
			continue;
		c->from = program_draw_stream(mask[c->comm], rng);
		c->to = program_draw_stream(mask[c->comm], rng);
	}
}

static void program_draw_wrong(const struct program_plan *p, struct program_step *step,
			       struct sim_rng *rng)
{
	bool wrong = sim_rng_below(rng, 4) == 0, late = sim_rng_below(rng, 2);
	bool only = sim_rng_below(rng, 3) == 0;

	step->wrong_at = (int)sim_rng_below(rng, (uint64_t)step->n + 1);
	step->wrong_comm = (int)sim_rng_below(rng, (uint64_t)p->comms);
	if (!wrong || !step->grouped)
		return;
	step->wrong = late ? PROGRAM_LATE : PROGRAM_EARLY;
	if (only && !p->driven)
		step->only = p->culprit;
}

/* The calls of a large group are in one stream, which brings and takes all of them together. Calls
 * of the largest groups are on one communicator: a launch has more works than a byte counts. */
static void program_draw_many(const struct program_plan *p, struct program_step *step,
			      struct sim_rng *rng)
{
	bool one_comm = sim_rng_below(rng, 2) || step->n > PROGRAM_MOST;
	int comm = (int)sim_rng_below(rng, (uint64_t)p->comms);
	int stream = (int)sim_rng_below(rng, PROGRAM_STREAMS);

	for (int i = 0; i < step->n; i++) {
		struct program_call *c = &step->call[i];

		c->stream = c->recv_stream = stream;
		if (one_comm)
			c->comm = comm;
	}
}

/* True if no call of the step may wait for another rank: each communicator is non-blocking, and
 * the least FIFO of works has room for the step. */
static bool program_may_be_apart(const struct program_plan *p, const struct program_step *step)
{
	bool may = p->driven && step->n <= PROGRAM_APART;

	for (int i = 0; i < step->n; i++)
		may &= p->nonblocking[step->call[i].comm];
	return may;
}

void program_draw_step(const struct program_plan *p, int k, struct program_step *step)
{
	struct sim_rng rng;

	sim_rng_seed(&rng, p->seed + (uint64_t)k * LAB_MAX_DEVICES, PROGRAM_GROUP);
	bool many = sim_rng_below(&rng, 6) == 0, single = sim_rng_below(&rng, 4) == 0;
	int most = sim_rng_below(&rng, 2) ? PROGRAM_MOST : PROGRAM_CALLS;
	int more = (int)sim_rng_below(&rng, (uint64_t)(most - PROGRAM_LEAST + 1));
	int few = 1 + (int)sim_rng_below(&rng, PROGRAM_FEW);

	memset(step, 0, sizeof *step);
	step->n = single ? 1 : few;
	step->only = -1;
	step->many = many && p->n <= PROGRAM_WORDS / 2 / PROGRAM_CALLS;
	if (step->many)
		step->n = PROGRAM_LEAST + more;
	step->syncs = sim_rng_below(&rng, 3) == 0;
	step->ranks_first = sim_rng_below(&rng, 2);
	step->busy = (int)sim_rng_below(&rng, PROGRAM_STREAMS);
	bool messages = sim_rng_below(&rng, 3) == 0;

	for (int i = 0; i < step->n; i++)
		program_draw_call(p, step, &rng, &step->call[i], messages);
	if (step->many)
		program_draw_many(p, step, &rng);
	step->grouped = step->n > 1 || !single || p->driven || step->call[0].op == PROGRAM_MESSAGE;
	program_draw_wrong(p, step, &rng);
	program_draw_ends(step, &rng);
	bool apart = sim_rng_below(&rng, 2);

	step->apart = apart && program_may_be_apart(p, step);
}

/* ---- the model ------------------------------------------------------------------------------- */

uint32_t program_input(const struct program_call *c, int32_t rank, size_t word)
{
	return c->salt + (uint32_t)rank * 100003u + (uint32_t)word * 7u;
}

/* A rank of the run from one of the communicator, and the reverse. */
static int32_t program_rank(const struct program_plan *p, const struct program_call *c, int32_t r)
{
	return p->split && c->comm == PROGRAM_COMMS - 1 ? p->n - 1 - r : r;
}

size_t program_input_words(const struct program_plan *p, const struct program_call *c)
{
	return c->count * (c->op == PROGRAM_REDUCE_SCATTER ? (size_t)p->n : 1);
}

static uint32_t program_sum(const struct program_plan *p, const struct program_call *c, size_t word)
{
	uint32_t sum = 0;

	for (int32_t r = 0; r < p->n; r++)
		sum += program_input(c, r, word);
	return sum;
}

uint32_t program_result(const struct program_plan *p, const struct program_call *c, int32_t rank,
			size_t word)
{
	const uint32_t untouched = PROGRAM_FILL * 0x01010101u;
	int32_t mine = program_rank(p, c, rank);

	if (word >= c->count * (c->op == PROGRAM_ALL_GATHER ? (size_t)p->n : 1))
		return untouched;
	switch (c->op) {
	case PROGRAM_ALL_REDUCE:
		return program_sum(p, c, word);
	case PROGRAM_BROADCAST:
		return program_input(c, program_rank(p, c, c->root), word);
	case PROGRAM_ALL_GATHER:
		return program_input(c, program_rank(p, c, (int32_t)(word / c->count)),
				     word % c->count);
	case PROGRAM_REDUCE_SCATTER:
		return program_sum(p, c, (size_t)mine * c->count + word);
	case PROGRAM_MESSAGE:
	default:
		return program_input(c, program_rank(p, c, (mine + p->n - c->root) % p->n), word);
	}
}
