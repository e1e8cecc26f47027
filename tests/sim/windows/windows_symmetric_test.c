/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs on windows: ranks that use different offsets in a window are reported, because NCCL's
 * rule for NCCL_WIN_COLL_SYMMETRIC requires the same one. A window without the flag has no such
 * programs.
 */
#include <check.h>
#include <cuda_runtime_api.h>

#include "core/include/nccl.h"
#include "tests/sim/comm/comm_rank.h"
#include "tests/suite.h"

#define BYTES 65536u
#define COUNT 256u

/* One run; the ranks add their results. */
struct offsets {
	bool to_all; /* ncclAlltoAll, not ncclAllReduce */
	int flags;
	size_t step;       /* between the offsets of successive ranks */
	int good, refused; /* calls with ncclSuccess, with ncclInvalidUsage */
};

static ncclResult_t offsets_call(const struct offsets *o, uint8_t *mem, int32_t rank,
				 ncclComm_t comm, cudaStream_t stream)
{
	uint8_t *out = mem + BYTES / 2 + (size_t)rank * o->step;

	if (o->to_all)
		return ncclAlltoAll(mem, out, COUNT, ncclUint8, comm, stream);
	return ncclAllReduce(mem, out, COUNT, ncclUint8, ncclSum, comm, stream);
}

static void offsets_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct offsets *o = arg;
	ncclComm_t comm = comm_open(rank, nranks, ranks_id());
	ncclWindow_t win = NULL;
	cudaStream_t stream;
	ncclResult_t rc;
	void *mem;

	EXPECT_NCCL(ncclSuccess, ncclMemAlloc(&mem, BYTES));
	EXPECT(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommWindowRegister(comm, mem, BYTES, &win, o->flags));
	EXPECT(win);
	ranks_barrier();
	rc = offsets_call(o, mem, rank, comm, stream);
	o->good += rc == ncclSuccess;
	o->refused += rc == ncclInvalidUsage;
	ranks_barrier();
	if (!o->refused)
		EXPECT(cudaStreamSynchronize(stream) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(comm));
	EXPECT(cudaStreamDestroy(stream) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclMemFree(mem));
}

static const char *const on_windows[] = {"NCCL_PROTO=Simple", "NCCL_ALGO=Symmetric", NULL};

static void offsets_run(struct offsets *o, const char *const *env)
{
	ranks_run(&(struct ranks_config){.hosts = 1, .per_host = 2, .seed = 1, .env = env},
		  offsets_rank, o);
}

START_TEST(different_offsets_in_a_window_are_reported)
{
	struct offsets same = {.flags = NCCL_WIN_COLL_SYMMETRIC};
	struct offsets differ = {.flags = NCCL_WIN_COLL_SYMMETRIC, .step = 4096};

	offsets_run(&same, on_windows);
	ck_assert_int_eq(same.good, 2);
	offsets_run(&differ, on_windows);
	ck_assert_int_eq(differ.good, 1);
	ck_assert_int_eq(differ.refused, 1);
}
END_TEST

START_TEST(different_offsets_of_an_all_to_all_are_reported)
{
	struct offsets same = {.to_all = true, .flags = NCCL_WIN_COLL_SYMMETRIC};
	struct offsets differ = {.to_all = true, .flags = NCCL_WIN_COLL_SYMMETRIC, .step = 4096};

	offsets_run(&same, on_windows);
	ck_assert_int_eq(same.good, 2);
	offsets_run(&differ, on_windows);
	ck_assert_int_eq(differ.good, 1);
	ck_assert_int_eq(differ.refused, 1);
}
END_TEST

START_TEST(an_all_to_all_on_windows_without_the_flag_consists_of_messages)
{
	struct offsets o = {.to_all = true, .step = 4096};

	offsets_run(&o, on_windows);
	ck_assert_int_eq(o.good, 2);
}
END_TEST

START_TEST(windows_without_the_flag_have_no_programs_of_their_own)
{
	struct offsets o = {.flags = 0, .step = 4096};

	offsets_run(&o, on_windows);
	ck_assert_int_eq(o.refused, 2);
	o.good = o.refused = 0;
	offsets_run(&o, NULL);
	ck_assert_int_eq(o.good, 2);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("programs on windows");
	TCase *t = tcase_create("offsets");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, different_offsets_in_a_window_are_reported);
	tcase_add_test(t, different_offsets_of_an_all_to_all_are_reported);
	tcase_add_test(t, an_all_to_all_on_windows_without_the_flag_consists_of_messages);
	tcase_add_test(t, windows_without_the_flag_have_no_programs_of_their_own);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
