/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of rings in the HCA double: split and joined, the same each time, and whole again after a
 * process died in the middle of a change. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "backends/fakeverbs/arena/rings.c"
#include "sim/engine/sim.h"
#include "tests/suite.h"

enum { RANGE_BYTES = 1 << 20, RINGS_MOST = 400, STEPS = 20000, DEAD = 77 };

const struct hca_members *hca_members;
bool hca_alone;
/* Its holder is dead. */
bool hca_lock_wait(uint32_t *word)
{
	ck_assert_uint_eq(*word, DEAD);
	*word = 1;
	return true;
}

static struct hca_rings rings;
static uint32_t drawn;
static struct {
	uint64_t at, bytes;
	uint8_t mark;
} held[RINGS_MOST];

static uint32_t draw(uint32_t below)
{
	drawn = drawn * 1664525u + 1013904223u;
	return (uint32_t)(((uint64_t)drawn * below) >> 32);
}

static void setup(void)
{
	static const struct sim_config sim = {.seed = 1};
	static const struct world_config world = {.hosts = 1, .machine = "h100-8nic"};

	ck_assert_int_eq(sim_start(&sim), 0);
	ck_assert_int_eq(world_create(&world), 0);
	hca_rings_init(&rings,
		       world_arena_alloc(RANGE_BYTES + HCA_RINGS_HEADS(RANGE_BYTES), "rings"),
		       RANGE_BYTES);
	memset(held, 0, sizeof held);
	drawn = 1;
}

static void teardown(void)
{
	world_destroy();
	sim_stop();
}

/* All of it in one block again. */
static void expect_whole(void)
{
	uint64_t all = hca_ring_alloc(&rings, RANGE_BYTES);

	ck_assert_uint_ne(all, 0);
	hca_ring_free(&rings, all);
}

static void hold(uint32_t i, uint64_t bytes)
{
	held[i].at = hca_ring_alloc(&rings, bytes);
	if (!held[i].at)
		return;
	ck_assert_uint_eq(held[i].at % 64, 0);
	ck_assert(held[i].at >= rings.first && held[i].at + bytes <= rings.first + RANGE_BYTES);
	const uint8_t *p = world_arena_at(held[i].at);

	ck_assert(p[0] == 0 && !memcmp(p, p + 1, bytes - 1));
	held[i].bytes = bytes;
	held[i].mark = (uint8_t)draw(256);
	memset(world_arena_at(held[i].at), held[i].mark, bytes);
}

static void release(uint32_t i)
{
	const uint8_t *p = world_arena_at(held[i].at);

	/* each byte equals the next one */
	ck_assert(p[0] == held[i].mark && !memcmp(p, p + 1, held[i].bytes - 1));
	hca_ring_free(&rings, held[i].at);
	held[i].at = 0;
}

static void step(void)
{
	uint32_t i = draw(RINGS_MOST);

	if (held[i].at)
		release(i);
	else
		hold(i, 1 + draw(draw(4) ? 2000 : 60000));
}

static void release_all(void)
{
	for (uint32_t i = 0; i < RINGS_MOST; i++)
		if (held[i].at)
			release(i);
}

START_TEST(what_is_given_back_joins_and_serves_any_size)
{
	for (uint32_t i = 0; i < RINGS_MOST; i++)
		hold(i, 2000);
	ck_assert_uint_ne(held[RINGS_MOST - 1].at, 0);
	for (uint32_t i = 0; i < RINGS_MOST; i += 2)
		release(i);
	/* what was never taken is smaller than that, and so is each gap */
	ck_assert_uint_eq(hca_ring_alloc(&rings, RANGE_BYTES / 2), 0);
	for (uint32_t i = 1; i < RINGS_MOST; i += 2)
		release(i);
	expect_whole();
}
END_TEST

/* Rings that no queue has used take no memory. */
START_TEST(new_rings_touch_no_page_of_theirs)
{
	uint64_t first = hca_ring_alloc(&rings, 16384), last = first;
	unsigned char resident[RANGE_BYTES / 4096];

	for (int i = 0; i < 9; i++)
		last = hca_ring_alloc(&rings, 16384);
	ck_assert_uint_ne(last, 0);
	uintptr_t from = ALIGN_UP((uintptr_t)world_arena_at(first), 4096);
	uintptr_t to = (uintptr_t)world_arena_at(last) / 4096 * 4096;

	ck_assert_int_eq(mincore((void *)from, to - from, resident), 0);
	for (size_t i = 0; i < (to - from) / 4096; i++)
		ck_assert_int_eq(resident[i] & 1, 0);
}
END_TEST

START_TEST(no_two_rings_share_a_byte)
{
	for (uint32_t n = 0; n < STEPS; n++)
		step();
	release_all();
	expect_whole();
}
END_TEST

START_TEST(the_same_calls_give_the_same_offsets)
{
	uint64_t first = rings.first, sum[2] = {0, 0};

	for (int run = 0; run < 2; run++) {
		drawn = 7;
		for (uint32_t n = 0; n < STEPS / 10; n++) {
			step();
			for (uint32_t i = 0; i < RINGS_MOST; i += 13)
				sum[run] = sum[run] * 31 + (held[i].at ? held[i].at - first : 0);
		}
		release_all();
	}
	ck_assert_uint_eq(sum[0], sum[1]);
}
END_TEST

START_TEST(too_much_is_none)
{
	ck_assert_uint_eq(hca_ring_alloc(&rings, RANGE_BYTES + 1), 0);
	ck_assert_uint_eq(hca_ring_alloc(&rings, 0), 0);
	ck_assert_uint_eq(hca_ring_alloc(&rings, UINT64_MAX), 0);
	ck_assert_uint_eq(hca_ring_alloc(&rings, UINT64_MAX - 100), 0);
	hca_ring_free(&rings, 0);
	expect_whole();
}
END_TEST

/* Everything except the sizes is lost, and free neighbours are not joined yet. */
static void die_inside(void)
{
	struct rings_block *b;

	for (uint64_t at = rings.first; at < rings.first + rings.bytes; at += rings_size(b)) {
		b = rings_at(&rings, at);
		b->before = draw(1000);
		if (!rings_is_free(b))
			continue;
		b->next = draw(1000);
		b->previous = draw(1000);
		if (b->size > HCA_RING_GRAIN && draw(2)) { /* two as yet */
			*rings_at(&rings, at + HCA_RING_GRAIN) =
				(struct rings_block){.size = b->size - HCA_RING_GRAIN};
			b->size = HCA_RING_GRAIN;
		}
	}
	for (uint32_t i = 0; i < ARRAY_LEN(rings.free); i++)
		rings.free[i] = draw(1000);
	rings.lock = DEAD;
}

START_TEST(a_process_that_dies_inside_leaves_what_can_be_made_whole)
{
	for (uint32_t n = 0; n < STEPS / 4; n++) {
		step();
		if (draw(8) == 0)
			die_inside();
	}
	release_all();
	die_inside();
	expect_whole();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("rings");
	TCase *t = tcase_create("rings");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, what_is_given_back_joins_and_serves_any_size);
	tcase_add_test(t, new_rings_touch_no_page_of_theirs);
	tcase_add_test(t, no_two_rings_share_a_byte);
	tcase_add_test(t, the_same_calls_give_the_same_offsets);
	tcase_add_test(t, too_much_is_none);
	tcase_add_test(t, a_process_that_dies_inside_leaves_what_can_be_made_whole);
	suite_add_tcase(s, t);
	return suite_run(s);
}
