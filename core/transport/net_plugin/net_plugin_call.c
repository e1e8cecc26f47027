/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls of a plugin's functions whose types, or whose structs, differ between versions.
 */
#include "core/profiler/profiler.h"
#include "core/transport/net_plugin/net_plugin_internal.h"

#define NET_PLUGIN_SPEED 10000 /* Mb/s of a device that reports none, as in NCCL */

/* ---- start ---------------------------------------------------------------------------------- */

ncclResult_t net_plugin_call_init(const struct net_plugin *p, uint64_t comm_id, void **context)
{
	struct net_abi_config config = {.traffic_class = NET_ABI_UNDEFINED};

	*context = NULL;
	if (p->version >= 11)
		return p->abi->init.v11(context, comm_id, &config, plugin_log, profiler_net);
	if (p->version == 10)
		return p->abi->init.v10(plugin_log, profiler_net);
	return p->abi->init.v8(plugin_log);
}

/* ---- devices -------------------------------------------------------------------------------- */

/* The struct that the version fills in. */
union net_plugin_raw {
	struct net_abi_props_v8 v8;
	struct net_abi_props_v9 v9; /* also 10, and the first part of 11 */
	struct net_abi_props_v11 v11;
	struct net_abi_props_v12 v12;
};

/* Converts a struct of version 8 or 12 to one of version 9. */
static void net_plugin_raw_convert(int version, const union net_plugin_raw *raw,
				   struct net_abi_props_v9 *out)
{
	const struct net_abi_props_v12 *n = &raw->v12;
	const struct net_abi_props_v8 *o = &raw->v8;

	if (version == 8)
		*out = (struct net_abi_props_v9){
			.name = o->name,
			.pci_path = o->pci_path,
			.guid = o->guid,
			.ptr_support = o->ptr_support,
			.speed = o->speed,
			.port = o->port,
			.max_comms = o->max_comms,
			.max_recvs = o->max_recvs,
			.device_type = o->device_type,
			.max_p2p_bytes = NET_ABI_V8_BYTES,
			.max_coll_bytes = NET_ABI_V8_COLL_BYTES,
		};
	else if (version < 12)
		*out = raw->v9;
	else
		*out = (struct net_abi_props_v9){
			.name = n->name,
			.pci_path = n->pci_path,
			.guid = n->guid,
			.ptr_support = n->ptr_support,
			.force_flush = n->force_flush,
			.speed = n->speed,
			.port = n->port,
			.max_comms = n->max_comms,
			.max_recvs = n->max_recvs,
			.device_type = n->device_type,
			.max_p2p_bytes = n->max_p2p_bytes,
			.max_coll_bytes = n->max_coll_bytes,
		};
}

/* Returns what is not possible in the properties; NULL: nothing. */
static const char *net_plugin_props_wrong(const struct net_abi_props_v9 *v, bool reduces)
{
	if (!v->name || !v->name[0])
		return "no name";
	if (v->device_type != NET_ABI_BY_HOST)
		return "transfers that kernels start, which is not built";
	if (!(v->ptr_support & NET_ABI_HOST))
		return "no support of host memory";
	if (reduces)
		return v->max_coll_bytes && v->max_coll_bytes <= NET_ABI_MOST_BYTES
			       ? NULL
			       : "maxCollBytes is not 1 to 2^40";
	if (v->max_recvs < 1)
		return "maxRecvs is less than 1";
	if (!v->max_p2p_bytes || v->max_p2p_bytes > NET_ABI_MOST_BYTES)
		return "maxP2pBytes is not 1 to 2^40";
	return NULL;
}

/* The path ends in the bus id of the PCI function: 0000:05:00.0. */
static void net_plugin_bus_id(const char *path, char bus_id[24])
{
	const char *last = path ? strrchr(path, '/') : NULL;
	size_t n;

	memset(bus_id, 0, 24);
	last = last ? last + 1 : path;
	n = last ? strlen(last) : 0;
	if (n < 12 || n >= 24 || !strchr(last, ':') || !strchr(last, '.'))
		return;
	for (size_t i = 0; i < n; i++)
		bus_id[i] =
			last[i] >= 'A' && last[i] <= 'F' ? (char)(last[i] + 'a' - 'A') : last[i];
}

ncclResult_t net_plugin_read_props(int version, ncclResult_t (*props)(int dev, void *props),
				   bool reduces, int dev, struct net_plugin_props *out,
				   struct net_plugin_why *why)
{
	union net_plugin_raw raw;
	struct net_abi_props_v9 v;
	const char *wrong;
	ncclResult_t rc;

	memset(&raw, 0, sizeof raw);
	rc = props(dev, &raw);
	if (rc)
		return net_plugin_because(why, ncclSystemError,
					  "getProperties fails for device %d with %s", dev,
					  plugin_result(rc));
	net_plugin_raw_convert(version, &raw, &v);
	wrong = net_plugin_props_wrong(&v, reduces);
	if (wrong)
		return net_plugin_because(why, ncclSystemError,
					  "invalid properties of device %d: %s", dev, wrong);
	*out = (struct net_plugin_props){
		.guid = v.guid,
		.ptr_support = v.ptr_support,
		.force_flush = v.force_flush == 1,
		.speed_mbps = (uint32_t)(v.speed > 0 ? v.speed : NET_PLUGIN_SPEED),
		.port = (uint32_t)v.port,
		.max_comms = v.max_comms,
		.max_recvs = v.max_recvs,
		.max_bytes = reduces ? v.max_coll_bytes : v.max_p2p_bytes,
	};
	snprintf(out->name, sizeof out->name, "%s", v.name);
	net_plugin_bus_id(v.pci_path, out->bus_id);
	return ncclSuccess;
}

ncclResult_t net_plugin_call_make(const struct net_plugin *p, const struct net_nic *nic, int *dev,
				  struct net_plugin_why *why)
{
	struct net_abi_devices_v12 many = {.count = nic->count};
	struct net_abi_devices few = {.count = nic->count};
	ncclResult_t rc;

	*dev = -1;
	for (int i = 0; i < nic->count; i++)
		many.dev[i] = few.dev[i] = nic->dev[i];
	rc = p->abi->make_device(dev, p->version >= 12 ? (void *)&many : (void *)&few);
	if (!rc && *dev >= 0)
		return ncclSuccess;
	return net_plugin_because(why, ncclSystemError, "makeVDevice returns %s and device %d",
				  plugin_result(rc), *dev);
}

/* ---- connections ---------------------------------------------------------------------------- */

/* Gives the plugin what is known about the flows of the communicator, before each connection. */
static void net_plugin_attr(const struct net_plugin_comm *pc)
{
	const struct net_abi_flows flows = {.most_peers = NET_ABI_UNDEFINED,
					    .least_peers = 1,
					    .most_flows = NET_ABI_UNDEFINED,
					    .least_flows = 1};
	struct net_abi_attr attr = {
		.send = flows, .recv = flows, .op = ~0u, .algo = ~0u, .proto = ~0u};

	if (pc->plugin->version >= 11 && pc->plugin->abi->set_attr)
		(void)pc->plugin->abi->set_attr(pc->context, &attr); /* a hint: it may be refused */
}

ncclResult_t net_plugin_call_listen(const struct net_plugin_comm *pc, int dev, void *handle,
				    void **listen)
{
	const struct net_abi *a = pc->plugin->abi;

	*listen = NULL;
	net_plugin_attr(pc);
	if (pc->plugin->version >= 11)
		return a->listen.v11(pc->context, dev, handle, listen);
	return a->listen.v8(dev, handle, listen);
}

ncclResult_t net_plugin_call_connect(const struct net_plugin_comm *pc, int dev, void *handle,
				     void **comm)
{
	struct net_abi_config config = {.traffic_class = NET_ABI_UNDEFINED};
	struct net_abi_offload *offload = NULL; /* none is requested */
	const struct net_abi *a = pc->plugin->abi;

	*comm = NULL;
	net_plugin_attr(pc);
	if (pc->plugin->version >= 11)
		return a->connect.v11(pc->context, dev, handle, comm, &offload);
	if (pc->plugin->version == 10)
		return a->connect.v10(dev, &config, handle, comm, &offload);
	return a->connect.v8(dev, handle, comm, &offload);
}

/* ---- transfers ------------------------------------------------------------------------------ */

ncclResult_t net_plugin_call_isend(const struct net_plugin *p, void *comm,
				   const struct net_buffer *b, void *mr, void **request)
{
	const int tag = (int)b->tag;

	*request = NULL;
	if (p->version >= 10)
		return p->abi->isend.v10(comm, b->data, b->bytes, tag, mr, b->step, request);
	if (p->version == 9)
		return p->abi->isend.v9(comm, b->data, b->bytes, tag, mr, request);
	return p->abi->isend.v8(comm, b->data, (int)b->bytes, tag, mr, request);
}

ncclResult_t net_plugin_call_irecv(const struct net_plugin *p, void *comm,
				   const struct net_buffer *b, void *const *mr, int n,
				   void **request)
{
	void *data[NET_MAX_RECVS], *mrs[NET_MAX_RECVS], *steps[NET_MAX_RECVS];
	int tag[NET_MAX_RECVS], sizes[NET_MAX_RECVS];
	size_t bytes[NET_MAX_RECVS];

	*request = NULL;
	for (int i = 0; i < n; i++) {
		data[i] = b[i].data;
		mrs[i] = mr[i];
		tag[i] = (int)b[i].tag;
		steps[i] = b[i].step;
		bytes[i] = b[i].bytes;
		sizes[i] = (int)b[i].bytes;
	}
	if (p->version >= 10)
		return p->abi->irecv.v10(comm, n, data, bytes, tag, mrs, steps, request);
	if (p->version == 9)
		return p->abi->irecv.v9(comm, n, data, bytes, tag, mrs, request);
	return p->abi->irecv.v8(comm, n, data, sizes, tag, mrs, request);
}
