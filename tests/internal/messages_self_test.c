/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A group of many messages to oneself: the plan looks at each of them a fixed number of times. The
 * looks are counted, since plan_message_is_to_self, which finds these messages, is wrapped here
 * (tests/CMakeLists.txt).
 */
#include <check.h>
#include <cuda_runtime_api.h>

#include "core/plan/messages.h"
#include "tests/sim/comm/comm_rank.h"
#include "tests/suite.h"

#define MOST 2000

static uint64_t looks;

bool __real_plan_message_is_to_self(const struct ncclComm *comm,
				    const struct plan_queued_message *m);
bool __wrap_plan_message_is_to_self(const struct ncclComm *comm,
				    const struct plan_queued_message *m);

bool __wrap_plan_message_is_to_self(const struct ncclComm *comm,
				    const struct plan_queued_message *m)
{
	looks++;
	return __real_plan_message_is_to_self(comm, m);
}

enum order { SEND_THEN_RECV, ALL_SENDS_FIRST, ALL_RECVS_FIRST, ORDERS };

/* Message i moves element i of the first half of `mem` to the second half. */
static void self_call(ncclComm_t comm, int32_t rank, int32_t *mem, int n, int i, bool sends)
{
	EXPECT_NCCL(ncclSuccess, sends ? ncclSend(mem + i, 1, ncclInt32, rank, comm, NULL)
				       : ncclRecv(mem + n + i, 1, ncclInt32, rank, comm, NULL));
}

static void self_queue(ncclComm_t comm, int32_t rank, int32_t *mem, int n, enum order order)
{
	if (order == SEND_THEN_RECV) {
		for (int i = 0; i < 2 * n; i++)
			self_call(comm, rank, mem, n, i / 2, i % 2 == 0);
		return;
	}
	for (int i = 0; i < 2 * n; i++)
		self_call(comm, rank, mem, n, i % n, (i < n) == (order == ALL_SENDS_FIRST));
}

/* A group of n messages to oneself; gives the looks that the plan takes. */
static uint64_t self_group(ncclComm_t comm, int32_t rank, int32_t *mem, int n, enum order order)
{
	static int32_t host[2 * MOST];
	uint64_t before;

	for (int i = 0; i < 2 * n; i++)
		host[i] = i < n ? 7 * i + 1 : -1;
	EXPECT(cudaMemcpy(mem, host, (size_t)(2 * n) * 4, cudaMemcpyHostToDevice) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	self_queue(comm, rank, mem, n, order);
	before = looks;
	EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
	EXPECT(cudaDeviceSynchronize() == cudaSuccess);
	EXPECT(cudaMemcpy(host, mem, (size_t)(2 * n) * 4, cudaMemcpyDeviceToHost) == cudaSuccess);
	for (int i = 0; i < n; i++)
		EXPECT(host[n + i] == 7 * i + 1);
	return looks - before;
}

static void self_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm = comm_open(rank, nranks, ranks_id());
	int32_t *mem;

	(void)arg;
	EXPECT(cudaMalloc((void **)&mem, 2 * MOST * sizeof *mem) == cudaSuccess);
	for (int order = 0; order < ORDERS && rank == 0; order++) {
		uint64_t few = self_group(comm, rank, mem, MOST / 10, (enum order)order);
		uint64_t many = self_group(comm, rank, mem, MOST, (enum order)order);

		/* linear: ten times; quadratic: a hundred times */
		if (nranks > 1)
			EXPECT(few >= MOST / 10);
		EXPECT(many <= 12 * few + 100);
	}
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	EXPECT(cudaFree(mem) == cudaSuccess);
}

START_TEST(many_messages_to_oneself_take_linear_time)
{
	struct ranks_config config = {.hosts = 1, .per_host = 1 + (uint32_t)_i, .seed = 1};

	ranks_run(&config, self_rank, NULL);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("messages_self");
	TCase *tc = tcase_create("messages_self");

	tcase_add_loop_test(tc, many_messages_to_oneself_take_linear_time, 0, 2);
	suite_add_tcase(s, tc);
	return suite_run(s);
}
