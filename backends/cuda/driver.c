/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The CUDA driver calls of backends/INTERFACE.md as hidden thunks: libdoppel does not link
 * libcuda.so.1, so it loads without a driver. Each thunk requests the driver's function from the
 * static runtime at each call. The calls are rare, so nothing is cached and there is no state.
 *
 * Without a driver, or with one that lacks the function, a thunk returns CUDA_ERROR_NOT_FOUND and
 * sets no output. The caller then turns the feature off.
 */
#pragma GCC visibility push(hidden)
#include <cuda.h>
#include <cuda_runtime_api.h>

/* ABI of the driver functions named below; all of them have it since CUDA 12.0. */
#define DRIVER_ABI_VERSION 12000

static void *driver_function(const char *name)
{
	enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
	void *fn = NULL;
	cudaError_t rc;

	rc = cudaGetDriverEntryPointByVersion(name, &fn, DRIVER_ABI_VERSION, cudaEnableDefault,
					      &found);
	if (rc != cudaSuccess) {
		(void)cudaGetLastError(); /* clears the error, which the caller did not cause */
		return NULL;
	}
	return found == cudaDriverEntryPointSuccess ? fn : NULL;
}

CUresult CUDAAPI cuGetErrorString(CUresult error, const char **text)
{
	CUresult(CUDAAPI * fn)(CUresult, const char **);

	*(void **)&fn = driver_function("cuGetErrorString");
	return fn ? fn(error, text) : CUDA_ERROR_NOT_FOUND;
}

CUresult CUDAAPI cuGetErrorName(CUresult error, const char **text)
{
	CUresult(CUDAAPI * fn)(CUresult, const char **);

	*(void **)&fn = driver_function("cuGetErrorName");
	return fn ? fn(error, text) : CUDA_ERROR_NOT_FOUND;
}

CUresult CUDAAPI cuDeviceGet(CUdevice *device, int ordinal)
{
	CUresult(CUDAAPI * fn)(CUdevice *, int);

	*(void **)&fn = driver_function("cuDeviceGet");
	return fn ? fn(device, ordinal) : CUDA_ERROR_NOT_FOUND;
}

CUresult CUDAAPI cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	CUresult(CUDAAPI * fn)(int *, CUdevice_attribute, CUdevice);

	*(void **)&fn = driver_function("cuDeviceGetAttribute");
	return fn ? fn(value, attribute, device) : CUDA_ERROR_NOT_FOUND;
}

CUresult CUDAAPI cuMemGetAddressRange(CUdeviceptr *base, size_t *bytes, CUdeviceptr p)
{
	CUresult(CUDAAPI * fn)(CUdeviceptr *, size_t *, CUdeviceptr);

	*(void **)&fn = driver_function("cuMemGetAddressRange");
	return fn ? fn(base, bytes, p) : CUDA_ERROR_NOT_FOUND;
}

CUresult CUDAAPI cuMemGetHandleForAddressRange(void *handle, CUdeviceptr p, size_t bytes,
					       CUmemRangeHandleType type, unsigned long long flags)
{
	CUresult(CUDAAPI * fn)(void *, CUdeviceptr, size_t, CUmemRangeHandleType,
			       unsigned long long);

	*(void **)&fn = driver_function("cuMemGetHandleForAddressRange");
	return fn ? fn(handle, p, bytes, type, flags) : CUDA_ERROR_NOT_FOUND;
}

CUresult CUDAAPI cuPointerGetAttribute(void *value, CUpointer_attribute attribute, CUdeviceptr p)
{
	CUresult(CUDAAPI * fn)(void *, CUpointer_attribute, CUdeviceptr);

	*(void **)&fn = driver_function("cuPointerGetAttribute");
	return fn ? fn(value, attribute, p) : CUDA_ERROR_NOT_FOUND;
}

CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr *p, size_t bytes, size_t alignment, CUdeviceptr at,
				     unsigned long long flags)
{
	CUresult(CUDAAPI * fn)(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long);

	*(void **)&fn = driver_function("cuMemAddressReserve");
	return fn ? fn(p, bytes, alignment, at, flags) : CUDA_ERROR_NOT_FOUND;
}

CUresult CUDAAPI cuMemAddressFree(CUdeviceptr p, size_t bytes)
{
	CUresult(CUDAAPI * fn)(CUdeviceptr, size_t);

	*(void **)&fn = driver_function("cuMemAddressFree");
	return fn ? fn(p, bytes) : CUDA_ERROR_NOT_FOUND;
}

CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
			     const CUmemAllocationProp *prop, unsigned long long flags)
{
	CUresult(CUDAAPI * fn)(CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *,
			       unsigned long long);

	*(void **)&fn = driver_function("cuMemCreate");
	return fn ? fn(handle, bytes, prop, flags) : CUDA_ERROR_NOT_FOUND;
}

CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle)
{
	CUresult(CUDAAPI * fn)(CUmemGenericAllocationHandle);

	*(void **)&fn = driver_function("cuMemRelease");
	return fn ? fn(handle) : CUDA_ERROR_NOT_FOUND;
}

CUresult CUDAAPI cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *p)
{
	CUresult(CUDAAPI * fn)(CUmemGenericAllocationHandle *, void *);

	*(void **)&fn = driver_function("cuMemRetainAllocationHandle");
	return fn ? fn(handle, p) : CUDA_ERROR_NOT_FOUND;
}

CUresult CUDAAPI cuMemMap(CUdeviceptr p, size_t bytes, size_t offset,
			  CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	CUresult(CUDAAPI * fn)(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle,
			       unsigned long long);

	*(void **)&fn = driver_function("cuMemMap");
	return fn ? fn(p, bytes, offset, handle, flags) : CUDA_ERROR_NOT_FOUND;
}

CUresult CUDAAPI cuMemUnmap(CUdeviceptr p, size_t bytes)
{
	CUresult(CUDAAPI * fn)(CUdeviceptr, size_t);

	*(void **)&fn = driver_function("cuMemUnmap");
	return fn ? fn(p, bytes) : CUDA_ERROR_NOT_FOUND;
}

CUresult CUDAAPI cuMemSetAccess(CUdeviceptr p, size_t bytes, const CUmemAccessDesc *desc,
				size_t count)
{
	CUresult(CUDAAPI * fn)(CUdeviceptr, size_t, const CUmemAccessDesc *, size_t);

	*(void **)&fn = driver_function("cuMemSetAccess");
	return fn ? fn(p, bytes, desc, count) : CUDA_ERROR_NOT_FOUND;
}

CUresult CUDAAPI cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
					      CUmemAllocationHandleType type,
					      unsigned long long flags)
{
	CUresult(CUDAAPI * fn)(void *, CUmemGenericAllocationHandle, CUmemAllocationHandleType,
			       unsigned long long);

	*(void **)&fn = driver_function("cuMemExportToShareableHandle");
	return fn ? fn(shareable, handle, type, flags) : CUDA_ERROR_NOT_FOUND;
}

CUresult CUDAAPI cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle,
						void *shareable, CUmemAllocationHandleType type)
{
	CUresult(CUDAAPI * fn)(CUmemGenericAllocationHandle *, void *, CUmemAllocationHandleType);

	*(void **)&fn = driver_function("cuMemImportFromShareableHandle");
	return fn ? fn(handle, shareable, type) : CUDA_ERROR_NOT_FOUND;
}
