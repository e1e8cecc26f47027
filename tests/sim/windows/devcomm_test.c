/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device communicators on the host: what kernels receive, teams, groups, and their end. Kernels are
 * tested in tests/conformance/devapi, and wrong requirements in devcomm_arguments_test.c.
 */
#include <check.h>
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#include "core/include/nccl_device.h"
#include "tests/sim/comm/comm_rank.h"
#include "tests/suite.h"

#define BYTES 65536u

static ncclDevCommRequirements_t requirements(int barriers)
{
	ncclDevCommRequirements_t reqs = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;

	reqs.lsaBarrierCount = barriers;
	return reqs;
}

/* ---- what kernels receive -------------------------------------------------------------------- */

/* The record of a window has its addresses on the team. */
static void record_check(ncclWindow_t win, int32_t rank, int32_t lsa_rank, int32_t lsa_size)
{
	struct {
		struct ncclWindow_vidmem head;
		char *base[8];
	} record;
	void *p = NULL;

	EXPECT(cudaMemcpy(&record, win, sizeof record.head + (size_t)lsa_size * sizeof(char *),
			  cudaMemcpyDeviceToHost) == cudaSuccess);
	EXPECT(record.head.worldRank == rank && record.head.lsaRank == lsa_rank);
	EXPECT(!record.head.lsaFlatBase && !record.head.stride4G);
	for (int32_t i = 0; i < lsa_size; i++) {
		EXPECT_NCCL(ncclSuccess, ncclGetLsaDevicePointer(win, 0, i, &p));
		EXPECT(record.base[i] == (char *)p && p);
	}
}

static void fields_check(const ncclDevComm_t *d, int32_t rank, int32_t nranks)
{
	EXPECT(d->magic == NCCL_API_MAGIC && d->version == NCCL_VERSION_CODE);
	EXPECT(d->rank == rank && d->nRanks == nranks);
	EXPECT(d->lsaRank == rank % 2 && d->lsaSize == 2 && d->lsaSize_rcp32 == 1u << 31);
	EXPECT(d->nRanks_rcp32 == (uint32_t)((1ull << 32) / (uint32_t)nranks));
	EXPECT(d->resourceWindow && d->abortFlag);
	EXPECT(!d->ginConnectionCount && !d->lsaMultimem.mcBasePtr);
}

/* Its memory has zeros on this rank, and the places do not overlap. */
static void memory_check(const ncclDevComm_t *d, const ncclLLA2AHandle_t *lines,
			 ncclDevResourceHandle_t place)
{
	const size_t barriers = ncclGetResourceBufferOffset(d->lsaBarrier.bufHandle);
	const size_t at = ncclGetResourceBufferOffset(lines->bufHandle);
	const size_t last = ncclGetResourceBufferOffset(place);
	uint8_t host[4096];
	void *p = NULL;

	EXPECT(d->lsaBarrier.nBarriers == 40 && lines->nSlots == 8);
	EXPECT(at >= barriers + 40 * (3 + 2) * 4 && last >= at + 3 * 17 * 16);
	EXPECT(last % 256 == 0);
	EXPECT_NCCL(ncclSuccess, ncclGetLsaDevicePointer(d->resourceWindow, 0, d->lsaRank, &p));
	EXPECT(last + 1000 <= sizeof host);
	EXPECT(cudaMemcpy(host, p, last + 1000, cudaMemcpyDeviceToHost) == cudaSuccess);
	for (size_t i = 0; i < last + 1000; i++)
		EXPECT(host[i] == 0);
	EXPECT_NCCL(ncclInvalidArgument,
		    ncclGetLsaDevicePointer(d->resourceWindow, last + 1000, d->lsaRank, &p));
}

static void describes_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclDevCommRequirements_t reqs = requirements(40);
	ncclDevResourceRequirements_t first, second = {.bufferSize = 1000, .bufferAlign = 256};
	ncclComm_t comm = comm_open(rank, nranks, ranks_id());
	ncclDevResourceHandle_t place = 0;
	ncclLLA2AHandle_t lines;
	ncclDevComm_t d;
	ncclWindow_t win;
	void *mem;

	(void)arg;
	EXPECT_NCCL(ncclSuccess, ncclMemAlloc(&mem, BYTES));
	EXPECT_NCCL(ncclSuccess, ncclCommWindowRegister(comm, mem, BYTES, &win, 0));
	record_check(win, rank, rank % 2, 2);
	EXPECT(ncclLLA2ACalcSlots(4, 16) == 8);
	EXPECT_NCCL(ncclSuccess, ncclLLA2ACreateRequirement(3, 8, &lines, &first));
	first.next = &second;
	second.outBufferHandle = &place;
	reqs.resourceRequirementsList = &first;
	EXPECT_NCCL(ncclSuccess, ncclDevCommCreate(comm, &reqs, &d));
	fields_check(&d, rank, nranks);
	record_check(d.resourceWindow, rank, rank % 2, 2);
	memory_check(&d, &lines, place);
	ranks_barrier();
	EXPECT_NCCL(ncclSuccess, ncclDevCommDestroy(comm, &d));
	EXPECT_NCCL(ncclSuccess, ncclCommWindowDeregister(comm, win));
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	EXPECT_NCCL(ncclSuccess, ncclMemFree(mem));
}

START_TEST(a_device_communicator_has_ranks_and_places)
{
	for (uint32_t per_proc = 1; per_proc <= 2; per_proc++)
		ranks_run(&(struct ranks_config){.hosts = 2, .per_host = 2, .per_proc = per_proc},
			  describes_rank, NULL);
}
END_TEST

/* ---- teams ----------------------------------------------------------------------------------- */

static void teams_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm = comm_open(rank, nranks, ranks_id());
	const ncclTeam_t world = ncclTeamWorld(comm), lsa = ncclTeamLsa(comm);
	const ncclTeam_t rail = ncclTeamRail(comm);

	(void)arg;
	EXPECT(world.nRanks == 6 && world.rank == rank && world.stride == 1);
	EXPECT(lsa.nRanks == 3 && lsa.rank == rank % 3 && lsa.stride == 1);
	EXPECT(rail.nRanks == 2 && rail.rank == rank / 3 && rail.stride == 3);
	for (int i = 0; i < 3; i++) {
		EXPECT(ncclTeamRankToWorld(comm, lsa, i) == rank / 3 * 3 + i);
		EXPECT(ncclTeamRankToTeam(lsa, world, rank / 3 * 3 + i) == i);
	}
	EXPECT(ncclTeamRankToWorld(comm, rail, 1) == 3 + rank % 3);
	EXPECT(ncclTeamRankToLsa(comm, world, rank) == rank % 3);
	EXPECT(ncclTeamRankIsMember(lsa, world, rank));
	EXPECT(!ncclTeamRankIsMember(lsa, world, (rank + 3) % 6));
	EXPECT(ncclTeamRankIsMember(rail, world, (rank + 3) % 6));
	EXPECT(!ncclTeamRankIsMember(rail, world, (rank + 2) % 6));
	EXPECT(ncclTeamRankToWorld(comm, rail, 2) == -1);
	EXPECT_ERROR_SAYS("rank 2 of a team of 2 ranks is no rank of the 6 ranks");
	EXPECT(ncclTeamRankToLsa(comm, world, (rank + 3) % 6) == -1);
	EXPECT(ncclTeamWorld(NULL).nRanks == 0);
	EXPECT_ERROR_SAYS("ncclTeamWorld: comm is NULL");
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
}

/* Each rank of the parent is in the subset, or has one number in the difference. */
static void difference_check(ncclTeam_t parent, ncclTeam_t subset)
{
	int index = 0;

	for (int r = 0; r < parent.nRanks; r++)
		if (!ncclTeamRankIsMember(subset, parent, r))
			EXPECT(ncclTeamRankInDifference(parent, subset, index++) == r);
	EXPECT(index == parent.nRanks - subset.nRanks);
}

START_TEST(teams_are_sets_of_ranks)
{
	const ncclTeam_t world = {.nRanks = 12, .rank = 7, .stride = 1};

	ranks_run(&(struct ranks_config){.hosts = 2, .per_host = 3, .seed = 3}, teams_rank, NULL);
	difference_check(world, ncclTeamInnerFactor(world, 4));
	difference_check(world, ncclTeamOuterFactor(world, 4));
	difference_check(world, ncclTeamOuterFactor(world, 3));
	difference_check(world, world);
}
END_TEST

/* ---- life ------------------------------------------------------------------------------------ */

static void wrong_destroys(ncclComm_t comm, ncclComm_t other, const ncclDevComm_t *d)
{
	ncclDevComm_t wrong = *d;
	ncclWindow_t win;
	void *mem;

	EXPECT_NCCL(ncclInvalidArgument, ncclDevCommDestroy(comm, NULL));
	EXPECT_ERROR_SAYS("devComm is NULL");
	EXPECT_NCCL(ncclInvalidArgument, ncclDevCommDestroy(other, d));
	EXPECT_ERROR_SAYS("a window of another communicator");
	EXPECT_NCCL(ncclInvalidArgument, ncclCommWindowDeregister(comm, d->resourceWindow));
	EXPECT_ERROR_SAYS("memory of a device communicator");
	wrong.magic = 0;
	EXPECT_NCCL(ncclInvalidArgument, ncclDevCommDestroy(comm, &wrong));
	EXPECT_ERROR_SAYS("devComm has magic 0x0");
	EXPECT_NCCL(ncclSuccess, ncclMemAlloc(&mem, BYTES));
	EXPECT_NCCL(ncclSuccess, ncclCommWindowRegister(comm, mem, BYTES, &win, 0));
	wrong = *d;
	wrong.resourceWindow = win;
	EXPECT_NCCL(ncclInvalidArgument, ncclDevCommDestroy(comm, &wrong));
	EXPECT_ERROR_SAYS("is a window of the program");
	ranks_barrier();
	EXPECT_NCCL(ncclSuccess, ncclCommWindowDeregister(comm, win));
	EXPECT_NCCL(ncclSuccess, ncclMemFree(mem));
}

static void life_rank(int32_t rank, int32_t nranks, void *arg)
{
	const ncclDevCommRequirements_t reqs = requirements(2);
	ncclComm_t comm = comm_open(rank, nranks, ranks_id()), other;
	ncclDevComm_t d[40];
	uint64_t before, after;

	(void)arg;
	EXPECT_NCCL(ncclSuccess, ncclCommSplit(comm, 0, rank, &other, NULL));
	EXPECT_NCCL(ncclSuccess, ncclDevCommCreate(comm, &reqs, &d[0]));
	EXPECT_NCCL(ncclSuccess, ncclCommMemStats(comm, ncclStatGpuMemTotal, &before));
	/* more than a chunk of records */
	for (int i = 1; i < 40; i++)
		EXPECT_NCCL(ncclSuccess, ncclDevCommCreate(comm, &reqs, &d[i]));
	for (int i = 1; i < 40; i++)
		EXPECT(d[i].resourceWindow != d[i - 1].resourceWindow);
	EXPECT_NCCL(ncclSuccess, ncclCommMemStats(comm, ncclStatGpuMemTotal, &after));
	EXPECT(after > before);
	wrong_destroys(comm, other, &d[0]);
	for (int i = 2; i < 40; i++)
		EXPECT_NCCL(ncclSuccess, ncclDevCommDestroy(comm, &d[i]));
	EXPECT_NCCL(ncclInvalidArgument, ncclDevCommDestroy(comm, &d[2]));
	EXPECT_ERROR_SAYS("no window, or it was deregistered");
	ranks_barrier();
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(other));
	/* two are left, and end with the communicator */
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	EXPECT_ERROR_SAYS("the communicator ends with 2 device communicators");
}

START_TEST(a_device_communicator_ends_with_its_communicator)
{
	ranks_run(&(struct ranks_config){.hosts = 1, .per_host = 2, .seed = 8}, life_rank, NULL);
}
END_TEST

/* One task has two ranks, as in programs of one process. */
static void group_rank(int32_t rank, int32_t nranks, void *arg)
{
	static const int devices[] = {0, 1};
	ncclDevCommRequirements_t reqs = requirements(3);
	ncclComm_t comm[2];
	ncclDevComm_t d[2];

	(void)rank, (void)nranks, (void)arg;
	EXPECT_NCCL(ncclSuccess, ncclCommInitAll(comm, 2, devices));
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	for (int i = 0; i < 2; i++)
		EXPECT_NCCL(ncclSuccess, ncclDevCommCreate(comm[i], &reqs, &d[i]));
	EXPECT(!d[0].magic && !d[1].magic);
	EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
	for (int i = 0; i < 2; i++)
		EXPECT(d[i].rank == i && d[i].lsaSize == 2 && d[i].lsaBarrier.nBarriers == 3);
	for (int i = 0; i < 2; i++)
		EXPECT_NCCL(ncclSuccess, ncclDevCommDestroy(comm[i], &d[i]));
	/* a wrong call ends its group */
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	reqs.lsaMultimem = true;
	EXPECT_NCCL(ncclInvalidUsage, ncclDevCommCreate(comm[0], &reqs, &d[1]));
	EXPECT_NCCL(ncclInvalidUsage, ncclGroupEnd());
	for (int i = 0; i < 2; i++)
		(void)ncclCommAbort(comm[i]);
}

START_TEST(ranks_of_a_task_create_in_a_group)
{
	ranks_run(&(struct ranks_config){.hosts = 1, .per_host = 1, .seed = 7}, group_rank, NULL);
}
END_TEST

static void nonblocking_wait(ncclComm_t comm, ncclResult_t rc)
{
	while (rc == ncclInProgress)
		EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(comm, &rc));
	EXPECT_NCCL(ncclSuccess, rc);
}

static void nonblocking_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclDevCommRequirements_t reqs = requirements(2);
	ncclUniqueId id = ranks_id();
	ncclWindow_t win = NULL;
	ncclDevComm_t d[2];
	ncclComm_t comm;
	void *mem;

	(void)arg;
	config.blocking = 0;
	EXPECT(cudaSetDevice((int)comm_device(rank)) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclMemAlloc(&mem, BYTES));
	nonblocking_wait(comm, ncclCommInitRankConfig(&comm, nranks, id, rank, &config));
	ranks_barrier();
	nonblocking_wait(comm, ncclDevCommCreate(comm, &reqs, &d[0]));
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	EXPECT_NCCL(ncclSuccess, ncclCommWindowRegister(comm, mem, BYTES, &win, 0));
	EXPECT_NCCL(ncclSuccess, ncclDevCommCreate(comm, &reqs, &d[1]));
	nonblocking_wait(comm, ncclGroupEnd());
	EXPECT(d[0].lsaSize == 3 && d[1].lsaRank == rank && win);
	EXPECT(d[0].resourceWindow != d[1].resourceWindow && d[1].resourceWindow != win);
	ranks_barrier();
	for (int i = 0; i < 2; i++)
		EXPECT_NCCL(ncclSuccess, ncclDevCommDestroy(comm, &d[i]));
	EXPECT_NCCL(ncclSuccess, ncclCommWindowDeregister(comm, win));
	nonblocking_wait(comm, ncclCommFinalize(comm));
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	EXPECT_NCCL(ncclSuccess, ncclMemFree(mem));
}

START_TEST(nonblocking_communicator_creates_in_progress)
{
	for (uint64_t seed = 1; seed <= 4; seed++)
		ranks_run(&(struct ranks_config){.hosts = 1, .per_host = 3, .seed = seed},
			  nonblocking_rank, NULL);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("devcomm");
	TCase *t = tcase_create("devcomm");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, a_device_communicator_has_ranks_and_places);
	tcase_add_test(t, teams_are_sets_of_ranks);
	tcase_add_test(t, a_device_communicator_ends_with_its_communicator);
	tcase_add_test(t, ranks_of_a_task_create_in_a_group);
	tcase_add_test(t, nonblocking_communicator_creates_in_progress);
	suite_add_tcase(s, t);
	return suite_run(s);
}
