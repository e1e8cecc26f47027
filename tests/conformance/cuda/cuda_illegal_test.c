/* SPDX-License-Identifier: BSD-3-Clause */
/* A context of the GPU double whose kernel does something illegal, and the reset of a device. */
#include "tests/conformance/cuda/cuda_harness.h"

enum bad {
	BAD_WRITE_PAST,
	BAD_READ_FREED,
	BAD_HOST,
	BAD_PEER,
	BAD_ALIGN,
	BAD_BARRIER_COUNT,
	BAD_EXIT,
	BAD_STORE_WILD
};
struct bad_args {
	uint64_t what, at, gate;
};

/* Thread 0 does it; the others wait for a word that never comes, or at a barrier. */
CH_KERNEL(bad, 0)
{
	if (d->thread != 0 && a->what == BAD_BARRIER_COUNT)
		fakedev_barrier(d, 1, 64, false);
	else if (d->thread != 0 && a->what == BAD_EXIT)
		fakedev_barrier(d, 0, (int)d->nthreads, false);
	else if (d->thread % 2)
		ch_wait_word(d, a->gate, 1);
	else if (d->thread)
		fakedev_barrier(d, 2, 64, false);
	if (d->thread == 0 && a->what == BAD_BARRIER_COUNT)
		fakedev_barrier(d, 1, 32, false);
	else if (d->thread == 0 && a->what == BAD_READ_FREED)
		fakedev_read(d, (void *)(uintptr_t)a->at, 4);
	else if (d->thread == 0 && a->what == BAD_WRITE_PAST)
		fakedev_write(d, (void *)(uintptr_t)a->at, 128);
	else if (d->thread == 0 && a->what != BAD_EXIT)
		fakedev_store(d, (void *)(uintptr_t)a->at, 4, 1, SHARED_RELAXED, SHARED_SYSTEM);
}

/* The context of GPU 0 dies with `error`, logs `words`; GPU 1 goes on. */
static void bad_kernel(enum bad what, uint64_t at, cudaError_t error, const char *words)
{
	uint64_t *gate = ch_pinned(8);
	struct bad_args a = {what, at, (uintptr_t)gate};
	struct ch_capture c;
	void *p;

	ch_capture_begin(&c);
	cudaError_t launched = ch_launch_on(CH_BY_WIDTH(bad), 2, 64, &a, 0);
	cudaError_t sync = cudaDeviceSynchronize();
	ch_capture_end(&c);
	ck_assert_int_eq(launched, cudaSuccess);
	ck_assert_msg(sync == error, "got %s", cudaGetErrorName(sync));
	ck_assert_msg(strstr(c.text, words) != NULL, "logged \"%s\"", c.text);
	ck_assert_msg(strstr(c.text, "kernel bad (k1 of gpu 0") != NULL, "logged \"%s\"", c.text);
	/* sticky: the last error can be read away, but every call brings it back */
	ck_assert_int_eq(cudaGetLastError(), error);
	ck_assert_int_eq(cudaGetLastError(), cudaSuccess);
	ck_assert_int_eq(cudaMalloc(&p, 16), error);
	ck_assert_int_eq(cudaPeekAtLastError(), error);
	ck_assert_int_eq(ch_launch_on(CH_BY_WIDTH(bad), 1, 1, &a, 0), error);
	ck_assert_int_eq(cudaStreamQuery(0), error);
	CU(cudaSetDevice(1));
	ck_assert_int_eq(cudaGetLastError(), error); /* of the thread: the last call that failed */
	CU(cudaGetLastError());
	CU(cudaMalloc(&p, 16));
	CU(cudaFree(p));
	CU(cudaSetDevice(0));
	ck_assert_int_eq(cudaFreeHost(gate), error); /* freed all the same */
}

CH_TEST(write_past_an_allocation_kills_the_context)
{
	char *p = ch_malloc(1000);

	bad_kernel(BAD_WRITE_PAST, (uintptr_t)p + 900, cudaErrorIllegalAddress,
		   "write of 128 bytes at 0x");
	ck_assert_int_eq(cudaFree(p), cudaErrorIllegalAddress);
}

CH_TEST(read_after_free_kills_the_context)
{
	char *p = ch_malloc(1000);

	CU(cudaFree(p));
	bad_kernel(BAD_READ_FREED, (uintptr_t)p + 8, cudaErrorIllegalAddress,
		   "8 bytes into gpu 0 allocation #1");
}

CH_TEST(plain_host_memory_in_a_kernel_kills_the_context)
{
	static uint32_t plain;

	bad_kernel(BAD_HOST, (uintptr_t)&plain, cudaErrorIllegalAddress,
		   "host memory that is not pinned");
}

CH_TEST(peer_memory_without_access_kills_the_context)
{
	CU(cudaSetDevice(1));
	void *p = ch_malloc(64);

	CU(cudaSetDevice(0));
	bad_kernel(BAD_PEER, (uintptr_t)p, cudaErrorIllegalAddress,
		   "gpu 0 has no peer access to gpu 1");
	CU(cudaSetDevice(1));
	CU(cudaFree(p));
}

CH_TEST(misaligned_word_kills_the_context)
{
	char *p = ch_malloc(64);

	bad_kernel(BAD_ALIGN, (uintptr_t)p + 2, cudaErrorMisalignedAddress, "misaligned address");
	ck_assert_int_eq(cudaFree(p), cudaErrorMisalignedAddress);
}

CH_TEST(barrier_with_two_counts_kills_the_context)
{
	bad_kernel(BAD_BARRIER_COUNT, 0, cudaErrorLaunchFailure, "barrier 1 of ");
}

CH_TEST(exit_while_others_wait_at_a_barrier_kills_the_context)
{
	bad_kernel(BAD_EXIT, 0, cudaErrorLaunchFailure, "exited");
}

CH_TEST(wild_store_kills_the_context)
{
	bad_kernel(BAD_STORE_WILD, 0x2000000ff000ull & ~7ull, cudaErrorIllegalAddress,
		   "illegal address: store of 4 bytes");
}

CH_TEST(a_reset_does_not_bring_a_dead_context_back)
{
	void *p;

	bad_kernel(BAD_STORE_WILD, 8, cudaErrorIllegalAddress, "illegal address");
	CU(cudaDeviceReset());
	ck_assert_int_eq(cudaMalloc(&p, 16), cudaErrorDevicesUnavailable);
}

CH_TEST(reset_frees_what_the_device_has)
{
	size_t available, total;
	cudaStream_t s;

	(void)ch_malloc(1 << 20);
	CU(cudaStreamCreate(&s));
	CU(cudaDeviceReset());
	CU(cudaMemGetInfo(&available, &total));
	ck_assert_uint_eq(available, total);
	CU_MISUSE(cudaStreamQuery(s), cudaErrorInvalidResourceHandle, "invalid stream");
}

int main(void)
{
	TCase *t = tcase_create("illegal");

	CH_ADD(t, write_past_an_allocation_kills_the_context);
	CH_ADD(t, read_after_free_kills_the_context);
	CH_ADD(t, plain_host_memory_in_a_kernel_kills_the_context);
	CH_ADD(t, peer_memory_without_access_kills_the_context);
	CH_ADD(t, misaligned_word_kills_the_context);
	CH_ADD(t, barrier_with_two_counts_kills_the_context);
	CH_ADD(t, exit_while_others_wait_at_a_barrier_kills_the_context);
	CH_ADD(t, wild_store_kills_the_context);
	CH_ADD(t, a_reset_does_not_bring_a_dead_context_back);
	CH_ADD(t, reset_frees_what_the_device_has);
	return ch_suite_run("cuda illegal", t);
}
