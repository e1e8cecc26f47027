/* SPDX-License-Identifier: BSD-3-Clause */
/* Launches with attributes, and those of the driver. */
#include "backends/fakecuda/fakecuda.h"

DOPPEL_CHECK_SIZE(CUlaunchAttribute, sizeof(cudaLaunchAttribute));
DOPPEL_CHECK_OFFSET(CUlaunchAttribute, value, offsetof(cudaLaunchAttribute, val));

enum { LAUNCH_CLUSTER_BLOCKS = 8 }; /* a size that every GPU with clusters can place */

/* True for attributes that have no effect here: hints, and the permission to start before the
 * stream's previous kernel has ended. Attributes that would change the meaning are refused. */
static bool launch_attribute_known(cudaLaunchAttributeID id)
{
	switch (id) {
	case cudaLaunchAttributeIgnore:
	case cudaLaunchAttributeClusterDimension:
	case cudaLaunchAttributeClusterSchedulingPolicyPreference:
	case cudaLaunchAttributeProgrammaticStreamSerialization:
	case cudaLaunchAttributeMemSyncDomain:
	case cudaLaunchAttributeMemSyncDomainMap:
	case cudaLaunchAttributePriority:
	case cudaLaunchAttributeNvlinkUtilCentricScheduling:
		return true;
	default:
		return false;
	}
}

/* True if the cluster fits; no dimensions mean no cluster. Sizes and errors are those of an H200
 * with driver 580. */
static bool launch_cluster_fits(const cudaLaunchConfig_t *config, unsigned int x, unsigned int y,
				unsigned int z)
{
	const dim3 grid = config->gridDim;

	if (!x && !y && !z)
		return true;
	return x && y && z && x * y * z <= LAUNCH_CLUSTER_BLOCKS && grid.x % x == 0 &&
	       grid.y % y == 0 && grid.z % z == 0;
}

static cudaError_t launch_attribute_check(const cudaLaunchConfig_t *config,
					  const cudaLaunchAttribute *a)
{
	char name[64];

	if (!launch_attribute_known(a->id)) {
		snprintf(name, sizeof name, "a launch with attribute %d", (int)a->id);
		fc_unimplemented(name);
	}
	if (a->id != cudaLaunchAttributeClusterDimension ||
	    launch_cluster_fits(config, a->val.clusterDim.x, a->val.clusterDim.y,
				a->val.clusterDim.z))
		return cudaSuccess;
	fc_report("launch: clusters of %u x %u x %u blocks in a grid of %u x %u x %u; "
		  "expected at most %d blocks, of sizes that divide the grid's",
		  a->val.clusterDim.x, a->val.clusterDim.y, a->val.clusterDim.z, config->gridDim.x,
		  config->gridDim.y, config->gridDim.z, LAUNCH_CLUSTER_BLOCKS);
	return cudaErrorInvalidClusterSize;
}

static cudaError_t launch_ex(const char *call, const cudaLaunchConfig_t *config, const void *func,
			     const struct fc_launch_args *a)
{
	struct fc_proc *proc;
	cudaError_t bad = config ? cudaSuccess : cudaErrorInvalidValue;

	for (unsigned int i = 0; config && !bad && i < config->numAttrs; i++)
		bad = launch_attribute_check(config, &config->attrs[i]);
	if (bad) {
		cudaError_t rc = fc_enter(call, &proc);
		return fc_leave(rc ? rc : bad);
	}
	struct fc_launch_args all = *a;
	all.grid = config->gridDim;
	all.block = config->blockDim;
	all.shared = config->dynamicSmemBytes;
	all.stream = config->stream;
	return fc_launch_call(call, func, &all);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *func, void **args)
{
	const struct fc_launch_args a = {.params = args, .caller = __builtin_return_address(0)};

	return launch_ex("cudaLaunchKernelExC", config, func, &a);
}

/* The driver's calls leave the runtime's last error as it is. */
CUresult cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
			unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
			unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
			void **kernelParams, void **extra)
{
	const struct fc_launch_args a = {.grid = {gridDimX, gridDimY, gridDimZ},
					 .block = {blockDimX, blockDimY, blockDimZ},
					 .params = kernelParams,
					 .extra = extra,
					 .shared = sharedMemBytes,
					 .stream = hStream,
					 .caller = __builtin_return_address(0)};
	cudaError_t before = fc_task_error();
	cudaError_t rc = fc_launch_call("cuLaunchKernel", f, &a);

	fc_task_set_error(before);
	return (CUresult)rc;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams,
			  void **extra)
{
	const struct fc_launch_args a = {
		.params = kernelParams, .extra = extra, .caller = __builtin_return_address(0)};
	const cudaLaunchConfig_t c =
		!config ? (cudaLaunchConfig_t){0}
			: (cudaLaunchConfig_t){
				  .gridDim = {config->gridDimX, config->gridDimY, config->gridDimZ},
				  .blockDim = {config->blockDimX, config->blockDimY,
					       config->blockDimZ},
				  .dynamicSmemBytes = config->sharedMemBytes,
				  .stream = config->hStream,
				  /* the layouts are equal */
				  .attrs = (cudaLaunchAttribute *)config->attrs,
				  .numAttrs = config->numAttrs};
	cudaError_t before = fc_task_error();
	cudaError_t rc = launch_ex("cuLaunchKernelEx", config ? &c : NULL, f, &a);

	fc_task_set_error(before);
	return (CUresult)rc;
}
