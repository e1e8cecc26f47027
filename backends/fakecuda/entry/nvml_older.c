/* SPDX-License-Identifier: BSD-3-Clause */
/* The first names of NVML's functions. Programs that load the library themselves find them. */
#include "backends/fakecuda/fakecuda.h"

#include <nvml.h>

#include <string.h>

#undef nvmlInit
#undef nvmlDeviceGetCount
#undef nvmlDeviceGetHandleByIndex
#undef nvmlDeviceGetHandleByPciBusId
#undef nvmlDeviceGetNvLinkRemotePciInfo

#define OLDER(name, ...)                                                                           \
	FAKECUDA_API nvmlReturn_t name(__VA_ARGS__);                                               \
	nvmlReturn_t name(__VA_ARGS__)

OLDER(nvmlInit, void)
{
	return nvmlInit_v2();
}

OLDER(nvmlDeviceGetCount, unsigned int *deviceCount)
{
	return nvmlDeviceGetCount_v2(deviceCount);
}

OLDER(nvmlDeviceGetHandleByIndex, unsigned int index, nvmlDevice_t *device)
{
	return nvmlDeviceGetHandleByIndex_v2(index, device);
}

OLDER(nvmlDeviceGetHandleByPciBusId, const char *pciBusId, nvmlDevice_t *device)
{
	return nvmlDeviceGetHandleByPciBusId_v2(pciBusId, device);
}

/* The first layout has the short bus id, the five numbers and four reserved words. */
struct nvml_pci_first {
	char bus_id[NVML_DEVICE_PCI_BUS_ID_BUFFER_V2_SIZE];
	unsigned int domain, bus, device, pci_device_id, pci_sub_system_id, reserved[4];
};
DOPPEL_CHECK_SIZE(struct nvml_pci_first, 52);
DOPPEL_CHECK_OFFSET(struct nvml_pci_first, reserved, offsetof(nvmlPciInfo_t, busId));

OLDER(nvmlDeviceGetNvLinkRemotePciInfo, nvmlDevice_t device, unsigned int link, void *pci)
{
	struct nvml_pci_first first = {0};
	nvmlPciInfo_t info;
	nvmlReturn_t rc = nvmlDeviceGetNvLinkRemotePciInfo_v2(device, link, pci ? &info : NULL);

	if (rc)
		return rc;
	memcpy(&first, &info, offsetof(struct nvml_pci_first, reserved));
	memcpy(pci, &first, sizeof first);
	return NVML_SUCCESS;
}
