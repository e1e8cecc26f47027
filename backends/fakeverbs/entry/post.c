/* SPDX-License-Identifier: BSD-3-Clause */
/* Posting: checks a chain of work requests one by one and puts each into its queue. The first bad
 * one is returned, with everything before it posted. Sends are refused before RTS and receives
 * before INIT, as the specification requires. If the HCA's personality does not check the state,
 * they wait. */
#include <errno.h>

#include "backends/fakeverbs/entry/entry.h"

/* Checks a datagram's address handle, which must be of the same HCA. */
static int hca_post_check_address(const struct hca_qp *qp, const struct ibv_send_wr *wr)
{
	const struct hca_ah_handle *ah = (const struct hca_ah_handle *)wr->wr.ud.ah;

	if (qp->type != IBV_QPT_UD)
		return 0;
	if (!ah || hca_is_dead(&ah->head, HCA_KIND_AH))
		return hca_bad_handle(ah, HCA_KIND_AH, "ibv_post_send", qp->caller);
	if (wr->wr.ud.remote_qpn > HCA_PSN_MASK && hca_personality(qp->port)->datagram_qpn_checked)
		return EINVAL;
	return ah->hca->port == qp->port ? 0 : EINVAL;
}

/* Checks of a library that inspects atomics (personality.h, atomics_checked). */
static int hca_post_check_atomic(const struct ibv_send_wr *wr)
{
	uint64_t bytes = 0;

	for (int i = 0; i < wr->num_sge; i++)
		bytes += wr->sg_list[i].length;
	return bytes >= sizeof(uint64_t) && wr->wr.atomic.remote_addr % sizeof(uint64_t) == 0
		       ? 0
		       : EINVAL;
}

static bool hca_opcode_is_atomic(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static int hca_post_check_opcode(const struct hca_qp *qp, const struct ibv_send_wr *wr)
{
	if (!hca_opcode_fits((enum ibv_qp_type)qp->type, wr->opcode) &&
	    hca_personality(qp->port)->opcode_checked) {
		hca_log("ibv_post_send: qp 0x%x: its type has no opcode %d", qp->number,
			(int)wr->opcode);
		return EINVAL;
	}
	int inlined =
		(wr->send_flags & IBV_SEND_INLINE) && hca_personality(qp->port)->inline_checked
			? EINVAL
			: 0;

	switch (wr->opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
		return 0;
	case IBV_WR_RDMA_READ:
		return inlined;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		if (hca_world()->port[qp->port].atomic_cap == IBV_ATOMIC_NONE)
			return EOPNOTSUPP;
		return inlined || hca_personality(qp->port)->atomics_checked
			       ? inlined
			       : hca_post_check_atomic(wr);
	case IBV_WR_ATOMIC_WRITE:
		return hca_world()->port[qp->port].atomic_cap == IBV_ATOMIC_NONE ? EOPNOTSUPP : 0;
	case IBV_WR_SEND_WITH_INV:
		return 0;
	case IBV_WR_LOCAL_INV:
		return wr->send_flags & IBV_SEND_INLINE ? EINVAL : 0;
	case IBV_WR_BIND_MW:
		return hca_post_check_bind(qp, wr);
	case IBV_WR_TSO:
		hca_log("ibv_post_send: qp 0x%x: opcode %d: not supported by this HCA", qp->number,
			(int)wr->opcode);
		return EOPNOTSUPP;
	default:
		return EINVAL;
	}
}

int hca_post_check_state(const struct hca_qp *qp)
{
	if (qp->type == IBV_QPT_XRC_RECV) {
		hca_log("ibv_post_send: qp 0x%x is the target's half, which sends nothing",
			qp->number);
		return EINVAL;
	}
	if (qp->state >= IBV_QPS_RTS || hca_personality(qp->port)->post_early)
		return 0;
	hca_log("ibv_post_send: qp 0x%x is not in RTS", qp->number);
	return EINVAL;
}

/* Returns the request's flags. Without INLINE for a READ or an atomic: they send no data, so the
 * flag has no meaning where it is accepted. */
static unsigned int hca_post_flags(const struct ibv_send_wr *wr)
{
	bool answered = wr->opcode == IBV_WR_RDMA_READ || wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
			wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;

	return wr->send_flags & (answered ? ~(unsigned int)IBV_SEND_INLINE : ~0u);
}

static int hca_post_check_send(const struct hca_qp *qp, const struct ibv_send_wr *wr,
			       uint64_t *bytes)
{
	const unsigned int flags =
		IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;
	struct hca_site at;

	int rc = hca_post_check_state(qp);

	if (!rc)
		rc = hca_post_check_opcode(qp, wr);
	if (!rc)
		rc = hca_post_check_address(qp, wr);
	if (rc)
		return rc;
	if (wr->opcode == IBV_WR_BIND_MW || wr->opcode == IBV_WR_LOCAL_INV) {
		*bytes = 0;
		return 0;
	}
	if (wr->send_flags & ~flags)
		return EINVAL;
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->sq.sge_max) {
		hca_log("ibv_post_send: qp 0x%x: %d scatter entries, at most %u", qp->number,
			wr->num_sge, qp->sq.sge_max);
		return EINVAL;
	}
	*bytes = 0;
	for (int i = 0; i < wr->num_sge; i++)
		*bytes += wr->sg_list[i].length;
	if (!(hca_post_flags(wr) & IBV_SEND_INLINE) || *bytes <= qp->sq.inline_max)
		return 0;
	hca_check(HCA_RULE_INLINE, qp->caller,
		  "ibv_post_send at %s: qp 0x%x: %llu bytes inline, at most %u",
		  hca_site(qp->item.proc, qp->caller, &at), qp->number, (unsigned long long)*bytes,
		  qp->sq.inline_max);
	return EINVAL;
}

static void hca_post_fill_datagram(struct hca_wqe *e, const struct ibv_send_wr *wr)
{
	const struct hca_ah_handle *ah = (const struct hca_ah_handle *)wr->wr.ud.ah;

	e->ah = ah->hca->item.index;
	e->ah_generation = ah->hca->item.generation;
	e->dest_qpn = wr->wr.ud.remote_qpn;
	e->rkey = wr->wr.ud.remote_qkey;
}

/* Clears the fields that every request has. The account is kept; fields of some kinds only are set
 * by the caller. The step is for the trace and for faults. */
static void hca_post_clear(struct hca_wqe *e, uint64_t wr_id, uint64_t bytes)
{
	const struct os_self *self = sim_is_plain() ? NULL : os_self();

	e->wr_id = wr_id;
	e->bytes = bytes;
	e->remote_address = 0;
	e->rkey = e->imm = e->opcode = e->flags = 0;
	e->sge_count = e->srqn = 0;
	e->psn = e->packets = e->started = e->status = 0;
	e->step = self ? self->step : -1;
	e->flow = self ? self->flow : 0;
	e->check_noted = 0;
	e->caller = 0;
}

static void hca_post_fill_send(const struct hca_qp *qp, struct hca_wqe *e,
			       const struct ibv_send_wr *wr, uint64_t bytes)
{
	hca_post_clear(e, wr->wr_id, bytes);
	e->srqn = qp->type == IBV_QPT_XRC_SEND ? wr->qp_type.xrc.remote_srqn : 0;
	e->opcode = wr->opcode;
	e->flags = hca_post_flags(wr);
	e->imm = wr->imm_data;
	if (qp->type == IBV_QPT_UD) {
		hca_post_fill_datagram(e, wr);
	} else if (hca_wqe_is_atomic(e)) {
		e->remote_address = wr->wr.atomic.remote_addr;
		e->rkey = wr->wr.atomic.rkey;
		e->operand[0] = wr->wr.atomic.compare_add;
		e->operand[1] = wr->wr.atomic.swap;
	} else if (wr->opcode == IBV_WR_BIND_MW) {
		hca_post_fill_bind(e, wr);
	} else if (wr->opcode != IBV_WR_SEND && wr->opcode != IBV_WR_SEND_WITH_IMM) {
		e->remote_address = wr->wr.rdma.remote_addr;
		e->rkey = wr->wr.rdma.rkey;
	}
	if (e->flags & IBV_SEND_INLINE) {
		uint8_t *to = (uint8_t *)(e + 1);

		ASSERT(bytes <= qp->sq.inline_max);

		for (int i = 0; i < wr->num_sge; i++) {
			memcpy(to, (const void *)(uintptr_t)wr->sg_list[i].addr,
			       wr->sg_list[i].length);
			to += wr->sg_list[i].length;
		}
		return;
	}
	if (hca_wqe_is_local(e))
		return;
	e->sge_count = (uint32_t)wr->num_sge;
	ASSERT(e->sge_count <= qp->sq.sge_max);
	if (e->sge_count)
		memcpy(hca_wqe_sges(e), wr->sg_list, e->sge_count * sizeof(struct ibv_sge));
}

static bool hca_post_full(const struct hca_qp *qp, const struct hca_queue *q, uint32_t ahead,
			  const char *which)
{
	if (q->head + ahead - __atomic_load_n(&q->polled, __ATOMIC_ACQUIRE) < q->size)
		return false;
	if (q == &qp->sq)
		hca_check_send_full(qp);
	hca_log("%s: qp 0x%x: queue of %u is full%s", which, qp->number, q->size,
		q->done == q->head ? ": all complete, but no completion of the last ones was polled"
				   : "");
	return true;
}

int hca_post_stage(struct hca_qp *qp, const struct ibv_send_wr *wr, uint32_t ahead)
{
	uint64_t bytes;
	int rc = hca_post_check_send(qp, wr, &bytes);

	if (!rc && hca_post_full(qp, &qp->sq, ahead, "ibv_post_send"))
		rc = ENOMEM;
	if (rc)
		return rc;
	if (hca_opcode_is_atomic(wr->opcode) && !hca_personality(qp->port)->atomics_checked)
		bytes = sizeof(uint64_t); /* a longer result receives only its first 8 bytes */
	hca_post_fill_send(qp, hca_wqe_at(&qp->sq, qp->sq.head + ahead), wr, bytes);
	hca_trace("post.send", hca_qp_id(qp), wr->opcode, bytes);
	return 0;
}

void hca_post_doorbell(struct hca_qp *qp, uint32_t n)
{
	uint32_t posted = n;

	ASSERT(n <= qp->sq.size); /* each was staged in a free slot */

	for (; n; n--) {
		struct hca_wqe *e = hca_wqe_at(&qp->sq, qp->sq.head++);

		hca_account_post(&qp->sq, e, "send");
		mem_forget(e);
		mem_release(e);
	}
	hca_direct(qp);
	hca_check_posted(qp, posted);
	bool late = qp->state == IBV_QPS_ERR;

	if (qp->state == IBV_QPS_SQE || late)
		hca_send_flush(qp);
	else if (qp->sq.next != qp->sq.head)
		hca_qp_kick(qp, sim_latency(HCA_DOORBELL_NS));
}

/* Posts a chain of sends. On failure *wr is the first one refused. */
static int hca_post_sends(struct hca_qp *qp, struct ibv_send_wr **wr, int fault)
{
	uint32_t staged = 0;
	int rc = 0;

	for (; *wr; *wr = (*wr)->next) {
		hca_charge(HCA_POST_NS);
		rc = fault ? fault : hca_post_stage(qp, *wr, staged);
		if (rc)
			break;
		staged++;
	}
	hca_post_doorbell(qp, staged);
	if (rc)
		hca_check_refused(qp, (*wr)->wr_id, rc);
	return rc;
}

int hca_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	hca_point("ibv_post_send", 0);
	struct hca_qp_handle *h = hca_qp_of(ibv);

	if (hca_is_not_mine(&h->head, HCA_KIND_QP)) {
		*bad = wr;
		return hca_bad_handle(ibv, HCA_KIND_QP, "ibv_post_send", HCA_CALLER());
	}
	struct hca_qp *qp = h->hca;
	int rc = 0;

	hca_builder_lock(h);
	mem_release(NULL); /* the doorbell */
	int fault = hca_post_fault(qp, "verbs.post_send", ibv);

	if (!hca_qp_lock_unless_stopped(qp)) {
		hca_builder_unlock(h);
		*bad = wr;
		return ETIMEDOUT;
	}
	qp->caller = HCA_CALLER();
	wr = hca_direct_post(qp, wr);
	if (wr)
		rc = hca_post_sends(qp, &wr, fault);
	hca_unlock(&qp->item.lock);
	hca_builder_unlock(h);
	if (rc)
		*bad = wr;
	sim_events_drain();
	return rc;
}

static int hca_post_check_recv(const struct hca_qp *qp, const struct ibv_recv_wr *wr)
{
	if (qp->state == IBV_QPS_RESET && !hca_personality(qp->port)->post_early) {
		hca_log("ibv_post_recv: qp 0x%x is in RESET", qp->number);
		return EINVAL;
	}
	if (qp->srq || qp->type == IBV_QPT_XRC_SEND || qp->type == IBV_QPT_XRC_RECV) {
		hca_log("ibv_post_recv: qp 0x%x has no receive queue of its own", qp->number);
		return EINVAL;
	}
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->rq.sge_max) {
		hca_log("ibv_post_recv: qp 0x%x: %d scatter entries, at most %u", qp->number,
			wr->num_sge, qp->rq.sge_max);
		return EINVAL;
	}
	return hca_post_full(qp, &qp->rq, 0, "ibv_post_recv") ? ENOMEM : 0;
}

void hca_post_fill_recv(struct hca_wqe *e, const struct ibv_recv_wr *wr)
{
	hca_post_clear(e, wr->wr_id, 0);
	e->sge_count = (uint32_t)wr->num_sge;
	for (uint32_t i = 0; i < e->sge_count; i++) {
		hca_wqe_sges(e)[i] = wr->sg_list[i];
		e->bytes += wr->sg_list[i].length;
	}
	mem_forget(e);
	mem_release(e);
}

int hca_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	hca_point("ibv_post_recv", 0);
	if (hca_is_not_mine(&hca_qp_of(ibv)->head, HCA_KIND_QP)) {
		*bad = wr;
		return hca_bad_handle(ibv, HCA_KIND_QP, "ibv_post_recv", HCA_CALLER());
	}
	struct hca_qp *qp = hca_qp_of(ibv)->hca;
	int rc = 0;

	mem_release(NULL);
	int fault = hca_post_fault(qp, "verbs.post_recv", ibv);

	if (!hca_qp_lock_unless_stopped(qp)) {
		*bad = wr;
		return ETIMEDOUT;
	}
	qp->caller = HCA_CALLER();
	for (; wr; wr = wr->next) {
		hca_charge(HCA_POST_NS);
		rc = fault ? fault : hca_post_check_recv(qp, wr);
		if (rc)
			break;
		struct hca_wqe *e = hca_wqe_at(&qp->rq, qp->rq.head++);

		hca_post_fill_recv(e, wr);
		e->caller = qp->caller;
		hca_check_recv_posted(qp, e);
		hca_account_post(&qp->rq, e, "receive");
		hca_trace("post.recv", hca_qp_id(qp), e->bytes, e->sge_count);
	}
	if (qp->state == IBV_QPS_ERR && hca_personality(qp->port)->late_posts_flushed)
		hca_qp_flush(qp);
	hca_unlock(&qp->item.lock);
	if (rc)
		*bad = wr;
	sim_events_drain();
	return rc;
}
