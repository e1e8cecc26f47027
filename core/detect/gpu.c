/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/detect/gpu.h"

#include <ctype.h>
#include <cuda_runtime_api.h>
#include <nvml.h>
#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "core/rank/cuda_result.h"

/* ---- NVLinks -------------------------------------------------------------------------------- */

/* From sm 90 on the link state is a field. A driver without the field has the call. */
static bool detect_nvml_link_up(nvmlDevice_t device, int32_t sm, unsigned int link)
{
	nvmlFieldValue_t v = {.fieldId = NVML_FI_DEV_NVLINK_GET_STATE, .scopeId = link};
	nvmlEnableState_t on = NVML_FEATURE_DISABLED;
	if (sm >= 90 && nvmlDeviceGetFieldValues(device, 1, &v) == NVML_SUCCESS &&
	    v.nvmlReturn == NVML_SUCCESS)
		return v.value.uiVal == NVML_FEATURE_ENABLED;
	return nvmlDeviceGetNvLinkState(device, link, &on) == NVML_SUCCESS &&
	       on == NVML_FEATURE_ENABLED;
}

static void detect_nvml_link_add(struct topo_detect_gpu *gpu, const nvmlPciInfo_t *far)
{
	char target[sizeof gpu->link[0].target];
	int32_t i = 0;
	/* The short bus id has a domain of four digits, as /sys and topology files do. */
	snprintf(target, sizeof target, "%.15s", far->busIdLegacy);
	for (char *p = target; *p; p++)
		*p = (char)tolower((unsigned char)*p);
	while (i < gpu->links && strcmp(gpu->link[i].target, target) != 0)
		i++;
	if (i == TOPO_DETECT_LINKS)
		return;
	if (i == gpu->links) {
		memcpy(gpu->link[i].target, target, sizeof target);
		gpu->link[i].count = 0;
		gpu->links++;
	}
	gpu->link[i].count++;
}

/* Counts the links that are up and may carry peer traffic, by the device at their far end. */
static void detect_nvml_links(nvmlDevice_t device, struct topo_detect_gpu *gpu)
{
	for (unsigned int link = 0; link < TOPO_DETECT_LINKS; link++) {
		unsigned int peers = 0;
		nvmlPciInfo_t far;
		nvmlReturn_t rc = nvmlDeviceGetNvLinkCapability(
			device, link, NVML_NVLINK_CAP_P2P_SUPPORTED, &peers);
		if (rc == NVML_ERROR_INVALID_ARGUMENT || (rc && link >= NVML_NVLINK_MAX_LINKS))
			return; /* no such link */
		if (rc || !peers || !detect_nvml_link_up(device, gpu->sm, link))
			continue;
		if (nvmlDeviceGetNvLinkRemotePciInfo(device, link, &far) == NVML_SUCCESS)
			detect_nvml_link_add(gpu, &far);
	}
}

/* ---- C2C, PCI ------------------------------------------------------------------------------- */

static void detect_nvml_c2c(nvmlDevice_t device, struct topo_detect_gpu *gpu)
{
	nvmlFieldValue_t v[2] = {{.fieldId = NVML_FI_DEV_C2C_LINK_COUNT}};
	if (gpu->sm < 90 || nvmlDeviceGetFieldValues(device, 1, v) || v[0].nvmlReturn)
		return;
	unsigned int count = v[0].value.uiVal < 64 ? v[0].value.uiVal : 64;
	for (unsigned int link = 0; link < count; link++) {
		v[0] = (nvmlFieldValue_t){.fieldId = NVML_FI_DEV_C2C_LINK_GET_STATUS,
					  .scopeId = link};
		v[1] = (nvmlFieldValue_t){.fieldId = NVML_FI_DEV_C2C_LINK_GET_MAX_BW,
					  .scopeId = link};
		if (nvmlDeviceGetFieldValues(device, 2, v) || v[0].nvmlReturn || v[1].nvmlReturn ||
		    v[0].value.uiVal != 1)
			continue;
		gpu->c2c++;
		gpu->c2c_mbps = (int32_t)(v[1].value.uiVal & INT32_MAX);
	}
}

static void detect_nvml_pci_link(nvmlDevice_t device, struct topo_detect_gpu *gpu)
{
	static const char speed[][8] = {"2.5", "5.0", "8.0", "16.0", "32.0", "64.0"};
	unsigned int generation = 0, width = 0;
	if (nvmlDeviceGetCurrPcieLinkGeneration(device, &generation) == NVML_SUCCESS &&
	    generation >= 1 && generation <= ARRAY_LEN(speed))
		snprintf(gpu->link_speed, sizeof gpu->link_speed, "%s GT/s PCIe",
			 speed[generation - 1]);
	if (nvmlDeviceGetCurrPcieLinkWidth(device, &width) == NVML_SUCCESS && width <= 32)
		gpu->link_width = (int32_t)width;
}

/* Adds NVML's facts about the GPU of gpu->bus_id. Facts that NVML lacks stay unchanged. */
static void detect_nvml_gpu(struct topo_detect_gpu *gpu)
{
	nvmlDevice_t device;
	nvmlReturn_t rc = nvmlInit();
	if (rc) {
		INFO(LOG_GRAPH, "NVML: %s: GPU %s without NVLinks", nvmlErrorString(rc),
		     gpu->bus_id);
		return;
	}
	rc = nvmlDeviceGetHandleByPciBusId(gpu->bus_id, &device);
	if (rc) {
		INFO(LOG_GRAPH, "NVML: GPU %s: %s: without NVLinks", gpu->bus_id,
		     nvmlErrorString(rc));
	} else {
		unsigned int index = 0;
		if (nvmlDeviceGetIndex(device, &index) == NVML_SUCCESS && index <= INT16_MAX)
			gpu->dev = (int32_t)index;
		detect_nvml_links(device, gpu);
		detect_nvml_c2c(device, gpu);
		detect_nvml_pci_link(device, gpu);
	}
	(void)nvmlShutdown();
}

int32_t detect_nvml_index(const char *bus_id)
{
	unsigned int index = 0;
	nvmlDevice_t device;
	bool known;

	if (nvmlInit())
		return -1;
	known = nvmlDeviceGetHandleByPciBusId(bus_id, &device) == NVML_SUCCESS &&
		nvmlDeviceGetIndex(device, &index) == NVML_SUCCESS;
	(void)nvmlShutdown();
	return known && index <= INT16_MAX ? (int32_t)index : -1;
}

/* ---- CUDA ----------------------------------------------------------------------------------- */

static ncclResult_t detect_attribute(int dev, enum cudaDeviceAttr attribute, int *value)
{
	return cuda_result(cudaDeviceGetAttribute(value, attribute, dev),
			   "cudaDeviceGetAttribute, for the topology");
}

ncclResult_t detect_gpu_facts(int dev, const char *bus_id, struct topo_detect_gpu *gpu)
{
	int major = 0, minor = 0, gdr = 0;
	ncclResult_t rc = detect_attribute(dev, cudaDevAttrComputeCapabilityMajor, &major);
	if (!rc)
		rc = detect_attribute(dev, cudaDevAttrComputeCapabilityMinor, &minor);
	if (!rc)
		rc = detect_attribute(dev, cudaDevAttrGPUDirectRDMASupported, &gdr);
	if (rc)
		return rc;
	memset(gpu, 0, sizeof *gpu);
	snprintf(gpu->bus_id, sizeof gpu->bus_id, "%.23s", bus_id);
	gpu->dev = -1;
	gpu->sm = 10 * major + minor;
	gpu->gdr = gdr != 0;
	detect_nvml_gpu(gpu);
	return ncclSuccess;
}
