/* SPDX-License-Identifier: BSD-3-Clause */
/* Multicast groups: join and leave. */
#include <errno.h>

#include "backends/fakeverbs/entry/entry.h"

int ibv_attach_mcast(struct ibv_qp *ibv, const union ibv_gid *gid, uint16_t lid)
{
	int bad = hca_enter_control(ibv, HCA_KIND_QP, "ibv_attach_mcast", HCA_CALLER());

	if (bad)
		return bad;
	struct hca_world *w = hca_world();
	struct hca_qp *qp = hca_qp_of(ibv)->hca;
	int rc = hca_mcast_check(qp, gid, lid);

	if (!rc)
		rc = hca_command_fault("verbs.attach_mcast", ibv, qp->port, -1);
	if (rc)
		return hca_result(rc);
	hca_lock(&w->member_lock);
	rc = hca_mcast_join(qp, gid);
	hca_unlock(&w->member_lock);
	return hca_result(rc);
}

int ibv_detach_mcast(struct ibv_qp *ibv, const union ibv_gid *gid, uint16_t lid)
{
	int bad = hca_enter_control(ibv, HCA_KIND_QP, "ibv_detach_mcast", HCA_CALLER());

	if (bad)
		return bad;
	struct hca_qp *qp = hca_qp_of(ibv)->hca;
	int rc = hca_mcast_check(qp, gid, lid);

	if (!rc)
		rc = hca_call_fault("verbs.detach_mcast", ibv, qp->port, -1);
	if (rc)
		return hca_result(rc);
	return hca_result(hca_mcast_leave(qp, gid) ? 0 : EINVAL);
}
