/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices, ports and addresses of a machine file; the layouts that binaries contain; names; objects
 * in use; features that this HCA does not have. The behaviour that every device must have is tested
 * in device_cases.c, pd_mr_cases.c and cq_cases.c. */
#include "core/base/macros.h"
#include "tests/conformance/verbs/harness/world.h"

#if defined(__x86_64__)
/* rdma-core 44 on x86-64. dropin/ibverbs/abi_layout.c checks the layouts that never change. */
DOPPEL_CHECK_SIZE(struct verbs_context, 648);
DOPPEL_CHECK_OFFSET(struct verbs_context, sz, 312);
DOPPEL_CHECK_OFFSET(struct verbs_context, context, 320);
DOPPEL_CHECK_SIZE(struct ibv_port_attr, 52);
DOPPEL_CHECK_SIZE(struct ibv_device_attr_ex, 400);
#endif

#define NICS 8 /* of VW_MACHINE */

CASE(the_device_list_is_the_hosts_hcas)
{
	int n = -1;
	struct ibv_device **list = ibv_get_device_list(&n);
	const struct world_machine *m = world_host_machine(0);

	CHECK_EQ(n, NICS);
	for (int i = 0; i < n; i++) {
		CHECK(!strcmp(ibv_get_device_name(list[i]), m->nic[i].name));
		CHECK_EQ(be64toh(ibv_get_device_guid(list[i])), m->nic[i].guid);
		CHECK_EQ(list[i]->node_type, IBV_NODE_CA);
		CHECK_EQ(list[i]->transport_type, IBV_TRANSPORT_IB);
	}
	CHECK(!list[n]);
	/* an open device outlives the list */
	struct ibv_context *ctx = ibv_open_device(list[2]);

	ibv_free_device_list(list);
	CHECK(!strcmp(ibv_get_device_name(ctx->device), m->nic[2].name));
	CHECK_EQ(ibv_close_device(ctx), 0);
	list = ibv_get_device_list(NULL);
	CHECK(list);
	ibv_free_device_list(list);
}

CASE(a_context_has_the_extended_layout_and_the_inline_calls)
{
	struct ibv_context *ctx = vs_open(0);

	CHECK(ctx->abi_compat == __VERBS_ABI_IS_EXTENDED);
	CHECK_EQ(verbs_get_ctx(ctx)->sz, sizeof(struct verbs_context));
	CHECK(ctx->ops.poll_cq);
	CHECK(ctx->ops.req_notify_cq);
	CHECK(ctx->ops.post_send);
	CHECK(ctx->ops.post_recv);
	CHECK(verbs_get_ctx_op(ctx, query_port));
	CHECK_GE(ctx->num_comp_vectors, 1);
	/* an inline function of verbs.h fails if the device does not implement it */
	struct ibv_wq_init_attr attr = {.wq_type = IBV_WQT_RQ};

	errno = 0;
	CHECK(!ibv_create_wq(ctx, &attr));
	CHECK_EQ(errno, EOPNOTSUPP);
	CHECK_EQ(ibv_close_device(ctx), 0);
}

CASE(device_and_port_say_what_programs_read)
{
	struct ibv_context *ctx = vs_open(1);
	struct ibv_device_attr d;
	struct ibv_port_attr p;
	struct ibv_device_attr_ex ex;

	CHECK_EQ(ibv_query_device(ctx, &d), 0);
	CHECK_EQ(d.node_guid, ibv_get_device_guid(ctx->device));
	CHECK_EQ(d.sys_image_guid, d.node_guid);
	CHECK(d.vendor_id != 0);
	CHECK_EQ(d.phys_port_cnt, 1);
	CHECK_GE(d.max_qp, 1024);
	CHECK_GE(d.max_qp_wr, 4096);
	CHECK_GE(d.max_sge, 4);
	CHECK_GE(d.max_cqe, 65536);
	CHECK_GE(d.max_qp_rd_atom, 1);
	CHECK_EQ(d.atomic_cap, IBV_ATOMIC_HCA);
	CHECK(strlen(d.fw_ver) > 0);
	CHECK_EQ(ibv_query_device_ex(ctx, NULL, &ex), 0);
	CHECK_EQ(ex.orig_attr.max_qp_wr, d.max_qp_wr);
	memset(&p, 0x55, sizeof p);
	CHECK_EQ(ibv_query_port(ctx, 1, &p), 0);
	CHECK_EQ(p.state, IBV_PORT_ACTIVE);
	CHECK_EQ(p.link_layer, IBV_LINK_LAYER_ETHERNET);
	CHECK_EQ(p.active_mtu, IBV_MTU_4096);
	CHECK_EQ(p.gid_tbl_len, 255);
	CHECK_EQ(p.max_msg_sz, 1u << 30);
	CHECK_EQ(p.active_width, 2); /* 4 lanes of 100 Gb/s: 400 */
	CHECK_EQ(p.active_speed, 128);
	CHECK_EQ(p.port_cap_flags2, 0);
	CHECK(p.flags & IBV_QPF_GRH_REQUIRED);
	CHECK_EQ(ibv_query_port(ctx, 0, &p), EINVAL);
	CHECK_EQ(ibv_query_port(ctx, 2, &p), EINVAL);
	CHECK_EQ(ibv_close_device(ctx), 0);
}

#undef ibv_query_port
CASE(the_exported_query_port_writes_the_old_struct_only)
{
	struct ibv_context *ctx = vs_open(0);
	struct {
		struct ibv_port_attr a;
		uint8_t after[16];
	} p;

	memset(&p, 0x5a, sizeof p);
	CHECK_EQ(ibv_query_port(ctx, 1, (struct _compat_ibv_port_attr *)&p.a), 0);
	CHECK_EQ(p.a.state, IBV_PORT_ACTIVE);
	CHECK_EQ(p.a.port_cap_flags2, 0x5a5a);
	CHECK_EQ(p.after[0], 0x5a);
	CHECK_EQ(ibv_close_device(ctx), 0);
}
#define ibv_query_port(context, port_num, port_attr) ___ibv_query_port(context, port_num, port_attr)

CASE(gids_are_two_addresses_in_two_versions)
{
	struct ibv_context *ctx = vw_open(3);
	const uint8_t *ip = world_port_of(0, 3)->ipv4;
	union ibv_gid g[4], empty;
	struct ibv_gid_entry e;

	for (int i = 0; i < 4; i++) {
		CHECK_EQ(ibv_query_gid(ctx, 1, i, &g[i]), 0);
		memset(&e, 0x55, sizeof e);
		CHECK_EQ(ibv_query_gid_ex(ctx, 1, (uint32_t)i, &e, 0), 0);
		CHECK(!memcmp(&e.gid, &g[i], sizeof e.gid));
		CHECK_EQ(e.gid_index, (uint32_t)i);
		CHECK_EQ(e.port_num, 1);
		CHECK_EQ(e.gid_type, i % 2 ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_ROCE_V1);
	}
	CHECK(!memcmp(&g[0], &g[1], sizeof g[0]));
	CHECK(!memcmp(&g[2], &g[3], sizeof g[2]));
	CHECK_EQ(be64toh(g[0].global.subnet_prefix), 0xfe80000000000000ull);
	CHECK_EQ(g[2].global.subnet_prefix, 0);
	CHECK_EQ(g[2].raw[10] << 8 | g[2].raw[11], 0xffff);
	CHECK(!memcmp(g[2].raw + 12, ip, 4));
	/* the GID of an empty slot is zero; its entry is ENODATA */
	CHECK_EQ(ibv_query_gid(ctx, 1, 4, &empty), 0);
	CHECK_EQ(empty.global.subnet_prefix | empty.global.interface_id, 0);
	CHECK_EQ(ibv_query_gid_ex(ctx, 1, 4, &e, 0), ENODATA);
	CHECK_EQ(ibv_query_gid_ex(ctx, 1, 255, &e, 0), EINVAL);
	CHECK_EQ(ibv_query_gid_ex(ctx, 1, 0, &e, 1), EINVAL);
	CHECK_EQ(ibv_query_gid(ctx, 1, 255, &empty), -1);
	CHECK_EQ(ibv_query_gid(ctx, 1, -1, &empty), -1);
	CHECK_EQ(ibv_query_gid(ctx, 2, 0, &empty), -1);
	__be16 pkey = 0;

	CHECK_EQ(ibv_query_pkey(ctx, 1, 0, &pkey), 0);
	CHECK_EQ(pkey, 0xffff);
	CHECK_EQ(ibv_query_pkey(ctx, 1, 100000, &pkey), -1);
	CHECK_EQ(ibv_close_device(ctx), 0);
}

/* ---- what is in use -------------------------------------------------------------------------- */

CASE(what_is_in_use_is_not_destroyed)
{
	struct vs_pair h;

	vs_make(&h, &vw_defaults);
	struct vs_end *e = &h.end[0];

	sim_expect_misuse("verbs-destroy-order: ibv_dealloc_pd");
	sim_expect_misuse("verbs-destroy-order: ibv_destroy_cq");
	sim_expect_misuse("verbs-close-leak");
	CHECK_EQ(ibv_dealloc_pd(e->pd), EBUSY);
	CHECK_EQ(ibv_destroy_cq(e->send_cq), EBUSY);
	CHECK_EQ(ibv_destroy_cq(e->recv_cq), EBUSY);
	CHECK_EQ(ibv_close_device(e->ctx), EBUSY);

	struct ibv_comp_channel *channel = ibv_create_comp_channel(e->ctx);
	struct ibv_cq *cq = ibv_create_cq(e->ctx, 4, NULL, channel, 0);

	CHECK(cq);
	errno = 0; /* rdma-core does not set errno here */
	CHECK_EQ(ibv_destroy_comp_channel(channel), EBUSY);
	CHECK_EQ(errno, EBUSY);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	CHECK_EQ(ibv_destroy_comp_channel(channel), 0);
	vs_free(&h);
}

/* ---- names; what is not there --------------------------------------------------------------- */

CASE(enumerations_have_names)
{
	CHECK(!strcmp(ibv_wc_status_str(IBV_WC_SUCCESS), "success"));
	CHECK(!strcmp(ibv_wc_status_str(IBV_WC_RETRY_EXC_ERR), "transport retry counter exceeded"));
	CHECK(!strcmp(ibv_wc_status_str((enum ibv_wc_status)1000), "unknown"));
	CHECK(!strcmp(ibv_event_type_str(IBV_EVENT_PORT_ERR), "port error"));
	CHECK(!strcmp(ibv_port_state_str(IBV_PORT_ACTIVE), "active"));
	CHECK(!strcmp(ibv_node_type_str(IBV_NODE_CA), "InfiniBand channel adapter"));
	CHECK(!strcmp(ibv_node_type_str(IBV_NODE_UNKNOWN), "unknown"));
	for (int i = 0; i <= IBV_WC_TM_RNDV_INCOMPLETE; i++)
		CHECK(strcmp(ibv_wc_status_str((enum ibv_wc_status)i), "unknown"));
	for (int i = 0; i <= IBV_EVENT_WQ_FATAL; i++)
		CHECK(strcmp(ibv_event_type_str((enum ibv_event_type)i), "unknown event"));
}

CASE(features_that_are_missing_say_so)
{
	struct vs_pair h;

	vs_make(&h, &vw_defaults);
	struct vs_end *e = &h.end[0];

	CHECK(!ibv_qp_to_qp_ex(e->qp));
	CHECK_EQ(ibv_fork_init(), 0);
	CHECK(!ibv_reg_mr(e->pd, e->buffer, 4096, IBV_ACCESS_ON_DEMAND));
	CHECK_EQ(errno, EOPNOTSUPP);
	vs_free(&h);
}
