/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/mem/cumem.h"

#include <cuda.h>
#include <stdint.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/macros.h"
#include "core/base/param.h"
#include "core/rank/cuda_result.h"

#define CUMEM_DRIVER 12000 /* the first whose cuMem NCCL uses by itself */

static ncclResult_t cumem_result(CUresult e, const char *call, const char *what)
{
	const char *text = NULL;

	if (e == CUDA_SUCCESS)
		return ncclSuccess;
	if (cuGetErrorString(e, &text) != CUDA_SUCCESS || !text)
		text = "unknown error";
	WARN("%s of %s: %s (%d)", call, what, text, (int)e);
	return ncclUnhandledCudaError;
}

static ncclResult_t cumem_attribute(int device, CUdevice_attribute attribute, bool *has)
{
	int value = 0;
	ncclResult_t rc = cumem_result(cuDeviceGetAttribute(&value, attribute, device),
				       "cuDeviceGetAttribute", "cuMem");

	*has = *has && value;
	return rc;
}

/* A rank that takes no answer for no would differ from its neighbours. */
ncclResult_t cumem_has(int device, bool *has)
{
	int version = 0;
	ncclResult_t rc;

	*has = false;
	if (param_i64(PARAM_CUMEM_ENABLE) != 1)
		return ncclSuccess;
	rc = cuda_result(cudaDriverGetVersion(&version), "cudaDriverGetVersion for cuMem");
	if (rc || version < CUMEM_DRIVER)
		return rc;
	*has = true;
	rc = cumem_attribute(device, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, has);
	return rc ? rc
		  : cumem_attribute(device,
				    CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
				    has);
}

ncclResult_t cumem_allow(void *mem, size_t bytes, int device, const char *what)
{
	const CUmemAccessDesc desc = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, device},
				      .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

	return cumem_result(cuMemSetAccess((CUdeviceptr)(uintptr_t)mem, bytes, &desc, 1),
			    "cuMemSetAccess", what);
}

/* Reserves addresses, and maps the memory of the handle there for the device. */
static ncclResult_t cumem_map(void **mem, size_t bytes, CUmemGenericAllocationHandle handle,
			      int device, const char *what)
{
	CUdeviceptr at = 0;
	ncclResult_t rc =
		cumem_result(cuMemAddressReserve(&at, bytes, 0, 0, 0), "cuMemAddressReserve", what);

	if (rc)
		return rc;
	rc = cumem_result(cuMemMap(at, bytes, 0, handle, 0), "cuMemMap", what);
	if (rc)
		goto err_address_free;
	rc = cumem_allow((void *)(uintptr_t)at, bytes, device, what);
	if (rc)
		goto err_unmap;
	*mem = (void *)(uintptr_t)at;
	return ncclSuccess;
err_unmap:
	(void)cuMemUnmap(at, bytes);
err_address_free:
	(void)cuMemAddressFree(at, bytes);
	return rc;
}

/* The mapping keeps the memory: the handle goes, whether it was made or not. */
static ncclResult_t cumem_map_and_release(void **mem, size_t bytes,
					  CUmemGenericAllocationHandle handle, int device,
					  const char *what)
{
	ncclResult_t rc = cumem_map(mem, bytes, handle, device, what);
	ncclResult_t released = cumem_result(cuMemRelease(handle), "cuMemRelease", what);

	if (rc || !released)
		return rc;
	(void)cumem_free(*mem, bytes, what);
	*mem = NULL;
	return released;
}

ncclResult_t cumem_alloc(void **mem, size_t bytes, const char *what)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .requestedHandleTypes =
					    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemGenericAllocationHandle handle = 0;
	ncclResult_t rc;

	*mem = NULL;
	ASSERT(bytes && bytes % CUMEM_PAGE_BYTES == 0);
	rc = cuda_result(cudaGetDevice(&prop.location.id), "cudaGetDevice for cuMemCreate");
	if (!rc)
		rc = cumem_result(cuMemCreate(&handle, bytes, &prop, 0), "cuMemCreate", what);
	return rc ? rc : cumem_map_and_release(mem, bytes, handle, prop.location.id, what);
}

ncclResult_t cumem_free(void *mem, size_t bytes, const char *what)
{
	CUdeviceptr at = (CUdeviceptr)(uintptr_t)mem;
	ncclResult_t rc = cumem_result(cuMemUnmap(at, bytes), "cuMemUnmap", what);
	ncclResult_t freed = cumem_result(cuMemAddressFree(at, bytes), "cuMemAddressFree", what);

	return rc ? rc : freed;
}

ncclResult_t cumem_export(int *fd, void *mem, const char *what)
{
	CUmemGenericAllocationHandle handle = 0;
	ncclResult_t rc, released;

	*fd = -1;
	rc = cumem_result(cuMemRetainAllocationHandle(&handle, mem), "cuMemRetainAllocationHandle",
			  what);
	if (rc)
		return rc;
	rc = cumem_result(cuMemExportToShareableHandle(fd, handle,
						       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
			  "cuMemExportToShareableHandle", what);
	released = cumem_result(cuMemRelease(handle), "cuMemRelease", what);
	return rc ? rc : released;
}

ncclResult_t cumem_import(void **mem, size_t bytes, int fd, const char *what)
{
	CUmemGenericAllocationHandle handle = 0;
	ncclResult_t rc;
	int device;

	*mem = NULL;
	rc = cuda_result(cudaGetDevice(&device), "cudaGetDevice for cuMemMap");
	if (!rc)
		rc = cumem_result(
			cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd,
						       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
			"cuMemImportFromShareableHandle", what);
	return rc ? rc : cumem_map_and_release(mem, bytes, handle, device, what);
}
