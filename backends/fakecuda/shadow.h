/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shadow state of device memory, in the flavour `checked`: one bit for each byte, set once the byte
 * was written since its allocation, by whatever means. A kernel that reads bytes that were not
 * written is reported and stopped (compute-sanitizer's initcheck). Called by every function that
 * moves bytes in fakecuda; addresses are the program's; those outside device memory are ignored. In
 * other flavours every call is nothing.
 */
#ifndef BACKENDS_FAKECUDA_SHADOW_H
#define BACKENDS_FAKECUDA_SHADOW_H

#include <stdbool.h>
#include <stdint.h>

#ifdef DOPPEL_CHECKED
void fc_shadow_write(uint64_t address, uint64_t bytes);
void fc_shadow_forget(uint64_t address, uint64_t bytes); /* a fresh allocation */
/* Copies what is known: an undefined source stays undefined at its destination. */
void fc_shadow_copy(uint64_t dst, uint64_t src, uint64_t bytes);
/* Offset of the first byte that was not written; `bytes`: all were written. */
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
