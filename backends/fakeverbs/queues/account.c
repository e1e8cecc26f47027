/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The accounts of work requests. The stack relies on the rule that each posted request completes
 * exactly once or is flushed; the double therefore checks itself. Each slot of a queue alternates
 * between posted and ended. A queue that is destroyed or reset has ended as many requests as were
 * posted. A violation fails a run; programs on the drop-in have no verdict, and it is logged.
 */
#include "backends/fakeverbs/queues/queues.h"

void hca_account_wrong(const struct hca_wqe *e, const char *queue, const char *what)
{
	if (hca_members)
		hca_log("a request of a %s queue (wr_id 0x%llx) %s", queue,
			(unsigned long long)e->wr_id, what);
	sim_note_failure(SIM_WRONG_RESULT, "work-request", -1,
			 "fakeverbs: a request of a %s queue (wr_id 0x%llx) %s", queue,
			 (unsigned long long)e->wr_id, what);
}

void hca_account_drop(struct hca_queue *q, const char *queue)
{
	if (!q->ring) /* its owner died after this was done */
		return;
	for (; q->done != q->head; q->done++)
		hca_account_end(q, hca_wqe_at(q, q->done), queue);
	if (q->posted != q->ended && hca_members)
		hca_log("a %s queue ends: %llu requests were posted, and %llu ended", queue,
			(unsigned long long)q->posted, (unsigned long long)q->ended);
	if (q->posted != q->ended)
		sim_note_failure(SIM_WRONG_RESULT, "work-request", -1,
				 "fakeverbs: a %s queue ends: %llu requests were posted, and %llu "
				 "completed, were flushed or dropped",
				 queue, (unsigned long long)q->posted,
				 (unsigned long long)q->ended);
}
