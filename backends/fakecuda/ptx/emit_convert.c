/* SPDX-License-Identifier: BSD-3-Clause */
/* Moves, conversions, comparisons. */
#include "backends/fakecuda/ptx/emit_internal.h"
#include "core/base/macros.h"

/* ---- mov ------------------------------------------------------------------------------------ */

/* mov.b64 {lo, hi}, a: the parts of a number, the lowest first */
static void mov_unpack(struct ptx_emit *e, const struct ptx_operand *to)
{
	const struct ptx_type *t = e->type[0];
	uint32_t bits = to->parts ? t->bits / to->parts : 0;
	const struct ptx_type *part = ptx_type_named(bits == 8 ? "b8" : bits == 16 ? "b16" : "b32");
	if (bits != part->bits) {
		emit_fail(e, "a vector of %u parts of %u bits", to->parts, t->bits);
		return;
	}
	emit_text(e, "{ %s m = ", t->c);
	emit_read(e, emit_operand(e, 1), t);
	emit_text(e, ";");
	for (uint32_t i = 0; i < to->parts; i++) {
		emit_text(e, " ");
		emit_assign(e, &to->part[i], part);
		emit_text(e, "(%s)(m >> %u)", part->c, i * bits);
		emit_assigned(e, &to->part[i], part);
	}
	emit_text(e, " }");
}

static void mov_pack(struct ptx_emit *e, const struct ptx_operand *from)
{
	const struct ptx_type *t = e->type[0];
	uint32_t bits = from->parts ? t->bits / from->parts : 0;
	const struct ptx_type *part = ptx_type_named(bits == 8 ? "b8" : bits == 16 ? "b16" : "b32");
	if (bits != part->bits) {
		emit_fail(e, "a vector of %u parts of %u bits", from->parts, t->bits);
		return;
	}
	emit_assign(e, emit_operand(e, 0), t);
	for (uint32_t i = 0; i < from->parts; i++) {
		emit_text(e, "%s(%s)", i ? " | " : "", t->c);
		emit_read(e, &from->part[i], part);
		emit_text(e, " << %u", i * bits);
	}
	emit_assigned(e, emit_operand(e, 0), t);
}

void emit_mov(struct ptx_emit *e)
{
	const struct ptx_type *t = e->type[0];

	if (!emit_has(e, 2))
		return;
	if (emit_operand(e, 0)->kind == PTX_OP_VECTOR) {
		mov_unpack(e, emit_operand(e, 0));
	} else if (emit_operand(e, 1)->kind == PTX_OP_VECTOR) {
		mov_pack(e, emit_operand(e, 1));
	} else {
		emit_assign(e, emit_operand(e, 0), t);
		emit_read(e, emit_operand(e, 1), t);
		emit_assigned(e, emit_operand(e, 0), t);
	}
}

/* ---- cvt ------------------------------------------------------------------------------------ */

/* Rounding to an integer, as a function of C. */
static const char *cvt_rounding(const struct ptx_emit *e, bool wide)
{
	return emit_part(e, "rni")   ? wide ? "__builtin_rint" : "__builtin_rintf"
	       : emit_part(e, "rzi") ? wide ? "__builtin_trunc" : "__builtin_truncf"
	       : emit_part(e, "rmi") ? wide ? "__builtin_floor" : "__builtin_floorf"
	       : emit_part(e, "rpi") ? wide ? "__builtin_ceil" : "__builtin_ceilf"
				     : NULL;
}

static bool cvt_is_float(const struct ptx_type *t)
{
	return t->kind == 'f' || t->kind == 'h' || t->kind == 'g';
}

/* Clamps an integer to the range of another type. */
static void cvt_saturate(struct ptx_emit *e, const struct ptx_type *to, const struct ptx_type *from)
{
	emit_text(e, "ptx_clamp_%s((__int128)", to->name);
	emit_read(e, emit_operand(e, 1), from);
	emit_text(e, ")");
}

static void cvt_float(struct ptx_emit *e, const struct ptx_type *to, const struct ptx_type *from)
{
	const char *round = cvt_rounding(e, from->bits == 64);
	bool sat = emit_part(e, "sat"), ftz = emit_part(e, "ftz");
	bool twice = to->bits == 16 && from->bits > 16 && (from->kind != 'f' || from->bits == 64);

	if (sat)
		emit_text(e, "(%s)ptx_saturate_%s(", emit_c_type(to),
			  to->bits == 64 ? "f64" : "f32");
	if (ftz)
		emit_text(e, "ptx_ftz(");
	if (round)
		emit_text(e, "%s(", round);
	emit_text(e, twice ? "ptx_odd_f32(" : "(%s)(", emit_c_type(to));
	emit_read(e, emit_operand(e, 1), from);
	emit_text(e, ")%s%s%s", round ? ")" : "", ftz ? ")" : "", sat ? ")" : "");
}

static void cvt_expression(struct ptx_emit *e, const struct ptx_type *to,
			   const struct ptx_type *from)
{
	if (cvt_is_float(from) && !cvt_is_float(to)) {
		const char *round = cvt_rounding(e, from->bits == 64);
		emit_text(e, "ptx_integer_%s(%s(", to->name, round ? round : "");
		emit_read(e, emit_operand(e, 1), from);
		emit_text(e, "))");
	} else if (cvt_is_float(to)) {
		cvt_float(e, to, from);
	} else if (emit_part(e, "sat")) {
		cvt_saturate(e, to, from);
	} else {
		emit_text(e, "(%s)", to->c);
		emit_read(e, emit_operand(e, 1), from);
	}
}

/* cvt.rounding.to.from d, a. Rounding to a float is to the nearest only. */
void emit_cvt(struct ptx_emit *e)
{
	static const char *const known[] = {"rn", "rni", "rzi", "rmi", "rpi", "ftz", "sat"};
	const struct ptx_type *to = e->type[0], *from = e->type[1];

	for (uint32_t i = 1; i + 2 < e->parts; i++) {
		bool is = false;
		for (size_t k = 0; k < ARRAY_LEN(known); k++)
			is |= ptx_text_is(e->part[i], known[k]);
		if (!is) {
			emit_unknown(e);
			return;
		}
	}
	if (to->kind == 'b' || from->kind == 'b' || e->types < 2) {
		emit_unknown(e);
		return;
	}
	if (!emit_has(e, 2))
		return;
	emit_assign(e, emit_operand(e, 0), to);
	cvt_expression(e, to, from);
	emit_assigned(e, emit_operand(e, 0), to);
}

/* ---- comparisons ---------------------------------------------------------------------------- */

/* In C, from a and b. Floats: those that end with u are true for a NaN. */
static const struct {
	const char *name, *integer, *floating;
} comparisons[] = {
	{"eq", "a == b", "a == b"},
	{"ne", "a != b", "(a < b || a > b)"},
	{"lt", "a < b", "a < b"},
	{"le", "a <= b", "a <= b"},
	{"gt", "a > b", "a > b"},
	{"ge", "a >= b", "a >= b"},
	{"lo", "a < b", NULL},
	{"ls", "a <= b", NULL},
	{"hi", "a > b", NULL},
	{"hs", "a >= b", NULL},
	{"equ", NULL, "!(a < b || a > b)"},
	{"neu", NULL, "a != b"},
	{"ltu", NULL, "!(a >= b)"},
	{"leu", NULL, "!(a > b)"},
	{"gtu", NULL, "!(a <= b)"},
	{"geu", NULL, "!(a < b)"},
	{"num", NULL, "(a == a && b == b)"},
	{"nan", NULL, "(a != a || b != b)"},
};

static const char *compare_find(const struct ptx_emit *e, const struct ptx_type *t)
{
	for (size_t i = 0; e->parts > 1 && i < ARRAY_LEN(comparisons); i++) {
		if (ptx_text_is(e->part[1], comparisons[i].name))
			return cvt_is_float(t) ? comparisons[i].floating : comparisons[i].integer;
	}
	return NULL;
}

/* Begins a block with a, b and their comparison c; with a third operand combined with it. */
static bool compare_begin(struct ptx_emit *e, const struct ptx_type *t)
{
	const char *c = compare_find(e, t);
	const char *with = emit_part(e, "and")   ? "&"
			   : emit_part(e, "or")  ? "|"
			   : emit_part(e, "xor") ? "^"
						 : NULL;
	if (!c) {
		emit_unknown(e);
		return false;
	}
	if (!emit_has(e, with ? 4 : 3))
		return false;
	emit_text(e, "{ %s a = ", emit_c_type(t));
	emit_read(e, emit_operand(e, 1), t);
	emit_text(e, ", b = ");
	emit_read(e, emit_operand(e, 2), t);
	emit_text(e, "; bool c = %s", c);
	if (with) {
		emit_text(e, "; bool d = ");
		emit_read(e, emit_operand(e, 3), ptx_type_named("pred"));
	}
	emit_text(e, "; ");
	return true;
}

/* Writes the result, combined with the third operand: c & d, or !c & d for the second one. */
static void compare_result(struct ptx_emit *e, const char *c)
{
	emit_text(e, "%s", c);
	if (emit_part(e, "and"))
		emit_text(e, " && d");
	else if (emit_part(e, "or"))
		emit_text(e, " || d");
	else if (emit_part(e, "xor"))
		emit_text(e, " != d");
}

static void compare_assign(struct ptx_emit *e, const struct ptx_operand *o, const char *c)
{
	const struct ptx_type *pred = ptx_type_named("pred");

	emit_assign(e, o, pred);
	compare_result(e, c);
	emit_assigned(e, o, pred);
}

/* setp.lt.and.s32 p|q, a, b, c */
void emit_setp(struct ptx_emit *e)
{
	if (!emit_has(e, 1) || !compare_begin(e, e->type[0]))
		return;
	const struct ptx_operand *o = emit_operand(e, 0);
	bool pair = o->kind == PTX_OP_PAIR;
	compare_assign(e, pair ? &o->part[0] : o, "c");
	if (pair)
		compare_assign(e, &o->part[1], "!c");
	emit_text(e, " }");
}

/* set.lt.u32.f32 d, a, b: all bits, or 1.0 */
void emit_set(struct ptx_emit *e)
{
	const struct ptx_type *to = e->type[0];

	if (!emit_has(e, 1) || !compare_begin(e, e->type[1]))
		return;
	emit_assign(e, emit_operand(e, 0), to);
	emit_text(e, "(");
	compare_result(e, "c");
	emit_text(e, cvt_is_float(to) ? ") ? 1 : 0" : ") ? -1 : 0");
	emit_assigned(e, emit_operand(e, 0), to);
	emit_text(e, " }");
}
