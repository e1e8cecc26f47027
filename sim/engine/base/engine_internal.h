/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The instance and what every floor of the engine reads. A process has one engine, `eng`. In `sim`
 * one OS thread accesses everything here. In `threads` only the parts marked as such are used, each
 * under its lock or as shared words.
 *
 * Floors, from the ground up; a floor includes and calls itself and those before it:
 *
 *   base    the instance, fibers, tasks, clocks, failures, files
 *   trace   the hash, the trace file
 *   order   choices, strategies, the ready set, waits, timers and events
 *   memory  the memory-order adversary, the happens-before check
 *   faults  plans and sites
 *   run     the schedulers `sim` and `threads`
 *   report  explanations, core files, crashes
 *   life    sim_start ... sim_stop
 */
#ifndef SIM_ENGINE_BASE_ENGINE_INTERNAL_H
#define SIM_ENGINE_BASE_ENGINE_INTERNAL_H

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <ucontext.h>

#include "core/base/macros.h"
#include "core/os/os_ops.h"
#include "sim/engine/base/failure.h"
#include "sim/engine/base/fiber.h"
#include "sim/engine/base/state.h"
#include "sim/engine/base/task.h"

#pragma GCC visibility push(hidden)

#define ENGINE_NEVER UINT64_MAX

struct task;
struct sched_ops;
struct report_ops;
struct sim_event_attr; /* order/order.h */

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
	uint32_t poll_look; /* eng.look when it was parked last */
	struct task *poll_next;
	uint64_t clock_ns; /* time of the program's latest clock read */
	uint32_t clock_row;
	uint32_t points_alone; /* number of scheduling points in a row without a switch */
	shared_u32 done;       /* word that a joiner waits for */
	bool joined;
	size_t stack_bytes;
	/* rank at creation, for other tasks: pub.self.rank is for the task itself */
	int32_t made_for;
	uint64_t sites;         /* fault_caller.c: numbers of the latest fault sites */
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
	const struct sched_ops *sched;
	const struct report_ops *reports;
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
	uint32_t look;           /* number of looks of parked pollers */
	uint64_t last_change_ns; /* time before these looks */
	uint64_t hash;
	uint64_t watch_step; /* step at which watch.c runs next; ENGINE_NEVER: never */
	char reason[4][128]; /* sim_explain_first */
	uint32_t reasons;
	struct sim_failure failure;
	bool failed;          /* `failure` is set */
	bool tolerated;       /* sim_note_tolerated set `failure`; any failure replaces it */
	bool errors_expected; /* sim_expect_errors */
	bool in_turn;         /* the failure is misuse "in turn": the next failure replaces it */
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
	/* Called when the run of a guest ends before the program; it does not return. */
	void (*guest_over)(void);
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

/* ---- the scheduler in force ----------------------------------------------------------------- */

/* `sim` and `threads` fill one table each (sched_sim.c, sched_threads.c). Before the first
 * sim_start, and after sim_forget, a table without a scheduler is in force (state.c). */
struct sched_ops {
	const struct os_sched_ops *os;
	int (*start)(void);
	void (*run)(void (*fn)(void *), void *arg);
	void (*join)(void);              /* makes the caller, a guest, the main task */
	bool (*part)(uint64_t limit_ns); /* ends the guest's main task; as sim_part */
	/* Releases the tasks. `ran`: the run is over; otherwise it never began. */
	void (*stop)(bool ran);
	int (*spawn)(struct sim_task **t, const struct sim_task_attr *attr, void (*fn)(void *),
		     void *arg);
	struct task *(*self)(void);  /* NULL: no task runs here; `threads` adopts the thread */
	struct task *(*known)(void); /* the same without adoption */
	void (*point)(void);
	void (*kill_proc)(struct os_proc *proc);
	uint64_t (*now_ns)(void);
	uint64_t (*wall_ns)(uint64_t at_ns);
	void (*wrote)(const void *addr, size_t bytes);
	uint64_t (*event_seq)(const void *object); /* without a scheduling point */
	void (*event_post)(const struct sim_event_attr *attr, void (*step)(void *, uint64_t),
			   void *object, uint64_t arg, struct sim_event **handle);
	bool (*event_cancel)(struct sim_event *handle);
	void (*events_cancel_object)(const void *object);
	void (*events_drain)(void);
};
extern const struct sched_ops sched_none;

/* ---- failing (failure.c) -------------------------------------------------------------------- */

/* Work of the upper floors for a failure. life/engine.c installs the table. */
struct report_ops {
	void (*flush)(void);                 /* completes the trace file */
	void (*explain)(FILE *out);          /* which task waits for what */
	void (*choices)(const char *path);   /* writes the choices up to now */
	void (*dump)(const char *directory); /* stores choices and explanations */
};
extern const struct report_ops report_none;

/* Prints the failure in the contract's format and dumps; ends nothing. */
void engine_report(enum sim_verdict verdict, const char *kind, const char *message);
void engine_fail(enum sim_verdict verdict, const char *kind, const char *fmt, ...)
	__attribute__((format(printf, 3, 4), noreturn));
const char *engine_verdict_name(enum sim_verdict verdict);
void engine_print_failure_hooks(FILE *out);
void engine_print_fail_line(FILE *out, const struct sim_failure *f);
/* Fails a run that passes without misuse that a test announced. */
void engine_misuse_awaited(void);
void engine_forget_failure_hooks(void);

/* state.c */
/* Ends sim_is_calm: from now on every scheduling point checks whether its task must end. */
void engine_mode_end_calm(void);
/* True if tasks run programs, whose loops may have limits of their own. */
static inline bool engine_has_programs(void)
{
	return eng.guest || eng.config.programs;
}

/* tasks.c */
extern pthread_mutex_t threads_lock; /* `threads`: guards tasks, parts, counts */
struct task *task_new(const struct sim_task_attr *attr, void (*fn)(void *), void *arg);
void task_pool_free(void);
void task_list_add(struct task *t);
void task_list_remove(struct task *t);

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
	bool adopted;
	shared_u32 waits; /* 1: the adopted thread is inside a wait or a sleep */
	bool is_host;     /* started for a host task: must be joined */
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

struct task *threads_self(void); /* NULL: a thread that the engine does not know */

/* clock.c */
uint64_t clock_virtual_wall_ns(uint64_t at_ns);
uint64_t threads_now_ns(void);
uint64_t threads_wall_offset_ns(void); /* the wall clock minus threads_now_ns */

/* label.c */
void label_set(const void *object, const struct os_label *label);
void label_unset(const void *object);
bool label_get(const void *object, struct os_label *label);
/* Returns the largest number in the labels `what` of the rank; -1: there is no such label. */
int64_t label_most(const char *what, int32_t rank);
/* Returns the sum of the numbers in the labels `what` of the rank and that peer. */
int64_t label_sum(const char *what, int32_t rank, int32_t peer);
void label_stop(void);

/* signals.c */
/* Ends the program by the signal without a core file: any crash has already been reported. */
void crash_end_by(int signal) __attribute__((noreturn));
void crash_raise(int signal) __attribute__((noreturn));
void crash_alt_stack(void **keep); /* for the calling thread */
void crash_alt_stack_free(void *keep);

#pragma GCC visibility pop
#endif
