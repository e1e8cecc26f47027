/* SPDX-License-Identifier: BSD-3-Clause */
/* Branches, calls, returns. */
#include <ctype.h>

#include "backends/fakecuda/ptx/emit_internal.h"
#include "core/base/macros.h"

/* ---- branches ------------------------------------------------------------------------------- */

/* Finds the label in the innermost block around the statement that has one of that name. */
static const struct ptx_stmt *flow_label(const struct ptx_emit *e, struct ptx_text name)
{
	const struct ptx_func *f = e->func;

	for (uint32_t scope = e->stmt->scope;; scope = f->scope_parent[scope]) {
		for (uint32_t i = 0; i < f->stmts; i++) {
			const struct ptx_stmt *s = &f->stmt[i];
			if (s->kind == PTX_ST_LABEL && s->scope == scope &&
			    ptx_text_same(s->label, name))
				return s;
		}
		if (!scope)
			return NULL;
	}
}

/* $L__BB0_1 is L__BB0_1; one of an inner block gets the block's number. */
void emit_label(struct ptx_emit *e, const struct ptx_stmt *s)
{
	if (*s->label.at != '$')
		emit_text(e, "l_");
	for (uint32_t i = *s->label.at == '$'; i < s->label.bytes; i++)
		emit_text(e, "%c", isalnum((unsigned char)s->label.at[i]) ? s->label.at[i] : '_');
	if (s->scope)
		emit_text(e, "_in%u", s->scope);
}

/* A backward branch may be a loop that waits for another task. */
void emit_bra(struct ptx_emit *e)
{
	if (!emit_has(e, 1))
		return;
	struct ptx_text name = emit_operand(e, 0)->text;
	const struct ptx_stmt *to = flow_label(e, name);
	if (!to) {
		emit_fail(e, "no label %.*s", (int)name.bytes, name.at);
		return;
	}
	emit_text(e, "%sgoto ", to < e->stmt ? "{ ptx_pause(lane); " : "{ ");
	emit_label(e, to);
	emit_text(e, "; }");
}

void emit_ret(struct ptx_emit *e)
{
	emit_text(e, "{ lane->frame = frame; return; }");
}

void emit_exit(struct ptx_emit *e)
{
	emit_text(e, "ptx_exit(lane);");
}

void emit_trap(struct ptx_emit *e)
{
	emit_text(e, "ptx_trap(lane, \"trap\");");
}

/* Instructions that a program can have in parts that it does not run on this GPU: the kernel that
 * reaches one ends, with its name. */
void emit_absent(struct ptx_emit *e)
{
	struct ptx_text t = e->stmt->opcode;

	emit_text(e, "ptx_trap(lane, \"");
	for (uint32_t i = 0; i < t.bytes; i++)
		emit_text(e, "%c",
			  isalnum((unsigned char)t.at[i]) || t.at[i] == ':' ? t.at[i] : '.');
	emit_text(e, " is not implemented\");");
}

void emit_nothing(struct ptx_emit *e)
{
	emit_text(e, ";");
}

/* ---- functions that the translation supplies ------------------------------------------------ */

/* Functions of the C library that our headers name __doppel_NAME, with f at the end for floats. */
static const struct {
	const char *name;
	uint8_t params;
} flow_math[] = {
	{"sin", 1},   {"cos", 1},   {"tan", 1},   {"asin", 1},      {"acos", 1},   {"atan", 1},
	{"sinh", 1},  {"cosh", 1},  {"tanh", 1},  {"asinh", 1},     {"acosh", 1},  {"atanh", 1},
	{"exp", 1},   {"exp2", 1},  {"expm1", 1}, {"log", 1},       {"log2", 1},   {"log10", 1},
	{"log1p", 1}, {"cbrt", 1},  {"erf", 1},   {"erfc", 1},      {"tgamma", 1}, {"lgamma", 1},
	{"pow", 2},   {"atan2", 2}, {"fmod", 2},  {"remainder", 2}, {"hypot", 2},
};

static const char *const flow_math_prefix = "__doppel_";

/* Returns the row of the function, and whether it is for floats. -1: it is not one. */
static int flow_math_find(struct ptx_text name, bool *single)
{
	size_t prefix = strlen(flow_math_prefix);

	if (name.bytes <= prefix || memcmp(name.at, flow_math_prefix, prefix) != 0)
		return -1;
	struct ptx_text rest = {name.at + prefix, name.bytes - (uint32_t)prefix};
	for (int pass = 0; pass < 2; pass++) {
		*single = pass == 1;
		for (size_t i = 0; i < ARRAY_LEN(flow_math); i++) {
			if (ptx_text_is(rest, flow_math[i].name))
				return (int)i;
		}
		if (rest.at[rest.bytes - 1] != 'f')
			return -1;
		rest.bytes--;
	}
	return -1;
}

/* Writes a parameter of the call as a value of the type. */
static void flow_value(struct ptx_emit *e, const struct ptx_operand *param, const char *type)
{
	const struct ptx_variable *v = ptx_local_find(e->func, param->text, e->stmt);
	bool wide = strcmp(type, "uint64_t") == 0 || strcmp(type, "double") == 0;

	if (!v || v->bytes != (wide ? 8 : 4)) {
		emit_fail(e, "parameter %.*s is not one of %d bytes", (int)param->text.bytes,
			  param->text.at, wide ? 8 : 4);
		return;
	}
	emit_text(e, "*(%s *)", type);
	emit_name(e, param->text);
}

static void flow_math_call(struct ptx_emit *e, int row, bool single,
			   const struct ptx_operand *result, const struct ptx_operand *params)
{
	const char *type = single ? "float" : "double";

	if (!result || result->parts != 1 || !params || params->parts != flow_math[row].params) {
		emit_fail(e, "a call of %s%s with other parameters", flow_math_prefix,
			  flow_math[row].name);
		return;
	}
	flow_value(e, result->part, type);
	emit_text(e, " = __builtin_%s%s(", flow_math[row].name, single ? "f" : "");
	for (uint32_t i = 0; i < params->parts; i++) {
		emit_text(e, i ? ", " : "");
		flow_value(e, &params->part[i], type);
	}
	emit_text(e, ");");
}

static void flow_printf(struct ptx_emit *e, const struct ptx_operand *result,
			const struct ptx_operand *params)
{
	if (!result || result->parts != 1 || !params || params->parts != 2) {
		emit_fail(e, "a call of vprintf with other parameters");
		return;
	}
	flow_value(e, result->part, "int32_t");
	emit_text(e, " = ptx_vprintf(lane, ");
	flow_value(e, &params->part[0], "uint64_t");
	emit_text(e, ", ");
	flow_value(e, &params->part[1], "uint64_t");
	emit_text(e, ");");
}

static void flow_assert(struct ptx_emit *e, const struct ptx_operand *params)
{
	if (!params || params->parts != 4) {
		emit_fail(e, "a call of __assert_fail with other parameters");
		return;
	}
	emit_text(e, "ptx_assert_fail(lane, ");
	for (uint32_t i = 0; i < 4; i++) {
		emit_text(e, i ? ", " : "");
		flow_value(e, &params->part[i], i == 2 ? "uint32_t" : "uint64_t");
	}
	emit_text(e, ");");
}

static void flow_external(struct ptx_emit *e, struct ptx_text name,
			  const struct ptx_operand *result, const struct ptx_operand *params)
{
	bool single;
	int row = flow_math_find(name, &single);

	if (row >= 0)
		flow_math_call(e, row, single, result, params);
	else if (ptx_text_is(name, "vprintf"))
		flow_printf(e, result, params);
	else if (ptx_text_is(name, "__assert_fail"))
		flow_assert(e, params);
	else
		emit_fail(e, "function %.*s is declared, and no object of this image defines it",
			  (int)MIN_OF(name.bytes, 100u), name.at);
}

/* ---- calls ---------------------------------------------------------------------------------- */

/* Writes the pointers to a call's parameters or result. With a callee it checks their sizes. */
static void flow_pointers(struct ptx_emit *e, const struct ptx_operand *list,
			  const struct ptx_variable *expected, uint32_t count, bool known)
{
	uint32_t parts = list ? list->parts : 0;

	if (known && parts != count) {
		emit_fail(e, "a call with %u parameters or results; expected %u", parts, count);
		return;
	}
	for (uint32_t i = 0; i < parts; i++) {
		const struct ptx_variable *v = ptx_local_find(e->func, list->part[i].text, e->stmt);
		if (list->part[i].kind != PTX_OP_SYMBOL || !v ||
		    (known && v->bytes < expected[i].bytes)) {
			emit_fail(e, "operand %u of a call is not a .param of the callee's size",
				  i);
			return;
		}
		emit_text(e, ", ");
		emit_name(e, list->part[i].text);
	}
}

/* The callee is a number of the table of functions, or 0. */
static void flow_indirect(struct ptx_emit *e, const struct ptx_operand *target,
			  const struct ptx_operand *result, const struct ptx_operand *params)
{
	uint32_t count = (result ? result->parts : 0) + (params ? params->parts : 0);

	emit_text(e, "((void (*)(struct ptx_lane *");
	for (uint32_t i = 0; i < count; i++)
		emit_text(e, ", uint8_t *");
	emit_text(e, "))ptx_callee(lane, ");
	emit_read(e, target, ptx_type_named("u64"));
	emit_text(e, ", %u))(lane", count);
	flow_pointers(e, result, NULL, 0, false);
	flow_pointers(e, params, NULL, 0, false);
	emit_text(e, ");");
}

/* call (result), callee, (parameters), prototype; only the callee is always there */
void emit_call(struct ptx_emit *e)
{
	const struct ptx_operand *o = e->stmt->operand, *result = NULL, *params = NULL;
	uint32_t n = e->stmt->operands, i = 0;

	if (n && o[0].kind == PTX_OP_VECTOR)
		result = &o[i++];
	if (i == n || (o[i].kind != PTX_OP_SYMBOL && o[i].kind != PTX_OP_REGISTER)) {
		emit_fail(e, "a call without a function");
		return;
	}
	const struct ptx_operand *target = &o[i++];
	if (i < n && o[i].kind == PTX_OP_VECTOR)
		params = &o[i++];
	if (target->kind == PTX_OP_REGISTER) {
		flow_indirect(e, target, result, params);
		return;
	}
	const struct ptx_func *f = ptx_func_find(e->module, target->text, e->func->text);
	if (!f || f->external) {
		flow_external(e, target->text, result, params);
		return;
	}
	emit_function_name(e, f);
	emit_text(e, "(lane");
	flow_pointers(e, result, f->result, f->results, true);
	flow_pointers(e, params, f->param, f->params, true);
	emit_text(e, ");");
}
