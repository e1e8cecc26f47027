/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators that get smaller or larger, from a program's side: ncclCommShrink of a healthy
 * parent and of one that has lost a rank, ncclCommRevoke, and ncclCommGrow.
 */
#include <check.h>
#include <cuda_runtime_api.h>

#include "tests/sim/comm/comm_rank.h"
#include "tests/suite.h"

#define SHRINK_COUNT 100

struct shrink_rank {
	ncclComm_t comm;
	cudaStream_t stream;
	int32_t *mem;
	int32_t rank, nranks;
};

static void shrink_begin(struct shrink_rank *r, int32_t rank, int32_t nranks)
{
	*r = (struct shrink_rank){.rank = rank, .nranks = nranks};
	comm_buffers(rank, (void **)&r->mem, &r->stream, SHRINK_COUNT * 4);
	r->comm = comm_open(rank, nranks, ranks_id());
	ranks_barrier(); /* from here on an abort disturbs no rank's init */
}

static void shrink_use(const struct shrink_rank *r, ncclComm_t child, int rank, int nranks)
{
	int got = -1;

	EXPECT_NCCL(ncclSuccess, ncclCommUserRank(child, &got));
	EXPECT(got == rank);
	EXPECT_NCCL(ncclSuccess, ncclCommCount(child, &got));
	EXPECT(got == nranks);
	comm_sum(child, rank, nranks, r->mem, r->stream, SHRINK_COUNT);
}

static ncclResult_t shrink_reduce(const struct shrink_rank *r)
{
	return ncclAllReduce(r->mem, r->mem, SHRINK_COUNT, ncclInt32, ncclSum, r->comm, r->stream);
}

/* ---- shrink --------------------------------------------------------------------------------- */

/* Every second rank leaves, and the parent goes on. */
static void healthy_rank(int32_t rank, int32_t nranks, void *arg)
{
	int odd[8], n = nranks / 2;
	ncclComm_t child = NULL;
	struct shrink_rank r;

	(void)arg;
	for (int i = 0; i < n; i++)
		odd[i] = 2 * (n - i) - 1;
	shrink_begin(&r, rank, nranks);
	if (rank % 2 == 0) {
		EXPECT_NCCL(ncclSuccess,
			    ncclCommShrink(r.comm, odd, n, &child, NULL, NCCL_SHRINK_DEFAULT));
		shrink_use(&r, child, rank / 2, nranks - n);
	}
	shrink_use(&r, r.comm, rank, nranks);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(r.comm));
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(child));
	comm_buffers_free(r.mem, r.stream);
}

START_TEST(a_healthy_communicator_shrinks_and_goes_on)
{
	struct ranks_config threads = {.hosts = 2, .per_host = 2, .engine = SIM_ENGINE_THREADS};

	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct ranks_config c = {.hosts = 2, .per_host = 2, .seed = seed};
		ranks_run(&c, healthy_rank, NULL);
	}
	ranks_run(&threads, healthy_rank, NULL);
}
END_TEST

/* The last but one rank aborts while the others wait for it in a collective. They go on without
 * it, twice. */
static void lost_rank(int32_t rank, int32_t nranks, void *arg)
{
	int lost = nranks - 2, left = rank - (rank > lost);
	ncclComm_t child = NULL, again = NULL;
	ncclResult_t async = ncclSuccess;
	struct shrink_rank r;

	shrink_begin(&r, rank, nranks);
	if (rank == lost) {
		EXPECT_NCCL(ncclSuccess, ncclCommAbort(r.comm));
		comm_buffers_free(r.mem, r.stream);
		return;
	}
	ncclResult_t rc = shrink_reduce(&r);
	EXPECT(rc == ncclSuccess || rc == ncclRemoteError);
	while (*(bool *)arg && async == ncclSuccess)
		EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(r.comm, &async));
	EXPECT_NCCL(ncclSuccess, ncclCommShrink(r.comm, &lost, 1, &child, NULL, NCCL_SHRINK_ABORT));
	EXPECT(cudaStreamSynchronize(r.stream) == cudaSuccess); /* its kernel has ended */
	shrink_use(&r, child, left, nranks - 1);
	EXPECT_NCCL(ncclInvalidUsage, shrink_reduce(&r));
	EXPECT_ERROR_SAYS("revoked");
	EXPECT_NCCL(ncclSuccess,
		    ncclCommShrink(r.comm, &lost, 1, &again, NULL, NCCL_SHRINK_DEFAULT));
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(r.comm));
	shrink_use(&r, again, left, nranks - 1);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(child));
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(again));
	comm_buffers_free(r.mem, r.stream);
}

START_TEST(survivors_shrink_a_communicator_that_has_lost_a_rank)
{
	bool aware[] = {true, false};
	struct ranks_config threads = {.hosts = 2, .per_host = 2, .engine = SIM_ENGINE_THREADS};

	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct ranks_config c = {.hosts = 2,
					 .per_host = 2,
					 .per_proc = 1 + (uint32_t)seed % 2,
					 .seed = seed};
		ranks_run(&c, lost_rank, &aware[seed / 2 % 2]);
	}
	ranks_run(&threads, lost_rank, &aware[0]);
}
END_TEST

static void wrong_rank(int32_t rank, int32_t nranks, void *arg)
{
	int twice[] = {1, 1}, own = rank, outside = nranks, other = (rank + 1) % nranks;
	ncclComm_t child = (ncclComm_t)&own;
	ncclConfig_t wrong = NCCL_CONFIG_INITIALIZER;
	struct shrink_rank r;

	(void)arg;
	wrong.magic++;
	shrink_begin(&r, rank, nranks);
#define REFUSED(text, list, n, out, flags)                                                         \
	do {                                                                                       \
		EXPECT_NCCL(ncclInvalidArgument,                                                   \
			    ncclCommShrink(r.comm, list, n, out, NULL, flags));                    \
		EXPECT_ERROR_SAYS(text);                                                           \
	} while (0)
	REFUSED("newcomm is NULL", &other, 1, NULL, 0);
	REFUSED("excludeRanksCount is 0", &other, 0, &child, 0);
	EXPECT(child == NULL);
	REFUSED("excludeRanksCount is 3", twice, 3, &child, 0); /* all of them */
	REFUSED("excludeRanksList is NULL", NULL, 1, &child, 0);
	REFUSED("shrinkFlags is 0x6", &other, 1, &child, 6);
	REFUSED("expected 0 to 2", &outside, 1, &child, 0);
	REFUSED("expected 0 to 2", &outside, 1, &child, NCCL_SHRINK_ABORT);
	REFUSED("the calling rank", &own, 1, &child, 0);
	if (rank != 1)
		REFUSED("listed before", twice, 2, &child, 0);
	EXPECT_NCCL(ncclInvalidArgument,
		    ncclCommShrink(r.comm, &other, 1, &child, &wrong, NCCL_SHRINK_ABORT));
	EXPECT_NCCL(ncclInvalidArgument, ncclCommRevoke(r.comm, 1));
	shrink_use(&r, r.comm, rank, nranks);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(r.comm));
	comm_buffers_free(r.mem, r.stream);
}

START_TEST(wrong_arguments_of_a_shrink_change_nothing)
{
	struct ranks_config c = {.hosts = 3, .per_host = 1, .seed = 1};

	ranks_run(&c, wrong_rank, NULL);
}
END_TEST

/* ---- revoke --------------------------------------------------------------------------------- */

/* Rank 0 never calls the collective; all revoke, and split what is left. */
static void revoke_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclResult_t async = ncclSystemError;
	ncclComm_t child = NULL;
	struct shrink_rank r;
	int got = -1;

	(void)arg;
	shrink_begin(&r, rank, nranks);
	if (rank)
		EXPECT_NCCL(ncclSuccess, shrink_reduce(&r));
	EXPECT_NCCL(ncclSuccess, ncclCommRevoke(r.comm, NCCL_REVOKE_DEFAULT));
	EXPECT_NCCL(ncclSuccess, ncclCommRevoke(r.comm, NCCL_REVOKE_DEFAULT));
	EXPECT(cudaStreamSynchronize(r.stream) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(r.comm, &async));
	EXPECT(async == ncclSuccess);
	EXPECT_NCCL(ncclInvalidUsage, shrink_reduce(&r));
	EXPECT_NCCL(ncclInvalidUsage, ncclCommFinalize(r.comm));
	EXPECT_ERROR_SAYS("revoked");
	EXPECT_NCCL(ncclSuccess, ncclCommCount(r.comm, &got));
	EXPECT(got == nranks);
	EXPECT_NCCL(ncclSuccess, ncclCommSplit(r.comm, rank % 2, rank, &child, NULL));
	shrink_use(&r, child, rank / 2, nranks / 2);
	/* the calls of the parent, which differ, do not count for the order of the child's */
	shrink_use(&r, child, rank / 2, nranks / 2);
	ranks_barrier();
	EXPECT_NCCL(ncclSuccess, rank % 2 ? ncclCommDestroy(r.comm) : ncclCommAbort(r.comm));
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(child));
	comm_buffers_free(r.mem, r.stream);
}

START_TEST(a_revoked_communicator_runs_nothing_and_can_be_split)
{
	struct ranks_config threads = {.hosts = 2, .per_host = 2, .engine = SIM_ENGINE_THREADS};

	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct ranks_config c = {.hosts = 2,
					 .per_host = 2,
					 .per_proc = 1 + (uint32_t)seed % 2,
					 .seed = seed};
		ranks_run(&c, revoke_rank, NULL);
	}
	ranks_run(&threads, revoke_rank, NULL);
}
END_TEST

/* Rank 0 of a non-blocking communicator sends what no rank receives. Its revoke ends the task that
 * connects the ranks, so that the next call may follow immediately. */
static void revoke_sends_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclResult_t rc = ncclInProgress;
	struct shrink_rank r = {.rank = rank, .nranks = nranks};
	ncclComm_t child = NULL;

	(void)arg;
	config.blocking = 0;
	comm_buffers(rank, (void **)&r.mem, &r.stream, SHRINK_COUNT * 4);
	EXPECT_NCCL(ncclInProgress,
		    ncclCommInitRankConfig(&r.comm, nranks, ranks_id(), rank, &config));
	while (rc == ncclInProgress)
		EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(r.comm, &rc));
	EXPECT(rc == ncclSuccess);
	if (rank == 0)
		EXPECT_NCCL(ncclInProgress,
			    ncclSend(r.mem, SHRINK_COUNT, ncclInt32, 1, r.comm, r.stream));
	EXPECT_NCCL(ncclSuccess, ncclCommRevoke(r.comm, NCCL_REVOKE_DEFAULT));
	EXPECT_NCCL(ncclInProgress, ncclCommSplit(r.comm, 0, rank, &child, NULL));
	ranks_barrier();
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(r.comm));
	if (child)
		EXPECT_NCCL(ncclSuccess, ncclCommAbort(child));
	comm_buffers_free(r.mem, r.stream);
}

START_TEST(a_revoke_ends_the_task_that_connects_ranks)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct ranks_config c = {.hosts = 2, .per_host = 1, .seed = seed};

		ranks_run(&c, revoke_sends_rank, NULL);
	}
}
END_TEST

/* ---- a rank that leaves before it has the id ------------------------------------------------ */

#define LEFT_BOUND_NS 15000000000ull

struct left_case {
	bool nonblocking, destroys;
	int32_t late; /* rank that calls late; -1: none */
	uint64_t late_ns;
};

static ncclResult_t left_shrink(const struct shrink_rank *r, int *excluded, ncclComm_t *child)
{
	ncclResult_t rc = ncclCommShrink(r->comm, excluded, 1, child, NULL, NCCL_SHRINK_ABORT);

	while (rc == ncclInProgress) {
		ncclComm_t comm = __atomic_load_n(child, __ATOMIC_ACQUIRE);

		EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(comm ? comm : r->comm, &rc));
		if (!comm && rc == ncclSuccess)
			rc = ncclInProgress;
	}
	return rc;
}

static void left_begin(struct shrink_rank *r, const struct left_case *k, int32_t rank,
		       int32_t nranks)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclResult_t rc = ncclInProgress;

	*r = (struct shrink_rank){.rank = rank, .nranks = nranks};
	config.blocking = !k->nonblocking;
	comm_buffers(rank, (void **)&r->mem, &r->stream, SHRINK_COUNT * 4);
	rc = ncclCommInitRankConfig(&r->comm, nranks, ranks_id(), rank, &config);
	while (rc == ncclInProgress)
		EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(r->comm, &rc));
	EXPECT_NCCL(ncclSuccess, rc);
	EXPECT_NCCL(ncclSuccess, ncclCommRevoke(r->comm, NCCL_REVOKE_DEFAULT));
	ranks_barrier();
}

/* The last rank is excluded. The one before it never calls ncclCommShrink, and ends its
 * communicator. */
static void left_rank(int32_t rank, int32_t nranks, void *arg)
{
	const struct left_case *k = arg;
	int excluded = nranks - 1;
	ncclComm_t child = NULL;
	struct shrink_rank r;
	uint64_t start_ns;

	left_begin(&r, k, rank, nranks);
	start_ns = os_now_ns();
	if (rank < nranks - 2) {
		EXPECT_NCCL(ncclRemoteError, left_shrink(&r, &excluded, &child));
		EXPECT(os_now_ns() - start_ns < LEFT_BOUND_NS);
		if (child)
			EXPECT_NCCL(ncclSuccess, ncclCommAbort(child));
	}
	EXPECT_NCCL(ncclSuccess, k->destroys && rank >= nranks - 2 ? ncclCommDestroy(r.comm)
								   : ncclCommAbort(r.comm));
	comm_buffers_free(r.mem, r.stream);
}

START_TEST(a_rank_that_leaves_before_it_has_the_id_is_an_error_for_the_others)
{
	for (uint64_t seed = 1; seed <= 16; seed++) {
		struct left_case k = {.nonblocking = seed % 2, .destroys = seed / 2 % 2};
		struct ranks_config c = {.hosts = 2,
					 .per_host = 2,
					 .per_proc = 1 + (uint32_t)seed / 4 % 2,
					 .seed = seed};

		ranks_run(&c, left_rank, &k);
	}
}
END_TEST

/* A rank calls late, and the others wait for it; then all have the child. */
static void late_rank(int32_t rank, int32_t nranks, void *arg)
{
	const struct left_case *k = arg;
	int excluded = nranks - 1;
	ncclComm_t child = NULL;
	struct shrink_rank r;

	left_begin(&r, k, rank, nranks);
	if (rank == k->late)
		os_sleep_ns(k->late_ns);
	if (rank < nranks - 1) {
		EXPECT_NCCL(ncclSuccess, left_shrink(&r, &excluded, &child));
		shrink_use(&r, child, rank, nranks - 1);
		EXPECT_NCCL(ncclSuccess, ncclCommDestroy(child));
	}
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(r.comm));
	comm_buffers_free(r.mem, r.stream);
}

START_TEST(a_rank_that_is_late_is_waited_for)
{
	for (uint64_t seed = 1; seed <= 12; seed++) {
		struct left_case k = {
			.nonblocking = seed % 2, .late = (int32_t)seed % 3, .late_ns = 20000000000};
		struct ranks_config c = {.hosts = 2, .per_host = 2, .seed = seed};

		ranks_run(&c, late_rank, &k);
	}
}
END_TEST

/* ---- grow ----------------------------------------------------------------------------------- */

static ncclUniqueId grow_first, grow_id;
static shared_u32 grow_first_ready, grow_ready;

static void grow_wait(const shared_u32 *ready)
{
	while (!shared_load_u32(ready, SHARED_ACQUIRE))
		os_sleep_ns(100000);
}

static void grow_first_begin(struct shrink_rank *r, int32_t old)
{
	comm_buffers(r->rank, (void **)&r->mem, &r->stream, SHRINK_COUNT * 4);
	if (r->rank == 0) {
		EXPECT_NCCL(ncclSuccess, ncclGetUniqueId(&grow_first));
		shared_store_u32(&grow_first_ready, 1, SHARED_RELEASE);
	}
	grow_wait(&grow_first_ready);
	r->comm = comm_open(r->rank, old, grow_first);
}

/* The first half of the ranks grows to all. Rank 1 has the id. */
static void grow_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct shrink_rank r = {.rank = rank, .nranks = nranks};
	const int32_t old = nranks / 2;
	ncclComm_t child = NULL;
	ncclUniqueId other;

	(void)arg;
	if (rank < old)
		grow_first_begin(&r, old);
	else
		comm_buffers(rank, (void **)&r.mem, &r.stream, SHRINK_COUNT * 4);
	if (rank == 1) {
		EXPECT_NCCL(ncclSuccess, ncclCommGetUniqueId(r.comm, &grow_id));
		EXPECT_NCCL(ncclInvalidUsage, ncclCommGetUniqueId(r.comm, &other));
		EXPECT_ERROR_SAYS("has an id");
		shared_store_u32(&grow_ready, 1, SHARED_RELEASE);
	}
	if (rank < old) {
		EXPECT_NCCL(ncclSuccess, ncclCommGrow(r.comm, nranks, rank == 1 ? &grow_id : NULL,
						      -1, &child, NULL));
	} else {
		grow_wait(&grow_ready);
		EXPECT_NCCL(ncclSuccess, ncclCommGrow(NULL, nranks, &grow_id, rank, &child, NULL));
	}
	shrink_use(&r, child, rank, nranks);
	if (rank < old) {
		shrink_use(&r, r.comm, rank, old);
		/* the id is used up: no rank passes one, or rank 1 an old one */
		ncclResult_t want = rank == 1 ? ncclInvalidArgument : ncclRemoteError;
		ncclComm_t none;

		EXPECT_NCCL(want, ncclCommGrow(r.comm, nranks, rank == 1 ? &grow_id : NULL, -1,
					       &none, NULL));
		EXPECT_NCCL(ncclInvalidArgument,
			    ncclCommGrow(r.comm, nranks, NULL, -1, &none, NULL));
		EXPECT_ERROR_SAYS("0 ranks of the communicator pass uniqueId");
		EXPECT_NCCL(ncclSuccess, ncclCommDestroy(r.comm));
	}
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(child));
	comm_buffers_free(r.mem, r.stream);
}

START_TEST(a_communicator_grows_by_ranks_that_are_new)
{
	struct ranks_config threads = {.hosts = 2, .per_host = 2, .engine = SIM_ENGINE_THREADS};

	for (uint64_t seed = 1; seed <= 11; seed++) {
		struct ranks_config c = {.hosts = 2, .per_host = 2, .seed = seed};

		shared_store_u32(&grow_ready, 0, SHARED_RELAXED);
		shared_store_u32(&grow_first_ready, 0, SHARED_RELAXED);
		ranks_run(seed < 11 ? &c : &threads, grow_rank, NULL);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("comm_shrink");
	TCase *t = tcase_create("shrink, revoke, grow");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, a_healthy_communicator_shrinks_and_goes_on);
	tcase_add_test(t, survivors_shrink_a_communicator_that_has_lost_a_rank);
	tcase_add_test(t, wrong_arguments_of_a_shrink_change_nothing);
	tcase_add_test(t, a_revoked_communicator_runs_nothing_and_can_be_split);
	tcase_add_test(t, a_revoke_ends_the_task_that_connects_ranks);
	tcase_add_test(t, a_rank_that_leaves_before_it_has_the_id_is_an_error_for_the_others);
	tcase_add_test(t, a_rank_that_is_late_is_waited_for);
	tcase_add_test(t, a_communicator_grows_by_ranks_that_are_new);
	suite_add_tcase(s, t);
	return suite_run(s);
}
