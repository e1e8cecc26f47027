/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues: rules that the double checks more strictly than others, and one plan of
 * faults. The common behaviour is tested in srq_cases.c. */
#include "tests/conformance/verbs/harness/world.h"

#define PAIRS 2

/* PAIRS connections from end 0 to end 1, whose queue pairs receive from one shared queue. */
struct shared {
	struct vs_pair h;
	struct ibv_srq *srq;
	struct ibv_qp *qp[PAIRS][2];
};

static struct ibv_srq *srq_make(struct ibv_pd *pd, uint32_t wr, uint32_t sge)
{
	struct ibv_srq_init_attr a = {.attr = {.max_wr = wr, .max_sge = sge, .srq_limit = 3}};
	struct ibv_srq *srq = ibv_create_srq(pd, &a);

	CHECK(srq);
	CHECK_GE(a.attr.max_wr, wr);
	CHECK_GE(a.attr.max_sge, sge);
	return srq;
}

static struct ibv_qp *srq_qp(struct shared *s, int side)
{
	const struct vs_end *e = &s->h.end[side];
	struct ibv_qp_init_attr a = vw_init_attr(&s->h.options, e->send_cq, e->recv_cq);

	a.srq = side ? s->srq : NULL;
	struct ibv_qp *qp = ibv_create_qp(e->pd, &a);

	CHECK(qp);
	return qp;
}

static void srq_connect(struct shared *s, int pair, int side)
{
	const struct vs_end *e = s->h.end;
	struct ibv_qp_attr a = vw_attr(&s->h.options, &e[!side].gid, s->qp[pair][!side]->qp_num,
				       e[side].psn, e[!side].psn);

	vs_raise(s->qp[pair][side], &a, IBV_QPS_RTS);
}

static void shared_make(struct shared *s, const struct vs_options *o, struct ibv_srq *srq)
{
	vs_make(&s->h, o);
	s->srq = srq ? srq : srq_make(s->h.end[1].pd, 16, 2);
	for (int i = 0; i < PAIRS; i++) {
		for (int side = 0; side < 2; side++)
			s->qp[i][side] = srq_qp(s, side);
		for (int side = 0; side < 2; side++)
			srq_connect(s, i, side);
	}
}

static void shared_free(struct shared *s)
{
	for (int i = 0; i < PAIRS; i++)
		for (int side = 0; side < 2; side++)
			CHECK_EQ(ibv_destroy_qp(s->qp[i][side]), 0);
	CHECK_EQ(ibv_destroy_srq(s->srq), 0);
	vs_free(&s->h);
}

static int srq_recv_try(struct shared *s, uint64_t wr_id, uint64_t offset, uint32_t bytes)
{
	const struct vs_end *e = &s->h.end[1];
	struct ibv_sge sge = {
		.addr = (uintptr_t)e->buffer + offset, .length = bytes, .lkey = e->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad = NULL;
	int rc = ibv_post_srq_recv(s->srq, &wr, &bad);

	CHECK(bad == (rc ? &wr : NULL));
	return rc;
}

static void srq_recv(struct shared *s, uint64_t wr_id, uint64_t offset, uint32_t bytes)
{
	CHECK_EQ(srq_recv_try(s, wr_id, offset, bytes), 0);
}

static void srq_send(struct shared *s, int pair, enum ibv_wr_opcode opcode, uint64_t wr_id,
		     uint64_t offset, uint32_t bytes)
{
	struct vs_wr w;

	vs_fill(&w, &s->h, 0, opcode, wr_id, offset, bytes);
	w.wr.imm_data = htobe32((uint32_t)wr_id);
	CHECK_EQ(vs_post(s->qp[pair][0], &w.wr), 0);
}

static void srq_sent(struct shared *s, int pair, uint64_t wr_id)
{
	srq_send(s, pair, IBV_WR_SEND, wr_id, 0, 100);
	vs_expect(s->h.end[0].send_cq, wr_id, IBV_WC_SUCCESS, NULL);
}

static void expect_async(struct ibv_context *ctx, enum ibv_event_type type, const void *element)
{
	struct ibv_async_event e;

	CHECK_EQ(ibv_get_async_event(ctx, &e), 0);
	CHECK_MSG(e.event_type == type, "got \"%s\", expected \"%s\"",
		  ibv_event_type_str(e.event_type), ibv_event_type_str(type));
	CHECK(e.element.srq == element);
	ibv_ack_async_event(&e);
}

/* The keys of its receives must be of the shared queue's domain. The queue pair's domain does not
 * matter. */
CASE(the_shared_queues_domain_says_which_keys_are_good)
{
	struct shared s;
	struct vs_end other;

	vw_end_make(&other, 1, &vw_defaults); /* the same device through another context */
	memset(&s, 0, sizeof s);
	vs_make(&s.h, &vw_defaults);
	struct vs_end *e = &s.h.end[1];
	struct ibv_pd *pd = ibv_alloc_pd(e->ctx);
	struct ibv_mr *mr = ibv_reg_mr(pd, e->buffer, VW_BUFFER_BYTES, IBV_ACCESS_LOCAL_WRITE);

	CHECK(mr);
	s.srq = srq_make(pd, 4, 1);
	for (int side = 0; side < 2; side++)
		s.qp[0][side] = srq_qp(&s, side);
	for (int side = 0; side < 2; side++)
		srq_connect(&s, 0, side);
	struct ibv_mr *mine = e->mr;

	e->mr = mr;
	srq_recv(&s, 1, 0, 100);
	e->mr = mine;
	srq_recv(&s, 2, 0, 100);
	srq_sent(&s, 0, 3);
	vs_expect(e->recv_cq, 1, IBV_WC_SUCCESS, NULL);
	srq_send(&s, 0, IBV_WR_SEND, 4, 0, 100);
	vs_expect(s.h.end[0].send_cq, 4, IBV_WC_REM_OP_ERR, NULL);
	vs_expect(e->recv_cq, 2, IBV_WC_LOC_PROT_ERR, NULL);
	sim_expect_misuse("verbs-destroy-order: ibv_dealloc_pd");
	CHECK_EQ(ibv_dealloc_pd(pd), EBUSY);
	for (int side = 0; side < 2; side++)
		CHECK_EQ(ibv_destroy_qp(s.qp[0][side]), 0);
	CHECK_EQ(ibv_destroy_srq(s.srq), 0);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
	vs_free(&s.h);
	vs_end_free(&other);
}

/* Only the program's poll frees a slot, as in other queues. */
CASE(a_slot_of_a_shared_queue_is_free_when_its_completion_was_polled)
{
	struct shared s;

	shared_make(&s, &vw_defaults, NULL);
	for (uint64_t i = 0; i < 16; i++)
		srq_recv(&s, i, 0, 100);
	CHECK_EQ(srq_recv_try(&s, 99, 0, 100), ENOMEM);
	srq_sent(&s, 0, 1);
	srq_sent(&s, 1, 2);
	CHECK_EQ(srq_recv_try(&s, 99, 0, 100), ENOMEM);
	vs_expect(s.h.end[1].recv_cq, 0, IBV_WC_SUCCESS, NULL);
	srq_recv(&s, 16, 0, 100);
	CHECK_EQ(srq_recv_try(&s, 99, 0, 100), ENOMEM);
	/* the reset of a queue pair removes its completions, and frees their slots */
	vs_set_state(s.qp[1][1], IBV_QPS_RESET);
	vs_expect_none(s.h.end[1].recv_cq);
	srq_recv(&s, 17, 0, 100);
	CHECK_EQ(srq_recv_try(&s, 99, 0, 100), ENOMEM);
	shared_free(&s);
}

CASE(a_shared_queue_that_fails_takes_its_queue_pairs_along, .faults = "verbs.srq nth=2 fatal\n")
{
	struct shared s;

	shared_make(&s, &vw_defaults, NULL);
	srq_recv(&s, 1, 0, 100);
	CHECK_EQ(srq_recv_try(&s, 2, 0, 100), EINVAL);
	expect_async(s.h.end[1].ctx, IBV_EVENT_SRQ_ERR, s.srq);
	expect_async(s.h.end[1].ctx, IBV_EVENT_QP_LAST_WQE_REACHED, s.qp[0][1]);
	expect_async(s.h.end[1].ctx, IBV_EVENT_QP_LAST_WQE_REACHED, s.qp[1][1]);
	CHECK_EQ(vs_state(s.qp[0][1]), IBV_QPS_ERR);
	CHECK_EQ(vs_state(s.qp[1][1]), IBV_QPS_ERR);
	shared_free(&s);
}

CASE(a_shared_queue_in_use_is_busy_and_has_no_other_way_in)
{
	struct shared s;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	struct ibv_recv_wr wr = {.wr_id = 1}, *bad = NULL;

	shared_make(&s, &vw_defaults, NULL);
	sim_expect_misuse("verbs-destroy-order: ibv_destroy_srq");
	CHECK_EQ(ibv_destroy_srq(s.srq), EBUSY);
	CHECK_EQ(ibv_post_recv(s.qp[0][1], &wr, &bad), EINVAL);
	CHECK(bad == &wr);
	CHECK(s.qp[0][1]->srq == s.srq);
	CHECK_EQ(ibv_query_qp(s.qp[0][1], &attr, IBV_QP_CAP, &init), 0);
	CHECK(init.srq == s.srq);
	CHECK_EQ(attr.cap.max_recv_wr, 0);
	CHECK_EQ(ibv_query_qp(s.qp[0][0], &attr, IBV_QP_CAP, &init), 0);
	CHECK(!init.srq);
	CHECK_GE(attr.cap.max_recv_wr, (uint32_t)s.h.options.recv_wr);
	shared_free(&s);
}
