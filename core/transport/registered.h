/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered buffers (ncclCommRegister), and their use: a message in SIMPLE between two processes of a host goes
 * straight into the receiver's buffer, if NVLink joins the two GPUs (core/device/prims_mapped.h). Between ranks of one
 * process every message does (p2p.c).
 *
 * What may be registered to effect is memory of ncclMemAlloc: core keeps that until other ranks have closed it.
 *
 *	receiver                                        sender
 *	a receive into a registered buffer is queued
 *	  OPEN: the memory's handle, the message's
 *	  number                              ------->  opens the memory at one of its next launches
 *	                                      <-------  OPENED: its address there
 *	from that message on its kernels show           from that message on its kernels look
 *	where the buffer is, once that is known
 *	no registration is left in the memory
 *	  CLOSE                               ------->  closes the memory at one of its next launches
 *	frees it, if the program has          <-------  CLOSED
 *
 * No rank waits for another one, nor for kernels: each takes what has come when it launches messages
 * (transport_registered_take), and closes and frees when its earlier launches are complete. Until the sender has opened
 * the memory, messages go through slots. A rank that has registered nothing takes nothing, so
 * both ranks of a message register a buffer. The receiver holds the memory from OPEN to CLOSED, or to the end of the
 * communicator, when all ranks close what they have open (p2p_end.c). At most REGISTERED_EXPORTS_MOST
 * allocations are open to one rank, and one OPEN to it has no answer: what is posted fits its queue.
 *
 * A launch that a CUDA graph has shows no buffer: the graph may live longer than the registration.
 *
 * Called by core/api and core/plan, on the main task of the rank. Errors: ncclInvalidArgument for a handle that is
 * none; ncclSystemError without memory; what bootstrap and CUDA return.
 */
#ifndef CORE_TRANSPORT_REGISTERED_H
#define CORE_TRANSPORT_REGISTERED_H

#include "core/rank/rank.h"

#define REGISTERED_EXPORTS_MOST 64

/* *handle: for transport_deregister; NULL: the registration has no effect, and is none. */
ncclResult_t transport_register(struct ncclComm *comm, void *buffer, size_t bytes, void **handle);
ncclResult_t transport_deregister(struct ncclComm *comm, const void *handle);

/* A receive: its buffer, and its number among the messages from that rank. */
struct registered_recv {
	int32_t peer;
	void *buffer;
	size_t bytes;
	uint64_t number;
};
/* Before a group's first launch: takes what other ranks have posted. May wait for kernels of earlier groups. */
ncclResult_t transport_registered_take(struct ncclComm *comm);
/* The same, for each receive of the group: has its memory opened, if it is of use. */
ncclResult_t transport_registered_ask(struct ncclComm *comm, const struct registered_recv *r);
/* Where the sender's process has the buffer; 0: nowhere. */
uint64_t transport_registered_at(const struct ncclComm *comm, const struct registered_recv *r);
/* Does the receiver show where it wants message `number` from, or to, that rank? */
bool transport_registered_shown(const struct ncclComm *comm, int32_t peer, bool is_send,
				uint64_t number);

/* At the end, when no other rank has this one's memory open: drops all holds. */
void transport_registered_end(struct ncclComm *comm);

#endif
