/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues beyond the plain ones: extended polling and its fields, timestamps, overruns
 * that are ignored, moderation of events, resizing. */
#include "tests/conformance/verbs_harness.h"

static const uint64_t all_fields = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
				   IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

static struct ibv_cq_ex *cq_ex(struct ibv_context *ctx, uint32_t cqe, uint64_t fields,
			       uint32_t flags)
{
	struct ibv_cq_init_attr_ex a = {.cqe = cqe,
					.wc_flags = fields,
					.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
					.flags = flags};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(ctx, &a);

	ck_assert_ptr_nonnull(cq);
	ck_assert_int_ge(cq->cqe, (int)cqe);
	return cq;
}

/* Two ends of which end 0 sends, and end 1 receives, through extended queues. */
struct ex {
	struct vh h;
	struct ibv_cq_ex *cq[2];
};

static void ex_make(struct ex *x, const struct vh_options *o, uint32_t cqe, uint32_t flags)
{
	vh_make(&x->h, o);
	for (int i = 0; i < 2; i++) {
		struct vh_end *e = &x->h.end[i];

		x->cq[i] = cq_ex(e->ctx, cqe, all_fields, flags);
		ck_assert_int_eq(ibv_destroy_qp(e->qp), 0);
		struct ibv_cq *cq = ibv_cq_ex_to_cq(x->cq[i]);
		struct ibv_qp_init_attr init =
			vh_init_attr(o, i ? e->send_cq : cq, i ? cq : e->recv_cq);

		e->qp = ibv_create_qp(e->pd, &init);
		ck_assert_ptr_nonnull(e->qp);
	}
	vh_connect_end(&x->h, 0, IBV_QPS_RTS);
	vh_connect_end(&x->h, 1, IBV_QPS_RTS);
}

static void ex_free(struct ex *x)
{
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(ibv_destroy_qp(x->h.end[i].qp), 0);
		ck_assert_int_eq(ibv_destroy_cq(ibv_cq_ex_to_cq(x->cq[i])), 0);
	}
	for (int i = 0; i < 2; i++) { /* so that what the harness made can go its way */
		struct vh_end *e = &x->h.end[i];
		struct ibv_qp_init_attr init = vh_init_attr(&x->h.options, e->send_cq, e->recv_cq);

		e->qp = ibv_create_qp(e->pd, &init);
	}
	vh_free(&x->h);
}

/* start_poll that finds something within 60 s. */
static void ex_start(struct ibv_cq_ex *cq)
{
	struct ibv_poll_cq_attr none = {0};
	uint64_t deadline_ns = os_now_ns() + 60 * VH_SECOND_NS;

	for (;;) {
		const struct wait w = {.on = cq,
				       .want = os_event_seq(cq),
				       .kind = WAIT_OBJECT,
				       .mask = WAIT_MASK_ALL,
				       .why = "a completion (test)",
				       .from = {-1, -1, -1, "HCA"},
				       .deadline_ns = deadline_ns};
		int rc = ibv_start_poll(cq, &none);

		if (!rc)
			return;
		ck_assert_int_eq(rc, ENOENT);
		ck_assert_int_eq(os_wait_one(&w, NULL), 0);
	}
}

/* ---- extended polling ----------------------------------------------------------------------- */

VH_TEST(extended_polling_reads_the_fields_of_each_completion)
{
	struct ex x;
	int rc = 0;

	ex_make(&x, &vh_defaults, 16, 0);
	for (uint64_t i = 0; i < 4; i++)
		vh_recv(&x.h, 1, 10 + i, i * 100, 100);
	for (uint64_t i = 0; i < 4; i++)
		vh_send(&x.h, 0, i % 2 ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND, i, 0,
			50 + (uint32_t)i);
	ex_start(x.cq[0]);
	for (uint64_t i = 0; i < 4; i++) {
		if (i)
			while ((rc = ibv_next_poll(x.cq[0])) == ENOENT)
				os_sleep_ns(10000);
		ck_assert_int_eq(rc, 0);
		ck_assert_uint_eq(x.cq[0]->wr_id, i);
		ck_assert_int_eq(x.cq[0]->status, IBV_WC_SUCCESS);
		ck_assert_int_eq(ibv_wc_read_opcode(x.cq[0]), IBV_WC_SEND);
		ck_assert_uint_eq(ibv_wc_read_qp_num(x.cq[0]), x.h.end[0].qp->qp_num);
	}
	ck_assert_int_eq(ibv_next_poll(x.cq[0]), ENOENT);
	ibv_end_poll(x.cq[0]);
	ex_start(x.cq[1]);
	for (uint64_t i = 0; i < 4; i++) {
		if (i)
			ck_assert_int_eq(ibv_next_poll(x.cq[1]), 0);
		ck_assert_uint_eq(x.cq[1]->wr_id, 10 + i);
		ck_assert_int_eq(ibv_wc_read_opcode(x.cq[1]), IBV_WC_RECV);
		ck_assert_uint_eq(ibv_wc_read_byte_len(x.cq[1]), 50 + i);
		ck_assert_uint_eq(ibv_wc_read_wc_flags(x.cq[1]), i % 2 ? IBV_WC_WITH_IMM : 0);
		if (i % 2)
			ck_assert_uint_eq(be32toh(ibv_wc_read_imm_data(x.cq[1])), i);
		ck_assert_uint_eq(ibv_wc_read_qp_num(x.cq[1]), x.h.end[1].qp->qp_num);
		ck_assert_uint_eq(ibv_wc_read_slid(x.cq[1]), 0);
		ck_assert_uint_eq(ibv_wc_read_dlid_path_bits(x.cq[1]), 0);
	}
	ibv_end_poll(x.cq[1]);
	ex_free(&x);
}

VH_TEST(an_empty_extended_queue_is_not_held)
{
	struct ibv_poll_cq_attr none = {0}, wrong = {.comp_mask = 1};
	struct ex x;
	struct ibv_wc wc;

	ex_make(&x, &vh_defaults, 4, IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(ibv_start_poll(x.cq[0], &none), ENOENT);
	ck_assert_int_eq(ibv_start_poll(x.cq[0], &wrong), EINVAL);
	/* the plain poll works on it too */
	vh_send(&x.h, 0, IBV_WR_RDMA_WRITE, 7, 0, 10);
	vh_expect(ibv_cq_ex_to_cq(x.cq[0]), 7, IBV_WC_SUCCESS, &wc);
	ck_assert_int_eq(wc.opcode, IBV_WC_RDMA_WRITE);
	ex_free(&x);
}

VH_TEST(an_extended_completion_that_failed_has_status_and_vendor_error)
{
	struct ex x;
	struct vh_wr w;

	ex_make(&x, &vh_defaults, 16, 0);
	vh_wr_fill(&w, &x.h, 0, IBV_WR_RDMA_WRITE, 5, 0, 10);
	w.wr.wr.rdma.rkey ^= 0xff;
	ck_assert_int_eq(vh_post(x.h.end[0].qp, &w.wr), 0);
	ex_start(x.cq[0]);
	ck_assert_uint_eq(x.cq[0]->wr_id, 5);
	ck_assert_int_eq(x.cq[0]->status, IBV_WC_REM_ACCESS_ERR);
	ck_assert_uint_ne(ibv_wc_read_vendor_err(x.cq[0]), 0);
	ck_assert_uint_eq(ibv_wc_read_qp_num(x.cq[0]), x.h.end[0].qp->qp_num);
	ibv_end_poll(x.cq[0]);
	ex_free(&x);
}

/* The other task gets in when the first one ends. */
struct second {
	struct ibv_cq_ex *cq;
	uint64_t wr_id;
	shared_u32 in;
};

static void poll_second(void *arg)
{
	struct second *s = arg;

	ex_start(s->cq);
	shared_store_u32(&s->in, 1, SHARED_RELEASE);
	s->wr_id = s->cq->wr_id;
	ibv_end_poll(s->cq);
}

VH_TEST(tasks_poll_an_extended_queue_one_after_the_other)
{
	const struct os_thread_attr attr = {.name = "second", .rank = -1};
	struct os_thread *thread;
	struct second s;
	struct ex x;

	ex_make(&x, &vh_defaults, 16, 0);
	vh_send(&x.h, 0, IBV_WR_RDMA_WRITE, 1, 0, 10);
	vh_send(&x.h, 0, IBV_WR_RDMA_WRITE, 2, 0, 10);
	ex_start(x.cq[0]);
	ck_assert_uint_eq(x.cq[0]->wr_id, 1);
	s = (struct second){.cq = x.cq[0]};
	ck_assert_int_eq(os_thread_start(&thread, &attr, poll_second, &s), 0);
	os_sleep_ns(1000000);
	ck_assert_uint_eq(shared_load_u32(&s.in, SHARED_ACQUIRE), 0);
	ck_assert_uint_eq(x.cq[0]->wr_id, 1);
	ibv_end_poll(x.cq[0]);
	ck_assert_int_eq(os_thread_join(thread), 0);
	ck_assert_uint_eq(s.wr_id, 2);
	ex_free(&x);
}

VH_TEST(extended_creation_refuses_what_the_hca_does_not_have)
{
	struct ibv_context *ctx = vh_open(0);
	const struct {
		struct ibv_cq_init_attr_ex a;
		int error;
	} bad[] = {
		{{.cqe = 0}, EINVAL},
		{{.cqe = 1u << 30}, EINVAL},
		{{.cqe = 4, .comp_vector = 1000}, EINVAL},
		{{.cqe = 4, .comp_mask = 1 << 9}, EOPNOTSUPP},
		{{.cqe = 4, .wc_flags = 1ull << 40}, EOPNOTSUPP},
		{{.cqe = 4, .wc_flags = IBV_WC_EX_WITH_TM_INFO}, EOPNOTSUPP},
		{{.cqe = 4, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .flags = 1 << 9}, EOPNOTSUPP},
	};

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct ibv_cq_init_attr_ex a = bad[i].a;

		errno = 0;
		ck_assert_ptr_null(ibv_create_cq_ex(ctx, &a));
		ck_assert_int_eq(errno, bad[i].error);
	}
	/* flags that the mask does not name are not looked at */
	struct ibv_cq_init_attr_ex a = {
		.cqe = 4, .flags = 1 << 9, .comp_vector = (uint32_t)ctx->num_comp_vectors - 1};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(ctx, &a);

	ck_assert_ptr_nonnull(cq);
	ck_assert_int_eq(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	ck_assert_int_eq(ibv_close_device(ctx), 0);
}

/* ---- time ----------------------------------------------------------------------------------- */

static uint64_t raw_clock(struct ibv_context *ctx)
{
	struct ibv_values_ex v = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};

	ck_assert_int_eq(ibv_query_rt_values_ex(ctx, &v), 0);
	ck_assert_uint_eq(v.comp_mask, IBV_VALUES_MASK_RAW_CLOCK);
	ck_assert_int_eq(v.raw_clock.tv_sec, 0);
	return (uint64_t)v.raw_clock.tv_nsec;
}

VH_TEST(timestamps_lie_between_the_readings_of_the_clock_around_them)
{
	struct ex x;
	uint64_t last, wall_last = 0;

	ex_make(&x, &vh_defaults, 16, 0);
	last = raw_clock(x.h.end[0].ctx);
	for (uint64_t i = 0; i < 8; i++) {
		uint64_t before = raw_clock(x.h.end[0].ctx);

		vh_send(&x.h, 0, IBV_WR_RDMA_WRITE, i, 0, 1000);
		ex_start(x.cq[0]);
		uint64_t ts = ibv_wc_read_completion_ts(x.cq[0]);
		uint64_t wall = ibv_wc_read_completion_wallclock_ns(x.cq[0]);

		ibv_end_poll(x.cq[0]);
		ck_assert_uint_ge(ts, before);
		ck_assert_uint_gt(ts, last);
		ck_assert_uint_le(ts, raw_clock(x.h.end[0].ctx));
		ck_assert_uint_gt(wall, 1500000000ull * VH_SECOND_NS); /* after 2017 */
		ck_assert_uint_gt(wall, wall_last);
		last = ts;
		wall_last = wall;
	}
	struct ibv_values_ex v = {.comp_mask = 1u << 7};

	ck_assert_int_eq(ibv_query_rt_values_ex(x.h.end[0].ctx, &v), EINVAL);
	ex_free(&x);
}

/* ---- full ----------------------------------------------------------------------------------- */

VH_TEST(an_overrun_that_is_ignored_loses_the_oldest_completions)
{
	struct ex x;
	struct ibv_wc wc;

	ex_make(&x, &vh_defaults, 4, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN);
	ck_assert_int_eq(x.cq[0]->cqe, 4);
	for (uint64_t i = 0; i < 10; i++)
		vh_send(&x.h, 0, IBV_WR_RDMA_WRITE, i, 0, 10);
	os_sleep_ns(20000000);
	for (uint64_t i = 6; i < 10; i++)
		vh_expect(ibv_cq_ex_to_cq(x.cq[0]), i, IBV_WC_SUCCESS, NULL);
	ck_assert_int_eq(ibv_poll_cq(ibv_cq_ex_to_cq(x.cq[0]), 1, &wc), 0);
	ck_assert_int_eq(vh_state(x.h.end[0].qp), IBV_QPS_RTS);
	/* all slots are free again: the last completion said so */
	for (uint64_t i = 0; i < 16; i++)
		vh_send(&x.h, 0, IBV_WR_RDMA_WRITE, i, 0, 10);
	os_sleep_ns(20000000);
	for (uint64_t i = 12; i < 16; i++)
		vh_expect(ibv_cq_ex_to_cq(x.cq[0]), i, IBV_WC_SUCCESS, NULL);
	ex_free(&x);
}

VH_TEST(a_resized_queue_keeps_its_completions)
{
	struct vh_options o = vh_defaults;
	struct vh h;

	o.cqe = 8;
	o.send_wr = 64;
	vh_pair(&h, &o);
	struct ibv_cq *cq = h.end[0].send_cq;

	vh_send(&h, 0, IBV_WR_RDMA_WRITE, 99, 0, 10);
	vh_expect(cq, 99, IBV_WC_SUCCESS, NULL);
	for (uint64_t i = 0; i < 8; i++)
		vh_send(&h, 0, IBV_WR_RDMA_WRITE, i, 0, 10);
	os_sleep_ns(20000000);
	ck_assert_int_eq(ibv_resize_cq(cq, 4), EINVAL);
	ck_assert_int_eq(ibv_resize_cq(cq, 0), EINVAL);
	ck_assert_int_eq(ibv_resize_cq(cq, 1 << 30), EINVAL);
	ck_assert_int_eq(cq->cqe, 8);
	ck_assert_int_eq(ibv_resize_cq(cq, 33), 0);
	ck_assert_int_ge(cq->cqe, 33);
	for (uint64_t i = 8; i < 33; i++)
		vh_send(&h, 0, IBV_WR_RDMA_WRITE, i, 0, 10);
	for (uint64_t i = 0; i < 33; i++)
		vh_expect(cq, i, IBV_WC_SUCCESS, NULL);
	ck_assert_int_eq(ibv_resize_cq(cq, 1), 0);
	vh_send(&h, 0, IBV_WR_RDMA_WRITE, 40, 0, 10);
	vh_expect(cq, 40, IBV_WC_SUCCESS, NULL);
	vh_free(&h);
}

/* ---- events --------------------------------------------------------------------------------- */

/* End 0's send queue tells a channel. */
struct told {
	struct vh h;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
};

static void told_make(struct told *t)
{
	vh_make(&t->h, &vh_defaults);
	struct vh_end *e = &t->h.end[0];

	t->channel = ibv_create_comp_channel(e->ctx);
	ck_assert_ptr_nonnull(t->channel);
	ck_assert_int_eq(ibv_destroy_qp(e->qp), 0);
	t->cq = ibv_create_cq(e->ctx, 64, t, t->channel, 0);
	ck_assert_ptr_nonnull(t->cq);
	struct ibv_qp_init_attr init = vh_init_attr(&t->h.options, t->cq, e->recv_cq);

	e->qp = ibv_create_qp(e->pd, &init);
	vh_connect_end(&t->h, 0, IBV_QPS_RTS);
	vh_connect_end(&t->h, 1, IBV_QPS_RTS);
}

static void told_free(struct told *t)
{
	struct vh_end *e = &t->h.end[0];

	ck_assert_int_eq(ibv_destroy_qp(e->qp), 0);
	ck_assert_int_eq(ibv_destroy_cq(t->cq), 0);
	ck_assert_int_eq(ibv_destroy_comp_channel(t->channel), 0);
	struct ibv_qp_init_attr init = vh_init_attr(&t->h.options, e->send_cq, e->recv_cq);

	e->qp = ibv_create_qp(e->pd, &init);
	vh_free(&t->h);
}

static void told_event(struct told *t)
{
	struct ibv_cq *cq = NULL;
	void *context = NULL;

	ck_assert_int_eq(ibv_get_cq_event(t->channel, &cq, &context), 0);
	ck_assert_ptr_eq(cq, t->cq);
	ck_assert_ptr_eq(context, t);
	ibv_ack_cq_events(cq, 1);
}

VH_TEST(moderation_holds_an_event_back_until_there_are_enough)
{
	struct ibv_modify_cq_attr a = {.attr_mask = IBV_CQ_ATTR_MODERATE,
				       .moderate = {.cq_count = 4, .cq_period = 60000}};
	struct told t;
	struct ibv_wc wc[8];

	told_make(&t);
	ck_assert_int_eq(ibv_modify_cq(t.cq, &a), 0);
	ck_assert_int_eq(ibv_req_notify_cq(t.cq, 0), 0);
	uint64_t start_ns = os_now_ns();

	for (uint64_t i = 0; i < 4; i++)
		vh_send(&t.h, 0, IBV_WR_RDMA_WRITE, i, 0, 10);
	told_event(&t);
	ck_assert_uint_lt(os_now_ns() - start_ns, 60000000);
	ck_assert_int_eq(ibv_poll_cq(t.cq, 8, wc), 4);
	told_free(&t);
}

VH_TEST(moderation_ends_with_its_period)
{
	struct ibv_modify_cq_attr a = {.attr_mask = IBV_CQ_ATTR_MODERATE,
				       .moderate = {.cq_count = 4, .cq_period = 5000}};
	struct told t;
	struct ibv_wc wc[8];

	told_make(&t);
	ck_assert_int_eq(ibv_modify_cq(t.cq, &a), 0);
	ck_assert_int_eq(ibv_req_notify_cq(t.cq, 0), 0);
	uint64_t start_ns = os_now_ns();

	vh_send(&t.h, 0, IBV_WR_RDMA_WRITE, 1, 0, 10);
	told_event(&t);
	ck_assert_uint_ge(os_now_ns() - start_ns, 5000000);
	ck_assert_int_eq(ibv_poll_cq(t.cq, 8, wc), 1);
	/* switched off: each one by itself, at once */
	a.moderate.cq_period = 0;
	ck_assert_int_eq(ibv_modify_cq(t.cq, &a), 0);
	ck_assert_int_eq(ibv_req_notify_cq(t.cq, 0), 0);
	vh_send(&t.h, 0, IBV_WR_RDMA_WRITE, 2, 0, 10);
	told_event(&t);
	vh_expect(t.cq, 2, IBV_WC_SUCCESS, NULL);
	a.attr_mask = 0;
	ck_assert_int_eq(ibv_modify_cq(t.cq, &a), EINVAL);
	a.attr_mask = 1u << 6;
	ck_assert_int_eq(ibv_modify_cq(t.cq, &a), EOPNOTSUPP);
	told_free(&t);
}

VH_TEST(switching_moderation_off_tells_what_was_held_back)
{
	struct ibv_modify_cq_attr a = {.attr_mask = IBV_CQ_ATTR_MODERATE,
				       .moderate = {.cq_count = 100, .cq_period = 65535}};
	struct told t;

	told_make(&t);
	ck_assert_int_eq(ibv_modify_cq(t.cq, &a), 0);
	ck_assert_int_eq(ibv_req_notify_cq(t.cq, 0), 0);
	vh_send(&t.h, 0, IBV_WR_RDMA_WRITE, 1, 0, 10);
	vh_expect(t.cq, 1, IBV_WC_SUCCESS, NULL);
	uint64_t start_ns = os_now_ns();

	a.moderate.cq_count = 0;
	ck_assert_int_eq(ibv_modify_cq(t.cq, &a), 0);
	told_event(&t);
	ck_assert_uint_lt(os_now_ns() - start_ns, 60000000);
	told_free(&t);
}

int main(void)
{
	TCase *t = tcase_create("cq");

	VH_ADD(t, extended_polling_reads_the_fields_of_each_completion);
	VH_ADD(t, an_empty_extended_queue_is_not_held);
	VH_ADD(t, an_extended_completion_that_failed_has_status_and_vendor_error);
	VH_ADD(t, tasks_poll_an_extended_queue_one_after_the_other);
	VH_ADD(t, extended_creation_refuses_what_the_hca_does_not_have);
	VH_ADD(t, timestamps_lie_between_the_readings_of_the_clock_around_them);
	VH_ADD(t, an_overrun_that_is_ignored_loses_the_oldest_completions);
	VH_ADD(t, a_resized_queue_keeps_its_completions);
	VH_ADD(t, moderation_holds_an_event_back_until_there_are_enough);
	VH_ADD(t, moderation_ends_with_its_period);
	VH_ADD(t, switching_moderation_off_tells_what_was_held_back);
	return vh_suite_run("verbs cq", t);
}
