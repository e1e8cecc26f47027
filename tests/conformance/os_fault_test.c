/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Faults of the host: what each does to a call of os.h. A server and a client of a world of two
 * hosts move 4,000 bytes through a connection, under each line of a table; then files, memory,
 * shared memory and threads.
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/os/os.h"
#include "sim/engine/sim.h"
#include "sim/world/world.h"
#include "tests/suite.h"

#define BYTES 4000
#define MS    1000000ull

/* The result of each end: the first errno that was not EAGAIN, and the bytes moved before it. */
static struct {
	int listen_rc, accept_rc, connect_rc, send_rc, recv_rc;
	uint32_t sent, received, sends, recvs, strangers;
	uint64_t connected_ns;
	bool eof;
	struct os_addr at;
	shared_u32 listening;
	shared_u32 failed; /* send_rc is not 0: before the client closes */
} saw;

static void wait_for(int fd, uint64_t seq)
{
	const struct wait w = {.on = os_socket_object(fd),
			       .want = seq,
			       .mask = WAIT_MASK_ALL,
			       .kind = WAIT_OBJECT,
			       .why = "test: socket",
			       .from = {-1, -1, -1, NULL}};
	ck_assert_int_eq(os_wait_one(&w, NULL), 0);
}

static uint64_t seq_of(int fd)
{
	return os_event_seq(os_socket_object(fd));
}

static uint8_t byte_at(uint32_t i)
{
	return (uint8_t)(i * 7 + i / 251);
}

static int accept_one(int fd, int *conn)
{
	for (;;) {
		uint64_t seq = seq_of(fd);
		int rc = os_accept(fd, conn, NULL);
		if (rc != EAGAIN)
			return rc;
		wait_for(fd, seq);
	}
}

/* Reads to the end. An unknown client sends other bytes, or nothing. */
static void server_read(int conn)
{
	uint8_t got[512];
	uint32_t n = 0;
	for (;;) {
		size_t done = 0;
		uint64_t seq = seq_of(conn);
		int rc = os_recv(conn, got, sizeof got, &done);
		saw.recvs++;
		if (rc == EAGAIN) {
			wait_for(conn, seq);
			continue;
		}
		saw.recv_rc = rc;
		if (rc || !done)
			break;
		bool ours = true;
		for (uint32_t i = 0; i < done; i++)
			ours &= got[i] == byte_at(n + i);
		if (!ours)
			break;
		n += (uint32_t)done;
		saw.received = n;
	}
	saw.eof = saw.recv_rc == 0;
	os_close(conn);
}

static void server_main(void *arg)
{
	struct os_addr own;
	char name[16];
	int fd = -1, conn = -1;
	bool failed = false;
	(void)arg;
	ck_assert_int_eq(os_interface(0, name, sizeof name, &own), 0);
	while ((saw.listen_rc = os_listen(&own, &fd, &saw.at)) == EADDRINUSE)
		os_sleep_ns(MS);
	ck_assert_int_eq(saw.listen_rc, 0);
	shared_store_u32(&saw.listening, 1, SHARED_RELEASE);
	os_sleep_ns(20 * MS); /* so that unknown clients come first */
	do {
		int rc = accept_one(fd, &conn);
		saw.accept_rc = saw.accept_rc ? saw.accept_rc : rc;
		if (rc)
			continue;
		server_read(conn);
		failed = shared_load_u32(&saw.failed, SHARED_ACQUIRE) != 0;
		saw.strangers += saw.received == 0 && saw.recv_rc == 0 && !failed;
	} while (saw.received == 0 && !failed && saw.recv_rc == 0);
	os_close(fd);
}

static int client_connect(int *fd)
{
	int rc = os_connect(&saw.at, fd);
	while (!rc) {
		uint64_t seq = seq_of(*fd);
		rc = os_connected(*fd);
		if (!rc)
			return 0;
		if (rc == EAGAIN) {
			wait_for(*fd, seq);
			rc = 0;
		}
	}
	if (*fd >= 0)
		os_close(*fd);
	*fd = -1;
	return rc;
}

static void client_main(void *arg)
{
	const struct wait up = {.on = &saw.listening,
				.want = 1,
				.mask = WAIT_MASK_ALL,
				.kind = WAIT_EQ,
				.bytes = 4,
				.why = "test: listener"};
	uint8_t data[BYTES];
	int fd = -1;
	(void)arg;
	for (uint32_t i = 0; i < BYTES; i++)
		data[i] = byte_at(i);
	ck_assert_int_eq(os_wait_one(&up, NULL), 0);
	os_sleep_ns(10 * MS);
	uint64_t from = os_now_ns();
	while ((saw.connect_rc = client_connect(&fd)) != 0 && saw.sends++ < 1)
		;
	saw.connected_ns = os_now_ns() - from;
	saw.sends = 0;
	while (fd >= 0 && !saw.send_rc && saw.sent < BYTES) {
		size_t done = 0;
		uint64_t seq = seq_of(fd);
		saw.sends++;
		saw.send_rc = os_send(fd, data + saw.sent, BYTES - saw.sent, &done);
		if (saw.send_rc == EAGAIN) {
			wait_for(fd, seq);
			saw.send_rc = 0;
		}
		saw.sent += (uint32_t)done;
	}
	shared_store_u32(&saw.failed, saw.send_rc != 0, SHARED_RELEASE);
	if (fd >= 0)
		os_close(fd);
}

static void both_main(void *arg)
{
	const struct os_thread_attr server = {.name = "server", .rank = 0};
	const struct os_thread_attr client = {.name = "client", .rank = 1};
	struct os_proc *p[2];
	struct os_thread *t[2];
	(void)arg;
	for (uint32_t i = 0; i < 2; i++)
		ck_assert_int_eq(world_proc_create(i, i ? "client" : "server", &p[i]), 0);
	ck_assert_int_eq(world_thread_start(p[0], &t[0], &server, server_main, NULL), 0);
	ck_assert_int_eq(world_thread_start(p[1], &t[1], &client, client_main, NULL), 0);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(os_thread_join(t[i]), 0);
	for (int i = 0; i < 2; i++)
		world_proc_exit(p[i]);
}

static void run(enum sim_engine engine, const char *plan, void (*fn)(void *))
{
	const struct sim_config sc = {.engine = engine,
				      .strategy = SIM_FIFO,
				      .fault_plan = plan,
				      .fault_plan_name = "test"};
	const struct world_config wc = {.hosts = 2, .machine = "a100-4nic"};
	memset(&saw, 0, sizeof saw);
	ck_assert_int_eq(sim_start(&sc), 0);
	ck_assert_int_eq(world_create(&wc), 0);
	ck_assert_int_eq(sim_run(fn, NULL), SIM_PASS);
	ck_assert_uint_ge(sim_faults_fired(), plan[0] != 0);
	ck_assert_uint_eq(world_destroy(), 0);
	sim_stop();
}

/* All bytes come all the same, and ... */
static const struct {
	const char *plan;
	uint32_t sends_least, recvs_least, strangers;
	int accept_rc;
	uint64_t connect_least_ns;
} harmless[] = {
	{.plan = ""},
	{.plan = "os.listen fail\n"},
	{.plan = "os.accept fail\n", .accept_rc = EMFILE},
	{.plan = "os.accept fail errno=ENFILE\n", .accept_rc = ENFILE},
	{.plan = "os.connect fail\n"},
	{.plan = "os.connect lost by=50ms\n", .connect_least_ns = 50 * MS},
	{.plan = "os.connect delay by=5ms\n", .connect_least_ns = 5 * MS},
	{.plan = "os.socket rank=1 forever partial by=100\n", .sends_least = 40},
	{.plan = "os.socket rank=0 forever partial by=100\n", .recvs_least = 40},
	{.plan = "os.socket rank=1 count=9 again\n", .sends_least = 10},
	{.plan = "os.socket rank=1 count=9 fail errno=EINTR\n", .sends_least = 10},
	{.plan = "os.socket rank=0 count=9 again\n", .recvs_least = 10},
	{.plan = "os.socket rank=1 trickle by=10us\n", .sends_least = 250},
	{.plan = "os.stranger garbage\n", .strangers = 1},
	{.plan = "os.stranger hangup\n", .strangers = 1},
	{.plan = "os.task rank=1 starve by=30ms\n"},
};

START_TEST(what_is_harmless_costs_no_byte)
{
	for (int e = 0; e < 2; e++) {
		enum sim_engine engine = e ? SIM_ENGINE_THREADS : SIM_ENGINE_SIM;
		run(engine, harmless[_i].plan, both_main);
		ck_assert_uint_eq(saw.received, BYTES);
		ck_assert(saw.eof);
		ck_assert_int_eq(saw.accept_rc, harmless[_i].accept_rc);
		ck_assert_uint_ge(saw.sends, harmless[_i].sends_least);
		ck_assert_uint_ge(saw.recvs, harmless[_i].recvs_least);
		ck_assert_uint_eq(saw.strangers, harmless[_i].strangers);
		if (!e)
			ck_assert_uint_ge(saw.connected_ns, harmless[_i].connect_least_ns);
	}
}
END_TEST

/* The ends see these errors, and not all bytes come. */
static const struct {
	const char *plan;
	int connect_rc, send_rc, recv_rc;
} harmful[] = {
	{"os.socket rank=1 reset\n", 0, ECONNRESET, ECONNRESET},
	{"os.socket rank=1 fail\n", 0, EIO, 0},
	{"os.socket rank=1 fail errno=EPIPE\n", 0, EPIPE, 0},
	{"os.socket rank=1 nth=1 close\n", 0, EPIPE, 0},
};

START_TEST(what_breaks_a_connection_shows_at_both_ends)
{
	for (int e = 0; e < 2; e++) {
		run(e ? SIM_ENGINE_THREADS : SIM_ENGINE_SIM, harmful[_i].plan, both_main);
		ck_assert_uint_lt(saw.received, BYTES);
		ck_assert_int_eq(saw.send_rc, harmful[_i].send_rc);
		ck_assert_int_eq(saw.recv_rc, harmful[_i].recv_rc);
	}
}
END_TEST

/* One task is both ends: it sends, the other end is cut off before the bytes have come, and
 * closes. */
static void cut_main(void *arg)
{
	struct os_addr own, at;
	char name[16], byte;
	int listener = -1, conn = -1, fd = -1;
	size_t done = 0;
	(void)arg;
	ck_assert_int_eq(os_interface(0, name, sizeof name, &own), 0);
	ck_assert_int_eq(os_listen(&own, &listener, &at), 0);
	saw.at = at;
	ck_assert_int_eq(client_connect(&fd), 0);
	ck_assert_int_eq(accept_one(listener, &conn), 0);
	ck_assert_int_eq(os_send(fd, "hello", 5, &done), 0);
	ck_assert_int_eq(os_recv(conn, &byte, 1, &done), 0);
	ck_assert_uint_eq(done, 0); /* the end of the stream, and not what was sent */
	os_close(conn);
	os_sleep_ns(10 * MS);
	saw.recv_rc = os_recv(fd, &byte, 1, &done);
	os_close(fd);
	os_close(listener);
}

START_TEST(who_sent_what_was_on_its_way_to_a_closed_end_is_reset)
{
	run(SIM_ENGINE_SIM, "os.socket delay by=1ms\nos.socket close\n", cut_main);
	ck_assert_int_eq(saw.recv_rc, ECONNRESET);
}
END_TEST

/* ---- the rest of a host --------------------------------------------------------------------- */

static void nothing(void *arg)
{
	(void)arg;
}

static void rest_main(void *arg)
{
	const struct os_thread_attr attr = {.name = "thread", .rank = -1};
	struct os_thread *t = NULL;
	char *data = NULL;
	void *mem = NULL;
	size_t bytes = 0;
	(void)arg;
	ck_assert_ptr_null(os_alloc(10, "test"));
	void *p = os_alloc(10, "test");
	ck_assert_ptr_nonnull(p);
	os_free(p);
	ck_assert_int_eq(os_file_read("/topo/machine.xml", &data, &bytes), EACCES);
	ck_assert_ptr_null(data);
	ck_assert_int_eq(os_shm_create("x", 100, &mem), ENOSPC);
	ck_assert_int_eq(os_shm_create("x", 100, &mem), 0);
	ck_assert_int_eq(os_shm_unmap(mem, 100), 0);
	ck_assert_int_eq(os_shm_unlink("x"), 0);
	ck_assert_int_eq(os_thread_start(&t, &attr, nothing, NULL), EAGAIN);
	ck_assert_ptr_null(t);
	ck_assert_int_eq(os_thread_start(&t, &attr, nothing, NULL), 0);
	ck_assert_int_eq(os_thread_join(t), 0);
}

START_TEST(memory_files_segments_and_threads_are_refused)
{
	run(_i ? SIM_ENGINE_THREADS : SIM_ENGINE_SIM,
	    "os.alloc fail\nos.file fail errno=EACCES\nos.shm fail errno=ENOSPC\nos.thread fail\n",
	    rest_main);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("os faults");
	TCase *t = tcase_create("os faults");
	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, what_is_harmless_costs_no_byte, 0, ARRAY_LEN(harmless));
	tcase_add_loop_test(t, what_breaks_a_connection_shows_at_both_ends, 0, ARRAY_LEN(harmful));
	tcase_add_test(t, who_sent_what_was_on_its_way_to_a_closed_end_is_reset);
	tcase_add_loop_test(t, memory_files_segments_and_threads_are_refused, 0, 2);
	suite_add_tcase(s, t);
	return suite_run(s);
}
