/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bits are in one reserved range, an eighth of the device range, of which only touched pages
 * exist. A byte of bits that two writers share is changed atomically, because neighbours may write
 * at the same time.
 */
#include "backends/fakecuda/shadow.h"

#ifdef DOPPEL_CHECKED
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "backends/fakecuda/fakecuda.h"

static uint8_t *shadow_bits(void)
{
	static uint8_t *bits;
	uint8_t *have = __atomic_load_n(&bits, __ATOMIC_ACQUIRE);
	if (have)
		return have;
	void *fresh = mmap(NULL, FC_VA_LIMIT / 8, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (fresh == MAP_FAILED) {
		fprintf(stderr, "fakecuda: no address range for shadow state: %s\n",
			strerror(errno));
		abort();
	}
	if (__atomic_compare_exchange_n(&bits, &have, fresh, false, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE))
		return fresh;
	munmap(fresh, FC_VA_LIMIT / 8);
	return have;
}

static void shadow_set(uint8_t *byte, uint8_t mask, bool defined)
{
	if (defined)
		__atomic_fetch_or(byte, mask, __ATOMIC_RELAXED);
	else
		__atomic_fetch_and(byte, (uint8_t)~mask, __ATOMIC_RELAXED);
}

/* Sets the bits of [at, at + n): single bits up to a byte boundary, then whole bytes, then single
 * bits. */
static void shadow_fill(uint64_t at, uint64_t n, bool defined)
{
	uint8_t *bits = shadow_bits();
	uint64_t end = at + n;
	for (; at < end && at % 8; at++)
		shadow_set(&bits[at / 8], (uint8_t)(1u << at % 8), defined);
	uint64_t whole = (end - at) / 8;
	memset(&bits[at / 8], defined ? 0xff : 0, whole);
	for (at += whole * 8; at < end; at++)
		shadow_set(&bits[at / 8], (uint8_t)(1u << at % 8), defined);
}

void fc_shadow_write(uint64_t address, uint64_t bytes)
{
	uint64_t home;

	if (!fc_va_is_device(address))
		return;
	for (uint64_t n; bytes; bytes -= n, address += n) {
		n = fc_vmm_piece(address, bytes, &home);
		shadow_fill(home - FC_VA_BASE, n, true);
	}
}

void fc_shadow_forget(uint64_t address, uint64_t bytes)
{
	ASSERT(fc_va_is_device(address));
	if (bytes)
		shadow_fill(address - FC_VA_BASE, bytes, false);
}

static uint64_t shadow_undefined_piece(uint64_t address, uint64_t bytes)
{
	const uint8_t *bits = shadow_bits();
	uint64_t at = address - FC_VA_BASE;
	for (uint64_t i = 0; i < bytes;) {
		uint8_t byte = __atomic_load_n(&bits[(at + i) / 8], __ATOMIC_RELAXED);
		if ((at + i) % 8 == 0 && bytes - i >= 8 && byte == 0xff)
			i += 8;
		else if (byte >> (at + i) % 8 & 1)
			i++;
		else
			return i;
	}
	return bytes;
}

uint64_t fc_shadow_undefined(uint64_t address, uint64_t bytes)
{
	uint64_t home, at = 0;

	while (at < bytes && fc_va_is_device(address)) {
		uint64_t n = fc_vmm_piece(address + at, bytes - at, &home);
		uint64_t defined = shadow_undefined_piece(home, n);

		at += defined;
		if (defined < n)
			return at;
	}
	return bytes;
}

void fc_shadow_copy(uint64_t dst, uint64_t src, uint64_t bytes)
{
	if (!fc_va_is_device(dst))
		return;
	for (uint64_t i = 0; i < bytes; i++) {
		uint64_t defined = fc_shadow_undefined(src + i, bytes - i);
		if (defined)
			fc_shadow_write(dst + i, defined);
		i += defined;
		if (i < bytes)
			fc_shadow_forget(fc_home(dst + i), 1);
	}
}
#endif
