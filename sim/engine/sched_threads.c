/* SPDX-License-Identifier: BSD-3-Clause */
/* The `threads` scheduler. */
#include <stdlib.h>
#include "sim/engine/engine_internal.h"
const struct os_sched_ops sched_threads_ops = {.name = "threads"};
static void unbuilt(const char *what) { fprintf(stderr, "engine threads: %s is not built yet\n", what); abort(); }
int threads_start(void) { fprintf(stderr, "engine threads is not built yet\n"); return ENOSYS; }
void threads_run(void (*fn)(void *), void *arg) { (void)fn, (void)arg; unbuilt(__func__); }
void threads_stop(void) { unbuilt(__func__); }
int threads_spawn(struct sim_task **t, const struct sim_task_attr *attr, void (*fn)(void *), void *arg) { (void)t, (void)attr, (void)fn, (void)arg; unbuilt(__func__); return ENOSYS; }
void threads_kill_proc(struct os_proc *proc) { (void)proc; unbuilt(__func__); }
void threads_point(void) { unbuilt(__func__); }
void threads_wrote(const void *addr, size_t bytes) { (void)addr, (void)bytes; unbuilt(__func__); }
void threads_event_post(const struct sim_event_attr *attr, void (*step)(void *, uint64_t), void *object, uint64_t arg, struct sim_event **handle) { (void)attr, (void)step, (void)object, (void)arg, (void)handle; unbuilt(__func__); }
bool threads_event_cancel(struct sim_event *handle) { (void)handle; unbuilt(__func__); return false; }
void threads_events_cancel_object(const void *object) { (void)object; unbuilt(__func__); }
void threads_events_drain(void) { unbuilt(__func__); }
uint64_t threads_now_ns(void) { unbuilt(__func__); return 0; }
uint64_t threads_event_seq(const void *object) { (void)object; unbuilt(__func__); return 0; }
struct task *threads_self(void) { unbuilt(__func__); return NULL; }
