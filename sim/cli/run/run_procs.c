/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * doppel run --procs: each process of a world of doubles is a real process. They share hosts, HCAs
 * and segments of memory through the world's arena, and open each other's GPU memory by IPC
 * (docs/sim/processes.md). Sockets, files and environment are those of the real processes. The
 * processes are started here, or by mpirun, torchrun or srun (job_place.h). With real GPUs or HCAs,
 * the processes that a launcher starts have those of their computer.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/os/os.h"
#include "sim/cli/run/job_place.h"
#include "sim/cli/run/launcher.h"

#if defined(DOPPEL_FAKECUDA) && defined(DOPPEL_FAKEVERBS)
enum { PROCS_DOUBLES = 1 };
#else
enum { PROCS_DOUBLES = 0 };
#endif

/* ---- shape ---------------------------------------------------------------------------------- */

/* Returns the ranks of a process. 0: they do not divide the ranks of a host, explained. */
static uint32_t procs_each(const struct lab_config *c, uint32_t per_host)
{
	uint32_t each = MIN_OF(c->ranks_per_proc, per_host);

	if (each && per_host % each == 0)
		return each;
	fprintf(stderr,
		"doppel: --procs: %u ranks per host in processes of %u: expected a divisor\n",
		per_host, each);
	return 0;
}

/* Returns the number of processes; 0: explained. */
static uint32_t procs_count(struct cli_options *o, uint32_t *each)
{
	const struct lab_config *c = &o->scenario.lab;
	uint32_t ranks;

	if (scenario_ranks(&o->scenario, &ranks))
		return 0;
	*each = procs_each(c, ranks / c->hosts);
	if (*each && ranks / *each <= CLI_MAX_PROCESSES)
		return ranks / *each;
	if (*each)
		fprintf(stderr, "doppel: --procs: %u processes, expected at most %d\n",
			ranks / *each, CLI_MAX_PROCESSES);
	return 0;
}

/* Doubles are on one computer, and the hosts of real GPUs are the launcher's. */
static bool procs_launched_here(const struct cli_options *o)
{
	const struct cli_place *p = &o->place;

	if (PROCS_DOUBLES && p->here < p->processes) {
		fprintf(stderr,
			"doppel: %s started %u of %u processes on this computer; doubles of "
			"several computers do not reach each other: expected all on one\n",
			p->by, p->here, p->processes);
		return false;
	}
	if (!PROCS_DOUBLES && cli_is_given(&o->given, OPTION_HOSTS)) {
		fprintf(stderr,
			"doppel: --hosts makes hosts of doubles; %s chooses the computers\n",
			p->by);
		return false;
	}
	return true;
}

/* Checks what a launcher started against the options. Returns the ranks of a process; 0:
 * explained. */
static uint32_t procs_launched(struct cli_options *o)
{
	const struct cli_place *p = &o->place;
	const struct lab_config *c = &o->scenario.lab;
	bool all = c->ranks_per_proc == LAB_ALL_RANKS;
	uint32_t each = all ? MAX_OF(c->gpus, 1u) : c->ranks_per_proc;
	uint32_t hosts = PROCS_DOUBLES ? c->hosts : 1;

	if (!procs_launched_here(o))
		return 0;
	if (p->processes > CLI_MAX_PROCESSES || p->processes % hosts) {
		fprintf(stderr,
			"doppel: %s started %u processes for %u hosts: expected a multiple, "
			"and at most %d\n",
			p->by, p->processes, hosts, CLI_MAX_PROCESSES);
		return 0;
	}
	if (!all && cli_is_given(&o->given, OPTION_GPUS) && p->here / hosts * each != c->gpus) {
		fprintf(stderr,
			"doppel: --gpus %u, but %s started %u processes of %u ranks for each "
			"host\n",
			c->gpus, p->by, p->here / hosts, each);
		return 0;
	}
	return each;
}

/* Checks --job-place, which a command that the launcher did not write may have with other hosts. */
static bool procs_place_fits(const struct cli_options *o)
{
	if (!PROCS_DOUBLES || o->place.processes % o->scenario.lab.hosts == 0)
		return true;
	fprintf(stderr, "doppel: --job-place: %u processes on %u hosts: expected a multiple\n",
		o->place.processes, o->scenario.lab.hosts);
	return false;
}

/* ---- the unique id -------------------------------------------------------------------------- */

/* The processes of one world leave the id in its memory. */
static bool procs_get_id(bool make, ncclUniqueId *id, void *arg)
{
	const uint32_t timeout_ms = launcher_timeout_ms();
	(void)arg;
	const uint64_t end = os_now_ns() + timeout_ms * 1000000ull;

	if (make)
		return ncclGetUniqueId(id) == ncclSuccess && world_share_note(id, sizeof *id);
	while (!world_share_noted(id, sizeof *id)) {
		if (os_now_ns() > end) {
			fprintf(stderr,
				"doppel: no unique id after %u ms: rank 0's process has ended, or "
				"has not started\n",
				timeout_ms);
			return false;
		}
		os_sleep_ns(1000000);
	}
	return true;
}

/* ---- one of the processes ------------------------------------------------------------------- */

/* Gives the variable of --env to this process, whose own deadlines follow it. */
static void procs_take_timeout(const struct cli_options *o)
{
	static const char name[] = "DOPPEL_TIMEOUT_MS=";

	for (uint32_t i = 0; i < o->scenario.env_count; i++)
		if (strncmp(o->scenario.env[i], name, sizeof name - 1) == 0)
			setenv("DOPPEL_TIMEOUT_MS", o->scenario.env[i] + sizeof name - 1, 1);
	setenv("DOPPEL_TIMEOUT_MS", LAUNCHER_TIMEOUT_MS, 0);
}

static void procs_environment(const struct cli_options *o, const struct world_share *share)
{
	char boot[64] = "", host[128];

	procs_take_timeout(o);
	os_boot_id(boot, sizeof boot);
	snprintf(host, sizeof host, "%s-%s-%u", boot, o->place.job, share->host);
	setenv("NCCL_HOSTID", host, 0);
	setenv("DOPPEL_FABRIC", o->place.job, 1);
}

/* Fills in the part of the job that this process is. */
static void procs_spread(const struct cli_options *o, uint32_t each, struct lab_spread *s)
{
	const struct cli_place *p = &o->place;
	uint32_t hosts = o->scenario.lab.hosts, per_host = p->processes / hosts;

	ASSERT(p->processes % hosts == 0 && p->process < p->processes);
	*s = (struct lab_spread){.first = (int32_t)(p->process * each),
				 .ranks = (int32_t)(p->processes * each),
				 .hosts = hosts,
				 .first_device = (int32_t)(p->process % per_host * each),
				 .get_id = procs_get_id,
				 .limit_s = o->limit_s};
	s->share = (struct world_share){
		.process = p->process, .processes = p->processes, .host = p->process / per_host};
}

/* With real GPUs or HCAs the process is one of --rank, with the GPUs of its local number. */
static int procs_on_hardware(struct cli_options *o, uint32_t each)
{
	o->root = cli_launch_root(&o->place);
	if (!o->root)
		return SIM_USAGE;
	o->rank = (int32_t)(o->place.process * each);
	o->ranks = (int32_t)(o->place.processes * each);
	o->scenario.lab.gpus = each;
	return cli_process(o);
}

int cli_procs_one(struct cli_options *o)
{
	struct lab_config *c = &o->scenario.lab;
	struct lab_spread spread;
	struct lab_result result;
	uint32_t each = o->place.each ? o->place.each : procs_launched(o);

	if (!each || !procs_place_fits(o))
		return SIM_USAGE;
	if (!PROCS_DOUBLES)
		return procs_on_hardware(o, each);
	procs_spread(o, each, &spread);
	procs_environment(o, &spread.share);
	c->spread = &spread;
	c->hosts = 1;
	c->gpus = each;
	c->ranks_per_proc = LAB_ALL_RANKS;
	c->sim.engine = SIM_ENGINE_THREADS;
	c->strict_device_view = false; /* HCAs of other processes access the program's mapping */
	c->table = o->place.process == 0 ? stdout : NULL;
	const struct lab_config *lab = scenario_lab(&o->scenario);
	if (lab_run(lab, &result))
		return SIM_USAGE;
	return (int)lab_outcome(lab, &result);
}

/* ---- all processes -------------------------------------------------------------------------- */

struct procs {
	struct launcher launcher;
	int argc;
	char **argv;
};

static void procs_exec(uint32_t i, void *arg)
{
	struct procs *all = arg;
	char place[64];
	char *const more[] = {(char *)"--job-place", place, NULL};

	snprintf(place, sizeof place, "%u/%u/%d/procs-%d", i, all->launcher.count,
		 all->launcher.each, (int)getppid());
	launcher_exec_self(i, all->argc, all->argv, more);
}

int cli_procs(int argc, char **argv, struct cli_options *o)
{
	static struct procs all;
	uint32_t each, count = procs_count(o, &each);

	if (!PROCS_DOUBLES) {
		fprintf(stderr,
			"doppel: --procs makes a world of doubles (preset fake); with real GPUs "
			"or HCAs, expected --processes, or mpirun, torchrun or srun\n");
		return SIM_USAGE;
	}
	if (!count)
		return SIM_USAGE;
	procs_take_timeout(o);
	all.launcher = (struct launcher){.count = count,
					 .each = (int32_t)each,
					 .out = stdout,
					 .grace_s = launcher_grace_s()};
	all.argc = argc;
	all.argv = argv;
	ASSERT(count % o->scenario.lab.hosts == 0); /* a process has ranks of one host */
	for (uint32_t i = 0; i < count; i++)
		if (!launcher_start(&all.launcher, i, procs_exec, &all))
			return SIM_USAGE; /* the started processes die with this one */
	return launcher_wait(&all.launcher);
}
