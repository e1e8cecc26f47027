/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Non-blocking communicators from a program's side: inits and finalizes that go on while the
 * program does something else, and their ends.
 */
#include <check.h>
#include <cuda_runtime_api.h>
#include <string.h>

#include "tests/sim/comm/comm_rank.h"
#include "tests/suite.h"

/* ---- init ----------------------------------------------------------------------------------- */

static void nonblocking_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclComm_t comm = NULL;
	cudaStream_t stream;
	ncclResult_t state;
	void *mem;
	int n;
	config.blocking = 0;
	comm_buffers(rank, &mem, &stream, 4096);
	ncclUniqueId id = ranks_id();
	EXPECT_NCCL(ncclInProgress, ncclCommInitRankConfig(&comm, nranks, id, rank, &config));
	EXPECT(comm != NULL);
	if (nranks > 1 && rank == 0) {
		/* no other rank has begun */
		EXPECT_NCCL(ncclInvalidUsage, ncclCommCount(comm, &n));
		EXPECT_ERROR_SAYS("not initialised yet");
	}
	do
		EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(comm, &state));
	while (state == ncclInProgress);
	EXPECT(state == ncclSuccess);
	comm_sum(comm, rank, nranks, mem, stream, 10);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	comm_buffers_free(mem, stream);
}

START_TEST(a_nonblocking_init_is_in_progress_until_it_is_done)
{
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct ranks_config c = {.hosts = 2, .per_host = 1, .seed = seed};
		ranks_run(&c, nonblocking_rank, NULL);
	}
	struct ranks_config c = {.hosts = 1, .per_host = 2, .engine = SIM_ENGINE_THREADS};
	ranks_run(&c, nonblocking_rank, NULL);
}
END_TEST

static shared_u32 refused; /* ranks of the run that were refused */

/* Inits wait for rank 1, which never comes, and are ended by their own tasks. Each rank ends after
 * all were refused: a rank that learns of another one's end gets that error instead. */
static void end_in_init_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclResult_t (*end)(ncclComm_t comm) = *(ncclResult_t(**)(ncclComm_t))arg;
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclComm_t comm = NULL;
	ncclUniqueId id = ranks_id();

	config.blocking = 0;
	if (rank == 1)
		return;
	EXPECT_NCCL(ncclInProgress, ncclCommInitRankConfig(&comm, nranks, id, rank, &config));
	os_sleep_ns(2000000);
	EXPECT_NCCL(ncclInvalidUsage, ncclCommFinalize(comm));
	shared_add_u32(&refused, 1, SHARED_ACQ_REL);
	while (shared_load_u32(&refused, SHARED_ACQUIRE) < (uint32_t)(nranks - 1))
		os_sleep_ns(100000);
	EXPECT_NCCL(ncclSuccess, end(comm));
}

START_TEST(abort_and_destroy_end_an_init_whose_peers_never_come)
{
	ncclResult_t (*end[])(ncclComm_t comm) = {ncclCommAbort, ncclCommDestroy};
	struct ranks_config threads = {
		.hosts = 2, .per_host = 2, .per_proc = 2, .engine = SIM_ENGINE_THREADS};

	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct ranks_config c = {.hosts = 2, .per_host = 1, .seed = seed};

		shared_store_u32(&refused, 0, SHARED_RELAXED);
		ranks_run(&c, end_in_init_rank, &end[_i]);
	}
	shared_store_u32(&refused, 0, SHARED_RELAXED);
	ranks_run(&threads, end_in_init_rank, &end[_i]);
}
END_TEST

/* Rank 0 destroys its communicator while the others are in their inits: these end too. */
static void destroy_while_others_init_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclComm_t comm = NULL;
	ncclUniqueId id = ranks_id();
	ncclResult_t state;

	(void)arg;
	config.blocking = 0;
	EXPECT_NCCL(ncclInProgress, ncclCommInitRankConfig(&comm, nranks, id, rank, &config));
	if (rank == 0) {
		EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
		return;
	}
	do
		EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(comm, &state));
	while (state == ncclInProgress);
	EXPECT(state == ncclRemoteError);
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(comm));
}

START_TEST(destroy_of_a_rank_in_its_init_ends_the_inits_of_the_others)
{
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct ranks_config c = {.hosts = 2, .per_host = 2, .seed = seed};
		ranks_run(&c, destroy_while_others_init_rank, NULL);
	}
}
END_TEST

/* An earlier call of rank 1 failed, which is not the reason for its abort. */
static void abort_after_another_error_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclResult_t state = ncclInProgress;
	ncclComm_t comm = NULL;
	ncclUniqueId id = ranks_id();
	int n;

	(void)arg;
	config.blocking = 0;
	if (rank == 1)
		EXPECT_NCCL(ncclInvalidArgument, ncclCommCount(NULL, &n));
	EXPECT_NCCL(ncclInProgress, ncclCommInitRankConfig(&comm, nranks, id, rank, &config));
	while (rank == 0 && state == ncclInProgress)
		EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(comm, &state));
	if (rank == 0) {
		EXPECT(state == ncclRemoteError);
		EXPECT(!strstr(ncclGetLastError(comm), "ncclCommCount"));
	}
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(comm));
}

START_TEST(an_abort_in_init_is_not_explained_by_an_older_error)
{
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct ranks_config c = {.hosts = 2, .per_host = 1, .seed = seed};
		ranks_run(&c, abort_after_another_error_rank, NULL);
	}
}
END_TEST

/* ---- a communicator and what is reduced in it
 * --------------------------------------------------- */

struct work {
	ncclComm_t comm;
	cudaStream_t stream;
	void *mem;
};

static ncclComm_t work_comm(int32_t rank, int32_t nranks, int blocking)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclComm_t comm = NULL;
	ncclResult_t rc, state;

	config.blocking = blocking;
	EXPECT(cudaSetDevice((int)comm_device(rank)) == cudaSuccess);
	rc = ncclCommInitRankConfig(&comm, nranks, ranks_id(), rank, &config);
	EXPECT(rc == (blocking ? ncclSuccess : ncclInProgress));
	do
		EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(comm, &state));
	while (state == ncclInProgress);
	EXPECT_NCCL(ncclSuccess, state);
	return comm;
}

static struct work work_begin(int32_t rank, int32_t nranks, int blocking)
{
	struct work w = {.comm = work_comm(rank, nranks, blocking)};

	comm_buffers(rank, &w.mem, &w.stream, 4096);
	return w;
}

static ncclResult_t work_reduce(const struct work *w)
{
	return ncclAllReduce(w->mem, w->mem, 10, ncclInt32, ncclSum, w->comm, w->stream);
}

static void work_end(const struct work *w, ncclResult_t (*end)(ncclComm_t comm))
{
	EXPECT_NCCL(ncclSuccess, end(w->comm));
	comm_buffers_free(w->mem, w->stream);
}

/* ---- finalize ------------------------------------------------------------------------------- */

/* The last rank calls its collective only when all others have returned from their finalize: one
 * that waits for the collective never returns. */
static void finalize_rank(int32_t rank, int32_t nranks, void *arg)
{
	bool late = rank == nranks - 1, poll = *(bool *)arg;
	struct work w = work_begin(rank, nranks, 0);
	ncclResult_t state = ncclInternalError;
	int n;

	if (late)
		ranks_barrier();
	EXPECT_NCCL(ncclSuccess, work_reduce(&w));
	EXPECT_NCCL(ncclInProgress, ncclCommFinalize(w.comm));
	if (!late) {
		EXPECT_NCCL(ncclInvalidUsage, ncclCommFinalize(w.comm));
		EXPECT_ERROR_SAYS("ncclCommFinalize: the communicator is being finalized");
		EXPECT_NCCL(ncclInvalidUsage, ncclCommCount(w.comm, &n));
		EXPECT_NCCL(ncclInvalidUsage,
			    ncclAllReduce(w.mem, w.mem, 1, ncclInt32, ncclSum, w.comm, w.stream));
		EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(w.comm, &state));
		EXPECT(state == ncclInProgress);
		ranks_barrier();
	}
	state = ncclInProgress;
	while (poll && state == ncclInProgress)
		EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(w.comm, &state));
	if (poll) {
		EXPECT(state == ncclSuccess);
		EXPECT(cudaStreamQuery(w.stream) == cudaSuccess);
		EXPECT_NCCL(ncclSuccess, ncclCommCount(w.comm, &n));
	}
	work_end(&w, ncclCommDestroy);
}

START_TEST(a_nonblocking_finalize_is_in_progress_until_its_collectives_are_done)
{
	for (int poll = 0; poll < 2; poll++) {
		bool arg = poll;
		struct ranks_config threads = {
			.hosts = 1, .per_host = 2, .engine = SIM_ENGINE_THREADS};

		for (uint64_t seed = 1; seed <= 10; seed++) {
			struct ranks_config c = {.hosts = 1 + seed % 2,
						 .per_host = 2,
						 .per_proc = 1 + seed / 2 % 2,
						 .seed = seed};
			ranks_run(&c, finalize_rank, &arg);
		}
		ranks_run(&threads, finalize_rank, &arg);
	}
}
END_TEST

/* The last rank aborts instead: the others' finalize ends with an error. */
static void finalize_fails_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct work w = work_begin(rank, nranks, 0);
	ncclResult_t state = ncclInProgress;

	(void)arg;
	ranks_barrier(); /* every init is done */
	if (rank == nranks - 1) {
		work_end(&w, ncclCommAbort);
		return;
	}
	ncclResult_t rc = work_reduce(&w);
	if (!rc)
		rc = ncclCommFinalize(w.comm);
	EXPECT(rc == ncclInProgress || rc == ncclRemoteError);
	while (state == ncclInProgress)
		EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(w.comm, &state));
	EXPECT(state == ncclRemoteError);
	work_end(&w, ncclCommAbort);
}

START_TEST(a_nonblocking_finalize_ends_with_the_error_of_another_rank)
{
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct ranks_config c = {.hosts = 1 + seed % 2, .per_host = 2, .seed = seed};
		ranks_run(&c, finalize_fails_rank, NULL);
	}
}
END_TEST

static void finalize_blocking_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct work w = work_begin(rank, nranks, 1);

	(void)arg;
	EXPECT_NCCL(ncclSuccess, work_reduce(&w));
	EXPECT_NCCL(ncclSuccess, ncclCommFinalize(w.comm));
	EXPECT(cudaStreamQuery(w.stream) == cudaSuccess);
	work_end(&w, ncclCommDestroy);
}

START_TEST(a_blocking_finalize_returns_when_its_collectives_are_done)
{
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct ranks_config c = {.hosts = 1 + seed % 2, .per_host = 2, .seed = seed};
		ranks_run(&c, finalize_blocking_rank, NULL);
	}
}
END_TEST

/* ---- the first message
 * ------------------------------------------------------------------------ */

static ncclResult_t message_group(int32_t rank, const struct work *w)
{
	ncclResult_t rc;

	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	rc = rank ? ncclRecv(w->mem, 1000, ncclInt8, 0, w->comm, w->stream)
		  : ncclSend(w->mem, 1000, ncclInt8, 1, w->comm, w->stream);
	EXPECT_NCCL(ncclSuccess, rc);
	return ncclGroupEnd();
}

/* Rank 1 receives only when rank 0 has returned from its send: a send that waits for rank 1 never
 * returns. */
static void message_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct work w = work_begin(rank, nranks, 0);
	ncclResult_t state = ncclInProgress;
	uint8_t sent[1000], got[1000];
	int n;

	(void)arg;
	memset(sent, rank ? 0 : 77, sizeof sent);
	EXPECT(cudaMemcpyAsync(w.mem, sent, sizeof sent, cudaMemcpyHostToDevice, w.stream) ==
	       cudaSuccess);
	if (rank)
		ranks_barrier();
	EXPECT_NCCL(ncclInProgress, message_group(rank, &w));
	if (!rank) {
		EXPECT_NCCL(ncclInvalidUsage, ncclCommCount(w.comm, &n));
		EXPECT_ERROR_SAYS("connecting ranks for a launch");
		EXPECT_NCCL(ncclInvalidUsage, ncclSend(w.mem, 1, ncclInt8, 1, w.comm, w.stream));
		EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(w.comm, &state));
		EXPECT(state == ncclInProgress);
		ranks_barrier();
	}
	do
		EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(w.comm, &state));
	while (state == ncclInProgress);
	EXPECT_NCCL(ncclSuccess, state);
	/* what is connected launches in the call */
	EXPECT_NCCL(ncclSuccess, message_group(rank, &w));
	EXPECT(cudaMemcpyAsync(got, w.mem, sizeof got, cudaMemcpyDeviceToHost, w.stream) ==
	       cudaSuccess);
	EXPECT(cudaStreamSynchronize(w.stream) == cudaSuccess);
	EXPECT(got[0] == 77 && got[999] == 77);
	work_end(&w, ncclCommDestroy);
}

START_TEST(the_first_message_of_a_nonblocking_communicator_is_in_progress)
{
	struct ranks_config threads = {.per_host = 2, .engine = SIM_ENGINE_THREADS};

	for (uint64_t seed = 1; seed <= 20; seed++) {
		bool two = seed % 2;
		struct ranks_config c = {.hosts = two ? 2 : 1,
					 .per_host = two ? 1 : 2,
					 .per_proc = 1 + seed / 2 % 2,
					 .seed = seed};
		ranks_run(&c, message_rank, NULL);
	}
	ranks_run(&threads, message_rank, NULL);
}
END_TEST

/* Rank 1 never receives. Rank 0's launch is ended by its own abort, or by rank 1's. */
static void message_ends_rank(int32_t rank, int32_t nranks, void *arg)
{
	bool other = *(bool *)arg;
	struct work w = work_begin(rank, nranks, 0);
	ncclResult_t state = ncclInProgress;

	ranks_barrier(); /* every init is done */
	if (!rank)
		EXPECT_NCCL(ncclInProgress, message_group(rank, &w));
	ranks_barrier();
	if (rank != other) {
		while (state == ncclInProgress || state == ncclSuccess)
			EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(w.comm, &state));
		EXPECT(state == ncclRemoteError);
	}
	work_end(&w, ncclCommAbort);
}

START_TEST(a_launch_that_connects_ends_with_an_abort_of_either_rank)
{
	bool other = _i;

	for (uint64_t seed = 1; seed <= 10; seed++) {
		bool two = seed % 2;
		struct ranks_config c = {
			.hosts = two ? 2 : 1, .per_host = two ? 1 : 2, .seed = seed};
		ranks_run(&c, message_ends_rank, &other);
	}
}
END_TEST

static void message_destroy_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct work w = work_begin(rank, nranks, 0);

	(void)arg;
	EXPECT_NCCL(ncclInProgress, message_group(rank, &w));
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(w.comm));
	EXPECT(cudaStreamQuery(w.stream) == cudaSuccess);
	comm_buffers_free(w.mem, w.stream);
}

START_TEST(destroy_waits_for_a_launch_that_connects)
{
	struct ranks_config threads = {.per_host = 2, .engine = SIM_ENGINE_THREADS};

	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct ranks_config c = {.hosts = 2, .per_host = 1, .seed = seed};
		ranks_run(&c, message_destroy_rank, NULL);
	}
	ranks_run(&threads, message_destroy_rank, NULL);
}
END_TEST

static void moment_reached(void *arg)
{
	*(bool *)arg = true;
}

/* The task of rank 0's launch stops for ten seconds at each of its points in turn, the last ones
 * after everything for which the program can wait: no task may be alive when its process ends. */
START_TEST(the_task_of_a_launch_ends_before_its_process)
{
	static void (*const fn[])(int32_t rank, int32_t nranks, void *arg) = {message_ends_rank,
									      message_destroy_rank};
	bool other = false, reached = true;

	for (uint64_t nth = 1; reached; nth++) {
		struct ranks_config c = {
			.hosts = 2,
			.moment = {.task = "rank0 launch",
				   .nth = nth,
				   .hold_ns = 10000000000ull,
				   .fn = moment_reached,
				   .arg = &reached},
		};
		reached = false;
		ranks_run(&c, fn[_i], &other);
		ck_assert(reached || nth > 10);
	}
}
END_TEST

static Suite *nonblocking_suite(void)
{
	Suite *s = suite_create("comm_nonblocking");
	TCase *t = tcase_create("comm_nonblocking");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, a_nonblocking_init_is_in_progress_until_it_is_done);
	tcase_add_loop_test(t, abort_and_destroy_end_an_init_whose_peers_never_come, 0, 2);
	tcase_add_test(t, destroy_of_a_rank_in_its_init_ends_the_inits_of_the_others);
	tcase_add_test(t, an_abort_in_init_is_not_explained_by_an_older_error);
	tcase_add_test(t, a_nonblocking_finalize_is_in_progress_until_its_collectives_are_done);
	tcase_add_test(t, a_nonblocking_finalize_ends_with_the_error_of_another_rank);
	tcase_add_test(t, a_blocking_finalize_returns_when_its_collectives_are_done);
	tcase_add_test(t, the_first_message_of_a_nonblocking_communicator_is_in_progress);
	tcase_add_loop_test(t, a_launch_that_connects_ends_with_an_abort_of_either_rank, 0, 2);
	tcase_add_test(t, destroy_waits_for_a_launch_that_connects);
	tcase_add_loop_test(t, the_task_of_a_launch_ends_before_its_process, 0, 2);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return suite_run(nonblocking_suite());
}
