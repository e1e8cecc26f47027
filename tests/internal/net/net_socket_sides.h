/* SPDX-License-Identifier: BSD-3-Clause */
/* The sending and the receiving side of net_socket_test.c. */
#ifndef TESTS_INTERNAL_NET_NET_SOCKET_SIDES_H
#define TESTS_INTERNAL_NET_NET_SOCKET_SIDES_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "core/os/os.h"
#include "core/transport/net_socket/net_socket_internal.h"

#define MESSAGE  ((3u << 20) + 77)
#define MESSAGES 40
#define FLIGHT   8

struct pair {
	shared_u32 listening;
	struct net_handle handle;
	uint32_t sends, recvs; /* 0: MESSAGES. Surplus requests of one end never complete */
	size_t room;           /* of each receive; 0: MESSAGE */
	bool stranger;
	ncclResult_t want[2], got[2];
	void (*sender)(void *); /* NULL: an ordinary one */
};

static struct pair pair;

struct side {
	struct ncclComm *comm;
	void *net_comm, *listen, *pending, *mr;
	uint8_t *area;
};

static inline size_t size_of(uint32_t message)
{
	static const size_t sizes[] = {65536,  1,  0,      65537, 4097, 1000003, 63,
				       300000, 16, 131072, 0,     3,    MESSAGE};

	return sizes[message % ARRAY_LEN(sizes)];
}

static inline uint8_t byte_of(uint32_t message, size_t at)
{
	return (uint8_t)(message * 37 + at * 11 + (at >> 8) + (at >> 16) * 5);
}

static inline uint8_t *slot_of(const struct side *s, uint32_t message)
{
	return s->area + (size_t)(message % FLIGHT) * MESSAGE;
}

static inline void await_word(const shared_u32 *word, const char *why)
{
	struct wait w = {.on = word,
			 .mask = WAIT_MASK_ALL,
			 .kind = WAIT_NE,
			 .bytes = 4,
			 .why = why,
			 .from = {-1, -1, -1, NULL}};

	ck_assert_int_eq(os_wait_one(&w, NULL), 0);
}

/* ---- both sides ----------------------------------------------------------------------------- */

static inline void side_open(struct side *s, int32_t rank)
{
	int count;

	memset(s, 0, sizeof *s);
	s->comm = os_alloc(sizeof *s->comm, "test communicator");
	s->comm->rank = rank;
	s->comm->nranks = 2;
	s->area = os_alloc((size_t)FLIGHT * MESSAGE, "test area");
	ck_assert_int_eq(net_socket.devices(s->comm, &count), ncclSuccess);
	ck_assert_int_ge(count, 1);
}

static inline void side_close(struct side *s)
{
	if (s->mr)
		ck_assert_int_eq(net_socket.dereg_mr(s->net_comm, s->mr), ncclSuccess);
	net_socket.close_send(s->net_comm);
	if (s->listen)
		net_socket.close_listen(s->listen);
	net_socket.fini(s->comm);
	os_free(s->area);
	os_free(s->comm);
}

static inline void side_register(struct side *s)
{
	void *none;

	ck_assert_int_eq(net_socket.reg_mr(s->net_comm, s->area, MESSAGE, NET_GPU, &none),
			 ncclInvalidUsage);
	ck_assert_int_eq(net_socket.reg_mr(s->net_comm, s->area, MESSAGE, NET_HOST, &s->mr),
			 ncclSuccess);
}

/* Waits for any of the waits that a fruitless round left. */
static inline ncclResult_t side_idle(struct side *s, const struct wait *w, int n)
{
	const struct wait *list[3];
	struct wait check;
	ncclResult_t rc = net_socket.check(s->net_comm, true, &check);

	for (int i = 0; i < n; i++)
		list[i] = &w[i];
	list[n] = &check;
	if (!rc)
		ck_assert_int_eq(os_wait(list, n + 1, NULL, NULL), 0);
	return rc;
}

/* ---- sending -------------------------------------------------------------------------------- */

static inline ncclResult_t send_connect(struct side *s)
{
	struct net_who who = {.rank = 0, .peer = 1, .channel = 3};
	struct wait w;
	ncclResult_t rc;

	await_word(&pair.listening, "the handle");
	while ((rc = net_socket.connect(s->comm, &(struct net_nic){1, {0}}, &who, &pair.handle,
					&s->pending, &s->net_comm, &w)) == ncclInProgress)
		os_wait_one(&w, NULL);
	ck_assert_ptr_null(s->pending);
	return rc;
}

/* Posts and completes in order, up to FLIGHT at a time. */
static inline ncclResult_t send_all(struct side *s)
{
	struct net_request *req[FLIGHT] = {NULL};
	uint32_t posted = 0, done = 0, all = pair.sends ? pair.sends : MESSAGES;
	size_t bytes;

	while (done < all) {
		struct wait w[2];
		bool moved = false, complete;
		ncclResult_t rc = ncclSuccess;
		int n = 0;

		if (posted < all && posted < done + FLIGHT) {
			const struct net_buffer b = {
				.data = slot_of(s, posted), .bytes = size_of(posted), .mr = s->mr};

			for (size_t i = 0; i < size_of(posted); i++)
				slot_of(s, posted)[i] = byte_of(posted, i);
			rc = net_socket.isend(s->net_comm, &b, &req[posted % FLIGHT], &w[n]);
			if (!rc && req[posted % FLIGHT])
				posted++, moved = true;
			else
				n++;
		}
		if (!rc && done < posted) {
			rc = net_socket.test(req[done % FLIGHT], &complete, &bytes, &w[n]);
			if (!rc && complete)
				done++, moved = true;
			else
				n++;
		}
		if (!rc && !moved)
			rc = side_idle(s, w, n);
		if (rc)
			return rc;
	}
	return ncclSuccess;
}

static inline void send_main(void *arg)
{
	struct side s;

	(void)arg;
	side_open(&s, 0);
	pair.got[0] = send_connect(&s);
	if (!pair.got[0]) {
		side_register(&s);
		pair.got[0] = send_all(&s);
	}
	side_close(&s);
}

/* ---- receiving ------------------------------------------------------------------------------ */

static inline ncclResult_t recv_connect(struct side *s)
{
	struct net_who who = {.rank = 1, .peer = 0, .channel = 3};
	struct wait w;
	ncclResult_t rc;

	ck_assert_int_eq(net_socket.listen(s->comm, &(struct net_nic){1, {0}}, &who, &pair.handle,
					   &s->listen),
			 ncclSuccess);
	shared_store_u32(&pair.listening, 1, SHARED_RELEASE);
	while ((rc = net_socket.accept(s->listen, &s->net_comm, &w)) == ncclInProgress)
		os_wait_one(&w, NULL);
	return rc;
}

static inline void recv_verify(const struct side *s, uint32_t message, size_t bytes)
{
	ck_assert_uint_eq(bytes, size_of(message));
	for (size_t i = 0; i < bytes; i++)
		if (slot_of(s, message)[i] != byte_of(message, i))
			ck_abort_msg("message %u byte %zu", message, i);
}

static inline ncclResult_t recv_all(struct side *s)
{
	struct net_request *req[FLIGHT] = {NULL};
	uint32_t posted = 0, done = 0, all = pair.recvs ? pair.recvs : MESSAGES;
	size_t room = pair.room ? pair.room : MESSAGE;

	while (done < all) {
		struct wait w[2];
		bool moved = false, complete;
		ncclResult_t rc = ncclSuccess;
		size_t bytes;
		int n = 0;

		if (posted < all && posted < done + FLIGHT) {
			const struct net_buffer b = {
				.data = slot_of(s, posted), .bytes = room, .mr = s->mr};

			rc = net_socket.irecv(s->net_comm, &b, 1, &req[posted % FLIGHT], &w[n]);
			if (!rc && req[posted % FLIGHT])
				posted++, moved = true;
			else
				n++;
		}
		if (!rc && done < posted) {
			rc = net_socket.test(req[done % FLIGHT], &complete, &bytes, &w[n]);
			if (!rc && complete)
				recv_verify(s, done++, bytes), moved = true;
			else
				n++;
		}
		if (!rc && !moved)
			rc = side_idle(s, w, n);
		if (rc)
			return rc;
	}
	return ncclSuccess;
}

static inline void recv_main(void *arg)
{
	struct side s;

	(void)arg;
	side_open(&s, 1);
	pair.got[1] = recv_connect(&s);
	if (!pair.got[1]) {
		side_register(&s);
		pair.got[1] = recv_all(&s);
	}
	side_close(&s);
}

#endif
