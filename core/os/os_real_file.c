/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files and directories of the real world. System-call errors that os.h does not name become EIO.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/macros.h"
#include "core/os/os_real.h"

#define REAL_FILE_MAX (16u << 20)

/* Reads from fd until its end, into malloc memory with a NUL after its end. The buffer grows,
 * because /proc and /sys files report no size. */
static int real_read_all(int fd, char **data, size_t *bytes)
{
	size_t capacity = 16384, got = 0;
	char *buffer = malloc(capacity + 1);
	int rc = buffer ? 0 : ENOMEM;
	while (rc == 0) {
		ssize_t n = read(fd, buffer + got, capacity - got);
		if (n == 0)
			break;
		if (n < 0 && errno != EINTR)
			rc = errno == EACCES || errno == EISDIR ? errno : EIO;
		got += n > 0 ? (size_t)n : 0;
		if (got > REAL_FILE_MAX)
			rc = EFBIG;
		if (rc == 0 && got == capacity) {
			char *more = realloc(buffer, (capacity *= 2) + 1);
			rc = more ? 0 : ENOMEM;
			buffer = more ? more : buffer;
		}
	}
	if (rc) {
		free(buffer);
		return rc;
	}
	buffer[got] = '\0';
	*data = buffer;
	*bytes = got;
	return 0;
}

int real_file_take(const char *path, char **data, size_t *bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR ? ENOENT
		       : errno == EACCES                   ? EACCES
							   : EIO;
	int rc = real_read_all(fd, data, bytes);
	close(fd);
	return rc;
}

int real_file_read(const char *path, char **data, size_t *bytes)
{
	char *taken;
	int rc = real_file_take(path, &taken, bytes);
	if (rc)
		return rc;
	*data = os_alloc(*bytes + 1, "file contents");
	if (*data)
		memcpy(*data, taken, *bytes);
	free(taken);
	return *data ? 0 : ENOMEM;
}

static int real_path_error(int e)
{
	switch (e) {
	case ENOENT:
	case ENOTDIR:
	case ELOOP:
	case EACCES:
	case ENOMEM:
	case ENAMETOOLONG:
		return e;
	default:
		return EIO;
	}
}

/* ---- writing -------------------------------------------------------------------------------- */

static int real_write_error(int e)
{
	switch (e) {
	case ENOENT:
	case ENOTDIR:
		return ENOENT;
	case EDQUOT:
		return ENOSPC;
	case ENOSPC:
	case EACCES:
		return e;
	default:
		return EIO;
	}
}

int real_file_write(const char *path, const char *data, size_t bytes)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644), rc = 0;
	if (fd < 0)
		return real_write_error(errno);
	for (size_t done = 0; done < bytes && !rc;) {
		ssize_t n = write(fd, data + done, bytes - done);
		if (n < 0 && errno != EINTR)
			rc = real_write_error(errno);
		done += n > 0 ? (size_t)n : 0;
	}
	if (close(fd) && !rc)
		rc = real_write_error(errno);
	return rc;
}

/* ---- directories ---------------------------------------------------------------------------- */

struct real_names {
	char *text; /* names, each with its NUL; malloc memory */
	size_t bytes, room;
	int count;
};

static int real_names_add(struct real_names *n, const char *name)
{
	size_t bytes = strlen(name) + 1;
	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return 0;
	if (n->bytes + bytes > OS_DIR_BYTES)
		return EFBIG;
	if (n->bytes + bytes > n->room) {
		size_t room = MAX_OF(n->room * 2, n->bytes + bytes + 1024);
		char *text = realloc(n->text, room);
		if (!text)
			return ENOMEM;
		n->text = text;
		n->room = room;
	}
	memcpy(n->text + n->bytes, name, bytes);
	n->bytes += bytes;
	n->count++;
	return 0;
}

static int real_name_compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Copies the names, sorted, into memory of os_alloc. */
static int real_names_give(const struct real_names *n, char **names)
{
	const char **at = malloc((size_t)n->count * sizeof *at + 1);
	char *out = at ? os_alloc(n->bytes + 1, "names in a directory") : NULL;
	const char *from = n->text;
	size_t bytes = 0;
	if (!out) {
		free(at);
		return ENOMEM;
	}
	for (int i = 0; i < n->count; i++, from += strlen(from) + 1)
		at[i] = from;
	qsort(at, (size_t)n->count, sizeof *at, real_name_compare);
	for (int i = 0; i < n->count; i++) {
		size_t k = strlen(at[i]) + 1;
		memcpy(out + bytes, at[i], k);
		bytes += k;
	}
	free(at);
	*names = out;
	return 0;
}

int real_dir_list(const char *path, char **names, int *count)
{
	struct real_names n = {0};
	DIR *d = opendir(path);
	const struct dirent *e;
	int rc = 0;
	if (!d)
		return real_path_error(errno);
	errno = 0;
	while (!rc && (e = readdir(d)))
		rc = real_names_add(&n, e->d_name);
	if (!rc && errno)
		rc = EIO;
	closedir(d);
	if (!rc)
		rc = real_names_give(&n, names);
	if (!rc)
		*count = n.count;
	free(n.text);
	return rc;
}

int real_real_path(const char *path, char *out)
{
	char *found = realpath(path, NULL);
	if (!found)
		return real_path_error(errno);
	size_t bytes = strlen(found) + 1;
	if (bytes <= OS_PATH_BYTES)
		memcpy(out, found, bytes);
	free(found);
	return bytes <= OS_PATH_BYTES ? 0 : ENAMETOOLONG;
}
