/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The libraries of NCCL's plugins: which file a setting names, the newest table of functions in it,
 * the count of a plugin's users in the process, and the log function that plugins receive. Called
 * by core/profiler, net_plugin and core/tuner, each of which owns the library that it opened.
 *
 * A setting is an element of NCCL_NET_PLUGIN, or the value of NCCL_TUNER_PLUGIN or
 * NCCL_PROFILER_PLUGIN. KIND is net, tuner or profiler.
 *
 *	none            no plugin: the caller checks it with plugin_is_none
 *	STATIC_PLUGIN   the program itself and the libraries that it is linked with
 *	a/b.so          that file
 *	libx.so         that file, in the search path of the loader
 *	NAME            the file NAME if the loader finds it, else libnccl-KIND-NAME.so
 *	(empty)         libnccl-KIND.so
 *
 * Errors are returned with a reason, and are not logged: the caller knows what happens next.
 */
#ifndef CORE_PLUGIN_PLUGIN_H
#define CORE_PLUGIN_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>

#include "core/include/nccl.h"
#include "core/rank/registry.h"

#define PLUGIN_SETTING 256 /* bytes of a setting */

enum plugin_kind { PLUGIN_NET, PLUGIN_TUNER, PLUGIN_PROFILER };

struct plugin_library {
	void *library; /* NULL: not open */
	char file[PLUGIN_SETTING + 32];
};

/* True for "none", in any case. NULL is not. */
bool plugin_is_none(const char *setting);
/* Copies the next element of a list with commas, and returns the rest; NULL: the list has ended. */
const char *plugin_element(const char *list, char out[PLUGIN_SETTING]);
/* Opens the library of a setting; NULL is the empty one. Sets l->file also on failure, to the last
 * file that was tried. ncclSystemError: no file can be loaded; `why` receives the loader's reason
 * for the last one. */
ncclResult_t plugin_open(enum plugin_kind kind, const char *setting, struct plugin_library *l,
			 char *why, size_t bytes);
/* Closes the library; one that is not open is allowed. */
void plugin_close(struct plugin_library *l);
/* Returns the table of the newest version, newest..oldest, that the library has, and sets *version.
 * NULL: the library has none of them; *version is 0. The symbol is `prefix` with the number. */
const void *plugin_table(const struct plugin_library *l, const char *prefix, int newest, int oldest,
			 int *version);

/* A function of a table, and its name in NCCL's header. */
struct plugin_function {
	const void *function;
	const char *name;
};
/* Returns the name of the first function that a table lacks; NULL: it has all `n`. */
const char *plugin_missing(const struct plugin_function *needed, size_t n);

/* Header of a process' plugin that its communicators share: one for each kind and setting. Its user
 * embeds it as the first member. */
struct plugin_shared {
	struct registry_node node; /* must be first: node of the process' registry */
	int32_t refs;              /* under the registry's lock */
	char setting[PLUGIN_SETTING];
};

/* Returns the process' object of that kind and setting with one more reference. A new one has
 * `bytes` bytes, which are zero. NULL: no memory; nothing is logged. */
struct plugin_shared *plugin_shared_get(enum registry_kind kind, const char *setting, size_t bytes);
/* Adds a reference. */
void plugin_shared_hold(struct plugin_shared *p);
/* Removes a reference. Returns true if it was the last: no call returns the object from now on, and
 * the caller closes what it owns and frees it. */
bool plugin_shared_put(struct plugin_shared *p);

/* The log function of plugins. `level` is as in NCCL_DEBUG, `flags` are bits of enum log_subsys. */
void plugin_log(int level, unsigned long flags, const char *file, int line, const char *format, ...)
	__attribute__((format(printf, 5, 6)));
/* Returns "ncclSystemError" and so on, for a result that a plugin returned. */
const char *plugin_result(ncclResult_t rc);

#endif
