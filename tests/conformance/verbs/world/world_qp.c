/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs of the double: values wider than their field, unknown addresses, missing completion
 * queues; and a reset, which removes completions that were not polled. The behaviour that every
 * device must have is tested in qp_state_cases.c and qp_create_cases.c. */
#include "tests/conformance/verbs/harness/world.h"

/* Puts end 0 into `state` from any state. */
static void enter(struct vs_pair *h, enum ibv_qp_state state, struct ibv_qp_attr *a)
{
	struct ibv_qp *qp = h->end[0].qp;

	*a = vs_attr(h, 0);
	vs_set_state(qp, IBV_QPS_RESET);
	if (state == IBV_QPS_RESET)
		return;
	vs_raise(qp, a, state == IBV_QPS_SQD || state == IBV_QPS_ERR ? IBV_QPS_RTS : state);
	if (state == IBV_QPS_SQD || state == IBV_QPS_ERR)
		vs_set_state(qp, state);
	CHECK_EQ(vs_state(qp), state);
}

/* A value that does not fit its field, in the transition that sets the field. */
CASE(values_wider_than_their_field_are_einval)
{
	struct vs_pair h;
	struct ibv_qp_attr a;

	vs_make(&h, &vw_defaults);
	struct ibv_qp *qp = h.end[0].qp;

#define REFUSES(from, mask, to, change)                                                            \
	do {                                                                                       \
		enter(&h, from, &a);                                                               \
		a.qp_state = to;                                                                   \
		change;                                                                            \
		CHECK_MSG(ibv_modify_qp(qp, &a, mask) == EINVAL, #change);                         \
		CHECK_EQ(vs_state(qp), from);                                                      \
	} while (0)
	REFUSES(IBV_QPS_RESET, VW_INIT_MASK, IBV_QPS_INIT, a.qp_access_flags = 1 << 12);
	REFUSES(IBV_QPS_INIT, VW_RTR_MASK, IBV_QPS_RTR, a.dest_qp_num = 1 << 24);
	REFUSES(IBV_QPS_INIT, VW_RTR_MASK, IBV_QPS_RTR, a.rq_psn = 1 << 24);
	REFUSES(IBV_QPS_RTR, VW_RTS_MASK, IBV_QPS_RTS, a.sq_psn = 1 << 24);
#undef REFUSES
	/* a GID that no port has: the address does not resolve */
	enter(&h, IBV_QPS_INIT, &a);
	a.qp_state = IBV_QPS_RTR;
	a.ah_attr.grh.dgid.raw[15] ^= 0x80;
	CHECK_EQ(ibv_modify_qp(qp, &a, VW_RTR_MASK), ETIMEDOUT);
	CHECK_EQ(vs_state(qp), IBV_QPS_INIT);
	vs_free(&h);
}

CASE(reset_forgets_queues_and_unpolled_completions)
{
	struct vs_pair h;

	vs_pair(&h, &vw_defaults);
	vs_send(&h, 0, IBV_WR_RDMA_WRITE, 1, 0, 100);
	vs_recv(&h, 0, 2, 0, 100);
	os_sleep_ns(VS_SECOND / 100); /* the WRITE completes; its completion is not polled */
	vs_set_state(h.end[0].qp, IBV_QPS_RESET);
	vs_expect_none(h.end[0].send_cq);
	vs_expect_none(h.end[0].recv_cq);
	/* both ends connect again, with new packet numbers */
	vs_set_state(h.end[1].qp, IBV_QPS_RESET);
	h.end[0].psn = 1000;
	h.end[1].psn = 2000;
	vs_connect(&h, 0, IBV_QPS_RTS);
	vs_connect(&h, 1, IBV_QPS_RTS);
	vs_pattern(h.end[0].buffer, 3000, 8);
	vs_send(&h, 0, IBV_WR_RDMA_WRITE, 3, 0, 3000);
	vs_expect(h.end[0].send_cq, 3, IBV_WC_SUCCESS, NULL);
	vs_expect_pattern(h.end[1].buffer, 3000, 8);
	vs_free(&h);
}

CASE(queue_pairs_without_queues_or_of_no_type_are_refused)
{
	struct vs_pair h;

	vs_make(&h, &vw_defaults);
	struct vs_end *e = &h.end[0];

#define REFUSES(code, change)                                                                      \
	do {                                                                                       \
		struct ibv_qp_init_attr init = vw_init_attr(&h.options, e->send_cq, e->recv_cq);   \
		change;                                                                            \
		CHECK(!ibv_create_qp(e->pd, &init));                                               \
		CHECK_EQ(errno, code);                                                             \
	} while (0)
	REFUSES(EOPNOTSUPP, init.qp_type = IBV_QPT_RAW_PACKET);
	REFUSES(EINVAL, init.cap.max_inline_data = 1 << 20);
	REFUSES(EINVAL, init.send_cq = NULL);
	REFUSES(EINVAL, init.recv_cq = NULL);
#undef REFUSES
	vs_free(&h);
}
