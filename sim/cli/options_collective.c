/* SPDX-License-Identifier: BSD-3-Clause */
/* The options about the collective, as in nccl-tests. The tables of the lab supply the valid
 * values. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/macros.h"
#include "core/base/word.h"
#include "sim/cli/options.h"
#include "sim/lab/check/payload.h"

/* Returns "sum, prod or all". */
static const char *collective_list(const char *const *names)
{
	static char list[256];
	size_t n = 0;

	for (; *names && n < sizeof list; names++)
		n += (size_t)snprintf(list + n, sizeof list - n, "%s, ", *names);
	ASSERT(n > 2); /* a name, and the comma that "or all" replaces */
	if (n < sizeof list)
		snprintf(list + n - 2, sizeof list - n + 2, " or all");
	return list;
}

static void collective_unknown(struct argp_state *state, const char *option, const char *arg,
			       const char *const *names)
{
	argp_error(state, "%s %s: expected %s; nearest: %s", option, *arg ? arg : "''",
		   collective_list(names), word_nearest(arg, strlen(arg), names));
}

/* Translates the type names of older nccl-tests and of nccl.h. */
static const char *collective_type_name(const char *arg)
{
	static const char *const other[][2] = {
		{"fp8_e4m3", "f8e4m3"},   {"fp8_e5m2", "f8e5m2"}, {"float8e4m3", "f8e4m3"},
		{"float8e5m2", "f8e5m2"}, {"char", "int8"},       {"int", "int32"},
		{"float16", "half"},      {"fp16", "half"},       {"float32", "float"},
		{"fp32", "float"},        {"float64", "double"},  {"fp64", "double"},
		{"bf16", "bfloat16"},
	};

	for (size_t i = 0; i < ARRAY_LEN(other); i++)
		if (!strcmp(arg, other[i][0]))
			return other[i][1];
	return arg;
}

static void collective_parse_type(struct lab_config *c, const char *arg, struct argp_state *state)
{
	const char *names[LAB_MAX_TYPES + 1] = {NULL};
	const char *name = collective_type_name(arg);

	DOPPEL_STATIC_CHECK(ARRAY_LEN(c->types) == LAB_MAX_TYPES, "room for all types");
	c->type_count = 0;
	for (int t = 0; t < LAB_MAX_TYPES; t++) {
		names[t] = payload_type_name((ncclDataType_t)t);
		if (!strcmp(name, names[t]) || !strcmp(arg, "all"))
			c->types[c->type_count++] = (ncclDataType_t)t;
	}
	if (c->type_count == 0)
		collective_unknown(state, "-d", arg, names);
}

static void collective_parse_op(struct lab_config *c, const char *arg, struct argp_state *state)
{
	const char *names[LAB_MAX_OPS + 1] = {NULL};

	DOPPEL_STATIC_CHECK(ARRAY_LEN(c->ops) == LAB_MAX_OPS, "room for all operations");
	c->op_count = 0;
	for (int op = 0; op < LAB_MAX_OPS; op++) {
		names[op] = payload_op_name((ncclRedOp_t)op);
		if (!strcmp(arg, names[op]) || !strcmp(arg, "all"))
			c->ops[c->op_count++] = (ncclRedOp_t)op;
	}
	if (c->op_count == 0)
		collective_unknown(state, "-o", arg, names);
}

static void collective_parse_root(struct lab_config *c, const char *arg, struct argp_state *state)
{
	uint64_t root = 0;

	if (!strcmp(arg, "all")) {
		c->root = LAB_ALL_ROOTS;
		return;
	}
	if (!cli_parse_u64(arg, &root) || root > INT32_MAX)
		argp_error(state, "-r %s: expected a rank, or all", arg);
	c->root = (int32_t)root;
}

static void collective_parse_place(struct lab_config *c, const char *arg, struct argp_state *state)
{
	c->in_place = strcmp(arg, "out") != 0;
	c->out_of_place = strcmp(arg, "in") != 0;
	if (strcmp(arg, "in") && strcmp(arg, "out") && strcmp(arg, "both"))
		argp_error(state, "--place %s: expected in, out or both", arg);
}

/* Parses an option of nccl-tests of which only one value is supported, as the default behaviour. */
static void collective_parse_parallel(const char *arg, struct argp_state *state)
{
	if (cli_number(state, "-p", arg, 0, 1) == 0)
		argp_error(state, "-p 0: ranks that one task initialises one after another are not "
				  "built; expected 1: each rank has a task");
}

/* Puts the ranks of a host into one process: with one task for all ranks, or one per rank. */
static void collective_parse_ranks(int key, struct cli_options *o, const char *arg,
				   struct argp_state *state)
{
	struct lab_config *c = &o->scenario.lab;
	uint32_t other = c->gpus;

	ASSERT(key == 'g' || key == 't');
	c->gpus = (uint32_t)cli_number(state, key == 'g' ? "-g" : "-t", arg, 1, 4096);
	if (cli_is_given(&o->given, key == 'g' ? 't' : 'g') && c->gpus > 1 && other > 1)
		argp_error(state,
			   "-t and -g above 1: tasks that each make the calls of some ranks of a "
			   "process are not built; expected one of the two, or --gpus %u "
			   "--ranks-per-process %u --drive process",
			   c->gpus * other, key == 'g' ? c->gpus : other);
	c->gpus = MAX_OF(c->gpus, cli_is_given(&o->given, key == 'g' ? 't' : 'g') ? other : 1u);
	c->host_gpus_n = 0;
	c->ranks_per_proc = c->gpus;
	if (key == 'g')
		c->drive = c->gpus > 1 ? LAB_DRIVE_PROCESS : LAB_DRIVE_RANK;
}

/* Options of nccl-tests that have another name here or are not supported: only "0" is accepted. */
static const struct {
	int key;
	const char *why;
} collective_theirs[] = {
	{'T', "a run that makes no progress ends by itself: expected --budget-time SECONDS "
	      "(virtual), or "
	      "--limit SECONDS of real processes"},
	{'y', "collectives in the default stream are not built; expected 0"},
	{'S', "expected --trace FILE, which has the time of each call"},
	{'J', "expected --json FILE"},
	{'x', "policies of blocks are not built; expected 0"},
	{'D', "kernels of the program's own are not built; expected 0"},
	{'V', "kernels of the program's own are not built; expected 0"},
	{'M', "expected --env NCCL_DEBUG=INFO --env NCCL_DEBUG_SUBSYS=ALLOC"},
};

static bool collective_parse_theirs(int key, const char *arg, struct argp_state *state)
{
	for (size_t i = 0; i < ARRAY_LEN(collective_theirs); i++)
		if (collective_theirs[i].key == key) {
			if (strcmp(arg, "0") != 0)
				argp_error(state, "-%c %s: %s", key, arg, collective_theirs[i].why);
			return true;
		}
	return false;
}

bool cli_collective_parse(int key, char *arg, struct argp_state *state, struct cli_options *o)
{
	struct lab_config *c = &o->scenario.lab;

	switch (key) {
	case 'd':
		collective_parse_type(c, arg, state);
		return true;
	case 'o':
		collective_parse_op(c, arg, state);
		return true;
	case 'r':
		collective_parse_root(c, arg, state);
		return true;
	case 'g':
	case 't':
		collective_parse_ranks(key, o, arg, state);
		return true;
	case 'i':
		c->bytes_step = cli_size(state, "-i", arg);
		c->factor = 0;
		return true;
	case 'p':
		collective_parse_parallel(arg, state);
		return true;
	case 'C':
		c->launch_time = cli_number(state, "-C", arg, 0, 1);
		return true;
	case OPTION_PLACE:
		collective_parse_place(c, arg, state);
		return true;
	default:
		return collective_parse_theirs(key, arg, state);
	}
}

const struct lab_collective *cli_collective_find(const char *option, const char *arg,
						 struct argp_state *state)
{
	const struct lab_collective *c = lab_collective_find(arg, strlen(arg));

	if (!c)
		argp_error(state, "%sunknown collective '%s'; did you mean %s? there are: %s",
			   option, arg, lab_collective_nearest(arg, strlen(arg)),
			   lab_collective_names());
	return c;
}

void cli_collective_name(const char *arg, struct argp_state *state, struct cli_options *o)
{
	const struct lab_collective *c = cli_collective_find("", arg, state);

	for (uint32_t i = 0; i < o->collectives; i++)
		if (o->collective[i] == c)
			argp_error(state, "collective %s appears twice", arg);
	ASSERT(o->collectives < LAB_COLLECTIVES_MAX);
	o->collective[o->collectives++] = c;
	o->scenario.lab.collective = o->collective[0];
}

char *cli_collectives_help(int key, const char *text, void *input)
{
	char *all = NULL;

	(void)input;
	if (key != ARGP_KEY_HELP_PRE_DOC || !text ||
	    asprintf(&all, "%s COLLECTIVE is one of: %s.", text, lab_collective_names()) < 0)
		return (char *)text;
	return all;
}

void cli_collective_end(struct argp_state *state, const struct cli_options *o)
{
	const struct lab_config *c = &o->scenario.lab;

	if (c->bytes_min > c->bytes_max)
		argp_error(state, "-b %" PRIu64 " is larger than -e %" PRIu64, c->bytes_min,
			   c->bytes_max);
	if (c->factor == 1 && c->bytes_min != c->bytes_max)
		argp_error(state, "-f 1 would never reach -e; use -i, or a factor of at least 2");
	if (c->factor == 0 && c->bytes_step == 0)
		argp_error(state, "-i 0 would never reach -e");
}

/* Returns the collectives on which an option has an effect; "": none. */
static const char *collective_names_with(bool (*has)(const struct lab_collective *c))
{
	static char list[LAB_COLLECTIVES_MAX * 24];
	size_t n = 0;

	list[0] = 0;
	for (uint32_t i = 0; i < lab_collectives_n && n < sizeof list; i++)
		if (has(&lab_collectives[i]))
			n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", n ? ", " : "",
					      lab_collectives[i].name);
	return list;
}

static bool collective_reduces(const struct lab_collective *c)
{
	return c->reduces;
}

static bool collective_has_effect(const char *command, const struct cli_options *o, int key,
				  const char *what, bool (*has)(const struct lab_collective *c))
{
	const char *names;

	ASSERT(key < 128); /* the message has an option's letter */
	if (!cli_is_given(&o->given, key))
		return true;
	for (uint32_t i = 0; i < o->collectives; i++)
		if (has(o->collective[i]))
			return true;
	if (!o->collectives && has(o->scenario.lab.collective))
		return true;
	if (o->scenario.lab.before && has(o->scenario.lab.before))
		return true;
	names = collective_names_with(has);
	fprintf(stderr, "doppel %s: -%c: %s has no %s; expected %s%s\n", command, key,
		o->scenario.lab.collective->name, what,
		*names ? "one of the collectives that have one: "
		       : "no such option: no collective has one",
		names);
	return false;
}

bool cli_collective_check(const char *command, const struct cli_options *o)
{
	return collective_has_effect(command, o, 'o', "operation", collective_reduces) &&
	       collective_has_effect(command, o, 'r', "root", lab_collective_has_root);
}
