/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs whose send requests are made call by call (ibv_wr_*). */
#include "tests/conformance/verbs/suite.h"

#define OPS                                                                                        \
	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |    \
	 IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ)

static struct ibv_qp *ex_qp(struct vs_pair *p, uint64_t ops)
{
	const struct vs_end *e = &p->end[0];
	struct ibv_qp_init_attr plain = vs_init_attr(p, 0);
	struct ibv_qp_init_attr_ex a = {.send_cq = plain.send_cq,
					.recv_cq = plain.recv_cq,
					.cap = plain.cap,
					.qp_type = plain.qp_type,
					.sq_sig_all = plain.sq_sig_all,
					.comp_mask = IBV_QP_INIT_ATTR_PD |
						     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					.pd = e->pd,
					.send_ops_flags = ops};
	struct ibv_qp *qp = ibv_create_qp_ex(e->ctx, &a);

	CHECK_MSG(qp, "ibv_create_qp_ex: %s", strerror(errno));
	CHECK_GE(a.cap.max_send_wr, plain.cap.max_send_wr);
	return qp;
}

/* End 0's queue pair is an extended one. */
static struct ibv_qp_ex *ex_pair(struct vs_pair *p, const struct vs_options *o, uint64_t ops)
{
	vs_make(p, o);
	CHECK_EQ(ibv_destroy_qp(p->end[0].qp), 0);
	p->end[0].qp = ex_qp(p, ops);
	vs_connect(p, 0, IBV_QPS_RTS);
	vs_connect(p, 1, IBV_QPS_RTS);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(p->end[0].qp);

	CHECK(ex);
	return ex;
}

static void ex_begin(struct ibv_qp_ex *ex, uint64_t wr_id, unsigned int flags)
{
	ex->wr_id = wr_id;
	ex->wr_flags = flags;
}

static void ex_sge(struct ibv_qp_ex *ex, const struct vs_pair *p, uint64_t offset, uint32_t bytes)
{
	ibv_wr_set_sge(ex, p->end[0].mr->lkey, (uintptr_t)p->end[0].buffer + offset, bytes);
}

static uint64_t remote(const struct vs_pair *p, uint64_t offset)
{
	return (uintptr_t)p->end[1].buffer + offset;
}

CASE(a_chain_of_builders_does_what_posted_requests_do, .needs = NEED(QP_EX))
{
	struct vs_pair p;
	struct ibv_qp_ex *ex = ex_pair(&p, &vs_defaults, OPS);
	struct ibv_wc wc;

	vs_pattern(p.end[0].buffer, 8192, 3);
	vs_pattern(p.end[1].buffer + 16384, 1000, 4);
	for (uint64_t i = 0; i < 3; i++)
		vs_recv(&p, 1, 50 + i, 8192, 1000);
	ibv_wr_start(ex);
	ex_begin(ex, 1, IBV_SEND_SIGNALED);
	ibv_wr_rdma_write(ex, p.end[1].mr->rkey, remote(&p, 0));
	ex_sge(ex, &p, 0, 4096);
	ex_begin(ex, 2, IBV_SEND_SIGNALED);
	ibv_wr_rdma_write_imm(ex, p.end[1].mr->rkey, remote(&p, 4096), htobe32(77));
	ex_sge(ex, &p, 4096, 4096);
	ex_begin(ex, 3, 0);
	ibv_wr_send(ex);
	ex_sge(ex, &p, 0, 10);
	ex_begin(ex, 4, IBV_SEND_SIGNALED);
	ibv_wr_send_imm(ex, htobe32(78));
	ex_sge(ex, &p, 0, 20);
	ex_begin(ex, 5, IBV_SEND_SIGNALED);
	ibv_wr_rdma_read(ex, p.end[1].mr->rkey, remote(&p, 16384));
	ex_sge(ex, &p, 16384, 1000);
	CHECK_EQ(ibv_wr_complete(ex), 0);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, &wc);
	CHECK_EQ(wc.opcode, IBV_WC_RDMA_WRITE);
	vs_expect(p.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL);
	vs_expect(p.end[0].send_cq, 4, IBV_WC_SUCCESS, &wc);
	CHECK_EQ(wc.opcode, IBV_WC_SEND);
	vs_expect(p.end[0].send_cq, 5, IBV_WC_SUCCESS, &wc);
	CHECK_EQ(wc.opcode, IBV_WC_RDMA_READ);
	vs_expect(p.end[1].recv_cq, 50, IBV_WC_SUCCESS, &wc);
	CHECK_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	CHECK_EQ(be32toh(wc.imm_data), 77);
	vs_expect(p.end[1].recv_cq, 51, IBV_WC_SUCCESS, &wc);
	CHECK_EQ(wc.byte_len, 10);
	vs_expect(p.end[1].recv_cq, 52, IBV_WC_SUCCESS, &wc);
	CHECK_EQ(be32toh(wc.imm_data), 78);
	vs_expect_pattern(p.end[1].buffer, 8192, 3);
	vs_expect_pattern(p.end[0].buffer + 16384, 1000, 4);
	vs_free(&p);
}

CASE(nothing_leaves_before_complete_and_nothing_after_abort, .needs = NEED(QP_EX))
{
	struct vs_pair p;
	struct ibv_qp_ex *ex = ex_pair(&p, &vs_defaults, OPS);

	vs_pattern(p.end[0].buffer, 64, 1);
	ibv_wr_start(ex);
	ex_begin(ex, 1, IBV_SEND_SIGNALED);
	ibv_wr_rdma_write(ex, p.end[1].mr->rkey, remote(&p, 0));
	ex_sge(ex, &p, 0, 64);
	ex_begin(ex, 2, IBV_SEND_SIGNALED);
	ibv_wr_rdma_write(ex, p.end[1].mr->rkey, remote(&p, 64));
	ex_sge(ex, &p, 0, 64);
	vs_sleep_ns(VS_MS);
	vs_expect_bytes(p.end[1].buffer, 128, 0);
	ibv_wr_abort(ex);
	vs_sleep_ns(VS_MS);
	vs_expect_bytes(p.end[1].buffer, 128, 0);
	vs_expect_none(p.end[0].send_cq);
	/* an empty section is one, too */
	ibv_wr_start(ex);
	CHECK_EQ(ibv_wr_complete(ex), 0);
	ibv_wr_start(ex);
	ex_begin(ex, 3, IBV_SEND_SIGNALED);
	ibv_wr_rdma_write(ex, p.end[1].mr->rkey, remote(&p, 0));
	ex_sge(ex, &p, 0, 64);
	CHECK_EQ(ibv_wr_complete(ex), 0);
	vs_expect(p.end[0].send_cq, 3, IBV_WC_SUCCESS, NULL);
	vs_expect_pattern(p.end[1].buffer, 64, 1);
	vs_free(&p);
}

CASE(lists_and_inline_data_are_taken_when_they_are_set, .needs = NEED(QP_EX))
{
	struct vs_pair p;
	struct ibv_qp_ex *ex = ex_pair(&p, &vs_defaults, OPS);
	uint8_t a[20], b[30];
	struct ibv_data_buf buf[2] = {{.addr = a, .length = 20}, {.addr = b, .length = 30}};
	struct ibv_sge sge[2];

	vs_pattern(p.end[0].buffer, 400, 9);
	memcpy(a, p.end[0].buffer, 20);
	memcpy(b, p.end[0].buffer + 20, 30);
	for (int i = 0; i < 2; i++)
		sge[i] = (struct ibv_sge){.addr = (uintptr_t)p.end[0].buffer + (i ? 150 : 0),
					  .length = i ? 250 : 150,
					  .lkey = p.end[0].mr->lkey};
	ibv_wr_start(ex);
	ex_begin(ex, 1, 0);
	ibv_wr_rdma_write(ex, p.end[1].mr->rkey, remote(&p, 0));
	ibv_wr_set_inline_data_list(ex, 2, buf);
	ex_begin(ex, 2, 0);
	ibv_wr_rdma_write(ex, p.end[1].mr->rkey, remote(&p, 1000));
	ibv_wr_set_inline_data(ex, a, 20);
	ex_begin(ex, 3, IBV_SEND_SIGNALED);
	ibv_wr_rdma_write(ex, p.end[1].mr->rkey, remote(&p, 2000));
	ibv_wr_set_sge_list(ex, 2, sge);
	memset(a, 0xee, sizeof a);
	memset(b, 0xee, sizeof b);
	memset(buf, 0, sizeof buf);
	memset(sge, 0, sizeof sge);
	CHECK_EQ(ibv_wr_complete(ex), 0);
	vs_expect(p.end[0].send_cq, 3, IBV_WC_SUCCESS, NULL);
	vs_expect_pattern(p.end[1].buffer, 50, 9);
	vs_expect_pattern(p.end[1].buffer + 1000, 20, 9);
	vs_expect_pattern(p.end[1].buffer + 2000, 400, 9);
	vs_free(&p);
}

CASE(a_bad_request_in_the_chain_posts_none_of_it, .needs = NEED(QP_EX))
{
	struct vs_pair p;
	struct ibv_qp_ex *ex = ex_pair(&p, &vs_defaults, OPS);
	uint8_t big[4096] = {0};
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	CHECK_EQ(ibv_query_qp(p.end[0].qp, &attr, IBV_QP_CAP, &init), 0);
	CHECK(init.cap.max_inline_data < sizeof big);
	ibv_wr_start(ex);
	ex_begin(ex, 1, IBV_SEND_SIGNALED);
	ibv_wr_rdma_write(ex, p.end[1].mr->rkey, remote(&p, 0));
	ex_sge(ex, &p, 0, 64);
	ex_begin(ex, 2, IBV_SEND_SIGNALED);
	ibv_wr_rdma_write(ex, p.end[1].mr->rkey, remote(&p, 0));
	ibv_wr_set_inline_data(ex, big, sizeof big);
	ex_begin(ex, 3, IBV_SEND_SIGNALED);
	ibv_wr_rdma_write(ex, p.end[1].mr->rkey, remote(&p, 0));
	ex_sge(ex, &p, 0, 64);
	CHECK_REFUSED(ibv_wr_complete(ex));
	vs_sleep_ns(VS_MS);
	vs_expect_none(p.end[0].send_cq);
	/* more than the queue holds */
	ibv_wr_start(ex);
	for (uint64_t i = 0; i <= init.cap.max_send_wr; i++) {
		ex_begin(ex, i, IBV_SEND_SIGNALED);
		ibv_wr_rdma_write(ex, p.end[1].mr->rkey, remote(&p, 0));
		ex_sge(ex, &p, 0, 64);
	}
	CHECK_CODE(ibv_wr_complete(ex), ENOMEM);
	vs_sleep_ns(VS_MS);
	vs_expect_none(p.end[0].send_cq);
	/* and the queue pair is as it was */
	vs_send(&p, 0, IBV_WR_RDMA_WRITE, 9, 0, 64);
	vs_expect(p.end[0].send_cq, 9, IBV_WC_SUCCESS, NULL);
	vs_free(&p);
}

CASE(both_ways_of_posting_share_the_queue, .needs = NEED(QP_EX))
{
	struct vs_pair p;
	struct ibv_qp_ex *ex = ex_pair(&p, &vs_defaults, OPS);

	for (uint64_t i = 0; i < 30; i += 2) {
		vs_send(&p, 0, IBV_WR_RDMA_WRITE, i, 0, 64);
		ibv_wr_start(ex);
		ex_begin(ex, i + 1, IBV_SEND_SIGNALED);
		ibv_wr_rdma_write(ex, p.end[1].mr->rkey, remote(&p, 0));
		ex_sge(ex, &p, 0, 64);
		CHECK_EQ(ibv_wr_complete(ex), 0);
		vs_expect(p.end[0].send_cq, i, IBV_WC_SUCCESS, NULL);
		vs_expect(p.end[0].send_cq, i + 1, IBV_WC_SUCCESS, NULL);
	}
	vs_free(&p);
}

CASE(requests_made_before_an_error_are_flushed_or_refused, .needs = NEED(QP_EX))
{
	struct vs_pair p;
	struct ibv_qp_ex *ex = ex_pair(&p, &vs_defaults, OPS);

	ibv_wr_start(ex);
	ex_begin(ex, 1, 0);
	ibv_wr_rdma_write(ex, p.end[1].mr->rkey, remote(&p, 0));
	ex_sge(ex, &p, 0, 64);
	vs_set_state(p.end[0].qp, IBV_QPS_ERR);
	CHECK_EQ(ibv_wr_complete(ex), 0);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_WR_FLUSH_ERR, NULL);
	vs_free(&p);
}

CASE(a_plain_queue_pair_has_no_builders, .needs = NEED(QP_EX))
{
	struct vs_pair p;
	struct ibv_qp_init_attr plain;
	struct ibv_qp_init_attr_ex a;

	vs_make(&p, &vs_defaults);
	CHECK(!ibv_qp_to_qp_ex(p.end[0].qp));
	plain = vs_init_attr(&p, 0);
	a = (struct ibv_qp_init_attr_ex){.send_cq = plain.send_cq,
					 .recv_cq = plain.recv_cq,
					 .cap = plain.cap,
					 .qp_type = plain.qp_type,
					 .comp_mask = IBV_QP_INIT_ATTR_PD,
					 .pd = p.end[0].pd};
	struct ibv_qp *qp = ibv_create_qp_ex(p.end[0].ctx, &a);

	CHECK(qp);
	CHECK(!ibv_qp_to_qp_ex(qp));
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	a.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	a.send_ops_flags = IBV_QP_EX_WITH_TSO; /* not of this type */
	CHECK_NULL(ibv_create_qp_ex(p.end[0].ctx, &a), EOPNOTSUPP);
	a.send_ops_flags = IBV_QP_EX_WITH_SEND;
	a.comp_mask |= 1u << 30;
	CHECK(!ibv_create_qp_ex(p.end[0].ctx, &a));
	vs_free(&p);
}

/* The other task's requests wait until the section ends. */
struct ex_other {
	struct vs_pair *p;
};

static void ex_post_other(void *arg)
{
	struct ex_other *o = arg;

	vs_send(o->p, 0, IBV_WR_RDMA_WRITE, 2, 0, 64);
}

CASE(another_task_posts_after_the_section, .needs = NEED(QP_EX))
{
	struct vs_pair p;
	struct ibv_qp_ex *ex = ex_pair(&p, &vs_defaults, OPS);
	struct ex_other other = {&p};
	struct ibv_wc wc;

	ibv_wr_start(ex);
	ex_begin(ex, 1, IBV_SEND_SIGNALED);
	ibv_wr_rdma_write(ex, p.end[1].mr->rkey, remote(&p, 0));
	ex_sge(ex, &p, 0, 64);
	struct vs_thread *t = vs_thread_start(ex_post_other, &other);

	CHECK(!vs_wait(p.end[0].send_cq, &wc, 2 * VS_MS));
	CHECK_EQ(ibv_wr_complete(ex), 0);
	vs_thread_join(t);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_expect(p.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL);
	vs_free(&p);
}

CASE(atomics_are_built_too, .needs = NEED(QP_EX) | NEED(ATOMIC))
{
	struct vs_options o = vs_defaults;
	struct vs_pair p;
	const uint64_t ops =
		IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP;

	o.access |= IBV_ACCESS_REMOTE_ATOMIC;
	o.mr_access |= IBV_ACCESS_REMOTE_ATOMIC;
	struct ibv_qp_ex *ex = ex_pair(&p, &o, ops);
	uint64_t *there = (uint64_t *)p.end[1].buffer, *here = (uint64_t *)p.end[0].buffer;

	*there = 40;
	ibv_wr_start(ex);
	ex_begin(ex, 1, IBV_SEND_SIGNALED);
	ibv_wr_atomic_fetch_add(ex, p.end[1].mr->rkey, remote(&p, 0), 2);
	ex_sge(ex, &p, 0, 8);
	ex_begin(ex, 2, IBV_SEND_SIGNALED);
	ibv_wr_atomic_cmp_swp(ex, p.end[1].mr->rkey, remote(&p, 0), 42, 99);
	ex_sge(ex, &p, 8, 8);
	CHECK_EQ(ibv_wr_complete(ex), 0);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_expect(p.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL);
	CHECK_EQ(here[0], 40);
	CHECK_EQ(here[1], 42);
	CHECK_EQ(*there, 99);
	vs_free(&p);
}
