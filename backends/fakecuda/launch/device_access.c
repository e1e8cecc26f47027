/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory accesses of kernels' threads (core/device/shim/shim_fake.h, fakedev_*): reads, writes,
 * words, fences, and waits for words. Each access is checked and costs time. It is reported to the
 * engine's memory model, to the uses that collectives declared (use.c), and to the shadow
 * (shadow.h).
 */
#include "backends/fakecuda/launch/device_access.h"

#define RUN_BULK 128 /* accesses of at least this many bytes are charged */

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

const struct fc_range *run_range_find(struct dev *d, const char *what, uint64_t address,
				      uint64_t bytes)
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

void run_charge(struct dev *d, const struct fc_range *r, bool write, uint64_t bytes)
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

/* In flavour checked, kills a thread that reads bytes not written since their allocation. */
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
	return (void *)(uintptr_t)a.addr;
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
	return (void *)(uintptr_t)a.addr;
}

void fakedev_wrote(struct dev *d, const void *p, size_t bytes)
{
	struct mem_access a =
		run_access(p, bytes, SHARED_RANGE_WRITE, SHARED_RELAXED, SHARED_BLOCK);
	(void)d;
	mem_wrote(&a);
	if (bytes)
		fc_wrote(p, bytes);
}

uint64_t fakedev_peek(struct dev *d, const void *p, int bytes)
{
	const void *at = fc_alias((uintptr_t)p);
	(void)d;
	return bytes == 4 ? __atomic_load_n((const uint32_t *)at, __ATOMIC_RELAXED)
			  : __atomic_load_n((const uint64_t *)at, __ATOMIC_RELAXED);
}

/* ---- words ---------------------------------------------------------------------------------- */

/* The functions below pass each order as a constant, because __atomic builtins with a variable
 * order use the strongest one. TSan does not see fences. Under TSan a release fence therefore
 * strengthens later stores, and an acquire fence the load before it. Correct fences in device code
 * then cause no reports. */
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

void fakedev_store(struct dev *d, void *p, int bytes, uint64_t v, int order, int scope)
{
	run_enter(d, "dev.store");
	run_lines_done(d);
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
	fc_wrote(p, (size_t)bytes);
}

uint64_t fakedev_add(struct dev *d, void *p, int bytes, uint64_t v, int order, int scope)
{
	run_enter(d, "dev.add");
	run_lines_done(d);
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
	fc_wrote(p, (size_t)bytes);
	return old;
}

void *fakedev_word(struct dev *d, void *p, int bytes, int order, int scope)
{
	void *at = run_word(d, "atomic", p, bytes);

	fc_va_wrote((uintptr_t)p, (uint64_t)bytes);
	run_check_defined(d, "atomic", p, (uint64_t)bytes);
	run_use(d, p, (uint64_t)bytes, true);
	struct mem_access a = run_access(p, (size_t)bytes, SHARED_RMW, order, scope);
	mem_access(&a);
	return at;
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

/* ---- waits for words ------------------------------------------------------------------------ */

static bool run_wait_word(struct dev *d, const struct wait *w, struct v16 *line,
			  const struct wait *other)
{
	run_enter(d, "dev.wait");
	ASSERT(w->kind != WAIT_OBJECT);
	int bytes = w->kind == WAIT_LINE16 ? 16 : w->bytes;
	const void *at = run_word(d, "wait", w->on, bytes);
	if (d->abort)
		run_word(d, "wait with abort word", d->abort, sizeof *d->abort);
	/* writers wake by the memory's home, not by one of its mappings */
	struct wait at_home = *w;
	at_home.on = (const void *)(uintptr_t)fc_home((uintptr_t)w->on);
	int rc = run_wait(d, &at_home, d->abort, other);
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
	const struct wait other = {.on = (const void *)(uintptr_t)fc_home((uintptr_t)word),
				   .want = 0,
				   .mask = bits,
				   .kind = WAIT_NE,
				   .bytes = 8,
				   .why = "arrival in the buffer that is written into",
				   .from = w->from};

	run_word(d, "wait", word, sizeof *word);
	return run_wait_word(d, w, NULL, &other);
}
