/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The proxy: the CPU half of a network transfer. Two tasks a communicator and rank, each a loop
 * over explicit state machines (a struct with a named state, its wait, and a _step function that
 * the task, the simulator and gdb all use):
 *
 *   service   takes requests from the rank's main task (set up, connect, close a net connection)
 *             and steps each until it is done; answers through the request itself;
 *   progress  takes operations that core/plan appended and steps each: a send op waits for the
 *             kernel to fill a slot, posts it, tests it, gives the slot back; a recv op posts a
 *             receive, tests it, flushes GPU memory, shows the slot to the kernel, waits until it
 *             is empty.
 *
 * The tasks make one pass over everything and, if nothing moved, wait on all waits at once
 * (os_wait). The first error of any state machine is kept in comm->async_error, which the kernel
 * does not see: ncclCommGetAsyncError does, and ncclCommAbort ends the rest.
 *
 * Operations cross from the main task to progress through a pool of proxy_op slots in a lock-free
 * list of shared words (weak compare-and-swap, retried by its result).
 */
#ifndef CORE_PROXY_PROXY_H
#define CORE_PROXY_PROXY_H

#include "core/transport/transport.h"

/* One collective on one connection, for the progress task. Appended by core/plan per channel and
 * direction that goes through a net connection. */
struct proxy_op {
	struct proxy_conn *conn;
	uint64_t op_count;
	uint64_t nsteps;      /* steps in all, a multiple of slice_steps */
	uint32_t slice_steps; /* steps posted together */
	uint32_t chunk_steps; /* the first step is rounded up to this */
	uint8_t protocol;     /* enum dev_proto */
};

/* Ranks of different hosts, or whose GPUs cannot reach each other. */
extern const struct transport transport_net;

/* Makes the proxy; its tasks start with the first proxy_setup. */
ncclResult_t proxy_start(struct ncclComm *comm);
/* Ends the tasks and joins them. Outstanding operations are finished first, unless the comm's
 * abort word is set. */
ncclResult_t proxy_stop(struct ncclComm *comm);

/* Requests to the service task, called by transport_net on the main task.
 * setup    makes c->proxy and waits for the answer (abortable).
 * connect  asks at the first call and is ncclInProgress until the answer is there, with *w on it;
 *          never blocks, because the other ends connect in their own order.
 * close    waits until progress dropped or finished the connection's operations and everything is
 *          released; works without the tasks too, and for what setup or connect left half made. */
ncclResult_t proxy_setup(struct conn *c, struct connect_info *mine);
ncclResult_t proxy_connect(struct conn *c, const struct connect_info *theirs, struct wait *w);
void proxy_close(struct conn *c);

/* Appends operations and wakes progress; all or nothing. WAITS when the pool is empty. n is at most
 * PROXY_MAX_APPEND: operations that one launch needs are in the pool together. */
#define PROXY_MAX_APPEND 1024
ncclResult_t proxy_append(struct ncclComm *comm, const struct proxy_op *ops, int n);

#endif
