/* SPDX-License-Identifier: BSD-3-Clause */
/* The runtime's calls about devices. Most of them call one function of the driver. */
#include "backends/fakecuda/fakecuda.h"

#include <stdio.h>

/* ---- the current device --------------------------------------------------------------------- */

cudaError_t cudaGetDeviceCount(int *count)
{
	cudaError_t rc = FC_RUNTIME("cudaGetDeviceCount", cuDeviceGetCount(count));

	return rc || *count ? rc : fc_runtime_leave(CUDA_ERROR_NO_DEVICE);
}

cudaError_t cudaSetDevice(int device)
{
	static const char call[] = "cudaSetDevice";
	struct fc_proc *proc;
	cudaError_t rc = fc_enter_quiet(call, &proc);

	if (!rc && (device < 0 || device >= proc->count)) {
		fc_report("%s: device %d, this process has %d", call, device, proc->count);
		rc = cudaErrorInvalidDevice;
	}
	if (rc)
		return fc_leave(rc);
	fc_lock();
	struct fc_ctx *ctx = fc_ctx_get(proc, device);
	fc_unlock();
	/* a sticky error is that of the requested GPU, not of the current one */
	rc = (cudaError_t)fc_fault_call(call, ctx);
	if (!rc) {
		fc_task_set_device(device);
		fc_lock();
		rc = fc_context_enter(call, proc);
		fc_unlock();
	}
	return fc_leave(rc);
}

/* The device of the current context, or the one of which the runtime would make it. */
cudaError_t cudaGetDevice(int *device)
{
	struct fc_proc *proc;
	cudaError_t rc = fc_enter("cudaGetDevice", &proc);

	if (!rc && !device)
		rc = cudaErrorInvalidValue;
	if (!rc)
		*device = fc_current_device(proc);
	return fc_leave(rc);
}

cudaError_t cudaDeviceReset(void)
{
	struct fc_proc *proc = fc_proc_get();
	const int32_t device = proc ? fc_current_device(proc) : 0;

	return FC_RUNTIME("cudaDeviceReset", cuDevicePrimaryCtxReset(device));
}

cudaError_t cudaDeviceSynchronize(void)
{
	return FC_RUNTIME("cudaDeviceSynchronize", cuCtxSynchronize());
}

cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value)
{
	return FC_RUNTIME("cudaDeviceSetLimit", cuCtxSetLimit((CUlimit)limit, value));
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
	return FC_RUNTIME("cudaDeviceGetStreamPriorityRange",
			  cuCtxGetStreamPriorityRange(leastPriority, greatestPriority));
}

/* ---- queries -------------------------------------------------------------------------------- */

cudaError_t cudaDeviceGetPCIBusId(char *pciBusId, int len, int device)
{
	return FC_RUNTIME("cudaDeviceGetPCIBusId", cuDeviceGetPCIBusId(pciBusId, len, device));
}

cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *pciBusId)
{
	return FC_RUNTIME("cudaDeviceGetByPCIBusId", cuDeviceGetByPCIBusId(device, pciBusId));
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device)
{
	return FC_RUNTIME("cudaDeviceGetAttribute",
			  cuDeviceGetAttribute(value, (CUdevice_attribute)attr, device));
}

/* Stores what an attribute has, too. */
static void properties_of_attributes(struct cudaDeviceProp *prop, const struct fc_device *dev)
{
	const struct property {
		int *at;
		CUdevice_attribute attr;
	} all[] = {
		{&prop->warpSize, CU_DEVICE_ATTRIBUTE_WARP_SIZE},
		{&prop->maxThreadsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK},
		{&prop->regsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK},
		{&prop->major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR},
		{&prop->minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR},
		{&prop->multiProcessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
		{&prop->canMapHostMemory, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY},
		{&prop->concurrentKernels, CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS},
		{&prop->asyncEngineCount, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT},
		{&prop->unifiedAddressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING},
		{&prop->memoryBusWidth, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH},
		{&prop->l2CacheSize, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE},
		{&prop->maxThreadsPerMultiProcessor,
		 CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR},
		{&prop->streamPrioritiesSupported, CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED},
		{&prop->regsPerMultiprocessor,
		 CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR},
		{&prop->hostNativeAtomicSupported,
		 CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED},
		{&prop->canUseHostPointerForRegisteredMem,
		 CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM},
		{&prop->maxBlocksPerMultiProcessor,
		 CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR},
		{&prop->hostRegisterSupported, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED},
		{&prop->gpuDirectRDMASupported, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED},
		{&prop->gpuDirectRDMAWritesOrdering,
		 CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING},
		{&prop->managedMemory, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY},
		{&prop->concurrentManagedAccess, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS},
		{&prop->memoryPoolsSupported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED},
		{&prop->hostNumaId, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID},
		{&prop->pciDomainID, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID},
		{&prop->pciBusID, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID},
		{&prop->pciDeviceID, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID},
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		*all[i].at = fc_device_attribute(dev, all[i].attr);
}

static size_t attribute_bytes(const struct fc_device *dev, CUdevice_attribute attr)
{
	return (size_t)fc_device_attribute(dev, attr);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
	static const char call[] = "cudaGetDeviceProperties";
	struct fc_proc *proc;
	cudaError_t rc = fc_enter(call, &proc);

	if (!rc && (device < 0 || device >= proc->count)) {
		fc_report("%s: device %d, this process has %d", call, device, proc->count);
		rc = cudaErrorInvalidDevice;
	}
	if (!rc && !prop)
		rc = cudaErrorInvalidValue;
	if (rc)
		return fc_leave(rc);
	const struct fc_device *dev = proc->device[device];
	*prop = (struct cudaDeviceProp){
		.totalGlobalMem = dev->total_bytes,
		.sharedMemPerBlock =
			attribute_bytes(dev, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK),
		.memPitch = attribute_bytes(dev, CU_DEVICE_ATTRIBUTE_MAX_PITCH),
		.maxThreadsDim = {fc_device_attribute(dev, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X), 1,
				  1},
		.maxGridSize = {fc_device_attribute(dev, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X), 1, 1},
		.totalConstMem = attribute_bytes(dev, CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY),
		.textureAlignment = attribute_bytes(dev, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT),
		.texturePitchAlignment =
			attribute_bytes(dev, CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT),
		.sharedMemPerMultiprocessor = attribute_bytes(
			dev, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
		.sharedMemPerBlockOptin =
			attribute_bytes(dev, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
		.reservedSharedMemPerBlock =
			attribute_bytes(dev, CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK),
		.gpuPciDeviceID = dev->gpu->pci_device,
	};
	properties_of_attributes(prop, dev);
	snprintf(prop->name, sizeof prop->name, "%s", fc_device_name(dev));
	fc_device_uuid(dev, &prop->uuid);
	return fc_leave(cudaSuccess);
}

/* ---- peers ---------------------------------------------------------------------------------- */

cudaError_t cudaDeviceCanAccessPeer(int *canAccessPeer, int device, int peerDevice)
{
	return FC_RUNTIME("cudaDeviceCanAccessPeer",
			  cuDeviceCanAccessPeer(canAccessPeer, device, peerDevice));
}

cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attr, int srcDevice,
				      int dstDevice)
{
	return FC_RUNTIME(
		"cudaDeviceGetP2PAttribute",
		cuDeviceGetP2PAttribute(value, (CUdevice_P2PAttribute)attr, srcDevice, dstDevice));
}

/* A peer that does not exist has no context. */
static cudaError_t peer_missing(const char *call, int peer)
{
	fc_report("%s: there is no peer device %d", call, peer);
	return fc_leave(cudaErrorInvalidDevice);
}

cudaError_t cudaDeviceEnablePeerAccess(int peerDevice, unsigned int flags)
{
	static const char call[] = "cudaDeviceEnablePeerAccess";
	CUcontext peer = fc_context_of(peerDevice);

	if (!peer)
		return peer_missing(call, peerDevice);
	return FC_RUNTIME(call, cuCtxEnablePeerAccess(peer, flags));
}

cudaError_t cudaDeviceDisablePeerAccess(int peerDevice)
{
	static const char call[] = "cudaDeviceDisablePeerAccess";
	CUcontext peer = fc_context_of(peerDevice);

	if (!peer)
		return peer_missing(call, peerDevice);
	return FC_RUNTIME(call, cuCtxDisablePeerAccess(peer));
}

/* ---- versions ------------------------------------------------------------------------------- */

static cudaError_t device_version(const char *call, int *version)
{
	struct fc_proc *proc;
	cudaError_t rc = fc_enter(call, &proc);

	if (!rc && !version)
		rc = cudaErrorInvalidValue;
	if (!rc)
		*version = CUDA_VERSION;
	return fc_leave(rc);
}

cudaError_t cudaDriverGetVersion(int *driverVersion)
{
	return device_version("cudaDriverGetVersion", driverVersion);
}

cudaError_t cudaRuntimeGetVersion(int *runtimeVersion)
{
	return device_version("cudaRuntimeGetVersion", runtimeVersion);
}
