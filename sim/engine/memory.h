/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory model of the simulated machine: which agent wrote what, which may see it already, and
 * which was allowed to touch it. Called by whatever moves bytes that two agents share: the
 * accessors of core/base/shared.h (through os_ops.h), the device shim's double (backends/fakecuda),
 * DMA of fakeverbs and of copy engines. Engine `sim` only; under `threads` every function returns
 * immediately.
 *
 * Two parts with one set of calls:
 *
 *   store.c    the memory-order adversary. Stores wait in their agent's buffer, with their values,
 *              and become visible late and in any order that fences, orders and scopes do not
 *              forbid. On in the seeds that draw it (never under fifo), because it changes what
 *              runs see.
 *   happens.c  the happens-before check: vector clocks over every access. Two accesses to the same
 *              bytes, one of them a write and one of them plain, that no chain of release and
 *              acquire orders, end the run (exit 11, "data race") with both sides named. Finds
 *              a missing acquire, which no delay of stores does. It draws nothing and changes no
 *              hash; on when sim_config.races is set.
 *
 * Agents. A task is an agent. In event context the agent is the object (a QP, a stream, a copy
 * engine) that mem_as() named for the running step. A block's shared memory is not covered: its
 * warps meet at barriers only.
 *
 * Addresses are those of the real memory that a mapping shows (what fc_alias() and the like
 * return), so that two mappings of one page are one place. Words (loads, stores, read-modify-writes
 * of 4 or 8 bytes) are atomic; ranges are plain.
 *
 * Orders are C11's, scopes those of shared_types.h. A release store or fence of scope S makes the
 * agent's earlier writes, and those it saw through barriers or acquires, visible to agents within
 * S. Host threads and HCAs always act at system scope.
 */
#ifndef SIM_ENGINE_MEMORY_H
#define SIM_ENGINE_MEMORY_H

#include "core/os/os.h"

struct mem_access {
	const void *addr; /* of the real memory */
	size_t bytes;
	const void *wake; /* what waits call it, where that differs; NULL: addr */
	enum shared_access op;
	enum shared_order order; /* ranges: SHARED_RELEASE for a write that lands as a whole */
	enum shared_scope scope;
	bool touched; /* mem_touched_as() was called for it, and did the happens-before check */
};

/* Which parts are on in this run: MEM_STORE, MEM_RACES. Set by sim_start; 0 costs one load. */
enum { MEM_STORE = 1, MEM_RACES = 2 };
extern uint32_t mem_on;

/* Before an access by the running agent: loads and range reads first take in what they must see
 * (their own buffered stores, those of their block...); fences order; races are reported here. For
 * writes call it before the bytes change, and mem_wrote() after. */
static inline void mem_access(const struct mem_access *a);

/* A store of a word: true when the adversary kept it, and the caller must neither store nor wake;
 * it will do both later. `value` is the word, in the low bytes. Includes mem_access(). */
static inline bool mem_store(const struct mem_access *a, uint64_t value);
/* The same for several words that become visible together, as those of a line of 128 bytes that
 * arrives whole. `words` has all of them. */
static inline bool mem_store_whole(const struct mem_access *a, const uint64_t *words);

/* After a range was written (the bytes are there), with the same arguments as mem_access(), which
 * remembered the old bytes: the adversary may put some of them back until the new ones become
 * visible. The caller wakes the tasks that wait on the range all the same: a wait is evaluated
 * anew. */
static inline void mem_wrote(const struct mem_access *a);

/* For the happens-before check alone: plain memory that no accessor moves (shared_note_write and
 * shared_note_read). */
static inline void mem_note(const struct mem_access *a);

/* Edges between agents that go through no word: a work request posted and executed, its completion
 * found, a kernel launched, a stream's order, a barrier, a socket's bytes, a thread started or
 * joined. Release: everything that the running agent did is ordered before the agent that acquires
 * `object` later; it also empties the agent's store buffer (a doorbell, a system call and a kernel
 * launch do). `object` is any address; mem_forget ends its life. NULL: empties the buffer only. */
static inline void mem_release(const void *object);
static inline void mem_acquire(const void *object);
static inline void mem_forget(const void *object);

/* In event context: the rest of this step acts as `object`. Ends with the step. */
static inline void mem_as(const void *object);
/* For the happens-before check alone: an access whose bytes come later, with `touched` set. It is
 * not made by the agent that acts now, but by `apart`, after all that this agent did; an agent that
 * acquires `apart`, or `also`, comes after it. */
static inline void mem_touched_as(const void *apart, const struct mem_access *a, const void *also);

/* Memory was freed, or given out anew: no access before this one conflicts with a later one, and
 * buffered stores to it are dropped. */
static inline void mem_fresh(const void *addr, size_t bytes);

/* What can describe the memory at an address ("gpu 3 allocation #12 + 4096, ..."), in reports of
 * races: returns false where it cannot. At most 4, kept for good. */
void mem_on_describe(bool (*describe)(const void *addr, char *out, size_t bytes));

/* A barrier among threads of a block: `barrier` names it. Every arrival calls mem_barrier_arrive,
 * and mem_barrier_leave when it goes on. */
static inline void mem_barrier_arrive(const void *barrier);
static inline void mem_barrier_leave(const void *barrier);

/* ---- what they call: memory.c --------------------------------------------------------------- */

void mem_do_access(const struct mem_access *a);
bool mem_do_store(const struct mem_access *a, const void *bytes);
void mem_do_note(const struct mem_access *a);
void mem_do_wrote(const struct mem_access *a);
void mem_do_touched_as(const void *apart, const struct mem_access *a, const void *also);
void mem_do_release(const void *object);
void mem_do_acquire(const void *object);
void mem_do_forget(const void *object);
void mem_do_as(const void *object);
void mem_do_fresh(const void *addr, size_t bytes);
void mem_do_barrier_arrive(const void *barrier);
void mem_do_barrier_leave(const void *barrier);

static inline void mem_access(const struct mem_access *a)
{
	if (UNLIKELY(mem_on != 0))
		mem_do_access(a);
}
static inline bool mem_store(const struct mem_access *a, uint64_t value)
{
	return UNLIKELY(mem_on != 0) && mem_do_store(a, &value);
}
static inline bool mem_store_whole(const struct mem_access *a, const uint64_t *words)
{
	return UNLIKELY(mem_on != 0) && mem_do_store(a, words);
}
static inline void mem_touched_as(const void *apart, const struct mem_access *a, const void *also)
{
	if (UNLIKELY(mem_on != 0))
		mem_do_touched_as(apart, a, also);
}
static inline void mem_note(const struct mem_access *a)
{
	if (UNLIKELY((mem_on & MEM_RACES) != 0))
		mem_do_note(a);
}
static inline void mem_wrote(const struct mem_access *a)
{
	if (UNLIKELY(mem_on != 0))
		mem_do_wrote(a);
}
static inline void mem_release(const void *object)
{
	if (UNLIKELY(mem_on != 0))
		mem_do_release(object);
}
static inline void mem_acquire(const void *object)
{
	if (UNLIKELY(mem_on != 0))
		mem_do_acquire(object);
}
static inline void mem_forget(const void *object)
{
	if (UNLIKELY(mem_on != 0))
		mem_do_forget(object);
}
static inline void mem_as(const void *object)
{
	if (UNLIKELY(mem_on != 0))
		mem_do_as(object);
}
static inline void mem_fresh(const void *addr, size_t bytes)
{
	if (UNLIKELY(mem_on != 0))
		mem_do_fresh(addr, bytes);
}
static inline void mem_barrier_arrive(const void *barrier)
{
	if (UNLIKELY(mem_on != 0))
		mem_do_barrier_arrive(barrier);
}
static inline void mem_barrier_leave(const void *barrier)
{
	if (UNLIKELY(mem_on != 0))
		mem_do_barrier_leave(barrier);
}

#endif
