/* SPDX-License-Identifier: BSD-3-Clause */
/* doppel faults and doppel env: print the two tables. */
#include <argp.h>
#include <stdio.h>

#include "core/base/param.h"
#include "sim/cli/cli.h"
#include "sim/engine/sim.h"

enum { LISTS_JSON = 256 }; /* has no letter */

static error_t lists_parse_faults(int key, char *arg, struct argp_state *state)
{
	bool *json = state->input;

	switch (key) {
	case LISTS_JSON:
		*json = true;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "takes --json or nothing, got '%s'", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int cli_faults(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{"json", LISTS_JSON, NULL, 0, "the sites and their actions, for programs", 0}, {0}};
	static const struct argp argp = {
		.options = options,
		.parser = lists_parse_faults,
		.doc = "Lists the fault sites, what can happen at each, and the grammar of a plan "
		       "(--faults=FILE); then the rare paths that exploring seeds take, and the "
		       "probes."};
	bool json = false;

	cli_parse(&argp, 0, argc, argv, &json);
	if (json) {
		sim_fault_print_sites_json(stdout);
		return SIM_PASS;
	}
	sim_fault_print_sites(stdout);
	printf("\nrare paths that exploring seeds take by themselves (one seed in four, one visit "
	       "in four):\n");
	sim_buggify_print_sites(stdout);
	printf("\nprobes, states that a campaign should have seen:\n");
	sim_probe_print_sites(stdout);
	return SIM_PASS;
}

static error_t lists_parse_env(int key, char *arg, struct argp_state *state)
{
	if (key != ARGP_KEY_ARG)
		return ARGP_ERR_UNKNOWN;
	argp_error(state, "takes no arguments, got '%s'", arg);
	return 0;
}

int cli_env(int argc, char **argv)
{
	static const struct argp argp = {.parser = lists_parse_env,
					 .doc = "Lists the environment variables: type, default "
						"and meaning. An empty one is "
						"as if unset."};

	cli_parse(&argp, 0, argc, argv, NULL);
	param_print(stdout);
	return SIM_PASS;
}
