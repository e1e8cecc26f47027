/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The order of uses of stream-ordered memory. A use must follow the operation that allocates, and
 * precede the one that frees. Order is counted in operations (stream/use.c): one use may happen to
 * end before the free, but that is not an order. Kernels of collectives are not checked, because a
 * collective orders the accesses of its ranks by itself; the buffers that it declares are.
 */
#include "backends/fakecuda/fakecuda.h"

#include "backends/fakecuda/stream/clock.h"

struct fc_block_at fc_block_at(const struct CUstream_st *s, uint64_t op, const char *call,
			       const void *caller)
{
	return (struct fc_block_at){.stream = s->serial,
				    .op = op,
				    .stream_number = s->number,
				    .gpu = s->ctx->dev->index,
				    .call = call,
				    .caller = caller};
}

bool fc_block_may(const struct fc_ctx *ctx, uint64_t address)
{
	const struct fc_block *b = fc_block_find(ctx->proc, address);

	return b && b->pool->access[ctx->ordinal];
}

/* ---- reports -------------------------------------------------------------------------------- */

static void block_where(const struct fc_block_at *at, char *out, size_t bytes)
{
	char site[80] = "?", stream[48] = "";

	if (at->caller)
		sim_call_site(at->caller, site, sizeof site);
	if (at->stream)
		snprintf(stream, sizeof stream, " in stream %u of gpu %u", at->stream_number,
			 at->gpu);
	snprintf(out, bytes, "%s%s%s%s", at->call, stream, at->caller ? ", called at " : "",
		 at->caller ? site : "");
}

/* Reports a use, once per block. After a fault a task may be unable to wait for everything. */
static void block_report(struct fc_block *b, const struct fc_block_at *use, const char *what,
			 const struct fc_block_at *other)
{
	char a[224], c[224];

	if (b->reported)
		return;
	b->reported = true;
	block_where(use, a, sizeof a);
	block_where(other, c, sizeof c);
	(sim_expects_errors() ? fc_report : fc_misuse)(
		"stream-ordered memory: %s, gpu %u allocation #%u of %llu bytes: %s %s", a,
		b->pool->dev->index, b->number, (unsigned long long)b->bytes, what, c);
}

static const struct CUstream_st *block_stream(const struct fc_proc *p, uint64_t serial)
{
	for (int32_t i = 0; i < p->slots; i++)
		for (struct CUstream_st *s = p->ctx[i] ? p->ctx[i]->streams : NULL; s; s = s->next)
			if (s->serial == serial)
				return s;
	return NULL;
}

/* ---- uses ----------------------------------------------------------------------------------- */

/* Checks a use. `clock`: operations that precede it; `later`: it was queued after the free. A
 * stream that is gone has ended. */
static void block_check(struct fc_block *b, const struct fc_block_at *use,
			const struct fc_clock *clock, bool later)
{
	const bool born = use->stream == b->born.stream
				  ? use->op > b->born.op
				  : clock_of(clock, b->born.stream) >= b->born.op ||
					    !block_stream(b->pool->proc, b->born.stream);

	if (!born)
		block_report(b, use, "nothing orders the use after", &b->born);
	else if (b->is_dying && later)
		block_report(b, use, "use after", &b->dying);
}

void fc_block_used(struct CUstream_st *s, uint64_t address, uint64_t op, const char *call,
		   const void *caller)
{
	struct fc_block *b = fc_block_find(s->ctx->proc, address);

	if (!b)
		return;
	const struct fc_block_at use = fc_block_at(s, op, call, caller);
	block_check(b, &use, &s->clock, true);
	clock_add(&b->used, s->serial, op);
}

void fc_block_used_by_kernel(struct fc_kernel *k, uint64_t address)
{
	struct CUstream_st *s = k->op->stream;
	struct fc_block *b = fc_block_find(k->ctx->proc, address);
	char name[96];

	if (!b || k->ctx->sticky)
		return;
	snprintf(name, sizeof name, "kernel %s (k%u)", k->func->kernel->name, k->number);
	const struct fc_block_at use = fc_block_at(s, k->number_in_stream, name, NULL);
	const bool before = s->serial == b->dying.stream
				    ? k->number_in_stream < b->dying.op
				    : clock_of(&b->before, s->serial) >= k->number_in_stream;
	block_check(b, &use, &k->before, !before);
	clock_add(&b->used, s->serial, k->number_in_stream);
}

/* ---- frees ---------------------------------------------------------------------------------- */

/* Checks that all uses, and the allocation, are in the clock. A stream that is gone has ended. */
static void block_check_free(struct fc_block *b, const struct fc_block_at *end,
			     const struct fc_clock *clock)
{
	const struct fc_proc *p = b->pool->proc;

	if (end->stream != b->born.stream && block_stream(p, b->born.stream) &&
	    clock_of(clock, b->born.stream) < b->born.op)
		block_report(b, end, "nothing orders the free after", &b->born);
	for (uint32_t i = 0; i < b->used.count; i++) {
		const struct fc_clock_entry *e = &b->used.at[i];
		const struct CUstream_st *s = block_stream(p, e->stream);

		if (!s || e->stream == end->stream || clock_of(clock, e->stream) >= e->done)
			continue;
		const struct fc_block_at use = fc_block_at(s, e->done, "the last use", NULL);
		block_report(b, end, "nothing orders the free after", &use);
	}
}

void fc_block_dies(struct fc_block *b, struct CUstream_st *s, const char *call, const void *caller)
{
	b->dying = fc_block_at(s, s->queued, call, caller);
	clock_join(&b->before, &s->clock);
	block_check_free(b, &b->dying, &s->clock);
	b->is_dying = true;
	fc_map_changed(); /* kernels that run look again */
}

void fc_block_ends(struct fc_block *b, const char *call, const void *caller)
{
	const struct fc_block_at end = {.call = call, .caller = caller};

	block_check_free(b, &end, &b->pool->proc->known);
}
