/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of windows: memory that is freed, windows in use, and communicators that end, are
 * aborted, revoked, suspended or fail while they have windows. ranks_run counts what is left.
 */
#include <check.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/include/nccl_device.h"
#include "tests/sample.h"
#include "tests/sim/ras/deadline_rank.h"
#include "tests/suite.h"

#define BYTES 65536u

struct life_rank {
	ncclComm_t comm;
	ncclWindow_t win;
	uint8_t *mem;
	cudaStream_t stream;
};

static void life_begin(struct life_rank *l, int32_t rank, int32_t nranks)
{
	*l = (struct life_rank){.comm = comm_open(rank, nranks, ranks_id())};
	EXPECT_NCCL(ncclSuccess, ncclMemAlloc((void **)&l->mem, BYTES));
	EXPECT(cudaStreamCreateWithFlags(&l->stream, cudaStreamNonBlocking) == cudaSuccess);
	EXPECT(cudaMemset(l->mem, rank + 1, BYTES) == cudaSuccess);
	EXPECT(cudaDeviceSynchronize() == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommWindowRegister(l->comm, l->mem, BYTES, &l->win,
							NCCL_WIN_COLL_SYMMETRIC));
	EXPECT(l->win);
	ranks_barrier();
}

static void life_end(struct life_rank *l)
{
	EXPECT(cudaStreamDestroy(l->stream) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(l->comm));
	EXPECT_NCCL(ncclSuccess, ncclMemFree(l->mem));
}

static void life_read(const struct life_rank *l, int32_t peer)
{
	uint8_t host[BYTES];
	void *p = NULL;

	EXPECT_NCCL(ncclSuccess, ncclGetPeerDevicePointer(l->win, 0, peer, &p));
	EXPECT(cudaMemcpy(host, p, BYTES, cudaMemcpyDeviceToHost) == cudaSuccess);
	for (size_t k = 0; k < BYTES; k++)
		EXPECT(host[k] == peer + 1);
}

static void life_sum(struct life_rank *l, int32_t nranks)
{
	EXPECT(cudaMemset(l->mem, 1, BYTES) == cudaSuccess);
	EXPECT(cudaDeviceSynchronize() == cudaSuccess);
	EXPECT_NCCL(ncclSuccess,
		    ncclAllReduce(l->mem, l->mem, BYTES, ncclUint8, ncclSum, l->comm, l->stream));
	EXPECT(cudaStreamSynchronize(l->stream) == cudaSuccess);
	uint8_t host[BYTES];
	EXPECT(cudaMemcpy(host, l->mem, BYTES, cudaMemcpyDeviceToHost) == cudaSuccess);
	for (size_t k = 0; k < BYTES; k++)
		EXPECT(host[k] == nranks);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Rank 0 frees the memory, before or after its window ends. The other ranks still read it. */
static void freed_rank(int32_t rank, int32_t nranks, void *arg)
{
	const bool *first = arg;
	struct life_rank l;

	life_begin(&l, rank, nranks);
	if (rank == 0) {
		if (*first)
			EXPECT_NCCL(ncclSuccess, ncclMemFree(l.mem));
		EXPECT_NCCL(ncclSuccess, ncclCommWindowDeregister(l.comm, l.win));
		if (!*first)
			EXPECT_NCCL(ncclSuccess, ncclMemFree(l.mem));
		EXPECT_NCCL(ncclSuccess, ncclMemAlloc((void **)&l.mem, BYTES));
		EXPECT(cudaMemset(l.mem, 0xee, BYTES) == cudaSuccess);
		EXPECT(cudaDeviceSynchronize() == cudaSuccess);
	}
	ranks_barrier();
	if (rank)
		life_read(&l, 0);
	for (int i = 0; i < 8; i++) /* messages about the memory are taken */
		life_sum(&l, nranks);
	if (rank) {
		life_read(&l, 0);
		EXPECT_NCCL(ncclSuccess, ncclCommWindowDeregister(l.comm, l.win));
	}
	for (int i = 0; i < 4; i++)
		life_sum(&l, nranks);
	life_end(&l);
}

START_TEST(memory_that_is_freed_stays_for_windows_of_other_processes)
{
	/* launches that look for messages about memory */
	static const char *const env[] = {"NCCL_PROTO=Simple", "NCCL_ALGO=Ring", NULL};

	for (uint64_t seed = 1; seed <= 6; seed += SAMPLE_THIN)
		ranks_run(
			&(struct ranks_config){.hosts = 1, .per_host = 3, .seed = seed, .env = env},
			freed_rank, &(bool){seed % 2});
}
END_TEST

/* Windows come and go in one buffer, with other sizes; also two at a time, which overlap. */
static void renewed_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct life_rank l;
	ncclWindow_t second;
	uint64_t before, after;

	(void)arg;
	life_begin(&l, rank, nranks);
	EXPECT_NCCL(ncclSuccess, ncclCommMemStats(l.comm, ncclStatGpuMemTotal, &before));
	for (int i = 0; i < 5; i++) {
		EXPECT_NCCL(ncclSuccess,
			    ncclCommWindowRegister(l.comm, l.mem + 4096 * i, 4096, &second, 0));
		EXPECT(second && second != l.win);
		life_sum(&l, nranks);
		EXPECT_NCCL(ncclSuccess, ncclCommWindowDeregister(l.comm, l.win));
		l.win = second;
	}
	/* the memory is the program's */
	EXPECT_NCCL(ncclSuccess, ncclCommMemStats(l.comm, ncclStatGpuMemTotal, &after));
	EXPECT(before == after);
	EXPECT_NCCL(ncclSuccess, ncclCommWindowDeregister(l.comm, l.win));
	life_end(&l);
}

START_TEST(windows_come_and_go)
{
	for (uint64_t seed = 1; seed <= 6; seed += SAMPLE_THIN)
		ranks_run(
			&(struct ranks_config){
				.hosts = 2, .per_host = 2, .per_proc = 1 + seed % 2, .seed = seed},
			renewed_rank, NULL);
}
END_TEST

/* ---- windows in use -------------------------------------------------------------------------- */

/* Rank 1 launches late, so the kernel of rank 0 runs until then. */
static void used_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct life_rank l;

	(void)arg;
	life_begin(&l, rank, nranks);
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	EXPECT_NCCL(ncclSuccess,
		    ncclAllReduce(l.mem + 4096, l.mem, 4096, ncclInt8, ncclSum, l.comm, l.stream));
	if (rank == 1) {
		EXPECT_NCCL(ncclInvalidUsage, ncclCommWindowDeregister(l.comm, l.win));
		EXPECT_ERROR_SAYS("a call of the open group uses window");
		ranks_barrier();
		EXPECT_NCCL(ncclInvalidUsage, ncclGroupEnd());
		EXPECT_NCCL(ncclSuccess, ncclAllReduce(l.mem + 4096, l.mem, 4096, ncclInt8, ncclSum,
						       l.comm, l.stream));
	} else {
		EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
		EXPECT_NCCL(ncclInvalidUsage, ncclCommWindowDeregister(l.comm, l.win));
		EXPECT_ERROR_SAYS("a call that uses window");
		ranks_barrier();
	}
	EXPECT(cudaStreamSynchronize(l.stream) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommWindowDeregister(l.comm, l.win));
	life_end(&l);
}

/* Memory that other calls use does not keep a window. */
static void unused_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct life_rank l;
	void *other;

	(void)arg;
	life_begin(&l, rank, nranks);
	EXPECT(cudaMalloc(&other, 4096) == cudaSuccess);
	life_sum(&l, nranks);
	if (rank == 1)
		ranks_barrier();
	EXPECT_NCCL(ncclSuccess,
		    ncclAllReduce(other, other, 4096, ncclInt8, ncclSum, l.comm, l.stream));
	if (rank == 0) {
		EXPECT(cudaStreamQuery(l.stream) == cudaErrorNotReady);
		EXPECT_NCCL(ncclSuccess, ncclCommWindowDeregister(l.comm, l.win));
		ranks_barrier();
	} else {
		EXPECT(cudaStreamSynchronize(l.stream) == cudaSuccess);
		EXPECT_NCCL(ncclSuccess, ncclCommWindowDeregister(l.comm, l.win));
	}
	EXPECT(cudaStreamSynchronize(l.stream) == cudaSuccess);
	EXPECT(cudaFree(other) == cudaSuccess);
	life_end(&l);
}

START_TEST(window_in_use_is_not_deregistered)
{
	const struct ranks_config c = {.hosts = 1, .per_host = 2, .seed = 3};

	ranks_run(&c, used_rank, NULL);
	ranks_run(&c, unused_rank, NULL);
}
END_TEST

/* CUDA does not report whether the last launch has ended. */
static void unknown_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct life_rank l;

	(void)arg;
	life_begin(&l, rank, nranks);
	life_sum(&l, nranks);
	if (rank == 0) {
		EXPECT_NCCL(ncclUnhandledCudaError, ncclCommWindowDeregister(l.comm, l.win));
		EXPECT_ERROR_SAYS("the query before a window is deregistered");
	}
	ranks_barrier();
	EXPECT_NCCL(ncclSuccess, ncclCommWindowDeregister(l.comm, l.win));
	life_end(&l);
}

START_TEST(window_stays_if_the_end_of_its_launch_is_unknown)
{
	const struct ranks_config c = {.hosts = 1,
				       .per_host = 2,
				       .seed = 3,
				       .fault_plan = "cuda.event_query rank=0 nth=1 fail\n"};

	ranks_run(&c, unknown_rank, NULL);
}
END_TEST

/* ---- communicators with windows -------------------------------------------------------------- */

/* `p` is an address of the ended communicator's window. */
static void ended_check(ncclWindow_t win)
{
	void *p;

	EXPECT_NCCL(ncclInvalidArgument, ncclGetPeerDevicePointer(win, 0, 0, &p));
	EXPECT_ERROR_SAYS("is no window");
}

static void destroyed_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct life_rank l;
	ncclWindow_t win;

	(void)arg;
	life_begin(&l, rank, nranks);
	EXPECT_NCCL(ncclSuccess, ncclCommWindowRegister(l.comm, l.mem, 4096, &win, 0));
	life_sum(&l, nranks);
	life_end(&l);
	ranks_barrier();
	ended_check(win);
}

static void aborted_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct life_rank l;

	(void)arg;
	life_begin(&l, rank, nranks);
	for (int i = 0; i < 3; i++)
		EXPECT_NCCL(ncclSuccess, ncclAllReduce(l.mem, l.mem, BYTES, ncclUint8, ncclSum,
						       l.comm, l.stream));
	os_sleep_ns(1000 * (uint64_t)(rank * 17 % 50));
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(l.comm));
	EXPECT_NCCL(ncclSuccess, ncclMemFree(l.mem));
	EXPECT(cudaStreamDestroy(l.stream) == cudaSuccess);
}

static void revoked_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct life_rank l;
	ncclWindow_t win;
	void *p;

	(void)arg;
	life_begin(&l, rank, nranks);
	life_sum(&l, nranks);
	EXPECT_NCCL(ncclSuccess, ncclCommRevoke(l.comm, 0));
	EXPECT_NCCL(ncclInvalidUsage, ncclGetPeerDevicePointer(l.win, 0, !rank, &p));
	EXPECT_ERROR_SAYS("was revoked");
	EXPECT_NCCL(ncclSuccess, ncclGetPeerDevicePointer(l.win, 0, rank, &p));
	EXPECT(p == l.mem);
	EXPECT_NCCL(ncclInvalidUsage, ncclCommWindowRegister(l.comm, l.mem, BYTES, &win, 0));
	if (rank)
		EXPECT_NCCL(ncclSuccess, ncclCommWindowDeregister(l.comm, l.win));
	life_end(&l);
}

static void suspended_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct life_rank l;
	ncclWindow_t win;

	(void)arg;
	life_begin(&l, rank, nranks);
	life_sum(&l, nranks);
	EXPECT_NCCL(ncclSuccess, ncclCommSuspend(l.comm, NCCL_SUSPEND_MEM));
	EXPECT_NCCL(ncclInvalidUsage, ncclCommWindowRegister(l.comm, l.mem, BYTES, &win, 0));
	EXPECT(cudaMemset(l.mem, rank + 1, BYTES) == cudaSuccess);
	EXPECT(cudaDeviceSynchronize() == cudaSuccess);
	ranks_barrier();
	life_read(&l, rank ^ 1); /* windows stay mapped */
	ranks_barrier();
	EXPECT_NCCL(ncclSuccess, ncclCommResume(l.comm));
	life_sum(&l, nranks);
	EXPECT_NCCL(ncclSuccess, ncclCommWindowDeregister(l.comm, l.win));
	life_end(&l);
}

/* A child has none of its parent's windows, also if it shares with it. Its own outlast the
 * parent's. */
static void child_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	struct life_rank l;
	ncclComm_t child;
	ncclWindow_t win;

	(void)arg;
	config.splitShare = 1;
	life_begin(&l, rank, nranks);
	EXPECT_NCCL(ncclSuccess, ncclCommSplit(l.comm, 0, rank, &child, &config));
	EXPECT_NCCL(ncclInvalidArgument, ncclCommWindowDeregister(child, l.win));
	EXPECT_NCCL(ncclSuccess, ncclCommWindowRegister(child, l.mem, BYTES, &win, 0));
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(l.comm));
	l.comm = child;
	l.win = win;
	life_read(&l, rank ^ 1);
	ranks_barrier();
	life_sum(&l, nranks);
	EXPECT_NCCL(ncclSuccess, ncclCommWindowDeregister(child, win));
	life_end(&l);
}

START_TEST(communicators_with_windows_give_everything_back)
{
	static void (*const all[])(int32_t rank, int32_t nranks, void *arg) = {
		destroyed_rank, aborted_rank, revoked_rank, suspended_rank, child_rank};
	static const char *const cumem[] = {"NCCL_CUMEM_ENABLE=1", NULL};

	for (uint64_t seed = 1; seed <= 6; seed += SAMPLE_THIN) {
		ranks_run(
			&(struct ranks_config){
				.hosts = 1, .per_host = 2, .seed = seed, .env = cumem},
			all[_i], NULL);
		if (all[_i] != revoked_rank)
			ranks_run(&(struct ranks_config){.hosts = 2,
							 .per_host = 4,
							 .per_proc = 2,
							 .seed = seed,
							 .machine = "h100-8nic"},
				  all[_i], NULL);
	}
}
END_TEST

/* ---- ranks that fail or do not come ---------------------------------------------------------- */

/* Rank 0 does not register, and aborts instead. */
static void missing_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm = comm_open(rank, nranks, ranks_id());
	ncclWindow_t win = (ncclWindow_t)&win;
	void *mem;

	(void)arg;
	EXPECT_NCCL(ncclSuccess, ncclMemAlloc(&mem, BYTES));
	if (rank) {
		EXPECT_NCCL(ncclRemoteError, ncclCommWindowRegister(comm, mem, BYTES, &win, 0));
		EXPECT(!win);
	}
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(comm));
	EXPECT_NCCL(ncclSuccess, ncclMemFree(mem));
}

START_TEST(rank_that_aborts_ends_the_wait_of_the_others)
{
	ranks_run(&(struct ranks_config){.hosts = 2, .per_host = 2, .seed = 4}, missing_rank, NULL);
}
END_TEST

/* The last rank does not register: with a deadline, each rank learns of it. */
static void late_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct deadline_rank r = {.rank = rank};
	ncclWindow_t win = (ncclWindow_t)&win;
	void *mem;

	(void)arg;
	deadline_open(&r, rank, nranks);
	EXPECT_NCCL(ncclSuccess, ncclMemAlloc(&mem, BYTES));
	if (rank != nranks - 1) {
		EXPECT_NCCL(ncclTimeout, ncclCommWindowRegister(r.comm, mem, BYTES, &win, 0));
		EXPECT(!win);
	}
	EXPECT_NCCL(ncclTimeout, deadline_poll(&r));
	if (rank == nranks - 1) {
		EXPECT_ERROR_SAYS("resume, window) of ");
		EXPECT_ERROR_SAYS("; rank 3 has not called it");
	}
	ranks_barrier();
	deadline_close(&r);
	EXPECT_NCCL(ncclSuccess, ncclMemFree(mem));
}

START_TEST(a_rank_that_is_absent_from_a_window_is_named)
{
	static const char *const env[] = {"DOPPEL_TIMEOUT_MS=5000", NULL};

	ranks_run(&(struct ranks_config){.hosts = 2, .per_host = 2, .seed = 3, .env = env},
		  late_rank, NULL);
}
END_TEST

#define LOST_FIRST 60
#define LOST_LAST  130

struct lost {
	shared_u32 failed, registered;
};

static void lost_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct lost *lost = arg;
	ncclComm_t comm = NULL;
	ncclWindow_t win = NULL;
	ncclResult_t rc;
	void *mem;

	EXPECT(cudaSetDevice((int)comm_device(rank)) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclMemAlloc(&mem, BYTES));
	rc = ncclCommInitRank(&comm, nranks, ranks_id(), rank);
	for (int i = 0; i < 3 && !rc; i++) {
		rc = ncclCommWindowRegister(comm, mem, BYTES, &win, 0);
		EXPECT(!rc == (win != NULL));
		shared_add_u32(rc ? &lost->failed : &lost->registered, 1, SHARED_RELAXED);
		if (!rc)
			rc = ncclCommWindowDeregister(comm, win);
	}
	if (comm)
		(void)ncclCommDestroy(comm);
	EXPECT_NCCL(ncclSuccess, ncclMemFree(mem));
}

START_TEST(a_reset_while_windows_are_registered_is_an_error_for_all)
{
	struct lost l = {0};

	for (int nth = LOST_FIRST; nth <= LOST_LAST; nth += SAMPLE_THIN) {
		char plan[64];
		struct ranks_config c = {
			.hosts = 1, .per_host = 3, .seed = (uint64_t)nth, .fault_plan = plan};

		snprintf(plan, sizeof plan, "os.socket rank=1 nth=%d reset\n", nth);
		ranks_run(&c, lost_rank, &l);
	}
	ck_assert_uint_gt(shared_load_u32(&l.failed, SHARED_RELAXED), 0);
	ck_assert_uint_gt(shared_load_u32(&l.registered, SHARED_RELAXED), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("windows_life");
	TCase *t = tcase_create("life");

	tcase_set_timeout(t, 0);
	tcase_add_test(t, memory_that_is_freed_stays_for_windows_of_other_processes);
	tcase_add_test(t, windows_come_and_go);
	tcase_add_test(t, window_in_use_is_not_deregistered);
	tcase_add_test(t, window_stays_if_the_end_of_its_launch_is_unknown);
	tcase_add_loop_test(t, communicators_with_windows_give_everything_back, 0, 5);
	tcase_add_test(t, rank_that_aborts_ends_the_wait_of_the_others);
	tcase_add_test(t, a_rank_that_is_absent_from_a_window_is_named);
	tcase_add_test(t, a_reset_while_windows_are_registered_is_an_error_for_all);
	suite_add_tcase(s, t);
	return suite_run(s);
}
