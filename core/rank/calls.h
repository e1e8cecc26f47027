/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The last collectives that a rank has launched, with their arguments. All ranks of a communicator
 * launch the same ones in the same order, so the same number must mean the same call. core/plan
 * adds a call before its launch; the RAS task reads them and compares the ranks. A rank without a
 * RAS task keeps none.
 *
 * The rank's main task writes. Any task may read: a call that is overwritten meanwhile is not
 * returned. Owned by the communicator.
 */
#ifndef CORE_RANK_CALLS_H
#define CORE_RANK_CALLS_H

#include "core/base/shared.h"

#define RANK_CALLS 128 /* calls that are kept */

/* Values of `op` besides those of ncclRedOp_t. */
enum {
	RANK_CALL_OP_MADE = 254, /* an operation that the program made */
	RANK_CALL_OP_NONE = 255, /* the call moves data only */
};

struct rank_call {
	uint64_t number; /* counts the collectives of the communicator, from 0 */
	uint64_t count;
	uint64_t chain;  /* hash of this call and of all calls before it */
	uint64_t caller; /* return address in the program */
	uint64_t order;  /* counts the calls of all communicators of the process */
	uint64_t stream; /* id of its launch's stream, in the process; 0: unknown */
	int32_t root;    /* -1: has none */
	uint8_t func;    /* enum dev_func */
	uint8_t type;    /* ncclDataType_t */
	uint8_t op;      /* predefined ncclRedOp_t, or RANK_CALL_OP_ */
};

enum { RANK_CALL_WORDS = 6 };
struct rank_calls {
	shared_u64 next; /* number of the next call */
	struct {
		shared_u64 word[RANK_CALL_WORDS];
	} slot[RANK_CALLS]; /* by number % RANK_CALLS */
};

/* Adds the call after the last one. Its chain is computed here. */
void rank_calls_add(struct rank_calls *r, const struct rank_call *call);
/* Removes the calls from that number on: they were not launched. */
void rank_calls_drop(struct rank_calls *r, uint64_t number);
/* Returns the number of the next call. */
uint64_t rank_calls_next(const struct rank_calls *r);
/* Reads the call of that number. False: it is not kept, and *call is zero. */
bool rank_calls_read(const struct rank_calls *r, uint64_t number, struct rank_call *call);

#endif
