/* SPDX-License-Identifier: BSD-3-Clause */
/* RAS when a process dies, and when clients send what they should not. */
#include <check.h>
#include <stdio.h>

#include "tests/sim/ras/ras_query.h"
#include "tests/suite.h"

#define FAULTS_COUNT 64

static const char *const faults_env[] = {"NCCL_RAS_ENABLE=1", NULL};

struct faults_case {
	const char *lines;
	char text[RAS_TEST_BYTES];
};

static ncclComm_t faults_open(int32_t rank, int32_t nranks)
{
	ncclComm_t comm = comm_open(rank, nranks, ranks_id());

	ranks_barrier();
	return comm;
}

static struct os_proc *faults_proc(int32_t rank)
{
	return ranks_self()->all->proc[rank];
}

/* ---- a process dies ------------------------------------------------------------------------- */

/* The last rank's process is killed; rank 0 does it and queries. */
static void dead_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct faults_case *c = arg;
	ncclComm_t comm = faults_open(rank, nranks);

	if (rank == nranks - 1)
		os_sleep_ns(UINT32_MAX * 1000ull); /* never wakes */
	if (rank == 0) {
		world_proc_kill(faults_proc(nranks - 1));
		ras_test_query(c->lines, c->text);
		shared_add_u64(&ranks_self()->all->arrived, 1, SHARED_ACQ_REL); /* for the dead */
	}
	ranks_barrier();
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(comm));
}

static struct ranks_config faults_world(uint64_t seed)
{
	return (struct ranks_config){.hosts = 2, .per_host = 2, .seed = seed, .env = faults_env};
}

START_TEST(a_dead_process_is_named)
{
	for (uint64_t seed = 1; seed <= 5; seed++) {
		struct ranks_config w = faults_world(seed);
		struct faults_case c = {.lines = "STATUS\n"};

		ranks_run(&w, dead_rank, &c);
		EXPECT_TEXT(c.text,
			    "DEAD\n  1 job process is considered dead (unreachable via the "
			    "RAS network)\n  Process 1004 on node 10.0.1.1 managing GPU 1\n");
		EXPECT_TEXT(c.text, ") INCOMPLETE\n  Missing communicator data from 1 rank\n"
				    "  Rank 3 -- GPU 1 managed by process 1004 on node 10.0.1.1\n");
	}
}
END_TEST

START_TEST(a_dead_process_is_named_in_json)
{
	struct ranks_config w = faults_world(1);
	struct faults_case c = {.lines = "SET FORMAT JSON\nSTATUS\n"};

	ranks_run(&w, dead_rank, &c);
	EXPECT_TEXT(c.text, "\"missing_ranks_count\": 1");
	EXPECT_TEXT(c.text, "\"considered_dead\": true");
}
END_TEST

/* ---- monitoring ----------------------------------------------------------------------------- */

static void monitor_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct faults_case *c = arg;
	ncclComm_t comm = faults_open(rank, nranks);
	int fd;

	if (rank == nranks - 1)
		os_sleep_ns(UINT32_MAX * 1000ull); /* never wakes */
	if (rank == 0) {
		fd = ras_test_connect();
		ras_test_send(fd, c->lines, strlen(c->lines));
		ras_test_recv(fd, c->text, "OK\n");
		os_sleep_ns(3000000000ull);
		world_proc_kill(faults_proc(nranks - 1));
		ras_test_recv(fd, c->text, "PEER_DEAD");
		os_close(fd);
		os_sleep_ns(3000000000ull); /* the task finds that the client has gone */
		shared_add_u64(&ranks_self()->all->arrived, 1, SHARED_ACQ_REL);
	}
	ranks_barrier();
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(comm));
}

START_TEST(a_client_that_monitors_gets_the_death)
{
	struct ranks_config w = faults_world(1);
	struct faults_case c = {.lines = "MONITOR lifecycle,trace\n"};

	ranks_run(&w, monitor_rank, &c);
	EXPECT_TEXT(c.text, "] PEER_DISCONNECTED: Process 1004 on node 10.0.1.1 managing GPU 1 "
			    "connection refused\n[2026-01-01 00:00:0");
	EXPECT_TEXT(c.text, "] PEER_DEAD");
}
END_TEST

START_TEST(lifecycle_has_no_events_of_trace)
{
	struct ranks_config w = faults_world(1);
	struct faults_case c = {.lines = "MONITOR\n"};

	ranks_run(&w, monitor_rank, &c);
	EXPECT_NO_TEXT(c.text, "PEER_DISCONNECTED");
	EXPECT_NO_TEXT(c.text, "PEER_NEW");
}
END_TEST

/* ---- clients -------------------------------------------------------------------------------- */

static void clients_rank(int32_t rank, int32_t nranks, void *arg)
{
	void (*client)(void) = *(void (**)(void))arg;
	ncclComm_t comm = faults_open(rank, nranks);
	char text[RAS_TEST_BYTES];

	if (rank == 0) {
		client();
		ras_test_query("STATUS\n", text);
		EXPECT_TEXT(text, "   RUNNING      OK\n");
	}
	ranks_barrier();
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
}

static void clients_run(void (*client)(void))
{
	struct ranks_config w = {.hosts = 2, .per_host = 1, .seed = 1, .env = faults_env};

	ranks_run(&w, clients_rank, &client);
}

static void client_unknown(void)
{
	char text[RAS_TEST_BYTES];

	ras_test_query("BREW coffee\x01\nTIMEOUT -1\nTIMEOUT 1x\nTIMEOUT 99999999999999999999\n"
		       "SET FORMAT xml\nMONITOR lifecycle,tea\n\nTIMEOUT 3\nSTATUS\n",
		       text);
	EXPECT_TEXT(text, "ERROR: Unknown command BREW coffee?; expected STATUS, VERBOSE STATUS, ");
	EXPECT_TEXT(text, "ERROR: Invalid timeout value -1; expected 0 to 86400 seconds\n");
	EXPECT_TEXT(text, "ERROR: Invalid timeout value 1x; expected");
	EXPECT_TEXT(text, "ERROR: Invalid timeout value 99999999999999999999; expected");
	EXPECT_TEXT(text, "ERROR: Invalid format xml; expected text or json\n");
	EXPECT_TEXT(text, "ERROR: Invalid event group 'tea'; expected lifecycle, trace or all\n");
	EXPECT_TEXT(text, "ERROR: Unknown command ; expected");
	EXPECT_TEXT(text, "\nOK\nNCCL version ");
}

START_TEST(unknown_commands_get_errors_and_the_client_goes_on)
{
	clients_run(client_unknown);
}
END_TEST

/* A megabyte without a newline. The other end closes meanwhile. */
static void client_endless(void)
{
	static char data[1 << 20];
	char text[RAS_TEST_BYTES];
	int fd = ras_test_connect();
	size_t at = 0, done = 0;
	int e = 0;

	memset(data, 'x', sizeof data);
	while (at < sizeof data && (!e || e == EAGAIN)) {
		uint64_t seq = os_event_seq(os_socket_object(fd));

		e = os_send(fd, data + at, sizeof data - at, &done);
		at += e ? 0 : done;
		if (e == EAGAIN)
			ras_test_wait(fd, seq);
	}
	EXPECT(e == EPIPE || e == ECONNRESET);
	os_close(fd);
	fd = ras_test_connect();
	ras_test_send(fd, data, 2000);
	ras_test_recv(fd, text, NULL);
	EXPECT_TEXT(text, "ERROR: The line is too long; expected up to 1024 bytes\n");
	os_close(fd);
}

START_TEST(a_line_without_end_is_refused)
{
	clients_run(client_endless);
}
END_TEST

static void client_halves(void)
{
	static const char *const halves[] = {"",         "STAT",   "CLIENT PROTOCOL 2\nVERBOSE ST",
					     "STATUS\n", "DUMP\n", "MONITOR all\nSTATUS"};

	for (size_t i = 0; i < ARRAY_LEN(halves); i++) {
		int fd = ras_test_connect();

		ras_test_send(fd, halves[i], strlen(halves[i]));
		os_close(fd);
	}
	os_sleep_ns(5000000000ull);
}

START_TEST(a_client_may_leave_at_any_byte)
{
	clients_run(client_halves);
}
END_TEST

static void client_bytes(void)
{
	const char *line = "set format TEXT\nVerbose Status\n";
	char text[RAS_TEST_BYTES];
	int fd = ras_test_connect();

	for (const char *at = line; *at; at++) {
		ras_test_send(fd, at, 1);
		os_sleep_ns(1000000);
	}
	ras_test_recv(fd, text, NULL);
	EXPECT_TEXT(text, "OK\nNCCL version ");
	os_close(fd);
}

START_TEST(a_line_may_come_byte_by_byte)
{
	clients_run(client_bytes);
}
END_TEST

static void client_many(void)
{
	int fd[100];
	char text[RAS_TEST_BYTES];

	for (size_t i = 0; i < ARRAY_LEN(fd); i++)
		fd[i] = ras_test_connect();
	ras_test_recv(fd[ARRAY_LEN(fd) - 1], text, NULL);
	EXPECT(!text[0]); /* refused, and the others are served */
	ras_test_send(fd[0], "TIMEOUT 1\n", 10);
	ras_test_recv(fd[0], text, "\n");
	EXPECT_TEXT(text, "OK\n");
	for (size_t i = 0; i < ARRAY_LEN(fd); i++)
		os_close(fd[i]);
	os_sleep_ns(1000000000ull);
}

START_TEST(too_many_clients_are_refused)
{
	clients_run(client_many);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ras_faults");
	TCase *t = tcase_create("faults");

	tcase_add_test(t, a_dead_process_is_named);
	tcase_add_test(t, a_dead_process_is_named_in_json);
	tcase_add_test(t, a_client_that_monitors_gets_the_death);
	tcase_add_test(t, lifecycle_has_no_events_of_trace);
	tcase_add_test(t, unknown_commands_get_errors_and_the_client_goes_on);
	tcase_add_test(t, a_line_without_end_is_refused);
	tcase_add_test(t, a_client_may_leave_at_any_byte);
	tcase_add_test(t, a_line_may_come_byte_by_byte);
	tcase_add_test(t, too_many_clients_are_refused);
	suite_add_tcase(s, t);
	return suite_run(s);
}
