/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank that looks for others without the ring: those that left are found, however slowly the
 * network refuses connections, and those that have not are not taken for such. Ranks that the root
 * informs of one that gave up end soon. Farewells arrive although signals interrupt calls. */
#include <check.h>

#include "tests/internal/bootstrap/bootstrap_world.h"
#include "tests/suite.h"

/* The special rank leaves, with messages exchanged before or without. Ranks that do not depend on
 * the ring look for it; each finds that it has left, and that the others have not. */
static void gone_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct boot_world *w = arg;
	struct bootstrap *b = NULL;
	uint8_t byte = 1;

	boot_begin(rank, w);
	EXPECT_NCCL(ncclSuccess, bootstrap_init(&w->id, rank, nranks, NULL, &b));
	if (w->seed % 2 && rank == w->special)
		EXPECT_NCCL(ncclSuccess, bootstrap_send(b, (rank + 2) % nranks, 1, &byte, 1));
	if (w->seed % 2 && rank == (w->special + 2) % nranks)
		EXPECT_NCCL(ncclSuccess, bootstrap_recv(b, w->special, 1, &byte, 1));
	EXPECT_NCCL(ncclSuccess, bootstrap_barrier(b));
	bootstrap_ring_forget(b);
	for (int32_t r = 0; r < nranks; r++)
		EXPECT(r == rank || !bootstrap_rank_left(b, r));
	ranks_barrier();
	if (rank == w->special)
		bootstrap_leave(b);
	ranks_barrier();
	/* a look has a limit, within which a slow network may not answer */
	for (int i = 0; rank != w->special && !bootstrap_rank_left(b, w->special); i++)
		EXPECT(i < 1000);
	for (int32_t r = 0; r < nranks && rank != w->special; r++)
		EXPECT(r == rank || r == w->special || !bootstrap_rank_left(b, r));
	ranks_barrier();
	bootstrap_close(b);
	boot_end(rank, w);
}

START_TEST(a_rank_that_left_is_found_without_the_ring)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct boot_world w = {.seed = seed, .special = (int32_t)(seed % 5)};
		struct ranks_config c = {.hosts = 1, .per_host = 5, .seed = seed};

		ranks_run(&c, gone_rank, &w);
	}
}
END_TEST

/* The special rank gives up. The others have the root's report, and do not give up at a root that
 * has ended. */
static void soon_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct boot_world *w = arg;
	struct bootstrap *b = NULL;
	uint64_t start_ns;

	boot_begin(rank, w);
	start_ns = os_now_ns();
	if (rank == w->special)
		bootstrap_give_up(&w->id, rank, nranks, "the reason");
	else
		EXPECT_NCCL(ncclRemoteError, bootstrap_init(&w->id, rank, nranks, NULL, &b));
	EXPECT(os_now_ns() - start_ns < 700000000); /* giving up takes 750 ms if no root listens */
	ranks_barrier();                            /* the root answers those that come late, too */
	boot_end(rank, w);
}

START_TEST(ranks_that_have_the_roots_report_do_not_give_up)
{
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct boot_world w = {.seed = seed, .special = (int32_t)(seed % 4)};
		struct ranks_config c = {.hosts = 2, .per_host = 2, .seed = seed};

		ranks_run(&c, soon_rank, &w);
	}
}
END_TEST

/* Signals interrupt calls on sockets. Both neighbours get the farewell all the same. */
static void parting_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct boot_world *w = arg;
	struct bootstrap *b = NULL;
	uint64_t seq;
	boot_begin(rank, w);
	EXPECT_NCCL(ncclSuccess, bootstrap_init(&w->id, rank, nranks, NULL, &b));
	EXPECT_NCCL(ncclSuccess, bootstrap_barrier(b));
	bootstrap_settle(b);
	bootstrap_part(b, 7);
	for (int i = 0; !b->next.ends || !b->prev.ends; i++) {
		EXPECT(i < 1000);
		EXPECT_NCCL(ncclSuccess, bootstrap_next_poll(b, &seq));
		os_sleep_ns(10000);
	}
	EXPECT(b->next.ops == 7 && b->prev.ops == 7);
	ranks_barrier();
	bootstrap_close(b);
	boot_end(rank, w);
}

START_TEST(an_interrupted_call_loses_no_farewell)
{
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct boot_world w = {.seed = seed};
		struct ranks_config c = {.hosts = 1 + seed % 2,
					 .per_host = 2,
					 .seed = seed,
					 .fault_plan = "os.socket prob=1/2 again"};
		ranks_run(&c, parting_rank, &w);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("bootstrap_left");
	TCase *t = tcase_create("bootstrap_left");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, a_rank_that_left_is_found_without_the_ring);
	tcase_add_test(t, ranks_that_have_the_roots_report_do_not_give_up);
	tcase_add_test(t, an_interrupted_call_loses_no_farewell);
	suite_add_tcase(s, t);
	return suite_run(s);
}
