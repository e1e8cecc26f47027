/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Configuration files: the part of a process' environment that is read from files. The world half
 * that owns the process reads them once, before it creates base_state (os_real.c, sim/world).
 *
 *	1. the environment
 *	2. the user's file: NCCL_CONF_FILE, or ~/.nccl.conf if that is unset or empty
 *	3. the host's file: /etc/nccl.conf, or DOPPEL_ETC_CONF
 *
 * The first of them that has a variable decides; within a file, the first line. Every line is
 * NAME=VALUE, empty, or a comment that begins with #. VALUE is the rest of the line, including
 * spaces, quotes and #. A line of another form is kept as a bad line; all other lines count.
 *
 * A file that a variable names must be readable. The other two may be absent. conf_report_* log
 * each line once per process. Errors: ENOMEM.
 */
#ifndef CORE_OS_OS_CONF_H
#define CORE_OS_OS_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/shared.h"

#define CONF_ETC_PATH  "/etc/nccl.conf"
#define CONF_USER_NAME "/.nccl.conf" /* in the home directory */

enum {
	CONF_TEXT_BYTES = 1023, /* maximum length of a name, and of a value */
	CONF_LINES_MOST = 4096, /* lines with variables, in both files together */
	CONF_BAD_MOST = 16,     /* bad lines that are kept; further ones are counted */
};

/* Reason why a line has no effect. */
enum conf_use { CONF_USED, CONF_IN_ENVIRONMENT, CONF_IN_EARLIER_FILE };

struct conf_line {
	struct conf_line *next; /* in the order of reading */
	const char *path;
	uint32_t number; /* from 1 */
	enum conf_use use;
	const char *value;
	char name[]; /* and its value, each with its NUL */
};

struct conf_bad {
	const char *path;
	uint32_t number; /* 0: the file itself */
	char text[160];  /* the defect, and what was expected */
};

struct conf {
	struct conf_line *first, *last;
	uint32_t count;
	struct conf_bad bad[CONF_BAD_MOST];
	uint32_t bad_count;         /* all, including those that are not kept */
	char *user, *etc;           /* paths */
	bool user_named, etc_named; /* by a variable */
	shared_u32 bad_shown, use_shown;
};

/* The process: its environment before the files, the file system that it sees, and the addition of
 * a variable to its environment. env and add are called with names that end with a NUL. */
struct conf_process {
	void *ctx;
	const char *(*env)(const void *ctx, const char *name);
	int (*read)(void *ctx, const char *path, char **data, size_t *bytes); /* as os_file_read */
	void (*free)(void *data); /* frees the result of `read` */
	int (*add)(void *ctx, const char *name, const char *value);
	const char *home; /* "": no home directory. NULL: neither ~/.nccl.conf nor /etc/nccl.conf */
};

/* Reads the files and adds their variables. Sets *conf to NULL if no file was read and no error
 * was met. On ENOMEM, *conf has the lines so far. */
int conf_load(const struct conf_process *process, struct conf **conf);
void conf_free(struct conf *conf); /* NULL is allowed */
/* Returns the line that set the variable; NULL: no file set it. `conf` may be NULL. */
const struct conf_line *conf_find(const struct conf *conf, const char *name, size_t bytes);
/* Logs the bad lines at WARN; on stderr, too, if the log's level is lower. `conf` may be NULL. */
void conf_report_bad(struct conf *conf);
/* Logs the lines without effect at INFO. `conf` may be NULL. */
void conf_report_unused(struct conf *conf);

/* Parses the text of one file; for conf_load and the fuzz target. */
int conf_parse(struct conf *conf, const struct conf_process *process, const char *path,
	       const char *text, size_t bytes);

#endif
