/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every call of the CUDA runtime, the CUDA driver and NVML that the double has and that can fail.
 * X(site, call, error), or X(site, call, error, .idle = WHY) if no run of the lab makes the call.
 * The error is what the call usually returns when it fails: a cudaError_t, to which a CUresult is
 * equal, or an nvmlReturn_t. sites_cuda.c makes the rows fault sites. The entry points
 * of backends/fakecuda find their rows here. A missing row aborts the first run with faults;
 * tests/unit/rules_fault_calls_test.sh finds it earlier.
 *
 * Omitted, because they cannot fail: names and texts of errors, cudaGetLastError,
 * cudaPeekAtLastError, cuDriverGetVersion.
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
	X("cuda.stream_begin_capture", "cudaStreamBeginCapture", 900, .idle = IDLE_GRAPH)          \
	X("cuda.stream_begin_capture_to_graph", "cudaStreamBeginCaptureToGraph", 999,              \
	  .idle = IDLE_GRAPHS)                                                                     \
	X("cuda.stream_end_capture", "cudaStreamEndCapture", 901, .idle = IDLE_GRAPH)              \
	X("cuda.cu_stream_begin_capture", "cuStreamBeginCapture", 900, .idle = IDLE_DRIVER)        \
	X("cuda.cu_stream_end_capture", "cuStreamEndCapture", 901, .idle = IDLE_DRIVER)            \
	X("cuda.cu_stream_is_capturing", "cuStreamIsCapturing", 999, .idle = IDLE_DRIVER)          \
	X("cuda.cu_stream_get_capture_info", "cuStreamGetCaptureInfo", 999, .idle = IDLE_DRIVER)   \
	X("cuda.stream_update_capture_dependencies", "cudaStreamUpdateCaptureDependencies", 999,   \
	  .idle = IDLE_GRAPHS)                                                                     \
	X("cuda.cu_stream_update_capture_dependencies", "cuStreamUpdateCaptureDependencies", 999,  \
	  .idle = IDLE_DRIVER)                                                                     \
	X("cuda.graph_instantiate", "cudaGraphInstantiate", 2, .idle = IDLE_GRAPH)                 \
	X("cuda.graph_instantiate_with_flags", "cudaGraphInstantiateWithFlags", 2,                 \
	  .idle = IDLE_GRAPHS)                                                                     \
	X("cuda.graph_exec_get_flags", "cudaGraphExecGetFlags", 999, .idle = IDLE_GRAPHS)          \
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
	X("cuda.graph_create", "cudaGraphCreate", 2, .idle = IDLE_GRAPHS)                          \
	X("cuda.graph_destroy", "cudaGraphDestroy", 999, .idle = IDLE_GRAPH)                       \
	X("cuda.graph_clone", "cudaGraphClone", 2, .idle = IDLE_GRAPHS)                            \
	X("cuda.graph_destroy_node", "cudaGraphDestroyNode", 999, .idle = IDLE_GRAPHS)             \
	X("cuda.graph_node_get_type", "cudaGraphNodeGetType", 999, .idle = IDLE_GRAPHS)            \
	X("cuda.graph_node_find_in_clone", "cudaGraphNodeFindInClone", 999, .idle = IDLE_GRAPHS)   \
	X("cuda.graph_get_nodes", "cudaGraphGetNodes", 999, .idle = IDLE_GRAPHS)                   \
	X("cuda.graph_get_root_nodes", "cudaGraphGetRootNodes", 999, .idle = IDLE_GRAPHS)          \
	X("cuda.graph_get_edges", "cudaGraphGetEdges", 999, .idle = IDLE_GRAPHS)                   \
	X("cuda.graph_node_get_dependencies", "cudaGraphNodeGetDependencies", 999,                 \
	  .idle = IDLE_GRAPHS)                                                                     \
	X("cuda.graph_node_get_dependent_nodes", "cudaGraphNodeGetDependentNodes", 999,            \
	  .idle = IDLE_GRAPHS)                                                                     \
	X("cuda.graph_add_dependencies", "cudaGraphAddDependencies", 2, .idle = IDLE_GRAPHS)       \
	X("cuda.graph_remove_dependencies", "cudaGraphRemoveDependencies", 999,                    \
	  .idle = IDLE_GRAPHS)                                                                     \
	X("cuda.cu_graph_create", "cuGraphCreate", 2, .idle = IDLE_DRIVER)                         \
	X("cuda.cu_graph_destroy", "cuGraphDestroy", 999, .idle = IDLE_DRIVER)                     \
	X("cuda.cu_graph_clone", "cuGraphClone", 2, .idle = IDLE_DRIVER)                           \
	X("cuda.cu_graph_get_nodes", "cuGraphGetNodes", 999, .idle = IDLE_DRIVER)                  \
	X("cuda.cu_graph_get_edges", "cuGraphGetEdges", 999, .idle = IDLE_DRIVER)                  \
	X("cuda.cu_graph_node_get_type", "cuGraphNodeGetType", 999, .idle = IDLE_DRIVER)           \
	X("cuda.cu_graph_add_dependencies", "cuGraphAddDependencies", 2, .idle = IDLE_DRIVER)      \
	X("cuda.cu_graph_add_memcpy_node", "cuGraphAddMemcpyNode", 2, .idle = IDLE_DRIVER)         \
	X("cuda.cu_graph_add_memset_node", "cuGraphAddMemsetNode", 2, .idle = IDLE_DRIVER)         \
	X("cuda.cu_graph_add_host_node", "cuGraphAddHostNode", 2, .idle = IDLE_DRIVER)             \
	X("cuda.cu_graph_add_empty_node", "cuGraphAddEmptyNode", 2, .idle = IDLE_DRIVER)           \
	X("cuda.cu_graph_add_child_graph_node", "cuGraphAddChildGraphNode", 2,                     \
	  .idle = IDLE_DRIVER)                                                                     \
	X("cuda.cu_graph_add_event_record_node", "cuGraphAddEventRecordNode", 2,                   \
	  .idle = IDLE_DRIVER)                                                                     \
	X("cuda.cu_graph_add_event_wait_node", "cuGraphAddEventWaitNode", 2, .idle = IDLE_DRIVER)  \
	X("cuda.cu_graph_instantiate", "cuGraphInstantiate", 2, .idle = IDLE_DRIVER)               \
	X("cuda.cu_graph_upload", "cuGraphUpload", 2, .idle = IDLE_DRIVER)                         \
	X("cuda.cu_graph_launch", "cuGraphLaunch", 2, .idle = IDLE_DRIVER)                         \
	X("cuda.cu_graph_exec_update", "cuGraphExecUpdate", 999, .idle = IDLE_DRIVER)              \
	X("cuda.cu_graph_exec_destroy", "cuGraphExecDestroy", 999, .idle = IDLE_DRIVER)            \
	X("cuda.cu_user_object_create", "cuUserObjectCreate", 2, .idle = IDLE_DRIVER)              \
	X("cuda.cu_user_object_retain", "cuUserObjectRetain", 999, .idle = IDLE_DRIVER)            \
	X("cuda.cu_user_object_release", "cuUserObjectRelease", 999, .idle = IDLE_DRIVER)          \
	X("cuda.cu_graph_retain_user_object", "cuGraphRetainUserObject", 999, .idle = IDLE_DRIVER) \
	X("cuda.cu_graph_release_user_object", "cuGraphReleaseUserObject", 999,                    \
	  .idle = IDLE_DRIVER)                                                                     \
	X("cuda.graph_add_kernel_node", "cudaGraphAddKernelNode", 2, .idle = IDLE_GRAPHS)          \
	X("cuda.graph_kernel_node_get_params", "cudaGraphKernelNodeGetParams", 999,                \
	  .idle = IDLE_GRAPHS)                                                                     \
	X("cuda.graph_kernel_node_set_params", "cudaGraphKernelNodeSetParams", 999,                \
	  .idle = IDLE_GRAPHS)                                                                     \
	X("cuda.graph_exec_kernel_node_set_params", "cudaGraphExecKernelNodeSetParams", 999,       \
	  .idle = IDLE_GRAPHS)                                                                     \
	X("cuda.graph_add_memcpy_node", "cudaGraphAddMemcpyNode", 2, .idle = IDLE_GRAPHS)          \
	X("cuda.graph_add_memcpy_node1d", "cudaGraphAddMemcpyNode1D", 2, .idle = IDLE_GRAPHS)      \
	X("cuda.graph_memcpy_node_get_params", "cudaGraphMemcpyNodeGetParams", 999,                \
	  .idle = IDLE_GRAPHS)                                                                     \
	X("cuda.graph_memcpy_node_set_params1d", "cudaGraphMemcpyNodeSetParams1D", 999,            \
	  .idle = IDLE_GRAPHS)                                                                     \
	X("cuda.graph_exec_memcpy_node_set_params1d", "cudaGraphExecMemcpyNodeSetParams1D", 999,   \
	  .idle = IDLE_GRAPHS)                                                                     \
	X("cuda.graph_add_memset_node", "cudaGraphAddMemsetNode", 2, .idle = IDLE_GRAPHS)          \
	X("cuda.graph_memset_node_get_params", "cudaGraphMemsetNodeGetParams", 999,                \
	  .idle = IDLE_GRAPHS)                                                                     \
	X("cuda.graph_memset_node_set_params", "cudaGraphMemsetNodeSetParams", 999,                \
	  .idle = IDLE_GRAPHS)                                                                     \
	X("cuda.graph_exec_memset_node_set_params", "cudaGraphExecMemsetNodeSetParams", 999,       \
	  .idle = IDLE_GRAPHS)                                                                     \
	X("cuda.graph_add_host_node", "cudaGraphAddHostNode", 2, .idle = IDLE_GRAPHS)              \
	X("cuda.graph_host_node_get_params", "cudaGraphHostNodeGetParams", 999,                    \
	  .idle = IDLE_GRAPHS)                                                                     \
	X("cuda.graph_host_node_set_params", "cudaGraphHostNodeSetParams", 999,                    \
	  .idle = IDLE_GRAPHS)                                                                     \
	X("cuda.graph_exec_host_node_set_params", "cudaGraphExecHostNodeSetParams", 999,           \
	  .idle = IDLE_GRAPHS)                                                                     \
	X("cuda.graph_add_event_record_node", "cudaGraphAddEventRecordNode", 2,                    \
	  .idle = IDLE_GRAPHS)                                                                     \
	X("cuda.graph_add_event_wait_node", "cudaGraphAddEventWaitNode", 2, .idle = IDLE_GRAPHS)   \
	X("cuda.graph_event_record_node_get_event", "cudaGraphEventRecordNodeGetEvent", 999,       \
	  .idle = IDLE_GRAPHS)                                                                     \
	X("cuda.graph_event_wait_node_get_event", "cudaGraphEventWaitNodeGetEvent", 999,           \
	  .idle = IDLE_GRAPHS)                                                                     \
	X("cuda.graph_add_child_graph_node", "cudaGraphAddChildGraphNode", 2, .idle = IDLE_GRAPHS) \
	X("cuda.graph_child_graph_node_get_graph", "cudaGraphChildGraphNodeGetGraph", 999,         \
	  .idle = IDLE_GRAPHS)                                                                     \
	X("cuda.graph_add_empty_node", "cudaGraphAddEmptyNode", 2, .idle = IDLE_GRAPHS)            \
	X("cuda.event_record_with_flags", "cudaEventRecordWithFlags", 999, .idle = IDLE_GRAPH)     \
	X("cuda.cu_init", "cuInit", 100, .idle = IDLE_DRIVER)                                      \
	X("cuda.cu_device_get", "cuDeviceGet", 101, .idle = IDLE_DRIVER)                           \
	X("cuda.cu_device_get_count", "cuDeviceGetCount", 100, .idle = IDLE_DRIVER)                \
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
