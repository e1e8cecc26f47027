/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Argument checks that calls with buffers share. Each failure logs one line with the call, the
 * argument, its value and the expected value.
 */
#include <stdint.h>

#include "core/api/api.h"
#include "core/base/log.h"
#include "core/base/param.h"
#include "core/device/layout/steps.h"
#include "core/plan/plan.h"

ncclResult_t api_check_type(const char *call, ncclDataType_t type)
{
	if ((unsigned)type < ncclNumTypes)
		return ncclSuccess;
	WARN("%s: datatype is %d, expected 0 to %d", call, (int)type, ncclNumTypes - 1);
	return ncclInvalidArgument;
}

ncclResult_t api_check_count(const char *call, const char *name, size_t count, ncclDataType_t type,
			     size_t blocks)
{
	ASSERT(blocks > 0 && (unsigned)type < ncclNumTypes);
	size_t most = (size_t)PTRDIFF_MAX / steps_type_bytes((int)type) / blocks;

	if (count <= most)
		return ncclSuccess;
	WARN("%s: %s is %zu, expected at most %zu: %zu x %zu elements of %s are more than memory "
	     "can hold",
	     call, name, count, most, blocks, count, plan_type_name(type));
	return ncclInvalidArgument;
}

ncclResult_t api_check_pointer(const struct ncclComm *comm, const char *call, const char *name,
			       const void *p)
{
	if (p)
		return ncclSuccess;
	WARN("%s: %s is NULL, expected memory of device %d", call, name, comm->cuda_dev);
	return ncclInvalidArgument;
}

ncclResult_t api_check_alignment(const char *call, const char *name, const void *p,
				 ncclDataType_t type)
{
	uint32_t align = steps_type_bytes((int)type);

	ASSERT(align && (align & (align - 1)) == 0); /* sizes of types are powers of two */
	if ((uintptr_t)p % align == 0)
		return ncclSuccess;
	WARN("%s: %s %p is not aligned to its type, %s, of %u bytes", call, name, p,
	     plan_type_name(type), align);
	return ncclInvalidArgument;
}

ncclResult_t api_check_memory(const struct ncclComm *comm, const char *call, const char *name,
			      const void *p)
{
	struct cudaPointerAttributes a;
	cudaError_t e;

	ASSERT(p); /* api_check_pointer refuses NULL before */
	if (!param_bool(PARAM_CHECK_POINTERS))
		return ncclSuccess;
	e = cudaPointerGetAttributes(&a, p);
	if (e != cudaSuccess) {
		(void)cudaGetLastError();
		WARN("%s: %s %p: %s", call, name, p, cudaGetErrorString(e));
		/* any other error is a fault of the GPU, not of the program */
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
