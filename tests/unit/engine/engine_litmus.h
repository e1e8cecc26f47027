/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Litmus tests of the memory-order adversary: what the tasks of a shape share, how the shape is
 * spelled, and its runs under many seeds, in which its bad outcome is expected never or in some.
 * Included once by a test program.
 */
#ifndef TESTS_UNIT_ENGINE_LITMUS_H
#define TESTS_UNIT_ENGINE_LITMUS_H

#include <check.h>
#include <string.h>

#include "core/base/shared.h"
#include "sim/engine/sim.h"

enum { SEEDS = 500, DATA_BYTES = 256 };

/* Everything that tasks share: not on a stack, where nothing is kept. */
static struct {
	shared_u64 x, y, flag, flag2;
	uint64_t pad[4];
	uint8_t range[DATA_BYTES];
	uint64_t line[2] __attribute__((aligned(16)));
	/* a block's barrier */
	shared_u32 phase;
	uint32_t arrived;
	/* what readers saw */
	uint64_t saw[4];
	bool bad;
} m;

/* How the shape at hand is spelled. */
static struct {
	enum shared_order store, load;
	enum shared_order fence; /* SHARED_RELAXED: none */
	enum shared_scope scope;
	bool rmw;
	int32_t reader_device, reader_block; /* -1: the host */
} how;

/* ---- running -------------------------------------------------------------------------------- */

/* Seeds, of SEEDS, in which the shape showed the bad outcome. */
static inline uint32_t bad_seeds(enum sim_memory_order order, enum sim_strategy strategy,
				 void (*shape)(void *arg))
{
	uint32_t bad = 0;

	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		const struct sim_config c = {
			.seed = seed, .strategy = strategy, .memory_order = order};

		memset(&m, 0, sizeof m);
		ck_assert_int_eq(sim_start(&c), 0);
		ck_assert_int_eq(sim_run(shape, NULL), SIM_PASS);
		sim_stop();
		bad += m.bad;
	}
	return bad;
}

static inline uint32_t bad_seeds_on(void (*shape)(void *arg))
{
	return bad_seeds(SIM_MEMORY_ON, SIM_PORTFOLIO, shape);
}

static inline void expect_never(void (*shape)(void *arg))
{
	ck_assert_uint_eq(bad_seeds_on(shape), 0);
}

static inline void expect_some(void (*shape)(void *arg))
{
	ck_assert_uint_gt(bad_seeds_on(shape), 0);
}

static inline struct os_thread *host(const char *name, void (*fn)(void *))
{
	const struct os_thread_attr a = {.name = name, .rank = -1};
	struct os_thread *t = NULL;

	ck_assert_int_eq(os_thread_start(&t, &a, fn, NULL), 0);
	return t;
}

static inline void wait_for(const shared_u64 *word, uint64_t want)
{
	const struct wait w = {.on = word,
			       .want = want,
			       .mask = WAIT_MASK_ALL,
			       .kind = WAIT_GE,
			       .bytes = 8,
			       .why = "litmus word",
			       .from = {-1, -1, -1, NULL}};

	ck_assert_int_eq(os_wait_one(&w, NULL), 0);
}

/* The end of a task shows what it stored, so it goes on for a while. */
static inline void linger(void)
{
	os_charge(OS_COST_NS, 5000);
	sim_point("litmus.linger");
}

static inline void reset(void)
{
	memset(&how, 0, sizeof how);
}

#endif
