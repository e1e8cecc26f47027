/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks the NCCL_* and DOPPEL_* variables of a command's environment and those of --env. Invalid
 * values are errors. In --env, names that have an option of their own are errors, too. Unknown
 * names and variables without an effect are warnings. Each is a line on stderr. Callers: main and
 * the commands with --env, before anything runs.
 */
#ifndef SIM_CLI_ENVIRONMENT_H
#define SIM_CLI_ENVIRONMENT_H

#include <argp.h>
#include <stdbool.h>

/* Checks the caller's variables for a command. False: one is invalid, which it has explained. */
bool cli_environment(const char *command);
/* True if ranks read this variable of the caller. */
bool cli_env_is_for_ranks(const char *assignment);
/* Checks that the argument of `option` (--env or similar) is NAME=VALUE. Another form, or a name
 * that no rank reads, ends the program with SIM_USAGE. */
void cli_env_check(const char *option, const char *assignment, struct argp_state *state);
/* Calls cli_env_check and warns of an unknown name. */
void cli_env_option(const char *option, const char *assignment, struct argp_state *state);

#endif
