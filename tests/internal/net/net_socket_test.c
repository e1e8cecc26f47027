/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * net_socket by itself: two ends, over the world's sockets (two processes on two hosts, many seeds)
 * and over the loopback sockets of this machine.
 */
#include <check.h>
#include <stdlib.h>

#include "core/os/os_ops.h"
#include "sim/engine/sim.h"
#include "sim/world/world.h"
#include "tests/internal/net/net_socket_sides.h"
#include "tests/suite.h"

#define SEEDS 5

/* ---- ends that are not of this library ------------------------------------------------------ */

static int raw_connect(void)
{
	struct net_socket_handle h;
	struct wait w;
	int fd = -1;

	await_word(&pair.listening, "the handle");
	memcpy(&h, pair.handle.bytes, sizeof h);
	ck_assert_int_eq(os_connect(&h.addr, &fd), 0);
	for (int rc = EAGAIN; rc == EAGAIN;) {
		w = (struct wait){.on = os_socket_object(fd),
				  .want = os_event_seq(os_socket_object(fd)),
				  .kind = WAIT_OBJECT,
				  .why = "to be connected",
				  .from = {-1, -1, -1, NULL}};
		rc = os_connected(fd);
		ck_assert(rc == 0 || rc == EAGAIN);
		if (rc)
			os_wait_one(&w, NULL);
	}
	return fd;
}

static void raw_send(int fd, const void *data, size_t bytes)
{
	size_t done = 0;

	while (bytes) {
		int rc = os_send(fd, data, bytes, &done);

		if (rc && rc != EAGAIN)
			return; /* the other end has closed */
		if (rc)
			os_sleep_ns(100000);
		data = (const char *)data + (rc ? 0 : done);
		bytes -= rc ? 0 : done;
	}
}

/* Waits until the other end closes. */
static void raw_close(int fd)
{
	size_t done = 1;
	char byte[64];

	for (int rc = EAGAIN; rc == EAGAIN || (!rc && done);) {
		rc = os_recv(fd, byte, sizeof byte, &done);
		if (rc == EAGAIN)
			os_sleep_ns(100000);
	}
	os_close(fd);
}

static struct net_socket_hello raw_hello(void)
{
	struct net_socket_handle h;

	memcpy(&h, pair.handle.bytes, sizeof h);
	return (struct net_socket_hello){
		.magic = NET_SOCKET_HELLO_MAGIC, .version = NET_SOCKET_VERSION, .nonce = h.nonce};
}

static void foreign_client_main(void *arg)
{
	static const char text[] =
		"GET / HTTP/1.1\r\nHost: somewhere\r\nAccept: everything\r\n\r\n";
	int fd = raw_connect();

	(void)arg;
	raw_send(fd, text, sizeof text);
	os_close(fd);
}

static void other_version_main(void *arg)
{
	int fd = raw_connect();
	struct net_socket_hello hello = raw_hello();

	(void)arg;
	hello.version++;
	raw_send(fd, &hello, sizeof hello);
	raw_close(fd);
}

/* The second message has the first one's number. */
static void wrong_turn_main(void *arg)
{
	int fd = raw_connect();
	struct net_socket_hello hello = raw_hello();
	struct net_socket_header header = {.magic = NET_SOCKET_MESSAGE_MAGIC, .bytes = 0};

	(void)arg;
	raw_send(fd, &hello, sizeof hello);
	header.bytes = size_of(0);
	raw_send(fd, &header, sizeof header);
	uint8_t *data = os_alloc(size_of(0), "data");
	for (size_t i = 0; i < size_of(0); i++)
		data[i] = byte_of(0, i);
	raw_send(fd, data, size_of(0));
	os_free(data);
	raw_send(fd, &header, sizeof header);
	raw_close(fd);
}

/* ---- worlds --------------------------------------------------------------------------------- */

static struct os_thread *spawn(struct os_proc *proc, const char *name, int rank, void (*fn)(void *))
{
	struct os_thread_attr attr = {.name = name, .rank = rank};
	struct os_thread *t;

	if (proc)
		ck_assert_int_eq(world_thread_start(proc, &t, &attr, fn, NULL), 0);
	else
		ck_assert_int_eq(os_thread_start(&t, &attr, fn, NULL), 0);
	return t;
}

static void pair_tasks(struct os_proc *a, struct os_proc *b)
{
	struct os_thread *task[3];
	int n = 0;

	if (pair.stranger)
		task[n++] = spawn(a, "stranger", -1, foreign_client_main);
	task[n++] = spawn(a, "sender", 0, pair.sender ? pair.sender : send_main);
	task[n++] = spawn(b, "receiver", 1, recv_main);
	for (int i = 0; i < n; i++)
		os_thread_join(task[i]);
}

static void pair_main(void *arg)
{
	struct os_proc *a, *b;

	(void)arg;
	ck_assert_int_eq(world_proc_create(0, "sender", &a), 0);
	ck_assert_int_eq(world_proc_create(1, "receiver", &b), 0);
	pair_tasks(a, b);
	world_proc_exit(a);
	world_proc_exit(b);
}

static void pair_verify(const char *where, uint64_t seed)
{
	ck_assert_msg(pair.got[0] == pair.want[0] && pair.got[1] == pair.want[1],
		      "%s, seed %llu: sender %d, receiver %d", where, (unsigned long long)seed,
		      pair.got[0], pair.got[1]);
}

static const struct {
	const char *name, *env[3];
} shapes[] = {
	{"one socket", {"NCCL_NSOCKS_PERTHREAD=1"}},
	{"four lanes", {"NCCL_NSOCKS_PERTHREAD=4", "NCCL_SOCKET_NTHREADS=1"}},
	{"two tasks", {"NCCL_NSOCKS_PERTHREAD=1", "NCCL_SOCKET_NTHREADS=2"}},
	{"three tasks of two", {"NCCL_NSOCKS_PERTHREAD=2", "NCCL_SOCKET_NTHREADS=3"}},
	{"IPv6", {"NCCL_SOCKET_FAMILY=AF_INET6"}}, /* last: not every machine has it */
};

static void pair_run(const struct pair *test, int shape)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct sim_config config = {.engine = SIM_ENGINE_SIM, .seed = seed};
		struct world_config world = {
			.hosts = 2, .machine = "workstation-2gpu", .env = shapes[shape].env};

		pair = *test;
		ck_assert_int_eq(sim_start(&config), 0);
		ck_assert_int_eq(world_create(&world), 0);
		ck_assert_int_eq(sim_run(pair_main, NULL), SIM_PASS);
		ck_assert_uint_eq(world_destroy(), 0);
		sim_stop();
		pair_verify(shapes[shape].name, seed);
	}
}

/* In this process, over real sockets. */
static void pair_run_real(const struct pair *test, int shape)
{
	for (int i = 0; shapes[shape].env[i]; i++)
		putenv((char *)shapes[shape].env[i]);
	putenv((char *)"NCCL_SOCKET_IFNAME=lo");
	pair = *test;
	pair_tasks(NULL, NULL);
	pair_verify(shapes[shape].name, 0);
}

START_TEST(messages_arrive_whole_and_in_order)
{
	pair_run(&(struct pair){0}, _i);
}
END_TEST

START_TEST(real_sockets_carry_the_same)
{
	pair_run_real(&(struct pair){0}, _i);
}
END_TEST

START_TEST(real_sockets_of_ipv6_too)
{
	struct sock_interface found[SOCK_INTERFACES];
	int count;

	putenv((char *)"NCCL_SOCKET_FAMILY=AF_INET6");
	putenv((char *)"NCCL_SOCKET_IFNAME=lo");
	if (sock_interfaces(found, &count)) /* a machine without */
		return;
	ck_assert_int_eq(found[0].addr.family, 6);
	pair_run_real(&(struct pair){.sends = 20, .recvs = 20}, 1);
}
END_TEST

START_TEST(a_stranger_on_the_port_disturbs_nobody)
{
	pair_run(&(struct pair){.stranger = true, .sends = 3, .recvs = 3}, _i);
}
END_TEST

START_TEST(a_sender_that_leaves_early_is_a_remote_error)
{
	pair_run(&(struct pair){.sends = 10, .want = {ncclSuccess, ncclRemoteError}}, _i);
}
END_TEST

START_TEST(a_receiver_that_leaves_early_is_a_remote_error)
{
	pair_run(&(struct pair){.recvs = 5, .want = {ncclRemoteError, ncclSuccess}}, _i);
}
END_TEST

START_TEST(a_message_too_long_for_its_receive_is_an_error_at_both_ends)
{
	pair_run(&(struct pair){.room = 4097, .want = {ncclRemoteError, ncclRemoteError}}, _i);
}
END_TEST

START_TEST(a_peer_of_another_version_is_refused)
{
	pair_run(&(struct pair){.sender = other_version_main, .want = {0, ncclInvalidUsage}}, _i);
}
END_TEST

START_TEST(a_message_out_of_turn_is_refused)
{
	pair_run(&(struct pair){.sender = wrong_turn_main, .want = {0, ncclRemoteError}}, 0);
}
END_TEST

START_TEST(handles_are_checked)
{
#define HANDLE(rank_, version_, family_, lanes_, tasks_)                                           \
	{                                                                                          \
		.magic = NET_SOCKET_HANDLE_MAGIC, .version = (version_), .rank = (rank_),          \
		.addr.family = (family_), .lanes = (lanes_), .tasks = (tasks_)                     \
	}
	static const struct {
		struct net_socket_handle h;
		ncclResult_t want;
	} rows[] = {
		{HANDLE(1, NET_SOCKET_VERSION, 4, 0, 0), ncclSuccess},
		{HANDLE(1, NET_SOCKET_VERSION, 6, 8, 4), ncclSuccess},
		{HANDLE(2, NET_SOCKET_VERSION, 4, 0, 0), ncclRemoteError},
		{HANDLE(1, NET_SOCKET_VERSION, 5, 0, 0), ncclRemoteError},
		{HANDLE(1, NET_SOCKET_VERSION, 4, 1, 0), ncclRemoteError},
		{HANDLE(1, NET_SOCKET_VERSION, 4, 65, 0), ncclRemoteError},
		{HANDLE(1, NET_SOCKET_VERSION, 4, 6, 4), ncclRemoteError},
		{HANDLE(1, NET_SOCKET_VERSION, 4, 34, 17), ncclRemoteError},
		{HANDLE(1, NET_SOCKET_VERSION, 4, 0, 4), ncclRemoteError},
		{HANDLE(1, NET_SOCKET_VERSION + 1, 4, 0, 0), ncclInvalidUsage},
		{{.magic = 0xd0de3001u /* of net_verbs */}, ncclInvalidUsage},
	};
#undef HANDLE

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		ck_assert_msg(net_socket_handle_check(0, 1, &rows[i].h) == rows[i].want, "row %zu",
			      i);
}
END_TEST

START_TEST(long_messages_have_parts)
{
	ck_assert_uint_eq(net_socket_parts(1u << 20, 0), 0);
	ck_assert_uint_eq(net_socket_parts(65536, 4), 0);
	ck_assert_uint_eq(net_socket_parts(65537, 4), 2);
	ck_assert_uint_eq(net_socket_parts(1u << 20, 4), 4);
	ck_assert_uint_eq(net_socket_parts((1u << 20) + 1, 4), 4);
	ck_assert_uint_eq(net_socket_parts(3u << 16, 4), 3);
	ck_assert_uint_eq(net_socket_parts(0, 4), 0);
}
END_TEST

int main(void)
{
	const int all = (int)ARRAY_LEN(shapes);
	Suite *suite = suite_create("net_socket");
	TCase *t = tcase_create("pair");

	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, messages_arrive_whole_and_in_order, 0, all);
	tcase_add_loop_test(t, real_sockets_carry_the_same, 0, all - 1);
	tcase_add_test(t, real_sockets_of_ipv6_too);
	tcase_add_loop_test(t, a_stranger_on_the_port_disturbs_nobody, 0, all);
	tcase_add_loop_test(t, a_sender_that_leaves_early_is_a_remote_error, 0, all);
	tcase_add_loop_test(t, a_receiver_that_leaves_early_is_a_remote_error, 0, all);
	tcase_add_loop_test(t, a_message_too_long_for_its_receive_is_an_error_at_both_ends, 0, all);
	tcase_add_loop_test(t, a_peer_of_another_version_is_refused, 0, all);
	tcase_add_test(t, a_message_out_of_turn_is_refused);
	tcase_add_test(t, handles_are_checked);
	tcase_add_test(t, long_messages_have_parts);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
