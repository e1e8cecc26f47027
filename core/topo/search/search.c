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

/* ---- one try -------------------------------------------------------------------------------- */

struct topo_search_range {
	uint32_t max_bw;
	uint64_t total_bw;                                  /* of one GPU */
	int32_t min_intra, max_intra, min_inter, max_inter; /* path types that occur */
	uint32_t intra_types, inter_types;                  /* the same as sets of bits */
	int32_t cross_nic;
	uint32_t speed[TOPO_MAX_SPEEDS];
	/* Number of speeds. The last `slow` of them are used only if nothing else fits. */
	int32_t speeds, slow;
	bool second; /* second pass */
};

static enum topo_attempt_end topo_search_try_end(const struct topo_search *s)
{
	return !s->made         ? TOPO_ATTEMPT_NOT_MADE
	       : s->budget < 0  ? TOPO_ATTEMPT_FULL
	       : s->stop        ? TOPO_ATTEMPT_NO_BETTER
	       : s->budget == 0 ? TOPO_ATTEMPT_BUDGET
				: TOPO_ATTEMPT_ALL_SEEN;
}

static void topo_search_record_try(struct topo_search *s, const struct topo_search_range *r,
				   enum topo_attempt_end end, int64_t visited)
{
	struct topo_search_record *record = s->record;
	struct topo_attempt *a;

	if (!record)
		return;
	if (record->attempts == TOPO_RECORD_ATTEMPTS) {
		record->dropped++;
		return;
	}
	a = &record->attempt[record->attempts++];
	*a = (struct topo_attempt){.higher = r->second,
				   .better = s->improved,
				   .shape = s->now.shape,
				   .same_channels = s->now.same_channels,
				   .cross_nic = s->now.cross_nic,
				   .bw_intra_mbps = s->now.bw_intra_mbps,
				   .bw_inter_mbps = s->now.bw_inter_mbps,
				   .type_intra = s->now.type_intra,
				   .type_inter = s->now.type_inter,
				   .bound = s->bound,
				   .channels = s->most,
				   .visited = (int32_t)(s->visited - visited),
				   .end = end};
}

static bool topo_search_is_done(const struct topo_search *s, const struct topo_search_range *r)
{
	return s->budget < 0 || (uint64_t)s->best.nchannels * s->best.bw_inter_mbps >= r->total_bw;
}

/* Returns the farthest type up to `type` that is in the set. */
static int32_t topo_search_occurs(uint32_t types, int32_t type)
{
	while (type > TOPO_PATH_LOC && !(types >> type & 1))
		type--;
	return type;
}

/* Returns the entry of this try. Two tries of one speed that differ only in types that no path has
 * place the same channels. The second cannot find anything better, and is charged the first one's
 * cost. Within a host the same is true for tries that differ only in nets. */
static struct topo_search_seen *topo_search_find_seen(struct topo_search *s,
						      const struct topo_search_range *r)
{
	struct topo_search_seen x = {
		.shape = s->now.shape,
		.same = s->now.same_channels,
		.cross = s->inter ? s->now.cross_nic : 0,
		.intra = topo_search_occurs(r->intra_types, s->now.type_intra),
		.inter = s->inter ? topo_search_occurs(r->inter_types, s->now.type_inter) : 0};

	for (int32_t i = 0; i < s->seen_count; i++) {
		struct topo_search_seen *y = &s->seen[i];

		if (x.shape == y->shape && x.same == y->same && x.cross == y->cross &&
		    x.intra == y->intra && x.inter == y->inter)
			return y;
	}
	ASSERT(s->seen_count < TOPO_SEARCH_SEEN);
	x.spent = -1;
	s->seen[s->seen_count] = x;
	return &s->seen[s->seen_count++];
}

static void topo_search_set_seen(const struct topo_search *s, struct topo_search_seen *seen,
				 int32_t budget)
{
	seen->spent = budget - MAX_OF(s->budget, 0);
	seen->bound = s->bound;
	seen->most = s->most;
	seen->bw_mbps = s->now.bw_intra_mbps;
}

/* Takes the result of an earlier try. A record has it once for each speed. */
static void topo_search_repeat(struct topo_search *s, const struct topo_search_range *r,
			       struct topo_search_seen *seen)
{
	s->budget -= seen->spent;
	s->improved = false;
	s->bound = seen->bound;
	s->most = seen->most;
	if (seen->bw_mbps != s->now.bw_intra_mbps)
		topo_search_record_try(s, r, TOPO_ATTEMPT_ALIKE, s->visited);
	seen->bw_mbps = s->now.bw_intra_mbps;
}

static void topo_search_try(struct topo_search *s, const struct topo_search_range *r)
{
	int32_t budget = s->now.same_channels ? TOPO_SEARCH_BUDGET_SAME : TOPO_SEARCH_BUDGET_TRY;
	struct topo_search_seen *seen = r->second ? NULL : topo_search_find_seen(s, r);
	int64_t visited = s->visited;

	s->left -= budget;
	s->budget = budget;
	if (seen && seen->spent >= 0) {
		topo_search_repeat(s, r, seen);
		return;
	}
	topo_channel_try(s);
	s->cut_short |= topo_search_try_end(s) == TOPO_ATTEMPT_BUDGET;
	if (seen)
		topo_search_set_seen(s, seen, budget);
	topo_search_record_try(s, r, topo_search_try_end(s), visited);
}

/* ---- pass 1: the best that fits ------------------------------------------------------------- */

static void topo_search_types(const struct topo_search *s, int32_t to, int32_t count, int32_t *min,
			      int32_t *max)
{
	*min = TOPO_PATH_SYS;
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

/* Returns the set of path types between GPUs and these ends, in both directions. */
static uint32_t topo_search_type_set(const struct topo_search *s, int32_t to, int32_t count)
{
	uint32_t set = 0;

	for (int32_t a = 0; a < s->n; a++)
		for (int32_t b = to; b < to + count; b++) {
			set |= 1u << topo_path_at(s->sys, a, b)->type;
			set |= 1u << topo_path_at(s->sys, b, a)->type;
		}
	return set;
}

static void topo_search_range_fill(const struct topo_search *s, struct topo_search_range *r)
{
	memset(r, 0, sizeof *r);
	topo_speeds_limits(s, &r->max_bw, &r->total_bw);
	r->speeds = topo_speeds(s->sys, s->inter, r->speed, &r->slow);
	r->min_intra = TOPO_PATH_LOC;
	r->max_intra = r->max_inter = TOPO_PATH_SYS;
	r->min_inter = TOPO_PATH_PIX;
	r->intra_types = topo_search_type_set(s, 0, s->n);
	r->inter_types = topo_search_type_set(s, topo_end_net(s->sys, 0), s->sys->nnets);
	if (s->n > 1)
		topo_search_types(s, 0, s->n, &r->min_intra, &r->max_intra);
	if (s->inter)
		topo_search_types(s, topo_end_net(s->sys, 0), s->sys->nnets, &r->min_inter,
				  &r->max_inter);
	/* Before sm 90 a balanced tree may need a path over the CPU, because NVSwitches are not
	 * fast enough. */
	if (s->sys->sm_min < 90 && s->sys->params.compat == TOPO_COMPAT_NEW)
		r->max_inter = TOPO_PATH_SYS;
	r->cross_nic = s->rules->crosses && s->sys->nnets > 1 ? s->sys->params.cross_nic : 0;
}

static void topo_search_begin(struct topo_search *s, const struct topo_search_range *r)
{
	s->left = TOPO_SEARCH_BUDGET_ALL;
	s->seen_bw_mbps = 0;
	s->now.shape = s->rules->shape;
	if (s->n == 1 && s->now.shape != TOPO_SHAPE_RING)
		s->now.shape = TOPO_SHAPE_TREE;
	s->now.same_channels = s->rules->same;
	s->now.cross_nic = r->cross_nic == 1;
	s->now.type_intra = r->min_intra;
	s->now.type_inter = r->min_inter;
	s->best = s->now;
}

/* Tries equal channels first: they are cheap and share connections. Over AMD's CPUs only equal
 * channels work. Returns true when the search is done. */
static bool topo_search_channels(struct topo_search *s, const struct topo_search_range *r)
{
	bool amd = topo_host_is_amd(s->sys) && s->now.type_intra == TOPO_PATH_SYS;

	s->now.same_channels = s->rules->same;
	topo_search_try(s, r);
	if (topo_search_is_done(s, r))
		return true;
	if (s->now.same_channels && !amd) {
		s->now.same_channels = 0;
		topo_search_try(s, r);
		if (topo_search_is_done(s, r))
			return true;
	}
	s->left += s->budget;
	return s->left < 0 && s->best.nchannels;
}

/* topo_search_shapes, _intra, _inter and _speed return true when the search is done. */
static bool topo_search_shapes(struct topo_search *s, const struct topo_search_range *r)
{
	bool done = topo_search_channels(s, r);

	if (!done && s->sys->sm_min >= 90 && s->now.shape == TOPO_SHAPE_BALANCED_TREE &&
	    s->rules->simpler) {
		s->now.shape = s->rules->simpler;
		done = topo_search_channels(s, r);
	}
	if (!done)
		s->now.shape = s->best.shape;
	return done;
}

static bool topo_search_intra(struct topo_search *s, const struct topo_search_range *r)
{
	for (s->now.type_intra = r->min_intra;; s->now.type_intra++) {
		int32_t max = s->inter ? s->now.type_inter : r->max_intra;

		if (topo_search_shapes(s, r))
			return true;
		if (s->now.type_intra >= max ||
		    (s->best.nchannels && s->now.type_intra >= s->best.type_intra))
			return false;
	}
}

static bool topo_search_inter(struct topo_search *s, const struct topo_search_range *r)
{
	for (s->now.type_inter = r->min_inter;; s->now.type_inter++) {
		if (topo_search_intra(s, r))
			return true;
		if (!s->inter || s->now.type_inter >= r->max_inter)
			return false;
		if (s->best.nchannels && s->now.type_inter >= s->best.type_inter &&
		    s->now.type_inter >= TOPO_PATH_PXN)
			return false;
	}
}

/* True if every link carries as many channels at now's speed as at the last one. Inside a host each
 * try would then place the same channels, with less bandwidth. */
static bool topo_search_is_alike(const struct topo_search *s)
{
	uint32_t last = s->seen_bw_mbps, bw = s->now.bw_intra_mbps;

	if (last == 0 || s->inter || !s->whole || topo_shape_rules(s->now.shape)->star ||
	    (s->record && s->record->every_try))
		return false;
	for (int32_t i = 0; i < s->sys->nlinks; i++)
		if (s->sys->link[i].bw_mbps / last != s->sys->link[i].bw_mbps / bw)
			return false;
	return true;
}

static bool topo_search_speed(struct topo_search *s, const struct topo_search_range *r)
{
	if (!topo_search_is_alike(s))
		s->seen_count = 0;
	s->seen_bw_mbps = s->now.bw_intra_mbps;
	s->now.cross_nic = r->cross_nic == 1;
	if (topo_search_inter(s, r))
		return true;
	if (r->cross_nic != 2 ||
	    (s->best.shape != TOPO_SHAPE_RING && s->best.shape != TOPO_SHAPE_BALANCED_TREE))
		return false;
	s->now.cross_nic = 2;
	return topo_search_inter(s, r);
}

/* True if the next speed is worth a try. Half the speed can only win with twice as many channels,
 * and doubling makes those. */
static bool topo_search_goes_on(const struct topo_search *s, const struct topo_search_range *r,
				int32_t next)
{
	int32_t last = r->speeds - r->slow - 1;

	if (next == r->speeds)
		return false;
	if (s->best.nchannels == 0)
		return true;
	return (next <= last || s->best.bw_inter_mbps < r->speed[last]) &&
	       r->speed[next] * 100ull > s->best.bw_inter_mbps * 49ull;
}

static void topo_search_pass_down(struct topo_search *s, const struct topo_search_range *r)
{
	uint64_t total = r->total_bw;
	int32_t i = 0, last = r->speeds - r->slow - 1;

	/* A chain leaves one GPU less than it enters. */
	if (s->n > 1 && s->rules->shape != TOPO_SHAPE_RING)
		total = total * (uint64_t)s->n / (uint64_t)(s->n - 1);
	while (i < last && (r->speed[i] > r->max_bw ||
			    (uint64_t)r->speed[i] * (uint64_t)s->min_channels > total))
		i++;
	do {
		s->now.bw_intra_mbps = s->now.bw_inter_mbps = r->speed[i];
		if (topo_search_speed(s, r))
			return;
	} while (topo_search_goes_on(s, r, ++i));
}

/* ---- pass 2 --------------------------------------------------------------------------------- */

/* Doubles the channels at half the speed. Two channels keep a link busier than one, because more
 * blocks copy. Enough channels, or slow ones, are not doubled. */
static void topo_search_double(struct topo_search *s)
{
	struct topo_graph *g = &s->best;
	int32_t n = g->nchannels, more = MIN_OF(2 * n, s->max_channels);

	if (n == 0 || g->shape == TOPO_SHAPE_NVLS || g->bw_intra_mbps < 25000 ||
	    (s->sys->sm_min > 80 && g->bw_intra_mbps < 50000 && n > 4))
		return;
	for (int32_t c = n; c < more; c++) {
		memcpy(g->order[c], g->order[c - n], sizeof g->order[c]);
		memcpy(g->nic[c], g->nic[c - n], sizeof g->nic[c]);
	}
	g->bw_intra_mbps /= (uint32_t)DIV_UP(more, n);
	g->bw_inter_mbps /= (uint32_t)DIV_UP(more, n);
	g->nchannels = more;
	if (s->record && more > n)
		s->record->before_double = n;
}

/* Raises the speed that the pattern can use: for a ring both, for a star the one to the network,
 * for a tree the one inside the host, up to twice the other. False: there is nothing to raise. */
static bool topo_search_raise(struct topo_search *s, uint32_t higher)
{
	struct topo_graph *now = &s->now;
	const struct topo_graph *best = &s->best;

	if (best->shape == TOPO_SHAPE_RING) {
		now->bw_intra_mbps = now->bw_inter_mbps = higher;
		return true;
	}
	if (best->shape == TOPO_SHAPE_NVLS && now->bw_inter_mbps == best->bw_inter_mbps &&
	    now->bw_inter_mbps < now->bw_intra_mbps * 2) {
		s->min_channels = s->max_channels = best->nchannels;
		now->bw_inter_mbps = higher;
		return true;
	}
	if (now->bw_intra_mbps == best->bw_intra_mbps &&
	    now->bw_intra_mbps < now->bw_inter_mbps * 2) {
		now->bw_intra_mbps = higher;
		return true;
	}
	return false;
}

static void topo_search_pass_up(struct topo_search *s, struct topo_search_range *r)
{
	int32_t i = 0, last = r->speeds - r->slow - 1;

	if (s->best.bw_inter_mbps < r->speed[last] && s->best.nchannels)
		last = r->speeds - 1;
	while (i < last && r->speed[i] > s->best.bw_inter_mbps)
		i++;
	r->second = true;
	s->now = s->best;
	s->now_hops = s->best_hops;
	s->now.bw_intra_mbps = s->now.bw_inter_mbps = r->speed[i];
	s->min_channels = s->best.nchannels;
	s->budget = -1;
	while (s->budget != 0 && i > 0 && topo_search_raise(s, r->speed[i - 1])) {
		i--;
		topo_search_try(s, r);
	}
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
