/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "core/topo/search/search.h"

/* NCCL's speeds to try, in MB/s. First index: before sm 90, sm 90, sm 100 in 2.28, sm 100. Second
 * index: inside a host, between hosts. */
static const uint32_t speeds_table[4][2][24] = {
	{{40000, 30000, 20000, 18000, 15000, 12000, 10000, 9000, 7000, 6000, 5000, 4000, 3000},
	 {48000, 30000, 28000, 24000, 20000, 18000, 15000, 12000, 10000, 9000, 7000, 6000, 5000,
	  4000, 3000, 2400, 1200, 240, 120}},
	{{60000, 50000, 40000, 30000, 24000, 20000, 15000, 12000, 11000, 6000, 3000},
	 {48000, 45000, 42000, 40000, 30000, 24000, 22000, 20000, 17500, 15000, 12000, 6000, 3000,
	  2400, 1200, 240, 120}},
	{{90000, 80000, 70000, 60000, 50000, 40000, 30000, 24000, 20000, 19000, 18000},
	 {96000, 48000, 45100, 42000, 40000, 30000, 24000, 22000, 20000, 17500, 15000, 12000, 6000,
	  3000, 2400, 1200, 240, 120}},
	{{90000, 80000, 70000, 60000, 50000, 45000, 40000, 30000, 24000, 20000, 19000, 18000},
	 {96000, 86000, 80000, 48000, 45100, 42000, 40000, 30000, 24000, 22000,
	  20000, 17500, 15000, 12000, 6000,  3000,  2400,  1200,  240,   120}},
};
/* Slower speeds, which NCCL does not try inside a host. There a table ends at 3 GB/s or, from sm
 * 100 on, at 18 GB/s. No PCI link between two sockets has 18 GB/s. */
static const uint32_t speeds_slow[] = {15000, 12000, 10000, 9000, 7000, 6000, 5000,
				       4000,  3000,  2400,  1200, 240,  120};

int32_t topo_speeds(const struct topo_system *sys, bool inter, uint32_t *speed, int32_t *slow)
{
	int32_t generation = sys->sm_min >= 100 ? 3 : sys->sm_min >= 90 ? 1 : 0, count = 0;

	if (generation == 3 && sys->params.compat == TOPO_COMPAT_2_28)
		generation = 2;
	while (speeds_table[generation][inter][count]) {
		speed[count] = speeds_table[generation][inter][count];
		count++;
	}
	*slow = 0;
	for (size_t i = 0; i < ARRAY_LEN(speeds_slow); i++)
		if (speeds_slow[i] < speed[count - 1])
			speed[count + (*slow)++] = speeds_slow[i];
	count += *slow;
	ASSERT(count <= TOPO_MAX_SPEEDS);
	return count;
}

/* Returns the bandwidth that a GPU can send: its NVLinks together or its PCI link, whichever is
 * more. */
static uint64_t topo_speeds_gpu_total(const struct topo_system *sys, int32_t pos)
{
	const struct topo_node *gpu = topo_gpu_node(sys, pos);
	uint64_t nvlink = 0, pci = 0;

	for (int32_t i = 0; i < gpu->link_count; i++) {
		const struct topo_link *link = &sys->link[gpu->first_link + i];

		if (link->type == TOPO_LINK_NVL)
			nvlink += link->bw_mbps;
		else if (link->type == TOPO_LINK_PCI)
			pci = link->bw_mbps;
	}
	return MAX_OF(nvlink, pci);
}

void topo_speeds_limits(const struct topo_search *s, uint32_t *max_bw, uint64_t *total_bw)
{
	const struct topo_system *sys = s->sys;

	*max_bw = TOPO_LOC_BW_MBPS;
	*total_bw = TOPO_LOC_BW_MBPS;
	if (!s->inter && s->n == 1)
		return;
	*max_bw = s->inter ? sys->best_bw_net : sys->best_bw_gpu;
	*total_bw = 0;
	for (int32_t pos = 0; pos < s->n; pos++)
		*total_bw = MAX_OF(*total_bw, topo_speeds_gpu_total(sys, pos));
}
