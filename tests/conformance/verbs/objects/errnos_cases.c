/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls that the kernel refuses return an errno, and leave it in errno: the system call did. */
#include "tests/conformance/verbs/suite.h"

/* It returns this code, and errno is the same. */
#define REFUSED_WITH(call, code)                                                                   \
	do {                                                                                       \
		errno = 0;                                                                         \
		CHECK_EQ(call, code);                                                              \
		CHECK_EQ(errno, code);                                                             \
	} while (0)

CASE(a_domain_in_use, .misuse = true)
{
	struct vs_pair p;

	vs_make(&p, &vs_defaults);
	REFUSED_WITH(ibv_dealloc_pd(p.end[0].pd), EBUSY);
	vs_free(&p);
}

CASE(a_completion_queue_in_use, .misuse = true)
{
	struct vs_pair p;

	vs_make(&p, &vs_defaults);
	REFUSED_WITH(ibv_destroy_cq(p.end[0].send_cq), EBUSY);
	vs_free(&p);
}

CASE(a_shared_receive_queue_in_use, .needs = NEED(SRQ), .misuse = true)
{
	struct ibv_srq_init_attr a = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct vs_pair p;

	vs_make(&p, &vs_defaults);
	struct ibv_qp_init_attr init = vs_init_attr(&p, 0);

	init.srq = ibv_create_srq(p.end[0].pd, &a);
	CHECK(init.srq);
	struct ibv_qp *qp = ibv_create_qp(p.end[0].pd, &init);

	CHECK(qp);
	REFUSED_WITH(ibv_destroy_srq(init.srq), EBUSY);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_srq(init.srq), 0);
	vs_free(&p);
}

CASE(a_limit_beyond_the_shared_receive_queue, .needs = NEED(SRQ))
{
	struct ibv_srq_init_attr a = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct vs_pair p;

	vs_make(&p, &vs_defaults);
	struct ibv_srq *srq = ibv_create_srq(p.end[0].pd, &a);

	CHECK(srq);
	a.attr.srq_limit = 1 << 20;
	REFUSED_WITH(ibv_modify_srq(srq, &a.attr, IBV_SRQ_LIMIT), EINVAL);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
	vs_free(&p);
}

CASE(a_transition_that_there_is_not, .misuse = true)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTS};
	struct vs_pair p;

	vs_make(&p, &vs_defaults);
	REFUSED_WITH(ibv_modify_qp(p.end[0].qp, &a, IBV_QP_STATE), EINVAL);
	vs_free(&p);
}

CASE(a_port_that_there_is_not)
{
	struct ibv_port_attr a;
	struct ibv_context *ctx = vs_open(0);

	REFUSED_WITH(ibv_query_port(ctx, 77, &a), EINVAL);
	CHECK_EQ(ibv_close_device(ctx), 0);
}

CASE(a_completion_queue_without_entries, .needs = NEED(RESIZE_CQ))
{
	struct vs_pair p;

	vs_make(&p, &vs_defaults);
	REFUSED_WITH(ibv_resize_cq(p.end[0].send_cq, 0), EINVAL);
	vs_free(&p);
}

CASE(a_group_for_a_connection, .needs = NEED(MCAST), .misuse = true)
{
	const union ibv_gid group = {.raw = {0xff, 0x12, [15] = 1}};
	struct vs_pair p;

	vs_make(&p, &vs_defaults);
	REFUSED_WITH(ibv_attach_mcast(p.end[0].qp, &group, 0xc001), EINVAL);
	REFUSED_WITH(ibv_detach_mcast(p.end[0].qp, &group, 0xc001), EINVAL);
	vs_free(&p);
}
