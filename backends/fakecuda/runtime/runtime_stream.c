/* SPDX-License-Identifier: BSD-3-Clause */
/* The runtime's calls about streams and events, as calls of the driver. */
#include "backends/fakecuda/fakecuda.h"

/* ---- streams -------------------------------------------------------------------------------- */

cudaError_t cudaStreamCreate(cudaStream_t *pStream)
{
	return FC_RUNTIME("cudaStreamCreate", cuStreamCreate(pStream, cudaStreamDefault));
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *pStream, unsigned int flags)
{
	return FC_RUNTIME("cudaStreamCreateWithFlags", cuStreamCreate(pStream, flags));
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *pStream, unsigned int flags, int priority)
{
	return FC_RUNTIME("cudaStreamCreateWithPriority",
			  cuStreamCreateWithPriority(pStream, flags, priority));
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
	return FC_RUNTIME("cudaStreamDestroy", cuStreamDestroy(stream));
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	return FC_RUNTIME("cudaStreamSynchronize", cuStreamSynchronize(stream));
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
	return FC_RUNTIME("cudaStreamQuery", cuStreamQuery(stream));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
	return FC_RUNTIME("cudaStreamWaitEvent", cuStreamWaitEvent(stream, event, flags));
}

cudaError_t cudaStreamGetPriority(cudaStream_t hStream, int *priority)
{
	return FC_RUNTIME("cudaStreamGetPriority", cuStreamGetPriority(hStream, priority));
}

cudaError_t cudaStreamGetFlags(cudaStream_t hStream, unsigned int *flags)
{
	return FC_RUNTIME("cudaStreamGetFlags", cuStreamGetFlags(hStream, flags));
}

cudaError_t cudaStreamGetDevice(cudaStream_t hStream, int *device)
{
	return FC_RUNTIME("cudaStreamGetDevice", cuStreamGetDevice(hStream, device));
}

cudaError_t cudaStreamGetId(cudaStream_t hStream, unsigned long long *streamId)
{
	return FC_RUNTIME("cudaStreamGetId", cuStreamGetId(hStream, streamId));
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *userData)
{
	return FC_RUNTIME("cudaLaunchHostFunc", cuLaunchHostFunc(stream, fn, userData));
}

/* ---- events --------------------------------------------------------------------------------- */

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
	return FC_RUNTIME("cudaEventCreate", cuEventCreate(event, cudaEventDefault));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
	return FC_RUNTIME("cudaEventCreateWithFlags", cuEventCreate(event, flags));
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	return FC_RUNTIME("cudaEventDestroy", cuEventDestroy(event));
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	return FC_RUNTIME("cudaEventRecord", cuEventRecord(event, stream));
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags)
{
	return FC_RUNTIME("cudaEventRecordWithFlags", cuEventRecordWithFlags(event, stream, flags));
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
	return FC_RUNTIME("cudaEventQuery", cuEventQuery(event));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
	return FC_RUNTIME("cudaEventSynchronize", cuEventSynchronize(event));
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
	return FC_RUNTIME("cudaEventElapsedTime", cuEventElapsedTime(ms, start, end));
}
