/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A tree of directories, files and links in memory. sys.c builds one for each machine: the /sys
 * that the world shows to a host's processes. Tests of the readers of /sys build trees by hand.
 *
 * One task builds a tree. Any number of tasks may read it afterwards. Paths are absolute. They
 * resolve as in a kernel: ".." after a link is the parent of the link's target; more than 40 links
 * are ELOOP.
 *
 * All memory is malloc's. The builders record a failed allocation in the tree: check files_ok at
 * the end.
 */
#ifndef SIM_WORLD_FILES_H
#define SIM_WORLD_FILES_H

#include <stdbool.h>
#include <stddef.h>

struct files;

struct files *files_new(void); /* NULL: out of memory */
void files_free(struct files *f);
bool files_ok(const struct files *f);

/* Create a directory, a file with that text, or a link in DIR, and the directories above it. An
 * existing file or link stays unchanged. A path that is too long, or that leads through a file, is
 * ignored. */
void files_dir(struct files *f, const char *path);
void files_add(struct files *f, const char *path, const char *text);
void files_link(struct files *f, const char *dir, const char *name, const char *target);
/* Creates the file NAME in DIR with formatted text of up to 255 characters. */
void files_put(struct files *f, const char *dir, const char *name, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* Resolves `path` as os_real_path does. `out` has OS_PATH_BYTES. Returns 0, ENOENT, ENOTDIR, ELOOP
 * or ENAMETOOLONG. */
int files_real_path(const struct files *f, const char *path, char *out);
/* Stores a pointer to the file's text, which the tree owns. Returns 0, ENOENT or EIO, as
 * os_file_read does. */
int files_text(const struct files *f, const char *path, const char **text);
/* Lists a directory as os_dir_list does: sorted names, each with its NUL. The caller frees
 * *names. */
int files_names(const struct files *f, const char *path, char **names, size_t *bytes, int *count);

#endif
