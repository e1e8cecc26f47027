/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Decides which nets belong to which GPU. A GPU's nets are the ends of its best paths. If several
 * GPUs share several nets, each begins with another net and uses its share of them. A net belongs
 * to the GPU that uses it in its earliest channel. Relays (paths.c) and the search build on both.
 */
#include "core/topo/topo_internal.h"

int32_t topo_nearest(const struct topo_system *sys, int32_t from, int32_t first, int32_t count,
		     int16_t *out)
{
	const struct topo_path *path = topo_path_at(sys, from, first);
	uint32_t bw = 0;
	uint8_t type = TOPO_PATH_DIS;
	int32_t found = 0;

	for (int32_t i = 0; i < count; i++) {
		const struct topo_path *p = &path[i];

		if (p->bw_mbps < bw || (p->bw_mbps == bw && p->type > type))
			continue;
		if (p->bw_mbps > bw || p->type < type)
			found = 0;
		bw = p->bw_mbps;
		type = p->type;
		out[found++] = (int16_t)i;
	}
	return found;
}

/* Mirrors the low bits of `value` below a power of two, to spread neighbours over nets. */
static int32_t topo_nearest_mirror_bits(int32_t value, int32_t pow2)
{
	int32_t mirror = 0;

	for (int32_t bit = 1, up = pow2 >> 1; bit < pow2; bit <<= 1, up >>= 1)
		if (value & bit)
			mirror |= up;
	return mirror;
}

/* A GPU's near nets, the index of its first net, and the number of nets that it uses. */
struct topo_nearest_share {
	int16_t net[TOPO_MAX_NETS];
	int32_t count, begin, used;
};

static void topo_nearest_share_fill(const struct topo_system *sys, int32_t pos,
				    struct topo_nearest_share *s)
{
	int16_t gpu[TOPO_MAX_LOCAL];
	int32_t gpus, dev = topo_gpu_node(sys, pos)->dev;

	s->count =
		topo_nearest(sys, topo_end_gpu(sys, pos), topo_end_net(sys, 0), sys->nnets, s->net);
	ASSERT(s->count > 0);
	gpus = topo_nearest(sys, topo_end_net(sys, s->net[0]), 0, sys->ngpus, gpu);
	if (sys->params.compat == TOPO_COMPAT_NEW)
		dev %= gpus;
	s->begin = dev % s->count;
	if ((s->count & (s->count - 1)) == 0)
		s->begin = topo_nearest_mirror_bits(dev, s->count);
	s->used = DIV_UP(s->count, gpus);
}

int32_t topo_nearest_nets(const struct topo_system *sys, int32_t pos, int16_t *out)
{
	struct topo_nearest_share s;

	topo_nearest_share_fill(sys, pos, &s);
	for (int32_t c = 0; c < s.used; c++)
		out[c] = s.net[(s.begin + c) % s.count];
	return s.used;
}

int16_t topo_nearest_gpu(const struct topo_system *sys, int32_t net)
{
	int16_t gpu[TOPO_MAX_LOCAL], best = -1;
	int32_t gpus = topo_nearest(sys, topo_end_net(sys, net), 0, sys->ngpus, gpu);
	int32_t earliest = INT32_MAX;

	for (int32_t i = 0; i < gpus; i++) {
		struct topo_nearest_share s;

		topo_nearest_share_fill(sys, gpu[i], &s);
		for (int32_t c = 0; c < s.used && c < earliest; c++)
			if (s.net[(s.begin + c) % s.count] == net) {
				earliest = c;
				best = gpu[i];
			}
	}
	return best;
}

bool topo_same_port(const struct topo_system *sys, int32_t a, int32_t b)
{
	const struct topo_node *x = topo_net_node(sys, a), *y = topo_net_node(sys, b);

	return a == b || (x->net.has_guid && y->net.has_guid && x->net.guid == y->net.guid &&
			  x->net.port == y->net.port);
}
