/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs of identifiers, with their completion queues and domains: creates them for the
 * program, and changes their states as the connection proceeds. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dropin/rdmacm/cm.h"

#define CM_ACK_TIMEOUT 18 /* about 1 s: twice the packet life time, as for RoCE */

/* ---- states --------------------------------------------------------------------------------- */

void cm_address_attr(const struct cm_id *id, const union ibv_gid *to, struct ibv_ah_attr *out)
{
	*out = (struct ibv_ah_attr){.is_global = 1,
				    .port_num = id->place.port,
				    .grh = {.dgid = *to,
					    .sgid_index = id->place.gid_index,
					    .hop_limit = 64,
					    .traffic_class = id->tos}};
}

static int cm_type_has_reliability(enum ibv_qp_type t)
{
	return t == IBV_QPT_RC || t == IBV_QPT_XRC_SEND || t == IBV_QPT_XRC_RECV;
}

static int cm_attr_init(const struct cm_id *id, enum ibv_qp_type type, struct ibv_qp_attr *a)
{
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	*a = (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .port_num = id->place.port};
	if (type == IBV_QPT_UD) {
		a->qkey = RDMA_UDP_QKEY;
		return mask | IBV_QP_QKEY;
	}
	a->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	if (id->state == CM_REQUESTED || id->state == CM_REPLIED || id->state == CM_CONNECTING)
		a->qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	return mask | IBV_QP_ACCESS_FLAGS;
}

static int cm_attr_receive(const struct cm_id *id, enum ibv_qp_type type, uint8_t responder,
			   struct ibv_qp_attr *a)
{
	enum ibv_mtu theirs = (enum ibv_mtu)id->peer.mtu;

	*a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR};
	if (type == IBV_QPT_UD)
		return IBV_QP_STATE;
	a->path_mtu = theirs < id->place.mtu ? theirs : id->place.mtu;
	a->dest_qp_num = id->peer.qpn;
	a->rq_psn = id->peer.psn;
	a->max_dest_rd_atomic = responder;
	a->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	if (responder && type != IBV_QPT_UC)
		a->qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	cm_address_attr(id, &id->peer.gid, &a->ah_attr);
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		   IBV_QP_ACCESS_FLAGS;

	if (type == IBV_QPT_RC || type == IBV_QPT_XRC_RECV)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return mask;
}

uint8_t cm_qp_ack_timeout(const struct cm_id *id)
{
	return id->has_ack_timeout ? id->ack_timeout : CM_ACK_TIMEOUT;
}

static int cm_attr_send(const struct cm_id *id, enum ibv_qp_type type, uint8_t initiator,
			struct ibv_qp_attr *a)
{
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	*a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				  .sq_psn = id->psn,
				  .timeout = cm_qp_ack_timeout(id),
				  .retry_cnt = id->param.retry_count & 7,
				  .rnr_retry = id->peer.rnr_retry_count & 7,
				  .max_rd_atomic = initiator};
	if (cm_type_has_reliability(type))
		mask |= IBV_QP_TIMEOUT;
	if (type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND)
		mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	return mask;
}

int cm_qp_ready_to_receive(struct cm_id *id, uint8_t responder_resources)
{
	struct ibv_qp_attr a;
	int mask = cm_attr_receive(id, id->rdma.qp->qp_type, responder_resources, &a);

	return ibv_modify_qp(id->rdma.qp, &a, mask);
}

int cm_qp_ready_to_send(struct cm_id *id, uint8_t initiator_depth)
{
	struct ibv_qp_attr a;
	int mask = cm_attr_send(id, id->rdma.qp->qp_type, initiator_depth, &a);

	return ibv_modify_qp(id->rdma.qp, &a, mask);
}

int cm_qp_error(struct cm_id *id)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_ERR};

	return id->rdma.qp ? ibv_modify_qp(id->rdma.qp, &a, IBV_QP_STATE) : 0;
}

/* Returns attributes for programs that modify their queue pair themselves. The target state is
 * attr->qp_state. */
int rdma_init_qp_attr(struct rdma_cm_id *rdma, struct ibv_qp_attr *attr, int *mask)
{
	struct cm_id *id = cm_id_of(rdma);
	int rc = 0;

	if (!rdma || !attr || !mask)
		return cm_result(EINVAL);
	*mask = 0;
	pthread_mutex_lock(&cm.lock);
	enum ibv_qp_type type = rdma->qp ? rdma->qp->qp_type : rdma->qp_type;

	if (!id->has_place)
		rc = EINVAL;
	else if (attr->qp_state == IBV_QPS_INIT)
		*mask = cm_attr_init(id, type, attr);
	else if (attr->qp_state == IBV_QPS_RTR && (type == IBV_QPT_UD || id->peer.magic))
		*mask = cm_attr_receive(id, type,
					id->param.responder_resources
						? id->param.responder_resources
						: id->peer.initiator_depth,
					attr);
	else if (attr->qp_state == IBV_QPS_RTS && (type == IBV_QPT_UD || id->peer.magic))
		*mask = cm_attr_send(id, type,
				     id->param.initiator_depth ? id->param.initiator_depth
							       : id->peer.responder_resources,
				     attr);
	else
		rc = EINVAL;
	pthread_mutex_unlock(&cm.lock);
	return cm_result(rc);
}

/* ---- create --------------------------------------------------------------------------------- */

static int cm_make_cq(struct rdma_cm_id *id, uint32_t entries, struct ibv_comp_channel **channel,
		      struct ibv_cq **cq)
{
	*channel = ibv_create_comp_channel(id->verbs);
	if (!*channel)
		return errno;
	*cq = ibv_create_cq(id->verbs, entries ? (int)entries : 1, id, *channel, 0);
	if (*cq)
		return 0;
	int rc = errno;

	ibv_destroy_comp_channel(*channel);
	*channel = NULL;
	return rc;
}

static void cm_end_cqs(struct cm_id *id)
{
	if (id->own_send_cq) {
		ibv_destroy_cq(id->rdma.send_cq);
		ibv_destroy_comp_channel(id->rdma.send_cq_channel);
		id->rdma.send_cq = NULL;
		id->rdma.send_cq_channel = NULL;
	}
	if (id->own_recv_cq) {
		ibv_destroy_cq(id->rdma.recv_cq);
		ibv_destroy_comp_channel(id->rdma.recv_cq_channel);
		id->rdma.recv_cq = NULL;
		id->rdma.recv_cq_channel = NULL;
	}
	id->own_send_cq = id->own_recv_cq = false;
}

/* Creates the completion queues that the program did not pass. */
static int cm_complete_attr(struct cm_id *id, struct ibv_qp_init_attr_ex *a)
{
	struct rdma_cm_id *r = &id->rdma;
	int rc = 0;

	if (!a->send_cq && a->qp_type != IBV_QPT_XRC_RECV) {
		if (!r->send_cq)
			rc = cm_make_cq(r, a->cap.max_send_wr, &r->send_cq_channel, &r->send_cq);
		if (rc)
			return rc;
		id->own_send_cq = true;
		a->send_cq = r->send_cq;
	}
	if (!a->srq)
		a->srq = r->srq;
	if (!a->recv_cq && a->qp_type != IBV_QPT_XRC_SEND && a->qp_type != IBV_QPT_XRC_RECV) {
		if (!r->recv_cq) {
			rc = cm_make_cq(r, a->cap.max_recv_wr, &r->recv_cq_channel, &r->recv_cq);
			id->own_recv_cq = !rc;
		}
		a->recv_cq = r->recv_cq;
	}
	return rc;
}

/* Uses the device's default XRC domain if the program passed none. */
static int cm_complete_xrcd(struct cm_id *id, bool given, struct ibv_xrcd **xrcd)
{
	if (!given || !*xrcd)
		*xrcd = cm_default_xrcd(id->place.device);
	return *xrcd ? 0 : errno;
}

/* Modifies a queue pair as far as possible without a connection: UD to RTS, others to INIT. */
static int cm_qp_begin(struct cm_id *id, struct ibv_qp *qp)
{
	struct ibv_qp_attr a;
	int rc = ibv_modify_qp(qp, &a, cm_attr_init(id, qp->qp_type, &a));

	if (rc || qp->qp_type != IBV_QPT_UD)
		return rc;
	rc = ibv_modify_qp(qp, &a, cm_attr_receive(id, qp->qp_type, 0, &a));
	return rc ? rc : ibv_modify_qp(qp, &a, cm_attr_send(id, qp->qp_type, 0, &a));
}

int rdma_create_qp_ex(struct rdma_cm_id *rdma, struct ibv_qp_init_attr_ex *attr)
{
	struct cm_id *id = cm_id_of(rdma);

	if (!rdma || !attr)
		return cm_result(EINVAL);
	if (!rdma->verbs || rdma->qp)
		return cm_result(EINVAL);
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD)) {
		attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
		attr->pd = rdma->pd ? rdma->pd : cm_default_pd(id->place.device);
	}
	if (!attr->pd)
		return cm_result(ENOMEM);
	if (attr->pd->context != rdma->verbs)
		return cm_result(EINVAL);
	struct ibv_qp_init_attr_ex full = *attr;
	struct ibv_qp *qp;
	int rc = cm_complete_attr(id, &full);

	if (!rc && full.qp_type == IBV_QPT_XRC_RECV)
		rc = cm_complete_xrcd(id, full.comp_mask & IBV_QP_INIT_ATTR_XRCD, &full.xrcd);
	if (rc)
		goto err;
	if (full.qp_type == IBV_QPT_XRC_RECV)
		full.comp_mask |= IBV_QP_INIT_ATTR_XRCD;
	/* like ibv_create_qp, which has no extended interface */
	if (full.comp_mask == IBV_QP_INIT_ATTR_PD) {
		struct ibv_qp_init_attr plain = {.qp_context = full.qp_context,
						 .send_cq = full.send_cq,
						 .recv_cq = full.recv_cq,
						 .srq = full.srq,
						 .cap = full.cap,
						 .qp_type = full.qp_type,
						 .sq_sig_all = full.sq_sig_all};

		qp = ibv_create_qp(full.pd, &plain);
		full.cap = plain.cap;
	} else {
		qp = ibv_create_qp_ex(rdma->verbs, &full);
	}
	rc = qp ? 0 : errno;
	if (rc)
		goto err;
	rc = cm_qp_begin(id, qp);
	if (rc) {
		ibv_destroy_qp(qp);
		goto err;
	}
	attr->cap = full.cap;
	rdma->qp = qp;
	rdma->pd = full.pd;
	rdma->qp_type = full.qp_type;
	if (id->local_ece.vendor_id == 0)
		(void)ibv_query_ece(qp, &id->local_ece); /* may fail: a device without ECE */
	return 0;
err:
	cm_end_cqs(id);
	return cm_result(rc);
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	if (!id || !attr)
		return cm_result(EINVAL);
	struct ibv_qp_init_attr_ex full = {.qp_context = attr->qp_context,
					   .send_cq = attr->send_cq,
					   .recv_cq = attr->recv_cq,
					   .srq = attr->srq,
					   .cap = attr->cap,
					   .qp_type = attr->qp_type,
					   .sq_sig_all = attr->sq_sig_all,
					   .comp_mask = pd ? IBV_QP_INIT_ATTR_PD : 0,
					   .pd = pd};
	int rc = rdma_create_qp_ex(id, &full);

	if (!rc)
		attr->cap = full.cap;
	return rc;
}

void rdma_destroy_qp(struct rdma_cm_id *rdma)
{
	if (!rdma || !rdma->qp)
		return;
	pthread_mutex_lock(&cm.lock);
	cm_multicast_end(cm_id_of(rdma));
	pthread_mutex_unlock(&cm.lock);
	ibv_destroy_qp(rdma->qp);
	rdma->qp = NULL;
	/* otherwise receives of the SRQ still complete there */
	if (!rdma->srq || rdma->qp_type != IBV_QPT_XRC_RECV)
		cm_end_cqs(cm_id_of(rdma));
}

/* ---- shared receive queues ------------------------------------------------------------------ */

int rdma_create_srq_ex(struct rdma_cm_id *rdma, struct ibv_srq_init_attr_ex *attr)
{
	struct cm_id *id = cm_id_of(rdma);
	int rc = 0;

	if (!rdma || !attr || !rdma->verbs || rdma->srq)
		return cm_result(EINVAL);
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd) {
		attr->pd = rdma->pd ? rdma->pd : cm_default_pd(id->place.device);
		attr->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
	}
	if (!attr->pd)
		return cm_result(ENOMEM);
	bool xrc = (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) && attr->srq_type == IBV_SRQT_XRC;

	if (xrc) {
		rc = cm_complete_xrcd(id, attr->comp_mask & IBV_SRQ_INIT_ATTR_XRCD, &attr->xrcd);
		if (rc)
			return cm_result(rc);
		attr->comp_mask |= IBV_SRQ_INIT_ATTR_XRCD;
	}
	if (xrc && (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ) || !attr->cq)) {
		rc = cm_make_cq(rdma, attr->attr.max_wr, &rdma->recv_cq_channel, &rdma->recv_cq);
		if (rc)
			return cm_result(rc);
		id->own_recv_cq = true;
		attr->cq = rdma->recv_cq;
		attr->comp_mask |= IBV_SRQ_INIT_ATTR_CQ;
	}
	rdma->srq = ibv_create_srq_ex(rdma->verbs, attr);
	if (!rdma->srq) {
		rc = errno;
		cm_end_cqs(id);
		return cm_result(rc);
	}
	rdma->pd = attr->pd;
	return 0;
}

int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	if (!id || !attr)
		return cm_result(EINVAL);
	struct ibv_srq_init_attr_ex full = {.srq_context = attr->srq_context,
					    .attr = attr->attr,
					    .comp_mask = pd ? IBV_SRQ_INIT_ATTR_PD : 0,
					    .pd = pd};

	if (id->qp_type == IBV_QPT_XRC_RECV) {
		full.comp_mask |= IBV_SRQ_INIT_ATTR_TYPE;
		full.srq_type = IBV_SRQT_XRC;
	}
	int rc = rdma_create_srq_ex(id, &full);

	if (!rc)
		attr->attr = full.attr;
	return rc;
}

void rdma_destroy_srq(struct rdma_cm_id *rdma)
{
	if (!rdma || !rdma->srq)
		return;
	ibv_destroy_srq(rdma->srq);
	rdma->srq = NULL;
	if (!rdma->qp)
		cm_end_cqs(cm_id_of(rdma));
}
