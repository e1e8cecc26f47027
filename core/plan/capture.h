/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Capture: launches in a stream that captures a CUDA graph. The kernel, with its works in its
 * arguments, becomes a node, which runs at each replay. What else a launch does becomes nodes too:
 *
 *	proxy operations   a host node in front of the kernel appends them at each replay. Without a proxy
 *	                   there is none: on an H200 a host node takes 22 us. As long as a graph may
 *	                   be replayed, host functions append those of launches outside of graphs too,
 *	                   so that operations come in the order of the kernels.
 *	order              in front of the first launch of a capture a wait for the communicator's
 *	                   `launch_done`, behind each launch a record of it, both external (on an H200 a record
 *	                   takes 0.6 us): so launches in graphs and outside of them follow each other in the
 *	                   order in which the program launches. Within a capture an event of its own makes
 *	                   the edges: several captures may be under way, and their calls alternate. NCCL_GRAPH_MIXING_SUPPORT=0 leaves out what orders the graph and the rest.
 *	registered memory  a launch that shows where another process has a buffer does so at each replay:
 *	                   the graph keeps the memory open there (core/transport/registered.h).
 *
 * All ranks replay the same graphs in the same order; no rank compares that. A replay after the end
 * of the communicator appends nothing and is reported; its kernel uses memory that is freed, as
 * with NCCL.
 *
 * Called by launch.c, by the task that launches; host nodes run in a thread of CUDA.
 */
#ifndef CORE_PLAN_CAPTURE_H
#define CORE_PLAN_CAPTURE_H

#include "core/proxy/proxy.h"
#include "core/rank/rank.h"
#include "core/transport/registered.h"

/* What a stream captures into. */
struct plan_capture {
	unsigned long long id; /* of one capture; 0: the stream does not capture */
	cudaGraph_t graph;
};

struct plan_hosted;

struct plan_captures {
	struct os_mutex lock;       /* of `hosted` */
	struct plan_hosted *hosted; /* proxy operations */
	struct plan_hosted *kept;   /* registered memory; of the task that launches */
	struct plan_hosted *
		marks; /* of each capture the event behind its last launch; of the task that launches */
	bool used;     /* a launch was captured */
};

ncclResult_t plan_capture_of(cudaStream_t stream, struct plan_capture *capture);
/* In front of a launch in `stream`. */
ncclResult_t plan_capture_order(struct ncclComm *comm, const struct plan_captures *all,
				const struct plan_capture *capture, cudaStream_t stream);
/* Behind it. */
ncclResult_t plan_capture_mark(struct ncclComm *comm, struct plan_captures *all,
			       const struct plan_capture *capture, cudaStream_t stream);
/* A host node or function that will append proxy operations may still run. */
bool plan_captures_pending(struct plan_captures *all);
/* A host node in the stream appends the operations: at each replay where the stream captures, else
 * once. */
ncclResult_t plan_capture_ops(struct ncclComm *comm, struct plan_captures *all,
			      const struct plan_capture *capture, cudaStream_t stream,
			      const struct proxy_op *op, int32_t n);
/* The graph keeps the registered memory open until it ends. False: it cannot, and the log names the
 * reason. */
bool plan_capture_keep(struct ncclComm *comm, struct plan_captures *all,
		       const struct plan_capture *capture, struct registered_export *e);
/* Closes what graphs that have ended kept open, unless it is registered. */
ncclResult_t plan_captures_release(struct ncclComm *comm, struct plan_captures *all);
/* The communicator ends. WAITS for a host node that appends. */
void plan_captures_end(struct plan_captures *all);

#endif
