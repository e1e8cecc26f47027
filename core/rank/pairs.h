/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers of the messages that a rank has called, for each peer and direction, with the arguments
 * of the last one. The n-th send from rank A to rank B belongs to the n-th receive of B from A. If
 * the numbers of the two ends differ, one of them waits for a call that the other has not made.
 * core/plan adds messages before their launch. The RAS task reads the numbers and compares the
 * ranks. A rank without a RAS task keeps none.
 *
 * The rank's main task writes, any task may read. A reader may find arguments of a later message.
 * Owned by the communicator.
 */
#ifndef CORE_RANK_PAIRS_H
#define CORE_RANK_PAIRS_H

#include "core/base/shared.h"

/* The messages of one direction between this rank and a peer. */
struct rank_pair {
	shared_u64 called; /* the next message has this number */
	/* The last message: */
	shared_u64 count, type;
	shared_u64 call;   /* address of the name of the public function, a string constant */
	shared_u64 caller; /* return address in the program */
	shared_u64 order, stream; /* as in struct rank_call */
};

/* [2 * nranks]: the sends to each rank, then the receives from each rank. */
struct rank_pairs {
	int32_t nranks, pad0;
	struct rank_pair pair[];
};

/* Arguments of a message. */
struct rank_message {
	uint64_t called; /* messages to that peer, this one included */
	uint64_t count, caller, order, stream;
	const char *call;
	int32_t peer;
	uint8_t type; /* ncclDataType_t */
	bool is_send;
};

/* NULL: no memory. The caller frees it with os_free. */
struct rank_pairs *rank_pairs_make(int32_t nranks);
/* Stores the message as the last one with its peer. */
void rank_pairs_add(struct rank_pairs *p, const struct rank_message *m);
/* Withdraws messages that are not launched. */
void rank_pairs_drop(struct rank_pairs *p, int32_t peer, bool is_send, uint64_t called);
/* Reads the last message with a peer. False: no message has been called, and *m is zero. */
bool rank_pairs_read(const struct rank_pairs *p, int32_t peer, bool is_send,
		     struct rank_message *m);

#endif
