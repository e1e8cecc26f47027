/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sites that no run of the lab comes to, because neither the stack nor the lab's own program makes
 * the call; and why. Tests of the doubles do. Drawn plans leave them out, sweeps do not list them as
 * missing, and tests/sim/sweep_test.sh fails when one of them is come by after all.
 */
#include <string.h>

#include "core/base/macros.h"
#include "sim/engine/fault.h"

#define IDLE_EVENTS "the stack polls completion queues; it asks for no completion events"
#define IDLE_RC     "the stack writes over reliable connections with receives of their own"
#define IDLE_PD     "the stack has one protection domain a device, and locks of its own"
#define IDLE_QUERY  "the stack asks for what it needs by other calls"
#define IDLE_SYNC   "the stack waits by polling events, the lab by polling streams"
#define IDLE_COPY   "the stack moves data by kernels, the lab by cudaMemcpyAsync"
#define IDLE_PINNED "the stack pins what it allocates, and nothing else"
#define IDLE_LAUNCH "the stack launches by cudaLaunchKernel, on the stream it is given"
#define IDLE_DRIVER "the stack uses the runtime; the driver's calls are there for programs"
#define IDLE_NVML   "the stack reads a machine's NVLinks from the topology file"

static const struct {
	const char *site, *why;
} fault_idle_sites[] = {
	{"verbs.query_pkey", IDLE_QUERY},
	{"verbs.query_qp", IDLE_QUERY},
	{"verbs.req_notify_cq", IDLE_EVENTS},
	{"verbs.create_comp_channel", IDLE_EVENTS},
	{"verbs.destroy_comp_channel", IDLE_EVENTS},
	{"verbs.get_cq_event", IDLE_EVENTS},
	{"verbs.modify_cq", IDLE_EVENTS},
	{"verbs.resize_cq", IDLE_EVENTS},
	{"verbs.query_rt_values", IDLE_QUERY},
	{"verbs.reg_dmabuf_mr", IDLE_RC},
	{"verbs.alloc_mw", IDLE_RC},
	{"verbs.dealloc_mw", IDLE_RC},
	{"verbs.query_ece", IDLE_RC},
	{"verbs.set_ece", IDLE_RC},
	{"verbs.alloc_null_mr", IDLE_RC},
	{"verbs.rereg_mr", IDLE_RC},
	{"verbs.advise_mr", IDLE_RC},
	{"verbs.create_ah", IDLE_RC},
	{"verbs.destroy_ah", IDLE_RC},
	{"verbs.attach_mcast", IDLE_RC},
	{"verbs.detach_mcast", IDLE_RC},
	{"verbs.create_srq", IDLE_RC},
	{"verbs.destroy_srq", IDLE_RC},
	{"verbs.modify_srq", IDLE_RC},
	{"verbs.query_srq", IDLE_RC},
	{"verbs.post_srq_recv", IDLE_RC},
	{"verbs.srq", IDLE_RC},
	{"verbs.open_xrcd", IDLE_RC},
	{"verbs.close_xrcd", IDLE_RC},
	{"verbs.open_qp", IDLE_RC},
	{"verbs.alloc_td", IDLE_PD},
	{"verbs.alloc_parent_domain", IDLE_PD},
	{"cuda.driver_get_version", IDLE_QUERY},
	{"cuda.runtime_get_version", IDLE_QUERY},
	{"cuda.get_device_count", IDLE_QUERY},
	{"cuda.get_device_properties", IDLE_QUERY},
	{"cuda.device_get_by_pci_bus_id", IDLE_QUERY},
	{"cuda.device_can_access_peer", IDLE_QUERY},
	{"cuda.device_disable_peer_access", IDLE_QUERY},
	{"cuda.device_get_p2p_attribute", IDLE_QUERY},
	{"cuda.device_get_stream_priority_range", IDLE_QUERY},
	{"cuda.device_reset", "nothing resets a device that others use"},
	{"cuda.device_set_limit", IDLE_QUERY},
	{"cuda.device_synchronize", IDLE_SYNC},
	{"cuda.get_driver_entry_point", IDLE_DRIVER},
	{"cuda.host_register", IDLE_PINNED},
	{"cuda.host_unregister", IDLE_PINNED},
	{"cuda.host_get_flags", IDLE_PINNED},
	{"cuda.memcpy", IDLE_COPY},
	{"cuda.memcpy_peer", IDLE_COPY},
	{"cuda.memcpy_peer_async", IDLE_COPY},
	{"cuda.memset", IDLE_COPY},
	{"cuda.stream_get_priority", IDLE_QUERY},
	{"cuda.stream_get_flags", IDLE_QUERY},
	{"cuda.stream_get_device", IDLE_QUERY},
	{"cuda.launch_ex", IDLE_LAUNCH},
	{"cuda.launch_host_func", IDLE_LAUNCH},
	{"cuda.host_func", IDLE_LAUNCH},
	{"cuda.func_set_attribute", IDLE_LAUNCH},
	{"cuda.cu_init", IDLE_DRIVER},
	{"cuda.cu_device_get", IDLE_DRIVER},
	{"cuda.cu_device_get_count", IDLE_DRIVER},
	{"cuda.cu_mem_get_address_range", IDLE_DRIVER},
	{"cuda.cu_mem_get_handle_for_address_range", IDLE_DRIVER},
	{"cuda.cu_pointer_get_attribute", IDLE_DRIVER},
	{"nvml.init", IDLE_NVML},
	{"nvml.shutdown", IDLE_NVML},
	{"nvml.device_get_count", IDLE_NVML},
	{"nvml.device_get_handle_by_index", IDLE_NVML},
	{"nvml.device_get_handle_by_pci_bus_id", IDLE_NVML},
	{"nvml.device_get_index", IDLE_NVML},
	{"nvml.device_get_capability", IDLE_NVML},
	{"nvml.device_get_nvlink_state", IDLE_NVML},
	{"nvml.device_get_nvlink_capability", IDLE_NVML},
	{"nvml.device_get_nvlink_remote", IDLE_NVML},
	{"nvml.device_get_p2p_status", IDLE_NVML},
	{"os.shm",
	 "ranks of a host share GPU memory, not segments: there is no such transport yet"},
};

const char *fault_idle(const char *site)
{
	for (size_t i = 0; i < ARRAY_LEN(fault_idle_sites); i++)
		if (strcmp(fault_idle_sites[i].site, site) == 0)
			return fault_idle_sites[i].why;
	return NULL;
}

const char *sim_fault_idle(const char *site)
{
	return fault_idle(site);
}
