/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The driver's calls about stream-ordered memory, pools, stream memory operations, managed memory
 * and batches of copies. A part of cuda.h, which includes it; the Toolkit has no such file. Values,
 * layouts and prototypes are the Toolkit's.
 */
#ifndef FAKECUDA_DRIVER_MEMORY_H
#define FAKECUDA_DRIVER_MEMORY_H

typedef uint32_t cuuint32_t;
typedef struct CUmemPoolHandle_st *CUmemoryPool;

/* ---- pools ---------------------------------------------------------------------------------- */

typedef enum CUmemPool_attribute_enum {
	CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES = 1,
	CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC = 2,
	CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES = 3,
	CU_MEMPOOL_ATTR_RELEASE_THRESHOLD = 4,
	CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT = 5,
	CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH = 6,
	CU_MEMPOOL_ATTR_USED_MEM_CURRENT = 7,
	CU_MEMPOOL_ATTR_USED_MEM_HIGH = 8,
} CUmemPool_attribute;

typedef struct CUmemPoolProps_st {
	CUmemAllocationType allocType;
	CUmemAllocationHandleType handleTypes;
	CUmemLocation location;
	void *win32SecurityAttributes;
	size_t maxSize;
	unsigned short usage;
	unsigned char reserved[54];
} CUmemPoolProps;

typedef struct CUmemPoolPtrExportData_st {
	unsigned char reserved[64];
} CUmemPoolPtrExportData;

FAKECUDA_API CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool);
FAKECUDA_API CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev);
FAKECUDA_API CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev);
FAKECUDA_API CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps);
FAKECUDA_API CUresult cuMemPoolDestroy(CUmemoryPool pool);
FAKECUDA_API CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep);
FAKECUDA_API CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr,
					    void *value);
FAKECUDA_API CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr,
					    void *value);
FAKECUDA_API CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map,
					 size_t count);
FAKECUDA_API CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool memPool,
					 CUmemLocation *location);
FAKECUDA_API CUresult cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool pool,
						       CUmemAllocationHandleType handleType,
						       unsigned long long flags);
FAKECUDA_API CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle,
							 CUmemAllocationHandleType handleType,
							 unsigned long long flags);
FAKECUDA_API CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *shareData_out,
					     CUdeviceptr ptr);
FAKECUDA_API CUresult cuMemPoolImportPointer(CUdeviceptr *ptr_out, CUmemoryPool pool,
					     CUmemPoolPtrExportData *shareData);
FAKECUDA_API CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream);
FAKECUDA_API CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
					      CUstream hStream);
FAKECUDA_API CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream);

/* ---- stream memory operations --------------------------------------------------------------- */

typedef enum CUstreamWaitValue_flags_enum {
	CU_STREAM_WAIT_VALUE_GEQ = 0x0, /* (int32_t)(*addr - value) >= 0; int64_t for 64 bits */
	CU_STREAM_WAIT_VALUE_EQ = 0x1,
	CU_STREAM_WAIT_VALUE_AND = 0x2, /* (*addr & value) != 0 */
	CU_STREAM_WAIT_VALUE_NOR = 0x3, /* ~(*addr | value) != 0 */
	CU_STREAM_WAIT_VALUE_FLUSH = 1 << 30,
} CUstreamWaitValue_flags;

typedef enum CUstreamWriteValue_flags_enum {
	CU_STREAM_WRITE_VALUE_DEFAULT = 0x0,
	CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER = 0x1,
} CUstreamWriteValue_flags;

typedef enum CUstreamBatchMemOpType_enum {
	CU_STREAM_MEM_OP_WAIT_VALUE_32 = 1,
	CU_STREAM_MEM_OP_WRITE_VALUE_32 = 2,
	CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES = 3,
	CU_STREAM_MEM_OP_WAIT_VALUE_64 = 4,
	CU_STREAM_MEM_OP_WRITE_VALUE_64 = 5,
	CU_STREAM_MEM_OP_BARRIER = 6,
} CUstreamBatchMemOpType;

typedef enum CUstreamMemoryBarrier_flags_enum {
	CU_STREAM_MEMORY_BARRIER_TYPE_SYS = 0x0,
	CU_STREAM_MEMORY_BARRIER_TYPE_GPU = 0x1,
} CUstreamMemoryBarrier_flags;

typedef union CUstreamBatchMemOpParams_union {
	CUstreamBatchMemOpType operation; /* which member is valid */
	struct CUstreamMemOpWaitValueParams_st {
		CUstreamBatchMemOpType operation;
		CUdeviceptr address;
		union {
			cuuint32_t value;
			cuuint64_t value64;
		};
		unsigned int flags;
		CUdeviceptr alias;
	} waitValue;
	struct CUstreamMemOpWriteValueParams_st {
		CUstreamBatchMemOpType operation;
		CUdeviceptr address;
		union {
			cuuint32_t value;
			cuuint64_t value64;
		};
		unsigned int flags;
		CUdeviceptr alias;
	} writeValue;
	struct CUstreamMemOpFlushRemoteWritesParams_st {
		CUstreamBatchMemOpType operation;
		unsigned int flags;
	} flushRemoteWrites;
	struct CUstreamMemOpMemoryBarrierParams_st {
		CUstreamBatchMemOpType operation;
		unsigned int flags;
	} memoryBarrier;
	cuuint64_t pad[6];
} CUstreamBatchMemOpParams;

#define cuStreamWaitValue32  cuStreamWaitValue32_v2
#define cuStreamWaitValue64  cuStreamWaitValue64_v2
#define cuStreamWriteValue32 cuStreamWriteValue32_v2
#define cuStreamWriteValue64 cuStreamWriteValue64_v2
#define cuStreamBatchMemOp   cuStreamBatchMemOp_v2

FAKECUDA_API CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr addr, cuuint32_t value,
					  unsigned int flags);
FAKECUDA_API CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr addr, cuuint64_t value,
					  unsigned int flags);
FAKECUDA_API CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr addr, cuuint32_t value,
					   unsigned int flags);
FAKECUDA_API CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr addr, cuuint64_t value,
					   unsigned int flags);
FAKECUDA_API CUresult cuStreamBatchMemOp(CUstream stream, unsigned int count,
					 CUstreamBatchMemOpParams *paramArray, unsigned int flags);

/* ---- managed memory ------------------------------------------------------------------------- */

typedef enum CUmemAttach_flags_enum {
	CU_MEM_ATTACH_GLOBAL = 0x1,
	CU_MEM_ATTACH_HOST = 0x2,
	CU_MEM_ATTACH_SINGLE = 0x4,
} CUmemAttach_flags;

typedef enum CUmem_advise_enum {
	CU_MEM_ADVISE_SET_READ_MOSTLY = 1,
	CU_MEM_ADVISE_UNSET_READ_MOSTLY = 2,
	CU_MEM_ADVISE_SET_PREFERRED_LOCATION = 3,
	CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION = 4,
	CU_MEM_ADVISE_SET_ACCESSED_BY = 5,
	CU_MEM_ADVISE_UNSET_ACCESSED_BY = 6,
} CUmem_advise;

#define cuMemPrefetchAsync cuMemPrefetchAsync_v2
#define cuMemAdvise        cuMemAdvise_v2

FAKECUDA_API CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags);
FAKECUDA_API CUresult cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUmemLocation location,
					 unsigned int flags, CUstream hStream);
FAKECUDA_API CUresult cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
				  CUmemLocation location);

/* ---- batches of copies ---------------------------------------------------------------------- */

typedef enum CUmemcpyFlags_enum {
	CU_MEMCPY_FLAG_DEFAULT = 0x0,
	CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE = 0x1,
} CUmemcpyFlags;

typedef enum CUmemcpySrcAccessOrder_enum {
	CU_MEMCPY_SRC_ACCESS_ORDER_INVALID = 0x0,
	CU_MEMCPY_SRC_ACCESS_ORDER_STREAM = 0x1,
	CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL = 0x2,
	CU_MEMCPY_SRC_ACCESS_ORDER_ANY = 0x3,
	CU_MEMCPY_SRC_ACCESS_ORDER_MAX = 0x7fffffff,
} CUmemcpySrcAccessOrder;

typedef struct CUmemcpyAttributes_st {
	CUmemcpySrcAccessOrder srcAccessOrder;
	CUmemLocation srcLocHint;
	CUmemLocation dstLocHint;
	unsigned int flags;
} CUmemcpyAttributes;

#define cuMemcpyBatchAsync cuMemcpyBatchAsync_v2

FAKECUDA_API CUresult cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
					 size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs,
					 size_t numAttrs, CUstream hStream);

#endif
