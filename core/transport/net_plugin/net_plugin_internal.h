/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * net_plugin: networks in NCCL's net plugins (net_abi.h). This header is shared by its files.
 *
 * NCCL_NET_PLUGIN is a list; the first plugin with a device is used:
 *
 *	none        no plugin
 *	a/b.so      that file
 *	libx.so     that file, in the search path of the loader
 *	NAME        the file NAME if the loader finds it, else libnccl-net-NAME.so
 *	(unset)     libnccl-net.so; if it cannot be used, there is no plugin, which is not an error
 *
 * A process loads a file once (struct net_plugin, in the process' registry) and counts the
 * communicators that use it. Up to version 10 a plugin is initialised once for each process, from
 * version 11 on for each communicator. The newest version that the file has is used.
 *
 * Waits and errors of a connection are those of plugin_end.h. A plugin that cannot be loaded, lacks
 * a function or returns what is not possible is an error of the init: ncclSystemError or
 * ncclInvalidUsage.
 *
 * Plugins cannot end a request, so memory that a plugin still uses after an abort is freed when its
 * connection is closed, as in NCCL.
 */
#ifndef CORE_TRANSPORT_NET_PLUGIN_NET_PLUGIN_INTERNAL_H
#define CORE_TRANSPORT_NET_PLUGIN_NET_PLUGIN_INTERNAL_H

#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/param.h"
#include "core/plugin/plugin.h"
#include "core/plugin/plugin_end.h"
#include "core/transport/base/net.h"
#include "core/transport/net_plugin/net_abi.h"
#include "core/transport/net_plugin/net_plugin.h"
#include "core/transport/net_plugin/net_plugin_mr.h"
#include "core/transport/net_plugin/net_plugin_props.h"

#define NET_PLUGIN_FILE    "libnccl-net.so"
#define NET_PLUGIN_DEVICES 1024 /* more devices than this are not possible */
#define NET_PLUGIN_MERGED  64   /* most virtual devices that a process makes */

/* ---- a plugin ------------------------------------------------------------------------------- */

/* A device: a physical one, or (nic.count > 1) one that was made of several. */
struct net_plugin_dev {
	struct net_plugin_props props;
	struct net_nic nic;
	int number;        /* of the plugin */
	shared_u32 in_use; /* connections of this process */
};

struct net_plugin {
	struct plugin_shared shared; /* must be first; references: communicators */

	struct os_mutex lock; /* of the fields below, until the plugin is ready */
	bool loaded;          /* `library` was opened, or that failed with `result` */
	bool started;         /* init succeeded, and the devices are known */
	ncclResult_t result;
	struct net_plugin_why why;
	struct plugin_library library;
	const struct net_abi *abi;
	int version;
	char name[NET_NAME_BYTES];
	struct net_ops ops; /* the row, with the plugin's name */
	int ndevs;          /* 0: not queried yet, or no device */
	struct net_plugin_dev *dev;
	int nmerged; /* under `lock` also later */
	struct net_plugin_dev merged[NET_PLUGIN_MERGED];
};

/* The state of a communicator (ncclComm.net.state). */
struct net_plugin_comm {
	struct net_plugin *plugin;
	void *context; /* of the plugin, from version 11 on */
	bool initialised;
};

/* net_plugin_load.c */
/* Drops a reference; the last one closes the library. */
void net_plugin_put(struct net_plugin *p);
/* Opens the library and checks its table. Under `lock`. */
ncclResult_t net_plugin_load(struct net_plugin *p, struct net_plugin_why *why);

/* net_plugin_call.c: functions whose types depend on the version. Results are the plugin's. */
ncclResult_t net_plugin_call_init(const struct net_plugin *p, uint64_t comm_id, void **context);
ncclResult_t net_plugin_call_listen(const struct net_plugin_comm *pc, int dev, void *handle,
				    void **listen);
ncclResult_t net_plugin_call_connect(const struct net_plugin_comm *pc, int dev, void *handle,
				     void **comm);
ncclResult_t net_plugin_call_make(const struct net_plugin *p, const struct net_nic *nic, int *dev,
				  struct net_plugin_why *why);
ncclResult_t net_plugin_call_isend(const struct net_plugin *p, void *comm,
				   const struct net_buffer *b, void *mr, void **request);
ncclResult_t net_plugin_call_irecv(const struct net_plugin *p, void *comm,
				   const struct net_buffer *b, void *const *mr, int n,
				   void **request);

/* net_plugin_device.c */
ncclResult_t net_plugin_devices(struct ncclComm *comm, int *count);
ncclResult_t net_plugin_props(struct ncclComm *comm, int dev, struct net_props *p);
void net_plugin_fini(struct ncclComm *comm);
/* Returns the device of a NIC; if it has several, a virtual device of them, or the first one if the
 * plugin cannot merge them. */
struct net_plugin_dev *net_plugin_dev_of(struct net_plugin *p, const struct net_nic *nic);

/* ---- connections ---------------------------------------------------------------------------- */

struct net_request {
	struct net_plugin_conn *conn;
	void *request; /* NULL: done, a flush that is not needed */
	bool used;
	bool is_recv;
	int n;
	struct {
		void *data;
		size_t bytes;
		bool gpu;
	} part[NET_MAX_RECVS];
};

/* An end of a connection, also one that listens or connects. */
struct net_plugin_conn {
	struct plugin_end end; /* must be first: the event of its waits */
	struct ncclComm *comm;
	const struct net_plugin_comm *of;
	struct net_plugin_dev *dev;
	struct net_who who;
	bool is_send;
	void *net_comm; /* of the plugin; NULL: not connected */
	void *listen;   /* of the plugin; NULL: not listening */
	/* The plugin writes to the handle of a connect. */
	uint8_t handle[NET_HANDLE_BYTES] __attribute__((aligned(8)));
	uint32_t in_flight;
	struct net_request req[NET_MAX_REQUESTS];
};

/* net_plugin_connect.c */
ncclResult_t net_plugin_listen(struct ncclComm *comm, const struct net_nic *nic,
			       const struct net_who *who, struct net_handle *h, void **listen);
ncclResult_t net_plugin_connect(struct ncclComm *comm, const struct net_nic *nic,
				const struct net_who *who, const struct net_handle *h,
				void **pending, void **send_comm, struct wait *w);
ncclResult_t net_plugin_accept(void *listen, void **recv_comm, struct wait *w);
void net_plugin_close(void *net_comm);
/* The wait until the plugin is called again. */
void net_plugin_wait(struct net_plugin_conn *c, const char *why, struct wait *w);

/* net_plugin_data.c */
ncclResult_t net_plugin_reg_mr(void *net_comm, void *data, size_t bytes, enum net_memory where,
			       void **mr);
ncclResult_t net_plugin_dereg_mr(void *net_comm, void *mr);
int net_plugin_max_recvs(void *recv_comm);
ncclResult_t net_plugin_isend(void *send_comm, const struct net_buffer *b, struct net_request **req,
			      struct wait *w);
ncclResult_t net_plugin_irecv(void *recv_comm, const struct net_buffer *b, int n,
			      struct net_request **req, struct wait *w);
ncclResult_t net_plugin_iflush(void *recv_comm, void *data, size_t bytes, void *mr,
			       struct net_request **req, struct wait *w);
ncclResult_t net_plugin_test(struct net_request *req, bool *done, size_t *bytes, struct wait *w);
ncclResult_t net_plugin_check(void *net_comm, bool busy, struct wait *w);

#endif
