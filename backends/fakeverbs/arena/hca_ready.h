/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A descriptor that poll(2) and its kin report as readable while a queue of events is not empty:
 * ibv_comp_channel.fd and ibv_context.async_fd. The queue is elsewhere. Its owner calls these
 * functions under the queue's lock, so that descriptor and queue never disagree.
 *
 * The record lies in the world arena, beside its queue. The task that adds an event may be in
 * another thread, or in another process. Only this module knows how the descriptor is made
 * readable.
 *
 * Only engine `threads` has such descriptors. Under `sim` a poll(2) would stop the one thread that
 * runs everything, and its timeout would be real time. `fd` is -1 there: a program that polls fails
 * immediately (EBADF) and does not hang. Use ibv_get_cq_event or ibv_get_async_event to wait.
 *
 * Programs own the descriptor's flags (they set O_NONBLOCK and O_CLOEXEC). They must not read,
 * write or close it.
 */
#ifndef BACKENDS_FAKEVERBS_HCA_READY_H
#define BACKENDS_FAKEVERBS_HCA_READY_H

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

struct hca_ready {
	int32_t fd;  /* descriptor of the owner's process; -1: no descriptor */
	uint32_t on; /* true: it is readable */
};

/* Creates a descriptor that is not readable, or -1 under `sim`. EMFILE, ENFILE, ENOMEM. */
int hca_ready_make(struct hca_ready *r);
/* Makes the descriptor readable, after an event was added. An edge-triggered waiter sees an edge
 * for every call. */
void hca_ready_signal(struct hca_ready *r);
/* Makes the descriptor not readable, when the queue is empty. */
void hca_ready_clear(struct hca_ready *r);
/* Closes the descriptor. Ends every hca_ready_sleep as well. */
void hca_ready_close(struct hca_ready *r);
/* WAITS, in the kernel, until the descriptor is readable or closed: 0. EINTR: a signal handler
 * without SA_RESTART ran. A cancellation point, like the read(2) of rdma-core. */
int hca_ready_sleep(const struct hca_ready *r);
/* True if the program set O_NONBLOCK and expects EAGAIN instead of waiting. */
bool hca_ready_nonblocking(const struct hca_ready *r);

#pragma GCC visibility pop

#endif
