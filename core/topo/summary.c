/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Summary of all ranks' descriptions: the slowest speed, the fewest channels, and the kinds of GPUs
 * and CPUs. It depends only on the gathered data, so that every rank computes the same.
 */
#include <string.h>

#include "core/base/log.h"
#include "core/topo/connect/topo_connect.h"

static void topo_summary_graph(struct topo_graph_summary *s, const struct topo_graph_info *g)
{
	s->bw_intra_mbps = MIN_OF(s->bw_intra_mbps, g->bw_intra_mbps);
	s->bw_inter_mbps = MIN_OF(s->bw_inter_mbps, g->bw_inter_mbps);
	s->type_intra = MAX_OF(s->type_intra, g->type_intra);
	s->type_inter = MAX_OF(s->type_inter, g->type_inter);
	s->same_channels = MIN_OF(s->same_channels, g->same_channels);
	s->shape = MAX_OF(s->shape, g->shape);
}

static void topo_summary_fold(struct topo_summary *s, const struct topo_rank_info *all,
			      int32_t nchannels)
{
	bool direct = s->nhosts == 1;

	s->sm_least = s->sm_most = all[0].sm;
	for (int p = 0; p < TOPO_PATTERNS; p++) {
		const struct topo_graph_info *g = &all[0].graph[p];

		s->graph[p] = (struct topo_graph_summary){.nchannels = nchannels,
							  .bw_intra_mbps = g->bw_intra_mbps,
							  .bw_inter_mbps = g->bw_inter_mbps,
							  .same_channels = g->same_channels,
							  .shape = g->shape};
	}
	for (int32_t r = 0; r < s->nranks; r++) {
		s->sm_least = MIN_OF(s->sm_least, all[r].sm);
		s->sm_most = MAX_OF(s->sm_most, all[r].sm);
		s->amd_cpus += all[r].amd_cpu != 0;
		s->direct = MAX_OF(s->direct, all[r].direct);
		direct = direct && all[r].direct >= 0;
		for (int p = 0; p < TOPO_PATTERNS; p++)
			topo_summary_graph(&s->graph[p], &all[r].graph[p]);
	}
	if (!direct)
		s->direct = -1;
}

/* Counts the ranks of each host. `ranks` is scratch: [nranks]. */
static void topo_summary_hosts(struct topo_summary *s, const struct topo_hosts *h, int32_t *ranks)
{
	memset(ranks, 0, (size_t)h->count * sizeof *ranks);
	for (int32_t r = 0; r < h->nranks; r++)
		ranks[h->of_rank[r]]++;
	s->host_least = s->host_most = ranks[0];
	for (int32_t i = 1; i < h->count; i++) {
		s->host_least = MIN_OF(s->host_least, ranks[i]);
		s->host_most = MAX_OF(s->host_most, ranks[i]);
	}
}

ncclResult_t topo_summary_make(struct topo_summary *s, const struct topo_rank_info *all, int nranks)
{
	size_t n = (size_t)nranks;
	int32_t *memory = os_alloc(3 * n * sizeof *memory, "hosts of the ranks");
	struct topo_hosts hosts = {.all = all, .nranks = nranks, .of_rank = memory};

	ASSERT(nranks >= 1);
	*s = (struct topo_summary){.nranks = nranks};
	if (!memory) {
		WARN("no memory to find the hosts of %d ranks", nranks);
		return ncclSystemError;
	}
	topo_hosts_find(&hosts, memory + n);
	s->nhosts = hosts.count;
	topo_summary_hosts(s, &hosts, memory + n);
	os_free(memory);
	topo_summary_fold(s, all, topo_connect_channels(&hosts));
	return ncclSuccess;
}
