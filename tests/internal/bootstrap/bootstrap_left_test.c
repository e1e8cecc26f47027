/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank that looks for others without the ring: those that left are found, however slowly the
 * network refuses connections, and those that have not are not taken for such. */
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

int main(void)
{
	Suite *s = suite_create("bootstrap_left");
	TCase *t = tcase_create("bootstrap_left");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, a_rank_that_left_is_found_without_the_ring);
	suite_add_tcase(s, t);
	return suite_run(s);
}
