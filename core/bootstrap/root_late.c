/* SPDX-License-Identifier: BSD-3-Clause */
/* The deadline of the root: ranks that do not check in. */
#include <stdio.h>

#include "core/bootstrap/root_internal.h"

#define ROOT_LISTED 8 /* absent ranks in a report */

int32_t bootstrap_root_missing(const struct bootstrap_root *r)
{
	for (int32_t i = 0; i < r->count; i++)
		if (!r->by_rank[i])
			return r->first + i;
	return r->set.nroots && !r->after_addr.port ? bootstrap_root_next_rank(r) : -1;
}

/* Lists the ranks that have not arrived. */
static void root_late_reason(struct bootstrap_root *r)
{
	char *text = r->reason.text;
	size_t bytes = sizeof r->reason.text, n = 0;
	int32_t listed = 0, missing = r->count - r->arrived;

	for (int32_t i = 0; i < r->count && listed < ROOT_LISTED; i++)
		if (!r->by_rank[i])
			n += (size_t)snprintf(text + n, bytes - n, "%s %d",
					      listed++      ? ","
					      : missing > 1 ? "ranks"
							    : "rank",
					      r->first + i);
	if (!missing) { /* only the rank after this root's is absent */
		n += (size_t)snprintf(text + n, bytes - n, "rank %d", r->failed_rank);
		missing = listed = 1;
	}
	if (missing > listed)
		n += (size_t)snprintf(text + n, bytes - n, " and %d more", missing - listed);
	snprintf(text + n, bytes - n, " %s not called ncclCommInitRank %.3f s after the first rank",
		 missing > 1 ? "have" : "has", (double)r->timeout_ns * 1e-9);
}

bool bootstrap_root_late(struct bootstrap_root *r)
{
	if (!r->deadline_ns || r->failed || r->over || os_now_ns() < r->deadline_ns)
		return false;
	r->deadline_ns = 0;
	if (bootstrap_root_missing(r) < 0)
		return false; /* another root awaits ranks, and reports them */
	r->failed = true;
	r->failed_kind = BOOTSTRAP_LATE;
	r->failed_rank = bootstrap_root_missing(r);
	root_late_reason(r);
	bootstrap_root_fail(r, BOOTSTRAP_LATE, r->failed_rank);
	r->over = false; /* ranks that arrive later get the same answer */
	return true;
}
