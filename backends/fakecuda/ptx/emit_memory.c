/* SPDX-License-Identifier: BSD-3-Clause */
/* Loads, stores, atomics, fences, conversions of addresses. */
#include "backends/fakecuda/ptx/emit_internal.h"
#include "core/base/macros.h"

struct emit_word {
	const char *word, *c;
};

static const struct emit_word memory_spaces[] = {
	{"global", "PTX_GLOBAL"},      {"const", "PTX_CONST"},       {"shared", "PTX_SHARED"},
	{"shared::cta", "PTX_SHARED"}, {"local", "PTX_LOCAL"},       {"param", "PTX_PARAM"},
	{"param::entry", "PTX_PARAM"}, {"param::func", "PTX_PARAM"}, {NULL, NULL},
};
static const struct emit_word memory_orders[] = {
	{"weak", "PTX_WEAK"},
	{"volatile", "PTX_RELAXED"},
	{"relaxed", "PTX_RELAXED"},
	{"mmio", "PTX_RELAXED"},
	{"acquire", "PTX_ACQUIRE"},
	{"release", "PTX_RELEASE"},
	{"acq_rel", "PTX_ACQ_REL"},
	{"sc", "PTX_SC"},
	{NULL, NULL},
};
static const struct emit_word memory_scopes[] = {
	{"cta", "PTX_CTA"}, {"cluster", "PTX_GPU"}, {"gpu", "PTX_GPU"},
	{"gl", "PTX_GPU"},  {"sys", "PTX_SYS"},     {NULL, NULL},
};
/* Hints about caches. */
static const struct emit_word memory_hints[] = {
	{"ca", ""}, {"cg", ""}, {"cs", ""}, {"lu", ""}, {"cv", ""},   {"wb", ""},
	{"wt", ""}, {"nc", ""}, {"v2", ""}, {"v4", ""}, {NULL, NULL},
};

static const char *memory_word(const struct emit_word *w, struct ptx_text t)
{
	for (; w->word; w++) {
		if (ptx_text_is(t, w->word))
			return w->c;
	}
	return NULL;
}

/* Returns the word of the list that the opcode has; `otherwise` if it has none. */
static const char *memory_pick(const struct ptx_emit *e, const struct emit_word *list,
			       const char *otherwise)
{
	for (uint32_t i = 1; i < e->parts; i++) {
		const char *c = memory_word(list, e->part[i]);
		if (c)
			return c;
	}
	return otherwise;
}

static bool memory_known(struct ptx_text t)
{
	return memory_word(memory_spaces, t) || memory_word(memory_orders, t) ||
	       memory_word(memory_scopes, t) || memory_word(memory_hints, t) ||
	       (t.bytes > 2 && (memcmp(t.at, "L1", 2) == 0 || memcmp(t.at, "L2", 2) == 0));
}

/* Writes how the access is made. `order` is that of an opcode without one. */
static void memory_how(struct ptx_emit *e, const char *order)
{
	order = memory_pick(e, memory_orders, order);
	/* volatile has the scope of the system */
	const char *scope = emit_part(e, "volatile") ? "PTX_SYS" : "PTX_GPU";
	emit_text(e, "(struct ptx_how){%s, %s, %s}", memory_pick(e, memory_spaces, "PTX_GENERIC"),
		  order, memory_pick(e, memory_scopes, scope));
}

/* The registers of a vector, or the one register. */
static uint32_t memory_values(const struct ptx_operand *o, const struct ptx_operand **first)
{
	*first = o->kind == PTX_OP_VECTOR ? o->part : o;
	return o->kind == PTX_OP_VECTOR ? o->parts : 1;
}

/* Bits of the type's size. */
static const struct ptx_type *memory_bits(const struct ptx_type *t)
{
	return ptx_type_named(t->bits == 8    ? "b8"
			      : t->bits == 16 ? "b16"
			      : t->bits == 32 ? "b32"
					      : "b64");
}

static bool memory_check(struct ptx_emit *e, uint32_t n)
{
	uint32_t expected = emit_part(e, "v4") ? 4 : emit_part(e, "v2") ? 2 : 1;

	for (uint32_t i = 1; i + 1 < e->parts; i++) {
		if (!memory_known(e->part[i])) {
			emit_unknown(e);
			return false;
		}
	}
	if (n != expected)
		emit_fail(e, "%u values; the opcode has %u", n, expected);
	return n == expected;
}

/* { uint32_t m[2]; ptx_load(lane, how, address, m, 4, 2); r1 = m[0]; r2 = m[1]; } */
void emit_load(struct ptx_emit *e)
{
	const struct ptx_type *t = e->type[0];
	const struct ptx_operand *value;

	if (!emit_has(e, 2))
		return;
	uint32_t n = memory_values(emit_operand(e, 0), &value);
	if (!memory_check(e, n))
		return;
	emit_text(e, "{ %s m[%u]; ptx_load(lane, ", t->c, n);
	memory_how(e, "PTX_WEAK");
	emit_text(e, ", ");
	emit_address(e, emit_operand(e, 1));
	emit_text(e, ", m, %u, %u);", t->bits / 8u, n);
	if (t->kind == 'h' || t->kind == 'g')
		t = memory_bits(t);
	for (uint32_t i = 0; i < n; i++) {
		emit_text(e, " ");
		emit_assign(e, &value[i], t);
		emit_text(e, "m[%u]", i);
		emit_assigned(e, &value[i], t);
	}
	emit_text(e, " }");
}

void emit_store(struct ptx_emit *e)
{
	const struct ptx_type *t = memory_bits(e->type[0]);
	const struct ptx_operand *value;

	if (!emit_has(e, 2))
		return;
	uint32_t n = memory_values(emit_operand(e, 1), &value);
	if (!memory_check(e, n))
		return;
	emit_text(e, "{ %s m[%u] = {", t->c, n);
	for (uint32_t i = 0; i < n; i++) {
		emit_text(e, i ? ", " : "");
		/* a number of the opcode's type may be a float */
		if (value[i].kind == PTX_OP_NUMBER && e->type[0]->kind == 'f') {
			emit_text(e, e->type[0]->bits == 32 ? "ptx_b32(" : "ptx_b64(");
			emit_read(e, &value[i], e->type[0]);
			emit_text(e, ")");
		} else {
			emit_read(e, &value[i], t);
		}
	}
	emit_text(e, "}; ptx_store(lane, ");
	memory_how(e, "PTX_WEAK");
	emit_text(e, ", ");
	emit_address(e, emit_operand(e, 0));
	emit_text(e, ", m, %u, %u); }", t->bits / 8u, n);
}

/* ---- atomics -------------------------------------------------------------------------------- */

/* Names of functions in lane.h: ptx_change_*. */
static const struct {
	const char *op, *kinds, *change;
	uint8_t bits; /* 0: any */
} atom_changes[] = {
	{"add", "us", "add", 0},     {"add", "f", "add_f32", 32}, {"add", "f", "add_f64", 64},
	{"and", "b", "and", 0},      {"or", "b", "or", 0},        {"xor", "b", "xor", 0},
	{"exch", "b", "exch", 0},    {"cas", "b", "cas", 0},      {"min", "u", "min", 0},
	{"max", "u", "max", 0},      {"min", "s", "min_s32", 32}, {"max", "s", "max_s32", 32},
	{"min", "s", "min_s64", 64}, {"max", "s", "max_s64", 64}, {"inc", "u", "inc", 32},
	{"dec", "u", "dec", 32},
};

static const char *atom_change(const struct ptx_emit *e)
{
	const struct ptx_type *t = e->type[0];

	for (size_t i = 0; i < ARRAY_LEN(atom_changes); i++) {
		if (emit_part(e, atom_changes[i].op) && strchr(atom_changes[i].kinds, t->kind) &&
		    (!atom_changes[i].bits || atom_changes[i].bits == t->bits) &&
		    (t->bits == 32 || t->bits == 64))
			return atom_changes[i].change;
	}
	return NULL;
}

/* atom d, [a], b, c;  red [a], b; */
void emit_atom(struct ptx_emit *e)
{
	bool red = ptx_text_is(e->part[0], "red");
	const struct ptx_type *t = memory_bits(e->type[0]);
	const char *change = atom_change(e);
	uint32_t at = red ? 0 : 1;

	if (!change || emit_part(e, "v2") || emit_part(e, "v4")) {
		emit_unknown(e);
		return;
	}
	bool cas = strcmp(change, "cas") == 0;
	if (!emit_has(e, at + 2 + cas))
		return;
	if (red)
		emit_text(e, "(void)(");
	else
		emit_assign(e, emit_operand(e, 0), t);
	emit_text(e, "ptx_atom(lane, ");
	memory_how(e, "PTX_RELAXED");
	emit_text(e, ", ");
	emit_address(e, emit_operand(e, at));
	emit_text(e, ", %u, ptx_change_%s, ", t->bits / 8u, change);
	emit_read(e, emit_operand(e, at + 1), t);
	emit_text(e, ", ");
	if (cas)
		emit_read(e, emit_operand(e, at + 2), t);
	else
		emit_text(e, "0");
	emit_text(e, ")");
	if (red)
		emit_text(e, ");");
	else
		emit_assigned(e, emit_operand(e, 0), t);
}

void emit_fence(struct ptx_emit *e)
{
	const char *scope = memory_pick(e, memory_scopes, NULL);
	const char *order = memory_pick(e, memory_orders, "PTX_SC");

	for (uint32_t i = 1; i < e->parts; i++) {
		if (!memory_word(memory_scopes, e->part[i]) &&
		    !memory_word(memory_orders, e->part[i]))
			scope = NULL;
	}
	if (scope)
		emit_text(e, "ptx_fence(lane, %s, %s);", order, scope);
	else
		emit_unknown(e);
}

/* ---- addresses ------------------------------------------------------------------------------ */

void emit_cvta(struct ptx_emit *e)
{
	const char *space = memory_pick(e, memory_spaces, NULL);
	const struct ptx_type *t = e->type[0];

	if (!space) {
		emit_unknown(e);
		return;
	}
	if (!emit_has(e, 2))
		return;
	emit_assign(e, emit_operand(e, 0), t);
	emit_text(e, "ptx_%s_generic(lane, %s, ", emit_part(e, "to") ? "from" : "to", space);
	emit_read(e, emit_operand(e, 1), t);
	emit_text(e, ")");
	emit_assigned(e, emit_operand(e, 0), t);
}

void emit_isspacep(struct ptx_emit *e)
{
	const char *space = memory_pick(e, memory_spaces, NULL);

	if (!space) {
		emit_unknown(e);
		return;
	}
	if (!emit_has(e, 2))
		return;
	emit_assign(e, emit_operand(e, 0), ptx_type_named("pred"));
	emit_text(e, "ptx_is_space(lane, %s, ", space);
	emit_read(e, emit_operand(e, 1), ptx_type_named("u64"));
	emit_text(e, ")");
	emit_assigned(e, emit_operand(e, 0), ptx_type_named("pred"));
}
