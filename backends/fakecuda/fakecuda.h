/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Internal state of fakecuda, the GPU double. Only sources of this folder include it. Others
 * include CUDA's headers (include/), core/device/shim/shim_fake.h and backends/peermem.h.
 *
 *    fc (one per process) the world's GPUs; created at the first call in a world, freed with it
 *    fc_device            one GPU: address range, allocations, SMs, copy engines
 *    fc_proc              one process' view: visible devices, pinned host memory, open IPC handles
 *    fc_ctx               a process on a GPU: streams, events, kernels, sticky error, peers
 *
 * Locking. One lock, fc_lock, protects everything below except where noted. It is a spin lock,
 * because it is taken in event context, where nothing may wait. It is held for a few hundred
 * instructions, without waits, task switches or copies of payload. Under `sim` it is never
 * contended. The engine's own locks (spawn, post, wake) rank below it. The engine calls back
 * without holding its locks, except for the resolver, which only computes an address.
 *
 * An entry point calls fc_enter (scheduling point, charge), acts under fc_lock, waits if the call
 * waits, and ends by fc_driver_leave or fc_leave (call.h). Units: bytes, ns. Errors: cudaError_t.
 */
#ifndef BACKENDS_FAKECUDA_FAKECUDA_H
#define BACKENDS_FAKECUDA_FAKECUDA_H

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "backends/fakecuda/shadow.h"
#include "backends/fakecuda/stream/memop.h"
#include "backends/peermem.h"
#include "core/device/shim/shim_fake.h"
#include "core/os/os.h"
#include "sim/engine/memory/memory.h"
#include "sim/engine/sim.h"
#include "sim/world/world.h"

#define FC_MAX_VISIBLE 64                    /* GPUs of one host */
#define FC_MAX_SLOTS   (FC_MAX_VISIBLE + 64) /* contexts of a process */
#define FC_ALIGN       512u
#define FC_FREED_KEPT  64
#define FC_WHO_BYTES   32
#define FC_LIMITS      10 /* of CUlimit */

/* Costs in ns: orders of magnitude of a current server. */
#define FC_CALL_NS        1000    /* an API call */
#define FC_LAUNCH_NS      5000    /* from cudaLaunchKernel to the first instruction */
#define FC_COPY_NS        2000    /* from cudaMemcpyAsync to the first byte */
#define FC_STREAM_NS      500     /* an event or a callback at the head of its stream */
#define FC_KERNEL_DONE_NS 1000    /* from the last instruction to the stream's next operation */
#define FC_LOCAL_MBPS     1500000 /* device memory, one direction */

/* ---- device memory -------------------------------------------------------------------------- */

/* An allocation of cudaMalloc or cuMemCreate. It is in the world arena, in an array sorted by base,
 * and has no pointers. */
struct fc_alloc {
	uint64_t base, bytes; /* bytes as requested; the span is rounded up to FC_ALIGN */
	uint64_t when_ns;
	uint32_t number; /* from 1 per device, never reused: the generation */
	uint32_t proc;   /* id of the owner */
	uint32_t pins;   /* number of MRs that pin it */
	uint32_t opens;  /* number of IPC openings by other processes */
	/* freed by its owner; kept while others have it open, and in fc_device.freed */
	uint8_t freed;
	/* cuMemCreate: accessed through mappings only, freed with the last handle. */
	uint8_t vmm, rdma;      /* rdma: HCAs may register it */
	uint8_t slot;           /* of the context that allocated it; no meaning if vmm or pooled */
	uint8_t pooled;         /* stream-ordered: a struct fc_block has the rest */
	uint8_t imported;       /* of another real process (ipc_share.c) */
	uint32_t exports;       /* descriptors exported and not known to be closed */
	uint32_t entry;         /* 1 + its entry in struct fc_exports; 0: none */
	uint32_t handle_types;  /* permitted exports: CUmemAllocationHandleType */
	uint32_t handles;       /* handles of all processes */
	int32_t numa;           /* NUMA node of host memory; -1 for a GPU's */
	char who[FC_WHO_BYTES]; /* task that allocated it */
};

/* A write of an HCA that a running kernel does not see yet: cuda_peermem.c. */
struct fc_pending {
	struct fc_pending *next;
	uint32_t hca;
	uint64_t address, bytes;
	uint8_t data[];
};

/* A GPU, or a host as the owner of cuMemCreate memory. A host uses only the fields of
 * allocations. */
struct fc_device {
	uint32_t index; /* in the world */
	uint32_t host;
	int32_t dev;                      /* number on its host */
	const struct world_gpu *gpu;      /* NULL: a host */
	uint64_t base, bytes;             /* address range */
	uint64_t high_water;              /* length from base of all addresses ever allocated */
	uint64_t total_bytes, used_bytes; /* values of cudaMemGetInfo */
	struct fc_alloc *alloc;           /* in the arena, sorted by base */
	uint32_t alloc_count, alloc_room, alloc_last;
	/* ring of the latest freed allocations, for reports */
	struct fc_alloc freed[FC_FREED_KEPT];
	uint32_t freed_count;
	int32_t sms, sms_free;
	uint32_t kernel_last;
	struct fc_kernel *placing; /* kernels with blocks that wait for an SM, in launch order */
	struct fc_ctx *ctx;        /* list by next_on_device */
	struct sim_resource h2d, d2h, link, local;
	struct fc_pending *pending, **pending_end;
	uint64_t unordered; /* bit number % 64 of each HCA whose read has failed: writes land */
};

/* ---- processes and contexts ----------------------------------------------------------------- */

/* Pinned host memory of cudaHostAlloc or cudaHostRegister. Sorted by base. */
struct fc_host_range {
	uint64_t base, bytes;
	uint32_t number;
	unsigned int flags;
	int32_t device;  /* current when it was pinned */
	int32_t slot;    /* of the context that was current then */
	bool registered; /* false: allocated */
	bool managed;    /* by cuMemAllocManaged */
	char who[FC_WHO_BYTES];
};

/* use.c: per stream, the number of its operations that precede the owner of the clock.
 * Zero-initialised: no operations. */
struct fc_clock {
	struct fc_clock_entry {
		uint64_t stream, done; /* stream: its serial */
	} * at;
	uint32_t count, room;
};
struct fc_use;

struct fc_ipc_open {
	struct fc_ipc_open *next;
	uint32_t device, number; /* identify the allocation */
	uint64_t base;
	uint32_t count;
	struct fc_clock used; /* operations whose kernels, of this process, accessed it */
};

/* A context as the driver counts it; a CUcontext is its address. `active`: it exists. Its state is
 * in struct fc_ctx. A process has slots for them: the primary context of each visible device, then
 * those of cuCtxCreate. */
struct fc_primary {
	uint32_t retains; /* of a primary context, by the program */
	bool runtime;     /* retained by the runtime, at its first call on the device */
	bool active;
	int32_t device; /* visible ordinal */
	unsigned int flags;
};

/* A context that a task pushed: context_stack.c. */
struct fc_pushed;

struct fc_proc {
	struct os_proc *os;
	struct fc_proc *next;
	bool initialized; /* by cuInit, or by a call of the runtime; atomic */
	int32_t count;    /* number of visible devices */
	int32_t slots;    /* number in use; the first `count` are of primary contexts */
	struct fc_primary primary[FC_MAX_SLOTS];
	struct fc_pushed *pushed; /* of all tasks, newest first */
	struct fc_device *device[FC_MAX_VISIBLE];
	struct fc_ctx *ctx[FC_MAX_SLOTS]; /* NULL: not used yet */
	struct fc_host_range *host;
	uint32_t host_count, host_room, host_last;
	struct fc_ipc_open *open;
	struct fc_vmm_handle *handles;
	uint32_t handle_last;
	uint32_t spaces;           /* reservations of cuMem */
	struct fc_dmabuf *dmabufs; /* descriptors exported to it and not closed, newest first */
	uint32_t nvml_inits;
	/* use.c */
	struct fc_clock known; /* operations for which the host has waited */
	/* pruned: value of known_changes at the last prune of `use` */
	uint64_t known_changes, pruned;
	struct fc_use *use; /* oldest first */
	uint32_t use_count, use_room;
	uint32_t collectives; /* number of collectives' uses among them; atomic, read by kernels */
	/* kernels, queued or running, that did not declare the memory they use */
	uint32_t strangers;
	struct fc_graphs *graphs; /* graph/graph.h; NULL: it never used one */
	struct fc_pools *pools;   /* pool/pool.h; NULL: the same */
};

struct fc_ctx {
	struct fc_proc *proc;
	struct fc_device *dev;
	struct fc_ctx *next_on_device;
	int32_t ordinal; /* visible ordinal of the device */
	int32_t slot;    /* of the context */
	cudaError_t sticky;
	uint64_t peers;              /* bit per `dev` of the host: peer access enabled */
	size_t limit[FC_LIMITS];     /* values of cuCtxSetLimit; 0: the default */
	struct CUstream_st *streams; /* the legacy stream first */
	uint32_t stream_last;
	uint64_t order_last; /* last `order` of an operation in a blocking stream */
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
	FC_OP_MEMOP,
	FC_OP_BLOCK,
};

struct fc_copy {
	uint64_t dst, src, bytes;
	struct fc_device *dst_dev, *src_dev; /* NULL: host */
	void *staged;  /* copy of pageable source memory; freed with the operation */
	int value;     /* FC_OP_SET: the byte, or the unit */
	uint32_t unit; /* FC_OP_SET: bytes of a unit; 0: 1 */
};

/* Nodes of a graph, in the order in which they were added. */
struct fc_nodes {
	struct CUgraphNode_st **at;
	uint32_t count, room;
};

struct fc_op {
	struct fc_op *next;
	struct CUgraphExec_st *exec; /* a launch of this graph ends with it; NULL: none does */
	enum fc_op_kind kind;
	bool running;
	uint64_t order;    /* sequence number among the context's blocking streams */
	uint64_t ready_ns; /* earliest start */
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
		struct fc_memop memop;
		struct {
			uint64_t base;   /* of memory of a pool */
			uint32_t number; /* of its allocation */
			bool frees;      /* false: the memory is usable from here on */
		} block;
	};
};

#define FC_STREAM_MAGIC 0x5354524dfa4ec0daull
struct CUstream_st {
	uint64_t magic;
	struct fc_ctx *ctx;
	struct CUstream_st *next;
	uint32_t number; /* 0: the legacy stream */
	/* Never reused in this process: distinguishes a stream from a later one at the same
	 * address. */
	uint64_t serial;
	unsigned int flags;
	int priority;
	/* Id + 1 of the task whose cudaStreamPerThread this is; 0: created by the program, or
	 * legacy. */
	uint32_t task;
	struct CUgraphExec_st *exec; /* a branch of its launches runs here; NULL: not internal */
	struct fc_capture *capture;  /* NULL: it does not capture */
	struct fc_nodes tips;        /* dependencies of the next node of the capture */
	struct fc_node_uses *uses;   /* what the next node uses; NULL: not declared */
	bool destroyed;              /* destroyed by the program; freed when empty */
	bool step_posted;            /* an event for stream_step is posted */
	struct fc_op *head, **tail;
	uint64_t queued, done; /* numbers of operations since its creation */
	struct fc_clock clock; /* operations of other streams that precede its next one */
	uint64_t known_seen;   /* fc_proc.known_changes that `clock` includes */
	uint64_t use_said;     /* number of the last operation whose uses os_use declared */
	struct sim_track track;
	char who[FC_WHO_BYTES];
};

/* One recording of an event. A wait refers to the mark that was the event's latest when the wait
 * was made. A later mark may be reached earlier, in another stream. */
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
	uint32_t refs;          /* queued recordings, nodes of graphs */
	struct fc_mark *latest; /* NULL: never recorded */
	uint64_t captured;      /* id of the capture that recorded it last; 0: a stream did */
	struct fc_nodes tips;   /* the nodes that a wait within that capture depends on */
	char who[FC_WHO_BYTES];
};

/* ---- kernels -------------------------------------------------------------------------------- */

/* One launch. `dead` is a shared word that is set once and that every warp polls. */
struct fc_kernel {
	struct fc_ctx *ctx;
	struct fc_kernel *next;         /* in ctx->kernels */
	struct fc_kernel *next_placing; /* in dev->placing */
	struct fc_op *op;
	struct fc_func *func;
	uint32_t number; /* per device */
	int32_t rank;
	int priority;
	uint32_t blocks, threads; /* blocks per grid; threads per block */
	dim3 grid, block_dim;
	const uint64_t *globals; /* of a unit's variables; NULL: none */
	uint32_t placed, left;   /* blocks that have an SM; unfinished blocks */
	/* number + 1 of the block that a fault starts last; 0: no such block */
	uint32_t held;
	size_t shared_bytes;
	struct fakecuda_block *block; /* running blocks */
	shared_u32 dead;
	void *args;
	bool known_uses;           /* atomic: its uses were declared, or a report was made: use.c */
	bool stranger;             /* its uses were not declared */
	uint64_t number_in_stream; /* its number among the stream's operations, from 1 */
	/* cuda_trace.c: number of collectives that block 0 began; values of the last one */
	uint32_t shown_works;
	bool shown_of_pair; /* send/receive messages are among them */
	uint64_t shown_bytes;
	const char *shown_name, *shown_algorithm, *shown_protocol;
	struct fc_clock before;
};

/* ---- fakecuda.c: world and entry ------------------------------------------------------------ */

struct fc_state {
	bool ready;
	struct fc_device *device; /* all GPUs, then all hosts */
	uint32_t device_count;    /* number of GPUs */
	uint32_t memory_count;    /* number of GPUs and hosts */
	uint64_t slice, host_slice;
	uint64_t share; /* addresses of the GPUs of one real process; 0: no other one has some */
	uint64_t host_share; /* addresses of host memory of one real process */
	int32_t width;
	struct fc_proc *procs;
	uint64_t map_generation; /* atomic: incremented when the set of accessible memory changes */
	uint64_t stream_serial;  /* of the newest stream; goes on from run to run */
	uint64_t stream_serial_first; /* before this run: ids of streams count from there */
	uint64_t graph_serial;        /* of the newest capture or node */
	bool vmm_orphans; /* memory of cuMem without a handle may exist: a descriptor has it */
	struct fc_leaks {
		uint64_t allocations, host, streams, events, ipc, dmabufs, vmm, graphs, pools;
		char first[9][96];
	} leaks;
};
extern struct fc_state fc;

void fc_lock(void);
void fc_unlock(void);
/* Makes a scheduling point, charges FC_CALL_NS, and stores the caller's process. Fails without a
 * world or a GPU, or if the fault plan requires it. */
cudaError_t fc_enter(const char *call, struct fc_proc **proc);
/* Like fc_enter, but ignores the fault plan: for calls that cannot fail or that query the plan
 * themselves. */
cudaError_t fc_enter_quiet(const char *call, struct fc_proc **proc);
/* Like fc_enter, and stores the current device's context. Returns its sticky error, with *ctx
 * set. */
cudaError_t fc_enter_ctx(const char *call, struct fc_ctx **ctx);
cudaError_t fc_enter_ctx_quiet(const char *call, struct fc_ctx **ctx);
/* Stores the error for cudaGetLastError and lets devices step. Returns `error`. */
cudaError_t fc_leave(cudaError_t error);
/* Logs on stderr why a call was refused, with the calling task. */
void fc_report(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Like fc_report, for use that CUDA leaves undefined. Fails the run, whatever the call returns
 * (sim_misuse). */
void fc_misuse(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Like fc_misuse, for misuse that usually follows an earlier failure (sim_misuse_of). */
void fc_misuse_in_turn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void fc_who(char who[FC_WHO_BYTES]);
_Noreturn void fc_unimplemented(const char *name);

/* ---- fakecuda_end.c: frees what is left when the world ends; counts it as leaks -------------- */

void fc_world_end(void);

/* ---- address constants and helpers ---------------------------------------------------------- */

/* Constants of the address space: see va.c. */
#ifdef __SANITIZE_THREAD__
#define FC_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FC_TSAN 1
#endif
#endif
#ifdef FC_TSAN
#define FC_VA_BASE    0x7e9000000000ull
#define FC_VA_LIMIT   0x3000000000ull
#define FC_VMM_LIMIT  0x200000000ull
#define FC_HOST_LIMIT 0x200000000ull
#else
#define FC_VA_BASE    0x200000000000ull
#define FC_VA_LIMIT   0x180000000000ull
#define FC_VMM_LIMIT  0x80000000000ull
#define FC_HOST_LIMIT 0x8000000000ull
#endif
/* The hosts' memory has the last addresses. cuMemAddressReserve has the addresses before them, in
 * pages of cuMem. GPUs have the rest. */
#define FC_VMM_PAGE   (2ull << 20)
#define FC_HOST_BASE  (FC_VA_BASE + FC_VA_LIMIT - FC_HOST_LIMIT)
#define FC_VMM_BASE   (FC_HOST_BASE - FC_VMM_LIMIT)
#define FC_VA_DEVICES (FC_VA_LIMIT - FC_VMM_LIMIT - FC_HOST_LIMIT)

static inline bool fc_vmm_has(uint64_t address)
{
	return address - FC_VMM_BASE < FC_VMM_LIMIT;
}
/* Returns the home of the memory mapped at the address (vmm_space.c). An unmapped address is
 * returned unchanged. */
uint64_t fc_vmm_home(uint64_t address);
static inline uint64_t fc_home(uint64_t address)
{
	return UNLIKELY(fc_vmm_has(address)) ? fc_vmm_home(address) : address;
}
/* Returns the number of bytes that are contiguous from *home on. */
uint64_t fc_vmm_piece_of(uint64_t address, uint64_t bytes, uint64_t *home);
static inline uint64_t fc_vmm_piece(uint64_t address, uint64_t bytes, uint64_t *home)
{
	*home = address;
	return UNLIKELY(fc_vmm_has(address)) ? fc_vmm_piece_of(address, bytes, home) : bytes;
}

/* Records a write of device memory: the end of the world zeroes the pages that were written. */
void fc_va_mark(uint64_t address, uint64_t bytes);
static inline void fc_va_wrote(uint64_t address, uint64_t bytes)
{
	if (bytes && address - FC_VA_BASE < FC_VA_LIMIT)
		fc_va_mark(address, bytes);
}
/* Wakes all tasks that wait for a word in the range. */
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

/* Returns the view of a range with several homes. */
void *fc_vmm_view(uint64_t address, uint64_t bytes);
/* Returns the alias of the whole range. */
static inline void *fc_alias_range(uint64_t address, uint64_t bytes)
{
	uint64_t home;

	if (UNLIKELY(fc_vmm_has(address)) && fc_vmm_piece(address, bytes, &home) < bytes)
		return fc_vmm_view(address, bytes);
	return fc_alias(address);
}

#include "backends/fakecuda/context.h"
#include "backends/fakecuda/entry/call.h"
#include "backends/fakecuda/memory/cuda_memory.h"
#include "backends/fakecuda/stream/cuda_stream.h"
#include "backends/fakecuda/graph/graph.h"
#include "backends/fakecuda/image/image.h"
#include "backends/fakecuda/pool/pool.h"

#endif
