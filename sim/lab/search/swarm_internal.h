/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the files of the default swarm: swarm.c (what other draws depend on),
 * swarm_settings.c (variables, a row each), swarm_plugins.c (plugins), swarm_world.c (hosts and
 * ranks), swarm_focus.c (settings that are drawn to fit each other), swarm_faults.c (plans of
 * faults), swarm_rails.c (worlds with failover). Called by scenario_swarm alone; each function
 * changes the scenario that it is given.
 */
#ifndef SIM_LAB_SWARM_INTERNAL_H
#define SIM_LAB_SWARM_INTERNAL_H

#include "core/base/macros.h"
#include "sim/lab/check/collective.h"
#include "sim/lab/search/scenario.h"

/* Without progress, virtual time: an HCA that is out of retries reports it within a minute. */
#define SWARM_BUDGET_NS          300000000000ull
#define SWARM_BUDGET_EVENTS_MANY 20000000ull /* the inits of many hosts */

uint64_t swarm_one_of(struct sim_rng *rng, const uint64_t *values, size_t n);
__attribute__((format(printf, 2, 3))) void swarm_env(struct scenario *s, const char *fmt, ...);
/* Is there a variable whose text begins so? */
bool swarm_is_set(const struct scenario *s, const char *name);
/* Are the hosts connected by sockets? */
bool swarm_has_sockets(const struct scenario *s);

/* May blocks of a kernel wait until others have ended? Channels of a ring are independent. Messages
 * need all blocks at the same time: parts of a message are received together, and ranks cut their
 * rounds into launches at different places, so that a block waits for a launch that is after a
 * kernel of which another block has not started. */
bool swarm_blocks_may_wait(const struct lab_config *c);

void swarm_worlds(struct scenario *s, uint64_t seed);
/* Draws interfaces and a list of their names, NCCL_SOCKET_IFNAME. */
void swarm_named_interfaces(struct scenario *s, uint64_t seed);
/* Takes another machine where other draws want more GPUs of a host than it has. */
void swarm_world_fits(struct scenario *s);
/* Checks that the parts of a scenario fit each other: to be called after all draws. */
void swarm_check(const struct scenario *s);
bool swarm_has_messages(const struct scenario *s);
void swarm_focus(struct scenario *s, uint64_t seed);
/* Doubling needs a power of two of ranks: no communicators of some of them, of survivors or of
 * another number. */
void swarm_doubling_fits(struct scenario *s);
/* Variables that are drawn one by one (swarm_settings.c). */
void swarm_settings(struct scenario *s, uint64_t seed);
void swarm_local_register(struct scenario *s, uint64_t seed);
/* To be called when all other draws of registered buffers are made. */
void swarm_windows(struct scenario *s, uint64_t seed);
void swarm_detection(struct scenario *s, uint64_t seed, bool small);
/* Takes fewer sockets for each connection where a process has no descriptors for that many: to be
 * called after all else. */
void swarm_descriptors_fit(struct scenario *s);
/* Draws settings of processes that contradict each other: to be called after all else. */
void swarm_contradiction(struct scenario *s, uint64_t seed, bool always);
/* Draws plugins of the lab's own: to be called after all else. */
void swarm_plugins(struct scenario *s, uint64_t seed);
/* Draws the personality of HCAs: to be called when the plan of faults is drawn. */
void swarm_hcas(struct scenario *s, uint64_t seed);
void swarm_messages(struct scenario *s, uint64_t seed);
/* Draws what programs do beside one series: other calls in groups, other tasks, other configs and
 * environments. */
void swarm_programs(struct scenario *s, uint64_t seed);
/* Draws families that inherit a network from the program's config: to be called after all draws of
 * programs and plugins. */
void swarm_config_sockets(struct scenario *s, uint64_t seed);
/* Draws series in CUDA graphs, one seed in 8: to be called after all draws that these depend on. */
void swarm_graphs(struct scenario *s, uint64_t seed);
/* Draws what depends on the plan of faults: to be called when that is drawn. */
void swarm_programs_after(struct scenario *s, uint64_t seed);
/* Do faults of this seed end something early, a call or a rank, while ranks connect or first work?
 * A third of the worlds of these seeds, *segments, have no P2P: ranks share segments, which outlive
 * a rank that dies. */
bool swarm_is_early(uint64_t seed, bool *segments);
/* Is the world small? One call that fails needs no large one: three in four of those, and the same
 * seeds without faults. */
bool swarm_is_small(uint64_t seed, enum scenario_faults faults);
/* Draws of a small world (swarm_world.c), in place of or after those of others. */
enum side_kind { SIDE_CALL, SIDE_CONTRADICTION, SIDE_GROUPS, SIDE_FAMILY, SIDE_LIFE, SIDE_SCENES };
enum side_kind swarm_side_kind(uint64_t seed);
void swarm_side_groups(struct scenario *s, uint64_t seed);
void swarm_side_family(struct scenario *s, uint64_t seed);
/* After all other draws of programs. */
void swarm_side_scenes(struct scenario *s, uint64_t seed);
void swarm_side_life(struct scenario *s, uint64_t seed);
void swarm_side_world(struct scenario *s, uint64_t seed);
void swarm_side_program(struct scenario *s, uint64_t seed);
void swarm_side_ends(struct scenario *s, uint64_t seed);
void swarm_faults(struct scenario *s, uint64_t seed, enum scenario_faults faults);
/* Is the seed a world of merged NICs with failover? Draws all of it, in place of other draws. */
bool swarm_has_rails(uint64_t seed, enum scenario_faults faults);
void swarm_rails(struct scenario *s, uint64_t seed, enum scenario_faults faults);

#endif
