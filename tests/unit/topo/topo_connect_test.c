/* SPDX-License-Identifier: BSD-3-Clause */
/* Rings of several hosts: one ring over all ranks in every channel, the same on every rank. */
#include "tests/unit/topo/topo_util.h"

#define MAX_RANKS 64

static struct topo_rank_info info[MAX_RANKS];
static struct topo_rings rings[MAX_RANKS];

/* The contributions of `hosts` hosts with this machine; rank r is on host r / gpus, or the hosts
 * get ranks in rotation. */
static int gather(const char *machine, int hosts, int gpus, bool in_turn)
{
	const struct topo_system *sys = util_system(machine, gpus);
	struct topo_graph ring, tree;
	ck_assert(topo_search(sys, TOPO_RING, hosts > 1, &ring) == ncclSuccess);
	ck_assert(topo_search(sys, TOPO_TREE, hosts > 1, &tree) == ncclSuccess);
	for (int h = 0; h < hosts; h++)
		for (int i = 0; i < gpus; i++)
			topo_rank_info_fill(&info[in_turn ? i * hosts + h : h * gpus + i], sys,
					    (struct topo_graph *[]){&ring, &tree},
					    0x1000u * (unsigned)h + 7, i);
	return hosts * gpus;
}

static void connect_all(int n)
{
	for (int r = 0; r < n; r++)
		ck_assert_msg(topo_connect_rings(info, n, r, &rings[r], NULL) == ncclSuccess, "%s",
			      log_last_error());
}

/* Following next from rank 0 visits every rank once; prev and index agree with it. */
static void check_rings(int n)
{
	for (int c = 0; c < rings[0].nchannels; c++) {
		int r = 0;
		for (int i = 0; i < n; i++) {
			ck_assert_int_eq(rings[r].nchannels, rings[0].nchannels);
			ck_assert_msg(rings[r].index[c] == i,
				      "channel %d rank %d: index %d is not %d", c, r,
				      rings[r].index[c], i);
			int next = rings[r].next[c];
			ck_assert(next >= 0 && next < n);
			ck_assert_int_eq(rings[next].prev[c], r);
			r = next;
		}
		ck_assert_int_eq(r, 0);
	}
}

/* How often a ring crosses from host to host: as often as there are hosts. */
static void check_crossings(int n, int hosts)
{
	for (int c = 0; c < rings[0].nchannels; c++) {
		int crossings = 0;
		for (int r = 0; r < n; r++)
			crossings += info[r].host_hash != info[rings[r].next[c]].host_hash;
		ck_assert_int_eq(crossings, hosts > 1 ? hosts : 0);
	}
}

START_TEST(every_size_makes_one_ring_a_channel)
{
	static const char *const machine[] = {MACHINES "h100-8nic.xml", MACHINES "a100-4nic.xml",
					      MACHINES "pcie-4gpu.xml",
					      MACHINES "workstation-2gpu.xml"};
	static const int gpus[] = {8, 8, 4, 2};
	for (int hosts = 1; hosts <= 4; hosts++)
		for (int g = 1; g <= gpus[_i]; g++)
			for (int in_turn = 0; in_turn < 2; in_turn++) {
				int n = gather(machine[_i], hosts, g, in_turn != 0);
				connect_all(n);
				check_rings(n);
				check_crossings(n, hosts);
			}
}
END_TEST

START_TEST(the_order_of_a_ring_is_that_of_its_indices)
{
	static int32_t order[DEV_MAX_CHANNELS * MAX_RANKS];
	int n = gather(MACHINES "a100-4nic.xml", 3, 8, true);

	connect_all(n);
	ck_assert(topo_connect_rings(info, n, 5, &rings[5], order) == ncclSuccess);
	for (int c = 0; c < rings[5].distinct; c++)
		for (int r = 0; r < n; r++)
			ck_assert_int_eq(order[c * n + rings[r].index[c]], r);
}
END_TEST

/* Two ranks per host, and more of them than 16 bits count: neither their numbers nor the search for
 * their hosts may break down. */
START_TEST(twenty_thousand_hosts_make_one_ring)
{
	const int n = 40000;
	const struct topo_system *sys = util_system(MACHINES "a100-4nic.xml", 2);
	struct topo_rank_info *all = calloc((size_t)n, sizeof *all);
	struct topo_rings last;
	struct topo_graph ring, tree;

	ck_assert(topo_search(sys, TOPO_RING, true, &ring) == ncclSuccess);
	ck_assert(topo_search(sys, TOPO_TREE, true, &tree) == ncclSuccess);
	for (int32_t r = 0; r < n; r += 2)
		for (int32_t i = 0; i < 2; i++)
			topo_rank_info_fill(&all[r + i], sys, (struct topo_graph *[]){&ring, &tree},
					    0x1000u * (unsigned)r, i);
	ck_assert_msg(topo_connect_rings(all, n, n - 1, &last, NULL) == ncclSuccess, "%s",
		      log_last_error());
	ck_assert_int_eq(last.prev[0] + last.next[0], n - 2);
	free(all);
}
END_TEST

START_TEST(channels_are_doubled)
{
	connect_all(gather(MACHINES "a100-4nic.xml", 2, 8, false));
	ck_assert_int_eq(rings[0].nchannels, 8);
	for (int c = 0; c < 4; c++)
		ck_assert_int_eq(rings[3].next[c], rings[3].next[c + 4]);
	connect_all(gather(MACHINES "a100-4nic.xml", 1, 8, false));
	ck_assert_int_eq(rings[0].nchannels, 24);
	/* sm 90 over hosts, above 45 GB/s: doubled again, but not from 16 on */
	connect_all(gather(MACHINES "h100-8nic.xml", 2, 8, false));
	ck_assert_int_eq(rings[0].nchannels, 16);
	for (int r = 0; r < 16; r++)
		info[r].graph[TOPO_RING].nchannels = 4;
	connect_all(16);
	ck_assert_int_eq(rings[0].nchannels, 16);
	check_rings(16);
}
END_TEST

/* NIC by which a rank's ring comes in (0) or goes out (1) on a channel. */
static int nic_of(const struct topo_graph *g, int rank, int channel, int side)
{
	return g->nic[rings[rank].from[channel]][side];
}

/* Crossings whose ends are different NICs. Each host uses every NIC of its crossings equally often
 * for receives and for sends. */
static int rails_changed(const struct topo_graph *g, int n)
{
	int changed = 0;

	for (int host = 0; host < n / 8; host++) {
		int in[8] = {0}, out[8] = {0};

		for (int c = 0; c < rings[0].distinct; c++)
			for (int r = host * 8; r < host * 8 + 8; r++) {
				int next = rings[r].next[c], prev = rings[r].prev[c];

				if (next / 8 != host)
					out[nic_of(g, r, c, 1)]++;
				if (prev / 8 != host)
					in[nic_of(g, r, c, 0)]++;
				changed += next / 8 != host &&
					   nic_of(g, r, c, 1) != nic_of(g, next, c, 0);
			}
		for (int k = 0; k < 8; k++)
			ck_assert(in[k] == 1 && out[k] == 1);
	}
	return changed;
}

/* Rings that leave by another NIC than the one of entry: on odd hosts the two channels of a pair
 * change places, so that each crossing stays on one rail. */
START_TEST(paired_channels_stay_on_their_rails)
{
	const struct topo_system *sys = util_system(MACHINES "h100-8nic.xml", 8);
	struct topo_graph g;

	ck_assert(topo_search(sys, TOPO_RING, true, &g) == ncclSuccess);
	ck_assert_int_eq(g.cross_nic, 2);
	for (int hosts = 2; hosts <= 8; hosts++) {
		int n = gather(MACHINES "h100-8nic.xml", hosts, 8, false);

		connect_all(n);
		check_rings(n);
		check_crossings(n, hosts);
		/* an odd number of hosts has one crossing between even hosts on each channel */
		ck_assert_int_eq(rails_changed(&g, n), hosts % 2 ? 8 : 0);
		info[n - 3].graph[TOPO_RING].cross_nic = 0;
		connect_all(n);
		check_rings(n);
		ck_assert_int_eq(rails_changed(&g, n), 8 * hosts);
	}
}
END_TEST

START_TEST(the_poorest_rank_decides)
{
	int n = gather(MACHINES "h100-8nic.xml", 2, 8, false);
	info[11].graph[TOPO_RING].nchannels = 1;
	info[11].sm = 80;
	connect_all(n);
	ck_assert_int_eq(rings[0].nchannels, 2);
	check_rings(n);
}
END_TEST

/* On one host a ring may come closed, as well as open. */
START_TEST(a_closed_ring_of_one_host_is_fine)
{
	int n = gather(MACHINES "a100-4nic.xml", 1, 4, false);
	for (int r = 0; r < n; r++)
		for (int c = 0; c < info[r].graph[TOPO_RING].nchannels; c++) {
			info[r].ring.prev[c] = (int8_t)((r + 3) % 4);
			info[r].ring.next[c] = (int8_t)((r + 1) % 4);
		}
	connect_all(n);
	check_rings(n);
}
END_TEST

static void refuse(int n, const char *word)
{
	for (int r = 0; r < n; r++) {
		ck_assert(topo_connect_rings(info, n, r, &rings[r], NULL) == ncclInternalError);
		ck_assert_msg(strstr(log_last_error(), word), "'%s' is not in '%s'", word,
			      log_last_error());
	}
}

START_TEST(what_does_not_chain_up_is_refused_on_every_rank)
{
	int n = gather(MACHINES "a100-4nic.xml", 2, 4, false);
	struct topo_rank_info good[8];
	memcpy(good, info, sizeof good);
	info[1].ring.next[0] = 1;
	refuse(n, "channel 0");
	memcpy(info, good, sizeof good);
	for (int r = 0; r < 4; r++)
		info[r].ring.prev[0] = -1;
	refuse(n, "enters one host at");
	memcpy(info, good, sizeof good);
	for (int r = 0; r < 4; r++)
		info[r].ring.prev[0] = 2;
	refuse(n, "does not enter the host of rank 0");
	memcpy(info, good, sizeof good);
	for (int r = 0; r < 4; r++)
		info[r].ring.next[0] = -1;
	refuse(n, "expected 8");
	memcpy(info, good, sizeof good);
	for (int r = 0; r < 4; r++)
		info[r].ring.next[0] = 99;
	refuse(n, "off its host");
	memcpy(info, good, sizeof good);
	info[5].local_rank = 2;
	refuse(n, "rank 6 is local rank 2");
	memcpy(info, good, sizeof good);
	info[0].graph[TOPO_RING].nchannels = 0;
	refuse(n, "no channel");
}
END_TEST

static struct topo_summary summary_of(int n)
{
	struct topo_summary s;

	ck_assert(topo_summary_make(&s, info, n) == ncclSuccess);
	ck_assert_int_eq(s.nranks, n);
	return s;
}

START_TEST(a_summary_has_the_poorest_of_everything)
{
	int n = gather(MACHINES "h100-8nic.xml", 3, 8, false);
	struct topo_summary s = summary_of(n);
	struct topo_graph_summary *g = &s.graph[TOPO_RING], one = *g;

	ck_assert_int_eq(s.nhosts, 3);
	ck_assert(s.host_least == 8 && s.host_most == 8);
	ck_assert(s.sm_least == 90 && s.sm_most == 90 && s.amd_cpus == 0);
	ck_assert(g->nchannels == 8 && g->bw_intra_mbps == 48000 && g->bw_inter_mbps == 48000);
	ck_assert(g->type_intra == TOPO_PATH_NVL && g->type_inter == TOPO_PATH_PIX);
	/* every field of another rank alone */
	info[20].sm = 100;
	info[21].sm = 80;
	info[22].amd_cpu = info[23].amd_cpu = 1;
	info[11].host_hash = 99;
	info[1].graph[TOPO_RING].nchannels = 3;
	info[2].graph[TOPO_RING].bw_intra_mbps = 20000;
	info[3].graph[TOPO_RING].bw_inter_mbps = 12000;
	info[4].graph[TOPO_RING].type_intra = TOPO_PATH_SYS;
	info[5].graph[TOPO_RING].type_inter = TOPO_PATH_PHB;
	info[6].graph[TOPO_RING].same_channels = !one.same_channels;
	s = summary_of(n);
	ck_assert_int_eq(s.nhosts, 4);
	ck_assert(s.host_least == 1 && s.host_most == 8);
	ck_assert(s.sm_least == 80 && s.sm_most == 100 && s.amd_cpus == 2);
	ck_assert(g->nchannels == 3 && g->bw_intra_mbps == 20000 && g->bw_inter_mbps == 12000);
	ck_assert(g->type_intra == TOPO_PATH_SYS && g->type_inter == TOPO_PATH_PHB);
	ck_assert_int_eq(g->same_channels, 0);
}
END_TEST

/* A channel has a ring and trees: where a host found fewer trees, all have as many rings as
 * trees. */
START_TEST(fewer_trees_are_fewer_rings)
{
	int n = gather(MACHINES "a100-4nic.xml", 2, 8, false);
	static struct topo_trees trees;
	static int32_t parent[DEV_MAX_CHANNELS * MAX_RANKS];
	struct topo_summary s = summary_of(n);

	ck_assert_int_eq(s.graph[TOPO_TREE].nchannels, 4);
	ck_assert_int_eq(s.graph[TOPO_TREE].shape, TOPO_SHAPE_BALANCED_TREE);
	info[5].graph[TOPO_TREE].nchannels = 3;
	info[9].graph[TOPO_TREE].shape = TOPO_SHAPE_TREE;
	s = summary_of(n);
	ck_assert(s.graph[TOPO_RING].nchannels == 3 && s.graph[TOPO_TREE].nchannels == 3);
	ck_assert_int_eq(s.graph[TOPO_TREE].shape, TOPO_SHAPE_TREE);
	connect_all(n);
	check_rings(n);
	ck_assert_int_eq(rings[0].distinct, 3);
	ck_assert(topo_connect_trees(info, n, 0, &trees, parent) == ncclSuccess);
	ck_assert_int_eq(trees.distinct, 6);
}
END_TEST

START_TEST(a_summary_knows_the_cpus)
{
	ck_assert_int_eq(summary_of(gather(MACHINES "workstation-2gpu.xml", 3, 2, true)).amd_cpus,
			 6);
	ck_assert_int_eq(summary_of(gather(MACHINES "a100-4nic.xml", 2, 8, true)).amd_cpus, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("topo_connect");
	TCase *t = tcase_create("connect");
	suite_add_tcase(suite, t);
	tcase_add_loop_test(t, every_size_makes_one_ring_a_channel, 0, 4);
	tcase_add_test(t, the_order_of_a_ring_is_that_of_its_indices);
	tcase_add_test(t, twenty_thousand_hosts_make_one_ring);
	tcase_add_test(t, channels_are_doubled);
	tcase_add_test(t, paired_channels_stay_on_their_rails);
	tcase_add_test(t, the_poorest_rank_decides);
	tcase_add_test(t, a_closed_ring_of_one_host_is_fine);
	tcase_add_test(t, what_does_not_chain_up_is_refused_on_every_rank);
	tcase_add_test(t, a_summary_has_the_poorest_of_everything);
	tcase_add_test(t, fewer_trees_are_fewer_rings);
	tcase_add_test(t, a_summary_knows_the_cpus);
	return util_run(suite);
}
