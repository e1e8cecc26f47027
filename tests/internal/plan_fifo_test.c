/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Launches of more works than a kernel's arguments hold: they go through the FIFO of works, and
 * groups that took many launches take one. Every element of every result is checked. In both
 * engines, with both warp widths.
 */
#include <check.h>

#include "core/plan/messages.h"
#include "tests/sim/comm/comm_rank.h"
#include "tests/suite.h"

/* ---- the FIFO by itself ---------------------------------------------------------------------- */

START_TEST(a_launch_takes_half_of_the_fifo_at_most)
{
	const struct plan_fifo f = {.bytes = 1 << 20};
	const struct plan_fifo least = {.bytes = PLAN_FIFO_LEAST};
	const struct plan_fifo huge = {.bytes = 1ull << 30};

	ck_assert(plan_fifo_fits(&f, 4000, 4000));
	ck_assert(!plan_fifo_fits(&f, 4096, 4096));
	ck_assert(!plan_fifo_fits(&f, 2500, 64 * 2500));
	/* any one work, on any number of channels, and a message in two parts */
	ck_assert(plan_fifo_fits(&least, 1, DEV_MAX_CHANNELS));
	ck_assert(plan_fifo_fits(&least, 2, 2));
	/* a work's number has 16 bits */
	ck_assert(plan_fifo_fits(&huge, DEV_LAUNCH_WORKS, DEV_LAUNCH_WORKS));
	ck_assert(!plan_fifo_fits(&huge, DEV_LAUNCH_WORKS + 1, DEV_LAUNCH_WORKS + 1));
}
END_TEST

START_TEST(launches_may_wait_if_the_fifo_has_no_room_for_all)
{
	shared_u64 consumed[DEV_MAX_CHANNELS] = {0};
	struct plan_fifo f = {.bytes = PLAN_FIFO_LEAST, .consumed = consumed};

	ck_assert(!plan_fifo_may_wait(&f, 1));
	ck_assert(plan_fifo_may_wait(&f, 6)); /* for kernels of its own */
	f.produced = f.sent[1] = PLAN_FIFO_LEAST;
	ck_assert(plan_fifo_may_wait(&f, 1));
	shared_store_u64(&consumed[1], f.sent[1], SHARED_RELAXED);
	ck_assert(!plan_fifo_may_wait(&f, 1)); /* other channels had no works */
}
END_TEST

/* ---- collectives ----------------------------------------------------------------------------- */

#define CALLS_MOST 1000
#define CALL_COUNT 4

struct many_case {
	int calls, groups;
	bool one_launch; /* a group is to be one launch */
	bool wraps;      /* the groups are to go around the FIFO */
};

static int32_t many_value(int32_t rank, int call, int k)
{
	return rank * 1000 + call * 7 + k;
}

static void many_fill(int32_t rank, int calls, int32_t *mem)
{
	static const size_t most = CALLS_MOST * CALL_COUNT;
	int32_t *host = malloc(most * sizeof *host);

	for (int i = 0; i < calls; i++)
		for (int k = 0; k < CALL_COUNT; k++)
			host[i * CALL_COUNT + k] = many_value(rank, i, k);
	EXPECT(cudaMemcpy(mem, host, most * sizeof *host, cudaMemcpyHostToDevice) == cudaSuccess);
	free(host);
}

static void many_check(int32_t nranks, int calls, const int32_t *mem)
{
	size_t bytes = CALLS_MOST * CALL_COUNT * sizeof(int32_t);
	int32_t *host = malloc(bytes);

	EXPECT(cudaMemcpy(host, mem, bytes, cudaMemcpyDeviceToHost) == cudaSuccess);
	for (int i = 0; i < calls; i++)
		for (int k = 0; k < CALL_COUNT; k++) {
			int32_t want = 0;

			for (int32_t r = 0; r < nranks; r++)
				want += many_value(r, i, k);
			EXPECT(host[i * CALL_COUNT + k] == want);
		}
	free(host);
}

static void many_group(const struct many_case *c, ncclComm_t comm, const int32_t *in, int32_t *out,
		       cudaStream_t stream)
{
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	for (int i = 0; i < c->calls; i++)
		EXPECT_NCCL(ncclSuccess,
			    ncclAllReduce(in + i * CALL_COUNT, out + i * CALL_COUNT, CALL_COUNT,
					  ncclInt32, ncclSum, comm, stream));
	EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
	if (c->one_launch)
		EXPECT(comm->plan->plan.nworks == c->calls);
}

static void many_rank(int32_t rank, int32_t nranks, void *arg)
{
	const struct many_case *c = arg;
	size_t bytes = CALLS_MOST * CALL_COUNT * sizeof(int32_t);
	ncclComm_t comm;
	cudaStream_t stream;
	void *in, *out[2]; /* of even and odd groups, so that no two launches in flight are alike */

	comm_buffers(rank, &in, &stream, bytes);
	for (int k = 0; k < 2; k++)
		EXPECT(cudaMalloc(&out[k], bytes) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm, nranks, ranks_id(), rank));
	many_fill(rank, c->calls, in);
	for (int g = 0; g < c->groups; g++)
		many_group(c, comm, in, out[g % 2], stream);
	EXPECT(cudaStreamSynchronize(stream) == cudaSuccess);
	for (int k = 0; k < MIN_OF(c->groups, 2); k++)
		many_check(nranks, c->calls, out[k]);
	if (c->wraps)
		EXPECT(comm->plan->fifo.produced > 3 * comm->plan->fifo.bytes);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	for (int k = 0; k < 2; k++)
		EXPECT(cudaFree(out[k]) == cudaSuccess);
	comm_buffers_free(in, stream);
}

static void many_run(struct many_case c, const struct ranks_config *shape, const char *env)
{
	for (int run = 0; run < 4; run++) {
		const char *const all[] = {run / 2 ? "DOPPEL_WARP=32" : "DOPPEL_WARP=1",
					   "NCCL_MAX_CTAS=2", env, NULL};
		struct ranks_config config = *shape;

		config.seed = 1;
		config.env = all;
		config.engine = run % 2 ? SIM_ENGINE_THREADS : SIM_ENGINE_SIM;
		if (run / 2) /* 32 times the tasks */
			c.calls = MIN_OF(c.calls, 100);
		ranks_run(&config, many_rank, &c);
	}
}

START_TEST(a_group_of_a_thousand_collectives_is_one_launch)
{
	many_run((struct many_case){.calls = CALLS_MOST, .groups = 1, .one_launch = true},
		 &(struct ranks_config){.per_host = 2}, NULL);
}
END_TEST

/* Two operations of the proxy each: as many as a launch may have. */
START_TEST(a_group_across_hosts_is_one_launch_within_the_proxys_slots)
{
	many_run((struct many_case){.calls = PROXY_MAX_APPEND / 2, .groups = 1, .one_launch = true},
		 &(struct ranks_config){.hosts = 2}, NULL);
}
END_TEST

START_TEST(a_fifo_that_wraps_loses_nothing)
{
	many_run((struct many_case){.calls = 60, .groups = 6, .wraps = true},
		 &(struct ranks_config){.per_host = 2}, "NCCL_WORK_FIFO_BYTES=8192");
	many_run((struct many_case){.calls = 60, .groups = 5, .wraps = true},
		 &(struct ranks_config){.hosts = 2}, "NCCL_WORK_FIFO_BYTES=8192");
}
END_TEST

START_TEST(works_may_go_through_the_fifo_alone)
{
	many_run((struct many_case){.calls = 3, .groups = 4},
		 &(struct ranks_config){.hosts = 2, .per_host = 2}, "NCCL_WORK_ARGS_BYTES=0");
}
END_TEST

/* ---- messages -------------------------------------------------------------------------------- */

static uint8_t exchange_byte(int32_t from, int32_t to, size_t k)
{
	return (uint8_t)((size_t)from * 31 + (size_t)to * 17 + k);
}

struct exchange_case {
	size_t bytes; /* of each message */
	int parts;    /* works of one, to oneself too */
	bool one_launch;
};

static void exchange_check(const struct exchange_case *c, int32_t rank, int32_t nranks,
			   const void *out)
{
	size_t bytes = c->bytes * (size_t)nranks;
	uint8_t *host = malloc(bytes);

	EXPECT(cudaMemcpy(host, out, bytes, cudaMemcpyDeviceToHost) == cudaSuccess);
	for (int32_t r = 0; r < nranks; r++)
		for (size_t k = 0; k < c->bytes; k++)
			EXPECT(host[(size_t)r * c->bytes + k] == exchange_byte(r, rank, k));
	free(host);
}

static void *exchange_input(const struct exchange_case *c, int32_t rank, int32_t nranks)
{
	size_t bytes = c->bytes * (size_t)nranks;
	uint8_t *host = malloc(bytes);
	void *in;

	for (int32_t r = 0; r < nranks; r++)
		for (size_t k = 0; k < c->bytes; k++)
			host[(size_t)r * c->bytes + k] = exchange_byte(rank, r, k);
	EXPECT(cudaMalloc(&in, bytes) == cudaSuccess);
	EXPECT(cudaMemcpy(in, host, bytes, cudaMemcpyHostToDevice) == cudaSuccess);
	free(host);
	return in;
}

static void exchange_rank(int32_t rank, int32_t nranks, void *arg)
{
	const struct exchange_case *c = arg;
	ncclComm_t comm;
	cudaStream_t stream;
	void *out, *in;

	comm_buffers(rank, &out, &stream, c->bytes * (size_t)nranks);
	in = exchange_input(c, rank, nranks);
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm, nranks, ranks_id(), rank));
	for (int i = 0; i < 2; i++)
		EXPECT_NCCL(ncclSuccess, ncclAlltoAll(in, out, c->bytes, ncclUint8, comm, stream));
	if (c->one_launch)
		EXPECT(comm->plan->plan.nworks == nranks * c->parts);
	EXPECT(cudaStreamSynchronize(stream) == cudaSuccess);
	exchange_check(c, rank, nranks, out);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	EXPECT(cudaFree(in) == cudaSuccess);
	comm_buffers_free(out, stream);
}

static void exchange_run(struct exchange_case c, struct ranks_config config, const char *env)
{
	const char *const all[] = {"NCCL_BUFFSIZE=65536", env, NULL};

	config.seed = 1;
	config.env = all;
	ranks_run(&config, exchange_rank, &c);
}

START_TEST(an_all_to_all_of_64_ranks_is_one_launch)
{
	const struct exchange_case c = {.bytes = 3000, .parts = 1, .one_launch = true};

	exchange_run(c, (struct ranks_config){.hosts = 8, .per_host = 8}, "NCCL_MAX_CTAS=1");
}
END_TEST

START_TEST(messages_go_through_a_fifo_that_wraps)
{
	for (int run = 0; run < 4; run++) {
		const char *warp = run / 2 ? "DOPPEL_WARP=32" : "DOPPEL_WARP=1";
		struct ranks_config config = {.hosts = 2, .per_host = 8};
		const char *const env[] = {warp,
					   "NCCL_BUFFSIZE=65536",
					   "NCCL_MAX_CTAS=4",
					   "NCCL_WORK_ARGS_BYTES=0",
					   "NCCL_WORK_FIFO_BYTES=4096",
					   NULL};
		struct exchange_case c = {.bytes = 5000};

		config.seed = 1;
		config.env = env;
		config.engine = run % 2 ? SIM_ENGINE_THREADS : SIM_ENGINE_SIM;
		ranks_run(&config, exchange_rank, &c);
	}
}
END_TEST

/* ---- abort ----------------------------------------------------------------------------------- */

/* Aborts once the host waits for room, which takes much less. */
static void abort_task(void *arg)
{
	os_sleep_ns(100000000);
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(arg));
}

/* Rank 1 launches nothing, so no kernel of rank 0 ends, and its FIFO is full soon. */
static void abort_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct os_thread_attr attr = {.name = "aborter", .rank = rank};
	struct os_thread *aborter;
	ncclResult_t rc = ncclSuccess;
	ncclComm_t comm;
	cudaStream_t stream;
	void *mem;
	int launches = 0;

	comm_buffers(rank, &mem, &stream, 4096);
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm, nranks, ranks_id(), rank));
	ranks_barrier();
	EXPECT(os_thread_start(&aborter, &attr, abort_task, comm) == 0);
	while (rank == 0 && !rc) {
		rc = ncclAllReduce(mem, mem, 1024, ncclInt32, ncclSum, comm, stream);
		launches += rc == ncclSuccess;
	}
	/* rank 1 aborts, too, and its end may come first */
	EXPECT(rank != 0 || rc == ncclInternalError || rc == ncclRemoteError);
	EXPECT(launches <= (int)(PLAN_FIFO_LEAST / sizeof(struct dev_work)));
	EXPECT(os_thread_join(aborter) == 0);
	comm_buffers_free(mem, stream);
}

START_TEST(an_abort_ends_the_wait_for_room)
{
	static const char *const env[] = {"NCCL_WORK_ARGS_BYTES=0", "NCCL_WORK_FIFO_BYTES=4096",
					  NULL};

	for (uint64_t seed = 1; seed <= 5; seed++) {
		struct ranks_config config = {.per_host = 2, .seed = seed, .env = env};

		ranks_run(&config, abort_rank, NULL);
		config.engine = SIM_ENGINE_THREADS;
		ranks_run(&config, abort_rank, NULL);
	}
}
END_TEST

/* ---- failure --------------------------------------------------------------------------------- */

/* The communicator fails, as by its proxy, once the host waits for room. */
static void failure_task(void *arg)
{
	os_sleep_ns(100000000);
	rank_set_async_error(arg, ncclRemoteError);
}

/* A launch has so many that room ends before the queue of the stream is full. */
static ncclResult_t failure_group(void *mem, ncclComm_t comm, cudaStream_t stream)
{
	ncclResult_t rc = ncclSuccess, end;

	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	for (int i = 0; i < 4 && !rc; i++)
		rc = ncclAllReduce(mem, mem, 1024, ncclInt32, ncclSum, comm, stream);
	end = ncclGroupEnd();
	return rc ? rc : end;
}

/* Rank 1 launches nothing, so no kernel of rank 0 ends. No rank aborts before rank 0's call has
 * returned: only the error of the communicator can end its wait. */
static void failure_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct os_thread_attr attr = {.name = "failure", .rank = rank};
	struct os_thread *failure;
	ncclResult_t rc = ncclSuccess;
	ncclComm_t comm;
	cudaStream_t stream;
	void *mem;
	int launches = 0;

	(void)arg;
	comm_buffers(rank, &mem, &stream, 4096);
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm, nranks, ranks_id(), rank));
	ranks_barrier();
	if (rank == 0)
		EXPECT(os_thread_start(&failure, &attr, failure_task, comm) == 0);
	while (rank == 0 && !rc) {
		rc = ncclAllReduce(mem, mem, 1024, ncclInt32, ncclSum, comm, stream);
		launches += rc == ncclSuccess;
	}
	EXPECT(rank != 0 || rc == ncclRemoteError);
	EXPECT(launches <= (int)(PLAN_FIFO_LEAST / sizeof(struct dev_work)));
	if (rank == 0)
		EXPECT(os_thread_join(failure) == 0);
	ranks_barrier();
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(comm));
	comm_buffers_free(mem, stream);
}

/* Rank 1 launches nothing, and aborts. No other task of rank 0 looks whether rank 1 is still
 * there. */
static void left_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclResult_t rc = ncclSuccess;
	ncclComm_t comm;
	cudaStream_t stream;
	void *mem;

	(void)arg;
	comm_buffers(rank, &mem, &stream, 4096);
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm, nranks, ranks_id(), rank));
	ranks_barrier();
	if (rank == 1)
		os_sleep_ns(100000000);
	while (rank == 0 && !rc)
		rc = failure_group(mem, comm, stream);
	EXPECT(rank != 0 || rc == ncclRemoteError);
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(comm));
	comm_buffers_free(mem, stream);
}

/* The same while a call uses the bootstrap, which then passes the error on at its end. */
static void failure_in_call_task(void *arg)
{
	rank_bootstrap_claim(arg);
	failure_task(arg);
	rank_bootstrap_release(arg);
}

/* The communicator of rank 1 fails, and the task that drives rank 1 does not look: what finds the
 * error passes it on. */
static void silent_rank(int32_t rank, int32_t nranks, void *arg)
{
	const bool *in_call = arg;
	struct os_thread_attr attr = {.name = "failure", .rank = rank};
	struct os_thread *failure;
	ncclResult_t rc = ncclSuccess;
	ncclComm_t comm;
	cudaStream_t stream;
	void *mem;

	comm_buffers(rank, &mem, &stream, 4096);
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm, nranks, ranks_id(), rank));
	ranks_barrier();
	if (rank == 1)
		EXPECT(os_thread_start(&failure, &attr,
				       *in_call ? failure_in_call_task : failure_task, comm) == 0);
	while (rank == 0 && !rc)
		rc = failure_group(mem, comm, stream);
	EXPECT(rank != 0 || rc == ncclRemoteError);
	ranks_barrier();
	if (rank == 1)
		EXPECT(os_thread_join(failure) == 0);
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(comm));
	comm_buffers_free(mem, stream);
}

START_TEST(a_failure_of_the_communicator_ends_the_wait_for_room)
{
	static const char *const env[] = {"NCCL_WORK_ARGS_BYTES=0", "NCCL_WORK_FIFO_BYTES=4096",
					  NULL};

	for (uint64_t seed = 1; seed <= 5; seed++) {
		struct ranks_config config = {.per_host = 2, .seed = seed, .env = env};
		bool in_call = seed % 2;

		ranks_run(&config, failure_rank, NULL);
		ranks_run(&config, left_rank, NULL);
		ranks_run(&config, silent_rank, &in_call);
		config.engine = SIM_ENGINE_THREADS;
		ranks_run(&config, failure_rank, NULL);
		ranks_run(&config, left_rank, NULL);
		ranks_run(&config, silent_rank, &in_call);
	}
}
END_TEST

/* Works in the kernels' arguments, and hosts apart: the call waits for the proxy's slots. */
START_TEST(a_failure_of_another_rank_ends_the_wait_for_slots)
{
	static const char *const env[] = {"NCCL_MIN_NCHANNELS=16", NULL};

	for (uint64_t seed = 1; seed <= 5; seed++) {
		struct ranks_config config = {.hosts = 2, .per_host = 1, .seed = seed, .env = env};
		bool in_call = seed % 2;

		ranks_run(&config, left_rank, NULL);
		ranks_run(&config, silent_rank, &in_call);
		config.engine = SIM_ENGINE_THREADS;
		ranks_run(&config, left_rank, NULL);
		ranks_run(&config, silent_rank, &in_call);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("plan_fifo");
	TCase *t = tcase_create("collectives");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, a_launch_takes_half_of_the_fifo_at_most);
	tcase_add_test(t, launches_may_wait_if_the_fifo_has_no_room_for_all);
	tcase_add_test(t, a_group_of_a_thousand_collectives_is_one_launch);
	tcase_add_test(t, a_group_across_hosts_is_one_launch_within_the_proxys_slots);
	tcase_add_test(t, a_fifo_that_wraps_loses_nothing);
	tcase_add_test(t, works_may_go_through_the_fifo_alone);
	tcase_add_test(t, an_abort_ends_the_wait_for_room);
	tcase_add_test(t, a_failure_of_the_communicator_ends_the_wait_for_room);
	tcase_add_test(t, a_failure_of_another_rank_ends_the_wait_for_slots);
	suite_add_tcase(s, t);
	t = tcase_create("messages");
	tcase_set_timeout(t, 120);
	tcase_add_test(t, an_all_to_all_of_64_ranks_is_one_launch);
	tcase_add_test(t, messages_go_through_a_fifo_that_wraps);
	suite_add_tcase(s, t);
	return suite_run(s);
}
