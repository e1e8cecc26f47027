/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pairs: made, taken from RESET to RTS with NCCL's values, closed.
 */
#include <string.h>

#include "core/transport/net_verbs_internal.h"

static int net_verbs_qp_to_init(struct net_verbs_conn *c, struct ibv_qp *qp, unsigned access)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.pkey_index = 0,
		.port_num = c->dev->port,
		.qp_access_flags = access,
	};

	return ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static void net_verbs_address(const struct net_verbs_conn *c, const struct net_verbs_meta *to,
			      struct ibv_ah_attr *ah)
{
	memset(ah, 0, sizeof *ah);
	ah->port_num = c->dev->port;
	ah->sl = (uint8_t)param_i64(PARAM_IB_SL);
	if (to->link_layer == IBV_LINK_LAYER_ETHERNET) {
		ah->is_global = 1;
		memcpy(ah->grh.dgid.raw, to->gid, sizeof to->gid);
		ah->grh.sgid_index = (uint8_t)c->dev->gid_index;
		ah->grh.hop_limit = 255;
		ah->grh.traffic_class = (uint8_t)param_i64(PARAM_IB_TC);
	} else {
		ah->dlid = to->lid;
	}
}

static int net_verbs_qp_to_rtr(struct net_verbs_conn *c, struct ibv_qp *qp,
			       const struct net_verbs_meta *to, uint32_t qpn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = MIN_OF((unsigned)c->dev->attr.active_mtu, (unsigned)to->mtu),
		.dest_qp_num = qpn,
		.rq_psn = 0,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
	};

	net_verbs_address(c, to, &attr.ah_attr);
	return ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER);
}

static int net_verbs_qp_rtr_to_rts(const struct net_verbs_conn *c, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.timeout = (uint8_t)param_i64(PARAM_IB_TIMEOUT),
		.retry_cnt = c->dev->retries,
		.rnr_retry = 7, /* for ever */
		.sq_psn = 0,
		.max_rd_atomic = 1,
	};

	return ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

/* qp->state follows what succeeded: a second try goes on where the first ended. */
static int net_verbs_qp_connect(struct net_verbs_conn *c, uint32_t i)
{
	struct ibv_qp *qp = c->qp[i];
	int rc = 0;

	if (qp->state == IBV_QPS_INIT)
		rc = net_verbs_qp_to_rtr(c, qp, &c->theirs, c->theirs.qpn[i]);
	if (!rc && qp->state == IBV_QPS_RTR)
		rc = net_verbs_qp_rtr_to_rts(c, qp);
	if (rc && rc != ETIMEDOUT)
		WARN("NET/IB: rank %d: connecting qp 0x%x on %s to rank %d's qp 0x%x on %.31s "
		     "failed: %s",
		     c->comm->rank, qp->qp_num, c->dev->name, c->who.peer, c->theirs.qpn[i],
		     c->theirs.nic, strerror(rc));
	return rc;
}

int net_verbs_qp_to_rts(struct net_verbs_conn *c)
{
	int rc = 0;

	for (uint32_t i = 0; i < c->nqps && !rc; i++)
		rc = net_verbs_qp_connect(c, i);
	return rc;
}

static void net_verbs_qp_label(struct net_verbs_conn *c, struct ibv_qp *qp, const char *what)
{
	os_label(qp, &(struct os_label){.what = what,
					.rank = c->comm->rank,
					.peer = c->who.peer,
					.channel = c->who.channel,
					.number = qp->qp_num});
}

static struct ibv_qp *net_verbs_qp_create(struct net_verbs_conn *c, uint32_t send, uint32_t recv,
					  uint32_t inline_bytes)
{
	struct ibv_qp_init_attr init = {
		.send_cq = c->cq,
		.recv_cq = c->cq,
		.cap = {.max_send_wr = send,
			.max_recv_wr = recv,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = inline_bytes},
		.qp_type = IBV_QPT_RC,
	};

	return ibv_create_qp(c->dev->pd, &init);
}

static struct ibv_qp *net_verbs_qp_none(const struct net_verbs_conn *c)
{
	WARN("NET/IB: ibv_create_qp on device %s failed: %s", c->dev->name, strerror(errno));
	return NULL;
}

/* Where the other end writes: clear-to-send entries, or sizes of the messages of a receive. */
static ncclResult_t net_verbs_ring_make(struct net_verbs_conn *c)
{
	const size_t each = c->is_send ? sizeof(struct net_verbs_cts) : sizeof(uint32_t);
	const size_t bytes = NET_VERBS_RING * NET_MAX_RECVS * each, align = NET_VERBS_PAGE;

	c->ring_mem = os_alloc(bytes + align, c->is_send ? "clear-to-send ring" : "ring of sizes");
	if (!c->ring_mem) {
		WARN("NET/IB: no memory for a ring of %zu bytes", bytes);
		return ncclSystemError;
	}
	c->ring = (void *)ALIGN_UP((uintptr_t)c->ring_mem, align);
	c->ring_mr = ibv_reg_mr_iova(c->dev->pd, c->ring, bytes, 0,
				     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (c->ring_mr)
		return ncclSuccess;
	WARN("NET/IB: ibv_reg_mr of a ring of %s (%zu bytes) on device %s failed: %s",
	     c->is_send ? "clear-to-send entries" : "sizes", bytes, c->dev->name, strerror(errno));
	return ncclSystemError;
}

static void net_verbs_meta_fill(struct net_verbs_conn *c)
{
	struct net_verbs_meta *m = &c->mine;

	m->magic = NET_VERBS_META_MAGIC;
	m->nqps = (uint16_t)c->nqps;
	m->split = c->split;
	for (uint32_t i = 0; i < c->nqps; i++)
		m->qpn[i] = c->qp[i]->qp_num;
	memcpy(m->gid, c->dev->gid.raw, sizeof m->gid);
	m->lid = c->dev->attr.lid;
	m->mtu = (uint8_t)c->dev->attr.active_mtu;
	m->link_layer = c->dev->attr.link_layer;
	m->rank = c->who.rank;
	m->by_rank = c->comm->rank;
	snprintf(m->nic, sizeof m->nic, "%s", c->dev->name);
	m->ring_addr = 0; /* as registered */
	m->ring_rkey = c->ring_mr->rkey;
	m->ring_entries = NET_VERBS_RING;
}

/* Writes that one request may need on a queue pair: its data, and the immediate by itself, with adaptive routing
 * or behind the sizes of several messages. */
static uint32_t net_verbs_pieces(const struct net_verbs_conn *c)
{
	size_t most = net_verbs_message_max(c->dev), step = 0;

	for (int p = 0; p < DEV_PROTO_COUNT; p++)
		step = MAX_OF(step, (size_t)transport_step_bytes((enum dev_proto)p));
	return (uint32_t)DIV_UP(step, most) + 1;
}

/* Work requests that a queue pair may have. Sending: the writes of every request. Receiving: an empty receive
 * for every request, and on the first one the clear-to-send writes. */
static uint32_t net_verbs_depth(const struct net_verbs_conn *c, uint32_t i)
{
	if (c->is_send)
		return NET_MAX_REQUESTS * net_verbs_pieces(c);
	return i ? 0 : NET_VERBS_CTS_DEPTH;
}

/* A queue pair that fails completes them all, those that are not signaled included; and a flush for each
 * request. */
static ncclResult_t net_verbs_cq_make(struct net_verbs_conn *c)
{
	uint32_t cqes = c->is_send ? 0 : (c->nqps + 1) * NET_MAX_REQUESTS;

	for (uint32_t i = 0; i < c->nqps; i++)
		cqes += net_verbs_depth(c, i);
	c->cq = ibv_create_cq(c->dev->ctx, (int)cqes, NULL, NULL, 0);
	if (c->cq)
		return ncclSuccess;
	WARN("NET/IB: ibv_create_cq of %u entries on device %s failed", cqes, c->dev->name);
	net_verbs_pd_put(c->dev);
	return ncclSystemError;
}

/* The first queue pair of a receiving end writes clear-to-send entries. An HCA that has no room in a request
 * for those of several buffers has receives of one. */
static struct ibv_qp *net_verbs_qp_of_entries(struct net_verbs_conn *c, uint32_t send,
					      uint32_t recv)
{
	const uint32_t entry = sizeof(struct net_verbs_cts);
	struct ibv_qp *qp = net_verbs_qp_create(c, send, recv, NET_MAX_RECVS * entry);

	c->max_recvs = qp ? NET_MAX_RECVS : 1;
	if (!qp && errno == EINVAL)
		qp = net_verbs_qp_create(c, send, recv, entry);
	return qp;
}

static ncclResult_t net_verbs_qp_make_one(struct net_verbs_conn *c, uint32_t i)
{
	const uint32_t send = net_verbs_depth(c, i), recv = c->is_send ? 0 : NET_MAX_REQUESTS;
	const uint32_t sizes = c->is_send ? NET_MAX_RECVS * (uint32_t)sizeof(uint32_t) : 0;
	struct ibv_qp *qp = c->is_send || i ? net_verbs_qp_create(c, send, recv, sizes)
					    : net_verbs_qp_of_entries(c, send, recv);

	c->qp[i] = qp ? qp : net_verbs_qp_none(c);
	if (!qp)
		return ncclSystemError;
	net_verbs_qp_label(c, qp, c->is_send ? "qp send" : "qp recv");
	if (!net_verbs_qp_to_init(c, qp, IBV_ACCESS_REMOTE_WRITE))
		return ncclSuccess;
	WARN("NET/IB: qp 0x%x on device %s to INIT failed", qp->qp_num, c->dev->name);
	return ncclSystemError;
}

ncclResult_t net_verbs_qp_make(struct net_verbs_conn *c)
{
	ncclResult_t rc = net_verbs_gid_get(c->dev);

	if (!rc)
		rc = net_verbs_pd_get(c->dev);
	if (!rc)
		rc = net_verbs_cq_make(c);
	for (uint32_t i = 0; i < c->nqps && !rc; i++)
		rc = net_verbs_qp_make_one(c, i);
	if (rc)
		return rc;
	os_label(c->cq, &(struct os_label){.what = "cq",
					   .rank = c->comm->rank,
					   .peer = c->who.peer,
					   .channel = c->who.channel,
					   .number = c->qp[0]->qp_num});
	rc = net_verbs_watch(c);
	if (!rc)
		rc = net_verbs_ring_make(c);
	if (!rc)
		net_verbs_meta_fill(c);
	return rc;
}

/* A queue pair connected to itself, for flushes. */
ncclResult_t net_verbs_flush_qp_make(struct net_verbs_conn *c)
{
	int rc;

	ASSERT(!c->is_send && !c->flush_qp);
	c->flush_mr = ibv_reg_mr(c->dev->pd, &c->flush_word, sizeof c->flush_word,
				 IBV_ACCESS_LOCAL_WRITE);
	if (!c->flush_mr) {
		WARN("NET/IB: ibv_reg_mr of the flush word on device %s failed: %s", c->dev->name,
		     strerror(errno));
		return ncclSystemError;
	}
	c->flush_qp = net_verbs_qp_create(c, NET_MAX_REQUESTS, 0, 0);
	if (!c->flush_qp) {
		(void)net_verbs_qp_none(c);
		return ncclSystemError;
	}
	net_verbs_qp_label(c, c->flush_qp, "qp flush");
	rc = net_verbs_qp_to_init(c, c->flush_qp, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	if (!rc)
		rc = net_verbs_qp_to_rtr(c, c->flush_qp, &c->mine, c->flush_qp->qp_num);
	if (!rc)
		rc = net_verbs_qp_rtr_to_rts(c, c->flush_qp);
	if (!rc)
		return ncclSuccess;
	WARN("NET/IB: connecting flush qp 0x%x on device %s to itself failed: %s",
	     c->flush_qp->qp_num, c->dev->name, strerror(rc));
	return ncclSystemError;
}

static void net_verbs_qp_destroy(struct net_verbs_conn *c, struct ibv_qp **qp)
{
	int rc;

	if (!*qp)
		return;
	os_unlabel(*qp);
	rc = ibv_destroy_qp(*qp);
	if (rc)
		WARN("NET/IB: ibv_destroy_qp on device %s failed: %s", c->dev->name, strerror(rc));
	*qp = NULL;
}

/* After it the HCA touches no memory for this connection. */
void net_verbs_qp_stop(struct net_verbs_conn *c)
{
	net_verbs_unwatch(c);
	net_verbs_qp_destroy(c, &c->flush_qp);
	for (uint32_t i = 0; i < c->nqps; i++)
		net_verbs_qp_destroy(c, &c->qp[i]);
}

static void net_verbs_mr_close(struct net_verbs_conn *c, struct ibv_mr **mr)
{
	int rc;

	if (!*mr)
		return;
	rc = ibv_dereg_mr(*mr);
	if (rc)
		WARN("NET/IB: ibv_dereg_mr on device %s failed: %s", c->dev->name, strerror(rc));
	*mr = NULL;
}

/* Undoes as much of net_verbs_qp_make and net_verbs_flush_qp_make as was done. */
void net_verbs_qp_close(struct net_verbs_conn *c)
{
	net_verbs_qp_stop(c);
	net_verbs_mr_close(c, &c->flush_mr);
	net_verbs_mr_close(c, &c->ring_mr);
	os_free(c->ring_mem);
	c->ring_mem = c->ring = NULL;
	if (!c->cq)
		return;
	os_unlabel(c->cq);
	if (ibv_destroy_cq(c->cq))
		WARN("NET/IB: ibv_destroy_cq on device %s failed", c->dev->name);
	c->cq = NULL;
	net_verbs_pd_put(c->dev);
}
