/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counting. What each message counts is kept in the queue pair, under its lock, because all of its
 * port would meet at one word; the port has what queue pairs that ended had counted. The rest is
 * rare, and counted at the port.
 */
#ifndef BACKENDS_FAKEVERBS_COUNTERS_H
#define BACKENDS_FAKEVERBS_COUNTERS_H

#include <stdbool.h>

#include "backends/hca_counters.h"

struct hca_qp;

#pragma GCC visibility push(hidden)

/* One more, of a port. */
void hca_count(uint32_t port, enum hca_counter counter);
/* The port of a queue pair that ends keeps what the queue pair counted. Under its lock. */
void hca_counters_end(struct hca_qp *qp);
/* The port's counts by now. False: a queue pair ended meanwhile, and may be in it twice, or not at
 * all. */
bool hca_counters_read(uint32_t port, uint64_t out[HCA_COUNTERS]);

#pragma GCC visibility pop

#endif
