/* SPDX-License-Identifier: BSD-3-Clause */
/* The HCAs of this machine, which stay open (rdma_get_devices returns them), and the mapping from
 * IP addresses to them. */
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <stdlib.h>
#include <string.h>

#include "dropin/rdmacm/cm.h"

/* Resets the state in a child of fork(), which must not use its parent's objects. The child opens
 * its own devices. */
static void cm_forked(void)
{
	pthread_mutex_init(&cm.lock, NULL);
	pthread_mutex_init(&cm.defaults, NULL);
	pthread_cond_init(&cm.acknowledged, NULL);
	cm.ids = NULL;
	cm.device = NULL;
	cm.devices = 0;
}

int cm_devices_open(void)
{
	static bool once;
	int n = 0;

	if (cm.devices)
		return 0;
	if (!once)
		pthread_atfork(NULL, NULL, cm_forked);
	once = true;
	struct ibv_device **list = ibv_get_device_list(&n);

	if (!list)
		return errno ? errno : ENODEV;
	cm.device = calloc((size_t)n + 1, sizeof *cm.device);
	for (int i = 0; cm.device && i < n; i++) {
		struct cm_device *d = &cm.device[cm.devices];

		d->verbs = ibv_open_device(list[i]);
		if (!d->verbs)
			continue;
		if (ibv_query_device(d->verbs, &d->attr) == 0)
			cm.devices++;
		else
			ibv_close_device(d->verbs);
	}
	ibv_free_device_list(list);
	if (!cm.device)
		return ENOMEM;
	if (!cm.devices) {
		free(cm.device);
		cm.device = NULL;
		return ENODEV;
	}
	return 0;
}

struct cm_device *cm_device_of(const struct ibv_context *verbs)
{
	for (int i = 0; i < cm.devices; i++)
		if (cm.device[i].verbs == verbs)
			return &cm.device[i];
	return NULL;
}

struct ibv_pd *cm_default_pd(struct cm_device *d)
{
	pthread_mutex_lock(&cm.defaults);
	if (!d->pd)
		d->pd = ibv_alloc_pd(d->verbs);
	struct ibv_pd *pd = d->pd;

	pthread_mutex_unlock(&cm.defaults);
	return pd;
}

struct ibv_xrcd *cm_default_xrcd(struct cm_device *d)
{
	struct ibv_xrcd_init_attr a = {.comp_mask =
					       IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
				       .fd = -1,
				       .oflags = O_CREAT};

	pthread_mutex_lock(&cm.defaults);
	if (!d->xrcd)
		d->xrcd = ibv_open_xrcd(d->verbs, &a);
	struct ibv_xrcd *xrcd = d->xrcd;

	pthread_mutex_unlock(&cm.defaults);
	return xrcd;
}

/* ---- from address to port ------------------------------------------------------------------- */

static bool cm_gid_is(const union ibv_gid *gid, const struct sockaddr *a)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	if (a->sa_family == AF_INET6)
		return memcmp(gid->raw, &((const struct sockaddr_in6 *)a)->sin6_addr, 16) == 0;
	return memcmp(gid->raw, mapped, sizeof mapped) == 0 &&
	       memcmp(gid->raw + 12, &((const struct sockaddr_in *)a)->sin_addr, 4) == 0;
}

static bool cm_gid_is_mapped(const union ibv_gid *gid)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	return memcmp(gid->raw, mapped, sizeof mapped) == 0;
}

/* Returns how well this GID entry serves the address (NULL: any address); 0: not at all. */
static int cm_gid_rank(const struct ibv_gid_entry *e, const struct sockaddr *a)
{
	int rank = 1;

	if (a && !cm_gid_is(&e->gid, a))
		return 0;
	rank += e->gid_type == IBV_GID_TYPE_ROCE_V2 ? 2 : 0;
	return rank + (cm_gid_is_mapped(&e->gid) ? 4 : 0);
}

static int cm_port_search(struct cm_device *d, uint8_t port, const struct sockaddr *a,
			  struct cm_place *out)
{
	struct ibv_port_attr attr;
	int best = 0;

	if (ibv_query_port(d->verbs, port, &attr) || attr.state != IBV_PORT_ACTIVE)
		return 0;
	for (int i = 0; i < attr.gid_tbl_len && i < 256; i++) {
		struct ibv_gid_entry e;

		if (ibv_query_gid_ex(d->verbs, port, (uint32_t)i, &e, 0))
			continue;
		int rank = cm_gid_rank(&e, a);

		if (rank <= best)
			continue;
		best = rank;
		*out = (struct cm_place){.device = d,
					 .port = port,
					 .gid_index = (uint8_t)i,
					 .gid = e.gid,
					 .mtu = attr.active_mtu};
	}
	return best;
}

static int cm_place_search(const struct sockaddr *a, struct cm_place *out)
{
	for (int i = 0; i < cm.devices; i++)
		for (uint8_t port = 1; port <= cm.device[i].attr.phys_port_cnt; port++)
			if (cm_port_search(&cm.device[i], port, a, out))
				return 0;
	return ENODEV;
}

/* True if an ordinary interface of the machine has the address. */
static bool cm_is_ours(const struct sockaddr *a)
{
	struct ifaddrs *list = NULL;
	bool ours = false;

	if (getifaddrs(&list))
		return false;
	for (struct ifaddrs *i = list; i && !ours; i = i->ifa_next) {
		if (!i->ifa_addr || i->ifa_addr->sa_family != a->sa_family)
			continue;
		if (a->sa_family == AF_INET)
			ours = ((const struct sockaddr_in *)i->ifa_addr)->sin_addr.s_addr ==
			       ((const struct sockaddr_in *)a)->sin_addr.s_addr;
		else
			ours = memcmp(&((const struct sockaddr_in6 *)i->ifa_addr)->sin6_addr,
				      &((const struct sockaddr_in6 *)a)->sin6_addr, 16) == 0;
	}
	freeifaddrs(list);
	return ours;
}

int cm_place_of(const struct sockaddr *a, struct cm_place *out)
{
	memset(out, 0, sizeof *out);
	int rc = cm_devices_open();

	if (rc)
		return rc;
	if (!cm_is_loopback(a) && cm_place_search(a, out) == 0)
		return 0;
	if (!cm_is_loopback(a) && !cm_is_ours(a))
		return ENODEV;
	return cm_place_search(NULL, out);
}

uint32_t cm_host_here(void)
{
	const char *text = getenv("DOPPEL_HOST");

	return text ? (uint32_t)strtoul(text, NULL, 0)
		    : 0; /* libibverbs rejects an invalid number */
}

/* HCAs of the fabric have addresses 172.16.HOST.NUMBER (sim/world/fabric.c). */
static bool cm_is_hca(const struct sockaddr *a, union ibv_gid *gid, uint32_t *host)
{
	*gid = (union ibv_gid){.raw = {[10] = 0xff, [11] = 0xff}};
	if (a->sa_family == AF_INET)
		memcpy(gid->raw + 12, &((const struct sockaddr_in *)a)->sin_addr, 4);
	else
		memcpy(gid->raw, &((const struct sockaddr_in6 *)a)->sin6_addr, 16);
	*host = gid->raw[14];
	return cm_gid_is_mapped(gid) && gid->raw[12] == 172 && gid->raw[13] == 16;
}

/* True if the GID can be reached through this port. */
static bool cm_answers(const struct cm_place *by, const union ibv_gid *gid)
{
	struct ibv_ah_attr a = {.grh = {.dgid = *gid, .sgid_index = by->gid_index, .hop_limit = 64},
				.is_global = 1,
				.port_num = by->port};
	struct ibv_pd *pd = cm_default_pd(by->device);
	struct ibv_ah *ah = pd ? ibv_create_ah(pd, &a) : NULL;

	if (ah)
		ibv_destroy_ah(ah);
	return ah != NULL;
}

int cm_route_of(const struct sockaddr *a, struct cm_place *out, union ibv_gid *to, uint32_t *host)
{
	int rc = cm_place_of(a, out);

	if (!rc) {
		*to = out->gid;
		*host = cm_host_here();
		return 0;
	}
	if (rc != ENODEV || !cm_is_hca(a, to, host) || cm_place_search(NULL, out))
		return rc;
	return cm_answers(out, to) ? 0 : ENODEV;
}

struct ibv_context **rdma_get_devices(int *num_devices)
{
	struct ibv_context **list = NULL;

	if (num_devices)
		*num_devices = 0;
	pthread_mutex_lock(&cm.lock);
	int rc = cm_devices_open();

	if (!rc)
		list = calloc((size_t)cm.devices + 1, sizeof(struct ibv_context *));
	for (int i = 0; list && i < cm.devices; i++)
		list[i] = cm.device[i].verbs;
	if (list && num_devices)
		*num_devices = cm.devices;
	pthread_mutex_unlock(&cm.lock);
	if (!list)
		errno = rc ? rc : ENOMEM;
	return list;
}

void rdma_free_devices(struct ibv_context **list)
{
	free(list);
}
