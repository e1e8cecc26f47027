/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The operations that a program made for a communicator (ncclRedOpCreatePreMulSum), by number.
 * Called by core/api, under a use of the communicator (comm_enter); freed with the communicator.
 *
 * A number is ncclNumOps plus
 *
 *	tag         10 bits  of the communicator: no two of a process that exist have the same
 *	generation   8 bits  how often the slot was used before
 *	slot        12 bits
 *
 * so an operation of another communicator, and one that was destroyed, are distinguished from one
 * that exists. The generation wraps after 256 operations in one slot.
 */
#ifndef CORE_COMM_OPS_H
#define CORE_COMM_OPS_H

#include "core/comm/comm.h"

#define COMM_MAX_OPS 4096 /* that exist at the same time */

/* Pre-multiplied sum: each rank's input times a factor of this rank, and then the sum. */
struct comm_op {
	bool exists;
	bool in_memory; /* the factor is read when a collective runs */
	uint8_t generation;
	ncclDataType_t type;
	uint64_t factor; /* bits in the type; or its address in memory that the device sees */
};

/* Adds a copy of *op and sets *number. One WARN on errors; `call` is for that. */
ncclResult_t comm_op_make(struct ncclComm *comm, const char *call, const struct comm_op *op,
			  ncclRedOp_t *number);
/* The operation of that number, ncclNumOps at least. NULL, with one WARN: it does not exist. Valid
 * until the next comm_op_make. */
struct comm_op *comm_op_find(const struct ncclComm *comm, const char *call, ncclRedOp_t number);
void comm_op_destroy(struct comm_op *op);
/* The communicator ends: all of them. */
void comm_ops_free(struct ncclComm *comm);

#endif
