/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Publishes the waits of tasks of `threads` to the hang explainer, which reads them from another
 * thread while the tasks run. The waits of a task lie on its stack. The explainer therefore holds
 * each task that it reads. A held task runs, but it neither begins nor ends a wait, and it does not
 * end. Its other fields (name, step, and the state of a warp that its worker starts or suspends)
 * are read without that protection.
 *
 * `sim` needs none of this, because one task runs at a time. The signal handler that explains a
 * crash may have interrupted any code. It waits at most SHOW_TRIES ms for a task, and then reads it
 * without holding it.
 */
#include <pthread.h>
#include <time.h>

#include "sim/engine/run/run_internal.h"

enum { SHOW_TRIES = 1000 };

/* Values of struct task.shown. */
enum show { SHOW_FREE, SHOW_CHANGING, SHOW_HELD };

static pthread_mutex_t show_looking = PTHREAD_MUTEX_INITIALIZER; /* one observer at a time */

static void show_pause(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static bool show_take(struct task *t, uint32_t as)
{
	uint32_t free_now = SHOW_FREE;

	return __atomic_compare_exchange_n(&t->shown.v_, &free_now, as, false, __ATOMIC_ACQUIRE,
					   __ATOMIC_RELAXED);
}

static void show_give(struct task *t)
{
	__atomic_store_n(&t->shown.v_, SHOW_FREE, __ATOMIC_RELEASE);
}

/* ---- the task itself ------------------------------------------------------------------------ */

void show_wait(struct task *t, const struct wait *const *w, int n, const shared_u32 *abort,
	       uint64_t wake_ns)
{
	while (UNLIKELY(!show_take(t, SHOW_CHANGING)))
		show_pause();
	t->pub.state = SIM_TASK_WAITING;
	t->pub.wait = w;
	t->pub.wait_n = n;
	t->pub.wait_abort = abort;
	t->pub.wake_ns = wake_ns;
	show_give(t);
}

void show_state(struct task *t, enum sim_task_state state)
{
	while (UNLIKELY(!show_take(t, SHOW_CHANGING)))
		show_pause();
	t->pub.state = state;
	t->pub.wait = NULL;
	t->pub.wait_n = 0;
	t->pub.wait_abort = NULL;
	show_give(t);
}

void show_lock_to_remove(const struct task *t)
{
	pthread_mutex_lock(&threads_lock);
	while (__atomic_load_n(&t->shown.v_, __ATOMIC_ACQUIRE) == SHOW_HELD) {
		pthread_mutex_unlock(&threads_lock);
		show_pause();
		pthread_mutex_lock(&threads_lock);
	}
}

/* ---- the observer --------------------------------------------------------------------------- */

static bool show_lock(pthread_mutex_t *lock)
{
	for (int i = 0; i < SHOW_TRIES; i++) {
		if (pthread_mutex_trylock(lock) == 0)
			return true;
		show_pause();
	}
	return false;
}

bool show_hold_all(void)
{
	if (engine_in_sim() || !show_lock(&show_looking))
		return false;
	if (!show_lock(&threads_lock)) {
		pthread_mutex_unlock(&show_looking);
		return false;
	}
	/* a thread in SHOW_CHANGING finishes within an instant, and takes no lock meanwhile */
	for (struct sim_task *p = sim_task_first(); p; p = p->next)
		for (int i = 0; i < SHOW_TRIES && !show_take(task_of(p), SHOW_HELD); i++)
			show_pause();
	pthread_mutex_unlock(&threads_lock);
	return true;
}

void show_release_all(bool held)
{
	if (!held)
		return;
	bool locked = show_lock(&threads_lock);

	for (struct sim_task *p = sim_task_first(); p; p = p->next)
		if (__atomic_load_n(&task_of(p)->shown.v_, __ATOMIC_RELAXED) == SHOW_HELD)
			show_give(task_of(p));
	if (locked)
		pthread_mutex_unlock(&threads_lock);
	pthread_mutex_unlock(&show_looking);
}
