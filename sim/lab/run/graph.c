/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives of a rank in a CUDA graph, as nccl-tests does it with -G: a series is captured once,
 * and launched so many times. The capture is of the calling thread alone: what other ranks' tasks
 * do at the same time is theirs.
 */
#include <cuda_runtime_api.h>

#include "sim/lab/run/runner_internal.h"

bool lab_graph_begin(struct lab_rank *me)
{
	return lab_rank_check_cuda(
		me, cudaStreamBeginCapture(me->stream, cudaStreamCaptureModeThreadLocal),
		"cudaStreamBeginCapture");
}

/* The capture ends, also after a call within it that failed. */
bool lab_graph_end(struct lab_rank *me, bool ok, void **exec)
{
	cudaGraph_t graph = NULL;
	cudaError_t e = cudaStreamEndCapture(me->stream, &graph);

	*exec = NULL;
	if (!ok) {
		(void)cudaGetLastError();
	} else {
		ok = lab_rank_check_cuda(me, e, "cudaStreamEndCapture") &&
		     lab_rank_check_cuda(me,
					 cudaGraphInstantiate((cudaGraphExec_t *)exec, graph, 0),
					 "cudaGraphInstantiate");
	}
	if (graph)
		cudaGraphDestroy(graph);
	return ok;
}

bool lab_graph_launch(struct lab_rank *me, void *exec, uint32_t times)
{
	cudaError_t e = cudaSuccess;

	for (uint32_t i = 0; !e && i < times; i++)
		e = cudaGraphLaunch(exec, me->stream);
	return lab_rank_check_cuda(me, e, "cudaGraphLaunch");
}

void lab_graph_free(void *exec)
{
	if (exec)
		cudaGraphExecDestroy(exec);
}
