/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What registered.c (the program's ranges, the use by plans) and registered_peer.c (the exchange
 * with other ranks) share.
 */
#ifndef CORE_TRANSPORT_REGISTERED_INTERNAL_H
#define CORE_TRANSPORT_REGISTERED_INTERNAL_H

#include "core/mem/user_memory.h"
#include "core/transport/registered.h"
#include "core/transport/transport_internal.h"

/* A look is a system call for each rank. What comes may wait: messages go in slots until it is
 * taken. */
#define REGISTERED_PAUSE_MOST 64u

/* What the program registered: as often as `count`. Its address is the handle. */
struct registered_range {
	struct registered_range *next;
	const uint8_t *at;
	size_t bytes;
	uint32_t count;
	struct user_memory *memory; /* held */
};

/*	ASKED --OPENED--> OPEN --CLOSE--> CLOSING --CLOSED--> OVER --no kernel runs--> (freed)
 *	  |                                  ^
 *	  +--no range left--> UNWANTED --OPENED, CLOSE
 */
enum registered_state {
	REGISTERED_ASKED,    /* OPEN is posted */
	REGISTERED_OPEN,     /* the peer has it at `theirs` */
	REGISTERED_UNWANTED, /* as ASKED; what the peer opens it is to close */
	REGISTERED_CLOSING,  /* CLOSE is posted */
	REGISTERED_OVER,     /* the peer has closed it */
};

/* Memory of this rank that another one was asked to open. */
struct registered_export {
	struct registered_export *next;
	int32_t peer;
	uint32_t number; /* of this rank's exports: 1, 2... */
	enum registered_state state;
	uint64_t theirs;
	uint32_t graphs;            /* that have its address, each counts once for each capture */
	struct user_memory *memory; /* held */
};

/* Memory of another rank that this one has open. */
struct registered_import {
	struct registered_import *next;
	int32_t peer;
	uint32_t number; /* the peer's */
	bool closing;    /* the peer has posted CLOSE */
	void *mem;
};

/* From which message on the receiver shows where it wants it, and from which collective on: this
 * rank offers its output, that rank takes it, this rank takes that one's. UINT64_MAX: from none. */
struct registered_peer {
	uint64_t recv_from, send_from;
	uint64_t offers_from, taken_from, takes_from;
};

struct registered {
	struct registered_range *ranges;
	struct registered_export *exports;
	struct registered_import *imports;
	uint32_t exports_made;
	/* Groups until the next look for what has come, and from that one to the next if nothing
	 * has. */
	uint32_t look_in, pause;
	struct registered_peer peer[]; /* [nranks] */
};

/* Can messages between the two ranks go into registered buffers? The same answer at both ends. */
bool registered_peer_is_of_use(const struct ncclComm *comm, int32_t peer);
/* That the peer was asked to open, and is to keep; NULL: none. */
struct registered_export *registered_export_of(const struct ncclComm *comm, int32_t peer,
					       const struct user_memory *memory);
/* Posts OPEN: messages from `message` on are shown, and results from the next collective on. */
ncclResult_t registered_open(struct ncclComm *comm, int32_t peer, struct user_memory *memory,
			     uint64_t message);
/* No range is in the memory any longer. What graphs have stays open. */
ncclResult_t registered_close(struct ncclComm *comm, const struct user_memory *memory);

#endif
