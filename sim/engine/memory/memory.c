/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory model's dispatcher: finds the acting agent, and calls the active ones of the two
 * parts, store.c (the memory-order adversary) and happens.c (the happens-before check). */
#include <stdlib.h>
#include <string.h>

#include "sim/engine/memory/memory_internal.h"
#include "sim/engine/memory/memory.h"

uint32_t mem_on;

enum { MEM_BITS_FIRST = 8 };

static struct {
	struct mem_agent **object; /* [1 << bits], by address, for equality only */
	uint32_t bits, objects;
	struct mem_agent unnamed; /* agent of events that named none */
	struct mem_agent *pool;
	uint32_t next_id;
} mem;

/* ---- agents --------------------------------------------------------------------------------- */

static struct mem_agent *mem_agent_new(void)
{
	struct mem_agent *me = mem.pool;

	if (me)
		mem.pool = me->next;
	else
		me = malloc(sizeof *me);
	ASSERT(me);
	*me = (struct mem_agent){.id = mem.next_id++, .device = -1};
	return me;
}

static void mem_agent_free(struct mem_agent *me)
{
	if (mem_on & MEM_STORE)
		store_agent_ended(me);
	if (mem_on & MEM_RACES)
		happens_agent_ended(me);
	me->next = mem.pool;
	mem.pool = me;
}

static struct mem_agent *mem_agent_of_task(struct task *t)
{
	struct mem_agent *me = t->mem;

	if (me)
		return me;
	me = t->mem = mem_agent_new();
	me->task = t;
	me->is_warp = t->pub.kind == SIM_TASK_WARP;
	if (me->is_warp) {
		me->device = t->pub.device;
		me->block = (uint64_t)(uint32_t)t->pub.kernel << 32 | (uint32_t)t->pub.block;
	}
	return me;
}

static struct mem_agent **mem_bucket_of(const void *object)
{
	return &mem.object[((uintptr_t)object * 0x9e3779b97f4a7c15ull) >> (64 - mem.bits)];
}

static void mem_table_make(uint32_t bits)
{
	mem.bits = bits;
	mem.object = calloc((size_t)1 << bits, sizeof(struct mem_agent *));
	ASSERT(mem.object);
}

static void mem_object_add(struct mem_agent *me)
{
	struct mem_agent **bucket = mem_bucket_of(me->object);

	me->next = *bucket;
	*bucket = me;
}

/* A world of thousands of ranks has as many queue pairs and sockets, which are objects. */
static void mem_table_grow(void)
{
	struct mem_agent **old = mem.object;
	uint32_t n = 1u << mem.bits;

	mem_table_make(mem.bits + 2);
	for (uint32_t i = 0; i < n; i++)
		for (struct mem_agent *me = old[i], *next; me; me = next) {
			next = me->next;
			mem_object_add(me);
		}
	free(old);
}

static struct mem_agent *mem_agent_of_object(const void *object)
{
	struct mem_agent *me;

	for (me = *mem_bucket_of(object); me; me = me->next)
		if (me->object == object)
			return me;
	if (++mem.objects > 1u << mem.bits)
		mem_table_grow();
	me = mem_agent_new();
	me->object = object;
	mem_object_add(me);
	return me;
}

static struct mem_agent *mem_self(void)
{
	if (eng.current)
		return mem_agent_of_task(eng.current);
	return eng.acting ? mem_agent_of_object(eng.acting) : &mem.unnamed;
}

/* Ends a task's agent. Its stores remain valid, whether the task returned or its process was
 * killed: see docs/sim/memory-order.md. */
void mem_task_ended(struct task *t)
{
	mem_agent_free(t->mem);
	t->mem = NULL;
}

/* ---- memory.h ------------------------------------------------------------------------------- */

void mem_do_access(const struct mem_access *a)
{
	struct mem_agent *me = mem_self();

	if ((mem_on & MEM_RACES) && !a->touched)
		happens_access(me, a);
	if (mem_on & MEM_STORE)
		store_access(me, a);
}

bool mem_do_store(const struct mem_access *a, const void *bytes)
{
	struct mem_agent *me = mem_self();

	ASSERT(a->op == SHARED_STORE && (a->bytes == 4 || a->bytes % 8 == 0));
	if (mem_on & MEM_RACES)
		happens_access(me, a);
	return (mem_on & MEM_STORE) && store_keep(me, a, bytes);
}

void mem_do_wrote(const struct mem_access *a)
{
	if (mem_on & MEM_STORE)
		store_wrote(mem_self(), a);
}

void mem_do_note(const struct mem_access *a)
{
	happens_access(mem_self(), a);
}

void mem_do_touched_as(const void *apart, const struct mem_access *a, const void *also)
{
	if (!(mem_on & MEM_RACES))
		return;
	struct mem_agent *me = mem_self();
	uint32_t next_id = mem.next_id;
	struct mem_agent *other = mem_agent_of_object(apart);

	mem.next_id = next_id; /* the check must not change the numbers of other agents */
	happens_release(me, apart);
	happens_acquire(other, apart);
	happens_access(other, a);
	happens_release(other, apart);
	happens_release(other, also);
}

void mem_do_release(const void *object)
{
	struct mem_agent *me = mem_self();

	if (mem_on & MEM_STORE)
		store_drain(me);
	if (object && (mem_on & MEM_RACES))
		happens_release(me, object);
}

void mem_do_acquire(const void *object)
{
	struct mem_agent *me = mem_self(); /* numbers the agent, with the check and without */

	if (mem_on & MEM_RACES)
		happens_acquire(me, object);
}

void mem_do_forget(const void *object)
{
	struct mem_agent **at = mem_bucket_of(object), *me;

	if (mem_on & MEM_RACES)
		happens_forget(object);
	for (; (me = *at); at = &me->next) {
		if (me->object != object)
			continue;
		*at = me->next;
		mem.objects--;
		mem_agent_free(me);
		return;
	}
}

void mem_do_join(const void *object)
{
	struct mem_agent *other = *mem_bucket_of(object);

	while (other && other->object != object)
		other = other->next;
	if (!other || !other->happens)
		return; /* it has done nothing */
	happens_release(other, object);
	happens_acquire(mem_self(), object);
}

void mem_do_as(const void *object)
{
	ASSERT(!eng.current || !object);
	eng.acting = object;
}

void mem_do_fresh(const void *addr, size_t bytes)
{
	if (mem_on & MEM_STORE)
		store_fresh(addr, bytes);
	if (mem_on & MEM_RACES)
		happens_fresh(addr, bytes);
}

void mem_do_barrier_arrive(const void *barrier)
{
	struct mem_agent *me = mem_self();

	if (mem_on & MEM_STORE)
		store_barrier(me);
	if (mem_on & MEM_RACES)
		happens_barrier_arrive(me, barrier);
}

void mem_do_barrier_leave(const void *barrier)
{
	struct mem_agent *me = mem_self();

	if (mem_on & MEM_RACES)
		happens_barrier_leave(me, barrier);
}

bool sim_memory_order_on(void)
{
	return (mem_on & MEM_STORE) != 0;
}

/* ---- life ----------------------------------------------------------------------------------- */

int mem_start(void)
{
	int rc = 0;

	memset(&mem, 0, sizeof mem);
	mem.unnamed.device = -1;
	mem.next_id = 1;
	mem_on = 0;
	if (!engine_in_sim())
		return 0;
	if (store_start())
		mem_on |= MEM_STORE;
	if (eng.config.races) {
		rc = happens_start();
		mem_on |= rc ? 0 : MEM_RACES;
	}
	if (mem_on)
		mem_table_make(MEM_BITS_FIRST);
	return rc;
}

static void mem_drop_tasks(void)
{
	for (struct sim_task *p = sim_task_first(); p; p = p->next)
		if (task_of(p)->mem)
			mem_task_ended(task_of(p));
}

void mem_stop(void)
{
	mem_drop_tasks();
	for (uint32_t i = 0; mem.object && i < 1u << mem.bits; i++) {
		while (mem.object[i]) {
			struct mem_agent *me = mem.object[i];

			mem.object[i] = me->next;
			mem_agent_free(me);
		}
	}
	if (mem_on & MEM_RACES) {
		happens_agent_ended(&mem.unnamed);
		happens_stop();
	}
	if (mem_on & MEM_STORE) {
		store_agent_ended(&mem.unnamed);
		store_stop();
	}
	mem_on = 0;
	free(mem.object);
	mem.object = NULL;
	while (mem.pool) {
		struct mem_agent *me = mem.pool;

		mem.pool = me->next;
		free(me);
	}
}
