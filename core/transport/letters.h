/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Letters: by them ranks of a host that are processes of their own map each other's memory of
 * cuMem. Called by p2p, for pools of GPU memory, and by shm, for segments of host memory.
 *
 *	owner   creates the memory, maps it   -> exports a descriptor, posts it to the user's mailbox
 *	user    opens its own mailbox         -> takes the descriptor, imports it, maps it
 *
 * A rank opens its mailbox (core/os/mailbox.h) when it sets up the first connection that needs it,
 * so it is there before a neighbour learns of the connection. A letter names its owner and which of
 * the owner's memory it is for. Letters that come before their connection is looked at are kept.
 *
 * The communicator owns the mailbox and what is kept: letters_close releases them. Called by the
 * rank's own task.
 */
#ifndef CORE_TRANSPORT_LETTERS_H
#define CORE_TRANSPORT_LETTERS_H

#include "core/transport/transport_internal.h"

enum letter_kind { LETTER_POOL, LETTER_SEGMENT };

/* Memory of a rank. */
struct letter_memory {
	enum letter_kind kind;
	uint32_t number; /* different for all memory of the rank of that kind; below 2^31 */
	uint64_t bytes;
};

/* This rank can get letters from now on. */
ncclResult_t letters_expect(struct ncclComm *comm);
/* The peer gets the descriptor of this rank's memory, after it has shown that it expects it.
 * ncclRemoteError: it has left or is dead. */
ncclResult_t letters_give(struct ncclComm *comm, int32_t peer, const struct letter_memory *m,
			  void *mem);
/* Maps memory of the connection's peer, GPU memory for this rank's GPU, host memory for the host,
 * too. ncclInProgress: its letter has not come; *w is what to wait for. */
ncclResult_t letters_import(struct conn *c, const struct letter_memory *m, void **mem,
			    struct wait *w);
void letters_close(struct ncclComm *comm);

#endif
