/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Event counts of objects that are not one word (a CQ, a socket, a mailbox), by the object's
 * address. A task waits for the next post with a wait of kind OBJECT. `sim` only.
 */
#include <stdlib.h>

#include "sim/engine/order/order_internal.h"

enum { EVENT_BUCKETS_FIRST = 1 << 10 };

struct event_count {
	const void *object;
	uint64_t seq;
	struct event_count *next;
};
/* At least as many buckets as objects: a world of thousands of ranks looks millions of times at
 * hundreds of thousands of sockets and CQs. */
static struct event_count **event_bucket;
static uint32_t event_buckets, event_objects;

static inline uint32_t event_hash(const void *object)
{
	return (uint32_t)(((uintptr_t)object * 0x9e3779b97f4a7c15ull) >> 32) & (event_buckets - 1);
}

static void event_table_grow(void)
{
	struct event_count **old = event_bucket;
	uint32_t n = event_buckets;

	event_buckets = n ? 4 * n : EVENT_BUCKETS_FIRST;
	event_bucket = calloc(event_buckets, sizeof *event_bucket);
	ASSERT(event_bucket);
	for (uint32_t i = 0; i < n; i++) {
		while (old[i]) {
			struct event_count *c = old[i];
			struct event_count **to = &event_bucket[event_hash(c->object)];

			old[i] = c->next;
			c->next = *to;
			*to = c;
		}
	}
	free(old);
}

static struct event_count *event_count_get(const void *object, bool make)
{
	struct event_count *c = event_buckets ? event_bucket[event_hash(object)] : NULL;

	for (; c; c = c->next)
		if (c->object == object)
			return c;
	if (!make)
		return NULL;
	if (event_objects >= event_buckets)
		event_table_grow();
	struct event_count **to = &event_bucket[event_hash(object)];
	c = calloc(1, sizeof *c);
	ASSERT(c);
	*c = (struct event_count){.object = object, .next = *to};
	*to = c;
	event_objects++;
	return c;
}

uint64_t event_count_seq(const void *object)
{
	const struct event_count *c = event_count_get(object, false);

	return c ? c->seq : 0;
}

void event_count_post(const void *object)
{
	event_count_get(object, true)->seq++;
	waits_wrote(object, 1);
}

void event_counts_stop(void)
{
	for (uint32_t i = 0; i < event_buckets; i++) {
		while (event_bucket[i]) {
			struct event_count *c = event_bucket[i];

			event_bucket[i] = c->next;
			free(c);
		}
	}
	free(event_bucket);
	event_bucket = NULL;
	event_buckets = event_objects = 0;
}
