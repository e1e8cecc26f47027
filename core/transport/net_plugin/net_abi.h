/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The interface of a net plugin, versions 8 to 12, as in NCCL 2.19 to 2.32: a shared library with a
 * struct net_abi under the name ncclNetPlugin_v8 to ncclNetPlugin_v12. Layouts are those of 64-bit
 * Linux. C17. A plugin may include this header, or NCCL's own. The other files of this folder call
 * plugins.
 *
 * All versions have their members in the same order. A later version appends members, or changes
 * the type of a function. A table of an older version ends earlier (NET_ABI_BYTES_V8 and so on),
 * and the members after its end must not be read.
 *
 * Units: bytes; Mb/s for speed. Results are ncclResult_t. A plugin may return any number, so a
 * caller checks what it gets.
 */
#ifndef CORE_TRANSPORT_NET_PLUGIN_NET_ABI_H
#define CORE_TRANSPORT_NET_PLUGIN_NET_ABI_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/macros.h"
#include "core/include/nccl.h"

#define NET_ABI_SYMBOL  "ncclNetPlugin_v" /* the version follows */
#define NET_ABI_OLDEST  8
#define NET_ABI_NEWEST  12
#define NET_ABI_MERGED  4 /* most devices of a virtual device up to version 11 */
#define NET_ABI_MERGED8 8 /* in version 12 */

#define NET_ABI_HANDLE_BYTES 128
#define NET_ABI_REQUESTS     32 /* most requests of a connection in flight */
/* Longest message up to version 8, whose sizes are an int. */
#define NET_ABI_V8_BYTES      ((size_t)1 << 30)
#define NET_ABI_V8_COLL_BYTES ((size_t)1 << 29) /* the same for a reduction */
/* Largest maxP2pBytes and maxCollBytes that NCCL accepts. */
#define NET_ABI_MOST_BYTES ((size_t)1 << 40)
#define NET_ABI_UNDEFINED  (-1)

/* Kinds of memory: bits of ptr_support, and the `type` of a registration. */
enum net_abi_pointer { NET_ABI_HOST = 1, NET_ABI_CUDA = 2, NET_ABI_DMABUF = 4 };

/* device_type of a network whose transfers the host starts; any other needs kernels of its own. */
enum { NET_ABI_BY_HOST = 0 };

/* `level` is as in NCCL_DEBUG: 1 VERSION, 2 WARN, 3 INFO, 4 ABORT, 5 TRACE. */
typedef void (*net_abi_log)(int level, unsigned long flags, const char *file, int line,
			    const char *format, ...);

/* From version 10. A plugin reports its own events to a profiler: `type` 0 begins an event whose
 * handle is stored in *event, 1 ends it, 2 changes it, 3 changes and ends it. */
typedef ncclResult_t (*net_abi_profile)(void **event, int type, void *parent, int64_t plugin_id,
					void *data);

/* From version 10. */
struct net_abi_config {
	int traffic_class; /* NET_ABI_UNDEFINED: the plugin's default */
};
DOPPEL_CHECK_SIZE(struct net_abi_config, 4);

/* Devices that a virtual device consists of. In versions 9 to 11 only four have room. */
struct net_abi_devices {
	int count;
	int dev[NET_ABI_MERGED];
};
DOPPEL_CHECK_SIZE(struct net_abi_devices, 20);

struct net_abi_devices_v12 {
	int count;
	int dev[NET_ABI_MERGED8];
};
DOPPEL_CHECK_SIZE(struct net_abi_devices_v12, 36);

/* ---- properties of a device ------------------------------------------------------------------ */

struct net_abi_props_v8 {
	char *name;
	char *pci_path; /* in /sys; NULL: not a PCI device */
	uint64_t guid;  /* the same for all functions of one card */
	int ptr_support;
	int reg_is_global; /* a registration serves all connections */
	int speed;
	int port;
	float latency_us;
	int max_comms; /* most connections of a device */
	int max_recvs; /* most buffers of a receive */
	int device_type, device_version;
};
DOPPEL_CHECK_SIZE(struct net_abi_props_v8, 64);
DOPPEL_CHECK_OFFSET(struct net_abi_props_v8, max_recvs, 48);

/* Versions 9 and 10. */
struct net_abi_props_v9 {
	char *name;
	char *pci_path;
	uint64_t guid;
	int ptr_support;
	int reg_is_global;
	int force_flush; /* 1: each receive into GPU memory needs a flush */
	int speed;
	int port;
	float latency_us;
	int max_comms;
	int max_recvs;
	int device_type, device_version;
	struct net_abi_devices devices;
	size_t max_p2p_bytes,
		max_coll_bytes; /* longest message; the second of collective networks */
};
DOPPEL_CHECK_SIZE(struct net_abi_props_v9, 104);
DOPPEL_CHECK_OFFSET(struct net_abi_props_v9, devices, 64);
DOPPEL_CHECK_OFFSET(struct net_abi_props_v9, max_p2p_bytes, 88);

struct net_abi_props_v11 {
	struct net_abi_props_v9 v9;
	int max_multi_request;
};
DOPPEL_CHECK_SIZE(struct net_abi_props_v11, 112);

struct net_abi_props_v12 {
	char *name;
	char *pci_path;
	uint64_t guid;
	int ptr_support;
	int reg_is_global;
	int force_flush;
	int speed;
	int port;
	float latency_us;
	int max_comms;
	int max_recvs;
	int device_type, device_version;
	struct net_abi_devices_v12 devices;
	size_t max_p2p_bytes, max_coll_bytes;
	int max_multi_request;
	int16_t rail, plane; /* NET_ABI_UNDEFINED: unknown */
};
DOPPEL_CHECK_SIZE(struct net_abi_props_v12, 128);
DOPPEL_CHECK_OFFSET(struct net_abi_props_v12, devices, 64);
DOPPEL_CHECK_OFFSET(struct net_abi_props_v12, max_p2p_bytes, 104);

/* ---- hints ----------------------------------------------------------------------------------- */

/* From version 11. Each value may be NET_ABI_UNDEFINED. A flow is a connection to a peer. */
struct net_abi_flows {
	int32_t most_peers, least_peers; /* with which the rank communicates at the same time */
	int32_t most_flows, least_flows; /* per peer */
};
struct net_abi_attr {
	struct net_abi_flows send, recv;
	uint32_t op, algo, proto; /* a bit for each that may be used; all bits: undefined */
};
DOPPEL_CHECK_SIZE(struct net_abi_attr, 44);

/* ---- the table ------------------------------------------------------------------------------- */

/* A device handle of a network whose kernels start transfers. The stack requests none. */
struct net_abi_offload;

/*
 * connect and accept do not wait: with ncclSuccess and NULL in *comm they are called again. The
 * handle of a connect has the same address in each of these calls, and the plugin may write to it.
 * isend and irecv with ncclSuccess and NULL in *request are called again, too. iflush with NULL
 * needs no flush. `test` frees a request that it reports as done, and sets sizes[] of a receive.
 */
struct net_abi {
	const char *name;
	union {
		ncclResult_t (*v8)(net_abi_log log); /* also version 9 */
		ncclResult_t (*v10)(net_abi_log log, net_abi_profile profile);
		ncclResult_t (*v11)(void **context, uint64_t comm_id, struct net_abi_config *config,
				    net_abi_log log, net_abi_profile profile);
	} init;
	ncclResult_t (*devices)(int *count);
	ncclResult_t (*props)(int dev, void *props); /* the struct of the version */
	union {
		ncclResult_t (*v8)(int dev, void *handle, void **listen);
		ncclResult_t (*v11)(void *context, int dev, void *handle, void **listen);
	} listen;
	union {
		ncclResult_t (*v8)(int dev, void *handle, void **comm,
				   struct net_abi_offload **offload);
		ncclResult_t (*v10)(int dev, struct net_abi_config *config, void *handle,
				    void **comm, struct net_abi_offload **offload);
		ncclResult_t (*v11)(void *context, int dev, void *handle, void **comm,
				    struct net_abi_offload **offload);
	} connect;
	ncclResult_t (*accept)(void *listen, void **comm, struct net_abi_offload **offload);
	ncclResult_t (*reg_mr)(void *comm, void *data, size_t bytes, int type, void **mr);
	ncclResult_t (*reg_dmabuf)(void *comm, void *data, size_t bytes, int type, uint64_t offset,
				   int fd, void **mr); /* NULL: none */
	ncclResult_t (*dereg_mr)(void *comm, void *mr);
	union {
		ncclResult_t (*v8)(void *comm, void *data, int bytes, int tag, void *mr,
				   void **request);
		ncclResult_t (*v9)(void *comm, void *data, size_t bytes, int tag, void *mr,
				   void **request);
		ncclResult_t (*v10)(void *comm, void *data, size_t bytes, int tag, void *mr,
				    void *event, void **request);
	} isend;
	union {
		ncclResult_t (*v8)(void *comm, int n, void **data, int *bytes, int *tags,
				   void **mrs, void **request);
		ncclResult_t (*v9)(void *comm, int n, void **data, size_t *bytes, int *tags,
				   void **mrs, void **request);
		ncclResult_t (*v10)(void *comm, int n, void **data, size_t *bytes, int *tags,
				    void **mrs, void **events, void **request);
	} irecv;
	ncclResult_t (*iflush)(void *comm, int n, void **data, int *bytes, void **mrs,
			       void **request);
	ncclResult_t (*test)(void *request, int *done, int *sizes);
	ncclResult_t (*close_send)(void *comm);
	ncclResult_t (*close_recv)(void *comm);
	ncclResult_t (*close_listen)(void *listen);
	/* These two serve kernels that start transfers; the stack never calls them. */
	ncclResult_t (*device_mr)(void *comm, void *mr, void **device_mr);
	ncclResult_t (*consumed)(void *comm, int n, void *request);
	/* From version 9; NULL: devices cannot be merged. `devices` is net_abi_devices_v12 from
	 * version 12 on. */
	ncclResult_t (*make_device)(int *dev, void *devices);
	/* From version 11. */
	ncclResult_t (*finalize)(void *context);
	ncclResult_t (*set_attr)(void *context, struct net_abi_attr *attr); /* NULL: none */
};
DOPPEL_CHECK_SIZE(struct net_abi, 176);
#define NET_ABI_BYTES_V8  offsetof(struct net_abi, make_device)
#define NET_ABI_BYTES_V9  offsetof(struct net_abi, finalize) /* also version 10 */
#define NET_ABI_BYTES_V11 sizeof(struct net_abi)             /* also version 12 */
DOPPEL_CHECK_OFFSET(struct net_abi, accept, 48);
DOPPEL_CHECK_OFFSET(struct net_abi, test, 104);
DOPPEL_CHECK_OFFSET(struct net_abi, make_device, 152);
DOPPEL_CHECK_OFFSET(struct net_abi, finalize, 160);

#endif
