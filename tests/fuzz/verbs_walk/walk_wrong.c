/* SPDX-License-Identifier: BSD-3-Clause */
/* Short-lived objects, queries, and calls that must fail and change nothing. */
#include "tests/fuzz/verbs_walk/walk.h"

/* ---- noise ---------------------------------------------------------------------------------- */

static void noise_cq(struct walker *w)
{
	struct ibv_cq *cq = ibv_create_cq(w->client->ctx, 1 + (int)pick(w, 100), NULL, NULL, 0);

	CHECK(cq);
	if (has(w, F_RESIZE))
		CHECK_EQ(ibv_resize_cq(cq, 1 + (int)pick(w, 200)), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
}

static void noise_region(struct walker *w)
{
	struct client *c = w->client;
	struct ibv_mr *mr = ibv_reg_mr(c->pd, c->buffer + pick(w, 1000), 1 + pick(w, 5000),
				       IBV_ACCESS_LOCAL_WRITE);

	CHECK(mr);
	if (vs_has(VS_NEED_REREG) && once_in(w, 2))
		CHECK_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS,
				      w->pd, NULL, 0,
				      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ),
			 0);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
}

static void noise_query(struct walker *w)
{
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;
	struct walk_qp *q = &w->qp[pick(w, QPS)];

	if (q->life == NONE)
		return;
	CHECK_EQ(ibv_query_qp(q->qp, &a, VS_QP_ALL, &init), 0);
	CHECK_EQ(init.qp_type, q->type);
	if (q->life == CONNECTED && q->type != IBV_QPT_XRC_RECV) {
		CHECK_EQ(a.dest_qp_num, q->peer_qpn);
		CHECK(a.qp_state >= IBV_QPS_RTS);
	}
}

static void noise_srq(struct walker *w)
{
	int which = (int)pick(w, 2);
	struct ibv_srq *srq = w->client->srq[which].srq;
	struct ibv_srq_attr a;

	if (!srq)
		return;
	CHECK_EQ(ibv_query_srq(srq, &a), 0);
	CHECK_GE(a.max_wr, SRQ_DEPTH);
	srq_limit(w, which);
}

/* Opens a second context and creates an object of each kind. */
static void noise_context(struct walker *w)
{
	struct ibv_context *ctx = vs_open((int)pick(w, 2));
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(ctx);

	CHECK(pd && channel);
	struct ibv_cq *cq = ibv_create_cq(ctx, 10, NULL, channel, 0);

	CHECK(cq);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	CHECK_EQ(ibv_destroy_comp_channel(channel), 0);
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
	CHECK_EQ(ibv_close_device(ctx), 0);
}

static void noise_window(struct walker *w)
{
	struct ibv_mw *mw;

	if (!has(w, F_WINDOW))
		return;
	mw = ibv_alloc_mw(w->pd, IBV_MW_TYPE_2);
	CHECK(mw);
	CHECK_EQ(ibv_dealloc_mw(mw), 0);
}

static void noise_address(struct walker *w)
{
	struct client *c = w->client;
	struct ibv_ah_attr a = address_of(c, &c->walk->client[pick(w, CLIENTS)].gid, c->lid);
	struct ibv_ah *ah = ibv_create_ah(w->pd, &a);

	CHECK(ah);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
}

void noise(struct walker *w)
{
	struct client *c = w->client;

	switch (pick(w, 10)) {
	case 0:
		noise_cq(w);
		break;
	case 1:
		noise_region(w);
		break;
	case 2:
		noise_query(w);
		break;
	case 3:
		noise_srq(w);
		break;
	case 4:
		CHECK_EQ(vs_port_attr(c->ctx).state, IBV_PORT_ACTIVE);
		break;
	case 5:
		noise_context(w);
		break;
	case 6:
		noise_window(w);
		break;
	case 7:
		if (vs_has(VS_NEED_UD))
			noise_address(w);
		break;
	case 8:
		if (has(w, F_RESIZE))
			CHECK_EQ(ibv_resize_cq(c->cq[pick(w, WALKERS + 1)].cq,
					       CQE + (int)pick(w, CQE)),
				 0);
		break;
	default: {
		struct ibv_pd *pd = ibv_alloc_pd(c->ctx);

		CHECK(pd);
		CHECK_EQ(ibv_dealloc_pd(pd), 0);
	}
	}
}

/* ---- calls that must fail ------------------------------------------------------------------- */

/* An object that is in use cannot be destroyed. */
static void wrong_destroy(struct walker *w)
{
	struct client *c = w->client;

	switch (pick(w, 4)) {
	case 0:
		CHECK_CODE(ibv_dealloc_pd(c->pd), EBUSY);
		break;
	case 1:
		if (c->xrcd)
			CHECK_CODE(ibv_close_xrcd(c->xrcd), EBUSY);
		break;
	case 2: {
		int which = (int)pick(w, WALKERS + 1);

		if (c->cq[which].channel)
			CHECK_CODE(ibv_destroy_comp_channel(c->cq[which].channel), EBUSY);
		break;
	}
	default: {
		/* this walker's queue pairs keep the SRQ in use */
		for (int i = 0; i < QPS; i++)
			if (w->qp[i].life != NONE && w->qp[i].srq)
				CHECK_CODE(ibv_destroy_srq(c->srq[0].srq), EBUSY);
	}
	}
}

/* Too few attribute bits, too many, or a state that cannot be reached: EINVAL, and no change. */
static void wrong_modify(struct walker *w)
{
	struct walk_qp *q = &w->qp[pick(w, QPS)];
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTR, .port_num = vs_port_num};

	if (q->life != FRESH && q->life != CONNECTED)
		return;
	if (q->life == FRESH) {
		enum ibv_qp_state state = vs_state(q->qp);

		CHECK_EQ(state, IBV_QPS_RESET);
		CHECK_EQ(ibv_modify_qp(q->qp, &a, IBV_QP_STATE), EINVAL);
		a.qp_state = IBV_QPS_INIT;
		CHECK_EQ(ibv_modify_qp(q->qp, &a, IBV_QP_STATE | IBV_QP_PORT), EINVAL);
		CHECK_EQ(ibv_modify_qp(q->qp, &a, vs_mask(q->type, IBV_QPS_INIT) | IBV_QP_SQ_PSN),
			 EINVAL);
		CHECK_EQ(vs_state(q->qp), IBV_QPS_RESET);
		return;
	}
	/* whatever its state is now: RTS, SQD, SQE and ERR do not lead to RTR or INIT */
	CHECK_EQ(ibv_modify_qp(q->qp, &a, vs_mask(q->type, IBV_QPS_RTR)), EINVAL);
	a.qp_state = IBV_QPS_INIT;
	CHECK_EQ(ibv_modify_qp(q->qp, &a, vs_mask(q->type, IBV_QPS_INIT)), EINVAL);
	a.qp_state = IBV_QPS_RTS;
	CHECK_EQ(ibv_modify_qp(q->qp, &a, IBV_QP_STATE | IBV_QP_DEST_QPN), EINVAL);
}

/* Requests with three entries on queues that permit two. */
static void wrong_post(struct walker *w)
{
	struct walk_qp *q = &w->qp[pick(w, QPS)];
	struct client *c = w->client;
	struct ibv_sge sge[3] = {{(uintptr_t)c->buffer, 1, c->mr->lkey},
				 {(uintptr_t)c->buffer, 1, c->mr->lkey},
				 {(uintptr_t)c->buffer, 1, c->mr->lkey}};
	struct ibv_send_wr send = {.sg_list = sge, .num_sge = 3, .opcode = IBV_WR_SEND},
			   *bad = NULL;
	struct ibv_recv_wr recv = {.sg_list = sge, .num_sge = 3}, *bad_recv = NULL;

	if (q->life == NONE)
		return;
	int rc = ibv_post_send(q->qp, &send, &bad);

	CHECK_MSG(rc == EINVAL || rc == ENOMEM, "3 entries of 2: %d", rc);
	CHECK(bad == &send);
	if (q->srq || q->type == IBV_QPT_XRC_SEND || q->type == IBV_QPT_XRC_RECV)
		recv.num_sge = 1; /* the queue pair has no receive queue */
	rc = ibv_post_recv(q->qp, &recv, &bad_recv);
	CHECK_MSG(rc != 0, "a receive of %d entries is taken", recv.num_sge);
	CHECK(bad_recv == &recv);
	if (c->srq[0].srq) {
		recv.num_sge = 3;
		rc = ibv_post_srq_recv(c->srq[0].srq, &recv, &bad_recv);
		CHECK_MSG(rc == EINVAL || rc == ENOMEM, "3 entries of 2: %d", rc);
	}
}

static void wrong_make(struct walker *w)
{
	struct client *c = w->client;
	struct ibv_qp_init_attr init = {.send_cq = c->cq[0].cq,
					.recv_cq = c->cq[0].cq,
					.cap = {1 << 30, 1, 1, 1, 0},
					.qp_type = IBV_QPT_RC};
	union ibv_gid gid;

	switch (pick(w, 6)) {
	case 0:
		CHECK_NULL(ibv_create_cq(c->ctx, 0, NULL, NULL, 0), EINVAL);
		break;
	case 1:
		CHECK_NULL(ibv_reg_mr(c->pd, c->buffer, 100, IBV_ACCESS_REMOTE_WRITE), EINVAL);
		break;
	case 2:
		CHECK(!ibv_create_qp(c->pd, &init));
		break;
	case 3:
		CHECK_NULL(ibv_create_cq(c->ctx, 10, NULL, NULL, 1000), EINVAL);
		break;
	case 4:
		CHECK(ibv_query_gid(c->ctx, vs_port_num, 100000, &gid) != 0);
		break;
	default: {
		struct ibv_ah_attr a = address_of(c, &c->gid, c->lid);

		a.port_num = 77;
		CHECK(!ibv_create_ah(c->pd, &a));
	}
	}
}

static void wrong_group(struct walker *w)
{
	static const union ibv_gid no_group = {.raw = {0xfe, 0x80, [15] = 1}};
	const struct walk_qp *q = &w->qp[pick(w, QPS)];

	if (vs_has(VS_NEED_MCAST) && has(w, F_UD))
		CHECK(ibv_attach_mcast(w->ud.qp, &no_group, 0xc001) != 0);
	if (vs_has(VS_NEED_MCAST) && q->life != NONE)
		CHECK(ibv_attach_mcast(q->qp, &w->client->gid, 0xc001) != 0);
}

void wrong(struct walker *w)
{
	w->refused++;
	switch (pick(w, 5)) {
	case 0:
		wrong_destroy(w);
		break;
	case 1:
		wrong_modify(w);
		break;
	case 2:
		wrong_post(w);
		break;
	case 3:
		wrong_group(w);
		break;
	default:
		wrong_make(w);
	}
}
