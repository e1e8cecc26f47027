/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plan: from the collectives of a group to kernel launches and proxy operations.
 *
 *	plan_enqueue    (a call of core/api, after its checks) appends a task to the communicator's
 *	                queue;
 *	plan_announce   (ncclGroupEnd) numbers the queue and compares it with the other ranks;
 *	plan_launch     launches the next plan of the queue. It chooses algorithm, protocol,
 *	                channels and chunks, writes the works, passes operations to the proxy, and
 *	                launches in the program's stream. Kernel and proxy derive the number of
 *	                steps from the same work, with the same function: steps_of_edge
 *	                (core/device/layout/steps.h).
 *
 * Each call launches one plan, so that a task with several ranks can launch theirs in rounds. A
 * plan needs slots of the proxy, and those are freed only after the other ranks have launched all
 * earlier plans.
 */
#ifndef CORE_PLAN_PLAN_H
#define CORE_PLAN_PLAN_H

#include "core/profiler/profiler.h"
#include "core/rank/rank.h"

struct os_waits;

/* The factor of this rank's input, applied before the reduction. Ranks may have different
 * factors. */
struct plan_factor {
	bool used;      /* the operation is one that the program made */
	bool in_memory; /* `bits` is the factor's address, in memory that the device can read */
	uint64_t bits;
};

/* Options of one call. 0: the rule's or the communicator's value. */
struct plan_options {
	int32_t min_channels, max_channels;
	uint32_t cluster;    /* most blocks of a cluster */
	uint64_t programs;   /* one bit for each program that the call may use; never empty */
	uint64_t tag;        /* the program's own number, for the trace file */
	uint64_t timeout_ns; /* deadline of the call's launch */
};

/*
 * One call of the program. These fields depend on the kind of call:
 *
 *	reduces    false for a data mover. It moves bytes, whatever their type is (work.c), and `op`
 *	           has no meaning.
 *	root       only for calls that have one. Then the buffers of a rank may depend on it.
 *	buffers    send_bytes and recv_bytes are the bytes that this rank's GPU reads and writes. A
 *	           buffer that the call does not use on this rank is NULL with 0 bytes.
 *	agreement  every rank launches the same call with the same arguments (agree.c).
 */
struct plan_task {
	enum dev_func func;
	const char *call;   /* "ncclAllReduce" */
	const char *name;   /* "all_reduce" */
	const void *caller; /* return address in the program */
	const void *send;
	void *recv;
	size_t send_bytes, recv_bytes;
	size_t count; /* as in the call: of one block if a buffer has one for each rank */
	ncclDataType_t type;
	bool reduces;
	ncclRedOp_t op;
	struct plan_factor factor;
	int root; /* -1: has none */
	cudaStream_t stream;
	struct plan_options options;
	uint64_t op_count; /* set by plan_announce */
	/* How the call runs. Set by plan_announce, unless count is 0. */
	struct dev_work work;
	bool in_windows;   /* both buffers are in windows for programs on windows */
	uint32_t nthreads; /* of a block, as if warps had 32 threads */
	bool by_plugin;    /* a tuner plugin took part in the choice */
	struct profiler_call profile;
};

/* A send or a receive. */
struct plan_message {
	bool is_send;
	bool in_place; /* a send from a buffer that the same call receives into */
	int32_t peer;
	void *buffer; /* a send only reads it */
	size_t count;
	ncclDataType_t type;
	cudaStream_t stream;
	const char *call;   /* "ncclSend" */
	const void *caller; /* return address in the program */
	uint64_t tag;       /* the program's own number, for a profiler plugin */
	struct profiler_call profile;
};

ncclResult_t plan_init(struct ncclComm *comm);
void plan_fini(struct ncclComm *comm);
/* Hash of everything that the choice of programs, channels and chunks depends on. Must be the same
 * on all ranks. */
uint64_t plan_choice_hash(const struct ncclComm *comm);
/* Returns true if the communicator can run the call with its options. */
bool plan_can(const struct ncclComm *comm, const struct plan_task *task);
/* Checks that the communicator can run the call. ncclInvalidUsage: NCCL_ALGO and NCCL_PROTO allow
 * no program that can. */
ncclResult_t plan_check(const struct ncclComm *comm, const struct plan_task *task);
/* Called after plan_check succeeded. */
ncclResult_t plan_enqueue(struct ncclComm *comm, const struct plan_task *task);
/* Messages are launched together, after all collectives of the queue. */
ncclResult_t plan_enqueue_message(struct ncclComm *comm, const struct plan_message *message);
/* Has the program's event recorded after the last launch of the queue, or now if the queue is
 * empty. ncclInvalidUsage: the queue has such an event. */
ncclResult_t plan_record_later(struct ncclComm *comm, const char *call, cudaStream_t stream,
			       cudaEvent_t event);
bool plan_pending(const struct ncclComm *comm);
/* True if a call of the queue uses a byte of the range. */
bool plan_queue_uses(const struct ncclComm *comm, const void *at, size_t bytes);
/* Returns the number of the next message from that rank. */
uint64_t plan_message_next(const struct ncclComm *comm, int32_t peer);
/* Returns the time that the model expects for the collectives of the queue, one after another.
 * *counted: number of these. Messages have no model. */
uint64_t plan_estimate_ns(const struct ncclComm *comm, int32_t *counted);
/* Returns the number of the next collective, provided that the whole queue is launched. */
uint64_t plan_next_op(const struct ncclComm *comm);
/* The names of an existing data type and of an operation. Numbers from ncclNumOps on are operations
 * that the program made. */
const char *plan_type_name(ncclDataType_t type);
const char *plan_op_name(ncclRedOp_t op);
/* Writes the call to the trace file. Called only if os_tracing(). */
void plan_trace_begin(const struct ncclComm *comm, const struct plan_task *task);
/* Numbers the queue, chooses how each call runs, and compares it with the launches of the other
 * ranks. */
ncclResult_t plan_announce(struct ncclComm *comm);
/* Makes the connections that the queue's messages need. Called after plan_announce. A task first
 * calls plan_connect_begin for all its communicators. Then it calls plan_connect_look for each of
 * them until the result is not ncclInProgress, and in between it WAITS for the waits of
 * plan_connect_waits. It must not finish one communicator before it looks at the next: the other
 * ranks may be in another order. */
ncclResult_t plan_connect_begin(struct ncclComm *comm);
ncclResult_t plan_connect_look(struct ncclComm *comm);
/* Adds the waits of a communicator whose last result was ncclInProgress. */
ncclResult_t plan_connect_waits(struct ncclComm *comm, struct os_waits *l);
/* Returns true if the queue's messages need connections that do not exist. Called after
 * plan_announce. */
bool plan_connects(const struct ncclComm *comm);
/* Returns true if the queue sends from buffers that it receives into and needs more memory for
 * copies. Called after plan_announce. */
bool plan_stages(const struct ncclComm *comm);
/* Returns true if launches of the queue may wait for earlier kernels, because the FIFO of works may
 * have no room. Called after plan_announce. */
bool plan_may_wait(const struct ncclComm *comm);
/* Returns true if plan_connect_begin and plan_connect_look have anything to do: connections,
 * registered buffers, or memory. */
bool plan_prepares(const struct ncclComm *comm);
/* Returns true if a call of the queue uses cudaStreamPerThread, so that only the calling thread can
 * launch it. */
bool plan_is_of_thread(const struct ncclComm *comm);
/* Returns true if any call of the queue is not launched. */
bool plan_left(const struct ncclComm *comm);
/* Returns the communicator's position in its queue. Ranks of one communicator at the same position
 * have launched the same. A rank that is further may wait for ranks that are not as far. */
uint64_t plan_position(const struct ncclComm *comm);
/* Launches the next plan of an announced queue, and sets the current device. WAITS. */
ncclResult_t plan_launch(struct ncclComm *comm);
/* Drops the queue of a group that failed with `error`. Calls that were not launched give their
 * numbers back to the next launch. If the proxy or the GPU have a part of the queue, `error`
 * becomes the asynchronous error of the communicator. A queue that was launched completely is not
 * changed. */
void plan_cancel(struct ncclComm *comm, ncclResult_t error);

#endif
