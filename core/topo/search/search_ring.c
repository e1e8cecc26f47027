/* SPDX-License-Identifier: BSD-3-Clause */
/* Chains from rings. Inside a host a tree is a ring without its closing hop, over a part of the
 * ring's links. */
#include <string.h>

#include "core/topo/search/search.h"

/* True if a chain may use the ring's channels. A chain carries data in both directions, a ring in
 * one. */
static bool topo_ring_is_chain(const struct topo_search *s, const struct topo_graph *ring)
{
	for (int32_t c = 0; c < ring->nchannels; c++)
		for (int32_t i = 0; i + 1 < s->n; i++) {
			int32_t from = s->sys->local_to_pos[ring->order[c][i]];
			int32_t to = s->sys->local_to_pos[ring->order[c][i + 1]];

			if (topo_path_at(s->sys, to, from)->type > (uint8_t)ring->type_intra)
				return false;
		}
	return true;
}

static bool topo_ring_is_better(const struct topo_graph *ring, const struct topo_graph *best)
{
	uint64_t of_ring = (uint64_t)ring->nchannels * ring->bw_intra_mbps;
	uint64_t of_best = (uint64_t)best->nchannels * best->bw_intra_mbps;

	return of_ring > of_best || (of_ring == of_best && ring->type_intra < best->type_intra);
}

/* Returns the hops of all chains of a graph by position. */
static int32_t topo_ring_hops(const struct topo_search *s, const struct topo_graph *g)
{
	int32_t hops = 0;

	for (int32_t c = 0; c < g->nchannels; c++)
		for (int32_t i = 0; i + 1 < s->n; i++)
			hops += topo_path_at(s->sys, g->order[c][i], g->order[c][i + 1])->length;
	return hops;
}

void topo_search_take_ring(struct topo_search *s, const struct topo_graph *ring)
{
	struct topo_graph *g = &s->best;

	if (!s->cut_short || s->inter || s->sys->params.compat != TOPO_COMPAT_NEW ||
	    !topo_ring_is_better(ring, g) || !topo_ring_is_chain(s, ring))
		return;
	*g = *ring;
	g->pattern = s->now.pattern;
	g->shape = s->rules->shape;
	for (int32_t c = 0; c < g->nchannels; c++)
		for (int32_t i = 0; i < s->n; i++)
			g->order[c][i] = (int16_t)s->sys->local_to_pos[ring->order[c][i]];
	s->best_hops = topo_ring_hops(s, g);
	if (s->record)
		s->record->of_ring = true;
}
