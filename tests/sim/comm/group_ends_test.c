/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups of one init, of a communicator that ends in the group that makes it, of one rank, and with
 * a call that fails beside an init. */
#include <check.h>
#include <cuda_runtime_api.h>

#include "tests/sim/comm/comm_rank.h"
#include "tests/sample.h"
#include "tests/suite.h"

/* ---- one init in a group -------------------------------------------------------------------- */

static void device_task(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm;
	ncclUniqueId id = ranks_id();
	int dev = -1;

	(void)arg;
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	EXPECT(cudaSetDevice(1) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm, nranks, id, rank));
	EXPECT(cudaSetDevice(5) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
	EXPECT(cudaGetDevice(&dev) == cudaSuccess);
	EXPECT(dev == 5);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	EXPECT(cudaGetDevice(&dev) == cudaSuccess);
	EXPECT(dev == 5);
}

START_TEST(a_group_of_one_init_leaves_the_current_device)
{
	for (uint32_t hosts = 1; hosts <= 2; hosts++) {
		struct ranks_config config = {.hosts = hosts, .per_host = 1, .seed = 1};

		ranks_run(&config, device_task, NULL);
	}
}
END_TEST

/* ---- ended in the group that was to make it ------------------------------------------------- */

enum dropped_how { DROPPED_ABORT, DROPPED_DESTROY, DROPPED_WITH_SIBLING };

static ncclResult_t drop(enum dropped_how how, ncclComm_t comm)
{
	return how == DROPPED_DESTROY ? ncclCommDestroy(comm) : ncclCommAbort(comm);
}

/* Task 0 ends a rank of a communicator, and makes another one in the same group. */
static void dropped_task(int32_t task, int32_t tasks, void *arg)
{
	enum dropped_how how = *(enum dropped_how *)arg;
	ncclComm_t doomed = NULL, sibling = NULL, other = NULL;
	ncclUniqueId id = ranks_id(), own;
	int32_t most = how == DROPPED_WITH_SIBLING ? 3 : 2;

	EXPECT(cudaSetDevice(0) == cudaSuccess);
	if (task > 0) {
		EXPECT_NCCL(ncclRemoteError, ncclCommInitRank(&doomed, most, id, 1));
		return;
	}
	EXPECT_NCCL(ncclSuccess, ncclGetUniqueId(&own));
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&doomed, most, id, 0));
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&other, 1, own, 0));
	EXPECT(cudaSetDevice(1) == cudaSuccess);
	if (how == DROPPED_WITH_SIBLING)
		EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&sibling, most, id, 2));
	os_sleep_ns(1000000);
	EXPECT_NCCL(ncclSuccess, drop(how, doomed));
	if (how == DROPPED_WITH_SIBLING) {
		EXPECT(ncclGroupEnd() != ncclSuccess);
		EXPECT(!sibling && !other);
		return;
	}
	EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(other));
	(void)tasks;
}

START_TEST(a_communicator_may_end_in_the_group_that_was_to_make_it)
{
	for (enum dropped_how how = DROPPED_ABORT; how <= DROPPED_WITH_SIBLING; how++) {
		for (uint64_t seed = 1; seed <= 5; seed += SAMPLE_THIN) {
			struct ranks_config config = {.hosts = 2, .per_host = 1, .seed = seed};

			ranks_run(&config, dropped_task, &how);
		}
	}
}
END_TEST

/* ---- one rank ------------------------------------------------------------------------------- */

static void alone_task(int32_t rank, int32_t nranks, void *arg)
{
	const size_t count = 4 << 20;
	cudaStream_t stream[2];
	int32_t *from, *to;
	ncclComm_t comm;

	(void)arg;
	EXPECT(cudaMalloc((void **)&from, 4 * count) == cudaSuccess);
	EXPECT(cudaMalloc((void **)&to, 2 * 4 * count) == cudaSuccess);
	for (int i = 0; i < 2; i++)
		EXPECT(cudaStreamCreateWithFlags(&stream[i], cudaStreamNonBlocking) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm, nranks, ranks_id(), rank));
	/* nothing orders the second one after the first */
	for (int i = 0; i < 2; i++)
		EXPECT_NCCL(ncclSuccess, ncclAllReduce(from, to + (size_t)i * count, count,
						       ncclInt32, ncclSum, comm, stream[i]));
	EXPECT_NCCL(ncclSuccess, ncclCommFinalize(comm));
	for (int i = 0; i < 2; i++)
		EXPECT(cudaStreamQuery(stream[i]) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	for (int i = 0; i < 2; i++)
		EXPECT(cudaStreamDestroy(stream[i]) == cudaSuccess);
	EXPECT(cudaFree(from) == cudaSuccess);
	EXPECT(cudaFree(to) == cudaSuccess);
}

START_TEST(finalize_waits_for_the_copies_of_one_rank)
{
	for (uint64_t seed = 1; seed <= 10; seed += SAMPLE_THIN) {
		struct ranks_config config = {.hosts = 1, .per_host = 1, .seed = seed};

		ranks_run(&config, alone_task, NULL);
	}
}
END_TEST

/* ---- a failed call beside an init ------------------------------------------------------------ */

/* The reason that other ranks learn has no address, which would differ between two runs. Rank 0
 * begins its init when rank 1 has failed. */
static void reason_rank(int32_t rank, int32_t nranks, void *arg)
{
	int device = (int)comm_device(rank), word = 0;
	ncclComm_t comm = NULL, alone = NULL;
	ncclUniqueId id = ranks_id();

	(void)arg;
	EXPECT(cudaSetDevice(device) == cudaSuccess);
	if (rank == 1) {
		EXPECT_NCCL(ncclSuccess, ncclCommInitAll(&alone, 1, &device));
		EXPECT_NCCL(ncclSuccess, ncclGroupStart());
		EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm, nranks, id, rank));
		EXPECT_NCCL(ncclInvalidArgument,
			    ncclAllReduce(&word, &word, 1, ncclInt32, ncclSum, alone, NULL));
		EXPECT_NCCL(ncclInvalidArgument, ncclGroupEnd());
		EXPECT_NCCL(ncclSuccess, ncclCommDestroy(alone));
	}
	ranks_barrier();
	if (rank == 1)
		return;
	EXPECT_NCCL(ncclRemoteError, ncclCommInitRank(&comm, nranks, id, rank));
	EXPECT_ERROR_SAYS("rank 1 failed before all ranks had checked in: ncclAllReduce: sendbuff "
			  "0x... is host memory, expected memory of device");
}

START_TEST(the_reason_that_other_ranks_learn_has_no_address)
{
	struct ranks_config c = {.hosts = 2, .per_host = 1, .seed = 1};

	ranks_run(&c, reason_rank, NULL);
}
END_TEST

/* ---- aborted in a group --------------------------------------------------------------------- */

/* Rank 0 launches nothing and aborts. The kernels of rank 1 are in one stream, so none of its
 * communicators is quiet before both are aborted: one task can do that in a group. */
static void aborted_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm[2];
	cudaStream_t stream;
	void *mem;
	int n;

	(void)arg;
	comm_buffers(rank, &mem, &stream, 64);
	comm[0] = comm_open(rank, nranks, ranks_id());
	EXPECT_NCCL(ncclSuccess, ncclCommSplit(comm[0], 0, rank, &comm[1], NULL));
	ranks_barrier(); /* from here on an abort disturbs no rank's init */
	for (int i = 0; i < 4 && rank; i++)
		EXPECT_NCCL(ncclSuccess,
			    ncclAllReduce(mem, mem, 4, ncclInt32, ncclSum, comm[i % 2], stream));
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(comm[1]));
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(comm[0]));
	EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
	EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
	EXPECT_NCCL(ncclInvalidArgument, ncclCommCount(comm[0], &n));
	EXPECT_NCCL(ncclInvalidArgument, ncclCommCount(comm[1], &n));
	comm_buffers_free(mem, stream);
}

START_TEST(a_group_aborts_communicators_whose_kernels_wait_for_each_other)
{
	struct ranks_config threads = {.hosts = 2, .per_host = 1, .engine = SIM_ENGINE_THREADS};

	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct ranks_config c = {.hosts = 1 + (uint32_t)seed % 2,
					 .per_host = 2 - (uint32_t)seed % 2,
					 .seed = seed};

		ranks_run(&c, aborted_rank, NULL);
	}
	ranks_run(&threads, aborted_rank, NULL);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("group");
	TCase *driver = tcase_create("driver"), *edge = tcase_create("edge");

	tcase_set_timeout(driver, 300);
	suite_add_tcase(suite, driver);
	tcase_add_test(edge, a_group_aborts_communicators_whose_kernels_wait_for_each_other);
	tcase_add_test(edge, a_group_of_one_init_leaves_the_current_device);
	tcase_add_test(edge, a_communicator_may_end_in_the_group_that_was_to_make_it);
	tcase_add_test(edge, the_reason_that_other_ranks_learn_has_no_address);
	tcase_add_test(edge, finalize_waits_for_the_copies_of_one_rank);
	suite_add_tcase(suite, edge);
	return suite_run(suite);
}
