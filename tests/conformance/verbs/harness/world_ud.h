/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagrams from end 0 to end 1, for the cases of this folder. */
#ifndef TESTS_CONFORMANCE_VERBS_HARNESS_WORLD_UD_H
#define TESTS_CONFORMANCE_VERBS_HARNESS_WORLD_UD_H

#include "tests/conformance/verbs/harness/world.h"

#define UD_QKEY 0x11
#define UD_MTU  4096 /* of the default machine's ports */
#define UD_GRH  40

/* Two datagram queue pairs beside the connection, on the same completion queues, and the way from
 * the first to the second. */
struct ud {
	struct vs_pair h;
	struct ibv_qp *qp[2];
	struct ibv_ah *ah;
};

static inline struct ibv_qp *ud_qp(struct vs_pair *h, int side)
{
	struct vs_end *e = &h->end[side];
	struct ibv_qp_init_attr init = vw_init_attr(&h->options, e->send_cq, e->recv_cq);
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = UD_QKEY};

	init.qp_type = IBV_QPT_UD;
	struct ibv_qp *qp = ibv_create_qp(e->pd, &init);

	CHECK(qp);
	CHECK_EQ(
		ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
		0);
	vs_set_state(qp, IBV_QPS_RTR);
	a.qp_state = IBV_QPS_RTS;
	CHECK_EQ(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
	return qp;
}

static inline void ud_make(struct ud *u)
{
	vs_make(&u->h, &vw_defaults);
	struct ibv_qp_attr a = vs_attr(&u->h, 0);

	for (int i = 0; i < 2; i++)
		u->qp[i] = ud_qp(&u->h, i);
	u->ah = ibv_create_ah(u->h.end[0].pd, &a.ah_attr);
	CHECK(u->ah);
}

static inline void ud_free(struct ud *u)
{
	for (int i = 0; i < 2; i++)
		CHECK_EQ(ibv_destroy_qp(u->qp[i]), 0);
	if (u->ah)
		CHECK_EQ(ibv_destroy_ah(u->ah), 0);
	vs_free(&u->h);
}

static inline void ud_recv(struct ud *u, uint32_t bytes)
{
	struct vs_end *e = &u->h.end[1];
	struct ibv_sge sge = {(uintptr_t)e->buffer, bytes, e->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1}, *refused;

	CHECK_EQ(ibv_post_recv(u->qp[1], &wr, &refused), 0);
}

static inline void ud_post(struct ud *u, uint32_t bytes, uint32_t qkey)
{
	struct vs_wr w;

	vs_fill(&w, &u->h, 0, IBV_WR_SEND, 2, 0, bytes);
	w.wr.wr.ud.ah = u->ah;
	w.wr.wr.ud.remote_qpn = u->qp[1]->qp_num;
	w.wr.wr.ud.remote_qkey = qkey;
	CHECK_EQ(vs_post(u->qp[0], &w.wr), 0);
}

#endif
