/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues: holding completions back, polling, and the events of an armed queue. A work
 * queue's slot is free again when its completion, or a later one of that queue, was polled. On
 * hardware only the program moves that index, too. */
#include "backends/fakeverbs/queues/queues.h"

/* ---- holding back --------------------------------------------------------------------------- */

static void hca_cq_show(void *object, uint64_t generation)
{
	struct hca_cq *cq = object;

	hca_cq_lock(cq);
	bool live = cq->ring && cq->item.generation == (uint32_t)generation;
	uint64_t handle = cq->item.handle;

	if (live) {
		ASSERT(cq->held); /* one event for each time that it is held */
		cq->held = 0;
		hca_cq_show_until(cq, cq->head);
	}
	hca_unlock(&cq->item.lock);
	if (live)
		os_event_post((const void *)(uintptr_t)handle);
}

void hca_cq_hold(struct hca_cq *cq, uint32_t visible, uint64_t ns)
{
	const struct sim_event_attr attr = {
		.name = "cq.show", .kind = SIM_EVENT_TIMER, .delay_ns = ns};

	hca_cq_lock(cq);
	bool first = !cq->held;

	ASSERT(cq->shown - cq->tail <= cq->head - cq->tail);

	cq->held = 1;
	hca_cq_show_until(cq, cq->tail + MIN_OF(cq->shown - cq->tail, visible));
	uint32_t generation = cq->item.generation;

	hca_unlock(&cq->item.lock);
	if (first)
		sim_event_post(&attr, hca_cq_show, cq, generation, NULL);
}

void hca_cq_purge(struct hca_cq *cq, const struct hca_qp *qp)
{
	hca_cq_lock(cq);
	uint32_t to = cq->tail, shown = cq->shown;

	/* tail <= shown <= head: polls take what is shown, and what is pushed is shown later */
	ASSERT(shown - cq->tail <= cq->head - cq->tail);
	for (uint32_t i = cq->tail; i != cq->head; i++) {
		struct hca_cqe *e = hca_cqe_at(cq, i);

		if (i == shown)
			hca_cq_show_until(cq, to);

		if (e->qp != qp->item.index || e->generation != qp->item.generation) {
			*hca_cqe_at(cq, to++) = *e;
			continue;
		}
		mem_forget((const void *)(uintptr_t)e->token);
		if (e->srq)
			hca_srq_give(e->srq - 1, e->srq_generation);
	}
	if (shown == cq->head)
		hca_cq_show_until(cq, to);
	ASSERT(cq->head - to <= cq->head - cq->tail);
	cq->head = to;
	hca_unlock(&cq->item.lock);
}

/* ---- polling -------------------------------------------------------------------------------- */

static inline void hca_wc_fill(struct ibv_wc *wc, const struct hca_cqe *e)
{
	if (LIKELY(e->status == IBV_WC_SUCCESS)) {
		*wc = (struct ibv_wc){.wr_id = e->wr_id,
				      .opcode = (enum ibv_wc_opcode)e->opcode,
				      .byte_len = e->bytes,
				      .imm_data = e->imm,
				      .qp_num = e->qpn,
				      .src_qp = e->src_qpn,
				      .wc_flags = e->flags,
				      .pkey_index = e->pkey_index,
				      .slid = e->slid,
				      .sl = (uint8_t)e->sl};
		return;
	}
	/* only wr_id, status, qp_num and vendor_err are valid: the other fields are poison, so that
	 * a program that reads them notices */
	*wc = (struct ibv_wc){.wr_id = e->wr_id,
			      .status = (enum ibv_wc_status)e->status,
			      .opcode = (enum ibv_wc_opcode)0x5a,
			      .vendor_err = e->vendor_error,
			      .byte_len = 0xdeadbeef,
			      .qp_num = e->qpn};
}

#define HCA_POLL_BATCH 32

struct hca_taken {
	uint64_t token;
	uint32_t srq, srq_generation; /* copies of the completion's fields */
};

/* Frees the work queue's slots before `slot`, because the program polled this completion. Under the
 * lock of the completion queue, which is the only one to which the work queue completes. */
static void hca_cqe_release(const struct hca_cqe *e)
{
	struct hca_qp *qp = hca_slab_at(&hca_world()->qp, e->qp);

	if (e->srq || __atomic_load_n(&qp->item.generation, __ATOMIC_ACQUIRE) != e->generation)
		return;
	uint32_t *polled = e->is_recv ? &qp->rq.polled : &qp->sq.polled;

	if ((int32_t)(e->slot - __atomic_load_n(polled, __ATOMIC_RELAXED)) > 0)
		__atomic_store_n(polled, e->slot, __ATOMIC_RELEASE);
}

/* Finishes polled completions after the queue's lock was released. */
static void hca_cq_taken(const struct hca_taken *taken, int n)
{
	for (int i = 0; i < n; i++) {
		const void *token = (const void *)(uintptr_t)taken[i].token;

		mem_acquire(token);
		mem_forget(token);
		if (taken[i].srq)
			hca_srq_give(taken[i].srq - 1, taken[i].srq_generation);
	}
}

int hca_cq_pop(struct hca_cq *cq, struct ibv_wc *wc, int want, uint64_t *timestamp)
{
	struct hca_taken taken[HCA_POLL_BATCH];
	int got = 0, left;

	do {
		left = 0;
		if (!hca_cq_lock_unless_stopped(cq))
			break;
		if (cq->armed_over)
			hca_cq_arm_over(cq, false);
		uint32_t tail = cq->tail;

		ASSERT(cq->shown - tail <= cq->head - tail);

		for (; got < want && tail != cq->shown && left < HCA_POLL_BATCH; got++, tail++) {
			const struct hca_cqe *e = hca_cqe_at(cq, tail);

			hca_wc_fill(&wc[got], e);
			hca_cqe_release(e);
			*timestamp = e->timestamp;
			if (UNLIKELY(e->srq || mem_on))
				taken[left++] =
					(struct hca_taken){e->token, e->srq, e->srq_generation};
		}
		hca_cq_taken_until(cq, tail);
		hca_unlock(&cq->item.lock);
		if (UNLIKELY(left))
			hca_cq_taken(taken, left);
	} while (UNLIKELY(left == HCA_POLL_BATCH));
	return got;
}

/* ---- events --------------------------------------------------------------------------------- */

void hca_cq_signal(struct hca_cq *cq)
{
	cq->arm = HCA_ARM_NONE;
	cq->moderated = 0;
	hca_channel_post(cq);
}

static void hca_cq_period_over(void *object, uint64_t generation)
{
	struct hca_cq *cq = object;

	hca_cq_lock(cq);
	if (cq->ring && cq->item.generation == (uint32_t)generation) {
		ASSERT(cq->period_runs); /* a queue has one such timer */
		cq->period_runs = 0;
		if (cq->moderated && cq->arm != HCA_ARM_NONE)
			hca_cq_signal(cq);
	}
	hca_unlock(&cq->item.lock);
}

void hca_cq_notify(struct hca_cq *cq)
{
	const struct sim_event_attr attr = {.name = "cq.moderation",
					    .kind = SIM_EVENT_TIMER,
					    .delay_ns = cq->moderate_period_us * 1000ull};

	ASSERT(cq->arm != HCA_ARM_NONE);
	/* a timer of another process would end with that process */
	if (!cq->moderate_period_us || !hca_is_here(cq->item.proc) ||
	    ++cq->moderated >= cq->moderate_count) {
		hca_cq_signal(cq);
		return;
	}
	if (cq->period_runs)
		/* the running period may end early for these completions: a period is the longest
		 * delay, not the shortest */
		return;
	cq->period_runs = 1;
	sim_event_post(&attr, hca_cq_period_over, cq, cq->item.generation, NULL);
}
