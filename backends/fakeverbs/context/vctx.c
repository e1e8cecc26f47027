/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The extended calls of a context: the slots of struct verbs_context, which inline functions of
 * verbs.h call. A NULL slot makes its inline function fail with EOPNOTSUPP, like hardware without
 * the feature. The NULL slots are listed here with the reason, so that no slot is forgotten.
 */
#include "backends/fakeverbs/context/context.h"

void hca_extended_ops(struct verbs_context *v)
{
	v->create_srq_ex = hca_create_srq_ex;
	v->open_xrcd = hca_open_xrcd;
	v->close_xrcd = hca_close_xrcd;
	v->get_srq_num = hca_get_srq_num;
	v->open_qp = hca_open_qp;
	v->alloc_td = hca_alloc_td;
	v->dealloc_td = hca_dealloc_td;
	v->alloc_parent_domain = hca_alloc_parent_domain;
	v->create_cq_ex = hca_create_cq_ex;
	v->create_qp_ex = hca_create_qp_ex;
	v->query_device_ex = hca_query_device_ex;
	v->modify_cq = hca_modify_cq;
	v->query_rt_values = hca_query_rt_values;
	v->alloc_null_mr = hca_alloc_null_mr;
	v->advise_mr = hca_advise_mr;

	/* Work queues and indirection tables spread raw packets over queues, and flows steer raw
	 * packets: this HCA has no raw packet queue pairs. */
	v->create_wq = NULL;
	v->modify_wq = NULL;
	v->destroy_wq = NULL;
	v->create_rwq_ind_table = NULL;
	v->destroy_rwq_ind_table = NULL;
	v->ibv_create_flow = NULL;
	v->ibv_destroy_flow = NULL;
	v->create_flow_action_esp = NULL;
	v->modify_flow_action_esp = NULL;
	v->destroy_flow_action = NULL;
	/* Counters count flows. */
	v->create_counters = NULL;
	v->destroy_counters = NULL;
	v->attach_counters_point_flow = NULL;
	v->read_counters = NULL;
	/* Tag matching and pacing of queue pairs are not implemented. */
	v->post_srq_ops = NULL;
	v->modify_qp_rate_limit = NULL;
	/* This HCA has no device memory. */
	v->alloc_dm = NULL;
	v->free_dm = NULL;
	v->reg_dm_mr = NULL;
}
