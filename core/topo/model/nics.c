/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Matches the file's NICs with the network's devices. The file describes how NICs are attached, the
 * network which ones exist. Both know them by name. A NIC of the file that the network lacks is
 * removed: it is filtered out, or its port is down. A device that the file lacks (a soft-RoCE
 * device, one of a plugin, a file of another machine) is put below the file's NIC with its bus id,
 * else below the first CPU.
 */
#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "core/topo/topo_internal.h"

/* Returns the index of the network's device with that name; for a merged NIC, the first of its
 * devices that the network has. -1: no such device. */
static int32_t topo_nic_find(const struct topo_select *select, const char *name)
{
	for (int32_t i = 0; i < select->devices; i++)
		if (topo_merged_has(name, select->device[i].name))
			return i;
	return -1;
}

static bool topo_nic_in_file(const struct topo_model *m, const char *name)
{
	for (int32_t i = 0; i < m->node_count; i++)
		if (m->node[i].type == TOPO_NODE_NET && !m->node[i].dead &&
		    topo_merged_has(m->node[i].name, name))
			return true;
	return false;
}

static int32_t topo_first_cpu(const struct topo_model *m)
{
	for (int32_t i = 0; i < m->node_count; i++)
		if (m->node[i].type == TOPO_NODE_CPU && !m->node[i].dead)
			return i;
	return TOPO_NO_NODE;
}

int32_t topo_model_next_net(const struct topo_model *m)
{
	int32_t next = 0;
	for (int32_t i = 0; i < m->node_count; i++)
		if (m->node[i].type == TOPO_NODE_NET && m->node[i].dev < INT32_MAX)
			next = MAX_OF(next, m->node[i].dev + 1);
	return next;
}

/* Returns the file's NIC at that PCI address; TOPO_NO_NODE: it has none. */
static int32_t topo_nic_at(const struct topo_model *m, const char *bus_id)
{
	uint64_t bus;

	if (!topo_bus_parse(bus_id, &bus))
		return TOPO_NO_NODE;
	for (int32_t i = 0; i < m->node_count; i++)
		if (m->node[i].type == TOPO_NODE_NIC && !m->node[i].dead && m->node[i].bus == bus)
			return i;
	return TOPO_NO_NODE;
}

/* Makes a NIC below the first CPU. */
static ncclResult_t topo_nic_virtual(struct topo_model *m, const char *name, int32_t *nic)
{
	int32_t cpu = topo_first_cpu(m);

	if (cpu == TOPO_NO_NODE) {
		WARN("%s: no CPU to put NIC %s below", m->source, name);
		return ncclInvalidUsage;
	}
	*nic = topo_model_node(m, TOPO_NODE_NIC, 0);
	if (*nic == TOPO_NO_NODE)
		return ncclSystemError;
	snprintf(m->node[*nic].name, sizeof m->node[*nic].name, "virtual");
	m->node[*nic].parent = cpu;
	INFO(LOG_GRAPH, "%s: NIC %s is not in it: put below the first CPU", m->source, name);
	return topo_model_link_both(m, *nic, cpu, TOPO_LINK_PCI, TOPO_LOC_BW_MBPS);
}

static ncclResult_t topo_nic_add(struct topo_model *m, const struct topo_select *select, int32_t i)
{
	int32_t nic = topo_nic_at(m, select->device[i].bus_id), dev = topo_model_next_net(m), net;
	ncclResult_t rc = ncclSuccess;
	struct topo_node *n;

	if (nic == TOPO_NO_NODE)
		rc = topo_nic_virtual(m, select->device[i].name, &nic);
	if (rc)
		return rc;
	net = topo_model_node(m, TOPO_NODE_NET, 0);
	if (net == TOPO_NO_NODE)
		return ncclSystemError;
	n = &m->node[net];
	snprintf(n->name, sizeof n->name, "%s", select->device[i].name);
	n->parent = nic;
	n->dev = dev;
	n->net.port = select->device[i].port;
	n->net.gdr = select->device[i].gdr;
	n->net.coll = select->device[i].coll;
	n->net.link = select->device[i].link;
	n->net.guid = select->device[i].guid;
	n->net.has_guid = n->net.guid != 0;
	n->net.rail = n->net.plane = -1;
	n->net.bw_mbps = (select->device[i].mbit ? select->device[i].mbit : 10000) / 8;
	return topo_model_link_both(m, nic, net, TOPO_LINK_NET, n->net.bw_mbps);
}

ncclResult_t topo_model_nics(struct topo_model *m, const struct topo_select *select)
{
	ncclResult_t rc = ncclSuccess;
	for (int32_t i = 0; i < m->node_count; i++) {
		struct topo_node *n = &m->node[i];
		if (n->type != TOPO_NODE_NET || n->dead)
			continue;
		int32_t d = topo_nic_find(select, n->name);
		if (d >= 0) {
			n->net.link = select->device[d].link;
			n->net.coll |= select->device[d].coll;
			continue;
		}
		INFO(LOG_GRAPH, "%s: NIC %s is not a device of the network: left out", m->source,
		     n->name);
		topo_model_kill(m, i);
	}
	for (int32_t i = 0; i < select->devices && !rc; i++)
		if (!topo_nic_in_file(m, select->device[i].name))
			rc = topo_nic_add(m, select, i);
	return rc;
}
