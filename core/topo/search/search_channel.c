/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One try of the search, with one shape, one pair of speeds and one pair of path types. It places
 * channel after channel, subtracts their bandwidth from every link of their paths, and steps back
 * if something does not fit.
 *
 * The walk is a stack of levels instead of a recursion (32 channels of 72 GPUs would not fit on a
 * fiber's stack). The shape defines the stages of a channel, for example of a ring over n GPUs:
 *
 *	within a host   START GPU GPU ... GPU CLOSE
 *	between hosts   START GPU GPU ... GPU NET END
 *
 * A balanced tree between hosts is START NET GPU NET GPU ... GPU END. A placed stage costs a step
 * of the budget and opens the next stage above it. The last stage completes a channel: the try is
 * compared with the best, and the START of the next channel is opened. Undoing a candidate returns
 * its bandwidth.
 */
#include <string.h>

#include "core/topo/search/search.h"

/* ---- bandwidth ------------------------------------------------------------------------------ */

/* A path of a channel with the bandwidth that it takes. */
struct topo_channel_way {
	const struct topo_path *path;
	uint32_t bw, pci_bw;
	bool from_gpu;
};

static inline uint32_t topo_channel_need(const struct topo_search *s, uint16_t link,
					 const struct topo_channel_way *way)
{
	return s->link_kind[link] & TOPO_LINK_IS_PCI ? way->pci_bw : way->bw;
}

/* Returns the bandwidth that the path takes of the opposite link. */
static inline uint32_t topo_channel_back_need(const struct topo_search *s, uint16_t link,
					      const struct topo_channel_way *way, uint32_t need)
{
	uint8_t kind = s->link_kind[link];

	if (kind & TOPO_LINK_IS_READ)
		return way->from_gpu ? 0 : (need + 4) / 8;
	return kind & TOPO_LINK_IS_BOTH ? need : 0;
}

static void topo_channel_give_hops(struct topo_search *s, const struct topo_channel_way *way,
				   int32_t hops)
{
	const uint16_t *hop = &s->sys->hop[way->path->first];

	for (int32_t i = 0; i < hops; i++) {
		uint32_t need = topo_channel_need(s, hop[i], way);
		uint32_t back = topo_channel_back_need(s, hop[i], way, need);

		s->link_left[hop[i]] += need;
		if (back)
			s->link_left[s->sys->link[hop[i]].back] += back;
	}
}

static bool topo_channel_take_hops(struct topo_search *s, const struct topo_channel_way *way)
{
	const uint16_t *hop = &s->sys->hop[way->path->first];

	for (int32_t i = 0; i < way->path->count; i++) {
		uint32_t need = topo_channel_need(s, hop[i], way);
		uint32_t back = topo_channel_back_need(s, hop[i], way, need);

		if (s->link_left[hop[i]] < need ||
		    (back && s->link_left[s->sys->link[hop[i]].back] < back)) {
			topo_channel_give_hops(s, way, i);
			return false;
		}
		s->link_left[hop[i]] -= need;
		if (back)
			s->link_left[s->sys->link[hop[i]].back] -= back;
	}
	return true;
}

static void topo_channel_way_fill(const struct topo_search *s, struct topo_channel_way *way,
				  int32_t from, int32_t to, uint32_t bw)
{
	way->path = topo_path_at(s->sys, from, to);
	way->bw = way->pci_bw = bw;
	/* Peer-to-peer packets through an Intel root complex are small, and need 6/5 of the
	 * bandwidth. */
	if (s->intel[(size_t)from * (size_t)s->sys->nends + (size_t)to])
		way->pci_bw = (uint32_t)(bw * 6ull / 5);
	way->from_gpu = from < s->n;
}

static void topo_channel_release(struct topo_search *s, int32_t from, int32_t to, uint32_t bw)
{
	struct topo_channel_way way;

	topo_channel_way_fill(s, &way, from, to, bw);
	topo_channel_give_hops(s, &way, way.path->count);
	s->now_hops -= way.path->length;
}

/* Takes the bandwidth of the path between two ends. False: its type or the remaining bandwidth
 * forbids it. */
static bool topo_channel_reserve(struct topo_search *s, int32_t from, int32_t to, uint32_t bw,
				 int32_t type)
{
	struct topo_channel_way way;

	topo_channel_way_fill(s, &way, from, to, bw);
	if (way.path->type > type || way.path->type >= TOPO_PATH_DIS)
		return false;
	if (s->shape->both_ways && topo_path_at(s->sys, to, from)->type > type)
		return false;
	if (!topo_channel_take_hops(s, &way))
		return false;
	s->now_hops += way.path->length;
	return true;
}

/* ---- stages --------------------------------------------------------------------------------- */

static struct topo_stage *topo_channel_stage_add(struct topo_stage *at, enum topo_stage_kind kind,
						 int32_t step)
{
	*at = (struct topo_stage){.kind = (uint8_t)kind, .step = (int16_t)step};
	return at + 1;
}

static bool topo_channel_returns_at(const struct topo_search *s, int32_t step)
{
	int32_t back = s->shape->back < 0 ? s->n - 1 : s->shape->back;

	return s->inter && (step == back || (s->shape->halves && step == back + 1));
}

static void topo_channel_sorts_fill(struct topo_search *s, const struct topo_stage *end)
{
	for (struct topo_stage *a = s->stage; a < end; a++) {
		const struct topo_stage *b = a;

		while (b < end && b->kind != TOPO_STAGE_NET)
			b++;
		a->sort = b == end             ? TOPO_SORT_GPU
			  : b->step == a->step ? TOPO_SORT_NET
					       : TOPO_SORT_NET_LATER;
	}
}

static void topo_channel_stages_fill(struct topo_search *s)
{
	struct topo_stage *at = s->stage;

	for (int32_t step = 0; step < s->n; step++) {
		at = topo_channel_stage_add(at, step ? TOPO_STAGE_GPU : TOPO_STAGE_START, step);
		if (topo_channel_returns_at(s, step))
			at = topo_channel_stage_add(at, TOPO_STAGE_NET, step);
		if (s->shape->star)
			break;
	}
	at = topo_channel_stage_add(at,
				    s->shape->star                  ? TOPO_STAGE_STAR
				    : s->shape->closes && !s->inter ? TOPO_STAGE_CLOSE
								    : TOPO_STAGE_END,
				    s->n - 1);
	ASSERT((size_t)(at - s->stage) <= ARRAY_LEN(s->stage));
	topo_channel_sorts_fill(s, at);
}

/* ---- placing -------------------------------------------------------------------------------- */

static void topo_channel_set_used(struct topo_search *s, int32_t gpu)
{
	s->used[2 * s->now.nchannels + gpu / 64] ^= 1ull << (gpu % 64);
}

/* Adds `bw` to the account of a net. Several <net> of one port share its bandwidth, so each account
 * of the port changes. */
static void topo_channel_net_add(struct topo_search *s, int32_t net, uint32_t bw)
{
	for (int32_t i = 0; i < s->sys->nnets; i++)
		if (s->port[i] == s->port[net])
			s->net_left[i] += bw; /* bw may be negative: modulo 2^32 */
}

static bool topo_channel_place_start(struct topo_search *s, const struct topo_search_candidate *x)
{
	int32_t c = s->now.nchannels;

	if (x->net >= 0) {
		if (!topo_channel_reserve(s, topo_end_net(s->sys, x->net), x->gpu,
					  s->now.bw_inter_mbps, s->now.type_inter))
			return false;
		topo_channel_net_add(s, x->net, -topo_candidates_net_need(s));
	}
	s->now.nic[c][0] = x->net;
	s->now.order[c][0] = x->gpu;
	topo_channel_set_used(s, x->gpu);
	return true;
}

static void topo_channel_undo_start(struct topo_search *s, const struct topo_search_candidate *x)
{
	topo_channel_set_used(s, x->gpu);
	if (x->net < 0)
		return;
	topo_channel_net_add(s, x->net, topo_candidates_net_need(s));
	topo_channel_release(s, topo_end_net(s->sys, x->net), x->gpu, s->now.bw_inter_mbps);
}

static uint32_t topo_channel_back_bw(const struct topo_search *s)
{
	return s->shape->halves ? s->now.bw_inter_mbps / 2 : s->now.bw_inter_mbps;
}

/* Returns leg `i` of a star; false: no such leg. NVLS: first from the switch to every GPU, then
 * from every GPU to the switch; the head takes twice the bandwidth. CollNet direct: first from the
 * head to every GPU, then from every GPU to the head, with an equal share each. */
static bool topo_channel_leg(const struct topo_search *s, int32_t head, int32_t i, int32_t *from,
			     int32_t *to, uint32_t *bw)
{
	bool nvls = s->now.shape == TOPO_SHAPE_NVLS;
	int32_t hub = nvls ? topo_end_nvs(s->sys) : head, gpu = i % s->n;

	*from = i < s->n ? hub : gpu;
	*to = i < s->n ? gpu : hub;
	*bw = s->now.bw_intra_mbps;
	if (nvls)
		*bw *= gpu == head ? 2 : 1;
	else
		*bw /= (uint32_t)MAX_OF(s->n - 1, 1);
	return i < 2 * s->n;
}

static void topo_channel_undo_star(struct topo_search *s, int32_t head, int32_t legs)
{
	int32_t from, to;
	uint32_t bw;

	while (legs-- > 0) {
		topo_channel_leg(s, head, legs, &from, &to, &bw);
		topo_channel_release(s, from, to, bw);
	}
}

static bool topo_channel_place_star(struct topo_search *s)
{
	int32_t c = s->now.nchannels, head = s->now.order[c][0], from, to, step = 1;
	int32_t type = s->now.shape == TOPO_SHAPE_NVLS ? s->now.type_intra : TOPO_PATH_SYS;
	uint32_t bw;

	for (int32_t i = 0; topo_channel_leg(s, head, i, &from, &to, &bw); i++)
		if (!topo_channel_reserve(s, from, to, bw, type)) {
			topo_channel_undo_star(s, head, i);
			return false;
		}
	for (int32_t g = 0; g < s->n; g++)
		if (g != head)
			s->now.order[c][step++] = (int16_t)g;
	return true;
}

static bool topo_channel_place(struct topo_search *s, const struct topo_stage *stage,
			       const struct topo_search_candidate *x)
{
	int32_t c = s->now.nchannels, step = stage->step;
	int16_t *order = s->now.order[c];

	switch (stage->kind) {
	case TOPO_STAGE_START:
		return topo_channel_place_start(s, x);
	case TOPO_STAGE_GPU:
		if (!topo_channel_reserve(s, order[step - 1], x->gpu, s->now.bw_intra_mbps,
					  s->now.type_intra))
			return false;
		order[step] = x->gpu;
		topo_channel_set_used(s, x->gpu);
		return true;
	case TOPO_STAGE_NET:
		if (!topo_channel_reserve(s, order[step], topo_end_net(s->sys, x->net),
					  topo_channel_back_bw(s), s->now.type_inter))
			return false;
		s->now.nic[c][1] = x->net;
		return true;
	case TOPO_STAGE_CLOSE:
		return topo_channel_reserve(s, order[step], order[0], s->now.bw_intra_mbps,
					    s->now.type_intra);
	case TOPO_STAGE_STAR:
		return topo_channel_place_star(s);
	default:
		return true;
	}
}

static void topo_channel_undo(struct topo_search *s, const struct topo_stage *stage,
			      const struct topo_search_candidate *x)
{
	int32_t step = stage->step;
	int16_t *order = s->now.order[s->now.nchannels];

	switch (stage->kind) {
	case TOPO_STAGE_START:
		topo_channel_undo_start(s, x);
		break;
	case TOPO_STAGE_GPU:
		topo_channel_set_used(s, x->gpu);
		topo_channel_release(s, order[step - 1], x->gpu, s->now.bw_intra_mbps);
		break;
	case TOPO_STAGE_NET:
		topo_channel_release(s, order[step], topo_end_net(s->sys, x->net),
				     topo_channel_back_bw(s));
		break;
	case TOPO_STAGE_CLOSE:
		topo_channel_release(s, order[step], order[0], s->now.bw_intra_mbps);
		break;
	case TOPO_STAGE_STAR:
		topo_channel_undo_star(s, order[0], 2 * s->n);
		break;
	default:
		break;
	}
}

/* ---- a channel is complete ------------------------------------------------------------------ */

static bool topo_channel_is_last(const struct topo_stage *stage)
{
	return stage->kind >= TOPO_STAGE_CLOSE;
}

/* True if the try beats the best: more bandwidth in all, or the same with fewer hops. The channels
 * of a star are heads, and more heads are better. */
static bool topo_channel_is_better(const struct topo_search *s)
{
	const struct topo_graph *now = &s->now, *best = &s->best;
	uint64_t mine = (uint64_t)now->nchannels * now->bw_intra_mbps;
	uint64_t other = (uint64_t)best->nchannels * best->bw_intra_mbps;

	if (now->nchannels < s->min_channels)
		return false;
	if (now->shape == TOPO_SHAPE_NVLS)
		return (now->nchannels > best->nchannels && now->nchannels <= s->n) ||
		       (uint64_t)now->nchannels * now->bw_inter_mbps >
			       (uint64_t)best->nchannels * best->bw_inter_mbps;
	if (mine != other)
		return mine > other;
	return now->shape == best->shape && now->cross_nic == best->cross_nic &&
	       s->now_hops < s->best_hops;
}

/* Returns the bound of hops. It is computed on first use, because most tries end before. */
static int32_t topo_channel_bound_hops(struct topo_search *s)
{
	if (s->bound > 0 && s->bound_hops < 0)
		s->bound_hops = topo_bounds_hops(s);
	return s->bound_hops;
}

/* True if no result of this try can beat the best. */
static bool topo_channel_is_hopeless(struct topo_search *s)
{
	uint64_t best = (uint64_t)s->best.nchannels * s->best.bw_intra_mbps;
	uint64_t most = (uint64_t)s->bound * s->now.bw_intra_mbps;

	if (s->now.shape == TOPO_SHAPE_NVLS || (s->record && s->record->every_try))
		return false;
	if (s->bound < s->min_channels || most < best)
		return true;
	if (most > best)
		return false;
	return s->now.shape != s->best.shape || s->now.cross_nic != s->best.cross_nic ||
	       s->from_hops + (int64_t)s->bound * topo_channel_bound_hops(s) >= s->best_hops;
}

static void topo_channel_compare(struct topo_search *s)
{
	s->most = MAX_OF(s->most, s->now.nchannels);
	if (!topo_channel_is_better(s))
		return;
	s->best = s->now;
	s->best_hops = s->now_hops;
	s->improved = true;
	s->stop = topo_channel_is_hopeless(s);
	if (s->now.nchannels == s->max_channels)
		s->budget = -1;
}

/* ---- levels --------------------------------------------------------------------------------- */

static void topo_channel_level_open(struct topo_search *s, int16_t stage,
				    enum topo_search_mode mode)
{
	struct topo_search_level *l = &s->level[s->depth++];

	*l = (struct topo_search_level){
		.first = s->cand_count, .mode = (uint8_t)mode, .stage = stage};
	topo_candidates_open(s, l);
}

static void topo_channel_level_close(struct topo_search *s)
{
	struct topo_search_level *l = &s->level[--s->depth];

	ASSERT(!l->placed && s->cand_count == l->first + l->count);
	s->cand_count = l->first;
}

static void topo_channel_level_undo(struct topo_search *s, struct topo_search_level *l)
{
	const struct topo_stage *stage = &s->stage[l->stage];
	const struct topo_search_candidate *x = &s->cand[l->first + l->at];

	if (topo_channel_is_last(stage))
		s->now.nchannels--;
	topo_channel_undo(s, stage, x);
	if (x->own_budget && s->budget != -1)
		s->budget = l->kept_budget;
	l->placed = false;
	l->at++;
}

/* Places the level's next candidate; false: no candidate remains. */
static bool topo_channel_level_next(struct topo_search *s, struct topo_search_level *l)
{
	const struct topo_stage *stage = &s->stage[l->stage];

	if (l->placed)
		topo_channel_level_undo(s, l);
	for (; l->at < l->count && !s->stop; l->at++) {
		const struct topo_search_candidate *x = &s->cand[l->first + l->at];

		if ((s->budget <= 0 && !x->own_budget) || !topo_channel_place(s, stage, x))
			continue;
		if (x->own_budget) {
			l->kept_budget = s->budget;
			s->budget = TOPO_SEARCH_BUDGET_FILE;
		}
		s->budget--;
		s->visited++;
		l->placed = true;
		return true;
	}
	return false;
}

/* Opens the level after a placed one. */
static void topo_channel_level_follow(struct topo_search *s, const struct topo_search_level *l)
{
	const struct topo_stage *stage = &s->stage[l->stage];
	enum topo_search_mode mode = l->mode;

	if (stage->kind == TOPO_STAGE_START)
		mode = s->cand[l->first + l->at].mode;
	if (!topo_channel_is_last(stage)) {
		topo_channel_level_open(s, (int16_t)(l->stage + 1), mode);
		return;
	}
	s->now.nchannels++;
	topo_channel_compare(s);
	if (s->now.nchannels < s->max_channels)
		topo_channel_level_open(s, 0, TOPO_SEARCH_FREE);
}

/* Asserts that the try returned all bandwidth that it took. */
static void topo_channel_check_left(const struct topo_search *s)
{
	for (int32_t i = 0; i < s->sys->nlinks; i++)
		ASSERT(s->link_left[i] == s->sys->link[i].bw_mbps);
	for (int32_t i = 0; i < s->sys->nnets; i++)
		ASSERT(s->net_left[i] == topo_net_node(s->sys, i)->net.bw_mbps);
}

void topo_channel_try(struct topo_search *s)
{
	s->shape = topo_shape_rules(s->now.shape);
	s->now.nchannels = 0;
	s->most = 0;
	s->improved = false;
	s->from_hops = s->now_hops;
	s->bound = topo_bounds_channels(s);
	s->bound_hops = -1;
	s->stop = topo_channel_is_hopeless(s);
	s->made = !s->stop;
	if (!s->made)
		return;
	topo_channel_stages_fill(s);
	memset(s->used, 0, 2 * sizeof(uint64_t) * (size_t)(s->max_channels + 1));
	topo_channel_level_open(s, 0, TOPO_SEARCH_FREE);
	while (s->depth) {
		struct topo_search_level *l = &s->level[s->depth - 1];

		if (topo_channel_level_next(s, l))
			topo_channel_level_follow(s, l);
		else
			topo_channel_level_close(s);
	}
	topo_channel_check_left(s);
	ASSERT(s->now.nchannels == 0 && s->cand_count == 0 && s->now_hops == s->from_hops);
}
