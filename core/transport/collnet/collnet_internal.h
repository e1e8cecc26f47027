/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * collnet: collective networks (collnet.h). This header is shared by its files.
 *
 * The library is open as long as the communicator's network, whose plugin it is. Up to version 10 a
 * plugin is initialised once for each process, from version 11 on for each communicator. The newest
 * version that the library has is used.
 *
 * A channel's reductions are in a ring of operations. The proxy's receive fills the next one with
 * the place of the sum. Its send starts the oldest one that is not started. Both then test it.
 *
 *	           irecv             isend              test of the plugin: done
 *	  free -----------> posted -----------> running -----------> done
 *	    ^                                                          |
 *	    +------------- both tests have seen it --------------------+
 *
 * Waits and errors of a group are those of plugin_end.h. A wait for the own chunk has no deadline.
 */
#ifndef CORE_TRANSPORT_COLLNET_COLLNET_INTERNAL_H
#define CORE_TRANSPORT_COLLNET_COLLNET_INTERNAL_H

#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "core/plugin/plugin.h"
#include "core/plugin/plugin_end.h"
#include "core/transport/collnet/collnet.h"
#include "core/transport/collnet/collnet_abi.h"
#include "core/transport/net_plugin/net_plugin_mr.h"

#define COLLNET_DEVICES     64 /* more devices than this are not used */
#define COLLNET_PROBE_BYTES 4096

/* A process' plugin, which its communicators share. */
struct collnet_plugin {
	struct plugin_shared shared; /* must be first; references: communicators */
	struct os_mutex lock;        /* of the fields below, until the plugin is started */
	bool started;                /* init succeeded, and the devices are known */
	bool empty;                  /* it has no device */
	const struct collnet_abi *abi;
	int version;
	char name[NET_NAME_BYTES];
	int ndevs;
	struct net_plugin_props dev[COLLNET_DEVICES];
	uint64_t supported; /* collnet_reduction */
};

/* ncclComm.collnet */
struct collnet {
	struct collnet_plugin *plugin;
	void *context; /* of the plugin, from version 11 on */
	bool initialised;
	uint64_t reductions; /* of all ranks; 0: not agreed */
	struct collnet_group *group[DEV_MAX_CHANNELS];
};

/* A reduction, or a flush. */
enum collnet_state { COLLNET_FREE, COLLNET_POSTED, COLLNET_RUNNING, COLLNET_DONE };
enum collnet_end { COLLNET_SEND, COLLNET_RECV, COLLNET_FLUSH };
struct collnet_op {
	enum collnet_state state;
	void *request; /* of the plugin; NULL: a flush that is not needed */
	void *recv;
	void *recv_mr;
	bool recv_gpu;            /* the place is GPU memory */
	size_t recv_bytes, bytes; /* of the place, and of the data */
};

/* One end's view of an operation. */
struct net_request {
	struct collnet_group *group;
	struct collnet_op *op;
	enum collnet_end end;
	bool used;
};

/* A channel's group, at a head. The proxy's tasks use it as its sending and its receiving end. */
struct collnet_group {
	struct plugin_end end; /* must be first: the event of its waits */
	struct ncclComm *comm;
	struct collnet *of;
	int dev;      /* of the plugin */
	void *listen; /* of the plugin; NULL: not listening */
	void *coll;   /* of the plugin; NULL: not connected */

	/* progress */
	uint64_t posted, started; /* reductions */
	struct collnet_op op[NET_MAX_REQUESTS], flush;
	struct net_request send[NET_MAX_REQUESTS], recv[NET_MAX_REQUESTS], flush_req;
};

/* An end of a group, as the proxy sees it. */
struct collnet_conn {
	struct collnet_group *group;
	bool is_send;
};

/* collnet_load.c: finds the table and the devices. A reason in `why` if that fails. */
ncclResult_t collnet_load(struct collnet *c, const struct plugin_library *library, uint64_t comm_id,
			  struct net_plugin_why *why);

/* collnet_group.c */
void collnet_group_free(struct collnet_group *g);
/* The wait until the plugin is called again. */
void collnet_wait(struct collnet_group *g, const char *why, struct wait *w);

/* collnet_memory.c */
ncclResult_t collnet_reg_mr(void *net_comm, void *data, size_t bytes, enum net_memory where,
			    void **mr);
ncclResult_t collnet_dereg_mr(void *net_comm, void *mr);

/* collnet_data.c */
ncclResult_t collnet_isend(void *send_comm, const struct net_buffer *b, struct net_request **req,
			   struct wait *w);
ncclResult_t collnet_irecv(void *recv_comm, const struct net_buffer *b, int n,
			   struct net_request **req, struct wait *w);
ncclResult_t collnet_iflush(void *recv_comm, void *data, size_t bytes, void *mr,
			    struct net_request **req, struct wait *w);
ncclResult_t collnet_test(struct net_request *req, bool *done, size_t *bytes, struct wait *w);
ncclResult_t collnet_check(void *net_comm, bool busy, struct wait *w);

#endif
