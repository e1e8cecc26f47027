/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters. The queue pair, under its lock, counts the events of every message: one word per port
 * would be contended. The port keeps the counts of queue pairs that have ended. Rare events are
 * counted at the port.
 */
#ifndef BACKENDS_FAKEVERBS_COUNTERS_H
#define BACKENDS_FAKEVERBS_COUNTERS_H

#include <stdbool.h>

#include "backends/hca_counters.h"

struct hca_qp;

#pragma GCC visibility push(hidden)

/* Adds 1 to a counter of a port. */
void hca_count(uint32_t port, enum hca_counter counter);
/* Adds the counts of an ending queue pair to its port. Under the queue pair's lock. */
void hca_counters_end(struct hca_qp *qp);
/* Reads the port's counts. False: a queue pair ended meanwhile, and its counts may be included
 * twice or not at all. */
bool hca_counters_read(uint32_t port, uint64_t out[HCA_COUNTERS]);

#pragma GCC visibility pop

#endif
