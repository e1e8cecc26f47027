/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The driver's first calls, and names of its errors.
 */
#include "backends/fakecuda/fakecuda.h"

#include <cuda.h>
#include <string.h>

static const char *const result_words[] = {
#define RESULT_NAME(constant) #constant,
#include "backends/fakecuda/result_names.def"
#undef RESULT_NAME
};
static const CUresult result_values[] = {
#define RESULT_NAME(constant) constant,
#include "backends/fakecuda/result_names.def"
#undef RESULT_NAME
};

CUresult cuGetErrorName(CUresult error, const char **pStr)
{
	if (!pStr)
		return CUDA_ERROR_INVALID_VALUE;
	*pStr = NULL;
	for (size_t i = 0; i < ARRAY_LEN(result_values); i++) {
		if (result_values[i] == error)
			*pStr = result_words[i];
	}
	return *pStr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Driver and runtime use the same numbers for their common errors. */
CUresult cuGetErrorString(CUresult error, const char **pStr)
{
	const char *name;
	CUresult rc = cuGetErrorName(error, &name);
	if (!pStr)
		return CUDA_ERROR_INVALID_VALUE;
	*pStr = rc ? NULL : cudaGetErrorString((cudaError_t)error);
	return rc;
}

CUresult cuInit(unsigned int Flags)
{
	const struct fc_at at = FC_AT("cuInit");
	struct fc_proc *proc = fc_proc_get();

	if (proc && !Flags)
		__atomic_store_n(&proc->initialized, true, __ATOMIC_RELAXED);
	cudaError_t rc = Flags ? cudaErrorInvalidValue : fc_enter(at.call, &proc);
	return fc_driver_leave(rc);
}

CUresult cuDriverGetVersion(int *driverVersion)
{
	if (!driverVersion)
		return CUDA_ERROR_INVALID_VALUE;
	*driverVersion = CUDA_VERSION;
	return CUDA_SUCCESS;
}
