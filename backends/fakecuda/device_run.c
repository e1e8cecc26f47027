/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads of kernels: one fiber each, all fibers of a block on one worker. What device code calls
 * (core/device/shim_fake.h, fakedev_*) is here. Block state (barriers, warp operations) is touched
 * only by the block's own fibers, with atomics where an access also orders memory; it needs no
 * lock.
 *
 * A thread that does something a GPU would trap on does not return: it reports, marks the context
 * (every kernel of it dies, fc_ctx_kill), and jumps back to the bottom of its own stack. The other
 * threads do the same at their next call or wait.
 */
#include "backends/fakecuda/fakecuda.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/device/steps.h"

#define RUN_BARRIERS 16
#define RUN_CACHE    4
#define RUN_BULK     128 /* bytes from which an access is charged */

struct run_barrier {
	shared_u32 phase;       /* waited on */
	uint32_t arrived, want; /* atomic */
	uint32_t votes;         /* atomic: threads of this round so far whose predicate holds */
	uint32_t result[2];     /* atomic: of the last two rounds */
};

/* A warp's meeting place: values of two rounds, so that a fast lane cannot overwrite what a slow
 * one still reads. */
struct run_warp {
	struct run_barrier meet;
	uint64_t value[2][32];
};

struct run_thread {
	struct dev d;
	jmp_buf bottom;
	struct fc_range cache[RUN_CACHE];
	uint32_t cache_next;
	const void *fence_load; /* TSan: the last relaxed load, for an acquire fence */
	bool fence_store;       /* TSan: a release fence came before */
};

struct fakecuda_block {
	struct fc_kernel *kernel;
	struct fakecuda_block *next;
	uint32_t number, threads, warps;
	uint32_t exited; /* atomic */
	struct run_barrier barrier[RUN_BARRIERS];
	struct run_warp *warp;
	void *shared;
	struct run_thread thread[];
};

static struct run_thread *run_self(struct dev *d)
{
	return CONTAINER_OF(d, struct run_thread, d);
}

static uint32_t run_get(const uint32_t *atomic)
{
	return __atomic_load_n(atomic, __ATOMIC_RELAXED);
}

/* ---- dying ---------------------------------------------------------------------------------- */

static bool run_dead(const struct dev *d)
{
	return __atomic_load_n(&d->blk->kernel->dead.v_, __ATOMIC_ACQUIRE) != 0;
}

static _Noreturn void run_exit(struct dev *d)
{
	longjmp(run_self(d)->bottom, 1);
}

/* First thing in every call from device code. */
static inline void run_enter(struct dev *d, const char *site)
{
	sim_point(site);
	if (UNLIKELY(run_dead(d)))
		run_exit(d);
}

static _Noreturn void run_trap(struct dev *d, cudaError_t error, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static _Noreturn void run_trap(struct dev *d, cudaError_t error, const char *fmt, ...)
{
	const struct fc_kernel *k = d->blk->kernel;
	char text[640];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	fprintf(stderr, "fakecuda: %s; kernel %s (k%u of gpu %u, rank %d) block %u thread %u\n",
		text, k->func->kernel->name, k->number, k->ctx->dev->index, k->rank, d->block,
		d->thread);
	fc_lock();
	fc_ctx_kill(k->ctx, error);
	fc_unlock();
	run_exit(d);
}

/* ---- access --------------------------------------------------------------------------------- */

static _Noreturn __attribute__((noinline)) void run_illegal(struct dev *d, const char *what,
							    uint64_t address, uint64_t bytes)
{
	char why[512];
	fc_lock();
	fc_access_explain(d->blk->kernel->ctx, address, bytes, why, sizeof why);
	fc_unlock();
	run_trap(d, cudaErrorIllegalAddress, "illegal address: %s of %llu bytes at 0x%llx: %s",
		 what, (unsigned long long)bytes, (unsigned long long)address, why);
}

static __attribute__((noinline)) const struct fc_range *
run_range_find(struct dev *d, const char *what, uint64_t address, uint64_t bytes)
{
	struct run_thread *t = run_self(d);
	struct fc_range range;
	fc_lock();
	bool may = fc_access_kernel(d->blk->kernel->ctx, address, bytes, &range);
	if (may)
		fc_use_mapped(d->blk->kernel, &range);
	fc_unlock();
	if (!may)
		run_illegal(d, what, address, bytes);
	struct fc_range *slot = &t->cache[t->cache_next++ % RUN_CACHE];
	*slot = range;
	return slot;
}

/* Every access is checked; the thread's own cache makes the common case a few compares. */
static inline const struct fc_range *run_range(struct dev *d, const char *what, const void *p,
					       uint64_t bytes)
{
	struct run_thread *t = run_self(d);
	uint64_t address = (uintptr_t)p, generation = fc_map_generation();
	for (int i = 0; i < RUN_CACHE; i++) {
		const struct fc_range *r = &t->cache[i];
		if (r->generation == generation && address - r->lo < r->hi - r->lo &&
		    bytes <= r->hi - address)
			return r;
	}
	return run_range_find(d, what, address, bytes);
}

static inline void *run_word(struct dev *d, const char *what, const void *p, int bytes)
{
	if (UNLIKELY((uintptr_t)p % (unsigned)bytes))
		run_trap(d, cudaErrorMisalignedAddress, "misaligned address: %s of %d bytes at %p",
			 what, bytes, p);
	run_range(d, what, p, (uint64_t)bytes);
	return fc_alias((uintptr_t)p);
}

/* An access of the running thread, as the memory model sees it. */
static inline struct mem_access run_access(const void *p, size_t bytes, enum shared_access op,
					   int order, int scope)
{
	return (struct mem_access){.addr = fc_alias((uintptr_t)p),
				   .bytes = bytes,
				   .wake = p,
				   .op = op,
				   .order = (enum shared_order)order,
				   .scope = (enum shared_scope)scope};
}

/* Bulk traffic costs time on what it crosses. */
static void run_charge(struct dev *d, const struct fc_range *r, bool write, uint64_t bytes)
{
	struct fc_device *dev = d->blk->kernel->ctx->dev;
	struct sim_resource *via = &dev->local;
	if (bytes < RUN_BULK)
		return;
	if (r->kind == FC_RANGE_PEER)
		via = write ? &dev->link : &fc_device_at(r->lo)->link;
	else if (r->kind == FC_RANGE_HOST)
		via = write ? &dev->d2h : &dev->h2d;
	sim_charge_ns(sim_resource_use(via, bytes));
}

/* Is it part of a collective's buffer? Collectives declared what they use, and no other kernel is
 * checked. */
static inline void run_use(struct dev *d, const void *p, uint64_t bytes, bool write)
{
	struct fc_kernel *k = d->blk->kernel;
	if (UNLIKELY(!__atomic_load_n(&k->known_uses, __ATOMIC_RELAXED) &&
		     __atomic_load_n(&k->ctx->proc->collectives, __ATOMIC_RELAXED)))
		fc_use_kernel(k, (uintptr_t)p, bytes, write);
}

/* Flavour checked: what was not written since its allocation is not read. */
static void run_check_defined(struct dev *d, const char *what, const void *p, uint64_t bytes)
{
	uint64_t at = fc_shadow_undefined((uintptr_t)p, bytes);
	if (UNLIKELY(at < bytes))
		run_trap(d, cudaErrorIllegalAddress,
			 "uninitialised read: %s of %llu bytes at %p: byte %llu was never written",
			 what, (unsigned long long)bytes, p, (unsigned long long)at);
}

const void *fakedev_read(struct dev *d, const void *p, size_t bytes)
{
	run_enter(d, "dev.read");
	if (bytes)
		run_charge(d, run_range(d, "read", p, bytes), false, bytes);
	run_check_defined(d, "read", p, bytes);
	run_use(d, p, bytes, false);
	struct mem_access a = run_access(p, bytes, SHARED_RANGE_READ, SHARED_RELAXED, SHARED_BLOCK);
	mem_access(&a);
	return fc_alias((uintptr_t)p);
}

void *fakedev_write(struct dev *d, void *p, size_t bytes)
{
	run_enter(d, "dev.write");
	if (bytes)
		run_charge(d, run_range(d, "write", p, bytes), true, bytes);
	run_use(d, p, bytes, true);
	fc_shadow_write((uintptr_t)p, bytes);
	fc_va_wrote((uintptr_t)p, bytes);
	struct mem_access a =
		run_access(p, bytes, SHARED_RANGE_WRITE, SHARED_RELAXED, SHARED_BLOCK);
	mem_access(&a);
	return fc_alias((uintptr_t)p);
}

void fakedev_wrote(struct dev *d, const void *p, size_t bytes)
{
	struct mem_access a =
		run_access(p, bytes, SHARED_RANGE_WRITE, SHARED_RELAXED, SHARED_BLOCK);
	(void)d;
	mem_wrote(&a);
	if (bytes)
		sim_wrote(p, bytes);
}

uint64_t fakedev_peek(struct dev *d, const void *p, int bytes)
{
	const void *at = fc_alias((uintptr_t)p);
	(void)d;
	return bytes == 4 ? __atomic_load_n((const uint32_t *)at, __ATOMIC_RELAXED)
			  : __atomic_load_n((const uint64_t *)at, __ATOMIC_RELAXED);
}

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
		 "k%u of "
		 "gpu %u)",
		 rank, channel, peer, (unsigned long long)step, what, (unsigned long long)value,
		 d->blk->kernel->func->kernel->name, d->blk->kernel->number,
		 d->blk->kernel->ctx->dev->index);
	doppel_assert_fail(text, "device code", 0);
}

/* ---- words ---------------------------------------------------------------------------------- */

/* __atomic builtins take the order as a constant, or use the strongest: name each. Under TSan,
 * which does not see fences, a release fence strengthens later stores and an acquire fence the load
 * before it, so that what device code gets right by fences is not reported. */
#ifdef FC_TSAN
void __tsan_acquire(void *addr);
static void run_fence_tsan(struct run_thread *t, int order)
{
	if (order != SHARED_ACQUIRE)
		t->fence_store = true;
	if (order != SHARED_RELEASE && t->fence_load)
		__tsan_acquire((void *)(uintptr_t)t->fence_load);
}
#else
static void run_fence_tsan(struct run_thread *t, int order)
{
	(void)t, (void)order;
}
#endif

#define RUN_LOAD(bits, at, order)                                                                  \
	((order) == SHARED_RELAXED                                                                 \
		 ? __atomic_load_n((const uint##bits##_t *)(at), __ATOMIC_RELAXED)                 \
	 : (order) == SHARED_ACQUIRE                                                               \
		 ? __atomic_load_n((const uint##bits##_t *)(at), __ATOMIC_ACQUIRE)                 \
		 : __atomic_load_n((const uint##bits##_t *)(at), __ATOMIC_SEQ_CST))

uint64_t fakedev_load(struct dev *d, const void *p, int bytes, int order, int scope)
{
	run_enter(d, "dev.load");
	DASSERT(order == SHARED_RELAXED || order == SHARED_ACQUIRE || order == SHARED_SEQ_CST);
	const void *at = run_word(d, "load", p, bytes);
	run_check_defined(d, "load", p, (uint64_t)bytes);
	run_use(d, p, (uint64_t)bytes, false);
	struct mem_access a = run_access(p, (size_t)bytes, SHARED_LOAD, order, scope);
	mem_access(&a);
	if (order == SHARED_RELAXED)
		run_self(d)->fence_load = at;
	return bytes == 4 ? RUN_LOAD(32, at, order) : RUN_LOAD(64, at, order);
}

static inline void run_store(void *at, int bytes, uint64_t v, int order)
{
	if (bytes == 4 && order == SHARED_RELAXED)
		__atomic_store_n((uint32_t *)at, (uint32_t)v, __ATOMIC_RELAXED);
	else if (bytes == 4 && order == SHARED_RELEASE)
		__atomic_store_n((uint32_t *)at, (uint32_t)v, __ATOMIC_RELEASE);
	else if (bytes == 4)
		__atomic_store_n((uint32_t *)at, (uint32_t)v, __ATOMIC_SEQ_CST);
	else if (order == SHARED_RELAXED)
		__atomic_store_n((uint64_t *)at, v, __ATOMIC_RELAXED);
	else if (order == SHARED_RELEASE)
		__atomic_store_n((uint64_t *)at, v, __ATOMIC_RELEASE);
	else
		__atomic_store_n((uint64_t *)at, v, __ATOMIC_SEQ_CST);
}

void fakedev_store(struct dev *d, void *p, int bytes, uint64_t v, int order, int scope)
{
	run_enter(d, "dev.store");
	DASSERT(order == SHARED_RELAXED || order == SHARED_RELEASE || order == SHARED_SEQ_CST);
	void *at = run_word(d, "store", p, bytes);
	run_use(d, p, (uint64_t)bytes, true);
	fc_shadow_write((uintptr_t)p, (uint64_t)bytes);
	fc_va_wrote((uintptr_t)p, (uint64_t)bytes);
	struct mem_access a = run_access(p, (size_t)bytes, SHARED_STORE, order, scope);
	if (mem_store(&a, v))
		return;
	if (order == SHARED_RELAXED && run_self(d)->fence_store)
		order = SHARED_RELEASE;
	run_store(at, bytes, v, order);
	sim_wrote(p, (size_t)bytes);
}

/* One half of each line. */
static void run_store_halves(struct dev *d, uint8_t *p, const struct v16 *lines, uint32_t n,
			     bool second)
{
	int order = run_self(d)->fence_store ? SHARED_RELEASE : SHARED_RELAXED;

	for (uint32_t i = 0; i < n; i++) {
		uint8_t *at = p + i * DEV_LINE_BYTES + (second ? 8 : 0);
		uint64_t v = second ? lines[i].hi : lines[i].lo;
		struct mem_access a =
			run_access(at, 8, SHARED_STORE, SHARED_RELAXED, SHARED_SYSTEM);

		if (!mem_store(&a, v))
			run_store(fc_alias((uintptr_t)at), 8, v, order);
	}
	sim_wrote(p, n * DEV_LINE_BYTES);
}

void fakedev_lines_store(struct dev *d, void *p, const struct v16 *lines, uint32_t n)
{
	uint64_t bytes = n * (uint64_t)DEV_LINE_BYTES;

	run_enter(d, "dev.lines");
	run_word(d, "store of a line", p, (int)DEV_LINE_BYTES);
	run_charge(d, run_range(d, "store of lines", p, bytes), true, bytes);
	run_use(d, p, bytes, true);
	fc_shadow_write((uintptr_t)p, bytes);
	fc_va_wrote((uintptr_t)p, bytes);
	run_store_halves(d, p, lines, n, false);
	run_enter(d, "dev.lines.second");
	run_store_halves(d, p, lines, n, true);
}

uint32_t fakedev_lines_load(struct dev *d, const void *p, uint32_t flag, struct v16 *lines,
			    uint32_t n)
{
	uint64_t bytes = n * (uint64_t)DEV_LINE_BYTES;
	uint32_t i;

	run_enter(d, "dev.lines");
	run_word(d, "load of a line", p, (int)DEV_LINE_BYTES);
	const struct fc_range *range = run_range(d, "load of lines", p, bytes);
	run_use(d, p, bytes, false);
	struct mem_access a = run_access(p, bytes, SHARED_LOAD, SHARED_RELAXED, SHARED_SYSTEM);
	mem_access(&a);
	const uint64_t *at = fc_alias((uintptr_t)p);
	for (i = 0; i < n; i++, at += 2) {
		lines[i].lo = __atomic_load_n(at, __ATOMIC_ACQUIRE);
		lines[i].hi = __atomic_load_n(at + 1, __ATOMIC_ACQUIRE);
		if (lines[i].lo >> 32 != flag || lines[i].hi >> 32 != flag)
			break;
	}
	run_charge(d, range, false, i * (uint64_t)DEV_LINE_BYTES);
	return i;
}

/* ---- lines of 128 bytes ---------------------------------------------------------------------
 *
 * A line is whole in the memory of a GPU, and between two GPUs over NVLink: its words become visible
 * together. Over PCIe, to and from host memory as well, each word is alone. */

enum { LINE128_WORDS = 16, LINE128_FLAG = 15, LINE128_LAST_PIECE = 14 };

static bool run_keeps_lines(struct dev *d, const struct fc_range *r)
{
	const struct fc_device *dev = d->blk->kernel->ctx->dev;

	if (r->kind == FC_RANGE_PEER)
		return dev->gpu->nvlinks && fc_device_at(r->lo)->gpu->nvlinks;
	return r->kind != FC_RANGE_HOST;
}

static const struct fc_range *run_lines128(struct dev *d, const char *what, const void *p,
					   uint32_t lines)
{
	if (UNLIKELY((uintptr_t)p % (LINE128_WORDS * 8)))
		run_trap(d, cudaErrorMisalignedAddress, "misaligned address: %s of 128 bytes at %p",
			 what, p);
	return run_range(d, what, p, (uint64_t)lines * LINE128_WORDS * 8);
}

/* Words from..to of each line, one by one; the flag is the last of them. */
static void run_store_words(struct dev *d, uint64_t *p, const uint64_t *words, uint32_t lines,
			    int from, int to)
{
	int order = run_self(d)->fence_store ? SHARED_RELEASE : SHARED_RELAXED;

	for (uint32_t i = 0; i < lines * LINE128_WORDS; i += LINE128_WORDS)
		for (uint32_t k = i + (uint32_t)from; k < i + (uint32_t)to; k++) {
			struct mem_access a =
				run_access(p + k, 8, SHARED_STORE, SHARED_RELAXED, SHARED_SYSTEM);

			if (!mem_store(&a, words[k]))
				run_store(fc_alias((uintptr_t)(p + k)), 8, words[k], order);
		}
	sim_wrote(p, (size_t)lines * LINE128_WORDS * 8);
}

static void run_store_whole(struct dev *d, uint64_t *p, const uint64_t *words, uint32_t lines)
{
	for (uint32_t i = 0; i < lines; i++, p += LINE128_WORDS, words += LINE128_WORDS) {
		struct mem_access a = run_access(p, LINE128_WORDS * 8, SHARED_STORE, SHARED_RELAXED,
						 SHARED_SYSTEM);
		uint64_t *at = fc_alias((uintptr_t)p);

		if (mem_store_whole(&a, words))
			continue;
		for (int k = 0; k < LINE128_FLAG; k++)
			run_store(at + k, 8, words[k], SHARED_RELAXED);
		run_store(at + LINE128_FLAG, 8, words[LINE128_FLAG], SHARED_RELEASE);
		sim_wrote(p, LINE128_WORDS * 8);
	}
	(void)d;
}

void fakedev_lines128_store(struct dev *d, void *p, const uint64_t *words, uint32_t lines)
{
	uint64_t bytes = (uint64_t)lines * LINE128_WORDS * 8;

	run_enter(d, "dev.lines128");
	const struct fc_range *range = run_lines128(d, "store of a line", p, lines);
	bool whole = run_keeps_lines(d, range);

	run_charge(d, range, true, bytes);
	run_use(d, p, bytes, true);
	fc_shadow_write((uintptr_t)p, bytes);
	fc_va_wrote((uintptr_t)p, bytes);
	if (whole) {
		run_store_whole(d, p, words, lines);
		return;
	}
	run_store_words(d, p, words, lines, LINE128_LAST_PIECE, LINE128_WORDS);
	run_enter(d, "dev.lines128.torn");
	run_store_words(d, p, words, lines, 0, LINE128_LAST_PIECE);
}

/* How many lines from the first on have the flag; their words are in `words`. */
static uint32_t run_load_whole(const uint64_t *at, uint64_t flag, uint64_t *words, uint32_t lines)
{
	uint32_t i;

	for (i = 0; i < lines; i++, at += LINE128_WORDS, words += LINE128_WORDS) {
		words[LINE128_FLAG] = __atomic_load_n(at + LINE128_FLAG, __ATOMIC_ACQUIRE);
		if (words[LINE128_FLAG] != flag)
			break;
		for (int k = 0; k < LINE128_FLAG; k++)
			words[k] = __atomic_load_n(at + k, __ATOMIC_RELAXED);
	}
	return i;
}

/* The data is read before the flags are. */
static uint32_t run_load_torn(struct dev *d, const struct mem_access *a, uint64_t flag,
			      uint64_t *words, uint32_t lines)
{
	const uint64_t *at = a->addr;
	uint32_t i;

	for (i = 0; i < lines * LINE128_WORDS; i++)
		words[i] = __atomic_load_n(at + i, __ATOMIC_ACQUIRE);
	run_enter(d, "dev.lines128.torn");
	mem_access(a);
	for (i = 0; i < lines; i++) {
		uint32_t k = i * LINE128_WORDS + LINE128_FLAG;

		words[k] = __atomic_load_n(at + k, __ATOMIC_ACQUIRE);
		if (words[k] != flag)
			break;
	}
	return i;
}

uint32_t fakedev_lines128_load(struct dev *d, const void *p, uint64_t flag, uint64_t *words,
			       uint32_t lines)
{
	uint64_t bytes = (uint64_t)lines * LINE128_WORDS * 8;
	uint32_t n;

	run_enter(d, "dev.lines128");
	const struct fc_range *range = run_lines128(d, "load of a line", p, lines);
	struct mem_access a = run_access(p, bytes, SHARED_LOAD, SHARED_RELAXED, SHARED_SYSTEM);

	run_use(d, p, bytes, false);
	mem_access(&a);
	n = run_keeps_lines(d, range) ? run_load_whole(a.addr, flag, words, lines)
				      : run_load_torn(d, &a, flag, words, lines);
	run_charge(d, range, false, (uint64_t)n * LINE128_WORDS * 8);
	return n;
}

uint64_t fakedev_add(struct dev *d, void *p, int bytes, uint64_t v, int order, int scope)
{
	run_enter(d, "dev.add");
	void *at = run_word(d, "add", p, bytes);
	fc_va_wrote((uintptr_t)p, (uint64_t)bytes);
	run_check_defined(d, "add", p, (uint64_t)bytes);
	struct mem_access a = run_access(p, (size_t)bytes, SHARED_RMW, order, scope);
	mem_access(&a);
	uint64_t old;
	bool relaxed = order == SHARED_RELAXED && !run_self(d)->fence_store;
	if (bytes == 4)
		old = relaxed ? __atomic_fetch_add((uint32_t *)at, (uint32_t)v, __ATOMIC_RELAXED)
			      : __atomic_fetch_add((uint32_t *)at, (uint32_t)v, __ATOMIC_ACQ_REL);
	else
		old = relaxed ? __atomic_fetch_add((uint64_t *)at, v, __ATOMIC_RELAXED)
			      : __atomic_fetch_add((uint64_t *)at, v, __ATOMIC_ACQ_REL);
	sim_wrote(p, (size_t)bytes);
	return old;
}

void fakedev_fence(struct dev *d, int order, int scope)
{
	struct mem_access a = {.op = SHARED_FENCE,
			       .order = (enum shared_order)order,
			       .scope = (enum shared_scope)scope};
	run_enter(d, "dev.fence");
	mem_access(&a);
#ifndef FC_TSAN
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
	run_fence_tsan(run_self(d), order);
}

/* ---- waiting -------------------------------------------------------------------------------- */

/* Until `w` holds, with the kernel's death as second wait, and another one: 0 it holds, ECANCELED abort, or the
 * other one holds; ETIMEDOUT its deadline. */
static int run_wait(struct dev *d, const struct wait *w, const shared_u32 *abort,
		    const struct wait *other)
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

static bool run_wait_word(struct dev *d, const struct wait *w, struct v16 *line,
			  const struct wait *other)
{
	run_enter(d, "dev.wait");
	ASSERT(w->kind != WAIT_OBJECT);
	int bytes = w->kind == WAIT_LINE16 ? 16 : w->bytes;
	const void *at = run_word(d, "wait", w->on, bytes);
	if (d->abort)
		run_word(d, "wait with abort word", d->abort, sizeof *d->abort);
	int rc = run_wait(d, w, d->abort, other);
	if (rc)
		return false;
	if (w->kind == WAIT_LINE16) {
		line->lo = __atomic_load_n((const uint64_t *)at, __ATOMIC_ACQUIRE);
		line->hi = __atomic_load_n((const uint64_t *)at + 1, __ATOMIC_ACQUIRE);
	}
	return true;
}

bool fakedev_wait(struct dev *d, const struct wait *w, struct v16 *line)
{
	return run_wait_word(d, w, line, NULL);
}

bool fakedev_wait_unless(struct dev *d, const struct wait *w, const struct dev_conn *c,
			 uint64_t bits)
{
	if (!c || !c->put)
		return run_wait_word(d, w, NULL, NULL);
	const shared_u64 *word = &((struct dev_send_mem *)(void *)c->head)->put;
	const struct wait other = {.on = word,
				   .want = 0,
				   .mask = bits,
				   .kind = WAIT_NE,
				   .bytes = 8,
				   .why = "news of the buffer that is written into",
				   .from = w->from};

	run_word(d, "wait", word, sizeof *word);
	return run_wait_word(d, w, NULL, &other);
}

/* ---- barriers ------------------------------------------------------------------------------- */

/* The votes of a round. Other threads may have used the barrier since. */
static uint32_t run_meet_result(struct dev *d, const struct run_barrier *b, uint32_t round, int id)
{
	uint32_t votes = run_get(&b->result[round & 1]);

	if (__atomic_load_n(&b->phase.v_, __ATOMIC_ACQUIRE) - round > 2)
		run_trap(d, cudaErrorLaunchFailure,
			 "barrier %d was used twice more before this thread had its result: "
			 "not implemented",
			 id);
	return votes;
}

/* Arrives; the last to come opens the next phase. The phase word carries the memory order. How many of
 * the threads have the predicate. */
static uint32_t run_meet(struct dev *d, struct run_barrier *b, uint32_t want, bool predicate,
			 const char *why, int id)
{
	uint32_t phase = __atomic_load_n(&b->phase.v_, __ATOMIC_ACQUIRE);
	/* neighbouring rounds are two objects: memory.h */
	const void *round = (const char *)b + (phase & 1);
	mem_barrier_arrive(round);
	__atomic_store_n(&b->want, want, __ATOMIC_RELAXED);
	if (predicate)
		__atomic_add_fetch(&b->votes, 1, __ATOMIC_RELAXED);
	if (__atomic_add_fetch(&b->arrived, 1, __ATOMIC_ACQ_REL) == want) {
		uint32_t votes = __atomic_exchange_n(&b->votes, 0, __ATOMIC_RELAXED);

		__atomic_store_n(&b->result[phase & 1], votes, __ATOMIC_RELAXED);
		__atomic_store_n(&b->arrived, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&b->phase.v_, phase + 1, __ATOMIC_RELEASE);
		sim_wrote(&b->phase, sizeof b->phase);
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
	run_wait(d, &w, NULL, NULL);
	mem_barrier_leave(round);
	return run_meet_result(d, b, phase, id);
}

uint32_t fakedev_barrier(struct dev *d, int id, int nthreads, bool predicate)
{
	run_enter(d, "dev.barrier");
	ASSERT(id >= 0 && id < RUN_BARRIERS);
	struct fakecuda_block *blk = d->blk;
	struct run_barrier *b = &blk->barrier[id];
	uint32_t want = (uint32_t)nthreads;
	uint32_t arrived = run_get(&b->arrived), exited = run_get(&blk->exited);
	if (!want || want > blk->threads || want % (unsigned)d->width)
		run_trap(d, cudaErrorLaunchFailure,
			 "barrier %d of %u threads: not a number of whole warps of a block of %u",
			 id, want, blk->threads);
	if (arrived && run_get(&b->want) != want)
		run_trap(d, cudaErrorLaunchFailure,
			 "barrier %d of %u threads: %u threads wait there already for %u", id, want,
			 arrived, run_get(&b->want));
	if (want + exited > blk->threads)
		run_trap(d, cudaErrorLaunchFailure,
			 "barrier %d of %u threads: %u of the block's %u have exited", id, want,
			 exited, blk->threads);
	return run_meet(d, b, want, predicate, "barrier", id);
}

/* All lanes of the warp put a value down and go on together; returns where the values are. */
static const uint64_t *run_warp_meet(struct dev *d, uint64_t v, const char *why)
{
	struct run_warp *w = &d->blk->warp[d->thread / 32];
	uint32_t lane = d->thread % 32;
	uint32_t first = d->thread - lane;
	uint32_t lanes = MIN_OF(d->nthreads - first, 32u);
	uint32_t round = __atomic_load_n(&w->meet.phase.v_, __ATOMIC_ACQUIRE) & 1;
	w->value[round][lane] = v;
	(void)run_meet(d, &w->meet, lanes, false, why, -1);
	return w->value[round];
}

uint64_t fakedev_shuffle_u64(struct dev *d, uint64_t v, int lane)
{
	run_enter(d, "dev.shuffle");
	if (d->width == 1)
		return v;
	return run_warp_meet(d, v, "shuffle")[lane & 31];
}

uint32_t fakedev_ballot(struct dev *d, int pred)
{
	run_enter(d, "dev.ballot");
	if (d->width == 1)
		return pred != 0;
	const uint64_t *votes = run_warp_meet(d, pred != 0, "warp vote");
	uint32_t lanes = MIN_OF(d->nthreads - d->thread / 32 * 32, 32u), bits = 0;
	for (uint32_t i = 0; i < lanes; i++)
		bits |= (uint32_t)votes[i] << i;
	return bits;
}

/* ---- life of a block ------------------------------------------------------------------------ */

static void run_block_free(struct fakecuda_block *blk)
{
	for (int id = 0; mem_on && id < 2 * RUN_BARRIERS; id++)
		mem_forget((const char *)&blk->barrier[id / 2] + id % 2);
	for (uint32_t w = 0; mem_on && blk->warp && w < 2 * blk->warps; w++)
		mem_forget((const char *)&blk->warp[w / 2].meet + w % 2);
	free(blk->warp);
	free(blk->shared);
	free(blk);
}

/* A thread left while others wait for more threads than can still come. */
static void run_check_exit(struct dev *d)
{
	struct fakecuda_block *blk = d->blk;
	uint32_t alive = blk->threads - run_get(&blk->exited) - 1;
	for (int id = 0; id < RUN_BARRIERS; id++) {
		struct run_barrier *b = &blk->barrier[id];
		uint32_t arrived = run_get(&b->arrived), want = run_get(&b->want);
		if (arrived && want > alive)
			run_trap(d, cudaErrorLaunchFailure,
				 "thread exited while %u threads wait at barrier %d for %u: %u are "
				 "left",
				 arrived, id, want, alive);
	}
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
	if (!setjmp(t->bottom)) {
		if (!run_dead(&t->d)) {
			blk->kernel->func->entry(&t->d, blk->kernel->args);
			run_check_exit(&t->d);
		}
	}
	mem_release(&blk->kernel->left); /* what a kernel wrote is there when it ends */
	if (__atomic_add_fetch(&blk->exited, 1, __ATOMIC_ACQ_REL) == blk->threads)
		run_block_done(blk);
	sim_events_drain();
}

static struct fakecuda_block *run_block_new(struct fc_kernel *k, uint32_t number)
{
	struct fakecuda_block *blk = calloc(1, sizeof *blk + k->threads * sizeof blk->thread[0]);
	ASSERT(blk);
	blk->kernel = k;
	blk->number = number;
	blk->threads = k->threads;
	blk->warps = DIV_UP(k->threads, (uint32_t)k->func->width);
	if (k->func->width == 32) {
		blk->warp = calloc(blk->warps, sizeof *blk->warp);
		ASSERT(blk->warp);
	}
	size_t shared = ALIGN_UP(MAX_OF(k->shared_bytes, (size_t)64), 64);
	blk->shared = aligned_alloc(64, shared);
	ASSERT(blk->shared);
	memset(blk->shared, 0xa5, shared); /* undefined on hardware; the same here every time */
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
				     .owner = &t->d};
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
