/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The HCA double, from inside. The outside is <infiniband/verbs.h> of rdma-core, unchanged.
 *
 * What another process' HCA reads (queue pairs, completion queues, memory regions, ports) lies in
 * the world arena as plain data: indices and generations, no pointers. A `handle` in there is the
 * owner's verbs object, kept as a number: it is posted on and labelled, never looked into by
 * others. What only the owner sees (struct ibv_qp and the like) is in the owner's os_alloc memory.
 *
 * Who runs: entry points (on a task) begin with sim_point, act under locks without waiting, and
 * end with sim_events_drain. Everything else is an event of the engine: hca_qp_transmit,
 * hca_packet_arrive, hca_qp_timer; these never wait.
 *
 * Locks are words in the arena, spun on (under `sim` they are always free). Order, outermost first:
 *
 *   queue pair -> shared receive queue -> completion queue -> completion channel, context (async events)
 *   a port's atomics: under a queue pair, over memory
 *   leaves, taken under any of these and holding nothing more: memory region, port, slab, memory
 *
 * Two queue pairs are never locked together: requester and responder speak by packets only.
 *
 * Facts: InfiniBand Architecture 1.x volume 1, chapters 9 to 11, by way of the rdma-core manual
 * pages; times in ns, sizes in bytes, rates in MB/s; errors 0 or a positive errno.
 */
#ifndef BACKENDS_FAKEVERBS_HCA_H
#define BACKENDS_FAKEVERBS_HCA_H

#include <endian.h>
#include <infiniband/verbs.h>

#include "backends/fakeverbs/far.h"
#include "backends/fakeverbs/hca_ready.h"
#include "backends/peermem.h"
#include "core/base/macros.h"
#include "core/os/os.h"
#include "sim/engine/memory.h"
#include "sim/engine/sim.h"
#include "sim/world/world.h"

#pragma GCC visibility push(hidden)

#define HCA_PSN_MASK      0xffffffu
#define HCA_QPN_FIRST     0x100u
#define HCA_BURST_BYTES   65536u /* payload of one message on the fabric, at most */
#define HCA_WINDOW_BURSTS 8u     /* in flight per queue pair, at most */
#define HCA_MAX_RD_ATOMIC 128    /* of any personality */
#define HCA_GID_USED      4
#define HCA_PKEY_COUNT    128
#define HCA_BUCKETS       64
/* RoCE v2 per packet: Ethernet 18, IPv4 20, UDP 8, BTH 12, ICRC 4; and the extended header */
#define HCA_HEADER_BYTES 62u
#define HCA_RETH_BYTES   16u
#define HCA_ATOMIC_BYTES 28u
#define HCA_ACK_BYTES    66u
#define HCA_GRH_BYTES    40u /* in front of a received datagram */
/* What things take inside an HCA; round numbers of a current one. */
#define HCA_DOORBELL_NS 150u
#define HCA_LOOPBACK_NS 300u
#define HCA_POST_NS     50u
#define HCA_POLL_NS     20u
#define HCA_CONTROL_NS  5000u
#define HCA_REG_NS      20000u
/* The free-running clock that stamps completions: a tick is a ns. */
#define HCA_CLOCK_KHZ    1000000u
#define HCA_COMP_VECTORS 8

/* ---- slabs: tables of equal items in the arena, that grow and never move -------------------- */

#define HCA_CHUNKS 1024

/* First in every item. `generation` changes whenever the item is freed; a reference from elsewhere
 * is (index, generation). */
struct hca_item {
	uint32_t index, generation;
	uint32_t live, next_free; /* next_free: index + 1 */
	uint32_t proc;            /* owner */
	uint32_t lock;
	uint64_t handle;       /* the owner's verbs object */
	uint64_t made;         /* the call site that made it (check.h); 0: unknown */
	uint32_t posts, heard; /* far.c: wakes by other processes, and those passed on */
};

struct hca_slab {
	uint32_t lock;
	uint32_t item_bytes, chunk_shift;
	uint32_t reuse_after; /* this many free ones rest before one is used again */
	uint32_t count, free_count, free_first, free_last;
	uint64_t chunk[HCA_CHUNKS];
};

void *hca_slab_at(struct hca_slab *s, uint32_t index);
/* NULL: full. What is behind its struct hca_item is as the last user left it. */
void *hca_slab_take(struct hca_slab *s);
/* The same for the calling process, with the verbs object that stands for it. */
void *hca_slab_take_owned(struct hca_slab *s, void *handle);
void hca_slab_give(struct hca_slab *s, void *item);
/* The next live item of process `proc` (UINT32_MAX: any) from *cursor on; NULL: no more. */
void *hca_slab_next(struct hca_slab *s, uint32_t proc, uint32_t *cursor);

/* Arena memory in powers of two, reused: rings. 0: none left; it is not zeroed. */
uint64_t hca_mem_take(uint64_t bytes);
void hca_mem_give(uint64_t offset, uint64_t bytes);

/* Names a process in the tables: of the caller's world, or of the machine. */
uint32_t hca_proc_id(const struct os_proc *proc);
/* Wakes who waits on the object's handle, in its owner's process. */
void hca_item_post(struct hca_item *it);

/* Did a failure end the run? One that was only noted did not. */
bool hca_run_ended(void);
void hca_lock(uint32_t *word);
bool hca_try_lock(uint32_t *word);
/* The same; true: who held it is dead, and was not through. */
bool hca_lock_broken(uint32_t *word);
void hca_unlock(uint32_t *word);

/* ---- objects -------------------------------------------------------------------------------- */

struct hca_gid {
	union ibv_gid gid;
	uint32_t type; /* enum ibv_gid_type */
};

struct hca_port {
	uint32_t lock;
	uint32_t up;
	uint32_t personality;          /* see personality.h */
	uint32_t bad_pkeys, bad_qkeys; /* packets refused for these */
	uint32_t gid_used;
	struct hca_gid gid[HCA_GID_USED];
	uint16_t pkey[HCA_PKEY_COUNT];
	uint32_t fatal; /* the device is dead: commands fail, queue pairs are in ERR */
	uint32_t next_qpn;
	uint32_t atomic_cap; /* enum ibv_atomic_cap */
	uint32_t atomic_lock;
	uint32_t atomics;             /* queue pairs with a write under way: index + 1 */
	uint32_t bucket[HCA_BUCKETS]; /* queue pairs by number: index + 1 */
};

struct hca_pd {
	struct hca_item item;
	uint32_t port;
};

enum hca_mr_kind {
	HCA_MR_MEMORY,
	HCA_MR_DMABUF, /* memory of a GPU, by descriptor */
	HCA_MR_NULL, /* swallows what is written, reads as zeroes; local only */
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
	/* for the sanitizer (check.h): call sites of its registering and ending, the key that it had
	 * before, and the last writes of HCAs, from when one of its users is watched */
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
	uint32_t to_port; /* or HCA_MULTICAST, HCA_NOBODY */
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
	struct hca_ready command; /* never readable: what cmd_fd is, which programs look at and copy */
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
	uint32_t ignore_overrun; /* the program takes care: what nobody polled is overwritten */
	uint32_t moderate_count, moderate_period_us;
	uint32_t moderated;   /* completions whose event is held back */
	uint32_t period_runs; /* a timer for them */
	uint32_t stamps;
	uint64_t stamped; /* ns; the last one's */
	uint32_t size;    /* power of two */
	uint32_t head, tail;
	uint32_t shown; /* tail <= shown <= head: the rest is not visible yet, while it is held */
	uint32_t held;
	uint64_t ring; /* arena offset: struct hca_cqe[size] */
	uint64_t armed_at;              /* a call site (check.h) */
	uint32_t armed_over, pad_armed; /* there were completions, and no poll since */
};

/* What a request to bind says besides its key (rkey) and where (remote_address). */
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
	uint32_t srqn; /* of XRC: the shared queue that it is for */
	uint32_t srqn_pad;
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
	uint64_t caller, check_sum; /* for the sanitizer (check.h) */
	uint32_t check_writes, pad_check;
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
	uint32_t failed; /* IBV_EVENT_SRQ_ERR was said */
	uint32_t xrcd;   /* index + 1: an XRC one, with a number and a completion queue */
	uint32_t cq;
	uint32_t pad0;
	struct hca_queue rq;
};

/* What the requester knows. PSNs are 24 bits: psn_una <= psn_next <= psn_max (modulo). */
struct hca_requester {
	uint32_t psn_una;              /* oldest not acknowledged */
	uint32_t psn_next;             /* next to transmit; behind psn_max while resending */
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
	uint32_t max_rd_atomic, max_dest_rd_atomic;
	uint32_t min_rnr_timer, timeout, retry_count, rnr_retry;
	uint32_t rq_psn, sq_psn; /* as set */
	uint32_t drain_notify, drained;
	struct ibv_ah_attr address;
	struct hca_queue sq, rq;
	struct hca_requester req;
	struct hca_responder resp;
	struct hca_atomic atomic;
	uint32_t early_packet, early_number; /* early.c: kept, index + 1; which event takes it up */
	uint32_t ece_options; /* that both ends have, as far as is known here */
	/* for the sanitizer (check.h): who posts, behind the last READ in sq, and the last post refused */
	uint32_t check_read;
	uint64_t caller, refused_caller, refused_wr_id;
	uint32_t refused, pad_refused;
};

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

enum hca_packet_kind {
	HCA_WRITE,
	HCA_SEND,
	HCA_READ,     /* asks for one burst */
	HCA_RESPONSE, /* that burst */
	HCA_ACK,
	HCA_NAK,
	HCA_ATOMIC, /* payload: both operands, or what to write; answered by a RESPONSE */
};

enum hca_nak { HCA_NAK_SEQUENCE, HCA_NAK_INVALID, HCA_NAK_ACCESS, HCA_NAK_OPERATION, HCA_NAK_RNR };

enum hca_packet_flag {
	HCA_FIRST = 1,
	HCA_LAST = 2,
	HCA_IMM = 4,
	HCA_SOLICITED = 8,
	HCA_ACK_REQUEST = 16,
	HCA_INVALIDATE = 32, /* the key in `imm` */
};

/* The way of a datagram. */
struct hca_route {
	union ibv_gid sgid, dgid;
	uint32_t global; /* has them */
	uint32_t gid_type;
	uint32_t flow_label;
	uint16_t slid;
	uint8_t traffic_class, hop_limit, sl;
};

/* One message on the fabric: `packets` packets from `psn` on. */
struct hca_packet {
	struct hca_item item;
	uint32_t service; /* enum ibv_qp_type that it is for */
	uint16_t pkey;
	uint32_t qkey; /* of a datagram, as is its route */
	struct hca_route route;
	uint32_t kind, flags;
	uint32_t from_port, to_port, from_qpn, to_qpn;
	uint32_t psn, packets;
	uint32_t nak, rnr_timer;
	uint32_t srqn, srqn_pad;
	uint32_t rkey, imm;
	uint32_t bytes;  /* of payload; for a READ: wanted */
	uint32_t buffer; /* index of the payload's, + 1; small ones first */
	uint32_t small;
	uint32_t operation; /* of an atomic: enum ibv_wr_opcode */
	uint64_t caller;    /* of its request (check.h) */
	uint64_t offset;    /* of the payload in its message */
	uint64_t total;     /* of the message */
	uint64_t remote_address;
};

#define HCA_SMALL_BYTES 1024u

struct hca_buffer_small {
	struct hca_item item;
	uint8_t bytes[HCA_SMALL_BYTES];
};
struct hca_buffer_large {
	struct hca_item item;
	uint8_t bytes[HCA_BURST_BYTES];
};

struct hca_world {
	uint32_t ports;
	struct hca_slab qp, cq, srq, ah, member, mr, mw, pd, context, channel, event;
	struct hca_slab packet, small, large;
	uint32_t member_lock; /* a leaf */
	/* early.c: some of a burst is seen before it is done; from anywhere in it; an acknowledge
	 * does not show what it acknowledges */
	uint32_t early, shuffled, ack_shows_nothing;
	struct hca_slab xrcd, xrcd_open, qp_open;
	uint32_t xrcd_lock;
	uint32_t mem_lock;
	uint64_t mem_free[48]; /* by power of two: first free block */
	struct hca_port port[];
};

/* The world's HCAs, made at first use. Never NULL inside an entry point that found a device. */
struct hca_world *hca_world(void);
/* options.c: what it can be told to be. */
void hca_port_configure(struct hca_port *port, uint32_t index);
/* A variable of the world's configuration, else of the program. NULL: unset. */
const char *hca_env(const char *name);
/* Calls `one` for each kind of object that a process owns, in the order in which they end. */
void hca_world_each_kind(struct hca_world *w, uint32_t member,
			 void (*one)(struct hca_slab *s, uint32_t member, void (*end)(void *item)));
/* For a program that made no world itself: `start` makes one at the first call that needs one; 0 or
 * an errno. Set once, at load. */
void hca_on_first_call(int (*start)(void));
/* In the child of a fork: there are no HCAs, whatever the parent had. */
void hca_forget(void);
/* device.c: forgets the devices of a process that ends. */
void hca_devices_end(struct os_proc *proc, bool killed);

/* ---- the owner's objects -------------------------------------------------------------------- */

struct hca_device_handle {
	struct ibv_device ibv;
	const void *ops; /* where rdma-core's providers look for their own table: never theirs */
	uint32_t port;   /* world port */
	uint32_t host;
};
struct hca_context_handle {
	struct hca_context *hca;
	struct verbs_context verbs; /* grows up: last */
};
struct hca_td_handle {
	struct ibv_td ibv;
	uint32_t users; /* parent domains */
};
struct hca_pd_handle {
	struct ibv_pd ibv;
	struct hca_pd *hca;
	uint32_t users;
	/* of a parent domain (domain.c) */
	struct hca_pd_handle *base; /* whose `hca` it shares; NULL: a protection domain itself */
	struct hca_td_handle *td;   /* NULL: none */
	void *(*alloc)(struct ibv_pd *pd, void *pd_context, size_t size, size_t alignment,
		       uint64_t resource_type); /* NULL: none */
	void (*free)(struct ibv_pd *pd, void *pd_context, void *ptr, uint64_t resource_type);
	void *pd_context;
};
struct hca_mr_handle {
	struct ibv_mr ibv;
	struct hca_mr *hca;
};
struct hca_mw_handle {
	struct ibv_mw ibv;
	struct hca_mw *hca;
};
struct hca_channel_handle {
	struct ibv_comp_channel ibv;
	struct hca_channel *hca;
};
struct hca_cq_handle {
	union {
		struct ibv_cq ibv;
		struct ibv_cq_ex ex; /* begins with the same */
	};
	struct hca_cq *hca;
	struct ibv_pd *parent; /* domain, of an extended one; NULL: none */
	void *ring_memory;     /* of its allocator; NULL: none */
	/* of an extended queue (cq_ex.c) */
	uint64_t wc_flags;
	uint32_t single_threaded, polling;
	struct os_mutex poll_lock;
	struct ibv_wc wc; /* the current one */
	uint64_t timestamp;
	uint32_t users;       /* queue pairs */
	uint64_t depth;       /* completions that they can have (check.h) */
	uint32_t comp_taken;  /* by get_cq_event */
	uint32_t async_taken; /* by get_async_event */
};
struct hca_builder;
struct hca_qp_handle {
	union {
		struct ibv_qp ibv;
		struct ibv_qp_ex ex; /* begins with the same */
	};
	struct hca_qp *hca;
	struct ibv_xrcd *xrcd;       /* NULL: none */
	void *ring_memory;           /* of the program\'s allocator; NULL: none */
	struct hca_qp_open *open;    /* by ibv_open_qp; NULL: this one made it */
	struct hca_builder *builder; /* of an extended one (qp_ex.c), behind this; else NULL */
	uint32_t async_taken;
	uint32_t cq_depth[2]; /* send, receive: its part of the queues' depth */
};

struct hca_ah_handle {
	struct ibv_ah ibv;
	struct hca_ah *hca;
};

struct hca_srq_handle {
	struct ibv_srq ibv;
	struct hca_srq *hca;
	struct hca_pd_handle *pd;
	void *ring_memory;     /* of the program's allocator; NULL: none */
	struct ibv_xrcd *xrcd; /* NULL: a basic one */
	struct ibv_cq *cq;
	uint32_t users; /* queue pairs */
	uint32_t async_taken;
};
struct hca_xrcd_handle {
	struct ibv_xrcd ibv;
	struct hca_xrcd *hca;
	struct hca_xrcd_open *open;
	uint32_t users; /* queue pairs and shared receive queues */
};

static inline struct hca_context_handle *hca_context_of(struct ibv_context *c)
{
	return CONTAINER_OF(verbs_get_ctx(c), struct hca_context_handle, verbs);
}
static inline struct hca_pd_handle *hca_pd_of(struct ibv_pd *pd)
{
	return CONTAINER_OF(pd, struct hca_pd_handle, ibv);
}
static inline struct hca_cq_handle *hca_cq_of(struct ibv_cq *cq)
{
	return CONTAINER_OF(cq, struct hca_cq_handle, ibv);
}
static inline struct hca_qp_handle *hca_qp_of(struct ibv_qp *qp)
{
	return CONTAINER_OF(qp, struct hca_qp_handle, ibv);
}
static inline struct hca_srq_handle *hca_srq_of(struct ibv_srq *srq)
{
	return CONTAINER_OF(srq, struct hca_srq_handle, ibv);
}

/* ---- direct.c ------------------------------------------------------------------------------- */

/* Executes what is in the send queue at once, as far as that can be done without packets; the rest
 * stays. The queue pair is locked. */
void hca_direct(struct hca_qp *qp);

/* ---- memory.c ------------------------------------------------------------------------------- */

/* Is [iova, iova + bytes) inside a live region of this protection domain with these rights? Holds
 * the region until hca_mr_release. NULL: no. */
struct hca_mr *hca_mr_hold(uint32_t pd, uint32_t key, uint64_t iova, uint64_t bytes,
			   uint32_t access);
void hca_mr_release(struct hca_mr *mr);
/* Is this a key of that domain, whatever of? */
bool hca_key_live(uint32_t pd, uint32_t key);
/* Into memory that others poll, and out of memory that others write. */
void hca_host_write(uint8_t *to, const uint8_t *from, uint64_t bytes);
void hca_host_read(uint8_t *to, const uint8_t *from, uint64_t bytes);
int hca_mr_write(struct hca_mr *mr, uint64_t iova, const void *data, uint64_t bytes);
int hca_mr_read(struct hca_mr *mr, uint64_t iova, void *data, uint64_t bytes);
/* An aligned word, whole. */
int hca_mr_load(struct hca_mr *mr, uint64_t iova, uint64_t *value);
/* The scatter list as a stream: every entry valid? then bytes from `offset` on. EACCES: no. */
int hca_sges_check(uint32_t pd, const struct ibv_sge *sge, uint32_t n, uint32_t access);
int hca_sges_read(uint32_t pd, const struct ibv_sge *sge, uint32_t n, uint64_t offset, void *data,
		  uint64_t bytes);
int hca_sges_write(uint32_t pd, const struct ibv_sge *sge, uint32_t n, uint64_t offset,
		   const void *data, uint64_t bytes);
void hca_mr_destroy(struct hca_mr *mr); /* region.c */
struct ibv_mr *hca_alloc_null_mr(struct ibv_pd *pd);

/* ---- faults.c ------------------------------------------------------------------------------- */

#define HCA_NO_PORT UINT32_MAX
/* A visit of a fault site that is more than a call that fails. */
bool hca_fault(const char *site, const void *object, uint32_t port, int64_t step,
	       struct os_fault *f);
/* Does this call fail? The errno, or 0. Under no lock; state: of modify_qp, else -1. A command is
 * what a dead device refuses (EIO). */
int hca_call_fault(const char *site, const void *object, uint32_t port, int state);
int hca_command_fault(const char *site, const void *object, uint32_t port, int state);
/* The same for a post, where the device or the queue pair may die besides. */
int hca_post_fault(struct hca_qp *qp, const char *site, const struct ibv_qp *ibv);

/* ---- cq.c ----------------------------------------------------------------------------------- */

void hca_cq_push(struct hca_cq *cq, const struct hca_cqe *e, bool solicited);
/* Nothing more than `visible` entries is seen by polls for `ns`; then everything is, and whoever
 * waits for the queue is woken. */
void hca_cq_hold(struct hca_cq *cq, uint32_t visible, uint64_t ns);
/* Forgets what this queue pair completed and nobody polled. */
void hca_cq_purge(struct hca_cq *cq, const struct hca_qp *qp);
void hca_cq_destroy(struct hca_cq *cq);
static inline struct hca_cqe *hca_cqe_at(const struct hca_cq *cq, uint32_t counter)
{
	return (struct hca_cqe *)world_arena_at(cq->ring) + (counter & (cq->size - 1));
}
/* A queue of at least that many entries; flags are enum ibv_create_cq_attr_flags. NULL and errno. */
struct hca_cq_handle *hca_cq_create(struct ibv_context *context,
				    const struct ibv_cq_init_attr_ex *a, uint32_t flags);
/* Takes up to n completions, whose slots are free then. */
int hca_cq_pop(struct hca_cq *cq, struct hca_cqe *e, int n);
void hca_wc_fill(struct ibv_wc *wc, const struct hca_cqe *e);
/* The fault site of a poll; true: it fails. */
bool hca_poll_fault(struct hca_cq *cq, const struct ibv_cq *ibv);
int hca_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int hca_req_notify_cq(struct ibv_cq *cq, int solicited_only);

/* ---- cq_ex.c, cq_attr.c --------------------------------------------------------------------- */

struct ibv_cq_ex *hca_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *a);
int hca_query_rt_values(struct ibv_context *context, struct ibv_values_ex *v);
int hca_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *a);
/* An armed queue has a completion to tell of. Under its lock. */
void hca_cq_notify(struct hca_cq *cq);

/* ---- event.c -------------------------------------------------------------------------------- */

/* What an event is about: an index and generation of that table; the port by its number. */
enum hca_element { HCA_ELEMENT_PORT, HCA_ELEMENT_CQ, HCA_ELEMENT_QP, HCA_ELEMENT_SRQ };

void hca_event_post(uint32_t context, enum ibv_event_type type, uint32_t element,
		    uint32_t generation);
/* Forgets events of an element that goes away. */
void hca_event_purge(uint32_t context, enum hca_element kind, uint32_t element,
		     uint32_t generation);
void hca_channel_post(struct hca_cq *cq); /* under the CQ's lock */
/* Removes a queue that goes away from its channel's list. */
void hca_channel_purge(struct hca_cq *cq);
/* Every event that was taken is acknowledged: the promise that destroy makes. WAITS. */
void hca_acked_wait(const void *object, const uint32_t *taken, const uint32_t *acked);
void hca_context_destroy(struct hca_context *c);
void hca_channel_destroy(struct hca_channel *ch);
/* Another process added to the queue: its descriptor is readable, unless that was taken. */
void hca_context_show(void *context);
void hca_channel_show(void *channel);

/* ---- qp.c, qp_attr.c ------------------------------------------------------------------------ */

/* account.c: a request that was posted ends once: it completes, is flushed, or goes with its queue. Each
 * step says so; one that comes twice, or for nothing, is a failure of the class "work-request". */
enum hca_account { HCA_ACCOUNT_NONE, HCA_ACCOUNT_POSTED = 0x9057ed, HCA_ACCOUNT_ENDED };
void hca_account_post(struct hca_queue *q, struct hca_wqe *e, const char *queue);
void hca_account_end(struct hca_queue *q, struct hca_wqe *e, const char *queue);
/* Requests from done to head are dropped, by a reset or with the queue; then all are accounted for. */
void hca_account_drop(struct hca_queue *q, const char *queue);
struct hca_wqe *hca_wqe_at(const struct hca_queue *q, uint32_t counter);
/* A ring for that many requests at least; ENOMEM. Not thread-safe. */
int hca_queue_make(struct hca_queue *q, uint32_t wr, uint32_t sge, uint32_t inline_bytes);
void hca_queue_end(struct hca_queue *q);
static inline struct ibv_sge *hca_wqe_sges(struct hca_wqe *w)
{
	return (struct ibv_sge *)(w + 1);
}
void hca_qp_set_state(struct hca_qp *qp, enum ibv_qp_state state);
/* To ERR: everything outstanding on both queues completes with WR_FLUSH_ERR, in order. */
void hca_qp_to_error(struct hca_qp *qp);
void hca_qp_flush(struct hca_qp *qp);
void hca_qp_reset(struct hca_qp *qp);
void hca_qp_destroy(struct hca_qp *qp);
/* The live queue pair of a port with this number, locked; NULL: none. */
struct hca_qp *hca_qp_lock_number(uint32_t port, uint32_t number);
/* The same, if nobody has it locked at this moment. */
struct hca_qp *hca_qp_try_number(uint32_t port_index, uint32_t number);
/* The same by reference: is it still that one? */
struct hca_qp *hca_qp_lock_reference(struct hca_qp *qp, uint32_t generation);
static inline uint64_t hca_qp_id(const struct hca_qp *qp)
{
	return (uint64_t)qp->port << 24 | qp->number;
}
/* Without what the half of XRC lacks: programs set it as for RC, and the kernel drops it. */
int hca_qp_mask(enum ibv_qp_type type, int mask);
/* May (from -> to) be made with these attributes? EINVAL: a bit too few or too many. */
int hca_qp_check_mask(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to,
		      int mask);
int hca_qp_check_values(const struct hca_qp *qp, const struct ibv_qp_attr *a, int mask);
/* What a transition needs and allows, without IBV_QP_STATE; false: there is no such transition. */
bool hca_qp_masks(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to,
		  int *required, int *optional);

/* ---- port.c --------------------------------------------------------------------------------- */

#define HCA_NOBODY    UINT32_MAX
#define HCA_MULTICAST (UINT32_MAX - 1)

void hca_port_init(struct hca_port *port, uint32_t index);
int hca_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr,
		   size_t bytes);
/* Which port answers to this GID, or LID; HCA_NOBODY: none. */
uint32_t hca_gid_port(const union ibv_gid *gid);
uint32_t hca_lid_port(uint16_t lid);
uint16_t hca_port_lid(uint32_t port); /* 0: RoCE */
bool hca_gid_get(uint32_t port, uint32_t index, union ibv_gid *gid, enum ibv_gid_type *type);
bool hca_gid_is_multicast(const union ibv_gid *gid);
uint16_t hca_pkey_get(uint32_t port, uint32_t index);
bool hca_pkey_match(uint16_t a, uint16_t b);
/* Where packets to this address go: a port, or HCA_MULTICAST. EINVAL: not an address that this
 * port can use; ETIMEDOUT: nobody answers to it. */
int hca_address_resolve(uint32_t port, const struct ibv_ah_attr *ah, uint32_t *to_port);

/* ---- qp.c, qp_ex.c -------------------------------------------------------------------------- */

/* What comp_mask does not name is zero. NULL and errno. */
struct ibv_qp *hca_qp_create(struct ibv_context *context, struct ibv_qp_init_attr_ex *a);
struct ibv_qp *hca_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *a);
/* What queue pairs of this type do not have: EOPNOTSUPP. */
int hca_qp_ex_check(enum ibv_qp_type type, uint64_t ops);
void hca_qp_ex_calls(struct hca_qp_handle *h, uint64_t ops);
size_t hca_builder_bytes(uint32_t port);
/* Whoever posts to an extended queue pair waits until nobody is making requests. WAITS. */
void hca_builder_lock(struct hca_qp_handle *h);
void hca_builder_unlock(struct hca_qp_handle *h);

/* ---- domain.c ------------------------------------------------------------------------------- */

/* What the program's allocators are told that they allocate for. */
enum hca_resource { HCA_RESOURCE_QP = 1, HCA_RESOURCE_SRQ, HCA_RESOURCE_CQ };

struct ibv_td *hca_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *a);
int hca_dealloc_td(struct ibv_td *td);
struct ibv_pd *hca_alloc_parent_domain(struct ibv_context *context,
				       struct ibv_parent_domain_init_attr *a);
void hca_parent_end(struct hca_pd_handle *pd);
/* Under no lock: these run the program's code. pd may be NULL. ENOMEM. */
int hca_ring_memory_take(struct ibv_pd *pd, enum hca_resource type, uint64_t bytes, void **memory);
void hca_ring_memory_give(struct ibv_pd *pd, enum hca_resource type, void *memory);

/* ---- srq.c ---------------------------------------------------------------------------------- */

struct ibv_srq *hca_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *a);
int hca_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
/* The oldest receive of the queue pair's shared queue becomes its own. False: there is none. */
bool hca_srq_take(struct hca_qp *qp);
/* A completion of a receive of that queue was polled, or will never be. */
void hca_srq_give(uint32_t index, uint32_t generation);
/* The same for the one that the queue pair took and will not complete. */
void hca_srq_drop(struct hca_qp *qp);
/* The fault sites of a post; the errno that it fails with, or 0. */
int hca_srq_fault(struct hca_srq *srq, const struct ibv_srq *ibv);
void hca_srq_destroy(struct hca_srq *srq);

/* ---- ah.c, mcast.c, ud.c, unacked.c ---------------------------------------------------------- */

/* Does the other end answer? Not to unreliable connections and datagrams. */
static inline bool hca_qp_type_acked(enum ibv_qp_type type)
{
	return type != IBV_QPT_UC && type != IBV_QPT_UD;
}
/* Has this type of queue pair that operation? */
bool hca_opcode_fits(enum ibv_qp_type type, uint32_t opcode);
/* The address of a datagram's request; NULL: it is gone. */
const struct hca_ah *hca_ah_find(const struct hca_wqe *e);
bool hca_mcast_member(const struct hca_qp *qp);
/* Leaves all groups. */
void hca_mcast_end(const struct hca_qp *qp);
/* Takes the packet: a copy for each HCA with a member. */
void hca_mcast_send(struct hca_qp *qp, struct hca_packet *p);
/* To every member on the packet's port. */
void hca_mcast_deliver(const struct hca_packet *p);
enum ibv_wc_status hca_ud_status(const struct hca_qp *qp, const struct hca_wqe *e);
/* Takes the packet, which has all but its way. */
void hca_ud_send(struct hca_qp *qp, const struct hca_wqe *e, struct hca_packet *p);
void hca_ud_receive(struct hca_qp *qp, const struct hca_packet *p);
/* What a completion says of a datagram's service level. */
uint8_t hca_route_sl(const struct hca_route *r);
void hca_grh_build(const struct hca_packet *p, uint8_t grh[HCA_GRH_BYTES]);
void hca_uc_request(struct hca_qp *qp, const struct hca_packet *p);
/* One burst of sq.next; false: nothing can be sent now. */
bool hca_unacked_burst(struct hca_qp *qp, uint64_t *wire_bytes);
/* Everything in the send queue is flushed; to SQE: that, and the state. */
void hca_send_flush(struct hca_qp *qp);
void hca_qp_to_sqe(struct hca_qp *qp);
/* The message is longer than its receive. */
void hca_recv_too_small(struct hca_qp *qp, const struct hca_packet *p);
/* Is the packet of the queue pair's partition? Counted if not. */
bool hca_pkey_accepts(const struct hca_qp *qp, const struct hca_packet *p);

/* ---- xrc.c ---------------------------------------------------------------------------------- */

struct ibv_xrcd *hca_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *a);
int hca_close_xrcd(struct ibv_xrcd *xrcd);
void hca_xrcd_open_end(struct hca_xrcd_open *open);
/* One user more: index + 1; one less. */
uint32_t hca_xrcd_use(struct ibv_xrcd *xrcd);
void hca_xrcd_unuse(struct ibv_xrcd *xrcd);
bool hca_xrcd_is_of(struct ibv_xrcd *xrcd, uint32_t port);
uint32_t hca_srq_number(const struct hca_srq *srq);
int hca_get_srq_num(struct ibv_srq *srq, uint32_t *number);
/* A request for the shared queue of this number has come: the target half's receives, completions
 * and keys are that one's. False: its domain has none. Under its lock. */
bool hca_xrc_bind(struct hca_qp *qp, uint32_t number);
/* The shared queue goes away. */
void hca_xrc_forget_srq(const struct hca_srq *srq);
struct ibv_qp *hca_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *a);
/* A handle less; the last one ends it. owner: the handle that made it. */
bool hca_qp_release(struct hca_qp *qp, bool owner);
void hca_qp_open_end(struct hca_qp_open *open);

/* ---- vctx.c: the extended calls of a context ------------------------------------------------ */
void hca_extended_ops(struct verbs_context *v);
/* ---- atomic.c ------------------------------------------------------------------------------- */

/* Is it answered with data, or at least one by one: a READ or an atomic? */
static inline bool hca_wqe_is_answered(const struct hca_wqe *e)
{
	return e->opcode == IBV_WR_RDMA_READ || e->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       e->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || e->opcode == IBV_WR_ATOMIC_WRITE;
}
/* Does it bring a value back, from operands? */
static inline bool hca_wqe_is_atomic(const struct hca_wqe *e)
{
	return e->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || e->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}
/* Executes it and answers; false: it earns that NAK. */
bool hca_responder_atomic(struct hca_qp *qp, const struct hca_packet *p, enum hca_nak *nak);
/* A duplicate: from the log, or not at all. */
void hca_responder_atomic_again(struct hca_qp *qp, const struct hca_packet *p);
/* For the log: this was done. */
void hca_answer_note(struct hca_qp *qp, uint32_t psn, bool is_atomic, uint64_t value);
/* The last one noted sends that much. */
void hca_answer_bytes(struct hca_qp *qp, uint32_t bytes);
/* Are as many being answered as max_dest_rd_atomic allows? */
bool hca_answers_spent(const struct hca_qp *qp);
/* What is under way lands, before whatever comes next. `answer`: or is never answered. */
void hca_atomic_settle(struct hca_qp *qp, bool answer);
void hca_atomic_settle_region(struct hca_mr *mr);

/* ---- early.c -------------------------------------------------------------------------------- */

/* Writes up to this into host memory land as a whole, the last word last. */
#define HCA_WORDWISE_BYTES 512

/* What this seed's HCAs are allowed to do. */
void hca_early_configure(struct hca_world *w);
/* A packet has come, for this locked queue pair: what was kept is delivered. True: this one is kept,
 * and belongs to the queue pair now. */
bool hca_early_take(struct hca_qp *qp, struct hca_packet *p);
void hca_early_settle(struct hca_qp *qp);
void hca_early_drop(struct hca_qp *qp);
/* Does the queue pair take a packet of this kind, from there? */
bool hca_packet_fits(const struct hca_qp *qp, const struct hca_packet *p);

/* ---- query.c -------------------------------------------------------------------------------- */

int hca_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
			struct ibv_device_attr_ex *attr, size_t bytes);

/* ---- window.c ------------------------------------------------------------------------------- */

void hca_window_ops(struct ibv_context_ops *ops);
void hca_mw_destroy(struct hca_mw *mw);
/* Windows of type 2 that this queue pair bound are free. */
void hca_windows_forget_qp(const struct hca_qp *qp);
/* 0 or EINVAL. */
int hca_post_check_bind(const struct hca_qp *qp, const struct ibv_send_wr *wr);
void hca_post_fill_bind(struct hca_wqe *e, const struct ibv_send_wr *wr);
/* A request that no packet leaves for. */
static inline bool hca_wqe_is_local(const struct hca_wqe *e)
{
	return e->opcode == IBV_WR_BIND_MW || e->opcode == IBV_WR_LOCAL_INV;
}
enum ibv_wc_status hca_wqe_do_locally(const struct hca_qp *qp, const struct hca_wqe *e);
/* The window of type 2 with this key is free; false: there is none that this queue pair may free. */
bool hca_window_invalidate(const struct hca_qp *qp, uint32_t key);
/* What a peer names: a region, or a window; then *iova becomes the region's. Released by
 * hca_mr_release. NULL: it may not. */
struct hca_mr *hca_remote_hold(const struct hca_qp *qp, uint32_t key, uint64_t *iova,
			       uint64_t bytes, uint32_t access);

/* ---- post.c, requester.c, responder.c, wire.c ----------------------------------------------- */

int hca_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int hca_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
void hca_post_fill_recv(struct hca_wqe *e, const struct ibv_recv_wr *wr);
/* Under the queue pair's lock: may it take sends now? Checks one request and writes it into its
 * slot, `ahead` behind the last posted one; 0 or an errno. Posts `n` that were written so. */
int hca_post_check_state(const struct hca_qp *qp);
int hca_post_stage(struct hca_qp *qp, const struct ibv_send_wr *wr, uint32_t ahead);
void hca_post_doorbell(struct hca_qp *qp, uint32_t n);

void hca_qp_kick(struct hca_qp *qp, uint64_t delay_ns);
/* Events of the requester. */
void hca_qp_transmit(void *qp, uint64_t generation);
void hca_qp_timer(void *qp, uint64_t generation);
void hca_qp_rnr_over(void *qp, uint64_t wait);
void hca_requester_ack(struct hca_qp *qp, const struct hca_packet *p);
void hca_requester_nak(struct hca_qp *qp, const struct hca_packet *p);
void hca_requester_response(struct hca_qp *qp, const struct hca_packet *p);
void hca_requester_drained(struct hca_qp *qp);
/* The parts of sending that both kinds of transport share: sq.next's turn, its packet, its bytes
 * (not 0: the region went away), its end. */
bool hca_wqe_start(struct hca_qp *qp, struct hca_wqe *e);
/* What it is called when its memory, or a receive's, cannot be reached. */
enum ibv_wc_status hca_bad_request(const struct hca_qp *qp, struct hca_wqe *e);
enum ibv_wc_status hca_bad_receive(const struct hca_qp *qp);
struct hca_packet *hca_burst_make(struct hca_qp *qp, struct hca_wqe *e, uint32_t bytes);
int hca_burst_fill(struct hca_qp *qp, struct hca_wqe *e, struct hca_packet *p);
void hca_send_succeed(struct hca_qp *qp);
/* The next request, which no packet leaves for, was executed. False: it failed. */
bool hca_local_done(struct hca_qp *qp, const struct hca_wqe *e);
/* The oldest request fails; everything behind it is flushed. */
void hca_send_fail(struct hca_qp *qp, enum ibv_wc_status status);
/* Completes the oldest send; status other than success always makes a CQE. */
void hca_send_complete(struct hca_qp *qp, enum ibv_wc_status status);
void hca_recv_complete(struct hca_qp *qp, enum ibv_wc_status status, const struct hca_packet *p,
		       uint64_t bytes);

void hca_responder_request(struct hca_qp *qp, const struct hca_packet *p);
/* The first packet in RTR: IBV_EVENT_COMM_EST. */
void hca_responder_heard(struct hca_qp *qp);
/* A message is whole: its receive completes, unless a fault says otherwise. False: it failed. */
bool hca_responder_received(struct hca_qp *qp, const struct hca_packet *p, uint64_t bytes);
/* The fault of the receive that was posted here: its completion tells. */
void hca_responder_fail_recv(struct hca_qp *qp, const struct hca_packet *p,
			     enum ibv_wc_status status, enum hca_nak nak);

struct hca_packet *hca_packet_new(const struct hca_qp *qp, enum hca_packet_kind kind,
				  uint32_t bytes);
uint8_t *hca_packet_data(const struct hca_packet *p);
void hca_packet_free(struct hca_packet *p);
void *hca_packet_copy(void *packet);
/* To that queue pair, which is locked: dropped if it is not open for it. */
void hca_packet_deliver(struct hca_qp *qp, const struct hca_packet *p);
/* Takes the packet. Lost or not: nobody learns. */
void hca_packet_send(struct hca_qp *qp, struct hca_packet *p);
uint64_t hca_rnr_ns(uint32_t timer);
uint64_t hca_wire_ns(uint32_t port, uint64_t bytes);

static inline int32_t hca_psn_diff(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}
static inline uint32_t hca_psn_add(uint32_t a, uint32_t n)
{
	return (a + n) & HCA_PSN_MASK;
}

/* One line: "fakeverbs: h0 mlx5_0 qp 0x101: ...". */
void hca_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The same for what verbs leave undefined: fails the run (sim_misuse). */
void hca_misuse(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#pragma GCC visibility pop

/* ---- for the debugger ----------------------------------------------------------------------- */

/* Queue pair i, dead or alive, is fakeverbs.qp[i >> FAKEVERBS_QP_SHIFT][i & mask], for i below
 * fakeverbs.world->qp.count; alive when item.live. */
#define FAKEVERBS_QP_SHIFT 5
struct fakeverbs_view {
	struct hca_world *world;
	struct hca_qp *qp[HCA_CHUNKS];
};
extern struct fakeverbs_view fakeverbs;

#endif
