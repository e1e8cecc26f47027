/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Built-in variables (clang's own header has them), and what <<<>>> calls. Implemented by
 * backends/fakecuda/image.
 */
#ifndef FAKECUDA_DEVICE_LAUNCH_H
#define FAKECUDA_DEVICE_LAUNCH_H

#include <__clang_cuda_builtin_vars.h>
#include <stdlib.h>

extern "C" {
FAKECUDA_API unsigned int __cudaPushCallConfiguration(dim3 gridDim, dim3 blockDim,
						      size_t sharedMem = 0, void *stream = 0);
/* Replace the functions of the C library in device code. malloc and free are not built: a kernel
 * that calls them is refused by their names. */
__device__ void *malloc(size_t bytes);
__device__ void free(void *p);
__device__ int printf(const char *format, ...);
__device__ void __assert_fail(const char *text, const char *file, unsigned int line,
			      const char *function) __attribute__((noreturn));
}

#endif
