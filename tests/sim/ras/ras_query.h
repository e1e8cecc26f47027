/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For tests of RAS: a client in a rank's task. It connects to an address of the rank's world, sends
 * lines, and reads the answer until the other end closes.
 */
#ifndef TESTS_SIM_RAS_QUERY_H
#define TESTS_SIM_RAS_QUERY_H

#include <errno.h>

#include "tests/sim/comm/comm_rank.h"

#define RAS_TEST_BYTES 20000
#define RAS_TEST_PORT  28028

/* Waits for the socket, at most 60 s. */
static inline void ras_test_wait(int fd, uint64_t seq)
{
	struct wait w = {
		.on = os_socket_object(fd),
		.want = seq,
		.mask = WAIT_MASK_ALL,
		.kind = WAIT_OBJECT,
		.why = "test: the RAS task's answer",
		.from = {.rank = -1, .channel = -1, .step = -1, .object = "RAS"},
		.deadline_ns = os_now_ns() + 60000000000ull,
	};
	EXPECT(os_wait_one(&w, NULL) == 0);
}

static inline int ras_test_connect_to(struct os_addr to)
{
	int fd, e;

	EXPECT(os_connect(&to, &fd) == 0);
	for (;;) {
		uint64_t seq = os_event_seq(os_socket_object(fd));

		e = os_connected(fd);
		if (e != EAGAIN)
			break;
		ras_test_wait(fd, seq);
	}
	EXPECT(e == 0);
	return fd;
}

/* Connects to the client port of the caller's host. */
static inline int ras_test_connect(void)
{
	return ras_test_connect_to(
		(struct os_addr){.family = 4, .port = RAS_TEST_PORT, .ip = {127, 0, 0, 1}});
}

static inline void ras_test_send(int fd, const void *data, size_t bytes)
{
	size_t at = 0, done;

	while (at < bytes) {
		uint64_t seq = os_event_seq(os_socket_object(fd));
		int e = os_send(fd, (const char *)data + at, bytes - at, &done);

		EXPECT(e == 0 || e == EAGAIN);
		if (e)
			ras_test_wait(fd, seq);
		else
			at += done;
	}
}

/* Receives until the text contains `until`, or until the end if `until` is NULL. */
static inline void ras_test_recv(int fd, char text[RAS_TEST_BYTES], const char *until)
{
	size_t at = 0, done = 0;

	for (text[0] = '\0'; !until || !strstr(text, until);) {
		uint64_t seq = os_event_seq(os_socket_object(fd));
		int e = os_recv(fd, text + at, RAS_TEST_BYTES - 1 - at, &done);

		EXPECT(e == 0 || e == EAGAIN || e == ECONNRESET);
		if (e == EAGAIN) {
			ras_test_wait(fd, seq);
			continue;
		}
		if (e || !done)
			break;
		at += done;
		text[at] = '\0';
		EXPECT(at < RAS_TEST_BYTES - 1);
	}
}

/* Sends the lines and returns all answers in `text`. */
static inline void ras_test_query(const char *lines, char text[RAS_TEST_BYTES])
{
	int fd = ras_test_connect();

	ras_test_send(fd, lines, strlen(lines));
	ras_test_recv(fd, text, NULL);
	os_close(fd);
}

#define EXPECT_TEXT(text, part)                                                                    \
	do {                                                                                       \
		if (!strstr(text, part)) {                                                         \
			fprintf(stderr, "%s:%d: expected '%s' in:\n%s\n", __FILE__, __LINE__,      \
				part, text);                                                       \
			abort();                                                                   \
		}                                                                                  \
	} while (0)
#define EXPECT_NO_TEXT(text, part)                                                                 \
	do {                                                                                       \
		if (strstr(text, part)) {                                                          \
			fprintf(stderr, "%s:%d: expected no '%s' in:\n%s\n", __FILE__, __LINE__,   \
				part, text);                                                       \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

#endif
