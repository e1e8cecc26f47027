/* SPDX-License-Identifier: BSD-3-Clause */
/* Typed forms of runtime calls, for C++: of calls that return a pointer, and of calls that take a
 * kernel or a variable. cuda_runtime.h has them for compilers of host code, too. */
#ifndef FAKECUDA_DEVICE_TYPED_H
#define FAKECUDA_DEVICE_TYPED_H

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

template <class T>
static inline cudaError_t cudaMallocAsync(T **devPtr, size_t size, cudaStream_t stream)
{
	return ::cudaMallocAsync((void **)devPtr, size, stream);
}
template <class T>
static inline cudaError_t cudaMallocAsync(T **devPtr, size_t size, cudaMemPool_t pool,
					  cudaStream_t stream)
{
	return ::cudaMallocFromPoolAsync((void **)devPtr, size, pool, stream);
}
template <class T>
static inline cudaError_t cudaMallocFromPoolAsync(T **devPtr, size_t size, cudaMemPool_t pool,
						  cudaStream_t stream)
{
	return ::cudaMallocFromPoolAsync((void **)devPtr, size, pool, stream);
}

#endif
