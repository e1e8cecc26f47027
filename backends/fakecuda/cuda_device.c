/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device queries: facts from the machine's XML, and facts that follow from a GPU's generation.
 * Attributes that no caller has needed abort with their number instead of returning 0.
 */
#include "backends/fakecuda/fakecuda.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"

#define DEVICE_SHARED_BLOCK   (48 << 10)
#define DEVICE_SHARED_OPTIN   (227 << 10)
#define DEVICE_SHARED_SM      (228 << 10)
#define DEVICE_MAX_THREADS    1024
#define DEVICE_DRIVER_VERSION 13000

/* ---- device numbers ------------------------------------------------------------------------- */

static cudaError_t device_check(const char *call, int ordinal, struct fc_proc **proc,
				struct fc_device **dev)
{
	if (ordinal < 0 || ordinal >= (*proc)->count) {
		fc_report("%s: device %d, this process has %d", call, ordinal, (*proc)->count);
		return cudaErrorInvalidDevice;
	}
	*dev = (*proc)->device[ordinal];
	return cudaSuccess;
}

/* Enters the call and checks the ordinal. Sets *dev on success. */
static cudaError_t device_of(const char *call, int ordinal, struct fc_proc **proc,
			     struct fc_device **dev)
{
	cudaError_t rc = fc_enter(call, proc);
	return rc ? rc : device_check(call, ordinal, proc, dev);
}

cudaError_t cudaGetDeviceCount(int *count)
{
	struct fc_proc *proc;
	cudaError_t rc = fc_enter("cudaGetDeviceCount", &proc);
	if (!rc && !count)
		rc = cudaErrorInvalidValue;
	if (rc)
		return fc_leave(rc);
	*count = proc->count;
	return fc_leave(proc->count ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int device)
{
	struct fc_proc *proc;
	struct fc_device *dev;
	cudaError_t rc = fc_enter_quiet("cudaSetDevice", &proc);
	if (!rc)
		rc = device_check("cudaSetDevice", device, &proc, &dev);
	if (rc)
		return fc_leave(rc);
	fc_lock();
	struct fc_ctx *ctx = fc_ctx_get(proc, device);
	fc_unlock();
	/* a sticky error is that of the requested GPU, not of the current one */
	rc = (cudaError_t)fc_fault_call("cudaSetDevice", ctx);
	if (!rc)
		fc_task_set_device(device);
	return fc_leave(rc);
}

cudaError_t cudaGetDevice(int *device)
{
	struct fc_proc *proc;
	cudaError_t rc = fc_enter("cudaGetDevice", &proc);
	if (!rc && !device)
		rc = cudaErrorInvalidValue;
	if (!rc)
		*device = fc_current();
	return fc_leave(rc);
}

/* CUDA formats bus ids with upper-case hexadecimal digits; the XML has lower-case ones. */
cudaError_t cudaDeviceGetPCIBusId(char *pciBusId, int len, int device)
{
	struct fc_proc *proc;
	struct fc_device *dev;
	cudaError_t rc = device_of("cudaDeviceGetPCIBusId", device, &proc, &dev);
	if (!rc && (!pciBusId || len <= (int)strlen(dev->gpu->bus_id)))
		rc = cudaErrorInvalidValue;
	if (rc)
		return fc_leave(rc);
	int i = 0;
	for (; dev->gpu->bus_id[i]; i++)
		pciBusId[i] = (char)toupper((unsigned char)dev->gpu->bus_id[i]);
	pciBusId[i] = 0;
	return fc_leave(cudaSuccess);
}

struct device_pci {
	unsigned int domain, bus, device, function;
};

/* Parses "[domain:]bus:device[.function]", in hexadecimal. */
static bool device_pci_parse(const char *text, struct device_pci *pci)
{
	*pci = (struct device_pci){0};
	if (sscanf(text, "%x:%x:%x.%x", &pci->domain, &pci->bus, &pci->device, &pci->function) >= 3)
		return true;
	*pci = (struct device_pci){0};
	return sscanf(text, "%x:%x.%x", &pci->bus, &pci->device, &pci->function) >= 2;
}

cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *pciBusId)
{
	struct fc_proc *proc;
	struct device_pci want, have;
	cudaError_t rc = fc_enter("cudaDeviceGetByPCIBusId", &proc);
	if (!rc && (!device || !pciBusId || !device_pci_parse(pciBusId, &want)))
		rc = cudaErrorInvalidValue;
	if (rc)
		return fc_leave(rc);
	for (int32_t i = 0; i < proc->count; i++) {
		if (device_pci_parse(proc->device[i]->gpu->bus_id, &have) &&
		    !memcmp(&have, &want, sizeof have)) {
			*device = i;
			return fc_leave(cudaSuccess);
		}
	}
	fc_report("cudaDeviceGetByPCIBusId: no visible GPU at %s", pciBusId);
	return fc_leave(cudaErrorInvalidDevice);
}

/* ---- attributes and properties -------------------------------------------------------------- */

static const char *device_name(const struct fc_device *dev)
{
	switch (dev->gpu->sm / 10) {
	case 6:
		return "Tesla P100-SXM2-16GB";
	case 7:
		return "Tesla V100-SXM2-32GB";
	case 8:
		return dev->gpu->sm == 80 ? "NVIDIA A100-SXM4-80GB" : "NVIDIA A40";
	case 9:
		return "NVIDIA H100 80GB HBM3";
	default:
		return "NVIDIA B200";
	}
}

/* Attributes with the same value for every GPU. CUDA and the driver use the same numbers.
 * Attributes that only the driver names are listed by number. */
static const struct device_fact {
	int attr, value;
} device_facts[] = {
	{cudaDevAttrMaxThreadsPerBlock, DEVICE_MAX_THREADS},
	{cudaDevAttrMaxBlockDimX, DEVICE_MAX_THREADS},
	{cudaDevAttrMaxGridDimX, INT32_MAX},
	{cudaDevAttrMaxSharedMemoryPerBlock, DEVICE_SHARED_BLOCK},
	{cudaDevAttrMaxSharedMemoryPerBlockOptin, DEVICE_SHARED_OPTIN},
	{cudaDevAttrMaxSharedMemoryPerMultiprocessor, DEVICE_SHARED_SM},
	{cudaDevAttrReservedSharedMemoryPerBlock, DEVICE_SHARED_SM - DEVICE_SHARED_OPTIN},
	{cudaDevAttrMaxBlocksPerMultiprocessor, 1}, /* a block occupies an SM: cuda_launch.c */
	{cudaDevAttrMaxThreadsPerMultiProcessor, DEVICE_MAX_THREADS},
	{cudaDevAttrAsyncEngineCount, 3}, /* to the GPU, from the GPU, between GPUs */
	{cudaDevAttrCanMapHostMemory, 1},
	{cudaDevAttrUnifiedAddressing, 1},
	{cudaDevAttrConcurrentKernels, 1},
	{cudaDevAttrStreamPrioritiesSupported, 1},
	{cudaDevAttrHostRegisterSupported, 1},
	{cudaDevAttrCanUseHostPointerForRegisteredMem, 1},
	{cudaDevAttrHostNativeAtomicSupported, 1},
	{cudaDevAttrIntegrated, 0},
	{cudaDevAttrKernelExecTimeout, 0},
	{cudaDevAttrComputeMode, cudaComputeModeDefault},
	{cudaDevAttrTccDriver, 0},
	{cudaDevAttrManagedMemory, 0},
	{cudaDevAttrConcurrentManagedAccess, 0},
	{cudaDevAttrPageableMemoryAccess, 0},
	{cudaDevAttrCooperativeLaunch, 0},
	{cudaDevAttrMemoryPoolsSupported, 0},
	{cudaDevAttrIpcEventSupport, 0},
	{cudaDevAttrClusterLaunch, 0},
	{cudaDevAttrGPUDirectRDMAFlushWritesOptions, 0},
	{102, 1}, /* CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED */
	{128, 0}, /* CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED */
	{132, 0}, /* CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED */
	{141, 1}, /* CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED */
};

/* Returns false if the attribute is not implemented. */
static bool device_fact(int attr, int *value)
{
	for (size_t i = 0; i < ARRAY_LEN(device_facts); i++) {
		if (device_facts[i].attr == attr) {
			*value = device_facts[i].value;
			return true;
		}
	}
	return false;
}

static int device_writes_ordering(const struct fc_device *dev)
{
	return dev->gpu->sm >= 90 ? cudaGPUDirectRDMAWritesOrderingAllDevices
				  : cudaGPUDirectRDMAWritesOrderingNone;
}

static bool device_attribute(const struct fc_device *dev, int attr, int *value)
{
	struct device_pci pci;
	bool parsed = device_pci_parse(dev->gpu->bus_id, &pci);
	ASSERT(parsed);
	switch (attr) {
	case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
		*value = !fc_share_on(); /* real processes cannot import memory of cuMem */
		return true;
	case cudaDevAttrWarpSize:
		*value = fc.width;
		return true;
	case cudaDevAttrMultiProcessorCount:
		*value = dev->sms;
		return true;
	case cudaDevAttrComputeCapabilityMajor:
		*value = (int)dev->gpu->sm / 10;
		return true;
	case cudaDevAttrComputeCapabilityMinor:
		*value = (int)dev->gpu->sm % 10;
		return true;
	case cudaDevAttrPciBusId:
		*value = (int)pci.bus;
		return true;
	case cudaDevAttrPciDeviceId:
		*value = (int)pci.device;
		return true;
	case cudaDevAttrPciDomainId:
		*value = (int)pci.domain;
		return true;
	case 110: /* CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED */
	case cudaDevAttrGPUDirectRDMASupported:
		*value = dev->gpu->gdr;
		return true;
	case 124: /* CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED */
		*value = dev->gpu->gdr && fc_rdma_has("dmabuf");
		return true;
	case cudaDevAttrGPUDirectRDMAWritesOrdering:
		*value = device_writes_ordering(dev);
		return true;
	case cudaDevAttrHostNumaId:
		*value = dev->gpu->numa;
		return true;
	default:
		return device_fact(attr, value);
	}
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device)
{
	struct fc_proc *proc;
	struct fc_device *dev;
	cudaError_t rc = device_of("cudaDeviceGetAttribute", device, &proc, &dev);
	if (!rc && (!value || attr <= 0 || attr >= cudaDevAttrMax))
		rc = cudaErrorInvalidValue;
	if (rc)
		return fc_leave(rc);
	int v;
	if (!device_attribute(dev, attr, &v)) {
		char name[64];
		snprintf(name, sizeof name, "device attribute %d", (int)attr);
		fc_unimplemented(name);
	}
	*value = v;
	return fc_leave(cudaSuccess);
}

static void device_prop_pci(struct cudaDeviceProp *prop, const struct fc_device *dev)
{
	struct device_pci pci;
	bool parsed = device_pci_parse(dev->gpu->bus_id, &pci);
	ASSERT(parsed);
	prop->pciDomainID = (int)pci.domain;
	prop->pciBusID = (int)pci.bus;
	prop->pciDeviceID = (int)pci.device;
	prop->gpuPciDeviceID = dev->gpu->pci_device;
	uint64_t id = hash64_combine(hash64_str(dev->gpu->bus_id), dev->host);
	memcpy(prop->uuid.bytes, &id, sizeof id);
	id = hash64_combine(id, dev->index);
	memcpy(prop->uuid.bytes + sizeof id, &id, sizeof id);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
	struct fc_proc *proc;
	struct fc_device *dev;
	cudaError_t rc = device_of("cudaGetDeviceProperties", device, &proc, &dev);
	if (!rc && !prop)
		rc = cudaErrorInvalidValue;
	if (rc)
		return fc_leave(rc);
	*prop = (struct cudaDeviceProp){
		.totalGlobalMem = dev->total_bytes,
		.sharedMemPerBlock = DEVICE_SHARED_BLOCK,
		.regsPerBlock = 65536,
		.warpSize = fc.width,
		.memPitch = INT32_MAX,
		.maxThreadsPerBlock = DEVICE_MAX_THREADS,
		.maxThreadsDim = {DEVICE_MAX_THREADS, 1, 1},
		.maxGridSize = {INT32_MAX, 1, 1},
		.totalConstMem = 65536,
		.major = (int)dev->gpu->sm / 10,
		.minor = (int)dev->gpu->sm % 10,
		.textureAlignment = FC_ALIGN,
		.texturePitchAlignment = 32,
		.multiProcessorCount = dev->sms,
		.canMapHostMemory = 1,
		.concurrentKernels = 1,
		.asyncEngineCount = 3,
		.unifiedAddressing = 1,
		.memoryBusWidth = 5120,
		.l2CacheSize = 50 << 20,
		.maxThreadsPerMultiProcessor = DEVICE_MAX_THREADS,
		.streamPrioritiesSupported = 1,
		.sharedMemPerMultiprocessor = DEVICE_SHARED_SM,
		.regsPerMultiprocessor = 65536,
		.hostNativeAtomicSupported = 1,
		.canUseHostPointerForRegisteredMem = 1,
		.sharedMemPerBlockOptin = DEVICE_SHARED_OPTIN,
		.maxBlocksPerMultiProcessor = 1,
		.reservedSharedMemPerBlock = DEVICE_SHARED_SM - DEVICE_SHARED_OPTIN,
		.hostRegisterSupported = 1,
		.gpuDirectRDMASupported = dev->gpu->gdr,
		.gpuDirectRDMAWritesOrdering = device_writes_ordering(dev),
		.hostNumaId = dev->gpu->numa,
	};
	snprintf(prop->name, sizeof prop->name, "%s", device_name(dev));
	device_prop_pci(prop, dev);
	return fc_leave(cudaSuccess);
}

/* ---- peers ---------------------------------------------------------------------------------- */

/* True for different GPUs of one host: each pair is connected by NVLink or PCIe. */
bool fc_device_peers(const struct fc_device *a, const struct fc_device *b)
{
	return a != b && a->host == b->host;
}

static cudaError_t device_pair(const char *call, int a, int b, struct fc_device **dev_a,
			       struct fc_device **dev_b)
{
	struct fc_proc *proc;
	cudaError_t rc = device_of(call, a, &proc, dev_a);
	if (rc)
		return rc;
	if (b < 0 || b >= proc->count) {
		fc_report("%s: peer device %d, this process has %d", call, b, proc->count);
		return cudaErrorInvalidDevice;
	}
	*dev_b = proc->device[b];
	return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *canAccessPeer, int device, int peerDevice)
{
	struct fc_device *a, *b;
	cudaError_t rc = device_pair("cudaDeviceCanAccessPeer", device, peerDevice, &a, &b);
	if (!rc && !canAccessPeer)
		rc = cudaErrorInvalidValue;
	if (!rc)
		*canAccessPeer = fc_device_peers(a, b);
	return fc_leave(rc);
}

cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attr, int srcDevice,
				      int dstDevice)
{
	struct fc_device *a, *b;
	cudaError_t rc = device_pair("cudaDeviceGetP2PAttribute", srcDevice, dstDevice, &a, &b);
	if (!rc && (!value || a == b))
		rc = cudaErrorInvalidValue;
	if (rc)
		return fc_leave(rc);
	bool nvlink = a->gpu->nvlinks && b->gpu->nvlinks;
	switch (attr) {
	case cudaDevP2PAttrPerformanceRank:
		*value = nvlink ? 0 : 1; /* 0: the best */
		break;
	case cudaDevP2PAttrAccessSupported:
		*value = fc_device_peers(a, b);
		break;
	case cudaDevP2PAttrNativeAtomicSupported:
		*value = nvlink;
		break;
	case cudaDevP2PAttrCudaArrayAccessSupported:
		*value = 0;
		break;
	default:
		return fc_leave(cudaErrorInvalidValue);
	}
	return fc_leave(cudaSuccess);
}

cudaError_t cudaDeviceEnablePeerAccess(int peerDevice, unsigned int flags)
{
	struct fc_ctx *ctx;
	struct fc_device *a, *b;
	cudaError_t rc =
		device_pair("cudaDeviceEnablePeerAccess", fc_current(), peerDevice, &a, &b);
	if (rc)
		return fc_leave(rc);
	if (flags)
		return fc_leave(cudaErrorInvalidValue);
	if (!fc_device_peers(a, b))
		return fc_leave(cudaErrorPeerAccessUnsupported);
	rc = fc_enter_ctx_quiet("cudaDeviceEnablePeerAccess", &ctx);
	if (rc)
		return fc_leave(rc);
	fc_lock();
	if (ctx->peers >> b->dev & 1)
		rc = cudaErrorPeerAccessAlreadyEnabled;
	ctx->peers |= 1ull << b->dev;
	fc_map_changed();
	fc_unlock();
	return fc_leave(rc);
}

cudaError_t cudaDeviceDisablePeerAccess(int peerDevice)
{
	struct fc_ctx *ctx;
	struct fc_device *a, *b;
	cudaError_t rc =
		device_pair("cudaDeviceDisablePeerAccess", fc_current(), peerDevice, &a, &b);
	if (!rc)
		rc = fc_enter_ctx_quiet("cudaDeviceDisablePeerAccess", &ctx);
	if (rc)
		return fc_leave(rc);
	fc_lock();
	if (!(ctx->peers >> b->dev & 1))
		rc = cudaErrorPeerAccessNotEnabled;
	ctx->peers &= ~(1ull << b->dev);
	fc_map_changed();
	fc_unlock();
	return fc_leave(rc);
}

/* ---- other calls ---------------------------------------------------------------------------- */

cudaError_t cudaDeviceReset(void)
{
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx("cudaDeviceReset", &ctx);
	if (!ctx || (rc && !ctx->sticky)) /* no GPU, or failed by the fault plan */
		return fc_leave(rc);
	if (!rc)
		rc = fc_ctx_wait(ctx, "cudaDeviceReset");
	fc_lock();
	if (rc) /* only the end of the process helps; an H200 behaves the same */
		ctx->sticky = cudaErrorDevicesUnavailable;
	else
		fc_ctx_reset(ctx);
	fc_unlock();
	return fc_leave(cudaSuccess);
}

cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value)
{
	struct fc_ctx *ctx;
	(void)value; /* the engine owns the stacks; there is no device heap */
	cudaError_t rc = fc_enter_ctx("cudaDeviceSetLimit", &ctx);
	if (!rc && limit != cudaLimitStackSize)
		rc = cudaErrorUnsupportedLimit;
	return fc_leave(rc);
}

static cudaError_t device_version(const char *call, int *version)
{
	struct fc_proc *proc;
	cudaError_t rc = fc_enter(call, &proc);
	if (!rc && !version)
		rc = cudaErrorInvalidValue;
	if (!rc)
		*version = DEVICE_DRIVER_VERSION;
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
