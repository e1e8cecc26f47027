/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/tune/allowed.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "core/algo/algo.h"
#include "core/base/log.h"
#include "core/base/param.h"
#include "core/base/word.h"
#include "core/device/layout/names.h"
#include "core/device/layout/steps.h"
#include "core/tune/tuner_abi.h"

enum { ALLOWED_NAMES = 11 };

/* One of the two variables. A set of names has a bit for each name. The first `nccl` names are
 * NCCL's, in the order of its numbers. */
struct allowed_variable {
	enum param param;
	const char *what;
	const char *names[ALLOWED_NAMES + 1]; /* NULL after the last name */
	int nccl;
	const char *(*of_program)(unsigned program);
};

static const struct allowed_variable allowed_algo = {
	PARAM_ALGO,
	"algorithm",
	{"Tree", "Ring", "CollnetDirect", "CollnetChain", "NVLS", "NVLSTree", "PAT", "OneShot",
	 "TwoShot", "Doubling", "Symmetric"},
	TUNER_ALGOS,
	dev_algo_name,
};
static const struct allowed_variable allowed_proto = {
	PARAM_PROTO, "protocol", {"LL", "LL128", "Simple"}, TUNER_PROTOS, dev_proto_name,
};
static const char *const allowed_funcs[DEV_FUNC_COUNT + 1] = {
#define ALLOWED_FUNC(id, name) name,
	DEV_FUNCS(ALLOWED_FUNC)
#undef ALLOWED_FUNC
};

/* The names that a variable allows for each collective. */
struct allowed_names {
	uint32_t of_func[DEV_FUNC_COUNT];
	uint32_t own; /* collectives with a list of their own: a bit for each */
};

/* The position of a parser, and its buffer for an error. */
struct allowed_parser {
	const struct allowed_variable *variable;
	const char *name, *value; /* for errors; the whole value */
	char *error;
	size_t bytes;
};

/* ---- names ---------------------------------------------------------------------------------- */

static bool allowed_name_is(const char *name, const char *word, size_t n)
{
	const char *end = word + n;

	for (;; name++, word++) {
		name += *name == '_';
		word += word < end && *word == '_';
		if (!*name || word >= end)
			return !*name && word >= end;
		if (tolower((unsigned char)*name) != tolower((unsigned char)*word))
			return false;
	}
}

/* Returns the index of a word in a list of names that ends with NULL; -1: not found. */
static int allowed_find(const char *const *names, const char *word, size_t n)
{
	for (int i = 0; names[i]; i++)
		if (allowed_name_is(names[i], word, n))
			return i;
	return -1;
}

static uint32_t allowed_all(const struct allowed_variable *v)
{
	uint32_t all = 0;

	for (int i = 0; v->names[i]; i++)
		all |= 1u << i;
	return all;
}

/* Returns the index of a program's algorithm or protocol in the names. */
static int allowed_of_program(const struct allowed_variable *v, int program)
{
	const char *name = v->of_program((unsigned)program);

	return allowed_find(v->names, name, strlen(name));
}

static const char *allowed_program_name(const struct allowed_variable *v, int program)
{
	int i = allowed_of_program(v, program);

	return i < 0 ? "?" : v->names[i];
}

enum dev_func tune_func(int program)
{
	return steps_program(program).func;
}

const char *tune_func_name(enum dev_func func)
{
	return steps_func_name((int)func);
}

static int allowed_number(const struct allowed_variable *v, int program)
{
	int i = allowed_of_program(v, program);

	return i < v->nccl ? i : -1;
}

int tune_algo_number(int program)
{
	return allowed_number(&allowed_algo, program);
}

int tune_proto_number(int program)
{
	return allowed_number(&allowed_proto, program);
}

const char *tune_algo_name(int program)
{
	return allowed_program_name(&allowed_algo, program);
}

const char *tune_proto_name(int program)
{
	return allowed_program_name(&allowed_proto, program);
}

/* ---- errors --------------------------------------------------------------------------------- */

/* Writes "Tree, Ring". */
static const char *allowed_list(const char *const *names, char *text, size_t bytes)
{
	size_t n = 0;

	text[0] = '\0';
	for (int i = 0; names[i] && n < bytes; i++)
		n += (size_t)snprintf(text + n, bytes - n, "%s%s", i ? ", " : "", names[i]);
	return text;
}

static bool allowed_unknown(const struct allowed_parser *p, const char *what, const char *word,
			    size_t n, const char *const *names)
{
	char list[160];

	snprintf(p->error, p->bytes,
		 "%s=%.200s: unknown %s '%.*s', nearest %s; expected one of: %s", p->name, p->value,
		 what, (int)MIN_OF(n, (size_t)40), word, word_nearest(word, n, names),
		 allowed_list(names, list, sizeof list));
	return false;
}

static bool allowed_misplaced(const struct allowed_parser *p, const char *list, size_t n,
			      const char *expected)
{
	snprintf(p->error, p->bytes, "%s=%.200s: '%.*s': expected %s", p->name, p->value,
		 (int)MIN_OF(n, (size_t)40), list, expected);
	return false;
}

/* True if an earlier program of the collective, or of any collective, has the same algorithm and
 * protocol. */
static bool allowed_seen(int program, int func)
{
	struct dev_program_row row = steps_program(program);

	for (int p = 0; p < program; p++) {
		struct dev_program_row other = steps_program(p);

		if ((func < 0 || (int)other.func == func) && other.algo == row.algo &&
		    other.proto == row.proto)
			return true;
	}
	return false;
}

/* Writes "Ring/Simple, Ring/LL": the programs of the collective; -1: of any collective. */
static const char *allowed_programs(int func, char *text, size_t bytes)
{
	size_t n = 0;

	text[0] = '\0';
	for (int p = 0; p < DEV_PROGRAM_COUNT && n < bytes; p++)
		if ((func < 0 || (int)steps_program(p).func == func) && !allowed_seen(p, func))
			n += (size_t)snprintf(text + n, bytes - n, "%s%s/%s", n ? ", " : "",
					      tune_algo_name(p), tune_proto_name(p));
	return text;
}

/* `func` -1: all collectives. */
static void allowed_none_print(const char *algo, const char *proto, int func, char *text,
			       size_t bytes)
{
	bool a = algo && *algo, p = proto && *proto;
	char programs[160];

	snprintf(text, bytes, "%s%s%.200s%s%s%s%.200s allow%s no program%s%s; there are %s",
		 a ? param_name(PARAM_ALGO) : "", a ? "=" : "", a ? algo : "",
		 a && p ? " and " : "", p ? param_name(PARAM_PROTO) : "", p ? "=" : "",
		 p ? proto : "", a && p ? "" : "s", func < 0 ? "" : " for ",
		 func < 0 ? "" : allowed_funcs[func],
		 allowed_programs(func, programs, sizeof programs));
}

static bool allowed_has(uint64_t programs, int func)
{
	for (int p = 0; p < DEV_PROGRAM_COUNT; p++)
		if (tune_is_allowed(programs, p) && (int)steps_program(p).func == func)
			return true;
	return false;
}

/* Describes the machines that the collective's first program of these needs. */
static const char *allowed_needs(uint64_t programs, enum dev_func func)
{
	int p = 0;

	while (!tune_is_allowed(programs, p) || steps_program(p).func != func)
		p++;
	return algo_of_program(p)->needs;
}

const char *tune_allowed_none(enum dev_func func, const struct topo_summary *s, char *text,
			      size_t bytes)
{
	const char *algo = param_str(PARAM_ALGO), *proto = param_str(PARAM_PROTO);
	uint64_t programs;

	if (!tune_allowed_parse(algo, proto, &programs, text, bytes) ||
	    !allowed_has(programs, (int)func))
		allowed_none_print(algo, proto, (int)func, text, bytes);
	else
		snprintf(
			text, bytes,
			"NCCL_ALGO=%.200s allows only programs for %s that these ranks cannot run; "
			"expected %s, there are %d ranks on %d hosts%s; Ring connects any ranks",
			algo ? algo : "", allowed_funcs[func], allowed_needs(programs, func),
			s->nranks, s->nhosts,
			s->direct < 0 && s->nhosts == 1 ? " without p2p" : "");
	return text;
}

const char *tune_allowed_first(uint64_t programs, char *text, size_t bytes)
{
	int p = __builtin_ctzll(programs);

	ASSERT(programs && p < DEV_PROGRAM_COUNT);
	snprintf(text, bytes, "%s with %s/%s", allowed_funcs[steps_program(p).func],
		 tune_algo_name(p), tune_proto_name(p));
	return text;
}

/* ---- the grammar ---------------------------------------------------------------------------- */

/* Parses [^]name,name. *any: the list has a ^ or a name. */
static bool allowed_names_parse(const struct allowed_parser *p, const char *list, size_t n,
				uint32_t *names, bool *any)
{
	bool all_but = n > 0 && *list == '^';
	const char *end = list + n;
	uint32_t set = 0;

	*names = 0;
	*any = all_but;
	for (const char *word = list + all_but; word < end;) {
		const char *comma = memchr(word, ',', (size_t)(end - word));
		size_t bytes = (size_t)((comma ? comma : end) - word);
		int i = allowed_find(p->variable->names, word, bytes);

		if (bytes && i < 0)
			return allowed_unknown(p, p->variable->what, word, bytes,
					       p->variable->names);
		if (bytes) {
			set |= 1u << i;
			*any = true;
		}
		word += bytes + 1;
	}
	*names = all_but ? allowed_all(p->variable) & ~set : set;
	return true;
}

/* Parses [collective:]names. */
static bool allowed_list_parse(const struct allowed_parser *p, const char *list, size_t n,
			       bool first, struct allowed_names *out)
{
	const char *colon = memchr(list, ':', n);
	size_t head = colon ? (size_t)(colon - list) : 0;
	int func = colon ? allowed_find(allowed_funcs, list, head) : -1;
	uint32_t names;
	bool any;

	if (colon && func < 0)
		return allowed_unknown(p, "collective", list, head, allowed_funcs);
	if (!colon && !first)
		return allowed_misplaced(
			p, list, n, "a collective and a colon before all lists except the first");
	head += !!colon;
	if (!allowed_names_parse(p, list + head, n - head, &names, &any))
		return false;
	if (!any)
		return allowed_misplaced(p, list, n, "names with commas between");
	for (int f = 0; f < DEV_FUNC_COUNT; f++)
		if (f == func || func < 0)
			out->of_func[f] = names;
	if (colon)
		out->own |= 1u << func;
	return true;
}

static bool allowed_variable_parse(const struct allowed_parser *p, struct allowed_names *out)
{
	const char *list = p->value;
	bool first = true;

	out->own = 0;
	for (int f = 0; f < DEV_FUNC_COUNT; f++)
		out->of_func[f] = allowed_all(p->variable);
	if (!list || !*list)
		return true;
	for (;; list++) {
		size_t n = strcspn(list, ";");

		if (n && !allowed_list_parse(p, list, n, first, out))
			return false;
		first = first && !n;
		list += n;
		if (!*list)
			break;
	}
	return !first || allowed_misplaced(p, p->value, strlen(p->value), "a list of names");
}

/* ---- programs ------------------------------------------------------------------------------- */

static uint64_t allowed_of(const struct allowed_names *algo, const struct allowed_names *proto)
{
	uint64_t programs = 0;

	for (int p = 0; p < DEV_PROGRAM_COUNT; p++) {
		enum dev_func func = steps_program(p).func;
		int a = allowed_of_program(&allowed_algo, p);
		int b = allowed_of_program(&allowed_proto, p);

		ASSERT(a >= 0 && b >= 0);
		if (algo->of_func[func] >> a & proto->of_func[func] >> b & 1)
			programs |= 1ull << p;
	}
	return programs;
}

bool tune_allowed_parse(const char *algo, const char *proto, uint64_t *programs, char *error,
			size_t bytes)
{
	const struct allowed_parser of_algo = {&allowed_algo, "NCCL_ALGO", algo, error, bytes};
	const struct allowed_parser of_proto = {&allowed_proto, "NCCL_PROTO", proto, error, bytes};
	struct allowed_names algos, protos;

	*programs = 0;
	if (!allowed_variable_parse(&of_algo, &algos) ||
	    !allowed_variable_parse(&of_proto, &protos))
		return false;
	*programs = allowed_of(&algos, &protos);
	if (!*programs) {
		allowed_none_print(algo, proto, -1, error, bytes);
		return false;
	}
	for (int f = 0; f < DEV_FUNC_COUNT; f++) {
		if (f >= DEV_EDGE_FUNCS || !((algos.own | protos.own) >> f & 1) ||
		    allowed_has(*programs, f))
			continue;
		allowed_none_print(algo, proto, f, error, bytes);
		return false;
	}
	return true;
}

bool tune_allowed_select(const char *selection, uint64_t *programs, char *error, size_t bytes)
{
	const struct allowed_parser p = {&allowed_algo, "algSelection", selection, error, bytes};
	const struct allowed_parser any = {&allowed_proto, "", NULL, error, bytes};
	struct allowed_names algos, protos;

	*programs = 0;
	if (!allowed_variable_parse(&p, &algos) || !allowed_variable_parse(&any, &protos))
		return false;
	*programs = allowed_of(&algos, &protos);
	return true;
}

/* NCCL_PAT_ENABLE=0. ncclInvalidUsage, logged: a collective would have no program left. */
static ncclResult_t allowed_without_pat(uint64_t *programs, const char *algo)
{
	uint64_t left = *programs;

	for (int p = 0; p < DEV_PROGRAM_COUNT; p++)
		if (steps_program(p).algo == DEV_PAT)
			left &= ~(1ull << p);
	for (int f = 0; f < DEV_FUNC_COUNT; f++) {
		if (!allowed_has(*programs, f) || allowed_has(left, f))
			continue;
		WARN("NCCL_ALGO=%.200s allows only PAT for %s, and NCCL_PAT_ENABLE=0 forbids it; "
		     "expected another algorithm, or NCCL_PAT_ENABLE=1 or 2",
		     algo ? algo : "", allowed_funcs[f]);
		return ncclInvalidUsage;
	}
	*programs = left;
	return ncclSuccess;
}

ncclResult_t tune_allowed_read(uint64_t *programs)
{
	const char *algo = param_str(PARAM_ALGO), *proto = param_str(PARAM_PROTO);
	char error[1024];

	if (!tune_allowed_parse(algo, proto, programs, error, sizeof error)) {
		WARN("%s", error);
		return ncclInvalidUsage;
	}
	if (!param_i64(PARAM_PAT_ENABLE))
		return allowed_without_pat(programs, algo);
	return ncclSuccess;
}
