/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Paths: from every GPU, net and CPU a breadth-first walk that minimises hops and, among equals,
 * maximises bandwidth. A path through another GPU is at most NVLink, GPU, NVLink (NVB). Where GPUs
 * may not reach each other, or a NIC not the GPU, the path is replaced by the one through the CPU
 * next to the GPU: that is the way the bytes will take.
 */
#include <string.h>

#include "core/base/log.h"
#include "core/base/xml.h"
#include "core/topo/topo_internal.h"

#define TOPO_MAX_HOPS (4 * XML_MAX_DEPTH + 8) /* two trees up and down, and a detour */

/* What the walk knows of a node. */
struct topo_reach {
	uint32_t bw_mbps; /* 0: not reached */
	int32_t via;      /* link by which it is reached */
	int16_t count;
	uint8_t type;
};

struct topo_walk {
	struct topo_system *sys;
	struct topo_reach *reach; /* by node */
	int32_t *front, *next;    /* nodes of this level and of the next: halves of `lists` */
	int32_t *lists;
	int32_t front_count, next_count;
	uint16_t *hop; /* grows */
	int32_t hop_room;
};

/* Type of the path that reaches link.to through a path of type `so_far` to link.from. */
static uint8_t topo_walk_type(const struct topo_system *sys, const struct topo_link *link,
			      const struct topo_reach *from)
{
	uint8_t a = sys->node[link->from].type, b = sys->node[link->to].type;
	uint8_t type = link->type;
	if (type == TOPO_LINK_NET)
		type = TOPO_PATH_LOC; /* the hop from NIC to network is no distance */
	if (type == TOPO_LINK_PCI && a == TOPO_NODE_PCI && b == TOPO_NODE_PCI)
		type = TOPO_PATH_PXB;
	if (type == TOPO_LINK_PCI && (a == TOPO_NODE_CPU || b == TOPO_NODE_CPU))
		type = a == TOPO_NODE_CPU && from->type == TOPO_PATH_C2C ? TOPO_PATH_P2C
									 : TOPO_PATH_PHB;
	if (type == TOPO_LINK_C2C && from->type == TOPO_PATH_PHB)
		return TOPO_PATH_P2C;
	if (type == TOPO_LINK_NVL && a == TOPO_NODE_GPU && from->type == TOPO_PATH_NVL)
		type = TOPO_PATH_NVB;
	return MAX_OF(type, from->type);
}

/* GPUs forward to one more GPU, over NVLink, and only as the first stop. */
static bool topo_walk_may_pass(const struct topo_system *sys, const struct topo_link *link,
			       const struct topo_reach *from)
{
	if (from->count == 0 || sys->node[link->from].type != TOPO_NODE_GPU)
		return true;
	return link->type == TOPO_LINK_NVL && sys->node[link->to].type == TOPO_NODE_GPU &&
	       from->count == 1;
}

static void topo_walk_node(struct topo_walk *w, int32_t node)
{
	const struct topo_node *n = &w->sys->node[node];
	const struct topo_reach *from = &w->reach[node];
	for (int32_t i = n->first_link; i < n->first_link + n->link_count; i++) {
		const struct topo_link *link = &w->sys->link[i];
		struct topo_reach *to = &w->reach[link->to];
		uint32_t bw = MIN_OF(from->bw_mbps, link->bw_mbps);
		bool known = to->bw_mbps != 0;
		if (!topo_walk_may_pass(w->sys, link, from))
			continue;
		if ((known && to->count <= from->count) || to->bw_mbps >= bw)
			continue;
		to->bw_mbps = bw;
		to->count = (int16_t)(from->count + 1);
		to->type = topo_walk_type(w->sys, link, from);
		to->via = i;
		if (!known)
			w->next[w->next_count++] = link->to;
	}
}

static void topo_walk_from(struct topo_walk *w, int32_t node)
{
	memset(w->reach, 0, (size_t)w->sys->nnodes * sizeof *w->reach);
	w->reach[node] = (struct topo_reach){.bw_mbps = TOPO_LOC_BW_MBPS, .type = TOPO_PATH_LOC};
	w->front[0] = node;
	w->front_count = 1;
	while (w->front_count) {
		w->next_count = 0;
		for (int32_t i = 0; i < w->front_count; i++)
			topo_walk_node(w, w->front[i]);
		int32_t *swap = w->front;
		w->front = w->next;
		w->next = swap;
		w->front_count = w->next_count;
	}
}

/* Room for one more path of any length. */
static ncclResult_t topo_walk_reserve(struct topo_walk *w)
{
	int32_t used = w->sys->nhops;
	if (used + 2 * TOPO_MAX_HOPS <= w->hop_room)
		return ncclSuccess;
	int32_t room = MAX_OF(w->hop_room * 2, 2048);
	uint16_t *more = os_alloc((size_t)room * sizeof *more, "topology hops");
	if (!more) {
		WARN("out of memory for the hops of %d paths", w->sys->nends * w->sys->nends);
		return ncclSystemError;
	}
	if (used && ALWAYS(w->hop))
		memcpy(more, w->hop, (size_t)used * sizeof *more);
	os_free(w->hop);
	w->hop = more;
	w->hop_room = room;
	return ncclSuccess;
}

/* Writes down the way from the walk's start to `to`. */
static ncclResult_t topo_walk_record(struct topo_walk *w, int32_t from_end, int32_t to_end)
{
	struct topo_system *sys = w->sys;
	int32_t node = sys->end_node[to_end];
	const struct topo_reach *r = &w->reach[node];
	struct topo_path *path = &sys->path[(size_t)from_end * (size_t)sys->nends + (size_t)to_end];
	ncclResult_t rc = topo_walk_reserve(w);
	if (rc)
		return rc;
	*path = (struct topo_path){.type = TOPO_PATH_DIS};
	if (!r->bw_mbps)
		return ncclSuccess;
	ASSERT(w->hop && r->count <= TOPO_MAX_HOPS);
	*path = (struct topo_path){
		.bw_mbps = r->bw_mbps, .first = sys->nhops, .count = r->count, .type = r->type};
	for (int32_t i = r->count - 1; i >= 0; i--) {
		int32_t via = w->reach[node].via;
		w->hop[sys->nhops + i] = (uint16_t)via;
		node = sys->link[via].from;
	}
	ASSERT(node == sys->end_node[from_end]);
	sys->nhops += r->count;
	return ncclSuccess;
}

/* ---- detours -------------------------------------------------------------------------------- */

/* Replaces a path by the one over CPU `cpu`. */
static ncclResult_t topo_path_divert(struct topo_walk *w, int32_t from_end, int32_t cpu,
				     int32_t to_end)
{
	struct topo_system *sys = w->sys;
	ncclResult_t rc = topo_walk_reserve(w);
	if (rc)
		return rc;
	int32_t mid = topo_end_cpu(sys, cpu);
	const struct topo_path *a = topo_path_at(sys, from_end, mid);
	const struct topo_path *b = topo_path_at(sys, mid, to_end);
	struct topo_path *path = &sys->path[(size_t)from_end * (size_t)sys->nends + (size_t)to_end];
	ASSERT(w->hop && a->type != TOPO_PATH_DIS && b->type != TOPO_PATH_DIS);
	*path = (struct topo_path){.bw_mbps = MIN_OF(a->bw_mbps, b->bw_mbps),
				   .first = sys->nhops,
				   .count = (int16_t)(a->count + b->count),
				   .type = MAX_OF(a->type, b->type)};
	memcpy(w->hop + sys->nhops, w->hop + a->first, (size_t)a->count * sizeof *w->hop);
	memcpy(w->hop + sys->nhops + a->count, w->hop + b->first,
	       (size_t)b->count * sizeof *w->hop);
	sys->nhops += path->count;
	return ncclSuccess;
}

static int16_t topo_nearest_cpu(const struct topo_system *sys, int32_t pos)
{
	int16_t best = 0;
	for (int16_t c = 1; c < sys->ncpus; c++) {
		const struct topo_path *p = topo_path_at(sys, pos, topo_end_cpu(sys, c));
		const struct topo_path *q = topo_path_at(sys, pos, topo_end_cpu(sys, best));
		if (p->count < q->count || (p->count == q->count && p->bw_mbps > q->bw_mbps))
			best = c;
	}
	return best;
}

bool topo_host_is_amd(const struct topo_system *sys)
{
	const struct topo_node *cpu = topo_cpu_node(sys, 0);
	return cpu->cpu.arch == TOPO_CPU_ARCH_X86 && cpu->cpu.vendor == TOPO_CPU_VENDOR_AMD;
}

/* Default PXB: over root complexes direct access is slow or broken, but for AMD's with at most two
 * GPUs. */
static ncclResult_t topo_paths_p2p(struct topo_walk *w)
{
	struct topo_system *sys = w->sys;
	int32_t level = sys->params.p2p_level;
	if (level < 0)
		level = topo_host_is_amd(sys) && sys->ngpus <= 2 ? TOPO_PATH_SYS : TOPO_PATH_PXB;
	ncclResult_t rc = ncclSuccess;
	for (int32_t a = 0; a < sys->ngpus; a++)
		for (int32_t b = 0; b < sys->ngpus; b++)
			sys->p2p[a][b] = topo_path_at(sys, a, b)->type <= level;
	for (int32_t a = 0; a < sys->ngpus && !rc; a++)
		for (int32_t b = 0; b < sys->ngpus && !rc; b++)
			if (!sys->p2p[a][b])
				rc = topo_path_divert(w, a, sys->gpu_cpu[a], b);
	return rc;
}

bool topo_paths_gdr_ok(const struct topo_system *sys, int32_t pos, int32_t net)
{
	int32_t level = sys->params.gdr_level;
	const struct topo_path *cpu = topo_path_at(sys, pos, topo_end_cpu(sys, sys->gpu_cpu[pos]));
	if (level < 0)
		level = cpu->type == TOPO_PATH_C2C ? TOPO_PATH_P2C : TOPO_PATH_PXB;
	return topo_gpu_node(sys, pos)->gpu.gdr && topo_net_node(sys, net)->net.gdr &&
	       topo_path_at(sys, topo_end_gpu(sys, pos), topo_end_net(sys, net))->type <= level;
}

static ncclResult_t topo_paths_gdr(struct topo_walk *w)
{
	struct topo_system *sys = w->sys;
	ncclResult_t rc = ncclSuccess;
	for (int32_t pos = 0; pos < sys->ngpus; pos++)
		for (int32_t net = 0; net < sys->nnets && !rc; net++) {
			int32_t end = topo_end_net(sys, net);
			if (topo_paths_gdr_ok(sys, pos, net))
				continue;
			rc = topo_path_divert(w, pos, sys->gpu_cpu[pos], end);
			if (!rc)
				rc = topo_path_divert(w, end, sys->gpu_cpu[pos], pos);
		}
	return rc;
}

ncclResult_t topo_paths_compute(struct topo_system *sys, uint16_t **hop)
{
	struct topo_walk w = {.sys = sys};
	size_t nodes = (size_t)sys->nnodes;
	ncclResult_t rc = ncclSystemError;
	w.reach = os_alloc(nodes * sizeof *w.reach, "topology walk");
	w.lists = os_alloc(2 * nodes * sizeof *w.lists, "topology walk");
	if (!w.reach || !w.lists) {
		WARN("out of memory for paths between %d nodes", sys->nnodes);
		goto out;
	}
	w.front = w.lists;
	w.next = w.lists + nodes;
	rc = ncclSuccess;
	for (int32_t a = 0; a < sys->nends && !rc; a++) {
		topo_walk_from(&w, sys->end_node[a]);
		for (int32_t b = 0; b < sys->nends && !rc; b++)
			rc = topo_walk_record(&w, a, b);
	}
	for (int32_t pos = 0; pos < sys->ngpus && !rc; pos++)
		sys->gpu_cpu[pos] = topo_nearest_cpu(sys, pos);
	if (!rc)
		rc = topo_paths_p2p(&w);
	if (!rc)
		rc = topo_paths_gdr(&w);
out:
	os_free(w.reach);
	os_free(w.lists);
	if (rc)
		os_free(w.hop);
	else
		*hop = w.hop;
	return rc;
}
