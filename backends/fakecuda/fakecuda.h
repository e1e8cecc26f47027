/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fakecuda, inside: the GPU double's own state. Included by the sources of this folder only; the
 * outside sees CUDA's headers (include/), core/device/shim_fake.h and backends/peermem.h.
 *
 *   fc (one a process)   the world's GPUs; made at the first call in a world, dropped with it
 *   fc_device            one GPU: address range, allocations, SMs, copy engines
 *   fc_proc              one process' view: visible devices, pinned host memory, open IPC handles
 *   fc_ctx               a process on a GPU: streams, events, kernels, sticky error, peers
 *
 * Locking. One lock, fc_lock, covers everything below except where noted. It is a spin
 * lock: it is taken in event context, where nothing may wait, and is held for a few hundred
 * instructions; nothing that waits, switches, or copies payload runs under it. Under `sim` it is
 * never contended. Below it in order: the engine's own locks (spawn, post, wake). The engine calls
 * back without a lock of its own, except for the resolver, which is arithmetic.
 *
 * Entry points: fc_enter (scheduling point, charge), then act under fc_lock, then wait if the call
 * waits, then fc_leave (last error, drain). Units: bytes, ns. Errors: cudaError_t.
 */
#ifndef BACKENDS_FAKECUDA_FAKECUDA_H
#define BACKENDS_FAKECUDA_FAKECUDA_H

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "backends/fakecuda/shadow.h"
#include "backends/peermem.h"
#include "core/device/shim_fake.h"
#include "core/os/os.h"
#include "sim/engine/memory.h"
#include "sim/engine/sim.h"
#include "sim/world/world.h"

#define FC_MAX_VISIBLE 64 /* GPUs of one host */
#define FC_ALIGN       512u
#define FC_FREED_KEPT  64
#define FC_WHO_BYTES   32

/* What things cost, ns. Orders of magnitude of a current server. */
#define FC_CALL_NS        1000    /* an API call */
#define FC_LAUNCH_NS      5000    /* from cudaLaunchKernel to the first instruction */
#define FC_COPY_NS        2000    /* from cudaMemcpyAsync to the first byte */
#define FC_STREAM_NS      500     /* an event or a callback reached by a stream */
#define FC_KERNEL_DONE_NS 1000    /* from the last instruction to the stream's next operation */
#define FC_LOCAL_MBPS     1500000 /* device memory, one direction */

/* ---- device memory -------------------------------------------------------------------------- */

/* One cudaMalloc. Lives in the world arena, in an array sorted by base: no pointers inside. */
struct fc_alloc {
	uint64_t base, bytes; /* bytes as requested; the range is rounded up to FC_ALIGN */
	uint64_t when_ns;
	uint32_t number; /* 1.. per device, never reused: the generation */
	uint32_t proc;   /* owner's id */
	uint32_t pins;   /* MRs */
	uint32_t opens;  /* IPC openings by other processes */
	uint8_t freed;   /* by its owner; kept while opened elsewhere, and in fc_device.freed */
	/* Of cuMemCreate: reached through mappings alone, and freed with the last handle. */
	uint8_t vmm, rdma, exported; /* rdma: HCAs may register it */
	uint32_t handle_types;       /* it can be exported as: CUmemAllocationHandleType */
	uint32_t handles;            /* of all processes */
	int32_t numa;                /* of the host's memory: its node */
	char who[FC_WHO_BYTES];      /* task that allocated it */
};

/* Written by an HCA and not yet visible to a running kernel: peermem.c. */
struct fc_pending {
	struct fc_pending *next;
	uint32_t hca;
	uint64_t address, bytes;
	uint8_t data[];
};

/* A GPU; or a host, as far as it has memory for cuMemCreate: with what allocations need, and
 * nothing else. */
struct fc_device {
	uint32_t index; /* in the world */
	uint32_t host;
	int32_t dev;                      /* on its host */
	const struct world_gpu *gpu;      /* NULL: a host */
	uint64_t base, bytes;             /* address range */
	uint64_t high_water;              /* bytes from base that allocations ever covered */
	uint64_t total_bytes, used_bytes; /* as reported */
	struct fc_alloc *alloc;           /* arena; sorted by base */
	uint32_t alloc_count, alloc_room, alloc_last;
	struct fc_alloc freed[FC_FREED_KEPT]; /* ring: the latest freed, for reports */
	uint32_t freed_count;
	int32_t sms, sms_free;
	uint32_t kernel_last;
	struct fc_kernel *placing; /* kernels with blocks that wait for an SM, in launch order */
	struct fc_ctx *ctx;        /* list by next_on_device */
	struct sim_resource h2d, d2h, link, local;
	struct fc_pending *pending, **pending_end;
};

/* ---- processes and contexts ----------------------------------------------------------------- */

/* Pinned host memory: cudaHostAlloc, cudaHostRegister. Sorted by base. */
struct fc_host_range {
	uint64_t base, bytes;
	uint32_t number;
	unsigned int flags;
	bool registered; /* false: allocated */
	char who[FC_WHO_BYTES];
};

/* use.c: of each stream, how many of its operations come before. Zeroed: none. */
struct fc_clock {
	struct fc_clock_entry {
		uint64_t stream, done; /* its serial */
	} * at;
	uint32_t count, room;
};
struct fc_use;

struct fc_ipc_open {
	struct fc_ipc_open *next;
	uint32_t device, number; /* of the allocation */
	uint64_t base;
	uint32_t count;
	struct fc_clock used; /* by kernels of this process: until when */
};

/* vmm.c: one process' reference to memory of cuMemCreate; it lasts until the program released it
 * and nothing is mapped through it. */
struct fc_vmm_handle {
	struct fc_vmm_handle *next;
	uint64_t value;          /* what the program has */
	uint32_t device, number; /* of the allocation */
	uint32_t refs, maps;     /* of the program; mappings */
	char who[FC_WHO_BYTES];
};

struct fc_vmm_map {
	struct fc_vmm_map *next; /* of the reservation, by address */
	uint64_t base, bytes, home;
	struct fc_vmm_handle *handle;
	bool access[FC_MAX_VISIBLE]; /* by visible ordinal */
	bool host_access;            /* host memory only */
	struct fc_clock used;        /* by kernels of this process: until when */
};

/* One cuMemAddressReserve. */
struct fc_vmm_space {
	struct fc_vmm_space *next;
	struct fc_proc *proc;
	uint64_t base, bytes;
	struct fc_vmm_map *maps;
	char who[FC_WHO_BYTES];
};

struct fc_proc {
	struct os_proc *os;
	struct fc_proc *next;
	int32_t count; /* visible devices */
	struct fc_device *device[FC_MAX_VISIBLE];
	struct fc_ctx *ctx[FC_MAX_VISIBLE]; /* by visible ordinal; NULL: not used yet */
	struct fc_host_range *host;
	uint32_t host_count, host_room, host_last;
	struct fc_ipc_open *open;
	struct fc_vmm_handle *handles;
	uint32_t handle_last;
	struct fc_dmabuf
		*dmabufs; /* descriptors that it was given and did not close, newest first */
	uint32_t nvml_inits;
	/* use.c */
	struct fc_clock known;          /* what the host has waited for */
	uint64_t known_changes, pruned; /* pruned: changes that `use` has seen */
	struct fc_use *use;             /* oldest first */
	uint32_t use_count, use_room;
	uint32_t collectives; /* of those; atomic, read by kernels */
	uint32_t strangers;   /* kernels that did not declare what they use, queued or running */
};

struct fc_ctx {
	struct fc_proc *proc;
	struct fc_device *dev;
	struct fc_ctx *next_on_device;
	int32_t ordinal; /* in the process */
	cudaError_t sticky;
	uint64_t peers;              /* bit per `dev` of the host: peer access enabled */
	struct CUstream_st *streams; /* the legacy stream first */
	uint32_t stream_last;
	uint64_t order_last; /* of operations in blocking streams */
	struct CUevent_st *events;
	struct fc_kernel *kernels; /* running */
};

/* ---- streams and events --------------------------------------------------------------------- */

enum fc_op_kind {
	FC_OP_KERNEL,
	FC_OP_COPY,
	FC_OP_SET,
	FC_OP_RECORD,
	FC_OP_WAIT,
	FC_OP_HOST_FUNC,
};

struct fc_copy {
	uint64_t dst, src, bytes;
	struct fc_device *dst_dev, *src_dev; /* NULL: host */
	void *staged; /* copy of pageable source memory; freed with the operation */
	int value;    /* FC_OP_SET */
};

struct fc_op {
	struct fc_op *next;
	enum fc_op_kind kind;
	bool running;
	uint64_t order;    /* place among the context's blocking streams */
	uint64_t ready_ns; /* not before */
	uint64_t started_ns;
	struct CUstream_st *stream;
	int32_t rank;
	union {
		struct fc_kernel *kernel;
		struct fc_copy copy;
		struct {
			struct CUevent_st *event;
			struct fc_mark *mark;
		} event;
		struct {
			cudaHostFn_t fn;
			void *arg;
		} host_func;
	};
};

#define FC_STREAM_MAGIC 0x5354524dfa4ec0daull
struct CUstream_st {
	uint64_t magic;
	struct fc_ctx *ctx;
	struct CUstream_st *next;
	uint32_t number; /* 0: the legacy stream */
	/* In this process, for ever: distinguishes a stream from its successor in memory. */
	uint64_t serial;
	unsigned int flags;
	int priority;
	/* cudaStreamPerThread's stream of one task, its id + 1; 0: the program made it, or
	 * legacy. */
	uint32_t task;
	uint32_t capturer;    /* id + 1 of the task that began to capture; 0: none did */
	bool capture_relaxed; /* any task may end it */
	bool destroyed;       /* by the program; freed when empty */
	bool step_posted;     /* a step is on its way */
	struct fc_op *head, **tail;
	uint64_t queued, done; /* operations ever */
	struct fc_clock clock; /* what comes before its next operation, other streams' */
	uint64_t known_seen;   /* fc_proc.known_changes that it has */
	uint64_t use_said;     /* the operation of that number is a collective's: os_use */
	struct sim_track track;
	char who[FC_WHO_BYTES];
};

/* One recording of an event. Waits hold the one that was the latest when they were made: a later
 * one may be reached first, in another stream. */
struct fc_mark {
	uint32_t refs; /* the event's latest; operations; host waits */
	bool reached;
	uint64_t time_ns;
	struct fc_clock clock;
};

#define FC_EVENT_MAGIC 0x45564e54fa4ec0daull
struct CUevent_st {
	uint64_t magic;
	struct fc_ctx *ctx;
	struct CUevent_st *next;
	uint32_t number;
	unsigned int flags;
	bool destroyed;
	uint32_t refs;          /* recordings that are queued */
	struct fc_mark *latest; /* NULL: never recorded */
	char who[FC_WHO_BYTES];
};

/* ---- kernels -----------------------------------------------------------------------------------
 */

struct fc_func {
	const struct dev_kernel *kernel;
	void (*entry)(struct dev *d, const void *args);
	int width;
	int max_dynamic_shared;
};

/* One launch. `dead` is a shared word: set once, polled by every warp. */
struct fc_kernel {
	struct fc_ctx *ctx;
	struct fc_kernel *next;         /* ctx->kernels */
	struct fc_kernel *next_placing; /* dev->placing */
	struct fc_op *op;
	struct fc_func *func;
	uint32_t number; /* per device */
	int32_t rank;
	int priority;
	uint32_t blocks, threads; /* of the grid; of a block */
	uint32_t placed, left;    /* blocks that have an SM; blocks not finished */
	uint32_t held;            /* by a fault: number + 1 of a block that starts last; 0: none */
	size_t shared_bytes;
	struct fakecuda_block *block; /* running ones */
	shared_u32 dead;
	void *args;
	bool known_uses; /* atomic: it declared what it uses, or that was found out: use.c */
	bool stranger;   /* it did not declare it */
	uint64_t number_in_stream; /* it is the stream's operation of that number, from 1 */
	/* trace.c: the collectives of block 0 so far; of the last one */
	uint32_t shown_works;
	bool shown_of_pair; /* messages are among them */
	uint64_t shown_bytes;
	const char *shown_name, *shown_algorithm, *shown_protocol;
	struct fc_clock before;
};

/* ---- fakecuda.c: world and entry ----------------------------------------------------------------
 */

struct fc_state {
	bool ready;
	struct fc_device *device; /* all GPUs, then all hosts */
	uint32_t device_count;    /* GPUs */
	uint32_t memory_count;    /* and hosts */
	uint64_t slice, host_slice;
	int32_t width;
	struct fc_proc *procs;
	uint64_t map_generation; /* atomic: any change of what a GPU may access */
	uint64_t stream_serial;
	struct fc_leaks {
		uint64_t allocations, host, streams, events, ipc, dmabufs, vmm;
		char first[7][96];
	} leaks;
};
extern struct fc_state fc;

void fc_lock(void);
void fc_unlock(void);
/* Scheduling point, charge, the caller's process. Fails without a world or a GPU, or by the fault
 * plan. */
cudaError_t fc_enter(const char *call, struct fc_proc **proc);
/* The same for a call that no fault plan fails, because it cannot fail or has been looked at. */
cudaError_t fc_enter_quiet(const char *call, struct fc_proc **proc);
/* As fc_enter, and the current device's context; returns its sticky error, with *ctx set. */
cudaError_t fc_enter_ctx(const char *call, struct fc_ctx **ctx);
cudaError_t fc_enter_ctx_quiet(const char *call, struct fc_ctx **ctx);
/* Remembers the error for cudaGetLastError, lets devices step; returns `error`. */
cudaError_t fc_leave(cudaError_t error);
struct fc_ctx *fc_ctx_get(struct fc_proc *proc, int32_t ordinal); /* made when missing */
struct fc_ctx *fc_ctx_of_device(struct fc_proc *proc, const struct fc_device *dev);
bool fc_device_peers(const struct fc_device *a,
		     const struct fc_device *b); /* device.c: can they be? */
int32_t fc_current(void);
void fc_ctx_reset(struct fc_ctx *ctx); /* frees what the process has on that GPU */
/* Logs on stderr what was refused and why, with the task that called. */
void fc_report(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The same for what CUDA leaves undefined, whatever the call returns: fails the run
 * (sim_misuse). */
void fc_misuse(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* ... and what programs mostly do because something else failed before (sim_misuse_of). */
void fc_misuse_in_turn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void fc_who(char who[FC_WHO_BYTES]);
_Noreturn void fc_unimplemented(const char *name);
void fc_map_changed(void);
uint64_t fc_map_generation(void);

/* ---- errors.c ------------------------------------------------------------------------------- */

void fc_task_set_device(int32_t device);
/* The mode of the calling thread's captures; returns the one before. */
enum cudaStreamCaptureMode fc_task_exchange_mode(enum cudaStreamCaptureMode mode);
int32_t fc_task_device(void);
void fc_task_set_error(cudaError_t error);
cudaError_t fc_task_error(void);

/* ---- va.c: where device memory is ----------------------------------------------------------- */

#define FC_VA_CHUNK (64ull << 20) /* a GPU's addresses are whole ones */
/* Bytes of addresses for each of that many GPUs, when the world does not set it. */
/* Addresses for each GPU: as much as it has memory, or its share of all there are. */
uint64_t fc_va_slice(uint32_t gpus, uint64_t memory_bytes);
bool fc_va_start(uint64_t bytes, bool strict); /* false: explained */
bool fc_va_map(uint64_t address, uint64_t bytes);
void fc_va_wipe(uint64_t address, uint64_t bytes); /* back to zeros */
/* Stores zeros, for cudaMemset: a page that nothing wrote has them. Not a write that needs
 * fc_va_wrote. */
void fc_va_zero(uint64_t address, uint64_t bytes);
/* A mapping of cuMem in both views: of whole pages, there until it is undone. The program's view of
 * host memory is closed at first. */
bool fc_va_window(uint64_t at, uint64_t home, uint64_t bytes);
void fc_va_open(uint64_t at, uint64_t bytes, bool open);
void fc_va_unwindow(uint64_t at, uint64_t bytes);
bool fc_va_is_device(uint64_t address);
uint64_t fc_va_base(void);
uint64_t fc_va_limit(void);
const void *fc_va_resolve(const void *address);
const void *fc_va_home(const void *address);

/* ---- alloc.c -------------------------------------------------------------------------------- */

struct fc_device *fc_device_at(uint64_t address); /* NULL: not device memory */
/* The GPU, or the host that has the memory of cuMem there; NULL: neither. */
struct fc_device *fc_memory_at(uint64_t address);
/* "gpu" 3, "host" 0 */
static inline const char *fc_memory_kind(const struct fc_device *dev)
{
	return dev->gpu ? "gpu" : "host";
}
static inline uint32_t fc_memory_number(const struct fc_device *dev)
{
	return dev->gpu ? dev->index : dev->host;
}
cudaError_t fc_alloc_new(struct fc_ctx *ctx, uint64_t bytes, uint64_t *address);
/* The live or zombie allocation that holds the address; NULL: none. */
struct fc_alloc *fc_alloc_find(struct fc_device *dev, uint64_t address);
struct fc_alloc *fc_alloc_by_number(struct fc_device *dev, uint32_t number);
void fc_alloc_free(struct fc_device *dev, struct fc_alloc *a);
void fc_alloc_release(struct fc_device *dev, struct fc_alloc *a); /* one opening less */
/* "64 bytes past the end of gpu 3 #12, 4194304 bytes from cudaMalloc by rank3 main (live)". */
void fc_alloc_describe_nearest(uint64_t address, char *out, size_t bytes);
void fc_alloc_describe(const struct fc_device *dev, const struct fc_alloc *a, char *out,
		       size_t bytes);

/* Memory for cuMemCreate, of a GPU or a host: whole pages of cuMem. */
cudaError_t fc_alloc_new_vmm(const struct fc_proc *proc, struct fc_device *dev, uint64_t bytes,
			     struct fc_alloc **a);

/* ---- vmm_space.c, vmm.c: memory of cuMem
 * ------------------------------------------------------ */

/* False: no room. *base: where the program wants it, if it can be; 0: anywhere. */
bool fc_vmm_reserve(struct fc_proc *proc, uint64_t bytes, uint64_t align, uint64_t *base);
struct fc_vmm_space *fc_vmm_space_at(uint64_t address);           /* of any process */
struct fc_vmm_space *fc_vmm_space_of(const struct fc_proc *proc); /* its first */
void fc_vmm_space_free(struct fc_vmm_space *space);
bool fc_vmm_map_add(struct fc_vmm_space *space, uint64_t base, uint64_t bytes, uint64_t home,
		    struct fc_vmm_handle *h);
void fc_vmm_map_remove(struct fc_vmm_space *space, struct fc_vmm_map *m);
struct fc_vmm_map *fc_vmm_map_at(const struct fc_proc *proc, uint64_t address);
/* Is all of it mapped, from this mapping on, with access for that device? Or the host, or whatever
 * the access is. */
enum { FC_VMM_MAPPED = -1, FC_VMM_BY_HOST = -2 };
bool fc_vmm_map_covers(const struct fc_vmm_map *m, uint64_t address, uint64_t bytes, int ordinal);
struct fc_alloc *fc_vmm_alloc(const struct fc_vmm_handle *h);
/* The allocation that the process has mapped there; NULL: not all of it is mapped. */
struct fc_alloc *fc_vmm_access(const struct fc_proc *proc, uint64_t address, uint64_t bytes);
/* Is it memory of the host? */
bool fc_vmm_is_host(const struct fc_proc *proc, uint64_t address, uint64_t bytes);
struct fc_range;
bool fc_vmm_may_kernel(const struct fc_ctx *ctx, uint64_t address, uint64_t bytes,
		       struct fc_range *range);
bool fc_vmm_may_copy(const struct fc_proc *proc, uint64_t address, uint64_t bytes);
void fc_vmm_describe(uint64_t address, char *out, size_t n);
/* Why kernels of that device, or copies (FC_VMM_MAPPED), may not use it. */
void fc_vmm_explain(const struct fc_proc *proc, int ordinal, uint64_t address, uint64_t bytes,
		    char *out, size_t n);
void fc_vmm_proc_gone(struct fc_proc *proc); /* drops all that it has */
void fc_vmm_sweep(void); /* frees memory that only descriptors kept, which are closed now */

/* ---- access.c: which process may touch
 * what------------------------------------------------------ */

enum fc_range_kind { FC_RANGE_LOCAL, FC_RANGE_PEER, FC_RANGE_HOST };
struct fc_range {
	uint64_t lo, hi;
	uint64_t generation;
	enum fc_range_kind kind;
};
/* May kernels of this context touch [address, address + bytes)? Under fc_lock. */
bool fc_access_kernel(struct fc_ctx *ctx, uint64_t address, uint64_t bytes, struct fc_range *range);
/* Why not, for people. */
void fc_access_explain(struct fc_ctx *ctx, uint64_t address, uint64_t bytes, char *out,
		       size_t out_bytes);
/* May this process copy to or from it? *dev: the GPU, or NULL for host memory. Explains. */
cudaError_t fc_access_copy(struct fc_proc *proc, const char *call, const char *which,
			   uint64_t address, uint64_t bytes, struct fc_device **dev);
/* The allocation, if the process may use it: owner, or opened. NULL otherwise. */
struct fc_alloc *fc_access_alloc(struct fc_proc *proc, struct fc_device *dev, uint64_t address,
				 uint64_t bytes);
struct fc_host_range *fc_host_find(struct fc_proc *proc, uint64_t address, uint64_t bytes);
/* Host memory that GPUs use as it is: pinned, or of cuMem. */
bool fc_host_is_pinned(struct fc_proc *proc, uint64_t address, uint64_t bytes);
bool fc_host_add(struct fc_proc *proc, uint64_t base, uint64_t bytes, unsigned int flags,
		 bool registered);
void fc_host_remove(struct fc_proc *proc, struct fc_host_range *range);
void fc_host_delete(void *mem, uint64_t bytes); /* what cudaHostAlloc made; bytes as requested */
/* A segment of the process goes: misuse where the process has it registered still. */
void fc_host_unmapped(struct os_proc *os, const void *mem, size_t bytes);

/* ---- stream.c, event.c, copy.c, launch.c, device_run.c -------------------------------------- */

struct CUstream_st *fc_stream_new(struct fc_ctx *ctx, unsigned int flags, int priority);
/* Handle to stream; of `ctx`: the legacy one for 0, the calling task's own for cudaStreamPerThread.
 * NULL: invalid (explained). */
struct CUstream_st *fc_stream_get(struct fc_ctx *ctx, cudaStream_t handle, const char *call);
/* The same for a call that a capturing stream allows; fc_stream_get aborts there, by name. */
struct CUstream_st *fc_stream_find(struct fc_ctx *ctx, cudaStream_t handle, const char *call);
/* Would the legacy stream's next operation wait for a stream that captures? */
bool fc_capture_blocks_legacy(const struct fc_ctx *ctx);
struct fc_op *fc_op_new(enum fc_op_kind kind, uint64_t latency_ns);
void fc_stream_queue(struct CUstream_st *s, struct fc_op *op);
void fc_stream_op_done(struct CUstream_st *s); /* its first operation ended */
void fc_stream_kick(struct CUstream_st *s, uint64_t delay_ns);
void fc_stream_drop(struct CUstream_st *s);
/* In `threads`, an event of a stream may be under way on another thread when the stream goes. */
bool fc_stream_alive(const struct CUstream_st *s, uint64_t serial);
/* WAIT until `done` operations have ended, or the context died. */
cudaError_t fc_stream_wait(struct CUstream_st *s, uint64_t done, const char *call);
cudaError_t fc_ctx_wait(struct fc_ctx *ctx, const char *call);
/* DOPPEL_CUDA_WAITS of the calling process: does each call that may wait so wait? */
bool fc_waits_always(void);
/* DOPPEL_GPU_RDMA of the calling process: can HCAs register memory in this way, "dmabuf" or
 * "peermem"? */
bool fc_rdma_has(const char *way);
/* The same, and no kernel looks at host memory from now on, though the context be dead. */
cudaError_t fc_ctx_wait_gone(struct fc_ctx *ctx, const char *call);
void fc_ctx_kill(struct fc_ctx *ctx, cudaError_t error);
void fc_op_free(struct fc_op *op);

bool fc_event_reached(const struct fc_op *op);
void fc_event_record_done(struct fc_op *op);
void fc_event_op_free(struct fc_op *op); /* its references */
void fc_event_drop(struct CUevent_st *e);

void fc_copy_start(struct fc_op *op);
cudaError_t fc_copy_wait_free(struct fc_ctx *ctx, const char *call);

struct fc_func *fc_func_find(const void *func);
/* Zeros for what device code shares, which are new: accesses to a freed buffer of the program that
 * was there do not count. */
void *fc_device_alloc(size_t bytes);
void fc_kernel_start(struct fc_op *op);
void fc_kernel_free(struct fc_kernel *k);
void fc_kernel_drop(struct fc_kernel *k); /* its tasks are gone */
void fc_kernel_block_done(struct fc_kernel *k);
void fc_device_place(struct fc_device *dev);
void fc_block_start(struct fc_kernel *k, uint32_t number);
void fc_blocks_drop(struct fc_kernel *k);
void fc_host_func_start(struct fc_op *op);

/* use.c. After an operation was queued; when a stream waits for a mark that is reached; when the
 * host has waited for so many operations of a stream, for a mark. */
void fc_use_queued(struct CUstream_st *s, struct fc_op *op);
void fc_use_waits(struct CUstream_st *s, const struct fc_mark *mark);
void fc_use_host_knows(struct CUstream_st *s, uint64_t done);
void fc_use_host_knows_mark(struct fc_proc *p, const struct fc_mark *mark);
/* The stream's last operation uses that memory; the program frees it; it is free now. */
void fc_use_range(struct CUstream_st *s, uint64_t address, uint64_t bytes, bool write,
		  const void *caller, const char *call);
void fc_use_free(struct fc_proc *p, uint64_t address, uint64_t bytes, const void *caller,
		 const char *call);
void fc_use_freed(struct fc_proc *p, uint64_t address, uint64_t bytes);
/* A kernel touches memory, which may be another process' that this one has opened. */
void fc_use_mapped(struct fc_kernel *k, const struct fc_range *range);
struct fc_use_mapping {
	const char *call;
	const struct fc_device *memory;
	uint32_t number; /* of its allocation */
	const struct fc_clock *used;
};
/* The process closes it: its kernels that have touched it must be known to be over. */
void fc_use_unmap(struct fc_proc *p, const struct fc_use_mapping *mapping, const void *caller);
void fc_use_kernel_queued(struct fc_kernel *k);
void fc_use_kernel_gone(struct fc_kernel *k);
void fc_use_kernel(struct fc_kernel *k, uint64_t address, uint64_t bytes, bool write); /* locks */
void fc_use_stream_gone(struct CUstream_st *s);
void fc_use_proc_gone(struct fc_proc *p);
void fc_clock_free(struct fc_clock *c);

/* trace.c. Only if os_tracing(). */
void fc_trace_kernel_begins(struct fc_kernel *k);
void fc_trace_kernel_ends(struct fc_kernel *k);
void fc_trace_copy(struct CUstream_st *s, const struct fc_op *op); /* it ends */
void fc_trace_work_begins(struct fc_kernel *k, const char *name, const struct dev_work *w);
void fc_trace_work_ends(struct fc_kernel *k, const char *name);
void fc_trace_slot(struct fc_kernel *k, const struct dev_comm *comm, const struct dev_conn *c,
		   uint64_t step, bool sent);

/* fault.c. The error with which the fault plan ends this call, or 0; ctx may be NULL. */
int fc_fault_call(const char *call, struct fc_ctx *ctx);
void fc_fault_slow(const char *site, const void *object, uint64_t *delay_ns);
enum fc_block_fault { FC_BLOCK_NOW, FC_BLOCK_LATER, FC_BLOCK_LAST };
enum fc_block_fault fc_fault_block(const struct fc_kernel *k, uint32_t number, uint64_t *delay_ns);

struct peermem_region;
/* dmabuf.c, for backends/peermem.h. */
int fc_dmabuf_pin(struct os_proc *proc, int fd, uint64_t offset, uint64_t bytes,
		  struct peermem_region *r);
/* A descriptor of memory of cuMem; the memory of one. */
CUresult fc_dmabuf_export(struct fc_proc *proc, struct fc_device *dev, struct fc_alloc *a, int *fd);
CUresult fc_dmabuf_import(struct fc_proc *proc, int fd, struct fc_device **dev,
			  struct fc_alloc **a);
/* Has any process an open descriptor of that memory? */
bool fc_dmabuf_holds(uint32_t device, uint32_t number);
/* Takes out and closes the newest of the process' descriptors that is open. False: there is
 * none. */
bool fc_dmabuf_take(struct fc_proc *proc, char *who, size_t bytes);
void fc_dmabufs_end(void);                                 /* the world's */
void fc_peermem_apply(struct fc_device *dev, int64_t hca); /* -1: of every HCA */
void fc_peermem_drop(struct fc_device *dev);

void fc_proc_gone(struct os_proc *os, bool killed);
void fc_ipc_drop(struct fc_proc *proc, struct fc_ipc_open *open);

/* ---- small things --------------------------------------------------------------------------- */

/* Constants of the address space; see va.c. */
#ifdef __SANITIZE_THREAD__
#define FC_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FC_TSAN 1
#endif
#endif
#ifdef FC_TSAN
#define FC_VA_BASE   0x7e9000000000ull
#define FC_VA_LIMIT  0x3000000000ull
#define FC_VMM_LIMIT 0x200000000ull
#else
#define FC_VA_BASE   0x200000000000ull
#define FC_VA_LIMIT  0x100000000000ull
#define FC_VMM_LIMIT 0x8000000000ull
#endif
/* The last addresses are the homes of the hosts' memory, all of them together, and before them
 * those for cuMemAddressReserve, in pages of cuMem; GPUs have the others. */
#define FC_VMM_PAGE   (2ull << 20)
#define FC_HOST_LIMIT FC_VMM_LIMIT
#define FC_HOST_BASE  (FC_VA_BASE + FC_VA_LIMIT - FC_HOST_LIMIT)
#define FC_VMM_BASE   (FC_HOST_BASE - FC_VMM_LIMIT)
#define FC_VA_DEVICES (FC_VA_LIMIT - FC_VMM_LIMIT - FC_HOST_LIMIT)

static inline bool fc_vmm_has(uint64_t address)
{
	return address - FC_VMM_BASE < FC_VMM_LIMIT;
}
/* Where memory that is mapped there is, see vmm_space.c; another address is its own. */
uint64_t fc_vmm_home(uint64_t address);
static inline uint64_t fc_home(uint64_t address)
{
	return UNLIKELY(fc_vmm_has(address)) ? fc_vmm_home(address) : address;
}
/* How many of the bytes are in one piece, from *home on. */
uint64_t fc_vmm_piece_of(uint64_t address, uint64_t bytes, uint64_t *home);
static inline uint64_t fc_vmm_piece(uint64_t address, uint64_t bytes, uint64_t *home)
{
	*home = address;
	return UNLIKELY(fc_vmm_has(address)) ? fc_vmm_piece_of(address, bytes, home) : bytes;
}

/* A writer of device memory reports it: the end of the world wipes what was written. */
void fc_va_mark(uint64_t address, uint64_t bytes);
static inline void fc_va_wrote(uint64_t address, uint64_t bytes)
{
	if (bytes && address - FC_VA_BASE < FC_VA_LIMIT)
		fc_va_mark(address, bytes);
}
/* Wakes all that wait for a word there. */
void fc_vmm_wrote(uint64_t address, uint64_t bytes);
static inline void fc_wrote(const void *p, size_t bytes)
{
	if (UNLIKELY(fc_vmm_has((uintptr_t)p)))
		fc_vmm_wrote((uintptr_t)p, bytes);
	else
		sim_wrote(p, bytes);
}

static inline void *fc_alias(uint64_t address)
{
	address = fc_home(address);
	return (void *)(uintptr_t)(address - FC_VA_BASE < FC_VA_LIMIT ? address + FC_VA_LIMIT
								      : address);
}

/* All of the bytes: those that lie in several pieces have a view of their own (fc_va_window). */
static inline void *fc_alias_range(uint64_t address, uint64_t bytes)
{
	uint64_t home;

	if (UNLIKELY(fc_vmm_has(address)) && fc_vmm_piece(address, bytes, &home) < bytes)
		return (void *)(uintptr_t)(address + FC_VA_LIMIT);
	return fc_alias(address);
}

#endif
