/* SPDX-License-Identifier: BSD-3-Clause */
/* Identifiers: create, bind, resolve, listen, destroy. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "dropin/rdmacm/cm.h"

#define CM_PORT_FIRST 32768u
#define CM_PORT_COUNT 28000u

/* ---- create --------------------------------------------------------------------------------- */

struct cm_id *cm_id_make(struct rdma_event_channel *channel, void *context, enum rdma_port_space ps)
{
	struct cm_id *id = calloc(1, sizeof *id);

	if (!id)
		return NULL;
	id->rdma.channel = channel;
	id->rdma.context = context;
	id->rdma.ps = ps;
	id->rdma.qp_type = ps == RDMA_PS_UDP || ps == RDMA_PS_IPOIB ? IBV_QPT_UD : IBV_QPT_RC;
	id->fd = id->timewait = -1;
	id->psn = ++cm.psn * 2654435761u & 0xffffff;
	id->next = cm.ids;
	cm.ids = id;
	return id;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **out, void *context,
		   enum rdma_port_space ps)
{
	bool synchronous = !channel;

	if (!out)
		return cm_result(EINVAL);
	*out = NULL;
	if (ps != RDMA_PS_TCP && ps != RDMA_PS_UDP && ps != RDMA_PS_IPOIB && ps != RDMA_PS_IB)
		return cm_result(EINVAL);
	pthread_mutex_lock(&cm.lock);
	int rc = cm_devices_open();

	pthread_mutex_unlock(&cm.lock);
	if (rc)
		return cm_result(rc);
	if (synchronous)
		channel = rdma_create_event_channel();
	if (!channel)
		return -1;
	pthread_mutex_lock(&cm.lock);
	struct cm_id *id = cm_id_make(channel, context, ps);

	if (id)
		id->synchronous = id->own_channel = synchronous;
	pthread_mutex_unlock(&cm.lock);
	if (!id) {
		if (synchronous)
			rdma_destroy_event_channel(channel);
		return cm_result(ENOMEM);
	}
	*out = &id->rdma;
	return 0;
}

void cm_id_place(struct cm_id *id, const struct cm_place *place)
{
	id->place = *place;
	id->has_place = true;
	id->rdma.verbs = place->device->verbs;
	id->rdma.port_num = place->port;
	if (!id->rdma.pd) /* programs create objects in it before rdma_create_qp */
		id->rdma.pd = cm_default_pd(place->device);
	id->rdma.route.addr.addr.ibaddr.sgid = place->gid;
	id->rdma.route.addr.addr.ibaddr.pkey = htobe16(0xffff);
}

/* ---- destroy -------------------------------------------------------------------------------- */

static void cm_id_unlink(struct cm_id *id)
{
	struct cm_id **at = &cm.ids;

	while (*at && *at != id)
		at = &(*at)->next;
	if (*at)
		*at = id->next;
}

/* Ends a listener's connections that the program has no event of, or neither accepted nor
 * rejected. */
static void cm_id_end_arrivals(struct cm_id *listener)
{
	for (struct cm_id *i = cm.ids, *next; i; i = next) {
		next = i->next;
		if (i->listener != listener)
			continue;
		if (i->state == CM_ARRIVING || !i->known) {
			cm_channel_unwatch(i);
			cm_channel_move(i, cm_channel_of(i->rdma.channel), NULL);
			cm_id_unlink(i);
			close(i->fd);
			free(i);
		} else {
			i->listener = NULL;
		}
	}
}

void cm_id_drop(struct cm_id *id)
{
	cm_channel_unwatch(id);
	cm_timewait_cancel(id);
	cm_id_unlink(id);
	if (id->fd >= 0)
		close(id->fd);
	free(id->listen_attr);
	free(id);
}

int rdma_destroy_id(struct rdma_cm_id *rdma)
{
	struct cm_id *id = cm_id_of(rdma);

	if (!rdma)
		return cm_result(EINVAL);
	if (rdma->event) {
		rdma_ack_cm_event(rdma->event);
		rdma->event = NULL;
	}
	pthread_mutex_lock(&cm.lock);
	cm_multicast_end(id);
	cm_channel_unwatch(id);
	cm_timewait_cancel(id);
	cm_id_end_arrivals(id);
	cm_channel_move(id, cm_channel_of(rdma->channel), NULL);
	while (id->taken != id->acked)
		pthread_cond_wait(&cm.acknowledged, &cm.lock);
	struct rdma_event_channel *own = id->own_channel ? rdma->channel : NULL;

	if (id->state == CM_REQUESTED)
		cm_refuse(id, CM_REJECT_CONSUMER, NULL, 0);
	cm_id_drop(id);
	pthread_mutex_unlock(&cm.lock);
	if (own)
		rdma_destroy_event_channel(own);
	return 0;
}

/* ---- addresses ------------------------------------------------------------------------------ */

static int cm_bind_name(int fd, enum rdma_port_space ps, const struct sockaddr *a)
{
	struct sockaddr_un name;
	socklen_t bytes = cm_name(&name, ps, a, cm_is_any(a), cm_host_here());

	return bind(fd, (struct sockaddr *)&name, bytes) ? errno : 0;
}

/* Opens the socket that holds the port. Port 0 becomes a free port. */
static int cm_id_bind_socket(struct cm_id *id)
{
	struct sockaddr *a = &id->rdma.route.addr.src_addr;
	static uint32_t next;
	int rc = EADDRINUSE;

	id->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (id->fd < 0)
		return errno;
	if (cm_port(a)) {
		rc = cm_bind_name(id->fd, id->rdma.ps, a);
	} else {
		if (!next)
			next = (uint32_t)getpid() * 61;
		for (uint32_t i = 0; i < CM_PORT_COUNT && rc == EADDRINUSE; i++) {
			cm_set_port(a, htons((uint16_t)(CM_PORT_FIRST + next++ % CM_PORT_COUNT)));
			rc = cm_bind_name(id->fd, id->rdma.ps, a);
		}
	}
	if (rc) {
		close(id->fd);
		id->fd = -1;
	}
	return rc;
}

static int cm_id_bind(struct cm_id *id, const struct sockaddr *a)
{
	struct cm_place place;
	int rc;

	if (id->state != CM_IDLE)
		return EINVAL;
	if (!a || !cm_address_bytes(a))
		return EAFNOSUPPORT;
	if (!cm_is_any(a)) {
		rc = cm_place_of(a, &place);
		if (rc)
			return rc;
		cm_id_place(id, &place);
	}
	memcpy(&id->rdma.route.addr.src_storage, a, cm_address_bytes(a));
	rc = cm_id_bind_socket(id);
	if (!rc)
		id->state = CM_BOUND;
	return rc;
}

int rdma_bind_addr(struct rdma_cm_id *rdma, struct sockaddr *addr)
{
	if (!rdma)
		return cm_result(EINVAL);
	pthread_mutex_lock(&cm.lock);
	int rc = cm_id_bind(cm_id_of(rdma), addr);

	pthread_mutex_unlock(&cm.lock);
	return cm_result(rc);
}

static bool cm_is_multicast(const struct sockaddr *a)
{
	if (a->sa_family == AF_INET)
		return IN_MULTICAST(ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr));
	return IN6_IS_ADDR_MULTICAST(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

/* Stores the source address for a destination if the program named none: that of the port. */
static void cm_source_for(struct sockaddr_storage *out, const struct sockaddr *to,
			  const struct cm_place *place)
{
	memset(out, 0, sizeof *out);
	out->ss_family = to->sa_family;
	if (cm_is_loopback(to)) {
		memcpy(out, to, cm_address_bytes(to));
		cm_set_port((struct sockaddr *)out, 0);
	} else if (to->sa_family == AF_INET) {
		memcpy(&((struct sockaddr_in *)out)->sin_addr, place->gid.raw + 12, 4);
	} else {
		memcpy(&((struct sockaddr_in6 *)out)->sin6_addr, place->gid.raw, 16);
	}
}

/* Resolves the identifier's destination. Returns an errno, or 0. */
static int cm_id_resolve(struct cm_id *id, const struct sockaddr *to)
{
	static const struct sockaddr_in loopback = {.sin_family = AF_INET,
						    .sin_addr = {.s_addr = 0x0100007f}};
	struct cm_place place;
	union ibv_gid gid;
	struct sockaddr_storage from;
	const struct sockaddr *lead = cm_is_multicast(to) ? (const struct sockaddr *)&loopback : to;
	int rc = cm_route_of(lead, &place, &gid, &id->to_host);

	if (rc)
		return EHOSTUNREACH;
	memcpy(&id->rdma.route.addr.dst_storage, to, cm_address_bytes(to));
	id->rdma.route.addr.addr.ibaddr.dgid = gid;
	if (id->state == CM_IDLE) {
		cm_source_for(&from, lead, &place);
		rc = cm_id_bind(id, (struct sockaddr *)&from);
		if (rc)
			return rc;
	}
	if (!id->has_place)
		cm_id_place(id, &place);
	id->state = CM_RESOLVED;
	return 0;
}

int rdma_resolve_addr(struct rdma_cm_id *rdma, struct sockaddr *src, struct sockaddr *dst,
		      int timeout_ms)
{
	struct cm_id *id = cm_id_of(rdma);
	int rc = 0;

	(void)timeout_ms; /* unused: it looks only at tables of this machine, which takes no time */
	if (!rdma || !dst)
		return cm_result(EINVAL);
	if (!cm_address_bytes(dst))
		return cm_result(EAFNOSUPPORT);
	pthread_mutex_lock(&cm.lock);
	if (id->state != CM_IDLE && id->state != CM_BOUND)
		rc = EINVAL;
	if (!rc && src && id->state == CM_IDLE)
		rc = cm_id_bind(id, src);
	if (!rc) {
		int failed = cm_id_resolve(id, dst);

		if (!cm_event_add(id,
				  failed ? RDMA_CM_EVENT_ADDR_ERROR : RDMA_CM_EVENT_ADDR_RESOLVED,
				  -failed))
			rc = ENOMEM;
	}
	pthread_mutex_unlock(&cm.lock);
	return cm_result(rc ? rc : cm_wait_done(id));
}

static void cm_id_path(struct cm_id *id)
{
	id->path = (struct ibv_sa_path_rec){.dgid = id->rdma.route.addr.addr.ibaddr.dgid,
					    .sgid = id->rdma.route.addr.addr.ibaddr.sgid,
					    .hop_limit = 64,
					    .traffic_class = id->tos,
					    .reversible = 1,
					    .numb_path = 1,
					    .pkey = htobe16(0xffff),
					    .mtu_selector = 2, /* exactly this value */
					    .mtu = (uint8_t)id->place.mtu,
					    .rate_selector = 2,
					    .rate = IBV_RATE_100_GBPS,
					    .packet_life_time_selector = 2,
					    .packet_life_time = 18};
	id->rdma.route.path_rec = &id->path;
	id->rdma.route.num_paths = 1;
}

int rdma_resolve_route(struct rdma_cm_id *rdma, int timeout_ms)
{
	struct cm_id *id = cm_id_of(rdma);
	int rc = 0;

	(void)timeout_ms;
	if (!rdma)
		return cm_result(EINVAL);
	pthread_mutex_lock(&cm.lock);
	if (id->state != CM_RESOLVED) {
		rc = EINVAL;
	} else {
		cm_id_path(id);
		id->state = CM_ROUTED;
		rc = cm_event_add(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0) ? 0 : ENOMEM;
	}
	pthread_mutex_unlock(&cm.lock);
	return cm_result(rc ? rc : cm_wait_done(id));
}

int rdma_listen(struct rdma_cm_id *rdma, int backlog)
{
	static const struct sockaddr_in any = {.sin_family = AF_INET};
	struct cm_id *id = cm_id_of(rdma);
	int rc = 0;

	(void)backlog; /* unused: there is room for every request */
	if (!rdma)
		return cm_result(EINVAL);
	pthread_mutex_lock(&cm.lock);
	if (id->state == CM_IDLE)
		rc = cm_id_bind(id, (const struct sockaddr *)&any);
	if (!rc && id->state != CM_BOUND)
		rc = EINVAL;
	if (!rc && listen(id->fd, CM_BACKLOG))
		rc = errno;
	if (!rc)
		rc = cm_channel_watch(id);
	if (!rc)
		id->state = CM_LISTENING;
	pthread_mutex_unlock(&cm.lock);
	return cm_result(rc);
}

__be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	return cm_port(&id->route.addr.src_addr);
}

__be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
	return cm_port(&id->route.addr.dst_addr);
}

/* ---- options -------------------------------------------------------------------------------- */

static int cm_option_id(struct cm_id *id, int name, const void *value, size_t bytes)
{
	switch (name) {
	case RDMA_OPTION_ID_TOS:
		if (bytes != sizeof id->tos)
			return EINVAL;
		memcpy(&id->tos, value, bytes);
		return 0;
	case RDMA_OPTION_ID_REUSEADDR:
	case RDMA_OPTION_ID_AFONLY:
		/* one identifier at a time holds a port, and abstract names contain the family */
		return bytes == sizeof(int) ? 0 : EINVAL;
	case RDMA_OPTION_ID_ACK_TIMEOUT:
		if (bytes != sizeof id->ack_timeout || *(const uint8_t *)value > 31)
			return EINVAL;
		memcpy(&id->ack_timeout, value, bytes);
		id->has_ack_timeout = true;
		return 0;
	default:
		return ENOSYS;
	}
}

int rdma_set_option(struct rdma_cm_id *rdma, int level, int name, void *value, size_t bytes)
{
	if (!rdma || !value)
		return cm_result(EINVAL);
	if (level != RDMA_OPTION_ID)
		return cm_result(ENOSYS); /* paths of a subnet manager, which does not exist here */
	pthread_mutex_lock(&cm.lock);
	int rc = cm_option_id(cm_id_of(rdma), name, value, bytes);

	pthread_mutex_unlock(&cm.lock);
	return cm_result(rc);
}

int rdma_set_local_ece(struct rdma_cm_id *rdma, struct ibv_ece *ece)
{
	if (!rdma || rdma->qp || !ece || !ece->vendor_id || ece->comp_mask)
		return cm_result(EINVAL);
	cm_id_of(rdma)->local_ece = *ece;
	return 0;
}

int rdma_get_remote_ece(struct rdma_cm_id *rdma, struct ibv_ece *ece)
{
	if (!rdma || rdma->qp || !ece || ece->comp_mask)
		return cm_result(EINVAL);
	*ece = cm_id_of(rdma)->remote_ece;
	ece->comp_mask = 0;
	return 0;
}
