/* SPDX-License-Identifier: BSD-3-Clause */
/* Which attributes each transition of a reliable connection needs and allows (the specification's
 * table, as the manual page of ibv_modify_qp gives it), and which values. A bit too few or too
 * many, or a value out of range: EINVAL, and nothing is applied. */
#include <errno.h>

#include "backends/fakeverbs/hca.h"

struct hca_transition {
	enum ibv_qp_state from, to;
	int required, optional;
};

#define HCA_ANY_TIME                                                                               \
	(IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE |        \
	 IBV_QP_MIN_RNR_TIMER)

static const struct hca_transition hca_transitions[] = {
	{IBV_QPS_RESET, IBV_QPS_RESET, 0, 0},
	{IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
	{IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
	{IBV_QPS_INIT, IBV_QPS_RTR,
	 IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
		 IBV_QP_MIN_RNR_TIMER,
	 IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
	{IBV_QPS_RTR, IBV_QPS_RTS,
	 IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		 IBV_QP_MAX_QP_RD_ATOMIC,
	 HCA_ANY_TIME},
	{IBV_QPS_RTS, IBV_QPS_RTS, 0, HCA_ANY_TIME},
	{IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
	{IBV_QPS_SQD, IBV_QPS_RTS, 0, HCA_ANY_TIME},
	{IBV_QPS_SQD, IBV_QPS_SQD, 0,
	 IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		 IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_ALT_PATH |
		 IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_MIN_RNR_TIMER |
		 IBV_QP_PATH_MIG_STATE},
	{IBV_QPS_ERR, IBV_QPS_ERR, 0, 0},
};

int hca_qp_check_mask(enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
	mask &= ~IBV_QP_STATE;
	for (size_t i = 0; i < ARRAY_LEN(hca_transitions); i++) {
		const struct hca_transition *t = &hca_transitions[i];

		if (t->from != from || t->to != to)
			continue;
		if ((mask & t->required) != t->required || (mask & ~(t->required | t->optional)))
			return EINVAL;
		return 0;
	}
	/* from everywhere to RESET, from everywhere but RESET to ERR, without more attributes */
	if (to == IBV_QPS_RESET || (to == IBV_QPS_ERR && from != IBV_QPS_RESET))
		return mask ? EINVAL : 0;
	return EINVAL;
}

static int hca_qp_check_address(const struct hca_qp *qp, const struct ibv_ah_attr *ah)
{
	union ibv_gid gid;
	enum ibv_gid_type type;

	/* RoCE has no local identifiers: the global route is not optional */
	if (!ah->is_global || ah->port_num != 1)
		return EINVAL;
	if (!hca_gid_get(qp->port, ah->grh.sgid_index, &gid, &type))
		return EINVAL;
	if (hca_gid_port(&ah->grh.dgid) == UINT32_MAX) {
		hca_say("ibv_modify_qp: qp 0x%x: nobody answers for the destination GID",
			qp->number);
		return ETIMEDOUT;
	}
	return 0;
}

int hca_qp_check_values(const struct hca_qp *qp, const struct ibv_qp_attr *a, int mask)
{
	const unsigned int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				    IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
				    IBV_ACCESS_MW_BIND;

	if (mask & IBV_QP_ALT_PATH) {
		hca_say("ibv_modify_qp: qp 0x%x: RoCE has no alternate path", qp->number);
		return EOPNOTSUPP;
	}
	if (((mask & IBV_QP_PORT) && a->port_num != 1) ||
	    ((mask & IBV_QP_PKEY_INDEX) && a->pkey_index >= HCA_PKEY_COUNT) ||
	    ((mask & IBV_QP_ACCESS_FLAGS) && (a->qp_access_flags & ~access)) ||
	    ((mask & IBV_QP_PATH_MTU) &&
	     (a->path_mtu < IBV_MTU_256 || a->path_mtu > IBV_MTU_4096)) ||
	    ((mask & IBV_QP_DEST_QPN) && a->dest_qp_num > HCA_PSN_MASK) ||
	    ((mask & IBV_QP_RQ_PSN) && a->rq_psn > HCA_PSN_MASK) ||
	    ((mask & IBV_QP_SQ_PSN) && a->sq_psn > HCA_PSN_MASK) ||
	    ((mask & IBV_QP_MAX_QP_RD_ATOMIC) && a->max_rd_atomic > HCA_MAX_RD_ATOMIC) ||
	    ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) && a->max_dest_rd_atomic > HCA_MAX_RD_ATOMIC) ||
	    ((mask & IBV_QP_MIN_RNR_TIMER) && a->min_rnr_timer > 31) ||
	    ((mask & IBV_QP_TIMEOUT) && a->timeout > 31) ||
	    ((mask & IBV_QP_RETRY_CNT) && a->retry_cnt > 7) ||
	    ((mask & IBV_QP_RNR_RETRY) && a->rnr_retry > 7) ||
	    ((mask & IBV_QP_PATH_MIG_STATE) && a->path_mig_state != IBV_MIG_MIGRATED))
		return EINVAL;
	return mask & IBV_QP_AV ? hca_qp_check_address(qp, &a->ah_attr) : 0;
}
