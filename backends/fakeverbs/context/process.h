/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of processes, and changes to objects by other processes of the machine
 * (arena/members.h). The world and dropin/ibverbs call these functions.
 */
#ifndef BACKENDS_FAKEVERBS_PROCESS_H
#define BACKENDS_FAKEVERBS_PROCESS_H

#include <stdint.h>

#include "backends/fakeverbs/objects/objects.h"

#pragma GCC visibility push(hidden)

/* Frees everything that a dead process had. Calls must not overlap. */
void hca_member_reap(uint32_t member);
/* Destroys the objects that are still open under a context that closes. */
void hca_context_close_objects(struct hca_context *c, uint64_t caller);
/* Wakes the tasks that wait for objects which another process changed and notified. */
void hca_member_notified(void);
/* Called after no notification arrived for a while. Repairs CQ locks that a process held when it
 * died before notifying, and wakes the tasks that wait for its events. */
void hca_member_silent(void);

/* For a program that created no world itself. `start` creates one at the first call that needs it;
 * 0 or an errno. Set once, at load. */
void hca_on_first_call(int (*start)(void));
/* In the child of a fork: forgets all HCAs of the parent. */
void hca_forget(void);

#pragma GCC visibility pop

#endif
