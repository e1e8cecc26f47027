/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The proxy: the CPU half of a network transfer. A process has one proxy for each GPU whose
 * communicators have network connections. A proxy has two tasks. Each task is a loop over explicit
 * state machines. A state machine is a struct with a named state, its wait, and a _step function;
 * the task, the simulator and gdb all use that function.
 *
 *   service   receives requests from the main tasks of ranks: set up, connect, prepare or close a
 *             connection. It steps each request until it is done. The answer is the request's
 *             message, filled in.
 *   progress  receives operations that core/plan appended and steps each. A send operation waits
 *             until the kernel has filled a slot, posts it, tests it and frees the slot. A receive
 *             operation posts a receive, tests it, flushes GPU memory, shows the slot to the
 *             kernel, and waits until the kernel has emptied it.
 *
 * A task makes one pass over the state machines of all communicators. If nothing moved, it waits on
 * all their waits together (os_wait). The first error of a connection is kept in the async_error of
 * its communicator. The kernel does not see it; ncclCommGetAsyncError returns it. ncclCommAbort
 * ends the rest of that communicator; other communicators continue.
 *
 * Communicators share the time of the two tasks. Each communicator has its own slots for
 * operations, so a stalled one does not keep another from appending. Neither task makes a call that
 * may wait for kernels: kernels of a rank that shares this proxy, or sends through it (relay.h),
 * may wait for the task. Therefore the main task allocates and frees the memory of its connections.
 *
 * Requests and operations cross between tasks in lock-free lists of shared words (weak
 * compare-and-swap, retried by its result).
 */
#ifndef CORE_PROXY_PROXY_H
#define CORE_PROXY_PROXY_H

#include "core/profiler/profiler.h"
#include "core/transport/transport.h"

/* One collective on one connection, for the progress task. core/plan appends one for each channel
 * and direction that uses a network connection. */
struct proxy_op {
	struct proxy_port *conn;
	uint64_t op_count;
	/* index of the message among those that the rank's launch moves; all parts of a
	 * message have the same index */
	uint64_t message;
	uint64_t nsteps;      /* number of steps in all, a multiple of slice_steps */
	uint32_t slice_steps; /* number of steps that are posted together */
	uint32_t chunk_steps; /* the first step is rounded up to a multiple of this */
	uint8_t protocol;     /* enum dev_proto */
	uint8_t type, op;     /* ncclDataType_t and ncclRedOp_t, for a network that reduces */
	struct profiler_op profile;
};

/* Connects ranks of different hosts, and ranks whose GPUs cannot reach each other. */
extern const struct transport transport_net;

/*
 * Requests to the service task. transport_net calls these functions on the main task.
 *
 * proxy_setup creates c->proxy and waits for the answer, which needs no other rank. The first one
 * of a communicator attaches the communicator to the proxy of its GPU.
 *
 * proxy_connect sends the request at the first call. It returns ncclInProgress, with *w set, until
 * the answer exists. It never blocks, because the other ends connect in their own order.
 *
 * proxy_close waits until progress has dropped or finished the connection's operations and all its
 * resources are released. It also accepts a connection that setup or connect left incomplete.
 */
ncclResult_t proxy_setup(struct conn *c, struct connect_info *mine);
ncclResult_t proxy_connect(struct conn *c, const struct connect_info *theirs, struct wait *w);
void proxy_close(struct conn *c);

/* Computes, for each other rank, the NIC by which messages leave and the rank of the host that they
 * go through (relay_route.c). */
ncclResult_t proxy_routes_make(struct ncclComm *comm, const struct topo_rank_info *all);
/* PXN: returns the ranks of this host that this rank's rings and trees send through. Bit i stands
 * for local rank i. */
uint64_t proxy_relays_wanted(const struct ncclComm *comm);
/* Makes the areas and boards that ranks of a host share for PXN, before the first connection.
 * wanted[rank] is the set that each rank announced. All ranks of the communicator call it
 * together. */
ncclResult_t proxy_relays_open(struct ncclComm *comm, const uint64_t *wanted);
/* Returns ncclRemoteError if a connection of this rank through a relay has failed; logs that unless
 * the communicator has an error. Must precede proxy_stop. */
ncclResult_t proxy_relays_error(const struct ncclComm *comm);
/* Writes the network's first failure of this rank into the areas of its relays. The caller holds
 * `watch`. */
void proxy_relays_give_up(struct ncclComm *comm);
/* Waits until the relays have sent all operations of this rank. For a rank that ends in order. */
void proxy_relays_drain(struct ncclComm *comm);
/* Releases the users of this rank from waiting for it. For a rank that leaves early. */
void proxy_relays_stop_sending(struct ncclComm *comm);

/* Releases the communicator's part of the proxy. All its connections must be closed. For the last
 * communicator of the GPU, ends and joins the tasks. */
void proxy_stop(struct ncclComm *comm);

/* Appends n operations, all or none, and wakes progress. WAITS if the communicator has no free
 * slots. n is at most PROXY_MAX_APPEND; the operations of one launch are appended together. */
#define PROXY_MAX_APPEND 1024
ncclResult_t proxy_append(struct ncclComm *comm, const struct proxy_op *ops, int n);

/* ---- reports -------------------------------------------------------------------------------- */

#define PROXY_REPORT_WAITS 4
/* An operation on a connection that has begun, and its waits in the progress task's last pass. The
 * counts are those of struct proxy_run. */
struct proxy_report_op {
	uint64_t comm; /* hash of the communicator */
	int32_t rank, peer, channel;
	bool is_send, failed;
	uint8_t protocol; /* enum dev_proto */
	uint64_t op_count, nsteps;
	uint64_t posted, received, flushed, transmitted, done;
	uint64_t began_ns; /* 0: it has not begun */
	uint32_t queued;   /* operations of the connection that wait for it */
	uint32_t nwaits;
	struct {
		const char *why;
		struct wait_from from;
	} wait[PROXY_REPORT_WAITS];
};
/* Calls each(arg, op) for every connection with operations of the process' proxies. WAITS for the
 * progress tasks, which answer between two passes, until the deadline or until *stop is not 0.
 * Returns the number of progress tasks that gave no answer. *cut: operations that are not
 * reported, because there are too many. */
int proxy_report(void (*each)(void *arg, const struct proxy_report_op *op), void *arg,
		 uint64_t deadline_ns, const shared_u32 *stop, uint32_t *cut);

#endif
