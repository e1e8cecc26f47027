/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Real processes that share a world (struct world_share): IPC of GPU memory, and segments of host
 * memory. Each test forks two processes, which take turns. A process may be killed.
 */
#include "tests/conformance/cuda/processes/cuda_processes.h"

static uint64_t word(const void *p)
{
	uint64_t v = 0;

	NEED(!cudaMemcpy(&v, p, 8, cudaMemcpyDeviceToHost));
	return v;
}

static void *make(uint64_t v)
{
	void *p = NULL;

	NEED(!cudaSetDevice(0) && !cudaMalloc(&p, 4096));
	NEED(!cudaMemcpy(p, &v, 8, cudaMemcpyHostToDevice));
	return p;
}

/* Exports memory with 41 in it, at turn 1. */
static void *export(void)
{
	void *p = make(41);

	NEED(!cudaIpcGetMemHandle(&stage->handle, p));
	stage->pointer = p;
	give_turn();
	return p;
}

static void *import(void)
{
	void *p = NULL;

	NEED(!cudaSetDevice(1));
	NEED(!cudaIpcOpenMemHandle(&p, stage->handle, cudaIpcMemLazyEnablePeerAccess));
	NEED(p == stage->pointer);
	return p;
}

/* ---- the same address, the same memory ------------------------------------------------------ */

struct bump_args {
	uint64_t word;
};

CH_KERNEL(bump, 0)
{
	fakedev_add(d, (void *)(uintptr_t)a->word, 8, 1, SHARED_RELAXED, SHARED_SYSTEM);
}

static void exports_and_looks(void)
{
	void *p = export();

	wait_turn(2);
	NEED(word(p) == 42);
	NEED(!cudaFree(p));
}

static void imports_and_adds(void)
{
	void *own = make(7), *p = import(), *again = import();
	struct bump_args a = {.word = (uintptr_t)p};

	NEED(own != p); /* on the same GPU */
	NEED(word(p) == 41);
	NEED(!ch_launch_on(&bump_w1, 1, 1, &a, 0));
	NEED(!cudaDeviceSynchronize());
	NEED(!cudaIpcCloseMemHandle(p));
	NEED(again == p && word(p) == 42); /* opened twice, closed once */
	NEED(!cudaIpcCloseMemHandle(p));
	SAYS(cudaMemcpy(own, p, 8, cudaMemcpyDeviceToDevice), cudaErrorInvalidValue,
	     "no allocation there");
	NEED(!cudaSetDevice(0) && !cudaFree(own));
	give_turn();
}

START_TEST(a_kernel_writes_memory_of_another_process)
{
	run(exports_and_looks, 0, imports_and_adds);
}
END_TEST

/* ---- memory that was freed ------------------------------------------------------------------ */

static void frees_early(void)
{
	void *p = make(41);

	NEED(!cudaIpcGetMemHandle(&stage->handle, p) && !cudaFree(p));
	give_turn();
	wait_turn(2);
}

static void opens_too_late(void)
{
	void *p;

	NEED(!cudaSetDevice(1));
	SAYS(cudaIpcOpenMemHandle(&p, stage->handle, cudaIpcMemLazyEnablePeerAccess),
	     cudaErrorInvalidResourceHandle, "was freed since the handle was made");
	give_turn();
}

START_TEST(freed_memory_cannot_be_opened)
{
	run(frees_early, 0, opens_too_late);
}
END_TEST

static void frees_what_is_open(void)
{
	void *p = export(), *next;

	wait_turn(2);
	sim_expect_misuse("still have open");
	SAYS(cudaFree(p), cudaSuccess, "which 1 other processes still have open by IPC");
	next = make(1);
	NEED(next != p); /* not given away while it is open */
	give_turn();
	wait_turn(4);
	NEED(!cudaFree(next));
	NEED(make(2) == p && !cudaFree(p));
}

static void reads_after_the_free(void)
{
	void *p = import();

	give_turn();
	wait_turn(3);
	NEED(word(p) == 41);
	NEED(!cudaIpcCloseMemHandle(p));
	give_turn();
}

START_TEST(memory_that_another_process_has_open_stays)
{
	run(frees_what_is_open, 0, reads_after_the_free);
}
END_TEST

/* ---- deaths --------------------------------------------------------------------------------- */

static void exports_and_waits(void)
{
	export();
	wait_turn(100); /* is killed */
}

static void outlives_the_exporter(void)
{
	void *p = import(), *again;

	give_turn();
	wait_turn(3);
	NEED(word(p) == 41);
	NEED(!cudaIpcCloseMemHandle(p));
	NEED(!cudaIpcOpenMemHandle(&again, stage->handle, cudaIpcMemLazyEnablePeerAccess));
	NEED(!cudaIpcCloseMemHandle(again)); /* this process still has its pages */
}

START_TEST(open_memory_outlives_its_process)
{
	run(exports_and_waits, 2, outlives_the_exporter);
}
END_TEST

static void opens_after_the_death(void)
{
	void *p;

	NEED(!cudaSetDevice(1));
	give_turn();
	wait_turn(3);
	SAYS(cudaIpcOpenMemHandle(&p, stage->handle, cudaIpcMemLazyEnablePeerAccess),
	     cudaErrorInvalidResourceHandle, "which made the handle, has ended");
}

START_TEST(memory_of_a_dead_process_cannot_be_opened)
{
	run(exports_and_waits, 2, opens_after_the_death);
}
END_TEST

static void imports_and_waits(void)
{
	give_turn();
	wait_turn(2);
	import();
	give_turn();
	wait_turn(100); /* is killed */
}

static void frees_after_the_death(void)
{
	void *p = export();

	wait_turn(4);
	NEED(!cudaFree(p)); /* no misuse: world_destroy and sim_run would report it */
	NEED(make(1) == p && !cudaFree(p));
}

START_TEST(a_dead_process_has_nothing_open)
{
	run(imports_and_waits, 3, frees_after_the_death);
}
END_TEST

/* ---- segments ------------------------------------------------------------------------------- */

static void makes_segments(void)
{
	void *mem, *other;
	size_t found;

	NEED(!os_shm_create("seen", 8192, &mem) && !os_shm_create("kept", 4096, &other));
	NEED(os_shm_create("seen", 8192, &other) == EEXIST);
	*(uint32_t *)mem = 7;
	NEED(access("/dev/shm/seen", F_OK) != 0); /* in no file */
	give_turn();
	wait_turn(2);
	NEED(os_shm_open("seen", 8192, &other, &found) == ENOENT); /* the other one removed it */
	NEED(*(uint32_t *)mem == 8);
	give_turn();
	wait_turn(100); /* is killed */
}

static void opens_segments(void)
{
	void *mem;
	size_t found;

	NEED(os_shm_open("none", 8192, &mem, &found) == ENOENT);
	NEED(os_shm_open("seen", 4096, &mem, &found) == EINVAL && found == 8192);
	NEED(!os_shm_open("seen", 8192, &mem, &found) && *(uint32_t *)mem == 7);
	NEED(!os_shm_unlink("seen") && os_shm_unlink("seen") == ENOENT);
	*(uint32_t *)mem = 8;
	give_turn();
	wait_turn(4);
	NEED(*(uint32_t *)mem == 8); /* a mapping outlives its maker, a name does not */
	NEED(os_shm_open("kept", 4096, &mem, &found) == ENOENT);
	NEED(!os_shm_create("kept", 4096, &mem) && !os_shm_unlink("kept"));
}

START_TEST(a_segment_has_no_file_and_ends_with_its_maker)
{
	run(makes_segments, 3, opens_segments);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("ipc_share");

	tcase_add_test(tc, a_kernel_writes_memory_of_another_process);
	tcase_add_test(tc, freed_memory_cannot_be_opened);
	tcase_add_test(tc, memory_that_another_process_has_open_stays);
	tcase_add_test(tc, open_memory_outlives_its_process);
	tcase_add_test(tc, memory_of_a_dead_process_cannot_be_opened);
	tcase_add_test(tc, a_dead_process_has_nothing_open);
	tcase_add_test(tc, a_segment_has_no_file_and_ends_with_its_maker);
	return ch_suite_run("cuda_ipc_share", tc);
}
