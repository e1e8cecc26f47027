/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The runtime's calls about memory pools, stream-ordered and managed memory, and batches of copies.
 * A part of cuda_runtime_api.h, which includes it; the Toolkit has no such file.
 */
#ifndef FAKECUDA_POOL_API_H
#define FAKECUDA_POOL_API_H

/* ---- stream-ordered memory, pools ----------------------------------------------------------- */

FAKECUDA_API cudaError_t cudaMallocAsync(void **devPtr, size_t size, cudaStream_t hStream);
FAKECUDA_API cudaError_t cudaFreeAsync(void *devPtr, cudaStream_t hStream);
FAKECUDA_API cudaError_t cudaMallocFromPoolAsync(void **ptr, size_t size, cudaMemPool_t memPool,
						 cudaStream_t stream);
FAKECUDA_API cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *memPool, int device);
FAKECUDA_API cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t memPool);
FAKECUDA_API cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *memPool, int device);
FAKECUDA_API cudaError_t cudaMemPoolCreate(cudaMemPool_t *memPool,
					   const struct cudaMemPoolProps *poolProps);
FAKECUDA_API cudaError_t cudaMemPoolDestroy(cudaMemPool_t memPool);
FAKECUDA_API cudaError_t cudaMemPoolTrimTo(cudaMemPool_t memPool, size_t minBytesToKeep);
FAKECUDA_API cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t memPool, enum cudaMemPoolAttr attr,
						 void *value);
FAKECUDA_API cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t memPool, enum cudaMemPoolAttr attr,
						 void *value);
FAKECUDA_API cudaError_t cudaMemPoolSetAccess(cudaMemPool_t memPool,
					      const struct cudaMemAccessDesc *descList,
					      size_t count);
FAKECUDA_API cudaError_t cudaMemPoolGetAccess(enum cudaMemAccessFlags *flags, cudaMemPool_t memPool,
					      struct cudaMemLocation *location);
FAKECUDA_API cudaError_t
cudaMemPoolExportToShareableHandle(void *shareableHandle, cudaMemPool_t memPool,
				   enum cudaMemAllocationHandleType handleType, unsigned int flags);
FAKECUDA_API cudaError_t cudaMemPoolImportFromShareableHandle(
	cudaMemPool_t *memPool, void *shareableHandle, enum cudaMemAllocationHandleType handleType,
	unsigned int flags);
FAKECUDA_API cudaError_t cudaMemPoolExportPointer(struct cudaMemPoolPtrExportData *exportData,
						  void *ptr);
FAKECUDA_API cudaError_t cudaMemPoolImportPointer(void **ptr, cudaMemPool_t memPool,
						  struct cudaMemPoolPtrExportData *exportData);

/* ---- managed memory, batches of copies ------------------------------------------------------ */

FAKECUDA_API cudaError_t cudaMallocManaged(void **devPtr, size_t size,
					   unsigned int flags FAKECUDA_OPT(cudaMemAttachGlobal));
FAKECUDA_API cudaError_t cudaMemPrefetchAsync(const void *devPtr, size_t count,
					      struct cudaMemLocation location, unsigned int flags,
					      cudaStream_t stream FAKECUDA_OPT(0));
FAKECUDA_API cudaError_t cudaMemAdvise(const void *devPtr, size_t count,
				       enum cudaMemoryAdvise advice,
				       struct cudaMemLocation location);
FAKECUDA_API cudaError_t cudaMemcpyBatchAsync(void *const *dsts, const void *const *srcs,
					      const size_t *sizes, size_t count,
					      struct cudaMemcpyAttributes *attrs, size_t *attrsIdxs,
					      size_t numAttrs, cudaStream_t stream);

#endif
