/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Multicast groups: their members, which are datagram queue pairs, and delivery to them. The world
 * has no subnet manager: a group exists while it has a member, and a datagram is sent once to every
 * HCA with a member. A member receives its own datagrams, unless it was created to block them.
 * Membership is of a GID and, on InfiniBand, a LID. A queue pair that is a member cannot be
 * destroyed.
 */
#include <errno.h>

#include "backends/fakeverbs/transport/transport.h"

#define HCA_LID_MULTICAST    0xc000
#define HCA_MAX_MCAST_ATTACH 240 /* maximum of any personality */

struct hca_member_ref {
	uint32_t qp, generation;
};

static bool hca_mcast_same(const struct hca_member *m, const union ibv_gid *gid)
{
	return !memcmp(&m->gid, gid, sizeof *gid);
}

static struct hca_member *hca_mcast_find(const struct hca_qp *qp, const union ibv_gid *gid)
{
	struct hca_world *w = hca_world();
	struct hca_member *m;
	uint32_t at = 0;

	while ((m = hca_slab_next(&w->member, UINT32_MAX, &at)))
		if (m->qp == qp->item.index && m->qp_generation == qp->item.generation &&
		    (!gid || hca_mcast_same(m, gid)))
			return m;
	return NULL;
}

bool hca_mcast_member(const struct hca_qp *qp)
{
	struct hca_world *w = hca_world();

	hca_lock(&w->member_lock);
	bool member = hca_mcast_find(qp, NULL) != NULL;

	hca_unlock(&w->member_lock);
	return member;
}

bool hca_mcast_leave(const struct hca_qp *qp, const union ibv_gid *gid)
{
	struct hca_world *w = hca_world();

	hca_lock(&w->member_lock);
	struct hca_member *m = hca_mcast_find(qp, gid);

	if (m) {
		os_trace("mcast.detach", hca_qp_id(qp), m->item.index, 0);
		hca_slab_free(&w->member, m);
	}
	hca_unlock(&w->member_lock);
	return m != NULL;
}

void hca_mcast_end(const struct hca_qp *qp)
{
	while (hca_mcast_leave(qp, NULL))
		;
}

/* ---- delivery ------------------------------------------------------------------------------- */

/* Returns the next port after `after` with a member of the packet's group. */
static uint32_t hca_mcast_port_after(const struct hca_packet *p, int64_t after)
{
	struct hca_world *w = hca_world();
	uint32_t at = 0, next = HCA_NONE;
	struct hca_member *m;

	hca_lock(&w->member_lock);
	while ((m = hca_slab_next(&w->member, UINT32_MAX, &at)))
		if (hca_mcast_same(m, &p->route.dgid) && m->port > after && m->port < next)
			next = m->port;
	hca_unlock(&w->member_lock);
	return next;
}

void hca_mcast_send(struct hca_qp *qp, struct hca_packet *p)
{
	ASSERT(hca_gid_is_multicast(&p->route.dgid));
	for (uint32_t port = hca_mcast_port_after(p, -1); port != HCA_NONE;
	     port = hca_mcast_port_after(p, port)) {
		struct hca_packet *copy = hca_packet_copy(p);

		if (!copy) /* no room: the copy is lost */
			continue;
		copy->to_port = port;
		hca_packet_send(qp, copy);
	}
	hca_packet_free(p);
}

/* Stores the members of the packet's group on its port, as they are at one moment. A member that
 * leaves and joins again meanwhile, elsewhere in the table, receives the datagram only once. */
static uint32_t hca_mcast_members(const struct hca_packet *p, struct hca_member_ref *to)
{
	struct hca_world *w = hca_world();
	uint32_t at = 0, n = 0;
	struct hca_member *m;

	hca_lock(&w->member_lock);
	while ((m = hca_slab_next(&w->member, UINT32_MAX, &at)))
		if (m->port == p->to_port && hca_mcast_same(m, &p->route.dgid)) {
			ASSERT(n < HCA_MAX_MCAST_ATTACH);
			to[n++] = (struct hca_member_ref){m->qp, m->qp_generation};
		}
	hca_unlock(&w->member_lock);
	return n;
}

void hca_mcast_deliver(const struct hca_packet *p)
{
	struct hca_member_ref member[HCA_MAX_MCAST_ATTACH];
	uint32_t n = hca_mcast_members(p, member);

	for (uint32_t i = 0; i < n; i++) {
		struct hca_qp *qp = hca_qp_lock_reference(
			hca_slab_at(&hca_world()->qp, member[i].qp), member[i].generation);

		if (!qp) /* it was destroyed meanwhile */
			continue;
		bool here = p->from_port == qp->port, own = here && p->from_qpn == qp->number;

		if (here && !hca_personality(qp->port)->mcast_comes_back)
			OS_PROBE_IDLE("hca.datagram_unwanted", "a datagram finds no receive",
				      "the stack sends no datagrams", true);
		else if (!own || !qp->blocks_own_mcast)
			hca_packet_deliver(qp, p);
		hca_unlock(&qp->item.lock);
	}
}

int hca_mcast_check(const struct hca_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	bool ib = hca_personality(qp->port)->link_layer == IBV_LINK_LAYER_INFINIBAND;

	if (qp->type != IBV_QPT_UD || !hca_gid_is_multicast(gid))
		return EINVAL;
	/* RoCE has no LIDs, and does not check them */
	return ib && (lid < HCA_LID_MULTICAST || lid == 0xffff) ? EINVAL : 0;
}

/* True if the group and the HCA have room for another member. */
static bool hca_mcast_room(const struct hca_qp *qp, const union ibv_gid *gid)
{
	const struct hca_personality *p = hca_personality(qp->port);
	struct hca_world *w = hca_world();
	uint32_t at = 0, members = 0, all = 0;
	struct hca_member *m;

	while ((m = hca_slab_next(&w->member, UINT32_MAX, &at))) {
		if (m->port != qp->port)
			continue;
		all++;
		members += hca_mcast_same(m, gid);
	}
	return members < p->max_mcast_attach && all < p->max_mcast_members;
}

int hca_mcast_join(const struct hca_qp *qp, const union ibv_gid *gid)
{
	ASSERT(qp->type == IBV_QPT_UD && hca_gid_is_multicast(gid)); /* hca_mcast_check */
	if (hca_mcast_find(qp, gid)) /* joining twice is the same as joining once */
		return 0;
	struct hca_member *m =
		hca_mcast_room(qp, gid) ? hca_slab_alloc_owned(&hca_world()->member, NULL) : NULL;

	if (!m)
		return ENOMEM;
	m->port = qp->port;
	m->gid = *gid;
	m->qp = qp->item.index;
	m->qp_generation = qp->item.generation;
	os_trace("mcast.attach", hca_qp_id(qp), m->item.index, 0);
	return 0;
}
