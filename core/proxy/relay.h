/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PXN: a rank sends by way of another GPU of its host, the relay, which is next to the NIC. The
 * slots of the connection are in the relay's GPU memory, where the sender's kernel writes them over
 * NVLink, and the relay's proxy hands them to the network. The receiving end does not differ.
 *
 *	sender                                            relay
 *	main task ---- requests, operations ---> [area] ---> service, progress
 *	          <--- answers, errors ---------
 *	kernel ------- data -------------------> [slots in the relay's GPU memory] ---> NIC
 *	          ---- tail, fifo, lines ------> [host memory of the connection] <----- progress
 *	          <--- head --------------------
 *
 * An area is memory of the host that the two ranks share: a segment of /dev/shm, or memory of their
 * process. One request at a time is in it, an answer for each connection, and operations in a ring.
 * The connection's host memory is such memory too; it is made with the connection, and the sender
 * pins it. For rings and trees the relay makes the area at init, for each rank that announced that
 * it sends through it. For messages the relay's service task makes it, at the sender's first
 * message: the sender writes a knock on the board, which is memory that all ranks of the host
 * share.
 *
 *	sender                                    relay
 *	main task ---- knock ---> [board] ------> service: makes the area
 *	          <--- answer ---
 *
 * GPU memory for slots is set aside at init. Messages connect when kernels of the relay may run
 * that wait for the sender, and the relay's proxy then makes no call that may wait for them. The
 * pool is for the rings and trees of one sender. The store is for messages: slots for
 * DOPPEL_PXN_CONNECTIONS connections, of all senders and all communicators that the GPU has in the
 * process. A sender reserves slots for all channels to a rank. Where there are not enough, its own
 * proxy sends. A connection's slots go back to the store when it ends.
 *
 * relay.c is the relay's end (struct relay): its connections have a struct proxy_state of their
 * own, whose communicator is the relay's. relay_board.c has board and store. relay_use.c is the
 * sender's end (struct relay_use). relay_route.c has which connections go through which rank.
 *
 * The end. The sender closes what it opened, sets `gone`, and leaves the bootstrap. The relay
 * leaves the bootstrap and waits until the sender has left, or died; then it closes the
 * connections. Each counts on nothing of the other after that. A connection that fails is an error
 * of the relay's communicator, and to the sender the failure of another rank. A sender that gives
 * up leaves its network's first failure in the area, and the connections that it has at the relay
 * pass it on as they close.
 */
#ifndef CORE_PROXY_RELAY_H
#define CORE_PROXY_RELAY_H

#include "core/proxy/proxy_internal.h"

#define RELAY_AREA_MAGIC    0xd0de4102u
#define RELAY_OPS           PROXY_MAX_APPEND
#define RELAY_MESSAGE_CONNS 128 /* most that DOPPEL_PXN_CONNECTIONS may be */
#define RELAY_BOARD_MAGIC   0xd0de4103u
#define RELAY_CONNS_MOST    (DEV_MAX_CHANNELS * (1 + DEV_TREE_LINKS) + RELAY_MESSAGE_CONNS)
#define RELAY_NAME_BYTES    24
#define RELAY_NAME_AREA     UINT32_MAX /* the number in the area's name; a connection's is its count */
#define RELAY_FIRST         64 /* local ranks that can be relays: a rank announces them in 64 bits */

/* An operation in the ring. */
struct relay_op {
	uint64_t op_count, message, launch, nsteps;
	uint32_t conn; /* the answer's `conn` */
	uint32_t slice_steps, chunk_steps;
	uint32_t protocol;
};
DOPPEL_CHECK_SIZE(struct relay_op, 48);

/* GPU memory of the relay for the sender's slots. */
struct relay_pool {
	cudaIpcMemHandle_t handle; /* for another process */
	uint64_t gpu;              /* address, for the same process; 0: there is none */
};
DOPPEL_CHECK_SIZE(struct relay_pool, 72);

/* Where the memory of a connection is. */
struct relay_memory {
	uint64_t host; /* address, for the same process */
	uint64_t host_bytes;
	uint64_t offset[DEV_PROTO_COUNT]; /* of the slots, in the pool or in host memory */
	uint32_t on_gpu;                  /* bit p: those of protocol p are in the pool */
	uint32_t pad0;
};
DOPPEL_CHECK_OFFSET(struct relay_memory, offset, 16);

/* To a CONNECT. */
struct relay_answer {
	shared_u32 done;
	int32_t result; /* ncclResult_t */
	struct relay_memory memory;
	void *host_made; /* same process: the host memory as it was made; it goes with the area */
};
DOPPEL_CHECK_OFFSET(struct relay_answer, memory, 8);

#define RELAY_SENDS_NO_MORE UINT64_MAX
struct relay_area {
	uint32_t magic;
	shared_u32 refs; /* same process: the two ranks */
	/* sender */
	shared_u32 requests; /* so far */
	shared_u32 gone;
	shared_u64 ops_put;
	/* relay */
	shared_u32 answers; /* requests taken; of SETUP, answered */
	shared_u32 failed;  /* one of its connections has; its own communicator has the error */
	shared_u64 ops_taken;
	/* The request, then SETUP's answer. */
	struct proxy_message m;
	uint32_t
		conn; /* SETUP's answer; CONNECT: which, for operations; RESERVE: how many, and its answer */
	uint32_t name; /* CONNECT: number in the name of the connection's host memory */
	struct relay_pool pool;
	struct net_failure failure; /* of the sender's network, the first one; then given_up */
	shared_u32 given_up;
	shared_u64 ops_done; /* relay: those before it have been sent, or RELAY_SENDS_NO_MORE */
	struct relay_answer answer[RELAY_CONNS_MOST]; /* by `conn` */
	struct relay_op op[RELAY_OPS];                /* by count % RELAY_OPS */
};
DOPPEL_CHECK_OFFSET(struct relay_area, m, 40);
DOPPEL_CHECK_OFFSET(struct relay_area, pool, 272);

/* What the rings and trees of a sender need of its relay; the first message between the two. */
struct relay_need {
	uint64_t gpu_bytes; /* of the pool */
};
DOPPEL_CHECK_SIZE(struct relay_need, 8);

/* ---- the board ------------------------------------------------------------------------------- */

/* One rank's knock at another one, and the answer. */
struct relay_knock {
	shared_u32 knocked;
	shared_u32 answer; /* enum relay_knock_answer */
};
enum relay_knock_answer { RELAY_KNOCK_NONE, RELAY_KNOCK_MADE, RELAY_KNOCK_FAILED };

/* A rank's part of the board. */
struct relay_post {
	shared_u32 knocks; /* so far, of all ranks */
	uint32_t serves;   /* 1: messages may go through the rank */
	struct relay_pool store;
	struct relay_knock of[TOPO_MAX_LOCAL]; /* by local rank */
};
DOPPEL_CHECK_OFFSET(struct relay_post, of, 80);

/* Of all ranks of a host that can share memory. The first of them makes it. */
struct relay_board {
	uint32_t magic;
	shared_u32
		refs; /* ranks of the process; of a segment those that have yet to open it: the last removes its name */
	struct relay_post post[]; /* by local rank */
};

/* GPU memory for the connections of messages, of one GPU and process. Main makes it; all else is
 * service's. */
struct relay_store {
	void *mem;
	uint8_t *first; /* slots of the first connection */
	size_t bytes;   /* of each connection */
	uint32_t count; /* connections */
	uint32_t room;  /* that no relay has */
	bool taken[RELAY_MESSAGE_CONNS];
};

/* ---- the relay's end ------------------------------------------------------------------------- */

struct relay {
	struct proxy_state state; /* of the connections */
	/* main, before another task sees it; then read only */
	int32_t user;
	bool in_process;
	struct relay_area *area;
	struct wait request_wait, ops_wait, stop_wait, gone_wait;
	struct proxy_slot join; /* what progress learns of it by */
	struct relay *next;     /* of the communicator's, under the registry's lock */

	void *pool; /* main: GPU memory for rings and trees; NULL: none */
	size_t pool_bytes;

	/* service */
	struct relay *service_next;
	struct proxy_call setup; /* the user's */
	size_t pool_used;
	uint32_t room; /* connections of messages that have their slots reserved, and not taken */
	bool over;     /* no request follows: slots go back to the store */
	uint32_t requests; /* taken */
	uint32_t conns;

	/* service, before the user knows the connection's number; then read only */
	struct proxy_conn *conn[RELAY_CONNS_MOST];

	/* progress */
	struct relay *progress_next;
	uint64_t ops; /* taken */

	shared_u32 progress_done; /* progress does not know it any longer */
};

/* service.c: takes up a request. */
void proxy_service_request(struct proxy_gpu *p, struct proxy_call *call);
/* Service: a request of a rank that sends through this one. */
bool relay_service_take(struct proxy_gpu *p);
void relay_service_waits(const struct proxy_gpu *p, struct proxy_waits *waits);
/* Service: the relay of the call begins, or ends. */
void relay_service_join(struct proxy_gpu *p, struct relay *r);
void relay_service_leave(struct proxy_gpu *p, struct relay *r);
/* Service: to a request that came through an area; `pc` is what a SETUP made, NULL: nothing. */
void relay_answer(struct proxy_call *call, struct proxy_conn *pc);
/* Did the request come through an area? */
static inline bool relay_is_request(const struct proxy_call *call)
{
	return call->relay && (call->m.command == PROXY_SETUP || call->m.command == PROXY_CONNECT);
}
/* Progress: operations of ranks that send through this one. True: there were some. */
bool relay_progress_take(struct proxy_gpu *p);
void relay_progress_join(struct proxy_gpu *p, struct relay *r);
void relay_progress_waits(const struct proxy_gpu *p, struct proxy_waits *waits);
/* Has the user left, or is it to be regarded so? */
bool relay_is_over(const struct relay *r);
/* A connection failed: the user's communicator has ncclRemoteError from now on. */
void relay_fail(struct relay *r);

/* The connection's memory, of its own, and of the store or the pool (service). What is of the pool
 * stays so to the end. */
ncclResult_t relay_memory_make(struct proxy_conn *pc, size_t host_bytes, size_t gpu_bytes);
void relay_memory_free(struct proxy_conn *pc);

/* Makes the relay for a rank that has knocked (service). */
ncclResult_t relay_serve(struct proxy_gpu *p, struct ncclComm *comm, int32_t user);

/* Name of a segment, without the directory. */
void relay_name(const struct ncclComm *comm, int32_t owner, int32_t user, uint32_t number,
		char name[RELAY_NAME_BYTES]);
/* The owner's segment for that user: makes it, or unmaps it and removes its name if the user has
 * not. */
ncclResult_t relay_segment_make(const struct ncclComm *comm, int32_t user, uint32_t number,
				size_t bytes, void **mem);
void relay_segment_free(const struct ncclComm *comm, int32_t user, uint32_t number, void *mem,
			size_t bytes);
void relay_name_remove(const struct ncclComm *comm, int32_t owner, int32_t user, uint32_t number);
/* A segment of another rank. Opens it; `user`'s own loses its name. */
ncclResult_t relay_segment_map(struct ncclComm *comm, int32_t owner, int32_t user, uint32_t number,
			       size_t bytes, void **mem);
/* The last of the two ranks of a process frees it. */
void relay_area_unref(struct relay_area *area);

/* ---- the sender's end ------------------------------------------------------------------------ */

struct relay_use {
	struct relay_use *next;
	struct ncclComm *comm;
	int32_t rank; /* the relay */
	bool in_process;
	struct relay_area *area; /* NULL: not opened */
	uint8_t *pool, *store;   /* as this rank's GPU has them */
	uint32_t requests;       /* so far */
	uint32_t names;          /* of connections' host memory */
	uint64_t ops;            /* put */
};

/* How messages to a rank leave this host: by the topology's NIC, through the GPU and the proxy of
 * that local rank, -1: by this rank's own proxy. Once `made`, that has room for the connections. */
struct relay_route {
	int16_t nic, relay;
	bool made;
};

/* What a communicator has of both kinds. */
struct relay_state {
	struct relay *users;    /* those that send through this rank; under the registry's lock */
	struct relay_use *uses; /* those that this rank sends through */

	/* main; then read only */
	uint64_t messages;         /* local ranks that this rank's messages may go through */
	bool serves;               /* messages of other ranks may go through this one */
	int32_t leader;            /* the rank that makes the board; -1: there is none */
	bool in_process;           /* all ranks that share the board are of this process */
	struct relay_board *board; /* NULL: none, or not opened; under the registry's lock */
	struct ncclComm *comm;     /* where the service task takes knocks; NULL: it takes none */

	/* service, once it takes knocks */
	struct wait knock_wait;
	struct relay_state *service_next;
};

/* Releases both kinds; WAITS for users to leave. */
void relay_state_close(struct ncclComm *comm);
ncclResult_t relay_state_make(struct ncclComm *comm);
ncclResult_t relay_use_open(struct ncclComm *comm, int32_t rank);
/* Reserves room for n connections of messages at that local rank, the first time with a knock.
 * *room: n, or what is left there. */
ncclResult_t relay_use_reserve(struct ncclComm *comm, int32_t local, uint32_t n, uint32_t *room);
void relay_uses_close(struct ncclComm *comm);
/* After an abort: areas that a relay which died may have left. */
void relay_names_remove(const struct ncclComm *comm);
/* The communicator's use of that local rank; NULL: none. */
struct relay_use *relay_use_find(const struct ncclComm *comm, int32_t local);

/* ---- which: relay_route.c -------------------------------------------------------------------- */

/* Can two ranks of the host, by local number, share memory? */
bool relay_ranks_share(const struct ncclComm *comm, int32_t a, int32_t b);
/* What this rank's rings and trees need of that local rank. */
struct relay_need relay_need_of(struct ncclComm *comm, int32_t local);
/* GPU memory for the slots of one connection of messages. */
size_t relay_message_bytes(struct ncclComm *comm);
/* The NIC by which a connection leaves or enters the host, and the relay that it goes through.
 * NULL: none. */
ncclResult_t relay_route_take(const struct conn *c, int32_t *nic, struct relay_use **use);

/* ---- relay_board.c
 * ---------------------------------------------------------------------------- */

/* Main, at init: the leader makes the board before ranks gather, and the others open it after. A
 * rank that serves takes knocks from then on. */
ncclResult_t relay_board_make(struct ncclComm *comm);
ncclResult_t relay_board_open(struct ncclComm *comm);
/* Main: the service task takes no knock of this communicator any longer. */
void relay_board_leave(struct ncclComm *comm);
void relay_board_close(struct ncclComm *comm, struct relay_state *st);
/* Service: knocks at ranks of this GPU. */
bool relay_knocks_take(struct proxy_gpu *p);
void relay_board_join(struct proxy_gpu *p, struct relay_state *st);
void relay_board_part(struct proxy_gpu *p, struct relay_state *st);
/* Service: room of the store for a relay. Gives n, or what is left. */
uint32_t relay_store_reserve(struct relay *r, uint32_t n);
ncclResult_t relay_store_take(struct relay *r, struct proxy_conn *pc);
void relay_store_give(struct relay *r, struct proxy_conn *pc);
/* Main, with the last communicator of the GPU. */
void relay_store_free(struct proxy_gpu *p);

/* ---- connections ----------------------------------------------------------------------------- */

/* As proxy_setup, proxy_connect and proxy_close, for a port with a `use`. */
ncclResult_t relay_setup(struct proxy_port *port);
ncclResult_t relay_connect(struct conn *c, const struct connect_info *theirs, struct wait *w);
void relay_close(struct proxy_port *port);
/* Puts an operation into the ring; WAITS for room. The relay learns of it at the next
 * relay_ops_show. */
ncclResult_t relay_op_put(const struct proxy_op *op, uint64_t launch);
void relay_ops_show(struct ncclComm *comm);

#endif
