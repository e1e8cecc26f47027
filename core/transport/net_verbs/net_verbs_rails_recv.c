/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The receiving end of a connection with rails: its records of the parts that arrived, its
 * clear-to-send entries, and flushes. net_verbs_rails.h has the protocol.
 *
 * Empty receives belong to no message, since a part may come over any rail. Each queue pair has a
 * fixed stock of them, and a completion replaces one.
 */
#include <endian.h>
#include <string.h>

#include "core/transport/net_verbs/net_verbs_rails.h"

#define NET_VERBS_ANY_RAIL_NS 1000000ull /* until a wait for one rail's completions is repeated */

static int net_verbs_stock_one(const struct net_verbs_conn *c, uint32_t i)
{
	struct ibv_recv_wr *bad, wr = {.wr_id = net_verbs_rail_wr_id(c, NET_VERBS_RECV, i, 0, 0)};

	return ibv_post_recv(c->qp[i], &wr, &bad);
}

int net_verbs_rails_stock(struct net_verbs_conn *c, uint32_t rail)
{
	int rc = 0;

	for (uint32_t i = rail; i < c->nqps && !c->is_send; i += c->width)
		for (uint32_t k = 0; k < c->rails->stock && !rc; k++)
			rc = net_verbs_stock_one(c, i);
	if (rc)
		WARN("NET/IB: rank %d and rank %d, channel %d: posting an empty receive on device "
		     "%s failed: %s",
		     c->comm->rank, c->who.peer, c->who.channel,
		     c->leg[net_verbs_leg_of(c, rail)].dev->name, strerror(rc));
	return rc;
}

/* Writes a receive's clear-to-send entries over the first rail in use. */
static ncclResult_t net_verbs_got_clear(struct net_verbs_conn *c, struct net_verbs_got *g)
{
	const uint64_t slot = g->message % NET_VERBS_RING;
	struct ibv_sge sge = {.addr = (uint64_t)(uintptr_t)g->cts,
			      .length = g->req->n * (uint32_t)sizeof g->cts[0]};
	uint32_t rail[NET_VERBS_MAX_LEGS] = {0};
	struct ibv_send_wr *bad, wr = {.sg_list = &sge,
				       .num_sge = 1,
				       .opcode = IBV_WR_RDMA_WRITE,
				       .send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED};
	int rc;

	(void)net_verbs_rails_list(c, rail);
	g->cts_rail = rail[0];
	wr.wr_id = net_verbs_rail_wr_id(c, NET_VERBS_CTS, rail[0], (uint32_t)slot, 0);
	wr.wr.rdma.remote_addr = c->theirs.ring_addr + slot * sizeof g->cts;
	wr.wr.rdma.rkey = c->theirs.dev[net_verbs_their_dev(c, rail[0])].ring_rkey;
	rc = ibv_post_send(c->qp[rail[0]], &wr, &bad);
	if (rc)
		return net_verbs_rails_post_failed(c, rail[0], "posting a clear-to-send write", rc);
	c->rails->rail[rail[0]].cts_out++;
	return ncclSuccess;
}

ncclResult_t net_verbs_rails_recv(struct net_verbs_conn *c, struct net_request *r,
				  const struct net_verbs_cts *cts)
{
	struct net_verbs_got *g = &c->rails->got[r->slot];

	ASSERT(!g->req);
	memset(g->here, 0, sizeof g->here);
	memcpy(g->cts, cts, r->n * sizeof g->cts[0]);
	g->req = r;
	g->message = c->recvs;
	g->parts = 0;
	return net_verbs_got_clear(c, g);
}

/* All parts of a message are here. Their sizes were written before the immediate of part 0. */
static void net_verbs_got_all(struct net_verbs_conn *c, struct net_verbs_got *g)
{
	const uint32_t *ring = (const uint32_t *)c->ring + g->req->slot * NET_MAX_RECVS;

	shared_read(g->bytes, ring, g->req->n * sizeof g->bytes[0]);
	for (uint32_t b = 0; b < g->req->n; b++)
		g->req->bytes[b] = g->bytes[b];
	g->req->done = true;
}

static void net_verbs_got_part(struct net_verbs_conn *c, uint32_t leg, const struct ibv_wc *wc)
{
	const uint32_t imm = be32toh(wc->imm_data), part = imm >> 8 & 0xff, parts = imm & 0xff;
	struct net_verbs_got *g = &c->rails->got[(imm >> 16) % NET_VERBS_RING];
	char text[128];

	ASSERT(wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM && (wc->wc_flags & IBV_WC_WITH_IMM));
	if (!g->req || g->req->done || (g->message & 0xffff) != imm >> 16 || part >= parts ||
	    (g->parts && parts != g->parts) || net_verbs_mask_has(g->here, part)) {
		snprintf(text, sizeof text,
			 "part %u of %u of message %u arrived, expected a part that is missing",
			 part, parts, imm >> 16);
		(void)net_verbs_rails_broken(c, net_verbs_wr_qp(wc->wr_id), text);
		return;
	}
	if (!g->parts)
		g->req->left = g->parts = parts;
	net_verbs_mask_set(g->here, part, true);
	g->leg[part] = (uint8_t)leg;
	if (--g->req->left == 0)
		net_verbs_got_all(c, g);
}

void net_verbs_got_completed(struct net_verbs_conn *c, uint32_t leg, const struct ibv_wc *wc)
{
	const uint32_t i = net_verbs_wr_qp(wc->wr_id), rail = net_verbs_rail_of(c, i);
	const enum net_verbs_rail_state state = c->rails->rail[rail].state;
	int rc = 0;

	if (state == NET_VERBS_RAIL_IN_USE || state == NET_VERBS_RAIL_STARTING)
		rc = net_verbs_stock_one(c, i);
	net_verbs_got_part(c, leg, wc);
	if (rc)
		(void)net_verbs_rails_post_failed(c, i, "posting an empty receive", rc);
}

/* ---- after a rail has ended ------------------------------------------------------------------ */

void net_verbs_rails_report(struct net_verbs_conn *c, uint32_t rail)
{
	for (uint32_t i = 0; i < NET_VERBS_RING; i++) {
		const struct net_verbs_got *g = &c->rails->got[i];
		struct net_verbs_rail_message m = {.what = NET_VERBS_PARTS, .message = g->message};

		if (!g->req || g->req->done)
			continue;
		memcpy(m.here, g->here, sizeof m.here);
		net_verbs_rails_tell(c, rail, &m);
	}
}

/* Entries that the peer has need no second write. */
ncclResult_t net_verbs_got_replay(struct net_verbs_conn *c, uint32_t rail)
{
	const struct net_verbs_rail *r = &c->rails->rail[rail];
	ncclResult_t rc = ncclSuccess;

	for (uint32_t s = 0; s < NET_VERBS_RING && !rc; s++) {
		struct net_verbs_got *g = &c->rails->got[s];

		if (g->req && !g->req->done && g->cts_rail == rail && g->message >= r->seen &&
		    !(r->present >> s & 1))
			rc = net_verbs_got_clear(c, g);
	}
	return rc;
}

/* A device has no data pending of a part that was acknowledged: its receive is complete, and is
 * flushed by itself. One read pushes all data of the device before it. It reads a byte that came
 * over this rail, because writes of another device to other bytes may be pending. */
bool net_verbs_rails_push_data(const struct net_verbs_conn *c, uint32_t rail)
{
	const struct net_verbs_rail *r = &c->rails->rail[rail];
	const uint32_t l = net_verbs_leg_of(c, rail);
	const struct net_verbs_leg *leg = &c->leg[l];
	struct ibv_sge sge = {.addr = (uint64_t)(uintptr_t)&leg->flush_word, .length = 1};
	struct ibv_send_wr *bad, wr = {.wr_id = net_verbs_rail_wr_id(c, NET_VERBS_PUSH, rail, 0, 0),
				       .sg_list = &sge,
				       .num_sge = 1,
				       .opcode = IBV_WR_RDMA_READ,
				       .send_flags = IBV_SEND_SIGNALED};
	const struct net_verbs_cts *cts;

	if (!leg->flush_qp || r->push_slot >= NET_VERBS_RING || r->push_buffer >= NET_MAX_RECVS)
		return false;
	cts = &c->rails->got[r->push_slot].cts[r->push_buffer];
	sge.lkey = leg->flush_mr->lkey;
	wr.wr.rdma.remote_addr = cts->addr + r->push_at;
	wr.wr.rdma.rkey = cts->rkey[l];
	return r->push_at < cts->bytes && !ibv_post_send(leg->flush_qp, &wr, &bad);
}

/* ---- flushes --------------------------------------------------------------------------------- */

/* Returns the newest receive with that buffer, and the buffer's index; NULL: none. */
static const struct net_verbs_got *net_verbs_flush_of(const struct net_verbs_conn *c,
						      const struct net_verbs_region *region,
						      const void *data, uint32_t *b)
{
	const uint64_t addr = net_verbs_iova(region, data);
	const struct net_verbs_got *best = NULL;

	for (uint32_t s = 0; s < NET_VERBS_RING; s++) {
		const struct net_verbs_got *g = &c->rails->got[s];

		for (uint32_t i = 0; i < g->cts[0].n && g->parts; i++) {
			if (g->cts[i].addr != addr || g->cts[i].rkey[0] != region->mr[0]->rkey ||
			    (best && best->message > g->message))
				continue;
			best = g;
			*b = i;
		}
	}
	return best;
}

static ncclResult_t net_verbs_flush_post(struct net_verbs_conn *c, uint32_t leg,
					 struct net_request *r, const void *data)
{
	const uint32_t request = (uint32_t)(r - c->req);

	r->left++;
	r->left_on[leg]++;
	/* the completions of a lost device are not polled */
	if (!net_verbs_rails_polls(c, leg) ||
	    net_verbs_post_flush(c, leg, request, c->rails->flushed[request].region, data))
		return net_verbs_rails_flush_failed(c, leg, r);
	return ncclSuccess;
}

/* Each leg reads the first byte of the buffer that came over it. */
ncclResult_t net_verbs_rails_flush(struct net_verbs_conn *c, struct net_request *r,
				   const struct net_verbs_region *region, const void *data)
{
	uint32_t b = 0, seen = 0;
	const struct net_verbs_got *g = net_verbs_flush_of(c, region, data, &b);
	const size_t each = g ? net_verbs_part_bytes(g->parts, g->bytes[b]) : 0;
	ncclResult_t rc = ncclSuccess;

	ASSERT(g);
	c->rails->flushed[r - c->req] = (struct net_verbs_flushed){region, data};
	for (uint32_t k = 0; k < g->parts && k * each < g->bytes[b] && !rc; k++) {
		if (seen >> g->leg[k] & 1)
			continue;
		seen |= 1u << g->leg[k];
		rc = net_verbs_flush_post(c, g->leg[k], r, (const uint8_t *)data + k * each);
	}
	return rc;
}

/* Another device reads instead. The data has been in the memory system of the host since long
 * before the failed read's retries ended. */
ncclResult_t net_verbs_rails_flush_failed(struct net_verbs_conn *c, uint32_t leg,
					  struct net_request *r)
{
	uint32_t rail[NET_VERBS_MAX_LEGS] = {0};
	const struct net_verbs_cause cause = {
		.what = NET_VERBS_FLUSH,
		.status = IBV_WC_WR_FLUSH_ERR,
		.qpn = c->leg[leg].flush_qp->qp_num,
	};
	ncclResult_t rc = ncclSuccess;

	if (!r->used || r->kind != NET_VERBS_FLUSH || !r->left_on[leg])
		return ncclSuccess;
	r->left -= r->left_on[leg];
	r->left_on[leg] = 0;
	for (uint32_t i = 0; i < c->width && !rc; i++)
		if (net_verbs_leg_of(c, i) == leg)
			rc = net_verbs_rail_fail(c, i, &cause);
	if (rc)
		return rc;
	if (!net_verbs_rails_list(c, rail))
		return ncclRemoteError; /* the connection has failed */
	return net_verbs_flush_post(c, net_verbs_leg_of(c, rail[0]), r,
				    c->rails->flushed[r - c->req].data);
}

/* ---- waits ----------------------------------------------------------------------------------- */

/* Number of rails that may bring a part. The sending end uses a rail before the other learns it. */
static uint32_t net_verbs_rails_bring(const struct net_verbs_conn *c)
{
	uint32_t n = 0;

	for (uint32_t r = 0; r < c->width; r++)
		n += net_verbs_rail_is_used(c, r) ||
		     c->rails->rail[r].state == NET_VERBS_RAIL_STARTING;
	return n;
}

/* A part comes over the rail that both ends compute from the rails in use. If they do not agree
 * about these yet, or the message is older than their agreement, or the part is written again, it
 * may come over another one. The wait for one rail then has a deadline, unless only one can bring
 * it. */
void net_verbs_got_wait(const struct net_verbs_conn *c, const struct net_request *r, struct wait *w)
{
	const struct net_verbs_got *g = &c->rails->got[r->slot];
	uint32_t rail[NET_VERBS_MAX_LEGS] = {0}, leg, k = 0;
	const uint32_t n = net_verbs_rails_list(c, rail);

	while (k + 1 < g->parts && net_verbs_mask_has(g->here, k))
		k++;
	leg = net_verbs_leg_of(c, n == c->width ? net_verbs_part_qp(c, g->message, k)
						: rail[n ? k % n : 0]);
	net_verbs_wait_cq(c, leg, c->leg[leg].seq, "data from the peer", w);
	if (net_verbs_rails_bring(c) > 1 &&
	    (n < c->width || g->message < c->rails->any_rail_before ||
	     (g->parts && g->parts != net_verbs_parts(c))))
		w->deadline_ns = os_now_ns() + NET_VERBS_ANY_RAIL_NS;
}
