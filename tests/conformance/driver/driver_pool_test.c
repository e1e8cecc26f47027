/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stream-ordered memory and pools, by calls of the driver and of the runtime, for the double and
 * for a GPU: see graph_cases.h, and add -lcuda. The results are those of the documentation.
 */
#include <cuda.h>

#include "../graphs/graph_cases.h"

static CUmemPoolProps props_of(int device)
{
	CUmemPoolProps p;

	memset(&p, 0, sizeof p);
	p.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	p.location.id = device;
	return p;
}

static CUmemoryPool pool_new(void)
{
	const CUmemPoolProps p = props_of(0);
	CUmemoryPool pool = NULL;

	OK(cuMemPoolCreate(&pool, &p));
	return pool;
}

static cuuint64_t pool_value(CUmemoryPool pool, CUmemPool_attribute attr)
{
	cuuint64_t value = 7;

	OK(cuMemPoolGetAttribute(pool, attr, &value));
	return value;
}

/* ---- memory in the order of a stream -------------------------------------------------------- */

static void memory_is_usable_in_its_stream(void)
{
	unsigned char got[64];
	CUdeviceptr p = 0;

	OK(cuMemAllocAsync(&p, 64, now.a));
	IS(1, p != 0);
	OK(cuMemsetD8Async(p, 9, 64, now.a));
	OK(cuMemcpyDtoHAsync(now.pinned, p, 64, now.a));
	OK(cuMemFreeAsync(p, now.a));
	OK(cuStreamSynchronize(now.a));
	memset(got, 9, 64);
	IS(0, memcmp(got, now.pinned, 64));
}

static void an_event_makes_it_usable_in_another_stream(void)
{
	void *p = NULL;

	OK(cudaMallocAsync(&p, 4096, now.a));
	OK(cudaEventRecord(now.e, now.a));
	OK(cudaStreamWaitEvent(now.b, now.e, 0));
	OK(cudaMemsetAsync(p, 3, 4096, now.b));
	OK(cudaEventRecord(now.f, now.b));
	OK(cudaStreamWaitEvent(now.a, now.f, 0));
	OK(cudaFreeAsync(p, now.a));
	OK(cudaStreamSynchronize(now.a));
}

static void a_wait_of_the_host_makes_it_usable_everywhere(void)
{
	void *p = NULL;

	OK(cudaMallocAsync(&p, 4096, now.a));
	OK(cudaStreamSynchronize(now.a));
	OK(cudaMemsetAsync(p, 3, 4096, now.b));
	OK(cudaStreamSynchronize(now.b));
	OK(cudaFree(p)); /* frees such memory as well */
}

static void a_stream_may_free_memory_of_cuda_malloc(void)
{
	void *p = NULL;

	OK(cudaMalloc(&p, 4096));
	OK(cudaMemsetAsync(p, 3, 4096, now.a));
	OK(cudaFreeAsync(p, now.a));
	OK(cudaStreamSynchronize(now.a));
}

static void wrong_arguments_are_refused(void)
{
	CUmemoryPool pool = pool_new();
	CUdeviceptr p = 0;

	OK(cuMemAllocAsync(&p, 0, now.a));
	OK(cuMemAllocFromPoolAsync(&p, 0, pool, now.a));
	IS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocAsync(&p, (size_t)1 << 50, now.a));
	IS(0, p);
	OK(cuMemPoolDestroy(pool));
}

/* ---- the attributes of its pointers --------------------------------------------------------- */

static void a_pointer_names_its_pool(void)
{
	CUmemoryPool pool = pool_new(), got = NULL;
	CUdeviceptr p = 0, base = 0;
	size_t bytes = 0;
	int capable = 7, ordinal = 7;
	unsigned int type = 7;

	OK(cuMemAllocFromPoolAsync(&p, 1 << 20, pool, now.a));
	OK(cuStreamSynchronize(now.a));
	OK(cuPointerGetAttribute(&got, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p + 8));
	IS(1, got == pool);
	OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
	IS(CU_MEMORYTYPE_DEVICE, type);
	OK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p));
	IS(0, ordinal);
	OK(cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, p));
	IS(0, capable);
	OK(cuMemGetAddressRange(&base, &bytes, p + 100));
	IS(1, base == p);
	IS(1 << 20, bytes);
	OK(cuMemFreeAsync(p, now.a));
	OK(cuStreamSynchronize(now.a));
	OK(cuMemPoolDestroy(pool));
}

/* ---- pools ---------------------------------------------------------------------------------- */

static void a_device_has_a_default_and_a_current_pool(void)
{
	CUmemoryPool fixed = NULL, current = NULL, pool = pool_new();
	CUdeviceptr p = 0;
	CUmemoryPool got = NULL;

	OK(cuDeviceGetDefaultMemPool(&fixed, 0));
	OK(cuDeviceGetMemPool(&current, 0));
	IS(1, fixed && fixed == current);
	OK(cuDeviceSetMemPool(0, pool));
	OK(cuDeviceGetMemPool(&current, 0));
	IS(1, current == pool);
	OK(cuMemAllocAsync(&p, 64, now.a));
	OK(cuStreamSynchronize(now.a));
	OK(cuPointerGetAttribute(&got, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p));
	IS(1, got == pool);
	OK(cuMemFreeAsync(p, now.a));
	OK(cuStreamSynchronize(now.a));
	OK(cuMemPoolDestroy(pool)); /* the default pool becomes the current one */
	OK(cuDeviceGetMemPool(&current, 0));
	IS(1, current == fixed);
	IS(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(fixed));
	IS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetDefaultMemPool(&fixed, 999));
}

static void a_pool_that_is_destroyed_keeps_its_memory(void)
{
	CUmemoryPool pool = pool_new();
	CUdeviceptr p = 0;

	OK(cuMemAllocFromPoolAsync(&p, 4096, pool, now.a));
	OK(cuMemPoolDestroy(pool));
	OK(cuMemsetD8Async(p, 1, 4096, now.a));
	OK(cuMemFreeAsync(p, now.a));
	OK(cuStreamSynchronize(now.a));
}

static void a_pool_of_another_kind_is_refused(void)
{
	CUmemPoolProps p = props_of(0);
	CUmemoryPool pool = NULL;

	p.allocType = CU_MEM_ALLOCATION_TYPE_INVALID;
	IS(CUDA_ERROR_INVALID_VALUE, cuMemPoolCreate(&pool, &p));
	p = props_of(0);
	p.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
	IS(CUDA_ERROR_INVALID_VALUE, cuMemPoolCreate(&pool, &p));
	IS(0, (size_t)pool);
}

static void a_pool_counts_and_keeps_freed_memory(void)
{
	const cuuint64_t all = ~(cuuint64_t)0, none = 0;
	CUmemoryPool pool = pool_new();
	CUdeviceptr p = 0;

	IS(0, pool_value(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
	IS(0, pool_value(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD));
	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, (void *)&all));
	OK(cuMemAllocFromPoolAsync(&p, 1 << 20, pool, now.a));
	IS(1 << 20, pool_value(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
	OK(cuMemFreeAsync(p, now.a));
	OK(cuStreamSynchronize(now.a));
	IS(0, pool_value(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
	IS(1 << 20, pool_value(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH));
	IS(1, pool_value(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= 1 << 20);
	OK(cuMemPoolTrimTo(pool, 0));
	IS(0, pool_value(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, (void *)&none));
	IS(0, pool_value(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH));
	IS(CUDA_ERROR_INVALID_VALUE,
	   cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, (void *)&none));
	IS(CUDA_ERROR_INVALID_VALUE,
	   cuMemPoolSetAttribute(pool, (CUmemPool_attribute)99, (void *)&none));
	OK(cuMemPoolDestroy(pool));
}

static void a_wait_returns_what_exceeds_the_threshold(void)
{
	CUmemoryPool pool = pool_new();
	CUdeviceptr p = 0;

	OK(cuMemAllocFromPoolAsync(&p, 1 << 20, pool, now.a));
	OK(cuMemFreeAsync(p, now.a));
	OK(cuStreamSynchronize(now.a));
	OK(cuStreamSynchronize(now.a)); /* the next call after the free, on any system */
	IS(0, pool_value(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
	OK(cuMemPoolDestroy(pool));
}

static void reuse_has_attributes(void)
{
	CUmemoryPool pool = pool_new();
	int value = 7, off = 0;

	for (int a = 1; a <= 3; a++) {
		OK(cuMemPoolGetAttribute(pool, (CUmemPool_attribute)a, &value));
		IS(1, value);
		OK(cuMemPoolSetAttribute(pool, (CUmemPool_attribute)a, &off));
		OK(cuMemPoolGetAttribute(pool, (CUmemPool_attribute)a, &value));
		IS(0, value);
	}
	OK(cuMemPoolDestroy(pool));
}

static void access_of_peers_is_that_of_the_pool(void)
{
	CUmemoryPool pool = pool_new();
	CUmemAccessDesc d = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	int count = 0, can = 0;

	OK(cuMemPoolGetAccess(&flags, pool, &d.location));
	IS(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, flags);
	OK(cudaGetDeviceCount(&count));
	if (count > 1)
		OK(cuDeviceCanAccessPeer(&can, 1, 0));
	if (can) {
		d.location.id = 1;
		OK(cuMemPoolGetAccess(&flags, pool, &d.location));
		IS(CU_MEM_ACCESS_FLAGS_PROT_NONE, flags);
		OK(cuMemPoolSetAccess(pool, &d, 1));
		OK(cuMemPoolGetAccess(&flags, pool, &d.location));
		IS(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, flags);
	}
	OK(cuMemPoolDestroy(pool));
}

static void the_runtime_has_the_same_pools(void)
{
	struct cudaMemPoolProps p;
	cudaMemPool_t pool = NULL, fixed = NULL;
	CUmemoryPool same = NULL;
	cuuint64_t value = 7;
	void *m = NULL;

	memset(&p, 0, sizeof p);
	p.allocType = cudaMemAllocationTypePinned;
	p.location.type = cudaMemLocationTypeDevice;
	OK(cudaMemPoolCreate(&pool, &p));
	OK(cudaDeviceGetDefaultMemPool(&fixed, 0));
	OK(cuDeviceGetDefaultMemPool(&same, 0));
	IS(1, fixed == same);
	OK(cudaMallocFromPoolAsync(&m, 4096, pool, now.a));
	OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &value));
	IS(4096, value);
	OK(cudaFreeAsync(m, now.a));
	OK(cudaStreamSynchronize(now.a));
	OK(cudaMemPoolTrimTo(pool, 0));
	OK(cudaMemPoolDestroy(pool));
}

static const struct graph_case cases[] = {
	CASE(memory_is_usable_in_its_stream),
	CASE(an_event_makes_it_usable_in_another_stream),
	CASE(a_wait_of_the_host_makes_it_usable_everywhere),
	CASE(a_stream_may_free_memory_of_cuda_malloc),
	CASE(wrong_arguments_are_refused),
	CASE(a_pointer_names_its_pool),
	CASE(a_device_has_a_default_and_a_current_pool),
	CASE(a_pool_that_is_destroyed_keeps_its_memory),
	CASE(a_pool_of_another_kind_is_refused),
	CASE(a_pool_counts_and_keeps_freed_memory),
	CASE(a_wait_returns_what_exceeds_the_threshold),
	CASE(reuse_has_attributes),
	CASE(access_of_peers_is_that_of_the_pool),
	CASE(the_runtime_has_the_same_pools),
};

int main(int argc, char **argv)
{
	return cases_main(cases, sizeof cases / sizeof cases[0], argc, argv);
}
