/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory-order adversary between warps, by litmus tests: their ranges and lines, scopes, and
 * barriers. Warps are tasks that call memory.h as the device shim's double does. Host threads:
 * engine_memory_test.c.
 */
#include <check.h>
#include <string.h>

#include "core/base/shared.h"
#include "sim/engine/memory/memory.h"
#include "sim/engine/sim.h"
#include "tests/suite.h"
#include "tests/unit/engine/engine_litmus.h"

/* ---- what a warp does ----------------------------------------------------------------------- */

static void warp(const char *name, int32_t device, int32_t block, void (*fn)(void *))
{
	const struct sim_task_attr a = {.name = name,
					.kind = SIM_TASK_WARP,
					.proc = sim_main_proc(),
					.rank = -1,
					.device = device,
					.kernel = 1,
					.block = block,
					.lane = -1};
	struct sim_task *t;

	ck_assert_int_eq(sim_task_spawn(&t, &a, fn, NULL), 0);
}

/* A reader in the place that `how` selects. */
static void reader(void (*fn)(void *))
{
	if (how.reader_device < 0)
		os_thread_join(host("reader", fn));
	else
		warp("reader", how.reader_device, how.reader_block, fn);
}

static struct mem_access access_of(const void *p, size_t bytes, enum shared_access op,
				   enum shared_order order, enum shared_scope scope)
{
	return (struct mem_access){
		.addr = p, .bytes = bytes, .op = op, .order = order, .scope = scope};
}

static void warp_store(void *p, uint64_t v, enum shared_order order, enum shared_scope scope)
{
	const struct mem_access a = access_of(p, 8, SHARED_STORE, order, scope);

	sim_point("warp.store");
	if (mem_store(&a, v))
		return;
	__atomic_store_n((uint64_t *)p, v, __ATOMIC_RELEASE);
	sim_wrote(p, 8);
}

static uint64_t warp_load(const void *p)
{
	const struct mem_access a = access_of(p, 8, SHARED_LOAD, SHARED_RELAXED, SHARED_SYSTEM);

	sim_point("warp.load");
	mem_access(&a);
	return __atomic_load_n((const uint64_t *)p, __ATOMIC_ACQUIRE);
}

static void warp_fence(enum shared_order order, enum shared_scope scope)
{
	const struct mem_access a = access_of(NULL, 0, SHARED_FENCE, order, scope);

	sim_point("warp.fence");
	mem_access(&a);
}

static void warp_fill(void *p, size_t bytes)
{
	const struct mem_access a =
		access_of(p, bytes, SHARED_RANGE_WRITE, SHARED_RELAXED, SHARED_BLOCK);

	sim_point("warp.write");
	mem_access(&a);
	memset(p, 1, bytes);
	mem_wrote(&a);
	sim_wrote(p, bytes);
}

static void warp_barrier(uint32_t threads)
{
	uint32_t phase = m.phase.v_;

	sim_point("warp.barrier");
	mem_barrier_arrive(&m.phase);
	if (++m.arrived == threads) {
		m.arrived = 0;
		m.phase.v_ = phase + 1;
		sim_wrote(&m.phase, sizeof m.phase);
	} else {
		const struct wait w = {.on = &m.phase,
				       .want = phase,
				       .mask = WAIT_MASK_ALL,
				       .kind = WAIT_NE,
				       .bytes = 4,
				       .why = "barrier",
				       .from = {-1, -1, -1, NULL}};

		ck_assert_int_eq(os_wait_one(&w, NULL), 0);
	}
	mem_barrier_leave(&m.phase);
}

/* ---- ranges and lines ----------------------------------------------------------------------- */

/* A few bytes at any address, across lines of 64 bytes as well: the writer reads each of them back.
 * Bad is a byte that it does not see. */
static void small_ranges(void *arg)
{
	(void)arg;
	for (uint32_t at = 0; at < 130; at++) {
		uint32_t bytes = 1 + at % 8;

		memset(m.range, 0, sizeof m.range);
		warp_fill(m.range + at, bytes);
		for (uint32_t i = bytes; i-- > 0;) {
			const struct mem_access a = access_of(m.range + at + i, 1, SHARED_LOAD,
							      SHARED_RELAXED, SHARED_SYSTEM);

			mem_access(&a);
			m.bad |= m.range[at + i] != 1;
		}
	}
}

static void small_ranges_of_a_warp(void *arg)
{
	(void)arg;
	warp("writer", 0, 0, small_ranges);
	linger();
}

START_TEST(an_agent_sees_its_own_bytes_wherever_they_are)
{
	expect_never(small_ranges_of_a_warp);
}
END_TEST

#define LINE(value) (7ull << 32 | (value))

static void line_writer(void *arg)
{
	(void)arg;
	warp_store(&m.line[0], LINE(1), SHARED_RELAXED, SHARED_SYSTEM);
	warp_store(&m.line[1], LINE(2), SHARED_RELAXED, SHARED_SYSTEM);
	linger();
}

static void line_reader(void *arg)
{
	const struct wait w = {.on = m.line,
			       .want = 7,
			       .kind = WAIT_LINE16,
			       .why = "line",
			       .from = {-1, -1, -1, NULL}};

	(void)arg;
	while (!warp_load(&m.line[0]) && !warp_load(&m.line[1]))
		os_charge(OS_COST_NS, 20);
	uint64_t half = m.line[0] ? m.line[1] : m.line[0];
	ck_assert_int_eq(os_wait_one(&w, NULL), 0);
	ck_assert_uint_eq(m.line[0], LINE(1));
	ck_assert_uint_eq(m.line[1], LINE(2));
	m.bad = !half;
}

static void line(void *arg)
{
	(void)arg;
	warp("writer", 0, 0, line_writer);
	os_thread_join(host("reader", line_reader));
}

START_TEST(a_line_comes_in_halves_and_its_flags_tell)
{
	expect_some(line);
}
END_TEST

/* ---- scopes --------------------------------------------------------------------------------- */

static void scope_writer(void *arg)
{
	(void)arg;
	warp_store(&m.x, 1, SHARED_RELAXED, SHARED_SYSTEM);
	warp_fence(SHARED_RELEASE, how.scope);
	warp_store(&m.flag, 1, SHARED_RELAXED, SHARED_SYSTEM);
	linger();
}

static void scope_reader(void *arg)
{
	(void)arg;
	wait_for(&m.flag, 1);
	m.bad = warp_load(&m.x) != 1;
}

static void scope(void *arg)
{
	(void)arg;
	warp("writer", 0, 0, scope_writer);
	reader(scope_reader);
}

START_TEST(a_fence_reaches_as_far_as_its_scope)
{
	static const struct {
		int32_t device, block;
		enum shared_scope needs;
	} at[] = {{0, 0, SHARED_BLOCK},
		  {0, 1, SHARED_GPU},
		  {1, 0, SHARED_SYSTEM},
		  {-1, -1, SHARED_SYSTEM}};

	for (size_t i = 0; i < ARRAY_LEN(at); i++) {
		how.reader_device = at[i].device;
		how.reader_block = at[i].block;
		for (how.scope = SHARED_BLOCK; how.scope <= SHARED_SYSTEM; how.scope++) {
			if (how.scope < at[i].needs)
				expect_some(scope);
			else
				expect_never(scope);
		}
	}
}
END_TEST

/* ---- cumulativity --------------------------------------------------------------------------- */

static void barrier_mover(void *arg)
{
	(void)arg;
	warp_fill(m.range, sizeof m.range);
	warp_store(&m.x, 1, SHARED_RELAXED, SHARED_SYSTEM);
	warp_barrier(2);
	linger();
}

static void barrier_poster(void *arg)
{
	(void)arg;
	warp_barrier(2);
	if (how.fence != SHARED_RELAXED)
		warp_fence(how.fence, how.scope);
	warp_store(&m.flag, 1, SHARED_RELAXED, SHARED_SYSTEM);
	linger();
}

static void barrier_reader(void *arg)
{
	(void)arg;
	wait_for(&m.flag, 1);
	m.bad = shared_load_u64(&m.x, SHARED_RELAXED) != 1;
	for (uint32_t i = 0; i < sizeof m.range; i++)
		m.bad |= m.range[i] != 1;
}

static void barrier(void *arg)
{
	(void)arg;
	warp("mover", 0, 0, barrier_mover);
	warp("poster", 0, 0, barrier_poster);
	reader(barrier_reader);
}

START_TEST(a_fence_after_a_barrier_covers_the_block)
{
	how.reader_device = -1;
	how.fence = SHARED_RELEASE;
	how.scope = SHARED_SYSTEM;
	expect_never(barrier);
	how.scope = SHARED_GPU;
	expect_some(barrier);
	how.fence = SHARED_RELAXED;
	expect_some(barrier);
}
END_TEST

static void relay_first(void *arg)
{
	(void)arg;
	warp_store(&m.x, 1, SHARED_RELAXED, SHARED_SYSTEM);
	warp_store(&m.flag, 1, SHARED_RELEASE, SHARED_GPU);
	linger();
}

static void relay_second(void *arg)
{
	(void)arg;
	wait_for(&m.flag, 1);
	warp_store(&m.flag2, 1, how.store, SHARED_SYSTEM);
	linger();
}

static void relay_reader(void *arg)
{
	(void)arg;
	wait_for(&m.flag2, 1);
	m.bad = shared_load_u64(&m.x, SHARED_RELAXED) != 1;
}

static void relay(void *arg)
{
	(void)arg;
	warp("first", 0, 0, relay_first);
	warp("second", 0, 1, relay_second);
	reader(relay_reader);
}

START_TEST(a_wider_release_covers_what_was_acquired)
{
	how.reader_device = -1;
	how.store = SHARED_RELEASE;
	expect_never(relay);
	how.store = SHARED_RELAXED;
	expect_some(relay);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("memory order of warps");
	TCase *t = tcase_create("litmus");

	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, reset, NULL);
	tcase_add_test(t, an_agent_sees_its_own_bytes_wherever_they_are);
	tcase_add_test(t, a_line_comes_in_halves_and_its_flags_tell);
	tcase_add_test(t, a_fence_reaches_as_far_as_its_scope);
	tcase_add_test(t, a_fence_after_a_barrier_covers_the_block);
	tcase_add_test(t, a_wider_release_covers_what_was_acquired);
	suite_add_tcase(s, t);
	return suite_run(s);
}
