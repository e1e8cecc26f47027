/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Heads of NVLS and CollNet of several hosts: they begin the channels of their graphs and have
 * NICs, trees over them are spanning and symmetric, hosts that differ have none, and ranks that
 * come to something else are found.
 */
#include <unistd.h>

#include "tests/unit/topo/topo_heads_check.h"

#define MAX_HOSTS 9
#define MAX_RANKS (MAX_HOSTS * 8)

static struct topo_rank_info info[MAX_RANKS];
static struct topo_heads_info infos[MAX_RANKS];
static struct topo_graph graph[TOPO_HEAD_PATTERNS]; /* of the host that was gathered last */

/* ---- worlds --------------------------------------------------------------------------------- */

/* With NICs that reduce, and as NCCL_COLLNET_ENABLE=1. */
static const struct topo_system *reducing(const char *path, int gpus)
{
	char *xml = util_read(path), *whole = calloc(1, 1 << 20), *from = xml;

	setenv("NCCL_COLLNET_ENABLE", "1", 1);
	for (char *at; (at = strstr(from, "<net ")) != NULL; from = at + 5) {
		strncat(whole, from, (size_t)(at + 5 - from));
		strcat(whole, "coll=\"1\" ");
	}
	strcat(whole, from);

	const struct topo_system *sys = util_system_of(whole, gpus);

	free(xml);
	free(whole);
	return sys;
}

/* The ranks of one host: rank `first + i * step` has GPU i. */
static void gather_host(const struct topo_system *sys, int host, bool inter, int first, int step)
{
	struct topo_graph *graphs[TOPO_HEAD_PATTERNS];

	for (int p = 0; p < TOPO_HEAD_PATTERNS; p++) {
		graphs[p] = &graph[p];
		ck_assert(topo_search(sys, (enum topo_pattern)(TOPO_PATTERNS + p), inter,
				      graphs[p]) == ncclSuccess);
	}
	for (int i = 0; i < topo_gpu_count(sys); i++) {
		info[first + i * step] = (struct topo_rank_info){
			.host_hash = 0x1000u * (unsigned)host + 7, .local_rank = i};
		topo_heads_info_fill(&infos[first + i * step], sys, graphs, i);
	}
}

/* Alike hosts; rank r is on host r / gpus, or dealt out in turn. Returns how many ranks. */
static int gather(const struct topo_system *sys, int hosts, bool in_turn)
{
	int gpus = topo_gpu_count(sys);

	for (int h = 0; h < hosts; h++)
		gather_host(sys, h, hosts > 1, in_turn ? h : h * gpus, in_turn ? hosts : 1);
	return hosts * gpus;
}

static struct heads_world connect_world(int ranks)
{
	struct topo_heads *heads;

	ck_assert_msg(topo_heads_connect(info, infos, ranks, &heads) == ncclSuccess, "%s",
		      log_last_error());
	return (struct heads_world){ranks, info, infos, heads};
}

static void world_free(struct heads_world *w)
{
	topo_heads_free((struct topo_heads *)w->heads);
}

/* ---- NVLS ----------------------------------------------------------------------------------- */

static const struct {
	const char *path;
	int gpus, heads[2]; /* on one host, on several */
} machines[] = {{MACHINES "h100-8nic.xml", 8, {8, 8}},
		{MACHINES "h100-2nic.xml", 4, {4, 2}},
		{ZOO "h200-vm-8.xml", 8, {8, 1}},
		{ZOO "search/oracle-quickstart-oci-hpc-oke__BM.GPU.H100.8.xml", 8, {8, 8}},
		{ZOO "hgx-b200-8.xml", 8, {8, 1}}};

/* Each head has the NICs of the channel that it begins, where the graph has some. */
static void check_nics(const struct heads_world *w, bool inter)
{
	const struct topo_graph *g = &graph[topo_head_index(TOPO_NVLS)];
	struct topo_nvls n;

	for (int r = 0; r < w->ranks; r++) {
		topo_nvls_get(w->heads, r, &n);
		if (n.own.head < 0)
			continue;
		ck_assert_int_eq(g->order[n.own.from][0], info[r].local_rank);
		for (int side = 0; side < 2; side++)
			ck_assert((g->nic[n.own.from][side] >= 0) == inter);
	}
}

START_TEST(every_nvls_head_begins_a_channel_and_has_its_nics)
{
	if (access(machines[_i].path, R_OK))
		return;
	const struct topo_system *sys = util_system(machines[_i].path, machines[_i].gpus);

	for (int hosts = 1; hosts <= 3; hosts++)
		for (int in_turn = 0; in_turn < 2; in_turn++) {
			struct heads_world w = connect_world(gather(sys, hosts, in_turn != 0));
			bool inter = hosts > 1 && topo_nic_count(sys) > 0;

			ck_assert_int_eq(topo_heads_hosts(w.heads), hosts);
			ck_assert_int_eq(topo_heads_count(w.heads, TOPO_NVLS),
					 machines[_i].heads[hosts > 1]);
			heads_check(&w);
			if (topo_heads_count(w.heads, TOPO_NVLS))
				check_nics(&w, inter);
			world_free(&w);
		}
}
END_TEST

START_TEST(trees_over_heads_are_whole_for_each_number_of_hosts)
{
	const struct topo_system *sys = util_system(MACHINES "h100-2nic.xml", 4);

	for (int hosts = 1; hosts <= MAX_HOSTS; hosts++) {
		struct heads_world w = connect_world(gather(sys, hosts, hosts % 2 != 0));
		struct topo_nvls n;
		int leaves[TOPO_HEAD_TREES] = {0}, inner = 0;

		ck_assert_int_eq(heads_check(&w), 1);
		for (int host = 0; host < hosts; host++) {
			bool has[TOPO_HEAD_TREES];

			topo_nvls_get(w.heads, topo_heads_rank(w.heads, TOPO_NVLS, 0, host), &n);
			for (int t = 0; t < TOPO_HEAD_TREES; t++) {
				has[t] = n.down[t][0] >= 0 || n.down[t][1] >= 0;
				leaves[t] += !has[t];
			}
			inner += has[0] && has[1];
		}
		/* hosts that have children in one tree have none in the other */
		ck_assert(leaves[0] >= hosts / 2 && leaves[1] >= hosts / 2);
		ck_assert_int_le(inner, hosts % 2);
		world_free(&w);
	}
}
END_TEST

START_TEST(a_gpu_that_begins_two_channels_is_one_head)
{
	int nvls = topo_head_index(TOPO_NVLS);
	int n = gather(util_system(MACHINES "h100-2nic.xml", 4), 2, false);

	for (int r = 0; r < n; r++) {
		struct topo_head_info *i = &infos[r].graph[nvls];

		ck_assert_int_eq(i->nchannels, 2);
		i->nchannels = 5; /* the heads of 0 1 1 0 1 */
		i->order.place[3] = i->order.place[0];
		i->order.place[2] = i->order.place[4] = i->order.place[1];
	}

	struct heads_world w = connect_world(n);

	ck_assert_int_eq(topo_heads_count(w.heads, TOPO_NVLS), 2);
	ck_assert_int_eq(heads_check(&w), 1);
	world_free(&w);
}
END_TEST

START_TEST(machines_without_graphs_have_no_heads)
{
	struct heads_world w =
		connect_world(gather(util_system(MACHINES "a100-4nic.xml", 8), 2, false));

	ck_assert_int_eq(heads_check(&w), 0);
	world_free(&w);
}
END_TEST

/* ---- CollNet -------------------------------------------------------------------------------- */

START_TEST(chains_and_stars_of_collnet_have_every_rank)
{
	const struct topo_system *sys =
		_i ? reducing(MACHINES "h100-8nic.xml", 8) : reducing(MACHINES "h100-2nic.xml", 4);

	for (int hosts = 2; hosts <= 3; hosts++)
		for (int in_turn = 0; in_turn < 2; in_turn++) {
			struct heads_world w = connect_world(gather(sys, hosts, in_turn != 0));

			ck_assert_int_eq(heads_check(&w), 3);
			ck_assert_int_eq(topo_heads_count(w.heads, TOPO_COLLNET_DIRECT),
					 _i ? 8 : 2);
			world_free(&w);
		}
	/* on one host there is no network */
	struct heads_world w = connect_world(gather(sys, 1, false));

	ck_assert_int_eq(topo_heads_count(w.heads, TOPO_COLLNET_DIRECT), 0);
	ck_assert_int_eq(topo_heads_count(w.heads, TOPO_COLLNET_CHAIN), 0);
	ck_assert_int_eq(heads_check(&w), 1);
	world_free(&w);
}
END_TEST

START_TEST(collnet_chains_are_those_that_all_hosts_have)
{
	const struct topo_system *sys = reducing(MACHINES "h100-8nic.xml", 8);
	int chain = topo_head_index(TOPO_COLLNET_CHAIN), n = gather(sys, 3, false);

	for (int r = 8; r < 16; r++)
		infos[r].graph[chain].nchannels = 3;

	struct heads_world w = connect_world(n);

	ck_assert_int_eq(topo_heads_count(w.heads, TOPO_COLLNET_CHAIN), 3);
	ck_assert_int_eq(heads_check(&w), 3);
	world_free(&w);
}
END_TEST

/* ---- hosts that differ ---------------------------------------------------------------------- */

START_TEST(hosts_with_different_heads_have_none_and_the_log_has_the_reason)
{
	char path[] = "/tmp/doppel-heads-XXXXXX", *log;

	close(mkstemp(path));
	setenv("NCCL_DEBUG", "INFO", 1);
	setenv("NCCL_DEBUG_SUBSYS", "GRAPH", 1);
	setenv("NCCL_DEBUG_FILE", path, 1);
	gather_host(util_system(MACHINES "h100-8nic.xml", 8), 0, true, 0, 1);
	gather_host(util_system(MACHINES "h100-8nic.xml", 8), 1, true, 8, 1);
	gather_host(util_system(MACHINES "h100-2nic.xml", 4), 2, true, 16, 1);
	gather_host(util_system(MACHINES "a100-4nic.xml", 8), 3, true, 20, 1);

	struct heads_world w = connect_world(20);

	ck_assert_int_eq(heads_check(&w), 0);
	world_free(&w);
	for (int r = 0; r < 8; r++) { /* the first host is the one without a graph */
		info[r + 8] = info[r + 20];
		infos[r + 8] = infos[r + 20];
	}
	w = connect_world(16);
	ck_assert_int_eq(heads_check(&w), 0);
	world_free(&w);
	log = util_read(path);
	ck_assert_msg(strstr(log, "nvls is not connected: the host of rank 0 has 8 heads, that of "
				  "rank 16 has 2"),
		      "%s", log);
	ck_assert_msg(strstr(log, "nvls is not connected: the host of rank 0 has 8 heads, that of "
				  "rank 8 has 0"),
		      "%s", log);
	free(log);
	remove(path);
}
END_TEST

static void refuse(int n, const char *word)
{
	struct topo_heads *heads = NULL;

	ck_assert(topo_heads_connect(info, infos, n, &heads) == ncclInvalidUsage && !heads);
	ck_assert_msg(strstr(log_last_error(), word), "'%s' is not in '%s'", word,
		      log_last_error());
}

START_TEST(ranks_of_a_host_with_different_graphs_are_refused)
{
	int n = gather(util_system(MACHINES "h100-8nic.xml", 8), 2, false);
	struct topo_head_info *nvls = &infos[11].graph[topo_head_index(TOPO_NVLS)], good = *nvls;

	nvls->nchannels = 7;
	refuse(n, "rank 11 has 7 channels of nvls, expected 8");
	nvls->nchannels = DEV_MAX_CHANNELS + 1;
	refuse(n, "rank 11 has 65 channels of nvls, expected 8");
	nvls->nchannels = -1;
	refuse(n, "rank 11 has -1 channels of nvls");
	*nvls = good;
	nvls->order.place[2] = 8;
	refuse(n, "nvls, channel 2: rank 11 is at place 8 of its host");
	nvls->order.place[2] = -1;
	refuse(n, "nvls, channel 2: rank 11 is at place -1 of its host");
	nvls->order.place[2] = infos[12].graph[topo_head_index(TOPO_NVLS)].order.place[2];
	refuse(n, "nvls, channel 2: rank 12 is at place");
}
END_TEST

/* ---- what ranks compare --------------------------------------------------------------------- */

static struct topo_digest digest_of(int n)
{
	struct topo_digest d = {.nchannels = 1, .rings = 1, .trees = 1, .ring = {3}, .tree = {5}};
	struct heads_world w = connect_world(n);

	topo_heads_digest(w.heads, &d);
	world_free(&w);
	return d;
}

START_TEST(other_heads_are_another_hash_and_are_named)
{
	const struct topo_system *sys = reducing(MACHINES "h100-8nic.xml", 8);
	int n = gather(sys, 2, false);
	static const char *const words[TOPO_HEAD_PATTERNS] = {
		"rank 2: its collnet_chain heads of all hosts have the hash",
		"rank 2: its nvls heads of all hosts have the hash",
		"rank 2: its collnet_direct heads of all hosts have the hash"};
	struct topo_digest all[3], none = {.nchannels = 1, .rings = 1, .trees = 1};

	all[0] = all[1] = all[2] = digest_of(n);
	ck_assert(topo_digest_compare(all, 3) == ncclSuccess);
	for (int p = 0; p < TOPO_HEAD_PATTERNS; p++) {
		struct topo_head_info *a = &infos[3].graph[p], *b = &infos[4].graph[p], kept = *a;

		*a = *b; /* two GPUs of a host change places */
		*b = kept;
		all[2] = digest_of(n);
		ck_assert(topo_digest_hash(&all[0]) != topo_digest_hash(&all[2]));
		ck_assert(topo_digest_compare(all, 3) == ncclInternalError);
		ck_assert_msg(strstr(log_last_error(), words[p]), "%s", log_last_error());
		*b = *a;
		*a = kept;
	}
	/* without heads the hash is that of rings and trees alone */
	none.ring[0] = 3;
	none.tree[0] = 5;
	ck_assert(topo_digest_hash(&none) != topo_digest_hash(&all[0]));
	n = gather(util_system(MACHINES "a100-4nic.xml", 8), 2, false);
	all[1] = digest_of(n);
	ck_assert(topo_digest_hash(&none) == topo_digest_hash(&all[1]));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("topo_heads");
	TCase *t = tcase_create("heads");

	suite_add_tcase(suite, t);
	tcase_add_loop_test(t, every_nvls_head_begins_a_channel_and_has_its_nics, 0,
			    (int)ARRAY_LEN(machines));
	tcase_add_test(t, trees_over_heads_are_whole_for_each_number_of_hosts);
	tcase_add_test(t, a_gpu_that_begins_two_channels_is_one_head);
	tcase_add_test(t, machines_without_graphs_have_no_heads);
	tcase_add_loop_test(t, chains_and_stars_of_collnet_have_every_rank, 0, 2);
	tcase_add_test(t, collnet_chains_are_those_that_all_hosts_have);
	tcase_add_test(t, hosts_with_different_heads_have_none_and_the_log_has_the_reason);
	tcase_add_test(t, ranks_of_a_host_with_different_graphs_are_refused);
	tcase_add_test(t, other_heads_are_another_hash_and_are_named);
	return util_run(suite);
}
