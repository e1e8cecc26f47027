/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Internal state of kernels' threads and blocks. Only device_run.c and device_access.c include it.
 * Only the block's own fibers access block state (barriers, warp operations), so it needs no lock;
 * accesses that also order memory are atomic.
 *
 * A thread that does something on which a GPU would trap does not return. It reports, kills the
 * context (every kernel of it dies, fc_ctx_kill), and jumps back to the bottom of its own stack.
 * The other threads do the same at their next call or wait.
 *
 * gdb (frames.py) and the happens-before reports (happens_report.c) skip frames of functions run_*.
 */
#ifndef BACKENDS_FAKECUDA_DEVICE_RUN_H
#define BACKENDS_FAKECUDA_DEVICE_RUN_H

#include <setjmp.h>

#include "backends/fakecuda/fakecuda.h"

#define RUN_BARRIERS     16
#define RUN_SHARED_ALIGN 64
#define RUN_CACHE        8

struct run_barrier {
	shared_u32 phase;       /* threads wait on it */
	uint32_t arrived, want; /* atomic */
	uint32_t votes;         /* atomic: threads of this round, so far, whose predicate is true */
	struct run_arrival *arrivals; /* atomic: of this round, so far */
};

/* A thread at a barrier. The last thread of the round stores the result for each of the others:
 * threads of another group may use the barrier often before a thread resumes. */
struct run_arrival {
	struct run_arrival *next;
	uint32_t result; /* atomic */
};

/* Rendezvous of a warp's lanes. It holds the values of two rounds, so that a fast lane does not
 * overwrite values that a slow lane still reads. */
struct run_warp {
	struct run_barrier barrier;
	uint64_t value[2][32];
	/* kernels from PTX: lane_warp.c */
	uint32_t gone;            /* atomic: bit of each lane that has exited */
	struct lane_lines *lines; /* that lanes write together: lane_lines.c; NULL: none yet */
	struct lane_meeting {
		shared_u32 phase; /* lanes wait on it */
		uint32_t mask, here;
		struct lane_arrival *lane[32];
	} meeting[32];
};

/* A lane at a meeting: what it brings, and what it gets. */
struct lane_arrival {
	uint64_t value;
	uint32_t source; /* of a shuffle: the lane to read; of a reduction: the operation */
	uint32_t lane, result;
	uint32_t (*how)(const struct lane_meeting *m, const struct lane_arrival *a);
};

struct run_thread {
	struct dev d;
	jmp_buf bottom;
	struct run_arrival arrival;
	struct fc_range cache[RUN_CACHE];
	uint32_t cache_next;
	const void *fence_load; /* TSan: the last relaxed load, for an acquire fence */
	bool fence_store;       /* TSan: a release fence preceded */
	struct run_lines {
		uint64_t at, bytes; /* adjacent lines that were read and may be given back */
	} lines;
	uint64_t *room;              /* of fakedev_room; NULL: not used yet, or shared */
	void *frames;                /* of a lane's functions: lane_calls.c */
	const struct ptx_lane *lane; /* of a kernel from PTX: has the place in the source */
	const shared_u32 *parked; /* phase of a barrier or meeting at which it waits, or waited */
	uint32_t parked_phase;    /* it waits as long as the phase is this one */
};

struct fakecuda_block {
	struct fc_kernel *kernel;
	struct fakecuda_block *next;
	uint32_t number, threads, warps;
	uint32_t exited; /* atomic */
	struct run_barrier barrier[RUN_BARRIERS];
	struct run_warp *warp;
	void *shared, *shared_block; /* shared is aligned, inside the heap block shared_block */
	struct run_thread thread[];
};

static inline struct run_thread *run_self(struct dev *d)
{
	return CONTAINER_OF(d, struct run_thread, d);
}

static inline bool run_dead(const struct dev *d)
{
	return __atomic_load_n(&d->blk->kernel->dead.v_, __ATOMIC_ACQUIRE) != 0;
}

static inline _Noreturn void run_exit(struct dev *d)
{
	longjmp(run_self(d)->bottom, 1);
}

/* device_lines.c: gives back the lines that the thread has read. */
void run_lines_end(struct run_thread *t);
/* Called before anything by which another thread may learn that lines were read. */
static inline void run_lines_done(struct dev *d)
{
	if (UNLIKELY(run_self(d)->lines.bytes != 0))
		run_lines_end(run_self(d));
}

/* lane_lines.c: lets lanes of the warp that settle check again. */
void lane_lines_stir(struct run_warp *w);
/* lane_lines.c: waits until the pieces of lines that the lane wrote are in memory. */
void lane_lines_settle(struct dev *d);
/* The thread waits until the phase changes. */
static inline void run_park(struct dev *d, const shared_u32 *phase, uint32_t now)
{
	run_self(d)->parked = phase;
	run_self(d)->parked_phase = now;
	if (d->blk->kernel->func->unit)
		lane_lines_stir(&d->blk->warp[d->thread / 32]);
}

/* Called first in every function that device code calls. */
static inline void run_enter(struct dev *d, const char *site)
{
	sim_point(site);
	if (UNLIKELY(run_dead(d)))
		run_exit(d);
}

/* Kills the thread and its context. The format describes the thread's error. */
_Noreturn void run_trap(struct dev *d, cudaError_t error, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Functions of fakedev_* that only kernels from PTX need. */
/* Checks a word that the caller changes, and reports the change to the memory model. Returns its
 * alias. The caller wakes. */
void *fakedev_word(struct dev *d, void *p, int bytes, int order, int scope);
/* A barrier for which the thread does not wait. */
void fakedev_barrier_arrive(struct dev *d, int id, int nthreads);
/* Waits until `w` holds. Returns 0 if it holds, ECANCELED on abort or if `other` holds, and
 * ETIMEDOUT at its deadline. Does not return if the kernel died. */
int run_wait(struct dev *d, const struct wait *w, const shared_u32 *abort,
	     const struct wait *other);

#endif
