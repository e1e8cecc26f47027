/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Built-in variables (clang's own header has them), and what <<<>>> calls. Typed forms of runtime
 * calls that take a kernel or a variable. Implemented by backends/fakecuda/image.
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

template <class T> static inline cudaError_t cudaMalloc(T **devPtr, size_t size)
{
	return ::cudaMalloc((void **)devPtr, size);
}
template <class T> static inline cudaError_t cudaMallocHost(T **ptr, size_t size)
{
	return ::cudaMallocHost((void **)ptr, size);
}
template <class T>
static inline cudaError_t cudaHostAlloc(T **ptr, size_t size, unsigned int flags = 0)
{
	return ::cudaHostAlloc((void **)ptr, size, flags);
}
template <class T>
static inline cudaError_t cudaHostGetDevicePointer(T **device, void *host, unsigned int flags = 0)
{
	return ::cudaHostGetDevicePointer((void **)device, host, flags);
}
template <class T>
static inline cudaError_t cudaLaunchKernel(T *func, dim3 grid, dim3 block, void **args,
					   size_t shared = 0, cudaStream_t stream = 0)
{
	return ::cudaLaunchKernel((const void *)func, grid, block, args, shared, stream);
}
template <class T>
static inline cudaError_t cudaFuncSetAttribute(T *func, enum cudaFuncAttribute attr, int value)
{
	return ::cudaFuncSetAttribute((const void *)func, attr, value);
}
template <class T>
static inline cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attr, T *func)
{
	return ::cudaFuncGetAttributes(attr, (const void *)func);
}
template <class T>
static inline cudaError_t cudaMemcpyToSymbol(const T &symbol, const void *src, size_t count,
					     size_t offset = 0,
					     enum cudaMemcpyKind kind = cudaMemcpyHostToDevice)
{
	return ::cudaMemcpyToSymbol((const void *)&symbol, src, count, offset, kind);
}
template <class T>
static inline cudaError_t cudaMemcpyFromSymbol(void *dst, const T &symbol, size_t count,
					       size_t offset = 0,
					       enum cudaMemcpyKind kind = cudaMemcpyDeviceToHost)
{
	return ::cudaMemcpyFromSymbol(dst, (const void *)&symbol, count, offset, kind);
}
template <class T> static inline cudaError_t cudaGetSymbolAddress(void **devPtr, const T &symbol)
{
	return ::cudaGetSymbolAddress(devPtr, (const void *)&symbol);
}
/* The older form. No node is named after an error. */
static inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
					       cudaGraphNode_t *node, char *log, size_t bytes)
{
	if (node)
		*node = NULL;
	if (log && bytes)
		*log = '\0';
	return ::cudaGraphInstantiate(exec, graph, 0);
}
template <class T> static inline cudaError_t cudaGetSymbolSize(size_t *size, const T &symbol)
{
	return ::cudaGetSymbolSize(size, (const void *)&symbol);
}

#endif
