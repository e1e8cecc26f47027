/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of GPUs in a strict world of many: private, without a view of the program, until a mapping
 * of cuMem needs the file (backends/fakecuda/vmm/va.c). */

#include <errno.h>

#include "backends/fakecuda/fakecuda.h"
#include "tests/conformance/cuda/cuda_vmm.h"

#define MANY  .hosts = 17, .machine = "h100-8nic" /* 136 GPUs */
#define BYTES ((size_t)3 << 20)

/* True if the kernel knows the page at the address. */
static bool has_view(uint64_t address)
{
	unsigned char there;
	uint64_t page = address / 4096 * 4096;

	return !mincore((void *)(uintptr_t)page, 4096, &there) || errno != ENOMEM;
}

static void filled_buffer_survives(void *p, const char *why)
{
	static uint8_t back[BYTES];
	size_t wrong = 0;

	CU(cudaMemcpy(back, p, BYTES, cudaMemcpyDeviceToHost));
	for (size_t i = 0; i < BYTES; i++)
		wrong += back[i] != 7;
	ck_assert_msg(!wrong, "%s: %zu bytes are not 7", why, wrong);
}

/* Not in `checked`, which looks for unmarked writes in the file, and not in `threads`. */
static bool must_be_alone(void)
{
#ifdef DOPPEL_CHECKED
	return false;
#else
	return ch_in_sim();
#endif
}

CH_TEST(many_gpus_have_private_memory, MANY)
{
	void *p = NULL;

	CU(cudaMalloc(&p, BYTES));
	CU(cudaMemset(p, 7, BYTES));
	filled_buffer_survives(p, "after the fill");
	ck_assert(has_view((uintptr_t)p + FC_VA_LIMIT));
	ck_assert(has_view((uintptr_t)p) != must_be_alone());
	CU(cudaFree(p));
}

CH_TEST(few_gpus_have_both_views)
{
	void *p = NULL;

	CU(cudaMalloc(&p, BYTES));
	ck_assert(has_view((uintptr_t)p) && has_view((uintptr_t)p + FC_VA_LIMIT));
	CU(cudaFree(p));
}

START_TEST(a_world_of_few_may_follow_a_world_of_many)
{
	const struct ch_world many = {MANY}, few = {.hosts = 1};

	for (int i = 0; i < 2; i++) {
		ch_run_once(SIM_ENGINE_SIM, 1, &many, many_gpus_have_private_memory_body);
		ch_run_once(SIM_ENGINE_SIM, 1, &few, few_gpus_have_both_views_body);
	}
}
END_TEST

/* Its chunk moves into the file with all that other allocations have there. */
CH_TEST(a_mapping_of_cumem_moves_memory_into_the_file, MANY)
{
	void *other = NULL;

	CU(cudaMalloc(&other, BYTES));
	CU(cudaMemset(other, 7, BYTES));
	CUmemGenericAllocationHandle h = create(0, PAGE);
	CUdeviceptr p = map(h, PAGE, 0), q = map(h, PAGE, 0);

	ck_assert(has_view((uintptr_t)other));
	filled_buffer_survives(other, "after the mapping");
	put(p, 41);
	struct bump_args a = {.word = q};

	CU(ch_launch_on(&bump_w1, 1, 1, &a, 0));
	CU(cudaDeviceSynchronize());
	ck_assert_uint_eq(get(p), 42);
	unmap(q, PAGE);
	unmap(p, PAGE);
	DRV(cuMemRelease(h));
	CU(cudaFree(other));
}

int main(void)
{
	TCase *t = tcase_create("alone");

	CH_ADD(t, many_gpus_have_private_memory);
	CH_ADD(t, few_gpus_have_both_views);
	CH_ADD_SIM(t, a_world_of_few_may_follow_a_world_of_many);
	CH_ADD(t, a_mapping_of_cumem_moves_memory_into_the_file);
	return ch_suite_run("cuda alone", t);
}
