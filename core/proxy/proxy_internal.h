/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of core/proxy share: the state of one rank's proxy, its connections, and the
 * operation that runs on each. Who may touch a field is written beside it: "main" is the rank's
 * main task, "service" and "progress" are the proxy's two tasks. What two of them touch is a
 * shared word, or is written before a shared word says that it is there.
 */
#ifndef CORE_PROXY_PROXY_INTERNAL_H
#define CORE_PROXY_PROXY_INTERNAL_H

#include "core/proxy/proxy.h"
#include "core/transport/net.h"
#include "core/transport/transport_internal.h"

#define PROXY_SLOTS     (2 * PROXY_MAX_APPEND)
#define PROXY_RUN_WAITS 4

/* ---- ops.c: lists between tasks ------------------------------------------------------------- */

/* A stack of numbered nodes (1..; 0 ends) that any task may push and one task takes whole. The
 * links are in next[node]; they are read and written by whoever owns the node. */
struct proxy_posted {
	shared_u32 head;
	uint32_t *next;
};
/* Pushes a chain, newest first: next[] leads from `newest` to `oldest`. */
void proxy_posted_push(struct proxy_posted *list, uint32_t newest, uint32_t oldest);
/* Takes everything: the oldest node, from which next[] leads to the newest; 0: nothing there. */
uint32_t proxy_posted_take(struct proxy_posted *list);

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
	uint32_t slot; /* of the pool; given back at the end */
	struct proxy_op op;
	uint64_t base; /* the connection's step, rounded up to the chunk */
	uint64_t posted, received, flushed, transmitted, done;
	struct net_request *req[DEV_STEPS]; /* by step % DEV_STEPS, of a slice's first step */
	size_t bytes[DEV_STEPS];            /* recv: what came in */
	struct net_request *flush_req;
	struct wait wait[PROXY_RUN_WAITS]; /* of the last pass: what each stage waits for */
	int nwaits;
};

/* ---- a network connection ------------------------------------------------------------------- */

/*
 *          SETUP              CONNECT                 connected            memory is there
 *   NEW ----------> SET_UP ------------> CONNECTING ------------> PREPARING -------------> READY
 *    |                 |                     |                        |                      |
 *    +-----------------+----------+----------+------------------------+----------------------+
 *                                 |                                   |
 *                                 | CLOSE                             | error
 *                                 v                                   v
 *                             DRAINING ------> CLOSED <---CLOSE---- FAILED
 *
 * DRAINING waits until progress has no operation of this connection any more.
 */
enum proxy_conn_state {
	PROXY_CONN_NEW,
	PROXY_CONN_SET_UP,
	PROXY_CONN_CONNECTING,
	PROXY_CONN_PREPARING,
	PROXY_CONN_READY,
	PROXY_CONN_FAILED,
	PROXY_CONN_DRAINING,
	PROXY_CONN_CLOSED,
};
const char *proxy_conn_state_name(enum proxy_conn_state s);

/* Each is asked at most once in a connection's life, in this order. Each has its own node in the
 * request list: 4 * index + command. */
enum proxy_command { PROXY_NOTHING, PROXY_SETUP, PROXY_CONNECT, PROXY_CLOSE };

struct proxy_conn {
	/* main, before anybody else sees it */
	struct proxy_state *proxy;
	struct ncclComm *comm;
	uint32_t index; /* proxy->conn[index] */
	int32_t rank, peer, channel, nic;
	bool is_send;
	uint8_t conn_index; /* enum conn_index */
	uint32_t step_bytes;

	enum proxy_command asked; /* main */
	shared_u32 answered;      /* service: the last command that it has an answer to */
	struct net_info mine;     /* service writes before it answers a SETUP */
	struct net_info theirs;   /* main writes before it asks to CONNECT */
	ncclResult_t result;      /* service writes before it answers */

	/* service */
	enum proxy_conn_state state;
	enum proxy_command working_on;
	int net_dev;
	void *listen, *pending;
	struct wait wait;

	/* service writes until READY, then read only */
	void *net_comm, *mr;
	void *host_mem; /* pinned: send_mem, recv_mem, and the buffer unless it is on the GPU */
	struct dev_send_mem *send_mem; /* head */
	struct dev_recv_mem *recv_mem; /* tail, fifo */
	uint8_t *buffer;
	size_t buffer_bytes;
	bool buffer_on_gpu, flush;

	shared_u32 ops_live; /* main adds, progress subtracts; and adds one while it listens */

	/* progress */
	uint64_t step; /* next step, as the kernel keeps its own */
	uint64_t head_shown;
	uint32_t queue_first, queue_last; /* slots behind the running one */
	bool failed, listening;
	struct proxy_run run;
	struct wait check_wait;
};

/* ---- one rank's proxy ----------------------------------------------------------------------- */

struct proxy_state {
	struct ncclComm *comm;
	const struct net_ops *net;
	struct os_thread *service, *progress;
	shared_u32 stop;
	shared_u32 closing; /* main: connections close, progress lets go of them */

	/* requests: main pushes, service takes */
	struct proxy_posted requests;
	uint32_t *request_next;   /* [4 * conns] */
	uint32_t conns;           /* the rank's connections at most */
	struct proxy_conn **conn; /* [conns]; main writes before it pushes a request */
	/* service */
	struct proxy_conn **working; /* [conns]: those with an unanswered request */
	uint32_t nworking;
	const struct wait **service_wait; /* [conns + 2] */
	bool net_ready;
	int net_devices;

	/* operations: main pushes to posted, progress to freed */
	struct proxy_posted posted, freed;
	uint32_t free_first, free_count; /* main's own chain */
	struct proxy_op op[PROXY_SLOTS + 1];
	uint32_t op_next[PROXY_SLOTS + 1];
	/* progress */
	struct proxy_conn **active; /* [conns] */
	uint32_t nactive;
	const struct wait **progress_wait; /* [conns * (PROXY_RUN_WAITS + 1) + 3] */
	/* Those that have had operations: progress listens for what their other ends say, until they
	 * close, and counts in their ops_live for that. */
	struct proxy_conn **heard; /* [conns] */
	uint32_t nheard;
	bool deaf; /* never again */
};

/* trace.c: around handing the slice at `step` to the network. Requests to the HCA between the two
 * belong to the slice's flow. The time that the first returns is for the second; 0: no trace file. */
uint64_t proxy_trace_send_begins(const struct proxy_conn *pc, uint64_t step);
void proxy_trace_send_ends(const struct proxy_conn *pc, uint64_t step, size_t bytes, bool sent,
			   uint64_t from_ns);
void proxy_trace_received(const struct proxy_conn *pc, uint64_t step, size_t bytes);

/* service.c */
void proxy_service_main(void *proxy_state);
/* One step of a connection's state machine; *moved when something changed. */
ncclResult_t proxy_conn_step(struct proxy_conn *pc, bool *moved);
/* Releases all that the connection owns. Its operations are gone. */
void proxy_conn_release(struct proxy_conn *pc);

/* conn_memory.c: the connection's memory, NIC and registration. */
ncclResult_t proxy_conn_find_device(struct proxy_conn *pc);
ncclResult_t proxy_conn_prepare(struct proxy_conn *pc);
void proxy_conn_unprepare(struct proxy_conn *pc);

/* progress.c */
void proxy_progress_main(void *proxy_state);
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
	/* Has the kernel filled the slice at `step`? If so, *slice is set, by what the kernel wrote:
	 * the caller checks it. If not, *w. */
	bool (*ready)(const struct proxy_conn *pc, uint64_t step, struct proxy_slice *slice,
		      struct wait *w);
	/* Where the network reads or writes the slice. */
	uint8_t *(*address)(const struct proxy_conn *pc, const struct proxy_slice *slice);
};
extern const struct proxy_protocol proxy_protocols[DEV_PROTO_COUNT];

static inline const struct proxy_protocol *proxy_run_protocol(const struct proxy_run *run)
{
	return &proxy_protocols[run->op.protocol];
}

/* send.c, recv.c: one step of the running operation. */
ncclResult_t proxy_send_step(struct proxy_conn *pc, bool *moved);
ncclResult_t proxy_recv_step(struct proxy_conn *pc, bool *moved);

#endif
