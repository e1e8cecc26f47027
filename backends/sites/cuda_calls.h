/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fault sites of calls of the CUDA runtime, the CUDA driver and NVML. X(site, call, error), or
 * X(site, call, error, .idle = WHY) if no run of the lab makes the call. Calls of a family share
 * the site of one of them: backends/fakecuda/entry/entries.def has the site of each call. The error
 * is what the call usually returns when it fails: a cudaError_t, to which a CUresult is equal, or
 * an nvmlReturn_t. sites_cuda.c makes the rows fault sites. A missing row aborts the first run with
 * faults; tests/unit/rules_fault_calls_test.sh finds it earlier.
 */
#ifndef BACKENDS_SITES_CUDA_CALLS_H
#define BACKENDS_SITES_CUDA_CALLS_H

#define FAULT_CUDA_CALLS(X)                                                                        \
	X("cuda.driver_get_version", "cudaDriverGetVersion", 999)                                  \
	X("cuda.runtime_get_version", "cudaRuntimeGetVersion", 999)                                \
	X("cuda.get_device_count", "cudaGetDeviceCount", 100)                                      \
	X("cuda.set_device", "cudaSetDevice", 46)                                                  \
	X("cuda.get_device", "cudaGetDevice", 3)                                                   \
	X("cuda.get_device_properties", "cudaGetDeviceProperties", 101, .idle = IDLE_QUERY)        \
	X("cuda.device_get_attribute", "cudaDeviceGetAttribute", 101)                              \
	X("cuda.device_get_pci_bus_id", "cudaDeviceGetPCIBusId", 101)                              \
	X("cuda.device_get_by_pci_bus_id", "cudaDeviceGetByPCIBusId", 101, .idle = IDLE_QUERY)     \
	X("cuda.device_can_access_peer", "cudaDeviceCanAccessPeer", 101, .idle = IDLE_QUERY)       \
	X("cuda.device_enable_peer_access", "cudaDeviceEnablePeerAccess", 217)                     \
	X("cuda.device_disable_peer_access", "cudaDeviceDisablePeerAccess", 999,                   \
	  .idle = IDLE_QUERY)                                                                      \
	X("cuda.device_get_p2p_attribute", "cudaDeviceGetP2PAttribute", 101, .idle = IDLE_QUERY)   \
	X("cuda.device_get_stream_priority_range", "cudaDeviceGetStreamPriorityRange", 999,        \
	  .idle = IDLE_QUERY)                                                                      \
	X("cuda.device_reset", "cudaDeviceReset", 46, .idle = IDLE_RESET)                          \
	X("cuda.device_set_limit", "cudaDeviceSetLimit", 215, .idle = IDLE_QUERY)                  \
	X("cuda.device_synchronize", "cudaDeviceSynchronize", 999)                                 \
	X("cuda.get_driver_entry_point", "cudaGetDriverEntryPoint", 500, .idle = IDLE_DRIVER)      \
	X("cuda.malloc", "cudaMalloc", 2)                                                          \
	X("cuda.free", "cudaFree", 999)                                                            \
	X("cuda.mem_get_info", "cudaMemGetInfo", 999)                                              \
	X("cuda.host_alloc", "cudaHostAlloc", 2)                                                   \
	X("cuda.free_host", "cudaFreeHost", 999)                                                   \
	X("cuda.host_register", "cudaHostRegister", 2)                                             \
	X("cuda.host_unregister", "cudaHostUnregister", 999)                                       \
	X("cuda.host_get_device_pointer", "cudaHostGetDevicePointer", 999)                         \
	X("cuda.host_get_flags", "cudaHostGetFlags", 999, .idle = IDLE_QUERY)                      \
	X("cuda.pointer_get_attributes", "cudaPointerGetAttributes", 999)                          \
	X("cuda.memcpy", "cudaMemcpy", 999, .idle = IDLE_COPY)                                     \
	X("cuda.memcpy_async", "cudaMemcpyAsync", 999)                                             \
	X("cuda.memcpy_peer", "cudaMemcpyPeer", 999, .idle = IDLE_COPY)                            \
	X("cuda.memcpy_peer_async", "cudaMemcpyPeerAsync", 999, .idle = IDLE_COPY)                 \
	X("cuda.memset", "cudaMemset", 999, .idle = IDLE_COPY)                                     \
	X("cuda.memset_async", "cudaMemsetAsync", 999)                                             \
	X("cuda.ipc_get", "cudaIpcGetMemHandle", 2)                                                \
	X("cuda.ipc_open", "cudaIpcOpenMemHandle", 205)                                            \
	X("cuda.ipc_close", "cudaIpcCloseMemHandle", 206)                                          \
	X("cuda.stream_create", "cudaStreamCreateWithPriority", 2)                                 \
	X("cuda.stream_destroy", "cudaStreamDestroy", 999)                                         \
	X("cuda.stream_synchronize", "cudaStreamSynchronize", 999)                                 \
	X("cuda.stream_query", "cudaStreamQuery", 999)                                             \
	X("cuda.stream_wait_event", "cudaStreamWaitEvent", 999)                                    \
	X("cuda.stream_get_priority", "cudaStreamGetPriority", 999, .idle = IDLE_QUERY)            \
	X("cuda.stream_get_flags", "cudaStreamGetFlags", 999, .idle = IDLE_QUERY)                  \
	X("cuda.stream_get_device", "cudaStreamGetDevice", 999, .idle = IDLE_QUERY)                \
	X("cuda.stream_get_id", "cudaStreamGetId", 999)                                            \
	X("cuda.stream_is_capturing", "cudaStreamIsCapturing", 999, .idle = IDLE_QUERY)            \
	X("cuda.stream_get_capture_info", "cudaStreamGetCaptureInfo", 999)                         \
	X("cuda.event_create", "cudaEventCreateWithFlags", 2)                                      \
	X("cuda.event_destroy", "cudaEventDestroy", 999)                                           \
	X("cuda.event_record", "cudaEventRecord", 999)                                             \
	X("cuda.event_query", "cudaEventQuery", 999)                                               \
	X("cuda.event_synchronize", "cudaEventSynchronize", 999)                                   \
	X("cuda.event_elapsed_time", "cudaEventElapsedTime", 999)                                  \
	X("cuda.launch", "cudaLaunchKernel", 701, .idle = IDLE_LAUNCH)                             \
	X("cuda.launch_ex", "cudaLaunchKernelExC", 701)                                            \
	X("cuda.launch_host_func", "cudaLaunchHostFunc", 999, .idle = IDLE_LAUNCH)                 \
	X("cuda.func_get_attributes", "cudaFuncGetAttributes", 2)                                  \
	X("cuda.func_set_attribute", "cudaFuncSetAttribute", 999, .idle = IDLE_LAUNCH)             \
	X("cuda.stream_begin_capture", "cudaStreamBeginCapture", 900)                              \
	X("cuda.stream_end_capture", "cudaStreamEndCapture", 901)                                  \
	X("cuda.stream_update_capture_dependencies", "cudaStreamUpdateCaptureDependencies", 999,   \
	  .idle = IDLE_GRAPHS)                                                                     \
	X("cuda.graph_create", "cudaGraphCreate", 2, .idle = IDLE_GRAPHS)                          \
	X("cuda.graph_clone", "cudaGraphClone", 2, .idle = IDLE_GRAPHS)                            \
	X("cuda.graph_destroy", "cudaGraphDestroy", 999)                                           \
	X("cuda.graph_destroy_node", "cudaGraphDestroyNode", 999, .idle = IDLE_GRAPHS)             \
	X("cuda.graph_get", "cudaGraphGetNodes", 999)                                              \
	X("cuda.graph_add_dependencies", "cudaGraphAddDependencies", 2, .idle = IDLE_GRAPHS)       \
	X("cuda.graph_add_node", "cudaGraphAddKernelNode", 2, .idle = IDLE_GRAPHS)                 \
	X("cuda.graph_set_node", "cudaGraphKernelNodeSetParams", 999, .idle = IDLE_GRAPHS)         \
	X("cuda.graph_instantiate", "cudaGraphInstantiate", 2, .idle = IDLE_GRAPH)                 \
	X("cuda.graph_exec_update", "cudaGraphExecUpdate", 999, .idle = IDLE_GRAPHS)               \
	X("cuda.graph_upload", "cudaGraphUpload", 2, .idle = IDLE_GRAPHS)                          \
	X("cuda.graph_launch", "cudaGraphLaunch", 2, .idle = IDLE_GRAPH)                           \
	X("cuda.graph_exec_destroy", "cudaGraphExecDestroy", 999, .idle = IDLE_GRAPH)              \
	X("cuda.user_object_create", "cudaUserObjectCreate", 2, .idle = IDLE_GRAPH)                \
	X("cuda.user_object_retain", "cudaUserObjectRetain", 999, .idle = IDLE_GRAPHS)             \
	X("cuda.user_object_release", "cudaUserObjectRelease", 999, .idle = IDLE_GRAPH)            \
	X("cuda.graph_retain_user_object", "cudaGraphRetainUserObject", 999, .idle = IDLE_GRAPH)   \
	X("cuda.graph_release_user_object", "cudaGraphReleaseUserObject", 999,                     \
	  .idle = IDLE_GRAPHS)                                                                     \
	X("cuda.cu_init", "cuInit", 100, .idle = IDLE_DRIVER)                                      \
	X("cuda.cu_device_get", "cuDeviceGet", 101, .idle = IDLE_DRIVER)                           \
	X("cuda.cu_device_get_count", "cuDeviceGetCount", 100, .idle = IDLE_DRIVER)                \
	X("cuda.cu_ctx_retain", "cuDevicePrimaryCtxRetain", 2, .idle = IDLE_DRIVER)                \
	X("cuda.cu_ctx_release", "cuDevicePrimaryCtxRelease", 999, .idle = IDLE_DRIVER)            \
	X("cuda.cu_ctx_set", "cuCtxSetCurrent", 201, .idle = IDLE_DRIVER)                          \
	X("cuda.cu_ctx_get", "cuCtxGetCurrent", 201, .idle = IDLE_DRIVER)                          \
	X("cuda.cu_mem_address_free", "cuMemAddressFree", 999)                                     \
	X("cuda.cu_mem_address_reserve", "cuMemAddressReserve", 2)                                 \
	X("cuda.cu_mem_create", "cuMemCreate", 2)                                                  \
	X("cuda.cu_mem_export", "cuMemExportToShareableHandle", 304)                               \
	X("cuda.cu_mem_get_access", "cuMemGetAccess", 999, .idle = IDLE_DRIVER)                    \
	X("cuda.cu_mem_get_granularity", "cuMemGetAllocationGranularity", 999,                     \
	  .idle = IDLE_DRIVER)                                                                     \
	X("cuda.cu_mem_get_properties", "cuMemGetAllocationPropertiesFromHandle", 999,             \
	  .idle = IDLE_DRIVER)                                                                     \
	X("cuda.cu_mem_import", "cuMemImportFromShareableHandle", 304)                             \
	X("cuda.cu_mem_map", "cuMemMap", 205)                                                      \
	X("cuda.cu_mem_release", "cuMemRelease", 999)                                              \
	X("cuda.cu_mem_retain", "cuMemRetainAllocationHandle", 999)                                \
	X("cuda.cu_mem_set_access", "cuMemSetAccess", 999)                                         \
	X("cuda.cu_mem_unmap", "cuMemUnmap", 206)                                                  \
	X("cuda.cu_mem_get_address_range", "cuMemGetAddressRange", 500, .idle = IDLE_DRIVER)       \
	X("cuda.cu_mem_get_handle_for_address_range", "cuMemGetHandleForAddressRange", 304)        \
	X("cuda.cu_pointer_get_attribute", "cuPointerGetAttribute", 999, .idle = IDLE_DRIVER)

#define FAULT_NVML_CALLS(X)                                                                        \
	X("nvml.init", "nvmlInit_v2", 9)                                                           \
	X("nvml.shutdown", "nvmlShutdown", 999)                                                    \
	X("nvml.device_get_count", "nvmlDeviceGetCount_v2", 999, .idle = IDLE_QUERY)               \
	X("nvml.device_get_handle_by_index", "nvmlDeviceGetHandleByIndex_v2", 15,                  \
	  .idle = IDLE_QUERY)                                                                      \
	X("nvml.device_get_handle_by_pci_bus_id", "nvmlDeviceGetHandleByPciBusId_v2", 15)          \
	X("nvml.device_get_index", "nvmlDeviceGetIndex", 15)                                       \
	X("nvml.device_get_capability", "nvmlDeviceGetCudaComputeCapability", 15,                  \
	  .idle = IDLE_QUERY)                                                                      \
	X("nvml.device_get_nvlink_state", "nvmlDeviceGetNvLinkState", 15)                          \
	X("nvml.device_get_nvlink_capability", "nvmlDeviceGetNvLinkCapability", 15)                \
	X("nvml.device_get_nvlink_remote", "nvmlDeviceGetNvLinkRemotePciInfo_v2", 15)              \
	X("nvml.device_get_pcie_generation", "nvmlDeviceGetCurrPcieLinkGeneration", 15)            \
	X("nvml.device_get_pcie_width", "nvmlDeviceGetCurrPcieLinkWidth", 15)                      \
	X("nvml.device_get_field_values", "nvmlDeviceGetFieldValues", 15)                          \
	X("nvml.device_get_p2p_status", "nvmlDeviceGetP2PStatus", 15, .idle = IDLE_QUERY)

#endif
