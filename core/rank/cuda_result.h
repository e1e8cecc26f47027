/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From a CUDA result to ours, with the one line that an error deserves. Called by every room from
 * here up, right at the CUDA call. Owns nothing.
 */
#ifndef CORE_RANK_CUDA_RESULT_H
#define CORE_RANK_CUDA_RESULT_H

#include <cuda_runtime_api.h>

#include "core/base/log.h"
#include "core/include/nccl.h"

/* `what` was attempted: "cudaMalloc of p2p connection memory". */
static inline ncclResult_t cuda_result(cudaError_t e, const char *what)
{
	if (e == cudaSuccess)
		return ncclSuccess;
	WARN("%s: %s (%d)", what, cudaGetErrorString(e), (int)e);
	return ncclUnhandledCudaError;
}

/* The calling thread does what a capture in another thread would forbid, as to allocate memory.
 * Returns the mode that it had. */
static inline enum cudaStreamCaptureMode cuda_capture_mode(enum cudaStreamCaptureMode mode)
{
	(void)cudaThreadExchangeStreamCaptureMode(&mode);
	return mode;
}

#endif
