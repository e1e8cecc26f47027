/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rank that the hang explainer names if a process has different ranks in two communicators that
 * share its proxy: the rank whose connection the proxy steps, not the one whose name its task has.
 */
#include <stdio.h>

#include "tests/sim/comm/comm_rank.h"
#include "tests/sim/lab/explain_run.h"
#include "tests/suite.h"

#define SHARED_COUNT 20000

static ncclUniqueId shared_id;

/* The second communicator has the ranks in the other order. It hangs when the link goes down; the
 * first one, which the tasks of the proxy have their names from, has nothing to do. */
static void shared_rank(int32_t rank, int32_t nranks, void *arg)
{
	int32_t other = nranks - 1 - rank;
	ncclComm_t first, second;
	cudaStream_t stream;
	void *mem;

	(void)arg;
	comm_buffers(rank, &mem, &stream, SHARED_COUNT * sizeof(int32_t));
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&first, nranks, ranks_id(), rank));
	comm_sum(first, rank, nranks, mem, stream, 100);
	if (rank == 0)
		EXPECT_NCCL(ncclSuccess, ncclGetUniqueId(&shared_id));
	ranks_barrier();
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&second, nranks, shared_id, other));
	for (;;) {
		EXPECT_NCCL(ncclSuccess, ncclAllReduce(mem, mem, SHARED_COUNT, ncclInt32, ncclSum,
						       second, stream));
		EXPECT(cudaStreamSynchronize(stream) == cudaSuccess);
	}
}

START_TEST(the_rank_whose_connection_the_proxy_steps_is_named)
{
	static const char *const env[] = {"NCCL_MAX_CTAS=1", "NCCL_IB_TIMEOUT=0", NULL};
	const struct ranks_config config = {.hosts = 2,
					    .per_host = 1,
					    .strategy = SIM_FIFO,
					    .seed = 1,
					    .env = env,
					    .fault_plan = "fabric.link host=1 after=50ms down\n"};
	const char *tasks, *why = explain_run(&config, shared_rank, NULL, &tasks);
	const char *proxy = strstr(why, " proxy progress channel 0 "), *host;
	int rank = -1, at = -1;

	ck_assert_msg(proxy && proxy[-1] >= '0' && proxy[-1] <= '1', "no proxy in:\n%s", why);
	rank = proxy[-1] - '0';
	host = strstr(proxy, "\n  <- host ");
	ck_assert_msg(host && sscanf(host, "\n  <- host %d mlx5_", &at) == 1, "no host in:\n%s",
		      why);
	/* rank 1 of the second communicator is on host 0 */
	ck_assert_msg(at == 1 - rank, "rank %d is not on host %d:\n%s", rank, at, why);
	/* each proxy has its name from the first communicator */
	for (rank = 0; rank < 2; rank++) {
		char line[64];

		snprintf(line, sizeof line, "    for rank %d: \"data from the peer\"", 1 - rank);
		ck_assert_msg(strstr(tasks, line), "no line '%s' in:\n%s", line, tasks);
	}
}
END_TEST

/* Rank 1 sends to rank 2 through rank 0 until the link goes down; the other two have nothing to
 * do. */
static void relayed_rank(int32_t rank, int32_t nranks, void *arg)
{
	cudaStream_t stream;
	ncclComm_t comm;
	void *mem;

	(void)arg;
	comm_buffers(rank, &mem, &stream, SHARED_COUNT * sizeof(int32_t));
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm, nranks, ranks_id(), rank));
	while (rank == 1 || rank == 2) {
		EXPECT_NCCL(ncclSuccess,
			    rank == 1 ? ncclSend(mem, SHARED_COUNT, ncclInt32, 2, comm, stream)
				      : ncclRecv(mem, SHARED_COUNT, ncclInt32, 1, comm, stream));
		EXPECT(cudaStreamSynchronize(stream) == cudaSuccess);
	}
	ranks_barrier();
}

START_TEST(the_relay_that_a_kernel_waits_for_is_named)
{
	static const char *const env[] = {"NCCL_IB_TIMEOUT=0", NULL};
	const struct ranks_config config = {.hosts = 2,
					    .per_host = 2,
					    .strategy = SIM_FIFO,
					    .seed = 1,
					    .env = env,
					    .fault_plan = "fabric.link host=1 after=120ms down\n"};
	const char *tasks, *why = explain_run(&config, relayed_rank, NULL, &tasks);

	ck_assert_msg(strstr(tasks, " at proxy send head by relay 0 of rank 1 peer 2 channel "),
		      "no relay in:\n%s\n%s", tasks, why);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("explain_proxy");
	TCase *t = tcase_create("explain_proxy");

	tcase_add_test(t, the_rank_whose_connection_the_proxy_steps_is_named);
	tcase_add_test(t, the_relay_that_a_kernel_waits_for_is_named);
	suite_add_tcase(s, t);
	return suite_run(s);
}
