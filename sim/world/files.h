/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A tree of directories, files and links in memory, as a kernel's /sys is: what a world's host
 * shows its processes (sys.c makes it), and what tests of the readers make by hand. Made once, then
 * only read, by any number of tasks. Paths are absolute and are walked as a kernel walks them: ".."
 * after a link is the target's parent, and more than 40 links are ELOOP.
 *
 * Memory is malloc's. While a tree is made, a lack of memory is kept in it: files_ok at the end.
 */
#ifndef SIM_WORLD_FILES_H
#define SIM_WORLD_FILES_H

#include <stdbool.h>
#include <stddef.h>

struct files;

struct files *files_new(void); /* NULL: no memory */
void files_free(struct files *f);
bool files_ok(const struct files *f);

/* Make a directory, a file with that text, a link in DIR; and the directories above. What is there
 * already stays as it is. What has a path that is too long, or a file in its way, is left out. */
void files_dir(struct files *f, const char *path);
void files_add(struct files *f, const char *path, const char *text);
void files_link(struct files *f, const char *dir, const char *name, const char *target);
/* The file NAME in DIR, with formatted text of up to 255 characters. */
void files_put(struct files *f, const char *dir, const char *name, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* 0, or ENOENT, ENOTDIR, ELOOP, ENAMETOOLONG, as os_real_path. `out` has OS_PATH_BYTES. */
int files_real_path(const struct files *f, const char *path, char *out);
/* The text of a file: 0, or ENOENT, EIO, as os_file_read. */
int files_text(const struct files *f, const char *path, const char **text);
/* The names in a directory, sorted, each with its NUL, for the caller to free: as os_dir_list. */
int files_names(const struct files *f, const char *path, char **names, size_t *bytes, int *count);

#endif
