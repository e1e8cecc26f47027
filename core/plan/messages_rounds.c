/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The order in which messages move. In round x a rank sends to the rank at distance d(x) after it
 * and receives from the rank at distance d(x) before it. The two ends of a message are then in the
 * same round on both ranks. Messages from a rank to itself have distance 0. Distances come in
 * triangular order, d(x) = x(x+1)/2 modulo the smallest power of two that holds all ranks. That is
 * a permutation which spreads the peers of neighbouring rounds. The n-th messages of a group
 * between two ranks form their own sequence of rounds, after the rounds of all messages with a
 * smaller n.
 *
 * Every rank executes its rounds in that order on each channel. The first round that any rank has
 * not completed is therefore first in the channels of both its ranks, and completes. Ranks whose
 * groups match cannot wait for each other in a circle, however the rounds are cut into batches and
 * launches. The GPU must have room for all blocks of a launch: a block that starts only after
 * another one has ended would run its rounds too late.
 */
#include "core/base/log.h"
#include "core/plan/messages.h"
#include "core/transport/transport_internal.h"

static uint32_t plan_rounds_of(int32_t nranks)
{
	uint32_t rounds = 1;

	while (rounds < (uint32_t)nranks)
		rounds *= 2;
	return rounds;
}

void plan_rounds_init(uint32_t *round_of, int32_t nranks)
{
	const uint32_t rounds = plan_rounds_of(nranks);

	for (uint32_t x = 0; x < rounds; x++) {
		uint64_t distance = (uint64_t)x * (x + 1) / 2 % rounds;

		if (distance < (uint64_t)nranks)
			round_of[distance] = x;
	}
}

/* Spreads small messages of neighbouring rounds over different channels: each round begins at
 * another channel. */
int32_t plan_round_channel(const struct ncclComm *comm, uint32_t round, int32_t part)
{
	const uint32_t channels = (uint32_t)comm->pair_channels;
	const uint64_t each = MAX_OF(channels / plan_rounds_of(comm->nranks), 2u);

	return (int32_t)((each * round + (uint32_t)part) % channels);
}

int32_t plan_pair_channels(const struct ncclComm *comm, const struct plan_messages *ms,
			   int32_t peer)
{
	DOPPEL_STATIC_CHECK(DEV_MAX_CHANNELS <= UINT8_MAX, "a number of channels fits in a byte");
	if (!ms->channels[peer])
		ms->channels[peer] = (uint8_t)transport_pair_channels(comm, peer);
	return ms->channels[peer];
}

int32_t plan_parts_of(uint64_t bytes, int32_t pair_channels, uint64_t *each)
{
	uint64_t least = pair_channels > 2 ? MIN_OF(DIV_UP(bytes, 2), PLAN_PART_LEAST) : 0;

	*each = ALIGN_UP(MAX_OF(DIV_UP(bytes, (uint64_t)pair_channels), least), PLAN_PART_GRAIN);
	return bytes ? (int32_t)DIV_UP(bytes, *each) : 0;
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static uint32_t plan_message_round(const struct ncclComm *comm, const struct plan_messages *ms,
				   const struct plan_queued_message *m)
{
	int32_t distance = m->call.is_send ? m->call.peer - comm->rank : comm->rank - m->call.peer;

	return ms->round_of[(distance + comm->nranks) % comm->nranks];
}

/* A total order. A round has at most one send and one receive; its send comes first. */
static bool plan_round_before(const struct plan_round *x, const struct plan_round *y)
{
	return x->key != y->key ? x->key < y->key : x->send > y->send;
}

/* Moves the round at `at` down in a heap of n. The top of the heap is the last one in order. */
static void plan_round_sift(struct plan_round *r, int32_t n, int32_t at)
{
	for (int32_t child; (child = 2 * at + 1) < n; at = child) {
		struct plan_round moved = r[at];

		if (child + 1 < n && plan_round_before(&r[child], &r[child + 1]))
			child++;
		if (!plan_round_before(&moved, &r[child]))
			return;
		r[at] = r[child];
		r[child] = moved;
	}
}

/* A heap sort: it needs no memory, and a group may have any number of messages. */
static void plan_rounds_sort(struct plan_round *r, int32_t n)
{
	for (int32_t at = n / 2 - 1; at >= 0; at--)
		plan_round_sift(r, n, at);
	while (n > 1) {
		struct plan_round last = r[0];

		r[0] = r[--n];
		r[n] = last;
		plan_round_sift(r, n, 0);
	}
}

/* Merges a send and a receive with the same key into one round. */
static void plan_rounds_merge(struct plan_messages *ms, int32_t n)
{
	for (int32_t i = 0; i < n; i++) {
		struct plan_round *last = ms->nrounds ? &ms->rounds[ms->nrounds - 1] : NULL;

		if (last && last->key == ms->rounds[i].key)
			last->recv = ms->rounds[i].recv;
		else
			ms->rounds[ms->nrounds++] = ms->rounds[i];
	}
}

/* Makes room for the rounds of the queue. The next group reuses it. */
static ncclResult_t plan_rounds_reserve(const struct ncclComm *comm, struct plan_messages *ms)
{
	if (ms->rounds_room >= ms->queued)
		return ncclSuccess;
	os_free(ms->rounds);
	ms->rounds_room = 0;
	ms->rounds = os_alloc((size_t)ms->room * sizeof *ms->rounds, "rounds of messages");
	if (!ms->rounds) {
		WARN("rank %d: no memory for the rounds of %d messages", comm->rank, ms->queued);
		return ncclSystemError;
	}
	ms->rounds_room = ms->room;
	return ncclSuccess;
}

ncclResult_t plan_rounds_make(const struct ncclComm *comm, struct plan_messages *ms)
{
	int32_t n = 0;
	ncclResult_t rc = plan_rounds_reserve(comm, ms);

	ASSERT(!ms->nrounds && !ms->next);
	if (rc)
		return rc;
	for (int32_t i = 0; i < ms->queued; i++) {
		const struct plan_queued_message *m = &ms->queue[i];

		if (!m->bytes || comm->nranks == 1) /* one rank copies */
			continue;
		ms->rounds[n++] = (struct plan_round){
			.key = (uint64_t)m->nth << 32 | plan_message_round(comm, ms, m),
			.send = m->call.is_send ? i : -1,
			.recv = m->call.is_send ? -1 : i,
		};
	}
	plan_rounds_sort(ms->rounds, n);
	plan_rounds_merge(ms, n);
	return ncclSuccess;
}

/* ---- works ----------------------------------------------------------------------------------- */

/* The batches of a launch. For each channel: the number of works in its last batch, and the `nth`
 * of their messages. The kernel forms the same batches (run_messages.h). */
struct plan_batches {
	uint32_t nth[DEV_MAX_CHANNELS];
	uint8_t works[DEV_MAX_CHANNELS];
	uint32_t most;    /* in works: the largest batch */
	uint64_t longest; /* in bytes: the longest part */
};

/* A batch has a connection at most once, so messages with another number begin a new batch. */
static void plan_batch_add(struct plan_batches *b, int32_t channel, uint32_t nth)
{
	if (b->works[channel] == DEV_BATCH_WORKS || b->nth[channel] != nth)
		b->works[channel] = 0;
	b->works[channel]++;
	b->nth[channel] = nth;
	b->most = MAX_OF(b->most, b->works[channel]);
}

/* Parts from..from+n-1 of a round, on the channels from `lo` on. A run becomes one work. */
struct plan_run {
	int32_t from, n, lo;
};

/* Channels lo..end-1. */
struct plan_range {
	int32_t lo, end;
};

/* The parts of a run that belong to one message. */
struct plan_end {
	uint8_t *address;
	uint64_t bytes;     /* 0: the message has no such parts */
	uint64_t each;      /* bytes of each part except the message's last */
	uint32_t ll, ll128; /* a part of at most so many bytes uses LL, or LL128 */
	uint64_t mapped; /* of a receive: `address` in the sender's process; 0: not mapped there */
	bool shown;      /* the receiver offers its buffer */
	/* For each part; NULL: there is no such part, or the rank sends it to itself. */
	struct conn *conn[DEV_MAX_CHANNELS];
};

/* A message from a rank to itself never waits, so it has separate channels if the launch has enough
 * of them. No other message then shares the threads of its blocks. Such a block copies much of the
 * message in the time of a message to another rank. */
static struct plan_range plan_self_range(const struct ncclComm *comm)
{
	return (struct plan_range){
		.lo = comm->launch_channels > comm->pair_channels ? comm->pair_channels : 0,
		.end = comm->launch_channels};
}

static int32_t plan_self_channels(const struct ncclComm *comm, uint64_t bytes)
{
	const struct plan_range r = plan_self_range(comm);

	return (int32_t)MIN_OF(DIV_UP(bytes, PLAN_SELF_PART_LEAST), (uint64_t)(r.end - r.lo));
}

static int32_t plan_message_parts(const struct ncclComm *comm, const struct plan_messages *ms,
				  const struct plan_queued_message *m, uint64_t *each)
{
	int32_t channels = plan_message_is_to_self(comm, m)
				   ? plan_self_channels(comm, m->bytes)
				   : plan_pair_channels(comm, ms, m->call.peer);

	return plan_parts_of(m->bytes, channels, each);
}

/* The connections of a run are adjacent in device memory and have the same limits. */
static void plan_end_connect(const struct ncclComm *comm, const struct plan_queued_message *m,
			     const struct plan_run *run, int32_t n, struct plan_end *e)
{
	for (int32_t i = 0; i < n; i++) {
		e->conn[i] =
			transport_conn_find(comm, &(struct conn_want){.channel = run->lo + i,
								      .peer = m->call.peer,
								      .is_send = m->call.is_send,
								      .index = CONN_PAIR});
		ASSERT(e->conn[i]->slot == e->conn[0]->slot + i);
		ASSERT(e->conn[i]->ll_bytes == e->conn[0]->ll_bytes &&
		       e->conn[i]->ll128_bytes == e->conn[0]->ll128_bytes);
	}
}

static void plan_end_register(struct ncclComm *comm, const struct plan_queued_message *m,
			      uint64_t from, const struct plan_capture *capture, struct plan_end *e)
{
	const struct registered_recv r = plan_registered_recv(m);

	e->shown = transport_registered_shown(comm, m->call.peer, m->call.is_send, m->number);
	if (!e->shown || m->call.is_send)
		return;
	e->mapped = plan_registered_at(comm, capture, &r);
	OS_PROBE("registered.put", "a message goes straight into a buffer of another process",
		 e->mapped != 0);
	e->mapped += e->mapped ? from : 0;
}

static struct plan_end plan_end_of(struct ncclComm *comm, const struct plan_messages *ms,
				   const struct plan_queued_message *m, const struct plan_run *run,
				   const struct plan_capture *capture)
{
	struct plan_end e = {.bytes = 0};
	int32_t parts = m ? plan_message_parts(comm, ms, m, &e.each) : 0;
	int32_t n = MIN_OF(parts - run->from, run->n);
	uint64_t from;

	if (n <= 0)
		return e;
	from = (uint64_t)run->from * e.each;
	e.address = (uint8_t *)m->call.buffer + from;
	e.bytes = MIN_OF((uint64_t)n * e.each, m->bytes - from);
	if (plan_message_is_to_self(comm, m))
		return e;
	plan_end_connect(comm, m, run, n, &e);
	plan_end_register(comm, m, from, capture, &e);
	/* both ends must find the same limits, so they do not depend on the offer: a sender may get
	 * the offer after the receiver has made it */
	e.ll = e.conn[0]->ll_bytes;
	e.ll128 = e.conn[0]->ll128_bytes;
	return e;
}

static void plan_part_op_add(const struct ncclComm *comm, struct plan *p, const struct plan_end *e,
			     int32_t i, uint64_t round, const struct plan_queued_message *m)
{
	const struct conn *c = e->conn[i];
	uint64_t bytes = MIN_OF(e->each, e->bytes - (uint64_t)i * e->each);
	enum dev_proto proto = steps_message_proto(bytes, e->ll, e->ll128);

	plan_add_op(p, &(struct proxy_op){
			       .conn = c->proxy,
			       .op_count = comm->op_count,
			       .message = round,
			       .nsteps = steps_of_message(bytes, proto, c->dev.step_bytes[proto]),
			       .slice_steps = 1,
			       .chunk_steps = 1,
			       .protocol = (uint8_t)proto,
			       .profile = plan_profile_op(p, &m->call.profile),
		       });
}

static struct dev_conn *plan_end_on_device(const struct ncclComm *comm, const struct plan_end *e)
{
	return e->conn[0] ? comm->dev_conns + e->conn[0]->slot : NULL;
}

static const struct plan_queued_message *plan_message_at(const struct plan_messages *ms, int32_t i)
{
	return i < 0 ? NULL : &ms->queue[i];
}

static void plan_run_add(struct ncclComm *comm, const struct plan_messages *ms, struct plan *p,
			 struct plan_batches *b, const struct plan_round *r,
			 const struct plan_run *run)
{
	const struct plan_queued_message *sends = plan_message_at(ms, r->send);
	const struct plan_queued_message *recvs = plan_message_at(ms, r->recv);
	const struct plan_end send = plan_end_of(comm, ms, sends, run, &p->capture);
	const struct plan_end recv = plan_end_of(comm, ms, recvs, run, &p->capture);
	const uint32_t nth = (uint32_t)(r->key >> 32);

	struct dev_work work = {
		.kind = DEV_WORK_SEND_RECV,
		.send = send.address,
		.recv = recv.address,
		.pair = {.send_conn = plan_end_on_device(comm, &send),
			 .recv_conn = plan_end_on_device(comm, &recv),
			 .send_bytes = send.bytes,
			 .recv_bytes = recv.bytes,
			 .send_each = send.each,
			 .recv_each = recv.each,
			 .send_ll = send.ll,
			 .recv_ll = recv.ll,
			 .send_ll128 = send.ll128,
			 .recv_ll128 = recv.ll128,
			 .recv_mapped = recv.mapped,
			 .shown = (send.shown ? DEV_SHOWN_SEND : 0) |
				  (recv.shown ? DEV_SHOWN_RECV : 0),
			 .nth = nth,
			 .to_self = send.bytes && !send.conn[0]},
		.channel_lo = (uint8_t)run->lo,
		.channel_hi = (uint8_t)(run->lo + run->n - 1),
		.root = -1,
		.op_count = comm->op_count,
	};
	plan_profile_work(comm, p, &work, send.bytes ? &sends->call.profile : NULL,
			  recv.bytes ? &recvs->call.profile : NULL);
	plan_add_work(p, &work);
	b->longest = MAX_OF(b->longest,
			    MAX_OF(MIN_OF(send.each, send.bytes), MIN_OF(recv.each, recv.bytes)));
	for (int32_t i = 0; i < run->n; i++) {
		plan_batch_add(b, run->lo + i, nth);
		if (recv.conn[i] && recv.conn[i]->proxy)
			plan_part_op_add(comm, p, &recv, i, r->key, recvs);
		if (send.conn[i] && send.conn[i]->proxy)
			plan_part_op_add(comm, p, &send, i, r->key, sends);
	}
}

/* Returns true for a message from a rank to itself with the same buffer at both ends. */
static bool plan_round_is_done(const struct ncclComm *comm, const struct plan_messages *ms,
			       const struct plan_round *r)
{
	return r->send >= 0 && r->recv >= 0 && plan_message_is_to_self(comm, &ms->queue[r->send]) &&
	       ms->queue[r->send].call.buffer == ms->queue[r->recv].call.buffer;
}

/* Returns the number of parts of the longer message. */
static int32_t plan_round_parts(const struct ncclComm *comm, const struct plan_messages *ms,
				const struct plan_round *r)
{
	int32_t parts = 0;
	uint64_t each;

	if (plan_round_is_done(comm, ms, r))
		return 0;
	if (r->send >= 0)
		parts = plan_message_parts(comm, ms, &ms->queue[r->send], &each);
	if (r->recv >= 0)
		parts = MAX_OF(parts, plan_message_parts(comm, ms, &ms->queue[r->recv], &each));
	return parts;
}

/* Returns the channels from the first one of the round. Messages from a rank to itself are round
 * 0. */
static struct plan_range plan_round_range(const struct ncclComm *comm, uint32_t round)
{
	return round ? (struct plan_range){.lo = plan_round_channel(comm, round, 0),
					   .end = comm->pair_channels}
		     : plan_self_range(comm);
}

/* Starts the events of a round's messages. */
static void plan_round_profile(struct ncclComm *comm, struct plan_messages *ms, struct plan *p,
			       const struct plan_round *r)
{
	const int32_t message[] = {r->send, r->recv};
	uint64_t each;

	for (int i = 0; i < 2; i++) {
		struct plan_queued_message *m = message[i] < 0 ? NULL : &ms->queue[message[i]];

		if (m && m->call.profile.mask)
			plan_profile_message(comm, p, m, plan_message_parts(comm, ms, m, &each));
	}
}

/* Adds a round. Its channels may continue at channel 0 after the last one. If it does not fit, sets
 * *full and adds nothing. A round is never split between launches: the network may receive parts of
 * a message together, and none of them leaves before the kernel has filled them all
 * (core/proxy/link.c). */
static ncclResult_t plan_round_add(struct ncclComm *comm, const struct plan_state *st,
				   struct plan_messages *ms, struct plan *p, struct plan_batches *b,
				   const struct plan_round *r, bool *full)
{
	const int32_t parts = plan_round_parts(comm, ms, r);
	const struct plan_range on = plan_round_range(comm, (uint32_t)r->key);
	const struct plan_run first = {.n = MIN_OF(parts, on.end - on.lo), .lo = on.lo};
	const struct plan_run rest = {.from = first.n, .n = parts - first.n};
	const struct plan_need more = {
		.works = rest.n > 0 ? 2 : 1, .ops = 2 * parts, .runs = (uint64_t)parts};
	ncclResult_t rc;

	DOPPEL_STATIC_CHECK(2 * DEV_MAX_CHANNELS <= PROXY_MAX_APPEND,
			    "one round's operations fit in a launch");
	*full = parts && p->nworks && !plan_fits(st, p, &more);
	if (*full || !parts)
		return ncclSuccess;
	rc = plan_reserve(p, &more);
	if (rc)
		return rc;
	plan_round_profile(comm, ms, p, r);
	plan_run_add(comm, ms, p, b, r, &first);
	if (rest.n > 0)
		plan_run_add(comm, ms, p, b, r, &rest);
	return ncclSuccess;
}

static uint32_t plan_batches_warps(const struct plan_state *st, const struct plan_batches *b)
{
	if (b->longest > PLAN_SHORT_PART)
		return MAX_OF(2 * b->most, st->warps);
	return MAX_OF(2 * b->most, MIN_OF(st->warps, PLAN_SHORT_PART_WARPS));
}

ncclResult_t plan_rounds_build(struct ncclComm *comm, const struct plan_state *st,
			       struct plan_messages *ms, struct plan *p)
{
	struct plan_batches b = {.most = 0};
	bool full = false;
	ncclResult_t rc = ncclSuccess;

	for (p->rounds = 0; ms->next + p->rounds < ms->nrounds; p->rounds++) {
		rc = plan_round_add(comm, st, ms, p, &b, &ms->rounds[ms->next + p->rounds], &full);
		if (rc || full)
			break;
	}
	p->block_warps = plan_batches_warps(st, &b);
	return rc;
}
