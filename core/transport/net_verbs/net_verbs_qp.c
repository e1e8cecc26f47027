/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pairs: created, taken from RESET to RTS with NCCL's values, destroyed.
 */
#include <string.h>

#include "core/transport/base/step_bytes.h"
#include "core/transport/net_verbs/net_verbs_rails.h"

static int net_verbs_qp_to_init(const struct net_verbs_leg *leg, struct ibv_qp *qp, unsigned access)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.pkey_index = (uint16_t)param_i64(PARAM_IB_PKEY),
		.port_num = leg->dev->port,
		.qp_access_flags = access,
	};

	return ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static void net_verbs_address(const struct net_verbs_leg *leg, const struct net_verbs_meta_dev *to,
			      struct ibv_ah_attr *ah)
{
	memset(ah, 0, sizeof *ah);
	ah->port_num = leg->dev->port;
	ah->sl = (uint8_t)param_i64(PARAM_IB_SL);
	if (to->link_layer == IBV_LINK_LAYER_ETHERNET) {
		ah->is_global = 1;
		memcpy(ah->grh.dgid.raw, to->gid, sizeof to->gid);
		ah->grh.sgid_index = (uint8_t)leg->gid_index;
		ah->grh.hop_limit = 255;
		ah->grh.traffic_class = (uint8_t)param_i64(PARAM_IB_TC);
	} else {
		ah->dlid = to->lid;
	}
}

static int net_verbs_qp_to_rtr(const struct net_verbs_leg *leg, struct ibv_qp *qp,
			       const struct net_verbs_meta_dev *to, uint32_t qpn, uint32_t psn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = MIN_OF((unsigned)leg->dev->attr.active_mtu, (unsigned)to->mtu),
		.dest_qp_num = qpn,
		.rq_psn = psn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
	};

	net_verbs_address(leg, to, &attr.ah_attr);
	return ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER);
}

static int net_verbs_qp_rtr_to_rts(const struct net_verbs_leg *leg, struct ibv_qp *qp, uint32_t psn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.timeout = (uint8_t)param_i64(PARAM_IB_TIMEOUT),
		.retry_cnt = leg->dev->retries,
		.rnr_retry = 7, /* retry without end */
		.sq_psn = psn,
		.max_rd_atomic = 1,
	};

	return ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

/* qp->state is the last state that was reached, so a second call continues there. */
int net_verbs_qp_connect(struct net_verbs_conn *c, uint32_t i, uint32_t psn)
{
	const struct net_verbs_leg *leg = &c->leg[net_verbs_leg_of(c, i)];
	const struct net_verbs_meta_dev *to = &c->theirs.dev[net_verbs_their_dev(c, i)];
	struct ibv_qp *qp = c->qp[i];
	int rc = 0;

	if (qp->state == IBV_QPS_INIT)
		rc = net_verbs_qp_to_rtr(leg, qp, to, c->theirs.qpn[i], psn);
	if (!rc && qp->state == IBV_QPS_RTR)
		rc = net_verbs_qp_rtr_to_rts(leg, qp, psn);
	if (rc)
		c->failed_qp = i;
	if (rc && rc != ETIMEDOUT)
		WARN("NET/IB: rank %d: connecting qp 0x%x on %s to rank %d's qp 0x%x on %.31s "
		     "failed: %s",
		     c->comm->rank, qp->qp_num, leg->dev->name, c->who.peer, c->theirs.qpn[i],
		     to->nic, strerror(rc));
	return rc;
}

int net_verbs_qp_to_rts(struct net_verbs_conn *c)
{
	int rc = 0;

	for (uint32_t i = 0; i < c->nqps && !rc; i++)
		rc = net_verbs_qp_connect(c, i, 0);
	return rc;
}

static int net_verbs_qp_to(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

int net_verbs_qp_end(struct net_verbs_conn *c, uint32_t i)
{
	return net_verbs_qp_to(c->qp[i], IBV_QPS_ERR);
}

int net_verbs_qp_reset(struct net_verbs_conn *c, uint32_t i)
{
	return net_verbs_qp_to(c->qp[i], IBV_QPS_RESET);
}

int net_verbs_qp_renew(struct net_verbs_conn *c, uint32_t i)
{
	return net_verbs_qp_to_init(&c->leg[net_verbs_leg_of(c, i)], c->qp[i],
				    IBV_ACCESS_REMOTE_WRITE);
}

static void net_verbs_qp_label(struct net_verbs_conn *c, struct ibv_qp *qp, const char *what)
{
	os_label(qp, &(struct os_label){.what = what,
					.rank = c->comm->rank,
					.peer = c->who.peer,
					.channel = c->who.channel,
					.number = qp->qp_num});
}

static struct ibv_qp *net_verbs_qp_create(const struct net_verbs_leg *leg, uint32_t send,
					  uint32_t recv, uint32_t inline_bytes)
{
	struct ibv_qp_init_attr init = {
		.send_cq = leg->cq,
		.recv_cq = leg->cq,
		.cap = {.max_send_wr = send,
			.max_recv_wr = recv,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = inline_bytes},
		.qp_type = IBV_QPT_RC,
	};

	return ibv_create_qp(leg->dev->pd, &init);
}

static ncclResult_t net_verbs_qp_none(const struct net_verbs_leg *leg)
{
	WARN("NET/IB: ibv_create_qp on device %s failed: %s", leg->dev->name, strerror(errno));
	return ncclSystemError;
}

static size_t net_verbs_ring_bytes(const struct net_verbs_conn *c)
{
	return NET_VERBS_RING * NET_MAX_RECVS *
	       (c->is_send ? sizeof(struct net_verbs_cts) : sizeof(uint32_t));
}

static ncclResult_t net_verbs_ring_register(const struct net_verbs_conn *c,
					    struct net_verbs_leg *leg)
{
	leg->ring_mr = ibv_reg_mr_iova(leg->dev->pd, c->ring, net_verbs_ring_bytes(c), 0,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (leg->ring_mr)
		return ncclSuccess;
	WARN("NET/IB: ibv_reg_mr of a ring of %s (%zu bytes) on device %s failed: %s",
	     c->is_send ? "clear-to-send entries" : "sizes", net_verbs_ring_bytes(c),
	     leg->dev->name, strerror(errno));
	return ncclSystemError;
}

/* Makes the memory that the other end writes: clear-to-send entries, or sizes of the messages of a
 * receive. */
static ncclResult_t net_verbs_ring_make(struct net_verbs_conn *c)
{
	const size_t bytes = net_verbs_ring_bytes(c), align = NET_VERBS_PAGE;
	ncclResult_t rc = ncclSuccess;

	c->ring_mem = os_alloc(bytes + align, c->is_send ? "clear-to-send ring" : "ring of sizes");
	if (!c->ring_mem) {
		WARN("NET/IB: no memory for a ring of %zu bytes", bytes);
		return ncclSystemError;
	}
	c->ring = (void *)ALIGN_UP((uintptr_t)c->ring_mem, align);
	for (uint32_t i = 0; i < c->nlegs && !rc; i++)
		rc = net_verbs_ring_register(c, &c->leg[i]);
	return rc;
}

static void net_verbs_meta_dev_fill(const struct net_verbs_leg *leg, struct net_verbs_meta_dev *m)
{
	const struct net_verbs_dev *d = leg->dev;

	memcpy(m->gid, leg->gid.raw, sizeof m->gid);
	m->lid = d->attr.lid;
	m->mtu = (uint8_t)d->attr.active_mtu;
	m->link_layer = d->attr.link_layer;
	snprintf(m->nic, sizeof m->nic, "%s", d->name);
	m->ring_rkey = leg->ring_mr->rkey;
}

static void net_verbs_meta_fill(struct net_verbs_conn *c)
{
	struct net_verbs_meta *m = &c->mine;

	m->magic = NET_VERBS_META_MAGIC;
	for (uint32_t i = 0; i < c->nqps; i++)
		m->qpn[i] = c->qp[i]->qp_num;
	m->rank = c->who.rank;
	m->by_rank = c->comm->rank;
	m->ring_addr = 0; /* registered at this address */
	m->ring_entries = NET_VERBS_RING;
	m->ndevs = c->nlegs;
	for (uint32_t i = 0; i < c->nlegs; i++)
		net_verbs_meta_dev_fill(&c->leg[i], &m->dev[i]);
}

/* Writes that a request may need on a queue pair: its data, and a separate immediate, either for
 * adaptive routing or with the sizes of several messages. */
static uint32_t net_verbs_pieces(const struct net_verbs_leg *leg)
{
	size_t most = net_verbs_message_max(leg->dev), step = 0;

	for (int p = 0; p < DEV_PROTO_COUNT; p++)
		step = MAX_OF(step, (size_t)transport_step_bytes((enum dev_proto)p));
	return (uint32_t)DIV_UP(step, most) + 1;
}

/* Capacity of the send queue. Sending end: the writes of every request. Receiving end:
 * clear-to-send writes, on the first queue pair. */
static uint32_t net_verbs_depth(const struct net_verbs_conn *c, uint32_t i)
{
	const uint32_t rails = c->rails ? c->width : 1; /* a rail may carry the parts of all */

	if (c->is_send)
		return NET_MAX_REQUESTS * rails * net_verbs_pieces(&c->leg[net_verbs_leg_of(c, i)]);
	return i < rails ? NET_VERBS_CTS_DEPTH : 0;
}

/* Capacity of the receive queue. */
static uint32_t net_verbs_recv_depth(const struct net_verbs_conn *c)
{
	return c->is_send ? 0 : c->rails ? c->rails->stock : NET_MAX_REQUESTS;
}

/* Flushes, and a read for each rail that fails. */
static uint32_t net_verbs_flush_depth(const struct net_verbs_conn *c)
{
	return NET_MAX_REQUESTS + (c->rails ? c->width : 0);
}

/* If a queue pair fails, all its requests complete, including those that are not signaled. A
 * receiving end also has a flush for each request. */
static ncclResult_t net_verbs_cq_make(struct net_verbs_conn *c, uint32_t l)
{
	struct net_verbs_leg *leg = &c->leg[l];
	uint32_t cqes = c->is_send ? 0 : net_verbs_flush_depth(c);

	for (uint32_t i = 0; i < c->nqps; i++)
		if (net_verbs_leg_of(c, i) == l)
			cqes += net_verbs_depth(c, i) + net_verbs_recv_depth(c);
	leg->cq = ibv_create_cq(leg->dev->ctx, (int)cqes, NULL, NULL, 0);
	if (leg->cq)
		return ncclSuccess;
	WARN("NET/IB: ibv_create_cq of %u entries on device %s failed", cqes, leg->dev->name);
	net_verbs_pd_put(leg->dev);
	return ncclSystemError;
}

/* Creates the first queue pair of a receiving end, which writes clear-to-send entries. If the HCA
 * has no room for the entries of several buffers in a request, receives have one buffer. */
static struct ibv_qp *net_verbs_qp_of_entries(struct net_verbs_conn *c, uint32_t send,
					      uint32_t recv)
{
	const uint32_t entry = sizeof(struct net_verbs_cts);
	struct ibv_qp *qp = net_verbs_qp_create(&c->leg[0], send, recv, NET_MAX_RECVS * entry);

	c->max_recvs = qp ? NET_MAX_RECVS : 1;
	if (!qp && errno == EINVAL)
		qp = net_verbs_qp_create(&c->leg[0], send, recv, entry);
	return qp;
}

static ncclResult_t net_verbs_qp_make_one(struct net_verbs_conn *c, uint32_t i)
{
	const uint32_t send = net_verbs_depth(c, i), recv = net_verbs_recv_depth(c);
	const uint32_t entries = send ? (uint32_t)c->max_recvs * sizeof(struct net_verbs_cts) : 0;
	const uint32_t sizes = c->is_send ? NET_MAX_RECVS * (uint32_t)sizeof(uint32_t) : entries;
	const struct net_verbs_leg *leg = &c->leg[net_verbs_leg_of(c, i)];
	struct ibv_qp *qp = c->is_send || i ? net_verbs_qp_create(leg, send, recv, sizes)
					    : net_verbs_qp_of_entries(c, send, recv);

	c->qp[i] = qp;
	if (!qp)
		return net_verbs_qp_none(leg);
	net_verbs_qp_label(c, qp, c->is_send ? "qp send" : "qp recv");
	if (!net_verbs_qp_to_init(leg, qp, IBV_ACCESS_REMOTE_WRITE))
		return ncclSuccess;
	WARN("NET/IB: qp 0x%x on device %s to INIT failed; NCCL_IB_PKEY is %lld, the port has %u "
	     "partition keys",
	     qp->qp_num, leg->dev->name, (long long)param_i64(PARAM_IB_PKEY),
	     leg->dev->attr.pkey_tbl_len);
	return ncclSystemError;
}

static ncclResult_t net_verbs_leg_make(struct net_verbs_conn *c, uint32_t l)
{
	struct net_verbs_leg *leg = &c->leg[l];
	ncclResult_t rc = net_verbs_gid_get(leg->dev);

	leg->gid = leg->dev->gid;
	leg->gid_index = leg->dev->gid_index;
	if (!rc)
		rc = net_verbs_pd_get(leg->dev);
	if (!rc)
		rc = net_verbs_cq_make(c, l);
	return rc;
}

ncclResult_t net_verbs_qp_make(struct net_verbs_conn *c)
{
	ncclResult_t rc = net_verbs_rails_make(c);

	for (uint32_t l = 0; l < c->nlegs && !rc; l++)
		rc = net_verbs_leg_make(c, l);
	for (uint32_t i = 0; i < c->nqps && !rc; i++)
		rc = net_verbs_qp_make_one(c, i);
	for (uint32_t r = 0; r < c->width && c->rails && !rc; r++)
		if (net_verbs_rails_stock(c, r))
			rc = ncclSystemError;
	if (rc)
		return rc;
	for (uint32_t l = 0; l < c->nlegs; l++)
		os_label(c->leg[l].cq, &(struct os_label){.what = "cq",
							  .rank = c->comm->rank,
							  .peer = c->who.peer,
							  .channel = c->who.channel,
							  .number = c->qp[l]->qp_num});
	rc = net_verbs_watch(c);
	if (!rc)
		rc = net_verbs_ring_make(c);
	if (!rc)
		net_verbs_meta_fill(c);
	return rc;
}

/* ---- the end of a part ---------------------------------------------------------------------- */

static void net_verbs_qp_destroy(const struct net_verbs_leg *leg, struct ibv_qp **qp)
{
	int rc;

	if (!*qp)
		return;
	os_unlabel(*qp);
	rc = ibv_destroy_qp(*qp);
	if (rc)
		WARN("NET/IB: ibv_destroy_qp on device %s failed: %s", leg->dev->name,
		     strerror(rc));
	*qp = NULL;
}

static void net_verbs_mr_close(const struct net_verbs_leg *leg, struct ibv_mr **mr)
{
	int rc;

	if (!*mr)
		return;
	rc = ibv_dereg_mr(*mr);
	if (rc)
		WARN("NET/IB: ibv_dereg_mr on device %s failed: %s", leg->dev->name, strerror(rc));
	*mr = NULL;
}

/* ---- flushes -------------------------------------------------------------------------------- */

/* A flush queue pair is connected to itself. */
static int net_verbs_flush_connect(struct net_verbs_conn *c, uint32_t l)
{
	struct net_verbs_leg *leg = &c->leg[l];
	struct ibv_qp *qp = leg->flush_qp;
	int rc = net_verbs_qp_to_rtr(leg, qp, &c->mine.dev[l], qp->qp_num, 0);

	return rc ? rc : net_verbs_qp_rtr_to_rts(leg, qp, 0);
}

int net_verbs_flush_renew(struct net_verbs_conn *c, uint32_t l)
{
	struct net_verbs_leg *leg = &c->leg[l];
	int rc = net_verbs_qp_to(leg->flush_qp, IBV_QPS_RESET);

	if (!rc)
		rc = net_verbs_qp_to_init(leg, leg->flush_qp,
					  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	return rc ? rc : net_verbs_flush_connect(c, l);
}

static ncclResult_t net_verbs_flush_make_one(struct net_verbs_conn *c, uint32_t l)
{
	struct net_verbs_leg *leg = &c->leg[l];
	struct ibv_qp *qp;
	int rc;

	ASSERT(!c->is_send && !leg->flush_qp);
	leg->flush_mr = ibv_reg_mr(leg->dev->pd, &leg->flush_word, sizeof leg->flush_word,
				   IBV_ACCESS_LOCAL_WRITE);
	if (!leg->flush_mr) {
		WARN("NET/IB: ibv_reg_mr of the flush word on device %s failed: %s", leg->dev->name,
		     strerror(errno));
		return ncclSystemError;
	}
	leg->flush_qp = qp = net_verbs_qp_create(leg, net_verbs_flush_depth(c), 0, 0);
	if (!qp)
		return net_verbs_qp_none(leg);
	net_verbs_qp_label(c, qp, "qp flush");
	rc = net_verbs_qp_to_init(leg, qp, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	if (!rc)
		rc = net_verbs_flush_connect(c, l);
	if (!rc)
		return ncclSuccess;
	WARN("NET/IB: connecting flush qp 0x%x on device %s to itself failed: %s", qp->qp_num,
	     leg->dev->name, strerror(rc));
	return ncclSystemError;
}

/* Undoes a complete or partial net_verbs_flush_make. */
static void net_verbs_flush_close(struct net_verbs_conn *c)
{
	for (uint32_t l = 0; l < c->nlegs; l++) {
		net_verbs_qp_destroy(&c->leg[l], &c->leg[l].flush_qp);
		net_verbs_mr_close(&c->leg[l], &c->leg[l].flush_mr);
	}
}

ncclResult_t net_verbs_flush_make(struct net_verbs_conn *c)
{
	ncclResult_t rc = ncclSuccess;

	for (uint32_t l = 0; l < c->nlegs && !rc; l++)
		rc = net_verbs_flush_make_one(c, l);
	if (rc) /* another link of the connection may try again */
		net_verbs_flush_close(c);
	return rc;
}

/* ---- the end -------------------------------------------------------------------------------- */

/* After the call the HCAs use no memory of this connection. */
void net_verbs_qp_stop(struct net_verbs_conn *c)
{
	net_verbs_unwatch(c);
	net_verbs_flush_close(c);
	for (uint32_t i = 0; i < c->nqps; i++)
		net_verbs_qp_destroy(&c->leg[net_verbs_leg_of(c, i)], &c->qp[i]);
}

static void net_verbs_leg_close(struct net_verbs_leg *leg)
{
	net_verbs_mr_close(leg, &leg->ring_mr);
	if (!leg->cq)
		return;
	os_unlabel(leg->cq);
	if (ibv_destroy_cq(leg->cq))
		WARN("NET/IB: ibv_destroy_cq on device %s failed", leg->dev->name);
	leg->cq = NULL;
	net_verbs_pd_put(leg->dev);
}

/* Undoes a complete or partial net_verbs_qp_make and net_verbs_flush_make. */
void net_verbs_qp_close(struct net_verbs_conn *c)
{
	net_verbs_qp_stop(c);
	for (uint32_t l = 0; l < c->nlegs; l++)
		net_verbs_leg_close(&c->leg[l]);
	net_verbs_rails_free(c);
	os_free(c->ring_mem);
	c->ring_mem = c->ring = NULL;
}
