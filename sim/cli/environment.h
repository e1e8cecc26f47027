/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The variables NCCL_* and DOPPEL_* that a command finds, and those of --env. Garbage and names that
 * are for something else are errors; unknown names and variables without an effect are warnings, a line on
 * stderr each. Called by main and by the commands that have --env, before anything runs.
 */
#ifndef SIM_CLI_ENVIRONMENT_H
#define SIM_CLI_ENVIRONMENT_H

#include <argp.h>
#include <stdbool.h>

/* Checks the caller's variables for a command. False: one has garbage, as explained. */
bool cli_environment(const char *command);
/* Is this variable of the caller one that ranks read? */
bool cli_env_is_for_ranks(const char *assignment);
/* Checks that the argument of --env, or of an option like it, is NAME=VALUE. Another form, or a name that no rank
 * reads, ends the program with SIM_USAGE. */
void cli_env_check(const char *option, const char *assignment, struct argp_state *state);
/* The same, and an unknown name is a warning. */
void cli_env_option(const char *option, const char *assignment, struct argp_state *state);

#endif
