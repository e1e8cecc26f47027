/* SPDX-License-Identifier: BSD-3-Clause */
/* The runtime's calls about pools, stream-ordered and managed memory, and batches of copies, as
 * calls of the driver. Structures of both have the same layout. */
#include "backends/fakecuda/fakecuda.h"

DOPPEL_CHECK_SIZE(CUmemPoolProps, sizeof(struct cudaMemPoolProps));
DOPPEL_CHECK_SIZE(CUmemAccessDesc, sizeof(struct cudaMemAccessDesc));
DOPPEL_CHECK_SIZE(CUmemLocation, sizeof(struct cudaMemLocation));
DOPPEL_CHECK_SIZE(CUmemPoolPtrExportData, sizeof(struct cudaMemPoolPtrExportData));
DOPPEL_CHECK_SIZE(CUmemcpyAttributes, sizeof(struct cudaMemcpyAttributes));

/* ---- memory --------------------------------------------------------------------------------- */

cudaError_t cudaMallocAsync(void **devPtr, size_t size, cudaStream_t hStream)
{
	return FC_RUNTIME("cudaMallocAsync", cuMemAllocAsync((CUdeviceptr *)devPtr, size, hStream));
}

cudaError_t cudaMallocFromPoolAsync(void **ptr, size_t size, cudaMemPool_t memPool,
				    cudaStream_t stream)
{
	return FC_RUNTIME("cudaMallocFromPoolAsync",
			  cuMemAllocFromPoolAsync((CUdeviceptr *)ptr, size, memPool, stream));
}

cudaError_t cudaFreeAsync(void *devPtr, cudaStream_t hStream)
{
	return FC_RUNTIME("cudaFreeAsync", cuMemFreeAsync((CUdeviceptr)devPtr, hStream));
}

/* ---- pools ---------------------------------------------------------------------------------- */

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *memPool, int device)
{
	return FC_RUNTIME("cudaDeviceGetDefaultMemPool",
			  cuDeviceGetDefaultMemPool(memPool, device));
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *memPool, int device)
{
	return FC_RUNTIME("cudaDeviceGetMemPool", cuDeviceGetMemPool(memPool, device));
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t memPool)
{
	return FC_RUNTIME("cudaDeviceSetMemPool", cuDeviceSetMemPool(device, memPool));
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t *memPool, const struct cudaMemPoolProps *poolProps)
{
	return FC_RUNTIME("cudaMemPoolCreate",
			  cuMemPoolCreate(memPool, (const CUmemPoolProps *)poolProps));
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t memPool)
{
	return FC_RUNTIME("cudaMemPoolDestroy", cuMemPoolDestroy(memPool));
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value)
{
	return FC_RUNTIME("cudaMemPoolSetAttribute",
			  cuMemPoolSetAttribute(memPool, (CUmemPool_attribute)attr, value));
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value)
{
	return FC_RUNTIME("cudaMemPoolGetAttribute",
			  cuMemPoolGetAttribute(memPool, (CUmemPool_attribute)attr, value));
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t memPool, size_t minBytesToKeep)
{
	return FC_RUNTIME("cudaMemPoolTrimTo", cuMemPoolTrimTo(memPool, minBytesToKeep));
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t memPool, const struct cudaMemAccessDesc *descList,
				 size_t count)
{
	return FC_RUNTIME("cudaMemPoolSetAccess",
			  cuMemPoolSetAccess(memPool, (const CUmemAccessDesc *)descList, count));
}

cudaError_t cudaMemPoolGetAccess(enum cudaMemAccessFlags *flags, cudaMemPool_t memPool,
				 struct cudaMemLocation *location)
{
	return FC_RUNTIME(
		"cudaMemPoolGetAccess",
		cuMemPoolGetAccess((CUmemAccess_flags *)flags, memPool, (CUmemLocation *)location));
}

cudaError_t cudaMemPoolExportToShareableHandle(void *shareableHandle, cudaMemPool_t memPool,
					       enum cudaMemAllocationHandleType handleType,
					       unsigned int flags)
{
	return FC_RUNTIME("cudaMemPoolExportToShareableHandle",
			  cuMemPoolExportToShareableHandle(shareableHandle, memPool,
							   (CUmemAllocationHandleType)handleType,
							   flags));
}

cudaError_t cudaMemPoolImportFromShareableHandle(cudaMemPool_t *memPool, void *shareableHandle,
						 enum cudaMemAllocationHandleType handleType,
						 unsigned int flags)
{
	return FC_RUNTIME("cudaMemPoolImportFromShareableHandle",
			  cuMemPoolImportFromShareableHandle(memPool, shareableHandle,
							     (CUmemAllocationHandleType)handleType,
							     flags));
}

cudaError_t cudaMemPoolExportPointer(struct cudaMemPoolPtrExportData *exportData, void *ptr)
{
	return FC_RUNTIME(
		"cudaMemPoolExportPointer",
		cuMemPoolExportPointer((CUmemPoolPtrExportData *)exportData, (CUdeviceptr)ptr));
}

cudaError_t cudaMemPoolImportPointer(void **ptr, cudaMemPool_t memPool,
				     struct cudaMemPoolPtrExportData *exportData)
{
	return FC_RUNTIME("cudaMemPoolImportPointer",
			  cuMemPoolImportPointer((CUdeviceptr *)ptr, memPool,
						 (CUmemPoolPtrExportData *)exportData));
}

/* ---- managed memory, batches of copies ------------------------------------------------------ */

static CUmemLocation pool_location(struct cudaMemLocation at)
{
	return (CUmemLocation){(CUmemLocationType)at.type, at.id};
}

cudaError_t cudaMallocManaged(void **devPtr, size_t size, unsigned int flags)
{
	return FC_RUNTIME("cudaMallocManaged",
			  cuMemAllocManaged((CUdeviceptr *)devPtr, size, flags));
}

cudaError_t cudaMemPrefetchAsync(const void *devPtr, size_t count, struct cudaMemLocation location,
				 unsigned int flags, cudaStream_t stream)
{
	return FC_RUNTIME("cudaMemPrefetchAsync",
			  cuMemPrefetchAsync((CUdeviceptr)devPtr, count, pool_location(location),
					     flags, stream));
}

cudaError_t cudaMemAdvise(const void *devPtr, size_t count, enum cudaMemoryAdvise advice,
			  struct cudaMemLocation location)
{
	return FC_RUNTIME("cudaMemAdvise",
			  cuMemAdvise((CUdeviceptr)devPtr, count, (CUmem_advise)advice,
				      pool_location(location)));
}

cudaError_t cudaMemcpyBatchAsync(void *const *dsts, const void *const *srcs, const size_t *sizes,
				 size_t count, struct cudaMemcpyAttributes *attrs,
				 size_t *attrsIdxs, size_t numAttrs, cudaStream_t stream)
{
	return FC_RUNTIME(
		"cudaMemcpyBatchAsync",
		cuMemcpyBatchAsync((CUdeviceptr *)(uintptr_t)dsts, (CUdeviceptr *)(uintptr_t)srcs,
				   (size_t *)(uintptr_t)sizes, count, (CUmemcpyAttributes *)attrs,
				   attrsIdxs, numAttrs, stream));
}
