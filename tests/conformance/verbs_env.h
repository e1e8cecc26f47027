/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests in a world with an environment of its own, for verbs_*_test.c. */
#ifndef TESTS_CONFORMANCE_VERBS_ENV_H
#define TESTS_CONFORMANCE_VERBS_ENV_H

#include "tests/conformance/verbs_harness.h"

static inline void run_with_env(const char *const *env, void (*test)(void))
{
	const struct sim_config config = {.engine = SIM_ENGINE_SIM, .seed = 1};
	const struct world_config world = {.hosts = 1, .machine = VH_MACHINE, .env = env};
	struct vh_run run = {test};

	ck_assert_int_eq(sim_start(&config), 0);
	ck_assert_int_eq(world_create(&world), 0);
	ck_assert_int_eq(sim_run(vh_main, &run), SIM_PASS);
	ck_assert_uint_eq(world_destroy(), 0);
	sim_stop();
}

/* A test in a world of this environment. */
#define ENV_TEST(name, ...)                                                                        \
	static void name##_body(void);                                                             \
	START_TEST(name)                                                                           \
	{                                                                                          \
		static const char *const env[] = {__VA_ARGS__, NULL};                              \
		run_with_env(env, name##_body);                                                    \
	}                                                                                          \
	END_TEST                                                                                   \
	static void name##_body(void)

#endif
