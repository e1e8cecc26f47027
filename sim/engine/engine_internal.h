/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the engine share, and no other file sees. One engine, one instance: `eng`. In
 * `sim` everything here is touched by one OS thread. In `threads` only the parts marked so are
 * used, each with its lock or as shared words.
 *
 * Owner of each part: engine.c life and verdicts; sched_sim.c the loop and the tasks; strategy.c
 * the ready set and every scheduling draw; waits.c the waiter index; event.c the timer heap and
 * the events; clock.c time, charges, resources; choice.c draws; fault.c plans; trace.c the hash
 * and the trace file; timeline.c what is in that file; label.c names; explain.c, core_file.c and
 * crash.c reports.
 */
#ifndef SIM_ENGINE_ENGINE_INTERNAL_H
#define SIM_ENGINE_ENGINE_INTERNAL_H

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <ucontext.h>

#include "core/base/macros.h"
#include "core/os/os_ops.h"
#include "sim/engine/fiber.h"
#include "sim/engine/sim.h"

#pragma GCC visibility push(hidden)

#define ENGINE_NEVER UINT64_MAX

struct task;
struct mem_access; /* memory.h */

/* ---- timers: one heap for events, sleeps and deadlines (event.c) ---------------------------- */

enum timer_kind { TIMER_SLEEP, TIMER_DEADLINE, TIMER_EVENT };

#define TIMER_BEHIND UINT32_MAX

struct timer {
	/* Place in the heap, from 1; 0: not queued; TIMER_BEHIND: in its order's queue. */
	uint32_t at;
	uint8_t kind;
	bool background;
};

struct timer_slot {
	uint64_t when;
	uint64_t key; /* tie draw << 56 | sequence number */
	struct timer *timer;
};

struct timer_heap {
	struct timer_slot *slot; /* from 1 */
	uint32_t n, cap;
	uint32_t foreground;
	uint64_t seq;
};

struct order;

struct sim_event {
	struct timer timer; /* first */
	void (*step)(void *object, uint64_t arg);
	void *object;
	uint64_t arg;
	const char *name;
	struct order *order;
	uint64_t slot_when, slot_key; /* of one that has an order */
	struct sim_event *next;       /* free list; the order's queue; threads: the queue */
	struct thread_part *part;     /* threads: whose queue; NULL: the timer thread's */
};

void timer_add(struct timer *t, enum timer_kind kind, bool background, uint64_t when, uint32_t tie);
void timer_remove(struct timer *t);

/* ---- tasks ---------------------------------------------------------------------------------- */

struct wait_node {
	struct wait_node *next, **link; /* in its bucket */
	uintptr_t at;                   /* the bytes that it watches */
	uint32_t bytes;
	int32_t index; /* into the task's waits; -1: the abort word */
	struct task *task;
};

struct task {
	struct sim_task pub; /* first */
	struct fiber fiber;
	void (*fn)(void *arg);
	void *arg;
	struct timer timer;
	/* ready set: a place in the array (from 1), or list links under fifo */
	uint32_t ready_at;
	struct task *ready_next, *ready_prev;
	uint64_t prio;  /* pct: the greatest runs */
	bool starvable; /* starve: member of the set that may be put to sleep for long */
	/* waiting */
	struct wait_node *node;
	uint32_t node_n, node_cap;
	struct task *wake_next;
	bool waking; /* waits.c: found by the write that is looked at */
	bool moment; /* moment.c counts its points */
	uint64_t wait_since_ns;
	/* polling */
	uint32_t poll_row; /* fruitless polls in a row */
	uint64_t poll_seen;
	struct task *poll_next;
	uint64_t clock_ns; /* when the program read its clock last */
	uint32_t clock_row;
	uint32_t points_alone; /* scheduling points in a row without a switch */
	shared_u32 done;       /* what a joiner waits for */
	bool joined;
	size_t stack_bytes;
	int32_t made_for;       /* rank; pub.self.rank is the task's own, and others read this */
	struct sim_track track; /* timeline.c */
	struct mem_agent *mem;  /* memory.c; NULL: made no access yet, or the memory model is off */
	/* threads engine */
	struct thread_part *part; /* host: its thread; warp: its worker */
	shared_u32 killed;
	shared_u32 shown; /* show.c */
};

static inline struct task *task_of(struct sim_task *t)
{
	return CONTAINER_OF(t, struct task, pub);
}

/* ---- the instance --------------------------------------------------------------------------- */

enum engine_phase { ENGINE_OFF, ENGINE_READY, ENGINE_RUNNING, ENGINE_OVER };

/* Exploring behaviour; drawn by strategy.c at start, printed by sim_strategy_name. */
enum strategy_kind {
	STRATEGY_FIFO,
	STRATEGY_UNIFORM,
	STRATEGY_PCT,
	STRATEGY_STARVE,
	STRATEGY_JITTER,
};

struct engine {
	enum engine_phase phase;
	enum sim_engine kind;
	struct sim_config config;
	enum strategy_kind strategy;
	bool strategy_drawn; /* by the portfolio */
	uint64_t seed;       /* in force: the config's, or the replayed file's */
	enum sim_verdict verdict;

	/* the hot part of a scheduling point */
	struct task *current; /* NULL: event context, or outside */
	int64_t countdown;    /* points until the strategy decides */
	bool pct_preempt;     /* a task of higher priority became ready */
	bool point_faults;    /* the plan has faults at scheduling points */
	bool any_faults;      /* the plan has faults at all */
	bool guest;           /* the program began before the engine (guest.c) */

	uint64_t start_ns; /* of the run: 0 in sim */
	uint64_t now_ns, steps, switches, events_run, changes;
	uint64_t progress_step, progress_ns;
	uint64_t last_look_changes;
	uint32_t last_looks;     /* of pollers, with nothing changed since */
	uint64_t last_change_ns; /* before these looks */
	uint64_t hash;
	uint64_t watch_step; /* watch.c looks then; ENGINE_NEVER: no more */
	char reason[4][128]; /* sim_explain_first */
	uint32_t reasons;
	struct sim_failure failure;
	bool failed;  /* there is one */
	bool trouble; /* `failure` is of sim_note_trouble: any other replaces it */
	bool upset;   /* sim_upset */
	bool in_turn; /* the failure is misuse "in turn": the next one replaces it */
	struct {
		const char *words; /* NULL: none from here on */
		bool met;
	} awaited[8]; /* sim_expect_misuse */

	struct task *main_task;
	struct sim_task event_self; /* os_self() in event context */
	struct os_proc main_proc;
	uint32_t next_task_id;
	uint32_t live, live_foreground;
	uint32_t waiting;
	struct task *task_pool;
	struct task *pollers, **pollers_end;
	uint64_t parked_ns; /* since when there are pollers in that list */
	struct timer_heap heap;
	bool stop; /* the loop ends at its next turn */
	bool in_event;
	const void *acting; /* mem_as() of the running step */

	pthread_t thread; /* of sim_run */
	struct fiber loop;
	void *loop_sp;
	jmp_buf fail_jump; /* back into sim_run, from event context */
	/* guest.c: what ends a guest whose run failed */
	void (*guest_ended)(enum sim_verdict verdict);
	struct fiber guest_fiber; /* the guest's stack, once its main task has ended */
	void *guest_sp;
	const void *(*resolve)(const void *addr);
	const void *(*home)(const void *addr);
	void (*kill_hook)(struct os_proc *proc);
};

extern struct engine eng;

static inline bool engine_in_sim(void)
{
	return eng.kind == SIM_ENGINE_SIM;
}

/* engine.c */
void engine_begin(void);            /* of a run: the first half of sim_run */
enum sim_verdict engine_over(void); /* the last */
extern const struct os_sched_ops sched_sim_ops, sched_threads_ops;
/* Prints the failure in the contract's shape, and dumps; does not end anything. */
void engine_report(enum sim_verdict verdict, const char *kind, const char *message);
void engine_fail(enum sim_verdict verdict, const char *kind, const char *fmt, ...)
	__attribute__((format(printf, 3, 4), noreturn));
/* A fault ends the process of the running task; does not return. */
void engine_kill_self(struct task *t) __attribute__((noreturn));
void engine_kill_step(void *proc, uint64_t arg); /* as an event */
void engine_foreign_thread(void) __attribute__((noreturn));
/* All tasks wait for ever. Ends the process with an error if the program has threads that the
 * engine does not run: the wait may be for one of them. */
void engine_threads_may_go_on(void);
/* Tasks run programs, whose loops may have limits of their own. */
static inline bool engine_has_programs(void)
{
	return eng.guest || eng.config.programs;
}
/* A guest's other threads call where its tasks would. */
static inline void guest_check_thread(void)
{
	if (UNLIKELY(engine_has_programs()) && !pthread_equal(eng.thread, pthread_self()))
		engine_foreign_thread();
}
const char *engine_verdict_name(enum sim_verdict verdict);
void engine_print_failure_hooks(FILE *out);
/* Tasks end at their next scheduling point: from here on every point looks. */
void engine_mode_upset(void);

/* sched_sim.c */
void sched_sim_run(void);
void sched_sim_stop(void);
struct task *task_new(const struct sim_task_attr *attr, void (*fn)(void *), void *arg);
void task_admit(struct task *t);
int task_launch(struct task *t); /* ENOMEM */
int sched_sim_spawn(struct sim_task **t, const struct sim_task_attr *attr, void (*fn)(void *),
		    void *arg);
void sched_sim_kill_proc(struct os_proc *proc);
void sched_sim_point(void);
void task_make_ready(struct task *t); /* from any suspended state that holds no wait nor timer */
void task_sleep(struct task *t, uint64_t ns);
void task_suspend(struct task *t, enum sim_task_state state);
void task_list_add(struct task *t);
void task_list_remove(struct task *t);
void task_pool_free(void);

/* polls.c */
void polls_miss(const char *why);
void polls_hit(void);
bool pollers_go_on(void); /* though nothing else can happen */
bool pollers_look(void);  /* true: they look once more */
bool pollers_look_before(uint64_t when);
void pollers_let_pass(void); /* time moves to the next thing that happens */

/* accessors.c */
void accessor_point(const void *addr, size_t bytes, enum shared_access access,
		    enum shared_order order);
bool accessor_store(void *addr, size_t bytes, uint64_t value, enum shared_order order);
void accessor_wrote(const void *addr, size_t bytes, enum shared_access access);
void accessor_note(const void *addr, size_t bytes, enum shared_access access);

/* ---- threads engine ---------------------------------------------------------------------------
 */

/* What an OS thread has: its task, or the fiber that it runs, and the work that it posted. */
struct thread_part {
	struct thread_part *next; /* all; only grows until the engine stops */
	struct task *task;        /* its host task, or a stand-in */
	struct task *running;     /* worker: the warp that runs */
	bool stand_in;            /* worker, timers, adopted: no task of its own */
	bool has_proc;            /* adopted for a process; other stand-ins are of main's */
	bool is_host;             /* started for a host task: to be joined */
	bool joined;
	pthread_t thread;
	int32_t park_slot;
	void *alt_stack;
	/* work events */
	pthread_mutex_t lock;
	struct sim_event *first, **end, *free;
	uint32_t queued; /* written under the lock; its own thread may look without */
	bool draining;
	/* worker */
	struct worker *worker;
	uint32_t point_countdown;
};

/* thread_self.c: apart, and never inlined, because a fiber may not keep a thread-local address. */
struct thread_part *thread_part_get(void); /* NULL: none since the engine started */
void thread_part_set(struct thread_part *part);
void thread_part_forget_all(void);

/* sched_threads.c */
extern struct thread_part *threads_all; /* grows under threads_lock */
extern pthread_mutex_t threads_lock;    /* tasks, parts, counts */
int threads_start(void);
void threads_run(void (*fn)(void *), void *arg);
bool threads_main_over(uint64_t limit_ns); /* 0: no limit */
void threads_end(void);                    /* joins every thread of the engine */
void threads_stop(void);
int threads_spawn(struct sim_task **t, const struct sim_task_attr *attr, void (*fn)(void *),
		  void *arg);
void threads_kill_proc(struct os_proc *proc);
void threads_point(void);
uint64_t threads_now_ns(void);
uint64_t threads_wall_offset_ns(void); /* of the wall clock before threads_now_ns */
uint64_t threads_event_seq(const void *object);
struct task *threads_self(void);        /* NULL: a thread that the engine does not know */
struct thread_part *threads_part(void); /* the caller's, adopted where needed */
struct thread_part *threads_part_new(const char *stand_in);
/* After the n-th fruitless look in a row: false, having paused or given way, or true: park. */
bool threads_pause(uint32_t round);
uint64_t threads_park_ns(uint32_t round); /* how long at most */
uint32_t threads_woken(uint32_t round);   /* the round to go on with after a wake */
void threads_prepare(void);               /* the calling thread, once */
bool threads_killed(const struct task *t);
void threads_task_gone(struct task *t); /* it no longer waits */

/* show.c */
/* What the task waits for; and a state in which it waits for nothing. Its own thread calls them. */
void show_wait(struct task *t, const struct wait *const *w, int n, const shared_u32 *abort,
	       uint64_t wake_ns);
void show_state(struct task *t, enum sim_task_state state);
/* Takes threads_lock, when no thread looks at the task: it can go. */
void show_lock_to_remove(const struct task *t);
/* Around an explanation: what tasks wait for stays. True: to be released. */
bool show_hold_all(void);
void show_release_all(bool held);

/* park.c */
int32_t park_slot_new(void);
void park_reset(void);
void park_wrote(const void *addr, size_t bytes);
void park_wake_all(void);
void park_wake_slot(int32_t slot);
/* Counts the caller in (by = 1) or out (by = -1) where the waits look; returns their bits. */
uint64_t park_watch(const struct wait *const *w, int n, const shared_u32 *abort, int32_t by);
/* Between the two: sleeps until a write there, at most max_ns, unless look() is true. Returns
 * whether it was woken. */
bool park(int32_t slot, uint64_t bits, bool (*look)(void *arg), void *arg, uint64_t max_ns);

/* worker.c */
int workers_start(void);
void workers_join(void);
int worker_spawn(struct task *t, uint32_t home);
void worker_suspend(struct task *t);
void worker_point(struct task *t);

/* event_threads.c */
int timers_start(void);
void timers_join(void); /* from here on no timer runs */
void timers_stop(void);
void threads_part_free_events(struct thread_part *part);
void threads_event_post(const struct sim_event_attr *attr, void (*step)(void *, uint64_t),
			void *object, uint64_t arg, struct sim_event **handle);
bool threads_event_cancel(struct sim_event *handle);
void threads_events_cancel_object(const void *object);
void threads_events_drain(void);

/* strategy.c */
void strategy_start(void);
void strategy_stop(void);
void strategy_task(struct task *t); /* a new task: its priority */
void ready_add(struct task *t);
void ready_remove(struct task *t);
uint32_t ready_count(void);
/* The task to run, or NULL: the event that is due. There is at least one of both. */
struct task *ready_pick(bool event_due);
/* The countdown ran out at a point of t. Returns the ns to sleep (0: none) and sets *yield. */
uint64_t strategy_point(struct task *t, bool *yield);
uint32_t strategy_tie(void);
uint64_t strategy_factor(uint64_t ns); /* a latency with its drawn factor */
bool strategy_spurious(void);
bool strategy_exploring(void);
bool strategy_memory(void); /* the knob: the memory-order adversary is on, where it may choose */

/* clock.c */
void clock_charge(enum os_cost what, uint64_t amount);

/* waits.c */
void waits_start(void);
void waits_stop(void);
/* Index of the first true wait, or -1. */
int waits_first_true(const struct wait *const *w, int n);
bool wait_is_true(const struct wait *w);
bool wait_read(const struct wait *w, uint64_t *value);        /* the masked value, for people */
void wait_line_flags(const struct wait *w, uint32_t flag[2]); /* of a line */
bool waits_aborted(const shared_u32 *abort);
uint64_t waits_deadline(const struct wait *const *w, int n);
const void *waits_at(const void *addr); /* where the word is read that waits call `addr` */
const void *
waits_home(const void *addr); /* what waits and writes call the memory that is mapped there */
void waits_add(struct task *t, const struct wait *const *w, int n, const shared_u32 *abort);
void waits_remove(struct task *t);
void waits_wrote(const void *addr, size_t bytes);
uint64_t waits_event_seq(const void *object);
void waits_event_post(const void *object);
enum { POLL_FREE = 8 }; /* fruitless polls in a row before a task waits for a change */
void pollers_park(struct task *t);
void pollers_unpark(struct task *t);
void pollers_wake(void);

/* memory.c: the memory model, memory.h; nothing here runs while mem_on is 0 */

/* What makes accesses: a task, or an object that acts in events. */
struct mem_agent {
	struct mem_agent *next;
	struct task *task;  /* NULL: an object, or events that named none */
	const void *object; /* NULL: a task, or events that named none */
	uint32_t id;        /* by first access; stable within a run */
	bool is_warp;
	int32_t device; /* of a warp; -1 */
	uint64_t block; /* of a warp: kernel << 32 | block */
	struct store_part *store;
	struct happens_part *happens;
};

int mem_start(void); /* ENOTSUP */
void mem_stop(void);
void mem_task_ended(struct task *t);

/* store.c. On if store_start turned it on. */
bool store_start(void);
void store_stop(void);
void store_agent_ended(struct mem_agent *me);
void store_access(struct mem_agent *me, const struct mem_access *a);
bool store_keep(struct mem_agent *me, const struct mem_access *a, const void *bytes);
void store_wrote(struct mem_agent *me, const struct mem_access *a);
void store_drain(struct mem_agent *me);
void store_barrier(struct mem_agent *me);
void store_fresh(const void *addr, size_t bytes);

/* happens.c */
int happens_start(void); /* ENOTSUP */
void happens_stop(void);
void happens_agent_ended(struct mem_agent *me);
void happens_access(struct mem_agent *me, const struct mem_access *a);
void happens_release(struct mem_agent *me, const void *object);
void happens_acquire(struct mem_agent *me, const void *object);
void happens_forget(const void *object);
void happens_barrier_arrive(struct mem_agent *me, const void *barrier);
void happens_barrier_leave(struct mem_agent *me, const void *barrier);
void happens_fresh(const void *addr, size_t bytes);

/* event.c */
void events_stop(void);
void event_run_top(void); /* the heap's top is an event that is due */

/* choice.c */
struct choice_site;
int choice_start(void);
void choice_cut(void); /* a replay ends before its recording does */
void choice_stop(void);
struct choice_site *choice_site_find(const char *name);
struct choice_site *choice_site_get(const char *name); /* faster; a string constant only */
/* `quiet` is the value with which nothing special happens, below n, or n for "none of them", which
 * no seed draws but a shrunk replay may give. choice_draw: 0. */
uint32_t choice_draw_quiet(struct choice_site *site, uint32_t n, uint32_t quiet);
uint32_t choice_draw(struct choice_site *site, uint32_t n);
/* The choice just logged was between two tasks. */
void choice_log_tasks(int32_t task, int32_t other);
int choice_write(const char *path);
uint64_t choice_count(void);

/* fault.c */
int fault_start(void);
void fault_stop(void);
void fault_run(void); /* the run begins */
bool fault_check(const char *site, const void *object, const struct sim_fault_place *at,
		 struct os_fault *f);

int engine_thread_fault(void); /* the errno with which a plan refuses a thread, or 0 */

/* probe.c */
void probe_start(void);
void probe_hit(const struct os_site *site);

/* buggify.c */
void buggify_start(void);
bool buggify_visit(const struct os_site *site);

/* moment.c */
void moment_start(void);
void moment_task(struct task *t); /* a new one */
uint64_t moment_point(void);      /* the ns that its task sleeps; 0: it goes on */

/* watch.c */
void watch_start(void);
void watch_check(void); /* the step has come */

/* trace.c */
int trace_start(void);
void trace_stop(void);
void trace_flush(void);
void trace_fold(uint64_t a, uint64_t b, uint64_t c);
void trace_record(const char *kind, uint64_t a, uint64_t b, uint64_t c);
void trace_record_bytes(const char *kind, uint64_t a, const void *bytes, size_t n);
bool trace_is_on(void);

/* timeline.c; nothing happens without a trace file */
/* os_trace_begin, os_trace_end, os_trace_span */
void timeline_of_task(char phase, const struct os_trace_slice *s, uint64_t from_ns);
void timeline_wait(struct task *t, const char *why, uint64_t from_ns);
void timeline_instant(const char *name, const char *detail);

/* label.c */
void label_set(const void *object, const struct os_label *label);
void label_unset(const void *object);
bool label_get(const void *object, struct os_label *label);
/* The largest number in the labels of such objects of the rank; -1: it has none. */
int64_t label_most(const char *what, int32_t rank);
/* The sum of the numbers in the labels of such objects of the rank and that peer. */
int64_t label_sum(const char *what, int32_t rank, int32_t peer);
void label_stop(void);

/* crash.c */
void crash_install(void);
void crash_restore(void);
bool crash_traced(void); /* a debugger is attached */
/* Ends the program by the signal, without a core file: the crash, if there was one, is over. */
void crash_end_by(int signal) __attribute__((noreturn));
/* Fills an elf_gregset_t: from the crash that is being reported, or else from `otherwise`. */
void crash_registers(void *regs, const ucontext_t *otherwise);
void crash_alt_stack(void **keep); /* for the calling thread */
void crash_alt_stack_free(void *keep);

#pragma GCC visibility pop
#endif
