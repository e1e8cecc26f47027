/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What requests pass through: queue pairs, completion queues, shared receive queues, completion
 * channels and asynchronous events; and the locks on them, which repair what a dead process left.
 *
 * Includes arena, objects and checks. Errors: 0 or a positive errno. Each function says under which
 * lock it is called.
 */
#ifndef BACKENDS_FAKEVERBS_QUEUES_H
#define BACKENDS_FAKEVERBS_QUEUES_H

#include <infiniband/verbs.h>

#include "backends/fakeverbs/checks/checks.h"
#include "backends/fakeverbs/queues/faults.h"
#include "sim/world/world.h"

#pragma GCC visibility push(hidden)

/* ---- mend.c ---- */

/* What a process that died inside the lock was changing is made whole. Under that lock. */
void hca_qp_mend(struct hca_qp *qp);
void hca_srq_mend(struct hca_srq *srq);
void hca_cq_mend(struct hca_cq *cq);

static inline void hca_qp_lock(struct hca_qp *qp)
{
	if (hca_lock_broken(&qp->item.lock))
		hca_qp_mend(qp);
}
/* False, and not locked: a process that is stopped holds it (arena.h). Then calls fail with
 * ETIMEDOUT, polls find nothing, packets are lost, and timers come again. */
static inline bool hca_qp_lock_unless_stopped(struct hca_qp *qp)
{
	enum hca_locked got = hca_lock_unless_stopped(&qp->item.lock);

	if (UNLIKELY(got == HCA_LOCKED_BROKEN))
		hca_qp_mend(qp);
	return got != HCA_LOCKED_NOT;
}
static inline bool hca_cq_lock_unless_stopped(struct hca_cq *cq)
{
	enum hca_locked got = hca_lock_unless_stopped(&cq->item.lock);

	if (UNLIKELY(got == HCA_LOCKED_BROKEN))
		hca_cq_mend(cq);
	return got != HCA_LOCKED_NOT;
}
static inline void hca_srq_lock(struct hca_srq *srq)
{
	if (hca_lock_broken(&srq->item.lock))
		hca_srq_mend(srq);
}
static inline void hca_cq_lock(struct hca_cq *cq)
{
	if (hca_lock_broken(&cq->item.lock))
		hca_cq_mend(cq);
}

/* ---- cq.c ---- */

/* Polls see at most `visible` entries for `ns`; then they see everything, and the tasks that wait
 * for the queue are woken. */
void hca_cq_hold(struct hca_cq *cq, uint32_t visible, uint64_t ns);
/* Forgets what this queue pair completed and was not polled. */
void hca_cq_purge(struct hca_cq *cq, const struct hca_qp *qp);
/* Under the queue's lock; a poll that only looks whether there is anything does so without. */
static inline void hca_cq_show_until(struct hca_cq *cq, uint32_t counter)
{
	__atomic_store_n(&cq->shown, counter, __ATOMIC_RELEASE);
}
static inline void hca_cq_taken_until(struct hca_cq *cq, uint32_t counter)
{
	__atomic_store_n(&cq->tail, counter, __ATOMIC_RELAXED);
}
static inline void hca_cq_arm_over(struct hca_cq *cq, bool over)
{
	__atomic_store_n(&cq->armed_over, over, __ATOMIC_RELAXED);
}
/* Takes up to `want` completions, whose slots are free then, and the time of the last one. */
int hca_cq_pop(struct hca_cq *cq, struct ibv_wc *wc, int want, uint64_t *timestamp);
/* An armed queue has a completion: its event is sent, or held back. Under its lock. */
void hca_cq_notify(struct hca_cq *cq);
/* Sends the event, on its channel. */
void hca_cq_signal(struct hca_cq *cq);

/* ---- event.c ---- */

/* What an event is about: an index and generation of that table; the port by its number. */
enum hca_element { HCA_ELEMENT_PORT, HCA_ELEMENT_CQ, HCA_ELEMENT_QP, HCA_ELEMENT_SRQ };

void hca_event_post(uint32_t context, enum ibv_event_type type, uint32_t element,
		    uint32_t generation);
/* Forgets events of an element that goes away. */
void hca_event_purge(uint32_t context, enum hca_element kind, uint32_t element,
		     uint32_t generation);
void hca_context_lock(struct hca_context *c);
/* Under its lock: the event after `*before` (index + 1; 0: the first) is out of the list. NULL:
 * there is none. */
struct hca_event *hca_event_unlink(struct hca_context *c, uint32_t *before);
enum hca_element hca_event_element(enum ibv_event_type type);
/* The descriptor is its owner's: another process rings, and the owner shows it. */
void hca_event_ready(const struct hca_item *it, struct hca_ready *r, bool on);

/* ---- channel.c ---- */

void hca_channel_lock(struct hca_channel *ch);
/* Under its lock: the first queue with an event; it goes to the end if it has more. NULL: none. */
struct hca_cq *hca_channel_take(struct hca_channel *ch);
/* About to wait for this channel. Under no lock. */
void hca_check_wakeup(const struct hca_channel *ch, uint64_t caller);
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

/* ---- account.c, queue.c, qp.c ---- */

/* account.c: a request that was posted ends once: it completes, is flushed, or goes with its queue.
 * Each step is recorded; one that comes twice, or for nothing, is a failure of the class
 * "work-request". */
enum hca_account {
	HCA_ACCOUNT_NONE = 0, /* a new ring is zeroed */
	HCA_ACCOUNT_POSTED = 0x9057ed,
	HCA_ACCOUNT_ENDED,
};
void hca_account_wrong(const struct hca_wqe *e, const char *queue, const char *what);
/* After the slot was filled; what it held before has left. */
static inline void hca_account_post(struct hca_queue *q, struct hca_wqe *e, const char *queue)
{
	if (UNLIKELY(e->account == HCA_ACCOUNT_POSTED))
		hca_account_wrong(e, queue, "is posted into a slot whose request has not ended");
	e->account = HCA_ACCOUNT_POSTED;
	q->posted++;
}
static inline void hca_account_end(struct hca_queue *q, struct hca_wqe *e, const char *queue)
{
	if (UNLIKELY(e->account != HCA_ACCOUNT_POSTED))
		hca_account_wrong(e, queue,
				  e->account == HCA_ACCOUNT_ENDED ? "ends a second time"
								  : "ends and was never posted");
	e->account = HCA_ACCOUNT_ENDED;
	q->ended++;
}
/* Requests from done to head are dropped, by a reset or with the queue: done is head then, and all
 * are accounted for. */
void hca_account_drop(struct hca_queue *q, const char *queue);
/* A ring for that many requests at least; ENOMEM. Not thread-safe. */
int hca_queue_make(struct hca_queue *q, uint32_t wr, uint32_t sge, uint32_t inline_bytes);
void hca_queue_end(struct hca_queue *q);
void hca_qp_set_state(struct hca_qp *qp, enum ibv_qp_state state);
/* To ERR: everything outstanding on both queues completes with WR_FLUSH_ERR, in order. */
void hca_qp_to_error(struct hca_qp *qp);
void hca_qp_flush(struct hca_qp *qp);
/* Its number enters the port, or leaves it. */
void hca_qp_enter(struct hca_qp *qp);
void hca_qp_leave(struct hca_qp *qp);
/* Everything in the send queue is flushed. */
void hca_send_flush(struct hca_qp *qp);
/* The live queue pair of a port with this number, locked; NULL: none. */
struct hca_qp *hca_qp_lock_number(uint32_t port, uint32_t number);
/* The same, if no task has it locked at this moment. */
struct hca_qp *hca_qp_try_number(uint32_t port_index, uint32_t number);
/* The same by reference: is it still that one? */
struct hca_qp *hca_qp_lock_reference(struct hca_qp *qp, uint32_t generation);

/* ---- complete.c ---- */

/* Completes the oldest send; status other than success always makes a CQE. */
void hca_send_complete(struct hca_qp *qp, enum ibv_wc_status status);
void hca_recv_complete(struct hca_qp *qp, enum ibv_wc_status status, const struct hca_packet *p,
		       uint64_t bytes);

/* ---- pending.c ---- */

/* Lands the writes under way of a port on this memory, by region and address (bytes 0: the whole
 * region), or of this queue pair (mr NULL). Under the port's atomic lock. */
void hca_atomics_land(struct hca_port *port, const struct hca_qp *own, const struct hca_mr *mr,
		      uint64_t address, uint64_t bytes);
/* The queue pair's own one lands, before whatever comes next; true: it is to be answered. */
bool hca_atomic_land(struct hca_qp *qp);
void hca_atomic_settle_region(struct hca_mr *mr);
/* The packets that the queue pair keeps are freed. */
void hca_early_drop(struct hca_qp *qp);

/* ---- srq.c ---- */

/* The oldest receive of the queue pair's shared queue becomes its own. False: there is none. */
bool hca_srq_take(struct hca_qp *qp);
/* A completion of a receive of that queue was polled, or will never be. */
void hca_srq_give(uint32_t index, uint32_t generation);
/* The same for the one that the queue pair took and will not complete. */
void hca_srq_drop(struct hca_qp *qp);

/* ---- xrc.c ---- */

uint32_t hca_srq_number(const struct hca_srq *srq);
/* A request for the shared queue of this number has come: the target half's receives, completions
 * and keys are that one's. False: its domain has none. Under its lock. */
bool hca_xrc_bind(struct hca_qp *qp, uint32_t number);
/* The shared queue goes away. */
void hca_xrc_forget_srq(const struct hca_srq *srq);

#pragma GCC visibility pop

#endif
