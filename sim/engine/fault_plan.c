/* SPDX-License-Identifier: BSD-3-Clause */
/* The parser of fault plans. */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/word.h"
#include "sim/engine/engine_internal.h"
#include "sim/engine/fault.h"

/* ---- places and errors ---------------------------------------------------------------------- */

struct cursor {
	const char *plan;
	const char *begin; /* of the line */
	const char *at;
	uint32_t line;
};

struct token {
	const char *at;
	size_t n;
};

static int fault_error(const struct cursor *c, const char *at, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static int fault_error(const struct cursor *c, const char *at, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "%s:%u:%d: ", c->plan, c->line, (int)(at - c->begin) + 1);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return EINVAL;
}

/* The names that are least far from what was written: up to three, the nearest first. */
enum { NEAREST_MOST = 3, NEAREST_SLACK = 2 };

struct nearest {
	const char *name[NEAREST_MOST];
	uint32_t distance[NEAREST_MOST];
	char text[160]; /* nearest_say's */
};

static void nearest_try(struct nearest *best, struct token t, const char *name)
{
	uint32_t d = word_distance(t.at, t.n, name);
	int at = NEAREST_MOST;

	while (at > 0 && (!best->name[at - 1] || d < best->distance[at - 1]))
		at--;
	for (int i = NEAREST_MOST - 1; i > at; i--) {
		best->name[i] = best->name[i - 1];
		best->distance[i] = best->distance[i - 1];
	}
	if (at < NEAREST_MOST) {
		best->name[at] = name;
		best->distance[at] = d;
	}
}

/* "a, b": those about as near as the nearest. */
static const char *nearest_say(struct nearest *best)
{
	size_t n = 0;

	for (int i = 0; i < NEAREST_MOST && best->name[i]; i++) {
		if (best->distance[i] > best->distance[0] + NEAREST_SLACK)
			break;
		n += (size_t)snprintf(best->text + n, sizeof best->text - n, "%s%s", i ? ", " : "",
				      best->name[i]);
	}
	return best->text;
}

/* ---- tokens --------------------------------------------------------------------------------- */

/* The next word of the line; n == 0 at its end or at a comment. */
static struct token fault_next(struct cursor *c)
{
	while (*c->at == ' ' || *c->at == '\t' || *c->at == '\r')
		c->at++;
	struct token t = {c->at, 0};
	if (*c->at == '#')
		return t;
	while (c->at[t.n] && !isspace((unsigned char)c->at[t.n]) && c->at[t.n] != '#')
		t.n++;
	c->at += t.n;
	return t;
}

static bool token_is(struct token t, const char *name)
{
	return strlen(name) == t.n && memcmp(t.at, name, t.n) == 0;
}

/* "key=value" into its two halves. */
static bool token_split(struct token t, struct token *key, struct token *value)
{
	const char *eq = memchr(t.at, '=', t.n);

	if (!eq)
		return false;
	*key = (struct token){t.at, (size_t)(eq - t.at)};
	*value = (struct token){eq + 1, t.n - key->n - 1};
	return true;
}

/* Decimal digits only; the rest of the token goes to *rest. */
static bool token_number(struct token t, uint64_t *value, struct token *rest)
{
	uint64_t v = 0;
	size_t i = 0;

	for (; i < t.n && isdigit((unsigned char)t.at[i]); i++) {
		if (v > (INT64_MAX - 9) / 10)
			return false;
		v = v * 10 + (uint64_t)(t.at[i] - '0');
	}
	*value = v;
	*rest = (struct token){t.at + i, t.n - i};
	return i > 0;
}

static const struct fault_name *named_find(const struct fault_name *table, struct token t)
{
	for (; table->name; table++)
		if (token_is(t, table->name))
			return table;
	return NULL;
}

static int value_time(const struct cursor *c, struct token t, uint64_t *ns)
{
	struct token rest;
	const struct fault_name *unit;

	if (!token_number(t, ns, &rest) || !(unit = named_find(fault_names(FAULT_TIME), rest)) ||
	    *ns > INT64_MAX / unit->value)
		return fault_error(c, t.at,
				   "\"%.*s\" is no time; expected like 50us (ns, us, ms, s)",
				   (int)t.n, t.at);
	*ns *= unit->value;
	return 0;
}

static int value_number(const struct cursor *c, struct token t, uint64_t *v)
{
	struct token rest;

	if (!token_number(t, v, &rest) || rest.n)
		return fault_error(c, t.at, "\"%.*s\" is no number, or too large a one", (int)t.n,
				   t.at);
	return 0;
}

static int value_ratio(const struct cursor *c, struct token t, struct fault *f)
{
	struct token rest, end;
	uint64_t num, den;

	if (!token_number(t, &num, &rest) || !rest.n || rest.at[0] != '/' ||
	    !token_number((struct token){rest.at + 1, rest.n - 1}, &den, &end) || end.n || !den ||
	    num > den || den > UINT32_MAX)
		return fault_error(c, t.at, "\"%.*s\" is no probability; expected like 1/64",
				   (int)t.n, t.at);
	f->prob_num = (uint32_t)num;
	f->prob_den = (uint32_t)den;
	return 0;
}

static int value_in_range(const struct cursor *c, struct token t, const char *what, uint64_t v,
			  struct fault_range range)
{
	if (!range.most || (v >= range.least && v <= range.most))
		return 0;
	return fault_error(c, t.at, "%s is %.*s; expected %" PRIu64 " to %" PRIu64, what, (int)t.n,
			   t.at, range.least, range.most);
}

static int value_named(const struct cursor *c, struct token t, const char *what,
		       enum fault_value type, uint64_t *v)
{
	const struct fault_name *table = fault_names(type), *found = named_find(table, t);
	struct nearest best = {.name = {NULL}};
	struct token rest;

	if (found) {
		*v = found->value;
		return 0;
	}
	if (token_number(t, v, &rest) && !rest.n)
		return value_in_range(c, t, what, *v, fault_number_range(type));
	for (; table->name; table++)
		nearest_try(&best, t, table->name);
	return fault_error(c, t.at, "unknown %s \"%.*s\"; nearest: %s", what, (int)t.n, t.at,
			   nearest_say(&best));
}

static int value_of(const struct cursor *c, struct token t, const char *what, enum fault_value type,
		    uint64_t *v)
{
	if (type == FAULT_TIME)
		return value_time(c, t, v);
	if (type == FAULT_NUMBER)
		return value_number(c, t, v);
	return value_named(c, t, what, type, v);
}

/* ---- one line ------------------------------------------------------------------------------- */

/* "LAYER.any" */
static const struct fault_layer *fault_layer_any(struct token t)
{
	for (const struct fault_layer *l = fault_layers; l->name; l++) {
		size_t n = strlen(l->name);

		if (t.n == n + 4 && !memcmp(t.at, l->name, n) && !memcmp(t.at + n, ".any", 4))
			return l;
	}
	return NULL;
}

static int parse_site(const struct cursor *c, struct token t, struct fault *f)
{
	struct nearest best = {.name = {NULL}};

	f->layer = fault_layer_any(t);
	if (f->layer)
		return 0;
	for (f->layer = fault_layers; f->layer->name; f->layer++)
		for (f->site = f->layer->site; f->site->name; f->site++)
			if (token_is(t, f->site->name))
				return 0;
	for (const struct fault_layer *l = fault_layers; l->name; l++)
		for (const struct fault_site *s = l->site; s->name; s++)
			nearest_try(&best, t, s->name);
	nearest_try(&best, t, "heal");
	return fault_error(c, t.at, "unknown fault site \"%.*s\"; nearest: %s", (int)t.n, t.at,
			   nearest_say(&best));
}

static int parse_key_value(const struct cursor *c, int k, struct token value, struct fault *f)
{
	uint64_t v = 0;
	int rc;

	switch (k) {
	case FAULT_PROB:
		return value_ratio(c, value, f);
	case FAULT_AFTER:
	case FAULT_UNTIL:
		rc = value_time(c, value, &v);
		break;
	case FAULT_STATE_KEY:
		rc = value_named(c, value, "state", FAULT_STATE, &v);
		break;
	default:
		rc = value_number(c, value, &v);
	}
	if (!rc && (k == FAULT_NTH || k == FAULT_COUNT) && !v)
		rc = fault_error(c, value.at, "%s counts from 1", fault_keys[k].name);
	f->key[k] = (int64_t)v;
	return rc;
}

static int parse_key(const struct cursor *c, struct token key, struct token value, struct fault *f)
{
	struct nearest best = {.name = {NULL}};
	int k;

	for (k = 0; k < FAULT_KEYS; k++)
		if (token_is(key, fault_keys[k].name))
			break;
	if (k == FAULT_KEYS) {
		for (k = 0; k < FAULT_KEYS; k++)
			nearest_try(&best, key, fault_keys[k].name);
		return fault_error(c, key.at, "unknown key \"%.*s\"; nearest: %s", (int)key.n,
				   key.at, nearest_say(&best));
	}
	if (f->given & 1u << k)
		return fault_error(c, key.at, "key \"%s\" is given twice", fault_keys[k].name);
	if (k == FAULT_STATE_KEY && !(f->site && f->site->has_state))
		return fault_error(c, key.at, "%s.%s has no state", f->layer->name,
				   f->site ? f->site->name + strlen(f->layer->name) + 1 : "any");
	f->given |= 1u << k;
	return parse_key_value(c, k, value, f);
}

static int parse_forever(const struct cursor *c, struct token t, struct fault *f)
{
	if (f->given & 1u << FAULT_COUNT)
		return fault_error(c, t.at, "forever, or count=: not both");
	f->given |= 1u << FAULT_COUNT;
	f->key[FAULT_COUNT] = INT64_MAX;
	return 0;
}

/* Of LAYER.any the only action is to fail, each site as it usually does; the error that may be
 * named is of the layer's kind. */
static int parse_action_any(const struct cursor *c, struct token t, struct fault *f)
{
	for (const struct fault_site *s = f->layer->site; s->name && !f->action; s++)
		f->action = fault_action_fail(s);
	if (f->action && token_is(t, f->action->name))
		return 0;
	if (!f->action)
		return fault_error(c, t.at,
				   "%s.any: no site of %s has the action fail; expected a site, "
				   "such as %s",
				   f->layer->name, f->layer->name, f->layer->site[0].name);
	return fault_error(c, t.at, "%s.any cannot \"%.*s\"; it can: fail", f->layer->name,
			   (int)t.n, t.at);
}

static int parse_action(const struct cursor *c, struct token t, struct fault *f)
{
	struct nearest best = {.name = {NULL}};

	if (!f->site)
		return parse_action_any(c, t, f);
	for (int i = 0; i < FAULT_ACTIONS_MAX && f->site->action[i].name; i++) {
		const struct fault_action *a = &f->site->action[i];

		if (token_is(t, a->name)) {
			f->action = a;
			f->arg = a->param[0].usual;
			f->more = a->param[1].usual;
			return 0;
		}
		nearest_try(&best, t, a->name);
	}
	return fault_error(c, t.at, "%s cannot \"%.*s\"; nearest: %s", f->site->name, (int)t.n,
			   t.at, nearest_say(&best));
}

/* What the action takes, for the message: "errno=, for=". */
static void action_say_params(const struct fault_action *a, char *out, size_t bytes)
{
	size_t n = 0;

	for (int i = 0; i < FAULT_PARAMS_MAX && a->param[i].name; i++)
		n += (size_t)snprintf(out + n, bytes - n, "%s%s=", n ? ", " : "", a->param[i].name);
	if (a->lasts)
		snprintf(out + n, bytes - n, "%sfor=", n ? ", " : "");
}

static int parse_param_value(const struct cursor *c, const struct fault_param *p,
			     struct token value, uint64_t *v)
{
	int rc = value_of(c, value, p->name, p->type, v);

	return rc ? rc
		  : value_in_range(c, value, p->name, *v, (struct fault_range){p->least, p->most});
}

static int parse_param(const struct cursor *c, struct token t, struct fault *f)
{
	const struct fault_action *a = f->action;
	struct token key, value;
	char known[64] = "";

	action_say_params(a, known, sizeof known);
	if (!known[0])
		return fault_error(c, t.at, "\"%s\" takes no parameter", a->name);
	if (token_split(t, &key, &value)) {
		for (int i = 0; i < FAULT_PARAMS_MAX && a->param[i].name; i++) {
			if (!token_is(key, a->param[i].name))
				continue;
			f->arg_given |= i == 0;
			return parse_param_value(c, &a->param[i], value, i ? &f->more : &f->arg);
		}
		if (a->lasts && token_is(key, "for"))
			return value_time(c, value, &f->for_ns);
	}
	return fault_error(c, t.at, "unknown parameter \"%.*s\" of %s; expected: %s", (int)t.n,
			   t.at, a->name, known);
}

static int parse_line(struct cursor *c, struct fault *f)
{
	struct token key, value, t = fault_next(c);
	int rc = parse_site(c, t, f);

	while (!rc && (t = fault_next(c)).n) {
		if (f->action)
			rc = parse_param(c, t, f);
		else if (token_split(t, &key, &value))
			rc = parse_key(c, key, value, f);
		else if (token_is(t, "forever"))
			rc = parse_forever(c, t, f);
		else
			rc = parse_action(c, t, f);
	}
	if (!rc && !f->action)
		rc = fault_error(c, c->at, "%s%s: what shall it do? expected: %s",
				 f->site ? f->site->name : f->layer->name, f->site ? "" : ".any",
				 f->site ? f->site->action[0].name : "fail");
	if (!f->site)
		f->action = NULL; /* each site's own */
	size_t n = (size_t)(c->at - c->begin);
	snprintf(f->text, sizeof f->text, "%.*s", (int)n, c->begin);
	return rc;
}

/* "heal after=TIME" */
static int parse_heal(struct cursor *c, struct fault_plan *plan)
{
	struct token key, value, t = fault_next(c);
	uint64_t ns = 0;

	if (plan->heal_ns)
		return fault_error(c, t.at, "heal is given twice");
	t = fault_next(c);
	if (!t.n || !token_split(t, &key, &value) || !token_is(key, "after"))
		return fault_error(c, t.at, "heal: when? expected: after=TIME");
	int rc = value_time(c, value, &ns);
	if (rc)
		return rc;
	t = fault_next(c);
	if (t.n)
		return fault_error(c, t.at, "heal takes after= and nothing more");
	plan->heal_ns = MAX_OF(ns, 1ull);
	return 0;
}

static int parse_fault(struct cursor *c, struct fault_plan *plan)
{
	struct fault *more = realloc(plan->fault, (plan->n + 1) * sizeof *more);

	if (!more)
		return ENOMEM;
	plan->fault = more;
	more[plan->n] = (struct fault){.line = c->line};
	int rc = parse_line(c, &more[plan->n]);
	plan->n += !rc;
	return rc;
}

int fault_plan_parse(const char *text, const char *name, struct fault_plan *plan)
{
	struct cursor c = {.plan = name, .begin = text, .at = text, .line = 1};

	for (;; c.line++) {
		struct cursor look = c;
		struct token first = fault_next(&look);
		int rc = 0;

		if (first.n)
			rc = token_is(first, "heal") ? parse_heal(&c, plan) : parse_fault(&c, plan);
		if (rc)
			return rc;
		const char *end = strchr(c.begin, '\n');
		if (!end)
			return 0;
		c.begin = c.at = end + 1;
	}
}

void fault_plan_free(struct fault_plan *plan)
{
	free(plan->fault);
	*plan = (struct fault_plan){.fault = NULL};
}
