/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fast path, under `threads`, for requests of reliable connections. If the peer can accept the
 * request as a whole now, the poster copies from memory to memory, without packets and events. No
 * program can notice it, because both ends are locked meanwhile. All other cases use the packet
 * path of requester.c and responder.c, which finds and reports errors. Other cases are: work under
 * way, a fault plan, a trace, a link that is down, a key that does not fit, no receive. The fast
 * path maintains the state that both paths share: packet numbers, receives, completions in order.
 *
 * hca_direct_post executes a request as the program wrote it; its slot in the send queue is then
 * only a record. hca_direct executes a request from its slot: requests of ibv_wr_*, and requests
 * that had to wait.
 *
 * For 8 bytes, function calls would cost as much as their bodies: hence always_inline.
 *
 * Two queue pairs are locked here, the poster's first. The peer's lock is only tried, so that two
 * posters to each other do not wait.
 */
#include "backends/fakeverbs/transport/transport.h"

#define HCA_DIRECT_FEW 256u /* bytes */

/* A place in memory, held from hca_direct_hold until hca_mr_release. */
struct hca_direct_place {
	struct hca_mr *mr;
	uint64_t iova;
};

static bool hca_direct_hold(struct hca_direct_place *at, uint32_t pd, uint32_t key, uint64_t iova,
			    uint64_t bytes, uint32_t access)
{
	at->iova = iova;
	at->mr = hca_mr_hold(pd, key, iova, bytes, access);
	if (!at->mr)
		return false;
	if (!at->mr->gpu && at->mr->kind == HCA_MR_MEMORY)
		return true;
	hca_mr_release(at->mr);
	return false;
}

static const void *hca_direct_address(const struct hca_direct_place *at)
{
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a held place has a region */
	return (const void *)(uintptr_t)(at->mr->address + (at->iova - at->mr->iova));
}

/* ---- which peers ---------------------------------------------------------------------------- */

/* True if the queue pair may use the fast path; constant until it is changed. */
static bool hca_direct_fits(const struct hca_qp *qp)
{
	return qp->type == IBV_QPT_RC && qp->state == IBV_QPS_RTS && !qp->pkey_index &&
	       hca_world()->port[qp->port].fast_path && qp->dest_port < fakeverbs.world->ports;
}

/* True if the peer may use it, too, and is connected to the queue pair. */
static bool hca_direct_fits_peer(const struct hca_qp *qp, const struct hca_qp *peer)
{
	return peer->type == IBV_QPT_RC &&
	       (peer->state == IBV_QPS_RTS ||
		(peer->state == IBV_QPS_RTR && peer->resp.established)) &&
	       peer->dest_port == qp->port && peer->dest_qpn == qp->number && !peer->pkey_index &&
	       hca_pkey_match(hca_pkey_get(qp->port, 0), hca_pkey_get(peer->port, 0));
}

/* Returns the peer that passed the checks before, locked. NULL: either end has changed since, or
 * the peer is locked. */
static inline struct hca_qp *hca_direct_known(const struct hca_qp *qp)
{
	if (!qp->peer || qp->own_changes != qp->changes)
		return NULL;
	struct hca_qp *peer = hca_slab_at(&hca_world()->qp, qp->peer - 1);

	if (!hca_try_lock(&peer->item.lock))
		return NULL;
	if (LIKELY(hca_qp_is(peer, qp->peer_generation) && peer->changes == qp->peer_changes))
		return peer;
	hca_unlock(&peer->item.lock);
	return NULL;
}

/* Finds the peer in the port's table, checks it and remembers it. Returns it locked, or NULL. */
static struct hca_qp *hca_direct_meet(struct hca_qp *qp)
{
	struct hca_qp *peer =
		hca_direct_fits(qp) ? hca_qp_try_number(qp->dest_port, qp->dest_qpn) : NULL;

	if (!peer)
		return NULL;
	ASSERT(peer != qp); /* its own lock is taken */
	if (hca_direct_fits_peer(qp, peer)) {
		qp->peer = peer->item.index + 1;
		qp->peer_generation = peer->item.generation;
		qp->peer_changes = peer->changes;
		qp->own_changes = qp->changes;
		return peer;
	}
	hca_unlock(&peer->item.lock);
	return NULL;
}

/* True if the queue pair has no work under way. */
static inline bool hca_direct_is_idle(const struct hca_qp *qp)
{
	return qp->sq.next == qp->sq.done && qp->req.psn_una == qp->req.psn_max &&
	       !qp->req.rnr_wait && !qp->req.offset;
}

/* True if the fabric's link is up. The state in the HCA's port lags, because an event updates
 * it. */
static bool hca_direct_link(uint32_t port)
{
	return __atomic_load_n(&world_port(port)->up, __ATOMIC_ACQUIRE);
}

/* True if the peer lives, can be reached, and expects our next packet. */
static inline bool hca_direct_is_expected(const struct hca_qp *qp, const struct hca_qp *peer)
{
	return peer->resp.psn == qp->req.psn_next && !peer->resp.receiving &&
	       hca_is_alive(peer->item.proc) &&
	       (peer->port == qp->port ||
		(hca_direct_link(qp->port) && hca_direct_link(peer->port)));
}

/* Returns the peer, locked, if every condition of the fast path holds. NULL: use the packet
 * path. */
static inline __attribute__((always_inline)) struct hca_qp *hca_direct_begin(struct hca_qp *qp)
{
	if (!sim_is_plain() || !hca_direct_is_idle(qp))
		return NULL;
	struct hca_qp *peer = hca_direct_known(qp);

	if (UNLIKELY(!peer))
		peer = hca_direct_meet(qp);
	if (!peer || hca_direct_is_expected(qp, peer))
		return peer;
	hca_unlock(&peer->item.lock);
	return NULL;
}

/* ---- requests ------------------------------------------------------------------------------- */

/* A request with at most one buffer. */
struct hca_direct_ask {
	uint32_t opcode, flags, rkey, imm;
	uint64_t remote_address, bytes;
	const struct ibv_sge *sge; /* NULL: inline, or no bytes */
	const void *data;          /* inline */
};

/* Reads a request of the program. False: the request needs more checks, which hca_post_stage
 * does. */
static inline bool hca_direct_ask_of_program(const struct hca_qp *qp, const struct ibv_send_wr *wr,
					     struct hca_direct_ask *ask)
{
	const unsigned int known =
		IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;
	bool inlined = wr->send_flags & IBV_SEND_INLINE;

	if (wr->opcode > IBV_WR_RDMA_READ || (wr->send_flags & ~known) || wr->num_sge < 0 ||
	    (uint32_t)wr->num_sge > MIN_OF(qp->sq.sge_max, 1u))
		return false;
	uint64_t bytes = wr->num_sge ? wr->sg_list->length : 0;

	*ask = (struct hca_direct_ask){
		.opcode = wr->opcode,
		.flags = wr->send_flags,
		.rkey = wr->wr.rdma.rkey,
		.imm = wr->imm_data,
		.remote_address = wr->wr.rdma.remote_addr,
		.bytes = bytes,
		.sge = bytes && !inlined ? wr->sg_list : NULL,
		.data = bytes ? (const void *)(uintptr_t)wr->sg_list->addr : NULL,
	};
	return !inlined || (bytes <= qp->sq.inline_max && wr->opcode != IBV_WR_RDMA_READ);
}

static bool hca_direct_ask_of_slot(struct hca_wqe *e, struct hca_direct_ask *ask)
{
	bool inlined = e->flags & IBV_SEND_INLINE;

	*ask = (struct hca_direct_ask){
		.opcode = e->opcode,
		.flags = e->flags,
		.rkey = e->rkey,
		.imm = e->imm,
		.remote_address = e->remote_address,
		.bytes = e->bytes,
		.sge = e->bytes && !inlined ? hca_wqe_sges(e) : NULL,
		.data = e + 1,
	};
	return !e->started && !e->status && (!ask->sge || e->sge_count == 1);
}

/* Finds the one buffer of a request: inline, or a single entry of plain host memory. */
static bool hca_direct_local(const struct hca_qp *qp, const struct hca_direct_ask *ask,
			     uint32_t access, struct hca_direct_place *at, const void **data)
{
	*data = ask->data;
	if (!ask->sge)
		return true;
	if (!hca_direct_hold(at, qp->pd, ask->sge->lkey, ask->sge->addr, ask->bytes, access))
		return false;
	*data = hca_direct_address(at);
	return true;
}

/* Writes a few bytes into plain memory of this process, under the region's lock, which is faster
 * than holding the region. False: not such memory, or not allowed; nothing was written. */
static inline __attribute__((always_inline)) bool
hca_direct_put_few(uint32_t pd, uint32_t key, uint64_t iova, const void *data, uint64_t bytes,
		   uint32_t access)
{
	struct hca_mr *mr = hca_mr_at(key);

	if (!mr)
		return false;
	hca_lock(&mr->item.lock);
	bool ok = hca_mr_allows(mr, pd, key, iova, bytes, access) && mr->kind == HCA_MR_MEMORY &&
		  !mr->gpu && hca_is_here(mr->item.proc);
	uint8_t *at = (uint8_t *)(uintptr_t)(mr->address + (iova - mr->iova));

	if (ok) {
		hca_check_wrote(mr, (uintptr_t)at, bytes);
		hca_host_write(at, data, bytes);
	}
	hca_unlock(&mr->item.lock);
	if (ok && UNLIKELY(sim_words_are_watched()))
		sim_wrote(at, bytes);
	return ok;
}

static bool hca_direct_put_many(uint32_t pd, uint32_t key, uint64_t iova, const void *data,
				uint64_t bytes, uint32_t access)
{
	struct hca_direct_place to;

	if (!hca_direct_hold(&to, pd, key, iova, bytes, access))
		return false;
	int rc = hca_mr_write(to.mr, to.iova, data, bytes);

	hca_mr_release(to.mr);
	return rc == 0;
}

/* Writes the bytes to the peer's memory. */
static inline __attribute__((always_inline)) bool hca_direct_put(uint32_t pd, uint32_t key,
								 uint64_t iova, const void *data,
								 uint64_t bytes, uint32_t access)
{
	if (!bytes)
		return true;
	return (bytes <= HCA_DIRECT_FEW &&
		hca_direct_put_few(pd, key, iova, data, bytes, access)) ||
	       hca_direct_put_many(pd, key, iova, data, bytes, access);
}

static inline __attribute__((always_inline)) bool
hca_direct_write(const struct hca_qp *peer, const struct hca_direct_ask *ask, const void *data)
{
	return (peer->access & IBV_ACCESS_REMOTE_WRITE) &&
	       hca_direct_put(peer->pd, ask->rkey, ask->remote_address, data, ask->bytes,
			      IBV_ACCESS_REMOTE_WRITE);
}

static bool hca_direct_read(const struct hca_qp *qp, const struct hca_qp *peer,
			    const struct hca_direct_ask *ask, const struct hca_direct_place *local)
{
	struct hca_direct_place from;

	if (!(peer->access & IBV_ACCESS_REMOTE_READ) || !peer->max_dest_rd_atomic ||
	    !qp->max_rd_atomic)
		return false;
	ASSERT(!ask->bytes || local->mr); /* a READ is never inline */
	if (!ask->bytes)
		return true;
	if (!hca_direct_hold(&from, peer->pd, ask->rkey, ask->remote_address, ask->bytes,
			     IBV_ACCESS_REMOTE_READ))
		return false;
	/* the source may need the kernel or a window; the destination is plain memory here */
	int rc = hca_is_here(from.mr->item.proc)
			 ? hca_mr_write(local->mr, local->iova, hca_direct_address(&from),
					ask->bytes)
			 : hca_mr_read(from.mr, from.iova,
				       (void *)(uintptr_t)hca_direct_address(local), ask->bytes);

	hca_mr_release(from.mr);
	return rc == 0;
}

/* Writes into the peer's next receive, if that has one entry with room. */
static bool hca_direct_send(const struct hca_qp *peer, const struct hca_direct_ask *ask,
			    const void *data)
{
	if (peer->srq || peer->rq.done == peer->rq.head)
		return false;
	struct hca_wqe *receive = hca_wqe_at(&peer->rq, peer->rq.done);
	const struct ibv_sge *sge = hca_wqe_sges(receive);

	if (ask->bytes > receive->bytes || (ask->bytes && receive->sge_count != 1))
		return false;
	return hca_direct_put(peer->recv_pd, sge->lkey, sge->addr, data, ask->bytes,
			      IBV_ACCESS_LOCAL_WRITE);
}

/* Completes the peer's receive, as the last packet of the message would do. */
static void hca_direct_received(struct hca_qp *peer, const struct hca_direct_ask *ask)
{
	bool imm = ask->opcode == IBV_WR_RDMA_WRITE_WITH_IMM || ask->opcode == IBV_WR_SEND_WITH_IMM;
	bool write = ask->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	const struct hca_packet last = {
		.kind = write ? HCA_WRITE : HCA_SEND,
		.flags = HCA_LAST | (imm ? HCA_IMM : 0) |
			 (ask->flags & IBV_SEND_SOLICITED ? HCA_SOLICITED : 0),
		.imm = ask->imm};

	hca_recv_complete(peer, IBV_WC_SUCCESS, &last, ask->bytes);
}

static inline bool hca_direct_is_too_long(const struct hca_qp *qp, uint64_t bytes)
{
	return UNLIKELY(bytes > HCA_ANY_MESSAGE_BYTES) &&
	       bytes > hca_personality(qp->port)->max_message_bytes;
}

static bool hca_direct_carry_any(struct hca_qp *qp, struct hca_qp *peer,
				 const struct hca_direct_ask *ask)
{
	struct hca_direct_place local = {.mr = NULL};
	const void *data;
	bool read = ask->opcode == IBV_WR_RDMA_READ, done = false;

	if (!hca_direct_local(qp, ask, read ? IBV_ACCESS_LOCAL_WRITE : 0, &local, &data))
		return false;
	switch (ask->opcode) {
	case IBV_WR_RDMA_WRITE:
		done = hca_direct_write(peer, ask, data);
		break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		done = !peer->srq && peer->rq.done != peer->rq.head &&
		       hca_direct_write(peer, ask, data);
		break;
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
		done = hca_direct_send(peer, ask, data);
		break;
	case IBV_WR_RDMA_READ:
		done = hca_direct_read(qp, peer, ask, &local);
		break;
	default:
		break;
	}
	if (local.mr)
		hca_mr_release(local.mr);
	if (done && ask->opcode != IBV_WR_RDMA_WRITE && !read)
		hca_direct_received(peer, ask);
	return done;
}

static inline __attribute__((always_inline)) bool
hca_direct_carry(struct hca_qp *qp, struct hca_qp *peer, const struct hca_direct_ask *ask)
{
	if (hca_direct_is_too_long(qp, ask->bytes))
		return false;
	if (ask->opcode == IBV_WR_RDMA_WRITE && !ask->sge) /* the fastest case */
		return hca_direct_write(peer, ask, ask->data);
	return hca_direct_carry_any(qp, peer, ask);
}

static inline void hca_direct_count_way(struct hca_qp *from, struct hca_qp *to, uint64_t packets,
					uint64_t bytes)
{
	hca_qp_count(from, HCA_SENT_PACKETS, packets);
	hca_qp_count(from, HCA_SENT_BYTES, bytes);
	hca_qp_count(to, HCA_RECEIVED_PACKETS, packets);
	hca_qp_count(to, HCA_RECEIVED_BYTES, bytes);
}

/* Counts the packets that the request replaces: the message, and a READ's request or the
 * acknowledge. */
static inline void hca_direct_count(struct hca_qp *qp, struct hca_qp *peer, uint32_t opcode,
				    uint64_t packets, uint64_t bytes)
{
	uint64_t wire = packets * HCA_HEADER_BYTES + HCA_RETH_BYTES + bytes;

	if (opcode == IBV_WR_RDMA_READ) {
		hca_qp_count(peer, HCA_RECEIVED_READS, 1);
		hca_direct_count_way(qp, peer, 1, HCA_HEADER_BYTES + HCA_RETH_BYTES);
		hca_direct_count_way(peer, qp, packets, wire);
		return;
	}
	if (opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		hca_qp_count(peer, HCA_RECEIVED_WRITES, 1);
	hca_direct_count_way(qp, peer, packets, wire);
	hca_direct_count_way(peer, qp, 1, HCA_ACK_BYTES);
}

/* Advances both ends as the packets would do. */
static inline void hca_direct_advance(struct hca_qp *qp, struct hca_qp *peer,
				      const struct hca_direct_ask *ask)
{
	uint64_t bytes = ask->bytes;
	uint32_t packets =
		bytes <= qp->mtu_bytes ? 1 : (uint32_t)DIV_UP(bytes, (uint64_t)qp->mtu_bytes);

	ASSERT(peer->resp.psn == qp->req.psn_next);
	hca_direct_count(qp, peer, ask->opcode, packets, bytes);
	qp->req.psn_next = hca_psn_add(qp->req.psn_next, packets);
	qp->req.psn_una = qp->req.psn_max = qp->req.psn_next;
	peer->resp.psn = qp->req.psn_next;
	peer->resp.nak_sent = 0;
}

/* Fills the slot of an executed request, as far as its completion and the sanitizer read it. */
static inline void hca_direct_fill_slot(struct hca_qp *qp, uint64_t wr_id,
					const struct hca_direct_ask *ask)
{
	struct hca_wqe *e = hca_wqe_at(&qp->sq, qp->sq.head++);

	e->wr_id = wr_id;
	e->bytes = ask->bytes;
	e->opcode = ask->opcode;
	e->flags = ask->flags;
	e->started = e->check_noted = 0;
	e->caller = qp->caller;
	hca_account_post(&qp->sq, e, "send");
}

struct ibv_send_wr *hca_direct_post(struct hca_qp *qp, struct ibv_send_wr *wr)
{
	struct hca_qp *peer = qp->sq.next == qp->sq.head ? hca_direct_begin(qp) : NULL;
	struct hca_direct_ask ask;

	if (!peer)
		return wr;
	while (wr && hca_queue_has_slot(&qp->sq) && hca_direct_ask_of_program(qp, wr, &ask) &&
	       hca_direct_carry(qp, peer, &ask)) {
		hca_direct_advance(qp, peer, &ask);
		hca_direct_fill_slot(qp, wr->wr_id, &ask);
		hca_send_complete(qp, IBV_WC_SUCCESS);
		qp->refused = 0;
		wr = wr->next;
	}
	hca_unlock(&peer->item.lock);
	return wr;
}

void hca_direct(struct hca_qp *qp)
{
	struct hca_qp *peer = qp->sq.next != qp->sq.head ? hca_direct_begin(qp) : NULL;
	struct hca_direct_ask ask;

	if (!peer)
		return;
	while (qp->sq.next != qp->sq.head &&
	       hca_direct_ask_of_slot(hca_wqe_at(&qp->sq, qp->sq.next), &ask) &&
	       hca_direct_carry(qp, peer, &ask)) {
		hca_direct_advance(qp, peer, &ask);
		hca_send_complete(qp, IBV_WC_SUCCESS);
	}
	hca_unlock(&peer->item.lock);
}
