/* SPDX-License-Identifier: BSD-3-Clause */
/* Attributes of a connected queue pair that may change in RTS, or only in SQD. The address and the
 * acknowledge timeout may not change in RTS, and the failed call changes nothing. The RNR timer
 * may. */
#include <errno.h>

#include "pair.h"

static struct ibv_qp_attr query(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	pair_need(!ibv_query_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_MIN_RNR_TIMER, &init),
		  "a query");
	return a;
}

static void refused(struct ibv_qp *qp, struct ibv_qp_attr *a, int mask, const char *what)
{
	pair_need(ibv_modify_qp(qp, a, mask) == EINVAL, what);
	pair_need(query(qp).qp_state == IBV_QPS_RTS, "RTS after a refusal");
}

int main(void)
{
	struct pair p;

	pair_open(&p);
	pair_connect(&p);
	struct ibv_qp *qp = p.qp[0];
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTS,
				.cur_qp_state = IBV_QPS_RTS,
				.min_rnr_timer = 5,
				.timeout = 18,
				.rate_limit = 100000};

	pair_address(&p, &a.ah_attr);
	a.ah_attr.sl = 3;
	refused(qp, &a, IBV_QP_AV, "an address alone is refused");
	refused(qp, &a, IBV_QP_STATE | IBV_QP_AV, "an address in RTS is refused");
	refused(qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT, "a timeout in RTS is refused");
	refused(qp, &a, IBV_QP_STATE | IBV_QP_RATE_LIMIT, "a rate limit is refused");
	refused(qp, &a, IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER | IBV_QP_AV, "both are refused");
	pair_need(query(qp).ah_attr.sl == 0 && query(qp).min_rnr_timer == 1, "nothing has changed");
	pair_need(!ibv_modify_qp(qp, &a, IBV_QP_MIN_RNR_TIMER), "an RNR timer alone");
	pair_need(query(qp).min_rnr_timer == 5, "the RNR timer");
	a.min_rnr_timer = 6;
	pair_need(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER),
		  "an RNR timer in RTS");

	a.qp_state = IBV_QPS_SQD;
	pair_need(!ibv_modify_qp(qp, &a, IBV_QP_STATE), "SQD");
	pair_need(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_TIMEOUT),
		  "an address and a timeout in SQD");
	pair_need(query(qp).ah_attr.sl == 3, "the address");
	a.qp_state = IBV_QPS_RTS;
	pair_need(!ibv_modify_qp(qp, &a, IBV_QP_STATE), "RTS again");
	pair_need(!pair_post(&p, IBV_WR_RDMA_WRITE, p.mr->rkey), "a write");
	pair_need(pair_wait(&p).status == IBV_WC_SUCCESS, "a write that succeeds");
	return 0;
}
