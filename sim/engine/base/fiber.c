/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/engine/base/fiber.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/macros.h"

#ifdef __SANITIZE_ADDRESS__
void __sanitizer_start_switch_fiber(void **fake, const void *bottom, size_t size);
void __sanitizer_finish_switch_fiber(void *fake, const void **bottom_old, size_t *size_old);
void __asan_unpoison_memory_region(const volatile void *addr, size_t size);
#endif
#ifdef __SANITIZE_THREAD__
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void *fiber);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
#endif

#ifdef __SANITIZE_THREAD__
#define FIBER_INLINE FIBER_PLAIN __attribute__((always_inline))
#else
#define FIBER_INLINE
#endif

extern const char fiber_entry[];

/* Kept outside the stacks: an overflow must not reach it. */
struct fiber_stack {
	struct fiber_stack *next;
	char *map; /* guard page included */
	size_t map_bytes;
	size_t guard_bytes;
	bool guarded;
	void *tsan; /* reused with the stack: creating one is slow */
	struct fiber_grain {
		struct fiber_grain *next;
		struct fiber_stack *stack;
		uintptr_t number;
	} grain[]; /* index entries: the pieces of the address space that the stack reaches into */
};

enum { FIBER_GRAIN_SHIFT = 17, FIBER_GRAIN_BUCKETS = 4096 };
DOPPEL_STATIC_CHECK(FIBER_GRAIN_BUCKETS == 1 << (64 - 52), "fiber_grain_bucket uses twelve bits");
DOPPEL_STATIC_CHECK(FIBER_CANARY_WORDS * sizeof(uint64_t) == 64,
		    "fiber_suspect has the bytes of the canary");

static pthread_mutex_t fiber_pool_lock = PTHREAD_MUTEX_INITIALIZER;
static struct fiber_stack *fiber_pool_free;
static size_t fiber_pool_total;
static struct fiber_grain *fiber_index[FIBER_GRAIN_BUCKETS];

static size_t fiber_page_bytes(void)
{
	static size_t bytes;

	if (!bytes)
		bytes = (size_t)sysconf(_SC_PAGESIZE);
	return bytes;
}

static struct fiber_grain **fiber_grain_bucket(uintptr_t number)
{
	return &fiber_index[(number * 0x9e3779b97f4a7c15ull) >> 52];
}

/* Returns the greatest number of grains that a stack may reach into. */
static size_t fiber_grains(size_t map_bytes)
{
	return (map_bytes >> FIBER_GRAIN_SHIFT) + 2;
}

static void fiber_index_add(struct fiber_stack *s)
{
	uintptr_t first = (uintptr_t)s->map >> FIBER_GRAIN_SHIFT;

	for (size_t i = 0; i < fiber_grains(s->map_bytes); i++) {
		struct fiber_grain **bucket = fiber_grain_bucket(first + i);

		s->grain[i] =
			(struct fiber_grain){.next = *bucket, .stack = s, .number = first + i};
		*bucket = &s->grain[i];
	}
}

bool fiber_on_stack(const void *addr)
{
	uintptr_t number = (uintptr_t)addr >> FIBER_GRAIN_SHIFT;

	for (const struct fiber_grain *g = *fiber_grain_bucket(number); g; g = g->next)
		if (g->number == number &&
		    (size_t)((const char *)addr - g->stack->map) < g->stack->map_bytes)
			return true;
	return false;
}

static struct fiber_stack *fiber_stack_map(size_t bytes)
{
	size_t guard = fiber_page_bytes(), map_bytes = ALIGN_UP(bytes, guard) + guard;
	struct fiber_stack *s = calloc(1, sizeof *s + fiber_grains(map_bytes) * sizeof s->grain[0]);

	if (!s)
		return NULL;
	s->map_bytes = map_bytes;
	s->guard_bytes = guard;
	s->map = mmap(NULL, s->map_bytes, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
	if (s->map == MAP_FAILED) {
		free(s);
		return NULL;
	}
	/* without a guard page its bytes stay usable, and the canary still shows an overflow */
	if (fiber_pool_total < FIBER_GUARDED_MAX)
		s->guarded = mprotect(s->map, guard, PROT_NONE) == 0;
	fiber_index_add(s);
#ifdef __SANITIZE_THREAD__
	s->tsan = __tsan_create_fiber(0);
#endif
	return s;
}

/* Returns a stack from the pool, by first fit: all stacks of one run have the same size, so the
 * first one nearly always fits. */
static struct fiber_stack *fiber_stack_get(size_t bytes)
{
	struct fiber_stack **at, *s;

	pthread_mutex_lock(&fiber_pool_lock);
	for (at = &fiber_pool_free; (s = *at); at = &s->next) {
		if (s->map_bytes - s->guard_bytes >= bytes) {
			*at = s->next;
			break;
		}
	}
	if (!s) {
		s = fiber_stack_map(bytes);
		fiber_pool_total += s != NULL;
	}
	pthread_mutex_unlock(&fiber_pool_lock);
	return s;
}

/* ---- sanitizers ----------------------------------------------------------------------------- */

static inline FIBER_INLINE void fiber_leave(struct fiber *from, struct fiber *to, bool for_good)
{
	(void)from, (void)to, (void)for_good;
#ifdef __SANITIZE_THREAD__
	__tsan_switch_to_fiber(to->tsan, 0);
#endif
#ifdef __SANITIZE_ADDRESS__
	__sanitizer_start_switch_fiber(for_good ? NULL : &from->asan_fake, to->low, to->bytes);
#endif
}

/* Runs on the stack of `f` after a switch; stores the bounds of the loop's stack. */
static inline FIBER_INLINE void fiber_arrive(struct fiber *f)
{
	(void)f;
#ifdef __SANITIZE_ADDRESS__
	const void *low = NULL;
	size_t bytes = 0;

	__sanitizer_finish_switch_fiber(f->asan_fake, &low, &bytes);
	if (f->home) {
		f->home->low = (char *)(uintptr_t)low;
		f->home->bytes = bytes;
	}
#endif
}

/* ---- life ----------------------------------------------------------------------------------- */

void fiber_adopt(struct fiber *f, void **sp)
{
	memset(f, 0, sizeof *f);
	f->sp = sp;
#ifdef __SANITIZE_THREAD__
	f->tsan = __tsan_get_current_fiber();
#endif
}

void fiber_abandon(struct fiber *f)
{
	memset(f, 0, sizeof *f);
}

static FIBER_PLAIN __attribute__((no_sanitize("address"))) void fiber_trampoline(void *arg)
{
	struct fiber *f = arg;

	fiber_arrive(f);
	f->fn(f->arg);
	ASSERT(!"a fiber's function returned");
}

/* Builds the frame that fiber_switch pops at the first switch into the fiber. */
static void *fiber_first_frame(char *high, struct fiber *f)
{
	uint64_t *sp = (uint64_t *)((uintptr_t)high & ~(uintptr_t)15);

#if defined(__x86_64__)
	sp -= 2; /* fiber_entry finds the stack aligned to 16 */
	sp[0] = sp[1] = 0;
	*--sp = (uint64_t)(uintptr_t)fiber_entry;
	*--sp = 0;                                     /* rbp */
	*--sp = 0;                                     /* rbx */
	*--sp = (uint64_t)(uintptr_t)fiber_trampoline; /* r12 */
	*--sp = (uint64_t)(uintptr_t)f;                /* r13 */
	*--sp = 0;                                     /* r14 */
	*--sp = 0;                                     /* r15 */
#elif defined(__aarch64__)
	sp -= 20;
	memset(sp, 0, 160);
	sp[0] = (uint64_t)(uintptr_t)fiber_trampoline; /* x19 */
	sp[1] = (uint64_t)(uintptr_t)f;                /* x20 */
	sp[11] = (uint64_t)(uintptr_t)fiber_entry;     /* x30 */
#else
#error "fibers are written for x86-64 and aarch64"
#endif
	return sp;
}

int fiber_create(struct fiber *f, void **sp, size_t stack_bytes, void (*fn)(void *), void *arg)
{
	struct fiber_stack *s = fiber_stack_get(stack_bytes);

	if (!s)
		return ENOMEM;
	memset(f, 0, sizeof *f);
	f->sp = sp;
	f->stack = s;
	f->low = s->map + s->guard_bytes;
	f->bytes = s->map_bytes - s->guard_bytes;
	ASSERT(f->bytes >= stack_bytes && (uintptr_t)(f->low + f->bytes) % 16 == 0);
	f->guarded = s->guarded;
	f->fn = fn;
	f->arg = arg;
	f->tsan = s->tsan;
#ifdef __SANITIZE_ADDRESS__
	__asan_unpoison_memory_region(f->low, f->bytes);
#endif
	*sp = fiber_first_frame(f->low + f->bytes, f);
	return 0;
}

void fiber_release(struct fiber *f)
{
	struct fiber_stack *s = f->stack;

	ASSERT(s);
	f->stack = NULL;
	pthread_mutex_lock(&fiber_pool_lock);
	s->next = fiber_pool_free;
	fiber_pool_free = s;
	pthread_mutex_unlock(&fiber_pool_lock);
}

bool fiber_overflowed(const struct fiber *f)
{
	const uint64_t *word = (const uint64_t *)f->low;
	uint64_t wrong = 0;

	for (int i = 0; i < FIBER_CANARY_WORDS; i++)
		wrong |= word[i];
	return wrong || (char *)*f->sp < f->low + sizeof(uint64_t) * FIBER_CANARY_WORDS;
}

bool fiber_guard_hit(const struct fiber *f, const void *addr)
{
	const char *p = addr;

	return f->stack && p >= f->stack->map && p < f->low;
}

/* ---- switching ------------------------------------------------------------------------------ */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
FIBER_PLAIN void fiber_enter(struct fiber *loop, struct fiber *f)
{
	f->home = loop;
	fiber_leave(loop, f, false);
	fiber_switch(loop->sp, *f->sp);
	fiber_arrive(loop);
}

FIBER_PLAIN void fiber_suspend(struct fiber *f)
{
	struct fiber *loop = f->home;

	fiber_leave(f, loop, false);
	fiber_switch(f->sp, *loop->sp);
	fiber_arrive(f);
}
#endif

FIBER_PLAIN void fiber_exit(struct fiber *f)
{
	fiber_leave(f, f->home, true);
	fiber_switch(f->sp, *f->home->sp);
	__builtin_unreachable();
}
