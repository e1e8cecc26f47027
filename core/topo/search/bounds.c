/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Upper bounds of a try. The search skips tries that cannot beat the best. Bounds do not change the
 * search's result, only its cost (record->every_try: without them).
 *
 * A cut is a switch or a CPU with everything below it, if there are GPUs in use both inside and
 * outside. A channel crosses every cut, so the links that leave the cut bound the number of
 * channels. A GPU's own links bound it, too, and so do the nets by which channels can enter and
 * return. A link counts from the path type on that allows its use.
 */
#include <string.h>

#include "core/base/log.h"
#include "core/topo/search/search.h"

struct topo_cut {
	/* Bandwidth of all links that this type allows. */
	uint64_t out[TOPO_PATH_NET], in[TOPO_PATH_NET];
	bool intel[TOPO_PATH_NET]; /* by path type: all paths up to it across the cut need 6/5 */
	/* True if all nets between which a channel may change lie on one side of the cut. */
	bool whole_ports;
};

static int32_t topo_bounds_link_level(const struct topo_system *sys, const struct topo_link *link)
{
	uint8_t a = sys->node[link->from].type, b = sys->node[link->to].type;
	if (link->type == TOPO_LINK_NET)
		return TOPO_PATH_LOC;
	if (link->type != TOPO_LINK_PCI)
		return link->type;
	if (a == TOPO_NODE_CPU || b == TOPO_NODE_CPU)
		return TOPO_PATH_P2C;
	return a == TOPO_NODE_PCI && b == TOPO_NODE_PCI ? TOPO_PATH_PXB : TOPO_PATH_PIX;
}

static bool topo_bounds_is_below(const struct topo_system *sys, int32_t node, int32_t top)
{
	while (node != top && node != TOPO_NO_NODE)
		node = sys->node[node].parent;
	return node == top;
}

static void topo_bounds_cut_links(const struct topo_system *sys, int32_t top, struct topo_cut *cut)
{
	for (int32_t i = 0; i < sys->nlinks; i++) {
		const struct topo_link *link = &sys->link[i];
		bool from = topo_bounds_is_below(sys, link->from, top);
		bool to = topo_bounds_is_below(sys, link->to, top);

		if (from != to)
			(from ? cut->out : cut->in)[topo_bounds_link_level(sys, link)] +=
				link->bw_mbps;
	}
	for (int32_t t = 1; t < TOPO_PATH_NET; t++) {
		cut->out[t] += cut->out[t - 1];
		cut->in[t] += cut->in[t - 1];
	}
}

static void topo_bounds_cut_intel(const struct topo_search *s, const bool *inside,
				  struct topo_cut *cut)
{
	memset(cut->intel, true, sizeof cut->intel);
	for (int32_t a = 0; a < s->n; a++)
		for (int32_t b = 0; b < s->n; b++) {
			int32_t type = topo_path_at(s->sys, a, b)->type;

			if (inside[a] == inside[b] ||
			    s->intel[(size_t)a * (size_t)s->sys->nends + (size_t)b])
				continue;
			for (; type < TOPO_PATH_NET; type++)
				cut->intel[type] = false;
		}
}

static bool topo_bounds_may_change(const struct topo_system *sys, int32_t a, int32_t b)
{
	const struct topo_node *x = topo_net_node(sys, a), *y = topo_net_node(sys, b);

	return topo_same_port(sys, a, b) || (x->net.rail >= 0 && x->net.rail == y->net.rail);
}

static bool topo_bounds_whole_ports(const struct topo_system *sys, int32_t top)
{
	for (int32_t a = 0; a < sys->nnets; a++)
		for (int32_t b = 0; b < a; b++) {
			int32_t x = sys->end_node[topo_end_net(sys, a)];
			int32_t y = sys->end_node[topo_end_net(sys, b)];

			if (topo_bounds_may_change(sys, a, b) &&
			    topo_bounds_is_below(sys, x, top) != topo_bounds_is_below(sys, y, top))
				return false;
		}
	return true;
}

static bool topo_bounds_cut_fill(const struct topo_search *s, int32_t top, struct topo_cut *cut)
{
	const struct topo_system *sys = s->sys;
	bool inside[TOPO_MAX_LOCAL];
	int32_t count = 0;

	for (int32_t g = 0; g < s->n; g++)
		count += inside[g] = topo_bounds_is_below(sys, sys->end_node[g], top);
	if (count == 0 || count == s->n)
		return false;
	memset(cut, 0, sizeof *cut);
	topo_bounds_cut_links(sys, top, cut);
	topo_bounds_cut_intel(s, inside, cut);
	cut->whole_ports = topo_bounds_whole_ports(sys, top);
	return true;
}

ncclResult_t topo_bounds_make(struct topo_search *s)
{
	const struct topo_system *sys = s->sys;
	int32_t tops = 0;

	for (int32_t i = 0; i < sys->nnodes; i++)
		tops += sys->node[i].type == TOPO_NODE_PCI || sys->node[i].type == TOPO_NODE_CPU;
	s->cut = os_alloc(((size_t)tops + 1) * sizeof *s->cut, "topology search");
	if (!s->cut) {
		WARN("out of memory for a search over %d nodes", sys->nnodes);
		return ncclSystemError;
	}
	for (int32_t i = 0; i < sys->nnodes; i++)
		if ((sys->node[i].type == TOPO_NODE_PCI || sys->node[i].type == TOPO_NODE_CPU) &&
		    topo_bounds_cut_fill(s, i, &s->cut[s->cuts]))
			s->cuts++;
	s->chain_type = -1;
	return ncclSuccess;
}

/* ---- channels ------------------------------------------------------------------------------- */

/* Returns how many channels can cross the cut. A ring that closes, or that returns to its entry,
 * crosses in both directions; a chain crosses in either one. A channel that returns may cross on a
 * net's path, which does not need 6/5 of the bandwidth. */
static uint64_t topo_bounds_cut(const struct topo_search *s, const struct topo_cut *cut,
				int32_t type)
{
	uint64_t bw = MIN_OF(s->now.bw_intra_mbps, s->now.bw_inter_mbps);
	bool round = s->now.shape == TOPO_SHAPE_RING &&
		     (!s->inter || (s->now.cross_nic == 0 && cut->whole_ports));

	if (cut->intel[s->now.type_intra] && !(round && s->inter))
		bw = bw * 6 / 5;
	if (round)
		return MIN_OF(cut->out[type], cut->in[type]) / bw;
	return (cut->out[type] + cut->in[type]) / bw;
}

/* True if a channel can use this path from a net to its first GPU. */
static bool topo_bounds_enters(const struct topo_search *s, const struct topo_path *in)
{
	return in->type <= s->now.type_inter && in->bw_mbps >= s->now.bw_inter_mbps;
}

static bool topo_bounds_may_leave_by(const struct topo_search *s, int32_t in, int32_t out)
{
	return s->now.cross_nic || topo_bounds_may_change(s->sys, in, out);
}

/* True if a channel of now's shape can return from this GPU by net `out`. A ring returns from
 * another GPU than its first. */
static bool topo_bounds_may_end(const struct topo_search *s, int32_t pos, int32_t out)
{
	bool other = s->now.shape == TOPO_SHAPE_RING && s->n > 1;

	if (topo_path_at(s->sys, pos, topo_end_net(s->sys, out))->type > s->now.type_inter)
		return false;
	for (int32_t in = 0; in < s->sys->nnets; in++)
		for (int32_t g = 0; g < s->n && topo_bounds_may_leave_by(s, in, out); g++)
			if (!(other && g == pos) &&
			    topo_bounds_enters(s,
					       topo_path_at(s->sys, topo_end_net(s->sys, in), g)))
				return true;
	return false;
}

/* True if a path that a channel may use begins with this link of the GPU. */
static bool topo_bounds_leads(const struct topo_search *s, int32_t pos, int32_t link)
{
	const struct topo_system *sys = s->sys;

	for (int32_t end = 0; end < topo_end_net(sys, s->inter ? sys->nnets : 0); end++) {
		const struct topo_path *p = topo_path_at(sys, pos, end);

		if (end == pos || p->count == 0 || sys->hop[p->first] != link)
			continue;
		if (end < s->n ? p->type <= s->now.type_intra
			       : topo_bounds_may_end(s, pos, end - topo_end_net(sys, 0)))
			return true;
	}
	return false;
}

/* Returns how many channels can leave the GPU or, with `both`, leave or enter it. Each channel uses
 * one whole link; the remains of two links do not carry a channel. */
static uint64_t topo_bounds_gpu(const struct topo_search *s, int32_t pos, int32_t type, uint32_t bw,
				bool both)
{
	const struct topo_system *sys = s->sys;
	const struct topo_node *gpu = topo_gpu_node(sys, pos);
	uint64_t sum = 0;

	for (int32_t i = gpu->first_link; i < gpu->first_link + gpu->link_count; i++) {
		const struct topo_link *link = &sys->link[i];

		if (topo_bounds_link_level(sys, link) > type)
			continue;
		if (topo_bounds_leads(s, pos, i))
			sum += link->bw_mbps / bw;
		if (both && link->back != TOPO_NO_LINK)
			sum += sys->link[link->back].bw_mbps / bw;
	}
	return sum;
}

/* The fewest hops with which a channel that entered by one net returns to the network: from each
 * GPU, from any GPU (`least`, from least_gpu), and from any other GPU than least_gpu (`second`). */
#define TOPO_BOUNDS_NO_WAY INT32_MAX
struct topo_bounds_return {
	int32_t from[TOPO_MAX_LOCAL];
	int32_t least_gpu, least, second;
};

static int32_t topo_bounds_return_from(const struct topo_search *s, int32_t in, int32_t g)
{
	int32_t least = TOPO_BOUNDS_NO_WAY;

	for (int32_t out = 0; out < s->sys->nnets; out++) {
		const struct topo_path *p = topo_path_at(s->sys, g, topo_end_net(s->sys, out));

		if (p->type <= s->now.type_inter && p->length < least &&
		    topo_bounds_may_leave_by(s, in, out))
			least = p->length;
	}
	return least;
}

static void topo_bounds_return_fill(const struct topo_search *s, int32_t in,
				    struct topo_bounds_return *r)
{
	r->least_gpu = -1;
	r->least = r->second = TOPO_BOUNDS_NO_WAY;
	for (int32_t g = 0; g < s->n; g++) {
		r->from[g] = topo_bounds_return_from(s, in, g);
		if (r->from[g] < r->least) {
			r->second = r->least;
			r->least = r->from[g];
			r->least_gpu = g;
		} else {
			r->second = MIN_OF(r->second, r->from[g]);
		}
	}
}

/* Returns the fewest hops with which a channel with this first GPU returns to the network. */
static int32_t topo_bounds_return_hops(const struct topo_search *s,
				       const struct topo_bounds_return *r, int32_t first)
{
	if (s->now.shape != TOPO_SHAPE_RING || s->n == 1)
		return r->from[first];
	return first == r->least_gpu ? r->second : r->least;
}

/* Returns how many of the first `most` links are the same on both paths. */
static int32_t topo_bounds_common(const struct topo_system *sys, const struct topo_path *a,
				  const struct topo_path *b, int32_t most)
{
	int32_t i = 0;

	while (i < MIN_OF(most, b->count) && sys->hop[a->first + i] == sys->hop[b->first + i])
		i++;
	return i;
}

/* Returns the bandwidth with which channels can enter by this net and return to the network. Only
 * the first links that are common to all ways in bound it. A way that is too slow for one channel
 * does not count. */
static uint32_t topo_bounds_net(const struct topo_search *s, int32_t net)
{
	const struct topo_system *sys = s->sys;
	uint32_t least = topo_net_node(sys, net)->net.bw_mbps;
	const struct topo_path *one = NULL;
	struct topo_bounds_return back;
	int32_t common = 0;

	topo_bounds_return_fill(s, net, &back);
	for (int32_t first = 0; first < s->n; first++) {
		const struct topo_path *in = topo_path_at(sys, topo_end_net(sys, net), first);

		if (!topo_bounds_enters(s, in) ||
		    topo_bounds_return_hops(s, &back, first) == TOPO_BOUNDS_NO_WAY)
			continue;
		common = one ? topo_bounds_common(sys, one, in, common) : in->count;
		one = in;
	}
	for (int32_t i = 0; i < common; i++)
		least = MIN_OF(least, sys->link[sys->hop[one->first + i]].bw_mbps);
	return one ? least : 0;
}

/* A star is not bounded by links, because its legs are shares of a channel. */
int32_t topo_bounds_channels(const struct topo_search *s)
{
	const struct topo_system *sys = s->sys;
	int32_t type = s->inter ? MAX_OF(s->now.type_intra, s->now.type_inter) : s->now.type_intra;
	uint32_t bw = MIN_OF(s->now.bw_intra_mbps, s->now.bw_inter_mbps);
	uint64_t bound = (uint64_t)s->max_channels, nets = 0;
	bool both = s->now.shape != TOPO_SHAPE_RING;

	ASSERT(type < TOPO_PATH_NET && bw > 0);
	if (s->shape->star)
		return s->max_channels;
	for (int32_t i = 0; i < s->cuts; i++)
		bound = MIN_OF(bound, topo_bounds_cut(s, &s->cut[i], type));
	for (int32_t g = 0; g < s->n && s->n > 1 && !(both && sys->one_way_links); g++)
		bound = MIN_OF(bound, topo_bounds_gpu(s, g, type, bw, both));
	if (!s->inter)
		return (int32_t)bound;
	for (int32_t i = 0; i < sys->nnets && nets < bound; i++)
		nets += topo_bounds_net(s, i) / s->now.bw_inter_mbps;
	return (int32_t)MIN_OF(bound, nets);
}

/* ---- hops ----------------------------------------------------------------------------------- */

/* Returns the length of the shortest path from `end` to one of `count` ends, within `type`; 0: no
 * such path. */
static int32_t topo_bounds_shortest(const struct topo_search *s, int32_t end, int32_t first,
				    int32_t count, int32_t type)
{
	int32_t least = INT32_MAX;

	for (int32_t i = first; i < first + count; i++) {
		const struct topo_path *p = topo_path_at(s->sys, end, i);

		if (i != end && p->type <= type)
			least = MIN_OF(least, p->length);
	}
	return least == INT32_MAX ? 0 : least;
}

/* True if all paths between GPUs within now's type have the same length. Then every order has the
 * same number of hops. */
static bool topo_bounds_is_alike(const struct topo_search *s)
{
	int32_t length = 0;

	for (int32_t a = 0; a < s->n; a++)
		for (int32_t b = 0; b < s->n; b++) {
			const struct topo_path *p = topo_path_at(s->sys, a, b);

			if (a == b || p->type > s->now.type_intra)
				continue;
			if (length && p->length != length)
				return false;
			length = p->length;
		}
	return length > 0;
}

/* Bounds the hops from below, for many GPUs or equal paths. In a chain every GPU but one sends to
 * another one; in a ring every GPU sends. */
static void topo_bounds_chain_rough(struct topo_search *s)
{
	int32_t sum = 0, most = 0;

	for (int32_t g = 0; g < s->n; g++) {
		int32_t hops = topo_bounds_shortest(s, g, 0, s->n, s->now.type_intra);

		sum += hops;
		most = MAX_OF(most, hops);
	}
	s->ring_hops = sum;
	s->chain_hops = sum - most;
}

/* Fills least[set][last]: the fewest hops of a chain through a set of GPUs that ends at `last`.
 * With `ring` all chains start at GPU 0, else anywhere. */
#define TOPO_BOUNDS_EXACT 8
#define TOPO_BOUNDS_NEVER 0x3fff
static void topo_bounds_chains(const struct topo_search *s, bool ring,
			       uint16_t least[1 << TOPO_BOUNDS_EXACT][TOPO_BOUNDS_EXACT])
{
	int32_t n = s->n;

	for (int32_t set = 0; set < 1 << n; set++)
		for (int32_t last = 0; last < n; last++)
			least[set][last] =
				set == 1 << last && (!ring || last == 0) ? 0 : TOPO_BOUNDS_NEVER;
	for (int32_t set = 1; set < 1 << n; set++)
		for (int32_t a = 0; a < n; a++)
			for (int32_t b = 0; b < n && least[set][a] < TOPO_BOUNDS_NEVER; b++) {
				const struct topo_path *p = topo_path_at(s->sys, a, b);
				int32_t to = set | 1 << b;

				if (to == set || p->type > s->now.type_intra)
					continue;
				int32_t hops = least[set][a] + p->length;
				least[to][b] = (uint16_t)MIN_OF(hops, (int32_t)least[to][b]);
			}
}

static void topo_bounds_chain_exact(struct topo_search *s)
{
	uint16_t least[1 << TOPO_BOUNDS_EXACT][TOPO_BOUNDS_EXACT];
	int32_t all = (1 << s->n) - 1;

	s->ring_hops = s->chain_hops = TOPO_BOUNDS_NEVER;
	topo_bounds_chains(s, false, least);
	for (int32_t g = 0; g < s->n; g++)
		s->chain_hops = MIN_OF(s->chain_hops, (int32_t)least[all][g]);
	topo_bounds_chains(s, true, least);
	for (int32_t g = 0; g < s->n; g++) {
		const struct topo_path *p = topo_path_at(s->sys, g, 0);

		if (p->type <= s->now.type_intra)
			s->ring_hops = MIN_OF(s->ring_hops, least[all][g] + p->length);
	}
}

/* Returns the fewest hops from the network to the first GPU and back to the network; 0: no such
 * way. */
static int32_t topo_bounds_net_hops(const struct topo_search *s)
{
	int32_t least = TOPO_BOUNDS_NO_WAY;

	for (int32_t net = 0; net < s->sys->nnets; net++) {
		struct topo_bounds_return back;

		topo_bounds_return_fill(s, net, &back);
		for (int32_t g = 0; g < s->n; g++) {
			const struct topo_path *in =
				topo_path_at(s->sys, topo_end_net(s->sys, net), g);
			int32_t out = topo_bounds_return_hops(s, &back, g);

			if (topo_bounds_enters(s, in) && out != TOPO_BOUNDS_NO_WAY)
				least = MIN_OF(least, in->length + out);
		}
	}
	return least == TOPO_BOUNDS_NO_WAY ? 0 : least;
}

/* Returns the fewest hops of a channel's other half, which may return from any GPU within now's
 * type. */
static int32_t topo_bounds_half_hops(const struct topo_search *s)
{
	int32_t least = TOPO_BOUNDS_NO_WAY;

	for (int32_t g = 0; g < s->n; g++)
		least = MIN_OF(least, topo_bounds_shortest(s, g, topo_end_net(s->sys, 0),
							   s->sys->nnets, s->now.type_inter));
	return least;
}

int32_t topo_bounds_hops(struct topo_search *s)
{
	if (s->shape->star)
		return 0;
	if (s->chain_type != s->now.type_intra) {
		s->chain_type = s->now.type_intra;
		s->ring_hops = s->chain_hops = 0;
		if (s->n > TOPO_BOUNDS_EXACT || topo_bounds_is_alike(s))
			topo_bounds_chain_rough(s);
		else if (s->n > 1)
			topo_bounds_chain_exact(s);
	}
	if (!s->inter)
		return s->shape->closes ? s->ring_hops : s->chain_hops;
	return s->chain_hops + topo_bounds_net_hops(s) +
	       (s->shape->halves && s->n > 1 ? topo_bounds_half_hops(s) : 0);
}
