/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For the suites of os.h: they run against every pair of halves: posix + real, sim + world under
 * several strategies and seeds, threads + world, threads + real. A case is a function that runs as
 * the main task; what it expects is what os.h promises and no more, so it does not know which pair
 * it runs on.
 */
#ifndef TESTS_CONFORMANCE_OS_PAIRS_H
#define TESTS_CONFORMANCE_OS_PAIRS_H

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/os/os.h"
#include "core/os/os_ops.h"
#include "sim/engine/sim.h"
#include "sim/world/world.h"

#define US 1000ull
#define MS 1000000ull

/* ---- the pairs ------------------------------------------------------------------------------ */

struct pair {
	const char *name;
	bool world;
	enum sim_engine engine;
	enum sim_strategy strategy;
	uint64_t seed;
	bool real; /* the world has the hardware only */
};

static const struct pair pairs[] = {
	{.name = "posix + real"},
	{"sim + world, fifo", true, SIM_ENGINE_SIM, SIM_FIFO, 0, false},
	{"sim + world, uniform, seed 1", true, SIM_ENGINE_SIM, SIM_UNIFORM, 1, false},
	{"sim + world, uniform, seed 2", true, SIM_ENGINE_SIM, SIM_UNIFORM, 2, false},
	{"sim + world, pct, seed 3", true, SIM_ENGINE_SIM, SIM_PCT, 3, false},
	{"sim + world, starve, seed 4", true, SIM_ENGINE_SIM, SIM_STARVE, 4, false},
	{"threads + world", true, SIM_ENGINE_THREADS, SIM_FIFO, 0, false},
	{"threads + real", true, SIM_ENGINE_THREADS, SIM_FIFO, 0, true},
};
#define PAIRS ((int)(sizeof pairs / sizeof pairs[0]))

/* Two GPUs and a NIC are enough of a machine. */
static const char machine_text[] =
	"<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\">"
	"<pci busid=\"0000:01:00.0\" class=\"0x030200\"><gpu dev=\"0\" sm=\"80\"/></pci>"
	"<nic><net name=\"mlx5_0\" dev=\"0\" speed=\"100000\" port=\"1\" guid=\"0x1\" "
	"gdr=\"1\"/></nic>"
	"</cpu></system>";

static inline void case_call(void *arg)
{
	(*(void (**)(void))arg)();
}

static inline void run_in_world(const struct pair *p, void (*fn)(void))
{
	char path[] = "/tmp/doppel-os-XXXXXX.xml";
	int file = mkstemps(path, 4);
	ck_assert_int_ge(file, 0);
	ck_assert_int_eq(write(file, machine_text, sizeof machine_text - 1),
			 sizeof machine_text - 1);
	close(file);
	const char *const env[] = {"OS_TEST=value", NULL};
	const struct sim_config sc = {.engine = p->engine,
				      .strategy = p->strategy,
				      .seed = p->seed,
				      .silent_objects = p->real};
	const struct world_config wc = {
		.hosts = p->real ? 1 : 2, .machine = path, .env = env, .real = p->real};
	ck_assert_int_eq(sim_start(&sc), 0);
	ck_assert_int_eq(world_create(&wc), 0);
	unlink(path);
	enum sim_verdict v = sim_run(case_call, &fn);
	ck_assert_int_eq(v, SIM_PASS);
	ck_assert_uint_eq(world_destroy(), 0);
	sim_stop();
}

static inline void run_case(int i, void (*fn)(void))
{
	const struct pair *p = &pairs[i];
	fprintf(stderr, "-- %s\n", p->name);
	if (p->world) {
		run_in_world(p, fn);
		return;
	}
	setenv("OS_TEST", "value", 1);
	ck_assert_str_eq(os_sched_in_force()->name, "posix");
	fn();
	const char *first = NULL;
	ck_assert_msg(os_real_alloc_count(&first) == 0, "memory left: %s", first);
}

/* ---- helpers ------------------------------------------------------------------------------------
 */

static inline struct wait word_wait(const shared_u32 *on, enum wait_kind kind, uint64_t want)
{
	return (struct wait){.on = on,
			     .want = want,
			     .mask = WAIT_MASK_ALL,
			     .kind = kind,
			     .bytes = 4,
			     .why = "test",
			     .from = {-1, -1, -1, NULL}};
}

static inline struct wait object_wait(const void *on, uint64_t seq)
{
	return (struct wait){.on = on,
			     .want = seq,
			     .kind = WAIT_OBJECT,
			     .why = "test",
			     .from = {-1, -1, -1, NULL}};
}

static inline struct os_thread *start(const char *name, void (*fn)(void *), void *arg)
{
	const struct os_thread_attr attr = {.name = name, .rank = -1};
	struct os_thread *t = NULL;
	ck_assert_int_eq(os_thread_start(&t, &attr, fn, arg), 0);
	ck_assert_ptr_nonnull(t);
	return t;
}

static inline void join(struct os_thread *t)
{
	ck_assert_int_eq(os_thread_join(t), 0);
}

/* ---- the suite ------------------------------------------------------------------------------ */

struct os_case {
	const char *name;
	void (*fn)(void);
};
#define OS_CASE(name) {#name, name},

static const struct os_case *os_cases;

START_TEST(os_case_on_pair)
{
	run_case(_i % PAIRS, os_cases[_i / PAIRS].fn);
}
END_TEST

/* Each case on each pair; what main returns. */
static inline int os_suite_run(const char *name, const struct os_case *cases, int n)
{
	Suite *suite = suite_create(name);

	os_cases = cases;
	for (int i = 0; i < n; i++) {
		TCase *tc = tcase_create(cases[i].name);
		tcase_set_timeout(tc, 60);
		tcase_add_loop_test(tc, os_case_on_pair, i * PAIRS, (i + 1) * PAIRS);
		suite_add_tcase(suite, tc);
	}
	SRunner *runner = srunner_create(suite);
	srunner_set_fork_status(runner, CK_FORK);
	srunner_run_all(runner, CK_NORMAL);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}

#endif
