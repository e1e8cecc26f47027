/* SPDX-License-Identifier: BSD-3-Clause */
/* Device communicators: requirements that are wrong, not built, not possible, or that differ. */
#include <check.h>
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#include "core/include/nccl_device.h"
#include "tests/sim/comm/comm_rank.h"
#include "tests/suite.h"

static ncclDevCommRequirements_t requirements(int barriers)
{
	ncclDevCommRequirements_t reqs = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;

	reqs.lsaBarrierCount = barriers;
	return reqs;
}

static void refused(ncclComm_t comm, const ncclDevCommRequirements_t *reqs, ncclResult_t rc,
		    const char *words)
{
	ncclDevComm_t d;

	memset(&d, 0xff, sizeof d);
	EXPECT_NCCL(rc, ncclDevCommCreate(comm, reqs, &d));
	EXPECT_ERROR_SAYS(words);
	EXPECT(!d.magic && !d.resourceWindow);
}

#define REFUSED(field, value, rc, words)                                                           \
	do {                                                                                       \
		ncclDevCommRequirements_t reqs_ = requirements(1);                                 \
		reqs_.field = value;                                                               \
		refused(comm, &reqs_, rc, words);                                                  \
	} while (0)

static void wrong_heads(ncclComm_t comm)
{
	ncclDevCommRequirements_t reqs = requirements(1);

	refused(comm, NULL, ncclInvalidArgument, "reqs is NULL");
	EXPECT_NCCL(ncclInvalidArgument, ncclDevCommCreate(comm, &reqs, NULL));
	EXPECT_ERROR_SAYS("outDevComm is NULL");
	memset(&reqs, 0xa5, sizeof reqs);
	refused(comm, &reqs, ncclInvalidArgument,
		"expected requirements that begin with "
		"NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER");
	REFUSED(version, 22900, ncclInvalidArgument, "reqs is of version 22900");
	REFUSED(size, 100, ncclInvalidArgument, "with 100 bytes, expected version");
}

static void wrong_counts(ncclComm_t comm)
{
	REFUSED(lsaBarrierCount, -1, ncclInvalidArgument, "reqs->lsaBarrierCount is -1");
	REFUSED(lsaBarrierCount, INT32_MAX, ncclInvalidArgument,
		"expected 0 to 53687091 barriers of 2 ranks");
	REFUSED(barrierCount, -5, ncclInvalidArgument, "reqs->barrierCount is -5");
}

static void not_built(ncclComm_t comm)
{
	ncclTeamRequirements_t team = {.multimem = true};
	ncclDevResourceRequirements_t gin = {.ginSignalCount = 1};

	REFUSED(lsaMultimem, true, ncclInvalidUsage, "requests lsaMultimem, and multicast is not");
	REFUSED(teamRequirementsList, &team, ncclInvalidUsage, "multicast is not implemented");
	REFUSED(ginForceEnable, true, ncclInvalidUsage, "ginForceEnable, and GIN is not");
	REFUSED(ginConnectionType, NCCL_GIN_CONNECTION_FULL, ncclInvalidUsage, "GIN is not");
	REFUSED(resourceRequirementsList, &gin, ncclInvalidUsage, "GIN is not implemented");
	REFUSED(railGinBarrierCount, 1, ncclInvalidUsage, "railGinBarrierCount, and GIN");
	REFUSED(cftBarrierCount, 1, ncclInvalidUsage, "CFT is not implemented");
	REFUSED(lsaLLA2ASlotCount, 1, ncclInvalidUsage, "expected ncclLLA2ACreateRequirement");
}

static void wrong_lists(ncclComm_t comm)
{
	ncclDevResourceRequirements_t ring = {.bufferSize = 1}, r = {.bufferSize = 1ull << 40};
	ncclTeamRequirements_t teams = {.next = &teams};
	ncclLsaBarrierHandle_t barriers;
	const ncclTeam_t team = ncclTeamLsa(comm);

	ring.next = &ring;
	REFUSED(resourceRequirementsList, &ring, ncclInvalidArgument, "a list that ends with NULL");
	REFUSED(teamRequirementsList, &teams, ncclInvalidArgument, "teamRequirementsList has more");
	REFUSED(resourceRequirementsList, &r, ncclInvalidArgument, "bufferSize of entry 0");
	r = (ncclDevResourceRequirements_t){.bufferSize = 1, .bufferAlign = 48};
	REFUSED(resourceRequirementsList, &r, ncclInvalidArgument, "a power of 2 up to 256");
	r.bufferSize = 5;
	EXPECT_NCCL(ncclInvalidArgument, ncclLsaBarrierCreateRequirement(team, 1, NULL, &r));
	EXPECT_ERROR_SAYS("outHandle is NULL");
	EXPECT(!r.bufferSize);
	EXPECT_NCCL(ncclInvalidArgument, ncclLsaBarrierCreateRequirement(team, -1, &barriers, &r));
	EXPECT_ERROR_SAYS("nBarriers is -1");
	EXPECT(ncclLLA2ACalcSlots(1 << 30, 1024) == 0);
	EXPECT_ERROR_SAYS("expected numbers above 0");
}

static void refused_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm = comm_open(rank, nranks, ranks_id());

	(void)arg;
	wrong_heads(comm);
	wrong_counts(comm);
	not_built(comm);
	wrong_lists(comm);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
}

START_TEST(wrong_requirements_are_named)
{
	ranks_run(&(struct ranks_config){.hosts = 1, .per_host = 2, .seed = 2}, refused_rank, NULL);
}
END_TEST

static void differ_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm = comm_open(rank, nranks, ranks_id());
	ncclDevCommRequirements_t reqs = requirements(rank == 1 ? 3 : 1);
	ncclDevComm_t d;

	(void)arg;
	EXPECT_NCCL(ncclInvalidArgument, ncclDevCommCreate(comm, &reqs, &d));
	EXPECT_ERROR_SAYS("differ between rank 0 and rank 1");
	reqs = requirements(1);
	reqs.lsaMultimem = rank == 1;
	EXPECT_NCCL(rank == 1 ? ncclInvalidUsage : ncclRemoteError,
		    ncclDevCommCreate(comm, &reqs, &d));
	reqs.lsaMultimem = false;
	EXPECT_NCCL(ncclSuccess, ncclDevCommCreate(comm, &reqs, &d));
	ranks_barrier();
	EXPECT_NCCL(ncclSuccess, ncclDevCommDestroy(comm, &d));
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
}

START_TEST(requirements_differ_between_ranks)
{
	ranks_run(&(struct ranks_config){.hosts = 1, .per_host = 2, .seed = 4}, differ_rank, NULL);
}
END_TEST

static void apart_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclCommProperties_t p = NCCL_COMM_PROPERTIES_INITIALIZER;
	ncclDevCommRequirements_t reqs = requirements(1);
	ncclComm_t comm = comm_open(rank, nranks, ranks_id());

	(void)arg;
	EXPECT_NCCL(ncclSuccess, ncclCommQueryProperties(comm, &p));
	EXPECT(!p.deviceApiSupport && !p.devCommRuntimeVersionSize);
	EXPECT(ncclTeamLsa(comm).nRanks == 1 && ncclTeamRail(comm).nRanks == nranks);
	refused(comm, &reqs, ncclInvalidUsage, "no direct access to each other (P2P)");
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
}

START_TEST(ranks_without_peer_access_have_none)
{
	static const char *const env[] = {"NCCL_P2P_DISABLE=1", NULL};

	ranks_run(&(struct ranks_config){.hosts = 1, .per_host = 2, .env = env}, apart_rank, NULL);
}
END_TEST

/* Teams must have the same size: three ranks of two hosts, and ranks that alternate. */
static void uneven_rank(int32_t rank, int32_t nranks, void *arg)
{
	static const int keys[] = {0, 2, 1, 3};
	ncclDevCommRequirements_t reqs = requirements(1);
	ncclComm_t comm = comm_open(rank, nranks, ranks_id()), three = NULL, mixed;

	(void)arg;
	EXPECT_NCCL(ncclSuccess,
		    ncclCommSplit(comm, rank == 3 ? NCCL_SPLIT_NOCOLOR : 0, rank, &three, NULL));
	EXPECT_NCCL(ncclSuccess, ncclCommSplit(comm, 0, keys[rank], &mixed, NULL));
	if (three) {
		refused(three, &reqs, ncclInvalidUsage, "expected teams of the same size");
		EXPECT_NCCL(ncclSuccess, ncclCommDestroy(three));
	}
	refused(mixed, &reqs, ncclInvalidUsage, "ranks of a host do not follow each other");
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(mixed));
	reqs.barrierCount = 1;
	refused(comm, &reqs, ncclInvalidUsage, "barriers of several hosts need");
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
}

START_TEST(teams_of_different_sizes_have_none)
{
	ranks_run(&(struct ranks_config){.hosts = 2, .per_host = 2, .seed = 6}, uneven_rank, NULL);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("devcomm_arguments");
	TCase *t = tcase_create("arguments");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, wrong_requirements_are_named);
	tcase_add_test(t, requirements_differ_between_ranks);
	tcase_add_test(t, ranks_without_peer_access_have_none);
	tcase_add_test(t, teams_of_different_sizes_have_none);
	suite_add_tcase(s, t);
	return suite_run(s);
}
