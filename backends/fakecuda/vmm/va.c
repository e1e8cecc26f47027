/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses of device memory. One sparse memfd holds the memory of all GPUs of all worlds of this
 * process. It is mapped twice: the program's view at FC_VA_BASE (inaccessible under the strict
 * device view), and, FC_VA_LIMIT above it, the alias for kernels, copy engines and HCAs. File
 * offset = address - FC_VA_BASE, so the mapping does not depend on how a world divides the range
 * into slices. Mappings are kept from world to world: a world needs no system call per GPU. A file
 * per GPU would have to be mapped anew for every layout, and offsets of different slices never
 * overlap, so one file suffices.
 *
 * In a strict world of many GPUs, memory is private and has the alias alone, until a range of
 * cuMem with several homes needs the file: a new page costs a third less, and giving back lines
 * that were read costs half. gdb's commands read the alias there. The program's view does not
 * exist, so an access to it faults as it must.
 *
 * The base is fixed per flavour, so addresses are the same in every run. Under ThreadSanitizer it
 * is inside the part of the address space that its shadow allows. Otherwise it is at 32 TiB, and
 * the alias ends at 80 TiB, which is free on x86-64 (4 levels) and aarch64 (48 bits).
 */
#include "backends/fakecuda/fakecuda.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define VA_CHUNK  FC_VA_CHUNK
#define VA_CHUNKS (FC_VA_LIMIT / VA_CHUNK)
#define VA_PAGE   4096u
#define VA_WORDS  (VA_CHUNK / VA_PAGE / 64)
/* Written pages are zeroed and kept for the next world, which is cheaper than faulting in new ones.
 * A GPU with more written pages than this frees them instead. */
#define VA_KEEP_MAX (4u << 20)
/* GPUs' lines that were read keep their pages until all GPUs have so many written pages. */
#define VA_LINES_MIN ((1ull << 30) / VA_PAGE)

/* Strict worlds of more GPUs have private memory. `checked` finds unmarked writes by the file. */
#ifdef DOPPEL_CHECKED
#define VA_SHARED_GPUS UINT32_MAX
#else
#define VA_SHARED_GPUS 128u
#endif

const uint64_t fc_va_range[2] = {FC_VA_BASE, FC_VA_LIMIT};

/* One bit per page. */
struct va_chunk {
	bool alone;                 /* private: no view of the program, no bytes in the file */
	uint64_t written[VA_WORDS]; /* pages that this world wrote */
	uint64_t kept[VA_WORDS];    /* present since some world wrote it */
	uint64_t kept_pages;
	uint64_t touched[VA_WORDS / 64]; /* bits for the words of `written` that are not 0 */
};

static struct {
	int fd; /* 0: not opened yet */
	bool strict;
	bool alone;              /* new chunks of GPUs are private */
	struct va_chunk **chunk; /* NULL: not mapped */
	uint64_t chunks_end;
	uint64_t written_pages; /* of this world; atomic */
} va;

static bool va_open(void)
{
	va.fd = memfd_create("doppel-gpu-memory", MFD_CLOEXEC);
	if (va.fd < 0 || ftruncate(va.fd, (off_t)(FC_VA_LIMIT + FC_EXPORTS_BYTES))) {
		fprintf(stderr, "fakecuda: no memory file for the GPUs: %s\n", strerror(errno));
		va.fd = 0;
		return false;
	}
	va.chunk = calloc(VA_CHUNKS, sizeof(struct va_chunk *));
	ASSERT(va.chunk);
	return true;
}

/* Changes the protection of existing mappings, because the strict view may differ from world to
 * world. */
static bool va_set_strict(bool strict)
{
	if (va.strict == strict)
		return true;
	int prot = strict ? PROT_NONE : PROT_READ | PROT_WRITE;
	for (uint64_t c = 0; c < va.chunks_end; c++) {
		void *at = (void *)(uintptr_t)(FC_VA_BASE + c * VA_CHUNK);
		if (va.chunk[c] && !va.chunk[c]->alone && mprotect(at, VA_CHUNK, prot)) {
			fprintf(stderr, "fakecuda: mprotect of device memory: %s\n",
				strerror(errno));
			return false;
		}
	}
	va.strict = strict;
	return true;
}

static void va_chunk_drop(uint64_t number);

/* Forgets all chunks: the next world maps its own. */
static void va_unmap_all(void)
{
	for (uint64_t c = 0; c < va.chunks_end; c++) {
		uint64_t at = FC_VA_BASE + c * VA_CHUNK;

		if (!va.chunk[c])
			continue;
		va_chunk_drop(c);
		munmap((void *)(uintptr_t)(at + FC_VA_LIMIT), VA_CHUNK);
		if (!va.chunk[c]->alone)
			munmap((void *)(uintptr_t)at, VA_CHUNK);
		free(va.chunk[c]);
		va.chunk[c] = NULL;
	}
	va.chunks_end = 0;
}

bool fc_va_start(uint32_t gpus, uint64_t slice, bool strict)
{
	bool alone = strict && gpus > VA_SHARED_GPUS && sim_engine_kind() == SIM_ENGINE_SIM;

	if (gpus * slice > FC_VA_DEVICES) {
		fprintf(stderr,
			"fakecuda: the world's GPUs need %llu GiB of addresses of %llu: "
			"expected a smaller gpu_va_bytes in struct world_config\n",
			(unsigned long long)(gpus * slice >> 30), FC_VA_DEVICES >> 30);
		return false;
	}
	if (!va.fd && !va_open())
		return false;
	if (va.alone != alone)
		va_unmap_all();
	va.alone = alone;
	va.written_pages = 0;
	return va_set_strict(strict);
}

static bool va_mapped(void *want, void *got, uint64_t bytes)
{
	if (got == want)
		return true;
	fprintf(stderr, "fakecuda: device memory at %p cannot be mapped: %s\n", want,
		got == MAP_FAILED ? strerror(errno) : "the kernel chose another address");
	if (got != MAP_FAILED)
		munmap(got, bytes);
	return false;
}

static bool va_map_file(int fd, uint64_t address, uint64_t bytes, int prot, uint64_t offset)
{
	void *want = (void *)(uintptr_t)address;

	return va_mapped(want,
			 mmap(want, bytes, prot, MAP_SHARED | MAP_FIXED_NOREPLACE | MAP_NORESERVE,
			      fd, (off_t)offset),
			 bytes);
}

static bool va_map_private(uint64_t address)
{
	void *want = (void *)(uintptr_t)address;

	return va_mapped(want,
			 mmap(want, VA_CHUNK, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1,
			      0),
			 VA_CHUNK);
}

/* Maps a chunk of the file in both views. */
static bool va_map_both(int fd, uint64_t number)
{
	uint64_t at = FC_VA_BASE + number * VA_CHUNK;
	int prot = va.strict ? PROT_NONE : PROT_READ | PROT_WRITE;

	if (!va_map_file(fd, at, VA_CHUNK, prot, number * VA_CHUNK))
		return false;
	if (va_map_file(fd, at + FC_VA_LIMIT, VA_CHUNK, PROT_READ | PROT_WRITE, number * VA_CHUNK))
		return true;
	munmap((void *)(uintptr_t)at, VA_CHUNK);
	return false;
}

/* Maps a chunk of the file; -1: private memory. */
static bool va_chunk_add(uint64_t number, int fd)
{
	if (fd < 0 ? !va_map_private(FC_VA_BASE + number * VA_CHUNK + FC_VA_LIMIT)
		   : !va_map_both(fd, number))
		return false;
	va.chunk[number] = calloc(1, sizeof(struct va_chunk));
	ASSERT(va.chunk[number]);
	va.chunk[number]->alone = fd < 0;
	va.chunks_end = MAX_OF(va.chunks_end, number + 1);
	return true;
}

bool fc_va_map_file(int fd, uint64_t address, uint64_t bytes)
{
	ASSERT(address >= FC_VA_BASE && bytes);
	uint64_t first = (address - FC_VA_BASE) / VA_CHUNK;
	uint64_t last = (address + bytes - 1 - FC_VA_BASE) / VA_CHUNK;

	ASSERT(last < VA_CHUNKS);
	for (uint64_t c = first; c <= last; c++)
		if (!va.chunk[c] && !va_chunk_add(c, fd))
			return false;
	return true;
}

bool fc_va_is_alone(uint64_t home)
{
	return va.alone && home < FC_HOST_BASE;
}

bool fc_va_map(uint64_t address, uint64_t bytes)
{
	return fc_va_map_file(fc_va_is_alone(address) ? -1 : va.fd, address, bytes);
}

int fc_va_file(void)
{
	return va.fd;
}

/* Moves a private chunk into the file: a window will show a part of it. */
static bool va_share(uint64_t number)
{
	struct va_chunk *c = va.chunk[number];
	uint64_t at = FC_VA_BASE + number * VA_CHUNK;

	for (uint64_t page = 0; page < VA_CHUNK / VA_PAGE; page++)
		if (c->written[page / 64] >> page % 64 & 1 &&
		    pwrite(va.fd, fc_alias(at + page * VA_PAGE), VA_PAGE,
			   (off_t)(number * VA_CHUNK + page * VA_PAGE)) != VA_PAGE)
			return false;
	munmap(fc_alias(at), VA_CHUNK);
	c->alone = false;
	return va_map_both(va.fd, number);
}

bool fc_va_window(uint64_t at, uint64_t home, uint64_t bytes)
{
	bool closed = va.strict || home >= FC_HOST_BASE;

	for (uint64_t c = (home - FC_VA_BASE) / VA_CHUNK;
	     c <= (home + bytes - 1 - FC_VA_BASE) / VA_CHUNK; c++)
		if (va.chunk[c]->alone && !va_share(c))
			return false;
	if (!va_map_file(va.fd, at, bytes, closed ? PROT_NONE : PROT_READ | PROT_WRITE,
			 home - FC_VA_BASE))
		return false;
	if (va_map_file(va.fd, at + FC_VA_LIMIT, bytes, PROT_READ | PROT_WRITE, home - FC_VA_BASE))
		return true;
	munmap((void *)(uintptr_t)at, bytes);
	return false;
}

void fc_va_open(uint64_t at, uint64_t bytes, bool open)
{
	int rc = mprotect((void *)(uintptr_t)at, bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE);

	ASSERT(rc == 0);
}

void fc_va_unwindow(uint64_t at, uint64_t bytes)
{
	munmap((void *)(uintptr_t)at, bytes);
	munmap((void *)(uintptr_t)(at + FC_VA_LIMIT), bytes);
}

static void va_mark_piece(uint64_t address, uint64_t bytes)
{
	uint64_t page = (address - FC_VA_BASE) / VA_PAGE;
	uint64_t last = (address - FC_VA_BASE + bytes - 1) / VA_PAGE;

	for (; page <= last; page++) {
		struct va_chunk *c = va.chunk[page / (VA_CHUNK / VA_PAGE)];
		ASSERT(c);
		uint64_t i = page / 64 % VA_WORDS, bit = 1ull << page % 64;
		if (__atomic_load_n(&c->written[i], __ATOMIC_RELAXED) & bit)
			continue;
		__atomic_fetch_or(&c->written[i], bit, __ATOMIC_RELAXED);
		__atomic_fetch_or(&c->touched[i / 64], 1ull << i % 64, __ATOMIC_RELAXED);
		__atomic_fetch_add(&va.written_pages, 1, __ATOMIC_RELAXED);
	}
}

void fc_va_mark(uint64_t address, uint64_t bytes)
{
	uint64_t home;

	for (uint64_t n; bytes; bytes -= n, address += n) {
		n = fc_vmm_piece(address, bytes, &home);
		va_mark_piece(home, n);
	}
}

/* Returns bits for `page`, the lowest, and the pages after it in its word of `written`. */
static uint64_t va_written(uint64_t page)
{
	const struct va_chunk *c = va.chunk[page / (VA_CHUNK / VA_PAGE)];

	ASSERT(c);
	uint64_t word = __atomic_load_n(&c->written[page / 64 % VA_WORDS], __ATOMIC_RELAXED);
	return word >> page % 64;
}

static void va_forget(uint64_t page)
{
	struct va_chunk *c = va.chunk[page / (VA_CHUNK / VA_PAGE)];
	uint64_t *written = &c->written[page / 64 % VA_WORDS], bit = 1ull << page % 64;
	uint64_t *kept = &c->kept[page / 64 % VA_WORDS];

	va.written_pages -= (*written & bit) != 0;
	c->kept_pages -= (*kept & bit) != 0;
	*written &= ~bit;
	*kept &= ~bit;
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

void fc_va_lines_read(uint64_t address, uint64_t bytes)
{
	uint64_t home, page, end;

	if (sim_engine_kind() == SIM_ENGINE_THREADS || va.written_pages < VA_LINES_MIN)
		return;
	if (fc_vmm_piece(address, bytes, &home) != bytes || home >= FC_HOST_BASE)
		return;
	page = DIV_UP(home - FC_VA_BASE, VA_PAGE);
	end = (va_lines_end(home + bytes) - FC_VA_BASE) / VA_PAGE;
	end = MIN_OF(end, ALIGN_UP(page + 1, VA_CHUNK / VA_PAGE)); /* of one chunk */
	if (page >= end || !va_give_back(page, end))
		return;
	for (; page < end; page++)
		va_forget(page);
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
static uint64_t va_touched(const struct va_chunk *c, uint64_t i)
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
static uint64_t va_chunk_keep(struct va_chunk *c)
{
	for (uint64_t i = va_touched(c, 0); i < VA_WORDS; i = va_touched(c, i + 1)) {
		c->kept_pages += (uint64_t)__builtin_popcountll(c->written[i] & ~c->kept[i]);
		c->kept[i] |= c->written[i];
	}
	return c->kept_pages;
}

static void va_chunk_zero(uint64_t number)
{
	struct va_chunk *c = va.chunk[number];
	for (uint64_t i = va_touched(c, 0); i < VA_WORDS; i = va_touched(c, i + 1)) {
		for (; c->written[i]; c->written[i] &= c->written[i] - 1) {
			uint64_t page = 64 * i + (uint64_t)__builtin_ctzll(c->written[i]);
			memset(fc_alias(FC_VA_BASE + number * VA_CHUNK + page * VA_PAGE), 0,
			       VA_PAGE);
		}
	}
	memset(c->touched, 0, sizeof c->touched);
}

static void va_chunk_drop(uint64_t number)
{
	const uint64_t pages = VA_CHUNK / VA_PAGE;
	bool dropped = va_give_back(number * pages, (number + 1) * pages);

	ASSERT(dropped);
	*va.chunk[number] = (struct va_chunk){.alone = va.chunk[number]->alone};
}

/* Zeroes the range. Without the strict view all of it is dropped, because the program may have
 * written anywhere without a report. */
void fc_va_wipe(uint64_t address, uint64_t bytes)
{
	uint64_t begin = address - FC_VA_BASE, end = begin + bytes, pages = 0;
	for (uint64_t c = begin / VA_CHUNK; c * VA_CHUNK < end; c++)
		if (va.chunk[c])
			pages += va_chunk_keep(va.chunk[c]);
	bool drop = !va.strict || pages > VA_KEEP_MAX / VA_PAGE;
	for (uint64_t c = begin / VA_CHUNK; c * VA_CHUNK < end; c++) {
		if (va.chunk[c] && drop)
			va_chunk_drop(c);
		else if (va.chunk[c])
			va_chunk_zero(c);
	}
	va_check_zero(begin, end);
}

bool fc_va_is_device(uint64_t address)
{
	return address - FC_VA_BASE < FC_VA_LIMIT;
}

const void *fc_va_resolve(const void *address)
{
	return fc_alias((uint64_t)(uintptr_t)address);
}

/* Returns the address by which waits identify a word, the same for all of its mappings. */
const void *fc_va_home(const void *address)
{
	return (const void *)(uintptr_t)fc_home((uint64_t)(uintptr_t)address);
}
