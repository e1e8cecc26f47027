/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that others reach: IPC between processes of a host, what is refused and with whose names,
 * and HCAs through peermem with the rule that a running kernel sees nothing before a flush.
 */
#include <errno.h>

#include "backends/peermem.h"
#include "tests/conformance/cuda/cuda_harness.h"

struct bump_args {
	uint64_t word, gate, seen;
};

/* Adds 1 to a word of another process' memory. */
CH_KERNEL(bump, 0)
{
	fakedev_add(d, (void *)(uintptr_t)a->word, 8, 1, SHARED_RELAXED, SHARED_SYSTEM);
}

struct share {
	cudaIpcMemHandle_t handle;
	void *pointer;
	cudaError_t got;
	char text[2048];
	int device;
};

/* ---- IPC ------------------------------------------------------------------------------------ */

static void importer(void *arg)
{
	struct share *s = arg;
	struct cudaPointerAttributes attr;
	uint64_t v = 0;
	void *p = NULL, *again = NULL;

	CU(cudaSetDevice(s->device));
	CU_SAYS(cudaMemcpy(&v, s->pointer, 8, cudaMemcpyDeviceToHost), cudaErrorInvalidValue,
		"belongs to process");
	CU(cudaIpcOpenMemHandle(&p, s->handle, cudaIpcMemLazyEnablePeerAccess));
	ck_assert_ptr_eq(p, s->pointer);
	CU(cudaIpcOpenMemHandle(&again, s->handle, cudaIpcMemLazyEnablePeerAccess));
	ck_assert_ptr_eq(again, p);
	CU(cudaPointerGetAttributes(&attr, p));
	ck_assert_int_eq(attr.type, cudaMemoryTypeDevice);
	CU(cudaMemcpy(&v, p, 8, cudaMemcpyDeviceToHost));
	ck_assert_uint_eq(v, 41);
	struct bump_args a = {.word = (uintptr_t)p};

	CU(ch_launch_on(&bump_w1, 1, 1, &a, 0)); /* over the peer access that opening gave */
	CU(cudaDeviceSynchronize());
	CU_MISUSE(cudaFree(p), cudaErrorInvalidValue, "not the start of memory of this process");
	CU_FAILS(cudaIpcGetMemHandle(&s->handle, p), cudaErrorInvalidValue);
	CU(cudaIpcCloseMemHandle(p));
	CU(cudaMemcpy(&v, p, 8, cudaMemcpyDeviceToHost)); /* opened twice, closed once */
	CU(cudaIpcCloseMemHandle(p));
	CU_MISUSE(cudaIpcCloseMemHandle(p), cudaErrorInvalidValue, "was not opened here");
	CU_FAILS(cudaMemcpy(&v, p, 8, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
}

CH_TEST(ipc_between_processes_of_a_host)
{
	uint64_t v = 41;
	struct share s = {.pointer = ch_malloc(5000), .device = 2};
	struct os_proc *other = ch_proc(0, "importer");

	CU(cudaMemcpy(s.pointer, &v, 8, cudaMemcpyHostToDevice));
	CU(cudaIpcGetMemHandle(&s.handle, (char *)s.pointer + 100)); /* names the allocation */
	ch_in(other, importer, &s);
	world_proc_exit(other);
	CU(cudaMemcpy(&v, s.pointer, 8, cudaMemcpyDeviceToHost));
	ck_assert_uint_eq(v, 42);
	CU(cudaFree(s.pointer));
}

CH_TEST(ipc_of_this_process_itself_is_refused)
{
	struct share s = {.pointer = ch_malloc(64)};
	void *p = &s;

	CU(cudaIpcGetMemHandle(&s.handle, s.pointer));
	CU_SAYS(cudaIpcOpenMemHandle(&p, s.handle, cudaIpcMemLazyEnablePeerAccess),
		cudaErrorDeviceUninitialized, "made by this process itself");
	ck_assert_ptr_eq(p, &s);
	CU_FAILS(cudaIpcOpenMemHandle(&p, s.handle, 0), cudaErrorInvalidValue);
	memset(&s.handle, 0x5a, sizeof s.handle);
	CU_SAYS(cudaIpcOpenMemHandle(&p, s.handle, cudaIpcMemLazyEnablePeerAccess),
		cudaErrorInvalidValue, "invalid IPC handle");
	CU_FAILS(cudaIpcGetMemHandle(&s.handle, &s), cudaErrorInvalidValue);
	CU(cudaFree(s.pointer));
}

static void opens_and_captures(void *arg)
{
	struct share *s = arg;
	struct ch_capture c;
	void *p = NULL;

	ch_capture_begin(&c);
	s->got = cudaIpcOpenMemHandle(&p, s->handle, cudaIpcMemLazyEnablePeerAccess);
	ch_capture_end(&c);
	snprintf(s->text, sizeof s->text, "%.2000s", c.text);
	(void)cudaGetLastError();
}

CH_TEST(ipc_across_hosts_is_refused, .hosts = 2)
{
	struct share s = {.pointer = ch_malloc(64)};
	struct os_proc *far = ch_proc(1, "far away");

	CU(cudaIpcGetMemHandle(&s.handle, s.pointer));
	ch_in(far, opens_and_captures, &s);
	ck_assert_int_eq(s.got, cudaErrorInvalidResourceHandle);
	ck_assert_msg(strstr(s.text, "of host 0, this process runs on host 1") != NULL, "%s",
		      s.text);
	world_proc_exit(far);
	CU(cudaFree(s.pointer));
}

CH_TEST(ipc_of_freed_memory_is_refused)
{
	struct share s = {.pointer = ch_malloc(64)};
	struct os_proc *other = ch_proc(0, "late");

	CU(cudaIpcGetMemHandle(&s.handle, s.pointer));
	CU(cudaFree(s.pointer));
	void *reused = ch_malloc(64);

	ck_assert_ptr_eq(reused, s.pointer);
	ch_in(other, opens_and_captures, &s);
	ck_assert_int_eq(s.got, cudaErrorInvalidResourceHandle);
	ck_assert_msg(strstr(s.text, "#1 was freed") != NULL, "%s", s.text);
	world_proc_exit(other);
	CU(cudaFree(reused));
}

static void opens_and_keeps(void *arg)
{
	struct share *s = arg;
	void *p;

	CU(cudaIpcOpenMemHandle(&p, s->handle, cudaIpcMemLazyEnablePeerAccess));
}

static void reads_kept(void *arg)
{
	struct share *s = arg;
	uint64_t v = 0;

	CU(cudaMemcpy(&v, s->pointer, 8, cudaMemcpyDeviceToHost));
	ck_assert_uint_eq(v, 0);
	CU(cudaIpcCloseMemHandle(s->pointer));
}

CH_TEST(memory_stays_while_it_is_open_elsewhere)
{
	struct share s = {.pointer = ch_malloc(64)};
	struct os_proc *other = ch_proc(0, "keeper");

	CU(cudaIpcGetMemHandle(&s.handle, s.pointer));
	ch_in(other, opens_and_keeps, &s);
	CU_MISUSE(cudaFree(s.pointer), cudaSuccess, "still have open by IPC");
	void *next = ch_malloc(64);

	ck_assert_ptr_ne(next, s.pointer); /* not reused */
	ch_in(other, reads_kept, &s);
	void *last = ch_malloc(64);

	ck_assert_ptr_eq(last, s.pointer); /* now it is */
	world_proc_exit(other);
	CU(cudaFree(next));
	CU(cudaFree(last));
}

/* Touches the memory, shows that it has, and stays until the gate opens. */
#define stay_args bump_args
CH_KERNEL(stay, 0)
{
	fakedev_add(d, (void *)(uintptr_t)a->word, 8, 1, SHARED_RELAXED, SHARED_SYSTEM);
	fakedev_store(d, (void *)(uintptr_t)a->seen, 8, 1, SHARED_RELEASE, SHARED_SYSTEM);
	ch_wait_word(d, a->gate, 1);
}

/* A kernel of one GPU uses the mapping, which is closed while another GPU is current: that waits
 * for nothing of the first one. */
static void closes_under_a_kernel(void *arg)
{
	struct share *s = arg;
	uint64_t *pinned;
	void *p = NULL;

	CU(cudaSetDevice(s->device));
	pinned = ch_pinned(16);
	CU(cudaIpcOpenMemHandle(&p, s->handle, cudaIpcMemLazyEnablePeerAccess));
	struct bump_args a = {(uintptr_t)p, (uintptr_t)&pinned[0], (uintptr_t)&pinned[1]};
	struct wait w = {.on = &pinned[1],
			 .bytes = 8,
			 .kind = WAIT_EQ,
			 .mask = WAIT_MASK_ALL,
			 .want = 1,
			 .why = "the kernel to touch the mapping",
			 .from = {-1, -1, -1, "test"}};

	CU(ch_launch_on(&stay_w1, 1, 1, &a, 0));
	ck_assert_int_eq(os_wait_one(&w, NULL), 0);
	CU(cudaSetDevice(s->device + 1));
	CU_MISUSE(cudaIpcCloseMemHandle(p), cudaSuccess, "the host has not waited for that");
	shared_store_u64((shared_u64 *)&pinned[0], 1, SHARED_RELEASE);
	CU(cudaSetDevice(s->device));
	CU(cudaDeviceSynchronize());
	CU(cudaFreeHost(pinned));
}

/* The same with a host that waits first. */
static void closes_after_a_kernel(void *arg)
{
	struct share *s = arg;
	void *p = NULL;

	CU(cudaSetDevice(s->device));
	CU(cudaIpcOpenMemHandle(&p, s->handle, cudaIpcMemLazyEnablePeerAccess));
	struct bump_args a = {.word = (uintptr_t)p};

	CU(ch_launch_on(&bump_w1, 1, 1, &a, 0));
	CU(cudaStreamSynchronize(0));
	CU(cudaSetDevice(s->device + 1));
	CU(cudaIpcCloseMemHandle(p));
}

CH_TEST(a_mapping_is_closed_after_the_kernels_that_use_it)
{
	struct share s = {.pointer = ch_malloc(64), .device = 2};
	struct os_proc *other = ch_proc(0, "hasty"), *third = ch_proc(0, "careful");

	CU(cudaMemset(s.pointer, 0, 64));
	CU(cudaDeviceSynchronize());
	CU(cudaIpcGetMemHandle(&s.handle, s.pointer));
	ch_in(other, closes_under_a_kernel, &s);
	ch_in(third, closes_after_a_kernel, &s);
	world_proc_exit(other);
	world_proc_exit(third);
	CU(cudaFree(s.pointer));
}

CH_TEST(an_open_handle_is_a_leak, .leaks = 1)
{
	struct share s = {.pointer = ch_malloc(64)};
	struct os_proc *other = ch_proc(0, "forgetful");

	CU(cudaIpcGetMemHandle(&s.handle, s.pointer));
	ch_in(other, opens_and_keeps, &s);
	world_proc_exit(other);
	CU(cudaFree(s.pointer));
}

/* ---- peermem -------------------------------------------------------------------------------- */

CH_TEST(pin_takes_what_is_inside_one_allocation)
{
	const struct peermem_ops *pm = peermem();
	struct peermem_region r;
	char *p = ch_malloc(1000), *q = ch_malloc(1000);
	int local = 0;

	ck_assert_ptr_nonnull(pm);
	ck_assert(pm->owns(os_proc(), (uintptr_t)p, 10));
	ck_assert(!pm->owns(os_proc(), (uintptr_t)&local, sizeof local));
	ck_assert_int_eq(pm->pin(os_proc(), (uintptr_t)p + 10, 990, &r), 0);
	ck_assert_uint_eq(r.device, 0);
	ck_assert_uint_eq(r.address, (uintptr_t)p + 10);
	CU_MISUSE(cudaFree(p), cudaSuccess, "still pin");
	struct peermem_region bad;
	struct ch_capture c;

	sim_expect_misuse("which is not one allocation of its own");
	sim_expect_misuse("after the memory was freed");
	ch_capture_begin(&c);
	ck_assert_int_eq(pm->pin(os_proc(), (uintptr_t)q, 1001, &bad), EFAULT);
	ck_assert_int_eq(pm->pin(os_proc(), (uintptr_t)p, 1, &bad), EFAULT);
	ck_assert_int_eq(pm->write(&r, 0, (uintptr_t)p + 10, "x", 1), EFAULT);
	ch_capture_end(&c);
	ck_assert_msg(strstr(c.text, "after the memory was freed") != NULL, "%s", c.text);
	pm->unpin(&r);
	CU(cudaFree(q));
}

CH_TEST(peermem_stays_inside_its_region)
{
	const struct peermem_ops *pm = peermem();
	struct peermem_region r;
	char *p = ch_malloc(1000), back[8];

	CU(cudaMemset(p, 0, 1000));
	CU(cudaDeviceSynchronize());
	ck_assert_int_eq(pm->pin(os_proc(), (uintptr_t)p + 100, 100, &r), 0);
	ck_assert_int_eq(pm->write(&r, 0, (uintptr_t)p + 195, "doppe", 5), 0);
	sim_expect_misuse("HCA write of 5 bytes");
	sim_expect_misuse("HCA read of 1 bytes");
	ck_assert_int_eq(pm->write(&r, 0, (uintptr_t)p + 196, "doppel", 5), EFAULT);
	ck_assert_int_eq(pm->read(&r, 0, (uintptr_t)p + 99, back, 1), EFAULT);
	ck_assert_int_eq(pm->read(&r, 0, (uintptr_t)p + 195, back, 5), 0);
	ck_assert_mem_eq(back, "doppe", 5);
	pm->unpin(&r);
	CU(cudaFree(p));
}

/* A kernel that watches: copies word into seen when the host opens the gate. */
#define watch_args bump_args
CH_KERNEL(watch, 0)
{
	ch_wait_word(d, a->gate, 1);
	uint64_t v = fakedev_load(d, (void *)(uintptr_t)a->word, 8, SHARED_ACQUIRE, SHARED_SYSTEM);
	fakedev_store(d, (void *)(uintptr_t)a->seen, 8, v + 1, SHARED_RELEASE, SHARED_SYSTEM);
}

/* Does a running kernel see a write by HCA 1, after a read by HCA `flush` (-1: no read)? */
static uint64_t running_kernel_sees(int flush)
{
	const struct peermem_ops *pm = peermem();
	struct peermem_region r;
	uint64_t *word = ch_malloc(8), *pinned = ch_pinned(16), v = 7, dummy, after;
	struct bump_args a = {(uintptr_t)word, (uintptr_t)&pinned[0], (uintptr_t)&pinned[1]};

	CU(cudaMemset(word, 0, 8));
	CU(ch_launch_on(&watch_w1, 1, 1, &a, 0));
	os_sleep_ns(ch_now.engine == SIM_ENGINE_SIM ? 300000 : 30000000); /* it runs by now */
	ck_assert_int_eq(pm->pin(os_proc(), (uintptr_t)word, 8, &r), 0);
	ck_assert_int_eq(pm->write(&r, 1, (uintptr_t)word, &v, 8), 0);
	if (flush >= 0)
		ck_assert_int_eq(pm->read(&r, (uint32_t)flush, (uintptr_t)word, &dummy, 8), 0);
	shared_store_u64((shared_u64 *)&pinned[0], 1, SHARED_RELEASE);
	CU(cudaDeviceSynchronize());
	uint64_t seen = pinned[1] - 1;

	CU(cudaMemcpy(&after, word, 8, cudaMemcpyDeviceToHost)); /* a copy sees it */
	ck_assert_uint_eq(after, 7);
	pm->unpin(&r);
	CU(cudaFree(word));
	CU(cudaFreeHost(pinned));
	return seen;
}

CH_TEST(before_sm90_a_running_kernel_sees_only_what_was_flushed, .machine = "a100-4nic")
{
	ck_assert_uint_eq(running_kernel_sees(-1), 0);
	ck_assert_uint_eq(running_kernel_sees(0), 0); /* another HCA's read flushes nothing */
	ck_assert_uint_eq(running_kernel_sees(1), 7);
}

CH_TEST(since_sm90_a_running_kernel_sees_at_once, .machine = "h100-8nic")
{
	ck_assert_uint_eq(running_kernel_sees(-1), 7);
}

CH_TEST(a_kernel_launched_later_sees_it_without_a_flush)
{
	const struct peermem_ops *pm = peermem();
	struct peermem_region r;
	uint64_t *word = ch_malloc(8), v = 100, back;
	struct bump_args a = {.word = (uintptr_t)word};

	CU(cudaMemset(word, 0, 8));
	CU(cudaDeviceSynchronize());
	ck_assert_int_eq(pm->pin(os_proc(), (uintptr_t)word, 8, &r), 0);
	for (uint64_t i = 0; i < 3; i++, v++) /* the last one wins */
		ck_assert_int_eq(pm->write(&r, 0, (uintptr_t)word, &v, 8), 0);
	CU(ch_launch_on(&bump_w1, 1, 1, &a, 0));
	CU(cudaMemcpy(&back, word, 8, cudaMemcpyDeviceToHost));
	ck_assert_uint_eq(back, 103);
	pm->unpin(&r);
	CU(cudaFree(word));
}

int main(void)
{
	TCase *t = tcase_create("ipc");

	CH_ADD(t, ipc_between_processes_of_a_host);
	CH_ADD(t, ipc_of_this_process_itself_is_refused);
	CH_ADD(t, ipc_across_hosts_is_refused);
	CH_ADD(t, ipc_of_freed_memory_is_refused);
	CH_ADD(t, memory_stays_while_it_is_open_elsewhere);
	CH_ADD(t, a_mapping_is_closed_after_the_kernels_that_use_it);
	CH_ADD(t, an_open_handle_is_a_leak);
	CH_ADD(t, pin_takes_what_is_inside_one_allocation);
	CH_ADD(t, peermem_stays_inside_its_region);
	CH_ADD(t, before_sm90_a_running_kernel_sees_only_what_was_flushed);
	CH_ADD(t, since_sm90_a_running_kernel_sees_at_once);
	CH_ADD(t, a_kernel_launched_later_sees_it_without_a_flush);
	return ch_suite_run("cuda ipc", t);
}
