/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine decides which task runs next and what time it is. The doubles (backends/fake*), the
 * world and the lab call it; core reaches it only through os.h.
 *
 * Two engines have this API; one is chosen at run time:
 *
 *   sim      one OS thread; every task is a fiber; virtual time; order drawn from a seed. The same
 *            configuration gives the same choices and the same trace hash on every machine.
 *   threads  host tasks are pthreads, warps are fibers bound to a worker thread; real time. For
 *            speed, for ThreadSanitizer, for real GPUs below the stack. No verdicts.
 *
 * A process has one engine: sim_start ... sim_run ... sim_stop, repeated as often as wanted.
 * Functions return 0 or a positive errno; configuration errors are explained on stderr. All times
 * are ns, all bandwidths MB/s (1e6 bytes per second), all integers.
 */
#ifndef SIM_ENGINE_SIM_H
#define SIM_ENGINE_SIM_H

#include <stdarg.h>
#include <stdio.h>

#include "core/os/os.h"

/* ---- configuration and verdict -------------------------------------------------------------- */

enum sim_engine { SIM_ENGINE_SIM, SIM_ENGINE_THREADS };

enum sim_strategy {
	SIM_PORTFOLIO, /* default: uniform, pct, starve or jitter, drawn from the seed */
	SIM_UNIFORM,
	SIM_PCT,
	SIM_STARVE,
	SIM_FIFO, /* first come, first served; exact charges; the seed has no influence */
};

/* The memory-order adversary (docs/memory-order.md). It explores, and fifo never explores. */
enum sim_memory_order {
	SIM_MEMORY_DRAW, /* default: on in half of the seeds */
	SIM_MEMORY_OFF,
	SIM_MEMORY_ON,
};

/* Rolling hashes sampled during a run, for comparing two runs of one seed. The engine takes the
 * first sample at step `first`, further ones about every `every` steps. The caller owns the memory;
 * the engine changes n and every. When the log is full, the engine drops every second sample and
 * doubles `every`, or stops sampling (stop_when_full). */
struct sim_hash_sample {
	uint64_t step, hash;
};
struct sim_hash_log {
	uint64_t first, every;
	uint32_t n, cap; /* cap: at least 2 */
	bool stop_when_full;
	struct sim_hash_sample *sample;
};

/* The choices of a run that were not quiet (choice.c), in the order in which they were made. The
 * caller owns the memory and may share it with a process that only reads it. */
struct sim_choice_made {
	char site[64];
	uint32_t index; /* index of the choice in its site's stream */
	uint32_t n, value;
	uint64_t step;
	int32_t task;  /* task chosen to run, or task that ran during the draw; -1: a device */
	int32_t other; /* engine.run: task that would have continued; -1: none */
};
struct sim_choice_log {
	uint32_t n, cap; /* n may exceed cap: the log drops the surplus */
	struct sim_choice_made made[];
};

/* A moment of a run. The tasks named `task` reach scheduling points (entry points of doubles,
 * shared accesses, waits), counted from 1 over all these tasks. At the nth point the task that
 * reached it calls `fn`, which may not wait. The task then sleeps for hold_ns, which lets the tasks
 * that fn woke, and all other ready tasks, run first. */
struct sim_moment {
	const char *task; /* the whole name, or its first words; NULL: no moment */
	uint64_t nth, hold_ns;
	void (*fn)(void *arg);
	void *arg;
};

/* The names of a run's tasks, each once per process; a warp's name is cut at its first blank. The
 * caller owns the memory. n may exceed cap: the log drops the surplus. */
struct sim_task_named {
	char name[48];
	uint32_t proc; /* os_proc.id */
};
struct sim_task_log {
	uint32_t n, cap;
	struct sim_task_named row[];
};

struct sim_config {
	enum sim_engine engine;
	uint64_t seed;
	enum sim_strategy strategy;
	const char *fault_plan;      /* text of a plan (not its file name), or NULL */
	const char *fault_plan_name; /* the plan file's name, for messages */
	bool fault_random;           /* draw a plan from the seed (swarm) */
	bool fault_stats;            /* count the visits of fault sites even without a plan */
	/* faults heal then, or at the plan's time if that is earlier; 0: never */
	uint64_t heal_ns;
	const char *trace_path; /* Perfetto JSON; NULL: none */
	/* keep about this many bytes of the file's end; 0: the whole file */
	size_t trace_last_bytes;
	bool trace_detail;           /* include warps and every record */
	const char *choices_in;      /* file of recorded choices to replay, or NULL */
	const char *choices_out;     /* file to record the choices to, or NULL */
	const uint8_t *choice_bytes; /* choices in a fuzzer's encoding (choice.c), or NULL */
	size_t choice_bytes_n;
	/* Directory where a failing run stores choices, explain.txt, waits.json, tasks.core; NULL:
	 * none. */
	const char *fail_dir;
	struct sim_hash_log *hash_log;     /* NULL: none */
	struct sim_choice_log *choice_log; /* NULL: none */
	struct sim_moment moment;          /* engine sim only */
	struct sim_task_log *task_log;     /* engine sim only; NULL: none */
	uint64_t canary_step;              /* step at which the engine plants a failure; 0: none */
	/* The run ends at this step with verdict SIM_SKIPPED after it printed which task waits for
	 * what. Under a debugger the engine calls sim_gdb_stop instead and continues. 0: never. */
	uint64_t until_step;
	/* Prints the last lines when a failure ends the program itself (a signal). The engine calls
	 * it after all other output. NULL: the engine prints its FAIL line. */
	void (*last_words)(void *arg);
	void *last_words_arg;
	/* Engine sim: shows progress on a terminal. The engine calls it about every 4,096 steps of
	 * a run. It may read engine state but not change it. NULL: none. */
	void (*tick)(void *arg);
	void *tick_arg;
	uint64_t budget_events; /* budget of steps without progress; 0: the default, 20,000,000 */
	uint64_t budget_ns;     /* budget of virtual time without progress; 0: the default, 1 h */
	uint32_t workers;       /* threads engine: number of warp workers; 0: number of CPUs */
	/* Threads engine, for a program that does not know the engine. The run begins in sim_start
	 * and its threads are the program's own. The engine handles no signal and runs no warp. The
	 * caller uses sim_leave instead of sim_run and sim_stop. */
	bool foreign;
	/* Tasks run programs that do not know the engine. In engine sim a call from a thread that
	 * such a program started is the program's error. */
	bool programs;
	/* Threads engine over real sockets or a real HCA: no task posts on their objects. A wait
	 * for such an object therefore ends early after each sleep, as in `posix`. */
	bool silent_objects;
	size_t stack_bytes; /* stack of a fiber; 0: 128 KiB */
	enum sim_memory_order memory_order;
	bool races; /* the happens-before check; engine sim only */
};

/* The exit codes of the command line (docs/lab.md). No code has a meaning for a shell: a crash ends
 * the program by its signal. */
enum sim_verdict {
	SIM_PASS = 0,
	SIM_USAGE = 1,
	SIM_ERROR = 2,        /* a call returned an error where success was expected */
	SIM_NO_PROGRESS = 10, /* deadlock, missed wake or livelock: explained on stderr */
	SIM_WRONG_RESULT = 11,
	SIM_NOT_DETERMINISTIC = 12,
	SIM_LEAK = 13,
	SIM_MISUSE = 14, /* misuse of a double by a call that does not return an error */
	SIM_SKIPPED = 77,
	/* plus a signal number: the code that a shell shows for an end by that signal */
	SIM_BY_SIGNAL = 128,
	SIM_CRASH = SIM_BY_SIGNAL + 6, /* SIGABRT, for example from a failed assertion */
};

/* Ends the program with a verdict as its exit code. For SIM_BY_SIGNAL plus a signal, ends it by
 * that signal. */
void sim_exit(int code) __attribute__((noreturn));

int sim_start(const struct sim_config *config);
/* Runs main_fn as the first task ("main", process 0 of the real or simulated world). Returns when
 * main_fn has returned and no foreground task is alive, or when no progress is possible. A wrong
 * result or misuse that was noted meanwhile becomes the verdict of a run that would pass. The
 * caller that noted any other failure judges it. */
enum sim_verdict sim_run(void (*main_fn)(void *arg), void *arg);
/* Replaces sim_run for a program that began before the engine did. The calling thread becomes the
 * main task at this point, and the rest of the program is the run. The engine calls `ended` when
 * the run ends before the program, by a failure or because a fault killed it; `ended` must not
 * return. */
void sim_join(void (*ended)(enum sim_verdict verdict));
/* Ends the main task of sim_join; the thread that joined calls it. Returns the verdict in *verdict,
 * as sim_run does. Tasks that have not ended `limit_ns` later are discarded, as at a process exit.
 * False: such tasks run on other threads and still need their resources (engine threads); *verdict
 * is then that of the run up to now. */
bool sim_part(uint64_t limit_ns, enum sim_verdict *verdict);
bool sim_joined(void); /* True if the caller is the thread that joined. */
/* Engine `threads`: makes the calling thread, which the engine did not start, a background task of
 * `proc`. The thread calls it before any other function; otherwise it becomes a task of process
 * 0. */
void sim_adopt_thread(struct os_proc *proc);
/* Releases all engine resources; discards tasks still alive without running them. */
void sim_stop(void);
/* True if an output file of the run could not be written completely; explained on stderr. Valid
 * until the next sim_start. */
bool sim_output_lost(void);
/* Completes the trace file at the end of a program whose engine continues. Other threads may still
 * call the engine. */
void sim_leave(void);
/* Resets the engine in a child made by fork: the child has no engine, whatever the parent had. */
void sim_forget(void);

bool sim_running(void);
enum sim_engine sim_engine_kind(void);
/* State that a double's data path reads inline instead of calling a function. Only the engine
 * writes it. */
struct sim_mode {
	bool plain;  /* see sim_is_plain */
	bool calm;   /* see sim_is_calm; may become false at any moment */
	bool faults; /* there is a plan, or visits of sites are counted */
	bool posts;  /* see sim_posts_matter */
	bool missed; /* see sim_misses_are_counted */
};
extern struct sim_mode sim_mode;

/* True under engine `threads` without fault plan, site figures or trace. No task then observes the
 * single steps of a double, only their results. */
static inline bool sim_is_plain(void)
{
	return sim_mode.plain;
}
/* True if besides sim_is_plain no task was killed and the run is not ending. sim_point and
 * sim_charge_ns then do nothing for a host task. */
static inline bool sim_is_calm(void)
{
	return __atomic_load_n(&sim_mode.calm, __ATOMIC_RELAXED);
}
/* True if os_event_post has an effect. Under `threads` it has one from the first os_event_seq on. A
 * task that reads a count examines the object afterwards, under the object's lock. A posting task
 * checks here after its change, under the same lock. Therefore either the reader sees the change or
 * the poster sees the reader. */
static inline bool sim_posts_matter(void)
{
	return __atomic_load_n(&sim_mode.posts, __ATOMIC_RELAXED);
}
/* True if os_poll_hit can end a row of misses. False under `threads`, where a miss only yields. */
static inline bool sim_misses_are_counted(void)
{
	return __atomic_load_n(&sim_mode.missed, __ATOMIC_RELAXED);
}
const char *sim_strategy_name(void); /* "portfolio:pct" once drawn */
bool sim_memory_order_on(void);      /* True if the memory-order adversary is on in this run. */
uint64_t sim_hash(void);             /* rolling trace hash */
uint64_t sim_switches(void);
uint64_t sim_steps(void); /* number of choices and events up to now: the current step number */

/* Ends the run from inside with a verdict and a line with the reason; dumps as configured. Under
 * sim it does not return to the caller. */
void sim_fail(enum sim_verdict verdict, const char *fmt, ...)
	__attribute__((format(printf, 2, 3), noreturn));

/* Does the same for a checker that names its finding ("liveness"), and a rank (-1: none). */
void sim_fail_as(enum sim_verdict verdict, const char *kind, int32_t rank, const char *fmt, ...)
	__attribute__((format(printf, 4, 5), noreturn));

/* The first failure of a run. */
struct sim_failure {
	enum sim_verdict verdict;
	char kind[24];     /* "deadlock" */
	char message[512]; /* one line */
	char task[48];     /* "-": none */
	int32_t rank;      /* -1: none */
	uint64_t step, vtime_ns, hash;
	/* latest step before the failure at which a replay can stop (until_step) */
	uint64_t before;
};
/* Returns the first failure; NULL: none up to now. Valid until the next sim_start. */
const struct sim_failure *sim_failure(void);
/* Notes a failure that does not end the run (a wrong result, a returned error). Reports and dumps
 * it immediately. The run continues, and its choices are written at its end. Only the first failure
 * counts. */
void sim_note_failure(enum sim_verdict verdict, const char *kind, int32_t rank, const char *fmt,
		      ...) __attribute__((format(printf, 4, 5)));
/* Notes an error or a death that the faults of the run may have caused. It is dumped and kept like
 * a failure but sets no verdict. The first failure that sets a verdict replaces it. */
void sim_note_trouble(const char *kind, int32_t rank, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* NULL: none, or a failure replaced it. Valid until the next sim_start. */
const struct sim_failure *sim_trouble(void);
/* Reports an operation on a double that its API leaves undefined, for a call that cannot return an
 * error or whose result callers may drop. Logs a line and notes a failure SIM_MISUSE, "misuse". The
 * failure does not end the run; it is the verdict if the run has no other. Doubles report only what
 * hardware or driver would punish, never an effect of the plan's faults. Any task and any event may
 * call it. */
void sim_misuse(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Does the same for doubles; `prefix` begins the line. `in_turn` marks misuse that usually follows
 * an earlier error, for example freeing an object that is still in use. A failure noted later
 * replaces it. */
void sim_misuse_of(const char *prefix, bool in_turn, const char *fmt, va_list ap)
	__attribute__((format(printf, 3, 0)));
/* Announces misuse that a test commits on purpose; the test calls it first. Misuse whose line
 * contains `words` (a string literal) is logged and fails nothing. A run that otherwise passes but
 * had no such misuse does not pass. */
void sim_expect_misuse(const char *words);
/* Formats a return address for reports: "main+0x2a"; "?": unknown. Slow. */
void sim_call_site(const void *caller, char *out, size_t bytes);
bool sim_under_debugger(void);
void sim_format_ns(char out[32], uint64_t ns); /* "1.204ms" */

/* ---- tasks ---------------------------------------------------------------------------------- */

enum sim_task_kind { SIM_TASK_HOST, SIM_TASK_WARP };

enum sim_task_state {
	SIM_TASK_NEW,
	SIM_TASK_READY,
	SIM_TASK_RUNNING,
	SIM_TASK_WAITING,  /* on task->wait */
	SIM_TASK_SLEEPING, /* until task->wake_ns: a charge, a sleep or starvation */
	SIM_TASK_DONE,
	SIM_TASK_KILLED,
};

struct sim_task_attr {
	const char *name; /* copied */
	enum sim_task_kind kind;
	struct os_proc *proc;
	int32_t rank; /* -1: none */
	bool background;
	bool detached; /* host tasks: freed at their end and never joined */
	/* warps: */
	int32_t device, kernel, block, warp, lane;
	/* threads engine: key of the worker; tasks with equal keys share one worker */
	uint32_t home;
	void *owner; /* free for the code that spawns the task: fakecuda's struct dev */
	/* engine sim, host tasks: size of the fiber's stack; 0: the configuration's */
	size_t stack_bytes;
};

/* Public so that gdb, the hang explainer and core files can read it. Only the engine writes it. */
struct sim_task {
	struct os_self self;          /* first: os_self() returns a pointer to it */
	void *sp;                     /* saved stack pointer: a suspended fiber is this one word */
	struct sim_task *next, *prev; /* all tasks, oldest first */
	enum sim_task_kind kind;
	enum sim_task_state state;
	bool background;
	bool detached;
	int32_t device, kernel, block, warp, lane;
	void *owner;
	char name[48];
	/* the waits of the task while it is WAITING */
	const struct wait *const *wait;
	int wait_n;
	const shared_u32 *wait_abort;
	const char *poll_why; /* reason of os_poll_miss while the task sleeps in it */
	uint64_t wake_ns;     /* end of the sleep while SLEEPING; earliest deadline while WAITING */
	uint64_t debt_ns;     /* charges not yet paid */
	uint64_t switches;
	void *priv; /* the engine's private part (struct task) */
};

/* Spawns a task, which is ready immediately. The engine frees it after its end: a host task when it
 * is joined, a warp or detached task when `fn` returned. *t of such a task may already be freed on
 * return. Returns ENOMEM or EAGAIN. */
int sim_task_spawn(struct sim_task **t, const struct sim_task_attr *attr, void (*fn)(void *arg),
		   void *arg);
/* Returns process 0, the main task's, from sim_start to sim_stop. The world fills in its
 * identity. */
struct os_proc *sim_main_proc(void);
struct sim_task *sim_task_self(void);  /* NULL in event context and outside sim_run */
struct sim_task *sim_task_first(void); /* first live task; follow ->next */
/* Kills every task of the process: none of them runs again. Suspended tasks end immediately. No
 * task of the process may call it. */
void sim_kill_proc(struct os_proc *proc);
/* True if the process has a task that has not ended, besides the main task of a guest. */
bool sim_proc_has_tasks(const struct os_proc *proc);
/* True if the process has a detached foreground task: a library is finishing work after the call
 * that began it. */
bool sim_proc_finishes(const struct os_proc *proc);
/* Sets the function that a process-ending fault calls, in event context. It calls sim_kill_proc and
 * cleans up (world_proc_kill). Without it only the tasks end. */
void sim_set_killer(void (*kill)(struct os_proc *proc));

/* A scheduling point: pays the task's debt and lets the strategy run another task. Every entry
 * point of a double begins with one. Not allowed in event context. */
void sim_point(const char *site);

/* ---- waking --------------------------------------------------------------------------------- */

/* Tasks wait with os_wait (core/os/os.h). Code that writes memory which a wait may watch reports
 * the write here: DMA, memset, copy engine and device stores too. `addr` is an address in the form
 * that waits use. Allowed in event context. */
void sim_wrote(const void *addr, size_t bytes);

/* True if sim_wrote may have a task to wake. A double that owns the word may test this inline
 * before it calls sim_wrote. */
extern shared_u32 sim_words_watched; /* `threads`: number of waits of sleeping tasks */
static inline bool sim_words_are_watched(void)
{
	return !sim_mode.plain || __atomic_load_n(&sim_words_watched.v_, __ATOMIC_RELAXED);
}

/* Sets two address translations; fakecuda calls it once. `resolve` returns where to read a
 * waited-on address that is not plain readable memory (the strict device view), or `addr` itself.
 * `home` returns the address that waits and writes use for the memory mapped at `addr`, which may
 * have several mappings. */
void sim_set_resolver(const void *(*resolve)(const void *addr),
		      const void *(*home)(const void *addr));

/* ---- events: run-to-completion steps -------------------------------------------------------- */

/* A device (HCA, QP, link, copy engine, stream, timer) is an object with a step function. The
 * engine calls the step function with what happened; it never waits.
 *
 * sim: the event loop calls it at now + delay_ns, one event at a time. The strategy orders events
 * that are due at the same time. Events that share a non-NULL `order` object keep the order in
 * which they were posted, whatever their delays, as packets on one wire do.
 *
 * threads: SIM_EVENT_WORK ignores the delay. It runs on the OS thread that posted it, when that
 * thread next calls sim_events_drain(): entry points of doubles call it last, after unlocking. Step
 * functions take their object's lock themselves. SIM_EVENT_TIMER runs on the engine's timer thread
 * when its time has passed. */
enum sim_event_kind { SIM_EVENT_WORK, SIM_EVENT_TIMER };

struct sim_event; /* owned by the engine; a handle for cancelling timers */

struct sim_event_attr {
	const char *name; /* "qp.ack_timeout"; string constant */
	enum sim_event_kind kind;
	uint64_t delay_ns;
	const void *order; /* see above; NULL: none */
	bool background;   /* does not count as an event that may still happen */
};
/* Posts an event: `step` is called with (object, arg). handle may be NULL. */
void sim_event_post(const struct sim_event_attr *attr, void (*step)(void *object, uint64_t arg),
		    void *object, uint64_t arg, struct sim_event **handle);
/* Cancels a posted event that has not run; true if it will not run. The handle is stale after the
 * event ran: its owner clears it in the step function. */
bool sim_event_cancel(struct sim_event *handle);
/* Cancels every pending event of the object. */
void sim_events_cancel_object(const void *object);
/* threads: number of events not yet run, of all OS threads; sim: 0 */
extern uint32_t sim_events_queued;
void sim_events_drain_queued(void);
static inline void sim_events_drain(void) /* sim: nothing to do */
{
	if (UNLIKELY(__atomic_load_n(&sim_events_queued, __ATOMIC_RELAXED) != 0))
		sim_events_drain_queued();
}

/* ---- virtual time --------------------------------------------------------------------------- */

uint64_t sim_now_ns(void);
/* Engine sim: a program reads a clock. A read costs a little time. A loop that only reads clocks
 * pays more per read, which lets it reach the time that it waits for. */
uint64_t sim_clock_read(void);
/* Returns the wall clock's time at `at_ns` of sim_now_ns: ns since 1970. */
uint64_t sim_wall_ns(uint64_t at_ns);
/* Charges the running task; does nothing in event context. */
void sim_charge_ns(uint64_t ns);

/* A resource that is used serially: a link direction, a copy engine. */
struct sim_resource {
	const char *name;
	uint64_t mbps; /* 0: infinitely fast */
	/* the engine's, like the next two: size and duration of the latest use */
	uint64_t free_at_ns;
	uint64_t last_bytes, last_ns;
};
/* Books `bytes` on the resource after all earlier bookings. Returns the delay in ns from now until
 * the last byte has passed. Exploring strategies multiply the duration by a drawn factor. Returns 0
 * in `threads`. */
uint64_t sim_resource_use(struct sim_resource *r, uint64_t bytes);
/* Returns a latency of about `ns`: exact under fifo, otherwise with a drawn factor. 0 in
 * `threads`. */
uint64_t sim_latency(uint64_t ns);

/* ---- choices and randomness ----------------------------------------------------------------- */

/* Returns one of 0..n-1. An expression must not contain two draws: C does not order them. n == 1
 * draws nothing. */
uint32_t sim_choose(const char *site, uint32_t n);

/* Named streams with one owner each: a draw in one stream never shifts another. xoshiro256**. A
 * stream's start depends only on its name and the root seed (a constant under fifo). */
struct sim_rng {
	uint64_t s[4];
};
void sim_rng_init(struct sim_rng *r, const char *stream);
/* Does the same from a seed of the caller's; works outside any run too. */
void sim_rng_seed(struct sim_rng *r, uint64_t seed, const char *stream);
uint64_t sim_rng_u64(struct sim_rng *r);
uint64_t sim_rng_below(struct sim_rng *r, uint64_t n);
bool sim_rng_ratio(struct sim_rng *r, uint32_t num, uint32_t den);

/* ---- timeline ------------------------------------------------------------------------------- */

/* A row of the trace file that does not belong to a task: a stream, a port. Zeroed: not in the file
 * yet. Used only if os_tracing(). The slices of a track nest, whatever the order of the calls. */
struct sim_track {
	uint32_t pid, tid;
};
enum sim_track_group { SIM_TRACK_RANK, SIM_TRACK_HOST, SIM_TRACK_RUN };
bool sim_trace_detailed(void); /* config.trace_detail */
/* Names the track in its first call. `number` is a rank or a host; -1: neither. */
void sim_track_open(struct sim_track *t, enum sim_track_group group, int32_t number,
		    const char *name);
void sim_trace_begin(const struct sim_track *t, const struct os_trace_slice *s);
void sim_trace_end(const struct sim_track *t, const struct os_trace_slice *s);
void sim_trace_span(const struct sim_track *t, const struct os_trace_slice *s, uint64_t from_ns,
		    uint64_t ns);
/* Records that a counter of the track's group has the value `milli`, in thousandths, from at_ns on.
 * The counter has a row of its own. */
void sim_trace_counter(const struct sim_track *t, const char *name, const char *unit,
		       uint64_t at_ns, uint64_t milli);

/* Fault points and trace: os_fault, os_trace... of core/os/os.h are the interface here too. A
 * double may know its place more exactly than the object's label and the task do; it then passes
 * the place: */
#define SIM_FAULT_ACTIONS 7 /* at most, of one site */
struct sim_fault_place {
	int32_t host, port, peer_host, peer_port, state; /* a port is a port of its host */
	int64_t step;
	const char *nic, *peer_nic; /* names of the NICs */
};
#define SIM_FAULT_NOWHERE                                                                          \
	{                                                                                          \
		-1, -1, -1, -1, -1, -1, NULL, NULL                                                 \
	}
/* Does what os_fault does. `at` may be NULL; -1 or NULL in a field means unknown. */
bool sim_fault_armed(const char *site, const void *object, const struct sim_fault_place *at,
		     struct os_fault *f);
static inline bool sim_fault(const char *site, const void *object, const struct sim_fault_place *at,
			     struct os_fault *f)
{
	return UNLIKELY(sim_mode.faults) && sim_fault_armed(site, object, at, f);
}

/* Heals all faults for the rest of this run: no fault fires, links return, clogs open. It calls the
 * hooks of sim_on_heal, which are registered once at load, at most 4. In a plan: "heal
 * after=TIME". */
void sim_faults_heal(void);
bool sim_faults_healed(void);
/* Virtual time at which the faults heal by themselves; UINT64_MAX: never. */
uint64_t sim_faults_heal_at_ns(void);
void sim_on_heal(void (*hook)(void));

/* Prints the known fault sites. */
void sim_fault_print_sites(FILE *out);
void sim_fault_print_sites_json(FILE *out);
/* Prints the plan of this run, or of the last one, and how often each fault matched and fired. The
 * lines are a valid plan without their prefix "fault ". */
void sim_fault_print_plan(FILE *out);
/* Prints one line with file and line number for each fault of that plan that never fired. */
void sim_fault_print_unfired(FILE *out);
/* Draws a plan from `seed` for a world of that size. Returns text that the caller frees; it has no
 * heal line. Needs no running engine. NULL: out of memory. */
char *sim_fault_draw(uint64_t seed, uint32_t hosts, uint32_t ranks);
/* Draws a plan of one line that ends a call or a rank while ranks connect or begin to work. */
char *sim_fault_draw_early(uint64_t seed, uint32_t hosts, uint32_t ranks);
/* Draws a plan of one line: the nth call of its layer on a rank fails, whichever call that is. */
char *sim_fault_draw_any(uint64_t seed, uint32_t hosts, uint32_t ranks);
/* Draws a plan of faults that every call survives: lost connections, losses within the retries,
 * delays. */
char *sim_fault_draw_survivable(uint64_t seed, uint32_t hosts, uint32_t ranks);
/* Returns why no run of the lab reaches a site or a probe; NULL: some run does. */
const char *sim_fault_idle(const char *site);
const char *sim_probe_idle(const char *probe);
uint64_t sim_faults_fired(void);
/* Number of lines of the plan that never fired. */
uint32_t sim_faults_unfired(void);
/* Notes that the program's number-th operation of a communicator begins: the plan's
 * after=collective counts from here. */
void sim_faults_operation(uint64_t number);
/* True if a fault fired at the rank, or at an unknown rank. */
bool sim_fault_hit_rank(int32_t rank);
/* Declares that the harness ends something at a moment of its choosing, as ncclCommAbort from
 * another task does. The run then counts as a run after a fault. */
void sim_upset(void);
bool sim_is_upset(void);     /* True if a fault fired or the harness called sim_upset. */
bool sim_faults_armed(void); /* True if there is a plan: os_fault may return true. */
/* Returns the i-th site and the names of its actions, then NULL; false: there are fewer sites. */
bool sim_fault_site_at(uint32_t i, const char **site, const char *action[SIM_FAULT_ACTIONS]);

/* Sites of OS_BUGGIFY: all sites of the program, with this run's number of visits and of rare paths
 * taken. Only exploring runs of engine sim count them. Valid until the next sim_start. Sorted by
 * name, a test's own sites last. */
struct sim_buggify_stat {
	const char *name, *what;
	uint64_t visits, hits;
};
uint32_t sim_buggify_stats(const struct sim_buggify_stat **stats);
void sim_buggify_print_sites(FILE *out);

/* Sites of OS_PROBE: all sites of the program, with how often their condition held in this run.
 * Valid and sorted like sim_buggify_stats. */
struct sim_probe_stat {
	const char *name, *what;
	uint64_t hits;
};
uint32_t sim_probe_stats(const struct sim_probe_stat **stats);
void sim_probe_print_sites(FILE *out);

/* Returns visits and fires of a fault site, in the current run or the last one. Counted with a plan
 * or config.fault_stats. False: no such index. */
struct sim_fault_stat {
	const char *site;
	uint64_t visits, fires;
};
bool sim_fault_stat(uint32_t index, struct sim_fault_stat *stat);

/* ---- explaining ----------------------------------------------------------------------------- */

/* A double's knowledge of the object that a wait is on: one line about the object. `stuck` is true
 * if the object itself is the reason (a link that is down, a queue pair in error, retries). It is
 * false if the reason is a task that has not done its part yet. */
struct sim_explained {
	bool stuck;
	char text[400];
};
/* Registers a function that returns true, and fills *out, if the wait is on an object of its
 * double. Called only at a failure, by any thread; at most 4 functions. */
void sim_on_explain(bool (*explain)(const struct wait *w, struct sim_explained *out));

/* Prints in a few lines why nothing moves, and the wait-for graph of this moment; for people and as
 * JSON. */
void sim_explain(FILE *out);
/* Adds a line that begins explanations of this run: why a task may wait without end. The engine
 * keeps the first four. */
void sim_explain_first(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void sim_explain_json(FILE *out);

/* Writes a core file in which every task is a thread. */
int sim_core_write(const char *path);

/* Registers a function that adds to the dump when a failure stops the engine (world: leak counters;
 * fakeverbs: QPs). At most 8. */
void sim_on_failure(void (*print)(FILE *out));
/* Registers a function that the signal handler calls on SIGSEGV and SIGBUS, before the engine
 * reports the crash. It returns true if it printed an explanation of the address on stderr (a
 * device pointer dereferenced by the host). At most 4; kept until sim_stop. */
void sim_on_crash(bool (*explain)(int signal, const void *addr));

#endif
