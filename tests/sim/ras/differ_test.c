/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that call different collectives, found at a deadline, by comparison, and in a DUMP. */
#include <check.h>

#include "tests/sim/ras/deadline_rank.h"
#include "tests/sim/ras/ras_query.h"
#include "tests/suite.h"

static const char *const differ_sim[] = {"DOPPEL_TIMEOUT_MS=5000", NULL};
static const char *const differ_threads[] = {"DOPPEL_TIMEOUT_MS=700", NULL};
static const char *const differ_compare[] = {"DOPPEL_COMPARE_MS=50", NULL};

static void differ_run(const struct deadline_case *c)
{
	deadline_run(c, differ_sim, differ_threads);
	deadline_run(c, differ_compare, differ_compare);
}

/* ---- kinds of differences ------------------------------------------------------------------- */

static void count_call(struct deadline_rank *r)
{
	deadline_sum(r, r->rank == 2 ? DEADLINE_COUNT / 2 : DEADLINE_COUNT);
}

START_TEST(another_count_is_named_on_all_ranks)
{
	const struct deadline_case c = {count_call,
					ncclInvalidUsage,
					{"ranks 0-1, 3: call 1 is ncclAllReduce of 64 int32 sum",
					 "; rank 2: call 1 is ncclAllReduce of 32 int32 sum"}};

	differ_run(&c);
}
END_TEST

static void root_call(struct deadline_rank *r)
{
	deadline_broadcast(r, r->rank == 3 ? 1 : 0);
	if (r->rank != 3) /* short broadcasts with two roots end; this one does not */
		deadline_sum(r, DEADLINE_COUNT);
}

START_TEST(another_root_is_named_on_all_ranks)
{
	const struct deadline_case c = {root_call,
					ncclInvalidUsage,
					{"ranks 0-2: call 1 is ncclBroadcast of 64 int32 root 0",
					 "; rank 3: call 1 is ncclBroadcast of 64 int32 root 1"}};

	differ_run(&c);
}
END_TEST

static void order_call(struct deadline_rank *r)
{
	if (r->rank == 1)
		deadline_broadcast(r, 0);
	deadline_sum(r, DEADLINE_COUNT);
	if (r->rank != 1)
		deadline_broadcast(r, 0);
}

START_TEST(another_order_is_named_on_all_ranks)
{
	const struct deadline_case c = {order_call,
					ncclInvalidUsage,
					{"ranks 0, 2-3: call 1 is ncclAllReduce of 64 int32 sum",
					 "; rank 1: call 1 is ncclBroadcast of 64 int32 root 0"}};

	differ_run(&c);
}
END_TEST

/* The first of many calls differs; the ranks keep only the last ones. */
static void earlier_call(struct deadline_rank *r)
{
	EXPECT_NCCL(ncclSuccess,
		    ncclAllReduce(r->mem, r->mem, DEADLINE_COUNT, ncclInt32,
				  r->rank == 0 ? ncclMax : ncclSum, r->comm, r->stream));
	for (int i = 0; i < 200; i++)
		deadline_sum(r, DEADLINE_COUNT);
}

START_TEST(a_difference_in_calls_that_are_no_longer_kept_is_found)
{
	const struct deadline_case c = {earlier_call,
					ncclInvalidUsage,
					{"ranks have launched different calls before call "}};
	struct ranks_config w = {
		.hosts = 1, .per_host = 2, .seed = 3, .env = differ_compare, .uncompared = true};

	ranks_run(&w, deadline_rank_main, (void *)(uintptr_t)&c);
}
END_TEST

/* ---- no difference -------------------------------------------------------------------------- */

/* Each rank calls at its own time; no two are at the same call. */
static void same_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct deadline_rank r = {.rank = rank};
	ncclResult_t error;

	(void)arg;
	deadline_open(&r, rank, nranks);
	for (int i = 0; i < 40; i++) {
		os_sleep_ns((uint64_t)rank * 3000000);
		comm_sum(r.comm, rank, nranks, r.mem, r.stream, 1 + (size_t)i);
		deadline_broadcast(&r, i % nranks);
	}
	EXPECT(cudaStreamSynchronize(r.stream) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(r.comm, &error));
	EXPECT_NCCL(ncclSuccess, error);
	ranks_barrier();
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(r.comm));
	comm_buffers_free(r.mem, r.stream);
}

START_TEST(equal_calls_are_no_error)
{
	for (uint64_t seed = 1; seed <= 5; seed++) {
		struct ranks_config w = {.hosts = 2,
					 .per_host = 2,
					 .seed = seed,
					 .env = (const char *const[]){"DOPPEL_COMPARE_MS=1",
								      "DOPPEL_TIMEOUT_MS=20000",
								      NULL},
					 .uncompared = true};

		ranks_run(&w, same_rank, NULL);
	}
}
END_TEST

/* ---- DUMP ----------------------------------------------------------------------------------- */

static void dump_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct deadline_rank r = {.rank = rank};

	deadline_open(&r, rank, nranks);
	order_call(&r);
	os_sleep_ns(50000000);
	ranks_barrier();
	if (rank == 0)
		ras_test_query("DUMP\n", arg);
	ranks_barrier();
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(r.comm));
	comm_buffers_free(r.mem, r.stream);
}

START_TEST(dump_names_the_calls_that_differ)
{
	struct ranks_config w = {.hosts = 2,
				 .per_host = 2,
				 .seed = 3,
				 .env = (const char *const[]){"NCCL_RAS_ENABLE=1", NULL},
				 .uncompared = true};
	char text[RAS_TEST_BYTES];

	ranks_run(&w, dump_rank, text);
	EXPECT_TEXT(text, ") DIFFERENT CALLS\n  ranks 0, 2-3: call 1 is ncclAllReduce of 64 int32 "
			  "sum; rank 1: call 1 is ncclBroadcast of 64 int32 root 0\n");
	EXPECT_TEXT(text, "    call 2 is ncclBroadcast of 64 int32 root 0, called at ");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("differ");
	TCase *t = tcase_create("differ");

	tcase_add_test(t, another_count_is_named_on_all_ranks);
	tcase_add_test(t, another_root_is_named_on_all_ranks);
	tcase_add_test(t, another_order_is_named_on_all_ranks);
	tcase_add_test(t, a_difference_in_calls_that_are_no_longer_kept_is_found);
	tcase_add_test(t, equal_calls_are_no_error);
	tcase_add_test(t, dump_names_the_calls_that_differ);
	suite_add_tcase(s, t);
	return suite_run(s);
}
