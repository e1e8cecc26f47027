/* SPDX-License-Identifier: BSD-3-Clause */
/* The choice: the fastest allowed program for a size, then its channels and threads. */
#include <check.h>
#include <stdlib.h>

#include "core/algo/algo.h"
#include "core/device/layout/steps.h"
#include "core/tune/allowed.h"
#include "core/tune/model.h"
#include "tests/suite.h"
#include "tests/unit/tune/tune_hosts.h"

/* Programs that several hosts do not run, or only if there is no other one. */
static uint64_t shots(void)
{
	return algo_programs(DEV_ONE_SHOT) | algo_programs(DEV_TWO_SHOT) |
	       algo_programs(DEV_DOUBLING) | algo_programs(DEV_SYMMETRIC);
}

/* More hosts make a ring longer, and a tree hardly deeper. */
START_TEST(many_hosts_choose_trees_for_little_and_rings_for_much)
{
	struct topo_summary many = hosts_of(32, 8);
	uint64_t programs = tune_programs(&many, TUNE_ALL_PROGRAMS, true);
	struct tune_model m;

	tune_model_make(&m, &many, 16, programs);
	ck_assert_int_eq(steps_program(tune_choose(&m, DEV_ALL_REDUCE, programs, 4096)).algo,
			 DEV_TREE);
	ck_assert_int_eq(steps_program(tune_choose(&m, DEV_ALL_REDUCE, programs, 1ull << 34)).algo,
			 DEV_RING);
	programs = tune_programs(&many, programs, false);
	ck_assert_int_eq(steps_program(tune_choose(&m, DEV_ALL_GATHER, programs, 4096)).algo,
			 DEV_RING);
}
END_TEST

START_TEST(hosts_with_one_rank_choose_pat_for_little_and_others_only_where_they_must)
{
	struct topo_summary alone = hosts_of(16, 1), pairs = hosts_of(8, 2), huge = alone;
	uint64_t all = TUNE_ALL_PROGRAMS, pat = 1ull << DEV_ALL_GATHER_PAT_SIMPLE;
	uint64_t ring = 1ull << DEV_ALL_GATHER_RING_SIMPLE;
	uint64_t several = all & ~shots() & ~algo_programs(DEV_COLLNET_CHAIN);
	struct tune_model m;

	ck_assert_uint_eq(tune_programs(&alone, several, false), several);
	ck_assert_uint_eq(tune_programs(&pairs, several, true), several);
	ck_assert_uint_eq(tune_programs(&pairs, pat | ring, false), ring);
	ck_assert_uint_eq(tune_programs(&pairs, pat, false), pat);
	huge.nranks = huge.nhosts = (1 << DEV_PAT_LEVELS) + 1;
	ck_assert_uint_eq(tune_programs(&huge, pat, true), 0);

	tune_model_make(&m, &alone, 16, all);
	ck_assert_int_eq(tune_choose(&m, DEV_ALL_GATHER, pat | ring, 4096),
			 DEV_ALL_GATHER_PAT_SIMPLE);
	ck_assert_int_eq(tune_choose(&m, DEV_ALL_GATHER, pat | ring, 1ull << 34),
			 DEV_ALL_GATHER_RING_SIMPLE);
}
END_TEST

/* Without a network that reduces its program is left out. With one it is chosen where its time is
 * the shortest. */
START_TEST(chains_are_chosen_with_a_network_that_reduces)
{
	const struct topo_summary without = hosts_of(4, 8), with = with_collnet(hosts_of(4, 8));
	const uint64_t chain = algo_programs(DEV_COLLNET_CHAIN);
	const uint64_t ring = 1ull << DEV_ALL_REDUCE_RING_SIMPLE;
	struct tune_model m;

	ck_assert_uint_eq(tune_programs(&without, chain | ring, false), ring);
	ck_assert_uint_eq(tune_programs(&without, chain, false), 0);
	ck_assert_uint_eq(tune_programs(&with, chain | ring, false), chain | ring);
	tune_model_make(&m, &with, 16, chain | ring);
	ck_assert_int_eq(tune_choose(&m, DEV_ALL_REDUCE, chain | ring, 1 << 20),
			 DEV_ALL_REDUCE_COLLNET_SIMPLE);
	ck_assert_int_eq(tune_choose(&m, DEV_ALL_REDUCE, ring, 1 << 20),
			 DEV_ALL_REDUCE_RING_SIMPLE);
	ck_assert_int_eq(tune_choose(&m, DEV_ALL_GATHER, chain, 1 << 20), DEV_PROGRAM_COUNT);
}
END_TEST

START_TEST(one_host_goes_over_a_tree_only_where_there_is_nothing_else)
{
	struct topo_summary two = hosts_of(2, 4), unreached = one_host;
	uint64_t all = TUNE_ALL_PROGRAMS, trees = 1ull << DEV_ALL_REDUCE_TREE_LL;
	uint64_t shot = 1ull << DEV_ALL_REDUCE_ONE_SHOT_LL;

	ck_assert_uint_eq(tune_programs(&one_host, all, true) & algo_programs(DEV_TREE), 0);
	ck_assert_uint_eq(tune_programs(&two, all, true),
			  all & ~shots() & ~algo_programs(DEV_COLLNET_CHAIN));
	ck_assert_uint_eq(tune_programs(&one_host, trees, false), trees);
	ck_assert_uint_eq(tune_programs(&one_host, trees | shot, false), shot);
	unreached.direct = -1;
	ck_assert_uint_eq(tune_programs(&unreached, trees | shot, false), trees);
}
END_TEST

/* At every size the choice is the fastest of what is allowed. */
START_TEST(the_fastest_allowed_program_is_chosen)
{
	const struct topo_summary s = with_collnet(one_host);
	struct tune_model m;

	tune_model_make(&m, &s, 16, TUNE_ALL_PROGRAMS);
	for (int func = 0; func < DEV_EDGE_FUNCS; func++)
		for (uint64_t bytes = 1; bytes < 1ull << 36; bytes *= 8) {
			enum dev_program best =
				tune_choose(&m, (enum dev_func)func, TUNE_ALL_PROGRAMS, bytes);

			ck_assert_int_lt(best, DEV_PROGRAM_COUNT);
			for (int p = 0; p < DEV_PROGRAM_COUNT; p++) {
				if ((int)steps_program(p).func != func)
					continue;
				ck_assert_uint_le(tune_time_ns(&m.program[best], bytes),
						  tune_time_ns(&m.program[p], bytes));
				ck_assert_int_eq(
					tune_choose(&m, (enum dev_func)func, 1ull << p, bytes), p);
			}
			ck_assert_int_eq(tune_choose(&m, (enum dev_func)func, 0, bytes),
					 DEV_PROGRAM_COUNT);
		}
}
END_TEST

START_TEST(of_equally_fast_programs_the_first_row_is_chosen)
{
	struct tune_model m;

	tune_model_make(&m, &one_host, 16, TUNE_ALL_PROGRAMS);
	for (int p = 1; p < DEV_PROGRAM_COUNT; p++)
		m.program[p] = m.program[0];
	for (int p = DEV_PROGRAM_COUNT - 1; p >= 0; p--) {
		enum dev_program best =
			tune_choose(&m, steps_program(p).func, TUNE_ALL_PROGRAMS, 1024);

		ck_assert_int_le(best, p);
		ck_assert_int_eq(steps_program(best).func, steps_program(p).func);
	}
}
END_TEST

START_TEST(a_program_that_the_machines_cannot_run_is_not_chosen)
{
	struct tune_model m;

	tune_model_make(&m, &one_host, 16, TUNE_ALL_PROGRAMS);
	for (int p = 0; p < DEV_PROGRAM_COUNT; p++) {
		struct tune_model without = m;

		without.program[p].bw_mbps = 0;
		ck_assert_int_eq(tune_choose(&without, steps_program(p).func, 1ull << p, 8),
				 DEV_PROGRAM_COUNT);
	}
}
END_TEST

/* 512 threads of 64 bytes with SIMPLE; of 8 bytes for each rank with LL. */
START_TEST(small_messages_have_fewer_channels_then_fewer_threads)
{
	static const struct {
		const char *proto;
		uint64_t bytes;
		int32_t nchannels;
		uint32_t nthreads;
	} want[] = {
		{"SIMPLE", 1, 1, 64},          {"SIMPLE", 8192, 1, 128},
		{"SIMPLE", 32 << 10, 1, 512},  {"SIMPLE", (64 << 10) - 1, 1, 512},
		{"SIMPLE", 64 << 10, 2, 512},  {"SIMPLE", 512 << 10, 16, 512},
		{"LL", 4 << 10, 1, 64},        {"LL", 32 << 10, 1, 512},
		{"LL", 256 << 10, 8, 512},     {"LL128", 5120, 1, 640},
		{"LL128", 16 * 5120, 16, 640}, {"LL128", 5119, 1, 320},
	};

	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		struct algo_cost cost = cost_of(&one_host, DEV_ALL_REDUCE, want[i].proto);
		struct tune_shape s = tune_shape_of(&cost, 16, want[i].bytes);

		ck_assert_msg(s.nchannels == want[i].nchannels && s.nthreads == want[i].nthreads,
			      "%s, %llu bytes: %d channels, %u threads", want[i].proto,
			      (unsigned long long)want[i].bytes, s.nchannels, s.nthreads);
	}
}
END_TEST

START_TEST(one_rank_shares_as_with_simple)
{
	struct topo_summary s = hosts_of(1, 1);
	struct tune_model m;
	struct tune_shape shape;

	tune_model_make(&m, &s, 16, TUNE_ALL_PROGRAMS);
	shape = tune_shape_of(&m.program[0], 16, 64 << 10);
	ck_assert_int_eq(shape.nchannels, 2);
	ck_assert_uint_eq(shape.nthreads, 512);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("tune");
	TCase *t = tcase_create("choice");

	tcase_add_test(t, many_hosts_choose_trees_for_little_and_rings_for_much);
	tcase_add_test(t,
		       hosts_with_one_rank_choose_pat_for_little_and_others_only_where_they_must);
	tcase_add_test(t, chains_are_chosen_with_a_network_that_reduces);
	tcase_add_test(t, one_host_goes_over_a_tree_only_where_there_is_nothing_else);
	tcase_add_test(t, the_fastest_allowed_program_is_chosen);
	tcase_add_test(t, of_equally_fast_programs_the_first_row_is_chosen);
	tcase_add_test(t, a_program_that_the_machines_cannot_run_is_not_chosen);
	tcase_add_test(t, small_messages_have_fewer_channels_then_fewer_threads);
	tcase_add_test(t, one_rank_shares_as_with_simple);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
