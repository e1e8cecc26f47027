/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * HCAs: the ports of the host, the ports that the user wants (NCCL_IB_HCA), and their properties.
 */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/transport/net_verbs/net_verbs_internal.h"

/* ---- NCCL_IB_HCA ----------------------------------------------------------------------------- */

/* True if "mlx5_0" or "mlx5_0:1" (`item`, of `n` characters) names this port. */
static bool net_verbs_filter_item(const char *item, size_t n, bool exact, const char *name,
				  int port)
{
	const char *colon = memchr(item, ':', n);
	size_t len = colon ? (size_t)(colon - item) : n;

	if (colon && atoi(colon + 1) != port)
		return false;
	return exact ? strlen(name) == len && !memcmp(name, item, len) : !strncmp(name, item, len);
}

/* True if the filter, [^][=]name[:port][,name[:port]...], allows the port. */
static bool net_verbs_wanted(const char *filter, const char *name, int port)
{
	bool negate = false, exact = false, found = false, any = false;

	if (!filter || !*filter)
		return true;
	if (*filter == '^')
		negate = true, filter++;
	if (*filter == '=')
		exact = true, filter++;
	while (*filter) {
		size_t n = strcspn(filter, ",");

		any |= n && *filter != ':';
		if (n && *filter != ':' && net_verbs_filter_item(filter, n, exact, name, port))
			found = true;
		filter += n + (filter[n] == ',');
	}
	return (found || !any) != negate; /* as in NCCL: a list without names allows all */
}

/* ---- devices --------------------------------------------------------------------------------- */

/* The vendor id that soft-RoCE reports. */
#define NET_VERBS_VENDOR_RXE 0xffffffu

/* In the specification 7 means seven retries. Soft-RoCE retries without end, so no rank would learn
 * that a peer is dead. */
static uint8_t net_verbs_retries(const struct ibv_device_attr *attr, const char *name)
{
	int64_t retries = param_i64(PARAM_IB_RETRY_CNT);

	if (attr->vendor_id != NET_VERBS_VENDOR_RXE || retries != 7)
		return (uint8_t)retries;
	if (!param_is_set(PARAM_IB_RETRY_CNT))
		return 6;
	INFO(LOG_NET, "NET/IB: %s retries without end with NCCL_IB_RETRY_CNT=7", name);
	return 7;
}

/* Adds an entry for each active and wanted port. *kept: the device has an entry, so its context
 * stays open. */
static void net_verbs_add_ports(struct net_state *st, struct ibv_context *ctx, const char *name,
				const struct ibv_device_attr *attr, bool *kept)
{
	for (uint8_t port = 1; port <= attr->phys_port_cnt; port++) {
		struct net_verbs_dev *d = &st->dev[st->ndevs];

		if (!net_verbs_wanted(param_str(PARAM_IB_HCA), name, port))
			continue;
		st->wanted = true;
		if (st->ndevs == NET_VERBS_MAX_DEVICES) {
			INFO(LOG_NET,
			     "NET/IB: more than %d ports; %s port %u and later are not used",
			     NET_VERBS_MAX_DEVICES, name, port);
			return;
		}
		memset(d, 0, sizeof *d);
		if (ibv_query_port(ctx, port, &d->attr)) {
			WARN("NET/IB: ibv_query_port of %s port %u failed", name, port);
			continue;
		}
		if (d->attr.state != IBV_PORT_ACTIVE) {
			INFO(LOG_NET, "NET/IB: %s port %u is not active", name, port);
			continue;
		}
		text_set(d->name, sizeof d->name, name);
		d->ctx = ctx;
		d->state = st;
		d->port = port;
		d->guid = be64toh(attr->sys_image_guid);
		d->retries = net_verbs_retries(attr, name);
		st->ndevs++;
		*kept = true;
	}
}

/* A device that cannot be opened or queried is not used, as with NCCL. */
static void net_verbs_add_device(struct net_state *st, struct ibv_device *device)
{
	const char *name = ibv_get_device_name(device);
	struct ibv_device_attr attr;
	struct ibv_context *ctx;
	bool kept = false;
	int rc;

	ctx = ibv_open_device(device);
	if (!ctx) {
		WARN("NET/IB: cannot open device %s; it is not used", name);
		return;
	}
	rc = ibv_query_device(ctx, &attr);
	if (rc)
		WARN("NET/IB: ibv_query_device of %s failed: %s; it is not used", name,
		     strerror(rc));
	else
		net_verbs_add_ports(st, ctx, name, &attr, &kept);
	if (!kept)
		ibv_close_device(ctx);
}

/* A filter that matches no port is usually a mistake, and not a choice of sockets. */
static void net_verbs_warn_unwanted(const struct net_state *st, int found)
{
	char names[256] = "";
	size_t n = 0;

	if (!found || st->wanted || !param_warns(PARAM_IB_HCA))
		return;
	for (int i = 0; i < found && n < sizeof names; i++)
		n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "",
				      ibv_get_device_name(st->list[i]));
	WARN("NET/IB: NCCL_IB_HCA=%s matches no port of the %d HCAs of this host: %s",
	     param_str(PARAM_IB_HCA), found, names);
}

/* NCCL's text, which programs look for: "NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/IB". */
static void net_verbs_log_devices(const struct net_state *st, int found)
{
	char text[NET_VERBS_MAX_DEVICES * 48] = "";
	size_t n = 0;

	if (!st->ndevs) {
		INFO(LOG_INIT | LOG_NET, "NET/IB : No device found: rank %d, %d HCAs on this host",
		     st->comm->rank, found);
		return;
	}
	for (int i = 0; i < st->ndevs; i++) {
		const struct net_verbs_dev *d = &st->dev[i];
		const bool eth = d->attr.link_layer == IBV_LINK_LAYER_ETHERNET;

		n += (size_t)snprintf(text + n, sizeof text - n, " [%d]%s:%u/%s", i, d->name,
				      d->port, eth ? "RoCE" : "IB");
		ASSERT(n < sizeof text);
	}
	INFO(LOG_INIT | LOG_NET, "NET/IB : Using%s", text);
}

ncclResult_t net_verbs_devices(struct ncclComm *comm, int *count)
{
	struct net_state *st;
	ncclResult_t rc = ncclSuccess;
	int found = 0;

	if (comm->net.state) {
		*count = net_verbs_state(comm)->ndevs;
		return ncclSuccess;
	}
	st = os_alloc(sizeof *st, "net_verbs state");
	if (!st) {
		WARN("NET/IB: no memory for the device list");
		return ncclSystemError;
	}
	st->comm = comm;
	comm->net.state = st;
	if (!param_bool(PARAM_IB_DISABLE)) {
		st->list = ibv_get_device_list(&found);
		if (!st->list && errno == ENOSYS) {
			INFO(LOG_NET, "NET/IB: this kernel has no support for HCAs");
		} else if (!st->list) {
			WARN("NET/IB: ibv_get_device_list failed: %s", strerror(errno));
			rc = ncclSystemError;
		}
	}
	for (int i = 0; st->list && i < found; i++)
		net_verbs_add_device(st, st->list[i]);
	if (rc) {
		net_verbs_fini(comm);
		return rc;
	}
	net_verbs_warn_unwanted(st, found);
	net_verbs_log_devices(st, found);
	*count = st->ndevs;
	return ncclSuccess;
}

void net_verbs_fini(struct ncclComm *comm)
{
	struct net_state *st = net_verbs_state(comm);

	if (!st)
		return;
	for (int i = st->ndevs - 1; i >= 0; i--) {
		struct net_verbs_dev *d = &st->dev[i];

		ASSERT(!d->pd_refs);
		if (!i || st->dev[i - 1].ctx != d->ctx)
			net_verbs_close_context(d);
	}
	if (st->list)
		ibv_free_device_list(st->list);
	os_free(st);
	comm->net.state = NULL;
}

/* Returns megabits per second: speed of a lane times lanes. The codes are those of verbs (IBTA
 * PortInfo). */
static uint32_t net_verbs_speed_mbps(const struct ibv_port_attr *a)
{
	static const struct {
		uint8_t speed;
		uint32_t mbps;
	} lanes[] = {{1, 2500},   {2, 5000},   {4, 10000},  {8, 10000},
		     {16, 14000}, {32, 25000}, {64, 50000}, {128, 100000}};
	uint32_t lane = 10000, width = a->active_width == 2    ? 4
				       : a->active_width == 4  ? 8
				       : a->active_width == 8  ? 12
				       : a->active_width == 16 ? 2
							       : 1;

	for (size_t i = 0; i < ARRAY_LEN(lanes); i++)
		if (lanes[i].speed == a->active_speed)
			lane = lanes[i].mbps;
	return lane * width;
}

ncclResult_t net_verbs_props(struct ncclComm *comm, int dev, struct net_props *p)
{
	const struct net_verbs_dev *d = net_verbs_dev(comm, dev);

	memset(p, 0, sizeof *p);
	text_set(p->name, sizeof p->name, d->name);
	p->guid = d->guid;
	p->port = d->port;
	p->speed_mbps = net_verbs_speed_mbps(&d->attr);
	p->link = d->attr.link_layer;
	p->tags = true;
	p->gpu_memory = true; /* registration decides for each memory */
	return ncclSuccess;
}

size_t net_verbs_message_max(const struct net_verbs_dev *d)
{
	return d->attr.max_msg_sz ? d->attr.max_msg_sz : UINT32_MAX;
}

/* ---- protection domain ----------------------------------------------------------------------- */

ncclResult_t net_verbs_pd_get(struct net_verbs_dev *d)
{
	if (!d->pd_refs) {
		d->pd = ibv_alloc_pd(d->ctx);
		if (!d->pd) {
			WARN("NET/IB: ibv_alloc_pd on device %s failed", d->name);
			return ncclSystemError;
		}
	}
	d->pd_refs++;
	return ncclSuccess;
}

void net_verbs_pd_put(struct net_verbs_dev *d)
{
	ASSERT(d->pd_refs > 0);
	if (--d->pd_refs)
		return;
	if (ibv_dealloc_pd(d->pd))
		WARN("NET/IB: ibv_dealloc_pd on device %s failed: an object of it is in use",
		     d->name);
	d->pd = NULL;
}
