/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends and receives that fail: arguments, ends that do not match, a connection that cannot be
 * made, and aborts, after which the buffer may be freed.
 */
#include <check.h>
#include <cuda_runtime_api.h>

#include "tests/sample.h"
#include "tests/sim/comm/comm_rank.h"
#include "tests/suite.h"

/* ---- errors --------------------------------------------------------------------------------- */

static void bad_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm = comm_open(rank, nranks, ranks_id());
	char host[64];
	uint8_t *mem;

	(void)arg;
	EXPECT(cudaMalloc((void **)&mem, 4096) == cudaSuccess);
	EXPECT_NCCL(ncclInvalidArgument, ncclSend(mem, 1, ncclInt8, nranks, comm, NULL));
	EXPECT_ERROR_SAYS("ncclSend: peer is 2, expected 0 to 1");
	EXPECT_NCCL(ncclInvalidArgument, ncclRecv(mem, 1, ncclInt8, -1, comm, NULL));
	EXPECT_ERROR_SAYS("ncclRecv: peer is -1, expected 0 to 1");
	EXPECT_NCCL(ncclInvalidArgument, ncclSend(NULL, 1, ncclInt8, 0, comm, NULL));
	EXPECT_ERROR_SAYS("ncclSend: sendbuff is NULL");
	EXPECT_NCCL(ncclInvalidArgument, ncclRecv(NULL, 1, ncclInt8, 0, comm, NULL));
	EXPECT_ERROR_SAYS("ncclRecv: recvbuff is NULL");
	EXPECT_NCCL(ncclInvalidArgument, ncclSend(host, 1, ncclInt8, 0, comm, NULL));
	EXPECT_ERROR_SAYS("ncclSend: sendbuff");
	EXPECT_NCCL(ncclInvalidArgument, ncclSend(mem, 1, (ncclDataType_t)99, 0, comm, NULL));
	EXPECT_ERROR_SAYS("ncclSend: datatype is 99");
	EXPECT_NCCL(ncclInvalidArgument, ncclSend(mem, SIZE_MAX / 2, ncclInt32, 0, comm, NULL));
	EXPECT_ERROR_SAYS("are more than memory");
	EXPECT_NCCL(ncclInvalidArgument, ncclAlltoAll(mem, mem + 4, 8, ncclInt8, comm, NULL));
	EXPECT_ERROR_SAYS("ncclAlltoAll: sendbuff");
	EXPECT_ERROR_SAYS("overlap, expected different memory, or the same (in place)");
	EXPECT_NCCL(ncclInvalidArgument, ncclGather(mem, mem + 4, 8, ncclInt8, rank, comm, NULL));
	EXPECT_ERROR_SAYS("overlap");
	EXPECT_NCCL(ncclInvalidArgument, ncclScatter(mem, mem, 8, ncclInt8, 7, comm, NULL));
	EXPECT_ERROR_SAYS("ncclScatter: root is 7, expected 0 to 1");
	EXPECT_NCCL(ncclInvalidArgument, ncclSend(mem, 1, ncclInt8, 0, NULL, NULL));
	EXPECT_ERROR_SAYS("comm is NULL");
	/* to oneself, with no receive in the group */
	EXPECT_NCCL(ncclInvalidUsage, ncclSend(mem, 1, ncclInt8, rank, comm, NULL));
	EXPECT_ERROR_SAYS("has 1 sends to itself and 0 receives from itself in one group");
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	EXPECT_NCCL(ncclSuccess, ncclSend(mem, 1, ncclInt8, rank, comm, NULL));
	EXPECT_NCCL(ncclSuccess, ncclRecv(mem + 64, 2, ncclInt8, rank, comm, NULL));
	EXPECT_NCCL(ncclInvalidUsage, ncclGroupEnd());
	EXPECT_ERROR_SAYS("expected the same of both");
	/* a call that fails drops the whole group */
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	EXPECT_NCCL(ncclSuccess, ncclSend(mem, 1, ncclInt8, 1 - rank, comm, NULL));
	EXPECT_NCCL(ncclInvalidArgument, ncclRecv(mem, 1, ncclInt8, 5, comm, NULL));
	EXPECT_NCCL(ncclInvalidArgument, ncclGroupEnd());
	/* and none of it has left anything: the communicator works */
	EXPECT_NCCL(ncclSuccess, ncclAlltoAll(mem, mem + 64, 8, ncclInt8, comm, NULL));
	EXPECT(cudaDeviceSynchronize() == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	EXPECT(cudaFree(mem) == cudaSuccess);
}

START_TEST(bad_arguments_are_named)
{
	struct ranks_config config = {.hosts = 1, .per_host = 2, .seed = 1};

	ranks_run(&config, bad_rank, NULL);
}
END_TEST

/* Rank 1 receives another message than rank 0 sends: the rank that comes second detects it, and
 * aborts both. */
static void mismatch_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm = comm_open(rank, nranks, ranks_id());
	ncclResult_t rc;
	uint8_t *mem;

	(void)arg;
	EXPECT(cudaMalloc((void **)&mem, 4096) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	rc = rank ? ncclRecv(mem, 2, ncclInt32, 0, comm, NULL)
		  : ncclSend(mem, 3, ncclInt32, 1, comm, NULL);
	EXPECT(rc == ncclSuccess);
	rc = ncclGroupEnd();
	if (rc == ncclInvalidUsage) {
		EXPECT_ERROR_SAYS("disagree on message 0 from rank 0 to rank 1");
		EXPECT_ERROR_SAYS("count=3 type=int32");
		EXPECT_ERROR_SAYS("count=2 type=int32");
	} else {
		EXPECT(rc != ncclSuccess); /* the other rank has left */
	}
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(comm));
	EXPECT(cudaFree(mem) == cudaSuccess);
}

START_TEST(a_message_that_its_receiver_does_not_expect_is_named)
{
	for (uint64_t seed = 1; seed <= 4; seed += SAMPLE_THIN) {
		struct ranks_config config = {
			.hosts = 1 + (uint32_t)(seed % 2), .per_host = 2, .seed = seed};

		config.per_host = config.hosts == 2 ? 1 : 2;
		ranks_run(&config, mismatch_rank, NULL);
	}
}
END_TEST

/* Rank 1 has no memory for its end of the connection: both ranks learn of it, and the communicator
 * has failed. */
static void no_memory_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm = comm_open(rank, nranks, ranks_id());
	ncclResult_t error;
	uint8_t *mem;

	(void)arg;
	EXPECT(cudaMalloc((void **)&mem, 4096) == cudaSuccess);
	ranks_barrier(); /* rank 1 aborts after rank 0's init */
	EXPECT_NCCL(rank ? ncclUnhandledCudaError : ncclRemoteError,
		    rank ? ncclRecv(mem, 9, ncclInt8, 0, comm, NULL)
			 : ncclSend(mem, 9, ncclInt8, 1, comm, NULL));
	/* by its empty message, or by the end of the ring, which may come first */
	if (rank == 0)
		EXPECT_ERROR_SAYS("rank 0: rank 1 ");
	EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(comm, &error));
	EXPECT(error == (rank ? ncclUnhandledCudaError : ncclRemoteError));
	EXPECT_NCCL(error, ncclSend(mem, 9, ncclInt8, 1 - rank, comm, NULL));
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(comm));
	EXPECT(cudaFree(mem) == cudaSuccess);
}

START_TEST(a_rank_that_cannot_connect_is_named)
{
	static const char *const ring[] = {"NCCL_ALGO=Ring", "NCCL_PROTO=Simple", NULL};

	for (uint64_t seed = 1; seed <= 4; seed += SAMPLE_THIN) {
		uint64_t fired = 0;
		struct ranks_config config = {
			.hosts = 1,
			.per_host = 2,
			.seed = seed,
			/* after the ring's pool */
			.fault_plan = "cuda.cu_mem_create rank=1 nth=2 fail\n",
			.fired = &fired,
			.env = ring,
		};

		ranks_run(&config, no_memory_rank, NULL);
		EXPECT(fired == 1);
	}
}
END_TEST

/* ---- abort ---------------------------------------------------------------------------------- */

struct abort_case {
	bool connected; /* rank 1 receives one message first, so that a kernel waits for the next */
};

static void abort_task(void *arg)
{
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(arg));
}

/* Rank 1 never receives. Rank 0 waits in the set-up of the connection, or its kernel waits for
 * credit, until another task aborts it. */
static void abort_rank(int32_t rank, int32_t nranks, void *arg)
{
	const struct abort_case *c = arg;
	ncclComm_t comm = comm_open(rank, nranks, ranks_id());
	struct os_thread_attr attr = {.name = "aborter", .rank = rank};
	struct os_thread *aborter;
	size_t bytes = 16 << 20;
	cudaStream_t stream;
	uint8_t *mem;

	comm_buffers(rank, (void **)&mem, &stream, bytes);
	ranks_barrier(); /* every init is complete */
	if (c->connected) {
		EXPECT_NCCL(ncclSuccess, rank ? ncclRecv(mem, 9, ncclInt8, 0, comm, stream)
					      : ncclSend(mem, 9, ncclInt8, 1, comm, stream));
		EXPECT(cudaStreamSynchronize(stream) == cudaSuccess);
		ranks_barrier();
	}
	if (rank == 0) {
		EXPECT(os_thread_start(&aborter, &attr, abort_task, comm) == 0);
		(void)ncclSend(mem, bytes, ncclInt8, 1, comm, stream);
		os_thread_join(aborter);
	} else {
		EXPECT_NCCL(ncclSuccess, ncclCommAbort(comm));
	}
	comm_buffers_free(mem, stream);
}

START_TEST(an_abort_ends_sends_that_nothing_receives)
{
	for (uint64_t seed = 1; seed <= 12; seed += SAMPLE_THIN) {
		struct abort_case c = {.connected = seed % 2};
		struct ranks_config config = {.hosts = seed % 3 ? 2 : 1, .seed = seed};

		config.per_host = config.hosts == 2 ? 1 : 2;
		ranks_run(&config, abort_rank, &c);
	}
}
END_TEST

/* Rank 1 aborts while its message comes, and frees the buffer; rank 0, whose kernel may be about to
 * write there, aborts later. */
static void freed_rank(int32_t rank, int32_t nranks, void *arg)
{
	const uint64_t *seed = arg;
	ncclComm_t comm = comm_open(rank, nranks, ranks_id());
	const size_t bytes = 4 << 20;
	cudaStream_t stream;
	uint8_t *mem;

	comm_buffers(rank, (void **)&mem, &stream, bytes);
	for (size_t n = 9; n <= bytes; n += bytes - 9) { /* the first one connects */
		EXPECT_NCCL(ncclSuccess, rank ? ncclRecv(mem, n, ncclInt8, 0, comm, stream)
					      : ncclSend(mem, n, ncclInt8, 1, comm, stream));
		if (n == 9)
			EXPECT(cudaStreamSynchronize(stream) == cudaSuccess);
	}
	if (rank == 1) {
		os_sleep_ns(1000 * (*seed * 13 % 100));
		EXPECT_NCCL(ncclSuccess, ncclCommAbort(comm));
		EXPECT(cudaFree(mem) == cudaSuccess);
	}
	ranks_barrier();
	if (rank == 0) {
		EXPECT_NCCL(ncclSuccess, ncclCommAbort(comm));
		EXPECT(cudaDeviceSynchronize() == cudaSuccess);
		EXPECT(cudaFree(mem) == cudaSuccess);
	}
	EXPECT(cudaStreamDestroy(stream) == cudaSuccess);
}

START_TEST(a_rank_that_aborts_may_free_its_buffer)
{
	static const char *const simple[] = {"NCCL_PROTO=Simple", "NCCL_MAX_NCHANNELS=2", NULL};

	for (uint64_t seed = 1; seed <= 60; seed += SAMPLE_THIN) {
		struct ranks_config config = {
			.hosts = 1, .per_host = 2, .per_proc = 2, .seed = seed, .env = simple};

		ranks_run(&config, freed_rank, &seed);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("send_recv_errors");
	TCase *tc = tcase_create("send_recv_errors");

	tcase_add_test(tc, bad_arguments_are_named);
	tcase_add_test(tc, a_message_that_its_receiver_does_not_expect_is_named);
	tcase_add_test(tc, a_rank_that_cannot_connect_is_named);
	tcase_add_test(tc, an_abort_ends_sends_that_nothing_receives);
	tcase_add_test(tc, a_rank_that_aborts_may_free_its_buffer);
	suite_add_tcase(s, tc);
	return suite_run(s);
}
