/* SPDX-License-Identifier: BSD-3-Clause */
/* Operands and numbers. */
#include "backends/fakecuda/ptx/parse_internal.h"

#include <ctype.h>
#include <stdlib.h>

#include "core/base/macros.h"

/* 0f and 0d: the bits of a float or a double in hexadecimal. */
static bool parse_bits(struct ptx_parser *p, const char *text, char kind, uint64_t *value)
{
	char *end;

	*value = strtoull(text + 2, &end, 16);
	if (*end || (int)(end - text) != (kind == 'f' ? 10 : 18))
		return parse_expected(p, "0f with 8 or 0d with 16 hexadecimal digits");
	return true;
}

bool parse_value(struct ptx_parser *p, uint64_t *value, char *kind)
{
	bool minus = parse_take(p, "-");
	struct ptx_text t = p->token.text;
	char text[40], *end = text;

	*value = 0;
	*kind = 'i';
	if (p->token.kind != PTX_NUMBER || t.bytes >= sizeof text)
		return parse_expected(p, "a number");
	memcpy(text, t.at, t.bytes);
	text[t.bytes] = '\0';
	char second = (char)tolower((unsigned char)text[1]);
	if (text[0] == '0' && (second == 'f' || second == 'd')) {
		*kind = second;
		if (!parse_bits(p, text, second, value))
			return false;
	} else if (strchr(text, '.')) {
		double d = strtod(text, &end);
		*kind = 'd';
		memcpy(value, &d, sizeof d);
		if (*end)
			return parse_expected(p, "a number");
	} else {
		*value = strtoull(text, &end, 0);
		if (*end && strcmp(end, "U"))
			return parse_expected(p, "a number");
	}
	if (minus && *kind == 'i')
		*value = -*value;
	else if (minus)
		*value ^= *kind == 'f' ? 1u << 31 : 1ull << 63;
	parse_advance(p);
	return true;
}

/* The parts up to the closing sign. */
static bool parse_parts(struct ptx_parser *p, struct ptx_operand *o, const char *close,
			uint32_t depth)
{
	while (!parse_take(p, close)) {
		if (o->parts && !parse_need(p, ","))
			return false;
		if (o->parts >= PTX_OPERANDS_MOST)
			return parse_fail(p, "more than %d operands", PTX_OPERANDS_MOST);
		struct ptx_operand *part = PARSE_ADD(o->part, o->parts);
		if (!parse_operand(p, part, depth + 1))
			return false;
	}
	return true;
}

/* [base], [base+8], [base+-8] */
static bool parse_address(struct ptx_parser *p, struct ptx_operand *o, uint32_t depth)
{
	struct ptx_operand *base = PARSE_ADD(o->part, o->parts);

	o->kind = PTX_OP_ADDRESS;
	if (!parse_operand(p, base, depth + 1))
		return false;
	if (base->kind != PTX_OP_REGISTER && base->kind != PTX_OP_SYMBOL &&
	    base->kind != PTX_OP_NUMBER)
		return parse_fail(p, "an address of more than one part is not implemented");
	if (parse_is(p, "-") || parse_take(p, "+")) {
		if (!parse_number(p, &o->number))
			return false;
	}
	return parse_need(p, "]");
}

static bool parse_word(struct ptx_parser *p, struct ptx_operand *o)
{
	if (p->token.kind != PTX_WORD)
		return parse_expected(p, "an operand");
	o->text = p->token.text;
	const struct ptx_register *r = p->func ? ptx_register_find(p->func, o->text) : NULL;
	o->kind = r ? PTX_OP_REGISTER : ptx_text_is(o->text, "_") ? PTX_OP_SINK : PTX_OP_SYMBOL;
	o->type = r ? r->type : NULL;
	parse_advance(p);
	return true;
}

/* The second half of d|p. */
static bool parse_pair(struct ptx_parser *p, struct ptx_operand *o)
{
	struct ptx_operand first = *o;

	*o = (struct ptx_operand){.kind = PTX_OP_PAIR, .text = first.text};
	*(struct ptx_operand *)PARSE_ADD(o->part, o->parts) = first;
	return parse_word(p, PARSE_ADD(o->part, o->parts));
}

bool parse_operand(struct ptx_parser *p, struct ptx_operand *o, uint32_t depth)
{
	if (depth > PTX_NESTING_MOST)
		return parse_fail(p, "operands nest deeper than %d", PTX_NESTING_MOST);
	if (parse_take(p, "{") || parse_is(p, "(")) {
		const char *close = parse_take(p, "(") ? ")" : "}";
		o->kind = PTX_OP_VECTOR;
		return parse_parts(p, o, close, depth);
	}
	if (parse_take(p, "["))
		return parse_address(p, o, depth);
	o->negated = parse_take(p, "!");
	bool minus = parse_is(p, "-");
	if (p->token.kind == PTX_NUMBER || minus) {
		o->kind = PTX_OP_NUMBER;
		return parse_value(p, &o->number, &o->number_kind);
	}
	if (!parse_word(p, o))
		return false;
	return !parse_take(p, "|") || parse_pair(p, o);
}
