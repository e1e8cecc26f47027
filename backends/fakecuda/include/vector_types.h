/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The vector types of CUDA that host code names: grid and block dimensions. Included by
 * driver_types.h. Same layout as the Toolkit's (checked by
 * tests/conformance/cuda/cuda_headers_test.sh).
 */
#ifndef FAKECUDA_VECTOR_TYPES_H
#define FAKECUDA_VECTOR_TYPES_H

struct uint3 {
	unsigned int x, y, z;
};
typedef struct uint3 uint3;

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
