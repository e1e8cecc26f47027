/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks of kernels on the SMs of the GPU double: co-residency, waves, and SMs that become free. */
#include "tests/conformance/cuda/cuda_harness.h"

struct resident_args {
	uint64_t arrived, need;
};

/* Each block announces itself and waits for `need` blocks. */
CH_KERNEL(resident, 0)
{
	fakedev_add(d, (void *)(uintptr_t)a->arrived, 8, 1, SHARED_RELEASE, SHARED_SYSTEM);
	ch_wait_word(d, a->arrived, a->need);
}

CH_TEST(as_many_blocks_as_sms_are_resident)
{
	uint64_t *arrived = ch_pinned(8);
	struct resident_args a = {(uintptr_t)arrived, 108};

	CU(ch_launch_on(CH_BY_WIDTH(resident), 108, 1, &a, 0));
	CU(cudaDeviceSynchronize());
	ck_assert_uint_eq(*arrived, 108);
	CU(cudaFreeHost(arrived));
}

CH_TEST(a_grid_larger_than_the_gpu_runs_in_waves)
{
	uint64_t *arrived = ch_pinned(8);
	struct resident_args a = {(uintptr_t)arrived, 1};

	CU(ch_launch_on(CH_BY_WIDTH(resident), 1000, 2, &a, 0));
	CU(cudaDeviceSynchronize());
	ck_assert_uint_eq(*arrived, 2000);
	CU(cudaFreeHost(arrived));
}

/* 60 blocks run and wait; the next 60 of another stream find only 48 SMs, so 12 wait for those. */
CH_TEST(blocks_wait_for_free_sms)
{
	uint64_t *arrived = ch_pinned(16);
	struct resident_args a = {(uintptr_t)&arrived[0], 61}, b = {(uintptr_t)&arrived[1], 1};
	cudaStream_t s[2];

	for (int i = 0; i < 2; i++)
		CU(cudaStreamCreateWithFlags(&s[i], cudaStreamNonBlocking));
	struct wait there = {.on = &arrived[0],
			     .want = 60,
			     .mask = WAIT_MASK_ALL,
			     .kind = WAIT_EQ,
			     .bytes = 8,
			     .why = "60 blocks (test)",
			     .from = {-1, -1, -1, "gpu"}};
	CU(ch_launch_on(CH_BY_WIDTH(resident), 60, 1, &a, s[0]));
	ck_assert_int_eq(os_wait_one(&there, NULL), 0);
	b.need = 60; /* all of them together: not before the first kernel has gone */
	CU(ch_launch_on(CH_BY_WIDTH(resident), 60, 1, &b, s[1]));
	there.on = &arrived[1];
	there.want = 48;
	there.why = "48 blocks (test)";
	ck_assert_int_eq(os_wait_one(&there, NULL), 0);
	os_sleep_ns(ch_in_sim() ? 1000000 : 100000000); /* others would come now */
	ck_assert_uint_eq(shared_load_u64((shared_u64 *)&arrived[1], SHARED_ACQUIRE), 48);
	shared_add_u64((shared_u64 *)&arrived[0], 1, SHARED_RELEASE);
	for (int i = 0; i < 2; i++) {
		CU(cudaStreamSynchronize(s[i]));
		CU(cudaStreamDestroy(s[i]));
	}
	ck_assert_uint_eq(arrived[1], 60);
	CU(cudaFreeHost(arrived));
}

static void too_many_main(void *arg)
{
	uint64_t *arrived = ch_pinned(8);
	struct resident_args a = {(uintptr_t)arrived, 109};

	(void)arg;
	CU(ch_launch_on(&resident_w1, 109, 1, &a, 0));
	CU(cudaDeviceSynchronize());
}

static void too_many_child(void)
{
	const struct sim_config config = {.engine = SIM_ENGINE_SIM, .seed = 1};
	const struct world_config world = {.hosts = 1, .machine = "a100-4nic", .warp_width = 1};

	if (sim_start(&config) || world_create(&world))
		_exit(1);
	_exit(sim_run(too_many_main, NULL));
}

START_TEST(waiting_for_a_block_that_is_not_resident_hangs)
{
	char text[65536];
	int rc = ch_child(too_many_child, text, sizeof text);

	ck_assert_msg(rc == SIM_NO_PROGRESS, "exit %d: %s", rc, text);
	ck_assert_msg(strstr(text, "108 of 109 blocks placed: 0 of 108 SMs are free") != NULL, "%s",
		      text);
}
END_TEST

static void launch_and_leave(void *arg)
{
	struct resident_args a = {(uintptr_t)ch_pinned(8), 1000};

	(void)arg;
	CU(ch_launch_on(&resident_w1, 100, 1, &a, 0));
	os_sleep_ns(200000);
}

CH_TEST(killing_a_process_gives_its_sms_back)
{
	struct os_proc *p = ch_proc(0, "victim");
	uint64_t *arrived = ch_pinned(8);
	struct resident_args a = {(uintptr_t)arrived, 108};

	ch_in(p, launch_and_leave, NULL);
	CU(ch_launch_on(CH_BY_WIDTH(resident), 108, 1, &a, 0)); /* 8 find room */
	os_sleep_ns(ch_in_sim() ? 1000000 : 50000000);
	world_proc_kill(p);
	CU(cudaDeviceSynchronize());
	ck_assert_uint_eq(*arrived, 108);
	CU(cudaFreeHost(arrived));
}

int main(void)
{
	TCase *t = tcase_create("placement");

	CH_ADD(t, as_many_blocks_as_sms_are_resident);
	CH_ADD(t, a_grid_larger_than_the_gpu_runs_in_waves);
	CH_ADD(t, blocks_wait_for_free_sms);
	tcase_add_test(t, waiting_for_a_block_that_is_not_resident_hangs);
	CH_ADD(t, killing_a_process_gives_its_sms_back);
	return ch_suite_run("cuda placement", t);
}
