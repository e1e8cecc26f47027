/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads of kernels: one fiber each, all fibers of a block on one worker. This file begins and
 * ends blocks. It implements their threads' waits, barriers, warp operations and death.
 * device_access.c has the other functions that device code calls (core/device/shim/shim_fake.h,
 * fakedev_*).
 */
#include "backends/fakecuda/launch/device_run.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/device/layout/steps.h"

static uint32_t run_get(const uint32_t *atomic)
{
	return __atomic_load_n(atomic, __ATOMIC_RELAXED);
}

/* ---- death ---------------------------------------------------------------------------------- */

_Noreturn void run_trap(struct dev *d, cudaError_t error, const char *fmt, ...)
{
	const struct fc_kernel *k = d->blk->kernel;
	char text[640];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	fprintf(stderr, "fakecuda: %s; kernel %s (k%u of gpu %u, rank %d) block %u thread %u", text,
		k->func->kernel->name, k->number, k->ctx->dev->index, k->rank, d->block, d->thread);
	const struct ptx_lane *l = run_self(d)->lane;
	if (l && l->line)
		fprintf(stderr, ", at %s:%u", l->file, l->line);
	fprintf(stderr, "\n");
	fc_lock();
	fc_ctx_kill(k->ctx, error);
	fc_unlock();
	run_exit(d);
}

/* ---- waits ---------------------------------------------------------------------------------- */

int run_wait(struct dev *d, const struct wait *w, const shared_u32 *abort, const struct wait *other)
{
	struct fc_kernel *k = d->blk->kernel;
	const struct wait dead = {.on = &k->dead,
				  .want = 0,
				  .mask = WAIT_MASK_ALL,
				  .kind = WAIT_NE,
				  .bytes = 4,
				  .why = "death of the kernel",
				  .from = {-1, -1, -1, NULL}};
	const struct wait *const all[] = {w, &dead, other};
	int index = 0;
	int rc = os_wait(all, other ? 3 : 2, abort, &index);
	if (!rc && index == 1)
		run_exit(d);
	return index == 2 && !rc ? ECANCELED : rc;
}

uint64_t fakedev_now_ns(struct dev *d)
{
	run_enter(d, "dev.now");
	return os_now_ns();
}

/* ---- reports of device code ----------------------------------------------------------------- */

void fakedev_work_begins(struct dev *d, const struct dev_work *w)
{
	struct os_self *self = os_self();
	self->work = w->kind == DEV_WORK_SEND_RECV
			     ? "send_recv"
			     : steps_func_name(steps_program(w->program).func);
	self->work_number = w->op_count;
	if (!d->block && !d->thread && os_tracing())
		fc_trace_work_begins(d->blk->kernel, self->work, w);
}

void fakedev_work_ends(struct dev *d, const struct dev_work *w)
{
	if (!d->block && !d->thread && os_tracing())
		fc_trace_work_ends(d->blk->kernel, os_self()->work);
}

void fakedev_slot_shown(struct dev *d, const struct dev_comm *comm, const struct dev_conn *c,
			uint64_t step, bool sent)
{
	if (os_tracing())
		fc_trace_slot(d->blk->kernel, comm, c, step, sent);
}

_Noreturn void fakedev_fifo_broken(struct dev *d, int rank, int channel, int peer, const char *what,
				   uint64_t step, uint64_t value)
{
	char text[256];
	snprintf(text, sizeof text,
		 "fifo broken: rank %d channel %d peer %d step %llu: %s: it is %llu (kernel %s, "
		 "k%u of gpu %u)",
		 rank, channel, peer, (unsigned long long)step, what, (unsigned long long)value,
		 d->blk->kernel->func->kernel->name, d->blk->kernel->number,
		 d->blk->kernel->ctx->dev->index);
	doppel_assert_fail(text, "device code", 0);
}

/* ---- barriers ------------------------------------------------------------------------------- */

static void run_barrier_arrive(struct run_barrier *b, struct run_arrival *me)
{
	me->next = __atomic_load_n(&b->arrivals, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&b->arrivals, &me->next, me, true, __ATOMIC_RELEASE,
					    __ATOMIC_RELAXED))
		continue;
}

/* Ends a round by its last thread: hands out the result and starts the next phase. The phase word
 * carries the memory order. */
static uint32_t run_barrier_complete(struct run_barrier *b, uint32_t phase)
{
	uint32_t votes = __atomic_exchange_n(&b->votes, 0, __ATOMIC_RELAXED);
	struct run_arrival *a = __atomic_exchange_n(&b->arrivals, NULL, __ATOMIC_ACQUIRE);

	for (; a; a = a->next)
		__atomic_store_n(&a->result, votes, __ATOMIC_RELAXED);
	__atomic_store_n(&b->arrived, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&b->phase.v_, phase + 1, __ATOMIC_RELEASE);
	sim_wrote(&b->phase, sizeof b->phase);
	return votes;
}

/* Barrier of all threads that have not exited. */
#define RUN_BARRIER_ALL UINT32_MAX

static uint32_t run_barrier_count(const struct fakecuda_block *blk, uint32_t want)
{
	return want == RUN_BARRIER_ALL ? blk->threads - run_get(&blk->exited) : want;
}

/* Arrives at the barrier. Returns the number of threads whose predicate is true. */
static uint32_t run_barrier_wait(struct dev *d, struct run_barrier *b, uint32_t want,
				 bool predicate, const char *why, int id)
{
	uint32_t phase = __atomic_load_n(&b->phase.v_, __ATOMIC_ACQUIRE);
	/* neighbouring rounds are two objects of the memory model: memory.h */
	const void *round = (const char *)b + (phase & 1);
	struct run_arrival *me = &run_self(d)->arrival;

	mem_barrier_arrive(round);
	run_barrier_arrive(b, me);
	__atomic_store_n(&b->want, want, __ATOMIC_RELAXED);
	if (predicate)
		__atomic_add_fetch(&b->votes, 1, __ATOMIC_RELAXED);
	if (__atomic_add_fetch(&b->arrived, 1, __ATOMIC_ACQ_REL) ==
	    run_barrier_count(d->blk, want)) {
		uint32_t votes = run_barrier_complete(b, phase);

		mem_barrier_leave(round);
		return votes;
	}
	const struct wait w = {
		.on = &b->phase,
		.want = phase,
		.mask = WAIT_MASK_ALL,
		.kind = WAIT_NE,
		.bytes = 4,
		.why = why,
		.from = {d->blk->kernel->rank, (int32_t)d->block, id, "threads of the block"}};
	run_park(d, &b->phase, phase);
	run_wait(d, &w, NULL, NULL);
	mem_barrier_leave(round);
	return __atomic_load_n(&me->result, __ATOMIC_RELAXED);
}

/* Traps if the threads at a barrier cannot agree. */
static void run_barrier_check(struct dev *d, int id, uint32_t want)
{
	struct fakecuda_block *blk = d->blk;
	struct run_barrier *b = &blk->barrier[id];
	uint32_t arrived = run_get(&b->arrived), exited = run_get(&blk->exited);

	if (arrived && run_get(&b->want) != want)
		run_trap(d, cudaErrorLaunchFailure,
			 "barrier %d of %u threads: %u threads wait there already for %u", id,
			 run_barrier_count(blk, want), arrived,
			 run_barrier_count(blk, run_get(&b->want)));
	if (want == RUN_BARRIER_ALL)
		return;
	if (!want || want > blk->threads || want % (unsigned)d->width)
		run_trap(d, cudaErrorLaunchFailure,
			 "barrier %d of %u threads: not a number of whole warps of a block of %u",
			 id, want, blk->threads);
	if (want + exited > blk->threads)
		run_trap(d, cudaErrorLaunchFailure,
			 "barrier %d of %u threads: %u of the block's %u have exited", id, want,
			 exited, blk->threads);
}

/* A kernel from PTX has nthreads 0 for all threads that have not exited. */
uint32_t fakedev_barrier(struct dev *d, int id, int nthreads, bool predicate)
{
	run_enter(d, "dev.barrier");
	run_lines_done(d);
	ASSERT(id >= 0 && id < RUN_BARRIERS);
	uint32_t want =
		nthreads || !d->blk->kernel->func->unit ? (uint32_t)nthreads : RUN_BARRIER_ALL;
	run_barrier_check(d, id, want);
	return run_barrier_wait(d, &d->blk->barrier[id], want, predicate, "barrier", id);
}

void fakedev_barrier_arrive(struct dev *d, int id, int nthreads)
{
	struct run_barrier *b = &d->blk->barrier[id];
	uint32_t want = (uint32_t)nthreads;

	run_enter(d, "dev.barrier");
	run_lines_done(d);
	run_barrier_check(d, id, want);
	uint32_t phase = __atomic_load_n(&b->phase.v_, __ATOMIC_ACQUIRE);
	mem_barrier_arrive((const char *)b + (phase & 1));
	__atomic_store_n(&b->want, want, __ATOMIC_RELAXED);
	if (__atomic_add_fetch(&b->arrived, 1, __ATOMIC_ACQ_REL) == want)
		(void)run_barrier_complete(b, phase);
}

/* Stores each lane's value and waits for all lanes of the warp. Returns the array of the values. */
static const uint64_t *run_warp_exchange(struct dev *d, uint64_t v, const char *why)
{
	struct run_warp *w = &d->blk->warp[d->thread / 32];
	uint32_t lane = d->thread % 32;
	uint32_t first = d->thread - lane;
	uint32_t lanes = MIN_OF(d->nthreads - first, 32u);
	uint32_t round = __atomic_load_n(&w->barrier.phase.v_, __ATOMIC_ACQUIRE) & 1;
	w->value[round][lane] = v;
	(void)run_barrier_wait(d, &w->barrier, lanes, false, why, -1);
	return w->value[round];
}

uint64_t fakedev_shuffle_u64(struct dev *d, uint64_t v, int lane)
{
	run_enter(d, "dev.shuffle");
	run_lines_done(d);
	if (d->width == 1)
		return v;
	return run_warp_exchange(d, v, "shuffle")[lane & 31];
}

uint32_t fakedev_ballot(struct dev *d, int pred)
{
	run_enter(d, "dev.ballot");
	run_lines_done(d);
	if (d->width == 1)
		return pred != 0;
	const uint64_t *votes = run_warp_exchange(d, pred != 0, "warp vote");
	uint32_t lanes = MIN_OF(d->nthreads - d->thread / 32 * 32, 32u), bits = 0;
	for (uint32_t i = 0; i < lanes; i++)
		bits |= (uint32_t)votes[i] << i;
	return bits;
}

/* ---- start and end of a block --------------------------------------------------------------- */

static void run_block_free(struct fakecuda_block *blk)
{
	for (int id = 0; mem_on && id < 2 * RUN_BARRIERS; id++)
		mem_forget((const char *)&blk->barrier[id / 2] + id % 2);
	for (uint32_t w = 0; mem_on && blk->warp && w < 2 * blk->warps; w++)
		mem_forget((const char *)&blk->warp[w / 2].barrier + w % 2);
	for (uint32_t i = 0; i < blk->threads; i++) {
		free(blk->thread[i].room);
		free(blk->thread[i].frames);
	}
	for (uint32_t w = 0; blk->warp && w < blk->warps; w++)
		free(blk->warp[w].lines);
	free(blk->warp);
	free(blk->shared_block);
	free(blk);
}

/* Ends barriers for which only this thread was missing, if they are for all threads that have not
 * exited. Kills the kernel if others wait at a barrier for more threads than remain. */
static void run_check_exit(struct dev *d)
{
	struct fakecuda_block *blk = d->blk;
	uint32_t alive = blk->threads - run_get(&blk->exited) - 1;
	for (int id = 0; id < RUN_BARRIERS; id++) {
		struct run_barrier *b = &blk->barrier[id];
		uint32_t arrived = run_get(&b->arrived), want = run_get(&b->want);
		if (arrived && want == RUN_BARRIER_ALL) {
			if (arrived == alive)
				(void)run_barrier_complete(b, run_get(&b->phase.v_));
			continue;
		}
		if (arrived && want > alive)
			run_trap(d, cudaErrorLaunchFailure,
				 "thread exited while %u threads wait at barrier %d for %u: %u "
				 "remain",
				 arrived, id, want, alive);
	}
}

/* The thread has ended by itself. A trap here ends it, too. */
static void run_thread_leave(struct run_thread *t)
{
	struct fakecuda_block *blk = t->d.blk;

	t->lane = NULL; /* its stack is gone */
	if (setjmp(t->bottom))
		return;
	run_lines_done(&t->d);
	if (blk->kernel->func->unit)
		lane_lines_settle(&t->d);
	run_check_exit(&t->d);
	if (!blk->kernel->func->unit)
		return;
	struct run_warp *w = &blk->warp[t->d.thread / 32];
	__atomic_or_fetch(&w->gone, 1u << t->d.thread % 32, __ATOMIC_RELAXED);
	lane_lines_stir(w);
}

static void run_block_done(struct fakecuda_block *blk)
{
	struct fc_kernel *k = blk->kernel;
	fc_lock();
	struct fakecuda_block **at = &k->block;
	while (*at != blk)
		at = &(*at)->next;
	*at = blk->next;
	run_block_free(blk);
	fc_kernel_block_done(k);
	fc_unlock();
}

static void run_thread_main(void *arg)
{
	struct run_thread *t = arg;
	struct fakecuda_block *blk = t->d.blk;
	mem_acquire(blk->kernel);
	/* a thread comes back here when it traps, dies, or exits within a function */
	if (!setjmp(t->bottom) && !run_dead(&t->d))
		blk->kernel->func->entry(&t->d, blk->kernel->args);
	if (!run_dead(&t->d))
		run_thread_leave(t);
	mem_release(&blk->kernel->left); /* the kernel's writes are visible when it ends */
	if (__atomic_add_fetch(&blk->exited, 1, __ATOMIC_ACQ_REL) == blk->threads)
		run_block_done(blk);
	sim_events_drain();
}

static struct fakecuda_block *run_block_new(struct fc_kernel *k, uint32_t number)
{
	struct fakecuda_block *blk =
		fc_device_alloc(sizeof *blk + k->threads * sizeof blk->thread[0]);

	blk->kernel = k;
	blk->number = number;
	blk->threads = k->threads;
	blk->warps = DIV_UP(k->threads, (uint32_t)k->func->width);
	if (k->func->width == 32)
		blk->warp = fc_device_alloc(blk->warps * sizeof *blk->warp);
	blk->shared_block = malloc(k->shared_bytes + RUN_SHARED_ALIGN);
	ASSERT(blk->shared_block);
	mem_fresh(blk->shared_block, k->shared_bytes + RUN_SHARED_ALIGN);
	blk->shared = (void *)ALIGN_UP((uintptr_t)blk->shared_block, (uintptr_t)RUN_SHARED_ALIGN);
	/* undefined on hardware; here the same value in every run */
	memset(blk->shared, 0xa5, k->shared_bytes);
	blk->next = k->block;
	k->block = blk;
	return blk;
}

static void run_thread_spawn(struct fc_kernel *k, struct fakecuda_block *blk, uint32_t thread)
{
	struct run_thread *t = &blk->thread[thread];
	struct fc_device *dev = k->ctx->dev;
	uint32_t width = (uint32_t)k->func->width, warp = thread / width;
	char name[48];
	t->d = (struct dev){.shared = blk->shared,
			    .block = blk->number,
			    .nblocks = k->blocks,
			    .thread = thread,
			    .nthreads = k->threads,
			    .width = k->func->width,
			    .blk = blk};
	snprintf(name, sizeof name, "rank%d/gpu%u k%u b%u w%u", k->rank, dev->index, k->number,
		 blk->number, warp);
	struct sim_task_attr attr = {.name = name,
				     .kind = SIM_TASK_WARP,
				     .proc = k->ctx->proc->os,
				     .rank = k->rank,
				     .device = (int32_t)dev->index,
				     .kernel = (int32_t)k->number,
				     .block = (int32_t)blk->number,
				     .warp = (int32_t)warp,
				     .lane = width == 1 ? -1 : (int32_t)(thread % width),
				     .home = dev->index * 31 + blk->number,
				     .owner = &t->d,
				     .stack_bytes = k->func->unit ? k->func->unit->stack_bytes : 0};
	struct sim_task *task;
	int rc = sim_task_spawn(&task, &attr, run_thread_main, t);
	if (rc) {
		fprintf(stderr, "fakecuda: no fiber for thread %u of kernel %s: %s\n", thread,
			k->func->kernel->name, strerror(rc));
		abort();
	}
}

void fc_block_start(struct fc_kernel *k, uint32_t number)
{
	struct fakecuda_block *blk = run_block_new(k, number);
	for (uint32_t i = 0; i < k->threads; i++)
		run_thread_spawn(k, blk, i);
}

void fc_blocks_drop(struct fc_kernel *k)
{
	while (k->block) {
		struct fakecuda_block *blk = k->block;
		k->block = blk->next;
		run_block_free(blk);
	}
}
