/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages on the fabric (transport/wire.c): one message is a burst of packets with one payload.
 * The function that holds a message owns it until it calls hca_packet_send or hca_packet_free.
 * Delivering a message only reads it. The loss of a message is not reported.
 *
 * Facts: InfiniBand Architecture, chapter 9 (BTH, RETH, AETH); RoCE v2 (annex 17). PSNs have 24
 * bits.
 */
#ifndef BACKENDS_FAKEVERBS_PACKET_H
#define BACKENDS_FAKEVERBS_PACKET_H

#include <infiniband/verbs.h>

#include "backends/fakeverbs/arena/arena.h"

#pragma GCC visibility push(hidden)

struct hca_qp;

#define HCA_PSN_MASK    0xffffffu
#define HCA_BURST_BYTES 65536u /* maximum payload of one message on the fabric */
/* RoCE v2 per packet: Ethernet 18, IPv4 20, UDP 8, BTH 12, ICRC 4; and the extended header */
#define HCA_HEADER_BYTES 62u
#define HCA_RETH_BYTES   16u
#define HCA_ATOMIC_BYTES 28u
#define HCA_ACK_BYTES    66u
#define HCA_GRH_BYTES    40u /* header in front of a received datagram */

enum hca_packet_kind {
	HCA_WRITE,
	HCA_SEND,
	HCA_READ,     /* requests one burst */
	HCA_RESPONSE, /* the requested burst */
	HCA_ACK,
	HCA_NAK,
	HCA_ATOMIC, /* payload: both operands, or the value to write; a RESPONSE answers it */
};

enum hca_nak { HCA_NAK_SEQUENCE, HCA_NAK_INVALID, HCA_NAK_ACCESS, HCA_NAK_OPERATION, HCA_NAK_RNR };

enum hca_packet_flag {
	HCA_FIRST = 1,
	HCA_LAST = 2,
	HCA_IMM = 4,
	HCA_SOLICITED = 8,
	HCA_ACK_REQUEST = 16,
	HCA_INVALIDATE = 32, /* the key is in `imm` */
};

/* The route of a datagram. */
struct hca_route {
	union ibv_gid sgid, dgid;
	uint32_t global; /* sgid and dgid are valid */
	uint32_t gid_type;
	uint32_t flow_label;
	uint16_t slid;
	uint8_t traffic_class, hop_limit, sl;
};

/* One message on the fabric: `packets` packets from `psn` on. */
struct hca_packet {
	struct hca_item item;
	uint32_t service; /* enum ibv_qp_type of the sender */
	uint16_t pkey;
	uint32_t qkey; /* datagram only, like `route` */
	struct hca_route route;
	uint32_t kind, flags;
	uint32_t from_port, to_port, from_qpn, to_qpn;
	uint32_t psn, packets;
	uint32_t nak, rnr_timer;
	uint32_t srqn, srqn_pad;
	uint32_t rkey, imm;
	uint32_t bytes;  /* bytes of payload; READ: bytes requested */
	uint32_t buffer; /* index + 1 of the payload's buffer; `small` chooses the table */
	uint32_t small;
	uint32_t operation; /* atomic only: enum ibv_wr_opcode */
	uint64_t caller;    /* call site of its request's post (checks.h) */
	uint64_t offset;    /* offset of the payload in its message */
	uint64_t total;     /* bytes of the message */
	uint64_t remote_address;
	uint64_t flow; /* flow number of its request */
	uint32_t next,
		/* overtake.c: next kept packet, index + 1; true if its bytes are in memory */
		landed;
};

#define HCA_SMALL_BYTES 1024u

struct hca_buffer_small {
	struct hca_item item;
	uint8_t bytes[HCA_SMALL_BYTES];
};
struct hca_buffer_large {
	struct hca_item item;
	uint8_t bytes[HCA_BURST_BYTES];
};

/* Creates a packet with room for `bytes` of data. Never NULL. */
struct hca_packet *hca_packet_new(const struct hca_qp *qp, enum hca_packet_kind kind,
				  uint32_t bytes);
uint8_t *hca_packet_data(const struct hca_packet *p);
void hca_packet_free(struct hca_packet *p);
/* Returns a copy; NULL: no room, the copy is lost. */
void *hca_packet_copy(void *packet);
/* True if the tables had no room for it. It is in memory of its own, and is lost when it is
 * sent. */
bool hca_packet_is_outside(const struct hca_packet *p);

/* Returns the service level that a datagram's completion reports. */
uint8_t hca_route_sl(const struct hca_route *r);

static inline int32_t hca_psn_diff(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}
static inline uint32_t hca_psn_add(uint32_t a, uint32_t n)
{
	return (a + n) & HCA_PSN_MASK;
}

#pragma GCC visibility pop

#endif
