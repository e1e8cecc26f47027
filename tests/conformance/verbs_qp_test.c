/* SPDX-License-Identifier: BSD-3-Clause */
/* What the double refuses and forgets beyond what every device must, which is in the suite
 * (verbs/qp_state.c, verbs/qp_create.c): the fields' own widths, addresses, missing queues; and
 * that a reset takes completions along that were not polled. */
#include "tests/conformance/verbs_harness.h"

/* Puts end 0 into `state` from wherever it is. */
static void enter(struct vh *h, enum ibv_qp_state state, struct ibv_qp_attr *a)
{
	struct ibv_qp *qp = h->end[0].qp;

	*a = vh_attr_of(h, 0);
	vh_to_state(qp, IBV_QPS_RESET);
	if (state == IBV_QPS_RESET)
		return;
	vh_connect(qp, a, state == IBV_QPS_SQD || state == IBV_QPS_ERR ? IBV_QPS_RTS : state);
	if (state == IBV_QPS_SQD || state == IBV_QPS_ERR)
		vh_to_state(qp, state);
	ck_assert_int_eq(vh_state(qp), state);
}

/* Each value that does not fit its field of the specification, at the transition that takes it. */
VH_TEST(values_wider_than_their_field_are_einval)
{
	struct vh h;
	struct ibv_qp_attr a;

	vh_make(&h, &vh_defaults);
	struct ibv_qp *qp = h.end[0].qp;

#define REFUSES(from, mask, to, change)                                                            \
	do {                                                                                       \
		enter(&h, from, &a);                                                               \
		a.qp_state = to;                                                                   \
		change;                                                                            \
		ck_assert_msg(ibv_modify_qp(qp, &a, mask) == EINVAL, #change);                     \
		ck_assert_int_eq(vh_state(qp), from);                                              \
	} while (0)
	REFUSES(IBV_QPS_RESET, VH_INIT_MASK, IBV_QPS_INIT, a.qp_access_flags = 1 << 12);
	REFUSES(IBV_QPS_INIT, VH_RTR_MASK, IBV_QPS_RTR, a.dest_qp_num = 1 << 24);
	REFUSES(IBV_QPS_INIT, VH_RTR_MASK, IBV_QPS_RTR, a.rq_psn = 1 << 24);
	REFUSES(IBV_QPS_RTR, VH_RTS_MASK, IBV_QPS_RTS, a.sq_psn = 1 << 24);
#undef REFUSES
	/* a GID that no port has: the address does not resolve */
	enter(&h, IBV_QPS_INIT, &a);
	a.qp_state = IBV_QPS_RTR;
	a.ah_attr.grh.dgid.raw[15] ^= 0x80;
	ck_assert_int_eq(ibv_modify_qp(qp, &a, VH_RTR_MASK), ETIMEDOUT);
	ck_assert_int_eq(vh_state(qp), IBV_QPS_INIT);
	vh_free(&h);
}

VH_TEST(reset_forgets_queues_and_unpolled_completions)
{
	struct vh h;

	vh_pair(&h, &vh_defaults);
	vh_send(&h, 0, IBV_WR_RDMA_WRITE, 1, 0, 100);
	vh_recv(&h, 0, 2, 0, 100);
	os_sleep_ns(VH_SECOND_NS / 100); /* it completes, unpolled */
	vh_to_state(h.end[0].qp, IBV_QPS_RESET);
	vh_expect_none(h.end[0].send_cq);
	vh_expect_none(h.end[0].recv_cq);
	/* and it connects again, both ends from new numbers */
	vh_to_state(h.end[1].qp, IBV_QPS_RESET);
	h.end[0].psn = 1000;
	h.end[1].psn = 2000;
	vh_connect_end(&h, 0, IBV_QPS_RTS);
	vh_connect_end(&h, 1, IBV_QPS_RTS);
	vh_pattern(h.end[0].buffer, 3000, 8);
	vh_send(&h, 0, IBV_WR_RDMA_WRITE, 3, 0, 3000);
	vh_expect(h.end[0].send_cq, 3, IBV_WC_SUCCESS, NULL);
	vh_expect_pattern(h.end[1].buffer, 3000, 8);
	vh_free(&h);
}

VH_TEST(queue_pairs_without_queues_or_of_no_type_are_refused)
{
	struct vh h;

	vh_make(&h, &vh_defaults);
	struct vh_end *e = &h.end[0];

#define REFUSES(code, change)                                                                      \
	do {                                                                                       \
		struct ibv_qp_init_attr init = vh_init_attr(&h.options, e->send_cq, e->recv_cq);   \
		change;                                                                            \
		ck_assert_ptr_null(ibv_create_qp(e->pd, &init));                                   \
		ck_assert_int_eq(errno, code);                                                     \
	} while (0)
	REFUSES(EOPNOTSUPP, init.qp_type = IBV_QPT_RAW_PACKET);
	REFUSES(EINVAL, init.cap.max_inline_data = 1 << 20);
	REFUSES(EINVAL, init.send_cq = NULL);
	REFUSES(EINVAL, init.recv_cq = NULL);
#undef REFUSES
	vh_free(&h);
}

int main(void)
{
	TCase *t = tcase_create("queue pairs");

	VH_ADD(t, values_wider_than_their_field_are_einval);
	VH_ADD(t, reset_forgets_queues_and_unpolled_completions);
	VH_ADD(t, queue_pairs_without_queues_or_of_no_type_are_refused);
	return vh_suite_run("verbs queue pairs", t);
}
