/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One try of the ring search: with one speed and one pair of path types, place ring after ring,
 * taking bandwidth from every link on the way, and step back where it does not fit.
 *
 * The walk is a stack of levels instead of a recursion (64 channels of 72 GPUs would not fit on a
 * fiber's stack). For a host of n GPUs a channel is n + 1 levels:
 *
 *	START    the first GPU, and the net by which the ring enters the host
 *	STEP     the next GPU, n - 1 times
 *	END      the net by which it leaves, or back to the first GPU
 *
 * A placed END completes a channel: it is compared with the best, and the next START is opened
 * above it. Every candidate that is taken back gives its bandwidth back.
 */
#include <string.h>

#include "core/topo/search.h"

/* ---- bandwidth ------------------------------------------------------------------------------ */

/* Peer-to-peer packets through an Intel root complex are small: a sixth more is needed. */
static uint32_t topo_ring_pci_need(const struct topo_search *s, int32_t from_end,
				   const struct topo_path *path, uint32_t bw)
{
	if (path->type != TOPO_PATH_PHB || from_end >= s->n)
		return bw;
	for (int32_t i = 0; i < path->count; i++) {
		const struct topo_link *link = &s->sys->link[s->sys->hop[path->first + i]];
		const struct topo_node *to = &s->sys->node[link->to];
		if (to->type == TOPO_NODE_CPU && to->cpu.arch == TOPO_CPU_ARCH_X86 &&
		    to->cpu.vendor == TOPO_CPU_VENDOR_INTEL)
			return bw * 6 / 5;
	}
	return bw;
}

static void topo_ring_path_give(struct topo_search *s, int32_t from_end,
				const struct topo_path *path, uint32_t bw, int32_t hops)
{
	uint32_t pci = topo_ring_pci_need(s, from_end, path, bw);
	for (int32_t i = 0; i < hops; i++) {
		uint16_t link = s->sys->hop[path->first + i];
		s->link_left[link] += s->sys->link[link].type == TOPO_LINK_PCI ? pci : bw;
		ASSERT(s->link_left[link] <= s->sys->link[link].bw_mbps);
	}
}

/* Takes the bandwidth of the path between two ends; false: its type or what is left forbids it. */
static bool topo_ring_path_take(struct topo_search *s, int32_t from_end, int32_t to_end)
{
	bool intra = from_end < s->n && to_end < s->n;
	const struct topo_path *path = topo_path_at(s->sys, from_end, to_end);
	uint32_t bw = intra ? s->now.bw_intra_mbps : s->now.bw_inter_mbps;
	if (path->type > (intra ? s->now.type_intra : s->now.type_inter))
		return false;
	uint32_t pci = topo_ring_pci_need(s, from_end, path, bw);
	for (int32_t i = 0; i < path->count; i++) {
		uint16_t link = s->sys->hop[path->first + i];
		uint32_t need = s->sys->link[link].type == TOPO_LINK_PCI ? pci : bw;
		if (s->link_left[link] < need) {
			topo_ring_path_give(s, from_end, path, bw, i);
			return false;
		}
		s->link_left[link] -= need;
	}
	s->now_hops += path->count;
	return true;
}

static void topo_ring_path_undo(struct topo_search *s, int32_t from_end, int32_t to_end)
{
	bool intra = from_end < s->n && to_end < s->n;
	const struct topo_path *path = topo_path_at(s->sys, from_end, to_end);
	topo_ring_path_give(s, from_end, path, intra ? s->now.bw_intra_mbps : s->now.bw_inter_mbps,
			    path->count);
	s->now_hops -= path->count;
}

/* ---- nets ----------------------------------------------------------------------------------- */

static bool topo_ring_same_port(const struct topo_system *sys, int32_t a, int32_t b)
{
	const struct topo_node *x = topo_net_node(sys, a), *y = topo_net_node(sys, b);
	return a == b || (x->net.guid && x->net.guid == y->net.guid && x->net.port == y->net.port);
}

/* Several <net> of one port share its bandwidth: the first one keeps the account. */
static bool topo_ring_net_take(struct topo_search *s, int32_t net)
{
	uint32_t *left = &s->net_left[s->net_group[net]];
	if (*left < s->now.bw_inter_mbps)
		return false;
	*left -= s->now.bw_inter_mbps;
	return true;
}

static void topo_ring_net_undo(struct topo_search *s, int32_t net)
{
	s->net_left[s->net_group[net]] += s->now.bw_inter_mbps;
}

/* Best bandwidth first, then the nearer type; all that are equal to the best one. */
static int16_t topo_ring_nearest(const struct topo_system *sys, int32_t from, int32_t to,
				 int32_t count, int16_t *out)
{
	int16_t found = 0;
	const struct topo_path *best = NULL;
	for (int32_t i = 0; i < count; i++) {
		const struct topo_path *p = topo_path_at(sys, from, to + i);
		if (best && (p->bw_mbps < best->bw_mbps ||
			     (p->bw_mbps == best->bw_mbps && p->type > best->type)))
			continue;
		if (!best || p->bw_mbps != best->bw_mbps || p->type != best->type)
			found = 0;
		best = p;
		out[found++] = (int16_t)i;
	}
	return found;
}

void topo_search_ring_nets(struct topo_search *s)
{
	int32_t nets = s->sys->nnets;
	for (int32_t i = 0; i < nets; i++) {
		s->net_left[i] = topo_net_node(s->sys, i)->net.bw_mbps;
		while (!topo_ring_same_port(s->sys, s->net_group[i], i))
			s->net_group[i]++;
		s->net_nearest[i] = TOPO_PATH_DIS;
		for (int32_t g = 0; g < s->n; g++)
			s->net_nearest[i] =
				MIN_OF(s->net_nearest[i],
				       topo_path_at(s->sys, topo_end_net(s->sys, i), g)->type);
	}
	for (int32_t g = 0; g < s->n; g++)
		s->near_count[g] = topo_ring_nearest(s->sys, g, topo_end_net(s->sys, 0), nets,
						     s->near + g * nets);
	for (int32_t i = 0; i < nets; i++)
		s->home_count[i] = topo_ring_nearest(s->sys, topo_end_net(s->sys, i), 0, s->n,
						     s->home + i * s->n);
}

/* Mirrors the low bits below a power of two: spreads neighbours over nets. */
static int32_t topo_ring_mirror_bits(int32_t value, int32_t pow2)
{
	int32_t mirror = 0;
	for (int32_t bit = 1, up = pow2 >> 1; bit < pow2; bit <<= 1, up >>= 1)
		if (value & bit)
			mirror |= up;
	return mirror;
}

static void topo_ring_nets_add(int16_t *nets, int32_t *count, int16_t net)
{
	for (int32_t i = 0; i < *count; i++)
		if (nets[i] == net)
			return;
	nets[(*count)++] = net;
}

/* Nets in the order to try: those nearest to the GPU (each GPU's, when gpu is -1), then all that
 * are near enough, nearest type first. */
static int32_t topo_ring_nets(const struct topo_search *s, int32_t gpu, int16_t *nets)
{
	int32_t count = 0, all = s->sys->nnets;
	int32_t lo = gpu < 0 ? 0 : gpu, hi = gpu < 0 ? s->n : gpu + 1;
	for (int32_t g = lo; g < hi; g++) {
		int32_t near = s->near_count[g], dev = topo_gpu_node(s->sys, g)->dev;
		if ((near & (near - 1)) == 0)
			dev = topo_ring_mirror_bits(dev, near);
		for (int32_t i = 0; i < near; i++)
			topo_ring_nets_add(nets, &count, s->near[g * all + (dev + i) % near]);
	}
	for (int32_t type = 0; type <= s->now.type_inter; type++)
		for (int32_t g = lo; g < hi; g++)
			for (int32_t i = 0; i < all; i++)
				if (topo_path_at(s->sys, g, topo_end_net(s->sys, i))->type == type)
					topo_ring_nets_add(nets, &count, (int16_t)i);
	return count;
}

/* ---- candidates ----------------------------------------------------------------------------- */

static void topo_ring_cand_add(struct topo_search *s, struct topo_search_level *l, int32_t gpu,
			       int32_t net, enum topo_search_mode mode)
{
	ASSERT(s->cand_count < s->cand_room);
	s->cand[s->cand_count++] = (struct topo_search_candidate){
		.gpu = (int16_t)gpu, .net = (int16_t)net, .mode = (uint8_t)mode};
	l->count++;
}

static bool topo_ring_is_used(const struct topo_search *s, int32_t gpu)
{
	const uint64_t *set = s->used + 2 * s->now.nchannels;
	return set[gpu / 64] >> (gpu % 64) & 1;
}

static void topo_ring_set_used(struct topo_search *s, int32_t gpu)
{
	s->used[2 * s->now.nchannels + gpu / 64] ^= 1ull << (gpu % 64);
}

static void topo_ring_start_host(struct topo_search *s, struct topo_search_level *l)
{
	int32_t c = s->now.nchannels;
	if (c == 0)
		topo_ring_cand_add(s, l, 0, -1, TOPO_SEARCH_FILE_ORDER);
	else
		topo_ring_cand_add(s, l, s->now.order[c - 1][0], -1, TOPO_SEARCH_REPLAY);
	for (int32_t g = 0; g < s->n && (c == 0 || !s->now.same_channels); g++)
		topo_ring_cand_add(s, l, g, -1, TOPO_SEARCH_FREE);
}

/* Every net in turn, beginning one further with each channel. With cross_nic 2 channels come in
 * pairs: the odd one enters where the even one left, and the other way round. */
static void topo_ring_start_net(struct topo_search *s, struct topo_search_level *l)
{
	int32_t c = s->now.nchannels;
	int16_t nets[TOPO_MAX_NETS];
	int32_t count = topo_ring_nets(s, -1, nets);
	for (int32_t i = 0; i < count; i++) {
		int16_t net = nets[(c + i) % count];
		if (s->net_left[s->net_group[net]] < s->now.bw_inter_mbps)
			continue;
		if (s->now.cross_nic == 2 && (c & 1) && net != s->now.nic[c - 1][1])
			continue;
		if (c > 0 && s->now.same_channels) {
			topo_ring_cand_add(s, l, s->now.order[c - 1][0], net, TOPO_SEARCH_REPLAY);
			continue;
		}
		if (c == 0 && !s->sys->has_nvs)
			topo_ring_cand_add(s, l, 0, net, TOPO_SEARCH_FILE_ORDER);
		for (int32_t k = 0; k < s->home_count[net]; k++) {
			int32_t at = (c + k) % s->home_count[net];
			topo_ring_cand_add(s, l, s->home[net * s->n + at], net, TOPO_SEARCH_FREE);
		}
	}
}

/* How good a next GPU is. */
struct topo_ring_score {
	int16_t gpu;
	int16_t distance; /* from here, in the file's order */
	int16_t hops, net_hops;
	uint32_t bw, net_bw;
};

static bool topo_ring_score_better(const struct topo_ring_score *a, const struct topo_ring_score *b)
{
	if (a->net_bw != b->net_bw)
		return a->net_bw > b->net_bw;
	if (a->net_hops != b->net_hops)
		return a->net_hops < b->net_hops;
	if (a->bw != b->bw)
		return a->bw > b->bw;
	if (a->hops != b->hops)
		return a->hops < b->hops;
	return a->distance < b->distance;
}

/* Between GPUs on NVSwitches every order is as good as another. Only neighbours are tried, so that a GPU
 * has few peers. */
static void topo_ring_step_neighbours(struct topo_search *s, struct topo_search_level *l,
				      int32_t from)
{
	int32_t next = (from + 1) % s->n, prev = (from + s->n - 1) % s->n;
	if (!topo_ring_is_used(s, next))
		topo_ring_cand_add(s, l, next, -1, TOPO_SEARCH_FREE);
	if (prev != next && !topo_ring_is_used(s, prev))
		topo_ring_cand_add(s, l, prev, -1, TOPO_SEARCH_FREE);
}

/* Free GPUs, best first. The ring should end near the net by which it entered: where all are alike
 * from here, the ones far from it come first. */
static void topo_ring_step_free(struct topo_search *s, struct topo_search_level *l, int32_t from)
{
	struct topo_ring_score score[TOPO_MAX_LOCAL];
	int32_t count = 0, net = s->now.nic[s->now.nchannels][0];
	bool alike = true;
	for (int32_t d = 1; d < s->n; d++) {
		int32_t g = (from + d) % s->n;
		if (topo_ring_is_used(s, g))
			continue;
		const struct topo_path *p = topo_path_at(s->sys, from, g);
		struct topo_ring_score x = {.gpu = (int16_t)g,
					    .distance = (int16_t)d,
					    .hops = p->count,
					    .bw = p->bw_mbps};
		if (s->inter) {
			p = topo_path_at(s->sys, topo_end_net(s->sys, net), g);
			x.net_hops = p->count;
			x.net_bw = p->bw_mbps;
		}
		if (count)
			alike &= x.bw == score[0].bw && x.hops == score[0].hops;
		int32_t at = count++;
		for (; at > 0 && topo_ring_score_better(&x, &score[at - 1]); at--)
			score[at] = score[at - 1];
		score[at] = x;
	}
	bool last = l->step == s->n - 1;
	for (int32_t i = 0; i < count; i++)
		topo_ring_cand_add(s, l, score[s->inter && alike && !last ? count - 1 - i : i].gpu,
				   -1, TOPO_SEARCH_FREE);
}

static void topo_ring_end_net(struct topo_search *s, struct topo_search_level *l, int32_t gpu)
{
	int16_t nets[TOPO_MAX_NETS];
	int32_t c = s->now.nchannels, in = s->now.nic[c][0], count = topo_ring_nets(s, gpu, nets);
	for (int32_t i = 0; i < count; i++) {
		if (s->now.cross_nic == 2 && (c & 1) && nets[i] != s->now.nic[c - 1][0])
			continue;
		if (s->now.cross_nic == 0 && s->net_group[nets[i]] != s->net_group[in])
			continue;
		topo_ring_cand_add(s, l, -1, nets[i], TOPO_SEARCH_FREE);
	}
}

/* ---- levels --------------------------------------------------------------------------------- */

static void topo_ring_level_open(struct topo_search *s, enum topo_search_kind kind, int16_t step,
				 enum topo_search_mode mode)
{
	struct topo_search_level *l = &s->level[s->depth++];
	int32_t c = s->now.nchannels;
	*l = (struct topo_search_level){
		.first = s->cand_count, .kind = (uint8_t)kind, .mode = (uint8_t)mode, .step = step};
	int32_t from = step > 0 ? s->now.order[c][step - 1] : -1;
	if (kind == TOPO_SEARCH_START && s->inter)
		topo_ring_start_net(s, l);
	else if (kind == TOPO_SEARCH_START)
		topo_ring_start_host(s, l);
	else if (kind == TOPO_SEARCH_END && s->inter)
		topo_ring_end_net(s, l, from);
	else if (kind == TOPO_SEARCH_END)
		topo_ring_cand_add(s, l, s->now.order[c][0], -1, TOPO_SEARCH_FREE);
	else if (mode == TOPO_SEARCH_FILE_ORDER)
		topo_ring_cand_add(s, l, step, -1, TOPO_SEARCH_FREE);
	else if (mode == TOPO_SEARCH_REPLAY)
		topo_ring_cand_add(s, l, s->now.order[c - 1][step], -1, TOPO_SEARCH_FREE);
	else if (s->sys->has_nvs)
		topo_ring_step_neighbours(s, l, from);
	else
		topo_ring_step_free(s, l, from);
}

static void topo_ring_level_close(struct topo_search *s)
{
	struct topo_search_level *l = &s->level[--s->depth];
	ASSERT(!l->placed && s->cand_count == l->first + l->count);
	s->cand_count = l->first;
}

/* Does the try beat the best? More bandwidth in all, or the same over fewer hops. */
static void topo_ring_compare(struct topo_search *s)
{
	const struct topo_graph *now = &s->now, *best = &s->best;
	uint64_t mine = (uint64_t)now->nchannels * now->bw_intra_mbps;
	uint64_t other = (uint64_t)best->nchannels * best->bw_intra_mbps;
	if (now->nchannels < s->min_channels || mine < other)
		return;
	if (mine == other && (now->cross_nic != best->cross_nic || s->now_hops >= s->best_hops))
		return;
	s->best = *now;
	s->best_hops = s->now_hops;
	if (now->nchannels == s->max_channels)
		s->optimal = true;
}

static bool topo_ring_place_start(struct topo_search *s, const struct topo_search_candidate *x)
{
	int32_t c = s->now.nchannels;
	if (s->inter) {
		if (!topo_ring_net_take(s, x->net))
			return false;
		if (!topo_ring_path_take(s, topo_end_net(s->sys, x->net), x->gpu)) {
			topo_ring_net_undo(s, x->net);
			return false;
		}
	}
	s->now.nic[c][0] = x->net;
	s->now.order[c][0] = x->gpu;
	topo_ring_set_used(s, x->gpu);
	return true;
}

static bool topo_ring_place(struct topo_search *s, struct topo_search_level *l,
			    const struct topo_search_candidate *x)
{
	int32_t c = s->now.nchannels;
	if (l->kind == TOPO_SEARCH_START)
		return topo_ring_place_start(s, x);
	int32_t from = s->now.order[c][l->step - 1];
	if (l->kind == TOPO_SEARCH_STEP) {
		if (topo_ring_is_used(s, x->gpu) || !topo_ring_path_take(s, from, x->gpu))
			return false;
		s->now.order[c][l->step] = x->gpu;
		topo_ring_set_used(s, x->gpu);
		return true;
	}
	if (!topo_ring_path_take(s, from, s->inter ? topo_end_net(s->sys, x->net) : x->gpu))
		return false;
	s->now.nic[c][1] = x->net;
	s->now.nchannels++;
	return true;
}

static void topo_ring_unplace(struct topo_search *s, struct topo_search_level *l)
{
	const struct topo_search_candidate *x = &s->cand[l->first + l->at];
	if (l->kind == TOPO_SEARCH_END)
		s->now.nchannels--;
	int32_t c = s->now.nchannels;
	if (l->kind == TOPO_SEARCH_END) {
		topo_ring_path_undo(s, s->now.order[c][l->step - 1],
				    s->inter ? topo_end_net(s->sys, x->net) : x->gpu);
	} else {
		topo_ring_set_used(s, x->gpu);
		if (l->kind == TOPO_SEARCH_STEP)
			topo_ring_path_undo(s, s->now.order[c][l->step - 1], x->gpu);
		else if (s->inter) {
			topo_ring_path_undo(s, topo_end_net(s->sys, x->net), x->gpu);
			topo_ring_net_undo(s, x->net);
		}
	}
	l->placed = false;
	l->at++;
}

/* Puts the level's next candidate in force; false: none is left. */
static bool topo_ring_level_next(struct topo_search *s, struct topo_search_level *l)
{
	if (l->placed)
		topo_ring_unplace(s, l);
	for (; l->at < l->count; l->at++) {
		if (s->budget <= 0)
			return false;
		s->budget--;
		s->visited++;
		if (topo_ring_place(s, l, &s->cand[l->first + l->at])) {
			l->placed = true;
			return true;
		}
	}
	return false;
}

/* What a placed level leads to. */
static void topo_ring_level_follow(struct topo_search *s, const struct topo_search_level *l)
{
	enum topo_search_mode mode = l->mode;
	if (l->kind == TOPO_SEARCH_START)
		mode = s->cand[l->first + l->at].mode;
	if (l->kind == TOPO_SEARCH_END) {
		topo_ring_compare(s);
		if (s->now.nchannels < s->max_channels && !s->optimal)
			topo_ring_level_open(s, TOPO_SEARCH_START, 0, TOPO_SEARCH_FREE);
	} else if (l->step + 1 < s->n) {
		topo_ring_level_open(s, TOPO_SEARCH_STEP, (int16_t)(l->step + 1), mode);
	} else {
		topo_ring_level_open(s, TOPO_SEARCH_END, (int16_t)s->n, mode);
	}
}

void topo_search_ring_try(struct topo_search *s, int32_t budget)
{
	int32_t bound = topo_search_channels_bound(s);
	s->budget = budget;
	s->now.nchannels = 0;
	s->now_hops = 0;
	memset(s->used, 0, 2 * sizeof(uint64_t) * (size_t)(s->max_channels + 1));
	topo_ring_level_open(s, TOPO_SEARCH_START, 0, TOPO_SEARCH_FREE);
	while (s->depth) {
		struct topo_search_level *l = &s->level[s->depth - 1];
		uint64_t best = (uint64_t)s->best.nchannels * s->best.bw_intra_mbps;
		if (best >= (uint64_t)bound * s->now.bw_intra_mbps)
			s->budget = 0; /* nothing better can follow: only step back */
		if (topo_ring_level_next(s, l))
			topo_ring_level_follow(s, l);
		else
			topo_ring_level_close(s);
	}
	ASSERT(s->now.nchannels == 0 && s->cand_count == 0);
}
