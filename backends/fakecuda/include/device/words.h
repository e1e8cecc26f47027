/* SPDX-License-Identifier: BSD-3-Clause */
/* The words of CUDA C++, as attributes of clang. Included by cuda_runtime.h, before all else. */
#ifndef FAKECUDA_DEVICE_WORDS_H
#define FAKECUDA_DEVICE_WORDS_H

#define __CUDACC__      1
#define __NVCC_DOPPEL__ 1

#define __host__               __attribute__((host))
#define __device__             __attribute__((device))
#define __global__             __attribute__((global))
#define __shared__             __attribute__((shared))
#define __constant__           __attribute__((constant))
#define __forceinline__        __inline__ __attribute__((always_inline))
#define __noinline__           __attribute__((noinline))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
#define CUDARTAPI
#define CUDART_CB

#define FAKECUDA_DEVICE static __device__ __forceinline__
#define FAKECUDA_BOTH   static __host__ __device__ __forceinline__

#endif
