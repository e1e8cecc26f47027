/* SPDX-License-Identifier: BSD-3-Clause */
/* Stream memory operations of the double: order with kernels, reports, hangs, dead contexts. */
#include <cuda.h>

#define CH_DRIVER
#include "tests/conformance/cuda/cuda_harness.h"

#define DRV(call) ck_assert_int_eq((call), CUDA_SUCCESS)

struct relay_args {
	uint64_t gate, out;
};

/* Waits for the word, then stores to the other one, as a peer of the stream would. */
CH_KERNEL(relay, 0)
{
	if (ch_wait_word(d, a->gate, 1))
		fakedev_store(d, (void *)(uintptr_t)a->out, 8, 5, SHARED_RELEASE, SHARED_SYSTEM);
}

static cudaStream_t stream_new(void)
{
	cudaStream_t s = NULL;

	CU(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	return s;
}

CH_TEST(kernels_and_streams_wake_each_other, .width = 32)
{
	CUdeviceptr words = (CUdeviceptr)(uintptr_t)ch_malloc(64);
	cudaStream_t a = stream_new(), b = stream_new();
	const struct relay_args args = {words, words + 8};
	uint64_t got[3] = {0};

	DRV(cuMemsetD8(words, 0, 64));
	CU(cudaDeviceSynchronize());
	CU(ch_launch_on(CH_BY_WIDTH(relay), 1, 1, &args, a));
	DRV(cuStreamWaitValue64(b, words + 8, 5, CU_STREAM_WAIT_VALUE_GEQ));
	DRV(cuStreamWriteValue64(b, words + 16, 6, 0));
	ck_assert_int_eq(cudaStreamQuery(b), cudaErrorNotReady);
	DRV(cuStreamWriteValue64(0, words, 1, 0));
	CU(cudaStreamSynchronize(b));
	CU(cudaMemcpy(got, (void *)(uintptr_t)words, sizeof got, cudaMemcpyDeviceToHost));
	ck_assert_uint_eq(got[1], 5);
	ck_assert_uint_eq(got[2], 6);
	CU(cudaStreamSynchronize(a));
	CU(cudaStreamDestroy(a));
	CU(cudaStreamDestroy(b));
	CU(cudaFree((void *)(uintptr_t)words));
}

/* A store of the host ends the wait. */
CH_TEST(a_store_of_the_host_ends_a_wait)
{
	shared_u64 *word = ch_pinned(8);
	cudaStream_t s = stream_new();

	DRV(cuStreamWaitValue64(s, (uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_EQ));
	os_sleep_ns(100000);
	ck_assert_int_eq(cudaStreamQuery(s), cudaErrorNotReady);
	shared_store_u64(word, 1, SHARED_RELEASE);
	CU(cudaStreamSynchronize(s));
	CU(cudaStreamDestroy(s));
	CU(cudaFreeHost(word));
}

CH_TEST(a_word_must_be_memory_that_the_gpu_reaches)
{
	static uint64_t plain;
	CUdeviceptr p = (CUdeviceptr)(uintptr_t)ch_malloc(64);

	CU_SAYS((cudaError_t)cuStreamWriteValue32(0, (uintptr_t)&plain, 1, 0),
		cudaErrorInvalidValue, "is host memory that is not pinned");
	CU_SAYS((cudaError_t)cuStreamWriteValue64(0, p + 64, 1, 0), cudaErrorInvalidValue,
		"cuStreamWriteValue64: address 0x");
	CU_SAYS((cudaError_t)cuStreamWaitValue32(0, p, 1, CU_STREAM_WAIT_VALUE_FLUSH),
		cudaErrorNotSupported, "cannot flush remote writes");
	CU(cudaFree((void *)(uintptr_t)p));
}

CH_TEST(a_graph_has_no_memory_operations)
{
	CUdeviceptr p = (CUdeviceptr)(uintptr_t)ch_malloc(64);
	cudaStream_t s = stream_new();
	cudaGraph_t g = NULL;

	CU(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	CU_SAYS((cudaError_t)cuStreamWriteValue32(s, p, 1, 0), cudaErrorStreamCaptureUnsupported,
		"cuStreamWriteValue32: ");
	CU_FAILS(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureInvalidated);
	CU(cudaStreamDestroy(s));
	CU(cudaFree((void *)(uintptr_t)p));
}

/* ---- hangs and dead contexts ---------------------------------------------------------------- */

struct wild_args {
	uint64_t at;
};

CH_KERNEL(wild, 0)
{
	fakedev_store(d, (void *)(uintptr_t)a->at, 8, 1, SHARED_RELAXED, SHARED_SYSTEM);
}

CH_TEST(a_dead_context_ends_its_waits, .leaks = 1)
{
	CUdeviceptr p = (CUdeviceptr)(uintptr_t)ch_malloc(64);
	cudaStream_t s = stream_new(), t = stream_new();
	const struct wild_args args = {p + (64 << 20)};

	DRV(cuStreamWaitValue32(s, p, 1, CU_STREAM_WAIT_VALUE_EQ));
	os_sleep_ns(100000);
	CU(ch_launch_on(CH_BY_WIDTH(wild), 1, 1, &args, t));
	ck_assert_int_eq(cudaStreamSynchronize(s), cudaErrorIllegalAddress);
	ck_assert_int_eq(cudaFree((void *)(uintptr_t)p), cudaErrorIllegalAddress);
	ck_assert_int_eq(cudaStreamDestroy(t), cudaErrorIllegalAddress);
}

static void hang_main(void *arg)
{
	CUdeviceptr p = (CUdeviceptr)(uintptr_t)ch_malloc(64);
	cudaStream_t s = stream_new();

	(void)arg;
	DRV(cuMemsetD8(p, 3, 64));
	CU(cudaDeviceSynchronize());
	DRV(cuStreamWaitValue32(s, p + 4, 0x77, CU_STREAM_WAIT_VALUE_EQ));
	CU(cudaStreamSynchronize(s));
}

static void hang_child(void)
{
	const struct sim_config config = {
		.engine = SIM_ENGINE_SIM, .seed = 1, .strategy = SIM_FIFO};
	const struct world_config world = {
		.hosts = 1, .machine = "a100-4nic", .strict_device_view = true, .warp_width = 1};

	if (sim_start(&config) || world_create(&world))
		_exit(1);
	_exit(sim_run(hang_main, NULL));
}

START_TEST(a_hang_names_the_word_and_the_value)
{
	static char text[65536];

	ck_assert_int_eq(ch_child(hang_child, text, sizeof text), SIM_NO_PROGRESS);
	ck_assert_msg(strstr(text, "cudaStreamSynchronize stream 1 of gpu 0") != NULL, "%s", text);
	ck_assert_msg(strstr(text, "stream 1 of gpu 0, word 0x200000000004 EQ 0x77") != NULL, "%s",
		      text);
	ck_assert_msg(strstr(text, "is 50529027, wants == 119") != NULL, "%s", text);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("memop");

	CH_ADD(tcase, kernels_and_streams_wake_each_other);
	CH_ADD(tcase, a_store_of_the_host_ends_a_wait);
	CH_ADD(tcase, a_word_must_be_memory_that_the_gpu_reaches);
	CH_ADD(tcase, a_graph_has_no_memory_operations);
	CH_ADD(tcase, a_dead_context_ends_its_waits);
	tcase_add_test(tcase, a_hang_names_the_word_and_the_value);
	return ch_suite_run("cuda_memop", tcase);
}
