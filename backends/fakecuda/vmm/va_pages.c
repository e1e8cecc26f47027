/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pages of device memory: which ones a world wrote, so that its end zeroes them, and which ones are
 * given back while it runs. Called by the functions that write device memory.
 *
 * Lines of LL128 are stored once and read once. Worlds with much memory in use give their pages
 * back: those of the reader after a thread has read the lines (fc_va_lines_read), and those of the
 * sender after an HCA has read them (fc_va_lines_sent). The pages are zero then, and no line has
 * the flag zero, so they remain lines of no step. A send may be repeated after a fault, and the
 * memory model looks at words of the past, so worlds with either keep the lines that were sent.
 */
#include "backends/fakecuda/vmm/va_internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Written pages are zeroed and kept for the next world, which is cheaper than faulting in new ones.
 * A GPU with more written pages than this frees them instead. */
#define VA_KEEP_MAX (4u << 20)
/* Lines in the file that were read keep their pages until all GPUs have so many written pages. In
 * private memory giving back costs less than new pages. */
#define VA_LINES_MIN ((1ull << 30) / VA_PAGE)

static struct va_pages *va_pages_make(struct va_chunk *c)
{
	struct va_pages *fresh = calloc(1, sizeof *fresh), *other = NULL;

	ASSERT(fresh);
	if (__atomic_compare_exchange_n(&c->pages, &other, fresh, false, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE))
		return fresh;
	free(fresh);
	return other;
}

static struct va_pages *va_pages_at(uint64_t page)
{
	struct va_chunk *c = va.chunk[page / (VA_CHUNK / VA_PAGE)];

	ASSERT(c);
	struct va_pages *pages = __atomic_load_n(&c->pages, __ATOMIC_ACQUIRE);

	return LIKELY(pages) ? pages : va_pages_make(c);
}

/* Marks a page before it is written, with lines or with anything else. */
static inline void va_mark_page(uint64_t page, bool lines)
{
	struct va_pages *p = va_pages_at(page);
	uint64_t i = page / 64 % VA_WORDS, bit = 1ull << page % 64;

	if (!(__atomic_load_n(&p->written[i], __ATOMIC_RELAXED) & bit)) {
		__atomic_fetch_or(&p->written[i], bit, __ATOMIC_RELAXED);
		__atomic_fetch_or(&p->touched[i / 64], 1ull << i % 64, __ATOMIC_RELAXED);
		__atomic_fetch_add(&va.written_pages, 1, __ATOMIC_RELAXED);
		if (lines)
			p->lines[i] |= bit;
	} else if (!lines && va.alone) {
		p->lines[i] &= ~bit;
	}
}

static void va_mark_piece(uint64_t address, uint64_t bytes, bool lines)
{
	uint64_t page = (address - FC_VA_BASE) / VA_PAGE;
	uint64_t last = (address - FC_VA_BASE + bytes - 1) / VA_PAGE;

	for (; page <= last; page++)
		va_mark_page(page, lines);
}

void fc_va_mark(uint64_t address, uint64_t bytes)
{
	uint64_t home;

	for (uint64_t n; bytes; bytes -= n, address += n) {
		n = fc_vmm_piece(address, bytes, &home);
		va_mark_piece(home, n, false);
	}
}

void fc_va_lines_written(uint64_t address, uint64_t bytes)
{
	uint64_t home;

	for (uint64_t n; bytes && address - FC_VA_BASE < FC_VA_LIMIT; bytes -= n, address += n) {
		n = fc_vmm_piece(address, bytes, &home);
		va_mark_piece(home, n, va.alone);
	}
}

/* Returns bits for `page`, the lowest, and the pages after it in its word of `written`. */
static uint64_t va_written(uint64_t page)
{
	const struct va_chunk *c = va.chunk[page / (VA_CHUNK / VA_PAGE)];

	ASSERT(c);
	const struct va_pages *p = __atomic_load_n(&c->pages, __ATOMIC_ACQUIRE);
	uint64_t word =
		p ? __atomic_load_n(&p->written[page / 64 % VA_WORDS], __ATOMIC_RELAXED) : 0;

	return word >> page % 64;
}

static void va_forget(uint64_t page)
{
	struct va_pages *p = va_pages_at(page);
	uint64_t i = page / 64 % VA_WORDS, bit = 1ull << page % 64;

	va.written_pages -= (p->written[i] & bit) != 0;
	p->kept_pages -= (p->kept[i] & bit) != 0;
	p->written[i] &= ~bit;
	p->lines[i] &= ~bit;
	p->kept[i] &= ~bit;
}

/* Frees the pages of one chunk: they are zero again. */
static bool va_give_back(uint64_t page, uint64_t end)
{
	const uint64_t offset = page * VA_PAGE, bytes = (end - page) * VA_PAGE;
	const struct va_chunk *c = va.chunk[offset / VA_CHUNK];

	ASSERT(c && c == va.chunk[(offset + bytes - 1) / VA_CHUNK]);
	if (c->alone)
		return !madvise(fc_alias(FC_VA_BASE + offset), bytes, MADV_DONTNEED);
	return !fallocate(va.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
			  (off_t)bytes);
}

/* Returns the end of the pages to give back after lines that end at `end`: with its page, if what
 * follows there is zero. Most chunks end within a page. */
static uint64_t va_lines_end(uint64_t end)
{
	const uint64_t *at = fc_alias(end);

	while ((uintptr_t)at % VA_PAGE && !*at)
		at++;
	return end + (uint64_t)((uintptr_t)at - (uintptr_t)fc_alias(end));
}

/* Gives back the pages from `page` to `end`, of one chunk. */
static void va_lines_drop(uint64_t page, uint64_t end)
{
	if (page >= end || !va_give_back(page, end))
		return;
	for (; page < end; page++)
		va_forget(page);
}

/* True if lines are given back at all. *home: where the range is; its pages are of one GPU. */
static bool va_lines_go(uint64_t address, uint64_t bytes, uint64_t *home)
{
	if (sim_engine_kind() == SIM_ENGINE_THREADS ||
	    (!va.alone && va.written_pages < VA_LINES_MIN))
		return false;
	return fc_vmm_piece(address, bytes, home) == bytes && *home < FC_HOST_BASE;
}

void fc_va_lines_read(uint64_t address, uint64_t bytes)
{
	uint64_t home, page, end;

	if (!va_lines_go(address, bytes, &home))
		return;
	page = DIV_UP(home - FC_VA_BASE, VA_PAGE);
	end = (va_lines_end(home + bytes) - FC_VA_BASE) / VA_PAGE;
	end = MIN_OF(end, ALIGN_UP(page + 1, VA_CHUNK / VA_PAGE)); /* of one chunk */
	va_lines_drop(page, end);
}

/* Returns the end of the pages from `page` on that have lines alone, before `last`. */
static uint64_t va_lines_run(uint64_t page, uint64_t last)
{
	const struct va_pages *p = va_pages_at(page);

	last = MIN_OF(last, ALIGN_UP(page + 1, VA_CHUNK / VA_PAGE)); /* of one chunk */
	while (page < last && p->lines[page / 64 % VA_WORDS] >> page % 64 & 1)
		page++;
	return page;
}

void fc_va_lines_sent(uint64_t address, uint64_t bytes)
{
	uint64_t home, last;

	if (!va.alone || mem_on || sim_faults_armed() || !va_lines_go(address, bytes, &home))
		return;
	last = (va_lines_end(home + bytes) - FC_VA_BASE) / VA_PAGE;
	for (uint64_t page = DIV_UP(home - FC_VA_BASE, VA_PAGE), end; page < last; page = end + 1) {
		end = va_lines_run(page, last);
		va_lines_drop(page, end);
	}
}

/* Sets *first and *end to the bytes between which it wrote, if it did. */
static void va_zero_piece(uint64_t address, uint64_t bytes, uint64_t *first, uint64_t *end)
{
	const uint64_t last = address + bytes;

	for (uint64_t at = address, next; at < last; at = next) {
		uint64_t page = (at - FC_VA_BASE) / VA_PAGE;
		uint64_t written = va.strict ? va_written(page) : 1;
		uint64_t pages = written ? (uint64_t)__builtin_ctzll(written) : 64 - page % 64;

		next = MIN_OF(FC_VA_BASE + (page + MAX_OF(pages, 1)) * VA_PAGE, last);
		if (!(written & 1))
			continue;
		memset(fc_alias(at), 0, next - at);
		*first = MIN_OF(*first, at);
		*end = next;
	}
}

void fc_va_zero(uint64_t *address, uint64_t *bytes)
{
	uint64_t at = *address, left = *bytes, first = UINT64_MAX, end = at, home;

	for (uint64_t n; left; left -= n, at += n) {
		uint64_t piece_first = UINT64_MAX, piece_end = 0;

		n = fc_vmm_piece(at, left, &home);
		va_zero_piece(home, n, &piece_first, &piece_end);
		if (!piece_end)
			continue;
		first = MIN_OF(first, at + (piece_first - home));
		end = at + (piece_end - home);
	}
	*address = MIN_OF(first, *address + *bytes - 1);
	*bytes = MAX_OF(end, *address + 1) - *address;
}

/* True if the range is device memory of which no page was written. Programs write pinned memory
 * without a report. */
static bool va_is_new(uint64_t address, uint64_t bytes)
{
	uint64_t home;

	if (!va.strict || address - FC_VA_BASE >= FC_VA_LIMIT)
		return false;
	for (uint64_t n; bytes; bytes -= n, address += n) {
		n = fc_vmm_piece(address, bytes, &home);
		uint64_t page = (home - FC_VA_BASE) / VA_PAGE;
		uint64_t last = (home - FC_VA_BASE + n - 1) / VA_PAGE;

		if (home >= FC_HOST_BASE)
			return false;
		for (; page <= last; page++)
			if (va_written(page) & 1)
				return false;
	}
	return true;
}

static bool va_is_zero(const uint8_t *at, uint64_t bytes)
{
	return !at[0] && !memcmp(at, at + 1, bytes - 1);
}

/* Copies a piece of one page of the destination. A page that is zero before and after is not
 * touched. */
static void va_move_piece(uint64_t dst, uint64_t src, uint8_t *to, const uint8_t *from,
			  uint64_t bytes)
{
	bool fresh = va_is_new(dst, bytes);

	if (va_is_new(src, bytes) || (fresh && va_is_zero(from, bytes))) {
		if (!fresh && !va_is_zero(to, bytes))
			memset(to, 0, bytes);
		return;
	}
	fc_va_wrote(dst, bytes);
	memcpy(to, from, bytes);
}

void fc_va_move(uint64_t dst, uint64_t src, uint64_t bytes)
{
	const uint8_t *from = fc_alias_range(src, bytes);
	uint8_t *to = fc_alias_range(dst, bytes);

	if (from < to + bytes && to < from + bytes) {
		fc_va_wrote(dst, bytes);
		memmove(to, from, bytes);
		return;
	}
	for (uint64_t at = 0, n; at < bytes; at += n) {
		n = MIN_OF(VA_PAGE - (dst + at) % VA_PAGE, bytes - at);
		va_move_piece(dst + at, src + at, to + at, from + at, n);
	}
}

#ifdef DOPPEL_CHECKED
/* Asserts that the range is zero. A writer that does not report its writes would give the next
 * world different memory from a new one. */
static void va_check_zero(uint64_t at, uint64_t end)
{
	while (at < end) {
		off_t data = lseek(va.fd, (off_t)at, SEEK_DATA), hole;
		if (data < 0 || (uint64_t)data >= end)
			return;
		hole = lseek(va.fd, data, SEEK_HOLE);
		const uint64_t *word = fc_alias(FC_VA_BASE + (uint64_t)data);
		for (at = (uint64_t)data; at < MIN_OF((uint64_t)hole, end); at += sizeof *word)
			ASSERT(!*word++);
	}
}
#else
static void va_check_zero(uint64_t at, uint64_t end)
{
	(void)at, (void)end;
}
#endif

/* Returns the index of the next non-zero word of `written` from i on; VA_WORDS if there is no such
 * word. */
static uint64_t va_touched(const struct va_pages *c, uint64_t i)
{
	while (i < VA_WORDS) {
		uint64_t bits = c->touched[i / 64] >> i % 64;

		if (bits)
			return i + (uint64_t)__builtin_ctzll(bits);
		i = (i / 64 + 1) * 64;
	}
	return VA_WORDS;
}

/* Marks the pages that the world wrote as kept. Returns the number of kept pages. */
static uint64_t va_chunk_keep(struct va_pages *c)
{
	if (!c)
		return 0;
	for (uint64_t i = va_touched(c, 0); i < VA_WORDS; i = va_touched(c, i + 1)) {
		c->kept_pages += (uint64_t)__builtin_popcountll(c->written[i] & ~c->kept[i]);
		c->kept[i] |= c->written[i];
	}
	return c->kept_pages;
}

static void va_chunk_zero(uint64_t number)
{
	struct va_pages *c = va.chunk[number]->pages;

	if (!c)
		return;
	for (uint64_t i = va_touched(c, 0); i < VA_WORDS; i = va_touched(c, i + 1)) {
		for (; c->written[i]; c->written[i] &= c->written[i] - 1) {
			uint64_t page = 64 * i + (uint64_t)__builtin_ctzll(c->written[i]);
			memset(fc_alias(FC_VA_BASE + number * VA_CHUNK + page * VA_PAGE), 0,
			       VA_PAGE);
		}
	}
	memset(c->touched, 0, sizeof c->touched);
}

void va_chunk_drop(uint64_t number)
{
	const uint64_t pages = VA_CHUNK / VA_PAGE;
	bool dropped = va_give_back(number * pages, (number + 1) * pages);

	ASSERT(dropped);
	free(va.chunk[number]->pages);
	va.chunk[number]->pages = NULL;
}

/* Zeroes the range. Without the strict view all of it is dropped, because the program may have
 * written anywhere without a report. */
void fc_va_wipe(uint64_t address, uint64_t bytes)
{
	uint64_t begin = address - FC_VA_BASE, end = begin + bytes, pages = 0;
	for (uint64_t c = begin / VA_CHUNK; c * VA_CHUNK < end; c++)
		if (va.chunk[c])
			pages += va_chunk_keep(va.chunk[c]->pages);
	bool drop = !va.strict || pages > VA_KEEP_MAX / VA_PAGE;
	for (uint64_t c = begin / VA_CHUNK; c * VA_CHUNK < end; c++) {
		if (va.chunk[c] && drop)
			va_chunk_drop(c);
		else if (va.chunk[c])
			va_chunk_zero(c);
	}
	va_check_zero(begin, end);
}
