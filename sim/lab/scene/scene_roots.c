/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A scene of several unique ids and a deadline. One rank, the culprit, comes when the time of its
 * root is over. The ranks of the other roots come later than those of its own, and in time. All
 * that wait get ncclTimeout when the first time is over, and not each root's when its own is. The
 * line names the culprit, which gets the same error as soon as it comes. Only the root of the first
 * id has ended by then, with the init of rank 0.
 */
#include <stdio.h>
#include <string.h>

#include "sim/lab/scene/scene.h"

#define ROOTS_SLACK_NS 250000000ull  /* connections with roots, and answers */
#define ROOTS_SOON_NS  500000000ull  /* the answer that a late rank gets */
#define ROOTS_GONE_NS  5000000000ull /* the same if its root has ended: it tries to connect */
#define ROOTS_AGAIN_NS 100000000ull  /* from an attempt that is refused to the next one */

static const char roots_call[] = "ncclCommInitRankScalable with an absent rank";

/* The root of a rank: blocks of consecutive ranks, the first ones with one rank more. */
static int32_t roots_of(const struct scene *s, int32_t rank)
{
	int32_t least = s->n / s->roots, more = s->n % s->roots, in_more = more * (least + 1);

	ASSERT(least > 0);
	return rank < in_more ? rank / (least + 1) : more + (rank - in_more) / least;
}

/* The culprit's root has another rank, so that its time runs. */
static bool roots_clock_runs(const struct scene *s)
{
	for (int32_t r = 0; r < s->n; r++)
		if (r != s->culprit && roots_of(s, r) == roots_of(s, s->culprit))
			return true;
	return false;
}

/* Every rank but the culprit has this line, as in deadline_names. */
static void roots_named(struct scene *s, const char *call)
{
	const char *line = ncclGetLastError(NULL);
	char want[48], text[400];

	snprintf(want, sizeof want, "rank %d has not called", s->culprit);
	if (s->me->run->config->ranks_per_proc > 1 || strstr(line, want))
		return;
	snprintf(text, sizeof text, "ncclGetLastError is \"%s\", expected that %s", line, want);
	scene_report(s, call, text);
}

/* The culprit finds its root. */
static bool roots_stays(const struct scene *s)
{
	return s->culprit == 0 || roots_of(s, s->culprit) > 0;
}

/* Attempts to connect that were refused in this run. Each delays its rank, and the first one of a
 * root delays the root's time, too. */
static uint64_t roots_refused(void)
{
	const struct sim_probe_stat *stat;
	uint32_t n = sim_probe_stats(&stat);

	for (uint32_t i = 0; i < n; i++)
		if (!strcmp(stat[i].name, "bootstrap.connect_refused"))
			return stat[i].hits;
	ASSERT(!"the probe bootstrap.connect_refused");
	return 0;
}

static void roots_judge(struct scene *s, ncclResult_t rc, uint64_t ns, uint64_t most_ns,
			uint64_t refused_ns)
{
	bool stays = roots_stays(s);

	if (!s->mine || stays || rc != ncclRemoteError)
		scene_judge(s, roots_call, rc, ncclTimeout);
	if (!s->mine && rc == ncclTimeout)
		roots_named(s, roots_call);
	if (s->mine)
		most_ns = stays ? ROOTS_SOON_NS : ROOTS_GONE_NS;
	if (ns > most_ns + refused_ns)
		scene_report(s, roots_call,
			     s->mine ? "has waited although the deadline was over"
				     : "has returned long after the first deadline");
}

void scene_roots(struct scene *s)
{
	const uint64_t time_ns = s->timeout_ms * 1000000;
	bool apart = roots_clock_runs(s) && sim_rng_below(&s->drawn, 2);
	bool of_other = roots_of(s, s->me->rank) != roots_of(s, s->culprit);
	uint64_t gap_ns = apart ? sim_rng_below(&s->drawn, time_ns / 4 * 3) : 0, start_ns, ns;
	uint64_t late_ns = sim_rng_below(&s->drawn, 2 * time_ns), most_ns;
	uint64_t refused = roots_refused();
	ncclComm_t comm = NULL;
	ncclResult_t rc;

	if (!lab_barrier(s->me))
		return;
	if (s->mine)
		os_sleep_ns(time_ns + time_ns / 4 + gap_ns + ROOTS_SLACK_NS + late_ns);
	else if (of_other)
		os_sleep_ns(gap_ns);
	start_ns = os_now_ns();
	lab_call(s->me, roots_call);
	rc = scene_init(s, 0, &comm);
	lab_call(s->me, NULL);
	ns = os_now_ns() - start_ns;
	if (comm)
		scene_report(s, roots_call, "left a communicator");
	most_ns = time_ns + time_ns / 8 + ROOTS_SLACK_NS - (of_other ? gap_ns : 0);
	roots_judge(s, rc, ns, most_ns, (roots_refused() - refused) * ROOTS_AGAIN_NS);
}
