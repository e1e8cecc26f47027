/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank: what it knows of itself, of its communicator and of the other ranks, for every room
 * above. struct ncclComm is one rank's part of a communicator. Its fields are what more than one
 * room reads; each room's own state is opaque to the others and hangs off its pointer.
 *
 * core/comm makes it, fills it in step by step, and ends it (comm.h); transport, proxy and plan are
 * handed one whose topology and channels are complete, and do not know how it came about.
 *
 * Owned by the rank's main task. What other agents touch is a shared word, or its comment names the
 * lock.
 */
#ifndef CORE_RANK_RANK_H
#define CORE_RANK_RANK_H

#include <cuda_runtime_api.h>

#include "core/base/shared.h"
#include "core/bootstrap/bootstrap.h"
#include "core/device/work.h"
#include "core/include/nccl.h"
#include "core/os/os.h"
#include "core/rank/registry.h"
#include "core/topo/topo.h"

struct comm_life;
struct conn;
struct conn_table;
struct letters;
struct net_ops;
struct p2p_state;
struct plan_state;
struct proxy_state;
struct registered;
struct relay_route;
struct relay_state;
struct shm_state;
struct transport;

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
	uint16_t warp_width;
	uint8_t detects;      /* 1: no file has all of its host's topology */
	uint8_t pat_anywhere; /* 1: PAT also where a host has several ranks */
	uint64_t dev_bytes;
	int32_t min_channels, max_channels; /* what this rank's configuration allows */
	uint64_t allowed;                   /* programs that its environment allows */
	uint64_t shm_device;                /* of its /dev/shm; 0: the rank does not use it */
	/* Where its mailbox is, for host memory of cuMem: its network namespace; 0: it has no such
	 * memory */
	uint64_t cumem_host;
	int32_t pxn_level; /* by which its messages leave the host */
	uint32_t settings; /* of its search: topo_settings_read */
};
DOPPEL_CHECK_SIZE(struct peer_info, 112);
#define PEER_INFO_MAGIC 0xd0de1009u

/* One of a rank's links in the tree of a channel: 0 to its parent, the others to its children. */
struct tree_link {
	int32_t rank;             /* -1: there is no such link */
	int32_t nic;              /* topology's NIC index if it leaves the host; -1 */
	struct conn *recv, *send; /* NULL: trees are not connected */
};

struct channel {
	int32_t id;
	int32_t ring_prev, ring_next, ring_index;
	uint16_t ring_prev_number, ring_next_number; /* as in struct dev_ring */
	int32_t nic_in,
		nic_out; /* topology's NIC index where the ring enters and leaves here; -1 */
	struct conn *ring_recv, *ring_send;
	struct tree_link tree[DEV_TREE_LINKS];
	/* [nranks]: the link over which a rank is reached, DEV_TREE_SELF; NULL: trees are not
	 * connected */
	const uint8_t *tree_toward;
	/* Of PAT: from the rank 2^k before this one, and to the rank 2^k after it. NULL: not
	 * connected */
	struct conn *pat_recv[DEV_PAT_LEVELS], *pat_send[DEV_PAT_LEVELS];
};

/* The network of a communicator. */
struct net {
	const struct net_ops *named; /* row of nets[] that its configuration names; NULL: any */
	const struct net_ops *ops;   /* the row in use (core/transport/net.h); NULL: not opened */
	void *state;                 /* the row's own; NULL: its devices are not open */
};

#define COMM_MAGIC 0xd0de0c0331337001ull

struct ncclComm {
	struct registry_node node; /* first: in the process' registry */
	uint64_t magic;
	int32_t rank, nranks;
	int32_t cuda_dev;
	char bus_id[24];                 /* of that device, as CUDA writes it */
	int32_t local_rank, local_ranks; /* on this host */
	/* Same on all ranks of the communicator, different for any two. Until its bootstrap's ring
	 * stands it is the unique id's. Changes under the registry's lock. */
	uint64_t id_hash;
	ncclConfig_t config;
	uint64_t allowed; /* programs that the environment allows: core/tune/allowed.h */

	struct bootstrap *bootstrap;
	struct peer_info *peers; /* [nranks] */
	int32_t *local_to_rank;  /* [local_ranks], in order of rank */
	char *topo_text; /* of NCCL_TOPO_FILE, until the topology is made of it; NULL: none */
	size_t topo_bytes;
	const struct topo_system *topo;
	struct topo_graph *graph[TOPO_PATTERNS]; /* of this host */
	struct channel *channels;                /* [launch_channels] */
	int32_t nchannels;
	int32_t pair_channels; /* of messages: at least nchannels. Those from there on have no ring and no tree. */
	/* At least pair_channels; messages to oneself have those from there on, which have no
	 * connections. */
	int32_t launch_channels;
	int32_t direct_channels;     /* on which every two ranks are connected; 0: on none */
	int32_t pat_channels;        /* on which PAT is connected; 0: on none */
	bool trees;                  /* the trees of all channels are connected */
	struct topo_summary summary; /* of all ranks' machines; one rank: zero */

	const struct transport *const *transports; /* in order of choice; NULL ends them */

	/* each room's own */
	struct conn_table *conns; /* every connection end of this rank; NULL: none yet */
	struct net net;
	struct p2p_state *p2p;   /* transport_p2p's connection memory, NULL: none yet */
	struct shm_state *shm;   /* transport_shm's; NULL: none yet */
	struct letters *letters; /* core/transport/letters.h; NULL: the rank has no mailbox */
	struct registered
		*registered; /* core/transport/registered.h; NULL: nothing was registered */
	struct proxy_state *proxy;
	struct relay_route *routes; /* [nranks] of messages; NULL: all ranks are on this host */
	struct relay_state *relays; /* changes under the registry's lock, and under `watch` */
	struct plan_state *plan;
	struct comm_life *life; /* core/comm/comm.h */

	struct dev_comm *dev;             /* device memory */
	struct dev_channel *dev_channels; /* in it, with the rings' connections */
	struct dev_conn *dev_conns; /* in it: every other connection of `conns`, by its slot */
	/* Pinned host memory that kernels and every host wait poll; set by ncclCommAbort. */
	shared_u32 *abort;
	void *staging;          /* pinned, after the abort word: for copies to the device */
	shared_u32 async_error; /* ncclResult_t: the first error of a proxy or a kernel */

	shared_u32 error_given; /* 1: a call has returned it */

	struct os_mutex watch; /* one task at a time looks at the bootstrap's ring */
	bool ring_broken;      /* because of the asynchronous error; under `watch` */
	bool bootstrap_taken;  /* a call uses the bootstrap: no task looks at it; under `watch` */

	uint64_t op_count;            /* collectives launched so far */
	shared_u64 ops_seen;          /* the same, for other tasks */
	cudaStream_t internal_stream; /* made at init, for copies that must not use the user's */
	/* Made at init; plan_launch records it after each launch, in the launch's stream, and
	 * orders launches in different streams by it. Teardown waits for it; of one rank, whose
	 * launches are in no order, for the internal stream, which waits for each of them. */
	cudaEvent_t launch_done;
	bool launched; /* launch_done has been recorded */
};

static inline bool rank_is_aborted(const struct ncclComm *comm)
{
	return comm->abort && shared_load_u32(comm->abort, SHARED_ACQUIRE);
}

/* Records the first asynchronous error, and breaks the ring at this rank, by which the other ranks
 * learn of it; if a call uses the bootstrap, at the end of that call. Later errors are only logged.
 * Any task; not under `watch`. */
void rank_set_async_error(struct ncclComm *comm, ncclResult_t error);
/* For a call that uses the bootstrap; an init has it from the start. Until its release the call
 * itself finds out when another rank fails; other tasks do not look at the bootstrap's ring. */
void rank_bootstrap_claim(struct ncclComm *comm);
void rank_bootstrap_release(struct ncclComm *comm);
enum { RANK_WAITS = 2 };
/* For a wait that ends only if other ranks do their part: returns when one of the n waits (at most
 * RANK_WAITS) is true, and as an error when the communicator has one, another rank has failed, or
 * on abort. May return early. The caller has not claimed the bootstrap. */
ncclResult_t rank_wait_beside(struct ncclComm *comm, const struct wait *waits, int n);

#endif
