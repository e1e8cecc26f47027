/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A collective network beside the net plugin (net_plugin.h), in the program doppel (--plugins
 * collnet) and in libraries of the tests. It reduces in software. All members of a group are in one
 * real process, as the ranks of a world are. collnet_plugin_reduce.c has the groups and the sums,
 * collnet_plugin_memory.c the registered memory, collnet_plugin.c the tables of all versions.
 *
 * Its devices are those of the net plugin. Types are the integers, f32 and f64, and operations sum,
 * prod, max and min, except what COLL_TYPES and COLL_OPS exclude. Settings (plugin_host.h):
 *
 *	COLL_TYPES   "int": integers only
 *	COLL_OPS     "sum": sums only
 *	COLL_POLLS   fruitless tests of each second reduction; default 0. The others end earlier.
 *	COLL_FAULT   what goes wrong, at the member COLL_MEMBER; default: at all members
 *
 *	init, devices, props, support, listen, connect, regmr, test, iflush, closelisten: it fails
 *	reduce=N     iallreduce fails after N reductions of the process, with ncclRemoteError
 *	count=N      devices returns N
 *	nolisten     listen returns no object
 *	both         connect fails and returns a group, too
 *	slow         connect returns no group for some calls
 *	lost         connect never returns a group
 *	short        maxCollBytes is 4096
 *	size         test reports more bytes than the reduction has
 *	never        a reduction never ends
 *	late         iallreduce returns nothing at about each second call
 *	closecoll, finalize, dereg: it fails
 */
#ifndef SIM_LAB_COLLNET_PLUGIN_H
#define SIM_LAB_COLLNET_PLUGIN_H

#include "core/transport/collnet/collnet_abi.h"

#include "sim/lab/plugin/net_plugin.h"

/* True if the fault is set. `member` -1: of no member. */
bool coll_fault(const char *what, int member);
/* Returns the number of NAME=N; -1: not set. */
long coll_fault_number(const char *name);

/* Returns the member's index in its group. */
int coll_rank(const void *comm);
/* collnet_plugin_memory.c: registered memory, also that of GPUs in libraries with PLUG_GPU. */
void coll_read(void *mr, const void *at, void *to, size_t bytes);
void coll_write(void *mr, void *at, const void *from, size_t bytes);
/* Returns the request of a flush, which is done. */
void *coll_flush_request(void);
/* Flushes of the process so far. */
int coll_flushes(void);
ncclResult_t coll_listen(int dev, void *handle, void **listen_comm);
ncclResult_t coll_connect(void **handles, int count, int rank, void *listen_comm, void **comm);
ncclResult_t coll_reduce_support(ncclDataType_t type, ncclRedOp_t op, int *supported);
ncclResult_t coll_reg_mr(void *comm, void *data, size_t bytes, int type, void **mr);
ncclResult_t coll_dereg_mr(void *comm, void *mr);
ncclResult_t coll_iallreduce(void *comm, void *send, void *recv, size_t count, ncclDataType_t type,
			     ncclRedOp_t op, void *send_mr, void *recv_mr, void **request);
ncclResult_t coll_iflush(void *comm, void *data, int bytes, void *mr, void **request);
ncclResult_t coll_test(void *request, int *done, int *bytes);
ncclResult_t coll_close(void *comm);
ncclResult_t coll_close_listen(void *listen_comm);

/* In the program: frees what is left, and resets the numbers. Reports what is open after a run that
 * passed. coll_end returns true if there were reductions. */
bool coll_end(bool passed);
void coll_memory_end(bool passed);

#endif
