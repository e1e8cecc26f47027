/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of a program that does more than its series. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/macros.h"
#include "sim/cli/environment.h"
#include "sim/cli/options.h"
#include "sim/world/world.h"

static void options_parse_ends(struct cli_options *o, const char *arg, struct argp_state *state)
{
	static const char *const names[] = {"in-order", "reversed", "seed", "each"};

	for (int i = 0; i < (int)ARRAY_LEN(names); i++)
		if (strcmp(arg, names[i]) == 0) {
			o->scenario.lab.ends = (enum lab_ends)i;
			return;
		}
	argp_error(state, "--ends %s: expected in-order, reversed, seed or each", arg);
}

static void options_parse_leaves(struct cli_options *o, const char *arg, struct argp_state *state)
{
	static const char *const names[] = {"abort", "destroy", "finalize", "each"};

	for (int i = 0; i < (int)ARRAY_LEN(names); i++)
		if (strcmp(arg, names[i]) == 0) {
			o->scenario.lab.leaves = (enum lab_leaves)i;
			return;
		}
	argp_error(state, "--leaves %s: expected abort, destroy, finalize or each", arg);
}

static void options_parse_env_odd(struct cli_options *o, const char *arg, struct argp_state *state)
{
	cli_env_option("--env-odd", arg, state);
	if (strlen(arg) >= sizeof o->scenario.env_odd)
		argp_error(state, "--env-odd %.20s...: longer than %d characters", arg,
			   SCENARIO_ENV_BYTES - 1);
	if (world_env_check(arg))
		exit(SIM_USAGE);
	snprintf(o->scenario.env_odd, sizeof o->scenario.env_odd, "%s", arg);
}

bool cli_program_parse(int key, char *arg, struct argp_state *state, struct cli_options *o)
{
	switch (key) {
	case OPTION_HASTY:
		o->scenario.lab.hasty = true;
		return true;
	case OPTION_BEFORE:
		o->scenario.lab.before = cli_collective_find("--before: ", arg, state);
		return true;
	case OPTION_STREAMS:
		o->scenario.lab.streams =
			(uint32_t)cli_number(state, "--streams", arg, 1, LAB_MAX_STREAMS);
		return true;
	case OPTION_PER_ITERATION:
		o->scenario.lab.per_iteration = true;
		return true;
	case OPTION_GROUP:
		o->scenario.lab.group = (uint32_t)cli_number(state, "--group", arg, 1, 4096);
		return true;
	case OPTION_COMMS:
		o->scenario.lab.comms =
			(uint32_t)cli_number(state, "--comms", arg, 1, LAB_MAX_COMMS);
		return true;
	case OPTION_TRANSIENT:
		o->scenario.lab.transient =
			(uint32_t)cli_number(state, "--transient", arg, 0, LAB_MAX_TRANSIENT);
		return true;
	case OPTION_IDLE:
		o->scenario.lab.idle =
			(uint32_t)cli_number(state, "--idle", arg, 0, LAB_MAX_TRANSIENT);
		return true;
	case OPTION_MIXED:
		o->scenario.lab.mixed = (uint32_t)cli_number(state, "--mixed", arg, 0, 4096);
		return true;
	case OPTION_LATE:
		o->scenario.lab.late = (uint32_t)cli_number(state, "--late", arg, 0, LAB_MAX_LATE);
		return true;
	case OPTION_FINALIZE:
		o->scenario.lab.finalize = true;
		return true;
	case OPTION_NONBLOCKING:
		o->scenario.lab.nonblocking = true;
		return true;
	case OPTION_POLLS:
		o->scenario.lab.polls = true;
		return true;
	case OPTION_REFUSED:
		o->scenario.lab.refused = (uint32_t)cli_number(state, "--refused", arg, 0, 4096);
		return true;
	case OPTION_INIT_FAILS:
		o->scenario.lab.init_fails =
			(uint32_t)cli_number(state, "--init-fails", arg, 0, LAB_MAX_TRANSIENT);
		return true;
	case OPTION_PAUSES:
		o->scenario.lab.pauses =
			(uint32_t)cli_number(state, "--pauses", arg, 0, LAB_MAX_PAUSES);
		return true;
	case OPTION_LEAVES:
		options_parse_leaves(o, arg, state);
		return true;
	case OPTION_ENDS:
		options_parse_ends(o, arg, state);
		return true;
	case OPTION_CONFIG_VERSION:
		o->scenario.lab.config_version =
			(uint32_t)cli_number(state, "--config-version", arg, 0, 99999);
		return true;
	case OPTION_ENV_ODD:
		options_parse_env_odd(o, arg, state);
		return true;
	case OPTION_ANY_NUMBERS:
		o->scenario.lab.any_numbers = true;
		return true;
	default:
		return false;
	}
}
