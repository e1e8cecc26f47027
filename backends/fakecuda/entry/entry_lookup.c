/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lookups of driver functions by name, for the driver's and the runtime's callers. A lookup
 * finds only functions with a body, so that a program turns other features off.
 */
#include "backends/fakecuda/fakecuda.h"

#include <string.h>

#include "backends/fakecuda/entry/entries.h"

#define LOOKUP_FLAGS                                                                               \
	(CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)

static bool entry_per_thread(const struct fc_entry *e)
{
	size_t n = strlen(e->name);

	return n > 5 && (!strcmp(e->name + n - 5, "_ptsz") || !strcmp(e->name + n - 5, "_ptds"));
}

/* Returns the newest symbol that the base means in that version; NULL: none. */
static const struct fc_entry *entry_newest(const char *base, uint32_t version, bool per_thread)
{
	const struct fc_entry *best = NULL;

	for (size_t i = 0; i < fc_entry_count; i++) {
		const struct fc_entry *e = &fc_entries[i];
		if (e->api != FC_ENTRY_DRIVER || strcmp(e->base, base) || e->version > version)
			continue;
		if (entry_per_thread(e) == per_thread && (!best || e->version > best->version))
			best = e;
	}
	return best;
}

/* A function without streams has one variant, which both flags find. */
static const struct fc_entry *entry_choose(const char *base, uint32_t version, bool per_thread)
{
	const struct fc_entry *e = per_thread ? entry_newest(base, version, true) : NULL;

	return e ? e : entry_newest(base, version, false);
}

static CUresult entry_lookup(const char *symbol, void **pfn, int version, cuuint64_t flags,
			     CUdriverProcAddressQueryResult *status)
{
	bool per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
	CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;

	if (!symbol || !pfn || version < 0 || flags & ~(cuuint64_t)LOOKUP_FLAGS)
		return CUDA_ERROR_INVALID_VALUE;
	const struct fc_entry *e = entry_choose(symbol, (uint32_t)version, per_thread);
	if (!e && entry_choose(symbol, UINT32_MAX, per_thread))
		found = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
	else if (!e || !e->body)
		found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	*pfn = NULL;
	if (!found)
		memcpy(pfn, &e->fn, sizeof *pfn);
	if (status)
		*status = found;
	return CUDA_SUCCESS;
}

/* Works before cuInit, and without a world. */
CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
			     CUdriverProcAddressQueryResult *symbolStatus)
{
	return entry_lookup(symbol, pfn, cudaVersion, flags, symbolStatus);
}

/* The variant of CUDA 11.3, which has no status: a symbol that is not found is an error. */
#undef cuGetProcAddress
FAKECUDA_API CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion,
				       cuuint64_t flags);
CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
	CUresult rc = entry_lookup(symbol, pfn, cudaVersion, flags, NULL);

	return rc || *pfn ? rc : CUDA_ERROR_NOT_FOUND;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **funcPtr,
					     unsigned int cudaVersion, unsigned long long flags,
					     enum cudaDriverEntryPointQueryResult *driverStatus)
{
	struct fc_proc *proc;
	CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
	cudaError_t rc = fc_enter("cudaGetDriverEntryPoint", &proc);

	if (!rc && cudaVersion > INT32_MAX)
		rc = cudaErrorInvalidValue;
	if (!rc)
		rc = (cudaError_t)entry_lookup(symbol, funcPtr, (int)cudaVersion, flags, &status);
	if (!rc && driverStatus)
		*driverStatus = (enum cudaDriverEntryPointQueryResult)status;
	return fc_leave(rc);
}

cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **funcPtr, unsigned long long flags,
				    enum cudaDriverEntryPointQueryResult *driverStatus)
{
	return cudaGetDriverEntryPointByVersion(symbol, funcPtr, CUDART_VERSION, flags,
						driverStatus);
}
