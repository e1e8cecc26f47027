/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ncclCommDestroy waits for no rank of another host, in any order of communicators, and its wait
 * for a rank of its own host ends; and a rank that leaves others in a collective gives them an
 * error.
 */
#include <check.h>

#include "core/base/hash.h"
#include "tests/sim/comm/comm_rank.h"
#include "tests/suite.h"

#define DESTROY_COUNT 64
#define DESTROY_COMMS 3

struct destroy_rank {
	ncclComm_t comm[DESTROY_COMMS];
	cudaStream_t stream;
	int32_t *mem;
};

struct destroy_case {
	uint64_t seed;
	bool finalize, poll;
	ncclUniqueId id[DESTROY_COMMS];
};

static void destroy_begin(struct destroy_case *c, struct destroy_rank *r, int32_t rank,
			  int32_t nranks, int comms)
{
	comm_buffers(rank, (void **)&r->mem, &r->stream, DESTROY_COUNT * 4);
	for (int i = 0; i < comms; i++) {
		if (rank == 0)
			EXPECT_NCCL(ncclSuccess, ncclGetUniqueId(&c->id[i]));
		ranks_barrier();
		r->comm[i] = comm_open(rank, nranks, c->id[i]);
	}
}

static void destroy_one(const struct destroy_case *c, ncclComm_t comm)
{
	ncclResult_t async;

	if (c->finalize)
		EXPECT_NCCL(ncclSuccess, ncclCommFinalize(comm));
	if (c->poll) {
		EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(comm, &async));
		EXPECT(async == ncclSuccess);
	}
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
}

static const struct ranks_config destroy_worlds[] = {
	{.hosts = 2, .per_host = 1},
	{.hosts = 2, .per_host = 1, .engine = SIM_ENGINE_THREADS},
	{.hosts = 2, .per_host = 2, .per_proc = 2},
	{.hosts = 3, .per_host = 2, .per_proc = 2},
	{.hosts = 3, .per_host = 3, .per_proc = 3, .engine = SIM_ENGINE_THREADS},
};

/* ---- order ---------------------------------------------------------------------------------- */

/* Each rank of a host destroys its communicators in the same order, every host in another one. */
static void order_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct destroy_case *c = arg;
	struct destroy_rank r = {.mem = NULL};
	uint32_t host = (uint32_t)rank / ranks_self()->all->config->per_host;

	destroy_begin(c, &r, rank, nranks, DESTROY_COMMS);
	for (int i = 0; i < DESTROY_COMMS; i++)
		comm_sum(r.comm[i], rank, nranks, r.mem, r.stream, DESTROY_COUNT);
	for (uint32_t i = 0; i < DESTROY_COMMS; i++) {
		uint32_t k = host % 2 ? DESTROY_COMMS - 1 - i : i;

		os_sleep_ns((hash64_combine(c->seed * 64 + (uint64_t)rank, i) % 4) * 50000000);
		destroy_one(c, r.comm[k]);
	}
	comm_buffers_free(r.mem, r.stream);
}

START_TEST(hosts_destroy_communicators_in_different_orders)
{
	for (uint64_t seed = 1; seed <= 12; seed++) {
		struct ranks_config w = destroy_worlds[seed % ARRAY_LEN(destroy_worlds)];
		struct destroy_case c = {.seed = seed, .finalize = seed % 2, .poll = seed / 2 % 2};

		w.seed = seed;
		ranks_run(&w, order_rank, &c);
	}
}
END_TEST

/* The first host destroys one communicator, and uses the other one with the second host, which
 * destroys the first one after that. */
static void then_use_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct destroy_case *c = arg;
	struct destroy_rank r = {.mem = NULL};
	bool early = (uint32_t)rank < ranks_self()->all->config->per_host;

	destroy_begin(c, &r, rank, nranks, 2);
	comm_sum(r.comm[0], rank, nranks, r.mem, r.stream, DESTROY_COUNT);
	if (early)
		destroy_one(c, r.comm[0]);
	comm_sum(r.comm[1], rank, nranks, r.mem, r.stream, DESTROY_COUNT);
	if (!early)
		destroy_one(c, r.comm[0]);
	destroy_one(c, r.comm[1]);
	comm_buffers_free(r.mem, r.stream);
}

START_TEST(a_communicator_is_used_after_another_one_was_destroyed_here)
{
	for (uint64_t seed = 1; seed <= 12; seed++) {
		struct ranks_config w = destroy_worlds[seed % ARRAY_LEN(destroy_worlds)];
		struct destroy_case c = {.seed = seed, .finalize = seed % 2, .poll = true};

		w.seed = seed;
		w.per_proc = 1; /* freeing waits for the kernels of all communicators of a GPU */
		ranks_run(&w, then_use_rank, &c);
	}
}
END_TEST

/* Two processes of one host, which destroy two communicators in different orders: NCCL may wait
 * without end. */
static void swap_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct destroy_case *c = arg;
	struct destroy_rank r = {.mem = NULL};

	destroy_begin(c, &r, rank, nranks, 2);
	for (int i = 0; i < 2; i++)
		comm_sum(r.comm[i], rank, nranks, r.mem, r.stream, DESTROY_COUNT);
	destroy_one(c, r.comm[rank % 2]);
	destroy_one(c, r.comm[1 - rank % 2]);
	comm_buffers_free(r.mem, r.stream);
}

START_TEST(processes_of_a_host_destroy_communicators_in_different_orders)
{
	for (uint64_t seed = 1; seed <= 6; seed++) {
		struct ranks_config w = {.hosts = 1 + seed % 2, .per_host = 2, .seed = seed};
		struct destroy_case c = {.seed = seed};

		ranks_run(&w, swap_rank, &c);
	}
}
END_TEST

/* Each rank leaves long before the next one of its host, which still has its memory open. After
 * ncclCommFinalize its the destroy of rank 0 waits for none of them: they destroy when it has
 * returned. */
static void late_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct destroy_case *c = arg;
	struct destroy_rank r = {.mem = NULL};
	uint64_t begin_ns, took_ns;

	destroy_begin(c, &r, rank, nranks, 1);
	comm_sum(r.comm[0], rank, nranks, r.mem, r.stream, DESTROY_COUNT);
	if (c->finalize)
		EXPECT_NCCL(ncclSuccess, ncclCommFinalize(r.comm[0]));
	if (rank && c->finalize)
		ranks_barrier();
	if (rank)
		os_sleep_ns((uint64_t)rank * 30000000000ull);
	begin_ns = os_now_ns();
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(r.comm[0]));
	took_ns = os_now_ns() - begin_ns;
	EXPECT(rank || !c->finalize || took_ns < 1000000000ull);
	if (!rank && c->finalize)
		ranks_barrier();
	comm_buffers_free(r.mem, r.stream);
}

START_TEST(a_rank_leaves_long_before_the_others_of_its_host)
{
	for (uint64_t seed = 1; seed <= 8; seed++) {
		struct ranks_config w = {.hosts = 1 + seed % 2, .per_host = 3, .seed = seed};
		struct destroy_case c = {.seed = seed, .finalize = seed / 2 % 2};

		ranks_run(&w, late_rank, &c);
	}
}
END_TEST

/* Rank 1 aborts a communicator in which nothing is in progress. Rank 0 ends it in order: its calls
 * report what it has launched itself, and no end of another rank. */
static void quiet_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct destroy_case *c = arg;
	struct destroy_rank r = {.mem = NULL};

	destroy_begin(c, &r, rank, nranks, 1);
	comm_sum(r.comm[0], rank, nranks, r.mem, r.stream, DESTROY_COUNT);
	ranks_barrier();
	if (rank == 1)
		EXPECT_NCCL(ncclSuccess, ncclCommAbort(r.comm[0]));
	else
		os_sleep_ns(c->seed % 4 * 100000000);
	if (rank != 1)
		destroy_one(c, r.comm[0]);
	comm_buffers_free(r.mem, r.stream);
}

START_TEST(an_abort_of_another_rank_is_no_error_of_an_end_in_order)
{
	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct ranks_config w = destroy_worlds[seed % ARRAY_LEN(destroy_worlds)];
		struct destroy_case c = {.seed = seed, .finalize = true, .poll = seed / 4 % 2};

		w.per_proc = 1;
		w.seed = seed;
		ranks_run(&w, quiet_rank, &c);
	}
}
END_TEST

/* ---- others that still use it --------------------------------------------------------------- */

/* The ranks of the first host, or the first rank of one host, leave after a collective. The others
 * call one more, and get an error, which explains it on at least those that are next to them. All
 * have completed the first collective before: a rank that gets the error aborts, and one that waits
 * for the first one's data then gets none. */
static void misused_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct destroy_case *c = arg;
	struct destroy_rank r = {.mem = NULL};
	ncclResult_t async = ncclSuccess;
	const struct ranks_config *w = ranks_self()->all->config;
	uint32_t leave = w->hosts == 1 ? 1 : w->per_host;

	destroy_begin(c, &r, rank, nranks, 1);
	comm_sum(r.comm[0], rank, nranks, r.mem, r.stream, DESTROY_COUNT);
	ranks_barrier();
	if ((uint32_t)rank < leave) {
		destroy_one(c, r.comm[0]);
		comm_buffers_free(r.mem, r.stream);
		return;
	}
	/* the error may be known by now */
	(void)ncclAllReduce(r.mem, r.mem, 4, ncclInt32, ncclSum, r.comm[0], r.stream);
	while (async == ncclSuccess)
		EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(r.comm[0], &async));
	EXPECT(async == ncclRemoteError);
	if (nranks == 2)
		EXPECT_ERROR_SAYS("destroyed the communicator");
	EXPECT_NCCL(ncclSuccess,
		    c->finalize ? ncclCommDestroy(r.comm[0]) : ncclCommAbort(r.comm[0]));
	comm_buffers_free(r.mem, r.stream);
}

START_TEST(a_collective_with_a_rank_that_has_left_is_an_error)
{
	for (uint64_t seed = 1; seed <= 15; seed++) {
		struct ranks_config w = destroy_worlds[seed % ARRAY_LEN(destroy_worlds)];
		struct destroy_case c = {.seed = seed, .finalize = seed % 2};

		w.seed = seed;
		ranks_run(&w, misused_rank, &c);
	}
}
END_TEST

/* The same within a host, between processes: the rank that leaves waits for the other one, which
 * gets the error. */
START_TEST(a_collective_with_a_rank_that_waits_to_leave_is_an_error)
{
	for (uint64_t seed = 1; seed <= 8; seed++) {
		struct ranks_config w = {.hosts = 1, .per_host = 2, .seed = seed};
		struct destroy_case c = {.seed = seed, .finalize = seed % 2};

		ranks_run(&w, misused_rank, &c);
	}
}
END_TEST

/* Rank 1 ends the communicator and never receives what rank 0, the root, has sent. Buffers hold it,
 * so the root's kernel ends, and its communicator ends in order. */
static void root_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct destroy_case *c = arg;
	struct destroy_rank r = {.mem = NULL};
	ncclResult_t async;

	destroy_begin(c, &r, rank, nranks, 1);
	comm_sum(r.comm[0], rank, nranks, r.mem, r.stream, DESTROY_COUNT);
	ranks_barrier();
	if (!rank)
		EXPECT_NCCL(ncclSuccess,
			    ncclBroadcast(r.mem, r.mem, 4, ncclInt32, 0, r.comm[0], r.stream));
	for (uint64_t i = 0; !rank && i < c->seed % 20; i++) {
		EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(r.comm[0], &async));
		EXPECT(async == ncclSuccess);
		os_sleep_ns(20000000);
	}
	destroy_one(c, r.comm[0]);
	comm_buffers_free(r.mem, r.stream);
}

START_TEST(a_root_ends_in_order_when_no_rank_has_received)
{
	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct ranks_config w = {
			.hosts = 1, .per_host = 2, .per_proc = 1 + seed / 2 % 2, .seed = seed};
		struct destroy_case c = {.seed = seed, .finalize = seed % 2, .poll = true};

		ranks_run(&w, root_rank, &c);
	}
}
END_TEST

/* Two tasks of one process. Rank 0 has launched a collective of B when rank 1 destroys A as the
 * last one, which frees memory of both GPUs; rank 1's own launch in B comes after that. */
static void held_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct destroy_case *c = arg;
	struct destroy_rank r;

	destroy_begin(c, &r, rank, nranks, 2);
	comm_sum(r.comm[0], rank, nranks, r.mem, r.stream, DESTROY_COUNT);
	comm_sum(r.comm[1], rank, nranks, r.mem, r.stream, DESTROY_COUNT);
	if (rank)
		ranks_barrier();
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(r.comm[0]));
	EXPECT_NCCL(ncclSuccess, ncclAllReduce(r.mem, r.mem, DESTROY_COUNT, ncclInt32, ncclSum,
					       r.comm[1], r.stream));
	if (!rank)
		ranks_barrier();
	EXPECT(cudaStreamSynchronize(r.stream) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(r.comm[1]));
	comm_buffers_free(r.mem, r.stream);
}

START_TEST(memory_of_a_communicator_waits_for_kernels_of_another_one)
{
	static const char *const env[] = {"DOPPEL_CUDA_WAITS=1", NULL};

	for (uint64_t seed = 1; seed <= 5; seed++) {
		struct ranks_config w = {.per_host = 2,
					 .per_proc = 2,
					 .engine = seed == 5 ? SIM_ENGINE_THREADS : SIM_ENGINE_SIM,
					 .seed = seed,
					 .env = env};
		struct destroy_case c = {.seed = seed};

		ranks_run(&w, held_rank, &c);
	}
}
END_TEST

/* Ranks of a process fail in their inits, all with the same id that no call made. */
static void same_id_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclUniqueId id = {0};
	ncclComm_t comm = NULL;

	(void)nranks;
	(void)arg;
	EXPECT(cudaSetDevice((int)comm_device(rank)) == cudaSuccess);
	for (int i = 0; i < 4; i++) {
		EXPECT_NCCL(ncclInvalidArgument, ncclCommInitRank(&comm, 1, id, 0));
		EXPECT(!comm);
	}
}

START_TEST(each_communicator_of_one_id_is_released_once)
{
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct ranks_config w = {
			.per_host = 4, .per_proc = 4, .strategy = SIM_STARVE, .seed = seed};

		ranks_run(&w, same_id_rank, NULL);
	}
}
END_TEST

/* Rank 0 is finalized. Rank 1, of its process, polls until it learns that rank 2 has aborted, and
 * looks at both rings: that is no error of rank 0. */
static void finalized_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm = comm_open(rank, nranks, ranks_id());
	ncclResult_t async = ncclSuccess;
	int n = 0;

	(void)arg;
	if (rank == 0)
		EXPECT_NCCL(ncclSuccess, ncclCommFinalize(comm));
	ranks_barrier();
	if (rank == 2)
		EXPECT_NCCL(ncclSuccess, ncclCommAbort(comm));
	while (rank == 1 && async == ncclSuccess)
		EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(comm, &async));
	ranks_barrier();
	if (rank == 0) {
		EXPECT_NCCL(ncclSuccess, ncclCommCount(comm, &n));
		EXPECT(n == nranks);
		EXPECT_NCCL(ncclInvalidUsage, ncclCommFinalize(comm));
		EXPECT_ERROR_SAYS("finalized; only ncclCommDestroy");
		EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(comm, &async));
		EXPECT(async == ncclSuccess);
		EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	} else if (rank == 1) {
		EXPECT_NCCL(ncclRemoteError, ncclCommCount(comm, &n));
		EXPECT_NCCL(ncclSuccess, ncclCommAbort(comm));
	}
}

START_TEST(an_error_of_others_is_none_of_a_finalized_communicator)
{
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct ranks_config c = {.hosts = 1, .per_host = 3, .per_proc = 2, .seed = seed};

		ranks_run(&c, finalized_rank, NULL);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("the end of communicators");
	TCase *t = tcase_create("destroy");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, hosts_destroy_communicators_in_different_orders);
	tcase_add_test(t, a_communicator_is_used_after_another_one_was_destroyed_here);
	tcase_add_test(t, processes_of_a_host_destroy_communicators_in_different_orders);
	tcase_add_test(t, a_rank_leaves_long_before_the_others_of_its_host);
	tcase_add_test(t, an_abort_of_another_rank_is_no_error_of_an_end_in_order);
	tcase_add_test(t, a_collective_with_a_rank_that_has_left_is_an_error);
	tcase_add_test(t, a_collective_with_a_rank_that_waits_to_leave_is_an_error);
	tcase_add_test(t, a_root_ends_in_order_when_no_rank_has_received);
	tcase_add_test(t, memory_of_a_communicator_waits_for_kernels_of_another_one);
	tcase_add_test(t, each_communicator_of_one_id_is_released_once);
	tcase_add_test(t, an_error_of_others_is_none_of_a_finalized_communicator);
	suite_add_tcase(s, t);
	return suite_run(s);
}
