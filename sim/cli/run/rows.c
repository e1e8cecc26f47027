/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/cli/run/rows.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/macros.h"
#include "sim/engine/base/output.h"
#include "sim/lab/check/payload.h"

#define ROWS_JSON "doppel run: --json"
#define ROWS_PLOT "doppel run: --plot"

bool cli_rows_check(const struct cli_rows *rows)
{
	return !(rows->json && output_check(ROWS_JSON, rows->json)) &&
	       !(rows->plot && output_check(ROWS_PLOT, rows->plot));
}

void cli_rows_add(const struct lab_row_result *r, void *arg)
{
	struct cli_rows *rows = arg;

	if (rows->n == rows->room) {
		size_t room = MAX_OF(2 * rows->room, (size_t)64);
		struct cli_row *more = realloc(rows->row, room * sizeof *more);

		if (!more) {
			if (!rows->lost)
				fprintf(stderr, "doppel run: no memory for rows after %zu\n",
					rows->n);
			rows->lost = true;
			return;
		}
		rows->row = more;
		rows->room = room;
	}
	ASSERT(rows->n < rows->room);
	double *each = NULL;
	if (r->iteration_us) {
		each = malloc(r->iterations * sizeof *each);
		if (each)
			memcpy(each, r->iteration_us, r->iterations * sizeof *each);
		else
			rows->lost = true;
	}
	rows->row[rows->n] = (struct cli_row){.row = *r->row, .result = *r};
	rows->row[rows->n++].result.iteration_us = each;
}

void cli_json_text(const char *text, FILE *out)
{
	fputc('"', out);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', out);
		fputc((uint8_t)*text < ' ' ? ' ' : *text, out);
	}
	fputc('"', out);
}

static void rows_json_iterations(const struct lab_row_result *r, FILE *out)
{
	if (!r->iteration_us)
		return;
	ASSERT(r->iterations > 0);
	fputs("\"iterations_us\":[", out);
	for (uint32_t i = 0; i < r->iterations; i++)
		fprintf(out, "%s%.3f", i ? "," : "", r->iteration_us[i]);
	fputs("],", out);
}

static void rows_json_row(const struct cli_row *r, FILE *out)
{
	fprintf(out,
		"{\"bytes\":%" PRIu64 ",\"count\":%" PRIu64 ",\"type\":\"%s\",\"op\":\"%s\","
		"\"root\":%d,\"in_place\":%s,\"time_us\":%.3f,\"algbw_gbps\":%.6g,"
		"\"busbw_gbps\":%.6g,",
		r->row.bytes, r->row.count, payload_type_name(r->row.payload.type),
		lab_row_op(&r->row), r->row.root, r->row.in_place ? "true" : "false",
		r->result.time_us, r->result.algbw_gbps, r->result.busbw_gbps);
	rows_json_iterations(&r->result, out);
	fputs("\"wrong\":", out);
	if (r->result.checked)
		fprintf(out, "%" PRIu64 "}", r->result.wrong);
	else
		fputs("null}", out);
}

static void rows_json(const struct cli_rows *rows, const struct lab_result *r, FILE *out)
{
	const struct scenario *s = rows->scenario;
	bool sim = s->lab.sim.engine == SIM_ENGINE_SIM;

	fprintf(out,
		"{\"collective\":\"%s\",\"commit\":\"%s\",\"machine\":", s->lab.collective->name,
		build_commit());
	cli_json_text(s->machine, out);
	fprintf(out,
		",\"hosts\":%u,\"ranks\":%d,\"engine\":\"%s\",\"seed\":\"0x%" PRIx64
		"\",\"strategy\":",
		s->lab.hosts, r->nranks, sim ? "sim" : "threads", r->seed);
	cli_json_text(r->strategy, out);
	if (sim)
		fprintf(out, ",\"hash\":\"%016" PRIx64 "\"", r->hash);
	fprintf(out,
		",\"code\":%d,\"wrong\":%" PRIu64 ",\"guard_wrong\":%" PRIu64
		",\"busbw_average_gbps\":%.6g,\n\"rows\":[",
		(int)lab_outcome(&s->lab, r), r->wrong, r->guard_wrong, r->busbw_average);
	for (size_t i = 0; i < rows->n; i++) {
		fputs(i ? ",\n" : "\n", out);
		rows_json_row(&rows->row[i], out);
	}
	fputs("]}\n", out);
}

static void
rows_write(struct cli_rows *rows, const struct lab_result *r, const char *what, const char *path,
	   void (*write)(const struct cli_rows *rows, const struct lab_result *r, FILE *out))
{
	FILE *f = output_open(what, path);

	if (f)
		write(rows, r, f);
	if (!f || output_close(f, what, path))
		rows->lost = true;
}

void cli_rows_end(const struct lab_result *r, void *arg)
{
	struct cli_rows *rows = arg;

	if (rows->json)
		rows_write(rows, r, ROWS_JSON, rows->json, rows_json);
	if (rows->plot)
		rows_write(rows, r, ROWS_PLOT, rows->plot, cli_plot);
}

void cli_rows_free(struct cli_rows *rows)
{
	for (size_t i = 0; i < rows->n; i++)
		free((void *)rows->row[i].result.iteration_us);
	free(rows->row);
}
