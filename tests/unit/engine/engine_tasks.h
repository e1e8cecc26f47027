/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests of the engine: a run under FIFO, its tasks, and a wait for a word of 32 bits. */
#ifndef TESTS_UNIT_ENGINE_TASKS_H
#define TESTS_UNIT_ENGINE_TASKS_H

#include <check.h>

#include "sim/engine/sim.h"

static inline struct sim_config fifo(void)
{
	return (struct sim_config){.engine = SIM_ENGINE_SIM, .seed = 7, .strategy = SIM_FIFO};
}

static inline enum sim_verdict run_with(const struct sim_config *c, void (*fn)(void *), void *arg)
{
	ck_assert_int_eq(sim_start(c), 0);
	enum sim_verdict v = sim_run(fn, arg);
	return v;
}

static inline struct os_thread *spawn(const char *name, int rank, void (*fn)(void *), void *arg)
{
	const struct os_thread_attr a = {.name = name, .rank = rank};
	struct os_thread *t = NULL;

	ck_assert_int_eq(os_thread_start(&t, &a, fn, arg), 0);
	return t;
}

static inline struct wait wait_test_word(const shared_u32 *w, enum wait_kind kind, uint64_t want)
{
	return (struct wait){.on = w,
			     .want = want,
			     .mask = WAIT_MASK_ALL,
			     .kind = (uint8_t)kind,
			     .bytes = 4,
			     .why = "test word",
			     .from = {-1, -1, -1, NULL}};
}

#endif
