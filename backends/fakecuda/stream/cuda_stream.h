/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams, events, copies, kernels and callbacks of the GPU double. fakecuda.h includes this file
 * last, because it uses the structs there. */
#ifndef BACKENDS_FAKECUDA_STREAM_H
#define BACKENDS_FAKECUDA_STREAM_H

/* ---- cuda_stream.c, cuda_event.c, copy.c, cuda_launch.c, device_run.c ------------------------ */

struct CUstream_st *fc_stream_new(struct fc_ctx *ctx, unsigned int flags, int priority);
/* Returns the stream of a handle. In `ctx`, 0 is the legacy stream, and cudaStreamPerThread is the
 * calling task's own. NULL: invalid (reported). */
struct CUstream_st *fc_stream_get(struct fc_ctx *ctx, cudaStream_t handle, const char *call);
struct fc_op *fc_op_new(enum fc_op_kind kind, uint64_t latency_ns);
void fc_stream_queue(struct CUstream_st *s, struct fc_op *op);
void fc_stream_op_done(struct CUstream_st *s); /* its first operation ended */
void fc_stream_kick(struct CUstream_st *s, uint64_t delay_ns);
void fc_stream_drop(struct CUstream_st *s);
/* In `threads`, an event of a stream may be running on another thread when the stream is freed.
 * True if the stream still exists. */
bool fc_stream_alive(const struct CUstream_st *s, uint64_t serial);
/* Waits until `done` operations have ended, or the context died. */
cudaError_t fc_stream_wait(struct CUstream_st *s, uint64_t done, const char *call);
cudaError_t fc_ctx_wait(struct fc_ctx *ctx, const char *call);
/* DOPPEL_CUDA_WAITS of the calling process: true if every call that may wait does wait. */
bool fc_waits_always(void);
/* DOPPEL_GPU_RDMA of the calling process: true if HCAs can register memory by `way`, "dmabuf" or
 * "peermem". */
bool fc_rdma_has(const char *way);
/* Like fc_ctx_wait, but even in a dead context waits until no kernel can access host memory. */
cudaError_t fc_ctx_wait_gone(struct fc_ctx *ctx, const char *call);
void fc_ctx_kill(struct fc_ctx *ctx, cudaError_t error);
void fc_op_free(struct fc_op *op);

bool fc_event_reached(const struct fc_op *op);
/* Return the event; NULL: the process has no such event (reported). */
struct CUevent_st *fc_event_get(struct fc_proc *proc, cudaEvent_t handle, const char *call);
/* Queue a recording of the event in a stream of its context, a wait for its latest recording. */
struct fc_op *fc_event_record(struct CUevent_st *e, struct CUstream_st *s);
void fc_event_wait(struct CUevent_st *e, struct CUstream_st *s);
/* References of nodes: the event exists until the last one is dropped. */
void fc_event_keep(struct CUevent_st *e);
void fc_event_unkeep(struct CUevent_st *e);
/* Queue a recording of a mark, which stores a reference in *mark; a wait for a mark. */
struct fc_op *fc_mark_record(struct CUstream_st *s, struct fc_mark **mark);
void fc_mark_wait(struct CUstream_st *s, struct fc_mark *mark);
void fc_mark_unref(struct fc_mark *mark);
void fc_event_record_done(struct fc_op *op);
void fc_event_op_free(struct fc_op *op); /* drops the operation's references */
void fc_event_drop(struct CUevent_st *e);

void fc_copy_start(struct fc_op *op);
cudaError_t fc_copy_wait_free(struct fc_ctx *ctx, const char *call);
/* Check and complete what a copy or a fill moves; report an error. */
cudaError_t fc_copy_resolve(struct fc_ctx *ctx, const char *call, enum cudaMemcpyKind kind,
			    struct fc_copy *c);
cudaError_t fc_fill_resolve(struct fc_ctx *ctx, const char *call, struct fc_copy *c);
/* Queue a copy, or a fill, that was resolved, and declare its memory to use.c. */
struct fc_op *fc_copy_queue(struct CUstream_st *s, enum fc_op_kind kind, const struct fc_copy *c,
			    const char *call, const void *caller);

/* Queues a copy that was resolved, as cudaMemcpyAsync does. *wait_for: the number of operations for
 * which the call must wait; 0: none. */
cudaError_t fc_copy_async(struct fc_ctx *ctx, struct CUstream_st *s, struct fc_copy *c,
			  uint64_t *wait_for, const struct fc_at *at);

#define LAUNCH_MAX_THREADS   1024u
#define LAUNCH_SHARED_STATIC (48 << 10)  /* without opting in */
#define LAUNCH_SHARED_MAX    (227 << 10) /* with opting in */
struct fc_func *fc_func_find(const void *func);
/* Bytes of a kernel from PTX; one of this build has no static shared memory. */
uint32_t fc_func_static_shared(const struct fc_func *f);
/* Most dynamic shared memory of a launch: 48 KiB less the static ones, or as opted in. */
int fc_func_dynamic_most(const struct fc_func *f);
/* Finds a registered kernel of the world's warp width; reports an error. */
cudaError_t fc_func_get(const void *func, const char *call, struct fc_func **out);
/* The same for a launch: the kernel is translated. */
cudaError_t fc_func_ready(const void *func, const char *call, struct fc_func **out);
struct fc_launch;
/* Checks a launch of l->func and fills in the rest of *l. Its arguments may lie in `room`. Reports
 * an error. */
cudaError_t fc_launch_fill(struct fc_launch *l, dim3 grid, dim3 block, size_t shared, void **params,
			   void **extra, uint8_t *room, const char *call);
/* Launches a kernel in the current context, or captures it. params or extra: as of
 * cuLaunchKernel. */
struct fc_launch_args {
	dim3 grid, block;
	void **params, **extra;
	size_t shared;
	cudaStream_t stream;
	const void *caller;
};
cudaError_t fc_launch_call(const char *call, const void *func, const struct fc_launch_args *a);
/* lane_calls.c: runs one thread of a kernel from PTX. */
struct dev;
void fc_lane_run(struct dev *d, const void *args);
struct fc_op *fc_kernel_queue(struct CUstream_st *s, const struct fc_launch *l);
struct fc_op *fc_host_func_queue(struct CUstream_st *s, cudaHostFn_t fn, void *arg);
/* Allocates zeroed memory that device code shares. It counts as new: accesses to an earlier heap
 * block at the same address cause no report. */
void *fc_device_alloc(size_t bytes);
void fc_kernel_start(struct fc_op *op);
void fc_kernel_free(struct fc_kernel *k);
void fc_kernel_drop(struct fc_kernel *k); /* its tasks have ended */
void fc_kernel_block_done(struct fc_kernel *k);
void fc_device_place(struct fc_device *dev);
void fc_block_start(struct fc_kernel *k, uint32_t number);
void fc_blocks_drop(struct fc_kernel *k);
void fc_host_func_start(struct fc_op *op);

/* use.c. In order: after an operation was queued; when a stream waits for a reached mark; when the
 * host has waited for `done` operations of a stream; when it has waited for a mark. */
void fc_use_queued(struct CUstream_st *s, struct fc_op *op);
/* The stream's next operation uses memory so. */
void fc_use_declare(struct CUstream_st *s, const struct os_use *use);
void fc_use_waits(struct CUstream_st *s, const struct fc_mark *mark);
void fc_use_host_waited(struct CUstream_st *s, uint64_t done);
void fc_use_host_waited_mark(struct fc_proc *p, const struct fc_mark *mark);
/* In order: the stream's last operation uses the range; the program is about to free it; it has
 * been freed. */
void fc_use_range(struct CUstream_st *s, uint64_t address, uint64_t bytes, bool write,
		  const void *caller, const char *call);
void fc_use_free(struct fc_proc *p, uint64_t address, uint64_t bytes, const void *caller,
		 const char *call);
void fc_use_freed(struct fc_proc *p, uint64_t address, uint64_t bytes);
/* A kernel accesses memory, which may be another process' that this one has opened. */
void fc_use_mapped(struct fc_kernel *k, const struct fc_range *range);
struct fc_use_mapping {
	const char *call;
	const struct fc_device *memory;
	uint32_t number; /* number of its allocation */
	const struct fc_clock *used;
};
/* The process closes the mapping: it must have waited for its kernels that accessed it. */
void fc_use_unmap(struct fc_proc *p, const struct fc_use_mapping *mapping, const void *caller);
void fc_use_kernel_queued(struct fc_kernel *k);
void fc_use_kernel_gone(struct fc_kernel *k);
/* takes fc_lock */
void fc_use_kernel(struct fc_kernel *k, uint64_t address, uint64_t bytes, bool write);
void fc_use_stream_gone(struct CUstream_st *s);
void fc_use_proc_gone(struct fc_proc *p);
void fc_clock_free(struct fc_clock *c);

/* cuda_trace.c. Called only if os_tracing(). */
void fc_trace_kernel_begins(struct fc_kernel *k);
void fc_trace_kernel_ends(struct fc_kernel *k);
void fc_trace_copy(struct CUstream_st *s, const struct fc_op *op); /* when it ends */
void fc_trace_work_begins(struct fc_kernel *k, const char *name, const struct dev_work *w);
void fc_trace_work_ends(struct fc_kernel *k, const char *name);
void fc_trace_slot(struct fc_kernel *k, const struct dev_comm *comm, const struct dev_conn *c,
		   uint64_t step, bool sent);

/* cuda_fault.c. Returns the error with which the fault plan fails this call, or 0. ctx may be
 * NULL. */
int fc_fault_call(const char *call, struct fc_ctx *ctx);
void fc_fault_slow(const char *site, const void *object, uint64_t *delay_ns);
enum fc_block_fault { FC_BLOCK_NOW, FC_BLOCK_LATER, FC_BLOCK_LAST };
enum fc_block_fault fc_fault_block(const struct fc_kernel *k, uint32_t number, uint64_t *delay_ns);

struct peermem_region;
/* dmabuf.c, for backends/peermem.h. */
int fc_dmabuf_pin(struct os_proc *proc, int fd, uint64_t offset, uint64_t bytes,
		  struct peermem_region *r);
/* Exports cuMem memory as a descriptor; finds the memory of a descriptor. */
CUresult fc_dmabuf_export(struct fc_proc *proc, struct fc_device *dev, struct fc_alloc *a, int *fd);
CUresult fc_dmabuf_import(struct fc_proc *proc, int fd, struct fc_device **dev,
			  struct fc_alloc **a);
/* True if any process has an open descriptor of that memory. */
bool fc_dmabuf_holds(const struct fc_alloc *a);
/* Removes and closes the newest open descriptor of the process. Returns false if it has no open
 * one. */
bool fc_dmabuf_close_newest(struct fc_proc *proc, char *who, size_t bytes);
void fc_dmabufs_end(void);                                 /* frees the world's descriptors */
void fc_peermem_apply(struct fc_device *dev, int64_t hca); /* -1: of every HCA */
void fc_peermem_drop(struct fc_device *dev);

void fc_proc_gone(struct os_proc *os, bool killed);
void fc_ipc_drop(struct fc_proc *proc, struct fc_ipc_open *open);

#endif
