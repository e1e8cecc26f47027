/* SPDX-License-Identifier: BSD-3-Clause */
/* Attributes of kernels. cuda_launch.c registers and launches them. */
#include "backends/fakecuda/fakecuda.h"

cudaError_t cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute attr, int value)
{
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx("cudaFuncSetAttribute", &ctx);
	if (rc)
		return fc_leave(rc);
	struct fc_func *f;
	rc = fc_func_get(func, "cudaFuncSetAttribute", &f);
	if (rc)
		return fc_leave(rc);
	switch (attr) {
	case cudaFuncAttributeMaxDynamicSharedMemorySize:
		if (value < 0 || value + (int64_t)fc_func_static_shared(f) > LAUNCH_SHARED_MAX) {
			fc_report("cudaFuncSetAttribute: %d bytes of dynamic and %u of static "
				  "shared memory, a block has %d",
				  value, fc_func_static_shared(f), LAUNCH_SHARED_MAX);
			return fc_leave(cudaErrorInvalidValue);
		}
		fc_lock();
		f->opted_shared = value;
		fc_unlock();
		break;
	case cudaFuncAttributePreferredSharedMemoryCarveout:
	case cudaFuncAttributeNonPortableClusterSizeAllowed:
		break; /* hints */
	default:
		fc_report("cudaFuncSetAttribute: attribute %d", (int)attr);
		return fc_leave(cudaErrorInvalidValue);
	}
	return fc_leave(cudaSuccess);
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attr, const void *func)
{
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx("cudaFuncGetAttributes", &ctx);
	if (!rc && !attr)
		rc = cudaErrorInvalidValue;
	if (rc)
		return fc_leave(rc);
	struct fc_func *f;
	rc = fc_func_get(func, "cudaFuncGetAttributes", &f);
	if (rc)
		return fc_leave(rc);
	int version = (int)ctx->dev->gpu->sm;
	fc_lock();
	*attr = (struct cudaFuncAttributes){.maxThreadsPerBlock = LAUNCH_MAX_THREADS,
					    .sharedSizeBytes = fc_func_static_shared(f),
					    .numRegs = 64,
					    .ptxVersion = version,
					    .binaryVersion = version,
					    .maxDynamicSharedSizeBytes = fc_func_dynamic_most(f),
					    .preferredShmemCarveout = -1};
	fc_unlock();
	return fc_leave(cudaSuccess);
}

/* The driver's handle of a kernel is the address that the runtime knows. */
cudaError_t cudaGetFuncBySymbol(cudaFunction_t *functionPtr, const void *symbolPtr)
{
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx("cudaGetFuncBySymbol", &ctx);

	if (!rc && !functionPtr)
		rc = cudaErrorInvalidValue;
	if (!rc && !fc_func_find(symbolPtr)) {
		fc_report("cudaGetFuncBySymbol: %p is not a registered kernel", symbolPtr);
		rc = cudaErrorInvalidDeviceFunction;
	}
	if (!rc)
		*functionPtr = (cudaFunction_t)(uintptr_t)symbolPtr;
	return fc_leave(rc);
}
