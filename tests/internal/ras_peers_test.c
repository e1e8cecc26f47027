/* SPDX-License-Identifier: BSD-3-Clause */
/* RAS tasks among themselves: a process that gives no answer, and garbage instead of a request. */
#include <check.h>
#include <time.h>

#include "core/rank/rank.h"
#include "core/ras/ras_job.h"
#include "tests/sim/ras/ras_query.h"
#include "tests/suite.h"

static const char *const peers_env[] = {"NCCL_RAS_ENABLE=1", NULL};

static struct ranks_config peers_world(void)
{
	return (struct ranks_config){.hosts = 2, .per_host = 1, .seed = 1, .env = peers_env};
}

/* ---- silence -------------------------------------------------------------------------------- */

/* Moves rank 1's RAS address, as rank 0 knows it, to a socket that never answers. */
static int peers_silence(ncclComm_t comm)
{
	struct os_addr at = {.family = 4, .ip = {10, 0, 0, 1}}, bound;
	int fd;

	EXPECT(os_listen(&at, &fd, &bound) == 0);
	comm->ras_peers[1].addr = bound;
	return fd;
}

static void silent_checks(void)
{
	char text[RAS_TEST_BYTES];
	uint64_t from_ns = os_now_ns(), took_ns;

	ras_test_query("TIMEOUT 2\nSTATUS\n", text);
	took_ns = os_now_ns() - from_ns;
	EXPECT(took_ns >= 2000000000ull && took_ns < 2500000000ull);
	EXPECT_TEXT(text, "INCOMPLETE\n  Missing communicator data from 1 job process\n"
			  "  Process 1002 on node 10.0.0.1 managing GPU 0\n");
	EXPECT_TEXT(text, "  Rank 1 -- GPU 0 managed by process 1002 on node 10.0.0.1\n");
	EXPECT_TEXT(text, "TIMEOUT\n  Encountered 1 communication timeout while gathering");
	from_ns = os_now_ns();
	ras_test_query("STATUS\n", text);
	took_ns = os_now_ns() - from_ns;
	EXPECT(took_ns >= 5000000000ull && took_ns < 5500000000ull);
	os_sleep_ns(60000000000ull);
	from_ns = os_now_ns();
	ras_test_query("STATUS\n", text);
	EXPECT(os_now_ns() - from_ns < 500000000ull);
	EXPECT_TEXT(text, "DEAD\n  1 job process is considered dead");
}

static void silent_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm = comm_open(rank, nranks, ranks_id());

	(void)arg;
	ranks_barrier();
	if (rank == 0) {
		int fd = peers_silence(comm);

		silent_checks();
		os_close(fd);
	}
	ranks_barrier();
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
}

START_TEST(a_silent_process_is_named_and_later_dead)
{
	struct ranks_config w = peers_world();

	ranks_run(&w, silent_rank, NULL);
}
END_TEST

/* ---- garbage -------------------------------------------------------------------------------- */

/* Sends the bytes to the RAS task's address for other tasks, which must close the connection. */
static void garbage_send(ncclComm_t comm, const void *data, size_t bytes)
{
	int fd = ras_test_connect_to(ras_address(comm->ras));
	char text[RAS_TEST_BYTES];

	ras_test_send(fd, data, bytes);
	ras_test_recv(fd, text, NULL);
	EXPECT(!text[0]);
	os_close(fd);
}

static void garbage_heads(ncclComm_t comm)
{
	const struct ras_head good = {
		.magic = RAS_WIRE_MAGIC, .version = RAS_WIRE_VERSION, .kind = RAS_WIRE_REPORT};
	struct ras_head head = good;

	garbage_send(comm, "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", 37);
	head.version++;
	garbage_send(comm, &head, sizeof head);
	head = good;
	head.kind = RAS_WIRE_ANSWER;
	garbage_send(comm, &head, sizeof head);
	head = good;
	head.hashes = UINT32_MAX;
	garbage_send(comm, &head, sizeof head);
	head = good;
	head.text = 1;
	garbage_send(comm, &head, sizeof head);
}

/* Verdicts with another number of words, of no phase, and without an error. */
static void garbage_verdicts(ncclComm_t comm)
{
	struct {
		struct ras_head head;
		uint64_t word[RAS_FAIL_WORDS];
	} m = {.head = {.magic = RAS_WIRE_MAGIC,
			.version = RAS_WIRE_VERSION,
			.kind = RAS_WIRE_FAIL,
			.hashes = RAS_FAIL_WORDS - 1}};

	garbage_send(comm, &m, sizeof m - 8);
	m.head.hashes = RAS_FAIL_WORDS;
	m.word[RAS_FAIL_COMM] = comm->id_hash;
	m.word[RAS_FAIL_PHASE] = RAS_COMMIT + 1;
	m.word[RAS_FAIL_ERROR] = ncclTimeout;
	garbage_send(comm, &m, sizeof m);
	m.word[RAS_FAIL_PHASE] = RAS_COMMIT;
	m.word[RAS_FAIL_ERROR] = ncclSuccess;
	garbage_send(comm, &m, sizeof m);
}

static void garbage_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm = comm_open(rank, nranks, ranks_id());
	char text[RAS_TEST_BYTES];

	(void)arg;
	ranks_barrier();
	if (rank == 0) {
		garbage_heads(comm);
		garbage_verdicts(comm);
		ras_test_query("STATUS\n", text);
		EXPECT_TEXT(text, "   RUNNING      OK\n");
	}
	ranks_barrier();
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
}

START_TEST(garbage_closes_the_connection)
{
	struct ranks_config w = peers_world();

	ranks_run(&w, garbage_rank, NULL);
}
END_TEST

/* ---- sorting -------------------------------------------------------------------------------- */

static int sort_order(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

START_TEST(sorting_orders_any_number_of_elements)
{
	uint64_t state = 88172645463325252ull;

	for (size_t n = 0; n < 100; n++) {
		uint64_t element[100][3], sum = 0, sorted = 0;

		for (size_t i = 0; i < n; i++) {
			state ^= state << 13;
			state ^= state >> 7;
			state ^= state << 17;
			element[i][0] = state % (n + 1);
			element[i][1] = element[i][2] = element[i][0] * 3;
			sum += element[i][0];
		}
		ras_sort(element, n, sizeof element[0], sort_order);
		for (size_t i = 0; i < n; i++) {
			ck_assert(!i || element[i - 1][0] <= element[i][0]);
			ck_assert_uint_eq(element[i][2], element[i][0] * 3);
			sorted += element[i][0];
		}
		ck_assert_uint_eq(sorted, sum);
	}
}
END_TEST

/* The real clock of this program, which runs in no world. */
START_TEST(dates_are_those_of_the_c_library)
{
	char before[RAS_DATE_BYTES], date[RAS_DATE_BYTES], after[RAS_DATE_BYTES];
	time_t now = time(NULL);

	strftime(before, sizeof before, "%Y-%m-%d %H:%M:%S", gmtime(&now));
	ras_date_print(date);
	now = time(NULL);
	strftime(after, sizeof after, "%Y-%m-%d %H:%M:%S", gmtime(&now));
	ck_assert_msg(strcmp(before, date) <= 0 && strcmp(date, after) <= 0, "%s %s %s", before,
		      date, after);
}
END_TEST

/* ---- an init that stops --------------------------------------------------------------------- */

/* The last rank joins the others, and does nothing more. Rank 0 queries RAS meanwhile. */
static void stops_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclUniqueId id = ranks_id();
	struct bootstrap *b = NULL;
	ncclComm_t comm;

	EXPECT(cudaSetDevice((int)comm_device(rank)) == cudaSuccess);
	if (rank == nranks - 1) {
		EXPECT_NCCL(ncclSuccess, bootstrap_init(&id, rank, nranks, NULL, &b));
		os_sleep_ns(1000000000);
		ras_test_query("DUMP\n", arg);
	} else {
		EXPECT_NCCL(ncclTimeout, ncclCommInitRank(&comm, nranks, id, rank));
		EXPECT_ERROR_SAYS(" (DOPPEL_TIMEOUT_MS 5.000 s) and is gathering the identities of "
				  "all ranks");
	}
	ranks_barrier();
	bootstrap_close(b);
}

START_TEST(an_init_that_stops_later_ends_on_each_rank)
{
	for (uint64_t seed = 1; seed <= 5; seed++) {
		struct ranks_config w = {
			.hosts = 2,
			.per_host = 2,
			.seed = seed,
			.env = (const char *const[]){"DOPPEL_TIMEOUT_MS=5000", NULL}};
		char text[RAS_TEST_BYTES];

		ranks_run(&w, stops_rank, text);
		EXPECT_TEXT(text, " rank 2 of 4: its init runs since ");
		EXPECT_TEXT(text, " s, gathering the identities of all ranks\n");
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ras_peers");
	TCase *t = tcase_create("peers");

	tcase_add_test(t, a_silent_process_is_named_and_later_dead);
	tcase_add_test(t, garbage_closes_the_connection);
	tcase_add_test(t, an_init_that_stops_later_ends_on_each_rank);
	tcase_add_test(t, dates_are_those_of_the_c_library);
	tcase_add_test(t, sorting_orders_any_number_of_elements);
	suite_add_tcase(s, t);
	return suite_run(s);
}
