/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs a program of verbs_harness.h in a world of its own and keeps what it logs on standard error.
 * Used by verbs_*_test.c that are about sentences of the HCA double.
 */
#ifndef TESTS_CONFORMANCE_VERBS_LISTEN_H
#define TESTS_CONFORMANCE_VERBS_LISTEN_H

#include <string.h>
#include <unistd.h>

#include "tests/conformance/verbs_harness.h"

static char logged[1 << 18];

/* check: DOPPEL_VERBS_CHECK=..., or NULL. True: the run failed. */
static inline bool listen_to(enum sim_engine engine, void (*program)(void), const char *check)
{
	const char *const env[] = {check, NULL};
	const struct sim_config config = {.engine = engine, .seed = 1};
	const struct world_config world = {.hosts = 1, .machine = VH_MACHINE, .env = env};
	struct vh_run run = {program};
	FILE *file = tmpfile();
	int err = dup(2);

	ck_assert_ptr_nonnull(file);
	fflush(stderr);
	dup2(fileno(file), 2);
	ck_assert_int_eq(sim_start(&config), 0);
	ck_assert_int_eq(world_create(&world), 0);
	enum sim_verdict verdict = sim_run(vh_main, &run);
	bool failed = verdict != SIM_PASS || sim_failure();

	world_destroy();
	sim_stop();
	fflush(stderr);
	dup2(err, 2);
	close(err);
	rewind(file);
	size_t n = fread(logged, 1, sizeof logged - 1, file);

	logged[n] = '\0';
	fclose(file);
	return failed;
}

#endif
