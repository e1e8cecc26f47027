/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The driver's calls about errors, devices and pointers. A CUdevice is the runtime's ordinal.
 */
#include "backends/fakecuda/fakecuda.h"

#include <cuda.h>
#include <string.h>

static const char *const result_words[] = {
#define RESULT_NAME(constant) #constant,
#include "backends/fakecuda/result_names.def"
#undef RESULT_NAME
};
static const CUresult result_values[] = {
#define RESULT_NAME(constant) constant,
#include "backends/fakecuda/result_names.def"
#undef RESULT_NAME
};

CUresult cuGetErrorName(CUresult error, const char **pStr)
{
	if (!pStr)
		return CUDA_ERROR_INVALID_VALUE;
	*pStr = NULL;
	for (size_t i = 0; i < ARRAY_LEN(result_values); i++) {
		if (result_values[i] == error)
			*pStr = result_words[i];
	}
	return *pStr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Driver and runtime use the same numbers for their common errors. */
CUresult cuGetErrorString(CUresult error, const char **pStr)
{
	const char *name;
	CUresult rc = cuGetErrorName(error, &name);
	if (!pStr)
		return CUDA_ERROR_INVALID_VALUE;
	*pStr = rc ? NULL : cudaGetErrorString((cudaError_t)error);
	return rc;
}

/* Ends a driver call. Unlike fc_leave, it does not set the thread's last error. `rc` may be one of
 * the runtime's errors. */
static CUresult driver_leave(CUresult rc)
{
	sim_events_drain();
	return rc;
}

static CUresult driver_enter(const char *call, struct fc_proc **proc)
{
	cudaError_t rc = fc_enter(call, proc);
	return (CUresult)rc;
}

CUresult cuInit(unsigned int Flags)
{
	struct fc_proc *proc;
	CUresult rc = driver_enter("cuInit", &proc);
	if (!rc && Flags)
		rc = CUDA_ERROR_INVALID_VALUE;
	return driver_leave(rc);
}

CUresult cuDriverGetVersion(int *driverVersion)
{
	if (!driverVersion)
		return CUDA_ERROR_INVALID_VALUE;
	*driverVersion = CUDA_VERSION;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
	struct fc_proc *proc;
	CUresult rc = driver_enter("cuDeviceGetCount", &proc);
	if (!rc && !count)
		rc = CUDA_ERROR_INVALID_VALUE;
	if (!rc)
		*count = proc->count;
	return driver_leave(rc);
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	struct fc_proc *proc;
	CUresult rc = driver_enter("cuDeviceGet", &proc);
	if (!rc && !device)
		rc = CUDA_ERROR_INVALID_VALUE;
	else if (!rc && (ordinal < 0 || ordinal >= proc->count))
		rc = CUDA_ERROR_INVALID_DEVICE;
	if (!rc)
		*device = ordinal;
	return driver_leave(rc);
}

CUresult cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
	cudaError_t before = fc_task_error();
	cudaError_t rc = cudaDeviceGetAttribute(pi, (enum cudaDeviceAttr)attrib, dev);
	fc_task_set_error(before);
	return (CUresult)rc;
}

/* Returns the live allocation that the process may use. The caller holds fc_lock. */
static struct fc_alloc *driver_alloc(struct fc_proc *proc, CUdeviceptr ptr, struct fc_device **dev)
{
	*dev = fc_memory_at(ptr);
	return *dev ? fc_access_alloc(proc, *dev, ptr, 1) : NULL;
}

/* Returns the base of the allocation in the process' view. */
static CUdeviceptr driver_base(const struct fc_proc *proc, const struct fc_alloc *a,
			       CUdeviceptr ptr)
{
	return fc_vmm_has(ptr) ? fc_vmm_map_at(proc, ptr)->base : a->base;
}

CUresult cuMemGetAddressRange(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
	struct fc_proc *proc;
	struct fc_device *dev;
	CUresult rc = driver_enter("cuMemGetAddressRange", &proc);
	if (rc)
		return driver_leave(rc);
	fc_lock();
	struct fc_alloc *a = driver_alloc(proc, dptr, &dev);
	if (a && pbase)
		*pbase = driver_base(proc, a, dptr);
	if (a && psize)
		*psize = a->bytes;
	fc_unlock();
	if (!a)
		fc_report("cuMemGetAddressRange: 0x%llx is not device memory of this process",
			  dptr);
	return driver_leave(a ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND);
}

/* Stores one attribute of device memory. Returns false for an attribute that is not implemented. */
static bool driver_pointer_value(void *data, CUpointer_attribute attribute, struct fc_proc *proc,
				 struct fc_device *dev, const struct fc_alloc *a, CUdeviceptr ptr)
{
	const struct fc_ctx *ctx = dev->gpu ? fc_ctx_of_device(proc, dev) : NULL;

	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(CUmemorytype *)data = dev->gpu ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
		return true;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*(CUdeviceptr *)data = ptr;
		return true;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		*(unsigned long long *)data = a->number;
		return true;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)data = !dev->gpu ? 0 : ctx ? ctx->ordinal : -1; /* 0: host memory */
		return true;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		*(int *)data = !a->vmm;
		return true;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		*(unsigned long long *)data = a->handle_types;
		return true;
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		*(int *)data = dev->gpu && dev->gpu->gdr && (!a->vmm || a->rdma);
		return true;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*(CUdeviceptr *)data = driver_base(proc, a, ptr);
		return true;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*(size_t *)data = a->bytes;
		return true;
	default:
		return false;
	}
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	struct fc_proc *proc;
	struct fc_device *dev;
	CUresult rc = driver_enter("cuPointerGetAttribute", &proc);
	if (!rc && !data)
		rc = CUDA_ERROR_INVALID_VALUE;
	if (rc)
		return driver_leave(rc);
	bool known = true;
	fc_lock();
	struct fc_alloc *a = driver_alloc(proc, ptr, &dev);
	if (a) {
		known = driver_pointer_value(data, attribute, proc, dev, a, ptr);
	} else if (fc_host_find(proc, ptr, 1) && attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE) {
		*(CUmemorytype *)data = CU_MEMORYTYPE_HOST;
	} else {
		rc = CUDA_ERROR_INVALID_VALUE;
	}
	fc_unlock();
	if (!known) {
		char name[64];
		snprintf(name, sizeof name, "pointer attribute %d", (int)attribute);
		fc_unimplemented(name);
	}
	return driver_leave(rc);
}
