/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures the search: for each machine the model with its paths, and all graphs, of one host and
 * of several. The figure is the CPU time of this process, the best of several rounds. Targets: all
 * graphs of a host of 8 GPUs 5 ms in the median, no machine above 200 ms, 16 GPUs 500 ms.
 *
 *   topo_search_bench FILE.xml...
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/log.h"
#include "core/base/xml.h"
#include "core/topo/topo_internal.h"

enum { ROUNDS = 5, BYTES_MAX = 1 << 20, MACHINES_MAX = 512 };

static uint64_t bench_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Selects the GPUs of a file in their order, and bare PCI functions of a GPU's class. */
static void bench_select(const struct xml_node *x, struct topo_select *select)
{
	for (struct xml_node *c = xml_child(x, NULL); c; c = xml_next(c, NULL)) {
		const char *class = xml_attr(c, "class"), *bus = xml_attr(c, "busid");
		bool gpu = xml_child(c, "gpu") != NULL ||
			   (class && strncmp(class, "0x0302", 6) == 0 && !xml_child(c, NULL));

		if (gpu && bus && select->count < TOPO_MAX_LOCAL)
			snprintf(select->gpu[select->count++].bus_id, sizeof select->gpu[0].bus_id,
				 "%s", bus);
		bench_select(c, select);
	}
}

static uint64_t bench_graphs(const struct topo_system *sys)
{
	static struct topo_graph graph;
	uint64_t start = bench_now();

	for (int inter = 0; inter <= (sys->nnets > 0); inter++)
		for (int p = 0; p < TOPO_SEARCHED_PATTERNS; p++)
			if (topo_search(sys, (enum topo_pattern)p, inter != 0, &graph))
				abort();
	return bench_now() - start;
}

struct bench_result {
	int32_t gpus;
	uint64_t graphs_ns;
};

/* Measures one machine. Each round appends a space, so that the file differs and is not cached. */
static bool bench_machine(const char *path, char *xml, struct bench_result *result)
{
	struct topo_select select = {0};
	struct xml_error error;
	struct xml_doc *doc;
	const struct topo_system *sys;
	uint64_t model_ns = UINT64_MAX;

	if (xml_parse(xml, strlen(xml), path, &doc, &error)) {
		printf("%s\n", error.text);
		return false;
	}
	bench_select(xml_root(doc), &select);
	xml_free(doc);
	result->graphs_ns = UINT64_MAX;
	for (int r = 0; r < ROUNDS; r++) {
		strcat(xml, " ");
		uint64_t start = bench_now();
		if (topo_system_get(xml, strlen(xml), path, &select, &sys)) {
			printf("%-72s %s\n", path, log_last_error());
			return false;
		}
		uint64_t ns = bench_now() - start, graphs_ns = bench_graphs(sys);
		model_ns = MIN_OF(model_ns, ns);
		result->graphs_ns = MIN_OF(result->graphs_ns, graphs_ns);
	}
	result->gpus = sys->ngpus;
	printf("%-72s %2d GPUs %2d nets  model %7.3f ms  graphs %8.3f ms\n", path, sys->ngpus,
	       sys->nnets, (double)model_ns / 1e6, (double)result->graphs_ns / 1e6);
	return true;
}

static int bench_compare(const void *a, const void *b)
{
	const struct bench_result *x = a, *y = b;

	return (x->graphs_ns > y->graphs_ns) - (x->graphs_ns < y->graphs_ns);
}

static void bench_summary(struct bench_result *result, int count, int32_t least, int32_t most)
{
	int n = 0;

	for (int i = 0; i < count; i++)
		if (result[i].gpus >= least && result[i].gpus <= most)
			result[n++] = result[i];
	if (n == 0)
		return;
	qsort(result, (size_t)n, sizeof *result, bench_compare);
	printf("%d machines of %d to %d GPUs: median %.3f ms, worst %.3f ms\n", n, least, most,
	       (double)result[n / 2].graphs_ns / 1e6, (double)result[n - 1].graphs_ns / 1e6);
}

static char *bench_read(const char *path)
{
	FILE *f = fopen(path, "rb");
	char *text = calloc(1, BYTES_MAX + ROUNDS + 1);

	if (!f || !text || !fread(text, 1, BYTES_MAX, f)) {
		printf("cannot read %s\n", path);
		exit(1);
	}
	fclose(f);
	return text;
}

int main(int argc, char **argv)
{
	static struct bench_result result[MACHINES_MAX], copy[MACHINES_MAX];
	static const int32_t range[][2] = {{1, 7}, {8, 8}, {9, 16}, {1, TOPO_MAX_LOCAL}};
	int count = 0;

	for (int i = 1; i < argc && count < MACHINES_MAX; i++) {
		char *xml = bench_read(argv[i]);

		count += bench_machine(argv[i], xml, &result[count]);
		free(xml);
	}
	for (size_t i = 0; i < ARRAY_LEN(range); i++) {
		memcpy(copy, result, sizeof copy);
		bench_summary(copy, count, range[i][0], range[i][1]);
	}
	return 0;
}
