/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/base/param.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base_state.h"
#include "core/base/param_row.h"
#include "core/base/word.h"
#include "core/os/os_ops.h"

static const char *const param_type_names[] = {
	[PARAM_INT] = "int",
	[PARAM_BOOL] = "bool",
	[PARAM_BYTES] = "bytes",
	[PARAM_STRING] = "string",
};

static const struct param_row param_stack[PARAM_COUNT] = {PARAM_TABLE(PARAM_ROW)};

int param_count(void)
{
	return PARAM_COUNT + (&param_doubles ? param_doubles.count : 0);
}

static const struct param_row *param_row_of(int p)
{
	ASSERT(p >= 0 && p < param_count());
	return p < PARAM_COUNT ? &param_stack[p] : &param_doubles.row[p - PARAM_COUNT];
}

static const struct param_form *param_form_of(int p)
{
	ASSERT(p >= 0 && p < param_count());
	return p < PARAM_COUNT ? &param_forms[p] : &param_doubles.form[p - PARAM_COUNT];
}

/* Returns the doubles' own default of the variable; NULL: it is the stack's. */
static const struct param_default *param_instead(int p)
{
	for (int i = 0; &param_doubles && i < param_doubles.instead_count; i++)
		if (param_doubles.instead[i].param == p)
			return &param_doubles.instead[i];
	return NULL;
}

static const char *param_initial(int p)
{
	const struct param_default *instead = param_instead(p);

	return instead ? instead->initial : param_row_of(p)->initial;
}

/* Names that NCCL had before, and has still. The newer name decides if both are set. */
static const struct param_old {
	int param;
	const char *name;
} param_olds[] = {
	{PARAM_MIN_NCHANNELS, "NCCL_MIN_NRINGS"},
	{PARAM_MAX_NCHANNELS, "NCCL_MAX_NRINGS"},
};

/* Returns the name under which the environment has the variable, or its usual name. */
static const char *param_name_set(int p, const char *(*env)(const void *ctx, const char *name),
				  const void *ctx)
{
	const char *name = param_row_of(p)->name, *value = env(ctx, name);

	for (size_t i = 0; i < ARRAY_LEN(param_olds) && !(value && *value); i++)
		if (param_olds[i].param == p && env(ctx, param_olds[i].name))
			return param_olds[i].name;
	return name;
}

/* Returns the shift of a unit, or -1 if the unit is invalid. */
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

static void param_value_init(struct param_value *v, int p, const char *text)
{
	const struct param_row *row = param_row_of(p);

	memset(v, 0, sizeof *v);
	v->text = text;
	if (row->type == PARAM_STRING)
		return;
	bool ok = param_number_parse(row, param_initial(p), &v->number);
	ASSERT(ok);
	/* An empty value counts as unset, as in NCCL. */
	if (text && *text)
		v->malformed = !param_number_parse(row, text, &v->number);
}

/* Malformed text also counts as unset: readers get the default. */
static void param_text_init(struct param_value *v, int p)
{
	const struct param_row *row = param_row_of(p);

	if (v->text && *v->text && !param_form_fits(param_form_of(p), v->text))
		v->malformed = true;
	if (v->malformed && row->type != PARAM_STRING)
		param_number_parse(row, param_initial(p), &v->number);
}

void base_state_init(struct base_state *state,
		     const char *(*env)(const void *ctx, const char *name), const void *ctx,
		     struct conf *conf)
{
	state->conf = conf;
	for (int p = 0; p < param_count(); p++) {
		const char *name = param_name_set(p, env, ctx);

		param_value_init(&state->param[p], p, env(ctx, name));
		param_text_init(&state->param[p], p);
		state->param[p].name = name;
		state->param[p].line = conf_find(conf, name, strlen(name));
	}
	log_state_init(&state->log, state->param[PARAM_DEBUG].text,
		       state->param[PARAM_DEBUG_SUBSYS].text);
}

void param_expected(int p, char *out, size_t bytes)
{
	const struct param_row *row = param_row_of(p);

	if (param_form_expected(param_form_of(p), out, bytes))
		return;
	if (row->type == PARAM_STRING)
		snprintf(out, bytes, "any text");
	else if (row->type == PARAM_BOOL)
		snprintf(out, bytes, "0 or 1");
	else
		snprintf(out, bytes, "an integer from %lld to %lld%s", (long long)row->min,
			 (long long)row->max,
			 row->type == PARAM_BYTES ? " with an optional suffix k, M or G" : "");
}

/* Returns "FILE:LINE: ", or "" if no file set the value. */
static const char *param_place(const struct conf_line *line, char out[PARAM_PLACE_BYTES])
{
	*out = '\0';
	if (line)
		snprintf(out, PARAM_PLACE_BYTES, "%.200s:%u: ", line->path, line->number);
	return out;
}

/* Reports a malformed value, once per value. Writes to stderr too, unless the log is already
 * there. */
static void param_malformed(int p, struct param_value *v)
{
	char expected[PARAM_EXPECTED_BYTES], line[PARAM_EXPECTED_BYTES + 768];
	char place[PARAM_PLACE_BYTES];
	if (shared_quiet_exchange_u32(&v->warned, 1) != 0)
		return;
	param_expected(p, expected, sizeof expected);
	snprintf(line, sizeof line, "%s%s is '%.200s', expected %s; the default %s is used",
		 param_place(v->line, place), v->name, v->text, expected,
		 param_initial(p) ? param_initial(p) : "(unset)");
	WARN("%s", line);
	if (!log_wanted(LOG_LEVEL_WARN, 0))
		os_log_line(line);
}

static const struct param_value *param_value_of(int p)
{
	ASSERT(p >= 0 && p < param_count());
	struct param_value *v = &os_base_state()->param[p];
	if (UNLIKELY(v->malformed))
		param_malformed(p, v);
	return v;
}

int param_find(const char *name, size_t bytes)
{
	for (int p = 0; p < param_count(); p++) {
		const char *of_row = param_row_of(p)->name;

		if (strlen(of_row) == bytes && memcmp(of_row, name, bytes) == 0)
			return p;
	}
	for (size_t i = 0; i < ARRAY_LEN(param_olds); i++)
		if (strlen(param_olds[i].name) == bytes &&
		    memcmp(param_olds[i].name, name, bytes) == 0)
			return param_olds[i].param;
	return -1;
}

const char *param_nearest(const char *name, size_t bytes)
{
	struct word_nearest best = {.name = {NULL}};

	for (int p = 0; p < param_count(); p++)
		word_nearest_try(&best, name, bytes, param_row_of(p)->name);
	return best.name[0];
}

bool param_allows(int p, const char *value, char *expected, size_t bytes)
{
	const struct param_row *row = param_row_of(p);
	int64_t number;
	bool ok =
		!*value || (param_form_fits(param_form_of(p), value) &&
			    (row->type == PARAM_STRING || param_number_parse(row, value, &number)));
	if (!ok)
		param_expected(p, expected, bytes);
	return ok;
}

void param_report_malformed(void)
{
	conf_report_bad(os_base_state()->conf);
	for (int p = 0; p < param_count(); p++)
		(void)param_value_of(p);
}

/* Once for each process: a default that is not that of GPUs. */
static void param_report_instead(int p, struct param_value *v)
{
	const struct param_default *instead = param_instead(p);

	if (instead && !(v->text && *v->text) && shared_quiet_exchange_u32(&v->shown, 1) == 0)
		INFO(LOG_ENV, "%s is %s on the doubles: %s", param_row_of(p)->name,
		     instead->initial, instead->why);
}

static void param_report_value(const struct param_value *v)
{
	if (v->line)
		INFO(LOG_ENV, "%s set by %.200s:%u to %s.", v->name, v->line->path, v->line->number,
		     v->text);
	else
		INFO(LOG_ENV, "%s set by environment to %s.", v->name, v->text);
}

void param_report_set(void)
{
	for (int p = 0; p < param_count() && log_wanted(LOG_LEVEL_INFO, LOG_ENV); p++) {
		struct param_value *v = &os_base_state()->param[p];

		param_report_instead(p, v);
		if (v->text && *v->text && !v->malformed &&
		    shared_quiet_exchange_u32(&v->shown, 1) == 0)
			param_report_value(v);
	}
	conf_report_unused(os_base_state()->conf);
}

bool param_warns(int p)
{
	return shared_quiet_exchange_u32(&os_base_state()->param[p].warned, 1) == 0;
}

int64_t param_i64(int p)
{
	ASSERT(param_row_of(p)->type != PARAM_STRING);
	return param_value_of(p)->number;
}

bool param_bool(int p)
{
	ASSERT(param_row_of(p)->type == PARAM_BOOL);
	return param_value_of(p)->number != 0;
}

const char *param_str(int p)
{
	ASSERT(param_row_of(p)->type == PARAM_STRING);
	const struct param_value *v = param_value_of(p);
	return v->text && *v->text && !v->malformed ? v->text : param_initial(p);
}

bool param_is_set(int p)
{
	return param_value_of(p)->text != NULL;
}

const char *param_name(int p)
{
	return param_row_of(p)->name;
}

enum param_type param_type_of(int p)
{
	return param_row_of(p)->type;
}

const char *param_type_name(int p)
{
	return param_type_names[param_row_of(p)->type];
}

const char *param_meaning(int p)
{
	return param_row_of(p)->meaning;
}

const char *param_default_text(int p)
{
	return param_initial(p);
}

const char *param_set_by(int p, char out[PARAM_PLACE_BYTES])
{
	const struct param_value *v = param_value_of(p);

	if (!v->text || !*v->text || v->malformed)
		return "default";
	if (!v->line)
		return "environment";
	snprintf(out, PARAM_PLACE_BYTES, "%.200s:%u", v->line->path, v->line->number);
	return out;
}

void param_print(FILE *out)
{
	fprintf(out, "%-24s %-7s %-20s %s\n", "variable", "type", "default", "meaning");
	for (int p = 0; p < param_count(); p++) {
		const struct param_row *row = param_row_of(p);
		const struct param_value *v = &os_base_state()->param[p];
		const struct param_default *instead = param_instead(p);
		bool none = !row->initial || strcmp(row->initial, "-2") == 0;
		fprintf(out, "%-24s %-7s %-20s %s", row->name, param_type_names[row->type],
			none ? "unset" : row->initial, row->meaning);
		if (instead)
			fprintf(out, " [doubles: %s, %s]", instead->initial, instead->why);
		if (v->text)
			fprintf(out, " [now: %s]", v->text);
		if (v->line)
			fprintf(out, " [from %s:%u]", v->line->path, v->line->number);
		fputc('\n', out);
	}
}
