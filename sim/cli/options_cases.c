/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of dimensions whose values are no number, name, size or text. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/macros.h"
#include "sim/cli/environment.h"
#include "sim/cli/options.h"
#include "sim/world/world.h"

/* Parses one number, or one number per host. */
static void options_parse_gpus(struct cli_options *o, const char *arg, struct argp_state *state)
{
	struct lab_config *c = &o->scenario.lab;
	char copy[8 * LAB_MAX_HOST_GPUS], *rest = copy, *t;

	c->host_gpus_n = 0;
	c->gpus = 0;
	if (!strchr(arg, ',')) {
		c->gpus = (uint32_t)cli_number(state, "--gpus", arg, 1, 4096);
		return;
	}
	if ((size_t)snprintf(copy, sizeof copy, "%s", arg) >= sizeof copy)
		argp_error(state, "--gpus: longer than %zu characters", sizeof copy - 1);
	while ((t = strsep(&rest, ","))) {
		if (c->host_gpus_n == LAB_MAX_HOST_GPUS)
			argp_error(state, "--gpus: more than %d hosts", LAB_MAX_HOST_GPUS);
		c->host_gpus[c->host_gpus_n++] = (uint32_t)cli_number(state, "--gpus", t, 1, 4096);
	}
	cli_give(&o->given, OPTION_GPU_LIST);
}

/* Parses a list of GPUs. An empty item is an error, as it is not a number. */
static void options_parse_devices(struct cli_options *o, const char *arg, struct argp_state *state)
{
	char copy[16 * LAB_MAX_DEVICES], *rest = copy, *t;
	if ((size_t)snprintf(copy, sizeof copy, "%s", arg) >= sizeof copy)
		argp_error(state, "--devices: longer than %zu characters", sizeof copy - 1);
	o->scenario.lab.device_count = 0;
	while ((t = strsep(&rest, ","))) {
		if (o->scenario.lab.device_count == LAB_MAX_DEVICES)
			argp_error(state, "--devices: more than %d GPUs", LAB_MAX_DEVICES);
		o->scenario.lab.devices[o->scenario.lab.device_count] =
			(int32_t)cli_number(state, "--devices", t, 0, INT32_MAX);
		for (uint32_t i = 0; i < o->scenario.lab.device_count; i++)
			if (o->scenario.lab.devices[i] ==
			    o->scenario.lab.devices[o->scenario.lab.device_count])
				argp_error(state, "--devices: GPU %s appears twice", t);
		o->scenario.lab.device_count++;
	}
}

static void options_parse_plugins(struct lab_config *c, const char *arg, struct argp_state *state)
{
	char copy[64], *rest = copy, *t;

	if ((size_t)snprintf(copy, sizeof copy, "%s", arg) >= sizeof copy)
		argp_error(state, "--plugins: longer than %zu characters", sizeof copy - 1);
	c->plugins = 0;
	while ((t = strsep(&rest, ","))) {
		int i = 0;

		while (lab_plugin_names[i] && strcmp(lab_plugin_names[i], t) != 0)
			i++;
		if (!lab_plugin_names[i])
			argp_error(state,
				   "--plugins %s: expected a list of tuner, profiler, net, collnet",
				   t);
		c->plugins |= 1u << i;
	}
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

static void options_add_env(struct cli_options *o, const char *assignment, struct argp_state *state)
{
	cli_env_option("--env", assignment, state);
	switch (scenario_set_env(&o->scenario, assignment)) {
	case ENOSPC:
		argp_error(state, "--env: more than %d variables", SCENARIO_MAX_ENV);
		return;
	case E2BIG:
		argp_error(state, "--env %.20s...: longer than %d characters", assignment,
			   SCENARIO_ENV_BYTES - 1);
		return;
	}
}

static void options_read_plan(struct cli_options *o, const char *arg, struct argp_state *state)
{
	DOPPEL_STATIC_CHECK(sizeof o->scenario.plan == SCENARIO_PLAN_BYTES, "a plan and its end");
	o->scenario.plan[0] = 0;
	if (!strcmp(arg, "random")) {
		o->scenario.lab.sim.fault_random = true;
		cli_give(&o->given, OPTION_RANDOM_FAULTS);
		return;
	}
	FILE *f = fopen(arg, "r");
	if (!f)
		argp_error(state, "--faults %s: %s", arg, strerror(errno));
	size_t n = fread(o->scenario.plan, 1, SCENARIO_PLAN_BYTES, f);
	bool bad = ferror(f) != 0;
	fclose(f);
	if (bad || n == SCENARIO_PLAN_BYTES)
		argp_error(state, "--faults %s: a plan is a file of at most %d bytes", arg,
			   SCENARIO_PLAN_BYTES - 1);
	o->scenario.plan[n] = 0;
	if (strlen(o->scenario.plan) != n)
		argp_error(state, "--faults %s: a plan is text", arg);
	o->scenario.lab.sim.fault_random = false;
	o->scenario.lab.sim.fault_plan_name = arg;
}

/* The dimensions that have a value of their own. */
bool cli_case_parse(int key, char *arg, struct argp_state *state, struct cli_options *o)
{
	struct lab_config *c = &o->scenario.lab;

	switch (key) {
	case OPTION_GPUS:
		options_parse_gpus(o, arg, state);
		return true;
	case OPTION_DEVICES:
		options_parse_devices(o, arg, state);
		return true;
	case OPTION_WARP:
		c->warp_width = (uint32_t)cli_number(state, "--warp", arg, 1, 32);
		if (c->warp_width != 1 && c->warp_width != 32)
			argp_error(state, "--warp %s: expected 1 or 32", arg);
		return true;
	case OPTION_ENV:
		options_add_env(o, arg, state);
		return true;
	case OPTION_ENV_ODD:
		options_parse_env_odd(o, arg, state);
		return true;
	case OPTION_NO_STRICT:
		c->strict_device_view = false;
		return true;
	case OPTION_PLUGINS:
		options_parse_plugins(c, arg, state);
		return true;
	case OPTION_BEFORE:
		c->before = cli_collective_find("--before: ", arg, state);
		return true;
	case OPTION_QUIET:
		c->quiet = 1 + (uint32_t)cli_number(state, "--quiet-rank", arg, 0, 4095);
		return true;
	case OPTION_FAULTS:
		options_read_plan(o, arg, state);
		return true;
	case OPTION_BUDGET_TIME:
		c->sim.budget_ns =
			cli_number(state, "--budget-time", arg, 1, 1u << 30) * 1000000000ull;
		return true;
	default:
		return cli_collective_parse(key, arg, state, o);
	}
}
