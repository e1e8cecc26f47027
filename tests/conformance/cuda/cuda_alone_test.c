/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of GPUs in a strict world of many: private, without a view of the program, until a range
 * of cuMem with several homes needs the file (backends/fakecuda/vmm/va.c). */

#include <errno.h>

#include "backends/fakecuda/fakecuda.h"
#include "backends/peermem.h"
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

/* Kernels and copies use the memory by its home. */
CH_TEST(a_mapping_of_cumem_stays_private, MANY)
{
	CUmemGenericAllocationHandle h = create(0, PAGE);
	CUdeviceptr p = map(h, PAGE, 0), q = map(h, PAGE, 0);
	struct bump_args a = {.word = q};

	ck_assert(has_view(p) != must_be_alone());
	put(p, 41);
	CU(ch_launch_on(&bump_w1, 1, 1, &a, 0));
	CU(cudaDeviceSynchronize());
	ck_assert_uint_eq(get(p), 42);
	ck_assert(has_view(p) != must_be_alone() && has_view(q) != must_be_alone());
	unmap(q, PAGE);
	unmap(p, PAGE);
	DRV(cuMemRelease(h));
}

/* The chunk of the two mappings moves into the file with all that other allocations have there. */
CH_TEST(a_copy_over_two_mappings_of_cumem_moves_memory_into_the_file, MANY)
{
	static uint8_t back[2 * PAGE];
	CUdeviceptr p = 0;
	CUmemGenericAllocationHandle h[2] = {create(0, PAGE), create(0, PAGE)};
	const CUmemAccessDesc mine = {{CU_MEM_LOCATION_TYPE_DEVICE, 0},
				      CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	void *other = NULL;

	CU(cudaMalloc(&other, BYTES));
	CU(cudaMemset(other, 7, BYTES));
	DRV(cuMemAddressReserve(&p, 2 * PAGE, 0, 0, 0));
	DRV(cuMemMap(p + PAGE, PAGE, 0, h[0], 0)); /* not in the order of their homes */
	DRV(cuMemMap(p, PAGE, 0, h[1], 0));
	DRV(cuMemSetAccess(p, 2 * PAGE, &mine, 1));
	put(p, 1);
	put(p + PAGE, 2);
	CU(cudaMemcpy(back, (void *)(uintptr_t)p, sizeof back, cudaMemcpyDeviceToHost));
	ck_assert_uint_eq(*(uint64_t *)back, 1);
	ck_assert_uint_eq(*(uint64_t *)(back + PAGE), 2);
	ck_assert(has_view((uintptr_t)other) && has_view(p) && has_view(p + PAGE));
	filled_buffer_survives(other, "after the copy");
	ck_assert_uint_eq(get(p + PAGE), 2);
	DRV(cuMemUnmap(p, 2 * PAGE));
	DRV(cuMemAddressFree(p, 2 * PAGE));
	ck_assert(!has_view(p) && !has_view(p + PAGE));
	DRV(cuMemRelease(h[0]));
	DRV(cuMemRelease(h[1]));
	CU(cudaFree(other));
}

struct lines_args {
	uint64_t to, pairs;
};

CH_KERNEL(lines, 0)
{
	static const uint64_t data[DEV_PAIR_DATA / 8] = {1, 2, 3};

	for (uint64_t i = 0; i < a->pairs; i++)
		fakedev_pairs_store(d, (void *)(uintptr_t)(a->to + i * DEV_PAIR_BYTES), data, 1, 9);
}

enum { SENT_PAGES = 5 };

/* Fills pages with lines, and one of them with something else too. */
static uint64_t pages_with_lines(void)
{
	struct lines_args a = {.pairs = SENT_PAGES * 4096 / DEV_PAIR_BYTES};
	void *p = NULL;

	CU(cudaMalloc(&p, (size_t)SENT_PAGES * 4096));
	a.to = (uintptr_t)p;
	CU(ch_launch_on(&lines_w1, 1, 1, &a, 0));
	CU(cudaDeviceSynchronize());
	put(a.to + 2 * 4096 + 8, 42);
	return a.to;
}

/* Reports that an HCA has sent all of it but the last line. */
static void lines_are_sent(uint64_t address)
{
	uint64_t bytes = SENT_PAGES * 4096 - DEV_LINE128_BYTES;
	struct peermem_region r;

	ck_assert_int_eq(peermem()->pin(os_self()->proc, address, bytes, &r), 0);
	peermem()->sent(&r, address, bytes);
	peermem()->unpin(&r);
}

/* Whole pages with lines only: the line after the range stays, and so does the word. */
CH_TEST(lines_that_an_hca_has_sent_are_given_back, MANY, .strategy = SIM_FIFO)
{
	uint64_t p = pages_with_lines();

	lines_are_sent(p);
	for (uint64_t page = 0; page < SENT_PAGES; page++) {
		bool stays = page == 2 || page == SENT_PAGES - 1 || !must_be_alone();

		ck_assert_uint_eq(get(p + page * 4096), stays ? 1 : 0);
	}
	ck_assert_uint_eq(get(p + 2 * 4096 + 8), 42);
	CU(cudaFree((void *)(uintptr_t)p));
}

/* The memory model may look at what was there. */
CH_TEST(lines_stay_with_the_memory_model, MANY)
{
	uint64_t p = pages_with_lines();

	lines_are_sent(p);
	for (uint64_t page = 0; mem_on && page < SENT_PAGES; page++)
		ck_assert_uint_eq(get(p + page * 4096), 1);
	CU(cudaFree((void *)(uintptr_t)p));
}

/* A send may be repeated. */
CH_TEST(lines_stay_in_a_world_with_faults, MANY, .strategy = SIM_FIFO,
	.plan = "fabric.packet prob=1/8 drop\n")
{
	uint64_t p = pages_with_lines();

	lines_are_sent(p);
	for (uint64_t page = 0; page < SENT_PAGES; page++)
		ck_assert_uint_eq(get(p + page * 4096), 1);
	CU(cudaFree((void *)(uintptr_t)p));
}

/* First fit, after reservations in the middle and at the start were freed. */
CH_TEST(reservations_take_the_first_free_addresses)
{
	CUdeviceptr p[4], again;

	for (int i = 0; i < 4; i++)
		DRV(cuMemAddressReserve(&p[i], 3 * PAGE, 0, 0, 0));
	for (int i = 0; i < 3; i++)
		ck_assert_uint_eq(p[i + 1], p[i] + 3 * PAGE);
	DRV(cuMemAddressFree(p[2], 3 * PAGE));
	DRV(cuMemAddressFree(p[0], 3 * PAGE));
	DRV(cuMemAddressReserve(&again, 4 * PAGE, 0, 0, 0)); /* fits in neither */
	ck_assert_uint_eq(again, p[3] + 3 * PAGE);
	DRV(cuMemAddressFree(again, 4 * PAGE));
	DRV(cuMemAddressReserve(&again, PAGE, 0, 0, 0));
	ck_assert_uint_eq(again, p[0]);
	DRV(cuMemAddressFree(again, PAGE));
	DRV(cuMemAddressReserve(&again, PAGE, 0, p[2] + PAGE, 0)); /* the wish is free */
	ck_assert_uint_eq(again, p[2] + PAGE);
	DRV(cuMemAddressFree(again, PAGE));
	DRV(cuMemAddressReserve(&again, PAGE, 0, p[1], 0)); /* the wish is not */
	ck_assert_uint_eq(again, p[0]);
	DRV(cuMemAddressFree(again, PAGE));
	DRV(cuMemAddressFree(p[1], 3 * PAGE));
	DRV(cuMemAddressFree(p[3], 3 * PAGE));
}

/* A rank reserves its own p2p memory, and that of its neighbours. */
CH_TEST(reservations_of_4096_ranks_fit)
{
	const uint64_t bytes = 193 * PAGE, n = 5 * 4096;
	CUdeviceptr *p = calloc(n, sizeof *p);

	for (uint64_t i = 0; i < n && n * bytes <= FC_VMM_LIMIT; i++)
		DRV(cuMemAddressReserve(&p[i], bytes, 0, 0, 0));
	for (uint64_t i = 0; i < n && n * bytes <= FC_VMM_LIMIT; i++)
		DRV(cuMemAddressFree(p[i], bytes));
	free(p);
}

int main(void)
{
	TCase *t = tcase_create("alone");

	CH_ADD(t, many_gpus_have_private_memory);
	CH_ADD(t, few_gpus_have_both_views);
	CH_ADD_SIM(t, a_world_of_few_may_follow_a_world_of_many);
	CH_ADD(t, a_mapping_of_cumem_stays_private);
	CH_ADD(t, a_copy_over_two_mappings_of_cumem_moves_memory_into_the_file);
	CH_ADD(t, lines_that_an_hca_has_sent_are_given_back);
	CH_ADD(t, lines_stay_with_the_memory_model);
	CH_ADD(t, lines_stay_in_a_world_with_faults);
	CH_ADD(t, reservations_take_the_first_free_addresses);
	CH_ADD_SIM(t, reservations_of_4096_ranks_fit);
	return ch_suite_run("cuda alone", t);
}
