/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices, ports, GIDs and partition keys: what queries return. */
#include "tests/conformance/verbs/suite.h"

CASE(the_list_is_true)
{
	CHECK_MSG(!vs_list_wrong(), "%s", vs_list_wrong());
}

/* ---- the list ------------------------------------------------------------------------------- */

CASE(the_list_counts_and_ends_with_null)
{
	int n = -1;
	struct ibv_device **list = ibv_get_device_list(&n);

	CHECK(list);
	CHECK_GE(n, 1);
	for (int i = 0; i < n; i++)
		CHECK(list[i]);
	CHECK(!list[n]);
	ibv_free_device_list(list);
}

CASE(the_count_may_be_left_out)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	CHECK(list && list[0]);
	ibv_free_device_list(list);
}

CASE(devices_have_names_of_their_own)
{
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);

	for (int i = 0; i < n; i++) {
		const char *name = ibv_get_device_name(list[i]);

		CHECK(name && name[0] && strlen(name) < IBV_SYSFS_NAME_MAX);
		for (int j = 0; j < i; j++)
			CHECK(strcmp(name, ibv_get_device_name(list[j])));
		CHECK_EQ(list[i]->node_type, IBV_NODE_CA);
		CHECK_EQ(list[i]->transport_type, IBV_TRANSPORT_IB);
		CHECK(ibv_get_device_guid(list[i]) != 0);
	}
	ibv_free_device_list(list);
}

CASE(a_device_stays_open_without_its_list)
{
	struct ibv_context *ctx = vs_open(0); /* frees the list */

	CHECK(ctx->device);
	CHECK(strlen(ibv_get_device_name(ctx->device)) > 0);
	CHECK_GE(ctx->num_comp_vectors, 1);
	vs_device_attr(ctx);
	CHECK_EQ(ibv_close_device(ctx), 0);
}

CASE(a_device_is_opened_twice)
{
	struct ibv_context *a = vs_open(0), *b = vs_open(0);

	CHECK(a != b);
	CHECK(!strcmp(ibv_get_device_name(a->device), ibv_get_device_name(b->device)));
	CHECK_EQ(ibv_close_device(a), 0);
	struct ibv_pd *pd = ibv_alloc_pd(b);

	CHECK(pd);
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
	CHECK_EQ(ibv_close_device(b), 0);
}

/* ---- the device ----------------------------------------------------------------------------- */

CASE(the_attributes_of_a_device_can_be_worked_with)
{
	struct ibv_context *ctx = vs_open(0);
	struct ibv_device_attr a = vs_device_attr(ctx);

	CHECK(memchr(a.fw_ver, 0, sizeof a.fw_ver));
	CHECK(a.node_guid != 0);
	CHECK(a.vendor_id != 0);
	CHECK_GE(a.phys_port_cnt, 1);
	CHECK(a.max_mr_size >= 1 << 20);
	CHECK(a.page_size_cap & 4096);
	CHECK_GE(a.max_qp, 2);
	CHECK_GE(a.max_qp_wr, 16);
	CHECK_GE(a.max_sge, 1);
	CHECK_GE(a.max_cq, 2);
	CHECK_GE(a.max_cqe, 16);
	CHECK_GE(a.max_mr, 2);
	CHECK_GE(a.max_pd, 2);
	CHECK_GE(a.max_qp_rd_atom, 1);
	CHECK_GE(a.max_qp_init_rd_atom, 1);
	CHECK_GE(a.max_pkeys, 1);
	CHECK(a.local_ca_ack_delay <= 31);
	CHECK(a.atomic_cap >= IBV_ATOMIC_NONE && a.atomic_cap <= IBV_ATOMIC_GLOB);
	CHECK_EQ(ibv_close_device(ctx), 0);
}

CASE(the_list_and_the_attributes_name_one_guid)
{
	struct ibv_context *ctx = vs_open(0);

	CHECK(vs_device_attr(ctx).node_guid == ibv_get_device_guid(ctx->device));
	CHECK_EQ(ibv_close_device(ctx), 0);
}

CASE(two_queries_say_the_same)
{
	struct ibv_context *ctx = vs_open(0), *again = vs_open(0);
	struct ibv_device_attr a, b;

	memset(&a, 0, sizeof a);
	memset(&b, 0, sizeof b);
	CHECK_EQ(ibv_query_device(ctx, &a), 0);
	CHECK_EQ(ibv_query_device(again, &b), 0);
	CHECK(!memcmp(&a, &b, sizeof a));
	CHECK_EQ(ibv_close_device(again), 0);
	CHECK_EQ(ibv_close_device(ctx), 0);
}

CASE(the_extended_query_says_what_the_plain_one_says)
{
	struct ibv_context *ctx = vs_open(0);
	struct ibv_device_attr_ex x;
	struct ibv_device_attr a = vs_device_attr(ctx);

	memset(&x, 0xee, sizeof x);
	CHECK_EQ(ibv_query_device_ex(ctx, NULL, &x), 0);
	CHECK_EQ(x.orig_attr.max_qp, a.max_qp);
	CHECK_EQ(x.orig_attr.max_qp_wr, a.max_qp_wr);
	CHECK_EQ(x.orig_attr.max_cqe, a.max_cqe);
	CHECK_EQ(x.orig_attr.max_sge, a.max_sge);
	CHECK_EQ(x.orig_attr.max_mr, a.max_mr);
	CHECK_EQ(x.orig_attr.vendor_id, a.vendor_id);
	CHECK_EQ(x.orig_attr.atomic_cap, a.atomic_cap);
	CHECK_EQ(x.orig_attr.phys_port_cnt, a.phys_port_cnt);
	CHECK_EQ(x.phys_port_cnt_ex, a.phys_port_cnt);
	CHECK(x.comp_mask != 0xeeeeeeee);
	CHECK_EQ(ibv_close_device(ctx), 0);
}

CASE(the_extended_query_refuses_input_that_it_does_not_know)
{
	struct ibv_context *ctx = vs_open(0);
	struct ibv_query_device_ex_input in = {.comp_mask = 1u << 30};
	struct ibv_device_attr_ex x;

	CHECK_REFUSED(ibv_query_device_ex(ctx, &in, &x));
	CHECK_EQ(ibv_close_device(ctx), 0);
}

/* ---- the port ------------------------------------------------------------------------------- */

CASE(the_port_is_active)
{
	struct ibv_context *ctx = vs_open(0);
	struct ibv_port_attr a = vs_port_attr(ctx);

	CHECK_EQ(a.state, IBV_PORT_ACTIVE);
	CHECK_EQ(a.phys_state, 5); /* LinkUp */
	CHECK(a.active_mtu >= IBV_MTU_256 && a.active_mtu <= a.max_mtu);
	CHECK(a.max_mtu <= IBV_MTU_4096);
	CHECK_GE(a.gid_tbl_len, 1);
	CHECK_GE(a.pkey_tbl_len, 1);
	CHECK_GE(a.max_msg_sz, 1 << 20);
	CHECK(a.link_layer == IBV_LINK_LAYER_ETHERNET || a.link_layer == IBV_LINK_LAYER_INFINIBAND);
	CHECK_EQ(ibv_close_device(ctx), 0);
}

CASE(the_port_has_a_width_and_a_speed)
{
	struct ibv_context *ctx = vs_open(0);
	struct ibv_port_attr a = vs_port_attr(ctx);

	CHECK_MSG(a.active_width && !(a.active_width & (a.active_width - 1)) &&
			  a.active_width <= 16,
		  "width %u", a.active_width);
	CHECK_MSG(a.active_speed && !(a.active_speed & (a.active_speed - 1)), "speed %u",
		  a.active_speed);
	CHECK_EQ(ibv_close_device(ctx), 0);
}

CASE(on_ethernet_addresses_need_a_grh, .needs = NEED(ROCE))
{
	struct ibv_context *ctx = vs_open(0);

	CHECK(vs_port_attr(ctx).flags & IBV_QPF_GRH_REQUIRED);
	CHECK_EQ(ibv_close_device(ctx), 0);
}

CASE(a_port_that_is_not_there_is_einval)
{
	struct ibv_context *ctx = vs_open(0);
	struct ibv_device_attr d = vs_device_attr(ctx);
	struct ibv_port_attr a;

	CHECK_CODE(ibv_query_port(ctx, 0, &a), EINVAL);
	CHECK_CODE(ibv_query_port(ctx, (uint8_t)(d.phys_port_cnt + 1), &a), EINVAL);
	CHECK_CODE(ibv_query_port(ctx, 255, &a), EINVAL);
	CHECK_EQ(ibv_close_device(ctx), 0);
}

/* ---- GIDs ----------------------------------------------------------------------------------- */

static const union ibv_gid zero_gid;

CASE(the_gid_in_use_is_there)
{
	struct ibv_context *ctx = vs_open(0);
	union ibv_gid gid = {{0}};

	CHECK_EQ(ibv_query_gid(ctx, vs_port_num, vs_gid_index(ctx), &gid), 0);
	CHECK(memcmp(&gid, &zero_gid, sizeof gid));
	CHECK_EQ(ibv_close_device(ctx), 0);
}

CASE(a_gid_without_entry_is_all_zero)
{
	struct ibv_context *ctx = vs_open(0);
	struct ibv_port_attr port = vs_port_attr(ctx);
	union ibv_gid gid;
	int zeros = 0;

	for (int i = 0; i < port.gid_tbl_len; i++) {
		memset(&gid, 0xee, sizeof gid);
		CHECK_EQ(ibv_query_gid(ctx, vs_port_num, i, &gid), 0);
		zeros += !memcmp(&gid, &zero_gid, sizeof gid);
	}
	CHECK(zeros < port.gid_tbl_len);
	CHECK_EQ(ibv_close_device(ctx), 0);
}

CASE(a_gid_outside_the_table_is_refused)
{
	struct ibv_context *ctx = vs_open(0);
	struct ibv_port_attr port = vs_port_attr(ctx);
	union ibv_gid gid;

	CHECK_EQ(ibv_query_gid(ctx, vs_port_num, port.gid_tbl_len, &gid), -1);
	CHECK_EQ(ibv_query_gid(ctx, vs_port_num, -1, &gid), -1);
	CHECK_EQ(ibv_query_gid(ctx, 0, 0, &gid), -1);
	CHECK_EQ(ibv_close_device(ctx), 0);
}

CASE(entries_with_types_are_the_plain_gids, .needs = NEED(GID_EX))
{
	struct ibv_context *ctx = vs_open(0);
	struct ibv_port_attr port = vs_port_attr(ctx);

	for (int i = 0; i < port.gid_tbl_len; i++) {
		struct ibv_gid_entry e;
		union ibv_gid gid;

		CHECK_EQ(ibv_query_gid(ctx, vs_port_num, i, &gid), 0);
		int rc = ibv_query_gid_ex(ctx, vs_port_num, (uint32_t)i, &e, 0);

		if (!memcmp(&gid, &zero_gid, sizeof gid)) {
			CHECK_EQ(rc, ENODATA);
			continue;
		}
		CHECK_EQ(rc, 0);
		CHECK(!memcmp(&e.gid, &gid, sizeof gid));
		CHECK_EQ(e.gid_index, i);
		CHECK_EQ(e.port_num, vs_port_num);
		CHECK(e.gid_type <= IBV_GID_TYPE_ROCE_V2);
		CHECK_EQ(e.gid_type == IBV_GID_TYPE_IB,
			 port.link_layer == IBV_LINK_LAYER_INFINIBAND);
	}
	CHECK_EQ(ibv_close_device(ctx), 0);
}

CASE(a_network_device_stands_behind_a_gid, .needs = NEED(GID_EX) | NEED(ROCE))
{
	struct ibv_context *ctx = vs_open(0);
	struct ibv_gid_entry e;

	CHECK_EQ(ibv_query_gid_ex(ctx, vs_port_num, (uint32_t)vs_gid_index(ctx), &e, 0), 0);
	CHECK(e.ndev_ifindex != 0);
	CHECK_EQ(ibv_close_device(ctx), 0);
}

CASE(an_entry_outside_the_table_is_refused, .needs = NEED(GID_EX))
{
	struct ibv_context *ctx = vs_open(0);
	struct ibv_port_attr port = vs_port_attr(ctx);
	struct ibv_gid_entry e;

	CHECK_REFUSED(ibv_query_gid_ex(ctx, vs_port_num, (uint32_t)port.gid_tbl_len, &e, 0));
	CHECK_REFUSED(ibv_query_gid_ex(ctx, 0, 0, &e, 0));
	CHECK_REFUSED(ibv_query_gid_ex(ctx, vs_port_num, 0, &e, 1u << 20));
	CHECK_EQ(ibv_close_device(ctx), 0);
}

CASE(no_two_gids_are_the_same, .needs = NEED(GID_EX))
{
	struct ibv_context *ctx = vs_open(0);
	struct ibv_port_attr port = vs_port_attr(ctx);
	struct ibv_gid_entry *e = calloc((size_t)port.gid_tbl_len, sizeof *e);
	int n = 0;

	CHECK(e);
	for (int i = 0; i < port.gid_tbl_len; i++)
		n += !ibv_query_gid_ex(ctx, vs_port_num, (uint32_t)i, &e[n], 0);
	for (int i = 0; i < n; i++)
		for (int j = 0; j < i; j++)
			CHECK(memcmp(&e[i].gid, &e[j].gid, sizeof e[i].gid) ||
			      e[i].gid_type != e[j].gid_type ||
			      e[i].ndev_ifindex != e[j].ndev_ifindex);
	free(e);
	CHECK_EQ(ibv_close_device(ctx), 0);
}

CASE(two_devices_have_different_gids, .needs = NEED(TWO_DEVICES))
{
	struct ibv_context *a = vs_open(0), *b = vs_open(1);
	union ibv_gid x, y;

	CHECK_EQ(ibv_query_gid(a, vs_port_num, vs_gid_index(a), &x), 0);
	CHECK_EQ(ibv_query_gid(b, vs_port_num, vs_gid_index(b), &y), 0);
	CHECK(memcmp(&x, &y, sizeof x));
	CHECK(ibv_get_device_guid(a->device) != ibv_get_device_guid(b->device));
	CHECK_EQ(ibv_close_device(b), 0);
	CHECK_EQ(ibv_close_device(a), 0);
}

/* ---- partition keys ------------------------------------------------------------------------- */

CASE(the_default_partition_is_there)
{
	struct ibv_context *ctx = vs_open(0);
	uint16_t key = 0;

	CHECK_EQ(ibv_query_pkey(ctx, vs_port_num, 0, &key), 0);
	CHECK_EQ(be16toh(key) & 0x7fff, 0x7fff);
	CHECK_EQ(ibv_close_device(ctx), 0);
}

CASE(a_partition_outside_the_table_is_refused)
{
	struct ibv_context *ctx = vs_open(0);
	uint16_t key;

	CHECK_EQ(ibv_query_pkey(ctx, vs_port_num, vs_port_attr(ctx).pkey_tbl_len, &key), -1);
	CHECK_EQ(ibv_query_pkey(ctx, vs_port_num, -1, &key), -1);
	CHECK_EQ(ibv_query_pkey(ctx, 0, 0, &key), -1);
	CHECK_EQ(ibv_close_device(ctx), 0);
}

/* ---- words ---------------------------------------------------------------------------------- */

CASE(each_status_and_event_has_a_name)
{
	for (int i = IBV_WC_SUCCESS; i <= IBV_WC_TM_RNDV_INCOMPLETE; i++)
		CHECK(ibv_wc_status_str((enum ibv_wc_status)i)[0]);
	for (int i = IBV_EVENT_CQ_ERR; i <= IBV_EVENT_WQ_FATAL; i++)
		CHECK(ibv_event_type_str((enum ibv_event_type)i)[0]);
	for (int i = IBV_PORT_NOP; i <= IBV_PORT_ACTIVE_DEFER; i++)
		CHECK(ibv_port_state_str((enum ibv_port_state)i)[0]);
	CHECK(ibv_node_type_str(IBV_NODE_CA)[0]);
	for (int i = IBV_WC_SUCCESS; i < IBV_WC_TM_RNDV_INCOMPLETE; i++)
		CHECK(strcmp(ibv_wc_status_str((enum ibv_wc_status)i),
			     ibv_wc_status_str((enum ibv_wc_status)(i + 1))));
}

CASE(a_name_for_what_is_unknown_is_a_name)
{
	CHECK(ibv_wc_status_str((enum ibv_wc_status)999)[0]);
	CHECK(ibv_event_type_str((enum ibv_event_type)999)[0]);
	CHECK(ibv_port_state_str((enum ibv_port_state)999)[0]);
	CHECK(ibv_node_type_str((enum ibv_node_type)999)[0]);
}
