/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Declarations that the files of core/plan share: the queue of one communicator, and the pure
 * functions that turn a task into a work.
 */
#ifndef CORE_PLAN_PLAN_INTERNAL_H
#define CORE_PLAN_PLAN_INTERNAL_H

#include "core/device/layout/steps.h"
#include "core/os/check.h"
#include "core/plan/capture.h"
#include "core/plan/fifo.h"
#include "core/plan/plan.h"
#include "core/plan/streams.h"
#include "core/proxy/proxy.h"
#include "core/tune/model.h"
#include "core/tuner/tuner.h"

struct plan_queued_message;

/* Threads of a block in NCCL's rule, whatever the width of a warp is. */
#define PLAN_THREADS 512
/* A communicator of one rank has no channels. Its kernel shares the elements between at most this
 * many blocks. */
#define PLAN_ONE_RANK_BLOCKS 16

/* ---- work.c: pure --------------------------------------------------------------------------- */

/* The properties of a communicator on which a choice depends. */
struct plan_limits {
	int32_t nranks, nhosts, nchannels;
	uint32_t step_bytes[DEV_PROTO_COUNT];
	uint64_t allowed; /* one bit for each program */
	/* Programs in networks that reduce, and what these reduce: collnet_reduction. */
	uint64_t in_network, reductions;
	struct tune_model model;
	struct tuner *tuner; /* NULL: none */
};

/* A program and the number of channels that a plugin wants for it; 0: the rule's number. */
struct plan_choice {
	enum dev_program program;
	int32_t nchannels;
};

/* Returns the bytes of the call's larger buffer, by which programs are compared. The same on every
 * rank. */
uint64_t plan_bytes(const struct plan_task *task);
/* Returns the programs that communicator and call allow, one bit for each. */
uint64_t plan_programs(const struct plan_task *task, const struct plan_limits *lim);
/* Chooses the fastest program that is allowed and can run the call. DEV_PROGRAM_COUNT: no program
 * can. */
struct plan_choice plan_choose(const struct plan_task *task, const struct plan_limits *lim);
/* Fills *work, except op_count and nwarps. count must not be 0. With one rank, program and chunks
 * stay 0. */
void plan_work_fill(const struct plan_task *task, const struct plan_limits *lim,
		    struct dev_work *work, struct tune_shape *shape);
/* Returns the operation of a network for one of the kernel's: a sum for those with a factor or a
 * divisor. */
ncclRedOp_t plan_network_op(int op);
/* Returns the kernel's operation for one of NCCL's, and in *scale its factor or divisor. */
enum dev_op plan_device_op(ncclRedOp_t op, ncclDataType_t type, int32_t nranks, uint64_t *scale);

/* ---- launch.c ------------------------------------------------------------------------------- */

/* The content of one launch: the works of one kernel and their proxy operations, or the copies of a
 * communicator of one rank. The plan owns its memory (plan_memory.c) and keeps it when it is
 * emptied, so that a similar later launch allocates nothing. */
struct plan {
	const struct dev_kernel *kernel,
		*general; /* general: the one that runs all works of the protocol and family */
	cudaStream_t stream;
	struct plan_capture capture;  /* the capture of `stream` */
	unsigned long long stream_id; /* 0 in a capture */
	uint32_t block_warps;
	uint32_t cluster; /* most blocks of a cluster */
	uint64_t channel_mask;
	struct dev_work *work; /* [work_room] */
	int32_t nworks, work_room;
	uint64_t runs;       /* total over works and their blocks */
	struct proxy_op *op; /* [op_room] */
	int32_t nops, op_room;
	int32_t ntasks; /* collectives that have something to do */
	int32_t taken;  /* tasks of the queue, including those with nothing to do */
	int32_t rounds; /* rounds of messages; 0 if the plan has collectives */
	/* For a profiler plugin: events have started that stop when the operations are appended;
	 * the event of the group; and of the launch, the mask and the parent. */
	bool profiled;
	uint32_t launch_mask;
	void *group, *launch_parent;
};

/* The size of an addition to a plan. */
struct plan_need {
	int32_t works, ops;
	uint64_t runs;
};

/* Returns the largest number of warps of a block for NCCL_NTHREADS: from 1 up to the number for
 * which the kernel is built. `threads` of 0 or less: the default. */
uint32_t plan_block_warps(int64_t threads);

struct plan_state {
	/* With one rank: the kernel for it. With several: one kernel for each program, and one for
	 * messages. */
	const struct dev_kernel *one_rank_kernel, *kernel[DEV_PROGRAM_COUNT], *message_kernel;
	uint32_t warp_width, warps; /* warps of a block */
	uint32_t cluster;           /* most blocks of a cluster; 1: no clusters */
	bool clusters;              /* the GPU has clusters */
	struct plan_limits limits;

	/* The tasks that wait for their launch. Counts from the first task on: announced to the
	 * other ranks by agree.c and by order.c, and launched. */
	struct plan_task *queue;
	int32_t queued, room;
	int32_t agreed, ordered, launched;
	bool handed_over; /* the proxy or the GPU have a part of the queue */
	bool untimed;     /* a launch without a deadline, for it is captured, was reported */

	struct plan_messages *messages; /* NULL: no message was queued yet */

	struct plan_streams streams;    /* of the queued calls */
	unsigned long long last_stream; /* id; of the last launch outside of captures */
	struct plan_captures captures;
	struct plan plan;              /* the launch that is being built */
	struct dev_args args;          /* arguments of that launch's kernel */
	struct dev_sym_args symmetric; /* of one on windows */
	int32_t args_works;    /* most works in the arguments; with more, all go through the FIFO */
	int32_t args_captured; /* the same for a captured launch, which cannot use the FIFO */
	struct plan_fifo fifo;
};

/* Builds the next plan: as many tasks that are not launched yet as one launch can hold. Other ranks
 * may cut the same tasks into other plans. */
ncclResult_t plan_build(struct ncclComm *comm, struct plan_state *st, struct plan *p);
/* Makes an empty plan in the stream of the launches. */
ncclResult_t plan_begin(struct plan_state *st, struct plan *p);
/* Launches the plan. On success its tasks count as launched. WAITS for slots of the proxy. */
ncclResult_t plan_start(struct ncclComm *comm, struct plan_state *st, struct plan *p);
/* Fills in the work of a task that has elements. */
void plan_task_plan(const struct plan_state *st, struct plan_task *t);
/* Returns true if the task changes nothing. */
bool plan_task_is_empty(const struct ncclComm *comm, const struct plan_task *t);
/* Orders the stream of the launches after the communicator's last launch in another stream, and
 * after the other streams of the group. */
ncclResult_t plan_streams_ready(struct ncclComm *comm, struct plan_state *st, const struct plan *p);
/* Makes the other streams of the group wait for its launches. Called after the last one. */
ncclResult_t plan_streams_end(struct plan_state *st);
/* Launches a plan of messages. WAITS for slots of the proxy. */
ncclResult_t plan_start_messages(struct ncclComm *comm, struct plan_state *st, struct plan *p);
/* Counts the copies that were queued in the plan's stream as its launch. */
ncclResult_t plan_start_copies(struct ncclComm *comm, struct plan_state *st, struct plan *p);

/* ---- registered.c --------------------------------------------------------------------------- */

/* Returns the address of a registered buffer in the sender's process; 0: not mapped there. A graph
 * that is captured keeps it mapped. */
uint64_t plan_registered_at(struct ncclComm *comm, const struct plan_capture *capture,
			    const struct registered_recv *r);
/* Sets the addresses of the output in other processes, for the work. */
void plan_task_register(struct ncclComm *comm, struct plan_task *t,
			const struct plan_capture *capture);

/* Programs on windows. */
static inline bool plan_work_is_symmetric(const struct dev_work *w)
{
	return DEV_SYMMETRIC_BITS >> w->program & 1;
}

/* True if the plan's one work is a program on windows. */
static inline bool plan_is_symmetric(const struct plan *p)
{
	return p->nworks == 1 && p->ntasks && plan_work_is_symmetric(&p->work[0]);
}

/* Sets t->in_windows; true for a task without elements. All ranks find the same if the program
 * keeps NCCL's rule for such windows: the ranks of a call use the same offset. */
void plan_task_windows(const struct ncclComm *comm, struct plan_task *t);
/* Returns the programs on windows that can run the task. */
uint64_t plan_symmetric_programs(const struct plan_task *t);
/* Fills in the arguments of the launch's kernel. */
void plan_symmetric_args(const struct ncclComm *comm, struct plan_state *st, const struct plan *p);
/* Writes " window=2+4096": the windows, by number, and the offsets of the buffers that other ranks
 * access. */
void plan_symmetric_text(const struct ncclComm *comm, const struct plan_task *t, char *text,
			 size_t bytes);

/* ---- plan_memory.c -------------------------------------------------------------------------- */

/* Empties the plan; its memory stays. */
void plan_reset(struct plan *p);
void plan_free(struct plan *p);
/* Returns true if so much more fits into one launch. An empty plan has room for any one task or
 * round. */
bool plan_fits(const struct plan_state *st, const struct plan *p, const struct plan_need *more);
/* Makes room for plan_add_work and plan_add_op. ncclSystemError: no memory. */
ncclResult_t plan_reserve(struct plan *p, const struct plan_need *more);
void plan_add_work(struct plan *p, const struct dev_work *w);
void plan_add_op(struct plan *p, const struct proxy_op *op);
/* Returns the works in the form that the FIFO takes. */
struct plan_works plan_works_of(const struct plan *p);

/* ---- trace.c -------------------------------------------------------------------------------- */

/* Writes to the trace file how the call will run. */
void plan_trace_choice(const struct ncclComm *comm, const struct plan_task *task);
/* Logs how the call runs. */
void plan_work_log(const struct plan_task *t, const struct dev_work *w);

/* ---- profiled.c: events for a profiler plugin ------------------------------------------------ */

/* Start the events of a call that is added to the plan. `parts`: channels of the message. */
void plan_profile_task(struct ncclComm *comm, struct plan *p, struct plan_task *t);
void plan_profile_message(struct ncclComm *comm, struct plan *p, struct plan_queued_message *m,
			  int32_t parts);
/* Returns the part of a call in its proxy operations; call NULL: none. */
struct profiler_op plan_profile_op(const struct plan *p, const struct profiler_call *call);
/* Announces the work of one call, or of two messages, and sets its number. */
void plan_profile_work(struct ncclComm *comm, const struct plan *p, struct dev_work *w,
		       const struct profiler_call *first, const struct profiler_call *second);
/* Stops the events of the plan's calls: its operations are appended, or the plan has failed. */
void plan_profile_appended(struct ncclComm *comm, struct plan_state *st, struct plan *p);
/* Returns the event of the launch, which profiler_stop ends. */
void *plan_profile_launch_begin(struct ncclComm *comm, const struct plan *p);

/* ---- uses.c --------------------------------------------------------------------------------- */

/* Reports the buffers of the stream's next operation, a collective, to a world that watches
 * buffers. */
void plan_task_uses(const struct ncclComm *comm, const struct plan_task *t, cudaStream_t stream);
/* Reports those of all tasks and messages of the next launch. */
void plan_uses(const struct ncclComm *comm, const struct plan_state *st, const struct plan *p);

/* ---- watched.c ------------------------------------------------------------------------------ */

/* Adds the collectives of the queue to comm->calls. Called before their first launch. */
void plan_calls_add(const struct ncclComm *comm, const struct plan_state *st);
/* Called before the first and after the last operation of the plan's launch: its deadline.
 * ncclInvalidUsage: a call with a deadline of its own is captured. */
ncclResult_t plan_timed_begin(struct ncclComm *comm, struct plan_state *st, const struct plan *p);
/* Show the numbers of the queue's messages to the RAS task; withdraw those of messages that are not
 * launched. ncclSystemError: no memory. */
ncclResult_t plan_pairs_show(struct ncclComm *comm, const struct plan_messages *ms);
void plan_pairs_hide(const struct ncclComm *comm, const struct plan_messages *ms);
/* The ranks of the queue's messages are being connected, or this has ended. */
void plan_timed_connect(struct ncclComm *comm, const struct plan_messages *ms, bool begins);
ncclResult_t plan_timed_end(struct ncclComm *comm, const struct plan_state *st,
			    const struct plan *p);

/* ---- agree.c -------------------------------------------------------------------------------- */

/* Compares the task with the launch of the same number on the other ranks. ncclInvalidUsage, with
 * both call sites, if the world has seen another one. */
ncclResult_t plan_agree(const struct ncclComm *comm, const struct plan_task *task);
/* Withdraws the announcement of plan_agree: the task is not launched. */
void plan_agree_not(const struct ncclComm *comm, const struct plan_task *task);

/* ---- order.c -------------------------------------------------------------------------------- */

/* Checks that all ranks launch the collectives of their communicators in the same order. Called
 * before a launch, for the whole queue. ncclInvalidUsage, with both call sites, if the world has
 * seen another order. */
ncclResult_t plan_order_check(const struct ncclComm *comm, struct plan_state *st);
/* Withdraws the tasks that were checked: none of them is launched. */
void plan_order_undo(const struct ncclComm *comm, const struct plan_state *st);

#endif
