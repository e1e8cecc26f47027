/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures the engine: a raw fiber switch (target: 15 ns), a scheduling point without effect, task
 * switches through the scheduler, word waits, events, and a whole empty run. Each figure is the
 * best of several rounds, on one core.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "sim/engine/base/fiber.h"
#include "sim/engine/sim.h"

enum {
	ROUNDS = 5,
	RAW_ROUNDS = 200,
	SWITCHES = 10000,
	POINTS = 10000000,
	TASKS = 64,
	YIELDS = 5000,
	RUNS = 200
};

static uint64_t bench_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void bench_print(const char *what, uint64_t best_ns, uint64_t n)
{
	printf("%-44s %8llu.%02llu ns\n", what, (unsigned long long)(best_ns / n),
	       (unsigned long long)(best_ns * 100 / n % 100));
}

/* ---- raw switch ----------------------------------------------------------------------------- */

static struct fiber bench_fiber;
static void *bench_fiber_sp, *bench_loop_sp;

static void bench_fiber_main(void *arg)
{
	for (;;)
		fiber_switch(&bench_fiber_sp, bench_loop_sp);
}

static void bench_raw(void)
{
	uint64_t best = UINT64_MAX;

	if (fiber_create(&bench_fiber, &bench_fiber_sp, 65536, bench_fiber_main, NULL))
		return;
	for (int r = 0; r < RAW_ROUNDS; r++) {
		uint64_t start = bench_now();
		for (int i = 0; i < SWITCHES; i++)
			fiber_switch(&bench_loop_sp, bench_fiber_sp);
		uint64_t ns = bench_now() - start;
		best = MIN_OF(best, ns);
	}
	fiber_release(&bench_fiber);
	bench_print("raw fiber switch", best, 2 * SWITCHES);
}

/* ---- inside a run --------------------------------------------------------------------------- */

static uint64_t bench_result, bench_n;

static void bench_points(void *arg)
{
	uint64_t start = bench_now();

	for (int i = 0; i < POINTS; i++)
		sim_point("bench");
	bench_result = bench_now() - start;
	bench_n = POINTS;
}

static void bench_yielder(void *arg)
{
	for (int i = 0; i < YIELDS; i++)
		os_sleep_ns(10);
}

static void bench_sleeps(void *arg)
{
	struct os_thread *t[TASKS];
	const struct os_thread_attr a = {.name = "yielder", .rank = -1};
	uint64_t start = bench_now();

	for (int i = 0; i < TASKS; i++)
		os_thread_start(&t[i], &a, bench_yielder, NULL);
	for (int i = 0; i < TASKS; i++)
		os_thread_join(t[i]);
	bench_result = bench_now() - start;
	bench_n = (uint64_t)TASKS * YIELDS;
}

static shared_u32 bench_word[TASKS];

static void bench_waiter(void *arg)
{
	uint32_t me = (uint32_t)(uintptr_t)arg;

	for (uint32_t i = 1; i <= YIELDS; i++) {
		const struct wait w = {.on = &bench_word[(me + TASKS - 1) % TASKS],
				       .want = me ? i : i - 1,
				       .mask = WAIT_MASK_ALL,
				       .kind = WAIT_GE,
				       .bytes = 4,
				       .why = "neighbour",
				       .from = {-1, -1, -1, NULL}};
		os_wait_one(&w, NULL);
		shared_store_u32(&bench_word[me], i, SHARED_RELEASE);
	}
}

static void bench_waits(void *arg)
{
	struct os_thread *t[TASKS];
	const struct os_thread_attr a = {.name = "waiter", .rank = -1};

	memset(bench_word, 0, sizeof bench_word);
	uint64_t start = bench_now();
	for (int i = 0; i < TASKS; i++)
		os_thread_start(&t[i], &a, bench_waiter, (void *)(uintptr_t)i);
	for (int i = 0; i < TASKS; i++)
		os_thread_join(t[i]);
	bench_result = bench_now() - start;
	bench_n = (uint64_t)TASKS * YIELDS;
}

static void bench_step(void *object, uint64_t left)
{
	const struct sim_event_attr a = {
		.name = "bench", .delay_ns = 5 + left % 7, .order = object};

	if (left)
		sim_event_post(&a, bench_step, object, left - 1, NULL);
}

static void bench_events(void *arg)
{
	static int object[16];
	uint64_t start = bench_now();

	for (int i = 0; i < 16; i++)
		bench_step(&object[i], 50000);
	os_sleep_ns(1000000000000);
	bench_result = bench_now() - start;
	bench_n = 16 * 50000;
}

static void bench_nothing(void *arg)
{
}

static void bench_run(const char *what, enum sim_strategy strategy, void (*fn)(void *))
{
	uint64_t best = UINT64_MAX;

	for (int r = 0; r < ROUNDS; r++) {
		const struct sim_config c = {.strategy = strategy, .seed = (uint64_t)r};

		if (sim_start(&c) || sim_run(fn, NULL) != SIM_PASS)
			return;
		sim_stop();
		best = MIN_OF(best, bench_result);
	}
	bench_print(what, best, bench_n);
}

static void bench_empty_runs(void)
{
	uint64_t start = bench_now();

	for (int i = 0; i < RUNS; i++) {
		const struct sim_config c = {.seed = (uint64_t)i};

		if (sim_start(&c) || sim_run(bench_nothing, NULL) != SIM_PASS)
			return;
		sim_stop();
	}
	bench_print("start, run of nothing, stop", bench_now() - start, RUNS);
}

int main(void)
{
	bench_raw();
	bench_run("scheduling point, fifo", SIM_FIFO, bench_points);
	bench_run("scheduling point, uniform", SIM_UNIFORM, bench_points);
	bench_run("sleep and switch, 64 tasks, fifo", SIM_FIFO, bench_sleeps);
	bench_run("sleep and switch, 64 tasks, uniform", SIM_UNIFORM, bench_sleeps);
	bench_run("word wait and store, 64 tasks, fifo", SIM_FIFO, bench_waits);
	bench_run("word wait and store, 64 tasks, uniform", SIM_UNIFORM, bench_waits);
	bench_run("word wait and store, 64 tasks, pct", SIM_PCT, bench_waits);
	bench_run("event, 16 wires, fifo", SIM_FIFO, bench_events);
	bench_run("event, 16 wires, uniform", SIM_UNIFORM, bench_events);
	bench_empty_runs();
	return 0;
}
