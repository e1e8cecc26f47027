/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The `threads` scheduler: host tasks are pthreads, warps are fibers of worker threads (worker.c),
 * time is real. A waiting thread looks again: after a pause, then after a yield, then after short
 * sleeps that a write ends (park.c). No task has to be woken, so this engine does not notice a
 * forgotten wake (`sim` finds it).
 */
#include <sched.h>
#include <time.h>

#include "sim/engine/run/run_internal.h"

static void threads_sleep(uint64_t ns);

/* Applies the plan's task faults. The timer thread kills the process; the task waits here until
 * then. */
static void threads_point_fault(struct task *t)
{
	const struct sim_event_attr attr = {.name = "engine.kill", .kind = SIM_EVENT_TIMER};
	struct os_fault f;

	if (t->pub.self.rank < 0 || !fault_check("os.task", NULL, NULL, &f))
		return;
	if (f.kind == OS_FAULT_STARVE) {
		threads_sleep(f.arg);
		return;
	}
	sim_event_post(&attr, engine_kill_step, t->pub.self.proc, 0, NULL);
	for (uint32_t round = 0;; round++) {
		threads_maybe_end(t);
		threads_doze(round);
	}
}

void threads_point(void)
{
	struct task *t = threads_self();

	if (!t || t->part->draining)
		return;
	if (t->pub.kind == SIM_TASK_WARP) {
		worker_point(t);
		return;
	}
	if (UNLIKELY(eng.point_faults))
		threads_point_fault(t);
	threads_maybe_end(t);
}

static void threads_shared_point(const void *addr, size_t bytes, enum shared_access access,
				 enum shared_order order)
{
	(void)addr, (void)bytes, (void)access, (void)order;
	if (UNLIKELY(__atomic_load_n(&threads_kills.v_, __ATOMIC_RELAXED)))
		threads_point();
}

static bool threads_shared_store(void *addr, size_t bytes, uint64_t value, enum shared_order order)
{
	(void)value;
	threads_shared_point(addr, bytes, SHARED_STORE, order);
	return false;
}

static void threads_shared_wrote(const void *addr, size_t bytes, enum shared_access access)
{
	(void)access;
	park_wrote(addr, bytes);
}

static int threads_first_object(const struct wait *const *w, int n)
{
	for (int i = 0; i < n; i++)
		if (w[i]->kind == WAIT_OBJECT)
			return i;
	return -1;
}

/* Looks once at the waits. Returns 0, ECANCELED, ETIMEDOUT, or EAGAIN: look again. */
static int threads_look(const struct wait *const *w, int n, const shared_u32 *abort,
			uint64_t deadline, int *index, bool slept)
{
	if (waits_aborted(abort))
		return ECANCELED;
	int first = waits_first_true(w, n);
	if (first < 0 && slept && eng.config.silent_objects)
		first = threads_first_object(w, n);
	if (first >= 0) {
		if (index)
			*index = first;
		return 0;
	}
	if (deadline != ENGINE_NEVER && threads_now_ns() >= deadline)
		return ETIMEDOUT;
	return EAGAIN;
}

struct threads_view {
	const struct wait *const *w;
	int n;
	const shared_u32 *abort;
	struct task *task;
};

static bool threads_view_changed(void *arg)
{
	const struct threads_view *v = arg;

	return waits_aborted(v->abort) || waits_first_true(v->w, v->n) >= 0 ||
	       threads_ends(v->task);
}

/* Idles after a host task's fruitless look, the round-th in a row; returns the next round. */
static uint32_t threads_host_idle(const struct threads_view *v, uint64_t deadline, uint32_t round)
{
	threads_maybe_end(v->task);
	if (threads_pause(round)) {
		uint64_t ns = threads_park_ns(round), now = threads_now_ns();

		if (deadline != ENGINE_NEVER)
			ns = MIN_OF(ns, deadline > now ? deadline - now : 1);
		uint64_t bits = park_watch(v->w, v->n, v->abort, 1);
		if (park(v->task->part->park_slot, bits, threads_view_changed, (void *)(uintptr_t)v,
			 ns))
			round = threads_woken(round);
		park_watch(v->w, v->n, v->abort, -1);
	}
	threads_events_drain();
	return round + 1;
}

static int threads_wait(const struct wait *const *w, int n, const shared_u32 *abort, int *index)
{
	struct task *t = threads_part()->running;
	bool fiber = t != NULL;
	uint64_t deadline = waits_deadline(w, n);
	int rc;

	if (!fiber)
		t = threads_part()->task;
	const struct threads_view view = {w, n, abort, t};
	threads_events_drain();
	rc = threads_look(w, n, abort, deadline, index, false);
	threads_waits(t, rc == EAGAIN);
	for (uint32_t round = 0; rc == EAGAIN;) {
		bool slept = !fiber && round >= THREADS_PAUSES + THREADS_YIELDS;

		show_wait(t, w, n, abort, deadline == ENGINE_NEVER ? 0 : deadline);
		if (fiber)
			worker_suspend(t);
		else
			round = threads_host_idle(&view, deadline, round);
		show_state(t, SIM_TASK_RUNNING);
		rc = threads_look(w, n, abort, deadline, index, slept);
	}
	threads_waits(t, false);
	return rc;
}

static void threads_sleep(uint64_t ns)
{
	struct task *t = threads_part()->running;
	uint64_t until = threads_now_ns() + ns;

	if (t) {
		t->pub.wake_ns = until;
		t->pub.state = SIM_TASK_SLEEPING;
		worker_suspend(t);
		t->pub.wake_ns = 0;
		return;
	}
	t = threads_part()->task;
	threads_events_drain();
	for (;;) {
		uint64_t now = threads_now_ns();

		threads_maybe_end(t);
		if (now >= until)
			return;
		uint64_t step = MIN_OF(until - now, 10000000ull);
		struct timespec ts = {.tv_nsec = (long)step};
		nanosleep(&ts, NULL);
	}
}

static void threads_poll_miss(const char *why)
{
	struct task *t = threads_part()->running;

	(void)why;
	if (t) {
		t->pub.state = SIM_TASK_READY;
		worker_suspend(t);
		return;
	}
	t = threads_part()->task;
	threads_events_drain();
	threads_maybe_end(t);
	sched_yield();
}

static void threads_poll_hit(void)
{
}

/* ---- struct os_sched_ops -------------------------------------------------------------------- */

/* Returns the calling task. Adopts a thread that the engine does not know: a program's thread can
 * reach the world before any other part of the engine. */
static struct task *threads_task(void)
{
	struct thread_part *part = threads_part();

	if (part->running)
		return part->running;
	if (part->stand_in && !part->has_proc)
		part->task->pub.self.proc = eng.main_task->pub.self.proc;
	return part->task;
}

static struct os_self *threads_os_self(void)
{
	return &threads_task()->pub.self;
}

static int threads_thread_start(struct os_thread **out, const struct os_thread_attr *attr,
				void (*fn)(void *), void *arg)
{
	const struct sim_task_attr a = {.name = attr->name,
					.kind = SIM_TASK_HOST,
					.proc = threads_os_self()->proc,
					.rank = attr->rank,
					.background = attr->background,
					.detached = attr->detached,
					.device = -1,
					.kernel = -1,
					.block = -1,
					.warp = -1,
					.lane = -1};
	struct sim_task *t = NULL;
	int rc = fault_thread();

	if (!rc)
		rc = threads_spawn(&t, &a, fn, arg);

	if (!rc && !attr->detached)
		*out = (struct os_thread *)t;
	return rc;
}

static int threads_thread_join(struct os_thread *thread)
{
	struct task *t = task_of((struct sim_task *)thread);
	const struct wait w = {.on = &t->done,
			       .want = 1,
			       .mask = WAIT_MASK_ALL,
			       .kind = WAIT_EQ,
			       .bytes = 4,
			       .why = "end of a thread",
			       .from = {t->made_for, -1, -1, t->pub.name}};
	const struct wait *list = &w;

	ASSERT(!t->joined);
	int rc = threads_wait(&list, 1, NULL, NULL);
	ASSERT(rc == 0);
	pthread_join(t->part->thread, NULL);
	threads_forget(t);
	return 0;
}

static void threads_charge(enum os_cost what, uint64_t amount)
{
	(void)what, (void)amount;
}

static bool threads_fault(const char *site, const void *object, struct os_fault *f)
{
	return eng.any_faults && fault_check(site, object, NULL, f);
}

static bool threads_buggify(const struct os_site *site)
{
	(void)site;
	return false;
}

static void threads_probe(const struct os_site *site)
{
	(void)site;
}

static void threads_progress(void)
{
}

static uint64_t threads_wall_ns(uint64_t at_ns)
{
	return at_ns + threads_wall_offset_ns();
}

static const struct os_sched_ops sched_threads_os = {
	.name = "threads",
	.self = threads_os_self,
	.thread_start = threads_thread_start,
	.thread_join = threads_thread_join,
	.wait = threads_wait,
	.event_seq = park_event_seq,
	.event_post = park_event_post,
	.poll_miss = threads_poll_miss,
	.poll_hit = threads_poll_hit,
	.now_ns = threads_now_ns,
	.date_ns = threads_wall_ns,
	.sleep_ns = threads_sleep,
	.charge = threads_charge,
	.choose = sim_choose,
	.fault = threads_fault,
	.buggify = threads_buggify,
	.probe = threads_probe,
	.trace = trace_record,
	.trace_bytes = trace_record_bytes,
	.tracing = trace_is_on,
	.trace_slice = timeline_of_task,
	.progress = threads_progress,
	.label = label_set,
	.unlabel = label_unset,
	.shared_point = threads_shared_point,
	.shared_store = threads_shared_store,
	.shared_wrote = threads_shared_wrote,
	.shared_note = NULL, /* ThreadSanitizer sees plain memory by itself */
};

/* ---- struct sched_ops ----------------------------------------------------------------------- */

const struct sched_ops sched_threads = {
	.os = &sched_threads_os,
	.start = threads_start,
	.run = threads_run,
	.join = threads_prepare,
	.part = threads_part_main,
	.stop = threads_stop,
	.spawn = threads_spawn,
	.self = threads_task,
	.known = threads_self,
	.point = threads_point,
	.kill_proc = threads_kill_proc,
	.now_ns = threads_now_ns,
	.wall_ns = threads_wall_ns,
	.wrote = park_wrote,
	.event_seq = park_event_seq,
	.event_post = threads_event_post,
	.event_cancel = threads_event_cancel,
	.events_cancel_object = threads_events_cancel_object,
	.events_drain = threads_events_drain,
};
