/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection domains, and what may be registered; what keys allow is in keys_cases.c. */
#include "tests/conformance/verbs/suite.h"

/* One context with a domain and some memory. */
struct area {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	uint8_t *memory;
};
#define AREA_BYTES 65536

static void area_make(struct area *a)
{
	a->ctx = vs_open(0);
	a->pd = ibv_alloc_pd(a->ctx);
	CHECK(a->pd);
	a->memory = vs_alloc(AREA_BYTES);
}

static void area_free(struct area *a)
{
	CHECK_EQ(ibv_dealloc_pd(a->pd), 0);
	CHECK_EQ(ibv_close_device(a->ctx), 0);
	vs_release(a->memory);
}

/* ---- domains -------------------------------------------------------------------------------- */

CASE(domains_are_made_and_freed)
{
	struct ibv_context *ctx = vs_open(0);
	struct ibv_pd *pd[20];

	for (int i = 0; i < 20; i++) {
		pd[i] = ibv_alloc_pd(ctx);
		CHECK(pd[i]);
		CHECK(pd[i]->context == ctx);
		for (int j = 0; j < i; j++)
			CHECK(pd[i]->handle != pd[j]->handle);
	}
	for (int i = 0; i < 20; i++)
		CHECK_EQ(ibv_dealloc_pd(pd[i]), 0);
	CHECK_EQ(ibv_close_device(ctx), 0);
}

CASE(a_domain_with_a_region_is_busy, .misuse = true)
{
	struct area a;

	area_make(&a);
	struct ibv_mr *mr = ibv_reg_mr(a.pd, a.memory, 100, 0);

	CHECK(mr);
	CHECK_CODE(ibv_dealloc_pd(a.pd), EBUSY);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	mr = ibv_reg_mr(a.pd, a.memory, 100, 0); /* still good */
	CHECK(mr);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	area_free(&a);
}

CASE(a_domain_with_a_queue_pair_is_busy, .misuse = true)
{
	struct vs_pair p;

	vs_make(&p, &vs_defaults);
	CHECK_EQ(ibv_dereg_mr(p.end[0].mr), 0);
	p.end[0].mr = NULL;
	CHECK_CODE(ibv_dealloc_pd(p.end[0].pd), EBUSY);
	CHECK_EQ(vs_state(p.end[0].qp), IBV_QPS_RESET);
	vs_free(&p);
}

/* ---- access flags --------------------------------------------------------------------------- */

static const struct {
	int flag;
	const char *name;
} flags[] = {
	{IBV_ACCESS_LOCAL_WRITE, "LW"},  {IBV_ACCESS_REMOTE_WRITE, "RW"},
	{IBV_ACCESS_REMOTE_READ, "RR"},  {IBV_ACCESS_REMOTE_ATOMIC, "RA"},
	{IBV_ACCESS_MW_BIND, "MW_BIND"},
};
#define FLAGS (int)(sizeof flags / sizeof flags[0])

static const char *access_label(int param)
{
	static char text[60];

	text[0] = 0;
	for (int i = 0; i < FLAGS; i++)
		if (param >> i & 1)
			sprintf(text + strlen(text), "%s%s", text[0] ? "+" : "", flags[i].name);
	return text[0] ? text : "none";
}

static int access_of(int param)
{
	int access = 0;

	for (int i = 0; i < FLAGS; i++)
		if (param >> i & 1)
			access |= flags[i].flag;
	return access;
}

/* A region that a peer may write is one that may be written here. Every combination. */
CASE(writing_from_afar_needs_local_write, .count = 1 << FLAGS, .label = access_label)
{
	struct area a;
	int access = access_of(vs_param);
	bool remote = access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);

	area_make(&a);
	if (remote && !(access & IBV_ACCESS_LOCAL_WRITE)) {
		CHECK_NULL(ibv_reg_mr(a.pd, a.memory, 100, access), EINVAL);
	} else {
		struct ibv_mr *mr = ibv_reg_mr(a.pd, a.memory, 100, access);

		CHECK_MSG(mr, "%s", strerror(errno));
		CHECK_EQ(ibv_dereg_mr(mr), 0);
	}
	area_free(&a);
}

CASE(a_flag_that_nobody_defined_is_einval)
{
	struct area a;

	area_make(&a);
	int undefined = 1 << 15; /* below the range of optional flags */

	CHECK_NULL(ibv_reg_mr(a.pd, a.memory, 100, IBV_ACCESS_LOCAL_WRITE | undefined), EINVAL);
	area_free(&a);
}

CASE(optional_flags_are_taken_or_ignored)
{
	struct area a;

	area_make(&a);
	int optional[] = {IBV_ACCESS_RELAXED_ORDERING, 1 << 25};

	for (int i = 0; i < 2; i++) {
		struct ibv_mr *mr =
			ibv_reg_mr(a.pd, a.memory, 100, IBV_ACCESS_LOCAL_WRITE | optional[i]);

		CHECK_MSG(mr, "flag 0x%x: %s", optional[i], strerror(errno));
		CHECK_EQ(ibv_dereg_mr(mr), 0);
	}
	area_free(&a);
}

/* ---- what comes back ------------------------------------------------------------------------ */

CASE(a_region_says_what_it_is)
{
	struct area a;

	area_make(&a);
	struct ibv_mr *mr = ibv_reg_mr(a.pd, a.memory + 100, 1000, IBV_ACCESS_LOCAL_WRITE);

	CHECK(mr);
	CHECK(mr->context == a.ctx);
	CHECK(mr->pd == a.pd);
	CHECK(mr->addr == a.memory + 100);
	CHECK_EQ(mr->length, 1000);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	area_free(&a);
}

CASE(regions_overlap_and_have_keys_of_their_own)
{
	struct area a;
	struct ibv_mr *mr[40];

	area_make(&a);
	for (int i = 0; i < 40; i++) {
		mr[i] = ibv_reg_mr(a.pd, a.memory + i / 2, 1000, IBV_ACCESS_LOCAL_WRITE);
		CHECK(mr[i]);
		for (int j = 0; j < i; j++) {
			CHECK(mr[i]->lkey != mr[j]->lkey);
			CHECK(mr[i]->handle != mr[j]->handle);
		}
	}
	for (int i = 0; i < 40; i++)
		CHECK_EQ(ibv_dereg_mr(mr[i]), 0);
	area_free(&a);
}

CASE(a_key_does_not_come_back_at_once)
{
	struct area a;

	area_make(&a);
	struct ibv_mr *mr = ibv_reg_mr(a.pd, a.memory, 100, 0);

	CHECK(mr);
	for (int i = 0; i < 20; i++) {
		uint32_t lkey = mr->lkey, rkey = mr->rkey;

		CHECK_EQ(ibv_dereg_mr(mr), 0);
		mr = ibv_reg_mr(a.pd, a.memory, 100, 0);
		CHECK(mr);
		CHECK(mr->lkey != lkey || mr->rkey != rkey);
	}
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	area_free(&a);
}

CASE(a_range_that_wraps_is_refused)
{
	struct area a;

	area_make(&a);
	CHECK(!ibv_reg_mr(a.pd, a.memory, SIZE_MAX - 100, 0));
	CHECK(errno != 0);
	CHECK(!ibv_reg_mr(a.pd, (void *)(UINTPTR_MAX - 10), 100, 0));
	area_free(&a);
}

CASE(many_regions)
{
	struct area a;
	enum { N = 300 };
	struct ibv_mr *mr[N];

	area_make(&a);
	NEEDS_AT_LEAST(vs_device_attr(a.ctx).max_mr, N);
	for (int i = 0; i < N; i++) {
		mr[i] = ibv_reg_mr(a.pd, a.memory + i, 64, IBV_ACCESS_LOCAL_WRITE);
		CHECK_MSG(mr[i], "region %d: %s", i, strerror(errno));
	}
	for (int i = 0; i < N; i++)
		CHECK_EQ(ibv_dereg_mr(mr[(i * 7) % N]), 0);
	area_free(&a);
}

CASE(a_region_with_an_address_of_its_own)
{
	struct vs_pair p;
	struct vs_wr w;

	vs_pair(&p, &vs_defaults);
	const uint64_t iova = 0x100000000000ull + ((uintptr_t)p.end[1].buffer & 4095);
	struct ibv_mr *mr = ibv_reg_mr_iova(p.end[1].pd, p.end[1].buffer, 1000, iova,
					    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

	CHECK_MSG(mr, "%s", strerror(errno));
	vs_pattern(p.end[0].buffer, 100, 1);
	vs_fill(&w, &p, 0, IBV_WR_RDMA_WRITE, 1, 0, 100);
	w.wr.wr.rdma.rkey = mr->rkey;
	w.wr.wr.rdma.remote_addr = iova + 500;
	CHECK_EQ(vs_post(p.end[0].qp, &w.wr), 0);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_expect_bytes(p.end[1].buffer, 500, 0);
	vs_expect_pattern(p.end[1].buffer + 500, 100, 1);
	w.wr.wr.rdma.remote_addr = iova + 901;
	vs_expect_failure(&p, &w, IBV_WC_REM_ACCESS_ERR);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	vs_free(&p);
}

CASE(the_own_address_counts_locally_too)
{
	struct vs_pair p;
	struct vs_wr w;

	vs_pair(&p, &vs_defaults);
	const uint64_t iova = 0x200000000000ull + ((uintptr_t)p.end[0].buffer & 4095);
	struct ibv_mr *mr =
		ibv_reg_mr_iova(p.end[0].pd, p.end[0].buffer, 1000, iova, IBV_ACCESS_LOCAL_WRITE);

	CHECK(mr);
	vs_pattern(p.end[0].buffer, 1000, 1);
	vs_fill(&w, &p, 0, IBV_WR_RDMA_WRITE, 1, 0, 1000);
	w.sge.addr = iova;
	w.sge.lkey = mr->lkey;
	CHECK_EQ(vs_post(p.end[0].qp, &w.wr), 0);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_expect_pattern(p.end[1].buffer, 1000, 1);
	w.sge.addr = (uintptr_t)p.end[0].buffer;
	vs_expect_failure(&p, &w, IBV_WC_LOC_PROT_ERR);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	vs_free(&p);
}

CASE(a_zero_based_region_begins_at_0)
{
	struct vs_pair p;
	struct vs_wr w;

	vs_pair(&p, &vs_defaults);
	struct ibv_mr *mr = ibv_reg_mr(p.end[1].pd, p.end[1].buffer, 4096,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					       IBV_ACCESS_ZERO_BASED);

	CHECK_MSG(mr, "%s", strerror(errno));
	vs_pattern(p.end[0].buffer, 100, 1);
	vs_fill(&w, &p, 0, IBV_WR_RDMA_WRITE, 1, 0, 100);
	w.wr.wr.rdma.rkey = mr->rkey;
	w.wr.wr.rdma.remote_addr = 200;
	CHECK_EQ(vs_post(p.end[0].qp, &w.wr), 0);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_expect_pattern(p.end[1].buffer + 200, 100, 1);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	vs_free(&p);
}
