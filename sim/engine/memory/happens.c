/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The happens-before check: clocks, and the effect of each kind of access on them. See happens.h
 * for how time is counted and memory.h for the callers.
 *
 *   store   release          the word carries the agent's clock
 *           relaxed          it carries the clock of the agent's last release fence, and that of an
 *                            earlier kernel of its GPU that the word carried; or nothing
 *   load    acquire          the agent joins the clock that the word carries
 *           relaxed          the clock is kept aside; an acquire fence joins it
 *   RMW                      as a load and a store; the word keeps the clock that it carried
 *   range                    carries nothing; checked against everything else on these bytes
 *
 * A release reaches an acquire only when each one's scope contains the other agent. Engine sim
 * only: one OS thread, no locks.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/engine/memory/happens.h"

enum {
	HAPPENS_SLOT_KEYS = 4096,
	HAPPENS_SLOT_TRIES = 8,
	HAPPENS_SLOTS_MAX = 1 << 14,
	HAPPENS_WHOLE_BYTES = 512, /* largest write that a device may land as a whole */
};

/* Agents of the same kind reuse slots: kernels of one GPU follow each other. The next agent
 * continues the epochs of the last one. It must therefore know everything that the last one did. */
struct happens_slot {
	uint32_t epoch, key;
	uint32_t must_know;          /* the last epoch in which the last agent accessed or released
	                              * something */
	uint32_t next_free;          /* slot + 1; 0: none */
	struct happens_clock *known; /* clock of the last agent */
	struct happens_part *part;   /* NULL: free */
};

static struct {
	struct happens_slot *slot;
	uint32_t slots, slot_room;
	struct {
		uint32_t first, last;   /* slot + 1; 0: none */
	} free_slot[HAPPENS_SLOT_KEYS]; /* by key, oldest first */
	/* stores become visible in another order than that in which they were made */
	bool adversary;
} hb;

/* ---- agents --------------------------------------------------------------------------------- */

static uint32_t slot_key(const struct mem_agent *me)
{
	if (me->is_warp)
		return 2 + (uint32_t)me->device % (HAPPENS_SLOT_KEYS - 2);
	return me->object ? 1 : 0;
}

static void slot_give(uint32_t slot)
{
	uint32_t key = hb.slot[slot].key;

	hb.slot[slot].next_free = 0;
	if (hb.free_slot[key].last)
		hb.slot[hb.free_slot[key].last - 1].next_free = slot + 1;
	else
		hb.free_slot[key].first = slot + 1;
	hb.free_slot[key].last = slot + 1;
}

/* Returns a free slot whose last agent is known to the agent that begins with stamp `begin`.
 * HAPPENS_NONE: none of the oldest HAPPENS_SLOT_TRIES is. `any`: the oldest slot. */
static uint32_t slot_reuse(uint32_t key, const struct happens_stamp *begin, bool any)
{
	uint32_t before = 0, s = hb.free_slot[key].first;

	for (int tries = 0; s && tries < HAPPENS_SLOT_TRIES; tries++) {
		const struct happens_slot *slot = &hb.slot[s - 1];
		const struct happens_seen last = {.slot = s - 1, .epoch = slot->must_know};

		if (any || (begin && happens_stamp_covers(begin, &last)))
			break;
		before = s;
		s = slot->next_free;
		if (tries == HAPPENS_SLOT_TRIES - 1)
			s = 0;
	}
	if (!s)
		return HAPPENS_NONE;
	if (before)
		hb.slot[before - 1].next_free = hb.slot[s - 1].next_free;
	else
		hb.free_slot[key].first = hb.slot[s - 1].next_free;
	if (hb.free_slot[key].last == s)
		hb.free_slot[key].last = before;
	return s - 1;
}

static uint32_t slot_take(uint32_t key, const struct happens_stamp *begin)
{
	uint32_t s = slot_reuse(key, begin, false);

	/* clocks must not grow without limit: the new agent then takes over the old one's
	 * knowledge, and a race between the two is missed */
	if (s == HAPPENS_NONE && hb.slots >= HAPPENS_SLOTS_MAX)
		s = slot_reuse(key, NULL, true);
	if (s != HAPPENS_NONE)
		return s;
	if (hb.slots == hb.slot_room) {
		hb.slot_room = hb.slot_room ? 2 * hb.slot_room : 256;
		hb.slot = realloc(hb.slot, hb.slot_room * sizeof *hb.slot);
		ASSERT(hb.slot);
	}
	hb.slot[hb.slots] = (struct happens_slot){.key = key};
	return hb.slots++;
}

struct happens_part *happens_part_begin(struct mem_agent *me, const struct happens_stamp *begin)
{
	struct happens_part *p = calloc(1, sizeof *p);

	ASSERT(p);
	p->slot = slot_take(slot_key(me), begin);
	ASSERT(!hb.slot[p->slot].part); /* a slot has one agent at a time */
	p->epoch = hb.slot[p->slot].epoch + 1;
	p->known = hb.slot[p->slot].known;
	hb.slot[p->slot].known = NULL;
	hb.slot[p->slot].part = p;
	p->agent = me;
	p->actor = report_actor(me);
	p->fence[0].slot = p->fence[1].slot = HAPPENS_NONE;
	for (int i = 0; i < HAPPENS_PENDING; i++)
		p->pending[i].stamp.slot = HAPPENS_NONE;
	return me->happens = p;
}

uint32_t happens_slots(void)
{
	return hb.slots;
}

const struct happens_part *happens_part_at(uint32_t slot)
{
	return hb.slot[slot].part;
}

void happens_agent_ended(struct mem_agent *me)
{
	struct happens_part *p = me->happens;

	if (!p)
		return;
	struct happens_slot *s = &hb.slot[p->slot];

	ASSERT(s->part == p && p->epoch > s->epoch); /* epochs of a slot only rise */
	s->epoch = p->epoch;
	s->must_know = p->touched == p->epoch ? p->epoch : p->epoch - 1;
	s->known = p->known;
	s->part = NULL;
	slot_give(p->slot);
	for (int i = 0; i < 2; i++)
		happens_stamp_clear(&p->fence[i]);
	for (int i = 0; i < HAPPENS_PENDING; i++)
		happens_stamp_clear(&p->pending[i].stamp);
	me->happens = NULL;
	free(p);
}

/* ---- words ---------------------------------------------------------------------------------- */

static bool scope_contains(enum shared_scope scope, int32_t device, uint64_t block,
			   const struct mem_agent *other)
{
	if (scope == SHARED_SYSTEM || device < 0)
		return true;
	if (other->device != device || !other->is_warp)
		return false;
	return scope == SHARED_GPU || other->block == block;
}

/* True if an acquire of p with `scope` synchronises with this release. */
static bool scopes_meet(const struct happens_part *p, enum shared_scope scope,
			const struct happens_stamp *s)
{
	if (!scope_contains(s->scope, s->device, s->block, p->agent))
		return false;
	if (scope == SHARED_SYSTEM || !p->agent->is_warp)
		return true;
	if (s->device != p->agent->device)
		return false;
	return scope == SHARED_GPU || s->block == p->agent->block;
}

/* Remembers a clock that the agent saw and did not join: for an acquire fence, and for the
 * report. */
static void part_pend(struct happens_part *p, const struct happens_word *w,
		      const struct happens_stamp *s, uint64_t record, enum happens_why why)
{
	for (uint32_t i = 0; i < HAPPENS_PENDING; i++) {
		struct happens_pending *d = &p->pending[i];

		if (d->word != w->addr || d->why != why || d->stamp.slot != s->slot ||
		    d->stamp.epoch != s->epoch || d->stamp.clock != s->clock)
			continue;
		d->load = record;
		return;
	}
	struct happens_pending *d = &p->pending[p->pending_next++ % HAPPENS_PENDING];

	happens_stamp_set(&d->stamp, s);
	d->store = w->relaxed_record;
	d->word = w->addr;
	d->load = record;
	d->epoch = p->epoch;
	d->why = why;
}

static bool order_acquires(enum shared_order o)
{
	return o == SHARED_ACQUIRE || o == SHARED_ACQ_REL || o == SHARED_SEQ_CST;
}

static bool order_releases(enum shared_order o)
{
	return o == SHARED_RELEASE || o == SHARED_ACQ_REL || o == SHARED_SEQ_CST;
}

static void word_load(struct happens_part *p, struct happens_word *w, const struct mem_access *a,
		      uint64_t record)
{
	bool acquires = order_acquires(a->order);

	w->settled = true;

	for (int i = 0; i < 2; i++) {
		const struct happens_stamp *s = &w->sync[i];

		if (happens_stamp_is_empty(s) || happens_part_has(p, s))
			continue;
		bool meet = scopes_meet(p, a->scope, s);

		if (acquires && meet) {
			happens_part_join(p, s);
			continue;
		}
		w->settled = false;
		part_pend(p, w, s, record,
			  acquires || !scope_contains(s->scope, s->device, s->block, p->agent)
				  ? HAPPENS_SCOPE
				  : HAPPENS_RELAXED_LOAD);
	}
	if (happens_stamp_is_empty(&w->relaxed) || happens_part_has(p, &w->relaxed))
		return;
	w->settled = false;
	part_pend(p, w, &w->relaxed, record, HAPPENS_RELAXED_STORE);
}

/* True if the release is of an earlier kernel of the same GPU, which has ended: the end of a kernel
 * is a fence, so a relaxed store of a later kernel carries what the earlier one released. */
static bool stamp_is_of_ended_kernel(const struct happens_part *p, const struct happens_stamp *s)
{
	return p->agent->is_warp && !happens_stamp_is_empty(s) && s->device == p->agent->device &&
	       s->block >> 32 != p->agent->block >> 32 && happens_part_has(p, s);
}

static void word_store(struct happens_part *p, struct happens_word *w, const struct mem_access *a,
		       uint64_t record)
{
	bool keep = a->op == SHARED_RMW || hb.adversary;
	bool releases = order_releases(a->order);
	bool narrow = p->agent->is_warp && a->scope != SHARED_SYSTEM;

	w->settled = false;
	for (int i = 0; i < 2 && !keep; i++)
		if (!stamp_is_of_ended_kernel(p, &w->sync[i]))
			happens_stamp_clear(&w->sync[i]);
	for (int i = 0; i < 2; i++)
		happens_stamp_join(&w->sync[i], &p->fence[i], p);
	struct happens_stamp s = happens_part_stamp(p, narrow ? a->scope : SHARED_SYSTEM);

	if (releases) {
		happens_stamp_clear(&w->relaxed);
		happens_stamp_join(&w->sync[narrow], &s, p);
	} else {
		happens_stamp_set(&w->relaxed, &s);
		w->relaxed_record = record;
	}
}

static void happens_fence(struct happens_part *p, const struct mem_access *a)
{
	bool narrow = p->agent->is_warp && a->scope != SHARED_SYSTEM;

	if (order_acquires(a->order)) {
		for (int i = 0; i < HAPPENS_PENDING; i++) {
			struct happens_pending *d = &p->pending[i];

			if (happens_stamp_is_empty(&d->stamp) || d->why == HAPPENS_RELAXED_STORE ||
			    !scopes_meet(p, a->scope, &d->stamp))
				continue;
			happens_part_join(p, &d->stamp);
			happens_stamp_clear(&d->stamp);
		}
	}
	if (order_releases(a->order)) {
		struct happens_stamp s = happens_part_stamp(p, narrow ? a->scope : SHARED_SYSTEM);

		happens_stamp_set(&p->fence[narrow], &s);
		happens_part_tick(p);
	}
}

/* Checks one word of at most 8 bytes. */
static void happens_word(struct happens_part *p, const struct mem_access *a, uintptr_t addr,
			 uint32_t bytes, const struct happens_seen *me)
{
	struct happens_word *word[2];
	bool write = a->op != SHARED_LOAD;
	int n;

	shadow_word(p, a, addr, bytes, write, me, word, &n);
	for (int i = 0; i < n; i++) {
		if (a->op == SHARED_LOAD || a->op == SHARED_RMW)
			word_load(p, word[i], a, me->record);
		if (write)
			word_store(p, word[i], a, me->record);
	}
}

/* Checks the bytes at .. end-1 of a range that are not a whole word. */
static void happens_ragged(struct happens_part *p, const struct mem_access *a, uintptr_t at,
			   uintptr_t end, const struct happens_seen *me)
{
	struct mem_access piece = *a;

	piece.addr = (void *)at;
	piece.bytes = end - at;
	if (at < end)
		shadow_range(p, &piece, true, me);
}

/* Splits an access into words: of 8 bytes where the address allows it, else of 4. The bytes before
 * the first word and after the last one are compared as a range: their neighbours in that word may
 * be another agent's. */
static void happens_words(struct happens_part *p, const struct mem_access *a,
			  const struct happens_seen *me)
{
	uintptr_t at = (uintptr_t)a->addr, end = at + a->bytes;

	if (a->op == SHARED_RANGE_WRITE) {
		uintptr_t first = MIN_OF(ALIGN_UP(at, (uintptr_t)4), end);
		uintptr_t last = MAX_OF(end & ~(uintptr_t)3, first);

		happens_ragged(p, a, at, first, me);
		happens_ragged(p, a, last, end, me);
		at = first;
		end = last;
	}
	while (at < end) {
		uint32_t bytes = at % 8 == 0 && end - at >= 8 ? 8 : 4;

		ASSERT(at % 4 == 0 && end - at >= 4); /* ragged ends of ranges are gone */
		happens_word(p, a, at, bytes, me);
		at += bytes;
	}
}

/* True for a range that lands word by word, each a release: a small write of an HCA. */
static bool lands_in_words(const struct mem_access *a)
{
	return a->op == SHARED_RANGE_WRITE && a->order == SHARED_RELEASE &&
	       a->bytes <= HAPPENS_WHOLE_BYTES;
}

void happens_access(struct mem_agent *agent, const struct mem_access *a)
{
	struct happens_part *p = happens_part_of(agent);

	if (UNLIKELY(report_over()))
		return;
	if (a->op == SHARED_LINES) {
		lines_add((uintptr_t)a->addr, a->bytes);
		return;
	}
	if (a->op == SHARED_FENCE) {
		happens_fence(p, a);
		return;
	}
	if (!a->bytes || lines_have((uintptr_t)a->addr))
		return;
	if (a->op == SHARED_LOAD && shadow_loaded(p, (uintptr_t)a->addr, a->bytes))
		return;
	struct happens_seen me = {p->slot, p->epoch, report_record(p, a)};

	p->touched = p->epoch;

	if ((a->op == SHARED_RANGE_READ || a->op == SHARED_RANGE_WRITE) && !lands_in_words(a)) {
		shadow_range(p, a, a->op == SHARED_RANGE_WRITE, &me);
		return;
	}
	happens_words(p, a, &me);
	if (a->op != SHARED_LOAD && order_releases(a->order))
		happens_part_tick(p);
}

void happens_fresh(const void *addr, size_t bytes)
{
	shadow_fresh((uintptr_t)addr, bytes);
	lines_remove((uintptr_t)addr, bytes);
}

/* ---- life ----------------------------------------------------------------------------------- */

int happens_start(void)
{
	int rc = shadow_start();

	if (rc)
		return rc;
	rc = report_start();
	if (rc)
		shadow_stop();
	hb.adversary = (mem_on & MEM_STORE) != 0;
	return rc;
}

void happens_stop(void)
{
	happens_objects_stop();
	for (uint32_t i = 0; i < hb.slots; i++)
		happens_clock_unref(hb.slot[i].known);
	free(hb.slot);
	shadow_stop();
	happens_clock_spares_free();
	memset(&hb, 0, sizeof hb);
	lines_stop();
	report_stop();
}
