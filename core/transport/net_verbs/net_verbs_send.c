/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sending end: finds the receive that its messages are for, and writes them.
 *
 *	clear-to-send entries   the receive's buffers, by tag     all its sends are here
 *	   with the next turn ----------------------------->  gather  ------------------> writes
 *
 * A receive with one buffer: the data is written, and its last write has the immediate, the size. A
 * receive with several buffers: the data of each is written, then one write with the immediate puts
 * their sizes into the receiver's ring of sizes. If messages are split, or go over a merged NIC,
 * this is done on each queue pair, with an immediate on each.
 */
#include <endian.h>
#include <string.h>

#include "core/transport/net_verbs/net_verbs_rails.h"

/* ---- the next receive ------------------------------------------------------------------------ */

static bool net_verbs_entry_is_there(const struct net_verbs_conn *c,
				     const struct net_verbs_cts *entry, struct wait *w)
{
	uint64_t turn = c->sends + 1;

	if (shared_load_u64(&entry->turn, SHARED_ACQUIRE) == turn)
		return true;
	OS_PROBE("net.send_not_cleared", "a send has no receive at the other end yet", true);
	*w = wait_word(&entry->turn, 8, WAIT_EQ, turn, "the receiver to clear a send",
		       wait_by(c->who.peer, c->who.channel, "proxy recv"));
	return false;
}

/* Reads the entries of the next receive. They arrive in order, each as a whole. The first one has
 * their number. */
static bool net_verbs_cleared(struct net_verbs_conn *c, struct wait *w)
{
	const struct net_verbs_cts *entry =
		(const struct net_verbs_cts *)c->ring + c->sends % NET_VERBS_RING * NET_MAX_RECVS;
	struct net_verbs_gather *g = &c->gather;
	uint32_t i = 0, n = 1;

	for (; i < n; i++) {
		if (!net_verbs_entry_is_there(c, &entry[i], w))
			return false;
		shared_read(&g->cts[i], &entry[i], offsetof(struct net_verbs_cts, turn));
		g->req[i] = NULL;
		n = g->cts[0].n;
		ASSERT(n >= 1 && n <= NET_MAX_RECVS && g->cts[0].sizes < NET_VERBS_RING);
	}
	g->n = n;
	g->here = 0;
	return true;
}

/* Returns the buffer for messages with that tag; n: the receive has no such buffer, or its message
 * is here. */
static uint32_t net_verbs_gather_find(const struct net_verbs_gather *g, uint32_t tag)
{
	uint32_t i = 0;

	while (i < g->n && (g->req[i] || g->cts[i].tag != tag))
		i++;
	return i;
}

/* Waits until this end has all sends for an earlier receive. */
static ncclResult_t net_verbs_wait_turn(struct net_verbs_conn *c, struct wait *w)
{
	OS_PROBE("net.send_behind_another",
		 "a send waits for a send of another tag, which is for an earlier receive", true);
	*w = wait_object(&c->gather, os_event_seq(&c->gather), "the sends for an earlier receive",
			 wait_by(c->comm->rank, c->who.channel, "proxy send"));
	return ncclSuccess;
}

/* ---- writes --------------------------------------------------------------------------------- */

struct net_verbs_piece {
	const uint8_t *data;
	size_t bytes;
	uint64_t remote_addr;
	bool last; /* last of the message: it carries the message's size */
};

static int net_verbs_post_piece(const struct net_verbs_conn *c, const struct net_verbs_part *m,
				uint32_t b, const struct net_verbs_piece *p)
{
	const struct net_verbs_region *region = m->from[b].mr;
	struct ibv_sge sge = {
		.addr = net_verbs_iova(region, p->data),
		.length = (uint32_t)p->bytes,
		.lkey = region->mr[net_verbs_leg_of(c, m->qp)]->lkey,
	};
	struct ibv_send_wr *bad,
		wr = {
			.wr_id = m->wr_id,
			.sg_list = &sge,
			.num_sge = p->bytes ? 1 : 0,
			.opcode = p->last ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
			.send_flags = p->last ? IBV_SEND_SIGNALED : 0,
			.imm_data = htobe32((uint32_t)m->from[b].bytes),
			.wr.rdma = {.remote_addr = p->remote_addr,
				    .rkey = m->cts[b].rkey[net_verbs_their_dev(c, m->qp)]},
		};

	return ibv_post_send(c->qp[m->qp], &wr, &bad);
}

/* Posts a part of message b, in several writes if it is longer than the port allows.
 * The completion of the last one completes them all. With adaptive routing the packets of a long
 * write may overtake each other, so the immediate is a separate write after them. */
static int net_verbs_post_bytes(const struct net_verbs_conn *c, const struct net_verbs_part *m,
				uint32_t b, size_t at, size_t bytes)
{
	const size_t most = net_verbs_message_max(c->leg[net_verbs_leg_of(c, m->qp)].dev);
	const bool apart = c->adaptive && bytes > (size_t)param_i64(PARAM_IB_AR_THRESHOLD);
	struct net_verbs_piece p = {.data = (const uint8_t *)m->from[b].data + at,
				    .remote_addr = m->cts[b].addr + at};
	size_t left = bytes;
	int rc = 0;

	OS_PROBE("net.immediate_apart", "the data of a message and its immediate are two writes",
		 m->alone && apart);
	while (!rc && (left || (m->alone && !p.last))) {
		p.bytes = MIN_OF(left, most);
		p.last = m->alone && p.bytes == left && (!apart || !left);
		rc = net_verbs_post_piece(c, m, b, &p);
		p.data += p.bytes;
		p.remote_addr += p.bytes;
		left -= p.bytes;
	}
	return rc;
}

/* Parts have equal size, except the last ones. Queue pairs with nothing left to send post an empty
 * part. */
static int net_verbs_post_share(const struct net_verbs_conn *c, const struct net_verbs_part *m,
				uint32_t b)
{
	const size_t bytes = m->from[b].bytes, each = net_verbs_part_bytes(m->parts, bytes);
	const size_t at = MIN_OF(m->k * each, bytes);

	return net_verbs_post_bytes(c, m, b, at, MIN_OF(each, bytes - at));
}

/* Posts the write after the data of the messages: their sizes (part 0 only) and the immediate. */
static int net_verbs_post_sizes(const struct net_verbs_conn *c, const struct net_verbs_part *p)
{
	uint32_t sizes[NET_MAX_RECVS];
	struct ibv_sge sge = {.addr = (uint64_t)(uintptr_t)sizes,
			      .length = p->n * (uint32_t)sizeof sizes[0]};
	struct ibv_send_wr *bad,
		wr = {
			.wr_id = p->wr_id,
			.sg_list = &sge,
			.num_sge = p->k ? 0 : 1,
			.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
			.send_flags = IBV_SEND_SIGNALED | (p->k ? 0 : IBV_SEND_INLINE),
			.imm_data = p->imm,
			.wr.rdma = {.remote_addr =
					    c->theirs.ring_addr + p->cts[0].sizes * sizeof sizes,
				    .rkey = c->theirs.dev[net_verbs_their_dev(c, p->qp)].ring_rkey},
		};

	for (uint32_t b = 0; b < p->n; b++)
		sizes[b] = (uint32_t)p->from[b].bytes;
	return ibv_post_send(c->qp[p->qp], &wr, &bad);
}

int net_verbs_post_part(const struct net_verbs_conn *c, const struct net_verbs_part *p)
{
	int rc = 0;

	for (uint32_t b = 0; b < p->n && !rc; b++)
		rc = net_verbs_post_share(c, p, b);
	return rc || p->alone ? rc : net_verbs_post_sizes(c, p);
}

/* Posts all messages of the next receive. */
static int net_verbs_post_all(struct net_verbs_conn *c, uint32_t request)
{
	const struct net_verbs_gather *g = &c->gather;
	struct net_verbs_part p = {.parts = net_verbs_parts(c),
				   .n = g->n,
				   .from = g->from,
				   .cts = g->cts,
				   .wr_id = net_verbs_wr_id(NET_VERBS_SEND, request),
				   .alone = g->n == 1};
	int rc = 0;

	for (; p.k < p.parts && !rc; p.k++) {
		c->failed_qp = p.qp = net_verbs_part_qp(c, c->sends, p.k);
		rc = net_verbs_post_part(c, &p);
	}
	return rc;
}

/* ---- the call ------------------------------------------------------------------------------- */

/* The requests of a receive's sends complete together with the first one. */
static ncclResult_t net_verbs_send_all(struct net_verbs_conn *c)
{
	struct net_verbs_gather *g = &c->gather;
	struct net_request *first = g->req[0];
	ncclResult_t failed = ncclSuccess;
	int rc = 0;

	OS_PROBE("net.sends_together", "the messages of several sends go together", g->n > 1);
	first->n = g->n;
	net_verbs_expect(c, first, c->sends);
	memcpy(first->sends, g->req, sizeof first->sends);
	for (uint32_t b = 1; b < g->n; b++)
		g->req[b]->first = first;
	if (c->rails)
		failed = net_verbs_rails_send(c, first);
	else
		rc = net_verbs_post_all(c, (uint32_t)(first - c->req));
	if (rc)
		failed = net_verbs_call_failed(c, c->failed_qp, "posting a write", rc);
	if (failed)
		return failed;
	c->sends++;
	g->n = 0;
	os_event_post(g);
	return ncclSuccess;
}

static ncclResult_t net_verbs_too_long(const struct net_verbs_conn *c, size_t bytes, size_t room)
{
	WARN("NET/IB: rank %d -> rank %d channel %d: a message of %zu bytes for a receive of %zu",
	     c->comm->rank, c->who.peer, c->who.channel, bytes, room);
	return ncclInternalError;
}

ncclResult_t net_verbs_isend(void *send_comm, const struct net_buffer *b, struct net_request **req,
			     struct wait *w)
{
	struct net_verbs_conn *c = send_comm;
	struct net_verbs_gather *g = &c->gather;
	struct net_request *r;
	uint32_t at;
	ncclResult_t rc = net_verbs_alive(c);

	ASSERT(c->is_send && c->state == NET_VERBS_READY);
	*req = NULL;
	if (!rc && c->peer_ends)
		rc = net_verbs_send_after_end(c);
	if (!rc && c->rails && !g->n && net_verbs_rails_full(c))
		return net_verbs_busy(c, req, w);
	if (rc || (!g->n && !net_verbs_cleared(c, w)))
		return rc;
	at = net_verbs_gather_find(g, b->tag);
	if (at == g->n)
		return net_verbs_wait_turn(c, w);
	if (b->bytes > g->cts[at].bytes)
		return net_verbs_too_long(c, b->bytes, g->cts[at].bytes);
	r = net_verbs_request(c, NET_VERBS_SEND);
	if (!r)
		return net_verbs_busy(c, req, w);
	((struct net_verbs_region *)b->mr)->used = true;
	r->bytes[0] = b->bytes;
	g->req[at] = r;
	g->from[at] = *b;
	if (++g->here == g->n)
		rc = net_verbs_send_all(c);
	if (!rc)
		*req = r;
	return rc;
}
