/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What core/base keeps per process: log level and last errors, parsed parameters. Made from the
 * process' environment before its first task runs, by the world half that owns the process
 * (core/os/os_real.c, sim/world), and found again through os_base_state(). Only log.c and param.c
 * look inside. Owns nothing but itself; strings belong to the environment.
 */
#ifndef CORE_BASE_BASE_STATE_H
#define CORE_BASE_BASE_STATE_H

#include "core/base/log.h"
#include "core/base/param_row.h"
#include "core/base/shared.h"

#define LOG_TEXT_BYTES 512

struct log_state {
	enum log_level level;
	uint32_t subsys, named_silent;
	shared_u32 next; /* errors so far; slot = number % LOG_LAST_KEPT */
	shared_u32 last; /* number of the latest complete one, plus 1 */
	char error[LOG_LAST_KEPT][LOG_TEXT_BYTES];
	uint32_t error_task[LOG_LAST_KEPT]; /* the task that logged it, by its number */
	shared_u32 silent_shown;
};

struct param_value {
	const char *text; /* as the environment has it; NULL: not set */
	int64_t number;
	bool malformed;
	shared_u32 warned, shown; /* it has had its line about what is wrong; that it is set */
};

struct base_state {
	struct log_state log;
	shared_u32 unread_shown;
	struct param_value param[PARAM_COUNT + PARAM_DOUBLES_MAX]; /* by number */
};

/* env(ctx, name) looks a variable up. May be called again when the environment changed, before
 * the process' first task runs. */
void base_state_init(struct base_state *state,
		     const char *(*env)(const void *ctx, const char *name), const void *ctx);
void log_state_init(struct log_state *log, const char *level, const char *subsys);

#endif
