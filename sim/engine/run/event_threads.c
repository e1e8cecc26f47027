/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events of the `threads` engine. A work event is queued at the thread that posts it; that thread
 * runs it when it drains or waits. Timers use one heap and one thread. A step runs without any lock
 * of the engine. Its event is reused only after the step, so the handle that the step's owner holds
 * never names another event.
 */
#include <stdlib.h>
#include <time.h>

#include "sim/engine/run/run_internal.h"

uint32_t sim_events_queued;

static struct {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	struct sim_event *free;
	struct thread_part *part;
	bool stop;
} timers;

static struct sim_event *event_take(struct sim_event **pool)
{
	struct sim_event *e = *pool;

	if (e)
		*pool = e->next;
	else
		e = malloc(sizeof *e);
	ASSERT(e);
	return e;
}

static void event_give(struct sim_event **pool, struct sim_event *e)
{
	e->object = NULL;
	e->next = *pool;
	*pool = e;
}

/* ---- posting -------------------------------------------------------------------------------- */

static void event_post_timer(const struct sim_event *init, const struct sim_event_attr *attr,
			     struct sim_event **handle)
{
	uint64_t when = threads_now_ns() + attr->delay_ns;

	pthread_mutex_lock(&timers.lock);
	struct sim_event *e = event_take(&timers.free);
	*e = *init;
	timer_add(&e->timer, TIMER_EVENT, attr->background, when, 0);
	if (handle)
		*handle = e;
	if (e->timer.at == 1)
		pthread_cond_signal(&timers.cond);
	pthread_mutex_unlock(&timers.lock);
}

static void queue_count(struct thread_part *part, int32_t by)
{
	__atomic_store_n(&part->queued, part->queued + (uint32_t)by, __ATOMIC_RELAXED);
	__atomic_fetch_add(&sim_events_queued, (uint32_t)by, __ATOMIC_RELAXED);
}

static void event_post_work(const struct sim_event *init, struct sim_event **handle)
{
	struct thread_part *part = threads_part();

	ASSERT(part == thread_part_get()); /* only its thread adds to a queue */
	pthread_mutex_lock(&part->lock);
	struct sim_event *e = event_take(&part->free);
	*e = *init;
	e->part = part;
	e->next = NULL;
	*part->end = e;
	part->end = &e->next;
	queue_count(part, 1);
	if (handle)
		*handle = e;
	pthread_mutex_unlock(&part->lock);
}

void threads_event_post(const struct sim_event_attr *attr, void (*step)(void *, uint64_t),
			void *object, uint64_t arg, struct sim_event **handle)
{
	const struct sim_event init = {
		.step = step, .object = object, .arg = arg, .name = attr->name};

	if (attr->kind == SIM_EVENT_TIMER)
		event_post_timer(&init, attr, handle);
	else
		event_post_work(&init, handle);
}

/* ---- cancelling ----------------------------------------------------------------------------- */

/* Removes event `e`, or (e NULL) all events of the object, from the queue; true if there was
 * one. */
static bool queue_remove(struct thread_part *part, const struct sim_event *e, const void *object)
{
	struct sim_event **at = &part->first, *found;
	bool any = false;

	while ((found = *at)) {
		if (found != e && (e || found->object != object)) {
			at = &found->next;
			continue;
		}
		*at = found->next;
		if (part->end == &found->next)
			part->end = at;
		event_give(&part->free, found);
		queue_count(part, -1);
		any = true;
	}
	return any;
}

bool threads_event_cancel(struct sim_event *e)
{
	struct thread_part *part = e->part;
	bool found;

	if (part) {
		pthread_mutex_lock(&part->lock);
		found = queue_remove(part, e, NULL);
		pthread_mutex_unlock(&part->lock);
		return found;
	}
	pthread_mutex_lock(&timers.lock);
	found = e->timer.at != 0;
	if (found) {
		timer_remove(&e->timer);
		event_give(&timers.free, e);
	}
	pthread_mutex_unlock(&timers.lock);
	return found;
}

static void timers_cancel_object(const void *object)
{
	struct timer_heap *h = &eng.heap;

	pthread_mutex_lock(&timers.lock);
	for (uint32_t i = 1; i <= h->n; i++) {
		struct sim_event *e = (struct sim_event *)h->slot[i].timer;

		if (e->object != object)
			continue;
		timer_remove(&e->timer);
		event_give(&timers.free, e);
		i = 0;
	}
	pthread_mutex_unlock(&timers.lock);
}

void threads_events_cancel_object(const void *object)
{
	pthread_mutex_lock(&threads_lock);
	for (struct thread_part *part = threads_all; part; part = part->next) {
		pthread_mutex_lock(&part->lock);
		queue_remove(part, NULL, object);
		pthread_mutex_unlock(&part->lock);
	}
	pthread_mutex_unlock(&threads_lock);
	timers_cancel_object(object);
}

/* ---- running -------------------------------------------------------------------------------- */

static struct sim_event *queue_pop(struct thread_part *part)
{
	if (!__atomic_load_n(&part->queued, __ATOMIC_RELAXED))
		return NULL;
	pthread_mutex_lock(&part->lock);
	struct sim_event *e = part->first;
	if (e) {
		part->first = e->next;
		if (!part->first)
			part->end = &part->first;
		queue_count(part, -1);
	}
	pthread_mutex_unlock(&part->lock);
	return e;
}

/* Runs the thread's queued events. A step may call this again, directly or by an entry point; the
 * nested call returns and the outer one runs the events. */
void threads_events_drain(void)
{
	struct thread_part *part = thread_part_get();
	struct sim_event *e;

	/* only this thread adds to its queue */
	if (!part || !__atomic_load_n(&part->queued, __ATOMIC_RELAXED) || part->draining)
		return;
	part->draining = true;
	while ((e = queue_pop(part))) {
		e->step(e->object, e->arg);
		pthread_mutex_lock(&part->lock);
		event_give(&part->free, e);
		pthread_mutex_unlock(&part->lock);
	}
	part->draining = false;
}

/* Waits, with the lock held, until the heap's top is due or the heap changes. */
static void timers_sleep(void)
{
	if (!eng.heap.n) {
		pthread_cond_wait(&timers.cond, &timers.lock);
		return;
	}
	uint64_t when = eng.heap.slot[1].when;
	struct timespec at = {.tv_sec = (time_t)(when / 1000000000),
			      .tv_nsec = (long)(when % 1000000000)};
	pthread_cond_timedwait(&timers.cond, &timers.lock, &at);
}

static void *timers_main(void *arg)
{
	thread_part_set(arg);
	crash_alt_stack(&timers.part->alt_stack);
	pthread_mutex_lock(&timers.lock);
	while (!timers.stop) {
		if (!eng.heap.n || eng.heap.slot[1].when > threads_now_ns()) {
			timers_sleep();
			continue;
		}
		struct sim_event *e = (struct sim_event *)eng.heap.slot[1].timer;
		timer_remove(&e->timer);
		pthread_mutex_unlock(&timers.lock);
		e->step(e->object, e->arg);
		threads_events_drain();
		pthread_mutex_lock(&timers.lock);
		event_give(&timers.free, e);
	}
	pthread_mutex_unlock(&timers.lock);
	return NULL;
}

/* ---- life ----------------------------------------------------------------------------------- */

int timers_start(void)
{
	pthread_condattr_t attr;

	timers.stop = false;
	timers.free = NULL;
	pthread_mutex_init(&timers.lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&timers.cond, &attr);
	pthread_condattr_destroy(&attr);
	timers.part = threads_part_new("timers");
	return pthread_create(&timers.part->thread, NULL, timers_main, timers.part);
}

void timers_join(void)
{
	pthread_mutex_lock(&timers.lock);
	timers.stop = true;
	pthread_cond_signal(&timers.cond);
	pthread_mutex_unlock(&timers.lock);
	pthread_join(timers.part->thread, NULL);
}

void timers_stop(void)
{
	struct timer_heap *h = &eng.heap;

	ASSERT(timers.stop); /* timers_join was called: no step runs */
	while (h->n) {
		struct sim_event *e = (struct sim_event *)h->slot[1].timer;

		timer_remove(&e->timer);
		event_give(&timers.free, e);
	}
	while (timers.free)
		free(event_take(&timers.free));
	pthread_cond_destroy(&timers.cond);
	pthread_mutex_destroy(&timers.lock);
}

void threads_part_free_events(struct thread_part *part)
{
	struct sim_event *e;

	while ((e = queue_pop(part)))
		free(e);
	while (part->free)
		free(event_take(&part->free));
}
