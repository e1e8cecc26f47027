/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For gdb: many tasks that all wait, each three calls deep, and one that then stops in
 * bench_here(). Measures the cost of a command:
 *
 *   time gdb -batch -x sim/gdb/doppel.py -ex 'break bench_here' -ex run \
 *     -ex 'task apply all bt 3' --args build/fake/tests/gdb_tasks_bench 10000 | tail -3
 *
 * Without gdb it runs to its end.
 */
#include <stdio.h>
#include <stdlib.h>

#include "sim/engine/sim.h"

static shared_u32 bench_go;

__attribute__((noinline)) void bench_here(void);
__attribute__((noinline)) void bench_here(void)
{
	__asm__ volatile("" ::: "memory");
}

static __attribute__((noinline)) int bench_wait(int32_t number)
{
	struct wait w = {
		.on = &bench_go,
		.bytes = 4,
		.kind = WAIT_EQ,
		.mask = WAIT_MASK_ALL,
		.want = 1,
		.why = "bench: the word",
		.from = {.rank = -1, .channel = number % 8, .step = number},
	};
	int rc = os_wait_one(&w, NULL);

	__asm__ volatile("" ::: "memory");
	return rc;
}

static __attribute__((noinline)) int bench_step(int32_t number)
{
	int rc = bench_wait(number);

	__asm__ volatile("" ::: "memory");
	return rc;
}

static void bench_task(void *arg)
{
	if (bench_step((int32_t)(intptr_t)arg))
		abort();
}

static void bench_main(void *arg)
{
	int32_t n = *(int32_t *)arg;
	struct os_thread **task = calloc((size_t)n, sizeof(struct os_thread *));
	char name[32];

	if (!task)
		abort();
	for (int32_t i = 0; i < n; i++) {
		struct os_thread_attr attr = {.name = name, .rank = i / 16};

		snprintf(name, sizeof name, "rank%d task %d", i / 16, i % 16);
		if (os_thread_start(&task[i], &attr, bench_task, (void *)(intptr_t)i))
			abort();
	}
	os_sleep_ns(1000000); /* until all tasks wait */
	bench_here();
	shared_store_u32(&bench_go, 1, SHARED_RELEASE);
	for (int32_t i = 0; i < n; i++)
		os_thread_join(task[i]);
	free(task);
}

int main(int argc, char **argv)
{
	int32_t n = argc > 1 ? atoi(argv[1]) : 10000;
	struct sim_config config = {.seed = 1, .strategy = SIM_FIFO};

	if (n < 1 || n > 1000000 || sim_start(&config)) {
		fprintf(stderr, "usage: gdb_tasks_bench [TASKS]\n");
		return 1;
	}
	enum sim_verdict verdict = sim_run(bench_main, &n);
	sim_stop();
	return (int)verdict;
}
