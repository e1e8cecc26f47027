/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bootstrap by itself: messages, unknown clients on its ports, ranks that contradict each other or
 * leave. bootstrap_gather_test.c has the gathers.
 */
#include "tests/internal/bootstrap/bootstrap_world.h"

/* ---- messages ------------------------------------------------------------------------------- */

static uint32_t message_word(int32_t from, int32_t to, int tag, size_t i)
{
	return (uint32_t)(from * 1000003 + to * 10007 + tag * 101) + (uint32_t)i;
}

static void message_send(struct bootstrap *b, int32_t rank, int32_t to, int tag, size_t words)
{
	uint32_t *m = os_alloc(words * 4 + 4, "test message");
	for (size_t i = 0; i < words; i++)
		m[i] = message_word(rank, to, tag, i);
	EXPECT_NCCL(ncclSuccess, bootstrap_send(b, to, tag, m, words * 4));
	os_free(m);
}

static void message_recv(struct bootstrap *b, int32_t rank, int32_t from, int tag, size_t words)
{
	uint32_t *m = os_alloc(words * 4 + 4, "test message");
	EXPECT_NCCL(ncclSuccess, bootstrap_recv(b, from, tag, m, words * 4));
	for (size_t i = 0; i < words; i++)
		EXPECT(m[i] == message_word(from, rank, tag, i));
	os_free(m);
}

/* Every rank sends to every rank, itself included, and receives in another order. Messages are
 * larger than a socket takes, so that senders depend on receivers that send themselves. */
static void messages_rank(int32_t rank, int32_t nranks, void *arg)
{
	static const size_t words[] = {0, 100, 200000, 1};
	struct boot_world *w = arg;
	struct bootstrap *b = NULL;
	boot_begin(rank, w);
	EXPECT_NCCL(ncclSuccess, bootstrap_init(&w->id, rank, nranks, NULL, &b));
	for (int tag = 0; tag < 4; tag++)
		for (int32_t to = 0; to < nranks; to++)
			message_send(b, rank, (rank + to) % nranks, tag, words[tag]);
	EXPECT_NCCL(ncclSuccess, bootstrap_barrier(b));
	for (int tag = 3; tag >= 0; tag--)
		for (int32_t from = 0; from < nranks; from++)
			message_recv(b, rank, (rank + 2 * nranks - from) % nranks, tag, words[tag]);
	EXPECT_NCCL(ncclSuccess, bootstrap_barrier(b));
	bootstrap_part(b, 0);
	bootstrap_close(b);
	boot_end(rank, w);
}

START_TEST(messages_are_matched_by_rank_and_tag)
{
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct boot_world w = {.seed = seed};
		struct ranks_config c = {.hosts = 2, .per_host = 1 + seed % 3, .seed = seed};
		ranks_run(&c, messages_rank, &w);
	}
	struct boot_world w = {.seed = 1};
	struct ranks_config c = {.hosts = 1, .per_host = 3, .engine = SIM_ENGINE_THREADS};
	ranks_run(&c, messages_rank, &w);
}
END_TEST

static void message_size_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct boot_world *w = arg;
	struct bootstrap *b = NULL;
	uint8_t data[16] = {0};
	boot_begin(rank, w);
	EXPECT_NCCL(ncclSuccess, bootstrap_init(&w->id, rank, nranks, NULL, &b));
	if (rank == 0) {
		EXPECT_NCCL(ncclSuccess, bootstrap_send(b, 1, 5, data, 12));
	} else {
		EXPECT_NCCL(ncclInternalError, bootstrap_recv(b, 0, 5, data, 16));
		EXPECT_ERROR_SAYS(
			"rank 1 expects 16 bytes from rank 0 under tag 0x5, which sent 12");
	}
	EXPECT_NCCL(ncclSuccess, bootstrap_barrier(b));
	bootstrap_part(b, 0);
	bootstrap_close(b);
	boot_end(rank, w);
}

START_TEST(a_message_of_another_size_is_named)
{
	struct boot_world w = {.seed = 1};
	struct ranks_config c = {.hosts = 2, .per_host = 1, .seed = 1};
	ranks_run(&c, message_size_rank, &w);
}
END_TEST

/* ---- unknown clients ------------------------------------------------------------------------ */

static struct os_addr id_address(const ncclUniqueId *id)
{
	struct bootstrap_id bid;
	memcpy(&bid, id->internal, sizeof bid);
	return bid.root;
}

/* Sends bytes that are not of the protocol, or nothing, and closes the connection; or keeps it
 * open. */
static void foreign_client_knock(const struct os_addr *at, const void *say, size_t bytes, bool stay)
{
	struct sock_ctx ctx = {"test: stranger", -1, -1, NULL};
	int fd = -1;
	EXPECT_NCCL(ncclSuccess, sock_connect(at, &ctx, NULL, &fd));
	if (bytes)
		(void)sock_send_all(fd, say, bytes, &ctx);
	if (stay)
		os_sleep_ns(300000);
	sock_close(&fd);
}

static void stranger_rank(int32_t rank, int32_t nranks, void *arg)
{
	static const char http[] =
		"GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: something long\r\n\r\n";
	struct boot_world *w = arg;
	struct bootstrap *b = NULL;
	boot_begin(rank, w);
	if (rank == w->special) {
		struct os_addr at = id_address(&w->id);
		foreign_client_knock(&at, http, sizeof http - 1, false);
		foreign_client_knock(&at, http, 10, false);
		foreign_client_knock(&at, NULL, 0, false);
		foreign_client_knock(&at, http, 5, true);
	}
	EXPECT_NCCL(ncclSuccess, bootstrap_init(&w->id, rank, nranks, NULL, &b));
	if (rank == w->special) {
		foreign_client_knock(&b->addresses[0], http, sizeof http - 1, false);
		foreign_client_knock(&b->addresses[0], http, 3, false);
	}
	gather_check(b, rank, nranks, 100, 1);
	EXPECT_NCCL(ncclSuccess, bootstrap_barrier(b));
	bootstrap_part(b, 0);
	bootstrap_close(b);
	boot_end(rank, w);
}

START_TEST(strangers_on_the_ports_disturb_nobody)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct boot_world w = {.seed = seed, .special = (int32_t)(seed % 3)};
		struct ranks_config c = {.hosts = 1, .per_host = 3, .seed = seed};
		ranks_run(&c, stranger_rank, &w);
	}
}
END_TEST

/* ---- contradictions ------------------------------------------------------------------------- */

static void twice_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct boot_world *w = arg;
	struct bootstrap *b = NULL;
	boot_begin(rank, w);
	int32_t as = rank == 2 ? 1 : rank;
	ncclResult_t rc = bootstrap_init(&w->id, as, nranks, NULL, &b);
	EXPECT(rc == ncclInvalidUsage || rc == ncclRemoteError);
	boot_end(rank, w);
}

START_TEST(a_rank_that_comes_twice_is_refused)
{
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct boot_world w = {.seed = seed};
		struct ranks_config c = {.hosts = 1, .per_host = 4, .seed = seed};
		ranks_run(&c, twice_rank, &w);
	}
}
END_TEST

static void counts_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct boot_world *w = arg;
	struct bootstrap *b = NULL;
	boot_begin(rank, w);
	ncclResult_t rc = bootstrap_init(&w->id, rank, rank == 1 ? nranks + 1 : nranks, NULL, &b);
	EXPECT(rc == ncclInvalidUsage || rc == ncclRemoteError);
	boot_end(rank, w);
}

START_TEST(ranks_that_count_differently_are_refused)
{
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct boot_world w = {.seed = seed};
		struct ranks_config c = {.hosts = 1, .per_host = 3, .seed = seed};
		ranks_run(&c, counts_rank, &w);
	}
}
END_TEST

/* ---- rank that goes away -------------------------------------------------------------------- */

/* The special rank leaves after the init; no rank hangs in the gather that it misses. */
static void leaver_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct boot_world *w = arg;
	struct bootstrap *b = NULL;
	boot_begin(rank, w);
	ncclResult_t rc = bootstrap_init(&w->id, rank, nranks, NULL, &b);
	if (rank != w->special && rc == ncclSuccess) {
		uint8_t all[RANKS_MOST] = {0};
		/* the special rank has left: this gather cannot end well */
		rc = bootstrap_all_gather(b, all, 1);
	} else if (rank == w->special) {
		EXPECT_NCCL(ncclSuccess, rc);
	}
	bootstrap_close(b);
	EXPECT(rank == w->special || rc == ncclRemoteError);
	boot_end(rank, w);
}

START_TEST(a_rank_that_leaves_the_ring_is_an_error_for_all)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct boot_world w = {.seed = seed, .special = (int32_t)(seed % 5)};
		struct ranks_config c = {.hosts = 1, .per_host = 5, .seed = seed};
		ranks_run(&c, leaver_rank, &w);
	}
}
END_TEST

/* The one before the special rank looks at the ring once more when it has seen the end: a job that
 * has failed begins another wait, in which it would stay. */
static void looker_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct boot_world *w = arg;
	struct bootstrap *b = NULL;
	uint64_t seq;

	boot_begin(rank, w);
	ncclResult_t rc = bootstrap_init(&w->id, rank, nranks, NULL, &b);
	EXPECT(rc == ncclSuccess || (rank != w->special && rc == ncclRemoteError));
	if (!rc && (rank + 1) % nranks == w->special) {
		while (bootstrap_next_poll(b, &seq) == ncclSuccess)
			os_sleep_ns(1000);
		EXPECT_NCCL(ncclRemoteError, bootstrap_next_poll(b, &seq));
		EXPECT_NCCL(ncclRemoteError, bootstrap_next_poll(b, &seq));
	} else if (!rc && rank != w->special) {
		uint8_t all[RANKS_MOST] = {0};

		EXPECT_NCCL(ncclRemoteError, bootstrap_all_gather(b, all, 1));
	}
	bootstrap_close(b);
	boot_end(rank, w);
}

START_TEST(the_end_of_the_ring_is_seen_as_often_as_it_is_looked_for)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct boot_world w = {.seed = seed, .special = (int32_t)(seed % 4)};
		struct ranks_config c = {.hosts = 2, .per_host = 2, .seed = seed};
		ranks_run(&c, looker_rank, &w);
	}
}
END_TEST

/* Two ranks that exchange no message. The even one sees that the other is there, leaves, and waits
 * until the other one has left, which takes the connection by which it is looked at. */
static void looking_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct boot_world *w = arg;
	struct bootstrap *b = NULL;
	int32_t peer = rank ^ 1;
	uint8_t byte;
	boot_begin(rank, w);
	EXPECT_NCCL(ncclSuccess, bootstrap_init(&w->id, rank, nranks, NULL, &b));
	if (rank % 2 == 0)
		EXPECT(bootstrap_wait_left(b, peer, os_now_ns() + 1000000) == ETIMEDOUT);
	EXPECT_NCCL(ncclSuccess, bootstrap_barrier(b));
	ranks_barrier();
	if (rank % 2 == 1)
		EXPECT_NCCL(ncclRemoteError, bootstrap_recv(b, peer, 1, &byte, sizeof byte));
	bootstrap_leave(b);
	EXPECT(bootstrap_wait_left(b, peer, os_now_ns() + 1000000000) == 0);
	bootstrap_close(b);
	boot_end(rank, w);
}

START_TEST(a_rank_from_which_no_message_came_is_seen_to_leave)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct boot_world w = {.seed = seed};
		struct ranks_config c = {
			.hosts = 1 + seed % 2, .per_host = 2, .per_proc = 1, .seed = seed};
		ranks_run(&c, looking_rank, &w);
	}
}
END_TEST

static void aborter(void *arg)
{
	os_sleep_ns(40000);
	shared_store_u32(arg, 1, SHARED_RELEASE);
}

static void abort_wait_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct boot_world *w = arg;
	struct bootstrap *b = NULL;
	struct os_thread_attr attr = {.name = "aborter", .rank = rank};
	struct os_thread *t;
	shared_u32 abort_word = {0};
	boot_begin(rank, w);
	/* the special rank never comes */
	if (rank != w->special) {
		EXPECT(os_thread_start(&t, &attr, aborter, &abort_word) == 0);
		ncclResult_t rc = bootstrap_init(&w->id, rank, nranks, &abort_word, &b);
		EXPECT(rc == ncclInternalError || rc == ncclRemoteError);
		EXPECT(os_thread_join(t) == 0);
	}
	boot_end(rank, w);
}

START_TEST(waits_for_a_rank_that_never_comes_end_with_the_abort_word)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct boot_world w = {.seed = seed, .special = (int32_t)(seed % 4)};
		struct ranks_config c = {.hosts = 2, .per_host = 2, .seed = seed};
		ranks_run(&c, abort_wait_rank, &w);
	}
}
END_TEST

static void killed_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct boot_world *w = arg;
	struct bootstrap *b = NULL;
	uint8_t all[RANKS_MOST] = {0};
	boot_begin(rank, w);
	ncclResult_t rc = bootstrap_init(&w->id, rank, nranks, NULL, &b);
	EXPECT(rc == ncclSuccess || (rank == 2 && rc == ncclRemoteError));
	if (rank == 0)
		os_sleep_ns(1000000000000ull); /* never wakes */
	if (rank == 1)
		world_proc_kill(ranks_self()->all->proc[0]);
	if (rc == ncclSuccess)
		EXPECT_NCCL(ncclRemoteError, bootstrap_all_gather(b, all, 1));
	bootstrap_close(b);
}

START_TEST(a_killed_process_is_an_error_for_the_others)
{
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct boot_world w = {.seed = seed};
		struct ranks_config c = {.hosts = 1, .per_host = 3, .seed = seed};
		ranks_run(&c, killed_rank, &w);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("bootstrap");
	TCase *t = tcase_create("bootstrap");
	tcase_set_timeout(t, 60);
	tcase_add_test(t, messages_are_matched_by_rank_and_tag);
	tcase_add_test(t, a_message_of_another_size_is_named);
	tcase_add_test(t, strangers_on_the_ports_disturb_nobody);
	tcase_add_test(t, a_rank_that_comes_twice_is_refused);
	tcase_add_test(t, ranks_that_count_differently_are_refused);
	tcase_add_test(t, a_rank_from_which_no_message_came_is_seen_to_leave);
	tcase_add_test(t, a_rank_that_leaves_the_ring_is_an_error_for_all);
	tcase_add_test(t, the_end_of_the_ring_is_seen_as_often_as_it_is_looked_for);
	tcase_add_test(t, waits_for_a_rank_that_never_comes_end_with_the_abort_word);
	tcase_add_test(t, a_killed_process_is_an_error_for_the_others);
	suite_add_tcase(s, t);
	return suite_run(s);
}
