/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collects the rows of a run's table for files: JSON (rows.c) and a plot (plot.c). lab_config's
 * on_row fills them. `doppel run` writes the files at the end of the run, even if it failed.
 */
#ifndef SIM_CLI_ROWS_H
#define SIM_CLI_ROWS_H

#include <stdio.h>

#include "sim/lab/check/collective.h"
#include "sim/lab/search/scenario.h"

struct cli_row {
	struct lab_row row;
	struct lab_row_result result;
};

struct cli_rows {
	const struct scenario *scenario;
	struct cli_row *row;
	size_t n, room;
	const char *json, *plot; /* output files; NULL: none */
	bool lost;               /* a file or a row was lost, which was printed */
};

/* False if a file cannot be written, which it has explained. */
bool cli_rows_check(const struct cli_rows *rows);
/* Implement lab_config's on_row and on_result; `rows` is a struct cli_rows. */
void cli_rows_add(const struct lab_row_result *r, void *rows);
void cli_rows_end(const struct lab_result *r, void *rows);
void cli_rows_free(struct cli_rows *rows);
/* Writes a name or path as a JSON string. */
void cli_json_text(const char *text, FILE *out);

/* plot.c: draws bus bandwidth and time over size as SVG. */
void cli_plot(const struct cli_rows *rows, const struct lab_result *r, FILE *out);

#endif
