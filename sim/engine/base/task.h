/* SPDX-License-Identifier: BSD-3-Clause */
/* Tasks as gdb, reports and doubles see them. */
#ifndef SIM_ENGINE_BASE_TASK_H
#define SIM_ENGINE_BASE_TASK_H

#include "core/os/os.h"

/* A row of the trace file that does not belong to a task: a stream, a port. Zeroed: not in the file
 * yet. Used only if os_tracing(). The slices of a track nest, whatever the order of the calls. */
struct sim_track {
	uint32_t pid, tid;
};

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
	bool detached; /* freed at its end and never joined; the end of its process waits for it */
	/* warps: */
	int32_t device, kernel, block, warp, lane;
	/* threads engine: key of the worker; tasks with equal keys share one worker */
	uint32_t home;
	void *owner; /* free for the code that spawns the task: fakecuda's struct dev */
	/* size of the fiber's stack; 0: the configuration's. Not of host tasks of engine threads */
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

/* NULL in event context and outside sim_run. Engine `threads` adopts a thread that it does not
 * know. */
struct sim_task *sim_task_self(void);
/* The same without adoption: NULL for such a thread. May be called in a signal handler. */
struct sim_task *sim_task_known(void);
struct sim_task *sim_task_first(void); /* first live task; follow ->next */

#endif
