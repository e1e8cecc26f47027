/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The opcodes. A row has a pattern and either an expression or a function.
 *
 * A pattern is an opcode whose parts are words, or
 *    ?word    a word that may be absent
 *    *        any words, which the function reads
 *    I U S    a type: integer, unsigned, signed
 *    B        bits of 16, 32 or 64
 *    F        f32 or f64;  H: f16 or bf16;  R: all of these
 *    A        any of these; P: pred
 * The first type of the opcode is type 0.
 *
 * An expression has $a, $b, $c, $d for the operands after the destination. They are read as type
 * 0, or as the type after a colon ($b:u32). $0 is the name of type 0, $1 that of type 1, $T is the
 * C type of type 0, $n its bits. `to` is the type of the destination, if it is not type 0.
 */
#include <string.h>

#include "backends/fakecuda/ptx/emit_internal.h"
#include "core/base/macros.h"

struct ptx_op {
	const char *pattern, *expression, *to;
	void (*emit)(struct ptx_emit *e);
};

/* Two halves in one register; the rows of one type. */
#define OPS_OF_PAIRS(t)                                                                            \
	{"add.?rn." t, "ptx_add_" t "($a:b32, $b:b32, 0)", "b32", NULL},                           \
		{"sub.?rn." t, "ptx_sub_" t "($a:b32, $b:b32, 0)", "b32", NULL},                   \
		{"mul.?rn." t, "ptx_mul_" t "($a:b32, $b:b32, 0)", "b32", NULL},                   \
		{"min." t, "ptx_min_" t "($a:b32, $b:b32, 0)", "b32", NULL},                       \
		{"max." t, "ptx_max_" t "($a:b32, $b:b32, 0)", "b32", NULL},                       \
		{"neg." t, "$a:b32 ^ 0x80008000u", "b32", NULL},                                   \
		{"abs." t, "$a:b32 & 0x7fff7fffu", "b32", NULL},                                   \
	{                                                                                          \
		"fma.rn." t, "ptx_fma_" t "($a:b32, $b:b32, $c:b32)", "b32", NULL                  \
	}

static const struct ptx_op ptx_ops[] = {
	/* integers */
	{"add.I", "$a + $b", NULL, NULL},
	{"sub.I", "$a - $b", NULL, NULL},
	{"add.cc.I", "ptx_add_carry(lane, (uint$n_t)$a, (uint$n_t)$b, 0, $n, true)", NULL, NULL},
	{"addc.I", "ptx_add_carry(lane, (uint$n_t)$a, (uint$n_t)$b, lane->carry, $n, false)", NULL,
	 NULL},
	{"addc.cc.I", "ptx_add_carry(lane, (uint$n_t)$a, (uint$n_t)$b, lane->carry, $n, true)",
	 NULL, NULL},
	{"sub.cc.I", "ptx_sub_borrow(lane, (uint$n_t)$a, (uint$n_t)$b, 0, true)", NULL, NULL},
	{"subc.I", "ptx_sub_borrow(lane, (uint$n_t)$a, (uint$n_t)$b, lane->carry, false)", NULL,
	 NULL},
	{"subc.cc.I", "ptx_sub_borrow(lane, (uint$n_t)$a, (uint$n_t)$b, lane->carry, true)", NULL,
	 NULL},
	{"mul.lo.I", "($T)($a * $b)", NULL, NULL},
	{"mul.hi.u16", "(uint16_t)((uint32_t)$a * $b >> 16)", NULL, NULL},
	{"mul.hi.s16", "(int16_t)((int32_t)$a * $b >> 16)", NULL, NULL},
	{"mul.hi.u32", "(uint32_t)((uint64_t)$a * $b >> 32)", NULL, NULL},
	{"mul.hi.s32", "(int32_t)((int64_t)$a * $b >> 32)", NULL, NULL},
	{"mul.hi.u64", "(uint64_t)((unsigned __int128)$a * $b >> 64)", NULL, NULL},
	{"mul.hi.s64", "(int64_t)((__int128)$a * $b >> 64)", NULL, NULL},
	{"mul.wide.u16", "(uint32_t)$a * $b", "u32", NULL},
	{"mul.wide.s16", "(int32_t)$a * $b", "s32", NULL},
	{"mul.wide.u32", "(uint64_t)$a * $b", "u64", NULL},
	{"mul.wide.s32", "(int64_t)$a * $b", "s64", NULL},
	{"mul24.lo.U", "($a & 0xffffffu) * ($b & 0xffffffu)", NULL, NULL},
	{"mul24.lo.S", "(int32_t)((uint32_t)$a << 8) / 256 * ((int32_t)((uint32_t)$b << 8) / 256)",
	 NULL, NULL},
	{"mad.lo.I", "($T)($a * $b + $c)", NULL, NULL},
	{"mad.hi.u32", "(uint32_t)((uint64_t)$a * $b >> 32) + $c", NULL, NULL},
	{"mad.hi.s32", "(int32_t)((int64_t)$a * $b >> 32) + $c", NULL, NULL},
	{"mad.wide.u16", "(uint32_t)$a * $b + $c:u32", "u32", NULL},
	{"mad.wide.s16", "(int32_t)$a * $b + $c:s32", "s32", NULL},
	{"mad.wide.u32", "(uint64_t)$a * $b + $c:u64", "u64", NULL},
	{"mad.wide.s32", "(int64_t)$a * $b + $c:s64", "s64", NULL},
	{"div.I", "ptx_div_$0($a, $b)", NULL, NULL},
	{"rem.I", "ptx_rem_$0($a, $b)", NULL, NULL},
	{"abs.S", "($T)($a < 0 ? -$a : $a)", NULL, NULL},
	{"neg.S", "($T)-$a", NULL, NULL},
	{"min.I", "$a < $b ? $a : $b", NULL, NULL},
	{"max.I", "$a > $b ? $a : $b", NULL, NULL},
	{"sad.I", "($a < $b ? $b - $a : $a - $b) + $c", NULL, NULL},
	/* bits */
	{"and.B", "$a & $b", NULL, NULL},
	{"or.B", "$a | $b", NULL, NULL},
	{"xor.B", "$a ^ $b", NULL, NULL},
	{"not.B", "($T)~$a", NULL, NULL},
	{"and.P", "$a && $b", NULL, NULL},
	{"or.P", "$a || $b", NULL, NULL},
	{"xor.P", "$a != $b", NULL, NULL},
	{"not.P", "!$a", NULL, NULL},
	{"cnot.B", "($T)($a == 0)", NULL, NULL},
	{"lop3.b32", "ptx_lop3($a, $b, $c, $d)", NULL, NULL},
	{"shl.B", "ptx_shl_$0($a, $b:u32)", NULL, NULL},
	{"shr.I", "ptx_shr_$0($a, $b:u32)", NULL, NULL},
	{"shr.B", "ptx_shr_$0($a, $b:u32)", NULL, NULL},
	{"shf.l.wrap.b32", "ptx_shf_l($a, $b, $c & 31)", NULL, NULL},
	{"shf.l.clamp.b32", "ptx_shf_l($a, $b, ptx_least($c, 32))", NULL, NULL},
	{"shf.r.wrap.b32", "ptx_shf_r($a, $b, $c & 31)", NULL, NULL},
	{"shf.r.clamp.b32", "ptx_shf_r($a, $b, ptx_least($c, 32))", NULL, NULL},
	{"bfe.I", "ptx_bfe_$0($a, $b:u32, $c:u32)", NULL, NULL},
	{"bfi.B", "ptx_bfi_$0($a, $b, $c:u32, $d:u32)", NULL, NULL},
	{"popc.B", "(uint32_t)__builtin_popcountll($a)", "u32", NULL},
	{"clz.B", "ptx_clz_$0($a)", "u32", NULL},
	{"bfind.U", "ptx_bfind($a)", "u32", NULL},
	{"bfind.S", "ptx_bfind(($T)($a < 0 ? ~$a : $a))", "u32", NULL},
	{"brev.B", "ptx_brev_$0($a)", NULL, NULL},
	{"prmt.b32", "ptx_prmt($a, $b, $c)", NULL, NULL},
	{"dp4a.u32.u32", "ptx_dp4a_u($a, $b, $c)", NULL, NULL},
	{"dp4a.s32.s32", "ptx_dp4a_s($a, $b, $c)", NULL, NULL},
	/* floating point */
	{"add.?rn.R", "$a + $b", NULL, NULL},
	{"sub.?rn.R", "$a - $b", NULL, NULL},
	{"mul.?rn.R", "$a * $b", NULL, NULL},
	{"add.?rn.ftz.f32", "ptx_ftz(ptx_ftz($a) + ptx_ftz($b))", NULL, NULL},
	{"sub.?rn.ftz.f32", "ptx_ftz(ptx_ftz($a) - ptx_ftz($b))", NULL, NULL},
	{"mul.?rn.ftz.f32", "ptx_ftz(ptx_ftz($a) * ptx_ftz($b))", NULL, NULL},
	{"fma.rn.f32", "__builtin_fmaf($a, $b, $c)", NULL, NULL},
	{"fma.rn.ftz.f32", "ptx_ftz(__builtin_fmaf(ptx_ftz($a), ptx_ftz($b), ptx_ftz($c)))", NULL,
	 NULL},
	{"fma.rn.f64", "__builtin_fma($a, $b, $c)", NULL, NULL},
	{"fma.rn.H", "ptx_fma_half($a, $b, $c)", NULL, NULL},
	{"mad.rn.f32", "__builtin_fmaf($a, $b, $c)", NULL, NULL},
	{"mad.rn.f64", "__builtin_fma($a, $b, $c)", NULL, NULL},
	{"div.rn.F", "$a / $b", NULL, NULL},
	{"div.full.f32", "$a / $b", NULL, NULL},
	{"div.approx.?ftz.f32", "$a / $b", NULL, NULL},
	{"rcp.rn.F", "1 / $a", NULL, NULL},
	{"rcp.approx.?ftz.F", "1 / $a", NULL, NULL},
	{"sqrt.rn.f32", "__builtin_sqrtf($a)", NULL, NULL},
	{"sqrt.rn.f64", "__builtin_sqrt($a)", NULL, NULL},
	{"sqrt.approx.?ftz.f32", "__builtin_sqrtf($a)", NULL, NULL},
	{"rsqrt.approx.?ftz.f32", "1 / __builtin_sqrtf($a)", NULL, NULL},
	{"rsqrt.approx.f64", "1 / __builtin_sqrt($a)", NULL, NULL},
	{"sin.approx.?ftz.f32", "__builtin_sinf($a)", NULL, NULL},
	{"cos.approx.?ftz.f32", "__builtin_cosf($a)", NULL, NULL},
	{"tanh.approx.f32", "__builtin_tanhf($a)", NULL, NULL},
	{"ex2.approx.?ftz.f32", "__builtin_exp2f($a)", NULL, NULL},
	{"lg2.approx.?ftz.f32", "__builtin_log2f($a)", NULL, NULL},
	{"abs.?ftz.f32", "__builtin_fabsf($a)", NULL, NULL},
	{"abs.f64", "__builtin_fabs($a)", NULL, NULL},
	{"neg.?ftz.R", "-$a", NULL, NULL},
	{"min.?ftz.F", "ptx_min_$0($a, $b)", NULL, NULL},
	{"max.?ftz.F", "ptx_max_$0($a, $b)", NULL, NULL},
	{"min.H", "ptx_min_f32($a, $b)", NULL, NULL},
	{"max.H", "ptx_max_f32($a, $b)", NULL, NULL},
	{"abs.H", "__builtin_fabsf($a)", NULL, NULL},
	OPS_OF_PAIRS("f16x2"),
	OPS_OF_PAIRS("bf16x2"),
	{"add.s16x2", "ptx_add_u16x2($a:b32, $b:b32, 0)", "b32", NULL},
	{"add.u16x2", "ptx_add_u16x2($a:b32, $b:b32, 0)", "b32", NULL},
	{"min.s16x2", "ptx_min_s16x2($a:b32, $b:b32, 0)", "b32", NULL},
	{"max.s16x2", "ptx_max_s16x2($a:b32, $b:b32, 0)", "b32", NULL},
	{"min.u16x2", "ptx_min_u16x2($a:b32, $b:b32, 0)", "b32", NULL},
	{"max.u16x2", "ptx_max_u16x2($a:b32, $b:b32, 0)", "b32", NULL},
	{"copysign.f32", "__builtin_copysignf($b, $a)", NULL, NULL},
	{"copysign.f64", "__builtin_copysign($b, $a)", NULL, NULL},
	{"testp.finite.F", "__builtin_isfinite($a)", "pred", NULL},
	{"testp.infinite.F", "__builtin_isinf($a) != 0", "pred", NULL},
	{"testp.notanumber.F", "__builtin_isnan($a) != 0", "pred", NULL},
	{"testp.number.F", "!__builtin_isnan($a)", "pred", NULL},
	/* choices and moves */
	{"selp.A", "$c:pred ? $a : $b", NULL, NULL},
	{"slct.A.s32", "$c:s32 >= 0 ? $a : $b", NULL, NULL},
	{"slct.A.f32", "$c:f32 >= 0 ? $a : $b", NULL, NULL},
	{"setp.*.A", NULL, NULL, emit_setp},
	{"set.*.A.A", NULL, NULL, emit_set},
	{"mov.A", NULL, NULL, emit_mov},
	{"mov.P", NULL, NULL, emit_mov},
	{"cvt.*.A.A", NULL, NULL, emit_cvt},
	{"cvta.*.u64", NULL, NULL, emit_cvta},
	{"isspacep.*", NULL, NULL, emit_isspacep},
	/* memory */
	{"ld.*.A", NULL, NULL, emit_load},
	{"ldu.*.A", NULL, NULL, emit_load},
	{"st.*.A", NULL, NULL, emit_store},
	{"atom.*.A", NULL, NULL, emit_atom},
	{"red.*.A", NULL, NULL, emit_atom},
	{"fence.*", NULL, NULL, emit_fence},
	{"membar.*", NULL, NULL, emit_fence},
	{"multimem.*", NULL, NULL, emit_absent},
	{"prefetch.*", NULL, NULL, emit_nothing},
	{"prefetchu.*", NULL, NULL, emit_nothing},
	/* the block and the warp */
	{"bar.warp.sync", NULL, NULL, emit_warp_sync},
	{"bar.?cta.sync", NULL, NULL, emit_bar},
	{"bar.?cta.arrive", NULL, NULL, emit_bar},
	{"bar.?cta.red.*", NULL, NULL, emit_bar_red},
	{"barrier.?cta.sync.?aligned", NULL, NULL, emit_bar},
	{"barrier.?cta.arrive.?aligned", NULL, NULL, emit_bar},
	{"barrier.?cta.red.*", NULL, NULL, emit_bar_red},
	{"shfl.sync.*.b32", NULL, NULL, emit_shfl},
	{"vote.sync.*", NULL, NULL, emit_vote},
	{"match.*.B", NULL, NULL, emit_match},
	{"redux.sync.*.A", NULL, NULL, emit_redux},
	{"activemask.b32", "1u << lane->laneid", NULL, NULL},
	/* control */
	{"bra.?uni", NULL, NULL, emit_bra},
	{"call.?uni", NULL, NULL, emit_call},
	{"ret.?uni", NULL, NULL, emit_ret},
	{"exit", NULL, NULL, emit_exit},
	{"trap", NULL, NULL, emit_trap},
	{"nanosleep.u32", NULL, NULL, emit_nanosleep},
	{"griddepcontrol.*", NULL, NULL, emit_nothing},
};

/* ---- patterns ------------------------------------------------------------------------------- */

bool emit_part(const struct ptx_emit *e, const char *word)
{
	for (uint32_t i = 1; i < e->parts; i++) {
		if (ptx_text_is(e->part[i], word))
			return true;
	}
	return false;
}

static bool op_split(struct ptx_emit *e)
{
	struct ptx_text rest = e->stmt->opcode;

	for (e->parts = 0; e->parts < PTX_PARTS_MOST;) {
		const char *dot = memchr(rest.at, '.', rest.bytes);
		uint32_t n = dot ? (uint32_t)(dot - rest.at) : rest.bytes;
		e->part[e->parts++] = (struct ptx_text){rest.at, n};
		if (!dot)
			return true;
		rest = (struct ptx_text){dot + 1, rest.bytes - n - 1};
	}
	return false;
}

/* True if the letter of a pattern stands for the type. */
static bool op_class(char letter, const struct ptx_type *t)
{
	const char *kinds = letter == 'I'   ? "us"
			    : letter == 'U' ? "u"
			    : letter == 'S' ? "s"
			    : letter == 'B' ? "b"
			    : letter == 'F' ? "f"
			    : letter == 'H' ? "hg"
			    : letter == 'R' ? "fhg"
			    : letter == 'P' ? "p"
			    : letter == 'A' ? "usbfhg"
					    : "";

	return strchr(kinds, t->kind) != NULL;
}

/* Matches the rest of the pattern with the opcode's parts from number `i` on. */
static bool op_matches(struct ptx_emit *e, const char *pattern, uint32_t i)
{
	const char *dot = strchr(pattern, '.'), *rest = dot ? dot + 1 : "";
	uint32_t n = dot ? (uint32_t)(dot - pattern) : (uint32_t)strlen(pattern);
	struct ptx_text word = {pattern, n};

	if (!n)
		return i == e->parts;
	if (*pattern == '*') {
		uint32_t types = e->types;
		for (uint32_t k = i; k <= e->parts; k++, e->types = types) {
			if (op_matches(e, rest, k))
				return true;
		}
		return false;
	}
	if (*pattern == '?') {
		word = (struct ptx_text){pattern + 1, n - 1};
		if (i < e->parts && ptx_text_same(word, e->part[i]))
			return op_matches(e, rest, i + 1);
		return op_matches(e, rest, i);
	}
	if (i == e->parts)
		return false;
	const struct ptx_type *t = ptx_type_find(e->part[i]);
	bool class = n == 1 && t && op_class(*pattern, t);
	if (!class && !ptx_text_same(word, e->part[i]))
		return false;
	if (t && e->types < ARRAY_LEN(e->type))
		e->type[e->types++] = t;
	return op_matches(e, rest, i + 1);
}

/* ---- expressions ---------------------------------------------------------------------------- */

/* Writes one placeholder. Returns the text after it. */
static const char *op_placeholder(struct ptx_emit *e, const char *at)
{
	const struct ptx_type *type = e->type[0];

	if (*at >= 'a' && *at <= 'd') {
		uint32_t operand = 1 + (uint32_t)(*at++ - 'a');
		if (*at == ':') {
			size_t n = strcspn(++at, " ,)");
			type = ptx_type_find((struct ptx_text){at, (uint32_t)n});
			ASSERT(type);
			at += n;
		}
		if (emit_has(e, operand + 1))
			emit_read(e, emit_operand(e, operand), type);
		return at;
	}
	if (*at == '0' || *at == '1')
		emit_text(e, "%s", e->type[*at - '0']->name);
	else if (*at == 'T')
		emit_text(e, "%s", emit_c_type(type));
	else
		emit_text(e, "%u", type->bits);
	return at + 1;
}

static void op_expression(struct ptx_emit *e, const struct ptx_op *op)
{
	const struct ptx_type *to = op->to ? ptx_type_named(op->to) : e->type[0];

	if (!emit_has(e, 1))
		return;
	emit_assign(e, emit_operand(e, 0), to);
	for (const char *at = op->expression; *at;) {
		if (*at == '$') {
			at = op_placeholder(e, at + 1);
		} else {
			emit_text(e, "%c", *at);
			at++;
		}
	}
	emit_assigned(e, emit_operand(e, 0), to);
}

void emit_code(struct ptx_emit *e)
{
	if (!op_split(e)) {
		emit_unknown(e);
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(ptx_ops); i++) {
		const struct ptx_op *op = &ptx_ops[i];
		e->types = 0;
		if (!op_matches(e, op->pattern, 0))
			continue;
		if (op->emit)
			op->emit(e);
		else
			op_expression(e, op);
		return;
	}
	emit_unknown(e);
}
