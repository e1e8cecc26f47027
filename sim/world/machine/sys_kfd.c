/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * AMD's GPUs in /sys, as the kernel's compute driver lists them. The first nodes are the CPUs of
 * the NUMA nodes, the next ones are the GPUs. The files have the lines that
 * core/topo/detect/detect_kfd.c reads.
 */
#include <string.h>

#include "core/base/gfx.h"
#include "core/base/pci_address.h"
#include "sim/world/machine/files.h"
#include "sim/world/world_internal.h"

#define KFD_NODES     "/sys/class/kfd/kfd/topology/nodes"
#define KFD_LINK_XGMI 11
#define KFD_LANE_MBPS 50000

/* Writes a node's properties. g NULL: a CPU, whose GPU numbers are 0. */
static void kfd_node(struct files *f, int32_t node, const struct world_gpu *g)
{
	char dir[96];
	uint64_t at = 0;

	if (g && !pci_address_parse(g->bus_id, &at))
		at = 0;
	snprintf(dir, sizeof dir, KFD_NODES "/%d", node);
	files_put(f, dir, "properties",
		  "cpu_cores_count %d\nsimd_count %d\ngfx_target_version %u\nvendor_id %u\n"
		  "location_id %u\ndomain %u\n",
		  g ? 0 : 1, g ? 4 : 0, g ? gfx_version(g->gfx) : 0, g ? g->pci_device & 0xffff : 0,
		  (unsigned)((at >> 12 & 0xff) << 8 | (at >> 4 & 0x1f) << 3 | (at & 7)),
		  (unsigned)(at >> 20));
}

static void kfd_link(struct files *f, int32_t from, int32_t link, int32_t to, uint32_t lanes)
{
	char dir[96];

	snprintf(dir, sizeof dir, KFD_NODES "/%d/io_links/%d", from, link);
	files_put(f, dir, "properties",
		  "type %d\nnode_from %d\nnode_to %d\nmin_bandwidth %u\nmax_bandwidth %u\n",
		  KFD_LINK_XGMI, from, to, KFD_LANE_MBPS, KFD_LANE_MBPS * lanes);
}

/* Returns the index of the AMD GPU with that bus id; -1: no such GPU. */
static int32_t kfd_gpu_at(const struct world_machine *m, const char *bus_id)
{
	for (int32_t i = 0; i < m->gpu_count; i++)
		if (m->gpu[i].gfx && strcmp(m->gpu[i].bus_id, bus_id) == 0)
			return i;
	return -1;
}

static void kfd_links(struct files *f, const struct world_machine *m, int32_t gpu, int32_t cpus)
{
	const struct world_nvlink *l = m->nvlink + m->gpu[gpu].first_nvlink;
	int32_t links = 0;

	for (int32_t i = 0; i < m->gpu[gpu].nvlink_count; i++) {
		int32_t to = l[i].xgmi ? kfd_gpu_at(m, l[i].target) : -1;

		if (to >= 0)
			kfd_link(f, cpus + gpu, links++, cpus + to, l[i].count);
	}
}

void world_sys_kfd(struct files *f, const struct world_machine *m, int32_t cpus)
{
	int32_t gpus = 0;

	for (int32_t i = 0; i < m->gpu_count; i++)
		gpus += m->gpu[i].gfx != 0;
	if (!gpus)
		return;
	for (int32_t i = 0; i < cpus; i++)
		kfd_node(f, i, NULL);
	for (int32_t i = 0; i < m->gpu_count; i++)
		if (m->gpu[i].gfx) {
			kfd_node(f, cpus + i, &m->gpu[i]);
			kfd_links(f, m, i, cpus);
		}
}
