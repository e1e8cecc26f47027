/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A call that a double reports as undefined fails the run, although every call of the library
 * returned success. The failure names the call and its caller.
 */
#include <check.h>
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#include "sim/engine/sim.h"
#include "sim/lab/run/runner.h"
#include "tests/suite.h"

static struct lab_result misuse_run(void (*on_ready)(int32_t rank, ncclComm_t comm, void *arg))
{
	struct lab_config c;
	struct lab_result r;

	lab_config_default(&c);
	c.gpus = 2;
	c.bytes_min = c.bytes_max = 1024;
	c.on_ready = on_ready;
	ck_assert_int_eq(lab_run(&c, &r), 0);
	return r;
}

static void nothing_bad(int32_t rank, ncclComm_t comm, void *arg)
{
	(void)rank, (void)comm, (void)arg;
}

/* The result is dropped, as clean-up paths like to do. */
static void free_twice(int32_t rank, ncclComm_t comm, void *arg)
{
	void *p = NULL;

	(void)comm, (void)arg;
	if (rank != 1)
		return;
	ck_assert_int_eq(cudaMalloc(&p, 4096), cudaSuccess);
	(void)cudaFree(p);
	(void)cudaFree(p);
}

static void destroy_event_twice(int32_t rank, ncclComm_t comm, void *arg)
{
	cudaEvent_t e = NULL;

	(void)comm, (void)arg;
	if (rank != 0)
		return;
	ck_assert_int_eq(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), cudaSuccess);
	(void)cudaEventDestroy(e);
	(void)cudaEventDestroy(e);
}

struct open_case {
	bool error;
	shared_u32 stage;
	cudaIpcMemHandle_t handle;
};

/* Rank 0 frees what rank 1 has open, as a rank does that leaves because of an error; the error
 * itself is returned later. */
static void free_open_then_fail(int32_t rank, ncclComm_t comm, void *arg)
{
	struct open_case *o = arg;
	struct wait w = {.on = &o->stage,
			 .bytes = 4,
			 .kind = WAIT_GE,
			 .mask = WAIT_MASK_ALL,
			 .want = rank == 0 ? 2 : 1,
			 .why = "the other rank's turn",
			 .from = {.rank = !rank, .channel = -1, .step = -1}};
	void *mem = NULL;

	if (rank == 0) {
		ck_assert_int_eq(cudaMalloc(&mem, 2 << 20), cudaSuccess);
		ck_assert_int_eq(cudaIpcGetMemHandle(&o->handle, mem), cudaSuccess);
		shared_store_u32(&o->stage, 1, SHARED_RELEASE);
	}
	ck_assert_int_eq(os_wait_one(&w, NULL), 0);
	if (rank == 1) {
		ck_assert_int_eq(
			cudaIpcOpenMemHandle(&mem, o->handle, cudaIpcMemLazyEnablePeerAccess),
			cudaSuccess);
		shared_store_u32(&o->stage, 2, SHARED_RELEASE);
		return;
	}
	ck_assert_int_eq(cudaFree(mem), cudaSuccess);
	if (o->error)
		sim_note_failure(SIM_ERROR, "error", 0, "rank 0: ncclCommInitRank: internal error");
}

START_TEST(an_error_stands_before_the_misuse_that_it_leads_to)
{
	struct lab_config c;
	struct lab_result r;

	for (int error = 0; error < 2; error++) {
		struct open_case o = {.error = error};
		lab_config_default(&c);
		c.gpus = 2;
		c.bytes_min = c.bytes_max = 1024;
		c.on_ready = free_open_then_fail;
		c.on_ready_arg = &o;
		ck_assert_int_eq(lab_run(&c, &r), 0);
		ck_assert(r.failed);
		ck_assert_str_eq(r.failure.kind, error ? "error" : "misuse");
		ck_assert_ptr_nonnull(strstr(r.failure.message, error ? "ncclCommInitRank"
								      : "still have open by IPC"));
	}
}
END_TEST

START_TEST(a_run_without_misuse_passes)
{
	struct lab_result r = misuse_run(nothing_bad);

	ck_assert_int_eq(r.verdict, SIM_PASS);
	ck_assert(!r.failed);
}
END_TEST

START_TEST(a_double_free_fails_the_run_and_names_the_rank)
{
	struct lab_result r = misuse_run(free_twice);

	ck_assert_int_eq(r.verdict, SIM_MISUSE);
	ck_assert_str_eq(r.failure.kind, "misuse");
	ck_assert_int_eq(r.failure.rank, 1);
	ck_assert_ptr_nonnull(strstr(r.failure.message, "rank1 main"));
	ck_assert_ptr_nonnull(strstr(r.failure.message, "not the start of memory"));
	/* the run itself went on */
	ck_assert_uint_eq(r.wrong, 0);
	ck_assert_uint_eq(r.operations, 2);
	ck_assert_int_eq(r.error, ncclSuccess);
}
END_TEST

START_TEST(an_event_destroyed_twice_fails_the_run)
{
	struct lab_result r = misuse_run(destroy_event_twice);

	ck_assert_int_eq(r.verdict, SIM_MISUSE);
	ck_assert_str_eq(r.failure.kind, "misuse");
	ck_assert_ptr_nonnull(strstr(r.failure.message, "invalid event"));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("misuse of the doubles");
	TCase *t = tcase_create("lab runs");

	tcase_add_test(t, a_run_without_misuse_passes);
	tcase_add_test(t, a_double_free_fails_the_run_and_names_the_rank);
	tcase_add_test(t, an_event_destroyed_twice_fails_the_run);
	tcase_add_test(t, an_error_stands_before_the_misuse_that_it_leads_to);
	suite_add_tcase(s, t);
	return suite_run(s);
}
