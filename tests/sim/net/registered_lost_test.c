/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection of the bootstrap is reset while ranks exchange addresses of registered buffers. The
 * call that fails launches nothing, while other ranks may have launched theirs: no rank waits for
 * it without end, even if the program only destroys the communicator.
 */
#include <check.h>
#include <cuda_runtime_api.h>
#include <stdio.h>

#include "tests/sim/comm/comm_rank.h"
#include "tests/suite.h"

#define LOST_BYTES  50000u
#define LOST_ROUNDS 3
#define LOST_FIRST  100
#define LOST_LAST   220

struct lost {
	shared_u32 failed; /* calls of the reset's rank that failed */
};

/* Each rank sends to all others. */
static ncclResult_t lost_exchange(ncclComm_t comm, int32_t nranks, const char *send, char *recv,
				  cudaStream_t stream)
{
	ncclResult_t rc = ncclGroupStart(), end;

	for (int32_t r = 0; r < nranks && !rc; r++) {
		rc = ncclSend(send, LOST_BYTES, ncclInt8, r, comm, stream);
		rc = rc ? rc
			: ncclRecv(recv + r * LOST_BYTES, LOST_BYTES, ncclInt8, r, comm, stream);
	}
	end = ncclGroupEnd();
	return rc ? rc : end;
}

static ncclResult_t lost_wait(ncclComm_t comm, cudaStream_t stream)
{
	ncclResult_t async = ncclSuccess;

	while (cudaStreamQuery(stream) == cudaErrorNotReady && !async)
		EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(comm, &async));
	return async;
}

static ncclResult_t lost_rounds(ncclComm_t comm, int32_t nranks, char *mem, cudaStream_t stream)
{
	char *recv = mem + LOST_BYTES;
	void *handle = NULL;
	ncclResult_t rc = ncclCommRegister(comm, recv, (size_t)nranks * LOST_BYTES, &handle);

	for (int i = 0; i < LOST_ROUNDS && !rc; i++) {
		rc = lost_exchange(comm, nranks, mem, recv, stream);
		if (!rc)
			rc = lost_wait(comm, stream);
	}
	return rc;
}

static void lost_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct lost *l = arg;
	cudaStream_t stream;
	ncclComm_t comm = NULL;
	ncclResult_t rc;
	void *mem;

	EXPECT(cudaSetDevice((int)comm_device(rank)) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclMemAlloc(&mem, (size_t)(nranks + 1) * LOST_BYTES));
	EXPECT(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
	rc = ncclCommInitRank(&comm, nranks, ranks_id(), rank);
	if (!rc)
		rc = lost_rounds(comm, nranks, mem, stream);
	if (rc && comm && rank == 1)
		shared_add_u32(&l->failed, 1, SHARED_RELAXED);
	if (comm)
		(void)ncclCommDestroy(comm);
	EXPECT(cudaStreamSynchronize(stream) == cudaSuccess);
	EXPECT(cudaStreamDestroy(stream) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclMemFree(mem));
}

START_TEST(a_reset_in_the_exchange_of_registered_buffers_is_an_error_for_all)
{
	const char *const env[] = {"NCCL_LOCAL_REGISTER=1", NULL};
	struct lost l = {0};

	for (int nth = LOST_FIRST; nth <= LOST_LAST; nth++) {
		char plan[64];
		struct ranks_config c = {.hosts = 1,
					 .per_host = 3,
					 .seed = (uint64_t)nth,
					 .env = env,
					 .fault_plan = plan};

		snprintf(plan, sizeof plan, "os.socket rank=1 nth=%d reset\n", nth);
		ranks_run(&c, lost_rank, &l);
	}
	ck_assert_uint_gt(shared_load_u32(&l.failed, SHARED_RELAXED), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("registered_lost");
	TCase *t = tcase_create("reset");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, a_reset_in_the_exchange_of_registered_buffers_is_an_error_for_all);
	suite_add_tcase(s, t);
	return suite_run(s);
}
