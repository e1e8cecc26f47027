/* SPDX-License-Identifier: BSD-3-Clause */
/* The runtime's calls about memory, as calls of the driver. */
#include "backends/fakecuda/fakecuda.h"

#include <string.h>

/* ---- device memory -------------------------------------------------------------------------- */

cudaError_t cudaMalloc(void **devPtr, size_t size)
{
	if (devPtr && !size) { /* the driver refuses that */
		*devPtr = NULL;
		return fc_leave(cudaSuccess);
	}
	return FC_RUNTIME("cudaMalloc", cuMemAlloc((CUdeviceptr *)devPtr, size));
}

cudaError_t cudaFree(void *devPtr)
{
	return FC_RUNTIME("cudaFree", cuMemFree((CUdeviceptr)devPtr));
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total)
{
	return FC_RUNTIME("cudaMemGetInfo", cuMemGetInfo(free, total));
}

/* ---- pinned host memory --------------------------------------------------------------------- */

cudaError_t cudaHostAlloc(void **pHost, size_t size, unsigned int flags)
{
	return FC_RUNTIME("cudaHostAlloc", cuMemHostAlloc(pHost, size, flags));
}

cudaError_t cudaMallocHost(void **ptr, size_t size)
{
	return cudaHostAlloc(ptr, size, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void *ptr)
{
	return FC_RUNTIME("cudaFreeHost", cuMemFreeHost(ptr));
}

cudaError_t cudaHostRegister(void *ptr, size_t size, unsigned int flags)
{
	return FC_RUNTIME("cudaHostRegister", cuMemHostRegister(ptr, size, flags));
}

cudaError_t cudaHostUnregister(void *ptr)
{
	return FC_RUNTIME("cudaHostUnregister", cuMemHostUnregister(ptr));
}

cudaError_t cudaHostGetDevicePointer(void **pDevice, void *pHost, unsigned int flags)
{
	return FC_RUNTIME("cudaHostGetDevicePointer",
			  cuMemHostGetDevicePointer((CUdeviceptr *)pDevice, pHost, flags));
}

cudaError_t cudaHostGetFlags(unsigned int *pFlags, void *pHost)
{
	return FC_RUNTIME("cudaHostGetFlags", cuMemHostGetFlags(pFlags, pHost));
}

/* ---- pointers and IPC ----------------------------------------------------------------------- */

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *ptr)
{
	struct cudaPointerAttributes a = {.device = -2};
	CUmemorytype type = 0;
	int managed = 0;
	CUpointer_attribute which[] = {
		CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
		CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER,
		CU_POINTER_ATTRIBUTE_IS_MANAGED};
	void *data[] = {&type, &a.device, &a.devicePointer, &a.hostPointer, &managed};

	cudaError_t rc = FC_RUNTIME("cudaPointerGetAttributes",
				    cuPointerGetAttributes(attributes ? ARRAY_LEN(which) : 0, which,
							   data, (CUdeviceptr)ptr));
	if (rc)
		return rc;
	/* the same numbers; 0: not registered */
	a.type = managed ? cudaMemoryTypeManaged : (enum cudaMemoryType)type;
	if (!type)
		a.hostPointer = (void *)(uintptr_t)ptr;
	*attributes = a;
	return cudaSuccess;
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *devPtr)
{
	return FC_RUNTIME("cudaIpcGetMemHandle",
			  cuIpcGetMemHandle((CUipcMemHandle *)handle, (CUdeviceptr)devPtr));
}

cudaError_t cudaIpcOpenMemHandle(void **devPtr, cudaIpcMemHandle_t handle, unsigned int flags)
{
	CUipcMemHandle h;

	memcpy(&h, &handle, sizeof h);
	return FC_RUNTIME("cudaIpcOpenMemHandle",
			  cuIpcOpenMemHandle((CUdeviceptr *)devPtr, h, flags));
}

cudaError_t cudaIpcCloseMemHandle(void *devPtr)
{
	return FC_RUNTIME("cudaIpcCloseMemHandle", cuIpcCloseMemHandle((CUdeviceptr)devPtr));
}

/* ---- copies and fills ----------------------------------------------------------------------- */

#define PTR(p) ((CUdeviceptr)(uintptr_t)(p))

static cudaError_t bad_direction(const char *call, enum cudaMemcpyKind kind)
{
	fc_report("%s: invalid direction %d", call, (int)kind);
	return fc_leave(cudaErrorInvalidMemcpyDirection);
}

cudaError_t cudaMemcpy(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind)
{
	static const char call[] = "cudaMemcpy";

	switch (kind) {
	case cudaMemcpyHostToDevice:
		return FC_RUNTIME(call, cuMemcpyHtoD(PTR(dst), src, count));
	case cudaMemcpyDeviceToHost:
		return FC_RUNTIME(call, cuMemcpyDtoH(dst, PTR(src), count));
	case cudaMemcpyDeviceToDevice:
		return FC_RUNTIME(call, cuMemcpyDtoD(PTR(dst), PTR(src), count));
	case cudaMemcpyHostToHost:
	case cudaMemcpyDefault:
		return FC_RUNTIME(call, cuMemcpy(PTR(dst), PTR(src), count));
	default:
		return bad_direction(call, kind);
	}
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind,
			    cudaStream_t stream)
{
	static const char call[] = "cudaMemcpyAsync";

	switch (kind) {
	case cudaMemcpyHostToDevice:
		return FC_RUNTIME(call, cuMemcpyHtoDAsync(PTR(dst), src, count, stream));
	case cudaMemcpyDeviceToHost:
		return FC_RUNTIME(call, cuMemcpyDtoHAsync(dst, PTR(src), count, stream));
	case cudaMemcpyDeviceToDevice:
		return FC_RUNTIME(call, cuMemcpyDtoDAsync(PTR(dst), PTR(src), count, stream));
	case cudaMemcpyHostToHost:
	case cudaMemcpyDefault:
		return FC_RUNTIME(call, cuMemcpyAsync(PTR(dst), PTR(src), count, stream));
	default:
		return bad_direction(call, kind);
	}
}

/* Returns the contexts of two devices; false: one does not exist (reported). */
static bool two_contexts(const char *call, int a, int b, CUcontext *of_a, CUcontext *of_b)
{
	*of_a = fc_context_of(a);
	*of_b = fc_context_of(b);
	if (!*of_a || !*of_b)
		fc_report("%s: devices %d and %d; this process has no device %d", call, a, b,
			  *of_a ? b : a);
	return *of_a && *of_b;
}

cudaError_t cudaMemcpyPeer(void *dst, int dstDevice, const void *src, int srcDevice, size_t count)
{
	static const char call[] = "cudaMemcpyPeer";
	CUcontext to, from;

	if (!two_contexts(call, dstDevice, srcDevice, &to, &from))
		return fc_leave(cudaErrorInvalidDevice);
	return FC_RUNTIME(call, cuMemcpyPeer(PTR(dst), to, PTR(src), from, count));
}

cudaError_t cudaMemcpyPeerAsync(void *dst, int dstDevice, const void *src, int srcDevice,
				size_t count, cudaStream_t stream)
{
	static const char call[] = "cudaMemcpyPeerAsync";
	CUcontext to, from;

	if (!two_contexts(call, dstDevice, srcDevice, &to, &from))
		return fc_leave(cudaErrorInvalidDevice);
	return FC_RUNTIME(call, cuMemcpyPeerAsync(PTR(dst), to, PTR(src), from, count, stream));
}

cudaError_t cudaMemset(void *devPtr, int value, size_t count)
{
	return FC_RUNTIME("cudaMemset", cuMemsetD8(PTR(devPtr), (unsigned char)value, count));
}

cudaError_t cudaMemsetAsync(void *devPtr, int value, size_t count, cudaStream_t stream)
{
	return FC_RUNTIME("cudaMemsetAsync",
			  cuMemsetD8Async(PTR(devPtr), (unsigned char)value, count, stream));
}
