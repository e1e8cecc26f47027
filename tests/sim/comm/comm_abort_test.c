/* SPDX-License-Identifier: BSD-3-Clause */
/* Aborts of inits and of collectives, by the rank and by others. */
#include <check.h>
#include <cuda_runtime_api.h>

#include "tests/sample.h"
#include "tests/sim/comm/comm_rank.h"
#include "tests/suite.h"

struct abort_case {
	ncclComm_t comm;
	shared_u32 started;
	int32_t missing;
	uint64_t after_ns;
	bool parks_late;
	ncclResult_t aborted; /* what ncclCommAbort returned */
};

/* Comes from outside the task that is stuck. An abort of another rank may end the init first: then
 * there is no communicator to abort. */
static void abort_task(void *arg)
{
	struct abort_case *c = arg;
	os_sleep_ns(c->after_ns);
	if (shared_load_u32(&c->started, SHARED_ACQUIRE) && c->comm)
		c->aborted = ncclCommAbort(c->comm);
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
	EXPECT(c.aborted == ncclSuccess ||
	       (c.aborted == ncclInvalidArgument && rc == ncclRemoteError));
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
	/* a CUDA error: the memory of the rank that left can no longer be opened */
	EXPECT(rc == ncclSuccess || rc == ncclRemoteError || rc == ncclInternalError ||
	       rc == ncclUnhandledCudaError);
	if (rc == ncclRemoteError)
		shared_add_u32(&all->started, 1, SHARED_RELAXED);
	EXPECT(os_thread_join(t) == 0);
	EXPECT(c.aborted == ncclSuccess || (c.aborted == ncclInvalidArgument && rc));
}

START_TEST(a_rank_that_aborts_its_init_ends_that_of_the_others)
{
	uint32_t reported = 0;
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct ranks_config c = {.hosts = 1 + seed % 2,
					 .per_host = 2 + (seed / 2) % 2,
					 .per_proc = 1 + (seed / 4) % 3,
					 .seed = seed};
		struct abort_case a = {.missing = (int32_t)(seed % 2), .after_ns = 20000 * seed};
		ranks_run(&c, abort_one_rank, &a);
		reported += shared_load_u32(&a.started, SHARED_RELAXED);
	}
	ck_assert_msg(reported > 30, "only %u ranks got an error that names another", reported);
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

/* In one process results go straight into the other ranks' buffers. One rank aborts while they
 * come, and frees its buffer; the others, whose kernels may be about to write there, abort
 * later. */
static void freed_rank(int32_t rank, int32_t nranks, void *arg)
{
	const uint64_t seed = *(const uint64_t *)arg;
	const int32_t aborts = (int32_t)(seed % (uint64_t)nranks);
	const size_t n = 1 << 20;
	ncclUniqueId id = ranks_id();
	cudaStream_t stream;
	uint8_t *mem;
	ncclComm_t comm;

	comm_buffers(rank, (void **)&mem, &stream, n * (size_t)nranks);
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm, nranks, id, rank));
	ranks_barrier();
	if (seed % 3 == 0)
		EXPECT_NCCL(ncclSuccess,
			    ncclAllReduce(mem, mem, n / 4, ncclInt32, ncclSum, comm, stream));
	else if (seed % 3 == 1)
		EXPECT_NCCL(ncclSuccess,
			    ncclAllGather(mem + n * (size_t)rank, mem, n, ncclInt8, comm, stream));
	else
		EXPECT_NCCL(ncclSuccess, ncclBroadcast(mem, mem, n, ncclInt8, (aborts + 1) % nranks,
						       comm, stream));
	if (rank == aborts) {
		os_sleep_ns(1000 * (seed * 13 % 100));
		EXPECT_NCCL(ncclSuccess, ncclCommAbort(comm));
		EXPECT(cudaFree(mem) == cudaSuccess);
	}
	ranks_barrier();
	if (rank != aborts) {
		EXPECT_NCCL(ncclSuccess, ncclCommAbort(comm));
		EXPECT(cudaDeviceSynchronize() == cudaSuccess);
		EXPECT(cudaFree(mem) == cudaSuccess);
	}
	EXPECT(cudaStreamDestroy(stream) == cudaSuccess);
}

START_TEST(a_rank_that_aborts_a_collective_may_free_its_buffer)
{
	static const char *const simple[] = {"NCCL_PROTO=Simple", "NCCL_ALGO=Ring",
					     "NCCL_MAX_NCHANNELS=2", "NCCL_BUFFSIZE=262144", NULL};

	for (uint64_t seed = 1; seed <= 90; seed += SAMPLE_THIN) {
		struct ranks_config config = {.hosts = 1,
					      .per_host = 2 + seed % 2,
					      .per_proc = 2 + seed % 2,
					      .seed = seed,
					      .env = simple};

		ranks_run(&config, freed_rank, &seed);
	}
}
END_TEST

/* Rank 3 has ended and waits for rank 2 of its process, which connects to rank 0, which aborts. The
 * ring shows it to rank 3 alone, where no task of rank 3 looks. */
static void abort_past_parked_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct abort_case *all = arg, c = {.after_ns = all->after_ns};
	struct os_thread_attr attr = {.name = "aborter", .rank = rank};
	ncclResult_t rc, state = ncclSuccess;
	struct os_thread *t = NULL;
	cudaStream_t stream;
	void *mem;

	comm_buffers(rank, &mem, &stream, 4096);
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&c.comm, nranks, ranks_id(), rank));
	ranks_barrier();
	if (rank == 0) {
		shared_store_u32(&c.started, 1, SHARED_RELEASE);
		EXPECT(os_thread_start(&t, &attr, abort_task, &c) == 0);
		(void)ncclSend(mem, 8, ncclInt8, 2, c.comm, stream);
		EXPECT(os_thread_join(t) == 0);
		EXPECT(c.aborted == ncclSuccess);
	} else if (rank == 3) {
		os_sleep_ns(all->parks_late ? 10000000 : 0); /* after rank 2 waits, or before */
		EXPECT_NCCL(ncclSuccess, ncclCommDestroy(c.comm));
	} else {
		rc = rank == 1 ? ncclSuccess : ncclRecv(mem, 8, ncclInt8, 0, c.comm, stream);
		EXPECT(rc == ncclSuccess || rc == ncclRemoteError);
		while (state == ncclSuccess)
			EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(c.comm, &state));
		EXPECT(state == ncclRemoteError);
		EXPECT_NCCL(ncclSuccess, ncclCommAbort(c.comm));
	}
	comm_buffers_free(mem, stream);
}

START_TEST(an_abort_is_passed_on_by_a_rank_that_has_ended)
{
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct ranks_config c = {.hosts = 2, .per_host = 2, .per_proc = 2, .seed = seed};
		struct abort_case a = {.after_ns = 10000 * seed, .parks_late = _i};

		ranks_run(&c, abort_past_parked_rank, &a);
	}
}
END_TEST

/* Rank 0 has a kernel of another communicator on its GPU, which waits for rank 1. CUDA closes a
 * peer's memory after that kernel, and rank 1 launches its own after the abort. */
struct abort_beside {
	ncclUniqueId id[2];
};

static void abort_beside_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct abort_beside *c = arg;
	ncclComm_t comm[2];
	cudaStream_t stream;
	uint64_t begin_ns;
	int32_t *mem;

	comm_buffers(rank, (void **)&mem, &stream, 256);
	for (int i = 0; i < 2; i++) {
		if (rank == 0)
			EXPECT_NCCL(ncclSuccess, ncclGetUniqueId(&c->id[i]));
		ranks_barrier();
		comm[i] = comm_open(rank, nranks, c->id[i]);
		comm_sum(comm[i], rank, nranks, mem, stream, 64);
	}
	if (rank == 0)
		EXPECT_NCCL(ncclSuccess,
			    ncclAllReduce(mem, mem, 64, ncclInt32, ncclSum, comm[1], stream));
	ranks_barrier();
	begin_ns = os_now_ns();
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(comm[0]));
	EXPECT(os_now_ns() - begin_ns < 3000000000ull);
	ranks_barrier();
	if (rank == 1)
		EXPECT_NCCL(ncclSuccess,
			    ncclAllReduce(mem, mem, 64, ncclInt32, ncclSum, comm[1], stream));
	EXPECT(cudaStreamSynchronize(stream) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm[1]));
	comm_buffers_free(mem, stream);
}

START_TEST(an_abort_does_not_wait_for_kernels_of_another_communicator)
{
	static const char *const ipc[] = {"NCCL_CUMEM_ENABLE=0", NULL};

	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct ranks_config c = {.hosts = 1, .per_host = 2, .per_proc = 1, .seed = seed};
		struct abort_beside a = {0};

		c.env = _i ? NULL : ipc;
		ranks_run(&c, abort_beside_rank, &a);
	}
}
END_TEST

/* One rank aborts long before the others, which have its memory open and notice nothing. */
static void abort_early_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm = comm_open(rank, nranks, ranks_id());
	cudaStream_t stream;
	uint64_t begin_ns;
	int32_t *mem;

	(void)arg;
	comm_buffers(rank, (void **)&mem, &stream, 256);
	comm_sum(comm, rank, nranks, mem, stream, 64);
	if (rank != 1)
		os_sleep_ns(60000000000ull);
	begin_ns = os_now_ns();
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(comm));
	EXPECT(os_now_ns() - begin_ns < 500000000ull);
	comm_buffers_free(mem, stream);
}

START_TEST(an_abort_does_not_wait_for_ranks_that_stay)
{
	static const char *const ipc[] = {"NCCL_CUMEM_ENABLE=0", NULL};

	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct ranks_config c = {.hosts = 1 + seed % 2,
					 .per_host = 2,
					 .per_proc = 1 + seed / 2 % 2,
					 .seed = seed};

		c.env = _i ? NULL : ipc;
		ranks_run(&c, abort_early_rank, NULL);
	}
}
END_TEST

static Suite *comm_abort_suite(void)
{
	Suite *s = suite_create("comm_abort");
	TCase *t = tcase_create("comm_abort");
	tcase_set_timeout(t, 120);
	tcase_add_test(t, an_init_that_waits_for_a_missing_rank_can_be_aborted);
	tcase_add_test(t, a_rank_that_aborts_its_init_ends_that_of_the_others);
	tcase_add_test(t, collectives_that_hang_can_be_aborted);
	tcase_add_test(t, a_rank_that_aborts_a_collective_may_free_its_buffer);
	tcase_add_loop_test(t, an_abort_is_passed_on_by_a_rank_that_has_ended, 0, 2);
	tcase_add_loop_test(t, an_abort_does_not_wait_for_kernels_of_another_communicator, 0, 2);
	tcase_add_loop_test(t, an_abort_does_not_wait_for_ranks_that_stay, 0, 2);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return suite_run(comm_abort_suite());
}
