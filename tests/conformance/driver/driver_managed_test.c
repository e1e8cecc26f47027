/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Managed memory and batches of copies, by calls of the driver and of the runtime, for the double
 * and for a GPU: see graph_cases.h, and add -lcuda. The results are those of the documentation.
 */
#include <cuda.h>

#include "../graphs/graph_cases.h"

#define DEV    ((CUdeviceptr)(size_t)now.dev)
#define PINNED ((CUdeviceptr)(size_t)now.pinned)

/* ---- managed memory ------------------------------------------------------------------------- */

static void managed_memory_is_used_by_host_and_device(void)
{
	CUdeviceptr p = 0;
	unsigned char *h;

	OK(cuMemAllocManaged(&p, 4096, CU_MEM_ATTACH_GLOBAL));
	h = (unsigned char *)(size_t)p;
	memset(h, 1, 4096);
	OK(cuMemsetD8Async(p + 8, 2, 8, now.a));
	OK(cuStreamSynchronize(now.a));
	IS(1, h[7]);
	IS(2, h[8]);
	IS(1, h[16]);
	OK(cuMemcpyDtoD(DEV, p, 4096));
	OK(cuMemcpyDtoH(now.pinned, DEV, 4096));
	IS(0, memcmp(now.pinned, h, 4096));
	OK(cuMemFree(p));
}

static void a_managed_pointer_has_attributes(void)
{
	struct cudaPointerAttributes a;
	CUdeviceptr p = 0, device = 0, base = 0;
	size_t bytes = 0;
	void *h = NULL, *m = NULL;
	int managed = 7;

	OK(cudaMallocManaged(&m, 4096, cudaMemAttachGlobal));
	p = (CUdeviceptr)(size_t)m;
	OK(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, p + 8));
	IS(1, managed);
	OK(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, p));
	IS(1, device == p);
	OK(cuPointerGetAttribute(&h, CU_POINTER_ATTRIBUTE_HOST_POINTER, p));
	IS(1, h == m);
	OK(cudaPointerGetAttributes(&a, m));
	IS(cudaMemoryTypeManaged, a.type);
	OK(cuMemGetAddressRange(&base, &bytes, p + 100));
	IS(1, base == p);
	IS(4096, bytes);
	OK(cudaFree(m));
	OK(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, DEV));
	IS(0, managed);
}

static void managed_memory_has_one_of_two_flags(void)
{
	CUdeviceptr p = 0;
	void *m = NULL;

	IS(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged(&p, 4096, 0));
	IS(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged(&p, 4096, CU_MEM_ATTACH_SINGLE));
	IS(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged(&p, 0, CU_MEM_ATTACH_GLOBAL));
	IS(cudaErrorInvalidValue, cudaMallocManaged(&m, 4096, 0));
	IS(cudaErrorInvalidValue, cudaGetLastError());
	OK(cuMemAllocManaged(&p, 4096, CU_MEM_ATTACH_HOST));
	OK(cuMemFree(p));
}

static void a_prefetch_takes_its_place_in_the_stream(void)
{
	const CUmemLocation gpu = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
			    none = {CU_MEM_LOCATION_TYPE_DEVICE, 999};
	CUmemLocation cpu = {CU_MEM_LOCATION_TYPE_HOST, 0};
	CUdeviceptr p = 0;

	OK(cuMemAllocManaged(&p, 8192, CU_MEM_ATTACH_GLOBAL));
	OK(cuMemPrefetchAsync(p, 8192, gpu, 0, now.a));
	OK(cuMemPrefetchAsync(p + 4096, 4096, cpu, 0, now.a));
	OK(cuStreamSynchronize(now.a));
	IS(CUDA_ERROR_INVALID_VALUE, cuMemPrefetchAsync(p, 8192, gpu, 1, now.a));
	IS(CUDA_ERROR_INVALID_VALUE, cuMemPrefetchAsync(DEV, 64, gpu, 0, now.a));
	IS(CUDA_ERROR_INVALID_DEVICE, cuMemPrefetchAsync(p, 8192, none, 0, now.a));
	OK(cuMemFree(p));
}

static void advice_is_accepted(void)
{
	const CUmemLocation gpu = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
	CUdeviceptr p = 0;

	OK(cuMemAllocManaged(&p, 4096, CU_MEM_ATTACH_GLOBAL));
	for (int a = CU_MEM_ADVISE_SET_READ_MOSTLY; a <= CU_MEM_ADVISE_UNSET_ACCESSED_BY; a++)
		OK(cuMemAdvise(p, 4096, (CUmem_advise)a, gpu));
	IS(CUDA_ERROR_INVALID_VALUE, cuMemAdvise(p, 4096, (CUmem_advise)0, gpu));
	OK(cuMemFree(p));
}

/* ---- batches -------------------------------------------------------------------------------- */

static CUmemcpyAttributes order_of(CUmemcpySrcAccessOrder order)
{
	CUmemcpyAttributes a;

	memset(&a, 0, sizeof a);
	a.srcAccessOrder = order;
	return a;
}

static void a_batch_copies_in_each_direction(void)
{
	unsigned char plain[32];
	CUmemcpyAttributes attrs[2];
	size_t idxs[2] = {0, 1}, sizes[2] = {16, 32};
	CUdeviceptr dsts[2] = {DEV, DEV + 64}, srcs[2];

	srcs[0] = PINNED;
	srcs[1] = (CUdeviceptr)(size_t)plain;
	attrs[0] = order_of(CU_MEMCPY_SRC_ACCESS_ORDER_STREAM);
	attrs[1] = order_of(CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL);
	memset(now.pinned, 3, 16);
	memset(plain, 4, 32);
	OK(cuMemcpyBatchAsync(dsts, srcs, sizes, 2, attrs, idxs, 2, now.a));
	memset(plain, 0, 32); /* the call has read it */
	OK(cuStreamSynchronize(now.a));
	srcs[0] = DEV;
	srcs[1] = DEV + 64;
	dsts[0] = PINNED + 128;
	dsts[1] = PINNED + 256;
	OK(cuMemcpyBatchAsync(dsts, srcs, sizes, 2, attrs, idxs, 1, now.a));
	OK(cuStreamSynchronize(now.a));
	IS(3, now.pinned[128 + 15]);
	IS(4, now.pinned[256 + 31]);
}

static void a_wrong_batch_is_refused(void)
{
	CUmemcpyAttributes attrs = order_of(CU_MEMCPY_SRC_ACCESS_ORDER_STREAM);
	size_t idx = 0, size = 16, late = 1;
	CUdeviceptr dst = DEV, src = DEV + 64;

	IS(CUDA_ERROR_INVALID_VALUE,
	   cuMemcpyBatchAsync(&dst, &src, &size, 1, &attrs, &idx, 1, NULL));
	IS(CUDA_ERROR_INVALID_VALUE,
	   cuMemcpyBatchAsync(&dst, &src, &size, 1, &attrs, &late, 1, now.a));
	IS(CUDA_ERROR_INVALID_VALUE,
	   cuMemcpyBatchAsync(&dst, &src, &size, 1, &attrs, &idx, 2, now.a));
	attrs = order_of(CU_MEMCPY_SRC_ACCESS_ORDER_INVALID);
	IS(CUDA_ERROR_INVALID_VALUE,
	   cuMemcpyBatchAsync(&dst, &src, &size, 1, &attrs, &idx, 1, now.a));
	OK(cuStreamSynchronize(now.a));
}

static const struct graph_case cases[] = {
	CASE(managed_memory_is_used_by_host_and_device),
	CASE(a_managed_pointer_has_attributes),
	CASE(managed_memory_has_one_of_two_flags),
	CASE(a_prefetch_takes_its_place_in_the_stream),
	CASE(advice_is_accepted),
	CASE(a_batch_copies_in_each_direction),
	CASE(a_wrong_batch_is_refused),
};

int main(int argc, char **argv)
{
	return cases_main(cases, sizeof cases / sizeof cases[0], argc, argv);
}
