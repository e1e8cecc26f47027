/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starts Doppel under a program that knows nothing of it. At the program's first call the engine
 * starts in real time, with one world of DROPIN_HOSTS hosts of DOPPEL_MACHINE. The program runs on
 * one of these hosts. Its threads are adopted when they first call. The program may end at any time
 * and in any way. At its exit the engine prints the plan's faults that never fired and, with
 * DOPPEL_LEAKS, the objects that the program did not destroy.
 *
 * doppel verbs-run sets the environment: DOPPEL_MACHINE, DOPPEL_HOST, DOPPEL_FABRIC, DOPPEL_FAULTS
 * (a file), DOPPEL_TRACE (a file), DOPPEL_SEED, DOPPEL_LEAKS.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/fakeverbs/fabric/counters_sys.h"
#include "dropin/ibverbs/dropin.h"
#include "backends/fakeverbs/fabric/fabric.h"
#include "backends/fakeverbs/entry/entry.h"
#include "backends/fakeverbs/context/process.h"

static pthread_mutex_t dropin_lock = PTHREAD_MUTEX_INITIALIZER;
/* Threads read it without the lock, because world_config() is already set while the world is being
 * created. */
static enum dropin_state { DROPIN_NONE, DROPIN_READY, DROPIN_FAILED } dropin_state;
static char *dropin_plan;

/* ---- configuration -------------------------------------------------------------------------- */

static bool dropin_number(const char *name, uint64_t usual, uint64_t max, uint64_t *out)
{
	const char *text = getenv(name);
	char *end;

	*out = usual;
	if (!text || !*text)
		return true;
	errno = 0;
	*out = strtoull(text, &end, text[1] == 'x' || text[1] == 'X' ? 16 : 10);
	if (!errno && !*end && *text != '-' && *out <= max)
		return true;
	fprintf(stderr, "doppel: %s is '%s', expected 0 to %llu\n", name, text,
		(unsigned long long)max);
	return false;
}

static const char *dropin_text(const char *name)
{
	const char *text = getenv(name);

	return text && *text ? text : NULL;
}

/* Returns the whole file as a NUL-terminated string that the caller frees; NULL on failure, which
 * it logs. */
static char *dropin_read(const char *path)
{
	FILE *f = fopen(path, "r");
	char *text = NULL;
	size_t room = 0;
	ssize_t n = f ? getdelim(&text, &room, '\0', f) : -1;

	if (n < 0 && (!f || ferror(f)))
		fprintf(stderr, "doppel: cannot read the fault plan %s: %s\n", path,
			strerror(errno));
	else if (n < 0)
		text = calloc(1, 1); /* an empty plan is valid */
	if (f)
		fclose(f);
	return text;
}

/* ---- exit ----------------------------------------------------------------------------------- */

static void dropin_leaks_of(struct hca_slab *s, const char *kind)
{
	uint32_t at = 0;
	uint64_t n = 0;

	while (hca_slab_next(s, hca_proc_id(os_proc()), &at))
		n++;
	if (n)
		fprintf(stderr, "leak: %s %llu\n", kind, (unsigned long long)n);
}

static void dropin_leaks(void)
{
	struct hca_world *w = fakeverbs.world;

	if (!w)
		return;
	dropin_leaks_of(&w->qp, "queue pair");
	dropin_leaks_of(&w->cq, "completion queue");
	dropin_leaks_of(&w->mr, "memory region");
	dropin_leaks_of(&w->pd, "protection domain");
	dropin_leaks_of(&w->channel, "completion channel");
	dropin_leaks_of(&w->context, "verbs context");
}

/* Runs at the program's exit. A lost trace changes only a status of 0: the nested exit(), which
 * glibc permits, runs the remaining exit handlers. */
static void dropin_exit(int status, void *arg)
{
	(void)arg;
	if (!world_config())
		return;
	const char *leaks = dropin_text("DOPPEL_LEAKS");

	counters_show(true);
	sim_fault_print_unfired(stderr);
	if (leaks && strcmp(leaks, "0"))
		dropin_leaks();
	sim_leave();
	if (!status && sim_output_lost())
		exit(SIM_USAGE);
}

/* ---- start ---------------------------------------------------------------------------------- */

static int dropin_world(void)
{
	const struct world_config c = {.hosts = DROPIN_HOSTS,
				       .arena = fabric_join(),
				       .machine = dropin_text("DOPPEL_MACHINE")
							  ? dropin_text("DOPPEL_MACHINE")
							  : DROPIN_MACHINE};
	uint64_t host;

	if (!dropin_number("DOPPEL_HOST", 0, DROPIN_HOSTS - 1, &host))
		return EINVAL;
	if (!c.arena)
		return ENOMEM;
	int rc = world_create(&c);

	if (rc)
		return rc;
	sim_main_proc()->host = (uint32_t)host;
	return fabric_joined();
}

static int dropin_engine(void)
{
	struct sim_config c = {.engine = SIM_ENGINE_THREADS,
			       .foreign = true,
			       .trace_path = dropin_text("DOPPEL_TRACE"),
			       /* requests and completions; there are no warps */
			       .trace_detail = true,
			       .fault_plan_name = dropin_text("DOPPEL_FAULTS")};

	if (!dropin_number("DOPPEL_SEED", 1, UINT64_MAX, &c.seed))
		return EINVAL;
	if (c.fault_plan_name) {
		free(dropin_plan);
		dropin_plan = dropin_read(c.fault_plan_name);
		if (!dropin_plan)
			return EINVAL;
		c.fault_plan = dropin_plan;
	}
	return sim_start(&c);
}

/* Resets everything in the child of a fork. The parent's HCAs do not exist there; the child may
 * open its own. */
static void dropin_forked(void)
{
	pthread_mutex_init(&dropin_lock, NULL);
	dropin_state = DROPIN_NONE;
	if (!world_config())
		return;
	fabric_forget();
	hca_forget();
	world_forget();
	sim_forget();
}

/* Starts the engine and the world. The caller holds dropin_lock. */
static enum dropin_state dropin_begin(void)
{
	static bool once;

	if (world_config()) /* the program created a world itself */
		return DROPIN_READY;
	if (!once) {
		once = true;
		on_exit(dropin_exit, NULL);
		pthread_atfork(NULL, NULL, dropin_forked);
	}
	world_env_warn_unknown((const char *const *)environ);
	return world_env_check_real() || dropin_engine() || dropin_world() ? DROPIN_FAILED
									   : DROPIN_READY;
}

static int dropin_start(void)
{
	enum dropin_state state = __atomic_load_n(&dropin_state, __ATOMIC_ACQUIRE);
	sigset_t all, before;

	if (state == DROPIN_NONE) {
		/* signals of the program must not be delivered to Doppel's threads */
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &before);
		pthread_mutex_lock(&dropin_lock);
		state = dropin_state != DROPIN_NONE ? dropin_state : dropin_begin();
		__atomic_store_n(&dropin_state, state, __ATOMIC_RELEASE);
		pthread_mutex_unlock(&dropin_lock);
		pthread_sigmask(SIG_SETMASK, &before, NULL);
	}
	return state == DROPIN_READY ? 0 : ENOSYS;
}

__attribute__((constructor)) static void dropin_load(void)
{
	hca_on_first_call(dropin_start);
}
