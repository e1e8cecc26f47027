/* SPDX-License-Identifier: BSD-3-Clause */
/* Multicast groups of datagram queue pairs. */
#include "tests/conformance/verbs/suite.h"

#define GRH      40u
#define QUIET_NS (50 * VS_MS)
#define MLID     0xc001

static const union ibv_gid group = {.raw = {0xff, 0x0e, [10] = 0xff, 0xff, 239, 1, 2, 3}};
static const union ibv_gid other = {.raw = {0xff, 0x0e, [10] = 0xff, 0xff, 239, 1, 2, 4}};

static void mcast_pair(struct vs_pair *p)
{
	struct vs_options o = vs_defaults;

	o.type = IBV_QPT_UD;
	vs_pair(p, &o);
}

static struct ibv_ah *mcast_ah(struct vs_pair *p, int side, const union ibv_gid *gid)
{
	struct ibv_ah_attr a = vs_attr(p, side).ah_attr;

	a.grh.dgid = *gid;
	a.dlid = MLID;
	struct ibv_ah *ah = ibv_create_ah(p->end[side].pd, &a);

	CHECK(ah);
	return ah;
}

static void mcast_send(struct vs_pair *p, struct ibv_ah *ah, uint64_t wr_id)
{
	struct vs_wr w;

	vs_fill(&w, p, 0, IBV_WR_SEND, wr_id, 0, 64);
	w.wr.wr.ud.ah = ah;
	w.wr.wr.ud.remote_qpn = 0xffffff;
	CHECK_EQ(vs_post(p->end[0].qp, &w.wr), 0);
	vs_expect(p->end[0].send_cq, wr_id, IBV_WC_SUCCESS, NULL);
}

CASE(every_member_gets_it, .needs = NEED(MCAST))
{
	struct vs_pair p;
	struct ibv_wc wc;

	mcast_pair(&p);
	struct ibv_ah *ah = mcast_ah(&p, 0, &group);
	struct ibv_qp *more = vs_qp(&p, 1);
	struct ibv_qp_attr a = vs_attr(&p, 1);
	struct ibv_sge sge = {.addr = (uintptr_t)p.end[1].buffer + 8192,
			      .length = GRH + 64,
			      .lkey = p.end[1].mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = 2, .sg_list = &sge, .num_sge = 1}, *bad;

	vs_raise(more, &a, IBV_QPS_RTS);
	CHECK_EQ(ibv_attach_mcast(p.end[1].qp, &group, MLID), 0);
	CHECK_EQ(ibv_attach_mcast(more, &group, MLID), 0);
	vs_recv(&p, 1, 1, 0, GRH + 64);
	CHECK_EQ(ibv_post_recv(more, &wr, &bad), 0);
	vs_pattern(p.end[0].buffer, 64, 6);
	mcast_send(&p, ah, 3);
	bool seen[2] = {false, false};

	for (int i = 0; i < 2; i++) {
		CHECK(vs_wait(p.end[1].recv_cq, &wc, VS_LONG));
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		CHECK_EQ(wc.src_qp, p.end[0].qp->qp_num);
		CHECK(wc.wr_id == 1 || wc.wr_id == 2);
		CHECK(!seen[wc.wr_id - 1]);
		seen[wc.wr_id - 1] = true;
		vs_expect_pattern(p.end[1].buffer + (wc.wr_id - 1) * 8192 + GRH, 64, 6);
	}
	CHECK_EQ(ibv_detach_mcast(p.end[1].qp, &group, MLID), 0);
	CHECK_EQ(ibv_detach_mcast(more, &group, MLID), 0);
	CHECK_EQ(ibv_destroy_qp(more), 0);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	vs_free(&p);
}

CASE(who_is_no_member_gets_nothing, .needs = NEED(MCAST))
{
	struct vs_pair p;

	mcast_pair(&p);
	struct ibv_ah *ah = mcast_ah(&p, 0, &group);

	vs_recv(&p, 1, 1, 0, GRH + 64);
	CHECK_EQ(ibv_attach_mcast(p.end[1].qp, &other, MLID), 0);
	mcast_send(&p, ah, 2); /* another group */
	vs_sleep_ns(QUIET_NS);
	vs_expect_none(p.end[1].recv_cq);
	CHECK_EQ(ibv_attach_mcast(p.end[1].qp, &group, MLID), 0);
	CHECK_EQ(ibv_detach_mcast(p.end[1].qp, &group, MLID), 0);
	mcast_send(&p, ah, 3); /* no longer */
	vs_sleep_ns(QUIET_NS);
	vs_expect_none(p.end[1].recv_cq);
	CHECK_EQ(ibv_detach_mcast(p.end[1].qp, &other, MLID), 0);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	vs_free(&p);
}

CASE(sender_that_is_a_member_gets_its_own, .needs = NEED(MCAST))
{
	struct vs_pair p;
	struct ibv_wc wc;

	mcast_pair(&p);
	struct ibv_ah *ah = mcast_ah(&p, 0, &group);

	CHECK_EQ(ibv_attach_mcast(p.end[0].qp, &group, MLID), 0);
	vs_recv(&p, 0, 1, 4096, GRH + 64);
	mcast_send(&p, ah, 2);
	vs_expect(p.end[0].recv_cq, 1, IBV_WC_SUCCESS, &wc);
	CHECK_EQ(wc.src_qp, p.end[0].qp->qp_num);
	CHECK_EQ(ibv_detach_mcast(p.end[0].qp, &group, MLID), 0);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	vs_free(&p);
}

CASE(attaching_twice_is_once, .needs = NEED(MCAST))
{
	struct vs_pair p;

	mcast_pair(&p);
	struct ibv_ah *ah = mcast_ah(&p, 0, &group);

	CHECK_EQ(ibv_attach_mcast(p.end[1].qp, &group, MLID), 0);
	CHECK_EQ(ibv_attach_mcast(p.end[1].qp, &group, MLID), 0);
	vs_recv(&p, 1, 1, 0, GRH + 64);
	vs_recv(&p, 1, 2, 0, GRH + 64);
	mcast_send(&p, ah, 3);
	vs_expect(p.end[1].recv_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_sleep_ns(QUIET_NS);
	vs_expect_none(p.end[1].recv_cq);
	CHECK_EQ(ibv_detach_mcast(p.end[1].qp, &group, MLID), 0);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	vs_free(&p);
}

CASE(wrong_qkey_is_dropped, .needs = NEED(MCAST))
{
	struct vs_pair p;
	struct vs_wr w;

	mcast_pair(&p);
	struct ibv_ah *ah = mcast_ah(&p, 0, &group);

	CHECK_EQ(ibv_attach_mcast(p.end[1].qp, &group, MLID), 0);
	vs_recv(&p, 1, 1, 0, GRH + 64);
	vs_fill(&w, &p, 0, IBV_WR_SEND, 2, 0, 64);
	w.wr.wr.ud.ah = ah;
	w.wr.wr.ud.remote_qpn = 0xffffff;
	w.wr.wr.ud.remote_qkey ^= 1;
	CHECK_EQ(vs_post(p.end[0].qp, &w.wr), 0);
	vs_expect(p.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL);
	vs_sleep_ns(QUIET_NS);
	vs_expect_none(p.end[1].recv_cq);
	CHECK_EQ(ibv_detach_mcast(p.end[1].qp, &group, MLID), 0);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	vs_free(&p);
}

CASE(only_datagrams_have_groups, .needs = NEED(MCAST))
{
	struct vs_pair p;

	vs_pair(&p, &vs_defaults);
	CHECK_CODE(ibv_attach_mcast(p.end[0].qp, &group, MLID), EINVAL);
	CHECK_CODE(ibv_detach_mcast(p.end[0].qp, &group, MLID), EINVAL);
	vs_free(&p);
}

CASE(address_of_one_is_no_group, .needs = NEED(MCAST))
{
	struct vs_pair p;

	mcast_pair(&p);
	CHECK_CODE(ibv_attach_mcast(p.end[0].qp, &p.end[0].gid, MLID), EINVAL);
	CHECK_CODE(ibv_detach_mcast(p.end[0].qp, &group, MLID), EINVAL);
	vs_free(&p);
}

CASE(member_cannot_be_destroyed, .needs = NEED(MCAST), .misuse = true)
{
	struct vs_pair p;

	mcast_pair(&p);
	CHECK_EQ(ibv_attach_mcast(p.end[0].qp, &group, MLID), 0);
	CHECK_CODE(ibv_destroy_qp(p.end[0].qp), EBUSY);
	CHECK_EQ(ibv_detach_mcast(p.end[0].qp, &group, MLID), 0);
	vs_free(&p);
}
