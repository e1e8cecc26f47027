/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The order of tries, as NCCL's: from the highest speed down, first with equal channels, then with
 * different ones, then allowing longer paths inside the host, longer paths to the net, and leaving
 * by another net than the one of entry; slower speeds only while they could still win. Then, with
 * what was found: channels are doubled at half the speed where that pays, and higher speeds are
 * tried with at least as many channels. Budgets count placed steps, so the answer depends on
 * nothing but the input.
 */
#include <string.h>

#include "core/base/log.h"
#include "core/base/memo_table.h"
#include "core/topo/search.h"

static void topo_search_fini(struct topo_search *s)
{
	os_free(s->link_left);
	os_free(s->net_left);
	os_free(s->net_group);
	os_free(s->net_nearest);
	os_free(s->used);
	os_free(s->near);
	os_free(s->near_count);
	os_free(s->home);
	os_free(s->home_count);
	os_free(s->level);
	os_free(s->cand);
	os_free(s->cut);
	os_free(s);
}

static bool topo_search_alloc(struct topo_search *s)
{
	static const char what[] = "topology search";
	size_t n = (size_t)s->n, nets = (size_t)s->sys->nnets, most = (size_t)s->max_channels;
	size_t cand = most * (nets * n + 2 * nets + n * n + 2 * n + 1);
	s->cand_room = (int32_t)cand;
	s->link_left = os_alloc(((size_t)s->sys->nlinks + 1) * sizeof *s->link_left, what);
	s->net_left = os_alloc((nets + 1) * sizeof *s->net_left, what);
	s->net_group = os_alloc((nets + 1) * sizeof *s->net_group, what);
	s->net_nearest = os_alloc((nets + 1) * sizeof *s->net_nearest, what);
	s->used = os_alloc((most + 1) * 2 * sizeof *s->used, what);
	s->near = os_alloc((n * nets + 1) * sizeof *s->near, what);
	s->near_count = os_alloc(n * sizeof *s->near_count, what);
	s->home = os_alloc((n * nets + 1) * sizeof *s->home, what);
	s->home_count = os_alloc((nets + 1) * sizeof *s->home_count, what);
	s->level = os_alloc(most * (n + 1) * sizeof *s->level, what);
	s->cand = os_alloc(cand * sizeof *s->cand, what);
	return s->link_left && s->net_left && s->net_group && s->net_nearest && s->used &&
	       s->near && s->near_count && s->home && s->home_count && s->level && s->cand;
}

static struct topo_search *topo_search_make(const struct topo_system *sys, bool inter)
{
	struct topo_search *s = os_alloc(sizeof *s, "topology search");
	if (!s)
		goto err;
	s->sys = sys;
	s->inter = inter;
	s->n = sys->ngpus;
	s->min_channels = sys->params.min_channels;
	s->max_channels = sys->params.max_channels;
	if (!topo_search_alloc(s) || topo_search_cuts_make(s))
		goto err_fini;
	for (int32_t i = 0; i < sys->nlinks; i++)
		s->link_left[i] = sys->link[i].bw_mbps;
	topo_search_ring_nets(s);
	return s;
err_fini:
	topo_search_fini(s);
err:
	WARN("out of memory for a ring search over %d GPUs and %d nets", sys->ngpus, sys->nnets);
	return NULL;
}

/* ---- pass 1: the best that fits ------------------------------------------------------------- */

struct topo_search_range {
	uint32_t max_bw;
	uint64_t total_bw;
	int32_t min_intra, max_intra, min_inter, max_inter; /* path types that occur */
	int32_t cross_nic;
	const uint32_t *speed;
	int32_t speeds;
};

static void topo_search_types(const struct topo_search *s, int32_t to, int32_t count, int32_t *min,
			      int32_t *max)
{
	*min = TOPO_PATH_DIS;
	*max = TOPO_PATH_LOC;
	for (int32_t a = 0; a < s->n; a++)
		for (int32_t b = to; b < to + count; b++) {
			int32_t type = topo_path_at(s->sys, a, b)->type;
			if (a == b)
				continue;
			*min = MIN_OF(*min, type);
			*max = MAX_OF(*max, type);
		}
}

static void topo_search_range_fill(const struct topo_search *s, struct topo_search_range *r)
{
	memset(r, 0, sizeof *r);
	topo_search_limits(s, &r->max_bw, &r->total_bw);
	r->speed = topo_search_speeds(s->sys, s->inter, &r->speeds);
	r->min_intra = r->max_intra = TOPO_PATH_LOC;
	r->min_inter = r->max_inter = TOPO_PATH_PIX;
	if (s->n > 1)
		topo_search_types(s, 0, s->n, &r->min_intra, &r->max_intra);
	if (s->inter) {
		topo_search_types(s, topo_end_net(s->sys, 0), s->sys->nnets, &r->min_inter,
				  &r->max_inter);
		r->min_inter = MAX_OF(r->min_inter, TOPO_PATH_PIX);
		r->max_inter = MAX_OF(r->max_inter, TOPO_PATH_PIX);
		r->cross_nic = s->sys->nnets > 1 ? s->sys->params.cross_nic : 0;
	}
}

static bool topo_search_is_done(const struct topo_search *s, const struct topo_search_range *r)
{
	return s->optimal || (uint64_t)s->best.nchannels * s->best.bw_inter_mbps >= r->total_bw ||
	       (s->visited > TOPO_SEARCH_BUDGET_ALL && s->best.nchannels);
}

/* Equal channels first: cheap, and they share connections. Over AMD's CPUs nothing else works. */
static void topo_search_channels(struct topo_search *s, const struct topo_search_range *r)
{
	const struct topo_node *cpu = topo_cpu_node(s->sys, 0);
	bool amd = cpu->cpu.arch == TOPO_CPU_ARCH_X86 && cpu->cpu.vendor == TOPO_CPU_VENDOR_AMD;
	s->now.same_channels = 1;
	topo_search_ring_try(s, TOPO_SEARCH_BUDGET_SAME);
	if (topo_search_is_done(s, r) || (amd && s->now.type_intra == TOPO_PATH_SYS))
		return;
	s->now.same_channels = 0;
	topo_search_ring_try(s, TOPO_SEARCH_BUDGET_TRY);
}

static void topo_search_intra(struct topo_search *s, const struct topo_search_range *r)
{
	int32_t max = s->inter ? s->now.type_inter : r->max_intra;
	for (s->now.type_intra = r->min_intra;; s->now.type_intra++) {
		topo_search_channels(s, r);
		if (topo_search_is_done(s, r) || s->now.type_intra >= max ||
		    (s->best.nchannels && s->now.type_intra >= s->best.type_intra))
			return;
	}
}

static void topo_search_inter(struct topo_search *s, const struct topo_search_range *r)
{
	for (s->now.type_inter = r->min_inter;; s->now.type_inter++) {
		topo_search_intra(s, r);
		if (topo_search_is_done(s, r) || s->now.type_inter >= r->max_inter)
			return;
		if (s->best.nchannels && s->now.type_inter >= s->best.type_inter &&
		    s->now.type_inter >= TOPO_PATH_PXN)
			return;
	}
}

static void topo_search_pass_down(struct topo_search *s, const struct topo_search_range *r)
{
	int32_t i = 0;
	while (i < r->speeds - 1 && (r->speed[i] > r->max_bw || r->speed[i] > r->total_bw))
		i++;
	for (; i < r->speeds; i++) {
		if (s->best.nchannels && r->speed[i] * 100ull <= s->best.bw_inter_mbps * 49ull)
			return;
		s->now.bw_intra_mbps = s->now.bw_inter_mbps = r->speed[i];
		s->now.cross_nic = r->cross_nic == 1;
		topo_search_inter(s, r);
		if (!topo_search_is_done(s, r) && r->cross_nic == 2) {
			s->now.cross_nic = 2;
			topo_search_inter(s, r);
		}
		if (topo_search_is_done(s, r))
			return;
	}
}

/* ---- pass 2 --------------------------------------------------------------------------------- */

/* Two channels of half the speed keep a link busier than one: more blocks copy. Not when there are
 * enough channels, or they are slow already. */
static void topo_search_double(struct topo_search *s)
{
	struct topo_graph *g = &s->best;
	int32_t n = g->nchannels, more = MIN_OF(2 * n, s->max_channels);
	if (n == 0 || g->bw_intra_mbps < 25000 ||
	    (s->sys->sm_min > 80 && g->bw_intra_mbps < 50000 && n > 4))
		return;
	for (int32_t c = n; c < more; c++) {
		memcpy(g->order[c], g->order[c - n], sizeof g->order[c]);
		memcpy(g->nic[c], g->nic[c - n], sizeof g->nic[c]);
	}
	g->bw_intra_mbps /= (uint32_t)DIV_UP(more, n);
	g->bw_inter_mbps /= (uint32_t)DIV_UP(more, n);
	g->nchannels = more;
}

static void topo_search_pass_up(struct topo_search *s, const struct topo_search_range *r)
{
	int32_t i = 0;
	while (i < r->speeds - 1 && r->speed[i] > s->best.bw_inter_mbps)
		i++;
	s->now = s->best;
	s->min_channels = s->best.nchannels;
	s->optimal = false;
	while (i-- > 0) {
		s->now.bw_intra_mbps = s->now.bw_inter_mbps = r->speed[i];
		topo_search_ring_try(s, s->now.same_channels ? TOPO_SEARCH_BUDGET_SAME
							     : TOPO_SEARCH_BUDGET_TRY);
	}
}

/* ---- result --------------------------------------------------------------------------------- */

static void topo_search_fallback(struct topo_search *s)
{
	struct topo_graph *g = &s->best;
	INFO(LOG_GRAPH,
	     "no ring fits over %d GPUs and %d nets at any speed; taking the file's order", s->n,
	     s->inter ? s->sys->nnets : 0);
	g->nchannels = 1;
	g->bw_intra_mbps = g->bw_inter_mbps = 100;
	g->type_intra = g->type_inter = TOPO_PATH_SYS;
	g->same_channels = 1;
	for (int32_t i = 0; i < s->n; i++)
		g->order[0][i] = (int16_t)i;
	for (int side = 0; side < 2; side++)
		g->nic[0][side] = s->inter ? s->near[(side ? s->n - 1 : 0) * s->sys->nnets] : -1;
}

/* The graph by local rank, with nothing after its end. */
static struct topo_graph *topo_search_result(const struct topo_search *s)
{
	const struct topo_graph *best = &s->best;
	struct topo_graph *g = memo_value_alloc(sizeof *g);
	if (!g) {
		WARN("out of memory for a ring graph");
		return NULL;
	}
	*g = (struct topo_graph){.pattern = TOPO_RING,
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

struct topo_search_wanted {
	const struct topo_system *sys;
	bool inter;
};

static void *topo_search_memo(const void *key, size_t key_bytes, void *arg)
{
	const struct topo_search_wanted *wanted = arg;
	ASSERT(key_bytes == wanted->sys->key_bytes);
	struct topo_search *s = topo_search_make(wanted->sys, wanted->inter);
	struct topo_search_range range;
	if (!s)
		return NULL;
	topo_search_range_fill(s, &range);
	topo_search_pass_down(s, &range);
	topo_search_double(s);
	if (s->best.nchannels)
		topo_search_pass_up(s, &range);
	else
		topo_search_fallback(s);
	INFO(LOG_GRAPH, "ring search over %d GPUs and %d nets: %d channels, %lld steps placed",
	     s->n, s->inter ? s->sys->nnets : 0, s->best.nchannels, (long long)s->visited);
	struct topo_graph *g = topo_search_result(s);
	topo_search_fini(s);
	return g;
}

ncclResult_t topo_search_ring(const struct topo_system *sys, bool inter, struct topo_graph *graph)
{
	if (inter && sys->nnets == 0) {
		WARN("a ring over several hosts needs a NIC, and this host's topology has no "
		     "<net>");
		return ncclInvalidUsage;
	}
	struct topo_search_wanted wanted = {.sys = sys, .inter = inter};
	const struct topo_graph *found =
		os_memo(inter ? "topo.ring.inter" : "topo.ring.host", sys->key, sys->key_bytes,
			topo_search_memo, &wanted);
	if (!found)
		return ncclSystemError;
	*graph = *found;
	return ncclSuccess;
}
