/* SPDX-License-Identifier: BSD-3-Clause */
/* Order, for the floors of the engine above it. */
#ifndef SIM_ENGINE_ORDER_ORDER_INTERNAL_H
#define SIM_ENGINE_ORDER_ORDER_INTERNAL_H

#include "sim/engine/order/order.h"
#include "sim/engine/trace/trace_internal.h"

#pragma GCC visibility push(hidden)

/* strategy.c */
void strategy_start(void);
void strategy_stop(void);
void strategy_task(struct task *t); /* draws a new task's priority */
void ready_add(struct task *t);
/* from any suspended state without a wait or a timer */
void task_make_ready(struct task *t);
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

/* charge.c */
void clock_charge(enum os_cost what, uint64_t amount);

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

/* event counts of `threads` */
uint64_t park_event_seq(const void *object);
void park_event_post(const void *object);

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
enum { POLL_FREE = 8 }; /* fruitless polls in a row before a task waits for a change */
void pollers_park(struct task *t);
void pollers_unpark(struct task *t);
void pollers_wake(void);

/* event_counts.c */
uint64_t event_count_seq(const void *object);
void event_count_post(const void *object);
void event_counts_stop(void);

/* event.c */
void timer_add(struct timer *t, enum timer_kind kind, bool background, uint64_t when, uint32_t tie);
void timer_remove(struct timer *t);
/* sim_event_post, sim_event_cancel, sim_events_cancel_object of `sim` */
void event_post(const struct sim_event_attr *attr, void (*step)(void *, uint64_t), void *object,
		uint64_t arg, struct sim_event **handle);
bool event_cancel(struct sim_event *e);
void events_cancel_object(const void *object);
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

#pragma GCC visibility pop
#endif
