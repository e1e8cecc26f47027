/* SPDX-License-Identifier: BSD-3-Clause */
/* Deadlines: of a communicator, of one call, and of an init. */
#include <check.h>

#include "tests/sim/ras/deadline_rank.h"
#include "tests/suite.h"

/* Virtual time costs nothing, and some schedules need much of it. */
static const char *const deadline_sim[] = {"DOPPEL_TIMEOUT_MS=5000", NULL};
static const char *const deadline_threads[] = {"DOPPEL_TIMEOUT_MS=700", NULL};
static const char *const deadline_long[] = {"DOPPEL_TIMEOUT_MS=20000", NULL};

/* ---- an absent rank ------------------------------------------------------------------------- */

static void absent_call(struct deadline_rank *r)
{
	if (r->rank != r->nranks - 1)
		deadline_sum(r, DEADLINE_COUNT);
}

static const struct deadline_case absent_case = {
	absent_call,
	ncclTimeout,
	{"ncclAllReduce of 64 int32 sum, call 1 of communicator ", " s (limit ",
	 "; rank 3 has not called it (its last call is 0, ncclAllReduce of 64 int32 sum)"}};

START_TEST(an_absent_rank_is_named_on_all_ranks)
{
	deadline_run(&absent_case, deadline_sim, deadline_threads);
}
END_TEST

START_TEST(every_order_of_events_ends_with_the_same_error)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct ranks_config w = {.hosts = 2,
					 .per_host = 2,
					 .per_proc = 1 + seed % 2,
					 .seed = seed,
					 .env = deadline_sim,
					 .uncompared = true};

		ranks_run(&w, deadline_rank_main, (void *)(uintptr_t)&absent_case);
	}
}
END_TEST

/* ---- the wait below ------------------------------------------------------------------------- */

/* A rank of another host than the absent one names the operation of the network. */
static void wait_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct deadline_rank r = {.rank = rank};

	(void)arg;
	deadline_open(&r, rank, nranks);
	absent_call(&r);
	EXPECT_NCCL(ncclTimeout, deadline_poll(&r));
	if (rank == 0)
		EXPECT_ERROR_SAYS("; channel 0 receive from rank 1 waits for ");
	ranks_barrier();
	deadline_close(&r);
}

START_TEST(the_line_names_the_wait_of_the_network)
{
	struct ranks_config w = {.hosts = 2, .seed = 3, .env = deadline_sim, .uncompared = true};

	ranks_run(&w, wait_rank, NULL);
}
END_TEST

/* ---- two communicators in opposite orders --------------------------------------------------- */

/* Each rank launches a collective of both communicators in one stream, rank 1 in another order. */
static void orders_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct deadline_rank r = {.rank = rank};
	ncclComm_t comm[2];

	(void)arg;
	deadline_open(&r, rank, nranks);
	comm[0] = r.comm;
	EXPECT_NCCL(ncclSuccess, ncclCommSplit(r.comm, 0, rank, &comm[1], NULL));
	for (int i = 0; i < 2; i++)
		EXPECT_NCCL(ncclSuccess, ncclAllReduce(r.mem, r.mem, DEADLINE_COUNT, ncclInt32,
						       ncclSum, comm[(i + rank) % 2], r.stream));
	EXPECT_NCCL(ncclTimeout, deadline_poll(&r));
	if (rank == 0)
		EXPECT_ERROR_SAYS("; rank 1 has called it, but its stream has not reached it");
	/* the end of the first kernel lets the other communicator go on */
	EXPECT(cudaStreamSynchronize(r.stream) == cudaSuccess);
	ranks_barrier();
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm[1]));
	deadline_close(&r);
}

START_TEST(a_rank_whose_stream_is_elsewhere_is_named)
{
	struct ranks_config w = {.hosts = 2, .seed = 3, .env = deadline_sim, .uncompared = true};

	ranks_run(&w, orders_rank, NULL);
}
END_TEST

/* ---- a message without its receive ---------------------------------------------------------- */

static void message_call(struct deadline_rank *r)
{
	if (r->rank == 0)
		EXPECT_NCCL(ncclSuccess,
			    ncclRecv(r->mem, DEADLINE_COUNT, ncclInt32, 1, r->comm, r->stream));
	if (r->rank == 1)
		EXPECT_NCCL(ncclSuccess,
			    ncclSend(r->mem, DEADLINE_COUNT, ncclInt32, 0, r->comm, r->stream));
	EXPECT(cudaStreamSynchronize(r->stream) == cudaSuccess);
	if (r->rank == 0) /* the ranks are connected; the second message never comes */
		EXPECT_NCCL(ncclSuccess,
			    ncclRecv(r->mem, DEADLINE_COUNT, ncclInt32, 1, r->comm, r->stream));
}

START_TEST(a_message_that_does_not_come_is_named)
{
	const struct deadline_case c = {
		message_call, ncclTimeout, {"rank 0: ncclRecv of 64 int32 from rank 1, message 1"}};

	deadline_run(&c, deadline_sim, deadline_threads);
}
END_TEST

/* Rank 1 never calls ncclSend, so the call of rank 0 cannot connect with it. */
static void connect_call(struct deadline_rank *r)
{
	if (r->rank == 0)
		EXPECT_NCCL(ncclTimeout,
			    ncclRecv(r->mem, DEADLINE_COUNT, ncclInt32, 1, r->comm, r->stream));
}

START_TEST(a_call_that_cannot_connect_returns_the_timeout)
{
	const struct deadline_case c = {
		connect_call,
		ncclTimeout,
		{"rank 0: ncclRecv of 64 int32 from rank 1, message 0, for which rank 1 has not "
		 "connected,"}};

	deadline_run(&c, deadline_sim, deadline_threads);
}
END_TEST

/* ---- no error ------------------------------------------------------------------------------- */

static void in_time_rank(int32_t rank, int32_t nranks, void *arg)
{
	const uint64_t *sleep_ns = arg;
	struct deadline_rank r = {.rank = rank};
	ncclResult_t error;

	deadline_open(&r, rank, nranks);
	if (rank == nranks - 1)
		os_sleep_ns(*sleep_ns);
	comm_sum(r.comm, rank, nranks, r.mem, r.stream, DEADLINE_COUNT);
	ranks_barrier();
	EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(r.comm, &error));
	EXPECT_NCCL(ncclSuccess, error);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(r.comm));
	comm_buffers_free(r.mem, r.stream);
}

START_TEST(a_rank_that_is_slow_within_the_deadline_is_no_error)
{
	for (int i = 0; i < 4; i++) {
		struct ranks_config w = {.hosts = 1 + (uint32_t)i % 2,
					 .per_host = 2,
					 .seed = 3,
					 .env = deadline_long,
					 .uncompared = true,
					 .engine = i < 2 ? SIM_ENGINE_SIM : SIM_ENGINE_THREADS};
		uint64_t sleep_ns = i < 2 ? 19000000000ull : 300000000;

		ranks_run(&w, in_time_rank, &sleep_ns);
	}
}
END_TEST

/* All ranks do nothing for many times the deadline. */
static void idle_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct deadline_rank r = {.rank = rank};
	ncclResult_t error;

	(void)arg;
	deadline_open(&r, rank, nranks);
	os_sleep_ns(ranks_self()->all->config->engine == SIM_ENGINE_SIM ? 20000000000 : 2000000000);
	EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(r.comm, &error));
	EXPECT_NCCL(ncclSuccess, error);
	comm_sum(r.comm, rank, nranks, r.mem, r.stream, DEADLINE_COUNT);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(r.comm));
	comm_buffers_free(r.mem, r.stream);
}

START_TEST(an_idle_communicator_has_no_deadline)
{
	for (int i = 0; i < 2; i++) {
		struct ranks_config w = {.hosts = 2,
					 .per_host = 2,
					 .seed = 3,
					 .env = i ? deadline_threads : deadline_sim,
					 .uncompared = true,
					 .engine = i ? SIM_ENGINE_THREADS : SIM_ENGINE_SIM};

		ranks_run(&w, idle_rank, NULL);
	}
}
END_TEST

/* ---- a call of its own ---------------------------------------------------------------------- */

static ncclResult_t own_sum(struct deadline_rank *r, int ms)
{
	ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
	ncclConfigExt_t ext = {.key = {NCCL_DOPPEL_VENDOR, NCCL_DOPPEL_OPTION_TIMEOUT_MS},
			       .val = {.i = ms}};

	config.ext = &ext;
	return ncclAllReduceConfig(r->mem, r->mem, DEADLINE_COUNT, ncclInt32, ncclSum, r->comm,
				   r->stream, &config);
}

static void own_call(struct deadline_rank *r)
{
	if (r->rank != r->nranks - 1)
		EXPECT_NCCL(ncclSuccess, own_sum(r, 100));
}

START_TEST(one_call_can_have_a_shorter_deadline)
{
	const struct deadline_case c = {
		own_call, ncclTimeout, {" s (limit 0.100 s); rank 3 has not called it"}};

	deadline_run(&c, deadline_long, deadline_long);
}
END_TEST

/* Many launches are queued. All of them take longer than the deadline of each. */
static void queue_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct deadline_rank r = {.rank = rank};
	ncclResult_t error;
	uint64_t began_ns;

	(void)arg;
	deadline_open(&r, rank, nranks);
	began_ns = os_now_ns();
	for (int i = 0; i < 1200; i++)
		EXPECT_NCCL(ncclSuccess, own_sum(&r, 2));
	EXPECT(cudaStreamSynchronize(r.stream) == cudaSuccess);
	EXPECT(os_now_ns() - began_ns > 8000000);
	EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(r.comm, &error));
	EXPECT_NCCL(ncclSuccess, error);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(r.comm));
	comm_buffers_free(r.mem, r.stream);
}

START_TEST(each_launch_of_a_long_queue_has_its_own_time)
{
	struct ranks_config w = {.hosts = 2, .seed = 3, .env = deadline_long, .strategy = SIM_FIFO};

	ranks_run(&w, queue_rank, NULL);
}
END_TEST

static void refused_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct deadline_rank r = {.rank = rank};
	const bool *watched = arg;

	deadline_open(&r, rank, nranks);
	EXPECT_NCCL(ncclInvalidArgument, own_sum(&r, 0));
	EXPECT_ERROR_SAYS("NCCL_DOPPEL_OPTION_TIMEOUT_MS is 0, expected at least 1");
	if (!*watched) {
		EXPECT_NCCL(ncclInvalidUsage, own_sum(&r, 100));
		EXPECT_ERROR_SAYS("expected NCCL_RAS_ENABLE=1 or DOPPEL_TIMEOUT_MS");
	}
	comm_sum(r.comm, rank, nranks, r.mem, r.stream, DEADLINE_COUNT);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(r.comm));
	comm_buffers_free(r.mem, r.stream);
}

START_TEST(a_deadline_that_no_task_watches_is_refused)
{
	for (int i = 0; i < 2; i++) {
		bool watched = i;
		struct ranks_config w = {
			.hosts = 1, .per_host = 2, .seed = 3, .env = i ? deadline_sim : NULL};

		ranks_run(&w, refused_rank, &watched);
	}
}
END_TEST

/* ---- init ----------------------------------------------------------------------------------- */

/* The last rank does not call ncclCommInitRank. */
static void init_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclUniqueId id = ranks_id();
	uint64_t began_ns = os_now_ns();
	ncclComm_t comm;

	(void)arg;
	if (rank != nranks - 1) {
		EXPECT(cudaSetDevice((int)comm_device(rank)) == cudaSuccess);
		EXPECT_NCCL(ncclTimeout, ncclCommInitRank(&comm, nranks, id, rank));
		EXPECT(os_now_ns() - began_ns < DEADLINE_LIMIT_S * 1000000000ull);
		EXPECT_ERROR_SAYS("the init ends with ncclTimeout: rank 3 has not called "
				  "ncclCommInitRank ");
	}
	ranks_barrier();
}

START_TEST(a_rank_that_is_absent_at_init_is_named)
{
	for (uint32_t i = 0; i < 4; i++) {
		struct ranks_config w = {.hosts = 1 + i % 2,
					 .per_host = i % 2 ? 2 : 4,
					 .seed = 3,
					 .env = i < 2 ? deadline_sim : deadline_threads,
					 .engine = i < 2 ? SIM_ENGINE_SIM : SIM_ENGINE_THREADS};

		ranks_run(&w, init_rank, NULL);
	}
}
END_TEST

START_TEST(every_order_of_events_names_the_rank_that_is_absent_at_init)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct ranks_config w = {
			.hosts = 2, .per_host = 2, .seed = seed, .env = deadline_sim};

		ranks_run(&w, init_rank, NULL);
	}
}
END_TEST

/* The same with a non-blocking init: the program polls. */
static void poll_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclUniqueId id = ranks_id();
	ncclResult_t error = ncclInProgress;
	ncclComm_t comm;

	(void)arg;
	config.blocking = 0;
	if (rank != nranks - 1) {
		EXPECT(cudaSetDevice((int)comm_device(rank)) == cudaSuccess);
		EXPECT_NCCL(ncclInProgress,
			    ncclCommInitRankConfig(&comm, nranks, id, rank, &config));
		while (error == ncclInProgress) {
			os_sleep_ns(1000000);
			EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(comm, &error));
		}
		EXPECT_NCCL(ncclTimeout, error);
		EXPECT_NCCL(ncclSuccess, ncclCommAbort(comm));
	}
	ranks_barrier();
}

START_TEST(an_init_that_is_polled_gets_the_timeout)
{
	struct ranks_config w = {.hosts = 2, .per_host = 2, .seed = 3, .env = deadline_sim};

	ranks_run(&w, poll_rank, NULL);
}
END_TEST

/* The last rank does not call ncclCommSplit. */
static void split_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct deadline_rank r = {.rank = rank};
	ncclComm_t child;

	(void)arg;
	deadline_open(&r, rank, nranks);
	if (rank != nranks - 1)
		EXPECT_NCCL(ncclTimeout, ncclCommSplit(r.comm, 0, rank, &child, NULL));
	EXPECT_NCCL(ncclTimeout, deadline_poll(&r));
	if (rank == nranks - 1) { /* the calls of the others log how they have ended */
		EXPECT_ERROR_SAYS("call 1 (split, shrink, grow, suspend, resume, window) of ");
		EXPECT_ERROR_SAYS("; rank 3 has not called it");
	}
	ranks_barrier();
	deadline_close(&r);
}

START_TEST(a_rank_that_is_absent_from_a_split_is_named)
{
	for (uint32_t i = 0; i < 4; i++) {
		struct ranks_config w = {.hosts = 1 + i % 2,
					 .per_host = i % 2 ? 2 : 4,
					 .seed = 3,
					 .env = i < 2 ? deadline_sim : deadline_threads,
					 .engine = i < 2 ? SIM_ENGINE_SIM : SIM_ENGINE_THREADS};

		ranks_run(&w, split_rank, NULL);
	}
}
END_TEST

/* ---- destroy -------------------------------------------------------------------------------- */

static void destroy_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct deadline_rank r = {.rank = rank};

	(void)arg;
	deadline_open(&r, rank, nranks);
	absent_call(&r);
	if (rank == nranks - 1)
		EXPECT_NCCL(ncclTimeout, deadline_poll(&r));
	EXPECT_NCCL(rank == nranks - 1 ? ncclSuccess : ncclTimeout, ncclCommDestroy(r.comm));
	comm_buffers_free(r.mem, r.stream);
}

START_TEST(destroy_returns_the_timeout)
{
	struct ranks_config w = {
		.hosts = 2, .per_host = 2, .seed = 3, .env = deadline_sim, .uncompared = true};

	ranks_run(&w, destroy_rank, NULL);
}
END_TEST

/* ---- recovery ------------------------------------------------------------------------------- */

/* After the timeout the others go on without the absent rank. */
static void shrink_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct deadline_rank r = {.rank = rank};
	const int absent = nranks - 1;
	ncclComm_t child;

	(void)arg;
	deadline_open(&r, rank, nranks);
	absent_call(&r);
	EXPECT_NCCL(ncclTimeout, deadline_poll(&r));
	if (rank != absent) {
		EXPECT_NCCL(ncclSuccess, ncclCommShrink(r.comm, (int[]){absent}, 1, &child, NULL,
							NCCL_SHRINK_ABORT));
		comm_sum(child, rank, absent, r.mem, r.stream, DEADLINE_COUNT);
		EXPECT_NCCL(ncclSuccess, ncclCommDestroy(child));
	}
	ranks_barrier();
	deadline_close(&r);
}

START_TEST(the_others_go_on_without_the_absent_rank)
{
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct ranks_config w = {.hosts = 2,
					 .per_host = 2,
					 .seed = seed,
					 .env = deadline_sim,
					 .uncompared = true};

		ranks_run(&w, shrink_rank, NULL);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("deadline");
	TCase *t = tcase_create("deadline");

	tcase_add_test(t, an_absent_rank_is_named_on_all_ranks);
	tcase_add_test(t, every_order_of_events_ends_with_the_same_error);
	tcase_add_test(t, the_line_names_the_wait_of_the_network);
	tcase_add_test(t, a_rank_whose_stream_is_elsewhere_is_named);
	tcase_add_test(t, a_message_that_does_not_come_is_named);
	tcase_add_test(t, a_call_that_cannot_connect_returns_the_timeout);
	tcase_add_test(t, a_rank_that_is_slow_within_the_deadline_is_no_error);
	tcase_add_test(t, an_idle_communicator_has_no_deadline);
	tcase_add_test(t, one_call_can_have_a_shorter_deadline);
	tcase_add_test(t, each_launch_of_a_long_queue_has_its_own_time);
	tcase_add_test(t, a_deadline_that_no_task_watches_is_refused);
	tcase_add_test(t, a_rank_that_is_absent_at_init_is_named);
	tcase_add_test(t, every_order_of_events_names_the_rank_that_is_absent_at_init);
	tcase_add_test(t, an_init_that_is_polled_gets_the_timeout);
	tcase_add_test(t, a_rank_that_is_absent_from_a_split_is_named);
	tcase_add_test(t, the_others_go_on_without_the_absent_rank);
	tcase_add_test(t, destroy_returns_the_timeout);
	suite_add_tcase(s, t);
	return suite_run(s);
}
