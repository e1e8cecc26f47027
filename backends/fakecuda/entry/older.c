/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Older variants that take the same arguments as the newest one. Programs that were compiled with
 * older headers link them, and a lookup with an older version finds them. Reports have the base
 * name. A variant with other arguments, as the first one of cuMemAlloc, does not exist here, except
 * those of contexts, and three that have a device instead of a location or one more output. The
 * first stream memory operations exist, and are refused: no current GPU supports them.
 */
#include "backends/fakecuda/fakecuda.h"

#undef cuDeviceGetUuid
#undef cuDevicePrimaryCtxRelease
#undef cuDevicePrimaryCtxReset
#undef cuDevicePrimaryCtxSetFlags
#undef cuCtxPushCurrent
#undef cuCtxPopCurrent
#undef cuCtxCreate
#undef cuCtxDestroy
#undef cuMemHostRegister
#undef cuIpcOpenMemHandle
#undef cuStreamDestroy
#undef cuEventDestroy
#undef cuEventElapsedTime
#undef cuStreamWaitValue32
#undef cuStreamWaitValue64
#undef cuStreamWriteValue32
#undef cuStreamWriteValue64
#undef cuStreamBatchMemOp
#undef cuMemPrefetchAsync
#undef cuMemAdvise
#undef cuMemcpyBatchAsync

#define OLDER(name, ...)                                                                           \
	FAKECUDA_API CUresult name(__VA_ARGS__);                                                   \
	CUresult name(__VA_ARGS__)
#define ANNOUNCE(name) fc_at_announce(name, __builtin_return_address(0))

OLDER(cuDeviceGetUuid, CUuuid *uuid, CUdevice dev)
{
	ANNOUNCE("cuDeviceGetUuid");
	return cuDeviceGetUuid_v2(uuid, dev);
}

OLDER(cuDevicePrimaryCtxRelease, CUdevice dev)
{
	ANNOUNCE("cuDevicePrimaryCtxRelease");
	return cuDevicePrimaryCtxRelease_v2(dev);
}

OLDER(cuDevicePrimaryCtxReset, CUdevice dev)
{
	ANNOUNCE("cuDevicePrimaryCtxReset");
	return cuDevicePrimaryCtxReset_v2(dev);
}

OLDER(cuDevicePrimaryCtxSetFlags, CUdevice dev, unsigned int flags)
{
	ANNOUNCE("cuDevicePrimaryCtxSetFlags");
	return cuDevicePrimaryCtxSetFlags_v2(dev, flags);
}

OLDER(cuCtxPushCurrent, CUcontext ctx)
{
	ANNOUNCE("cuCtxPushCurrent");
	return cuCtxPushCurrent_v2(ctx);
}

OLDER(cuCtxPopCurrent, CUcontext *pctx)
{
	ANNOUNCE("cuCtxPopCurrent");
	return cuCtxPopCurrent_v2(pctx);
}

OLDER(cuCtxDestroy, CUcontext ctx)
{
	ANNOUNCE("cuCtxDestroy");
	return cuCtxDestroy_v2(ctx);
}

OLDER(cuMemHostRegister, void *p, size_t bytesize, unsigned int Flags)
{
	ANNOUNCE("cuMemHostRegister");
	return cuMemHostRegister_v2(p, bytesize, Flags);
}

OLDER(cuIpcOpenMemHandle, CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
	ANNOUNCE("cuIpcOpenMemHandle");
	return cuIpcOpenMemHandle_v2(pdptr, handle, Flags);
}

OLDER(cuStreamDestroy, CUstream hStream)
{
	ANNOUNCE("cuStreamDestroy");
	return cuStreamDestroy_v2(hStream);
}

OLDER(cuEventDestroy, CUevent hEvent)
{
	ANNOUNCE("cuEventDestroy");
	return cuEventDestroy_v2(hEvent);
}

OLDER(cuEventElapsedTime, float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
	ANNOUNCE("cuEventElapsedTime");
	return cuEventElapsedTime_v2(pMilliseconds, hStart, hEnd);
}

/* CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1 is 0, as on an H100. */
static CUresult memops_v1(const char *call)
{
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(call, &ctx);

	if (!rc) {
		fc_report("%s: the first version is not supported; expected that of CUDA 11.7",
			  call);
		rc = cudaErrorNotSupported;
	}
	return fc_driver_leave(rc);
}

#define MEMOP_V1(name, suffix, type)                                                               \
	OLDER(name##suffix, CUstream stream, CUdeviceptr addr, type value, unsigned int flags)     \
	{                                                                                          \
		(void)stream, (void)addr, (void)value, (void)flags;                                \
		return memops_v1(#name);                                                           \
	}
MEMOP_V1(cuStreamWaitValue32, , cuuint32_t)
MEMOP_V1(cuStreamWaitValue32, _ptsz, cuuint32_t)
MEMOP_V1(cuStreamWaitValue64, , cuuint64_t)
MEMOP_V1(cuStreamWaitValue64, _ptsz, cuuint64_t)
MEMOP_V1(cuStreamWriteValue32, , cuuint32_t)
MEMOP_V1(cuStreamWriteValue32, _ptsz, cuuint32_t)
MEMOP_V1(cuStreamWriteValue64, , cuuint64_t)
MEMOP_V1(cuStreamWriteValue64, _ptsz, cuuint64_t)

#define BATCH_V1(name, suffix)                                                                     \
	OLDER(name##suffix, CUstream stream, unsigned int count, CUstreamBatchMemOpParams *params, \
	      unsigned int flags)                                                                  \
	{                                                                                          \
		(void)stream, (void)count, (void)params, (void)flags;                              \
		return memops_v1(#name);                                                           \
	}
BATCH_V1(cuStreamBatchMemOp, )
BATCH_V1(cuStreamBatchMemOp, _ptsz)

/* ---- contexts without parameters ------------------------------------------------------------ */

OLDER(cuCtxCreate, CUcontext *pctx, unsigned int flags, CUdevice dev)
{
	ANNOUNCE("cuCtxCreate");
	return cuCtxCreate_v4(pctx, NULL, flags, dev);
}

OLDER(cuCtxCreate_v2, CUcontext *pctx, unsigned int flags, CUdevice dev)
{
	ANNOUNCE("cuCtxCreate");
	return cuCtxCreate_v4(pctx, NULL, flags, dev);
}

/* Parameters of affinity count as those of the newest variant. */
OLDER(cuCtxCreate_v3, CUcontext *pctx, void *paramsArray, int numParams, unsigned int flags,
      CUdevice dev)
{
	ANNOUNCE("cuCtxCreate");
	return cuCtxCreate_v4(pctx, numParams ? paramsArray : NULL, flags, dev);
}

/* ---- a device instead of a location, one more output ---------------------------------------- */

/* Device -1 is the host: CU_DEVICE_CPU. */
static CUmemLocation older_location(CUdevice dev)
{
	return (CUmemLocation){dev == -1 ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE,
			       dev == -1 ? 0 : dev};
}

OLDER(cuMemPrefetchAsync, CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream)
{
	ANNOUNCE("cuMemPrefetchAsync");
	return cuMemPrefetchAsync_v2(devPtr, count, older_location(dstDevice), 0, hStream);
}

OLDER(cuMemPrefetchAsync_ptsz, CUdeviceptr devPtr, size_t count, CUdevice dstDevice,
      CUstream hStream)
{
	ANNOUNCE("cuMemPrefetchAsync");
	return cuMemPrefetchAsync_v2(devPtr, count, older_location(dstDevice), 0,
				     hStream ? hStream : CU_STREAM_PER_THREAD);
}

OLDER(cuMemAdvise, CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device)
{
	ANNOUNCE("cuMemAdvise");
	return cuMemAdvise_v2(devPtr, count, advice, older_location(device));
}

/* An error is that of the whole batch: SIZE_MAX, as documented. */
OLDER(cuMemcpyBatchAsync, CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
      CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, size_t *failIdx,
      CUstream hStream)
{
	ANNOUNCE("cuMemcpyBatchAsync");
	CUresult rc = cuMemcpyBatchAsync_v2(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs,
					    hStream);

	if (rc && failIdx)
		*failIdx = SIZE_MAX;
	return rc;
}

OLDER(cuMemcpyBatchAsync_ptsz, CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
      CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, size_t *failIdx,
      CUstream hStream)
{
	return cuMemcpyBatchAsync(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, failIdx,
				  hStream ? hStream : CU_STREAM_PER_THREAD);
}
