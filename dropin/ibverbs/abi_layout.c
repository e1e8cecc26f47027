/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks the struct layouts that programs were compiled with. They are frozen since libibverbs 1.1,
 * and some programs that open the library at run time declare them anew. Later headers only append
 * fields. */
#include "backends/fakeverbs/objects/handles.h"

#if defined(__x86_64__) || defined(__aarch64__)
#define DROPIN_SIZE(type, bytes) DOPPEL_STATIC_CHECK(sizeof(type) == (bytes), #type)
#define DROPIN_AT(type, field, offset)                                                             \
	DOPPEL_STATIC_CHECK(offsetof(type, field) == (offset), #type " " #field)

DROPIN_SIZE(struct ibv_device, 664);
DROPIN_AT(struct ibv_device, name, 24);
DROPIN_AT(struct ibv_device, dev_name, 88);
DROPIN_AT(struct ibv_device, dev_path, 152);
DROPIN_AT(struct ibv_device, ibdev_path, 408);
DROPIN_AT(struct hca_device_handle, provider, 664); /* providers look for their own table here */
DROPIN_SIZE(struct ibv_context, 328);
DROPIN_AT(struct ibv_context, ops, 8);
DROPIN_AT(struct ibv_context, cmd_fd, 264);
DROPIN_AT(struct ibv_context, async_fd, 268);
DROPIN_AT(struct ibv_context, num_comp_vectors, 272);
DROPIN_AT(struct ibv_context, mutex, 280);
DROPIN_AT(struct ibv_context, abi_compat, 320);
DOPPEL_STATIC_CHECK(sizeof(struct verbs_context) >= 648, "verbs_context grows");
DOPPEL_STATIC_CHECK(sizeof(struct verbs_context) - offsetof(struct verbs_context, context) == 328,
		    "verbs_context grows at its front");
DOPPEL_STATIC_CHECK(offsetof(struct verbs_context, context) - offsetof(struct verbs_context, sz) ==
			    8,
		    "the size is in front of the context");
DROPIN_SIZE(struct ibv_comp_channel, 16);
DROPIN_SIZE(struct ibv_pd, 16);
DROPIN_SIZE(struct ibv_qp, 160);
DROPIN_AT(struct ibv_qp, handle, 48);
DROPIN_AT(struct ibv_qp, qp_num, 52);
DROPIN_AT(struct ibv_qp, state, 56);
DROPIN_AT(struct ibv_qp, qp_type, 60);
DROPIN_SIZE(struct ibv_qp_ex, 352);
DROPIN_SIZE(struct ibv_cq, 128);
DROPIN_SIZE(struct ibv_cq_ex, 288);
DROPIN_SIZE(struct ibv_srq, 128);
DROPIN_SIZE(struct ibv_mr, 48);
DROPIN_AT(struct ibv_mr, lkey, 36);
DROPIN_AT(struct ibv_mr, rkey, 40);
DROPIN_SIZE(struct ibv_wc, 48);
DROPIN_SIZE(struct ibv_sge, 16);
DROPIN_SIZE(struct ibv_send_wr, 128);
DROPIN_SIZE(struct ibv_recv_wr, 32);
DROPIN_AT(struct ibv_port_attr, port_cap_flags2, 48);
DROPIN_SIZE(struct ibv_device_attr, 232);
DROPIN_SIZE(struct ibv_qp_attr, 144);
DROPIN_SIZE(struct ibv_qp_init_attr, 64);
DROPIN_SIZE(struct ibv_ah_attr, 32);
DROPIN_SIZE(struct ibv_gid_entry, 32);
DROPIN_SIZE(struct ibv_async_event, 16);
#endif
