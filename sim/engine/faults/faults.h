/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Faults of a run. os_fault of core/os/os.h is the interface of a site here too; a double that
 * knows its place more exactly than the object's label and the task do passes the place.
 */
#ifndef SIM_ENGINE_FAULTS_FAULTS_H
#define SIM_ENGINE_FAULTS_FAULTS_H

#include <stdio.h>

#include "sim/engine/base/state.h"

#define SIM_FAULT_ACTIONS 7 /* at most, of one site */
struct sim_fault_place {
	int32_t host, port, peer_host, peer_port, state; /* a port is a port of its host */
	int64_t step;
	const char *nic, *peer_nic; /* names of the NICs */
};
#define SIM_FAULT_NOWHERE                                                                          \
	{                                                                                          \
		-1, -1, -1, -1, -1, -1, NULL, NULL                                                 \
	}
/* Does what os_fault does. `at` may be NULL; -1 or NULL in a field means unknown. */
bool sim_fault_armed(const char *site, const void *object, const struct sim_fault_place *at,
		     struct os_fault *f);
static inline bool sim_fault(const char *site, const void *object, const struct sim_fault_place *at,
			     struct os_fault *f)
{
	return UNLIKELY(sim_mode.faults) && sim_fault_armed(site, object, at, f);
}

/* Heals all faults for the rest of this run: no fault fires, links return, clogs open. It calls the
 * hooks of sim_on_heal, which are registered once at load, at most 4. In a plan: "heal
 * after=TIME". */
void sim_faults_heal(void);
bool sim_faults_healed(void);
/* Virtual time at which the faults heal by themselves; UINT64_MAX: never. */
uint64_t sim_faults_heal_at_ns(void);
void sim_on_heal(void (*hook)(void));

/* Prints the known fault sites. */
void sim_fault_print_sites(FILE *out);
void sim_fault_print_sites_json(FILE *out);
/* Prints the plan of this run, or of the last one, and how often each fault matched and fired. The
 * lines are a valid plan without their prefix "fault ". */
void sim_fault_print_plan(FILE *out);
/* Prints one line with file and line number for each fault of that plan that never fired. */
void sim_fault_print_unfired(FILE *out);
/* Draws a plan from `seed` for a world of that size. Returns text that the caller frees; it has no
 * heal line. Needs no running engine. NULL: out of memory. */
char *sim_fault_draw(uint64_t seed, uint32_t hosts, uint32_t ranks);
/* Draws a plan of one line that ends a call or a rank while ranks connect or begin to work. */
char *sim_fault_draw_early(uint64_t seed, uint32_t hosts, uint32_t ranks);
/* Draws a plan of one line: the nth call of its layer on a rank fails, whichever call that is. */
char *sim_fault_draw_any(uint64_t seed, uint32_t hosts, uint32_t ranks);
/* Draws a plan of one line: the calls of one caller on a rank fail, once or from then on. */
char *sim_fault_draw_caller(uint64_t seed, uint32_t hosts, uint32_t ranks);
/* Draws a plan of faults that every call survives: lost connections, losses within the retries,
 * delays. */
char *sim_fault_draw_survivable(uint64_t seed, uint32_t hosts, uint32_t ranks);
/* Returns why no run of the lab reaches a site; NULL: some run does. */
const char *sim_fault_idle(const char *site);
uint64_t sim_faults_fired(void);
/* Visits of sites that matched a line of the plan, whether or not its fault fired. */
uint64_t sim_faults_matched(void);
/* Number of lines of the plan that never fired. */
uint32_t sim_faults_unfired(void);
/* Notes that the program's number-th operation of a communicator begins: the plan's
 * after=collective counts from here. */
void sim_faults_operation(uint64_t number);
/* True if a fault fired at the rank, at an unknown rank, or at all ranks. */
bool sim_fault_hit_rank(int32_t rank);
/* True if a fault fired in a task of the process. */
bool sim_fault_hit_proc(const struct os_proc *proc);
/* Declares that a fault that fired hits other ranks than the one at its place: a device that ends
 * for all its users. */
void sim_fault_hits_all(void);
/* Declares that the harness ends something at a moment of its choosing, as ncclCommAbort from
 * another task does. The run then counts as a run after a fault. */
void sim_expect_errors(void);
bool sim_expects_errors(void); /* True if a fault fired or the harness called sim_expect_errors. */
bool sim_faults_armed(void);   /* True if there is a plan: os_fault may return true. */
/* Returns the i-th site and the names of its actions, then NULL; false: there are fewer sites. */
bool sim_fault_site_at(uint32_t i, const char **site, const char *action[SIM_FAULT_ACTIONS]);

/* Calls that the plan made fail (action `fail`), in the order in which they failed: the first few
 * of this run or the last one. Recorded under `sim`, if a task made the call. */
#define SIM_FAILED_CALLS 8
uint32_t sim_failed_calls(void);
/* Returns the site of the i-th failed call. *rank: the rank at its place, -1: not known. */
const char *sim_failed_call(uint32_t i, int32_t *rank);
/* Names the k-th function that led to the i-th failed call, innermost first, static ones included.
 * False: there are fewer. Slow: for the end of a run. */
bool sim_failed_call_function(uint32_t i, uint32_t k, char *name, size_t bytes);

/* Returns visits and fires of a fault site, in the current run or the last one. Counted with a plan
 * or config.fault_stats. False: no such index. */
struct sim_fault_stat {
	const char *site;
	uint64_t visits, fires;
};
bool sim_fault_stat(uint32_t index, struct sim_fault_stat *stat);

#endif
