/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Paths. For every GPU, net, CPU and the NVSwitch, a breadth-first walk follows the links outwards
 * from it. A better type wins, then more bandwidth, then fewer links (NCCL_TOPO_COMPAT=2.28: fewer
 * links, then more bandwidth). A path through another GPU is at most NVLink, GPU, NVLink (NVB).
 *
 * Then some paths are replaced by the route that the bytes will take:
 *
 *	GPU - GPU   without direct access: over the CPU next to the receiving GPU
 *	GPU > net   through the GPU that the net belongs to, if NVLink leads there (PXN). Only in
 *	            this direction: received data goes to its GPU directly
 *	GPU - net   if the net cannot reach the GPU's memory: over the CPU next to the GPU
 */
#include <string.h>

#include "core/base/log.h"
#include "core/base/xml.h"
#include "core/os/os_grow.h"
#include "core/topo/topo_internal.h"

#define TOPO_MAX_HOPS (4 * XML_MAX_DEPTH + 8) /* up and down two trees, and a detour */

/* A way from a node to the walk's root: first `link`, then the way of step `rest`. Steps never
 * change, so several ways may share them. */
struct topo_step {
	int32_t link, rest; /* -1: at the root */
	uint32_t bw_mbps;
	int16_t count;
	uint8_t type;
};

struct topo_walk {
	struct topo_system *sys;
	struct topo_step *step; /* steps of this root's walk; grows */
	int32_t steps, step_room;
	int32_t *at; /* by node: index of the step that begins its best way; -1: none yet */
	int32_t *front, *next; /* nodes of this level and of the next one */
	int32_t *queued;       /* by node: the last level for which it was queued */
	int32_t *lists;        /* one allocation for the four arrays */
	int32_t front_count, next_count, level;
	uint16_t *hop; /* grows */
	int32_t hop_room;
};

/* Returns the type of the way from link->to over link->from that continues as `rest`. */
static uint8_t topo_walk_type(const struct topo_system *sys, const struct topo_link *link,
			      const struct topo_step *rest)
{
	uint8_t a = sys->node[link->from].type, b = sys->node[link->to].type;
	uint8_t type = link->type;

	if (type == TOPO_LINK_NET)
		type = TOPO_PATH_LOC; /* the hop from NIC to network has no distance */
	if (a == TOPO_NODE_PCI && b == TOPO_NODE_PCI)
		type = TOPO_PATH_PXB;
	if (link->type == TOPO_LINK_PCI && (a == TOPO_NODE_CPU || b == TOPO_NODE_CPU))
		type = TOPO_PATH_PHB;
	if (type == TOPO_PATH_NVL && a == TOPO_NODE_GPU && rest->type == TOPO_PATH_NVL &&
	    rest->count == 1)
		type = TOPO_PATH_NVB;
	return MAX_OF(type, rest->type);
}

/* True if a way may pass the node. A GPU forwards only to one other GPU, over NVLink, and only next
 * to the root. */
static bool topo_walk_may_pass(const struct topo_system *sys, const struct topo_link *link,
			       const struct topo_step *rest)
{
	if (rest->count == 0 || sys->node[link->from].type != TOPO_NODE_GPU)
		return true;
	return !sys->params.nvb_disable && link->type == TOPO_LINK_NVL &&
	       sys->node[link->to].type == TOPO_NODE_GPU && rest->count == 1;
}

static bool topo_walk_is_better(const struct topo_system *sys, const struct topo_step *a,
				const struct topo_step *b)
{
	if (sys->params.compat == TOPO_COMPAT_2_28)
		return a->count <= b->count && a->bw_mbps > b->bw_mbps;
	if (a->type != b->type)
		return a->type < b->type;
	if (a->bw_mbps != b->bw_mbps)
		return a->bw_mbps > b->bw_mbps;
	return a->count < b->count;
}

static ncclResult_t topo_walk_step_add(struct topo_walk *w, const struct topo_step *step)
{
	if (w->steps == w->step_room &&
	    !OS_GROW(w->step, w->steps, w->step_room, 1024, "topology walk")) {
		WARN("out of memory for a walk of %d steps over %d nodes", w->steps + 1,
		     w->sys->nnodes);
		return ncclSystemError;
	}
	w->step[w->steps++] = *step;
	return ncclSuccess;
}

/* Extends a way to the root by link `via`, at its beginning. `out` is the same link seen from the
 * root. */
static ncclResult_t topo_walk_link(struct topo_walk *w, int32_t via, const struct topo_link *out)
{
	const struct topo_link *link = &w->sys->link[via];
	const struct topo_step rest = w->step[w->at[link->to]];
	int32_t from = link->from;

	if (!topo_walk_may_pass(w->sys, out, &rest))
		return ncclSuccess;
	struct topo_step step = {.link = via,
				 .rest = w->at[link->to],
				 .bw_mbps = MIN_OF(rest.bw_mbps, link->bw_mbps),
				 .count = (int16_t)(rest.count + 1),
				 .type = topo_walk_type(w->sys, out, &rest)};
	if (w->at[from] >= 0 && !topo_walk_is_better(w->sys, &step, &w->step[w->at[from]]))
		return ncclSuccess;
	w->at[from] = w->steps;
	if (w->queued[from] != w->level)
		w->next[w->next_count++] = from;
	w->queued[from] = w->level;
	return topo_walk_step_add(w, &step);
}

/* Follows the links of a node in the order of its links that lead away from the root. */
static ncclResult_t topo_walk_node(struct topo_walk *w, int32_t node)
{
	const struct topo_system *sys = w->sys;
	const struct topo_node *n = &sys->node[node];
	ncclResult_t rc = ncclSuccess;

	for (int32_t i = n->first_link; i < n->first_link + n->link_count && !rc; i++)
		if (sys->link[i].back != TOPO_NO_LINK)
			rc = topo_walk_link(w, sys->link[i].back, &sys->link[i]);
	for (int32_t i = 0; i < sys->nlinks && sys->one_way_links && !rc; i++) {
		struct topo_link out = sys->link[i];

		if (out.back != TOPO_NO_LINK || out.to != node)
			continue;
		out.to = out.from;
		out.from = node;
		rc = topo_walk_link(w, i, &out);
	}
	return rc;
}

static ncclResult_t topo_walk_to(struct topo_walk *w, int32_t root)
{
	struct topo_step home = {
		.link = -1, .rest = -1, .bw_mbps = TOPO_LOC_BW_MBPS, .type = TOPO_PATH_LOC};
	ncclResult_t rc;

	for (int32_t i = 0; i < w->sys->nnodes; i++)
		w->at[i] = w->queued[i] = -1;
	w->steps = w->level = 0;
	rc = topo_walk_step_add(w, &home);
	w->at[root] = 0;
	w->front[0] = root;
	w->front_count = 1;
	for (; w->front_count && !rc; w->level++) {
		w->next_count = 0;
		for (int32_t i = 0; i < w->front_count && !rc; i++)
			rc = topo_walk_node(w, w->front[i]);
		int32_t *swap = w->front;
		w->front = w->next;
		w->next = swap;
		w->front_count = w->next_count;
	}
	return rc;
}

/* Ensures room for one more path of any length. */
static ncclResult_t topo_walk_reserve(struct topo_walk *w)
{
	int32_t used = w->sys->nhops;
	if (used + 2 * TOPO_MAX_HOPS <= w->hop_room)
		return ncclSuccess;
	if (OS_GROW(w->hop, used, w->hop_room, 2048, "topology hops"))
		return ncclSuccess;
	WARN("out of memory for the hops of %d paths", w->sys->nends * w->sys->nends);
	return ncclSystemError;
}

static struct topo_path *topo_path_of(struct topo_system *sys, int32_t from, int32_t to)
{
	return &sys->path[(size_t)from * (size_t)sys->nends + (size_t)to];
}

static int16_t topo_path_extra(const struct topo_system *sys, int32_t from, int32_t to)
{
	if (sys->params.compat == TOPO_COMPAT_2_28 || from == to)
		return 0;
	return (int16_t)((from < sys->ngpus) + (to < sys->ngpus));
}

/* Stores the way from an end to the walk's root as a path. */
static ncclResult_t topo_walk_record(struct topo_walk *w, int32_t from, int32_t root)
{
	struct topo_system *sys = w->sys;
	struct topo_path *path = topo_path_of(sys, from, root);
	int32_t at = w->at[sys->end_node[from]];
	ncclResult_t rc = topo_walk_reserve(w);

	if (rc)
		return rc;
	*path = (struct topo_path){.type = TOPO_PATH_DIS};
	if (at < 0)
		return ncclSuccess;
	const struct topo_step *step = &w->step[at];
	ASSERT(w->hop && step->count <= TOPO_MAX_HOPS);
	*path = (struct topo_path){
		.bw_mbps = step->bw_mbps,
		.first = sys->nhops,
		.count = step->count,
		.length = (int16_t)(step->count + topo_path_extra(sys, from, root)),
		.type = step->type};
	for (; step->rest >= 0; step = &w->step[step->rest])
		w->hop[sys->nhops++] = (uint16_t)step->link;
	return ncclSuccess;
}

/* ---- detours -------------------------------------------------------------------------------- */

static uint8_t topo_path_merge(uint8_t a, uint8_t b)
{
	if (MAX_OF(a, b) == TOPO_PATH_PHB && MIN_OF(a, b) == TOPO_PATH_C2C)
		return TOPO_PATH_P2C;
	return MAX_OF(a, b);
}

/* Replaces a path by the path over end `mid`. */
static ncclResult_t topo_path_divert(struct topo_walk *w, int32_t from_end, int32_t mid,
				     int32_t to_end)
{
	struct topo_system *sys = w->sys;
	ncclResult_t rc = topo_walk_reserve(w);
	if (rc)
		return rc;
	const struct topo_path *a = topo_path_at(sys, from_end, mid);
	const struct topo_path *b = topo_path_at(sys, mid, to_end);
	struct topo_path *path = topo_path_of(sys, from_end, to_end);
	ASSERT(w->hop && a->type != TOPO_PATH_DIS && b->type != TOPO_PATH_DIS);
	*path = (struct topo_path){.bw_mbps = MIN_OF(a->bw_mbps, b->bw_mbps),
				   .first = sys->nhops,
				   .count = (int16_t)(a->count + b->count),
				   .length = (int16_t)(a->length + b->length),
				   .type = topo_path_merge(a->type, b->type),
				   .gdr = path->gdr};
	memcpy(w->hop + sys->nhops, w->hop + a->first, (size_t)a->count * sizeof *w->hop);
	memcpy(w->hop + sys->nhops + a->count, w->hop + b->first,
	       (size_t)b->count * sizeof *w->hop);
	sys->nhops += path->count;
	return ncclSuccess;
}

static ncclResult_t topo_path_divert_cpu(struct topo_walk *w, int32_t from_end, int32_t cpu,
					 int32_t to_end)
{
	return topo_path_divert(w, from_end, topo_end_cpu(w->sys, cpu), to_end);
}

static bool topo_path_is_nearer(const struct topo_system *sys, const struct topo_path *p,
				const struct topo_path *q)
{
	if (sys->params.compat == TOPO_COMPAT_2_28)
		return p->count < q->count;
	if (p->bw_mbps != q->bw_mbps)
		return p->bw_mbps > q->bw_mbps;
	return p->type != q->type ? p->type < q->type : p->count < q->count;
}

static int16_t topo_nearest_cpu(const struct topo_system *sys, int32_t pos)
{
	int16_t best = 0;
	for (int16_t c = 1; c < sys->ncpus; c++)
		if (topo_path_is_nearer(sys, topo_path_at(sys, pos, topo_end_cpu(sys, c)),
					topo_path_at(sys, pos, topo_end_cpu(sys, best))))
			best = c;
	return best;
}

bool topo_host_is_amd(const struct topo_system *sys)
{
	const struct topo_node *cpu = topo_cpu_node(sys, 0);
	return cpu->cpu.arch == TOPO_CPU_ARCH_X86 && cpu->cpu.vendor == TOPO_CPU_VENDOR_AMD;
}

/* Decides which GPUs reach each other directly, and diverts the others over a CPU. The default is
 * PXB: across root complexes direct access is slow or broken, except on AMD with at most two
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
			if (!sys->p2p[a][b] &&
			    topo_gpu_node(sys, a)->host == topo_gpu_node(sys, b)->host)
				rc = topo_path_divert_cpu(w, a, sys->gpu_cpu[b], b);
	return rc;
}

/* Upgrades paths to P2C: a net below the CPU that a GPU is joined to by C2C is nearly as near as
 * one below the GPU's own switch. This applies only to the GPU's own nets; other nets are better
 * reached through their GPU. */
static void topo_paths_c2c(struct topo_system *sys)
{
	int16_t near[TOPO_MAX_NETS];

	for (int32_t pos = 0; pos < sys->ngpus; pos++) {
		int32_t cpu = topo_end_cpu(sys, sys->gpu_cpu[pos]);
		int32_t count = topo_nearest(sys, pos, topo_end_net(sys, 0), sys->nnets, near);

		for (int32_t i = 0; i < count; i++) {
			int32_t net = topo_end_net(sys, near[i]);
			struct topo_path *out = topo_path_of(sys, pos, net);
			struct topo_path *in = topo_path_of(sys, net, pos);

			if (topo_path_merge(topo_path_at(sys, pos, cpu)->type,
					    topo_path_at(sys, net, cpu)->type) != TOPO_PATH_P2C)
				continue;
			out->type = MIN_OF(out->type, TOPO_PATH_P2C);
			in->type = MIN_OF(in->type, TOPO_PATH_P2C);
		}
	}
}

static void topo_paths_gdr(struct topo_system *sys)
{
	int32_t level = sys->params.gdr_level < 0 ? TOPO_PATH_P2C : sys->params.gdr_level;

	for (int32_t pos = 0; pos < sys->ngpus; pos++)
		for (int32_t net = 0; net < sys->nnets; net++) {
			struct topo_path *p = topo_path_of(sys, pos, topo_end_net(sys, net));

			p->gdr = topo_gpu_node(sys, pos)->gpu.gdr &&
				 topo_net_node(sys, net)->net.gdr && p->type <= level;
		}
}

bool topo_paths_owner_ok(const struct topo_system *sys, int32_t pos, int32_t net)
{
	int32_t owner = sys->net_gpu[net];
	const struct topo_path *path;

	if (owner < 0 || topo_gpu_node(sys, owner)->host != topo_gpu_node(sys, pos)->host)
		return false;
	path = topo_path_at(sys, owner, topo_end_net(sys, net));
	return path->type <= TOPO_PATH_P2C && path->gdr &&
	       (owner == pos || topo_path_at(sys, owner, pos)->type <= TOPO_PATH_NVL);
}

/* True if GPU `pos` sends to the net through the GPU that the net belongs to: that is faster or
 * avoids the CPU. */
static bool topo_paths_relay_ok(const struct topo_system *sys, int32_t pos, int32_t net)
{
	int32_t relay = sys->net_gpu[net], end = topo_end_net(sys, net);

	if (sys->params.pxn_disable || relay == pos || !topo_paths_owner_ok(sys, pos, net))
		return false;
	const struct topo_path *own = topo_path_at(sys, pos, end);
	const struct topo_path *other = topo_path_at(sys, relay, end);
	return other->bw_mbps > own->bw_mbps || own->type > TOPO_PATH_PXN;
}

/* Replaces the path of one GPU to a net if necessary. *changed: a path changed, so the owner of the
 * net may have changed. */
static ncclResult_t topo_paths_net(struct topo_walk *w, int32_t pos, int32_t net, bool *changed)
{
	struct topo_system *sys = w->sys;
	int32_t end = topo_end_net(sys, net);
	ncclResult_t rc = ncclSuccess;

	struct topo_path *p = topo_path_of(sys, pos, end);
	uint8_t direct = p->gdr ? p->type : MAX_OF(p->type, TOPO_PATH_PHB);

	*changed = topo_paths_relay_ok(sys, pos, net);
	if (*changed) {
		rc = topo_path_divert(w, pos, sys->net_gpu[net], end);
		p->type = TOPO_PATH_PXN;
		p->direct = direct;
	}
	bool gdr = *changed ? topo_gpu_node(sys, pos)->gpu.gdr : p->gdr;
	if (rc || p->type >= TOPO_PATH_PHB || gdr)
		return rc;
	*changed = true;
	rc = topo_path_divert_cpu(w, end, sys->gpu_cpu[pos], pos);
	return rc ? rc : topo_path_divert_cpu(w, pos, sys->gpu_cpu[pos], end);
}

/* Replaces paths in NCCL's order, net by net, because earlier replacements change which GPU a net
 * belongs to. */
static ncclResult_t topo_paths_nets(struct topo_walk *w)
{
	struct topo_system *sys = w->sys;
	ncclResult_t rc = ncclSuccess;

	for (int32_t net = 0; net < sys->nnets; net++) {
		bool changed = true;

		for (int32_t pos = 0; pos < sys->ngpus && !rc; pos++) {
			if (changed)
				sys->net_gpu[net] = topo_nearest_gpu(sys, net);
			rc = topo_paths_net(w, pos, net, &changed);
		}
	}
	for (int32_t net = 0; net < sys->nnets; net++)
		sys->net_gpu[net] = topo_nearest_gpu(sys, net);
	return rc;
}

/* Returns the highest bandwidth of any GPU to another end. */
static uint32_t topo_paths_best(const struct topo_system *sys, int32_t first, int32_t count)
{
	uint32_t best = 0;

	for (int32_t a = 0; a < sys->ngpus; a++)
		for (int32_t b = first; b < first + count; b++)
			if (a != b)
				best = MAX_OF(best, topo_path_at(sys, a, b)->bw_mbps);
	return best;
}

static void topo_paths_set_best(struct topo_system *sys)
{
	sys->best_bw_gpu = topo_paths_best(sys, 0, sys->ngpus);
	sys->best_bw_net = topo_paths_best(sys, topo_end_net(sys, 0), sys->nnets);
}

static ncclResult_t topo_paths_all(struct topo_walk *w)
{
	struct topo_system *sys = w->sys;
	ncclResult_t rc = ncclSuccess;

	for (int32_t b = 0; b < sys->nends && !rc; b++) {
		rc = topo_walk_to(w, sys->end_node[b]);
		for (int32_t a = 0; a < sys->nends && !rc; a++)
			rc = topo_walk_record(w, a, b);
	}
	for (int32_t pos = 0; pos < sys->ngpus && !rc; pos++)
		sys->gpu_cpu[pos] = topo_nearest_cpu(sys, pos);
	if (rc)
		return rc;
	topo_paths_set_best(sys);
	rc = topo_paths_p2p(w);
	if (!rc && sys->nnets) {
		topo_paths_c2c(sys);
		topo_paths_gdr(sys);
		rc = topo_paths_nets(w);
	}
	if (sys->params.compat == TOPO_COMPAT_2_28)
		topo_paths_set_best(sys);
	return rc;
}

ncclResult_t topo_paths_compute(struct topo_system *sys, uint16_t **hop)
{
	struct topo_walk w = {.sys = sys};
	size_t nodes = (size_t)sys->nnodes;
	ncclResult_t rc = ncclSystemError;

	w.lists = os_alloc(4 * nodes * sizeof *w.lists, "topology walk");
	if (w.lists) {
		w.at = w.lists;
		w.front = w.lists + nodes;
		w.next = w.lists + 2 * nodes;
		w.queued = w.lists + 3 * nodes;
		rc = topo_paths_all(&w);
	} else {
		WARN("out of memory for paths between %d nodes", sys->nnodes);
	}
	os_free(w.lists);
	os_free(w.step);
	if (rc)
		os_free(w.hop);
	else
		*hop = w.hop;
	return rc;
}
