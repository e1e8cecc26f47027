/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tasks of `threads`: a host task is a pthread. A task of a killed process ends at its next wait,
 * sleep, poll or scheduling point. A background task ends there once the run is over. A program's
 * own thread stops there, because its process is about to exit.
 */
#include <stdlib.h>
#include <unistd.h>

#include "sim/engine/run/run_internal.h"

shared_u32 threads_kills;
static shared_u32 threads_stopping;
static pthread_cond_t threads_ended = PTHREAD_COND_INITIALIZER;

/* ---- ends ----------------------------------------------------------------------------------- */

bool threads_killed(const struct task *t)
{
	return __atomic_load_n(&threads_kills.v_, __ATOMIC_ACQUIRE) &&
	       __atomic_load_n(&t->killed.v_, __ATOMIC_ACQUIRE);
}

/* Removes a task that has ended: unlists and uncounts it, and wakes its joiner. Frees a warp. */
void threads_task_gone(struct task *t)
{
	show_lock_to_remove(t);
	ASSERT(eng.live > 0 && eng.live >= eng.live_foreground);
	eng.live--;
	eng.live_foreground -= !t->pub.background;
	if (t->pub.kind == SIM_TASK_WARP) {
		task_list_remove(t);
		t->wake_next = eng.task_pool;
		eng.task_pool = t;
	} else {
		__atomic_store_n(&t->done.v_, 1, __ATOMIC_RELEASE);
		park_wrote(&t->done, sizeof t->done);
	}
	pthread_cond_broadcast(&threads_ended);
	pthread_mutex_unlock(&threads_lock);
}

/* True if the task must end: its process was killed, or the run is over for it. */
bool threads_ends(const struct task *t)
{
	bool over =
		t->pub.background && __atomic_load_n(&threads_stopping.v_, __ATOMIC_ACQUIRE) != 0;

	return (over || threads_killed(t)) && t->part->is_host;
}

/* Stops an adopted thread of a program whose run is over, so that it does not use what is about to
 * be freed. */
static void threads_maybe_stop(struct thread_part *part)
{
	if (!part->adopted || !engine_has_programs() ||
	    !__atomic_load_n(&threads_stopping.v_, __ATOMIC_ACQUIRE))
		return;
	__atomic_store_n(&part->waits.v_, 0, __ATOMIC_RELEASE);
	for (;;)
		pause();
}

void threads_waits(const struct task *t, bool on)
{
	if (!t->part->adopted)
		return;
	__atomic_store_n(&t->part->waits.v_, on, __ATOMIC_RELEASE);
	if (!on)
		threads_maybe_stop(t->part);
}

void threads_maybe_end(struct task *t)
{
	threads_maybe_stop(t->part);
	if (!threads_ends(t))
		return;
	show_state(t, threads_killed(t) ? SIM_TASK_KILLED : SIM_TASK_DONE);
	threads_task_gone(t);
	pthread_exit(NULL);
}

void threads_kill_proc(struct os_proc *proc)
{
	struct task *self = threads_self();
	bool alive;
	uint32_t round = 0;

	ASSERT(!self || self->pub.self.proc != proc);
	__atomic_store_n(&threads_kills.v_, 1, __ATOMIC_RELEASE);
	engine_mode_end_calm();
	do {
		alive = false;
		pthread_mutex_lock(&threads_lock);
		for (struct sim_task *p = sim_task_first(); p; p = p->next) {
			struct task *t = task_of(p);

			if (p->self.proc != proc || t == eng.main_task)
				continue;
			__atomic_store_n(&t->killed.v_, 1, __ATOMIC_RELEASE);
			alive |= !__atomic_load_n(&t->done.v_, __ATOMIC_ACQUIRE);
		}
		pthread_mutex_unlock(&threads_lock);
		park_wake_all();
		if (alive)
			threads_doze(round++);
	} while (alive);
}

/* ---- tasks ---------------------------------------------------------------------------------- */

/* Removes a host task that has ended, whose thread is joined, or is detached and will not be
 * joined. */
void threads_forget(struct task *t)
{
	show_lock_to_remove(t);
	t->joined = true;
	t->part->joined = true;
	task_list_remove(t);
	t->part->task = NULL;
	t->wake_next = eng.task_pool;
	eng.task_pool = t;
	pthread_mutex_unlock(&threads_lock);
}

/* Detaches the calling thread at the end of its detached task, unless the stopping engine already
 * joins it. */
static void threads_detach_self(struct task *t)
{
	pthread_mutex_lock(&threads_lock);
	bool mine = !t->part->joined;
	t->part->joined = true;
	pthread_mutex_unlock(&threads_lock);
	if (!mine)
		return;
	pthread_detach(pthread_self());
	threads_forget(t);
}

static void *threads_host_main(void *arg)
{
	struct task *t = arg;

	thread_part_set(t->part);
	crash_alt_stack(&t->part->alt_stack);
	threads_prepare();
	t->fn(t->arg);
	threads_events_drain();
	show_state(t, SIM_TASK_DONE);
	threads_task_gone(t);
	if (t->pub.detached)
		threads_detach_self(t);
	return NULL;
}

static void threads_list_add(struct task *t)
{
	pthread_mutex_lock(&threads_lock);
	task_list_add(t);
	eng.live++;
	eng.live_foreground += !t->pub.background;
	pthread_mutex_unlock(&threads_lock);
}

static int threads_spawn_host(struct task *t)
{
	struct thread_part *part = threads_part_new(NULL);

	t->part = part;
	part->task = t;
	t->pub.state = SIM_TASK_RUNNING;
	part->is_host = true;
	threads_list_add(t);
	int rc = pthread_create(&part->thread, NULL, threads_host_main, t);
	if (rc) /* on success a detached part may already be freed */
		part->joined = true;
	return rc;
}

int threads_spawn(struct sim_task **out, const struct sim_task_attr *attr, void (*fn)(void *),
		  void *arg)
{
	pthread_mutex_lock(&threads_lock);
	struct task *t = task_new(attr, fn, arg);
	pthread_mutex_unlock(&threads_lock);
	int rc;

	if (!t)
		return ENOMEM;
	*out = &t->pub;
	if (attr->kind == SIM_TASK_HOST) {
		rc = threads_spawn_host(t);
		if (rc)
			threads_task_gone(t);
		return rc;
	}
	threads_list_add(t);
	rc = worker_spawn(t, attr->home);
	if (rc)
		threads_task_gone(t);
	return rc;
}

/* ---- life ----------------------------------------------------------------------------------- */

int threads_start(void)
{
	park_reset();
	struct thread_part *part = threads_part_new(NULL);

	threads_stopping.v_ = threads_kills.v_ = 0;
	part->task = eng.main_task;
	part->thread = pthread_self();
	eng.main_task->part = part;
	eng.main_task->pub.state = SIM_TASK_RUNNING;
	thread_part_set(part);
	threads_list_add(eng.main_task);
	int rc = timers_start();
	if (!rc && !eng.config.foreign)
		rc = workers_start();
	if (rc) /* nothing is undone: the program cannot continue without these threads */
		fprintf(stderr, "engine: cannot start %u workers and a timer thread: %s\n",
			eng.config.workers, strerror(rc));
	return rc;
}

static void threads_join_hosts(void)
{
	struct thread_part *part;

	do {
		pthread_mutex_lock(&threads_lock);
		for (part = threads_all; part; part = part->next)
			if (part->is_host && !part->joined)
				break;
		if (part)
			part->joined = true;
		pthread_mutex_unlock(&threads_lock);
		if (part)
			pthread_join(part->thread, NULL);
	} while (part);
}

/* Ends the main task and waits for the other foreground tasks. False: some have not ended after
 * limit_ns. */
static bool threads_main_over(uint64_t limit_ns)
{
	uint64_t until = threads_now_ns() + threads_wall_offset_ns() + limit_ns;
	const struct timespec t = {.tv_sec = (time_t)(until / 1000000000),
				   .tv_nsec = (long)(until % 1000000000)};
	int rc = 0;

	threads_events_drain();
	show_state(eng.main_task, SIM_TASK_DONE);
	threads_task_gone(eng.main_task);
	pthread_mutex_lock(&threads_lock);
	while (eng.live_foreground && !rc)
		rc = limit_ns ? pthread_cond_timedwait(&threads_ended, &threads_lock, &t)
			      : pthread_cond_wait(&threads_ended, &threads_lock);
	pthread_mutex_unlock(&threads_lock);
	return rc == 0;
}

enum { THREADS_STOP_ROUNDS = 4096 }; /* about a second */

static bool threads_adopted_waits(void)
{
	bool any = false;

	pthread_mutex_lock(&threads_lock);
	for (const struct thread_part *p = threads_all; p; p = p->next)
		any |= __atomic_load_n(&p->waits.v_, __ATOMIC_ACQUIRE);
	pthread_mutex_unlock(&threads_lock);
	return any;
}

/* Ends all remaining tasks. */
static void threads_end(void)
{
	__atomic_store_n(&threads_stopping.v_, 1, __ATOMIC_RELEASE);
	engine_mode_end_calm();
	park_wake_all();
	for (uint32_t i = 0; i < THREADS_STOP_ROUNDS && engine_has_programs(); i++) {
		if (!threads_adopted_waits())
			break;
		threads_doze(i);
	}
	threads_join_hosts();
	workers_join();
	timers_join();
}

/* Runs fn as the main task on the caller's thread. Returns when no foreground task and no other
 * thread of the engine is alive. */
void threads_run(void (*fn)(void *), void *arg)
{
	threads_prepare();
	fn(arg);
	(void)threads_main_over(0);
	threads_end();
}

void threads_stop(bool ran)
{
	if (!ran)
		threads_end();
	timers_stop();
	threads_parts_free();
}

bool threads_part_main(uint64_t limit_ns)
{
	if (!threads_main_over(limit_ns))
		return false;
	threads_end();
	return true;
}
