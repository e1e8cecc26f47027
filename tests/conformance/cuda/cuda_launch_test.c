/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kernels on the GPU double: identity of threads, barriers, warp operations, shared words, argument
 * and configuration errors.
 */
#include "tests/conformance/cuda/cuda_harness.h"
#include "tests/sample.h"

/* ---- identity and arguments ----------------------------------------------------------------- */

struct ids_args {
	uint64_t out; /* uint64_t per thread of the grid */
	uint32_t blocks, threads;
};

CH_KERNEL(ids, 64)
{
	uint64_t at = a->out + 8ull * (d->block * d->nthreads + d->thread);
	uint64_t v = (uint64_t)d->block << 32 | d->thread;

	if (d->nblocks != a->blocks || d->nthreads != a->threads || (uintptr_t)d->shared % 16)
		v = ~0ull;
	*(uint64_t *)fakedev_write(d, (void *)(uintptr_t)at, 8) = v + 1;
	fakedev_wrote(d, (void *)(uintptr_t)at, 8);
}

static void every_thread_runs_once(void)
{
	enum { BLOCKS = 5, THREADS = 64 };
	static uint64_t back[BLOCKS * THREADS];
	uint64_t *out = ch_malloc(sizeof back);
	struct ids_args a = {(uintptr_t)out, BLOCKS, THREADS};

	CU(ch_launch_on(CH_BY_WIDTH(ids), BLOCKS, THREADS, &a, 0));
	memset(&a, 0xff, sizeof a); /* the launch has its own copy */
	CU(cudaMemcpy(back, out, sizeof back, cudaMemcpyDeviceToHost));
	uint64_t i = 0;
	while (i < BLOCKS * THREADS && back[i] == ((i / THREADS) << 32 | i % THREADS) + 1)
		i++;
	ck_assert_uint_eq(i, BLOCKS * THREADS);
	CU(cudaFree(out));
}

CH_TEST(every_thread_runs_once_width_1, .width = 1)
{
	every_thread_runs_once();
}

CH_TEST(every_thread_runs_once_width_32, .width = 32)
{
	every_thread_runs_once();
}

CH_TEST(launch_errors_are_named)
{
	uint64_t *out = ch_malloc(8);
	struct ids_args a = {(uintptr_t)out, 1, 1};
	void *params[] = {&a}, *none[] = {NULL};
	const void *f = ids_w1.func;
	dim3 one = {1, 1, 1};

	CU_SAYS(cudaLaunchKernel(&a, one, one, params, 0, 0), cudaErrorInvalidResourceHandle,
		"not a registered kernel");
	CU_SAYS(cudaLaunchKernel(ids_w32.func, one, one, params, 0, 0),
		cudaErrorInvalidDeviceFunction, "built for warps of 32");
	CU_FAILS(cudaLaunchKernel(f, (dim3){0, 1, 1}, one, params, 0, 0), cudaErrorInvalidValue);
	CU_FAILS(cudaLaunchKernel(f, one, (dim3){1025, 1, 1}, params, 0, 0), cudaErrorInvalidValue);
	CU_SAYS(cudaLaunchKernel(f, one, one, params, 50000, 0), cudaErrorInvalidValue,
		"MaxDynamicSharedMemorySize");
	CU_FAILS(cudaLaunchKernel(f, one, one, none, 0, 0), cudaErrorInvalidValue);
	CU_FAILS(cudaLaunchKernelExC(NULL, f, params), cudaErrorInvalidValue);
	cudaStream_t s;

	CU(cudaSetDevice(1));
	CU(cudaStreamCreate(&s));
	CU(cudaSetDevice(0));
	CU_SAYS(cudaLaunchKernel(f, one, one, params, 0, s), cudaErrorInvalidResourceHandle,
		"the current device is gpu 0");
	CU(cudaStreamDestroy(s));
	CU(cudaFree(out));
}

CH_TEST(clusters_divide_the_grid)
{
	static const struct {
		unsigned int grid, x, y, z;
		bool fits;
	} cases[] = {
		{8, 4, 1, 1, true},   {6, 3, 1, 1, true},  {8, 8, 1, 1, true},
		{4, 0, 0, 0, true},   {6, 4, 1, 1, false}, {16, 16, 1, 1, false},
		{18, 9, 1, 1, false}, {4, 0, 1, 1, false}, {8, 2, 2, 1, false},
	};
	uint64_t *out = ch_malloc(8 * 18);
	struct ids_args a = {(uintptr_t)out, 18, 1};
	void *params[] = {&a};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cudaLaunchAttribute cluster = {.id = cudaLaunchAttributeClusterDimension};
		cudaLaunchConfig_t config = {.gridDim = {cases[i].grid, 1, 1},
					     .blockDim = {1, 1, 1},
					     .attrs = &cluster,
					     .numAttrs = 1};

		cluster.val.clusterDim.x = cases[i].x;
		cluster.val.clusterDim.y = cases[i].y;
		cluster.val.clusterDim.z = cases[i].z;
		if (cases[i].fits)
			CU(cudaLaunchKernelExC(&config, ids_w1.func, params));
		else
			CU_FAILS(cudaLaunchKernelExC(&config, ids_w1.func, params),
				 cudaErrorInvalidClusterSize);
	}
	CU(cudaDeviceSynchronize());
	CU(cudaFree(out));
}

CH_TEST(shared_memory_needs_opting_in)
{
	uint64_t *out = ch_malloc(8);
	struct ids_args a = {(uintptr_t)out, 1, 1};
	void *params[] = {&a};
	struct cudaFuncAttributes attr;
	cudaLaunchAttribute hint = {.id = cudaLaunchAttributeMemSyncDomain};
	cudaLaunchConfig_t config = {.gridDim = {1, 1, 1},
				     .blockDim = {1, 1, 1},
				     .dynamicSmemBytes = 100000,
				     .attrs = &hint,
				     .numAttrs = 1};

	CU_FAILS(cudaLaunchKernelExC(&config, ids_w1.func, params), cudaErrorInvalidValue);
	CU_FAILS(cudaFuncSetAttribute(ids_w1.func, cudaFuncAttributeMaxDynamicSharedMemorySize,
				      1 << 20),
		 cudaErrorInvalidValue);
	CU(cudaFuncSetAttribute(ids_w1.func, cudaFuncAttributeMaxDynamicSharedMemorySize, 100000));
	hint.id = cudaLaunchAttributeProgrammaticStreamSerialization;
	hint.val.programmaticStreamSerializationAllowed = 1;
	CU(cudaFuncGetAttributes(&attr, ids_w1.func));
	ck_assert_int_eq(attr.maxDynamicSharedSizeBytes, 100000);
	ck_assert_int_eq(attr.maxThreadsPerBlock, 1024);
	CU(cudaLaunchKernelExC(&config, ids_w1.func, params));
	CU(cudaDeviceSynchronize());
	CU_FAILS(cudaFuncGetAttributes(&attr, out), cudaErrorInvalidResourceHandle);
	CU(cudaFuncSetAttribute(ids_w1.func, cudaFuncAttributeMaxDynamicSharedMemorySize, 0));
	CU(cudaFree(out));
}

/* ---- barriers ------------------------------------------------------------------------------- */

struct rounds_args {
	uint64_t errors;
	uint32_t rounds, named; /* named: two groups, each with a barrier of its own */
};

/* Each thread writes its cell of shared memory and reads its neighbour's, a barrier between, which
 * also counts the threads whose predicate holds. */
CH_KERNEL(rounds, 8192)
{
	uint32_t *cell = d->shared;
	uint32_t group = a->named ? d->nthreads / 2 : d->nthreads;
	uint32_t first = d->thread / group * group;
	int id = a->named ? 1 + (int)(d->thread / group) : 0;

	for (uint32_t r = 0; r < a->rounds; r++) {
		cell[d->thread] = r * 1000 + d->thread;
		uint32_t votes = fakedev_barrier(d, id, (int)group, d->thread - first <= r);
		uint32_t next = first + (d->thread - first + 1) % group;

		if (cell[next] != r * 1000 + next || votes != MIN_OF(r + 1, group))
			fakedev_add(d, (void *)(uintptr_t)a->errors, 8, 1, SHARED_RELAXED,
				    SHARED_SYSTEM);
		fakedev_barrier(d, id, (int)group, false);
	}
}

static void barriers_order_shared_memory(void)
{
	uint64_t *errors = ch_pinned(8);

	for (uint32_t named = 0; named < 2; named++) {
		struct rounds_args a = {(uintptr_t)errors, 20 / SAMPLE_THIN, named};

		CU(ch_launch_on(CH_BY_WIDTH(rounds), 3, 128, &a, 0));
	}
	CU(cudaDeviceSynchronize());
	ck_assert_uint_eq(*errors, 0);
	CU(cudaFreeHost(errors));
}

CH_TEST(barriers_order_shared_memory_width_1, .width = 1)
{
	barriers_order_shared_memory();
}

CH_TEST(barriers_order_shared_memory_width_32, .width = 32)
{
	barriers_order_shared_memory();
}

struct votes_args {
	uint64_t errors;
};

/* The first thread uses the barrier of all alone, before others have resumed from it. */
CH_KERNEL(votes, 64)
{
	uint32_t got = fakedev_barrier(d, 1, (int)d->nthreads, d->thread < 2);

	if (got != 2)
		fakedev_add(d, (void *)(uintptr_t)a->errors, 8, 1, SHARED_RELAXED, SHARED_SYSTEM);
	for (int i = 0; d->thread == 0 && i < 8; i++)
		fakedev_barrier(d, 1, 1, false);
}

CH_TEST(a_barrier_that_is_used_again_keeps_the_votes_of_each_thread, .width = 1)
{
	uint64_t *errors = ch_pinned(8);
	struct votes_args a = {(uintptr_t)errors};

	CU(ch_launch_on(CH_BY_WIDTH(votes), 3, 128, &a, 0));
	CU(cudaDeviceSynchronize());
	ck_assert_uint_eq(*errors, 0);
	CU(cudaFreeHost(errors));
}

struct warp_args {
	uint64_t errors;
};

CH_KERNEL(warp, 0)
{
	uint32_t lane = d->width == 1 ? 0 : d->thread % 32, bad = 0;
	uint32_t all = d->width == 1 ? 1 : 0xffffffffu;

	for (int i = 0; i < 10; i++) {
		uint64_t v = (uint64_t)(lane + 1) << 32 | (uint32_t)(d->thread + (uint32_t)i);
		int from = d->width == 1 ? 0 : (int)(lane * 7 + (uint32_t)i) % 32;
		uint64_t got = fakedev_shuffle_u64(d, v, from);
		uint32_t base = d->thread - lane;

		bad += got != ((uint64_t)(from + 1) << 32 | (base + (uint32_t)from + (uint32_t)i));
		bad += fakedev_ballot(d, 1) != all;
		bad += fakedev_ballot(d, lane == 0) != 1;
		bad += fakedev_ballot(d, lane % 2) != (all & 0xaaaaaaaau);
	}
	if (bad)
		fakedev_add(d, (void *)(uintptr_t)a->errors, 8, bad, SHARED_RELAXED, SHARED_SYSTEM);
}

static void warp_operations(void)
{
	uint64_t *errors = ch_pinned(8);
	struct warp_args a = {(uintptr_t)errors};

	CU(ch_launch_on(CH_BY_WIDTH(warp), 2, 96, &a, 0));
	CU(cudaDeviceSynchronize());
	ck_assert_uint_eq(*errors, 0);
	CU(cudaFreeHost(errors));
}

CH_TEST(shuffles_and_votes_width_1, .width = 1)
{
	warp_operations();
}

CH_TEST(shuffles_and_votes_width_32, .width = 32)
{
	warp_operations();
}

/* ---- words ---------------------------------------------------------------------------------- */

struct count_args {
	uint64_t word4, word8;
	uint32_t times;
};

CH_KERNEL(count, 0)
{
	for (uint32_t i = 0; i < a->times; i++) {
		fakedev_add(d, (void *)(uintptr_t)a->word4, 4, 1, SHARED_RELAXED, SHARED_GPU);
		fakedev_add(d, (void *)(uintptr_t)a->word8, 8, 1ull << 32, SHARED_ACQ_REL,
			    SHARED_GPU);
	}
}

CH_TEST(atomics_of_all_gpus_meet_in_one_word)
{
	enum { GPUS = 4, BLOCKS = 4, THREADS = 8, TIMES = 50 };
	uint8_t *mem = ch_malloc(64);
	uint32_t word4;
	uint64_t word8;

	CU(cudaMemset(mem, 0, 64));
	CU(cudaDeviceSynchronize());
	for (int i = 0; i < GPUS; i++) {
		struct count_args a = {(uintptr_t)mem + 4, (uintptr_t)mem + 16, TIMES};

		CU(cudaSetDevice(i));
		if (i)
			CU(cudaDeviceEnablePeerAccess(0, 0));
		CU(ch_launch_on(CH_BY_WIDTH(count), BLOCKS, THREADS, &a, 0));
	}
	for (int i = 0; i < GPUS; i++) {
		CU(cudaSetDevice(i));
		CU(cudaDeviceSynchronize());
	}
	CU(cudaMemcpy(&word4, mem + 4, 4, cudaMemcpyDeviceToHost));
	CU(cudaMemcpy(&word8, mem + 16, 8, cudaMemcpyDeviceToHost));
	ck_assert_uint_eq(word4, GPUS * BLOCKS * THREADS * TIMES);
	ck_assert_uint_eq(word8, (uint64_t)GPUS * BLOCKS * THREADS * TIMES << 32);
	CU(cudaFree(mem));
}

struct pingpong_args {
	uint64_t mine, other, abort; /* shared_u64 *, shared_u64 *, shared_u32 * */
	uint64_t rounds, first, passed;
};

CH_KERNEL(pingpong, 0)
{
	d->abort = (const shared_u32 *)(uintptr_t)a->abort;
	for (uint64_t r = 1; r <= a->rounds; r++) {
		if (a->first)
			fakedev_store(d, (void *)(uintptr_t)a->other, 8, r, SHARED_RELEASE,
				      SHARED_SYSTEM);
		if (!ch_wait_word(d, a->mine, r)) {
			fakedev_store(d, (void *)(uintptr_t)a->passed, 8, ~0ull, SHARED_RELEASE,
				      SHARED_SYSTEM);
			return;
		}
		if (!a->first)
			fakedev_store(d, (void *)(uintptr_t)a->other, 8, r, SHARED_RELEASE,
				      SHARED_SYSTEM);
	}
	fakedev_store(d, (void *)(uintptr_t)a->passed, 8, 1, SHARED_RELEASE, SHARED_SYSTEM);
}

CH_TEST(kernels_of_two_gpus_answer_each_other)
{
	uint64_t *passed = ch_pinned(64), *word[2];
	cudaStream_t s[2];

	for (int i = 0; i < 2; i++) {
		CU(cudaSetDevice(i));
		CU(cudaDeviceEnablePeerAccess(!i, 0));
		CU(cudaStreamCreateWithFlags(&s[i], cudaStreamNonBlocking));
		word[i] = ch_malloc(8);
		CU(cudaMemset(word[i], 0, 8));
		CU(cudaDeviceSynchronize());
	}
	for (int i = 0; i < 2; i++) {
		struct pingpong_args a = {(uintptr_t)word[i],    (uintptr_t)word[!i],
					  (uintptr_t)&passed[4], 200,
					  (uint64_t)i,           (uintptr_t)&passed[i]};

		CU(cudaSetDevice(i));
		CU(ch_launch_on(CH_BY_WIDTH(pingpong), 1, 1, &a, s[i]));
	}
	for (int i = 0; i < 2; i++) {
		CU(cudaSetDevice(i));
		CU(cudaStreamSynchronize(s[i]));
		CU(cudaStreamDestroy(s[i]));
		CU(cudaFree(word[i]));
		ck_assert_uint_eq(passed[i], 1);
	}
	CU(cudaFreeHost(passed));
}

CH_TEST(abort_word_ends_a_wait)
{
	uint64_t *pinned = ch_pinned(64);
	struct pingpong_args a = {
		(uintptr_t)&pinned[0], (uintptr_t)&pinned[1], (uintptr_t)&pinned[2], 5, 1,
		(uintptr_t)&pinned[3]};

	CU(ch_launch_on(CH_BY_WIDTH(pingpong), 1, 1, &a, 0));
	os_sleep_ns(100000);
	shared_store_u32((shared_u32 *)&pinned[2], 1, SHARED_RELEASE);
	CU(cudaDeviceSynchronize());
	ck_assert_uint_eq(pinned[3], ~0ull);
	CU(cudaFreeHost(pinned));
}

int main(void)
{
	TCase *t = tcase_create("launch");

	CH_ADD(t, every_thread_runs_once_width_1);
	CH_ADD(t, every_thread_runs_once_width_32);
	CH_ADD(t, launch_errors_are_named);
	CH_ADD(t, clusters_divide_the_grid);
	CH_ADD(t, shared_memory_needs_opting_in);
	CH_ADD(t, barriers_order_shared_memory_width_1);
	CH_ADD(t, barriers_order_shared_memory_width_32);
	CH_ADD(t, a_barrier_that_is_used_again_keeps_the_votes_of_each_thread);
	CH_ADD(t, shuffles_and_votes_width_1);
	CH_ADD(t, shuffles_and_votes_width_32);
	CH_ADD(t, atomics_of_all_gpus_meet_in_one_word);
	CH_ADD(t, kernels_of_two_gpus_answer_each_other);
	CH_ADD(t, abort_word_ends_a_wait);
	return ch_suite_run("cuda launch", t);
}
