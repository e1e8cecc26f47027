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
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "sim/engine/engine_internal.h"
#include "sim/engine/gdb_hooks.h"
#include "sim/engine/text.h"

enum {
	TRACE_EVENTS_TID = 1000000,
	TRACE_NO_RANK_PID = 1000000,
	TRACE_STRING_MAX = 1024,
	TRACE_RECORD_MAX = 2 * TRACE_STRING_MAX + 512, /* a name, a detail, and numbers */
};

/* Digests of kinds by their address: they are string constants. Only a shortcut. */
static struct trace_kind {
	const char *kind;
	uint64_t digest;
} trace_kinds[256];

static FILE *trace_file;
static char trace_bytes[1 << 16]; /* not in the file yet */
static size_t trace_bytes_n;
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

static struct trace_kind *trace_kind_at(const char *kind)
{
	return &trace_kinds[((uint64_t)(uintptr_t)kind * 0x9e3779b97f4a7c15ull) >> 56];
}

static void trace_hash_kind(const char *kind)
{
	struct trace_kind *k = trace_kind_at(kind);

	if (UNLIKELY(k->kind != kind))
		*k = (struct trace_kind){kind, XXH3_64bits(kind, strlen(kind))};
	eng.hash = trace_mix(eng.hash, k->digest);
	eng.hash = trace_mix(eng.hash, trace_task_id());
}

uint64_t sim_hash(void)
{
	return eng.hash;
}

/* ---- file ----------------------------------------------------------------------------------- */

static void trace_meta(const struct sim_task *t, const char *what, const char *name);

static void trace_meta_both(const struct sim_task *t)
{
	char name[32];

	snprintf(name, sizeof name, "rank %d", t->self.rank);
	trace_meta(t, "process_name", t->self.rank >= 0 ? name : "run");
	trace_meta(t, "thread_name", t->name);
}

/* Keeps the last `keep` bytes of the file, from the beginning of a record on. */
static void trace_forget(size_t keep)
{
	char *text = malloc(keep);
	long end = ftell(trace_file);

	if (!text || end < (long)keep || fseek(trace_file, end - (long)keep, SEEK_SET) ||
	    fread(text, 1, keep, trace_file) != keep || fseek(trace_file, 0, SEEK_SET) ||
	    ftruncate(fileno(trace_file), 0)) {
		free(text);
		return;
	}
	const char *from = memchr(text, '\n', keep);
	fputs("[\n", trace_file);
	if (from)
		fwrite(from + 1, 1, keep - (size_t)(from + 1 - text), trace_file);
	free(text);
	for (const struct sim_task *t = sim_tasks_head; t && engine_in_sim(); t = t->next)
		trace_meta_both(t);
}

/* Room for `bytes` more, at most TRACE_RECORD_MAX. All that writes is under trace_mutex. */
static char *trace_room(size_t bytes)
{
	size_t last = eng.config.trace_last_bytes;

	ASSERT(bytes <= TRACE_RECORD_MAX);
	if (trace_bytes_n + bytes > sizeof trace_bytes) {
		fwrite(trace_bytes, 1, trace_bytes_n, trace_file);
		trace_bytes_n = 0;
		if (last && ftell(trace_file) > 2 * (long)last)
			trace_forget(last);
	}
	return trace_bytes + trace_bytes_n;
}

static void trace_end(const char *to)
{
	trace_bytes_n = (size_t)(to - trace_bytes);
}

/* At most TRACE_STRING_MAX bytes with its quotes; what is longer is cut. */
static char *trace_string(char *to, const char *s)
{
	const char *end = to + TRACE_STRING_MAX - 3;

	*to++ = '"';
	for (; *s && to < end; s++) {
		if (*s == '"' || *s == '\\')
			*to++ = '\\';
		*to++ = (uint8_t)*s < ' ' ? ' ' : *s;
	}
	*to++ = '"';
	return to;
}

static const struct sim_task *trace_self(void)
{
	if (engine_in_sim())
		return eng.current ? &eng.current->pub : NULL;
	struct task *t = threads_self();
	return t ? &t->pub : NULL;
}

/* Begins a record; the caller adds members, then "},\n", trace_end(), and unlocks. */
static char *trace_head(const struct sim_task *t, char phase, const char *name, uint64_t at_ns)
{
	uint32_t pid = t && t->self.rank >= 0 ? (uint32_t)t->self.rank : TRACE_NO_RANK_PID;
	uint32_t tid = t ? t->self.id : TRACE_EVENTS_TID;
	char *to = trace_room(TRACE_RECORD_MAX);

	to = text_put(to, "{\"ph\":\"");
	*to++ = phase;
	to = text_put_u64(text_put(to, "\",\"pid\":"), pid);
	to = text_put_u64(text_put(to, ",\"tid\":"), tid);
	to = text_put_us(text_put(to, ",\"ts\":"), at_ns);
	return trace_string(text_put(to, ",\"name\":"), name);
}

static void trace_meta(const struct sim_task *t, const char *what, const char *name)
{
	char *to = text_put(trace_head(t, 'M', what, 0), ",\"args\":{\"name\":");

	trace_end(text_put(trace_string(to, name), "}},\n"));
}

void trace_task(const struct task *t)
{
	if (!trace_file)
		return;
	pthread_mutex_lock(&trace_mutex);
	trace_meta_both(&t->pub);
	pthread_mutex_unlock(&trace_mutex);
}

void trace_interval(bool begin, const char *name, uint64_t a, uint64_t b)
{
	if (!trace_file)
		return;
	const struct sim_task *self = trace_self();
	uint64_t now = sim_now_ns();

	pthread_mutex_lock(&trace_mutex);
	char *to = trace_head(self, begin ? 'B' : 'E', name, now);
	if (begin) {
		to = text_put_u64(text_put(to, ",\"args\":{\"a\":"), a);
		to = text_put(text_put_u64(text_put(to, ",\"b\":"), b), "}");
	}
	trace_end(text_put(to, "},\n"));
	pthread_mutex_unlock(&trace_mutex);
}

void trace_wait(const struct task *t, const char *why, uint64_t from_ns)
{
	if (!trace_file || eng.now_ns == from_ns)
		return;

	pthread_mutex_lock(&trace_mutex);
	char *to = trace_head(&t->pub, 'X', why ? why : "wait", from_ns);
	to = text_put_us(text_put(to, ",\"cat\":\"wait\",\"dur\":"), eng.now_ns - from_ns);
	trace_end(text_put(to, "},\n"));
	pthread_mutex_unlock(&trace_mutex);
}

static void trace_instant_numbers(const char *kind, uint64_t a, uint64_t b, uint64_t c)
{
	const struct sim_task *self = trace_self();
	uint64_t now = sim_now_ns();

	pthread_mutex_lock(&trace_mutex);
	char *to = trace_head(self, 'i', kind, now);
	to = text_put_u64(text_put(to, ",\"s\":\"t\",\"args\":{\"a\":"), a);
	to = text_put_u64(text_put(to, ",\"b\":"), b);
	to = text_put_u64(text_put(to, ",\"c\":"), c);
	trace_end(text_put(to, "}},\n"));
	pthread_mutex_unlock(&trace_mutex);
}

void trace_instant(const char *name, const char *detail)
{
	if (!trace_file)
		return;
	const struct sim_task *self = trace_self();
	uint64_t now = sim_now_ns();

	pthread_mutex_lock(&trace_mutex);
	char *to = trace_head(self, 'i', name, now);
	to = trace_string(text_put(to, ",\"s\":\"p\",\"args\":{\"detail\":"), detail);
	trace_end(text_put(to, "}},\n"));
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
		if (UNLIKELY(eng.config.coverage))
			cover_record(kind);
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
	if (UNLIKELY(eng.config.coverage))
		cover_record(kind);
}

/* ---- life ----------------------------------------------------------------------------------- */

int trace_start(void)
{
	eng.hash = 0x27d4eb2f165667c5ull;
	memset(trace_kinds, 0, sizeof trace_kinds);
	if (!eng.config.trace_path)
		return 0;
	trace_file = fopen(eng.config.trace_path, "w+");
	if (!trace_file) {
		fprintf(stderr, "trace: cannot write %s: %s\n", eng.config.trace_path,
			strerror(errno));
		return errno;
	}
	trace_end(text_put(trace_bytes, "[\n"));
	return 0;
}

static void trace_spill(void)
{
	fwrite(trace_bytes, 1, trace_bytes_n, trace_file);
	trace_bytes_n = 0;
	fflush(trace_file);
}

void trace_flush(void)
{
	if (!trace_file)
		return;
	bool locked = pthread_mutex_trylock(&trace_mutex) == 0; /* not by who crashed in here */

	trace_spill();
	if (locked)
		pthread_mutex_unlock(&trace_mutex);
}

void trace_stop(void)
{
	if (!trace_file)
		return;
	trace_instant("end of run", sim_strategy_name());
	ASSERT(trace_bytes_n >= 2);
	trace_bytes_n -= 2; /* the last comma */
	trace_end(text_put(trace_room(3), "\n]\n"));
	trace_spill();
	bool bad = ferror(trace_file);
	if (fclose(trace_file) || bad)
		fprintf(stderr, "trace: writing %s failed\n", eng.config.trace_path);
	trace_file = NULL;
}
