/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The streams of a group's calls on one communicator. NCCL's rule: the group waits for all its
 * streams, and all of them wait for the group, as if it had been queued in every stream.
 *
 *	stream 0  ----+--wait-- launch -- launch --+------------>     all launches of the group
 *	stream 1  --record                        wait----------->
 *	stream 2  --record                        wait----------->
 *
 * The launches are in the stream of the first call. Either all streams capture into the same CUDA
 * graph, or none of them captures: otherwise the call fails with ncclInvalidUsage.
 *
 * plan.c adds the streams as calls are queued. launch.c and messages_launch.c join them before the
 * first launch and part them after the last one. A group without launches joins nothing.
 */
#ifndef CORE_PLAN_STREAMS_H
#define CORE_PLAN_STREAMS_H

#include "core/plan/capture.h"

struct plan_streams {
	cudaStream_t *stream; /* [room]: each handle once, in the order of the calls */
	int32_t n, room;
	bool joined;
	struct plan_capture capture; /* of all streams */
	cudaEvent_t event;           /* NULL: no group has used several streams yet */
	/* An event of the program to record after the last launch; NULL: none. */
	cudaEvent_t completion;
	cudaStream_t completion_stream; /* for a group without launches */
};

/* Adds the stream of a call. ncclInvalidUsage: a stream of the group captures into another graph.
 * ncclSystemError: no memory. */
ncclResult_t plan_streams_add(struct plan_streams *s, const char *call, cudaStream_t stream);
/* Makes the first stream wait for the earlier work of the others. Acts once for each group. */
ncclResult_t plan_streams_join(struct plan_streams *s);
/* Records the program's event in the first stream. */
ncclResult_t plan_streams_complete(const struct plan_streams *s);
/* Makes the other streams wait for the first one, if they were joined. */
ncclResult_t plan_streams_part(const struct plan_streams *s);
/* Forgets the streams. Called when the group has ended. */
void plan_streams_reset(struct plan_streams *s);
void plan_streams_free(struct plan_streams *s);

#endif
