/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rolling hash, and the trace file. The hash covers every switch, and for each record task id,
 * virtual time, kind, three numbers and digests of payload (XXH3). It covers no address, no seed
 * and no log level. The file is Chrome's JSON, for ui.perfetto.dev; timeline.c decides what it
 * contains.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "sim/engine/trace/trace_internal.h"
#include "sim/engine/base/gdb_hooks.h"
#include "sim/engine/base/output.h"
#include "sim/engine/base/text.h"
#include "sim/engine/trace/timeline.h"

enum { TRACE_BYTES = 1 << 16 };

/* Ends the array until the next write overwrites it, which lets a viewer load a truncated file.
 * Signals are blocked during a write. SIGKILL is not, and may leave part of the last write. */
#define TRACE_CUT "{\"ph\":\"M\",\"pid\":0,\"tid\":0,\"ts\":0,\"name\":\"cut off\"}\n]\n"

/* Digests of kinds by address: kinds are string constants. Only a shortcut. */
static struct trace_kind {
	const char *kind;
	uint64_t digest;
} trace_kinds[256];
DOPPEL_STATIC_CHECK(ARRAY_LEN(trace_kinds) == 1 << (64 - 56), "trace_kind_at uses the top bits");

static FILE *trace_file;
static char trace_bytes[TRACE_BYTES + sizeof TRACE_CUT]; /* not in the file yet */
static size_t trace_bytes_n;
static bool trace_seeks; /* false: a pipe or a device */
static int trace_error;  /* the first error; nothing is written after it */
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

static void trace_failed(int error)
{
	if (!trace_error)
		output_failed("trace", eng.config.trace_path, error);
	trace_error = error;
}

/* Writes the buffer. `cut` adds TRACE_CUT, because further records may or may not follow. */
static void trace_out(bool cut)
{
	size_t n = trace_bytes_n, end = cut && trace_seeks ? sizeof TRACE_CUT - 1 : 0;
	sigset_t all, before;

	trace_bytes_n = 0;
	if (trace_error)
		return;
	memcpy(trace_bytes + n, TRACE_CUT, end);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (fwrite(trace_bytes, 1, n + end, trace_file) != n + end ||
	    (end && fseek(trace_file, -(long)end, SEEK_CUR)))
		trace_failed(errno);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* True if written bytes can be overwritten: not in a pipe nor in /dev/null, which can seek. */
static bool trace_is_regular(void)
{
	struct stat st;

	return fstat(fileno(trace_file), &st) == 0 && S_ISREG(st.st_mode);
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
	if (ferror(trace_file))
		trace_failed(errno);
	timeline_tracks_again();
	trace_out(true); /* the caller has reserved the room before these records */
}

char *trace_room(size_t bytes)
{
	size_t last = eng.config.trace_last_bytes;

	ASSERT(bytes <= TRACE_RECORD_MAX);
	if (trace_bytes_n + bytes > TRACE_BYTES) {
		trace_out(true);
		if (last && ftell(trace_file) > 2 * (long)last)
			trace_forget(last);
	}
	return trace_bytes + trace_bytes_n;
}

void trace_end(const char *to)
{
	ASSERT(to >= trace_bytes &&
	       to <= trace_bytes + TRACE_BYTES); /* room for TRACE_CUT after it */
	trace_bytes_n = (size_t)(to - trace_bytes);
}

bool trace_is_on(void)
{
	return trace_file != NULL;
}

void trace_lock(void)
{
	pthread_mutex_lock(&trace_mutex);
}

void trace_unlock(void)
{
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
		timeline_record(kind, a, b, c);
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
	memset(trace_kinds, 0, sizeof trace_kinds);
	if (!eng.config.trace_path)
		return 0;
	trace_file = fopen(eng.config.trace_path, "w+");
	if (!trace_file) {
		int rc = errno;
		output_failed("trace", eng.config.trace_path, rc);
		return rc;
	}
	setvbuf(trace_file, NULL, _IONBF, 0); /* one write for data and the end of the array */
	trace_seeks = trace_is_regular();
	trace_error = 0;
	trace_end(text_put(trace_bytes, "[\n"));
	return 0;
}

void trace_flush(void)
{
	if (!trace_file)
		return;
	/* a crash may have interrupted the holder of the lock */
	bool locked = pthread_mutex_trylock(&trace_mutex) == 0;

	trace_out(true);
	if (locked)
		pthread_mutex_unlock(&trace_mutex);
}

void trace_stop(void)
{
	if (!trace_file)
		return;
	timeline_instant("end of run", sim_strategy_name());
	ASSERT(trace_bytes_n >= 2);
	trace_bytes_n -= 2; /* the last comma */
	trace_end(text_put(trace_room(3), "\n]\n"));
	trace_out(false);
	if (trace_seeks && !trace_error && ftruncate(fileno(trace_file), ftell(trace_file)))
		trace_failed(errno);
	if (fclose(trace_file))
		trace_failed(errno);
	trace_file = NULL;
	timeline_stop();
}
