/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered buffers (ncclCommRegister), for two processes of a host whose GPUs NVLink joins. A
 * message in SIMPLE goes straight into the receiver's buffer (core/device/prims/prims_mapped.h),
 * and results of a ring in SIMPLE go into the next rank's output (prims_result.h). Between ranks of
 * one process this needs no registration (p2p.c).
 *
 * Only memory of ncclMemAlloc can be registered with effect: core keeps it until other ranks have
 * closed it.
 *
 *	receiver                                        sender
 *	a receive into a registered buffer, or a
 *	collective with results in one, is queued
 *	  OPEN: the memory's handle, the numbers
 *	  of the next message and of the next
 *	  collective                          ------->  opens the memory at one of its next launches
 *	                                      <-------  OPENED: its address there, and the first
 *	                                                collective whose kernels take an offer
 *	from that message and that collective           from that message on its kernels look for
 *	on its kernels show the buffer's address,       an address
 *	or 0: not known, or not registered
 *	no registration is left in the memory
 *	  CLOSE                               ------->  closes it at one of its next launches
 *	frees it, if the program has          <-------  CLOSED
 *
 * No rank waits for another rank or for kernels. Each takes messages that arrived when it launches
 * messages (transport_registered_take). It closes and frees when its earlier launches are complete.
 * Until the sender has opened the memory, messages and results go through slots. The receiver may
 * offer a buffer to collectives that the sender launched before it opened the memory; their kernels
 * do not look for it. Kernels that look find an offer, because offers began earlier. A rank that
 * has registered nothing takes no messages, so both ranks must register a buffer. The receiver
 * holds the memory from OPEN to CLOSED, or to the end of the communicator, when all ranks close the
 * memory that they opened (p2p_end.c). At most REGISTERED_EXPORTS_MOST allocations are open to one
 * rank, and one OPEN to a rank is unanswered at a time. Posted messages therefore fit the peer's
 * queue.
 *
 * A launch in a CUDA graph shows a buffer at each replay. The graph keeps the memory open until it
 * ends, even if the registration ends before (core/plan/capture.h).
 *
 * core/api and core/plan call these functions on the rank's main task. Errors: ncclInvalidArgument
 * for an invalid handle; ncclSystemError if there is no memory; errors of bootstrap and CUDA.
 */
#ifndef CORE_TRANSPORT_REGISTERED_H
#define CORE_TRANSPORT_REGISTERED_H

#include "core/rank/rank.h"

#define REGISTERED_EXPORTS_MOST 64

/* *handle: for transport_deregister. NULL: the registration has no effect, and nothing is
 * registered. */
ncclResult_t transport_register(struct ncclComm *comm, void *buffer, size_t bytes, void **handle);
ncclResult_t transport_deregister(struct ncclComm *comm, const void *handle);

/* Memory that `peer` is to write: the buffer of a receive, or the output of a collective. */
struct registered_recv {
	int32_t peer;
	void *buffer;
	size_t bytes;
};
/* Takes messages that other ranks have posted, before a group's first launch. May wait for kernels
 * of earlier groups. */
ncclResult_t transport_registered_take(struct ncclComm *comm);
/* Called before a group's first launch for each of its receives and outputs: lets the sender open
 * the memory, if it is of use. Kernels show it from `message` of that rank on, and from collective
 * comm->op_count on. */
ncclResult_t transport_registered_ask(struct ncclComm *comm, const struct registered_recv *r,
				      uint64_t message);
/* Returns the buffer's address in the sender's process, and sets *of to the memory open there. 0
 * and NULL: the sender has not opened it. */
struct registered_export;
uint64_t transport_registered_at(const struct ncclComm *comm, const struct registered_recv *r,
				 struct registered_export **of);
/* Keep: a graph launches with an address in that memory, so it is not closed before its release.
 * Each keep needs one release. */
void transport_registered_keep(const struct ncclComm *comm, struct registered_export *e);
ncclResult_t transport_registered_release(struct ncclComm *comm, struct registered_export *e);
/* True if the receiver shows the buffer of message `number` between this rank and `peer`. */
bool transport_registered_shown(const struct ncclComm *comm, int32_t peer, bool is_send,
				uint64_t number);
/* How this rank and `peer` handle results of a collective. offers: this rank offers its output;
 * addressed: with an address; takes: this rank takes the peer's offer. */
struct registered_results {
	bool offers, addressed, takes;
};
struct registered_results transport_registered_results(const struct ncclComm *comm, int32_t peer,
						       uint64_t op_count);

/* Drops all holds, at the end, when no other rank has memory of this one open. */
void transport_registered_end(struct ncclComm *comm);

#endif
