/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/base/param.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base_state.h"
#include "core/os/os_ops.h"

enum param_type { PARAM_INT, PARAM_BOOL, PARAM_BYTES, PARAM_STRING };

static const char *const param_type_names[] = {
	[PARAM_INT] = "int",
	[PARAM_BOOL] = "bool",
	[PARAM_BYTES] = "bytes",
	[PARAM_STRING] = "string",
};

struct param_row {
	const char *name;
	enum param_type type;
	const char *initial;
	int64_t min, max;
	const char *meaning;
};

static const struct param_row param_rows[PARAM_COUNT] = {
#define PARAM_ROW(id, name, type, initial, min, max, meaning)                                      \
	[PARAM_##id] = {name, PARAM_##type, initial, min, max, meaning},
	PARAM_TABLE(PARAM_ROW)
#undef PARAM_ROW
};

/* Shift that a unit stands for, or -1. */
static int param_unit_shift(const char *unit)
{
	switch (*unit) {
	case '\0':
		return 0;
	case 'k':
	case 'K':
		return unit[1] ? -1 : 10;
	case 'm':
	case 'M':
		return unit[1] ? -1 : 20;
	case 'g':
	case 'G':
		return unit[1] ? -1 : 30;
	default:
		return -1;
	}
}

static bool param_number_parse(const struct param_row *row, const char *text, int64_t *value)
{
	char *end;
	errno = 0;
	long long n = strtoll(text, &end, 0);
	if (end == text || errno)
		return false;
	int shift = row->type == PARAM_BYTES ? param_unit_shift(end) : *end ? -1 : 0;
	if (shift < 0 || n > (INT64_MAX >> shift) || n < (INT64_MIN >> shift))
		return false;
	n *= 1ll << shift;
	if (row->type == PARAM_BOOL)
		n = n != 0;
	if (n < row->min || n > row->max)
		return false;
	*value = n;
	return true;
}

static void param_value_init(struct param_value *v, const struct param_row *row, const char *text)
{
	memset(v, 0, sizeof *v);
	v->text = text;
	if (row->type == PARAM_STRING)
		return;
	bool ok = param_number_parse(row, row->initial, &v->number);
	ASSERT(ok);
	/* an empty value is an unset one, as in NCCL */
	if (text && *text)
		v->malformed = !param_number_parse(row, text, &v->number);
}

void base_state_init(struct base_state *state,
		     const char *(*env)(const void *ctx, const char *name), const void *ctx)
{
	for (int p = 0; p < PARAM_COUNT; p++)
		param_value_init(&state->param[p], &param_rows[p], env(ctx, param_rows[p].name));
	log_state_init(&state->log, state->param[PARAM_DEBUG].text,
		       state->param[PARAM_DEBUG_SUBSYS].text);
}

static void param_expected_print(const struct param_row *row, char *out, size_t bytes)
{
	if (row->type == PARAM_BOOL)
		snprintf(out, bytes, "0 or 1");
	else
		snprintf(out, bytes, "an integer from %lld to %lld%s", (long long)row->min,
			 (long long)row->max,
			 row->type == PARAM_BYTES ? ", k, M or G behind it" : "");
}

static const struct param_value *param_value_of(enum param p)
{
	ASSERT((unsigned)p < PARAM_COUNT);
	struct param_value *v = &os_base_state()->param[p];
	if (UNLIKELY(v->malformed) && shared_quiet_exchange_u32(&v->warned, 1) == 0) {
		const struct param_row *row = &param_rows[p];
		char expected[80];
		param_expected_print(row, expected, sizeof expected);
		WARN("%s is '%s', expected %s; the default %s is used", row->name, v->text,
		     expected, row->initial);
	}
	return v;
}

int64_t param_i64(enum param p)
{
	ASSERT(param_rows[p].type != PARAM_STRING);
	return param_value_of(p)->number;
}

bool param_bool(enum param p)
{
	ASSERT(param_rows[p].type == PARAM_BOOL);
	return param_value_of(p)->number != 0;
}

const char *param_str(enum param p)
{
	ASSERT(param_rows[p].type == PARAM_STRING);
	const struct param_value *v = param_value_of(p);
	return v->text && *v->text ? v->text : param_rows[p].initial;
}

bool param_is_set(enum param p)
{
	return param_value_of(p)->text != NULL;
}

const char *param_name(enum param p)
{
	ASSERT((unsigned)p < PARAM_COUNT);
	return param_rows[p].name;
}

void param_print(FILE *out)
{
	fprintf(out, "%-24s %-7s %-20s %s\n", "variable", "type", "default", "meaning");
	for (int p = 0; p < PARAM_COUNT; p++) {
		const struct param_row *row = &param_rows[p];
		const char *set = os_base_state()->param[p].text;
		bool none = !row->initial || strcmp(row->initial, "-2") == 0;
		fprintf(out, "%-24s %-7s %-20s %s", row->name, param_type_names[row->type],
			none ? "unset" : row->initial, row->meaning);
		if (set)
			fprintf(out, " [now: %s]", set);
		fputc('\n', out);
	}
}
