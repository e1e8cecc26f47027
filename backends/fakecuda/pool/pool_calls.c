/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The driver's calls about pools. Pools of GPUs exist; pools of hosts, and pools that processes
 * share, do not: the attributes of the device have 0 for both.
 */
#include "backends/fakecuda/fakecuda.h"

#include <string.h>

static cudaError_t pool_refuse(const char *call, cudaError_t error, const char *why)
{
	fc_report("%s: %s", call, why);
	return error;
}

/* ---- the pools of a device ------------------------------------------------------------------ */

/* Enters a call that needs a device, and no context. */
static cudaError_t pool_device(const char *call, CUdevice dev, struct fc_proc **proc)
{
	cudaError_t rc = fc_enter(call, proc);

	if (!rc && (dev < 0 || dev >= (*proc)->count)) {
		fc_report("%s: device %d, this process has %d", call, dev, (*proc)->count);
		rc = cudaErrorInvalidDevice;
	}
	return rc;
}

static CUresult pool_of_device(const struct fc_at *at, CUdevice dev, bool automatic,
			       CUmemoryPool *pool)
{
	struct fc_proc *proc;
	cudaError_t rc = pool_device(at->call, dev, &proc);

	if (!rc && !pool)
		rc = cudaErrorInvalidValue;
	if (rc)
		return fc_driver_leave(rc);
	fc_lock();
	*pool = automatic ? fc_pool_automatic(proc, dev) : fc_pool_current(proc, dev);
	fc_unlock();
	return fc_driver_leave(cudaSuccess);
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)
{
	const struct fc_at at = FC_AT("cuDeviceGetDefaultMemPool");

	return pool_of_device(&at, dev, true, pool_out);
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
	const struct fc_at at = FC_AT("cuDeviceGetMemPool");

	return pool_of_device(&at, dev, false, pool);
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
	const struct fc_at at = FC_AT("cuDeviceSetMemPool");
	struct fc_proc *proc;
	cudaError_t rc = pool_device(at.call, dev, &proc);

	if (rc)
		return fc_driver_leave(rc);
	fc_lock();
	struct CUmemPoolHandle_st *found = fc_pool_find(proc, pool, at.call);
	if (!found)
		rc = cudaErrorInvalidValue;
	else if (found->ordinal != dev)
		rc = pool_refuse(at.call, cudaErrorInvalidValue, "the pool is of another device");
	else
		proc->pools->current[dev] = found;
	fc_unlock();
	return fc_driver_leave(rc);
}

/* ---- create and destroy --------------------------------------------------------------------- */

static bool pool_is_zero(const unsigned char *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (bytes[i])
			return false;
	return true;
}

static cudaError_t pool_check(const char *call, const struct fc_proc *proc, const CUmemPoolProps *p)
{
	if (p->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
		return pool_refuse(call, cudaErrorInvalidValue,
				   "allocType; expected CU_MEM_ALLOCATION_TYPE_PINNED");
	if (p->usage || p->win32SecurityAttributes ||
	    !pool_is_zero(p->reserved, sizeof p->reserved))
		return pool_refuse(call, cudaErrorInvalidValue,
				   "usage, win32SecurityAttributes or reserved; expected zeros");
	if (p->handleTypes != CU_MEM_HANDLE_TYPE_NONE)
		return pool_refuse(call, cudaErrorNotSupported,
				   "pools that processes share are not implemented "
				   "(MEMPOOL_SUPPORTED_HANDLE_TYPES is 0)");
	if (p->location.type == CU_MEM_LOCATION_TYPE_HOST ||
	    p->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA)
		return pool_refuse(call, cudaErrorNotSupported,
				   "pools of host memory are not implemented");
	if (p->location.type != CU_MEM_LOCATION_TYPE_DEVICE || p->location.id < 0 ||
	    p->location.id >= proc->count)
		return pool_refuse(call, cudaErrorInvalidValue,
				   "location; expected a device of this process");
	return cudaSuccess;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
	const struct fc_at at = FC_AT("cuMemPoolCreate");
	struct fc_proc *proc;
	cudaError_t rc = fc_enter(at.call, &proc);

	if (!rc && (!pool || !poolProps))
		rc = cudaErrorInvalidValue;
	if (!rc)
		rc = pool_check(at.call, proc, poolProps);
	if (rc)
		return fc_driver_leave(rc);
	fc_lock();
	*pool = fc_pool_new(proc, poolProps->location.id);
	(*pool)->at_most = poolProps->maxSize;
	fc_unlock();
	return fc_driver_leave(cudaSuccess);
}

/* Memory that the pool still has lives on; the pool ends with it. */
CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	const struct fc_at at = FC_AT("cuMemPoolDestroy");
	struct fc_proc *proc;
	cudaError_t rc = fc_enter(at.call, &proc);

	if (!proc)
		return fc_driver_leave(rc);
	fc_lock();
	struct CUmemPoolHandle_st *found = fc_pool_find(proc, pool, at.call);
	if (!found)
		rc = cudaErrorInvalidValue;
	else if (found->automatic)
		rc = pool_refuse(at.call, cudaErrorInvalidValue,
				 "the default pool of a device cannot be destroyed");
	else
		fc_pool_destroy(found);
	fc_unlock();
	return fc_driver_leave(rc);
}

/* ---- attributes ----------------------------------------------------------------------------- */

/* Enters a call about a pool: with fc_lock held if it returns success. */
static cudaError_t pool_enter(const char *call, CUmemoryPool handle,
			      struct CUmemPoolHandle_st **pool)
{
	struct fc_proc *proc;
	cudaError_t rc = fc_enter(call, &proc);

	if (rc)
		return rc;
	fc_lock();
	*pool = fc_pool_find(proc, handle, call);
	if (*pool)
		return cudaSuccess;
	fc_unlock();
	return cudaErrorInvalidValue;
}

static cudaError_t pool_set(struct CUmemPoolHandle_st *pool, const char *call,
			    CUmemPool_attribute attr, const void *value)
{
	uint64_t wide = 0;

	switch (attr) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		memcpy(&pool->reuse[attr - 1], value, sizeof(int));
		return cudaSuccess;
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		memcpy(&pool->threshold, value, sizeof pool->threshold);
		return cudaSuccess;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		memcpy(&wide, value, sizeof wide);
		if (wide)
			return pool_refuse(call, cudaErrorInvalidValue,
					   "a high watermark can be set to 0 only");
		if (attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
			pool->used_high = pool->used;
		else
			pool->reserved_high = pool->reserved;
		return cudaSuccess;
	default:
		return pool_refuse(call, cudaErrorInvalidValue, "an attribute that cannot be set");
	}
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	const struct fc_at at = FC_AT("cuMemPoolSetAttribute");
	struct CUmemPoolHandle_st *found;
	cudaError_t rc = value ? pool_enter(at.call, pool, &found) : cudaErrorInvalidValue;

	if (rc)
		return fc_driver_leave(rc);
	rc = pool_set(found, at.call, attr, value);
	fc_unlock();
	return fc_driver_leave(rc);
}

static cudaError_t pool_get(const struct CUmemPoolHandle_st *pool, const char *call,
			    CUmemPool_attribute attr, void *value)
{
	const uint64_t wide[] = {[CU_MEMPOOL_ATTR_RELEASE_THRESHOLD] = pool->threshold,
				 [CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT] = pool->reserved,
				 [CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH] = pool->reserved_high,
				 [CU_MEMPOOL_ATTR_USED_MEM_CURRENT] = pool->used,
				 [CU_MEMPOOL_ATTR_USED_MEM_HIGH] = pool->used_high};

	if (attr < 1 || (size_t)attr >= ARRAY_LEN(wide))
		return pool_refuse(call, cudaErrorInvalidValue, "there is no such attribute");
	if (attr <= FC_POOL_REUSES)
		memcpy(value, &pool->reuse[attr - 1], sizeof(int));
	else
		memcpy(value, &wide[attr], sizeof wide[attr]);
	return cudaSuccess;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	const struct fc_at at = FC_AT("cuMemPoolGetAttribute");
	struct CUmemPoolHandle_st *found;
	cudaError_t rc = value ? pool_enter(at.call, pool, &found) : cudaErrorInvalidValue;

	if (rc)
		return fc_driver_leave(rc);
	rc = pool_get(found, at.call, attr, value);
	fc_unlock();
	return fc_driver_leave(rc);
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)
{
	const struct fc_at at = FC_AT("cuMemPoolTrimTo");
	struct CUmemPoolHandle_st *found;
	cudaError_t rc = pool_enter(at.call, pool, &found);

	if (rc)
		return fc_driver_leave(rc);
	fc_pool_trim(found, minBytesToKeep);
	fc_unlock();
	return fc_driver_leave(cudaSuccess);
}

/* ---- access --------------------------------------------------------------------------------- */

static cudaError_t pool_check_access(const struct CUmemPoolHandle_st *pool, const char *call,
				     const CUmemAccessDesc *d)
{
	if (d->location.type != CU_MEM_LOCATION_TYPE_DEVICE || d->location.id < 0 ||
	    d->location.id >= pool->proc->count)
		return pool_refuse(call, cudaErrorInvalidValue,
				   "location; expected a device of this process");
	if (d->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
	    d->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
		return pool_refuse(call, cudaErrorInvalidValue,
				   "flags; expected PROT_NONE or PROT_READWRITE");
	if (d->location.id == pool->ordinal && d->flags == CU_MEM_ACCESS_FLAGS_PROT_NONE)
		return pool_refuse(call, cudaErrorInvalidValue,
				   "the pool's own device always has access");
	return cudaSuccess;
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
	const struct fc_at at = FC_AT("cuMemPoolSetAccess");
	struct CUmemPoolHandle_st *found;
	cudaError_t rc = map ? pool_enter(at.call, pool, &found) : cudaErrorInvalidValue;

	if (rc)
		return fc_driver_leave(rc);
	for (size_t i = 0; !rc && i < count; i++)
		rc = pool_check_access(found, at.call, &map[i]);
	for (size_t i = 0; !rc && i < count; i++)
		found->access[map[i].location.id] = map[i].flags;
	fc_map_changed();
	fc_unlock();
	return fc_driver_leave(rc);
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool memPool, CUmemLocation *location)
{
	const struct fc_at at = FC_AT("cuMemPoolGetAccess");
	struct CUmemPoolHandle_st *found;
	cudaError_t rc =
		flags && location ? pool_enter(at.call, memPool, &found) : cudaErrorInvalidValue;

	if (rc)
		return fc_driver_leave(rc);
	if (location->type != CU_MEM_LOCATION_TYPE_DEVICE || location->id < 0 ||
	    location->id >= found->proc->count)
		rc = cudaErrorInvalidValue;
	else
		*flags = found->access[location->id] ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
						     : CU_MEM_ACCESS_FLAGS_PROT_NONE;
	fc_unlock();
	return fc_driver_leave(rc);
}

/* ---- sharing: not implemented --------------------------------------------------------------- */

static CUresult pool_share(const struct fc_at *at)
{
	struct fc_proc *proc;
	cudaError_t rc = fc_enter(at->call, &proc);

	if (!rc)
		rc = pool_refuse(at->call, cudaErrorNotSupported,
				 "pools that processes share are not implemented "
				 "(MEMPOOL_SUPPORTED_HANDLE_TYPES is 0)");
	return fc_driver_leave(rc);
}

CUresult cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool pool,
					  CUmemAllocationHandleType handleType,
					  unsigned long long flags)
{
	const struct fc_at at = FC_AT("cuMemPoolExportToShareableHandle");

	(void)handle_out, (void)pool, (void)handleType, (void)flags;
	return pool_share(&at);
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle,
					    CUmemAllocationHandleType handleType,
					    unsigned long long flags)
{
	const struct fc_at at = FC_AT("cuMemPoolImportFromShareableHandle");

	(void)pool_out, (void)handle, (void)handleType, (void)flags;
	return pool_share(&at);
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr)
{
	const struct fc_at at = FC_AT("cuMemPoolExportPointer");

	(void)shareData_out, (void)ptr;
	return pool_share(&at);
}

CUresult cuMemPoolImportPointer(CUdeviceptr *ptr_out, CUmemoryPool pool,
				CUmemPoolPtrExportData *shareData)
{
	const struct fc_at at = FC_AT("cuMemPoolImportPointer");

	(void)ptr_out, (void)pool, (void)shareData;
	return pool_share(&at);
}
