/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The program's access to parameters. The keys are the names of the variables in the stack's table
 * and, in builds with doubles, in the doubles' table (core/base/param.h). Values never change in
 * the life of a process, so pointers to them stay valid.
 *
 * Types: an INT or BYTES is an int64_t, a BOOL is a bool, a STRING is a const char *. A value is
 * read as this type only, as in NCCL. ncclParamGet and ncclParamGetParameter read all types.
 */
#include <stdio.h>
#include <string.h>

#include "core/api/api.h"
#include "core/base/log.h"
#include "core/base/memo_table.h"
#include "core/base/param_row.h"
#include "core/os/os.h"

/* ---- handles --------------------------------------------------------------------------------- */

/* A handle is the number of the variable plus 1, so NULL is not one. */
static ncclParamHandle_t params_handle(int p)
{
	return (ncclParamHandle_t)(uintptr_t)(p + 1);
}

/* Returns the variable of a handle; -1, with a WARN: the handle is invalid. */
static int params_of_handle(ncclParamHandle_t h, const char *call)
{
	const uintptr_t number = (uintptr_t)h;

	if (number > 0 && number <= (uintptr_t)param_count())
		return (int)number - 1;
	WARN("%s: h is %p, expected a handle that ncclParamBind returned", call, (void *)h);
	return -1;
}

/* Returns the variable of a key; -1, with a WARN: it is no key. */
static int params_of_key(const char *key, const char *call)
{
	int p = key ? param_find(key, strlen(key)) : -1;

	if (!key)
		WARN("%s: key is NULL", call);
	else if (p < 0)
		WARN("%s: key is '%.100s', which this version does not have; nearest: %s", call,
		     key, param_nearest(key, strlen(key)));
	return p;
}

static ncclResult_t params_null(const char *call, const char *argument)
{
	WARN("%s: %s is NULL", call, argument);
	return api_return(ncclInvalidArgument);
}

API_TWIN(ncclParamBind);
API_WEAK ncclResult_t ncclParamBind(ncclParamHandle_t *out, const char *key)
{
	if (!out)
		return params_null("ncclParamBind", "out");
	*out = NULL;
	int p = params_of_key(key, "ncclParamBind");
	if (p < 0)
		return api_return(ncclInvalidArgument);
	*out = params_handle(p);
	return ncclSuccess;
}

/* ---- typed access ---------------------------------------------------------------------------- */

static bool params_is_integer(int p)
{
	return param_type_of(p) == PARAM_INT || param_type_of(p) == PARAM_BYTES;
}

/* Returns the function that reads the type of the variable. */
static const char *params_reader(int p)
{
	return params_is_integer(p)               ? "ncclParamGetI64"
	       : param_type_of(p) == PARAM_STRING ? "ncclParamGetStr"
						  : "ncclParamGet";
}

static ncclResult_t params_mismatch(int p, const char *call)
{
	WARN("%s: %s is of type %s, expected %s or ncclParamGetParameter", call, param_name(p),
	     param_type_name(p), params_reader(p));
	return api_return(ncclInvalidArgument);
}

/* Reads an integer. `same`: the caller's type is that of the integers, int64_t. */
static ncclResult_t params_integer(ncclParamHandle_t h, const char *call, bool same, int64_t *value)
{
	int p = params_of_handle(h, call);

	if (p < 0)
		return api_return(ncclInvalidArgument);
	if (!same || !params_is_integer(p))
		return params_mismatch(p, call);
	*value = param_i64(p);
	return ncclSuccess;
}

#define PARAMS_GETTER(suffix, type, same)                                                          \
	API_TWIN(ncclParamGet##suffix);                                                            \
	API_WEAK ncclResult_t ncclParamGet##suffix(ncclParamHandle_t h, __typeof__(type) *out)     \
	{                                                                                          \
		int64_t value = 0;                                                                 \
		ncclResult_t rc;                                                                   \
		if (!out)                                                                          \
			return params_null("ncclParamGet" #suffix, "out");                         \
		rc = params_integer(h, "ncclParamGet" #suffix, same, &value);                      \
		*out = (type)value;                                                                \
		return rc;                                                                         \
	}
PARAMS_GETTER(I8, int8_t, false)
PARAMS_GETTER(I16, int16_t, false)
PARAMS_GETTER(I32, int32_t, false)
PARAMS_GETTER(I64, int64_t, true)
PARAMS_GETTER(U8, uint8_t, false)
PARAMS_GETTER(U16, uint16_t, false)
PARAMS_GETTER(U32, uint32_t, false)
PARAMS_GETTER(U64, uint64_t, false)

static const char *params_string(int p)
{
	const char *text = param_str(p);

	return text ? text : "";
}

API_TWIN(ncclParamGetStr);
API_WEAK ncclResult_t ncclParamGetStr(ncclParamHandle_t h, const char **out)
{
	if (!out)
		return params_null("ncclParamGetStr", "out");
	*out = NULL;
	int p = params_of_handle(h, "ncclParamGetStr");
	if (p < 0)
		return api_return(ncclInvalidArgument);
	if (param_type_of(p) != PARAM_STRING)
		return params_mismatch(p, "ncclParamGetStr");
	*out = params_string(p);
	return ncclSuccess;
}

/* The bytes of a value. */
struct params_bytes {
	const void *at;
	size_t bytes;
	int64_t number;
	bool truth;
};

static void params_bytes_of(int p, struct params_bytes *b)
{
	if (param_type_of(p) == PARAM_STRING) {
		b->at = params_string(p);
		b->bytes = strlen(b->at) + 1;
	} else if (param_type_of(p) == PARAM_BOOL) {
		b->truth = param_bool(p);
		b->at = &b->truth;
		b->bytes = sizeof b->truth;
	} else {
		b->number = param_i64(p);
		b->at = &b->number;
		b->bytes = sizeof b->number;
	}
}

API_TWIN(ncclParamGet);
API_WEAK ncclResult_t ncclParamGet(ncclParamHandle_t h, void *out, int maxLen, int *len)
{
	struct params_bytes b;

	if (!out || !len)
		return params_null("ncclParamGet", out ? "len" : "out");
	*len = 0;
	int p = params_of_handle(h, "ncclParamGet");
	if (p < 0)
		return api_return(ncclInvalidArgument);
	params_bytes_of(p, &b);
	if (maxLen <= 0 || (size_t)maxLen < b.bytes) {
		WARN("ncclParamGet: maxLen is %d, expected %zu or more for %s", maxLen, b.bytes,
		     param_name(p));
		return api_return(ncclInvalidArgument);
	}
	memcpy(out, b.at, b.bytes);
	*len = (int)b.bytes;
	return ncclSuccess;
}

/* ---- access by key --------------------------------------------------------------------------- */

static void *params_number_make(const void *key, size_t key_bytes, void *arg)
{
	enum { BYTES = 24 };
	char *text = memo_value_alloc(BYTES);
	int64_t number;

	memcpy(&number, key, sizeof number);
	if (text)
		snprintf(text, BYTES, "%lld", (long long)number);
	return text;
}

/* Returns the value as text. NULL: no memory. */
static const char *params_text(int p)
{
	int64_t number;

	if (param_type_of(p) == PARAM_STRING)
		return params_string(p);
	if (param_type_of(p) == PARAM_BOOL)
		return param_bool(p) ? "TRUE" : "FALSE";
	number = param_i64(p);
	return os_memo("parameter's number", &number, sizeof number, params_number_make, NULL);
}

API_TWIN(ncclParamGetParameter);
API_WEAK ncclResult_t ncclParamGetParameter(const char *key, const char **value, int *valueLen)
{
	if (!value || !valueLen)
		return params_null("ncclParamGetParameter", value ? "valueLen" : "value");
	*value = NULL;
	*valueLen = 0;
	int p = params_of_key(key, "ncclParamGetParameter");
	if (p < 0)
		return api_return(ncclInvalidArgument);
	*value = params_text(p);
	if (!*value) {
		WARN("ncclParamGetParameter: no memory for the value of %s", param_name(p));
		return api_return(ncclSystemError);
	}
	*valueLen = (int)strlen(*value);
	return ncclSuccess;
}

/* ---- all parameters -------------------------------------------------------------------------- */

/* True if the variable is listed: NCCL's, or any with NCCL_PARAM_DUMP_ALL. */
static bool params_listed(int p, bool all)
{
	return all || strncmp(param_name(p), "NCCL_", 5) == 0;
}

static bool params_dump_all(void)
{
	return strchr("1tT", *param_str(PARAM_PARAM_DUMP_ALL)) != NULL;
}

static int params_listed_count(bool all)
{
	int n = 0;

	for (int p = 0; p < param_count(); p++)
		n += params_listed(p, all);
	return n;
}

static void *params_keys_make(const void *key, size_t key_bytes, void *arg)
{
	const bool all = *(const bool *)key;
	const char **keys = memo_value_alloc((size_t)param_count() * sizeof *keys);

	for (int p = 0, n = 0; keys && p < param_count(); p++)
		if (params_listed(p, all))
			keys[n++] = param_name(p);
	return keys;
}

API_TWIN(ncclParamGetAllParameterKeys);
API_WEAK ncclResult_t ncclParamGetAllParameterKeys(const char ***table, int *tableLen)
{
	const bool all = params_dump_all();
	const void *keys;

	if (!table || !tableLen)
		return params_null("ncclParamGetAllParameterKeys", table ? "tableLen" : "table");
	*table = NULL;
	*tableLen = 0;
	keys = os_memo("parameters' keys", &all, sizeof all, params_keys_make, NULL);
	if (!keys) {
		WARN("ncclParamGetAllParameterKeys: no memory for %d keys", param_count());
		return api_return(ncclSystemError);
	}
	*table = (const char **)(uintptr_t)keys; /* the interface's type is not const */
	*tableLen = params_listed_count(all);
	return ncclSuccess;
}

static void params_dump(int p)
{
	char line[1024], expected[PARAM_EXPECTED_BYTES], place[PARAM_PLACE_BYTES];
	const char *text = params_text(p), *initial = param_default_text(p);

	snprintf(line, sizeof line, "%s (%s) %s", param_name(p), param_type_name(p),
		 param_meaning(p));
	os_log_line(line);
	snprintf(line, sizeof line, "    Current value=%s set_by=%s default=%s",
		 text && *text ? text : "<unset>", param_set_by(p, place),
		 initial ? initial : "<unset>");
	os_log_line(line);
	param_expected(p, expected, sizeof expected);
	snprintf(line, sizeof line, "    Accepted value: %s", expected);
	os_log_line(line);
}

API_TWIN(ncclParamDumpAll);
API_WEAK void ncclParamDumpAll(void)
{
	const bool all = params_dump_all();

	for (int p = 0; p < param_count(); p++)
		if (params_listed(p, all))
			params_dump(p);
}
