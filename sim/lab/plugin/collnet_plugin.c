/* SPDX-License-Identifier: BSD-3-Clause */
/* The tables of the collective network, and its devices, which are those of the net plugin. */
#include <stdint.h>
#include <stdio.h>

#include "sim/lab/plugin/collnet_plugin.h"

#ifdef PLUG_GPU
#define COLL_POINTERS (NET_ABI_HOST | NET_ABI_CUDA)
#else
#define COLL_POINTERS NET_ABI_HOST
#endif

static struct {
	net_abi_log log;
} coll;

#define COLL_LOG(...) coll.log(3, ~0ul, "collnet_plugin.c", __LINE__, __VA_ARGS__)

/* ---- start ---------------------------------------------------------------------------------- */

static ncclResult_t coll_start(net_abi_log log, int version)
{
	coll.log = log;
	COLL_LOG("collnet plug init: version %d", version);
	return coll_fault("init", -1) ? ncclSystemError : ncclSuccess;
}

#define COLL_INIT(version)                                                                         \
	static ncclResult_t coll_init_##version(net_abi_log log)                                   \
	{                                                                                          \
		return coll_start(log, version);                                                   \
	}
COLL_INIT(8)
COLL_INIT(9)
COLL_INIT(10)

#define COLL_INIT_CONTEXT(version)                                                                 \
	static ncclResult_t coll_init_##version(void **context, uint64_t comm_id, net_abi_log log) \
	{                                                                                          \
		ncclResult_t rc = comm_id ? coll_start(log, version) : ncclInternalError;          \
		*context = rc ? NULL : malloc(16);                                                 \
		return rc;                                                                         \
	}
COLL_INIT_CONTEXT(11)
COLL_INIT_CONTEXT(12)

static ncclResult_t coll_finalize(void *context)
{
	COLL_LOG("collnet plug finalize, flushes %s", coll_flushes() ? "yes" : "no");
	free(context);
	return context && !coll_fault("finalize", -1) ? ncclSuccess : ncclInternalError;
}

/* ---- devices -------------------------------------------------------------------------------- */

static ncclResult_t coll_devices(int *count)
{
	long number = coll_fault_number("count");

	*count = number >= 0 ? (int)number : plug_number("PLUG_DEVICES", 1);
	return coll_fault("devices", -1) ? ncclInternalError : ncclSuccess;
}

static struct net_abi_props_v12 coll_props(int dev)
{
	static char names[PLUG_MOST_DEVICES][16];
	struct net_abi_props_v12 p = {
		.name = names[dev % PLUG_MOST_DEVICES],
		.pci_path = (char *)(uintptr_t)plug_pci_path(dev),
		.guid = 1 + (uint64_t)dev,
		.ptr_support = plug_number("PLUG_POINTERS", COLL_POINTERS),
		.force_flush = plug_number("PLUG_FLUSH", 0),
		.speed = 100000,
		.port = 1,
		.max_comms = 1024,
		.devices = {.count = 1, .dev = {dev}},
		.max_coll_bytes = coll_fault("short", -1) ? 4096 : NET_ABI_MOST_BYTES,
		.rail = NET_ABI_UNDEFINED,
		.plane = NET_ABI_UNDEFINED,
	};

	snprintf(names[dev % PLUG_MOST_DEVICES], sizeof names[0], "%s%d",
		 plug_setting("COLL_DEVICE") ? plug_setting("COLL_DEVICE") : "plug", dev);
	return p;
}

#define COLL_PROPS(version)                                                                        \
	static ncclResult_t coll_props_##version(int dev, void *out)                               \
	{                                                                                          \
		struct net_abi_props_v12 p = coll_props(dev);                                      \
		plug_props_copy(version, &p, out);                                                 \
		return coll_fault("props", -1) ? ncclSystemError : ncclSuccess;                    \
	}
COLL_PROPS(8)
COLL_PROPS(9)
COLL_PROPS(12)

/* ---- functions whose types depend on the version -------------------------------------------- */

static ncclResult_t coll_listen_11(void *context, int dev, void *handle, void **listen_comm)
{
	return context ? coll_listen(dev, handle, listen_comm) : ncclInternalError;
}

static ncclResult_t coll_iallreduce_8(void *comm, void *send, void *recv, int count,
				      ncclDataType_t type, ncclRedOp_t op, void *send_mr,
				      void *recv_mr, void **request)
{
	return coll_iallreduce(comm, send, recv, (size_t)count, type, op, send_mr, recv_mr,
			       request);
}

/* ---- tables --------------------------------------------------------------------------------- */

#ifdef COLL_WITHOUT_TEST
#define COLL_TEST NULL
#else
#define COLL_TEST coll_test
#endif

#define COLL_COMMON                                                                                \
	.name = "collplug", .devices = coll_devices, .connect = coll_connect,                      \
	.reduce_support = coll_reduce_support, .reg_mr = coll_reg_mr, .dereg_mr = coll_dereg_mr,   \
	.iflush = coll_iflush, .test = COLL_TEST, .close_coll = coll_close,                        \
	.close_listen = coll_close_listen
/* after the end of the older tables: to call one would be an error */
#define COLL_AFTER_9 .finalize = (ncclResult_t(*)(void *))(uintptr_t)1
#define COLL_FROM_11                                                                               \
	COLL_COMMON, .listen.v11 = coll_listen_11, .iallreduce.v9 = coll_iallreduce,               \
		     .finalize = coll_finalize
/* Each library exports some of the tables. */
#define COLL_TABLE(version)                                                                        \
	static const struct collnet_abi coll_table_##version __attribute__((used))
#define COLL_EXPORT(version)                                                                       \
	extern const struct collnet_abi ncclCollNetPlugin_v##version                               \
		__attribute__((alias("coll_table_" #version), visibility("default")))

COLL_TABLE(8) = {COLL_COMMON,
		 .init.v8 = coll_init_8,
		 .props = coll_props_8,
		 .listen.v8 = coll_listen,
		 .iallreduce.v8 = coll_iallreduce_8,
		 .make_device = (ncclResult_t(*)(int *, void *))(uintptr_t)1,
		 COLL_AFTER_9};
COLL_TABLE(9) = {COLL_COMMON,
		 .init.v8 = coll_init_9,
		 .props = coll_props_9,
		 .listen.v8 = coll_listen,
		 .iallreduce.v9 = coll_iallreduce,
		 COLL_AFTER_9};
COLL_TABLE(10) = {COLL_COMMON,
		  .init.v8 = coll_init_10,
		  .props = coll_props_9,
		  .listen.v8 = coll_listen,
		  .iallreduce.v9 = coll_iallreduce,
		  COLL_AFTER_9};
COLL_TABLE(11) = {COLL_FROM_11, .init.v11 = coll_init_11, .props = coll_props_9};
COLL_TABLE(12) = {COLL_FROM_11, .init.v11 = coll_init_12, .props = coll_props_12};

#ifdef PLUG_V8
COLL_EXPORT(8);
#endif
#ifdef PLUG_V9
COLL_EXPORT(9);
#endif
#ifdef PLUG_V10
COLL_EXPORT(10);
#endif
#ifdef PLUG_V11
COLL_EXPORT(11);
#endif
#ifdef PLUG_V12
COLL_EXPORT(12);
#endif
