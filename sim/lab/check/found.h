/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a run failed, as its folder records it, and how two such records compare. The record is
 * struct sim_failure, all of it: the keys `found...` of a config. Shrinking, replay and the second
 * run of a sweep compare by found_compare() alone, so what is not recorded cannot be compared.
 */
#ifndef SIM_LAB_FOUND_H
#define SIM_LAB_FOUND_H

#include "sim/engine/sim.h"

enum found_match {
	FOUND_OTHER,    /* another failure, or none */
	FOUND_SAME_WAY, /* the same outcome and kind; of a crash or an error the same message too */
	FOUND_SAME,     /* the same run: rank, message, step and hash as well */
};

/* Messages are compared without their numbers: another world has other ranks, sizes and addresses.
 * A deadlock with a keep-alive timer in it is a livelock: the two are one kind. */
enum found_match found_compare(const struct sim_failure *recorded, const struct sim_failure *now);

/* Makes it the record of a run that was given up after so much time. */
void found_hung(struct sim_failure *f, uint64_t limit_ns);
bool found_is_hung(const struct sim_failure *f);

#endif
