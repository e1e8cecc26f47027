/* SPDX-License-Identifier: BSD-3-Clause */
/* Attributes that each transition of each type of queue pair needs and allows, and their values.
 * The source is the specification's table, as in the manual page of ibv_modify_qp. A missing or
 * extra bit, or a value out of range, is EINVAL, and nothing is applied. */
#include <errno.h>

#include "backends/fakeverbs/checks/checks.h"

/* Types with a column of their own. XRC's two halves differ from a reliable connection by the
 * attributes of the half that they lack. */
enum hca_column { HCA_RC, HCA_UC, HCA_UD, HCA_XRC_INI, HCA_XRC_TGT, HCA_COLUMNS };

struct hca_transition {
	enum ibv_qp_state from, to;
	struct {
		int required, optional;
	} of[HCA_COLUMNS];
};

#define HCA_INIT_CONNECTED (IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define HCA_INIT_DATAGRAM  (IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY)
#define HCA_RTR_CONNECTED  (IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
#define HCA_RTR_RESPONDER  (HCA_RTR_CONNECTED | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define HCA_RTR_OPTIONAL   (IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX)
#define HCA_RTS_REQUESTER                                                                          \
	(IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |                    \
	 IBV_QP_MAX_QP_RD_ATOMIC)
/* Allowed whenever the queue pair is connected; the responder has a timer as well. */
#define HCA_LATER (IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE)

#define HCA_LATER_RESPONDER (HCA_LATER | IBV_QP_MIN_RNR_TIMER)
#define HCA_LATER_DATAGRAM  (IBV_QP_CUR_STATE | IBV_QP_QKEY)
#define HCA_SQD_CONNECTED                                                                          \
	(IBV_QP_AV | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX |                   \
	 IBV_QP_PATH_MIG_STATE)
#define HCA_SQD_REQUESTER                                                                          \
	(HCA_SQD_CONNECTED | IBV_QP_PORT | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |  \
	 IBV_QP_MAX_QP_RD_ATOMIC)
#define HCA_SQD_RESPONDER (IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)

/* clang-format off */
/* Columns that are the same for all types, and columns of which only the datagram's differs. */
#define HCA_ALL(required, optional) HCA_CONNECTED(required, optional, required, optional)
#define HCA_CONNECTED(required, optional, ud_required, ud_optional)                                \
	[HCA_RC] = {required, optional}, [HCA_UC] = {required, optional},                          \
	[HCA_UD] = {ud_required, ud_optional},                                                     \
	[HCA_XRC_INI] = {required, optional}, [HCA_XRC_TGT] = {required, optional}
/* Attributes that may change in RTS. */
#define HCA_ALL_LATER                                                                              \
	[HCA_RC] = {0, HCA_LATER_RESPONDER}, [HCA_UC] = {0, HCA_LATER},                            \
	[HCA_UD] = {0, HCA_LATER_DATAGRAM},                                                        \
	[HCA_XRC_INI] = {0, HCA_LATER}, [HCA_XRC_TGT] = {0, HCA_LATER_RESPONDER}

static const struct hca_transition hca_transitions[] = {
	{IBV_QPS_RESET, IBV_QPS_RESET, {HCA_ALL(0, 0)}},
	{IBV_QPS_RESET, IBV_QPS_INIT, {HCA_CONNECTED(HCA_INIT_CONNECTED, 0, HCA_INIT_DATAGRAM, 0)}},
	{IBV_QPS_INIT, IBV_QPS_INIT, {HCA_CONNECTED(0, HCA_INIT_CONNECTED, 0, HCA_INIT_DATAGRAM)}},
	{IBV_QPS_INIT, IBV_QPS_RTR, {
		[HCA_RC] = {HCA_RTR_RESPONDER, HCA_RTR_OPTIONAL},
		[HCA_UC] = {HCA_RTR_CONNECTED, HCA_RTR_OPTIONAL},
		[HCA_UD] = {0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
		[HCA_XRC_INI] = {HCA_RTR_CONNECTED, HCA_RTR_OPTIONAL},
		[HCA_XRC_TGT] = {HCA_RTR_RESPONDER, HCA_RTR_OPTIONAL}}},
	{IBV_QPS_RTR, IBV_QPS_RTS, {
		[HCA_RC] = {HCA_RTS_REQUESTER, HCA_LATER_RESPONDER},
		[HCA_UC] = {IBV_QP_SQ_PSN, HCA_LATER},
		[HCA_UD] = {IBV_QP_SQ_PSN, HCA_LATER_DATAGRAM},
		[HCA_XRC_INI] = {HCA_RTS_REQUESTER, HCA_LATER},
		[HCA_XRC_TGT] = {IBV_QP_SQ_PSN | IBV_QP_TIMEOUT, HCA_LATER_RESPONDER}}},
	{IBV_QPS_RTS, IBV_QPS_RTS, {HCA_ALL_LATER}},
	{IBV_QPS_RTS, IBV_QPS_SQD, {HCA_ALL(0, IBV_QP_EN_SQD_ASYNC_NOTIFY)}},
	{IBV_QPS_SQD, IBV_QPS_RTS, {HCA_ALL_LATER}},
	{IBV_QPS_SQD, IBV_QPS_SQD, {
		[HCA_RC] = {0, HCA_SQD_REQUESTER | HCA_SQD_RESPONDER},
		[HCA_UC] = {0, HCA_SQD_CONNECTED},
		[HCA_UD] = {0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
		[HCA_XRC_INI] = {0, HCA_SQD_REQUESTER},
		[HCA_XRC_TGT] = {0, HCA_SQD_CONNECTED | IBV_QP_PORT | IBV_QP_TIMEOUT |
				    HCA_SQD_RESPONDER}}},
	{IBV_QPS_ERR, IBV_QPS_ERR, {HCA_ALL(0, 0)}},
};
/* clang-format on */

/* Recovery of a queue pair without acknowledges from a failed send. Other types go to ERR
 * immediately. */
static const struct {
	enum ibv_qp_type type;
	int optional;
} hca_recoveries[] = {
	{IBV_QPT_UC, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS},
	{IBV_QPT_UD, IBV_QP_CUR_STATE | IBV_QP_QKEY},
};

static enum hca_column hca_column_of(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_UC:
		return HCA_UC;
	case IBV_QPT_UD:
		return HCA_UD;
	case IBV_QPT_XRC_SEND:
		return HCA_XRC_INI;
	case IBV_QPT_XRC_RECV:
		return HCA_XRC_TGT;
	default:
		ASSERT(type == IBV_QPT_RC);
		return HCA_RC;
	}
}

static bool hca_mask_fits(int mask, int required, int optional)
{
	return (mask & required) == required && !(mask & ~(required | optional));
}

int hca_qp_mask(enum ibv_qp_type type, int mask)
{
	switch (type) {
	case IBV_QPT_XRC_SEND:
		return mask & ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	case IBV_QPT_XRC_RECV:
		return mask & ~(IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY);
	default:
		return mask;
	}
}

bool hca_qp_masks(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to,
		  int *required, int *optional)
{
	enum hca_column c = hca_column_of(type);

	*required = *optional = 0;
	for (size_t i = 0; i < ARRAY_LEN(hca_transitions); i++) {
		const struct hca_transition *t = &hca_transitions[i];

		if (t->from != from || t->to != to)
			continue;
		*required = t->of[c].required;
		*optional = t->of[c].optional;
		return true;
	}
	for (size_t i = 0;
	     from == IBV_QPS_SQE && to == IBV_QPS_RTS && i < ARRAY_LEN(hca_recoveries); i++) {
		if (hca_recoveries[i].type != type)
			continue;
		*optional = hca_recoveries[i].optional;
		return true;
	}
	/* any state to RESET, any state except RESET to ERR, without further attributes */
	return to == IBV_QPS_RESET || (to == IBV_QPS_ERR && from != IBV_QPS_RESET);
}

int hca_qp_check_mask(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
	int required, optional;

	return hca_qp_masks(type, from, to, &required, &optional) &&
			       hca_mask_fits(mask & ~IBV_QP_STATE, required, optional)
		       ? 0
		       : EINVAL;
}

static int hca_qp_check_address(const struct hca_qp *qp, const struct ibv_ah_attr *ah)
{
	uint32_t to_port = HCA_NONE;
	int rc = hca_address_resolve(qp->port, ah, &to_port);

	if (rc == ETIMEDOUT)
		hca_log("ibv_modify_qp: qp 0x%x: no port has the destination GID", qp->number);
	if (!rc && to_port == HCA_MULTICAST) {
		hca_log("ibv_modify_qp: qp 0x%x: a connection has one peer, not a multicast group",
			qp->number);
		return EINVAL;
	}
	return rc;
}

/* True if the values that not every HCA checks are in range. */
static bool hca_qp_in_range(const struct hca_personality *p, const struct ibv_qp_attr *a, int mask)
{
	return (!(mask & IBV_QP_PKEY_INDEX) || a->pkey_index < p->pkey_count) &&
	       (!(mask & IBV_QP_PATH_MTU) || a->path_mtu >= IBV_MTU_256) &&
	       (!(mask & IBV_QP_MAX_DEST_RD_ATOMIC) || a->max_dest_rd_atomic <= p->max_rd_atomic) &&
	       (!(mask & IBV_QP_MIN_RNR_TIMER) || a->min_rnr_timer <= 31) &&
	       (!(mask & IBV_QP_RETRY_CNT) || a->retry_cnt <= 7) &&
	       (!(mask & IBV_QP_RNR_RETRY) || a->rnr_retry <= 7);
}

int hca_qp_check_values(const struct hca_qp *qp, const struct ibv_qp_attr *a, int mask)
{
	/* IBV_ACCESS_FLUSH_GLOBAL and _PERSISTENT, by number: older headers lack the names. The
	 * kernel passes them to drivers, which ignore them */
	const unsigned int flush = 1u << 8 | 1u << 9;
	const unsigned int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				    IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
				    IBV_ACCESS_MW_BIND | flush;

	const struct hca_personality *p = hca_personality(qp->port);

	if (mask & IBV_QP_ALT_PATH) {
		hca_log("ibv_modify_qp: qp 0x%x: RoCE has no alternate path", qp->number);
		return EOPNOTSUPP;
	}
	if (p->attributes_checked && !hca_qp_in_range(p, a, mask))
		return EINVAL;
	if (((mask & IBV_QP_PORT) && a->port_num != 1) ||
	    ((mask & IBV_QP_ACCESS_FLAGS) && (a->qp_access_flags & ~access)) ||
	    ((mask & IBV_QP_PATH_MTU) && a->path_mtu > p->active_mtu) ||
	    ((mask & IBV_QP_DEST_QPN) && a->dest_qp_num > HCA_PSN_MASK) ||
	    ((mask & IBV_QP_RQ_PSN) && a->rq_psn > HCA_PSN_MASK) ||
	    ((mask & IBV_QP_SQ_PSN) && a->sq_psn > HCA_PSN_MASK) ||
	    ((mask & IBV_QP_MAX_QP_RD_ATOMIC) && a->max_rd_atomic > p->max_rd_atomic) ||
	    ((mask & IBV_QP_TIMEOUT) && a->timeout > 31) ||
	    ((mask & IBV_QP_PATH_MIG_STATE) && a->path_mig_state != IBV_MIG_MIGRATED))
		return EINVAL;
	return mask & IBV_QP_AV ? hca_qp_check_address(qp, &a->ah_attr) : 0;
}
