/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Declarations that the files of core/proxy share: the proxy of a GPU, a communicator's part of it,
 * connections, and the operation that runs on each. The comment of a field names the task that may
 * access it: "main" is the main task of the communicator's rank, "service" and "progress" are the
 * proxy's two tasks. A field that two tasks access is a shared word, or is written before a shared
 * word that the other task reads first.
 */
#ifndef CORE_PROXY_PROXY_INTERNAL_H
#define CORE_PROXY_PROXY_INTERNAL_H

#include "core/rank/registry.h"
#include "core/proxy/proxy.h"
#include "core/proxy/proxy_port.h"
#include "core/transport/base/net.h"
#include "core/transport/transport_internal.h"

#define PROXY_SLOTS       (2 * PROXY_MAX_APPEND)
#define PROXY_SLOTS_FIRST 64u
#define PROXY_RUN_WAITS   4
#define PROXY_TASK_WAITS  2 /* for new work, and for the stop word */
/* Number of waits of one connection in each task, its communicator's waits included. */
#define PROXY_PROGRESS_WAITS (PROXY_RUN_WAITS + 3)
#define PROXY_SERVICE_WAITS  2
/* Number of waits of one relay in each task. */
#define PROXY_RELAY_WAITS 2

/* ---- the running operation ------------------------------------------------------------------ */

/*
 * The front operation of a connection (progress). Counts are in steps from `base` and grow by
 * slice_steps up to nsteps. Each count is at most the one above it:
 *
 *   send   posted       offered to the kernel to fill (credit: head = base + done)
 *          transmitted  filled, and passed to the network
 *          done         completed; the slot is free again
 *
 *   recv   posted       a receive is posted in the network
 *          received     the network has received the data
 *          flushed      GPU memory has it (equals received if no flush is needed)
 *          transmitted  shown to the kernel (tail = base + transmitted)
 *          done         the kernel has emptied the slot
 *
 * posted never exceeds done + DEV_STEPS.
 */
struct proxy_run {
	bool active;
	uint64_t began_ns;
	struct proxy_slot *slot; /* the operation's slot, freed at the end */
	struct proxy_op op;
	uint64_t base; /* step of the connection, rounded up to the chunk */
	uint64_t posted, received, flushed, transmitted, done;
	/* Arrays below are indexed by step % DEV_STEPS of the first step of a slice. */
	struct net_request *req[DEV_STEPS]; /* send only */
	struct proxy_receive {
		struct proxy_group *group; /* group that the slice was posted with */
		uint32_t index;            /* the slice's index in the group */
	} receive[DEV_STEPS];
	size_t bytes[DEV_STEPS]; /* recv: number of received bytes */
	struct profiler_step step[DEV_STEPS];
	uint32_t lines; /* LL send: number of filled lines of the next slice */
	struct net_request *flush_req;
	struct wait wait[PROXY_RUN_WAITS]; /* waits of the stages in the last pass */
	int nwaits;
};

/* ---- a connection of the network ------------------------------------------------------------ */

/* Receives that are posted together: one for each of several connections of a link. */
struct proxy_group {
	struct net_request *req;
	uint32_t slices; /* number of slices not yet consumed; 0: the group is unused */
	bool done;
	size_t bytes[NET_MAX_RECVS];
};

/* A connection of the network. Proxy connections of two ranks, one for each channel, share one link
 * per direction and device if NCCL_NET_SHARED_COMMS is set and the network has tags. The receiving
 * end decides: it returns the same handle to all connections that share. The sending end shares by
 * handle. */
struct proxy_link {
	/* service */
	struct proxy_link *next; /* next link of the GPU */
	struct ncclComm *comm;
	const struct net_ops *net;
	struct net_who who;
	bool is_send, shared;
	uint32_t refs;
	struct net_nic nic;
	struct net_handle handle;
	void *listen, *pending;
	struct wait wait; /* current wait of connecting; a step may return without a new one */
	ncclResult_t failed;

	/* service writes while it connects, then read only */
	void *net_comm;
	int max_recvs;

	/* progress */
	struct proxy_conn *members; /* known connections, in order of channel */
	struct proxy_group group[NET_MAX_REQUESTS];
};

/* ---- a proxy connection --------------------------------------------------------------------- */

/*
 * SETUP            CONNECT          connected            PREPARE             registered
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
 * A relay's connection enters PREPARING directly after CONNECTING. DRAINING waits until progress
 * has no operation of this connection.
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

/* Slots of one protocol. */
struct proxy_buffer {
	uint8_t *at; /* NULL: the connection has no such slots */
	size_t bytes;
	uint32_t step_bytes;
	bool on_gpu;
	void *mr;
};

struct proxy_conn {
	/* service, before another task sees the connection; then read only */
	struct proxy_state *proxy;
	struct ncclComm *comm;
	uint32_t number; /* index in gpu->conn, plus 1 */
	int32_t rank, peer, channel, nic;
	bool is_send;
	uint8_t conn_index; /* enum conn_index */
	/* The communicator's network, or the one that reduces (core/transport/collnet). */
	const struct net_ops *net;

	/* service */
	enum proxy_conn_state state;
	struct proxy_call *call;         /* request in progress; NULL: no request */
	struct proxy_conn *working_next; /* next connection with a request */
	struct net_info mine, theirs;
	struct net_nic net_nic; /* network devices of `nic` */
	struct proxy_link *link;
	struct wait wait;

	/* service writes until READY, then read only */
	void *net_comm;
	/* memory of the rank, which outlives the connection; or of the relay */
	struct proxy_memory memory;
	void *host_made;               /* at a relay, for another process: the user's segment */
	size_t host_bytes;             /* bytes of host memory, at a relay */
	uint32_t host_name;            /* at a relay: number in the segment's name */
	uint32_t store_place;          /* place in the relay's store, from 1; 0: not in the store */
	uint32_t relay_conn;           /* at a relay: number of the connection for the user */
	struct proxy_call relayed;     /* at a relay: the user's CONNECT */
	struct dev_send_mem *send_mem; /* head */
	struct dev_recv_mem *recv_mem; /* tail, fifo */
	struct proxy_buffer buffer[DEV_PROTO_COUNT];
	bool flush;  /* received data on the GPU must be flushed */
	bool staged; /* the slots have moved to host memory */

	/* Main adds and progress subtracts one for each operation. Progress adds one while it knows
	 * the connection. */
	shared_u32 ops_live;

	/* progress */
	uint64_t step; /* next step; the kernel keeps its own count */
	uint64_t head_shown;
	struct proxy_slot *queue_first, *queue_last; /* operations after the running one */
	bool failed, known;
	struct proxy_conn *active_next, *known_next, *member_next;
	struct proxy_run run;
	struct wait check_wait;
};

/* ---- a communicator's part ------------------------------------------------------------------ */

struct proxy_slot {
	struct proxy_node node;  /* first: in a list, or in the connection's queue */
	struct proxy_conn *conn; /* NULL: the slot introduces a relay to progress */
	struct relay *relay;     /* NULL, and no `conn`: the first member of a report */
	uint64_t launch;         /* number of the launch that appended it, from 1 */
	struct proxy_op op;
};

struct proxy_state {
	/* main, before another task sees the state; then read only */
	struct ncclComm *comm;
	const struct net_ops *net;
	struct proxy_gpu *gpu;
	struct relay *relay; /* relay that owns this state; NULL: the communicator's own */
	struct wait abort_wait, closing_wait;

	shared_u32 closing; /* main: connections are closing, and progress must let go of them */

	/* Operations: main pushes to gpu->posted, progress pushes to freed. */
	struct proxy_posted freed;
	struct proxy_node *free_first; /* main's own chain of free slots */
	uint32_t free_count, slots;    /* in the chain; in all */
	uint64_t launches;
	struct proxy_slot first[PROXY_SLOTS_FIRST];
	/* each has as many slots as `first`; allocated when needed */
	struct proxy_slot *more[PROXY_SLOTS / PROXY_SLOTS_FIRST - 1];

	/* service */
	bool net_ready;
	int net_devices;

	/* progress */
	struct proxy_state *next;       /* next in gpu->members */
	struct proxy_conn *active;      /* connections with operations, in order of arrival */
	struct proxy_conn **active_end; /* link to which the next one is appended */
	/* Connections that have had operations. Progress checks whether their other ends have
	 * failed, until they close or the communicator is aborted. Meanwhile each has one count in
	 * its ops_live. */
	struct proxy_conn *known;
	bool leaving; /* this pass found the communicator closing or aborted */
};

/* ---- proxy_gpu.c: the proxy of a GPU --------------------------------------------------------- */

/* Waits for a task's next os_wait, and the rank of each. */
struct proxy_waits {
	const struct wait **wait;
	int32_t *rank;
	uint32_t n, room;
};
/* Makes room for n waits and discards the current list. Returns false if there is no memory. */
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
	int32_t rank; /* rank of the first communicator; part of the tasks' names */
	int32_t refs; /* number of communicators; under the registry's lock */
	struct os_thread *service, *progress;
	shared_u32 stop;
	struct os_mutex store_lock;   /* main: held while it makes the store, or counts users */
	struct relay_store *store;    /* relay.h; NULL: no communicator has one */
	struct proxy_posted requests; /* struct proxy_call: any main task pushes, service takes */
	struct proxy_posted posted;   /* struct proxy_slot: any main task pushes, progress takes */

	/* service */
	ncclResult_t device; /* result of cudaSetDevice */
	struct proxy_conn **conn;
	uint32_t conns, conn_room; /* number of live connections; entries of `conn` */
	struct proxy_conn *working;
	struct proxy_link *links;
	struct relay *service_relays;
	/* boards of communicators whose ranks send messages through this GPU */
	struct relay_state *service_boards;
	uint32_t service_relay_count; /* number of service_relays and service_boards */
	struct proxy_waits service_waits;

	/* progress */
	struct proxy_state *members; /* communicators with a known connection */
	uint32_t known;              /* number of known connections of all communicators */
	struct relay *progress_relays;
	uint32_t progress_relay_count;
	struct proxy_waits progress_waits;
	bool was_idle; /* the last pass moved nothing: for the profiler */
};

/* Returns the process's proxy of the communicator's GPU and takes a reference. Returns NULL, and
 * logs the error, if it cannot be made. proxy_gpu_put drops the reference; the last one WAITS for
 * the tasks to end. */
struct proxy_gpu *proxy_gpu_get(const struct ncclComm *comm);
void proxy_gpu_put(struct proxy_gpu *p);

/* Sets the rank that the calling task works for; fault plans address this rank. */
static inline void proxy_work_for(int32_t rank)
{
	os_self()->rank = rank;
}

/* proxy_trace.c: bracket the call that passes the slice at `step` to the network. Requests to the
 * HCA between the two belong to the slice's flow. The first function returns the start time for the
 * second, or 0 if no trace file is written. */
uint64_t proxy_trace_send_begins(const struct proxy_conn *pc, uint64_t step);
void proxy_trace_send_ends(const struct proxy_conn *pc, uint64_t step, size_t bytes, bool sent,
			   uint64_t from_ns);
void proxy_trace_received(const struct proxy_conn *pc, uint64_t step, size_t bytes);

/* proxy_profile.c: events for a profiler plugin. Steps are those of the connection. */
void proxy_profile_op_begin(struct proxy_conn *pc, struct proxy_slot *slot);
void proxy_profile_op_runs(struct proxy_conn *pc);
/* Stops the operation's event, and those of its steps. */
void proxy_profile_op_end(struct proxy_conn *pc, struct proxy_slot *slot);
void proxy_profile_step_begin(struct proxy_conn *pc, uint64_t step, enum profiler_state state);
void proxy_profile_step_state(struct proxy_conn *pc, uint64_t step, enum profiler_state state,
			      size_t bytes);
void proxy_profile_step_end(struct proxy_conn *pc, uint64_t step);
/* Returns the step for a net plugin; NULL: it has no events. */
struct profiler_step *proxy_profile_step_of(struct proxy_conn *pc, uint64_t step);
/* An event of the task itself. state of the end: 0: none. */
struct proxy_profile_ctrl {
	struct ncclComm *comm; /* NULL: no event */
	void *event;
};
struct proxy_profile_ctrl proxy_profile_ctrl_begin(const struct proxy_gpu *p,
						   enum profiler_state state);
void proxy_profile_ctrl_end(struct proxy_profile_ctrl *c, enum profiler_state state, int appended);
/* The last pass moved nothing, or something. */
void proxy_profile_idle(struct proxy_gpu *p, bool idle);

/* proxy_report.c: answers a report (progress). The slot is its first member. */
void proxy_report_answer(const struct proxy_gpu *p, struct proxy_slot *slot);

/* conn.c */
/* Creates the connection that a SETUP describes, in state NEW, with a number in the table. */
ncclResult_t proxy_conn_make(struct proxy_gpu *p, const struct proxy_call *call,
			     struct proxy_conn **out);
/* Removes the connection from the table and releases all that it owns. It must have no
 * operations. */
void proxy_conn_free(struct proxy_conn *pc);
/* Returns the connection that the message names. Returns NULL and logs if its communicator has none
 * of that number. */
struct proxy_conn *proxy_conn_find(const struct proxy_gpu *p, const struct proxy_message *m);
void proxy_conn_enter(struct proxy_conn *pc, enum proxy_conn_state s);
/* Makes one step of a connection's state machine. ncclInProgress: not finished; either *moved is
 * set, or pc->wait is its wait. Any other value is the answer. */
ncclResult_t proxy_conn_step(struct proxy_conn *pc, bool *moved);

/* conn_memory.c: the connection's memory, NIC and registration. */
ncclResult_t proxy_conn_find_device(struct proxy_conn *pc);
/* Registers pc->memory, or a relay's memory. If the NIC cannot reach GPU memory, sets *again, plans
 * the slots in host memory, and registers nothing. */
ncclResult_t proxy_conn_prepare(struct proxy_conn *pc, bool *again);
void proxy_conn_unprepare(struct proxy_conn *pc);
/* Main task: allocates memory for a connection in state CONNECTED, in its current placement. May
 * WAIT for kernels of the GPU. */
ncclResult_t proxy_memory_make(const struct proxy_conn *pc, struct proxy_memory *m);
/* Main task: WAITS for kernels of the GPU. No connection may use the memory. *m is empty after it,
 * on errors too. Returns the first error. */
ncclResult_t proxy_memory_free(struct proxy_memory *m);
/* Returns the bytes of a connection's slots on a GPU. Each protocol's slots occupy whole pages.
 * Protocols whose slots stay in host memory do not count. */
size_t proxy_gpu_bytes(const uint32_t step_bytes[DEV_PROTO_COUNT]);

/* link.c: connections of the network (service). */
/* Sets pc->link, shared or new, and takes a reference. A receiving end calls it at set-up, a
 * sending end when it connects. */
ncclResult_t proxy_link_get(struct proxy_conn *pc);
/* Connects the link; the first connection that shares it does so. Returns as proxy_conn_step
 * does. */
ncclResult_t proxy_link_connect(struct proxy_conn *pc);
/* Returns pc or another connection of its link that has operations. NULL: pc's memory can be
 * deregistered. */
struct proxy_conn *proxy_link_busy(struct proxy_conn *pc);
/* Drops the reference, if pc has one. The last one closes the link. */
void proxy_link_put(struct proxy_conn *pc);
/* Progress: add pc to, or remove it from, the connections whose receives are posted together. */
void proxy_link_join(struct proxy_conn *pc);
void proxy_link_leave(struct proxy_conn *pc);
/* True if the running operation's next slice may be posted. All slices of earlier messages of the
 * link must be posted first. Reason: a send for a receive waits for the sends of all earlier
 * receives, and messages are sent in the order of their rounds. */
bool proxy_link_in_order(const struct proxy_conn *pc);
/* Collects the connections that post a slice together with pc, pc included. Returns their number,
 * at most the network's maximum. */
int proxy_link_gather(struct proxy_conn *pc, bool (*ready)(const struct proxy_run *run),
		      struct proxy_conn *with[NET_MAX_RECVS]);
/* Returns an unused group; NULL if all are in use. */
struct proxy_group *proxy_link_group(struct proxy_link *l);

/* proxy.c */
void proxy_state_init(struct proxy_state *p, struct ncclComm *comm);
void proxy_state_fini(struct proxy_state *p);
/* Attaches the communicator to the proxy of its GPU; only the first call does so. */
ncclResult_t proxy_attach(struct ncclComm *comm);
/* Sends a request, whose fields of `m` are set, to the service task of call->proxy. WAITS for the
 * answer and returns its result. */
ncclResult_t proxy_call_run(struct proxy_call *call, enum proxy_command command);
/* Collects the slots that progress freed. If fewer than n are free, allocates more, up to
 * PROXY_SLOTS and as far as memory permits. */
void proxy_slots_gather(struct proxy_state *p, uint32_t n);
/* Removes and returns a free slot; free_count must not be 0. The caller is the task that collects
 * the slots. */
struct proxy_slot *proxy_slot_get(struct proxy_state *p);

/* progress.c: adds an operation to its connection. */
void proxy_slot_take(struct proxy_gpu *p, struct proxy_slot *slot);
/* Makes room for the waits of that many connections and relays. Returns false if there is no
 * memory. */
bool proxy_progress_reserve(struct proxy_gpu *p, uint32_t known, uint32_t relays);
/* service.c: does the same for the service task. */
bool proxy_service_reserve(struct proxy_gpu *p, uint32_t conns, uint32_t relays);

/* service.c, progress.c: main functions of the tasks. */
void proxy_service_main(void *proxy_gpu);
void proxy_progress_main(void *proxy_gpu);

/* proxy_queue.c: operations of a connection (progress). */
static inline bool proxy_conn_is_active(const struct proxy_conn *pc)
{
	return pc->run.active || pc->queue_first;
}
void proxy_conn_queue(struct proxy_conn *pc, struct proxy_slot *slot);
/* Starts the next operation of the queue. Returns false if the queue is empty. */
bool proxy_run_start(struct proxy_conn *pc);
/* Ends the running operation, all of whose steps are done. */
void proxy_run_finish(struct proxy_conn *pc);
/* Drops the running operation and all queued ones. Requests in flight stay with the network until
 * the connection closes. */
void proxy_conn_drop_ops(struct proxy_conn *pc);
/* Drops one count of ops_live. It must be the caller's last access to the connection and its
 * communicator. */
void proxy_conn_forget(struct proxy_conn *pc);
/* Adds a wait of this pass, for step `step`. */
void proxy_run_wait(struct proxy_run *run, uint64_t step, const struct wait *w);
/* Tests whether the request of the slice at `step` is complete. If not, adds its wait to the
 * pass. */
ncclResult_t proxy_run_test(struct proxy_conn *pc, uint64_t step, struct net_request *req,
			    bool *done, size_t *bytes);
/* Returns a wait for a 64-bit word that the kernel writes. The caller sets `why`. */
struct wait proxy_kernel_wait(const struct proxy_conn *pc, const void *on, enum wait_kind kind,
			      uint64_t want);

/* service.c: begins work on a request that came through an area. */
void proxy_service_request(struct proxy_gpu *p, struct proxy_call *call);

/* ---- protocol.c: how a kernel and the proxy share a slot ------------------------------------- */

/* Place of a slice in the connection's buffer. */
struct proxy_slice {
	uint32_t bytes, offset;
};

/* One row per protocol (enum dev_proto). */
struct proxy_protocol {
	/* True if the kernel has filled the slice at `step`. If so, sets *slice to what the kernel
	 * wrote, which the caller checks. If not, sets *w. */
	bool (*ready)(struct proxy_conn *pc, uint64_t step, struct proxy_slice *slice,
		      struct wait *w);
	/* The lines of a slot show the receiving kernel what has arrived. The kernel may empty the
	 * slot and free it before the proxy finds the completion. */
	bool lines;
};
extern const struct proxy_protocol proxy_protocols[DEV_PROTO_COUNT];

static inline const struct proxy_protocol *proxy_run_protocol(const struct proxy_run *run)
{
	return &proxy_protocols[run->op.protocol];
}

/* Returns the buffer that holds the slices of the running operation. */
static inline const struct proxy_buffer *proxy_run_buffer(const struct proxy_conn *pc)
{
	return &pc->buffer[pc->run.op.protocol];
}

/* send.c, recv.c: make one step of the running operation. */
ncclResult_t proxy_send_step(struct proxy_conn *pc, bool *moved);
ncclResult_t proxy_recv_step(struct proxy_conn *pc, bool *moved);

#endif
