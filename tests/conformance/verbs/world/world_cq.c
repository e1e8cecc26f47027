/* SPDX-License-Identifier: BSD-3-Clause */
/* Extended completion queues: behaviour that the specification leaves to the provider and the
 * double defines. The common behaviour is tested in cq_ex_cases.c. */
#include "tests/conformance/verbs/harness/world.h"

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

	CHECK(cq);
	CHECK_GE(cq->cqe, (int)cqe);
	return cq;
}

/* Two ends. End 0 sends and end 1 receives through extended queues. */
struct ex {
	struct vs_pair h;
	struct ibv_cq_ex *cq[2];
};

static void ex_make(struct ex *x, const struct vs_options *o, uint32_t cqe, uint32_t flags)
{
	vs_make(&x->h, o);
	for (int i = 0; i < 2; i++) {
		struct vs_end *e = &x->h.end[i];

		x->cq[i] = cq_ex(e->ctx, cqe, all_fields, flags);
		CHECK_EQ(ibv_destroy_qp(e->qp), 0);
		struct ibv_cq *cq = ibv_cq_ex_to_cq(x->cq[i]);
		struct ibv_qp_init_attr init =
			vw_init_attr(o, i ? e->send_cq : cq, i ? cq : e->recv_cq);

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
		CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(x->cq[i])), 0);
	}
	for (int i = 0; i < 2; i++) { /* vs_free expects these objects */
		struct vs_end *e = &x->h.end[i];
		struct ibv_qp_init_attr init = vw_init_attr(&x->h.options, e->send_cq, e->recv_cq);

		e->qp = ibv_create_qp(e->pd, &init);
	}
	vs_free(&x->h);
}

CASE(extended_creation_refuses_what_the_hca_does_not_have)
{
	struct ibv_context *ctx = vs_open(0);
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
		CHECK(!ibv_create_cq_ex(ctx, &a));
		CHECK_EQ(errno, bad[i].error);
	}
	/* the call ignores flags that are not in the mask */
	struct ibv_cq_init_attr_ex a = {
		.cqe = 4, .flags = 1 << 9, .comp_vector = (uint32_t)ctx->num_comp_vectors - 1};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(ctx, &a);

	CHECK(cq);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	CHECK_EQ(ibv_close_device(ctx), 0);
}

CASE(an_overrun_that_is_ignored_loses_the_oldest_completions)
{
	struct ex x;
	struct ibv_wc wc;

	ex_make(&x, &vw_defaults, 4, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN);
	CHECK_EQ(x.cq[0]->cqe, 4);
	for (uint64_t i = 0; i < 10; i++)
		vs_send(&x.h, 0, IBV_WR_RDMA_WRITE, i, 0, 10);
	os_sleep_ns(20000000);
	for (uint64_t i = 6; i < 10; i++)
		vs_expect(ibv_cq_ex_to_cq(x.cq[0]), i, IBV_WC_SUCCESS, NULL);
	CHECK_EQ(ibv_poll_cq(ibv_cq_ex_to_cq(x.cq[0]), 1, &wc), 0);
	CHECK_EQ(vs_state(x.h.end[0].qp), IBV_QPS_RTS);
	/* the last completion freed all slots */
	for (uint64_t i = 0; i < 16; i++)
		vs_send(&x.h, 0, IBV_WR_RDMA_WRITE, i, 0, 10);
	os_sleep_ns(20000000);
	for (uint64_t i = 12; i < 16; i++)
		vs_expect(ibv_cq_ex_to_cq(x.cq[0]), i, IBV_WC_SUCCESS, NULL);
	ex_free(&x);
}
