/* SPDX-License-Identifier: BSD-3-Clause */
/* A program for tests/sim/programs/trials_test.sh: what a config, the environment and the limits of
 * a communicator mean to a program: trial_configs WHAT. It has one process. */
#include "trial.h"

#define OPERATIONS 70000 /* more than a communicator has */
#define LATER_INTS 1000  /* of a config of a later version, at most */

static ncclComm_t comm;
static ncclUniqueId id;

static void end(void)
{
	need(!ncclCommDestroy(comm), "ncclCommDestroy");
	puts("no error");
}

/* A config of a later version is longer, and none of its fields is set. */
static void later_config(void)
{
	const ncclConfig_t now = NCCL_CONFIG_INITIALIZER;
	union {
		ncclConfig_t config;
		int field[LATER_INTS];
	} later;

	for (int i = 0; i < LATER_INTS; i++)
		later.field[i] = NCCL_CONFIG_UNDEF_INT;
	later.config = now;
	later.config.size = sizeof later;
	later.config.version = NCCL_VERSION(2, 99, 0);
	need(!ncclGetUniqueId(&id), "ncclGetUniqueId");
	need(!ncclCommInitRankConfig(&comm, 1, id, 0, &later.config), "ncclCommInitRankConfig");
	end();
}

/* NCCL_COMM_BLOCKING=0 holds for a call without a config, too. */
static void environment(void)
{
	ncclResult_t state = ncclInProgress;

	need(!ncclGetUniqueId(&id), "ncclGetUniqueId");
	need(ncclCommInitRank(&comm, 1, id, 0) == ncclInProgress, "ncclCommInitRank in progress");
	while (state == ncclInProgress)
		need(!ncclCommGetAsyncError(comm, &state), "ncclCommGetAsyncError");
	need(state == ncclSuccess, "the init");
	end();
}

/* ncclCommInitAll waits for its communicators, whatever NCCL_COMM_BLOCKING is. */
static void all_block(void)
{
	ncclComm_t all[2];
	int count = 0;

	need(!ncclCommInitAll(all, 2, NULL), "ncclCommInitAll");
	need(!ncclCommCount(all[1], &count) && count == 2, "ncclCommCount");
	need(!ncclCommDestroy(all[0]), "ncclCommDestroy");
	comm = all[1];
	end();
}

static int operation_compare(const void *a, const void *b)
{
	const ncclRedOp_t *x = (const ncclRedOp_t *)a, *y = (const ncclRedOp_t *)b;

	return (*x > *y) - (*x < *y);
}

/* Operations are different ones until there are no more; each can be destroyed. */
static void operations(void)
{
	static ncclRedOp_t op[OPERATIONS];
	float two = 2;
	int n = 0;

	need(!ncclGetUniqueId(&id), "ncclGetUniqueId");
	need(!ncclCommInitRank(&comm, 1, id, 0), "ncclCommInitRank");
	while (n < OPERATIONS &&
	       !ncclRedOpCreatePreMulSum(&op[n], &two, ncclFloat, ncclScalarHostImmediate, comm))
		n++;
	need(n > 1000 && n < OPERATIONS, "a limit of operations");
	qsort(op, (size_t)n, sizeof *op, operation_compare);
	for (int i = 0; i < n; i++) {
		need(!i || op[i] != op[i - 1], "an operation of its own");
		need(!ncclRedOpDestroy(op[i], comm), "ncclRedOpDestroy");
	}
	end();
}

int main(int argc, char **argv)
{
	static const struct trial all[] = {{"later_config", later_config},
					   {"environment", environment},
					   {"all_block", all_block},
					   {"operations", operations},
					   {NULL, NULL}};

	return trial_main(argc, argv, all);
}
