/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters of the host's HCAs in the /sys that doppel verbs-run has made for this program: each
 * process of the fabric writes what has changed, COUNTERS_LIFESPAN_MS after it did at the latest,
 * and when it exits. Drivers keep values for as long, too (ib_core's `lifespan`).
 *
 * A tree may outlive a fabric, whose counters begin with 0. The tree's go on: it has a hidden file that holds
 * what they were by then. Where there is no tree of ours (verbs-run --bare), nothing is written.
 */
#ifndef BACKENDS_DROPIN_COUNTERS_H
#define BACKENDS_DROPIN_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

/* Beside `counters` and `hw_counters`; empty at first. */
#define COUNTERS_RECORD      ".counted"
#define COUNTERS_LIFESPAN_MS 10

#pragma GCC visibility push(hidden)

/* This process is a member of the fabric whose memory has that inode. True: it has a tree. */
bool counters_start(uint64_t fabric);
/* Writes what has changed; not before its time, unless `now`. Any thread. */
void counters_show(bool now);
/* After a fork, in the child. */
void counters_forget(void);

#pragma GCC visibility pop

#endif
