/* SPDX-License-Identifier: BSD-3-Clause */
/* Arguments of ncclCommRegister and ncclCommDeregister. */
#include <check.h>
#include <cuda_runtime_api.h>

#include "tests/sample.h"
#include "tests/sim/comm/comm_rank.h"
#include "tests/suite.h"

/* ---- arguments ------------------------------------------------------------------------------- */

static void arguments_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm = comm_open(rank, nranks, ranks_id());
	void *handle = &comm, *mem = NULL, *plain = NULL;
	char host[16];

	(void)arg;
	/* as cudaMalloc and cudaFree */
	EXPECT_NCCL(ncclSuccess, ncclMemAlloc(&handle, 0));
	EXPECT(!handle);
	EXPECT_NCCL(ncclSuccess, ncclMemFree(NULL));
	EXPECT_NCCL(ncclInvalidArgument, ncclMemAlloc(NULL, 0));
	EXPECT_ERROR_SAYS("ncclMemAlloc: ptr is NULL");
	handle = &comm;
	EXPECT_NCCL(ncclSuccess, ncclMemAlloc(&mem, 4096));
	EXPECT(cudaMalloc(&plain, 4096) == cudaSuccess);
	EXPECT_NCCL(ncclInvalidArgument, ncclCommRegister(comm, mem, 4096, NULL));
	EXPECT_ERROR_SAYS("handle is NULL");
	EXPECT_NCCL(ncclInvalidArgument, ncclCommRegister(comm, NULL, 4096, &handle));
	EXPECT(!handle);
	EXPECT_ERROR_SAYS("expected a buffer of one byte or more");
	EXPECT_NCCL(ncclInvalidArgument, ncclCommRegister(comm, mem, 0, &handle));
	EXPECT_NCCL(ncclInvalidArgument, ncclCommRegister(comm, host, sizeof host, &handle));
	EXPECT_ERROR_SAYS("ncclCommRegister: buff");
	EXPECT_NCCL(ncclInvalidArgument, ncclCommRegister(NULL, mem, 4096, &handle));
	EXPECT_NCCL(ncclInvalidArgument, ncclCommDeregister(comm, host));
	EXPECT_ERROR_SAYS("is not a registration of this communicator");
	EXPECT_NCCL(ncclSuccess, ncclCommRegister(comm, mem, 4096, &handle));
	EXPECT(handle);
	EXPECT_NCCL(ncclSuccess, ncclCommDeregister(comm, handle));
	EXPECT_NCCL(ncclInvalidArgument, ncclCommDeregister(comm, handle));
	/* without effect */
	EXPECT_NCCL(ncclSuccess, ncclCommRegister(comm, plain, 4096, &handle));
	EXPECT(!handle);
	EXPECT_NCCL(ncclSuccess, ncclCommDeregister(comm, handle));
	EXPECT(cudaFree(plain) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclMemFree(mem));
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
}

START_TEST(arguments_are_checked)
{
	ranks_run(&(struct ranks_config){.hosts = 1, .per_host = 2, .seed = 5}, arguments_rank,
		  NULL);
}
END_TEST

static void no_effect_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm = comm_open(rank, nranks, ranks_id());
	void *handle = &comm, *mem = NULL;

	(void)arg;
	EXPECT_NCCL(ncclSuccess, ncclMemAlloc(&mem, 4096));
	EXPECT_NCCL(ncclSuccess, ncclCommRegister(comm, mem, 4096, &handle));
	EXPECT(!handle);
	EXPECT_NCCL(ncclSuccess, ncclCommDeregister(comm, handle));
	EXPECT_NCCL(ncclSuccess, ncclMemFree(mem));
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
}

/* Without a rank of another process on NVLink, or on request. */
START_TEST(registration_without_effect_has_no_handle)
{
	static const char *const off[] = {"NCCL_LOCAL_REGISTER=0", NULL};
	static const char *const staged[] = {"NCCL_P2P_DIRECT_DISABLE=1", NULL};

	ranks_run(&(struct ranks_config){.hosts = 1, .per_host = 2, .env = off}, no_effect_rank,
		  NULL);
	ranks_run(&(struct ranks_config){.hosts = 1, .per_host = 2, .env = staged}, no_effect_rank,
		  NULL);
	ranks_run(&(struct ranks_config){.hosts = 2, .per_host = 1}, no_effect_rank, NULL);
	ranks_run(&(struct ranks_config){.hosts = 1, .per_host = 2, .per_proc = 2}, no_effect_rank,
		  NULL);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("registered");
	TCase *t = tcase_create("registered");

	tcase_set_timeout(t, 0);
	tcase_add_test(t, arguments_are_checked);
	tcase_add_test(t, registration_without_effect_has_no_handle);
	suite_add_tcase(s, t);
	return suite_run(s);
}
