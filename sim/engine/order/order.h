/* SPDX-License-Identifier: BSD-3-Clause */
/* The order of a run: choices, random streams, waking, events, and the virtual time of work. */
#ifndef SIM_ENGINE_ORDER_ORDER_H
#define SIM_ENGINE_ORDER_ORDER_H

#include <stdio.h>

#include "sim/engine/base/state.h"

/* ---- waking --------------------------------------------------------------------------------- */

/* Tasks wait with os_wait (core/os/os.h). Code that writes memory which a wait may watch reports
 * the write here: DMA, memset, copy engine and device stores too. `addr` is an address in the form
 * that waits use. Allowed in event context. */
void sim_wrote(const void *addr, size_t bytes);

/* True if sim_wrote may have a task to wake. A double that owns the word may test this inline
 * before it calls sim_wrote. */
extern shared_u32 sim_words_watched; /* `threads`: number of waits of sleeping tasks */
static inline bool sim_words_are_watched(void)
{
	return !sim_mode.plain || __atomic_load_n(&sim_words_watched.v_, __ATOMIC_RELAXED);
}

/* Sets two address translations; fakecuda calls it once. `resolve` returns where to read a
 * waited-on address that is not plain readable memory (the strict device view), or `addr` itself.
 * `home` returns the address that waits and writes use for the memory mapped at `addr`, which may
 * have several mappings. */
void sim_set_resolver(const void *(*resolve)(const void *addr),
		      const void *(*home)(const void *addr));

/* ---- events: run-to-completion steps -------------------------------------------------------- */

/* A device (HCA, QP, link, copy engine, stream, timer) is an object with a step function. The
 * engine calls the step function with what happened; it never waits.
 *
 * sim: the event loop calls it at now + delay_ns, one event at a time. The strategy orders events
 * that are due at the same time. Events that share a non-NULL `order` object keep the order in
 * which they were posted, whatever their delays, as packets on one wire do.
 *
 * threads: SIM_EVENT_WORK ignores the delay. It runs on the OS thread that posted it, when that
 * thread next calls sim_events_drain(): entry points of doubles call it last, after unlocking. Step
 * functions take their object's lock themselves. SIM_EVENT_TIMER runs on the engine's timer thread
 * when its time has passed. */
enum sim_event_kind { SIM_EVENT_WORK, SIM_EVENT_TIMER };

struct sim_event; /* owned by the engine; a handle for cancelling timers */

struct sim_event_attr {
	const char *name; /* "qp.ack_timeout"; string constant */
	enum sim_event_kind kind;
	uint64_t delay_ns;
	const void *order; /* see above; NULL: none */
	bool background;   /* does not count as an event that may still happen */
};
/* Posts an event: `step` is called with (object, arg). handle may be NULL. */
void sim_event_post(const struct sim_event_attr *attr, void (*step)(void *object, uint64_t arg),
		    void *object, uint64_t arg, struct sim_event **handle);
/* Cancels a posted event that has not run; true if it will not run. The handle is stale after the
 * event ran: its owner clears it in the step function. */
bool sim_event_cancel(struct sim_event *handle);
/* Cancels every pending event of the object. */
void sim_events_cancel_object(const void *object);
/* threads: number of events not yet run, of all OS threads; sim: 0 */
extern uint32_t sim_events_queued;
void sim_events_drain_queued(void);
static inline void sim_events_drain(void) /* sim: nothing to do */
{
	if (UNLIKELY(__atomic_load_n(&sim_events_queued, __ATOMIC_RELAXED) != 0))
		sim_events_drain_queued();
}

/* ---- virtual time --------------------------------------------------------------------------- */

/* Charges the running task; does nothing in event context. */
void sim_charge_ns(uint64_t ns);

/* A resource that is used serially: a link direction, a copy engine. */
struct sim_resource {
	const char *name;
	uint64_t mbps; /* 0: infinitely fast */
	/* the engine's, like the next two: size and duration of the latest use */
	uint64_t free_at_ns;
	uint64_t last_bytes, last_ns;
};
/* Books `bytes` on the resource after all earlier bookings. Returns the delay in ns from now until
 * the last byte has passed. Exploring strategies multiply the duration by a drawn factor. Returns 0
 * in `threads`. */
uint64_t sim_resource_use(struct sim_resource *r, uint64_t bytes);
/* Returns a latency of about `ns`: exact under fifo, otherwise with a drawn factor. 0 in
 * `threads`. */
uint64_t sim_latency(uint64_t ns);

/* ---- choices and randomness ----------------------------------------------------------------- */

/* Returns one of 0..n-1. An expression must not contain two draws: C does not order them. n == 1
 * draws nothing. */
uint32_t sim_choose(const char *site, uint32_t n);

/* Named streams with one owner each: a draw in one stream never shifts another. xoshiro256**. A
 * stream's start depends only on its name and the root seed (a constant under fifo). */
struct sim_rng {
	uint64_t s[4];
};
void sim_rng_init(struct sim_rng *r, const char *stream);
/* Does the same from a seed of the caller's; works outside any run too. */
void sim_rng_seed(struct sim_rng *r, uint64_t seed, const char *stream);
uint64_t sim_rng_u64(struct sim_rng *r);
uint64_t sim_rng_below(struct sim_rng *r, uint64_t n);
bool sim_rng_ratio(struct sim_rng *r, uint32_t num, uint32_t den);

/* ---- rare paths and probes ------------------------------------------------------------------ */

/* Returns why no run of the lab reaches a probe; NULL: some run does. */
const char *sim_probe_idle(const char *probe);
/* Sites of OS_BUGGIFY: all sites of the program, with this run's number of visits and of rare paths
 * taken. Only exploring runs of engine sim count them. Valid until the next sim_start. Sorted by
 * name, a test's own sites last. */
struct sim_buggify_stat {
	const char *name, *what;
	uint64_t visits, hits;
};
uint32_t sim_buggify_stats(const struct sim_buggify_stat **stats);
void sim_buggify_print_sites(FILE *out);

/* Sites of OS_PROBE: all sites of the program, with how often their condition held in this run.
 * Valid and sorted like sim_buggify_stats. */
struct sim_probe_stat {
	const char *name, *what;
	uint64_t hits;
};
uint32_t sim_probe_stats(const struct sim_probe_stat **stats);
void sim_probe_print_sites(FILE *out);

#endif
