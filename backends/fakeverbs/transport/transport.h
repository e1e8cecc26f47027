/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a request gets done: sent (requester.c; unacked.c and ud.c where no acknowledge comes),
 * carried (wire.c, mcast.c), answered (responder.c, atomic.c), and completed by the answer
 * (replies.c); or executed immediately where no packet is needed (direct.c); when its effects are
 * seen (early.c); and how a queue pair is reset or ends (qp_end.c).
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
/* The queue pair, locked, for one of its events; NULL: it is gone, or a stopped process holds it:
 * then the event comes again. */
struct hca_qp *hca_requester_event(struct hca_qp *qp, uint64_t arg, uint32_t generation,
				   void (*step)(void *qp, uint64_t arg));
/* Silence from now on is noticed. */
void hca_ack_timer_start(struct hca_qp *qp);
static inline bool hca_requester_outstanding(const struct hca_qp *qp)
{
	return qp->req.psn_una != qp->req.psn_max;
}
void hca_requester_ack(struct hca_qp *qp, const struct hca_packet *p);
void hca_requester_nak(struct hca_qp *qp, const struct hca_packet *p);
void hca_requester_response(struct hca_qp *qp, const struct hca_packet *p);
void hca_requester_drained(struct hca_qp *qp);
/* The parts of sending that both kinds of transport share: the start of sq.next, its packet, its
 * bytes (not 0: the region went away), its end. */
bool hca_wqe_start(struct hca_qp *qp, struct hca_wqe *e);
/* What it is called when its memory, or a receive's, cannot be reached. */
enum ibv_wc_status hca_bad_request(const struct hca_qp *qp, struct hca_wqe *e);
enum ibv_wc_status hca_bad_receive(const struct hca_qp *qp);
struct hca_packet *hca_burst_make(struct hca_qp *qp, struct hca_wqe *e, uint32_t bytes);
int hca_burst_fill(struct hca_qp *qp, struct hca_wqe *e, struct hca_packet *p);
void hca_send_succeed(struct hca_qp *qp);
/* The next request, which no packet leaves for, was executed. False: it failed. */
bool hca_local_done(struct hca_qp *qp, const struct hca_wqe *e);
/* The oldest request fails; everything after it is flushed. */
void hca_send_fail(struct hca_qp *qp, enum ibv_wc_status status);
void hca_responder_request(struct hca_qp *qp, const struct hca_packet *p);
/* The first packet of a request that is carried out. */
void hca_request_count(struct hca_qp *qp, const struct hca_packet *p);
/* The first packet in RTR: IBV_EVENT_COMM_EST. */
void hca_responder_established(struct hca_qp *qp);
/* A message is whole: its receive completes, unless a fault changes it. False: it failed. */
bool hca_responder_received(struct hca_qp *qp, const struct hca_packet *p, uint64_t bytes);
/* The receive that was posted here is at fault: its completion reports it. */
void hca_responder_fail_recv(struct hca_qp *qp, const struct hca_packet *p,
			     enum ibv_wc_status status, enum hca_nak nak);
void hca_responder_fail_invalidate(struct hca_qp *qp);

/* ---- direct.c ---- */

/* Execute immediately what can be done without packets, in order: of what the program posts, from
 * the first request on, and the first that is left is returned; of what is in the send queue, where
 * the rest stays. The queue pair is locked. */
struct ibv_send_wr *hca_direct_post(struct hca_qp *qp, struct ibv_send_wr *wr);
void hca_direct(struct hca_qp *qp);

/* ---- ud.c, unacked.c ---- */

/* Has this type of queue pair that operation? */
bool hca_opcode_fits(enum ibv_qp_type type, uint32_t opcode);
enum ibv_wc_status hca_ud_status(const struct hca_qp *qp, const struct hca_wqe *e);
/* Takes the packet, which is complete except its route. */
void hca_ud_send(struct hca_qp *qp, const struct hca_wqe *e, struct hca_packet *p);
void hca_ud_receive(struct hca_qp *qp, const struct hca_packet *p);
void hca_grh_build(const struct hca_packet *p, uint8_t grh[HCA_GRH_BYTES]);
void hca_uc_request(struct hca_qp *qp, const struct hca_packet *p);
/* One burst of sq.next; false: nothing can be sent now. */
bool hca_unacked_burst(struct hca_qp *qp, uint64_t *wire_bytes);
/* Everything in the send queue is flushed, and the state is SQE. */
void hca_qp_to_sqe(struct hca_qp *qp);
/* The message is longer than its receive. */
void hca_recv_too_small(struct hca_qp *qp, const struct hca_packet *p);

/* ---- atomic.c ---- */

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
/* What is under way lands and is answered, before whatever comes next. */
void hca_atomic_settle(struct hca_qp *qp);

/* ---- overtake.c ---- */

/* Payload of one message on the fabric, at most. */
uint32_t hca_burst_most(const struct hca_qp *qp);
/* The packet comes so much later than the fabric brings it, without order; 0: in order. */
uint64_t hca_overtake_later_ns(const struct hca_qp *qp, const struct hca_packet *p);
/* A request that is ahead of the locked queue pair's: true: a copy is kept, or was. */
bool hca_overtake_take(struct hca_qp *qp, const struct hca_packet *p);
/* The bytes of this write are in memory since it was ahead: they are not written again. */
bool hca_overtake_landed(const struct hca_qp *qp, const struct hca_packet *p);
/* Keeps a request that was put off in its turn: it comes again, and its bytes may have landed. */
void hca_overtake_keep(struct hca_qp *qp, struct hca_packet *p);
/* The one whose turn it is, which is the caller's to free or to keep; NULL: it is not here. */
struct hca_packet *hca_overtake_next(struct hca_qp *qp);

/* ---- early.c ---- */

/* A packet has come, for this locked queue pair: what was kept is delivered. True: this one is
 * kept, and belongs to the queue pair now. */
bool hca_early_take(struct hca_qp *qp, struct hca_packet *p);
void hca_early_settle(struct hca_qp *qp);
/* ---- wire.c ---- */

/* To that queue pair, which is locked: dropped if it is not open for it. */
void hca_packet_deliver(struct hca_qp *qp, const struct hca_packet *p);
/* Takes the packet. Whether it is lost is not reported. */
void hca_packet_send(struct hca_qp *qp, struct hca_packet *p);
uint64_t hca_rnr_ns(uint32_t timer);
uint64_t hca_wire_ns(uint32_t port, uint64_t bytes);
/* Does the queue pair take a packet of this kind, from there? */
bool hca_packet_fits(const struct hca_qp *qp, const struct hca_packet *p);

/* Is the packet of the queue pair's partition? Counted if not. */
bool hca_pkey_accepts(const struct hca_qp *qp, const struct hca_packet *p);

/* ---- mcast.c ---- */

bool hca_mcast_member(const struct hca_qp *qp);
/* Leaves all groups. */
void hca_mcast_end(const struct hca_qp *qp);
/* Takes the packet: a copy for each HCA with a member. */
void hca_mcast_send(struct hca_qp *qp, struct hca_packet *p);
/* To every member on the packet's port. */
void hca_mcast_deliver(const struct hca_packet *p);
/* May this queue pair be a member: 0 or EINVAL. Becomes one, under member_lock; ENOMEM. Is one no
 * longer; false: it was none. */
int hca_mcast_check(const struct hca_qp *qp, const union ibv_gid *gid, uint16_t lid);
int hca_mcast_join(const struct hca_qp *qp, const union ibv_gid *gid);
bool hca_mcast_leave(const struct hca_qp *qp, const union ibv_gid *gid);

/* ---- qp_end.c ---- */

/* All queues empty, nothing known. Under its lock. */
void hca_qp_reset(struct hca_qp *qp);
void hca_qp_destroy(struct hca_qp *qp);

#pragma GCC visibility pop

#endif
