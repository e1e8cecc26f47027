/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory model (memory.h). No function here runs while mem_on is 0. */
#ifndef SIM_ENGINE_MEMORY_MEMORY_INTERNAL_H
#define SIM_ENGINE_MEMORY_MEMORY_INTERNAL_H

#include "sim/engine/memory/memory.h"
#include "sim/engine/order/order_internal.h"

#pragma GCC visibility push(hidden)

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

#pragma GCC visibility pop
#endif
