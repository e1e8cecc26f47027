/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/lab/run/runner.h"

#include <cuda_runtime_api.h>
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "sim/lab/plugin/lab_plugins.h"
#include "sim/lab/run/runner_internal.h"
#include "sim/world/world.h"

void lab_config_default(struct lab_config *config)
{
	memset(config, 0, sizeof *config);
	config->machine = "h100-8nic";
	config->hosts = 1;
#ifdef DOPPEL_FAKECUDA
	config->ranks_per_proc = 1;
#else
	config->ranks_per_proc =
		LAB_ALL_RANKS; /* CUDA IPC cannot be opened where it was exported */
#endif
	config->strict_device_view = true;
	config->collective = &lab_collectives[0];
	config->bytes_min = 8;
	config->bytes_max = 1 << 20;
	config->factor = 2;
	config->types[0] = ncclFloat32;
	config->type_count = 1;
	config->ops[0] = ncclSum;
	config->op_count = 1;
	config->average = LAB_MEAN;
	config->iterations = 1;
	config->warmup = 0;
	config->check = true;
	config->in_place = config->out_of_place = true;
	config->sim.seed = 1;
}

/* The variable that every other process has, beside the world's. */
static int lab_proc_env(const char *assignment, struct os_proc *proc)
{
	char name[64];
	const char *equals = assignment ? strchr(assignment, '=') : NULL;

	if (!equals)
		return 0;
	snprintf(name, sizeof name, "%.*s", (int)(equals - assignment), assignment);
	return world_proc_setenv(proc, name, equals + 1);
}

/* A process begins: one of the world's, or, spread, this very one. */
static int lab_proc_begin(struct lab_run *run, uint32_t host, uint32_t number,
			  struct os_proc **proc, struct lab_team **team)
{
	char name[48];
	int rc = 0;

	if (run->config->drive == LAB_DRIVE_PROCESS) {
		ASSERT(run->team_count < (uint32_t)run->count); /* a team has a rank */
		*team = lab_team_make();
		if (!*team)
			return ENOMEM;
		run->team[run->team_count++] = *team;
	}
	if (run->config->spread) {
		*proc = sim_main_proc();
		return 0;
	}
	ASSERT(run->proc_count < (uint32_t)run->count); /* a process has a rank */
	snprintf(name, sizeof name, "host%u/p%u", host, number);
	rc = world_proc_create(host, name, proc);
	if (!rc)
		rc = lab_plugins_env(run->config, *proc);
	if (rc)
		return rc;
	run->proc[run->proc_count++] = *proc;
	return run->proc_count % 2 ? 0 : lab_proc_env(run->config->env_odd, *proc);
}

static void lab_place_rank(struct lab_run *run, int32_t r, struct os_proc *proc,
			   struct lab_team *team)
{
	const struct lab_config *c = run->config;
	uint32_t local = run->slot[r].local;

	ASSERT(!run->rank[r].run); /* each rank has one slot */
	run->rank[r] = (struct lab_rank){
		.run = run,
		.rank = c->spread ? c->spread->first + r : r,
		.device = lab_device(c, local),
		.proc = proc,
	};
	if (team)
		lab_team_join(team, &run->rank[r]);
}

static int32_t lab_rank_at(const struct lab_run *run, uint32_t host, uint32_t local)
{
	int32_t r = 0;

	while (run->slot[r].host != host || run->slot[r].local != local) {
		r++;
		ASSERT(r < run->count); /* each slot has a rank */
	}
	return r;
}

/* Host after host, whatever ranks it has. */
static int lab_place_ranks(struct lab_run *run)
{
	const struct lab_config *c = run->config;
	struct os_proc *proc = NULL;
	struct lab_team *team = NULL;

	for (uint32_t h = 0; h < c->hosts; h++)
		for (uint32_t l = 0; l < lab_host_ranks(c, h, run->gpus); l++) {
			int rc = 0;

			if (c->spread ? l == 0 : l % c->ranks_per_proc == 0)
				rc = lab_proc_begin(run, h, l / c->ranks_per_proc, &proc, &team);
			if (rc)
				return rc;
			lab_place_rank(run, lab_rank_at(run, h, l), proc, team);
		}
	return 0;
}

static int lab_spawn_ranks(struct lab_run *run)
{
	char name[48];
	int rc = lab_place_ranks(run);

	for (int32_t r = 0; r < run->count && !rc; r++) {
		struct lab_rank *me = &run->rank[r];
		struct os_thread_attr attr = {.name = name, .rank = me->rank};

		snprintf(name, sizeof name, "rank%d main", me->rank);
		rc = world_thread_start(me->proc, &me->thread, &attr,
					run->config->life ? lab_life_main : lab_rank_main, me);
	}
	return rc;
}

static void lab_limit_step(void *object, uint64_t arg)
{
	const struct lab_run *run = object;
	(void)arg;
	sim_fail(SIM_NO_PROGRESS, "not finished within %u s", run->config->spread->limit_s);
}

static void lab_limit_start(struct lab_run *run)
{
	const struct lab_spread *spread = run->config->spread;
	if (!spread || !spread->limit_s)
		return;
	const struct sim_event_attr attr = {.name = "lab.limit",
					    .kind = SIM_EVENT_TIMER,
					    .delay_ns = spread->limit_s * 1000000000ull,
					    .background = true};
	sim_event_post(&attr, lab_limit_step, run, 0, NULL);
}

/* The stack keeps the memory of a communicator that no task can be started to release. Its plugins
 * stay open with it. */
static bool lab_tasks_failed(void)
{
	struct sim_fault_stat s;
	bool failed = false;

	for (uint32_t i = 0; sim_fault_stat(i, &s); i++)
		failed = failed || (s.fires && strcmp(s.site, "os.thread") == 0);
	return failed;
}

/* A communicator that the stack keeps has tasks, which end with their process. */
static void lab_proc_end(const struct lab_run *run, struct os_proc *proc)
{
	bool kept = lab_tasks_failed() && !run->config->spread;

	if (!kept || sim_engine_kind() != SIM_ENGINE_SIM) {
		world_proc_exit(proc);
		return;
	}
	world_proc_finish(proc);
	(void)world_proc_leave(proc);
}

static void lab_main(void *arg)
{
	struct lab_run *run = arg;
	lab_limit_start(run);
	lab_progress_start(run);
	lab_watch_deaths(run);
	lab_survive_start(run);
	run->rc = lab_spawn_ranks(run);
	if (run->rc) {
		fprintf(stderr, "doppel: cannot start the ranks: %s\n", strerror(run->rc));
		shared_store_u32(&run->failed, 1, SHARED_RELEASE);
	}
	for (int32_t r = 0; r < run->count; r++)
		if (run->rank[r].thread)
			os_thread_join(run->rank[r].thread);
	if (sim_engine_kind() == SIM_ENGINE_THREADS)
		sim_events_cancel_object(run); /* its timers */
	if (!run->rc)
		lab_survive_judge(run);
	run->virtual_ns = os_now_ns();
	run->ends = true;
	for (uint32_t i = 0; i < run->proc_count; i++)
		if (world_proc_alive(run->proc[i]))
			lab_proc_end(run, run->proc[i]);
}

static void lab_result_fill(struct lab_run *run, struct lab_result *result)
{
	result->wrong = run->wrong;
	result->guard_wrong = run->guard_wrong;
	result->operations = run->operations;
	result->error = run->error;
	result->error_rank = run->error_rank;
	result->killed = run->killed;
	result->scenes = run->scenes;
	result->virtual_ns = run->virtual_ns;
	result->busbw_average = run->busbw_rows ? run->busbw_sum / run->busbw_rows : 0;
	snprintf(result->explanation, sizeof result->explanation, "%s", run->explanation);
	if (result->verdict == SIM_PASS && (run->wrong || run->guard_wrong))
		result->verdict = SIM_WRONG_RESULT;
	if (result->verdict == SIM_PASS)
		result->verdict = run->judged;
	result->recovered = run->config->recover && run->second_id_ready.v_ == 1;
}

static void lab_result_report(struct lab_run *run, const struct lab_result *result)
{
	const struct lab_config *c = run->config;

	if (c->on_result && !run->reported)
		c->on_result(result, c->on_row_arg);
	run->reported = true;
}

static struct world_config lab_world(const struct lab_config *c, const struct lab_machines *m)
{
	bool shared = c->spread && c->spread->share.processes;

	return (struct world_config){
		.hosts = shared ? c->spread->hosts : c->hosts,
		.share = shared ? c->spread->share : (struct world_share){0},
		.machine = c->machine,
		.machines = m->of_host,
		.env = c->env,
		.strict_device_view = c->strict_device_view,
		.uncompared = c->uncompared,
		.warp_width = c->warp_width,
		.gpu_sms = c->gpu_sms,
		.real = c->spread != NULL,
	};
}

/* Memory that the process keeps from world to world, and the smallest block that it takes from the
 * kernel by itself: what one world gives back the next one takes. With
 * 4,096 ranks, the ranks of a communicator together have tables of 4 GiB while they gather them. */
enum { LAB_KEPT_BYTES = 256 << 20, LAB_APART_BYTES = 1 << 20 };

static int lab_run_world(struct lab_run *run, struct lab_result *result)
{
	mallopt(M_TRIM_THRESHOLD, LAB_KEPT_BYTES);
	mallopt(M_MMAP_THRESHOLD, LAB_APART_BYTES);
	const struct lab_config *c = run->config;
	struct world_config world = lab_world(c, &run->machines);
	int rc = world_create(&world);
	if (rc)
		return rc;
	run->gpus = lab_world_gpus();
	rc = run->gpus ? lab_check_config(c, run->gpus) : ENOMEM;
	if (rc)
		goto out;
	run->count = (int32_t)lab_ranks(c, run->gpus);
	run->slot = lab_layout(c, run->gpus);
	run->nranks = c->spread ? c->spread->ranks : run->count;
	ASSERT(run->count > 0 && run->count <= run->nranks); /* lab_check_config */
	run->rank = calloc((size_t)run->count, sizeof *run->rank);
	run->proc = calloc((size_t)run->count, sizeof *run->proc);
	run->team = calloc((size_t)run->count, sizeof(struct lab_team *));
	bool whole = lab_expect_is_whole(c);
	run->expect = whole ? malloc(MAX_OF(c->bytes_max, 1ull)) : NULL;
	if (!run->slot || !run->rank || !run->proc || !run->team || (whole && !run->expect)) {
		rc = ENOMEM;
		fprintf(stderr,
			"doppel: no memory for %d ranks and a result of %" PRIu64 " bytes: %s\n",
			run->count, c->bytes_max, strerror(rc));
		goto out;
	}
	result->nranks = run->nranks;
	if (c->table)
		lab_table_header(run);
	lab_plugins_begin(run);
	result->verdict = sim_run(lab_main, run);
	result->plugins = lab_plugins_end(run, result->verdict == SIM_PASS && !run->killed &&
						       !lab_tasks_failed());
	lab_watch_deaths(NULL);
	result->fired = sim_faults_fired();
	result->matched = sim_faults_matched();
	result->hash = sim_hash();
	result->switches = sim_switches();
	result->steps = sim_steps();
	snprintf(result->strategy, sizeof result->strategy, "%s", sim_strategy_name());
	lab_result_fill(run, result);
	if (result->verdict != SIM_PASS && sim_failure() && c->on_failed) {
		result->failed = true;
		result->failure = *sim_failure();
		lab_result_report(run, result);
		c->on_failed(result, c->on_failed_arg);
	}
	rc = run->rc;
out:
	result->leaks = world_destroy();
	return rc;
}

enum sim_verdict lab_outcome(const struct lab_config *config, const struct lab_result *result)
{
	bool trouble = result->error != ncclSuccess || result->killed;

	if (result->verdict == SIM_PASS && trouble && !config->errors_allowed)
		return SIM_ERROR;
	return result->verdict;
}

/* After an error a root waits for ranks that never come, and ends then. Under `sim` the run takes
 * as long. */
static bool lab_ends_late(const struct lab_run *run)
{
	return run->error != ncclSuccess && run->config->sim.engine == SIM_ENGINE_THREADS;
}

int lab_run(const struct lab_config *config, struct lab_result *result)
{
	struct lab_run run = {.config = config, .error = ncclSuccess, .error_rank = -1};
	memset(result, 0, sizeof *result);
	result->seed = config->sim.seed;
	result->error_rank = -1;
	struct sim_config sim = config->sim;
	if (config->progress && sim.engine == SIM_ENGINE_SIM) {
		sim.tick = lab_progress_tick;
		sim.tick_arg = &run;
	}
#ifdef DOPPEL_FAKEVERBS
	sim.silent_objects = config->spread != NULL;
#else
	sim.silent_objects = true;
#endif
#ifdef DOPPEL_CHECKED
	sim.races |= sim.engine == SIM_ENGINE_SIM;
#endif
	if (!lab_machines_make(&run.machines, config)) {
		fprintf(stderr, "doppel: no memory for the machines of %u hosts\n", config->hosts);
		return ENOMEM;
	}
	int rc = sim_start(&sim);
	if (rc) {
		lab_machines_free(&run.machines);
		return rc;
	}
	rc = lab_run_world(&run, result);
	/* a run that ended early necessarily leaves things open */
	if (!rc && result->verdict == SIM_PASS && result->leaks && !lab_ends_late(&run) &&
	    !lab_tasks_failed()) {
		result->verdict = SIM_LEAK;
		sim_note_failure(SIM_LEAK, "leak", -1, "%" PRIu64 " things are left",
				 result->leaks);
	}
	const struct sim_failure *failure = sim_failure() ? sim_failure() : sim_tolerated();
	result->failed = failure != NULL;
	if (failure)
		result->failure = *failure;
	sim_stop();
	if (!rc && result->verdict == SIM_PASS && sim_output_lost())
		result->verdict = SIM_USAGE;
	if (!rc)
		lab_result_report(&run, result);
	free(run.expect);
	free(run.iteration_us);
	if (run.later)
		fclose(run.later);
	free(run.later_text);
	for (int32_t r = 0; run.rank && r < run.count; r++)
		free(run.rank[r].staging); /* of those that died */
	for (uint32_t i = 0; i < run.team_count; i++)
		free(run.team[i]);
	lab_machines_free(&run.machines);
	free(run.gpus);
	free(run.slot);
	free(run.rank);
	free(run.proc);
	free(run.team);
	return rc;
}

static int lab_check_made(const struct lab_config *config)
{
	uint32_t *gpus = lab_world_gpus();
	int rc = gpus ? lab_check_config(config, gpus) : ENOMEM;

	free(gpus);
	return rc;
}

int lab_check(const struct lab_config *config)
{
	struct lab_machines machines;

	if (!lab_machines_make(&machines, config))
		return ENOMEM;
	struct world_config world = lab_world(config, &machines);
	int rc = sim_start(&config->sim);

	if (rc)
		goto out;
	rc = world_create(&world);
	if (!rc) {
		rc = lab_check_made(config);
		world_destroy();
	}
	sim_stop();
out:
	lab_machines_free(&machines);
	return rc;
}
