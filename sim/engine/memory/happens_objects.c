/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Objects that order agents of the happens-before check: what mem_release publishes mem_acquire
 * joins, and barriers.
 */
#include <stdlib.h>

#include "sim/engine/memory/happens.h"

enum { HAPPENS_BUCKETS = 4096 };
DOPPEL_STATIC_CHECK(HAPPENS_BUCKETS == 1 << (64 - 52), "object_find uses the top twelve bits");

/* The clock that mem_release published to an object, or that a barrier collects. */
struct happens_object {
	struct happens_object *next;
	const void *object;
	struct happens_stamp stamp;
	/* barrier: the clock joined last, to skip an equal next one */
	struct happens_clock *joined;
};

static struct happens_object *object_bucket[HAPPENS_BUCKETS], *object_free;

static struct happens_object **object_find(const void *object)
{
	struct happens_object **at =
		&object_bucket[((uintptr_t)object * 0x9e3779b97f4a7c15ull) >> 52];

	while (*at && (*at)->object != object)
		at = &(*at)->next;
	return at;
}

static struct happens_object *object_get(const void *object)
{
	struct happens_object **at = object_find(object), *o = *at;

	if (o)
		return o;
	o = object_free;
	if (o)
		object_free = o->next;
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
		happens_clock_raise(&o->stamp.clock, o->stamp.slot, o->stamp.epoch);
	o->stamp.slot = HAPPENS_NONE;
	if (p->known != o->joined) {
		happens_clock_join(&o->stamp.clock, p->known);
		happens_clock_ref(p->known);
		happens_clock_unref(o->joined);
		o->joined = p->known;
	}
	happens_clock_raise(&o->stamp.clock, p->slot, p->epoch);
	happens_part_tick(p);
}

void happens_release(struct mem_agent *me, const void *object)
{
	struct happens_part *p = happens_part_of(me);
	struct happens_object *o = object_get(object);
	struct happens_stamp s = happens_part_stamp(p, SHARED_SYSTEM);

	if (happens_stamp_is_empty(&o->stamp) ||
	    (o->stamp.slot != HAPPENS_NONE && happens_part_has(p, &o->stamp))) {
		happens_stamp_set(&o->stamp, &s);
		happens_part_tick(p);
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
		happens_part_begin(me, &o->stamp);
	happens_part_join(me->happens, &o->stamp);
}

void happens_forget(const void *object)
{
	struct happens_object **at = object_find(object), *o = *at;

	if (!o)
		return;
	*at = o->next;
	happens_stamp_clear(&o->stamp);
	happens_clock_unref(o->joined);
	o->next = object_free;
	object_free = o;
}

/* Collects the clock of an arriving agent. All arrive before the first leaves. Neighbouring rounds
 * are different objects: an agent may arrive for the next round before others have left this one,
 * and must not pass its clock on to them. */
void happens_barrier_arrive(struct mem_agent *me, const void *barrier)
{
	object_collect(object_get(barrier), happens_part_of(me));
}

void happens_barrier_leave(struct mem_agent *me, const void *barrier)
{
	struct happens_part *p = happens_part_of(me);
	const struct happens_object *o = *object_find(barrier);

	if (!o || o->stamp.clock == p->known)
		return;
	/* its clock contains the agent's clock at arrival, and the agent has joined nothing
	 * since */
	happens_clock_ref(o->stamp.clock);
	happens_clock_unref(p->known);
	p->known = o->stamp.clock;
}

void happens_objects_stop(void)
{
	for (int i = 0; i < HAPPENS_BUCKETS; i++)
		while (object_bucket[i])
			happens_forget(object_bucket[i]->object);
	while (object_free) {
		struct happens_object *o = object_free;

		object_free = o->next;
		free(o);
	}
}
