/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ncclCommInitRankScalable: several roots share the ranks. Each root runs in a process of its own,
 * or in that of a rank. A rank that fails, ids that do not fit together, and a root that ends are
 * an error of every rank, within a bound.
 */
#include <check.h>

#include "tests/sim/comm/comm_rank.h"
#include "tests/suite.h"

#define ROOTS_MOST 9
#define SECOND_NS  1000000000ull
/* Twice NCCL's attempts to connect, on strategies that stretch the time. */
#define BOUND_NS (120 * SECOND_NS)

/* ---- the roots ------------------------------------------------------------------------------ */

struct roots {
	int n;
	bool apart; /* each root has its own process */
	int32_t whose;
	int how;
	ncclUniqueId ids[ROOTS_MOST];
	struct os_proc *proc[ROOTS_MOST];
	shared_u32 failed; /* number of ranks that got an error */
};

static void roots_id_task(void *arg)
{
	EXPECT_NCCL(ncclSuccess, ncclGetUniqueId(arg));
}

static void roots_id_apart(struct roots *t, int k)
{
	struct os_thread_attr attr = {.name = "makes an id", .rank = -1};
	struct os_thread *task;
	char name[32];

	snprintf(name, sizeof name, "host0/root%d", k);
	EXPECT(world_proc_create(0, name, &t->proc[k]) == 0);
	EXPECT(world_thread_start(t->proc[k], &task, &attr, roots_id_task, &t->ids[k]) == 0);
	os_thread_join(task);
}

/* Makes the ids: by a process of each, or by rank 2k of each, counted round. */
static void roots_make(struct roots *t, int32_t rank, int32_t nranks)
{
	for (int k = 0; k < t->n; k++) {
		if (t->apart && rank == 0)
			roots_id_apart(t, k);
		else if (!t->apart && rank == 2 * k % nranks)
			EXPECT_NCCL(ncclSuccess, ncclGetUniqueId(&t->ids[k]));
	}
	ranks_barrier();
}

/* All ranks call it: the processes of the roots end. */
static void roots_end(struct roots *t, int32_t rank)
{
	ranks_barrier();
	for (int k = 0; k < t->n && t->apart && rank == 0; k++)
		if (world_proc_alive(t->proc[k]))
			world_proc_exit(t->proc[k]);
}

static ncclResult_t roots_init(struct roots *t, ncclComm_t *comm, int32_t rank, int32_t nranks)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

	EXPECT(cudaSetDevice((int)comm_device(rank)) == cudaSuccess);
	return ncclCommInitRankScalable(comm, nranks, rank, t->n, t->ids, &config);
}

/* The init fails with this error, in `bound_ns`, and leaves no communicator. */
static void roots_init_fails(struct roots *t, int32_t rank, int32_t nranks, ncclResult_t error,
			     uint64_t bound_ns)
{
	const uint64_t began_ns = os_now_ns();
	ncclComm_t comm = NULL;

	EXPECT_NCCL(error, roots_init(t, &comm, rank, nranks));
	EXPECT(!comm);
	EXPECT(os_now_ns() - began_ns < bound_ns);
}

static void roots_sum(ncclComm_t comm, int32_t rank, int32_t nranks)
{
	cudaStream_t stream;
	void *mem;

	comm_buffers(rank, &mem, &stream, 4096);
	comm_sum(comm, rank, nranks, mem, stream, 100);
	comm_buffers_free(mem, stream);
}

/* ---- communicators -------------------------------------------------------------------------- */

static void several_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct roots *t = arg;
	ncclComm_t comm;

	roots_make(t, rank, nranks);
	if (t->whose == rank) /* a rank, and perhaps all of a root, is late */
		os_sleep_ns(20 * SECOND_NS);
	EXPECT_NCCL(ncclSuccess, roots_init(t, &comm, rank, nranks));
	roots_sum(comm, rank, nranks);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	roots_end(t, rank);
}

START_TEST(each_root_serves_its_block_of_ranks)
{
	static const int roots[] = {1, 2, 3, 5};
	static const struct {
		uint32_t hosts, per_host;
	} ranks[] = {{1, 5}, {1, 7}, {3, 3}, {5, 1}};

	for (uint64_t seed = 1; seed <= 48; seed++) {
		const int at = (int)(seed / 4 % 4);
		struct ranks_config c = {.hosts = ranks[at].hosts,
					 .per_host = ranks[at].per_host,
					 .per_proc = 1 + (seed / 2) % 2,
					 .seed = seed};
		struct roots t = {.n = roots[seed % 4],
				  .apart = seed / 16 % 2,
				  .whose = seed % 3 ? -1 : (int32_t)(seed / 3 % 5)};

		ranks_run(&c, several_rank, &t);
	}
}
END_TEST

/* Each root has one rank, which is the first and the last. */
START_TEST(as_many_roots_as_ranks)
{
	for (uint64_t seed = 1; seed <= 8; seed++) {
		struct ranks_config c = {.hosts = 1, .per_host = 2 + seed % 6, .seed = seed};
		struct roots t = {.n = (int)c.per_host, .apart = seed % 2, .whose = -1};

		c.engine = seed > 6 ? SIM_ENGINE_THREADS : SIM_ENGINE_SIM;
		ranks_run(&c, several_rank, &t);
	}
}
END_TEST

/* In a group of one task, and non-blocking: two ways into the same init. */
static void nonblocking_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclResult_t rc = ncclInProgress;
	struct roots *t = arg;
	ncclComm_t comm;

	config.blocking = 0;
	roots_make(t, rank, nranks);
	EXPECT(cudaSetDevice((int)comm_device(rank)) == cudaSuccess);
	EXPECT_NCCL(ncclInProgress,
		    ncclCommInitRankScalable(&comm, nranks, rank, t->n, t->ids, &config));
	while (rc == ncclInProgress)
		EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(comm, &rc));
	EXPECT_NCCL(ncclSuccess, rc);
	roots_sum(comm, rank, nranks);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	roots_end(t, rank);
}

START_TEST(several_roots_of_a_nonblocking_communicator)
{
	for (uint64_t seed = 1; seed <= 6; seed++) {
		struct ranks_config c = {.hosts = 2, .per_host = 3, .seed = seed};
		struct roots t = {.n = 2 + (int)(seed % 3), .whose = -1};

		ranks_run(&c, nonblocking_rank, &t);
	}
}
END_TEST

static void group_rank(int32_t rank, int32_t nranks, void *arg)
{
	enum { RANKS = 5 };
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	struct roots *t = arg;
	ncclComm_t comm[RANKS];

	roots_make(t, rank, nranks);
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	for (int r = 0; r < RANKS; r++) {
		EXPECT(cudaSetDevice(r) == cudaSuccess);
		EXPECT_NCCL(ncclSuccess,
			    ncclCommInitRankScalable(&comm[r], RANKS, r, t->n, t->ids, &config));
	}
	EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
	for (int r = 0; r < RANKS; r++)
		EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm[r]));
	roots_end(t, rank);
}

START_TEST(several_roots_of_a_group)
{
	for (uint64_t seed = 1; seed <= 4; seed++) {
		struct ranks_config c = {.hosts = 1, .per_host = 1, .seed = seed};
		struct roots t = {.n = 2 + (int)(seed % 3), .apart = true};

		ranks_run(&c, group_rank, &t);
	}
}
END_TEST

/* ---- a rank that fails ---------------------------------------------------------------------- */

/* The rank's config is wrong, so that it gives up before its check-in. */
static void given_up_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	struct roots *t = arg;
	ncclComm_t comm = NULL;
	char line[64];

	config.maxCTAs = 0;
	roots_make(t, rank, nranks);
	if (rank == t->whose && t->how)
		os_sleep_ns(5 * SECOND_NS);
	if (rank == t->whose) {
		EXPECT_NCCL(ncclInvalidArgument,
			    ncclCommInitRankScalable(&comm, nranks, rank, t->n, t->ids, &config));
	} else {
		roots_init_fails(t, rank, nranks, ncclRemoteError, BOUND_NS);
		/* All others wait, so that no rank learns of it by another's end. Rank 0 ends the
		 * root of its process, which may be faster than its report. */
		if (t->how && (t->whose || t->apart)) {
			snprintf(line, sizeof line, "rank %d failed before all ranks had",
				 t->whose);
			EXPECT_ERROR_SAYS(line);
			EXPECT_ERROR_SAYS("maxCTAs is 0");
		}
	}
	roots_end(t, rank);
}

START_TEST(a_rank_that_gives_up_ends_the_init_at_all_roots)
{
	for (uint64_t seed = 1; seed <= 36; seed++) {
		struct ranks_config c = {.hosts = 1, .per_host = 7, .seed = seed};
		struct roots t = {.n = 2 + (int)(seed % 4),
				  .apart = seed / 2 % 2,
				  .whose = (int32_t)(seed / 4 % 7),
				  .how = (int)(seed / 3 % 2)};

		ranks_run(&c, given_up_rank, &t);
	}
}
END_TEST

/* ---- ids that do not fit -------------------------------------------------------------------- */

enum misfit { MISFIT_FEWER, MISFIT_OTHER_SET, MISFIT_ORDER, MISFIT_KINDS };

/* One rank has fewer ids, one id of another set, or another order. */
static void misfit_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct roots *t = arg, own = *t;

	roots_make(t, rank, nranks);
	own = *t;
	own.n = t->n - 1; /* the last id is that of another set */
	if (rank == t->whose && t->how == MISFIT_FEWER)
		own.n--;
	else if (rank == t->whose && t->how == MISFIT_OTHER_SET)
		own.ids[1] = t->ids[t->n - 1];
	else if (rank == t->whose) {
		own.ids[0] = t->ids[1];
		own.ids[1] = t->ids[0];
	}
	const uint64_t began_ns = os_now_ns();
	ncclComm_t comm = NULL;
	ncclResult_t rc = roots_init(&own, &comm, rank, nranks);

	EXPECT(rc == ncclInvalidUsage || rc == ncclRemoteError);
	EXPECT(!comm);
	EXPECT(os_now_ns() - began_ns < BOUND_NS);
	if (rc == ncclInvalidUsage) {
		shared_add_u32(&t->failed, 1, SHARED_RELAXED);
		EXPECT_ERROR_SAYS("lists of unique ids");
	}
	ranks_barrier();
	EXPECT(shared_load_u32(&t->failed, SHARED_RELAXED) > 0);
	roots_end(t, rank);
}

START_TEST(ids_of_two_sets_are_refused_on_all_ranks)
{
	for (uint64_t seed = 1; seed <= 84; seed++) {
		struct ranks_config c = {.hosts = 1, .per_host = 7, .seed = seed};
		struct roots t = {.n = 4,
				  .apart = true,
				  .whose = (int32_t)(seed % 7),
				  .how = (int)(seed / 7 % MISFIT_KINDS)};

		ranks_run(&c, misfit_rank, &t);
	}
}
END_TEST

static void wrong_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct roots *t = arg, own;
	ncclComm_t comm = NULL;

	roots_make(t, rank, nranks);
	own = *t;
	if (rank == t->whose && t->how == 0) {
		own.n = nranks + 1;
	} else if (rank == t->whose && t->how == 1) {
		own.n = 0;
	} else if (rank == t->whose && t->how == 2) {
		own.ids[1] = own.ids[0];
	} else if (rank == t->whose) {
		memset(&own.ids[t->n - 1], 0, sizeof own.ids[0]);
	}
	if (rank == t->whose) {
		static const char *const line[] = {"nId is 6, expected 1 to 5",
						   "nId is 0, expected",
						   "commIds[1] is the same as commIds[0]",
						   "] does not come from ncclGetUniqueId"};

		EXPECT_NCCL(ncclInvalidArgument, roots_init(&own, &comm, rank, nranks));
		EXPECT_ERROR_SAYS(line[t->how]);
	} else {
		roots_init_fails(t, rank, nranks, ncclRemoteError, BOUND_NS);
	}
	roots_end(t, rank);
}

START_TEST(wrong_ids_of_one_rank_end_the_init_of_all)
{
	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct ranks_config c = {.hosts = 1, .per_host = 5, .seed = seed};
		struct roots t = {.n = 2 + (int)(seed % 2),
				  .apart = true,
				  .whose = (int32_t)(seed % 5),
				  .how = (int)(seed / 5 % 4)};

		ranks_run(&c, wrong_rank, &t);
	}
}
END_TEST

/* ---- a root that ends ----------------------------------------------------------------------- */

/* A root's process is killed: before the first rank comes, or while the last one is awaited. */
static void killed_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct roots *t = arg;
	const int32_t last = nranks - 1;

	roots_make(t, rank, nranks);
	if (rank == 0 && !t->how)
		world_proc_kill(t->proc[t->whose]);
	ranks_barrier();
	if (rank == last && t->how) {
		os_sleep_ns(SECOND_NS / 10);
		world_proc_kill(t->proc[t->whose]);
	}
	roots_init_fails(t, rank, nranks, ncclRemoteError, BOUND_NS);
	roots_end(t, rank);
}

START_TEST(a_killed_root_ends_the_init_of_all_ranks)
{
	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct ranks_config c = {.hosts = 1, .per_host = 7, .seed = seed};
		struct roots t = {.n = 2 + (int)(seed % 4), .apart = true, .how = seed / 4 % 2};

		t.whose = (int32_t)(seed / 8) % t.n;
		/* the root of a block that is complete is no longer needed */
		if (t.how)
			t.whose = t.n - 1;
		ranks_run(&c, killed_rank, &t);
	}
}
END_TEST

/* A rank does not come. With a deadline, its root reports it to its ranks and to the others. */
static void late_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct roots *t = arg;
	ncclComm_t comm = NULL;
	ncclResult_t rc;

	roots_make(t, rank, nranks);
	if (rank != t->whose) {
		rc = roots_init(t, &comm, rank, nranks);
		EXPECT_NCCL(ncclTimeout, rc);
		EXPECT(!comm);
	}
	ranks_barrier();
	if (rank == t->whose)
		EXPECT(roots_init(t, &comm, rank, nranks) != ncclSuccess);
	roots_end(t, rank);
}

START_TEST(an_absent_rank_is_reported_at_the_deadline)
{
	static const char *const env[] = {"DOPPEL_TIMEOUT_MS=2000", NULL};

	for (uint64_t seed = 1; seed <= 21; seed++) {
		struct ranks_config c = {.hosts = 1, .per_host = 7, .seed = seed, .env = env};
		struct roots t = {
			.n = 2 + (int)(seed / 7), .apart = true, .whose = (int32_t)(seed % 7)};

		ranks_run(&c, late_rank, &t);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("comm_roots");
	TCase *t = tcase_create("comm_roots");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, each_root_serves_its_block_of_ranks);
	tcase_add_test(t, as_many_roots_as_ranks);
	tcase_add_test(t, several_roots_of_a_nonblocking_communicator);
	tcase_add_test(t, several_roots_of_a_group);
	tcase_add_test(t, a_rank_that_gives_up_ends_the_init_at_all_roots);
	tcase_add_test(t, ids_of_two_sets_are_refused_on_all_ranks);
	tcase_add_test(t, wrong_ids_of_one_rank_end_the_init_of_all);
	tcase_add_test(t, a_killed_root_ends_the_init_of_all_ranks);
	tcase_add_test(t, an_absent_rank_is_reported_at_the_deadline);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
