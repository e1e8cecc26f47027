/* SPDX-License-Identifier: BSD-3-Clause */
/* Variables: spaces, types, bounds, initial values. */
#include "backends/fakecuda/ptx/parse_internal.h"

#include <stdlib.h>

#include "core/base/macros.h"

static const struct {
	const char *name;
	enum ptx_space space;
} parse_spaces[] = {
	{".global", PTX_GLOBAL}, {".const", PTX_CONST}, {".shared", PTX_SHARED},
	{".local", PTX_LOCAL},   {".param", PTX_PARAM},
};

bool parse_space(struct ptx_parser *p, enum ptx_space *space)
{
	for (size_t i = 0; i < ARRAY_LEN(parse_spaces); i++) {
		if (parse_take(p, parse_spaces[i].name)) {
			*space = parse_spaces[i].space;
			return true;
		}
	}
	return parse_expected(p, "a directive of PTX, or a state space");
}

static bool parse_type(struct ptx_parser *p, const struct ptx_type **type)
{
	struct ptx_text t = p->token.text;

	*type = NULL;
	if (p->token.kind == PTX_WORD && t.bytes > 1 && *t.at == '.')
		*type = ptx_type_find((struct ptx_text){t.at + 1, t.bytes - 1});
	if (!*type)
		return parse_expected(p, "a type");
	parse_advance(p);
	return true;
}

static bool parse_align(struct ptx_parser *p, uint32_t *align)
{
	uint64_t n;

	if (!parse_number(p, &n))
		return false;
	if (!n || n > 1024 || (n & (n - 1)))
		return parse_fail(p, "alignment %llu; expected a power of two up to 1024",
				  (unsigned long long)n);
	*align = (uint32_t)n;
	return true;
}

/* [16], [4][8], or [] for a size that the launch sets */
static bool parse_bounds(struct ptx_parser *p, struct ptx_variable *v)
{
	while (parse_take(p, "[")) {
		uint64_t n = 0;
		if (!parse_is(p, "]") && !parse_number(p, &n))
			return false;
		if (n > PTX_VARIABLE_MOST || v->bytes * n > PTX_VARIABLE_MOST)
			return parse_fail(p, "a variable of more than %d bytes", PTX_VARIABLE_MOST);
		v->bytes *= n;
		if (!parse_need(p, "]"))
			return false;
	}
	return true;
}

bool parse_declare(struct ptx_parser *p, enum ptx_space space, struct ptx_variable *v)
{
	uint32_t lanes = 1;

	v->space = space;
	v->line = p->token.line;
	for (;;) {
		if (parse_take(p, ".align")) {
			if (!parse_align(p, &v->align))
				return false;
		} else if (parse_take(p, ".ptr")) {
			enum ptx_space pointed;
			if (!parse_is(p, ".align") && !parse_space(p, &pointed))
				return false;
			uint32_t align;
			if (parse_take(p, ".align") && !parse_align(p, &align))
				return false;
		} else if (parse_take(p, ".v2")) {
			lanes = 2;
		} else if (parse_take(p, ".v4")) {
			lanes = 4;
		} else if (v->type || p->token.kind != PTX_WORD || *p->token.text.at != '.') {
			break;
		} else if (!parse_type(p, &v->type)) {
			return false;
		}
	}
	if (!v->type || v->type->bits < 8)
		return parse_expected(p, "a type of a variable");
	v->bytes = v->type->bits / 8 * lanes;
	v->align = MAX_OF(v->align, (uint32_t)v->bytes);
	return parse_name(p, &v->name) && parse_bounds(p, v);
}

/* A symbol as an initial value: sym, generic(sym), sym+4. */
static bool parse_pointer(struct ptx_parser *p, struct ptx_variable *v, uint64_t at)
{
	struct ptx_pointer *q = PARSE_ADD(v->pointers, v->pointer_count);
	bool generic = parse_take(p, "generic");

	q->at = at;
	if (v->type->bits != 64)
		return parse_fail(p, "an address in a variable of %u bits; expected 64",
				  v->type->bits);
	if (generic && !parse_need(p, "("))
		return false;
	if (!parse_name(p, &q->symbol))
		return false;
	if (generic && !parse_need(p, ")"))
		return false;
	return !parse_take(p, "+") || parse_number(p, &q->offset);
}

static bool parse_init_list(struct ptx_parser *p, struct ptx_variable *v, uint64_t *at,
			    uint32_t depth)
{
	uint32_t unit = v->type->bits / 8u;

	if (depth > PTX_NESTING_MOST)
		return parse_fail(p, "initial values nest deeper than %d", PTX_NESTING_MOST);
	if (parse_take(p, "{")) {
		do {
			if (!parse_init_list(p, v, at, depth + 1))
				return false;
		} while (parse_take(p, ","));
		return parse_need(p, "}");
	}
	if (*at + unit > v->bytes)
		return parse_fail(p, "more initial values than the variable has room for");
	if (p->token.kind == PTX_WORD) {
		if (!parse_pointer(p, v, *at))
			return false;
	} else {
		uint64_t value;
		char kind;
		if (!parse_value(p, &value, &kind))
			return false;
		memcpy(v->init + *at, &value, unit);
	}
	*at += unit;
	return true;
}

bool parse_init(struct ptx_parser *p, struct ptx_variable *v)
{
	uint64_t at = 0;

	if (!parse_take(p, "="))
		return true;
	if (v->space != PTX_GLOBAL && v->space != PTX_CONST)
		return parse_fail(p, "initial values; expected them in .global or .const only");
	if (!v->bytes)
		return parse_fail(p, "initial values of a variable without a size");
	v->init = calloc(1, v->bytes);
	ASSERT(v->init);
	return parse_init_list(p, v, &at, 0);
}

bool parse_variable(struct ptx_parser *p, enum ptx_space space, bool external,
		    enum ptx_linkage linkage)
{
	struct ptx_module *m = p->module;

	if (space != PTX_GLOBAL && space != PTX_CONST && space != PTX_SHARED)
		return parse_fail(p, "a variable of a module; expected .global, .const or .shared");
	do {
		struct ptx_variable *v = PARSE_ADD(m->variable, m->variables);
		if (!parse_declare(p, space, v) || !parse_init(p, v))
			return false;
		v->external = external;
		v->linkage = linkage;
		v->text = m->texts;
		if (space != PTX_SHARED)
			v->at = m->globals++;
	} while (parse_take(p, ","));
	return parse_need(p, ";");
}
