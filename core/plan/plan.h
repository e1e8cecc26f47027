/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plan: from the collectives that a group collected to kernel launches and proxy operations.
 *
 *   plan_enqueue   (a call of core/api, after its checks) appends a task to the communicator's queue;
 *   plan_announce  (ncclGroupEnd) numbers the queue and compares it with the other ranks';
 *   plan_launch    launches the next plan of the queue: picks algorithm, protocol, channels and
 *                  chunks, writes dev_work, hands proxy_ops to the proxy, launches on the user's
 *                  stream. Kernel and proxy derive the same number of steps from the same work;
 *                  steps_of_edge (core/device/steps.h) is that one derivation.
 *
 * One plan at a time, so that a task that drives several ranks can launch them in rounds: the
 * proxy's slots that a plan needs are freed only after the other ranks have launched what came
 * before it.
 */
#ifndef CORE_PLAN_PLAN_H
#define CORE_PLAN_PLAN_H

#include "core/rank/rank.h"

struct os_waits;

/* What each input of this rank is multiplied with before it is summed. Ranks may differ in it. */
struct plan_factor {
	bool used;      /* the operation is one that the program made */
	bool in_memory; /* `bits` is its address, in memory that the device sees */
	uint64_t bits;
};

/* One call, as the program made it. What depends on the kind of call:
 *
 *	reduces    false: a data mover. It moves bytes, whatever their type is (work.c), and `op` has no
 *	           meaning.
 *	root       only calls that have one; then the buffers of a rank may depend on it.
 *	buffers    send_bytes and recv_bytes are what this rank's GPU reads and writes; 0, with the
 *	           pointer NULL, where the call uses no such buffer on this rank.
 *	agreement  every rank launches the same call with the same arguments (agree.c).
 */
struct plan_task {
	enum dev_func func;
	const char *call;   /* "ncclAllReduce" */
	const char *name;   /* "all_reduce" */
	const void *caller; /* where the program called it */
	const void *send;
	void *recv;
	size_t send_bytes, recv_bytes;
	size_t count; /* as in the call: of a block, where a buffer has one block per rank */
	ncclDataType_t type;
	bool reduces;
	ncclRedOp_t op;
	struct plan_factor factor;
	int root; /* -1: has none */
	cudaStream_t stream;
	uint64_t op_count; /* given at the launch */
	/* What a launch does for it; plan_announce fills it in, unless count is 0. */
	struct dev_work work;
	uint32_t nthreads; /* nominal */
	bool by_plugin;    /* a tuner plugin took part in the choice */
};

/* One half of a message between two ranks. */
struct plan_message {
	bool is_send;
	bool in_place; /* a send from a buffer that the same call receives into */
	int32_t peer;
	void *buffer; /* of a send: only read */
	size_t count;
	ncclDataType_t type;
	cudaStream_t stream;
	const char *call;   /* "ncclSend" */
	const void *caller; /* where the program called it */
};

ncclResult_t plan_init(struct ncclComm *comm);
void plan_fini(struct ncclComm *comm);
/* Of what plan_init made to choose programs, channels and chunks by: the same on all ranks. */
uint64_t plan_choice_hash(const struct ncclComm *comm);
/* Can the communicator run it? ncclInvalidUsage: NCCL_ALGO and NCCL_PROTO allow no program that
 * can. */
ncclResult_t plan_check(const struct ncclComm *comm, const struct plan_task *task);
/* After plan_check. */
ncclResult_t plan_enqueue(struct ncclComm *comm, const struct plan_task *task);
/* Messages go after the collectives of the queue, all of them together. */
ncclResult_t plan_enqueue_message(struct ncclComm *comm, const struct plan_message *message);
bool plan_pending(const struct ncclComm *comm);
/* The number that the next collective will have, if all that is queued is launched. */
uint64_t plan_next_op(const struct ncclComm *comm);
/* The name of a data type that exists, and of an operation: ncclNumOps and above were made by the
 * program. */
const char *plan_type_name(ncclDataType_t type);
const char *plan_op_name(ncclRedOp_t op);
/* The call in the trace file. Only if os_tracing(). */
void plan_trace_begin(const struct ncclComm *comm, const struct plan_task *task);
/* Numbers what is queued, chooses how each call runs, and compares it with what the other ranks
 * launch. */
ncclResult_t plan_announce(struct ncclComm *comm);
/* After plan_announce: makes the connections that the queue's messages need. A task begins with all
 * its communicators, then looks at each of them until the result is not ncclInProgress, and WAITS
 * in between for what plan_connect_waits adds. The other ranks of one need not have come to the
 * calls of another. */
ncclResult_t plan_connect_begin(struct ncclComm *comm);
ncclResult_t plan_connect_look(struct ncclComm *comm);
/* After ncclInProgress. */
ncclResult_t plan_connect_waits(struct ncclComm *comm, struct os_waits *l);
/* After plan_announce: is there a connection that the queue's messages need, and that must be
 * made? */
bool plan_connects(const struct ncclComm *comm);
/* After plan_announce: does the queue send from buffers that it receives into, and need more memory
 * for that? */
bool plan_stages(const struct ncclComm *comm);
/* Have these something to do? They are also for what the ranks have registered, and for memory. */
bool plan_prepares(const struct ncclComm *comm);
/* Is any of the queue in the calling thread's own stream, so that only this thread can launch
 * it? */
bool plan_is_of_thread(const struct ncclComm *comm);
/* Is any of the queue not launched? */
bool plan_left(const struct ncclComm *comm);
/* Where in its queue the communicator is. Ranks of one communicator that are at the same place have
 * launched the same; one that is further waits, when it waits, for others that are behind. */
uint64_t plan_position(const struct ncclComm *comm);
/* Launches the next plan of what plan_announce announced; sets the current device. WAITS. */
ncclResult_t plan_launch(struct ncclComm *comm);
/* A group has failed with `error`: drops the queue. What was not launched has no number: the next
 * launch begins with it. If the proxy or the GPU have a part of the queue, `error` becomes the
 * asynchronous error of the communicator. Nothing happens to a queue that was launched
 * completely. */
void plan_cancel(struct ncclComm *comm, ncclResult_t error);

#endif
