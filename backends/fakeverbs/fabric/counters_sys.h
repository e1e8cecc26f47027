/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes the counters of the host's HCAs into the /sys tree that doppel verbs-run made for this
 * program. Each process of the fabric writes changed counters within COUNTERS_LIFESPAN_MS, and when
 * it exits. Drivers cache values for the same time (ib_core's `lifespan`).
 *
 * A tree may outlive a fabric. The counters of a new fabric begin with 0, but those of the tree
 * continue: a hidden file of the tree holds the values that earlier fabrics reached. Writes nothing
 * if the program has no such tree (verbs-run --bare).
 */
#ifndef BACKENDS_FAKEVERBS_COUNTERS_SYS_H
#define BACKENDS_FAKEVERBS_COUNTERS_SYS_H

#include <stdbool.h>
#include <stdint.h>

/* Hidden file next to `counters` and `hw_counters`; empty at first. */
#define COUNTERS_RECORD      ".counted"
#define COUNTERS_LIFESPAN_MS 10

#pragma GCC visibility push(hidden)

/* Starts counting for the fabric whose memory has the inode `fabric`. Returns true if this process
 * has a tree. */
bool counters_start(uint64_t fabric);
/* Writes the counters that changed. Does nothing before the next pass is due, unless `now`. Any
 * thread may call it. */
void counters_show(bool now);
/* Resets the state in the child after a fork. */
void counters_forget(void);

#pragma GCC visibility pop

#endif
