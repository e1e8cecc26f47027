/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The NVML calls of backends/INTERFACE.md as hidden thunks over libnvidia-ml.so.1, opened at run
 * time. nvmlInit_v2 opens the library and nvmlShutdown closes that reference. The calls between
 * them find the library by name, so there is no state here.
 *
 * Without the library, calls return NVML_ERROR_LIBRARY_NOT_FOUND. With one that lacks the function,
 * they return NVML_ERROR_FUNCTION_NOT_FOUND. The caller continues without NVML.
 */
#include <dlfcn.h>
#include <nvml.h>
#include <stddef.h>

#define NVML_LIBRARY "libnvidia-ml.so.1"

static void *nvml_function(const char *name, nvmlReturn_t *missing)
{
	void *library = dlopen(NVML_LIBRARY, RTLD_NOW | RTLD_NOLOAD);
	void *fn = NULL;

	*missing = NVML_ERROR_UNINITIALIZED;
	if (!library)
		return NULL;
	*missing = NVML_ERROR_FUNCTION_NOT_FOUND;
	fn = dlsym(library, name);
	dlclose(library); /* nvmlInit_v2's reference keeps the library loaded */
	return fn;
}

nvmlReturn_t nvmlInit_v2(void)
{
	void *library = dlopen(NVML_LIBRARY, RTLD_NOW);
	nvmlReturn_t (*fn)(void), rc;

	if (!library)
		return NVML_ERROR_LIBRARY_NOT_FOUND;
	*(void **)&fn = dlsym(library, "nvmlInit_v2");
	rc = fn ? fn() : NVML_ERROR_FUNCTION_NOT_FOUND;
	if (rc != NVML_SUCCESS)
		dlclose(library);
	return rc;
}

nvmlReturn_t nvmlShutdown(void)
{
	void *library = dlopen(NVML_LIBRARY, RTLD_NOW | RTLD_NOLOAD);
	nvmlReturn_t (*fn)(void), rc = NVML_ERROR_FUNCTION_NOT_FOUND;

	if (!library)
		return NVML_ERROR_UNINITIALIZED;
	*(void **)&fn = dlsym(library, "nvmlShutdown");
	if (fn)
		rc = fn();
	dlclose(library);
	if (rc == NVML_SUCCESS)
		dlclose(library); /* the reference of nvmlInit_v2 */
	return rc;
}

const char *nvmlErrorString(nvmlReturn_t result)
{
	nvmlReturn_t missing;
	const char *(*fn)(nvmlReturn_t);

	*(void **)&fn = nvml_function("nvmlErrorString", &missing);
	if (fn)
		return fn(result);
	return result == NVML_ERROR_LIBRARY_NOT_FOUND ? NVML_LIBRARY " is not installed"
						      : "NVML is not initialised";
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *deviceCount)
{
	nvmlReturn_t missing, (*fn)(unsigned int *);

	*(void **)&fn = nvml_function("nvmlDeviceGetCount_v2", &missing);
	return fn ? fn(deviceCount) : missing;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
	nvmlReturn_t missing, (*fn)(unsigned int, nvmlDevice_t *);

	*(void **)&fn = nvml_function("nvmlDeviceGetHandleByIndex_v2", &missing);
	return fn ? fn(index, device) : missing;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *pciBusId, nvmlDevice_t *device)
{
	nvmlReturn_t missing, (*fn)(const char *, nvmlDevice_t *);

	*(void **)&fn = nvml_function("nvmlDeviceGetHandleByPciBusId_v2", &missing);
	return fn ? fn(pciBusId, device) : missing;
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
	nvmlReturn_t missing, (*fn)(nvmlDevice_t, unsigned int *);

	*(void **)&fn = nvml_function("nvmlDeviceGetIndex", &missing);
	return fn ? fn(device, index) : missing;
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link,
				      nvmlEnableState_t *isActive)
{
	nvmlReturn_t missing, (*fn)(nvmlDevice_t, unsigned int, nvmlEnableState_t *);

	*(void **)&fn = nvml_function("nvmlDeviceGetNvLinkState", &missing);
	return fn ? fn(device, link, isActive) : missing;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link,
						 nvmlPciInfo_t *pci)
{
	nvmlReturn_t missing, (*fn)(nvmlDevice_t, unsigned int, nvmlPciInfo_t *);

	*(void **)&fn = nvml_function("nvmlDeviceGetNvLinkRemotePciInfo_v2", &missing);
	return fn ? fn(device, link, pci) : missing;
}

nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned int link,
					   nvmlNvLinkCapability_t capability,
					   unsigned int *capResult)
{
	nvmlReturn_t missing;
	nvmlReturn_t (*fn)(nvmlDevice_t, unsigned int, nvmlNvLinkCapability_t, unsigned int *);

	*(void **)&fn = nvml_function("nvmlDeviceGetNvLinkCapability", &missing);
	return fn ? fn(device, link, capability, capResult) : missing;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
	nvmlReturn_t missing, (*fn)(nvmlDevice_t, int *, int *);

	*(void **)&fn = nvml_function("nvmlDeviceGetCudaComputeCapability", &missing);
	return fn ? fn(device, major, minor) : missing;
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device, unsigned int *currLinkGen)
{
	nvmlReturn_t missing, (*fn)(nvmlDevice_t, unsigned int *);

	*(void **)&fn = nvml_function("nvmlDeviceGetCurrPcieLinkGeneration", &missing);
	return fn ? fn(device, currLinkGen) : missing;
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned int *currLinkWidth)
{
	nvmlReturn_t missing, (*fn)(nvmlDevice_t, unsigned int *);

	*(void **)&fn = nvml_function("nvmlDeviceGetCurrPcieLinkWidth", &missing);
	return fn ? fn(device, currLinkWidth) : missing;
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int valuesCount,
				      nvmlFieldValue_t *values)
{
	nvmlReturn_t missing, (*fn)(nvmlDevice_t, int, nvmlFieldValue_t *);

	*(void **)&fn = nvml_function("nvmlDeviceGetFieldValues", &missing);
	return fn ? fn(device, valuesCount, values) : missing;
}

nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device1, nvmlDevice_t device2,
				    nvmlGpuP2PCapsIndex_t p2pIndex, nvmlGpuP2PStatus_t *p2pStatus)
{
	nvmlReturn_t missing;
	nvmlReturn_t (*fn)(nvmlDevice_t, nvmlDevice_t, nvmlGpuP2PCapsIndex_t, nvmlGpuP2PStatus_t *);

	*(void **)&fn = nvml_function("nvmlDeviceGetP2PStatus", &missing);
	return fn ? fn(device1, device2, p2pIndex, p2pStatus) : missing;
}
