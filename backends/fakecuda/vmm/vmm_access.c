/* SPDX-License-Identifier: BSD-3-Clause */
/* cuMem: rights of devices, and handles for other processes. */
#include "backends/fakecuda/vmm/vmm_internal.h"

/* ---- access --------------------------------------------------------------------------------- */

/* True if the GPU can access the memory of all these mappings. */
static bool vmm_reaches(const struct fc_device *dev, const struct fc_vmm_map *m, uint64_t end)
{
	for (; m && m->base < end; m = m->next) {
		const struct fc_device *on = &fc.device[m->handle->device];

		if (on->gpu && on != dev && !fc_device_peers(dev, on)) {
			fc_report("cuMemSetAccess: gpu %u cannot reach memory of gpu %u",
				  dev->index, on->index);
			return false;
		}
	}
	return true;
}

static bool vmm_is_of_host(const struct fc_vmm_map *m, uint64_t end)
{
	for (; m && m->base < end; m = m->next) {
		const struct fc_device *on = &fc.device[m->handle->device];

		if (on->gpu) {
			fc_report("cuMemSetAccess: the host can have no access to memory of gpu %u",
				  on->index);
			return false;
		}
	}
	return true;
}

static CUresult vmm_check_desc(const struct fc_proc *proc, const CUmemAccessDesc *desc,
			       const struct fc_vmm_map *m, uint64_t end)
{
	CUresult rc = vmm_check_location("cuMemSetAccess", proc, &desc->location);

	if (rc)
		return rc;
	if (desc->flags == CU_MEM_ACCESS_FLAGS_PROT_READ) {
		fc_report("cuMemSetAccess: CU_MEM_ACCESS_FLAGS_PROT_READ is not implemented");
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	if (desc->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
	    desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
		return CUDA_ERROR_INVALID_VALUE;
	if (desc->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA)
		return vmm_is_of_host(m, end) ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
	return vmm_reaches(proc->device[desc->location.id], m, end) ? CUDA_SUCCESS
								    : CUDA_ERROR_INVALID_DEVICE;
}

static void vmm_map_allow(struct fc_vmm_map *m, const CUmemAccessDesc *desc)
{
	bool may = desc->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;

	if (desc->location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
		m->access[desc->location.id] = may;
		return;
	}
	m->host_access = may;
	fc_va_open(m->base, m->bytes, may);
}

/* Sets access rights. The caller holds fc_lock. */
static CUresult vmm_set_access(struct fc_proc *proc, CUdeviceptr ptr, size_t size,
			       const CUmemAccessDesc *desc, size_t count)
{
	struct fc_vmm_map *m = vmm_whole(ptr, size) ? vmm_maps_of(proc, ptr, size) : NULL;

	if (!m) {
		fc_report(
			"cuMemSetAccess of %zu bytes at 0x%llx: not whole mappings of this process",
			size, ptr);
		return CUDA_ERROR_INVALID_VALUE;
	}
	for (size_t i = 0; i < count; i++) {
		CUresult rc = vmm_check_desc(proc, &desc[i], m, ptr + size);

		if (rc)
			return rc;
	}
	for (; m && m->base < ptr + size; m = m->next)
		for (size_t i = 0; i < count; i++)
			vmm_map_allow(m, &desc[i]);
	fc_map_changed();
	return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
	struct fc_proc *proc;
	CUresult rc = vmm_enter("cuMemSetAccess", &proc);

	if (!rc && (!desc || !count))
		rc = CUDA_ERROR_INVALID_VALUE;
	if (!rc) {
		fc_lock();
		rc = vmm_set_access(proc, ptr, size, desc, count);
		fc_unlock();
	}
	return fc_driver_leave(rc);
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr)
{
	struct fc_proc *proc;
	CUresult rc = vmm_enter("cuMemGetAccess", &proc);

	if (!rc && (!flags || !location))
		rc = CUDA_ERROR_INVALID_VALUE;
	if (!rc)
		rc = vmm_check_location("cuMemGetAccess", proc, location);
	if (rc)
		return fc_driver_leave(rc);
	fc_lock();
	const struct fc_vmm_map *m = fc_vmm_map_at(proc, ptr);

	if (m)
		*flags = (location->type == CU_MEM_LOCATION_TYPE_DEVICE ? m->access[location->id]
									: m->host_access)
				 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
				 : CU_MEM_ACCESS_FLAGS_PROT_NONE;
	fc_unlock();
	return fc_driver_leave(m ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

/* ---- other processes ------------------------------------------------------------------------ */

CUresult cuMemExportToShareableHandle(void *shareableHandle, CUmemGenericAllocationHandle handle,
				      CUmemAllocationHandleType handleType,
				      unsigned long long flags)
{
	const char *call = "cuMemExportToShareableHandle";
	struct fc_proc *proc;
	CUresult rc = vmm_enter(call, &proc);

	if (!rc && (!shareableHandle || flags))
		rc = CUDA_ERROR_INVALID_VALUE;
	if (rc)
		return fc_driver_leave(rc);
	fc_lock();
	const struct fc_vmm_handle *h = vmm_handle_get(call, proc, handle);
	struct fc_alloc *a = h ? fc_vmm_alloc(h) : NULL;

	if (!a || handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
	    !(a->handle_types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)) {
		fc_report("%s: type %d: this memory can be exported as 0x%x", call, (int)handleType,
			  a ? a->handle_types : 0);
		rc = CUDA_ERROR_INVALID_VALUE;
	} else {
		struct fc_device *dev = &fc.device[h->device];

		rc = fc_share_on() ? fc_share_export(call, dev, a, shareableHandle)
				   : fc_dmabuf_export(proc, dev, a, shareableHandle);
	}
	fc_unlock();
	return fc_driver_leave(rc);
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle,
					CUmemAllocationHandleType shHandleType)
{
	const char *call = "cuMemImportFromShareableHandle";
	struct fc_proc *proc;
	struct fc_device *dev;
	struct fc_alloc *a;
	CUresult rc = vmm_enter(call, &proc);

	if (!rc && !handle)
		rc = CUDA_ERROR_INVALID_VALUE;
	if (!rc && shHandleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
		fc_report("%s: type %d: expected CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR", call,
			  (int)shHandleType);
		rc = CUDA_ERROR_NOT_SUPPORTED;
	}
	if (rc)
		return fc_driver_leave(rc);
	fc_lock();
	rc = fc_share_on() ? fc_share_import(call, proc, (int)(intptr_t)osHandle, &dev, &a)
			   : fc_dmabuf_import(proc, (int)(intptr_t)osHandle, &dev, &a);
	if (!rc)
		*handle = vmm_handle_new(proc, dev, a)->value;
	fc_unlock();
	return fc_driver_leave(rc);
}
