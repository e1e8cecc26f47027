/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a host gives its processes: name, boot id, files. And what the world keeps for all of them:
 * the memo.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "sim/world/world_internal.h"

/* ---- identity and files ------------------------------------------------------------------------
 */

static uint32_t host_self(void)
{
	return world_self()->proc->host;
}

void world_host_name(char *out, size_t bytes)
{
	snprintf(out, bytes, "host%u", host_self());
}

/* Shaped like a random UUID; the host's index is all it depends on. */
static void host_boot_id(uint32_t host, char *out, size_t bytes)
{
	uint64_t h = hash64_combine(0xb007, host);
	snprintf(out, bytes, "%08x-%04x-4%03x-8%03x-%012llx", (uint32_t)(h >> 32),
		 (uint32_t)(h >> 16) & 0xffff, (uint32_t)h & 0xfff, (uint32_t)(h >> 52) & 0xfff,
		 (unsigned long long)host);
}

void world_boot_id(char *out, size_t bytes)
{
	host_boot_id(host_self(), out, bytes);
}

int32_t world_cpu(void)
{
	return -1;
}

/* The host's files. `text` is room for the short ones. */
static const char *host_file(uint32_t host, const char *path, char text[128], size_t *bytes)
{
	const struct world_machine *m = world->host[host].machine;
	if (strcmp(path, WORLD_TOPO_PATH) == 0) {
		*bytes = m->xml_bytes;
		return m->xml;
	}
	for (int i = 0; i < WORLD_FILES; i++)
		if (world->file[i].path && strcmp(path, world->file[i].path) == 0) {
			*bytes = world->file[i].bytes;
			return world->file[i].data;
		}
	if (strcmp(path, "/proc/sys/kernel/random/boot_id") == 0) {
		host_boot_id(host, text, 120);
		strcat(text, "\n");
	} else if (strcmp(path, "/proc/sys/kernel/hostname") == 0) {
		snprintf(text, 128, "host%u\n", host);
	} else {
		return NULL;
	}
	*bytes = strlen(text);
	return text;
}

static int host_fault(void)
{
	struct os_fault f;
	if (!os_fault("os.file", NULL, &f) || f.kind != OS_FAULT_FAIL)
		return 0;
	return f.arg ? (int)f.arg : EIO;
}

int world_file_read(const char *path, char **data, size_t *bytes)
{
	world_point("os_file_read");
	char text[128];
	size_t n = 0;
	const char *contents = host_file(host_self(), path, text, &n);
	int rc = contents ? host_fault() : ENOENT;
	if (rc)
		return rc;
	char *out = world_alloc(n + 1, "file contents");
	if (!out)
		return ENOMEM;
	memcpy(out, contents, n);
	*data = out;
	*bytes = n;
	return 0;
}

int world_file_write(const char *path, const char *data, size_t bytes)
{
	world_point("os_file_write");
	int rc = host_fault();
	return rc ? rc : os_real_ops.file_write(path, data, bytes);
}

void world_log_line(const char *line)
{
	/* one call, so that lines of several threads do not mix */
	fprintf(stderr, "%s\n", line);
}

/* ---- memo ----------------------------------------------------------------------------------- */

const void *world_memo(const char *kind, const void *key, size_t key_bytes,
		       void *(*make)(const void *, size_t, void *), void *arg)
{
	world_lock(&world->lock);
	const void *found = memo_table_find(&world->memo, kind, key, key_bytes);
	world_unlock(&world->lock);
	if (found)
		return found;
	void *made = make(key, key_bytes, arg);
	if (!made)
		return NULL;
	world_lock(&world->lock);
	found = memo_table_insert(&world->memo, kind, key, key_bytes, made);
	world_unlock(&world->lock);
	return found;
}
