/* SPDX-License-Identifier: BSD-3-Clause */
/* The words of CUDA C++: attributes for clang with CUDA source, and nothing for compilers of host
 * code. Included by vector_types.h, before all else. */
#ifndef FAKECUDA_DEVICE_WORDS_H
#define FAKECUDA_DEVICE_WORDS_H

#if defined(__CUDA__) && defined(__clang__)
#define __CUDACC__      1
#define __NVCC_DOPPEL__ 1

#define __host__               __attribute__((host))
#define __device__             __attribute__((device))
#define __global__             __attribute__((global))
#define __shared__             __attribute__((shared))
#define __constant__           __attribute__((constant))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#else
#define __host__
#define __device__
#define __global__
#define __shared__
#define __constant__
#define __launch_bounds__(...)
#endif

#define __forceinline__ __inline__ __attribute__((always_inline))
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
#define CUDARTAPI
#define CUDART_CB
/* libstdc++ and glibc have attributes of this name. */
#if defined(__CUDA__) && defined(__clang__)
#define __noinline__ __attribute__((noinline))
#endif

#define FAKECUDA_DEVICE static __device__ __forceinline__
#define FAKECUDA_BOTH   static __host__ __device__ __forceinline__

#endif
