/* SPDX-License-Identifier: BSD-3-Clause */
/* The two passes of a search, and one try of a pass: the order of shapes, types and speeds is
 * NCCL's. */
#include <stddef.h>
#include <string.h>

#include "core/base/memo_table.h"
#include "core/topo/search/search.h"

/* ---- one try -------------------------------------------------------------------------------- */

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

void topo_search_range_fill(const struct topo_search *s, struct topo_search_range *r)
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

void topo_search_begin(struct topo_search *s, const struct topo_search_range *r)
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

void topo_search_pass_down(struct topo_search *s, const struct topo_search_range *r)
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
void topo_search_double(struct topo_search *s)
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

void topo_search_pass_up(struct topo_search *s, struct topo_search_range *r)
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
