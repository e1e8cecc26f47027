/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a world of two hosts, and keeps its output and its leaks. For world_test.c and
 * world_net_test.c. */
#ifndef TESTS_UNIT_ENGINE_WORLD_RUN_H
#define TESTS_UNIT_ENGINE_WORLD_RUN_H

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/param.h"
#include "core/os/os_ops.h"
#include "sim/engine/sim.h"
#include "sim/world/world.h"
#include "tests/suite.h"

#define US 1000ull

/* ---- a world, its output, and its leaks ----------------------------------------------------- */

static struct {
	enum sim_verdict verdict;
	uint64_t leaks, hash;
	char said[16384]; /* stderr */
} run;

static const char *const no_env[] = {NULL};

static inline int capture_start(void)
{
	fflush(stderr);
	int keep = dup(STDERR_FILENO), file = fileno(tmpfile());
	dup2(file, STDERR_FILENO);
	return keep;
}

static inline void capture_end(int keep)
{
	fflush(stderr);
	lseek(STDERR_FILENO, 0, SEEK_SET);
	ssize_t n = read(STDERR_FILENO, run.said, sizeof run.said - 1);
	run.said[n > 0 ? n : 0] = '\0';
	dup2(keep, STDERR_FILENO);
	close(keep);
	fputs(run.said, stderr);
}

static inline void run_world(const struct sim_config *sc, void (*fn)(void *), void *arg)
{
	const struct world_config wc = {.hosts = 2, .machine = "a100-4nic", .env = no_env};
	ck_assert_int_eq(sim_start(sc), 0);
	int keep = capture_start();
	int rc = world_create(&wc);
	if (rc == 0) {
		run.verdict = sim_run(fn, arg);
		run.hash = sim_hash();
		run.leaks = world_destroy();
	}
	sim_stop();
	capture_end(keep);
	ck_assert_int_eq(rc, 0);
}

static inline void run_sim(uint64_t seed, void (*fn)(void *))
{
	const struct sim_config sc = {.seed = seed};
	run_world(&sc, fn, NULL);
}

static inline void ran_clean(void)
{
	ck_assert_int_eq(run.verdict, SIM_PASS);
	ck_assert_uint_eq(run.leaks, 0);
}

static inline void said(const char *text)
{
	ck_assert_msg(strstr(run.said, text) != NULL, "'%s' does not say '%s'", run.said, text);
}

/* Runs fn(arg) as a task of a process and waits for its end. */
static inline void in_proc(struct os_proc *p, void (*fn)(void *), void *arg)
{
	const struct os_thread_attr attr = {.name = "test", .rank = -1};
	struct os_thread *t = NULL;
	ck_assert_int_eq(world_thread_start(p, &t, &attr, fn, arg), 0);
	ck_assert_int_eq(os_thread_join(t), 0);
}

static inline struct os_proc *proc_on(uint32_t host)
{
	struct os_proc *p = NULL;
	ck_assert_int_eq(world_proc_create(host, NULL, &p), 0);
	return p;
}

#endif
