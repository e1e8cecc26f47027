/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Access rights. A kernel of context C may access memory of its own GPU and of peer GPUs that C
 * enabled. It may also access pinned host memory of its process. The process must own device
 * memory, or have opened it through IPC. Memory mapped by cuMem is accessible where cuMemSetAccess
 * permits it (vmm_space.c). Copies have the same rules, but need no peer access and also accept
 * pageable host memory. The caller holds fc_lock.
 */
#include "backends/fakecuda/fakecuda.h"

#include <stdlib.h>
#include <string.h>

/* ---- pinned host memory --------------------------------------------------------------------- */

static uint32_t host_upper(const struct fc_proc *proc, uint64_t address)
{
	uint32_t lo = 0, hi = proc->host_count;
	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;
		if (proc->host[mid].base <= address)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

struct fc_host_range *fc_host_find(struct fc_proc *proc, uint64_t address, uint64_t bytes)
{
	uint32_t i = host_upper(proc, address);
	if (!i)
		return NULL;
	struct fc_host_range *r = &proc->host[i - 1];
	uint64_t off = address - r->base;
	return off < r->bytes && bytes <= r->bytes - off ? r : NULL;
}

bool fc_host_is_pinned(struct fc_proc *proc, uint64_t address, uint64_t bytes)
{
	return fc_vmm_has(address) ? fc_vmm_is_host(proc, address, bytes)
				   : fc_host_find(proc, address, bytes) != NULL;
}

bool fc_host_add(const struct fc_ctx *ctx, uint64_t base, uint64_t bytes, unsigned int flags,
		 bool registered)
{
	struct fc_proc *proc = ctx->proc;
	uint32_t i = host_upper(proc, base);
	ASSERT(bytes);
	if (i && base - proc->host[i - 1].base < proc->host[i - 1].bytes)
		return false;
	if (i < proc->host_count && proc->host[i].base - base < bytes)
		return false;
	if (proc->host_count == proc->host_room) {
		uint32_t room = MAX_OF(16u, proc->host_room * 2);
		proc->host = realloc(proc->host, room * sizeof proc->host[0]);
		ASSERT(proc->host);
		proc->host_room = room;
	}
	memmove(&proc->host[i + 1], &proc->host[i], (proc->host_count - i) * sizeof proc->host[0]);
	proc->host_count++;
	struct fc_host_range *r = &proc->host[i];
	*r = (struct fc_host_range){.base = base,
				    .bytes = bytes,
				    .number = ++proc->host_last,
				    .flags = flags,
				    .device = ctx->ordinal,
				    .slot = ctx->slot,
				    .registered = registered};
	fc_who(r->who);
	fc_map_changed();
	return true;
}

void fc_host_remove(struct fc_proc *proc, struct fc_host_range *r)
{
	uint32_t i = (uint32_t)(r - proc->host);
	ASSERT(i < proc->host_count);
	proc->host_count--;
	memmove(r, r + 1, (proc->host_count - i) * sizeof *r);
	fc_map_changed();
}

/* ---- device memory -------------------------------------------------------------------------- */

static bool access_opened(const struct fc_proc *proc, const struct fc_device *dev, uint32_t number)
{
	const struct fc_ipc_open *o = proc->open;
	while (o && !(o->device == dev->index && o->number == number))
		o = o->next;
	return o != NULL;
}

struct fc_alloc *fc_access_alloc(struct fc_proc *proc, struct fc_device *dev, uint64_t address,
				 uint64_t bytes)
{
	if (fc_vmm_has(address))
		return fc_vmm_access(proc, address, bytes);
	struct fc_alloc *a = fc_alloc_find(dev, address);
	if (!a || a->vmm || bytes > a->bytes - (address - a->base))
		return NULL;
	if (a->proc == proc->os->id)
		return a->freed ? NULL : a;
	return access_opened(proc, dev, a->number) ? a : NULL;
}

static bool access_peer(const struct fc_ctx *ctx, const struct fc_device *dev)
{
	return dev == ctx->dev || (dev->host == ctx->dev->host && (ctx->peers >> dev->dev & 1));
}

bool fc_access_kernel(struct fc_ctx *ctx, uint64_t address, uint64_t bytes, struct fc_range *range)
{
	struct fc_device *dev = fc_device_at(address);
	range->generation = fc_map_generation();
	if (fc_vmm_has(address))
		return fc_vmm_may_kernel(ctx, address, bytes, range);
	if (!dev) {
		struct fc_host_range *r = fc_host_find(ctx->proc, address, bytes);
		if (!r)
			return false;
		range->lo = r->base;
		range->hi = r->base + r->bytes;
		range->kind = FC_RANGE_HOST;
		return true;
	}
	struct fc_alloc *a = fc_access_alloc(ctx->proc, dev, address, bytes);
	if (!a || !(a->pooled ? fc_block_may(ctx, address) : access_peer(ctx, dev)))
		return false;
	range->lo = a->base;
	range->hi = a->base + a->bytes;
	range->kind = dev == ctx->dev ? FC_RANGE_LOCAL : FC_RANGE_PEER;
	return true;
}

/* Describes why this process may not use the device memory. Returns false if it may. */
static bool access_explain_proc(struct fc_proc *proc, struct fc_device *dev, uint64_t address,
				uint64_t bytes, char *out, size_t n)
{
	char what[320];
	struct fc_alloc *a = fc_alloc_find(dev, address);
	if (!a) {
		fc_alloc_describe_nearest(address, what, sizeof what);
		snprintf(out, n, "no allocation there: it is %s", what);
		return true;
	}
	fc_alloc_describe(dev, a, what, sizeof what);
	struct os_proc *owner = world_proc_by_id(a->proc);
	if (a->proc != proc->os->id && !access_opened(proc, dev, a->number))
		snprintf(out, n, "it belongs to process %s and was never opened in %s: %s",
			 owner ? owner->name : "?", proc->os->name, what);
	else if (a->proc == proc->os->id && a->freed)
		snprintf(out, n, "it was freed: %s", what);
	else if (bytes > a->bytes - (address - a->base))
		snprintf(out, n, "%llu bytes there run past the end of %s",
			 (unsigned long long)bytes, what);
	else
		return false;
	return true;
}

void fc_access_explain(struct fc_ctx *ctx, uint64_t address, uint64_t bytes, char *out, size_t n)
{
	struct fc_device *dev = fc_device_at(address);
	if (fc_vmm_has(address))
		fc_vmm_explain(ctx->proc, ctx->ordinal, address, bytes, out, n);
	else if (!dev)
		snprintf(out, n, "host memory that is not pinned in %s%s", ctx->proc->os->name,
			 fc_host_find(ctx->proc, address, 1) ? " to its end" : "");
	else if (access_explain_proc(ctx->proc, dev, address, bytes, out, n))
		return;
	else if (fc_block_find(ctx->proc, address))
		snprintf(out, n, "the memory's pool gives gpu %u no access (cuMemPoolSetAccess)",
			 ctx->dev->index);
	else
		snprintf(out, n, "gpu %u has no peer access to gpu %u in %s", ctx->dev->index,
			 dev->index, ctx->proc->os->name);
}

cudaError_t fc_access_copy(struct fc_proc *proc, const char *call, const char *which,
			   uint64_t address, uint64_t bytes, struct fc_device **dev)
{
	char why[512];
	*dev = fc_device_at(address);
	if (fc_vmm_has(address)) {
		if (fc_vmm_may_copy(proc, address, bytes))
			return cudaSuccess;
		fc_vmm_explain(proc, FC_VMM_MAPPED, address, bytes, why, sizeof why);
		fc_report("%s: %s 0x%llx: %s", call, which, (unsigned long long)address, why);
		return cudaErrorInvalidValue;
	}
	if (!*dev && fc_va_is_device(address)) {
		fc_report("%s: %s 0x%llx is in no GPU's range", call, which,
			  (unsigned long long)address);
		return cudaErrorInvalidValue;
	}
	if (!*dev || fc_access_alloc(proc, *dev, address, bytes))
		return cudaSuccess;
	if (access_explain_proc(proc, *dev, address, bytes, why, sizeof why))
		fc_report("%s: %s 0x%llx: %s", call, which, (unsigned long long)address, why);
	return cudaErrorInvalidValue;
}
