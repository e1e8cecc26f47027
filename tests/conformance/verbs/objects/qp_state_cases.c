/* SPDX-License-Identifier: BSD-3-Clause */
/* The state machine: for each kind of queue pair each transition with exactly the bits that it
 * requires, with each of them missing, with each that it does not know, with each optional one; and
 * every pair of states between which there is no transition. A refused change changes nothing. */
#include "tests/conformance/verbs/objects/qp_transitions.h"

/* Automatic path migration: a feature of its own that hardly any device has. */
#define MIGRATION (IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE)

static const char *const state_name[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
static const char *const kind_name[] = {"RC", "UC", "UD"};
static const enum ibv_qp_type kind_type[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};

static const char *table_label(int param)
{
	static char text[40];
	const struct transition *t = &table[param];

	snprintf(text, sizeof text, "%s_%s_to_%s", kind_name[t->kind], state_name[t->from],
		 state_name[t->to]);
	return text;
}

static void need_kind(int kind)
{
	if (kind == UC && !vs_has(VS_NEED_UC))
		vs_skip("no unreliable connections (UC)");
	if (kind == UD && !vs_has(VS_NEED_UD))
		vs_skip("no datagrams and address handles (UD)");
}

static void need_state(enum ibv_qp_state state)
{
	if (state == IBV_QPS_SQD && !vs_has(VS_NEED_SQD))
		vs_skip("no draining of send queues (SQD)");
}

static void make(struct vs_pair *p, int kind)
{
	struct vs_options o = vs_defaults;

	need_kind(kind);
	o.type = kind_type[kind];
	vs_make(p, &o);
	if (kind == UD)
		p->end[0].ah = vs_ah(p, 0);
}

/* A send that cannot be done here: the send queue of a queue pair without acknowledges stops. */
static void stop_sending(struct vs_pair *p)
{
	struct ibv_wc wc;
	struct vs_wr w;

	vs_fill(&w, p, 0, IBV_WR_SEND, 1, 0, 8);
	w.sge.lkey ^= 0x5a;
	CHECK_EQ(vs_post(p->end[0].qp, &w.wr), 0);
	CHECK(vs_wait(p->end[0].send_cq, &wc, VS_LONG));
	CHECK(wc.status != IBV_WC_SUCCESS); /* which error is another case's matter */
	vs_await_state(p->end[0].qp, IBV_QPS_SQE);
}

static bool drained(void *arg)
{
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;

	CHECK_EQ(ibv_query_qp(arg, &a, VS_QP_ALL, &init), 0);
	return !a.sq_draining;
}

/* End 0 in this state, from wherever it is. */
static void enter(struct vs_pair *p, enum ibv_qp_state state)
{
	struct ibv_qp *qp = p->end[0].qp;
	struct ibv_qp_attr a = vs_attr(p, 0);

	vs_set_state(qp, IBV_QPS_RESET);
	vs_raise(qp, &a, state < IBV_QPS_RTS ? state : IBV_QPS_RTS);
	if (state == IBV_QPS_SQE)
		stop_sending(p);
	else if (state > IBV_QPS_RTS)
		vs_set_state(qp, state);
	if (state == IBV_QPS_SQD) /* attributes are changed when it is drained */
		CHECK(vs_poll_until(drained, qp, VS_LONG));
	CHECK_EQ(vs_state(qp), state);
}

/* Values for every bit that could be set, and that differ from those that are. */
static struct ibv_qp_attr others(struct vs_pair *p, const struct transition *t)
{
	struct ibv_qp_attr a = vs_attr(p, 0);

	a.cur_qp_state = t->from;
	a.qp_state = t->to;
	a.qp_access_flags = IBV_ACCESS_REMOTE_READ;
	a.path_mtu = IBV_MTU_512;
	a.timeout = 3;
	a.retry_cnt = 1;
	a.rnr_retry = 1;
	a.rq_psn = 0x777;
	a.sq_psn = 0x888;
	a.qkey = 0x22222222;
	a.max_rd_atomic = a.max_dest_rd_atomic = 1;
	a.min_rnr_timer = 30;
	a.dest_qp_num = 0x4321;
	a.alt_ah_attr = a.ah_attr;
	a.alt_port_num = vs_port_num;
	return a;
}

static void query(struct ibv_qp *qp, struct ibv_qp_attr *a)
{
	struct ibv_qp_init_attr init;

	memset(a, 0, sizeof *a);
	CHECK_EQ(ibv_query_qp(qp, a, VS_QP_ALL, &init), 0);
}

/* Fields that show a change that was made. */
static void expect_same(const struct ibv_qp_attr *a, const struct ibv_qp_attr *b)
{
#define SAME(field) CHECK_EQ(a->field, b->field)
	SAME(qp_state);
	SAME(cur_qp_state);
	SAME(path_mtu);
	SAME(qkey);
	SAME(rq_psn);
	SAME(sq_psn);
	SAME(dest_qp_num);
	SAME(qp_access_flags);
	SAME(pkey_index);
	SAME(max_rd_atomic);
	SAME(max_dest_rd_atomic);
	SAME(min_rnr_timer);
	SAME(timeout);
	SAME(retry_cnt);
	SAME(rnr_retry);
#undef SAME
}

static void expect_refused(struct vs_pair *p, const struct transition *t, int mask)
{
	struct ibv_qp *qp = p->end[0].qp;
	struct ibv_qp_attr before, after, a = others(p, t);

	query(qp, &before);
	int rc = ibv_modify_qp(qp, &a, mask);

	CHECK_MSG(rc == EINVAL, "%s -> %s with mask 0x%x: %d (%s), expected EINVAL",
		  state_name[t->from], t->to <= IBV_QPS_ERR ? state_name[t->to] : "?", mask, rc,
		  strerror(rc));
	query(qp, &after);
	expect_same(&after, &before);
	CHECK_EQ(qp->state, t->from);
}

CASE(rights_to_flush_are_taken)
{
	const unsigned int flush =
		1u << 8 | 1u << 9; /* GLOBAL, PERSISTENT: older headers lack them */
	struct vs_pair p;

	vs_make(&p, &vs_defaults);
	struct ibv_qp_attr a = vs_attr(&p, 0);

	a.qp_access_flags |= flush;
	vs_raise(p.end[0].qp, &a, IBV_QPS_RTS);
	vs_connect(&p, 1, IBV_QPS_RTS);
	vs_send(&p, 0, IBV_WR_RDMA_WRITE, 1, 0, 8);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_free(&p);
}

CASE(exactly_the_required_bits, .count = TABLE, .label = table_label)
{
	const struct transition *t = &table[vs_param];
	struct vs_pair p;

	need_state(t->from);
	need_state(t->to);
	make(&p, t->kind);
	enter(&p, t->from);
	struct ibv_qp_attr a = vs_attr(&p, 0);

	a.qp_state = t->to;
	CHECK_CODE(ibv_modify_qp(p.end[0].qp, &a, IBV_QP_STATE | t->required), 0);
	CHECK_EQ(p.end[0].qp->state, t->to);
	CHECK_EQ(vs_state(p.end[0].qp), t->to);
	vs_free(&p);
}

CASE(a_bit_less_or_more_is_einval_and_changes_nothing, .count = TABLE, .label = table_label)
{
	const struct transition *t = &table[vs_param];
	struct vs_pair p;

	need_state(t->from);
	make(&p, t->kind);
	enter(&p, t->from);
	for (size_t b = 0; b < BITS; b++) {
		int full = IBV_QP_STATE | t->required;

		if (t->required & bits[b])
			expect_refused(&p, t, full & ~bits[b]);
		else if (!(t->optional & bits[b]))
			expect_refused(&p, t, full | bits[b]);
	}
	vs_free(&p);
}

CASE(optional_bits_are_taken, .count = OPTIONAL, .label = table_label)
{
	const struct transition *t = &table[vs_param];
	struct vs_pair p;

	need_state(t->from);
	need_state(t->to);
	make(&p, t->kind);
	for (size_t b = 0; b < BITS; b++) {
		if (!(t->optional & bits[b] & ~MIGRATION))
			continue;
		enter(&p, t->from);
		struct ibv_qp_attr a = vs_attr(&p, 0);

		a.qp_state = t->to;
		a.cur_qp_state = t->from;
		int rc = ibv_modify_qp(p.end[0].qp, &a, IBV_QP_STATE | t->required | bits[b]);

		CHECK_MSG(!rc, "optional bit 0x%x: %s", bits[b], strerror(rc));
		CHECK_EQ(vs_state(p.end[0].qp), t->to);
	}
	vs_free(&p);
}

/* ---- no transition -------------------------------------------------------------------------- */

static const char *from_label(int param)
{
	static char text[40];

	snprintf(text, sizeof text, "%s_%s", kind_name[param / 7], state_name[param % 7]);
	return text;
}

static bool in_table(int kind, int from, int to)
{
	if (to == IBV_QPS_RESET || (to == IBV_QPS_ERR && from != IBV_QPS_RESET))
		return true;
	for (int i = 0; i < TABLE; i++)
		if (table[i].kind == kind && (int)table[i].from == from && (int)table[i].to == to)
			return true;
	return false;
}

CASE(what_is_not_in_the_table_is_einval, .count = 21, .label = from_label)
{
	int kind = vs_param / 7, from = vs_param % 7;
	struct vs_pair p;

	need_state((enum ibv_qp_state)from);
	make(&p, kind);
	if (kind == RC && from == IBV_QPS_SQE) { /* no state of reliable connections */
		vs_free(&p);
		return;
	}
	enter(&p, (enum ibv_qp_state)from);
	for (int to = IBV_QPS_RESET; to <= IBV_QPS_UNKNOWN + 3; to++) {
		const struct transition t = {kind, (enum ibv_qp_state)from, (enum ibv_qp_state)to,
					     0, 0};

		if (!in_table(kind, from, to))
			expect_refused(&p, &t, IBV_QP_STATE);
	}
	vs_free(&p);
}

CASE(reset_to_err_is_not_refused_or_is_einval)
{
	/* The specification has "any state but RESET"; Linux lets RESET in. Either, but whole. */
	struct vs_pair p;
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_ERR};

	vs_make(&p, &vs_defaults);
	int rc = ibv_modify_qp(p.end[0].qp, &a, IBV_QP_STATE);

	CHECK(rc == 0 || rc == EINVAL);
	CHECK_EQ(vs_state(p.end[0].qp), rc ? IBV_QPS_RESET : IBV_QPS_ERR);
	vs_free(&p);
}

CASE(no_state_at_all_stays_where_it_is)
{
	struct vs_pair p;

	vs_pair(&p, &vs_defaults);
	struct ibv_qp_attr a = vs_attr(&p, 0);

	a.qp_state = IBV_QPS_RESET; /* not in the mask */
	a.min_rnr_timer = 20;
	CHECK_CODE(ibv_modify_qp(p.end[0].qp, &a, IBV_QP_MIN_RNR_TIMER), 0);
	CHECK_EQ(vs_state(p.end[0].qp), IBV_QPS_RTS);
	struct ibv_qp_attr now;

	query(p.end[0].qp, &now);
	CHECK_EQ(now.min_rnr_timer, 20);
	vs_free(&p);
}

CASE(a_wrong_current_state_is_einval)
{
	struct vs_pair p;

	vs_pair(&p, &vs_defaults);
	struct ibv_qp_attr a = vs_attr(&p, 0);

	a.qp_state = IBV_QPS_RTS;
	a.cur_qp_state = IBV_QPS_SQD;
	CHECK_CODE(ibv_modify_qp(p.end[0].qp, &a, IBV_QP_STATE | IBV_QP_CUR_STATE), EINVAL);
	CHECK_EQ(vs_state(p.end[0].qp), IBV_QPS_RTS);
	vs_free(&p);
}

/* ---- values --------------------------------------------------------------------------------- */

#define SPOIL(id, statement)                                                                       \
	static void id(struct ibv_qp_attr *a, const struct vs_pair *p)                             \
	{                                                                                          \
		(void)p;                                                                           \
		statement;                                                                         \
	}
SPOIL(port_0, a->port_num = 0)
SPOIL(port_99, a->port_num = 99)
SPOIL(pkey_outside, a->pkey_index = vs_port_attr(p->end[0].ctx).pkey_tbl_len)
SPOIL(mtu_0, a->path_mtu = (enum ibv_mtu)0)
SPOIL(mtu_6, a->path_mtu = (enum ibv_mtu)6)
SPOIL(no_grh, a->ah_attr.is_global = 0)
SPOIL(av_port_0, a->ah_attr.port_num = 0)
SPOIL(av_port_99, a->ah_attr.port_num = 99)
SPOIL(sgid_outside, a->ah_attr.grh.sgid_index = 255)
SPOIL(dest_rd_atomic,
      a->max_dest_rd_atomic = (uint8_t)(vs_device_attr(p->end[0].ctx).max_qp_rd_atom + 1))
SPOIL(rnr_timer_32, a->min_rnr_timer = 32)
SPOIL(timeout_32, a->timeout = 32)
SPOIL(retry_8, a->retry_cnt = 8)
SPOIL(rnr_retry_8, a->rnr_retry = 8)
SPOIL(rd_atomic,
      a->max_rd_atomic = (uint8_t)(vs_device_attr(p->end[0].ctx).max_qp_init_rd_atom + 1))

static const struct value {
	const char *name;
	enum ibv_qp_state to;
	void (*spoil)(struct ibv_qp_attr *a, const struct vs_pair *p);
} values[] = {
	{"port_0", IBV_QPS_INIT, port_0},
	{"port_99", IBV_QPS_INIT, port_99},
	{"pkey_index", IBV_QPS_INIT, pkey_outside},
	{"mtu_0", IBV_QPS_RTR, mtu_0},
	{"mtu_6", IBV_QPS_RTR, mtu_6},
	{"no_grh", IBV_QPS_RTR, no_grh},
	{"address_port_0", IBV_QPS_RTR, av_port_0},
	{"address_port_99", IBV_QPS_RTR, av_port_99},
	{"sgid_index", IBV_QPS_RTR, sgid_outside},
	{"max_dest_rd_atomic", IBV_QPS_RTR, dest_rd_atomic},
	{"min_rnr_timer_32", IBV_QPS_RTR, rnr_timer_32},
	{"timeout_32", IBV_QPS_RTS, timeout_32},
	{"retry_cnt_8", IBV_QPS_RTS, retry_8},
	{"rnr_retry_8", IBV_QPS_RTS, rnr_retry_8},
	{"max_rd_atomic", IBV_QPS_RTS, rd_atomic},
};
#define VALUES (int)(sizeof values / sizeof values[0])

static const char *value_label(int param)
{
	return values[param].name;
}

CASE(a_value_out_of_range_is_einval, .count = VALUES, .label = value_label, .needs = NEED(ROCE))
{
	const struct value *v = &values[vs_param];
	struct vs_pair p;

	vs_make(&p, &vs_defaults);
	struct ibv_qp_attr a = vs_attr(&p, 0);

	vs_raise(p.end[0].qp, &a, (enum ibv_qp_state)(v->to - 1));
	struct ibv_qp_attr bad = a;

	bad.qp_state = v->to;
	v->spoil(&bad, &p);
	int rc = ibv_modify_qp(p.end[0].qp, &bad, vs_mask(IBV_QPT_RC, v->to));

	/* a GID that is not there: "no data", as the query of that entry reports */
	CHECK_MSG(rc == EINVAL || (v->spoil == sgid_outside && rc == ENODATA), "%d (%s)", rc,
		  strerror(rc));
	CHECK_EQ(vs_state(p.end[0].qp), v->to - 1);
	a.qp_state = v->to; /* and now right */
	CHECK_CODE(ibv_modify_qp(p.end[0].qp, &a, vs_mask(IBV_QPT_RC, v->to)), 0);
	vs_free(&p);
}

CASE(a_larger_mtu_than_the_ports_is_einval)
{
	struct vs_pair p;

	vs_make(&p, &vs_defaults);
	enum ibv_mtu active = vs_port_attr(p.end[0].ctx).active_mtu;
	struct ibv_qp_attr a = vs_attr(&p, 0);

	if (active < IBV_MTU_4096) {
		vs_raise(p.end[0].qp, &a, IBV_QPS_INIT);
		a.qp_state = IBV_QPS_RTR;
		a.path_mtu = IBV_MTU_4096;
		CHECK_CODE(ibv_modify_qp(p.end[0].qp, &a, vs_mask(IBV_QPT_RC, IBV_QPS_RTR)),
			   EINVAL);
	} else {
		a.path_mtu = IBV_MTU_4096;
		vs_raise(p.end[0].qp, &a, IBV_QPS_RTR);
	}
	vs_free(&p);
}

/* ---- a life --------------------------------------------------------------------------------- */

CASE(a_queue_pair_that_was_reset_is_like_new)
{
	struct vs_pair p;

	vs_pair(&p, &vs_defaults);
	for (int round = 0; round < 3; round++) {
		vs_pattern(p.end[0].buffer, 3000, (uint32_t)round);
		vs_send(&p, 0, IBV_WR_RDMA_WRITE, 1, 0, 3000);
		vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
		vs_expect_pattern(p.end[1].buffer, 3000, (uint32_t)round);
		for (int i = 0; i < 2; i++) {
			vs_set_state(p.end[i].qp, IBV_QPS_RESET);
			p.end[i].psn = (p.end[i].psn + 77) & 0xffffff;
		}
		for (int i = 0; i < 2; i++)
			vs_connect(&p, i, IBV_QPS_RTS);
	}
	vs_free(&p);
}

CASE(after_an_error_the_pair_is_connected_again)
{
	struct vs_pair p;
	struct vs_wr w;

	vs_pair(&p, &vs_defaults);
	vs_fill(&w, &p, 0, IBV_WR_RDMA_WRITE, 1, 0, 8);
	w.wr.wr.rdma.rkey ^= 0x5a;
	vs_expect_failure(&p, &w, IBV_WC_REM_ACCESS_ERR);
	for (int i = 0; i < 2; i++)
		vs_set_state(p.end[i].qp, IBV_QPS_RESET);
	for (int i = 0; i < 2; i++)
		vs_connect(&p, i, IBV_QPS_RTS);
	vs_send(&p, 0, IBV_WR_RDMA_WRITE, 2, 0, 8);
	vs_expect(p.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL);
	vs_free(&p);
}
