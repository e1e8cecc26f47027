/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators of one process on one GPU share a proxy: its tasks are there once, and what happens
 * to one communicator is of no consequence for another, whose transfers go on.
 */
#include <check.h>
#include <cuda_runtime_api.h>

#include "tests/sim/comm/comm_rank.h"
#include "tests/suite.h"

#define COUNT 20000 /* elements: several slices of a slot */

static const char *const env[] = {"NCCL_MAX_NCHANNELS=2", "NCCL_BUFFSIZE=65536", NULL};

/* ---- a rank with a communicator and a transfer ---------------------------------------------- */

struct side {
	ncclComm_t comm;
	cudaStream_t stream;
	int32_t *mem;
	int32_t rank, nranks;
};

static ncclComm_t side_comm(int32_t rank, int32_t nranks)
{
	ncclComm_t comm = NULL;

	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm, nranks, ranks_id(), rank));
	return comm;
}

static void side_open(struct side *s, int32_t rank, int32_t nranks)
{
	s->rank = rank;
	s->nranks = nranks;
	comm_buffers(rank, (void **)&s->mem, &s->stream, COUNT * sizeof *s->mem);
	s->comm = side_comm(rank, nranks);
}

static void side_close(struct side *s)
{
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(s->comm));
	comm_buffers_free(s->mem, s->stream);
}

static void side_launch(struct side *s, int times)
{
	for (int i = 0; i < times; i++)
		EXPECT_NCCL(ncclSuccess, ncclAllReduce(s->mem, s->mem, COUNT, ncclInt32, ncclSum,
						       s->comm, s->stream));
}

static bool side_runs(const struct side *s)
{
	return cudaStreamQuery(s->stream) == cudaErrorNotReady;
}

/* Starts `times` sums of 1 + rank, each over the result of the one before. */
static void side_start(struct side *s, int times)
{
	static const int32_t zero[COUNT];
	int32_t *host = malloc(sizeof zero);

	EXPECT(host);
	for (int i = 0; i < COUNT; i++)
		host[i] = 1 + s->rank;
	EXPECT(cudaMemcpyAsync(s->mem, host, sizeof zero, cudaMemcpyHostToDevice, s->stream) ==
	       cudaSuccess);
	EXPECT(cudaStreamSynchronize(s->stream) == cudaSuccess);
	free(host);
	side_launch(s, times);
}

static void side_finish(struct side *s, int times)
{
	int32_t *host = malloc(COUNT * sizeof *host);
	int32_t want = s->nranks * (s->nranks + 1) / 2;

	EXPECT(host);
	for (int i = 1; i < times; i++)
		want *= s->nranks;
	EXPECT(cudaMemcpyAsync(host, s->mem, COUNT * sizeof *host, cudaMemcpyDeviceToHost,
			       s->stream) == cudaSuccess);
	EXPECT(cudaStreamSynchronize(s->stream) == cudaSuccess);
	for (int i = 0; i < COUNT; i++)
		EXPECT(host[i] == want);
	free(host);
}

static void both_engines(uint64_t seeds, struct ranks_config c,
			 void (*fn)(int32_t rank, int32_t nranks, void *arg), void *arg)
{
	c.env = c.env ? c.env : env;
	for (c.seed = 1; c.seed <= seeds; c.seed++)
		ranks_run(&c, fn, arg);
	c.engine = SIM_ENGINE_THREADS;
	c.seed = 1;
	ranks_run(&c, fn, arg);
}

/* ---- one aborts ----------------------------------------------------------------------------- */

struct abort_seen {
	uint32_t under_way, beside;
};

static void abort_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct side goes, stays;
	struct abort_seen *seen = arg;

	side_open(&goes, rank, nranks);
	side_open(&stays, rank, nranks);
	side_start(&goes, 20);
	side_start(&stays, 8);
	ranks_barrier(); /* a launch waits for kernels of earlier ones, here and on other ranks */
	if (side_runs(&goes))
		__atomic_fetch_add(&seen->under_way, 1, __ATOMIC_RELAXED);
	if (side_runs(&stays))
		__atomic_fetch_add(&seen->beside, 1, __ATOMIC_RELAXED);
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(goes.comm));
	side_finish(&stays, 8);
	comm_buffers_free(goes.mem, goes.stream);
	side_start(&stays, 2);
	side_finish(&stays, 2);
	side_close(&stays);
}

START_TEST(an_abort_of_one_leaves_the_transfers_of_another_alone)
{
	struct abort_seen seen = {};

	both_engines(12, (struct ranks_config){.hosts = 3, .per_host = 1}, abort_rank, &seen);
	/* of 39 aborts */
	ck_assert_uint_gt(seen.under_way, 30);
	ck_assert_uint_gt(seen.beside, 30);
}
END_TEST

/* ---- others come and go --------------------------------------------------------------------- */

static void come_and_go_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct side runs, passes;
	uint64_t *beside = arg;

	side_open(&runs, rank, nranks);
	for (int i = 0; i < 3; i++) {
		side_start(&runs, 6);
		if (side_runs(&runs))
			__atomic_fetch_add(beside, 1, __ATOMIC_RELAXED);
		side_open(&passes, rank, nranks);
		side_start(&passes, 1);
		side_finish(&passes, 1);
		side_close(&passes);
		/* One rank of a process frees the memory of all, and waits for kernels to do so. */
		ranks_barrier();
		side_finish(&runs, 6);
	}
	side_close(&runs);
}

START_TEST(communicators_come_and_go_beside_the_transfers_of_another)
{
	uint64_t beside = 0;

	both_engines(8, (struct ranks_config){.hosts = 2, .per_host = 2, .per_proc = 2},
		     come_and_go_rank, &beside);
	ck_assert_uint_gt(beside, 60); /* of 108 */
}
END_TEST

/* ---- both have more operations than slots --------------------------------------------------- */

#define FLOOD 1100 /* two operations each on one channel: more than 2,048 */

static void flood_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct side s[2];

	(void)arg;
	for (int i = 0; i < 2; i++) {
		side_open(&s[i], rank, nranks);
		EXPECT(cudaMemsetAsync(s[i].mem, 1 + i, sizeof *s[i].mem, s[i].stream) ==
		       cudaSuccess);
	}
	for (int i = 0; i < 2 * FLOOD; i++)
		EXPECT_NCCL(ncclSuccess, ncclAllReduce(s[i % 2].mem, s[i % 2].mem, 1, ncclInt32,
						       ncclMax, s[i % 2].comm, s[i % 2].stream));
	for (int i = 0; i < 2; i++) {
		int32_t is = 0;

		EXPECT(cudaMemcpyAsync(&is, s[i].mem, sizeof is, cudaMemcpyDeviceToHost,
				       s[i].stream) == cudaSuccess);
		EXPECT(cudaStreamSynchronize(s[i].stream) == cudaSuccess);
		EXPECT(is == (1 + i) * 0x01010101);
		side_close(&s[i]);
	}
}

START_TEST(two_communicators_have_more_operations_than_slots)
{
	static const char *const one_channel[] = {"NCCL_MAX_NCHANNELS=1", NULL};

	both_engines(2, (struct ranks_config){.hosts = 2, .per_host = 1, .env = one_channel},
		     flood_rank, NULL);
}
END_TEST

/* ---- the tasks ------------------------------------------------------------------------------ */

/* Counts the proxy tasks of the calling task's process. */
static int proxy_tasks(void)
{
	int n = 0;

	for (const struct sim_task *t = sim_task_first(); t; t = t->next)
		n += t->self.proc == os_proc() && t->state != SIM_TASK_DONE &&
		     strstr(t->name, " proxy ") != NULL;
	return n;
}

static void tasks_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct side first, second;

	(void)arg;
	EXPECT(proxy_tasks() == 0);
	ranks_barrier();
	side_open(&first, rank, nranks);
	side_open(&second, rank, nranks);
	ranks_barrier();
	EXPECT(proxy_tasks() == 4); /* service and progress, of each of the process' two GPUs */
	side_close(&first);
	ranks_barrier();
	EXPECT(proxy_tasks() == 4);
	ranks_barrier();
	side_close(&second);
	ranks_barrier();
	EXPECT(proxy_tasks() == 0);
	ranks_barrier();
}

START_TEST(the_tasks_are_there_once_per_gpu_until_the_last_communicator_ends)
{
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct ranks_config c = {
			.hosts = 2, .per_host = 2, .per_proc = 2, .seed = seed, .env = env};

		ranks_run(&c, tasks_rank, NULL);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("a shared proxy");
	TCase *t = tcase_create("proxy");

	tcase_set_timeout(t, 240);
	tcase_add_test(t, the_tasks_are_there_once_per_gpu_until_the_last_communicator_ends);
	tcase_add_test(t, an_abort_of_one_leaves_the_transfers_of_another_alone);
	tcase_add_test(t, communicators_come_and_go_beside_the_transfers_of_another);
	tcase_add_test(t, two_communicators_have_more_operations_than_slots);
	suite_add_tcase(s, t);
	return suite_run(s);
}
