/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Capture: launches in a stream that captures a CUDA graph. The kernel, with its works in its
 * arguments, becomes a node, which runs at each replay. Other parts of a launch become nodes too:
 *
 *	proxy operations   A host node before the kernel appends them at each replay. Without proxy
 *	                   operations there is no host node: on an H200 one takes 22 us. As long as
 *	                   a graph may be replayed, host functions also append the operations of
 *	                   launches outside of graphs. Operations then come in the order of the
 *	                   kernels.
 *	order              Before the first launch of a capture comes a wait for the communicator's
 *	                   `launch_done`, and after each launch a record of it. Both are external
 *	                   (on an H200 a record takes 0.6 us). Launches inside and outside of graphs
 *	                   then run in the order in which the program launches them. Inside a
 *	                   capture a separate event makes the edges, because calls of several
 *	                   captures may alternate. NCCL_GRAPH_MIXING_SUPPORT=0 drops the order
 *	                   between graphs and other launches.
 *	registered memory  A launch that offers a buffer to another process does so at each replay:
 *	                   the graph keeps the buffer mapped in that process
 *	                   (core/transport/registered.h).
 *
 * All ranks must replay the same graphs in the same order; no rank compares that. A replay after
 * the end of the communicator appends nothing and is reported. Its kernel uses freed memory, as
 * with NCCL.
 *
 * The task that launches calls these functions, from launch.c. Host nodes run in a thread of CUDA.
 */
#ifndef CORE_PLAN_CAPTURE_H
#define CORE_PLAN_CAPTURE_H

#include "core/proxy/proxy.h"
#include "core/rank/rank.h"
#include "core/transport/registered.h"

/* The capture of a stream. */
struct plan_capture {
	unsigned long long id; /* of this capture; 0: the stream does not capture */
	cudaGraph_t graph;
};

struct plan_hosted;
struct plan_mark;

/* `kept` and `marks` are used by the task that launches. */
struct plan_captures {
	struct os_mutex lock;       /* protects `hosted` */
	struct plan_hosted *hosted; /* proxy operations */
	struct plan_hosted *kept;   /* registered memory */
	struct plan_mark *marks;    /* of captures; the one used last is the first */
	int32_t nmarks;
	bool used; /* a launch was captured */
};

/* Sets the stream's capture. Only queries, so a refused capture stays valid. ncclInvalidUsage: a
 * call cannot join the capture; the log has the reason. */
ncclResult_t plan_capture_of(const char *call, cudaStream_t stream, struct plan_capture *capture);
/* Orders the next launch in `stream` after earlier launches. Called before that launch. */
ncclResult_t plan_capture_order(struct ncclComm *comm, struct plan_captures *all,
				const struct plan_capture *capture, cudaStream_t stream);
/* Records that the launch is in `stream`. Called after it. */
ncclResult_t plan_capture_mark(struct ncclComm *comm, struct plan_captures *all,
			       const struct plan_capture *capture, cudaStream_t stream);
/* Returns true while a host node or function that will append proxy operations may still run. */
bool plan_captures_pending(struct plan_captures *all);
/* Queues a host node that appends the operations: at each replay if the stream captures, else
 * once. */
ncclResult_t plan_capture_ops(struct ncclComm *comm, struct plan_captures *all,
			      const struct plan_capture *capture, cudaStream_t stream,
			      const struct proxy_op *op, int32_t n);
/* Makes the graph keep the registered memory open until the graph ends. Returns false if that
 * fails; the log has the reason. */
bool plan_capture_keep(struct ncclComm *comm, struct plan_captures *all,
		       const struct plan_capture *capture, struct registered_export *e);
/* Closes the memory that ended graphs kept open, unless it is still registered. */
ncclResult_t plan_captures_release(struct ncclComm *comm, struct plan_captures *all);
/* Frees what graphs hold of the communicator, which ends. WAITS for a host node that appends. */
void plan_captures_end(struct plan_captures *all);

#endif
