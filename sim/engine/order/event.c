/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Timers and events. One heap holds everything that has a time: sleeps, deadlines and events,
 * sorted by (when, tie << 56 | sequence number). The strategy draws the tie, which puts events
 * of the same time in any order. An event of an `order` object takes over time and tie of its
 * predecessor where they are greater, which keeps the object's events in order. Only the first
 * event of an object is in the heap; the others queue in the object. A wire with many packets
 * therefore adds one heap entry.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/engine/order/order_internal.h"

/* An order object, for example a wire: its latest time and tie, and its events that have not run.
 * The first of them is in the heap. Exists while an event of it is queued or running. */
struct order {
	const void *object;
	uint64_t when;
	uint32_t tie, pending;
	struct sim_event *first, **end;
	struct order *next;
};

/* Four children are half the levels of two. A level is a cache line of slots, and one of the timer
 * that moves. */
enum { ORDER_BUCKETS = 1024, EVENT_CHUNK = 64, HEAP_CHILDREN = 4 };
DOPPEL_STATIC_CHECK(ORDER_BUCKETS == 1 << (64 - 54), "order_bucket_of uses the top ten bits");

static struct sim_event *event_free;
static struct order *order_free;
static struct order *order_bucket[ORDER_BUCKETS];
static struct event_chunk {
	struct event_chunk *next;
	struct sim_event event[EVENT_CHUNK];
	struct order order[EVENT_CHUNK];
} * event_chunks;

/* ---- the heap ------------------------------------------------------------------------------- */

static inline bool slot_before(const struct timer_slot *a, const struct timer_slot *b)
{
	return a->when != b->when ? a->when < b->when : a->key < b->key;
}

static inline void heap_put(struct timer_heap *h, uint32_t at, struct timer_slot s)
{
	h->slot[at] = s;
	s.timer->at = at;
}

static inline uint32_t heap_parent(uint32_t at)
{
	return (at + HEAP_CHILDREN - 2) / HEAP_CHILDREN;
}

static inline uint32_t heap_first_child(uint32_t at)
{
	return HEAP_CHILDREN * at - (HEAP_CHILDREN - 2);
}

static void heap_up(struct timer_heap *h, uint32_t at, struct timer_slot s)
{
	while (at > 1 && slot_before(&s, &h->slot[heap_parent(at)])) {
		heap_put(h, at, h->slot[heap_parent(at)]);
		at = heap_parent(at);
	}
	heap_put(h, at, s);
}

static void heap_down(struct timer_heap *h, uint32_t at, struct timer_slot s)
{
	for (;;) {
		uint32_t child = heap_first_child(at),
			 end = MIN_OF(child + HEAP_CHILDREN, h->n + 1);

		if (child > h->n)
			break;
		for (uint32_t other = child + 1; other < end; other++)
			if (slot_before(&h->slot[other], &h->slot[child]))
				child = other;
		if (!slot_before(&h->slot[child], &s))
			break;
		heap_put(h, at, h->slot[child]);
		at = child;
	}
	heap_put(h, at, s);
}

static void heap_add(struct timer_heap *h, struct timer_slot s)
{
	if (h->n + 2 > h->cap) {
		h->cap = h->cap ? 2 * h->cap : 256;
		h->slot = realloc(h->slot, h->cap * sizeof *h->slot);
		ASSERT(h->slot);
	}
	h->n++;
	heap_up(h, h->n, s);
}

/* Initialises the timer, counts it, and returns the slot that the caller queues. */
static struct timer_slot timer_slot_new(struct timer *t, enum timer_kind kind, bool background,
					uint64_t when, uint32_t tie)
{
	struct timer_heap *h = &eng.heap;

	ASSERT(t->at == 0);
	ASSERT(tie < 256);
	t->kind = (uint8_t)kind;
	t->background = background;
	h->foreground += !background;
	return (struct timer_slot){when, (uint64_t)tie << 56 | ++h->seq, t};
}

void timer_add(struct timer *t, enum timer_kind kind, bool background, uint64_t when, uint32_t tie)
{
	heap_add(&eng.heap, timer_slot_new(t, kind, background, when, tie));
}

void timer_remove(struct timer *t)
{
	struct timer_heap *h = &eng.heap;
	uint32_t at = t->at;

	ASSERT(at > 0 && at <= h->n);
	ASSERT(h->slot[at].timer == t);
	ASSERT(t->background || h->foreground > 0);
	struct timer_slot last = h->slot[h->n--];
	h->foreground -= !t->background;
	t->at = 0;
	if (last.timer == t)
		return;
	if (at > 1 && slot_before(&last, &h->slot[heap_parent(at)]))
		heap_up(h, at, last);
	else
		heap_down(h, at, last);
}

/* ---- order objects -------------------------------------------------------------------------- */

static struct order **order_bucket_of(const void *object)
{
	return &order_bucket[((uintptr_t)object * 0x9e3779b97f4a7c15ull) >> 54];
}

static struct order *order_get(const void *object)
{
	struct order **bucket = order_bucket_of(object), *o;

	for (o = *bucket; o; o = o->next)
		if (o->object == object)
			return o;
	o = order_free;
	order_free = o->next;
	*o = (struct order){.object = object, .end = &o->first, .next = *bucket};
	*bucket = o;
	return o;
}

static void order_add(struct order *o, struct sim_event *e, struct timer_slot s)
{
	ASSERT(!o->first || s.when >= o->first->slot_when); /* only the first is in the heap */
	e->slot_when = s.when;
	e->slot_key = s.key;
	e->next = NULL;
	if (o->first)
		e->timer.at = TIMER_BEHIND;
	else
		heap_add(&eng.heap, s);
	*o->end = e;
	o->end = &e->next;
}

/* Removes the event from its order. If it was the first, the next event takes its place in the
 * heap. */
static void order_remove(struct order *o, struct sim_event *e)
{
	struct sim_event **at = &o->first, *next = e->next;

	while (*at != e)
		at = &(*at)->next;
	*at = next;
	if (!next)
		o->end = at;
	if (at != &o->first) {
		eng.heap.foreground -= !e->timer.background;
		e->timer.at = 0;
	} else if (next) {
		struct timer_slot s = {next->slot_when, next->slot_key, &next->timer};

		eng.heap.foreground -= !e->timer.background;
		/* the next event is never earlier than the first */
		heap_down(&eng.heap, e->timer.at, s);
		e->timer.at = 0;
	} else {
		timer_remove(&e->timer);
	}
}

static void order_put(struct order *o)
{
	struct order **at;

	ASSERT(o->pending > 0);
	if (--o->pending)
		return;
	for (at = order_bucket_of(o->object); *at != o; at = &(*at)->next)
		ASSERT(*at);
	*at = o->next;
	o->next = order_free;
	order_free = o;
}

/* ---- events --------------------------------------------------------------------------------- */

static void event_pool_grow(void)
{
	struct event_chunk *c = calloc(1, sizeof *c);

	ASSERT(c);
	c->next = event_chunks;
	event_chunks = c;
	for (int i = EVENT_CHUNK - 1; i >= 0; i--) {
		c->event[i].next = event_free;
		event_free = &c->event[i];
		c->order[i].next = order_free;
		order_free = &c->order[i];
	}
}

static void event_remove(struct sim_event *e)
{
	if (e->order)
		order_remove(e->order, e);
	else
		timer_remove(&e->timer);
}

static void event_release(struct sim_event *e)
{
	if (e->order)
		order_put(e->order);
	e->order = NULL;
	e->object = NULL;
	e->next = event_free;
	event_free = e;
}

void event_post(const struct sim_event_attr *attr, void (*step)(void *, uint64_t), void *object,
		uint64_t arg, struct sim_event **handle)
{
	if (!event_free)
		event_pool_grow();
	struct sim_event *e = event_free;
	uint64_t when = eng.now_ns + attr->delay_ns;
	uint32_t tie = strategy_tie();

	ASSERT(when >= eng.now_ns); /* the delay did not wrap: an event is never in the past */
	event_free = e->next;
	*e = (struct sim_event){.step = step, .object = object, .arg = arg, .name = attr->name};
	if (handle)
		*handle = e;
	if (attr->order) {
		struct order *o = e->order = order_get(attr->order);

		if (o->pending && when <= o->when) {
			when = o->when;
			tie = MAX_OF(tie, o->tie);
		}
		o->when = when;
		o->tie = tie;
		o->pending++;
		order_add(o, e,
			  timer_slot_new(&e->timer, TIMER_EVENT, attr->background, when, tie));
	} else {
		timer_add(&e->timer, TIMER_EVENT, attr->background, when, tie);
	}
}

bool event_cancel(struct sim_event *e)
{
	if (!e->timer.at)
		return false;
	event_remove(e);
	event_release(e);
	return true;
}

void events_cancel_object(const void *object)
{
	struct timer_heap *h = &eng.heap;

	/* A removal moves other slots, so an index loop could skip one. Restarting is the simple
	 * way to visit all. */
	for (uint32_t i = 1; i <= h->n; i++) {
		struct sim_event *e = (struct sim_event *)h->slot[i].timer;

		if (e->timer.kind != TIMER_EVENT)
			continue;
		while (e && e->object != object)
			e = e->order ? e->next : NULL;
		if (!e)
			continue;
		event_cancel(e);
		i = 0;
	}
}

void sim_event_post(const struct sim_event_attr *attr, void (*step)(void *, uint64_t), void *object,
		    uint64_t arg, struct sim_event **handle)
{
	ASSERT(eng.phase != ENGINE_OFF);
	ASSERT(attr->name);
	eng.sched->event_post(attr, step, object, arg, handle);
}

bool sim_event_cancel(struct sim_event *e)
{
	ASSERT(e);
	return eng.sched->event_cancel(e);
}

void sim_events_cancel_object(const void *object)
{
	ASSERT(object);
	eng.sched->events_cancel_object(object);
}

void sim_events_drain_queued(void)
{
	eng.sched->events_drain();
}

/* Runs the event of the heap's top. It leaves the heap before its step, but its memory is reused
 * only after the step. Cancelling the handle within the step therefore returns false. */
void event_run_top(void)
{
	struct sim_event *e = (struct sim_event *)eng.heap.slot[1].timer;

	ASSERT(e->timer.kind == TIMER_EVENT && eng.heap.slot[1].when <= eng.now_ns);
	ASSERT(!eng.in_event && !eng.current); /* events and tasks never nest */
	event_remove(e);
	eng.events_run++;
	eng.steps++;
	eng.changes++;
	eng.in_event = true;
	e->step(e->object, e->arg);
	eng.in_event = false;
	eng.acting = NULL;
	event_release(e);
	if (eng.pollers)
		pollers_wake();
}

void events_stop(void)
{
	while (event_chunks) {
		struct event_chunk *c = event_chunks;

		event_chunks = c->next;
		free(c);
	}
	event_free = NULL;
	order_free = NULL;
	memset(order_bucket, 0, sizeof order_bucket);
	free(eng.heap.slot);
	memset(&eng.heap, 0, sizeof eng.heap);
}
