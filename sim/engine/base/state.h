/* SPDX-License-Identifier: BSD-3-Clause */
/* Facts about the running engine that any code may read, and times. */
#ifndef SIM_ENGINE_BASE_STATE_H
#define SIM_ENGINE_BASE_STATE_H

#include "sim/engine/base/config.h"

bool sim_running(void);
enum sim_engine sim_engine_kind(void);
/* State that a double's data path reads inline instead of calling a function. Only the engine
 * writes it. */
struct sim_mode {
	bool plain;  /* see sim_is_plain */
	bool calm;   /* see sim_is_calm; may become false at any moment */
	bool faults; /* there is a plan, or visits of sites are counted */
	bool posts;  /* see sim_posts_matter */
	bool missed; /* see sim_misses_are_counted */
};
extern struct sim_mode sim_mode;

/* True under engine `threads` without fault plan, site figures or trace. No task then observes the
 * single steps of a double, only their results. */
static inline bool sim_is_plain(void)
{
	return sim_mode.plain;
}
/* True if besides sim_is_plain no task was killed and the run is not ending. sim_point and
 * sim_charge_ns then do nothing for a host task. */
static inline bool sim_is_calm(void)
{
	return __atomic_load_n(&sim_mode.calm, __ATOMIC_RELAXED);
}
/* True if os_event_post has an effect. Under `threads` it has one from the first os_event_seq on. A
 * task that reads a count examines the object afterwards, under the object's lock. A posting task
 * checks here after its change, under the same lock. Therefore either the reader sees the change or
 * the poster sees the reader. */
static inline bool sim_posts_matter(void)
{
	return __atomic_load_n(&sim_mode.posts, __ATOMIC_RELAXED);
}
/* True if os_poll_hit can end a row of misses. False under `threads`, where a miss only yields. */
static inline bool sim_misses_are_counted(void)
{
	return __atomic_load_n(&sim_mode.missed, __ATOMIC_RELAXED);
}
const char *sim_strategy_name(void); /* "portfolio:pct" once drawn */
uint64_t sim_switches(void);
uint64_t sim_steps(void); /* number of choices and events up to now: the current step number */
bool sim_under_debugger(void);
/* True if an output file of the run could not be written completely; explained on stderr. Valid
 * until the next sim_start. */
bool sim_output_lost(void);

uint64_t sim_now_ns(void);
/* Returns the wall clock's time at `at_ns` of sim_now_ns: ns since 1970. */
uint64_t sim_wall_ns(uint64_t at_ns);
/* Formats a return address for reports: "main+0x2a"; "?": unknown. Slow. */
void sim_call_site(const void *caller, char *out, size_t bytes);
void sim_format_ns(char out[32], uint64_t ns); /* "1.204ms" */

#endif
