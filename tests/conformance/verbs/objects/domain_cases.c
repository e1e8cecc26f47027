/* SPDX-License-Identifier: BSD-3-Clause */
/* Thread domains and parent domains. */
#include "tests/conformance/verbs/suite.h"

/* An allocator that counts. */
struct taken {
	int live, calls;
	size_t bytes;
};

static void *take(struct ibv_pd *pd, void *context, size_t size, size_t alignment, uint64_t type)
{
	struct taken *t = context;
	void *p = NULL;

	CHECK(pd);
	CHECK_GE(size, 1);
	CHECK_EQ(posix_memalign(&p, alignment, size), 0);
	t->live++;
	t->calls++;
	t->bytes += size;
	return p;
}

static void give(struct ibv_pd *pd, void *context, void *p, uint64_t type)
{
	struct taken *t = context;

	t->live--;
	free(p);
}

static void *take_default(struct ibv_pd *pd, void *context, size_t size, size_t alignment,
			  uint64_t type)
{
	((struct taken *)context)->calls++;
	return IBV_ALLOCATOR_USE_DEFAULT;
}

static void *take_nothing(struct ibv_pd *pd, void *context, size_t size, size_t alignment,
			  uint64_t type)
{
	return NULL;
}

static struct ibv_pd *parent(struct ibv_pd *pd, struct ibv_td *td, struct taken *t,
			     void *(*alloc)(struct ibv_pd *, void *, size_t, size_t, uint64_t))
{
	struct ibv_parent_domain_init_attr a = {.pd = pd, .td = td};

	if (t) {
		a.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			      IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
		a.alloc = alloc;
		a.free = give;
		a.pd_context = t;
	}
	struct ibv_pd *p = ibv_alloc_parent_domain(pd->context, &a);

	CHECK_MSG(p, "ibv_alloc_parent_domain: %s", strerror(errno));
	return p;
}

/* End 0's queue pair is made in `pd` instead. */
static void remake_qp(struct vs_pair *p, struct ibv_pd *pd)
{
	struct ibv_qp_init_attr a = vs_init_attr(p, 0);

	CHECK_EQ(ibv_destroy_qp(p->end[0].qp), 0);
	p->end[0].qp = ibv_create_qp(pd, &a);
	CHECK_MSG(p->end[0].qp, "ibv_create_qp: %s", strerror(errno));
}

CASE(a_parent_domain_has_the_keys_of_its_protection_domain, .needs = NEED(PARENT_DOMAIN))
{
	struct vs_pair p;
	struct ibv_td_init_attr none = {0};

	vs_make(&p, &vs_defaults);
	struct ibv_td *td = ibv_alloc_td(p.end[0].ctx, &none);

	CHECK_MSG(td, "ibv_alloc_td: %s", strerror(errno));
	struct ibv_pd *pd = parent(p.end[0].pd, td, NULL, NULL);

	remake_qp(&p, pd);
	vs_connect(&p, 0, IBV_QPS_RTS);
	vs_connect(&p, 1, IBV_QPS_RTS);
	vs_pattern(p.end[0].buffer, 3000, 1);
	vs_send(&p, 0, IBV_WR_RDMA_WRITE, 1, 0, 3000); /* the region is of the protection domain */
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_send(&p, 1, IBV_WR_RDMA_WRITE, 2, 0, 3000);
	vs_expect(p.end[1].send_cq, 2, IBV_WC_SUCCESS, NULL);
	vs_expect_pattern(p.end[1].buffer, 3000, 1);
	CHECK_EQ(ibv_destroy_qp(p.end[0].qp), 0);
	p.end[0].qp = NULL;
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
	CHECK_EQ(ibv_dealloc_td(td), 0);
	vs_free(&p);
}

CASE(domains_in_use_are_busy, .needs = NEED(PARENT_DOMAIN), .misuse = true)
{
	struct ibv_context *ctx = vs_open(0);
	struct ibv_td_init_attr none = {0};
	struct ibv_td *td = ibv_alloc_td(ctx, &none);
	struct ibv_pd *base = ibv_alloc_pd(ctx), *pd = parent(base, td, NULL, NULL);
	struct ibv_srq_init_attr a = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(pd, &a);

	CHECK(srq);
	CHECK_CODE(ibv_dealloc_pd(base), EBUSY);
	CHECK_CODE(ibv_dealloc_td(td), EBUSY);
	CHECK_CODE(ibv_dealloc_pd(pd), EBUSY);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
	CHECK_EQ(ibv_dealloc_td(td), 0);
	CHECK_EQ(ibv_dealloc_pd(base), 0);
	CHECK_EQ(ibv_close_device(ctx), 0);
}

CASE(allocators_get_back_what_they_gave, .needs = NEED(PARENT_DOMAIN) | NEED(CQ_EX))
{
	struct vs_pair p;
	struct taken t = {0};

	vs_make(&p, &vs_defaults);
	struct ibv_pd *pd = parent(p.end[0].pd, NULL, &t, take);

	remake_qp(&p, pd);
	CHECK_GE(t.calls, 1);
	CHECK_GE(t.bytes, 16);
	struct ibv_cq_init_attr_ex a = {
		.cqe = 10, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD, .parent_domain = pd};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(p.end[0].ctx, &a);

	CHECK_MSG(cq, "ibv_create_cq_ex: %s", strerror(errno));
	CHECK_GE(t.live, 2);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	vs_connect(&p, 0, IBV_QPS_RTS);
	vs_connect(&p, 1, IBV_QPS_RTS);
	vs_send(&p, 0, IBV_WR_RDMA_WRITE, 1, 0, 3000);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	CHECK_EQ(ibv_destroy_qp(p.end[0].qp), 0);
	p.end[0].qp = NULL;
	CHECK_EQ(t.live, 0);
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
	vs_free(&p);
}

CASE(an_allocator_may_pass_or_have_nothing, .needs = NEED(PARENT_DOMAIN))
{
	struct vs_pair p;
	struct taken t = {0};

	vs_make(&p, &vs_defaults);
	struct ibv_pd *passes = parent(p.end[0].pd, NULL, &t, take_default);
	struct ibv_pd *empty = parent(p.end[0].pd, NULL, &t, take_nothing);
	struct ibv_qp_init_attr a = vs_init_attr(&p, 0);

	CHECK_NULL(ibv_create_qp(empty, &a), ENOMEM);
	remake_qp(&p, passes);
	CHECK_GE(t.calls, 1);
	CHECK_EQ(t.live, 0);
	CHECK_EQ(ibv_destroy_qp(p.end[0].qp), 0);
	p.end[0].qp = NULL;
	CHECK_EQ(t.live, 0);
	CHECK_EQ(ibv_dealloc_pd(passes), 0);
	CHECK_EQ(ibv_dealloc_pd(empty), 0);
	vs_free(&p);
}

CASE(a_parent_domain_needs_a_protection_domain_of_its_context, .needs = NEED(PARENT_DOMAIN))
{
	struct ibv_context *ctx = vs_open(0), *other = vs_open(0);
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_parent_domain_init_attr a = {.pd = NULL};
	struct ibv_cq_init_attr_ex cq = {
		.cqe = 4, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD, .parent_domain = pd};
	struct ibv_td_init_attr td = {.comp_mask = 1};

	CHECK_NULL(ibv_alloc_parent_domain(ctx, &a), EINVAL);
	a.pd = pd;
	CHECK_NULL(ibv_alloc_parent_domain(other, &a), EINVAL);
	a.comp_mask = 1u << 20;
	CHECK_NULL(ibv_alloc_parent_domain(ctx, &a), EOPNOTSUPP); /* a flag of a newer header */
	CHECK(!ibv_alloc_td(ctx, &td));
	if (vs_has(VS_NEED_CQ_EX))
		CHECK_NULL(ibv_create_cq_ex(ctx, &cq),
			   EINVAL); /* a plain domain is not a parent domain */
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
	CHECK_EQ(ibv_close_device(other), 0);
	CHECK_EQ(ibv_close_device(ctx), 0);
}
