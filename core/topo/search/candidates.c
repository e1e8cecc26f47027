/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lists the candidates of a channel's stage in the order in which they are tried. The order decides
 * which result a search finds before its budget ends. It is therefore NCCL's order, ties included.
 */
#include <string.h>

#include "core/topo/search/search.h"

/* ---- data that is constant during a search -------------------------------------------------- */

bool topo_candidates_alloc(struct topo_search *s)
{
	static const char what[] = "topology search candidates";
	size_t n = (size_t)s->n, nets = (size_t)s->sys->nnets;
	size_t cand = (size_t)s->max_channels * (nets * (n + 1) + 2 * nets + n * n + 2 * n + 4);

	s->cand_room = (int32_t)cand;
	s->nets = os_alloc(((n + 1) * nets + 1) * sizeof *s->nets, what);
	s->nets_count = os_alloc((n + 1) * sizeof *s->nets_count, what);
	s->gpu_key = os_alloc(n * n * sizeof *s->gpu_key, what);
	s->gpu_near = os_alloc(n * n * sizeof *s->gpu_near, what);
	s->net_key = os_alloc((n * nets + 1) * sizeof *s->net_key, what);
	s->cand = os_alloc(cand * sizeof *s->cand, what);
	return s->nets && s->nets_count && s->gpu_key && s->gpu_near && s->net_key && s->cand;
}

void topo_candidates_fini(struct topo_search *s)
{
	os_free(s->nets);
	os_free(s->nets_count);
	os_free(s->gpu_key);
	os_free(s->gpu_near);
	os_free(s->net_key);
	os_free(s->cand);
}

/* Returns a sort key: more bandwidth gives a smaller key. NCCL compares whole GB/s. */
static uint64_t topo_candidates_bw_key(uint32_t bw_mbps)
{
	return 0x1fff - MIN_OF(bw_mbps / 1000, 0x1fffu);
}

static int32_t topo_candidates_pci_link(const struct topo_system *sys, int32_t pos)
{
	const struct topo_node *gpu = topo_gpu_node(sys, pos);

	for (int32_t i = gpu->first_link; i < gpu->first_link + gpu->link_count; i++)
		if (sys->link[i].type == TOPO_LINK_PCI)
			return i;
	return TOPO_NO_LINK;
}

/* Returns a sort key by the remaining bandwidth of the GPU's PCI link. A GPU without such a link is
 * last. */
static uint64_t topo_candidates_pci_key(const struct topo_search *s, int32_t pos)
{
	int32_t link = s->pci_link[pos];

	if (link == TOPO_NO_LINK)
		return 0x3fff;
	return topo_candidates_bw_key(
		MIN_OF(s->link_left[link], s->link_left[s->sys->link[link].back]));
}

/* Sorts by most bandwidth, then fewest hops, then the file's order after `from`. */
#define TOPO_KEY_DISTANCE_BITS 8
static void topo_candidates_gpu_keys(struct topo_search *s, int32_t from)
{
	for (int32_t d = 1; d < s->n; d++) {
		int32_t g = (from + d) % s->n;
		const struct topo_path *p = topo_path_at(s->sys, from, g);

		s->gpu_key[from * s->n + g] =
			topo_candidates_bw_key(p->bw_mbps) << 24 |
			(uint64_t)(uint16_t)p->length << TOPO_KEY_DISTANCE_BITS | (uint64_t)d;
	}
}

static void topo_candidates_gpu_sort(struct topo_search *s, int32_t from)
{
	const uint64_t *key = &s->gpu_key[from * s->n];
	int16_t *near = &s->gpu_near[from * (s->n - 1)];

	for (int32_t d = 1, count = 0; d < s->n; d++) {
		int32_t g = (from + d) % s->n, at = count++;

		for (; at > 0 && key[g] < key[near[at - 1]]; at--)
			near[at] = near[at - 1];
		near[at] = (int16_t)g;
	}
}

static void topo_candidates_net_keys(struct topo_search *s, int32_t net)
{
	for (int32_t g = 0; g < s->n; g++) {
		const struct topo_path *p = topo_path_at(s->sys, topo_end_net(s->sys, net), g);

		s->net_key[net * s->n + g] =
			topo_candidates_bw_key(p->bw_mbps) << 32 | (uint16_t)p->length;
	}
}

void topo_candidates_fill(struct topo_search *s)
{
	s->nets_type = -2;
	for (int32_t g = 0; g < s->n; g++) {
		s->pci_link[g] = topo_candidates_pci_link(s->sys, g);
		topo_candidates_gpu_keys(s, g);
		topo_candidates_gpu_sort(s, g);
	}
	for (int32_t net = 0; net < s->sys->nnets; net++)
		topo_candidates_net_keys(s, net);
}

/* ---- nets ----------------------------------------------------------------------------------- */

static void topo_candidates_net_add(int16_t *nets, int16_t *count, int16_t net)
{
	for (int32_t i = 0; i < *count; i++)
		if (nets[i] == net)
			return;
	nets[(*count)++] = net;
}

static void topo_candidates_nets_fill(struct topo_search *s, int32_t lo, int32_t hi, int16_t *nets,
				      int16_t *count)
{
	int16_t own[TOPO_MAX_NETS];

	*count = 0;
	for (int32_t g = lo; g < hi; g++) {
		int32_t used = topo_nearest_nets(s->sys, g, own);

		for (int32_t i = 0; i < used; i++)
			topo_candidates_net_add(nets, count, own[i]);
	}
	for (int32_t type = 0; type <= s->nets_type; type++)
		for (int32_t g = lo; g < hi; g++)
			for (int16_t i = 0; i < MIN_OF(s->sys->nnets, DEV_MAX_CHANNELS); i++)
				if (topo_path_at(s->sys, g, topo_end_net(s->sys, i))->type == type)
					topo_candidates_net_add(nets, count, i);
}

int32_t topo_candidates_nets(struct topo_search *s, int32_t gpu, const int16_t **nets)
{
	int32_t all = s->sys->nnets, row = gpu < 0 ? s->n : gpu;

	if (s->nets_type != s->now.type_inter) {
		s->nets_type = s->now.type_inter;
		for (int32_t g = 0; g < s->n; g++)
			topo_candidates_nets_fill(s, g, g + 1, s->nets + g * all,
						  &s->nets_count[g]);
		topo_candidates_nets_fill(s, 0, s->n, s->nets + s->n * all, &s->nets_count[s->n]);
	}
	*nets = s->nets + row * all;
	return s->nets_count[row];
}

uint32_t topo_candidates_net_need(const struct topo_search *s)
{
	return s->now.bw_inter_mbps / 1000 * 1000;
}

/* ---- lists ---------------------------------------------------------------------------------- */

static struct topo_search_candidate *topo_candidates_add(struct topo_search *s,
							 struct topo_search_level *l, int32_t gpu,
							 int32_t net, enum topo_search_mode mode)
{
	struct topo_search_candidate *x = &s->cand[s->cand_count++];

	ASSERT(s->cand_count <= s->cand_room);
	*x = (struct topo_search_candidate){
		.gpu = (int16_t)gpu, .net = (int16_t)net, .mode = (uint8_t)mode};
	l->count++;
	return x;
}

static void topo_candidates_start_host(struct topo_search *s, struct topo_search_level *l)
{
	int32_t c = s->now.nchannels;

	if (s->now.shape == TOPO_SHAPE_NVLS) {
		if (c < s->n)
			topo_candidates_add(s, l, c, -1, TOPO_SEARCH_FREE);
		return;
	}
	if (c == 0)
		topo_candidates_add(s, l, 0, -1, TOPO_SEARCH_FILE_ORDER);
	else
		topo_candidates_add(s, l, s->now.order[c - 1][0], -1, TOPO_SEARCH_REPLAY);
	for (int32_t g = 0; g < s->n && (c == 0 || !s->now.same_channels); g++)
		topo_candidates_add(s, l, g, -1, TOPO_SEARCH_FREE);
}

static bool topo_candidates_is_head(const struct topo_search *s, int32_t gpu)
{
	for (int32_t c = 0; c < s->now.nchannels; c++)
		if (s->now.order[c][0] == gpu)
			return true;
	return false;
}

/* Adds the GPUs next to a net, first the GPU that the net belongs to. */
static void topo_candidates_start_nearest(struct topo_search *s, struct topo_search_level *l,
					  int32_t net)
{
	int16_t near[TOPO_MAX_LOCAL], own = s->sys->net_gpu[net];
	int32_t count = topo_nearest(s->sys, topo_end_net(s->sys, net), 0, s->n, near);

	if (own >= 0)
		topo_candidates_add(s, l, own, net, TOPO_SEARCH_FREE);
	for (int32_t i = 0; i < count; i++)
		if (near[i] != own)
			topo_candidates_add(s, l, near[i], net, TOPO_SEARCH_FREE);
}

static void topo_candidates_start_at(struct topo_search *s, struct topo_search_level *l,
				     int32_t net)
{
	int32_t c = s->now.nchannels;

	if (c > 0 && s->now.same_channels) {
		topo_candidates_add(s, l, s->now.order[c - 1][0], net, TOPO_SEARCH_REPLAY);
		return;
	}
	if (c == 0 && s->sys->nnvs == 0)
		topo_candidates_add(s, l, 0, net, TOPO_SEARCH_FILE_ORDER)->own_budget = true;
	topo_candidates_start_nearest(s, l, net);
}

/* True if a channel can enter by the net: the net has enough bandwidth and, in the second ring of a
 * pair, is the net by which the first ring leaves. */
static bool topo_candidates_may_enter(const struct topo_search *s, int32_t net)
{
	int32_t c = s->now.nchannels;

	if (s->rules->collnet && !topo_net_node(s->sys, net)->net.coll)
		return false;
	if (s->net_left[net] < topo_candidates_net_need(s))
		return false;
	return s->now.shape != TOPO_SHAPE_RING || s->now.cross_nic != 2 || (c & 1) == 0 ||
	       net == s->now.nic[c - 1][1];
}

/* Adds all nets. Each channel begins one net further than the channel before. For a star the first
 * net that leads to a new head is enough. */
static void topo_candidates_start_net(struct topo_search *s, struct topo_search_level *l)
{
	const int16_t *nets;
	int32_t c = s->now.nchannels, count = topo_candidates_nets(s, -1, &nets);

	for (int32_t i = 0; i < count; i++) {
		int16_t net = nets[(c + i) % count], own = s->sys->net_gpu[net];

		if (!topo_candidates_may_enter(s, net))
			continue;
		if (!s->shape->star) {
			topo_candidates_start_at(s, l, net);
		} else if (c < count && own >= 0 && !topo_candidates_is_head(s, own)) {
			topo_candidates_add(s, l, own, net, TOPO_SEARCH_FREE);
			return;
		}
	}
}

/* Adds the neighbours of a GPU in the file's order. On NVSwitches every order is equally good; only
 * neighbours are tried, so that a GPU has few peers. */
static void topo_candidates_along(struct topo_search *s, struct topo_search_level *l, int32_t from)
{
	int32_t first = -1;

	for (int32_t i = 0; i < 2 && s->shape->along[i]; i++) {
		int32_t g = (from + s->n + s->shape->along[i]) % s->n;

		if (g != first && !topo_candidates_is_used(s, g))
			topo_candidates_add(s, l, g, -1, TOPO_SEARCH_FREE);
		first = g;
	}
}

struct topo_candidates_rank {
	uint64_t net_key, gpu_key;
	int16_t gpu;
};

/* Adds free GPUs, nearest first. */
static void topo_candidates_nearest(struct topo_search *s, struct topo_search_level *l,
				    int32_t from)
{
	const int16_t *near = &s->gpu_near[from * (s->n - 1)];

	for (int32_t i = 0; i < s->n - 1; i++)
		if (!topo_candidates_is_used(s, near[i]))
			topo_candidates_add(s, l, near[i], -1, TOPO_SEARCH_FREE);
}

/* Adds free GPUs, nearest to the channel's net first. With `later` the channel returns to the
 * network at a later step and should end near the net. If all GPUs are then equally near to `from`,
 * GPUs far from the net are first. */
static void topo_candidates_nearest_net(struct topo_search *s, struct topo_search_level *l,
					int32_t from, bool later)
{
	struct topo_candidates_rank rank[TOPO_MAX_LOCAL];
	int32_t count = 0, net = s->now.nic[s->now.nchannels][0];
	bool alike = true;

	for (int32_t i = 0; i < s->n - 1; i++) {
		int32_t at, g = s->gpu_near[from * (s->n - 1) + i];

		if (topo_candidates_is_used(s, g))
			continue;
		struct topo_candidates_rank x = {.net_key = s->net_key[net * s->n + g] |
							    topo_candidates_pci_key(s, g) << 16,
						 .gpu_key = s->gpu_key[from * s->n + g],
						 .gpu = (int16_t)g};
		alike = alike && (count == 0 || x.gpu_key >> TOPO_KEY_DISTANCE_BITS ==
							rank[0].gpu_key >> TOPO_KEY_DISTANCE_BITS);
		for (at = count++; at > 0 && x.net_key < rank[at - 1].net_key; at--)
			rank[at] = rank[at - 1];
		rank[at] = x;
	}
	bool reverse = alike && later;
	for (int32_t i = 0; i < count; i++)
		topo_candidates_add(s, l, rank[reverse ? count - 1 - i : i].gpu, -1,
				    TOPO_SEARCH_FREE);
}

/* True if the channel may return by the net. */
static bool topo_candidates_may_return(const struct topo_search *s, int32_t step, int32_t net)
{
	int32_t c = s->now.nchannels, in = s->now.nic[c][0];
	const struct topo_node *a = topo_net_node(s->sys, in), *b = topo_net_node(s->sys, net);

	if (a->net.plane >= 0 && b->net.plane >= 0 && a->net.plane != b->net.plane)
		return false;
	if (s->shape->own_net && net != in)
		return false;
	if (s->shape->halves && step > 0 && net != s->now.nic[c][1])
		return false;
	if (s->now.shape == TOPO_SHAPE_RING && s->now.cross_nic == 2)
		return (c & 1) == 0 || net == s->now.nic[c - 1][0];
	if (s->now.cross_nic)
		return true;
	if (a->net.rail >= 0 && b->net.rail >= 0)
		return a->net.rail == b->net.rail;
	return s->port[in] == s->port[net];
}

static void topo_candidates_return(struct topo_search *s, struct topo_search_level *l, int32_t step)
{
	const int16_t *nets;
	int32_t gpu = s->now.order[s->now.nchannels][step];
	int32_t count = topo_candidates_nets(s, gpu, &nets);

	for (int32_t i = 0; i < count; i++)
		if (topo_candidates_may_return(s, step, nets[i]))
			topo_candidates_add(s, l, gpu, nets[i], TOPO_SEARCH_FREE);
}

static void topo_candidates_gpu(struct topo_search *s, struct topo_search_level *l,
				const struct topo_stage *stage)
{
	int32_t c = s->now.nchannels, step = stage->step, from = s->now.order[c][step - 1];

	if (l->mode == TOPO_SEARCH_FILE_ORDER)
		topo_candidates_add(s, l, step, -1, TOPO_SEARCH_FREE);
	else if (l->mode == TOPO_SEARCH_REPLAY)
		topo_candidates_add(s, l, s->now.order[c - 1][step], -1, TOPO_SEARCH_FREE);
	else if (s->sys->nnvs)
		topo_candidates_along(s, l, from);
	else if (stage->sort == TOPO_SORT_GPU)
		topo_candidates_nearest(s, l, from);
	else
		topo_candidates_nearest_net(s, l, from, stage->sort == TOPO_SORT_NET_LATER);
}

void topo_candidates_open(struct topo_search *s, struct topo_search_level *l)
{
	const struct topo_stage *stage = &s->stage[l->stage];

	if (stage->kind == TOPO_STAGE_START && s->inter)
		topo_candidates_start_net(s, l);
	else if (stage->kind == TOPO_STAGE_START)
		topo_candidates_start_host(s, l);
	else if (stage->kind == TOPO_STAGE_GPU)
		topo_candidates_gpu(s, l, stage);
	else if (stage->kind == TOPO_STAGE_NET)
		topo_candidates_return(s, l, stage->step);
	else
		topo_candidates_add(s, l, -1, -1, TOPO_SEARCH_FREE);
}
