/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The `sim` scheduler: one OS thread, every task a fiber, and one loop on the stack of sim_run.
 *
 *                    spawn                  end
 *        NEW -> READY -> RUNNING ----------------> DONE
 *                ^  ^     |    |
 *                |  |     |    +-- wait --> WAITING --+  a write, an event count, a deadline
 *                |  +-----+-- debt, sleep -> SLEEPING -+  its time has passed
 *                +------------------------------------+
 *        any suspended state -- kill of its process --> KILLED
 *
 * Time moves only when no task is ready and no event is due. If nothing in the foreground can
 * happen then, the loop evaluates every wait again. A wait that is true was not woken: a missed
 * wake, a bug of the code that wrote the word. Otherwise it is a deadlock.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/engine/engine_internal.h"
#include "sim/engine/gdb_hooks.h"
#include "sim/engine/memory.h"

struct sim_task *sim_tasks_head, *sim_task_current;
static struct sim_task *sim_tasks_tail;

enum {
	ALONE_POINTS = 4096, /* points without a switch before the task has to sleep */
	ALONE_NS = 1000,
	ALONE_STEPS = 256, /* steps that such a row adds to the progress budget */
	/* Programs sleep for hours, and poll with limits of their own. Their budget is spent when
	 * both the configured steps and PROGRAM_NS have passed, or after this many steps. */
	PROGRAM_STEPS = 200000000,
};

#define PROGRAM_NS 600000000000ull

/* ---- the list of tasks ---------------------------------------------------------------------- */

void task_list_add(struct task *t)
{
	t->pub.next = NULL;
	t->pub.prev = sim_tasks_tail;
	if (sim_tasks_tail)
		sim_tasks_tail->next = &t->pub;
	else
		sim_tasks_head = &t->pub;
	sim_tasks_tail = &t->pub;
}

void task_list_remove(struct task *t)
{
	struct sim_task *p = &t->pub;

	if (p->prev)
		p->prev->next = p->next;
	else
		sim_tasks_head = p->next;
	if (p->next)
		p->next->prev = p->prev;
	else
		sim_tasks_tail = p->prev;
	p->next = p->prev = NULL;
}

struct sim_task *sim_task_first(void)
{
	return sim_tasks_head;
}

/* ---- life of a task ------------------------------------------------------------------------- */

struct task *task_new(const struct sim_task_attr *attr, void (*fn)(void *), void *arg)
{
	struct task *t = eng.task_pool;
	struct wait_node *node = NULL;
	uint32_t node_cap = 0;

	if (t) {
		eng.task_pool = t->wake_next;
		node = t->node;
		node_cap = t->node_cap;
	} else if (!(t = malloc(sizeof *t))) {
		return NULL;
	}
	memset(t, 0, sizeof *t);
	t->node = node;
	t->node_cap = node_cap;
	t->fn = fn;
	t->arg = arg;
	struct sim_task *p = &t->pub;
	snprintf(p->name, sizeof p->name, "%s", attr->name ? attr->name : "task");
	p->self = (struct os_self){.id = eng.next_task_id++,
				   .proc = attr->proc,
				   .name = p->name,
				   .rank = attr->rank,
				   .step = -1};
	p->kind = attr->kind;
	p->background = attr->background;
	p->device = attr->device;
	p->kernel = attr->kernel;
	p->block = attr->block;
	p->warp = attr->warp;
	p->lane = attr->lane;
	p->owner = attr->owner;
	p->priv = t;
	p->detached = attr->detached;
	t->stack_bytes = attr->stack_bytes ? attr->stack_bytes : eng.config.stack_bytes;
	t->made_for = attr->rank;
	return t;
}

static void task_free(struct task *t)
{
	if (t->pub.kind == SIM_TASK_HOST) {
		mem_forget(t);
		mem_forget(&t->done);
	}
	task_list_remove(t);
	t->wake_next = eng.task_pool;
	eng.task_pool = t;
}

void task_pool_free(void)
{
	while (eng.task_pool) {
		struct task *t = eng.task_pool;

		eng.task_pool = t->wake_next;
		free(t->node);
		free(t);
	}
}

static void task_entry(void *arg)
{
	struct task *t = arg;

	if (t->pub.kind == SIM_TASK_HOST)
		mem_acquire(t);
	t->fn(t->arg);
	if (t->pub.kind == SIM_TASK_HOST)
		mem_release(&t->done);
	t->pub.state = SIM_TASK_DONE;
	fiber_exit(&t->fiber);
}

void task_make_ready(struct task *t)
{
	ASSERT(t->pub.state != SIM_TASK_DONE && t->pub.state != SIM_TASK_KILLED);
	ASSERT(t->node_n == 0 && t->timer.at == 0);
	t->pub.state = SIM_TASK_READY;
	ready_add(t);
}

/* Adds a task to the run; its fiber exists. */
void task_admit(struct task *t)
{
	task_list_add(t);
	eng.live++;
	eng.live_foreground += !t->pub.background;
	strategy_task(t);
	moment_task(t);
	task_make_ready(t);
}

int task_launch(struct task *t)
{
	int rc = fiber_create(&t->fiber, &t->pub.sp, t->stack_bytes, task_entry, t);

	if (!rc)
		task_admit(t);
	return rc;
}

int sched_sim_spawn(struct sim_task **out, const struct sim_task_attr *attr, void (*fn)(void *),
		    void *arg)
{
	struct task *t = task_new(attr, fn, arg);

	if (!t)
		return ENOMEM;
	int rc = task_launch(t);
	if (rc) {
		t->wake_next = eng.task_pool;
		eng.task_pool = t;
		return rc;
	}
	if (attr->kind == SIM_TASK_HOST)
		mem_release(t);
	*out = &t->pub;
	return 0;
}

/* Ends a task that returned or was killed: frees its stack, wakes its joiner. */
static void task_ended(struct task *t)
{
	if (t->mem)
		mem_task_ended(t);
	if (t->fiber.stack) { /* a guest's main task runs on the program's stack */
		mem_fresh(t->fiber.low, t->fiber.bytes);
		fiber_release(&t->fiber);
	}
	t->pub.sp = NULL;
	eng.live--;
	eng.live_foreground -= !t->pub.background;
	if (eng.live_foreground == 0)
		eng.stop = true;
	t->done.v_ = 1;
	waits_wrote(&t->done, sizeof t->done);
	if (t->pub.kind == SIM_TASK_WARP || t->pub.detached)
		task_free(t);
}

static void task_kill(struct task *t)
{
	switch (t->pub.state) {
	case SIM_TASK_READY:
		ready_remove(t);
		break;
	case SIM_TASK_WAITING:
		if (t->node_n) {
			waits_remove(t);
			eng.waiting--;
		} else {
			pollers_unpark(t);
		}
		break;
	case SIM_TASK_SLEEPING:
		break;
	default:
		return;
	}
	if (t->timer.at)
		timer_remove(&t->timer);
	t->pub.state = SIM_TASK_KILLED;
	trace_record("task.killed", t->pub.self.id, 0, 0);
	task_ended(t);
}

void sched_sim_kill_proc(struct os_proc *proc)
{
	struct sim_task *p, *next;

	ASSERT(!eng.current || eng.current->pub.self.proc != proc);
	for (p = sim_tasks_head; p; p = next) {
		next = p->next;
		if (p->self.proc == proc)
			task_kill(task_of(p));
	}
}

/* ---- suspending ----------------------------------------------------------------------------- */

void task_suspend(struct task *t, enum sim_task_state state)
{
	t->pub.state = state;
	t->points_alone = 0;
	fiber_suspend(&t->fiber);
}

/* Moves time immediately if nothing else could run before the sleeper wakes. True: it did. */
static bool task_sleep_inline(struct task *t, uint64_t ns)
{
	if (ready_count() || (eng.heap.n && eng.heap.slot[1].when <= eng.now_ns + ns) ||
	    pollers_look_before(eng.now_ns + ns))
		return false;
	if (t->pub.background || eng.stop ||
	    eng.steps - eng.progress_step >= eng.config.budget_events ||
	    eng.now_ns + ns - eng.progress_ns >= eng.config.budget_ns)
		return false;
	sim_gdb_point(); /* the task may have begun with the step that was the limit */
	eng.now_ns += ns;
	eng.steps++;
	t->points_alone = 0;
	sim_gdb_point();
	return true;
}

/* Sleeps. A background task that sleeps by its own call keeps nothing alive (`background`). A task
 * that a charge or the strategy delays is at work: others may depend on its next action. */
static void task_sleep_as(struct task *t, uint64_t ns, bool background)
{
	ASSERT(t == eng.current);
	if (!ns || task_sleep_inline(t, ns))
		return;
	t->pub.wake_ns = eng.now_ns + ns;
	timer_add(&t->timer, TIMER_SLEEP, background, t->pub.wake_ns, strategy_tie());
	task_suspend(t, SIM_TASK_SLEEPING);
}

void task_sleep(struct task *t, uint64_t ns)
{
	task_sleep_as(t, ns, false);
}

static void task_yield(struct task *t)
{
	if (!ready_count() && !(eng.heap.n && eng.heap.slot[1].when <= eng.now_ns))
		return;
	t->pub.state = SIM_TASK_READY;
	ready_add(t);
	task_suspend(t, SIM_TASK_READY);
}

static void task_pay_debt(struct task *t)
{
	uint64_t ns = t->pub.debt_ns;

	t->pub.debt_ns = 0;
	task_sleep(t, strategy_factor(ns));
}

/* Kills the process in an event, because no task can free the stack that it runs on. */
void engine_kill_self(struct task *t)
{
	static const struct sim_event_attr attr = {.name = "engine.kill"};

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

void sim_point(const char *site)
{
	(void)site;
	if (eng.phase != ENGINE_RUNNING)
		return;
	if (!engine_in_sim()) {
		threads_point();
		return;
	}
	if (UNLIKELY(eng.point_faults && eng.current)) {
		guest_check_thread();
		task_point_fault(eng.current);
	}
	sched_sim_point();
}

/* ---- os_sched_ops --------------------------------------------------------------------------- */

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
	int rc = engine_thread_fault();

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
	waits_event_post(object);
}

/* Reads the count after a scheduling point: a change that the task has missed, and its post, may
 * happen before the task reads the count. */
static uint64_t sched_sim_event_seq(const void *object)
{
	sched_sim_point();
	if (eng.current)
		mem_acquire(object);
	return waits_event_seq(object);
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

const struct os_sched_ops sched_sim_ops = {
	.name = "sim",
	.self = sched_sim_self,
	.thread_start = sched_sim_thread_start,
	.thread_join = sched_sim_thread_join,
	.wait = sched_sim_wait,
	.event_seq = sched_sim_event_seq,
	.event_post = sched_sim_event_post,
	.poll_miss = polls_miss,
	.poll_hit = polls_hit,
	.now_ns = sched_sim_now,
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
};

/* ---- the loop ------------------------------------------------------------------------------- */

static void loop_run_task(struct task *t)
{
	t->pub.state = SIM_TASK_RUNNING;
	t->pub.switches++;
	eng.switches++;
	eng.steps++;
	trace_fold(0x73776974, t->pub.self.id, 0);
	eng.pct_preempt = false;
	eng.current = t;
	sim_task_current = &t->pub;
	sim_gdb_point_trap(NULL);
	fiber_enter(&eng.loop, &t->fiber);
	eng.current = NULL;
	sim_task_current = NULL;
	if (UNLIKELY(eng.verdict != SIM_PASS))
		return; /* the task failed, and stays where it is */
	bool look = fiber_suspect(&t->fiber, t->pub.switches) || t->pub.state == SIM_TASK_DONE;
	if (UNLIKELY(look && t->fiber.stack && fiber_overflowed(&t->fiber)))
		engine_fail(SIM_CRASH, "stack", "task %u \"%s\" overflowed its stack of %zu bytes",
			    t->pub.self.id, t->pub.name, t->fiber.bytes);
	if (t->pub.state == SIM_TASK_DONE)
		task_ended(t);
}

/* Wakes the task of the heap's top: its sleep is over, or its deadline has passed. */
static void loop_wake_top(void)
{
	struct timer *timer = eng.heap.slot[1].timer;
	struct task *t = CONTAINER_OF(timer, struct task, timer);

	timer_remove(timer);
	if (timer->kind == TIMER_DEADLINE) {
		waits_remove(t);
		eng.waiting--;
	}
	task_make_ready(t);
}

/* Fails the run, or lets the pollers look: nothing in the foreground can happen, and a task still
 * waits. */
static void loop_quiescent(void)
{
	if (pollers_look())
		return;
	for (struct sim_task *p = sim_tasks_head; p; p = p->next) {
		if (p->state != SIM_TASK_WAITING || !p->wait)
			continue;
		int first = waits_first_true(p->wait, p->wait_n);
		if (first >= 0 || waits_aborted(p->wait_abort))
			engine_fail(
				SIM_NO_PROGRESS, "missed-wake",
				"task %u \"%s\" waits for \"%s\", which is true, but it was "
				"not woken: what made it true did not report the write (sim_wrote)",
				p->self.id, p->name, first >= 0 ? p->wait[first]->why : "abort");
	}
	engine_threads_may_go_on();
	engine_fail(SIM_NO_PROGRESS, "deadlock",
		    "%u foreground tasks wait and nothing is left that could wake them",
		    eng.live_foreground);
}

static void loop_check_budget(void)
{
	uint64_t steps = eng.steps - eng.progress_step, ns = eng.now_ns - eng.progress_ns;

	if (LIKELY(steps < eng.config.budget_events && ns < eng.config.budget_ns))
		return;
	if (engine_has_programs() && steps < PROGRAM_STEPS &&
	    (steps < eng.config.budget_events || ns < PROGRAM_NS))
		return;
	engine_fail(SIM_NO_PROGRESS, "livelock",
		    "no progress for %llu steps and %llu ns of virtual time",
		    (unsigned long long)steps, (unsigned long long)ns);
}

/* Makes ready the tasks whose time has passed; true if an event is due. */
static bool loop_due(void)
{
	while (eng.heap.n && eng.heap.slot[1].when <= eng.now_ns) {
		if (eng.heap.slot[1].timer->kind == TIMER_EVENT)
			return true;
		loop_wake_top();
	}
	return false;
}

void sched_sim_run(void)
{
	while (!eng.stop) {
		loop_check_budget();
		if (UNLIKELY(eng.steps >= eng.watch_step))
			watch_check();
		sim_gdb_now_ns = eng.now_ns;
		sim_gdb_steps = eng.steps;
		sim_gdb_point();
		bool event_due = loop_due();
		if (!event_due && !ready_count()) {
			if (!eng.heap.foreground && !pollers_go_on())
				loop_quiescent();
			else
				pollers_let_pass();
			continue;
		}
		struct task *t = ready_pick(event_due);
		if (t)
			loop_run_task(t);
		else
			event_run_top();
	}
}

/* Discards all tasks without running them: those still alive, and those that ended and were not
 * joined. */
void sched_sim_stop(void)
{
	while (sim_tasks_head) {
		struct task *t = task_of(sim_tasks_head);

		if (t->fiber.stack)
			fiber_release(&t->fiber);
		task_free(t);
	}
	sim_task_current = NULL;
	task_pool_free();
}
