/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Execution of requests. The requester sends them (requester.c; unacked.c and ud.c without
 * acknowledges). The wire carries them (wire.c, mcast.c). The responder answers (responder.c,
 * atomic.c), and the answer completes them (replies.c). direct.c executes requests immediately if
 * no packet is needed. partial.c decides when their effects are visible. qp_end.c resets and ends
 * queue pairs.
 *
 * All of it runs under the queue pair's lock, in the poster or in an event of the engine, and never
 * waits. Requester and responder of two queue pairs exchange packets only.
 *
 * Includes arena, objects, checks and queues.
 */
#ifndef BACKENDS_FAKEVERBS_TRANSPORT_H
#define BACKENDS_FAKEVERBS_TRANSPORT_H

#include <infiniband/verbs.h>

#include "backends/fakeverbs/queues/queues.h"

#pragma GCC visibility push(hidden)

/* ---- requester.c, replies.c, responder.c ---- */

void hca_qp_kick(struct hca_qp *qp, uint64_t delay_ns);
/* Events of the requester. */
void hca_qp_transmit(void *qp, uint64_t generation);
void hca_qp_timer(void *qp, uint64_t generation);
void hca_qp_rnr_over(void *qp, uint64_t wait);
/* Returns the queue pair, locked, for one of its events. NULL: it was destroyed, or a stopped
 * process holds the lock; then the event is posted again. */
struct hca_qp *hca_requester_event(struct hca_qp *qp, uint64_t arg, uint32_t generation,
				   void (*step)(void *qp, uint64_t arg));
/* Starts the acknowledge timer: silence from now on is noticed. */
void hca_ack_timer_start(struct hca_qp *qp);
static inline bool hca_requester_outstanding(const struct hca_qp *qp)
{
	return qp->req.psn_una != qp->req.psn_max;
}
void hca_requester_ack(struct hca_qp *qp, const struct hca_packet *p);
void hca_requester_nak(struct hca_qp *qp, const struct hca_packet *p);
void hca_requester_response(struct hca_qp *qp, const struct hca_packet *p);
void hca_requester_drained(struct hca_qp *qp);
/* Parts of sending that both kinds of transport share: start of sq.next, its packet, its bytes (not
 * 0: the region is gone), its end. */
bool hca_wqe_start(struct hca_qp *qp, struct hca_wqe *e);
/* Return the status of a request, or a receive, whose memory cannot be accessed. */
enum ibv_wc_status hca_bad_request(const struct hca_qp *qp, struct hca_wqe *e);
enum ibv_wc_status hca_bad_receive(const struct hca_qp *qp);
struct hca_packet *hca_burst_make(struct hca_qp *qp, struct hca_wqe *e, uint32_t bytes);
int hca_burst_fill(struct hca_qp *qp, struct hca_wqe *e, struct hca_packet *p);
void hca_send_succeed(struct hca_qp *qp);
/* Finishes the next request, which was executed without a packet. False: it failed. */
bool hca_local_done(struct hca_qp *qp, const struct hca_wqe *e);
/* Fails the oldest request and flushes everything after it. */
void hca_send_fail(struct hca_qp *qp, enum ibv_wc_status status);
void hca_responder_request(struct hca_qp *qp, const struct hca_packet *p);
/* Counts a request that is executed, at its first packet. */
void hca_request_count(struct hca_qp *qp, const struct hca_packet *p);
/* Posts IBV_EVENT_COMM_EST for the first packet in RTR. */
void hca_responder_established(struct hca_qp *qp);
/* Writes a SEND's packet into its receive, and completes the receive if the packet is the last.
 * False: the receive failed. */
bool hca_responder_place(struct hca_qp *qp, const struct hca_packet *p);
/* Completes the receive of a whole message, unless a fault changes it. False: it failed. */
bool hca_responder_received(struct hca_qp *qp, const struct hca_packet *p, uint64_t bytes);
/* Fails the receive at fault: its completion reports the error. */
void hca_responder_fail_recv(struct hca_qp *qp, const struct hca_packet *p,
			     enum ibv_wc_status status, enum hca_nak nak);
void hca_responder_fail_invalidate(struct hca_qp *qp);

/* ---- direct.c ---- */

/* Execute requests immediately and in order while they need no packets. hca_direct_post takes the
 * program's requests and returns the first one not executed. hca_direct takes those in the send
 * queue; the rest remain there. The queue pair is locked. */
struct ibv_send_wr *hca_direct_post(struct hca_qp *qp, struct ibv_send_wr *wr);
void hca_direct(struct hca_qp *qp);

/* ---- ud.c, unacked.c ---- */

/* True if this type of queue pair has that operation. */
bool hca_opcode_fits(enum ibv_qp_type type, uint32_t opcode);
enum ibv_wc_status hca_ud_status(const struct hca_qp *qp, const struct hca_wqe *e);
/* Sends the packet, which is complete except its route. Takes ownership of the packet. */
void hca_ud_send(struct hca_qp *qp, const struct hca_wqe *e, struct hca_packet *p);
void hca_ud_receive(struct hca_qp *qp, const struct hca_packet *p);
void hca_grh_build(const struct hca_packet *p, uint8_t grh[HCA_GRH_BYTES]);
void hca_uc_request(struct hca_qp *qp, const struct hca_packet *p);
/* Sends one burst of sq.next; false: nothing can be sent now. */
bool hca_unacked_burst(struct hca_qp *qp, uint64_t *wire_bytes);
/* Flushes the whole send queue and moves the queue pair to SQE. */
void hca_qp_to_sqe(struct hca_qp *qp);
/* Fails a receive that is too small for the message. */
void hca_recv_too_small(struct hca_qp *qp, const struct hca_packet *p);

/* ---- atomic.c ---- */

/* Executes an atomic and answers it. False: the caller sends the NAK. */
bool hca_responder_atomic(struct hca_qp *qp, const struct hca_packet *p, enum hca_nak *nak);
/* Answers a duplicate from the log; does nothing if the log no longer has it. */
void hca_responder_atomic_again(struct hca_qp *qp, const struct hca_packet *p);
/* Records an executed READ or atomic in the log. */
void hca_answer_note(struct hca_qp *qp, uint32_t psn, bool is_atomic, uint64_t value);
/* Records that the last entry's answer has `bytes` bytes. */
void hca_answer_bytes(struct hca_qp *qp, uint32_t bytes);
/* True if as many answers are leaving as max_dest_rd_atomic allows. */
bool hca_answers_spent(const struct hca_qp *qp);
/* Executes and answers the pending atomic write, before the next request. */
void hca_atomic_settle(struct hca_qp *qp);

/* ---- overtake.c ---- */

/* Returns the maximum payload of one message on the fabric. */
uint32_t hca_burst_most(const struct hca_qp *qp);
/* Returns the extra delay of a packet that travels without order; 0: in order. */
uint64_t hca_overtake_later_ns(const struct hca_qp *qp, const struct hca_packet *p);
/* Accepts a request that is ahead of the locked queue pair's expected PSN. True: a copy is kept, or
 * was kept before. */
bool hca_overtake_take(struct hca_qp *qp, const struct hca_packet *p);
/* True if the bytes of this write are already in memory, because it overtook. They are not written
 * again. */
bool hca_overtake_landed(const struct hca_qp *qp, const struct hca_packet *p);
/* Keeps a request that the responder put off: its sender resends it, and its bytes may have
 * landed. */
void hca_overtake_keep(struct hca_qp *qp, struct hca_packet *p);
/* Returns the kept request with the expected PSN, which the caller frees or keeps. NULL: not
 * kept. */
struct hca_packet *hca_overtake_next(struct hca_qp *qp);

/* ---- partial.c ---- */

/* Delivers the kept packet of this locked queue pair, if any, because another one arrives. True:
 * the new packet is kept, and the queue pair owns it. */
bool hca_partial_keep(struct hca_qp *qp, struct hca_packet *p);
void hca_partial_settle(struct hca_qp *qp);
/* ---- wire.c ---- */

/* Delivers a packet to that locked queue pair. Drops it if the queue pair does not accept it. */
void hca_packet_deliver(struct hca_qp *qp, const struct hca_packet *p);
/* Sends the packet and takes ownership of it. A loss is not reported. */
void hca_packet_send(struct hca_qp *qp, struct hca_packet *p);
uint64_t hca_rnr_ns(uint32_t timer);
uint64_t hca_wire_ns(uint32_t port, uint64_t bytes);
/* True if the queue pair accepts a packet of this kind from its sender. */
bool hca_packet_fits(const struct hca_qp *qp, const struct hca_packet *p);

/* True if the packet has the queue pair's partition. Counts a mismatch. */
bool hca_pkey_accepts(const struct hca_qp *qp, const struct hca_packet *p);

/* ---- mcast.c ---- */

bool hca_mcast_member(const struct hca_qp *qp);
/* Removes the queue pair from all groups. */
void hca_mcast_end(const struct hca_qp *qp);
/* Sends a copy to each HCA with a member. Takes ownership of the packet. */
void hca_mcast_send(struct hca_qp *qp, struct hca_packet *p);
/* Delivers the packet to every member on its port. */
void hca_mcast_deliver(const struct hca_packet *p);
/* Checks whether this queue pair may be a member: 0 or EINVAL. Joins, under member_lock: 0 or
 * ENOMEM. Leaves; false: it was not a member. */
int hca_mcast_check(const struct hca_qp *qp, const union ibv_gid *gid, uint16_t lid);
int hca_mcast_join(const struct hca_qp *qp, const union ibv_gid *gid);
bool hca_mcast_leave(const struct hca_qp *qp, const union ibv_gid *gid);

/* ---- qp_end.c ---- */

/* Empties all queues and clears the connection's state. Under the queue pair's lock. */
void hca_qp_reset(struct hca_qp *qp);
void hca_qp_destroy(struct hca_qp *qp);

#pragma GCC visibility pop

#endif
