/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks that a configuration can be carried out, and explains why not. */
#include <cuda_runtime_api.h>
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include "sim/lab/run/runner_internal.h"
#include "sim/world/world.h"

long lab_comm_blocking(const struct lab_config *c)
{
	static const char name[] = "NCCL_COMM_BLOCKING=";
	const char *value = "";

	for (int i = 0; c->env && c->env[i]; i++)
		if (!strncmp(c->env[i], name, sizeof name - 1))
			value = c->env[i] + sizeof name - 1;
	return *value ? strtol(value, NULL, 0) : -1;
}

/* The program waits for each call to end, unless its communicators are non-blocking. */
static int lab_check_blocking(const struct lab_config *c)
{
	if (c->life || c->nonblocking || lab_comm_blocking(c) != 0)
		return 0;
	fprintf(stderr, "doppel: NCCL_COMM_BLOCKING=0: the program of a run waits in its calls; "
			"expected 1 or -1, or --nonblocking\n");
	return EINVAL;
}

static int lab_check_root(const struct lab_config *c, uint32_t ranks)
{
	if (c->spread)
		ranks = (uint32_t)c->spread->ranks;
	bool used = lab_collective_has_root(c->collective) ||
		    (c->before && lab_collective_has_root(c->before));

	if (!used || c->root < (int32_t)ranks)
		return 0;
	fprintf(stderr, "doppel: root %d: expected a rank from 0 to %u\n", c->root, ranks - 1);
	return EINVAL;
}

/* A program of messages cannot be everywhere. */
static int lab_check_messages(const struct lab_config *c, uint32_t ranks)
{
	const struct lab_collective *which =
		c->before && !lab_collective_is_plain(c->before) ? c->before : c->collective;

	if (lab_collective_is_plain(which))
		return 0;
	if (c->life || c->recover) {
		fprintf(stderr, "doppel: %s: its buffers are prepared by runs alone; expected %s\n",
			which->name, which->chained ? "all_gather" : "all_to_all");
		return EINVAL;
	}
	if (which->chained && (c->group > 1 || c->aggregate > 1 || c->drive == LAB_DRIVE_PROCESS)) {
		fprintf(stderr,
			"doppel: %s: each of its groups sends what the one before it received: not "
			"in "
			"a group (--group, -m, -g, --drive process)\n",
			which->name);
		return EINVAL;
	}
	if (c->spread)
		ranks = (uint32_t)c->spread->ranks;
	if (which->chained && (ranks & (ranks - 1))) {
		fprintf(stderr, "doppel: %s: %u ranks; expected a power of two\n", which->name,
			ranks);
		return EINVAL;
	}
	return 0;
}

static int lab_check_host(const struct lab_config *c, uint32_t host, const uint32_t *gpus)
{
	uint32_t local = lab_host_ranks(c, host, gpus);

	if (local == 0) {
		fprintf(stderr, "doppel: 0 ranks on host %u: expected at least 1\n", host);
		return EINVAL;
	}
	if (local > gpus[host]) {
		fprintf(stderr, "doppel: %u ranks per host, but machine %s has %u GPUs\n", local,
			world_host_machine(host)->path, gpus[host]);
		return EINVAL;
	}
	for (uint32_t i = 0; i < c->device_count; i++)
		if (c->devices[i] < 0 || (uint32_t)c->devices[i] >= gpus[host]) {
			fprintf(stderr,
				"doppel: --devices names GPU %d, but machine %s has GPUs 0..%u\n",
				c->devices[i], world_host_machine(host)->path, gpus[host] - 1);
			return EINVAL;
		}
#ifndef DOPPEL_FAKECUDA
	if (c->ranks_per_proc < local) {
		fprintf(stderr,
			"doppel: with real GPUs the %u ranks of a host share one process: CUDA IPC "
			"cannot be opened in the process that exported it\n",
			local);
		return EINVAL;
	}
#endif
	return 0;
}

static int lab_check_world(const struct lab_config *c, const uint32_t *gpus)
{
	int rc = 0;

	if (c->hosts == 0) {
		fprintf(stderr, "doppel: 0 ranks: --hosts and --gpus must be at least 1\n");
		return EINVAL;
	}
	for (uint32_t h = 0; h < c->hosts && !rc; h++)
		rc = lab_check_host(c, h, gpus);
	return rc;
}

int lab_check_config(const struct lab_config *c, const uint32_t *gpus)
{
	int rc = lab_check_world(c, gpus);
	uint32_t ranks = rc ? 0 : lab_ranks(c, gpus);

	if (rc)
		return rc;
	if (c->spread && (c->spread->first < 0 || c->spread->ranks < 1 ||
			  (uint32_t)c->spread->first + ranks > (uint32_t)c->spread->ranks)) {
		fprintf(stderr, "doppel: ranks %d to %d of %d\n", c->spread->first,
			c->spread->first + (int32_t)ranks - 1, c->spread->ranks);
		return EINVAL;
	}
	if (c->spread && lab_device(c, ranks - 1) >= (int32_t)gpus[0]) {
		fprintf(stderr, "doppel: rank %d needs GPU %d, but machine %s has %u GPUs\n",
			c->spread->first + (int32_t)ranks - 1, lab_device(c, ranks - 1), c->machine,
			gpus[0]);
		return EINVAL;
	}
	if (c->spread && c->plugins) {
		fprintf(stderr, "doppel: --plugins: the lab's plugins connect the ranks of one "
				"real process; expected `doppel run` without --processes\n");
		return EINVAL;
	}
	if (c->quiet > ranks) {
		fprintf(stderr, "doppel: --quiet-rank %u: expected a rank from 0 to %u\n",
			c->quiet - 1, ranks - 1);
		return EINVAL;
	}
	if (lab_check_root(c, ranks) || lab_check_messages(c, ranks))
		return EINVAL;
	if (c->recover && ranks > LAB_LIFE_RANKS) {
		fprintf(stderr, "doppel: %u ranks; at most %d can recover\n", ranks,
			LAB_LIFE_RANKS);
		return EINVAL;
	}
	if ((c->comms > 1 || c->transient) && c->spread) {
		fprintf(stderr, "doppel: several communicators: only in one process\n");
		return EINVAL;
	}
	rc = lab_check_blocking(c);
	return rc ? rc : lab_capacity_check(c, ranks);
}
