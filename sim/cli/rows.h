/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rows of a run's table, kept for files: JSON (rows.c) and a plot (plot.c). `doppel run` fills
 * them by lab_config's on_row and writes the files when the run has ended, with success or not.
 */
#ifndef SIM_CLI_ROWS_H
#define SIM_CLI_ROWS_H

#include <stdio.h>

#include "sim/lab/collective.h"
#include "sim/lab/scenario.h"

struct cli_row {
	struct lab_row row;
	struct lab_row_result result;
};

struct cli_rows {
	const struct scenario *scenario;
	struct cli_row *row;
	size_t n, room;
	const char *json, *plot; /* files; NULL: none */
	bool lost;               /* a file or a row was lost; that was printed */
};

/* False, explained: a file cannot be written. */
bool cli_rows_check(const struct cli_rows *rows);
/* For lab_config's on_row and on_result; `rows` is a struct cli_rows. */
void cli_rows_add(const struct lab_row_result *r, void *rows);
void cli_rows_end(const struct lab_result *r, void *rows);
void cli_rows_free(struct cli_rows *rows);
/* A name or path between quotation marks. */
void cli_json_text(const char *text, FILE *out);

/* plot.c: bus bandwidth and time over size as an SVG picture. */
void cli_plot(const struct cli_rows *rows, const struct lab_result *r, FILE *out);

#endif
