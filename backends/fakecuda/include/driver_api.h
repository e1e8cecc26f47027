/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The driver's calls about devices, contexts, memory, streams and events, and the lookup of driver
 * functions. A part of cuda.h, which includes it; the Toolkit has no such file. Values, layouts and
 * prototypes are the Toolkit's.
 */
#ifndef FAKECUDA_DRIVER_API_H
#define FAKECUDA_DRIVER_API_H

/* ---- types ---------------------------------------------------------------------------------- */

typedef enum CUdriverProcAddress_flags_enum {
	CU_GET_PROC_ADDRESS_DEFAULT = 0,
	CU_GET_PROC_ADDRESS_LEGACY_STREAM = 1,
	CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM = 2,
} CUdriverProcAddress_flags;

typedef enum CUdriverProcAddressQueryResult_enum {
	CU_GET_PROC_ADDRESS_SUCCESS = 0,
	CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND = 1,
	CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT = 2,
} CUdriverProcAddressQueryResult;

typedef enum CUctx_flags_enum {
	CU_CTX_SCHED_AUTO = 0x00,
	CU_CTX_SCHED_SPIN = 0x01,
	CU_CTX_SCHED_YIELD = 0x02,
	CU_CTX_SCHED_BLOCKING_SYNC = 0x04,
	CU_CTX_SCHED_MASK = 0x07,
	CU_CTX_MAP_HOST = 0x08,
	CU_CTX_LMEM_RESIZE_TO_MAX = 0x10,
	CU_CTX_FLAGS_MASK = 0xff,
} CUctx_flags;

typedef enum CUlimit_enum {
	CU_LIMIT_STACK_SIZE = 0x00,
	CU_LIMIT_PRINTF_FIFO_SIZE = 0x01,
	CU_LIMIT_MALLOC_HEAP_SIZE = 0x02,
	CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH = 0x03,
	CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT = 0x04,
	CU_LIMIT_MAX_L2_FETCH_GRANULARITY = 0x05,
	CU_LIMIT_PERSISTING_L2_CACHE_SIZE = 0x06,
	CU_LIMIT_SHMEM_SIZE = 0x07,
	CU_LIMIT_CIG_ENABLED = 0x08,
	CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED = 0x09,
} CUlimit;

typedef enum CUdevice_P2PAttribute_enum {
	CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK = 0x01,
	CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED = 0x02,
	CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED = 0x03,
	CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED = 0x04,
} CUdevice_P2PAttribute;

#ifndef FAKECUDA_UUID_DEFINED
#define FAKECUDA_UUID_DEFINED
struct CUuuid_st {
	char bytes[16];
};
typedef struct CUuuid_st CUuuid;
#endif

#define CU_IPC_HANDLE_SIZE 64

typedef struct CUipcMemHandle_st {
	char reserved[CU_IPC_HANDLE_SIZE];
} CUipcMemHandle;

#define CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS 0x1
#define CU_MEMHOSTALLOC_PORTABLE           0x01
#define CU_MEMHOSTALLOC_DEVICEMAP          0x02
#define CU_MEMHOSTALLOC_WRITECOMBINED      0x04
#define CU_MEMHOSTREGISTER_PORTABLE        0x01
#define CU_MEMHOSTREGISTER_DEVICEMAP       0x02
#define CU_MEMHOSTREGISTER_IOMEMORY        0x04
#define CU_MEMHOSTREGISTER_READ_ONLY       0x08
#define CU_STREAM_LEGACY                   ((CUstream)0x1)
#define CU_STREAM_PER_THREAD               ((CUstream)0x2)

/* ---- the newest variants -------------------------------------------------------------------- */

#define cuGetProcAddress           cuGetProcAddress_v2
#define cuDeviceGetUuid            cuDeviceGetUuid_v2
#define cuDeviceTotalMem           cuDeviceTotalMem_v2
#define cuDevicePrimaryCtxRelease  cuDevicePrimaryCtxRelease_v2
#define cuDevicePrimaryCtxReset    cuDevicePrimaryCtxReset_v2
#define cuDevicePrimaryCtxSetFlags cuDevicePrimaryCtxSetFlags_v2
#define cuCtxPushCurrent           cuCtxPushCurrent_v2
#define cuCtxPopCurrent            cuCtxPopCurrent_v2
#define cuMemGetInfo               cuMemGetInfo_v2
#define cuMemAlloc                 cuMemAlloc_v2
#define cuMemFree                  cuMemFree_v2
#define cuMemAllocHost             cuMemAllocHost_v2
#define cuMemHostGetDevicePointer  cuMemHostGetDevicePointer_v2
#define cuMemHostRegister          cuMemHostRegister_v2
#define cuIpcOpenMemHandle         cuIpcOpenMemHandle_v2
#define cuMemcpyHtoD               cuMemcpyHtoD_v2
#define cuMemcpyDtoH               cuMemcpyDtoH_v2
#define cuMemcpyDtoD               cuMemcpyDtoD_v2
#define cuMemcpyHtoDAsync          cuMemcpyHtoDAsync_v2
#define cuMemcpyDtoHAsync          cuMemcpyDtoHAsync_v2
#define cuMemcpyDtoDAsync          cuMemcpyDtoDAsync_v2
#define cuMemsetD8                 cuMemsetD8_v2
#define cuMemsetD16                cuMemsetD16_v2
#define cuMemsetD32                cuMemsetD32_v2
#define cuStreamDestroy            cuStreamDestroy_v2
#define cuEventDestroy             cuEventDestroy_v2
#define cuEventElapsedTime         cuEventElapsedTime_v2

/* ---- lookup --------------------------------------------------------------------------------- */

FAKECUDA_API CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion,
				       cuuint64_t flags,
				       CUdriverProcAddressQueryResult *symbolStatus);

/* ---- devices -------------------------------------------------------------------------------- */

FAKECUDA_API CUresult cuDeviceGetName(char *name, int len, CUdevice dev);
FAKECUDA_API CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice dev);
FAKECUDA_API CUresult cuDeviceTotalMem(size_t *bytes, CUdevice dev);
FAKECUDA_API CUresult cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev);
FAKECUDA_API CUresult cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId);
FAKECUDA_API CUresult cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev);
FAKECUDA_API CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib,
					      CUdevice srcDevice, CUdevice dstDevice);

/* ---- contexts ------------------------------------------------------------------------------- */

FAKECUDA_API CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev);
FAKECUDA_API CUresult cuDevicePrimaryCtxRelease(CUdevice dev);
FAKECUDA_API CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags);
FAKECUDA_API CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active);
FAKECUDA_API CUresult cuDevicePrimaryCtxReset(CUdevice dev);
FAKECUDA_API CUresult cuCtxPushCurrent(CUcontext ctx);
FAKECUDA_API CUresult cuCtxPopCurrent(CUcontext *pctx);
FAKECUDA_API CUresult cuCtxSetCurrent(CUcontext ctx);
FAKECUDA_API CUresult cuCtxGetCurrent(CUcontext *pctx);
FAKECUDA_API CUresult cuCtxGetDevice(CUdevice *device);
FAKECUDA_API CUresult cuCtxGetFlags(unsigned int *flags);
FAKECUDA_API CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int *version);
FAKECUDA_API CUresult cuCtxSynchronize(void);
FAKECUDA_API CUresult cuCtxGetLimit(size_t *pvalue, CUlimit limit);
FAKECUDA_API CUresult cuCtxSetLimit(CUlimit limit, size_t value);
FAKECUDA_API CUresult cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority);
FAKECUDA_API CUresult cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags);
FAKECUDA_API CUresult cuCtxDisablePeerAccess(CUcontext peerContext);

/* ---- memory --------------------------------------------------------------------------------- */

FAKECUDA_API CUresult cuMemGetInfo(size_t *free, size_t *total);
FAKECUDA_API CUresult cuMemAlloc(CUdeviceptr *dptr, size_t bytesize);
FAKECUDA_API CUresult cuMemFree(CUdeviceptr dptr);
FAKECUDA_API CUresult cuMemAllocHost(void **pp, size_t bytesize);
FAKECUDA_API CUresult cuMemFreeHost(void *p);
FAKECUDA_API CUresult cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags);
FAKECUDA_API CUresult cuMemHostGetDevicePointer(CUdeviceptr *pdptr, void *p, unsigned int Flags);
FAKECUDA_API CUresult cuMemHostGetFlags(unsigned int *pFlags, void *p);
FAKECUDA_API CUresult cuMemHostRegister(void *p, size_t bytesize, unsigned int Flags);
FAKECUDA_API CUresult cuMemHostUnregister(void *p);
FAKECUDA_API CUresult cuPointerGetAttributes(unsigned int numAttributes,
					     CUpointer_attribute *attributes, void **data,
					     CUdeviceptr ptr);
FAKECUDA_API CUresult cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr);
FAKECUDA_API CUresult cuIpcOpenMemHandle(CUdeviceptr *pdptr, CUipcMemHandle handle,
					 unsigned int Flags);
FAKECUDA_API CUresult cuIpcCloseMemHandle(CUdeviceptr dptr);

FAKECUDA_API CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount);
FAKECUDA_API CUresult cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext,
				   CUdeviceptr srcDevice, CUcontext srcContext, size_t ByteCount);
FAKECUDA_API CUresult cuMemcpyHtoD(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount);
FAKECUDA_API CUresult cuMemcpyDtoH(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount);
FAKECUDA_API CUresult cuMemcpyDtoD(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount);
FAKECUDA_API CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount,
				    CUstream hStream);
FAKECUDA_API CUresult cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext,
					CUdeviceptr srcDevice, CUcontext srcContext,
					size_t ByteCount, CUstream hStream);
FAKECUDA_API CUresult cuMemcpyHtoDAsync(CUdeviceptr dstDevice, const void *srcHost,
					size_t ByteCount, CUstream hStream);
FAKECUDA_API CUresult cuMemcpyDtoHAsync(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount,
					CUstream hStream);
FAKECUDA_API CUresult cuMemcpyDtoDAsync(CUdeviceptr dstDevice, CUdeviceptr srcDevice,
					size_t ByteCount, CUstream hStream);
FAKECUDA_API CUresult cuMemsetD8(CUdeviceptr dstDevice, unsigned char uc, size_t N);
FAKECUDA_API CUresult cuMemsetD16(CUdeviceptr dstDevice, unsigned short us, size_t N);
FAKECUDA_API CUresult cuMemsetD32(CUdeviceptr dstDevice, unsigned int ui, size_t N);
FAKECUDA_API CUresult cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N,
				      CUstream hStream);
FAKECUDA_API CUresult cuMemsetD16Async(CUdeviceptr dstDevice, unsigned short us, size_t N,
				       CUstream hStream);
FAKECUDA_API CUresult cuMemsetD32Async(CUdeviceptr dstDevice, unsigned int ui, size_t N,
				       CUstream hStream);

/* ---- streams and events --------------------------------------------------------------------- */

FAKECUDA_API CUresult cuStreamCreate(CUstream *phStream, unsigned int Flags);
FAKECUDA_API CUresult cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags,
						 int priority);
FAKECUDA_API CUresult cuStreamDestroy(CUstream hStream);
FAKECUDA_API CUresult cuStreamSynchronize(CUstream hStream);
FAKECUDA_API CUresult cuStreamQuery(CUstream hStream);
FAKECUDA_API CUresult cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags);
FAKECUDA_API CUresult cuStreamGetPriority(CUstream hStream, int *priority);
FAKECUDA_API CUresult cuStreamGetFlags(CUstream hStream, unsigned int *flags);
FAKECUDA_API CUresult cuStreamGetDevice(CUstream hStream, CUdevice *device);
FAKECUDA_API CUresult cuStreamGetId(CUstream hStream, unsigned long long *streamId);
FAKECUDA_API CUresult cuEventCreate(CUevent *phEvent, unsigned int Flags);
FAKECUDA_API CUresult cuEventDestroy(CUevent hEvent);
FAKECUDA_API CUresult cuEventRecord(CUevent hEvent, CUstream hStream);
FAKECUDA_API CUresult cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags);
FAKECUDA_API CUresult cuEventQuery(CUevent hEvent);
FAKECUDA_API CUresult cuEventSynchronize(CUevent hEvent);
FAKECUDA_API CUresult cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd);
FAKECUDA_API CUresult cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData);

#endif
