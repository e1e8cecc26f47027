/* SPDX-License-Identifier: BSD-3-Clause */
/* The body of a function: declarations, labels, blocks, instructions. */
#include "backends/fakecuda/ptx/parse_internal.h"

#include "core/base/macros.h"

static struct ptx_stmt *body_add(struct ptx_parser *p, enum ptx_stmt_kind kind)
{
	struct ptx_stmt *s = PARSE_ADD(p->func->stmt, p->func->stmts);

	s->kind = kind;
	s->line = p->token.line;
	s->scope = p->scope;
	return s;
}

/* .reg .b32 %r<10>, %x; */
static bool body_registers(struct ptx_parser *p)
{
	struct ptx_func *f = p->func;
	struct ptx_stmt *s = body_add(p, PTX_ST_REGISTERS);
	struct ptx_text t = p->token.text;
	const struct ptx_type *type = NULL;

	if (p->token.kind == PTX_WORD && t.bytes > 1 && *t.at == '.')
		type = ptx_type_find((struct ptx_text){t.at + 1, t.bytes - 1});
	if (!type)
		return parse_expected(p, "a type of registers that is implemented");
	parse_advance(p);
	s->index = f->regs;
	do {
		struct ptx_register *r = PARSE_ADD(f->reg, f->regs);
		uint64_t count = 0;
		if (!parse_name(p, &r->name))
			return false;
		if (parse_take(p, "<") && (!parse_number(p, &count) || !parse_need(p, ">")))
			return false;
		if (count > 1u << 20)
			return parse_fail(p, "more than %u registers", 1u << 20);
		r->type = type;
		r->count = (uint32_t)count;
		r->scope = p->scope;
		s->count++;
	} while (parse_take(p, ","));
	return parse_need(p, ";");
}

/* .local or .param: memory in the frame. .shared: a variable of the module. */
static bool body_variable(struct ptx_parser *p)
{
	struct ptx_func *f = p->func;
	enum ptx_space space;

	if (!parse_space(p, &space))
		return false;
	if (space == PTX_SHARED || space == PTX_GLOBAL || space == PTX_CONST)
		return parse_variable(p, space, false, PTX_INTERNAL);
	struct ptx_stmt *s = body_add(p, PTX_ST_VARIABLE);
	s->index = f->locals;
	struct ptx_variable *v = PARSE_ADD(f->local, f->locals);
	if (!parse_declare(p, space, v))
		return false;
	v->stmt = f->stmts;
	v->at = ALIGN_UP(f->frame_bytes, v->align);
	if (v->at + v->bytes > PTX_FRAME_MOST)
		return parse_fail(p, "more than %d bytes of local memory", PTX_FRAME_MOST);
	f->frame_bytes = (uint32_t)(v->at + v->bytes);
	return parse_need(p, ";");
}

/* .loc file line column [, function_name symbol [+ n]] [, inlined_at file line column] */
static bool body_place(struct ptx_parser *p)
{
	struct ptx_stmt *s = body_add(p, PTX_ST_PLACE);
	uint64_t file, line, column;

	if (!parse_number(p, &file) || !parse_number(p, &line) || !parse_number(p, &column))
		return false;
	s->file = (uint32_t)file;
	s->source_line = (uint32_t)line;
	while (parse_take(p, ",")) {
		parse_advance(p);
		while (p->token.kind == PTX_NUMBER || parse_is(p, "+") ||
		       (p->token.kind == PTX_WORD && *p->token.text.at == '$' &&
			p->token.line == s->line))
			parse_advance(p);
	}
	return true;
}

static bool body_open(struct ptx_parser *p)
{
	struct ptx_func *f = p->func;

	if (++p->depth > PTX_NESTING_MOST)
		return parse_fail(p, "blocks nest deeper than %d", PTX_NESTING_MOST);
	body_add(p, PTX_ST_OPEN);
	uint32_t *parent = PARSE_ADD(f->scope_parent, f->scopes);
	*parent = p->scope;
	p->scope = f->scopes - 1;
	return true;
}

static void body_close(struct ptx_parser *p)
{
	struct ptx_func *f = p->func;

	body_add(p, PTX_ST_CLOSE);
	for (uint32_t i = 0; i < f->regs; i++)
		f->reg[i].ended |= f->reg[i].scope == p->scope;
	p->scope = f->scope_parent[p->scope];
	p->depth--;
}

static bool body_guard(struct ptx_parser *p, struct ptx_stmt *s)
{
	if (!parse_take(p, "@"))
		return true;
	if (!parse_operand(p, &s->guard, 0))
		return false;
	if (s->guard.kind != PTX_OP_REGISTER || s->guard.type->kind != 'p')
		return parse_fail(p, "a guard that is not a predicate register");
	return true;
}

static bool body_operands(struct ptx_parser *p, struct ptx_stmt *s)
{
	while (!parse_take(p, ";")) {
		if (s->operands && !parse_need(p, ","))
			return false;
		if (s->operands >= PTX_OPERANDS_MOST)
			return parse_fail(p, "more than %d operands", PTX_OPERANDS_MOST);
		struct ptx_operand *o = PARSE_ADD(s->operand, s->operands);
		if (!parse_operand(p, o, 0))
			return false;
	}
	return true;
}

/* name: .callprototype ... ; only the number of parameters matters, which the call has, too. */
static bool body_prototype(struct ptx_parser *p)
{
	while (p->token.kind != PTX_END && !parse_is(p, ";"))
		parse_advance(p);
	return parse_need(p, ";");
}

/* A label, or an instruction. */
static bool body_code(struct ptx_parser *p)
{
	struct ptx_stmt *s = body_add(p, PTX_ST_CODE);

	if (!body_guard(p, s))
		return false;
	if (p->token.kind != PTX_WORD || *p->token.text.at == '.')
		return parse_expected(p, "an instruction");
	s->opcode = p->token.text;
	parse_advance(p);
	if (!s->guard.text.bytes && parse_take(p, ":")) {
		s->label = s->opcode;
		s->kind = PTX_ST_LABEL;
		if (parse_take(p, ".callprototype")) {
			s->kind = PTX_ST_PROTOTYPE;
			return body_prototype(p);
		}
		return true;
	}
	return body_operands(p, s);
}

static bool body_statement(struct ptx_parser *p)
{
	if (parse_take(p, ".reg"))
		return body_registers(p);
	if (parse_take(p, ".loc"))
		return body_place(p);
	if (parse_take(p, ".pragma")) {
		parse_advance(p);
		return parse_need(p, ";");
	}
	if (p->token.kind == PTX_WORD && *p->token.text.at == '.')
		return body_variable(p);
	return body_code(p);
}

bool parse_body(struct ptx_parser *p)
{
	*(uint32_t *)PARSE_ADD(p->func->scope_parent, p->func->scopes) = 0;
	p->scope = 0;
	p->depth = 0;
	for (;;) {
		if (p->token.kind == PTX_END)
			return parse_expected(p, "}");
		if (parse_take(p, "}")) {
			if (!p->depth)
				return true;
			body_close(p);
		} else if (parse_take(p, "{")) {
			if (!body_open(p))
				return false;
		} else if (!body_statement(p)) {
			return false;
		}
	}
}
