/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The periodic look for operations that have exceeded their deadlines, and the periodic comparison
 * of the ranks' calls. Both end in a query to all processes of the job, which is judged
 * (ras_verdict.c). The process that has a rank 0 compares for all.
 */
#include "core/base/param.h"
#include "core/ras/ras_internal.h"

/* Looks of a deadline, and the longest and shortest time between two of them. */
#define WATCH_LOOKS    8
#define WATCH_MOST_NS  1000000000ull
#define WATCH_LEAST_NS 1000000ull

static uint64_t watch_param_ns(int p)
{
	return (uint64_t)param_i64(p) * 1000000ull;
}

bool ras_is_watching(void)
{
	return param_i64(PARAM_TIMEOUT_MS) || param_i64(PARAM_COMPARE_MS);
}

void ras_watch(struct ras *r, uint64_t timeout_ns)
{
	uint64_t ns = MAX_OF(MIN_OF(timeout_ns / WATCH_LOOKS, WATCH_MOST_NS), WATCH_LEAST_NS);
	uint64_t before = shared_load_u64(&r->watch_period_ns, SHARED_RELAXED);

	while ((!before || ns < before) &&
	       !shared_cas_weak_u64(&r->watch_period_ns, &before, ns, SHARED_RELEASE))
		;
}

/* True while an earlier look is being judged. */
static bool watch_is_running(const struct ras *r)
{
	for (const struct ras_query *q = r->queries; q; q = q->next)
		if (q->judged || q->kind == RAS_WIRE_FAIL)
			return true;
	return false;
}

static bool watch_compares(struct ras *r, bool leads, uint64_t now_ns)
{
	uint64_t period_ns = watch_param_ns(PARAM_COMPARE_MS);

	if (!period_ns || now_ns < r->compare_ns)
		return false;
	r->compare_ns = now_ns + period_ns;
	return leads;
}

static uint64_t watch_next(const struct ras *r, uint64_t now_ns, uint64_t period_ns)
{
	uint64_t next_ns = period_ns ? now_ns + period_ns : 0;

	if (r->compare_ns && (!next_ns || r->compare_ns < next_ns))
		next_ns = r->compare_ns;
	return next_ns;
}

bool ras_watch_step(struct ras *r)
{
	uint64_t period_ns = shared_load_u64(&r->watch_period_ns, SHARED_ACQUIRE);
	uint64_t now_ns = os_now_ns();
	struct ras_late late[RAS_LATES];
	struct ras_query *q = NULL;
	bool leads, compares;
	int n;

	if (!period_ns && !param_i64(PARAM_COMPARE_MS))
		return false;
	if (period_ns == r->watch_seen_ns && now_ns < r->watch_ns)
		return false;
	r->watch_seen_ns = period_ns;
	n = r->source->late(late, RAS_LATES, &leads);
	compares = watch_compares(r, leads, now_ns);
	r->watch_ns = watch_next(r, now_ns, period_ns);
	if ((n || compares) && !watch_is_running(r))
		q = ras_query_begin(r, NULL, n ? RAS_WIRE_DUMP : RAS_WIRE_CALLS,
				    ras_seconds(r, RAS_ANSWER_S));
	if (!q)
		return false;
	q->judged = true;
	q->lates = n;
	for (int i = 0; i < n; i++)
		q->late[i] = late[i];
	return true;
}
