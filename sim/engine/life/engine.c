/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of an engine: starts and stops every floor below, installs the scheduler. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/engine/base/gdb_hooks.h"
#include "sim/engine/base/output.h"
#include "sim/engine/life/life.h"
#include "sim/engine/report/report_internal.h"

enum { STACK_BYTES = 128 << 10, STACK_BYTES_SANITIZED = 512 << 10 };

static void engine_defaults(void)
{
	struct sim_config *c = &eng.config;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	size_t stack = STACK_BYTES_SANITIZED;
#else
	size_t stack = STACK_BYTES;
#endif
	if (!c->budget_events)
		c->budget_events = 20000000;
	if (!c->budget_ns)
		c->budget_ns = 3600ull * 1000000000;
	if (!c->stack_bytes)
		c->stack_bytes = stack;
}

static int engine_check_config(const struct sim_config *c)
{
	if (c->stack_bytes && c->stack_bytes < 16384) {
		fprintf(stderr, "engine: stack_bytes is %zu; expected at least 16384\n",
			c->stack_bytes);
		return EINVAL;
	}
	if (c->foreign && c->engine != SIM_ENGINE_THREADS) {
		fprintf(stderr, "engine: a foreign program runs in engine threads only\n");
		return EINVAL;
	}
	if (c->engine == SIM_ENGINE_THREADS && (c->races || c->memory_order == SIM_MEMORY_ON)) {
		fprintf(stderr,
			"engine: races and memory_order need engine sim, the engine is threads\n");
		return EINVAL;
	}
	if (c->engine == SIM_ENGINE_THREADS && (c->moment.task || c->task_log)) {
		fprintf(stderr,
			"engine: moment and task_log need engine sim, the engine is threads\n");
		return EINVAL;
	}
	if (c->choices_in && c->choice_bytes) {
		fprintf(stderr,
			"engine: choices_in and choice_bytes are both set; expected at most one\n");
		return EINVAL;
	}
	if (c->engine == SIM_ENGINE_THREADS &&
	    (c->choices_in || c->choices_out || c->choice_bytes)) {
		fprintf(stderr, "engine: choices are recorded and replayed by engine sim only\n");
		return EINVAL;
	}
	return 0;
}

static void engine_mode_start(void)
{
	sim_mode.faults = eng.any_faults;
	sim_mode.plain = !engine_in_sim() && !eng.any_faults && !eng.config.trace_path;
	__atomic_store_n(&sim_mode.calm, sim_mode.plain, __ATOMIC_RELAXED);
	__atomic_store_n(&sim_mode.posts, engine_in_sim(), __ATOMIC_RELAXED);
	__atomic_store_n(&sim_mode.missed, engine_in_sim(), __ATOMIC_RELAXED);
}

static void engine_mode_stop(void)
{
	sim_mode.plain = sim_mode.faults = false;
	engine_mode_end_calm();
}

static void engine_run_foreign(void)
{
	eng.phase = ENGINE_RUNNING;
	eng.start_ns = sim_now_ns();
	fault_run();
}

int sim_start(const struct sim_config *config)
{
	static const struct sim_task_attr main_attr = {.name = "main",
						       .kind = SIM_TASK_HOST,
						       .rank = -1,
						       .device = -1,
						       .kernel = -1,
						       .block = -1,
						       .warp = -1,
						       .lane = -1};
	int rc = engine_check_config(config);

	ASSERT(eng.phase == ENGINE_OFF);
	if (rc)
		return rc;
	eng = (struct engine){.kind = config->engine,
			      .sched = config->engine == SIM_ENGINE_SIM ? &sched_sim
									: &sched_threads,
			      .reports = &report_files,
			      .config = *config,
			      .seed = config->seed,
			      .resolve = eng.resolve, /* both set once, at load */
			      .home = eng.home};
	eng.thread = pthread_self();
	eng.main_proc = (struct os_proc){.name = "main", .pid = getpid()};
	eng.event_self.self = (struct os_self){
		.id = UINT32_MAX, .proc = &eng.main_proc, .name = "events", .rank = -1, .step = -1};
	engine_defaults();
	output_start();
	rc = choice_start();
	if (rc)
		goto err_choices;
	strategy_start();
	buggify_start();
	probe_start();
	watch_start();
	moment_start();
	waits_start();
	rc = trace_start();
	if (rc)
		goto err_strategy;
	rc = fault_start();
	if (rc)
		goto err_trace;
	rc = mem_start();
	if (rc) {
		fprintf(stderr, "engine: no memory for the memory model and --races: %s\n",
			strerror(rc));
		goto err_fault;
	}
	eng.main_task = task_new(&main_attr, NULL, NULL);
	ASSERT(eng.main_task);
	eng.main_task->pub.self.proc = &eng.main_proc;
	eng.phase = ENGINE_READY;
	sim_gdb_seed = eng.seed;
	sim_gdb_runs++;
	rc = eng.sched->start();
	if (rc)
		goto err_main;
	if (!config->foreign)
		crash_install();
	os_install(eng.sched->os, NULL);
	engine_mode_start();
	if (config->foreign)
		engine_run_foreign();
	return 0;

err_main:
	eng.phase = ENGINE_OFF;
	free(eng.main_task);
	mem_stop();
err_fault:
	fault_stop();
err_trace:
	trace_stop();
err_strategy:
	strategy_stop();
err_choices:
	choice_stop();
	return rc;
}

static void engine_begin(void)
{
	ASSERT(eng.phase == ENGINE_READY);
	ASSERT(pthread_equal(eng.thread, pthread_self()));
	eng.phase = ENGINE_RUNNING;
	eng.start_ns = sim_now_ns();
}

/* Reports the canary of a run that ended before the canary's step. */
static void engine_late_canary(void)
{
	engine_report(SIM_WRONG_RESULT, "canary", "a failure planted after the end of the run");
	eng.verdict = SIM_WRONG_RESULT;
}

static enum sim_verdict engine_over(void)
{
	if (eng.config.canary_step && engine_in_sim() && eng.verdict == SIM_PASS)
		engine_late_canary();
	if (eng.verdict == SIM_PASS)
		engine_misuse_awaited();
	ASSERT(eng.phase == ENGINE_RUNNING);
	eng.phase = ENGINE_OVER;
	report_fail_choices();
	if (eng.config.choices_out && engine_in_sim())
		choice_write(eng.config.choices_out);
	/* a noted failure that no run may have */
	if (eng.verdict == SIM_PASS && eng.failed &&
	    (eng.failure.verdict == SIM_WRONG_RESULT || eng.failure.verdict == SIM_MISUSE))
		eng.verdict = eng.failure.verdict;
	return eng.verdict;
}

enum sim_verdict sim_run(void (*main_fn)(void *arg), void *arg)
{
	engine_begin();
	eng.main_task->fn = main_fn;
	eng.main_task->arg = arg;
	fault_run();
	eng.sched->run(main_fn, arg);
	return engine_over();
}

/* ---- guests --------------------------------------------------------------------------------- */

static void engine_guest_over(void)
{
	enum sim_verdict verdict = engine_over();

	eng.guest_ended(verdict);
	abort(); /* it must not return */
}

void sim_join(void (*ended)(enum sim_verdict verdict))
{
	ASSERT(ended);
	engine_begin();
	eng.guest_ended = ended;
	eng.guest_over = engine_guest_over;
	eng.guest = true;
	fault_run();
	eng.sched->join();
}

bool sim_part(uint64_t limit_ns, enum sim_verdict *verdict)
{
	ASSERT(sim_joined());
	bool all = eng.sched->part(limit_ns);

	*verdict = all ? engine_over() : eng.verdict;
	return all;
}

bool sim_joined(void)
{
	return eng.phase == ENGINE_RUNNING && eng.guest &&
	       pthread_equal(eng.thread, pthread_self()) &&
	       (!engine_in_sim() || eng.current == eng.main_task);
}

/* ---- the end -------------------------------------------------------------------------------- */

void sim_stop(void)
{
	ASSERT(eng.phase == ENGINE_READY || eng.phase == ENGINE_OVER);
	eng.sched->stop(eng.phase == ENGINE_OVER);
	mem_stop();
	tasks_discard();
	events_stop();
	waits_stop();
	event_counts_stop();
	label_stop();
	fault_stop();
	trace_stop();
	strategy_stop();
	choice_stop();
	crash_restore();
	engine_forget_failure_hooks();
	os_install(&os_posix_ops, NULL);
	engine_mode_stop();
	eng.phase = ENGINE_OFF;
}

void sim_leave(void)
{
	trace_flush();
}

void sim_forget(void)
{
	thread_part_forget_all();
	threads_all = NULL;
	pthread_mutex_init(&threads_lock, NULL);
	os_install(&os_posix_ops, NULL);
	engine_mode_stop();
	eng = (struct engine){.sched = &sched_none,
			      .reports = &report_none,
			      .resolve = eng.resolve,
			      .home = eng.home};
}
