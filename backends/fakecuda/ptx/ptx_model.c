/* SPDX-License-Identifier: BSD-3-Clause */
#include "backends/fakecuda/ptx/model.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/macros.h"

const struct ptx_type ptx_types[] = {
	{"pred", 'p', 1, "bool"},     {"b8", 'b', 8, "uint8_t"},     {"b16", 'b', 16, "uint16_t"},
	{"b32", 'b', 32, "uint32_t"}, {"b64", 'b', 64, "uint64_t"},  {"u8", 'u', 8, "uint8_t"},
	{"u16", 'u', 16, "uint16_t"}, {"u32", 'u', 32, "uint32_t"},  {"u64", 'u', 64, "uint64_t"},
	{"s8", 's', 8, "int8_t"},     {"s16", 's', 16, "int16_t"},   {"s32", 's', 32, "int32_t"},
	{"s64", 's', 64, "int64_t"},  {"f32", 'f', 32, "float"},     {"f64", 'f', 64, "double"},
	{"f16", 'h', 16, "uint16_t"}, {"bf16", 'g', 16, "uint16_t"}, {NULL, 0, 0, NULL},
};

const struct ptx_type *ptx_type_find(struct ptx_text name)
{
	for (const struct ptx_type *t = ptx_types; t->name; t++) {
		if (ptx_text_is(name, t->name))
			return t;
	}
	return NULL;
}

const struct ptx_type *ptx_type_named(const char *name)
{
	return ptx_type_find((struct ptx_text){name, (uint32_t)strlen(name)});
}

/* How well a name fits one that text `from` uses. 0: it is another text's own. */
static int model_rank(enum ptx_linkage linkage, bool external, uint32_t text, uint32_t from)
{
	bool own = text == from || from == PTX_ANY_TEXT;

	if (external)
		return own ? 1 : 0;
	if (own && linkage == PTX_INTERNAL)
		return 5;
	if (linkage == PTX_VISIBLE)
		return own ? 4 : 3;
	return linkage == PTX_WEAK_NAME ? 2 : 0;
}

struct ptx_func *ptx_func_find(const struct ptx_module *m, struct ptx_text name, uint32_t from)
{
	struct ptx_func *found = NULL;
	int best = 0;

	for (uint32_t i = 0; i < m->funcs; i++) {
		struct ptx_func *f = &m->func[i];
		if (!ptx_text_same(f->name, name))
			continue;
		int rank = model_rank(f->linkage, f->external, f->text, from);
		found = rank > best ? f : found;
		best = MAX_OF(rank, best);
	}
	return found;
}

struct ptx_variable *ptx_variable_find(const struct ptx_module *m, struct ptx_text name,
				       uint32_t from)
{
	struct ptx_variable *found = NULL;
	int best = 0;

	for (uint32_t i = 0; i < m->variables; i++) {
		struct ptx_variable *v = &m->variable[i];
		if (!ptx_text_same(v->name, name))
			continue;
		int rank = model_rank(v->linkage, v->external, v->text, from);
		found = rank > best ? v : found;
		best = MAX_OF(rank, best);
	}
	return found;
}

static bool model_defined_twice(struct ptx_module *m, struct ptx_text name, uint32_t line)
{
	snprintf(m->error, sizeof m->error, "line %u: %.*s is defined in two objects", line,
		 (int)MIN_OF(name.bytes, 160u), name.at);
	return false;
}

bool ptx_module_check(struct ptx_module *m)
{
	for (uint32_t i = 0; m->texts > 1 && i < m->funcs; i++) {
		const struct ptx_func *f = &m->func[i];
		if (!f->external && f->linkage == PTX_VISIBLE &&
		    ptx_func_find(m, f->name, PTX_ANY_TEXT) != f)
			return model_defined_twice(m, f->name, f->line);
	}
	for (uint32_t i = 0; m->texts > 1 && i < m->variables; i++) {
		const struct ptx_variable *v = &m->variable[i];
		if (!v->external && v->linkage == PTX_VISIBLE &&
		    ptx_variable_find(m, v->name, PTX_ANY_TEXT) != v)
			return model_defined_twice(m, v->name, v->line);
	}
	return true;
}

static const struct ptx_variable *model_last(const struct ptx_variable *v, uint32_t count,
					     struct ptx_text name, uint32_t before)
{
	for (uint32_t i = count; i > 0; i--) {
		if (v[i - 1].stmt < before && ptx_text_same(v[i - 1].name, name))
			return &v[i - 1];
	}
	return NULL;
}

const struct ptx_variable *ptx_local_find(const struct ptx_func *f, struct ptx_text name,
					  const struct ptx_stmt *before)
{
	const uint32_t at = (uint32_t)(before - f->stmt) + 1;
	const struct ptx_variable *v = model_last(f->local, f->locals, name, at);

	if (!v)
		v = model_last(f->param, f->params, name, at);
	return v ? v : model_last(f->result, f->results, name, at);
}

/* True if the name is that of the family and a number below its count. */
static bool model_in_family(const struct ptx_register *r, struct ptx_text name)
{
	uint64_t n = 0;

	if (name.bytes <= r->name.bytes || memcmp(name.at, r->name.at, r->name.bytes))
		return false;
	for (uint32_t i = r->name.bytes; i < name.bytes; i++) {
		if (!isdigit((unsigned char)name.at[i]) || n > UINT32_MAX)
			return false;
		n = n * 10 + (uint64_t)(name.at[i] - '0');
	}
	return n < r->count;
}

const struct ptx_register *ptx_register_find(const struct ptx_func *f, struct ptx_text name)
{
	for (uint32_t i = f->regs; i > 0; i--) {
		const struct ptx_register *r = &f->reg[i - 1];
		if (!r->ended &&
		    (r->count ? model_in_family(r, name) : ptx_text_same(r->name, name)))
			return r;
	}
	return NULL;
}

bool ptx_stmt_indirect(const struct ptx_stmt *s)
{
	if (s->kind != PTX_ST_CODE || s->opcode.bytes < 4 || memcmp(s->opcode.at, "call", 4))
		return false;
	for (uint32_t i = 0; i < s->operands; i++) {
		if (s->operand[i].kind == PTX_OP_REGISTER)
			return true;
	}
	return false;
}

static void model_free_operands(struct ptx_operand *o, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		model_free_operands(o[i].part, o[i].parts);
	free(o);
}

static void model_free_variables(struct ptx_variable *v, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		free(v[i].init);
		free(v[i].pointers);
	}
	free(v);
}

static void model_free_func(struct ptx_func *f)
{
	model_free_variables(f->param, f->params);
	model_free_variables(f->result, f->results);
	model_free_variables(f->local, f->locals);
	for (uint32_t i = 0; i < f->stmts; i++) {
		model_free_operands(f->stmt[i].operand, f->stmt[i].operands);
		model_free_operands(f->stmt[i].guard.part, f->stmt[i].guard.parts);
	}
	free(f->stmt);
	free(f->reg);
	free(f->scope_parent);
}

void ptx_module_free(struct ptx_module *m)
{
	model_free_variables(m->variable, m->variables);
	for (uint32_t i = 0; i < m->funcs; i++)
		model_free_func(&m->func[i]);
	free(m->func);
	free(m->file);
	*m = (struct ptx_module){0};
}
