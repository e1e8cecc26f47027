/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Trees of several hosts: in every channel one tree over all ranks, the same on every rank, no
 * deeper than a binary tree of the hosts and the chain of one host; and hosts that have children in
 * one of the two trees have none in the other. Then the comparison of what the ranks come to.
 */
#include <signal.h>

#include "tests/unit/topo/topo_util.h"

#define MAX_HOSTS 64
#define MAX_LOCAL 8
#define MAX_RANKS (MAX_HOSTS * MAX_LOCAL)
#define CHANNELS  2 /* of the hosts' graphs */

#define ALONE 48 /* ranks of a world in which each works everything out by itself */

static struct topo_rank_info info[MAX_RANKS];
static struct topo_rings rings[MAX_RANKS];
static struct topo_trees trees[MAX_RANKS];
static int32_t parent[2 * CHANNELS * MAX_RANKS]; /* of all ranks, as one of them has it */
static int host_of[MAX_RANKS];

/* ---- worlds --------------------------------------------------------------------------------- */

struct world {
	int hosts, ranks;
	int local[MAX_HOSTS];
};

/* The GPU at place i of the order; another one in each channel. */
static int place_of(int local, int n, int channel)
{
	return channel % 2 ? n - 1 - local : (local + n / 2) % n;
}

static void rank_fill(int rank, int host, int local, int n, enum topo_shape shape)
{
	struct topo_rank_info *r = &info[rank];

	*r = (struct topo_rank_info){
		.host_hash = 0x1234567ull * (unsigned)host + 5, .local_rank = local, .sm = 90};
	r->graph[TOPO_RING].nchannels = r->graph[TOPO_TREE].nchannels = CHANNELS;
	r->graph[TOPO_TREE].shape = shape;
	for (int c = 0; c < DEV_MAX_CHANNELS; c++)
		r->tree.place[c] = (int8_t)(c < CHANNELS ? place_of(local, n, c) : -1);
	host_of[rank] = host;
}

static int8_t local_of(int rank)
{
	return rank < 0 ? -1 : (int8_t)info[rank].local_rank;
}

/* In the order of the places, from where the ring enters the host to where it leaves. */
static void world_fill_rings(int ranks)
{
	int32_t at[MAX_HOSTS][MAX_LOCAL];

	for (int c = 0; c < CHANNELS; c++) {
		memset(at, 0xff, sizeof at);
		for (int r = 0; r < ranks; r++)
			at[host_of[r]][info[r].tree.place[c]] = r;
		for (int r = 0; r < ranks; r++) {
			int place = info[r].tree.place[c];
			const int32_t *host = at[host_of[r]];

			info[r].ring.prev[c] = place ? local_of(host[place - 1]) : -1;
			info[r].ring.next[c] =
				place + 1 < MAX_LOCAL ? local_of(host[place + 1]) : -1;
		}
	}
}

/* A rank's own computation equals the computation over all ranks. */
static void check_alone(int ranks, int r)
{
	static struct topo_rings own_rings;
	static struct topo_trees own;
	static int32_t own_parent[ARRAY_LEN(parent)];
	size_t bytes = (size_t)trees[r].distinct * (size_t)ranks * sizeof parent[0];

	UTIL_EXPECT(topo_connect_rings(info, ranks, r, &own_rings, NULL) == ncclSuccess);
	UTIL_EXPECT(topo_connect_trees(info, ranks, r, &own, r ? own_parent : parent) ==
		    ncclSuccess);
	UTIL_EXPECT(memcmp(&own_rings, &rings[r], sizeof own_rings) == 0);
	UTIL_EXPECT(memcmp(&own, &trees[r], sizeof own) == 0);
	UTIL_EXPECT(r == 0 || memcmp(own_parent, parent, bytes) == 0);
}

static void world_connect(int ranks)
{
	struct topo_connected *all;

	ck_assert_msg(topo_connect_all(info, ranks, &all) == ncclSuccess, "%s", log_last_error());
	for (int r = 0; r < ranks; r++)
		topo_connect_get(all, r, &rings[r], &trees[r]);
	topo_connect_free(all);
	for (int r = 0; r<ranks; r += ranks> ALONE ? ranks / 7 : 1)
		check_alone(ranks, r);
}

/* Ranks host after host, or dealt out in turn. */
static void world_fill(struct world *w, bool in_turn, enum topo_shape shape)
{
	int rank = 0;

	if (in_turn) {
		for (int local = 0; local < MAX_LOCAL; local++)
			for (int h = 0; h < w->hosts; h++)
				if (local < w->local[h])
					rank_fill(rank++, h, local, w->local[h], shape);
	} else {
		for (int h = 0; h < w->hosts; h++)
			for (int local = 0; local < w->local[h]; local++)
				rank_fill(rank++, h, local, w->local[h], shape);
	}
	w->ranks = rank;
	world_fill_rings(rank);
	world_connect(rank);
}

static struct world world_of(int hosts, int local, bool unequal)
{
	struct world w = {.hosts = hosts};

	for (int h = 0; h < hosts; h++)
		w.local[h] = unequal ? 1 + (h * 5 + local) % local : local;
	return w;
}

/* ---- what must hold ------------------------------------------------------------------------- */

/* The parent has this rank as its child once, and all children have it as their parent. */
static void check_links(const struct world *w, int c)
{
	for (int r = 0; r < w->ranks; r++) {
		int up = trees[r].up[c], times = 0;

		UTIL_EXPECT(up == parent[c * w->ranks + r]);
		for (int i = 0; up >= 0 && i < TOPO_TREE_DOWN; i++)
			times += trees[up].down[c][i] == r;
		UTIL_EXPECT(times == (up >= 0));
		for (int i = 0; i < TOPO_TREE_DOWN; i++) {
			int child = trees[r].down[c][i];

			UTIL_EXPECT(child >= -1 && child < w->ranks);
			UTIL_EXPECT(child < 0 || trees[child].up[c] == r);
		}
	}
}

/* A link that leaves the host has one of the graph's NICs at both ends, others have none. */
static void check_nics(const struct world *w, int c)
{
	for (int r = 0; r < w->ranks; r++) {
		const struct topo_trees *t = &trees[r];

		UTIL_EXPECT((t->nic_up[c] >= 0) ==
			    (t->up[c] >= 0 && host_of[t->up[c]] != host_of[r]));
		for (int i = 0; i < TOPO_TREE_DOWN; i++) {
			int child = t->down[c][i];

			UTIL_EXPECT((t->nic_down[c][i] >= 0) ==
				    (child >= 0 && host_of[child] != host_of[r]));
			UTIL_EXPECT(t->nic_down[c][i] < 0 ||
				    t->nic_down[c][i] == info[r].tree.place[t->from[c]]);
		}
	}
}

static int log2_up(int n)
{
	int bits = 0;

	while (1 << bits < n)
		bits++;
	return bits;
}

/* From every rank the way leads up to one root, and is short. */
static void check_depth(const struct world *w, int c, int each_host)
{
	int roots = 0, most = log2_up(w->hosts) * each_host + MAX_LOCAL - 1, local = 0;

	for (int h = 0; h < w->hosts; h++)
		local = MAX_OF(local, w->local[h]);
	most = log2_up(w->hosts) * each_host + local - 1;
	for (int r = 0; r < w->ranks; r++) {
		int depth = 0;

		roots += trees[r].up[c] < 0;
		for (int at = r; trees[at].up[c] >= 0; at = trees[at].up[c])
			if (++depth > most)
				ck_abort_msg("%d hosts: rank %d is more than %d deep", w->hosts, r,
					     most);
	}
	UTIL_EXPECT(roots == 1);
}

/* Hosts in the order of their smallest rank are those of the world. */
static int children_of_host(const struct world *w, int host, int c)
{
	int n = 0;

	for (int r = 0; r < w->ranks; r++)
		if (host_of[r] == host)
			for (int i = 0; i < TOPO_TREE_DOWN; i++)
				n += trees[r].down[c][i] >= 0 &&
				     host_of[trees[r].down[c][i]] != host;
	return n;
}

/* A host with two children in one tree is a leaf of the other: none sends more than three times
 * what it must. */
static void check_two_trees(const struct world *w)
{
	for (int h = 0; h < w->hosts && w->hosts > 1; h++) {
		int first = children_of_host(w, h, 0), second = children_of_host(w, h, CHANNELS);

		if ((first == 2 && second) || (second == 2 && first))
			ck_abort_msg("%d hosts: host %d has %d and %d children", w->hosts, h, first,
				     second);
	}
}

static void check_world(const struct world *w, enum topo_shape shape)
{
	UTIL_EXPECT(trees[0].distinct == 2 * CHANNELS);
	for (int c = 0; c < trees[0].distinct; c++) {
		check_links(w, c);
		check_nics(w, c);
		check_depth(w, c, shape == TOPO_SHAPE_TREE ? 1 : 2);
	}
	check_two_trees(w);
	for (int r = 0; r < w->ranks; r++)
		for (int c = trees[r].distinct; c < DEV_MAX_CHANNELS; c++)
			UTIL_EXPECT(trees[r].up[c] == trees[r].up[c % trees[r].distinct]);
}

static enum topo_shape shape_of(int i)
{
	static const enum topo_shape shape[] = {TOPO_SHAPE_TREE, TOPO_SHAPE_BALANCED_TREE,
						TOPO_SHAPE_SPLIT_TREE};

	return shape[i % 3];
}

/* One test for every number of ranks of a host. */
START_TEST(every_world_has_two_trees_over_all_ranks)
{
	for (int hosts = 1; hosts <= MAX_HOSTS; hosts += hosts < 20 ? 1 : 11)
		for (int unequal = 0; unequal < 2; unequal++) {
			enum topo_shape shape = shape_of(hosts + unequal);
			struct world w = world_of(hosts, _i, unequal);

			world_fill(&w, hosts % 2, shape);
			check_world(&w, shape);
		}
}
END_TEST

START_TEST(sixty_four_hosts_of_eight_in_every_shape)
{
	struct world w = world_of(64, 8, _i == 3);

	world_fill(&w, _i % 2, shape_of(_i));
	check_world(&w, shape_of(_i));
}
END_TEST

/* The two shapes, by hand. */
START_TEST(five_and_six_hosts_are_these_trees)
{
	static const int five[2][5] = {{-1, 2, 4, 2, 0}, {1, -1, 3, 0, 3}};
	static const int six[2][6] = {{-1, 2, 4, 2, 0, 4}, {1, 5, 3, 1, 3, -1}};
	struct world w = world_of(5, 1, false);

	world_fill(&w, false, TOPO_SHAPE_TREE);
	for (int second = 0; second < 2; second++)
		for (int r = 0; r < 5; r++)
			ck_assert_int_eq(trees[r].up[second * CHANNELS], five[second][r]);
	w = world_of(6, 1, false);
	world_fill(&w, false, TOPO_SHAPE_TREE);
	for (int second = 0; second < 2; second++)
		for (int r = 0; r < 6; r++)
			ck_assert_int_eq(trees[r].up[second * CHANNELS], six[second][r]);
}
END_TEST

/* A rank's links, compared with a walk from every other rank. */
START_TEST(every_rank_is_reached_over_one_link)
{
	struct world w = world_of(7, 4, true);
	uint8_t toward[MAX_RANKS];

	world_fill(&w, true, TOPO_SHAPE_BALANCED_TREE);
	for (int c = 0; c < trees[0].distinct; c++)
		for (int me = 0; me < w.ranks; me++) {
			const int32_t *all = parent + c * w.ranks;

			topo_tree_toward(all, w.ranks, me, trees[me].down[c], toward);
			for (int r = 0; r < w.ranks; r++) {
				int at = r, by = -1;

				for (; at >= 0 && at != me; at = all[at])
					by = at;
				if (r == me)
					UTIL_EXPECT(toward[r] == TOPO_TREE_SELF);
				else if (at < 0)
					UTIL_EXPECT(toward[r] == 0);
				else
					UTIL_EXPECT(trees[me].down[c][toward[r] - 1] == by);
			}
		}
}
END_TEST

/* Parents that lead round and round are no tree: the way to the root ends by an assertion, not
 * never. */
START_TEST(parents_that_go_in_a_circle_abort)
{
	static const int32_t circle[4] = {1, 2, 1, -1}, none[TOPO_TREE_DOWN] = {-1, -1, -1};
	uint8_t toward[4];

	topo_tree_toward(circle, 4, 3, none, toward);
}
END_TEST

static void refuse(int ranks, ncclResult_t rc, const char *word)
{
	for (int r = 0; r < ranks; r++) {
		ck_assert(topo_connect_trees(info, ranks, r, &trees[r], parent) == rc);
		ck_assert_msg(strstr(log_last_error(), word), "'%s' is not in '%s'", word,
			      log_last_error());
	}
}

START_TEST(places_that_are_no_chain_are_refused_on_every_rank)
{
	struct world w = world_of(2, 4, false);

	world_fill(&w, false, TOPO_SHAPE_TREE);
	info[6].tree.place[1] = info[5].tree.place[1];
	refuse(w.ranks, ncclInvalidUsage, "channel 1: rank 6 is at place");
	info[6].tree.place[0] = 4;
	refuse(w.ranks, ncclInvalidUsage, "channel 0: rank 6 is at place 4 of its host's tree");
	info[6].tree.place[0] = -1;
	refuse(w.ranks, ncclInvalidUsage, "at place -1");
	info[2].graph[TOPO_TREE].nchannels = 0;
	refuse(w.ranks, ncclInternalError, "no channel");
}
END_TEST

/* ---- the comparison ------------------------------------------------------------------------- */

static void expect_difference(const struct topo_digest *all, const char *rank, const char *what)
{
	ck_assert(topo_digest_compare(all, 3) == ncclInternalError);
	ck_assert_msg(strstr(log_last_error(), rank) && strstr(log_last_error(), what),
		      "'%s' and '%s' are not both in '%s'", rank, what, log_last_error());
}

START_TEST(a_rank_that_comes_to_something_else_is_named)
{
	static int32_t order[4 * 3] = {0, 1, 2, 0, 2, 1, 0, 1, 2, 0, 2, 1};
	static int32_t ups[4 * 3] = {-1, 0, 0, 1, -1, 1, -1, 0, 0, 1, -1, 1};
	const struct topo_rings rings = {.distinct = 2};
	const struct topo_trees two = {.distinct = 4};
	struct topo_digest all[3], good;

	topo_digest_make(&good, 3, 6, &rings, order, &two, ups);
	all[0] = all[1] = all[2] = good;
	ck_assert(topo_digest_compare(all, 3) == ncclSuccess);
	order[4] = 1;
	topo_digest_make(&all[2], 3, 6, &rings, order, &two, ups);
	ck_assert_uint_ne(topo_digest_hash(&all[2]), topo_digest_hash(&good));
	expect_difference(all, "rank 2, channel 1", "ring of all ranks");
	order[4] = 2;
	ups[9] = 2;
	topo_digest_make(&all[1], 3, 6, &rings, order, &two, ups);
	all[2] = good;
	expect_difference(all, "rank 1, channel 3", "tree of all ranks");
	topo_digest_make(&all[1], 3, 5, &rings, order, &two, ups);
	expect_difference(all, "rank 1 has 5 channels", "rank 0 has 6");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("topo_tree");
	TCase *t = tcase_create("tree");

	suite_add_tcase(suite, t);
	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, every_world_has_two_trees_over_all_ranks, 1, MAX_LOCAL + 1);
	tcase_add_loop_test(t, sixty_four_hosts_of_eight_in_every_shape, 0, 4);
	tcase_add_test(t, five_and_six_hosts_are_these_trees);
	tcase_add_test(t, every_rank_is_reached_over_one_link);
	tcase_add_test_raise_signal(t, parents_that_go_in_a_circle_abort, SIGABRT);
	tcase_add_test(t, places_that_are_no_chain_are_refused_on_every_rank);
	tcase_add_test(t, a_rank_that_comes_to_something_else_is_named);
	return util_run(suite);
}
