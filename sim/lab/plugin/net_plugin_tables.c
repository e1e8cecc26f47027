/* SPDX-License-Identifier: BSD-3-Clause */
/* The tables of the plugin, and its devices. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

#include "sim/lab/plugin/net_plugin.h"

#ifndef PLUG_NAME
#define PLUG_NAME "plug"
#endif
#ifdef PLUG_GPU
#define plug_reg_mr     plug_gpu_reg_mr
#define plug_dereg_mr   plug_gpu_dereg_mr
#define plug_isend      plug_gpu_isend
#define plug_irecv      plug_gpu_irecv
#define plug_iflush     plug_gpu_iflush
#define plug_test       plug_gpu_test
#define PLUG_REG_DMABUF plug_gpu_reg_dmabuf
#define PLUG_POINTERS   (NET_ABI_HOST | NET_ABI_CUDA)
#else
#define PLUG_REG_DMABUF NULL
#define PLUG_POINTERS   NET_ABI_HOST
#endif

static struct {
	net_abi_log log;
	net_abi_profile profile;
	int inits, merged;
} plug;

#define PLUG_LOG(...) plug.log(3, ~0ul, "net_plugin_tables.c", __LINE__, __VA_ARGS__)

/* ---- start ---------------------------------------------------------------------------------- */

static void *plug_thread(void *arg)
{
	PLUG_LOG("plug thread");
	return arg;
}

static ncclResult_t plug_start(net_abi_log log, int version)
{
	pthread_t thread;

	plug.log = log;
	if (plug_fault("thread") && !pthread_create(&thread, NULL, plug_thread, NULL))
		pthread_join(thread, NULL);
	PLUG_LOG("plug init: version %d, call %d", version,
		 __atomic_add_fetch(&plug.inits, 1, __ATOMIC_RELAXED));
	return plug_fault("init") ? ncclSystemError : ncclSuccess;
}

#define PLUG_INIT(version)                                                                         \
	static ncclResult_t plug_init_##version(net_abi_log log)                                   \
	{                                                                                          \
		return plug_start(log, version);                                                   \
	}
PLUG_INIT(8)
PLUG_INIT(9)

static ncclResult_t plug_init_10(net_abi_log log, net_abi_profile profile)
{
	void *event = &plug;

	plug.profile = profile;
	if (profile(&event, 0, NULL, 0, NULL) || event)
		return ncclInternalError;
	return plug_start(log, 10);
}

static ncclResult_t plug_init_context(void **context, uint64_t comm_id,
				      struct net_abi_config *config, net_abi_log log,
				      net_abi_profile profile, int version)
{
	plug.profile = profile;
	if (!comm_id || config->traffic_class != NET_ABI_UNDEFINED)
		return ncclInternalError;
	if (plug_start(log, version))
		return ncclSystemError;
	*context = malloc(16);
	return ncclSuccess;
}

#define PLUG_INIT_CONTEXT(version)                                                                 \
	static ncclResult_t plug_init_##version(void **context, uint64_t comm_id,                  \
						struct net_abi_config *config, net_abi_log log,    \
						net_abi_profile profile)                           \
	{                                                                                          \
		return plug_init_context(context, comm_id, config, log, profile, version);         \
	}
PLUG_INIT_CONTEXT(11)
PLUG_INIT_CONTEXT(12)

static ncclResult_t plug_finalize(void *context)
{
#ifdef PLUG_GPU
	int flushes, regions, dmabufs;

	plug_gpu_count(&flushes, &regions, &dmabufs);
	PLUG_LOG("plug gpu: flushes %s, regions %s, dma-bufs %s", flushes ? "yes" : "no",
		 regions ? "yes" : "no", dmabufs ? "yes" : "no");
#endif
	PLUG_LOG("plug finalize");
	free(context);
	return context ? ncclSuccess : ncclInternalError;
}

static ncclResult_t plug_set_attr(void *context, struct net_abi_attr *attr)
{
	return context && attr->send.least_peers == 1 ? ncclSuccess : ncclInternalError;
}

void plug_tables_reset(void)
{
	plug.inits = plug.merged = 0;
}

/* ---- devices -------------------------------------------------------------------------------- */

static ncclResult_t plug_devices(int *count)
{
	long number = plug_fault_number("count");

	*count = number >= 0 ? (int)number : plug_number("PLUG_DEVICES", 1);
	return plug_fault("devices") ? ncclInternalError : ncclSuccess;
}

static struct net_abi_props_v12 plug_props(int dev)
{
	static char names[PLUG_MOST_DEVICES][16];
	struct net_abi_props_v12 p = {
		.name = plug_fault("noname") ? NULL : names[dev % PLUG_MOST_DEVICES],
		.pci_path = (char *)(uintptr_t)plug_pci_path(dev),
		.guid = 1 + (uint64_t)(plug_number("PLUG_SAME_CARD", 0) ? 0 : dev),
		.ptr_support = plug_number("PLUG_POINTERS", PLUG_POINTERS) |
			       (plug_number("PLUG_DMABUF", 0) ? NET_ABI_DMABUF : 0),
		.force_flush = plug_number("PLUG_FLUSH", 0),
		.speed = 100000,
		.port = 1,
		.max_comms = 1024,
		.max_recvs = plug_fault("norecvs") ? 0 : plug_number("PLUG_RECVS", 1),
		.device_type = plug_fault("offload"),
		.devices = {.count = 1, .dev = {dev}},
		.max_p2p_bytes = plug_fault("short") ? 4096 : NET_ABI_MOST_BYTES,
		.max_coll_bytes = NET_ABI_MOST_BYTES,
		.rail = NET_ABI_UNDEFINED,
		.plane = NET_ABI_UNDEFINED,
	};

	snprintf(names[dev % PLUG_MOST_DEVICES], sizeof names[0], "plug%d",
		 plug_fault("onename") ? 0 : dev);
	return p;
}

static void plug_props_copy_8(const struct net_abi_props_v12 *p, struct net_abi_props_v8 *out)
{
	*out = (struct net_abi_props_v8){
		.name = p->name,
		.pci_path = p->pci_path,
		.guid = p->guid,
		.ptr_support = p->ptr_support,
		.speed = p->speed,
		.port = p->port,
		.max_comms = p->max_comms,
		.max_recvs = p->max_recvs,
		.device_type = p->device_type,
	};
}

void plug_props_copy(int version, const struct net_abi_props_v12 *p, void *out)
{
	struct net_abi_props_v9 *v9 = out;

	if (version == 8)
		return plug_props_copy_8(p, out);
	if (version == 12) {
		*(struct net_abi_props_v12 *)out = *p;
		return;
	}
	memcpy(v9, p, offsetof(struct net_abi_props_v9, devices)); /* both begin alike */
	v9->devices = (struct net_abi_devices){.count = 1, .dev = {p->devices.dev[0]}};
	v9->max_p2p_bytes = p->max_p2p_bytes;
	v9->max_coll_bytes = p->max_coll_bytes;
	if (version == 11)
		((struct net_abi_props_v11 *)out)->max_multi_request = 1;
}

#define PLUG_PROPS(version)                                                                        \
	static ncclResult_t plug_props_##version(int dev, void *out)                               \
	{                                                                                          \
		struct net_abi_props_v12 p = plug_props(dev);                                      \
		plug_props_copy(version, &p, out);                                                 \
		return ncclSuccess;                                                                \
	}
PLUG_PROPS(8)
PLUG_PROPS(9)
PLUG_PROPS(11)
PLUG_PROPS(12)

/* A virtual device is an ordinary one with another number. */
static ncclResult_t plug_make_device(int *dev, void *devices)
{
	const struct net_abi_devices *d = devices; /* both layouts begin alike */

	if (plug_fault("merge"))
		return ncclInvalidUsage;
	PLUG_LOG("plug merges %d devices, the last is %d", d->count, d->dev[d->count - 1]);
	*dev = plug_number("PLUG_DEVICES", 1) +
	       __atomic_fetch_add(&plug.merged, 1, __ATOMIC_RELAXED);
	return ncclSuccess;
}

static ncclResult_t plug_listen_11(void *context, int dev, void *handle, void **listen_comm)
{
	return context ? plug_listen(dev, handle, listen_comm) : ncclInternalError;
}

static ncclResult_t plug_connect_10(int dev, struct net_abi_config *config, void *handle,
				    void **comm, struct net_abi_offload **offload)
{
	return config->traffic_class == NET_ABI_UNDEFINED ? plug_connect(dev, handle, comm, offload)
							  : ncclInternalError;
}

static ncclResult_t plug_connect_11(void *context, int dev, void *handle, void **comm,
				    struct net_abi_offload **offload)
{
	return context ? plug_connect(dev, handle, comm, offload) : ncclInternalError;
}

/* ---- functions whose types depend on the version -------------------------------------------- */

static ncclResult_t plug_isend_8(void *comm, void *data, int bytes, int tag, void *mr,
				 void **request)
{
	return plug_isend(comm, data, (size_t)bytes, tag, mr, request);
}

/* Makes an event of a transfer: it begins, is updated, and ends. */
static void plug_event(void *transfer)
{
	void *event = &plug;

	if (!transfer)
		return;
	plug.profile(&event, 0, transfer, 7, &plug);
	if (!event)
		return;
	plug.profile(&event, 2, NULL, 0, &plug);
	plug.profile(&event, 3, NULL, 0, &plug);
}

static ncclResult_t plug_isend_10(void *comm, void *data, size_t bytes, int tag, void *mr,
				  void *event, void **request)
{
	plug_event(event);
	return plug_isend(comm, data, bytes, tag, mr, request);
}

static ncclResult_t plug_irecv_8(void *comm, int n, void **data, int *bytes, int *tags, void **mrs,
				 void **request)
{
	size_t sizes[PLUG_MOST_RECVS];

	for (int i = 0; i < n; i++)
		sizes[i] = (size_t)bytes[i];
	return plug_irecv(comm, n, data, sizes, tags, mrs, request);
}

static ncclResult_t plug_irecv_9(void *comm, int n, void **data, size_t *bytes, int *tags,
				 void **mrs, void **request)
{
	return plug_irecv(comm, n, data, bytes, tags, mrs, request);
}

static ncclResult_t plug_irecv_10(void *comm, int n, void **data, size_t *bytes, int *tags,
				  void **mrs, void **events, void **request)
{
	for (int i = 0; i < n; i++)
		plug_event(events[i]);
	return plug_irecv(comm, n, data, bytes, tags, mrs, request);
}

/* ---- tables --------------------------------------------------------------------------------- */

#ifdef PLUG_WITHOUT_TEST
#define PLUG_TEST NULL
#else
#define PLUG_TEST plug_test
#endif

#define PLUG_COMMON                                                                                \
	.name = PLUG_NAME, .devices = plug_devices, .accept = plug_accept, .reg_mr = plug_reg_mr,  \
	.reg_dmabuf = PLUG_REG_DMABUF, .dereg_mr = plug_dereg_mr, .iflush = plug_iflush,           \
	.test = PLUG_TEST, .close_send = plug_close, .close_recv = plug_close,                     \
	.close_listen = plug_close_listen
/* after the end of the older tables: to call one would be an error */
#define PLUG_AFTER_9                                                                               \
	.finalize = (ncclResult_t(*)(void *))(uintptr_t)1,                                         \
	.set_attr = (ncclResult_t(*)(void *, struct net_abi_attr *))(uintptr_t)1
#define PLUG_FROM_11                                                                               \
	PLUG_COMMON, .listen.v11 = plug_listen_11, .connect.v11 = plug_connect_11,                 \
		     .isend.v10 = plug_isend_10, .irecv.v10 = plug_irecv_10,                       \
		     .make_device = plug_make_device, .finalize = plug_finalize,                   \
		     .set_attr = plug_set_attr
/* Each library exports some of the tables. */
#define PLUG_TABLE(version) static const struct net_abi plug_table_##version __attribute__((used))
#define PLUG_EXPORT(version)                                                                       \
	extern const struct net_abi ncclNetPlugin_v##version                                       \
		__attribute__((alias("plug_table_" #version), visibility("default")))

PLUG_TABLE(8) = {
	PLUG_COMMON,
	.init.v8 = plug_init_8,
	.props = plug_props_8,
	.listen.v8 = plug_listen,
	.connect.v8 = plug_connect,
	.isend.v8 = plug_isend_8,
	.irecv.v8 = plug_irecv_8,
	.make_device = (ncclResult_t(*)(int *, void *))(uintptr_t)1,
	PLUG_AFTER_9,
};

PLUG_TABLE(9) = {
	PLUG_COMMON,
	.init.v8 = plug_init_9,
	.props = plug_props_9,
	.listen.v8 = plug_listen,
	.connect.v8 = plug_connect,
	.isend.v9 = plug_isend,
	.irecv.v9 = plug_irecv_9,
	.make_device = plug_make_device,
	PLUG_AFTER_9,
};

PLUG_TABLE(10) = {
	PLUG_COMMON,
	.init.v10 = plug_init_10,
	.props = plug_props_9,
	.listen.v8 = plug_listen,
	.connect.v10 = plug_connect_10,
	.isend.v10 = plug_isend_10,
	.irecv.v10 = plug_irecv_10,
	.make_device = plug_make_device,
	PLUG_AFTER_9,
};

PLUG_TABLE(11) = {PLUG_FROM_11, .init.v11 = plug_init_11, .props = plug_props_11};
PLUG_TABLE(12) = {PLUG_FROM_11, .init.v11 = plug_init_12, .props = plug_props_12};

#ifdef PLUG_V8
PLUG_EXPORT(8);
#endif
#ifdef PLUG_V9
PLUG_EXPORT(9);
#endif
#ifdef PLUG_V10
PLUG_EXPORT(10);
#endif
#ifdef PLUG_V11
PLUG_EXPORT(11);
#endif
#ifdef PLUG_V12
PLUG_EXPORT(12);
#endif
