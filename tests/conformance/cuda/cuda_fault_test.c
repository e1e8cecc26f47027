/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Faults of the GPU double: each call fails as planned, once, and reports it; what it should
 * have done has not happened, but for calls that release; sticky errors stay and end kernels; what
 * goes on after calls comes late.
 */
#include <nvml.h>

#include "tests/conformance/cuda/cuda_harness.h"

static shared_u64 *words; /* pinned: a gate, then one for each block: when it ran, in order */

struct block_args {
	uint64_t gate,
		order; /* waits for the gate, if there is one, then for its sequence number */
};

CH_KERNEL(block, 0)
{
	if (a->gate && !ch_wait_word(d, a->gate, 1))
		return;
	uint64_t turn =
		fakedev_add(d, (void *)(uintptr_t)a->order, 8, 1, SHARED_ACQ_REL, SHARED_SYSTEM);
	fakedev_store(d, (void *)(uintptr_t)(a->order + 8 * (d->block + 1)), 8, turn,
		      SHARED_RELEASE, SHARED_SYSTEM);
}

static cudaError_t block_launch(unsigned blocks, cudaStream_t s, bool gated)
{
	struct block_args a = {gated ? (uintptr_t)words : 0, (uintptr_t)(words + 1)};
	return ch_launch_on(&block_w1, blocks, 1, &a, s);
}

static void words_open(void)
{
	words = ch_pinned(64 * 8);
}

/* ---- every call ----------------------------------------------------------------------------- */

/* Arguments of the calls below; each exists before the first fault. */
static struct {
	void *p, *pinned;
	char plain[4096] __attribute__((aligned(4096)));
	cudaStream_t stream;
	cudaEvent_t event[2];
} with;

static cudaError_t call_malloc(void)
{
	void *p = NULL;
	cudaError_t rc = cudaMalloc(&p, 64);
	ck_assert((rc == cudaSuccess) == (p != NULL));
	return rc ? rc : cudaFree(p);
}

static cudaError_t call_host_alloc(void)
{
	void *p = NULL;
	cudaError_t rc = cudaHostAlloc(&p, 64, 0);
	ck_assert((rc == cudaSuccess) == (p != NULL));
	return rc ? rc : cudaFreeHost(p);
}

static cudaError_t call_register(void)
{
	cudaError_t rc = cudaHostRegister(with.plain, sizeof with.plain, 0);
	return rc ? rc : cudaHostUnregister(with.plain);
}

static cudaError_t call_stream_create(void)
{
	cudaStream_t s = NULL;
	cudaError_t rc = cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
	return rc ? rc : cudaStreamDestroy(s);
}

static cudaError_t call_event_create(void)
{
	cudaEvent_t e = NULL;
	cudaError_t rc = cudaEventCreate(&e);
	return rc ? rc : cudaEventDestroy(e);
}

static cudaError_t call_attributes(void)
{
	struct cudaPointerAttributes a;
	return cudaPointerGetAttributes(&a, with.p);
}

static cudaError_t call_bus_id(void)
{
	char id[32];
	return cudaDeviceGetPCIBusId(id, sizeof id, 0);
}

static cudaError_t call_ipc_get(void)
{
	cudaIpcMemHandle_t h;
	return cudaIpcGetMemHandle(&h, with.p);
}

static cudaError_t call_device_count(void)
{
	int n;
	return cudaGetDeviceCount(&n);
}

static cudaError_t call_set_device(void)
{
	return cudaSetDevice(0);
}

static cudaError_t call_memcpy(void)
{
	return cudaMemcpy(with.p, with.plain, 64, cudaMemcpyHostToDevice);
}

static cudaError_t call_memset_async(void)
{
	return cudaMemsetAsync(with.p, 0, 64, with.stream);
}

static cudaError_t call_launch(void)
{
	return block_launch(1, with.stream, false);
}

static cudaError_t call_record(void)
{
	return cudaEventRecord(with.event[0], with.stream);
}

static cudaError_t call_event_sync(void)
{
	return cudaEventSynchronize(with.event[0]);
}

static cudaError_t call_wait_event(void)
{
	return cudaStreamWaitEvent(with.stream, with.event[0], 0);
}

static cudaError_t call_stream_sync(void)
{
	return cudaStreamSynchronize(with.stream);
}

static const struct {
	const char *site;
	cudaError_t (*fn)(void);
	cudaError_t usual;
} calls[] = {
	{"cuda.malloc", call_malloc, cudaErrorMemoryAllocation},
	{"cuda.host_alloc", call_host_alloc, cudaErrorMemoryAllocation},
	{"cuda.host_register", call_register, cudaErrorMemoryAllocation},
	{"cuda.stream_create", call_stream_create, cudaErrorMemoryAllocation},
	{"cuda.event_create", call_event_create, cudaErrorMemoryAllocation},
	{"cuda.pointer_get_attributes", call_attributes, cudaErrorUnknown},
	{"cuda.device_get_pci_bus_id", call_bus_id, cudaErrorInvalidDevice},
	{"cuda.ipc_get", call_ipc_get, cudaErrorMemoryAllocation},
	{"cuda.get_device_count", call_device_count, cudaErrorNoDevice},
	{"cuda.set_device", call_set_device, cudaErrorDevicesUnavailable},
	{"cuda.memcpy", call_memcpy, cudaErrorUnknown},
	{"cuda.memset_async", call_memset_async, cudaErrorUnknown},
	{"cuda.launch", call_launch, cudaErrorLaunchOutOfResources},
	{"cuda.event_record", call_record, cudaErrorUnknown},
	{"cuda.event_synchronize", call_event_sync, cudaErrorUnknown},
	{"cuda.stream_wait_event", call_wait_event, cudaErrorUnknown},
	{"cuda.stream_synchronize", call_stream_sync, cudaErrorUnknown},
};

static void with_open(void)
{
	words_open();
	with.p = ch_malloc(4096);
	CU(cudaStreamCreate(&with.stream));
	for (int i = 0; i < 2; i++)
		CU(cudaEventCreate(&with.event[i]));
}

static void with_close(void)
{
	CU(cudaStreamDestroy(with.stream));
	for (int i = 0; i < 2; i++)
		CU(cudaEventDestroy(with.event[i]));
	CU(cudaFree(with.p));
	CU(cudaFreeHost(words));
}

static void each_call_fails_body(void)
{
	with_open();
	os_sleep_ns(600000000); /* the plan's faults begin after 500 ms */
	for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
		CU_SAYS(calls[i].fn(), calls[i].usual, "by the fault plan");
		ck_assert_msg(calls[i].fn() == cudaSuccess, "%s, again", calls[i].site);
	}
	CU(cudaStreamSynchronize(with.stream));
	with_close();
}

START_TEST(each_call_fails_once_with_its_usual_error)
{
	char plan[4096] = "";
	size_t n = 0;
	for (size_t i = 0; i < ARRAY_LEN(calls); i++)
		n += (size_t)snprintf(plan + n, sizeof plan - n, "%s after=500ms fail\n",
				      calls[i].site);
	const struct ch_world w = {.plan = plan};
	ch_run(_i, &w, each_call_fails_body);
}
END_TEST

/* A line does not count a visit at which one above it fired. */
CH_TEST(any_is_every_call_in_one_sequence,
	.plan = "cuda.any nth=2 fail\ncuda.any nth=3 fail error=ECCUncorrectable\n")
{
	void *p = NULL;
	int n = 0;

	CU(cudaGetDeviceCount(&n));
	CU_FAILS(cudaMalloc(&p, 64), cudaErrorMemoryAllocation);
	CU(cudaMalloc(&p, 64));
	CU_FAILS(cudaMemset(p, 0, 64), cudaErrorECCUncorrectable);
	CU(cudaFree(p));
}

CH_TEST(a_call_that_releases_does_so_and_says_the_error,
	.plan = "cuda.free fail\ncuda.stream_destroy fail\ncuda.event_destroy fail\n"
		"cuda.free_host fail\ncuda.host_unregister fail\n")
{
	static char plain[4096] __attribute__((aligned(4096)));
	void *p = ch_malloc(64), *pinned = ch_pinned(64);
	cudaStream_t s;
	cudaEvent_t e;

	CU(cudaStreamCreate(&s));
	CU(cudaEventCreate(&e));
	CU(cudaHostRegister(plain, sizeof plain, 0));
	CU_FAILS(cudaFree(p), cudaErrorUnknown);
	CU_FAILS(cudaFreeHost(pinned), cudaErrorUnknown);
	CU_FAILS(cudaStreamDestroy(s), cudaErrorUnknown);
	CU_FAILS(cudaEventDestroy(e), cudaErrorUnknown);
	CU_FAILS(cudaHostUnregister(plain), cudaErrorUnknown);
}

CH_TEST(nvml_fails_in_its_own_numbers,
	.plan = "nvml.any nth=2 fail\nnvml.any nth=2 fail error=15\n")
{
	unsigned int n = 0;

	ck_assert_int_eq(nvmlInit_v2(), NVML_SUCCESS);
	ck_assert_int_eq(nvmlDeviceGetCount_v2(&n), NVML_ERROR_UNKNOWN);
	ck_assert_int_eq(nvmlDeviceGetCount_v2(&n), 15);
	ck_assert_int_eq(nvmlDeviceGetCount_v2(&n), NVML_SUCCESS);
	ck_assert_int_eq(nvmlShutdown(), NVML_SUCCESS);
}

/* ---- sticky --------------------------------------------------------------------------------- */

CH_TEST(a_sticky_fault_ends_kernels_and_stays_on_its_gpu,
	.plan = "cuda.mem_get_info sticky error=NvlinkUncorrectable\n")
{
	size_t a, b;
	cudaStream_t s;
	void *p = ch_malloc(64), *other = NULL;

	words_open();
	CU(cudaStreamCreate(&s));
	CU(block_launch(2, s, true)); /* would wait without end */
	CU_FAILS(cudaMemGetInfo(&a, &b), cudaErrorNvlinkUncorrectable);
	CU_FAILS(cudaStreamSynchronize(s), cudaErrorNvlinkUncorrectable);
	CU_FAILS(cudaMemGetInfo(&a, &b), cudaErrorNvlinkUncorrectable);
	CU(cudaSetDevice(1));
	CU(cudaMalloc(&other, 64));
	CU(cudaFree(other));
	CU(cudaSetDevice(0));
	CU_FAILS(cudaFree(p), cudaErrorNvlinkUncorrectable);
	CU_FAILS(cudaFreeHost(words), cudaErrorNvlinkUncorrectable);
	CU_FAILS(cudaStreamDestroy(s), cudaErrorNvlinkUncorrectable);
}

/* ---- late ----------------------------------------------------------------------------------- */

#define MS 1000000ull

static uint64_t blocks_run(unsigned blocks)
{
	uint64_t from = os_now_ns();

	words_open();
	CU(block_launch(blocks, NULL, false));
	CU(cudaDeviceSynchronize());
	return os_now_ns() - from;
}

CH_TEST(a_kernel_starts_late, .plan = "cuda.kernel delay by=20ms\n")
{
	ck_assert_uint_ge(blocks_run(1), 20 * MS);
	CU(cudaFreeHost(words));
}

CH_TEST(a_block_starts_late_and_the_others_do_not_wait, .plan = "cuda.block nth=1 delay by=20ms\n")
{
	ck_assert_uint_ge(blocks_run(3), 20 * MS);
	if (sim_engine_kind() == SIM_ENGINE_SIM) /* threads of a busy machine may be later still */
		ck_assert_uint_eq(words[2].v_, 2); /* block 0 was the last */
	CU(cudaFreeHost(words));
}

CH_TEST(a_block_that_is_held_runs_when_the_others_have_ended, .plan = "cuda.block channel=1 hold\n")
{
	(void)blocks_run(4);
	ck_assert_uint_eq(words[1].v_, 4);
	ck_assert_uint_eq(words[3].v_, 3); /* block 1 */
	CU(cudaFreeHost(words));
}

CH_TEST(a_held_block_ends_with_its_context,
	.plan = "cuda.block channel=0 hold\ncuda.mem_get_info sticky\n")
{
	size_t a, b;

	words_open();
	CU(block_launch(2, NULL, true));
	CU_FAILS(cudaMemGetInfo(&a, &b), cudaErrorIllegalAddress);
	CU_FAILS(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
	CU_FAILS(cudaFreeHost(words), cudaErrorIllegalAddress);
}

static void copy_note(void *arg)
{
	*(uint64_t *)arg = os_now_ns();
}

CH_TEST(a_callback_comes_late, .plan = "cuda.host_func delay by=20ms\n")
{
	uint64_t from = os_now_ns(), at = 0;

	CU(cudaLaunchHostFunc(NULL, copy_note, &at));
	CU(cudaDeviceSynchronize());
	ck_assert_uint_ge(at - from, 20 * MS);
}

CH_TEST(copies_are_slow_or_late, .plan = "cuda.copy delay by=20ms\n", .strategy = SIM_FIFO)
{
	void *p = ch_malloc(1 << 20), *q = ch_pinned(1 << 20);
	uint64_t from = os_now_ns();

	CU(cudaMemcpy(p, q, 1 << 20, cudaMemcpyHostToDevice));
	ck_assert_uint_ge(os_now_ns() - from, 20 * MS);
	CU(cudaFree(p));
	CU(cudaFreeHost(q));
}

/* Bandwidth is a matter of virtual time. */
CH_TEST(a_copy_at_a_tenth_of_the_bandwidth, .plan = "cuda.copy nth=2 slow by=10\n",
	.strategy = SIM_FIFO)
{
	void *p = ch_malloc(1 << 20), *q = ch_pinned(1 << 20);
	uint64_t took[2];

	for (int i = 0; i < 2; i++) {
		uint64_t from = os_now_ns();
		CU(cudaMemcpy(p, q, 1 << 20, cudaMemcpyHostToDevice));
		took[i] = os_now_ns() - from;
	}
	ck_assert_uint_ge(took[1], 7 * took[0]);
	CU(cudaFree(p));
	CU(cudaFreeHost(q));
}

CH_TEST(a_warp_is_starved, .plan = "cuda.warp rank=3 starve by=20ms\n", .strategy = SIM_FIFO)
{
	os_self()->rank = 3;
	ck_assert_uint_ge(blocks_run(2), 20 * MS);
	os_self()->rank = -1;
	CU(cudaFreeHost(words));
}

int main(void)
{
	TCase *t = tcase_create("fault");

	CH_ADD(t, each_call_fails_once_with_its_usual_error);
	CH_ADD(t, any_is_every_call_in_one_sequence);
	CH_ADD(t, a_call_that_releases_does_so_and_says_the_error);
	CH_ADD(t, nvml_fails_in_its_own_numbers);
	CH_ADD(t, a_sticky_fault_ends_kernels_and_stays_on_its_gpu);
	CH_ADD(t, a_kernel_starts_late);
	CH_ADD(t, a_block_starts_late_and_the_others_do_not_wait);
	CH_ADD(t, a_block_that_is_held_runs_when_the_others_have_ended);
	CH_ADD(t, a_held_block_ends_with_its_context);
	CH_ADD(t, a_callback_comes_late);
	CH_ADD(t, copies_are_slow_or_late);
	CH_ADD_SIM(t, a_copy_at_a_tenth_of_the_bandwidth);
	CH_ADD_SIM(t, a_warp_is_starved);
	return ch_suite_run("cuda faults", t);
}
