/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs tests of device code: on fakecuda in both engines and with both warp widths, and in builds
 * with real GPUs on the GPUs (once; exit 77 without a GPU). A failing check prints what it saw and
 * aborts. Used by tests/conformance/device_* and tests/collectives/device_*.
 */
#ifndef TESTS_DEVICE_HARNESS_H
#define TESTS_DEVICE_HARNESS_H

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/device/layout/work.h"
#include "core/os/os.h"
#ifdef DOPPEL_FAKECUDA
#include "sim/engine/sim.h"
#include "sim/world/world.h"
#endif

#define CHECK(cond, ...)                                                                           \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #cond);                 \
			fprintf(stderr, __VA_ARGS__);                                              \
			fprintf(stderr, "\n");                                                     \
			abort();                                                                   \
		}                                                                                  \
	} while (0)
#define CUDA_OK(call)                                                                              \
	do {                                                                                       \
		cudaError_t err_ = (call);                                                         \
		CHECK(err_ == cudaSuccess, "%s", cudaGetErrorString(err_));                        \
	} while (0)

/* The doubles' machine, for a test that defines no other. */
#ifndef DEVICE_MACHINE
#define DEVICE_MACHINE "pcie-4gpu"
#endif

/* The argument of a test body. */
struct device_run {
	const char *where; /* "sim, warp width 1" */
	int width;         /* lanes per warp */
	int gpus;
	bool slow;  /* sim, or many lanes: fewer iterations */
	bool light; /* many lanes under ThreadSanitizer: the least that makes sense */
	bool real;
	uint64_t seed;
};

/* The GPU of a rank. Real GPUs may be fewer than ranks, and have room for the kernels of
 * several. */
static inline int device_of_rank(const struct device_run *run, int rank)
{
	return rank % run->gpus;
}

/* How many ranks a test may have, of `most`. */
static inline int device_ranks(const struct device_run *run, int most)
{
	return run->light ? 2 : run->real ? most : MIN_OF(run->gpus, most);
}

/* Memory of the host that all GPUs reach: pinned, mapped, zeroed. */
static inline void *device_host_alloc(size_t bytes)
{
	void *p = NULL;

	CUDA_OK(cudaHostAlloc(&p, bytes, cudaHostAllocMapped | cudaHostAllocPortable));
	memset(p, 0, bytes);
	return p;
}

/* Zeroed memory of one GPU, which is current afterwards. */
static inline void *device_alloc(int gpu, size_t bytes)
{
	void *p = NULL;

	CUDA_OK(cudaSetDevice(gpu));
	CUDA_OK(cudaMalloc(&p, bytes));
	CUDA_OK(cudaMemset(p, 0, bytes));
	CUDA_OK(cudaDeviceSynchronize());
	return p;
}

static inline void device_peers_enable(const struct device_run *run, int ranks)
{
	int gpus = MIN_OF(ranks, run->gpus);

	for (int i = 0; i < gpus; i++) {
		CUDA_OK(cudaSetDevice(i));
		for (int j = 0; j < gpus; j++)
			if (j != i)
				CUDA_OK(cudaDeviceEnablePeerAccess(j, 0));
	}
}

static inline void device_launch(const struct dev_kernel *k, int blocks, int warps, int width,
				 const void *args, cudaStream_t stream)
{
	void *params[] = {(void *)(uintptr_t)args};
	dim3 grid = {(unsigned)blocks, 1, 1}, block = {(unsigned)(warps * width), 1, 1};

	CUDA_OK(cudaLaunchKernel(k->func, grid, block, params, k->shared_bytes, stream));
}

#ifdef DOPPEL_FAKECUDA
/* A test kernel, by name and width. */
#define DEVICE_KERNEL(name, width)                                                                 \
	((width) == 1 ? &dev_kernel_##name##_w1 : &dev_kernel_##name##_w32)
#define DEVICE_KERNEL_DECLARE(name)                                                                \
	extern const struct dev_kernel dev_kernel_##name##_w1, dev_kernel_##name##_w32

#ifdef __SANITIZE_THREAD__
#define DEVICE_TSAN 1
#else
#define DEVICE_TSAN 0
#endif

struct device_main {
	void (*body)(const struct device_run *r);
	struct device_run run;
};

static inline void device_main_task(void *arg)
{
	struct device_main *m = (struct device_main *)arg;

	CUDA_OK(cudaGetDeviceCount(&m->run.gpus));
	m->body(&m->run);
}

static inline void device_harness_one(void (*body)(const struct device_run *r),
				      enum sim_engine engine, int width, uint64_t seed)
{
	struct sim_config config = {.engine = engine, .seed = seed};
	struct world_config world = {.hosts = 1,
				     .machine = DEVICE_MACHINE,
				     .strict_device_view = true,
				     .warp_width = (uint32_t)width};
	char where[64];
	struct device_main m = {.body = body};
	enum sim_verdict verdict;
	uint64_t leaks;

	snprintf(where, sizeof where, "%s, warp width %d, seed %llu",
		 engine == SIM_ENGINE_SIM ? "sim" : "threads", width, (unsigned long long)seed);
	m.run = (struct device_run){.where = where,
				    .width = width,
				    .slow = engine == SIM_ENGINE_SIM || width > 1,
				    .light = DEVICE_TSAN && width > 1,
				    .seed = seed};
	CHECK(sim_start(&config) == 0, "%s", where);
	CHECK(world_create(&world) == 0, "%s", where);
	verdict = sim_run(device_main_task, &m);
	CHECK(verdict == SIM_PASS, "%s: verdict %d", where, verdict);
	leaks = world_destroy();
	CHECK(leaks == 0, "%s: %llu leaks", where, (unsigned long long)leaks);
	sim_stop();
	printf("ok: %s\n", where);
}

static inline int device_harness(void (*body)(const struct device_run *r), int seeds)
{
	if (DEVICE_TSAN)
		seeds = 0; /* one OS thread has no races, and is slow with them looked for */
	for (int width = 1; width <= 32; width += 31) {
		for (int seed = 1; seed <= seeds; seed++)
			device_harness_one(body, SIM_ENGINE_SIM, width, (uint64_t)seed);
		device_harness_one(body, SIM_ENGINE_THREADS, width, 1);
	}
	return EXIT_SUCCESS;
}
#else
#define DEVICE_KERNEL(name, width)  (&dev_kernel_##name##_w32)
#define DEVICE_KERNEL_DECLARE(name) extern const struct dev_kernel dev_kernel_##name##_w32

static inline int device_harness(void (*body)(const struct device_run *r), int seeds)
{
	struct device_run run = {.where = "real GPUs", .width = 32, .real = true, .seed = 1};

	(void)seeds;
	if (cudaGetDeviceCount(&run.gpus) != cudaSuccess || run.gpus == 0) {
		printf("skipped: no GPU\n");
		return 77;
	}
	body(&run);
	printf("ok: %d real GPUs\n", run.gpus);
	return EXIT_SUCCESS;
}
#endif

#endif
