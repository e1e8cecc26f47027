/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of libnccl-net-doppel.so (doppel_net.c), and what it knows of a device. */
#ifndef PLUGINS_NET_DOPPEL_NET_H
#define PLUGINS_NET_DOPPEL_NET_H

#include "core/transport/base/net.h"
#include "core/transport/net_plugin/net_abi.h"

#define DOPPEL_DEVICES 64 /* with merged ones */

struct doppel_net {
	/* The networks keep their state in a communicator. This one has only that. */
	struct ncclComm *comm;
	const struct net_ops *ops; /* the network in use */
	struct os_mutex lock;      /* calls that use `comm`, and merging */
	int ndevs;                 /* devices of the network; merged ones follow */
	int nmerged;
	struct net_nic merged[DOPPEL_DEVICES];
	int users; /* inits without finalize */
	char name[DOPPEL_DEVICES][NET_NAME_BYTES];
	char place[DOPPEL_DEVICES][OS_PATH_BYTES]; /* in /sys */
};

struct doppel_device {
	struct net_props props;
	struct net_nic nic;
	char *name, *path; /* path NULL: unknown */
	int pointers;      /* bits, enum net_abi_pointer */
	int max_recvs;
};

/* doppel_net.c: the state of the process; init precedes. */
struct doppel_net *doppel_state(void);
/* Sets *nic to the devices of a device: itself, or those that it merges. False: no such device. */
bool doppel_nic(const struct doppel_net *s, int dev, struct net_nic *nic);

/* doppel_net_data.c: functions of the tables. */
ncclResult_t doppel_listen(int dev, void *handle, void **listen);
ncclResult_t doppel_listen_v11(void *context, int dev, void *handle, void **listen);
ncclResult_t doppel_connect(int dev, void *handle, void **comm, struct net_abi_offload **offload);
ncclResult_t doppel_connect_v10(int dev, struct net_abi_config *config, void *handle, void **comm,
				struct net_abi_offload **offload);
ncclResult_t doppel_connect_v11(void *context, int dev, void *handle, void **comm,
				struct net_abi_offload **offload);
ncclResult_t doppel_accept(void *listen, void **comm, struct net_abi_offload **offload);
ncclResult_t doppel_close_send(void *comm);
ncclResult_t doppel_close_recv(void *comm);
ncclResult_t doppel_close_listen(void *listen);
ncclResult_t doppel_reg_mr(void *comm, void *data, size_t bytes, int type, void **mr);
ncclResult_t doppel_dereg_mr(void *comm, void *mr);
ncclResult_t doppel_isend_v9(void *comm, void *data, size_t bytes, int tag, void *mr,
			     void **request);
ncclResult_t doppel_isend_v8(void *comm, void *data, int bytes, int tag, void *mr, void **request);
ncclResult_t doppel_isend_v10(void *comm, void *data, size_t bytes, int tag, void *mr, void *event,
			      void **request);
ncclResult_t doppel_irecv_v9(void *comm, int n, void **data, size_t *bytes, int *tags, void **mrs,
			     void **request);
ncclResult_t doppel_irecv_v8(void *comm, int n, void **data, int *bytes, int *tags, void **mrs,
			     void **request);
ncclResult_t doppel_irecv_v10(void *comm, int n, void **data, size_t *bytes, int *tags, void **mrs,
			      void **events, void **request);
ncclResult_t doppel_iflush(void *comm, int n, void **data, int *bytes, void **mrs, void **request);
ncclResult_t doppel_test(void *request, int *done, int *sizes);

#endif
