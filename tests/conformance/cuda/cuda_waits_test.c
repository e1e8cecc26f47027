/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that may wait for kernels (INTERFACE.md), beside a kernel that spins until the caller goes
 * on. With DOPPEL_CUDA_WAITS=1 each waits in every run: the hang is reported with the call and the
 * kernel. Without, each returns under strategy fifo, which takes no rare path.
 */
#include "tests/conformance/cuda/cuda_harness.h"

struct spin_args {
	uint64_t gate;
};

CH_KERNEL(spin, 0)
{
	(void)ch_wait_word(d, a->gate, 1);
}

enum waits_call { WAITS_MALLOC, WAITS_HOST_ALLOC, WAITS_IPC_OPEN, WAITS_CALLS };

static const char *const waits_name[] = {"cudaMalloc", "cudaHostAlloc", "cudaIpcOpenMemHandle"};
static enum waits_call waits_now;
static bool waits_always;
static cudaIpcMemHandle_t waits_handle;

static void waits_make(void *given)
{
	void *mem = NULL;

	switch (waits_now) {
	case WAITS_MALLOC:
		CU(cudaMalloc(&mem, 256));
		return;
	case WAITS_HOST_ALLOC:
		CU(cudaHostAlloc(&mem, 256, cudaHostAllocMapped));
		return;
	case WAITS_IPC_OPEN:
		CU(cudaIpcOpenMemHandle(&mem, waits_handle, cudaIpcMemLazyEnablePeerAccess));
		return;
	default:
		ck_abort_msg("no such call, beside %p", given);
	}
}

/* In the process that opens, or allocates. */
static void waits_body(void *given)
{
	shared_u64 *gate = ch_pinned(8);
	struct spin_args a = {(uintptr_t)gate};
	cudaStream_t s;

	CU(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	CU(ch_launch_on(&spin_w1, 1, 1, &a, s));
	os_sleep_ns(1000000);
	waits_make(given);
	shared_store_u64(gate, 1, SHARED_RELEASE);
	CU(cudaStreamSynchronize(s));
}

static void waits_main(void *arg)
{
	struct os_proc *other = ch_proc(0, "other");
	void *mem = ch_malloc(64);

	CU(cudaIpcGetMemHandle(&waits_handle, mem));
	ch_in(other, waits_body, arg);
}

static void waits_child(void)
{
	static const char *const env[] = {"DOPPEL_CUDA_WAITS=1", NULL};
	const struct sim_config config = {
		.engine = SIM_ENGINE_SIM, .seed = 1, .strategy = SIM_FIFO};
	const struct world_config world = {.hosts = 1,
					   .machine = "a100-4nic",
					   .warp_width = 1,
					   .env = waits_always ? env : NULL};

	if (sim_start(&config) || world_create(&world))
		_exit(1);
	_exit(sim_run(waits_main, NULL));
}

START_TEST(a_call_that_waits_for_a_kernel_is_reported)
{
	char text[65536];

	waits_now = (enum waits_call)_i;
	waits_always = true;
	int rc = ch_child(waits_child, text, sizeof text);

	ck_assert_msg(rc == SIM_NO_PROGRESS, "exit %d: %s", rc, text);
	ck_assert_msg(strstr(text, waits_name[_i]) != NULL, "%s", text);
	ck_assert_msg(strstr(text, "gpu0 k1 b0 w0") != NULL, "%s", text);
}
END_TEST

START_TEST(it_may_also_return_beside_the_kernel)
{
	char text[65536];

	waits_now = (enum waits_call)_i;
	waits_always = false;
	int rc = ch_child(waits_child, text, sizeof text);

	ck_assert_msg(rc == SIM_PASS, "exit %d: %s", rc, text);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("waits");

	tcase_add_loop_test(t, a_call_that_waits_for_a_kernel_is_reported, 0, WAITS_CALLS);
	tcase_add_loop_test(t, it_may_also_return_beside_the_kernel, 0, WAITS_CALLS);
	return ch_suite_run("calls that wait for kernels", t);
}
