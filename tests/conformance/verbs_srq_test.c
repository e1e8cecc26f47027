/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues, where this double is stricter than others, and a fault plan. What all have
 * in common is in verbs/srq.c. */
#include "tests/conformance/verbs_harness.h"

#define PAIRS 2

/* PAIRS connections from end 0 to end 1, whose queue pairs receive from one shared queue. */
struct shared {
	struct vh h;
	struct ibv_srq *srq;
	struct ibv_qp *qp[PAIRS][2];
};

static struct ibv_srq *srq_make(struct ibv_pd *pd, uint32_t wr, uint32_t sge)
{
	struct ibv_srq_init_attr a = {.attr = {.max_wr = wr, .max_sge = sge, .srq_limit = 3}};
	struct ibv_srq *srq = ibv_create_srq(pd, &a);

	ck_assert_ptr_nonnull(srq);
	ck_assert_uint_ge(a.attr.max_wr, wr);
	ck_assert_uint_ge(a.attr.max_sge, sge);
	return srq;
}

static struct ibv_qp *srq_qp(struct shared *s, int side)
{
	const struct vh_end *e = &s->h.end[side];
	struct ibv_qp_init_attr a = vh_init_attr(&s->h.options, e->send_cq, e->recv_cq);

	a.srq = side ? s->srq : NULL;
	struct ibv_qp *qp = ibv_create_qp(e->pd, &a);

	ck_assert_ptr_nonnull(qp);
	return qp;
}

static void srq_connect(struct shared *s, int pair, int side)
{
	const struct vh_end *e = s->h.end;
	struct ibv_qp_attr a = vh_attr(&s->h.options, &e[!side].gid, s->qp[pair][!side]->qp_num,
				       e[side].psn, e[!side].psn);

	vh_connect(s->qp[pair][side], &a, IBV_QPS_RTS);
}

static void shared_make(struct shared *s, const struct vh_options *o, struct ibv_srq *srq)
{
	vh_make(&s->h, o);
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
			ck_assert_int_eq(ibv_destroy_qp(s->qp[i][side]), 0);
	ck_assert_int_eq(ibv_destroy_srq(s->srq), 0);
	vh_free(&s->h);
}

static int srq_recv_try(struct shared *s, uint64_t wr_id, uint64_t offset, uint32_t bytes)
{
	const struct vh_end *e = &s->h.end[1];
	struct ibv_sge sge = {
		.addr = (uintptr_t)e->buffer + offset, .length = bytes, .lkey = e->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad = NULL;
	int rc = ibv_post_srq_recv(s->srq, &wr, &bad);

	ck_assert_ptr_eq(bad, rc ? &wr : NULL);
	return rc;
}

static void srq_recv(struct shared *s, uint64_t wr_id, uint64_t offset, uint32_t bytes)
{
	ck_assert_int_eq(srq_recv_try(s, wr_id, offset, bytes), 0);
}

static void srq_send(struct shared *s, int pair, enum ibv_wr_opcode opcode, uint64_t wr_id,
		     uint64_t offset, uint32_t bytes)
{
	struct vh_wr w;

	vh_wr_fill(&w, &s->h, 0, opcode, wr_id, offset, bytes);
	w.wr.imm_data = htobe32((uint32_t)wr_id);
	ck_assert_int_eq(vh_post(s->qp[pair][0], &w.wr), 0);
}

static void srq_sent(struct shared *s, int pair, uint64_t wr_id)
{
	srq_send(s, pair, IBV_WR_SEND, wr_id, 0, 100);
	vh_expect(s->h.end[0].send_cq, wr_id, IBV_WC_SUCCESS, NULL);
}

static void expect_async(struct ibv_context *ctx, enum ibv_event_type type, const void *element)
{
	struct ibv_async_event e;

	ck_assert_int_eq(ibv_get_async_event(ctx, &e), 0);
	ck_assert_msg(e.event_type == type, "got \"%s\", expected \"%s\"",
		      ibv_event_type_str(e.event_type), ibv_event_type_str(type));
	ck_assert_ptr_eq(e.element.srq, element);
	ibv_ack_async_event(&e);
}

/* The keys of its receives are of the shared queue's domain, whatever the queue pair's. */
VH_TEST(the_shared_queues_domain_says_which_keys_are_good)
{
	struct shared s;
	struct vh_end other;

	vh_end_make(&other, 1, &vh_defaults); /* the same device through another context */
	memset(&s, 0, sizeof s);
	vh_make(&s.h, &vh_defaults);
	struct vh_end *e = &s.h.end[1];
	struct ibv_pd *pd = ibv_alloc_pd(e->ctx);
	struct ibv_mr *mr = ibv_reg_mr(pd, e->buffer, VH_BUFFER_BYTES, IBV_ACCESS_LOCAL_WRITE);

	ck_assert_ptr_nonnull(mr);
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
	vh_expect(e->recv_cq, 1, IBV_WC_SUCCESS, NULL);
	srq_send(&s, 0, IBV_WR_SEND, 4, 0, 100);
	vh_expect(s.h.end[0].send_cq, 4, IBV_WC_REM_OP_ERR, NULL);
	vh_expect(e->recv_cq, 2, IBV_WC_LOC_PROT_ERR, NULL);
	sim_expect_misuse("verbs-destroy-order: ibv_dealloc_pd");
	ck_assert_int_eq(ibv_dealloc_pd(pd), EBUSY);
	for (int side = 0; side < 2; side++)
		ck_assert_int_eq(ibv_destroy_qp(s.qp[0][side]), 0);
	ck_assert_int_eq(ibv_destroy_srq(s.srq), 0);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
	vh_free(&s.h);
	vh_end_free(&other);
}

/* As of the other queues: only the program's poll frees a slot. */
VH_TEST(a_slot_of_a_shared_queue_is_free_when_its_completion_was_polled)
{
	struct shared s;

	shared_make(&s, &vh_defaults, NULL);
	for (uint64_t i = 0; i < 16; i++)
		srq_recv(&s, i, 0, 100);
	ck_assert_int_eq(srq_recv_try(&s, 99, 0, 100), ENOMEM);
	srq_sent(&s, 0, 1);
	srq_sent(&s, 1, 2);
	ck_assert_int_eq(srq_recv_try(&s, 99, 0, 100), ENOMEM);
	vh_expect(s.h.end[1].recv_cq, 0, IBV_WC_SUCCESS, NULL);
	srq_recv(&s, 16, 0, 100);
	ck_assert_int_eq(srq_recv_try(&s, 99, 0, 100), ENOMEM);
	/* a queue pair that is reset forgets its completions: the slots are free all the same */
	vh_to_state(s.qp[1][1], IBV_QPS_RESET);
	vh_expect_none(s.h.end[1].recv_cq);
	srq_recv(&s, 17, 0, 100);
	ck_assert_int_eq(srq_recv_try(&s, 99, 0, 100), ENOMEM);
	shared_free(&s);
}

VH_TEST_PLAN(a_shared_queue_that_fails_takes_its_queue_pairs_along, "verbs.srq nth=2 fatal\n")
{
	struct shared s;

	shared_make(&s, &vh_defaults, NULL);
	srq_recv(&s, 1, 0, 100);
	ck_assert_int_eq(srq_recv_try(&s, 2, 0, 100), EINVAL);
	expect_async(s.h.end[1].ctx, IBV_EVENT_SRQ_ERR, s.srq);
	expect_async(s.h.end[1].ctx, IBV_EVENT_QP_LAST_WQE_REACHED, s.qp[0][1]);
	expect_async(s.h.end[1].ctx, IBV_EVENT_QP_LAST_WQE_REACHED, s.qp[1][1]);
	ck_assert_int_eq(vh_state(s.qp[0][1]), IBV_QPS_ERR);
	ck_assert_int_eq(vh_state(s.qp[1][1]), IBV_QPS_ERR);
	shared_free(&s);
}

VH_TEST(a_shared_queue_in_use_is_busy_and_has_no_other_way_in)
{
	struct shared s;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	struct ibv_recv_wr wr = {.wr_id = 1}, *bad = NULL;

	shared_make(&s, &vh_defaults, NULL);
	sim_expect_misuse("verbs-destroy-order: ibv_destroy_srq");
	ck_assert_int_eq(ibv_destroy_srq(s.srq), EBUSY);
	ck_assert_int_eq(ibv_post_recv(s.qp[0][1], &wr, &bad), EINVAL);
	ck_assert_ptr_eq(bad, &wr);
	ck_assert_ptr_eq(s.qp[0][1]->srq, s.srq);
	ck_assert_int_eq(ibv_query_qp(s.qp[0][1], &attr, IBV_QP_CAP, &init), 0);
	ck_assert_ptr_eq(init.srq, s.srq);
	ck_assert_uint_eq(attr.cap.max_recv_wr, 0);
	ck_assert_int_eq(ibv_query_qp(s.qp[0][0], &attr, IBV_QP_CAP, &init), 0);
	ck_assert_ptr_null(init.srq);
	ck_assert_uint_ge(attr.cap.max_recv_wr, (uint32_t)s.h.options.recv_wr);
	shared_free(&s);
}

int main(void)
{
	TCase *t = tcase_create("srq");

	VH_ADD(t, the_shared_queues_domain_says_which_keys_are_good);
	VH_ADD(t, a_slot_of_a_shared_queue_is_free_when_its_completion_was_polled);
	VH_ADD(t, a_shared_queue_that_fails_takes_its_queue_pairs_along);
	VH_ADD(t, a_shared_queue_in_use_is_busy_and_has_no_other_way_in);
	return vh_suite_run("verbs srq", t);
}
