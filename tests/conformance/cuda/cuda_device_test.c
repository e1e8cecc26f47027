/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device queries of the GPU double: properties, attributes, bus ids, visibility, peers, the driver
 * API, errors and their names, and what is not implemented.
 */
#include <cuda.h>
#include <dlfcn.h>

#include "tests/conformance/cuda/cuda_harness.h"

CH_TEST(properties_follow_the_machine, .machine = "h100-8nic")
{
	struct cudaDeviceProp p;
	int n = 0, v = 0;

	CU(cudaGetDeviceCount(&n));
	ck_assert_int_eq(n, 8);
	CU(cudaGetDeviceProperties(&p, 7));
	ck_assert_int_eq(p.major * 10 + p.minor, 90);
	ck_assert_int_eq(p.multiProcessorCount, 132);
	ck_assert_int_eq(p.warpSize, 1);
	ck_assert_uint_eq(p.totalGlobalMem, 80ull << 30);
	ck_assert_str_eq(p.name, "NVIDIA H100 80GB HBM3");
	ck_assert_int_eq(p.unifiedAddressing, 1);
	CU(cudaDeviceGetAttribute(&v, cudaDevAttrComputeCapabilityMajor, 0));
	ck_assert_int_eq(v, 9);
	CU(cudaDeviceGetAttribute(&v, cudaDevAttrMultiProcessorCount, 0));
	ck_assert_int_eq(v, 132);
	CU(cudaDeviceGetAttribute(&v, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
	ck_assert_int_eq(v, 232448);
	CU(cudaDeviceGetAttribute(&v, cudaDevAttrPciBusId, 7));
	ck_assert_int_eq(v, p.pciBusID);
	CU_FAILS(cudaDeviceGetAttribute(&v, cudaDevAttrWarpSize, 8), cudaErrorInvalidDevice);
	CU_FAILS(cudaDeviceGetAttribute(&v, (enum cudaDeviceAttr)0, 0), cudaErrorInvalidValue);
	CU_FAILS(cudaGetDeviceProperties(&p, -1), cudaErrorInvalidDevice);
	CU_FAILS(cudaGetDeviceProperties(NULL, 0), cudaErrorInvalidValue);
}

CH_TEST(warp_width_is_the_worlds, .width = 32)
{
	int v = 0;

	CU(cudaDeviceGetAttribute(&v, cudaDevAttrWarpSize, 0));
	ck_assert_int_eq(v, 32);
}

CH_TEST(current_device_belongs_to_the_thread)
{
	int d = -1;

	CU(cudaGetDevice(&d));
	ck_assert_int_eq(d, 0);
	CU(cudaSetDevice(5));
	CU(cudaGetDevice(&d));
	ck_assert_int_eq(d, 5);
	CU_FAILS(cudaSetDevice(8), cudaErrorInvalidDevice);
	CU_FAILS(cudaSetDevice(-1), cudaErrorInvalidDevice);
	CU(cudaGetDevice(&d));
	ck_assert_int_eq(d, 5);
}

CH_TEST(bus_ids_go_both_ways)
{
	for (int i = 0; i < 8; i++) {
		char id[32], lower[32];
		int back = -1;

		CU(cudaDeviceGetPCIBusId(id, sizeof id, i));
		ck_assert_uint_eq(strlen(id), 12);
		CU(cudaDeviceGetByPCIBusId(&back, id));
		ck_assert_int_eq(back, i);
		for (int c = 0; c < 13; c++)
			lower[c] = id[c] >= 'A' && id[c] <= 'F' ? (char)(id[c] + 32) : id[c];
		CU(cudaDeviceGetByPCIBusId(&back, lower));
		ck_assert_int_eq(back, i);
		CU(cudaDeviceGetByPCIBusId(&back, id + 5)); /* without the domain */
		ck_assert_int_eq(back, i);
		CU_FAILS(cudaDeviceGetPCIBusId(id, 12, i), cudaErrorInvalidValue);
	}
	int v;

	CU_FAILS(cudaDeviceGetByPCIBusId(&v, "0000:ff:1f.0"), cudaErrorInvalidDevice);
	CU_FAILS(cudaDeviceGetByPCIBusId(&v, "nonsense"), cudaErrorInvalidValue);
}

static void two_of_eight(void *arg)
{
	char id[2][32];
	int n = 0;
	(void)arg;

	CU(cudaGetDeviceCount(&n));
	ck_assert_int_eq(n, 2);
	CU(cudaDeviceGetPCIBusId(id[0], 32, 0));
	CU(cudaDeviceGetPCIBusId(id[1], 32, 1));
	ck_assert(strcmp(id[0], id[1]) > 0); /* 6, then 1 */
	CU_FAILS(cudaSetDevice(2), cudaErrorInvalidDevice);
	CU(cudaSetDevice(1));
	CU(cudaFree(ch_malloc(100)));
}

static void none_visible(void *arg)
{
	void *p;
	int n = -1;
	(void)arg;

	ck_assert_int_eq(cudaGetDeviceCount(&n), cudaErrorNoDevice);
	ck_assert_int_eq(n, 0);
	ck_assert_int_eq(cudaMalloc(&p, 1), cudaErrorNoDevice);
}

CH_TEST(visible_devices_are_honoured)
{
	struct os_proc *p = ch_proc(0, "two"), *q = ch_proc(0, "none"), *r = ch_proc(0, "cut");

	ck_assert_int_eq(world_proc_setenv(p, "CUDA_VISIBLE_DEVICES", "6,1"), 0);
	ck_assert_int_eq(world_proc_setenv(q, "CUDA_VISIBLE_DEVICES", ""), 0);
	ck_assert_int_eq(world_proc_setenv(r, "CUDA_VISIBLE_DEVICES", "6,1,9,2"), 0);
	ch_in(p, two_of_eight, NULL);
	ch_in(q, none_visible, NULL);
	ch_in(r, two_of_eight, NULL);
	world_proc_exit(p);
	world_proc_exit(q);
	world_proc_exit(r);
}

static void sees_host_1(void *arg)
{
	int n = 0;

	CU(cudaGetDeviceCount(&n));
	ck_assert_int_eq(n, 8);
	*(void **)arg = ch_malloc(64);
	CU(cudaFree(*(void **)arg));
}

CH_TEST(each_host_has_its_own_gpus, .hosts = 2)
{
	struct os_proc *far = ch_proc(1, "far");
	void *mine = ch_malloc(64), *theirs = NULL;

	ch_in(far, sees_host_1, &theirs);
	ck_assert_ptr_ne(mine, theirs);
	world_proc_exit(far);
	CU(cudaFree(mine));
}

CH_TEST(peers_are_asked_enabled_and_disabled)
{
	int can = -1;

	CU(cudaDeviceCanAccessPeer(&can, 0, 1));
	ck_assert_int_eq(can, 1);
	CU(cudaDeviceCanAccessPeer(&can, 3, 3));
	ck_assert_int_eq(can, 0);
	CU_FAILS(cudaDeviceCanAccessPeer(&can, 0, 8), cudaErrorInvalidDevice);
	CU(cudaDeviceEnablePeerAccess(1, 0));
	CU_FAILS(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
	CU_FAILS(cudaDeviceEnablePeerAccess(0, 0), cudaErrorPeerAccessUnsupported);
	CU_FAILS(cudaDeviceEnablePeerAccess(2, 1), cudaErrorInvalidValue);
	CU_FAILS(cudaDeviceDisablePeerAccess(2), cudaErrorPeerAccessNotEnabled);
	CU(cudaDeviceDisablePeerAccess(1));
	CU_FAILS(cudaDeviceDisablePeerAccess(1), cudaErrorPeerAccessNotEnabled);
	CU(cudaDeviceGetP2PAttribute(&can, cudaDevP2PAttrAccessSupported, 0, 1));
	ck_assert_int_eq(can, 1);
	CU(cudaDeviceGetP2PAttribute(&can, cudaDevP2PAttrNativeAtomicSupported, 0, 1));
	ck_assert_int_eq(can, 1);
}

/* ---- errors --------------------------------------------------------------------------------- */

static void other_thread(void *arg)
{
	(void)arg;
	ck_assert_int_eq(cudaPeekAtLastError(), cudaSuccess);
	int d = -1;

	CU(cudaGetDevice(&d));
	ck_assert_int_eq(d, 0);
}

CH_TEST(last_error_belongs_to_the_thread)
{
	const struct os_thread_attr attr = {.name = "other", .rank = -1};
	struct os_thread *t;

	ck_assert_int_eq(cudaSetDevice(99), cudaErrorInvalidDevice);
	CU(cudaSetDevice(1)); /* a success does not clear it */
	ck_assert_int_eq(os_thread_start(&t, &attr, other_thread, NULL), 0);
	ck_assert_int_eq(os_thread_join(t), 0);
	ck_assert_int_eq(cudaPeekAtLastError(), cudaErrorInvalidDevice);
	ck_assert_int_eq(cudaPeekAtLastError(), cudaErrorInvalidDevice);
	ck_assert_int_eq(cudaGetLastError(), cudaErrorInvalidDevice);
	ck_assert_int_eq(cudaGetLastError(), cudaSuccess);
}

START_TEST(errors_have_names)
{
	const char *s = NULL;

	ck_assert_str_eq(cudaGetErrorName(cudaErrorIllegalAddress), "cudaErrorIllegalAddress");
	ck_assert_str_eq(cudaGetErrorString(cudaSuccess), "no error");
	ck_assert_str_eq(cudaGetErrorString(cudaErrorInvalidValue), "invalid argument");
	ck_assert_str_eq(cudaGetErrorString(cudaErrorInvalidPitchValue), "invalid pitch value");
	ck_assert_str_eq(cudaGetErrorString((cudaError_t)4711), "unrecognized error code");
	ck_assert_int_eq(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &s), CUDA_SUCCESS);
	ck_assert_str_eq(s, "CUDA_ERROR_OUT_OF_MEMORY");
	ck_assert_int_eq(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &s), CUDA_SUCCESS);
	ck_assert_str_eq(s, "out of memory");
	ck_assert_int_eq(cuGetErrorName((CUresult)4711, &s), CUDA_ERROR_INVALID_VALUE);
	ck_assert_ptr_null(s);
}
END_TEST

/* ---- the driver ----------------------------------------------------------------------------- */

CH_TEST(driver_calls)
{
	CUdevice dev = -1;
	int v = 0;

	ck_assert_int_eq(cuInit(0), CUDA_SUCCESS);
	ck_assert_int_eq(cuDeviceGetCount(&v), CUDA_SUCCESS);
	ck_assert_int_eq(v, 8);
	ck_assert_int_eq(cuDeviceGet(&dev, 3), CUDA_SUCCESS);
	ck_assert_int_eq(cuDeviceGet(&dev, 8), CUDA_ERROR_INVALID_DEVICE);
	ck_assert_int_eq(
		cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, dev),
		CUDA_SUCCESS);
	ck_assert_int_eq(v, 8);
	ck_assert_int_eq(cuDeviceGetAttribute(
				 &v, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, dev),
			 CUDA_SUCCESS);
	ck_assert_int_eq(v, 1);
	CU(cudaDriverGetVersion(&v));
	ck_assert_int_eq(v, 13000);
	CU(cudaRuntimeGetVersion(&v));
	ck_assert_int_eq(v, 13000);
}

CH_TEST(entry_points_are_found_by_name)
{
	enum cudaDriverEntryPointQueryResult status = cudaDriverEntryPointVersionNotSufficent;
	CUresult (*get)(CUdevice *, int) = NULL;
	void *p = NULL;
	CUdevice dev = -1;

	CU(cudaGetDriverEntryPoint("cuDeviceGet", &p, 0, &status));
	ck_assert_int_eq(status, cudaDriverEntryPointSuccess);
	memcpy(&get, &p, sizeof p);
	ck_assert_int_eq(get(&dev, 2), CUDA_SUCCESS);
	ck_assert_int_eq(dev, 2);
	CU(cudaGetDriverEntryPointByVersion("cuMulticastCreate", &p, 13000, 0, &status));
	ck_assert_ptr_null(p);
	ck_assert_int_eq(status, cudaDriverEntryPointSymbolNotFound);
	CU(cudaGetDriverEntryPointByVersion("cuMemCreate", &p, 9000, 0, &status));
	ck_assert_ptr_null(p);
	ck_assert_int_eq(status, cudaDriverEntryPointVersionNotSufficent);
	CU_FAILS(cudaGetDriverEntryPoint("cuInit", NULL, 0, NULL), cudaErrorInvalidValue);
	CU(cudaGetDriverEntryPoint("", &p, 0, NULL));
	ck_assert_ptr_null(p);
}

/* ---- not implemented ------------------------------------------------------------------------ */

static const char *const unimplemented_names[] = {
#define NAMES_BODY(name)
#define NAMES_ABSENT(name)                         #name,
#define RUNTIME(name, site, state)                 NAMES_##state(name)
#define NVML(name, site, state)                    NAMES_##state(name)
#define DRIVER(base, suffix, version, site, state) NAMES_##state(base##suffix)
#include "backends/fakecuda/entry/entries.def"
};
static const char *unimplemented_now;

static void calls_unimplemented(void)
{
	void (*fn)(void);
	void *at = dlsym(RTLD_DEFAULT, unimplemented_now);

	memcpy(&fn, &at, sizeof fn);
	if (fn)
		fn();
}

static void copies_rows(void)
{
	char rows[16] = {0};

	cudaMemcpy2DAsync(rows, 8, rows + 8, 8, 4, 1, cudaMemcpyHostToHost, 0);
}

static void says_not_implemented(void (*call)(void), const char *name)
{
	char text[4096], want[128];
	int rc = ch_child(call, text, sizeof text);

	ck_assert_msg(rc == SIM_CRASH, "%s: exit %d: %s", name, rc, text);
	snprintf(want, sizeof want, "fakecuda: %s is not implemented\n", name);
	ck_assert_msg(strstr(text, want) == text, "%s: logged \"%s\"", name, text);
}

START_TEST(what_is_not_implemented_aborts_with_its_name)
{
	says_not_implemented(copies_rows, "cudaMemcpy2DAsync");
	for (size_t i = 0; i < ARRAY_LEN(unimplemented_names); i++) {
		unimplemented_now = unimplemented_names[i];
		says_not_implemented(calls_unimplemented, unimplemented_now);
	}
}
END_TEST

/* Calls that need a world: each runs in a child, in `sim`. */
static void asks_unknown_pointer_attribute(void)
{
	void *p = NULL;
	char data[64];

	cudaMalloc(&p, 16);
	cuPointerGetAttribute(data, CU_POINTER_ATTRIBUTE_P2P_TOKENS, (uintptr_t)p);
}

static void adds_a_copy_of_rows(void)
{
	const struct cudaMemcpy3DParms rows = {.extent = {4, 2, 1}, .kind = cudaMemcpyDefault};
	cudaGraphNode_t node;
	cudaGraph_t graph;

	cudaGraphCreate(&graph, 0);
	cudaGraphAddMemcpyNode(&node, graph, NULL, 0, &rows);
}

static void launches_cooperatively(void)
{
	cudaLaunchAttribute attr = {.id = cudaLaunchAttributeCooperative};
	cudaLaunchConfig_t config = {
		.gridDim = {1, 1, 1}, .blockDim = {1, 1, 1}, .attrs = &attr, .numAttrs = 1};

	cudaLaunchKernelExC(&config, NULL, NULL);
}

static void (*in_world_call)(void);

static void in_world(void)
{
	const struct ch_world w = {0};

	ch_run_once(SIM_ENGINE_SIM, 1, &w, in_world_call);
}

START_TEST(what_is_not_known_aborts_with_its_number)
{
	static const struct {
		void (*call)(void);
		const char *words;
	} cases[] = {
		{asks_unknown_pointer_attribute, "pointer attribute 5 is not implemented"},
		{adds_a_copy_of_rows, "a copy node of an array or of more than one row is not "
				      "implemented"},
		{launches_cooperatively, "with attribute 2 is not implemented"},
	};
	char text[32768];

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		in_world_call = cases[i].call;
		int rc = ch_child(in_world, text, sizeof text);

		ck_assert_msg(rc == SIM_CRASH, "exit %d: %s", rc, text);
		ck_assert_msg(strstr(text, cases[i].words) != NULL, "%s", text);
	}
}
END_TEST

CH_TEST(attributes_and_properties_agree)
{
	struct cudaDeviceProp p;

	CU(cudaGetDeviceProperties(&p, 1));
	const struct {
		enum cudaDeviceAttr attr;
		int value;
	} facts[] = {
		{cudaDevAttrMaxThreadsPerBlock, p.maxThreadsPerBlock},
		{cudaDevAttrMaxBlockDimX, p.maxThreadsDim[0]},
		{cudaDevAttrMaxGridDimX, p.maxGridSize[0]},
		{cudaDevAttrMaxSharedMemoryPerBlock, (int)p.sharedMemPerBlock},
		{cudaDevAttrMaxSharedMemoryPerBlockOptin, (int)p.sharedMemPerBlockOptin},
		{cudaDevAttrMaxSharedMemoryPerMultiprocessor, (int)p.sharedMemPerMultiprocessor},
		{cudaDevAttrReservedSharedMemoryPerBlock, (int)p.reservedSharedMemPerBlock},
		{cudaDevAttrWarpSize, p.warpSize},
		{cudaDevAttrMultiProcessorCount, p.multiProcessorCount},
		{cudaDevAttrMaxBlocksPerMultiprocessor, p.maxBlocksPerMultiProcessor},
		{cudaDevAttrMaxThreadsPerMultiProcessor, p.maxThreadsPerMultiProcessor},
		{cudaDevAttrComputeCapabilityMajor, p.major},
		{cudaDevAttrComputeCapabilityMinor, p.minor},
		{cudaDevAttrPciBusId, p.pciBusID},
		{cudaDevAttrPciDeviceId, p.pciDeviceID},
		{cudaDevAttrPciDomainId, p.pciDomainID},
		{cudaDevAttrAsyncEngineCount, p.asyncEngineCount},
		{cudaDevAttrCanMapHostMemory, p.canMapHostMemory},
		{cudaDevAttrUnifiedAddressing, p.unifiedAddressing},
		{cudaDevAttrConcurrentKernels, p.concurrentKernels},
		{cudaDevAttrHostRegisterSupported, p.hostRegisterSupported},
		{cudaDevAttrStreamPrioritiesSupported, p.streamPrioritiesSupported},
		{cudaDevAttrIntegrated, p.integrated},
		{cudaDevAttrManagedMemory, p.managedMemory},
		{cudaDevAttrCooperativeLaunch, p.cooperativeLaunch},
		{cudaDevAttrMemoryPoolsSupported, p.memoryPoolsSupported},
		{cudaDevAttrClusterLaunch, p.clusterLaunch},
		{cudaDevAttrIpcEventSupport, p.ipcEventSupported},
		{cudaDevAttrGPUDirectRDMASupported, p.gpuDirectRDMASupported},
		{cudaDevAttrGPUDirectRDMAFlushWritesOptions,
		 (int)p.gpuDirectRDMAFlushWritesOptions},
		{cudaDevAttrGPUDirectRDMAWritesOrdering, p.gpuDirectRDMAWritesOrdering},
		{cudaDevAttrHostNumaId, p.hostNumaId},
	};
	for (size_t i = 0; i < ARRAY_LEN(facts); i++) {
		int v = -7;

		CU(cudaDeviceGetAttribute(&v, facts[i].attr, 1));
		ck_assert_msg(v == facts[i].value, "attribute %d is %d, the property is %d",
			      (int)facts[i].attr, v, facts[i].value);
	}
	struct cudaDeviceProp q;

	CU(cudaGetDeviceProperties(&q, 2));
	ck_assert_mem_ne(&p.uuid, &q.uuid, sizeof p.uuid);
}

CH_TEST(faults_of_registration_and_ipc, .plan = "cuda.host_register fail\ncuda.ipc_open fail\n")
{
	static char plain[4096];
	cudaIpcMemHandle_t h;
	void *p = ch_malloc(64), *q;

	CU_SAYS(cudaHostRegister(plain, sizeof plain, 0), cudaErrorMemoryAllocation, "fault plan");
	CU(cudaHostRegister(plain, sizeof plain, 0));
	CU(cudaHostUnregister(plain));
	CU(cudaIpcGetMemHandle(&h, p));
	CU_SAYS(cudaIpcOpenMemHandle(&q, h, cudaIpcMemLazyEnablePeerAccess),
		cudaErrorMapBufferObjectFailed, "fault plan");
	CU(cudaFree(p));
}

int main(void)
{
	TCase *t = tcase_create("device");

	CH_ADD(t, properties_follow_the_machine);
	CH_ADD(t, warp_width_is_the_worlds);
	CH_ADD(t, current_device_belongs_to_the_thread);
	CH_ADD(t, bus_ids_go_both_ways);
	CH_ADD(t, visible_devices_are_honoured);
	CH_ADD(t, each_host_has_its_own_gpus);
	CH_ADD(t, peers_are_asked_enabled_and_disabled);
	CH_ADD(t, last_error_belongs_to_the_thread);
	tcase_add_test(t, errors_have_names);
	CH_ADD(t, driver_calls);
	CH_ADD(t, entry_points_are_found_by_name);
	tcase_add_test(t, what_is_not_implemented_aborts_with_its_name);
	tcase_add_test(t, what_is_not_known_aborts_with_its_number);
	CH_ADD(t, attributes_and_properties_agree);
	CH_ADD(t, faults_of_registration_and_ipc);
	return ch_suite_run("cuda device", t);
}
