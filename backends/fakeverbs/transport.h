/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a request gets done: posted (post.c), sent (requester.c; unacked.c and ud.c for what nobody
 * acknowledges), answered (responder.c, atomic.c), or executed on the spot where no packet is needed
 * (direct.c); and when its effects are seen (early.c).
 *
 * All of it runs under the queue pair's lock, in the poster or in an event of the engine, and never
 * waits. Requester and responder of two queue pairs speak by packets only.
 */
#ifndef BACKENDS_FAKEVERBS_TRANSPORT_H
#define BACKENDS_FAKEVERBS_TRANSPORT_H

#include <infiniband/verbs.h>

#include "backends/fakeverbs/objects.h"
#include "backends/fakeverbs/packet.h"

#pragma GCC visibility push(hidden)

/* ---- post.c, requester.c, responder.c ---- */

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

/* ---- direct.c ---- */

/* Execute at once what can be done without packets, in order: of what the program posts, from the
 * first request on, and the first that is left is returned; of what is in the send queue, where the
 * rest stays. The queue pair is locked. */
struct ibv_send_wr *hca_direct_post(struct hca_qp *qp, struct ibv_send_wr *wr);
void hca_direct(struct hca_qp *qp);

/* ---- ud.c, unacked.c ---- */

/* Does the other end answer? Not to unreliable connections and datagrams. */
static inline bool hca_qp_type_acked(enum ibv_qp_type type)
{
	return type != IBV_QPT_UC && type != IBV_QPT_UD;
}
/* Has this type of queue pair that operation? */
bool hca_opcode_fits(enum ibv_qp_type type, uint32_t opcode);
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

/* ---- atomic.c ---- */

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

/* ---- early.c ---- */

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

#pragma GCC visibility pop

#endif
