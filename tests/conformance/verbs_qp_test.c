/* SPDX-License-Identifier: BSD-3-Clause */
/* The state machine of a reliable connection: every transition, every attribute bit too few or too
 * many, every value out of range; and that a refused change changes nothing. */
#include "tests/conformance/verbs_harness.h"

/* The table once more, written from the specification and not from the double. */
static const struct transition {
	enum ibv_qp_state from, to;
	int required, optional;
} table[] = {
	{IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
	{IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
	{IBV_QPS_INIT, IBV_QPS_RTR,
	 IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
		 IBV_QP_MIN_RNR_TIMER,
	 IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
	{IBV_QPS_RTR, IBV_QPS_RTS,
	 IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		 IBV_QP_MAX_QP_RD_ATOMIC,
	 IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER |
		 IBV_QP_PATH_MIG_STATE},
	{IBV_QPS_RTS, IBV_QPS_RTS, 0,
	 IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER |
		 IBV_QP_PATH_MIG_STATE},
	{IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
	{IBV_QPS_SQD, IBV_QPS_RTS, 0,
	 IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER |
		 IBV_QP_PATH_MIG_STATE},
	{IBV_QPS_SQD, IBV_QPS_SQD, 0,
	 IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		 IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_ALT_PATH |
		 IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_MIN_RNR_TIMER |
		 IBV_QP_PATH_MIG_STATE},
	{IBV_QPS_INIT, IBV_QPS_RESET, 0, 0},
	{IBV_QPS_RTR, IBV_QPS_RESET, 0, 0},
	{IBV_QPS_RTS, IBV_QPS_RESET, 0, 0},
	{IBV_QPS_SQD, IBV_QPS_RESET, 0, 0},
	{IBV_QPS_ERR, IBV_QPS_RESET, 0, 0},
	{IBV_QPS_INIT, IBV_QPS_ERR, 0, 0},
	{IBV_QPS_RTR, IBV_QPS_ERR, 0, 0},
	{IBV_QPS_RTS, IBV_QPS_ERR, 0, 0},
	{IBV_QPS_SQD, IBV_QPS_ERR, 0, 0},
	{IBV_QPS_ERR, IBV_QPS_ERR, 0, 0},
	{IBV_QPS_RESET, IBV_QPS_RESET, 0, 0},
};
#define TABLE_LEN (sizeof table / sizeof table[0])

static const int bits[] = {
	IBV_QP_CUR_STATE,
	IBV_QP_EN_SQD_ASYNC_NOTIFY,
	IBV_QP_ACCESS_FLAGS,
	IBV_QP_PKEY_INDEX,
	IBV_QP_PORT,
	IBV_QP_QKEY,
	IBV_QP_AV,
	IBV_QP_PATH_MTU,
	IBV_QP_TIMEOUT,
	IBV_QP_RETRY_CNT,
	IBV_QP_RNR_RETRY,
	IBV_QP_RQ_PSN,
	IBV_QP_MAX_QP_RD_ATOMIC,
	IBV_QP_ALT_PATH,
	IBV_QP_MIN_RNR_TIMER,
	IBV_QP_SQ_PSN,
	IBV_QP_MAX_DEST_RD_ATOMIC,
	IBV_QP_PATH_MIG_STATE,
	IBV_QP_CAP,
	IBV_QP_DEST_QPN,
	IBV_QP_RATE_LIMIT,
};
#define BITS_LEN (sizeof bits / sizeof bits[0])

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

static void query(struct ibv_qp *qp, struct ibv_qp_attr *a)
{
	struct ibv_qp_init_attr init;

	ck_assert_int_eq(ibv_query_qp(qp, a, IBV_QP_RATE_LIMIT - 1, &init), 0);
}

/* Values that differ from what is set: a change that is applied in spite of an error shows. */
static struct ibv_qp_attr other_values(struct vh *h, const struct transition *t)
{
	struct ibv_qp_attr a = vh_attr_of(h, 0);

	a.cur_qp_state = t->from;
	a.qp_state = t->to;
	a.qp_access_flags = IBV_ACCESS_REMOTE_READ;
	a.pkey_index = 1;
	a.path_mtu = IBV_MTU_2048;
	a.timeout = 3;
	a.retry_cnt = 1;
	a.rnr_retry = 1;
	a.rq_psn = 0x777;
	a.sq_psn = 0x888;
	a.max_rd_atomic = a.max_dest_rd_atomic = 9;
	a.min_rnr_timer = 30;
	a.dest_qp_num = 0x4321;
	a.alt_ah_attr = a.ah_attr;
	a.alt_port_num = 1;
	return a;
}

static void expect_refused(struct vh *h, const struct transition *t, struct ibv_qp_attr *a,
			   int mask)
{
	struct ibv_qp *qp = h->end[0].qp;
	struct ibv_qp_attr before, after;

	query(qp, &before);
	int rc = ibv_modify_qp(qp, a, mask);

	ck_assert_msg(rc == EINVAL, "%d -> %d with mask 0x%x: %d, expected EINVAL", t->from, t->to,
		      mask, rc);
	query(qp, &after);
	ck_assert_mem_eq(&before, &after, sizeof before);
	ck_assert_int_eq(qp->state, t->from);
}

VH_TEST(each_transition_works_with_exactly_the_required_bits)
{
	struct vh h;
	struct ibv_qp_attr a;

	vh_make(&h, &vh_defaults);
	for (size_t i = 0; i < TABLE_LEN; i++) {
		enter(&h, table[i].from, &a);
		a.qp_state = table[i].to;
		int rc = ibv_modify_qp(h.end[0].qp, &a, IBV_QP_STATE | table[i].required);

		ck_assert_msg(rc == 0, "%d -> %d: %d", table[i].from, table[i].to, rc);
		ck_assert_int_eq(h.end[0].qp->state, table[i].to);
		ck_assert_int_eq(vh_state(h.end[0].qp), table[i].to);
	}
	vh_free(&h);
}

VH_TEST(each_required_bit_that_is_missing_is_einval_and_changes_nothing)
{
	struct vh h;
	struct ibv_qp_attr a;
	int tried = 0;

	vh_make(&h, &vh_defaults);
	for (size_t i = 0; i < TABLE_LEN; i++) {
		enter(&h, table[i].from, &a);
		for (size_t b = 0; b < BITS_LEN; b++) {
			if (!(table[i].required & bits[b]))
				continue;
			a = other_values(&h, &table[i]);
			expect_refused(&h, &table[i], &a,
				       IBV_QP_STATE | (table[i].required & ~bits[b]));
			tried++;
		}
	}
	ck_assert_int_eq(tried, 3 + 6 + 5);
	vh_free(&h);
}

VH_TEST(each_bit_too_many_is_einval_and_changes_nothing)
{
	struct vh h;
	struct ibv_qp_attr a;

	vh_make(&h, &vh_defaults);
	for (size_t i = 0; i < TABLE_LEN; i++) {
		enter(&h, table[i].from, &a);
		for (size_t b = 0; b < BITS_LEN; b++) {
			if ((table[i].required | table[i].optional) & bits[b])
				continue;
			a = other_values(&h, &table[i]);
			expect_refused(&h, &table[i], &a,
				       IBV_QP_STATE | table[i].required | bits[b]);
		}
	}
	vh_free(&h);
}

VH_TEST(each_optional_bit_is_taken)
{
	struct vh h;
	struct ibv_qp_attr a;

	vh_make(&h, &vh_defaults);
	for (size_t i = 0; i < TABLE_LEN; i++) {
		for (size_t b = 0; b < BITS_LEN; b++) {
			if (!(table[i].optional & bits[b]))
				continue;
			enter(&h, table[i].from, &a);
			a.qp_state = table[i].to;
			a.cur_qp_state = table[i].from;
			int rc = ibv_modify_qp(h.end[0].qp, &a,
					       IBV_QP_STATE | table[i].required | bits[b]);
			/* RoCE has no alternate path */
			int want = bits[b] == IBV_QP_ALT_PATH ? EOPNOTSUPP : 0;

			ck_assert_msg(rc == want, "%d -> %d with optional 0x%x: %d", table[i].from,
				      table[i].to, bits[b], rc);
		}
	}
	vh_free(&h);
}

VH_TEST(every_transition_that_is_not_in_the_table_is_einval)
{
	struct vh h;
	struct ibv_qp_attr a;

	vh_make(&h, &vh_defaults);
	for (int from = IBV_QPS_RESET; from <= IBV_QPS_ERR; from++) {
		if (from == IBV_QPS_SQE)
			continue; /* not a state of reliable connections */
		enter(&h, (enum ibv_qp_state)from, &a);
		for (int to = IBV_QPS_RESET; to <= IBV_QPS_UNKNOWN; to++) {
			bool known = false;

			for (size_t i = 0; i < TABLE_LEN; i++)
				known |= (int)table[i].from == from && (int)table[i].to == to;
			if (known)
				continue;
			const struct transition t = {(enum ibv_qp_state)from, (enum ibv_qp_state)to,
						     0, 0};

			a = other_values(&h, &t);
			expect_refused(&h, &t, &a, IBV_QP_STATE);
		}
	}
	vh_free(&h);
}

VH_TEST(a_wrong_current_state_is_einval)
{
	struct vh h;
	struct ibv_qp_attr a;

	vh_make(&h, &vh_defaults);
	enter(&h, IBV_QPS_RTS, &a);
	a.cur_qp_state = IBV_QPS_SQD;
	ck_assert_int_eq(ibv_modify_qp(h.end[0].qp, &a, IBV_QP_CUR_STATE), EINVAL);
	a.cur_qp_state = IBV_QPS_RTS;
	ck_assert_int_eq(ibv_modify_qp(h.end[0].qp, &a, IBV_QP_CUR_STATE), 0);
	vh_free(&h);
}

/* Each value out of range, at the transition that takes it. */
VH_TEST(values_out_of_range_are_einval)
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
	REFUSES(IBV_QPS_RESET, VH_INIT_MASK, IBV_QPS_INIT, a.port_num = 0);
	REFUSES(IBV_QPS_RESET, VH_INIT_MASK, IBV_QPS_INIT, a.port_num = 2);
	REFUSES(IBV_QPS_RESET, VH_INIT_MASK, IBV_QPS_INIT, a.pkey_index = 4000);
	REFUSES(IBV_QPS_RESET, VH_INIT_MASK, IBV_QPS_INIT, a.qp_access_flags = 1 << 12);
	REFUSES(IBV_QPS_INIT, VH_RTR_MASK, IBV_QPS_RTR, a.path_mtu = (enum ibv_mtu)0);
	REFUSES(IBV_QPS_INIT, VH_RTR_MASK, IBV_QPS_RTR, a.path_mtu = (enum ibv_mtu)6);
	REFUSES(IBV_QPS_INIT, VH_RTR_MASK, IBV_QPS_RTR, a.dest_qp_num = 1 << 24);
	REFUSES(IBV_QPS_INIT, VH_RTR_MASK, IBV_QPS_RTR, a.rq_psn = 1 << 24);
	REFUSES(IBV_QPS_INIT, VH_RTR_MASK, IBV_QPS_RTR, a.max_dest_rd_atomic = 200);
	REFUSES(IBV_QPS_INIT, VH_RTR_MASK, IBV_QPS_RTR, a.min_rnr_timer = 32);
	REFUSES(IBV_QPS_INIT, VH_RTR_MASK, IBV_QPS_RTR, a.ah_attr.is_global = 0);
	REFUSES(IBV_QPS_INIT, VH_RTR_MASK, IBV_QPS_RTR, a.ah_attr.port_num = 2);
	REFUSES(IBV_QPS_INIT, VH_RTR_MASK, IBV_QPS_RTR, a.ah_attr.grh.sgid_index = 200);
	REFUSES(IBV_QPS_RTR, VH_RTS_MASK, IBV_QPS_RTS, a.timeout = 32);
	REFUSES(IBV_QPS_RTR, VH_RTS_MASK, IBV_QPS_RTS, a.retry_cnt = 8);
	REFUSES(IBV_QPS_RTR, VH_RTS_MASK, IBV_QPS_RTS, a.rnr_retry = 8);
	REFUSES(IBV_QPS_RTR, VH_RTS_MASK, IBV_QPS_RTS, a.sq_psn = 1 << 24);
	REFUSES(IBV_QPS_RTR, VH_RTS_MASK, IBV_QPS_RTS, a.max_rd_atomic = 200);
#undef REFUSES
	/* a GID that nobody has: the address does not resolve */
	enter(&h, IBV_QPS_INIT, &a);
	a.qp_state = IBV_QPS_RTR;
	a.ah_attr.grh.dgid.raw[15] ^= 0x80;
	ck_assert_int_eq(ibv_modify_qp(qp, &a, VH_RTR_MASK), ETIMEDOUT);
	ck_assert_int_eq(vh_state(qp), IBV_QPS_INIT);
	vh_free(&h);
}

VH_TEST(query_returns_what_modify_set)
{
	struct vh h;
	struct ibv_qp_attr a, q;
	struct ibv_qp_init_attr init;

	vh_make(&h, &vh_defaults);
	enter(&h, IBV_QPS_RTS, &a);
	ck_assert_int_eq(ibv_query_qp(h.end[0].qp, &q, IBV_QP_RATE_LIMIT - 1, &init), 0);
	ck_assert_int_eq(q.qp_state, IBV_QPS_RTS);
	ck_assert_int_eq(q.cur_qp_state, IBV_QPS_RTS);
	ck_assert_int_eq(q.path_mtu, vh_defaults.mtu);
	ck_assert_uint_eq(q.rq_psn, h.end[1].psn);
	ck_assert_uint_eq(q.sq_psn, h.end[0].psn);
	ck_assert_uint_eq(q.dest_qp_num, h.end[1].qp->qp_num);
	ck_assert_uint_eq(q.qp_access_flags, (unsigned int)vh_defaults.access);
	ck_assert_mem_eq(&q.ah_attr.grh.dgid, &h.end[1].gid, sizeof h.end[1].gid);
	ck_assert_uint_eq(q.ah_attr.grh.sgid_index, 3);
	ck_assert_int_eq(q.max_rd_atomic, vh_defaults.rd_atomic);
	ck_assert_int_eq(q.max_dest_rd_atomic, vh_defaults.dest_rd_atomic);
	ck_assert_int_eq(q.min_rnr_timer, vh_defaults.min_rnr_timer);
	ck_assert_int_eq(q.timeout, vh_timeout(&vh_defaults));
	ck_assert_int_eq(q.retry_cnt, vh_defaults.retry_count);
	ck_assert_int_eq(q.rnr_retry, vh_defaults.rnr_retry);
	ck_assert_int_eq(q.port_num, 1);
	ck_assert_uint_ge(q.cap.max_send_wr, (uint32_t)vh_defaults.send_wr);
	ck_assert_uint_ge(init.cap.max_inline_data, (uint32_t)vh_defaults.inline_bytes);
	ck_assert_int_eq(init.qp_type, IBV_QPT_RC);
	ck_assert_ptr_eq(init.send_cq, h.end[0].send_cq);
	vh_free(&h);
}

VH_TEST(posting_too_early_is_refused)
{
	struct vh h;
	struct ibv_qp_attr a;
	struct vh_wr w;

	vh_make(&h, &vh_defaults);
	for (int s = IBV_QPS_RESET; s <= IBV_QPS_RTR; s++) {
		enter(&h, (enum ibv_qp_state)s, &a);
		vh_wr_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, 1, 0, 8);
		struct ibv_send_wr *bad = NULL;

		ck_assert_int_eq(ibv_post_send(h.end[0].qp, &w.wr, &bad), EINVAL);
		ck_assert_ptr_eq(bad, &w.wr);
		ck_assert_int_eq(vh_recv_try(&h, 0, 1, 0, 8), s == IBV_QPS_RESET ? EINVAL : 0);
	}
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

VH_TEST(sqd_holds_new_requests_until_rts)
{
	struct vh h;
	struct ibv_async_event event;
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};

	vh_pair(&h, &vh_defaults);
	ck_assert_int_eq(ibv_modify_qp(h.end[0].qp, &a, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY),
			 0);
	ck_assert_int_eq(ibv_get_async_event(h.end[0].ctx, &event), 0);
	ck_assert_int_eq(event.event_type, IBV_EVENT_SQ_DRAINED);
	ck_assert_ptr_eq(event.element.qp, h.end[0].qp);
	ibv_ack_async_event(&event);
	vh_send(&h, 0, IBV_WR_RDMA_WRITE, 1, 0, 100);
	os_sleep_ns(VH_SECOND_NS / 100);
	vh_expect_none(h.end[0].send_cq);
	vh_to_state(h.end[0].qp, IBV_QPS_RTS);
	vh_expect(h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vh_free(&h);
}

VH_TEST(queue_pairs_beyond_the_limits_are_refused)
{
	struct vh h;

	vh_make(&h, &vh_defaults);
	struct vh_end *e = &h.end[0];
	static const enum ibv_qp_type type[] = {IBV_QPT_RAW_PACKET};

	for (size_t i = 0; i < sizeof type / sizeof type[0]; i++) {
		struct ibv_qp_init_attr init = vh_init_attr(&h.options, e->send_cq, e->recv_cq);

		init.qp_type = type[i];
		ck_assert_ptr_null(ibv_create_qp(e->pd, &init));
		ck_assert_int_eq(errno, EOPNOTSUPP);
	}
	struct ibv_device_attr dev;

	ck_assert_int_eq(ibv_query_device(e->ctx, &dev), 0);
#define REFUSES(change)                                                                            \
	do {                                                                                       \
		struct ibv_qp_init_attr init = vh_init_attr(&h.options, e->send_cq, e->recv_cq);   \
		change;                                                                            \
		ck_assert_ptr_null(ibv_create_qp(e->pd, &init));                                   \
		ck_assert_int_eq(errno, EINVAL);                                                   \
	} while (0)
	REFUSES(init.cap.max_send_wr = (uint32_t)dev.max_qp_wr + 1);
	REFUSES(init.cap.max_recv_wr = (uint32_t)dev.max_qp_wr + 1);
	REFUSES(init.cap.max_send_sge = (uint32_t)dev.max_sge + 1);
	REFUSES(init.cap.max_recv_sge = (uint32_t)dev.max_sge + 1);
	REFUSES(init.cap.max_inline_data = 1 << 20);
	REFUSES(init.send_cq = NULL);
	REFUSES(init.recv_cq = NULL);
#undef REFUSES
	vh_free(&h);
}

int main(void)
{
	TCase *t = tcase_create("states");

	VH_ADD(t, each_transition_works_with_exactly_the_required_bits);
	VH_ADD(t, each_required_bit_that_is_missing_is_einval_and_changes_nothing);
	VH_ADD(t, each_bit_too_many_is_einval_and_changes_nothing);
	VH_ADD(t, each_optional_bit_is_taken);
	VH_ADD(t, every_transition_that_is_not_in_the_table_is_einval);
	VH_ADD(t, a_wrong_current_state_is_einval);
	VH_ADD(t, values_out_of_range_are_einval);
	VH_ADD(t, query_returns_what_modify_set);
	VH_ADD(t, posting_too_early_is_refused);
	VH_ADD(t, reset_forgets_queues_and_unpolled_completions);
	VH_ADD(t, sqd_holds_new_requests_until_rts);
	VH_ADD(t, queue_pairs_beyond_the_limits_are_refused);
	return vh_suite_run("verbs queue pair states", t);
}
