/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NVML from the machine's XML. It shows all GPUs of the host and ignores CUDA_VISIBLE_DEVICES. A
 * handle is the address of the GPU's struct fc_device.
 */
#include "backends/fakecuda/fakecuda.h"

#include <nvml.h>
#include <string.h>
#include <strings.h>

/* Succeeds if NVML is initialised, the host has GPUs, and the fault plan does not fail the call. */
static nvmlReturn_t nvml_enter(const char *call, struct fc_proc **proc)
{
	cudaError_t rc = fc_enter_quiet(call, proc);
	sim_events_drain();
	if (rc)
		return NVML_ERROR_DRIVER_NOT_LOADED;
	int fault = fc_fault_call(call, NULL);
	if (fault)
		return (nvmlReturn_t)fault;
	return (*proc)->nvml_inits ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

static nvmlReturn_t nvml_device_get(const struct fc_proc *proc, nvmlDevice_t handle,
				    struct fc_device **dev)
{
	for (uint32_t i = 0; i < fc.device_count; i++) {
		if ((nvmlDevice_t)(void *)&fc.device[i] == handle &&
		    fc.device[i].host == proc->os->host) {
			*dev = &fc.device[i];
			return NVML_SUCCESS;
		}
	}
	return NVML_ERROR_INVALID_ARGUMENT;
}

static nvmlReturn_t nvml_device(const char *call, nvmlDevice_t handle, struct fc_device **dev)
{
	struct fc_proc *proc;
	nvmlReturn_t rc = nvml_enter(call, &proc);
	return rc ? rc : nvml_device_get(proc, handle, dev);
}

nvmlReturn_t nvmlInit_v2(void)
{
	struct fc_proc *proc;
	nvmlReturn_t rc = nvml_enter("nvmlInit_v2", &proc);
	if (rc && rc != NVML_ERROR_UNINITIALIZED)
		return rc;
	fc_lock();
	proc->nvml_inits++;
	fc_unlock();
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlShutdown(void)
{
	struct fc_proc *proc;
	nvmlReturn_t rc = nvml_enter("nvmlShutdown", &proc);
	if (!proc || !proc->nvml_inits)
		return rc;
	fc_lock();
	proc->nvml_inits--; /* also if a fault makes the call fail */
	fc_unlock();
	return rc;
}

const char *nvmlErrorString(nvmlReturn_t result)
{
	switch (result) {
	case NVML_SUCCESS:
		return "Success";
	case NVML_ERROR_UNINITIALIZED:
		return "Uninitialized";
	case NVML_ERROR_INVALID_ARGUMENT:
		return "Invalid Argument";
	case NVML_ERROR_NOT_SUPPORTED:
		return "Not Supported";
	case NVML_ERROR_NOT_FOUND:
		return "Not Found";
	case NVML_ERROR_DRIVER_NOT_LOADED:
		return "Driver Not Loaded";
	default:
		return "Unknown Error";
	}
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *deviceCount)
{
	struct fc_proc *proc;
	nvmlReturn_t rc = nvml_enter("nvmlDeviceGetCount_v2", &proc);
	if (!rc && !deviceCount)
		rc = NVML_ERROR_INVALID_ARGUMENT;
	if (!rc)
		*deviceCount = (unsigned int)world_host_machine(proc->os->host)->gpu_count;
	return rc;
}

/* Finds the host's GPU for which `match` is true. */
static nvmlReturn_t nvml_find(const char *call,
			      bool (*match)(const struct fc_device *, const void *),
			      const void *key, nvmlDevice_t *device)
{
	struct fc_proc *proc;
	nvmlReturn_t rc = nvml_enter(call, &proc);
	if (rc)
		return rc;
	for (uint32_t i = 0; i < fc.device_count; i++) {
		if (fc.device[i].host == proc->os->host && match(&fc.device[i], key)) {
			*device = (nvmlDevice_t)(void *)&fc.device[i];
			return NVML_SUCCESS;
		}
	}
	return NVML_ERROR_NOT_FOUND;
}

static bool nvml_match_index(const struct fc_device *dev, const void *key)
{
	return (unsigned int)dev->dev == *(const unsigned int *)key;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
	if (!device)
		return NVML_ERROR_INVALID_ARGUMENT;
	nvmlReturn_t rc =
		nvml_find("nvmlDeviceGetHandleByIndex_v2", nvml_match_index, &index, device);
	return rc == NVML_ERROR_NOT_FOUND ? NVML_ERROR_INVALID_ARGUMENT : rc;
}

/* Matches a bus id. NVML formats a domain of 8 digits and also accepts 4. */
static bool nvml_match_bus_id(const struct fc_device *dev, const void *key)
{
	const char *id = key;
	if (strlen(id) == strlen(dev->gpu->bus_id) + 4 && !strncmp(id, "0000", 4))
		id += 4;
	return !strcasecmp(id, dev->gpu->bus_id);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *pciBusId, nvmlDevice_t *device)
{
	if (!pciBusId || !device)
		return NVML_ERROR_INVALID_ARGUMENT;
	return nvml_find("nvmlDeviceGetHandleByPciBusId_v2", nvml_match_bus_id, pciBusId, device);
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
	struct fc_device *dev;
	nvmlReturn_t rc = nvml_device("nvmlDeviceGetIndex", device, &dev);
	if (!rc && !index)
		rc = NVML_ERROR_INVALID_ARGUMENT;
	if (!rc)
		*index = (unsigned int)dev->dev;
	return rc;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
	struct fc_device *dev;
	nvmlReturn_t rc = nvml_device("nvmlDeviceGetCudaComputeCapability", device, &dev);
	if (!rc && (!major || !minor))
		rc = NVML_ERROR_INVALID_ARGUMENT;
	if (rc)
		return rc;
	*major = (int)dev->gpu->sm / 10;
	*minor = (int)dev->gpu->sm % 10;
	return rc;
}

/* ---- NVLink --------------------------------------------------------------------------------- */

/* Checks that the GPU has this link. All links that it has are up. */
static nvmlReturn_t nvml_link(const char *call, nvmlDevice_t device, unsigned int link,
			      struct fc_device **dev)
{
	nvmlReturn_t rc = nvml_device(call, device, dev);
	if (rc)
		return rc;
	if (!(*dev)->gpu->nvlinks)
		return NVML_ERROR_NOT_SUPPORTED;
	return link < (*dev)->gpu->nvlinks ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link,
				      nvmlEnableState_t *isActive)
{
	struct fc_device *dev;
	nvmlReturn_t rc = nvml_link("nvmlDeviceGetNvLinkState", device, link, &dev);
	if (!rc && !isActive)
		rc = NVML_ERROR_INVALID_ARGUMENT;
	if (!rc)
		*isActive = NVML_FEATURE_ENABLED;
	return rc;
}

nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned int link,
					   nvmlNvLinkCapability_t capability,
					   unsigned int *capResult)
{
	struct fc_device *dev;
	nvmlReturn_t rc = nvml_link("nvmlDeviceGetNvLinkCapability", device, link, &dev);
	if (!rc && (!capResult || (unsigned)capability >= NVML_NVLINK_CAP_COUNT))
		rc = NVML_ERROR_INVALID_ARGUMENT;
	if (!rc)
		*capResult = capability != NVML_NVLINK_CAP_SLI_BRIDGE;
	return rc;
}

/* Returns the bus id at the far end of the link. Links are numbered through the machine's NVLink
 * entries in order. */
static const char *nvml_link_target(const struct fc_device *dev, unsigned int link)
{
	const struct world_machine *m = world_host_machine(dev->host);
	const struct world_nvlink *l = m->nvlink + dev->gpu->first_nvlink;
	while (link >= l->count)
		link -= l++->count;
	return l->target[0] ? l->target : "fffffff:ff:ff.0";
}

/* Fills the bus ids. The legacy one is truncated to its field, as in NVML. */
static bool nvml_pci_fill(nvmlPciInfo_t *pci, const char *bus_id)
{
	unsigned int function;
	memset(pci, 0, sizeof *pci);
	if (sscanf(bus_id, "%x:%x:%x.%x", &pci->domain, &pci->bus, &pci->device, &function) != 4)
		return false;
	char text[64];
	snprintf(text, sizeof text, "%04X:%02X:%02X.%X", pci->domain, pci->bus & 0xff,
		 pci->device & 0xff, function & 0xf);
	memcpy(pci->busIdLegacy, text, sizeof pci->busIdLegacy - 1);
	snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:%02X.%X", pci->domain, pci->bus & 0xff,
		 pci->device & 0xff, function & 0xf);
	return true;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link,
						 nvmlPciInfo_t *pci)
{
	struct fc_device *dev;
	nvmlReturn_t rc = nvml_link("nvmlDeviceGetNvLinkRemotePciInfo_v2", device, link, &dev);
	if (!rc && !pci)
		rc = NVML_ERROR_INVALID_ARGUMENT;
	if (!rc && !nvml_pci_fill(pci, nvml_link_target(dev, link)))
		rc = NVML_ERROR_NOT_FOUND; /* the XML's target is not a PCI address */
	return rc;
}

/* ---- PCI link, fields ----------------------------------------------------------------------- */

/* Returns the PCI width or generation. A value that the XML lacks is not supported, as a driver may
 * not know it. */
static nvmlReturn_t nvml_known(const char *call, nvmlDevice_t device, bool width,
			       unsigned int *value)
{
	struct fc_device *dev;
	nvmlReturn_t rc = nvml_device(call, device, &dev);
	if (!rc && !value)
		rc = NVML_ERROR_INVALID_ARGUMENT;
	if (rc)
		return rc;
	uint32_t known = width ? dev->gpu->pci_width : dev->gpu->pci_generation;
	if (known)
		*value = known;
	return known ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device, unsigned int *currLinkGen)
{
	return nvml_known("nvmlDeviceGetCurrPcieLinkGeneration", device, false, currLinkGen);
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned int *currLinkWidth)
{
	return nvml_known("nvmlDeviceGetCurrPcieLinkWidth", device, true, currLinkWidth);
}

static nvmlReturn_t nvml_field(const struct world_gpu *gpu, nvmlFieldValue_t *v)
{
	bool c2c = gpu->c2c && v->scopeId < gpu->c2c;
	v->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
	switch (v->fieldId) {
	case NVML_FI_DEV_NVLINK_GET_STATE:
		v->value.uiVal = NVML_FEATURE_ENABLED;
		return v->scopeId < gpu->nvlinks ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
	case NVML_FI_DEV_C2C_LINK_COUNT:
		v->value.uiVal = gpu->c2c;
		return gpu->c2c ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
	case NVML_FI_DEV_C2C_LINK_GET_STATUS:
		v->value.uiVal = 1;
		return c2c ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
	case NVML_FI_DEV_C2C_LINK_GET_MAX_BW:
		v->value.uiVal = gpu->c2c_mbps;
		return c2c ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
	default:
		return NVML_ERROR_NOT_SUPPORTED;
	}
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int valuesCount,
				      nvmlFieldValue_t *values)
{
	struct fc_device *dev;
	nvmlReturn_t rc = nvml_device("nvmlDeviceGetFieldValues", device, &dev);
	if (!rc && (!values || valuesCount < 1))
		rc = NVML_ERROR_INVALID_ARGUMENT;
	for (int i = 0; i < valuesCount && !rc; i++)
		values[i].nvmlReturn = nvml_field(dev->gpu, &values[i]);
	return rc;
}

/* ---- peers ---------------------------------------------------------------------------------- */

nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device1, nvmlDevice_t device2,
				    nvmlGpuP2PCapsIndex_t p2pIndex, nvmlGpuP2PStatus_t *p2pStatus)
{
	struct fc_device *a, *b;
	struct fc_proc *proc;
	nvmlReturn_t rc = nvml_enter("nvmlDeviceGetP2PStatus", &proc);
	if (!rc)
		rc = nvml_device_get(proc, device1, &a);
	if (!rc)
		rc = nvml_device_get(proc, device2, &b);
	if (!rc && (!p2pStatus || (unsigned)p2pIndex >= NVML_P2P_CAPS_INDEX_UNKNOWN))
		rc = NVML_ERROR_INVALID_ARGUMENT;
	if (rc)
		return rc;
	bool nvlink = a->gpu->nvlinks && b->gpu->nvlinks;
	bool needs_nvlink =
		p2pIndex == NVML_P2P_CAPS_INDEX_NVLINK || p2pIndex == NVML_P2P_CAPS_INDEX_ATOMICS;
	*p2pStatus = needs_nvlink && !nvlink ? NVML_P2P_STATUS_NOT_SUPPORTED : NVML_P2P_STATUS_OK;
	return NVML_SUCCESS;
}
