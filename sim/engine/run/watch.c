/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Observers that look at a run at given steps without changing it. They are: the log of rolling
 * hashes, which compares two runs of one seed; the canary, a failure planted to test failure
 * handling; the step at which a replay stops; the tick of a progress line.
 */
#include <stdlib.h>

#include "sim/engine/run/run_internal.h"
#include "sim/engine/base/gdb_hooks.h"

enum { WATCH_TICK_STEPS = 4096 };

static uint64_t watch_next_sample(void)
{
	const struct sim_hash_log *log = eng.config.hash_log;

	if (!log || (log->n == log->cap && log->stop_when_full))
		return ENGINE_NEVER;
	return log->n ? log->sample[log->n - 1].step + log->every : log->first;
}

static void watch_set(void)
{
	uint64_t sample = watch_next_sample();
	uint64_t canary = eng.config.canary_step ? eng.config.canary_step : ENGINE_NEVER;

	uint64_t until = eng.config.until_step ? eng.config.until_step : ENGINE_NEVER;

	uint64_t tick = eng.config.tick ? (eng.steps | (WATCH_TICK_STEPS - 1)) + 1 : ENGINE_NEVER;

	eng.watch_step = MIN_OF(MIN_OF(sample, tick), MIN_OF(canary, until));
}

void watch_start(void)
{
	struct sim_hash_log *log = eng.config.hash_log;

	if (log) {
		ASSERT(log->cap >= 2 && log->every > 0);
		log->n = 0;
	}
	watch_set();
}

/* Adds a sample. A full log first drops every second sample and doubles its distance. */
static void watch_sample(struct sim_hash_log *log)
{
	if (log->n == log->cap) {
		uint32_t n = 0;

		for (uint32_t i = 1; i < log->n; i += 2)
			log->sample[n++] = log->sample[i];
		log->n = n;
		log->every *= 2;
	}
	log->sample[log->n++] = (struct sim_hash_sample){eng.steps, eng.hash};
}

/* Plants a failure, by an odd step as a verdict and by an even one as a signal: the two ways in
 * which a real failure ends a run. */
static void watch_canary(void)
{
	uint64_t step = eng.config.canary_step;

	eng.config.canary_step = 0;
	watch_set();
	if (step % 2)
		engine_fail(SIM_WRONG_RESULT, "canary", "a failure planted at step %llu",
			    (unsigned long long)step);
	fprintf(stderr, "canary: a crash planted at step %llu\n", (unsigned long long)step);
	abort();
}

static void watch_until(void)
{
	eng.config.until_step = 0;
	watch_set();
	if (sim_under_debugger()) {
		sim_gdb_now_ns = eng.now_ns;
		sim_gdb_steps = eng.steps;
		sim_gdb_stop();
		return;
	}
	eng.reports->explain(stderr);
	choice_cut();
	eng.verdict = SIM_SKIPPED;
	eng.stop = true;
}

void watch_check(void)
{
	if (eng.config.tick)
		eng.config.tick(eng.config.tick_arg);
	if (eng.steps >= watch_next_sample())
		watch_sample(eng.config.hash_log);
	watch_set();
	if (eng.config.canary_step && eng.steps >= eng.config.canary_step)
		watch_canary();
	if (eng.config.until_step && eng.steps >= eng.config.until_step)
		watch_until();
}
