/* SPDX-License-Identifier: BSD-3-Clause */
/* Newer queries: ibv_query_device_ex, options of enhanced connection establishment (ECE),
 * guarantees about the order of data. */
#include <errno.h>

#include "backends/fakeverbs/context/context.h"

/* ---- the device ----------------------------------------------------------------------------- */

/* Fills the supported features. Fields that stay 0 are not supported: on-demand paging,
 * segmentation offload, RSS, work queues, pacing, raw packets, tag matching, device memory, atomics
 * on the bus. */
static void hca_device_ex_fill(struct ibv_device_attr_ex *a, const struct hca_personality *p)
{
	a->completion_timestamp_mask = p->timestamps ? UINT64_MAX : 0;
	a->hca_core_clock = p->timestamps ? HCA_CLOCK_KHZ : 0;
	a->device_cap_flags_ex = (uint64_t)(uint32_t)a->orig_attr.device_cap_flags;
	a->cq_mod_caps.max_cq_count = UINT16_MAX;
	a->cq_mod_caps.max_cq_period = UINT16_MAX;
	a->phys_port_cnt_ex = a->orig_attr.phys_port_cnt;
}

/* Fills at most `bytes` bytes, the size of the program's struct. */
int hca_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
			struct ibv_device_attr_ex *attr, size_t bytes)
{
	struct ibv_device_attr_ex a = {.comp_mask = 0};

	if (bytes < sizeof a.orig_attr || (input && input->comp_mask))
		return hca_result(EINVAL);
	int rc = ibv_query_device(context, &a.orig_attr);

	if (rc)
		return hca_result(rc);
	hca_device_ex_fill(&a, hca_personality(hca_context_of(context)->hca->port));
	memset(attr, 0, bytes);
	memcpy(attr, &a, MIN_OF(bytes, sizeof a));
	return 0;
}

/* ---- enhanced connection establishment ------------------------------------------------------ */

/* Returns the options of this end. The program sets the options that both ends have, before it
 * connects the queue pair. */
int ibv_query_ece(struct ibv_qp *ibv, struct ibv_ece *ece)
{
	int bad = hca_enter(ibv, HCA_KIND_QP, "ibv_query_ece", HCA_CALLER());

	if (bad)
		return bad;
	struct hca_qp *qp = hca_qp_of(ibv)->hca;
	const struct hca_personality *p = hca_personality(qp->port);

	*ece = (struct ibv_ece){.vendor_id = 0};
	if (!p->ece_options || qp->type == IBV_QPT_UD)
		return hca_result(EOPNOTSUPP);
	int rc = hca_command_fault("verbs.query_ece", ibv, qp->port, -1);

	if (rc)
		return hca_result(rc);
	hca_qp_lock(qp);
	*ece = (struct ibv_ece){.vendor_id = p->vendor_id, .options = qp->ece_options};
	hca_unlock(&qp->item.lock);
	return 0;
}

int ibv_set_ece(struct ibv_qp *ibv, struct ibv_ece *ece)
{
	int bad = hca_enter(ibv, HCA_KIND_QP, "ibv_set_ece", HCA_CALLER());

	if (bad)
		return bad;
	struct hca_qp *qp = hca_qp_of(ibv)->hca;
	const struct hca_personality *p = hca_personality(qp->port);

	if (!p->ece_options || qp->type == IBV_QPT_UD || !ece->vendor_id)
		return hca_result(EOPNOTSUPP);
	int rc = ece->comp_mask || ece->vendor_id != p->vendor_id ? EINVAL : 0;

	if (!rc)
		rc = hca_command_fault("verbs.set_ece", ibv, qp->port, -1);
	hca_qp_lock(qp);
	if (!rc && qp->state != IBV_QPS_RESET && qp->state != IBV_QPS_INIT)
		rc = EINVAL;
	if (!rc)
		qp->ece_options = ece->options & p->ece_options;
	hca_unlock(&qp->item.lock);
	return hca_result(rc);
}

/* ---- the order of data ---------------------------------------------------------------------- */

/* Always 0: no order is guaranteed. A program that polls memory for more than a small write relies
 * on luck. */
int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	if (hca_enter(qp, HCA_KIND_QP, "ibv_query_qp_data_in_order", HCA_CALLER()))
		return 0;
	return 0;
}
