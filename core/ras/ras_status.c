/* SPDX-License-Identifier: BSD-3-Clause */
/* The report for people, in the form that NCCL's users know. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/include/nccl.h"
#include "core/ras/ras_status.h"

/* ---- which details are shown ---------------------------------------------------------------- */

bool ras_is_outlier(uint32_t count, uint32_t total, bool verbose)
{
	if (count == 1)
		return true;
	return verbose ? 2 * count < total : count <= RAS_DETAILS && 4 * count <= total;
}

void ras_process_write(struct ras_text *out, const struct ras_process *p)
{
	char host[RAS_HOST_BYTES], gpus[256];

	ras_text_add(out, "  Process %d on node %s managing GPU%s %s\n", p->pid,
		     ras_host_print(&p->addr, host), p->gpus & (p->gpus - 1) ? "s" : "",
		     ras_gpus_print(p->gpus, p->nvml, gpus, sizeof gpus));
}

void ras_place_write(struct ras_text *out, const struct ras_process *p, int32_t cuda_dev,
		     int32_t nvml_dev)
{
	char host[RAS_HOST_BYTES], gpu[32];

	ras_text_add(out, " -- GPU %s managed by process %d on node %s\n",
		     ras_gpus_print(ras_gpu_bit(cuda_dev), ras_gpu_bit(nvml_dev), gpu, sizeof gpu),
		     p->pid, ras_host_print(&p->addr, host));
}

/* ---- the job -------------------------------------------------------------------------------- */

struct status_range {
	uint32_t least, most;
};

static void status_range_add(struct status_range *r, uint32_t n)
{
	r->least = r->most ? MIN_OF(r->least, n) : n;
	r->most = MAX_OF(r->most, n);
}

static const char *status_range_print(struct status_range r, char out[32])
{
	snprintf(out, 32, r.least == r.most ? "%u" : "%u-%u", r.least, r.most);
	return out;
}

/* Returns the number of processes on the host whose first process is `node`. */
static uint32_t status_on_node(const struct ras_job *j, uint32_t node)
{
	uint32_t n = 0;

	for (uint32_t i = node; i < j->processes; i++)
		n += j->process[i].node == node;
	return n;
}

static void status_summary(struct ras_text *out, const struct ras_job *j)
{
	struct status_range per_node = {0, 0}, per_process = {0, 0};
	uint32_t nodes = 0, gpus = 0;
	char procs[32], devs[32];

	for (uint32_t i = 0; i < j->processes; i++) {
		uint32_t n = (uint32_t)__builtin_popcountll(j->process[i].gpus);

		gpus += n;
		status_range_add(&per_process, n);
		if (j->process[i].node != i)
			continue;
		nodes++;
		status_range_add(&per_node, status_on_node(j, i));
	}
	ras_text_add(out, "Job summary\n===========\n\n"
			  "  Nodes  Processes         GPUs  Processes     GPUs\n"
			  "(total)   per node  per process    (total)  (total)\n");
	ras_text_add(out, "%7u  %9s  %11s  %9u  %7u\n", nodes, status_range_print(per_node, procs),
		     status_range_print(per_process, devs), j->processes, gpus);
}

/* ---- the table of communicators ------------------------------------------------------------- */

/* Returns the number of GPUs of the communicators from `at` on that are of its group. */
static uint32_t status_group_gpus(const struct ras_job *j, uint32_t at, uint32_t n)
{
	uint64_t *gpus = os_alloc((j->processes + 1) * sizeof *gpus, "RAS GPUs");
	uint32_t count = 0;

	for (uint32_t i = at; gpus && i < at + n; i++)
		for (uint32_t k = 0; k < j->comm[i].ranks; k++) {
			const struct ras_job_rank *r = &j->comm[i].rank[k];

			gpus[r->process] |= ras_gpu_bit(r->r.cuda_dev);
		}
	for (uint32_t i = 0; gpus && i < j->processes; i++)
		count += (uint32_t)__builtin_popcountll(gpus[i]);
	os_free(gpus);
	return count;
}

static void status_group(struct ras_text *out, const struct ras_job *j, uint32_t at, uint32_t n)
{
	static const char *const errors[] = {"OK",
					     "MISMATCH",
					     "ERROR",
					     "ERROR,MISMATCH",
					     "INCOMPLETE",
					     "INCOMPLETE,MISMATCH",
					     "INCOMPLETE,ERROR",
					     "INCOMPLETE,ERROR,MISMATCH"};
	const struct ras_comm *c = &j->comm[at];
	struct status_range per_node = {0, 0};
	char ranks[32];

	for (uint32_t i = at; i < at + n; i++) {
		status_range_add(&per_node, j->comm[i].per_node_min);
		status_range_add(&per_node, j->comm[i].per_node_max);
	}
	ras_text_add(out, "%5u  %8u  %8u  %8s  %8d  %8u  %8s  %6s\n", c->group, n, c->nodes,
		     status_range_print(per_node, ranks), c->size, status_group_gpus(j, at, n),
		     ras_status_name(c->status), errors[c->errors]);
}

static void status_table(struct ras_text *out, const struct ras_job *j)
{
	ras_text_add(out, "\nCommunicators... (%.2fs)\n=============\n\n",
		     (double)j->took_ns * 1e-9);
	if (!j->comms) {
		ras_text_add(out, "No communicator data collected!\n");
		return;
	}
	ras_text_add(out, "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  "
			  "Errors\n"
			  "    #  in group  per comm  per node  per comm  in group\n");
	for (uint32_t at = 0, n; at < j->comms; at += n) {
		n = 1;
		while (at + n < j->comms && j->comm[at + n].group == j->comm[at].group)
			n++;
		status_group(out, j, at, n);
	}
}

/* ---- errors --------------------------------------------------------------------------------- */

static uint32_t status_count(const struct ras_job *j, bool dead)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < j->processes; i++)
		n += j->process[i].state != RAS_ANSWERED &&
		     (j->process[i].state == RAS_DEAD) == dead;
	return n;
}

/* Writes the processes without an answer: the dead ones, or the others. */
static void status_processes(struct ras_text *out, const struct ras_job *j, bool dead, bool verbose)
{
	uint32_t n = status_count(j, dead);

	if (!n)
		return;
	if (dead)
		ras_text_add(out,
			     "DEAD\n  %u job process%s considered dead (unreachable via the RAS "
			     "network)\n",
			     n, n > 1 ? "es are" : " is");
	else
		ras_text_add(out, "INCOMPLETE\n  Missing communicator data from %u job process%s\n",
			     n, n > 1 ? "es" : "");
	for (uint32_t i = 0; i < j->processes && (verbose || n <= RAS_DETAILS); i++) {
		const struct ras_process *p = &j->process[i];

		if (p->state != RAS_ANSWERED && (p->state == RAS_DEAD) == dead)
			ras_process_write(out, p);
	}
	ras_text_add(out, "\n");
}

void ras_comm_title(struct ras_text *out, const struct ras_comm *c, const char *what)
{
	ras_text_add(out, "#%u-%u (%016" PRIx64 ") %s\n", c->group, c->number, c->hash, what);
}

void ras_missing_write(struct ras_text *out, struct ras_job *j, const struct ras_missing *m,
		       const char *phrase)
{
	ras_text_add(out, "  Rank %d%s", m->rank, phrase);
	if (m->process == UINT32_MAX)
		ras_text_add(out, " -- [process information not found]\n");
	else
		ras_place_write(out, &j->process[m->process], m->member->cuda_dev,
				m->member->nvml_dev);
}

static void status_incomplete(struct ras_text *out, struct ras_job *j, const struct ras_comm *c,
			      bool verbose)
{
	struct ras_missing m = {.next = 0};

	if (!(c->errors & RAS_ERROR_INCOMPLETE))
		return;
	ras_comm_title(out, c, "INCOMPLETE");
	ras_text_add(out, "  Missing communicator data from %u rank%s\n", c->incomplete,
		     c->incomplete > 1 ? "s" : "");
	while ((verbose || c->incomplete <= RAS_DETAILS) && ras_missing_next(j, c, &m))
		if (!m.answered)
			ras_missing_write(out, j, &m, "");
	ras_text_add(out, "\n");
}

static const char *status_error_name(uint32_t result)
{
	static const char *const names[] = {
		[ncclUnhandledCudaError] = "Unhandled CUDA error",
		[ncclSystemError] = "System error",
		[ncclInternalError] = "Internal error",
		[ncclInvalidArgument] = "Invalid argument",
		[ncclInvalidUsage] = "Invalid usage",
		[ncclRemoteError] = "Remote process error",
	};

	return result < ARRAY_LEN(names) && names[result] ? names[result] : "Unexpected error";
}

/* Writes the ranks with an error of the init, or an asynchronous one. */
static void status_errors_of(struct ras_text *out, const struct ras_job *j,
			     const struct ras_comm *c, bool async)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->ranks; i++) {
		const struct ras_rank *r = &c->rank[i].r;
		uint32_t e = async ? r->async_error : r->init_state;

		if (e == ncclSuccess || e == ncclInProgress)
			continue;
		if (!n++)
			ras_text_add(out, "  %s errors:\n",
				     async ? "Asynchronous" : "Initialization");
		ras_text_add(out, "  Rank %d reported %s", r->rank, status_error_name(e));
		ras_place_write(out, &j->process[c->rank[i].process], r->cuda_dev, r->nvml_dev);
	}
}

static void status_errors(struct ras_text *out, struct ras_job *j, bool verbose)
{
	ras_text_add(out, "\nErrors\n======\n\n");
	status_processes(out, j, false, verbose);
	status_processes(out, j, true, verbose);
	for (uint32_t i = 0; i < j->comms; i++) {
		const struct ras_comm *c = &j->comm[i];

		status_incomplete(out, j, c, verbose);
		if (!(c->errors & RAS_ERROR_ERROR))
			continue;
		ras_comm_title(out, c, "ERROR");
		status_errors_of(out, j, c, false);
		status_errors_of(out, j, c, true);
		ras_text_add(out, "\n");
	}
}

void ras_status_write(struct ras_text *out, struct ras_job *j, bool verbose)
{
	status_summary(out, j);
	status_table(out, j);
	status_errors(out, j, verbose);
	ras_text_add(out, "Warnings\n========\n\n");
	if (j->timeouts)
		ras_text_add(out,
			     "TIMEOUT\n  Encountered %u communication timeout%s while gathering "
			     "communicator data\n\n",
			     j->timeouts, j->timeouts > 1 ? "s" : "");
	for (uint32_t i = 0; i < j->comms; i++)
		if (j->comm[i].errors & RAS_ERROR_MISMATCH)
			ras_mismatch_write(out, j, &j->comm[i], verbose);
}
