/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The communicator: what one rank knows and owns. Made by comm_init, which takes the rank through
 *
 *   bootstrap -> gather peer_info -> check versions, duplicates -> topology, paths, ring search ->
 *   gather graphs -> rings, channels -> proxy -> connect transports -> device communicator ->
 *barrier
 *
 * and torn down in reverse. core/api checks arguments and calls in here; core/plan uses it to
 *launch. Owned by the rank's main task; what other agents touch is a shared word and says so.
 *
 * Life:
 *
 *	INIT --comm_init--> READY ---------comm_finalize----------> FINALIZED
 *	  |                   |                                       ^ |
 *	  |                   +--> FINALIZING (non-blocking) --done---+ |
 *	  |                   |        |                                |
 *	  +-- one task claims it (comm_claim): no other task may enter after that --+
 *	                      |
 *	      comm_close: quiet (kernels gone), then parked until every communicator
 *	      of this process that has the same id is parked: peers in one process use
 *	      each other's memory. The last one releases all of them.
 *
 * Between a comm_enter that succeeded and its comm_leave the communicator is not freed. A claim by
 * abort sets the abort word, which ends every wait of those who are inside.
 */
#ifndef CORE_COMM_COMM_H
#define CORE_COMM_COMM_H

#include <cuda_runtime_api.h>

#include "core/base/shared.h"
#include "core/bootstrap/bootstrap.h"
#include "core/comm/registry.h"
#include "core/device/work.h"
#include "core/include/nccl.h"
#include "core/os/os.h"
#include "core/topo/topo.h"

struct comm_op;
struct conn;
struct conn_table;
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
	uint64_t dev_bytes;
	int32_t min_channels, max_channels; /* what this rank asks for */
	uint8_t pad0[16];
};
DOPPEL_CHECK_SIZE(struct peer_info, 96);
#define PEER_INFO_MAGIC 0xd0de1001u

struct channel {
	int32_t id;
	int32_t ring_prev, ring_next, ring_index;
	int32_t nic_in,
		nic_out; /* topology's NIC index where the ring enters and leaves here; -1 */
	struct conn *ring_recv, *ring_send;
};

enum comm_state { COMM_INIT, COMM_READY, COMM_FINALIZING, COMM_FINALIZED };

#define COMM_MAGIC 0xd0de0c0331337001ull

struct ncclComm {
	struct registry_node node; /* first: in the process' registry */
	uint64_t magic;
	/* these three change under the registry's lock */
	enum comm_state state;
	bool claimed;     /* being destroyed or aborted: nobody enters any more */
	bool parked;      /* quiet, waits for the others of this process to be released */
	shared_u32 users; /* calls inside, init included */
	struct ncclComm *release_next; /* chain of those that are released together */
	struct os_thread *init_task;   /* of a non-blocking init; joined when it is closed */
	ncclUniqueId id;
	int32_t rank, nranks;
	int32_t cuda_dev;
	int32_t local_rank, local_ranks; /* on this host */
	/* Same on all ranks of the communicator, different for any two. Until its bootstrap's ring
	 * stands it is the unique id's. Changes under the registry's lock. */
	uint64_t id_hash;
	ncclConfig_t config;
	char name[64];

	struct bootstrap *bootstrap;
	struct peer_info *peers; /* [nranks] */
	int32_t *local_to_rank;  /* [local_ranks], in order of rank */
	const struct topo_system *topo;
	struct topo_graph *ring_graph;
	struct channel *channels; /* [nchannels] */
	int32_t nchannels;
	/* [rings * nranks]: the distinct rings by position, until the device has them; channel c is
	 * ring c % rings */
	int32_t *ring_ranks;
	int32_t rings;

	struct proxy_state *proxy;
	struct conn_table *conns; /* every connection end of this rank; NULL: none yet */
	struct net_state *net;    /* net_verbs' per-communicator state */
	struct p2p_state *p2p; /* transport_p2p's connection memory, NULL: none yet */
	struct plan_state *plan;

	struct comm_op *ops; /* [op_room], by slot (ops.h) */
	uint32_t op_room;
	uint32_t op_tag; /* in the numbers of `ops`; changes under the registry's lock */

	struct dev_comm *dev; /* device memory */
	/* Pinned host memory that kernels and every host wait poll; set by ncclCommAbort. */
	shared_u32 *abort;
	void *staging;         /* pinned, behind the abort word: for copies to the device at init */
	struct os_mutex watch; /* one task at a time looks at the bootstrap's ring */
	bool ring_broken;      /* it did, and another rank has failed; under `watch` */
	bool bootstrap_taken;  /* a call uses the bootstrap: no task looks at it; under `watch` */
	shared_u32 async_error; /* ncclResult_t: the first error of a proxy or a kernel */

	uint64_t op_count;            /* collectives launched so far */
	cudaStream_t internal_stream; /* made at init, for copies that must not use the user's */
	/* Made at init; plan_launch records it behind each launch, in the launch's stream, and
	 * orders launches in different streams by it. Teardown waits for it. */
	cudaEvent_t launch_done;
	bool launched; /* launch_done has been recorded */
};

#define COMM_PINNED_ABORT_BYTES 128

/* Allocates a communicator in state INIT with its abort word, and registers it with one user, the
 * init to come. `config` is complete (comm_config_parse). */
ncclResult_t comm_create(struct ncclComm **comm, int nranks, const ncclUniqueId *id, int rank,
			 const ncclConfig_t *config);
/* Joins; all ranks call it together. On success READY; on an error the abort word is set and the
 * other ranks are told. The caller ends the init's use (comm_leave) afterwards. */
ncclResult_t comm_init(struct ncclComm *comm);
/* Checks the program's config (NULL: defaults), fills in defaults and environment. */
ncclResult_t comm_config_parse(const ncclConfig_t *config, ncclConfig_t *out);

/* What a call needs of its communicator. */
enum comm_need {
	COMM_NEED_ANY,   /* it exists */
	COMM_NEED_INIT,  /* init is complete, maybe finalized */
	COMM_NEED_READY, /* it can run collectives */
};
/* Checks `comm` without reading it before it is known to exist, and uses it until comm_leave.
 * `call` names the public function in the error. A communicator with an asynchronous error gives
 * that error to whoever needs more than that it exists: the next call learns of it. */
ncclResult_t comm_enter(struct ncclComm *comm, const char *call, enum comm_need need);
void comm_leave(struct ncclComm *comm);
/* Is the init under way? The caller has entered. */
bool comm_in_init(struct ncclComm *comm);

/* Waits until what was launched is complete. */
ncclResult_t comm_finalize(struct ncclComm *comm);
/* The same without waiting: ncclInProgress. comm_progress finds out when it is complete, and
 * comm_finalize still may wait for that. */
ncclResult_t comm_finalize_begin(struct ncclComm *comm);
/* One look at what is under way: ncclInProgress, or ncclSuccess when nothing is, or the error that ended
 * it, which is the communicator's from then on. The caller has entered. Any task. */
ncclResult_t comm_progress(struct ncclComm *comm);
/* True for one caller only: it must comm_close. */
bool comm_claim(struct ncclComm *comm);
/* Sets the abort word of a communicator that exists, claimed or not; false: there is none. */
bool comm_abort_set(struct ncclComm *comm);
/* After comm_claim: ends the communicator. With the abort word set, or after an asynchronous
 * error, it waits for no other rank. Restores the caller's device. */
void comm_close(struct ncclComm *comm);

/* The calling task's current device, and back to it. Whatever works on several communicators does
 * this once around all of them. A device that cannot be found out is -1, and left as it is. */
int comm_device_save(void);
void comm_device_restore(int before);

/* The first asynchronous error so far, of this rank or of any other: looks whether the others are
 * still there, and has them know when this rank has failed. The caller has entered. Any task. */
ncclResult_t comm_async_error(struct ncclComm *comm);
/* For a call that uses the bootstrap after init: in between, other tasks do not watch its ring, which
 * the call does by itself. */
void comm_bootstrap_claim(struct ncclComm *comm);
void comm_bootstrap_release(struct ncclComm *comm);
/* Records the first asynchronous error; later ones are only logged. Any task. */
void comm_set_async_error(struct ncclComm *comm, ncclResult_t error);

#endif
