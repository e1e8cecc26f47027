/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of core/plan share: the queue of one communicator, and the pure part that turns a
 * task into a work.
 */
#ifndef CORE_PLAN_PLAN_INTERNAL_H
#define CORE_PLAN_PLAN_INTERNAL_H

#include "core/device/steps.h"
#include "core/os/check.h"
#include "core/plan/capture.h"
#include "core/plan/fifo.h"
#include "core/plan/plan.h"
#include "core/plan/streams.h"
#include "core/plan/tuner.h"
#include "core/proxy/proxy.h"
#include "core/tune/model.h"

/* Threads that NCCL's rule reckons with, whatever the warp width is. */
#define PLAN_THREADS 512
/* One rank has no channels: its kernel shares the elements between so many blocks at most. */
#define PLAN_ONE_RANK_BLOCKS 16

/* ---- work.c: pure --------------------------------------------------------------------------- */

/* What a communicator looks like to the planner. */
struct plan_limits {
	int32_t nranks, nchannels;
	uint32_t step_bytes[DEV_PROTO_COUNT];
	uint64_t allowed; /* programs: a bit for each */
	struct tune_model model;
	struct plan_tuner *tuner; /* NULL: none */
};

/* A program with the channels that a plugin wants for it; 0: as many as the rule gives. */
struct plan_choice {
	enum dev_program program;
	int32_t nchannels;
};

/* Bytes that the call is reckoned with: those of its larger buffer. The same on every rank. */
uint64_t plan_bytes(const struct plan_task *task);
/* The program that runs the call: the fastest one that is allowed and can. DEV_PROGRAM_COUNT: there
 * is none. */
struct plan_choice plan_choose(const struct plan_task *task, const struct plan_limits *lim);
/* Fills all of *work but op_count and nwarps. count is not 0. One rank has no program and no
 * chunks. */
void plan_work_fill(const struct plan_task *task, const struct plan_limits *lim,
		    struct dev_work *work, struct tune_shape *shape);
/* What the kernel does for an operation of NCCL's, and its factor or divisor. */
enum dev_op plan_device_op(ncclRedOp_t op, ncclDataType_t type, int32_t nranks, uint64_t *scale);

/* ---- launch.c ------------------------------------------------------------------------------- */

/* What one launch does: the works of one kernel with the proxy operations that belong to them, or
 * the copies of a communicator of one rank. Its memory is its own (plan_memory.c) and stays when it
 * is empty, so that a launch like an earlier one allocates nothing. */
struct plan {
	const struct dev_kernel *kernel,
		*general; /* general: it runs all works of the protocol and family */
	cudaStream_t stream;
	struct plan_capture capture; /* of the stream */
	uint32_t block_warps;
	uint64_t channel_mask;
	struct dev_work *work; /* [work_room] */
	int32_t nworks, work_room;
	uint64_t runs;       /* of the works, by all blocks */
	struct proxy_op *op; /* [op_room] */
	int32_t nops, op_room;
	int32_t ntasks; /* of collectives that do something */
	int32_t taken;  /* tasks of the queue, with those that have nothing to do */
};

/* How much more a plan gets. */
struct plan_need {
	int32_t works, ops;
	uint64_t runs;
};

/* Returns the largest number of warps of a block for NCCL_NTHREADS (`threads`; 0 or less: the
 * default): 1 to as many as the kernel is built for. */
uint32_t plan_block_warps(int64_t threads);

struct plan_state {
	/* Of one rank alone, or of several: of collectives by program, and of messages. */
	const struct dev_kernel *one_rank_kernel, *kernel[DEV_PROGRAM_COUNT], *message_kernel;
	uint32_t warp_width, warps; /* warps of a block */
	uint32_t cluster;           /* blocks of a cluster at most; 1: none */
	struct plan_limits limits;

	/* The tasks that wait to be launched, and how many of them, from the first on, are
	 * announced to the other ranks (in agree.c and order.c) and launched. */
	struct plan_task *queue;
	int32_t queued, room;
	int32_t agreed, ordered, launched;
	bool handed_over; /* proxy or GPU have something of the queue */

	struct plan_messages *messages; /* NULL: none was queued yet */

	struct plan_streams streams;    /* of the calls that are queued */
	unsigned long long last_stream; /* the id of that of the last launch outside of captures */
	struct plan_captures captures;
	struct plan plan;     /* the launch that is being put together */
	struct dev_args args; /* of its kernel */
	int32_t args_works;   /* that they may hold: more go through the FIFO */
	struct plan_fifo fifo;
};

/* The next plan: as many of the tasks that are not launched yet as one launch can hold. The same
 * tasks may make other plans on other ranks. */
ncclResult_t plan_build(struct ncclComm *comm, struct plan_state *st, struct plan *p);
/* An empty plan in the launches' stream. */
ncclResult_t plan_begin(struct plan_state *st, struct plan *p);
/* Launches it; on success its tasks count as launched. WAITS for slots of the proxy. */
ncclResult_t plan_start(struct ncclComm *comm, struct plan_state *st, struct plan *p);
/* Fills in the work of a task that has elements. */
void plan_task_plan(const struct plan_state *st, struct plan_task *t);
/* Does the task change anything? */
bool plan_task_is_empty(const struct ncclComm *comm, const struct plan_task *t);
/* The launches' stream waits for the communicator's last launch in another stream, and for the
 * other streams of the group. */
ncclResult_t plan_streams_ready(struct ncclComm *comm, struct plan_state *st, const struct plan *p);
/* All is launched: the other streams of the group wait for it. */
ncclResult_t plan_streams_end(struct plan_state *st);
/* Launches a plan of messages. WAITS for slots of the proxy. */
ncclResult_t plan_start_messages(struct ncclComm *comm, struct plan_state *st, struct plan *p);
/* Copies that were queued in the plan's stream count as its launch. */
ncclResult_t plan_start_copies(struct ncclComm *comm, struct plan_state *st, struct plan *p);

/* ---- registered.c --------------------------------------------------------------------------- */

/* Where the sender's process has a registered buffer; 0: nowhere. A graph that is captured keeps it
 * there. */
uint64_t plan_registered_at(struct ncclComm *comm, const struct plan_capture *capture,
			    const struct registered_recv *r);
/* The work gets the addresses that other processes have its output at. */
void plan_task_register(struct ncclComm *comm, struct plan_task *t,
			const struct plan_capture *capture);

/* ---- plan_memory.c -------------------------------------------------------------------------- */

/* An empty plan, with the memory that it has. */
void plan_reset(struct plan *p);
void plan_free(struct plan *p);
/* Does so much more fit into one launch? An empty plan has room for any one task or round. */
bool plan_fits(const struct plan_state *st, const struct plan *p, const struct plan_need *more);
/* Makes room for it: plan_add_work and plan_add_op follow. ncclSystemError: no memory. */
ncclResult_t plan_reserve(struct plan *p, const struct plan_need *more);
void plan_add_work(struct plan *p, const struct dev_work *w);
void plan_add_op(struct plan *p, const struct proxy_op *op);
/* The works, as the FIFO takes them. */
struct plan_works plan_works_of(const struct plan *p);

/* ---- trace.c -------------------------------------------------------------------------------- */

/* How the call will run, in the trace file. */
void plan_trace_choice(const struct ncclComm *comm, const struct plan_task *task);

/* ---- agree.c -------------------------------------------------------------------------------- */

/* Does every rank launch what this one does, under that number? ncclInvalidUsage, with both call
 * sites, if the world knows that one does not. */
ncclResult_t plan_agree(const struct ncclComm *comm, const struct plan_task *task);
/* What plan_agree said to be launched is not. */
void plan_agree_not(const struct ncclComm *comm, const struct plan_task *task);

/* ---- order.c -------------------------------------------------------------------------------- */

/* Do all ranks launch the collectives of their communicators in the same order? Before a launch, of
 * all that is queued. ncclInvalidUsage, with both call sites, if the world knows one that does not.
 */
ncclResult_t plan_order_check(const struct ncclComm *comm, struct plan_state *st);
/* Of what it checked nothing is launched. */
void plan_order_undo(const struct ncclComm *comm, const struct plan_state *st);

#endif
