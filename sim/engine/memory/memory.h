/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory model of the simulated machine: which agent wrote which bytes, which agent may see
 * them already, and which agent was allowed to access them. Its callers are all movers of bytes
 * that two agents share: the accessors of core/base/shared.h (through os_ops.h), the device shim's
 * double (backends/fakecuda), DMA of fakeverbs and of copy engines. Engine `sim` only; under
 * `threads` every function returns immediately.
 *
 * Two parts with one set of calls:
 *
 *   store.c    the memory-order adversary. Stores wait in their agent's buffer, with their values,
 *              and become visible late and in any order that fences, orders and scopes do not
 *              forbid. On in the seeds that draw it (never under fifo), because it changes the
 *              values that runs read.
 *   happens.c  the happens-before check: vector clocks over every access. Two accesses to the
 *              same bytes, one of them a write and one of them plain, are a race if no chain of
 *              release and acquire orders them. A race ends the run (exit 11, "data race") with
 *              both sides named. Finds a missing acquire, which no delay of stores does. It
 *              draws nothing and changes no hash; on when sim_config.races is set.
 *
 * Agents. A task is an agent. In event context the agent is the object (a QP, a stream, a copy
 * engine) that mem_as() named for the running step. A block's shared memory is not covered: its
 * warps synchronise by barriers only.
 *
 * Addresses are those of the real memory that a mapping shows (as fc_alias() and similar functions
 * return). Two mappings of one page are therefore one place. Words (loads, stores,
 * read-modify-writes of 4 or 8 bytes) are atomic; ranges are plain.
 *
 * Orders are C11's, scopes those of shared_types.h. A release store or fence of scope S publishes
 * the agent's earlier writes to agents within S, and those seen through barriers or acquires. Host
 * threads and HCAs always act at system scope.
 */
#ifndef SIM_ENGINE_MEMORY_MEMORY_H
#define SIM_ENGINE_MEMORY_MEMORY_H

#include "core/os/os.h"

struct mem_access {
	const void *addr; /* address of the real memory */
	size_t bytes;
	const void *wake; /* address that waits use, where that differs; NULL: addr */
	enum shared_access op;
	enum shared_order order; /* ranges: SHARED_RELEASE for a write that lands as a whole */
	enum shared_scope scope;
	bool touched; /* mem_touched_as() was called for it, and did the happens-before check */
};

/* Active parts of this run: MEM_STORE, MEM_RACES. sim_start sets it; 0 costs one load. */
enum { MEM_STORE = 1, MEM_RACES = 2 };
extern uint32_t mem_on;
bool sim_memory_order_on(void); /* True if the memory-order adversary is on in this run. */

/* Announces an access by the running agent. Loads and range reads first show the stores that they
 * must see (the agent's own buffered ones, those of its block...). Fences order; races are reported
 * here. A writer calls it before the bytes change, and mem_wrote() afterwards. */
static inline void mem_access(const struct mem_access *a);

/* Stores a word: true if the adversary buffered it. The caller must then neither store nor wake;
 * the adversary does both later. `value` is the word, in the low bytes. Includes mem_access(). */
static inline bool mem_store(const struct mem_access *a, uint64_t value);
/* Does the same for several words that become visible together, like those of a line of 128 bytes
 * that arrives whole. `words` has all of them. */
static inline bool mem_store_whole(const struct mem_access *a, const uint64_t *words);

/* Announces that a range was written; the new bytes are in memory. The arguments are those of
 * mem_access(), which saved the old bytes. The adversary may put some old bytes back until the new
 * ones become visible. The caller still wakes the tasks that wait on the range: each wait is
 * evaluated again. */
static inline void mem_wrote(const struct mem_access *a);

/* Announces an access to plain memory that no accessor moves (shared_note_write and
 * shared_note_read), for the happens-before check alone. */
static inline void mem_note(const struct mem_access *a);

/* Edges between agents that do not use a word: a work request posted and executed, its completion
 * found, a kernel launched, a stream's order, a barrier, a socket's bytes, a thread started or
 * joined. mem_release orders everything that the running agent did before any agent that acquires
 * `object` later. It also empties the agent's store buffer, as a doorbell, a system call and a
 * kernel launch do. `object` is any address; mem_forget ends its life. NULL: only empties the
 * buffer. */
static inline void mem_release(const void *object);
static inline void mem_acquire(const void *object);
static inline void mem_forget(const void *object);

/* In event context: makes `object` the agent of the rest of this step. */
static inline void mem_as(const void *object);
/* Orders everything that the agent `object` did before the running agent, as when a device has
 * stopped. For the happens-before check alone. */
static inline void mem_join(const void *object);
/* Makes an access for the happens-before check alone; its bytes arrive later, with `touched` set.
 * The agent of the access is not the running one but `apart`, ordered after everything that the
 * running agent did. An agent that acquires `apart`, or `also`, is ordered after the access. */
static inline void mem_touched_as(const void *apart, const struct mem_access *a, const void *also);

/* Announces that memory was freed or newly allocated. No earlier access conflicts with a later one,
 * and buffered stores to it are dropped. */
static inline void mem_fresh(const void *addr, size_t bytes);

/* Registers a function that describes the memory at an address ("gpu 3 allocation #12 + 4096, ...")
 * for reports of races. It returns false if it does not know the address. At most 4, never
 * removed. */
void mem_on_describe(bool (*describe)(const void *addr, char *out, size_t bytes));

/* A barrier among threads of a block; `barrier` names it. Every thread calls mem_barrier_arrive at
 * its arrival and mem_barrier_leave when it continues. */
static inline void mem_barrier_arrive(const void *barrier);
static inline void mem_barrier_leave(const void *barrier);

void mem_do_access(const struct mem_access *a);
bool mem_do_store(const struct mem_access *a, const void *bytes);
void mem_do_note(const struct mem_access *a);
void mem_do_wrote(const struct mem_access *a);
void mem_do_touched_as(const void *apart, const struct mem_access *a, const void *also);
void mem_do_release(const void *object);
void mem_do_acquire(const void *object);
void mem_do_forget(const void *object);
void mem_do_as(const void *object);
void mem_do_join(const void *object);
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
static inline void mem_join(const void *object)
{
	if (UNLIKELY((mem_on & MEM_RACES) != 0))
		mem_do_join(object);
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
