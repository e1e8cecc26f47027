/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The order of tries, which is NCCL's. Speeds go from the highest down. At each speed the tries
 * use, in this order: equal channels, different channels, a simpler shape, longer paths inside the
 * host, longer paths to the net, and another net to leave than to enter. Slower speeds are tried
 * only while they could still win.
 *
 * Then channels of the result are doubled at half the speed, where that pays, and higher speeds are
 * tried with at least as many channels. Budgets count placed steps, so the result depends only on
 * the input.
 */
#include <stddef.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/memo_table.h"
#include "core/topo/search/search.h"

/* ---- memory --------------------------------------------------------------------------------- */

static void topo_search_fini(struct topo_search *s)
{
	os_free(s->link_left);
	os_free(s->link_kind);
	os_free(s->net_left);
	os_free(s->intel);
	os_free(s->used);
	os_free(s->seen);
	os_free(s->level);
	os_free(s->cut);
	topo_candidates_fini(s);
	os_free(s);
}

static bool topo_search_alloc(struct topo_search *s)
{
	static const char what[] = "topology search";
	size_t n = (size_t)s->n, nets = (size_t)s->sys->nnets, most = (size_t)s->max_channels;
	size_t ends = (size_t)s->sys->nends;

	s->link_left = os_alloc(((size_t)s->sys->nlinks + 1) * sizeof *s->link_left, what);
	s->link_kind = os_alloc(((size_t)s->sys->nlinks + 1) * sizeof *s->link_kind, what);
	s->net_left = os_alloc((nets + 1) * sizeof *s->net_left, what);
	s->intel = os_alloc(ends * ends * sizeof *s->intel, what);
	s->used = os_alloc((most + 1) * 2 * sizeof *s->used, what);
	s->seen = os_alloc(TOPO_SEARCH_SEEN * sizeof *s->seen, what);
	s->level = os_alloc(most * (n + 4) * sizeof *s->level, what);
	return s->link_left && s->link_kind && s->net_left && s->intel && s->used && s->seen &&
	       s->level;
}

/* True if an Intel CPU forwards the GPU's data. */
static bool topo_search_is_intel(const struct topo_system *sys, int32_t from, int32_t to)
{
	const struct topo_path *path = topo_path_at(sys, from, to);

	if (path->type != TOPO_PATH_PHB || from >= sys->ngpus)
		return false;
	for (int32_t i = 0; i < path->count; i++) {
		const struct topo_link *link = &sys->link[sys->hop[path->first + i]];
		const struct topo_node *node = &sys->node[link->to];

		if (node->type == TOPO_NODE_CPU && node->cpu.arch == TOPO_CPU_ARCH_X86 &&
		    node->cpu.vendor == TOPO_CPU_VENDOR_INTEL)
			return true;
	}
	return false;
}

static uint8_t topo_search_link_kind(const struct topo_system *sys, const struct topo_link *link)
{
	const struct topo_node *to = &sys->node[link->to];
	uint8_t kind = link->type == TOPO_LINK_PCI ? TOPO_LINK_IS_PCI : 0;

	if (link->back == TOPO_NO_LINK)
		return kind;
	if (to->type == TOPO_NODE_GPU && to->gpu.sm < 80)
		return kind | TOPO_LINK_IS_READ;
	if (to->type == TOPO_NODE_CPU && to->cpu.arch == TOPO_CPU_ARCH_POWER &&
	    link->type == TOPO_LINK_NVL)
		return kind | TOPO_LINK_IS_BOTH;
	return kind;
}

static int16_t topo_search_port(const struct topo_system *sys, int32_t net)
{
	int16_t first = 0;

	while (!topo_same_port(sys, first, net))
		first++;
	return first;
}

static void topo_search_fill_way(struct topo_search *s, int32_t from, int32_t to)
{
	bool intel = topo_search_is_intel(s->sys, from, to);

	s->intel[(size_t)from * (size_t)s->sys->nends + (size_t)to] = intel;
	s->whole = s->whole && !(intel && to < s->n);
}

static void topo_search_fill(struct topo_search *s)
{
	const struct topo_system *sys = s->sys;

	s->whole = true;
	for (int32_t i = 0; i < sys->nlinks; i++) {
		s->link_left[i] = sys->link[i].bw_mbps;
		s->link_kind[i] = topo_search_link_kind(sys, &sys->link[i]);
		s->whole = s->whole && !(s->link_kind[i] & ~TOPO_LINK_IS_PCI);
	}
	for (int32_t i = 0; i < sys->nnets; i++) {
		s->net_left[i] = topo_net_node(sys, i)->net.bw_mbps;
		s->port[i] = topo_search_port(sys, i);
	}
	for (int32_t a = 0; a < sys->nends; a++)
		for (int32_t b = 0; b < sys->nends; b++)
			topo_search_fill_way(s, a, b);
	topo_candidates_fill(s);
}

/* The request for a search. */
struct topo_search_wanted {
	const struct topo_system *sys;
	enum topo_pattern pattern;
	bool inter;
	struct topo_graph *ring; /* for patterns with as many channels as the ring; else NULL */
	struct topo_search_record *record;
};

/* True if there are two NVLink islands. A ring of two channels can cross between them in both
 * directions, and the tree has as many channels as the ring (since NCCL 2.29). */
static bool topo_search_is_split(const struct topo_system *sys)
{
	int32_t island[TOPO_MAX_LOCAL], size[TOPO_MAX_LOCAL] = {0}, islands = 0;

	for (int32_t g = 0; g < sys->ngpus; g++)
		island[g] = g;
	for (int32_t a = 0; a < sys->ngpus; a++)
		for (int32_t b = a + 1; b < sys->ngpus; b++)
			if (topo_path_at(sys, a, b)->type == TOPO_PATH_NVL)
				island[b] = island[a];
	for (int32_t g = 0; g < sys->ngpus; g++)
		islands += ++size[island[g]] == 2;
	return islands == 2;
}

static void topo_search_set_channels(struct topo_search *s, const struct topo_search_wanted *w)
{
	s->min_channels = s->sys->params.min_channels;
	s->max_channels = s->sys->params.max_channels;
	if (s->rules->as_ring)
		s->min_channels = s->max_channels = w->ring->nchannels;
	if (s->rules->heads)
		s->max_channels = s->n;
	if (w->pattern == TOPO_COLLNET_DIRECT)
		s->max_channels = MIN_OF(s->n, 8);
	if (w->pattern == TOPO_NVLS) {
		s->max_channels = MIN_OF(s->n, 32);
		/* Within a host every GPU must be a head, so that all have the same load. */
		s->min_channels = s->inter ? 1 : s->max_channels;
	}
	s->forced = w->pattern == TOPO_RING && s->min_channels < 2 && s->max_channels >= 2 &&
		    s->sys->params.compat == TOPO_COMPAT_NEW && topo_search_is_split(s->sys);
	if (s->forced)
		s->min_channels = 2;
}

static struct topo_search *topo_search_make(const struct topo_search_wanted *w)
{
	const struct topo_system *sys = w->sys;
	struct topo_search *s = os_alloc(sizeof *s, "topology search");

	if (!s)
		goto err;
	s->sys = sys;
	s->rules = topo_pattern_rules(w->pattern);
	s->inter = w->inter;
	s->n = sys->ngpus;
	s->record = w->record;
	topo_search_set_channels(s, w);
	if (!topo_search_alloc(s) || !topo_candidates_alloc(s))
		goto err_fini;
	topo_search_fill(s);
	if (topo_bounds_make(s))
		goto err_fini;
	return s;
err_fini:
	topo_search_fini(s);
err:
	WARN("out of memory for a %s search over %d GPUs and %d nets",
	     topo_pattern_name(w->pattern), sys->ngpus, sys->nnets);
	return NULL;
}

/* ---- result --------------------------------------------------------------------------------- */

static void topo_search_fallback(struct topo_search *s)
{
	struct topo_graph *g = &s->best;
	const int16_t *nets;

	INFO(LOG_GRAPH,
	     "nothing fits over %d GPUs and %d nets at any speed; taking the file's order", s->n,
	     s->inter ? s->sys->nnets : 0);
	g->nchannels = 1;
	g->bw_intra_mbps = g->bw_inter_mbps = 100;
	g->type_intra = g->type_inter = TOPO_PATH_SYS;
	for (int32_t i = 0; i < s->n; i++)
		g->order[0][i] = (int16_t)i;
	s->now.type_inter = -1;
	for (int side = 0; side < 2 && s->inter; side++) {
		topo_candidates_nets(s, side ? s->n - 1 : 0, &nets);
		g->nic[0][side] = nets[0];
	}
	if (s->record)
		s->record->fallback = true;
}

/* Returns the graph by local rank, with zeros after its end. */
static struct topo_graph *topo_search_result(const struct topo_search *s, enum topo_pattern pattern)
{
	const struct topo_graph *best = &s->best;
	struct topo_graph *g = memo_value_alloc(sizeof *g);

	if (!g) {
		WARN("out of memory for a %s graph", topo_pattern_name(pattern));
		return NULL;
	}
	*g = (struct topo_graph){.pattern = pattern,
				 .shape = best->shape,
				 .nchannels = best->nchannels,
				 .bw_intra_mbps = best->bw_intra_mbps,
				 .bw_inter_mbps = best->bw_inter_mbps,
				 .type_intra = best->type_intra,
				 .type_inter = best->type_inter,
				 .same_channels = best->same_channels,
				 .cross_nic = best->cross_nic};
	for (int32_t c = 0; c < DEV_MAX_CHANNELS; c++)
		for (int side = 0; side < 2; side++)
			g->nic[c][side] = s->inter && c < best->nchannels ? best->nic[c][side] : -1;
	for (int32_t c = 0; c < best->nchannels; c++)
		for (int32_t i = 0; i < s->n; i++)
			g->order[c][i] = s->sys->pos_to_local[best->order[c][i]];
	return g;
}

/* True if the host can have the graph: NVLS needs NVSwitches and sm 90. topo_search_prepare checks
 * CollNet. */
static bool topo_search_exists(const struct topo_search *s, enum topo_pattern pattern)
{
	if (pattern == TOPO_NVLS)
		return s->sys->nnvs > 0 && s->sys->sm_min >= 90;
	return true;
}

static void topo_search_run(struct topo_search *s, const struct topo_search_wanted *w)
{
	enum topo_pattern pattern = w->pattern;
	struct topo_search_range range;

	topo_search_range_fill(s, &range);
	topo_search_begin(s, &range);
	if (s->record) {
		s->record->min_channels = s->min_channels;
		s->record->max_channels = s->max_channels;
		s->record->max_bw_mbps = range.max_bw;
		s->record->total_bw_mbps = range.total_bw;
	}
	if (!topo_search_exists(s, pattern))
		return;
	topo_search_pass_down(s, &range);
	if (s->best.nchannels == 0 && s->forced) { /* one channel is better than the fallback */
		s->min_channels = 1;
		topo_search_begin(s, &range);
		topo_search_pass_down(s, &range);
	}
	topo_search_double(s);
	if (w->ring)
		topo_search_take_ring(s, w->ring);
	if (s->best.nchannels)
		topo_search_pass_up(s, &range);
	else if (s->rules->fallback)
		topo_search_fallback(s);
	if (s->record) {
		s->record->visited = s->visited;
		s->record->used_up = s->left < 0;
	}
	INFO(LOG_GRAPH, "%s search over %d GPUs and %d nets: %d channels, %lld steps placed",
	     topo_pattern_name(pattern), s->n, s->inter ? s->sys->nnets : 0, s->best.nchannels,
	     (long long)s->visited);
}

static void *topo_search_memo(const void *key, size_t key_bytes, void *arg)
{
	const struct topo_search_wanted *w = arg;
	struct topo_search *s = topo_search_make(w);
	struct topo_graph *g;

	ASSERT(key && key_bytes);
	if (!s)
		return NULL;
	topo_search_run(s, w);
	g = topo_search_result(s, w->pattern);
	topo_search_fini(s);
	return g;
}

/* Fills in w->ring (from os_alloc) for patterns that need it. *none: the host has no such graph,
 * and *graph is empty. */
static ncclResult_t topo_search_prepare(struct topo_search_wanted *w, bool *none,
					struct topo_graph *graph)
{
	const struct topo_system *sys = w->sys;
	ncclResult_t rc = ncclSuccess;
	bool coll = false;

	*none = false;
	memset(graph, 0, sizeof *graph);
	graph->pattern = w->pattern;
	graph->shape = topo_pattern_rules(w->pattern)->shape;
	if (w->inter && sys->nnets == 0) {
		WARN("a %s over several hosts needs a NIC, and this host's topology has no <net>",
		     topo_pattern_name(w->pattern));
		return ncclInvalidUsage;
	}
	for (int32_t i = 0; i < sys->nnets; i++)
		coll = coll || topo_net_node(sys, i)->net.coll;
	*none = topo_pattern_rules(w->pattern)->collnet &&
		(!sys->params.collnet || !coll || !w->inter);
	if (topo_pattern_rules(w->pattern)->as_ring && !*none) {
		w->ring = os_alloc(sizeof *w->ring, "ring graph");
		if (!w->ring) {
			WARN("out of memory for a ring graph");
			return ncclSystemError;
		}
		rc = topo_search(sys, TOPO_RING, w->inter, w->ring);
	}
	return rc;
}

ncclResult_t topo_search(const struct topo_system *sys, enum topo_pattern pattern, bool inter,
			 struct topo_graph *graph)
{
	static const char kinds[TOPO_SEARCHED_PATTERNS][2][24] = {
		[TOPO_RING] = {"topo.ring.host", "topo.ring.inter"},
		[TOPO_TREE] = {"topo.tree.host", "topo.tree.inter"},
		[TOPO_COLLNET_CHAIN] = {"topo.chain.host", "topo.chain.inter"},
		[TOPO_NVLS] = {"topo.nvls.host", "topo.nvls.inter"},
		[TOPO_COLLNET_DIRECT] = {"topo.direct.host", "topo.direct.inter"}};
	struct topo_search_wanted w = {.sys = sys, .pattern = pattern, .inter = inter};
	bool none;
	ncclResult_t rc = topo_search_prepare(&w, &none, graph);

	const struct topo_graph *found = NULL;

	/* The address identifies the topology: it lives as long as the memo. */
	if (!rc && !none) {
		found = os_memo(kinds[pattern][inter], &sys, sizeof sys, topo_search_memo, &w);
		rc = found ? ncclSuccess : ncclSystemError;
	}
	if (found)
		*graph = *found;
	os_free(w.ring);
	return rc;
}

ncclResult_t topo_search_explain(const struct topo_system *sys, enum topo_pattern pattern,
				 bool inter, struct topo_graph *graph,
				 struct topo_search_record *record)
{
	struct topo_search_wanted w = {
		.sys = sys, .pattern = pattern, .inter = inter, .record = record};
	bool none, every_try = record->every_try;

	memset(record, 0, offsetof(struct topo_search_record, attempt));
	record->every_try = every_try;
	ncclResult_t rc = topo_search_prepare(&w, &none, graph);
	struct topo_graph *found = NULL;

	if (!rc && !none) {
		found = topo_search_memo(&sys, sizeof sys, &w);
		rc = found ? ncclSuccess : ncclSystemError;
	}
	if (found)
		*graph = *found;
	memo_value_free(found);
	os_free(w.ring);
	return rc;
}
