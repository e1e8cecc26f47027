/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Failures of a run. The first failure counts. The upper floors write its files (struct
 * report_ops).
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/engine/base/engine_internal.h"
#include "sim/engine/base/gdb_hooks.h"

enum { FAILURE_HOOKS = 8 };

static void (*failure_hook[FAILURE_HOOKS])(FILE *out);
static int failure_hooks;

void sim_exit(int code)
{
	fflush(NULL);
	if (code > SIM_BY_SIGNAL)
		crash_end_by(code - SIM_BY_SIGNAL);
	exit(code);
}

void sim_on_failure(void (*print)(FILE *out))
{
	for (int i = 0; i < failure_hooks; i++)
		if (failure_hook[i] == print)
			return;
	ASSERT(failure_hooks < FAILURE_HOOKS);
	failure_hook[failure_hooks++] = print;
}

void engine_print_failure_hooks(FILE *out)
{
	for (int i = 0; i < failure_hooks; i++)
		failure_hook[i](out);
}

void engine_print_fail_line(FILE *out, const struct sim_failure *f)
{
	char vtime[32];

	sim_format_ns(vtime, f->vtime_ns);
	fprintf(out,
		"FAIL %s task=\"%s\" rank=%d step=%" PRIu64 " vtime=%s seed=0x%" PRIx64
		" strategy=%s hash=%016" PRIx64 "\n",
		f->kind, f->task, f->rank, f->step, vtime, eng.seed, sim_strategy_name(), f->hash);
}

/* Turns a message into one line that fits a file of `key value` lines. */
static void engine_keep_line(char *out, size_t bytes, const char *text)
{
	size_t n = 0;

	while (*text == ' ' || *text == '\n' || *text == '\t')
		text++;
	for (; *text && n < bytes - 1; text++)
		out[n++] = (unsigned char)*text < ' ' ? ' ' : *text;
	while (n && out[n - 1] == ' ')
		n--;
	out[n] = '\0';
}

static void engine_keep_failure(enum sim_verdict verdict, const char *kind, const char *message,
				int32_t rank)
{
	const struct sim_task *t = sim_task_known();
	struct sim_failure *f = &eng.failure;

	ASSERT(verdict != SIM_PASS); /* a failure decides the exit code */
	eng.failed = true;
	eng.in_turn = eng.tolerated = false;
	*f = (struct sim_failure){.verdict = verdict,
				  .rank = rank,
				  .step = eng.steps,
				  .vtime_ns = sim_now_ns() - eng.start_ns,
				  .hash = eng.hash,
				  .before = sim_gdb_steps};
	snprintf(f->kind, sizeof f->kind, "%s", kind);
	engine_keep_line(f->message, sizeof f->message, message);
	engine_keep_line(f->task, sizeof f->task, t ? t->name : "-");
	if (t && rank < 0)
		f->rank = t->self.rank;
}

const struct sim_failure *sim_failure(void)
{
	return eng.failed ? &eng.failure : NULL;
}

static void engine_dump_wanted(void)
{
	const char *dir = eng.config.fail_dir;

	if (!dir)
		return;
	eng.reports->dump(dir);
	if (!eng.config.last_words)
		fprintf(stderr, "files:  %s/{choices,explain.txt,waits.json,tasks.core}\n", dir);
}

static void engine_report_rank(enum sim_verdict verdict, const char *kind, int32_t rank,
			       const char *message)
{
	bool first = !eng.failed || eng.in_turn;

	fflush(stdout);
	eng.reports->flush();
	if (verdict == SIM_NO_PROGRESS)
		eng.reports->explain(stderr);
	if (verdict == SIM_CRASH && eng.config.choices_out && engine_in_sim())
		eng.reports->choices(eng.config.choices_out); /* sim_run does not return */
	fprintf(stderr, "%s: %s\n", kind, message);
	if (first)
		engine_keep_failure(verdict, kind, message, rank);
	if (first && !eng.config.last_words)
		engine_print_fail_line(stderr, &eng.failure);
	engine_print_failure_hooks(stderr);
	if (first)
		engine_dump_wanted();
	fflush(stderr);
}

void engine_report(enum sim_verdict verdict, const char *kind, const char *message)
{
	engine_report_rank(verdict, kind, -1, message);
}

void sim_note_failure(enum sim_verdict verdict, const char *kind, int32_t rank, const char *fmt,
		      ...)
{
	char message[512];
	va_list ap;

	if (eng.failed && !eng.in_turn)
		return;
	va_start(ap, fmt);
	vsnprintf(message, sizeof message, fmt, ap);
	va_end(ap);
	fflush(stdout);
	engine_keep_failure(verdict, kind, message, rank);
	eng.reports->flush();
	engine_dump_wanted();
}

void sim_note_tolerated(const char *kind, int32_t rank, const char *fmt, ...)
{
	char message[512];
	va_list ap;

	if (eng.failed || eng.tolerated)
		return;
	va_start(ap, fmt);
	vsnprintf(message, sizeof message, fmt, ap);
	va_end(ap);
	fflush(stdout);
	engine_keep_failure(SIM_ERROR, kind, message, rank);
	eng.failed = false;
	eng.tolerated = true;
	eng.reports->flush();
	engine_dump_wanted();
}

const struct sim_failure *sim_tolerated(void)
{
	return eng.tolerated ? &eng.failure : NULL;
}

void engine_forget_failure_hooks(void)
{
	failure_hooks = 0;
}

/* ---- misuse --------------------------------------------------------------------------------- */

/* True if the test announced this misuse. */
static bool engine_misuse_met(const char *line)
{
	bool met = false;

	for (size_t i = 0; i < ARRAY_LEN(eng.awaited) && eng.awaited[i].words; i++)
		if (strstr(line, eng.awaited[i].words)) {
			__atomic_store_n(&eng.awaited[i].met, true, __ATOMIC_RELAXED);
			met = true;
		}
	return met;
}

/* Fails a run that passes without the announced misuse: no double noticed what the test did. */
void engine_misuse_awaited(void)
{
	for (size_t i = 0; i < ARRAY_LEN(eng.awaited) && eng.awaited[i].words; i++)
		if (!eng.awaited[i].met && eng.verdict == SIM_PASS) {
			char text[256];

			snprintf(text, sizeof text, "no misuse '%s' was reported; one was expected",
				 eng.awaited[i].words);
			engine_report(SIM_WRONG_RESULT, "no-misuse", text);
			eng.verdict = SIM_WRONG_RESULT;
		}
}

void sim_misuse_of(const char *prefix, bool in_turn, const char *fmt, va_list ap)
{
	bool first = !eng.failed;
	char line[640];
	int n = snprintf(line, sizeof line, "%s", prefix);

	ASSERT(n >= 0 && (size_t)n < sizeof line);
	vsnprintf(line + n, sizeof line - (size_t)n, fmt, ap);
	os_log_line(line);
	if ((in_turn && !first) || engine_misuse_met(line))
		return;
	sim_note_failure(SIM_MISUSE, "misuse", -1, "%s", line);
	if (in_turn)
		eng.in_turn = true;
}

void sim_misuse(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	sim_misuse_of("", false, fmt, ap);
	va_end(ap);
}

/* ---- ends ----------------------------------------------------------------------------------- */

/* Ends the run and never returns. A task stays suspended where it is; an event's step is abandoned
 * by a longjmp. sim_run returns the verdict. Outside a run, and in `threads`, the program ends. */
static void engine_end(enum sim_verdict verdict)
{
	eng.verdict = verdict;
	eng.stop = true;
	if (eng.phase != ENGINE_RUNNING || !engine_in_sim()) {
		if (eng.config.last_words)
			eng.config.last_words(eng.config.last_words_arg);
		fflush(NULL);
		if (verdict == SIM_CRASH)
			crash_end_by(SIM_CRASH - SIM_BY_SIGNAL);
		_exit(verdict);
	}
	if (eng.current)
		fiber_suspend(&eng.current->fiber);
	longjmp(eng.fail_jump, 1);
}

void engine_fail(enum sim_verdict verdict, const char *kind, const char *fmt, ...)
{
	char message[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(message, sizeof message, fmt, ap);
	va_end(ap);
	engine_report(verdict, kind, message);
	engine_end(verdict);
	__builtin_unreachable();
}

void sim_fail(enum sim_verdict verdict, const char *fmt, ...)
{
	char message[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(message, sizeof message, fmt, ap);
	va_end(ap);
	engine_report(verdict, engine_verdict_name(verdict), message);
	engine_end(verdict);
	__builtin_unreachable();
}

void sim_fail_as(enum sim_verdict verdict, const char *kind, int32_t rank, const char *fmt, ...)
{
	char message[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(message, sizeof message, fmt, ap);
	va_end(ap);
	engine_report_rank(verdict, kind, rank, message);
	engine_end(verdict);
	__builtin_unreachable();
}

void sim_expect_misuse(const char *words)
{
	for (size_t i = 0; i < ARRAY_LEN(eng.awaited); i++)
		if (!eng.awaited[i].words) {
			eng.awaited[i].words = words;
			return;
		}
	engine_fail(SIM_USAGE, "usage", "sim_expect_misuse: called more than %zu times in a run",
		    ARRAY_LEN(eng.awaited));
}
