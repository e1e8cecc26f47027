/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory-order litmus of the device shim (core/device/shim/shim.h), on the double and on real GPUs:
 * what the primitives rely on, in the forms in which they use it.
 *
 *   message passing   data, then a flag, by release store, or by barrier, fence and relaxed store
 *   FIFO with credit  slots that are reused: no slot is overwritten before it was read
 *   lines             16 bytes with their flags inside, no order between lines; 128 bytes with one
 *                     flag, in the GPU's own memory and over NVLink
 *
 * between two blocks of a GPU (gpu and system scope), two GPUs, and a GPU and the host both ways.
 * One slot makes it pure message passing, DEV_STEPS slots the FIFO of a connection.
 */
/* With NVLink, over which lines of 128 bytes arrive whole. */
#define DEVICE_MACHINE "a100-4nic"

#include "tests/device_harness.h"

#include "core/base/shared.h"
#include "tests/conformance/device_kernels.h"

DEVICE_KERNEL_DECLARE(litmus);

struct host_result {
	shared_u64 errors;
	uint64_t pad;
	uint64_t first[4];
};

static const char *const form_name[] = {"release store", "fence and relaxed store", "line",
					"line of 128 bytes"};

static uint32_t litmus_steps(const struct device_run *r)
{
	if (r->real)
		return 20000;
	return r->width > 1 ? 24 : 100;
}

static void litmus_check(const struct device_run *r, struct host_result *result,
			 const struct litmus_args *a, const char *between)
{
	uint64_t errors = shared_load_u64(&result->errors, SHARED_ACQUIRE);

	CHECK(errors == 0,
	      "%s, %s, %s, %u slots: %llu wrong; first: step %llu thread %llu saw %#llx, not %#llx",
	      r->where, between, form_name[a->form], a->slots, (unsigned long long)errors,
	      (unsigned long long)result->first[0], (unsigned long long)result->first[1],
	      (unsigned long long)result->first[2], (unsigned long long)result->first[3]);
	memset(result, 0, sizeof *result);
}

/* Producer on GPU `from`, consumer on GPU `to`; the same GPU: two blocks of one launch. */
static void litmus_gpus(const struct device_run *r, struct host_result *result, int from, int to,
			struct litmus_args a, int warps)
{
	size_t line_bytes = (size_t)(warps * r->width) * sizeof(struct v16);
	size_t pair_bytes = (size_t)warps * DEV_WARP_PAIRS_MOST * DEV_PAIR_BYTES;
	size_t slot_bytes = (size_t)a.slots * MAX_OF(line_bytes, pair_bytes);
	void *slots = device_alloc(to, slot_bytes), *tail = device_alloc(to, 8);
	void *head = device_alloc(from, 8);
	cudaStream_t s[2];

	a.slots_at = (uintptr_t)slots;
	a.tail = (uintptr_t)tail;
	a.head = (uintptr_t)head;
	a.errors = (uintptr_t)&result->errors;
	a.first = (uintptr_t)result->first;
	for (int i = 0; i < 2; i++) {
		CUDA_OK(cudaSetDevice(i ? to : from));
		CUDA_OK(cudaStreamCreateWithFlags(&s[i], cudaStreamNonBlocking));
	}
	for (int i = 0; i < (from == to ? 1 : 2); i++) {
		a.role = i ? LITMUS_CONSUMER : LITMUS_PRODUCER;
		CUDA_OK(cudaSetDevice(i ? to : from));
		device_launch(DEVICE_KERNEL(litmus, r->width), from == to ? 2 : 1, warps, r->width,
			      &a, s[i]);
	}
	for (int i = 0; i < 2; i++) {
		CUDA_OK(cudaStreamSynchronize(s[i]));
		CUDA_OK(cudaStreamDestroy(s[i]));
	}
	litmus_check(r, result, &a, from == to ? "two blocks" : "two GPUs");
	CUDA_OK(cudaFree(slots));
	CUDA_OK(cudaFree(tail));
	CUDA_OK(cudaFree(head));
}

/* ---- the host's end ------------------------------------------------------------------------- */

static void host_wait(const shared_u64 *word, uint64_t want, const char *why)
{
	struct wait w = {.on = word,
			 .want = want,
			 .mask = WAIT_MASK_ALL,
			 .kind = WAIT_GE,
			 .bytes = 8,
			 .why = why,
			 .from = {.rank = -1, .channel = -1}};

	CHECK(os_wait_one(&w, NULL) == 0, "%s", why);
	CHECK(shared_load_u64(word, SHARED_ACQUIRE) >= want, "%s: woken too early", why);
}

static void host_produce(const struct litmus_args *a, uint32_t threads)
{
	uint64_t *slots = (uint64_t *)(uintptr_t)a->slots_at;

	for (uint64_t step = 0; step < a->steps; step++) {
		if (step >= a->slots)
			host_wait((shared_u64 *)(uintptr_t)a->head, step + 1 - a->slots,
				  "host: credit");
		for (uint32_t t = 0; t < threads; t++) {
			uint64_t v = litmus_value(step, t);

			shared_write(&slots[step % a->slots * threads + t], &v, sizeof v);
		}
		shared_store_u64((shared_u64 *)(uintptr_t)a->tail, step + 1, SHARED_RELEASE);
	}
}

static void host_consume(const struct device_run *r, const struct litmus_args *a, uint32_t threads)
{
	uint64_t *slots = (uint64_t *)(uintptr_t)a->slots_at;

	for (uint64_t step = 0; step < a->steps; step++) {
		host_wait((shared_u64 *)(uintptr_t)a->tail, step + 1, "host: data");
		for (uint32_t t = 0; t < threads; t++) {
			uint64_t v;

			shared_read(&v, &slots[step % a->slots * threads + t], sizeof v);
			CHECK(v == litmus_value(step, t), "%s: host saw %#llx at step %llu",
			      r->where, (unsigned long long)v, (unsigned long long)step);
		}
		shared_store_u64((shared_u64 *)(uintptr_t)a->head, step + 1, SHARED_RELEASE);
	}
}

/* Slots and words in pinned host memory. */
static void litmus_host(const struct device_run *r, struct host_result *result,
			struct litmus_args a, bool gpu_produces)
{
	uint32_t threads = 2 * (uint32_t)r->width;
	uint8_t *mem = device_host_alloc(256 + (size_t)a.slots * threads * 8);
	cudaStream_t s;

	a.tail = (uintptr_t)mem;
	a.head = (uintptr_t)(mem + 128);
	a.slots_at = (uintptr_t)(mem + 256);
	a.errors = (uintptr_t)&result->errors;
	a.first = (uintptr_t)result->first;
	a.role = gpu_produces ? LITMUS_PRODUCER : LITMUS_CONSUMER;
	CUDA_OK(cudaSetDevice(0));
	CUDA_OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	device_launch(DEVICE_KERNEL(litmus, r->width), 1, 2, r->width, &a, s);
	if (gpu_produces)
		host_consume(r, &a, threads);
	else
		host_produce(&a, threads);
	CUDA_OK(cudaStreamSynchronize(s));
	CUDA_OK(cudaStreamDestroy(s));
	litmus_check(r, result, &a, gpu_produces ? "GPU to host" : "host to GPU");
	CUDA_OK(cudaFreeHost(mem));
}

static void litmus_body(const struct device_run *r)
{
	struct host_result *result = device_host_alloc(sizeof *result);
	struct litmus_args a;

	memset(&a, 0, sizeof a);
	a.steps = litmus_steps(r);
	device_peers_enable(r, 2);
	for (a.slots = 1; a.slots <= DEV_STEPS; a.slots += DEV_STEPS - 1) {
		for (a.form = LITMUS_RELEASE; a.form < LITMUS_FORMS; a.form++) {
			a.scope = SHARED_GPU;
			litmus_gpus(r, result, 0, 0, a, 2);
			a.scope = SHARED_SYSTEM;
			litmus_gpus(r, result, 0, 0, a, 1);
			if (r->gpus > 1)
				litmus_gpus(r, result, 0, 1, a, 2);
			if (a.form >= LITMUS_LINE)
				continue;
			litmus_host(r, result, a, true);
			litmus_host(r, result, a, false);
		}
	}
	CUDA_OK(cudaFreeHost(result));
}

int main(void)
{
	return device_harness(litmus_body, 3);
}
