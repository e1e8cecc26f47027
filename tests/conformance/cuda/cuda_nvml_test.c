/* SPDX-License-Identifier: BSD-3-Clause */
/* NVML of the GPU double: devices, NVLinks, PCI links. */
#include <nvml.h>

#include "tests/conformance/cuda/cuda_harness.h"

CH_TEST(nvml_finds_devices_by_index_and_bus_id, .machine = "h100-8nic")
{
	nvmlDevice_t a, b;
	unsigned n = 0, index = 99;
	char id[64];

	ck_assert_int_eq(nvmlDeviceGetCount_v2(&n), NVML_ERROR_UNINITIALIZED);
	ck_assert_int_eq(nvmlInit_v2(), NVML_SUCCESS);
	ck_assert_int_eq(nvmlDeviceGetCount_v2(&n), NVML_SUCCESS);
	ck_assert_uint_eq(n, 8);
	for (unsigned i = 0; i < n; i++) {
		int major = 0, minor = 9;

		ck_assert_int_eq(nvmlDeviceGetHandleByIndex(i, &a), NVML_SUCCESS);
		CU(cudaDeviceGetPCIBusId(id, sizeof id, (int)i));
		ck_assert_int_eq(nvmlDeviceGetHandleByPciBusId(id, &b), NVML_SUCCESS);
		ck_assert_ptr_eq(a, b);
		memmove(id + 4, id, sizeof id - 4);
		memcpy(id, "0000", 4);
		ck_assert_int_eq(nvmlDeviceGetHandleByPciBusId(id, &b), NVML_SUCCESS);
		ck_assert_ptr_eq(a, b);
		ck_assert_int_eq(nvmlDeviceGetIndex(a, &index), NVML_SUCCESS);
		ck_assert_uint_eq(index, i);
		ck_assert_int_eq(nvmlDeviceGetCudaComputeCapability(a, &major, &minor),
				 NVML_SUCCESS);
		ck_assert_int_eq(major * 10 + minor, 90);
	}
	ck_assert_int_eq(nvmlDeviceGetHandleByIndex(8, &a), NVML_ERROR_INVALID_ARGUMENT);
	ck_assert_int_eq(nvmlDeviceGetHandleByPciBusId("0000:ff:00.0", &a), NVML_ERROR_NOT_FOUND);
	ck_assert_int_eq(nvmlShutdown(), NVML_SUCCESS);
	ck_assert_int_eq(nvmlShutdown(), NVML_ERROR_UNINITIALIZED);
	ck_assert_str_eq(nvmlErrorString(NVML_ERROR_UNINITIALIZED), "Uninitialized");
}

CH_TEST(nvml_nvlinks_are_those_of_the_machine, .machine = "h100-8nic")
{
	nvmlDevice_t a, b;
	nvmlEnableState_t on = NVML_FEATURE_DISABLED;
	nvmlPciInfo_t pci;
	nvmlGpuP2PStatus_t p2p = NVML_P2P_STATUS_UNKNOWN;
	unsigned cap = 0;

	ck_assert_int_eq(nvmlInit_v2(), NVML_SUCCESS);
	ck_assert_int_eq(nvmlDeviceGetHandleByIndex(0, &a), NVML_SUCCESS);
	ck_assert_int_eq(nvmlDeviceGetHandleByIndex(1, &b), NVML_SUCCESS);
	for (unsigned link = 0; link < 18; link++) {
		ck_assert_int_eq(nvmlDeviceGetNvLinkState(a, link, &on), NVML_SUCCESS);
		ck_assert_int_eq(on, NVML_FEATURE_ENABLED);
		ck_assert_int_eq(nvmlDeviceGetNvLinkRemotePciInfo_v2(a, link, &pci), NVML_SUCCESS);
		ck_assert_uint_eq(pci.bus, link < 5 ? 5 : link < 9 ? 6 : link < 13 ? 7 : 8);
	}
	ck_assert_str_eq(pci.busId, "00000000:08:00.0");
	ck_assert_int_eq(nvmlDeviceGetNvLinkState(a, 18, &on), NVML_ERROR_INVALID_ARGUMENT);
	ck_assert_int_eq(nvmlDeviceGetNvLinkCapability(a, 0, NVML_NVLINK_CAP_P2P_SUPPORTED, &cap),
			 NVML_SUCCESS);
	ck_assert_uint_eq(cap, 1);
	ck_assert_int_eq(nvmlDeviceGetP2PStatus(a, b, NVML_P2P_CAPS_INDEX_NVLINK, &p2p),
			 NVML_SUCCESS);
	ck_assert_int_eq(p2p, NVML_P2P_STATUS_OK);
	ck_assert_int_eq(nvmlShutdown(), NVML_SUCCESS);
}

CH_TEST(nvml_has_the_pci_link_and_the_fields_of_links, .machine = "h100-8nic")
{
	nvmlDevice_t a;
	nvmlFieldValue_t v[3] = {{.fieldId = NVML_FI_DEV_NVLINK_GET_STATE, .scopeId = 17},
				 {.fieldId = NVML_FI_DEV_NVLINK_GET_STATE, .scopeId = 18},
				 {.fieldId = NVML_FI_DEV_C2C_LINK_COUNT}};
	unsigned generation = 0, width = 0;

	ck_assert_int_eq(nvmlInit_v2(), NVML_SUCCESS);
	ck_assert_int_eq(nvmlDeviceGetHandleByIndex(0, &a), NVML_SUCCESS);
	ck_assert_int_eq(nvmlDeviceGetCurrPcieLinkGeneration(a, &generation), NVML_SUCCESS);
	ck_assert_int_eq(nvmlDeviceGetCurrPcieLinkWidth(a, &width), NVML_SUCCESS);
	ck_assert_uint_eq(generation, 5);
	ck_assert_uint_eq(width, 16);
	ck_assert_int_eq(nvmlDeviceGetFieldValues(a, 3, v), NVML_SUCCESS);
	ck_assert_int_eq(v[0].nvmlReturn, NVML_SUCCESS);
	ck_assert_uint_eq(v[0].value.uiVal, NVML_FEATURE_ENABLED);
	ck_assert_int_eq(v[1].nvmlReturn, NVML_ERROR_INVALID_ARGUMENT);
	ck_assert_int_eq(v[2].nvmlReturn, NVML_ERROR_NOT_SUPPORTED); /* no link to the CPU */
	ck_assert_int_eq(nvmlDeviceGetFieldValues(a, 0, v), NVML_ERROR_INVALID_ARGUMENT);
	ck_assert_int_eq(nvmlShutdown(), NVML_SUCCESS);
}

int main(void)
{
	TCase *t = tcase_create("nvml");

	CH_ADD(t, nvml_finds_devices_by_index_and_bus_id);
	CH_ADD(t, nvml_nvlinks_are_those_of_the_machine);
	CH_ADD(t, nvml_has_the_pci_link_and_the_fields_of_links);
	return ch_suite_run("cuda nvml", t);
}
