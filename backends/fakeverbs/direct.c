/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The short way, under `threads`: a request of a reliable connection whose peer can take it whole at
 * this moment is executed by the poster, from memory to memory, without packets and events. Nobody
 * can tell: both ends are locked meanwhile, and everything that is not as on a good day (something
 * under way, a fault plan, a trace, a link that is down, a key that does not fit, no receive) is left
 * to the long way of requester.c and responder.c, which finds and reports it. What both must agree on
 * when they take turns is kept: packet numbers, receives, completions in order.
 *
 * Two queue pairs are locked here, the poster's first. The other is only tried, so that two posters
 * who mean each other do not wait.
 */
#include "backends/fakeverbs/hca.h"
#include "backends/fakeverbs/personality.h"

/* A place in memory, found and held until hca_direct_release. */
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
	return (const void *)(uintptr_t)(at->mr->address + (at->iova - at->mr->iova));
}

/* ---- who can -------------------------------------------------------------------------------- */

/* The fabric's own word: what the HCA's port knows of it comes by an event. */
static bool hca_direct_link(uint32_t port)
{
	return __atomic_load_n(&world_port(port)->up, __ATOMIC_ACQUIRE);
}

static bool hca_direct_path(const struct hca_qp *qp)
{
	if (qp->dest_port >= fakeverbs.world->ports)
		return false;
	return qp->dest_port == qp->port ||
	       (hca_direct_link(qp->port) && hca_direct_link(qp->dest_port));
}

static bool hca_direct_idle(const struct hca_qp *qp)
{
	return qp->type == IBV_QPT_RC && qp->state == IBV_QPS_RTS && qp->sq.next == qp->sq.done &&
	       qp->req.psn_una == qp->req.psn_max && !qp->req.rnr_wait && !qp->req.offset &&
	       !qp->pkey_index;
}

/* The number's queue pair, locked: where it was the last time, or by the port's table. */
static struct hca_qp *hca_direct_find(struct hca_qp *qp)
{
	struct hca_qp *peer = qp->peer ? hca_slab_at(&hca_world()->qp, qp->peer - 1) : NULL;
	uint32_t generation = qp->peer_generation;

	if (peer && __atomic_load_n(&peer->item.generation, __ATOMIC_ACQUIRE) == generation &&
	    hca_try_lock(&peer->item.lock)) {
		if (__atomic_load_n(&peer->item.generation, __ATOMIC_ACQUIRE) == generation &&
		    peer->sq.ring && peer->number == qp->dest_qpn && peer->port == qp->dest_port)
			return peer;
		hca_unlock(&peer->item.lock);
	}
	peer = hca_qp_try_number(qp->dest_port, qp->dest_qpn);
	if (!peer)
		return NULL;
	qp->peer = peer->item.index + 1;
	qp->peer_generation = peer->item.generation;
	return peer;
}

/* Locked, and expecting our next packet; NULL: the long way. */
static struct hca_qp *hca_direct_peer(struct hca_qp *qp)
{
	struct hca_qp *peer = hca_direct_find(qp);

	if (!peer)
		return NULL;
	const struct hca_responder *r = &peer->resp;

	if (hca_is_alive(peer->item.proc) && peer->type == IBV_QPT_RC &&
	    peer->dest_port == qp->port && !peer->pkey_index &&
	    hca_pkey_match(hca_pkey_get(qp->port, 0), hca_pkey_get(peer->port, 0)) &&
	    peer->dest_qpn == qp->number && r->psn == qp->req.psn_next && !r->receiving &&
	    (peer->state == IBV_QPS_RTS || (peer->state == IBV_QPS_RTR && r->established)))
		return peer;
	hca_unlock(&peer->item.lock);
	return NULL;
}

/* ---- what ----------------------------------------------------------------------------------- */

/* The one buffer of a request: inline, or a single entry of plain host memory. */
static bool hca_direct_local(const struct hca_qp *qp, const struct hca_wqe *e, uint32_t access,
			     struct hca_direct_place *at, const void **data)
{
	*at = (struct hca_direct_place){.mr = NULL};
	*data = e + 1;
	if (!e->bytes || (e->flags & IBV_SEND_INLINE))
		return true;
	const struct ibv_sge *sge = hca_wqe_sges((struct hca_wqe *)(uintptr_t)e);

	if (e->sge_count != 1 ||
	    !hca_direct_hold(at, qp->pd, sge->lkey, sge->addr, sge->length, access))
		return false;
	*data = hca_direct_address(at);
	return true;
}

static bool hca_direct_write(struct hca_qp *peer, const struct hca_wqe *e, const void *data)
{
	struct hca_direct_place to;

	if (!(peer->access & IBV_ACCESS_REMOTE_WRITE))
		return false;
	if (!e->bytes)
		return true;
	if (!hca_direct_hold(&to, peer->pd, e->rkey, e->remote_address, e->bytes,
			     IBV_ACCESS_REMOTE_WRITE))
		return false;
	int rc = hca_mr_write(to.mr, to.iova, data, e->bytes);

	hca_mr_release(to.mr);
	return rc == 0;
}

static bool hca_direct_read(struct hca_qp *qp, struct hca_qp *peer, const struct hca_wqe *e,
			    struct hca_direct_place *local)
{
	struct hca_direct_place from;

	if (!(peer->access & IBV_ACCESS_REMOTE_READ) || !peer->max_dest_rd_atomic ||
	    !qp->max_rd_atomic)
		return false;
	if (!e->bytes)
		return true;
	if (!hca_direct_hold(&from, peer->pd, e->rkey, e->remote_address, e->bytes,
			     IBV_ACCESS_REMOTE_READ))
		return false;
	/* from where the kernel or a window has to help, to plain memory here */
	int rc = hca_is_here(from.mr->item.proc)
			 ? hca_mr_write(local->mr, local->iova, hca_direct_address(&from), e->bytes)
			 : hca_mr_read(from.mr, from.iova,
				       (void *)(uintptr_t)hca_direct_address(local), e->bytes);

	hca_mr_release(from.mr);
	return rc == 0;
}

/* Into the peer's next receive, if that has one entry with room. */
static bool hca_direct_send(struct hca_qp *peer, const struct hca_wqe *e, const void *data)
{
	struct hca_direct_place to;

	if (peer->srq || peer->rq.done == peer->rq.head)
		return false;
	struct hca_wqe *receive = hca_wqe_at(&peer->rq, peer->rq.done);
	const struct ibv_sge *sge = hca_wqe_sges(receive);

	if (e->bytes > receive->bytes)
		return false;
	if (!e->bytes)
		return true;
	if (receive->sge_count != 1 || !hca_direct_hold(&to, peer->recv_pd, sge->lkey, sge->addr,
							e->bytes, IBV_ACCESS_LOCAL_WRITE))
		return false;
	int rc = hca_mr_write(to.mr, to.iova, data, e->bytes);

	hca_mr_release(to.mr);
	return rc == 0;
}

/* The peer's side of the completion, as the last packet of the message would have brought it. */
static void hca_direct_received(struct hca_qp *peer, const struct hca_wqe *e)
{
	bool imm = e->opcode == IBV_WR_RDMA_WRITE_WITH_IMM || e->opcode == IBV_WR_SEND_WITH_IMM;
	bool write = e->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	const struct hca_packet last = {.kind = write ? HCA_WRITE : HCA_SEND,
					.flags =
						HCA_LAST | (imm ? HCA_IMM : 0) |
						(e->flags & IBV_SEND_SOLICITED ? HCA_SOLICITED : 0),
					.imm = e->imm};

	hca_recv_complete(peer, IBV_WC_SUCCESS, &last, e->bytes);
}

static bool hca_direct_carry(struct hca_qp *qp, struct hca_qp *peer, const struct hca_wqe *e)
{
	struct hca_direct_place local;
	const void *data;
	bool read = e->opcode == IBV_WR_RDMA_READ, done = false;

	if (e->bytes > hca_personality(qp->port)->max_message_bytes ||
	    !hca_direct_local(qp, e, read ? IBV_ACCESS_LOCAL_WRITE : 0, &local, &data))
		return false;
	switch (e->opcode) {
	case IBV_WR_RDMA_WRITE:
		done = hca_direct_write(peer, e, data);
		break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		done = !peer->srq && peer->rq.done != peer->rq.head &&
		       hca_direct_write(peer, e, data);
		break;
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
		done = hca_direct_send(peer, e, data);
		break;
	case IBV_WR_RDMA_READ:
		done = hca_direct_read(qp, peer, e, &local);
		break;
	default:
		break;
	}
	if (local.mr)
		hca_mr_release(local.mr);
	if (done && e->opcode != IBV_WR_RDMA_WRITE && !read)
		hca_direct_received(peer, e);
	return done;
}

void hca_direct(struct hca_qp *qp)
{
	if (!sim_is_plain() || !hca_world()->port[qp->port].short_way || !hca_direct_idle(qp) ||
	    !hca_direct_path(qp))
		return;
	struct hca_qp *peer = hca_direct_peer(qp);

	if (!peer)
		return;
	while (qp->sq.next != qp->sq.head) {
		struct hca_wqe *e = hca_wqe_at(&qp->sq, qp->sq.next);

		if (e->started || e->status || !hca_direct_carry(qp, peer, e))
			break;
		uint32_t packets = e->bytes ? (uint32_t)DIV_UP(e->bytes, qp->mtu_bytes) : 1;

		qp->req.psn_next = hca_psn_add(qp->req.psn_next, packets);
		qp->req.psn_una = qp->req.psn_max = qp->req.psn_next;
		peer->resp.psn = qp->req.psn_next;
		peer->resp.nak_sent = 0;
		hca_send_complete(qp, IBV_WC_SUCCESS);
	}
	hca_unlock(&peer->item.lock);
}
