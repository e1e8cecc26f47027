/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory accesses of kernels' threads (core/device/shim_fake.h, fakedev_*): reads, writes, words,
 * fences, lines, and waits for words. Each access is checked and costs time. It is reported to the
 * engine's memory model, to the uses that collectives declared (use.c), and to the shadow
 * (shadow.h).
 */
#include "backends/fakecuda/launch/device_run.h"

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

/* Returns the accessible range that contains the access. Every access is checked; the thread's own
 * cache reduces the common case to a few compares. */
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

/* Describes an access of the running thread for the memory model. */
static inline struct mem_access run_access(const void *p, size_t bytes, enum shared_access op,
					   int order, int scope)
{
	return (struct mem_access){.addr = fc_alias_range((uintptr_t)p, bytes),
				   .bytes = bytes,
				   .wake = (const void *)(uintptr_t)fc_home((uintptr_t)p),
				   .op = op,
				   .order = (enum shared_order)order,
				   .scope = (enum shared_scope)scope};
}

/* Charges the time of a bulk access to the resource that it crosses. */
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

/* Checks the access against buffers of collectives. Collectives declare their uses, so only kernels
 * that declared none are checked. */
static inline void run_use(struct dev *d, const void *p, uint64_t bytes, bool write)
{
	struct fc_kernel *k = d->blk->kernel;
	if (UNLIKELY(!__atomic_load_n(&k->known_uses, __ATOMIC_RELAXED) &&
		     __atomic_load_n(&k->ctx->proc->collectives, __ATOMIC_RELAXED)))
		fc_use_kernel(k, (uintptr_t)p, bytes, write);
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
	fc_wrote(p, (size_t)bytes);
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
	fc_wrote(p, (size_t)bytes);
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

/* ---- lines of 16 bytes ---------------------------------------------------------------------- */

/* Stores one half of each line. */
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
	fc_wrote(p, n * DEV_LINE_BYTES);
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
	const uint64_t *at = a.addr;
	for (i = 0; i < n; i++, at += 2) {
		lines[i].lo = __atomic_load_n(at, __ATOMIC_ACQUIRE);
		lines[i].hi = __atomic_load_n(at + 1, __ATOMIC_ACQUIRE);
		if (lines[i].lo >> 32 != flag || lines[i].hi >> 32 != flag)
			break;
	}
	run_charge(d, range, false, i * (uint64_t)DEV_LINE_BYTES);
	return i;
}

/* ---- lines of 128 bytes --------------------------------------------------------------------- */

/* Writes of a line in a GPU's memory, or between two GPUs over NVLink, are atomic: its words become
 * visible together. Over PCIe, also to and from host memory, each word is written separately. */

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

/* Stores words from..to of each line, one by one. The flag is the last of them. */
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
	fc_wrote(p, (size_t)lines * LINE128_WORDS * 8);
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
		fc_wrote(p, LINE128_WORDS * 8);
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

/* Loads whole lines while they have the flag. Returns their number; their words are in `words`. */
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

/* Loads lines that may be torn: the data before the flags. */
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
