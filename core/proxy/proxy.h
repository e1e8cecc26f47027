/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The proxy: the CPU half of a network transfer. A process has one for each GPU that its
 * communicators have network connections of, with two tasks. Each task is a loop over explicit
 * state machines (a struct with a named state, its wait, and a _step function that the task, the
 * simulator and gdb all use):
 *
 *   service   takes requests from the main tasks of ranks (set up, connect, prepare, close a connection) and
 *             steps each until it is done; the answer is the request's message, filled in;
 *   progress  takes operations that core/plan appended and steps each: a send op waits for the
 *             kernel to fill a slot, posts it, tests it, gives the slot back; a recv op posts a
 *             receive, tests it, flushes GPU memory, shows the slot to the kernel, waits until it
 *             is empty.
 *
 * A task makes one pass over the state machines of all communicators and, if nothing moved, waits
 * on all their waits together (os_wait). The first error of a connection is kept in the async_error
 * of its communicator; the kernel does not see it, ncclCommGetAsyncError returns it, and
 * ncclCommAbort ends the rest of that communicator. The others go on.
 *
 * What communicators share is time. Each has slots of its own for operations, so that one which
 * does not move does not keep another from appending. Neither task makes a call that may wait for
 * kernels: a rank whose kernels wait for it, or which sends through this one (relay.h), may wait
 * for the task. The main task allocates and frees the memory of its connections.
 *
 * Requests and operations cross between tasks in lock-free lists of shared words (weak
 * compare-and-swap, retried by its result).
 */
#ifndef CORE_PROXY_PROXY_H
#define CORE_PROXY_PROXY_H

#include "core/transport/transport.h"

/* One collective on one connection, for the progress task. Appended by core/plan per channel and
 * direction that goes through a net connection. */
struct proxy_op {
	struct proxy_port *conn;
	uint64_t op_count;
	uint64_t
		message; /* of those that the rank's launch moves, in order; parts of one have the same */
	uint64_t nsteps;      /* steps in all, a multiple of slice_steps */
	uint32_t slice_steps; /* steps posted together */
	uint32_t chunk_steps; /* the first step is rounded up to this */
	uint8_t protocol;     /* enum dev_proto */
};

/* Ranks of different hosts, or whose GPUs cannot reach each other. */
extern const struct transport transport_net;

/* Requests to the service task, called by transport_net on the main task.
 * setup    makes c->proxy and waits for the answer, which needs no other rank. The communicator's
 *          first one gives it its part of the GPU's proxy.
 * connect  sends the request at the first call and is ncclInProgress until the answer is there, with
 *          *w on it; never blocks, because the other ends connect in their own order.
 * close    waits until progress dropped or finished the connection's operations and everything is
 *          released; for what setup or connect left half made, too. */
ncclResult_t proxy_setup(struct conn *c, struct connect_info *mine);
ncclResult_t proxy_connect(struct conn *c, const struct connect_info *theirs, struct wait *w);
void proxy_close(struct conn *c);

/* By which NIC, and through which rank of the host, messages to each other rank leave
 * (relay_route.c). */
ncclResult_t proxy_routes_make(struct ncclComm *comm, const struct topo_rank_info *all);
/* PXN: which of its host's ranks this rank's rings, trees and messages send through, a bit for each
 * local rank. */
uint64_t proxy_relays_wanted(const struct ncclComm *comm);
/* Makes what ranks share for that, before the first connection; wanted[rank] is what each rank
 * announced. All ranks of the communicator call it together. */
ncclResult_t proxy_relays_open(struct ncclComm *comm, const uint64_t *wanted);
/* ncclRemoteError: a connection that this rank has through another one failed. Before
 * proxy_stop. */
ncclResult_t proxy_relays_error(const struct ncclComm *comm);
/* Leaves at the ranks that this one sends through what its connections failed by, if they did.
 * Under `watch`. */
void proxy_relays_give_up(struct ncclComm *comm);
/* Waits until relays have sent what this rank has left with them, for a rank that ends in order. */
void proxy_relays_drain(struct ncclComm *comm);
/* For a rank that leaves early: the ranks that send through it do not wait. */
void proxy_relays_stop_sending(struct ncclComm *comm);

/* Releases the communicator's part, all of whose connections are closed. The last communicator of
 * the GPU ends the tasks and joins them. */
void proxy_stop(struct ncclComm *comm);

/* Appends operations and wakes progress; all or nothing. WAITS when the communicator has no free
 * slots. n is at most PROXY_MAX_APPEND: operations that one launch needs are appended together. */
#define PROXY_MAX_APPEND 1024
ncclResult_t proxy_append(struct ncclComm *comm, const struct proxy_op *ops, int n);

#endif
