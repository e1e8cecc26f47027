/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of enhanced connection establishment: requested, reduced, set before connecting. */
#include "tests/conformance/verbs/suite.h"

CASE(options_go_from_one_end_to_the_other, .needs = NEED(ECE))
{
	struct vs_pair p;
	struct ibv_ece a, b;

	vs_make(&p, &vs_defaults);
	CHECK_EQ(ibv_query_ece(p.end[0].qp, &a), 0);
	CHECK(a.vendor_id != 0 && a.comp_mask == 0);
	CHECK_EQ(ibv_set_ece(p.end[1].qp, &a), 0);
	CHECK_EQ(ibv_query_ece(p.end[1].qp, &b), 0);
	CHECK_EQ(b.vendor_id, a.vendor_id);
	CHECK_EQ(b.options & ~a.options, 0);
	CHECK_EQ(ibv_set_ece(p.end[0].qp, &b), 0);
	vs_connect(&p, 0, IBV_QPS_RTS);
	vs_connect(&p, 1, IBV_QPS_RTS);
	vs_send(&p, 0, IBV_WR_RDMA_WRITE, 7, 0, 100);
	vs_expect(p.end[0].send_cq, 7, IBV_WC_SUCCESS, NULL);
	vs_free(&p);
}

CASE(options_that_it_does_not_have_are_left_out, .needs = NEED(ECE))
{
	struct vs_pair p;
	struct ibv_ece all, a;

	vs_make(&p, &vs_defaults);
	CHECK_EQ(ibv_query_ece(p.end[0].qp, &all), 0);
	a = all;
	a.options = ~0u;
	CHECK_EQ(ibv_set_ece(p.end[0].qp, &a), 0);
	CHECK_EQ(ibv_query_ece(p.end[0].qp, &a), 0);
	CHECK_EQ(a.options, all.options);
	a.options = 0;
	CHECK_EQ(ibv_set_ece(p.end[0].qp, &a), 0);
	CHECK_EQ(ibv_query_ece(p.end[0].qp, &a), 0);
	CHECK_EQ(a.options, 0);
	vs_free(&p);
}

CASE(another_vendors_options_are_einval, .needs = NEED(ECE))
{
	struct vs_pair p;
	struct ibv_ece a;

	vs_make(&p, &vs_defaults);
	CHECK_EQ(ibv_query_ece(p.end[0].qp, &a), 0);
	a.vendor_id ^= 0x40;
	CHECK_CODE(ibv_set_ece(p.end[0].qp, &a), EINVAL);
	a.vendor_id ^= 0x40;
	a.comp_mask = 1;
	CHECK_CODE(ibv_set_ece(p.end[0].qp, &a), EINVAL);
	a.comp_mask = 0;
	a.vendor_id = 0;
	CHECK_CODE(ibv_set_ece(p.end[0].qp, &a), EOPNOTSUPP);
	vs_free(&p);
}

/* ---- what belongs to no call of its own ----------------------------------------------------- */

CASE(the_extended_attributes_contain_the_old_ones)
{
	struct ibv_context *ctx = vs_open(0);
	struct ibv_device_attr old = vs_device_attr(ctx);
	struct ibv_device_attr_ex ex;
	struct ibv_query_device_ex_input input = {.comp_mask = 1};

	memset(&ex, 0xff, sizeof ex);
	CHECK_CODE(ibv_query_device_ex(ctx, NULL, &ex), 0);
	CHECK_EQ(ex.comp_mask, 0);
	CHECK_EQ(ex.orig_attr.max_qp_wr, old.max_qp_wr);
	CHECK_EQ(ex.orig_attr.vendor_id, old.vendor_id);
	CHECK_EQ(ex.orig_attr.atomic_cap, old.atomic_cap);
	CHECK(!strcmp(ex.orig_attr.fw_ver, old.fw_ver));
	CHECK(ex.phys_port_cnt_ex == old.phys_port_cnt || ex.phys_port_cnt_ex == 0);
	CHECK(!ex.completion_timestamp_mask == !ex.hca_core_clock);
	CHECK_CODE(ibv_query_device_ex(ctx, &input, &ex), EINVAL);
	CHECK_EQ(ibv_close_device(ctx), 0);
}

CASE(the_order_of_data_is_promised_or_not)
{
	struct vs_pair p;

	vs_pair(&p, &vs_defaults);
	int rc = ibv_query_qp_data_in_order(p.end[0].qp, IBV_WR_RDMA_WRITE, 0);

	CHECK_MSG(rc == 0 || rc == 1, "%d", rc);
	vs_free(&p);
}
