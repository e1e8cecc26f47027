/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of tasks, oldest first, and the memory of tasks. */
#include <stdlib.h>
#include <string.h>

#include "sim/engine/base/engine_internal.h"
#include "sim/engine/base/gdb_hooks.h"

struct sim_task *sim_tasks_head, *sim_task_current;
static struct sim_task *sim_tasks_tail;
pthread_mutex_t threads_lock = PTHREAD_MUTEX_INITIALIZER;

void task_list_add(struct task *t)
{
	t->pub.next = NULL;
	t->pub.prev = sim_tasks_tail;
	if (sim_tasks_tail)
		sim_tasks_tail->next = &t->pub;
	else
		sim_tasks_head = &t->pub;
	sim_tasks_tail = &t->pub;
}

void task_list_remove(struct task *t)
{
	struct sim_task *p = &t->pub;

	if (p->prev)
		p->prev->next = p->next;
	else
		sim_tasks_head = p->next;
	if (p->next)
		p->next->prev = p->prev;
	else
		sim_tasks_tail = p->prev;
	p->next = p->prev = NULL;
}

struct sim_task *sim_task_first(void)
{
	return sim_tasks_head;
}

struct task *task_new(const struct sim_task_attr *attr, void (*fn)(void *), void *arg)
{
	struct task *t = eng.task_pool;
	struct wait_node *node = NULL;
	uint32_t node_cap = 0;

	if (t) {
		eng.task_pool = t->wake_next;
		node = t->node;
		node_cap = t->node_cap;
	} else if (!(t = malloc(sizeof *t))) {
		return NULL;
	}
	memset(t, 0, sizeof *t);
	t->node = node;
	t->node_cap = node_cap;
	t->fn = fn;
	t->arg = arg;
	struct sim_task *p = &t->pub;
	snprintf(p->name, sizeof p->name, "%s", attr->name ? attr->name : "task");
	p->self = (struct os_self){.id = eng.next_task_id++,
				   .proc = attr->proc,
				   .name = p->name,
				   .rank = attr->rank,
				   .step = -1};
	p->kind = attr->kind;
	p->background = attr->background;
	p->device = attr->device;
	p->kernel = attr->kernel;
	p->block = attr->block;
	p->warp = attr->warp;
	p->lane = attr->lane;
	p->owner = attr->owner;
	p->priv = t;
	p->detached = attr->detached;
	t->stack_bytes = attr->stack_bytes ? attr->stack_bytes : eng.config.stack_bytes;
	t->made_for = attr->rank;
	return t;
}

void task_pool_free(void)
{
	while (eng.task_pool) {
		struct task *t = eng.task_pool;

		eng.task_pool = t->wake_next;
		free(t->node);
		free(t);
	}
}

struct sim_task *sim_task_self(void)
{
	struct task *t = eng.sched->self();

	return t ? &t->pub : NULL;
}

struct sim_task *sim_task_known(void)
{
	struct task *t = eng.sched->known();

	return t ? &t->pub : NULL;
}
