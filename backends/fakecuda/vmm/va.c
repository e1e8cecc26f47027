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
#include "backends/fakecuda/vmm/va_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Strict worlds of more GPUs have private memory. `checked` finds unmarked writes by the file. */
#ifdef DOPPEL_CHECKED
#define VA_SHARED_GPUS UINT32_MAX
#else
#define VA_SHARED_GPUS 128u
#endif

const uint64_t fc_va_range[2] = {FC_VA_BASE, FC_VA_LIMIT};

struct va_state va;

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
		free(va.chunk[c]->pages);
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

	for (uint64_t page = 0; c->pages && page < VA_CHUNK / VA_PAGE; page++)
		if (c->pages->written[page / 64] >> page % 64 & 1 &&
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
	int fd = fc_share_on() ? fc_share_file(home) : va.fd;

	for (uint64_t c = (home - FC_VA_BASE) / VA_CHUNK;
	     c <= (home + bytes - 1 - FC_VA_BASE) / VA_CHUNK; c++)
		if (va.chunk[c]->alone && !va_share(c))
			return false;
	if (!va_map_file(fd, at, bytes, closed ? PROT_NONE : PROT_READ | PROT_WRITE,
			 home - FC_VA_BASE))
		return false;
	if (va_map_file(fd, at + FC_VA_LIMIT, bytes, PROT_READ | PROT_WRITE, home - FC_VA_BASE))
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
