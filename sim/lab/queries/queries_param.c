/* SPDX-License-Identifier: BSD-3-Clause */
/* The program's access to parameters: all functions give one value, and write no other byte. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/lab/queries/queries.h"

#define QUERIES_FILL           0x5a
#define QUERIES_UNKNOWN_ONE_IN 8
#define QUERIES_BYTES          2048 /* of a value, and more */

struct queries_param {
	const char *key, *text;
	ncclParamHandle_t handle;
	uint8_t bytes[QUERIES_BYTES]; /* by ncclParamGet */
	int len;
};

/* One of the keys that the run's environment sets, as the list has it. NULL: the one that is drawn
 * is no key. */
static const char *queries_param_key_set(struct queries *q, const char *const *table, int n)
{
	const char *const *env = q->me->run->config->env;
	uint64_t count = 0;

	while (env && env[count])
		count++;
	if (!count)
		return NULL;
	const char *one = env[sim_rng_below(&q->rng, count)];

	for (int i = 0; i < n; i++)
		if (!strncmp(one, table[i], strlen(table[i])) && one[strlen(table[i])] == '=')
			return table[i];
	return NULL;
}

/* A key that is drawn from the list of all, in half of the cases one that the run sets. NULL:
 * reported. */
static const char *queries_param_key(struct queries *q)
{
	const char *key = NULL;
	const char **table = NULL;
	int n = -1;

	if (!queries_result(q, "ncclParamGetAllParameterKeys",
			    ncclParamGetAllParameterKeys(&table, &n), ncclSuccess))
		return NULL;
	if (table && n > 0 && sim_rng_below(&q->rng, 2))
		key = queries_param_key_set(q, table, n);
	if (table && n > 0)
		return key ? key : table[sim_rng_below(&q->rng, (uint64_t)n)];
	queries_wrong(q, "ncclParamGetAllParameterKeys", "has %d keys", n);
	return NULL;
}

/* The value of a variable of the run's environment; NULL: the run does not set it, or not for all
 * processes. */
static const char *queries_param_set(const struct lab_config *c, const char *key)
{
	const char *value = NULL;
	size_t n = strlen(key);

	for (const char *const *e = c->env; e && *e; e++)
		if (strncmp(*e, key, n) == 0 && (*e)[n] == '=')
			value = *e + n + 1;
	return c->env_odd && strncmp(c->env_odd, key, n) == 0 ? NULL : value;
}

/* ---- by type --------------------------------------------------------------------------------- */

static void queries_param_differs(struct queries *q, const struct queries_param *p,
				  const char *call)
{
	queries_wrong(q, call, "%s: gave another value than \"%.60s\"", p->key, p->text);
}

/* A number or a truth value that the run sets is the parameter's. */
static void queries_param_as_set(struct queries *q, const struct queries_param *p, int64_t value)
{
	const char *set = queries_param_set(q->me->run->config, p->key);
	char *end = NULL;
	int64_t want = set ? strtoll(set, &end, 10) : 0;

	if (set && end != set && !*end && value != want)
		queries_wrong(q, "ncclParamGet", "%s is %lld, set to \"%.60s\"", p->key,
			      (long long)value, set);
}

static void queries_param_integer(struct queries *q, const struct queries_param *p, int64_t value)
{
	char text[32];
	int64_t same;

	snprintf(text, sizeof text, "%lld", (long long)value);
	if (strcmp(text, p->text) != 0)
		queries_param_differs(q, p, "ncclParamGetI64");
	memcpy(&same, p->bytes, sizeof same);
	if (p->len != sizeof same || same != value)
		queries_param_differs(q, p, "ncclParamGet");
	queries_param_as_set(q, p, value);
}

static void queries_param_text(struct queries *q, const struct queries_param *p, const char *text)
{
	const char *set = queries_param_set(q->me->run->config, p->key);
	size_t n = strlen(p->text);

	if (!text || strcmp(text, p->text) != 0)
		queries_param_differs(q, p, "ncclParamGetStr");
	if ((size_t)p->len != n + 1 || memcmp(p->bytes, p->text, n + 1) != 0)
		queries_param_differs(q, p, "ncclParamGet");
	if (set && strcmp(set, p->text) != 0)
		queries_wrong(q, "ncclParamGetParameter", "%s is \"%.60s\", set to \"%.60s\"",
			      p->key, p->text, set);
}

static void queries_param_truth(struct queries *q, const struct queries_param *p)
{
	bool truth = p->bytes[0] != 0;

	if (p->len != 1 || p->bytes[0] > 1 || strcmp(p->text, truth ? "TRUE" : "FALSE") != 0)
		queries_param_differs(q, p, "ncclParamGet");
	queries_param_as_set(q, p, truth);
}

static void queries_param_typed(struct queries *q, const struct queries_param *p)
{
	const char *text = p->key;
	int64_t value = -7;
	int16_t narrow = -7;
	bool integer = ncclParamGetI64(p->handle, &value) == ncclSuccess;
	bool string = ncclParamGetStr(p->handle, &text) == ncclSuccess;

	if (integer)
		queries_param_integer(q, p, value);
	else if (string)
		queries_param_text(q, p, text);
	else
		queries_param_truth(q, p);
	if ((!integer && value) || (!string && text))
		queries_wrong(q, "a getter of another type", "%s: left its output as it was",
			      p->key);
	(void)queries_result(q, "ncclParamGetI16", ncclParamGetI16(p->handle, &narrow),
			     ncclInvalidArgument);
	if (narrow)
		queries_wrong(q, "ncclParamGetI16", "%s: left its output as it was", p->key);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static bool queries_param_read(struct queries *q, struct queries_param *p)
{
	int len = -7;

	if (!queries_result(q, "ncclParamGetParameter",
			    ncclParamGetParameter(p->key, &p->text, &len), ncclSuccess) ||
	    !queries_result(q, "ncclParamBind", ncclParamBind(&p->handle, p->key), ncclSuccess))
		return false;
	if (!p->text || len != (int)strlen(p->text)) {
		queries_wrong(q, "ncclParamGetParameter", "%s: has a length of %d", p->key, len);
		return false;
	}
	memset(p->bytes, QUERIES_FILL, sizeof p->bytes);
	if (!queries_result(q, "ncclParamGet",
			    ncclParamGet(p->handle, p->bytes, QUERIES_BYTES, &p->len), ncclSuccess))
		return false;
	for (int i = p->len; i >= 0 && i < QUERIES_BYTES; i++) {
		if (p->bytes[i] == QUERIES_FILL)
			continue;
		queries_wrong(q, "ncclParamGet", "%s: wrote byte %d of %d", p->key, i, p->len);
		return false;
	}
	return p->len > 0 && p->len <= QUERIES_BYTES;
}

/* Memory that is a byte too small stays as it was. */
static void queries_param_small(struct queries *q, const struct queries_param *p)
{
	uint8_t bytes[QUERIES_BYTES];
	int len = -7;

	ASSERT(p->len > 0 && p->len <= QUERIES_BYTES); /* queries_param_read */
	memset(bytes, QUERIES_FILL, sizeof bytes);
	(void)queries_result(q, "ncclParamGet into too little",
			     ncclParamGet(p->handle, bytes, p->len - 1, &len), ncclInvalidArgument);
	if (len || bytes[0] != QUERIES_FILL)
		queries_wrong(q, "ncclParamGet into too little", "%s: %d bytes", p->key, len);
	(void)queries_result(q, "ncclParamGet into just enough",
			     ncclParamGet(p->handle, bytes, p->len, &len), ncclSuccess);
	if (len != p->len || memcmp(bytes, p->bytes, (size_t)len) != 0)
		queries_param_differs(q, p, "ncclParamGet into just enough");
}

void queries_param(struct queries *q)
{
	struct queries_param p = {.key = queries_param_key(q)};

	if (!p.key || !queries_param_read(q, &p))
		return;
	queries_param_typed(q, &p);
	queries_param_small(q, &p);
}

/* ---- mistakes -------------------------------------------------------------------------------- */

void queries_param_refused(struct queries *q)
{
	/* the message about an unknown one has the nearest of all, which takes long to find */
	static const char *const keys[] = {"NCCL_", "", "nccl_debug", "NCCL_DEBUG "};
	bool unknown = sim_rng_below(&q->rng, QUERIES_UNKNOWN_ONE_IN) == 0;
	const char *key = unknown ? keys[sim_rng_below(&q->rng, ARRAY_LEN(keys))] : NULL;
	const char *text = "?";
	ncclParamHandle_t handle = (ncclParamHandle_t)(void *)q;
	int64_t value = -7;
	int len = -7;

	(void)queries_result(q, "ncclParamBind of no key", ncclParamBind(&handle, key),
			     ncclInvalidArgument);
	(void)queries_result(q, "ncclParamGetParameter of no key",
			     ncclParamGetParameter(key, &text, &len), ncclInvalidArgument);
	(void)queries_result(q, "ncclParamGetI64 of no handle", ncclParamGetI64(NULL, &value),
			     ncclInvalidArgument);
	if (handle || text || len || value)
		queries_wrong(q, "parameters", "a refused call left its outputs as they were");
	if (!*ncclGetLastError(NULL))
		queries_wrong(q, "ncclGetLastError", "has no line after a refused call");
}
