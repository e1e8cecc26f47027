/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagrams, address handles, Q_Keys, and the header in front of a receive. */
#include "tests/conformance/verbs/suite.h"

#define GRH      40u
#define QUIET_NS (50 * VS_MS)

static struct vs_options ud_options(void)
{
	struct vs_options o = vs_defaults;

	o.type = IBV_QPT_UD;
	return o;
}

static void ud_pair(struct vs_pair *p)
{
	struct vs_options o = ud_options();

	vs_pair(p, &o);
}

static uint32_t mtu_bytes(struct ibv_context *ctx)
{
	return 128u << vs_port_attr(ctx).active_mtu;
}

/* A datagram of end 0 into a receive at `offset` of end 1. */
static void ud_exchange(struct vs_pair *p, uint64_t wr_id, struct ibv_wc *wc)
{
	vs_recv(p, 1, wr_id, 4096, GRH + 256);
	vs_pattern(p->end[0].buffer, 256, (uint32_t)wr_id);
	vs_send(p, 0, IBV_WR_SEND, wr_id, 0, 256);
	vs_expect(p->end[1].recv_cq, wr_id, IBV_WC_SUCCESS, wc);
	vs_expect(p->end[0].send_cq, wr_id, IBV_WC_SUCCESS, NULL);
}

CASE(datagram_arrives_behind_its_header, .needs = NEED(UD))
{
	struct vs_pair p;
	struct ibv_wc wc;

	ud_pair(&p);
	ud_exchange(&p, 5, &wc);
	CHECK_EQ(wc.opcode, IBV_WC_RECV);
	CHECK_EQ(wc.byte_len, GRH + 256);
	CHECK_EQ(wc.src_qp, p.end[0].qp->qp_num);
	CHECK_EQ(wc.qp_num, p.end[1].qp->qp_num);
	vs_expect_pattern(p.end[1].buffer + 4096 + GRH, 256, 5);
	vs_free(&p);
}

CASE(immediate_data_arrives, .needs = NEED(UD))
{
	struct vs_pair p;
	struct ibv_wc wc;

	ud_pair(&p);
	vs_recv(&p, 1, 1, 0, GRH);
	vs_send(&p, 0, IBV_WR_SEND_WITH_IMM, 0x1234, 0, 0);
	vs_expect(p.end[1].recv_cq, 1, IBV_WC_SUCCESS, &wc);
	CHECK_EQ(wc.wc_flags & IBV_WC_WITH_IMM, IBV_WC_WITH_IMM);
	CHECK_EQ(be32toh(wc.imm_data), 0x1234);
	CHECK_EQ(wc.byte_len, GRH);
	vs_free(&p);
}

static uint16_t checksum(const uint8_t *p, int n)
{
	uint32_t sum = 0;

	for (int i = 0; i < n; i += 2)
		sum += (uint32_t)p[i] << 8 | p[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

/* The IPv4 header sits in the second half, and can be recognised by its checksum. */
CASE(header_of_roce_v2_over_ipv4, .needs = NEED(UD) | NEED(ROCE))
{
	struct vs_pair p;
	struct ibv_wc wc;
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	ud_pair(&p);
	if (memcmp(p.end[0].gid.raw, mapped, 12) || memcmp(p.end[1].gid.raw, mapped, 12))
		vs_skip("the GID is not of an IPv4 address");
	ud_exchange(&p, 5, &wc);
	const uint8_t *ip = p.end[1].buffer + 4096 + 20;

	CHECK_EQ(wc.wc_flags & IBV_WC_GRH, IBV_WC_GRH);
	CHECK_EQ(ip[0], 0x45);
	CHECK_EQ(checksum(ip, 20), 0xffff);
	CHECK_EQ(ip[9], 17);
	CHECK(!memcmp(ip + 12, p.end[0].gid.raw + 12, 4));
	CHECK(!memcmp(ip + 16, p.end[1].gid.raw + 12, 4));
	/* IPv4 20, UDP 8, BTH 12, DETH 8, payload, ICRC 4 */
	CHECK_EQ(ip[2] << 8 | ip[3], 20 + 8 + 12 + 8 + 256 + 4);
	vs_free(&p);
}

/* The first GID of that type that is not an IPv4 address; -1: none. */
static int gid_index_of(struct ibv_context *ctx, uint32_t type, struct ibv_gid_entry *e)
{
	int n = vs_port_attr(ctx).gid_tbl_len;

	for (int i = 0; i < n && i < 256; i++)
		if (!ibv_query_gid_ex(ctx, vs_port_num, (uint32_t)i, e, 0) && e->gid_type == type &&
		    e->gid.raw[0] == 0xfe)
			return i;
	return -1;
}

static const uint32_t header_types[] = {IBV_GID_TYPE_IB, IBV_GID_TYPE_ROCE_V1,
					IBV_GID_TYPE_ROCE_V2};

/* 40 bytes of the GRH, or of the IPv6 header, which have the same places. */
CASE(header_of_link_local_addresses, .needs = NEED(UD) | NEED(GID_EX), .count = 3)
{
	struct vs_pair p;
	struct vs_wr w;
	struct ibv_wc wc;
	struct ibv_gid_entry gid[2];
	int index[2];

	ud_pair(&p);
	for (int i = 0; i < 2; i++)
		index[i] = gid_index_of(p.end[i].ctx, header_types[vs_param], &gid[i]);
	if (index[0] < 0 || index[1] < 0)
		vs_skip("no link-local GID of type %u", header_types[vs_param]);
	struct ibv_ah_attr a = {.grh = {.dgid = gid[1].gid,
					.sgid_index = (uint8_t)index[0],
					.flow_label = 0x12345,
					.traffic_class = 0x60,
					.hop_limit = 33},
				.dlid = p.end[1].lid,
				.is_global = 1,
				.port_num = vs_port_num};
	struct ibv_ah *ah = ibv_create_ah(p.end[0].pd, &a);

	CHECK(ah);
	vs_recv(&p, 1, 1, 0, GRH + 64);
	vs_fill(&w, &p, 0, IBV_WR_SEND, 1, 0, 64);
	w.wr.wr.ud.ah = ah;
	CHECK_EQ(vs_post(p.end[0].qp, &w.wr), 0);
	vs_expect(p.end[1].recv_cq, 1, IBV_WC_SUCCESS, &wc);
	CHECK_EQ(wc.wc_flags & IBV_WC_GRH, IBV_WC_GRH);
	const struct ibv_grh *grh = (const struct ibv_grh *)p.end[1].buffer;

	CHECK_EQ(be32toh(grh->version_tclass_flow) >> 28, 6);
	CHECK_EQ(be32toh(grh->version_tclass_flow) >> 20 & 0xff, 0x60);
	CHECK_EQ(grh->next_hdr, header_types[vs_param] == IBV_GID_TYPE_ROCE_V2 ? 17 : 0x1b);
	CHECK(!memcmp(&grh->sgid, &gid[0].gid, 16));
	CHECK(!memcmp(&grh->dgid, &gid[1].gid, 16));
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	vs_free(&p);
}

CASE(answer_through_an_address_from_the_completion, .needs = NEED(UD))
{
	struct vs_pair p;
	struct vs_wr w;
	struct ibv_wc wc;
	struct ibv_ah_attr a;

	ud_pair(&p);
	ud_exchange(&p, 5, &wc);
	struct ibv_grh *grh = (struct ibv_grh *)(p.end[1].buffer + 4096);

	CHECK_EQ(ibv_init_ah_from_wc(p.end[1].ctx, vs_port_num, &wc, grh, &a), 0);
	CHECK_EQ(a.port_num, vs_port_num);
	if (wc.wc_flags & IBV_WC_GRH) {
		CHECK_EQ(a.is_global, 1);
		CHECK(!memcmp(&a.grh.dgid, &p.end[0].gid, 16));
		CHECK_EQ(a.grh.sgid_index, p.end[1].gid_index);
	}
	struct ibv_ah *ah = ibv_create_ah_from_wc(p.end[1].pd, &wc, grh, vs_port_num);

	CHECK(ah);
	vs_recv(&p, 0, 6, 8192, GRH + 64);
	vs_fill(&w, &p, 1, IBV_WR_SEND, 7, 0, 64);
	w.wr.wr.ud.ah = ah;
	w.wr.wr.ud.remote_qpn = wc.src_qp;
	CHECK_EQ(vs_post(p.end[1].qp, &w.wr), 0);
	vs_expect(p.end[0].recv_cq, 6, IBV_WC_SUCCESS, &wc);
	CHECK_EQ(wc.src_qp, p.end[1].qp->qp_num);
	vs_expect(p.end[1].send_cq, 7, IBV_WC_SUCCESS, NULL);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	vs_free(&p);
}

CASE(one_queue_pair_talks_to_many, .needs = NEED(UD))
{
	struct vs_pair p;
	struct vs_wr w;
	struct ibv_wc wc;

	ud_pair(&p);
	struct ibv_qp *more = vs_qp(&p, 1);
	struct ibv_qp_attr a = vs_attr(&p, 1);

	vs_raise(more, &a, IBV_QPS_RTS);
	struct ibv_sge sge = {
		.addr = (uintptr_t)p.end[1].buffer, .length = GRH + 64, .lkey = p.end[1].mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = 77, .sg_list = &sge, .num_sge = 1}, *bad;

	CHECK_EQ(ibv_post_recv(more, &wr, &bad), 0);
	vs_recv(&p, 1, 78, 4096, GRH + 64);
	for (int i = 0; i < 2; i++) {
		vs_fill(&w, &p, 0, IBV_WR_SEND, (uint64_t)i, 0, 64);
		w.wr.wr.ud.remote_qpn = i ? more->qp_num : p.end[1].qp->qp_num;
		CHECK_EQ(vs_post(p.end[0].qp, &w.wr), 0);
		vs_expect(p.end[1].recv_cq, i ? 77 : 78, IBV_WC_SUCCESS, &wc);
		CHECK_EQ(wc.qp_num, w.wr.wr.ud.remote_qpn);
	}
	CHECK_EQ(ibv_destroy_qp(more), 0);
	vs_free(&p);
}

/* A full MTU goes; one byte more never arrives, whatever the sender's completion is. */
CASE(message_of_the_mtu_is_the_longest, .needs = NEED(UD))
{
	struct vs_pair p;
	struct vs_wr w;
	struct ibv_wc wc;

	ud_pair(&p);
	uint32_t mtu = mtu_bytes(p.end[0].ctx);

	vs_recv(&p, 1, 1, 0, GRH + mtu);
	vs_recv(&p, 1, 2, 16384, GRH + 2 * mtu);
	vs_pattern(p.end[0].buffer, mtu, 4);
	vs_send(&p, 0, IBV_WR_SEND, 3, 0, mtu);
	vs_expect(p.end[1].recv_cq, 1, IBV_WC_SUCCESS, &wc);
	CHECK_EQ(wc.byte_len, GRH + mtu);
	vs_expect_pattern(p.end[1].buffer + GRH, mtu, 4);
	vs_expect(p.end[0].send_cq, 3, IBV_WC_SUCCESS, NULL);
	vs_fill(&w, &p, 0, IBV_WR_SEND, 4, 0, mtu + 1);
	if (!vs_post(p.end[0].qp, &w.wr)) {
		CHECK(vs_wait(p.end[0].send_cq, &wc, VS_LONG));
		CHECK_EQ(wc.wr_id, 4);
		CHECK(wc.status == IBV_WC_SUCCESS || wc.status == IBV_WC_LOC_LEN_ERR);
	}
	vs_sleep_ns(QUIET_NS);
	vs_expect_none(p.end[1].recv_cq);
	vs_free(&p);
}

CASE(wrong_qkey_is_dropped, .needs = NEED(UD))
{
	struct vs_pair p;
	struct vs_wr w;

	ud_pair(&p);
	vs_recv(&p, 1, 1, 0, GRH + 64);
	vs_fill(&w, &p, 0, IBV_WR_SEND, 2, 0, 64);
	w.wr.wr.ud.remote_qkey ^= 1;
	CHECK_EQ(vs_post(p.end[0].qp, &w.wr), 0);
	vs_expect(p.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL);
	vs_sleep_ns(QUIET_NS);
	vs_expect_none(p.end[1].recv_cq);
	/* the receive is still there */
	vs_send(&p, 0, IBV_WR_SEND, 3, 0, 64);
	vs_expect(p.end[1].recv_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_free(&p);
}

/* With the highest bit, the request's Q_Key is not meant, but the queue pair's. */
CASE(qkey_with_the_high_bit_is_the_queue_pairs_own, .needs = NEED(UD))
{
	struct vs_pair p;
	struct vs_wr w;

	ud_pair(&p);
	vs_recv(&p, 1, 1, 0, GRH + 64);
	vs_fill(&w, &p, 0, IBV_WR_SEND, 2, 0, 64);
	w.wr.wr.ud.remote_qkey = 0x80000000u | 0x777;
	CHECK_EQ(vs_post(p.end[0].qp, &w.wr), 0);
	vs_expect(p.end[1].recv_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_expect(p.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL);
	vs_free(&p);
}

CASE(qkey_can_be_changed_in_rts, .needs = NEED(UD))
{
	struct vs_pair p;
	struct vs_wr w;
	struct ibv_qp_attr a = {.qkey = 0x2222};
	struct ibv_qp_init_attr init;

	ud_pair(&p);
	CHECK_EQ(ibv_modify_qp(p.end[1].qp, &a, IBV_QP_QKEY), 0);
	CHECK_EQ(ibv_query_qp(p.end[1].qp, &a, IBV_QP_QKEY, &init), 0);
	CHECK_EQ(a.qkey, 0x2222);
	vs_recv(&p, 1, 1, 0, GRH + 64);
	vs_send(&p, 0, IBV_WR_SEND, 2, 0, 64); /* with the old one */
	vs_expect(p.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL);
	vs_sleep_ns(QUIET_NS);
	vs_expect_none(p.end[1].recv_cq);
	vs_fill(&w, &p, 0, IBV_WR_SEND, 3, 0, 64);
	w.wr.wr.ud.remote_qkey = 0x2222;
	CHECK_EQ(vs_post(p.end[0].qp, &w.wr), 0);
	vs_expect(p.end[1].recv_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_free(&p);
}

CASE(datagram_without_a_receive_is_lost, .needs = NEED(UD))
{
	struct vs_pair p;
	struct ibv_wc wc;

	ud_pair(&p);
	vs_send(&p, 0, IBV_WR_SEND, 1, 0, 64);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_sleep_ns(QUIET_NS);
	vs_recv(&p, 1, 2, 0, GRH + 64);
	vs_sleep_ns(QUIET_NS);
	vs_expect_none(p.end[1].recv_cq);
	vs_send(&p, 0, IBV_WR_SEND, 3, 0, 64);
	vs_expect(p.end[1].recv_cq, 2, IBV_WC_SUCCESS, &wc);
	vs_free(&p);
}

CASE(datagram_to_nobody_is_lost, .needs = NEED(UD))
{
	struct vs_pair p;
	struct vs_wr w;
	struct ibv_wc wc;

	ud_pair(&p);
	vs_fill(&w, &p, 0, IBV_WR_SEND, 1, 0, 64);
	w.wr.wr.ud.remote_qpn = 0xfffff0;
	CHECK_EQ(vs_post(p.end[0].qp, &w.wr), 0);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	ud_exchange(&p, 2, &wc);
	vs_free(&p);
}

CASE(receive_that_is_too_small_fails, .needs = NEED(UD))
{
	struct vs_pair p;

	ud_pair(&p);
	vs_recv(&p, 1, 1, 0, GRH + 63);
	vs_send(&p, 0, IBV_WR_SEND, 2, 0, 64);
	vs_expect(p.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL);
	vs_expect(p.end[1].recv_cq, 1, IBV_WC_LOC_LEN_ERR, NULL);
	vs_await_state(p.end[1].qp, IBV_QPS_ERR);
	vs_free(&p);
}

CASE(failed_send_stops_the_send_queue_alone, .needs = NEED(UD))
{
	struct vs_pair p;
	struct vs_wr w;

	ud_pair(&p);
	vs_recv(&p, 0, 10, 4096, GRH + 64);
	vs_fill(&w, &p, 0, IBV_WR_SEND, 1, 0, 64);
	w.sge.lkey ^= 0x55;
	CHECK_EQ(vs_post(p.end[0].qp, &w.wr), 0);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_LOC_PROT_ERR, NULL);
	CHECK_EQ(vs_state(p.end[0].qp), IBV_QPS_SQE);
	vs_send(&p, 0, IBV_WR_SEND, 2, 0, 64);
	vs_expect(p.end[0].send_cq, 2, IBV_WC_WR_FLUSH_ERR, NULL);
	vs_send(&p, 1, IBV_WR_SEND, 3, 0, 64);
	vs_expect(p.end[0].recv_cq, 10, IBV_WC_SUCCESS, NULL);
	vs_set_state(p.end[0].qp, IBV_QPS_RTS);
	struct ibv_wc wc;

	ud_exchange(&p, 4, &wc);
	vs_free(&p);
}

static const enum ibv_wr_opcode connected[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
					       IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD};

CASE(only_sends_go_to_an_address, .needs = NEED(UD), .count = 4)
{
	struct vs_pair p;
	struct vs_wr w;

	ud_pair(&p);
	vs_fill(&w, &p, 0, connected[vs_param], 1, 0, 8);
	int rc = vs_post(p.end[0].qp, &w.wr);

	CHECK_MSG(rc == 0 || rc == EINVAL || rc == EOPNOTSUPP, "ibv_post_send: %d", rc);
	if (!rc)
		vs_expect(p.end[0].send_cq, 1, IBV_WC_LOC_QP_OP_ERR, NULL);
	vs_free(&p);
}

CASE(address_without_a_global_route_is_refused_on_roce, .needs = NEED(UD) | NEED(ROCE))
{
	struct vs_pair p;

	ud_pair(&p);
	struct ibv_ah_attr a = vs_attr(&p, 0).ah_attr;

	a.is_global = 0;
	CHECK(!ibv_create_ah(p.end[0].pd, &a));
	a = vs_attr(&p, 0).ah_attr;
	a.port_num = 0;
	CHECK_NULL(ibv_create_ah(p.end[0].pd, &a), EINVAL);
	a = vs_attr(&p, 0).ah_attr;
	a.port_num = 200;
	CHECK_NULL(ibv_create_ah(p.end[0].pd, &a), EINVAL);
	a = vs_attr(&p, 0).ah_attr;
	a.grh.sgid_index = 250;
	CHECK(!ibv_create_ah(p.end[0].pd, &a));
	vs_free(&p);
}

CASE(protection_domain_with_an_address_is_in_use, .needs = NEED(UD), .misuse = true)
{
	struct vs_pair p;

	ud_pair(&p);
	struct ibv_pd *pd = ibv_alloc_pd(p.end[0].ctx);
	struct ibv_ah_attr a = vs_attr(&p, 0).ah_attr;
	struct ibv_ah *ah = ibv_create_ah(pd, &a);

	CHECK(ah);
	CHECK_EQ(ibv_dealloc_pd(pd), EBUSY);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
	vs_free(&p);
}
