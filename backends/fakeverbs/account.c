/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The books on work requests. "Each posted request completes exactly once or is flushed" is what the
 * stack above builds on, so the double watches itself: each slot of a queue is posted, and ended, in
 * turns, and a queue that goes or is reset has ended as many as were posted.
 */
#include "backends/fakeverbs/hca.h"

static void hca_account_wrong(const struct hca_wqe *e, const char *queue, const char *what)
{
	sim_note_failure(SIM_WRONG_RESULT, "work-request", -1,
			 "fakeverbs: a request of a %s queue (wr_id 0x%llx) %s", queue,
			 (unsigned long long)e->wr_id, what);
}

/* After the slot was filled; what it held before has left. */
void hca_account_post(struct hca_queue *q, struct hca_wqe *e, const char *queue)
{
	if (e->account == HCA_ACCOUNT_POSTED)
		hca_account_wrong(e, queue, "is posted into a slot whose request has not ended");
	e->account = HCA_ACCOUNT_POSTED;
	q->posted++;
}

void hca_account_end(struct hca_queue *q, struct hca_wqe *e, const char *queue)
{
	if (e->account != HCA_ACCOUNT_POSTED)
		hca_account_wrong(e, queue,
				  e->account == HCA_ACCOUNT_ENDED ? "ends a second time"
								  : "ends and was never posted");
	e->account = HCA_ACCOUNT_ENDED;
	q->ended++;
}

void hca_account_drop(struct hca_queue *q, const char *queue)
{
	for (uint32_t i = q->done; i != q->head; i++)
		hca_account_end(q, hca_wqe_at(q, i), queue);
	if (q->posted != q->ended)
		sim_note_failure(SIM_WRONG_RESULT, "work-request", -1,
				 "fakeverbs: a %s queue ends: %llu requests were posted, and %llu "
				 "completed, were flushed or dropped",
				 queue, (unsigned long long)q->posted,
				 (unsigned long long)q->ended);
}
