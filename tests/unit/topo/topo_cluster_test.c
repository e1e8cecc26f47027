/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random machines, and clusters of different ones: rings and trees visit every GPU of a host once,
 * no link carries more than it has, and all ranks come to the same rings, trees and heads of the
 * communicator. Machines that the commit draws, or:
 *
 *	topo_cluster_test COUNT [FIRST]      machines FIRST .. FIRST+COUNT-1
 */
#include "tests/sample.h"
#include "tests/unit/topo/topo_heads_check.h"
#include "tests/unit/topo/topo_random.h"
#include "tests/unit/topo/topo_util.h"

#define MACHINES_A_TEST 40
#define MAX_HOSTS       4
#define MAX_RANKS       (16 * MAX_HOSTS)

static uint64_t first_machine;

/* Rings and trees keep all that they must; stars have every GPU once, and nets that exist. */
static void one_graph(const struct topo_system *sys, enum topo_pattern pattern, bool inter)
{
	struct topo_graph g;

	ck_assert_msg(topo_search(sys, pattern, inter, &g) == ncclSuccess, "%s", log_last_error());
	if (pattern <= TOPO_TREE) {
		util_check_graph(sys, &g, inter);
		return;
	}
	ck_assert_int_le(g.nchannels, DEV_MAX_CHANNELS / 2);
	for (int32_t c = 0; c < g.nchannels; c++) {
		bool seen[TOPO_MAX_LOCAL] = {false};

		for (int32_t i = 0; i < sys->ngpus; i++) {
			int32_t gpu = g.order[c][i];

			ck_assert_msg(gpu >= 0 && gpu < sys->ngpus && !seen[gpu],
				      "%s, channel %d has GPU %d twice", topo_pattern_name(pattern),
				      c, gpu);
			seen[gpu] = true;
		}
		for (int side = 0; side < 2; side++)
			ck_assert(inter ? g.nic[c][side] >= 0 && g.nic[c][side] < sys->nnets
					: g.nic[c][side] == -1);
	}
}

static void one_machine(struct random_state *r)
{
	static struct random_machine m;

	random_machine_make(&m, r);
	const struct topo_system *sys = util_system_of(m.xml, m.gpus);

	for (int inter = 0; inter <= (m.nics > 0); inter++) {
		for (int p = TOPO_RING; p < TOPO_SEARCHED_PATTERNS; p++)
			one_graph(sys, (enum topo_pattern)p, inter != 0);
	}
}

/* ---- clusters ------------------------------------------------------------------------------- */

struct cluster {
	int hosts, ranks;
	struct topo_rank_info info[MAX_RANKS];
	struct topo_heads_info heads[MAX_RANKS];
	struct topo_rings rings[MAX_RANKS];
	struct topo_trees trees[MAX_RANKS];
	int32_t order[2][DEV_MAX_CHANNELS * MAX_RANKS], parent[2][DEV_MAX_CHANNELS * MAX_RANKS];
};

/* Ranks in turn over the hosts, or host after host. */
static void cluster_ranks(struct cluster *c, const struct topo_system *const *sys, bool in_turn,
			  int32_t local_to_rank[MAX_HOSTS][TOPO_MAX_LOCAL])
{
	c->ranks = 0;
	for (int h = 0; h < c->hosts && !in_turn; h++)
		for (int32_t i = 0; i < topo_gpu_count(sys[h]); i++)
			local_to_rank[h][i] = c->ranks++;
	for (int32_t i = 0; i < 16 && in_turn; i++)
		for (int h = 0; h < c->hosts; h++)
			if (i < topo_gpu_count(sys[h]))
				local_to_rank[h][i] = c->ranks++;
}

/* The contributions of one host's ranks. */
static void cluster_host(struct cluster *c, const struct topo_system *sys, int h,
			 const int32_t *local_to_rank)
{
	static struct topo_graph graph[TOPO_SEARCHED_PATTERNS];
	struct topo_graph *graphs[TOPO_SEARCHED_PATTERNS];

	for (int p = 0; p < TOPO_SEARCHED_PATTERNS; p++) {
		graphs[p] = &graph[p];
		ck_assert(topo_search(sys, (enum topo_pattern)p, true, graphs[p]) == ncclSuccess);
	}
	util_check_graph(sys, graphs[TOPO_RING], true);
	for (int32_t i = 0; i < topo_gpu_count(sys); i++) {
		topo_rank_info_fill(&c->info[local_to_rank[i]], sys, graphs, 77u * (unsigned)h + 5,
				    i);
		topo_heads_info_fill(&c->heads[local_to_rank[i]], sys, graphs + TOPO_PATTERNS, i);
	}
}

/* Hosts with machines of their own, or all alike, which have heads more often. */
static void cluster_make(struct cluster *c, struct random_state *r)
{
	static struct random_machine m;
	static int32_t local_to_rank[MAX_HOSTS][TOPO_MAX_LOCAL];
	const struct topo_system *sys[MAX_HOSTS];
	bool alike = random_one_in(r, 2);

	c->hosts = 2 + (int)random_below(r, MAX_HOSTS - 1);
	for (int h = 0; h < c->hosts; h++) {
		if (h > 0 && alike) {
			sys[h] = sys[0];
			continue;
		}
		do
			random_machine_make(&m, r);
		while (m.nics == 0);
		sys[h] = util_system_of(m.xml, 1 + (int32_t)random_below(r, (uint64_t)m.gpus));
	}
	cluster_ranks(c, sys, random_one_in(r, 2), local_to_rank);
	for (int h = 0; h < c->hosts; h++)
		cluster_host(c, sys[h], h, local_to_rank[h]);
}

/* Both ends of every hop, and the order that every rank has, are the same. */
static void cluster_check(struct cluster *c)
{
	for (int r = 0; r < c->ranks; r++) {
		ck_assert_msg(topo_connect_rings(c->info, c->ranks, r, &c->rings[r],
						 c->order[r > 0]) == ncclSuccess,
			      "%s", log_last_error());
		ck_assert_int_eq(c->rings[r].nchannels, c->rings[0].nchannels);
		ck_assert_int_eq(c->rings[r].distinct, c->rings[0].distinct);
		size_t bytes = (size_t)c->rings[0].distinct * (size_t)c->ranks * sizeof(int32_t);
		ck_assert_msg(r == 0 || memcmp(c->order[0], c->order[1], bytes) == 0,
			      "rank %d has other rings than rank 0", r);
	}
	for (int ch = 0; ch < c->rings[0].nchannels; ch++)
		for (int r = 0, seen = 0; seen < c->ranks; seen++) {
			int next = c->rings[r].next[ch];

			ck_assert(next >= 0 && next < c->ranks);
			ck_assert_int_eq(c->rings[next].prev[ch], r);
			ck_assert_int_eq(c->rings[r].index[ch], seen);
			r = next;
			ck_assert((r == 0) == (seen == c->ranks - 1));
		}
}

/* From every rank the way up ends at the root. */
static void cluster_check_roots(const struct cluster *c, int ch)
{
	for (int r = 0; r < c->ranks; r++) {
		int at = r, steps = 0;

		while (c->trees[at].up[ch] >= 0 && steps++ < c->ranks)
			at = c->trees[at].up[ch];
		if (c->trees[at].up[ch] >= 0)
			ck_abort_msg("channel %d: rank %d is on a circle of parents", ch, r);
	}
}

/* The same trees on all ranks, with one rank as the root: each rank is the child of its parent
 * once. */
static void cluster_check_trees(struct cluster *c)
{
	for (int r = 0; r < c->ranks; r++) {
		ck_assert_msg(topo_connect_trees(c->info, c->ranks, r, &c->trees[r],
						 c->parent[r > 0]) == ncclSuccess,
			      "%s", log_last_error());
		ck_assert_int_eq(c->trees[r].distinct, 2 * c->rings[0].distinct);
		size_t bytes = (size_t)c->trees[0].distinct * (size_t)c->ranks * sizeof(int32_t);
		ck_assert_msg(r == 0 || memcmp(c->parent[0], c->parent[1], bytes) == 0,
			      "rank %d has other trees than rank 0", r);
	}
	for (int ch = 0; ch < c->trees[0].distinct; ch++) {
		cluster_check_roots(c, ch);
		for (int r = 0, roots = 0; r < c->ranks; r++) {
			int up = c->trees[r].up[ch], times = 0;

			for (int i = 0; up >= 0 && i < TOPO_TREE_DOWN; i++)
				times += c->trees[up].down[ch][i] == r;
			ck_assert_int_eq(times, up >= 0);
			roots += up < 0;
			ck_assert(roots == 1 || (roots == 0 && r < c->ranks - 1));
		}
	}
}

/* Two ranks that connect the heads by themselves have the same. */
static void cluster_check_heads(struct cluster *c)
{
	struct topo_digest digest[2];

	memset(digest, 0, sizeof digest);
	for (int i = 0; i < 2; i++) {
		struct topo_heads *heads;

		ck_assert_msg(topo_heads_connect(c->info, c->heads, c->ranks, &heads) ==
				      ncclSuccess,
			      "%s", log_last_error());
		heads_check(&(struct heads_world){c->ranks, c->info, c->heads, heads});
		topo_heads_digest(heads, &digest[i]);
		topo_heads_free(heads);
	}
	ck_assert(topo_digest_compare(digest, 2) == ncclSuccess);
}

static void one_cluster(struct random_state *r)
{
	static struct cluster c;

	memset(&c, 0, sizeof c);
	cluster_make(&c, r);
	cluster_check(&c);
	cluster_check_trees(&c);
	cluster_check_heads(&c);
}

START_TEST(rings_of_random_machines_are_whole_and_fit)
{
	for (uint64_t i = 0; i < MACHINES_A_TEST / SAMPLE_THIN; i++) {
		struct random_state r = {.seed = first_machine + (uint64_t)_i * MACHINES_A_TEST +
						 i};

		one_machine(&r);
	}
}
END_TEST

START_TEST(ranks_of_random_clusters_agree)
{
	for (uint64_t i = 0; i < MACHINES_A_TEST / SAMPLE_THIN / 2; i++) {
		struct random_state r = {
			.seed = hash64_combine(first_machine + (uint64_t)_i * MACHINES_A_TEST + i,
					       2)};

		one_cluster(&r);
	}
}
END_TEST

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : MACHINES_A_TEST;
	Suite *suite = suite_create("topo_cluster");
	TCase *t = tcase_create("cluster");

	first_machine = argc > 2 ? strtoull(argv[2], NULL, 0) : argc > 1 ? 1 : random_of_commit();
	printf("machines %" PRIu64 " .. %" PRIu64 "\n", first_machine,
	       first_machine + (uint64_t)count - 1);
	setenv("NCCL_COLLNET_ENABLE", "1", 1);
	suite_add_tcase(suite, t);
	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, rings_of_random_machines_are_whole_and_fit, 0,
			    MAX_OF(count / MACHINES_A_TEST, 1));
	tcase_add_loop_test(t, ranks_of_random_clusters_agree, 0,
			    MAX_OF(count / MACHINES_A_TEST, 1));
	return util_run(suite);
}
