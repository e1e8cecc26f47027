/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A pointer refers to memory of a GPU, to memory of the host of cuMem, or to pinned host memory.
 * Host memory of cuMem belongs to device 0, and has a device pointer if the current device has
 * access. Other host memory belongs to the device that was current when it was pinned (measured,
 * driver 580). The calls need no current context.
 */
#include "backends/fakecuda/fakecuda.h"

#include <stdio.h>
#include <string.h>

#define POINTER_READWRITE 3  /* CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE */
#define POINTER_NO_DEVICE -2 /* the ordinal of memory that CUDA does not know */

/* All zero but for `address`: memory that CUDA does not know. */
struct pointer {
	struct fc_proc *proc;
	uint64_t address, base, bytes;
	const struct fc_alloc *a;         /* of a GPU, or of cuMem */
	const struct fc_vmm_map *map;     /* of cuMem */
	const struct fc_host_range *host; /* pinned host memory */
	const struct world_gpu *gpu;      /* that has the memory; NULL: a host */
	int32_t ordinal;                  /* -1: a device that the process does not see */
};

/* ---- under fc_lock -------------------------------------------------------------------------- */

static void pointer_of_alloc(struct pointer *p, struct fc_device *dev)
{
	const struct fc_ctx *ctx = dev->gpu ? fc_ctx_of_device(p->proc, dev) : NULL;

	p->gpu = dev->gpu;
	p->map = fc_vmm_has(p->address) ? fc_vmm_map_at(p->proc, p->address) : NULL;
	p->base = p->map ? p->map->base : p->a->base;
	p->bytes = p->a->bytes;
	p->ordinal = !dev->gpu ? 0 : ctx ? ctx->ordinal : -1;
}

static struct pointer pointer_find(struct fc_proc *proc, uint64_t address)
{
	struct fc_device *dev = fc_memory_at(address);
	struct pointer p = {.proc = proc, .address = address, .ordinal = POINTER_NO_DEVICE};

	p.a = dev ? fc_access_alloc(proc, dev, address, 1) : NULL;
	p.host = dev ? NULL : fc_host_find(proc, address, 1);
	if (p.a)
		pointer_of_alloc(&p, dev);
	if (p.host) {
		p.base = p.host->base;
		p.bytes = p.host->bytes;
		p.ordinal = p.host->device;
	}
	return p;
}

/* Returns the address by which the current device reaches the memory; 0: it has no access. */
static uint64_t pointer_device(const struct pointer *p)
{
	const bool no_access = p->map && !p->gpu && !p->map->access[fc_current_device(p->proc)];

	return (p->a || p->host) && !no_access ? p->address : 0;
}

/* Returns the context in which the memory was allocated; 0: in none, or unknown. */
static uint64_t pointer_context(const struct pointer *p)
{
	int32_t slot = p->host ? p->host->slot : p->ordinal;

	if (p->ordinal < 0 || (p->a && p->a->pooled))
		return 0;
	if (p->a && !p->a->vmm && p->a->proc == p->proc->os->id)
		slot = p->a->slot;
	return (uintptr_t)&p->proc->primary[slot];
}

static bool pointer_managed(const struct pointer *p)
{
	return p->host && p->host->managed;
}

static uint64_t pointer_value(const struct pointer *p, CUpointer_attribute attribute)
{
	const bool known = p->a || p->host;

	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		return pointer_context(p);
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		return !known                         ? 0
		       : p->gpu || pointer_managed(p) ? CU_MEMORYTYPE_DEVICE
						      : CU_MEMORYTYPE_HOST;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		return pointer_device(p);
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		return known && !p->gpu ? p->address : 0;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		return p->a ? p->a->number : p->host ? p->host->number : 0;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		return (uint32_t)p->ordinal;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		return p->a && !p->a->vmm && !p->a->pooled;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		return p->a ? p->a->handle_types : 0;
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		return p->gpu && p->gpu->gdr && !p->a->pooled && (!p->a->vmm || p->a->rdma);
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		return p->a && p->a->pooled ? (uintptr_t)fc_block_find(p->proc, p->base)->pool : 0;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		return p->base;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		return p->bytes;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		return known;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		return pointer_managed(p);
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		return known ? POINTER_READWRITE : 0;
	default: /* decompression: the double has none */
		return 0;
	}
}

/* ---- calls ---------------------------------------------------------------------------------- */

/* Returns the size of an attribute's value; 0: there is no such attribute. */
static size_t pointer_value_bytes(CUpointer_attribute attribute)
{
	static const uint8_t bytes[] = {
		[CU_POINTER_ATTRIBUTE_CONTEXT] = 8,
		[CU_POINTER_ATTRIBUTE_MEMORY_TYPE] = 4,
		[CU_POINTER_ATTRIBUTE_DEVICE_POINTER] = 8,
		[CU_POINTER_ATTRIBUTE_HOST_POINTER] = 8,
		[CU_POINTER_ATTRIBUTE_SYNC_MEMOPS] = 4,
		[CU_POINTER_ATTRIBUTE_BUFFER_ID] = 8,
		[CU_POINTER_ATTRIBUTE_IS_MANAGED] = 4,
		[CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL] = 4,
		[CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE] = 4,
		[CU_POINTER_ATTRIBUTE_RANGE_START_ADDR] = 8,
		[CU_POINTER_ATTRIBUTE_RANGE_SIZE] = 8,
		[CU_POINTER_ATTRIBUTE_MAPPED] = 4,
		[CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES] = 8,
		[CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE] = 4,
		[CU_POINTER_ATTRIBUTE_ACCESS_FLAGS] = 4,
		[CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE] = 8,
		[CU_POINTER_ATTRIBUTE_MAPPING_SIZE] = 8,
		[CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR] = 8,
		[CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID] = 8,
		[CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE] = 4,
	};

	if (attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
		fc_unimplemented("pointer attribute 5");
	return attribute > 0 && (size_t)attribute < sizeof bytes ? bytes[attribute] : 0;
}

/* Stores the value: little endian, so the first bytes of a wider integer. */
static void pointer_store(void *data, CUpointer_attribute attribute, uint64_t value)
{
	memcpy(data, &value, pointer_value_bytes(attribute));
}

/* True if 0 is no value: there is no pointer of that kind. */
static bool pointer_value_needed(CUpointer_attribute attribute)
{
	return attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER ||
	       attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER;
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	const struct fc_at at = FC_AT("cuPointerGetAttribute");
	struct fc_proc *proc;
	cudaError_t rc = fc_enter(at.call, &proc);

	if (!rc && (!data || !pointer_value_bytes(attribute)))
		rc = cudaErrorInvalidValue;
	if (rc)
		return fc_driver_leave(rc);
	fc_lock();
	const struct pointer p = pointer_find(proc, ptr);
	const uint64_t value = pointer_value(&p, attribute);
	fc_unlock();
	if ((!p.a && !p.host) || (pointer_value_needed(attribute) && !value))
		return fc_driver_leave(cudaErrorInvalidValue);
	pointer_store(data, attribute, value);
	return fc_driver_leave(cudaSuccess);
}

/* A sticky error is that of the current context, if there is one. */
static cudaError_t pointers_enter(const char *call, struct fc_proc **proc)
{
	cudaError_t rc = fc_enter(call, proc);
	const struct fc_ctx *ctx = !rc && (*proc)->count ? (*proc)->ctx[fc_current()] : NULL;

	return ctx ? ctx->sticky : rc;
}

CUresult cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes,
				void **data, CUdeviceptr ptr)
{
	const struct fc_at at = FC_AT("cuPointerGetAttributes");
	struct fc_proc *proc;
	cudaError_t rc = pointers_enter(at.call, &proc);

	if (!rc && (!numAttributes || !attributes || !data))
		rc = cudaErrorInvalidValue;
	for (unsigned int i = 0; !rc && i < numAttributes; i++) {
		if (!data[i] || !pointer_value_bytes(attributes[i]))
			rc = cudaErrorInvalidValue;
	}
	if (rc)
		return fc_driver_leave(rc);
	fc_lock();
	const struct pointer p = pointer_find(proc, ptr);
	for (unsigned int i = 0; i < numAttributes; i++) {
		/* measured: an unknown pointer leaves it as it is */
		if (attributes[i] == CU_POINTER_ATTRIBUTE_RANGE_SIZE && !p.a && !p.host)
			continue;
		pointer_store(data[i], attributes[i], pointer_value(&p, attributes[i]));
	}
	fc_unlock();
	return fc_driver_leave(cudaSuccess);
}

CUresult cuMemGetAddressRange(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
	const struct fc_at at = FC_AT("cuMemGetAddressRange");
	struct fc_proc *proc;
	cudaError_t rc = fc_enter(at.call, &proc);

	if (rc)
		return fc_driver_leave(rc);
	fc_lock();
	const struct pointer p = pointer_find(proc, dptr);
	fc_unlock();
	if (!p.a && !p.host) {
		fc_report("%s: 0x%llx is not memory of this process that CUDA knows", at.call,
			  dptr);
		return fc_driver_leave(cudaErrorSymbolNotFound);
	}
	if (pbase)
		*pbase = p.base;
	if (psize)
		*psize = p.bytes;
	return fc_driver_leave(cudaSuccess);
}
