/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Variants of the driver's functions whose stream 0 is the calling thread's own one: for programs
 * that are compiled with --default-stream per-thread, and for lookups with that flag. Reports have
 * the names without the suffix. Copies and fills that wait are in memory/copy_calls.c.
 */
#include "backends/fakecuda/fakecuda.h"

#define PER_THREAD(name, ...)                                                                      \
	FAKECUDA_API CUresult name(__VA_ARGS__);                                                   \
	CUresult name(__VA_ARGS__)

static CUstream own_stream(CUstream s)
{
	return s ? s : CU_STREAM_PER_THREAD;
}

PER_THREAD(cuMemcpyAsync_ptsz, CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream)
{
	fc_at_announce("cuMemcpyAsync", __builtin_return_address(0));
	return cuMemcpyAsync(dst, src, ByteCount, own_stream(hStream));
}

PER_THREAD(cuMemcpyHtoDAsync_v2_ptsz, CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount,
	   CUstream hStream)
{
	fc_at_announce("cuMemcpyHtoDAsync", __builtin_return_address(0));
	return cuMemcpyHtoDAsync(dstDevice, srcHost, ByteCount, own_stream(hStream));
}

PER_THREAD(cuMemcpyDtoHAsync_v2_ptsz, void *dstHost, CUdeviceptr srcDevice, size_t ByteCount,
	   CUstream hStream)
{
	fc_at_announce("cuMemcpyDtoHAsync", __builtin_return_address(0));
	return cuMemcpyDtoHAsync(dstHost, srcDevice, ByteCount, own_stream(hStream));
}

PER_THREAD(cuMemcpyDtoDAsync_v2_ptsz, CUdeviceptr dstDevice, CUdeviceptr srcDevice,
	   size_t ByteCount, CUstream hStream)
{
	fc_at_announce("cuMemcpyDtoDAsync", __builtin_return_address(0));
	return cuMemcpyDtoDAsync(dstDevice, srcDevice, ByteCount, own_stream(hStream));
}

PER_THREAD(cuMemcpyPeerAsync_ptsz, CUdeviceptr dstDevice, CUcontext dstContext,
	   CUdeviceptr srcDevice, CUcontext srcContext, size_t ByteCount, CUstream hStream)
{
	fc_at_announce("cuMemcpyPeerAsync", __builtin_return_address(0));
	return cuMemcpyPeerAsync(dstDevice, dstContext, srcDevice, srcContext, ByteCount,
				 own_stream(hStream));
}

PER_THREAD(cuMemsetD8Async_ptsz, CUdeviceptr dstDevice, unsigned char uc, size_t N,
	   CUstream hStream)
{
	fc_at_announce("cuMemsetD8Async", __builtin_return_address(0));
	return cuMemsetD8Async(dstDevice, uc, N, own_stream(hStream));
}

PER_THREAD(cuMemsetD16Async_ptsz, CUdeviceptr dstDevice, unsigned short us, size_t N,
	   CUstream hStream)
{
	fc_at_announce("cuMemsetD16Async", __builtin_return_address(0));
	return cuMemsetD16Async(dstDevice, us, N, own_stream(hStream));
}

PER_THREAD(cuMemsetD32Async_ptsz, CUdeviceptr dstDevice, unsigned int ui, size_t N,
	   CUstream hStream)
{
	fc_at_announce("cuMemsetD32Async", __builtin_return_address(0));
	return cuMemsetD32Async(dstDevice, ui, N, own_stream(hStream));
}

PER_THREAD(cuStreamGetPriority_ptsz, CUstream hStream, int *priority)
{
	fc_at_announce("cuStreamGetPriority", __builtin_return_address(0));
	return cuStreamGetPriority(own_stream(hStream), priority);
}

PER_THREAD(cuStreamGetFlags_ptsz, CUstream hStream, unsigned int *flags)
{
	fc_at_announce("cuStreamGetFlags", __builtin_return_address(0));
	return cuStreamGetFlags(own_stream(hStream), flags);
}

PER_THREAD(cuStreamGetId_ptsz, CUstream hStream, unsigned long long *streamId)
{
	fc_at_announce("cuStreamGetId", __builtin_return_address(0));
	return cuStreamGetId(own_stream(hStream), streamId);
}

PER_THREAD(cuStreamGetDevice_ptsz, CUstream hStream, CUdevice *device)
{
	fc_at_announce("cuStreamGetDevice", __builtin_return_address(0));
	return cuStreamGetDevice(own_stream(hStream), device);
}

PER_THREAD(cuStreamWaitEvent_ptsz, CUstream hStream, CUevent hEvent, unsigned int Flags)
{
	fc_at_announce("cuStreamWaitEvent", __builtin_return_address(0));
	return cuStreamWaitEvent(own_stream(hStream), hEvent, Flags);
}

PER_THREAD(cuStreamQuery_ptsz, CUstream hStream)
{
	fc_at_announce("cuStreamQuery", __builtin_return_address(0));
	return cuStreamQuery(own_stream(hStream));
}

PER_THREAD(cuStreamSynchronize_ptsz, CUstream hStream)
{
	fc_at_announce("cuStreamSynchronize", __builtin_return_address(0));
	return cuStreamSynchronize(own_stream(hStream));
}

PER_THREAD(cuEventRecord_ptsz, CUevent hEvent, CUstream hStream)
{
	fc_at_announce("cuEventRecord", __builtin_return_address(0));
	return cuEventRecord(hEvent, own_stream(hStream));
}

PER_THREAD(cuEventRecordWithFlags_ptsz, CUevent hEvent, CUstream hStream, unsigned int flags)
{
	fc_at_announce("cuEventRecordWithFlags", __builtin_return_address(0));
	return cuEventRecordWithFlags(hEvent, own_stream(hStream), flags);
}

PER_THREAD(cuStreamBeginCapture_v2_ptsz, CUstream hStream, CUstreamCaptureMode mode)
{
	return cuStreamBeginCapture(own_stream(hStream), mode);
}

PER_THREAD(cuStreamEndCapture_ptsz, CUstream hStream, CUgraph *phGraph)
{
	return cuStreamEndCapture(own_stream(hStream), phGraph);
}

PER_THREAD(cuStreamIsCapturing_ptsz, CUstream hStream, CUstreamCaptureStatus *captureStatus)
{
	return cuStreamIsCapturing(own_stream(hStream), captureStatus);
}

PER_THREAD(cuStreamGetCaptureInfo_v3_ptsz, CUstream hStream,
	   CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out, CUgraph *graph_out,
	   const CUgraphNode **dependencies_out, const CUgraphEdgeData **edgeData_out,
	   size_t *numDependencies_out)
{
	return cuStreamGetCaptureInfo(own_stream(hStream), captureStatus_out, id_out, graph_out,
				      dependencies_out, edgeData_out, numDependencies_out);
}

PER_THREAD(cuStreamUpdateCaptureDependencies_v2_ptsz, CUstream hStream, CUgraphNode *dependencies,
	   const CUgraphEdgeData *dependencyData, size_t numDependencies, unsigned int flags)
{
	return cuStreamUpdateCaptureDependencies(own_stream(hStream), dependencies, dependencyData,
						 numDependencies, flags);
}

PER_THREAD(cuGraphLaunch_ptsz, CUgraphExec hGraphExec, CUstream hStream)
{
	return cuGraphLaunch(hGraphExec, own_stream(hStream));
}

PER_THREAD(cuGraphUpload_ptsz, CUgraphExec hGraphExec, CUstream hStream)
{
	return cuGraphUpload(hGraphExec, own_stream(hStream));
}

PER_THREAD(cuLaunchHostFunc_ptsz, CUstream hStream, CUhostFn fn, void *userData)
{
	fc_at_announce("cuLaunchHostFunc", __builtin_return_address(0));
	return cuLaunchHostFunc(own_stream(hStream), fn, userData);
}

PER_THREAD(cuStreamWaitValue32_v2_ptsz, CUstream stream, CUdeviceptr addr, cuuint32_t value,
	   unsigned int flags)
{
	fc_at_announce("cuStreamWaitValue32", __builtin_return_address(0));
	return cuStreamWaitValue32(own_stream(stream), addr, value, flags);
}

PER_THREAD(cuStreamWaitValue64_v2_ptsz, CUstream stream, CUdeviceptr addr, cuuint64_t value,
	   unsigned int flags)
{
	fc_at_announce("cuStreamWaitValue64", __builtin_return_address(0));
	return cuStreamWaitValue64(own_stream(stream), addr, value, flags);
}

PER_THREAD(cuStreamWriteValue32_v2_ptsz, CUstream stream, CUdeviceptr addr, cuuint32_t value,
	   unsigned int flags)
{
	fc_at_announce("cuStreamWriteValue32", __builtin_return_address(0));
	return cuStreamWriteValue32(own_stream(stream), addr, value, flags);
}

PER_THREAD(cuStreamWriteValue64_v2_ptsz, CUstream stream, CUdeviceptr addr, cuuint64_t value,
	   unsigned int flags)
{
	fc_at_announce("cuStreamWriteValue64", __builtin_return_address(0));
	return cuStreamWriteValue64(own_stream(stream), addr, value, flags);
}

PER_THREAD(cuStreamBatchMemOp_v2_ptsz, CUstream stream, unsigned int count,
	   CUstreamBatchMemOpParams *paramArray, unsigned int flags)
{
	fc_at_announce("cuStreamBatchMemOp", __builtin_return_address(0));
	return cuStreamBatchMemOp(own_stream(stream), count, paramArray, flags);
}

PER_THREAD(cuMemAllocAsync_ptsz, CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
	fc_at_announce("cuMemAllocAsync", __builtin_return_address(0));
	return cuMemAllocAsync(dptr, bytesize, own_stream(hStream));
}

PER_THREAD(cuMemAllocFromPoolAsync_ptsz, CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
	   CUstream hStream)
{
	fc_at_announce("cuMemAllocFromPoolAsync", __builtin_return_address(0));
	return cuMemAllocFromPoolAsync(dptr, bytesize, pool, own_stream(hStream));
}

PER_THREAD(cuMemFreeAsync_ptsz, CUdeviceptr dptr, CUstream hStream)
{
	fc_at_announce("cuMemFreeAsync", __builtin_return_address(0));
	return cuMemFreeAsync(dptr, own_stream(hStream));
}

PER_THREAD(cuMemPrefetchAsync_v2_ptsz, CUdeviceptr devPtr, size_t count, CUmemLocation location,
	   unsigned int flags, CUstream hStream)
{
	fc_at_announce("cuMemPrefetchAsync", __builtin_return_address(0));
	return cuMemPrefetchAsync(devPtr, count, location, flags, own_stream(hStream));
}

PER_THREAD(cuMemcpyBatchAsync_v2_ptsz, CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
	   size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs,
	   CUstream hStream)
{
	fc_at_announce("cuMemcpyBatchAsync", __builtin_return_address(0));
	return cuMemcpyBatchAsync(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs,
				  own_stream(hStream));
}
