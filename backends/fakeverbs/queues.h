/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of what requests pass through: queue pairs, completion queues, shared receive queues,
 * completion channels, events, extended connections, domains. Entry points of verbs that no table of
 * calls names by itself, and what the parts need of each other.
 *
 * Errors: 0 or a positive errno, or NULL and errno, as verbs have it. Under which lock, each says.
 */
#ifndef BACKENDS_FAKEVERBS_QUEUES_H
#define BACKENDS_FAKEVERBS_QUEUES_H

#include <infiniband/verbs.h>

#include "backends/fakeverbs/handles.h"
#include "backends/fakeverbs/objects.h"
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
/* Under the queue's lock; who looks whether there is anything to poll does so without. */
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
/* A queue of at least that many entries; flags are enum ibv_create_cq_attr_flags. NULL and errno. */
struct hca_cq_handle *hca_cq_create(struct ibv_context *context,
				    const struct ibv_cq_init_attr_ex *a, uint32_t flags);
/* Takes up to `want` completions, whose slots are free then, and the time of the last one. */
int hca_cq_pop(struct hca_cq *cq, struct ibv_wc *wc, int want, uint64_t *timestamp);
/* The fault site of a poll; true: it fails. */
bool hca_poll_fault(struct hca_cq *cq, const struct ibv_cq *ibv);
int hca_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int hca_req_notify_cq(struct ibv_cq *cq, int solicited_only);

/* ---- cq_ex.c, cq_attr.c ---- */

struct ibv_cq_ex *hca_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *a);
int hca_query_rt_values(struct ibv_context *context, struct ibv_values_ex *v);
int hca_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *a);
/* An armed queue has a completion to tell of. Under its lock. */
void hca_cq_notify(struct hca_cq *cq);
/* It does, on its channel. */
void hca_cq_tell(struct hca_cq *cq);

/* ---- event.c ---- */

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

/* ---- qp.c, qp_attr.c, account.c ---- */

/* account.c: a request that was posted ends once: it completes, is flushed, or goes with its queue. Each
 * step says so; one that comes twice, or for nothing, is a failure of the class "work-request". */
enum hca_account { HCA_ACCOUNT_NONE, HCA_ACCOUNT_POSTED = 0x9057ed, HCA_ACCOUNT_ENDED };
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
/* Requests from done to head are dropped, by a reset or with the queue: done is head then, and all are
 * accounted for. */
void hca_account_drop(struct hca_queue *q, const char *queue);
static inline struct hca_wqe *hca_wqe_at(const struct hca_queue *q, uint32_t counter)
{
	return (struct hca_wqe *)((char *)world_arena_at(q->ring) +
				  (uint64_t)(counter & (q->size - 1)) * q->stride);
}
/* Is there one for another request? */
static inline bool hca_queue_has_slot(const struct hca_queue *q)
{
	return q->head - __atomic_load_n(&q->polled, __ATOMIC_ACQUIRE) < q->size;
}
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
/* Is it still that one? Under its lock. */
static inline bool hca_qp_is(const struct hca_qp *qp, uint32_t generation)
{
	return qp->sq.ring && __atomic_load_n(&qp->item.generation, __ATOMIC_ACQUIRE) == generation;
}
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

/* ---- qp.c, qp_ex.c ---- */

/* What comp_mask does not name is zero. NULL and errno. */
struct ibv_qp *hca_qp_create(struct ibv_context *context, struct ibv_qp_init_attr_ex *a,
			     const char *call, uint64_t caller);
struct ibv_qp *hca_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *a);
/* What queue pairs of this type do not have: EOPNOTSUPP. */
int hca_qp_ex_check(enum ibv_qp_type type, uint64_t ops);
void hca_qp_ex_calls(struct hca_qp_handle *h, uint64_t ops);
size_t hca_builder_bytes(uint32_t port);
/* Whoever posts to an extended queue pair waits until nobody is making requests. WAITS. */
void hca_builder_wait(struct hca_builder *b);
void hca_builder_leave(struct hca_builder *b);
static inline void hca_builder_lock(struct hca_qp_handle *h)
{
	if (h->builder)
		hca_builder_wait(h->builder);
}
static inline void hca_builder_unlock(struct hca_qp_handle *h)
{
	if (h->builder)
		hca_builder_leave(h->builder);
}

/* ---- domain.c ---- */

/* What the program's allocators are told that they allocate for. */
enum hca_resource { HCA_RESOURCE_QP = 1, HCA_RESOURCE_SRQ, HCA_RESOURCE_CQ };

struct ibv_td *hca_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *a);
int hca_dealloc_td(struct ibv_td *td);
struct ibv_pd *hca_alloc_parent_domain(struct ibv_context *context,
				       struct ibv_parent_domain_init_attr *a);
void hca_parent_end(struct hca_pd_handle *pd, uint64_t caller);
/* Under no lock: these run the program's code. pd may be NULL. ENOMEM. */
int hca_ring_memory_take(struct ibv_pd *pd, enum hca_resource type, uint64_t bytes, void **memory);
void hca_ring_memory_give(struct ibv_pd *pd, enum hca_resource type, void *memory);

/* ---- srq.c ---- */

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

/* ---- xrc.c ---- */

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

/* ---- vctx.c: the extended calls of a context ---- */

void hca_extended_ops(struct verbs_context *v);

/* ---- query.c ---- */

int hca_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
			struct ibv_device_attr_ex *attr, size_t bytes);

#pragma GCC visibility pop

#endif
