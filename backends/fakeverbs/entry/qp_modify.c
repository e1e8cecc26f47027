/* SPDX-License-Identifier: BSD-3-Clause */
/* ibv_modify_qp. checks/qp_attr.c has the attributes that a transition needs and allows. */
#include <errno.h>

#include "backends/fakeverbs/entry/entry.h"

static void hca_qp_apply(struct hca_qp *qp, const struct ibv_qp_attr *a, int mask)
{
	qp->changes++;
	if (mask & IBV_QP_PKEY_INDEX)
		qp->pkey_index =
			a->pkey_index < hca_personality(qp->port)->pkey_count ? a->pkey_index : 0;
	if (mask & IBV_QP_ACCESS_FLAGS)
		qp->access = a->qp_access_flags;
	if (mask & IBV_QP_AV) {
		qp->address = a->ah_attr;
		/* checked before */
		(void)hca_address_resolve(qp->port, &a->ah_attr, &qp->dest_port);
		qp->moves = hca_moves(qp->port, qp->dest_port);
	}
	if (mask & IBV_QP_QKEY)
		qp->qkey = a->qkey;
	if (mask & IBV_QP_PATH_MTU) {
		qp->path_mtu = MAX_OF(a->path_mtu, IBV_MTU_256);
		qp->mtu_bytes = 128u << qp->path_mtu;
		/* a burst is whole packets, unless it is the last one */
		ASSERT(HCA_BURST_BYTES % qp->mtu_bytes == 0);
	}
	if (mask & IBV_QP_DEST_QPN)
		qp->dest_qpn = a->dest_qp_num;
	if (mask & IBV_QP_RQ_PSN)
		qp->rq_psn = qp->resp.psn = a->rq_psn;
	if (mask & IBV_QP_SQ_PSN) {
		qp->sq_psn = a->sq_psn;
		qp->req.psn_una = qp->req.psn_next = qp->req.psn_max = a->sq_psn;
	}
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		qp->max_rd_atomic = a->max_rd_atomic;
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		qp->max_dest_rd_atomic =
			MIN_OF(a->max_dest_rd_atomic, hca_personality(qp->port)->max_rd_atomic);
	if (mask & IBV_QP_MIN_RNR_TIMER)
		qp->min_rnr_timer = a->min_rnr_timer & 31;
	if (mask & IBV_QP_TIMEOUT)
		qp->timeout = a->timeout;
	if (mask & IBV_QP_RETRY_CNT)
		qp->retry_count = qp->req.retries = a->retry_cnt;
	if (mask & IBV_QP_RNR_RETRY)
		qp->rnr_retry = qp->req.rnr_retries = a->rnr_retry;
	if (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY)
		qp->drain_notify = a->en_sqd_async_notify;
}

static void hca_qp_enter_state(struct hca_qp *qp, enum ibv_qp_state to)
{
	uint32_t from = qp->state;

	if (to == IBV_QPS_RESET) {
		hca_qp_reset(qp);
	} else if (to == IBV_QPS_ERR) {
		hca_qp_to_error(qp);
	} else {
		hca_qp_set_state(qp, to);
		qp->drained = 0;
	}
	ASSERT(qp->state == (uint32_t)to); /* hca_qp_to_error leaves only RESET alone */
	if (to == IBV_QPS_SQD && from == IBV_QPS_RTS) {
		qp->drain_head = qp->sq.head;
		hca_requester_drained(qp);
	}
	/* requests posted before SQD continue in any case */
	bool resumes = from != IBV_QPS_SQD || qp->sq.next != qp->drain_head ||
		       hca_personality(qp->port)->sqd_resumes;

	if (to == IBV_QPS_RTS && resumes && qp->sq.next != qp->sq.head)
		hca_qp_kick(qp, sim_latency(HCA_DOORBELL_NS));
}

int ibv_modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *a, int mask)
{
	int bad = hca_enter_control(ibv, HCA_KIND_QP, "ibv_modify_qp", HCA_CALLER());

	if (bad)
		return bad;
	struct hca_qp *qp = hca_qp_of(ibv)->hca;
	int fault = hca_command_fault("verbs.modify_qp", ibv, qp->port,
				      mask & IBV_QP_STATE ? (int)a->qp_state : -1);
	int rc;

	mask = hca_qp_mask((enum ibv_qp_type)qp->type, mask);
	if (!hca_qp_lock_unless_stopped(qp))
		return hca_result(ETIMEDOUT);
	enum ibv_qp_state from = (enum ibv_qp_state)qp->state;
	enum ibv_qp_state to = mask & IBV_QP_STATE ? a->qp_state : from;

	rc = (mask & IBV_QP_CUR_STATE) && a->cur_qp_state != from &&
			     hca_personality(qp->port)->attributes_checked
		     ? EINVAL
		     : 0;
	if (!rc)
		rc = hca_qp_check_mask((enum ibv_qp_type)qp->type, from, to, mask);
	if (!rc)
		rc = hca_qp_check_values(qp, a, mask);
	if (rc)
		hca_check_modify_refused(qp, to, a, mask, HCA_CALLER());
	else
		rc = fault;
	if (!rc) {
		hca_qp_apply(qp, a, mask);
		hca_check_modified(qp, mask, HCA_CALLER());
		hca_qp_enter_state(qp, to);
		if (mask & IBV_QP_STATE)
			ibv->state = to;
	}
	hca_unlock(&qp->item.lock);
	sim_events_drain();
	return hca_result(rc);
}
