/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the programs of tests/sim/programs/trials_test.sh: each is called as PROGRAM KIND, and
 * has a table of its kinds. `doppel exec` starts one process or several; the variables RANK,
 * WORLD_SIZE and LOCAL_RANK name them.
 */
#ifndef TESTS_SIM_GUEST_TRIAL_H
#define TESTS_SIM_GUEST_TRIAL_H

#include <cuda_runtime.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRIAL_FAILED  9
#define TRIAL_NO_KIND 8

struct trial {
	const char *kind;
	void (*run)(void);
};

/* The rank of this process; a kind may drive several in one process. */
static int rank, ranks = 1;

static inline void need(int good, const char *what)
{
	if (good)
		return;
	printf("rank %d: %s failed: %s\n", rank, what, ncclGetLastError(NULL));
	exit(TRIAL_FAILED);
}

/* How many processes a host has. */
static inline int local_size(void)
{
	const char *size = getenv("LOCAL_WORLD_SIZE");

	return size ? atoi(size) : 1;
}

/* The g-th of `gpus` GPUs of this process; another process of the host has the next ones. */
static inline int device_of(int g, int gpus)
{
	const char *local = getenv("LOCAL_RANK");

	return (local ? atoi(local) : 0) * gpus + g;
}

/* The next communicator of all processes, a rank in each; `doppel exec` gives them one address. */
static inline ncclComm_t make_comm(void)
{
	ncclComm_t comm;
	ncclUniqueId id;

	need(!cudaSetDevice(device_of(0, 1)) && !ncclGetUniqueId(&id), "ncclGetUniqueId");
	need(!ncclCommInitRank(&comm, ranks, id, rank), "ncclCommInitRank");
	return comm;
}

static inline int trial_main(int argc, char **argv, const struct trial *all)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (getenv("RANK")) {
		rank = atoi(getenv("RANK"));
		ranks = atoi(getenv("WORLD_SIZE"));
	}
	for (; argc == 2 && all->kind; all++) {
		if (strcmp(all->kind, argv[1]))
			continue;
		all->run();
		return 0;
	}
	return TRIAL_NO_KIND;
}

#endif
