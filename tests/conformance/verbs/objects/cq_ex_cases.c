/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues beyond the plain ones: extended polling and its fields, timestamps, moderation
 * of events, resizing. */
#include "tests/conformance/verbs/suite.h"

/* The fields that this device can report. */
static uint64_t all_fields(void)
{
	const uint64_t clock =
		IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

	return IBV_WC_STANDARD_FLAGS | (vs_has(VS_NEED_TIMESTAMP) ? clock : 0);
}

static struct ibv_cq_ex *cq_ex(struct ibv_context *ctx, uint32_t cqe, uint64_t fields,
			       uint32_t flags)
{
	struct ibv_cq_init_attr_ex a = {.cqe = cqe,
					.wc_flags = fields,
					.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
					.flags = flags};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(ctx, &a);

	CHECK(cq);
	CHECK_GE(cq->cqe, (int)cqe);
	return cq;
}

/* Two ends of which end 0 sends, and end 1 receives, through extended queues. */
struct ex {
	struct vs_pair h;
	struct ibv_cq_ex *cq[2];
};

static void ex_make(struct ex *x, const struct vs_options *o, uint32_t cqe, uint32_t flags)
{
	vs_make(&x->h, o);
	for (int i = 0; i < 2; i++) {
		struct vs_end *e = &x->h.end[i];

		x->cq[i] = cq_ex(e->ctx, cqe, all_fields(), flags);
		CHECK_EQ(ibv_destroy_qp(e->qp), 0);
		struct ibv_cq *cq = ibv_cq_ex_to_cq(x->cq[i]);
		struct ibv_qp_init_attr init = vs_init_attr(&x->h, i);

		*(i ? &init.recv_cq : &init.send_cq) = cq;

		e->qp = ibv_create_qp(e->pd, &init);
		CHECK(e->qp);
	}
	vs_connect(&x->h, 0, IBV_QPS_RTS);
	vs_connect(&x->h, 1, IBV_QPS_RTS);
}

static void ex_free(struct ex *x)
{
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(ibv_destroy_qp(x->h.end[i].qp), 0);
		x->h.end[i].qp = NULL;
		CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(x->cq[i])), 0);
	}
	vs_free(&x->h);
}

static bool ex_found(void *arg)
{
	struct ibv_poll_cq_attr none = {0};
	int rc = ibv_start_poll(arg, &none);

	CHECK(rc == 0 || rc == ENOENT);
	return rc == 0;
}

/* start_poll, until it finds something. */
static void ex_start(struct ibv_cq_ex *cq)
{
	CHECK(vs_poll_until(ex_found, cq, VS_LONG));
}

/* ---- extended polling ----------------------------------------------------------------------- */

CASE(extended_polling_reads_the_fields_of_each_completion, .needs = NEED(CQ_EX))
{
	struct ex x;
	int rc = 0;

	ex_make(&x, &vs_defaults, 16, 0);
	for (uint64_t i = 0; i < 4; i++)
		vs_recv(&x.h, 1, 10 + i, i * 100, 100);
	for (uint64_t i = 0; i < 4; i++)
		vs_send(&x.h, 0, i % 2 ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND, i, 0,
			50 + (uint32_t)i);
	ex_start(x.cq[0]);
	for (uint64_t i = 0; i < 4; i++) {
		if (i)
			while ((rc = ibv_next_poll(x.cq[0])) == ENOENT)
				vs_sleep_ns(10000);
		CHECK_EQ(rc, 0);
		CHECK_EQ(x.cq[0]->wr_id, i);
		CHECK_EQ(x.cq[0]->status, IBV_WC_SUCCESS);
		CHECK_EQ(ibv_wc_read_opcode(x.cq[0]), IBV_WC_SEND);
		CHECK_EQ(ibv_wc_read_qp_num(x.cq[0]), x.h.end[0].qp->qp_num);
	}
	CHECK_EQ(ibv_next_poll(x.cq[0]), ENOENT);
	ibv_end_poll(x.cq[0]);
	ex_start(x.cq[1]);
	for (uint64_t i = 0; i < 4; i++) {
		if (i)
			CHECK_EQ(ibv_next_poll(x.cq[1]), 0);
		CHECK_EQ(x.cq[1]->wr_id, 10 + i);
		CHECK_EQ(ibv_wc_read_opcode(x.cq[1]), IBV_WC_RECV);
		CHECK_EQ(ibv_wc_read_byte_len(x.cq[1]), 50 + i);
		CHECK_EQ(ibv_wc_read_wc_flags(x.cq[1]) & IBV_WC_WITH_IMM,
			 i % 2 ? IBV_WC_WITH_IMM : 0);
		if (i % 2)
			CHECK_EQ(be32toh(ibv_wc_read_imm_data(x.cq[1])), i);
		CHECK_EQ(ibv_wc_read_qp_num(x.cq[1]), x.h.end[1].qp->qp_num);
		CHECK_EQ(ibv_wc_read_slid(x.cq[1]), 0);
		CHECK_EQ(ibv_wc_read_dlid_path_bits(x.cq[1]), 0);
	}
	ibv_end_poll(x.cq[1]);
	ex_free(&x);
}

CASE(an_empty_extended_queue_is_not_held, .needs = NEED(CQ_EX))
{
	struct ibv_poll_cq_attr none = {0};
	struct ex x;
	struct ibv_wc wc;

	ex_make(&x, &vs_defaults, 4, IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(ibv_start_poll(x.cq[0], &none), ENOENT);
	/* the plain poll works on it too */
	vs_send(&x.h, 0, IBV_WR_RDMA_WRITE, 7, 0, 10);
	vs_expect(ibv_cq_ex_to_cq(x.cq[0]), 7, IBV_WC_SUCCESS, &wc);
	CHECK_EQ(wc.opcode, IBV_WC_RDMA_WRITE);
	ex_free(&x);
}

CASE(an_extended_completion_that_failed_has_its_status, .needs = NEED(CQ_EX))
{
	struct ex x;
	struct vs_wr w;

	ex_make(&x, &vs_defaults, 16, 0);
	vs_fill(&w, &x.h, 0, IBV_WR_RDMA_WRITE, 5, 0, 10);
	w.wr.wr.rdma.rkey ^= 0xff;
	CHECK_EQ(vs_post(x.h.end[0].qp, &w.wr), 0);
	ex_start(x.cq[0]);
	CHECK_EQ(x.cq[0]->wr_id, 5);
	CHECK_EQ(x.cq[0]->status, IBV_WC_REM_ACCESS_ERR);
	CHECK_EQ(ibv_wc_read_qp_num(x.cq[0]), x.h.end[0].qp->qp_num);
	ibv_end_poll(x.cq[0]);
	ex_free(&x);
}

/* The other task gets in when the first one ends. */
struct second {
	struct ibv_cq_ex *cq;
	uint64_t wr_id;
	int in;
};

static void poll_second(void *arg)
{
	struct second *s = arg;

	ex_start(s->cq);
	__atomic_store_n(&s->in, 1, __ATOMIC_RELEASE);
	s->wr_id = s->cq->wr_id;
	ibv_end_poll(s->cq);
}

CASE(tasks_poll_an_extended_queue_one_after_the_other, .needs = NEED(CQ_EX))
{
	struct vs_thread *thread;
	struct second s;
	struct ex x;

	ex_make(&x, &vs_defaults, 16, 0);
	vs_send(&x.h, 0, IBV_WR_RDMA_WRITE, 1, 0, 10);
	vs_send(&x.h, 0, IBV_WR_RDMA_WRITE, 2, 0, 10);
	ex_start(x.cq[0]);
	CHECK_EQ(x.cq[0]->wr_id, 1);
	s = (struct second){.cq = x.cq[0]};
	thread = vs_thread_start(poll_second, &s);
	vs_sleep_ns(1000000);
	CHECK_EQ(__atomic_load_n(&s.in, __ATOMIC_ACQUIRE), 0);
	CHECK_EQ(x.cq[0]->wr_id, 1);
	ibv_end_poll(x.cq[0]);
	vs_thread_join(thread);
	CHECK_EQ(s.wr_id, 2);
	ex_free(&x);
}

/* ---- time ----------------------------------------------------------------------------------- */

static uint64_t raw_clock(struct ibv_context *ctx)
{
	struct ibv_values_ex v = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};

	CHECK_EQ(ibv_query_rt_values_ex(ctx, &v), 0);
	CHECK_EQ(v.comp_mask, IBV_VALUES_MASK_RAW_CLOCK);
	CHECK_EQ(v.raw_clock.tv_sec, 0);
	return (uint64_t)v.raw_clock.tv_nsec;
}

CASE(timestamps_lie_between_the_readings_of_the_clock_around_them,
     .needs = NEED(CQ_EX) | NEED(TIMESTAMP))
{
	struct ex x;
	uint64_t last, wall_last = 0;

	ex_make(&x, &vs_defaults, 16, 0);
	last = raw_clock(x.h.end[0].ctx);
	for (uint64_t i = 0; i < 8; i++) {
		uint64_t before = raw_clock(x.h.end[0].ctx);

		vs_send(&x.h, 0, IBV_WR_RDMA_WRITE, i, 0, 1000);
		ex_start(x.cq[0]);
		uint64_t ts = ibv_wc_read_completion_ts(x.cq[0]);
		uint64_t wall = ibv_wc_read_completion_wallclock_ns(x.cq[0]);

		ibv_end_poll(x.cq[0]);
		CHECK_GE(ts, before);
		CHECK(ts > last);
		CHECK(ts <= raw_clock(x.h.end[0].ctx));
		CHECK(wall > 1500000000ull * VS_SECOND); /* after 2017 */
		CHECK(wall > wall_last);
		last = ts;
		wall_last = wall;
	}
	struct ibv_values_ex v = {.comp_mask = 1u << 7};

	CHECK_EQ(ibv_query_rt_values_ex(x.h.end[0].ctx, &v), EINVAL);
	ex_free(&x);
}

/* ---- full ----------------------------------------------------------------------------------- */

CASE(a_resized_queue_keeps_its_completions, .needs = NEED(RESIZE_CQ))
{
	struct vs_options o = vs_defaults;
	struct vs_pair h;

	o.cqe = 8;
	o.send_wr = 64;
	vs_pair(&h, &o);
	struct ibv_cq *cq = h.end[0].send_cq;
	int size = cq->cqe;

	vs_send(&h, 0, IBV_WR_RDMA_WRITE, 99, 0, 10);
	vs_expect(cq, 99, IBV_WC_SUCCESS, NULL);
	for (uint64_t i = 0; i < 8; i++)
		vs_send(&h, 0, IBV_WR_RDMA_WRITE, i, 0, 10);
	vs_sleep_ns(20000000);
	CHECK_EQ(ibv_resize_cq(cq, 4), EINVAL);
	CHECK_EQ(ibv_resize_cq(cq, 0), EINVAL);
	CHECK_EQ(ibv_resize_cq(cq, 1 << 30), EINVAL);
	CHECK_EQ(cq->cqe, size);
	CHECK_EQ(ibv_resize_cq(cq, 33), 0);
	CHECK_GE(cq->cqe, 33);
	for (uint64_t i = 8; i < 33; i++)
		vs_send(&h, 0, IBV_WR_RDMA_WRITE, i, 0, 10);
	for (uint64_t i = 0; i < 33; i++)
		vs_expect(cq, i, IBV_WC_SUCCESS, NULL);
	CHECK_EQ(ibv_resize_cq(cq, 1), 0);
	vs_send(&h, 0, IBV_WR_RDMA_WRITE, 40, 0, 10);
	vs_expect(cq, 40, IBV_WC_SUCCESS, NULL);
	vs_free(&h);
}

/* ---- events --------------------------------------------------------------------------------- */

/* End 0's send queue notifies a channel. */
struct notified {
	struct vs_pair h;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
};

static void notified_make(struct notified *t)
{
	vs_make(&t->h, &vs_defaults);
	struct vs_end *e = &t->h.end[0];

	t->channel = ibv_create_comp_channel(e->ctx);
	CHECK(t->channel);
	CHECK_EQ(ibv_destroy_qp(e->qp), 0);
	t->cq = ibv_create_cq(e->ctx, 64, t, t->channel, 0);
	CHECK(t->cq);
	struct ibv_qp_init_attr init = vs_init_attr(&t->h, 0);

	init.send_cq = t->cq;

	e->qp = ibv_create_qp(e->pd, &init);
	vs_connect(&t->h, 0, IBV_QPS_RTS);
	vs_connect(&t->h, 1, IBV_QPS_RTS);
}

static void notified_free(struct notified *t)
{
	struct vs_end *e = &t->h.end[0];

	CHECK_EQ(ibv_destroy_qp(e->qp), 0);
	CHECK_EQ(ibv_destroy_cq(t->cq), 0);
	CHECK_EQ(ibv_destroy_comp_channel(t->channel), 0);
	e->qp = NULL;
	vs_free(&t->h);
}

static void notified_event(struct notified *t)
{
	struct ibv_cq *cq = NULL;
	void *context = NULL;

	CHECK_EQ(ibv_get_cq_event(t->channel, &cq, &context), 0);
	CHECK((cq) == (t->cq));
	CHECK((context) == (t));
	ibv_ack_cq_events(cq, 1);
}

/* Four completions; did their event come before the period had passed? */
static bool notified_in_time(struct notified *t, uint64_t period_ns)
{
	struct ibv_wc wc[4];
	int n = 0;

	CHECK_EQ(ibv_req_notify_cq(t->cq, 0), 0);
	uint64_t start_ns = vs_now_ns();

	for (uint64_t i = 0; i < 4; i++)
		vs_send(&t->h, 0, IBV_WR_RDMA_WRITE, i, 0, 10);
	notified_event(t);
	bool in_time = vs_now_ns() - start_ns < period_ns;

	while (n < 4) {
		int some = ibv_poll_cq(t->cq, 4 - n, wc);
		CHECK(some >= 0);
		CHECK(!in_time || some == 4);
		n += some;
	}
	return in_time;
}

CASE(moderation_holds_an_event_back_until_there_are_enough, .needs = NEED(MODIFY_CQ))
{
	struct ibv_modify_cq_attr a = {.attr_mask = IBV_CQ_ATTR_MODERATE,
				       .moderate = {.cq_count = 4, .cq_period = 60000}};
	struct notified t;
	bool in_time = false;

	notified_make(&t);
	CHECK_EQ(ibv_modify_cq(t.cq, &a), 0);
	/* a busy machine can take longer than the longest period */
	for (int i = 0; i < 20 && !in_time; i++)
		in_time = notified_in_time(&t, 60000000);
	CHECK(in_time);
	notified_free(&t);
}

CASE(moderation_ends_with_its_period, .needs = NEED(MODIFY_CQ))
{
	struct ibv_modify_cq_attr a = {.attr_mask = IBV_CQ_ATTR_MODERATE,
				       .moderate = {.cq_count = 4, .cq_period = 5000}};
	struct notified t;
	struct ibv_wc wc[8];

	notified_make(&t);
	CHECK_EQ(ibv_modify_cq(t.cq, &a), 0);
	CHECK_EQ(ibv_req_notify_cq(t.cq, 0), 0);
	uint64_t start_ns = vs_now_ns();

	vs_send(&t.h, 0, IBV_WR_RDMA_WRITE, 1, 0, 10);
	notified_event(&t);
	CHECK_GE(vs_now_ns() - start_ns, 5000000);
	CHECK_EQ(ibv_poll_cq(t.cq, 8, wc), 1);
	/* switched off: each one by itself, immediately */
	a.moderate.cq_period = 0;
	CHECK_EQ(ibv_modify_cq(t.cq, &a), 0);
	CHECK_EQ(ibv_req_notify_cq(t.cq, 0), 0);
	vs_send(&t.h, 0, IBV_WR_RDMA_WRITE, 2, 0, 10);
	notified_event(&t);
	vs_expect(t.cq, 2, IBV_WC_SUCCESS, NULL);
	a.attr_mask = 0;
	CHECK_EQ(ibv_modify_cq(t.cq, &a), EINVAL);
	a.attr_mask = 1u << 6;
	CHECK_EQ(ibv_modify_cq(t.cq, &a), EOPNOTSUPP);
	notified_free(&t);
}

CASE(switching_moderation_off_tells_what_was_held_back, .needs = NEED(MODIFY_CQ))
{
	struct ibv_modify_cq_attr a = {.attr_mask = IBV_CQ_ATTR_MODERATE,
				       .moderate = {.cq_count = 100, .cq_period = 65535}};
	struct notified t;

	notified_make(&t);
	CHECK_EQ(ibv_modify_cq(t.cq, &a), 0);
	CHECK_EQ(ibv_req_notify_cq(t.cq, 0), 0);
	vs_send(&t.h, 0, IBV_WR_RDMA_WRITE, 1, 0, 10);
	vs_expect(t.cq, 1, IBV_WC_SUCCESS, NULL);
	uint64_t start_ns = vs_now_ns();

	a.moderate.cq_count = 0;
	CHECK_EQ(ibv_modify_cq(t.cq, &a), 0);
	notified_event(&t);
	CHECK(vs_now_ns() - start_ns < 60000000);
	notified_free(&t);
}
