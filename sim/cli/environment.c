/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of the program's environment, which run before a command parses its options. */
#include "sim/cli/environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/base_state.h"
#include "core/base/macros.h"
#include "core/os/os_ops.h"
#include "sim/cli/options.h"
#include "sim/engine/sim.h"
#include "sim/world/world.h"

/* Variables that only some commands read. `readers`: those commands. `instead`: the option that
 * --env's message names; NULL: ranks read the variable, too. */
static const struct env_row {
	const char *name, *readers, *instead;
} env_rows[] = {
	{"DOPPEL_MACHINE", "run sweep tune exhaust exec verbs-run", "--machine"},
	{"DOPPEL_MACHINE_DIR", "run sweep replay shrink topo tune exhaust exec verbs-run",
	 "it in the environment of doppel"},
	{"DOPPEL_ENGINE", "exec", "--engine"},
	{"DOPPEL_SEED", "exec verbs-run", "--seed (of a sweep: --seeds)"},
	{"DOPPEL_FAULTS", "exec verbs-run", "--faults"},
	{"DOPPEL_TRACE", "exec verbs-run", "--trace"},
	{"DOPPEL_HOST", "verbs-run", "doppel verbs-run, which reads it"},
	{"DOPPEL_FABRIC", "verbs-run", "doppel verbs-run, which reads it"},
	{"DOPPEL_RAS_DUMP", "exec", "doppel exec --ras-dump"},
	{"DOPPEL_LEAKS", "exec verbs-run", "doppel exec --leaks, or doppel verbs-run"},
	{"NCCL_TOPO_FILE", "run sweep exhaust exec verbs-run", NULL},
	{"NCCL_GRAPH_FILE", "run sweep exhaust exec verbs-run", NULL},
	{"NCCL_CONF_FILE", "run sweep topo tune exhaust exec", NULL},
	{"DOPPEL_ETC_CONF", "run sweep topo tune exhaust exec", NULL},
};

/* Returns the row of a variable; NULL: it has no row. */
static const struct env_row *env_find(const char *assignment)
{
	size_t n = strcspn(assignment, "=");

	for (size_t i = 0; i < ARRAY_LEN(env_rows); i++)
		if (strlen(env_rows[i].name) == n && !strncmp(env_rows[i].name, assignment, n))
			return &env_rows[i];
	return NULL;
}

static bool env_is_read_by(const struct env_row *row, const char *command)
{
	size_t n = strlen(command);

	ASSERT(n > 0 && !strchr(command, ' ')); /* readers are words */
	for (const char *at = row->readers; *at; at += strspn(at, " ")) {
		size_t word = strcspn(at, " ");

		if (word == n && !strncmp(at, command, n))
			return true;
		at += word;
	}
	return false;
}

/* Checks the stack's variables, which the search and the model read in this process. Its
 * environment includes those of configuration files. The stack itself would print a line for a
 * malformed one and use the default. A world checks its variables at its creation. */
static bool env_stack_fits(void)
{
	struct conf *conf = os_base_state()->conf;

	conf_report_bad(conf);
	if (conf && conf->bad_count)
		return false;
	for (char **e = environ; *e; e++)
		if (!strncmp(*e, "NCCL_", 5) && world_env_check(*e))
			return false;
	return true;
}

static void env_warn_without_effect(const char *command)
{
	for (size_t i = 0; i < ARRAY_LEN(env_rows); i++) {
		const struct env_row *row = &env_rows[i];
		const char *value = getenv(row->name);

		if (value && *value && !env_is_read_by(row, command))
			fprintf(stderr,
				"doppel: warning: %s has no effect on doppel %s; it is read by: "
				"%s\n",
				row->name, command, row->readers);
	}
}

/* `doppel env` shows the variables, even invalid ones, and `doppel faults` reads none. A program of
 * `doppel exec` warns at its first call, as it does without doppel. */
bool cli_environment(const char *command)
{
	bool list = !strcmp(command, "env") || !strcmp(command, "faults");

	if (strcmp(command, "exec"))
		world_env_warn_unknown((const char *const *)environ);
	/* with real HCAs the library of verbs-run may be in this process and read its variables */
	if (!list && cli_has_both_doubles())
		env_warn_without_effect(command);
	if ((!strcmp(command, "topo") || !strcmp(command, "tune")) && !env_stack_fits())
		return false;
	return !strcmp(command, "env") || !world_env_check_real();
}

bool cli_env_is_for_ranks(const char *assignment)
{
	const struct env_row *row = env_find(assignment);

	return (!strncmp(assignment, "NCCL_", 5) || !strncmp(assignment, "DOPPEL_", 7)) &&
	       !(row && row->instead);
}

void cli_env_check(const char *option, const char *assignment, struct argp_state *state)
{
	const struct env_row *row = env_find(assignment);
	const char *equals = strchr(assignment, '=');

	if (!equals || equals == assignment)
		argp_error(state, "%s %s: expected NAME=VALUE", option, assignment);
	if (row && row->instead)
		argp_error(state, "%s %s: the ranks do not read it; expected %s", option,
			   assignment, row->instead);
}

void cli_env_option(const char *option, const char *assignment, struct argp_state *state)
{
	const char *const list[] = {assignment, NULL};

	cli_env_check(option, assignment, state);
	world_env_warn_unknown(list);
}
