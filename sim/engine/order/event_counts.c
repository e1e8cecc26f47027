/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Event counts of objects that are not one word (a CQ, a socket, a mailbox), by the object's
 * address. A task waits for the next post with a wait of kind OBJECT. `sim` only.
 */
#include <stdlib.h>

#include "sim/engine/order/order_internal.h"

enum { EVENT_COUNTS_FIRST = 1 << 10 };
DOPPEL_STATIC_CHECK((EVENT_COUNTS_FIRST & (EVENT_COUNTS_FIRST - 1)) == 0,
		    "places are a power of two: a mask finds one");

/* An object is in the first free place from its hash on, so a look is one cache line. Half of the
 * places stay free: a world of thousands of ranks looks millions of times at hundreds of thousands
 * of sockets and CQs. */
static struct event_count {
	const void *object; /* NULL: free */
	uint64_t seq;
} * event_count;
static uint32_t event_places, event_objects; /* places are a power of two */

/* Returns the object's place, or the free one where it belongs. */
static struct event_count *event_count_place(const void *object)
{
	uint32_t at = (uint32_t)(((uintptr_t)object * 0x9e3779b97f4a7c15ull) >> 32);

	ASSERT(object && event_objects < event_places);
	for (;; at++) {
		struct event_count *c = &event_count[at & (event_places - 1)];

		if (!c->object || c->object == object)
			return c;
	}
}

static void event_table_grow(void)
{
	struct event_count *old = event_count;
	uint32_t n = event_places;

	event_places = n ? 4 * n : EVENT_COUNTS_FIRST;
	event_count = calloc(event_places, sizeof *event_count);
	ASSERT(event_count);
	for (uint32_t i = 0; i < n; i++)
		if (old[i].object)
			*event_count_place(old[i].object) = old[i];
	free(old);
}

uint64_t event_count_seq(const void *object)
{
	return event_places ? event_count_place(object)->seq : 0;
}

void event_count_post(const void *object)
{
	if (2 * (event_objects + 1) > event_places)
		event_table_grow();
	struct event_count *c = event_count_place(object);

	event_objects += !c->object;
	c->object = object;
	c->seq++;
	waits_wrote(object, 1);
}

void event_counts_stop(void)
{
	free(event_count);
	event_count = NULL;
	event_places = event_objects = 0;
}
