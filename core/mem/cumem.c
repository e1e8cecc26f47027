/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/mem/cumem.h"

#include <cuda.h>
#include <stdint.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/macros.h"
#include "core/base/param.h"
#include "core/rank/cuda_result.h"

#define CUMEM_DRIVER 12000 /* first driver with which NCCL uses cuMem by default */
/* CUMEM_HOST_DRIVER is the first driver with which NCCL uses cuMem for host memory by default.
 * CUMEM_HOST_ANSWERS is the first driver with a device attribute for it. Older headers do not name
 * it: CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED. */
#define CUMEM_HOST_DRIVER    12060
#define CUMEM_HOST_ANSWERS   13000
#define CUMEM_HOST_ATTRIBUTE ((CUdevice_attribute)141)

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

static bool cumem_is_wanted(enum cumem_place place)
{
	int64_t device = param_i64(PARAM_CUMEM_ENABLE);

	return place == CUMEM_DEVICE ? device != 0
				     : device != 0 && param_i64(PARAM_CUMEM_HOST_ENABLE) == 1;
}

/* A failed query is an error, not a "no": a rank that took it as "no" would choose other memory
 * than its neighbours. */
ncclResult_t cumem_has(enum cumem_place place, int device, bool *has)
{
	int version = 0;
	ncclResult_t rc;

	*has = false;
	if (!cumem_is_wanted(place))
		return ncclSuccess;
	rc = cuda_result(cudaDriverGetVersion(&version), "cudaDriverGetVersion for cuMem");
	if (rc || version < (place == CUMEM_HOST ? CUMEM_HOST_DRIVER : CUMEM_DRIVER))
		return rc;
	*has = true;
	rc = cumem_attribute(device, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, has);
	if (!rc && place == CUMEM_HOST && version >= CUMEM_HOST_ANSWERS)
		rc = cumem_attribute(device, CUMEM_HOST_ATTRIBUTE, has);
	return rc ? rc
		  : cumem_attribute(device,
				    CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
				    has);
}

static ncclResult_t cumem_set_access(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *desc,
				     size_t n, const char *what)
{
	return cumem_result(cuMemSetAccess(at, bytes, desc, n), "cuMemSetAccess", what);
}

static CUmemAccessDesc cumem_desc_of(CUmemLocationType type, int id)
{
	return (CUmemAccessDesc){.location = {.type = type, .id = id},
				 .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
}

ncclResult_t cumem_allow(void *mem, size_t bytes, int device, const char *what)
{
	const CUmemAccessDesc desc = cumem_desc_of(CU_MEM_LOCATION_TYPE_DEVICE, device);

	return cumem_set_access((CUdeviceptr)(uintptr_t)mem, bytes, &desc, 1, what);
}

/* ---- mapping -------------------------------------------------------------------------------- */

/* A memory handle, and the device that it is mapped for. */
struct cumem_mapping {
	enum cumem_place place;
	int device;
	size_t bytes;
	CUmemGenericAllocationHandle handle;
};

/* Grants access to the device and, for host memory, to the host. The NUMA node's number does not
 * matter for access: any node stands for the host. */
static ncclResult_t cumem_open(const struct cumem_mapping *m, CUdeviceptr at, const char *what)
{
	const CUmemAccessDesc desc[] = {
		cumem_desc_of(CU_MEM_LOCATION_TYPE_DEVICE, m->device),
		cumem_desc_of(CU_MEM_LOCATION_TYPE_HOST_NUMA, 0),
	};

	return cumem_set_access(at, m->bytes, desc, m->place == CUMEM_HOST ? 2 : 1, what);
}

/* Maps the memory of the handle at reserved addresses for the device and, for host memory, the
 * host. */
static ncclResult_t cumem_map(CUdeviceptr at, const struct cumem_mapping *m, const char *what)
{
	ncclResult_t rc = cumem_result(cuMemMap(at, m->bytes, 0, m->handle, 0), "cuMemMap", what);

	if (rc)
		return rc;
	rc = cumem_open(m, at, what);
	if (rc)
		(void)cuMemUnmap(at, m->bytes);
	return rc;
}

/* Does the same and releases the handle, even on failure. The mapping keeps the memory alive. */
static ncclResult_t cumem_map_and_release(void *mem, const struct cumem_mapping *m,
					  const char *what)
{
	ncclResult_t rc = cumem_map((CUdeviceptr)(uintptr_t)mem, m, what);
	ncclResult_t released = cumem_result(cuMemRelease(m->handle), "cuMemRelease", what);

	if (rc || !released)
		return rc;
	(void)cumem_unmap(mem, m->bytes, what);
	return released;
}

static ncclResult_t cumem_reserve(void **mem, size_t bytes, const char *what)
{
	CUdeviceptr at = 0;
	ncclResult_t rc =
		cumem_result(cuMemAddressReserve(&at, bytes, 0, 0, 0), "cuMemAddressReserve", what);

	*mem = rc ? NULL : (void *)(uintptr_t)at;
	return rc;
}

/* ---- memory --------------------------------------------------------------------------------- */

/* Fills in the location of the memory. A node of -1 is a machine without NUMA, whose node is 0. */
static ncclResult_t cumem_location(const struct cumem_mapping *m, CUmemLocation *at,
				   const char *what)
{
	ncclResult_t rc;

	*at = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = m->device};
	if (m->place == CUMEM_DEVICE)
		return ncclSuccess;
	at->type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
	rc = cumem_result(
		cuDeviceGetAttribute(&at->id, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, m->device),
		"cuDeviceGetAttribute", what);
	at->id = MAX_OF(at->id, 0);
	return rc;
}

static ncclResult_t cumem_create(struct cumem_mapping *m, const char *what)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .requestedHandleTypes =
					    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
	ncclResult_t rc;

	ASSERT(m->bytes && m->bytes % CUMEM_PAGE_BYTES == 0);
	rc = cuda_result(cudaGetDevice(&m->device), "cudaGetDevice for cuMemCreate");
	if (!rc)
		rc = cumem_location(m, &prop.location, what);
	return rc ? rc
		  : cumem_result(cuMemCreate(&m->handle, m->bytes, &prop, 0), "cuMemCreate", what);
}

ncclResult_t cumem_alloc_at(enum cumem_place place, void *mem, size_t bytes, const char *what)
{
	struct cumem_mapping m = {.place = place, .bytes = bytes};
	ncclResult_t rc = cumem_create(&m, what);

	if (!rc)
		rc = cumem_map_and_release(mem, &m, what);
	if (!rc)
		INFO(LOG_ALLOC, "CUMEM Alloc Size %zu pointer %p: %s", bytes, mem, what);
	return rc;
}

ncclResult_t cumem_alloc(enum cumem_place place, void **mem, size_t bytes, const char *what)
{
	ncclResult_t rc = cumem_reserve(mem, bytes, what);

	if (!rc)
		rc = cumem_alloc_at(place, *mem, bytes, what);
	if (rc && *mem) {
		(void)cumem_forget(*mem, bytes, what);
		*mem = NULL;
	}
	return rc;
}

ncclResult_t cumem_unmap(void *mem, size_t bytes, const char *what)
{
	INFO(LOG_ALLOC, "CUMEM Free pointer %p: %s", mem, what);
	return cumem_result(cuMemUnmap((CUdeviceptr)(uintptr_t)mem, bytes), "cuMemUnmap", what);
}

ncclResult_t cumem_forget(void *mem, size_t bytes, const char *what)
{
	return cumem_result(cuMemAddressFree((CUdeviceptr)(uintptr_t)mem, bytes),
			    "cuMemAddressFree", what);
}

ncclResult_t cumem_free(void *mem, size_t bytes, const char *what)
{
	ncclResult_t rc = cumem_unmap(mem, bytes, what);
	ncclResult_t freed = cumem_forget(mem, bytes, what);

	return rc ? rc : freed;
}

/* ---- other processes ------------------------------------------------------------------------ */

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

ncclResult_t cumem_import_at(enum cumem_place place, void *mem, size_t bytes, int fd,
			     const char *what)
{
	struct cumem_mapping m = {.place = place, .bytes = bytes};
	ncclResult_t rc = cuda_result(cudaGetDevice(&m.device), "cudaGetDevice for cuMemMap");

	if (!rc)
		rc = cumem_result(
			cuMemImportFromShareableHandle(&m.handle, (void *)(intptr_t)fd,
						       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
			"cuMemImportFromShareableHandle", what);
	return rc ? rc : cumem_map_and_release(mem, &m, what);
}

ncclResult_t cumem_import(enum cumem_place place, void **mem, size_t bytes, int fd,
			  const char *what)
{
	ncclResult_t rc = cumem_reserve(mem, bytes, what);

	if (!rc)
		rc = cumem_import_at(place, *mem, bytes, fd, what);
	if (rc && *mem) {
		(void)cumem_forget(*mem, bytes, what);
		*mem = NULL;
	}
	return rc;
}
