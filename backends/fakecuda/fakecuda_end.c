/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of processes and worlds: leaks are counted, memory is freed. */
#include "backends/fakecuda/fakecuda.h"

#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>

#include "sim/world/program/world_guest.h"

/* ---- end of processes and worlds ------------------------------------------------------------ */

enum {
	FC_LEAK_ALLOC,
	FC_LEAK_HOST,
	FC_LEAK_STREAM,
	FC_LEAK_EVENT,
	FC_LEAK_IPC,
	FC_LEAK_DMABUF,
	FC_LEAK_VMM,
	FC_LEAK_GRAPH,
	FC_LEAK_POOL
};

static void fc_leak_note(int kind, uint64_t *count, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static void fc_leak_note(int kind, uint64_t *count, const char *fmt, ...)
{
	if (++*count > 1)
		return;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(fc.leaks.first[kind], sizeof fc.leaks.first[kind], fmt, ap);
	va_end(ap);
}

static void fc_ctx_count_leaks(struct fc_ctx *ctx)
{
	for (struct CUstream_st *s = ctx->streams; s; s = s->next) {
		if (s->number && !s->destroyed && !s->task && !s->exec)
			fc_leak_note(FC_LEAK_STREAM, &fc.leaks.streams,
				     "stream %u of gpu %u, by %s", s->number, ctx->dev->index,
				     s->who);
	}
	for (struct CUevent_st *e = ctx->events; e; e = e->next) {
		if (!e->destroyed)
			fc_leak_note(FC_LEAK_EVENT, &fc.leaks.events, "event %u of gpu %u, by %s",
				     e->number, ctx->dev->index, e->who);
	}
}

/* Memory that a stream is about to free is not left. */
static bool fc_alloc_is_left(const struct fc_proc *p, const struct fc_alloc *al)
{
	const struct fc_block *b = al->pooled ? fc_block_find(p, al->base) : NULL;

	return al->proc == p->os->id && !al->freed && !al->vmm && !fc_instance_is(al) &&
	       !(b && b->is_dying);
}

static void fc_pools_count_leaks(const struct fc_proc *p)
{
	for (const struct CUmemPoolHandle_st *pool = p->pools ? p->pools->pools : NULL; pool;
	     pool = pool->next)
		if (!pool->automatic && !pool->destroyed)
			fc_leak_note(FC_LEAK_POOL, &fc.leaks.pools, "pool of gpu %u, by %s",
				     pool->dev->index, pool->who);
}

static void fc_proc_count_leaks(struct fc_proc *p)
{
	for (int32_t i = 0; i < p->count; i++) {
		struct fc_device *dev = p->device[i];
		for (uint32_t a = 0; a < dev->alloc_count; a++) {
			const struct fc_alloc *al = &dev->alloc[a];
			if (fc_alloc_is_left(p, al))
				fc_leak_note(FC_LEAK_ALLOC, &fc.leaks.allocations,
					     "%llu bytes on gpu %u, by %s",
					     (unsigned long long)al->bytes, dev->index, al->who);
		}
	}
	for (int32_t i = 0; i < p->slots; i++)
		if (p->ctx[i])
			fc_ctx_count_leaks(p->ctx[i]);
	/* the earliest one, not the one with the lowest address */
	const struct fc_host_range *first = p->host;
	for (uint32_t i = 1; i < p->host_count; i++) {
		if (p->host[i].number < first->number)
			first = &p->host[i];
	}
	for (uint32_t i = 0; i < p->host_count; i++)
		fc_leak_note(FC_LEAK_HOST, &fc.leaks.host, "%llu bytes %s by %s",
			     (unsigned long long)first->bytes,
			     first->registered ? "registered" : "allocated", first->who);
	for (struct fc_ipc_open *o = p->open; o; o = o->next)
		fc_leak_note(FC_LEAK_IPC, &fc.leaks.ipc, "gpu %u #%u opened in %s", o->device,
			     o->number, p->os->name);
}

static void fc_vmm_count_leaks(const struct fc_proc *p)
{
	for (const struct fc_vmm_handle *h = p->handles; h; h = h->next)
		fc_leak_note(FC_LEAK_VMM, &fc.leaks.vmm, "handle of %s %u #%u, by %s",
			     fc_memory_kind(&fc.device[h->device]),
			     fc_memory_number(&fc.device[h->device]), h->number, h->who);
	if (fc_vmm_space_of(p))
		fc_leak_note(FC_LEAK_VMM, &fc.leaks.vmm, "%llu bytes of addresses, by %s",
			     (unsigned long long)fc_vmm_space_of(p)->bytes,
			     fc_vmm_space_of(p)->who);
}

static void fc_graphs_count_leaks(const struct fc_proc *p)
{
	char first[80];

	for (uint32_t n = fc_graphs_left(p, first, sizeof first); n > 0; n--)
		fc_leak_note(FC_LEAK_GRAPH, &fc.leaks.graphs, "%s", first);
}

/* Closes the process' descriptors. On hardware the kernel does so, but the real process
 * continues. */
static void fc_proc_close_dmabufs(struct fc_proc *p, bool killed)
{
	char who[FC_WHO_BYTES];

	while (fc_dmabuf_close_newest(p, who, sizeof who))
		if (!killed)
			fc_leak_note(FC_LEAK_DMABUF, &fc.leaks.dmabufs, "of %s, by %s", p->os->name,
				     who);
}

static void fc_ctx_drop(struct fc_ctx *ctx)
{
	struct fc_ctx **at = &ctx->dev->ctx;
	while (*at != ctx)
		at = &(*at)->next_on_device;
	*at = ctx->next_on_device;
	while (ctx->kernels)
		fc_kernel_drop(ctx->kernels);
	while (ctx->streams)
		fc_stream_drop(ctx->streams);
	while (ctx->events)
		fc_event_drop(ctx->events);
	ctx->proc->ctx[ctx->slot] = NULL;
	fc_instances_ctx_gone(ctx);
	free(ctx);
}

/* Frees what the process has allocated on the device in that context; -1: in any. */
static void fc_device_free_of(struct fc_device *dev, const struct fc_proc *p, int32_t slot)
{
	for (uint32_t i = dev->alloc_count; i-- > 0;) {
		struct fc_alloc *a = &dev->alloc[i];

		if (a->proc == p->os->id && !a->freed && !a->vmm && !a->pooled &&
		    (slot < 0 || a->slot == slot))
			fc_alloc_free(dev, a);
	}
}

void fc_ctx_reset(struct fc_ctx *ctx)
{
	if (ctx->slot < ctx->proc->count)
		fc_pools_device_gone(ctx->proc, ctx->dev);
	fc_device_free_of(ctx->dev, ctx->proc, ctx->slot);
	fc_graphs_ctx_gone(ctx);
	fc_ctx_drop(ctx);
	fc_map_changed();
}

static void fc_proc_free_memory(struct fc_proc *p)
{
	for (int32_t i = 0; i < p->count; i++)
		fc_device_free_of(p->device[i], p, -1);
	while (p->host_count) {
		struct fc_host_range *range = &p->host[p->host_count - 1];
		if (!range->registered)
			fc_host_delete((void *)(uintptr_t)range->base, range->bytes);
		fc_host_remove(p, range);
	}
}

void fc_proc_gone(struct os_proc *os, bool killed)
{
	struct fc_proc *p = os->slot[OS_SLOT_CUDA];
	if (!p || !fc.ready)
		return;
	fc_lock();
	if (!killed) {
		fc_proc_count_leaks(p);
		fc_vmm_count_leaks(p);
		fc_graphs_count_leaks(p);
		fc_pools_count_leaks(p);
	}
	fc_graphs_end(p);
	for (int32_t i = 0; i < p->slots; i++) {
		if (p->ctx[i])
			fc_ctx_drop(p->ctx[i]);
	}
	fc_graphs_free(p);
	while (p->open)
		fc_ipc_drop(p, p->open);
	fc_proc_close_dmabufs(p, killed);
	fc_vmm_proc_gone(p);
	fc_vmm_sweep();
	fc_pools_end(p);
	fc_proc_free_memory(p);
	fc_map_changed();
	for (int32_t i = 0; i < p->count; i++) /* kernels of other processes may wait for its SMs */
		fc_device_place(p->device[i]);
	struct fc_proc **at = &fc.procs;
	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	os->slot[OS_SLOT_CUDA] = NULL;
	fc_use_proc_gone(p);
	fc_contexts_end(p);
	fc_unlock();
	free(p->host);
	free(p);
}

void fc_world_end(void)
{
	if (!fc.ready)
		return;
	while (fc.procs) /* the launcher's own process, which never exits */
		fc_proc_gone(fc.procs->os, false);
	world_leak("device allocations", fc.leaks.allocations, fc.leaks.first[FC_LEAK_ALLOC]);
	world_leak("pinned host memory", fc.leaks.host, fc.leaks.first[FC_LEAK_HOST]);
	world_leak("cuda streams", fc.leaks.streams, fc.leaks.first[FC_LEAK_STREAM]);
	world_leak("cuda events", fc.leaks.events, fc.leaks.first[FC_LEAK_EVENT]);
	world_leak("open ipc handles", fc.leaks.ipc, fc.leaks.first[FC_LEAK_IPC]);
	world_leak("cuMem handles and addresses", fc.leaks.vmm, fc.leaks.first[FC_LEAK_VMM]);
	world_leak("cuda graphs", fc.leaks.graphs, fc.leaks.first[FC_LEAK_GRAPH]);
	world_leak("cuda memory pools", fc.leaks.pools, fc.leaks.first[FC_LEAK_POOL]);
	world_leak("open dma-bufs", fc.leaks.dmabufs, fc.leaks.first[FC_LEAK_DMABUF]);
	for (uint32_t i = 0; i < fc.memory_count; i++) {
		if (fc.device[i].gpu)
			fc_peermem_drop(&fc.device[i]);
		fc_va_wipe(fc.device[i].base, fc.device[i].high_water);
	}
	fc_dmabufs_end();
	fc_share_end();
	free(fc.device);
	fc = (struct fc_state){.map_generation = fc.map_generation + 1,
			       .stream_serial = fc.stream_serial,
			       .stream_serial_first = fc.stream_serial};
}
