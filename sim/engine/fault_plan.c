/* SPDX-License-Identifier: BSD-3-Clause */
/* The parser of fault plans, and the tables of what can be named in one. */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/engine/engine_internal.h"
#include "sim/engine/fault.h"

#define FAIL_WITH(e)                                                                               \
	{                                                                                          \
		"fail", OS_FAULT_FAIL, "errno", e                                                  \
	}

const struct fault_site fault_sites[] = {
	{"fabric.link",
	 "a NIC's link, looked at for each message",
	 {{"down", OS_FAULT_DOWN, "for", 0}}},
	{"fabric.packet",
	 "a message on its way",
	 {{"drop", OS_FAULT_DROP, NULL, 0}, {"delay", OS_FAULT_DELAY, "by", 10000}}},
	{"verbs.cqe", "the completion of a send", {{"error", OS_FAULT_ERROR, "status", 21}}},
	{"verbs.reg_mr", "ibv_reg_mr", {FAIL_WITH(ENOMEM)}},
	{"verbs.modify_qp", "ibv_modify_qp", {FAIL_WITH(ETIMEDOUT)}},
	{"cuda.malloc", "cudaMalloc", {FAIL_WITH(ENOMEM)}},
	{"cuda.host_alloc", "cudaHostAlloc", {FAIL_WITH(ENOMEM)}},
	{"cuda.host_register", "cudaHostRegister", {FAIL_WITH(ENOMEM)}},
	{"cuda.ipc_open", "cudaIpcOpenMemHandle", {FAIL_WITH(ENOMEM)}},
	{"os.alloc", "os_alloc", {FAIL_WITH(ENOMEM)}},
	{"os.file", "os_file_read", {FAIL_WITH(EIO)}},
	{"os.shm", "os_shm_create, os_shm_open", {FAIL_WITH(ENOMEM)}},
	{"os.connect", "os_connect", {FAIL_WITH(ECONNREFUSED)}},
	{"os.socket",
	 "a send or receive on a connection",
	 {{"reset", OS_FAULT_RESET, NULL, 0},
	  {"delay", OS_FAULT_DELAY, "by", 10000},
	  FAIL_WITH(EIO)}},
	{"os.task",
	 "an entry point or a wait of a rank's host task: ends its process",
	 {{"kill", OS_FAULT_KILL, NULL, 0}}},
	{"shared.cas", "a weak compare-and-swap", {{"spurious", OS_FAULT_SPURIOUS, NULL, 0}}},
	{NULL, NULL, {{NULL, 0, NULL, 0}}},
};

const char *const fault_key_name[FAULT_KEYS] = {
	[FAULT_HOST] = "host",       [FAULT_RANK] = "rank", [FAULT_PEER] = "peer",
	[FAULT_CHANNEL] = "channel", [FAULT_PORT] = "port", [FAULT_NUMBER] = "number",
	[FAULT_STEP] = "step",       [FAULT_NTH] = "nth",   [FAULT_COUNT] = "count",
	[FAULT_AFTER] = "after",     [FAULT_PROB] = "prob",
};

struct named_number {
	const char *name;
	uint64_t value;
};

static const struct named_number errno_names[] = {
	{"EPERM", EPERM},
	{"ENOENT", ENOENT},
	{"EIO", EIO},
	{"EAGAIN", EAGAIN},
	{"ENOMEM", ENOMEM},
	{"EACCES", EACCES},
	{"EFAULT", EFAULT},
	{"EBUSY", EBUSY},
	{"ENODEV", ENODEV},
	{"EINVAL", EINVAL},
	{"ENOSPC", ENOSPC},
	{"EPIPE", EPIPE},
	{"ENOSYS", ENOSYS},
	{"EMFILE", EMFILE},
	{"ETIMEDOUT", ETIMEDOUT},
	{"ECONNREFUSED", ECONNREFUSED},
	{"ECONNRESET", ECONNRESET},
	{"EHOSTUNREACH", EHOSTUNREACH},
	{NULL, 0},
};

/* Completion statuses of the verbs API, without their common prefix IBV_WC_. */
static const struct named_number status_names[] = {
	{"LOC_LEN_ERR", 1},
	{"LOC_QP_OP_ERR", 2},
	{"LOC_PROT_ERR", 4},
	{"WR_FLUSH_ERR", 5},
	{"MW_BIND_ERR", 6},
	{"BAD_RESP_ERR", 7},
	{"LOC_ACCESS_ERR", 8},
	{"REM_INV_REQ_ERR", 9},
	{"REM_ACCESS_ERR", 10},
	{"REM_OP_ERR", 11},
	{"RETRY_EXC_ERR", 12},
	{"RNR_RETRY_EXC_ERR", 13},
	{"REM_ABORT_ERR", 16},
	{"FATAL_ERR", 19},
	{"RESP_TIMEOUT_ERR", 20},
	{"GENERAL_ERR", 21},
	{NULL, 0},
};

static const struct named_number time_units[] = {
	{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}, {NULL, 0},
};

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

/* Edit distance, of names short enough for one row. */
static uint32_t fault_distance(const char *a, size_t na, const char *b)
{
	uint32_t row[64];
	size_t nb = strlen(b);

	if (nb >= ARRAY_LEN(row))
		return UINT32_MAX;
	for (size_t j = 0; j <= nb; j++)
		row[j] = (uint32_t)j;
	for (size_t i = 1; i <= na; i++) {
		uint32_t diagonal = row[0];

		row[0] = (uint32_t)i;
		for (size_t j = 1; j <= nb; j++) {
			uint32_t up = row[j], cost = diagonal + (a[i - 1] != b[j - 1]);

			cost = MIN_OF(cost, up + 1);
			row[j] = MIN_OF(cost, row[j - 1] + 1);
			diagonal = up;
		}
	}
	return row[nb];
}

struct nearest {
	const char *name;
	uint32_t distance;
};

static void nearest_try(struct nearest *best, struct token t, const char *name)
{
	uint32_t d = fault_distance(t.at, t.n, name);

	if (!best->name || d < best->distance)
		*best = (struct nearest){name, d};
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

static const struct named_number *named_find(const struct named_number *table, struct token t)
{
	for (; table->name; table++)
		if (token_is(t, table->name))
			return table;
	return NULL;
}

static int value_time(const struct cursor *c, struct token t, uint64_t *ns)
{
	struct token rest;
	const struct named_number *unit;

	if (!token_number(t, ns, &rest) || !(unit = named_find(time_units, rest)) ||
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
		return fault_error(c, t.at, "\"%.*s\" is no number", (int)t.n, t.at);
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

static int value_named(const struct cursor *c, struct token t, const char *param, uint64_t *v)
{
	const struct named_number *table = strcmp(param, "errno") ? status_names : errno_names;
	const struct named_number *found = named_find(table, t);
	struct nearest best = {NULL, 0};
	struct token rest;

	if (found) {
		*v = found->value;
		return 0;
	}
	if (token_number(t, v, &rest) && !rest.n)
		return 0;
	for (; table->name; table++)
		nearest_try(&best, t, table->name);
	return fault_error(c, t.at, "unknown %s \"%.*s\"; nearest: %s", param, (int)t.n, t.at,
			   best.name);
}

/* ---- one line ------------------------------------------------------------------------------- */

const struct fault_site *fault_site_find(const char *name, size_t n)
{
	for (const struct fault_site *s = fault_sites; s->name; s++)
		if (token_is((struct token){name, n}, s->name))
			return s;
	return NULL;
}

static int parse_site(const struct cursor *c, struct token t, struct fault *f)
{
	struct nearest best = {NULL, 0};

	f->site = fault_site_find(t.at, t.n);
	if (f->site)
		return 0;
	for (const struct fault_site *s = fault_sites; s->name; s++)
		nearest_try(&best, t, s->name);
	return fault_error(c, t.at, "unknown fault site \"%.*s\"; nearest: %s", (int)t.n, t.at,
			   best.name);
}

static int parse_key(const struct cursor *c, struct token key, struct token value, struct fault *f)
{
	struct nearest best = {NULL, 0};
	uint64_t v = 0;
	int k, rc;

	for (k = 0; k < FAULT_KEYS; k++)
		if (token_is(key, fault_key_name[k]))
			break;
	if (k == FAULT_KEYS) {
		for (k = 0; k < FAULT_KEYS; k++)
			nearest_try(&best, key, fault_key_name[k]);
		return fault_error(c, key.at, "unknown key \"%.*s\"; nearest: %s", (int)key.n,
				   key.at, best.name);
	}
	if (f->given & 1u << k)
		return fault_error(c, key.at, "key \"%s\" is given twice", fault_key_name[k]);
	if (k == FAULT_PROB)
		rc = value_ratio(c, value, f);
	else if (k == FAULT_AFTER)
		rc = value_time(c, value, &v);
	else
		rc = value_number(c, value, &v);
	if (!rc && (k == FAULT_NTH || k == FAULT_COUNT) && !v)
		rc = fault_error(c, value.at, "%s counts from 1", fault_key_name[k]);
	f->given |= 1u << k;
	f->key[k] = (int64_t)v;
	return rc;
}

static int parse_action(const struct cursor *c, struct token t, struct fault *f)
{
	struct nearest best = {NULL, 0};

	for (int i = 0; i < FAULT_ACTIONS_MAX && f->site->action[i].name; i++) {
		if (token_is(t, f->site->action[i].name)) {
			f->action = &f->site->action[i];
			f->arg = f->action->usual;
			return 0;
		}
		nearest_try(&best, t, f->site->action[i].name);
	}
	return fault_error(c, t.at, "%s cannot \"%.*s\"; nearest: %s", f->site->name, (int)t.n,
			   t.at, best.name);
}

static int parse_param(const struct cursor *c, struct token t, struct fault *f)
{
	const char *param = f->action->param;
	struct token key, value;

	if (!param)
		return fault_error(c, t.at, "\"%s\" takes no parameter", f->action->name);
	if (!token_split(t, &key, &value) || !token_is(key, param))
		return fault_error(c, t.at,
				   "unknown parameter \"%.*s\" of %s; expected: %s=", (int)t.n,
				   t.at, f->action->name, param);
	if (strcmp(param, "errno") == 0 || strcmp(param, "status") == 0)
		return value_named(c, value, param, &f->arg);
	return value_time(c, value, &f->arg);
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
		else
			rc = parse_action(c, t, f);
	}
	if (!rc && !f->action)
		rc = fault_error(c, c->at, "%s: what shall it do? expected: %s", f->site->name,
				 f->site->action[0].name);
	size_t n = (size_t)(c->at - c->begin);
	snprintf(f->text, sizeof f->text, "%.*s", (int)n, c->begin);
	return rc;
}

int fault_plan_parse(const char *text, const char *plan, struct fault **fault, uint32_t *n)
{
	struct cursor c = {.plan = plan, .begin = text, .at = text, .line = 1};

	for (;; c.line++) {
		struct cursor look = c;

		if (fault_next(&look).n) {
			struct fault *more = realloc(*fault, (*n + 1) * sizeof **fault);

			if (!more)
				return ENOMEM;
			*fault = more;
			more[*n] = (struct fault){.line = c.line};
			int rc = parse_line(&c, &more[*n]);
			if (rc)
				return rc;
			++*n;
		}
		const char *end = strchr(c.begin, '\n');
		if (!end)
			return 0;
		c.begin = c.at = end + 1;
	}
}
