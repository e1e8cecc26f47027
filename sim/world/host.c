/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Identity of a host (name, boot id) and its files. Also the memo, which all processes share.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/hash.h"
#include "core/os/os_real.h"
#include "sim/world/machine/files.h"
#include "sim/world/world_internal.h"

/* ---- identity and files ---------------------------------------------------------------------- */

static uint32_t host_self(void)
{
	return world_self()->proc->host;
}

void world_host_name(char *out, size_t bytes)
{
	snprintf(out, bytes, "host%u", host_self());
}

/* Writes a UUID that looks random. It depends only on the host's index. */
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

/* Returns the contents of one of the host's own files; NULL: not one of them. Short contents are
 * written into `text`. */
static const char *host_file(uint32_t host, const char *path, char text[128], size_t *bytes)
{
	const struct world_machine *m = world->host[host].machine;
	if (strcmp(path, WORLD_TOPO_PATH) == 0) {
		*bytes = m->xml_bytes;
		return m->xml;
	}
	const struct world_file *named = world_files_find(path);
	if (named && named->data) {
		*bytes = named->bytes;
		return named->data;
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

/* Returns the /sys and /proc of the host's machine. NULL: no memory. */
static const struct files *host_sys(uint32_t host)
{
	uint32_t i = 0;
	while (world->machine[i] != world->host[host].machine)
		i++;
	world_lock(&world->lock);
	if (!world->sys[i])
		world->sys[i] = world_sys_make(world->machine[i]);
	const struct files *f = world->sys[i];
	world_unlock(&world->lock);
	return f;
}

/* True if the path is read from the real machine: real GPUs are in the real machine's /sys. */
static bool host_is_real(const char *path)
{
#ifdef DOPPEL_FAKECUDA
	(void)path;
	return false;
#else
	return strncmp(path, "/sys/", 5) == 0 || strcmp(path, "/proc/cpuinfo") == 0 ||
	       strncmp(path, "/var/run/nvidia-topologyd/", 26) == 0;
#endif
}

static int host_fault(void)
{
	struct os_fault f;
	if (!os_fault("os.file", NULL, &f) || f.kind != OS_FAULT_FAIL)
		return 0;
	return f.arg ? (int)f.arg : EIO;
}

/* Finds a file among the host's own files first, then among those of its machine. */
static int host_contents(const char *path, char text[128], const char **contents, size_t *bytes)
{
	*contents = host_file(host_self(), path, text, bytes);
	if (*contents)
		return 0;
	const struct files *sys = host_sys(host_self());
	int rc = sys ? files_text(sys, path, contents) : ENOMEM;
	if (!rc)
		*bytes = strlen(*contents);
	return rc;
}

int world_file_read(const char *path, char **data, size_t *bytes)
{
	world_point("os_file_read");
	char text[128];
	size_t n = 0;
	const char *contents = NULL;
	if (host_is_real(path))
		return os_real_ops.file_read(path, data, bytes);
	int rc = host_contents(path, text, &contents, &n);
	if (!rc)
		rc = host_fault();
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

int world_dir_list(const char *path, char **names, int *count)
{
	world_point("os_dir_list");
	if (host_is_real(path))
		return os_real_ops.dir_list(path, names, count);
	const struct files *sys = host_sys(host_self());
	char *found = NULL, *out = NULL;
	size_t bytes = 0;
	int n = 0, rc = sys ? files_names(sys, path, &found, &bytes, &n) : ENOMEM;
	if (!rc && bytes > OS_DIR_BYTES)
		rc = EFBIG;
	if (!rc)
		rc = host_fault();
	if (!rc && !(out = world_alloc(bytes + 1, "names in a directory")))
		rc = ENOMEM;
	if (!rc) {
		memcpy(out, found, bytes);
		*names = out;
		*count = n;
	}
	free(found);
	return rc;
}

int world_real_path(const char *path, char *out)
{
	world_point("os_real_path");
	if (host_is_real(path))
		return os_real_ops.real_path(path, out);
	const struct files *sys = host_sys(host_self());
	char found[OS_PATH_BYTES];
	int rc = sys ? files_real_path(sys, path, found) : ENOMEM;
	if (!rc)
		rc = host_fault();
	if (!rc)
		memcpy(out, found, strlen(found) + 1);
	return rc;
}

/* Opens the calling process' NCCL_DEBUG_FILE; -1: it has none. The first line of a process
 * truncates the file. */
static int host_log_open(struct world_proc *wp)
{
	const char *pattern = world_env_get("NCCL_DEBUG_FILE");
	char path[OS_PATH_BYTES] = "", host[64];
	int begun = wp->log_begun ? O_APPEND : O_TRUNC, fd;

	if (!pattern || !*pattern)
		return -1;
	snprintf(host, sizeof host, "host%u", wp->proc->host);
	real_log_name(pattern, host, (int)wp->proc->pid, path, sizeof path);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | begun, 0644);
	if (fd < 0 && !wp->log_begun)
		fprintf(stderr, "NCCL_DEBUG_FILE %s: %s; logging to stderr\n", path,
			strerror(errno));
	wp->log_begun = true;
	return fd;
}

void world_log_line(const char *line)
{
	int fd = host_log_open(world_self());

	/* one call per line: lines of several threads do not mix */
	if (fd < 0) {
		fprintf(stderr, "%s\n", line);
	} else {
		(void)dprintf(fd, "%s\n", line);
		(void)close(fd);
	}
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
