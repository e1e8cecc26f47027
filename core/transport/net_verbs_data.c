/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The data path: requests, clear-to-send, writes, flushes, completions.
 */
#include <endian.h>
#include <string.h>

#include "core/transport/net_verbs_internal.h"

/* ---- requests ----------------------------------------------------------------------------------
 */

static struct net_request *net_verbs_request(struct net_verbs_conn *c, enum net_verbs_kind kind,
					     uint32_t *index)
{
	for (uint32_t i = 0; i < NET_MAX_REQUESTS; i++) {
		struct net_request *r = &c->req[i];

		if (r->used)
			continue;
		*r = (struct net_request){.conn = c, .kind = kind, .used = true};
		*index = i;
		return r;
	}
	return NULL;
}

static void net_verbs_wait_cq(const struct net_verbs_conn *c, uint64_t seq, const char *why,
			      struct wait *w)
{
	*w = (struct wait){
		.on = c->cq,
		.want = seq,
		.kind = WAIT_OBJECT,
		.why = why,
		.from = {.rank = c->who.peer,
			 .channel = c->who.channel,
			 .step = -1,
			 .object = "hca"},
	};
}

/* No request, or no room in the queue, before something completes. */
static ncclResult_t net_verbs_busy(const struct net_verbs_conn *c, struct net_request **req,
				   struct wait *w)
{
	OS_PROBE_IDLE("net.requests_spent", "all requests of a connection are in use",
		      "the proxy has 8 slots in flight, a connection 32 requests", true);
	net_verbs_wait_cq(c, os_event_seq(c->cq), "a request of the connection to end", w);
	*req = NULL;
	return ncclSuccess;
}

/* The queue pair of a message that is not split: they take turns. */
static struct ibv_qp *net_verbs_turn(const struct net_verbs_conn *c, uint64_t message)
{
	return c->qp[message % c->nqps];
}

/* ---- send ----------------------------------------------------------------------------------- */

/* Is the receiver's entry for the next send there? */
static bool net_verbs_cleared(struct net_verbs_conn *c, struct net_verbs_cts *cts, struct wait *w)
{
	struct net_verbs_cts *entry = &c->ring[c->sends % NET_VERBS_RING];
	uint64_t turn = c->sends + 1;

	if (shared_load_u64(&entry->turn, SHARED_ACQUIRE) != turn) {
		OS_PROBE("net.send_not_cleared", "a send has no receive at the other end yet",
			 true);
		*w = (struct wait){
			.on = &entry->turn,
			.want = turn,
			.mask = WAIT_MASK_ALL,
			.kind = WAIT_EQ,
			.bytes = 8,
			.why = "the receiver to clear a send",
			.from = {.rank = c->who.peer,
				 .channel = c->who.channel,
				 .step = -1,
				 .object = "proxy recv"},
		};
		return false;
	}
	shared_read(cts, entry, offsetof(struct net_verbs_cts, turn));
	return true;
}

struct net_verbs_piece {
	const uint8_t *data;
	size_t bytes;
	uint64_t remote_addr;
	bool last; /* of its message: it carries the size of the whole */
};

/* A send as its writes see it. */
struct net_verbs_write {
	const struct net_verbs_region *region;
	const struct net_verbs_cts *cts;
	uint32_t request; /* its number */
	uint32_t bytes;   /* of the message */
};

static int net_verbs_post_piece(struct ibv_qp *qp, const struct net_verbs_write *m,
				const struct net_verbs_piece *p)
{
	struct ibv_sge sge = {
		.addr = net_verbs_iova(m->region, p->data),
		.length = (uint32_t)p->bytes,
		.lkey = m->region->mr->lkey,
	};
	struct ibv_send_wr *bad,
		wr = {
			.wr_id = net_verbs_wr_id(NET_VERBS_SEND, m->request),
			.sg_list = &sge,
			.num_sge = p->bytes ? 1 : 0,
			.opcode = p->last ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
			.send_flags = p->last ? IBV_SEND_SIGNALED : 0,
			.imm_data = htobe32(m->bytes),
			.wr.rdma = {.remote_addr = p->remote_addr, .rkey = m->cts->rkey},
		};

	return ibv_post_send(qp, &wr, &bad);
}

/* One queue pair's part of a message, in several writes when it is longer than the port takes: the last one
 * completes them all. With adaptive routing the packets of a long write overtake each other, and the
 * immediate goes by itself behind them. */
static int net_verbs_post_part(struct net_verbs_conn *c, struct ibv_qp *qp,
			       const struct net_verbs_write *m, const uint8_t *data, size_t at,
			       size_t bytes)
{
	const size_t most = net_verbs_message_max(c->dev);
	const bool apart = c->adaptive && bytes > (size_t)param_i64(PARAM_IB_AR_THRESHOLD);
	struct net_verbs_piece p = {.data = data + at, .remote_addr = m->cts->addr + at};
	int rc = 0;

	OS_PROBE("net.immediate_apart", "the data of a message and its immediate are two writes",
		 apart);
	for (size_t left = bytes; !rc && !p.last; left -= p.bytes) {
		p.bytes = MIN_OF(left, most);
		p.last = p.bytes == left && (!apart || !left);
		rc = net_verbs_post_piece(qp, m, &p);
		p.data += p.bytes;
		p.remote_addr += p.bytes;
	}
	return rc;
}

/* All queue pairs take part in a message that is split, also those for which nothing is left. */
static int net_verbs_post_write(struct net_verbs_conn *c, const struct net_verbs_write *m,
				const uint8_t *data)
{
	const size_t each =
		ALIGN_UP(DIV_UP((size_t)m->bytes, c->nqps), (size_t)NET_VERBS_SPLIT_ALIGN);
	int rc = 0;

	if (!c->split)
		return net_verbs_post_part(c, net_verbs_turn(c, c->sends), m, data, 0, m->bytes);
	for (uint32_t i = 0; i < c->nqps && !rc; i++) {
		size_t at = MIN_OF(i * each, (size_t)m->bytes);

		rc = net_verbs_post_part(c, c->qp[i], m, data, at,
					 MIN_OF(each, (size_t)m->bytes - at));
	}
	return rc;
}

ncclResult_t net_verbs_isend(void *send_comm, void *data, size_t bytes, void *mr,
			     struct net_request **req, struct wait *w)
{
	struct net_verbs_conn *c = send_comm;
	struct net_verbs_cts cts;
	struct net_request *r;
	uint32_t index;
	int rc;

	ASSERT(c->is_send && c->state == NET_VERBS_READY);
	*req = NULL;
	rc = (int)net_verbs_alive(c);
	if (rc)
		return (ncclResult_t)rc;
	if (!net_verbs_cleared(c, &cts, w))
		return ncclSuccess;
	if (bytes > cts.bytes) {
		WARN("NET/IB: rank %d -> rank %d channel %d: a message of %zu bytes for a receive "
		     "of %u",
		     c->comm->rank, c->who.peer, c->who.channel, bytes, cts.bytes);
		return ncclInternalError;
	}
	r = net_verbs_request(c, NET_VERBS_SEND, &index);
	if (!r)
		return net_verbs_busy(c, req, w);
	r->bytes = bytes;
	r->left = c->split ? c->nqps : 1;
	rc = net_verbs_post_write(c, &(struct net_verbs_write){mr, &cts, index, (uint32_t)bytes},
				  data);
	if (rc) {
		r->used = false;
		return net_verbs_call_failed(c, "posting a write", rc);
	}
	c->sends++;
	*req = r;
	return ncclSuccess;
}

/* ---- receive -------------------------------------------------------------------------------- */

/* Writes the clear-to-send entry of the next receive. One in a turn of the ring is signaled: its
 * completion frees the send queue of all before it. */
static int net_verbs_post_cts(struct net_verbs_conn *c, const void *data, size_t bytes,
			      const struct net_verbs_region *region)
{
	uint64_t slot = c->recvs % NET_VERBS_RING;
	struct net_verbs_cts cts = {
		.addr = net_verbs_iova(region, data),
		.rkey = region->mr->rkey,
		.bytes = (uint32_t)bytes,
		.turn = {c->recvs + 1},
	};
	struct ibv_sge sge = {.addr = (uint64_t)(uintptr_t)&cts, .length = sizeof cts};
	struct ibv_send_wr *bad,
		wr = {
			.wr_id = net_verbs_wr_id(NET_VERBS_CTS, 0),
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE,
			.send_flags = IBV_SEND_INLINE | (slot ? 0 : IBV_SEND_SIGNALED),
			.wr.rdma = {.remote_addr = c->theirs.ring_addr + slot * sizeof cts,
				    .rkey = c->theirs.ring_rkey},
		};

	return ibv_post_send(c->qp[0], &wr, &bad);
}

/* Empty receives, one for each immediate of the message. */
static int net_verbs_post_recvs(struct net_verbs_conn *c, uint32_t index)
{
	struct ibv_recv_wr *bad, wr = {.wr_id = net_verbs_wr_id(NET_VERBS_RECV, index)};
	int rc = 0;

	if (!c->split)
		return ibv_post_recv(net_verbs_turn(c, c->recvs), &wr, &bad);
	for (uint32_t i = 0; i < c->nqps && !rc; i++)
		rc = ibv_post_recv(c->qp[i], &wr, &bad);
	return rc;
}

ncclResult_t net_verbs_irecv(void *recv_comm, void *data, size_t bytes, void *mr,
			     struct net_request **req, struct wait *w)
{
	struct net_verbs_conn *c = recv_comm;
	struct net_request *r = NULL;
	uint32_t index;
	int rc;

	ASSERT(!c->is_send && c->state == NET_VERBS_READY);
	*req = NULL;
	rc = (int)net_verbs_alive(c);
	if (rc)
		return (ncclResult_t)rc;
	if (c->recvs < c->cts_done + NET_VERBS_CTS_DEPTH)
		r = net_verbs_request(c, NET_VERBS_RECV, &index);
	if (!r)
		return net_verbs_busy(c, req, w);
	r->left = c->split ? c->nqps : 1;
	rc = net_verbs_post_recvs(c, index);
	if (rc) {
		r->used = false;
		return net_verbs_call_failed(c, "posting a receive", rc);
	}
	rc = net_verbs_post_cts(c, data, bytes, mr);
	if (rc)
		return net_verbs_call_failed(c, "posting a clear-to-send write", rc);
	c->recvs++;
	*req = r;
	return ncclSuccess;
}

/* Reads back one byte of what came in, which pushes all that came before out to GPU memory. */
ncclResult_t net_verbs_iflush(void *recv_comm, void *data, size_t bytes, void *mr,
			      struct net_request **req, struct wait *w)
{
	const struct net_verbs_region *region = mr;
	struct net_verbs_conn *c = recv_comm;
	struct net_request *r;
	uint32_t index;
	int rc;

	ASSERT(c->flush_qp && bytes);
	*req = NULL;
	rc = (int)net_verbs_alive(c);
	if (rc)
		return (ncclResult_t)rc;
	r = net_verbs_request(c, NET_VERBS_FLUSH, &index);
	if (!r)
		return net_verbs_busy(c, req, w);
	r->left = 1;
	struct ibv_sge sge = {
		.addr = (uint64_t)(uintptr_t)&c->flush_word,
		.length = 1,
		.lkey = c->flush_mr->lkey,
	};
	struct ibv_send_wr *bad, wr = {
					 .wr_id = net_verbs_wr_id(NET_VERBS_FLUSH, index),
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_RDMA_READ,
					 .send_flags = IBV_SEND_SIGNALED,
					 .wr.rdma = {.remote_addr = net_verbs_iova(region, data),
						     .rkey = region->mr->rkey},
				 };
	rc = ibv_post_send(c->flush_qp, &wr, &bad);
	if (rc) {
		r->used = false;
		return net_verbs_call_failed(c, "posting a flush", rc);
	}
	*req = r;
	return ncclSuccess;
}

/* ---- completions ---------------------------------------------------------------------------- */

static void net_verbs_completed(struct net_verbs_conn *c, const struct ibv_wc *wc)
{
	enum net_verbs_kind kind = (enum net_verbs_kind)(wc->wr_id >> 32);
	struct net_request *r = &c->req[wc->wr_id & (NET_MAX_REQUESTS - 1)];

	if (kind == NET_VERBS_CTS) {
		c->cts_done = c->cts_turns * NET_VERBS_RING + 1;
		c->cts_turns++;
		return;
	}
	ASSERT(r->used && r->left && r->kind == kind);
	r->done = --r->left == 0;
	OS_PROBE("net.part_completed", "one part of a message completes before another", r->left);
	if (kind == NET_VERBS_RECV) {
		ASSERT(wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM && (wc->wc_flags & IBV_WC_WITH_IMM));
		r->bytes = be32toh(wc->imm_data);
	}
}

ncclResult_t net_verbs_drain(struct net_verbs_conn *c)
{
	struct ibv_wc wc[4];
	int n, most;

	do {
		/* rare: one at a time, so that the CQ fills up in between */
		bool one = OS_BUGGIFY("net.poll_one", "completions are polled one at a time");
		most = one ? 1 : (int)ARRAY_LEN(wc);
		n = ibv_poll_cq(c->cq, most, wc);
		if (n < 0)
			return net_verbs_call_failed(c, "polling for completions", 0);
		OS_PROBE("net.completions_at_once", "one poll gives several completions", n > 1);
		OS_PROBE("net.poll_again", "a poll fills its array, and is done again",
			 n > 1 && n == most);
		for (int i = 0; i < n; i++) {
			if (wc[i].status == IBV_WC_SUCCESS)
				net_verbs_completed(c, &wc[i]);
			else
				(void)net_verbs_complain(c, &wc[i]);
		}
	} while (n == most);
	return c->failed ? ncclRemoteError : ncclSuccess;
}

ncclResult_t net_verbs_test(struct net_request *r, bool *done, size_t *bytes, struct wait *w)
{
	static const char *const why[] = {
		[NET_VERBS_SEND] = "a write to complete",
		[NET_VERBS_RECV] = "data from the peer",
		[NET_VERBS_FLUSH] = "a flush to complete",
	};
	struct net_verbs_conn *c = r->conn;
	uint64_t seq = os_event_seq(c->cq); /* before the poll: nothing in between is lost */
	ncclResult_t rc = ncclSuccess;

	ASSERT(r->used);
	*done = false;
	if (!r->done)
		rc = net_verbs_drain(c);
	if (!rc && !r->done)
		rc = net_verbs_alive(c);
	if (rc)
		return rc;
	if (!r->done) {
		net_verbs_wait_cq(c, seq, why[r->kind], w);
		return ncclSuccess;
	}
	*done = true;
	*bytes = r->bytes;
	r->used = false;
	return ncclSuccess;
}
