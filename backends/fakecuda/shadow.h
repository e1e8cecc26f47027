/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shadow state of device memory, in the flavour `checked`: one bit per byte, set when the byte is
 * first written after its allocation, by any means. A kernel that reads unwritten bytes is reported
 * and stopped (like compute-sanitizer's initcheck). Every function of fakecuda that moves bytes
 * calls it. Addresses are the program's; those outside device memory are ignored. In other flavours
 * the calls do nothing.
 */
#ifndef BACKENDS_FAKECUDA_SHADOW_H
#define BACKENDS_FAKECUDA_SHADOW_H

#include <stdbool.h>
#include <stdint.h>

#ifdef DOPPEL_CHECKED
void fc_shadow_write(uint64_t address, uint64_t bytes);
void fc_shadow_forget(uint64_t address, uint64_t bytes); /* for a new allocation */
/* Copies the bits: an undefined source makes an undefined destination. */
void fc_shadow_copy(uint64_t dst, uint64_t src, uint64_t bytes);
/* Returns the offset of the first unwritten byte; `bytes` if all were written. */
uint64_t fc_shadow_undefined(uint64_t address, uint64_t bytes);
#else
static inline void fc_shadow_write(uint64_t address, uint64_t bytes)
{
	(void)address, (void)bytes;
}
static inline void fc_shadow_forget(uint64_t address, uint64_t bytes)
{
	(void)address, (void)bytes;
}
static inline void fc_shadow_copy(uint64_t dst, uint64_t src, uint64_t bytes)
{
	(void)dst, (void)src, (void)bytes;
}
static inline uint64_t fc_shadow_undefined(uint64_t address, uint64_t bytes)
{
	(void)address;
	return bytes;
}
#endif

#endif
