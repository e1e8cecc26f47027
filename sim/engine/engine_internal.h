/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Declarations that the files of the engine share and no other file sees. A process has one engine,
 * `eng`. In `sim` one OS thread accesses everything here. In `threads` only the parts marked as
 * such are used, each under its lock or as shared words.
 *
 * Owner of each part: engine.c life and verdicts; sched_sim.c the loop and the tasks; strategy.c
 * the ready set and every scheduling draw; waits.c the waiter index; event.c the timer heap and the
 * events; clock.c time, charges, resources; choice.c draws; fault.c plans; trace.c the hash and the
 * trace file; timeline.c the records of that file; label.c names; explain.c, core_file.c and
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
	/* Index in the heap, from 1. 0: not queued. TIMER_BEHIND: queued in its order, not in the
	 * heap. */
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
	struct timer_slot *slot; /* indexed from 1 */
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
	uint64_t slot_when, slot_key; /* heap slot of an event that has an order */
	/* next in the free list, the order's queue or (threads) the part's queue */
	struct sim_event *next;
	/* threads: part that queues the event; NULL: the timer thread does */
	struct thread_part *part;
};

void timer_add(struct timer *t, enum timer_kind kind, bool background, uint64_t when, uint32_t tie);
void timer_remove(struct timer *t);

/* ---- tasks ---------------------------------------------------------------------------------- */

struct wait_node {
	struct wait_node *next, **link; /* links in its bucket */
	uintptr_t at;                   /* address of the watched bytes */
	uint32_t bytes;
	int32_t index; /* index into the task's waits; -1: the abort word */
	struct task *task;
};

struct task {
	struct sim_task pub; /* first */
	struct fiber fiber;
	void (*fn)(void *arg);
	void *arg;
	struct timer timer;
	/* Place in the ready set: an index into the array (from 1), or list links under fifo. */
	uint32_t ready_at;
	struct task *ready_next, *ready_prev;
	uint64_t prio;  /* pct: the ready task with the greatest value runs */
	bool starvable; /* starve: the strategy may put this task to sleep for long */
	/* waiting */
	struct wait_node *node;
	uint32_t node_n, node_cap;
	struct task *wake_next;
	bool waking; /* waits.c: the current write is already waking this task */
	bool moment; /* moment.c counts the scheduling points of this task */
	uint64_t wait_since_ns;
	/* polling */
	uint32_t poll_row; /* number of fruitless polls in a row */
	uint64_t poll_seen;
	struct task *poll_next;
	uint64_t clock_ns; /* time of the program's latest clock read */
	uint32_t clock_row;
	uint32_t points_alone; /* number of scheduling points in a row without a switch */
	shared_u32 done;       /* word that a joiner waits for */
	bool joined;
	size_t stack_bytes;
	/* rank at creation, for other tasks: pub.self.rank is for the task itself */
	int32_t made_for;
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

/* The strategy in force. strategy.c draws it at start, sim_strategy_name prints it. */
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
	bool strategy_drawn; /* the portfolio drew the strategy */
	uint64_t seed;       /* the seed in force: the config's, or the replayed file's */
	enum sim_verdict verdict;

	/* fields that every scheduling point reads */
	struct task *current; /* running task; NULL: event context, or outside a run */
	int64_t countdown;    /* number of points until the strategy decides */
	bool pct_preempt;     /* a task of higher priority became ready */
	bool point_faults;    /* the plan has faults at scheduling points */
	bool any_faults;      /* the plan has faults, or visits of sites are counted */
	bool guest;           /* the program began before the engine (guest.c) */

	uint64_t start_ns; /* start of the run: 0 in sim */
	uint64_t now_ns, steps, switches, events_run, changes;
	uint64_t progress_step, progress_ns;
	uint64_t last_look_changes;
	uint32_t last_looks;     /* number of looks of the pollers since the last change */
	uint64_t last_change_ns; /* time before these looks */
	uint64_t hash;
	uint64_t watch_step; /* step at which watch.c runs next; ENGINE_NEVER: never */
	char reason[4][128]; /* sim_explain_first */
	uint32_t reasons;
	struct sim_failure failure;
	bool failed;  /* `failure` is set */
	bool trouble; /* sim_note_trouble set `failure`; any failure replaces it */
	bool upset;   /* sim_upset */
	bool in_turn; /* the failure is misuse "in turn": the next failure replaces it */
	struct {
		const char *words; /* NULL: the end of the list */
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
	uint64_t parked_ns; /* time at which the first task joined the empty list `pollers` */
	struct timer_heap heap;
	bool stop; /* ends the loop before its next iteration */
	bool in_event;
	const void *acting; /* mem_as() of the running step */

	pthread_t thread; /* thread that called sim_start */
	struct fiber loop;
	void *loop_sp;
	jmp_buf fail_jump; /* jump back into sim_run, from event context */
	/* guest.c: called when the run of a guest has failed. */
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
void engine_begin(void);            /* first half of sim_run */
enum sim_verdict engine_over(void); /* second half of sim_run */
extern const struct os_sched_ops sched_sim_ops, sched_threads_ops;
/* Prints the failure in the contract's format and dumps; ends nothing. */
void engine_report(enum sim_verdict verdict, const char *kind, const char *message);
void engine_fail(enum sim_verdict verdict, const char *kind, const char *fmt, ...)
	__attribute__((format(printf, 3, 4), noreturn));
/* Ends the process of the running task on behalf of a fault; does not return. */
void engine_kill_self(struct task *t) __attribute__((noreturn));
void engine_kill_step(void *proc, uint64_t arg); /* step of an event */
void engine_foreign_thread(void) __attribute__((noreturn));
/* Ends the process with an error if the program has threads that the engine does not run. Called
 * when all tasks wait without end: one of those threads may be about to end a wait. */
void engine_threads_may_go_on(void);
/* True if tasks run programs, whose loops may have limits of their own. */
static inline bool engine_has_programs(void)
{
	return eng.guest || eng.config.programs;
}
/* Refuses a call from a thread of a guest program that is not the engine's thread. */
static inline void guest_check_thread(void)
{
	if (UNLIKELY(engine_has_programs()) && !pthread_equal(eng.thread, pthread_self()))
		engine_foreign_thread();
}
const char *engine_verdict_name(enum sim_verdict verdict);
void engine_print_failure_hooks(FILE *out);
/* Ends sim_is_calm: from now on every scheduling point checks whether its task must end. */
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
void task_make_ready(struct task *t); /* from any suspended state without a wait or a timer */
void task_sleep(struct task *t, uint64_t ns);
void task_suspend(struct task *t, enum sim_task_state state);
void task_list_add(struct task *t);
void task_list_remove(struct task *t);
void task_pool_free(void);

/* polls.c */
void polls_miss(const char *why);
void polls_hit(void);
bool pollers_go_on(void); /* True if pollers continue although nothing else can happen. */
bool pollers_look(void);  /* True if the pollers look once more. */
bool pollers_look_before(uint64_t when);
void pollers_let_pass(void); /* Moves time to the next timer, or lets the pollers look first. */

/* accessors.c */
void accessor_point(const void *addr, size_t bytes, enum shared_access access,
		    enum shared_order order);
bool accessor_store(void *addr, size_t bytes, uint64_t value, enum shared_order order);
void accessor_wrote(const void *addr, size_t bytes, enum shared_access access);
void accessor_note(const void *addr, size_t bytes, enum shared_access access);

/* State of an OS thread: its host task or the warp that it runs, and the work events that it
 * posted. */
struct thread_part {
	struct thread_part *next; /* links all parts; the list only grows until the engine stops */
	struct task *task;        /* its host task, or a stand-in */
	struct task *running;     /* worker: the running warp */
	/* worker, timer thread or adopted thread: has no task of its own */
	bool stand_in;
	/* adopted for a process; other stand-ins belong to the main task's */
	bool has_proc;
	bool is_host; /* started for a host task: must be joined */
	bool joined;
	pthread_t thread;
	int32_t park_slot;
	void *alt_stack;
	/* work events */
	pthread_mutex_t lock;
	struct sim_event *first, **end, *free;
	uint32_t queued; /* written under the lock; the own thread may read it without */
	bool draining;
	/* worker */
	struct worker *worker;
	uint32_t point_countdown;
};

/* thread_self.c: in a file of their own and never inlined, because a fiber may not keep a
 * thread-local address. */
struct thread_part *thread_part_get(void); /* NULL: not set since the engine started */
void thread_part_set(struct thread_part *part);
void thread_part_forget_all(void);

/* sched_threads.c */
extern struct thread_part *threads_all; /* grows under threads_lock */
extern pthread_mutex_t threads_lock;    /* guards tasks, parts, counts */
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
uint64_t threads_wall_offset_ns(void); /* the wall clock minus threads_now_ns */
uint64_t threads_event_seq(const void *object);
struct task *threads_self(void);        /* NULL: a thread that the engine does not know */
struct thread_part *threads_part(void); /* the caller's part; adopts an unknown thread */
struct thread_part *threads_part_new(const char *stand_in);
/* Handles the n-th fruitless look in a row. False: it paused or yielded. True: the caller parks. */
bool threads_pause(uint32_t round);
uint64_t threads_park_ns(uint32_t round); /* longest sleep of a park */
uint32_t threads_woken(uint32_t round);   /* returns the round to continue with after a wake */
void threads_prepare(void);               /* prepares the calling thread; called once per thread */
bool threads_killed(const struct task *t);
void threads_task_gone(struct task *t); /* removes a task that has ended */

/* show.c */
/* Publishes the waits of a task, or a state without waits. Only the task's own thread calls
 * them. */
void show_wait(struct task *t, const struct wait *const *w, int n, const shared_u32 *abort,
	       uint64_t wake_ns);
void show_state(struct task *t, enum sim_task_state state);
/* Locks threads_lock once no observer holds the task: the caller may then remove it. */
void show_lock_to_remove(const struct task *t);
/* Freezes the waits of all tasks during an explanation. True: the caller releases them. */
bool show_hold_all(void);
void show_release_all(bool held);

/* park.c */
int32_t park_slot_new(void);
void park_reset(void);
void park_wrote(const void *addr, size_t bytes);
void park_wake_all(void);
void park_wake_slot(int32_t slot);
/* Counts the caller in (by = 1) or out (by = -1) at the addresses of the waits. Returns their
 * bits. */
uint64_t park_watch(const struct wait *const *w, int n, const shared_u32 *abort, int32_t by);
/* Sleeps until a write to one of the addresses, at most max_ns; does not sleep if look() is true.
 * Called between the two calls of park_watch. Returns true if it was woken or did not sleep. */
bool park(int32_t slot, uint64_t bits, bool (*look)(void *arg), void *arg, uint64_t max_ns);

/* worker.c */
int workers_start(void);
void workers_join(void);
int worker_spawn(struct task *t, uint32_t home);
void worker_suspend(struct task *t);
void worker_point(struct task *t);

/* event_threads.c */
int timers_start(void);
void timers_join(void); /* no timer runs after it */
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
void strategy_task(struct task *t); /* draws a new task's priority */
void ready_add(struct task *t);
void ready_remove(struct task *t);
uint32_t ready_count(void);
/* Returns the task to run, or NULL: the due event runs. At least one of the two exists. */
struct task *ready_pick(bool event_due);
/* Decides at a point of t at which the countdown ran out. Returns the ns to sleep (0: none) and
 * sets *yield. */
uint64_t strategy_point(struct task *t, bool *yield);
uint32_t strategy_tie(void);
uint64_t strategy_factor(uint64_t ns); /* multiplies a latency by a drawn factor */
bool strategy_spurious(void);
bool strategy_exploring(void);
/* the knob: the memory-order adversary is on where the configuration draws it */
bool strategy_memory(void);

/* clock.c */
void clock_charge(enum os_cost what, uint64_t amount);

/* waits.c */
void waits_start(void);
void waits_stop(void);
/* Returns the index of the first true wait, or -1. */
int waits_first_true(const struct wait *const *w, int n);
bool wait_is_true(const struct wait *w);
bool wait_read(const struct wait *w, uint64_t *value);        /* the masked value, for people */
void wait_line_flags(const struct wait *w, uint32_t flag[2]); /* the flags of a line */
bool waits_aborted(const shared_u32 *abort);
uint64_t waits_deadline(const struct wait *const *w, int n);
const void *waits_at(const void *addr); /* returns where to read the word that waits call `addr` */
/* Returns the address that waits and writes use for the memory mapped at `addr`. */
const void *waits_home(const void *addr);
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

/* The source of memory accesses: a task, or an object that acts in events. */
struct mem_agent {
	struct mem_agent *next;
	struct task *task;  /* NULL: an object, or events that named no object */
	const void *object; /* NULL: a task, or events that named no object */
	uint32_t id;        /* numbered by first access; stable within a run */
	bool is_warp;
	int32_t device; /* device of a warp; -1 */
	uint64_t block; /* block of a warp: kernel << 32 | block */
	struct store_part *store;
	struct happens_part *happens;
};

int mem_start(void); /* ENOTSUP */
void mem_stop(void);
void mem_task_ended(struct task *t);

/* store.c: active if store_start turned it on */
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
void event_run_top(void); /* runs the heap's top, which is a due event */

/* choice.c */
struct choice_site;
int choice_start(void);
void choice_cut(void); /* makes a replay end before its recording does */
void choice_stop(void);
struct choice_site *choice_site_find(const char *name);
struct choice_site *choice_site_get(const char *name); /* faster; accepts only a string constant */
/* Draws from `site` one of 0..n-1. `quiet` is the value with which nothing special happens. quiet
 * == n means that none of the values is quiet: no seed draws n, but a shrunk replay may return it.
 * choice_draw: quiet is 0. */
uint32_t choice_draw_quiet(struct choice_site *site, uint32_t n, uint32_t quiet);
uint32_t choice_draw(struct choice_site *site, uint32_t n);
/* Notes in the log that the latest choice was between two tasks. */
void choice_log_tasks(int32_t task, int32_t other);
int choice_write(const char *path);
uint64_t choice_count(void);

/* fault.c */
int fault_start(void);
void fault_stop(void);
void fault_run(void); /* begins the run */
bool fault_check(const char *site, const void *object, const struct sim_fault_place *at,
		 struct os_fault *f);

int engine_thread_fault(void); /* returns the errno with which a plan refuses a thread, or 0 */

/* probe.c */
void probe_start(void);
void probe_hit(const struct os_site *site);

/* buggify.c */
void buggify_start(void);
bool buggify_visit(const struct os_site *site);

/* moment.c */
void moment_start(void);
void moment_task(struct task *t); /* applies the configured moment to a new task */
uint64_t moment_point(void);      /* returns the ns that the task sleeps; 0: it continues */

/* watch.c */
void watch_start(void);
void watch_check(void); /* called when eng.watch_step is reached */

/* trace.c */
int trace_start(void);
void trace_stop(void);
void trace_flush(void);
void trace_fold(uint64_t a, uint64_t b, uint64_t c);
void trace_record(const char *kind, uint64_t a, uint64_t b, uint64_t c);
void trace_record_bytes(const char *kind, uint64_t a, const void *bytes, size_t n);
bool trace_is_on(void);

/* timeline.c: writes nothing without a trace file */
/* os_trace_begin, os_trace_end, os_trace_span */
void timeline_of_task(char phase, const struct os_trace_slice *s, uint64_t from_ns);
void timeline_wait(struct task *t, const char *why, uint64_t from_ns);
void timeline_instant(const char *name, const char *detail);

/* label.c */
void label_set(const void *object, const struct os_label *label);
void label_unset(const void *object);
bool label_get(const void *object, struct os_label *label);
/* Returns the largest number in the labels `what` of the rank; -1: there is no such label. */
int64_t label_most(const char *what, int32_t rank);
/* Returns the sum of the numbers in the labels `what` of the rank and that peer. */
int64_t label_sum(const char *what, int32_t rank, int32_t peer);
void label_stop(void);

/* crash.c */
void crash_install(void);
void crash_restore(void);
bool crash_traced(void); /* a debugger is attached */
/* Ends the program by the signal without a core file: any crash has already been reported. */
void crash_end_by(int signal) __attribute__((noreturn));
/* Fills an elf_gregset_t from the crash that is being reported, or else from `otherwise`. */
void crash_registers(void *regs, const ucontext_t *otherwise);
void crash_alt_stack(void **keep); /* for the calling thread */
void crash_alt_stack_free(void *keep);

#pragma GCC visibility pop
#endif
