/* SPDX-License-Identifier: BSD-3-Clause */
/* Sockets and interfaces as os.h defines them, on every pair of halves. */
#include "tests/conformance/os_pairs.h"

static struct os_addr loopback(uint16_t port)
{
	return (struct os_addr){.family = 4, .port = port, .ip = {127, 0, 0, 1}};
}

static void socket_wait(int fd, uint64_t seq)
{
	const struct wait w = object_wait(os_socket_object(fd), seq);
	ck_assert_int_eq(os_wait_one(&w, NULL), 0);
}

static int connect_and_wait(const struct os_addr *to, int *fd)
{
	int rc = os_connect(to, fd);
	if (rc)
		return rc;
	for (;;) {
		uint64_t seq = os_event_seq(os_socket_object(*fd));
		rc = os_connected(*fd);
		if (rc != EAGAIN)
			return rc;
		socket_wait(*fd, seq);
	}
}

static int accept_and_wait(int fd, struct os_addr *peer)
{
	int conn = -1;
	for (;;) {
		uint64_t seq = os_event_seq(os_socket_object(fd));
		int rc = os_accept(fd, &conn, peer);
		if (rc == 0)
			return conn;
		ck_assert_int_eq(rc, EAGAIN);
		socket_wait(fd, seq);
	}
}

static void send_all(int fd, const uint8_t *data, size_t n)
{
	for (size_t at = 0; at < n;) {
		uint64_t seq = os_event_seq(os_socket_object(fd));
		size_t done = 0;
		int rc = os_send(fd, data + at, n - at, &done);
		if (rc == EAGAIN) {
			socket_wait(fd, seq);
			continue;
		}
		ck_assert_int_eq(rc, 0);
		ck_assert_uint_gt(done, 0);
		at += done;
	}
}

/* Bytes read until n, or the end of the stream. */
static size_t recv_all(int fd, uint8_t *data, size_t n)
{
	for (size_t at = 0; at < n;) {
		uint64_t seq = os_event_seq(os_socket_object(fd));
		size_t done = 0;
		int rc = os_recv(fd, data + at, n - at, &done);
		if (rc == EAGAIN) {
			socket_wait(fd, seq);
			continue;
		}
		ck_assert_int_eq(rc, 0);
		if (done == 0)
			return at;
		at += done;
	}
	return n;
}

#define ECHO_BYTES 700001

static uint8_t echo_byte(size_t i)
{
	return (uint8_t)(i * 131 + (i >> 8));
}

static void thread_echoes(void *arg)
{
	const struct os_addr *to = arg;
	int fd = -1;
	ck_assert_int_eq(connect_and_wait(to, &fd), 0);
	uint8_t *data = os_alloc(ECHO_BYTES, "echo");
	ck_assert_uint_eq(recv_all(fd, data, ECHO_BYTES), ECHO_BYTES);
	send_all(fd, data, ECHO_BYTES);
	os_free(data);
	ck_assert_int_eq(os_close(fd), 0);
}

static void bytes_go_both_ways_in_order_then_end(void)
{
	int fd = -1;
	struct os_addr at = loopback(0), bound, peer;
	ck_assert_int_eq(os_listen(&at, &fd, &bound), 0);
	ck_assert_uint_ne(bound.port, 0);
	struct os_thread *t = start("echo", thread_echoes, &bound);
	int conn = accept_and_wait(fd, &peer);
	ck_assert_uint_eq(peer.family, 4);
	uint8_t *data = os_alloc(ECHO_BYTES + 10, "payload"),
		*back = os_alloc(ECHO_BYTES + 10, "back");
	for (size_t i = 0; i < ECHO_BYTES; i++)
		data[i] = echo_byte(i);
	send_all(conn, data, ECHO_BYTES);
	/* requests more than comes: ends where the peer closed */
	ck_assert_uint_eq(recv_all(conn, back, ECHO_BYTES + 10), ECHO_BYTES);
	ck_assert_int_eq(memcmp(data, back, ECHO_BYTES), 0);
	join(t);
	os_free(data);
	os_free(back);
	ck_assert_int_eq(os_close(conn), 0);
	ck_assert_int_eq(os_close(fd), 0);
	ck_assert_int_eq(os_close(fd), EBADF);
}

static void nobody_listens_is_connection_refused(void)
{
	int fd = -1, listener = -1;
	struct os_addr at = loopback(0), bound;
	ck_assert_int_eq(os_listen(&at, &listener, &bound), 0);
	ck_assert_int_eq(os_close(listener), 0);
	int rc = connect_and_wait(&bound, &fd);
	ck_assert_int_eq(rc, ECONNREFUSED);
	if (fd >= 0)
		ck_assert_int_eq(os_close(fd), 0);
}

static void a_port_is_taken_once(void)
{
	int fd = -1, other = -1;
	struct os_addr at = loopback(0), bound, second = {.port = 9};
	ck_assert_int_eq(os_listen(&at, &fd, &bound), 0);
	ck_assert_int_eq(os_listen(&bound, &other, &second), EADDRINUSE);
	ck_assert_int_eq(other, -1);
	ck_assert_uint_eq(second.port, 9);
	int conn = -1;
	ck_assert_int_eq(os_accept(fd, &conn, NULL), EAGAIN);
	ck_assert_int_eq(os_close(fd), 0);
}

static void writing_to_a_closed_peer_breaks(void)
{
	int fd = -1, out = -1, rc = 0;
	struct os_addr at = loopback(0), bound;
	uint8_t data[100] = {1};
	ck_assert_int_eq(os_listen(&at, &fd, &bound), 0);
	ck_assert_int_eq(connect_and_wait(&bound, &out), 0);
	int conn = accept_and_wait(fd, NULL);
	ck_assert_int_eq(os_close(conn), 0);
	for (int i = 0; i < 1000 && !rc; i++) {
		size_t done = 0;
		rc = os_send(out, data, sizeof data, &done);
		os_sleep_ns(100 * US);
	}
	ck_assert_msg(rc == EPIPE || rc == ECONNRESET, "rc %d", rc);
	ck_assert_int_eq(os_close(out), 0);
	ck_assert_int_eq(os_close(fd), 0);
}

static void a_sender_that_outruns_its_reader_is_held(void)
{
	int fd = -1, out = -1, rc = 0;
	struct os_addr at = loopback(0), bound;
	uint8_t data[8192] = {0};
	size_t sent = 0, got = 0;
	ck_assert_int_eq(os_listen(&at, &fd, &bound), 0);
	ck_assert_int_eq(connect_and_wait(&bound, &out), 0);
	int conn = accept_and_wait(fd, NULL);
	while (rc == 0) {
		size_t done = 0;
		rc = os_send(out, data, sizeof data, &done);
		sent += rc ? 0 : done;
		ck_assert_uint_lt(sent, 1u << 30);
	}
	ck_assert_int_eq(rc, EAGAIN);
	ck_assert_int_eq(os_close(out), 0);
	while ((rc = (int)recv_all(conn, data, sizeof data)))
		got += (size_t)rc;
	ck_assert_uint_eq(got, sent);
	ck_assert_int_eq(os_close(conn), 0);
	ck_assert_int_eq(os_close(fd), 0);
}

static void interfaces_are_listed_and_reachable(void)
{
	char name[32] = "";
	struct os_addr addr = {0}, bound;
	ck_assert_int_eq(os_interface(0, name, sizeof name, &addr), 0);
	ck_assert_uint_gt(strlen(name), 0);
	ck_assert(addr.family == 4 || addr.family == 6);
	ck_assert_int_eq(os_interface(100000, name, sizeof name, &addr), ENOENT);
	int fd = -1, out = -1;
	addr.port = 0;
	ck_assert_int_eq(os_listen(&addr, &fd, &bound), 0);
	ck_assert_int_eq(connect_and_wait(&bound, &out), 0);
	int conn = accept_and_wait(fd, NULL);
	ck_assert_int_eq(os_close(conn), 0);
	ck_assert_int_eq(os_close(out), 0);
	ck_assert_int_eq(os_close(fd), 0);
}

/* ---- the table of cases --------------------------------------------------------------------- */

#define CASES(X)                                                                                   \
	X(bytes_go_both_ways_in_order_then_end)                                                    \
	X(nobody_listens_is_connection_refused)                                                    \
	X(a_port_is_taken_once)                                                                    \
	X(writing_to_a_closed_peer_breaks)                                                         \
	X(a_sender_that_outruns_its_reader_is_held)                                                \
	X(interfaces_are_listed_and_reachable)

static const struct os_case cases[] = {CASES(OS_CASE)};

int main(void)
{
	return os_suite_run("os sockets", cases, (int)(sizeof cases / sizeof cases[0]));
}
