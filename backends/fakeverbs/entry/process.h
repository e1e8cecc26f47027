/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of processes, and what processes of one machine do to each other's objects (arena/far.h).
 * Called by the world and by backends/dropin.
 */
#ifndef BACKENDS_FAKEVERBS_PROCESS_H
#define BACKENDS_FAKEVERBS_PROCESS_H

#include <stdint.h>

#include "backends/fakeverbs/objects/objects.h"

#pragma GCC visibility push(hidden)

/* What a dead process had is gone. No two of these at a time. */
void hca_far_reap(uint32_t member);
/* What is still open under a context that closes is gone. */
void hca_far_close(struct hca_context *c, uint64_t caller);
/* Another process rang: wakes the tasks that wait for what has changed. */
void hca_far_rung(void);
/* No process rang for a while: wakes the tasks for which a process was about to ring when it
 * died. */
void hca_far_unrung(void);

/* For a program that made no world itself: `start` makes one at the first call that needs one; 0 or
 * an errno. Set once, at load. */
void hca_on_first_call(int (*start)(void));
/* In the child of a fork: there are no HCAs, whatever the parent had. */
void hca_forget(void);

#pragma GCC visibility pop

#endif
