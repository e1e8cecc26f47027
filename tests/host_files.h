/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A host whose files are a tree in memory, for tests of what reads /sys: os.h's files, directories
 * and paths are those of `host`, everything else is the real process's.
 */
#ifndef TESTS_HOST_FILES_H
#define TESTS_HOST_FILES_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/os/os.h"
#include "core/os/os_ops.h"
#include "sim/world/machine/files.h"

static struct files *host;
static int host_failing; /* that read from now on has no memory; 0: none */

static inline int host_memory(void)
{
	return host_failing && --host_failing == 0 ? ENOMEM : 0;
}

static inline int host_read(const char *path, char **data, size_t *bytes)
{
	const char *text;
	int rc = host_memory();
	if (!rc)
		rc = files_text(host, path, &text);
	if (rc)
		return rc;
	*bytes = strlen(text);
	*data = os_alloc(*bytes + 1, "file contents");
	memcpy(*data, text, *bytes);
	return 0;
}

static inline int host_list(const char *path, char **names, int *count)
{
	char *found;
	size_t bytes;
	int rc = files_names(host, path, &found, &bytes, count);
	if (rc)
		return rc;
	*names = os_alloc(bytes + 1, "names in a directory");
	memcpy(*names, found, bytes);
	free(found);
	return 0;
}

static inline int host_path(const char *path, char *out)
{
	int rc = host_memory();
	return rc ? rc : files_real_path(host, path, out);
}

static inline void host_open(void)
{
	static struct os_world_ops ops;
	ops = os_real_ops;
	ops.file_read = host_read;
	ops.dir_list = host_list;
	ops.real_path = host_path;
	os_install(NULL, &ops);
	host = files_new();
	host_failing = 0;
}

static inline void host_close(void)
{
	files_free(host);
	os_install(NULL, &os_real_ops);
}

#endif
