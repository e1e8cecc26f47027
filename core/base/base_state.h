/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Per-process state of core/base: log level, last errors, parsed parameters. The world half that
 * owns the process creates it before the process's first task runs, from its environment
 * (core/os/os_real.c, sim/world). os_base_state() returns it. Only log.c and param.c access its
 * fields. The strings belong to the environment.
 */
#ifndef CORE_BASE_BASE_STATE_H
#define CORE_BASE_BASE_STATE_H

#include "core/base/log.h"
#include "core/base/param_row.h"
#include "core/base/shared.h"
#include "core/os/os_conf.h"

#define LOG_TEXT_BYTES 512

struct log_state {
	shared_u32 level; /* enum log_level */
	shared_u32 subsys;
	uint32_t named_silent;
	shared_u32 next; /* number of errors so far; slot = number % LOG_LAST_KEPT */
	shared_u32 last; /* number of the latest complete error, plus 1 */
	char error[LOG_LAST_KEPT][LOG_TEXT_BYTES];
	uint32_t error_task[LOG_LAST_KEPT]; /* number of the task that logged the error */
	shared_u32 silent_shown;
};

struct param_value {
	const char *name;             /* the usual one, or the older one that is set */
	const char *text;             /* value in the environment; NULL: not set */
	const struct conf_line *line; /* of the configuration file that set it; NULL: no file did */
	int64_t number;
	bool malformed;
	shared_u32 warned, shown; /* already reported: malformed value; value set */
};

struct base_state {
	struct log_state log;
	struct conf *conf; /* NULL: no configuration file */
	shared_u32 unread_shown;
	/* index: number of the parameter. */
	struct param_value param[PARAM_COUNT + PARAM_DOUBLES_MAX];
};

/* Initialises the state. env(ctx, name) returns the value of a variable, those of configuration
 * files included; `conf` (may be NULL) has the files' lines. The owner frees it. May be called
 * again if the environment changes before the process's first task runs. */
void base_state_init(struct base_state *state,
		     const char *(*env)(const void *ctx, const char *name), const void *ctx,
		     struct conf *conf);
void log_state_init(struct log_state *log, const char *level, const char *subsys);

#endif
