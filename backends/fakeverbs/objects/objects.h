/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What HCAs know: ports, queue pairs, queues, regions, windows and the rest, as plain data in the
 * world arena, read by every process' HCA. What each is to its owner is in handles.h. This floor
 * also has what needs nothing but the data: bytes and keys (memory.h), packets (packet.h),
 * addresses (port.h), personalities (personality.h). Includes arena.
 *
 * References are indices into the tables of struct hca_world, with a generation where the other end
 * may be gone. Sizes in bytes, times in ns, rates in MB/s. Each object is under its item's lock, in
 * the order that entry/entry.h gives.
 */
#ifndef BACKENDS_FAKEVERBS_OBJECTS_H
#define BACKENDS_FAKEVERBS_OBJECTS_H

#include <infiniband/verbs.h>

#include "backends/fakeverbs/arena/arena.h"
#include "backends/fakeverbs/arena/far.h"
#include "backends/fakeverbs/arena/hca_ready.h"
#include "backends/fakeverbs/objects/counters.h"
#include "backends/peermem.h"
#include "core/os/os.h"

#pragma GCC visibility push(hidden)

#define HCA_QPN_FIRST     0x100u
#define HCA_WINDOW_BURSTS 8u  /* in flight per queue pair, at most */
#define HCA_MAX_RD_ATOMIC 128 /* of any personality */
#define HCA_GID_USED      4
#define HCA_PKEY_COUNT    128
#define HCA_BUCKETS       4096
/* The free-running clock that stamps completions: a tick is a ns. */
#define HCA_CLOCK_KHZ    1000000u
#define HCA_COMP_VECTORS 8

struct hca_gid {
	union ibv_gid gid;
	uint32_t type; /* enum ibv_gid_type */
};

struct hca_port {
	uint32_t lock;
	uint32_t up;
	uint32_t personality;          /* see personality.h */
	uint32_t ack_quarters;         /* of the acknowledge timeout, until silence is noticed */
	uint32_t bad_pkeys, bad_qkeys; /* packets refused for these */
	uint32_t gid_used;
	struct hca_gid gid[HCA_GID_USED];
	uint16_t pkey[HCA_PKEY_COUNT];
	uint32_t fatal; /* the device is dead: commands fail, queue pairs are in ERR */
	uint32_t next_qpn;
	uint32_t atomic_cap; /* enum ibv_atomic_cap */
	uint32_t fast_path;  /* direct.c may be used */
	uint32_t regions;    /* that are registered: at most the personality's max_mr */
	uint32_t atomic_lock;
	uint32_t atomics;             /* queue pairs with a write under way: index + 1 */
	uint32_t bucket[HCA_BUCKETS]; /* queue pairs by number: index + 1 */
	uint64_t counted[HCA_COUNTERS];
	uint32_t counted_moves, pad_counted; /* odd: a queue pair that ends gives its counters */
};

struct hca_pd {
	struct hca_item item;
	uint32_t port;
};

enum hca_mr_kind {
	HCA_MR_MEMORY,
	HCA_MR_DMABUF, /* memory of a GPU, by descriptor */
	HCA_MR_NULL,   /* swallows what is written, reads as zeroes; local only */
};

struct hca_mr {
	struct hca_item item;
	uint32_t key;     /* index << 8 | tag: lkey and rkey; 0: none fits */
	uint32_t keys;    /* that there were at this place, in the life of the world */
	uint32_t kind;    /* enum hca_mr_kind */
	uint32_t windows; /* bound to it */
	uint32_t pd, port;
	uint32_t access;
	uint32_t users; /* copies going on */
	uint32_t gpu;
	uint64_t address, iova, bytes;
	struct hca_window window;
	struct peermem_region region;
	/* for the sanitizer (checks.h): call sites of its registering and ending, the key that it
	 * had before, and the last writes of HCAs, from when one of its users is watched */
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
	uint32_t mr; /* it is bound to: index + 1; 0: none */
	uint32_t qp; /* that bound it */
	uint32_t access;
	uint64_t address, bytes; /* of its part, as the region's keys have it */
};

/* Waits of the owner are on the handles: struct ibv_cq, ibv_comp_channel, ibv_context. */
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
	/* Never readable: what cmd_fd is, which programs look at and copy. */
	struct hca_ready command;
};

struct hca_cqe {
	uint64_t wr_id;
	uint32_t status, opcode, vendor_error, bytes, imm, qpn, flags;
	uint32_t qp, generation;
	uint32_t is_recv;
	uint32_t slot; /* the work queue's slots before this one are free once it is polled */
	uint32_t srq;  /* index + 1: instead, one of this shared queue's is */
	uint32_t srq_generation;
	uint32_t src_qpn; /* of a datagram, as the rest of this line */
	uint16_t slid, sl, pkey_index, pad1;
	uint64_t token;     /* its object for memory.h */
	uint64_t timestamp; /* ns; of a queue that stamps */
};

enum hca_arm { HCA_ARM_NONE, HCA_ARM_SOLICITED, HCA_ARM_ANY };

struct hca_cq {
	struct hca_item item;
	uint32_t context, port;
	uint32_t channel; /* index + 1 */
	uint32_t arm;     /* enum hca_arm */
	uint32_t events;  /* on the channel, not yet taken */
	uint32_t next;    /* in the channel's list */
	uint32_t overrun;
	uint32_t ignore_overrun; /* completions that were not polled are overwritten */
	uint32_t moderate_count, moderate_period_us;
	uint32_t moderated;   /* completions whose event is held back */
	uint32_t period_runs; /* a timer for them */
	uint32_t stamps;
	uint64_t stamped; /* ns; the last one's */
	uint32_t size;    /* power of two */
	uint32_t head, tail;
	uint32_t shown; /* tail <= shown <= head: the rest is not visible yet, while it is held */
	uint32_t held;
	uint64_t ring;                  /* arena offset: struct hca_cqe[size] */
	uint64_t armed_at;              /* a call site (checks.h) */
	uint32_t armed_over, pad_armed; /* there were completions, and no poll since */
};

/* What a request to bind has besides its key (rkey) and where (remote_address). */
struct hca_bind {
	uint32_t mw, mw_generation;
	uint32_t mr, mr_key; /* index + 1; 0: none */
	uint32_t access, pad0;
	uint64_t bytes;
};

/* A work request in its queue. The scatter list, or the inline data, follows. */
struct hca_wqe {
	uint64_t wr_id;
	uint64_t bytes;
	uint64_t remote_address;
	uint32_t rkey, imm;
	uint32_t opcode; /* enum ibv_wr_opcode */
	uint32_t flags;  /* enum ibv_send_flags */
	uint32_t sge_count;
	uint32_t srqn;         /* of XRC: the shared queue that it is for */
	uint32_t check_writes; /* checks.h */
	uint32_t psn, packets; /* once started */
	uint32_t started;
	uint32_t status; /* enum ibv_wc_status found before it was its turn to fail */
	uint32_t ah, ah_generation, dest_qpn; /* of a datagram; its Q_Key is in rkey */
	union {
		uint64_t operand[2]; /* atomic: what to compare with or to add; to put there */
		struct hca_bind bind;
	};
	int64_t step;     /* of the operation that it was posted for; -1: none */
	uint32_t account; /* enum hca_account */
	uint32_t check_noted;
	uint64_t caller, check_sum; /* for the sanitizer (checks.h) */
	uint64_t flow;              /* of the trace file; 0: none */
};

/* Counters run freely; the slot is counter & (size - 1).
 *   polled <= done <= head; send queue: done <= next <= head */
struct hca_queue {
	uint64_t ring;
	uint32_t stride, size, sge_max, inline_max;
	uint32_t head;          /* next to post */
	uint32_t done;          /* oldest that is not complete */
	uint32_t polled;        /* oldest whose slot is taken: its completion was not polled */
	uint32_t next;          /* send: next to transmit */
	uint64_t posted, ended; /* ever; ended: completed, flushed, or dropped with the queue */
};

/* A shared receive queue (srq.c). */
struct hca_srq {
	struct hca_item item;
	uint32_t context, port, pd;
	uint32_t limit;  /* not 0: an event when fewer than this wait */
	uint32_t failed; /* IBV_EVENT_SRQ_ERR was posted */
	uint32_t xrcd;   /* index + 1: an XRC one, with a number and a completion queue */
	uint32_t cq;
	/* while a receive leaves it: for which queue pair (index + 1), and `done` here and `head`
	 * there before it */
	uint32_t taker, taken, taker_head;
	struct hca_queue rq;
};

/* What the requester knows. PSNs are 24 bits: psn_una <= psn_next <= psn_max (modulo). */
struct hca_requester {
	uint32_t psn_una;              /* oldest not acknowledged */
	uint32_t psn_next;             /* next to transmit; before psn_max while resending */
	uint32_t psn_max;              /* never transmitted yet */
	uint64_t offset;               /* bytes of sq.next that were transmitted */
	uint32_t reads;                /* READs and atomics started and not complete */
	uint32_t retries, rnr_retries; /* left */
	uint32_t scheduled;            /* a transmit event is pending */
	uint32_t timer;                /* an acknowledge timer is pending */
	uint32_t rnr_wait;             /* not 0: waiting, this is the number of the wait */
	uint32_t rnr_waits;
	uint32_t rnr_row;     /* waits without progress */
	uint32_t gap_seen;    /* resending since psn_una; ignore further signs of the same loss */
	uint64_t progress_ns; /* last acknowledge, or start from idle */
	uint64_t resent;      /* packets */
};

/* A READ or an atomic that was done. */
struct hca_answered {
	uint32_t psn, is_atomic;
	uint64_t value;   /* before it */
	uint64_t busy_ns; /* the answer is leaving until then */
};

struct hca_responder {
	uint32_t psn;       /* expected */
	uint32_t nak_sent;  /* for this psn; silent until it comes */
	uint32_t receiving; /* a SEND is between its first and last packet, in rq.done */
	uint32_t writing;   /* so is a WRITE of an unreliable connection */
	uint32_t established;
	uint64_t received;                               /* bytes of either */
	struct hca_answered answered[HCA_MAX_RD_ATOMIC]; /* the last max_dest_rd_atomic ones */
	uint32_t answers;
	uint64_t busy_ns; /* the last answer has left then, at the earliest */
};

/* An atomic of which the old value was read: the new one is written, and the answer sent, when its
 * event comes, or before. */
struct hca_atomic {
	uint32_t answering, number; /* under the queue pair's lock; which event it is */
	uint32_t writing, next;     /* under the port's: in its list, index + 1 */
	uint32_t mr, mr_generation;
	uint32_t psn, operation;
	uint64_t address, iova; /* in the owner's memory; as the key has it */
	uint64_t value, old;
};

/* A domain of extended reliable connections (xrc.c), and one that a process opened. */
struct hca_xrcd {
	struct hca_item item;
	uint32_t port;
	uint32_t named; /* by this inode */
	uint64_t device, inode;
	uint32_t opens;
	uint32_t pad0;
};
struct hca_xrcd_open {
	struct hca_item item;
	uint32_t xrcd;
};
/* Another process' target half, as ibv_open_qp gives it. */
struct hca_qp_open {
	struct hca_item item;
	uint32_t qp;
};

/* State machine of the specification; SQE is where a send that fails leads, of a queue pair that
 * is neither a reliable connection nor XRC: its receives go on.
 *
 *   RESET -> INIT -> RTR -> RTS <-> SQD
 *     ^        |      |     |^       |
 *     |        |      |     v|       |
 *     |        |      |     SQE      |
 *     |        v      v      v       v
 *     +------ ERR <---+------+-------+      (any state -> RESET)
 */
struct hca_qp {
	struct hca_item item;
	uint32_t number, port, pd, context;
	uint32_t type; /* enum ibv_qp_type */
	uint32_t send_cq, recv_cq;
	uint32_t srq; /* index + 1: rq holds the one receive taken from it */
	uint32_t srq_generation;
	uint32_t xrcd;    /* index + 1 (xrc.c) */
	uint32_t opens;   /* handles that stand for it */
	uint32_t recv_pd; /* of the memory keys in receives */
	uint32_t state;   /* enum ibv_qp_state */
	uint32_t next;    /* in the port's bucket: index + 1 */
	uint32_t signal_all;
	/* attributes; `attr` as modify_qp set them */
	uint32_t access, pkey_index, path_mtu, mtu_bytes;
	uint32_t qkey;             /* UD */
	uint32_t blocks_own_mcast; /* UD: does not receive what it sends to its own group */
	uint32_t dest_qpn, dest_port;
	uint32_t changes; /* of its state and attributes, in the life of the world */
	/* direct.c: a peer (index + 1) with which all was well, and the changes of both by then */
	uint32_t peer, peer_generation, peer_changes, own_changes;
	uint32_t max_rd_atomic, max_dest_rd_atomic;
	uint32_t min_rnr_timer, timeout, retry_count, rnr_retry;
	uint32_t rq_psn, sq_psn; /* as set */
	uint32_t drain_notify, drained, drain_head;
	struct ibv_ah_attr address;
	struct hca_queue sq, rq;
	struct hca_requester req;
	struct hca_responder resp;
	struct hca_atomic atomic;
	uint32_t early_packet, early_number; /* early.c: kept, index + 1; which event takes it up */
	uint32_t overtaking,
		overtaking_n; /* overtake.c: requests that are ahead; the first, index + 1 */
	uint32_t ece_options; /* that both ends have, as far as is known here */
	uint64_t traffic[HCA_TRAFFIC_COUNTERS];
	/* for the sanitizer (checks.h): the slot after the last READ in sq; the call site of the
	 * post; the last post refused */
	uint32_t check_read;
	uint64_t caller, refused_caller, refused_wr_id;
	uint32_t refused, pad_refused;
};

/* Under its lock. Other processes read what it has counted without. */
static inline void hca_qp_count(struct hca_qp *qp, enum hca_counter counter, uint64_t n)
{
	__atomic_store_n(&qp->traffic[counter], qp->traffic[counter] + n, __ATOMIC_RELAXED);
}

/* The two halves act on their own: what one did is not ordered before what the other does, unless
 * the program orders it. Who memory.h takes them for, in events. */
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
	uint32_t member_lock; /* a leaf */
	/* early.c: some of a burst is seen before it is done; from anywhere in it; an acknowledge
	 * does not show what it acknowledges */
	uint32_t early, shuffled, ack_shows_nothing;
	uint32_t adaptive; /* overtake.c: packets overtake each other */
	struct hca_slab xrcd, xrcd_open, qp_open;
	uint32_t xrcd_lock;
	uint32_t events_lost; /* no memory was left for them */
	struct hca_rings rings;
	struct hca_port port[];
};

#pragma GCC visibility pop

/* ---- for the debugger ---- */
/* It walks the tables of the world as hca_slab_at does (sim/gdb/doppel_gdb/info.py). */
struct fakeverbs_view {
	struct hca_world *world;
};
extern struct fakeverbs_view fakeverbs;

#pragma GCC visibility push(hidden)

/* The world's HCAs, made at first use. Never NULL inside an entry point that found a device. */
struct hca_world *hca_world_first(void);
static inline struct hca_world *hca_world(void)
{
	struct hca_world *w = __atomic_load_n(&fakeverbs.world, __ATOMIC_ACQUIRE);

	return LIKELY(w != NULL) ? w : hca_world_first();
}
/* The tables are gone: with the world, or in the child of a fork. */
void hca_world_gone(void);
/* What options of the environment make of it (options.c), and of the world. */
void hca_port_configure(struct hca_port *port, uint32_t index);
void hca_early_configure(struct hca_world *w);
void hca_routing_configure(struct hca_world *w);

#pragma GCC visibility pop
#endif
