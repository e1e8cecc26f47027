/* SPDX-License-Identifier: BSD-3-Clause */
/* The configuration of a run, and its verdict. */
#ifndef SIM_ENGINE_BASE_CONFIG_H
#define SIM_ENGINE_BASE_CONFIG_H

#include "core/os/os.h"

enum sim_engine { SIM_ENGINE_SIM, SIM_ENGINE_THREADS };

enum sim_strategy {
	SIM_PORTFOLIO, /* default: uniform, pct, starve or jitter, drawn from the seed */
	SIM_UNIFORM,
	SIM_PCT,
	SIM_STARVE,
	SIM_FIFO, /* first come, first served; exact charges; the seed has no influence */
};

/* The memory-order adversary (docs/sim/memory-order.md). It explores, and fifo never explores. */
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

#endif
