/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators from a program's side: every way to make and end one, bad arguments, aborts.
 */
#include <check.h>
#include <cuda_runtime_api.h>

#include "tests/sim/comm_rank.h"
#include "tests/suite.h"

/* ---- a whole life --------------------------------------------------------------------------- */

static void life_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm = NULL;
	cudaStream_t stream;
	void *mem;
	int n = -1;
	ncclResult_t async = ncclInternalError;
	comm_buffers(rank, &mem, &stream, 4096);
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm, nranks, ranks_id(), rank));
	EXPECT_NCCL(ncclSuccess, ncclCommCount(comm, &n));
	EXPECT(n == nranks);
	EXPECT_NCCL(ncclSuccess, ncclCommUserRank(comm, &n));
	EXPECT(n == rank);
	EXPECT_NCCL(ncclSuccess, ncclCommCuDevice(comm, &n));
	EXPECT(n == (int)comm_device(rank));
	EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(comm, &async));
	EXPECT(async == ncclSuccess);
	comm_sum(comm, rank, nranks, mem, stream, 1000);
	comm_sum(comm, rank, nranks, mem, stream, 1);
	EXPECT_NCCL(ncclSuccess, ncclCommFinalize(comm));
	EXPECT_NCCL(ncclInvalidUsage, ncclAllReduce(mem, mem, 1, ncclInt32, ncclSum, comm, stream));
	EXPECT_ERROR_SAYS("finalized");
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	comm_buffers_free(mem, stream);
}

START_TEST(communicators_live_in_every_split_over_hosts_and_processes)
{
	static const struct ranks_config cases[] = {
		{.hosts = 1, .per_host = 1},
		{.hosts = 1, .per_host = 2},
		{.hosts = 1, .per_host = 4, .per_proc = 4},
		{.hosts = 1, .per_host = 4, .per_proc = 2},
		{.hosts = 2, .per_host = 1},
		{.hosts = 2, .per_host = 2, .per_proc = 2},
		{.hosts = 3, .per_host = 3, .per_proc = 2},
		{.hosts = 2, .per_host = 8},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		for (uint64_t seed = 1; seed <= 5; seed++) {
			struct ranks_config c = cases[i];
			c.seed = seed;
			ranks_run(&c, life_rank, NULL);
		}
	}
}
END_TEST

START_TEST(communicators_live_on_real_threads)
{
	struct ranks_config c = {
		.hosts = 2, .per_host = 2, .per_proc = 2, .engine = SIM_ENGINE_THREADS, .seed = 1};
	ranks_run(&c, life_rank, NULL);
	c.hosts = 1;
	c.per_host = 4;
	c.per_proc = 1;
	ranks_run(&c, life_rank, NULL);
}
END_TEST

/* Two hosts that are one machine in truth, as users split them. */
static void split_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm = NULL;
	cudaStream_t stream;
	void *mem;
	if (rank == 0)
		for (int i = 0; i < 2; i++)
			EXPECT(world_proc_setenv(ranks_self()->all->proc[i], "NCCL_HOSTID",
						 i ? "second" : "first") == 0);
	ranks_barrier();
	comm_buffers(rank, &mem, &stream, 4096);
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm, nranks, ranks_id(), rank));
	comm_sum(comm, rank, nranks, mem, stream, 100);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	comm_buffers_free(mem, stream);
}

START_TEST(hostid_splits_a_host)
{
	struct ranks_config c = {.hosts = 1, .per_host = 2, .seed = 3};
	ranks_run(&c, split_rank, NULL);
}
END_TEST

/* Two containers of one host, in each of which the rank is process 7. */
static void containers_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm = NULL;
	cudaStream_t stream;
	void *mem;

	(void)arg;
	os_proc()->pid = 7;
	os_proc()->pid_space = 1000 + (uint64_t)rank;
	comm_buffers(rank, &mem, &stream, 4096);
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm, nranks, ranks_id(), rank));
	comm_sum(comm, rank, nranks, mem, stream, 100);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	comm_buffers_free(mem, stream);
}

START_TEST(equal_pids_in_two_namespaces_are_two_processes)
{
	for (uint64_t seed = 1; seed <= 3; seed++) {
		struct ranks_config c = {.hosts = 1, .per_host = 2, .seed = seed};

		ranks_run(&c, containers_rank, NULL);
	}
}
END_TEST

/* ---- one task, several ranks ---------------------------------------------------------------- */

static void sums_together(ncclComm_t *comm, int n, int32_t **mem, cudaStream_t *stream)
{
	int32_t host[8];
	for (int i = 0; i < n; i++) {
		EXPECT(cudaSetDevice(i) == cudaSuccess);
		EXPECT(cudaMalloc((void **)&mem[i], 64) == cudaSuccess);
		EXPECT(cudaStreamCreateWithFlags(&stream[i], cudaStreamNonBlocking) == cudaSuccess);
		host[0] = 1 + i;
		host[1] = 10 * i;
		EXPECT(cudaMemcpy(mem[i], host, 8, cudaMemcpyHostToDevice) == cudaSuccess);
	}
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	for (int i = 0; i < n; i++)
		EXPECT_NCCL(ncclSuccess, ncclAllReduce(mem[i], mem[i], 1, ncclInt32, ncclSum,
						       comm[i], stream[i]));
	EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
	for (int i = 0; i < n; i++)
		EXPECT_NCCL(ncclSuccess, ncclAllReduce(mem[i] + 1, mem[i] + 1, 1, ncclInt32,
						       ncclMax, comm[i], stream[i]));
	EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
	for (int i = 0; i < n; i++) {
		EXPECT(cudaSetDevice(i) == cudaSuccess);
		EXPECT(cudaStreamSynchronize(stream[i]) == cudaSuccess);
		EXPECT(cudaMemcpy(host, mem[i], 8, cudaMemcpyDeviceToHost) == cudaSuccess);
		EXPECT(host[0] == n * (n + 1) / 2 && host[1] == 10 * (n - 1));
		EXPECT(cudaStreamDestroy(stream[i]) == cudaSuccess);
		EXPECT(cudaFree(mem[i]) == cudaSuccess);
	}
}

static void init_all_task(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm[8];
	int32_t *mem[8];
	cudaStream_t stream[8];
	int dev = -1;
	EXPECT(cudaSetDevice(2) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommInitAll(comm, 8, NULL));
	EXPECT(cudaGetDevice(&dev) == cudaSuccess && dev == 2);
	sums_together(comm, 8, mem, stream);
	for (int i = 0; i < 8; i++)
		EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm[(3 * i) % 8]));
}

START_TEST(one_task_makes_uses_and_destroys_all_ranks)
{
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct ranks_config c = {.hosts = 1, .per_host = 1, .seed = seed};
		ranks_run(&c, init_all_task, NULL);
	}
}
END_TEST

static void init_group_task(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm[2], other[2];
	int32_t *mem[2];
	cudaStream_t stream[2];
	ncclUniqueId id, id2;
	EXPECT_NCCL(ncclSuccess, ncclGetUniqueId(&id));
	EXPECT_NCCL(ncclSuccess, ncclGetUniqueId(&id2));
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	for (int i = 0; i < 2; i++) {
		EXPECT(cudaSetDevice(i) == cudaSuccess);
		EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm[i], 2, id, i));
		EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&other[i], 2, id2, 1 - i));
	}
	EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
	sums_together(comm, 2, mem, stream);
	for (int i = 0; i < 2; i++) {
		EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm[i]));
		EXPECT_NCCL(ncclSuccess, ncclCommAbort(other[i]));
	}
}

START_TEST(a_group_makes_two_communicators_at_once)
{
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct ranks_config c = {.hosts = 1, .per_host = 1, .seed = seed};
		ranks_run(&c, init_group_task, NULL);
	}
}
END_TEST

static void init_group_fails_task(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t a = NULL, b = NULL;
	ncclUniqueId id;
	EXPECT_NCCL(ncclSuccess, ncclGetUniqueId(&id));
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&a, 2, id, 0));
	EXPECT_NCCL(ncclInvalidArgument, ncclCommInitRank(&b, 2, id, 2));
	EXPECT_ERROR_SAYS("rank is 2, expected 0 to 1");
	EXPECT_NCCL(ncclInvalidArgument, ncclGroupEnd());
	EXPECT(a == NULL && b == NULL);
	/* both ranks on one GPU; the id went with the group */
	EXPECT_NCCL(ncclSuccess, ncclGetUniqueId(&id));
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&a, 2, id, 0));
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&b, 2, id, 1));
	EXPECT_NCCL(ncclInvalidUsage, ncclGroupEnd());
	EXPECT_ERROR_SAYS("ranks 0 and 1 both use the GPU");
	EXPECT(a == NULL && b == NULL);
	EXPECT_NCCL(ncclInvalidUsage, ncclGroupEnd());
	EXPECT_ERROR_SAYS("no ncclGroupStart");
}

START_TEST(a_group_with_an_error_makes_nothing)
{
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct ranks_config c = {.hosts = 1, .per_host = 1, .seed = seed};
		ranks_run(&c, init_group_fails_task, NULL);
	}
}
END_TEST

/* ---- bad arguments -------------------------------------------------------------------------- */

static void init_arguments_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm = NULL;
	ncclUniqueId id, zero = {{0}};
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	int n, twice[2] = {1, 1};

	EXPECT_NCCL(ncclInvalidArgument, ncclGetVersion(NULL));
	EXPECT_NCCL(ncclSuccess, ncclGetVersion(&n));
	EXPECT(n == 22809);
	EXPECT_NCCL(ncclInvalidArgument, ncclGetUniqueId(NULL));
	EXPECT_NCCL(ncclSuccess, ncclGetUniqueId(&id));
	EXPECT_NCCL(ncclInvalidArgument, ncclCommInitRank(NULL, 1, id, 0));
	EXPECT_NCCL(ncclInvalidArgument, ncclCommInitRank(&comm, 0, id, 0));
	EXPECT_ERROR_SAYS("nranks is 0, expected at least 1");
	EXPECT_NCCL(ncclInvalidArgument, ncclCommInitRank(&comm, -1, id, 0));
	EXPECT_NCCL(ncclInvalidArgument, ncclCommInitRank(&comm, 2, id, -1));
	EXPECT_ERROR_SAYS("rank is -1, expected 0 to 1");
	EXPECT_NCCL(ncclInvalidArgument, ncclCommInitRank(&comm, 2, id, 2));
	EXPECT_NCCL(ncclInvalidArgument, ncclCommInitRank(&comm, 1, zero, 0));
	EXPECT_ERROR_SAYS("unique id");
	EXPECT(comm == NULL);
	config.magic = 1;
	EXPECT_NCCL(ncclInvalidArgument, ncclCommInitRankConfig(&comm, 1, id, 0, &config));
	EXPECT_ERROR_SAYS("NCCL_CONFIG_INITIALIZER");
	config = (ncclConfig_t)NCCL_CONFIG_INITIALIZER;
	config.blocking = 2;
	EXPECT_NCCL(ncclInvalidArgument, ncclCommInitRankConfig(&comm, 1, id, 0, &config));
	EXPECT_ERROR_SAYS("blocking is 2, expected 0 to 1");
	config.blocking = 1;
	config.minCTAs = 8;
	config.maxCTAs = 4;
	EXPECT_NCCL(ncclInvalidArgument, ncclCommInitRankConfig(&comm, 1, id, 0, &config));
	EXPECT_ERROR_SAYS("minCTAs");
	config.maxCTAs = 8;
	config.netName = "Socket";
	EXPECT_NCCL(ncclInvalidArgument, ncclCommInitRankConfig(&comm, 1, id, 0, &config));
	EXPECT_ERROR_SAYS("netName is 'Socket'");
	EXPECT_NCCL(ncclInvalidArgument, ncclCommInitAll(NULL, 2, NULL));
	EXPECT_NCCL(ncclInvalidArgument, ncclCommInitAll(&comm, 0, NULL));
	EXPECT_NCCL(ncclInvalidUsage, ncclCommInitAll(&comm, 9, NULL));
	EXPECT_ERROR_SAYS("device 8 of rank 8 does not exist");
	EXPECT_NCCL(ncclInvalidUsage, ncclCommInitAll(&comm, 2, twice));
	EXPECT_ERROR_SAYS("device 1 is listed for ranks 0 and 1");
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(NULL));
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(NULL));
	EXPECT_NCCL(ncclInvalidArgument, ncclCommFinalize(NULL));
	/* the same id, to the end */
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm, 1, id, 0));
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
}

START_TEST(init_names_what_is_wrong)
{
	struct ranks_config c = {.hosts = 1, .per_host = 1, .seed = 1};
	ranks_run(&c, init_arguments_rank, NULL);
}
END_TEST

static void coll_arguments_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm = NULL;
	cudaStream_t stream;
	void *mem, *other, *pinned;
	int n;
	int32_t on_host[4] = {0};
	ncclResult_t async;
	comm_buffers(rank, &mem, &stream, 4096);
	EXPECT(cudaSetDevice(1) == cudaSuccess);
	EXPECT(cudaMalloc(&other, 4096) == cudaSuccess);
	EXPECT(cudaSetDevice(0) == cudaSuccess);
	EXPECT(cudaHostAlloc(&pinned, 64, 0) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm, nranks, ranks_id(), rank));

	EXPECT_NCCL(ncclInvalidArgument,
		    ncclAllReduce(mem, mem, 4, ncclInt32, ncclSum, NULL, stream));
	EXPECT_ERROR_SAYS("ncclAllReduce: comm is NULL");
	EXPECT_NCCL(ncclInvalidArgument,
		    ncclAllReduce(NULL, mem, 4, ncclInt32, ncclSum, comm, stream));
	EXPECT_ERROR_SAYS("sendbuff is NULL");
	EXPECT_NCCL(ncclInvalidArgument,
		    ncclAllReduce(mem, NULL, 4, ncclInt32, ncclSum, comm, stream));
	EXPECT_ERROR_SAYS("recvbuff is NULL");
	EXPECT_NCCL(ncclInvalidArgument,
		    ncclAllReduce(mem, mem, 4, (ncclDataType_t)12, ncclSum, comm, stream));
	EXPECT_ERROR_SAYS("datatype is 12, expected 0 to 11");
	EXPECT_NCCL(ncclInvalidArgument,
		    ncclAllReduce(mem, mem, 4, (ncclDataType_t)-1, ncclSum, comm, stream));
	EXPECT_NCCL(ncclInvalidArgument,
		    ncclAllReduce(mem, mem, 4, ncclInt32, (ncclRedOp_t)5, comm, stream));
	EXPECT_ERROR_SAYS("op is 5, which was not made for this communicator, expected 0 to 4 or");
	EXPECT_NCCL(ncclInvalidArgument,
		    ncclAllReduce(mem, mem, SIZE_MAX / 2, ncclInt32, ncclSum, comm, stream));
	EXPECT_ERROR_SAYS("count is");
	EXPECT_NCCL(ncclInvalidArgument,
		    ncclAllReduce(mem, on_host, 4, ncclInt32, ncclSum, comm, stream));
	EXPECT_ERROR_SAYS("is host memory, expected memory of device 0");
	EXPECT_NCCL(ncclInvalidArgument,
		    ncclAllReduce(other, mem, 4, ncclInt32, ncclSum, comm, stream));
	EXPECT_ERROR_SAYS("is memory of device 1");
	EXPECT_NCCL(ncclInvalidArgument,
		    ncclAllReduce((char *)mem + 1, mem, 4, ncclInt32, ncclSum, comm, stream));
	EXPECT_ERROR_SAYS("not aligned");
	EXPECT_NCCL(ncclInvalidArgument,
		    ncclAllReduce((char *)mem + 4, mem, 4, ncclInt32, ncclSum, comm, stream));
	EXPECT_ERROR_SAYS("overlap");
	EXPECT_NCCL(ncclInvalidArgument, ncclCommCount(comm, NULL));
	EXPECT_NCCL(ncclInvalidArgument, ncclCommGetAsyncError(comm, NULL));
	EXPECT_NCCL(ncclInvalidArgument, ncclCommCount((ncclComm_t)(void *)on_host, &n));
	EXPECT_ERROR_SAYS("not a communicator of this process");
	/* none of this is an operation */
	EXPECT_NCCL(ncclSuccess, ncclAllReduce(NULL, NULL, 0, ncclInt32, ncclSum, comm, stream));
	comm_sum(comm, rank, nranks, mem, stream, 10);
	EXPECT_NCCL(ncclSuccess,
		    ncclAllReduce(pinned, pinned, 4, ncclInt32, ncclSum, comm, stream));

	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	EXPECT_NCCL(ncclInvalidArgument, ncclCommDestroy(comm));
	EXPECT_ERROR_SAYS("destroyed");
	EXPECT_NCCL(ncclInvalidArgument, ncclCommAbort(comm));
	EXPECT_NCCL(ncclInvalidArgument, ncclCommGetAsyncError(comm, &async));
	EXPECT_NCCL(ncclInvalidArgument,
		    ncclAllReduce(mem, mem, 4, ncclInt32, ncclSum, comm, stream));
	EXPECT(cudaFree(other) == cudaSuccess);
	comm_buffers_free(mem, stream);
	EXPECT(cudaFreeHost(pinned) == cudaSuccess);
}

START_TEST(collectives_name_what_is_wrong)
{
	struct ranks_config c = {.hosts = 1, .per_host = 1, .seed = 1};
	ranks_run(&c, coll_arguments_rank, NULL);
}
END_TEST

static void mismatch_rank(int32_t rank, int32_t nranks, void *arg)
{
	static const struct {
		size_t count;
		ncclDataType_t type;
		ncclRedOp_t op;
	} calls[] = {{4, ncclInt32, ncclSum},
		     {5, ncclInt32, ncclSum},
		     {4, ncclFloat32, ncclSum},
		     {4, ncclInt32, ncclMax},
		     {0, ncclInt32, ncclSum}};
	int which = rank == 1 ? *(int *)arg : 0;
	ncclComm_t comm = NULL;
	cudaStream_t stream;
	void *mem;
	comm_buffers(rank, &mem, &stream, 4096);
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm, nranks, ranks_id(), rank));
	if (rank == 1)
		ranks_barrier();
	ncclResult_t rc = ncclAllReduce(mem, mem, calls[which].count, calls[which].type,
					calls[which].op, comm, stream);
	if (rank == 0)
		ranks_barrier();
	EXPECT(rc == (rank == 1 ? ncclInvalidUsage : ncclSuccess));
	if (rank == 1) {
		EXPECT_ERROR_SAYS("ranks 1 and 0 disagree on operation 0 of communicator ");
		EXPECT_ERROR_SAYS(" at mismatch_rank+0x"); /* its own place, and */
		EXPECT_ERROR_SAYS("rank 0 called all_reduce count=4 type=int32 op=sum at "
				  "mismatch_rank+0x");
	}
	ranks_barrier();
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(comm));
	comm_buffers_free(mem, stream);
}

START_TEST(ranks_that_call_different_things_are_named)
{
	for (int which = 1; which < 5; which++) {
		struct ranks_config c = {.hosts = 1, .per_host = 2, .seed = 1};
		ranks_run(&c, mismatch_rank, &which);
		c.hosts = 2;
		c.per_host = 1;
		ranks_run(&c, mismatch_rank, &which);
	}
}
END_TEST

/* Two communicators of the same ranks, used in another order by rank 1. `calls` of each of them. */
struct order_case {
	int calls;
	bool grouped;
};

static ncclResult_t order_call(ncclComm_t comm, void *mem, cudaStream_t stream)
{
	return ncclAllReduce(mem, mem, 4, ncclInt32, ncclSum, comm, stream);
}

static void order_abort(void *arg)
{
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(arg));
}

static void order_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct os_thread_attr attr = {.name = "aborter", .rank = rank};
	struct os_thread *aborter;
	const struct order_case *o = arg;
	ncclComm_t comm[2] = {NULL, NULL};
	cudaStream_t stream;
	void *mem;
	comm_buffers(rank, &mem, &stream, 4096);
	ncclUniqueId first = ranks_id();
	ranks_barrier();
	ncclUniqueId second = ranks_id();
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm[0], nranks, first, rank));
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm[1], nranks, second, rank));
	if (rank == 1)
		ranks_barrier();
	if (o->grouped)
		EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	ncclResult_t rc = order_call(comm[rank == 1], mem, stream);
	if (o->calls == 2 && !rc)
		rc = order_call(comm[rank != 1], mem, stream);
	if (o->grouped)
		rc = ncclGroupEnd();
	if (rank == 0)
		ranks_barrier();
	EXPECT(rc == (rank == 1 ? ncclInvalidUsage : ncclSuccess));
	if (rank == 1) {
		EXPECT_ERROR_SAYS("disagree on the order of communicators: rank 1 launches "
				  "all_reduce, operation 0 of communicator ");
		EXPECT_ERROR_SAYS("called at order_"); /* the compiler may inline the call */
		EXPECT_ERROR_SAYS("where rank 0 of its communicator launched all_reduce, "
				  "operation 0 of communicator ");
	}
	ranks_barrier();
	/* together: closing the memory of either waits for what runs on the GPU */
	EXPECT(os_thread_start(&aborter, &attr, order_abort, comm[1]) == 0);
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(comm[0]));
	EXPECT(os_thread_join(aborter) == 0);
	comm_buffers_free(mem, stream);
}

START_TEST(ranks_that_use_communicators_in_another_order_are_named)
{
	for (int i = 0; i < 4; i++) {
		struct ranks_config c = {.hosts = 1 + i % 2u, .per_host = 2 - i % 2u, .seed = 1};
		struct order_case o = {.calls = 1 + i / 2, .grouped = i / 2};
		ranks_run(&c, order_rank, &o);
	}
}
END_TEST

/* The same order, in groups on one rank and one by one on the other; a third communicator, of rank
 * 0 alone, goes in between. */
static void order_same_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm[2] = {NULL, NULL}, own = NULL;
	ncclUniqueId id[2], alone;
	cudaStream_t stream;
	void *mem;
	(void)arg;
	comm_buffers(rank, &mem, &stream, 4096);
	for (int i = 0; i < 2; i++) {
		id[i] = ranks_id();
		ranks_barrier();
	}
	EXPECT_NCCL(ncclSuccess, ncclGetUniqueId(&alone));
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&own, 1, alone, 0));
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm[0], nranks, id[0], rank));
	if (rank == 0)
		EXPECT_NCCL(ncclSuccess, order_call(own, mem, stream));
	EXPECT_NCCL(ncclSuccess, order_call(comm[0], mem, stream));
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm[1], nranks, id[1], rank));
	for (int i = 0; i < 3; i++) {
		if (rank == 0)
			EXPECT_NCCL(ncclSuccess, ncclGroupStart());
		EXPECT_NCCL(ncclSuccess, order_call(comm[1], mem, stream));
		if (rank == 0 || i == 1)
			EXPECT_NCCL(ncclSuccess, order_call(own, mem, stream));
		EXPECT_NCCL(ncclSuccess, order_call(comm[0], mem, stream));
		if (rank == 0)
			EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
	}
	EXPECT(cudaStreamSynchronize(stream) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm[0]));
	ranks_barrier(); /* freeing the memory of one waits for the kernels of the other */
	EXPECT_NCCL(ncclSuccess, order_call(comm[1], mem, stream));
	EXPECT(cudaStreamSynchronize(stream) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm[1]));
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(own));
	comm_buffers_free(mem, stream);
}

START_TEST(communicators_that_all_use_in_one_order_are_fine)
{
	for (uint64_t seed = 1; seed <= 6; seed++) {
		struct ranks_config c = {.hosts = 1 + seed % 2,
					 .per_host = 2 - seed % 2,
					 .per_proc = 1 + (seed / 2) % 2,
					 .seed = seed};
		ranks_run(&c, order_same_rank, NULL);
	}
}
END_TEST

static void topo_file_rank(int32_t rank, int32_t nranks, void *arg)
{
	static const char *const says[] = {"/no/such/topology.xml cannot be read",
					   "NCCL_TOPO_FILE is not set"};
	int which = *(int *)arg;
	ncclComm_t comm[2] = {NULL};
	if (!which) /* a world whose configuration names it is not made */
		EXPECT(world_proc_setenv(os_proc(), "NCCL_TOPO_FILE", "/no/such/topology.xml") ==
		       0);
	ncclResult_t rc = ncclCommInitAll(comm, 2, NULL);
	EXPECT(rc == (which ? ncclInvalidUsage : ncclSystemError));
	EXPECT(comm[0] == NULL && comm[1] == NULL);
	EXPECT_ERROR_SAYS(says[which]);
	/* one rank needs no topology */
	EXPECT_NCCL(ncclSuccess, ncclCommInitAll(comm, 1, NULL));
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm[0]));
}

START_TEST(a_missing_topology_file_is_named)
{
	static const char *const none[] = {"NCCL_TOPO_FILE=", NULL};
	for (int which = 0; which < 2; which++) {
		struct ranks_config c = {
			.hosts = 1, .per_host = 1, .seed = 1, .env = which ? none : NULL};
		ranks_run(&c, topo_file_rank, &which);
	}
}
END_TEST

/* ---- aborts --------------------------------------------------------------------------------- */

struct abort_case {
	ncclComm_t comm;
	shared_u32 started;
	int32_t missing;
	uint64_t after_ns;
};

/* Comes from outside the task that is stuck. */
static void abort_task(void *arg)
{
	struct abort_case *c = arg;
	os_sleep_ns(c->after_ns);
	if (shared_load_u32(&c->started, SHARED_ACQUIRE) && c->comm)
		EXPECT_NCCL(ncclSuccess, ncclCommAbort(c->comm));
}

static void abort_init_rank(int32_t rank, int32_t nranks, void *arg)
{
	const struct abort_case *all = arg;
	struct abort_case c = {.after_ns = all->after_ns};
	struct os_thread_attr attr = {.name = "aborter", .rank = rank};
	struct os_thread *t;
	ncclUniqueId id = ranks_id();
	EXPECT(cudaSetDevice((int)comm_device(rank)) == cudaSuccess);
	if (rank == all->missing)
		return;
	shared_store_u32(&c.started, 1, SHARED_RELEASE);
	EXPECT(os_thread_start(&t, &attr, abort_task, &c) == 0);
	ncclResult_t rc = ncclCommInitRank(&c.comm, nranks, id, rank);
	EXPECT(rc == ncclInternalError || rc == ncclRemoteError);
	EXPECT(os_thread_join(t) == 0);
}

START_TEST(an_init_that_waits_for_a_missing_rank_can_be_aborted)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct ranks_config c = {
			.hosts = 2, .per_host = 2, .per_proc = 1 + seed % 2, .seed = seed};
		struct abort_case a = {.missing = 1 + (int32_t)(seed % 3), .after_ns = 1000000};
		ranks_run(&c, abort_init_rank, &a);
	}
}
END_TEST

/* One rank aborts at some moment of its init. Once it has checked in, the others come out by
 * themselves; before, they wait until their own watchdogs abort them. */
static void abort_one_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct abort_case *all = arg, c = {.after_ns = 50000000};
	struct os_thread_attr attr = {.name = "aborter", .rank = rank};
	struct os_thread *t = NULL;
	ncclUniqueId id = ranks_id();
	EXPECT(cudaSetDevice((int)comm_device(rank)) == cudaSuccess);
	if (rank == all->missing)
		c.after_ns = all->after_ns;
	shared_store_u32(&c.started, 1, SHARED_RELEASE);
	EXPECT(os_thread_start(&t, &attr, abort_task, &c) == 0);
	ncclResult_t rc = ncclCommInitRank(&c.comm, nranks, id, rank);
	/* a CUDA error: the memory of the one that left cannot be opened any more */
	EXPECT(rc == ncclSuccess || rc == ncclRemoteError || rc == ncclInternalError ||
	       rc == ncclUnhandledCudaError);
	if (rc == ncclRemoteError)
		shared_add_u32(&all->started, 1, SHARED_RELAXED);
	EXPECT(os_thread_join(t) == 0);
}

START_TEST(a_rank_that_aborts_its_init_ends_that_of_the_others)
{
	uint32_t told = 0;
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct ranks_config c = {.hosts = 1 + seed % 2,
					 .per_host = 2 + (seed / 2) % 2,
					 .per_proc = 1 + (seed / 4) % 3,
					 .seed = seed};
		struct abort_case a = {.missing = (int32_t)(seed % 2), .after_ns = 20000 * seed};
		ranks_run(&c, abort_one_rank, &a);
		told += shared_load_u32(&a.started, SHARED_RELAXED);
	}
	ck_assert_msg(told > 30, "only %u ranks were told that another left", told);
}
END_TEST

/* One rank does not take part; the kernels of the others hang until they are aborted. */
static void abort_collective_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm = NULL;
	cudaStream_t stream;
	ncclResult_t async;
	void *mem;
	comm_buffers(rank, &mem, &stream, 1 << 20);
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm, nranks, ranks_id(), rank));
	if (rank != nranks - 1)
		for (int i = 0; i < 3; i++)
			EXPECT_NCCL(ncclSuccess, ncclAllReduce(mem, mem, 1 << 18, ncclInt32,
							       ncclSum, comm, stream));
	EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(comm, &async));
	ranks_barrier();
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(comm));
	comm_buffers_free(mem, stream);
}

START_TEST(collectives_that_hang_can_be_aborted)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct ranks_config c = {.hosts = 1 + seed % 2,
					 .per_host = 2,
					 .per_proc = 1 + (seed / 2) % 2,
					 .seed = seed};
		ranks_run(&c, abort_collective_rank, NULL);
	}
	struct ranks_config c = {
		.hosts = 2, .per_host = 2, .per_proc = 2, .engine = SIM_ENGINE_THREADS};
	for (int i = 0; i < 3; i++)
		ranks_run(&c, abort_collective_rank, NULL);
}
END_TEST

/* ---- a launcher ------------------------------------------------------------------------------ */

/* Rank 0 makes the id and is in no communicator: all that its process ever calls. */
static void launcher_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclUniqueId id = ranks_id();
	cudaStream_t stream;
	ncclComm_t comm;
	void *mem;

	(void)arg;
	if (rank > 0) {
		comm_buffers(rank, &mem, &stream, 4096);
		EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm, nranks - 1, id, rank - 1));
		comm_sum(comm, rank - 1, nranks - 1, mem, stream, 10);
		EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
		comm_buffers_free(mem, stream);
	}
	ranks_barrier();
}

START_TEST(a_process_that_joins_nothing_leaves_nothing)
{
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct ranks_config c = {.hosts = 1, .per_host = 3, .seed = seed};
		ranks_run(&c, launcher_rank, NULL);
	}
	struct ranks_config c = {.hosts = 1, .per_host = 3, .engine = SIM_ENGINE_THREADS};
	for (int i = 0; i < 5; i++)
		ranks_run(&c, launcher_rank, NULL);
}
END_TEST

static Suite *comm_suite(void)
{
	Suite *s = suite_create("comm");
	TCase *t = tcase_create("comm");
	tcase_set_timeout(t, 120);
	tcase_add_test(t, communicators_live_in_every_split_over_hosts_and_processes);
	tcase_add_test(t, communicators_live_on_real_threads);
	tcase_add_test(t, hostid_splits_a_host);
	tcase_add_test(t, equal_pids_in_two_namespaces_are_two_processes);
	tcase_add_test(t, one_task_makes_uses_and_destroys_all_ranks);
	tcase_add_test(t, a_group_makes_two_communicators_at_once);
	tcase_add_test(t, a_group_with_an_error_makes_nothing);
	tcase_add_test(t, init_names_what_is_wrong);
	tcase_add_test(t, collectives_name_what_is_wrong);
	tcase_add_test(t, ranks_that_call_different_things_are_named);
	tcase_add_test(t, ranks_that_use_communicators_in_another_order_are_named);
	tcase_add_test(t, communicators_that_all_use_in_one_order_are_fine);
	tcase_add_test(t, a_missing_topology_file_is_named);
	tcase_add_test(t, an_init_that_waits_for_a_missing_rank_can_be_aborted);
	tcase_add_test(t, a_rank_that_aborts_its_init_ends_that_of_the_others);
	tcase_add_test(t, collectives_that_hang_can_be_aborted);
	tcase_add_test(t, a_process_that_joins_nothing_leaves_nothing);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return suite_run(comm_suite());
}
