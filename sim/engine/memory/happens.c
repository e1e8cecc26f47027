/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The happens-before check: clocks, and the effect of each kind of access on them. See happens.h
 * for how time is counted and memory.h for the callers.
 *
 *   store   release          the word carries the agent's clock
 *           relaxed          it carries the clock of the agent's last release fence, or nothing
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
	HAPPENS_BUCKETS = 4096,
	HAPPENS_SLOT_KEYS = 4096,
	HAPPENS_SLOT_TRIES = 8,
	HAPPENS_SLOTS_MAX = 1 << 14,
	HAPPENS_WHOLE_BYTES = 512, /* largest write that a device may land as a whole */
	CLOCK_STEP = 64,
};

/* The clock that mem_release published to an object, or that a barrier collects. */
struct happens_object {
	struct happens_object *next;
	const void *object;
	struct happens_stamp stamp;
	/* barrier: the clock joined last, to skip an equal next one */
	struct happens_clock *joined;
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
	struct happens_object *bucket[HAPPENS_BUCKETS], *free_object;
	struct happens_clock *spare; /* unused clocks, all of one width */
	/* stores become visible in another order than that in which they were made */
	bool adversary;
} hb;

/* ---- clocks --------------------------------------------------------------------------------- */

/* Frees the unused clocks. Clocks are allocated and freed all the time, most of them as wide as the
 * current number of slots. */
static void clock_spares_free(void)
{
	while (hb.spare) {
		struct happens_clock *c = hb.spare;

		hb.spare = c->spare;
		free(c);
	}
}

static struct happens_clock *clock_new(void)
{
	uint32_t n = ALIGN_UP(MAX_OF(hb.slots, 1u), (uint32_t)CLOCK_STEP);
	struct happens_clock *c = hb.spare;

	if (c && c->n == n) {
		hb.spare = c->spare;
	} else {
		clock_spares_free();
		c = malloc(sizeof *c + n * sizeof c->at[0]);
		ASSERT(c);
		c->n = n;
	}
	c->refs = 1;
	return c;
}

static struct happens_clock *clock_ref(struct happens_clock *c)
{
	if (c)
		c->refs++;
	return c;
}

static void clock_unref(struct happens_clock *c)
{
	if (!c || --c->refs)
		return;
	if (hb.spare && hb.spare->n != c->n) {
		free(c);
		return;
	}
	c->spare = hb.spare;
	hb.spare = c;
}

/* Makes *c writable, with room for all slots; copies it if it is shared. */
static struct happens_clock *clock_own(struct happens_clock **c)
{
	struct happens_clock *old = *c, *new;
	uint32_t n = old ? old->n : 0;

	if (old && old->refs == 1 && n >= hb.slots)
		return old;
	new = clock_new();
	ASSERT(new->n >= n);
	if (n)
		memcpy(new->at, old->at, n * sizeof new->at[0]);
	memset(new->at + n, 0, (new->n - n) * sizeof new->at[0]);
	clock_unref(old);
	return *c = new;
}

/* Handles four slots together: clocks are long, and compared and joined all the time. Their width
 * is a multiple of CLOCK_STEP, and epochs are below 2^31. */
typedef int32_t clock_four __attribute__((vector_size(16), aligned(4), may_alias));

static inline const clock_four *clock_fours(const struct happens_clock *c)
{
	return (const clock_four *)c->at;
}

static inline bool four_any(clock_four f)
{
	return f[0] | f[1] | f[2] | f[3];
}

/* True if a slot of the clock, from slot `from` on, is above 0. */
static bool clock_any(const struct happens_clock *c, uint32_t from)
{
	clock_four any = {0};

	for (uint32_t i = from / 4; i < c->n / 4; i++)
		any |= clock_fours(c)[i];
	return four_any(any);
}

/* Compares two clocks. CLOCK_MORE: a slot of `c` is above that of `of`. CLOCK_LESS: a slot is
 * below. Stops once both are known. */
enum { CLOCK_MORE = 1, CLOCK_LESS = 2 };
static int clock_compare(const struct happens_clock *c, const struct happens_clock *of)
{
	uint32_t n = MIN_OF(c->n, of->n);
	bool above = false, below = false;

	for (uint32_t i = 0; i < n / 4 && !(above && below); i += CLOCK_STEP / 4) {
		clock_four more = {0}, less = {0};

		for (uint32_t k = i; k < i + CLOCK_STEP / 4; k++) {
			more |= (clock_four)(clock_fours(c)[k] > clock_fours(of)[k]);
			less |= (clock_four)(clock_fours(c)[k] < clock_fours(of)[k]);
		}
		above |= four_any(more);
		below |= four_any(less);
	}
	above = above || clock_any(c, n);
	below = below || clock_any(of, n);
	return (above ? CLOCK_MORE : 0) | (below ? CLOCK_LESS : 0);
}

static bool clock_within(const struct happens_clock *c, const struct happens_clock *of)
{
	if (!c || c == of)
		return true;
	return of ? !(clock_compare(c, of) & CLOCK_MORE) : !clock_any(c, 0);
}

/* Sets *into to the maximum of both in every slot. */
static void clock_join(struct happens_clock **into, struct happens_clock *c)
{
	if (!c || c == *into)
		return;
	int differ = *into ? clock_compare(c, *into) : CLOCK_MORE;

	if (!(differ & CLOCK_MORE))
		return;
	if (!(differ & CLOCK_LESS)) {
		clock_ref(c);
		clock_unref(*into);
		*into = c;
		return;
	}
	clock_four *own = (clock_four *)clock_own(into)->at;

	for (uint32_t i = 0; i < c->n / 4; i++) {
		clock_four theirs = clock_fours(c)[i], more = (clock_four)(theirs > own[i]);

		own[i] = (theirs & more) | (own[i] & ~more);
	}
}

static void clock_raise(struct happens_clock **into, uint32_t slot, uint32_t epoch)
{
	if (slot != HAPPENS_NONE && happens_clock_at(*into, slot) < epoch)
		clock_own(into)->at[slot] = epoch;
}

bool happens_stamp_covers(const struct happens_stamp *s, const struct happens_seen *seen)
{
	return (s->slot == seen->slot && s->epoch >= seen->epoch) ||
	       happens_clock_at(s->clock, seen->slot) >= seen->epoch;
}

static bool stamp_is_empty(const struct happens_stamp *s)
{
	return !s->clock && s->slot == HAPPENS_NONE;
}

void happens_stamp_clear(struct happens_stamp *s)
{
	clock_unref(s->clock);
	s->clock = NULL;
	s->slot = HAPPENS_NONE;
}

void happens_stamp_set(struct happens_stamp *s, const struct happens_stamp *from)
{
	struct happens_stamp copy = *from;

	clock_ref(copy.clock);
	clock_unref(s->clock);
	*s = copy;
}

/* Returns everything that the agent did and knows up to now. */
static struct happens_stamp part_stamp(const struct happens_part *p, enum shared_scope scope)
{
	return (struct happens_stamp){.clock = p->known,
				      .slot = p->slot,
				      .epoch = p->epoch,
				      .scope = scope,
				      .device = p->agent->device,
				      .block = p->agent->block};
}

static bool part_knows(const struct happens_part *p, const struct happens_stamp *s)
{
	return s->slot != HAPPENS_NONE ? happens_part_knows(p, s->slot) >= s->epoch
				       : clock_within(s->clock, p->known);
}

static void part_join(struct happens_part *p, const struct happens_stamp *s)
{
	if (stamp_is_empty(s) || part_knows(p, s))
		return;
	clock_join(&p->known, s->clock);
	if (s->slot != p->slot)
		clock_raise(&p->known, s->slot, s->epoch);
}

/* Joins `more`, which the agent p released, into s. */
static void stamp_join(struct happens_stamp *s, const struct happens_stamp *more,
		       const struct happens_part *p)
{
	if (stamp_is_empty(more))
		return;
	if (stamp_is_empty(s) ||
	    (more->slot == p->slot && more->epoch == p->epoch && part_knows(p, s))) {
		happens_stamp_set(s, more);
		return;
	}
	if (s->slot != HAPPENS_NONE)
		clock_raise(&s->clock, s->slot, s->epoch);
	clock_join(&s->clock, more->clock);
	clock_raise(&s->clock, more->slot, more->epoch);
	s->slot = HAPPENS_NONE;
	s->device = more->device;
	s->block = more->block;
	s->scope = MAX_OF(s->scope, more->scope);
}

/* Begins the agent's next epoch: later actions are not part of the release. */
static void part_tick(struct happens_part *p)
{
	p->epoch++;
	ASSERT(p->epoch < INT32_MAX);
}

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

static struct happens_part *part_begin(struct mem_agent *me, const struct happens_stamp *begin)
{
	struct happens_part *p = calloc(1, sizeof *p);

	ASSERT(p);
	p->slot = slot_take(slot_key(me), begin);
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

static inline struct happens_part *part_of(struct mem_agent *me)
{
	return LIKELY(me->happens != NULL) ? me->happens : part_begin(me, NULL);
}

void happens_agent_ended(struct mem_agent *me)
{
	struct happens_part *p = me->happens;

	if (!p)
		return;
	struct happens_slot *s = &hb.slot[p->slot];

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

		if (stamp_is_empty(s) || part_knows(p, s))
			continue;
		bool meet = scopes_meet(p, a->scope, s);

		if (acquires && meet) {
			part_join(p, s);
			continue;
		}
		w->settled = false;
		part_pend(p, w, s, record,
			  acquires || !scope_contains(s->scope, s->device, s->block, p->agent)
				  ? HAPPENS_SCOPE
				  : HAPPENS_RELAXED_LOAD);
	}
	if (stamp_is_empty(&w->relaxed) || part_knows(p, &w->relaxed))
		return;
	w->settled = false;
	part_pend(p, w, &w->relaxed, record, HAPPENS_RELAXED_STORE);
}

static void word_store(struct happens_part *p, struct happens_word *w, const struct mem_access *a,
		       uint64_t record)
{
	bool keep = a->op == SHARED_RMW || hb.adversary;
	bool releases = order_releases(a->order);
	bool narrow = p->agent->is_warp && a->scope != SHARED_SYSTEM;

	w->settled = false;
	if (!keep)
		for (int i = 0; i < 2; i++)
			happens_stamp_clear(&w->sync[i]);
	for (int i = 0; i < 2; i++)
		stamp_join(&w->sync[i], &p->fence[i], p);
	struct happens_stamp s = part_stamp(p, narrow ? a->scope : SHARED_SYSTEM);

	if (releases) {
		happens_stamp_clear(&w->relaxed);
		stamp_join(&w->sync[narrow], &s, p);
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

			if (stamp_is_empty(&d->stamp) || d->why == HAPPENS_RELAXED_STORE ||
			    !scopes_meet(p, a->scope, &d->stamp))
				continue;
			part_join(p, &d->stamp);
			happens_stamp_clear(&d->stamp);
		}
	}
	if (order_releases(a->order)) {
		struct happens_stamp s = part_stamp(p, narrow ? a->scope : SHARED_SYSTEM);

		happens_stamp_set(&p->fence[narrow], &s);
		part_tick(p);
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
	struct happens_part *p = part_of(agent);

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
		part_tick(p);
}

void happens_fresh(const void *addr, size_t bytes)
{
	shadow_fresh((uintptr_t)addr, bytes);
	lines_remove((uintptr_t)addr, bytes);
}

static struct happens_object **object_find(const void *object)
{
	struct happens_object **at = &hb.bucket[((uintptr_t)object * 0x9e3779b97f4a7c15ull) >> 52];

	while (*at && (*at)->object != object)
		at = &(*at)->next;
	return at;
}

static struct happens_object *object_get(const void *object)
{
	struct happens_object **at = object_find(object), *o = *at;

	if (o)
		return o;
	o = hb.free_object;
	if (o)
		hb.free_object = o->next;
	else
		o = malloc(sizeof *o);
	ASSERT(o);
	*o = (struct happens_object){.object = object, .stamp.slot = HAPPENS_NONE};
	return *at = o;
}

/* Adds one of many agents that release to this object. Agents that leave one barrier have equal
 * clocks. */
static void object_collect(struct happens_object *o, struct happens_part *p)
{
	if (o->stamp.slot != HAPPENS_NONE)
		clock_raise(&o->stamp.clock, o->stamp.slot, o->stamp.epoch);
	o->stamp.slot = HAPPENS_NONE;
	if (p->known != o->joined) {
		clock_join(&o->stamp.clock, p->known);
		clock_ref(p->known);
		clock_unref(o->joined);
		o->joined = p->known;
	}
	clock_raise(&o->stamp.clock, p->slot, p->epoch);
	part_tick(p);
}

void happens_release(struct mem_agent *me, const void *object)
{
	struct happens_part *p = part_of(me);
	struct happens_object *o = object_get(object);
	struct happens_stamp s = part_stamp(p, SHARED_SYSTEM);

	if (stamp_is_empty(&o->stamp) ||
	    (o->stamp.slot != HAPPENS_NONE && part_knows(p, &o->stamp))) {
		happens_stamp_set(&o->stamp, &s);
		part_tick(p);
		return;
	}
	object_collect(o, p);
}

void happens_acquire(struct mem_agent *me, const void *object)
{
	const struct happens_object *o = *object_find(object);

	if (!o)
		return;
	if (!me->happens)
		part_begin(me, &o->stamp);
	part_join(me->happens, &o->stamp);
}

void happens_forget(const void *object)
{
	struct happens_object **at = object_find(object), *o = *at;

	if (!o)
		return;
	*at = o->next;
	happens_stamp_clear(&o->stamp);
	clock_unref(o->joined);
	o->next = hb.free_object;
	hb.free_object = o;
}

/* Collects the clock of an arriving agent. All arrive before the first leaves. Neighbouring rounds
 * are different objects: an agent may arrive for the next round before others have left this one,
 * and must not pass its clock on to them. */
void happens_barrier_arrive(struct mem_agent *me, const void *barrier)
{
	object_collect(object_get(barrier), part_of(me));
}

void happens_barrier_leave(struct mem_agent *me, const void *barrier)
{
	struct happens_part *p = part_of(me);
	const struct happens_object *o = *object_find(barrier);

	if (!o || o->stamp.clock == p->known)
		return;
	/* its clock contains the agent's clock at arrival, and the agent has joined nothing
	 * since */
	clock_ref(o->stamp.clock);
	clock_unref(p->known);
	p->known = o->stamp.clock;
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
	for (int i = 0; i < HAPPENS_BUCKETS; i++)
		while (hb.bucket[i])
			happens_forget(hb.bucket[i]->object);
	while (hb.free_object) {
		struct happens_object *o = hb.free_object;

		hb.free_object = o->next;
		free(o);
	}
	for (uint32_t i = 0; i < hb.slots; i++)
		clock_unref(hb.slot[i].known);
	free(hb.slot);
	shadow_stop();
	clock_spares_free();
	memset(&hb, 0, sizeof hb);
	lines_stop();
	report_stop();
}
