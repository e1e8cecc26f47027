/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the topology tests: loading machines, and checks of a graph that do not depend on the
 * search. A failing check aborts with its values (Check's fork mode reports it).
 */
#ifndef TESTS_UNIT_TOPO_UTIL_H
#define TESTS_UNIT_TOPO_UTIL_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/topo/search/record.h"
#include "core/topo/topo_internal.h"
#include "tests/suite.h"

#define MACHINES DOPPEL_SOURCE_DIR "/sim/world/machines/"
#define ZOO      DOPPEL_SOURCE_DIR "/../shared/zoo/"

/* For loops of many rounds: Check writes a record of every assertion to its parent. */
#define UTIL_EXPECT(cond)                                                                          \
	do {                                                                                       \
		if (!(cond))                                                                       \
			ck_abort_msg("expected %s", #cond);                                        \
	} while (0)

/* A file, or abort. The caller owns it (free). */
static inline char *util_read(const char *path)
{
	FILE *f = fopen(path, "rb");
	ck_assert_msg(f != NULL, "cannot open %s", path);
	char *text = calloc(1, 1 << 20);
	size_t n = fread(text, 1, (1 << 20) - 1, f);
	fclose(f);
	text[n] = '\0';
	return text;
}

static inline struct topo_select util_first(int32_t count)
{
	struct topo_select select = {.count = count};
	for (int32_t i = 0; i < count; i++)
		select.gpu[i].dev = i;
	return select;
}

static inline const struct topo_system *util_system_of(const char *xml, int32_t gpus)
{
	struct topo_select select = util_first(gpus);
	const struct topo_system *sys = NULL;
	ncclResult_t rc = topo_system_get(xml, strlen(xml), "test.xml", &select, &sys);
	ck_assert_msg(rc == ncclSuccess, "%d: %s", rc, log_last_error());
	return sys;
}

static inline const struct topo_system *util_system(const char *path, int32_t gpus)
{
	char *xml = util_read(path);
	const struct topo_system *sys = util_system_of(xml, gpus);
	free(xml);
	return sys;
}

/* Expects an error that contains all of `words` (NULL-terminated). */
static inline void util_refuse(const char *xml, const struct topo_select *select,
			       const char *const *words)
{
	const struct topo_system *sys = NULL;
	ncclResult_t rc = topo_system_get(xml, strlen(xml), "test.xml", select, &sys);
	ck_assert_msg(rc != ncclSuccess && sys == NULL, "accepted: %.200s", xml);
	for (; *words; words++)
		ck_assert_msg(strstr(log_last_error(), *words), "'%s' is not in '%s'", *words,
			      log_last_error());
}

/* ---- properties of a graph of rings or trees
 * -------------------------------------------------- */

static inline void util_use_path(const struct topo_system *sys, uint64_t *use, int32_t from,
				 int32_t to, uint32_t bw, int32_t type)
{
	const struct topo_path *p = topo_path_at(sys, from, to);

	if (type < TOPO_PATH_SYS && p->type > type)
		ck_abort_msg("a path of type %s where %s is promised", topo_path_name(p->type),
			     topo_path_name(type));
	for (int32_t i = 0; i < p->count; i++)
		use[sys->hop[p->first + i]] += bw;
}

/* A ring leaves from its last GPU; a tree from its first, a split one from its second, a balanced
 * one half from each of these. */
static inline void util_use_return(const struct topo_system *sys, const struct topo_graph *g,
				   int32_t c, uint64_t *use)
{
	bool halves = g->shape == TOPO_SHAPE_BALANCED_TREE;
	int32_t from = g->shape == TOPO_SHAPE_RING         ? sys->ngpus - 1
		       : g->shape == TOPO_SHAPE_SPLIT_TREE ? 1
							   : 0;

	for (int32_t i = from; i <= from + halves; i++)
		util_use_path(sys, use, sys->local_to_pos[g->order[c][i]],
			      topo_end_net(sys, g->nic[c][1]), g->bw_inter_mbps / (1u + halves),
			      g->type_inter);
}

static inline void util_check_channel(const struct topo_system *sys, const struct topo_graph *g,
				      int32_t c, bool inter, uint64_t *use)
{
	bool seen[TOPO_MAX_LOCAL] = {false};
	int32_t n = sys->ngpus;
	for (int32_t i = 0; i < n; i++) {
		int32_t r = g->order[c][i];
		if (r < 0 || r >= n || seen[r])
			ck_abort_msg("channel %d visits %d twice", c, r);
		seen[r] = true;
		if (i > 0)
			util_use_path(sys, use, sys->local_to_pos[g->order[c][i - 1]],
				      sys->local_to_pos[r], g->bw_intra_mbps, g->type_intra);
	}
	int32_t first = sys->local_to_pos[g->order[c][0]];
	int32_t last = sys->local_to_pos[g->order[c][n - 1]];
	if (!inter) {
		ck_assert(g->nic[c][0] == -1 && g->nic[c][1] == -1);
		if (g->pattern == TOPO_RING)
			util_use_path(sys, use, last, first, g->bw_intra_mbps, g->type_intra);
		return;
	}
	for (int side = 0; side < 2; side++)
		ck_assert(g->nic[c][side] >= 0 && g->nic[c][side] < sys->nnets);
	util_use_path(sys, use, topo_end_net(sys, g->nic[c][0]), first, g->bw_inter_mbps,
		      g->type_inter);
	util_use_return(sys, g, c, use);
	if (g->cross_nic == 0 && g->bw_intra_mbps > 100) /* not where nothing fits */
		ck_assert(g->nic[c][0] == g->nic[c][1]);
}

/* Each channel visits each GPU once; no link carries more than it has; types are kept. */
static inline void util_check_graph(const struct topo_system *sys, const struct topo_graph *g,
				    bool inter)
{
	uint64_t *use = calloc((size_t)sys->nlinks + 1, sizeof *use);
	ck_assert(g->pattern == TOPO_TREE || g->shape == TOPO_SHAPE_RING);
	ck_assert(g->pattern == TOPO_RING ||
		  (g->shape >= TOPO_SHAPE_BALANCED_TREE && g->shape <= TOPO_SHAPE_TREE));
	ck_assert_msg(g->nchannels >= 1 && g->nchannels <= DEV_MAX_CHANNELS / 2, "%d channels",
		      g->nchannels);
	for (int32_t c = 0; c < g->nchannels; c++)
		util_check_channel(sys, g, c, inter, use);
	for (int32_t i = 0; i < sys->nlinks && g->bw_intra_mbps > 100; i++)
		if (use[i] > sys->link[i].bw_mbps)
			ck_abort_msg("link %d carries %llu of %u", i, (unsigned long long)use[i],
				     sys->link[i].bw_mbps);
	if (g->same_channels && g->nchannels > 1)
		for (int32_t c = 1; c < g->nchannels; c++)
			ck_assert(memcmp(g->order[c], g->order[0], sizeof g->order[0]) == 0);
	free(use);
}

/* Searches, checks, and searches again without the cache: a space at the end makes another key. */
static inline struct topo_graph util_search(const char *path, int32_t gpus, bool inter)
{
	char *xml = util_read(path);
	const struct topo_system *sys = util_system_of(xml, gpus);
	struct topo_graph g, again;
	ck_assert_msg(topo_search(sys, TOPO_RING, inter, &g) == ncclSuccess, "%s",
		      log_last_error());
	util_check_graph(sys, &g, inter);
	strcat(xml, " ");
	const struct topo_system *other = util_system_of(xml, gpus);
	ck_assert(other != sys);
	ck_assert(topo_search(other, TOPO_RING, inter, &again) == ncclSuccess);
	ck_assert_msg(memcmp(&g, &again, sizeof g) == 0, "%s: two searches differ", path);
	free(xml);
	return g;
}

static inline void util_expect(const struct topo_graph *g, int32_t channels, uint32_t bw,
			       int32_t intra, int32_t inter)
{
	ck_assert_msg(g->nchannels == channels && g->bw_intra_mbps == bw &&
			      g->type_intra == intra && g->type_inter == inter,
		      "%d channels at %u MB/s %s/%s, expected %d at %u %s/%s", g->nchannels,
		      g->bw_intra_mbps, topo_path_name(g->type_intra),
		      topo_path_name(g->type_inter), channels, bw, topo_path_name(intra),
		      topo_path_name(inter));
}

/* The bounds of the search leave out only tries of which nothing better comes. A search that used
 * up its steps without them may find more with them. */
static inline void util_check_bounds(const struct topo_system *sys, enum topo_pattern pattern,
				     bool inter, const char *name)
{
	static struct topo_search_record record, all = {.every_try = true};
	static struct topo_graph a, b;

	ck_assert(topo_search_explain(sys, pattern, inter, &a, &record) == ncclSuccess);
	ck_assert(topo_search_explain(sys, pattern, inter, &b, &all) == ncclSuccess);
	ck_assert_msg(all.used_up || record.visited <= all.visited, "%s: %lld steps, not %lld",
		      name, (long long)record.visited, (long long)all.visited);
	bool good = all.used_up ? (uint64_t)a.nchannels * a.bw_intra_mbps >=
					  (uint64_t)b.nchannels * b.bw_intra_mbps
				: memcmp(&a, &b, sizeof a) == 0;
	ck_assert_msg(good, "%s %s %s: %d x %u with bounds, %d x %u without", name,
		      topo_pattern_name(pattern), inter ? "inter" : "intra", a.nchannels,
		      a.bw_intra_mbps, b.nchannels, b.bw_intra_mbps);
}

static inline int util_run(Suite *suite)
{
	return suite_run(suite);
}

#endif
