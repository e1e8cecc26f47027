/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/plugin/plugin.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/base/macros.h"
#include "core/os/os.h"

static const char *const plugin_kinds[] = {
	[PLUGIN_NET] = "net",
	[PLUGIN_TUNER] = "tuner",
	[PLUGIN_PROFILER] = "profiler",
};

bool plugin_is_none(const char *setting)
{
	return setting && !strcasecmp(setting, "none");
}

const char *plugin_element(const char *list, char out[PLUGIN_SETTING])
{
	size_t n;

	list += strspn(list, ", ");
	n = strcspn(list, ",");
	snprintf(out, PLUGIN_SETTING, "%.*s", (int)MIN_OF(n, (size_t)PLUGIN_SETTING - 1), list);
	return n ? list + n : NULL;
}

/* True for the name of a file: a path, or libx.so. */
static bool plugin_is_file(const char *setting)
{
	size_t n = strlen(setting);

	return strchr(setting, '/') ||
	       (n > 6 && !strncmp(setting, "lib", 3) && !strcmp(setting + n - 3, ".so"));
}

ncclResult_t plugin_open(enum plugin_kind kind, const char *setting, struct plugin_library *l,
			 char *why, size_t bytes)
{
	const char *name = plugin_kinds[kind];
	bool named = setting && setting[0];
	int e;

	if (named)
		snprintf(l->file, sizeof l->file, "%s", setting);
	else
		snprintf(l->file, sizeof l->file, "libnccl-%s.so", name);
	e = os_library_open(named && !strcasecmp(setting, "STATIC_PLUGIN") ? NULL : l->file,
			    &l->library, why, bytes);
	if (e && named && !plugin_is_file(setting)) {
		snprintf(l->file, sizeof l->file, "libnccl-%s-%s.so", name, setting);
		e = os_library_open(l->file, &l->library, why, bytes);
	}
	if (e)
		l->library = NULL;
	return e ? ncclSystemError : ncclSuccess;
}

void plugin_close(struct plugin_library *l)
{
	os_library_close(l->library);
	l->library = NULL;
}

const void *plugin_table(const struct plugin_library *l, const char *prefix, int newest, int oldest,
			 int *version)
{
	char symbol[64];

	for (*version = newest; *version >= oldest; --*version) {
		const void *table;

		snprintf(symbol, sizeof symbol, "%s%d", prefix, *version);
		table = os_library_symbol(l->library, symbol);
		if (table)
			return table;
	}
	*version = 0;
	return NULL;
}

const char *plugin_missing(const struct plugin_function *needed, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!needed[i].function)
			return needed[i].name;
	return NULL;
}

const char *plugin_result(ncclResult_t rc)
{
	static const char *const names[] = {
		[ncclSuccess] = "ncclSuccess",
		[ncclUnhandledCudaError] = "ncclUnhandledCudaError",
		[ncclSystemError] = "ncclSystemError",
		[ncclInternalError] = "ncclInternalError",
		[ncclInvalidArgument] = "ncclInvalidArgument",
		[ncclInvalidUsage] = "ncclInvalidUsage",
		[ncclRemoteError] = "ncclRemoteError",
		[ncclInProgress] = "ncclInProgress",
	};

	return (size_t)rc < ARRAY_LEN(names) ? names[rc] : "a number that is not a result";
}
