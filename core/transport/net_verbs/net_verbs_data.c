/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The data path: requests, receives, flushes, completions. net_verbs_send.c has the sending end's
 * writes.
 */
#include <endian.h>
#include <string.h>

#include "core/transport/net_verbs/net_verbs_rails.h"

/* ---- requests -------------------------------------------------------------------------------- */

/* Receives leave one request free for flushes. Data that has arrived must reach its kernel, or
 * other receives may never complete. */
struct net_request *net_verbs_request(struct net_verbs_conn *c, enum net_verbs_kind kind)
{
	for (uint32_t i = kind == NET_VERBS_RECV; i < NET_MAX_REQUESTS; i++) {
		struct net_request *r = &c->req[i];

		if (r->used)
			continue;
		*r = (struct net_request){.conn = c, .kind = kind, .used = true};
		return r;
	}
	return NULL;
}

/* Returns the first leg on which the request still needs a completion. */
static uint32_t net_verbs_leg_to_come(const struct net_verbs_conn *c, const struct net_request *r)
{
	uint32_t l = 0;

	if (r->first)
		r = r->first;
	while (l < c->nlegs && !r->left_on[l])
		l++;
	return l % c->nlegs;
}

void net_verbs_wait_cq(const struct net_verbs_conn *c, uint32_t leg, uint64_t seq, const char *why,
		       struct wait *w)
{
	*w = wait_object(c->leg[leg].cq, seq, why, wait_by(c->who.peer, c->who.channel, "hca"));
}

void net_verbs_expect(const struct net_verbs_conn *c, struct net_request *r, uint64_t message)
{
	r->left = net_verbs_parts(c);
	for (uint32_t k = 0; k < r->left; k++)
		r->left_on[net_verbs_leg_of(c, net_verbs_part_qp(c, message, k))]++;
}

ncclResult_t net_verbs_busy(const struct net_verbs_conn *c, struct net_request **req,
			    struct wait *w)
{
	const struct net_request *last = &c->req[NET_MAX_REQUESTS - 1];
	uint32_t leg = net_verbs_leg_to_come(c, last);

	OS_PROBE_IDLE("net.requests_spent", "all requests of a connection are in use",
		      "the proxy has 8 slots in flight, a connection 32 requests", true);
	net_verbs_wait_cq(c, leg, os_event_seq(c->leg[leg].cq),
			  "a request of the connection to end", w);
	if (c->rails)
		net_verbs_rails_busy(c, w);
	*req = NULL;
	return ncclSuccess;
}

/* ---- receive -------------------------------------------------------------------------------- */

int net_verbs_max_recvs(void *recv_comm)
{
	const struct net_verbs_conn *c = recv_comm;

	return c->max_recvs;
}

static void net_verbs_cts_fill(const struct net_verbs_conn *c, const struct net_request *r,
			       const struct net_buffer *b, struct net_verbs_cts *cts)
{
	for (uint32_t i = 0; i < r->n; i++) {
		struct net_verbs_region *region = b[i].mr;

		region->used = true;
		cts[i] = (struct net_verbs_cts){
			.addr = net_verbs_iova(region, b[i].data),
			.bytes = (uint32_t)b[i].bytes,
			.tag = b[i].tag,
			.n = (uint16_t)r->n,
			.sizes = (uint16_t)(c->rails ? r->slot : (uint32_t)(r - c->req)),
			.turn = {c->recvs + 1},
		};
		for (uint32_t l = 0; l < c->nlegs; l++)
			cts[i].rkey[l] = region->mr[l]->rkey;
	}
}

/* Writes the clear-to-send entries of the next receive. One write per round of the ring is
 * signaled: its completion frees the send queue of all writes before it. */
static int net_verbs_post_cts(const struct net_verbs_conn *c, const struct net_request *r,
			      const struct net_verbs_cts *cts)
{
	uint64_t slot = c->recvs % NET_VERBS_RING;
	struct ibv_sge sge = {.addr = (uint64_t)(uintptr_t)cts,
			      .length = r->n * (uint32_t)sizeof *cts};
	struct ibv_send_wr *bad,
		wr = {
			.wr_id = net_verbs_wr_id(NET_VERBS_CTS, 0),
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE,
			.send_flags = IBV_SEND_INLINE | (slot ? 0 : IBV_SEND_SIGNALED),
			.wr.rdma = {.remote_addr = c->theirs.ring_addr +
						   slot * NET_MAX_RECVS * sizeof *cts,
				    .rkey = c->theirs.dev[0].ring_rkey},
		};

	return ibv_post_send(c->qp[0], &wr, &bad);
}

/* Posts empty receives, one for each immediate of the message. */
static int net_verbs_post_recvs(struct net_verbs_conn *c, uint32_t index)
{
	struct ibv_recv_wr *bad, wr = {.wr_id = net_verbs_wr_id(NET_VERBS_RECV, index)};
	int rc = 0;

	for (uint32_t k = 0; k < net_verbs_parts(c) && !c->rails && !rc; k++) {
		c->failed_qp = net_verbs_part_qp(c, c->recvs, k);
		rc = ibv_post_recv(c->qp[c->failed_qp], &wr, &bad);
	}
	return rc;
}

ncclResult_t net_verbs_irecv(void *recv_comm, const struct net_buffer *b, int n,
			     struct net_request **req, struct wait *w)
{
	struct net_verbs_conn *c = recv_comm;
	struct net_request *r = NULL;
	struct net_verbs_cts cts[NET_MAX_RECVS];
	ncclResult_t failed = ncclSuccess;
	int rc;

	ASSERT(!c->is_send && c->state == NET_VERBS_READY && n >= 1 && n <= c->max_recvs);
	*req = NULL;
	rc = (int)net_verbs_alive(c);
	if (rc)
		return (ncclResult_t)rc;
	if (c->rails ? !net_verbs_rails_full(c) : c->recvs < c->cts_done + NET_VERBS_CTS_DEPTH)
		r = net_verbs_request(c, NET_VERBS_RECV);
	if (!r)
		return net_verbs_busy(c, req, w);
	r->n = (uint32_t)n;
	r->slot = (uint32_t)(c->recvs % NET_VERBS_RING);
	net_verbs_expect(c, r, c->recvs);
	rc = net_verbs_post_recvs(c, (uint32_t)(r - c->req));
	if (rc) {
		r->used = false;
		return net_verbs_call_failed(c, c->failed_qp, "posting a receive", rc);
	}
	net_verbs_cts_fill(c, r, b, cts);
	if (c->rails)
		failed = net_verbs_rails_recv(c, r, cts);
	else
		rc = net_verbs_post_cts(c, r, cts);
	if (rc)
		failed = net_verbs_call_failed(c, 0, "posting a clear-to-send write", rc);
	if (failed)
		return failed;
	c->recvs++;
	*req = r;
	return ncclSuccess;
}

int net_verbs_post_flush(const struct net_verbs_conn *c, uint32_t l, uint32_t request,
			 const struct net_verbs_region *region, const void *data)
{
	const struct net_verbs_leg *leg = &c->leg[l];
	struct ibv_sge sge = {
		.addr = (uint64_t)(uintptr_t)&leg->flush_word,
		.length = 1,
		.lkey = leg->flush_mr->lkey,
	};
	struct ibv_send_wr *bad, wr = {
					 .wr_id = net_verbs_wr_id(NET_VERBS_FLUSH, request),
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_RDMA_READ,
					 .send_flags = IBV_SEND_SIGNALED,
					 .wr.rdma = {.remote_addr = net_verbs_iova(region, data),
						     .rkey = region->mr[l]->rkey},
				 };

	return ibv_post_send(leg->flush_qp, &wr, &bad);
}

/* Reads back one byte of the received data on each leg. The read pushes all data that the device
 * wrote before it out to GPU memory. Each leg reads the first byte that came over it, because a
 * byte of another leg may not be in memory yet. */
ncclResult_t net_verbs_iflush(void *recv_comm, void *data, size_t bytes, void *mr,
			      struct net_request **req, struct wait *w)
{
	struct net_verbs_region *region = mr;
	struct net_verbs_conn *c = recv_comm;
	struct net_request *r;
	size_t each;
	int rc;

	ASSERT(c->leg[0].flush_qp && bytes);
	*req = NULL;
	rc = (int)net_verbs_alive(c);
	if (rc)
		return (ncclResult_t)rc;
	r = net_verbs_request(c, NET_VERBS_FLUSH);
	if (!r)
		return net_verbs_busy(c, req, w);
	region->used = true;
	*req = r;
	if (c->rails)
		return net_verbs_rails_flush(c, r, region, data);
	each = net_verbs_part_bytes(net_verbs_parts(c), bytes);
	for (uint32_t l = 0; l < c->nlegs && l * each < bytes; l++) {
		rc = net_verbs_post_flush(c, l, (uint32_t)(r - c->req), region,
					  (const uint8_t *)data + l * each);
		if (rc) {
			r->used = l > 0;
			*req = NULL;
			return net_verbs_call_failed(c, l, "posting a flush", rc);
		}
		r->left++;
		r->left_on[l] = 1;
	}
	return ncclSuccess;
}

/* ---- completions ---------------------------------------------------------------------------- */

/* The size of a single message is its immediate. The sizes of several were written before the last
 * immediate arrived. */
static void net_verbs_received(struct net_verbs_conn *c, struct net_request *r,
			       const struct ibv_wc *wc)
{
	const uint32_t *ring = (const uint32_t *)c->ring + (r - c->req) * NET_MAX_RECVS;
	uint32_t sizes[NET_MAX_RECVS];

	ASSERT(wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM && (wc->wc_flags & IBV_WC_WITH_IMM));
	if (r->n == 1)
		r->bytes[0] = be32toh(wc->imm_data);
	if (r->n == 1 || !r->done)
		return;
	shared_read(sizes, ring, r->n * sizeof sizes[0]);
	for (uint32_t i = 0; i < r->n; i++)
		r->bytes[i] = sizes[i];
}

/* The other sends of the receive have no completions of their own. */
static void net_verbs_sent(struct net_request *r)
{
	for (uint32_t i = 1; i < r->n; i++)
		r->sends[i]->done = r->done;
}

static void net_verbs_completed(struct net_verbs_conn *c, uint32_t leg, const struct ibv_wc *wc)
{
	enum net_verbs_kind kind = (enum net_verbs_kind)(wc->wr_id >> 32);
	struct net_request *r = &c->req[wc->wr_id & (NET_MAX_REQUESTS - 1)];

	if (kind == NET_VERBS_CTS) {
		c->cts_done = c->cts_turns * NET_VERBS_RING + 1;
		c->cts_turns++;
		return;
	}
	if (c->peer_ends && kind == NET_VERBS_SEND)
		return; /* done since the peer ended */
	ASSERT(r->used && r->left_on[leg] && r->kind == kind);
	r->left_on[leg]--;
	r->done = --r->left == 0;
	OS_PROBE("net.part_completed", "one part of a message completes before another", r->left);
	if (kind == NET_VERBS_RECV)
		net_verbs_received(c, r, wc);
	else if (kind == NET_VERBS_SEND)
		net_verbs_sent(r);
}

static ncclResult_t net_verbs_leg_drain(struct net_verbs_conn *c, uint32_t l)
{
	struct net_verbs_leg *leg = &c->leg[l];
	struct ibv_wc wc[4];
	int n, most;

	leg->seq = os_event_seq(leg->cq); /* before the poll, so that no event is missed */
	do {
		/* rare: one completion per poll, so that the queue fills up */
		bool one = OS_BUGGIFY("net.poll_one", "completions are polled one at a time");
		most = one ? 1 : (int)ARRAY_LEN(wc);
		n = ibv_poll_cq(leg->cq, most, wc);
		if (n < 0 && c->rails)
			return net_verbs_rails_poll_failed(c, l);
		if (n < 0)
			return net_verbs_call_failed(c, l, "polling for completions", 0);
		OS_PROBE("net.completions_at_once", "one poll gives several completions", n > 1);
		OS_PROBE("net.poll_again", "a poll fills its array, and is done again",
			 n > 1 && n == most);
		for (int i = 0; i < n; i++) {
			if (wc[i].status == IBV_WC_SUCCESS && c->rails)
				net_verbs_rails_completed(c, l, &wc[i]);
			else if (wc[i].status == IBV_WC_SUCCESS)
				net_verbs_completed(c, l, &wc[i]);
			else
				(void)net_verbs_completion_failed(c, l, &wc[i]);
		}
	} while (n == most);
	return ncclSuccess;
}

ncclResult_t net_verbs_drain(struct net_verbs_conn *c)
{
	ncclResult_t rc = ncclSuccess;

	for (uint32_t l = 0; l < c->nlegs && !rc; l++)
		if (!c->rails || net_verbs_rails_polls(c, l))
			rc = net_verbs_leg_drain(c, l);
	return rc ? rc : c->failed ? ncclRemoteError : ncclSuccess;
}

ncclResult_t net_verbs_test(struct net_request *r, bool *done, size_t *bytes, struct wait *w)
{
	static const char *const why[] = {
		[NET_VERBS_SEND] = "a write to complete",
		[NET_VERBS_RECV] = "data from the peer",
		[NET_VERBS_FLUSH] = "a flush to complete",
	};
	struct net_verbs_conn *c = r->conn;
	ncclResult_t rc = ncclSuccess;
	uint32_t leg;

	ASSERT(r->used);
	*done = false;
	if (!r->done)
		rc = net_verbs_drain(c);
	if (!rc && !r->done)
		rc = net_verbs_alive(c);
	if (rc)
		return rc;
	if (!r->done) {
		leg = net_verbs_leg_to_come(c, r);
		net_verbs_wait_cq(c, leg, c->leg[leg].seq, why[r->kind], w);
		if (c->rails)
			net_verbs_rails_wait(c, r, w);
		return ncclSuccess;
	}
	*done = true;
	memcpy(bytes, r->bytes, (r->kind == NET_VERBS_RECV ? r->n : 1) * sizeof *bytes);
	r->used = false;
	if (c->rails)
		net_verbs_rails_release(c, r);
	return ncclSuccess;
}
