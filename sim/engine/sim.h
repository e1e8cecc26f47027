/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine: which task runs next, and what time it is. Called by the doubles (backends/fake*), by
 * the world and by the lab; core reaches it only through os.h.
 *
 * Two engines have this API; one is chosen at run time:
 *
 *   sim      one OS thread; every task is a fiber; virtual time; order drawn from a seed. The same
 *            configuration gives the same choices, the same trace hash, on every machine.
 *   threads  host tasks are pthreads, warps are fibers bound to a worker thread; real time. For
 *            speed, for ThreadSanitizer, for real GPUs below the stack. No verdicts.
 *
 * There is one engine per process: sim_start ... sim_run ... sim_stop, as often as wanted, one
 * after the other. Errors: 0 or a positive errno; configuration errors are explained on stderr.
 * All times are ns, all bandwidths MB/s (1e6 bytes per second), integers.
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
	SIM_FIFO, /* first come, first served; charges exact; the seed has no influence */
};

/* The memory-order adversary (docs/memory-order.md). It explores, so fifo has none. */
enum sim_memory_order {
	SIM_MEMORY_DRAW, /* default: on in half of the seeds */
	SIM_MEMORY_OFF,
	SIM_MEMORY_ON,
};

/* Rolling hashes along a run, for comparing two runs of one seed: from step `first` on one about
 * every `every` steps. The caller's memory; n and every are the engine's to change. A full log is
 * thinned out, or takes no more. */
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
 * caller's memory, and may be shared with a process that only looks. */
struct sim_choice_made {
	char site[64];
	uint32_t index; /* in its site's stream */
	uint32_t n, value;
	uint64_t step;
	int32_t task;  /* the one chosen to run, or that ran when it was drawn; -1: a device */
	int32_t other; /* engine.run: the one that would have gone on; -1: none */
};
struct sim_choice_log {
	uint32_t n, cap; /* n may exceed cap: those were not kept */
	struct sim_choice_made made[];
};

/* A moment of a run. The tasks of that name come to scheduling points (entry points of doubles,
 * shared accesses, waits); at the nth of these points, counted from 1 over all of the tasks, `fn`
 * is called by the task that is there, and may not wait. The task then sleeps for hold_ns: what fn
 * woke runs first, and whatever else can. */
struct sim_moment {
	const char *task; /* the whole name, or its first words; NULL: no moment */
	uint64_t nth, hold_ns;
	void (*fn)(void *arg);
	void *arg;
};

/* The names of a run's tasks, each once for each process; warps up to the first blank. The caller's
 * memory; n may exceed cap: those were not kept. */
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
	const char *fault_plan_name; /* for messages: the file's name */
	bool fault_random;           /* draw a plan from the seed (swarm) */
	bool fault_stats;            /* count the visits of sites even without a plan */
	uint64_t heal_ns;            /* faults heal then, or at the plan's time if earlier; 0: - */
	const char *trace_path;      /* Perfetto JSON; NULL: none */
	size_t trace_last_bytes;     /* keep about that much of its end; 0: all */
	bool trace_detail;           /* warps, and every record */
	const char *choices_in;      /* file of recorded choices to replay, or NULL */
	const char *choices_out;     /* file to record them to, or NULL */
	const uint8_t *choice_bytes; /* choices as a fuzzer makes them (choice.c), or NULL */
	size_t choice_bytes_n;
	/* Where a failing run leaves choices, explain.txt, waits.json, tasks.core; NULL: none. */
	const char *fail_dir;
	struct sim_hash_log *hash_log;     /* NULL: none */
	struct sim_choice_log *choice_log; /* NULL: none */
	struct sim_moment moment;          /* engine sim only */
	struct sim_task_log *task_log;     /* engine sim only; NULL: none */
	uint64_t canary_step;              /* plants a failure at that step; 0: none */
	/* Ends the run there with verdict SIM_SKIPPED, having printed which task waits for what;
	 * under a debugger calls sim_gdb_stop and goes on. 0: never. */
	uint64_t until_step;
	/* Called after everything else is printed when a failure ends the program itself (a
	 * signal): prints the last lines. NULL: the engine prints its FAIL line. */
	void (*last_words)(void *arg);
	void *last_words_arg;
	/* Engine sim: called about every 4,096 steps of a run, to show on a terminal how far it is;
	 * it may look and not touch. NULL: none. */
	void (*tick)(void *arg);
	void *tick_arg;
	uint64_t budget_events; /* without progress; 0: the default, 20,000,000 */
	uint64_t budget_ns;     /* virtual, without progress; 0: the default, 1 h */
	uint32_t workers;       /* threads engine: warp workers; 0: number of CPUs */
	/* threads engine, for a program that knows nothing of engines: the run begins immediately,
	 * its threads are its own, no signal is handled, no warp runs; sim_leave instead of sim_run
	 * and sim_stop. */
	bool foreign;
	/* Tasks run programs that know nothing of engines: a call from a thread that such a program
	 * started is the program's error in engine sim. */
	bool programs;
	/* threads engine, over real sockets or a real HCA: no task posts on their objects, so a
	 * wait for one ends early after each sleep, as in `posix`. */
	bool silent_objects;
	size_t stack_bytes; /* per fiber; 0: 128 KiB */
	enum sim_memory_order memory_order;
	bool races; /* the happens-before check; engine sim only */
};

/* The exit codes of the command line (docs/lab.md). No code is one that a shell gives a
 * meaning of its own: a crash ends the program by its signal. */
enum sim_verdict {
	SIM_PASS = 0,
	SIM_USAGE = 1,
	SIM_ERROR = 2,        /* a call returned an error where success was due */
	SIM_NO_PROGRESS = 10, /* deadlock, missed wake, livelock: explained on stderr */
	SIM_WRONG_RESULT = 11,
	SIM_NOT_DETERMINISTIC = 12,
	SIM_LEAK = 13,
	SIM_MISUSE = 14, /* of a double, by a call that does not return an error */
	SIM_SKIPPED = 77,
	SIM_BY_SIGNAL = 128,           /* plus a signal: how a shell shows an end by that signal */
	SIM_CRASH = SIM_BY_SIGNAL + 6, /* SIGABRT, as of a failed assertion */
};

/* Ends the program with a verdict, or with SIM_BY_SIGNAL plus a signal: by that signal. */
void sim_exit(int code) __attribute__((noreturn));

int sim_start(const struct sim_config *config);
/* Runs main_fn as the first task ("main", process 0 of the real or simulated world) until it
 * returned and no foreground task is left, or until no progress is possible. A wrong result that
 * was noted meanwhile, as misuse is, is the verdict of a run that would pass; other noted failures
 * are their noter's to judge. */
enum sim_verdict sim_run(void (*main_fn)(void *arg), void *arg);
/* Instead of sim_run, for a program that began before the engine did: where it stands, the calling
 * thread becomes the main task, and the rest of the program is the run. `ended` is called when the
 * run ends before the program, by a failure or because a fault killed it; it must not return. */
void sim_join(void (*ended)(enum sim_verdict verdict));
/* The end of that main task, by the thread that joined: as sim_run returns. Tasks that have not
 * ended `limit_ns` later do not go on, as those of a process that exits. False: they run on other
 * threads, and must not lose what they use (engine threads); *verdict is then of the run so far. */
bool sim_part(uint64_t limit_ns, enum sim_verdict *verdict);
bool sim_joined(void); /* is the caller the thread that joined? */
/* Engine `threads`: the calling thread, which the engine did not start, becomes a background task
 * of `proc`. Before its first call; without this it would be one of process 0. */
void sim_adopt_thread(struct os_proc *proc);
/* Releases everything; tasks still alive are discarded without running. */
void sim_stop(void);
/* A file that the run leaves could not be written in whole; explained on stderr. Valid until the
 * next sim_start. */
bool sim_output_lost(void);
/* The end of a program while its engine goes on: the trace file is complete. Its other threads may
 * go on calling. */
void sim_leave(void);
/* In a child made by fork: there is no engine in it, whatever the parent had. */
void sim_forget(void);

bool sim_running(void);
enum sim_engine sim_engine_kind(void);
/* What a double's data path looks at instead of calling in here; the engine's to write. */
struct sim_mode {
	bool plain;  /* see sim_is_plain */
	bool calm;   /* see sim_is_calm; may end at any moment */
	bool faults; /* there is a plan, or sites are counted */
	bool posts;  /* see sim_posts_matter */
	bool missed; /* see sim_misses_are_counted */
};
extern struct sim_mode sim_mode;

/* Engine `threads` without fault plan, site figures or trace: no task looks at the steps in which a
 * double does something, only at what comes of it. */
static inline bool sim_is_plain(void)
{
	return sim_mode.plain;
}
/* Besides, no task was killed, and the run is not ending: sim_point and sim_charge_ns have nothing
 * to do for a host task. */
static inline bool sim_is_calm(void)
{
	return __atomic_load_n(&sim_mode.calm, __ATOMIC_RELAXED);
}
/* Has os_event_post an effect? Under `threads` only from the first os_event_seq on. A task that
 * takes a count looks at the object next, under its lock; a task that posts checks here after its
 * change, under that lock too: so either the change is seen, or the question. */
static inline bool sim_posts_matter(void)
{
	return __atomic_load_n(&sim_mode.posts, __ATOMIC_RELAXED);
}
/* Has os_poll_hit anything to end? Not under `threads`, where a miss only yields. */
static inline bool sim_misses_are_counted(void)
{
	return __atomic_load_n(&sim_mode.missed, __ATOMIC_RELAXED);
}
const char *sim_strategy_name(void); /* "portfolio:pct" once drawn */
bool sim_memory_order_on(void);      /* the memory-order adversary, in this run */
uint64_t sim_hash(void);             /* rolling trace hash */
uint64_t sim_switches(void);
uint64_t sim_steps(void); /* choices + events so far: the step number of this moment */

/* Ends the run from inside with a verdict and a line with the reason; dumps as configured. Does not
 * return to the caller under sim. */
void sim_fail(enum sim_verdict verdict, const char *fmt, ...)
	__attribute__((format(printf, 2, 3), noreturn));

/* The same for a checker with a name for what it found ("liveness"), and a rank (-1: none). */
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
	uint64_t before; /* the last step at which a replay can stop before it (until_step) */
};
/* NULL: none so far. Valid until the next sim_start. */
const struct sim_failure *sim_failure(void);
/* A failure that does not end the run (a wrong result, an error returned): reported and dumped as
 * it stands; the run goes on, and its choices are written at its end. Only the first one counts. */
void sim_note_failure(enum sim_verdict verdict, const char *kind, int32_t rank, const char *fmt,
		      ...) __attribute__((format(printf, 4, 5)));
/* An error or a death that the faults of the run may have caused: dumped and kept as a failure is,
 * but no verdict of the engine, and replaced by the first failure that is one. */
void sim_note_trouble(const char *kind, int32_t rank, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* NULL: none, or a failure replaced it. Valid until the next sim_start. */
const struct sim_failure *sim_trouble(void);
/* Something was done to a double that its API leaves undefined, by a call that cannot return it
 * or whose result callers may drop: a line of the log, and a failure SIM_MISUSE, "misuse", that
 * does not end the run, and is its verdict if nothing else is. Doubles only report what hardware or
 * driver would punish, never what a fault of the plan did. Any task, any event. */
void sim_misuse(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The same for doubles: `prefix` begins the line. `in_turn`: what a program mostly does because
 * something else went wrong before, like freeing what others still use. A failure that the run
 * notes later replaces it. */
void sim_misuse_of(const char *prefix, bool in_turn, const char *fmt, va_list ap)
	__attribute__((format(printf, 3, 0)));
/* For a test that breaks a rule on purpose, before it does: misuse whose line has these words (of a
 * literal) is logged and fails nothing. A run that passes otherwise and had none of it does not
 * pass. */
void sim_expect_misuse(const char *words);
/* A return address in words, for reports: "main+0x2a"; "?": not known. Slow. */
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
	SIM_TASK_SLEEPING, /* until task->wake_ns: a charge, a sleep, starvation */
	SIM_TASK_DONE,
	SIM_TASK_KILLED,
};

struct sim_task_attr {
	const char *name; /* copied */
	enum sim_task_kind kind;
	struct os_proc *proc;
	int32_t rank; /* -1: none */
	bool background;
	bool detached; /* host tasks: freed at their end, and not joined */
	/* warps: */
	int32_t device, kernel, block, warp, lane;
	uint32_t home;      /* threads engine: key of the worker; equal keys share one worker */
	void *owner;        /* free for the code that spawned it: fakecuda's struct dev */
	size_t stack_bytes; /* engine sim, host tasks: of its fiber; 0: the configuration's */
};

/* Public so that gdb, the hang explainer and core files read it; written by the engine only. */
struct sim_task {
	struct os_self self;          /* first: os_self() is a task */
	void *sp;                     /* a suspended fiber is this one word */
	struct sim_task *next, *prev; /* all tasks, oldest first */
	enum sim_task_kind kind;
	enum sim_task_state state;
	bool background;
	bool detached;
	int32_t device, kernel, block, warp, lane;
	void *owner;
	char name[48];
	/* what it waits for, while WAITING */
	const struct wait *const *wait;
	int wait_n;
	const shared_u32 *wait_abort;
	const char *poll_why; /* while asleep in os_poll_miss */
	uint64_t wake_ns;     /* while SLEEPING, or the earliest deadline while WAITING */
	uint64_t debt_ns;     /* charges not yet paid */
	uint64_t switches;
	void *priv; /* the engine's own part */
};

/* Spawns a task; it is ready immediately. The engine frees it after it ended: host tasks when
 * joined, warps and detached tasks when `fn` returned: *t may be gone on return. ENOMEM, EAGAIN. */
int sim_task_spawn(struct sim_task **t, const struct sim_task_attr *attr, void (*fn)(void *arg),
		   void *arg);
/* Process 0, the main task's, from sim_start to sim_stop; the world fills in its identity. */
struct os_proc *sim_main_proc(void);
struct sim_task *sim_task_self(void);  /* NULL in event context and outside sim_run */
struct sim_task *sim_task_first(void); /* live tasks; follow ->next */
/* Kills every task of the process: none of them runs again. Takes effect immediately for tasks that
 * are suspended; must not be called by one of them. */
void sim_kill_proc(struct os_proc *proc);
/* Has it a task that has not ended, besides the main task of a guest? */
bool sim_proc_has_tasks(const struct os_proc *proc);
/* Has it a detached task that is no background one: a library finishes something after the call
 * that began it? */
bool sim_proc_finishes(const struct os_proc *proc);
/* What a fault that ends a process calls, in event context; it calls sim_kill_proc and cleans up
 * (world_proc_kill). Without one only the tasks end. */
void sim_set_killer(void (*kill)(struct os_proc *proc));

/* A scheduling point: pays the task's debt, and lets the strategy run another task. Every entry
 * point of a double has one first. Not in event context. */
void sim_point(const char *site);

/* ---- waking --------------------------------------------------------------------------------- */

/* Waiting is os_wait (core/os/os.h). Code that writes memory which a wait may watch, by whatever
 * means (DMA, memset, copy engine, device store), reports it here; the addresses are those that the
 * waits name. Callable in event context. */
void sim_wrote(const void *addr, size_t bytes);

/* Has sim_wrote a task to wake? For doubles whose word it is, instead of a call. */
extern shared_u32 sim_words_watched; /* `threads`: that tasks sleep on */
static inline bool sim_words_are_watched(void)
{
	return !sim_mode.plain || __atomic_load_n(&sim_words_watched.v_, __ATOMIC_RELAXED);
}

/* How the engine reads a waited-on address when it is not plain readable memory (the strict device
 * view): returns where to read it, or `addr` itself. And what waits and writes call the memory that
 * is mapped at `addr`, which may be mapped elsewhere, too. Set once by fakecuda. */
void sim_set_resolver(const void *(*resolve)(const void *addr),
		      const void *(*home)(const void *addr));

/* ---- events: run-to-completion steps -------------------------------------------------------- */

/* A device (HCA, QP, link, copy engine, stream, timer) is an object with a step function, called
 * with what happened; it never waits.
 *
 * sim: the event loop calls it at now + delay_ns, one at a time; events due at the same time are
 * ordered by the strategy, unless they share a non-NULL `order` object: those keep the order in
 * which they were posted, whatever their delays, as packets on one wire do.
 *
 * threads: SIM_EVENT_WORK runs with no delay, on the OS thread that posted it, when that thread
 * next calls sim_events_drain(): entry points of doubles call it last, after unlocking. Step
 * functions take their object's lock themselves. SIM_EVENT_TIMER runs on the engine's timer thread
 * when its time has come. */
enum sim_event_kind { SIM_EVENT_WORK, SIM_EVENT_TIMER };

struct sim_event; /* engine's; a handle for cancelling timers */

struct sim_event_attr {
	const char *name; /* "qp.ack_timeout"; string constant */
	enum sim_event_kind kind;
	uint64_t delay_ns;
	const void *order; /* see above; NULL: none */
	bool background;   /* does not count as something that may still happen */
};
/* *handle may be NULL. The step gets (object, arg). */
void sim_event_post(const struct sim_event_attr *attr, void (*step)(void *object, uint64_t arg),
		    void *object, uint64_t arg, struct sim_event **handle);
/* Cancels a posted event that has not run; true if it will not run. After it ran, the handle is
 * stale: its owner forgets it in the step function. */
bool sim_event_cancel(struct sim_event *handle);
/* Cancels every pending event of the object. */
void sim_events_cancel_object(const void *object);
extern uint32_t sim_events_queued; /* threads: not yet run, of all OS threads; sim: 0 */
void sim_events_drain_queued(void);
static inline void sim_events_drain(void) /* sim: nothing to do */
{
	if (UNLIKELY(__atomic_load_n(&sim_events_queued, __ATOMIC_RELAXED) != 0))
		sim_events_drain_queued();
}

/* ---- virtual time --------------------------------------------------------------------------- */

uint64_t sim_now_ns(void);
/* Engine sim: a program reads a clock. Takes a little time, and more in a loop of nothing but
 * reads, so that it reaches the time that it waits for. */
uint64_t sim_clock_read(void);
/* What a clock on the wall showed at that moment of sim_now_ns: ns since 1970. */
uint64_t sim_wall_ns(uint64_t at_ns);
/* Charges the running task (event context: ignored). */
void sim_charge_ns(uint64_t ns);

/* Something that is used serially: a link direction, a copy engine. */
struct sim_resource {
	const char *name;
	uint64_t mbps;       /* 0: infinitely fast */
	uint64_t free_at_ns; /* the engine's, as the next two: the last use, and what it took */
	uint64_t last_bytes, last_ns;
};
/* Books `bytes` on it after what is booked already; returns the delay from now until the last byte
 * is through (a drawn factor under exploring strategies; 0 in `threads`). */
uint64_t sim_resource_use(struct sim_resource *r, uint64_t bytes);
/* A latency of about `ns`: exact under fifo, with a drawn factor otherwise. 0 in `threads`. */
uint64_t sim_latency(uint64_t ns);

/* ---- choices and randomness ----------------------------------------------------------------- */

/* One of 0..n-1. Never two draws in one expression. n == 1 draws nothing. */
uint32_t sim_choose(const char *site, uint32_t n);

/* Named streams: one owner each; a draw in one never shifts another. xoshiro256**; the stream's
 * start depends on the root seed (a constant under fifo) and its name only. */
struct sim_rng {
	uint64_t s[4];
};
void sim_rng_init(struct sim_rng *r, const char *stream);
/* The same from a seed of the caller's, outside any run too. */
void sim_rng_seed(struct sim_rng *r, uint64_t seed, const char *stream);
uint64_t sim_rng_u64(struct sim_rng *r);
uint64_t sim_rng_below(struct sim_rng *r, uint64_t n);
bool sim_rng_ratio(struct sim_rng *r, uint32_t num, uint32_t den);

/* ---- timeline ------------------------------------------------------------------------------- */

/* A row of the trace file that is not a task's: a stream, a port. Zeroed: not in the file yet. All
 * of it only if os_tracing(). The slices of a track nest, whatever the order of the calls. */
struct sim_track {
	uint32_t pid, tid;
};
enum sim_track_group { SIM_TRACK_RANK, SIM_TRACK_HOST, SIM_TRACK_RUN };
bool sim_trace_detailed(void); /* config.trace_detail */
/* The first call names it. Rank or host `number`; -1: of none. */
void sim_track_open(struct sim_track *t, enum sim_track_group group, int32_t number,
		    const char *name);
void sim_trace_begin(const struct sim_track *t, const struct os_trace_slice *s);
void sim_trace_end(const struct sim_track *t, const struct os_trace_slice *s);
void sim_trace_span(const struct sim_track *t, const struct os_trace_slice *s, uint64_t from_ns,
		    uint64_t ns);
/* A counter of the track's group has this value, in thousandths, from that time on. It is a row of
 * its own. */
void sim_trace_counter(const struct sim_track *t, const char *name, const char *unit,
		       uint64_t at_ns, uint64_t milli);

/* Fault points and trace: os_fault, os_trace... of core/os/os.h are the interface here too. A
 * double that knows more of where it is than the object's label and the task do passes it: */
#define SIM_FAULT_ACTIONS 7 /* of one site, at most */
struct sim_fault_place {
	int32_t host, port, peer_host, peer_port, state; /* a port: of its host */
	int64_t step;
	const char *nic, *peer_nic; /* their names */
};
#define SIM_FAULT_NOWHERE                                                                          \
	{                                                                                          \
		-1, -1, -1, -1, -1, -1, NULL, NULL                                                 \
	}
/* Does what os_fault does; `at` may be NULL, and -1 or NULL in it is unknown. */
bool sim_fault_armed(const char *site, const void *object, const struct sim_fault_place *at,
		     struct os_fault *f);
static inline bool sim_fault(const char *site, const void *object, const struct sim_fault_place *at,
			     struct os_fault *f)
{
	return UNLIKELY(sim_mode.faults) && sim_fault_armed(site, object, at, f);
}

/* From here on no fault fires; links come up, clogs open (the hooks, hung once at load, at most
 * 4). A plan does it by "heal after=TIME". Not to be undone in this run. */
void sim_faults_heal(void);
bool sim_faults_healed(void);
/* When they heal by themselves, in virtual time; UINT64_MAX: not. */
uint64_t sim_faults_heal_at_ns(void);
void sim_on_heal(void (*hook)(void));

/* Prints the fault sites known. */
void sim_fault_print_sites(FILE *out);
void sim_fault_print_sites_json(FILE *out);
/* Prints the plan of this run, or of the last one, with how often each fault matched and fired:
 * lines that, after "fault ", are a plan. */
void sim_fault_print_plan(FILE *out);
/* Prints the faults of that plan that never fired, a line each that names file and line. */
void sim_fault_print_unfired(FILE *out);
/* A plan drawn from `seed` for a world of that size, as text that the caller frees; it has no time
 * at which faults heal. No engine needs to run. NULL: out of memory. */
char *sim_fault_draw(uint64_t seed, uint32_t hosts, uint32_t ranks);
/* The same with one line, which ends a call or a rank while ranks connect or first work. */
char *sim_fault_draw_early(uint64_t seed, uint32_t hosts, uint32_t ranks);
/* The same with one line: one call of a rank fails, whichever comes as the nth of its layer. */
char *sim_fault_draw_any(uint64_t seed, uint32_t hosts, uint32_t ranks);
/* The same of faults that every call survives: connections that are lost, losses within the
 * retries, delays. */
char *sim_fault_draw_survivable(uint64_t seed, uint32_t hosts, uint32_t ranks);
/* Why no run of the lab comes to a site or a probe; NULL: some do. */
const char *sim_fault_idle(const char *site);
const char *sim_probe_idle(const char *probe);
uint64_t sim_faults_fired(void);
/* Lines of the plan that never fired. */
uint32_t sim_faults_unfired(void);
/* The program's number-th operation of a communicator begins: after=collective counts from here. */
void sim_faults_operation(uint64_t number);
/* Has a fault fired at the rank, or where it is not known at which? */
bool sim_fault_hit_rank(int32_t rank);
/* The harness ends something at a moment of its choosing, as ncclCommAbort from another task does:
 * from here on the run is as after a fault. */
void sim_upset(void);
bool sim_is_upset(void);     /* a fault fired, or the harness declared it */
bool sim_faults_armed(void); /* there is a plan: os_fault may be true */
/* The i-th site and the names of its actions, then NULL; false: there are fewer. */
bool sim_fault_site_at(uint32_t i, const char **site, const char *action[SIM_FAULT_ACTIONS]);

/* Sites of OS_BUGGIFY: all that exist in the program, with how often this run came by and how often
 * it took the rare path. Counted by exploring runs of engine sim only. Valid until the next
 * sim_start; sorted by name, those of a test after them. */
struct sim_buggify_stat {
	const char *name, *what;
	uint64_t visits, hits;
};
uint32_t sim_buggify_stats(const struct sim_buggify_stat **stats);
void sim_buggify_print_sites(FILE *out);

/* Sites of OS_PROBE: all that exist in the program, with how often they were so in this run. As
 * above. */
struct sim_probe_stat {
	const char *name, *what;
	uint64_t hits;
};
uint32_t sim_probe_stats(const struct sim_probe_stat **stats);
void sim_probe_print_sites(FILE *out);

/* How often each site was come by, and fired: of the run that is, or of the last one. Counted
 * when there is a plan or config.fault_stats. False: no such index. */
struct sim_fault_stat {
	const char *site;
	uint64_t visits, fires;
};
bool sim_fault_stat(uint32_t index, struct sim_fault_stat *stat);

/* ---- explaining ----------------------------------------------------------------------------- */

/* What a double knows of the object that a wait is on: one line about the object, and whether that
 * object is the reason (a link that is down, a queue pair in error, retries) rather than a task
 * that has not done its part yet. */
struct sim_explained {
	bool stuck;
	char text[400];
};
/* Returns true when the wait is on an object of the caller's; *out is then filled in. Called at a
 * failure only, by any thread; at most 4. */
void sim_on_explain(bool (*explain)(const struct wait *w, struct sim_explained *out));

/* Why nothing moves, in a few lines, and the wait-for graph of this moment; for people and as
 * JSON. */
void sim_explain(FILE *out);
/* A line with which explanations of this run begin: why a task may wait for ever. The first four
 * count. */
void sim_explain_first(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void sim_explain_json(FILE *out);

/* Writes a core file in which every task is a thread. */
int sim_core_write(const char *path);

/* Called when the engine stops for good because of a failure, to add to the dump (world: leak
 * counters; fakeverbs: QPs). At most 8. */
void sim_on_failure(void (*print)(FILE *out));
/* Called on SIGSEGV and SIGBUS, in the signal handler, before the engine reports the crash: prints
 * on stderr what it knows about the address (a device pointer dereferenced by the host) and
 * returns true, or returns false. At most 4; kept until sim_stop. */
void sim_on_crash(bool (*explain)(int signal, const void *addr));

#endif
