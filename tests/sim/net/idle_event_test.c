/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asynchronous events of an HCA that reach a communicator which has nothing in flight: its rank
 * learns of them although its proxy sleeps, and no peer can report anything. Another use of the HCA
 * by the rank's process meets the failure.
 */
#include <check.h>
#include <infiniband/verbs.h>

#include "tests/sim/comm/comm_rank.h"
#include "tests/suite.h"

#define IDLE_FAILS_NS 3000000000ull /* the HCA is used again; the plan's time is before that */
#define IDLE_LEARN_NS 5000000000ull
#define IDLE_LOOK_NS  1000000ull

/* Opens the first HCA: its firmware has failed, so the call may, too. */
static void idle_use_hca(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	EXPECT(list && list[0]);
	struct ibv_context *context = ibv_open_device(list[0]);

	ibv_free_device_list(list);
	if (context)
		EXPECT(ibv_close_device(context) == 0);
}

static ncclResult_t idle_learn(ncclComm_t comm)
{
	const uint64_t end_ns = os_now_ns() + IDLE_LEARN_NS;
	ncclResult_t state = ncclSuccess;

	while (state == ncclSuccess && os_now_ns() < end_ns) {
		os_sleep_ns(IDLE_LOOK_NS);
		EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(comm, &state));
	}
	return state;
}

/* Rank 0's HCA dies. The other rank learns of it from rank 0. */
static void idle_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm;
	cudaStream_t stream;
	void *mem;

	(void)arg;
	comm_buffers(rank, &mem, &stream, 4096);
	comm = comm_open(rank, nranks, ranks_id());
	comm_sum(comm, rank, nranks, mem, stream, 1000);
	EXPECT(os_now_ns() < IDLE_FAILS_NS);
	os_sleep_ns(IDLE_FAILS_NS - os_now_ns());
	if (rank == 0)
		idle_use_hca();
	EXPECT(idle_learn(comm) != ncclSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(comm));
	comm_buffers_free(mem, stream);
}

static uint64_t idle_run(const char *const *env)
{
	uint64_t fired = 0;
	struct ranks_config c = {.hosts = 2,
				 .per_host = 1,
				 .machine = "a100-4nic",
				 .env = env,
				 .fault_plan = "verbs.device host=0 port=0 after=2s fatal\n",
				 .fired = &fired};

	ranks_run(&c, idle_rank, NULL);
	return fired;
}

START_TEST(an_idle_rank_learns_that_its_hca_is_dead)
{
	const char *const env[] = {"NCCL_MAX_CTAS=2", "NCCL_DEBUG=NONE", NULL};

	ck_assert_uint_eq(idle_run(env), 1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("idle_event");
	TCase *t = tcase_create("events");

	tcase_add_test(t, an_idle_rank_learns_that_its_hca_is_dead);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
