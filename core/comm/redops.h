/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations that a program created for a communicator (ncclRedOpCreatePreMulSum), by number.
 * core/api calls these functions while it uses the communicator (comm_enter). The operations are
 * freed with the communicator.
 *
 * A number is ncclNumOps plus
 *
 *	tag         10 bits  of the communicator: unique among those of the process
 *	generation   8 bits  number of earlier uses of the slot
 *	slot        12 bits
 *
 * The number thus distinguishes an existing operation from one of another communicator and from a
 * destroyed one. The generation wraps after 256 operations in one slot.
 */
#ifndef CORE_COMM_REDOPS_H
#define CORE_COMM_REDOPS_H

#include "core/comm/comm.h"

#define COMM_MAX_OPS 4096 /* maximum number of existing operations */

/* A pre-multiplied sum: each rank's input times that rank's factor, then the sum. */
struct comm_op {
	bool exists;
	bool in_memory; /* the GPU reads the factor when a collective runs */
	uint8_t generation;
	ncclDataType_t type;
	uint64_t factor; /* value in the type's format, or its address for the device */
};

/* Adds a copy of *op and sets *number. On an error logs one WARN, with `call`. */
ncclResult_t comm_op_make(struct ncclComm *comm, const char *call, const struct comm_op *op,
			  ncclRedOp_t *number);
/* Returns the operation of that number; `number` is at least ncclNumOps. If it does not exist, logs
 * one WARN and returns NULL. Valid until the next comm_op_make. */
struct comm_op *comm_op_find(const struct ncclComm *comm, const char *call, ncclRedOp_t number);
void comm_op_destroy(struct comm_op *op);
/* Frees all operations at the end of the communicator. */
void comm_ops_free(struct ncclComm *comm);

#endif
