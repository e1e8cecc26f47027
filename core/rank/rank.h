/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank: its facts about itself, its communicator and the other ranks, for every room above.
 * struct ncclComm is one rank's part of a communicator. Its fields are those that more than one
 * room reads. Each room's own state is opaque to the others and hangs off its pointer.
 *
 * core/comm makes it, fills it in step by step, and ends it (comm.h). Transport, proxy and plan
 * receive a communicator whose topology and channels are complete, and do not know how it was made.
 *
 * The rank's main task owns it. A field that other agents access is a shared word, or its comment
 * names the lock.
 */
#ifndef CORE_RANK_RANK_H
#define CORE_RANK_RANK_H

#include <cuda_runtime_api.h>

#include "core/base/shared.h"
#include "core/bootstrap/bootstrap.h"
#include "core/device/layout/work.h"
#include "core/include/nccl.h"
#include "core/os/os.h"
#include "core/rank/calls.h"
#include "core/rank/pairs.h"
#include "core/rank/registry.h"
#include "core/rank/timed.h"
#include "core/topo/topo.h"

struct collnet;
struct comm_life;
struct conn;
struct conn_want;
struct conn_table;
struct letters;
struct net_ops;
struct p2p_state;
struct plan_state;
struct profiler_comm;
struct proxy_state;
struct registered;
struct relay_route;
struct ras;
struct relay_state;
struct shm_state;
struct transport;
struct windows;

/* Facts about a rank that all other ranks know; crosses the wire. */
struct peer_info {
	uint32_t magic; /* PEER_INFO_MAGIC: layout version of this struct and of work.h */
	int32_t rank;
	uint64_t host_hash; /* host name and boot id, or NCCL_HOSTID */
	uint64_t pid_hash;  /* process within the host */
	int32_t cuda_dev;
	int32_t sm; /* compute capability, 80 = 8.0 */
	char bus_id[24];
	uint32_t version; /* NCCL_VERSION_CODE */
	uint8_t warp_width;
	uint8_t collnet;      /* 1: collnetEnable of its configuration */
	uint8_t detects;      /* 1: must detect its host's topology; no file has all of it */
	uint8_t pat_anywhere; /* 1: allows PAT also where a host has several ranks */
	uint64_t dev_bytes;
	int32_t min_channels, max_channels; /* limits of this rank's configuration */
	uint64_t allowed;                   /* programs that the rank's environment allows */
	uint64_t shm_device; /* device of its /dev/shm; 0: the rank does not use it */
	/* Network namespace of the rank's mailbox, for host memory and GPU memory of cuMem; 0: it
	 * has no such memory. */
	uint64_t cumem_host, cumem_device;
	int32_t pxn_level; /* level at which its messages leave the host by way of another rank */
	uint32_t settings; /* settings of its search: topo_settings_read */
	uint32_t result_least; /* DOPPEL_RESULT_BYTES */
	uint16_t has_ras;      /* 1: its process has a RAS task; a rank_ras_peer follows */
	uint16_t shares;       /* 1: its splitShare or shrinkShare is set, and concerns this init */
};
DOPPEL_CHECK_SIZE(struct peer_info, 128);
#define PEER_INFO_MAGIC 0xd0de100eu

/* Place of a rank for RAS, gathered if any rank has a RAS task. Crosses the wire. */
struct rank_ras_peer {
	struct os_addr addr; /* of the RAS task; port 0: it has none */
	int32_t pid;
	int32_t nvml_dev; /* of its CUDA device; -1: unknown */
};
DOPPEL_CHECK_SIZE(struct rank_ras_peer, 32);

/* One of a rank's links in the tree of a channel. Link 0 leads to its parent, the others to its
 * children. */
struct tree_link {
	int32_t rank; /* -1: no such link */
	int32_t nic;  /* topology's NIC index if the link leaves the host; else -1 */
};

/* A rank's place in the chain of a channel (CollNet). */
struct channel_chain {
	int32_t up, down; /* ranks of this host; -1: no such rank */
	bool is_head;     /* above it is the network */
	/* A head has these: the heads of the previous and the next host, and its NIC. */
	int32_t prev_head, next_head, nic;
};

struct channel {
	int32_t id;
	int32_t ring_prev, ring_next, ring_index;
	uint16_t ring_prev_number, ring_next_number; /* as in struct dev_ring */
	/* Topology's NIC index where the ring enters and leaves this host at this rank; else -1. */
	int32_t nic_in, nic_out;
	struct tree_link tree[DEV_TREE_LINKS];
	struct channel_chain chain; /* zero if the communicator has no CollNet */
	/* [nranks]: the link that leads to each rank, or DEV_TREE_SELF. NULL: trees are not
	 * connected. */
	const uint8_t *tree_toward;
};

/* The network of a communicator. */
struct net {
	const struct net_ops *named; /* row of nets[] that the configuration names; NULL: any */
	const struct net_ops *ops;   /* the row in use (core/transport/nets.h); NULL: not opened */
	void *state;                 /* the row's own state; NULL: its devices are not open */
	char wanted[64];             /* the name by which the configuration names the row */
};

/* Numbers of launched collectives, for the RAS task. The rank's main task writes them. */
struct rank_launches {
	shared_u64 count[DEV_FUNC_COUNT]; /* by enum dev_func */
	shared_u64 last_ns;               /* time of the last launch; 0: none yet */
	shared_u32 last;                  /* its last collective, enum dev_func */
};

#define COMM_MAGIC 0xd0de0c0331337001ull

/* Kinds of connections: enum conn_index of core/transport. */
#define RANK_CONN_INDEXES 7

struct ncclComm {
	struct registry_node node; /* must be first: node of the process' registry */
	uint64_t magic;
	int32_t rank, nranks;
	int32_t cuda_dev;
	char bus_id[24];                 /* bus id of cuda_dev, in lower case */
	int32_t local_rank, local_ranks; /* index on this host, and ranks of this host */
	/* The same on all ranks of the communicator; no two communicators share one. Until the ring
	 * of the bootstrap is complete it is the hash of the unique id. Changes under the
	 * registry's lock. */
	uint64_t id_hash;
	ncclConfig_t config;
	uint64_t allowed; /* programs that the environment allows: core/tune/allowed.h */

	struct bootstrap *bootstrap;
	struct peer_info *peers; /* [nranks] */
	int32_t *local_to_rank;  /* [local_ranks], in order of rank */
	char *topo_text; /* NCCL_TOPO_FILE, until the topology is built from it; NULL: no file */
	size_t topo_bytes;
	const struct topo_system *topo;
	struct topo_graph *graph[TOPO_PATTERNS]; /* graphs of this host */
	struct channel *channels;                /* [launch_channels] */
	int32_t nchannels;
	/* Channels of messages, at least nchannels. Channels from nchannels on have no ring and no
	 * tree. */
	int32_t pair_channels;
	/* At least pair_channels. Channels from pair_channels on have no connections; they serve
	 * messages of a rank to itself. */
	int32_t launch_channels;
	/* Ends of the connections of all algorithms (core/algo/algo.h), by number. */
	struct dev_edges edges[DEV_EDGE_SETS]; /* by steps_edges */
	struct conn_want *want;                /* [nends]: peer -1: this rank has no such end */
	int32_t nends;
	uint8_t protos[RANK_CONN_INDEXES]; /* bits, by enum conn_index: protocols with a buffer */
	uint32_t step_bytes[DEV_PROTO_COUNT]; /* bytes of a step of collectives */
	struct topo_summary summary; /* summary of all ranks' machines; zero if there is one rank */

	const struct transport *network; /* between hosts */

	/* State of the rooms, each owned by its room. */
	struct conn_table *conns; /* every connection end of this rank; NULL: no connection yet */
	struct net net;
	struct collnet *collnet; /* core/transport/collnet/collnet.h; NULL: no CollNet */
	struct p2p_state *p2p;   /* connection memory of transport_p2p; NULL: not yet made */
	struct shm_state *shm;   /* state of transport_shm; NULL: not yet made */
	struct letters *letters; /* core/transport/local/letters.h; NULL: the rank has no mailbox */
	/* core/transport/registered.h; NULL: no memory was registered */
	struct registered *registered;
	struct windows *windows; /* core/transport/windows.h; NULL: no window was made */
	struct proxy_state *proxy;
	/* [nranks]: routes of messages; NULL: all ranks are on this host. */
	struct relay_route *routes;
	struct relay_state *relays; /* set under both the registry's lock and `watch` */
	struct plan_state *plan;
	struct profiler_comm *profiler; /* core/profiler/profiler.h; NULL: no profiler plugin */
	struct comm_life *life;         /* core/comm/comm.h */

	struct dev_comm *dev;             /* device memory */
	struct dev_channel *dev_channels; /* in `dev`: the channels */
	struct dev_conn *dev_conns;       /* in `dev`: the connections of `conns`, by slot */
	/* Pinned host memory that kernels and every host wait poll; set by ncclCommAbort. */
	shared_u32 *abort;
	const shared_u32 *dev_abort; /* the same word, as kernels address it */
	void *staging;          /* pinned, after the abort word: buffer for copies to the device */
	shared_u32 async_error; /* ncclResult_t: the first error of a proxy or kernel */

	shared_u32 error_given; /* 1: a call has returned async_error */
	shared_u32 revoked;     /* 1: errors that follow from its end are not recorded */
	/* ncclResult_t that the RAS tasks have agreed on; 0: none. Any later error becomes this
	 * one, whatever a rank learns first. */
	shared_u32 verdict;
	shared_u64 verdict_until_ns; /* until then the RAS task will act on it */
	/* Address of the newest struct rank_cause: the verdict's text; 0: no verdict so far. */
	shared_u64 cause;

	struct os_mutex watch; /* serializes the tasks that check the bootstrap's ring */
	bool ring_broken;      /* the asynchronous error broke the ring; under `watch` */
	/* A call uses the bootstrap; other tasks do not check its ring. Changes under `watch`. */
	bool bootstrap_taken;

	/* GPU memory that the rank has allocated for the communicator, except what it shares with
	 * other communicators. Changed by calls that use the communicator. */
	uint64_t gpu_bytes;

	struct ras *ras; /* RAS task of the process; NULL: it has none, and `launches` stays zero */
	struct rank_launches launches;
	struct rank_calls *calls; /* last collectives; NULL: no RAS task */
	/* Numbers of messages; NULL: no RAS task, or no message yet. Changes under the registry's
	 * lock. */
	struct rank_pairs *pairs;
	shared_u64 *launch_order; /* of the process' RAS task: number of the next call; or NULL */
	uint64_t timeout_ns;      /* DOPPEL_TIMEOUT_MS; 0: no deadline */
	struct rank_timed timed;  /* launches with a deadline */
	/* [nranks]; NULL: not gathered, or no rank has RAS; changes under the registry's lock */
	struct rank_ras_peer *ras_peers;

	uint64_t op_count;   /* collectives launched so far */
	shared_u64 ops_seen; /* op_count for other tasks */
	/* Made at init, for copies that must not use the user's stream. */
	cudaStream_t internal_stream;
	/* Made at init. plan_launch records it after each launch, in the launch's stream, and
	 * orders launches in different streams by it. Teardown waits for it. The launches of a
	 * communicator of one rank have no order. Its internal stream waits for each of them, and
	 * teardown waits for this stream. */
	cudaEvent_t launch_done;
	bool launched; /* launch_done has been recorded */
	bool unmarked; /* CUDA did not record it after a launch: no event reports these kernels */
};

static inline bool rank_is_aborted(const struct ncclComm *comm)
{
	return comm->abort && shared_load_u32(comm->abort, SHARED_ACQUIRE);
}

/* Keeps the text of a verdict that follows, until rank_causes_free. The RAS task calls it. */
void rank_cause_keep(struct ncclComm *comm, const char *text);
void rank_causes_free(struct ncclComm *comm);
/* Makes the text of the communicator's verdict the process's latest error (log_error_again), and
 * returns it; NULL: the communicator has no verdict. */
const char *rank_cause_again(const struct ncclComm *comm);

/* Returns the error that a call or a task has met, or the verdict that is its cause. The text of
 * the latest error becomes the verdict's, too. */
static inline ncclResult_t rank_error(const struct ncclComm *comm, ncclResult_t error)
{
	uint32_t verdict =
		error && comm->ras ? shared_load_u32(&comm->verdict, SHARED_ACQUIRE) : ncclSuccess;

	if (!verdict)
		return error;
	(void)rank_cause_again(comm);
	return (ncclResult_t)verdict;
}

/* Shows the RAS task that a call which forms communicators, suspends or resumes begins to wait for
 * other ranks; `name` NULL: it has ended. See rank_timed_form. */
static inline void rank_forms(struct ncclComm *comm, const char *name, bool counts, int32_t peer)
{
	if (comm->ras)
		rank_timed_form(&comm->timed, comm->timeout_ns, name, counts, peer);
}

/* Records the first asynchronous error, and breaks the bootstrap's ring at this rank to inform the
 * other ranks. If a call uses the bootstrap, the ring is broken at the end of that call. Later
 * errors are only logged. Any task may call it, but not under `watch`. */
void rank_set_async_error(struct ncclComm *comm, ncclResult_t error);
/* Does the same for the error of a call on this communicator, also if it is revoked: a program that
 * polls learns of the call's failure from it alone. */
void rank_set_call_error(struct ncclComm *comm, ncclResult_t error);
/* Locks `watch` for a look at the ring. Without `must`, a communicator that has a deadline does not
 * wait for the task that owns the lock: that task may stall. False: not locked. WAITS if `must`, or
 * without a deadline. */
bool rank_watch_lock(struct ncclComm *comm, bool must);
/* Bracket a call that uses the bootstrap; an init has claimed it from the start. Until the release
 * the call itself detects that another rank fails, and other tasks do not check the bootstrap's
 * ring. */
void rank_bootstrap_claim(struct ncclComm *comm);
void rank_bootstrap_release(struct ncclComm *comm);
enum { RANK_WAITS = 2 };
/* Waits for conditions that become true only if other ranks do their part. Returns ncclSuccess when
 * one of the n waits (at most RANK_WAITS) is true. Returns an error if the communicator has one,
 * another rank has failed, or on abort. May return early. The caller has not claimed the
 * bootstrap. */
ncclResult_t rank_wait_beside(struct ncclComm *comm, const struct wait *waits, int n);

#endif
