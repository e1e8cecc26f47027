/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The order in which messages move. In round x a rank sends to the rank at distance d(x) after it
 * and receives from the one at the same distance before it, so that the two ends of a message are in
 * the same round on both ranks. Messages to oneself have distance 0. Distances come in triangular order, d(x) = x(x+1)/2 modulo the power
 * of two that holds all ranks: a permutation that spreads the peers of neighbouring rounds. The n-th
 * messages of a group between two ranks form a sequence of rounds of their own, after all those of
 * number n-1.
 *
 * Every rank works through its rounds in that order on each channel. So the first round that any rank
 * has not completed is at the front of both its ranks' channels, and completes: ranks whose groups
 * match cannot wait for each other in a circle, however the rounds are cut into batches and launches. The
 * GPU must have room for all blocks of a launch: a channel whose block starts when another one has ended is
 * behind rounds that come later.
 */
#include "core/base/log.h"
#include "core/plan/messages.h"
#include "core/transport/transport_internal.h"

void plan_rounds_init(uint32_t *round_of, int32_t nranks)
{
	uint32_t rounds = 1;

	while (rounds < (uint32_t)nranks)
		rounds *= 2;
	for (uint32_t x = 0; x < rounds; x++) {
		uint64_t distance = (uint64_t)x * (x + 1) / 2 % rounds;

		if (distance < (uint64_t)nranks)
			round_of[distance] = x;
	}
}

/* Small messages of neighbouring rounds have different channels. */
int32_t plan_round_channel(uint32_t round, int32_t part, int32_t nchannels)
{
	return (int32_t)((2ull * round + (uint32_t)part) % (uint32_t)nchannels);
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

/* A total order: a round has at most one send, which comes first, and one receive. */
static bool plan_round_before(const struct plan_round *x, const struct plan_round *y)
{
	return x->key != y->key ? x->key < y->key : x->send > y->send;
}

/* Moves the round at `at` down a heap of n, whose top comes last in order. */
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

/* A heap sort: in place, and a group may have any number of messages. */
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

/* What has the same key becomes one round. */
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

ncclResult_t plan_rounds_make(const struct ncclComm *comm, struct plan_messages *ms)
{
	int32_t n = 0;

	ASSERT(!ms->rounds && !ms->nrounds && !ms->next.round);
	ms->rounds = os_alloc((size_t)ms->queued * sizeof *ms->rounds, "rounds of messages");
	if (!ms->rounds) {
		WARN("rank %d: no memory for the rounds of %d messages", comm->rank, ms->queued);
		return ncclSystemError;
	}
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

/* Where the batches of a launch stand, by channel. */
struct plan_batches {
	uint32_t nth[DEV_MAX_CHANNELS];
	uint8_t works[DEV_MAX_CHANNELS], number[DEV_MAX_CHANNELS];
	uint32_t most; /* works of the largest batch */
};

/* A connection is in a batch once: messages of another number are in another batch. */
static uint8_t plan_batch_of(struct plan_batches *b, int32_t channel, uint32_t nth)
{
	if (b->works[channel] && (b->works[channel] == DEV_BATCH_WORKS || b->nth[channel] != nth)) {
		b->works[channel] = 0;
		b->number[channel]++;
	}
	b->works[channel]++;
	b->nth[channel] = nth;
	b->most = MAX_OF(b->most, b->works[channel]);
	return b->number[channel];
}

/* One part of a message: its place in the user's buffer, and its connection. */
struct plan_part {
	uint8_t *address;
	uint64_t bytes;    /* 0: the message has no such part */
	struct conn *conn; /* NULL: the message has no such part, or is to oneself */
	enum dev_proto proto;
};

/* A message to oneself waits for nothing: a block copies much of it in the time of a message to another rank. */
static int32_t plan_self_channels(const struct ncclComm *comm, uint64_t bytes)
{
	return (int32_t)MIN_OF(DIV_UP(bytes, PLAN_SELF_PART_LEAST), (uint64_t)comm->nchannels);
}

static int32_t plan_message_parts(const struct ncclComm *comm, const struct plan_queued_message *m,
				  uint64_t *each)
{
	int32_t channels = plan_message_is_to_self(comm, m)
				   ? plan_self_channels(comm, m->bytes)
				   : transport_pair_channels(comm, m->call.peer);

	return plan_parts_of(m->bytes, channels, each);
}

/* Short parts go in LL, where the connection has a buffer for it. Both ends know the same. */
static enum dev_proto plan_part_proto(const struct conn *c, uint64_t bytes)
{
	return c->dev.step_bytes[DEV_LL] && bytes <= transport_pair_ll_bytes() ? DEV_LL
									       : DEV_SIMPLE;
}

static struct plan_part plan_part_of(const struct ncclComm *comm,
				     const struct plan_queued_message *m, int32_t channel,
				     int32_t part)
{
	uint64_t each;
	int32_t parts = m ? plan_message_parts(comm, m, &each) : 0;
	struct plan_part p = {.conn = NULL};

	if (part >= parts)
		return p;
	p.address = (uint8_t *)m->call.buffer + (uint64_t)part * each;
	p.bytes = MIN_OF(each, m->bytes - (uint64_t)part * each);
	if (plan_message_is_to_self(comm, m))
		return p;
	p.conn = transport_conn_find(comm, &(struct conn_want){.channel = channel,
							       .peer = m->call.peer,
							       .is_send = m->call.is_send,
							       .index = CONN_PAIR});
	p.proto = plan_part_proto(p.conn, p.bytes);
	return p;
}

static void plan_part_op_add(const struct ncclComm *comm, struct plan *p,
			     const struct plan_part *part, uint64_t round)
{
	if (!part->conn || !part->conn->proxy)
		return;
	plan_add_op(p, &(struct proxy_op){
			       .conn = part->conn->proxy,
			       .op_count = comm->op_count,
			       .message = round,
			       .nsteps = steps_of_message(part->bytes, part->proto,
							  part->conn->dev.step_bytes[part->proto]),
			       .slice_steps = 1,
			       .chunk_steps = 1,
			       .protocol = (uint8_t)part->proto,
		       });
}

static struct dev_conn *plan_part_on_device(const struct ncclComm *comm,
					    const struct plan_part *part)
{
	return part->conn ? comm->dev_conns + part->conn->slot : NULL;
}

static void plan_round_part_add(const struct ncclComm *comm, struct plan *p, struct plan_batches *b,
				const struct plan_part *send, const struct plan_part *recv,
				int32_t channel, uint64_t round)
{
	plan_add_work(p, &(struct dev_work){
				 .kind = DEV_WORK_SEND_RECV,
				 .send = send->address,
				 .recv = recv->address,
				 .pair = {.send_conn = plan_part_on_device(comm, send),
					  .recv_conn = plan_part_on_device(comm, recv),
					  .send_bytes = send->bytes,
					  .recv_bytes = recv->bytes,
					  .send_proto = (uint8_t)send->proto,
					  .recv_proto = (uint8_t)recv->proto,
					  .to_self = send->bytes && !send->conn},
				 .channel_lo = (uint8_t)channel,
				 .channel_hi = (uint8_t)channel,
				 .batch = plan_batch_of(b, channel, (uint32_t)(round >> 32)),
				 .root = -1,
				 .op_count = comm->op_count,
			 });
	plan_part_op_add(comm, p, recv, round);
	plan_part_op_add(comm, p, send, round);
}

static const struct plan_queued_message *plan_message_at(const struct plan_messages *ms, int32_t i)
{
	return i < 0 ? NULL : &ms->queue[i];
}

/* A message to oneself from a buffer to the same one. */
static bool plan_round_is_done(const struct ncclComm *comm, const struct plan_messages *ms,
			       const struct plan_round *r)
{
	return r->send >= 0 && r->recv >= 0 && plan_message_is_to_self(comm, &ms->queue[r->send]) &&
	       ms->queue[r->send].call.buffer == ms->queue[r->recv].call.buffer;
}

/* Works of a round: one per part of the longer message. */
static int32_t plan_round_parts(const struct ncclComm *comm, const struct plan_messages *ms,
				const struct plan_round *r)
{
	int32_t parts = 0;
	uint64_t each;

	if (plan_round_is_done(comm, ms, r))
		return 0;
	if (r->send >= 0)
		parts = plan_message_parts(comm, &ms->queue[r->send], &each);
	if (r->recv >= 0)
		parts = MAX_OF(parts, plan_message_parts(comm, &ms->queue[r->recv], &each));
	return parts;
}

static void plan_round_add(const struct ncclComm *comm, const struct plan_messages *ms,
			   struct plan *p, struct plan_batches *b, const struct plan_round *r,
			   int32_t part)
{
	int32_t channel = plan_round_channel((uint32_t)r->key, part, comm->nchannels);
	struct plan_part out = plan_part_of(comm, plan_message_at(ms, r->send), channel, part);
	struct plan_part in = plan_part_of(comm, plan_message_at(ms, r->recv), channel, part);

	plan_round_part_add(comm, p, b, &out, &in, channel, r->key);
}

/* What must be in the launch that has part `part` of a round. The parts of a message over the network, which are a
 * round's first, are in one launch: at the other end they may be received together, and none of them leaves before
 * the kernel has filled them all (core/proxy/link.c). */
static struct plan_need plan_round_need(const struct ncclComm *comm, int32_t part, int32_t parts)
{
	const int32_t together = part ? 1 : MIN_OF(parts, transport_pair_net_channels(comm));

	return (struct plan_need){
		.works = together, .ops = 2 * together, .runs = (uint64_t)together};
}

/* Adds the parts of round next->round that fit, from next->part on, which is then the first of the others. A launch
 * without works has room for the first ones. */
static ncclResult_t plan_round_build(const struct ncclComm *comm, const struct plan_state *st,
				     const struct plan_messages *ms, struct plan *p,
				     struct plan_batches *b, struct plan_cut *next)
{
	const struct plan_round *r = &ms->rounds[next->round];
	int32_t parts = plan_round_parts(comm, ms, r);

	for (; next->part < parts; next->part++) {
		const struct plan_need more = plan_round_need(comm, next->part, parts);
		ncclResult_t rc;

		if (p->nworks && !plan_fits(st, p, &more))
			return ncclSuccess;
		rc = plan_reserve(p, &more);
		if (rc)
			return rc;
		plan_round_add(comm, ms, p, b, r, next->part);
	}
	*next = (struct plan_cut){.round = next->round + 1};
	return ncclSuccess;
}

ncclResult_t plan_rounds_build(const struct ncclComm *comm, const struct plan_state *st,
			       const struct plan_messages *ms, struct plan *p,
			       struct plan_cut *next)
{
	struct plan_batches b = {.most = 0};
	ncclResult_t rc = ncclSuccess;

	*next = ms->next;
	for (int32_t round = next->round; !rc && round < ms->nrounds && next->round == round;
	     round++)
		rc = plan_round_build(comm, st, ms, p, &b, next);
	p->block_warps = PLAN_WARPS_FIXED ? 2 * b.most : MAX_OF(2 * b.most, st->warps);
	return rc;
}
