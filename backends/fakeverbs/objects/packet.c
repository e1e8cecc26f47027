/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets in the tables: allocation, copies, release. */
#include <stdlib.h>

#include "backends/fakeverbs/arena/point.h"
#include "backends/fakeverbs/objects/packet.h"
#include "backends/fakeverbs/objects/port.h"

/* Creates a packet for which the tables have no room. It has memory of its own, with its data after
 * it, and is lost when it is sent. Its sender treats it like a packet that the wire loses. */
static struct hca_packet *hca_packet_outside(uint32_t bytes)
{
	struct hca_packet *p = calloc(1, sizeof *p + bytes);

	ASSERT(p);
	OS_PROBE_IDLE("hca.packet_no_room", "the tables have no room for a packet, which is lost",
		      "the stack has few packets on their way at a time", true);
	return p;
}

bool hca_packet_is_outside(const struct hca_packet *p)
{
	return !p->item.live;
}

uint8_t *hca_packet_data(const struct hca_packet *p)
{
	struct hca_world *w = hca_world();

	if (hca_packet_is_outside(p))
		return (uint8_t *)(uintptr_t)(p + 1);
	if (!p->buffer)
		return NULL;
	ASSERT(!p->small || p->bytes <= HCA_SMALL_BYTES);
	if (p->small)
		return ((struct hca_buffer_small *)hca_slab_at(&w->small, p->buffer - 1))->bytes;
	return ((struct hca_buffer_large *)hca_slab_at(&w->large, p->buffer - 1))->bytes;
}

/* Allocates a packet with `bytes` of data from the tables; NULL: no room. */
static struct hca_packet *hca_packet_take(uint32_t bytes)
{
	struct hca_world *w = hca_world();
	struct hca_packet *p = hca_slab_alloc(&w->packet);
	bool small = bytes <= HCA_SMALL_BYTES;

	if (!p)
		return NULL;
	memset(&p->item + 1, 0, sizeof *p - sizeof p->item);
	if (!bytes)
		return p;
	const struct hca_item *buffer = hca_slab_alloc(small ? &w->small : &w->large);

	if (!buffer) {
		hca_slab_free(&w->packet, p);
		return NULL;
	}
	p->small = small;
	p->buffer = buffer->index + 1;
	return p;
}

struct hca_packet *hca_packet_new(const struct hca_qp *qp, enum hca_packet_kind kind,
				  uint32_t bytes)
{
	uint32_t data = kind == HCA_READ ? 0 : bytes;
	struct hca_packet *p = hca_packet_take(data);

	ASSERT(bytes <= HCA_BURST_BYTES);
	if (!p)
		p = hca_packet_outside(data);
	p->kind = kind;
	p->service = qp->type;
	p->pkey = hca_pkey_get(qp->port, qp->pkey_index);
	p->from_port = qp->port;
	p->to_port = hca_qp_reaches(qp) ? qp->dest_port : HCA_NONE;
	p->from_qpn = qp->number;
	p->to_qpn = qp->dest_qpn;
	p->bytes = bytes;
	return p;
}

void hca_packet_free(struct hca_packet *p)
{
	struct hca_world *w = hca_world();

	mem_forget(p);
	if (hca_packet_is_outside(p)) {
		free(p);
		return;
	}
	if (p->buffer) {
		struct hca_slab *s = p->small ? &w->small : &w->large;

		hca_slab_free(s, hca_slab_at(s, p->buffer - 1));
		p->buffer = 0;
	}
	hca_slab_free(&w->packet, p);
}

void *hca_packet_copy(void *object)
{
	const struct hca_packet *p = object;
	struct hca_packet *copy =
		hca_packet_is_outside(p) ? NULL : hca_packet_take(p->buffer ? p->bytes : 0);

	if (!copy)
		return NULL;
	uint32_t buffer = copy->buffer;

	memcpy(&copy->item + 1, &p->item + 1, sizeof *p - sizeof p->item);
	copy->buffer = buffer;
	if (buffer)
		memcpy(hca_packet_data(copy), hca_packet_data(p), p->bytes);
	mem_forget(copy);
	mem_release(copy);
	return copy;
}

/* RoCE has no service level on the wire. HCAs report in its place how to read the GRH: 0 a GRH, 1
 * an IPv6 header, 2 an IPv4 header. Programs rely on it (UCX drops a datagram whose value does not
 * fit). */
uint8_t hca_route_sl(const struct hca_route *r)
{
	if (!r->global || r->gid_type != IBV_GID_TYPE_ROCE_V2)
		return r->gid_type == IBV_GID_TYPE_ROCE_V1 ? 0 : r->sl;
	return hca_gid_is_ipv4(&r->sgid) ? 2 : 1;
}
