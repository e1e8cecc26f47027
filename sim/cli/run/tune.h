/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * doppel tune: shared by tune.c (options, predictions), tune_print.c (table, JSON) and
 * tune_measure.c (runs). Times are in ns, of a single call.
 */
#ifndef SIM_CLI_TUNE_H
#define SIM_CLI_TUNE_H

#include "core/tune/allowed.h"
#include "core/tune/model.h"
#include "sim/cli/options.h"

struct tune_options {
	struct cli_options run; /* machine, hosts, GPUs, sizes, environment of its scenario */
	uint32_t funcs;         /* a bit per collective */
	bool measure, json;
};
DOPPEL_STATIC_CHECK(DEV_FUNC_COUNT < 32, "each collective has a bit in `funcs`");

/* Model that predicts the times on the machines of the options. */
struct tune_world {
	struct topo_summary summary;
	struct tune_model model;
	uint64_t allowed; /* a bit per program */
};
DOPPEL_STATIC_CHECK(DEV_PROGRAM_COUNT <= 64, "each program has a bit in `allowed`");

/* Predictions and measurements of a collective at one size. */
struct tune_row {
	uint64_t bytes;
	enum dev_program best, second;           /* DEV_PROGRAM_COUNT: no such program */
	struct tune_shape shape;                 /* shape of the best program */
	uint64_t measured_ns[DEV_PROGRAM_COUNT]; /* 0: not measured */
};
enum { TUNE_ROWS = 64, TUNE_GRAPH_CALLS = 20 };
struct tune_table {
	enum dev_func func;
	int n;
	struct tune_row row[TUNE_ROWS];
};

/* Returns the hardware on which programs are measured: "doubles" or "GPUs". NULL: this build has
 * only one of the doubles. */
const char *tune_measured_on(void);

/* Runs each allowed program of the table's collective there. Returns the exit code. */
int tune_measure(const struct tune_options *o, const struct tune_world *w, struct tune_table *t);

void tune_print(const struct tune_options *o, const struct tune_world *w,
		const struct tune_table *tables, int n);
void tune_print_json(const struct tune_options *o, const struct tune_world *w,
		     const struct tune_table *tables, int n);

#endif
