/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs of the happens-before tests: their shared state, and their runs. */
#ifndef TESTS_UNIT_ENGINE_ENGINE_HAPPENS_RUN_H
#define TESTS_UNIT_ENGINE_ENGINE_HAPPENS_RUN_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "sim/engine/memory/memory.h"
#include "sim/engine/sim.h"
#include "tests/suite.h"
#include "tests/unit/engine/engine_child.h"

enum { SEEDS = 24 };

/* State that the programs share. Every run is a process of its own, so it begins with these
 * values. */
static shared_u32 flag, flag2;
static uint8_t data[256], copy[256];
static const struct variant *now;

struct variant {
	const char *name;
	void (*main)(void *);
	bool race;
	const char *says; /* in the report */
	enum shared_order store, load;
	bool release_fence, acquire_fence;
	enum shared_scope scope;
	int32_t device, block; /* of the consumer; the producer is block 0 of GPU 0 */
};

#define GOOD(what, fn)       .name = (what), .main = (fn)
#define BAD(what, fn, words) .name = (what), .main = (fn), .race = true, .says = (words)
#define RA                   .store = SHARED_RELEASE, .load = SHARED_ACQUIRE
#define RELAXED              .store = SHARED_RELAXED, .load = SHARED_RELAXED

static inline int run_seed(const struct variant *v, uint64_t seed, bool races)
{
	const struct sim_config c = {.seed = seed, .races = races, .memory_order = SIM_MEMORY_OFF};

	now = v;
	return child_run(c, v->main, NULL);
}

static inline void check_variant(const struct variant *v)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		int rc = run_seed(v, seed, true);
		int want = v->race ? SIM_WRONG_RESULT : SIM_PASS;

		ck_assert_msg(rc == want, "%s, seed %llu: exit %d, expected %d:\n%s", v->name,
			      (unsigned long long)seed, rc, want, said);
		ck_assert_msg(!v->race || strstr(said, "data race:"), "%s:\n%s", v->name, said);
		ck_assert_msg(!v->says || strstr(said, v->says), "%s: not \"%s\":\n%s", v->name,
			      v->says, said);
	}
}

static inline struct os_thread *start(const char *name, void (*fn)(void *))
{
	const struct os_thread_attr a = {.name = name, .rank = -1};
	struct os_thread *t = NULL;

	ck_assert_int_eq(os_thread_start(&t, &a, fn, NULL), 0);
	return t;
}

static inline void both(void (*a)(void *), void (*b)(void *))
{
	struct os_thread *t[2] = {start("producer", a), start("consumer", b)};

	os_thread_join(t[0]);
	os_thread_join(t[1]);
}

#endif
