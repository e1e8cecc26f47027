/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Failures of the outside at every moment: the k-th call of a kind fails, for every k up to the
 * last call. Each run ends by itself or by the program's abort, every call that fails logs a line,
 * and no object is left.
 */
#include <check.h>
#include <cuda_runtime_api.h>

#include "tests/ranks.h"
#include "tests/sample.h"
#include "tests/suite.h"

struct sweep {
	shared_u32 failed; /* some rank saw an error: all give up */
	bool nonblocking;
};

struct sweep_rank {
	struct sweep *all;
	int32_t rank;
	ncclComm_t comm;
	shared_u32 done;
	int32_t *mem;
	cudaStream_t stream;
};

/* Gives up on an init that has not ended some time after another rank failed. */
static void sweep_watchdog(void *arg)
{
	struct sweep_rank *me = arg;
	struct wait w[2] = {
		{.on = &me->done,
		 .want = 1,
		 .mask = WAIT_MASK_ALL,
		 .kind = WAIT_EQ,
		 .bytes = 4,
		 .why = "test: end of the init"},
		{.on = &me->all->failed,
		 .want = 1,
		 .mask = WAIT_MASK_ALL,
		 .kind = WAIT_EQ,
		 .bytes = 4,
		 .why = "test: failure of another rank"},
	};
	const struct wait *both[2] = {&w[0], &w[1]};
	int which = 0;
	EXPECT(os_wait(both, 2, NULL, &which) == 0);
	if (which == 1) {
		os_sleep_ns(5000000000ull); /* longer than connecting retries */
		if (!shared_load_u32(&me->done, SHARED_ACQUIRE) && me->comm)
			EXPECT_NCCL(ncclSuccess, ncclCommAbort(me->comm));
	}
}

static ncclResult_t sweep_init_blocking(struct sweep_rank *me, int32_t nranks)
{
	char name[32];
	struct os_thread_attr attr = {.name = name, .rank = me->rank};
	struct os_thread *dog;
	snprintf(name, sizeof name, "rank%d watchdog", me->rank);
	EXPECT(os_thread_start(&dog, &attr, sweep_watchdog, me) == 0);
	ncclResult_t rc = ncclCommInitRank(&me->comm, nranks, ranks_self()->all->id, me->rank);
	if (rc)
		shared_store_u32(&me->all->failed, 1, SHARED_RELEASE);
	shared_store_u32(&me->done, 1, SHARED_RELEASE);
	EXPECT(os_thread_join(dog) == 0);
	EXPECT((rc == ncclSuccess) == (me->comm != NULL));
	return rc;
}

static ncclResult_t sweep_poll(struct sweep_rank *me)
{
	ncclResult_t state = ncclSuccess;
	EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(me->comm, &state));
	if (state != ncclSuccess && state != ncclInProgress)
		return state;
	if (shared_load_u32(&me->all->failed, SHARED_ACQUIRE))
		return ncclRemoteError;
	return state;
}

static ncclResult_t sweep_init_nonblocking(struct sweep_rank *me, int32_t nranks)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	config.blocking = 0;
	ncclResult_t rc =
		ncclCommInitRankConfig(&me->comm, nranks, ranks_self()->all->id, me->rank, &config);
	while (rc == ncclInProgress)
		rc = sweep_poll(me);
	return rc;
}

static ncclResult_t sweep_buffers(struct sweep_rank *me)
{
	int dev = me->rank % 2;
	if (cudaSetDevice(dev) != cudaSuccess ||
	    cudaMalloc((void **)&me->mem, 4096) != cudaSuccess ||
	    cudaStreamCreateWithFlags(&me->stream, cudaStreamNonBlocking) != cudaSuccess)
		return ncclUnhandledCudaError;
	return ncclSuccess;
}

static ncclResult_t sweep_all_reduce(struct sweep_rank *me)
{
	ncclResult_t rc =
		ncclAllReduce(me->mem, me->mem, 1000, ncclInt32, ncclSum, me->comm, me->stream);
	while (!rc) {
		cudaError_t e = cudaStreamQuery(me->stream);
		if (e == cudaSuccess)
			return ncclSuccess;
		if (e != cudaErrorNotReady)
			return ncclUnhandledCudaError;
		rc = sweep_poll(me);
	}
	return rc;
}

static void sweep_rank_main(int32_t rank, int32_t nranks, void *arg)
{
	struct sweep *all = arg;
	struct sweep_rank me = {.all = all, .rank = rank};
	ncclResult_t rc = sweep_buffers(&me), id = ncclInternalError;

	if (rank == 0) {
		id = ncclGetUniqueId(&ranks_self()->all->id);
		rc = rc ? rc : id;
	}
	if (rc)
		shared_store_u32(&all->failed, 1, SHARED_RELEASE);
	ranks_barrier();
	bool begin = !shared_load_u32(&all->failed, SHARED_ACQUIRE);
	ranks_barrier();
	if (begin)
		rc = all->nonblocking ? sweep_init_nonblocking(&me, nranks)
				      : sweep_init_blocking(&me, nranks);
	else if (id == ncclSuccess)
		(void)ncclCommInitRank(&me.comm, 1, ranks_self()->all->id, 0); /* uses the id up */
	if (begin && !rc)
		rc = sweep_all_reduce(&me);
	if (rc)
		shared_store_u32(&all->failed, 1, SHARED_RELEASE);
	if (me.comm && (rc || shared_load_u32(&all->failed, SHARED_ACQUIRE)))
		EXPECT_NCCL(ncclSuccess, ncclCommAbort(me.comm));
	else if (me.comm)
		(void)ncclCommDestroy(me.comm);
	if (me.stream)
		EXPECT(cudaStreamDestroy(me.stream) == cudaSuccess);
	if (me.mem)
		EXPECT(cudaFree(me.mem) == cudaSuccess);
}

/* A connection may be reset while destroy waits for what was launched, which is an error of it. */
static void sweep_end(ncclComm_t comm, ncclResult_t before)
{
	ncclResult_t rc = before ? ncclCommAbort(comm) : ncclCommDestroy(comm);

	EXPECT(rc == ncclSuccess || (!before && rc == ncclRemoteError));
}

/* All ranks of one host by one task. */
static void sweep_task_main(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm[4] = {NULL};
	int32_t *mem[4] = {NULL};
	ncclResult_t rc = ncclCommInitAll(comm, 4, NULL);
	for (int i = 0; i < 4; i++)
		EXPECT((rc == ncclSuccess) == (comm[i] != NULL));
	for (int i = 0; i < 4 && !rc; i++)
		if (cudaSetDevice(i) != cudaSuccess ||
		    cudaMalloc((void **)&mem[i], 4096) != cudaSuccess)
			rc = ncclUnhandledCudaError;
	if (!rc)
		rc = ncclGroupStart();
	if (!rc) {
		for (int i = 0; i < 4; i++)
			(void)ncclAllReduce(mem[i], mem[i], 1000, ncclInt32, ncclSum, comm[i],
					    NULL);
		rc = ncclGroupEnd();
	}
	for (int i = 0; i < 4 && comm[i]; i++)
		sweep_end(comm[i], rc);
	for (int i = 0; i < 4; i++)
		EXPECT(!mem[i] || cudaFree(mem[i]) == cudaSuccess);
}

/* The k-th call fails, for k = 1, 1 + stride...; once, or from then on. */
static void sweep_site(const char *site, const char *action, uint64_t stride, bool for_ever)
{
	uint64_t runs = 0, fired = 1;
	stride *= SAMPLE_THIN;
	for (uint64_t k = 1; fired; k += stride) {
		char plan[128];
		struct sweep s = {.nonblocking = k & 1};
		struct ranks_config c = {.hosts = 2,
					 .per_host = 2,
					 .per_proc = 1 + (k / 2) % 2,
					 .seed = k,
					 .fault_plan = plan,
					 .fired = &fired};
		snprintf(plan, sizeof plan, "%s nth=%llu count=%s %s\n", site,
			 (unsigned long long)k, for_ever ? "1000000" : "1", action);
		ranks_run(&c, sweep_rank_main, &s);
		runs++;
	}
	ck_assert_uint_gt(runs, 1);
	for (uint64_t k = 1, more = 1; more; k += stride) {
		char plan[128];
		struct ranks_config c = {
			.hosts = 1, .per_host = 1, .seed = k, .fault_plan = plan, .fired = &more};
		snprintf(plan, sizeof plan, "%s nth=%llu count=%s %s\n", site,
			 (unsigned long long)k, for_ever ? "1000000" : "1", action);
		ranks_run(&c, sweep_task_main, NULL);
	}
}

START_TEST(allocations_may_fail)
{
	sweep_site("os.alloc", "fail", 1, false);
}
END_TEST

START_TEST(device_and_pinned_memory_may_run_out)
{
	sweep_site("cuda.malloc", "fail", 1, false);
	sweep_site("cuda.host_alloc", "fail", 1, false);
	sweep_site("cuda.ipc_open", "fail", 1, false);
}
END_TEST

START_TEST(connections_may_be_refused_and_reset)
{
	sweep_site("os.connect", "fail", 1, false);
	sweep_site("os.socket", "reset", 3, false);
}
END_TEST

START_TEST(the_hca_may_refuse)
{
	sweep_site("verbs.reg_mr", "fail", 1, false);
	sweep_site("verbs.modify_qp", "fail", 1, false);
	sweep_site("verbs.cqe", "error", 1, false);
}
END_TEST

START_TEST(the_topology_file_may_be_unreadable)
{
	sweep_site("os.file", "fail", 1, false);
}
END_TEST

START_TEST(what_fails_may_go_on_failing)
{
	sweep_site("os.alloc", "fail", 5, true);
	sweep_site("os.connect", "fail", 1, true);
	sweep_site("os.socket", "reset", 9, true);
	sweep_site("cuda.malloc", "fail", 3, true);
	sweep_site("cuda.host_alloc", "fail", 3, true);
	sweep_site("verbs.reg_mr", "fail", 3, true);
}
END_TEST

static Suite *sweep_suite(void)
{
	Suite *s = suite_create("fault_sweep");
	TCase *t = tcase_create("fault_sweep");
	tcase_set_timeout(t, 200);
	tcase_add_test(t, allocations_may_fail);
	tcase_add_test(t, device_and_pinned_memory_may_run_out);
	tcase_add_test(t, connections_may_be_refused_and_reset);
	tcase_add_test(t, the_hca_may_refuse);
	tcase_add_test(t, what_fails_may_go_on_failing);
	tcase_add_test(t, the_topology_file_may_be_unreadable);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return suite_run(sweep_suite());
}
