/* SPDX-License-Identifier: BSD-3-Clause */
/* The parser of fault plans. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/word.h"
#include "sim/engine/faults/fault.h"
#include "sim/engine/order/order_internal.h"
#include "sim/engine/base/token.h"

#define PLAN_BETWEEN " \t\r\v\f" /* separates words */

/* ---- values --------------------------------------------------------------------------------- */

static const struct fault_name *named_find(const struct fault_name *table, struct token t)
{
	for (; table->name; table++)
		if (token_is(t, table->name))
			return table;
	return NULL;
}

static int value_time(const struct token_line *line, struct token t, uint64_t *ns)
{
	struct token rest;
	const struct fault_name *unit;

	if (!token_digits(t, ns, &rest) || !(unit = named_find(fault_names(FAULT_TIME), rest)) ||
	    *ns > INT64_MAX / unit->value)
		return token_error(line, t.at,
				   "\"%.*s\" is no time; expected like 50us (ns, us, ms, s)",
				   (int)t.n, t.at);
	*ns *= unit->value;
	return 0;
}

/* Parses TIME, collective+TIME or collective:N+TIME. */
static int value_moment(const struct token_line *line, struct token t, struct fault_origin *from,
			uint64_t *ns)
{
	static const char word[] = "collective";
	const size_t n = sizeof word - 1;
	struct token rest = {t.at + n, t.n - n};

	*from = (struct fault_origin){.start_ns = ENGINE_NEVER};
	if (t.n < n || memcmp(t.at, word, n) != 0)
		return value_time(line, t, ns);
	from->is_operation = true;
	if (rest.n && *rest.at == ':' &&
	    !token_digits((struct token){rest.at + 1, rest.n - 1}, &from->number, &rest))
		rest.n = 0;
	if (rest.n && *rest.at == '+')
		return value_time(line, (struct token){rest.at + 1, rest.n - 1}, ns);
	return token_error(line, t.at,
			   "\"%.*s\" is no moment; expected like 50us, collective+50us or "
			   "collective:3+50us",
			   (int)t.n, t.at);
}

static int value_number(const struct token_line *line, struct token t, uint64_t *v)
{
	struct token rest;

	if (!token_digits(t, v, &rest) || rest.n)
		return token_error(line, t.at, "\"%.*s\" is no number, or too large a one",
				   (int)t.n, t.at);
	return 0;
}

static int value_ratio(const struct token_line *line, struct token t, struct fault *f)
{
	struct token rest, end;
	uint64_t num, den;

	if (!token_digits(t, &num, &rest) || !rest.n || rest.at[0] != '/' ||
	    !token_digits((struct token){rest.at + 1, rest.n - 1}, &den, &end) || end.n || !den ||
	    num > den || den > UINT32_MAX)
		return token_error(line, t.at, "\"%.*s\" is no probability; expected like 1/64",
				   (int)t.n, t.at);
	f->prob_num = (uint32_t)num;
	f->prob_den = (uint32_t)den;
	return 0;
}

static int value_in_range(const struct token_line *line, struct token t, const char *what,
			  uint64_t v, struct fault_range range)
{
	if (!range.most || (v >= range.least && v <= range.most))
		return 0;
	return token_error(line, t.at, "%s is %.*s; expected %" PRIu64 " to %" PRIu64, what,
			   (int)t.n, t.at, range.least, range.most);
}

static int value_named(const struct token_line *line, struct token t, const char *what,
		       enum fault_value type, uint64_t *v)
{
	const struct fault_name *table = fault_names(type), *found = named_find(table, t);
	struct word_nearest best = {.name = {NULL}};
	struct token rest;

	if (found) {
		*v = found->value;
		return 0;
	}
	if (token_digits(t, v, &rest) && !rest.n)
		return value_in_range(line, t, what, *v, fault_number_range(type));
	for (; table->name; table++)
		word_nearest_try(&best, t.at, t.n, table->name);
	return token_error(line, t.at, "unknown %s \"%.*s\"; nearest: %s", what, (int)t.n, t.at,
			   word_nearest_text(&best));
}

static int value_of(const struct token_line *line, struct token t, const char *what,
		    enum fault_value type, uint64_t *v)
{
	if (type == FAULT_TIME)
		return value_time(line, t, v);
	if (type == FAULT_NUMBER)
		return value_number(line, t, v);
	return value_named(line, t, what, type, v);
}

/* ---- one line ------------------------------------------------------------------------------- */

/* Returns the layer of "LAYER.any", or NULL. */
static const struct fault_layer *fault_layer_any(struct token t)
{
	for (const struct fault_layer *l = fault_layers; l->name; l++) {
		size_t n = strlen(l->name);

		if (t.n == n + 4 && !memcmp(t.at, l->name, n) && !memcmp(t.at + n, ".any", 4))
			return l;
	}
	return NULL;
}

static int parse_site(const struct token_line *line, struct token t, struct fault *f)
{
	struct word_nearest best = {.name = {NULL}};

	f->layer = fault_layer_any(t);
	if (f->layer)
		return 0;
	for (f->layer = fault_layers; f->layer->name; f->layer++)
		for (f->site = f->layer->site; f->site->name; f->site++)
			if (token_is(t, f->site->name))
				return 0;
	for (const struct fault_layer *l = fault_layers; l->name; l++)
		for (const struct fault_site *s = l->site; s->name; s++)
			word_nearest_try(&best, t.at, t.n, s->name);
	word_nearest_try(&best, t.at, t.n, "heal");
	return token_error(line, t.at, "unknown fault site \"%.*s\"; nearest: %s", (int)t.n, t.at,
			   word_nearest_text(&best));
}

static int parse_key_value(const struct token_line *line, int k, struct token value,
			   struct fault *f)
{
	uint64_t v = 0;
	int rc = 0;

	switch (k) {
	case FAULT_PROB:
		return value_ratio(line, value, f);
	case FAULT_AFTER:
		rc = value_moment(line, value, &f->after, &v);
		break;
	case FAULT_UNTIL:
		rc = value_moment(line, value, &f->until, &v);
		break;
	case FAULT_NIC:
	case FAULT_PEER_NIC:
		v = (uint64_t)fault_name_key(value.at, value.n);
		break;
	case FAULT_STATE_KEY:
		rc = value_named(line, value, "state", FAULT_STATE, &v);
		break;
	default:
		rc = value_number(line, value, &v);
	}
	if (!rc && (k == FAULT_NTH || k == FAULT_COUNT || k == FAULT_CALLER) && !v)
		rc = token_error(line, value.at, "%s counts from 1", fault_keys[k].name);
	f->key[k] = (int64_t)v;
	return rc;
}

static int parse_key(const struct token_line *line, struct token key, struct token value,
		     struct fault *f)
{
	struct word_nearest best = {.name = {NULL}};
	int k;

	for (k = 0; k < FAULT_KEYS; k++)
		if (token_is(key, fault_keys[k].name))
			break;
	if (k == FAULT_KEYS) {
		for (k = 0; k < FAULT_KEYS; k++)
			word_nearest_try(&best, key.at, key.n, fault_keys[k].name);
		return token_error(line, key.at, "unknown key \"%.*s\"; nearest: %s", (int)key.n,
				   key.at, word_nearest_text(&best));
	}
	if (f->given & 1u << k)
		return token_error(line, key.at, "key \"%s\" is given twice", fault_keys[k].name);
	if (!fault_key_fits(f, k))
		return token_error(line, key.at, "%s.%s has no %s", f->layer->name,
				   f->site ? f->site->name + strlen(f->layer->name) + 1 : "any",
				   fault_keys[k].name);
	f->given |= 1u << k;
	return parse_key_value(line, k, value, f);
}

static int parse_forever(const struct token_line *line, struct token t, struct fault *f)
{
	if (f->given & 1u << FAULT_COUNT)
		return token_error(line, t.at,
				   "forever and count= are both given; expected one of them");
	f->given |= 1u << FAULT_COUNT;
	f->key[FAULT_COUNT] = INT64_MAX;
	return 0;
}

/* Parses the action of LAYER.any. Its only action is `fail`, with each site's usual error. An error
 * given as a parameter is of the layer's kind. */
static int parse_action_any(const struct token_line *line, struct token t, struct fault *f)
{
	for (const struct fault_site *s = f->layer->site; s->name && !f->action; s++)
		f->action = fault_action_fail(s);
	if (f->action && token_is(t, f->action->name))
		return 0;
	if (!f->action)
		return token_error(line, t.at,
				   "%s.any cannot \"%.*s\": a layer's any can only fail, and no "
				   "site of %s can; expected a site, such as %s",
				   f->layer->name, (int)t.n, t.at, f->layer->name,
				   f->layer->site[0].name);
	return token_error(line, t.at, "%s.any cannot \"%.*s\"; it can: fail", f->layer->name,
			   (int)t.n, t.at);
}

static int parse_action(const struct token_line *line, struct token t, struct fault *f)
{
	struct word_nearest best = {.name = {NULL}};

	if (!f->site)
		return parse_action_any(line, t, f);
	for (int i = 0; i < FAULT_ACTIONS_MAX && f->site->action[i].name; i++) {
		const struct fault_action *a = &f->site->action[i];

		if (token_is(t, a->name)) {
			f->action = a;
			f->arg = a->param[0].usual;
			f->more = a->param[1].usual;
			return 0;
		}
		word_nearest_try(&best, t.at, t.n, a->name);
	}
	return token_error(line, t.at, "%s cannot \"%.*s\"; nearest: %s", f->site->name, (int)t.n,
			   t.at, word_nearest_text(&best));
}

/* Lists the action's parameters for the message: "errno=, for=". */
static void action_say_params(const struct fault_action *a, char *out, size_t bytes)
{
	size_t n = 0;

	for (int i = 0; i < FAULT_PARAMS_MAX && a->param[i].name; i++)
		n += (size_t)snprintf(out + n, bytes - n, "%s%s=", n ? ", " : "", a->param[i].name);
	if (a->lasts)
		snprintf(out + n, bytes - n, "%sfor=", n ? ", " : "");
}

static int parse_param_value(const struct token_line *line, const struct fault_param *p,
			     struct token value, uint64_t *v)
{
	int rc = value_of(line, value, p->name, p->type, v);

	return rc ? rc
		  : value_in_range(line, value, p->name, *v,
				   (struct fault_range){p->least, p->most});
}

static int parse_param(const struct token_line *line, struct token t, struct fault *f)
{
	const struct fault_action *a = f->action;
	struct token key, value;
	char known[64] = "";

	action_say_params(a, known, sizeof known);
	if (!known[0])
		return token_error(line, t.at, "\"%s\" takes no parameter", a->name);
	if (token_split(t, &key, &value)) {
		for (int i = 0; i < FAULT_PARAMS_MAX && a->param[i].name; i++) {
			if (!token_is(key, a->param[i].name))
				continue;
			f->arg_given |= i == 0;
			return parse_param_value(line, &a->param[i], value, i ? &f->more : &f->arg);
		}
		if (a->lasts && token_is(key, "for"))
			return value_time(line, value, &f->for_ns);
	}
	return token_error(line, t.at, "unknown parameter \"%.*s\" of %s; expected: %s", (int)t.n,
			   t.at, a->name, known);
}

static int parse_line(const struct token_line *line, struct token rest, struct fault *f)
{
	struct token key, value, t;
	int rc;

	token_next(&rest, PLAN_BETWEEN, &t);
	rc = parse_site(line, t, f);
	while (!rc && token_next(&rest, PLAN_BETWEEN, &t)) {
		if (f->action)
			rc = parse_param(line, t, f);
		else if (token_split(t, &key, &value))
			rc = parse_key(line, key, value, f);
		else if (token_is(t, "forever"))
			rc = parse_forever(line, t, f);
		else
			rc = parse_action(line, t, f);
	}
	if (!rc && !f->action)
		rc = token_error(line, rest.at, "%s%s: has no action; expected: %s",
				 f->site ? f->site->name : f->layer->name, f->site ? "" : ".any",
				 f->site ? f->site->action[0].name : "fail");
	if (!f->site)
		f->action = NULL; /* each site has its own */
	size_t n = (size_t)(rest.at - line->begin);
	snprintf(f->text, sizeof f->text, "%.*s", (int)n, line->begin);
	return rc;
}

/* Parses "heal after=TIME". */
static int parse_heal(const struct token_line *line, struct token rest, struct fault_plan *plan)
{
	struct token key, value, t;
	uint64_t ns = 0;

	token_next(&rest, PLAN_BETWEEN, &t);
	if (plan->heal_ns)
		return token_error(line, t.at, "heal is given twice");
	if (!token_next(&rest, PLAN_BETWEEN, &t) || !token_split(t, &key, &value) ||
	    !token_is(key, "after"))
		return token_error(line, t.at, "heal: has no time; expected: after=TIME");
	int rc = value_time(line, value, &ns);
	if (rc)
		return rc;
	if (token_next(&rest, PLAN_BETWEEN, &t))
		return token_error(line, t.at, "heal: has another word; expected: after=TIME only");
	plan->heal_ns = MAX_OF(ns, 1ull);
	return 0;
}

static int parse_fault(const struct token_line *line, struct token rest, struct fault_plan *plan)
{
	struct fault *more = realloc(plan->fault, (plan->n + 1) * sizeof *more);

	if (!more)
		return ENOMEM;
	plan->fault = more;
	more[plan->n] = (struct fault){.line = line->number};
	int rc = parse_line(line, rest, &more[plan->n]);
	plan->n += !rc;
	return rc;
}

int fault_plan_parse(const char *text, const char *name, struct fault_plan *plan)
{
	struct token_line line = {.what = "", .name = name, .begin = text, .number = 1};

	for (;; line.number++) {
		struct token rest = {line.begin, strcspn(line.begin, "#\n")}, look = rest, first;
		int rc = 0;

		if (token_next(&look, PLAN_BETWEEN, &first))
			rc = token_is(first, "heal") ? parse_heal(&line, rest, plan)
						     : parse_fault(&line, rest, plan);
		if (rc)
			return rc;
		const char *end = strchr(line.begin, '\n');
		if (!end)
			return 0;
		line.begin = end + 1;
	}
}

void fault_plan_free(struct fault_plan *plan)
{
	for (uint32_t i = 0; i < plan->n; i++)
		free(plan->fault[i].caller);
	free(plan->fault);
	*plan = (struct fault_plan){.fault = NULL};
}
