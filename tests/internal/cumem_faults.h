/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Faults while ranks connect over memory of cuMem: what p2p_cumem_test.c and shm_cumem_test.c
 * expect of a call that fails and of a rank that dies.
 */
#ifndef TESTS_INTERNAL_CUMEM_FAULTS_H
#define TESTS_INTERNAL_CUMEM_FAULTS_H

#include "tests/internal/sum.h"

struct cumem_refusal {
	const char *plan, *says;
};

struct cumem_refused {
	const char *says;
	shared_u32 ranks; /* that name it; another one may fail with what comes of it */
};

static inline void cumem_init_fails(int32_t rank, int32_t nranks, void *arg)
{
	struct cumem_refused *want = arg;
	ncclComm_t comm;

	EXPECT(sum_init(rank, nranks, &comm) != ncclSuccess && !comm);
	if (strstr(ncclGetLastError(NULL), want->says))
		shared_add_u32(&want->ranks, 1, SHARED_ACQ_REL);
}

/* Two ranks; the plan refuses one call of one of them. */
static inline void cumem_refusal_is_named(const char *const *env, const struct cumem_refusal *r)
{
	struct ranks_config c = {.per_host = 2, .env = env, .fault_plan = r->plan};
	struct cumem_refused want = {r->says, {0}};

	ranks_run(&c, cumem_init_fails, &want);
	ck_assert_msg(shared_quiet_load_u32(&want.ranks) >= 1, "no rank named: %s", want.says);
}

static inline void cumem_survives(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm;
	ncclResult_t rc = sum_init(rank, nranks, &comm);

	(void)arg;
	if (!rc)
		EXPECT_NCCL(ncclSuccess, ncclCommAbort(comm));
	else
		EXPECT(!comm);
}

enum { CUMEM_DEATHS = 30 };

/* One of CUMEM_DEATHS places of init at which rank 1 dies. The others end with an error, and leave
 * nothing. */
static inline void cumem_death_leaves_nothing(const char *const *env, int place)
{
	char plan[64];
	struct ranks_config c = {.per_host = 3, .env = env, .fault_plan = plan};

	snprintf(plan, sizeof plan, "os.task rank=1 nth=%d kill\n", 40 + 6 * place);
	ranks_run(&c, cumem_survives, NULL);
}

#endif
