/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The `sim` scheduler: one OS thread, every task a fiber (task_sim.c), and one loop (loop_sim.c).
 * Scheduling points, waits, and the tables of this scheduler.
 */
#include <string.h>

#include "sim/engine/base/gdb_hooks.h"
#include "sim/engine/run/run_internal.h"

enum {
	ALONE_POINTS = 4096, /* points without a switch before the task has to sleep */
	ALONE_NS = 1000,
	ALONE_STEPS = 256, /* steps that such a row adds to the progress budget */
};

/* ---- scheduling points ---------------------------------------------------------------------- */

/* Kills the process in an event, because no task can free the stack that it runs on. */
static void __attribute__((noreturn)) engine_kill_self(struct task *t)
{
	static const struct sim_event_attr attr = {.name = "engine.kill"};

	t->pub.self.proc->dying = true;
	sim_event_post(&attr, engine_kill_step, t->pub.self.proc, 0, NULL);
	task_suspend(t, SIM_TASK_SLEEPING);
	ASSERT(!"a killed task ran again");
	__builtin_unreachable();
}

/* Applies the plan's task faults: delays the task or kills its process. Only entry points of
 * doubles and waits call this. Shared accesses do not, because a task may be in the middle of an
 * update there. */
static void task_point_fault(struct task *t)
{
	bool host = t->pub.kind == SIM_TASK_HOST;
	struct os_fault f;

	if (t->pub.self.rank < 0 || !(host ? fault_check("os.task", NULL, NULL, &f)
					   : fault_check("cuda.warp", NULL, NULL, &f)))
		return;
	if (f.kind == OS_FAULT_KILL)
		engine_kill_self(t);
	ASSERT(f.kind == OS_FAULT_STARVE);
	task_sleep(t, f.arg);
}

static __attribute__((noinline)) void task_point_slow(struct task *t)
{
	if (t->pub.debt_ns)
		task_pay_debt(t);
	if (++t->points_alone >= ALONE_POINTS) {
		/* The task spins without waiting, polling or charging. It loses time, which lets
		 * other tasks run, and the row counts against the progress budget. */
		t->points_alone = 0;
		eng.steps += ALONE_STEPS;
		t->prio &= UINT32_MAX;
		task_sleep(t, ALONE_NS);
	}
	if (eng.pct_preempt) {
		eng.pct_preempt = false;
		task_yield(t);
	}
	if (eng.countdown <= 0) {
		bool yield = false;
		uint64_t ns = strategy_point(t, &yield);

		if (ns)
			task_sleep(t, ns);
		else if (yield)
			task_yield(t);
	}
}

static __attribute__((noinline)) void task_point_moment(struct task *t)
{
	uint64_t ns = moment_point();

	if (ns)
		task_sleep(t, ns);
}

/* A scheduling point, called at every entry point and shared access. It takes a few ns when it has
 * nothing to do. */
void sched_sim_point(void)
{
	struct task *t = eng.current;

	if (UNLIKELY(!t))
		return;
	guest_check_thread();
	if (UNLIKELY(t->moment))
		task_point_moment(t);
	if (LIKELY(--eng.countdown > 0 && !t->pub.debt_ns && ++t->points_alone < ALONE_POINTS &&
		   !eng.pct_preempt))
		return;
	task_point_slow(t);
}

static void sched_sim_entry_point(void)
{
	if (UNLIKELY(eng.point_faults && eng.current)) {
		guest_check_thread();
		task_point_fault(eng.current);
	}
	sched_sim_point();
}

/* ---- struct os_sched_ops -------------------------------------------------------------------- */

static struct os_self *sched_sim_self(void)
{
	if (UNLIKELY(!pthread_equal(eng.thread, pthread_self())))
		engine_foreign_thread();
	if (eng.current)
		return &eng.current->pub.self;
	if (!eng.in_event)
		return &eng.main_task->pub.self;
	eng.event_self.self.proc = eng.main_task->pub.self.proc; /* the world may have set it */
	return &eng.event_self.self;
}

static bool sched_sim_thread_is_known(void)
{
	return pthread_equal(eng.thread, pthread_self()) != 0;
}

static int sched_sim_thread_start(struct os_thread **out, const struct os_thread_attr *attr,
				  void (*fn)(void *), void *arg)
{
	struct sim_task_attr a = {.name = attr->name,
				  .kind = SIM_TASK_HOST,
				  .proc = sched_sim_self()->proc,
				  .rank = attr->rank,
				  .background = attr->background,
				  .detached = attr->detached,
				  .device = -1,
				  .kernel = -1,
				  .block = -1,
				  .warp = -1,
				  .lane = -1};
	struct sim_task *t = NULL;
	mem_release(NULL);
	int rc = fault_thread();

	if (!rc)
		rc = sched_sim_spawn(&t, &a, fn, arg);

	if (!rc && !attr->detached)
		*out = (struct os_thread *)t;
	sched_sim_point(); /* the new task may run far ahead before its creator continues */
	return rc;
}

/* Reports a wait's reads of its words to the memory model: relaxed while it waits, with acquire
 * once it holds. A line orders nothing. `again`: the task has made the same accesses before it
 * slept. The happens-before check then already has them, and only the adversary may have something
 * new to show. */
static __attribute__((noinline)) void sched_sim_wait_look(const struct wait *const *w, int n,
							  const shared_u32 *abort,
							  enum shared_order order, bool again)
{
	struct mem_access a = {
		.op = SHARED_LOAD, .order = order, .scope = SHARED_SYSTEM, .touched = again};

	if (again && !(mem_on & MEM_STORE))
		return;
	for (int i = 0; i < n; i++) {
		if (w[i]->kind == WAIT_OBJECT)
			continue;
		a.addr = waits_at(w[i]->on);
		a.wake = waits_home(w[i]->on);
		a.bytes = w[i]->kind == WAIT_LINE16 ? 16 : w[i]->bytes;
		a.order = w[i]->kind == WAIT_LINE16 ? SHARED_RELAXED : order;
		if (a.addr)
			mem_access(&a);
	}
	if (abort) {
		a.addr = waits_at(abort);
		a.wake = abort;
		a.bytes = sizeof *abort;
		a.order = order;
		mem_access(&a);
	}
}

static int sched_sim_wait(const struct wait *const *w, int n, const shared_u32 *abort, int *index)
{
	struct task *t = eng.current;

	ASSERT(t);
	ASSERT(n > 0 || (n == 0 && abort));
	if (UNLIKELY(eng.point_faults))
		task_point_fault(t);
	sched_sim_point();
	if (t->pub.debt_ns)
		task_pay_debt(t);
	for (bool again = false;; again = true) {
		if (UNLIKELY(mem_on != 0))
			sched_sim_wait_look(w, n, abort, SHARED_RELAXED, again);
		if (waits_aborted(abort)) {
			if (UNLIKELY(mem_on != 0))
				sched_sim_wait_look(NULL, 0, abort, SHARED_ACQUIRE, false);
			return ECANCELED;
		}
		int first = waits_first_true(w, n);
		if (first >= 0) {
			if (UNLIKELY(mem_on != 0))
				sched_sim_wait_look(&w[first], 1, NULL, SHARED_ACQUIRE, false);
			if (index)
				*index = first;
			return 0;
		}
		uint64_t deadline = waits_deadline(w, n);
		if (deadline <= eng.now_ns)
			return ETIMEDOUT;
		waits_add(t, w, n, abort);
		eng.waiting++;
		t->pub.wake_ns = deadline == ENGINE_NEVER ? 0 : deadline;
		if (t->pub.wake_ns)
			timer_add(&t->timer, TIMER_DEADLINE, t->pub.background, deadline,
				  strategy_tie());
		const char *why = n ? w[0]->why : "abort";
		uint64_t since = eng.now_ns;
		task_suspend(t, SIM_TASK_WAITING);
		timeline_wait(t, why, since);
	}
}

static int sched_sim_thread_join(struct os_thread *thread)
{
	struct task *t = task_of((struct sim_task *)thread);
	struct wait w = {.on = &t->done,
			 .want = 1,
			 .mask = WAIT_MASK_ALL,
			 .kind = WAIT_EQ,
			 .bytes = 4,
			 .why = "end of a thread",
			 .from = {t->made_for, -1, -1, t->pub.name}};
	const struct wait *list = &w;

	ASSERT(!t->joined);
	t->joined = true;
	int rc = sched_sim_wait(&list, 1, NULL, NULL);
	ASSERT(rc == 0);
	mem_acquire(&t->done);
	task_free(t);
	return 0;
}

/* Orders by an event count: between tasks as a lock would. A device that posts only announces that
 * there is something to look for; the object found there orders (a completion, a socket's
 * bytes). */
static void sched_sim_event_post(const void *object)
{
	if (eng.current)
		mem_release(object);
	mem_release(NULL);
	event_count_post(object);
}

/* Reads the count after a scheduling point: a change that the task has missed, and its post, may
 * happen before the task reads the count. */
static uint64_t sched_sim_event_seq(const void *object)
{
	sched_sim_point();
	if (eng.current)
		mem_acquire(object);
	return event_count_seq(object);
}

static uint64_t sched_sim_now(void)
{
	return eng.now_ns;
}

static void sched_sim_sleep(uint64_t ns)
{
	struct task *t = eng.current;

	ASSERT(t);
	sched_sim_point();
	mem_release(NULL);
	if (t->pub.debt_ns)
		task_pay_debt(t);
	if (engine_has_programs()) /* a pause between polls is the program's own */
		t->poll_row = 0;
	task_sleep_as(t, ns, t->pub.background);
}

static bool sched_sim_fault(const char *site, const void *object, struct os_fault *f)
{
	if (UNLIKELY(eng.any_faults) && fault_check(site, object, NULL, f))
		return true;
	if (strcmp(site, "shared.cas") == 0 && eng.current && strategy_spurious()) {
		*f = (struct os_fault){.kind = OS_FAULT_SPURIOUS};
		return true;
	}
	return false;
}

static void sched_sim_progress(void)
{
	eng.progress_step = eng.steps;
	eng.progress_ns = eng.now_ns;
}

static const struct os_sched_ops sched_sim_os = {
	.name = "sim",
	.self = sched_sim_self,
	.thread_is_known = sched_sim_thread_is_known,
	.thread_start = sched_sim_thread_start,
	.thread_join = sched_sim_thread_join,
	.wait = sched_sim_wait,
	.event_seq = sched_sim_event_seq,
	.event_post = sched_sim_event_post,
	.poll_miss = polls_miss,
	.poll_hit = polls_hit,
	.now_ns = sched_sim_now,
	.date_ns = clock_virtual_wall_ns,
	.sleep_ns = sched_sim_sleep,
	.charge = clock_charge,
	.choose = sim_choose,
	.fault = sched_sim_fault,
	.buggify = buggify_visit,
	.probe = probe_hit,
	.trace = trace_record,
	.trace_bytes = trace_record_bytes,
	.tracing = trace_is_on,
	.trace_slice = timeline_of_task,
	.progress = sched_sim_progress,
	.label = label_set,
	.unlabel = label_unset,
	.shared_point = accessor_point,
	.shared_store = accessor_store,
	.shared_wrote = accessor_wrote,
	.shared_note = accessor_note,
	.zero = accessor_zero,
};

/* ---- struct sched_ops ----------------------------------------------------------------------- */

static int sched_sim_start(void)
{
	return 0;
}

static void sched_sim_run(void (*fn)(void *), void *arg)
{
	(void)fn, (void)arg; /* the main task has them */
	fiber_adopt(&eng.loop, &eng.loop_sp);
	int rc = task_launch(eng.main_task);
	ASSERT(rc == 0);
	if (setjmp(eng.fail_jump) == 0)
		sched_sim_loop();
	eng.current = NULL;
	sim_task_current = NULL;
	eng.in_event = false;
	fiber_abandon(&eng.loop);
}

static void sched_sim_stop(bool ran)
{
	if (!ran)
		task_list_add(eng.main_task); /* tasks_discard frees it */
}

static struct task *sched_sim_current(void)
{
	return eng.current;
}

static void sched_sim_no_events(void)
{
}

const struct sched_ops sched_sim = {
	.os = &sched_sim_os,
	.start = sched_sim_start,
	.run = sched_sim_run,
	.join = guest_join_sim,
	.part = guest_part_sim,
	.stop = sched_sim_stop,
	.spawn = sched_sim_spawn,
	.self = sched_sim_current,
	.known = sched_sim_current,
	.point = sched_sim_entry_point,
	.kill_proc = sched_sim_kill_proc,
	.now_ns = sched_sim_now,
	.wall_ns = clock_virtual_wall_ns,
	.wrote = waits_wrote,
	.event_seq = event_count_seq,
	.event_post = event_post,
	.event_cancel = event_cancel,
	.events_cancel_object = events_cancel_object,
	.events_drain = sched_sim_no_events, /* the loop runs every event */
};
