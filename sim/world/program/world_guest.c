/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/world/program/world_guest.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/os/os_ops.h"
#include "sim/engine/faults/fault.h"
#include "sim/world/params.h"
#include "sim/world/program/program.h"
#include "sim/world/program/ras_ask.h"
#include "sim/world/world.h"

#define GUEST_END_NS     1000000000ull
#define GUEST_ENV_MAX    256
#define GUEST_PLAN_BYTES 65536

void __gcov_dump(void) __attribute__((weak));

/* State of the guest. A program has one guest, which starts once and stays until the program
 * ends. */
static struct guest {
	pthread_mutex_t lock;
	bool tried, on, forked;
	bool starting; /* under the lock; visible to nested calls of the starting thread */
	int status;    /* exit status of the program */
	bool over;     /* the world is gone, or is about to be */
	pthread_t end; /* thread that ends it */
	uint64_t seed;
	bool plan;       /* true if a fault plan is set */
	char *plan_text; /* NULL: no plan, or a random one */
	const char *env[GUEST_ENV_MAX + 1];
} guest = {.lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP};

/* ---- the environment ------------------------------------------------------------------------ */

static const char *guest_text(const char *name)
{
	const char *text = os_real_ops.env(name);

	return text && *text ? text : NULL;
}

static int guest_refuse(const char *name, const char *text, const char *expected)
{
	fprintf(stderr, "doppel: %s is '%s', expected %s\n", name, text, expected);
	return EINVAL;
}

static int guest_engine(enum sim_engine *engine)
{
	const char *text = guest_text("DOPPEL_ENGINE");

	*engine = text && strcmp(text, "threads") == 0 ? SIM_ENGINE_THREADS : SIM_ENGINE_SIM;
	if (!text || strcmp(text, "threads") == 0 || strcmp(text, "sim") == 0)
		return 0;
	return guest_refuse("DOPPEL_ENGINE", text, "sim or threads");
}

static int guest_seed(uint64_t *seed)
{
	const char *text = guest_text("DOPPEL_SEED");
	char expected[PARAM_EXPECTED_BYTES];

	*seed = 1;
	if (!text)
		return 0;
	if (!param_allows(PARAM_DOPPEL_SEED, text, expected, sizeof expected))
		return guest_refuse("DOPPEL_SEED", text, expected);
	/* decimal or 0x, as in the parameter table: no octal */
	*seed = strtoull(text, NULL, text[1] == 'x' || text[1] == 'X' ? 16 : 10);
	return 0;
}

/* Reads the plan's text into guest.plan_text. */
static int guest_plan_read(const char *path)
{
	FILE *f = fopen(path, "r");
	char *text = calloc(1, GUEST_PLAN_BYTES);
	size_t n = f && text ? fread(text, 1, GUEST_PLAN_BYTES, f) : 0;
	int rc = !f ? errno : !text ? ENOMEM : ferror(f) ? EIO : 0;

	if (f)
		fclose(f);
	if (rc == 0 && (n == GUEST_PLAN_BYTES || strlen(text) != n))
		rc = EFBIG;
	if (rc) {
		fprintf(stderr, "doppel: DOPPEL_FAULTS is '%s', expected a fault plan's file: %s\n",
			path, rc == EFBIG ? "a plan is text of less than 64 KiB" : strerror(rc));
		free(text);
		return rc;
	}
	free(guest.plan_text);
	guest.plan_text = text;
	return 0;
}

static int guest_plan(struct sim_config *c)
{
	const char *path = guest_text("DOPPEL_FAULTS");
	int rc = 0;

	guest.plan = path != NULL;
	c->fault_random = path && strcmp(path, "random") == 0;
	if (!path || c->fault_random)
		return 0;
	rc = guest_plan_read(path);
	c->fault_plan = guest.plan_text;
	c->fault_plan_name = path;
	return rc;
}

/* Collects the program's NCCL_* and DOPPEL_* variables for the world's one process. */
static int guest_env(void)
{
	size_t n = 0;

	for (char *const *e = environ; *e; e++) {
		if (strncmp(*e, "NCCL_", 5) && strncmp(*e, "DOPPEL_", 7))
			continue;
		if (n == GUEST_ENV_MAX) {
			fprintf(stderr,
				"doppel: the environment has more than %d variables "
				"NCCL_* and DOPPEL_*\n",
				GUEST_ENV_MAX);
			return E2BIG;
		}
		guest.env[n++] = *e;
	}
	guest.env[n] = NULL;
	return 0;
}

/* ---- the start ------------------------------------------------------------------------------- */

/* Reads the place of the program among the real processes of a job. */
static int guest_share(struct world_share *share, uint32_t *hosts)
{
	const char *text = guest_text("DOPPEL_JOB");
	int end = 0;

	if (!text)
		return 0;
	if (sscanf(text, "%u/%u/%u/%u%n", &share->process, &share->processes, &share->host, hosts,
		   &end) == 4 &&
	    !text[end] && share->processes)
		return 0;
	return guest_refuse("DOPPEL_JOB", text, "PROCESS/PROCESSES/HOST/HOSTS");
}

static int guest_world(uint32_t hosts)
{
	struct world_config c = {.env = guest.env, .real_conf = true};
	int rc = guest_share(&c.share, &hosts);

	c.hosts = hosts;
	c.real = c.share.processes > 0;
	c.strict_device_view = !c.real; /* HCAs of other processes access the program's mapping */
	return rc ? rc : world_create(&c);
}

static int guest_start(uint32_t hosts, bool programs)
{
	struct sim_config c = {.trace_path = guest_text("DOPPEL_TRACE"), .programs = programs};
	int rc = guest_engine(&c.engine);

	c.silent_objects = guest_text("DOPPEL_JOB") != NULL; /* real sockets */
	if (!rc)
		rc = guest_seed(&guest.seed);
	c.seed = guest.seed;
	if (!rc)
		rc = guest_plan(&c);
	if (!rc)
		rc = guest_env();
	if (!rc)
		rc = sim_start(&c);
	if (rc)
		return rc;
	rc = guest_world(hosts);
	if (rc)
		sim_stop();
	return rc;
}

int world_guest_start(uint32_t hosts)
{
	guest.tried = true; /* the programs' libraries must not start a world of their own */
	return guest_start(hosts, true);
}

bool world_guest_check(void)
{
	if (guest_start(1, false))
		return false;
	world_destroy();
	sim_stop();
	return !sim_output_lost(); /* whether the trace could be written */
}

/* ---- the end -------------------------------------------------------------------------------- */

void world_guest_quit(int code)
{
	if (sim_running())
		sim_leave();
	if (code > SIM_BY_SIGNAL)
		sim_exit(code);
	fflush(NULL);
	if (__gcov_dump)
		__gcov_dump();
	_exit(code);
}

/* Prints the lines that `doppel run` prints at its end. Uses stderr: stdout is the program's. */
void world_guest_report(void)
{
	bool sim = sim_engine_kind() == SIM_ENGINE_SIM;

	fflush(stdout);
	if (guest.plan)
		sim_fault_print_plan(stderr);
	fprintf(stderr, "# seed %" PRIu64 " strategy %s engine %s\n", guest.seed,
		sim_strategy_name(), sim ? "sim" : "threads");
	if (sim)
		fprintf(stderr, "# trace hash 0x%016" PRIx64 "\n", sim_hash());
}

/* Ends the program when the run ends before it. */
static void guest_ended(enum sim_verdict verdict)
{
	if (verdict == SIM_PASS) {
		fprintf(stderr, "doppel: the fault plan killed the program's process\n");
		verdict = SIM_ERROR;
	}
	world_guest_report();
	world_guest_quit((int)verdict);
}

enum sim_verdict world_guest_stop(enum sim_verdict verdict)
{
	world_guest_report();
	sim_stop();
	if (verdict == SIM_PASS && (sim_output_lost() || ferror(stderr)))
		verdict = SIM_USAGE;
	return verdict;
}

/* Reports what the engine has not reported: failures that were only recorded, and leaks. */
enum sim_verdict world_guest_judge(enum sim_verdict verdict)
{
	const char *text = guest_text("DOPPEL_LEAKS");
	bool fails = text && strcmp(text, "0");

	if (verdict == SIM_PASS) /* for a guest; processes of a job have already left */
		(void)world_proc_leave(sim_main_proc());
	uint64_t leaks = world_destroy();

	if (verdict == SIM_PASS && leaks && !fails)
		fprintf(stderr,
			"doppel: things left at the exit: %" PRIu64 " (no failure; with "
			"'doppel exec --leaks error' they are one)\n",
			leaks);
	if (verdict == SIM_PASS && leaks && fails) {
		verdict = SIM_LEAK;
		sim_note_failure(verdict, "leak", -1, "%" PRIu64 " things are left", leaks);
	}
	if (verdict != SIM_PASS && sim_failure())
		fprintf(stderr, "FAIL %s: %s\n", sim_failure()->kind, sim_failure()->message);
	return verdict;
}

static void guest_exits(int status, void *arg)
{
	(void)arg;
	guest.status = status;
}

/* Reports a program that is linked with the doubles and has not called them. */
static void guest_report_idle(void)
{
	static bool reported;

	if (reported || guest.tried || guest.forked || !guest_text("DOPPEL_EXEC"))
		return;
	reported = true;
	fprintf(stderr,
		"doppel: the program made no CUDA or NCCL call: nothing ran on the doubles\n");
}

void world_guest_stop_late(void)
{
	if (!__atomic_load_n(&guest.over, __ATOMIC_ACQUIRE) ||
	    pthread_equal(guest.end, pthread_self()))
		return;
	for (;;)
		pause();
}

void world_guest_end(void)
{
	enum sim_verdict verdict;

	if (!guest.on) {
		guest_report_idle();
		return;
	}
	guest.on = false;
	if (guest.status || !sim_joined()) {
		if (!guest.status)
			fprintf(stderr,
				"doppel: the program ends in another thread than that of its "
				"first call: its leaks are not checked\n");
		world_guest_report();
		/* tasks still run and need the libraries that exit would unload */
		world_guest_quit(guest.status);
	}
	world_ras_ask_end();
	guest.end = pthread_self();
	__atomic_store_n(&guest.over, true, __ATOMIC_RELEASE);
	if (!sim_part(GUEST_END_NS, &verdict)) {
		fprintf(stderr,
			"doppel: tasks still run at the end of the program: its leaks are not "
			"checked\n");
		world_guest_report();
		world_guest_quit((int)verdict);
	}
	verdict = world_guest_stop(world_guest_judge(verdict));
	if (verdict != SIM_PASS)
		world_guest_quit((int)verdict);
}

static void guest_forked(void)
{
	if (!guest.on)
		return;
	guest.on = guest.over = false;
	guest.forked = true;
	world_forget();
	sim_forget();
}

/* Starts the guest. The caller holds guest.lock. */
static void guest_first_call(void)
{
	guest.tried = true;
	if (guest_start(1, false))
		world_guest_quit(SIM_USAGE);
	world_env_warn_unknown(guest.env);
	on_exit(guest_exits, NULL);
	pthread_atfork(NULL, NULL, guest_forked);
	guest.on = true;
	sim_join(guest_ended);
	if (world_ras_ask_start())
		world_guest_quit(SIM_USAGE);
	program_time_continue();
	if (sim_engine_kind() == SIM_ENGINE_SIM)
		program_install();
}

bool world_guest_runs(void)
{
	return guest.on && sim_joined();
}

bool world_guest_begin(void)
{
	if (!guest_text("DOPPEL_MACHINE"))
		return world_config() != NULL;
	world_guest_stop_late();
	pthread_mutex_lock(&guest.lock);
	if (guest.forked) {
		fprintf(stderr,
			"doppel: a child made by fork has none of its parent's GPUs; "
			"expected fork before the first CUDA or NCCL call, or exec after it\n");
		world_guest_quit(SIM_USAGE);
	}
	/* a program of Doppel's own has a world or is about to create one */
	if (!guest.tried && !world_config()) {
		guest.starting = true;
		guest_first_call();
		guest.starting = false;
	}
	bool settled = !guest.starting;
	pthread_mutex_unlock(&guest.lock);
	return settled;
}
