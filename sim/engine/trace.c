/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rolling hash, and the trace file. The hash takes task id, virtual time, kind, three numbers
 * and digests of payload (XXH3), and every switch; no address, no seed, no log level. The file is
 * Chrome's JSON, for ui.perfetto.dev: pid is the rank, tid the task, ts microseconds with three
 * decimals. The array stays open until the end, so a crash leaves a file that still loads.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "sim/engine/engine_internal.h"
#include "sim/engine/gdb_hooks.h"

enum { TRACE_EVENTS_TID = 1000000, TRACE_NO_RANK_PID = 1000000 };

static FILE *trace_file;
static pthread_mutex_t trace_mutex = PTHREAD_MUTEX_INITIALIZER;

/* ---- hash ----------------------------------------------------------------------------------- */

static inline uint64_t trace_mix(uint64_t h, uint64_t v)
{
	v *= 0xc2b2ae3d27d4eb4full;
	v = (v << 31 | v >> 33) * 0x9e3779b185ebca87ull;
	h ^= v;
	return (h << 27 | h >> 37) * 0x9e3779b185ebca87ull + 0x85ebca77c2b2ae63ull;
}

static inline uint32_t trace_task_id(void)
{
	return eng.current ? eng.current->pub.self.id : UINT32_MAX;
}

void trace_fold(uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t h = trace_mix(eng.hash, eng.now_ns);

	h = trace_mix(h, a);
	h = trace_mix(h, b);
	eng.hash = trace_mix(h, c);
}

static void trace_hash_kind(const char *kind)
{
	eng.hash = trace_mix(eng.hash, XXH3_64bits(kind, strlen(kind)));
	eng.hash = trace_mix(eng.hash, trace_task_id());
}

uint64_t sim_hash(void)
{
	return eng.hash;
}

/* ---- file ----------------------------------------------------------------------------------- */

static void trace_string(const char *s)
{
	fputc('"', trace_file);
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			fputc('\\', trace_file);
		fputc((uint8_t)*s < ' ' ? ' ' : *s, trace_file);
	}
	fputc('"', trace_file);
}

static const struct sim_task *trace_self(void)
{
	if (engine_in_sim())
		return eng.current ? &eng.current->pub : NULL;
	struct task *t = threads_self();
	return t ? &t->pub : NULL;
}

/* Begins a record; the caller adds members, then "},\n", and unlocks. */
static void trace_head(const struct sim_task *t, char phase, const char *name, uint64_t at_ns)
{
	uint32_t pid = t && t->self.rank >= 0 ? (uint32_t)t->self.rank : TRACE_NO_RANK_PID;
	uint32_t tid = t ? t->self.id : TRACE_EVENTS_TID;

	fprintf(trace_file,
		"{\"ph\":\"%c\",\"pid\":%u,\"tid\":%u,\"ts\":%" PRIu64 ".%03u,\"name\":", phase,
		pid, tid, at_ns / 1000, (unsigned)(at_ns % 1000));
	trace_string(name);
}

static void trace_meta(const struct sim_task *t, const char *what, const char *name)
{
	trace_head(t, 'M', what, 0);
	fputs(",\"args\":{\"name\":", trace_file);
	trace_string(name);
	fputs("}},\n", trace_file);
}

void trace_task(const struct task *t)
{
	char name[32];

	if (!trace_file)
		return;
	pthread_mutex_lock(&trace_mutex);
	snprintf(name, sizeof name, "rank %d", t->pub.self.rank);
	trace_meta(&t->pub, "process_name", t->pub.self.rank >= 0 ? name : "run");
	trace_meta(&t->pub, "thread_name", t->pub.name);
	pthread_mutex_unlock(&trace_mutex);
}

void trace_interval(bool begin, const char *name, uint64_t a, uint64_t b)
{
	if (!trace_file)
		return;
	const struct sim_task *self = trace_self();
	uint64_t now = sim_now_ns();

	pthread_mutex_lock(&trace_mutex);
	trace_head(self, begin ? 'B' : 'E', name, now);
	if (begin)
		fprintf(trace_file, ",\"args\":{\"a\":%" PRIu64 ",\"b\":%" PRIu64 "}", a, b);
	fputs("},\n", trace_file);
	pthread_mutex_unlock(&trace_mutex);
}

void trace_wait(const struct task *t, const char *why, uint64_t from_ns)
{
	if (!trace_file || eng.now_ns == from_ns)
		return;
	uint64_t ns = eng.now_ns - from_ns;

	pthread_mutex_lock(&trace_mutex);
	trace_head(&t->pub, 'X', why ? why : "wait", from_ns);
	fprintf(trace_file, ",\"cat\":\"wait\",\"dur\":%" PRIu64 ".%03u},\n", ns / 1000,
		(unsigned)(ns % 1000));
	pthread_mutex_unlock(&trace_mutex);
}

static void trace_instant_numbers(const char *kind, uint64_t a, uint64_t b, uint64_t c)
{
	const struct sim_task *self = trace_self();
	uint64_t now = sim_now_ns();

	pthread_mutex_lock(&trace_mutex);
	trace_head(self, 'i', kind, now);
	fprintf(trace_file,
		",\"s\":\"t\",\"args\":{\"a\":%" PRIu64 ",\"b\":%" PRIu64 ",\"c\":%" PRIu64 "}},\n",
		a, b, c);
	pthread_mutex_unlock(&trace_mutex);
}

void trace_instant(const char *name, const char *detail)
{
	if (!trace_file)
		return;
	const struct sim_task *self = trace_self();
	uint64_t now = sim_now_ns();

	pthread_mutex_lock(&trace_mutex);
	trace_head(self, 'i', name, now);
	fputs(",\"s\":\"p\",\"args\":{\"detail\":", trace_file);
	trace_string(detail);
	fputs("}},\n", trace_file);
	pthread_mutex_unlock(&trace_mutex);
}

/* ---- records -------------------------------------------------------------------------------- */

void trace_record(const char *kind, uint64_t a, uint64_t b, uint64_t c)
{
	if (eng.phase == ENGINE_OFF || eng.phase == ENGINE_OVER)
		return;
	if (engine_in_sim()) {
		trace_hash_kind(kind);
		trace_fold(a, b, c);
		sim_gdb_point_trap(kind);
	}
	if (UNLIKELY(trace_file != NULL))
		trace_instant_numbers(kind, a, b, c);
}

void trace_record_bytes(const char *kind, uint64_t a, const void *bytes, size_t n)
{
	if (eng.phase == ENGINE_OFF || eng.phase == ENGINE_OVER || !engine_in_sim())
		return;
	trace_hash_kind(kind);
	trace_fold(a, n, XXH3_64bits(bytes, n));
}

/* ---- life ----------------------------------------------------------------------------------- */

int trace_start(void)
{
	eng.hash = 0x27d4eb2f165667c5ull;
	if (!eng.config.trace_path)
		return 0;
	trace_file = fopen(eng.config.trace_path, "w");
	if (!trace_file) {
		fprintf(stderr, "trace: cannot write %s: %s\n", eng.config.trace_path,
			strerror(errno));
		return errno;
	}
	setvbuf(trace_file, NULL, _IOFBF, 1 << 16);
	fputs("[\n", trace_file);
	return 0;
}

void trace_flush(void)
{
	if (trace_file)
		fflush(trace_file);
}

void trace_stop(void)
{
	if (!trace_file)
		return;
	trace_instant("end of run", sim_strategy_name());
	fseek(trace_file, -2, SEEK_CUR); /* the last comma */
	fputs("\n]\n", trace_file);
	if (fclose(trace_file))
		fprintf(stderr, "trace: writing %s failed\n", eng.config.trace_path);
	trace_file = NULL;
}
