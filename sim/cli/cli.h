/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The `doppel` program: one file per command. A command receives its own argv (argv[0] is its
 * name). It returns an exit code for sim_exit: an enum sim_verdict, or SIM_BY_SIGNAL plus a signal.
 */
#ifndef SIM_CLI_CLI_H
#define SIM_CLI_CLI_H

#include <stdbool.h>
#include <stdint.h>

/* Command with which a sweep starts this program for a seed that runs twice; not for users. */
#define CLI_SWEEP_AGAIN "sweep-again"

/* Must be called first. Ends the program with SIM_USAGE instead of SIM_PASS if output is lost. */
void cli_output_start(void);

int cli_run(int argc, char **argv);
int cli_sweep(int argc, char **argv);
int cli_sweep_merge(int argc, char **argv);
int cli_replay(int argc, char **argv);
int cli_report(int argc, char **argv);
/* doppel report DIR -o path; path NULL: report.html in the folder */
int cli_report_dir(const char *dir, const char *path);
struct scenario;
/* Splits this process in two. The child, which gets true, runs the scenario with files below
 * `root`. The parent gets false and in *code how the child ended; a run that failed has its page in
 * `path`. */
bool cli_report_after(const struct scenario *s, const char *root, const char *path, int *code);
int cli_shrink(int argc, char **argv);
/* doppel shrink DIR */
int cli_shrink_dir(const char *dir);
int cli_topo(int argc, char **argv);
/* doppel topo detect */
int cli_topo_detect(int argc, char **argv);
int cli_tune(int argc, char **argv);
int cli_exhaust(int argc, char **argv);
int cli_exec(int argc, char **argv);
int cli_cc(int argc, char **argv);
int cli_nvcc(int argc, char **argv);
int cli_verbs_run(int argc, char **argv);
/* dropin/cli: shows the HCAs of this host of the machine, in /dev and /sys of a private namespace,
 * to this process and to programs that it executes. Prints a line for a part that fails. */
void cli_hcas_show(uint32_t host);
int cli_ras(int argc, char **argv);
int cli_faults(int argc, char **argv);
int cli_env(int argc, char **argv);

/* Returns `text` and the names of Doppel's own machines, which argp frees; without memory,
 * `text`. */
char *cli_machines_help(const char *text);
/* Help filter of commands whose option --machine has the key OPTION_MACHINE: adds these names. */
char *cli_machine_help(int key, const char *text, void *input);

/* Reads the machines of a list as the world and the stack do. False: it has explained the error. */
bool cli_machines_fit(const char *list);

struct argp;
/* Calls argp_parse as "doppel COMMAND". An invalid argument ends the program with SIM_USAGE. */
void cli_parse(const struct argp *argp, unsigned flags, int argc, char **argv, void *input);

/* Prepends `dir` to LD_LIBRARY_PATH for a program that is started. False: no memory. */
bool cli_library_path(const char *dir);

/* Parses "8", "64K", "16M", "1G" (powers of 1024, as nccl-tests). False: not a size. */
bool cli_parse_size(const char *text, uint64_t *bytes);
/* Parses a decimal or 0x number. False: other characters follow, or it does not fit. */
bool cli_parse_u64(const char *text, uint64_t *value);

/* Parses "60", "60s", "10m", "1h" into ns; at least one second. */
#define CLI_SECONDS "a time of at least a second, such as 60s, 10m or 1h"
bool cli_parse_seconds(const char *text, uint64_t *ns);

#endif
