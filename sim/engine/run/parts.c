/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The OS threads of the `threads` engine: a part each, which holds the thread's task and its queued
 * events, and how a thread idles between fruitless looks.
 */
#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#include "sim/engine/run/run_internal.h"

enum { PARK_NS = 100000, PARK_MAX_NS = 2000000 };

struct thread_part *threads_all;

/* Creates a thread's part. With a name, the part gets a stand-in for a task of that process. */
static struct thread_part *threads_part_of(const char *name, struct os_proc *proc)
{
	const struct sim_task_attr attr = {.name = name,
					   .kind = SIM_TASK_HOST,
					   .proc = proc,
					   .rank = -1,
					   .background = true,
					   .device = -1,
					   .kernel = -1,
					   .block = -1,
					   .warp = -1,
					   .lane = -1};
	struct thread_part *part = calloc(1, sizeof *part);

	ASSERT(part);
	pthread_mutex_init(&part->lock, NULL);
	part->end = &part->first;
	pthread_mutex_lock(&threads_lock);
	if (name) {
		part->task = task_new(&attr, NULL, NULL);
		ASSERT(part->task);
		part->task->part = part;
		part->task->pub.self.id = UINT32_MAX; /* ids are for tasks only */
		eng.next_task_id--;
		part->stand_in = true;
	}
	part->park_slot = park_slot_new();
	part->next = threads_all;
	threads_all = part;
	pthread_mutex_unlock(&threads_lock);
	return part;
}

struct thread_part *threads_part_new(const char *name)
{
	return threads_part_of(name, &eng.main_proc);
}

static void threads_part_free(struct thread_part *part)
{
	threads_part_free_events(part);
	if (part->stand_in) {
		free(part->task->node);
		free(part->task);
	}
	pthread_mutex_destroy(&part->lock);
	crash_alt_stack_free(part->alt_stack);
	free(part);
}

static struct thread_part *threads_adopt(struct os_proc *proc)
{
	struct thread_part *part = threads_part_of("adopted thread", proc);

	part->thread = pthread_self();
	part->adopted = true;
	thread_part_set(part);
	return part;
}

/* Returns the caller's part. Adopts a thread that was not announced: it becomes a background task
 * of the first process. In a job each thread must belong to a program. */
struct thread_part *threads_part(void)
{
	struct thread_part *part = thread_part_get();

	if (!part && eng.config.programs)
		engine_nameless_thread();
	return part ? part : threads_adopt(&eng.main_proc);
}

void sim_adopt_thread(struct os_proc *proc)
{
	ASSERT(eng.kind == SIM_ENGINE_THREADS && !thread_part_get());
	threads_adopt(proc)->has_proc = true;
}

/* Sets a fine timer: sleeps of microseconds need less than the default slack of 50 us. */
void threads_prepare(void)
{
	prctl(PR_SET_TIMERSLACK, 1000UL);
}

bool threads_pause(uint32_t round)
{
	if (round >= THREADS_PAUSES + THREADS_YIELDS)
		return true;
	if (round >= THREADS_PAUSES) {
		sched_yield();
		return false;
	}
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
	return false;
}

/* Returns the time to park. The first one is short because a missed wake costs it; a task that
 * sleeps for long gets longer ones. */
uint64_t threads_park_ns(uint32_t round)
{
	uint32_t power =
		MIN_OF(round - MIN_OF(round, (uint32_t)(THREADS_PAUSES + THREADS_YIELDS)), 8u);

	return MIN_OF((uint64_t)PARK_NS << power, (uint64_t)PARK_MAX_NS);
}

/* Returns to the yielding rounds after a wake: the write may not have sufficed, and the writer gets
 * the CPU before the next park. */
uint32_t threads_woken(uint32_t round)
{
	return MIN_OF(round, (uint32_t)THREADS_PAUSES);
}

/* Sleeps a little, for tasks that wait for an end, which no write announces. */
void threads_doze(uint32_t round)
{
	uint32_t power = MIN_OF(round / 4, 8u);
	const struct timespec t = {.tv_nsec = 1000 << power};

	nanosleep(&t, NULL);
}

void threads_parts_free(void)
{
	while (threads_all) {
		struct thread_part *part = threads_all;

		threads_all = part->next;
		threads_part_free(part);
	}
	thread_part_forget_all();
}
