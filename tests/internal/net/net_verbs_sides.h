/* SPDX-License-Identifier: BSD-3-Clause */
/* The sending and the receiving side of net_verbs_test.c and net_verbs_rails_test.c. */
#ifndef TESTS_INTERNAL_NET_NET_VERBS_SIDES_H
#define TESTS_INTERNAL_NET_NET_VERBS_SIDES_H

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backends/fakeverbs/objects/handles.h"
#include "core/transport/net_verbs/net_verbs_rails.h"
#include "sim/engine/sim.h"
#include "sim/world/world.h"
#include "tests/suite.h"

#define SEEDS    10
#define AREA     (4u << 20)
#define MESSAGE  (64u << 10)
#define MESSAGES 100
#define FLIGHT   16

/* The parameters of a test's two ends. */
struct pair {
	shared_u32 listening, sent, flushed, down;
	struct net_handle handle;
	uint32_t messages, drop_link_at; /* 0: never */
	uint32_t together;               /* messages of a receive, each with its tag; 0: one */
	uint32_t devices[2];             /* of each end's merged NIC; 0: one */
	bool stranger, too_long, flood;
	uint32_t message_max;     /* of the devices; 0: theirs */
	const char *machine;      /* NULL: one with one HCA */
	const char *receiver_qps; /* NULL: as env has it */
	const char *env[12];      /* of both processes; the last one is NULL */
	int gid_index;            /* that both must use; 0: any */
	bool strict;              /* no region has relaxed ordering */
	uint32_t drop_port;       /* whose link goes down; of the first host */
	const char *receiver_env; /* a variable that is 0 there; NULL: none */
	void (*expect_sent)(const struct net_verbs_conn *c); /* NULL: nothing */
	shared_u32 connected;                                /* the ends are */
	uint64_t pause_ns;   /* between a message and the next one */
	uint64_t took_ns[2]; /* from connected to the last message, or to the error */
	uint32_t used[2];    /* with rails: mask of those in use at the end */
	uint32_t again[2];   /* mask of those that were used again after a failure */
	ncclResult_t want[2];
	ncclResult_t got[2];
};

static struct pair pair;

struct side {
	struct ncclComm *comm;
	void *net_comm, *listen, *pending;
	void *mr;
	uint8_t *area;
};

static inline uint32_t messages_of_receive(void)
{
	return MAX_OF(pair.together, 1u);
}

static inline size_t size_of(uint32_t message)
{
	static const size_t sizes[] = {MESSAGE, 1, 0, 4096, 4097, 12345, 63, MESSAGE - 1};

	return sizes[message % ARRAY_LEN(sizes)];
}

static inline uint8_t byte_of(uint32_t message, size_t at)
{
	return (uint8_t)(message * 37 + at * 11 + (at >> 8));
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
	s->area = os_alloc(AREA, "test area");
	ck_assert_int_eq(net_verbs.devices(s->comm, &count), ncclSuccess);
	ck_assert_int_ge(count, 1);
	if (pair.message_max)
		net_verbs_dev(s->comm, 0)->attr.max_msg_sz = pair.message_max;
}

/* May an HCA's writes to the region overtake each other? */
static inline bool is_relaxed(struct ibv_mr *mr)
{
	return CONTAINER_OF(mr, struct hca_mr_handle, ibv)->hca->access &
	       IBV_ACCESS_RELAXED_ORDERING;
}

/* The first devices of the host. */
static inline struct net_nic side_nic(const struct side *s)
{
	const uint32_t count = MAX_OF(pair.devices[s->comm->rank], 1u);
	struct net_nic nic = {.count = (int)count};

	for (int i = 0; i < nic.count; i++)
		nic.dev[i] = i;
	return nic;
}

static inline void side_register(struct side *s, enum net_memory where)
{
	struct net_verbs_conn *c = s->net_comm;

	ck_assert_int_eq(net_verbs.reg_mr(c, s->area, AREA, where, &s->mr), ncclSuccess);
	ck_assert_int_eq(is_relaxed(((struct net_verbs_region *)s->mr)->mr[0]), !pair.strict);
	ck_assert(!c->leg[0].ring_mr || !is_relaxed(c->leg[0].ring_mr));
}

static inline void side_close(struct side *s)
{
	if (pair.gid_index)
		ck_assert_int_eq(net_verbs_dev(s->comm, 0)->gid_index, pair.gid_index);
	if (s->mr)
		ck_assert_int_eq(net_verbs.dereg_mr(s->net_comm, s->mr), ncclSuccess);
	if (s->net_comm)
		net_verbs.close_send(s->net_comm);
	if (s->listen)
		net_verbs.close_listen(s->listen);
	net_verbs.fini(s->comm);
	os_free(s->area);
	os_free(s->comm);
}

/* Waits for any of the waits that a fruitless round left. */
static inline ncclResult_t side_idle(struct side *s, const struct wait *w, int n)
{
	const struct wait *list[2 * FLIGHT + 1];
	struct wait check;
	ncclResult_t rc = net_verbs.check(s->net_comm, true, &check);

	for (int i = 0; i < n; i++)
		list[i] = &w[i];
	list[n] = &check;
	if (!rc) {
		const int waited = os_wait(list, n + 1, NULL, NULL);

		ck_assert(!waited || waited == ETIMEDOUT);
	}
	return rc;
}

static inline void side_rails(const struct side *s)
{
	const struct net_verbs_conn *c = s->net_comm;
	const int32_t at = s->comm->rank;

	for (uint32_t r = 0; r < c->width && c->rails; r++) {
		const struct net_verbs_rail *rail = &c->rails->rail[r];
		const bool used = net_verbs_rail_is_used(c, r);

		pair.used[at] |= (uint32_t)used << r;
		pair.again[at] |= (uint32_t)(used && rail->epoch) << r;
	}
}

/* ---- sending -------------------------------------------------------------------------------- */

static inline ncclResult_t send_connect(struct side *s)
{
	struct net_who who = {.rank = 0, .peer = 1, .channel = 3};
	struct net_nic nic = side_nic(s);
	struct wait w;
	ncclResult_t rc;

	await_word(&pair.listening, "the handle");
	while ((rc = net_verbs.connect(s->comm, &nic, &who, &pair.handle, &s->pending, &s->net_comm,
				       &w)) == ncclInProgress)
		os_wait_one(&w, NULL);
	return rc;
}

static inline struct net_buffer buffer_of(const struct side *s, uint32_t message, size_t bytes)
{
	return (struct net_buffer){.data = s->area + (message % FLIGHT) * MESSAGE,
				   .bytes = bytes,
				   .mr = s->mr,
				   .tag = 100 + message % messages_of_receive()};
}

/* The index of the nth sent message: those of one receive are sent from the last to the first. */
static inline uint32_t message_sent(uint32_t nth)
{
	const uint32_t n = messages_of_receive();

	return nth - nth % n + (n - 1 - nth % n);
}

/* Its receive has this tag's message: the next one of that tag is for a later receive. */
static inline void expect_to_wait(const struct side *s, const struct net_buffer *b)
{
	struct net_request *req;
	struct wait w;

	ck_assert_int_eq(net_verbs.isend(s->net_comm, b, &req, &w), ncclSuccess);
	ck_assert_ptr_null(req);
	ck_assert_str_eq(w.why, "the sends for an earlier receive");
}

static inline ncclResult_t send_one(struct side *s, uint32_t nth, struct net_request **req,
				    struct wait *w)
{
	const uint32_t m = message_sent(nth);
	const struct net_buffer b = buffer_of(s, m, pair.too_long ? MESSAGE + 1 : size_of(m));
	ncclResult_t rc;

	for (size_t i = 0; i < size_of(m); i++)
		((uint8_t *)b.data)[i] = byte_of(m, i);
	rc = net_verbs.isend(s->net_comm, &b, req, w);
	if (!rc && *req && m % messages_of_receive())
		expect_to_wait(s, &b);
	return rc;
}

/* Posts and completes in order, up to FLIGHT at a time. */
static inline ncclResult_t send_all(struct side *s)
{
	struct net_request *req[FLIGHT] = {NULL};
	uint32_t posted = 0, done = 0;
	size_t bytes;

	while (done < pair.messages) {
		struct wait w[2];
		bool moved = false, complete;
		ncclResult_t rc = ncclSuccess;
		int n = 0;

		if (posted < pair.messages && posted < done + FLIGHT) {
			rc = send_one(s, posted, &req[posted % FLIGHT], &w[n]);
			if (!rc && req[posted % FLIGHT])
				posted++, moved = true;
			else
				n++;
		}
		if (!rc && done < posted) {
			rc = net_verbs.test(req[done % FLIGHT], &complete, &bytes, &w[n]);
			if (!rc && complete)
				done++, moved = true;
			else
				n++;
		}
		if (moved && pair.pause_ns)
			os_sleep_ns(pair.pause_ns);
		if (!rc && done == pair.drop_link_at && done)
			shared_store_u32(&pair.down, 1, SHARED_RELEASE);
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
		const uint64_t began = os_now_ns();

		side_register(&s, NET_HOST);
		shared_store_u32(&pair.connected, 1, SHARED_RELEASE);
		pair.got[0] = send_all(&s);
		pair.took_ns[0] = os_now_ns() - began;
		side_rails(&s);
	}
	if (!pair.got[0] && pair.expect_sent)
		pair.expect_sent(s.net_comm);
	shared_store_u32(&pair.sent, 1, SHARED_RELEASE);
	if (pair.flood)
		await_word(&pair.flushed, "the flush");
	side_close(&s);
}

/* ---- receiving ------------------------------------------------------------------------------ */

static inline ncclResult_t recv_connect(struct side *s)
{
	struct net_who who = {.rank = 1, .peer = 0, .channel = 3};
	struct net_nic nic = side_nic(s);
	struct wait w;
	ncclResult_t rc;

	ck_assert_int_eq(net_verbs.listen(s->comm, &nic, &who, &pair.handle, &s->listen),
			 ncclSuccess);
	shared_store_u32(&pair.listening, 1, SHARED_RELEASE);
	while ((rc = net_verbs.accept(s->listen, &s->net_comm, &w)) == ncclInProgress)
		os_wait_one(&w, NULL);
	return rc;
}

static inline ncclResult_t recv_flush(struct side *s, uint8_t *slot, size_t bytes)
{
	struct net_request *req;
	struct wait w;
	bool done = false;
	size_t none;
	ncclResult_t rc = net_verbs.iflush(s->net_comm, slot, bytes, s->mr, &req, &w);

	while (!rc && !done) {
		rc = net_verbs.test(req, &done, &none, &w);
		if (!rc && !done)
			rc = side_idle(s, &w, 1);
	}
	return rc;
}

static inline ncclResult_t recv_one(struct side *s, uint32_t message, size_t bytes)
{
	uint8_t *slot = s->area + (message % FLIGHT) * MESSAGE;
	ncclResult_t rc = bytes ? recv_flush(s, slot, bytes) : ncclSuccess;

	if (rc)
		return rc;
	ck_assert_uint_eq(bytes, size_of(message));
	for (size_t i = 0; i < bytes; i++)
		if (slot[i] != byte_of(message, i))
			ck_abort_msg("message %u byte %zu", message, i);
	return ncclSuccess;
}

static inline ncclResult_t recv_post(struct side *s, uint32_t first, struct net_request **req,
				     struct wait *w)
{
	const uint32_t n = messages_of_receive();
	struct net_buffer b[NET_MAX_RECVS];

	for (uint32_t i = 0; i < n; i++)
		b[i] = buffer_of(s, first + i, MESSAGE);
	return net_verbs.irecv(s->net_comm, b, (int)n, req, w);
}

/* Memory that no request is for comes and goes, and what is under way is not disturbed. */
static inline void recv_other_region(struct side *s)
{
	void *mr;

	ck_assert_int_eq(net_verbs.reg_mr(s->net_comm, s->area, MESSAGE, NET_HOST, &mr),
			 ncclSuccess);
	ck_assert_int_eq(net_verbs.dereg_mr(s->net_comm, mr), ncclSuccess);
}

/* Posts as many receives as possible, then a flush. */
static inline ncclResult_t recv_flood(struct side *s)
{
	struct net_request *req;
	uint32_t posted = 0;
	struct wait w;
	ncclResult_t rc;

	while (!(rc = recv_post(s, posted, &req, &w)) && req)
		posted++;
	ck_assert_int_eq(rc, ncclSuccess);
	ck_assert_uint_eq(posted, NET_MAX_REQUESTS - 1);
	return recv_flush(s, s->area, 1);
}

static inline ncclResult_t recv_check(struct side *s, uint32_t first, const size_t *bytes)
{
	ncclResult_t rc = ncclSuccess;

	for (uint32_t i = 0; i < messages_of_receive() && !rc; i++)
		rc = recv_one(s, first + i, bytes[i]);
	return rc;
}

static inline ncclResult_t recv_all(struct side *s)
{
	const uint32_t n = messages_of_receive();
	struct net_request *req[FLIGHT] = {NULL};
	uint32_t posted = 0, done = 0;

	while (done < pair.messages) {
		struct wait w[2];
		bool moved = false, complete;
		ncclResult_t rc = ncclSuccess;
		size_t bytes[NET_MAX_RECVS];
		int waits = 0;

		if (posted < pair.messages && posted < done + FLIGHT) {
			rc = recv_post(s, posted, &req[posted % FLIGHT], &w[waits]);
			if (!rc && req[posted % FLIGHT])
				posted += n, moved = true, recv_other_region(s);
			else
				waits++;
		}
		if (!rc && done < posted) {
			rc = net_verbs.test(req[done % FLIGHT], &complete, bytes, &w[waits]);
			if (!rc && complete)
				rc = recv_check(s, done, bytes), done += n, moved = true;
			else
				waits++;
		}
		if (!rc && !moved)
			rc = side_idle(s, w, waits);
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
		const uint64_t began = os_now_ns();

		side_register(&s, NET_GPU_FLUSH);
		pair.got[1] = pair.flood ? recv_flood(&s) : recv_all(&s);
		pair.took_ns[1] = os_now_ns() - began;
		side_rails(&s);
	}
	shared_store_u32(&pair.flushed, 1, SHARED_RELEASE);
	side_close(&s);
}

/* Connects to the listener before the peer does and talks nonsense. */
static inline void foreign_client_main(void *arg)
{
	static const char text[] = "GET / HTTP/1.1\r\nHost: somewhere\r\nAccept: everything\r\n"
				   "User-Agent: a client of something else\r\n\r\n";
	struct net_verbs_handle h;
	size_t done;
	int fd;

	(void)arg;
	await_word(&pair.listening, "the handle");
	memcpy(&h, pair.handle.bytes, sizeof h);
	if (os_connect(&h.addr, &fd))
		return;
	for (int rc = EAGAIN; rc == EAGAIN;) {
		const void *object = os_socket_object(fd);
		struct wait w = {.on = object,
				 .want = os_event_seq(object),
				 .kind = WAIT_OBJECT,
				 .why = "to talk",
				 .from = {-1, -1, -1, NULL}};

		rc = os_send(fd, text, sizeof text, &done);
		if (rc == EAGAIN)
			os_wait_one(&w, NULL);
	}
	os_close(fd);
}

#endif
