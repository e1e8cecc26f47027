/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The only thread-local of the engine, in a translation unit of its own. Code that can switch
 * fibers calls these functions and never holds the variable's address. A thread that outlives the
 * engine (an adopted foreign one) is unknown to the next engine.
 */
#include "sim/engine/base/engine_internal.h"

/* Accessed without a call: initial-exec uses the little static TLS room that the loader reserves
 * for libraries loaded later. */
#define THREAD_LOCAL static __thread __attribute__((tls_model("initial-exec")))

THREAD_LOCAL struct thread_part *thread_part_mine;
THREAD_LOCAL uint32_t thread_part_of;
static uint32_t thread_generation = 1;

__attribute__((noinline)) struct thread_part *thread_part_get(void)
{
	__asm__ volatile("" ::: "memory");
	return thread_part_of == __atomic_load_n(&thread_generation, __ATOMIC_RELAXED)
		       ? thread_part_mine
		       : NULL;
}

__attribute__((noinline)) void thread_part_set(struct thread_part *part)
{
	thread_part_mine = part;
	thread_part_of = __atomic_load_n(&thread_generation, __ATOMIC_RELAXED);
}

void thread_part_forget_all(void)
{
	__atomic_fetch_add(&thread_generation, 1, __ATOMIC_RELAXED);
}

struct task *threads_self(void)
{
	const struct thread_part *part = thread_part_get();

	if (!part)
		return NULL;
	return part->running ? part->running : part->task;
}
