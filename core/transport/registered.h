/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered buffers (ncclCommRegister), and their use between two processes of a host whose GPUs
 * NVLink joins: a message in SIMPLE goes straight into the receiver's buffer
 * (core/device/prims_mapped.h), and the results of a ring in SIMPLE into the next rank's output
 * (prims_result.h). Between ranks of one process all do (p2p.c).
 *
 * What may be registered to effect is memory of ncclMemAlloc: core keeps that until other ranks
 * have closed it.
 *
 *	receiver                                        sender
 *	a receive into a registered buffer, or a
 *	collective with results in one, is queued
 *	  OPEN: the memory's handle, the next
 *	  message's and the next collective's
 *	  number                              ------->  opens the memory at one of its next launches
 *	                                      <-------  OPENED: its address there, and from which
 *	                                                collective on its kernels take what is offered
 *	from that message and that collective           from that message on its kernels look
 *	on its kernels show where the buffer is,
 *	or 0: not known, or not registered
 *	no registration is left in the memory
 *	  CLOSE                               ------->  closes the memory at one of its next launches
 *	frees it, if the program has          <-------  CLOSED
 *
 * No rank waits for another one, nor for kernels: each takes what has come when it launches
 * messages (transport_registered_take), and closes and frees when its earlier launches are
 * complete. Until the sender has opened the memory, messages and results go through slots. A sender
 * may have launched collectives that the receiver offers a buffer for before it opens the memory:
 * their kernels do not look. Those that do find an offer, since it began earlier. A rank that has
 * registered nothing takes nothing, so both ranks register a buffer. The receiver holds the memory
 * from OPEN to CLOSED, or to the end of the communicator, when all ranks close what they have open
 * (p2p_end.c). At most REGISTERED_EXPORTS_MOST allocations are open to one rank, and one OPEN to it
 * has no answer: what is posted fits its queue.
 *
 * A launch that a CUDA graph has shows a buffer at each replay, so the graph keeps the memory open
 * until it ends, though the registration may end before it (core/plan/capture.h).
 *
 * Called by core/api and core/plan, on the main task of the rank. Errors: ncclInvalidArgument for a
 * handle that is none; ncclSystemError without memory; what bootstrap and CUDA return.
 */
#ifndef CORE_TRANSPORT_REGISTERED_H
#define CORE_TRANSPORT_REGISTERED_H

#include "core/rank/rank.h"

#define REGISTERED_EXPORTS_MOST 64

/* *handle: for transport_deregister; NULL: the registration has no effect, and is none. */
ncclResult_t transport_register(struct ncclComm *comm, void *buffer, size_t bytes, void **handle);
ncclResult_t transport_deregister(struct ncclComm *comm, const void *handle);

/* What that rank is to write into: the buffer of a receive, or the output of a collective. */
struct registered_recv {
	int32_t peer;
	void *buffer;
	size_t bytes;
};
/* Before a group's first launch: takes what other ranks have posted. May wait for kernels of
 * earlier groups. */
ncclResult_t transport_registered_take(struct ncclComm *comm);
/* The same, for each receive and output of the group: has its memory opened, if it is of use. From which message from that
 * rank on, and from which collective on (comm->op_count), the kernels show. */
ncclResult_t transport_registered_ask(struct ncclComm *comm, const struct registered_recv *r,
				      uint64_t message);
/* Where the sender's process has the buffer, and what it has open there, *of; 0 and NULL:
 * nowhere. */
struct registered_export;
uint64_t transport_registered_at(const struct ncclComm *comm, const struct registered_recv *r,
				 struct registered_export **of);
/* A graph launches with an address in that memory: until its release, which comes once for each
 * call, it is not closed. */
void transport_registered_keep(const struct ncclComm *comm, struct registered_export *e);
ncclResult_t transport_registered_release(struct ncclComm *comm, struct registered_export *e);
/* Does the receiver show where it wants message `number` from, or to, that rank? */
bool transport_registered_shown(const struct ncclComm *comm, int32_t peer, bool is_send,
				uint64_t number);
/* Of a collective's results: does this rank offer that one its output, with the address if there is
 * one, and does it take what that one offers? */
struct registered_results {
	bool offers, addressed, takes;
};
struct registered_results transport_registered_results(const struct ncclComm *comm, int32_t peer,
						       uint64_t op_count);

/* At the end, when no other rank has this one's memory open: drops all holds. */
void transport_registered_end(struct ncclComm *comm);

#endif
