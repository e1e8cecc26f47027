/* SPDX-License-Identifier: BSD-3-Clause */
/* doppel tune: predicts by the model which program runs a collective at each size, and its time. */
#include "sim/cli/run/tune.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/macros.h"
#include "core/base/param.h"
#include "core/base/word.h"
#include "sim/world/world.h"

enum tune_key { TUNE_MEASURE = 0x200, TUNE_JSON };

static const struct argp_option tune_argp_options[] = {
	{"machine", OPTION_MACHINE, "XML", 0,
	 "a machine that comes with Doppel, or a topology file (default h100-8nic)", 0},
	{"hosts", OPTION_HOSTS, "N", 0, "hosts of that machine (default 1)", 0},
	{"gpus", OPTION_GPUS, "G", 0, "ranks per host, one GPU each (default: all GPUs)", 0},
	{"minbytes", 'b', "SIZE", 0, "smallest size (default 8)", 0},
	{"maxbytes", 'e', "SIZE", 0, "largest size (default 128M; with --measure 1M)", 0},
	{"stepfactor", 'f', "F", 0, "factor between sizes, from 2 on (default 4)", 0},
	{"measure", TUNE_MEASURE, NULL, 0,
	 "run each program, too: on GPUs the time of a call in a CUDA graph; on the doubles "
	 "virtual time, which is what their own steps cost and not a GPU's time",
	 0},
	{"json", TUNE_JSON, NULL, 0, "the same for programs", 0},
	{0},
};

/* ---- options -------------------------------------------------------------------------------- */

static void tune_parse_machine(struct scenario *s, const char *arg, struct argp_state *state)
{
	if ((size_t)snprintf(s->machine, sizeof s->machine, "%s", arg) >= sizeof s->machine)
		argp_error(state, "--machine: longer than %d characters", SCENARIO_PATH_BYTES - 1);
}

static void tune_unknown(struct argp_state *state, const char *arg, const char *const *names)
{
	char list[128];
	size_t n = 0;

	list[0] = '\0';
	for (int i = 0; names[i] && n < sizeof list; i++)
		n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "", names[i]);
	argp_error(state, "no program runs '%s'; did you mean %s? there are: %s", arg,
		   word_nearest(arg, strlen(arg), names), list);
}

static void tune_parse_collective(struct tune_options *o, const char *arg, struct argp_state *state)
{
	const char *names[DEV_EDGE_FUNCS + 1] = {NULL};
	int f = 0;

	for (int i = 0; i < DEV_EDGE_FUNCS; i++)
		names[i] = tune_func_name((enum dev_func)i);
	while (f < DEV_EDGE_FUNCS && strcmp(arg, names[f]))
		f++;
	if (f == DEV_EDGE_FUNCS)
		tune_unknown(state, arg, names);
	else if (o->funcs >> f & 1)
		argp_error(state, "collective %s appears twice", arg);
	else
		o->funcs |= 1u << f;
}

static void tune_parse_end(struct tune_options *o, struct argp_state *state)
{
	struct lab_config *c = &o->run.scenario.lab;

	if (!cli_is_given(&o->run.given, 'e'))
		c->bytes_max = MAX_OF(o->measure ? 1ull << 20 : 128ull << 20, c->bytes_min);
	if (c->bytes_min > c->bytes_max)
		argp_error(state, "-b %" PRIu64 " is larger than -e %" PRIu64, c->bytes_min,
			   c->bytes_max);
	if (!o->funcs)
		o->funcs = (1u << DEV_EDGE_FUNCS) - 1;
}

static bool tune_parse_world(int key, char *arg, struct argp_state *state, struct scenario *s)
{
	switch (key) {
	case OPTION_MACHINE:
		tune_parse_machine(s, arg, state);
		return true;
	case OPTION_HOSTS:
		s->lab.hosts = (uint32_t)cli_number(state, "--hosts", arg, 1, 4096);
		return true;
	case OPTION_GPUS:
		s->lab.gpus = (uint32_t)cli_number(state, "--gpus", arg, 1, TOPO_MAX_LOCAL);
		return true;
	case 'b':
		s->lab.bytes_min = cli_size(state, "-b", arg);
		return true;
	case 'e':
		s->lab.bytes_max = cli_size(state, "-e", arg);
		return true;
	case 'f':
		s->lab.factor = (uint32_t)cli_number(state, "-f", arg, 2, 1u << 20);
		return true;
	default:
		return false;
	}
}

static error_t tune_parse(int key, char *arg, struct argp_state *state)
{
	struct tune_options *o = state->input;

	cli_take(state, tune_argp_options, &o->run.given, key, arg);
	if (tune_parse_world(key, arg, state, &o->run.scenario))
		return 0;
	switch (key) {
	case TUNE_MEASURE:
		o->measure = true;
		return 0;
	case TUNE_JSON:
		o->json = true;
		return 0;
	case ARGP_KEY_ARG:
		tune_parse_collective(o, arg, state);
		return 0;
	case ARGP_KEY_END:
		tune_parse_end(o, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* ---- the machines --------------------------------------------------------------------------- */

/* Prints the reason that the stack has logged, unless NCCL_DEBUG already shows it. */
static int tune_refused(void)
{
	if (!log_wanted(LOG_LEVEL_WARN, 0))
		fprintf(stderr, "doppel tune: %s\n", log_last_error());
	return SIM_USAGE;
}

/* Returns the number of channels: reads the environment as comm_config_parse does and counts as
 * core/comm does. */
static int32_t tune_channels(int32_t rings, int32_t fewest)
{
	int64_t least = param_i64(PARAM_MIN_CTAS), most = param_i64(PARAM_MAX_CTAS);

	if (param_i64(PARAM_MIN_NCHANNELS) > 0)
		least = param_i64(PARAM_MIN_NCHANNELS);
	if (param_i64(PARAM_MAX_NCHANNELS) > 0)
		most = param_i64(PARAM_MAX_NCHANNELS);
	if (most <= 0)
		most = DEV_MAX_CHANNELS;
	return (int32_t)MIN_OF(MAX_OF((int64_t)MAX_OF(rings, fewest), least), most);
}

/* Computes the information that the ranks of all hosts would gather, and builds the model from
 * it. */
static ncclResult_t tune_gather(struct tune_world *w, const struct topo_system *sys, int32_t hosts,
				int32_t gpus, struct topo_rank_info *all)
{
	static struct topo_graph ring, tree;
	static struct topo_rings rings;
	struct topo_graph *const graphs[TOPO_PATTERNS] = {[TOPO_RING] = &ring, [TOPO_TREE] = &tree};
	ncclResult_t rc = topo_search(sys, TOPO_RING, hosts > 1, &ring);

	ASSERT(hosts * gpus >= 2); /* one rank runs no program */

	if (!rc)
		rc = topo_search(sys, TOPO_TREE, hosts > 1, &tree);
	for (int32_t h = 0; h < hosts && !rc; h++)
		for (int32_t i = 0; i < gpus; i++)
			topo_rank_info_fill(&all[h * gpus + i], sys, graphs, (uint64_t)h + 1, i);
	if (!rc)
		rc = topo_summary_make(&w->summary, all, hosts * gpus);
	if (!rc)
		rc = topo_connect_rings(all, hosts * gpus, 0, &rings, NULL);
	w->allowed = tune_programs(&w->summary, w->allowed, param_i64(PARAM_PAT_ENABLE) == 1);
	if (!rc)
		tune_model_make(&w->model, &w->summary,
				tune_channels(rings.nchannels,
					      tune_channels_least(sys, hosts * gpus, gpus)),
				w->allowed);
	return rc;
}

static ncclResult_t tune_of_machine(struct tune_world *w, const struct world_machine *m,
				    int32_t hosts, int32_t gpus)
{
	struct topo_rank_info *all = calloc((size_t)(hosts * gpus), sizeof *all);
	struct topo_select select = {.count = gpus, .merge = true};
	const struct topo_system *sys;
	ncclResult_t rc;

	ASSERT(gpus > 0 && gpus <= MIN_OF(m->gpu_count, TOPO_MAX_LOCAL));
	if (!all) {
		WARN("no memory for %d ranks", hosts * gpus);
		return ncclSystemError;
	}
	for (int32_t i = 0; i < gpus; i++) {
		snprintf(select.gpu[i].bus_id, sizeof select.gpu[i].bus_id, "%s", m->gpu[i].bus_id);
		select.gpu[i].dev = m->gpu[i].dev;
	}
	rc = topo_system_get(m->xml, m->xml_bytes, m->path, &select, &sys);
	if (!rc)
		rc = tune_gather(w, sys, hosts, gpus, all);
	free(all);
	return rc;
}

static int tune_world_make(struct tune_world *w, const struct tune_options *o,
			   const struct world_machine *m)
{
	int32_t hosts = (int32_t)o->run.scenario.lab.hosts;
	int32_t gpus = o->run.scenario.lab.gpus ? (int32_t)o->run.scenario.lab.gpus : m->gpu_count;

	if (gpus > MIN_OF(m->gpu_count, TOPO_MAX_LOCAL)) {
		fprintf(stderr,
			"doppel tune: %d ranks on a host: %s has %d GPUs; at most %d are "
			"supported\n",
			gpus, m->path, m->gpu_count, TOPO_MAX_LOCAL);
		return SIM_USAGE;
	}
	if (hosts * gpus < 2) {
		fprintf(stderr, "doppel tune: one rank runs no program; expected more with --gpus "
				"or --hosts\n");
		return SIM_USAGE;
	}
	if (tune_allowed_read(&w->allowed) || tune_of_machine(w, m, hosts, gpus))
		return tune_refused();
	return SIM_PASS;
}

/* ---- predictions ---------------------------------------------------------------------------- */

/* The choice is that of calls without windows, unless all programs are on windows. */
static uint64_t tune_chosen_from(const struct tune_world *w)
{
	const uint64_t without = w->allowed & ~DEV_SYMMETRIC_BITS;

	return without ? without : w->allowed;
}

static void tune_row_fill(struct tune_row *row, const struct tune_world *w, enum dev_func func,
			  uint64_t bytes)
{
	const struct tune_model *m = &w->model;
	const uint64_t programs = tune_chosen_from(w);

	*row = (struct tune_row){.bytes = bytes, .second = DEV_PROGRAM_COUNT};
	row->best = tune_choose(m, func, programs, bytes);
	if (row->best == DEV_PROGRAM_COUNT)
		return;
	ASSERT(tune_is_allowed(w->allowed, row->best) && m->program[row->best].bw_mbps);
	row->second = tune_choose(m, func, programs & ~(1ull << row->best), bytes);
	row->shape = tune_shape_of(&m->program[row->best], m->nchannels, bytes);
}

static void tune_table_fill(struct tune_table *t, const struct tune_options *o,
			    const struct tune_world *w)
{
	const struct lab_config *c = &o->run.scenario.lab;

	ASSERT(c->factor >= 2 && c->bytes_min <= c->bytes_max);
	t->n = 0;
	for (uint64_t b = c->bytes_min; b <= c->bytes_max && t->n < TUNE_ROWS;
	     b = b ? b * c->factor : 1) {
		tune_row_fill(&t->row[t->n++], w, t->func, b);
		if (b > UINT64_MAX / c->factor)
			break;
	}
}

static int tune_run(const struct tune_options *o, const struct world_machine *m)
{
	static struct tune_table tables[DEV_EDGE_FUNCS];
	static struct tune_world w;
	int n = 0, code = tune_world_make(&w, o, m);

	for (int f = 0; f < DEV_EDGE_FUNCS && code == SIM_PASS; f++) {
		if (!(o->funcs >> f & 1))
			continue;
		tables[n].func = (enum dev_func)f;
		tune_table_fill(&tables[n], o, &w);
		if (o->measure)
			code = tune_measure(o, &w, &tables[n]);
		n++;
	}
	if (code != SIM_PASS)
		return code;
	ASSERT(n > 0); /* tune_parse_end names all where none is named */
	if (o->json)
		tune_print_json(o, &w, tables, n);
	else
		tune_print(o, &w, tables, n);
	return SIM_PASS;
}

int cli_tune(int argc, char **argv)
{
	static const struct argp argp = {
		.options = tune_argp_options,
		.parser = tune_parse,
		.help_filter = cli_machine_help,
		.args_doc = "[COLLECTIVE...]",
		.doc = "Prints for each size how long each program (an algorithm with a protocol) "
		       "takes "
		       "by the model that the stack chooses by, which one is chosen, by how much, "
		       "and with how many channels and threads. Without a COLLECTIVE: all that "
		       "have programs. NCCL_ALGO and NCCL_PROTO restrict the choice as they do "
		       "in a run.\vExit status: 0 pass, 1 usage, others: as of 'doppel run', of a "
		       "measurement that fails.",
	};
	static struct tune_options o;
	struct world_machine *m;
	int code;

	o = (struct tune_options){.funcs = 0};
	cli_options_default(&o.run);
	o.run.scenario.lab.factor = 4;
	cli_parse(&argp, 0, argc, argv, &o);
	if (o.measure && !tune_measured_on()) {
		fprintf(stderr, "doppel tune: --measure needs both doubles, the preset `fake`, or "
				"GPUs, the preset `gpu`\n");
		return SIM_USAGE;
	}
	if (world_machine_load(o.run.scenario.machine, &m))
		return SIM_USAGE;
	code = tune_run(&o, m);
	world_machine_free(m);
	return code;
}
