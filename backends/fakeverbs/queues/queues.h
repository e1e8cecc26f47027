/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pairs, completion queues, shared receive queues, completion channels and asynchronous
 * events, and the locks on them. A lock repairs the object if a process died inside it.
 *
 * Includes arena, objects and checks. Errors: 0 or a positive errno. Each function names the lock
 * under which it is called.
 */
#ifndef BACKENDS_FAKEVERBS_QUEUES_H
#define BACKENDS_FAKEVERBS_QUEUES_H

#include <infiniband/verbs.h>

#include "backends/fakeverbs/checks/checks.h"
#include "backends/fakeverbs/queues/faults.h"
#include "sim/world/world.h"

#pragma GCC visibility push(hidden)

/* ---- repair.c ---- */

/* Repair the object after a process died while it changed it. Under the object's lock. */
void hca_qp_repair(struct hca_qp *qp);
void hca_srq_repair(struct hca_srq *srq);
void hca_cq_repair(struct hca_cq *cq);

static inline void hca_qp_lock(struct hca_qp *qp)
{
	if (hca_lock_broken(&qp->item.lock))
		hca_qp_repair(qp);
}
/* Lock the object unless a stopped process holds the lock (arena.h): false, not locked. Calls then
 * fail with ETIMEDOUT, polls find nothing, packets are lost, and timers are posted again. */
static inline bool hca_qp_lock_unless_stopped(struct hca_qp *qp)
{
	enum hca_locked got = hca_lock_unless_stopped(&qp->item.lock);

	if (UNLIKELY(got == HCA_LOCKED_BROKEN))
		hca_qp_repair(qp);
	return got != HCA_LOCKED_NOT;
}
static inline bool hca_cq_lock_unless_stopped(struct hca_cq *cq)
{
	enum hca_locked got = hca_lock_unless_stopped(&cq->item.lock);

	if (UNLIKELY(got == HCA_LOCKED_BROKEN))
		hca_cq_repair(cq);
	return got != HCA_LOCKED_NOT;
}
static inline void hca_srq_lock(struct hca_srq *srq)
{
	if (hca_lock_broken(&srq->item.lock))
		hca_srq_repair(srq);
}
static inline void hca_cq_lock(struct hca_cq *cq)
{
	if (hca_lock_broken(&cq->item.lock))
		hca_cq_repair(cq);
}

/* ---- cq.c ---- */

/* Limits polls to `visible` completions for `ns`. Afterwards polls see everything, and the tasks
 * that wait for the queue are woken. */
void hca_cq_hold(struct hca_cq *cq, uint32_t visible, uint64_t ns);
/* Removes the completions of this queue pair that were not polled. */
void hca_cq_purge(struct hca_cq *cq, const struct hca_qp *qp);
/* Store fields under the queue's lock. A poll that only checks for completions reads them without
 * the lock. */
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
/* Removes up to `want` completions and frees their slots. Stores the time of the last one. Returns
 * their number. */
int hca_cq_pop(struct hca_cq *cq, struct ibv_wc *wc, int want, uint64_t *timestamp);
/* Sends the event of an armed queue that received a completion, or holds it back (moderation).
 * Under the queue's lock. */
void hca_cq_notify(struct hca_cq *cq);
/* Sends the event on the queue's channel. */
void hca_cq_signal(struct hca_cq *cq);

/* ---- hca_event.c ---- */

/* Kind of an event's subject: index and generation in that table; a port has only its number. */
enum hca_element { HCA_ELEMENT_PORT, HCA_ELEMENT_CQ, HCA_ELEMENT_QP, HCA_ELEMENT_SRQ };

void hca_event_post(uint32_t context, enum ibv_event_type type, uint32_t element,
		    uint32_t generation);
/* Removes the events of an element that is destroyed. */
void hca_event_purge(uint32_t context, enum hca_element kind, uint32_t element,
		     uint32_t generation);
void hca_context_lock(struct hca_context *c);
/* Removes the event after `*before` (index + 1; 0: the first) from the list. NULL: no such event.
 * Under the context's lock. */
struct hca_event *hca_event_unlink(struct hca_context *c, uint32_t *before);
enum hca_element hca_event_element(enum ibv_event_type type);
/* Makes a descriptor readable or not. Only its owner can: for an object of another process,
 * hca_item_post wakes the owner, which updates the descriptor. */
void hca_event_ready(const struct hca_item *it, struct hca_ready *r, bool on);

/* ---- hca_channel.c ---- */

void hca_channel_lock(struct hca_channel *ch);
/* Removes one event and returns its queue: the first one. A queue with further events moves to the
 * end. NULL: no event. Under the channel's lock. */
struct hca_cq *hca_channel_take(struct hca_channel *ch);
/* Reports queues whose event will never arrive, before a task waits for this channel. Under no
 * lock. */
void hca_check_wakeup(const struct hca_channel *ch, uint64_t caller);
void hca_channel_post(struct hca_cq *cq); /* called under the CQ's lock */
/* Removes a destroyed queue from its channel's list. */
void hca_channel_purge(struct hca_cq *cq);
/* WAITS until every returned event is acknowledged. Destroy calls guarantee it. */
void hca_acked_wait(const void *object, const uint32_t *taken, const uint32_t *acked);
void hca_context_destroy(struct hca_context *c);
void hca_channel_destroy(struct hca_channel *ch);
/* Make the descriptor readable if the queue has an event. Called in the owner's process after
 * another process added an event. */
void hca_context_show(void *context);
void hca_channel_show(void *channel);

/* ---- account.c, queue.c, qp.c ---- */

/* account.c: a posted request ends exactly once: it completes, is flushed, or is dropped with its
 * queue. Each step is recorded. A second end, or an end without a post, is a failure of the class
 * "work-request". */
enum hca_account {
	HCA_ACCOUNT_NONE = 0, /* a new ring is zeroed */
	HCA_ACCOUNT_POSTED = 0x9057ed,
	HCA_ACCOUNT_ENDED,
};
void hca_account_wrong(const struct hca_wqe *e, const char *queue, const char *what);
/* Records a post, after the slot was filled. The slot's previous request has ended. */
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
/* Ends the requests from done to head, which a reset or the end of the queue drops. Then done
 * equals head, and all requests are accounted for. */
void hca_account_drop(struct hca_queue *q, const char *queue);
/* Allocates a ring for at least `wr` requests; ENOMEM. Not thread-safe. */
int hca_queue_make(struct hca_queue *q, uint32_t wr, uint32_t sge, uint32_t inline_bytes);
void hca_queue_end(struct hca_queue *q);
void hca_qp_set_state(struct hca_qp *qp, enum ibv_qp_state state);
/* Moves the queue pair to ERR: every outstanding request of both queues completes with
 * WR_FLUSH_ERR, in order. */
void hca_qp_to_error(struct hca_qp *qp);
void hca_qp_flush(struct hca_qp *qp);
/* Allocate the queue pair's number and add it to the port; remove it from the port. */
void hca_qp_enter(struct hca_qp *qp);
void hca_qp_leave(struct hca_qp *qp);
/* Flushes the whole send queue. */
void hca_send_flush(struct hca_qp *qp);
/* Returns the live queue pair of a port with this number, locked; NULL: no such queue pair. */
struct hca_qp *hca_qp_lock_number(uint32_t port, uint32_t number);
/* The same, but also NULL if another task holds its lock. */
struct hca_qp *hca_qp_try_number(uint32_t port_index, uint32_t number);
/* Locks the queue pair if it still has this generation; NULL: it was destroyed. */
struct hca_qp *hca_qp_lock_reference(struct hca_qp *qp, uint32_t generation);

/* ---- complete.c ---- */

/* Completes the oldest send. A status other than success always creates a CQE. */
void hca_send_complete(struct hca_qp *qp, enum ibv_wc_status status);
void hca_recv_complete(struct hca_qp *qp, enum ibv_wc_status status, const struct hca_packet *p,
		       uint64_t bytes);

/* ---- pending.c ---- */

/* Executes a port's pending atomic writes: of queue pair `own`, or (`own` NULL) to this memory, by
 * region and address (bytes 0: the whole region). Under the port's atomic lock. */
void hca_atomics_land(struct hca_port *port, const struct hca_qp *own, const struct hca_mr *mr,
		      uint64_t address, uint64_t bytes);
/* Executes the queue pair's own pending write, before the next operation. True: the caller answers
 * it. */
bool hca_atomic_land(struct hca_qp *qp);
void hca_atomic_settle_region(struct hca_mr *mr);
/* Frees the packets that the queue pair keeps. */
void hca_partial_drop(struct hca_qp *qp);

/* ---- srq.c ---- */

/* Moves the oldest receive of the shared queue to the queue pair. False: the shared queue is
 * empty. */
bool hca_srq_take(struct hca_qp *qp);
/* Frees a slot of the shared queue: the completion of its receive was polled, or will never be. */
void hca_srq_give(uint32_t index, uint32_t generation);
/* Frees the slot of the receive that the queue pair holds and will not complete. */
void hca_srq_drop(struct hca_qp *qp);

/* ---- xrc.c ---- */

uint32_t hca_srq_number(const struct hca_srq *srq);
/* Attaches a target half to the shared queue to which a request is addressed: the target half uses
 * its receives, completion queue and keys. False: the domain has no queue of this number. Under the
 * queue pair's lock. */
bool hca_xrc_bind(struct hca_qp *qp, uint32_t number);
/* Detaches all target halves from a shared queue that is destroyed. */
void hca_xrc_forget_srq(const struct hca_srq *srq);

#pragma GCC visibility pop

#endif
