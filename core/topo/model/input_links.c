/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The second pass over a topology file, after input.c has read all functions. It reads <nvlink>,
 * <xgmi> and <c2c>, the links of GPUs to each other, to switches and to CPUs, and <pcilink>, from
 * switch to switch. A link to a function that is not in the file is ignored, like in NCCL: in a
 * container, GPUs show links to GPUs that the container does not have.
 */
#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/xml.h"
#include "core/topo/topo_internal.h"

static int32_t topo_switch_node(struct topo_model *m, int32_t line)
{
	for (int32_t i = 0; i < m->node_count; i++)
		if (m->node[i].type == TOPO_NODE_NVS)
			return i;
	int32_t n = topo_model_node(m, TOPO_NODE_NVS, line);
	if (n != TOPO_NO_NODE)
		snprintf(m->node[n].name, sizeof m->node[n].name, "NVSwitch");
	return n;
}

static int32_t topo_cpu_above(const struct topo_model *m, int32_t node)
{
	while (m->node[node].type != TOPO_NODE_CPU)
		node = m->node[node].parent;
	return node;
}

/* Links `gpu` to a GPU, or to each of its halves with an equal share. */
static ncclResult_t topo_nvlink_peers(struct topo_model *m, int32_t gpu, uint64_t bus, uint32_t bw)
{
	uint32_t halves = (uint32_t)topo_model_halves(m, bus);
	ncclResult_t rc = ncclSuccess;

	for (int32_t i = topo_model_next_half(m, 0, bus); i != TOPO_NO_NODE && !rc;
	     i = topo_model_next_half(m, i + 1, bus))
		rc = topo_model_link(m, gpu, i, TOPO_LINK_NVL, bw / halves);
	return rc;
}

/* Returns the type of a link's other end. The class decides, as in NCCL and RCCL (0x12:
 * accelerators of AMD). Without a class the target decides: a GPU of the file or, if `virtual`, the
 * switch. */
static enum topo_node_type topo_nvlink_end(const char *class, bool virtual)
{
	if (!class || !*class)
		return virtual ? TOPO_NODE_NVS : TOPO_NODE_GPU;
	if (strncmp(class, "0x03", 4) == 0 || strncmp(class, "0x12", 4) == 0)
		return virtual ? TOPO_NODE_NVS : TOPO_NODE_GPU;
	return strncmp(class, "0x068001", 8) == 0 ? TOPO_NODE_CPU : TOPO_NODE_NVS;
}

/* Reads one link. All NVSwitches are one node, because every GPU reaches every switch. A link of a
 * GPU to itself (a cloud template) is ignored. The halves of a GPU share its links. */
static ncclResult_t topo_nvlink_read(struct topo_model *m, const struct xml_node *x, int32_t gpu)
{
	int32_t count;
	ncclResult_t rc = topo_input_int(x, "count", 1, 0, 1024, &count);
	if (rc)
		return rc;
	const char *target = xml_attr(x, "target"), *class = xml_attr(x, "tclass");
	uint64_t bus = 0;
	bool virtual = !target || strcmp(target, TOPO_VIRTUAL_SWITCH) == 0;
	if (!virtual && !topo_bus_parse(target, &bus))
		return topo_input_refuse(x,
					 "target=\"%.64s\", expected a PCI address like "
					 "0000:13:00.0, or " TOPO_VIRTUAL_SWITCH,
					 target);
	bus = topo_bus_on(m->node[gpu].host, bus);
	uint32_t bw = strcmp(x->name, "xgmi") == 0 ? topo_xgmi_mbps(m->node[gpu].gpu.gcn)
						   : topo_nvlink_mbps(m->node[gpu].gpu.sm);
	bw = bw * (uint32_t)count / (uint32_t)topo_model_halves(m, m->node[gpu].bus);
	enum topo_node_type end = topo_nvlink_end(class, virtual);
	if (count == 0 || (end == TOPO_NODE_GPU && bus == m->node[gpu].bus))
		return ncclSuccess;
	if (end == TOPO_NODE_CPU)
		return topo_model_link_both(m, gpu, topo_cpu_above(m, gpu), TOPO_LINK_NVL, bw);
	if (end == TOPO_NODE_NVS) {
		int32_t nvs = topo_switch_node(m, x->line);
		return nvs == TOPO_NO_NODE ? ncclSystemError
					   : topo_model_link_both(m, gpu, nvs, TOPO_LINK_NVL, bw);
	}
	if (topo_model_find(m, TOPO_NODE_GPU, bus) != TOPO_NO_NODE)
		return topo_nvlink_peers(m, gpu, bus, bw);
	INFO(LOG_GRAPH, "%s:%d: <%s> to %s, which is not in the file", m->source, x->line, x->name,
	     target);
	m->node[gpu].gpu.lost += count;
	return ncclSuccess;
}

/* Reads a link over which two switches exchange data without the CPU. */
static ncclResult_t topo_pcilink_read(struct topo_model *m, const struct xml_node *x, uint64_t from,
				      int32_t host)
{
	const char *target = xml_attr(x, "target");
	int32_t a = topo_model_find(m, TOPO_NODE_PCI, from), b;
	uint64_t bus;

	if (!target || !topo_bus_parse(target, &bus))
		return topo_input_refuse(x,
					 "target=\"%.64s\", expected the PCI address of a switch",
					 target ? target : "");
	b = topo_model_find(m, TOPO_NODE_PCI, topo_bus_on(host, bus));
	if (a == TOPO_NO_NODE || b == TOPO_NO_NODE) {
		INFO(LOG_GRAPH, "%s:%d: <pcilink> to %s: not between switches of the file",
		     m->source, x->line, target);
		return ncclSuccess;
	}
	return a == b ? ncclSuccess : topo_model_link(m, a, b, TOPO_LINK_LOC, TOPO_LOC_BW_MBPS);
}

/* Adds the C2C bridge of a GPU's halves, below the CPU. */
static ncclResult_t topo_c2c_bridge(struct topo_model *m, const struct xml_node *x, int32_t gpu,
				    uint32_t bw, int32_t *bridge)
{
	int32_t cpu = topo_cpu_above(m, gpu);
	uint64_t bus = m->node[gpu].bus;

	*bridge = topo_model_find(m, TOPO_NODE_C2C, bus);
	if (*bridge != TOPO_NO_NODE)
		return ncclSuccess;
	*bridge = topo_model_node(m, TOPO_NODE_C2C, x->line);
	if (*bridge == TOPO_NO_NODE)
		return ncclSystemError;
	struct topo_node *n = &m->node[*bridge];

	n->bus = bus;
	n->parent = cpu;
	n->host = m->node[cpu].host;
	snprintf(n->name, sizeof n->name, "C2C bridge");
	return topo_model_link_both(m, *bridge, cpu, TOPO_LINK_C2C, bw);
}

static ncclResult_t topo_c2c_read(struct topo_model *m, const struct xml_node *x, int32_t gpu)
{
	int32_t count, bw, to = topo_cpu_above(m, gpu);
	ncclResult_t rc = topo_input_int(x, "count", 1, 0, 64, &count);
	if (!rc)
		rc = topo_input_int(x, "bw", 0, 0, 10000000, &bw);
	if (rc || count == 0 || bw == 0)
		return rc;
	uint32_t mbps = (uint32_t)bw * (uint32_t)count;

	if (topo_model_halves(m, m->node[gpu].bus) > 1)
		rc = topo_c2c_bridge(m, x, gpu, mbps, &to);
	return rc ? rc : topo_model_link_both(m, gpu, to, TOPO_LINK_C2C, mbps);
}

/* Links a half to the halves before it. */
static ncclResult_t topo_half_links(struct topo_model *m, int32_t gpu)
{
	uint64_t bus = m->node[gpu].bus;
	ncclResult_t rc = ncclSuccess;

	for (int32_t i = topo_model_next_half(m, 0, bus); i < gpu && !rc;
	     i = topo_model_next_half(m, i + 1, bus))
		rc = topo_model_link_both(m, gpu, i, TOPO_LINK_LOC, TOPO_HALF_BW_MBPS);
	return rc;
}

/* Returns the GPU in use that this <gpu> of the function describes. */
static int32_t topo_links_owner(const struct topo_model *m, const struct xml_node *x, uint64_t bus,
				int32_t half)
{
	int32_t i = topo_model_next_half(m, 0, bus);

	while (i != TOPO_NO_NODE && m->node[i].gpu.half != half)
		i = topo_model_next_half(m, i + 1, bus);
	for (const struct xml_node *c = xml_child(x->parent, "gpu"); c != x;
	     c = xml_next(c, "gpu")) {
		int32_t other;

		if (topo_input_int(c, "mlopart", -1, -1, TOPO_MAX_HALVES - 1, &other) ||
		    other + 1 == half)
			return TOPO_NO_NODE; /* an earlier <gpu> of the same half counts */
	}
	return i;
}

static ncclResult_t topo_gpu_links(struct topo_model *m, const struct xml_node *x, uint64_t bus)
{
	int32_t gpu = topo_model_next_half(m, 0, bus), half;
	ncclResult_t rc;

	/* The GPU is not in use, or is inside another GPU or NIC and was not read. */
	if (gpu == TOPO_NO_NODE)
		return ncclSuccess;
	rc = topo_input_int(x, "mlopart", -1, -1, TOPO_MAX_HALVES - 1, &half);
	if (!rc)
		gpu = topo_links_owner(m, x, bus, half + 1);
	if (rc || gpu == TOPO_NO_NODE)
		return rc;
	rc = topo_half_links(m, gpu);
	for (struct xml_node *c = xml_child(x, NULL); c && !rc; c = xml_next(c, NULL)) {
		if (strcmp(c->name, "nvlink") == 0 || strcmp(c->name, "xgmi") == 0)
			rc = topo_nvlink_read(m, c, gpu);
		else if (strcmp(c->name, "c2c") == 0)
			rc = topo_c2c_read(m, c, gpu);
	}
	return rc;
}

static ncclResult_t topo_pci_links(struct topo_model *m, const struct xml_node *pci, int32_t host)
{
	const struct xml_node *gpu = xml_child(pci, "gpu");
	const char *text = xml_attr(pci, "busid");
	ncclResult_t rc = ncclSuccess;
	uint64_t bus;

	for (struct xml_node *c = xml_child(pci, "pci"); c && !rc; c = xml_next(c, "pci"))
		rc = topo_pci_links(m, c, host);
	if (rc || !text || !topo_bus_parse(text, &bus))
		return rc;
	bus = topo_bus_on(host, bus);
	for (struct xml_node *c = xml_child(pci, "pcilink"); c && !rc; c = xml_next(c, "pcilink"))
		rc = topo_pcilink_read(m, c, bus, host);
	for (; gpu && !rc; gpu = xml_next(gpu, "gpu"))
		rc = topo_gpu_links(m, gpu, bus);
	return rc;
}

/* Refuses GPUs without an NVSwitch if there are several hosts. Hosts of one NVLink domain reach
 * each other only over its NVSwitches. */
static ncclResult_t topo_hosts_check(const struct topo_model *m)
{
	int32_t hosts = topo_model_hosts(m);

	for (int32_t i = 0; i < m->node_count && hosts > 1; i++) {
		const struct topo_node *n = &m->node[i];
		int32_t k = 0;

		if (n->type != TOPO_NODE_GPU || n->gpu.local < 0)
			continue;
		while (k < m->edge_count &&
		       (m->edge[k].from != i || m->node[m->edge[k].to].type != TOPO_NODE_NVS))
			k++;
		if (k < m->edge_count)
			continue;
		WARN("%s:%d: GPU %s has no NVLink to an NVSwitch, expected one: the GPUs are of %d "
		     "hosts (host_hash of <cpu>), which have to be of one NVLink domain",
		     m->source, n->line, n->name, hosts);
		return ncclInvalidUsage;
	}
	return ncclSuccess;
}

ncclResult_t topo_input_links(struct topo_model *m, const struct xml_node *root)
{
	ncclResult_t rc = ncclSuccess;
	int32_t host = 0;

	for (struct xml_node *c = xml_child(root, "cpu"); c && !rc; c = xml_next(c, "cpu")) {
		rc = topo_input_host(m, c, &host);
		if (!rc)
			rc = topo_pci_links(m, c, host);
	}
	return rc ? rc : topo_hosts_check(m);
}
