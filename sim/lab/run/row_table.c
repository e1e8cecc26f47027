/* SPDX-License-Identifier: BSD-3-Clause */
/* The table that nccl-tests users know. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/os/os_ops.h"
#include "sim/lab/run/runner_internal.h"
#include "sim/world/world.h"

static bool lab_time_is_virtual(void)
{
	return sim_engine_kind() == SIM_ENGINE_SIM;
}

static void lab_table_rank(const struct lab_run *run, int32_t r)
{
	const struct lab_config *c = run->config;
	uint32_t local = run->slot[r].local, host = run->slot[r].host;
	int32_t dev = lab_device(c, local);
	const struct world_gpu *g = &world_host_machine(host)->gpu[dev];
	char name[64] = "";
	if (!c->spread) {
		fprintf(c->table, "#  Rank %2d on host%u process %u device %2d [%s] sm_%u\n", r,
			host, (uint32_t)local / c->ranks_per_proc, dev, g->bus_id, g->sm);
		return;
	}
	os_host_name(name, sizeof name);
	fprintf(c->table, "#  Rank %2d on %s process %d device %2d [%s] sm_%u\n",
		c->spread->first + r, name, sim_main_proc()->pid, dev, g->bus_id, g->sm);
}

static bool lab_table_is_new(uint32_t host)
{
	for (uint32_t h = 0; h < host; h++)
		if (world_host_machine(h) == world_host_machine(host))
			return false;
	return true;
}

void lab_table_header(const struct lab_run *run)
{
	const struct lab_config *c = run->config;
	const char *time = c->launch_time ? "cputime" : "time";
	FILE *out = c->table;
	fprintf(out, "# nRanks %d nHosts %u minBytes %" PRIu64 " maxBytes %" PRIu64, run->nranks,
		c->spread ? c->spread->hosts : c->hosts, c->bytes_min, c->bytes_max);
	if (c->factor >= 2)
		fprintf(out, " step: %u(factor)", c->factor);
	else
		fprintf(out, " step: %" PRIu64 "(bytes)", c->bytes_step);
	fprintf(out, " warmup: %u iters: %u validation: %d", c->warmup, c->iterations, c->check);
	if (c->aggregate > 1)
		fprintf(out, " agg iters: %u", c->aggregate);
	if (c->graph_launches)
		fprintf(out, " graph: %u", c->graph_launches);
	fprintf(out, "\n#\n");
	for (uint32_t h = 0; h < world_host_count(); h++)
		if (lab_table_is_new(h))
			fprintf(out, "# Using devices of machine %s\n",
				world_host_machine(h)->path);
	for (int32_t r = 0; r < run->count; r++)
		lab_table_rank(run, r);
	fprintf(out, "#\n#%39s%30s%30s\n", "",
		lab_time_is_virtual() ? "out-of-place, virtual time" : "out-of-place",
		lab_time_is_virtual() ? "in-place, virtual time" : "in-place");
	fprintf(out, "#%9s %9s %8s %5s %4s %8s %6s %6s %6s %8s %6s %6s %6s\n", "size", "count",
		"type", "redop", "root", time, "algbw", "busbw", "#wrong", time, "algbw", "busbw",
		"#wrong");
	fprintf(out, "#%9s %9s %29s %6s %6s %15s %6s %6s\n", "(B)", "(elems)", "(us)", "(GB/s)",
		"(GB/s)", "(us)", "(GB/s)", "(GB/s)");
	fflush(out);
}

/* At most 8 characters, as long as it takes less than three years. */
static void lab_table_us(char out[24], double us)
{
	snprintf(out, 24, "%.*f", us < 1e5 ? 2 : us < 1e6 ? 1 : 0, us);
}

static void lab_table_left(struct lab_run *run, const struct lab_row *row)
{
	run->line_n = snprintf(run->line, sizeof run->line,
			       "%10" PRIu64 " %9" PRIu64 " %8s %5s %4d", row->bytes, row->count,
			       payload_type_name(row->payload.type), lab_row_op(row), row->root);
	ASSERT((size_t)run->line_n < sizeof run->line / 2); /* the numbers of both places follow */
}

/* A line that is not whole waits for its other half where a progress line would overwrite it. */
static void lab_table_print(struct lab_run *run, bool whole)
{
	FILE *out = run->config->table;

	if (whole)
		lab_progress_clear(run);
	if (!whole && run->config->progress)
		return;
	fprintf(out, "%s%s", run->line, whole ? "\n" : "");
	fflush(out);
	run->line_n = 0;
	run->line[0] = 0;
}

enum { TABLE_SERIES = -1, TABLE_LAUNCH = -2 };

/* Over the ranks, of the whole series, of its calls, or of an iteration from 0. */
static double table_time_ns(const struct lab_run *run, int what)
{
	uint64_t sum = 0, least = UINT64_MAX, most = 0, first = 0;

	ASSERT(run->count > 0 && what >= TABLE_LAUNCH);
	for (int32_t r = 0; r < run->count; r++) {
		const struct lab_rank *rank = &run->rank[r];
		uint64_t ns = what == TABLE_SERIES   ? rank->elapsed_ns
			      : what == TABLE_LAUNCH ? rank->launch_ns
						     : rank->tick_ns[what];

		first = r ? first : ns;
		sum += ns;
		least = MIN_OF(least, ns);
		most = MAX_OF(most, ns);
	}
	switch (run->config->average) {
	case LAB_FIRST_RANK:
		return (double)first;
	case LAB_LEAST:
		return (double)least;
	case LAB_MOST:
		return (double)most;
	case LAB_MEAN:
		break;
	}
	return (double)sum / run->count;
}

static const double *table_iterations(struct lab_run *run)
{
	const struct lab_config *c = run->config;

	if (!c->per_iteration)
		return NULL;
	if (!run->iteration_us)
		run->iteration_us = calloc(c->iterations, sizeof *run->iteration_us);
	for (uint32_t i = 0; run->iteration_us && i < c->iterations; i++)
		run->iteration_us[i] = table_time_ns(run, (int)i) / 1000.0;
	return run->iteration_us;
}

static struct lab_row_result table_result(struct lab_run *run, const struct lab_row *row)
{
	const struct lab_config *c = run->config;
	double calls = (double)c->iterations * MAX_OF(c->aggregate, 1u);
	double us = table_time_ns(run, TABLE_SERIES) / calls / 1000.0;
	double algbw = us > 0 ? (double)row->bytes / us / 1000.0 : 0;

	return (struct lab_row_result){
		.row = row,
		.time_us = c->launch_time ? table_time_ns(run, TABLE_LAUNCH) / calls / 1000.0 : us,
		.algbw_gbps = algbw,
		.busbw_gbps = algbw * lab_collective_bus_factor(row->collective, run->nranks),
		.checked = c->check,
		.wrong = run->row_wrong[row->in_place],
		.iteration_us = table_iterations(run),
		.iterations = c->per_iteration ? c->iterations : 0,
	};
}

/* A line for each iteration; those of both places come after the line that has both. */
static void table_iteration_lines(struct lab_run *run, const struct lab_row_result *r)
{
	double factor = lab_collective_bus_factor(r->row->collective, run->nranks);

	if (r->iteration_us && !run->later)
		run->later = open_memstream(&run->later_text, &run->later_bytes);
	for (uint32_t i = 0; r->iteration_us && run->later && i < r->iterations; i++) {
		double us = r->iteration_us[i];
		double algbw = us > 0 ? (double)r->row->bytes / us / 1000.0 : 0;

		fprintf(run->later,
			"#%9" PRIu64 " B, iteration %3" PRIu32
			", %-12s %9.2f us %7.2f GB/s, bus %7.2f "
			"GB/s\n",
			r->row->bytes, i + 1, r->row->in_place ? "in-place" : "out-of-place", us,
			algbw, algbw * factor);
	}
}

static void table_print_later(struct lab_run *run)
{
	if (!run->later)
		return;
	fclose(run->later);
	fputs(run->later_text, run->config->table);
	fflush(run->config->table);
	free(run->later_text);
	run->later = NULL;
	run->later_text = NULL;
}

static void table_print_row(struct lab_run *run, const struct lab_row_result *r)
{
	char time[24], wrong[24] = "N/A";
	bool in_place = r->row->in_place;

	if (!in_place ||
	    !lab_collective_out_of_place(r->row->collective, run->config->out_of_place))
		lab_table_left(run, r->row);
	if (r->checked)
		snprintf(wrong, sizeof wrong, "%" PRIu64, r->wrong);
	lab_table_us(time, r->time_us);
	snprintf(run->line + run->line_n, sizeof run->line - (size_t)run->line_n,
		 " %8s %6.2f %6.2f %6s", time, r->algbw_gbps, r->busbw_gbps, wrong);
	run->line_n = (int)strlen(run->line);
	table_iteration_lines(run, r);
	bool whole =
		in_place || !lab_collective_in_place(r->row->collective, run->config->in_place);
	lab_table_print(run, whole);
	if (whole)
		table_print_later(run);
}

void lab_table_row(struct lab_run *run, const struct lab_row *row)
{
	const struct lab_config *c = run->config;
	struct lab_row_result r = table_result(run, row);

	run->busbw_sum += r.busbw_gbps;
	run->busbw_rows++;
	if (c->table)
		table_print_row(run, &r);
	if (c->on_row)
		c->on_row(&r, c->on_row_arg);
}

void lab_table_footer(struct lab_run *run)
{
	FILE *out = run->config->table;
	fprintf(out, "# Out of bounds values : %" PRIu64 " %s\n", run->wrong + run->guard_wrong,
		run->wrong + run->guard_wrong ? "FAILED" : "OK");
	fprintf(out, "# Avg bus bandwidth    : %.4g GB/s (%s time)\n",
		run->busbw_rows ? run->busbw_sum / run->busbw_rows : 0,
		lab_time_is_virtual() ? "virtual" : "real");
	fflush(out);
}
