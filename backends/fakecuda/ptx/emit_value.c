/* SPDX-License-Identifier: BSD-3-Clause */
/* Operands as C: reads, assignments, addresses. */
#include <ctype.h>
#include <stdlib.h>

#include "backends/fakecuda/ptx/emit_internal.h"
#include "core/base/macros.h"

/* A register or a variable. Names without a percent sign may be those of C. */
void emit_name(struct ptx_emit *e, struct ptx_text name)
{
	if (name.bytes && *name.at == '%')
		name = (struct ptx_text){name.at + 1, name.bytes - 1};
	else
		emit_text(e, "v_");
	for (uint32_t i = 0; i < name.bytes; i++)
		emit_text(e, "%c", isalnum((unsigned char)name.at[i]) ? name.at[i] : '_');
}

const char *emit_c_type(const struct ptx_type *t)
{
	return t->kind == 'h' || t->kind == 'g' ? "float" : t->c;
}

/* ---- special registers ---------------------------------------------------------------------- */

static const struct {
	const char *name, *c;
} emit_specials[] = {
	{"%laneid", "lane->laneid"},
	{"%warpid", "lane->warpid"},
	{"%nwarpid", "lane->nwarpid"},
	{"%smid", "lane->smid"},
	{"%lanemask_eq", "(1u << lane->laneid)"},
	{"%lanemask_lt", "((1u << lane->laneid) - 1)"},
	{"%lanemask_le", "(((2u << lane->laneid)) - 1)"},
	{"%lanemask_gt", "(~((2u << lane->laneid) - 1))"},
	{"%lanemask_ge", "(~((1u << lane->laneid) - 1))"},
	{"%globaltimer", "ptx_now_ns(lane)"},
	{"%clock64", "ptx_now_ns(lane)"},
	{"%clock", "ptx_now_ns(lane)"},
	{"%dynamic_smem_size", "lane->dynamic_bytes"},
	{"%total_smem_size", "lane->shared_bytes"},
	{"WARP_SZ", "32"},
};

/* %tid.x and its family */
static bool emit_dimension(struct ptx_emit *e, struct ptx_text t)
{
	static const char *const families[] = {"%tid", "%ntid", "%ctaid", "%nctaid"};

	for (size_t i = 0; i < ARRAY_LEN(families); i++) {
		size_t n = strlen(families[i]);
		if (t.bytes == n + 2 && memcmp(t.at, families[i], n) == 0 && t.at[n] == '.' &&
		    t.at[n + 1] >= 'x' && t.at[n + 1] <= 'z') {
			emit_text(e, "lane->%s[%d]", families[i] + 1, t.at[n + 1] - 'x');
			return true;
		}
	}
	return false;
}

static bool emit_special(struct ptx_emit *e, struct ptx_text t)
{
	for (size_t i = 0; i < ARRAY_LEN(emit_specials); i++) {
		if (ptx_text_is(t, emit_specials[i].name)) {
			emit_text(e, "%s", emit_specials[i].c);
			return true;
		}
	}
	return emit_dimension(e, t);
}

/* ---- symbols -------------------------------------------------------------------------------- */

/* The number of a symbol: an address, or that of a function. */
static void emit_symbol(struct ptx_emit *e, struct ptx_text t)
{
	const struct ptx_variable *v = ptx_local_find(e->func, t, e->stmt);
	const struct ptx_variable *g = ptx_variable_find(e->module, t, e->func->text);
	const struct ptx_func *f = ptx_func_find(e->module, t, e->func->text);

	if (emit_special(e, t))
		return;
	if (v && e->func->entry && v >= e->func->param && v < e->func->param + e->func->params) {
		emit_text(e, "(uint64_t)(uintptr_t)(lane->args + %u)", (unsigned)v->at);
	} else if (v) {
		emit_text(e, "(uint64_t)(uintptr_t)");
		emit_name(e, t);
	} else if (g && g->external && (g->space != PTX_SHARED || g->bytes)) {
		emit_fail(e, "variable %.*s is declared, and no object of this image defines it",
			  (int)MIN_OF(t.bytes, 100u), t.at);
	} else if (g && g->space == PTX_SHARED) {
		emit_text(e, "%uull /* %.*s */", e->shared_at[g - e->module->variable],
			  (int)t.bytes, t.at);
	} else if (g) {
		emit_text(e, "lane->global[%u /* %.*s */]", (unsigned)g->at, (int)t.bytes, t.at);
	} else if (f && f->external) {
		emit_fail(e, "function %.*s is declared, and no object of this image defines it",
			  (int)MIN_OF(t.bytes, 100u), t.at);
	} else if (f) {
		emit_text(e, "%uull /* %.*s */", (unsigned)(f - e->module->func) + 1, (int)t.bytes,
			  t.at);
	} else {
		emit_fail(e, "%.*s is not a symbol of this module, or a register that is not built",
			  (int)MIN_OF(t.bytes, 80u), t.at);
	}
}

/* ---- reads ---------------------------------------------------------------------------------- */

static void emit_number(struct ptx_emit *e, const struct ptx_operand *o,
			const struct ptx_type *type)
{
	unsigned long long n = o->number;

	if (type->kind == 'p')
		emit_text(e, "%d", n != 0);
	else if (type->kind == 'f' && o->number_kind == 'f')
		emit_text(e, "%sptx_f32(0x%llxu)", type->bits == 64 ? "(double)" : "", n);
	else if (type->kind == 'f' && o->number_kind == 'd')
		emit_text(e, "%sptx_f64(0x%llxull)", type->bits == 32 ? "(float)" : "", n);
	else if (type->kind == 'f')
		emit_text(e, "(%s)%lld", type->c, (long long)n);
	else if (type->kind == 'h')
		emit_text(e, "ptx_from_f16(0x%llx)", n & 0xffff);
	else if (type->kind == 'g')
		emit_text(e, "ptx_from_bf16(0x%llx)", n & 0xffff);
	else if (type->kind == 's' && (int64_t)n > INT32_MIN && (int64_t)n <= INT32_MAX)
		emit_text(e, "(%s)%lld", type->c, (long long)n);
	else
		emit_text(e, "(%s)%lluull", type->c, n);
}

static void emit_register(struct ptx_emit *e, const struct ptx_operand *o,
			  const struct ptx_type *type)
{
	const struct ptx_type *own = o->type;
	const char *open = "", *close = "";

	if (own->kind == 'p' || type->kind == 'p') {
		if (own->kind != type->kind)
			emit_fail(e, "a predicate as a number, or a number as a predicate");
		open = o->negated ? "!" : "";
	} else if (type->kind == 'f' && own->kind != 'f') {
		open = type->bits == 32 ? "ptx_f32((uint32_t)" : "ptx_f64(";
		close = ")";
	} else if (type->kind == 'h' || type->kind == 'g') {
		open = type->kind == 'h' ? "ptx_from_f16((uint16_t)" : "ptx_from_bf16((uint16_t)";
		close = ")";
	} else if (type->kind != 'f' && own->kind == 'f') {
		emit_text(e, "(%s)", type->c);
		open = own->bits == 32 ? "ptx_b32(" : "ptx_b64(";
		close = ")";
	} else if (strcmp(own->c, type->c) != 0) {
		emit_text(e, "(%s)", type->c);
	}
	emit_text(e, "%s", open);
	emit_name(e, o->text);
	emit_text(e, "%s", close);
}

void emit_read(struct ptx_emit *e, const struct ptx_operand *o, const struct ptx_type *type)
{
	if (o->kind == PTX_OP_REGISTER) {
		emit_register(e, o, type);
	} else if (o->kind == PTX_OP_NUMBER) {
		emit_number(e, o, type);
	} else if (o->kind == PTX_OP_SYMBOL) {
		emit_text(e, "(%s)(", type->c);
		emit_symbol(e, o->text);
		emit_text(e, ")");
	} else {
		emit_fail(e, "an operand of another kind; expected a register or a number");
	}
}

void emit_address(struct ptx_emit *e, const struct ptx_operand *o)
{
	if (o->kind != PTX_OP_ADDRESS) {
		emit_fail(e, "an operand of another kind; expected an address in brackets");
		return;
	}
	emit_read(e, o->part, ptx_type_named("u64"));
	if (o->number)
		emit_text(e, " + (uint64_t)%lldll", (long long)o->number);
}

/* ---- assignments ---------------------------------------------------------------------------- */

void emit_assign(struct ptx_emit *e, const struct ptx_operand *o, const struct ptx_type *type)
{
	const struct ptx_type *own = o->type;

	if (o->kind == PTX_OP_SINK) {
		emit_text(e, "(void)(");
		return;
	}
	if (o->kind != PTX_OP_REGISTER) {
		emit_fail(e, "a destination that is not a register");
		return;
	}
	emit_name(e, o->text);
	emit_text(e, " = ");
	if ((own->kind == 'p') != (type->kind == 'p'))
		emit_fail(e, "a predicate as a number, or a number as a predicate");
	else if (type->kind == 'h' || type->kind == 'g')
		emit_text(e, "ptx_to_%s(", type->name);
	else if (type->kind == 'f' && own->kind != 'f')
		emit_text(e, type->bits == 32 ? "ptx_b32(" : "ptx_b64(");
	else if (own->kind == 'f' && type->kind != 'f')
		emit_text(e, own->bits == 32 ? "ptx_f32((uint32_t)(" : "ptx_f64((uint64_t)(");
	else if (own->kind == 'f')
		emit_text(e, "(");
	else
		emit_text(e, "(%s)(", own->c);
}

void emit_assigned(struct ptx_emit *e, const struct ptx_operand *o, const struct ptx_type *type)
{
	bool two = o->type && o->type->kind == 'f' && type->kind != 'f' && type->kind != 'h' &&
		   type->kind != 'g';

	emit_text(e, two ? "));" : ");");
}
