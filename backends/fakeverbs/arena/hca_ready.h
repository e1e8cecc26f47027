/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A descriptor that poll(2) and its kin find readable as long as a queue of events is not empty:
 * ibv_comp_channel.fd and ibv_context.async_fd. The queue itself is elsewhere; its owner calls
 * these under the queue's lock, so that descriptor and queue never disagree.
 *
 * The record lies in the world arena, beside its queue: the task that adds an event may be in
 * another thread, and later another process. How it wakes the descriptor is this module's business
 * alone.
 *
 * Only engine `threads` has such descriptors. Under `sim` a poll(2) would stop the one thread that
 * everything runs on, and its timeout would be real time: `fd` is -1 there, so that a program that
 * polls fails immediately (EBADF) and does not hang; wait in ibv_get_cq_event or
 * ibv_get_async_event.
 *
 * Programs own the descriptor's flags (they set O_NONBLOCK and O_CLOEXEC); they must not read,
 * write or close it.
 */
#ifndef BACKENDS_FAKEVERBS_HCA_READY_H
#define BACKENDS_FAKEVERBS_HCA_READY_H

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

struct hca_ready {
	int32_t fd;  /* the owner's; -1: none */
	uint32_t on; /* it is readable */
};

/* A descriptor that is not readable, or -1 under `sim`. EMFILE, ENFILE, ENOMEM. */
int hca_ready_make(struct hca_ready *r);
/* An event more is in the queue: readable; an edge-triggered waiter sees an edge for every call. */
void hca_ready_signal(struct hca_ready *r);
/* The queue is empty. */
void hca_ready_clear(struct hca_ready *r);
/* Ends every sleep of hca_ready_sleep as well. */
void hca_ready_close(struct hca_ready *r);
/* WAITS, in the kernel, until the descriptor is readable or closed: 0. EINTR: a signal handler that
 * was installed without SA_RESTART ran. A cancellation point, as the read(2) of rdma-core is. */
int hca_ready_sleep(const struct hca_ready *r);
/* Does the program want EAGAIN instead of waiting? */
bool hca_ready_nonblocking(const struct hca_ready *r);

#pragma GCC visibility pop

#endif
