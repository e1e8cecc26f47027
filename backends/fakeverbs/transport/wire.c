/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets: sent over the fabric, or looped back inside the HCA, and delivered to the queue pair
 * that they name. A packet is dropped silently, as on the wire, if no queue pair has its number or
 * if it is not from the connected peer. */
#include <stdlib.h>

#include "backends/fakeverbs/transport/transport.h"

static uint64_t hca_packet_wire_bytes(const struct hca_packet *p)
{
	switch (p->kind) {
	case HCA_ACK:
	case HCA_NAK:
		return HCA_ACK_BYTES;
	case HCA_READ:
		return HCA_HEADER_BYTES + HCA_RETH_BYTES;
	case HCA_ATOMIC:
		return HCA_HEADER_BYTES + HCA_ATOMIC_BYTES;
	default:
		return (uint64_t)p->packets * HCA_HEADER_BYTES + HCA_RETH_BYTES + p->bytes;
	}
}

/* Returns the type whose packets this type accepts. Each half of XRC accepts packets only from the
 * other half. */
static uint32_t hca_packet_peer(uint32_t type)
{
	switch (type) {
	case IBV_QPT_XRC_SEND:
		return IBV_QPT_XRC_RECV;
	case IBV_QPT_XRC_RECV:
		return IBV_QPT_XRC_SEND;
	default:
		return type;
	}
}

bool hca_packet_fits(const struct hca_qp *qp, const struct hca_packet *p)
{
	bool open = qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS ||
		    qp->state == IBV_QPS_SQD || qp->state == IBV_QPS_SQE;

	if (!open || p->service != hca_packet_peer(qp->type))
		return false;
	if (qp->type != IBV_QPT_UD &&
	    (qp->dest_port != p->from_port || qp->dest_qpn != p->from_qpn))
		return false;
	return hca_pkey_accepts(qp, p);
}

/* Delivers the kept packets that this one has made the next ones. */
static void hca_overtaken_deliver(struct hca_qp *qp)
{
	struct hca_packet *p;

	while ((p = hca_overtake_next(qp))) {
		hca_responder_request(qp, p);
		if (qp->state != IBV_QPS_ERR && hca_psn_diff(p->psn, qp->resp.psn) == 0) {
			hca_overtake_keep(qp, p);
			return;
		}
		hca_packet_free(p);
	}
}

/* A READ's request is one packet, whatever the size of its answer is. */
static uint32_t hca_packet_count(const struct hca_packet *p)
{
	return p->kind == HCA_READ ? 1 : p->packets;
}

static void hca_packet_count_received(struct hca_qp *qp, const struct hca_packet *p)
{
	hca_qp_count(qp, HCA_RECEIVED_PACKETS, hca_packet_count(p));
	hca_qp_count(qp, HCA_RECEIVED_BYTES, hca_packet_wire_bytes(p));
}

void hca_packet_deliver(struct hca_qp *qp, const struct hca_packet *p)
{
	bool answer = p->kind == HCA_RESPONSE || p->kind == HCA_ACK || p->kind == HCA_NAK;

	/* Data and READ answers carry the memory order of their sender. An acknowledge means that
	 * the other HCA has a message, not that a program may read it there. */
	mem_as(answer ? hca_qp_requester(qp) : hca_qp_responder(qp));
	mem_acquire(p);
	if (!hca_packet_fits(qp, p) || !hca_is_alive(qp->item.proc))
		return;
	hca_packet_count_received(qp, p);
	if (qp->type == IBV_QPT_UD) {
		hca_ud_receive(qp, p);
		return;
	}
	if (qp->type == IBV_QPT_UC) {
		hca_uc_request(qp, p);
		return;
	}
	switch ((enum hca_packet_kind)p->kind) {
	case HCA_WRITE:
	case HCA_SEND:
	case HCA_READ:
	case HCA_ATOMIC:
		hca_responder_request(qp, p);
		hca_overtaken_deliver(qp);
		break;
	case HCA_RESPONSE:
		hca_requester_response(qp, p);
		break;
	case HCA_ACK:
		hca_requester_ack(qp, p);
		break;
	case HCA_NAK:
		hca_requester_nak(qp, p);
		break;
	}
}

static void hca_packet_arrive(void *object, uint64_t arg)
{
	struct hca_packet *p = object;
	struct hca_qp *qp;

	ASSERT(p->to_port < hca_world()->ports && !hca_packet_is_outside(p));
	if (p->route.global && hca_gid_is_multicast(&p->route.dgid)) {
		hca_mcast_deliver(p);
	} else if ((qp = hca_qp_lock_number(p->to_port, p->to_qpn))) {
		bool kept = hca_partial_keep(qp, p);

		if (!kept)
			hca_packet_deliver(qp, p);
		hca_unlock(&qp->item.lock);
		if (kept)
			return;
	}
	hca_packet_free(p);
}

/* ---- effects of the fabric on a packet ------------------------------------------------------ */

/* Returns the payload of the message's largest packet; a message of the HCA is several packets. */
static uint32_t hca_packet_payload(const struct hca_qp *qp, const struct hca_packet *p)
{
	return p->kind == HCA_READ ? 0 : MIN_OF(p->bytes, qp->mtu_bytes);
}

static void hca_packet_corrupt(void *object, uint32_t choice)
{
	const struct hca_packet *p = object;

	ASSERT(!p->buffer || p->bytes > 0);
	if (p->buffer)
		hca_packet_data(p)[choice % p->bytes] ^= 0x40;
}

/* Returns the message's name in the trace file. NULL: answers without data are not shown. */
static const char *hca_packet_what(const struct hca_packet *p)
{
	static const char *const names[] = {
		[HCA_WRITE] = "write",       [HCA_SEND] = "send", [HCA_READ] = "read request",
		[HCA_RESPONSE] = "response", [HCA_ACK] = NULL,    [HCA_NAK] = "refusal",
		[HCA_ATOMIC] = "atomic",
	};

	ASSERT(p->kind < ARRAY_LEN(names));
	return names[p->kind];
}

void hca_packet_send(struct hca_qp *qp, struct hca_packet *p)
{
	ASSERT(p->packets > 0 && p->from_port == qp->port);
	if (!hca_is_alive(qp->item.proc)) { /* the process died while another one acted for it */
		hca_packet_free(p);
		return;
	}
	if (hca_packet_is_outside(p)) {
		os_trace("packet.lost", hca_qp_id(qp), p->kind, p->psn);
		hca_packet_free(p);
		return;
	}
	hca_qp_count(qp, HCA_SENT_PACKETS, hca_packet_count(p));
	hca_qp_count(qp, HCA_SENT_BYTES, hca_packet_wire_bytes(p));
	/* loopback inside the HCA does not use the wire and ignores the link's state */
	if (p->to_port == p->from_port) {
		const struct sim_event_attr attr = {.name = "hca.loopback",
						    .kind = SIM_EVENT_WORK,
						    .delay_ns = sim_latency(HCA_LOOPBACK_NS),
						    .order = qp};

		sim_event_post(&attr, hca_packet_arrive, p, 0, NULL);
		return;
	}
	if (p->to_port != HCA_NONE) {
		const uint64_t later_ns = hca_overtake_later_ns(qp, p);
		const struct world_message m = {.from = world_port(p->from_port),
						.to = world_port(p->to_port),
						.bytes = hca_packet_wire_bytes(p),
						.packet_bytes = hca_packet_payload(qp, p),
						.order = later_ns ? NULL : qp,
						.later_ns = later_ns,
						.label = (const void *)(uintptr_t)qp->item.handle,
						.arrive = hca_packet_arrive,
						.object = p,
						.what = hca_packet_what(p),
						.flow = p->flow,
						.copy = hca_packet_copy,
						.corrupt = hca_packet_corrupt};

		if (world_fabric_send_message(&m))
			return;
	}
	os_trace("packet.lost", hca_qp_id(qp), p->kind, p->psn);
	hca_packet_free(p);
}

uint64_t hca_wire_ns(uint32_t port, uint64_t bytes)
{
	uint64_t mbps = world_port(port)->nic->mbps;

	return mbps ? DIV_UP(bytes * 1000, mbps) : 0;
}

uint64_t hca_rnr_ns(uint32_t timer)
{
	/* the specification's table, in units of 10 us */
	static const uint32_t table[32] = {65536, 1,    2,    3,     4,     6,     8,     12,
					   16,    24,   32,   48,    64,    96,    128,   192,
					   256,   384,  512,  768,   1024,  1536,  2048,  3072,
					   4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152};

	ASSERT(timer < ARRAY_LEN(table));
	return table[timer] * 10000ull;
}
