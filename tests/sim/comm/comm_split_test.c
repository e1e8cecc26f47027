/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ncclCommSplit from a program's side: members and their order, parents that go on, ends in any
 * order, groups, non-blocking parents, and arguments that contradict each other.
 */
#include <check.h>
#include <cuda_runtime_api.h>

#include "tests/sim/comm/comm_rank.h"
#include "tests/suite.h"

#define SPLIT_COUNT 100

struct split_rank {
	ncclComm_t comm;
	cudaStream_t stream;
	int32_t *mem;
	int32_t rank, nranks;
};

static void split_begin(struct split_rank *r, int32_t rank, int32_t nranks, ncclConfig_t *config)
{
	*r = (struct split_rank){.rank = rank, .nranks = nranks};
	comm_buffers(rank, (void **)&r->mem, &r->stream, SPLIT_COUNT * 4);
	ncclResult_t rc = ncclCommInitRankConfig(&r->comm, nranks, ranks_id(), rank, config);
	while (rc == ncclInProgress)
		EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(r->comm, &rc));
	EXPECT(rc == ncclSuccess);
}

static void split_end(struct split_rank *r)
{
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(r->comm));
	comm_buffers_free(r->mem, r->stream);
}

/* Checks the child's rank and size, and sums over it. */
static void split_use(const struct split_rank *r, ncclComm_t child, int rank, int nranks)
{
	int got = -1;

	EXPECT_NCCL(ncclSuccess, ncclCommUserRank(child, &got));
	EXPECT(got == rank);
	EXPECT_NCCL(ncclSuccess, ncclCommCount(child, &got));
	EXPECT(got == nranks);
	EXPECT_NCCL(ncclSuccess, ncclCommCuDevice(child, &got));
	EXPECT(got == (int)comm_device(r->rank));
	comm_sum(child, rank, nranks, r->mem, r->stream, SPLIT_COUNT);
}

/* ---- blocking ------------------------------------------------------------------------------- */

/* Halves, in reverse order of ranks, then each half's first rank leaves. */
static void halves_rank(int32_t rank, int32_t nranks, void *arg)
{
	const int32_t half = nranks / 2, mine = rank % half;
	ncclComm_t child = NULL, rest = NULL;
	struct split_rank r;

	(void)arg;
	split_begin(&r, rank, nranks, NULL);
	EXPECT_NCCL(ncclSuccess, ncclCommSplit(r.comm, rank / half, -rank, &child, NULL));
	split_use(&r, child, half - 1 - mine, half);
	split_use(&r, r.comm, rank, nranks);
	EXPECT_NCCL(ncclSuccess,
		    ncclCommSplit(child, mine ? 7 : NCCL_SPLIT_NOCOLOR, 0, &rest, NULL));
	EXPECT((rest == NULL) == (mine == 0));
	if (rest)
		split_use(&r, rest, half - 1 - mine, half - 1);
	if (rank % 2) /* parents end before or after their children */
		split_end(&r);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(child));
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(rest));
	if (rank % 2 == 0)
		split_end(&r);
}

START_TEST(halves_of_halves_work_beside_their_parents)
{
	struct ranks_config threads = {.hosts = 2, .per_host = 2, .engine = SIM_ENGINE_THREADS};

	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct ranks_config c = {.hosts = 2,
					 .per_host = 2,
					 .per_proc = 1 + (uint32_t)seed % 2,
					 .seed = seed};
		ranks_run(&c, halves_rank, NULL);
	}
	ranks_run(&threads, halves_rank, NULL);
}
END_TEST

static void alone_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t child = NULL, again = NULL;
	struct split_rank r;

	(void)arg;
	split_begin(&r, rank, nranks, NULL);
	EXPECT_NCCL(ncclSuccess, ncclCommSplit(r.comm, rank, 0, &child, NULL));
	split_use(&r, child, 0, 1);
	EXPECT_NCCL(ncclSuccess, ncclCommSplit(child, 0, 0, &again, NULL));
	split_use(&r, again, 0, 1);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(child));
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(again));
	split_end(&r);
}

START_TEST(a_rank_alone_can_split)
{
	struct ranks_config one = {.hosts = 1, .per_host = 1, .seed = 1};
	struct ranks_config three = {.hosts = 3, .per_host = 1, .seed = 2};

	ranks_run(&one, alone_rank, NULL);
	ranks_run(&three, alone_rank, NULL);
}
END_TEST

/* The child inherits what the program leaves undefined. */
static void config_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER, own = NCCL_CONFIG_INITIALIZER;
	ncclResult_t state = ncclInProgress;
	ncclComm_t child = NULL;
	struct split_rank r;

	(void)arg;
	config.blocking = 0;
	split_begin(&r, rank, nranks, &config);
	own.maxCTAs = 1;
	EXPECT_NCCL(ncclInProgress, ncclCommSplit(r.comm, 0, rank, &child, &own));
	/* the parent is in progress until the child is formed, then the child is */
	while (state == ncclInProgress)
		EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(r.comm, &state));
	EXPECT(state == ncclSuccess && child != NULL);
	for (state = ncclInProgress; state == ncclInProgress;)
		EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(child, &state));
	EXPECT(state == ncclSuccess);
	split_use(&r, child, rank, nranks);
	EXPECT_NCCL(ncclInProgress, ncclCommFinalize(child)); /* not blocking, as its parent */
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(child));
	split_end(&r);
}

START_TEST(a_nonblocking_parent_is_in_progress_until_the_child_is_formed)
{
	struct ranks_config threads = {.hosts = 2, .per_host = 2, .engine = SIM_ENGINE_THREADS};

	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct ranks_config c = {.hosts = 2, .per_host = 2, .seed = seed};
		ranks_run(&c, config_rank, NULL);
	}
	ranks_run(&threads, config_rank, NULL);
}
END_TEST

/* ---- groups --------------------------------------------------------------------------------- */

/* Two splits of one parent, in one group. */
static void group_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t all = NULL, pair = NULL;
	struct split_rank r;

	(void)arg;
	split_begin(&r, rank, nranks, NULL);
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	EXPECT_NCCL(ncclSuccess, ncclCommSplit(r.comm, 0, -rank, &all, NULL));
	EXPECT_NCCL(ncclSuccess, ncclCommSplit(r.comm, rank / 2, rank, &pair, NULL));
	EXPECT(!all && !pair);
	EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
	split_use(&r, all, nranks - 1 - rank, nranks);
	split_use(&r, pair, rank % 2, 2);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(pair));
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(all));
	split_end(&r);
}

START_TEST(splits_of_one_parent_in_a_group_keep_their_order)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct ranks_config c = {.hosts = 2, .per_host = 2, .seed = seed};
		ranks_run(&c, group_rank, NULL);
	}
}
END_TEST

/* One task drives all ranks of a host. */
static void driven_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm[4], child[4], none;
	int value = -1;

	(void)arg;
	(void)nranks;
	if (rank)
		return;
	EXPECT_NCCL(ncclSuccess, ncclCommInitAll(comm, 4, NULL));
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	for (int i = 0; i < 4; i++)
		EXPECT_NCCL(ncclSuccess, ncclCommSplit(comm[i], i % 2, 0, &child[i], NULL));
	EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	EXPECT_NCCL(ncclInvalidArgument, ncclCommSplit(comm[0], -5, 0, &none, NULL));
	EXPECT_ERROR_SAYS("color is -5");
	EXPECT(none == NULL);
	EXPECT_NCCL(ncclInvalidArgument, ncclGroupEnd());
	for (int i = 0; i < 4; i++) {
		EXPECT_NCCL(ncclSuccess, ncclCommCount(child[i], &value));
		EXPECT(value == 2);
	}
	for (int i = 0; i < 4; i++) {
		EXPECT_NCCL(ncclSuccess, ncclCommAbort(child[i]));
		EXPECT_NCCL(ncclSuccess, ncclCommAbort(comm[i]));
	}
}

START_TEST(one_task_splits_for_all_ranks_in_a_group)
{
	struct ranks_config c = {.hosts = 1, .per_host = 4, .per_proc = 4, .seed = 1};

	ranks_run(&c, driven_rank, NULL);
}
END_TEST

/* ---- wrong arguments ------------------------------------------------------------------------ */

/* Rank 1 calls with wrong arguments. The others learn of it, and the parent stays as it was. */
static void refused_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclConfig_t wrong = NCCL_CONFIG_INITIALIZER;
	ncclComm_t child = (ncclComm_t)&wrong, again = child;
	struct split_rank r;

	(void)arg;
	split_begin(&r, rank, nranks, NULL);
	EXPECT_NCCL(ncclInvalidArgument, ncclCommSplit(NULL, 0, 0, &child, NULL));
	EXPECT(child == NULL);
	wrong.minCTAs = 3;
	wrong.maxCTAs = 2;
	for (int i = 0; i < 3; i++) {
		const int color = i == 1 ? -7 : 0;
		ncclResult_t want = ncclRemoteError;

		if (rank == 1)
			want = ncclInvalidArgument;
		child = (ncclComm_t)&wrong;
		EXPECT_NCCL(want, ncclCommSplit(r.comm, rank == 1 ? color : 0, 0,
						rank == 1 && i == 2 ? NULL : &child,
						rank == 1 && i == 0 ? &wrong : NULL));
		EXPECT(rank == 1 && i == 2 ? child == (ncclComm_t)&wrong : child == NULL);
		if (rank != 1)
			EXPECT_ERROR_SAYS("the call of rank 1 failed");
	}
	EXPECT_NCCL(ncclSuccess, ncclCommSplit(r.comm, 0, 0, &child, NULL));
	split_use(&r, child, rank, nranks);
	EXPECT_NCCL(ncclSuccess, ncclCommFinalize(child));
	EXPECT_NCCL(ncclInvalidUsage, ncclCommSplit(child, 0, 0, &again, NULL));
	EXPECT(again == NULL);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(child));
	split_end(&r);
}

START_TEST(wrong_arguments_of_a_rank_fail_the_call_on_all_ranks_and_nothing_else)
{
	struct ranks_config c = {.hosts = 3, .per_host = 1, .seed = 1};

	ranks_run(&c, refused_rank, NULL);
}
END_TEST

/* A rank that aborts the parent instead of splitting ends the call of the others. */
static void aborting_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t child = NULL;
	struct split_rank r;

	(void)arg;
	split_begin(&r, rank, nranks, NULL);
	ranks_barrier();
	if (rank != nranks - 1) {
		EXPECT_NCCL(ncclRemoteError, ncclCommSplit(r.comm, 0, 0, &child, NULL));
		EXPECT(child == NULL);
	}
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(r.comm));
	comm_buffers_free(r.mem, r.stream);
}

START_TEST(an_abort_of_the_parent_ends_the_split_of_the_others)
{
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct ranks_config c = {.hosts = 2, .per_host = 2, .seed = seed};
		ranks_run(&c, aborting_rank, NULL);
	}
}
END_TEST

/* Rank 0 forms a child while its kernel waits for rank 1, which aborts. The task of the split waits
 * in CUDA for that kernel. Only the abort word of rank 0 ends the kernel. */
static void stuck_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclResult_t state = ncclInProgress;
	ncclComm_t child = NULL;
	struct split_rank r;

	(void)arg;
	config.blocking = 0;
	split_begin(&r, rank, nranks, &config);
	if (rank == 0)
		EXPECT_NCCL(ncclSuccess, ncclAllReduce(r.mem, r.mem, SPLIT_COUNT, ncclInt32,
						       ncclSum, r.comm, r.stream));
	EXPECT_NCCL(ncclInProgress, ncclCommSplit(r.comm, 0, rank, &child, NULL));
	while (state == ncclInProgress || (rank == 0 && state == ncclSuccess))
		EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(r.comm, &state));
	EXPECT(state == (rank == 0 ? ncclRemoteError : ncclSuccess));
	if (rank == 0)
		EXPECT_NCCL(ncclSuccess, ncclCommDestroy(r.comm));
	else
		EXPECT_NCCL(ncclSuccess, ncclCommAbort(r.comm));
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(child));
	comm_buffers_free(r.mem, r.stream);
}

START_TEST(a_destroy_ends_a_split_that_waits_in_cuda_after_another_rank_has_aborted)
{
	static const char *const env[] = {"DOPPEL_CUDA_WAITS=1", NULL};

	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct ranks_config c = {
			.hosts = 1 + seed % 2, .per_host = 2 - seed % 2, .seed = seed, .env = env};
		ranks_run(&c, stuck_rank, NULL);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("comm_split");
	TCase *t = tcase_create("split");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, halves_of_halves_work_beside_their_parents);
	tcase_add_test(t, a_rank_alone_can_split);
	tcase_add_test(t, a_nonblocking_parent_is_in_progress_until_the_child_is_formed);
	tcase_add_test(t, splits_of_one_parent_in_a_group_keep_their_order);
	tcase_add_test(t, one_task_splits_for_all_ranks_in_a_group);
	tcase_add_test(t, wrong_arguments_of_a_rank_fail_the_call_on_all_ranks_and_nothing_else);
	tcase_add_test(t, an_abort_of_the_parent_ends_the_split_of_the_others);
	tcase_add_test(t, a_destroy_ends_a_split_that_waits_in_cuda_after_another_rank_has_aborted);
	suite_add_tcase(s, t);
	return suite_run(s);
}
