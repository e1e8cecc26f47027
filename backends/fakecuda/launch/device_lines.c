/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines that kernels' threads store and load (core/device/shim/shim_fake.h, fakedev_lines_*,
 * fakedev_pairs_*). Accesses are checked, charged and reported as in device_access.c.
 */
#include "backends/fakecuda/launch/device_access.h"

/* ---- lines of 16 bytes ---------------------------------------------------------------------- */

/* True if the memory model took the store of a word. */
static inline bool run_store_taken(const uint64_t *p, uint64_t v)
{
	if (LIKELY(!mem_on))
		return false;
	struct mem_access a = run_access(p, 8, SHARED_STORE, SHARED_RELAXED, SHARED_SYSTEM);

	return mem_store(&a, v);
}

/* Stores one half of each line. The flag is part of the half, so the store has release order on
 * the thread engine: an HCA reads the line by plain loads after the proxy saw the flag. The memory
 * model of the GPU sees a relaxed store. */
static void run_store_halves(uint64_t *p, const struct v16 *lines, uint32_t n, bool second)
{
	uint64_t *at = fc_alias_range((uintptr_t)p, n * (uint64_t)DEV_LINE_BYTES);

	for (uint32_t i = 0; i < n; i++) {
		uint32_t word = 2 * i + second;
		uint64_t v = second ? lines[i].hi : lines[i].lo;

		if (!run_store_taken(p + word, v))
			run_store(at + word, 8, v, SHARED_RELEASE);
	}
	fc_wrote(p, n * DEV_LINE_BYTES);
}

void fakedev_lines_store(struct dev *d, void *p, const struct v16 *lines, uint32_t n)
{
	uint64_t bytes = n * (uint64_t)DEV_LINE_BYTES;

	run_enter(d, "dev.lines");
	run_word(d, "store of a line", p, (int)DEV_LINE_BYTES);
	run_charge(d, run_range(d, "store of lines", p, bytes), true, bytes);
	run_use(d, p, bytes, true);
	fc_shadow_write((uintptr_t)p, bytes);
	fc_va_wrote((uintptr_t)p, bytes);
	run_store_halves(p, lines, n, false);
	run_enter(d, "dev.lines.second");
	run_store_halves(p, lines, n, true);
}

uint32_t fakedev_lines_load(struct dev *d, const void *p, uint32_t flag, struct v16 *lines,
			    uint32_t n)
{
	uint64_t bytes = n * (uint64_t)DEV_LINE_BYTES;
	uint32_t i;

	run_enter(d, "dev.lines");
	run_word(d, "load of a line", p, (int)DEV_LINE_BYTES);
	const struct fc_range *range = run_range(d, "load of lines", p, bytes);
	run_use(d, p, bytes, false);
	struct mem_access a = run_access(p, bytes, SHARED_LOAD, SHARED_RELAXED, SHARED_SYSTEM);
	mem_access(&a);
	const uint64_t *at = a.addr;
	for (i = 0; i < n; i++, at += 2) {
		lines[i].lo = __atomic_load_n(at, __ATOMIC_ACQUIRE);
		lines[i].hi = __atomic_load_n(at + 1, __ATOMIC_ACQUIRE);
		if (lines[i].lo >> 32 != flag || lines[i].hi >> 32 != flag)
			break;
	}
	run_charge(d, range, false, i * (uint64_t)DEV_LINE_BYTES);
	return i;
}

/* ---- pairs of lines of 128 bytes ------------------------------------------------------------ */

/* Writes of a line in a GPU's memory, or between two GPUs over NVLink, are atomic: its words become
 * visible together. Over PCIe, also to and from host memory, each word is written separately. */

enum {
	LINE128_WORDS = DEV_LINE128_BYTES / 8,
	LINE128_FLAG = LINE128_WORDS - 1,
	LINE128_LAST_PIECE = LINE128_WORDS - 2,
	PAIR_WORDS = DEV_PAIR_DATA / 8,
};

DOPPEL_STATIC_CHECK(PAIR_WORDS == 2 * LINE128_FLAG, "all words but the flags are data");

/* Returns the index, in the data of pairs (work.h), of word `word` of line `line`. */
static inline uint32_t line128_index(uint32_t line, uint32_t word)
{
	uint32_t pair = line / 2 * PAIR_WORDS, odd = line % 2;

	return word < LINE128_LAST_PIECE ? pair + odd * LINE128_WORDS + word : pair + word + odd;
}

/* Fills in the words of line `line`. */
static inline void line128_make(uint64_t words[LINE128_WORDS], uint32_t line, const uint64_t *data,
				uint64_t flag)
{
	memcpy(words, &data[line128_index(line, 0)], LINE128_LAST_PIECE * sizeof *words);
	words[LINE128_LAST_PIECE] = data[line128_index(line, LINE128_LAST_PIECE)];
	words[LINE128_FLAG] = flag;
}

bool run_keeps_lines(struct dev *d, const struct fc_range *r)
{
	const struct fc_device *dev = d->blk->kernel->ctx->dev;

	if (r->kind == FC_RANGE_PEER)
		return dev->gpu->nvlinks && fc_device_at(r->lo)->gpu->nvlinks;
	return r->kind != FC_RANGE_HOST;
}

static const struct fc_range *run_pairs(struct dev *d, const char *what, const void *p,
					uint32_t lines)
{
	if (UNLIKELY((uintptr_t)p % DEV_LINE128_BYTES))
		run_trap(d, cudaErrorMisalignedAddress, "misaligned address: %s of 128 bytes at %p",
			 what, p);
	return run_range(d, what, p, (uint64_t)lines * DEV_LINE128_BYTES);
}

/* The arguments of a store of pairs. */
struct run_pairs_store {
	uint64_t *p;
	const uint64_t *data;
	uint32_t lines;
	uint64_t flag;
};

/* Stores words from..to of each line, one by one. The flag is the last of them. */
static void run_store_words(struct dev *d, const struct run_pairs_store *s, uint32_t from,
			    uint32_t to)
{
	int order = run_self(d)->fence_store ? SHARED_RELEASE : SHARED_RELAXED;
	uint64_t words[LINE128_WORDS], *p = s->p;
	uint64_t *at = fc_alias_range((uintptr_t)p, (uint64_t)s->lines * DEV_LINE128_BYTES);

	for (uint32_t i = 0; i < s->lines; i++, p += LINE128_WORDS, at += LINE128_WORDS) {
		line128_make(words, i, s->data, s->flag);
		for (uint32_t k = from; k < to; k++)
			if (!run_store_taken(p + k, words[k]))
				run_store(at + k, 8, words[k], order);
	}
	fc_wrote(s->p, (size_t)s->lines * DEV_LINE128_BYTES);
}

static void run_store_whole(const struct run_pairs_store *s)
{
	uint64_t words[LINE128_WORDS], *p = s->p, *at = fc_alias((uintptr_t)p);

	for (uint32_t i = 0; i < s->lines; i++, p += LINE128_WORDS, at += LINE128_WORDS) {
		line128_make(words, i, s->data, s->flag);
		if (UNLIKELY(mem_on)) {
			struct mem_access a = run_access(p, DEV_LINE128_BYTES, SHARED_STORE,
							 SHARED_RELAXED, SHARED_SYSTEM);

			if (mem_store_whole(&a, words))
				continue;
		}
		for (uint32_t k = 0; k < LINE128_FLAG; k++)
			run_store(at + k, 8, words[k], SHARED_RELAXED);
		run_store(at + LINE128_FLAG, 8, s->flag, SHARED_RELEASE);
	}
	fc_wrote(s->p, (size_t)s->lines * DEV_LINE128_BYTES);
}

void fakedev_pairs_store(struct dev *d, void *p, const uint64_t *data, uint32_t pairs,
			 uint64_t flag)
{
	const struct run_pairs_store s = {p, data, 2 * pairs, flag};
	uint64_t bytes = (uint64_t)pairs * DEV_PAIR_BYTES;

	run_enter(d, "dev.pairs");
	const struct fc_range *range = run_pairs(d, "store of a line", p, s.lines);
	bool whole = run_keeps_lines(d, range);

	run_charge(d, range, true, bytes);
	run_use(d, p, bytes, true);
	fc_shadow_write((uintptr_t)p, bytes);
	fc_va_lines_written((uintptr_t)p, bytes);
	if (whole) {
		run_store_whole(&s);
		return;
	}
	run_store_words(d, &s, LINE128_LAST_PIECE, LINE128_WORDS);
	run_enter(d, "dev.pairs.torn");
	run_store_words(d, &s, 0, LINE128_LAST_PIECE);
}

/* Returns the first line from `first` to `lines` without the flag, `lines` if each has it. The data
 * of the lines before it is in `data`. */
static uint32_t run_load_whole(const uint64_t *at, uint64_t flag, uint64_t *data, uint32_t first,
			       uint32_t lines)
{
	for (uint32_t i = first; i < lines; i++) {
		const uint64_t *line = at + i * LINE128_WORDS;

		if (__atomic_load_n(line + LINE128_FLAG, __ATOMIC_ACQUIRE) != flag)
			return i;
		uint64_t *to = &data[line128_index(i, 0)];

		for (uint32_t k = 0; k < LINE128_LAST_PIECE; k++)
			to[k] = __atomic_load_n(line + k, __ATOMIC_RELAXED);
		data[line128_index(i, LINE128_LAST_PIECE)] =
			__atomic_load_n(line + LINE128_LAST_PIECE, __ATOMIC_RELAXED);
	}
	return lines;
}

/* The same for lines that may be torn: loads the data before the flags. */
static uint32_t run_load_torn(struct dev *d, const struct mem_access *a, const uint64_t *at,
			      uint64_t flag, uint64_t *data, uint32_t first, uint32_t lines)
{
	for (uint32_t i = first; i < lines; i++)
		for (uint32_t k = 0; k < LINE128_FLAG; k++)
			data[line128_index(i, k)] =
				__atomic_load_n(at + i * LINE128_WORDS + k, __ATOMIC_ACQUIRE);
	run_enter(d, "dev.pairs.torn");
	mem_access(a);
	for (uint32_t i = first; i < lines; i++)
		if (__atomic_load_n(at + i * LINE128_WORDS + LINE128_FLAG, __ATOMIC_ACQUIRE) !=
		    flag)
			return i;
	return lines;
}

/* Lines that a thread has read are given back together: a system call for four pages costs little
 * more than one for two. They are given back before the slot is (run_lines_done). */
enum { RUN_LINES_BYTES = 16 << 10 };

void run_lines_end(struct run_thread *t)
{
	if (t->lines.bytes)
		fc_va_lines_read(t->lines.at, t->lines.bytes);
	t->lines = (struct run_lines){0};
}

static void run_lines_read(struct run_thread *t, const void *p, uint32_t lines)
{
	uint64_t at = (uintptr_t)p, bytes = (uint64_t)lines * DEV_LINE128_BYTES;

	if (at != t->lines.at + t->lines.bytes)
		run_lines_end(t);
	if (!t->lines.bytes)
		t->lines.at = at;
	t->lines.bytes += bytes;
	if (t->lines.bytes >= RUN_LINES_BYTES)
		run_lines_end(t);
}

/* All threads of the engine `sim` share it. */
static uint64_t run_room[DEV_WARP_PAIRS_MOST * DEV_PAIR_DATA / 8];

uint64_t *fakedev_room(struct dev *d, bool whole)
{
	struct run_thread *t = run_self(d);

	if (whole && !mem_on && sim_engine_kind() == SIM_ENGINE_SIM)
		return run_room;
	if (!t->room)
		t->room = fc_device_alloc(sizeof run_room);
	return t->room;
}

uint32_t fakedev_pairs_load(struct dev *d, const void *p, uint64_t flag, uint64_t *data,
			    uint32_t first, uint32_t lines)
{
	const uint8_t *from = (const uint8_t *)p + first * DEV_LINE128_BYTES;
	uint64_t bytes = (uint64_t)(lines - first) * DEV_LINE128_BYTES;
	uint32_t n;

	run_enter(d, "dev.pairs");
	const struct fc_range *range = run_pairs(d, "load of a line", from, lines - first);
	struct mem_access a = run_access(from, bytes, SHARED_LOAD, SHARED_RELAXED, SHARED_SYSTEM);
	const uint64_t *at = fc_alias((uintptr_t)p);

	run_use(d, from, bytes, false);
	mem_access(&a);
	n = run_keeps_lines(d, range) ? run_load_whole(at, flag, data, first, lines)
				      : run_load_torn(d, &a, at, flag, data, first, lines);
	if (data == run_room && n == lines)
		(void)run_load_whole(at, flag, data, 0, first); /* another thread had the room */
	run_charge(d, range, false, (uint64_t)(n - first) * DEV_LINE128_BYTES);
	if (n == lines && range->kind != FC_RANGE_HOST && LIKELY(!mem_on))
		run_lines_read(run_self(d), p, lines);
	return n;
}
