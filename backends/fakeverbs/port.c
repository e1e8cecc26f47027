/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ports: their attributes, and their tables of GIDs and P_Keys, filled when the world's HCAs are
 * made. A RoCE port has a link-local GID and the IPv4-mapped one of its address, each once for
 * every version that its personality knows, v1 first; an InfiniBand port has one, and a LID.
 */
#include <errno.h>
#include <stdlib.h>

#include "backends/fakeverbs/check.h"
#include "backends/fakeverbs/hca.h"
#include "backends/fakeverbs/personality.h"

#undef ibv_query_port

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

	/* hosts of one machine file have equal GUIDs: the link-local address carries the host too,
	 * as a MAC would */
	guid ^= (uint64_t)w->host << 40 | (uint64_t)w->index << 24;
	for (int i = 0; i < 8; i++)
		gid[0].raw[8 + i] = (uint8_t)(guid >> (56 - 8 * i));
	memcpy(gid[1].raw + 12, w->ipv4, 4);
	if (p->link_layer == IBV_LINK_LAYER_INFINIBAND) {
		hca_port_gid_add(port, &gid[0], IBV_GID_TYPE_IB);
		return;
	}
	for (int i = 0; i < 2; i++) {
		if (p->roce_v1)
			hca_port_gid_add(port, &gid[i], IBV_GID_TYPE_ROCE_V1);
		hca_port_gid_add(port, &gid[i], IBV_GID_TYPE_ROCE_V2);
	}
}

/* "0xffff,0x8001": the table from its first entry on. */
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

/* Between one acknowledge timeout and the latest that the personality knows: an HCA's own, the same for
 * all of its queue pairs, drawn from a stream of its own. Exact in real time and under fifo. */
static uint32_t hca_port_ack_quarters(const struct hca_personality *p, uint32_t index)
{
	struct sim_rng rng;
	char stream[32];

	if (sim_engine_kind() != SIM_ENGINE_SIM || !strcmp(sim_strategy_name(), "fifo") ||
	    !strcmp(sim_strategy_name(), "portfolio:fifo"))
		return 4;
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

	ASSERT(p); /* the world has checked variable and machine file */
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

	memset(gid, 0, sizeof *gid);
	if (index >= p->gid_used)
		return false;
	*gid = p->gid[index].gid;
	*type = (enum ibv_gid_type)p->gid[index].type;
	return true;
}

uint32_t hca_gid_port(const union ibv_gid *gid)
{
	struct hca_world *w = hca_world();

	for (uint32_t p = 0; p < w->ports; p++) {
		if (!world_port(p)->nic->is_rdma)
			continue;
		for (uint32_t i = 0; i < w->port[p].gid_used; i++)
			if (!memcmp(&w->port[p].gid[i].gid, gid, sizeof *gid))
				return p;
	}
	return UINT32_MAX;
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

	/* RoCE has no local identifiers: the global route is not optional */
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
	/* a LID is routed without asking; an address has to be found first */
	return roce && *to_port == HCA_NOBODY ? ETIMEDOUT : 0;
}

/* ---- attributes ----------------------------------------------------------------------------- */

/* Rate as the attribute encodes it: lanes (1 = 1x, 2 = 4x, 4 = 8x) and the lane's speed. */
static void hca_port_speed(uint64_t mbps, struct ibv_port_attr *a)
{
	static const struct {
		uint32_t gbps;
		uint8_t width, speed;
	} rates[] = {{10, 1, 4},   {25, 1, 32},  {40, 2, 4},    {50, 1, 64},
		     {100, 2, 32}, {200, 2, 64}, {400, 2, 128}, {800, 4, 128}};
	uint64_t gbps = mbps * 8 / 1000;
	size_t i = 0;

	while (i + 1 < ARRAY_LEN(rates) && rates[i].gbps < gbps)
		i++;
	a->active_width = rates[i].width;
	a->active_speed = rates[i].speed;
}

int hca_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr,
		   size_t bytes)
{
	sim_point("ibv_query_port");
	sim_charge_ns(HCA_CONTROL_NS);
	int bad = hca_bad(context, HCA_KIND_CONTEXT, "ibv_query_port", HCA_CALLER());

	if (bad)
		return bad;
	uint32_t index = hca_context_of(context)->hca->port;
	const struct hca_port *port = &hca_world()->port[index];
	const struct hca_personality *p = hca_personality(index);
	bool ib = p->link_layer == IBV_LINK_LAYER_INFINIBAND;
	bool up = __atomic_load_n(&port->up, __ATOMIC_ACQUIRE);

	if (port_num != 1)
		return hca_result(EINVAL);
	int rc = hca_command_fault("verbs.query_port", NULL, index, -1);

	if (rc)
		return hca_result(rc);
	struct ibv_port_attr a = {
		.state = up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN,
		.max_mtu = IBV_MTU_4096,
		.active_mtu = p->active_mtu,
		.gid_tbl_len = (int)p->gid_count,
		.port_cap_flags = IBV_PORT_CM_SUP | (ib ? 0 : IBV_PORT_IP_BASED_GIDS),
		.max_msg_sz = p->max_message_bytes,
		.bad_pkey_cntr = __atomic_load_n(&port->bad_pkeys, __ATOMIC_RELAXED),
		.qkey_viol_cntr = __atomic_load_n(&port->bad_qkeys, __ATOMIC_RELAXED),
		.pkey_tbl_len = (uint16_t)p->pkey_count,
		.lid = hca_port_lid(index),
		.sm_lid = ib, /* the subnet manager sits at the first port */
		.max_vl_num = 1,
		.subnet_timeout = ib ? 18 : 0,
		.phys_state = up ? 5 : 3, /* LinkUp, Disabled */
		.link_layer = p->link_layer,
		.flags = ib ? 0 : IBV_QPF_GRH_REQUIRED,
	};

	hca_port_speed(world_port(index)->nic->mbps, &a);
	memset(attr, 0, bytes);
	memcpy(attr, &a, MIN_OF(bytes, sizeof a));
	return 0;
}

/* The exported name is for old binaries: their struct ends before port_cap_flags2. */
int ibv_query_port(struct ibv_context *context, uint8_t port_num,
		   struct _compat_ibv_port_attr *attr)
{
	struct ibv_port_attr a;
	int rc = hca_query_port(context, port_num, &a, sizeof a);

	if (!rc)
		memcpy(attr, &a, offsetof(struct ibv_port_attr, port_cap_flags2));
	return hca_result(rc);
}

/* ---- what the tables hold ------------------------------------------------------------------- */

/* May this call look at entry `index` of a table of `count`? As errno; -1 comes from the caller. */
static int hca_table_check(const char *site, uint32_t port, uint32_t port_num, int64_t index,
			   uint32_t count)
{
	if (port_num != 1 || index < 0 || index >= count)
		return EINVAL;
	return hca_call_fault(site, NULL, port, -1);
}

int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid)
{
	sim_point("ibv_query_gid");
	if (hca_bad(context, HCA_KIND_CONTEXT, "ibv_query_gid", HCA_CALLER()))
		return -1;
	uint32_t port = hca_context_of(context)->hca->port;
	enum ibv_gid_type type;
	int rc = hca_table_check("verbs.query_gid", port, port_num, index,
				 hca_personality(port)->gid_count);

	if (rc) {
		errno = rc;
		return -1;
	}
	(void)hca_gid_get(port, (uint32_t)index, gid, &type);
	return 0;
}

static bool hca_gid_entry(uint32_t port, uint32_t index, struct ibv_gid_entry *e)
{
	enum ibv_gid_type type;

	memset(e, 0, sizeof *e);
	if (!hca_gid_get(port, index, &e->gid, &type))
		return false;
	e->gid_index = index;
	e->port_num = 1;
	e->gid_type = type;
	/* 1 is the loopback interface; an InfiniBand port has none of its own */
	e->ndev_ifindex = type == IBV_GID_TYPE_IB ? 0 : port + 2;
	return true;
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t entry_bytes)
{
	sim_point("ibv_query_gid_ex");
	int bad = hca_bad(context, HCA_KIND_CONTEXT, "ibv_query_gid_ex", HCA_CALLER());

	if (bad)
		return bad;
	uint32_t port = hca_context_of(context)->hca->port;
	struct ibv_gid_entry e;

	if (flags || entry_bytes < sizeof e)
		return hca_result(EINVAL);
	int rc = hca_table_check("verbs.query_gid_ex", port, port_num, index,
				 hca_personality(port)->gid_count);

	if (rc)
		return hca_result(rc);
	if (!hca_gid_entry(port, index, &e))
		return hca_result(ENODATA);
	memset(entry, 0, entry_bytes);
	memcpy(entry, &e, sizeof e);
	return 0;
}

/* The entries of all ports that are not empty; how many, or a negative errno. */
ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
			     size_t max_entries, uint32_t flags, size_t entry_bytes)
{
	sim_point("ibv_query_gid_table");
	if (hca_bad(context, HCA_KIND_CONTEXT, "ibv_query_gid_table", HCA_CALLER()))
		return -EINVAL;
	uint32_t port = hca_context_of(context)->hca->port;
	struct ibv_gid_entry e;
	size_t n = 0;

	if (flags || entry_bytes < sizeof e)
		return -EINVAL;
	int rc = hca_call_fault("verbs.query_gid_ex", NULL, port, -1);

	if (rc)
		return -rc;
	for (uint32_t i = 0; hca_gid_entry(port, i, &e); i++, n++) {
		if (n == max_entries)
			return -EINVAL;
		memset((char *)entries + n * entry_bytes, 0, entry_bytes);
		memcpy((char *)entries + n * entry_bytes, &e, sizeof e);
	}
	return (ssize_t)n;
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey)
{
	sim_point("ibv_query_pkey");
	if (hca_bad(context, HCA_KIND_CONTEXT, "ibv_query_pkey", HCA_CALLER()))
		return -1;
	uint32_t port = hca_context_of(context)->hca->port;
	int rc = hca_table_check("verbs.query_pkey", port, port_num, index,
				 hca_personality(port)->pkey_count);

	if (rc) {
		errno = rc;
		return -1;
	}
	*pkey = htobe16(hca_pkey_get(port, (uint32_t)index));
	return 0;
}

/* The entry with this key, membership included. */
int ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey)
{
	sim_point("ibv_get_pkey_index");
	if (hca_bad(context, HCA_KIND_CONTEXT, "ibv_get_pkey_index", HCA_CALLER()))
		return -1;
	uint32_t port = hca_context_of(context)->hca->port;
	uint32_t count = hca_personality(port)->pkey_count;
	int rc = hca_table_check("verbs.query_pkey", port, port_num, 0, count);

	for (uint32_t i = 0; !rc && i < count; i++)
		if (hca_pkey_get(port, i) && hca_pkey_get(port, i) == be16toh(pkey))
			return (int)i;
	errno = rc ? rc : EINVAL;
	return -1;
}
