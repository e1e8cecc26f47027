/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Relays from the inside: the memory that relay and user share, and what the files of this folder
 * share. relay.h has the picture. No other folder includes this file.
 */
#ifndef CORE_PROXY_RELAY_INTERNAL_H
#define CORE_PROXY_RELAY_INTERNAL_H

#include "core/proxy/relay/relay.h"

#define RELAY_AREA_MAGIC    0xd0de4105u
#define RELAY_OPS           PROXY_MAX_APPEND
#define RELAY_MESSAGE_CONNS 128 /* maximum of DOPPEL_PXN_CONNECTIONS */
#define RELAY_BOARD_MAGIC   0xd0de4103u
#define RELAY_CONNS_MOST    (DEV_MAX_CHANNELS * (1 + DEV_TREE_LINKS) + RELAY_MESSAGE_CONNS)
#define RELAY_NAME_BYTES    24
#define RELAY_NAME_AREA     UINT32_MAX /* number in the name of an area; connections count from 0 */
/* Number of local ranks that can be relays: a rank announces its relays as bits of 64. */
#define RELAY_FIRST 64

/* An operation in the ring. */
struct relay_op {
	uint64_t op_count, message, launch, nsteps;
	uint32_t conn; /* `conn` of the SETUP answer */
	uint8_t slice_steps, chunk_steps, protocol, pad0;
	uint32_t profile; /* the mask of events of the call */
	int32_t pid;      /* of the process whose call it is, for these events */
};
DOPPEL_CHECK_SIZE(struct relay_op, 48);

/* GPU memory of the relay for users' slots. */
struct relay_pool {
	cudaIpcMemHandle_t handle; /* for another process */
	uint64_t gpu;              /* address, for the same process; 0: no memory */
};
DOPPEL_CHECK_SIZE(struct relay_pool, 72);

/* Memory of a connection. */
struct relay_memory {
	uint64_t host; /* address, for the same process */
	uint64_t host_bytes;
	/* Offset of the slots from the start of GPU or host memory. */
	uint64_t offset[DEV_PROTO_COUNT];
	uint32_t on_gpu; /* bit p: the slots of protocol p are in GPU memory */
	uint32_t pad0;
};
DOPPEL_CHECK_OFFSET(struct relay_memory, offset, 16);

/* Answer to a CONNECT. */
struct relay_answer {
	shared_u32 done;
	int32_t result; /* ncclResult_t */
	struct relay_memory memory;
	void *host_made; /* same process: allocated host memory; freed with the area */
};
DOPPEL_CHECK_OFFSET(struct relay_answer, memory, 8);

#define RELAY_SENDS_NO_MORE UINT64_MAX
struct relay_area {
	uint32_t magic;
	shared_u32 refs; /* same process: number of ranks that use the area, at most 2 */
	/* user */
	shared_u32 requests; /* number of requests so far */
	shared_u32 gone;
	shared_u64 ops_put;
	/* relay */
	shared_u32 answers; /* number of requests received; SETUP and RESERVE count when answered */
	shared_u32 failed;  /* a connection has failed; the relay's communicator has the error */
	shared_u64 ops_taken;
	/* The request, then the answer to SETUP. */
	struct proxy_message m;
	/* SETUP: the answer's number of the connection. CONNECT: that number. RESERVE:
	 * number of connections, then the number granted or available. */
	uint32_t conn;
	uint32_t name; /* CONNECT: number in the name of the connection's host memory */
	struct relay_pool pool;
	/* First failure of the user's network; the user writes it before given_up. */
	struct net_failure failure;
	shared_u32 given_up;
	/* relay: number of operations that have been sent, or RELAY_SENDS_NO_MORE */
	shared_u64 ops_done;
	struct relay_answer answer[RELAY_CONNS_MOST]; /* index: `conn` */
	struct relay_op op[RELAY_OPS];                /* index: count % RELAY_OPS */
};
DOPPEL_CHECK_OFFSET(struct relay_area, m, 40);
DOPPEL_CHECK_OFFSET(struct relay_area, pool, 272);

/* Memory that a user's rings and trees need at its relay. It is the first message between the two
 * ranks. */
struct relay_need {
	uint64_t gpu_bytes; /* size of the pool */
};
DOPPEL_CHECK_SIZE(struct relay_need, 8);

/* ---- the board ------------------------------------------------------------------------------- */

/* The knock of one rank at another, and the answer. */
struct relay_knock {
	shared_u32 knocked;
	shared_u32 answer; /* enum relay_knock_answer */
};
enum relay_knock_answer { RELAY_KNOCK_NONE, RELAY_KNOCK_MADE, RELAY_KNOCK_FAILED };

/* The part of the board that belongs to one rank. */
struct relay_post {
	shared_u32 knocks; /* number of knocks so far, of all ranks */
	uint32_t serves;   /* 1: messages may go through the rank */
	struct relay_pool store;
	struct relay_knock of[TOPO_MAX_LOCAL]; /* index: local rank */
};
DOPPEL_CHECK_OFFSET(struct relay_post, of, 80);

/* Board of all ranks of a host that can share memory. The first of these ranks makes it. */
struct relay_board {
	uint32_t magic;
	/* In a process: number of ranks that use the board. In a segment: number of ranks
	 * that have yet to open it; the last one removes the segment's name. */
	shared_u32 refs;
	struct relay_post post[]; /* index: local rank */
};

/* GPU memory for the connections of messages, of one GPU and process. Main allocates it; only
 * service uses it. */
struct relay_store {
	void *mem;
	uint8_t *first; /* slots of the first connection */
	size_t bytes;   /* bytes of each connection */
	uint32_t count; /* number of connections */
	uint32_t room;  /* number of connections that no relay has reserved */
	uint32_t comms; /* communicators that have it; under store_lock */
	bool taken[RELAY_MESSAGE_CONNS];
};

/* ---- the relay's end ------------------------------------------------------------------------- */

struct relay {
	struct proxy_state state; /* state of the user's connections */
	/* main, before another task sees the relay; then read only */
	int32_t user;
	bool in_process;
	struct relay_area *area;
	struct wait request_wait, ops_wait, stop_wait, gone_wait;
	struct proxy_slot join; /* introduces the relay to progress */
	struct relay *next;     /* next relay of the communicator, under the registry's lock */

	void *pool; /* main: GPU memory for rings and trees; NULL: no memory */
	size_t pool_bytes;

	/* service */
	struct relay *service_next;
	struct proxy_call setup; /* the user's SETUP */
	size_t pool_used;
	/* Number of connections of messages whose slots are reserved and not in use. */
	uint32_t room;
	bool over;         /* no request follows: slots return to the store */
	uint32_t requests; /* number of requests received */
	uint32_t conns;

	/* service, before the user knows the connection's number; then read only */
	struct proxy_conn *conn[RELAY_CONNS_MOST];

	/* progress */
	struct relay *progress_next;
	uint64_t ops; /* number of operations received */

	shared_u32 progress_done; /* progress has forgotten the relay */
};

/* Makes the relay for a rank that has knocked (service). */
ncclResult_t relay_serve(struct proxy_gpu *p, struct ncclComm *comm, int32_t user);

/* Writes the name of a segment, without the directory. */
void relay_name(const struct ncclComm *comm, int32_t owner, int32_t user, uint32_t number,
		char name[RELAY_NAME_BYTES]);
/* Makes this rank's segment for `user`, or frees it. The free function unmaps the segment and
 * removes its name, if the user has not done so. */
ncclResult_t relay_segment_make(const struct ncclComm *comm, int32_t user, uint32_t number,
				size_t bytes, void **mem);
void relay_segment_free(const struct ncclComm *comm, int32_t user, uint32_t number, void *mem,
			size_t bytes);
void relay_name_remove(const struct ncclComm *comm, int32_t owner, int32_t user, uint32_t number);
/* Maps a segment that `owner` made for `user`. The caller removes the name. */
ncclResult_t relay_segment_map(struct ncclComm *comm, int32_t owner, int32_t user, uint32_t number,
			       size_t bytes, void **mem);
/* Drops a reference. The last of the two ranks of a process frees the area. */
void relay_area_unref(struct relay_area *area);

/* ---- the user's end -------------------------------------------------------------------------- */

struct relay_use {
	struct relay_use *next;
	struct ncclComm *comm;
	int32_t rank; /* rank of the relay */
	bool in_process;
	struct relay_area *area; /* NULL: not opened */
	uint8_t *pool, *store;   /* addresses for this rank's GPU */
	uint32_t requests;       /* number of requests so far */
	uint32_t names;          /* number of names used for connections' host memory */
	uint64_t ops;            /* number of operations put into the ring */
};

/* Route of messages to a rank: they leave the host by the topology's NIC `nic`, through the GPU and
 * the proxy of local rank `relay`. -1: through this rank's own proxy. `made`: the route is final.
 * Either the relay has reserved room, or no relay is used. */
struct relay_route {
	int16_t nic, relay;
	bool made;
};

/* State of a communicator as relay and as user. */
struct relay_state {
	/* Relays of ranks that send through this rank; under the registry's lock. */
	struct relay *users;
	struct relay_use *uses; /* relays that this rank sends through */

	/* main; then read only */
	uint64_t messages;         /* bits: local ranks that this rank's messages may go through */
	bool serves;               /* messages of other ranks may go through this one */
	int32_t leader;            /* rank that makes the board; -1: no board */
	bool has_store;            /* a reference to the store of the GPU */
	bool in_process;           /* all ranks that share the board are in this process */
	struct relay_board *board; /* NULL: no board, or not opened; under the registry's lock */
	/* Set if the service task serves knocks of this communicator, else NULL. */
	struct ncclComm *comm;

	/* service, once it serves knocks */
	struct wait knock_wait;
	struct relay_state *service_next;
};

/* ---- relay_use.c, relay_port.c --------------------------------------------------------------- */

ncclResult_t relay_state_make(struct ncclComm *comm);
ncclResult_t relay_use_open(struct ncclComm *comm, int32_t rank);
/* Reserves room for n connections of messages at that local rank; knocks first if needed. *room: n
 * if reserved, else the number available there. */
ncclResult_t relay_use_reserve(struct ncclComm *comm, int32_t local, uint32_t n, uint32_t *room);
void relay_uses_close(struct ncclComm *comm);
/* After an abort: removes the names of areas that a dead relay may not have removed. */
void relay_names_remove(const struct ncclComm *comm);
/* Returns the communicator's use of that local rank; NULL if it has no such use. */
struct relay_use *relay_use_find(const struct ncclComm *comm, int32_t local);
/* Adds a use with its area open; opens a segment and removes its name; opens the relay's GPU
 * memory. */
ncclResult_t relay_use_make(struct ncclComm *comm, int32_t rank, struct relay_use **out);
ncclResult_t relay_segment_open(const struct relay_use *use, uint32_t number, size_t bytes,
				void **mem);
ncclResult_t relay_pool_open(const struct relay_use *use, const struct relay_pool *pool,
			     uint8_t **out);
/* Logs that a connection through the relay has failed, unless it comes after another error of the
 * communicator. ncclRemoteError. */
ncclResult_t relay_has_failed(const struct relay_use *use);

/* ---- relay_route.c: the choice of relays ----------------------------------------------------- */

/* True if two ranks of the host, by local number, can share memory. */
bool relay_ranks_share(const struct ncclComm *comm, int32_t a, int32_t b);
/* Returns the memory that this rank's rings and trees need at that local rank. */
struct relay_need relay_need_of(struct ncclComm *comm, int32_t local);
/* Returns the bytes of GPU memory for the slots of one connection of messages. */
size_t relay_message_bytes(struct ncclComm *comm);

/* ---- relay_board.c --------------------------------------------------------------------------- */

/* Main, at init: relay_board_make runs before ranks gather; only the leader makes the board.
 * relay_board_open runs after it, on all ranks. A rank that serves then begins to accept knocks. */
ncclResult_t relay_board_make(struct ncclComm *comm);
ncclResult_t relay_board_open(struct ncclComm *comm);
/* Main: the service task accepts no more knocks for this communicator. */
void relay_board_leave(struct ncclComm *comm);
void relay_board_close(struct ncclComm *comm, struct relay_state *st);
/* Main: no relay of the communicator uses the store any longer. Accepts a state without one. */
void relay_store_put(const struct ncclComm *comm, const struct relay_state *st);
/* Service: reserves n connections of the store for a relay and returns n. If fewer are available,
 * reserves none and returns the number available. */
uint32_t relay_store_reserve(struct relay *r, uint32_t n);
ncclResult_t relay_store_take(struct relay *r, struct proxy_conn *pc);
void relay_store_give(struct relay *r, struct proxy_conn *pc);

#endif
