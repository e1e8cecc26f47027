/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of cuMem in one process: addresses, pages, mappings, access. */

#include <cuda.h>
#include <errno.h>

#include "backends/peermem.h"
#include "tests/conformance/cuda/cuda_vmm.h"

/* Waits for a word of one mapping, which another kernel writes through another one. */
#define await_args bump_args
CH_KERNEL(await, 0)
{
	ch_wait_word(d, a->word, 1);
	fakedev_store(d, (void *)(uintptr_t)a->seen, 8, 1, SHARED_RELEASE, SHARED_SYSTEM);
}

CH_TEST(memory_is_in_pages_of_2_mib)
{
	CUmemAllocationProp prop = prop_of(0);
	CUmemGenericAllocationHandle h;
	size_t granularity = 0;
	CUdeviceptr p;
	int v = 0;

	DRV(cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0));
	ck_assert_int_eq(v, 1);
	DRV(cuDeviceGetAttribute(
		&v, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 0));
	ck_assert_int_eq(v, 1);
	DRV(cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 0));
	ck_assert_int_eq(v, 0);
	DRV(cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	ck_assert_uint_eq(granularity, PAGE);
	ck_assert_int_eq(cuMemCreate(&h, 4096, &prop, 0), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(cuMemCreate(&h, 0, &prop, 0), CUDA_ERROR_INVALID_VALUE);
	DRV_SAYS(cuMemAddressReserve(&p, 4096, 0, 0, 0), CUDA_ERROR_INVALID_VALUE, "in pages of");
	prop.location.id = 77;
	ck_assert_int_eq(cuMemCreate(&h, PAGE, &prop, 0), CUDA_ERROR_INVALID_DEVICE);
	prop = prop_of(0);
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
	DRV_SAYS(cuMemCreate(&h, PAGE, &prop, 0), CUDA_ERROR_NOT_SUPPORTED,
		 "CU_MEM_HANDLE_TYPE_FABRIC is not implemented");
}

CH_TEST(mapped_memory_is_used_by_copies_and_kernels)
{
	CUmemGenericAllocationHandle h = create(1, 2 * PAGE);
	CUdeviceptr p = map(h, 2 * PAGE, 1), base = 0;
	struct cudaPointerAttributes attr;
	size_t size = 0;
	int ordinal = -1;

	CU(cudaSetDevice(1));
	put(p + PAGE, 41);
	struct bump_args a = {.word = p + PAGE};

	CU(ch_launch_on(&bump_w1, 1, 1, &a, 0));
	CU(cudaDeviceSynchronize());
	ck_assert_uint_eq(get(p + PAGE), 42);
	CU(cudaPointerGetAttributes(&attr, (void *)(uintptr_t)(p + 100)));
	ck_assert_int_eq(attr.type, cudaMemoryTypeDevice);
	ck_assert_int_eq(attr.device, 1);
	DRV(cuMemGetAddressRange(&base, &size, p + 100));
	ck_assert_uint_eq(base, p);
	ck_assert_uint_eq(size, 2 * PAGE);
	DRV(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p));
	ck_assert_int_eq(ordinal, 1);
	DRV(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, p));
	ck_assert_int_eq(ordinal, 0);
	cudaIpcMemHandle_t ipc;

	CU_FAILS(cudaIpcGetMemHandle(&ipc, (void *)(uintptr_t)p), cudaErrorInvalidValue);
	CU_MISUSE(cudaFree((void *)(uintptr_t)p), cudaErrorInvalidValue,
		  "not the start of memory of this process");
	DRV(cuMemRelease(h)); /* the mapping keeps the memory */
	ck_assert_uint_eq(get(p + PAGE), 42);
	unmap(p, 2 * PAGE);
	CU_SAYS(cudaMemset((void *)(uintptr_t)p, 0, 8), cudaErrorInvalidValue,
		"nothing is mapped there");
}

/* A kernel without access dies. */
CH_TEST(memory_without_access_is_an_illegal_address)
{
	CUmemGenericAllocationHandle h = create(0, PAGE);
	CUdeviceptr p = 0;
	struct ch_capture c;
	unsigned long long flags = 9;
	const CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, 0};

	DRV(cuMemAddressReserve(&p, PAGE, 0, 0, 0));
	DRV(cuMemMap(p, PAGE, 0, h, 0));
	DRV(cuMemGetAccess(&flags, &here, p));
	ck_assert_uint_eq(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
	CU_SAYS(cudaMemset((void *)(uintptr_t)p, 0, 8), cudaErrorInvalidValue,
		"cuMemSetAccess gave no device access");
	struct bump_args a = {.word = p};

	ch_capture_begin(&c);
	CU(ch_launch_on(&bump_w1, 1, 1, &a, 0));
	cudaError_t rc = cudaDeviceSynchronize();
	ch_capture_end(&c);
	ck_assert_int_eq(rc, cudaErrorIllegalAddress);
	ck_assert_msg(strstr(c.text, "cuMemSetAccess gave device 0 no access") != NULL, "%s",
		      c.text);
	unmap(p, PAGE);
	DRV(cuMemRelease(h));
}

/* Access is of one device: another GPU needs its own, and nothing else. */
CH_TEST(access_is_given_to_each_device)
{
	CUmemGenericAllocationHandle h = create(0, PAGE);
	CUdeviceptr p = map(h, PAGE, 0);
	const CUmemAccessDesc both[] = {access_of(0), access_of(2)}, bad = access_of(99);
	CUmemAccessDesc none = access_of(2);
	const CUmemLocation at = {CU_MEM_LOCATION_TYPE_DEVICE, 2};
	unsigned long long flags = 9;

	put(p, 7);
	DRV(cuMemGetAccess(&flags, &at, p));
	ck_assert_uint_eq(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
	DRV(cuMemSetAccess(p, PAGE, both, 2));
	DRV(cuMemGetAccess(&flags, &at, p));
	ck_assert_uint_eq(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	CU(cudaSetDevice(2));
	struct bump_args a = {.word = p};

	CU(ch_launch_on(&bump_w1, 1, 1, &a, 0));
	CU(cudaDeviceSynchronize());
	ck_assert_uint_eq(get(p), 8);
	ck_assert_int_eq(cuMemSetAccess(p, PAGE, &bad, 1), CUDA_ERROR_INVALID_DEVICE);
	none.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
	DRV_SAYS(cuMemSetAccess(p, PAGE, &none, 1), CUDA_ERROR_NOT_SUPPORTED, "not implemented");
	none.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	DRV(cuMemSetAccess(p, PAGE, &none, 1));
	DRV(cuMemGetAccess(&flags, &at, p));
	ck_assert_uint_eq(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
	unmap(p, PAGE);
	DRV(cuMemRelease(h));
}

CH_TEST(mappings_are_whole_and_do_not_overlap)
{
	CUmemGenericAllocationHandle h = create(0, 2 * PAGE), g = create(0, PAGE);
	const CUmemAccessDesc desc = access_of(0);
	CUdeviceptr p = 0, q = 0;

	DRV(cuMemAddressReserve(&p, 4 * PAGE, 0, 0, 0));
	ck_assert_uint_eq(p % PAGE, 0);
	DRV_SAYS(cuMemMap(p, PAGE, 0, h, 0), CUDA_ERROR_INVALID_VALUE, "all of the memory");
	DRV_SAYS(cuMemMap(p + 4096, 2 * PAGE, 0, h, 0), CUDA_ERROR_INVALID_VALUE, "at a page");
	DRV_SAYS(cuMemMap(p + 3 * PAGE, 2 * PAGE, 0, h, 0), CUDA_ERROR_INVALID_VALUE, "reserved");
	DRV(cuMemMap(p, 2 * PAGE, 0, h, 0));
	DRV_SAYS(cuMemMap(p + PAGE, PAGE, 0, g, 0), CUDA_ERROR_INVALID_VALUE, "are mapped at");
	DRV(cuMemMap(p + 2 * PAGE, PAGE, 0, g, 0));
	DRV_SAYS(cuMemSetAccess(p, PAGE, &desc, 1), CUDA_ERROR_INVALID_VALUE, "whole mappings");
	DRV_SAYS(cuMemSetAccess(p, 4 * PAGE, &desc, 1), CUDA_ERROR_INVALID_VALUE, "whole mappings");
	DRV(cuMemSetAccess(p, 3 * PAGE, &desc, 1));
	DRV_MISUSE(cuMemUnmap(p, PAGE), CUDA_ERROR_INVALID_VALUE, "not whole mappings");
	DRV_MISUSE(cuMemAddressFree(p, 4 * PAGE), CUDA_ERROR_INVALID_VALUE, "still mapped there");
	DRV(cuMemUnmap(p, 3 * PAGE));
	DRV_SAYS(cuMemUnmap(p, 3 * PAGE), CUDA_ERROR_INVALID_VALUE, "nothing is mapped there");
	DRV_MISUSE(cuMemUnmap(p, 5 * PAGE), CUDA_ERROR_INVALID_VALUE, "not whole mappings");
	DRV_MISUSE(cuMemAddressFree(p, PAGE), CUDA_ERROR_INVALID_VALUE, "not a range that one");
	DRV(cuMemAddressReserve(&q, PAGE, 64 * PAGE, p + 64 * PAGE, 0));
	ck_assert_uint_eq(q % (64 * PAGE), 0);
	DRV(cuMemAddressFree(q, PAGE));
	DRV(cuMemAddressFree(p, 4 * PAGE));
	DRV(cuMemRelease(h));
	DRV(cuMemRelease(g));
	DRV_SAYS(cuMemRelease(g), CUDA_ERROR_INVALID_VALUE, "not a handle of memory");
}

/* Several physical allocations that are mapped side by side are one range for copies and
 * kernels. */
CH_TEST(neighbouring_mappings_are_one_range)
{
	CUmemGenericAllocationHandle h[3];
	const CUmemAccessDesc desc = access_of(0);
	static const int place[] = {2, 0, 1}; /* not in the order of the memory itself */
	static uint8_t sent[PAGE], got[PAGE];
	CUdeviceptr p = 0;

	DRV(cuMemAddressReserve(&p, 3 * PAGE, 0, 0, 0));
	for (int i = 0; i < 3; i++) {
		h[i] = create(0, PAGE);
		DRV(cuMemMap(p + (size_t)place[i] * PAGE, PAGE, 0, h[i], 0));
	}
	DRV(cuMemSetAccess(p, 3 * PAGE, &desc, 1));
	ch_pattern(sent, PAGE, 5);
	for (size_t at = PAGE / 2; at < 3 * PAGE - PAGE / 2; at += PAGE) {
		void *to = (void *)(uintptr_t)(p + at);

		CU(cudaMemset(to, 0, PAGE));
		CU(cudaMemcpy(to, sent, PAGE, cudaMemcpyHostToDevice));
		CU(cudaMemcpy(got, to, PAGE, cudaMemcpyDeviceToHost));
		ch_expect(got, PAGE, 5);
	}
	CU_SAYS(cudaMemset((void *)(uintptr_t)(p + 2 * PAGE), 0, PAGE + 1), cudaErrorInvalidValue,
		"run past the end of what is mapped");
	unmap(p, 3 * PAGE);
	for (int i = 0; i < 3; i++)
		DRV(cuMemRelease(h[i]));
}

CH_TEST(memory_mapped_twice_is_one_memory)
{
	CUmemGenericAllocationHandle h = create(0, PAGE), again = 0;
	CUdeviceptr p = map(h, PAGE, 0), q = map(h, PAGE, 0);
	uint64_t *seen = ch_pinned(8);
	cudaStream_t one, two;

	CU(cudaMemset((void *)(uintptr_t)p, 0, 64));
	CU(cudaDeviceSynchronize());
	CU(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
	CU(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
	struct bump_args waits = {.word = p, .seen = (uintptr_t)seen}, adds = {.word = q};

	CU(ch_launch_on(&await_w1, 1, 1, &waits, one));
	CU(ch_launch_on(&bump_w1, 1, 1, &adds, two));
	CU(cudaStreamSynchronize(one));
	CU(cudaStreamSynchronize(two));
	ck_assert_uint_eq(*seen, 1);
	ck_assert_uint_eq(get(p), 1);
	DRV(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(q + 5)));
	ck_assert_uint_eq(again, h);
	DRV(cuMemRelease(h));
	DRV(cuMemRelease(again));
	unmap(p, PAGE);
	ck_assert_uint_eq(get(q), 1);
	ck_assert_int_eq(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)p),
			 CUDA_ERROR_INVALID_VALUE);
	unmap(q, PAGE);
	CU(cudaStreamDestroy(one));
	CU(cudaStreamDestroy(two));
	CU(cudaFreeHost(seen));
}

CH_TEST(memory_counts_until_its_last_use)
{
	size_t before = 0, with = 0, after = 0, total;
	CUmemGenericAllocationHandle h;
	CUdeviceptr p;

	CU(cudaMemGetInfo(&before, &total));
	h = create(0, 4 * PAGE);
	CU(cudaMemGetInfo(&with, &total));
	ck_assert_uint_eq(before - with, 4 * PAGE);
	p = map(h, 4 * PAGE, 0);
	DRV(cuMemRelease(h));
	CU(cudaMemGetInfo(&with, &total));
	ck_assert_uint_eq(before - with, 4 * PAGE);
	unmap(p, 4 * PAGE);
	CU(cudaMemGetInfo(&after, &total));
	ck_assert_uint_eq(after, before);
}

CH_TEST(what_is_left_is_a_leak, .leaks = 2)
{
	CUdeviceptr p = map(create(0, PAGE), PAGE, 0);

	(void)p;
}

CH_TEST(a_mapping_is_undone_after_the_kernels_that_use_it)
{
	CUmemGenericAllocationHandle h = create(0, PAGE);
	CUdeviceptr p = map(h, PAGE, 0);
	uint64_t *pinned = ch_pinned(16);
	struct bump_args a = {p, (uintptr_t)&pinned[0], (uintptr_t)&pinned[1]};
	struct wait w = {.on = &pinned[1],
			 .bytes = 8,
			 .kind = WAIT_EQ,
			 .mask = WAIT_MASK_ALL,
			 .want = 1,
			 .why = "the kernel to touch the mapping",
			 .from = {-1, -1, -1, "test"}};

	put(p, 0);
	CU(ch_launch_on(&stay_w1, 1, 1, &a, 0));
	ck_assert_int_eq(os_wait_one(&w, NULL), 0);
	DRV_MISUSE(cuMemUnmap(p, PAGE), CUDA_SUCCESS, "the host has not waited for that");
	shared_store_u64((shared_u64 *)&pinned[0], 1, SHARED_RELEASE);
	CU(cudaDeviceSynchronize());
	DRV(cuMemAddressFree(p, PAGE));
	DRV(cuMemRelease(h));
	CU(cudaFreeHost(pinned));
}

/* ---- HCAs ----------------------------------------------------------------------------------- */

CH_TEST(an_hca_reaches_it_by_address_and_by_descriptor)
{
	const struct peermem_ops *pm = peermem();
	CUmemGenericAllocationHandle h = create(0, PAGE);
	CUdeviceptr p = map(h, PAGE, 0);
	struct peermem_region by_address, by_fd;
	uint64_t v = 7;
	int fd = -1;

	put(p, 0);
	ck_assert_int_eq(pm->pin(os_proc(), p + 8, 64, &by_address), 0);
	ck_assert_int_eq(pm->write(&by_address, 0, p + 8, &v, 8), 0);
	DRV(cuMemGetHandleForAddressRange(&fd, p, 65536, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	ck_assert_int_eq(pm->pin_dmabuf(os_proc(), fd, 0, 4096, &by_fd), 0);
	ck_assert_int_eq(close(fd), 0);
	ck_assert_int_eq(pm->write(&by_fd, 0, by_fd.address + 16, &v, 8), 0);
	ck_assert_uint_eq(get(p + 8), 7);
	ck_assert_uint_eq(get(p + 16), 7);
	pm->unpin(&by_address);
	pm->unpin(&by_fd);
	unmap(p, PAGE);
	DRV(cuMemRelease(h));
}

CH_TEST(an_hca_needs_memory_that_was_made_for_it)
{
	CUmemAllocationProp prop = prop_of(0);
	CUmemGenericAllocationHandle h = 0;
	struct peermem_region r;
	CUdeviceptr p;
	int fd = -1;

	prop.allocFlags.gpuDirectRDMACapable = 0;
	DRV(cuMemCreate(&h, PAGE, &prop, 0));
	p = map(h, PAGE, 0);
	ck_assert_int_eq(peermem()->pin(os_proc(), p, 64, &r), ENODEV);
	ck_assert_int_eq(
		cuMemGetHandleForAddressRange(&fd, p, 4096, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
		CUDA_ERROR_NOT_SUPPORTED);
	unmap(p, PAGE);
	DRV(cuMemRelease(h));
}

/* ---- faults --------------------------------------------------------------------------------- */

CH_TEST(the_second_mapping_fails_by_the_plan, .plan = "cuda.cu_mem_map nth=2 fail\n")
{
	CUmemGenericAllocationHandle h = create(0, PAGE);
	CUdeviceptr p = map(h, PAGE, 0), q = 0;

	DRV(cuMemAddressReserve(&q, PAGE, 0, 0, 0));
	DRV_SAYS(cuMemMap(q, PAGE, 0, h, 0), CUDA_ERROR_MAP_FAILED, "by the fault plan");
	DRV(cuMemMap(q, PAGE, 0, h, 0));
	unmap(q, PAGE);
	unmap(p, PAGE);
	DRV(cuMemRelease(h));
}

int main(void)
{
	TCase *t = tcase_create("vmm");

	CH_ADD(t, memory_is_in_pages_of_2_mib);
	CH_ADD(t, mapped_memory_is_used_by_copies_and_kernels);
	CH_ADD(t, memory_without_access_is_an_illegal_address);
	CH_ADD(t, access_is_given_to_each_device);
	CH_ADD(t, mappings_are_whole_and_do_not_overlap);
	CH_ADD(t, neighbouring_mappings_are_one_range);
	CH_ADD(t, memory_mapped_twice_is_one_memory);
	CH_ADD(t, memory_counts_until_its_last_use);
	CH_ADD(t, what_is_left_is_a_leak);
	CH_ADD(t, a_mapping_is_undone_after_the_kernels_that_use_it);
	CH_ADD(t, an_hca_reaches_it_by_address_and_by_descriptor);
	CH_ADD(t, an_hca_needs_memory_that_was_made_for_it);
	CH_ADD(t, the_second_mapping_fails_by_the_plan);
	return ch_suite_run("cuda vmm", t);
}
