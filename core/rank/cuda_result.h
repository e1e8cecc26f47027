/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Converts a CUDA result to an NCCL result and logs one line for an error. core/rank and all rooms
 * above it call it directly at the CUDA call. Owns nothing.
 */
#ifndef CORE_RANK_CUDA_RESULT_H
#define CORE_RANK_CUDA_RESULT_H

#include <cuda_runtime_api.h>

#include "core/base/log.h"
#include "core/include/nccl.h"

/* `what` names the attempted call: "cudaMalloc of p2p connection memory". */
static inline ncclResult_t cuda_result(cudaError_t e, const char *what)
{
	if (e == cudaSuccess)
		return ncclSuccess;
	WARN("%s: %s (%d)", what, cudaGetErrorString(e), (int)e);
	return ncclUnhandledCudaError;
}

/* Sets the capture mode of the calling thread and returns its previous mode. The relaxed mode
 * permits calls, such as allocations, that a capture in another thread would forbid. */
static inline enum cudaStreamCaptureMode cuda_capture_mode(enum cudaStreamCaptureMode mode)
{
	(void)cudaThreadExchangeStreamCaptureMode(&mode);
	return mode;
}

#endif
