/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Uses of memory and their order: buffers of collectives (os_use), copies, fills, frees, and
 * accesses of the program's kernels. Suppose that two uses have bytes in common, one is a
 * collective's and one is a write. Then the program must order them: by the same stream, an event,
 * the legacy rule, or a host wait. Chance is not an order: one use may just happen to end before
 * the other begins. A use without order is misuse, reported with both call sites.
 *
 * Order is counted in operations. A clock has, for each stream, the number of its operations that
 * precede the clock's owner. Each stream and each recorded event has a clock, and so has the
 * process' host side. The tasks of the host side count as one, because they may order themselves in
 * ways that are not visible here.
 *
 * The caller holds fc_lock. Nothing here draws random numbers, waits or traces, so the run is the
 * same as without these checks.
 */
#include "backends/fakecuda/fakecuda.h"

#include <stdlib.h>
#include <string.h>

#include "backends/fakecuda/stream/clock.h"
#include "core/base/text.h"

#define USES_MOST 1024u /* uses per process; the oldest are dropped */
#define USE_WHAT  48

/* ---- clocks --------------------------------------------------------------------------------- */

void fc_clock_free(struct fc_clock *c)
{
	free(c->at);
	*c = (struct fc_clock){0};
}

/* ---- order ---------------------------------------------------------------------------------- */

/* Adds to the stream's clock everything that the host waited for, and the other side of the legacy
 * rule. */
static void use_before_next(struct CUstream_st *s)
{
	struct fc_proc *p = s->ctx->proc;
	struct CUstream_st *legacy = s->ctx->streams;

	if (s->known_seen != p->known_changes) {
		clock_join(&s->clock, &p->known);
		s->known_seen = p->known_changes;
	}
	if (!(s->flags & cudaStreamNonBlocking)) {
		for (struct CUstream_st *o = s->number ? legacy : legacy->next; o;
		     o = s->number ? NULL : o->next) {
			if (o->flags & cudaStreamNonBlocking)
				continue;
			clock_join(&s->clock, &o->clock);
			clock_add(&s->clock, o->serial, o->queued);
		}
	}
}

void fc_use_queued(struct CUstream_st *s, struct fc_op *op)
{
	use_before_next(s);
	if (op->kind == FC_OP_RECORD) {
		clock_join(&op->event.mark->clock, &s->clock);
		clock_add(&op->event.mark->clock, s->serial, s->queued);
	} else if (op->kind == FC_OP_WAIT) {
		clock_join(&s->clock, &op->event.mark->clock);
	}
}

void fc_use_waits(struct CUstream_st *s, const struct fc_mark *mark)
{
	clock_join(&s->clock, &mark->clock);
}

void fc_use_host_waited(struct CUstream_st *s, uint64_t done)
{
	struct fc_proc *p = s->ctx->proc;

	if (clock_of(&p->known, s->serial) >= done)
		return;
	clock_join(&p->known, &s->clock);
	clock_add(&p->known, s->serial, done);
	p->known_changes++;
}

void fc_use_host_waited_mark(struct fc_proc *p, const struct fc_mark *mark)
{
	clock_join(&p->known, &mark->clock);
	p->known_changes++;
}

/* ---- uses ----------------------------------------------------------------------------------- */

struct fc_use {
	uint64_t lo, hi;
	uint64_t stream, op; /* used until `op` operations of the stream are done */
	uint32_t stream_number, gpu;
	bool write, collective;
	const void *caller;
	struct fc_clock before; /* a collective's: operations that precede it */
	char what[USE_WHAT];
	uint64_t number, comm; /* a collective's */
};

static void use_free(struct fc_use *u)
{
	fc_clock_free(&u->before);
}

static void uses_remove(struct fc_proc *p, uint32_t i)
{
	if (p->use[i].collective)
		__atomic_sub_fetch(&p->collectives, 1, __ATOMIC_RELAXED);
	use_free(&p->use[i]);
	p->use_count--;
	memmove(&p->use[i], &p->use[i + 1], (p->use_count - i) * sizeof p->use[0]);
}

/* Removes uses for which the host has waited: they precede all future operations of the host. But
 * they need not precede accesses of the program's kernels that were queued earlier. */
static void uses_prune(struct fc_proc *p)
{
	if (p->pruned == p->known_changes || p->strangers)
		return;
	p->pruned = p->known_changes;
	for (uint32_t i = p->use_count; i-- > 0;)
		if (clock_of(&p->known, p->use[i].stream) >= p->use[i].op)
			uses_remove(p, i);
}

/* Returns an earlier use of the same bytes in the same stream, which the new use replaces. */
static struct fc_use *uses_again(struct fc_proc *p, const struct fc_use *u)
{
	for (uint32_t i = p->use_count; i-- > 0;) {
		struct fc_use *o = &p->use[i];
		if (o->stream == u->stream && o->lo == u->lo && o->hi == u->hi &&
		    o->write == u->write && o->collective == u->collective)
			return o;
	}
	return NULL;
}

static void uses_keep(struct fc_proc *p, const struct fc_use *u, const struct fc_clock *before)
{
	struct fc_use *at = uses_again(p, u);

	if (at) {
		use_free(at);
	} else {
		if (p->use_count == USES_MOST)
			uses_remove(p, 0);
		if (p->use_count == p->use_room) {
			p->use_room = MAX_OF(8u, 2 * p->use_room);
			p->use = realloc(p->use, p->use_room * sizeof *p->use);
			ASSERT(p->use);
		}
		at = &p->use[p->use_count++];
		if (u->collective)
			__atomic_add_fetch(&p->collectives, 1, __ATOMIC_RELAXED);
	}
	*at = *u;
	if (u->collective)
		clock_join(&at->before, before);
}

/* ---- reports of uses without order ---------------------------------------------------------- */

static void use_where(const struct fc_use *u, char *out, size_t bytes)
{
	char site[80] = "?", name[USE_WHAT + 48], stream[48] = "";

	if (u->caller)
		sim_call_site(u->caller, site, sizeof site);
	snprintf(name, sizeof name, "%s", u->what);
	if (u->collective)
		snprintf(name, sizeof name, "%s, operation %llu of communicator %llx", u->what,
			 (unsigned long long)u->number, (unsigned long long)u->comm);
	if (u->stream)
		snprintf(stream, sizeof stream, " in stream %u of gpu %u", u->stream_number,
			 u->gpu);
	snprintf(out, bytes, "%s%s%s%s", name, stream, u->caller ? ", called at " : "",
		 u->caller ? site : "");
}

/* Reports two uses without order. After a fault or an abort a task may be unable to wait for
 * everything, so that is not misuse. */
static void use_report(const struct fc_use *now, const struct fc_use *before)
{
	char a[224], b[224];
	uint64_t lo = MAX_OF(now->lo, before->lo), hi = MIN_OF(now->hi, before->hi);

	use_where(now, a, sizeof a);
	use_where(before, b, sizeof b);
	(sim_expects_errors() ? fc_report : fc_misuse)(
		"buffer in use: %s, %s %llu bytes at 0x%llx, and nothing orders that after %s, "
		"which %s them",
		a, now->write ? "writes" : "reads", (unsigned long long)(hi - lo),
		(unsigned long long)lo, b, before->write ? "writes" : "reads");
}

static bool use_clash(const struct fc_use *a, const struct fc_use *b)
{
	return (a->collective || b->collective) && (a->write || b->write) && a->lo < b->hi &&
	       b->lo < a->hi;
}

/* Checks a use against all earlier ones and reports the first without order. `clock`: operations
 * that precede `u`. */
static bool use_check(struct fc_proc *p, const struct fc_use *u, const struct fc_clock *clock)
{
	uses_prune(p);
	for (uint32_t i = p->use_count; i-- > 0;) {
		const struct fc_use *o = &p->use[i];
		if (!use_clash(u, o) || o->stream == u->stream ||
		    clock_of(clock, o->stream) >= o->op)
			continue;
		use_report(u, o);
		return true;
	}
	return false;
}

static struct fc_use use_in(const struct CUstream_st *s, uint64_t address, uint64_t bytes,
			    bool write, const void *caller, const char *what)
{
	struct fc_use u = {.lo = address,
			   .hi = address + bytes,
			   .stream = s->serial,
			   .op = s->queued,
			   .stream_number = s->number,
			   .gpu = s->ctx->dev->index,
			   .write = write,
			   .caller = caller};
	text_set(u.what, sizeof u.what, what);
	return u;
}

/* ---- uses of streams and kernels ------------------------------------------------------------ */

void fc_use_range(struct CUstream_st *s, uint64_t address, uint64_t bytes, bool write,
		  const void *caller, const char *call)
{
	struct fc_use u = use_in(s, address, bytes, write, caller, call);

	if (UNLIKELY(s->ctx->proc->pools) && !s->ctx->sticky)
		fc_block_used(s, address, s->queued, call, caller);
	if (s->ctx->sticky || s->use_said == s->queued)
		return;
	use_check(s->ctx->proc, &u, &s->clock);
	uses_keep(s->ctx->proc, &u, NULL);
}

void fc_use_free(struct fc_proc *p, uint64_t address, uint64_t bytes, const void *caller,
		 const char *call)
{
	struct fc_use u = {.lo = address, .hi = address + bytes, .write = true, .caller = caller};

	text_set(u.what, sizeof u.what, call);
	if (p->collectives)
		use_check(p, &u, &p->known);
}

/* Forgets the uses of freed memory: the addresses may belong to another allocation from now on. */
void fc_use_freed(struct fc_proc *p, uint64_t address, uint64_t bytes)
{
	for (uint32_t i = p->use_count; i-- > 0;)
		if (p->use[i].lo < address + bytes && address < p->use[i].hi)
			uses_remove(p, i);
}

/* Checks an access of a program's kernel. The kernel must precede a collective that was queued
 * after it, and follow one for which its stream waited. Reports once per kernel. */
void fc_use_kernel(struct fc_kernel *k, uint64_t address, uint64_t bytes, bool write)
{
	struct CUstream_st *s = k->op->stream;
	struct fc_proc *p = k->ctx->proc;

	fc_lock();
	uses_prune(p);
	for (uint32_t i = 0; i < p->use_count && !k->known_uses && !k->ctx->sticky; i++) {
		const struct fc_use *o = &p->use[i];
		struct fc_use u = use_in(s, address, bytes, write, NULL, "kernel ");
		if (!o->collective || !use_clash(&u, o) || o->stream == s->serial ||
		    clock_of(&k->before, o->stream) >= o->op ||
		    clock_of(&o->before, s->serial) >= k->number_in_stream)
			continue;
		snprintf(u.what, sizeof u.what, "kernel %s (k%u)", k->func->kernel->name,
			 k->number);
		use_report(&u, o);
		__atomic_store_n(&k->known_uses, true, __ATOMIC_RELAXED);
	}
	fc_unlock();
}

/* ---- memory of another process -------------------------------------------------------------- */

void fc_use_mapped(struct fc_kernel *k, const struct fc_range *range)
{
	struct fc_ipc_open *o = k->ctx->proc->open;

	if (UNLIKELY(k->ctx->proc->pools) && !k->known_uses)
		fc_block_used_by_kernel(k, range->lo);
	if (fc_vmm_has(range->lo)) {
		struct fc_vmm_map *m = fc_vmm_map_at(k->ctx->proc, range->lo);

		for (; m && m->base < range->hi; m = m->next)
			clock_add(&m->used, k->op->stream->serial, k->number_in_stream);
		return;
	}
	if (range->kind == FC_RANGE_HOST)
		return;
	while (o && o->base != range->lo)
		o = o->next;
	if (o)
		clock_add(&o->used, k->op->stream->serial, k->number_in_stream);
}

static const struct CUstream_st *use_stream(const struct fc_proc *p, uint64_t serial)
{
	for (int32_t i = 0; i < p->slots; i++)
		for (struct CUstream_st *s = p->ctx[i] ? p->ctx[i]->streams : NULL; s; s = s->next)
			if (s->serial == serial)
				return s;
	return NULL;
}

/* Checks that the host waited for the kernels that accessed the mapping. A kernel that happened
 * to end before is not ordered. */
void fc_use_unmap(struct fc_proc *p, const struct fc_use_mapping *mapping, const void *caller)
{
	char site[80];

	for (uint32_t i = 0; i < mapping->used->count; i++) {
		const struct fc_clock_entry *e = &mapping->used->at[i];
		const struct CUstream_st *s = use_stream(p, e->stream);

		if (!s || s->ctx->sticky || clock_of(&p->known, e->stream) >= e->done)
			continue;
		sim_call_site(caller, site, sizeof site);
		(sim_expects_errors() ? fc_report : fc_misuse)(
			"mapping in use: %s of %s %u #%u, called at %s, which a kernel in stream "
			"%u of gpu %u uses, and the host has not waited for that",
			mapping->call, fc_memory_kind(mapping->memory),
			fc_memory_number(mapping->memory), mapping->number, site, s->number,
			s->ctx->dev->index);
		return;
	}
}

static void use_collective(struct CUstream_st *s, const struct os_use *use, const void *at,
			   size_t bytes, bool write)
{
	if (!at || !bytes)
		return;
	struct fc_use u = use_in(s, (uintptr_t)at, bytes, write, use->caller, use->what);
	u.op = s->queued + 1;
	u.collective = true;
	u.number = use->number;
	u.comm = use->comm;
	if (UNLIKELY(s->ctx->proc->pools))
		fc_block_used(s, (uintptr_t)at, u.op, use->what, use->caller);
	use_check(s->ctx->proc, &u, &s->clock);
	uses_keep(s->ctx->proc, &u, &s->clock);
}

void fc_use_declare(struct CUstream_st *s, const struct os_use *use)
{
	use_before_next(s);
	s->use_said = s->queued + 1;
	use_collective(s, use, use->read, use->read_bytes, false);
	use_collective(s, use, use->write, use->write_bytes, true);
}

static void use_of_collective(const struct os_use *use)
{
	struct fc_proc *p;

	fc_lock();
	p = fc.ready ? os_proc()->slot[OS_SLOT_CUDA] : NULL;
	struct CUstream_st *s =
		p && p->count ? fc_stream_get(fc_ctx_get(p, fc_current()),
					      (cudaStream_t)(uintptr_t)use->stream, "os_use")
			      : NULL;
	if (s && s->capture)
		fc_capture_use(s, use);
	else if (s && !s->ctx->sticky)
		fc_use_declare(s, use);
	fc_unlock();
}

/* ---- end of streams and processes ----------------------------------------------------------- */

/* Removes the stream's uses. No task can queue in it from now on, and its operations are done. */
void fc_use_stream_gone(struct CUstream_st *s)
{
	struct fc_proc *p = s->ctx->proc;

	for (uint32_t i = p->use_count; i-- > 0;)
		if (p->use[i].stream == s->serial)
			uses_remove(p, i);
	clock_forget(&p->known, s->serial);
	for (int32_t i = 0; i < p->slots; i++)
		for (struct CUstream_st *o = p->ctx[i] ? p->ctx[i]->streams : NULL; o; o = o->next)
			clock_forget(&o->clock, s->serial);
	fc_clock_free(&s->clock);
}

void fc_use_proc_gone(struct fc_proc *p)
{
	while (p->use_count)
		uses_remove(p, p->use_count - 1);
	free(p->use);
	fc_clock_free(&p->known);
}

void fc_use_kernel_queued(struct fc_kernel *k)
{
	clock_join(&k->before, &k->op->stream->clock);
	k->number_in_stream = k->op->stream->queued;
	k->known_uses = k->op->stream->use_said == k->number_in_stream;
	k->stranger = !k->known_uses;
	k->ctx->proc->strangers += k->stranger;
}

void fc_use_kernel_gone(struct fc_kernel *k)
{
	k->ctx->proc->strangers -= k->stranger;
	fc_clock_free(&k->before);
}

static __attribute__((constructor)) void use_load(void)
{
	world_on_use(use_of_collective);
}
