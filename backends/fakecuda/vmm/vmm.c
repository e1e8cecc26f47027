/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuMem: reserved addresses, memory that is created and mapped there, access rights, and export of
 * memory to other processes as a descriptor. Pages have 2 MiB. None of these calls waits for a
 * kernel.
 *
 * Memory exists as long as any process has a handle of it, a mapping through one, or an open
 * descriptor. Handles are counted per process: cuMemCreate, cuMemImportFromShareableHandle and
 * cuMemRetainAllocationHandle add one, cuMemRelease removes one.
 *
 * Memory belongs to a GPU or to a NUMA node of the host. The host accesses its own memory like any
 * memory where cuMemSetAccess permits it. GPUs access it like pinned memory.
 *
 * Not implemented, and reported by name: CU_MEM_LOCATION_TYPE_HOST, handles of fabric and of
 * Windows, mappings of a part of the memory, and read-only access.
 */
#include "backends/fakecuda/vmm/vmm_internal.h"

#include <stdlib.h>

#define VMM_HANDLE 0x766d6d0000000000ull

CUresult vmm_enter(const char *call, struct fc_proc **proc)
{
	return (CUresult)fc_enter(call, proc);
}

bool vmm_whole(uint64_t address, uint64_t bytes)
{
	return bytes && address % FC_VMM_PAGE == 0 && bytes % FC_VMM_PAGE == 0;
}

/* ---- handles: under fc_lock ----------------------------------------------------------------- */

static struct fc_vmm_handle *handle_find(const struct fc_proc *proc, uint64_t value)
{
	struct fc_vmm_handle *h = proc->handles;

	while (h && h->value != value)
		h = h->next;
	return h;
}

/* Returns a handle that the program has; NULL otherwise (reported). */
struct fc_vmm_handle *vmm_handle_get(const char *call, const struct fc_proc *proc, uint64_t value)
{
	struct fc_vmm_handle *h = handle_find(proc, value);

	if (h && h->refs)
		return h;
	fc_report("%s: 0x%llx is not a handle of memory in %s", call, (unsigned long long)value,
		  proc->os->name);
	return NULL;
}

struct fc_vmm_handle *vmm_handle_new(struct fc_proc *proc, const struct fc_device *dev,
				     struct fc_alloc *a)
{
	struct fc_vmm_handle *h = calloc(1, sizeof *h);

	ASSERT(h);
	*h = (struct fc_vmm_handle){.next = proc->handles,
				    .value = VMM_HANDLE | (uint64_t)proc->os->id << 24 |
					     ++proc->handle_last,
				    .device = dev->index,
				    .number = a->number,
				    .refs = 1};
	fc_who(h->who);
	proc->handles = h;
	a->handles++;
	return h;
}

static void vmm_alloc_drop(struct fc_device *dev, struct fc_alloc *a)
{
	if (fc_dmabuf_holds(a) || fc_share_holds(a)) {
		fc.vmm_orphans = true;
		return;
	}
	if (a->pins)
		fc_misuse_in_turn(
			"the last handle of %s %u #%u is released, which %u memory regions of "
			"HCAs still pin",
			fc_memory_kind(dev), fc_memory_number(dev), a->number, a->pins);
	fc_alloc_free(dev, a);
}

void fc_vmm_sweep(void)
{
	if (!fc.vmm_orphans)
		return;
	fc.vmm_orphans = false;
	for (uint32_t d = 0; d < fc.memory_count; d++) {
		struct fc_device *dev = &fc.device[d];

		for (uint32_t i = dev->alloc_count; i-- > 0;)
			if (dev->alloc[i].vmm && !dev->alloc[i].handles)
				vmm_alloc_drop(dev, &dev->alloc[i]);
	}
}

/* Frees the handle after its last reference and mapping were removed. */
static void handle_drop(struct fc_proc *proc, struct fc_vmm_handle *h)
{
	struct fc_vmm_handle **at = &proc->handles;
	struct fc_alloc *a = fc_vmm_alloc(h);

	if (h->refs || h->maps)
		return;
	while (*at != h)
		at = &(*at)->next;
	*at = h->next;
	if (--a->handles == 0)
		vmm_alloc_drop(&fc.device[h->device], a);
	free(h);
}

/* ---- addresses ------------------------------------------------------------------------------ */

CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
			     unsigned long long flags)
{
	struct fc_proc *proc;
	CUresult rc = vmm_enter("cuMemAddressReserve", &proc);
	uint64_t align = MAX_OF((uint64_t)alignment, FC_VMM_PAGE), base = addr;

	if (rc)
		return fc_driver_leave(rc);
	if (!ptr || !size || size % FC_VMM_PAGE || align & (align - 1) || flags) {
		fc_report(
			"cuMemAddressReserve: %zu bytes aligned to %zu, flags %llu: the size is in "
			"pages of %llu bytes, the alignment a power of two",
			size, alignment, flags, FC_VMM_PAGE);
		return fc_driver_leave(CUDA_ERROR_INVALID_VALUE);
	}
	fc_lock();
	bool fits = size <= FC_VMM_LIMIT && align <= FC_VMM_LIMIT &&
		    fc_vmm_reserve(proc, size, align, &base);
	fc_unlock();
	if (!fits) {
		fc_report("cuMemAddressReserve: no room for %zu bytes in %llu GiB of addresses",
			  size, FC_VMM_LIMIT >> 30);
		return fc_driver_leave(CUDA_ERROR_OUT_OF_MEMORY);
	}
	*ptr = base;
	return fc_driver_leave(CUDA_SUCCESS);
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
	struct fc_proc *proc;
	CUresult rc = vmm_enter("cuMemAddressFree", &proc);

	if (!proc)
		return fc_driver_leave(rc);
	fc_lock();
	struct fc_vmm_space *s = fc_vmm_space_at(ptr);
	bool whole = s && s->proc == proc && s->base == ptr && s->bytes == size;

	if (whole && !s->maps) {
		fc_vmm_space_free(s);
	} else {
		fc_misuse("cuMemAddressFree of %zu bytes at 0x%llx: %s", size, ptr,
			  whole ? "something is still mapped there"
				: "not a range that one cuMemAddressReserve of this process "
				  "returned");
		rc = CUDA_ERROR_INVALID_VALUE;
	}
	fc_unlock();
	return fc_driver_leave(rc);
}

/* ---- memory --------------------------------------------------------------------------------- */

/* Checks a location of memory, or of a user of memory. */
CUresult vmm_check_location(const char *call, const struct fc_proc *proc, const CUmemLocation *at)
{
	if (at->type == CU_MEM_LOCATION_TYPE_DEVICE)
		return at->id >= 0 && at->id < proc->count ? CUDA_SUCCESS
							   : CUDA_ERROR_INVALID_DEVICE;
	if (at->type == CU_MEM_LOCATION_TYPE_HOST_NUMA)
		return CUDA_SUCCESS;
	if (at->type != CU_MEM_LOCATION_TYPE_HOST)
		return CUDA_ERROR_INVALID_VALUE;
	fc_report("%s: CU_MEM_LOCATION_TYPE_HOST is not implemented", call);
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* Checks a NUMA node. A host without NUMA has node 0. */
static CUresult vmm_check_node(const char *call, const struct fc_proc *proc, int id)
{
	const struct world_machine *m = world_host_machine(proc->os->host);
	bool known = id == 0;

	for (int32_t i = 0; i < m->gpu_count; i++)
		known |= id >= 0 && m->gpu[i].numa == id;
	if (known)
		return CUDA_SUCCESS;
	fc_report("%s: no GPU of this host is near a NUMA node %d", call, id);
	return CUDA_ERROR_INVALID_VALUE;
}

static CUresult vmm_check_prop(const char *call, const struct fc_proc *proc,
			       const CUmemAllocationProp *prop)
{
	unsigned types;

	if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED || prop->win32HandleMetaData)
		return CUDA_ERROR_INVALID_VALUE;
	types = (unsigned)prop->requestedHandleTypes;
	if (types & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
		fc_report("%s: handle types 0x%x: %s", call, types,
			  types & CU_MEM_HANDLE_TYPE_FABRIC
				  ? "CU_MEM_HANDLE_TYPE_FABRIC is not implemented"
				  : "expected CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR");
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	if (prop->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA)
		return vmm_check_node(call, proc, prop->location.id);
	return vmm_check_location(call, proc, &prop->location);
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
				       CUmemAllocationGranularity_flags option)
{
	struct fc_proc *proc;
	CUresult rc = vmm_enter("cuMemGetAllocationGranularity", &proc);

	if (!rc && (!granularity || (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
				     option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)))
		rc = CUDA_ERROR_INVALID_VALUE;
	if (!rc)
		rc = vmm_check_prop("cuMemGetAllocationGranularity", proc, prop);
	if (!rc)
		*granularity = FC_VMM_PAGE;
	return fc_driver_leave(rc);
}

static struct fc_device *vmm_memory_of(struct fc_proc *proc, const CUmemLocation *at)
{
	return at->type == CU_MEM_LOCATION_TYPE_DEVICE
		       ? fc_ctx_get(proc, at->id)->dev
		       : &fc.device[fc.device_count + proc->os->host];
}

/* Creates memory. The caller holds fc_lock. */
static CUresult vmm_create(struct fc_proc *proc, size_t size, const CUmemAllocationProp *prop,
			   CUmemGenericAllocationHandle *handle)
{
	struct fc_device *dev = vmm_memory_of(proc, &prop->location);
	struct fc_alloc *a;
	CUresult rc;

	fc_vmm_sweep();
	rc = (CUresult)fc_alloc_new_vmm(proc, dev, size, &a);
	if (rc)
		return rc;
	a->rdma = prop->allocFlags.gpuDirectRDMACapable && dev->gpu && dev->gpu->gdr;
	a->handle_types = (uint32_t)prop->requestedHandleTypes;
	a->numa = dev->gpu ? -1 : prop->location.id;
	*handle = vmm_handle_new(proc, dev, a)->value;
	return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
		     const CUmemAllocationProp *prop, unsigned long long flags)
{
	struct fc_proc *proc;
	CUresult rc = vmm_enter("cuMemCreate", &proc);

	if (!rc && (!handle || flags || !vmm_whole(0, size)))
		rc = CUDA_ERROR_INVALID_VALUE;
	if (!rc)
		rc = vmm_check_prop("cuMemCreate", proc, prop);
	if (!rc) {
		fc_lock();
		rc = vmm_create(proc, size, prop, handle);
		fc_unlock();
	}
	return fc_driver_leave(rc);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct fc_proc *proc;
	CUresult rc = vmm_enter("cuMemRelease", &proc);

	if (!proc)
		return fc_driver_leave(rc);
	fc_lock();
	struct fc_vmm_handle *h = vmm_handle_get("cuMemRelease", proc, handle);

	if (h) {
		h->refs--;
		handle_drop(proc, h);
	}
	fc_unlock();
	return fc_driver_leave(h ? rc : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
	struct fc_proc *proc;
	CUresult rc = vmm_enter("cuMemRetainAllocationHandle", &proc);

	if (!rc && !handle)
		rc = CUDA_ERROR_INVALID_VALUE;
	if (rc)
		return fc_driver_leave(rc);
	fc_lock();
	struct fc_vmm_map *m = fc_vmm_map_at(proc, (uintptr_t)addr);

	if (m) {
		m->handle->refs++;
		*handle = m->handle->value;
	}
	fc_unlock();
	return fc_driver_leave(m ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

static CUmemLocation vmm_location_of(struct fc_proc *proc, const struct fc_vmm_handle *h,
				     const struct fc_alloc *a)
{
	const struct fc_device *dev = &fc.device[h->device];
	const struct fc_ctx *on = dev->gpu ? fc_ctx_of_device(proc, dev) : NULL;

	if (!dev->gpu)
		return (CUmemLocation){CU_MEM_LOCATION_TYPE_HOST_NUMA, a->numa};
	return (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, on ? on->ordinal : -1};
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
						CUmemGenericAllocationHandle handle)
{
	const char *call = "cuMemGetAllocationPropertiesFromHandle";
	struct fc_proc *proc;
	CUresult rc = vmm_enter(call, &proc);

	if (!rc && !prop)
		rc = CUDA_ERROR_INVALID_VALUE;
	if (rc)
		return fc_driver_leave(rc);
	fc_lock();
	const struct fc_vmm_handle *h = vmm_handle_get(call, proc, handle);

	if (h) {
		const struct fc_alloc *a = fc_vmm_alloc(h);

		*prop = (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					      .requestedHandleTypes =
						      (CUmemAllocationHandleType)a->handle_types,
					      .location = vmm_location_of(proc, h, a),
					      .allocFlags = {.gpuDirectRDMACapable = a->rdma}};
	}
	fc_unlock();
	return fc_driver_leave(h ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

/* ---- mapping -------------------------------------------------------------------------------- */

/* Maps memory; reports an error. The caller holds fc_lock. */
static CUresult vmm_map(struct fc_proc *proc, CUdeviceptr ptr, size_t size, size_t offset,
			CUmemGenericAllocationHandle handle)
{
	struct fc_vmm_space *s = fc_vmm_space_at(ptr);
	struct fc_vmm_handle *h = vmm_handle_get("cuMemMap", proc, handle);
	const struct fc_alloc *a = h ? fc_vmm_alloc(h) : NULL;

	if (!a || !vmm_whole(ptr, size) || offset || size != a->bytes) {
		fc_report(
			"cuMemMap of %zu bytes at 0x%llx, offset %zu: all of the memory is mapped, "
			"%llu bytes, at a page of %llu bytes",
			size, ptr, offset, a ? (unsigned long long)a->bytes : 0, FC_VMM_PAGE);
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (!s || s->proc != proc || size > s->base + s->bytes - ptr) {
		fc_report("cuMemMap of %zu bytes at 0x%llx: this process has not reserved all of "
			  "them",
			  size, ptr);
		return CUDA_ERROR_INVALID_VALUE;
	}
	for (const struct fc_vmm_map *m = s->maps; m; m = m->next)
		if (m->base < ptr + size && ptr < m->base + m->bytes) {
			fc_report(
				"cuMemMap of %zu bytes at 0x%llx: %llu bytes are mapped at 0x%llx",
				size, ptr, (unsigned long long)m->bytes,
				(unsigned long long)m->base);
			return CUDA_ERROR_INVALID_VALUE;
		}
	return fc_vmm_map_add(s, ptr, size, a->base, h) ? CUDA_SUCCESS : CUDA_ERROR_MAP_FAILED;
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
		  unsigned long long flags)
{
	struct fc_proc *proc;
	CUresult rc = vmm_enter("cuMemMap", &proc);

	if (!rc && flags)
		rc = CUDA_ERROR_INVALID_VALUE;
	if (!rc) {
		fc_lock();
		rc = vmm_map(proc, ptr, size, offset, handle);
		fc_unlock();
	}
	return fc_driver_leave(rc);
}

/* Returns the first of the whole mappings that make up this range without a gap; NULL if it is not
 * such a range. */
struct fc_vmm_map *vmm_maps_of(const struct fc_proc *proc, uint64_t address, uint64_t bytes)
{
	struct fc_vmm_map *first = fc_vmm_map_at(proc, address);
	const struct fc_vmm_map *m = first;

	if (!first || first->base != address || !fc_vmm_map_covers(first, address, bytes, -1))
		return NULL;
	while (m->base + m->bytes < address + bytes)
		m = m->next;
	return m->base + m->bytes == address + bytes ? first : NULL;
}

static void vmm_unmap_one(struct fc_proc *proc, struct fc_vmm_map *m, const void *caller)
{
	struct fc_vmm_handle *h = m->handle;

	fc_use_unmap(
		proc,
		&(struct fc_use_mapping){"cuMemUnmap", &fc.device[h->device], h->number, &m->used},
		caller);
	fc_use_free(proc, m->base, m->bytes, caller, "cuMemUnmap");
	fc_use_freed(proc, m->base, m->bytes);
	fc_vmm_map_remove(fc_vmm_space_at(m->base), m);
	handle_drop(proc, h);
}

/* True if nothing is mapped in the range, and this process has reserved it. */
static bool vmm_is_empty(const struct fc_proc *proc, uint64_t address, uint64_t bytes)
{
	const struct fc_vmm_space *s = fc_vmm_space_at(address);

	if (!s || s->proc != proc || bytes > s->base + s->bytes - address)
		return false;
	for (const struct fc_vmm_map *m = s->maps; m; m = m->next)
		if (m->base < address + bytes && address < m->base + m->bytes)
			return false;
	return true;
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	struct fc_proc *proc;
	CUresult rc = vmm_enter("cuMemUnmap", &proc);

	if (!proc)
		return fc_driver_leave(rc);
	fc_lock();
	struct fc_vmm_map *m = vmm_whole(ptr, size) ? vmm_maps_of(proc, ptr, size) : NULL;

	if (!m) {
		bool empty = vmm_is_empty(proc, ptr, size);

		(empty ? fc_report : fc_misuse)("cuMemUnmap of %zu bytes at 0x%llx: %s", size, ptr,
						empty ? "nothing is mapped there"
						      : "not whole mappings of this process");
		rc = CUDA_ERROR_INVALID_VALUE;
	}
	while (m && m->base < ptr + size) {
		struct fc_vmm_map *next = m->next;

		vmm_unmap_one(proc, m, __builtin_return_address(0));
		m = next;
	}
	fc_unlock();
	return fc_driver_leave(rc);
}

/* ---- end of a process ----------------------------------------------------------------------- */

void fc_vmm_proc_gone(struct fc_proc *proc)
{
	struct fc_vmm_space *s;

	while ((s = fc_vmm_space_of(proc))) {
		while (s->maps) {
			struct fc_vmm_handle *h = s->maps->handle;

			fc_vmm_map_remove(s, s->maps);
			handle_drop(proc, h);
		}
		fc_vmm_space_free(s);
	}
	while (proc->handles) {
		proc->handles->refs = 0;
		handle_drop(proc, proc->handles);
	}
}
