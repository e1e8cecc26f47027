/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * doppel topo search: prints the heads of NVLS and CollNet of several hosts. NCCL's log uses rank
 * numbers beyond the communicator for other objects. With N ranks, N is the network. N + 1 + h is
 * the group of all GPUs of the host, in which head h reduces.
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/topo/connect/heads.h"
#include "sim/cli/cli.h"
#include "sim/cli/topo/topo.h"

/* Prints "NVLS Head  0:  0  8": the ranks of one head, host by host. */
static void topo_print_heads(const struct topo_heads *h, enum topo_pattern pattern,
			     const char *name)
{
	for (int32_t i = 0; i < topo_heads_count(h, pattern); i++) {
		printf("%s %2d:", name, i);
		for (int32_t host = 0; host < topo_heads_hosts(h); host++)
			printf(" %2d", topo_heads_rank(h, pattern, i, host));
		printf("\n");
	}
}

/* Prints the host's own group, then the heads of child hosts, without a gap, as NCCL does. */
static void topo_print_nvls_tree(const struct topo_nvls *n, int t, int32_t rank, int32_t ranks)
{
	int32_t down[3] = {n->own.head < 0 ? -1 : ranks + 1 + n->own.head, -1, -1}, count = 1;

	for (int i = 0; i < 2; i++)
		if (n->down[t][i] >= 0)
			down[count++] = n->down[t][i];
	ASSERT(rank < ranks && n->own.head < ranks); /* numbers from `ranks` on are no ranks */
	printf(" %d/%d/%d->%d->%d", down[0], down[1], down[2], rank, n->up[t]);
}

static void topo_print_nvls(const struct topo_heads *h, int32_t ranks)
{
	struct topo_nvls nvls;

	topo_print_heads(h, TOPO_NVLS, "NVLS Head");
	if (topo_heads_count(h, TOPO_NVLS) == 0 || topo_heads_hosts(h) == 1)
		return;
	for (int32_t r = 0; r < ranks; r++) {
		topo_nvls_get(h, r, &nvls);
		printf("NVLS Trees :");
		for (int t = 0; t < TOPO_HEAD_TREES; t++)
			topo_print_nvls_tree(&nvls, t, r, ranks);
		printf("\n");
	}
}

/* Prints "CollNet Chain [0] 1->0->16": the rank below, the rank, the rank above. */
static void topo_print_chain(const struct topo_heads *h, int32_t ranks)
{
	struct topo_collnet_chain chain;
	int32_t count = topo_heads_count(h, TOPO_COLLNET_CHAIN);

	topo_print_heads(h, TOPO_COLLNET_CHAIN, "CollNet Chain Head");
	for (int32_t r = 0; r < ranks && count; r++) {
		topo_collnet_chain_get(h, r, &chain);
		printf("CollNet Chain");
		for (int32_t c = 0; c < count; c++)
			printf(" [%d] %d->%d->%d", c, chain.down[c], r, chain.up[c]);
		printf("\n");
	}
}

static void topo_print_ranks(const char *name, const int32_t *rank, int32_t count)
{
	if (count)
		printf(" %s", name);
	for (int32_t i = 0; i < count; i++)
		printf(" %d", rank[i]);
}

static void topo_print_direct(const struct topo_heads *h, int32_t ranks)
{
	struct topo_collnet_direct direct;
	int32_t count = topo_heads_count(h, TOPO_COLLNET_DIRECT);

	topo_print_heads(h, TOPO_COLLNET_DIRECT, "CollNet Direct Head");
	for (int32_t r = 0; r < ranks && count; r++) {
		topo_collnet_direct_get(h, r, &direct);
		printf("CollNet Direct rank %d", r);
		topo_print_ranks("down", direct.down, direct.downs);
		topo_print_ranks("up", direct.up, direct.ups);
		printf(" nHeads %d headRank %d out %d\n", count, direct.own.head,
		       direct.own.head < 0 ? -1 : ranks);
	}
}

static ncclResult_t topo_heads_search(const struct topo_job *job, const struct topo_system *sys,
				      struct topo_heads_info *infos)
{
	static struct topo_graph graph[TOPO_HEAD_PATTERNS];
	struct topo_graph *graphs[TOPO_HEAD_PATTERNS];
	ncclResult_t rc = ncclSuccess;

	for (int p = 0; p < TOPO_HEAD_PATTERNS && !rc; p++) {
		graphs[p] = &graph[p];
		rc = topo_search(sys, (enum topo_pattern)(TOPO_PATTERNS + p), job->hosts > 1,
				 graphs[p]);
	}
	for (int32_t r = 0; r < job->ranks && !rc; r++)
		topo_heads_info_fill(&infos[r], sys, graphs, job->all[r].local_rank);
	return rc;
}

int cli_topo_heads(const struct topo_job *job, const struct topo_system *sys)
{
	struct topo_heads_info *infos = calloc((size_t)job->ranks, sizeof *infos);
	struct topo_heads *heads = NULL;
	int code = SIM_PASS;

	if (!infos) {
		fprintf(stderr, "doppel topo: no memory for the heads of %d ranks\n", job->ranks);
		return SIM_USAGE;
	}
	if (topo_heads_search(job, sys, infos) ||
	    topo_heads_connect(job->all, infos, job->ranks, &heads)) {
		code = cli_topo_refused();
	} else {
		topo_print_nvls(heads, job->ranks);
		topo_print_chain(heads, job->ranks);
		topo_print_direct(heads, job->ranks);
	}
	topo_heads_free(heads);
	free(infos);
	return code;
}
