/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/world/program/ras_ask.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/os/os_ops.h"
#include "sim/world/world.h"

#define ASK_PORT      28028
#define ASK_BYTES     (1u << 20) /* of the answer, at most */
#define ASK_ANSWER_NS 60000000000ull

static struct ask {
	struct os_proc *proc;
	struct os_thread *task;
	uint64_t after_ns;
	shared_u32 over;
	char *text;
	size_t bytes;
} ask;

/* Waits for the socket's next event. False: the programs have ended, or no answer has come. */
static bool ask_wait(int fd, uint64_t seq, uint64_t deadline_ns)
{
	const struct wait w = {
		.on = os_socket_object(fd),
		.want = seq,
		.mask = WAIT_MASK_ALL,
		.kind = WAIT_OBJECT,
		.why = "the answer of RAS to DUMP",
		.from = {.rank = -1, .channel = -1, .step = -1, .object = "RAS"},
		.deadline_ns = deadline_ns,
	};

	return os_wait_one(&w, &ask.over) == 0;
}

static int ask_connect(const struct os_addr *to, uint64_t deadline_ns, int *fd)
{
	int e = os_connect(to, fd);

	if (e)
		return e;
	for (;;) {
		uint64_t seq = os_event_seq(os_socket_object(*fd));

		e = os_connected(*fd);
		if (e != EAGAIN)
			break;
		if (!ask_wait(*fd, seq, deadline_ns)) {
			e = ETIMEDOUT;
			break;
		}
	}
	if (e)
		os_close(*fd);
	return e;
}

/* Connects to the host's loopback address, of the family that the host has. */
static int ask_open(uint64_t deadline_ns, int *fd)
{
	const struct os_addr four = {.family = 4, .port = ASK_PORT, .ip = {127, 0, 0, 1}};
	const struct os_addr six = {.family = 6, .port = ASK_PORT, .ip = {[15] = 1}};
	int e = ask_connect(&four, deadline_ns, fd);

	return e ? ask_connect(&six, deadline_ns, fd) : 0;
}

static int ask_send(int fd, const char *text, uint64_t deadline_ns)
{
	size_t n = strlen(text), at = 0, done = 0;

	while (at < n) {
		uint64_t seq = os_event_seq(os_socket_object(fd));
		int e = os_send(fd, text + at, n - at, &done);

		if (e == EAGAIN && ask_wait(fd, seq, deadline_ns))
			continue;
		if (e)
			return e == EAGAIN ? ETIMEDOUT : e;
		at += done;
	}
	return 0;
}

/* Receives until the other end closes. */
static int ask_recv(int fd, uint64_t deadline_ns)
{
	size_t done = 0;

	while (ask.bytes < ASK_BYTES - 1) {
		uint64_t seq = os_event_seq(os_socket_object(fd));
		int e = os_recv(fd, ask.text + ask.bytes, ASK_BYTES - 1 - ask.bytes, &done);

		if (e == EAGAIN && ask_wait(fd, seq, deadline_ns))
			continue;
		if (e)
			return e == EAGAIN ? ETIMEDOUT : e;
		if (!done)
			return 0;
		ask.bytes += done;
	}
	return EFBIG;
}

static int ask_query(void)
{
	uint64_t deadline_ns = os_now_ns() + ASK_ANSWER_NS;
	int fd, e = ask_open(deadline_ns, &fd);

	if (e)
		return e;
	e = ask_send(fd, "DUMP\n", deadline_ns);
	if (!e)
		e = ask_recv(fd, deadline_ns);
	os_close(fd);
	return e;
}

static void ask_main(void *arg)
{
	struct wait w = {
		.on = &ask.over,
		.bytes = 4,
		.kind = WAIT_NE,
		.mask = WAIT_MASK_ALL,
		.why = "the time of --ras-dump",
		.from = {.rank = -1, .channel = -1, .step = -1},
		.deadline_ns = os_now_ns() + ask.after_ns,
	};
	int e;

	(void)arg;
	if (!os_wait_one(&w, NULL))
		return;
	e = ask_query();
	if (e && !shared_load_u32(&ask.over, SHARED_ACQUIRE))
		fprintf(stderr,
			"doppel exec: --ras-dump: RAS of host 0 gives no answer: %s; expected a "
			"program with a communicator, and NCCL_RAS_ENABLE=1\n",
			strerror(e));
	fprintf(stderr, "%s", ask.text);
	fflush(stderr);
}

int world_ras_ask_start(void)
{
	const struct os_thread_attr attr = {.name = "RAS client", .rank = -1};
	const char *text = os_real_ops.env("DOPPEL_RAS_DUMP");
	int e;

	if (!text || !*text)
		return 0;
	ask.after_ns = strtoull(text, NULL, 10) * 1000000000ull;
	ask.text = calloc(1, ASK_BYTES);
	if (!ask.text)
		return ENOMEM;
	e = world_proc_create(0, "RAS client", &ask.proc);
	return e ? e : world_thread_start(ask.proc, &ask.task, &attr, ask_main, NULL);
}

void world_ras_ask_end(void)
{
	if (!ask.task)
		return;
	shared_store_u32(&ask.over, 1, SHARED_RELEASE);
	os_thread_join(ask.task);
	ask.task = NULL;
	world_proc_exit(ask.proc);
	free(ask.text);
	ask.text = NULL;
}
