/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Letters: ranks of one host in different processes use them to map each other's memory of cuMem.
 * p2p uses them for pools of GPU memory, shm for segments of host memory.
 *
 *	owner   creates and maps the memory -> exports a descriptor, posts it to the user's mailbox
 *	user    opens its own mailbox       -> takes the descriptor, imports it, maps it
 *
 * A rank opens its mailbox (core/os/mailbox.h) when it sets up the first connection that needs it.
 * The mailbox therefore exists before a neighbour learns of the connection. A letter names its
 * owner, and the kind and number of the owner's memory. A letter that arrives before its connection
 * needs it is kept.
 *
 * The communicator owns the mailbox and the kept letters; letters_close releases them. Called by
 * the rank's main task.
 */
#ifndef CORE_TRANSPORT_LOCAL_LETTERS_H
#define CORE_TRANSPORT_LOCAL_LETTERS_H

#include "core/transport/transport_internal.h"

enum letter_kind { LETTER_POOL, LETTER_SEGMENT };

/* Memory of a rank. */
struct letter_memory {
	enum letter_kind kind;
	uint32_t number; /* unique among the rank's memory of that kind; below 2^31 */
	uint64_t bytes;
};

/* Opens the mailbox, unless it is open. This rank can receive letters after that. */
ncclResult_t letters_expect(struct ncclComm *comm);
/* Posts the descriptor of this rank's memory to the peer, which must have called letters_expect.
 * ncclRemoteError: the peer has left or is dead. */
ncclResult_t letters_give(struct ncclComm *comm, int32_t peer, const struct letter_memory *m,
			  void *mem);
/* Maps memory of the connection's peer: GPU memory for this rank's GPU, host memory also for the
 * host. ncclInProgress: its letter has not arrived; *w is the wait. */
ncclResult_t letters_import(struct conn *c, const struct letter_memory *m, void **mem,
			    struct wait *w);
/* Maps it at addresses that cumem_unmap kept. */
ncclResult_t letters_import_at(struct ncclComm *comm, int32_t peer, const struct letter_memory *m,
			       void *mem, struct wait *w);
void letters_close(struct ncclComm *comm);

#endif
