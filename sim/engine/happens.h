/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside the happens-before check: what happens.c (clocks and rules), happens_shadow.c (which agent
 * touched which bytes last) and happens_report.c (words for people) share. The engine calls it
 * through the happens_* functions of engine_internal.h, all other code through memory.h.
 *
 * Time is counted per slot. An agent has a slot for its life; its epoch there goes up by one with
 * each release, so a pair (slot, epoch) names what one agent did between two releases. A clock has,
 * for every slot, the epoch up to which it is known. An agent that knows (s, e) also knows what s
 * knew then, because it can have learnt that epoch only from the release that ended it, or from a
 * later one; so most joins end after one comparison.
 *
 * A clock that is shared is never written: releasing is taking a reference, and a barrier gives all
 * that meet the same clock. That is what makes a block of 1,024 threads cheap.
 */
#ifndef SIM_ENGINE_HAPPENS_H
#define SIM_ENGINE_HAPPENS_H

#include "sim/engine/engine_internal.h"
#include "sim/engine/memory.h"

#pragma GCC visibility push(hidden)

#define HAPPENS_NONE UINT32_MAX

struct happens_clock {
	uint32_t refs, n;
	struct happens_clock *spare; /* the next one that nothing uses */
	uint32_t at[];               /* by slot; beyond n: 0 */
};

/* What a release published: the clock, and the releaser's own slot at `epoch`. Without a slot it is
 * several releases joined. Empty: clock NULL and no slot. */
struct happens_stamp {
	struct happens_clock *clock;
	uint32_t slot, epoch;
	/* the agents that released, for scopes */
	enum shared_scope scope;
	int32_t device; /* -1: not a warp */
	uint64_t block;
};

/* One access as the shadow remembers it. */
struct happens_seen {
	uint32_t slot, epoch; /* slot HAPPENS_NONE: no agent */
	uint64_t record;
};

enum { HAPPENS_WORD_SEEN = 4, HAPPENS_SEG_READS = 4, HAPPENS_FRAMES = 10 };

/* A word that was accessed as one: 4 or 8 bytes. */
struct happens_word {
	struct happens_word *next; /* free ones */
	uintptr_t addr;
	uint32_t bytes;
	uint8_t writes, reads;
	/* Nothing was stored since the last load, and the agent of that load, read[reads - 1],
	 * knows all that the word carries. */
	bool settled;
	uint64_t relaxed_record;
	struct happens_stamp sync[2]; /* released at system scope; at a narrower one */
	/* What the last store would have published, had it released. */
	struct happens_stamp relaxed;
	struct happens_seen write[HAPPENS_WORD_SEEN], read[HAPPENS_WORD_SEEN];
};

/* Bytes [lo, hi) of a page that were last treated alike by ranges. */
struct happens_seg {
	uint32_t lo, hi;
	uint32_t reads;
	struct happens_seen write;
	struct happens_seen read[HAPPENS_SEG_READS];
};

/* A word whose value this agent saw without taking an order from it, and why. */
enum happens_why {
	HAPPENS_RELAXED_LOAD,  /* an acquire fence may still take it */
	HAPPENS_SCOPE,         /* it acquired, but not in a scope that both share */
	HAPPENS_RELAXED_STORE, /* nothing was released there; the stamp is what would have been */
};
struct happens_pending {
	struct happens_stamp stamp;
	enum happens_why why;
	uint32_t epoch; /* of the agent, then */
	uintptr_t word;
	uint64_t load, store; /* records */
};

enum { HAPPENS_PENDING = 16 };

struct happens_part {
	uint32_t slot, epoch;
	uint32_t touched; /* the epoch of its last access */
	uint32_t actor;   /* its name */
	enum shared_scope widest;
	struct happens_clock *known; /* NULL: nothing; its own slot's entry is not used */
	struct happens_stamp fence[2];
	struct happens_pending pending[HAPPENS_PENDING];
	uint32_t pending_next;
	struct mem_agent *agent;
};

/* ---- happens.c -------------------------------------------------------------------------------
 */

static inline uint32_t happens_clock_at(const struct happens_clock *c, uint32_t slot)
{
	return c && slot < c->n ? c->at[slot] : 0;
}
/* The epoch up to which the agent knows the slot. */
static inline uint32_t happens_part_knows(const struct happens_part *p, uint32_t slot)
{
	return slot == p->slot ? p->epoch : happens_clock_at(p->known, slot);
}
/* Does the agent know of it, that is: does it happen before what the agent does now? */
static inline bool happens_ordered(const struct happens_part *p, const struct happens_seen *s)
{
	return happens_part_knows(p, s->slot) >= s->epoch;
}
/* Live agents, by slot; NULL where there is none. */
uint32_t happens_slots(void);
const struct happens_part *happens_part_at(uint32_t slot);
bool happens_stamp_covers(const struct happens_stamp *s, const struct happens_seen *seen);
void happens_stamp_clear(struct happens_stamp *s);
void happens_stamp_set(struct happens_stamp *s, const struct happens_stamp *from);

/* ---- happens_shadow.c -------------------------------------------------------------------------
 */

/* Each checks against everything remembered of these bytes, ends the run on a race, and remembers.
 */
void shadow_range(struct happens_part *p, const struct mem_access *a, bool write,
		  const struct happens_seen *me);
/* A word access against ranges; then against nothing else: words are atomic. */
void shadow_word(struct happens_part *p, const struct mem_access *a, uintptr_t addr, uint32_t bytes,
		 bool write, const struct happens_seen *me, struct happens_word *word[2], int *n);
/* Has the agent loaded this word in this epoch, and would find nothing new there? Waits look at the
 * same words again and again. */
bool shadow_loaded(const struct happens_part *p, uintptr_t addr, size_t bytes);
void shadow_fresh(uintptr_t addr, size_t bytes);
int shadow_start(void);
void shadow_stop(void);

/* ---- happens_lines.c --------------------------------------------------------------------------
 */

/* Pages of lines (shared_note_lines): each half of a line is whole, and no order is asked for. */
void lines_add(uintptr_t addr, size_t bytes);
bool lines_have(uintptr_t addr);
void lines_remove(uintptr_t addr, size_t bytes);
void lines_stop(void);

/* ---- happens_report.c -------------------------------------------------------------------------
 */

int report_start(void);
void report_stop(void);
uint32_t report_actor(const struct mem_agent *me); /* its number */
/* Remembers an access with the frames that led to it; its number, never 0. */
uint64_t report_record(const struct happens_part *p, const struct mem_access *a);
/* Is it certain to be there for a long time yet? */
bool report_is_young(uint64_t record);
/* Ends the run: a task stays where it is; an event's step goes on to its end first, because it may
 * hold the locks of a device. */
void report_race(struct happens_part *p, const struct mem_access *a,
		 const struct happens_seen *before, bool before_write);
bool report_over(void);        /* a race was reported: the run ends, nothing more is checked */
void report_cap(size_t bytes); /* logged once */

#pragma GCC visibility pop
#endif
