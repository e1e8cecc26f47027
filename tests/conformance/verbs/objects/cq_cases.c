/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues: sizes, polling, overrun. Channels are in channel_cases.c. */
#include "tests/conformance/verbs/suite.h"

static struct ibv_cq *make(struct ibv_context *ctx, int cqe)
{
	struct ibv_cq *cq = ibv_create_cq(ctx, cqe, NULL, NULL, 0);

	CHECK_MSG(cq, "%d entries: %s", cqe, strerror(errno));
	return cq;
}

CASE(a_queue_has_room_for_what_was_asked)
{
	struct ibv_context *ctx = vs_open(0);
	int max = vs_device_attr(ctx).max_cqe;
	const int sizes[] = {1, 2, 3, 63, 64, 65, 1000, max};

	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		struct ibv_cq *cq = make(ctx, sizes[i] < max ? sizes[i] : max);

		CHECK_GE(cq->cqe, sizes[i] < max ? sizes[i] : max);
		CHECK_EQ(ibv_destroy_cq(cq), 0);
	}
	CHECK_EQ(ibv_close_device(ctx), 0);
}

CASE(no_entries_or_too_many_are_einval)
{
	struct ibv_context *ctx = vs_open(0);
	int max = vs_device_attr(ctx).max_cqe;

	CHECK_NULL(ibv_create_cq(ctx, 0, NULL, NULL, 0), EINVAL);
	CHECK_NULL(ibv_create_cq(ctx, -1, NULL, NULL, 0), EINVAL);
	CHECK_NULL(ibv_create_cq(ctx, max + 1, NULL, NULL, 0), EINVAL);
	CHECK_EQ(ibv_close_device(ctx), 0);
}

CASE(completion_vectors_are_those_of_the_context)
{
	struct ibv_context *ctx = vs_open(0);
	struct ibv_cq *cq = ibv_create_cq(ctx, 10, NULL, NULL, ctx->num_comp_vectors - 1);

	CHECK_MSG(cq, "%s", strerror(errno));
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	CHECK_NULL(ibv_create_cq(ctx, 10, NULL, NULL, ctx->num_comp_vectors), EINVAL);
	CHECK_NULL(ibv_create_cq(ctx, 10, NULL, NULL, -1), EINVAL);
	CHECK_EQ(ibv_close_device(ctx), 0);
}

CASE(a_queue_knows_its_context_and_the_users)
{
	struct ibv_context *ctx = vs_open(0);
	int mine;
	struct ibv_cq *cq = ibv_create_cq(ctx, 10, &mine, NULL, 0);

	CHECK(cq);
	CHECK(cq->context == ctx);
	CHECK(cq->cq_context == &mine);
	CHECK(!cq->channel);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	CHECK_EQ(ibv_close_device(ctx), 0);
}

CASE(an_empty_queue_gives_nothing)
{
	struct ibv_context *ctx = vs_open(0);
	struct ibv_cq *cq = make(ctx, 10);
	struct ibv_wc wc[3];

	CHECK_EQ(ibv_poll_cq(cq, 1, wc), 0);
	CHECK_EQ(ibv_poll_cq(cq, 3, wc), 0);
	CHECK_EQ(ibv_poll_cq(cq, 0, wc), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	CHECK_EQ(ibv_close_device(ctx), 0);
}

struct count {
	struct ibv_cq *cq;
	struct ibv_wc wc[40];
	int n, most;
};

/* Polls what is there, up to `most`. */
static bool count_done(void *arg)
{
	struct count *c = arg;
	int n = ibv_poll_cq(c->cq, c->most - c->n, c->wc + c->n);

	CHECK_GE(n, 0);
	c->n += n;
	return c->n == c->most;
}

CASE(a_poll_takes_as_many_as_asked_and_there_are)
{
	struct vs_pair p;
	struct ibv_wc wc[20];

	vs_pair(&p, &vs_defaults);
	for (uint64_t i = 0; i < 10; i++)
		vs_send(&p, 0, IBV_WR_RDMA_WRITE, i, 0, 8);
	vs_sleep_ns(100 * VS_MS); /* long enough for any target; else the loop below finds it out */
	int n = ibv_poll_cq(p.end[0].send_cq, 3, wc);

	CHECK_MSG(n <= 3, "%d completions in a poll for 3", n);
	while (n < 10) {
		vs_expect(p.end[0].send_cq, (uint64_t)n, IBV_WC_SUCCESS, NULL);
		n++;
	}
	CHECK_EQ(ibv_poll_cq(p.end[0].send_cq, 20, wc), 0);
	vs_free(&p);
}

CASE(completions_come_in_the_order_of_the_requests)
{
	struct vs_pair p;
	struct count c = {.most = 16};

	vs_pair(&p, &vs_defaults);
	c.cq = p.end[0].send_cq;
	for (uint64_t i = 0; i < 16; i++) /* no WRITE sends what a READ brings */
		vs_send(&p, 0, i % 3 == 1 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, 100 + i,
			i % 3 == 1 ? 4096 : 0, i % 3 == 1 ? 5000 : 8);
	CHECK(vs_poll_until(count_done, &c, VS_LONG));
	for (int i = 0; i < 16; i++) {
		CHECK_EQ(c.wc[i].wr_id, 100 + i);
		CHECK_EQ(c.wc[i].status, IBV_WC_SUCCESS);
		CHECK_EQ(c.wc[i].opcode, i % 3 == 1 ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE);
	}
	vs_free(&p);
}

CASE(one_queue_serves_sends_and_receives)
{
	struct vs_options o = vs_defaults;
	struct vs_pair p;
	struct ibv_wc wc;
	int sent = 0, received = 0;

	o.one_cq = true;
	vs_pair(&p, &o);
	for (uint64_t i = 0; i < 5; i++) {
		vs_recv(&p, 0, 100 + i, 4096, 64);
		vs_recv(&p, 1, 200 + i, 4096, 64);
	}
	for (uint64_t i = 0; i < 5; i++) {
		vs_send(&p, 0, IBV_WR_SEND, i, 0, 8);
		vs_send(&p, 1, IBV_WR_SEND, 10 + i, 0, 8);
	}
	for (int i = 0; i < 10; i++) {
		CHECK(vs_wait(p.end[0].send_cq, &wc, VS_LONG));
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		if (wc.opcode & IBV_WC_RECV)
			CHECK_EQ(wc.wr_id, 100 + received++);
		else
			CHECK_EQ(wc.wr_id, sent++);
	}
	CHECK_EQ(sent, 5);
	CHECK_EQ(received, 5);
	vs_free(&p);
}

CASE(several_queue_pairs_share_a_queue)
{
	struct vs_pair p;
	struct ibv_qp *qp[4][2];
	uint64_t next[4] = {0};
	struct ibv_wc wc;

	vs_pair(&p, &vs_defaults);
	for (int i = 0; i < 4; i++) {
		for (int s = 0; s < 2; s++)
			qp[i][s] = vs_qp(&p, s);
		for (int s = 0; s < 2; s++) {
			struct ibv_qp_attr a = vs_attr_to(&p, s, qp[i][!s]->qp_num);

			vs_raise(qp[i][s], &a, IBV_QPS_RTS);
		}
	}
	for (uint64_t r = 0; r < 5; r++) {
		for (int i = 0; i < 4; i++) {
			struct vs_wr w;

			vs_fill(&w, &p, 0, IBV_WR_RDMA_WRITE, r, 64 * (uint64_t)i, 64);
			CHECK_EQ(vs_post(qp[i][0], &w.wr), 0);
		}
	}
	for (int k = 0; k < 20; k++) {
		CHECK(vs_wait(p.end[0].send_cq, &wc, VS_LONG));
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		int i = 0;

		while (i < 4 && qp[i][0]->qp_num != wc.qp_num)
			i++;
		CHECK_MSG(i < 4, "completion of queue pair 0x%x", wc.qp_num);
		CHECK_EQ(wc.wr_id, next[i]++); /* in order for each queue pair */
	}
	for (int i = 0; i < 4; i++)
		for (int s = 0; s < 2; s++)
			CHECK_EQ(ibv_destroy_qp(qp[i][s]), 0);
	vs_free(&p);
}

CASE(a_queue_with_a_queue_pair_is_busy, .misuse = true)
{
	struct vs_pair p;

	vs_make(&p, &vs_defaults);
	CHECK_CODE(ibv_destroy_cq(p.end[0].send_cq), EBUSY);
	CHECK_CODE(ibv_destroy_cq(p.end[0].recv_cq), EBUSY);
	vs_connect(&p, 0, IBV_QPS_RTS);
	vs_connect(&p, 1, IBV_QPS_RTS);
	vs_send(&p, 0, IBV_WR_RDMA_WRITE, 1, 0, 8); /* still good */
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_free(&p);
}

/* ---- overrun -------------------------------------------------------------------------------- */

/* A pair whose end 0 has a queue for a few completions only, and more of them than fit. */
static void overrun(struct vs_pair *p)
{
	struct vs_options o = vs_defaults;

	o.cqe = 1;
	o.send_wr = 256;
	vs_pair(p, &o);
	int room = p->end[0].send_cq->cqe;

	NEEDS_AT_LEAST(256, room + 1);
	for (int i = 0; i <= room; i++)
		vs_send(p, 0, IBV_WR_RDMA_WRITE, (uint64_t)i, 0, 8);
}

CASE(more_completions_than_fit_are_an_error_of_the_queue, .misuse = true)
{
	struct vs_pair p;
	struct ibv_async_event e;

	overrun(&p);
	vs_expect_async(p.end[0].ctx, IBV_EVENT_CQ_ERR, &e);
	CHECK(e.element.cq == p.end[0].send_cq);
	vs_free(&p);
}

CASE(a_queue_pair_does_not_survive_its_queue, .misuse = true)
{
	struct vs_pair p;

	overrun(&p);
	vs_await_state(p.end[0].qp, IBV_QPS_ERR);
	vs_free(&p);
}

CASE(as_many_completions_as_fit_are_no_overrun)
{
	struct vs_options o = vs_defaults;
	struct vs_pair p;
	struct ibv_async_event e;

	o.cqe = 1;
	o.send_wr = 256;
	vs_pair(&p, &o);
	int room = p.end[0].send_cq->cqe;

	NEEDS_AT_LEAST(256, room);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < room; i++)
			vs_send(&p, 0, IBV_WR_RDMA_WRITE, (uint64_t)i, 0, 8);
		vs_sleep_ns(20 * VS_MS);
		for (int i = 0; i < room; i++)
			vs_expect(p.end[0].send_cq, (uint64_t)i, IBV_WC_SUCCESS, NULL);
	}
	CHECK(!vs_async(p.end[0].ctx, &e, 0));
	vs_free(&p);
}
