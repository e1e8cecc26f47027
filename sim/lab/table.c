/* SPDX-License-Identifier: BSD-3-Clause */
/* The table that nccl-tests users know. */
#include <inttypes.h>
#include <string.h>

#include "core/os/os_ops.h"
#include "sim/lab/runner_internal.h"
#include "sim/world/world.h"

static bool lab_time_is_virtual(void)
{
	return sim_engine_kind() == SIM_ENGINE_SIM;
}

static void lab_table_rank(const struct lab_run *run, int32_t r)
{
	const struct lab_config *c = run->config;
	uint32_t local = (uint32_t)r % run->local_ranks, host = (uint32_t)r / run->local_ranks;
	int32_t dev = c->device_count ? c->devices[local] : (int32_t)local;
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

void lab_table_header(const struct lab_run *run)
{
	const struct lab_config *c = run->config;
	FILE *out = c->table;
	fprintf(out, "# nRanks %d nHosts %u minBytes %" PRIu64 " maxBytes %" PRIu64, run->nranks,
		c->spread ? (uint32_t)(run->nranks / run->count) : c->hosts, c->bytes_min,
		c->bytes_max);
	if (c->factor >= 2)
		fprintf(out, " step: %u(factor)", c->factor);
	else
		fprintf(out, " step: %" PRIu64 "(bytes)", c->bytes_step);
	fprintf(out, " warmup iters: %u iters: %u validation: %d\n#\n", c->warmup, c->iterations,
		c->check);
	fprintf(out, "# Using devices of machine %s\n", world_host_machine(0)->path);
	for (int32_t r = 0; r < run->count; r++)
		lab_table_rank(run, r);
	const char *what = lab_time_is_virtual() ? "virtual us" : "us";
	fprintf(out, "#\n#%53sout-of-place%30sin-place\n", "", "");
	fprintf(out, "#%11s %13s %9s %7s %5s %11s %7s %7s %6s %11s %7s %7s %6s\n", "size", "count",
		"type", "redop", "root", "time", "algbw", "busbw", "#wrong", "time", "algbw",
		"busbw", "#wrong");
	fprintf(out, "#%11s %13s %9s %7s %5s %11s %7s %7s %6s %11s %7s %7s %6s\n", "(B)",
		"(elements)", "", "", "", what, "(GB/s)", "(GB/s)", "", what, "(GB/s)", "(GB/s)",
		"");
	fflush(out);
}

void lab_table_row(struct lab_run *run, const struct lab_row *row)
{
	const struct lab_config *c = run->config;
	FILE *out = c->table;
	uint64_t sum_ns = 0;
	for (int32_t r = 0; r < run->count; r++)
		sum_ns += run->rank[r].elapsed_ns;
	double us = (double)sum_ns / run->count / c->iterations / 1000.0;
	double algbw = us > 0 ? (double)row->bytes / us / 1000.0 : 0;
	double busbw = algbw * 2 * (run->nranks - 1) / run->nranks;
	char wrong[24];
	run->busbw_sum += busbw;
	run->busbw_rows++;
	if (!row->in_place || !c->out_of_place)
		fprintf(out, "%12" PRIu64 " %13" PRIu64 " %9s %7s %5d", row->bytes, row->count,
			payload_type_name(row->payload.type), payload_op_name(row->payload.op), -1);
	if (c->check)
		snprintf(wrong, sizeof wrong, "%" PRIu64, run->row_wrong[row->in_place]);
	else
		snprintf(wrong, sizeof wrong, "N/A");
	fprintf(out, " %11.2f %7.2f %7.2f %6s", us, algbw, busbw, wrong);
	if (row->in_place || !c->in_place)
		fprintf(out, "\n");
	fflush(out);
	if (c->progress && (row->in_place || !c->in_place)) {
		fprintf(stderr, "\r%" PRIu64 " B %s %s done, %" PRIu64 " steps\033[K\r", row->bytes,
			payload_type_name(row->payload.type), payload_op_name(row->payload.op),
			sim_steps());
		fflush(stderr);
	}
}

void lab_table_footer(struct lab_run *run)
{
	FILE *out = run->config->table;
	if (run->config->progress)
		fprintf(stderr, "\033[K");
	fprintf(out, "# Out of bounds values : %" PRIu64 " %s\n", run->wrong + run->guard_wrong,
		run->wrong + run->guard_wrong ? "FAILED" : "OK");
	fprintf(out, "# Avg bus bandwidth    : %.4g GB/s (%s time)\n",
		run->busbw_rows ? run->busbw_sum / run->busbw_rows : 0,
		lab_time_is_virtual() ? "virtual" : "real");
	fflush(out);
}
