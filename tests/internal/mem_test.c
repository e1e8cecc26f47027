/* SPDX-License-Identifier: BSD-3-Clause */
/* core/mem: what it allocates and opens, and what its outputs are when it cannot. */
#include "core/mem/mem.h"
#include "tests/conformance/cuda/cuda_harness.h"

static void mem_importer(void *arg)
{
	cudaIpcMemHandle_t *handle = arg;
	void *mem = handle;

	ck_assert_int_eq(mem_import(&mem, *handle, "memory of the test"), ncclSuccess);
	ck_assert_ptr_nonnull(mem);
	ck_assert_int_eq(mem_import_close(mem, "memory of the test"), ncclSuccess);
}

CH_TEST(memory_is_allocated_exported_and_freed)
{
	void *device = NULL, *host = NULL;
	cudaIpcMemHandle_t handle;
	struct os_proc *other = ch_proc(0, "importer");

	ck_assert_int_eq(mem_device_alloc(&device, 4096, "the test"), ncclSuccess);
	ck_assert_int_eq(mem_host_alloc(&host, 4096, "the test"), ncclSuccess);
	memset(host, 1, 4096);
	ck_assert_int_eq(mem_export(&handle, device, "memory of the test"), ncclSuccess);
	ch_in(other, mem_importer, &handle);
	world_proc_exit(other);
	ck_assert_int_eq(mem_device_free(device, "the test"), ncclSuccess);
	ck_assert_int_eq(mem_host_free(host, "the test"), ncclSuccess);
	ck_assert_int_eq(mem_device_free(NULL, "nothing"), ncclSuccess);
	ck_assert_int_eq(mem_host_free(NULL, "nothing"), ncclSuccess);
}

CH_TEST(what_fails_leaves_null, .plan = "cuda.malloc nth=1 fail\n"
					"cuda.host_alloc nth=1 fail\n"
					"cuda.ipc_open nth=1 fail\n")
{
	void *device = &device, *host = &host, *import = &import;
	cudaIpcMemHandle_t handle = {0};

	ck_assert_int_eq(mem_device_alloc(&device, 64, "the test"), ncclUnhandledCudaError);
	ck_assert_ptr_null(device);
	ck_assert_int_eq(mem_host_alloc(&host, 64, "the test"), ncclUnhandledCudaError);
	ck_assert_ptr_null(host);
	ck_assert_int_eq(mem_import(&import, handle, "the test"), ncclUnhandledCudaError);
	ck_assert_ptr_null(import);
}

CH_TEST(a_dmabuf_is_of_the_pages_that_have_the_memory)
{
	void *device = NULL;
	uint8_t *page;
	size_t offset = 1;
	int fd = -1;

	ck_assert_int_eq(mem_device_alloc(&device, 4 * MEM_PAGE_BYTES, "the test"), ncclSuccess);
	page = (uint8_t *)ALIGN_UP((uintptr_t)device, (uintptr_t)MEM_PAGE_BYTES);
	ck_assert_int_eq(mem_dmabuf(page, MEM_PAGE_BYTES, &fd, &offset), ncclSuccess);
	ck_assert_uint_eq(offset, 0);
	ck_assert_int_ge(fd, 0);
	os_descriptor_close(fd);
	ck_assert_int_eq(mem_dmabuf(page + 100, MEM_PAGE_BYTES, &fd, &offset), ncclSuccess);
	ck_assert_uint_eq(offset, 100);
	os_descriptor_close(fd);
	/* the pages are not all of this allocation */
	ck_assert_int_eq(mem_dmabuf(page + 1, 4 * MEM_PAGE_BYTES, &fd, &offset), ncclInvalidUsage);
	ck_assert_int_eq(fd, -1);
	ck_assert_int_eq(mem_device_free(device, "the test"), ncclSuccess);
}

CH_TEST(without_dmabufs_there_is_none, .plan = "cuda.cu_mem_get_handle_for_address_range fail\n")
{
	void *device = NULL;
	size_t offset;
	int fd;

	ck_assert_int_eq(mem_device_alloc(&device, 4 * MEM_PAGE_BYTES, "the test"), ncclSuccess);
	ck_assert_int_eq(mem_dmabuf((uint8_t *)device + MEM_PAGE_BYTES, 64, &fd, &offset),
			 ncclInvalidUsage);
	ck_assert_int_eq(fd, -1);
	ck_assert_int_eq(mem_device_free(device, "the test"), ncclSuccess);
}

int main(void)
{
	TCase *t = tcase_create("mem");

	CH_ADD(t, memory_is_allocated_exported_and_freed);
	CH_ADD(t, what_fails_leaves_null);
	CH_ADD(t, a_dmabuf_is_of_the_pages_that_have_the_memory);
	CH_ADD(t, without_dmabufs_there_is_none);
	return ch_suite_run("core/mem", t);
}
