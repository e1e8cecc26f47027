/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs: create, pair, drain, recover, reset, destroy. */
#include "tests/fuzz/verbs_walk/walk.h"

static void qp_withdraw(struct walker *w, struct walk_qp *q)
{
	board_lock(w->client->walk);
	w->client->advert[slot_index(w, q)] = (struct advert){.free = false};
	board_unlock(w->client->walk);
}

static void qp_offer(struct walker *w, struct walk_qp *q)
{
	q->psn = pick(w, 1 << 24);
	board_lock(w->client->walk);
	w->client->advert[slot_index(w, q)] = (struct advert){.free = true,
							      .type = q->type,
							      .qpn = q->qp->qp_num,
							      .psn = q->psn,
							      .generation = q->generation + 1};
	board_unlock(w->client->walk);
}

static uint32_t client_serial(struct client *c)
{
	return __atomic_add_fetch(&c->serial, 1, __ATOMIC_RELAXED);
}

static enum ibv_qp_type qp_type_draw(struct walker *w)
{
	uint32_t n = pick(w, 10);

	if (n < 2 && has(w, F_UC))
		return IBV_QPT_UC;
	if (n < 5 && has(w, F_XRC))
		return n % 2 ? IBV_QPT_XRC_SEND : IBV_QPT_XRC_RECV;
	return IBV_QPT_RC;
}

static void qp_create(struct walker *w, struct walk_qp *q, struct ibv_cq *send, struct ibv_cq *recv)
{
	struct client *c = w->client;
	struct ibv_qp_init_attr_ex a = {.send_cq = send,
					.recv_cq = recv,
					.cap = {DEPTH, DEPTH, 2, 2, 32},
					.qp_type = q->type,
					.comp_mask = IBV_QP_INIT_ATTR_PD,
					.pd = w->pd};

	if (q->srq)
		a.srq = c->srq[0].srq;
	if (q->type == IBV_QPT_XRC_RECV) {
		a = (struct ibv_qp_init_attr_ex){
			.qp_type = q->type, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = c->xrcd};
	} else if (q->type == IBV_QPT_XRC_SEND) {
		a.recv_cq = NULL;
		a.cap.max_recv_wr = a.cap.max_recv_sge = 0;
	}
	if (q->extended) {
		a.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		a.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
				   IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
		if (q->type != IBV_QPT_UC)
			a.send_ops_flags |= IBV_QP_EX_WITH_RDMA_READ;
		if (q->type != IBV_QPT_UC && has(w, F_ATOMIC))
			a.send_ops_flags |= IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
					    IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
		if (q->type == IBV_QPT_RC && has(w, F_WINDOW))
			a.send_ops_flags |= IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV |
					    IBV_QP_EX_WITH_SEND_WITH_INV;
	}
	q->qp = ibv_create_qp_ex(c->ctx, &a);
	CHECK_MSG(q->qp, "ibv_create_qp_ex of type %d: %s", q->type, strerror(errno));
}

void qp_make(struct walker *w, struct walk_qp *q)
{
	struct client *c = w->client;
	int send = once_in(w, 2) ? w->number : SHARED_CQ,
	    recv = once_in(w, 2) ? w->number : SHARED_CQ;
	struct walk_qp made = {.life = FRESH,
			       .type = qp_type_draw(w),
			       .generation = q->generation,
			       .serial = client_serial(c),
			       .send = {.loose = send == SHARED_CQ},
			       .recv = {.loose = recv == SHARED_CQ}};

	made.extended = has(w, F_QP_EX) && made.type != IBV_QPT_XRC_RECV && once_in(w, 2);
	made.srq = has(w, F_SRQ) && made.type == IBV_QPT_RC && once_in(w, 2);
	qp_create(w, &made, c->cq[send].cq, c->cq[recv].cq);
	made.qpn = made.qp->qp_num;
	client_lock(c);
	*q = made;
	client_unlock(c);
	qp_offer(w, q);
}

/* ---- drain, reset, destroy ------------------------------------------------------------------ */

/* Forgets the queue pair's outstanding requests, and discards their own regions and windows. */
static void qp_forget(struct walker *w, struct walk_qp *q)
{
	client_lock(w->client);
	for (struct queue *s = &q->send; s->tail != s->head; s->tail++)
		trash_request(w, &s->r[s->tail % DEPTH]);
	if (q->srq || q->type == IBV_QPT_XRC_RECV)
		w->client->srq[!q->srq].deaths++;
	q->serial = 0;
	q->life = NONE;
	client_unlock(w->client);
}

static void qp_mw_free(struct walk_qp *q)
{
	if (q->mw)
		CHECK_EQ(ibv_dealloc_mw(q->mw), 0);
	q->mw = NULL;
}

void qp_destroy(struct walker *w, struct walk_qp *q)
{
	qp_withdraw(w, q);
	gate_shut(w->client);
	CHECK_EQ(ibv_destroy_qp(q->qp), 0);
	gate_open(w->client);
	qp_forget(w, q);
	qp_mw_free(q);
	trash_empty(w);
}

void qp_to_error(struct walker *w, struct walk_qp *q)
{
	vs_set_state(q->qp, IBV_QPS_ERR);
	client_lock(w->client);
	q->broken = true;
	q->life = BROKEN;
	client_unlock(w->client);
}

struct flush {
	struct walker *walker;
	struct walk_qp *q;
};

static bool qp_is_empty(void *arg)
{
	struct flush *f = arg;
	struct walker *w = f->walker;
	struct walk_qp *q = f->q;

	walk_poll(w, w->number);
	walk_poll(w, SHARED_CQ);
	client_lock(w->client);
	bool empty = q->send.head == q->send.tail && q->recv.head == q->recv.tail;

	client_unlock(w->client);
	return empty;
}

void qp_flush_out(struct walker *w, struct walk_qp *q)
{
	struct flush f = {w, q};

	if (q->type == IBV_QPT_XRC_RECV || q->life == FRESH)
		return;
	qp_to_error(w, q);
	send_post_last(w, q);
	CHECK_MSG(vs_poll_until(qp_is_empty, &f, VS_LONG),
		  "in ERR, but not flushed: sends %u..%u, receives %u..%u", q->send.tail,
		  q->send.head, q->recv.tail, q->recv.head);
}

void qp_reset(struct walker *w, struct walk_qp *q)
{
	struct client *c = w->client;

	qp_withdraw(w, q);
	gate_shut(c);
	vs_set_state(q->qp, IBV_QPS_RESET);
	gate_open(c);
	struct walk_qp again = *q;

	qp_forget(w, q);
	qp_mw_free(q);
	again = (struct walk_qp){.qp = again.qp,
				 .qpn = again.qpn,
				 .life = FRESH,
				 .type = again.type,
				 .extended = again.extended,
				 .srq = again.srq,
				 .serial = client_serial(c),
				 .generation = again.generation,
				 .send = {.loose = again.send.loose},
				 .recv = {.loose = again.recv.loose}};
	client_lock(c);
	*q = again;
	client_unlock(c);
	qp_offer(w, q);
}

/* Changes the queue pair to SQD, or back. The peer may have broken it meanwhile. */
void qp_drain(struct walker *w, struct walk_qp *q)
{
	struct ibv_qp_attr a = {.qp_state = q->drained ? IBV_QPS_RTS : IBV_QPS_SQD};
	int mask = IBV_QP_STATE;

	if (q->type == IBV_QPT_XRC_RECV || (q->drained && !once_in(w, 4)))
		return;
	if (!q->drained && once_in(w, 2)) {
		a.en_sqd_async_notify = 1;
		mask |= IBV_QP_EN_SQD_ASYNC_NOTIFY;
	}
	int rc = ibv_modify_qp(q->qp, &a, mask);

	/* SQD to RTS during a drain always succeeds; from ERR or SQE it fails */
	if (rc) {
		enum ibv_qp_state state = vs_state(q->qp);

		CHECK_EQ(rc, EINVAL);
		CHECK_MSG(state == IBV_QPS_ERR || state == IBV_QPS_SQE, "refused in state %d",
			  state);
		client_lock(w->client);
		q->broken = true;
		client_unlock(w->client);
		return;
	}
	q->drained = !q->drained;
}

/* Recovers from SQE to RTS, when everything was flushed. */
void qp_recover(struct walker *w, struct walk_qp *q)
{
	client_lock(w->client);
	bool empty = q->send.head == q->send.tail, failed = q->recv.failed;

	client_unlock(w->client);
	if (!empty || failed || vs_state(q->qp) != IBV_QPS_SQE)
		return;
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTS};
	int rc = ibv_modify_qp(q->qp, &a, IBV_QP_STATE);

	if (rc) { /* its receiving side failed meanwhile */
		CHECK_EQ(rc, EINVAL);
		CHECK_EQ(vs_state(q->qp), IBV_QPS_ERR);
		return;
	}
	client_lock(w->client);
	q->send.failed = q->broken = q->drained = false;
	q->life = CONNECTED;
	client_unlock(w->client);
}

/* ---- pairing -------------------------------------------------------------------------------- */

static struct ibv_qp_attr qp_attr(struct walker *w, const struct walk_qp *q, uint32_t peer_psn)
{
	const struct client *p = &w->client->walk->client[q->peer];

	return (struct ibv_qp_attr){
		.path_mtu = IBV_MTU_256,
		.rq_psn = peer_psn,
		.sq_psn = q->psn,
		.dest_qp_num = q->peer_qpn,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				   (vs_has(VS_NEED_ATOMIC) ? IBV_ACCESS_REMOTE_ATOMIC : 0),
		.ah_attr = address_of(w->client, &p->gid, p->lid),
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1 + (uint8_t)pick(w, 12),
		.port_num = vs_port_num,
		.timeout = 12,
		.retry_cnt = (uint8_t)pick(w, 3),
		.rnr_retry = (uint8_t)pick(w, 7),
	};
}

static void qp_fill(struct walker *w, struct walk_qp *q)
{
	if (q->type == IBV_QPT_XRC_SEND)
		return;
	for (uint32_t n = pick(w, DEPTH); n; n--) {
		if (q->srq || q->type == IBV_QPT_XRC_RECV)
			srq_post(w, !q->srq);
		else
			recv_post(w, q);
	}
}

static void qp_connect(struct walker *w, struct walk_qp *q, uint32_t peer_psn)
{
	struct client *c = w->client;
	struct ibv_qp_attr a = qp_attr(w, q, peer_psn);

	vs_raise(q->qp, &a, IBV_QPS_INIT);
	qp_fill(w, q);
	if (once_in(w, 3)) { /* reset and start again: the queues are empty */
		gate_shut(c);
		vs_set_state(q->qp, IBV_QPS_RESET);
		gate_open(c);
		client_lock(c);
		q->recv = (struct queue){.loose = q->recv.loose};
		q->serial = client_serial(c);
		client_unlock(c);
		vs_raise(q->qp, &a, IBV_QPS_INIT);
		qp_fill(w, q);
	}
	client_lock(c);
	q->life = CONNECTED;
	q->generation++;
	q->broken = q->data_known = q->count_known = false;
	client_unlock(c);
	a.qp_state = IBV_QPS_RTR;
	CHECK_EQ(ibv_modify_qp(q->qp, &a, vs_mask(q->qp->qp_type, IBV_QPS_RTR)), 0);
	a.qp_state = IBV_QPS_RTS;
	int rc = ibv_modify_qp(q->qp, &a, vs_mask(q->qp->qp_type, IBV_QPS_RTS));

	w->connections++;
	if (!rc)
		return;
	CHECK_EQ(rc, EINVAL); /* the peer's first message may have broken it */
	CHECK_EQ(vs_state(q->qp), IBV_QPS_ERR);
	client_lock(c);
	q->broken = true;
	q->life = BROKEN;
	client_unlock(c);
}

static bool qp_types_fit(enum ibv_qp_type a, enum ibv_qp_type b)
{
	if (a == IBV_QPT_XRC_SEND)
		return b == IBV_QPT_XRC_RECV;
	if (a == IBV_QPT_XRC_RECV)
		return b == IBV_QPT_XRC_SEND;
	return a == b;
}

void qp_pair(struct walker *w, struct walk_qp *q)
{
	struct client *c = w->client;
	struct walk *walk = c->walk;
	struct advert *mine = &c->advert[slot_index(w, q)], found = {.free = false};
	int peer = (int)pick(w, CLIENTS), slot = (int)pick(w, CLIENT_QPS);

	board_lock(walk);
	if (mine->asked) {
		found = *mine;
		mine->free = mine->asked = false;
	} else {
		struct advert *theirs = &walk->client[peer].advert[slot];

		if (theirs != mine && theirs->free && !theirs->asked &&
		    qp_types_fit(theirs->type, q->type)) {
			found = (struct advert){.asked = true,
						.peer = peer,
						.peer_slot = slot,
						.peer_qpn = theirs->qpn,
						.peer_psn = theirs->psn,
						.peer_generation = theirs->generation};
			theirs->asked = true;
			theirs->peer = c->number;
			theirs->peer_slot = slot_index(w, q);
			theirs->peer_qpn = mine->qpn;
			theirs->peer_psn = mine->psn;
			theirs->peer_generation = mine->generation;
			mine->free = false;
		}
	}
	board_unlock(walk);
	if (!found.asked)
		return;
	q->peer = found.peer;
	q->peer_slot = found.peer_slot;
	q->peer_qpn = found.peer_qpn;
	q->peer_generation = found.peer_generation;
	q->peer_srqn = walk->client[found.peer].srq[1].number;
	qp_connect(w, q, found.peer_psn);
}
