/* SPDX-License-Identifier: BSD-3-Clause */
/* Attributes of devices: constants of device_attributes.def, and those of the world's GPU. Driver
 * and runtime have the same numbers for them. */
#include "backends/fakecuda/fakecuda.h"

#define COMPUTED                0
#define ATTR(name, h100, value) [CU_DEVICE_ATTRIBUTE_##name] = (value),
static const int attribute_values[CU_DEVICE_ATTRIBUTE_MAX] = {
#include "backends/fakecuda/device_attributes.def"
};

static int device_writes_ordering(const struct fc_device *dev)
{
	return dev->gpu->sm >= 90 ? cudaGPUDirectRDMAWritesOrderingAllDevices
				  : cudaGPUDirectRDMAWritesOrderingNone;
}

int fc_device_attribute(const struct fc_device *dev, CUdevice_attribute attr)
{
	struct fc_pci pci;
	bool parsed = fc_device_pci_parse(dev->gpu->bus_id, &pci);
	ASSERT(parsed);
	switch ((int)attr) {
	case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
		return fc.width;
	case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
		return dev->sms;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
		return (int)dev->gpu->sm / 10;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
		return (int)dev->gpu->sm % 10;
	case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
		return (int)pci.bus;
	case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
		return (int)pci.device;
	case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
		return (int)pci.domain;
	case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED:
		return dev->gpu->gdr;
	case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
		return dev->gpu->gdr && fc_rdma_has("dmabuf");
	case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING:
		return device_writes_ordering(dev);
	case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID:
		return dev->gpu->numa;
	default:
		ASSERT(attr > 0 && attr < CU_DEVICE_ATTRIBUTE_MAX);
		return attribute_values[attr];
	}
}
