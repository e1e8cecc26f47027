/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of core/proxy share: the proxy of a GPU, a communicator's part of it, connections,
 * and the operation that runs on each. The comment of a field names the task that may touch it:
 * "main" is the main task of the communicator's rank, "service" and "progress" are the proxy's two
 * tasks. A field that two of them touch is a shared word, or is written before a shared word that
 * the other task reads first.
 */
#ifndef CORE_PROXY_PROXY_INTERNAL_H
#define CORE_PROXY_PROXY_INTERNAL_H

#include "core/rank/registry.h"
#include "core/proxy/message.h"
#include "core/proxy/proxy.h"
#include "core/transport/net.h"
#include "core/transport/transport_internal.h"

#define PROXY_SLOTS       (2 * PROXY_MAX_APPEND)
#define PROXY_SLOTS_FIRST 64u
#define PROXY_RUN_WAITS   4
#define PROXY_TASK_WAITS  2 /* for new work, and to be stopped */
/* of a connection in each task, with its communicator's own */
#define PROXY_PROGRESS_WAITS (PROXY_RUN_WAITS + 3)
#define PROXY_SERVICE_WAITS  2
/* of a relay in each task */
#define PROXY_RELAY_WAITS 2

/* ---- ops.c: lists between tasks ------------------------------------------------------------- */

/* First in what crosses. The task that owns the node reads and writes it. */
struct proxy_node {
	struct proxy_node *next;
};

/* A stack of nodes that any task may push, and one task takes whole. Zeroed memory is an empty
 * one. */
struct proxy_posted {
	shared_u64 head; /* the newest node's address */
};
/* Pushes a chain, newest first, from `newest` to `oldest`. */
void proxy_posted_push(struct proxy_posted *list, struct proxy_node *newest,
		       struct proxy_node *oldest);
/* Takes everything: the oldest node, which leads to the newest; NULL: nothing there. */
struct proxy_node *proxy_posted_take(struct proxy_posted *list);
/* For nodes that a task of `rank`, named by `object`, pushes. */
struct wait proxy_posted_wait(const struct proxy_posted *list, int32_t rank, const char *why,
			      const char *object);

/* ---- requests: the main task's end of a connection ------------------------------------------ */

/* Where head, tail, fifo and slots of a connection are. */
struct proxy_memory {
	void *host; /* pinned: head, tail, fifo, and the slots that are not on the GPU */
	void *gpu;  /* the slots that are; NULL: none */
};

/* A message to the service task, and what only a caller in the same process has. Belongs to the
 * service task from the push until `answered`, which a CONNECT never is when a CLOSE overtakes
 * it. */
struct proxy_call {
	struct proxy_node node;
	struct proxy_message m;
	struct proxy_state *proxy;  /* of the caller's communicator */
	struct relay *relay;        /* relay.h: it came through an area, or is about it; NULL */
	struct proxy_conn *conn;    /* with the answer of a SETUP: what the kernel needs is there */
	struct proxy_memory memory; /* with a PREPARE */
	bool again;                 /* with its answer */
	shared_u32 answered;
};

/* main */
struct proxy_port {
	struct proxy_state *proxy;
	struct proxy_conn *conn; /* NULL: not set up */
	uint32_t number;         /* conn's, for messages; 0: not set up */
	bool connecting;         /* CONNECT was sent */
	bool preparing;          /* so was PREPARE */
	int32_t channel;
	struct proxy_memory memory;
	struct proxy_call setup, connect, prepare, close;
	/* PXN (relay_use.c) */
	struct relay_use *use; /* NULL: the connection is this rank's proxy's */
	uint32_t relayed;      /* its number for operations */
	uint32_t name;         /* its number in the host memory's name */
	size_t host_bytes;
	uint8_t *host, *host_device; /* the host memory, for host and GPU */
	uint8_t *slots[DEV_PROTO_COUNT];
};

/* ---- an operation that runs ----------------------------------------------------------------- */

/* The front operation of a connection (progress). Counts are in steps from `base`, all go up by
 * slice_steps to nsteps, and each is at most the one before:
 *
 *   send   posted       given to the kernel to fill (its credit is head = base + done)
 *          transmitted  filled, and handed to the network
 *          done         completed; the slot is free again
 *
 *   recv   posted       a receive is posted in the network
 *          received     the data came
 *          flushed      GPU memory has it (equal to received where no flush is needed)
 *          transmitted  shown to the kernel (tail = base + transmitted)
 *          done         the kernel has taken it
 *
 * posted never exceeds done + DEV_STEPS. */
struct proxy_run {
	bool active;
	struct proxy_slot *slot; /* of the pool; given back at the end */
	struct proxy_op op;
	uint64_t base; /* the connection's step, rounded up to the chunk */
	uint64_t posted, received, flushed, transmitted, done;
	/* by step % DEV_STEPS, of a slice's first step */
	struct net_request *req[DEV_STEPS]; /* send */
	struct proxy_receive {
		struct proxy_group *group; /* that the slice was posted with */
		uint32_t index;            /* its place there */
	} receive[DEV_STEPS];
	size_t bytes[DEV_STEPS]; /* recv: what came in */
	uint32_t lines;          /* LL, send: of the next slice, those that are filled */
	struct net_request *flush_req;
	struct wait wait[PROXY_RUN_WAITS]; /* of the last pass: what each stage waits for */
	int nwaits;
};

/* ---- a connection of the network ------------------------------------------------------------ */

/* Receives that are posted together: one for each of some connections of a link. */
struct proxy_group {
	struct net_request *req;
	uint32_t slices; /* that were not taken yet; 0: not in use */
	bool done;
	size_t bytes[NET_MAX_RECVS];
};

/* What the network connects. Proxy connections of a pair of ranks, one for each channel, share one
 * per direction and device (NCCL_NET_SHARED_COMMS, and a network with tags). The receiving end
 * decides: it gives one handle to all that share, and the sending end shares by the handle. */
struct proxy_link {
	/* service */
	struct proxy_link *next; /* of the GPU's */
	struct ncclComm *comm;
	const struct net_ops *net;
	struct net_who who;
	bool is_send, shared;
	uint32_t refs;
	struct net_nic nic;
	struct net_handle handle;
	void *listen, *pending;
	struct wait wait; /* of connecting: a step may leave the one before */
	ncclResult_t failed;

	/* service writes while it connects, then read only */
	void *net_comm;
	int max_recvs;

	/* progress */
	struct proxy_conn *members; /* those that it knows, by channel */
	struct proxy_group group[NET_MAX_REQUESTS];
};

/* ---- a network connection ------------------------------------------------------------------- */

/*
 *  SETUP            CONNECT          connected            PREPARE             registered
 *   NEW ------> SET_UP ----> CONNECTING ------> CONNECTED ------> PREPARING ------> READY
 *    |             |            |  |                |  ^   again    |  |              |
 *    |             |            |  |                |  +------------+  |              |
 *    |             |            |  +----> FAILED <--|---------------+  |              |
 *    |             |            |  error    |       |         error    |              |
 *    |             +------------+-----------+-------+------------------+--------------+
 *    |                                      | CLOSE
 *    |                                      v
 *    |                                   DRAINING
 *    | error                                |
 *    +----------> released <----------------+
 *
 * A relay's connection goes from CONNECTING to PREPARING by itself. DRAINING waits until progress
 * has no operation of this connection left.
 */
enum proxy_conn_state {
	PROXY_CONN_NEW,
	PROXY_CONN_SET_UP,
	PROXY_CONN_CONNECTING,
	PROXY_CONN_CONNECTED,
	PROXY_CONN_PREPARING,
	PROXY_CONN_READY,
	PROXY_CONN_FAILED,
	PROXY_CONN_DRAINING,
};
const char *proxy_conn_state_name(enum proxy_conn_state s);

/* The slots of one protocol. */
struct proxy_buffer {
	uint8_t *at; /* NULL: the connection has none */
	size_t bytes;
	uint32_t step_bytes;
	bool on_gpu;
	void *mr;
};

struct proxy_conn {
	/* service, before another task sees it; then read only */
	struct proxy_state *proxy;
	struct ncclComm *comm;
	uint32_t number; /* gpu->conn[number - 1] */
	int32_t rank, peer, channel, nic;
	bool is_send;
	uint8_t conn_index; /* enum conn_index */

	/* service */
	enum proxy_conn_state state;
	struct proxy_call *call;         /* the request it is working on; NULL: none */
	struct proxy_conn *working_next; /* of those with a request */
	struct net_info mine, theirs;
	struct net_nic net_nic; /* the network's devices of `nic` */
	struct proxy_link *link;
	struct wait wait;

	/* service writes until READY, then read only */
	void *net_comm;
	struct proxy_memory memory;    /* the rank's, which outlives the connection; or a relay's */
	void *host_made;               /* a relay's host memory for another process: its segment, */
	size_t host_bytes;             /* its bytes, */
	uint32_t host_name;            /* and the number in the name of a segment */
	uint32_t store_place;          /* 1...: its place in the store of a relay; 0: none */
	uint32_t relay_conn;           /* its number for the user of a relay, */
	struct proxy_call relayed;     /* and the user's CONNECT */
	struct dev_send_mem *send_mem; /* head */
	struct dev_recv_mem *recv_mem; /* tail, fifo */
	struct proxy_buffer buffer[DEV_PROTO_COUNT];
	bool flush;  /* what is received on the GPU */
	bool staged; /* the slots have moved to host memory */

	/* main adds, progress subtracts one per operation; progress adds one while it knows the
	 * connection */
	shared_u32 ops_live;

	/* progress */
	uint64_t step; /* next step, as the kernel keeps its own */
	uint64_t head_shown;
	struct proxy_slot *queue_first, *queue_last; /* after the running one */
	bool failed, known;
	struct proxy_conn *active_next, *known_next, *member_next;
	struct proxy_run run;
	struct wait check_wait;
};

/* ---- a communicator's part ------------------------------------------------------------------ */

struct proxy_slot {
	struct proxy_node node;  /* first: in a list, or in the connection's queue */
	struct proxy_conn *conn; /* NULL: it is a relay's, which progress is to know */
	struct relay *relay;
	uint64_t launch; /* that appended it: 1, 2... */
	struct proxy_op op;
};

struct proxy_state {
	/* main, before another task sees it; then read only */
	struct ncclComm *comm;
	const struct net_ops *net;
	struct proxy_gpu *gpu;
	struct relay *relay; /* that it is part of; NULL: it is the communicator's own */
	struct wait abort_wait, closing_wait;

	shared_u32 closing; /* main: connections close, progress lets go of them */

	/* operations: main pushes to gpu->posted, progress to freed */
	struct proxy_posted freed;
	struct proxy_node *free_first; /* main's own chain */
	uint32_t free_count, slots;    /* in the chain; in all */
	uint64_t launches;
	struct proxy_slot first[PROXY_SLOTS_FIRST];
	struct proxy_slot
		*more[PROXY_SLOTS / PROXY_SLOTS_FIRST - 1]; /* as many each, made when needed */

	/* service */
	bool net_ready;
	int net_devices;

	/* progress */
	struct proxy_state *next;       /* in gpu->members */
	struct proxy_conn *active;      /* with operations, in the order in which they came */
	struct proxy_conn **active_end; /* where the next one goes */
	/* Those that have had operations: progress checks whether their other ends have failed,
	 * until they close or the communicator is aborted, and counts in their ops_live for
	 * that. */
	struct proxy_conn *known;
	bool letting_go; /* closing, as this pass saw it */
};

/* ---- gpu.c: the proxy of a GPU -------------------------------------------------------------- */

/* The list of a task's next os_wait, and the rank that each of them is for. */
struct proxy_waits {
	const struct wait **wait;
	int32_t *rank;
	uint32_t n, room;
};
/* Makes room for n of them; what was listed is gone. False: no memory. */
bool proxy_waits_reserve(struct proxy_waits *waits, uint32_t n);
void proxy_waits_free(struct proxy_waits *waits);
static inline void proxy_waits_add(struct proxy_waits *waits, const struct wait *w, int32_t rank)
{
	ASSERT(waits->n < waits->room);
	waits->rank[waits->n] = rank;
	waits->wait[waits->n++] = w;
}

struct proxy_gpu {
	struct registry_node node; /* first */
	int32_t cuda_dev;
	int32_t rank; /* of the communicator that it was made for; the tasks have its name */
	int32_t refs; /* communicators; under the registry's lock */
	struct os_thread *service, *progress;
	shared_u32 stop;
	struct os_mutex store_made;   /* main: while it makes the store */
	struct relay_store *store;    /* relay.h; NULL: not made */
	struct proxy_posted requests; /* struct proxy_call: any main task pushes, service takes */
	struct proxy_posted posted;   /* struct proxy_slot: any main task pushes, progress takes */

	/* service */
	ncclResult_t device; /* of setting it */
	struct proxy_conn **conn;
	uint32_t conns, conn_room; /* live, and entries of `conn` */
	struct proxy_conn *working;
	struct proxy_link *links;
	struct relay *service_relays;
	struct relay_state
		*service_boards; /* of communicators whose ranks send messages through this GPU */
	uint32_t service_relay_count; /* of both */
	struct proxy_waits service_waits;

	/* progress */
	struct proxy_state *members; /* communicators with a known connection */
	uint32_t known;              /* connections of all of them */
	struct relay *progress_relays;
	uint32_t progress_relay_count;
	struct proxy_waits progress_waits;
};

/* The process' proxy of the communicator's GPU, with one reference more; NULL: it cannot be made,
 * the error is logged. put gives the reference back; the last one WAITS for the tasks to end. */
struct proxy_gpu *proxy_gpu_get(const struct ncclComm *comm);
void proxy_gpu_put(struct proxy_gpu *p);

/* The rank that the calling task works for, as faults address it. */
static inline void proxy_work_for(int32_t rank)
{
	os_self()->rank = rank;
}

/* trace.c: around handing the slice at `step` to the network. Requests to the HCA between the two
 * belong to the slice's flow. The time that the first returns is for the second; 0: no trace
 * file. */
uint64_t proxy_trace_send_begins(const struct proxy_conn *pc, uint64_t step);
void proxy_trace_send_ends(const struct proxy_conn *pc, uint64_t step, size_t bytes, bool sent,
			   uint64_t from_ns);
void proxy_trace_received(const struct proxy_conn *pc, uint64_t step, size_t bytes);

/* conn.c */
/* Makes the connection that a SETUP describes, in state NEW and with a number in the table. */
ncclResult_t proxy_conn_make(struct proxy_gpu *p, const struct proxy_call *call,
			     struct proxy_conn **out);
/* Takes it out of the table and releases it and all that it owns. Its operations are gone. */
void proxy_conn_free(struct proxy_conn *pc);
/* The connection that the message is about; NULL: not one of its communicator, logged. */
struct proxy_conn *proxy_conn_find(const struct proxy_gpu *p, const struct proxy_message *m);
void proxy_conn_enter(struct proxy_conn *pc, enum proxy_conn_state s);
/* One step of a connection's state machine. ncclInProgress: not finished, and *moved is set or
 * pc->wait has what it waits for; anything else is the answer. */
ncclResult_t proxy_conn_step(struct proxy_conn *pc, bool *moved);

/* conn_memory.c: the connection's memory, NIC and registration. */
ncclResult_t proxy_conn_find_device(struct proxy_conn *pc);
/* Registers pc->memory, or what a relay has. *again: the NIC does not reach the GPU's, and the slots are now to be in
 * host memory; nothing is registered. */
ncclResult_t proxy_conn_prepare(struct proxy_conn *pc, bool *again);
void proxy_conn_unprepare(struct proxy_conn *pc);
/* Main task: memory for a connection that is CONNECTED, as it is placed now. May WAIT for kernels
 * of the GPU. */
ncclResult_t proxy_memory_make(const struct proxy_conn *pc, struct proxy_memory *m);
/* Main task: WAITS for kernels of the GPU. No connection has it any longer. */
void proxy_memory_free(struct proxy_memory *m);
/* Bytes of a connection's slots on a GPU, each protocol's of whole pages; those of the protocols
 * that stay in host memory do not count. */
size_t proxy_gpu_bytes(const uint32_t step_bytes[DEV_PROTO_COUNT]);

/* link.c: what the network connects (service). */
/* The connection's link: one that it shares, or its own, with one reference more. A receiving end
 * has it from its set-up on, a sending end when it connects. */
ncclResult_t proxy_link_get(struct proxy_conn *pc);
/* As proxy_conn_step: the first of those that share it connects it. */
ncclResult_t proxy_link_connect(struct proxy_conn *pc);
/* A connection of the link, or pc itself, that has operations; NULL: none, and regions of pc can
 * go. */
struct proxy_conn *proxy_link_busy(struct proxy_conn *pc);
/* Gives the reference back, if there is one; the last one closes it. */
void proxy_link_put(struct proxy_conn *pc);
/* Progress: the connections whose receives are posted together, and in which order. */
void proxy_link_join(struct proxy_conn *pc);
void proxy_link_leave(struct proxy_conn *pc);
/* May the running operation's next slice be posted? Not before all slices of an earlier message of
 * the link: what is sent for a receive waits for the sends of those before, and messages go in the
 * order of their rounds. */
bool proxy_link_in_order(const struct proxy_conn *pc);
/* The connections that post a slice with this one, itself included, up to what the network
 * takes. */
int proxy_link_gather(struct proxy_conn *pc, bool (*ready)(const struct proxy_run *run),
		      struct proxy_conn *with[NET_MAX_RECVS]);
/* A group that is not in use; NULL: all are. */
struct proxy_group *proxy_link_group(struct proxy_link *l);

/* proxy.c */
void proxy_state_init(struct proxy_state *p, struct ncclComm *comm);
void proxy_state_fini(struct proxy_state *p);
/* The communicator's part, made at the first call. */
ncclResult_t proxy_attach(struct ncclComm *comm);
/* A request whose fields of `m` are set, to the service task of call->proxy, and its answer. */
ncclResult_t proxy_call_run(struct proxy_call *call, enum proxy_command command);
/* Takes back the slots that progress gave back, and makes more where fewer than `n` are free, up to
 * PROXY_SLOTS and as far as there is memory. */
void proxy_slots_gather(struct proxy_state *p, uint32_t n);
/* There is one: free_count is not 0. The caller is the task that takes back. */
struct proxy_slot *proxy_slot_get(struct proxy_state *p);

/* progress.c: an operation for its connection. */
void proxy_slot_take(struct proxy_gpu *p, struct proxy_slot *slot);
/* Room for the waits of so many connections and relays; false: no memory. */
bool proxy_progress_reserve(struct proxy_gpu *p, uint32_t known, uint32_t relays);
/* service.c: the same for that task. */
bool proxy_service_reserve(struct proxy_gpu *p, uint32_t conns, uint32_t relays);

/* service.c, progress.c: the tasks */
void proxy_service_main(void *proxy_gpu);
void proxy_progress_main(void *proxy_gpu);

/* queue.c: a connection's operations (progress). */
static inline bool proxy_conn_is_active(const struct proxy_conn *pc)
{
	return pc->run.active || pc->queue_first;
}
void proxy_conn_queue(struct proxy_conn *pc, struct proxy_slot *slot);
/* The next operation of the queue becomes the running one; false: there is none. */
bool proxy_run_start(struct proxy_conn *pc);
/* All steps of the running operation are done. */
void proxy_run_finish(struct proxy_conn *pc);
/* Gives up the running operation and all after it. Requests in flight stay with the network until
 * the connection closes. */
void proxy_conn_drop_ops(struct proxy_conn *pc);
/* One reason less to keep the connection: the caller's last access to it and its communicator. */
void proxy_conn_let_go(struct proxy_conn *pc);
/* One more of the waits of this pass; `step` is the one that it is about. */
void proxy_run_wait(struct proxy_run *run, uint64_t step, const struct wait *w);
/* Is the request of the slice at `step` complete? If not, that is one of the waits. */
ncclResult_t proxy_run_test(struct proxy_conn *pc, uint64_t step, struct net_request *req,
			    bool *done, size_t *bytes);
/* For a 64-bit word that the kernel writes; `why` is the caller's. */
struct wait proxy_kernel_wait(const struct proxy_conn *pc, const void *on, enum wait_kind kind,
			      uint64_t want);

/* ---- protocol.c: how a kernel and the proxy share a slot ------------------------------------- */

/* Where a slice is in the connection's buffer. */
struct proxy_slice {
	uint32_t bytes, offset;
};

/* One row per protocol (enum dev_proto). */
struct proxy_protocol {
	/* Has the kernel filled the slice at `step`? If so, *slice is set, by what the kernel
	 * wrote: the caller checks it. If not, *w. */
	bool (*ready)(struct proxy_conn *pc, uint64_t step, struct proxy_slice *slice,
		      struct wait *w);
	/* Do the lines of a slot show the receiving kernel what is there? It may take them, and
	 * give the slot back, before the proxy knows that all of it has come. */
	bool lines;
};
extern const struct proxy_protocol proxy_protocols[DEV_PROTO_COUNT];

static inline const struct proxy_protocol *proxy_run_protocol(const struct proxy_run *run)
{
	return &proxy_protocols[run->op.protocol];
}

/* Where the slices of the running operation are. */
static inline const struct proxy_buffer *proxy_run_buffer(const struct proxy_conn *pc)
{
	return &pc->buffer[pc->run.op.protocol];
}

/* send.c, recv.c: one step of the running operation. */
ncclResult_t proxy_send_step(struct proxy_conn *pc, bool *moved);
ncclResult_t proxy_recv_step(struct proxy_conn *pc, bool *moved);

#endif
