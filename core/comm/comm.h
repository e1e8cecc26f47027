/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The communicator: what one rank knows and owns. Made by comm_init, which takes the rank through
 *
 *   bootstrap -> gather peer_info -> check versions, duplicates -> topology, paths, ring search ->
 *   gather graphs -> rings, channels -> proxy -> connect transports -> device communicator -> barrier
 *
 * and torn down in reverse. core/api checks arguments and calls in here; core/plan uses it to launch.
 * Owned by the rank's main task; what other agents touch is a shared word and says so.
 */
#ifndef CORE_COMM_COMM_H
#define CORE_COMM_COMM_H

#include <cuda_runtime_api.h>

#include "core/base/shared.h"
#include "core/bootstrap/bootstrap.h"
#include "core/device/work.h"
#include "core/include/nccl.h"
#include "core/os/os.h"
#include "core/topo/topo.h"

struct conn;
struct plan_state;
struct proxy_state;
struct net_state;
struct p2p_state;

/* What every rank knows of every other; crosses the wire. */
struct peer_info {
	uint32_t magic; /* PEER_INFO_MAGIC: layout version of this struct and of work.h */
	int32_t rank;
	uint64_t host_hash; /* host name and boot id, or NCCL_HOSTID */
	uint64_t pid_hash;  /* process within the host */
	int32_t cuda_dev;
	int32_t sm; /* compute capability, 80 = 8.0 */
	char bus_id[24];
	uint32_t version; /* NCCL_VERSION_CODE */
	uint32_t warp_width;
	uint64_t comm; /* address of struct ncclComm, for ranks of the same process */
	uint64_t dev_bytes;
	uint8_t pad0[16];
};
DOPPEL_CHECK_SIZE(struct peer_info, 96);
#define PEER_INFO_MAGIC 0xd0de1001u

struct channel {
	int32_t id;
	int32_t ring_prev, ring_next, ring_index;
	int32_t nic_in, nic_out; /* topology's NIC index where the ring enters and leaves here; -1 */
	struct conn *ring_recv, *ring_send;
};

enum comm_state { COMM_INIT, COMM_READY, COMM_FINALIZED, COMM_ABORTED, COMM_DESTROYED };

#define COMM_MAGIC 0xd0de0c0331337001ull

struct ncclComm {
	uint64_t magic;
	enum comm_state state;
	int32_t rank, nranks;
	int32_t cuda_dev;
	int32_t local_rank, local_ranks; /* on this host */
	uint64_t id_hash;		 /* same on all ranks of the communicator */
	ncclConfig_t config;
	char name[64];

	struct bootstrap *bootstrap;
	struct peer_info *peers;	/* [nranks] */
	int32_t *local_to_rank;		/* [local_ranks], in order of rank */
	const struct topo_system *topo;
	struct topo_graph *ring_graph;
	struct channel *channels;	/* [nchannels] */
	int32_t nchannels;

	struct proxy_state *proxy;
	struct net_state *net;		/* net_verbs' per-communicator state */
	struct p2p_state *p2p;		/* transport_p2p's connection memory, NULL: none yet */
	struct plan_state *plan;

	struct dev_comm *dev;		/* device memory */
	struct dev_channel *dev_channels; /* device memory */
	/* Pinned host memory that kernels and every host wait poll; set by ncclCommAbort. */
	shared_u32 *abort;
	shared_u32 async_error; /* ncclResult_t: the first error of a proxy or a kernel */

	uint64_t op_count; /* collectives so far */
	cudaStream_t internal_stream; /* made at init, for copies that must not use the user's */
};

/* Why a call on this communicator cannot proceed, logged by the caller that decides. */
ncclResult_t comm_check(const struct ncclComm *comm, const char *call);

/* A new communicator for this rank; `config` may be NULL. All ranks call it together. */
ncclResult_t comm_init(struct ncclComm **comm, int nranks, const ncclUniqueId *id, int rank,
		       const ncclConfig_t *config);
ncclResult_t comm_finalize(struct ncclComm *comm);
ncclResult_t comm_destroy(struct ncclComm *comm);
ncclResult_t comm_abort(struct ncclComm *comm);
/* Records the first asynchronous error; later ones are only logged. Any task. */
void comm_set_async_error(struct ncclComm *comm, ncclResult_t error);

#endif
