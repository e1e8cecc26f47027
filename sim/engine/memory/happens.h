/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Internal interface of the happens-before check: happens.c (clocks and rules), happens_shadow.c
 * (which agent accessed which bytes last) and happens_report.c (text for people). The engine calls
 * it through the happens_* functions of memory_internal.h, all other code through memory.h.
 *
 * Time is counted per slot. An agent has a slot for its life. Its epoch there increases by one with
 * each release, so a pair (slot, epoch) names what one agent did between two releases. A clock has,
 * for every slot, the epoch up to which it is known. An agent that knows (s, e) also knows
 * everything that s knew then: only the release that ended that epoch, or a later one, can have
 * published it. Most joins therefore end after one comparison.
 *
 * A shared clock is never written. A release takes a reference, and a barrier hands the same clock
 * to all its agents. This makes a block of 1,024 threads cheap.
 */
#ifndef SIM_ENGINE_MEMORY_HAPPENS_H
#define SIM_ENGINE_MEMORY_HAPPENS_H

#include "sim/engine/memory/memory_internal.h"
#include "sim/engine/memory/memory.h"

#pragma GCC visibility push(hidden)

#define HAPPENS_NONE UINT32_MAX

struct happens_clock {
	uint32_t refs, n;
	struct happens_clock *spare; /* next unused clock */
	uint32_t at[];               /* by slot; beyond n: 0 */
};

/* The publication of a release: the clock, and the releaser's own slot at `epoch`. Without a slot
 * it is several releases joined. Empty: clock NULL and no slot. */
struct happens_stamp {
	struct happens_clock *clock;
	uint32_t slot, epoch;
	/* the agents that released, for scopes */
	enum shared_scope scope;
	int32_t device;
	uint64_t block;
};

/* One access in the shadow. */
struct happens_seen {
	uint32_t slot, epoch; /* slot HAPPENS_NONE: no agent */
	uint64_t record;
};

enum { HAPPENS_WORD_SEEN = 4, HAPPENS_SEG_READS = 4, HAPPENS_FRAMES = 10 };

/* A word that was accessed as one: 4 or 8 bytes. */
struct happens_word {
	struct happens_word *next; /* links free words */
	uintptr_t addr;
	uint32_t bytes;
	uint8_t writes, reads;
	/* No store since the last load, and the agent of that load, read[reads - 1], knows
	 * everything that the word carries. */
	bool settled;
	uint64_t relaxed_record;
	struct happens_stamp sync[2]; /* released at system scope; at a narrower one */
	/* Stamp that the last store would have published as a release. */
	struct happens_stamp relaxed;
	struct happens_seen write[HAPPENS_WORD_SEEN], read[HAPPENS_WORD_SEEN];
};

/* Bytes [lo, hi) of a page whose last range accesses were the same. */
struct happens_seg {
	uint32_t lo, hi;
	uint32_t reads;
	struct happens_seen write;
	struct happens_seen read[HAPPENS_SEG_READS];
};

/* Why an agent saw a word's value without joining a clock from it. */
enum happens_why {
	HAPPENS_RELAXED_LOAD, /* an acquire fence may still join it */
	HAPPENS_SCOPE,        /* it acquired, but not in a scope that both share */
	/* the store released nothing; the stamp is that of a release in its place */
	HAPPENS_RELAXED_STORE,
};
struct happens_pending {
	struct happens_stamp stamp;
	enum happens_why why;
	uint32_t epoch; /* the agent's epoch at that time */
	uintptr_t word;
	uint64_t load, store; /* numbers of records */
};

enum { HAPPENS_PENDING = 16 };

struct happens_part {
	uint32_t slot, epoch;
	uint32_t touched; /* the epoch of its last access */
	uint32_t actor;   /* number of its name */
	enum shared_scope widest;
	struct happens_clock *known; /* NULL: nothing; its own slot's entry is unused */
	struct happens_stamp fence[2];
	struct happens_pending pending[HAPPENS_PENDING];
	uint32_t pending_next;
	struct mem_agent *agent;
};

static inline uint32_t happens_clock_at(const struct happens_clock *c, uint32_t slot)
{
	return c && slot < c->n ? c->at[slot] : 0;
}
/* Returns the epoch up to which the agent knows the slot. */
static inline uint32_t happens_part_knows(const struct happens_part *p, uint32_t slot)
{
	return slot == p->slot ? p->epoch : happens_clock_at(p->known, slot);
}
/* True if the agent knows of the access: the access happens before the agent's current action. */
static inline bool happens_ordered(const struct happens_part *p, const struct happens_seen *s)
{
	return happens_part_knows(p, s->slot) >= s->epoch;
}
/* Live agents, by slot; NULL: the slot is free. */
uint32_t happens_slots(void);
const struct happens_part *happens_part_at(uint32_t slot);
bool happens_stamp_covers(const struct happens_stamp *s, const struct happens_seen *seen);
void happens_stamp_clear(struct happens_stamp *s);
void happens_stamp_set(struct happens_stamp *s, const struct happens_stamp *from);

/* happens_clocks.c. A clock has a count of its users; NULL is a clock without entries. */
struct happens_clock *happens_clock_ref(struct happens_clock *c);
void happens_clock_unref(struct happens_clock *c);
/* Sets *into to the maximum of both in every slot. */
void happens_clock_join(struct happens_clock **into, struct happens_clock *c);
void happens_clock_raise(struct happens_clock **into, uint32_t slot, uint32_t epoch);
void happens_clock_spares_free(void);
/* True if the agent knows everything that the stamp publishes. */
bool happens_part_has(const struct happens_part *p, const struct happens_stamp *s);
void happens_part_join(struct happens_part *p, const struct happens_stamp *s);
/* Joins `more`, which the agent p released, into s. */
void happens_stamp_join(struct happens_stamp *s, const struct happens_stamp *more,
			const struct happens_part *p);
static inline bool happens_stamp_is_empty(const struct happens_stamp *s)
{
	return !s->clock && s->slot == HAPPENS_NONE;
}
/* Returns everything that the agent did and knows up to now. */
static inline struct happens_stamp happens_part_stamp(const struct happens_part *p,
						      enum shared_scope scope)
{
	return (struct happens_stamp){.clock = p->known,
				      .slot = p->slot,
				      .epoch = p->epoch,
				      .scope = scope,
				      .device = p->agent->device,
				      .block = p->agent->block};
}
/* Begins the agent's next epoch: later actions are not part of the release. */
static inline void happens_part_tick(struct happens_part *p)
{
	p->epoch++;
	ASSERT(p->epoch < INT32_MAX);
}

/* Begins an agent, whose slot may continue one whose last agent `begin` covers; NULL: none. */
struct happens_part *happens_part_begin(struct mem_agent *me, const struct happens_stamp *begin);
static inline struct happens_part *happens_part_of(struct mem_agent *me)
{
	return LIKELY(me->happens != NULL) ? me->happens : happens_part_begin(me, NULL);
}
void happens_objects_stop(void);

/* Checks an access against all remembered ones of these bytes, ends the run on a race, and
 * remembers it. */
void shadow_range(struct happens_part *p, const struct mem_access *a, bool write,
		  const struct happens_seen *me);
/* Checks a word access against ranges only: words are atomic among themselves. */
void shadow_word(struct happens_part *p, const struct mem_access *a, uintptr_t addr, uint32_t bytes,
		 bool write, const struct happens_seen *me, struct happens_word *word[2], int *n);
/* True if the agent has loaded this word in this epoch, and a new load would find nothing new.
 * Waits load the same words repeatedly. */
bool shadow_loaded(const struct happens_part *p, uintptr_t addr, size_t bytes);
void shadow_fresh(uintptr_t addr, size_t bytes);
int shadow_start(void);
void shadow_stop(void);

/* Pages of lines (shared_note_lines): each half of a line is atomic, and no order is needed. */
void lines_add(uintptr_t addr, size_t bytes);
bool lines_have(uintptr_t addr);
void lines_remove(uintptr_t addr, size_t bytes);
void lines_stop(void);

int report_start(void);
void report_stop(void);
uint32_t report_actor(const struct mem_agent *me); /* returns its number */
/* Records an access with the frames that led to it; returns its number, never 0. */
uint64_t report_record(const struct happens_part *p, const struct mem_access *a);
/* True if the record will certainly stay in the ring for a long time. */
bool report_is_young(uint64_t record);
/* Ends the run. A task stays where it is. An event's step first runs to its end, because it may
 * hold the locks of a device. */
void report_race(struct happens_part *p, const struct mem_access *a,
		 const struct happens_seen *before, bool before_write);
/* a race was reported: the run ends, and no further access is checked */
bool report_over(void);
void report_cap(size_t bytes); /* logged once */

#pragma GCC visibility pop
#endif
