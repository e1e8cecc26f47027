/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The options that say what a run is, as an argp parser that commands have as a child: it fills a
 * scenario. What is wrong ends the program with SIM_USAGE, as argp does.
 */
#ifndef SIM_CLI_OPTIONS_H
#define SIM_CLI_OPTIONS_H

#include <argp.h>

#include "sim/cli/cli.h"
#include "sim/lab/scenario.h"

struct cli_options {
	struct scenario scenario;
	const char *fail_dir;
	bool gdb;
	bool collective; /* one was named */
	bool any;        /* that, or an option of the world or of the collective */
};

extern const struct argp cli_options_argp; /* its input is a struct cli_options */

/* The defaults, and the caller's NCCL_* and DOPPEL_*. */
void cli_options_default(struct cli_options *o);
/* False, explained: this build cannot run it. */
bool cli_options_check(const struct cli_options *o);
bool cli_has_both_doubles(void);

#define CLI_SELF_BYTES 4096
/* The path of this program; false: not known, which was said. */
bool cli_self(char out[CLI_SELF_BYTES]);
/* Replaces this process by gdb around the same command without --gdb; `then` is what gdb does
 * first, a NULL behind it, or NULL. Returns only when it cannot. */
int cli_under_gdb(int argc, char **argv, const char *const *then);

#endif
