/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of the C library on bytes that nvcc has in device code: not memcmp, not memmove. */
#ifndef FAKECUDA_DEVICE_BYTES_H
#define FAKECUDA_DEVICE_BYTES_H

FAKECUDA_DEVICE void *memcpy(void *to, const void *from, size_t bytes)
{
	__builtin_memcpy(to, from, bytes);
	return to;
}

FAKECUDA_DEVICE void *memset(void *to, int value, size_t bytes)
{
	__builtin_memset(to, value, bytes);
	return to;
}

#endif
