/* SPDX-License-Identifier: BSD-3-Clause */
/* doppel tune: prints the table for people, and as JSON for programs. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/macros.h"
#include "sim/cli/run/rows.h"
#include "sim/cli/run/tune.h"

enum { PRINT_LABEL = 24, PRINT_WIDTH = 15 };

static const char *print_label(int program, char text[PRINT_LABEL])
{
	ASSERT(program >= 0 && program <= DEV_PROGRAM_COUNT);
	if (program == DEV_PROGRAM_COUNT)
		return "none";
	snprintf(text, PRINT_LABEL, "%s/%s", tune_algo_name(program), tune_proto_name(program));
	return text;
}

/* True if the program belongs to the table's collective: each such program is a column. */
static bool print_has_column(const struct tune_table *t, int program)
{
	return tune_func(program) == t->func;
}

static void print_world(const struct tune_options *o, const struct tune_world *w)
{
	const struct topo_graph_summary *g = &w->summary.graph[TOPO_RING];

	printf("# %s, hosts: %d, ranks: %d, sm: %d, channels: %d\n# ring: %d channels with %.1f "
	       "GB/s "
	       "inside hosts (%s)",
	       o->run.scenario.machine, w->summary.nhosts, w->summary.nranks, w->summary.sm_least,
	       w->model.nchannels, g->nchannels, g->bw_intra_mbps / 1000.0,
	       topo_path_name((enum topo_path_type)g->type_intra));
	if (w->summary.nhosts > 1)
		printf(", %.1f between hosts (%s)", g->bw_inter_mbps / 1000.0,
		       topo_path_name((enum topo_path_type)g->type_inter));
	printf("\n# predicted: NCCL's model of GPUs, us; (...): not allowed by NCCL_ALGO and "
	       "NCCL_PROTO; -: not on these machines; Symmetric: not chosen, calls have no "
	       "windows\n");
	if (o->measure && !cli_has_both_doubles())
		printf("# GPUs: time of a call in a CUDA graph of %d, us, of the slowest rank\n",
		       TUNE_GRAPH_CALLS);
	else if (o->measure)
		printf("# doubles: virtual time of a run on the doubles, us: what the steps of the "
		       "double cost, not a GPU's time\n");
}

static void print_header(const struct tune_options *o, const struct tune_table *t)
{
	char label[PRINT_LABEL];

	printf("#\n# %s\n#%11s", tune_func_name(t->func), "size");
	for (int p = 0; p < DEV_PROGRAM_COUNT; p++) {
		if (!print_has_column(t, p))
			continue;
		printf(" %*s", PRINT_WIDTH, print_label(p, label));
		if (o->measure)
			printf(" %*s", PRINT_WIDTH, tune_measured_on());
	}
	printf(" %*s %9s %8s %7s\n", PRINT_WIDTH, "choice", "faster by", "channels", "threads");
}

static void print_us(uint64_t ns, bool allowed)
{
	char text[32];

	snprintf(text, sizeof text, allowed ? "%.1f" : "(%.1f)", (double)ns / 1000);
	printf(" %*s", PRINT_WIDTH, text);
}

static void print_cell(const struct tune_options *o, const struct tune_world *w,
		       const struct tune_row *row, int p)
{
	const struct algo_cost *cost = &w->model.program[p];

	if (cost->bw_mbps)
		print_us(tune_time_ns(cost, row->bytes), tune_is_allowed(w->allowed, p));
	else
		printf(" %*s", PRINT_WIDTH, "-");
	if (o->measure && row->measured_ns[p])
		print_us(row->measured_ns[p], true);
	else if (o->measure)
		printf(" %*s", PRINT_WIDTH, "-");
}

/* Returns the extra time of the second-best program in percent; 0: there is no second. */
static uint64_t print_percent(const struct tune_world *w, const struct tune_row *row)
{
	uint64_t best, second;

	if (row->second == DEV_PROGRAM_COUNT)
		return 0;
	best = tune_time_ns(&w->model.program[row->best], row->bytes);
	second = tune_time_ns(&w->model.program[row->second], row->bytes);
	ASSERT(second >= best); /* the best is the fastest of those allowed */
	return (second - best) / MAX_OF(best / 100, 1ull);
}

static void print_row(const struct tune_options *o, const struct tune_world *w,
		      const struct tune_table *t, const struct tune_row *row)
{
	char label[PRINT_LABEL], by[24] = "-";

	printf("%12" PRIu64, row->bytes);
	for (int p = 0; p < DEV_PROGRAM_COUNT; p++)
		if (print_has_column(t, p))
			print_cell(o, w, row, p);
	if (row->best != DEV_PROGRAM_COUNT && row->second != DEV_PROGRAM_COUNT)
		snprintf(by, sizeof by, "%" PRIu64 "%%", print_percent(w, row));
	printf(" %*s %9s %8d %7u\n", PRINT_WIDTH, print_label(row->best, label), by,
	       row->shape.nchannels, row->shape.nthreads);
}

void tune_print(const struct tune_options *o, const struct tune_world *w,
		const struct tune_table *tables, int n)
{
	print_world(o, w);
	for (int i = 0; i < n; i++) {
		print_header(o, &tables[i]);
		for (int k = 0; k < tables[i].n; k++)
			print_row(o, w, &tables[i], &tables[i].row[k]);
	}
}

/* ---- for programs --------------------------------------------------------------------------- */

static void json_program(const struct tune_options *o, const struct tune_world *w,
			 const struct tune_row *row, int p)
{
	const struct algo_cost *cost = &w->model.program[p];
	char label[PRINT_LABEL];

	printf("{\"program\":\"%s\",\"allowed\":%s,\"time_us\":", print_label(p, label),
	       tune_is_allowed(w->allowed, p) ? "true" : "false");
	if (cost->bw_mbps)
		printf("%.3f", (double)tune_time_ns(cost, row->bytes) / 1000);
	else
		printf("null");
	if (o->measure && row->measured_ns[p])
		printf(",\"%s_us\":%.3f", cli_has_both_doubles() ? "doubles" : "gpus",
		       (double)row->measured_ns[p] / 1000);
	printf("}");
}

static void json_row(const struct tune_options *o, const struct tune_world *w,
		     const struct tune_table *t, const struct tune_row *row)
{
	char label[PRINT_LABEL];
	bool first = true;

	printf("{\"bytes\":%" PRIu64 ",\"choice\":", row->bytes);
	if (row->best == DEV_PROGRAM_COUNT)
		printf("null");
	else
		printf("\"%s\",\"channels\":%d,\"threads\":%u", print_label(row->best, label),
		       row->shape.nchannels, row->shape.nthreads);
	printf(",\"programs\":[");
	for (int p = 0; p < DEV_PROGRAM_COUNT; p++) {
		if (!print_has_column(t, p))
			continue;
		printf("%s", first ? "" : ",");
		json_program(o, w, row, p);
		first = false;
	}
	printf("]}");
}

static void json_table(const struct tune_options *o, const struct tune_world *w,
		       const struct tune_table *t)
{
	printf("{\"collective\":\"%s\",\"rows\":[", tune_func_name(t->func));
	for (int k = 0; k < t->n; k++) {
		printf("%s", k ? ",\n" : "\n");
		json_row(o, w, t, &t->row[k]);
	}
	printf("]}");
}

void tune_print_json(const struct tune_options *o, const struct tune_world *w,
		     const struct tune_table *tables, int n)
{
	const struct topo_graph_summary *g = &w->summary.graph[TOPO_RING];

	printf("{\"machine\":");
	cli_json_text(o->run.scenario.machine, stdout);
	printf(",\"hosts\":%d,\"ranks\":%d,\"channels\":%d,\n\"ring\":{\"channels\":%d,"
	       "\"inside_mbps\":%u,\"between_mbps\":%u,\"inside\":\"%s\",\"between\":\"%s\"},\n"
	       "\"collectives\":[",
	       w->summary.nhosts, w->summary.nranks, w->model.nchannels, g->nchannels,
	       g->bw_intra_mbps, g->bw_inter_mbps,
	       topo_path_name((enum topo_path_type)g->type_intra),
	       topo_path_name((enum topo_path_type)g->type_inter));
	for (int i = 0; i < n; i++) {
		printf("%s", i ? ",\n" : "\n");
		json_table(o, w, &tables[i]);
	}
	printf("]}\n");
}
