/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of cuMem between real processes that share a world: descriptors, imports, the end of the
 * memory, and processes that are killed. Each test forks two processes, which take turns.
 */
#include <sys/syscall.h>

#include "tests/conformance/cuda/processes/cuda_processes.h"

#define PAGE ((size_t)2 << 20)
#define FD   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

static CUmemGenericAllocationHandle create(CUmemLocationType type)
{
	const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .requestedHandleTypes = FD,
					  .location = {type, 0}};
	CUmemGenericAllocationHandle h = 0;

	NEED(!cudaSetDevice(0) && !cuMemCreate(&h, PAGE, &prop, 0) && h);
	return h;
}

/* Reserves, maps, and gives access to device 0. */
static CUdeviceptr map(CUmemGenericAllocationHandle h)
{
	const CUmemAccessDesc desc = {{CU_MEM_LOCATION_TYPE_DEVICE, 0},
				      CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUdeviceptr p = 0;

	NEED(!cuMemAddressReserve(&p, PAGE, 0, 0, 0));
	NEED(!cuMemMap(p, PAGE, 0, h, 0) && !cuMemSetAccess(p, PAGE, &desc, 1));
	return p;
}

static void drop(CUdeviceptr p, CUmemGenericAllocationHandle h)
{
	NEED(!cuMemUnmap(p, PAGE) && !cuMemAddressFree(p, PAGE) && !cuMemRelease(h));
}

static uint64_t get(CUdeviceptr p)
{
	uint64_t v = 0;

	NEED(!cuMemcpyDtoH(&v, p, 8));
	return v;
}

static void put(CUdeviceptr p, uint64_t v)
{
	NEED(!cuMemcpyHtoD(p, &v, 8));
}

static int export(CUmemGenericAllocationHandle h)
{
	NEED(!cuMemExportToShareableHandle(&stage->fd, h, FD, 0));
	stage->pid = getpid();
	return stage->fd;
}

/* Returns a duplicate of the other process' descriptor, as a message over a socket brings it. */
static int receive(void)
{
	int process = (int)syscall(SYS_pidfd_open, stage->pid, 0);
	int fd = (int)syscall(SYS_pidfd_getfd, process, stage->fd, 0);

	NEED(process >= 0 && fd >= 0 && !close(process) && !cudaSetDevice(0));
	return fd;
}

static CUmemGenericAllocationHandle import(int fd)
{
	CUmemGenericAllocationHandle h = 0;

	NEED(!cuMemImportFromShareableHandle(&h, (void *)(intptr_t)fd, FD) && h);
	return h;
}

static void import_fails(int fd, const char *words)
{
	CUmemGenericAllocationHandle h = 0;
	struct ch_capture c;

	ch_capture_begin(&c);
	CUresult rc = cuMemImportFromShareableHandle(&h, (void *)(intptr_t)fd, FD);

	says((cudaError_t)rc, cudaErrorInvalidValue, &c, words, __LINE__);
}

/* ---- the same memory ------------------------------------------------------------------------ */

struct bump_args {
	uint64_t word;
};

CH_KERNEL(bump, 0)
{
	fakedev_add(d, (void *)(uintptr_t)a->word, 8, 1, SHARED_RELAXED, SHARED_SYSTEM);
}

static CUmemLocationType place = CU_MEM_LOCATION_TYPE_DEVICE;

static void exports_and_looks(void)
{
	CUmemGenericAllocationHandle h = create(place), other = create(place);
	CUdeviceptr q = map(other), p = map(h);
	int has = 0, fd = export(h);

	NEED(!cuDeviceGetAttribute(
		     &has, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 0) &&
	     has);
	put(p, 41);
	put(q, 7);
	give_turn();
	wait_turn(2);
	NEED(get(p) == 42 && get(q) == 7);
	CUmemGenericAllocationHandle again = import(fd); /* its own memory */

	NEED(!cuMemRelease(again) && !close(fd));
	drop(p, h);
	drop(q, other);
}

static void imports_and_adds(void)
{
	CUmemGenericAllocationHandle own = create(place);
	CUdeviceptr q = map(own);
	int fd = receive();
	CUmemGenericAllocationHandle h = import(fd), twice = import(fd);
	CUmemAllocationProp prop;
	CUdeviceptr p = map(h);
	struct bump_args a = {.word = p};

	NEED(!close(fd) && !cuMemRelease(twice));
	NEED(!cuMemGetAllocationPropertiesFromHandle(&prop, h) && prop.location.type == place &&
	     prop.location.id == 0 && prop.requestedHandleTypes == FD);
	put(q, 8);
	NEED(get(p) == 41);
	NEED(!ch_launch_on(&bump_w1, 1, 1, &a, 0) && !cudaDeviceSynchronize());
	NEED(get(q) == 8);
	drop(p, h);
	drop(q, own);
	give_turn();
}

START_TEST(a_kernel_writes_memory_of_another_process)
{
	run(exports_and_looks, 0, imports_and_adds);
}
END_TEST

START_TEST(the_same_with_memory_of_the_host)
{
	place = CU_MEM_LOCATION_TYPE_HOST_NUMA;
	run(exports_and_looks, 0, imports_and_adds);
}
END_TEST

/* ---- the end of the memory ------------------------------------------------------------------ */

static size_t free_bytes(void)
{
	size_t free = 0, total;

	NEED(!cuMemGetInfo(&free, &total));
	return free;
}

/* A descriptor keeps the memory, and so does an import. */
static void releases_early(void)
{
	CUmemGenericAllocationHandle h = create(CU_MEM_LOCATION_TYPE_DEVICE);
	size_t before = free_bytes();
	CUdeviceptr p = map(h);
	int fd = export(h);

	put(p, 41);
	give_turn();
	wait_turn(2); /* the other process has a duplicate */
	NEED(!close(fd));
	drop(p, h);
	NEED(free_bytes() == before);
	give_turn();
	wait_turn(4);
	NEED(free_bytes() == before);
	give_turn();
	wait_turn(6);
	NEED(free_bytes() == before + PAGE);
}

static void uses_it_longer(void)
{
	int fd = receive();

	give_turn();
	wait_turn(3);
	CUmemGenericAllocationHandle h = import(fd);

	NEED(!close(fd));
	give_turn();
	wait_turn(5);
	CUdeviceptr p = map(h);

	NEED(get(p) == 41);
	drop(p, h);
	give_turn();
}

START_TEST(memory_ends_with_the_last_descriptor_and_import)
{
	run(releases_early, 0, uses_it_longer);
}
END_TEST

/* ---- deaths --------------------------------------------------------------------------------- */

static void exports_and_waits(void)
{
	CUmemGenericAllocationHandle h = create(CU_MEM_LOCATION_TYPE_DEVICE);

	put(map(h), 41);
	export(h);
	give_turn();
	wait_turn(100); /* is killed */
}

static void imports_after_the_death(void)
{
	int fd = receive();

	give_turn();
	wait_turn(3);
	CUmemGenericAllocationHandle h = import(fd);
	CUdeviceptr p = map(h);

	NEED(get(p) == 41 && !close(fd));
	drop(p, h);
}

START_TEST(memory_outlives_its_process)
{
	run(exports_and_waits, 2, imports_after_the_death);
}
END_TEST

static void imports_and_waits(void)
{
	give_turn();
	wait_turn(2);
	(void)map(import(receive()));
	give_turn();
	wait_turn(100); /* is killed */
}

static void frees_after_the_death(void)
{
	CUmemGenericAllocationHandle h = create(CU_MEM_LOCATION_TYPE_DEVICE);
	size_t before = free_bytes();

	NEED(export(h) >= 0);
	give_turn();
	wait_turn(4);
	NEED(!close(stage->fd) && !cuMemRelease(h));
	NEED(free_bytes() == before + PAGE);
}

START_TEST(a_dead_process_holds_no_memory)
{
	run(imports_and_waits, 3, frees_after_the_death);
}
END_TEST

/* ---- refused -------------------------------------------------------------------------------- */

static void exports_other_things(void)
{
	CUmemGenericAllocationHandle h = create(CU_MEM_LOCATION_TYPE_DEVICE);
	int fd = export(h);

	give_turn();
	wait_turn(2);
	NEED(!close(fd) && !cuMemRelease(h));
}

static void refuses_other_things(void)
{
	int fd = receive(), file = memfd_create("other", 0);

	NEED(file >= 0);
	import_fails(file, "is not memory of cuMem");
	import_fails(-1, "is not memory of cuMem");
	NEED(lseek(fd, 1, SEEK_CUR) > 0);
	import_fails(fd, "is not memory of cuMem");
	NEED(lseek(fd, 0, SEEK_SET) == 0);
	import_fails(fd, "is not memory of cuMem");
	NEED(lseek(fd, 0, SEEK_END) > 0);
	import_fails(fd, "is not memory of cuMem");
	NEED(!close(fd) && !close(file));
	give_turn();
}

START_TEST(a_descriptor_of_something_else_is_refused)
{
	run(exports_other_things, 0, refuses_other_things);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("vmm_share");

	tcase_add_test(tc, a_kernel_writes_memory_of_another_process);
	tcase_add_test(tc, the_same_with_memory_of_the_host);
	tcase_add_test(tc, memory_ends_with_the_last_descriptor_and_import);
	tcase_add_test(tc, memory_outlives_its_process);
	tcase_add_test(tc, a_dead_process_holds_no_memory);
	tcase_add_test(tc, a_descriptor_of_something_else_is_refused);
	return ch_suite_run("cuda_vmm_share", tc);
}
