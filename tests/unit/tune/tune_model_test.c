/* SPDX-License-Identifier: BSD-3-Clause */
/* The model of the choice: the known figures of NCCL's, and what must hold of any figures. */
#include <check.h>
#include <stdlib.h>

#include "core/algo/algo.h"
#include "core/device/layout/steps.h"
#include "core/tune/allowed.h"
#include "core/tune/model.h"
#include "tests/suite.h"
#include "tests/unit/tune/tune_hosts.h"

static void expect_cost(const struct topo_summary *s, enum dev_func func, const char *proto,
			uint64_t latency_ns, uint64_t bw_mbps)
{
	struct algo_cost cost = cost_of(s, func, proto);

	ck_assert_msg(cost.latency_ns == latency_ns && cost.bw_mbps == bw_mbps,
		      "%s %s, %d hosts: %llu ns, %llu MB/s; expected %llu, %llu",
		      steps_func_name((int)func), proto, s->nhosts,
		      (unsigned long long)cost.latency_ns, (unsigned long long)cost.bw_mbps,
		      (unsigned long long)latency_ns, (unsigned long long)bw_mbps);
}

/* Worked out by hand from the table of reference figures: kernel + 14 steps; bus x 8 / 14. LL's bus
 * is 141 GB/s at most in NCCL's table, and 9.5 a channel of more than two ranks
 * (MODEL_LL_RING_MBPS), which is more. */
START_TEST(one_host_costs_what_nccl_reckons)
{
	expect_cost(&one_host, DEV_ALL_REDUCE, "LL", 6600 + 14 * 600, 141000 * 8 / 14);
	expect_cost(&one_host, DEV_ALL_REDUCE, "LL128", 8300 + 14 * 1900, 294400 * 8 / 14);
	expect_cost(&one_host, DEV_ALL_REDUCE, "SIMPLE", 8400 + 14 * 3400, 320000 * 8 / 14);
	expect_cost(&one_host, DEV_ALL_GATHER, "SIMPLE", 8400 + 7 * 3400, 320000 * 8 / 7);
	expect_cost(&one_host, DEV_REDUCE_SCATTER, "LL", 6600 + 7 * 600, 141000 * 8 / 7);
	expect_cost(&one_host, DEV_BROADCAST, "SIMPLE", 8400 + 3400, 320000);
	expect_cost(&one_host, DEV_REDUCE, "LL", 6600 + 600, 141000);
}
END_TEST

START_TEST(hosts_cost_what_nccl_reckons)
{
	struct topo_summary two = hosts_of(2, 8), four = hosts_of(4, 8), alone = hosts_of(4, 1);

	/* 30 steps, 2 of them between the hosts; within them NVLink, but not less than the
	 * overhead */
	expect_cost(&two, DEV_ALL_REDUCE, "LL", 6600 + 28 * 1000 + 2 * 2700, 39000 * 16 / 30);
	expect_cost(&two, DEV_ALL_REDUCE, "SIMPLE", 8400 + 28 * 3400 + 2 * 14000, 320000 * 16 / 30);
	expect_cost(&four, DEV_ALL_GATHER, "LL128", 8300 + 28 * 1900 + 3 * 4000,
		    294400ull * 32 / 31);
	/* one rank a host: the latency of a tree */
	expect_cost(&alone, DEV_ALL_REDUCE, "LL", 6600 + 6 * 5000, 20400 * 4 / 6);
	two.amd_cpus = two.nranks;
	expect_cost(&two, DEV_ALL_REDUCE, "LL", 6600 + 28 * 2000 + 2 * 2700, 22500 * 16 / 30);
	expect_cost(&two, DEV_ALL_REDUCE, "SIMPLE", 8400 + 28 * 6000 + 2 * 14000, 320000 * 16 / 30);
	/* channels that differ: every step of a broadcast is seen */
	two.graph[TOPO_RING].same_channels = 0;
	expect_cost(&two, DEV_BROADCAST, "LL", 6600 + 16 * 2700, 22500);
}
END_TEST

/* The speed inside of a host counts up to two hosts, that between them from three on. */
START_TEST(more_than_two_hosts_have_the_speed_between_them)
{
	struct topo_summary two = hosts_of(2, 8), three = hosts_of(3, 8);

	two.graph[TOPO_RING].bw_inter_mbps = three.graph[TOPO_RING].bw_inter_mbps = 12000;
	ck_assert_uint_eq(cost_of(&two, DEV_ALL_GATHER, "SIMPLE").bw_mbps, 320000 * 16 / 15);
	ck_assert_uint_eq(cost_of(&three, DEV_ALL_GATHER, "SIMPLE").bw_mbps, 192000 * 24 / 23);
}
END_TEST

/* The least size at which `b` is faster than `a`. */
static uint64_t crossing(const struct algo_cost *a, const struct algo_cost *b)
{
	uint64_t low = 0, high = 1ull << 40;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (tune_time_ns(b, middle) < tune_time_ns(a, middle))
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static void expect_near(uint64_t got, uint64_t want)
{
	ck_assert_msg(got > want - want / 100 && got < want + want / 100, "%llu, expected %llu",
		      (unsigned long long)got, (unsigned long long)want);
}

/* 19.9 us between LL and LL128 at 80.57 and 168.23 GB/s, and 21.1 us more to SIMPLE at 182.86. The
 * kernel of LL128 has a latency of ours, 5.7 us less than NCCL reckons with. */
START_TEST(protocols_cross_where_they_cost_the_same)
{
	struct algo_cost ll = cost_of(&one_host, DEV_ALL_REDUCE, "LL");
	struct algo_cost ll128 = cost_of(&one_host, DEV_ALL_REDUCE, "LL128");
	struct algo_cost simple = cost_of(&one_host, DEV_ALL_REDUCE, "SIMPLE");

	expect_near(crossing(&ll, &ll128), 3077000);
	expect_near(crossing(&ll128, &simple), 44369967);
	expect_near(crossing(&ll, &simple), 5906000);
}
END_TEST

/* Sizes at which the fastest program changes between four H200 (results/figures.md): an all-reduce
 * from one shot to two between 64 and 128 KiB, and from LL to LL128 between 1 and 2 MiB. */
START_TEST(programs_cross_where_four_gpus_do)
{
	struct topo_summary s = one_host;
	struct algo_cost one, two, ll, ll128;

	s.nranks = 4;
	s.direct = TOPO_PATH_NVL;
	s.graph[TOPO_RING].nchannels = 12;
	s.graph[TOPO_RING].bw_intra_mbps = 30000;
	ll = cost_of(&s, DEV_ALL_REDUCE, "LL");
	ll128 = cost_of(&s, DEV_ALL_REDUCE, "LL128");
	algo_cost_fill(&one, &s, 24, DEV_ALL_REDUCE, DEV_ONE_SHOT, DEV_LL);
	algo_cost_fill(&two, &s, 24, DEV_ALL_REDUCE, DEV_TWO_SHOT, DEV_LL);
	ck_assert_uint_lt(tune_time_ns(&one, 64 << 10), tune_time_ns(&two, 64 << 10));
	ck_assert_uint_gt(tune_time_ns(&one, 128 << 10), tune_time_ns(&two, 128 << 10));
	ck_assert_uint_gt(tune_time_ns(&ll, 256 << 10), tune_time_ns(&two, 256 << 10));
	ck_assert_uint_lt(tune_time_ns(&ll, 1 << 20), tune_time_ns(&ll128, 1 << 20));
	ck_assert_uint_gt(tune_time_ns(&ll, 2 << 20), tune_time_ns(&ll128, 2 << 20));
}
END_TEST

/* H200 reduce and scatter faster with LL128 than with SIMPLE, at all sizes; what they gather goes
 * with SIMPLE. */
START_TEST(large_reduce_scatter_is_faster_with_ll128)
{
	struct topo_summary s = one_host;
	struct algo_cost ll128, simple;

	for (s.nranks = 2; s.nranks <= 8; s.nranks *= 2) {
		ll128 = cost_of(&s, DEV_REDUCE_SCATTER, "LL128");
		simple = cost_of(&s, DEV_REDUCE_SCATTER, "SIMPLE");
		ck_assert_uint_lt(tune_time_ns(&ll128, 1ull << 31),
				  tune_time_ns(&simple, 1ull << 31));
		ll128 = cost_of(&s, DEV_ALL_GATHER, "LL128");
		simple = cost_of(&s, DEV_ALL_GATHER, "SIMPLE");
		ck_assert_uint_gt(tune_time_ns(&ll128, 1ull << 31),
				  tune_time_ns(&simple, 1ull << 31));
	}
}
END_TEST

START_TEST(time_grows_with_bytes)
{
	static const char *const protos[] = {"LL", "LL128", "SIMPLE"};

	for (int32_t nhosts = 1; nhosts <= 8; nhosts *= 2) {
		const struct topo_summary s = hosts_of(nhosts, 4);

		for (int i = 0; i < 3 * DEV_EDGE_FUNCS; i++) {
			struct algo_cost cost = cost_of(&s, (enum dev_func)(i / 3), protos[i % 3]);
			uint64_t before = 0;

			for (uint64_t bytes = 1; bytes < 1ull << 60; bytes += bytes / 2 + 1) {
				uint64_t ns = tune_time_ns(&cost, bytes);

				ck_assert_uint_ge(ns, before);
				before = ns;
			}
			ck_assert_uint_gt(before, 1ull << 40);
		}
	}
}
END_TEST

/* 64 bytes for each rank on each of 16 channels. */
START_TEST(a_large_all_reduce_between_hosts_has_more_latency)
{
	struct topo_summary s = hosts_of(4, 8);
	struct algo_cost cost = cost_of(&s, DEV_ALL_REDUCE, "SIMPLE");
	uint64_t from = 64 * 16 * 32;

	ck_assert_uint_eq(cost.plateau_bytes, from);
	ck_assert_uint_ge(tune_time_ns(&cost, from) - tune_time_ns(&cost, from - 1),
			  cost.latency_ns * 4 / 10);
	s.sm_least = 70;
	ck_assert_uint_eq(cost_of(&s, DEV_ALL_REDUCE, "SIMPLE").plateau_ns,
			  cost.latency_ns * 9 / 10);
	ck_assert_uint_eq(cost_of(&s, DEV_ALL_GATHER, "SIMPLE").plateau_bytes, 0);
}
END_TEST

START_TEST(ll128_needs_paths_on_which_lines_arrive_whole)
{
	struct topo_summary s = hosts_of(2, 8);

	ck_assert_uint_gt(cost_of(&s, DEV_ALL_REDUCE, "LL128").bw_mbps, 0);
	s.graph[TOPO_RING].type_inter = TOPO_PATH_PHB;
	ck_assert_uint_eq(cost_of(&s, DEV_ALL_REDUCE, "LL128").bw_mbps, 0);
	ck_assert_uint_gt(cost_of(&s, DEV_ALL_REDUCE, "LL").bw_mbps, 0);
	s = one_host;
	s.graph[TOPO_RING].type_intra = TOPO_PATH_PIX;
	ck_assert_uint_eq(cost_of(&s, DEV_ALL_REDUCE, "LL128").bw_mbps, 0);
	s = one_host;
	s.sm_most = 100;
	ck_assert_uint_eq(cost_of(&s, DEV_ALL_REDUCE, "LL128").bw_mbps, 0);
}
END_TEST

static void expect_tree(const struct topo_summary *s, enum dev_func func, const char *proto,
			uint64_t latency_ns, uint64_t bw_mbps)
{
	struct algo_cost cost;

	algo_cost_fill(&cost, s, 16, func, DEV_TREE, proto_of(proto));
	ck_assert_msg(cost.latency_ns == latency_ns && cost.bw_mbps == bw_mbps,
		      "%s %s, %d hosts: %llu ns, %llu MB/s; expected %llu, %llu",
		      steps_func_name((int)func), proto, s->nhosts,
		      (unsigned long long)cost.latency_ns, (unsigned long long)cost.bw_mbps,
		      (unsigned long long)latency_ns, (unsigned long long)bw_mbps);
}

/* By hand: kernel + 2 x (7 in the host + log2(hosts) between them); half of what a link carries. */
START_TEST(trees_cost_what_nccl_reckons)
{
	struct topo_summary two = hosts_of(2, 8), nine = hosts_of(9, 8);

	expect_tree(&one_host, DEV_ALL_REDUCE, "LL", 6800 + 14 * 600, 294400 * 10 / 38 / 2);
	expect_tree(&two, DEV_ALL_REDUCE, "LL", 6800 + 2 * (7 * 600 + 5000), 39000 / 2);
	expect_tree(&two, DEV_ALL_REDUCE, "LL128", 14000 + 2 * (7 * 1250 + 8500),
		    294400 * 120 / 128 / 2);
	expect_tree(&nine, DEV_ALL_REDUCE, "SIMPLE", 8400 + 2 * (7 * 4000 + 3 * 14000), 294400 / 2);
	/* one way */
	expect_tree(&two, DEV_REDUCE, "SIMPLE", 8400 + 7 * 4000 + 14000, 294400);
	expect_tree(&nine, DEV_BROADCAST, "LL", 6800 + 7 * 600 + 3 * 5000, 20400);
	/* a channel's limit; one GPU for all links of a host */
	two.graph[TOPO_TREE].bw_intra_mbps = 90000;
	expect_tree(&two, DEV_ALL_REDUCE, "SIMPLE", 8400 + 2 * (7 * 4000 + 14000), 16 * 41400 / 2);
	two.graph[TOPO_TREE].shape = TOPO_SHAPE_TREE;
	expect_tree(&two, DEV_ALL_REDUCE, "SIMPLE", 8400 + 2 * (7 * 4000 + 14000),
		    16 * 41400 * 85 / 100 / 2);
}
END_TEST

/* The share of a tree's bandwidth according to the table, at the smallest size of each of its
 * columns and just below it. */
START_TEST(trees_are_corrected_by_size)
{
	struct topo_summary four = hosts_of(4, 8);
	struct algo_cost cost, plain;

	algo_cost_fill(&cost, &four, 16, DEV_ALL_REDUCE, DEV_TREE, DEV_LL);
	plain = cost;
	plain.corrected = 0;
	ck_assert_uint_eq(tune_time_ns(&cost, 63), tune_time_ns(&plain, 63));
	ck_assert_uint_eq(tune_time_ns(&cost, 512), tune_time_ns(&plain, 512));
	plain.bw_mbps = cost.bw_mbps * 40 / 100; /* the 12th column */
	ck_assert_uint_eq(tune_time_ns(&cost, 64 << 12), tune_time_ns(&plain, 64 << 12));
	plain.bw_mbps = cost.bw_mbps * 50 / 100;
	ck_assert_uint_eq(tune_time_ns(&cost, (64 << 12) - 1),
			  tune_time_ns(&plain, (64 << 12) - 1));
	plain.bw_mbps = cost.bw_mbps;
	ck_assert_uint_eq(tune_time_ns(&cost, 64ull << 23), tune_time_ns(&plain, 64ull << 23));
	algo_cost_fill(&cost, &four, 16, DEV_BROADCAST, DEV_TREE, DEV_LL);
	ck_assert_uint_eq(cost.corrected, 0);
}
END_TEST

static void expect_pat(const struct topo_summary *s, uint64_t latency_ns, uint64_t bw_mbps)
{
	struct algo_cost cost;

	for (int func = DEV_ALL_GATHER; func <= DEV_REDUCE_SCATTER;
	     func += DEV_REDUCE_SCATTER - DEV_ALL_GATHER) {
		algo_cost_fill(&cost, s, 40, (enum dev_func)func, DEV_PAT, DEV_SIMPLE);
		ck_assert_msg(cost.latency_ns == latency_ns && cost.bw_mbps == bw_mbps,
			      "%d hosts: %llu ns, %llu MB/s; expected %llu, %llu", s->nhosts,
			      (unsigned long long)cost.latency_ns, (unsigned long long)cost.bw_mbps,
			      (unsigned long long)latency_ns, (unsigned long long)bw_mbps);
		ck_assert_int_eq(cost.channels, DEV_PAT_CHANNELS);
	}
}

/* By hand: 8 us + log2(hosts) x 14 us x 2/7 + 2.8 us for each rank; three quarters of what the
 * tree's links carry. */
START_TEST(pat_costs_what_nccl_reckons)
{
	struct topo_summary two = hosts_of(2, 1), nine = hosts_of(9, 1), many = hosts_of(9, 8);

	expect_pat(&two, 8000 + 4000 + 2 * 2800, 240000);
	expect_pat(&nine, 8000 + 3 * 4000 + 9 * 2800, 240000);
	expect_pat(&many, 8000 + 3 * 4000 + 72 * 2800, 240000);
}
END_TEST

/* NCCL's row: no time for the kernel, 2,800 ns for each link of the chain up and down, 30,000 for
 * the network; half of the chains' bandwidth. */
START_TEST(chains_of_collnet_have_the_cost_of_nccls)
{
	const int32_t each[] = {1, 2, 8};

	for (size_t i = 0; i < ARRAY_LEN(each); i++) {
		const struct topo_summary s = with_collnet(hosts_of(4, each[i]));
		const struct algo_cost *c;
		struct tune_model m;

		tune_model_make(&m, &s, 16, TUNE_ALL_PROGRAMS);
		c = &m.program[DEV_ALL_REDUCE_COLLNET_SIMPLE];
		ck_assert_uint_eq(c->latency_ns, 30000 + 2 * 2800 * (uint64_t)(each[i] - 1));
		ck_assert_uint_eq(c->bw_mbps, 16 * 20000 / 2);
		ck_assert_uint_eq(c->thread_bytes, 512);
		ck_assert_uint_eq(c->threads, 512);
	}
}
END_TEST

START_TEST(every_program_has_constants)
{
	const struct topo_summary s = with_collnet(one_host);
	struct tune_model m;

	tune_model_make(&m, &s, 16, TUNE_ALL_PROGRAMS);
	for (int p = 0; p < DEV_PROGRAM_COUNT; p++) {
		ck_assert_uint_gt(m.program[p].bw_mbps, 0);
		ck_assert_uint_gt(m.program[p].latency_ns, 0);
		ck_assert_uint_gt(m.program[p].thread_bytes, 0);
		ck_assert_uint_eq(m.program[p].threads % 32, 0);
	}
}
END_TEST

START_TEST(models_that_differ_have_different_hashes)
{
	struct tune_model m, other;
	struct topo_summary s = one_host;

	tune_model_make(&m, &one_host, 16, TUNE_ALL_PROGRAMS);
	other = m;
	ck_assert_uint_eq(tune_model_hash(&m), tune_model_hash(&other));
	other.program[DEV_ALL_REDUCE_COLLNET_SIMPLE].thread_bytes++; /* not used */
	ck_assert_uint_eq(tune_model_hash(&m), tune_model_hash(&other));
	other.program[DEV_ALL_REDUCE_COLLNET_SIMPLE].bw_mbps = 1;
	ck_assert_uint_ne(tune_model_hash(&m), tune_model_hash(&other));
	other = m;
	other.program[DEV_REDUCE_SCATTER_PAT_SIMPLE].thread_bytes++;
	ck_assert_uint_ne(tune_model_hash(&m), tune_model_hash(&other));
	s.graph[TOPO_RING].bw_intra_mbps--;
	tune_model_make(&other, &s, 16, TUNE_ALL_PROGRAMS);
	ck_assert_uint_ne(tune_model_hash(&m), tune_model_hash(&other));
	tune_model_make(&other, &one_host, 15, TUNE_ALL_PROGRAMS);
	ck_assert_uint_ne(tune_model_hash(&m), tune_model_hash(&other));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("tune");
	TCase *t = tcase_create("model");

	tcase_add_test(t, one_host_costs_what_nccl_reckons);
	tcase_add_test(t, hosts_cost_what_nccl_reckons);
	tcase_add_test(t, more_than_two_hosts_have_the_speed_between_them);
	tcase_add_test(t, protocols_cross_where_they_cost_the_same);
	tcase_add_test(t, programs_cross_where_four_gpus_do);
	tcase_add_test(t, large_reduce_scatter_is_faster_with_ll128);
	tcase_add_test(t, time_grows_with_bytes);
	tcase_add_test(t, a_large_all_reduce_between_hosts_has_more_latency);
	tcase_add_test(t, ll128_needs_paths_on_which_lines_arrive_whole);
	tcase_add_test(t, trees_cost_what_nccl_reckons);
	tcase_add_test(t, trees_are_corrected_by_size);
	tcase_add_test(t, pat_costs_what_nccl_reckons);
	tcase_add_test(t, chains_of_collnet_have_the_cost_of_nccls);
	tcase_add_test(t, every_program_has_constants);
	tcase_add_test(t, models_that_differ_have_different_hashes);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
