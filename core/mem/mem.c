/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/mem/mem.h"

#include <cuda.h>
#include <stdio.h>

#include "core/base/log.h"
#include "core/base/macros.h"
#include "core/rank/cuda_result.h"

static ncclResult_t mem_result(cudaError_t e, const char *call, const char *what)
{
	char attempted[160] = "";

	if (e != cudaSuccess)
		snprintf(attempted, sizeof attempted, "%s of %s", call, what);
	return cuda_result(e, attempted);
}

ncclResult_t mem_device_alloc(void **mem, size_t bytes, const char *what)
{
	ncclResult_t rc;

	*mem = NULL;
	rc = mem_result(cudaMalloc(mem, bytes), "cudaMalloc", what);
	if (!rc)
		INFO(LOG_ALLOC, "Cuda Alloc Size %zu pointer %p: %s", bytes, *mem, what);
	return rc;
}

ncclResult_t mem_device_free(void *mem, const char *what)
{
	if (mem)
		INFO(LOG_ALLOC, "Cuda Free pointer %p: %s", mem, what);
	return mem ? mem_result(cudaFree(mem), "cudaFree", what) : ncclSuccess;
}

ncclResult_t mem_host_alloc(void **mem, size_t bytes, const char *what)
{
	ncclResult_t rc;

	*mem = NULL;
	rc = mem_result(cudaHostAlloc(mem, bytes, cudaHostAllocMapped | cudaHostAllocPortable),
			"cudaHostAlloc", what);
	if (!rc)
		INFO(LOG_ALLOC, "Cuda Host Alloc Size %zu pointer %p: %s", bytes, *mem, what);
	return rc;
}

ncclResult_t mem_host_free(void *mem, const char *what)
{
	if (mem)
		INFO(LOG_ALLOC, "Cuda Host Free pointer %p: %s", mem, what);
	return mem ? mem_result(cudaFreeHost(mem), "cudaFreeHost", what) : ncclSuccess;
}

ncclResult_t mem_host_register(void *mem, size_t bytes, void **device, const char *what)
{
	ncclResult_t rc;

	*device = NULL;
	rc = mem_result(
		cudaHostRegister(mem, bytes, cudaHostRegisterMapped | cudaHostRegisterPortable),
		"cudaHostRegister", what);
	if (rc)
		return rc;
	rc = mem_result(cudaHostGetDevicePointer(device, mem, 0), "cudaHostGetDevicePointer", what);
	if (rc)
		(void)mem_host_unregister(mem, what);
	return rc;
}

ncclResult_t mem_host_unregister(void *mem, const char *what)
{
	return mem_result(cudaHostUnregister(mem), "cudaHostUnregister", what);
}

ncclResult_t mem_export(cudaIpcMemHandle_t *handle, void *mem, const char *what)
{
	return mem_result(cudaIpcGetMemHandle(handle, mem), "cudaIpcGetMemHandle", what);
}

ncclResult_t mem_import(void **mem, cudaIpcMemHandle_t handle, const char *what)
{
	*mem = NULL;
	return mem_result(cudaIpcOpenMemHandle(mem, handle, cudaIpcMemLazyEnablePeerAccess),
			  "cudaIpcOpenMemHandle", what);
}

ncclResult_t mem_import_close(void *mem, const char *what)
{
	return mem_result(cudaIpcCloseMemHandle(mem), "cudaIpcCloseMemHandle", what);
}

ncclResult_t mem_dmabuf(void *mem, size_t bytes, int *fd, size_t *offset)
{
	uintptr_t base = (uintptr_t)mem / MEM_PAGE_BYTES * MEM_PAGE_BYTES;
	size_t pages = ALIGN_UP((uintptr_t)mem - base + bytes, MEM_PAGE_BYTES);

	*fd = -1;
	*offset = (uintptr_t)mem - base;
	return cuMemGetHandleForAddressRange(fd, (CUdeviceptr)base, pages,
					     CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0) == CUDA_SUCCESS
		       ? ncclSuccess
		       : ncclInvalidUsage;
}
