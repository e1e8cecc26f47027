/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ncclCommSuspend and ncclCommResume, from a program's side: what is freed, what is refused
 * meanwhile, and that everything goes on afterwards; communicators that end while suspended; ranks
 * that are driven by one task; non-blocking communicators; a rank that does not come.
 */
#include <check.h>
#include <cuda_runtime_api.h>

#include "tests/sim/comm/comm_rank.h"
#include "tests/suite.h"

#define SUSPEND_COUNT  1000
#define SUSPEND_ROUNDS 2
#define SUSPEND_ABORTS 60

static const char *const suspend_env[] = {"NCCL_CUMEM_ENABLE=1", "NCCL_MAX_NCHANNELS=2", NULL};

struct suspend_rank {
	ncclComm_t comm;
	cudaStream_t stream;
	int32_t *mem;
	int32_t rank, nranks;
};

static void suspend_begin(struct suspend_rank *r, int32_t rank, int32_t nranks)
{
	*r = (struct suspend_rank){.rank = rank, .nranks = nranks};
	comm_buffers(rank, (void **)&r->mem, &r->stream, SUSPEND_COUNT * 4);
	r->comm = comm_open(rank, nranks, ranks_id());
}

static uint64_t suspend_stat(const struct suspend_rank *r, ncclCommMemStat_t stat)
{
	uint64_t value = ~0ull;

	EXPECT_NCCL(ncclSuccess, ncclCommMemStats(r->comm, stat, &value));
	return value;
}

static size_t suspend_free_bytes(void)
{
	size_t bytes, total;

	EXPECT(cudaMemGetInfo(&bytes, &total) == cudaSuccess);
	return bytes;
}

/* A message to each neighbour in a ring; the first ones make connections. */
static void suspend_exchange(const struct suspend_rank *r)
{
	int32_t *half = r->mem + SUSPEND_COUNT / 2, got = -1;
	int to = (r->rank + 1) % r->nranks, from = (r->rank + r->nranks - 1) % r->nranks;

	EXPECT(cudaMemcpy(r->mem, &r->rank, 4, cudaMemcpyHostToDevice) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	EXPECT_NCCL(ncclSuccess, ncclSend(r->mem, 1, ncclInt32, to, r->comm, r->stream));
	EXPECT_NCCL(ncclSuccess, ncclRecv(half, 1, ncclInt32, from, r->comm, r->stream));
	EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
	EXPECT(cudaStreamSynchronize(r->stream) == cudaSuccess);
	EXPECT(cudaMemcpy(&got, half, 4, cudaMemcpyDeviceToHost) == cudaSuccess);
	EXPECT(got == from);
}

/* Suspends, checks what that frees and refuses, and resumes. */
static void suspend_round(const struct suspend_rank *r)
{
	uint64_t bytes = suspend_stat(r, ncclStatGpuMemSuspend);
	uint64_t total = suspend_stat(r, ncclStatGpuMemTotal);
	size_t before = suspend_free_bytes();
	ncclComm_t child = NULL;

	EXPECT(bytes && suspend_stat(r, ncclStatGpuMemPersist) == total - bytes);
	EXPECT(suspend_stat(r, ncclStatGpuMemSuspended) == 0);
	EXPECT_NCCL(ncclInvalidUsage, ncclCommResume(r->comm));
	EXPECT_ERROR_SAYS("ready, expected a suspended one");
	EXPECT_NCCL(ncclSuccess, ncclCommSuspend(r->comm, NCCL_SUSPEND_MEM));
	ranks_barrier(); /* other processes have unmapped it, too */
	EXPECT(suspend_free_bytes() == before + bytes);
	EXPECT(suspend_stat(r, ncclStatGpuMemSuspended) == 1);
	EXPECT(suspend_stat(r, ncclStatGpuMemSuspend) == bytes);
	EXPECT_NCCL(ncclInvalidUsage, ncclCommSuspend(r->comm, NCCL_SUSPEND_MEM));
	EXPECT_ERROR_SAYS("suspended; call ncclCommResume first");
	EXPECT_NCCL(ncclInvalidUsage,
		    ncclAllReduce(r->mem, r->mem, 1, ncclInt32, ncclSum, r->comm, r->stream));
	EXPECT_NCCL(ncclInvalidUsage, ncclCommSplit(r->comm, 0, 0, &child, NULL));
	EXPECT(!child);
	ranks_barrier();
	EXPECT_NCCL(ncclSuccess, ncclCommResume(r->comm));
	EXPECT(suspend_stat(r, ncclStatGpuMemSuspended) == 0);
	ranks_barrier();
	EXPECT(suspend_free_bytes() == before);
}

/* A call in the program's task keeps its current device. */
static void suspend_elsewhere(const struct suspend_rank *r)
{
	int own = (int)comm_device(r->rank), other = own + 1, now = -1;

	EXPECT(cudaSetDevice(other) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommSuspend(r->comm, NCCL_SUSPEND_MEM));
	EXPECT(cudaGetDevice(&now) == cudaSuccess && now == other);
	EXPECT_NCCL(ncclSuccess, ncclCommResume(r->comm));
	EXPECT(cudaGetDevice(&now) == cudaSuccess && now == other);
	EXPECT(cudaSetDevice(own) == cudaSuccess);
}

static void rounds_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct suspend_rank r;

	(void)arg;
	suspend_begin(&r, rank, nranks);
	for (int i = 0; i < SUSPEND_ROUNDS; i++) {
		for (size_t count = 1; count <= SUSPEND_COUNT; count *= SUSPEND_COUNT)
			comm_sum(r.comm, rank, nranks, r.mem, r.stream, count);
		if (i)
			suspend_exchange(&r);
		suspend_round(&r);
	}
	suspend_elsewhere(&r);
	comm_sum(r.comm, rank, nranks, r.mem, r.stream, SUSPEND_COUNT);
	suspend_exchange(&r);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(r.comm));
	comm_buffers_free(r.mem, r.stream);
}

START_TEST(everything_goes_on_after_a_communicator_is_resumed)
{
	static const char *const protos[] = {"NCCL_PROTO=LL", "NCCL_PROTO=LL128",
					     "NCCL_PROTO=SIMPLE"};
	struct ranks_config threads = {
		.per_host = 4, .per_proc = 2, .env = suspend_env, .engine = SIM_ENGINE_THREADS};

	for (uint64_t seed = 1; seed <= 6; seed++) {
		const char *env[] = {suspend_env[0], suspend_env[1], protos[seed % 3], NULL};
		struct ranks_config c = {.hosts = 1 + (uint32_t)seed % 2,
					 .per_host = 4,
					 .per_proc = 1u << seed % 3,
					 .env = env,
					 .seed = seed};
		ranks_run(&c, rounds_rank, NULL);
	}
	ranks_run(&threads, rounds_rank, NULL);
}
END_TEST

/* ---- ends ------------------------------------------------------------------------------------ */

enum suspend_end { END_DESTROY, END_FINALIZE, END_ABORT, END_REVOKE, END_COUNT };

static void ends_rank(int32_t rank, int32_t nranks, void *arg)
{
	enum suspend_end end = *(enum suspend_end *)arg;
	ncclComm_t child = NULL;
	struct suspend_rank r;

	suspend_begin(&r, rank, nranks);
	comm_sum(r.comm, rank, nranks, r.mem, r.stream, SUSPEND_COUNT);
	EXPECT_NCCL(ncclSuccess, ncclCommSuspend(r.comm, NCCL_SUSPEND_MEM));
	ranks_barrier();
	if (end == END_FINALIZE)
		EXPECT_NCCL(ncclSuccess, ncclCommFinalize(r.comm));
	if (end == END_REVOKE) {
		EXPECT_NCCL(ncclSuccess, ncclCommRevoke(r.comm, NCCL_REVOKE_DEFAULT));
		EXPECT_NCCL(ncclSuccess, ncclCommSplit(r.comm, 0, rank, &child, NULL));
		comm_sum(child, rank, nranks, r.mem, r.stream, SUSPEND_COUNT);
		EXPECT_NCCL(ncclSuccess, ncclCommDestroy(child));
	}
	EXPECT_NCCL(ncclSuccess,
		    end == END_ABORT ? ncclCommAbort(r.comm) : ncclCommDestroy(r.comm));
	comm_buffers_free(r.mem, r.stream);
}

START_TEST(a_suspended_communicator_ends_like_any_other)
{
	for (uint64_t seed = 1; seed <= 12; seed++) {
		enum suspend_end end = (enum suspend_end)(seed % END_COUNT);
		struct ranks_config c = {.hosts = 2,
					 .per_host = 2,
					 .per_proc = 1 + (uint32_t)seed / 4 % 2,
					 .env = suspend_env,
					 .seed = seed};
		ranks_run(&c, ends_rank, &end);
	}
}
END_TEST

/* The last rank aborts instead of suspending, or of resuming. */
static void absent_rank(int32_t rank, int32_t nranks, void *arg)
{
	bool resumes = *(bool *)arg;
	struct suspend_rank r;

	suspend_begin(&r, rank, nranks);
	comm_sum(r.comm, rank, nranks, r.mem, r.stream, SUSPEND_COUNT);
	if (resumes)
		EXPECT_NCCL(ncclSuccess, ncclCommSuspend(r.comm, NCCL_SUSPEND_MEM));
	ranks_barrier();
	if (rank != nranks - 1)
		EXPECT_NCCL(ncclRemoteError, resumes ? ncclCommResume(r.comm)
						     : ncclCommSuspend(r.comm, NCCL_SUSPEND_MEM));
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(r.comm));
	comm_buffers_free(r.mem, r.stream);
}

START_TEST(ranks_get_an_error_if_one_of_them_aborts_instead)
{
	bool resumes[] = {false, true};

	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct ranks_config c = {.per_host = 3,
					 .per_proc = 1 + (uint32_t)seed / 2 % 3,
					 .env = suspend_env,
					 .seed = seed};
		ranks_run(&c, absent_rank, &resumes[seed % 2]);
	}
}
END_TEST

/* Another task of the rank aborts meanwhile. */
static void abort_task(void *arg)
{
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(*(ncclComm_t *)arg));
}

/* The call ends as one that an abort ends, or it came too late. */
static void aborted_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct os_thread_attr attr = {.name = "aborts", .rank = rank};
	bool resumes = *(bool *)arg;
	struct os_thread *task;
	struct suspend_rank r;

	suspend_begin(&r, rank, nranks);
	if (resumes)
		EXPECT_NCCL(ncclSuccess, ncclCommSuspend(r.comm, NCCL_SUSPEND_MEM));
	ranks_barrier();
	EXPECT(os_thread_start(&task, &attr, abort_task, &r.comm) == 0);
	ncclResult_t rc =
		resumes ? ncclCommResume(r.comm) : ncclCommSuspend(r.comm, NCCL_SUSPEND_MEM);

	EXPECT(os_thread_join(task) == 0);
	EXPECT(rc == ncclSuccess || rc == ncclInternalError || rc == ncclRemoteError ||
	       rc == ncclInvalidArgument);
	comm_buffers_free(r.mem, r.stream);
}

START_TEST(an_abort_by_another_task_ends_a_suspend)
{
	bool resumes[] = {false, true};

	for (uint64_t seed = 1; seed <= SUSPEND_ABORTS; seed++) {
		struct ranks_config c = {.per_host = 2,
					 .per_proc = 1 + (uint32_t)seed / 2 % 2,
					 .env = suspend_env,
					 .seed = seed};
		ranks_run(&c, aborted_rank, &resumes[seed % 2]);
	}
}
END_TEST

/* ---- groups and non-blocking communicators ------------------------------------------------- */

#define SUSPEND_GPUS 4

struct suspend_all {
	ncclComm_t comm[SUSPEND_GPUS];
	cudaStream_t stream[SUSPEND_GPUS];
	int32_t *mem[SUSPEND_GPUS];
};

static void all_wait(const struct suspend_all *a, ncclResult_t rc)
{
	for (int i = 0; i < SUSPEND_GPUS; i++) {
		ncclResult_t state = ncclInProgress;

		while (state == ncclInProgress)
			EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(a->comm[i], &state));
		EXPECT(state == ncclSuccess);
	}
	EXPECT(rc == ncclSuccess || rc == ncclInProgress);
}

static void all_open(struct suspend_all *a, int blocking)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclUniqueId id;

	config.blocking = blocking;
	EXPECT_NCCL(ncclSuccess, ncclGetUniqueId(&id));
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	for (int i = 0; i < SUSPEND_GPUS; i++) {
		EXPECT(cudaSetDevice(i) == cudaSuccess);
		EXPECT(cudaMalloc((void **)&a->mem[i], 4) == cudaSuccess);
		EXPECT(cudaStreamCreate(&a->stream[i]) == cudaSuccess);
		ncclResult_t rc = ncclCommInitRankConfig(&a->comm[i], SUSPEND_GPUS, id, i, &config);

		EXPECT(rc == ncclSuccess || rc == ncclInProgress);
	}
	all_wait(a, ncclGroupEnd());
}

static void all_change(const struct suspend_all *a, bool resumes)
{
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	for (int i = 0; i < SUSPEND_GPUS; i++) {
		ncclResult_t rc = resumes ? ncclCommResume(a->comm[i])
					  : ncclCommSuspend(a->comm[i], NCCL_SUSPEND_MEM);

		EXPECT(rc == ncclSuccess || rc == ncclInProgress);
	}
	all_wait(a, ncclGroupEnd());
}

static void all_sum(const struct suspend_all *a)
{
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	for (int i = 0; i < SUSPEND_GPUS; i++) {
		int32_t one = 1;

		EXPECT(cudaSetDevice(i) == cudaSuccess);
		EXPECT(cudaMemcpy(a->mem[i], &one, 4, cudaMemcpyHostToDevice) == cudaSuccess);
		EXPECT_NCCL(ncclSuccess, ncclAllReduce(a->mem[i], a->mem[i], 1, ncclInt32, ncclSum,
						       a->comm[i], a->stream[i]));
	}
	EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
	for (int i = 0; i < SUSPEND_GPUS; i++) {
		int32_t got = 0;

		EXPECT(cudaStreamSynchronize(a->stream[i]) == cudaSuccess);
		EXPECT(cudaMemcpy(&got, a->mem[i], 4, cudaMemcpyDeviceToHost) == cudaSuccess);
		EXPECT(got == SUSPEND_GPUS);
	}
}

static void all_close(const struct suspend_all *a)
{
	for (int i = 0; i < SUSPEND_GPUS; i++) {
		EXPECT(cudaSetDevice(i) == cudaSuccess);
		EXPECT_NCCL(ncclSuccess, ncclCommDestroy(a->comm[i]));
		comm_buffers_free(a->mem[i], a->stream[i]);
	}
}

static void group_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct suspend_all a;

	(void)rank;
	(void)nranks;
	all_open(&a, *(int *)arg);
	for (int i = 0; i < SUSPEND_ROUNDS; i++) {
		all_sum(&a);
		all_change(&a, false);
		all_change(&a, true);
	}
	all_sum(&a);
	all_change(&a, false);
	for (int i = 0; i < SUSPEND_GPUS; i++) {
		ncclResult_t rc = ncclCommFinalize(a.comm[i]);

		EXPECT(rc == ncclSuccess || rc == ncclInProgress);
	}
	all_wait(&a, ncclSuccess);
	EXPECT_NCCL(ncclInvalidUsage, ncclCommResume(a.comm[0]));
	EXPECT_ERROR_SAYS("finalized; only ncclCommDestroy or ncclCommAbort may follow");
	all_close(&a);
}

START_TEST(one_task_suspends_all_ranks_in_a_group)
{
	int blocking[] = {1, 0};

	for (uint64_t seed = 1; seed <= 6; seed++) {
		struct ranks_config c = {.env = suspend_env, .seed = seed};
		ranks_run(&c, group_rank, &blocking[seed % 2]);
	}
}
END_TEST

/* A group in which another call fails makes no change, and its communicators fail. */
static void failed_group_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct suspend_all a;
	ncclResult_t state = ncclSuccess;

	(void)rank;
	(void)nranks;
	(void)arg;
	all_open(&a, 1);
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	EXPECT_NCCL(ncclSuccess, ncclCommSuspend(a.comm[0], NCCL_SUSPEND_MEM));
	EXPECT_NCCL(ncclInvalidArgument, ncclCommSuspend(a.comm[1], NCCL_SUSPEND_MEM | 2));
	EXPECT_ERROR_SAYS("flags is 0x3, expected NCCL_SUSPEND_MEM (0x1)");
	EXPECT_NCCL(ncclInvalidArgument, ncclGroupEnd());
	EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(a.comm[0], &state));
	EXPECT(state == ncclInternalError);
	for (int i = 0; i < SUSPEND_GPUS; i++) {
		EXPECT_NCCL(ncclSuccess, ncclCommAbort(a.comm[i]));
		comm_buffers_free(a.mem[i], a.stream[i]);
	}
	EXPECT_NCCL(ncclInvalidArgument, ncclCommSuspend(NULL, NCCL_SUSPEND_MEM));
	EXPECT_NCCL(ncclInvalidArgument, ncclCommResume(NULL));
}

START_TEST(a_group_that_fails_suspends_nothing)
{
	struct ranks_config c = {.env = suspend_env, .seed = 1};

	ranks_run(&c, failed_group_rank, NULL);
}
END_TEST

/* Without cuMem there is nothing that can be suspended; the calls succeed. */
static void nothing_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct suspend_rank r;

	(void)arg;
	suspend_begin(&r, rank, nranks);
	comm_sum(r.comm, rank, nranks, r.mem, r.stream, SUSPEND_COUNT);
	EXPECT(suspend_stat(&r, ncclStatGpuMemSuspend) == 0);
	EXPECT_NCCL(ncclSuccess, ncclCommSuspend(r.comm, NCCL_SUSPEND_MEM));
	EXPECT(suspend_stat(&r, ncclStatGpuMemSuspended) == 1);
	EXPECT_NCCL(ncclSuccess, ncclCommResume(r.comm));
	comm_sum(r.comm, rank, nranks, r.mem, r.stream, SUSPEND_COUNT);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(r.comm));
	comm_buffers_free(r.mem, r.stream);
}

START_TEST(without_cumem_the_calls_free_nothing)
{
	static const char *const env[] = {"NCCL_CUMEM_ENABLE=0", NULL};
	struct ranks_config c = {.per_host = 2, .env = env, .seed = 1}, one = {.env = env};

	ranks_run(&c, nothing_rank, NULL);
	ranks_run(&one, nothing_rank, NULL);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("comm_suspend");
	TCase *tc = tcase_create("suspend, resume");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, everything_goes_on_after_a_communicator_is_resumed);
	tcase_add_test(tc, a_suspended_communicator_ends_like_any_other);
	tcase_add_test(tc, ranks_get_an_error_if_one_of_them_aborts_instead);
	tcase_add_test(tc, an_abort_by_another_task_ends_a_suspend);
	tcase_add_test(tc, one_task_suspends_all_ranks_in_a_group);
	tcase_add_test(tc, a_group_that_fails_suspends_nothing);
	tcase_add_test(tc, without_cumem_the_calls_free_nothing);
	suite_add_tcase(s, tc);
	return suite_run(s);
}
