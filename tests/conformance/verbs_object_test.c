/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices, ports and addresses of a machine file; the layout that binaries rely on; names; what is
 * in use, and what this HCA does not have. What every device must do is in verbs/device.c, pd_mr.c
 * and cq.c. */
#include "core/base/macros.h"
#include "tests/conformance/verbs_harness.h"

#if defined(__x86_64__)
/* rdma-core 44 on x86-64: what compiled programs have built in */
DOPPEL_CHECK_SIZE(struct ibv_device, 664);
DOPPEL_CHECK_OFFSET(struct ibv_device, name, 24);
DOPPEL_CHECK_OFFSET(struct ibv_device, dev_name, 88);
DOPPEL_CHECK_OFFSET(struct ibv_device, dev_path, 152);
DOPPEL_CHECK_OFFSET(struct ibv_device, ibdev_path, 408);
DOPPEL_CHECK_SIZE(struct ibv_context, 328);
DOPPEL_CHECK_OFFSET(struct ibv_context, ops, 8);
DOPPEL_CHECK_OFFSET(struct ibv_context, cmd_fd, 264);
DOPPEL_CHECK_OFFSET(struct ibv_context, async_fd, 268);
DOPPEL_CHECK_OFFSET(struct ibv_context, num_comp_vectors, 272);
DOPPEL_CHECK_OFFSET(struct ibv_context, mutex, 280);
DOPPEL_CHECK_OFFSET(struct ibv_context, abi_compat, 320);
DOPPEL_CHECK_SIZE(struct verbs_context, 648);
DOPPEL_CHECK_OFFSET(struct verbs_context, sz, 312);
DOPPEL_CHECK_OFFSET(struct verbs_context, context, 320);
DOPPEL_CHECK_SIZE(struct ibv_qp, 160);
DOPPEL_CHECK_OFFSET(struct ibv_qp, handle, 48);
DOPPEL_CHECK_OFFSET(struct ibv_qp, qp_num, 52);
DOPPEL_CHECK_OFFSET(struct ibv_qp, state, 56);
DOPPEL_CHECK_OFFSET(struct ibv_qp, qp_type, 60);
DOPPEL_CHECK_SIZE(struct ibv_qp_ex, 352);
DOPPEL_CHECK_SIZE(struct ibv_cq, 128);
DOPPEL_CHECK_SIZE(struct ibv_cq_ex, 288);
DOPPEL_CHECK_SIZE(struct ibv_srq, 128);
DOPPEL_CHECK_SIZE(struct ibv_mr, 48);
DOPPEL_CHECK_OFFSET(struct ibv_mr, lkey, 36);
DOPPEL_CHECK_OFFSET(struct ibv_mr, rkey, 40);
DOPPEL_CHECK_SIZE(struct ibv_wc, 48);
DOPPEL_CHECK_SIZE(struct ibv_send_wr, 128);
DOPPEL_CHECK_SIZE(struct ibv_recv_wr, 32);
DOPPEL_CHECK_SIZE(struct ibv_port_attr, 52);
DOPPEL_CHECK_SIZE(struct ibv_device_attr, 232);
DOPPEL_CHECK_SIZE(struct ibv_device_attr_ex, 400);
DOPPEL_CHECK_SIZE(struct ibv_qp_attr, 144);
DOPPEL_CHECK_SIZE(struct ibv_gid_entry, 32);
#endif

#define NICS 8 /* of VH_MACHINE */

VH_TEST(the_device_list_is_the_hosts_hcas)
{
	int n = -1;
	struct ibv_device **list = ibv_get_device_list(&n);
	const struct world_machine *m = world_host_machine(0);

	ck_assert_int_eq(n, NICS);
	for (int i = 0; i < n; i++) {
		ck_assert_str_eq(ibv_get_device_name(list[i]), m->nic[i].name);
		ck_assert_uint_eq(be64toh(ibv_get_device_guid(list[i])), m->nic[i].guid);
		ck_assert_int_eq(list[i]->node_type, IBV_NODE_CA);
		ck_assert_int_eq(list[i]->transport_type, IBV_TRANSPORT_IB);
	}
	ck_assert_ptr_null(list[n]);
	/* an open device outlives the list */
	struct ibv_context *ctx = ibv_open_device(list[2]);

	ibv_free_device_list(list);
	ck_assert_str_eq(ibv_get_device_name(ctx->device), m->nic[2].name);
	ck_assert_int_eq(ibv_close_device(ctx), 0);
	list = ibv_get_device_list(NULL);
	ck_assert_ptr_nonnull(list);
	ibv_free_device_list(list);
}

VH_TEST(a_context_has_the_extended_layout_and_the_inline_calls)
{
	struct ibv_context *ctx = vh_open(0);

	ck_assert_ptr_eq(ctx->abi_compat, __VERBS_ABI_IS_EXTENDED);
	ck_assert_uint_eq(verbs_get_ctx(ctx)->sz, sizeof(struct verbs_context));
	ck_assert_ptr_nonnull(ctx->ops.poll_cq);
	ck_assert_ptr_nonnull(ctx->ops.req_notify_cq);
	ck_assert_ptr_nonnull(ctx->ops.post_send);
	ck_assert_ptr_nonnull(ctx->ops.post_recv);
	ck_assert_ptr_nonnull(verbs_get_ctx_op(ctx, query_port));
	ck_assert_int_ge(ctx->num_comp_vectors, 1);
	/* an inline call without a function fails by itself */
	struct ibv_wq_init_attr attr = {.wq_type = IBV_WQT_RQ};

	errno = 0;
	ck_assert_ptr_null(ibv_create_wq(ctx, &attr));
	ck_assert_int_eq(errno, EOPNOTSUPP);
	ck_assert_int_eq(ibv_close_device(ctx), 0);
}

VH_TEST(device_and_port_say_what_programs_read)
{
	struct ibv_context *ctx = vh_open(1);
	struct ibv_device_attr d;
	struct ibv_port_attr p;
	struct ibv_device_attr_ex ex;

	ck_assert_int_eq(ibv_query_device(ctx, &d), 0);
	ck_assert_uint_eq(d.node_guid, ibv_get_device_guid(ctx->device));
	ck_assert_uint_eq(d.sys_image_guid, d.node_guid);
	ck_assert_uint_ne(d.vendor_id, 0);
	ck_assert_int_eq(d.phys_port_cnt, 1);
	ck_assert_int_ge(d.max_qp, 1024);
	ck_assert_int_ge(d.max_qp_wr, 4096);
	ck_assert_int_ge(d.max_sge, 4);
	ck_assert_int_ge(d.max_cqe, 65536);
	ck_assert_int_ge(d.max_qp_rd_atom, 1);
	ck_assert_int_eq(d.atomic_cap, IBV_ATOMIC_HCA);
	ck_assert(strlen(d.fw_ver) > 0);
	ck_assert_int_eq(ibv_query_device_ex(ctx, NULL, &ex), 0);
	ck_assert_int_eq(ex.orig_attr.max_qp_wr, d.max_qp_wr);
	memset(&p, 0x55, sizeof p);
	ck_assert_int_eq(ibv_query_port(ctx, 1, &p), 0);
	ck_assert_int_eq(p.state, IBV_PORT_ACTIVE);
	ck_assert_int_eq(p.link_layer, IBV_LINK_LAYER_ETHERNET);
	ck_assert_int_eq(p.active_mtu, IBV_MTU_4096);
	ck_assert_int_eq(p.gid_tbl_len, 255);
	ck_assert_uint_eq(p.max_msg_sz, 1u << 30);
	ck_assert_int_eq(p.active_width, 2); /* 4 lanes of 100 Gb/s: 400 */
	ck_assert_int_eq(p.active_speed, 128);
	ck_assert_int_eq(p.port_cap_flags2, 0);
	ck_assert(p.flags & IBV_QPF_GRH_REQUIRED);
	ck_assert_int_eq(ibv_query_port(ctx, 0, &p), EINVAL);
	ck_assert_int_eq(ibv_query_port(ctx, 2, &p), EINVAL);
	ck_assert_int_eq(ibv_close_device(ctx), 0);
}

#undef ibv_query_port
VH_TEST(the_exported_query_port_writes_the_old_struct_only)
{
	struct ibv_context *ctx = vh_open(0);
	struct {
		struct ibv_port_attr a;
		uint8_t after[16];
	} p;

	memset(&p, 0x5a, sizeof p);
	ck_assert_int_eq(ibv_query_port(ctx, 1, (struct _compat_ibv_port_attr *)&p.a), 0);
	ck_assert_int_eq(p.a.state, IBV_PORT_ACTIVE);
	ck_assert_int_eq(p.a.port_cap_flags2, 0x5a5a);
	ck_assert_int_eq(p.after[0], 0x5a);
	ck_assert_int_eq(ibv_close_device(ctx), 0);
}
#define ibv_query_port(context, port_num, port_attr) ___ibv_query_port(context, port_num, port_attr)

VH_TEST(gids_are_two_addresses_in_two_versions)
{
	struct ibv_context *ctx = vh_open(3);
	const uint8_t *ip = world_port_of(0, 3)->ipv4;
	union ibv_gid g[4], empty;
	struct ibv_gid_entry e;

	for (int i = 0; i < 4; i++) {
		ck_assert_int_eq(ibv_query_gid(ctx, 1, i, &g[i]), 0);
		memset(&e, 0x55, sizeof e);
		ck_assert_int_eq(ibv_query_gid_ex(ctx, 1, (uint32_t)i, &e, 0), 0);
		ck_assert_mem_eq(&e.gid, &g[i], sizeof e.gid);
		ck_assert_uint_eq(e.gid_index, (uint32_t)i);
		ck_assert_uint_eq(e.port_num, 1);
		ck_assert_uint_eq(e.gid_type, i % 2 ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_ROCE_V1);
	}
	ck_assert_mem_eq(&g[0], &g[1], sizeof g[0]);
	ck_assert_mem_eq(&g[2], &g[3], sizeof g[2]);
	ck_assert_uint_eq(be64toh(g[0].global.subnet_prefix), 0xfe80000000000000ull);
	ck_assert_uint_eq(g[2].global.subnet_prefix, 0);
	ck_assert_uint_eq(g[2].raw[10] << 8 | g[2].raw[11], 0xffff);
	ck_assert_mem_eq(g[2].raw + 12, ip, 4);
	/* an empty slot reads as zero; queried as an entry, there is no data */
	ck_assert_int_eq(ibv_query_gid(ctx, 1, 4, &empty), 0);
	ck_assert_uint_eq(empty.global.subnet_prefix | empty.global.interface_id, 0);
	ck_assert_int_eq(ibv_query_gid_ex(ctx, 1, 4, &e, 0), ENODATA);
	ck_assert_int_eq(ibv_query_gid_ex(ctx, 1, 255, &e, 0), EINVAL);
	ck_assert_int_eq(ibv_query_gid_ex(ctx, 1, 0, &e, 1), EINVAL);
	ck_assert_int_eq(ibv_query_gid(ctx, 1, 255, &empty), -1);
	ck_assert_int_eq(ibv_query_gid(ctx, 1, -1, &empty), -1);
	ck_assert_int_eq(ibv_query_gid(ctx, 2, 0, &empty), -1);
	__be16 pkey = 0;

	ck_assert_int_eq(ibv_query_pkey(ctx, 1, 0, &pkey), 0);
	ck_assert_uint_eq(pkey, 0xffff);
	ck_assert_int_eq(ibv_query_pkey(ctx, 1, 100000, &pkey), -1);
	ck_assert_int_eq(ibv_close_device(ctx), 0);
}

/* ---- what is in use -------------------------------------------------------------------------- */

VH_TEST(what_is_in_use_is_not_destroyed)
{
	struct vh h;

	vh_make(&h, &vh_defaults);
	struct vh_end *e = &h.end[0];

	sim_expect_misuse("verbs-destroy-order: ibv_dealloc_pd");
	sim_expect_misuse("verbs-destroy-order: ibv_destroy_cq");
	sim_expect_misuse("verbs-close-leak");
	ck_assert_int_eq(ibv_dealloc_pd(e->pd), EBUSY);
	ck_assert_int_eq(ibv_destroy_cq(e->send_cq), EBUSY);
	ck_assert_int_eq(ibv_destroy_cq(e->recv_cq), EBUSY);
	ck_assert_int_eq(ibv_close_device(e->ctx), EBUSY);

	struct ibv_comp_channel *channel = ibv_create_comp_channel(e->ctx);
	struct ibv_cq *cq = ibv_create_cq(e->ctx, 4, NULL, channel, 0);

	ck_assert_ptr_nonnull(cq);
	errno = 0; /* rdma-core refuses this one without the kernel; here errno is set all the same */
	ck_assert_int_eq(ibv_destroy_comp_channel(channel), EBUSY);
	ck_assert_int_eq(errno, EBUSY);
	ck_assert_int_eq(ibv_destroy_cq(cq), 0);
	ck_assert_int_eq(ibv_destroy_comp_channel(channel), 0);
	vh_free(&h);
}

/* ---- names; what is not there --------------------------------------------------------------- */

VH_TEST(enumerations_have_names)
{
	ck_assert_str_eq(ibv_wc_status_str(IBV_WC_SUCCESS), "success");
	ck_assert_str_eq(ibv_wc_status_str(IBV_WC_RETRY_EXC_ERR),
			 "transport retry counter exceeded");
	ck_assert_str_eq(ibv_wc_status_str((enum ibv_wc_status)1000), "unknown");
	ck_assert_str_eq(ibv_event_type_str(IBV_EVENT_PORT_ERR), "port error");
	ck_assert_str_eq(ibv_port_state_str(IBV_PORT_ACTIVE), "active");
	ck_assert_str_eq(ibv_node_type_str(IBV_NODE_CA), "InfiniBand channel adapter");
	ck_assert_str_eq(ibv_node_type_str(IBV_NODE_UNKNOWN), "unknown");
	for (int i = 0; i <= IBV_WC_TM_RNDV_INCOMPLETE; i++)
		ck_assert_str_ne(ibv_wc_status_str((enum ibv_wc_status)i), "unknown");
	for (int i = 0; i <= IBV_EVENT_WQ_FATAL; i++)
		ck_assert_str_ne(ibv_event_type_str((enum ibv_event_type)i), "unknown event");
}

VH_TEST(features_that_are_missing_say_so)
{
	struct vh h;

	vh_make(&h, &vh_defaults);
	struct vh_end *e = &h.end[0];

	ck_assert_ptr_null(ibv_qp_to_qp_ex(e->qp));
	ck_assert_int_eq(ibv_fork_init(), 0);
	ck_assert_ptr_null(ibv_reg_mr(e->pd, e->buffer, 4096, IBV_ACCESS_ON_DEMAND));
	ck_assert_int_eq(errno, EOPNOTSUPP);
	vh_free(&h);
}

int main(void)
{
	TCase *t = tcase_create("objects");

	VH_ADD(t, the_device_list_is_the_hosts_hcas);
	VH_ADD(t, a_context_has_the_extended_layout_and_the_inline_calls);
	VH_ADD(t, device_and_port_say_what_programs_read);
	VH_ADD(t, the_exported_query_port_writes_the_old_struct_only);
	VH_ADD(t, gids_are_two_addresses_in_two_versions);
	VH_ADD(t, what_is_in_use_is_not_destroyed);
	VH_ADD(t, enumerations_have_names);
	VH_ADD(t, features_that_are_missing_say_so);
	return vh_suite_run("verbs objects", t);
}
