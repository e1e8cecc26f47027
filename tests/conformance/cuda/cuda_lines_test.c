/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines of 128 bytes between two GPUs of the double that PCIe connects: their words become visible
 * one by one, as on hardware, so that a kernel which relies on whole lines there reads wrong data.
 * The machine of device_litmus_test.c has NVLink, and there the same kernel reads what was sent.
 */
#include "tests/device_harness.h"

#include "core/base/shared.h"
#include "tests/conformance/device_kernels.h"

DEVICE_KERNEL_DECLARE(litmus);

enum { TORN_STEPS = 24 };

/* In the memory of the result: what the kernel reports. */
struct torn_result {
	shared_u64 errors;
	uint64_t pad;
	uint64_t first[4];
};

static void torn_launch(const struct device_run *r, struct litmus_args *a, int gpu, cudaStream_t s)
{
	CUDA_OK(cudaSetDevice(gpu));
	a->role = gpu ? LITMUS_CONSUMER : LITMUS_PRODUCER;
	device_launch(DEVICE_KERNEL(litmus, r->width), 1, 2, r->width, a, s);
}

static void torn_body(const struct device_run *r)
{
	struct torn_result *result = device_host_alloc(sizeof *result);
	size_t bytes = (size_t)2 * DEV_STEPS * DEV_WARP_PAIRS_MOST * DEV_PAIR_BYTES;
	struct litmus_args a = {.steps = TORN_STEPS,
				.slots = DEV_STEPS,
				.form = LITMUS_PAIRS,
				.scope = SHARED_SYSTEM,
				.slots_at = (uintptr_t)device_alloc(1, bytes),
				.tail = (uintptr_t)device_alloc(1, 8),
				.head = (uintptr_t)device_alloc(0, 8),
				.errors = (uintptr_t)&result->errors,
				.first = (uintptr_t)result->first};
	cudaStream_t s[2];

	device_peers_enable(r, 2);
	for (int i = 0; i < 2; i++) {
		CUDA_OK(cudaSetDevice(i));
		CUDA_OK(cudaStreamCreateWithFlags(&s[i], cudaStreamNonBlocking));
		torn_launch(r, &a, i, s[i]);
	}
	for (int i = 0; i < 2; i++) {
		CUDA_OK(cudaStreamSynchronize(s[i]));
		CUDA_OK(cudaStreamDestroy(s[i]));
	}
	/* between two stores of one line the other engine may not switch */
	CHECK(shared_load_u64(&result->errors, SHARED_ACQUIRE) || strstr(r->where, "threads"),
	      "%s: no line of %d steps was torn", r->where, TORN_STEPS);
	CUDA_OK(cudaFree((void *)(uintptr_t)a.slots_at));
	CUDA_OK(cudaFree((void *)(uintptr_t)a.tail));
	CUDA_OK(cudaFree((void *)(uintptr_t)a.head));
	CUDA_OK(cudaFreeHost(result));
}

int main(void)
{
	return device_harness(torn_body, 3);
}
