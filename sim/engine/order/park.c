/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sleeping and waking in the `threads` engine. A thread parks after enough fruitless looks. It
 * counts itself at the addresses that it watches, in a table by hash, looks once more and sleeps on
 * a futex. A writer tests the count of its address: one load if no thread sleeps for it. It wakes
 * the sleepers whose set of hashed bits contains the address.
 *
 * A writer has no fence between its store and that load, so it may miss a thread that parks at the
 * same instant. Sleeps are therefore short. Nothing depends on being woken: every sleeper looks
 * again by itself.
 */
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sim/engine/order/order_internal.h"

enum { PARK_SLOTS = 512, PARK_GRANULE_SHIFT = 6, PARK_TABLE_BITS = 13, PARK_COUNTS = 4096 };

struct park_slot {
	shared_u64 mask; /* bits of the sleeper; 0: awake */
	shared_u32 woken;
} __attribute__((aligned(64)));

DOPPEL_STATIC_CHECK(PARK_COUNTS == 1 << (64 - 52), "park_event_count uses the top twelve bits");
DOPPEL_CHECK_SIZE(struct park_slot, 64); /* a cache line: sleepers do not disturb each other */

static struct park_slot park_slots[PARK_SLOTS];
static shared_u32 park_used;
static shared_u64 park_counts[PARK_COUNTS];
shared_u32 sim_words_watched; /* the sum of park_sleepers */
static shared_u32 park_sleepers[1 << PARK_TABLE_BITS] __attribute__((aligned(64)));

/* Returns the slot of a new part, or -1: that thread sleeps without being woken. Called under
 * threads_lock. */
int32_t park_slot_new(void)
{
	uint32_t n = __atomic_load_n(&park_used.v_, __ATOMIC_RELAXED);

	if (n == PARK_SLOTS)
		return -1;
	__atomic_store_n(&park_used.v_, n + 1, __ATOMIC_RELEASE);
	return (int32_t)n;
}

void park_reset(void)
{
	park_used.v_ = 0;
	sim_words_watched.v_ = 0;
	memset(park_sleepers, 0, sizeof park_sleepers);
}

static inline uint64_t park_hash(uintptr_t granule)
{
	return granule * 0x9e3779b97f4a7c15ull;
}

static inline shared_u32 *park_count_of(uint64_t hash)
{
	return &park_sleepers[hash >> (64 - PARK_TABLE_BITS)];
}

/* Uses bits that the table does not use, which keeps the two filters independent. */
static inline uint64_t park_bit(uint64_t hash)
{
	return 1ull << (hash >> (64 - PARK_TABLE_BITS - 6) & 63);
}

/* ---- waking --------------------------------------------------------------------------------- */

void park_wake_slot(int32_t slot)
{
	if (slot < 0)
		return;
	ASSERT(slot < PARK_SLOTS);
	struct park_slot *s = &park_slots[slot];
	if (!__atomic_exchange_n(&s->woken.v_, 1, __ATOMIC_ACQ_REL))
		syscall(SYS_futex, &s->woken.v_, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static __attribute__((noinline)) void park_wake(uint64_t bits)
{
	uint32_t n = __atomic_load_n(&park_used.v_, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < n; i++)
		if (__atomic_load_n(&park_slots[i].mask.v_, __ATOMIC_ACQUIRE) & bits)
			park_wake_slot((int32_t)i);
}

void park_wake_all(void)
{
	park_wake(UINT64_MAX);
}

void park_wrote(const void *addr, size_t bytes)
{
	uint64_t bits = 0;

	if (LIKELY(!__atomic_load_n(&sim_words_watched.v_, __ATOMIC_RELAXED)))
		return;
	addr = waits_home(addr);
	uintptr_t g = (uintptr_t)addr >> PARK_GRANULE_SHIFT;
	uintptr_t last = ((uintptr_t)addr + (bytes ? bytes - 1 : 0)) >> PARK_GRANULE_SHIFT;

	if (last - g >= 1 << PARK_TABLE_BITS) {
		park_wake_all();
		return;
	}
	for (; g <= last; g++) {
		uint64_t hash = park_hash(g);

		if (UNLIKELY(__atomic_load_n(&park_count_of(hash)->v_, __ATOMIC_RELAXED)))
			bits |= park_bit(hash);
	}
	if (UNLIKELY(bits != 0))
		park_wake(bits);
}

/* ---- sleeping ------------------------------------------------------------------------------- */

static uint64_t park_watch_one(const void *addr, int32_t by)
{
	uint64_t hash = park_hash((uintptr_t)addr >> PARK_GRANULE_SHIFT);

	__atomic_fetch_add(&sim_words_watched.v_, (uint32_t)by, __ATOMIC_RELAXED);
	__atomic_fetch_add(&park_count_of(hash)->v_, (uint32_t)by, __ATOMIC_RELAXED);
	return park_bit(hash);
}

uint64_t park_watch(const struct wait *const *w, int n, const shared_u32 *abort, int32_t by)
{
	uint64_t bits = abort ? park_watch_one(abort, by) : 0;

	ASSERT(by == 1 || by == -1);
	for (int i = 0; i < n; i++)
		bits |= park_watch_one(waits_home(w[i]->on), by);
	return bits;
}

/* True if it was woken or did not have to sleep. */
bool park(int32_t slot, uint64_t bits, bool (*look)(void *arg), void *arg, uint64_t max_ns)
{
	struct timespec t = {.tv_sec = (time_t)(max_ns / 1000000000),
			     .tv_nsec = (long)(max_ns % 1000000000)};

	if (slot < 0) {
		nanosleep(&t, NULL);
		return false;
	}
	struct park_slot *s = &park_slots[slot];
	__atomic_store_n(&s->woken.v_, 0, __ATOMIC_SEQ_CST);
	__atomic_exchange_n(&s->mask.v_, bits, __ATOMIC_SEQ_CST);
	bool woken = look(arg);
	if (!woken)
		woken = syscall(SYS_futex, &s->woken.v_, FUTEX_WAIT_PRIVATE, 0, &t, NULL, 0) == 0;
	__atomic_store_n(&s->mask.v_, 0, __ATOMIC_RELEASE);
	return woken;
}

/* ---- event counts --------------------------------------------------------------------------- */

static shared_u64 *park_event_count(const void *object)
{
	return &park_counts[((uintptr_t)object * 0x9e3779b97f4a7c15ull) >> 52];
}

uint64_t park_event_seq(const void *object)
{
	if (UNLIKELY(!sim_posts_matter()))
		__atomic_store_n(&sim_mode.posts, true, __ATOMIC_SEQ_CST);
	return __atomic_load_n(&park_event_count(object)->v_, __ATOMIC_ACQUIRE);
}

void park_event_post(const void *object)
{
	__atomic_fetch_add(&park_event_count(object)->v_, 1, __ATOMIC_ACQ_REL);
	park_wrote(object, 1);
}
