/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/pci_address.h"
#include "core/os/os_grow.h"
#include "core/topo/topo_internal.h"

void topo_model_fini(struct topo_model *m)
{
	os_free(m->node);
	os_free(m->edge);
	memset(m, 0, sizeof *m);
}

#define TOPO_MODEL_GROW(array, count, room)                                                        \
	({                                                                                         \
		bool grown_ = OS_GROW(array, count, room, 64, "topology model");                   \
		if (!grown_)                                                                       \
			WARN("out of memory for a topology model of %d entries", (count) + 1);     \
		grown_;                                                                            \
	})

int32_t topo_model_node(struct topo_model *m, enum topo_node_type type, int32_t line)
{
	if (m->node_count == TOPO_MAX_NODES) {
		WARN("%s:%d: more than %d nodes", m->source, line, TOPO_MAX_NODES);
		return TOPO_NO_NODE;
	}
	if (m->node_count == m->node_room && !TOPO_MODEL_GROW(m->node, m->node_count, m->node_room))
		return TOPO_NO_NODE;
	struct topo_node *n = &m->node[m->node_count];
	memset(n, 0, sizeof *n);
	n->type = (uint8_t)type;
	n->line = line;
	n->parent = TOPO_NO_NODE;
	return m->node_count++;
}

/* Moves a link up until its node's links are in order of falling bandwidth. Among equal links the
 * one that reached its bandwidth first is first, because this order breaks ties in the walk over
 * paths. */
static void topo_model_link_rise(struct topo_model *m, int32_t at)
{
	for (int32_t i = at - 1; i >= 0; i--) {
		struct topo_link moved = m->edge[at];

		if (m->edge[i].from != moved.from)
			continue;
		if (m->edge[i].bw_mbps >= moved.bw_mbps)
			return;
		m->edge[at] = m->edge[i];
		m->edge[i] = moved;
		at = i;
	}
}

ncclResult_t topo_model_link(struct topo_model *m, int32_t a, int32_t b, enum topo_link_type type,
			     uint32_t bw_mbps)
{
	int32_t at = 0;

	ASSERT(a >= 0 && a < m->node_count && b >= 0 && b < m->node_count && a != b);
	bw_mbps = MAX_OF(MIN_OF(bw_mbps, TOPO_LOC_BW_MBPS), 1u); /* 0 is reserved for "no path" */
	while (at < m->edge_count &&
	       (m->edge[at].from != a || m->edge[at].to != b || m->edge[at].type != type))
		at++;
	if (at == TOPO_MAX_EDGES) {
		WARN("%s:%d: more than %d links", m->source, m->node[a].line, TOPO_MAX_EDGES);
		return ncclInvalidUsage;
	}
	if (at == m->edge_room && !TOPO_MODEL_GROW(m->edge, m->edge_count, m->edge_room))
		return ncclSystemError;
	if (at == m->edge_count)
		m->edge[m->edge_count++] =
			(struct topo_link){.from = a, .to = b, .type = (uint8_t)type};
	uint64_t sum = (uint64_t)m->edge[at].bw_mbps + bw_mbps;
	m->edge[at].bw_mbps = (uint32_t)MIN_OF(sum, TOPO_LOC_BW_MBPS);
	topo_model_link_rise(m, at);
	return ncclSuccess;
}

ncclResult_t topo_model_link_both(struct topo_model *m, int32_t a, int32_t b,
				  enum topo_link_type type, uint32_t bw_mbps)
{
	ncclResult_t rc = topo_model_link(m, a, b, type, bw_mbps);
	return rc ? rc : topo_model_link(m, b, a, type, bw_mbps);
}

int32_t topo_model_find(const struct topo_model *m, enum topo_node_type type, uint64_t bus)
{
	for (int32_t i = 0; i < m->node_count; i++)
		if (m->node[i].type == type && !m->node[i].dead && m->node[i].bus == bus)
			return i;
	return TOPO_NO_NODE;
}

void topo_model_kill(struct topo_model *m, int32_t node)
{
	ASSERT(node >= 0 && node < m->node_count && !m->node[node].dead);
	m->node[node].dead = true;
	int32_t kept = 0;
	for (int32_t i = 0; i < m->edge_count; i++)
		if (m->edge[i].from != node && m->edge[i].to != node)
			m->edge[kept++] = m->edge[i];
	m->edge_count = kept;
}

bool topo_bus_parse(const char *text, uint64_t *bus)
{
	return pci_address_parse(text, bus);
}

/* Returns the data rate of one link in one direction, not the signalling rate. */
uint32_t topo_nvlink_mbps(int32_t sm)
{
	if (sm >= 100)
		return 40100;
	if (sm >= 90)
		return 20600;
	if (sm == 86)
		return 12000;
	if (sm >= 60 && sm < 70)
		return 18000;
	return 20000; /* also for an unknown generation */
}

/* Returns the data rate of AMD's links by graphics core, as in RCCL: gfx942 is 0x942. */
uint32_t topo_xgmi_mbps(int32_t gcn)
{
	if (gcn >= 0x940)
		return 48000;
	if (gcn >= 0x90a)
		return 36000;
	return 24000;
}

/* ---- switches in switches ------------------------------------------------------------------- */

/* Returns the generation of a Broadcom switch by its PCI identity, or 0. Switches of generation 4
 * and 5 appear as two levels of bridges, although any two ports are one hop apart. Level 0 is the
 * top bridge, 1 an inner one. */
static int topo_switch_generation(const struct topo_node *n, int level)
{
	uint64_t id = n->pci_id;
	if (n->type != TOPO_NODE_PCI || n->dead)
		return 0;
	if ((id & 0xfffffffffffff000u) == 0x1000c0101000a000u)
		return 4;
	uint64_t mask = 0xfffffffffffff000u | (uint64_t)level << 12;
	if ((id & mask) == (0x1000c03010000000u | (uint64_t)level << 12))
		return 5;
	return 0;
}

/* Moves the children and links of `inner` to `outer`, after the links of `outer`. */
static void topo_switch_absorb(struct topo_model *m, int32_t outer, int32_t inner)
{
	int32_t kept = 0, moved = 0;
	struct topo_link last;

	for (int32_t i = 0; i < m->node_count; i++)
		if (m->node[i].parent == inner)
			m->node[i].parent = outer;
	while (kept + moved < m->edge_count) {
		struct topo_link *e = &m->edge[kept];

		if (e->to == inner && e->from != outer)
			e->to = outer;
		if (e->from != inner || e->to == outer) {
			kept++;
			continue;
		}
		last = *e;
		last.from = outer;
		memmove(e, e + 1, (size_t)(m->edge_count - kept - 1) * sizeof *e);
		m->edge[m->edge_count - 1] = last;
		moved++;
	}
	topo_model_kill(m, inner);
}

void topo_model_flatten_switches(struct topo_model *m)
{
	for (int32_t i = 0; i < m->node_count; i++) {
		int generation = topo_switch_generation(&m->node[i], 0);
		for (int32_t k = 0; generation && k < m->node_count; k++)
			if (m->node[k].parent == i &&
			    topo_switch_generation(&m->node[k], 1) == generation)
				topo_switch_absorb(m, i, k);
	}
}

/* ---- between CPUs --------------------------------------------------------------------------- */

static uint32_t topo_cpu_link_mbps(const struct topo_node *cpu)
{
	switch (cpu->cpu.arch) {
	case TOPO_CPU_ARCH_POWER:
		return 32000;
	case TOPO_CPU_ARCH_ARM:
		return 6000;
	case TOPO_CPU_ARCH_X86:
		if (cpu->cpu.vendor == TOPO_CPU_VENDOR_AMD)
			return 16000;
		if (cpu->cpu.vendor == TOPO_CPU_VENDOR_ZHAOXIN)
			return cpu->cpu.family == 7 && cpu->cpu.model == 0x5b ? 9000 : 6000;
		if (cpu->cpu.vendor == TOPO_CPU_VENDOR_OTHER)
			return 10000;
		if (cpu->cpu.family != 6)
			return 6000;
		if (cpu->cpu.model >= 0xcf)
			return 40000; /* Emerald Rapids */
		if (cpu->cpu.model >= 0x8f)
			return 22000; /* Sapphire Rapids */
		if (cpu->cpu.model >= 0x55)
			return 10000; /* Skylake and its successors */
		return 6000;
	default:
		return 6000;
	}
}

ncclResult_t topo_model_connect_cpus(struct topo_model *m)
{
	ncclResult_t rc = ncclSuccess;
	for (int32_t a = 0; a < m->node_count && !rc; a++)
		for (int32_t b = 0; b < m->node_count && !rc; b++)
			if (a != b && m->node[a].type == TOPO_NODE_CPU &&
			    m->node[b].type == TOPO_NODE_CPU && m->node[a].host == m->node[b].host)
				rc = topo_model_link(m, a, b, TOPO_LINK_SYS,
						     topo_cpu_link_mbps(&m->node[a]));
	return rc;
}

/* ---- which GPUs ----------------------------------------------------------------------------- */

/* True if node k is a better choice than node `than`. Halves of a GPU share a bus id and often a
 * number, and hosts share both. A GPU that no rank has is therefore preferred. */
static bool topo_select_is_better(const struct topo_model *m, int32_t k, int32_t than)
{
	return than == TOPO_NO_NODE || (m->node[than].gpu.local >= 0 && m->node[k].gpu.local < 0);
}

static int32_t topo_select_by_bus(const struct topo_model *m, const struct topo_select *select,
				  int32_t i)
{
	int32_t found = TOPO_NO_NODE;
	uint64_t bus;

	if (!topo_bus_parse(select->gpu[i].bus_id, &bus))
		return TOPO_NO_NODE;
	for (int32_t k = 0; k < m->node_count; k++)
		if (m->node[k].type == TOPO_NODE_GPU &&
		    m->node[k].bus == topo_bus_on(m->node[k].host, bus) &&
		    topo_select_is_better(m, k, found))
			found = k;
	return found;
}

static int32_t topo_select_by_dev(const struct topo_model *m, const struct topo_select *select,
				  int32_t i)
{
	int32_t found = TOPO_NO_NODE;

	for (int32_t k = 0; k < m->node_count; k++)
		if (m->node[k].type == TOPO_NODE_GPU && m->node[k].dev == select->gpu[i].dev &&
		    topo_select_is_better(m, k, found))
			found = k;
	return found;
}

/* True if the file has all bus ids of the selection. Otherwise no bus id counts: a file of another
 * machine of the same kind may share some of them by chance. */
static bool topo_select_has_all(const struct topo_model *m, const struct topo_select *select)
{
	for (int32_t i = 0; i < select->count; i++)
		if (select->gpu[i].bus_id[0] && topo_select_by_bus(m, select, i) == TOPO_NO_NODE)
			return false;
	return true;
}

/* Returns a GPU whose function has a further <gpu> for the same GPU; NULL: no such GPU. */
static const struct topo_node *topo_select_again(const struct topo_model *m)
{
	for (int32_t k = 0; k < m->node_count; k++)
		if (m->node[k].type == TOPO_NODE_GPU && m->node[k].gpu.again_line)
			return &m->node[k];
	return NULL;
}

static ncclResult_t topo_select_missing(const struct topo_model *m,
					const struct topo_select *select, int32_t i)
{
	const struct topo_node *n = topo_select_again(m);
	char again[256] = "";

	if (n)
		snprintf(again, sizeof again,
			 "; the second <gpu> of PCI function %s, in line %d, is the GPU of line %d",
			 n->name, n->gpu.again_line, n->line);
	WARN("%s: local rank %d's GPU is not in the file: bus id '%s', dev %d; expected a <pci> "
	     "with "
	     "this busid or a <gpu> with this dev%s",
	     m->source, i, select->gpu[i].bus_id, select->gpu[i].dev, again);
	return ncclInvalidUsage;
}

/* Reports a GPU that two ranks would share. */
static ncclResult_t topo_select_twice(const struct topo_model *m, int32_t k, int32_t rank)
{
	const struct topo_node *n = &m->node[k];

	if (n->gpu.again_line)
		WARN("%s:%d: this second <gpu> of PCI function %s (line %d) is the same GPU, but "
		     "local "
		     "ranks %d and %d want one each; expected a <pci> of its own, or mlopart=\"0\" "
		     "and mlopart=\"1\" for halves",
		     m->source, n->gpu.again_line, n->name, n->line, n->gpu.local, rank);
	else
		WARN("%s:%d: GPU %s (dev %d) is that of local ranks %d and %d; expected one for "
		     "each",
		     m->source, n->line, n->name, n->dev, n->gpu.local, rank);
	return ncclInvalidUsage;
}

ncclResult_t topo_model_select(struct topo_model *m, const struct topo_select *select)
{
	for (int32_t i = 0; i < m->node_count; i++)
		if (m->node[i].type == TOPO_NODE_GPU)
			m->node[i].gpu.local = -1;
	bool by_bus = topo_select_has_all(m, select);
	for (int32_t i = 0; i < select->count; i++) {
		int32_t k = by_bus && select->gpu[i].bus_id[0] ? topo_select_by_bus(m, select, i)
							       : topo_select_by_dev(m, select, i);
		if (k == TOPO_NO_NODE)
			return topo_select_missing(m, select, i);
		if (m->node[k].gpu.local >= 0) {
			return topo_select_twice(m, k, i);
		}
		m->node[k].gpu.local = i;
	}
	return ncclSuccess;
}

static bool topo_host_is_used(const struct topo_model *m, int32_t host)
{
	for (int32_t i = 0; i < m->node_count; i++)
		if (m->node[i].type == TOPO_NODE_GPU && m->node[i].host == host &&
		    m->node[i].gpu.local >= 0)
			return true;
	return false;
}

int32_t topo_model_hosts(const struct topo_model *m)
{
	int32_t n = 0;

	for (int32_t h = 0; h < m->hosts; h++)
		n += topo_host_is_used(m, h);
	return n;
}

/* Removes all nodes of a host of the domain that has no GPU in use. */
static void topo_model_trim_host(struct topo_model *m, int32_t host)
{
	for (int32_t i = 0; i < m->node_count; i++)
		if (m->node[i].host == host && m->node[i].type != TOPO_NODE_NVS && !m->node[i].dead)
			topo_model_kill(m, i);
}

void topo_model_trim(struct topo_model *m)
{
	for (int32_t h = 0; h < m->hosts && m->hosts > 1; h++)
		if (!topo_host_is_used(m, h))
			topo_model_trim_host(m, h);
	for (int32_t i = 0; i < m->node_count; i++)
		if (m->node[i].type == TOPO_NODE_GPU && m->node[i].gpu.local < 0 &&
		    !m->node[i].dead)
			topo_model_kill(m, i);
}

int32_t topo_model_next_half(const struct topo_model *m, int32_t from, uint64_t bus)
{
	for (int32_t i = from; i < m->node_count; i++)
		if (m->node[i].type == TOPO_NODE_GPU && m->node[i].bus == bus &&
		    m->node[i].gpu.local >= 0)
			return i;
	return TOPO_NO_NODE;
}

int32_t topo_model_halves(const struct topo_model *m, uint64_t bus)
{
	int32_t n = 0;

	for (int32_t i = topo_model_next_half(m, 0, bus); i != TOPO_NO_NODE;
	     i = topo_model_next_half(m, i + 1, bus))
		n++;
	return n;
}
