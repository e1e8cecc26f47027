/* SPDX-License-Identifier: BSD-3-Clause */
/* HCAs that refuse to register GPU memory: the buffers of network connections move to host memory. */
#include <check.h>

#include "tests/sim/comm_rank.h"
#include "tests/suite.h"

static void sum_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm = NULL;
	cudaStream_t stream;
	void *mem;

	(void)arg;
	comm_buffers(rank, &mem, &stream, 4096);
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm, nranks, ranks_id(), rank));
	for (int i = 0; i < 3; i++)
		comm_sum(comm, rank, nranks, mem, stream, 1000);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	comm_buffers_free(mem, stream);
}

/* The words of an error that one rank gets; the other fails with it. */
static void refused_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm = NULL;
	ncclUniqueId id = ranks_id();

	EXPECT(cudaSetDevice((int)comm_device(rank)) == cudaSuccess);
	EXPECT_NCCL(rank == 0 ? ncclSystemError : ncclRemoteError,
		    ncclCommInitRank(&comm, nranks, id, rank));
	if (rank == 0)
		EXPECT_ERROR_SAYS((const char *)arg);
	EXPECT(!comm);
}

static void run(const char *plan, const char *machine,
		void (*fn)(int32_t rank, int32_t nranks, void *arg), void *arg)
{
	static const char *const env[] = {"NCCL_MAX_CTAS=2", NULL};
	uint64_t fired = 0;
	struct ranks_config c = {.hosts = 2,
				 .per_host = 1,
				 .machine = machine,
				 .env = env,
				 .fault_plan = plan,
				 .fired = &fired};

	ranks_run(&c, fn, arg);
	ck_assert_uint_gt(fired, 0);
}

/* The third registration of rank 0 is the buffer of its first connection; on sm 80 that is flushed. */
START_TEST(a_buffer_that_the_hca_refuses_moves_to_host_memory)
{
	static const char *const refusal[] = {"EFAULT", "ENODEV", "EINVAL", "EOPNOTSUPP"};
	static const char *const machine[] = {"a100-4nic", "h100-8nic"};
	char plan[96];

	for (size_t i = 0; i < ARRAY_LEN(refusal); i++)
		for (size_t m = 0; m < ARRAY_LEN(machine); m++) {
			snprintf(plan, sizeof plan, "verbs.reg_mr rank=0 nth=3 fail errno=%s\n",
				 refusal[i]);
			run(plan, machine[m], sum_rank, NULL);
		}
}
END_TEST

START_TEST(too_little_locked_memory_is_an_error_that_names_the_limit)
{
	static char words[] = "of GPU memory on device mlx5_0 failed: Cannot allocate memory (the "
			      "limit of locked memory, ulimit -l";

	run("verbs.reg_mr rank=0 nth=3 fail errno=ENOMEM\n", "a100-4nic", refused_rank, words);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("host_staging");
	TCase *t = tcase_create("registration");

	tcase_add_test(t, a_buffer_that_the_hca_refuses_moves_to_host_memory);
	tcase_add_test(t, too_little_locked_memory_is_an_error_that_names_the_limit);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
