/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The vector types of CUDA: int2, float4 and so on, and the dimensions of grids and blocks.
 * Included by driver_types.h. Same layout as the Toolkit's (checked by
 * tests/conformance/cuda/cuda_headers_test.sh).
 */
#ifndef FAKECUDA_VECTOR_TYPES_H
#define FAKECUDA_VECTOR_TYPES_H

#include "device/words.h"

/* A vector of 2 or 4 is aligned to its size, at most to 16 bytes. */
#define FAKECUDA_VECTORS(name, type, align2, align4)                                               \
	struct name##1                                                                             \
	{                                                                                          \
		type x;                                                                            \
	};                                                                                         \
	struct __attribute__((aligned(align2))) name##2                                            \
	{                                                                                          \
		type x, y;                                                                         \
	};                                                                                         \
	struct name##3                                                                             \
	{                                                                                          \
		type x, y, z;                                                                      \
	};                                                                                         \
	struct __attribute__((aligned(align4))) name##4                                            \
	{                                                                                          \
		type x, y, z, w;                                                                   \
	};                                                                                         \
	typedef struct name##1 name##1;                                                            \
	typedef struct name##2 name##2;                                                            \
	typedef struct name##3 name##3;                                                            \
	typedef struct name##4 name##4;

FAKECUDA_VECTORS(char, signed char, 2, 4)
FAKECUDA_VECTORS(uchar, unsigned char, 2, 4)
FAKECUDA_VECTORS(short, short, 4, 8)
FAKECUDA_VECTORS(ushort, unsigned short, 4, 8)
FAKECUDA_VECTORS(int, int, 8, 16)
FAKECUDA_VECTORS(uint, unsigned int, 8, 16)
FAKECUDA_VECTORS(long, long, 16, 16)
FAKECUDA_VECTORS(ulong, unsigned long, 16, 16)
FAKECUDA_VECTORS(longlong, long long, 16, 16)
FAKECUDA_VECTORS(ulonglong, unsigned long long, 16, 16)
FAKECUDA_VECTORS(float, float, 8, 16)
FAKECUDA_VECTORS(double, double, 16, 16)
#undef FAKECUDA_VECTORS

struct dim3 {
	unsigned int x, y, z;
#ifdef __cplusplus
	constexpr dim3(unsigned int vx = 1, unsigned int vy = 1, unsigned int vz = 1)
	    : x(vx), y(vy), z(vz)
	{
	}
	constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z)
	{
	}
#endif
};
typedef struct dim3 dim3;

#endif
