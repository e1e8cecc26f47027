/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data that is visible before its message is complete. An HCA writes a burst in pieces, before it
 * acknowledges or completes it. A poller of memory may see some pieces early.
 *
 * 	burst arrives -> some pieces land ... delay ... all of it lands, completion, acknowledge
 *
 * The packet is kept meanwhile. Its event delivers it, or the next packet for its queue pair does.
 * Order of packets, checks and answers are the same as without. Bytes that land twice are the same.
 * Small writes are exempt: they land as a whole, last word last, unless their region has relaxed
 * ordering.
 *
 * Engine `sim`, in the seeds with the memory-order adversary (docs/sim/memory-order.md). In half of
 * those, pieces land in order, as over a bus that keeps order: the early part of a burst is its
 * beginning. In the others, and always in regions of relaxed ordering, the pieces are from
 * anywhere.
 *
 * DOPPEL_HCA_ORDER=completion: an acknowledge makes no data visible at the far end. This is what
 * the specification guarantees. Only a receive's completion, of this message or a later one of its
 * queue pair, or a later atomic makes data visible. Most programs rely on more; `draw` applies it
 * in half of the seeds.
 */
#include "backends/fakeverbs/transport/transport.h"

#define HCA_EARLY_DRAWS  4u
#define HCA_EARLY_DELAYS 8u
#define HCA_EARLY_NS     64ull
#define HCA_EARLY_PIECES 3
#define HCA_EARLY_LINE   128u
#define HCA_EARLY_WORD   8u

/* ---- pieces --------------------------------------------------------------------------------- */

/* Target of a burst: a region, or the scatter list of a request. */
struct hca_partial_target {
	struct hca_mr *mr;
	struct hca_wqe *wqe;
	uint32_t pd;
	uint64_t at; /* address in the key's terms; offset in the list */
};

static void hca_partial_put(const struct hca_partial_target *to, const struct hca_packet *p,
			    uint32_t from, uint32_t bytes)
{
	const uint8_t *data = hca_packet_data(p) + from;

	ASSERT(from + bytes <= p->bytes);
	if (to->mr)
		(void)hca_mr_write(to->mr, to->at + from, data, bytes);
	else
		(void)hca_sges_write(to->pd, hca_wqe_sges(to->wqe), to->wqe->sge_count,
				     to->at + from, data, bytes);
}

/* Returns the bytes that land as a whole. A small write lands early only in a region of relaxed
 * ordering, in words. */
static uint32_t hca_partial_unit(const struct hca_qp *qp, const struct hca_packet *p)
{
	if (p->bytes <= HCA_WORDWISE_BYTES)
		return HCA_EARLY_WORD;
	return p->bytes > 2 * qp->mtu_bytes ? qp->mtu_bytes : HCA_EARLY_LINE;
}

static void hca_partial_pieces(const struct hca_qp *qp, const struct hca_partial_target *to,
			       const struct hca_packet *p, bool anywhere)
{
	uint32_t unit = hca_partial_unit(qp, p);
	uint32_t units = DIV_UP(p->bytes, unit);
	int pieces = anywhere ? HCA_EARLY_PIECES : 1;

	for (int i = 0; i < pieces; i++) {
		uint32_t first = anywhere ? sim_choose("hca.early_from", units) : 0;
		ASSERT(first < units);
		uint32_t n = 1 + sim_choose("hca.early_units", units - first);
		uint32_t end = MIN_OF((first + n) * unit, p->bytes);

		/* a poller looks at the end */
		if (anywhere && i == 0 && sim_choose("hca.early_end", 2)) {
			first = units - 1;
			end = p->bytes;
		}
		hca_partial_put(to, p, first * unit, end - first * unit);
	}
	os_trace("hca.early", hca_qp_id(qp), p->psn, p->bytes);
}

/* ---- eligible packets ----------------------------------------------------------------------- */

static bool hca_partial_write(struct hca_qp *qp, const struct hca_packet *p)
{
	uint64_t at = p->remote_address;
	bool in_order = p->psn == qp->resp.psn && (qp->access & IBV_ACCESS_REMOTE_WRITE);
	bool no_receive = (p->flags & HCA_IMM) && qp->rq.done == qp->rq.head;
	struct hca_mr *mr = in_order && !no_receive ? hca_remote_hold(qp, p->rkey, &at, p->total,
								      IBV_ACCESS_REMOTE_WRITE)
						    : NULL;

	if (!mr)
		return false;
	bool relaxed = mr->access & IBV_ACCESS_RELAXED_ORDERING;
	bool yes = relaxed || p->bytes > HCA_WORDWISE_BYTES;
	const struct hca_partial_target to = {.mr = mr, .at = at + p->offset};

	if (yes)
		hca_partial_pieces(qp, &to, p, relaxed || hca_world()->shuffled);
	hca_mr_release(mr);
	return yes;
}

static bool hca_partial_send(struct hca_qp *qp, const struct hca_packet *p)
{
	const struct hca_responder *r = &qp->resp;
	uint64_t offset = p->flags & HCA_FIRST ? 0 : r->received;

	if (p->psn != r->psn || qp->rq.done == qp->rq.head || offset != p->offset)
		return false;
	struct hca_wqe *e = hca_wqe_at(&qp->rq, qp->rq.done);
	const struct hca_partial_target to = {.wqe = e, .pd = qp->recv_pd, .at = offset};

	if (offset + p->bytes > e->bytes ||
	    hca_sges_check(qp->recv_pd, hca_wqe_sges(e), e->sge_count, IBV_ACCESS_LOCAL_WRITE))
		return false;
	mem_acquire(e);
	hca_partial_pieces(qp, &to, p, hca_world()->shuffled);
	return true;
}

static bool hca_partial_response(struct hca_qp *qp, const struct hca_packet *p)
{
	if (qp->sq.done == qp->sq.next || p->psn != qp->req.psn_una)
		return false;
	struct hca_wqe *e = hca_wqe_at(&qp->sq, qp->sq.done);

	if (e->opcode != IBV_WR_RDMA_READ || !e->started)
		return false;
	uint64_t offset = (uint64_t)(uint32_t)hca_psn_diff(p->psn, e->psn) * qp->mtu_bytes;
	const struct hca_partial_target to = {.wqe = e, .pd = qp->pd, .at = offset};

	hca_partial_pieces(qp, &to, p, hca_world()->shuffled);
	return true;
}

static bool hca_partial_lands(struct hca_qp *qp, const struct hca_packet *p)
{
	mem_as(p->kind == HCA_RESPONSE ? hca_qp_requester(qp) : hca_qp_responder(qp));
	mem_acquire(p);
	switch ((enum hca_packet_kind)p->kind) {
	case HCA_WRITE:
		return hca_partial_write(qp, p);
	case HCA_SEND:
		return p->bytes > HCA_WORDWISE_BYTES && hca_partial_send(qp, p);
	case HCA_RESPONSE:
		return p->bytes > HCA_WORDWISE_BYTES && hca_partial_response(qp, p);
	default:
		return false;
	}
}

/* ---- keeping the packet --------------------------------------------------------------------- */

void hca_partial_settle(struct hca_qp *qp)
{
	if (!qp->partial_packet)
		return;
	struct hca_packet *p = hca_slab_at(&hca_world()->packet, qp->partial_packet - 1);

	qp->partial_packet = 0;
	hca_packet_deliver(qp, p);
	hca_packet_free(p);
}

static void hca_partial_due(void *object, uint64_t arg)
{
	struct hca_qp *qp = hca_qp_lock_reference(object, (uint32_t)(arg >> 32));

	if (!qp)
		return;
	if (qp->partial_number == (uint32_t)arg)
		hca_partial_settle(qp);
	hca_unlock(&qp->item.lock);
}

bool hca_partial_keep(struct hca_qp *qp, struct hca_packet *p)
{
	hca_partial_settle(qp);
	ASSERT(!qp->partial_packet);
	if (!hca_world()->early || !p->bytes || !p->buffer || qp->type == IBV_QPT_UD || qp->srq ||
	    !hca_packet_fits(qp, p) || !sim_choose("hca.early", HCA_EARLY_DRAWS) ||
	    !hca_partial_lands(qp, p))
		return false;
	uint32_t draw = sim_choose("hca.early_delay", HCA_EARLY_DELAYS);
	const struct sim_event_attr attr = {
		.name = "hca.early", .kind = SIM_EVENT_WORK, .delay_ns = HCA_EARLY_NS << draw};

	qp->partial_packet = p->item.index + 1;
	qp->partial_number++;
	sim_event_post(&attr, hca_partial_due, qp,
		       (uint64_t)qp->item.generation << 32 | qp->partial_number, NULL);
	return true;
}
