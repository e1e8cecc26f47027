/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagrams. A message is one packet to the port that the address handle names. It needs the
 * receiver's Q_Key and partition, and a receive with 40 bytes of room in front. The room is for
 * the packet's global route header (GRH), which every packet has on RoCE. A datagram without a
 * queue pair, or without a receive, is lost silently. A datagram to a multicast group is sent once
 * to each HCA that has a member, its own included. The HCA delivers it to every member.
 *
 * The header in front of the receive is the wire's. For RoCE v1, and on InfiniBand, it is the GRH.
 * For RoCE v2 it is the IPv6 header of the same size, or 20 zero bytes and the IPv4 header.
 */
#include <arpa/inet.h>

#include "backends/fakeverbs/transport/transport.h"

/* Bit of a request's Q_Key that selects the sender's queue pair's own Q_Key. */
#define HCA_QKEY_OWN      0x80000000u
#define HCA_QPN_MULTICAST 0xffffffu
#define HCA_NEXT_IBA      0x1b
#define HCA_NEXT_UDP      17
/* after the network header: UDP 8, BTH 12, DETH 8, ICRC 4 */
#define HCA_UD_TAIL_BYTES 32u

/* ---- sending -------------------------------------------------------------------------------- */

enum ibv_wc_status hca_ud_status(const struct hca_qp *qp, const struct hca_wqe *e)
{
	const struct hca_personality *p = hca_personality(qp->port);
	const struct hca_ah *ah = hca_ah_find(e);

	if (!ah || (p->ah_pd_enforced && ah->pd != qp->pd))
		return IBV_WC_LOC_QP_OP_ERR;
	if (p->datagram_too_long && e->bytes > qp->mtu_bytes)
		return IBV_WC_LOC_LEN_ERR;
	return IBV_WC_SUCCESS;
}

static void hca_route_fill(const struct hca_qp *qp, const struct hca_ah *ah, struct hca_packet *p)
{
	struct hca_route *r = &p->route;
	enum ibv_gid_type type = IBV_GID_TYPE_IB;

	r->global = ah->attr.is_global;
	if (r->global) {
		bool found = hca_gid_get(qp->port, ah->attr.grh.sgid_index, &r->sgid, &type);

		ASSERT(found); /* hca_address_resolve has checked the index */
		r->dgid = ah->attr.grh.dgid;
	}
	r->gid_type = type;
	r->flow_label = ah->attr.grh.flow_label & 0xfffff;
	r->traffic_class = ah->attr.grh.traffic_class;
	r->hop_limit = ah->attr.grh.hop_limit;
	r->sl = ah->attr.sl;
	r->slid = hca_port_lid(qp->port);
}

void hca_ud_send(struct hca_qp *qp, const struct hca_wqe *e, struct hca_packet *p)
{
	const struct hca_ah *ah = hca_ah_find(e);

	ASSERT(ah); /* checked when this request was started, in the same step */
	ASSERT(p->packets == 1 && p->bytes <= qp->mtu_bytes);
	hca_route_fill(qp, ah, p);
	bool own = (e->rkey & HCA_QKEY_OWN) && hca_personality(qp->port)->qkey_high_bit;

	p->qkey = own ? qp->qkey : e->rkey;
	p->to_qpn = e->dest_qpn;
	p->to_port = ah->to_port;
	if (p->to_port != HCA_MULTICAST) {
		hca_packet_send(qp, p);
		return;
	}
	p->to_qpn = HCA_QPN_MULTICAST;
	hca_mcast_send(qp, p);
}

/* ---- the header in front -------------------------------------------------------------------- */

static uint16_t hca_ipv4_sum(const uint8_t header[20])
{
	uint32_t sum = 0;

	for (int i = 0; i < 20; i += 2)
		sum += (uint32_t)header[i] << 8 | header[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

static void hca_put_be16(uint8_t *at, uint32_t v)
{
	at[0] = (uint8_t)(v >> 8);
	at[1] = (uint8_t)v;
}

void hca_grh_build(const struct hca_packet *p, uint8_t grh[HCA_GRH_BYTES])
{
	const struct hca_route *r = &p->route;
	bool udp = r->gid_type == IBV_GID_TYPE_ROCE_V2;
	uint32_t tail = ALIGN_UP(p->bytes, 4u) + HCA_UD_TAIL_BYTES - (udp ? 0 : 8);

	memset(grh, 0, HCA_GRH_BYTES);
	if (udp && hca_gid_is_ipv4(&r->sgid)) {
		uint8_t *ip = grh + 20;

		ip[0] = 0x45;
		ip[1] = r->traffic_class;
		hca_put_be16(ip + 2, 20 + tail);
		hca_put_be16(ip + 6, 0x4000); /* flag: do not fragment */
		ip[8] = r->hop_limit;
		ip[9] = HCA_NEXT_UDP;
		memcpy(ip + 12, r->sgid.raw + 12, 4);
		memcpy(ip + 16, r->dgid.raw + 12, 4);
		if (hca_personality(p->from_port)->header_checksum)
			hca_put_be16(ip + 10, hca_ipv4_sum(ip));
		return;
	}
	uint32_t first = 6u << 28 | (uint32_t)r->traffic_class << 20 | r->flow_label;

	hca_put_be16(grh, first >> 16);
	hca_put_be16(grh + 2, first);
	hca_put_be16(grh + 4, tail);
	grh[6] = udp ? HCA_NEXT_UDP : HCA_NEXT_IBA;
	grh[7] = r->hop_limit;
	memcpy(grh + 8, r->sgid.raw, 16);
	memcpy(grh + 24, r->dgid.raw, 16);
}

/* ---- receiving ------------------------------------------------------------------------------ */

static void hca_count_16(uint32_t *counter)
{
	if (__atomic_load_n(counter, __ATOMIC_RELAXED) < 0xffff)
		__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static int hca_ud_place(struct hca_qp *qp, const struct hca_packet *p, struct hca_wqe *e)
{
	uint8_t grh[HCA_GRH_BYTES];
	int rc = 0;

	if (p->route.global) {
		hca_grh_build(p, grh);
		rc = hca_sges_write(qp->recv_pd, hca_wqe_sges(e), e->sge_count, 0, grh, sizeof grh);
	}
	if (!rc && p->bytes)
		rc = hca_sges_write(qp->recv_pd, hca_wqe_sges(e), e->sge_count, HCA_GRH_BYTES,
				    hca_packet_data(p), p->bytes);
	return rc;
}

void hca_ud_receive(struct hca_qp *qp, const struct hca_packet *p)
{
	if (p->qkey != qp->qkey) {
		OS_PROBE_IDLE("hca.wrong_qkey", "a datagram comes with another Q_Key",
			      "the stack sends no datagrams", true);
		hca_count_16(&hca_world()->port[qp->port].bad_qkeys);
		hca_check_qkey(qp, p);
		return;
	}
	hca_responder_established(qp);
	if (qp->rq.done == qp->rq.head && !(qp->srq && hca_srq_take(qp))) {
		OS_PROBE_IDLE("hca.datagram_unwanted", "a datagram finds no receive",
			      "the stack sends no datagrams", true);
		hca_count(qp->port, HCA_NO_RECEIVES);
		return;
	}
	struct hca_wqe *e = hca_wqe_at(&qp->rq, qp->rq.done);

	mem_acquire(e);
	if (HCA_GRH_BYTES + (uint64_t)p->bytes > e->bytes) {
		if (hca_personality(qp->port)->short_receive_waits)
			return; /* no completion: the receive stays for the next datagram */
		hca_recv_too_small(qp, p);
		return;
	}
	if (hca_ud_place(qp, p, e)) {
		hca_responder_fail_recv(qp, p, hca_bad_receive(qp), HCA_NAK_OPERATION);
		return;
	}
	os_trace_bytes("datagram.place", hca_qp_id(qp), hca_packet_data(p), p->bytes);
	hca_responder_received(qp, p, HCA_GRH_BYTES + (uint64_t)p->bytes);
}

bool hca_pkey_accepts(const struct hca_qp *qp, const struct hca_packet *p)
{
	uint16_t mine = hca_pkey_get(qp->port, qp->pkey_index);

	if (hca_pkey_match(mine, p->pkey))
		return true;
	OS_PROBE_IDLE("hca.wrong_pkey", "a packet comes from another partition",
		      "the stack knows one partition", true);
	hca_count_16(&hca_world()->port[qp->port].bad_pkeys);
	return false;
}
