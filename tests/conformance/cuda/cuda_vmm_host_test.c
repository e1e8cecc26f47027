/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Host memory of cuMem: which devices may use it; the host, kernels and copies see one memory;
 * calls that query a pointer report host memory; another process imports it.
 */
#include <errno.h>

#include "backends/peermem.h"
#include "tests/conformance/cuda/cuda_vmm.h"

static CUmemAllocationProp host_prop(int device)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .requestedHandleTypes =
					    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				    .location = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA}};

	DRV(cuDeviceGetAttribute(&prop.location.id, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, device));
	return prop;
}

static CUmemGenericAllocationHandle host_create(size_t bytes)
{
	const CUmemAllocationProp prop = host_prop(0);
	CUmemGenericAllocationHandle h = 0;

	DRV(cuMemCreate(&h, bytes, &prop, 0));
	return h;
}

static CUmemAccessDesc host_access(void)
{
	return (CUmemAccessDesc){{.type = CU_MEM_LOCATION_TYPE_HOST_NUMA},
				 CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
}

/* For the device and the host. */
static CUdeviceptr host_map(CUmemGenericAllocationHandle h, size_t bytes, int device)
{
	const CUmemAccessDesc host = host_access();
	CUdeviceptr p = map(h, bytes, device);

	DRV(cuMemSetAccess(p, bytes, &host, 1));
	return p;
}

static shared_u64 *word_at(CUdeviceptr p)
{
	return (shared_u64 *)(uintptr_t)p;
}

/* ---- locations ------------------------------------------------------------------------------ */

CH_TEST(host_memory_is_of_a_node_near_a_gpu)
{
	CUmemAllocationProp prop = host_prop(0), got;
	CUmemGenericAllocationHandle h;
	size_t granularity = 0;
	int node = prop.location.id, v = 0;

	DRV(cuDeviceGetAttribute(
		&v, CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0));
	ck_assert_int_eq(v, 1);
	DRV(cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	ck_assert_uint_eq(granularity, PAGE);
	ck_assert_int_eq(cuMemCreate(&h, 4096, &prop, 0), CUDA_ERROR_INVALID_VALUE);
	h = host_create(PAGE);
	DRV(cuMemGetAllocationPropertiesFromHandle(&got, h));
	ck_assert_int_eq(got.location.type, CU_MEM_LOCATION_TYPE_HOST_NUMA);
	ck_assert_int_eq(got.location.id, node);
	DRV(cuMemRelease(h));
	prop.location.id = 99;
	DRV_SAYS(cuMemCreate(&h, PAGE, &prop, 0), CUDA_ERROR_INVALID_VALUE, "NUMA node 99");
	prop.location.type = CU_MEM_LOCATION_TYPE_HOST;
	DRV_SAYS(cuMemCreate(&h, PAGE, &prop, 0), CUDA_ERROR_NOT_SUPPORTED,
		 "CU_MEM_LOCATION_TYPE_HOST is not implemented");
	prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
	ck_assert_int_eq(cuMemCreate(&h, PAGE, &prop, 0), CUDA_ERROR_INVALID_VALUE);
}

/* A machine without NUMA: the attribute is -1, the node is 0. */
CH_TEST(without_numa_the_node_is_0, .machine = "workstation-2gpu")
{
	CUmemAllocationProp prop = host_prop(0);
	CUmemGenericAllocationHandle h;

	prop.location.id = 0;
	DRV(cuMemCreate(&h, PAGE, &prop, 0));
	unmap(host_map(h, PAGE, 0), PAGE);
	DRV(cuMemRelease(h));
}

CH_TEST(it_counts_for_no_gpu)
{
	size_t before = 0, with = 0, total;
	CUmemGenericAllocationHandle h;

	CU(cudaMemGetInfo(&before, &total));
	h = host_create(4 * PAGE);
	CU(cudaMemGetInfo(&with, &total));
	ck_assert_uint_eq(with, before);
	DRV(cuMemRelease(h));
}

/* ---- use ------------------------------------------------------------------------------------ */

CH_TEST(host_kernels_and_copies_see_one_memory)
{
	CUmemGenericAllocationHandle h = host_create(2 * PAGE);
	CUdeviceptr p = host_map(h, 2 * PAGE, 1);
	struct bump_args a = {.word = p + PAGE};
	uint64_t *device, v = 0;

	CU(cudaSetDevice(1));
	device = ch_malloc(8);
	shared_store_u64(word_at(p + PAGE), 40, SHARED_RELEASE);
	CU(ch_launch_on(&bump_w1, 1, 1, &a, 0));
	CU(cudaDeviceSynchronize());
	ck_assert_uint_eq(shared_load_u64(word_at(p + PAGE), SHARED_ACQUIRE), 41);
	CU(cudaMemcpy(device, (void *)(uintptr_t)(p + PAGE), 8, cudaMemcpyHostToDevice));
	CU(cudaMemcpy((void *)(uintptr_t)p, device, 8, cudaMemcpyDeviceToHost));
	ck_assert_uint_eq(*(uint64_t *)(uintptr_t)p, 41);
	CU(cudaMemcpy(&v, (void *)(uintptr_t)p, 8, cudaMemcpyDefault));
	ck_assert_uint_eq(v, 41);
	CU(cudaMemcpy((void *)(uintptr_t)(p + 8), device, 8, cudaMemcpyDeviceToDevice));
	ck_assert_uint_eq(*(uint64_t *)(uintptr_t)(p + 8), 41);
	CU(cudaMemset((void *)(uintptr_t)p, 0, PAGE));
	ck_assert_uint_eq(*(uint64_t *)(uintptr_t)p, 0);
	CU(cudaFree(device));
	unmap(p, 2 * PAGE);
	DRV(cuMemRelease(h));
}

/* Like pinned memory: the copy runs in stream order, and reads the bytes of that moment. */
CH_TEST(an_asynchronous_copy_from_it_returns_before_it_is_done)
{
	CUmemGenericAllocationHandle h = host_create(PAGE);
	CUdeviceptr p = host_map(h, PAGE, 0);
	uint64_t *pinned = ch_pinned(24), *device = ch_malloc(8), v = 0;
	struct bump_args a = {(uintptr_t)&pinned[2], (uintptr_t)&pinned[0], (uintptr_t)&pinned[1]};

	shared_store_u64(word_at(p), 1, SHARED_RELEASE);
	CU(ch_launch_on(&stay_w1, 1, 1, &a, 0));
	CU(cudaMemcpyAsync(device, (void *)(uintptr_t)p, 8, cudaMemcpyHostToDevice, 0));
	shared_store_u64(word_at(p), 2, SHARED_RELEASE);
	shared_store_u64((shared_u64 *)&pinned[0], 1, SHARED_RELEASE);
	CU(cudaDeviceSynchronize());
	CU(cudaMemcpy(&v, device, 8, cudaMemcpyDeviceToHost));
	ck_assert_uint_eq(v, 2);
	CU(cudaFree(device));
	CU(cudaFreeHost(pinned));
	unmap(p, PAGE);
	DRV(cuMemRelease(h));
}

#define answer_args bump_args
/* Waits for the host's word, and answers in another one. */
CH_KERNEL(answer, 0)
{
	ch_wait_word(d, a->word, 1);
	fakedev_store(d, (void *)(uintptr_t)a->seen, 8, 1, SHARED_RELEASE, SHARED_SYSTEM);
}

/* Each through a mapping of its own: a write wakes the task that waits at another address of the
 * word. */
CH_TEST(the_host_and_a_kernel_wait_for_each_other)
{
	CUmemGenericAllocationHandle h = host_create(PAGE);
	CUdeviceptr p = host_map(h, PAGE, 0), q = host_map(h, PAGE, 0);
	struct bump_args a = {.word = q, .seen = q + 128};
	struct wait w = {.on = word_at(p + 128),
			 .bytes = 8,
			 .kind = WAIT_EQ,
			 .mask = WAIT_MASK_ALL,
			 .want = 1,
			 .why = "the kernel's answer",
			 .from = {-1, -1, -1, "test"}};

	shared_store_u64(word_at(p), 0, SHARED_RELAXED);
	shared_store_u64(word_at(p + 128), 0, SHARED_RELEASE);
	CU(ch_launch_on(&answer_w1, 1, 1, &a, 0));
	os_sleep_ns(100000);
	shared_store_u64(word_at(p), 1, SHARED_RELEASE);
	ck_assert_int_eq(os_wait_one(&w, NULL), 0);
	CU(cudaDeviceSynchronize());
	unmap(p, PAGE);
	unmap(q, PAGE);
	DRV(cuMemRelease(h));
}

CH_TEST(it_is_host_memory_to_calls_that_look_at_a_pointer)
{
	CUmemGenericAllocationHandle h = host_create(PAGE);
	CUdeviceptr p = host_map(h, PAGE, 0), base = 0;
	void *at = (void *)(uintptr_t)(p + 100);
	struct cudaPointerAttributes attr;
	CUmemorytype type = 0;
	cudaIpcMemHandle_t ipc;
	size_t size = 0;
	int v = 7;

	CU(cudaSetDevice(1)); /* which has no access */
	CU(cudaPointerGetAttributes(&attr, at));
	ck_assert_ptr_eq(attr.devicePointer, NULL);
	ck_assert_int_eq(attr.device, 0);
	CU(cudaSetDevice(0));
	CU(cudaPointerGetAttributes(&attr, at));
	ck_assert_int_eq(attr.type, cudaMemoryTypeHost);
	ck_assert_ptr_eq(attr.devicePointer, at);
	ck_assert_ptr_eq(attr.hostPointer, at);
	ck_assert_int_eq(attr.device, 0);
	DRV(cuPointerGetAttribute(&v, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p));
	ck_assert_int_eq(v, 0);
	DRV(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
	ck_assert_int_eq(type, CU_MEMORYTYPE_HOST);
	DRV(cuPointerGetAttribute(&v, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, p));
	ck_assert_int_eq(v, 0);
	DRV(cuMemGetAddressRange(&base, &size, p + 100));
	ck_assert_uint_eq(base, p);
	ck_assert_uint_eq(size, PAGE);
	CU_FAILS(cudaIpcGetMemHandle(&ipc, at), cudaErrorInvalidValue);
	CU_MISUSE(cudaFree(at), cudaErrorInvalidValue, "not the start of memory of this process");
	unmap(p, PAGE);
	CU(cudaPointerGetAttributes(&attr, at));
	ck_assert_int_eq(attr.type, cudaMemoryTypeUnregistered);
	DRV(cuMemRelease(h));
}

/* ---- access --------------------------------------------------------------------------------- */

CH_TEST(a_kernel_needs_access_for_its_device)
{
	CUmemGenericAllocationHandle h = host_create(PAGE);
	const CUmemAccessDesc host = host_access();
	struct bump_args a = {0};
	struct ch_capture c;

	DRV(cuMemAddressReserve((CUdeviceptr *)&a.word, PAGE, 0, 0, 0));
	DRV(cuMemMap(a.word, PAGE, 0, h, 0));
	DRV(cuMemSetAccess(a.word, PAGE, &host, 1));
	ch_capture_begin(&c);
	CU(ch_launch_on(&bump_w1, 1, 1, &a, 0));
	cudaError_t rc = cudaDeviceSynchronize();
	ch_capture_end(&c);
	ck_assert_int_eq(rc, cudaErrorIllegalAddress);
	ck_assert_msg(strstr(c.text, "cuMemSetAccess gave device 0 no access") != NULL, "%s",
		      c.text);
	ck_assert_msg(strstr(c.text, "of host 0 allocation #1") != NULL, "%s", c.text);
	unmap(a.word, PAGE);
	DRV(cuMemRelease(h));
}

CH_TEST(access_of_the_host_is_given_and_taken)
{
	CUmemGenericAllocationHandle h = host_create(PAGE), g = create(0, PAGE);
	CUdeviceptr p = map(h, PAGE, 0), q = map(g, PAGE, 0);
	const CUmemLocation host = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA};
	CUmemAccessDesc desc = host_access();
	unsigned long long flags = 9;

	DRV(cuMemGetAccess(&flags, &host, p));
	ck_assert_uint_eq(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
	DRV(cuMemSetAccess(p, PAGE, &desc, 1));
	DRV(cuMemGetAccess(&flags, &host, p));
	ck_assert_uint_eq(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	desc.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	DRV(cuMemSetAccess(p, PAGE, &desc, 1));
	DRV(cuMemGetAccess(&flags, &host, p));
	ck_assert_uint_eq(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
	desc = host_access();
	DRV_SAYS(cuMemSetAccess(q, PAGE, &desc, 1), CUDA_ERROR_NOT_SUPPORTED,
		 "the host can have no access to memory of gpu 0");
	unmap(p, PAGE);
	unmap(q, PAGE);
	DRV(cuMemRelease(h));
	DRV(cuMemRelease(g));
}

static void touches(void)
{
	CUdeviceptr p = map(host_create(PAGE), PAGE, 0);

	*(volatile uint64_t *)(uintptr_t)p = 1;
}

static void touch_sim(void)
{
	const struct ch_world w = {0};

	ch_run_once(SIM_ENGINE_SIM, 1, &w, touches);
}

START_TEST(the_host_without_access_crashes)
{
	char text[4096];
	int rc = ch_child(touch_sim, text, sizeof text);

	ck_assert_int_ne(rc, 0);
	ck_assert_msg(strstr(text, "of host 0 allocation #1, cuMemCreate") != NULL, "%s", text);
	ck_assert_msg(strstr(text, "cuMemSetAccess gave the host no access") != NULL, "%s", text);
}
END_TEST

CH_TEST(a_mapping_is_undone_after_the_kernels_that_use_it)
{
	CUmemGenericAllocationHandle h = host_create(PAGE);
	CUdeviceptr p = host_map(h, PAGE, 0);
	uint64_t *pinned = ch_pinned(16);
	struct bump_args a = {p, (uintptr_t)&pinned[0], (uintptr_t)&pinned[1]};
	struct wait w = {.on = &pinned[1],
			 .bytes = 8,
			 .kind = WAIT_EQ,
			 .mask = WAIT_MASK_ALL,
			 .want = 1,
			 .why = "the kernel to touch the mapping",
			 .from = {-1, -1, -1, "test"}};

	CU(ch_launch_on(&stay_w1, 1, 1, &a, 0));
	ck_assert_int_eq(os_wait_one(&w, NULL), 0);
	DRV_MISUSE(cuMemUnmap(p, PAGE), CUDA_SUCCESS, "cuMemUnmap of host 0 #1");
	shared_store_u64((shared_u64 *)&pinned[0], 1, SHARED_RELEASE);
	CU(cudaDeviceSynchronize());
	DRV(cuMemAddressFree(p, PAGE));
	DRV(cuMemRelease(h));
	CU(cudaFreeHost(pinned));
}

CH_TEST(registration_for_an_hca_is_refused_by_name)
{
	CUmemGenericAllocationHandle h = host_create(PAGE);
	CUdeviceptr p = host_map(h, PAGE, 0);
	struct peermem_region r;
	struct ch_capture c;
	int fd;

	ch_capture_begin(&c);
	int rc = peermem()->pin(os_proc(), p, 64, &r);
	ch_capture_end(&c);
	ck_assert_int_eq(rc, EFAULT);
	ck_assert_msg(strstr(c.text, "not implemented for host memory of cuMem") != NULL, "%s",
		      c.text);
	ck_assert_int_eq(
		cuMemGetHandleForAddressRange(&fd, p, 4096, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
		CUDA_ERROR_INVALID_VALUE);
	unmap(p, PAGE);
	DRV(cuMemRelease(h));
}

/* ---- several processes ---------------------------------------------------------------------- */

struct share {
	int fd;
	CUdeviceptr mapped;
};

static void imports(void *arg)
{
	struct share *s = arg;
	CUmemGenericAllocationHandle h;
	int fd = dup(s->fd); /* as what a socket brought */

	CU(cudaSetDevice(2));
	DRV(cuMemImportFromShareableHandle(&h, (void *)(intptr_t)fd,
					   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	ck_assert_int_eq(close(fd), 0);
	s->mapped = host_map(h, PAGE, 2);
	DRV(cuMemRelease(h));
	struct bump_args a = {.word = s->mapped};

	CU(ch_launch_on(&bump_w1, 1, 1, &a, 0));
	CU(cudaDeviceSynchronize());
	ck_assert_uint_eq(shared_load_u64(word_at(s->mapped), SHARED_ACQUIRE), 42);
}

static void reads_and_unmaps(void *arg)
{
	struct share *s = arg;

	ck_assert_uint_eq(shared_load_u64(word_at(s->mapped), SHARED_ACQUIRE), 43);
	unmap(s->mapped, PAGE);
}

/* Its own owner is the first to go. */
CH_TEST(another_process_has_it_until_it_unmaps_it)
{
	CUmemGenericAllocationHandle h = host_create(PAGE);
	struct os_proc *other = ch_proc(0, "importer");
	CUdeviceptr p = host_map(h, PAGE, 0);
	struct share s = {.fd = -1};

	shared_store_u64(word_at(p), 41, SHARED_RELEASE);
	DRV(cuMemExportToShareableHandle(&s.fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	DRV(cuMemRelease(h));
	ch_in(other, imports, &s);
	ck_assert_int_eq(close(s.fd), 0);
	ck_assert_uint_ne(s.mapped, p);
	ck_assert_uint_eq(shared_add_u64(word_at(p), 1, SHARED_ACQ_REL), 42);
	unmap(p, PAGE);
	ch_in(other, reads_and_unmaps, &s);
	world_proc_exit(other);
}

CH_TEST(a_killed_process_leaves_nothing)
{
	CUmemGenericAllocationHandle h = host_create(PAGE);
	struct os_proc *other = ch_proc(0, "importer");
	CUdeviceptr p = host_map(h, PAGE, 0);
	struct share s = {.fd = -1};

	shared_store_u64(word_at(p), 41, SHARED_RELEASE);
	DRV(cuMemExportToShareableHandle(&s.fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	DRV(cuMemRelease(h));
	ch_in(other, imports, &s);
	ck_assert_int_eq(close(s.fd), 0);
	world_proc_kill(other);
	ck_assert_uint_eq(shared_load_u64(word_at(p), SHARED_ACQUIRE), 42);
	unmap(p, PAGE);
}

static void other_host(void *arg)
{
	struct share *s = arg;
	CUmemGenericAllocationHandle h;
	int fd = dup(s->fd);

	DRV_SAYS(cuMemImportFromShareableHandle(&h, (void *)(intptr_t)fd,
						CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
		 CUDA_ERROR_INVALID_VALUE, "is of another host");
	ck_assert_int_eq(close(fd), 0);
}

CH_TEST(hosts_have_memory_of_their_own, .hosts = 3)
{
	CUmemGenericAllocationHandle h = host_create(PAGE);
	struct os_proc *other = ch_proc(1, "importer");
	struct share s = {.fd = -1};

	DRV(cuMemExportToShareableHandle(&s.fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	ch_in(other, other_host, &s);
	world_proc_exit(other);
	ck_assert_int_eq(close(s.fd), 0);
	DRV(cuMemRelease(h));
}

CH_TEST(what_is_left_is_a_leak, .leaks = 2)
{
	(void)host_map(host_create(PAGE), PAGE, 0);
}

int main(void)
{
	TCase *t = tcase_create("vmm host");

	CH_ADD(t, host_memory_is_of_a_node_near_a_gpu);
	CH_ADD(t, without_numa_the_node_is_0);
	CH_ADD(t, it_counts_for_no_gpu);
	CH_ADD(t, host_kernels_and_copies_see_one_memory);
	CH_ADD(t, an_asynchronous_copy_from_it_returns_before_it_is_done);
	CH_ADD(t, the_host_and_a_kernel_wait_for_each_other);
	CH_ADD(t, it_is_host_memory_to_calls_that_look_at_a_pointer);
	CH_ADD(t, a_kernel_needs_access_for_its_device);
	CH_ADD(t, access_of_the_host_is_given_and_taken);
	tcase_add_test(t, the_host_without_access_crashes);
	CH_ADD(t, a_mapping_is_undone_after_the_kernels_that_use_it);
	CH_ADD(t, registration_for_an_hca_is_refused_by_name);
	CH_ADD(t, another_process_has_it_until_it_unmaps_it);
	CH_ADD(t, a_killed_process_leaves_nothing);
	CH_ADD(t, hosts_have_memory_of_their_own);
	CH_ADD(t, what_is_left_is_a_leak);
	return ch_suite_run("cuda vmm host", t);
}
