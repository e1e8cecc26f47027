/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks of arguments that calls with buffers share. Each failure is one line that names the call,
 * the argument, what it was and what was expected.
 */
#include <stdint.h>

#include "core/api/api.h"
#include "core/base/log.h"
#include "core/base/param.h"
#include "core/device/steps.h"
#include "core/plan/plan.h"

/* Elements of `blocks` blocks of `count` have a size. */
ncclResult_t api_count_check(const char *call, size_t count, ncclDataType_t type, size_t blocks)
{
	if ((unsigned)type >= ncclNumTypes) {
		WARN("%s: datatype is %d, expected 0 to %d", call, (int)type, ncclNumTypes - 1);
		return ncclInvalidArgument;
	}
	if (count > (size_t)PTRDIFF_MAX / steps_type_bytes((int)type) / blocks) {
		WARN("%s: count is %zu, more than memory can hold of %s", call, count,
		     plan_type_name(type));
		return ncclInvalidArgument;
	}
	return ncclSuccess;
}

static ncclResult_t api_pointer_check(const struct ncclComm *comm, const char *call, const void *p,
				      const char *name)
{
	struct cudaPointerAttributes a;
	cudaError_t e = cudaPointerGetAttributes(&a, p);

	if (e != cudaSuccess) {
		(void)cudaGetLastError();
		WARN("%s: %s %p: %s", call, name, p, cudaGetErrorString(e));
		/* any other error is the GPU's trouble, not the program's */
		return e == cudaErrorInvalidValue ? ncclInvalidArgument : ncclUnhandledCudaError;
	}
	if (a.type == cudaMemoryTypeUnregistered || !a.devicePointer) {
		WARN("%s: %s %p is host memory, expected memory of device %d", call, name, p,
		     comm->cuda_dev);
		return ncclInvalidArgument;
	}
	if (a.type == cudaMemoryTypeDevice && a.device != comm->cuda_dev) {
		WARN("%s: %s %p is memory of device %d, the communicator's is %d", call, name, p,
		     a.device, comm->cuda_dev);
		return ncclInvalidArgument;
	}
	return ncclSuccess;
}

static bool api_checks_pointers(void)
{
#ifdef DOPPEL_FAKECUDA
	return true;
#else
	return param_bool(PARAM_CHECK_POINTERS);
#endif
}

/* A buffer that is used: not NULL, aligned to the type, memory of the communicator's GPU. */
ncclResult_t api_buffer_check(const struct ncclComm *comm, const char *call, const void *p,
			      const char *name, ncclDataType_t type)
{
	if (!p) {
		WARN("%s: %s is NULL", call, name);
		return ncclInvalidArgument;
	}
	if ((uintptr_t)p % steps_type_bytes((int)type)) {
		WARN("%s: %s is not aligned to its type, %s", call, name, plan_type_name(type));
		return ncclInvalidArgument;
	}
	return api_checks_pointers() ? api_pointer_check(comm, call, p, name) : ncclSuccess;
}

/* A captured launch would run again without its proxy operations, and its order with launches outside
 * the graph would be lost. Querying is all that a capture allows, so the capture goes on unharmed. */
ncclResult_t api_stream_check(const char *call, cudaStream_t stream)
{
	enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
	cudaError_t e = cudaStreamIsCapturing(stream, &status);

	if (e == cudaErrorStreamCaptureImplicit) {
		(void)cudaGetLastError();
		WARN("%s: stream is the legacy default stream, which cannot be used while a "
		     "blocking stream captures a CUDA graph",
		     call);
		return ncclInvalidUsage;
	}
	if (e != cudaSuccess) {
		WARN("%s: cudaStreamIsCapturing: %s", call, cudaGetErrorString(e));
		return ncclUnhandledCudaError;
	}
	if (status == cudaStreamCaptureStatusNone)
		return ncclSuccess;
	WARN("%s: stream captures a CUDA graph, expected one that does not: collectives cannot be "
	     "captured",
	     call);
	return ncclInvalidUsage;
}
