/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ports: their attributes, and their tables of GIDs and P_Keys, filled when the world's HCAs are
 * created. A RoCE port has a link-local GID and the IPv4-mapped GID of its address. Each is listed
 * once per RoCE version that the personality supports, v1 first. An InfiniBand port has one GID,
 * and a LID.
 */
#include <errno.h>
#include <stdlib.h>

#include "backends/fakeverbs/arena/report.h"
#include "backends/fakeverbs/objects/personality.h"
#include "backends/fakeverbs/objects/port.h"
#include "core/base/hash.h"

/* Index of the ports' GIDs: the first port that has the GID, + 1, at the hash
 * of the GID or, where other GIDs are, after it. Made by the process, of the world it is in, and
 * made again after a port has moved. */
static struct {
	uint32_t *slot;
	uint32_t slots; /* a power of two, more than there are GIDs */
} gids;

#define HCA_PKEY_DEFAULT 0xffff /* full member of the default partition */

/* ---- tables --------------------------------------------------------------------------------- */

static void hca_port_gid_add(struct hca_port *port, const union ibv_gid *gid,
			     enum ibv_gid_type type)
{
	struct hca_gid *g = &port->gid[port->gid_used++];

	ASSERT(port->gid_used <= ARRAY_LEN(port->gid));
	g->gid = *gid;
	g->type = type;
}

static void hca_port_gids(struct hca_port *port, uint32_t index, const struct hca_personality *p)
{
	const struct world_port *w = world_port(index);
	uint64_t guid = w->nic->guid;
	union ibv_gid gid[2] = {{.raw = {0xfe, 0x80}}, {.raw = {[10] = 0xff, [11] = 0xff}}};

	/* hosts of one machine file have equal GUIDs: the host is part of the link-local address,
	 * as a MAC would be */
	guid ^= (uint64_t)w->host << 40 | (uint64_t)w->index << 24;
	for (int i = 0; i < 8; i++)
		gid[0].raw[8 + i] = (uint8_t)(guid >> (56 - 8 * i));
	memcpy(gid[1].raw + 12, w->ipv4, 4);
	if (p->link_layer == IBV_LINK_LAYER_INFINIBAND) {
		hca_port_gid_add(port, &gid[0], IBV_GID_TYPE_IB);
		return;
	}
	/* a table that is filled again has another order, as on hosts whose addresses come late */
	for (uint32_t k = 0; k < 2; k++) {
		const uint32_t i = (k + w->moves) % 2;

		if (p->roce_v1)
			hca_port_gid_add(port, &gid[i], IBV_GID_TYPE_ROCE_V1);
		hca_port_gid_add(port, &gid[i], IBV_GID_TYPE_ROCE_V2);
	}
}

/* Fills the table of P_Keys from its first entry on. `text`: "0xffff,0x8001". */
static void hca_port_pkeys(struct hca_port *port, const char *text, uint32_t count)
{
	uint32_t n = 0;

	port->pkey[0] = HCA_PKEY_DEFAULT;
	while (text && *text) {
		char *end;
		unsigned long v = strtoul(text, &end, 0);

		if (end == text || v > 0xffff || (*end && *end != ',') || n == count) {
			hca_misuse("P_Keys: at '%s', expected 16 bits each, as 0xffff,0x8001, "
				   "and no more than %u on this port",
				   text, count);
			return;
		}
		port->pkey[n++] = (uint16_t)v;
		text = *end ? end + 1 : end;
	}
}

/* Returns the acknowledge timeout of this HCA in quarters: between one timeout and the
 * personality's latest. All queue pairs of the HCA share the value, which is drawn from a random
 * stream of its own. Exactly one timeout in real time and under fifo. */
static uint32_t hca_port_ack_quarters(const struct hca_personality *p, uint32_t index)
{
	struct sim_rng rng;
	char stream[32];

	if (sim_engine_kind() != SIM_ENGINE_SIM || !strcmp(sim_strategy_name(), "fifo") ||
	    !strcmp(sim_strategy_name(), "portfolio:fifo"))
		return 4;
	ASSERT(p->ack_latest >= 4);
	snprintf(stream, sizeof stream, "hca.ack_timeout.%u", index);
	sim_rng_init(&rng, stream);
	return 4 + (uint32_t)sim_rng_below(&rng, p->ack_latest - 3);
}

void hca_port_init(struct hca_port *port, uint32_t index)
{
	const struct world_nic *nic = world_port(index)->nic;
	const char *name =
		nic->personality[0] ? nic->personality : hca_env("DOPPEL_HCA_PERSONALITY");
	const struct hca_personality *p =
		hca_personality_find(name && *name ? name : "spec", index);

	ASSERT(p); /* the world has checked the variable and the machine file */
	/* the room of the tables, and the bound for checks of any port */
	ASSERT(p->pkey_count <= HCA_PKEY_COUNT && p->max_rd_atomic <= HCA_MAX_RD_ATOMIC &&
	       p->max_message_bytes >= HCA_ANY_MESSAGE_BYTES);
	port->personality = hca_personality_index(p);
	port->ack_quarters = hca_port_ack_quarters(p, index);
	port->up = world_port(index)->up;
	port->next_qpn = HCA_QPN_FIRST;
	hca_port_gids(port, index, p);
	hca_port_pkeys(port, nic->pkeys[0] ? nic->pkeys : hca_env("DOPPEL_HCA_PKEYS"),
		       p->pkey_count);
}

uint16_t hca_port_lid(uint32_t port)
{
	return hca_personality(port)->link_layer == IBV_LINK_LAYER_INFINIBAND ? (uint16_t)(port + 1)
									      : 0;
}

bool hca_gid_get(uint32_t port, uint32_t index, union ibv_gid *gid, enum ibv_gid_type *type)
{
	const struct hca_port *p = &hca_world()->port[port];

	ASSERT(port < hca_world()->ports && p->gid_used > 0); /* every port has an address */
	memset(gid, 0, sizeof *gid);
	if (index >= p->gid_used)
		return false;
	*gid = p->gid[index].gid;
	*type = (enum ibv_gid_type)p->gid[index].type;
	return true;
}

static bool hca_port_has_gid(const struct hca_port *port, const union ibv_gid *gid)
{
	for (uint32_t i = 0; i < port->gid_used; i++)
		if (!memcmp(&port->gid[i].gid, gid, sizeof *gid))
			return true;
	return false;
}

/* Returns the GID's slot in the index: of its port, or the empty one where it belongs. */
static uint32_t *hca_gid_slot(const struct hca_world *w, const union ibv_gid *gid)
{
	uint64_t at = hash64(gid, sizeof *gid);
	uint32_t *slot;

	do
		slot = &gids.slot[at++ % gids.slots];
	while (*slot && !hca_port_has_gid(&w->port[*slot - 1], gid));
	return slot;
}

void hca_gids_start(const struct hca_world *w)
{
	gids.slots = 1;
	while (gids.slots <= HCA_GID_USED * w->ports)
		gids.slots *= 2;
	gids.slot = calloc(gids.slots, sizeof *gids.slot);
	ASSERT(gids.slot);
	for (uint32_t p = 0; p < w->ports; p++) {
		if (!world_port(p)->nic->is_rdma)
			continue;
		for (uint32_t i = 0; i < w->port[p].gid_used; i++) {
			uint32_t *slot = hca_gid_slot(w, &w->port[p].gid[i].gid);

			if (!*slot)
				*slot = p + 1;
		}
	}
}

void hca_gids_stop(void)
{
	free(gids.slot);
	gids.slot = NULL;
}

bool hca_port_move(uint32_t port)
{
	struct hca_world *w = hca_world();
	struct hca_port *p = &w->port[port];

	if (p->moves == world_port(port)->moves)
		return false;
	p->moves = world_port(port)->moves;
	p->gid_used = 0;
	hca_port_gids(p, port, hca_personality(port));
	hca_gids_stop();
	hca_gids_start(w);
	return true;
}

uint32_t hca_moves(uint32_t port, uint32_t to_port)
{
	const struct hca_world *w = hca_world();

	/* loopback inside the HCA does not use the address */
	return to_port >= w->ports || to_port == port
		       ? 0
		       : w->port[port].moves + w->port[to_port].moves;
}

bool hca_qp_reaches(const struct hca_qp *qp)
{
	return hca_moves(qp->port, qp->dest_port) == qp->moves;
}

uint32_t hca_gid_port(const union ibv_gid *gid)
{
	return *hca_gid_slot(hca_world(), gid) - 1;
}

uint32_t hca_lid_port(uint16_t lid)
{
	uint32_t p = lid - 1u;

	return lid && p < hca_world()->ports && hca_port_lid(p) == lid ? p : UINT32_MAX;
}

bool hca_gid_is_multicast(const union ibv_gid *gid)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	return gid->raw[0] == 0xff ||
	       (!memcmp(gid->raw, mapped, sizeof mapped) && (gid->raw[12] & 0xf0) == 0xe0);
}

int hca_address_resolve(uint32_t port, const struct ibv_ah_attr *ah, uint32_t *to_port)
{
	union ibv_gid gid;
	enum ibv_gid_type type;
	bool roce = hca_personality(port)->link_layer != IBV_LINK_LAYER_INFINIBAND;

	/* RoCE has no LIDs: the global route is not optional */
	if (ah->port_num != 1 || ah->sl > 15 || (roce && !ah->is_global))
		return EINVAL;
	if (ah->is_global && !hca_gid_get(port, ah->grh.sgid_index, &gid, &type))
		return EINVAL;
	if (!roce && !ah->dlid)
		return EINVAL;
	if (ah->is_global && hca_gid_is_multicast(&ah->grh.dgid))
		*to_port = HCA_MULTICAST;
	else
		*to_port = roce ? hca_gid_port(&ah->grh.dgid) : hca_lid_port(ah->dlid);
	/* a LID needs no resolution; a GID does */
	return roce && *to_port == HCA_NONE ? ETIMEDOUT : 0;
}

bool hca_gid_is_ipv4(const union ibv_gid *gid)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	return !memcmp(gid->raw, mapped, sizeof mapped);
}

const struct hca_ah *hca_ah_find(const struct hca_wqe *e)
{
	struct hca_ah *ah = hca_slab_at(&hca_world()->ah, e->ah);

	return __atomic_load_n(&ah->item.generation, __ATOMIC_ACQUIRE) == e->ah_generation ? ah
											   : NULL;
}
