/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory calls of the GPU double: allocation, pinned host memory, pointer attributes, misuse. */
#include <cuda.h>

#include "tests/bytes.h"
#include "backends/peermem.h"
#include "sim/engine/memory/memory.h"
#include "tests/conformance/cuda/cuda_harness.h"

CH_TEST(malloc_is_aligned_and_first_fit)
{
	uint8_t *a = ch_malloc(1), *b = ch_malloc(513), *c = ch_malloc(4096);

	ck_assert_uint_eq((uintptr_t)a % 512, 0);
	ck_assert_ptr_eq(b, a + 512);
	ck_assert_ptr_eq(c, b + 1024);
	CU(cudaFree(b));
	uint8_t *too_big = ch_malloc(1025), *fits = ch_malloc(1024);

	ck_assert_ptr_eq(fits, b);
	ck_assert_ptr_eq(too_big, c + 4096);
	CU(cudaFree(a));
	CU(cudaFree(c));
	CU(cudaFree(fits));
	CU(cudaFree(too_big));
}

CH_TEST(malloc_of_nothing_gives_null)
{
	void *p = &p;

	CU(cudaMalloc(&p, 0));
	ck_assert_ptr_null(p);
	CU(cudaFree(NULL));
	CU_FAILS(cudaMalloc(NULL, 16), cudaErrorInvalidValue);
}

CH_TEST(devices_have_separate_ranges)
{
	void *p[3];

	for (int i = 0; i < 3; i++) {
		CU(cudaSetDevice(i));
		p[i] = ch_malloc(1 << 20);
	}
	for (int i = 0; i < 3; i++) {
		struct cudaPointerAttributes a;

		CU(cudaPointerGetAttributes(&a, (char *)p[i] + 5));
		ck_assert_int_eq(a.type, cudaMemoryTypeDevice);
		ck_assert_int_eq(a.device, i);
		ck_assert_ptr_eq(a.devicePointer, (char *)p[i] + 5);
		ck_assert_ptr_null(a.hostPointer);
		CU(cudaFree(p[i])); /* from another current device */
	}
	ck_assert_ptr_ne(p[0], p[1]);
	ck_assert_ptr_ne(p[1], p[2]);
}

CH_TEST(pinned_memory_has_the_device_that_was_current)
{
	struct cudaPointerAttributes a;
	void *p[2][2];

	for (int i = 0; i < 2; i++) {
		CU(cudaSetDevice(i));
		CU(cudaHostAlloc(&p[i][0], 4096, cudaHostAllocDefault));
		p[i][1] = aligned_alloc(4096, 4096);
		CU(cudaHostRegister(p[i][1], 4096, cudaHostRegisterDefault));
	}
	for (int i = 0; i < 8; i++) {
		CU(cudaSetDevice(i / 4));
		CU(cudaPointerGetAttributes(&a, p[i % 2][i / 2 % 2]));
		ck_assert_int_eq(a.type, cudaMemoryTypeHost);
		ck_assert_int_eq(a.device, i % 2);
	}
	for (int i = 0; i < 2; i++) {
		CU(cudaFreeHost(p[i][0]));
		CU(cudaHostUnregister(p[i][1]));
		free(p[i][1]);
	}
}

CH_TEST(mem_info_counts_what_is_allocated)
{
	size_t before, after, total;

	CU(cudaMemGetInfo(&before, &total));
	ck_assert_uint_eq(total, 80ull << 30);
	ck_assert_uint_eq(before, total);
	void *p = ch_malloc(10000);

	CU(cudaMemGetInfo(&after, &total));
	ck_assert_uint_eq(after, before - 10240);
	CU(cudaFree(p));
	CU(cudaMemGetInfo(&after, &total));
	ck_assert_uint_eq(after, before);
	CU_FAILS(cudaMemGetInfo(NULL, &total), cudaErrorInvalidValue);
}

CH_TEST(malloc_beyond_the_gpu_is_out_of_memory)
{
	void *p = (void *)5;

	CU_SAYS(cudaMalloc(&p, 100ull << 30), cudaErrorMemoryAllocation, "out of memory");
	CU_FAILS(cudaMalloc(&p, SIZE_MAX - 3), cudaErrorMemoryAllocation);
	ck_assert_ptr_eq(p, (void *)5); /* set on success only */
}

CH_TEST(a_gpu_holds_as_much_as_it_reports)
{
	void *p = NULL;

	CU(cudaMalloc(&p, 79ull << 30));
	CU(cudaMemset((uint8_t *)p + (79ull << 30) - 64, 0xee, 64));
	CU(cudaFree(p));
}

CH_TEST(a_gpu_with_few_addresses_names_what_gives_more, .va_bytes = 64 << 20)
{
	void *p = (void *)5;

	CU_SAYS(cudaMalloc(&p, 1ull << 30), cudaErrorMemoryAllocation, "fewer hosts");
	ck_assert_ptr_eq(p, (void *)5);
}

CH_TEST(fresh_memory_of_a_world_is_zero)
{
	static uint8_t host[300000];
	uint8_t *p = ch_malloc(sizeof host);

	memset(host, 1, sizeof host);
	CU(cudaMemcpy(host, p, sizeof host, cudaMemcpyDeviceToHost));
	ck_assert_uint_eq(bytes_until_not(host, 0, sizeof host), sizeof host);
	CU(cudaMemset(p, 0xee, sizeof host)); /* for the next world to find gone */
	CU(cudaFree(p));
}

CH_TEST(double_free_names_the_allocation)
{
	char *p = ch_malloc(4096);

	CU_MISUSE(cudaFree(p + 512), cudaErrorInvalidValue,
		  "allocation #1, cudaMalloc of 4096 bytes");
	CU(cudaFree(p));
	CU_MISUSE(cudaFree(p), cudaErrorInvalidValue, "freed");
	CU_MISUSE(cudaFree((void *)&p), cudaErrorInvalidValue, "not GPU memory");
}

CH_TEST(address_range_is_the_whole_allocation)
{
	char *p = ch_malloc(5000);
	CUdeviceptr base = 0;
	size_t bytes = 0;

	ck_assert_int_eq(cuMemGetAddressRange(&base, &bytes, (uintptr_t)p + 4999), CUDA_SUCCESS);
	ck_assert_uint_eq(base, (uintptr_t)p);
	ck_assert_uint_eq(bytes, 5000);
	ck_assert_int_eq(cuMemGetAddressRange(&base, &bytes, (uintptr_t)p + 5000),
			 CUDA_ERROR_NOT_FOUND);
	CUmemorytype type = 0;
	int ordinal = -1;

	ck_assert_int_eq(
		cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (uintptr_t)p),
		CUDA_SUCCESS);
	ck_assert_int_eq(type, CU_MEMORYTYPE_DEVICE);
	ck_assert_int_eq(
		cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, (uintptr_t)p),
		CUDA_SUCCESS);
	ck_assert_int_eq(ordinal, 0);
	ck_assert_int_eq(cudaPeekAtLastError(), cudaSuccess); /* the driver's errors are not ours */
	CU(cudaFree(p));
}

/* ---- pinned host memory --------------------------------------------------------------------- */

CH_TEST(host_alloc_is_readable_and_pinned)
{
	struct cudaPointerAttributes a;
	unsigned int flags = 0;
	void *dev = NULL;
	char *p = ch_pinned(10000);

	ck_assert_uint_eq(bytes_until_not(p, 0, 10000), 10000);
	CU(cudaHostGetDevicePointer(&dev, p, 0));
	ck_assert_ptr_eq(dev, p);
	CU(cudaHostGetFlags(&flags, p));
	ck_assert_uint_eq(flags & cudaHostAllocMapped, cudaHostAllocMapped);
	CU(cudaPointerGetAttributes(&a, p + 9999));
	ck_assert_int_eq(a.type, cudaMemoryTypeHost);
	ck_assert_ptr_eq(a.hostPointer, p + 9999);
	CU(cudaFreeHost(p));
	CU(cudaFreeHost(NULL));
}

CH_TEST(plain_memory_is_unregistered)
{
	struct cudaPointerAttributes a;
	void *dev = NULL;
	int local = 0;

	CU(cudaPointerGetAttributes(&a, &local));
	ck_assert_int_eq(a.type, cudaMemoryTypeUnregistered);
	CU_SAYS(cudaHostGetDevicePointer(&dev, &local, 0), cudaErrorInvalidValue, "not pinned");
	CU_MISUSE(cudaFreeHost(&local), cudaErrorInvalidValue, "cudaHostAlloc");
	CU_MISUSE(cudaHostUnregister(&local), cudaErrorHostMemoryNotRegistered, "registered");
}

CH_TEST(a_segment_is_unregistered_before_it_is_unmapped)
{
	void *mem, *again;

	ck_assert_int_eq(os_shm_create("cuda-test", 8192, &mem), 0);
	ck_assert_int_eq(os_shm_open("cuda-test", 8192, &again, NULL), 0);
	CU(cudaHostRegister(mem, 8192, cudaHostRegisterMapped));
	sim_expect_misuse("still has registered");
	ck_assert_int_eq(os_shm_unmap(mem, 8192), 0);
	CU(cudaHostUnregister(mem));
	ck_assert_int_eq(os_shm_unmap(again, 8192), 0);
	ck_assert_int_eq(os_shm_unlink("cuda-test"), 0);
}

CH_TEST(registered_memory_cannot_be_registered_twice)
{
	char *p = aligned_alloc(4096, 16384);
	struct cudaPointerAttributes a;

	CU(cudaHostRegister(p + 4096, 4096, cudaHostRegisterMapped));
	CU_SAYS(cudaHostRegister(p, 8192, 0), cudaErrorHostMemoryAlreadyRegistered,
		"pinned already");
	CU_FAILS(cudaHostRegister(p + 4096, 1, 0), cudaErrorHostMemoryAlreadyRegistered);
	CU(cudaHostRegister(p, 4096, 0));
	CU(cudaHostRegister(p + 8192, 4096, 0));
	CU(cudaPointerGetAttributes(&a, p + 5000));
	ck_assert_int_eq(a.type, cudaMemoryTypeHost);
	CU_MISUSE(cudaHostUnregister(p + 4097), cudaErrorInvalidValue, "registered");
	CU(cudaHostUnregister(p + 4096));
	CU_MISUSE(cudaHostUnregister(p + 4096), cudaErrorHostMemoryNotRegistered, "registered");
	CU(cudaPointerGetAttributes(&a, p + 5000));
	ck_assert_int_eq(a.type, cudaMemoryTypeUnregistered);
	CU(cudaHostUnregister(p));
	CU(cudaHostUnregister(p + 8192));
	free(p);
}

CH_TEST(host_register_of_device_memory_is_invalid)
{
	void *p = ch_malloc(4096);

	CU_SAYS(cudaHostRegister(p, 4096, 0), cudaErrorInvalidValue, "a device pointer");
	CU_FAILS(cudaHostRegister(NULL, 4096, 0), cudaErrorInvalidValue);
	CU_MISUSE(cudaFreeHost(p), cudaErrorInvalidValue, "got from cudaHostAlloc");
	CU(cudaFree(p));
}

/* ---- faults and leaks ----------------------------------------------------------------------- */

CH_TEST(allocation_fault_is_out_of_memory, .plan = "cuda.malloc nth=2 fail\ncuda.host_alloc fail\n")
{
	void *p = ch_malloc(64), *q = NULL;

	CU_SAYS(cudaMalloc(&q, 64), cudaErrorMemoryAllocation, "fault plan");
	CU_SAYS(cudaHostAlloc(&q, 64, 0), cudaErrorMemoryAllocation, "fault plan");
	CU(cudaFree(p));
}

static void leak_one_of_each(void *arg)
{
	cudaStream_t s;
	cudaEvent_t e;
	(void)arg;

	(void)ch_malloc(100);
	(void)ch_pinned(100);
	CU(cudaStreamCreate(&s));
	CU(cudaEventCreate(&e));
}

CH_TEST(leaks_are_counted_by_kind, .leaks = 4)
{
	struct os_proc *p = ch_proc(0, "leaker");

	ch_in(p, leak_one_of_each, NULL);
	world_proc_exit(p);
}

CH_TEST(a_killed_process_leaks_nothing)
{
	struct os_proc *p = ch_proc(0, "victim");

	ch_in(p, leak_one_of_each, NULL);
	world_proc_kill(p);
	size_t available, total;

	CU(cudaMemGetInfo(&available, &total));
	ck_assert_uint_eq(available, total);
}

/* ---- strict device view --------------------------------------------------------------------- */

static void touch_device_memory(void)
{
	int *p = ch_malloc(4 << 20);

	p[25] = 1;
}

static void touch_in_sim(void)
{
	const struct ch_world w = {0};

	ch_run_once(SIM_ENGINE_SIM, 1, &w, touch_device_memory);
}

static void touch_in_threads(void)
{
	const struct ch_world w = {0};

	ch_run_once(SIM_ENGINE_THREADS, 1, &w, touch_device_memory);
}

START_TEST(host_dereference_of_device_pointer_is_reported)
{
	char text[16384];
	int rc = ch_child(_i ? touch_in_threads : touch_in_sim, text, sizeof text);

	ck_assert_msg(rc == SIM_BY_SIGNAL + SIGSEGV, "exit %d: %s", rc, text);
	ck_assert_msg(strstr(text, "host dereference of device pointer") != NULL, "%s", text);
	ck_assert_msg(strstr(text,
			     "100 bytes into gpu 0 allocation #1, cudaMalloc of 4194304 bytes by "
			     "main") != NULL,
		      "%s", text);
}
END_TEST

CH_TEST(loose_view_can_be_read, .loose = true)
{
	int *p = ch_malloc(4096);

	CU(cudaMemset(p, 0x11, 4096));
	CU(cudaDeviceSynchronize());
	ck_assert_int_eq(p[1000], 0x11111111);
	p[3] = 77;
	int back = 0;

	CU(cudaMemcpy(&back, p + 3, sizeof back, cudaMemcpyDeviceToHost));
	ck_assert_int_eq(back, 77);
	CU(cudaFree(p));
}

START_TEST(strict_and_loose_worlds_take_turns)
{
	const struct ch_world strict = {0}, loose = {.loose = true};

	ch_run_once(SIM_ENGINE_SIM, 1, &loose, loose_view_can_be_read_body);
	ch_run_once(SIM_ENGINE_SIM, 1, &strict, fresh_memory_of_a_world_is_zero_body);
	ch_run_once(SIM_ENGINE_SIM, 1, &loose, loose_view_can_be_read_body);
	char text[16384];

	ck_assert_int_eq(ch_child(touch_in_sim, text, sizeof text), SIM_BY_SIGNAL + SIGSEGV);
}
END_TEST

START_TEST(worlds_of_different_slices_share_the_range)
{
	const struct ch_world small = {.va_bytes = 64 << 20}, big = {.va_bytes = 1ull << 30};

	for (int i = 0; i < 3; i++) {
		ch_run_once(SIM_ENGINE_SIM, 1, &small, fresh_memory_of_a_world_is_zero_body);
		ch_run_once(SIM_ENGINE_SIM, 1, &small, devices_have_separate_ranges_body);
		ch_run_once(SIM_ENGINE_SIM, 1, &big, devices_have_separate_ranges_body);
		ch_run_once(SIM_ENGINE_SIM, 1, &big, fresh_memory_of_a_world_is_zero_body);
	}
}
END_TEST

/* ---- writes of an HCA ------------------------------------------------------------------------ */

static const char dma_writer, dma_reader; /* two queue pairs of one HCA */
static struct peermem_region dma_region;

/* A queue pair writes so many bytes; 0: the other one's read fails. */
static void dma_step(void *object, uint64_t bytes)
{
	static const uint8_t data[4096] = {1};

	(void)object;
	mem_as(bytes ? &dma_writer : &dma_reader);
	if (bytes)
		ck_assert_int_eq(peermem()->write(&dma_region, 0, dma_region.address, data, bytes),
				 0);
	else
		peermem()->landed(0);
}

/* The beginning of a packet lands early, a flush on another queue pair fails, then the whole packet
 * lands. Both writes are of one queue pair, so they are no race. */
CH_TEST(a_failed_read_leaves_the_writes_of_a_queue_pair_in_order, .races = true)
{
	static const uint64_t steps[] = {256, 0, 4096, 256, 4096};
	const struct sim_event_attr attr = {.name = "test.dma", .kind = SIM_EVENT_WORK};
	uint8_t *p = ch_malloc(4096);

	ck_assert_int_eq(peermem()->pin(os_proc(), (uintptr_t)p, 4096, &dma_region), 0);
	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		sim_event_post(&attr, dma_step, NULL, steps[i], NULL);
		os_sleep_ns(1000);
	}
	peermem()->unpin(&dma_region);
	CU(cudaFree(p));
}

/* An HCA registers such memory without a look at its pages. */
CH_TEST(only_allocated_host_memory_is_known_to_hcas)
{
	const struct peermem_ops *pm = peermem();
	static uint8_t own[4096];
	void *p = NULL;

	CU(cudaHostAlloc(&p, 100000, cudaHostAllocDefault));
	CU(cudaHostRegister(own, sizeof own, cudaHostRegisterDefault));
	uint64_t at = (uintptr_t)p;

	ck_assert(pm->allocated(os_proc(), at, 100000));
	ck_assert(pm->allocated(os_proc(), at + 99999, 1));
	ck_assert(!pm->allocated(os_proc(), at + 99999, 2));
	ck_assert(!pm->allocated(os_proc(), at - 1, 2));
	ck_assert(!pm->allocated(os_proc(), (uintptr_t)own, sizeof own));
	CU(cudaHostUnregister(own));
	CU(cudaFreeHost(p));
	ck_assert(!pm->allocated(os_proc(), at, 1));
}

int main(void)
{
	TCase *t = tcase_create("memory");

	CH_ADD(t, malloc_is_aligned_and_first_fit);
	CH_ADD(t, malloc_of_nothing_gives_null);
	CH_ADD(t, devices_have_separate_ranges);
	CH_ADD(t, pinned_memory_has_the_device_that_was_current);
	CH_ADD(t, mem_info_counts_what_is_allocated);
	CH_ADD(t, malloc_beyond_the_gpu_is_out_of_memory);
	CH_ADD(t, a_gpu_holds_as_much_as_it_reports);
	CH_ADD(t, a_gpu_with_few_addresses_names_what_gives_more);
	CH_ADD(t, fresh_memory_of_a_world_is_zero);
	CH_ADD(t, double_free_names_the_allocation);
	CH_ADD(t, address_range_is_the_whole_allocation);
	CH_ADD(t, host_alloc_is_readable_and_pinned);
	CH_ADD(t, plain_memory_is_unregistered);
	CH_ADD(t, a_segment_is_unregistered_before_it_is_unmapped);
	CH_ADD(t, registered_memory_cannot_be_registered_twice);
	CH_ADD(t, host_register_of_device_memory_is_invalid);
	CH_ADD(t, allocation_fault_is_out_of_memory);
	CH_ADD(t, leaks_are_counted_by_kind);
	CH_ADD(t, a_killed_process_leaks_nothing);
	CH_ADD(t, loose_view_can_be_read);
	tcase_add_loop_test(t, host_dereference_of_device_pointer_is_reported, 0, 2);
	tcase_add_test(t, strict_and_loose_worlds_take_turns);
	tcase_add_test(t, worlds_of_different_slices_share_the_range);
	CH_ADD_SIM(t, a_failed_read_leaves_the_writes_of_a_queue_pair_in_order);
	CH_ADD(t, only_allocated_host_memory_is_known_to_hcas);
	return ch_suite_run("cuda memory", t);
}
