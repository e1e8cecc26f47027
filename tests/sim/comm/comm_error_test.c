/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators after something failed: one with an asynchronous error gives it to the next call,
 * and a call that failed was no operation, for its own rank and for the contract between ranks.
 */
#include <check.h>

#include "tests/sim/comm/comm_rank.h"
#include "tests/suite.h"

#define ERROR_COUNT 64

struct error_rank {
	ncclComm_t comm;
	cudaStream_t stream;
	int32_t *mem;
};

static void error_rank_begin(struct error_rank *r, int32_t rank, int32_t nranks)
{
	comm_buffers(rank, (void **)&r->mem, &r->stream, ERROR_COUNT * 4);
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&r->comm, nranks, ranks_id(), rank));
	ranks_barrier(); /* from here on an abort disturbs no rank's init */
}

static ncclResult_t error_call(struct error_rank *r, size_t count, ncclRedOp_t op)
{
	return ncclAllReduce(r->mem, r->mem, count, ncclInt32, op, r->comm, r->stream);
}

/* ---- asynchronous errors -------------------------------------------------------------------- */

static void async_until_error(ncclComm_t comm)
{
	ncclResult_t async = ncclSuccess;

	while (async == ncclSuccess)
		EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(comm, &async));
	EXPECT(async == ncclRemoteError);
}

/* The last rank aborts. The others receive the error; then every call that uses the communicator
 * returns it and does nothing else. */
static void async_rank(int32_t rank, int32_t nranks, void *arg)
{
	bool destroy = *(bool *)arg;
	struct error_rank r = {.mem = NULL};
	ncclResult_t async = ncclSuccess;
	int n = -7;

	error_rank_begin(&r, rank, nranks);
	if (rank == nranks - 1) {
		EXPECT_NCCL(ncclSuccess, ncclCommAbort(r.comm));
		comm_buffers_free(r.mem, r.stream);
		return;
	}
	async_until_error(r.comm);
	EXPECT_NCCL(ncclRemoteError, error_call(&r, 4, ncclSum));
	EXPECT_NCCL(ncclRemoteError, error_call(&r, 4, ncclSum));
	EXPECT_NCCL(ncclRemoteError, error_call(&r, 0, ncclSum));
	EXPECT_ERROR_SAYS("bootstrap"); /* the cause, not the refusal */
	EXPECT_NCCL(ncclRemoteError, ncclCommCount(r.comm, &n));
	EXPECT_NCCL(ncclRemoteError, ncclCommUserRank(r.comm, &n));
	EXPECT_NCCL(ncclRemoteError, ncclCommCuDevice(r.comm, &n));
	EXPECT(n == -7);
	EXPECT_NCCL(ncclRemoteError, ncclCommFinalize(r.comm));
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	EXPECT_NCCL(ncclRemoteError, error_call(&r, 4, ncclSum));
	EXPECT_NCCL(ncclRemoteError, ncclGroupEnd());
	EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(r.comm, &async));
	EXPECT(async == ncclRemoteError);
	/* nothing was queued: the stream has no kernel that waits */
	EXPECT(cudaStreamSynchronize(r.stream) == cudaSuccess);
	if (destroy)
		(void)ncclCommDestroy(r.comm);
	else
		EXPECT_NCCL(ncclSuccess, ncclCommAbort(r.comm));
	comm_buffers_free(r.mem, r.stream);
}

START_TEST(the_next_call_gives_the_asynchronous_error)
{
	for (uint64_t seed = 1; seed <= 12; seed++) {
		struct ranks_config c = {.hosts = 1 + seed % 2,
					 .per_host = 2,
					 .per_proc = 1 + (seed / 2) % 2,
					 .seed = seed};
		bool destroy = seed / 4 % 2;
		ranks_run(&c, async_rank, &destroy);
	}
}
END_TEST

/* The last rank is done with its communicator, which its process keeps until the other rank of the
 * process is: so no task polls it when its successor aborts. The others receive that error
 * nevertheless. */
static void parked_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct error_rank r = {.mem = NULL};

	(void)arg;
	error_rank_begin(&r, rank, nranks);
	if (rank == nranks - 1)
		EXPECT_NCCL(ncclSuccess, ncclCommDestroy(r.comm));
	ranks_barrier();
	if (rank > 0 && rank < nranks - 1)
		async_until_error(r.comm);
	if (rank < nranks - 1)
		EXPECT_NCCL(ncclSuccess, ncclCommAbort(r.comm));
	comm_buffers_free(r.mem, r.stream);
}

START_TEST(the_news_passes_a_rank_that_was_destroyed_before)
{
	for (uint64_t seed = 1; seed <= 6; seed++) {
		struct ranks_config c = {.hosts = 2,
					 .per_host = 2 + seed % 2,
					 .per_proc = 2 + seed % 2,
					 .seed = seed};
		ranks_run(&c, parked_rank, NULL);
	}
}
END_TEST

/* Rank 0's task makes the calls of all ranks: it aborts its own communicator and destroys one after
 * the other, whose kernels wait for rank 0. The first one's successor fails before it does. */
static void driven_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct error_rank *all = arg, *r = &all[rank];

	error_rank_begin(r, rank, nranks);
	if (rank == 0) {
		EXPECT_NCCL(ncclSuccess, ncclGroupStart());
		for (int32_t i = 1; i < nranks; i++)
			EXPECT_NCCL(ncclSuccess, error_call(&all[i], 4, ncclSum));
		EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
		EXPECT_NCCL(ncclSuccess, ncclCommAbort(r->comm));
		for (int32_t i = 1; i < nranks; i++)
			EXPECT_NCCL(ncclRemoteError, ncclCommDestroy(all[i].comm));
	}
	ranks_barrier();
	comm_buffers_free(r->mem, r->stream);
}

START_TEST(destroy_learns_of_a_failure_that_only_another_rank_of_the_process_sees)
{
	for (uint64_t seed = 1; seed <= 8; seed++) {
		static struct error_rank all[4];
		uint32_t n = 3 + seed % 2;
		struct ranks_config c = {.hosts = 1, .per_host = n, .per_proc = n, .seed = seed};
		ranks_run(&c, driven_rank, all);
	}
}
END_TEST

/* The error comes between a group's calls and its end: the group launches nothing. */
static void async_group_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct error_rank r = {.mem = NULL};

	(void)arg;
	error_rank_begin(&r, rank, nranks);
	if (rank == nranks - 1) {
		ranks_barrier();
		EXPECT_NCCL(ncclSuccess, ncclCommAbort(r.comm));
		comm_buffers_free(r.mem, r.stream);
		return;
	}
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	EXPECT_NCCL(ncclSuccess, error_call(&r, 4, ncclSum));
	ranks_barrier();
	async_until_error(r.comm);
	EXPECT_NCCL(ncclRemoteError, ncclGroupEnd());
	EXPECT(cudaStreamSynchronize(r.stream) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(r.comm));
	comm_buffers_free(r.mem, r.stream);
}

START_TEST(a_group_launches_nothing_on_a_communicator_that_has_failed)
{
	for (uint64_t seed = 1; seed <= 4; seed++) {
		struct ranks_config c = {.hosts = 1 + seed % 2, .per_host = 2, .seed = seed};
		ranks_run(&c, async_group_rank, NULL);
	}
}
END_TEST

/* ---- calls that failed are no operations ---------------------------------------------------- */

static void counted_check(const struct error_rank *r, int32_t rank, int32_t nranks)
{
	comm_sum(r->comm, rank, nranks, r->mem, r->stream, ERROR_COUNT);
}

/* Rank 0's groups fail as often as it has calls in them; the others make no such call. Then all go
 * on as one. */
static void counted_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct error_rank r = {.mem = NULL};

	(void)arg;
	error_rank_begin(&r, rank, nranks);
	counted_check(&r, rank, nranks);
	for (int calls = 1; rank == 0 && calls <= 3; calls++) {
		EXPECT_NCCL(ncclSuccess, ncclGroupStart());
		for (int i = 0; i < calls; i++)
			EXPECT_NCCL(ncclSuccess,
				    error_call(&r, i == 1 ? 0 : 1 + (size_t)i, ncclMax));
		EXPECT_NCCL(ncclInvalidArgument, error_call(&r, 4, (ncclRedOp_t)77));
		EXPECT_NCCL(ncclInvalidArgument, ncclGroupEnd());
	}
	counted_check(&r, rank, nranks);
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	EXPECT_NCCL(ncclSuccess, error_call(&r, 0, ncclSum));
	EXPECT_NCCL(ncclSuccess, error_call(&r, 3, ncclSum));
	EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
	counted_check(&r, rank, nranks);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(r.comm));
	comm_buffers_free(r.mem, r.stream);
}

START_TEST(the_calls_of_a_group_that_failed_are_not_counted)
{
	for (uint64_t seed = 1; seed <= 8; seed++) {
		struct ranks_config c = {.hosts = 1 + seed % 2, .per_host = 2, .seed = seed};
		ranks_run(&c, counted_rank, NULL);
	}
}
END_TEST

/* Every rank makes the same mistake, at different times, and then calls something else. No message
 * blames a rank for a call that another rank did not make. */
static void retried_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct error_rank r = {.mem = NULL};

	(void)arg;
	error_rank_begin(&r, rank, nranks);
	if (rank == 1)
		ranks_barrier();
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	EXPECT_NCCL(ncclSuccess, error_call(&r, 5, ncclMax));
	EXPECT_NCCL(ncclInvalidArgument, error_call(&r, 4, (ncclRedOp_t)77));
	EXPECT_NCCL(ncclInvalidArgument, ncclGroupEnd());
	EXPECT_NCCL(ncclSuccess, error_call(&r, 6, ncclMin));
	if (rank != 1)
		ranks_barrier();
	counted_check(&r, rank, nranks);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(r.comm));
	comm_buffers_free(r.mem, r.stream);
}

START_TEST(nobody_is_blamed_for_a_call_that_failed_on_all_ranks)
{
	for (uint64_t seed = 1; seed <= 4; seed++) {
		struct ranks_config c = {.hosts = 1, .per_host = 2, .seed = seed};
		ranks_run(&c, retried_rank, NULL);
	}
}
END_TEST

/* ---- launches that fail --------------------------------------------------------------------- */

/* The launch of rank 0 fails. Without a proxy no operation was handed over: the call had no effect.
 * With one, it waits for a kernel that does not come, and so will all ranks: the communicator has
 * failed. */
static void launch_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct error_rank r = {.mem = NULL};
	bool proxies = ranks_self()->all->config->hosts > 1;

	(void)arg;
	error_rank_begin(&r, rank, nranks);
	if (rank == 0)
		EXPECT_NCCL(ncclUnhandledCudaError, error_call(&r, 6, ncclSum));
	ranks_barrier();
	if (proxies && rank == 0)
		EXPECT_NCCL(ncclUnhandledCudaError, error_call(&r, 6, ncclSum));
	if (proxies) {
		EXPECT_NCCL(ncclSuccess, ncclCommAbort(r.comm));
	} else {
		counted_check(&r, rank, nranks);
		EXPECT_NCCL(ncclSuccess, ncclCommDestroy(r.comm));
	}
	comm_buffers_free(r.mem, r.stream);
}

START_TEST(a_launch_that_fails_is_no_operation_or_ends_the_communicator)
{
	for (uint32_t hosts = 1; hosts <= 2; hosts++) {
		uint64_t fired = 0;
		struct ranks_config c = {.hosts = hosts,
					 .per_host = 2,
					 .seed = 3,
					 .fault_plan = "cuda.launch_ex rank=0 nth=1 fail\n",
					 .fired = &fired};
		ranks_run(&c, launch_rank, NULL);
		ck_assert_uint_eq(fired, 1);
	}
}
END_TEST

/* ---- groups that end before their inits have begun ------------------------------------------ */

/* A mistake in a rank's group takes back the init that is in it: the others do not wait for it. */
static void withdrawn_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm = NULL, other = NULL;
	ncclUniqueId id = ranks_id();

	EXPECT(cudaSetDevice((int)comm_device(rank)) == cudaSuccess);
	if (rank == *(int32_t *)arg) {
		EXPECT_NCCL(ncclSuccess, ncclGroupStart());
		EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm, nranks, id, rank));
		EXPECT_NCCL(ncclInvalidArgument, ncclCommInitRank(&other, nranks, id, nranks));
		EXPECT_NCCL(ncclInvalidArgument, ncclGroupEnd());
	} else {
		EXPECT_NCCL(ncclRemoteError, ncclCommInitRank(&comm, nranks, id, rank));
	}
	EXPECT(!comm && !other);
}

START_TEST(nobody_waits_for_an_init_that_its_group_took_back)
{
	for (uint64_t seed = 1; seed <= 24; seed++) {
		struct ranks_config c = {.hosts = 1 + seed % 2,
					 .per_host = 2,
					 .per_proc = 1 + (seed / 2) % 2,
					 .seed = seed};
		int32_t whose = (int32_t)(seed / 4 % (2 * c.hosts));
		ranks_run(&c, withdrawn_rank, &whose);
	}
}
END_TEST

/* ---- a call that fails before it begins an init
 * ------------------------------------------------ */

struct refused {
	int32_t whose; /* rank */
	int how;
	bool late; /* the others come later */
};

static ncclResult_t refused_call(const struct refused *c, ncclComm_t *comm, ncclUniqueId id,
				 int32_t rank, int32_t nranks)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

	if (c->how == 0)
		config.netName = "NoSuchNet";
	else if (c->how == 1)
		config.maxCTAs = 0;
	return ncclCommInitRankConfig(c->how == 2 ? NULL : comm, nranks, id, rank, &config);
}

static void refused_rank(int32_t rank, int32_t nranks, void *arg)
{
	static const char *const why[] = {"netName is 'NoSuchNet'", "maxCTAs is 0", "comm is NULL"};
	const struct refused *c = arg;
	ncclUniqueId id = ranks_id();
	ncclComm_t comm = NULL;

	EXPECT(cudaSetDevice((int)comm_device(rank)) == cudaSuccess);
	if (rank == c->whose) {
		EXPECT_NCCL(ncclInvalidArgument, refused_call(c, &comm, id, rank, nranks));
		ranks_barrier();
		return;
	}
	if (c->late)
		ranks_barrier();
	EXPECT_NCCL(ncclRemoteError, ncclCommInitRank(&comm, nranks, id, rank));
	EXPECT(!comm);
	if (nranks == 2 && c->whose == 1)
		EXPECT_ERROR_SAYS(why[c->how]);
	if (!c->late)
		ranks_barrier();
}

START_TEST(a_call_that_is_refused_is_an_error_for_the_ranks_that_wait)
{
	for (uint64_t seed = 1; seed <= 24; seed++) {
		struct ranks_config c = {.hosts = 2, .per_host = 1 + seed / 12, .seed = seed};
		struct refused r = {.whose = 1 - (int32_t)(seed / 6 % 2),
				    .how = (int)(seed % 3),
				    .late = seed / 3 % 2};

		ranks_run(&c, refused_rank, &r);
	}
}
END_TEST

/* Rank 0 begins its init when all others have failed in theirs. */
static void last_rank(int32_t rank, int32_t nranks, void *arg)
{
	const struct refused refuses = {.how = 1};
	ncclUniqueId id = ranks_id();
	ncclComm_t comm = NULL;

	(void)arg;
	EXPECT(cudaSetDevice((int)comm_device(rank)) == cudaSuccess);
	if (rank == 1)
		EXPECT_NCCL(ncclInvalidArgument, refused_call(&refuses, &comm, id, rank, nranks));
	ranks_barrier();
	if (rank > 1)
		EXPECT_NCCL(ncclRemoteError, ncclCommInitRank(&comm, nranks, id, rank));
	ranks_barrier();
	if (rank)
		return;
	EXPECT_NCCL(ncclRemoteError, ncclCommInitRank(&comm, nranks, id, rank));
	EXPECT_ERROR_SAYS("rank 1 failed before all ranks had checked in: config: maxCTAs is 0");
}

START_TEST(the_last_rank_learns_which_rank_failed_first)
{
	for (uint64_t seed = 1; seed <= 4; seed++) {
		struct ranks_config c = {.hosts = 2, .per_host = 2, .seed = seed};

		ranks_run(&c, last_rank, NULL);
	}
}
END_TEST

/* ---- settings that ranks of a host have differently
 * -------------------------------------------- */

struct differs {
	const char *name, *value, *says;
};

static void differs_rank(int32_t rank, int32_t nranks, void *arg)
{
	const struct differs *d = arg;
	ncclUniqueId id = ranks_id();
	ncclComm_t comm = NULL;

	if (rank == 1)
		EXPECT(world_proc_setenv(os_proc(), d->name, d->value) == 0);
	EXPECT(cudaSetDevice((int)comm_device(rank)) == cudaSuccess);
	EXPECT_NCCL(ncclInvalidUsage, ncclCommInitRank(&comm, nranks, id, rank));
	EXPECT(!comm);
	EXPECT_ERROR_SAYS(d->says);
	EXPECT_ERROR_SAYS("it must be the same on all ranks of a host");
}

START_TEST(settings_that_make_other_rings_are_named_with_both_ranks)
{
	static const struct differs all[] = {
		{"NCCL_NET_GDR_LEVEL", "LOC",
		 "NCCL_NET_GDR_LEVEL: rank 0 has its default, rank 1 has LOC;"},
		{"NCCL_P2P_LEVEL", "LOC",
		 "NCCL_P2P_LEVEL or NCCL_P2P_DISABLE: rank 0 has its default, rank 1 has LOC;"},
		{"NCCL_P2P_DISABLE", "1",
		 "NCCL_P2P_LEVEL or NCCL_P2P_DISABLE: rank 0 has its default, rank 1 has LOC;"},
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		struct ranks_config c = {.hosts = 2, .per_host = 2, .seed = i + 1};
		struct differs d = all[i];

		ranks_run(&c, differs_rank, &d);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("communicators that failed");
	TCase *t = tcase_create("errors");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, the_next_call_gives_the_asynchronous_error);
	tcase_add_test(t, the_news_passes_a_rank_that_was_destroyed_before);
	tcase_add_test(t, destroy_learns_of_a_failure_that_only_another_rank_of_the_process_sees);
	tcase_add_test(t, a_group_launches_nothing_on_a_communicator_that_has_failed);
	tcase_add_test(t, the_calls_of_a_group_that_failed_are_not_counted);
	tcase_add_test(t, nobody_is_blamed_for_a_call_that_failed_on_all_ranks);
	tcase_add_test(t, a_launch_that_fails_is_no_operation_or_ends_the_communicator);
	tcase_add_test(t, nobody_waits_for_an_init_that_its_group_took_back);
	tcase_add_test(t, a_call_that_is_refused_is_an_error_for_the_ranks_that_wait);
	tcase_add_test(t, the_last_rank_learns_which_rank_failed_first);
	tcase_add_test(t, settings_that_make_other_rings_are_named_with_both_ranks);
	suite_add_tcase(s, t);
	return suite_run(s);
}
