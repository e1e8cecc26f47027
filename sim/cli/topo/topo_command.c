/* SPDX-License-Identifier: BSD-3-Clause */
/* doppel topo: shows what the stack derives from a machine. */
#include "sim/cli/topo/topo.h"

#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/param.h"
#include "sim/cli/cli.h"
#include "sim/cli/rules.h"
#include "sim/cli/topo/topo_why.h"
#include "sim/lab/run/runner.h"

enum { TOPO_COMPACT = 0x100, TOPO_DOT, TOPO_OF };

static const struct argp_option topo_argp_options[] = {
	{"hosts", 'H', "N", 0,
	 "search, plot: rings and trees within one host (default), or over N hosts like it", 0},
	{"why", 'w', NULL, 0,
	 "search: every attempt of the searches of all patterns, and its result", 0},
	{"compact", TOPO_COMPACT, NULL, 0, "show: the matrix of paths alone", 0},
	{"output", 'o', "FILE", 0, "plot: into this file (default: standard output)", 0},
	{"dot", TOPO_DOT, NULL, 0, "plot: for Graphviz, not as SVG", 0},
	{"pattern", TOPO_OF, "ring|tree", 0,
	 "plot: pattern drawn below the machine (default: ring)", 0},
	{0},
};

static int topo_run_show(const struct topo_options *o);
static int topo_run_search(const struct topo_options *o);

static const struct topo_verb topo_verbs[] = {
	{"show", 1, topo_run_show}, {"search", 1, topo_run_search}, {"check", 1, cli_topo_check},
	{"diff", 2, cli_topo_diff}, {"plot", 1, cli_topo_plot},
};

#define TOPO_VERBS "show, search, check, diff, plot or detect"

/* Verbs on which each option has an effect. */
static const struct {
	int key;
	const char *name, *verbs[2];
} topo_effects[] = {
	{'H', "--hosts", {"search", "plot"}},        {'w', "--why", {"search", NULL}},
	{TOPO_COMPACT, "--compact", {"show", NULL}}, {'o', "--output", {"plot", NULL}},
	{TOPO_DOT, "--dot", {"plot", NULL}},         {TOPO_OF, "--pattern", {"plot", NULL}},
};

/* ---- options -------------------------------------------------------------------------------- */

static void topo_verb_find(struct topo_options *o, const char *name, struct argp_state *state)
{
	for (size_t i = 0; i < ARRAY_LEN(topo_verbs); i++)
		if (strcmp(topo_verbs[i].name, name) == 0)
			o->verb = &topo_verbs[i];
	if (!o->verb)
		argp_error(state, "'%s': expected " TOPO_VERBS, name);
}

static void topo_argument(struct topo_options *o, const char *arg, struct argp_state *state)
{
	if (state->arg_num == 0)
		topo_verb_find(o, arg, state);
	else if (o->inputs < o->verb->inputs)
		o->input[o->inputs++] = arg;
	else
		argp_error(state, "%s takes %s; '%s' is too much", o->verb->name,
			   o->verb->inputs == 1 ? "one machine" : "two machines or graph files",
			   arg);
}

static void topo_end(const struct topo_options *o, const struct cli_given *given,
		     struct argp_state *state)
{
	if (!o->verb)
		argp_error(state, "expected " TOPO_VERBS ", and a machine");
	if (o->inputs < o->verb->inputs)
		argp_error(state, "%s: expected %s", o->verb->name,
			   o->verb->inputs == 1 ? "a machine" : "two machines or graph files");
	for (size_t i = 0; i < ARRAY_LEN(topo_effects); i++) {
		const char *const *verbs = topo_effects[i].verbs;

		if (cli_is_given(given, topo_effects[i].key) && strcmp(o->verb->name, verbs[0]) &&
		    (!verbs[1] || strcmp(o->verb->name, verbs[1])))
			argp_error(state, "%s: has no effect on %s; expected %s%s%s",
				   topo_effects[i].name, o->verb->name, verbs[0],
				   verbs[1] ? " or " : "", verbs[1] ? verbs[1] : "");
	}
	if (o->dot && cli_is_given(given, 'H'))
		argp_error(state, "--hosts: has no effect with --dot, which draws no rings");
	if (o->dot && cli_is_given(given, TOPO_OF))
		argp_error(state, "--pattern: has no effect with --dot, which draws no trees");
}

struct topo_parser {
	struct topo_options options;
	struct cli_given given;
};

static error_t topo_parse(int key, char *arg, struct argp_state *state)
{
	struct topo_parser *p = state->input;
	struct topo_options *o = &p->options;
	uint64_t n;

	cli_take(state, topo_argp_options, &p->given, key, arg);
	switch (key) {
	case 'H':
		if (!cli_parse_u64(arg, &n) || n < 1 || n > 4096)
			argp_error(state, "--hosts %s: expected a number from 1 to 4096", arg);
		o->hosts = (uint32_t)n;
		return 0;
	case TOPO_COMPACT:
		o->compact = true;
		return 0;
	case 'o':
		o->out = arg;
		return 0;
	case TOPO_DOT:
		o->dot = true;
		return 0;
	case TOPO_OF:
		if (strcmp(arg, "ring") && strcmp(arg, "tree"))
			argp_error(state, "--pattern %s: expected ring or tree", arg);
		o->trees = strcmp(arg, "tree") == 0;
		return 0;
	case 'w':
		o->why = true;
		return 0;
	case ARGP_KEY_ARG:
		topo_argument(o, arg, state);
		return 0;
	case ARGP_KEY_END:
		topo_end(o, &p->given, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* ---- machines ------------------------------------------------------------------------------- */

/* Prints the reason that the stack has logged, unless NCCL_DEBUG already shows it. */
int cli_topo_refused(void)
{
	if (!log_wanted(LOG_LEVEL_WARN, 0))
		fprintf(stderr, "doppel topo: %s\n", log_last_error());
	return SIM_USAGE;
}

/* True if the environment sets how to merge NICs. Otherwise a machine is shown as its file has
 * it. */
static bool topo_merges(void)
{
	return param_is_set(PARAM_NET_MERGE_LEVEL) || param_is_set(PARAM_NET_FORCE_MERGE);
}

/* Builds the topology with the first `gpus` GPUs of the machine. */
static ncclResult_t topo_machine_system(struct topo_machine *m, int32_t gpus)
{
	const struct world_machine *f = m->file;
	struct topo_select select = {.count = gpus, .merge = topo_merges()};

	ASSERT(gpus >= 1 && gpus <= MIN_OF(f->gpu_count, TOPO_MAX_LOCAL));
	for (int32_t i = 0; i < gpus; i++) {
		snprintf(select.gpu[i].bus_id, sizeof select.gpu[i].bus_id, "%s", f->gpu[i].bus_id);
		select.gpu[i].dev = f->gpu[i].dev;
	}
	return topo_system_get(f->xml, f->xml_bytes, f->path, &select, &m->sys);
}

static bool topo_machine_fits(const char *name)
{
	struct topo_machine m = {0};
	bool fits;

	if (world_machine_load(name, &m.file))
		return false;
	fits = topo_machine_system(&m, MIN_OF(m.file->gpu_count, TOPO_MAX_LOCAL)) == ncclSuccess;
	if (!fits && !log_wanted(LOG_LEVEL_WARN, 0))
		fprintf(stderr, "doppel: %s\n", log_last_error());
	world_machine_free(m.file);
	return fits;
}

bool cli_machines_fit(const char *list)
{
	char name[LAB_MACHINE_BYTES];

	for (uint32_t i = 0; i < lab_machines_count(list); i++)
		if (!topo_machine_fits(lab_machine_of(list, i, name)))
			return false;
	return true;
}

static int topo_machine_whole(struct topo_machine *m)
{
	if (m->file->gpu_count > TOPO_MAX_LOCAL) {
		fprintf(stderr, "doppel topo: %s has %d GPUs; at most %d are supported\n",
			m->file->path, m->file->gpu_count, TOPO_MAX_LOCAL);
		return SIM_USAGE;
	}
	return topo_machine_system(m, m->file->gpu_count) ? cli_topo_refused() : SIM_PASS;
}

int cli_topo_open(struct topo_machine *m, const char *name)
{
	*m = (struct topo_machine){0};
	if (world_machine_load(name, &m->file))
		return SIM_USAGE;
	int code = topo_machine_whole(m);

	if (code)
		cli_topo_close(m);
	return code;
}

void cli_topo_close(struct topo_machine *m)
{
	world_machine_free(m->file);
	m->file = NULL;
}

/* ---- rings and trees of several hosts ------------------------------------------------------- */

static ncclResult_t topo_job_connect(struct topo_job *job, const struct topo_system *sys)
{
	struct topo_graph *const graphs[TOPO_PATTERNS] = {
		[TOPO_RING] = &job->graph, [TOPO_TREE] = &job->tree};
	int32_t gpus = topo_gpu_count(sys);

	for (int32_t h = 0; h < job->hosts; h++)
		for (int32_t i = 0; i < gpus; i++)
			topo_rank_info_fill(&job->all[h * gpus + i], sys, graphs, (uint64_t)h + 1,
					    i);
	ncclResult_t rc = topo_connect_rings(job->all, job->ranks, 0, &job->rings, job->order);

	return rc ? rc : topo_connect_trees(job->all, job->ranks, 0, &job->trees, job->parent);
}

int cli_topo_job_make(struct topo_job *job, const struct topo_system *sys, uint32_t hosts)
{
	ASSERT(hosts >= 1 && topo_gpu_count(sys) >= 1); /* a job has ranks */
	*job = (struct topo_job){.hosts = (int32_t)hosts,
				 .ranks = (int32_t)hosts * topo_gpu_count(sys)};
	if (topo_search(sys, TOPO_RING, hosts > 1, &job->graph) ||
	    topo_search(sys, TOPO_TREE, hosts > 1, &job->tree))
		return cli_topo_refused();
	size_t places = (size_t)job->ranks * DEV_MAX_CHANNELS;
	int code = SIM_PASS;

	job->all = calloc((size_t)job->ranks, sizeof *job->all);
	job->order = calloc(places, sizeof *job->order);
	job->parent = calloc(places, sizeof *job->parent);
	if (!job->all || !job->order || !job->parent) {
		fprintf(stderr, "doppel topo: no memory for %d ranks\n", job->ranks);
		code = SIM_USAGE;
	} else if (topo_job_connect(job, sys)) {
		code = cli_topo_refused();
	}
	if (code)
		cli_topo_job_free(job);
	return code;
}

void cli_topo_job_free(struct topo_job *job)
{
	free(job->all);
	free(job->order);
	free(job->parent);
	job->all = NULL;
	job->order = job->parent = NULL;
}

/* ---- show, search --------------------------------------------------------------------------- */

static int topo_run_show(const struct topo_options *o)
{
	struct topo_machine m;
	int code = cli_topo_open(&m, o->input[0]);

	if (code)
		return code;
	if (o->compact)
		topo_matrix_print(m.sys, stdout);
	else
		topo_system_print(m.sys, stdout);
	cli_topo_close(&m);
	return SIM_PASS;
}

static void topo_print_channels(const struct topo_job *job)
{
	for (int32_t c = 0; c < job->rings.nchannels; c++) {
		ASSERT(job->rings.distinct >= 1 && job->rings.distinct <= job->rings.nchannels);
		printf("Channel %02d/%02d :", c, job->rings.nchannels);
		for (int32_t i = 0; i < job->ranks; i++)
			printf(" %d",
			       job->order[(size_t)(c % job->rings.distinct) * (size_t)job->ranks +
					  (size_t)i]);
		printf("\n");
	}
}

/* Prints a line per rank, in order of rank. */
static int topo_print_trees(const struct topo_job *job)
{
	static struct topo_rings rings;
	static struct topo_trees trees;
	struct topo_connected *connected;
	char text[TOPO_TREE_TEXT];

	if (topo_connect_all(job->all, job->ranks, &connected))
		return cli_topo_refused();
	for (int32_t r = 0; r < job->ranks; r++) {
		topo_connect_get(connected, r, &rings, &trees);
		printf("Trees");
		for (int32_t c = 0; c < rings.nchannels; c++)
			printf(" [%d] %s", c, topo_tree_text(&trees, c, r, text));
		printf("\n");
	}
	topo_connect_free(connected);
	return SIM_PASS;
}

/* Prints the lines of NCCL's log in a comment: the output remains a graph file. */
static int topo_print_log(const struct topo_job *job, const struct topo_system *sys)
{
	printf("<!--\n");
	topo_print_channels(job);
	int code = topo_print_trees(job);

	if (!code)
		code = cli_topo_heads(job, sys);
	printf("-->\n");
	return code;
}

static int topo_search_rings(const struct topo_options *o, const struct topo_system *sys)
{
	static struct topo_job job;
	struct topo_graph *const graphs[TOPO_PATTERNS] = {
		[TOPO_RING] = &job.graph, [TOPO_TREE] = &job.tree};
	int code = cli_topo_job_make(&job, sys, o->hosts);

	if (code)
		return code;
	code = topo_print_log(&job, sys);
	if (!code)
		topo_graph_print_xml(sys, graphs, TOPO_PATTERNS, stdout);
	cli_topo_job_free(&job);
	return code;
}

static int topo_run_search(const struct topo_options *o)
{
	struct topo_machine m;
	int code = cli_topo_open(&m, o->input[0]);

	if (code)
		return code;
	if (!o->why)
		code = topo_search_rings(o, m.sys);
	else if (topo_why(m.sys, o->hosts > 1, stdout))
		code = cli_topo_refused();
	cli_topo_close(&m);
	return code;
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
		.args_doc = "show XML\nsearch XML\ncheck XML\ndiff XML XML\nplot XML\n"
			    "detect [--machine XML]",
		.doc = "Shows what the stack derives from a machine.\n\n"
		       "show: the tree of CPUs, switches, GPUs and NICs with their links, and the "
		       "matrix of paths.\n"
		       "search: the rings and trees that the search finds, as NCCL's log has them "
		       "(Channel 00/24 : 0 1 2; Trees [0] 1/-1/-1->0->-1, the children, the rank, "
		       "its "
		       "parent), and as NCCL's graph XML; and the heads of NVLS and CollNet, where "
		       "the "
		       "machine has them.\n"
		       "check: what makes it slower than it could be; exit code 2 if there is "
		       "something.\n"
		       "diff: what differs between two machines, or two graph files, by name; exit "
		       "code 2 if they differ.\n"
		       "plot: a picture of the machine with the rings or the trees below it, as "
		       "SVG.\n"
		       "detect: the XML of this host, as /sys and the drivers have it.",
	};
	struct topo_parser p = {.options = {.hosts = 1}};

	if (argc > 1 && strcmp(argv[1], "detect") == 0)
		return cli_topo_detect(argc - 1, argv + 1);
	cli_parse(&argp, 0, argc, argv, &p);
	return p.options.verb->run(&p.options);
}
