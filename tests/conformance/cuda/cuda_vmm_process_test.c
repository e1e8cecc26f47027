/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of cuMem that several processes have: descriptors, imports, the end of the memory. */
#include "tests/conformance/cuda/cuda_vmm.h"

struct share {
	int fd;
	CUdeviceptr pointer, mapped;
	CUmemGenericAllocationHandle handle;
};

static void importer(void *arg)
{
	struct share *s = arg;
	CUmemGenericAllocationHandle h = 0;
	CUmemAllocationProp prop;
	CUdeviceptr p;

	CU(cudaSetDevice(2));
	CU_SAYS(cudaMemset((void *)(uintptr_t)s->pointer, 0, 8), cudaErrorInvalidValue,
		"an address of process");
	DRV_SAYS(cuMemMap(s->pointer, PAGE, 0, s->handle, 0), CUDA_ERROR_INVALID_VALUE,
		 "not a handle of memory in");
	DRV_SAYS(cuMemImportFromShareableHandle(&h, (void *)(intptr_t)s->fd,
						CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
		 CUDA_ERROR_INVALID_VALUE, "belongs to process host0/main");
	int fd = dup(s->fd); /* as what a socket brought */

	DRV(cuMemImportFromShareableHandle(&h, (void *)(intptr_t)fd,
					   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	ck_assert_int_eq(close(fd), 0);
	DRV(cuMemGetAllocationPropertiesFromHandle(&prop, h));
	ck_assert_int_eq(prop.location.id, 0);
	ck_assert_int_eq(prop.requestedHandleTypes, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	p = map(h, PAGE, 2);
	ck_assert_uint_ne(p, s->pointer);
	ck_assert_uint_eq(get(p), 41);
	struct bump_args a = {.word = p};

	CU(ch_launch_on(&bump_w1, 1, 1, &a, 0));
	CU(cudaDeviceSynchronize());
	unmap(p, PAGE);
	DRV(cuMemRelease(h));
}

CH_TEST(a_descriptor_gives_another_process_the_memory)
{
	struct share s = {.handle = create(0, PAGE)};
	struct os_proc *other = ch_proc(0, "importer");

	s.pointer = map(s.handle, PAGE, 0);
	put(s.pointer, 41);
	DRV(cuMemExportToShareableHandle(&s.fd, s.handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
					 0));
	ch_in(other, importer, &s);
	world_proc_exit(other);
	ck_assert_uint_eq(get(s.pointer), 42);
	ck_assert_int_eq(close(s.fd), 0);
	unmap(s.pointer, PAGE);
	DRV(cuMemRelease(s.handle));
}

static void exports_and_imports(void *arg)
{
	struct share *s = arg;
	CUmemGenericAllocationHandle h = 0;

	s->handle = create(1, PAGE);
	DRV(cuMemExportToShareableHandle(&s->fd, s->handle,
					 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	DRV(cuMemImportFromShareableHandle(&h, (void *)(intptr_t)s->fd,
					   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	DRV(cuMemRelease(h));
}

static void closes_and_drops(void *arg)
{
	struct share *s = arg;

	ck_assert_int_eq(close(s->fd), 0);
	DRV(cuMemRelease(s->handle));
}

static int export_fd(CUmemGenericAllocationHandle h)
{
	int fd = -1;

	DRV(cuMemExportToShareableHandle(&fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	return fd;
}

/* An export takes the two lowest free descriptors: one for the double's file, and one for the
 * program. The other process gets one that this process had. */
CH_TEST(a_descriptor_belongs_to_the_process_that_got_it_last)
{
	CUmemGenericAllocationHandle mine = create(0, PAGE), h = 0;
	struct os_proc *other = ch_proc(0, "exporter");
	struct share its = {0};
	bool had = false;
	int fd[8];

	for (int i = 0; i < 8; i++)
		fd[i] = export_fd(mine);
	for (int i = 0; i < 8; i++)
		ck_assert_int_eq(close(fd[i]), 0);
	ch_in(other, exports_and_imports, &its);
	for (int i = 0; i < 8; i++)
		had |= fd[i] == its.fd;
	ck_assert(had);
	DRV_SAYS(cuMemImportFromShareableHandle(&h, (void *)(intptr_t)its.fd,
						CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
		 CUDA_ERROR_INVALID_VALUE, "belongs to process exporter");
	ch_in(other, closes_and_drops, &its);
	world_proc_exit(other);
	DRV(cuMemRelease(mine));
}

static void imports(void *arg)
{
	struct share *s = arg;
	int fd = dup(s->fd);

	DRV(cuMemImportFromShareableHandle(&s->handle, (void *)(intptr_t)fd,
					   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	ck_assert_int_eq(close(fd), 0);
	s->mapped = map(s->handle, PAGE, 1);
}

static void reads_and_drops(void *arg)
{
	struct share *s = arg;

	ck_assert_uint_eq(get(s->mapped), 41);
	DRV(cuMemRelease(s->handle));
	unmap(s->mapped, PAGE);
}

/* Not the one that made it keeps the memory, but all that have it. */
CH_TEST(memory_lives_until_the_last_process_drops_it)
{
	CUmemGenericAllocationHandle h = create(0, PAGE);
	struct share s = {0};
	struct os_proc *other = ch_proc(0, "keeper");
	size_t before = 0, now = 0, total;

	s.pointer = map(h, PAGE, 0);
	put(s.pointer, 41);
	DRV(cuMemExportToShareableHandle(&s.fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	ch_in(other, imports, &s);
	ck_assert_int_eq(close(s.fd), 0);
	unmap(s.pointer, PAGE);
	DRV(cuMemRelease(h));
	CU(cudaMemGetInfo(&before, &total));
	ch_in(other, reads_and_drops, &s);
	CU(cudaMemGetInfo(&now, &total));
	ck_assert_uint_eq(now - before, PAGE);
	world_proc_exit(other);
}

CH_TEST(an_open_descriptor_keeps_the_memory)
{
	CUmemGenericAllocationHandle h = create(0, PAGE);
	struct share s = {0};
	struct os_proc *other = ch_proc(0, "late");
	CUdeviceptr p = map(h, PAGE, 0);
	size_t before = 0, now = 0, total;

	put(p, 41);
	DRV(cuMemExportToShareableHandle(&s.fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	unmap(p, PAGE);
	DRV(cuMemRelease(h));
	CU(cudaMemGetInfo(&before, &total));
	ch_in(other, imports, &s);
	ck_assert_int_eq(close(s.fd), 0);
	ch_in(other, reads_and_drops, &s);
	world_proc_exit(other);
	CU(cudaMemGetInfo(&now, &total));
	ck_assert_uint_eq(now - before, PAGE);
}

CH_TEST(memory_is_free_when_its_last_descriptor_is_closed)
{
	CUmemGenericAllocationHandle h = create(0, PAGE);
	struct share s = {0};
	size_t before = 0, now = 0, total;

	DRV(cuMemExportToShareableHandle(&s.fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	DRV(cuMemRelease(h));
	CU(cudaMemGetInfo(&before, &total));
	ck_assert_int_eq(close(s.fd), 0);
	CU(cudaMemGetInfo(&now, &total));
	ck_assert_uint_eq(now - before, PAGE);
}

CH_TEST(descriptors_are_of_memory_that_was_made_for_it)
{
	CUmemAllocationProp prop = prop_of(0);
	CUmemGenericAllocationHandle h = 0, got = 0;
	void *fd;

	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
	DRV(cuMemCreate(&h, PAGE, &prop, 0));
	DRV_SAYS(cuMemExportToShareableHandle(&fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
		 CUDA_ERROR_INVALID_VALUE, "can be exported as 0x0");
	DRV_SAYS(cuMemExportToShareableHandle(&fd, h, CU_MEM_HANDLE_TYPE_FABRIC, 0),
		 CUDA_ERROR_INVALID_VALUE, "type 8");
	DRV_SAYS(cuMemImportFromShareableHandle(&got, (void *)(intptr_t)0,
						CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
		 CUDA_ERROR_INVALID_VALUE, "not memory of cuMem");
	DRV(cuMemRelease(h));
}

int main(void)
{
	TCase *t = tcase_create("vmm process");

	CH_ADD(t, a_descriptor_gives_another_process_the_memory);
	CH_ADD(t, a_descriptor_belongs_to_the_process_that_got_it_last);
	CH_ADD(t, memory_lives_until_the_last_process_drops_it);
	CH_ADD(t, an_open_descriptor_keeps_the_memory);
	CH_ADD(t, memory_is_free_when_its_last_descriptor_is_closed);
	CH_ADD(t, descriptors_are_of_memory_that_was_made_for_it);
	return ch_suite_run("cuda vmm process", t);
}
