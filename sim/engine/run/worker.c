/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Workers of the `threads` engine: OS threads that run warps. Warps are fibers and never leave
 * their worker. A waiting warp switches to the worker's loop, which checks every wait and enters
 * the warps whose wait is true.
 */
#include <stdlib.h>
#include <unistd.h>

#include "sim/engine/run/run_internal.h"

enum { WORKER_POINTS = 1024 }; /* scheduling points before a warp lets the others run */

enum { WORKERS_MAX = 256 };

struct worker {
	struct thread_part *part;
	struct fiber loop;
	void *loop_sp;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	struct task *inbox, **inbox_end; /* linked by ready_next */
	shared_u32 inbox_full;           /* a hint that saves the lock */
	bool stop;
};

static struct worker *workers[WORKERS_MAX];

static void worker_entry(void *arg)
{
	struct task *t = arg;

	t->fn(t->arg);
	t->pub.state = SIM_TASK_DONE;
	fiber_exit(&t->fiber);
}

int worker_spawn(struct task *t, uint32_t home)
{
	if (!eng.config.workers)
		return ENOSYS; /* the engine of a foreign program */
	struct worker *k = workers[home % eng.config.workers];
	int rc = fiber_create(&t->fiber, &t->pub.sp, t->stack_bytes, worker_entry, t);
	if (rc)
		return rc;
	t->part = k->part;
	t->pub.state = SIM_TASK_READY;
	t->ready_next = NULL;
	pthread_mutex_lock(&k->lock);
	*k->inbox_end = t;
	k->inbox_end = &t->ready_next;
	__atomic_store_n(&k->inbox_full.v_, 1, __ATOMIC_RELEASE);
	pthread_cond_signal(&k->cond);
	pthread_mutex_unlock(&k->lock);
	park_wake_slot(k->part->park_slot);
	return 0;
}

void worker_suspend(struct task *t)
{
	ASSERT(t->part == thread_part_get() && t->part->running == t);
	ASSERT(t->pub.state != SIM_TASK_RUNNING); /* worker_may_run reads why it stops */
	fiber_suspend(&t->fiber);
}

/* A scheduling point of a warp: after every WORKER_POINTS of them the other warps run. */
void worker_point(struct task *t)
{
	if (++t->part->point_countdown < WORKER_POINTS)
		return;
	t->part->point_countdown = 0;
	t->pub.state = SIM_TASK_READY;
	worker_suspend(t);
}

static bool worker_may_run(const struct task *t)
{
	const struct sim_task *p = &t->pub;

	if (p->state == SIM_TASK_READY || threads_killed(t))
		return true;
	if (p->state == SIM_TASK_SLEEPING)
		return threads_now_ns() >= p->wake_ns;
	ASSERT(p->state == SIM_TASK_WAITING);
	if (waits_aborted(p->wait_abort) || waits_first_true(p->wait, p->wait_n) >= 0)
		return true;
	return p->wake_ns && threads_now_ns() >= p->wake_ns;
}

/* Frees a warp that is done, was killed, or never ran to its end. Its waits may lie on the stack
 * that is freed here. */
static void worker_gone(struct task *t)
{
	show_state(t, t->pub.state == SIM_TASK_DONE ? SIM_TASK_DONE : SIM_TASK_KILLED);
	fiber_release(&t->fiber);
	threads_task_gone(t);
}

/* Runs the warp, or drops it if its process was killed; true if it is freed. */
static bool worker_run(struct worker *k, struct task *t)
{
	ASSERT(!k->part->running);
	if (!threads_killed(t)) {
		t->pub.state = SIM_TASK_RUNNING;
		t->pub.switches++;
		k->part->running = t;
		fiber_enter(&k->loop, &t->fiber);
		k->part->running = NULL;
		if (UNLIKELY(fiber_overflowed(&t->fiber)))
			engine_fail(SIM_CRASH, "stack",
				    "task %u \"%s\" overflowed its stack of %zu bytes",
				    t->pub.self.id, t->pub.name, t->fiber.bytes);
		if (t->pub.state != SIM_TASK_DONE)
			return false;
	}
	worker_gone(t);
	return true;
}

/* Looks at every warp once; true if one ran. */
static bool worker_pass(struct worker *k, struct task **list)
{
	bool ran = false;

	for (struct task **at = list; *at;) {
		struct task *t = *at, *next = t->ready_next;

		if (!worker_may_run(t)) {
			at = &t->ready_next;
			continue;
		}
		ran = true;
		if (worker_run(k, t))
			*at = next;
		else
			at = &t->ready_next;
	}
	return ran;
}

/* Appends newly spawned warps to the list. If the list is empty, sleeps until there is one. False:
 * the worker stops. */
static bool worker_take_inbox(struct worker *k, struct task **list)
{
	if (*list && !__atomic_load_n(&k->inbox_full.v_, __ATOMIC_ACQUIRE))
		return true;
	pthread_mutex_lock(&k->lock);
	while (!*list && !k->inbox && !k->stop)
		pthread_cond_wait(&k->cond, &k->lock);
	while (*list)
		list = &(*list)->ready_next;
	*list = k->inbox;
	k->inbox = NULL;
	k->inbox_end = &k->inbox;
	__atomic_store_n(&k->inbox_full.v_, 0, __ATOMIC_RELAXED);
	bool go_on = !k->stop;
	pthread_mutex_unlock(&k->lock);
	return go_on;
}

struct worker_view {
	struct worker *worker;
	struct task *list;
};

static bool worker_view_changed(void *arg)
{
	const struct worker_view *v = arg;

	if (__atomic_load_n(&v->worker->inbox_full.v_, __ATOMIC_ACQUIRE))
		return true;
	for (const struct task *t = v->list; t; t = t->ready_next)
		if (worker_may_run(t))
			return true;
	return false;
}

static uint64_t worker_watch(const struct task *list, int32_t by)
{
	uint64_t bits = 0;

	for (const struct task *t = list; t; t = t->ready_next)
		if (t->pub.state == SIM_TASK_WAITING)
			bits |= park_watch(t->pub.wait, t->pub.wait_n, t->pub.wait_abort, by);
	return bits;
}

/* Idles while every warp waits: sleeps until a watched word changes, a deadline passes or a warp
 * arrives. This is the round-th time in a row; returns the next round. */
static uint32_t worker_idle(struct worker *k, struct task *list, uint32_t round)
{
	struct worker_view view = {k, list};
	uint64_t ns = threads_park_ns(round);

	if (!threads_pause(round))
		return round + 1;
	uint64_t now = threads_now_ns(), bits = worker_watch(list, 1);
	for (const struct task *t = list; t; t = t->ready_next)
		if (t->pub.wake_ns)
			ns = MIN_OF(ns, t->pub.wake_ns > now ? t->pub.wake_ns - now : 1);
	if (park(k->part->park_slot, bits, worker_view_changed, &view, ns))
		round = threads_woken(round);
	worker_watch(list, -1);
	return round + 1;
}

static void *worker_main(void *arg)
{
	struct worker *k = arg;
	struct task *list = NULL;
	uint32_t idle = 0;

	thread_part_set(k->part);
	crash_alt_stack(&k->part->alt_stack);
	threads_prepare();
	fiber_adopt(&k->loop, &k->loop_sp);
	while (worker_take_inbox(k, &list)) {
		if (worker_pass(k, &list))
			idle = 0;
		else
			idle = worker_idle(k, list, idle);
		threads_events_drain();
	}
	while (list) { /* discarded without running */
		struct task *t = list;

		list = t->ready_next;
		worker_gone(t);
	}
	fiber_abandon(&k->loop);
	return NULL;
}

/* ---- life ----------------------------------------------------------------------------------- */

int workers_start(void)
{
	if (!eng.config.workers)
		eng.config.workers = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
	eng.config.workers = MIN_OF(eng.config.workers, (uint32_t)WORKERS_MAX);
	for (uint32_t i = 0; i < eng.config.workers; i++) {
		struct worker *k = workers[i] = calloc(1, sizeof *k);
		char name[32];

		ASSERT(k);
		snprintf(name, sizeof name, "worker %u", i);
		k->part = threads_part_new(name);
		k->part->worker = k;
		k->inbox_end = &k->inbox;
		pthread_mutex_init(&k->lock, NULL);
		pthread_cond_init(&k->cond, NULL);
		int rc = pthread_create(&k->part->thread, NULL, worker_main, k);
		if (rc)
			return rc;
	}
	return 0;
}

void workers_join(void)
{
	for (uint32_t i = 0; i < eng.config.workers; i++) {
		struct worker *k = workers[i];

		pthread_mutex_lock(&k->lock);
		k->stop = true;
		__atomic_store_n(&k->inbox_full.v_, 1, __ATOMIC_RELEASE);
		pthread_cond_signal(&k->cond);
		pthread_mutex_unlock(&k->lock);
		pthread_join(k->part->thread, NULL);
		pthread_mutex_destroy(&k->lock);
		pthread_cond_destroy(&k->cond);
		free(k);
		workers[i] = NULL;
	}
}
