/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared receive queues. A queue pair that needs a receive moves the oldest one of the shared queue
 * into its own receive queue of one entry. From then on the queue pair owns the receive: it
 * completes on the queue pair's completion queue. It is flushed if the queue pair dies with the
 * message half received. Receives in the shared queue remain when a queue pair dies.
 *
 *     polled ....... done ....... head
 *       moved, completion    waiting
 *       not polled yet
 *
 * Queue pairs complete out of order, so `polled` is a count: the number of slots that were freed.
 * Memory keys of a receive belong to the shared queue's protection domain.
 */
#include "backends/fakeverbs/queues/queues.h"

static struct hca_srq *hca_srq_at(uint32_t index)
{
	return hca_slab_at(&hca_world()->srq, index);
}

bool hca_srq_take(struct hca_qp *qp)
{
	struct hca_srq *srq = hca_srq_at(qp->srq - 1);
	struct hca_queue *from = &srq->rq, *to = &qp->rq;
	bool took = false, low = false;

	ASSERT(to->done == to->head);
	ASSERT(qp->srq && to->size == 1);
	hca_srq_lock(srq);
	if (srq->item.generation == qp->srq_generation && from->ring && !srq->failed &&
	    from->done != from->head) {
		struct hca_wqe *e = hca_wqe_at(from, from->done), *mine = hca_wqe_at(to, to->head);
		uint32_t account = mine->account;

		ASSERT(from->stride <= to->stride);
		mem_acquire(e);
		mem_forget(mine);
		memcpy(mine, e, from->stride);
		mine->account = account;
		srq->taken = from->done;
		srq->taker_head = to->head;
		__atomic_store_n(&srq->taker, qp->item.index + 1, __ATOMIC_RELEASE);
		__atomic_store_n(&from->done, from->done + 1, __ATOMIC_RELEASE);
		__atomic_store_n(&to->head, to->head + 1, __ATOMIC_RELEASE);
		__atomic_store_n(&srq->taker, 0, __ATOMIC_RELEASE);
		hca_account_end(from, e, "shared receive");
		hca_account_post(to, mine, "receive");
		took = true;
		low = from->head - from->done < srq->limit;
		if (low)
			srq->limit = 0;
	}
	uint32_t generation = srq->item.generation;

	hca_unlock(&srq->item.lock);
	if (low)
		hca_event_post(srq->context, IBV_EVENT_SRQ_LIMIT_REACHED, srq->item.index,
			       generation);
	return took;
}

void hca_srq_give(uint32_t index, uint32_t generation)
{
	struct hca_srq *srq = hca_srq_at(index);

	if (__atomic_load_n(&srq->item.generation, __ATOMIC_ACQUIRE) == generation)
		__atomic_fetch_add(&srq->rq.polled, 1, __ATOMIC_ACQ_REL);
}

void hca_srq_drop(struct hca_qp *qp)
{
	if (qp->srq && qp->rq.done != qp->rq.head)
		hca_srq_give(qp->srq - 1, qp->srq_generation);
}
