/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A net plugin, in the program doppel (--plugins net) and in libraries of the tests. Its calls
 * never wait. net_plugin_tables.c has the tables of all versions; PLUG_V8 and so on choose those
 * that are exported. The functions below move the bytes: net_plugin_memory.c in the program, where
 * all ranks are one real process, net_plugin_socket.c over UNIX sockets in the libraries. PLUG_GPU
 * adds memory of GPUs (net_plugin_gpu.c). In a world, handles are the same in each run of a seed.
 *
 * Settings (plugin_host.h):
 *
 *	PLUG_DEVICES    number of devices; default 1
 *	PLUG_SAME_CARD  1: they are ports of one card
 *	PLUG_PCI        their path in /sys
 *	PLUG_RECVS      most buffers of a receive, 1 to 8; default 1
 *	PLUG_PROCESSES  1: the ranks are in several real processes
 *	PLUG_FAULT      what goes wrong:
 *
 *	init, devices, listen, connect, accept, regmr, irecv, test: that function fails
 *	isend=N       isend fails after N messages, with ncclRemoteError
 *	count=N       devices returns N
 *	noname        a device has no name
 *	onename       all devices have one name
 *	norecvs       maxRecvs is 0
 *	offload       transfers are started by kernels
 *	short         maxP2pBytes is 4096
 *	both          connect fails and returns a connection, too
 *	nolisten      listen returns no object
 *	size          test reports more bytes than the receive has
 *	never         a receive never ends
 *	late          isend, irecv and connect return nothing at about each second call
 *	merge         makeVDevice fails
 *	thread        nothing; init logs from a thread of its own
 *	nogpu, nodmabuf  registration of GPU memory fails, by address or as a dma-buf
 *
 * With GPU memory: PLUG_DMABUF=1 has dma-bufs, PLUG_FLUSH=1 has forceFlush.
 */
#ifndef SIM_LAB_NET_PLUGIN_H
#define SIM_LAB_NET_PLUGIN_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/transport/net_plugin/net_abi.h"
#include "sim/lab/plugin/plugin_host.h"

enum { PLUG_MOST_RECVS = 8, PLUG_MOST_DEVICES = 16 };

static inline bool plug_fault(const char *what)
{
	return plug_fails("PLUG_FAULT", what);
}

/* Returns the number of NAME=N; -1: not set. */
static inline long plug_fault_number(const char *name)
{
	const char *text = plug_setting("PLUG_FAULT");
	size_t n = strlen(name);

	return text && !strncmp(text, name, n) && text[n] == '=' ? atol(text + n + 1) : -1;
}

/* net_plugin_tables.c: stores the properties in the struct of that version. */
void plug_props_copy(int version, const struct net_abi_props_v12 *p, void *out);

ncclResult_t plug_listen(int dev, void *handle, void **listen_comm);
ncclResult_t plug_connect(int dev, void *handle, void **comm, struct net_abi_offload **offload);
ncclResult_t plug_accept(void *listen_comm, void **comm, struct net_abi_offload **offload);
ncclResult_t plug_close(void *comm);
ncclResult_t plug_close_listen(void *listen_comm);
ncclResult_t plug_reg_mr(void *comm, void *data, size_t bytes, int type, void **mr);
ncclResult_t plug_dereg_mr(void *comm, void *mr);
ncclResult_t plug_isend(void *comm, void *data, size_t bytes, int tag, void *mr, void **request);
ncclResult_t plug_irecv(void *comm, int n, void **data, const size_t *bytes, const int *tags,
			void **mrs, void **request);
ncclResult_t plug_iflush(void *comm, int n, void **data, int *bytes, void **mrs, void **request);
ncclResult_t plug_test(void *request, int *done, int *sizes);

/* net_plugin_gpu.c: the same with GPU memory, in libraries that are compiled with PLUG_GPU. */
ncclResult_t plug_gpu_reg_mr(void *comm, void *data, size_t bytes, int type, void **mr);
ncclResult_t plug_gpu_reg_dmabuf(void *comm, void *data, size_t bytes, int type, uint64_t offset,
				 int fd, void **mr);
ncclResult_t plug_gpu_dereg_mr(void *comm, void *mr);
ncclResult_t plug_gpu_isend(void *comm, void *data, size_t bytes, int tag, void *mr,
			    void **request);
ncclResult_t plug_gpu_irecv(void *comm, int n, void **data, const size_t *bytes, const int *tags,
			    void **mrs, void **request);
ncclResult_t plug_gpu_iflush(void *comm, int n, void **data, int *bytes, void **mrs,
			     void **request);
ncclResult_t plug_gpu_test(void *request, int *done, int *sizes);
/* In the program: frees the requests that connections have left, and resets the numbers. Reports
 * registrations and connections that are open after a run that passed. */
void plug_gpu_end(bool passed);
bool plug_net_end(bool passed); /* true: there were connections */
void plug_tables_reset(void);
/* Numbers of the process so far. */
void plug_gpu_count(int *flushes, int *regions, int *dmabufs);

#endif
