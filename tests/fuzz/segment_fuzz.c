/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes the memory of a fabric that a program found. After any change of its head, the checker
 * refuses it, or all its offsets point inside the arena. The input is records of eight bytes: a
 * place, and a word to store or to add there. A change that is refused is undone.
 */
#include <stdint.h>

#include "tests/fuzz/segment_image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void must(bool ok)
{
	if (!ok)
		abort();
}

static void follow(const struct fabric_segment *s, uint64_t at, uint64_t bytes)
{
	const volatile uint8_t *p = (const uint8_t *)s + at;

	must(bytes <= WORLD_ARENA_BYTES && at <= WORLD_ARENA_BYTES - bytes);
	(void)p[0];
	(void)p[bytes - 1];
}

static void follow_slab(const struct fabric_segment *s, const struct hca_slab *slab, size_t least)
{
	must(slab->item_bytes >= least && slab->free_first <= slab->count);
	for (uint32_t i = 0; i < slab->count; i++) {
		uint32_t within = i & ((1u << slab->chunk_shift) - 1);

		must(i >> slab->chunk_shift < HCA_CHUNKS);
		follow(s, slab->chunk[i >> slab->chunk_shift] + (uint64_t)within * slab->item_bytes,
		       slab->item_bytes);
	}
}

static void follow_all(struct fabric_segment *s)
{
	if (!s->world)
		return;
	const struct hca_world *w = (const struct hca_world *)((uint8_t *)s + s->world);

	follow(s, s->world, sizeof *w);
	follow(s, s->world, sizeof *w + w->ports * sizeof w->port[0]);
	for (uint32_t i = 0; i < w->ports; i++)
		for (uint32_t k = 0; k < HCA_BUCKETS; k++)
			must(w->port[i].bucket[k] <= w->qp.count);
#define FOLLOW(name, type) follow_slab(s, &w->name, sizeof(type));
	SEGMENT_SLABS(FOLLOW)
#undef FOLLOW
	follow(s, w->rings.first, w->rings.bytes);
	for (uint32_t i = 0; i < ARRAY_LEN(w->rings.free); i++)
		if (w->rings.free[i])
			follow(s, w->rings.free[i], 1ull << i);
}

/* Returns the place that a record changes: one in four is anywhere in the head, the others are
 * offsets, sizes and indices. */
static uint8_t *place(struct fabric_segment *s, uint32_t where)
{
	struct hca_world *w = segment_world(s);
	void *const leads[] = {&s->arena.used,
			       &s->world,
			       &s->member[where % 256],
			       &w->ports,
			       &w->rings.first,
			       &w->rings.bytes,
			       &w->rings.free[where % 48],
			       &w->port[where % SEGMENT_PORTS].bucket[where % HCA_BUCKETS],
#define LEADS(name, type)                                                                          \
	&w->name.item_bytes, &w->name.chunk_shift, &w->name.count, &w->name.free_first,            \
		&w->name.free_last, &w->name.chunk[0], &w->name.chunk[1], &w->name.chunk[2],
			       SEGMENT_SLABS(LEADS)
#undef LEADS
	};

	if (where % 4 == 0)
		return (uint8_t *)s + where % (SEGMENT_HEAD - 4) / 4 * 4;
	return leads[where / 4 % ARRAY_LEN(leads)];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct fabric_segment *s;

	if (!s)
		s = segment_map();
	must(s != NULL);
	memset(s, 0, SEGMENT_HEAD);
	segment_fill(s);
	must(!fabric_check(s, SEGMENT_LAYOUT));
	follow_all(s);
	for (; bytes >= 8; data += 8, bytes -= 8) {
		uint32_t record[2], old;

		memcpy(record, data, sizeof record);
		uint8_t *at = place(s, record[0]);

		memcpy(&old, at, 4);
		if (record[0] & 1) /* a value close to the present one */
			record[1] = old + (record[1] & 0x1fff) - 0x1000;
		memcpy(at, &record[1], 4);
		if (!fabric_check(s, SEGMENT_LAYOUT))
			follow_all(s);
		else
			memcpy(at, &old, 4);
	}
	return 0;
}

#include "tests/fuzz/fuzz_main.h"
