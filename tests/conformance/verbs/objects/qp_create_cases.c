/* SPDX-License-Identifier: BSD-3-Clause */
/* Making queue pairs: capacities, limits, numbers, and what queries return in each state. */
#include "tests/conformance/verbs/suite.h"

static const struct {
	enum ibv_qp_type type;
	const char *name;
	uint64_t need;
} types[] = {
	{IBV_QPT_RC, "RC", 0},
	{IBV_QPT_UC, "UC", NEED(UC)},
	{IBV_QPT_UD, "UD", NEED(UD)},
};

static const char *type_label(int param)
{
	return types[param].name;
}

/* Options of the case's type of queue pair; skips if the device does not have it. */
static struct vs_options type_options(int param)
{
	struct vs_options o = vs_defaults;

	if (types[param].type == IBV_QPT_UC && !vs_has(VS_NEED_UC))
		vs_skip("no unreliable connections (UC)");
	if (types[param].type == IBV_QPT_UD && !vs_has(VS_NEED_UD))
		vs_skip("no datagrams (UD)");
	o.type = types[param].type;
	return o;
}

CASE(a_new_queue_pair_is_in_reset, .count = 3, .label = type_label)
{
	struct vs_options o = type_options(vs_param);
	struct vs_pair p;

	vs_make(&p, &o);
	struct ibv_qp *qp = p.end[0].qp;

	CHECK_EQ(qp->state, IBV_QPS_RESET);
	CHECK_EQ(vs_state(qp), IBV_QPS_RESET);
	CHECK_EQ(qp->qp_type, o.type);
	CHECK(qp->context == p.end[0].ctx);
	CHECK(qp->pd == p.end[0].pd);
	CHECK(qp->send_cq == p.end[0].send_cq);
	CHECK(qp->recv_cq == p.end[0].recv_cq);
	CHECK(!qp->srq);
	vs_free(&p);
}

CASE(numbers_are_24_bits_and_unlike, .count = 3, .label = type_label)
{
	struct vs_options o = type_options(vs_param);
	struct vs_pair p;
	struct ibv_qp *qp[30];

	vs_make(&p, &o);
	for (int i = 0; i < 30; i++) {
		qp[i] = vs_qp(&p, 0);
		CHECK(qp[i]->qp_num > 1 && qp[i]->qp_num < 1 << 24); /* 0 and 1 are special */
		for (int j = 0; j < i; j++)
			CHECK(qp[i]->qp_num != qp[j]->qp_num);
	}
	for (int i = 0; i < 30; i++)
		CHECK_EQ(ibv_destroy_qp(qp[i]), 0);
	vs_free(&p);
}

CASE(there_is_room_for_what_was_asked, .count = 3, .label = type_label)
{
	struct vs_options o = type_options(vs_param);
	struct vs_pair p;
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr got;

	vs_make(&p, &o);
	struct ibv_qp_init_attr init = vs_init_attr(&p, 0);

	init.cap = (struct ibv_qp_cap){.max_send_wr = 5,
				       .max_recv_wr = 7,
				       .max_send_sge = 2,
				       .max_recv_sge = 3,
				       .max_inline_data = 20};
	struct ibv_qp *qp = ibv_create_qp(p.end[0].pd, &init);

	CHECK_MSG(qp, "%s", strerror(errno));
	CHECK_GE(init.cap.max_send_wr, 5);
	CHECK_GE(init.cap.max_recv_wr, 7);
	CHECK_GE(init.cap.max_send_sge, 2);
	CHECK_GE(init.cap.max_recv_sge, 3);
	CHECK_GE(init.cap.max_inline_data, 20);
	CHECK_EQ(ibv_query_qp(qp, &a, IBV_QP_CAP, &got), 0);
	CHECK_GE(got.cap.max_send_wr, 5);
	CHECK_GE(got.cap.max_recv_wr, 7);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	vs_free(&p);
}

CASE(a_query_tells_the_room_that_there_is)
{
	struct vs_pair p;
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr got;

	vs_make(&p, &vs_defaults);
	struct ibv_qp_init_attr init = vs_init_attr(&p, 0);

	init.cap.max_inline_data = 20;
	struct ibv_qp *qp = ibv_create_qp(p.end[0].pd, &init);

	CHECK(qp);
	CHECK_EQ(ibv_query_qp(qp, &a, IBV_QP_CAP, &got), 0);
	CHECK_EQ(got.cap.max_send_wr, init.cap.max_send_wr);
	CHECK_EQ(got.cap.max_recv_wr, init.cap.max_recv_wr);
	CHECK_EQ(got.cap.max_send_sge, init.cap.max_send_sge);
	CHECK_EQ(got.cap.max_recv_sge, init.cap.max_recv_sge);
	CHECK_EQ(got.cap.max_inline_data, init.cap.max_inline_data);
	CHECK(!memcmp(&a.cap, &got.cap, sizeof got.cap));
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	vs_free(&p);
}

CASE(a_query_of_what_nobody_knows_is_refused)
{
	struct vs_pair p;
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;

	vs_make(&p, &vs_defaults);
	CHECK_CODE(ibv_query_qp(p.end[0].qp, &a, 1 << 30, &init), EOPNOTSUPP);
	vs_free(&p);
}

CASE(a_query_gives_back_how_it_was_made)
{
	struct vs_pair p;
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr got;
	int mine;

	vs_make(&p, &vs_defaults);
	for (int signal_all = 0; signal_all < 2; signal_all++) {
		struct ibv_qp_init_attr init = vs_init_attr(&p, 0);

		init.qp_context = &mine;
		init.sq_sig_all = signal_all;
		struct ibv_qp *qp = ibv_create_qp(p.end[0].pd, &init);

		CHECK(qp);
		CHECK(qp->qp_context == &mine);
		CHECK_EQ(ibv_query_qp(qp, &a, IBV_QP_STATE | IBV_QP_CAP, &got), 0);
		CHECK(got.send_cq == p.end[0].send_cq);
		CHECK(got.recv_cq == p.end[0].recv_cq);
		CHECK(got.qp_context == &mine);
		CHECK(!got.srq);
		CHECK_EQ(got.qp_type, IBV_QPT_RC);
		CHECK_EQ(!!got.sq_sig_all, signal_all);
		CHECK_EQ(ibv_destroy_qp(qp), 0);
	}
	vs_free(&p);
}

/* One field of the capabilities above what the device has; each is a case, for each type. */
enum {
	CAP_SEND_WR,
	CAP_RECV_WR,
	CAP_SEND_SGE,
	CAP_RECV_SGE,
	CAP_INLINE,
	CAP_SEND_MAX,
	CAP_RECV_MAX,
	CAPS
};

static const char *too_much_label(int param)
{
	static const char *const names[CAPS] = {"send_wr", "recv_wr",     "send_sge",   "recv_sge",
						"inline",  "send_wr_max", "recv_wr_max"};
	static char label[64];

	snprintf(label, sizeof label, "%s_%s", type_label(param / CAPS), names[param % CAPS]);
	return label;
}

static void too_much(struct ibv_qp_cap *cap, const struct ibv_device_attr *d, int which)
{
	switch (which) {
	case CAP_SEND_WR:
		cap->max_send_wr = (uint32_t)d->max_qp_wr + 1;
		break;
	case CAP_RECV_WR:
		cap->max_recv_wr = (uint32_t)d->max_qp_wr + 1;
		break;
	case CAP_SEND_SGE:
		cap->max_send_sge = (uint32_t)d->max_sge + 1;
		break;
	case CAP_RECV_SGE:
		cap->max_recv_sge = (uint32_t)d->max_sge + 1;
		break;
	case CAP_INLINE:
		cap->max_inline_data = 1 << 24;
		break;
	case CAP_SEND_MAX:
		cap->max_send_wr = UINT32_MAX;
		break;
	default:
		cap->max_recv_wr = UINT32_MAX;
		break;
	}
}

CASE(more_than_the_device_can_is_refused, .count = 3 * CAPS, .label = too_much_label)
{
	struct vs_options o = type_options(vs_param / CAPS);
	struct vs_pair p;

	vs_make(&p, &o);
	struct ibv_device_attr d = vs_device_attr(p.end[0].ctx);
	struct ibv_qp_init_attr init = vs_init_attr(&p, 0);

	too_much(&init.cap, &d, vs_param % CAPS);
	errno = 0;
	CHECK(!ibv_create_qp(p.end[0].pd, &init));
	CHECK_MSG(errno == EINVAL || errno == ENOMEM, "%s", strerror(errno));
	vs_free(&p);
}

CASE(as_many_entries_as_the_device_can)
{
	struct vs_pair p;

	vs_make(&p, &vs_defaults);
	struct ibv_device_attr d = vs_device_attr(p.end[0].ctx);
	struct ibv_qp_init_attr init = vs_init_attr(&p, 0);

	init.cap.max_send_sge = init.cap.max_recv_sge = (uint32_t)d.max_sge;
	init.cap.max_inline_data = 0;
	struct ibv_qp *qp = ibv_create_qp(p.end[0].pd, &init);

	CHECK_MSG(qp, "%s", strerror(errno));
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	vs_free(&p);
}

CASE(an_unknown_type_is_refused)
{
	struct vs_pair p;

	vs_make(&p, &vs_defaults);
	struct ibv_qp_init_attr init = vs_init_attr(&p, 0);

	init.qp_type = (enum ibv_qp_type)99;
	errno = 0;
	CHECK(!ibv_create_qp(p.end[0].pd, &init));
	CHECK(errno == EINVAL || errno == EOPNOTSUPP);
	vs_free(&p);
}

CASE(many_queue_pairs)
{
	struct vs_pair p;
	enum { N = 200 };
	struct ibv_qp *qp[N];

	vs_make(&p, &vs_defaults);
	NEEDS_AT_LEAST(vs_device_attr(p.end[0].ctx).max_qp, N + 2);
	for (int i = 0; i < N; i++)
		qp[i] = vs_qp(&p, 0);
	for (int i = 0; i < N; i++)
		CHECK_EQ(ibv_destroy_qp(qp[(i * 7) % N]), 0);
	vs_free(&p);
}

CASE(a_number_does_not_come_back_at_once)
{
	struct vs_pair p;

	vs_make(&p, &vs_defaults);
	struct ibv_qp *qp = vs_qp(&p, 0);

	for (int i = 0; i < 10; i++) {
		uint32_t number = qp->qp_num;

		CHECK_EQ(ibv_destroy_qp(qp), 0);
		qp = vs_qp(&p, 0);
		CHECK(qp->qp_num != number);
	}
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	vs_free(&p);
}

/* ---- queries -------------------------------------------------------------------------------- */

CASE(a_query_gives_back_what_was_set)
{
	struct vs_pair p;
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;

	vs_make(&p, &vs_defaults);
	struct ibv_qp_attr set = vs_attr(&p, 0);

	set.retry_cnt = 5;
	set.rnr_retry = 6;
	set.min_rnr_timer = 13;
	set.timeout = 15;
	set.ah_attr.grh.hop_limit = 33;
	set.ah_attr.grh.traffic_class = 0x20;
	vs_raise(p.end[0].qp, &set, IBV_QPS_RTS);
	memset(&a, 0xee, sizeof a);
	CHECK_EQ(ibv_query_qp(p.end[0].qp, &a, VS_QP_ALL, &init), 0);
	CHECK_EQ(a.qp_state, IBV_QPS_RTS);
	CHECK_EQ(a.path_mtu, set.path_mtu);
	CHECK_EQ(a.rq_psn, set.rq_psn);
	CHECK_EQ(a.sq_psn, set.sq_psn);
	CHECK_EQ(a.dest_qp_num, set.dest_qp_num);
	CHECK_EQ(a.qp_access_flags & ~(unsigned int)IBV_ACCESS_LOCAL_WRITE,
		 set.qp_access_flags & ~(unsigned int)IBV_ACCESS_LOCAL_WRITE);
	CHECK_EQ(a.pkey_index, 0);
	CHECK_EQ(a.port_num, vs_port_num);
	CHECK_EQ(a.max_rd_atomic, set.max_rd_atomic);
	CHECK_EQ(a.max_dest_rd_atomic, set.max_dest_rd_atomic);
	CHECK_EQ(a.min_rnr_timer, 13);
	CHECK_EQ(a.timeout, 15);
	CHECK_EQ(a.retry_cnt, 5);
	CHECK_EQ(a.rnr_retry, 6);
	CHECK_EQ(a.sq_draining, 0);
	CHECK_EQ(a.ah_attr.is_global, 1);
	CHECK_EQ(a.ah_attr.port_num, vs_port_num);
	CHECK_EQ(a.ah_attr.grh.sgid_index, set.ah_attr.grh.sgid_index);
	CHECK_EQ(a.ah_attr.grh.hop_limit, 33);
	CHECK_EQ(a.ah_attr.grh.traffic_class, 0x20);
	CHECK(!memcmp(&a.ah_attr.grh.dgid, &set.ah_attr.grh.dgid, sizeof a.ah_attr.grh.dgid));
	vs_free(&p);
}

CASE(the_current_state_is_told_too)
{
	struct vs_pair p;
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;

	vs_pair(&p, &vs_defaults);
	CHECK_EQ(ibv_query_qp(p.end[0].qp, &a, IBV_QP_STATE | IBV_QP_CUR_STATE, &init), 0);
	CHECK_EQ(a.cur_qp_state, IBV_QPS_RTS);
	vs_free(&p);
}

CASE(a_datagram_queue_pair_gives_back_its_q_key, .needs = NEED(UD))
{
	struct vs_options o = vs_defaults;
	struct vs_pair p;
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;

	o.type = IBV_QPT_UD;
	o.qkey = 0x12345678;
	vs_pair(&p, &o);
	CHECK_EQ(ibv_query_qp(p.end[0].qp, &a, VS_QP_ALL, &init), 0);
	CHECK_EQ(a.qkey, 0x12345678);
	CHECK_EQ(a.qp_state, IBV_QPS_RTS);
	CHECK_EQ(a.sq_psn, p.end[0].psn);
	vs_free(&p);
}

CASE(the_state_is_told_in_each_state)
{
	struct vs_pair p;

	vs_make(&p, &vs_defaults);
	struct ibv_qp_attr a = vs_attr(&p, 0);

	for (int s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++) {
		a.qp_state = (enum ibv_qp_state)s;
		CHECK_EQ(ibv_modify_qp(p.end[0].qp, &a, vs_mask(IBV_QPT_RC, a.qp_state)), 0);
		CHECK_EQ(vs_state(p.end[0].qp), s);
		CHECK_EQ(p.end[0].qp->state, s);
	}
	vs_set_state(p.end[0].qp, IBV_QPS_ERR);
	CHECK_EQ(vs_state(p.end[0].qp), IBV_QPS_ERR);
	vs_set_state(p.end[0].qp, IBV_QPS_RESET);
	CHECK_EQ(vs_state(p.end[0].qp), IBV_QPS_RESET);
	vs_free(&p);
}
