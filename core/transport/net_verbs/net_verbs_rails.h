/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Failover between the rails of a connection, and their recovery. Rail r of a connection over a
 * merged NIC is its queue pairs i with i modulo `width` equal to r. Without the option
 * (NCCL_IB_RESILIENCY_PORT_FAILOVER), or with one rail, net_verbs_conn.rails is NULL and no
 * function of this header is called. docs/verbs/failover.md describes the protocol.
 *
 *	       a queue pair fails,       flushed here,              the peer
 *	       here or at the peer       and the peer stopped       has stopped
 *	IN_USE ------------------> DRAINING ----------------> STOPPED --------> DOWN
 *	  ^                    (receiving end)                                    |
 *	  |   test messages are acknowledged               START, STARTED         v
 *	  +---------------------------------- TESTED <---------------------- STARTING
 *
 * The messages of a receive are parts. A part is a byte range of each message, then one write with
 * an immediate that names message and part. The receiving end's record of the parts that arrived is
 * the truth. An end that stops a rail resets its queue pairs, so nothing arrives over them later,
 * and reports over TCP. The receiving end's report has its records. The sending end then writes the
 * missing parts again over other rails, and the receiving end its clear-to-send entries.
 *
 * Called by the other files of net_verbs, in the proxy's tasks. Times are nanoseconds of os_now_ns.
 * A failure that leaves no rail is ncclRemoteError, with one line that names all rails. No function
 * waits.
 */
#ifndef CORE_TRANSPORT_NET_VERBS_NET_VERBS_RAILS_H
#define CORE_TRANSPORT_NET_VERBS_NET_VERBS_RAILS_H

#include "core/transport/net_verbs/net_verbs_internal.h"

#define NET_VERBS_MASK_WORDS (NET_VERBS_MAX_QPS / 64)
#define NET_VERBS_OUTBOX     256
#define NET_VERBS_CAUSE      160 /* characters of its text */

enum net_verbs_rail_state {
	NET_VERBS_RAIL_IN_USE,
	NET_VERBS_RAIL_DRAINING, /* receiving end: completions of arrived parts may follow */
	NET_VERBS_RAIL_STOPPED,  /* reset here; the peer has not reported yet */
	NET_VERBS_RAIL_DOWN,     /* both ends have stopped it */
	NET_VERBS_RAIL_STARTING, /* sending end: waits for STARTED. Receiving end: is ready */
	NET_VERBS_RAIL_TESTED,   /* sending end: test messages are in flight, or are due */
};

/* The reason of a rail's failure. */
struct net_verbs_cause {
	uint32_t what;   /* enum net_verbs_kind, as in a notice */
	uint32_t status; /* as in a notice */
	uint32_t qpn;    /* 0: all queue pairs of the device */
	uint32_t peer;   /* 1: the peer reported it */
};

struct net_verbs_rail {
	enum net_verbs_rail_state state;
	uint32_t epoch;   /* number of times that the rail was started again */
	uint32_t cts_out; /* clear-to-send writes without a completion */
	uint64_t undrained[NET_VERBS_MASK_WORDS]; /* queue pairs with completions to come */
	bool pushed; /* the read that pushes the rail's data into the GPU was posted */
	uint32_t push_at;
	uint16_t push_buffer, push_slot;
	bool peer_stopped; /* the peer has reported that it stopped this epoch */
	/* The entries that the peer had by then: those of messages before `seen`, and of the later
	 * ones whose slot has a bit. */
	uint64_t seen;
	uint32_t present;
	bool lost; /* no attempt is left, or the device is gone */
	struct net_verbs_cause cause;
	uint64_t failed_ns;
	uint64_t due_ns;   /* end of draining, or the next step of recovery; 0: none */
	uint64_t until_ns; /* end of the attempts; 0: none was made */
	uint32_t acknowledged, in_flight; /* test messages */
};

/* The messages of a receive, at the sending end, until one of their requests is freed. */
struct net_verbs_sent {
	struct net_request *req; /* the first one; NULL: the slot is free */
	uint64_t message;
	uint32_t n, parts;
	struct net_verbs_cts cts[NET_MAX_RECVS];
	struct net_buffer from[NET_MAX_RECVS];
	uint8_t qp[NET_VERBS_MAX_QPS]; /* of each part */
	uint64_t done[NET_VERBS_MASK_WORDS];
};

/* A receive. The record stays after the end of the request, for flushes. */
struct net_verbs_got {
	struct net_request *req; /* NULL: the receive is complete, and was tested */
	uint64_t message;
	uint32_t parts;    /* 0: no part has arrived */
	uint32_t cts_rail; /* the rail that carried its entries; width: none */
	uint32_t bytes[NET_MAX_RECVS];
	struct net_verbs_cts cts[NET_MAX_RECVS];
	uint64_t here[NET_VERBS_MASK_WORDS]; /* the parts that have arrived */
	uint8_t leg[NET_VERBS_MAX_QPS];      /* of each part that has arrived */
};

/* The parts of an incomplete message that the peer has, when it stops a rail. */
struct net_verbs_parts_report {
	bool valid;
	uint64_t message;
	uint64_t here[NET_VERBS_MASK_WORDS];
};

/* A flush in flight. */
struct net_verbs_flushed {
	const struct net_verbs_region *region;
	const void *data;
};

/* A message between the ends about a rail, of the size of a notice. */
struct net_verbs_rail_message {
	uint32_t magic; /* NET_VERBS_NOTICE_MAGIC */
	uint32_t rail;
	uint32_t what; /* enum net_verbs_kind, from NET_VERBS_PARTS on */
	uint32_t epoch;
	uint64_t message; /* PARTS: the message. STOPPED by a sending end: its next message */
	union {
		uint64_t here[NET_VERBS_MASK_WORDS]; /* PARTS */
		struct {
			uint8_t gid[16];
			uint16_t lid;
			uint8_t refused; /* STARTED: the port is not ready */
			uint8_t pad[13];
		} to; /* START, STARTED: the address of the end's port */
		struct {
			struct net_verbs_cause cause;
			uint32_t present; /* slots with entries of messages from `message` on */
			/* A byte of a part on the rail, for net_verbs_rails_push_data. */
			uint32_t push_at;
			uint16_t push_buffer;
			uint16_t push_slot; /* NET_VERBS_RING: no part is on the rail */
		} stopped;
	};
};
DOPPEL_CHECK_SIZE(struct net_verbs_rail_message, sizeof(struct net_verbs_notice));
DOPPEL_CHECK_OFFSET(struct net_verbs_rail_message, what, offsetof(struct net_verbs_notice, what));

struct net_verbs_rails {
	struct net_verbs_rail rail[NET_VERBS_MAX_LEGS];
	uint32_t stock; /* empty receives of a queue pair */
	/* indices: message modulo NET_VERBS_RING */
	struct net_verbs_sent sent[NET_VERBS_RING];
	struct net_verbs_got got[NET_VERBS_RING];
	struct net_verbs_parts_report report[NET_VERBS_RING];
	struct net_verbs_flushed flushed[NET_MAX_REQUESTS]; /* by request */
	/* Messages that the socket has not taken yet; the first one from byte out_moved on. */
	struct net_verbs_rail_message out[NET_VERBS_OUTBOX];
	uint64_t out_head, out_tail;
	size_t out_moved;
	uint64_t read_at_ns; /* when to look for messages next, while some are expected */
	/* Receiving end: parts of messages before this one may come over any rail in use. */
	uint64_t any_rail_before;
};

/* ---- net_verbs_rails.c: states
 * ---------------------------------------------------------------- */

/* Sets c->rails if the option is on and the connection has several rails. */
ncclResult_t net_verbs_rails_make(struct net_verbs_conn *c);
void net_verbs_rails_free(struct net_verbs_conn *c);
/* Handles events, timers and messages to the peer. */
ncclResult_t net_verbs_rails_run(struct net_verbs_conn *c);
/* The part of net_verbs_check that concerns rails. May set a deadline in *w. */
ncclResult_t net_verbs_rails_check(struct net_verbs_conn *c, struct wait *w);
/* Stops using a rail. Does nothing if it is not in use. Without another rail it fails the
 * connection. */
ncclResult_t net_verbs_rail_fail(struct net_verbs_conn *c, uint32_t rail,
				 const struct net_verbs_cause *cause);
/* Handles a failed post to queue pair i. */
ncclResult_t net_verbs_rails_post_failed(struct net_verbs_conn *c, uint32_t i, const char *what,
					 int error);
/* Handles a failed completion. False: it is not a rail's failure, but the connection's. */
bool net_verbs_rails_absorb(struct net_verbs_conn *c, uint32_t leg, const struct ibv_wc *wc);
/* True if completions may come on the leg. */
bool net_verbs_rails_polls(const struct net_verbs_conn *c, uint32_t leg);
bool net_verbs_rail_is_used(const struct net_verbs_conn *c, uint32_t rail);
/* Lists the rails in use. Returns their number. */
uint32_t net_verbs_rails_list(const struct net_verbs_conn *c, uint32_t rail[NET_VERBS_MAX_LEGS]);
/* Writes "rail 1 (mlx5_1, peer mlx5_3)". */
void net_verbs_rail_name(const struct net_verbs_conn *c, uint32_t rail, char *out, size_t bytes);
/* Resets all queue pairs of a rail, and forgets their requests. */
void net_verbs_rail_reset(struct net_verbs_conn *c, uint32_t rail);
/* Handles a failed poll of a leg: its device is gone. */
ncclResult_t net_verbs_rails_poll_failed(struct net_verbs_conn *c, uint32_t leg);

/* Both ends have stopped the rail. */
ncclResult_t net_verbs_rail_ended(struct net_verbs_conn *c, uint32_t rail);
/* Lets the next step of draining run now, if its conditions are met. */
void net_verbs_rail_drain_on(struct net_verbs_rail *r);

/* ---- net_verbs_rails_peer.c: messages between the ends
 * ---------------------------------------- */

/* Handles the message from the peer in c->notice. */
ncclResult_t net_verbs_rails_take(struct net_verbs_conn *c);
/* Queues a message to the peer about a rail. */
void net_verbs_rails_tell(struct net_verbs_conn *c, uint32_t rail,
			  const struct net_verbs_rail_message *m);
/* Returns true if some bytes of a message, not all, are in the socket. */
bool net_verbs_rails_midway(struct net_verbs_conn *c);
/* Sends queued messages as far as the socket takes them. */
void net_verbs_rails_push(struct net_verbs_conn *c);
/* Receives messages at intervals, while some are expected. */
ncclResult_t net_verbs_rails_read(struct net_verbs_conn *c);

/* ---- net_verbs_rails_data.c: messages
 * --------------------------------------------------------- */

/* Writes the messages of the next receive, whose requests are in c->gather. */
ncclResult_t net_verbs_rails_send(struct net_verbs_conn *c, struct net_request *first);
/* Returns a mask of the slots whose entries are here, for messages that were not sent yet. */
uint32_t net_verbs_rails_present(const struct net_verbs_conn *c);
/* Finds a byte of a part that went over the rail and was not acknowledged. */
void net_verbs_rails_push_byte(const struct net_verbs_conn *c, uint32_t rail,
			       struct net_verbs_rail_message *m);
/* True if an earlier message has the slot of the next one. */
bool net_verbs_rails_full(const struct net_verbs_conn *c);
void net_verbs_rails_completed(struct net_verbs_conn *c, uint32_t leg, const struct ibv_wc *wc);
/* A request ends. */
void net_verbs_rails_release(struct net_verbs_conn *c, const struct net_request *r);
/* Sets the wait for a request that is not done. */
void net_verbs_rails_wait(const struct net_verbs_conn *c, const struct net_request *r,
			  struct wait *w);
/* Sets the wait for any request to end. */
void net_verbs_rails_busy(const struct net_verbs_conn *c, struct wait *w);
/* Both ends have stopped the rail: writes again what is missing. */
ncclResult_t net_verbs_rails_replay(struct net_verbs_conn *c, uint32_t rail);

/* ---- net_verbs_rails_recv.c: the receiving end
 * ------------------------------------------------ */

/* Fills the queues of a rail with empty receives. Returns 0 or a positive errno. */
int net_verbs_rails_stock(struct net_verbs_conn *c, uint32_t rail);
/* Writes the clear-to-send entries of a receive. */
ncclResult_t net_verbs_rails_recv(struct net_verbs_conn *c, struct net_request *r,
				  const struct net_verbs_cts *cts);
/* Queues the receiving end's records of incomplete receives. */
void net_verbs_rails_report(struct net_verbs_conn *c, uint32_t rail);
/* Posts a read that pushes all data that came over the rail into the GPU. False: not necessary. */
bool net_verbs_rails_push_data(const struct net_verbs_conn *c, uint32_t rail);
/* Posts the reads of a flush. */
ncclResult_t net_verbs_rails_flush(struct net_verbs_conn *c, struct net_request *r,
				   const struct net_verbs_region *region, const void *data);
/* Handles a flush's read that failed on the leg. */
ncclResult_t net_verbs_rails_flush_failed(struct net_verbs_conn *c, uint32_t leg,
					  struct net_request *r);
void net_verbs_got_completed(struct net_verbs_conn *c, uint32_t leg, const struct ibv_wc *wc);
ncclResult_t net_verbs_got_replay(struct net_verbs_conn *c, uint32_t rail);
void net_verbs_got_wait(const struct net_verbs_conn *c, const struct net_request *r,
			struct wait *w);

/* ---- net_verbs_rails_start.c: recovery
 * -------------------------------------------------------- */

/* Begins recovery of a rail that both ends have stopped, if the option is on. */
void net_verbs_rail_down(struct net_verbs_conn *c, uint32_t rail);
/* Handles a timer of recovery. */
ncclResult_t net_verbs_rail_step(struct net_verbs_conn *c, uint32_t rail);
/* Handles START, STARTED, USED and LOWERED. */
ncclResult_t net_verbs_rail_start_take(struct net_verbs_conn *c,
				       const struct net_verbs_rail_message *m);
/* A test message was acknowledged. */
void net_verbs_rail_acknowledged(struct net_verbs_conn *c, uint32_t rail);
/* A queue pair failed while the rail was starting. */
void net_verbs_rail_start_failed(struct net_verbs_conn *c, uint32_t rail, const char *reason);

/* ---- queue pairs and parts ------------------------------------------------------------------- */

static inline uint32_t net_verbs_rail_of(const struct net_verbs_conn *c, uint32_t i)
{
	return i % c->width;
}

static inline bool net_verbs_mask_has(const uint64_t *mask, uint32_t part)
{
	return mask[part / 64] >> part % 64 & 1;
}

static inline void net_verbs_mask_set(uint64_t *mask, uint32_t part, bool on)
{
	const uint64_t bit = 1ull << part % 64;

	mask[part / 64] = on ? mask[part / 64] | bit : mask[part / 64] & ~bit;
}

/* Work request numbers: kind, epoch, queue pair, slot of the message, part. */
static inline uint64_t net_verbs_rail_wr_id(const struct net_verbs_conn *c,
					    enum net_verbs_kind kind, uint32_t i, uint32_t slot,
					    uint32_t part)
{
	const uint32_t epoch = c->rails->rail[net_verbs_rail_of(c, i)].epoch & 0xff;

	return (uint64_t)kind << 32 | epoch << 24 | i << 16 | slot << 8 | part;
}

static inline uint32_t net_verbs_wr_qp(uint64_t wr_id)
{
	return wr_id >> 16 & 0xff;
}

/* True if the completion's request was posted before the rail was started again. */
static inline bool net_verbs_wr_is_old(const struct net_verbs_conn *c, uint64_t wr_id)
{
	const uint32_t rail = net_verbs_rail_of(c, net_verbs_wr_qp(wr_id));

	return (wr_id >> 24 & 0xff) != (c->rails->rail[rail].epoch & 0xff);
}

#endif
