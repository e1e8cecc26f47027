/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records of HCAs: ports, queue pairs, queues, regions, windows and the rest. They are plain data
 * in the world arena, and every process' HCA reads them. handles.h has the part that only an
 * object's owner sees. This floor also has functions that need only the records: bytes and keys
 * (hca_memory.h), packets (packet.h), addresses (port.h), personalities (personality.h). Includes
 * arena.
 *
 * References are indices into the tables of struct hca_world, with a generation if the other end
 * may be gone. Sizes are in bytes, times in ns, rates in MB/s. The item's lock guards each object;
 * entry/entry.h gives the order of locks.
 */
#ifndef BACKENDS_FAKEVERBS_OBJECTS_H
#define BACKENDS_FAKEVERBS_OBJECTS_H

#include <infiniband/verbs.h>

#include "backends/fakeverbs/arena/arena.h"
#include "backends/fakeverbs/arena/members.h"
#include "backends/fakeverbs/arena/hca_ready.h"
#include "backends/fakeverbs/objects/counters.h"
#include "backends/peermem.h"
#include "core/os/os.h"

#pragma GCC visibility push(hidden)

#define HCA_QPN_FIRST     0x100u
#define HCA_WINDOW_BURSTS 8u  /* maximum bursts in flight per queue pair */
#define HCA_MAX_RD_ATOMIC 128 /* maximum of any personality */
#define HCA_GID_USED      4
#define HCA_PKEY_COUNT    128
#define HCA_BUCKETS       4096
/* Frequency of the free-running clock that stamps completions: one tick is 1 ns. */
#define HCA_CLOCK_KHZ    1000000u
#define HCA_COMP_VECTORS 8

struct hca_gid {
	union ibv_gid gid;
	uint32_t type; /* enum ibv_gid_type */
};

struct hca_port {
	uint32_t lock;
	uint32_t up;
	uint32_t personality; /* index of the personality (personality.h) */
	/* quarters of the acknowledge timeout until silence is noticed */
	uint32_t ack_quarters;
	uint32_t bad_pkeys, bad_qkeys; /* packets refused for their P_Key, Q_Key */
	uint32_t gid_used;
	uint32_t moves; /* changes of the GIDs */
	struct hca_gid gid[HCA_GID_USED];
	uint16_t pkey[HCA_PKEY_COUNT];
	uint32_t fatal; /* the device is dead: commands fail, queue pairs are in ERR */
	uint32_t next_qpn;
	uint32_t atomic_cap; /* enum ibv_atomic_cap */
	uint32_t fast_path;  /* direct.c may be used */
	uint32_t regions;    /* number of registered regions; at most the personality's max_mr */
	uint32_t atomic_lock;
	/* first queue pair whose atomic has an unfinished write: index + 1 */
	uint32_t atomics;
	uint32_t bucket[HCA_BUCKETS]; /* queue pairs by number: index + 1 */
	uint64_t counted[HCA_COUNTERS];
	/* odd: counters of an ending queue pair move to the port */
	uint32_t counted_moves, pad_counted;
};

struct hca_pd {
	struct hca_item item;
	uint32_t port;
};

enum hca_mr_kind {
	HCA_MR_MEMORY,
	HCA_MR_DMABUF, /* GPU memory, registered by descriptor */
	HCA_MR_NULL,   /* discards writes and reads as zeroes; local key only */
};

struct hca_mr {
	struct hca_item item;
	uint32_t key;     /* index << 8 | tag: lkey and rkey; 0: no key is valid */
	uint32_t keys;    /* number of keys that this record has had in the life of the world */
	uint32_t kind;    /* enum hca_mr_kind */
	uint32_t windows; /* number of windows bound to it */
	uint32_t pd, port;
	uint32_t access;
	uint32_t users; /* copies under way */
	uint32_t gpu;
	uint64_t address, iova, bytes;
	struct hca_window window;
	struct peermem_region region;
	/* For the sanitizer (checks.h): call sites of the registration and the end; the previous
	 * key; the last writes of HCAs, recorded once a user of the region is watched. */
	uint64_t caller, freed_caller;
	uint32_t freed_key;
	uint32_t watched, writes, pad_writes;
	struct hca_written {
		uint64_t lo, hi;
	} wrote[8];
};

struct hca_ah {
	struct hca_item item;
	uint32_t pd, port;
	uint32_t to_port; /* or HCA_MULTICAST, HCA_NONE */
	struct ibv_ah_attr attr;
};

/* A queue pair's membership of a multicast group (mcast.c). */
struct hca_member {
	struct hca_item item;
	uint32_t port, qp, qp_generation;
	union ibv_gid gid;
};

struct hca_mw {
	struct hca_item item;
	uint32_t key;
	uint32_t pd, port, type;
	uint32_t mr; /* region to which it is bound: index + 1; 0: not bound */
	uint32_t qp; /* queue pair that bound it */
	uint32_t access;
	uint64_t address, bytes; /* bound range, in addresses of the region's keys */
};

/* The owner's tasks wait on the handles: struct ibv_cq, ibv_comp_channel, ibv_context. */
struct hca_channel {
	struct hca_item item;
	uint32_t first, last; /* completion queues with an event: index + 1 */
	struct hca_ready ready;
};

struct hca_event {
	struct hca_item item;
	uint32_t next; /* index + 1 */
	uint32_t type; /* enum ibv_event_type */
	uint32_t element, generation;
};

struct hca_context {
	struct hca_item item;
	uint32_t port;
	uint32_t closed;
	uint32_t first, last; /* struct hca_event: index + 1 */
	struct hca_ready ready;
	/* Descriptor that cmd_fd shows; programs look at it and copy it. Never readable. */
	struct hca_ready command;
};

struct hca_cqe {
	uint64_t wr_id;
	uint32_t status, opcode, vendor_error, bytes, imm, qpn, flags;
	uint32_t qp, generation;
	uint32_t is_recv;
	uint32_t slot; /* once it is polled, the work queue's slots before this number are free */
	/* index + 1: polling frees one slot of this shared queue instead; 0: see `slot` */
	uint32_t srq;
	uint32_t srq_generation;
	uint32_t src_qpn; /* src_qpn to pkey_index: datagrams only */
	uint16_t slid, sl, pkey_index, pad1;
	/* object of this completion for the memory model (sim/engine/memory/memory.h) */
	uint64_t token;
	uint64_t timestamp; /* ns; only in a queue that stamps */
};

enum hca_arm { HCA_ARM_NONE, HCA_ARM_SOLICITED, HCA_ARM_ANY };

struct hca_cq {
	struct hca_item item;
	uint32_t context, port;
	uint32_t channel; /* index + 1 */
	uint32_t arm;     /* enum hca_arm */
	uint32_t events;  /* events on the channel that were not yet returned */
	uint32_t next;    /* next in the channel's list */
	uint32_t overrun;
	/* new completions overwrite the oldest ones that were not polled */
	uint32_t ignore_overrun;
	uint32_t moderate_count, moderate_period_us;
	uint32_t moderated;   /* completions whose event is held back */
	uint32_t period_runs; /* a timer for the held-back event is pending */
	uint32_t stamps;
	uint64_t stamped; /* ns; of the last completion */
	uint32_t size;    /* power of two */
	uint32_t head, tail;
	/* tail <= shown <= head: polls see completions before it; the rest is hidden while
	 * `held` */
	uint32_t shown;
	uint32_t held;
	uint64_t ring;                  /* arena offset: struct hca_cqe[size] */
	uint64_t armed_at;              /* call site of the arming (checks.h) */
	uint32_t armed_over, pad_armed; /* armed while it had completions, and not polled since */
};

/* Fields of a bind request, except its key (rkey) and its address (remote_address). */
struct hca_bind {
	uint32_t mw, mw_generation;
	uint32_t mr, mr_key; /* index + 1; 0: no region */
	uint32_t access, pad0;
	uint64_t bytes;
};

/* A work request in its queue. Its scatter list, or its inline data, follows the struct. */
struct hca_wqe {
	uint64_t wr_id;
	uint64_t bytes;
	uint64_t remote_address;
	uint32_t rkey, imm;
	uint32_t opcode; /* enum ibv_wr_opcode */
	uint32_t flags;  /* enum ibv_send_flags */
	uint32_t sge_count;
	uint32_t srqn;         /* XRC: number of the shared queue that receives it */
	uint32_t check_writes; /* writes of HCAs into its memory, counted at the post (checks.h) */
	uint32_t psn, packets; /* PSN range, valid once started */
	uint32_t started;
	/* enum ibv_wc_status of an error found early; reported when it is the oldest request */
	uint32_t status;
	uint32_t ah, ah_generation, dest_qpn; /* datagram only; its Q_Key is in rkey */
	union {
		uint64_t operand[2]; /* atomic: value to compare with or to add; value to store */
		struct hca_bind bind;
	};
	int64_t step;     /* step of the operation for which it was posted; -1: unknown */
	uint32_t account; /* enum hca_account */
	uint32_t check_noted;
	uint64_t caller, check_sum; /* for the sanitizer (checks.h) */
	uint64_t flow;              /* flow number in the trace file; 0: not traced */
};

/* Counters run freely; the slot is counter & (size - 1).
 *   polled <= done <= head; send queue: done <= next <= head */
struct hca_queue {
	uint64_t ring;
	uint32_t stride, size, sge_max, inline_max;
	uint32_t head;          /* next to post */
	uint32_t done;          /* oldest request that is not complete */
	uint32_t polled;        /* oldest slot in use: its completion was not polled */
	uint32_t next;          /* send queue only: next to transmit */
	uint64_t posted, ended; /* totals; ended: completed, flushed, or dropped with the queue */
};

/* A shared receive queue (srq.c). */
struct hca_srq {
	struct hca_item item;
	uint32_t context, port, pd;
	uint32_t limit;  /* not 0: an event is due when fewer receives than this are waiting */
	uint32_t failed; /* IBV_EVENT_SRQ_ERR was posted */
	uint32_t xrcd;   /* index + 1: an XRC queue, with a number and a completion queue */
	uint32_t cq;
	/* While a receive moves to a queue pair, for repair: that queue pair (index + 1), `done`
	 * here and `head` there before the move. */
	uint32_t taker, taken, taker_head;
	struct hca_queue rq;
};

/* State of the requester. PSNs have 24 bits: psn_una <= psn_next <= psn_max (modulo). */
struct hca_requester {
	uint32_t psn_una;              /* oldest not acknowledged */
	uint32_t psn_next;             /* next to transmit; before psn_max while resending */
	uint32_t psn_max;              /* first that was never transmitted */
	uint64_t offset;               /* bytes of sq.next that were transmitted */
	uint32_t reads;                /* READs and atomics started and not complete */
	uint32_t retries, rnr_retries; /* remaining retries */
	uint32_t scheduled;            /* a transmit event is pending */
	uint32_t timer;                /* an acknowledge timer is pending */
	uint32_t rnr_wait;             /* not 0: the number of the RNR wait under way */
	uint32_t rnr_waits;
	uint32_t rnr_row; /* consecutive RNR waits without progress */
	/* resending since psn_una; further signs of the same loss are ignored */
	uint32_t gap_seen;
	uint64_t progress_ns; /* time of the last acknowledge, or of the start from idle */
	uint64_t resent;      /* packets */
};

/* A READ or an atomic that was executed. */
struct hca_answered {
	uint32_t psn, is_atomic;
	uint64_t value;   /* old value of the word */
	uint64_t busy_ns; /* time at which the answer has left */
};

struct hca_responder {
	uint32_t psn; /* expected next */
	/* a NAK for this psn was sent; no further one until its packet arrives */
	uint32_t nak_sent;
	uint32_t receiving; /* a SEND is between its first and last packet, in rq.done */
	uint32_t writing;   /* the same for a WRITE of an unreliable connection */
	uint32_t established;
	uint64_t received; /* bytes of that SEND or WRITE */
	/* the last max_dest_rd_atomic READs and atomics */
	struct hca_answered answered[HCA_MAX_RD_ATOMIC];
	uint32_t answers;
	uint64_t busy_ns; /* earliest time at which the last answer has left */
};

/* An atomic whose old value was read. Its event, or an earlier need, writes the new value and sends
 * the answer. */
struct hca_atomic {
	/* under the queue pair's lock: the answer is due; number of its event */
	uint32_t answering, number;
	/* under the port's lock: on the port's list; next on it, index + 1 */
	uint32_t writing, next;
	uint32_t mr, mr_generation;
	uint32_t psn, operation;
	uint64_t address, iova; /* word in the owner's memory; in addresses of the key */
	uint64_t value, old;
};

/* A domain of extended reliable connections (xrc.c), and a process' reference to one. */
struct hca_xrcd {
	struct hca_item item;
	uint32_t port;
	uint32_t named; /* true: named by this inode */
	uint64_t device, inode;
	uint32_t opens;
	uint32_t pad0;
};
struct hca_xrcd_open {
	struct hca_item item;
	uint32_t xrcd;
};
/* Another process' reference to a target half, from ibv_open_qp. */
struct hca_qp_open {
	struct hca_item item;
	uint32_t qp;
};

/* A queue pair. The state machine is the specification's. A failed send leads to SQE if the queue
 * pair is neither a reliable connection nor XRC: its receives continue.
 * 
 *   RESET -> INIT -> RTR -> RTS <-> SQD
 *     ^        |      |     |^       |
 *     |        |      |     v|       |
 *     |        |      |     SQE      |
 *     |        v      v      v       v
 *     +------ ERR <---+------+-------+      (any state -> RESET) */
struct hca_qp {
	struct hca_item item;
	uint32_t number, port, pd, context;
	uint32_t type; /* enum ibv_qp_type */
	uint32_t send_cq, recv_cq;
	uint32_t srq; /* index + 1: rq holds the one receive that came from it */
	uint32_t srq_generation;
	uint32_t xrcd;    /* index + 1 (xrc.c) */
	uint32_t opens;   /* number of handles that refer to it */
	uint32_t recv_pd; /* protection domain of the memory keys in receives */
	uint32_t state;   /* enum ibv_qp_state */
	uint32_t next;    /* next in the port's bucket: index + 1 */
	uint32_t signal_all;
	/* attributes; `attr` as modify_qp set them */
	uint32_t access, pkey_index, path_mtu, mtu_bytes;
	uint32_t qkey;             /* UD */
	uint32_t blocks_own_mcast; /* UD: does not receive its own sends to its group */
	uint32_t dest_qpn, dest_port;
	uint32_t moves;   /* of both ports, when the address was set */
	uint32_t changes; /* changes of state and attributes, in the life of the world */
	/* direct.c: a peer (index + 1) that passed the checks, and the `changes` of both at that
	 * time */
	uint32_t peer, peer_generation, peer_changes, own_changes;
	uint32_t max_rd_atomic, max_dest_rd_atomic;
	uint32_t min_rnr_timer, timeout, retry_count, rnr_retry;
	uint32_t rq_psn, sq_psn; /* initial values */
	uint32_t drain_notify, drained, drain_head;
	struct ibv_ah_attr address;
	struct hca_queue sq, rq;
	struct hca_requester req;
	struct hca_responder resp;
	struct hca_atomic atomic;
	/* partial.c: the kept packet, index + 1; number of the event that delivers it */
	uint32_t partial_packet, partial_number;
	uint32_t overtaking,
		/* overtake.c: first of the kept requests that are ahead, index + 1; their number */
		overtaking_n;
	uint32_t ece_options; /* options that both ends have, as far as this end knows */
	uint64_t traffic[HCA_TRAFFIC_COUNTERS];
	/* For the sanitizer (checks.h): slot after the last READ in sq; call site of the post; the
	 * last refused post. */
	uint32_t check_read;
	uint64_t caller, refused_caller, refused_wr_id;
	uint32_t refused, pad_refused;
};

/* Adds to a counter, under the queue pair's lock. Other processes read the counter without the
 * lock. */
static inline void hca_qp_count(struct hca_qp *qp, enum hca_counter counter, uint64_t n)
{
	__atomic_store_n(&qp->traffic[counter], qp->traffic[counter] + n, __ATOMIC_RELAXED);
}

/* Identify the two halves as agents of the memory model (sim/engine/memory/memory.h), in events.
 * The halves act independently: an action of one is not ordered before an action of the other,
 * unless the program orders them. */
static inline const void *hca_qp_requester(const struct hca_qp *qp)
{
	return &qp->req;
}
static inline const void *hca_qp_responder(const struct hca_qp *qp)
{
	return &qp->resp;
}

struct hca_world {
	uint32_t ports;
	struct hca_slab qp, cq, srq, ah, member, mr, mw, pd, context, channel, event;
	struct hca_slab packet, small, large;
	uint32_t member_lock; /* a leaf lock */
	/* partial.c: pieces of a burst land before the burst is complete; the pieces are from
	 * anywhere in it; an acknowledge does not make the acknowledged bytes visible */
	uint32_t early, shuffled, ack_shows_nothing;
	uint32_t adaptive; /* overtake.c: packets overtake each other */
	struct hca_slab xrcd, xrcd_open, qp_open;
	uint32_t xrcd_lock;
	uint32_t events_lost; /* asynchronous events dropped for lack of memory */
	struct hca_rings rings;
	struct hca_port port[];
};

#pragma GCC visibility pop

/* ---- for the debugger ---- */
/* The debugger walks the tables of the world as hca_slab_at does (sim/gdb/doppel_gdb/info.py). */
struct fakeverbs_view {
	struct hca_world *world;
};
extern struct fakeverbs_view fakeverbs;

#pragma GCC visibility push(hidden)

/* Returns the world's HCAs, which the first call creates. Never NULL inside an entry point that
 * found a device. */
struct hca_world *hca_world_first(void);
static inline struct hca_world *hca_world(void)
{
	struct hca_world *w = __atomic_load_n(&fakeverbs.world, __ATOMIC_ACQUIRE);

	return LIKELY(w != NULL) ? w : hca_world_first();
}
/* Forgets the tables: with the world, or in the child of a fork. */
void hca_world_gone(void);
/* Apply the options of the environment to a port and to the world (options.c). */
void hca_port_configure(struct hca_port *port, uint32_t index);
void hca_partial_configure(struct hca_world *w);
void hca_routing_configure(struct hca_world *w);

#pragma GCC visibility pop
#endif
