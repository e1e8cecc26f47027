/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The `doppel` program: one file a command. A command gets its own argv (argv[0] is its name) and
 * returns what sim_exit ends the program with: an enum sim_verdict, or SIM_BY_SIGNAL plus a signal.
 */
#ifndef SIM_CLI_CLI_H
#define SIM_CLI_CLI_H

#include <stdbool.h>
#include <stdint.h>

/* What a sweep calls its own program with, for a seed that is run twice; not for people. */
#define CLI_SWEEP_AGAIN "sweep-again"

/* First of all: output that is lost ends the program with SIM_USAGE instead of SIM_PASS. */
void cli_output_start(void);

int cli_run(int argc, char **argv);
int cli_sweep(int argc, char **argv);
int cli_replay(int argc, char **argv);
int cli_shrink(int argc, char **argv);
/* What doppel shrink DIR does. */
int cli_shrink_dir(const char *dir);
int cli_topo(int argc, char **argv);
/* What doppel topo detect does. */
int cli_topo_detect(int argc, char **argv);
int cli_tune(int argc, char **argv);
int cli_exhaust(int argc, char **argv);
int cli_exec(int argc, char **argv);
int cli_verbs_run(int argc, char **argv);
int cli_faults(int argc, char **argv);
int cli_env(int argc, char **argv);

/* `text` and the machines that come with Doppel, for argp to free; or `text`. */
char *cli_machines_help(const char *text);

/* Reads the machines of a list, as the world and the stack will. False: explained. */
bool cli_machines_fit(const char *list);

struct argp;
/* argp_parse, as "doppel COMMAND"; what does not fit ends the program with SIM_USAGE. */
void cli_parse(const struct argp *argp, unsigned flags, int argc, char **argv, void *input);

/* LD_LIBRARY_PATH begins with `dir`, for the program that is started. False: no memory. */
bool cli_library_path(const char *dir);

/* "8", "64K", "16M", "1G" (powers of 1024, as nccl-tests has it). False: not a size. */
bool cli_parse_size(const char *text, uint64_t *bytes);
/* Decimal or 0x; false when anything else follows or it does not fit. */
bool cli_parse_u64(const char *text, uint64_t *value);

/* "60", "60s", "10m", "1h": to ns, from one second on. */
#define CLI_SECONDS "a time of at least a second, such as 60s, 10m or 1h"
bool cli_parse_seconds(const char *text, uint64_t *ns);

#endif
