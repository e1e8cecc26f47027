/* SPDX-License-Identifier: BSD-3-Clause */
/* core/mem: what it allocates and opens, and what its outputs are when it cannot. */
#include "core/mem/mem.h"
#include "tests/conformance/cuda_harness.h"

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

int main(void)
{
	TCase *t = tcase_create("mem");

	CH_ADD(t, memory_is_allocated_exported_and_freed);
	CH_ADD(t, what_fails_leaves_null);
	return ch_suite_run("core/mem", t);
}
