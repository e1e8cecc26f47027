/* SPDX-License-Identifier: BSD-3-Clause */
/* doppel faults, doppel env: the two tables. */
#include <stdio.h>
#include <string.h>

#include "core/base/param.h"
#include "sim/cli/cli.h"
#include "sim/engine/sim.h"

static int cli_no_arguments(int argc, char **argv)
{
	if (argc > 1) {
		fprintf(stderr, "doppel %s: takes no arguments, got '%s'\n", argv[0], argv[1]);
		return SIM_USAGE;
	}
	return SIM_PASS;
}

int cli_faults(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "--json") == 0) {
		sim_fault_print_sites_json(stdout);
		return SIM_PASS;
	}
	if (argc > 1) {
		fprintf(stderr, "doppel faults: takes --json or nothing, got '%s'\n", argv[1]);
		return SIM_USAGE;
	}
	sim_fault_print_sites(stdout);
	printf("\nrare paths that exploring seeds take by themselves (one seed in four, one visit "
	       "in four):\n");
	sim_buggify_print_sites(stdout);
	printf("\nprobes, states that a campaign should have seen:\n");
	sim_probe_print_sites(stdout);
	return SIM_PASS;
}

int cli_env(int argc, char **argv)
{
	int rc = cli_no_arguments(argc, argv);
	if (rc == SIM_PASS)
		param_print(stdout);
	return rc;
}
