/* SPDX-License-Identifier: BSD-3-Clause */
/* Multicast groups: an IP group address becomes a GID to which the queue pair is attached. The
 * fabric handles membership immediately: there is no subnet manager. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dropin/rdmacm/cm.h"

#define CM_MULTICAST_LID 0xc000

/* Stores the group's GID. RoCE v2 uses the group's address, with IPv4 as ::ffff:a.b.c.d. */
static void cm_group_gid(const struct sockaddr *a, union ibv_gid *out)
{
	memset(out, 0, sizeof *out);
	if (a->sa_family == AF_INET6) {
		memcpy(out->raw, &((const struct sockaddr_in6 *)a)->sin6_addr, 16);
		return;
	}
	out->raw[10] = out->raw[11] = 0xff;
	memcpy(out->raw + 12, &((const struct sockaddr_in *)a)->sin_addr, 4);
}

static void cm_group_leave(struct cm_id *id, struct cm_multicast *g)
{
	if (g->attached && id->rdma.qp)
		ibv_detach_mcast(id->rdma.qp, &g->mgid, CM_MULTICAST_LID);
	free(g);
}

static int cm_group_join(struct cm_id *id, const struct sockaddr *addr, bool receives,
			 void *context)
{
	struct cm_multicast *g = calloc(1, sizeof *g);
	int rc = 0;

	if (!g)
		return ENOMEM;
	memcpy(&g->address, addr, cm_address_bytes(addr));
	cm_group_gid(addr, &g->mgid);
	if (receives && id->rdma.qp)
		rc = ibv_attach_mcast(id->rdma.qp, &g->mgid, CM_MULTICAST_LID);
	g->attached = receives && id->rdma.qp && !rc;
	struct cm_event *e =
		cm_event_add(id, rc ? RDMA_CM_EVENT_MULTICAST_ERROR : RDMA_CM_EVENT_MULTICAST_JOIN,
			     rc > 0 ? -rc : rc);

	if (!e || rc) {
		cm_group_leave(id, g);
		return e ? 0 : ENOMEM;
	}
	cm_address_attr(id, &g->mgid, &e->event.param.ud.ah_attr);
	e->event.param.ud.private_data = context;
	e->event.param.ud.qp_num = CM_MULTICAST_QPN;
	e->event.param.ud.qkey = RDMA_UDP_QKEY;
	g->next = id->groups;
	id->groups = g;
	return 0;
}

int rdma_join_multicast_ex(struct rdma_cm_id *rdma, struct rdma_cm_join_mc_attr_ex *attr,
			   void *context)
{
	struct cm_id *id = cm_id_of(rdma);
	const uint32_t known = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;

	if (!rdma || !attr || (attr->comp_mask & ~known) ||
	    !(attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_ADDRESS) || !attr->addr ||
	    !cm_address_bytes(attr->addr))
		return cm_result(EINVAL);
	uint32_t flags = attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS
				 ? attr->join_flags
				 : RDMA_MC_JOIN_FLAG_FULLMEMBER;

	if (flags >= RDMA_MC_JOIN_FLAG_RESERVED || !id->has_place)
		return cm_result(EINVAL);
	pthread_mutex_lock(&cm.lock);
	int rc = cm_group_join(id, attr->addr, flags == RDMA_MC_JOIN_FLAG_FULLMEMBER, context);

	pthread_mutex_unlock(&cm.lock);
	return cm_result(rc ? rc : cm_wait_done(id));
}

int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
	struct rdma_cm_join_mc_attr_ex attr = {.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS |
							    RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
					       .join_flags = RDMA_MC_JOIN_FLAG_FULLMEMBER,
					       .addr = addr};

	return rdma_join_multicast_ex(id, &attr, context);
}

int rdma_leave_multicast(struct rdma_cm_id *rdma, struct sockaddr *addr)
{
	struct cm_id *id = cm_id_of(rdma);
	int rc = EADDRNOTAVAIL;

	if (!rdma || !addr || !cm_address_bytes(addr))
		return cm_result(EINVAL);
	pthread_mutex_lock(&cm.lock);
	for (struct cm_multicast **at = &id->groups; *at && rc; at = &(*at)->next) {
		struct cm_multicast *g = *at;

		if (memcmp(&g->address, addr, cm_address_bytes(addr)) != 0)
			continue;
		*at = g->next;
		cm_group_leave(id, g);
		rc = 0;
		break;
	}
	pthread_mutex_unlock(&cm.lock);
	return cm_result(rc);
}

void cm_multicast_end(struct cm_id *id)
{
	while (id->groups) {
		struct cm_multicast *g = id->groups;

		id->groups = g->next;
		cm_group_leave(id, g);
	}
}
