/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures the connection of the graphs of many hosts: the rings and trees of all ranks, with a
 * line of INFO per rank, in one process; the part of one rank alone, as in a process per rank, with
 * the hash that ranks compare; and the heads of all ranks. The figure is the CPU time of this
 * process, the best of several rounds. Target: 1,024 hosts of 8 GPUs, all 8,192 ranks, 5 s.
 *
 *   NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=GRAPH topo_connect_bench FILE.xml [HOSTS] 2>LOG
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/log.h"
#include "core/topo/connect/heads.h"
#include "core/topo/topo_internal.h"

enum { ROUNDS = 5, BYTES_MAX = 1 << 20, GPUS = 8, HOSTS = 1024 };

static uint64_t bench_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void *bench_alloc(size_t count, size_t size)
{
	void *p = calloc(count, size);

	if (!p) {
		fprintf(stderr, "no memory for %zu x %zu bytes\n", count, size);
		exit(1);
	}
	return p;
}

static char *bench_read(const char *path)
{
	FILE *f = fopen(path, "rb");
	char *text = bench_alloc(1, BYTES_MAX);

	if (!f || !fread(text, 1, BYTES_MAX - 1, f)) {
		fprintf(stderr, "cannot read %s\n", path);
		exit(1);
	}
	fclose(f);
	return text;
}

static void bench_must(ncclResult_t rc)
{
	if (rc) {
		fprintf(stderr, "%s\n", log_last_error());
		exit(1);
	}
}

static const struct topo_system *bench_system(const char *path)
{
	struct topo_select select = {.count = GPUS};
	const struct topo_system *sys;
	char *xml = bench_read(path);

	for (int32_t i = 0; i < GPUS; i++)
		select.gpu[i].dev = i;
	bench_must(topo_system_get(xml, strlen(xml), path, &select, &sys));
	free(xml);
	return sys;
}

/* Returns the information that the ranks of `hosts` equal hosts have gathered. */
static struct topo_rank_info *bench_gather(const struct topo_system *sys, int hosts)
{
	static struct topo_graph ring, tree;
	struct topo_graph *const graph[TOPO_PATTERNS] = {[TOPO_RING] = &ring, [TOPO_TREE] = &tree};
	struct topo_rank_info *all = bench_alloc((size_t)hosts * GPUS, sizeof *all);

	bench_must(topo_search(sys, TOPO_RING, true, &ring));
	bench_must(topo_search(sys, TOPO_TREE, true, &tree));
	for (int h = 0; h < hosts; h++)
		for (int32_t i = 0; i < GPUS; i++)
			topo_rank_info_fill(&all[h * GPUS + i], sys, graph, 0x9e37u * (uint64_t)h,
					    i);
	return all;
}

static struct topo_heads_info *bench_gather_heads(const struct topo_system *sys, int hosts)
{
	static struct topo_graph graph[TOPO_HEAD_PATTERNS];
	struct topo_graph *graphs[TOPO_HEAD_PATTERNS];
	struct topo_heads_info *infos = bench_alloc((size_t)hosts * GPUS, sizeof *infos);

	for (int p = 0; p < TOPO_HEAD_PATTERNS; p++) {
		graphs[p] = &graph[p];
		bench_must(
			topo_search(sys, (enum topo_pattern)(TOPO_PATTERNS + p), true, graphs[p]));
	}
	for (int r = 0; r < hosts * GPUS; r++)
		topo_heads_info_fill(&infos[r], sys, graphs, r % GPUS);
	return infos;
}

/* Computes the heads of all ranks, each rank's part, and the hash. Returns the time. */
static uint64_t bench_heads(const struct topo_rank_info *all, const struct topo_heads_info *infos,
			    int ranks)
{
	struct topo_digest digest;
	struct topo_heads *heads;
	struct topo_nvls nvls;
	uint64_t start = bench_now();

	bench_must(topo_heads_connect(all, infos, ranks, &heads));
	for (int r = 0; r < ranks && topo_heads_count(heads, TOPO_NVLS); r++)
		topo_nvls_get(heads, r, &nvls);
	topo_heads_digest(heads, &digest);
	topo_heads_free(heads);
	return bench_now() - start;
}

/* Computes the rings and trees of all ranks, and logs the trees. Returns the time. */
static uint64_t bench_all(const struct topo_rank_info *all, int ranks)
{
	static struct topo_rings rings;
	static struct topo_trees trees;
	struct topo_connected *connected;
	uint64_t start = bench_now();

	bench_must(topo_connect_all(all, ranks, &connected));
	for (int r = 0; r < ranks; r++) {
		topo_connect_get(connected, r, &rings, &trees);
		topo_trees_log(&trees, rings.nchannels, r);
	}
	topo_connect_free(connected);
	return bench_now() - start;
}

/* Computes one rank's rings and trees, and the hash. Returns the time. */
static uint64_t bench_one(const struct topo_rank_info *all, int ranks, int rank)
{
	static struct topo_rings rings;
	static struct topo_trees trees;
	static struct topo_digest digest;
	size_t places = (size_t)ranks * DEV_MAX_CHANNELS;
	int32_t *order = bench_alloc(places, sizeof *order);
	int32_t *parent = bench_alloc(places, sizeof *parent);
	uint8_t *toward = bench_alloc((size_t)ranks, 1);
	uint64_t start = bench_now();

	bench_must(topo_connect_rings(all, ranks, rank, &rings, order));
	bench_must(topo_connect_trees(all, ranks, rank, &trees, parent));
	for (int32_t c = 0; c < rings.nchannels && c < trees.distinct; c++)
		topo_tree_toward(parent + (size_t)c * (size_t)ranks, ranks, rank, trees.down[c],
				 toward);
	topo_digest_make(&digest, ranks, rings.nchannels, &rings, order, &trees, parent);
	uint64_t ns = bench_now() - start;

	free(order);
	free(parent);
	free(toward);
	return ns;
}

int main(int argc, char **argv)
{
	int hosts = argc > 2 ? atoi(argv[2]) : HOSTS, ranks = hosts * GPUS;
	uint64_t all_ns = UINT64_MAX, one_ns = UINT64_MAX, heads_ns = UINT64_MAX;

	if (argc < 2 || hosts < 2 || hosts > 100000) {
		fprintf(stderr, "topo_connect_bench FILE.xml [HOSTS]\n");
		return 1;
	}
	const struct topo_system *sys = bench_system(argv[1]);
	struct topo_rank_info *all = bench_gather(sys, hosts);
	struct topo_heads_info *infos = bench_gather_heads(sys, hosts);

	for (int i = 0; i < ROUNDS; i++) {
		all_ns = MIN_OF(all_ns, bench_all(all, ranks));
		one_ns = MIN_OF(one_ns, bench_one(all, ranks, ranks / 2));
		heads_ns = MIN_OF(heads_ns, bench_heads(all, infos, ranks));
	}
	printf("%d hosts of %d GPUs: all %d ranks %.3f s, one rank alone %.3f ms, heads %.3f ms\n",
	       hosts, GPUS, ranks, (double)all_ns / 1e9, (double)one_ns / 1e6,
	       (double)heads_ns / 1e6);
	free(infos);
	free(all);
	return 0;
}
