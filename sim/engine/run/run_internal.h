/* SPDX-License-Identifier: BSD-3-Clause */
/* The schedulers, for the floors of the engine above them. */
#ifndef SIM_ENGINE_RUN_RUN_INTERNAL_H
#define SIM_ENGINE_RUN_RUN_INTERNAL_H

#include "sim/engine/faults/fault.h"
#include "sim/engine/memory/memory_internal.h"
#include "sim/engine/run/run.h"

#pragma GCC visibility push(hidden)

extern const struct sched_ops sched_sim, sched_threads;

/* procs.c */
void engine_kill_step(void *proc, uint64_t arg); /* step of an event */

/* programs.c */
void engine_foreign_thread(void) __attribute__((noreturn));
void engine_nameless_thread(void) __attribute__((noreturn)); /* of none of a job's programs */
/* Ends the process with an error if the program has threads that the engine does not run. Called
 * when all tasks wait without end: one of those threads may be about to end a wait. */
void engine_threads_may_go_on(void);
/* Refuses a call from a thread of a guest program that is not the engine's thread. */
static inline void guest_check_thread(void)
{
	if (UNLIKELY(engine_has_programs()) && !pthread_equal(eng.thread, pthread_self()))
		engine_foreign_thread();
}

/* task_sim.c: tasks of `sim` */
void task_admit(struct task *t);
int task_launch(struct task *t); /* ENOMEM */
int sched_sim_spawn(struct sim_task **t, const struct sim_task_attr *attr, void (*fn)(void *),
		    void *arg);
void task_ended(struct task *t);
/* Discards all tasks without running them: those still alive, and those that ended and were not
 * joined. Both schedulers. */
void tasks_discard(void);
void task_free(struct task *t);
void sched_sim_kill_proc(struct os_proc *proc);
void task_sleep(struct task *t, uint64_t ns);
void task_sleep_as(struct task *t, uint64_t ns, bool background);
void task_suspend(struct task *t, enum sim_task_state state);
void task_yield(struct task *t);
void task_pay_debt(struct task *t);

/* sched_sim.c */
void sched_sim_point(void);

/* loop_sim.c */
void sched_sim_loop(void);

/* guest.c: the halves of a guest's run under `sim` */
void guest_join_sim(void);
bool guest_part_sim(uint64_t limit_ns);

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
bool accessor_zero(void *p, size_t bytes);

/* parts.c: the threads of `threads` */
extern struct thread_part *threads_all; /* grows under threads_lock */
struct thread_part *threads_part(void); /* the caller's part; adopts an unknown thread */
struct thread_part *threads_part_new(const char *stand_in);
void threads_parts_free(void);
/* Rounds of fruitless looks that a thread pauses, then yields, before it parks. */
enum { THREADS_PAUSES = 64, THREADS_YIELDS = 16 };
/* Handles the n-th fruitless look in a row. False: it paused or yielded. True: the caller parks. */
bool threads_pause(uint32_t round);
uint64_t threads_park_ns(uint32_t round); /* longest sleep of a park */
uint32_t threads_woken(uint32_t round);   /* returns the round to continue with after a wake */
/* Sleeps a little, for tasks that wait for an end, which no write announces. */
void threads_doze(uint32_t round);
void threads_prepare(void); /* prepares the calling thread; called once per thread */

/* task_threads.c: tasks of `threads` */
int threads_spawn(struct sim_task **t, const struct sim_task_attr *attr, void (*fn)(void *),
		  void *arg);
void threads_kill_proc(struct os_proc *proc);
extern shared_u32 threads_kills; /* a process was killed */
bool threads_killed(const struct task *t);
bool threads_ends(const struct task *t); /* the task must end */
void threads_maybe_end(struct task *t);
void threads_waits(const struct task *t, bool on); /* a host task's wait begins or is over */
void threads_task_gone(struct task *t);            /* removes a task that has ended */
void threads_forget(struct task *t);
int threads_start(void);
void threads_run(void (*fn)(void *), void *arg);
bool threads_part_main(uint64_t limit_ns);
void threads_stop(bool ran);

/* sched_threads.c */
void threads_point(void);

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

/* watch.c */
void watch_start(void);
void watch_check(void); /* called when eng.watch_step is reached */

#pragma GCC visibility pop
#endif
