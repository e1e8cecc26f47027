/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kernels: registration, launch, placement of blocks on SMs, callbacks. A block occupies one SM
 * from its first instruction to its last. Blocks that find no free SM wait for one, in launch order
 * (higher stream priority first), as on hardware. A grid larger than the GPU therefore runs in
 * waves, and blocks that wait for non-resident blocks hang here too. Threads are fibers:
 * device_run.c.
 */
#include "backends/fakecuda/fakecuda.h"

#include <stdlib.h>
#include <string.h>

#include "sim/world/program/world_guest.h"

#define LAUNCH_ARGS_MAX   4096u
#define LAUNCH_ARGS_ALIGN 64

/* ---- registration --------------------------------------------------------------------------- */

/* Constructors fill it before main. Later it is only read, except opted_shared. */
static struct fc_func *funcs;
static uint32_t func_count, func_room;

void fakecuda_register_kernel(const struct dev_kernel *k,
			      void (*entry)(struct dev *d, const void *args), int width)
{
	ASSERT(k && k->func && entry && (width == 1 || width == 32));
	ASSERT(k->arg_bytes <= LAUNCH_ARGS_MAX);
	ASSERT(!fc.ready); /* launches keep pointers to entries */
	if (func_count == func_room) {
		func_room = MAX_OF(16u, func_room * 2);
		funcs = realloc(funcs, func_room * sizeof *funcs);
		ASSERT(funcs);
	}
	funcs[func_count++] = (struct fc_func){.kernel = k, .entry = entry, .width = width};
}

struct fc_func *fc_func_find(const void *func)
{
	for (uint32_t i = 0; i < func_count; i++) {
		if (funcs[i].kernel->func == func)
			return &funcs[i];
	}
	return fc_unit_find(func);
}

static __attribute__((destructor)) void launch_unload(void)
{
	world_guest_end(); /* a kernel may still be running */
	free(funcs);
	funcs = NULL;
	func_count = func_room = 0;
}

/* The errors are those of CUDA 13, which treats an unknown address as a stale handle. */
cudaError_t fc_func_get(const void *func, const char *call, struct fc_func **out)
{
	struct fc_func *f = fc_func_find(func);
	if (!f) {
		fc_report("%s: %p is not a registered kernel", call, func);
		return cudaErrorInvalidResourceHandle;
	}
	if (f->unit) {
		cudaError_t rc = fc_unit_known(f->unit, call);
		if (rc)
			return rc;
	} else if (f->width != fc.width) {
		fc_report("%s: kernel %s is built for warps of %d, the world's are %d wide", call,
			  f->kernel->name, f->width, fc.width);
		return cudaErrorInvalidDeviceFunction;
	}
	*out = f;
	return cudaSuccess;
}

cudaError_t fc_func_ready(const void *func, const char *call, struct fc_func **out)
{
	cudaError_t rc = fc_func_get(func, call, out);

	return rc || !(*out)->unit ? rc : fc_unit_ready((*out)->unit, call);
}

/* ---- kernels -------------------------------------------------------------------------------- */

void fc_kernel_free(struct fc_kernel *k)
{
	ASSERT(!k->block);
	mem_forget(k);
	mem_forget(&k->left);
	fc_use_kernel_gone(k);
	free(k);
}

static void kernel_unlink(struct fc_kernel *k)
{
	struct fc_kernel **at = &k->ctx->kernels;
	while (*at && *at != k)
		at = &(*at)->next;
	if (*at)
		*at = k->next;
	at = &k->ctx->dev->placing;
	while (*at && *at != k)
		at = &(*at)->next_placing;
	if (*at)
		*at = k->next_placing;
}

void fc_kernel_start(struct fc_op *op)
{
	struct fc_kernel *k = op->kernel;
	struct fc_device *dev = k->ctx->dev;
	fc_peermem_apply(dev, -1);
	mem_release(k);
	k->next = k->ctx->kernels;
	k->ctx->kernels = k;
	struct fc_kernel **at = &dev->placing;
	while (*at && (*at)->priority <= k->priority)
		at = &(*at)->next_placing;
	k->next_placing = *at;
	*at = k;
	os_trace("cuda.kernel", dev->index, k->number, (uint64_t)k->blocks << 32 | k->threads);
	if (os_tracing())
		fc_trace_kernel_begins(k);
	fc_device_place(dev);
}

/* Ends a kernel: its last block has ended, or the context died before the others were placed. Event
 * context. */
static void kernel_done(void *object, uint64_t serial)
{
	struct CUstream_st *s = object;
	fc_lock();
	if (!fc_stream_alive(s, serial)) {
		fc_unlock();
		return;
	}
	ASSERT(s->head && s->head->kind == FC_OP_KERNEL);
	struct fc_kernel *k = s->head->kernel;
	mem_as(s);
	mem_acquire(&k->left);
	os_trace("cuda.kernel.done", k->ctx->dev->index, k->number, 0);
	if (os_tracing())
		fc_trace_kernel_ends(k);
	kernel_unlink(k);
	fc_stream_op_done(s);
	fc_unlock();
	sim_events_drain();
}

static void kernel_post_done(struct fc_kernel *k)
{
	struct sim_event_attr attr = {.name = "cuda.kernel",
				      .kind = SIM_EVENT_WORK,
				      .delay_ns = sim_latency(FC_KERNEL_DONE_NS),
				      .order = k->op->stream};
	sim_event_post(&attr, kernel_done, k->op->stream, k->op->stream->serial, NULL);
}

/* Starts the block that a fault holds back, when it is the last one. It has kept its SM. */
static void kernel_start_held(struct fc_kernel *k)
{
	if (!k->held || k->left > 1)
		return;
	uint32_t number = k->held - 1;
	k->held = 0;
	fc_block_start(k, number);
}

void fc_kernel_block_done(struct fc_kernel *k)
{
	struct fc_device *dev = k->ctx->dev;
	ASSERT(k->left && dev->sms_free < dev->sms);
	dev->sms_free++;
	if (--k->left == 0)
		kernel_post_done(k);
	kernel_start_held(k);
	fc_device_place(dev);
}

/* Drops the blocks of a dead context's kernel that were not placed. */
static void kernel_give_up_rest(struct fc_kernel *k)
{
	uint32_t rest = k->blocks - k->placed;
	k->placed = k->blocks;
	k->left -= rest;
	if (rest && !k->left)
		kernel_post_done(k);
	kernel_start_held(k);
}

static bool kernel_alive(const struct fc_device *dev, const struct fc_kernel *kernel)
{
	for (const struct fc_ctx *ctx = dev->ctx; ctx; ctx = ctx->next_on_device) {
		for (const struct fc_kernel *k = ctx->kernels; k; k = k->next) {
			if (k == kernel)
				return true;
		}
	}
	return false;
}

/* Starts a block that a fault delayed. Event context. */
static void block_start_late(void *object, uint64_t arg)
{
	struct fc_kernel *k = object;
	fc_lock();
	if (kernel_alive(&fc.device[arg >> 32], k))
		fc_block_start(k, (uint32_t)arg);
	fc_unlock();
	sim_events_drain();
}

/* Starts the threads of a block that has an SM, unless a fault delays them. */
static void block_start(struct fc_kernel *k, uint32_t number)
{
	uint64_t delay_ns;
	enum fc_block_fault fault = fc_fault_block(k, number, &delay_ns);
	/* A held block occupies an SM. With fewer SMs than blocks it would delay the blocks that it
	 * waits for. */
	bool room = k->blocks <= (uint32_t)k->ctx->dev->sms;
	if (fault == FC_BLOCK_LAST && !k->held && k->left > 1 && room) {
		k->held = number + 1;
	} else if (fault == FC_BLOCK_LATER) {
		struct sim_event_attr attr = {
			.name = "cuda.block", .kind = SIM_EVENT_TIMER, .delay_ns = delay_ns};
		sim_event_post(&attr, block_start_late, k,
			       (uint64_t)k->ctx->dev->index << 32 | number, NULL);
	} else {
		fc_block_start(k, number);
	}
}

void fc_device_place(struct fc_device *dev)
{
	while (dev->placing) {
		struct fc_kernel *k = dev->placing;
		if (k->ctx->sticky)
			kernel_give_up_rest(k);
		while (k->placed < k->blocks && dev->sms_free > 0 && !k->ctx->sticky) {
			dev->sms_free--;
			block_start(k, k->placed++);
		}
		OS_PROBE("cuda.block_waits_for_sm", "a kernel's block finds all SMs taken",
			 k->placed < k->blocks);
		if (k->placed < k->blocks && !k->ctx->sticky)
			return;
		if (k->placed == k->blocks)
			dev->placing = k->next_placing;
	}
}

void fc_kernel_drop(struct fc_kernel *k)
{
	k->ctx->dev->sms_free += (int32_t)(k->left - (k->blocks - k->placed));
	kernel_unlink(k);
	sim_events_cancel_object(k);
	fc_blocks_drop(k);
}

/* ---- launch --------------------------------------------------------------------------------- */

/* Largest grids and blocks of current GPUs. */
static const dim3 launch_grid_most = {INT32_MAX, 65535, 65535};
static const dim3 launch_block_most = {LAUNCH_MAX_THREADS, LAUNCH_MAX_THREADS, 64};

static bool launch_fits(dim3 size, dim3 most)
{
	return size.x && size.y && size.z && size.x <= most.x && size.y <= most.y &&
	       size.z <= most.z;
}

static cudaError_t launch_check_size(const struct fc_func *f, dim3 grid, dim3 block)
{
	uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z;
	uint64_t threads = (uint64_t)block.x * block.y * block.z;

	if (!f->unit && (grid.y > 1 || grid.z > 1 || block.y > 1 || block.z > 1))
		fc_unimplemented("a launch of a kernel of this build in more than one dimension");
	if (launch_fits(grid, launch_grid_most) && launch_fits(block, launch_block_most) &&
	    threads <= LAUNCH_MAX_THREADS && blocks <= UINT32_MAX)
		return cudaSuccess;
	fc_report("launch of %s: %u x %u x %u blocks of %u x %u x %u threads; expected 1..%u "
		  "threads in a block",
		  f->kernel->name, grid.x, grid.y, grid.z, block.x, block.y, block.z,
		  LAUNCH_MAX_THREADS);
	return cudaErrorInvalidValue;
}

uint32_t fc_func_static_shared(const struct fc_func *f)
{
	return f->unit ? f->kernel->shared_bytes : 0;
}

int fc_func_dynamic_most(const struct fc_func *f)
{
	int fixed = (int)fc_func_static_shared(f);

	return MAX_OF(f->opted_shared, LAUNCH_SHARED_STATIC - MIN_OF(fixed, LAUNCH_SHARED_STATIC));
}

static cudaError_t launch_check_shared(const struct fc_func *f, size_t shared)
{
	int most = fc_func_dynamic_most(f);

	if (shared <= (size_t)most)
		return cudaSuccess;
	fc_report("launch of %s: %zu bytes of dynamic shared memory, at most %d "
		  "(cudaFuncAttributeMaxDynamicSharedMemorySize); the static ones have %u",
		  f->kernel->name, shared, most, fc_func_static_shared(f));
	return cudaErrorInvalidValue;
}

cudaError_t fc_launch_fill(struct fc_launch *l, dim3 grid, dim3 block, size_t shared, void **params,
			   void **extra, uint8_t *room, const char *call)
{
	const struct fc_func *f = l->func;
	cudaError_t rc = launch_check_size(f, grid, block);

	if (!rc)
		rc = launch_check_shared(f, shared);
	if (rc)
		return rc;
	l->grid = grid;
	l->block = block;
	l->blocks = grid.x * grid.y * grid.z;
	l->threads = block.x * block.y * block.z;
	l->shared_bytes = shared;
	if (f->unit) {
		l->args = room;
		return fc_unit_pack(f->unit, params, extra, room, call);
	}
	if (extra)
		fc_unimplemented("a kernel of this build with arguments in `extra`");
	if (f->kernel->arg_bytes && (!params || !params[0])) {
		fc_report("launch of %s: no arguments", f->kernel->name);
		return cudaErrorInvalidValue;
	}
	l->args = f->kernel->arg_bytes ? params[0] : NULL;
	return cudaSuccess;
}

void *fc_device_alloc(size_t bytes)
{
	void *mem = calloc(1, bytes);

	ASSERT(mem);
	mem_fresh(mem, bytes);
	return mem;
}

/* The unit's variables exist: launch_call has made them. */
static void kernel_new_unit(struct fc_kernel *k, const struct fc_unit *u)
{
	struct fc_instance *in;
	cudaError_t rc = fc_instance_get(u->image, k->ctx, &in);

	ASSERT(!rc);
	k->globals = in->address;
	k->shared_bytes += u->code.static_shared;
}

static struct fc_kernel *kernel_new(struct fc_ctx *ctx, const struct fc_launch *l)
{
	size_t bytes = l->func->kernel->arg_bytes;
	struct fc_kernel *k = fc_device_alloc(sizeof *k + LAUNCH_ARGS_ALIGN + bytes);

	/* after the kernel, in the same heap block */
	k->args = (void *)ALIGN_UP((uintptr_t)(k + 1), (uintptr_t)LAUNCH_ARGS_ALIGN);
	if (bytes)
		memcpy(k->args, l->args, bytes);
	k->ctx = ctx;
	k->func = l->func;
	k->number = ++ctx->dev->kernel_last;
	k->rank = os_self()->rank;
	k->blocks = k->left = l->blocks;
	k->threads = l->threads;
	k->grid = l->grid;
	k->block_dim = l->block;
	k->shared_bytes = l->shared_bytes;
	if (l->func->unit)
		kernel_new_unit(k, l->func->unit);
	return k;
}

struct fc_op *fc_kernel_queue(struct CUstream_st *s, const struct fc_launch *l)
{
	struct fc_op *op = fc_op_new(FC_OP_KERNEL, FC_LAUNCH_NS);

	fc_fault_slow("cuda.kernel", s, &op->ready_ns);
	op->kernel = kernel_new(s->ctx, l);
	op->kernel->op = op;
	op->kernel->priority = s->priority;
	fc_stream_queue(s, op);
	fc_use_kernel_queued(op->kernel);
	return op;
}

/* Queues a launch, or captures it. The stream must be on the current device. The caller holds
 * fc_lock. */
static cudaError_t launch_queue(struct fc_ctx *ctx, const struct fc_launch *l, cudaStream_t stream,
				const char *call, const void *caller)
{
	struct CUstream_st *s = fc_stream_get(ctx, stream, "cudaLaunchKernel");
	cudaError_t rc = s ? fc_capture_check(s, call) : cudaErrorInvalidResourceHandle;

	if (rc)
		return rc;
	if (s->ctx != ctx) {
		fc_report("launch of %s: the stream is of gpu %u, the current device is gpu %u",
			  l->func->kernel->name, s->ctx->dev->index, ctx->dev->index);
		return cudaErrorInvalidResourceHandle;
	}
	if (s->capture) {
		struct fc_work work = {.type = cudaGraphNodeTypeKernel};

		fc_work_launch(&work, l);
		fc_capture_add(s, &work, call, caller);
	} else {
		fc_kernel_queue(s, l);
	}
	return cudaSuccess;
}

/* Checks, packs and queues a launch. The caller holds fc_lock. */
static cudaError_t launch_locked(struct fc_ctx *ctx, struct fc_launch *l,
				 const struct fc_launch_args *a, const char *call)
{
	uint8_t room[FC_ARGS_MOST];
	struct fc_instance *in;
	cudaError_t rc =
		fc_launch_fill(l, a->grid, a->block, a->shared, a->params, a->extra, room, call);

	if (!rc && l->func->unit)
		rc = fc_instance_get(l->func->unit->image, ctx, &in);
	return rc ? rc : launch_queue(ctx, l, a->stream, call, a->caller);
}

cudaError_t fc_launch_call(const char *call, const void *func, const struct fc_launch_args *a)
{
	struct fc_ctx *ctx;
	struct fc_launch l = {0};
	cudaError_t rc = fc_enter_ctx(call, &ctx);

	if (!rc)
		rc = fc_func_ready(func, call, &l.func);
	if (rc)
		return fc_leave(rc);
	fc_lock();
	rc = launch_locked(ctx, &l, a, call);
	fc_unlock();
	return fc_leave(rc);
}

cudaError_t cudaLaunchKernel(const void *func, dim3 gridDim, dim3 blockDim, void **args,
			     size_t sharedMem, cudaStream_t stream)
{
	const struct fc_launch_args a = {.grid = gridDim,
					 .block = blockDim,
					 .params = args,
					 .shared = sharedMem,
					 .stream = stream,
					 .caller = __builtin_return_address(0)};

	return fc_launch_call("cudaLaunchKernel", func, &a);
}
