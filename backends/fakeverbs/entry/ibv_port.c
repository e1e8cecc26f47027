/* SPDX-License-Identifier: BSD-3-Clause */
/* Queries of a port: its attributes, and its tables of GIDs and P_Keys. */
#include <errno.h>

#include "backends/fakeverbs/entry/entry.h"

#undef ibv_query_port

/* ---- attributes ----------------------------------------------------------------------------- */

/* Encodes the rate as the attribute does: lanes (1 = 1x, 2 = 4x, 4 = 8x) and the lane's speed. */
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
	int bad = hca_enter_control(context, HCA_KIND_CONTEXT, "ibv_query_port", HCA_CALLER());

	if (bad)
		return bad;
	uint32_t index = hca_context_of(context)->hca->port;
	const struct hca_port *port = &hca_world()->port[index];
	const struct hca_personality *p = hca_personality(index);
	bool ib = p->link_layer == IBV_LINK_LAYER_INFINIBAND;
	bool up = __atomic_load_n(&port->up, __ATOMIC_ACQUIRE);

	ASSERT(p->active_mtu <= IBV_MTU_4096); /* the largest that a port reports */
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
		.sm_lid = ib, /* the subnet manager is at the first port */
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

/* ---- entries of the tables ------------------------------------------------------------------ */

/* Checks the access to entry `index` of a table of `count` entries. Returns an errno; the caller
 * returns -1. */
static int hca_table_check(const char *site, uint32_t port, uint32_t port_num, int64_t index,
			   uint32_t count)
{
	if (port_num != 1 || index < 0 || index >= count)
		return EINVAL;
	return hca_call_fault(site, NULL, port, -1);
}

int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid)
{
	if (hca_enter(context, HCA_KIND_CONTEXT, "ibv_query_gid", HCA_CALLER()))
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
	/* 1 is the loopback interface; an InfiniBand port has no interface of its own */
	e->ndev_ifindex = type == IBV_GID_TYPE_IB ? 0 : port + 2;
	return true;
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t entry_bytes)
{
	int bad = hca_enter(context, HCA_KIND_CONTEXT, "ibv_query_gid_ex", HCA_CALLER());

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

/* Stores the entries of all ports that are not empty. Returns their number, or a negative errno. */
ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
			     size_t max_entries, uint32_t flags, size_t entry_bytes)
{
	if (hca_enter(context, HCA_KIND_CONTEXT, "ibv_query_gid_table", HCA_CALLER()))
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
	if (hca_enter(context, HCA_KIND_CONTEXT, "ibv_query_pkey", HCA_CALLER()))
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

/* Returns the index of this key; its membership bit must match, too. */
int ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey)
{
	if (hca_enter(context, HCA_KIND_CONTEXT, "ibv_get_pkey_index", HCA_CALLER()))
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
