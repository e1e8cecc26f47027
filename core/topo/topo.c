/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "core/base/log.h"
#include "core/base/memo_table.h"
#include "core/base/xml.h"
#include "core/topo/topo_internal.h"

/* ---- from the model to one block ------------------------------------------------------------ */

/* Layout of the block: number and offset of each array. */
struct topo_layout {
	int32_t nodes, links, gpus, nets, cpus, nvs;
	size_t node_at, link_at, path_at, hop_at;
};

static void topo_layout_make(struct topo_layout *l, const struct topo_model *m)
{
	memset(l, 0, sizeof *l);
	for (int32_t i = 0; i < m->node_count; i++) {
		const struct topo_node *n = &m->node[i];
		if (n->dead)
			continue;
		l->nodes++;
		l->gpus += n->type == TOPO_NODE_GPU;
		l->nets += n->type == TOPO_NODE_NET;
		l->cpus += n->type == TOPO_NODE_CPU;
		l->nvs += n->type == TOPO_NODE_NVS;
	}
	l->links = m->edge_count;
	size_t ends = (size_t)(l->gpus + l->nets + l->cpus + l->nvs);
	l->node_at = ALIGN_UP(sizeof(struct topo_system), 16);
	l->link_at = ALIGN_UP(l->node_at + (size_t)l->nodes * sizeof(struct topo_node), 16);
	l->path_at = ALIGN_UP(l->link_at + (size_t)l->links * sizeof(struct topo_link), 16);
	/* The hops are last, because their size is known last. */
	l->hop_at = ALIGN_UP(l->path_at + ends * ends * sizeof(struct topo_path), 16);
}

static struct topo_system *topo_layout_place(const struct topo_layout *l, unsigned char *block)
{
	struct topo_system *sys = (struct topo_system *)block;
	sys->node = (struct topo_node *)(block + l->node_at);
	sys->link = (struct topo_link *)(block + l->link_at);
	sys->path = (struct topo_path *)(block + l->path_at);
	sys->hop = (uint16_t *)(block + l->hop_at);
	return sys;
}

/* Copies the links of a node in the model's order, except that the link up the PCI tree is last: a
 * walk visits the nodes below first. */
static void topo_system_add_links(struct topo_system *sys, const struct topo_model *m,
				  const int32_t *new_id, int32_t old, int32_t node)
{
	struct topo_node *n = &sys->node[node];
	int32_t up = -1;

	n->first_link = sys->nlinks;
	for (int32_t i = 0; i < m->edge_count; i++) {
		if (m->edge[i].from != old)
			continue;
		struct topo_link link = m->edge[i];
		link.from = node;
		link.to = new_id[link.to];
		if (up < 0 && link.to == n->parent && n->type != TOPO_NODE_NET)
			up = i;
		else
			sys->link[sys->nlinks++] = link;
	}
	if (up >= 0) {
		sys->link[sys->nlinks] = m->edge[up];
		sys->link[sys->nlinks].from = node;
		sys->link[sys->nlinks++].to = n->parent;
	}
	n->link_count = sys->nlinks - n->first_link;
}

/* Finds for each link the opposite link of the same type. */
static void topo_system_pair_links(struct topo_system *sys)
{
	for (int32_t i = 0; i < sys->nlinks; i++) {
		struct topo_link *link = &sys->link[i];
		const struct topo_node *to = &sys->node[link->to];

		link->back = TOPO_NO_LINK;
		for (int32_t k = to->first_link; k < to->first_link + to->link_count; k++)
			if (sys->link[k].to == link->from && sys->link[k].type == link->type)
				link->back = k;
		sys->one_way_links += link->back == TOPO_NO_LINK;
	}
}

/* Warns about NVLinks that only one of two GPUs reports. NCCL refuses such a host; here each
 * direction counts with its own bandwidth. */
static void topo_system_warn_asymmetric(const struct topo_system *sys, const char *source)
{
	for (int32_t i = 0; i < sys->nlinks; i++) {
		const struct topo_link *link = &sys->link[i];
		uint32_t back = link->back == TOPO_NO_LINK ? 0 : sys->link[link->back].bw_mbps;

		if (link->type == TOPO_LINK_NVL && back < link->bw_mbps)
			WARN("%s:%d: NVLinks from %s to %s carry %u MB/s, back %u; each "
			     "direction counts with its own bandwidth",
			     source, sys->node[link->from].line, sys->node[link->from].name,
			     sys->node[link->to].name, link->bw_mbps, back);
	}
}

static void topo_system_add_nodes(struct topo_system *sys, const struct topo_model *m,
				  int32_t *new_id)
{
	for (int32_t i = 0; i < m->node_count; i++) {
		new_id[i] = TOPO_NO_NODE;
		if (m->node[i].dead)
			continue;
		new_id[i] = sys->nnodes;
		sys->node[sys->nnodes++] = m->node[i];
	}
	for (int32_t i = 0; i < sys->nnodes; i++)
		if (sys->node[i].parent != TOPO_NO_NODE)
			sys->node[i].parent = new_id[sys->node[i].parent];
	for (int32_t i = 0; i < m->node_count; i++)
		if (new_id[i] != TOPO_NO_NODE)
			topo_system_add_links(sys, m, new_id, i, new_id[i]);
	topo_system_pair_links(sys);
	topo_system_warn_asymmetric(sys, m->source);
}

/* Fills the ends of paths in this order: GPUs, nets, CPUs, the NVSwitch, each as in the file. */
static void topo_system_add_ends(struct topo_system *sys)
{
	static const enum topo_node_type order[4] = {TOPO_NODE_GPU, TOPO_NODE_NET, TOPO_NODE_CPU,
						     TOPO_NODE_NVS};
	int32_t *const count[4] = {&sys->ngpus, &sys->nnets, &sys->ncpus, &sys->nnvs};
	sys->sm_min = INT32_MAX;
	for (int k = 0; k < 4; k++)
		for (int32_t i = 0; i < sys->nnodes; i++)
			if (sys->node[i].type == order[k]) {
				sys->end_node[sys->nends++] = i;
				(*count[k])++;
			}
	for (int32_t pos = 0; pos < sys->ngpus; pos++) {
		const struct topo_node *gpu = topo_gpu_node(sys, pos);
		sys->local_to_pos[gpu->gpu.local] = (int16_t)pos;
		sys->pos_to_local[pos] = (int16_t)gpu->gpu.local;
		sys->sm_min = MIN_OF(sys->sm_min, gpu->gpu.sm);
	}
}

/* Computes the paths and moves the block to a larger one with the hops at its end. The block does
 * not move again. */
static ncclResult_t topo_system_add_paths(struct topo_system **sys, const struct topo_layout *l)
{
	uint16_t *hop = NULL;
	ncclResult_t rc = topo_paths_compute(*sys, &hop);
	if (rc)
		return rc;
	size_t hop_bytes = (size_t)(*sys)->nhops * sizeof *hop;
	unsigned char *block = memo_value_alloc(l->hop_at + hop_bytes);
	if (block) {
		memcpy(block, *sys, l->hop_at);
		memcpy(block + l->hop_at, hop, hop_bytes);
		memo_value_free(*sys);
		*sys = topo_layout_place(l, block);
	} else {
		WARN("out of memory for a topology of %zu bytes", l->hop_at + hop_bytes);
		rc = ncclSystemError;
	}
	os_free(hop);
	return rc;
}

static ncclResult_t topo_system_make(const struct topo_model *m, const struct topo_params *params,
				     struct topo_system **out)
{
	struct topo_layout l;
	topo_layout_make(&l, m);
	unsigned char *block = memo_value_alloc(l.hop_at);
	int32_t *new_id = os_alloc((size_t)m->node_count * sizeof *new_id, "topology model");
	ncclResult_t rc = ncclSystemError;
	if (!block || !new_id) {
		WARN("%s: out of memory for a topology of %zu bytes", m->source, l.hop_at);
		goto out;
	}
	struct topo_system *sys = topo_layout_place(&l, block);
	sys->params = *params;
	sys->nhosts = topo_model_hosts(m);
	topo_system_add_nodes(sys, m, new_id);
	topo_system_add_ends(sys);
	ASSERT(sys->nnodes == l.nodes && sys->nlinks == l.links);
	rc = topo_system_add_paths(&sys, &l);
	block = (unsigned char *)sys;
out:
	os_free(new_id);
	if (rc)
		memo_value_free(block);
	else
		*out = (struct topo_system *)block;
	return rc;
}

/* ---- key of the cache ----------------------------------------------------------------------- */

/* Key of the cache: this struct, then the text. The result depends on nothing else. */
struct topo_key {
	struct topo_params params;
	struct topo_select select;
};
DOPPEL_CHECK_SIZE(struct topo_key, sizeof(struct topo_params) + sizeof(struct topo_select));

/* ---- from XML to the model ------------------------------------------------------------------ */

static ncclResult_t topo_model_read(struct topo_model *m, const char *xml, size_t bytes,
				    const struct topo_key *key)
{
	struct xml_doc *doc = NULL;
	struct xml_error error;
	if (xml_parse(xml, bytes, m->source, &doc, &error)) {
		WARN("%s", error.text);
		return ncclInvalidUsage;
	}
	m->select = &key->select;
	ncclResult_t rc = topo_input_read(m, xml_root(doc));
	xml_free(doc);
	if (!rc && key->select.network_known)
		rc = topo_model_nics(m, &key->select);
	if (rc)
		return rc;
	topo_model_trim(m);
	topo_model_flatten_switches(m);
	if (key->select.merge)
		rc = topo_model_merge(m, &key->params);
	return rc ? rc : topo_model_connect_cpus(m);
}

/* ---- cache ---------------------------------------------------------------------------------- */

struct topo_making {
	const char *source;
	ncclResult_t rc;
};

static void *topo_system_memo(const void *key, size_t key_bytes, void *arg)
{
	struct topo_making *making = arg;
	struct topo_key *k = os_alloc(sizeof *k, "topology key");
	struct topo_model m = {.source = making->source};
	struct topo_system *sys = NULL;
	making->rc = k ? ncclSuccess : ncclSystemError;
	if (!k) {
		WARN("%s: out of memory for a topology", making->source);
		return NULL;
	}
	memcpy(k, key, sizeof *k);
	making->rc = topo_model_read(&m, (const char *)key + sizeof *k, key_bytes - sizeof *k, k);
	if (!making->rc)
		making->rc = topo_system_make(&m, &k->params, &sys);
	topo_model_fini(&m);
	os_free(k);
	return sys;
}

/* Copies only the bytes that matter, so that bytes after a string's end do not change the key. */
static void topo_key_fill(struct topo_key *key, const struct topo_select *select)
{
	memset(key, 0, sizeof *key);
	topo_params_read(&key->params);
	key->select.count = select->count;
	for (int32_t i = 0; i < select->count; i++) {
		size_t n = strnlen(select->gpu[i].bus_id, sizeof select->gpu[i].bus_id - 1);
		memcpy(key->select.gpu[i].bus_id, select->gpu[i].bus_id, n);
		key->select.gpu[i].dev = select->gpu[i].dev;
	}
	key->select.network_known = select->network_known;
	key->select.merge = select->merge;
	key->select.devices = select->network_known ? select->devices : 0;
	for (int32_t i = 0; i < key->select.devices; i++) {
		snprintf(key->select.device[i].name, sizeof key->select.device[i].name, "%s",
			 select->device[i].name);
		snprintf(key->select.device[i].bus_id, sizeof key->select.device[i].bus_id, "%s",
			 select->device[i].bus_id);
		key->select.device[i].guid = select->device[i].guid;
		key->select.device[i].port = select->device[i].port;
		key->select.device[i].mbit = select->device[i].mbit;
		key->select.device[i].link = select->device[i].link;
		key->select.device[i].gdr = select->device[i].gdr;
		key->select.device[i].coll = select->device[i].coll;
		key->params.collnet |= select->device[i].coll;
	}
}

ncclResult_t topo_system_get(const char *xml, size_t bytes, const char *source,
			     const struct topo_select *select, const struct topo_system **sys)
{
	if (select->count < 1 || select->count > TOPO_MAX_LOCAL) {
		WARN("%s: %d GPUs are selected, expected 1 to %d", source, select->count,
		     TOPO_MAX_LOCAL);
		return ncclInvalidArgument;
	}
	ASSERT(select->devices >= 0 && select->devices <= TOPO_MAX_DEVICES);
	size_t key_bytes = sizeof(struct topo_key) + bytes;
	struct topo_key *key = os_alloc(key_bytes, "topology key");
	if (!key) {
		WARN("%s: out of memory for a topology of %zu bytes", source, bytes);
		return ncclSystemError;
	}
	topo_key_fill(key, select);
	memcpy(key + 1, xml, bytes);
	struct topo_making making = {.source = source, .rc = ncclSystemError};
	const struct topo_system *found =
		os_memo("topo.system", key, key_bytes, topo_system_memo, &making);
	os_free(key);
	if (!found)
		return making.rc ? making.rc : ncclSystemError;
	*sys = found;
	return ncclSuccess;
}

/* ---- accessors ------------------------------------------------------------------------------ */

static int32_t topo_pos(const struct topo_system *sys, int32_t gpu)
{
	ASSERT(gpu >= 0 && gpu < sys->ngpus);
	return sys->local_to_pos[gpu];
}

static const struct topo_path *topo_nic_path_at(const struct topo_system *sys, int32_t gpu,
						int32_t nic)
{
	ASSERT(nic >= 0 && nic < sys->nnets);
	return topo_path_at(sys, topo_end_gpu(sys, topo_pos(sys, gpu)), topo_end_net(sys, nic));
}

int32_t topo_gpu_count(const struct topo_system *sys)
{
	return sys->ngpus;
}

int32_t topo_nic_count(const struct topo_system *sys)
{
	return sys->nnets;
}

const char *topo_nic_name(const struct topo_system *sys, int32_t nic)
{
	ASSERT(nic >= 0 && nic < sys->nnets);
	return topo_net_node(sys, nic)->name;
}

int32_t topo_gpu_sm(const struct topo_system *sys, int32_t gpu)
{
	return topo_gpu_node(sys, topo_pos(sys, gpu))->gpu.sm;
}

enum topo_path_type topo_gpu_path(const struct topo_system *sys, int32_t a, int32_t b)
{
	return topo_path_at(sys, topo_pos(sys, a), topo_pos(sys, b))->type;
}

enum topo_path_type topo_nic_path(const struct topo_system *sys, int32_t gpu, int32_t nic)
{
	const struct topo_path *p = topo_nic_path_at(sys, gpu, nic);

	return p->type == TOPO_PATH_PXN ? p->direct : p->type;
}

int32_t topo_nic_nearest(const struct topo_system *sys, int32_t gpu)
{
	int32_t best = sys->nnets ? 0 : -1;

	for (int32_t nic = 1; nic < sys->nnets; nic++)
		if (topo_nic_path(sys, gpu, nic) < topo_nic_path(sys, gpu, best))
			best = nic;
	return best;
}

int32_t topo_nic_owner(const struct topo_system *sys, int32_t gpu, int32_t nic)
{
	int32_t pos = topo_pos(sys, gpu), owner = sys->net_gpu[nic];

	return owner >= 0 && topo_paths_owner_ok(sys, pos, nic) ? sys->pos_to_local[owner] : -1;
}

int32_t topo_nic_relay(const struct topo_system *sys, int32_t gpu, int32_t nic)
{
	const struct topo_path *p = topo_nic_path_at(sys, gpu, nic);

	for (int16_t i = 0; i < p->count && p->type == TOPO_PATH_PXN; i++) {
		int32_t node = sys->link[sys->hop[p->first + i]].to;

		for (int32_t pos = 0; pos < sys->ngpus; pos++)
			if (sys->end_node[pos] == node)
				return sys->pos_to_local[pos];
	}
	return -1;
}

uint32_t topo_gpu_bw_mbps(const struct topo_system *sys, int32_t a, int32_t b)
{
	return topo_path_at(sys, topo_pos(sys, a), topo_pos(sys, b))->bw_mbps;
}

uint32_t topo_nic_bw_mbps(const struct topo_system *sys, int32_t gpu, int32_t nic)
{
	return topo_nic_path_at(sys, gpu, nic)->bw_mbps;
}

bool topo_p2p_ok(const struct topo_system *sys, int32_t a, int32_t b)
{
	return sys->p2p[topo_pos(sys, a)][topo_pos(sys, b)];
}

bool topo_gdr_ok(const struct topo_system *sys, int32_t gpu, int32_t nic)
{
	return topo_nic_path_at(sys, gpu, nic)->gdr;
}

bool topo_needs_flush(const struct topo_system *sys, int32_t gpu)
{
	return topo_gpu_sm(sys, gpu) < 90 && !sys->params.gdr_flush_disable;
}
