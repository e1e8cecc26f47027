/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/cli/run/job_place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/hash.h"
#include "core/base/macros.h"

/* Ports for the unique id of a job on one computer: below the kernel's own ports. */
#define LAUNCH_FIRST_PORT 10240u
#define LAUNCH_PORTS      16384u
DOPPEL_STATIC_CHECK(LAUNCH_FIRST_PORT + LAUNCH_PORTS <= 32768, "Linux takes its own from there on");

/* The variables of a launcher. A launcher is found if the first three are set. `here`: number of
 * processes on this computer; srun's form is 4(x2),3. */
static const struct launcher {
	const char *name, *process, *processes, *local, *here;
} launchers[] = {
	{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
	 "OMPI_COMM_WORLD_LOCAL_SIZE"},
	{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
	{"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
	 "SLURM_STEP_TASKS_PER_NODE"},
	{"mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
};

/* The variables that distinguish two jobs of one computer. */
static const char *const launch_names[] = {
	"PMIX_NAMESPACE",
	"OMPI_MCA_ess_base_jobid",
	"SLURM_JOB_ID",
	"SLURM_STEP_ID",
	"TORCHELASTIC_RUN_ID",
	"TORCHELASTIC_RESTART_COUNT",
	"MASTER_ADDR",
	"MASTER_PORT",
	"PMI_ID",
	"HYDI_CONTROL_FD_PORT",
	"NCCL_COMM_ID",
};

static const char *launch_get(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

/* Reads the number at the start of the variable. False: not a number below `limit`, explained. */
static bool launch_number(const char *name, uint32_t limit, uint32_t *out)
{
	const char *text = launch_get(name);
	char *end = NULL;
	unsigned long v = text ? strtoul(text, &end, 10) : 0;

	if (text && *text >= '0' && *text <= '9' && (!*end || *end == '(' || *end == ',') &&
	    v < limit) {
		*out = (uint32_t)v;
		return true;
	}
	fprintf(stderr, "doppel: %s is '%s', expected a number below %u\n", name,
		text ? text : "not set", limit);
	return false;
}

static const struct launcher *launch_of(void)
{
	for (size_t i = 0; i < ARRAY_LEN(launchers); i++) {
		const struct launcher *l = &launchers[i];

		if (launch_get(l->process) && launch_get(l->processes) && launch_get(l->local))
			return l;
	}
	return NULL;
}

/* A job without a name of its own is named by the process that started it. */
static uint64_t launch_job(const struct launcher *l)
{
	uint64_t job = hash64_str(l->name);
	bool named = false;

	for (size_t i = 0; i < ARRAY_LEN(launch_names); i++) {
		const char *value = launch_get(launch_names[i]);

		named |= value != NULL;
		job = hash64_combine(job, value ? hash64_str(value) : i);
	}
	return named ? job : hash64_combine(job, (uint64_t)getppid());
}

static bool launch_read(const struct launcher *l, struct cli_place *p)
{
	const uint32_t most = 1u << 20;

	if (!launch_number(l->processes, most, &p->processes) ||
	    !launch_number(l->process, MAX_OF(p->processes, 1u), &p->process) ||
	    !launch_number(l->local, MAX_OF(p->processes, 1u), &p->local))
		return false;
	p->here = p->processes;
	if (launch_get(l->here) && !launch_number(l->here, p->processes + 1, &p->here))
		return false;
	if (p->local < p->here && p->here <= p->processes)
		return true;
	fprintf(stderr, "doppel: %s: %s is %u of %u processes on this computer, expected less\n",
		l->name, l->local, p->local, p->here);
	return false;
}

bool cli_launch_find(struct cli_place *place)
{
	const struct launcher *l = launch_of();

	*place = (struct cli_place){0};
	if (!l && launch_get("PMIX_RANK")) {
		fprintf(stderr, "doppel: PMIX_RANK is set, and no variable has the number of "
				"processes; expected OMPI_COMM_WORLD_SIZE and _LOCAL_RANK, or "
				"RANK, WORLD_SIZE and LOCAL_RANK\n");
		return false;
	}
	if (!l)
		return true;
	if (!launch_read(l, place))
		return false;
	if (place->processes < 2) {
		*place = (struct cli_place){0};
		return true;
	}
	place->by = l->name;
	snprintf(place->job, sizeof place->job, "job-%016llx", (unsigned long long)launch_job(l));
	return true;
}

const char *cli_launch_root(const struct cli_place *place)
{
	static char root[300];
	const char *address = launch_get("MASTER_ADDR");
	uint32_t port = 0;

	if (launch_get("NCCL_COMM_ID"))
		return launch_get("NCCL_COMM_ID");
	if (address && launch_get("MASTER_PORT")) {
		if (!launch_number("MASTER_PORT", 65535, &port))
			return NULL;
		snprintf(root, sizeof root, "%s:%u", address, port + 1);
		return root;
	}
	if (place->here < place->processes) {
		fprintf(stderr,
			"doppel: %s started processes on several computers; expected NCCL_COMM_ID, "
			"the HOST:PORT of rank 0's computer, or MASTER_ADDR and MASTER_PORT\n",
			place->by);
		return NULL;
	}
	port = LAUNCH_FIRST_PORT + (uint32_t)(hash64_str(place->job) % LAUNCH_PORTS);
	snprintf(root, sizeof root, "127.0.0.1:%u", port);
	return root;
}
