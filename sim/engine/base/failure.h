/* SPDX-License-Identifier: BSD-3-Clause */
/* Ends a run by a failure, or notes one. */
#ifndef SIM_ENGINE_BASE_FAILURE_H
#define SIM_ENGINE_BASE_FAILURE_H

#include <stdarg.h>
#include <stdio.h>

#include "sim/engine/base/config.h"

/* Ends the program with a verdict as its exit code. For SIM_BY_SIGNAL plus a signal, ends it by
 * that signal. */
void sim_exit(int code) __attribute__((noreturn));

/* Ends the run from inside with a verdict and a line with the reason; dumps as configured. Under
 * sim it does not return to the caller. */
void sim_fail(enum sim_verdict verdict, const char *fmt, ...)
	__attribute__((format(printf, 2, 3), noreturn));

/* Does the same for a checker that names its finding ("liveness"), and a rank (-1: none). */
void sim_fail_as(enum sim_verdict verdict, const char *kind, int32_t rank, const char *fmt, ...)
	__attribute__((format(printf, 4, 5), noreturn));

/* The first failure of a run. */
struct sim_failure {
	enum sim_verdict verdict;
	char kind[24];     /* "deadlock" */
	char message[512]; /* one line */
	char task[48];     /* "-": none */
	int32_t rank;      /* -1: none */
	uint64_t step, vtime_ns, hash;
	/* latest step before the failure at which a replay can stop (until_step) */
	uint64_t before;
};
/* Returns the first failure; NULL: none up to now. Valid until the next sim_start. */
const struct sim_failure *sim_failure(void);
/* Notes a failure that does not end the run (a wrong result, a returned error). Reports and dumps
 * it immediately. The run continues, and its choices are written at its end. Only the first failure
 * counts. */
void sim_note_failure(enum sim_verdict verdict, const char *kind, int32_t rank, const char *fmt,
		      ...) __attribute__((format(printf, 4, 5)));
/* Notes an error or a death that the faults of the run may have caused. It is dumped and kept like
 * a failure but sets no verdict. The first failure that sets a verdict replaces it. */
void sim_note_tolerated(const char *kind, int32_t rank, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* NULL: none, or a failure replaced it. Valid until the next sim_start. */
const struct sim_failure *sim_tolerated(void);
/* Reports an operation on a double that its API leaves undefined, for a call that cannot return an
 * error or whose result callers may drop. Logs a line and notes a failure SIM_MISUSE, "misuse". The
 * failure does not end the run; it is the verdict if the run has no other. Doubles report only what
 * hardware or driver would punish, never an effect of the plan's faults. Any task and any event may
 * call it. */
void sim_misuse(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Does the same for doubles; `prefix` begins the line. `in_turn` marks misuse that usually follows
 * an earlier error, for example freeing an object that is still in use. A failure noted later
 * replaces it. */
void sim_misuse_of(const char *prefix, bool in_turn, const char *fmt, va_list ap)
	__attribute__((format(printf, 3, 0)));
/* Announces misuse that a test commits on purpose; the test calls it first. Misuse whose line
 * contains `words` (a string literal) is logged and fails nothing. A run that otherwise passes but
 * had no such misuse does not pass. */
void sim_expect_misuse(const char *words);

/* Registers a function that adds to the dump when a failure stops the engine (world: leak counters;
 * fakeverbs: QPs). At most 8. */
void sim_on_failure(void (*print)(FILE *out));

#endif
