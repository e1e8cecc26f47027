/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The `threads` scheduler: host tasks are pthreads, warps are fibers of worker threads (worker.c),
 * time is real. A waiting thread looks again: after a pause, then after a yield, then after short
 * sleeps that a write ends (park.c). No task has to be woken, so this engine does not notice a
 * forgotten wake (`sim` finds it).
 *
 * A task of a killed process ends at its next wait, sleep, poll or scheduling point. A background
 * task ends there once the run is over.
 */
#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#include "sim/engine/engine_internal.h"
#include "sim/engine/gdb_hooks.h"

enum { EVENT_COUNTS = 4096, PAUSES = 64, YIELDS = 16, PARK_NS = 100000, PARK_MAX_NS = 2000000 };

struct thread_part *threads_all;
pthread_mutex_t threads_lock = PTHREAD_MUTEX_INITIALIZER; /* tasks, parts, counts */
static pthread_cond_t threads_ended = PTHREAD_COND_INITIALIZER;
static shared_u32 threads_stopping, threads_kills;
static shared_u64 threads_counts[EVENT_COUNTS];

/* ---- parts ---------------------------------------------------------------------------------- */

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
	thread_part_set(part);
	return part;
}

/* Returns the caller's part. Adopts a thread that was not announced: it becomes a background task
 * of the first process. */
struct thread_part *threads_part(void)
{
	struct thread_part *part = thread_part_get();

	return part ? part : threads_adopt(&eng.main_proc);
}

void sim_adopt_thread(struct os_proc *proc)
{
	ASSERT(!engine_in_sim() && !thread_part_get());
	threads_adopt(proc)->has_proc = true;
}

struct task *threads_self(void)
{
	const struct thread_part *part = thread_part_get();

	if (!part)
		return NULL;
	return part->running ? part->running : part->task;
}

/* Sets a fine timer: sleeps of microseconds need less than the default slack of 50 us. */
void threads_prepare(void)
{
	prctl(PR_SET_TIMERSLACK, 1000UL);
}

uint64_t threads_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

uint64_t threads_wall_offset_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec - threads_now_ns();
}

bool threads_pause(uint32_t round)
{
	if (round >= PAUSES + YIELDS)
		return true;
	if (round >= PAUSES) {
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
	uint32_t power = MIN_OF(round - MIN_OF(round, (uint32_t)(PAUSES + YIELDS)), 8u);

	return MIN_OF((uint64_t)PARK_NS << power, (uint64_t)PARK_MAX_NS);
}

/* Returns to the yielding rounds after a wake: the write may not have sufficed, and the writer gets
 * the CPU before the next park. */
uint32_t threads_woken(uint32_t round)
{
	return MIN_OF(round, (uint32_t)PAUSES);
}

/* Sleeps a little, for tasks that wait for an end, which no write announces. */
static void threads_doze(uint32_t round)
{
	uint32_t power = MIN_OF(round / 4, 8u);
	const struct timespec t = {.tv_nsec = 1000 << power};

	nanosleep(&t, NULL);
}

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
static bool threads_ends(const struct task *t)
{
	bool over =
		t->pub.background && __atomic_load_n(&threads_stopping.v_, __ATOMIC_ACQUIRE) != 0;

	return (over || threads_killed(t)) && t->part->is_host;
}

static void threads_maybe_end(struct task *t)
{
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
	engine_mode_upset();
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
static void threads_forget(struct task *t)
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

/* ---- points and waits ----------------------------------------------------------------------- */

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
	for (uint32_t round = 0; rc == EAGAIN;) {
		bool slept = !fiber && round >= PAUSES + YIELDS;

		show_wait(t, w, n, abort, deadline == ENGINE_NEVER ? 0 : deadline);
		if (fiber)
			worker_suspend(t);
		else
			round = threads_host_idle(&view, deadline, round);
		show_state(t, SIM_TASK_RUNNING);
		rc = threads_look(w, n, abort, deadline, index, slept);
	}
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

/* ---- os_sched_ops --------------------------------------------------------------------------- */

static struct os_self *threads_os_self(void)
{
	struct thread_part *part = threads_part();

	if (part->running)
		return &part->running->pub.self;
	if (part->stand_in && !part->has_proc)
		part->task->pub.self.proc = eng.main_task->pub.self.proc;
	return &part->task->pub.self;
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
	int rc = engine_thread_fault();

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

static shared_u64 *threads_count_of(const void *object)
{
	return &threads_counts[((uintptr_t)object * 0x9e3779b97f4a7c15ull) >> 52];
}

uint64_t threads_event_seq(const void *object)
{
	if (UNLIKELY(!sim_posts_matter()))
		__atomic_store_n(&sim_mode.posts, true, __ATOMIC_SEQ_CST);
	return __atomic_load_n(&threads_count_of(object)->v_, __ATOMIC_ACQUIRE);
}

static void threads_os_event_post(const void *object)
{
	__atomic_fetch_add(&threads_count_of(object)->v_, 1, __ATOMIC_ACQ_REL);
	park_wrote(object, 1);
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

const struct os_sched_ops sched_threads_ops = {
	.name = "threads",
	.self = threads_os_self,
	.thread_start = threads_thread_start,
	.thread_join = threads_thread_join,
	.wait = threads_wait,
	.event_seq = threads_event_seq,
	.event_post = threads_os_event_post,
	.poll_miss = threads_poll_miss,
	.poll_hit = threads_poll_hit,
	.now_ns = threads_now_ns,
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
bool threads_main_over(uint64_t limit_ns)
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

/* Runs fn as the main task on the caller's thread. Returns when no foreground task and no other
 * thread of the engine is alive. */
void threads_run(void (*fn)(void *), void *arg)
{
	threads_prepare();
	fn(arg);
	(void)threads_main_over(0);
	threads_end();
}

/* Ends all remaining tasks. */
void threads_end(void)
{
	__atomic_store_n(&threads_stopping.v_, 1, __ATOMIC_RELEASE);
	engine_mode_upset();
	park_wake_all();
	threads_join_hosts();
	workers_join();
	timers_join();
}

void threads_stop(void)
{
	timers_stop();
	while (threads_all) {
		struct thread_part *part = threads_all;

		threads_all = part->next;
		threads_part_free(part);
	}
	thread_part_forget_all();
}
