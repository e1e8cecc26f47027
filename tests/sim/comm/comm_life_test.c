/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rare moments in the life of communicators that are made from others: a call that one rank
 * refuses, ranks whose configurations differ, parents that end first, and ranks that wait for one
 * that has left.
 */
#include <check.h>

#include "tests/sim/comm/comm_rank.h"
#include "tests/suite.h"

#define SECOND_NS 1000000000ull

static ncclResult_t life_settle(ncclComm_t comm, ncclResult_t rc)
{
	while (rc == ncclInProgress)
		EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(comm, &rc));
	return rc;
}

static ncclComm_t life_open(int32_t rank, int32_t nranks, ncclConfig_t *config)
{
	ncclUniqueId id = ranks_id();
	ncclComm_t comm;

	EXPECT(cudaSetDevice((int)comm_device(rank)) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess,
		    life_settle(comm, ncclCommInitRankConfig(&comm, nranks, id, rank, config)));
	return comm;
}

static void life_sum(ncclComm_t comm, int32_t device_of, int32_t rank, int32_t nranks)
{
	cudaStream_t stream;
	void *mem;

	comm_buffers(device_of, &mem, &stream, 4096);
	comm_sum(comm, rank, nranks, mem, stream, 100);
	comm_buffers_free(mem, stream);
}

/* ---- a non-blocking call that one rank refuses ----------------------------------------------- */

/* Rank 1 passes a wrong color, or a wrong config. The others get a communicator that has failed;
 * the parent goes on, and can be split. */
static void refused_rank(int32_t rank, int32_t nranks, void *arg)
{
	const uint64_t seed = *(const uint64_t *)arg;
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER, wrong = NCCL_CONFIG_INITIALIZER;
	const bool refuses = rank == 1, without = rank == 2 && seed % 2;
	ncclComm_t comm, child = NULL;
	ncclResult_t async;
	int count;

	config.blocking = 0;
	wrong.maxCTAs = 0;
	comm = life_open(rank, nranks, &config);
	for (int i = 0; i < 2; i++) {
		ncclResult_t rc = ncclCommSplit(comm,
						without             ? NCCL_SPLIT_NOCOLOR
						: refuses && i == 0 ? -7
								    : 0,
						0, &child, refuses && i ? &wrong : NULL);

		EXPECT_NCCL(refuses ? ncclInvalidArgument : ncclInProgress, rc);
		EXPECT_NCCL(ncclSuccess, life_settle(comm, ncclInProgress));
		EXPECT((child == NULL) == (refuses || without));
		if (child) {
			EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(child, &async));
			EXPECT_NCCL(ncclRemoteError, async);
			EXPECT_NCCL(ncclRemoteError, ncclCommCount(child, &count));
			if (ranks_self()->all->config->per_proc == 1)
				EXPECT_ERROR_SAYS("the call of rank 1 failed");
			EXPECT_NCCL(ncclSuccess,
				    rank ? ncclCommAbort(child) : ncclCommDestroy(child));
		}
	}
	life_sum(comm, rank, rank, nranks);
	child = NULL;
	EXPECT_NCCL(ncclSuccess, life_settle(comm, ncclCommSplit(comm, 0, 0, &child, NULL)));
	EXPECT_NCCL(ncclSuccess, life_settle(child, ncclInProgress));
	life_sum(child, rank, rank, nranks);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(child));
}

START_TEST(a_nonblocking_split_that_one_rank_refuses_is_no_error_of_its_parent)
{
	for (uint64_t seed = 1; seed <= 12; seed++) {
		struct ranks_config c = {.hosts = 1 + seed % 2,
					 .per_host = 4,
					 .per_proc = 1 + (seed / 2) % 2,
					 .seed = seed};

		ranks_run(&c, refused_rank, &seed);
	}
}
END_TEST

/* ---- growth by ranks whose configuration differs --------------------------------------------- */

struct grow {
	int how;
	ncclUniqueId first, id;
	shared_u32 first_ready, ready;
	shared_u32 named; /* number of ranks whose error names the ranks that differ */
};

enum grow_how { GROW_BLOCKING, GROW_SHARE, GROW_NAMES, GROW_CTAS, GROW_PEER_CHANNELS, GROW_KINDS };

static void grow_wait(const shared_u32 *ready)
{
	while (!shared_load_u32(ready, SHARED_ACQUIRE))
		os_sleep_ns(100000);
}

/* The new ranks' configuration; the others inherit theirs, which has other values. */
static void grow_config(const struct grow *g, ncclConfig_t *config, bool is_new)
{
	if (g->how == GROW_BLOCKING)
		config->blocking = is_new ? 0 : 1;
	else if (g->how == GROW_SHARE)
		config->splitShare = config->shrinkShare = is_new;
	else if (g->how == GROW_NAMES)
		config->commName = is_new ? "new" : "old";
	else if (g->how == GROW_CTAS)
		config->maxCTAs = is_new ? 1 : 8;
	else if (g->how == GROW_PEER_CHANNELS)
		config->nChannelsPerNetPeer = is_new ? 1 : 4;
}

static ncclComm_t grow_first(struct grow *g, int32_t rank, int32_t old)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclComm_t comm;

	grow_config(g, &config, false);
	if (rank == 0) {
		EXPECT_NCCL(ncclSuccess, ncclGetUniqueId(&g->first));
		shared_store_u32(&g->first_ready, 1, SHARED_RELEASE);
	}
	grow_wait(&g->first_ready);
	EXPECT_NCCL(ncclSuccess, ncclCommInitRankConfig(&comm, old, g->first, rank, &config));
	return comm;
}

static void grow_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	struct grow *g = arg;
	const int32_t old = nranks / 2;
	ncclComm_t comm = NULL, child = NULL;
	ncclResult_t rc;

	EXPECT(cudaSetDevice((int)comm_device(rank)) == cudaSuccess);
	if (rank < old)
		comm = grow_first(g, rank, old);
	if (rank == 1) {
		EXPECT_NCCL(ncclSuccess, ncclCommGetUniqueId(comm, &g->id));
		shared_store_u32(&g->ready, 1, SHARED_RELEASE);
	}
	grow_config(g, &config, true);
	grow_wait(&g->ready);
	rc = ncclCommGrow(comm, nranks, !comm || rank == 1 ? &g->id : NULL, comm ? -1 : rank,
			  &child, comm ? NULL : &config);
	rc = child ? life_settle(child, rc) : rc;
	/* they choose different channels for messages: one error names ranks */
	if (g->how == GROW_PEER_CHANNELS) {
		EXPECT(rc == ncclInvalidUsage || rc == ncclRemoteError);
		shared_add_u32(&g->named, rc == ncclInvalidUsage, SHARED_RELAXED);
	} else {
		EXPECT_NCCL(ncclSuccess, rc);
		life_sum(child, rank, rank, nranks);
	}
	if (comm)
		life_sum(comm, rank, rank, old);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(child));
}

START_TEST(ranks_of_a_growth_may_have_other_configurations)
{
	for (uint64_t seed = 1; seed <= 2 * GROW_KINDS; seed++) {
		struct ranks_config c = {.hosts = 1 + seed % 2, .per_host = 4, .seed = seed};
		struct grow g = {.how = (int)((seed - 1) / 2)};

		ranks_run(&c, grow_rank, &g);
		EXPECT((g.named.v_ > 0) == (g.how == GROW_PEER_CHANNELS));
	}
}
END_TEST

/* ---- shared resources ------------------------------------------------------------------------ */

struct share {
	int shares, parts;
	bool parent_first; /* the parent ends before the child is used again */
};

static uint64_t share_bytes(ncclComm_t comm)
{
	uint64_t bytes;

	EXPECT_NCCL(ncclSuccess, ncclCommMemStats(comm, ncclStatGpuMemTotal, &bytes));
	return bytes;
}

/* Live tasks of all processes. */
static uint64_t share_tasks(void)
{
	uint64_t n = 0;

	for (const struct sim_task *t = sim_task_first(); t; t = t->next)
		n += t->state != SIM_TASK_DONE && t->state != SIM_TASK_KILLED;
	return n;
}

/* A child takes no task except that of events of an HCA that it opens, and memory for its
 * neighbours. */
static void share_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	const struct share *s = arg;
	const int32_t n = nranks / s->parts;
	ncclComm_t comm, child;
	uint64_t tasks, more;

	comm = life_open(rank, nranks, NULL);
	life_sum(comm, rank, rank, nranks);
	ranks_barrier();
	tasks = share_tasks();
	ranks_barrier();
	config.splitShare = s->shares;
	EXPECT_NCCL(ncclSuccess, ncclCommSplit(comm, rank % s->parts, 0, &child, &config));
	life_sum(child, rank, rank / s->parts, n);
	ranks_barrier();
	more = share_tasks() - tasks;
	ranks_barrier();
	EXPECT(more == (ranks_self()->all->config->hosts > 1 && n > 1 ? (uint64_t)nranks : 0));
	EXPECT(n > 1 ? share_bytes(child) > 0 : share_bytes(child) < 65536);
	EXPECT(s->parts == 1 || nranks / s->parts > 2 ||
	       share_bytes(child) < share_bytes(comm) * 5 / 4);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(s->parent_first ? comm : child));
	if (s->parent_first)
		life_sum(child, rank, rank / s->parts, n);
	else
		life_sum(comm, rank, rank, nranks);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(s->parent_first ? child : comm));
}

START_TEST(a_child_takes_what_it_uses_and_may_outlive_its_parent)
{
	for (uint64_t seed = 1; seed <= 24; seed++) {
		struct ranks_config c = {.hosts = 1 + seed % 2, .per_host = 4, .seed = seed};
		struct share s = {.parts = 1 << (seed / 2 % 3),
				  .shares = seed / 6 % 2,
				  .parent_first = seed / 12 % 2};

		ranks_run(&c, share_rank, &s);
	}
}
END_TEST

/* A child that shares, its child that does not, and a sibling; they end from the top down. */
static void line_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclConfig_t with = NCCL_CONFIG_INITIALIZER, without = NCCL_CONFIG_INITIALIZER;
	const int32_t half = nranks / 2;
	ncclComm_t comm[4];

	(void)arg;
	with.splitShare = 1;
	without.splitShare = 0;
	comm[0] = life_open(rank, nranks, NULL);
	EXPECT_NCCL(ncclSuccess, ncclCommSplit(comm[0], rank % 2, 0, &comm[1], &with));
	EXPECT_NCCL(ncclSuccess, ncclCommSplit(comm[0], rank / half, 0, &comm[2], &without));
	EXPECT_NCCL(ncclSuccess, ncclCommSplit(comm[1], 0, -rank, &comm[3], &without));
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm[0]));
	life_sum(comm[1], rank, rank / 2, half);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm[1]));
	life_sum(comm[3], rank, half - 1 - rank / 2, half);
	life_sum(comm[2], rank, rank % half, half);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm[3]));
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm[2]));
}

START_TEST(children_of_children_outlive_their_parents)
{
	for (uint64_t seed = 1; seed <= 8; seed++) {
		struct ranks_config c = {.hosts = 1 + seed % 2,
					 .per_host = 4,
					 .per_proc = 1 + seed / 2 % 2,
					 .seed = seed};

		ranks_run(&c, line_rank, NULL);
	}
}
END_TEST

struct disagree {
	uint64_t seed;
	shared_u32 named; /* number of ranks whose error names the ranks that disagree */
};

/* One rank shares and the others do not: an error of the child on all ranks, and none of the
 * parent. A rank may learn of it by the end of another one. Each call looks at its own field. */
static void disagree_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	struct disagree *d = arg;
	const uint64_t seed = d->seed;
	const bool splits = seed % 2, odd = (uint64_t)rank == seed % (uint64_t)(nranks - 1);
	int excluded[1] = {nranks - 1};
	ncclComm_t comm, child;

	comm = life_open(rank, nranks, NULL);
	for (int right = 0; right < 2; right++) {
		ncclResult_t rc;

		config.splitShare = splits != right ? odd : 1;
		config.shrinkShare = splits != right ? 1 : odd;
		if (!splits && rank == nranks - 1)
			continue;
		rc = splits ? ncclCommSplit(comm, 0, 0, &child, &config)
			    : ncclCommShrink(comm, excluded, 1, &child, &config,
					     NCCL_SHRINK_DEFAULT);
		EXPECT((child != NULL) == right);
		if (right) {
			EXPECT_NCCL(ncclSuccess, rc);
			EXPECT_NCCL(ncclSuccess, ncclCommDestroy(child));
			continue;
		}
		EXPECT(rc == ncclInvalidUsage || rc == ncclRemoteError);
		if (rc == ncclInvalidUsage)
			EXPECT_ERROR_SAYS("disagree on splitShare or shrinkShare: rank 0 has");
		shared_add_u32(&d->named, rc == ncclInvalidUsage, SHARED_RELAXED);
	}
	life_sum(comm, rank, rank, nranks);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
}

START_TEST(ranks_that_disagree_on_sharing_get_an_error)
{
	for (uint64_t seed = 1; seed <= 12; seed++) {
		struct ranks_config c = {.hosts = 1 + seed / 2 % 2, .per_host = 4, .seed = seed};

		struct disagree d = {.seed = seed};

		ranks_run(&c, disagree_rank, &d);
		EXPECT(d.named.v_ > 0);
	}
}
END_TEST

/* ---- a child that can no longer be formed ---------------------------------------------------- */

/* The process of the last rank is killed between the messages of a split and its check-in, or
 * later. No root knows the rank: the others learn of its end from the parent. */
static void patience_clock(void *arg)
{
	(void)arg;
	os_sleep_ns(5 * SECOND_NS);
}

static void patience_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	shared_u32 *waited = arg;
	ncclComm_t comm, child = NULL;
	struct os_thread_attr attr = {.name = "passes time", .rank = rank};
	struct os_thread *clock;
	uint64_t began_ns;
	ncclResult_t rc;

	config.blocking = 0;
	comm = life_open(rank, nranks, &config);
	rc = life_settle(comm, ncclCommSplit(comm, 0, 0, &child, NULL));
	if (rank == nranks - 1)
		os_sleep_ns(600 * SECOND_NS); /* its process ends before */
	if (rank == 0)
		world_proc_kill(ranks_self()->all->proc[nranks - 1]);
	if (!child) { /* it was killed before this rank had its messages */
		EXPECT_NCCL(ncclRemoteError, rc);
		EXPECT_NCCL(ncclSuccess, ncclCommAbort(comm));
		/* the parent's error may come first, and the child before the parent's end */
		child = __atomic_load_n(&child, __ATOMIC_ACQUIRE);
		if (child)
			EXPECT_NCCL(ncclSuccess, ncclCommAbort(child));
		return;
	}
	EXPECT(os_thread_start(&clock, &attr, patience_clock, NULL) == 0);
	began_ns = os_now_ns();
	EXPECT_NCCL(ncclRemoteError, life_settle(child, ncclInProgress));
	/* it was the look at the parent, and the look waits for its time */
	shared_add_u32(waited, os_now_ns() - began_ns >= SECOND_NS, SHARED_RELAXED);
	EXPECT(os_now_ns() - began_ns < 60 * SECOND_NS);
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(child));
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(comm));
	os_thread_join(clock);
}

START_TEST(a_nonblocking_child_ends_with_its_parent_if_a_rank_never_comes)
{
	shared_u32 waited = {0};

	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct ranks_config c = {.hosts = 1 + seed % 2, .per_host = 2, .seed = seed};

		ranks_run(&c, patience_rank, &waited);
	}
	EXPECT(waited.v_ > 0);
}
END_TEST

/* Rank 2, of the same process, finds the failure of rank 1 on behalf of rank 0 too, possibly before
 * the task of rank 0's split has begun. */
static void error_before_task_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclComm_t comm = NULL, child = NULL;
	ncclUniqueId id = ranks_id();
	ncclResult_t state, rc;

	(void)arg;
	config.blocking = 0;
	EXPECT(cudaSetDevice((int)comm_device(rank)) == cudaSuccess);
	EXPECT_NCCL(ncclInProgress, ncclCommInitRankConfig(&comm, nranks, id, rank, &config));
	do
		EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(comm, &state));
	while (state == ncclInProgress);
	EXPECT(state == ncclSuccess);
	ranks_barrier();
	if (rank == 1)
		EXPECT_NCCL(ncclSuccess, ncclCommAbort(comm));
	ranks_barrier();
	if (rank == 1)
		return;
	if (rank == 0) {
		rc = ncclCommSplit(comm, 0, rank, &child, NULL);
		EXPECT(rc == ncclInProgress || rc == ncclRemoteError);
	}
	do
		EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(comm, &state));
	while (state == ncclInProgress || state == ncclSuccess);
	EXPECT(state == ncclRemoteError);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	if (child)
		EXPECT_NCCL(ncclSuccess, ncclCommAbort(child));
}

START_TEST(a_destroy_returns_after_an_error_that_precedes_the_task_of_a_split)
{
	for (uint64_t seed = 1; seed <= 50; seed++) {
		struct ranks_config c = {.hosts = 1, .per_host = 3, .per_proc = 3, .seed = seed};
		ranks_run(&c, error_before_task_rank, NULL);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("comm_life");
	TCase *t = tcase_create("comm_life");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, a_nonblocking_split_that_one_rank_refuses_is_no_error_of_its_parent);
	tcase_add_test(t, ranks_of_a_growth_may_have_other_configurations);
	tcase_add_test(t, a_child_takes_what_it_uses_and_may_outlive_its_parent);
	tcase_add_test(t, children_of_children_outlive_their_parents);
	tcase_add_test(t, ranks_that_disagree_on_sharing_get_an_error);
	tcase_add_test(t, a_nonblocking_child_ends_with_its_parent_if_a_rank_never_comes);
	tcase_add_test(t, a_destroy_returns_after_an_error_that_precedes_the_task_of_a_split);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
