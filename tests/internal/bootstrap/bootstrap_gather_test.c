/* SPDX-License-Identifier: BSD-3-Clause */
/* Gathers and barriers over the ring of bootstrap. */
#include "tests/internal/bootstrap/bootstrap_world.h"

static void gather_rank(int32_t rank, int32_t nranks, void *arg)
{
	static const size_t sizes[] = {1, 96, 4096, 3, 300000, 17};
	struct boot_world *w = arg;
	struct bootstrap *b = NULL;
	boot_begin(rank, w);
	EXPECT_NCCL(ncclSuccess, bootstrap_init(&w->id, rank, nranks, NULL, &b));
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
		gather_check(b, rank, nranks, sizes[i], (uint8_t)i);
	EXPECT_NCCL(ncclSuccess, bootstrap_barrier(b));
	bootstrap_part(b, 0);
	bootstrap_close(b);
	boot_end(rank, w);
}

START_TEST(gathers_of_all_sizes_reach_every_rank)
{
	for (uint64_t seed = 1; seed <= 15; seed++) {
		struct boot_world w = {.seed = seed};
		struct ranks_config c = {.hosts = 1 + seed % 3,
					 .per_host = 1 + seed % 7,
					 .per_proc = 1 + seed % 4,
					 .seed = seed};
		ranks_run(&c, gather_rank, &w);
	}
	struct boot_world w = {.seed = 1};
	struct ranks_config c = {.hosts = 2, .per_host = 4, .engine = SIM_ENGINE_THREADS};
	ranks_run(&c, gather_rank, &w);
}
END_TEST

static void long_gather_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct boot_world *w = arg;
	struct bootstrap *b = NULL;
	boot_begin(rank, w);
	EXPECT_NCCL(ncclSuccess, bootstrap_init(&w->id, rank, nranks, NULL, &b));
	ranks_barrier();
	uint64_t before = sim_switches();
	gather_check(b, rank, nranks, 4096, 0);
	EXPECT_NCCL(ncclSuccess, bootstrap_barrier(b));
	if (rank == 0) /* 9 to 36; up to 1,187 if each fragment is forwarded */
		EXPECT((sim_switches() - before) / (uint64_t)nranks < 100);
	bootstrap_part(b, 0);
	bootstrap_close(b);
	boot_end(rank, w);
}

/* A gather of 252 KiB, in pieces of 16 KiB. */
START_TEST(a_long_gather_wakes_each_rank_a_few_times)
{
	for (uint64_t seed = 1; seed <= 5; seed++) {
		struct boot_world w = {.seed = seed};
		struct ranks_config c = {.hosts = 8, .per_host = 8, .seed = seed};
		ranks_run(&c, long_gather_rank, &w);
	}
}
END_TEST

/* One rank has another value: it or its successor finds that out, and the others get an error. */
static void agree_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct boot_world *w = arg;
	struct bootstrap *b = NULL;
	boot_begin(rank, w);
	EXPECT_NCCL(ncclSuccess, bootstrap_init(&w->id, rank, nranks, NULL, &b));
	gather_check(b, rank, nranks, 8, 1);
	EXPECT_NCCL(ncclSuccess, bootstrap_agree(b, ~0ull, "figures"));
	ncclResult_t rc = bootstrap_agree(b, rank == w->special ? 0 : 1ull << 63, "figures");
	EXPECT(rc == ncclInvalidUsage || rc == ncclRemoteError);
	if (rc == ncclInvalidUsage) {
		EXPECT(rank == w->special || rank == (w->special + 1) % nranks);
		EXPECT_ERROR_SAYS(" have different figures, expected the same on all ranks");
		shared_add_u32(&w->told, 1, SHARED_RELAXED);
	}
	bootstrap_close(b);
	boot_end(rank, w);
}

START_TEST(ranks_that_do_not_agree_are_named)
{
	for (uint64_t seed = 1; seed <= 12; seed++) {
		struct boot_world w = {.seed = seed, .special = (int32_t)(seed % 4)};
		struct ranks_config c = {.hosts = 2, .per_host = 2, .seed = seed};
		ranks_run(&c, agree_rank, &w);
		ck_assert_uint_gt(shared_load_u32(&w.told, SHARED_RELAXED), 0);
	}
}
END_TEST

static void sizes_differ_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct boot_world *w = arg;
	struct bootstrap *b = NULL;
	uint8_t all[64 * 8] = {0};
	boot_begin(rank, w);
	EXPECT_NCCL(ncclSuccess, bootstrap_init(&w->id, rank, nranks, NULL, &b));
	ranks_barrier(); /* a failure elsewhere may already end an init */
	ncclResult_t rc = bootstrap_all_gather(b, all, rank == 1 ? 9 : 8);
	/* rank 1 or its successor detects the difference first; the others receive the error */
	EXPECT(rc == ncclInternalError || rc == ncclRemoteError);
	if (rc == ncclInternalError) {
		EXPECT(rank == 1 || rank == 2);
		EXPECT_ERROR_SAYS(rank == 1 ? "of 9 bytes on rank 1 meets all-gather 1 of 8 bytes"
					    : "of 8 bytes on rank 2 meets all-gather 1 of 9 bytes");
		shared_add_u32(&w->told, 1, SHARED_RELAXED);
	}
	bootstrap_close(b);
	boot_end(rank, w);
}

START_TEST(a_gather_of_different_sizes_is_named)
{
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct boot_world w = {.seed = seed};
		struct ranks_config c = {.hosts = 2, .per_host = 2, .seed = seed};
		ranks_run(&c, sizes_differ_rank, &w);
		ck_assert_uint_ge(shared_load_u32(&w.told, SHARED_RELAXED), 1);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("bootstrap_gather");
	TCase *t = tcase_create("bootstrap_gather");
	tcase_set_timeout(t, 60);
	tcase_add_test(t, gathers_of_all_sizes_reach_every_rank);
	tcase_add_test(t, a_long_gather_wakes_each_rank_a_few_times);
	tcase_add_test(t, ranks_that_do_not_agree_are_named);
	tcase_add_test(t, a_gather_of_different_sizes_is_named);
	suite_add_tcase(s, t);
	return suite_run(s);
}
