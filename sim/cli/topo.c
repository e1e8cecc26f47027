/* SPDX-License-Identifier: BSD-3-Clause */
/* doppel topo: what the stack makes of a machine. */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/topo/topo.h"
#include "sim/cli/cli.h"
#include "sim/cli/rules.h"
#include "sim/cli/topo_why.h"
#include "sim/world/world.h"

struct topo_options {
	const char *verb, *machine;
	bool inter, hosts, why;
};

static const struct argp_option topo_argp_options[] = {
	{"hosts", 'H', "1|2", 0, "search for a ring within one host (default) or over several", 0},
	{"why", 'w', NULL, 0, "every try of the searches of all patterns, and what came of it", 0},
	{0},
};

static error_t topo_parse(int key, char *arg, struct argp_state *state)
{
	struct topo_options *o = state->input;
	uint64_t n;
	cli_take(state, topo_argp_options, NULL, key, arg);
	switch (key) {
	case 'H':
		if (!cli_parse_u64(arg, &n) || n < 1 || n > 4096)
			argp_error(state, "--hosts %s: expected a number from 1 to 4096", arg);
		o->inter = n > 1;
		o->hosts = true;
		return 0;
	case 'w':
		o->why = true;
		return 0;
	case ARGP_KEY_ARG:
		if (state->arg_num == 0)
			o->verb = arg;
		else if (state->arg_num == 1)
			o->machine = arg;
		else
			argp_error(state, "one machine at a time; '%s' is too much", arg);
		return 0;
	case ARGP_KEY_END:
		if (!o->verb || !o->machine) {
			argp_error(state, "expected show or search, and a machine");
			return EINVAL;
		}
		if (strcmp(o->verb, "show") && strcmp(o->verb, "search"))
			argp_error(state, "'%s': expected show or search", o->verb);
		if (o->hosts && strcmp(o->verb, "search"))
			argp_error(state, "--hosts: has no effect on %s; expected search", o->verb);
		if (o->why && strcmp(o->verb, "search"))
			argp_error(state, "--why: has no effect on %s; expected search", o->verb);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* The stack has logged the reason, which is not seen without NCCL_DEBUG. */
static int topo_refused(void)
{
	if (!log_wanted(LOG_LEVEL_WARN, 0))
		fprintf(stderr, "doppel topo: %s\n", log_last_error());
	return SIM_USAGE;
}

static int topo_print(const struct topo_options *o, const struct world_machine *m)
{
	struct topo_select select = {.count = m->gpu_count};
	const struct topo_system *sys;
	if (m->gpu_count > TOPO_MAX_LOCAL) {
		fprintf(stderr, "doppel: %s has %d GPUs; at most %d are supported\n", m->path,
			m->gpu_count, TOPO_MAX_LOCAL);
		return SIM_USAGE;
	}
	for (int32_t i = 0; i < m->gpu_count; i++) {
		snprintf(select.gpu[i].bus_id, sizeof select.gpu[i].bus_id, "%s", m->gpu[i].bus_id);
		select.gpu[i].dev = m->gpu[i].dev;
	}
	if (topo_system_get(m->xml, m->xml_bytes, m->path, &select, &sys) != ncclSuccess)
		return topo_refused();
	if (!strcmp(o->verb, "show")) {
		topo_system_print(sys, stdout);
		return SIM_PASS;
	}
	if (o->why)
		return topo_why(sys, o->inter, stdout) ? topo_refused() : SIM_PASS;
	static struct topo_graph graph;
	if (topo_search(sys, TOPO_RING, o->inter, &graph) != ncclSuccess)
		return topo_refused();
	topo_graph_print_xml(sys, &graph, stdout);
	return SIM_PASS;
}

static char *topo_help(int key, const char *text, void *input)
{
	(void)input;
	return key == ARGP_KEY_HELP_POST_DOC ? cli_machines_help("XML is a file, or one of")
					     : (char *)text;
}

int cli_topo(int argc, char **argv)
{
	static const struct argp argp = {
		.options = topo_argp_options,
		.parser = topo_parse,
		.help_filter = topo_help,
		.args_doc = "show|search XML",
		.doc = "Prints the model and the paths of a machine (show), or the ring graph that "
		       "the search "
		       "finds, in NCCL's graph XML (search).",
	};
	struct topo_options o = {0};
	struct world_machine *m;
	cli_parse(&argp, 0, argc, argv, &o);
	if (world_machine_load(o.machine, &m))
		return SIM_USAGE;
	int code = topo_print(&o, m);
	world_machine_free(m);
	return code;
}
