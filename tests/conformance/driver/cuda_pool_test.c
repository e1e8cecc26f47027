/* SPDX-License-Identifier: BSD-3-Clause */
/* Stream-ordered memory of the double: uses without an order, the end of memory, refusals. */
#include <cuda.h>

#define CH_DRIVER
#include "tests/conformance/cuda/cuda_harness.h"

#define DRV(call) ck_assert_int_eq((call), CUDA_SUCCESS)

struct touch_args {
	uint64_t gate, at; /* waits first, if there is a gate */
};

CH_KERNEL(touch, 0)
{
	if (!a->gate || ch_wait_word(d, a->gate, 1))
		fakedev_store(d, (void *)(uintptr_t)a->at, 8, 1, SHARED_RELAXED, SHARED_BLOCK);
}

static cudaStream_t stream_a, stream_b;

static void *async(size_t bytes, cudaStream_t s)
{
	void *p = NULL;

	CU(cudaMallocAsync(&p, bytes, s));
	return p;
}

static void begin(void)
{
	CU(cudaStreamCreateWithFlags(&stream_a, cudaStreamNonBlocking));
	CU(cudaStreamCreateWithFlags(&stream_b, cudaStreamNonBlocking));
}

static void end(void)
{
	CU(cudaDeviceSynchronize());
	CU(cudaStreamDestroy(stream_a));
	CU(cudaStreamDestroy(stream_b));
}

/* The same after a misuse, which may have killed the context. */
static void end_anyhow(void)
{
	(void)cudaDeviceSynchronize();
	(void)cudaStreamDestroy(stream_a);
	(void)cudaStreamDestroy(stream_b);
	(void)cudaGetLastError();
}

/* b waits for what a has queued. */
static void order(cudaStream_t a, cudaStream_t b)
{
	cudaEvent_t e;

	CU(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
	CU(cudaEventRecord(e, a));
	CU(cudaStreamWaitEvent(b, e, 0));
	CU(cudaEventDestroy(e));
}

static void touch_on(cudaStream_t s, void *at, shared_u64 *gate)
{
	const struct touch_args args = {(uintptr_t)gate, (uintptr_t)at};

	CU(ch_launch_on(CH_BY_WIDTH(touch), 1, 1, &args, s));
}

/* ---- uses without an order ------------------------------------------------------------------ */

CH_TEST(a_copy_that_nothing_orders_after_the_allocation_is_misuse)
{
	begin();
	void *p = async(64, stream_a);

	CU_MISUSE(cudaMemsetAsync(p, 0, 64, stream_b), cudaSuccess,
		  "nothing orders the use after cudaMallocAsync in stream 1 of gpu 0");
	CU(cudaDeviceSynchronize());
	CU(cudaFreeAsync(p, stream_a));
	end();
}

CH_TEST(a_kernel_that_nothing_orders_after_the_allocation_is_misuse)
{
	begin();
	void *p = async(64, stream_a);

	sim_expect_misuse("stream-ordered memory: kernel touch (k1) in stream 2 of gpu 0");
	touch_on(stream_b, p, NULL);
	CU(cudaDeviceSynchronize());
	CU(cudaFreeAsync(p, stream_a));
	end();
}

CH_TEST(a_copy_after_the_free_is_misuse)
{
	shared_u64 *gate = ch_pinned(8);

	begin();
	void *p = async(64, stream_a);

	DRV(cuStreamWaitValue64(stream_a, (uintptr_t)gate, 1, CU_STREAM_WAIT_VALUE_EQ));
	CU(cudaFreeAsync(p, stream_a));
	CU_MISUSE(cudaMemsetAsync(p, 0, 64, stream_a), cudaSuccess,
		  "use after cudaFreeAsync in stream 1 of gpu 0");
	shared_store_u64(gate, 1, SHARED_RELEASE);
	end_anyhow();
	(void)cudaFreeHost(gate);
}

CH_TEST(a_free_that_nothing_orders_after_a_copy_is_misuse)
{
	begin();
	void *p = async(64, stream_a);

	order(stream_a, stream_b);
	CU(cudaMemsetAsync(p, 0, 64, stream_b));
	CU_MISUSE(cudaFreeAsync(p, stream_a), cudaSuccess,
		  "nothing orders the free after the last use in stream 2 of gpu 0");
	end_anyhow();
}

CH_TEST(a_kernel_beside_a_queued_free_is_misuse)
{
	shared_u64 *gate = ch_pinned(16);

	begin();
	void *p = async(64, stream_a);

	order(stream_a, stream_b);
	touch_on(stream_b, p, gate);
	DRV(cuStreamWaitValue64(stream_a, (uintptr_t)(gate + 1), 1, CU_STREAM_WAIT_VALUE_EQ));
	CU(cudaFreeAsync(p, stream_a));
	sim_expect_misuse("use after cudaFreeAsync in stream 1 of gpu 0");
	shared_store_u64(gate, 1, SHARED_RELEASE);
	CU(cudaStreamSynchronize(stream_b));
	shared_store_u64(gate + 1, 1, SHARED_RELEASE);
	end();
	CU(cudaFreeHost(gate));
}

CH_TEST(uses_in_order_are_no_misuse, .width = 32)
{
	begin();
	void *p = async(64, stream_a);

	touch_on(stream_a, p, NULL);
	order(stream_a, stream_b);
	touch_on(stream_b, p, NULL);
	CU(cudaMemsetAsync(p, 0, 64, stream_b));
	order(stream_b, stream_a);
	touch_on(stream_a, p, NULL);
	CU(cudaFreeAsync(p, stream_a));
	end();
}

CH_TEST(a_use_after_the_end_of_the_stream_that_allocated_is_no_misuse)
{
	begin();
	void *p = async(64, stream_a);

	CU(cudaStreamSynchronize(stream_a));
	CU(cudaStreamDestroy(stream_a));
	CU(cudaMemsetAsync(p, 0, 64, stream_b));
	touch_on(stream_b, p, NULL);
	CU(cudaFreeAsync(p, stream_b));
	CU(cudaStreamSynchronize(stream_b));
	CU(cudaStreamDestroy(stream_b));
}

CH_TEST(two_frees_are_misuse)
{
	begin();
	void *p = async(64, stream_a);

	CU(cudaFreeAsync(p, stream_a));
	sim_expect_misuse("cudaFreeAsync of 0x");
	ck_assert_int_eq(cudaFreeAsync(p, stream_a), cudaErrorInvalidValue);
	(void)cudaGetLastError();
	end();
}

CH_TEST(a_free_by_the_host_needs_a_wait)
{
	begin();
	void *p = async(64, stream_a);

	CU(cudaMemsetAsync(p, 0, 64, stream_a));
	CU_MISUSE(cudaFree(p), cudaSuccess, "stream-ordered memory: cudaFree");
	end_anyhow();
}

/* ---- memory that is gone -------------------------------------------------------------------- */

CH_TEST(a_kernel_after_the_end_of_the_memory_is_illegal)
{
	struct ch_capture c;

	begin();
	void *p = async(64, stream_a);

	CU(cudaFreeAsync(p, stream_a));
	CU(cudaStreamSynchronize(stream_a));
	ch_capture_begin(&c);
	touch_on(stream_b, p, NULL);
	cudaError_t rc = cudaStreamSynchronize(stream_b);
	ch_capture_end(&c);
	ck_assert_int_eq(rc, cudaErrorIllegalAddress);
	ck_assert_msg(strstr(c.text, "cudaMallocAsync of 64 bytes by main") != NULL, "%s", c.text);
	(void)cudaStreamDestroy(stream_a);
	(void)cudaStreamDestroy(stream_b);
	(void)cudaGetLastError();
}

/* ---- rights --------------------------------------------------------------------------------- */

CH_TEST(a_peer_needs_the_access_of_the_pool)
{
	const CUmemAccessDesc d = {{CU_MEM_LOCATION_TYPE_DEVICE, 1},
				   CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemoryPool pool = NULL;
	struct ch_capture c;

	begin();
	void *p = async(64, stream_a);

	CU(cudaStreamSynchronize(stream_a));
	DRV(cuDeviceGetDefaultMemPool(&pool, 0));
	DRV(cuMemPoolSetAccess(pool, &d, 1));
	CU(cudaSetDevice(1));
	touch_on(NULL, p, NULL);
	CU(cudaDeviceSynchronize());
	CU(cudaSetDevice(2));
	ch_capture_begin(&c);
	touch_on(NULL, p, NULL);
	cudaError_t rc = cudaDeviceSynchronize();
	ch_capture_end(&c);
	ck_assert_int_eq(rc, cudaErrorIllegalAddress);
	ck_assert_msg(strstr(c.text, "the memory's pool gives gpu 2 no access") != NULL, "%s",
		      c.text);
	(void)cudaGetLastError();
	CU(cudaSetDevice(0));
	CU(cudaFreeAsync(p, stream_a));
	end();
}

/* ---- capture, sharing, limits --------------------------------------------------------------- */

CH_TEST(a_graph_has_no_memory_nodes)
{
	cudaGraph_t g = NULL;
	void *p = NULL;

	begin();
	CU(cudaStreamBeginCapture(stream_a, cudaStreamCaptureModeGlobal));
	CU_SAYS(cudaMallocAsync(&p, 64, stream_a), cudaErrorStreamCaptureUnsupported,
		"cudaMallocAsync: memory nodes of graphs are not implemented");
	CU_FAILS(cudaStreamEndCapture(stream_a, &g), cudaErrorStreamCaptureInvalidated);
	end();
}

CH_TEST(pools_are_not_shared_between_processes)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemoryPool pool = NULL;
	cudaIpcMemHandle_t handle;
	int fd = -1;

	CU_SAYS((cudaError_t)cuMemPoolCreate(&pool, &props), cudaErrorNotSupported,
		"pools that processes share are not implemented");
	props.handleTypes = CU_MEM_HANDLE_TYPE_NONE;
	DRV(cuMemPoolCreate(&pool, &props));
	CU_SAYS((cudaError_t)cuMemPoolExportToShareableHandle(
			&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
		cudaErrorNotSupported, "not implemented");
	begin();
	void *p = async(64, stream_a);
	CU(cudaStreamSynchronize(stream_a));
	ck_assert_int_ne(cudaIpcGetMemHandle(&handle, p), cudaSuccess);
	(void)cudaGetLastError();
	CU(cudaFreeAsync(p, stream_a));
	DRV(cuMemPoolDestroy(pool));
	end();
}

CH_TEST(a_pool_has_at_most_its_size)
{
	const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
				      .maxSize = 1 << 20};
	CUmemoryPool pool = NULL;
	CUdeviceptr p = 0, q = 0;

	begin();
	DRV(cuMemPoolCreate(&pool, &props));
	DRV(cuMemAllocFromPoolAsync(&p, 1 << 20, pool, stream_a));
	CU_SAYS((cudaError_t)cuMemAllocFromPoolAsync(&q, 4, pool, stream_a),
		cudaErrorMemoryAllocation, "of at most 1048576 in use");
	DRV(cuMemFreeAsync(p, stream_a));
	end();
	DRV(cuMemPoolDestroy(pool));
}

/* Freed memory counts as used on the GPU, until another allocation needs it. */
CH_TEST(reserved_memory_gives_way)
{
	const uint64_t all = UINT64_MAX;
	size_t before, reserved, after, total;
	cudaMemPool_t pool = NULL;
	void *p = NULL;

	begin();
	CU(cudaMemGetInfo(&before, &total));
	CU(cudaDeviceGetDefaultMemPool(&pool, 0));
	CU(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, (void *)&all));
	CU(cudaFreeAsync(async(1 << 20, stream_a), stream_a));
	CU(cudaStreamSynchronize(stream_a));
	CU(cudaMemGetInfo(&reserved, &total));
	ck_assert_uint_eq(before - reserved, 1 << 20);
	CU(cudaFreeAsync(async(1 << 19, stream_a), stream_a)); /* from what is reserved */
	CU(cudaStreamSynchronize(stream_a));
	CU(cudaMemGetInfo(&after, &total));
	ck_assert_uint_eq(after, reserved);
	CU(cudaMalloc(&p, before));
	CU(cudaFree(p));
	CU(cudaMemGetInfo(&after, &total));
	ck_assert_uint_eq(after, before);
	end();
}

CH_TEST(what_a_program_leaves_is_a_leak, .leaks = 2)
{
	const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemoryPool pool = NULL;
	CUdeviceptr p = 0;

	begin();
	DRV(cuMemPoolCreate(&pool, &props));
	DRV(cuMemAllocFromPoolAsync(&p, 64, pool, stream_a));
	end();
}

CH_TEST(a_reset_ends_pools_and_their_memory)
{
	const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemoryPool pool = NULL;
	CUdeviceptr p = 0;

	begin();
	DRV(cuMemPoolCreate(&pool, &props));
	DRV(cuMemAllocFromPoolAsync(&p, 64, pool, stream_a));
	(void)async(64, stream_b);
	CU(cudaDeviceReset());
	CU_SAYS((cudaError_t)cuMemPoolTrimTo(pool, 0), cudaErrorInvalidValue,
		"is not a pool of this process");
}

int main(void)
{
	TCase *tcase = tcase_create("pool");

	CH_ADD(tcase, a_copy_that_nothing_orders_after_the_allocation_is_misuse);
	CH_ADD(tcase, a_kernel_that_nothing_orders_after_the_allocation_is_misuse);
	CH_ADD(tcase, a_copy_after_the_free_is_misuse);
	CH_ADD(tcase, a_free_that_nothing_orders_after_a_copy_is_misuse);
	CH_ADD(tcase, a_kernel_beside_a_queued_free_is_misuse);
	CH_ADD(tcase, uses_in_order_are_no_misuse);
	CH_ADD(tcase, a_use_after_the_end_of_the_stream_that_allocated_is_no_misuse);
	CH_ADD(tcase, two_frees_are_misuse);
	CH_ADD(tcase, a_free_by_the_host_needs_a_wait);
	CH_ADD(tcase, a_kernel_after_the_end_of_the_memory_is_illegal);
	CH_ADD(tcase, a_peer_needs_the_access_of_the_pool);
	CH_ADD(tcase, a_graph_has_no_memory_nodes);
	CH_ADD(tcase, pools_are_not_shared_between_processes);
	CH_ADD(tcase, a_pool_has_at_most_its_size);
	CH_ADD(tcase, reserved_memory_gives_way);
	CH_ADD(tcase, what_a_program_leaves_is_a_leak);
	CH_ADD(tcase, a_reset_ends_pools_and_their_memory);
	return ch_suite_run("cuda_pool", tcase);
}
