/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The `doppel` program: one file a command. A command gets its own argv (argv[0] is its name) and
 * returns an exit code of ARCHITECTURE section 10: 0 pass, 1 usage, 2 a collective returned an
 * error, 77 skipped, 127 crash, 128 no progress, 129 wrong result, 130 not deterministic, 131 leak.
 */
#ifndef SIM_CLI_CLI_H
#define SIM_CLI_CLI_H

#include <stdbool.h>
#include <stdint.h>

/* What a sweep calls its own program with, for a seed that is run twice; not for people. */
#define CLI_SWEEP_AGAIN "sweep-again"

int cli_run(int argc, char **argv);
int cli_sweep(int argc, char **argv);
int cli_replay(int argc, char **argv);
int cli_shrink(int argc, char **argv);
/* What doppel shrink DIR does. */
int cli_shrink_dir(const char *dir);
int cli_topo(int argc, char **argv);
int cli_exhaust(int argc, char **argv);
int cli_verbs_run(int argc, char **argv);
int cli_faults(int argc, char **argv);
int cli_env(int argc, char **argv);

struct argp;
/* argp_parse, as "doppel COMMAND"; what does not fit ends the program with SIM_USAGE. */
void cli_parse(const struct argp *argp, unsigned flags, int argc, char **argv, void *input);

/* "8", "64K", "16M", "1G" (powers of 1024, as nccl-tests has it). False: not a size. */
bool cli_parse_size(const char *text, uint64_t *bytes);
/* Decimal or 0x; false when anything else follows or it does not fit. */
bool cli_parse_u64(const char *text, uint64_t *value);

#endif
