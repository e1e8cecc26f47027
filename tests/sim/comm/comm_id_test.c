/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NCCL_COMM_ID: every communicator of the program is made with the same unique id, one after
 * another or while others live.
 */
#include <check.h>

#include "tests/sim/comm/comm_rank.h"
#include "tests/suite.h"

static const char *const comm_id_env[] = {"NCCL_COMM_ID=10.0.0.1:4711", NULL};

static ncclComm_t comm_id_make(int32_t rank, int32_t nranks)
{
	ncclComm_t comm = NULL;
	ncclUniqueId id;

	EXPECT_NCCL(ncclSuccess, ncclGetUniqueId(&id));
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm, nranks, id, rank));
	return comm;
}

/* Each communicator begins with another call: they are not compared with each other. */
static void comm_id_rank(int32_t rank, int32_t nranks, void *arg)
{
	const bool one_lives = *(const bool *)arg;
	ncclComm_t comm, living = NULL;
	size_t left, now, all;
	cudaStream_t stream;
	void *mem;

	comm_buffers(rank, &mem, &stream, 4096);
	if (one_lives) {
		living = comm_id_make(rank, nranks);
		comm_sum(living, rank, nranks, mem, stream, 7);
	}
	EXPECT(cudaMemGetInfo(&left, &all) == cudaSuccess);
	for (size_t n = 1; n <= 4; n++) {
		comm = comm_id_make(rank, nranks);
		comm_sum(comm, rank, nranks, mem, stream, n);
		EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	}
	/* ranks of one process free their memory together, when the last one has come */
	ranks_barrier();
	EXPECT(cudaMemGetInfo(&now, &all) == cudaSuccess);
	EXPECT(now == left);
	ranks_barrier();
	if (one_lives) {
		comm_sum(living, rank, nranks, mem, stream, 9);
		EXPECT_NCCL(ncclSuccess, ncclCommDestroy(living));
	}
	comm_buffers_free(mem, stream);
}

static void comm_id_run(bool one_lives)
{
	for (uint64_t seed = 1; seed <= 12; seed++) {
		struct ranks_config c = {.hosts = 1 + seed % 2,
					 .per_host = 2,
					 .per_proc = 1 + (seed / 2) % 2,
					 .seed = seed,
					 .env = comm_id_env};

		ranks_run(&c, comm_id_rank, &one_lives);
	}
}

START_TEST(communicators_with_one_id_follow_each_other)
{
	comm_id_run(false);
}
END_TEST

START_TEST(communicators_with_one_id_live_at_the_same_time)
{
	comm_id_run(true);
}
END_TEST

/* One rank needs no other; its root's address is free once it is made. */
static void comm_id_alone_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm[4];

	(void)arg;
	for (int i = 0; i < 4; i++)
		comm[i] = comm_id_make(rank, nranks);
	for (int i = 0; i < 4; i++)
		EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm[i]));
}

START_TEST(communicators_of_one_rank_with_one_id_live_at_the_same_time)
{
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct ranks_config c = {
			.hosts = 1, .per_host = 1, .seed = seed, .env = comm_id_env};

		ranks_run(&c, comm_id_alone_rank, NULL);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("comm_id");
	TCase *t = tcase_create("comm_id");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, communicators_with_one_id_follow_each_other);
	tcase_add_test(t, communicators_with_one_id_live_at_the_same_time);
	tcase_add_test(t, communicators_of_one_rank_with_one_id_live_at_the_same_time);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
