/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fibers: stacks that a switch leaves and later resumes. Only the two schedulers call this. A
 * suspended fiber is one word, the stack pointer that fiber_switch saved. Everything else is on its
 * stack, at offsets that the CFI of fiber_switch describes. gdb therefore unwinds it with (pc =
 * fiber_resume_pc, sp = that word), live and in core files.
 *
 * The fiber of a task has its own stack from a pool. The stack that a scheduler loop runs on is a
 * fiber too (fiber_adopt), without a stack from the pool. A loop enters a task's fiber, and the
 * fiber returns to the loop that entered it. It never moves to another OS thread.
 *
 * Stacks are reused across launches and worlds. Each has canary words at its low end, which stay
 * 0: a look at a page that was never written costs no memory. While fewer than FIBER_GUARDED_MAX
 * exist it also has an inaccessible page below; more would exceed vm.max_map_count. The canary is
 * checked at exit and at every switch. With a guard page it is checked at every 64th switch only,
 * because it is a cache line of its own. AddressSanitizer and
 * ThreadSanitizer are informed of every switch, with gcc and with clang. Functions return 0 or a
 * positive errno.
 */
#ifndef SIM_ENGINE_BASE_FIBER_H
#define SIM_ENGINE_BASE_FIBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__ 1
#endif
#if __has_feature(thread_sanitizer) && !defined(__SANITIZE_THREAD__)
#define __SANITIZE_THREAD__ 1
#endif
#endif

/* Under ThreadSanitizer a switch must not be in an instrumented function: it would be entered on
 * one fiber's shadow stack and exited on another's. clang's no_sanitize still counts entry and
 * exit. */
#ifndef __has_attribute
#define __has_attribute(x) 0
#endif
#ifndef __SANITIZE_THREAD__
#define FIBER_PLAIN
#elif __has_attribute(disable_sanitizer_instrumentation)
#define FIBER_PLAIN __attribute__((disable_sanitizer_instrumentation))
#else
#define FIBER_PLAIN __attribute__((no_sanitize("thread")))
#endif

enum { FIBER_GUARDED_MAX = 8192, FIBER_CANARY_WORDS = 8 };

struct fiber_stack; /* pool entry, kept outside the stack: an overflow must not reach it */

struct fiber {
	void **sp;                 /* location of the suspended stack pointer */
	struct fiber_stack *stack; /* NULL: adopted */
	char *low;                 /* lowest usable byte, above the guard */
	bool guarded;              /* it has a guard page */
	size_t bytes;
	struct fiber *home; /* the loop that entered it */
	void (*fn)(void *arg);
	void *arg;
	void *asan_fake;
	void *tsan;
};

/* Makes the running stack a fiber, to which others can switch; a switch away from it writes *sp. */
void fiber_adopt(struct fiber *f, void **sp);
void fiber_abandon(struct fiber *f); /* undoes fiber_adopt */

/* Creates a fiber that will run fn(arg). fn must not return, but end with fiber_exit(). ENOMEM. */
int fiber_create(struct fiber *f, void **sp, size_t stack_bytes, void (*fn)(void *), void *arg);
/* Returns the stack to the pool. The fiber never runs again. */
void fiber_release(struct fiber *f);

void fiber_exit(struct fiber *f) __attribute__((noreturn));

/* True if the canary or the stack pointer shows that the stack has overflowed. */
bool fiber_overflowed(const struct fiber *f);
/* True if fiber_overflowed is due after the n-th switch. */
static inline bool fiber_suspect(const struct fiber *f, uint64_t n)
{
	return !f->guarded || n % 64 == 0 || (const char *)*f->sp - f->low < 64;
}
/* True if the address is on one of the existing stacks. Not safe while other threads create
 * stacks. */
bool fiber_on_stack(const void *addr);
/* True if addr is in the guard page below the stack. */
bool fiber_guard_hit(const struct fiber *f, const void *addr);

/* The assembly, and the address at which every suspended fiber continues. */
void fiber_switch(void **save_sp, void *load_sp);
extern const char fiber_resume_pc[];

/* fiber_enter switches from a loop into a fiber; it returns when the fiber suspends or ends.
 * fiber_suspend switches back to the loop that entered the fiber; it returns when the fiber is
 * entered again. Both are inline: the processor mispredicts each return after a switch. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
void fiber_enter(struct fiber *loop, struct fiber *f);
void fiber_suspend(struct fiber *f);
#else
static inline void fiber_enter(struct fiber *loop, struct fiber *f)
{
	f->home = loop;
	fiber_switch(loop->sp, *f->sp);
}
static inline void fiber_suspend(struct fiber *f)
{
	fiber_switch(f->sp, *f->home->sp);
}
#endif

#endif
