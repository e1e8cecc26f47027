/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by registered_ranges.c (the program's ranges, use by plans), registered_peer.c (the
 * exchange with other ranks), and windows.c (windows, whose buffers are registered).
 */
#ifndef CORE_TRANSPORT_REGISTERED_REGISTERED_INTERNAL_H
#define CORE_TRANSPORT_REGISTERED_REGISTERED_INTERNAL_H

#include "core/mem/user_memory.h"
#include "core/transport/registered.h"
#include "core/transport/transport_internal.h"

/* Most groups between two looks for messages. A look is a system call for each rank, and messages
 * use slots until an answer is taken. */
#define REGISTERED_PAUSE_MOST 64u

/* A range that the program registered `count` times. Its address is the handle. */
struct registered_range {
	struct registered_range *next;
	const uint8_t *at;
	size_t bytes;
	uint32_t count;
	struct user_memory *memory; /* held */
};

/* States of an export:
 *
 *	POSTED --OPENED--> OPEN --CLOSE--> CLOSING --CLOSED--> OVER --no kernel runs--> (freed)
 *	   |                                  ^
 *	   +--no range left--> UNWANTED --OPENED, CLOSE
 */
enum registered_state {
	REGISTERED_POSTED,   /* OPEN is posted */
	REGISTERED_OPEN,     /* the peer has it at address `theirs` */
	REGISTERED_UNWANTED, /* OPEN is posted; when the peer has opened it, it must close it */
	REGISTERED_CLOSING,  /* CLOSE is posted */
	REGISTERED_OVER,     /* the peer has closed it */
};

/* Memory of this rank that another rank may open. */
struct registered_export {
	struct registered_export *next;
	int32_t peer;
	uint32_t number; /* counts this rank's exports: 1, 2... */
	enum registered_state state;
	uint64_t theirs;
	uint32_t graphs;            /* captures of CUDA graphs that have its address */
	struct user_memory *memory; /* held */
};

/* Memory of another rank that this rank opened. */
struct registered_import {
	struct registered_import *next;
	int32_t peer;
	uint32_t number;  /* the peer's number for it */
	bool closing;     /* the peer has posted CLOSE */
	uint32_t windows; /* windows of this rank that have it open; it is not closed before */
	void *mem;
};

/* First numbers that use registered memory; UINT64_MAX: none. Messages: the receiver shows its
 * buffer. Collectives: this rank offers its output, the peer takes it, this rank takes the peer's
 * offer. */
struct registered_peer {
	uint64_t recv_from, send_from;
	uint64_t offers_from, taken_from, takes_from;
	bool has_windows; /* memory of windows is exchanged, whether kernels use it or not */
};

struct registered {
	struct registered_range *ranges;
	struct registered_export *exports;
	struct registered_import *imports;
	uint32_t exports_made;
	/* Groups until the next look for messages, and from that look to the next one if no message
	 * arrives. */
	uint32_t look_in, pause;
	struct registered_peer peer[]; /* [nranks] */
};

/* True if messages between the two ranks can go into registered buffers. Both ends compute the same
 * answer. */
bool registered_peer_is_of_use(const struct ncclComm *comm, int32_t peer);
/* Returns the export of that memory to the peer, unless the peer is to close it; NULL: no such
 * export. */
struct registered_export *registered_export_of(const struct ncclComm *comm, int32_t peer,
					       const struct user_memory *memory);
/* Makes comm->registered, unless it exists. */
ncclResult_t registered_make(struct ncclComm *comm);
/* Adds a range, or counts it once more. *handle NULL: not memory of ncclMemAlloc. */
ncclResult_t registered_range_take(struct ncclComm *comm, const uint8_t *buffer, size_t bytes,
				   void **handle);
/* Ends a registration. Returns the memory, held, if it was the range's last one; else NULL. False:
 * no range has this handle. */
bool registered_range_cut(struct ncclComm *comm, const void *handle, struct user_memory **memory);
/* Closes memory that registered_range_cut has returned, unless another range is in it, and drops
 * the hold. */
ncclResult_t registered_range_end(struct ncclComm *comm, struct user_memory *memory);
/* Posts OPEN, unless the peer may not have more memory open: messages from `message` on are shown,
 * and results from the next collective on. */
ncclResult_t registered_open(struct ncclComm *comm, int32_t peer, struct user_memory *memory,
			     uint64_t message);
/* For a peer that also calls registered_borrow: posts OPEN, unless it has the memory. *number: the
 * export. The caller has claimed the bootstrap. */
ncclResult_t registered_lend(struct ncclComm *comm, int32_t peer, struct user_memory *memory,
			     uint64_t message, uint32_t *number);
/* Takes messages of the peer, which has lent memory `number`, and returns the memory. The caller
 * has claimed the bootstrap. */
ncclResult_t registered_borrow(struct ncclComm *comm, int32_t peer, uint32_t number,
			       struct registered_import **im);
/* Closes exports of memory in which no range is left. Memory that a graph uses stays open. */
ncclResult_t registered_close(struct ncclComm *comm, const struct user_memory *memory);

#endif
