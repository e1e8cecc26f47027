/* SPDX-License-Identifier: BSD-3-Clause */
/* Draws conclusions from the waits and the trace of a failed run. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/macros.h"
#include "sim/cli/report/report.h"

enum { FACTS_RANKS_MOST = 1 << 16 };

/* ---- waits.json ----------------------------------------------------------------------------- */

static const struct json_node *facts_root(const struct report *r)
{
	return r->waits.n ? &r->waits.node[0] : NULL;
}

const struct json_node *report_cause(const struct report *r)
{
	const struct json_node *cause = json_member(&r->waits, facts_root(r), "cause");

	return cause && cause->kind == JSON_OBJECT ? cause : NULL;
}

static const struct json_node *facts_first(const struct report *r, const struct json_node *of,
					   const char *list)
{
	return json_first(&r->waits, json_member(&r->waits, of, list));
}

const struct json_node *report_last_hop(const struct report *r)
{
	const struct json_node *last = NULL;

	for (const struct json_node *h = facts_first(r, report_cause(r), "hops"); h;
	     h = json_next(&r->waits, h))
		last = h;
	return last;
}

const struct json_node *report_task(const struct report *r, int64_t id)
{
	for (const struct json_node *t = facts_first(r, facts_root(r), "tasks"); t;
	     t = json_next(&r->waits, t))
		if (json_number(&r->waits, t, "id", -1) == id)
			return t;
	return NULL;
}

bool report_is_hang(const struct report *r)
{
	return r->scenario.found.verdict == SIM_NO_PROGRESS;
}

/* ---- ranks ---------------------------------------------------------------------------------- */

/* Number of the ranks that the waits and the trace name. */
static int32_t facts_ranks(const struct report *r)
{
	int64_t most = r->scenario.found.rank;

	for (const struct json_node *t = facts_first(r, facts_root(r), "tasks"); t;
	     t = json_next(&r->waits, t))
		most = MAX_OF(most, json_number(&r->waits, t, "rank", -1));
	for (int32_t i = 0; i < r->trace.tracks; i++)
		if (r->trace.track[i].group == REPORT_RANK)
			most = MAX_OF(most, (int64_t)r->trace.track[i].number);
	return most < FACTS_RANKS_MOST ? (int32_t)most + 1 : FACTS_RANKS_MOST;
}

static struct report_rank *facts_rank(const struct report *r, int64_t rank)
{
	return rank >= 0 && rank < r->ranks ? &r->rank[rank] : NULL;
}

/* Host of "host3/p0"; -1: the name has none. */
static int32_t facts_host(const char *process)
{
	return strncmp(process, "host", 4) ? -1 : (int32_t)strtol(process + 4, NULL, 10);
}

static void facts_take_tasks(struct report *r)
{
	for (const struct json_node *t = facts_first(r, facts_root(r), "tasks"); t;
	     t = json_next(&r->waits, t)) {
		struct report_rank *rank = facts_rank(r, json_number(&r->waits, t, "rank", -1));

		if (!rank)
			continue;
		rank->tasks++;
		rank->process = json_text(&r->waits, t, "proc", rank->process);
		rank->host = facts_host(rank->process);
	}
}

/* Sets the hosts of ranks without a task. The ranks of a host follow each other. */
static void facts_guess_hosts(struct report *r)
{
	uint32_t hosts = MAX_OF(r->scenario.lab.hosts, 1u);
	int32_t each = MAX_OF((r->ranks + (int32_t)hosts - 1) / (int32_t)hosts, 1);

	for (int32_t i = 0; i < r->ranks; i++)
		if (r->rank[i].host < 0)
			r->rank[i].host = i / each;
}

static bool facts_is_progress(const struct report_slice *s)
{
	return s->kind != REPORT_WAIT && s->kind != REPORT_STATE && s->kind != REPORT_FAULT &&
	       !s->open;
}

static uint64_t facts_end(const struct report_slice *s)
{
	return s->at_ns + s->ns;
}

static void facts_take_slice(struct report *r, const struct report_slice *s)
{
	struct report_rank *rank = facts_rank(r, report_slice_rank(&r->trace, s));

	if (rank && s->kind == REPORT_CALL) {
		rank->calls += !strncmp(s->name, "nccl", 4);
		rank->call = s;
	}
	if (rank && s->kind == REPORT_PLAN)
		rank->plan = s;
	if (rank && s->kind == REPORT_KERNEL)
		rank->kernel = s;
	if (s->kind == REPORT_FAULT && !strcmp(s->name, "fault") && !r->fault)
		r->fault = s;
	if (facts_is_progress(s) && facts_end(s) <= r->fail_ns &&
	    (!r->progress || facts_end(s) >= facts_end(r->progress)))
		r->progress = s;
}

/* ---- conclusions ---------------------------------------------------------------------------- */

/* The rank with the fewest calls; -1: all have the same number. */
static int32_t facts_fewest_calls(const struct report *r)
{
	int32_t least = -1;
	uint32_t most = 0;

	for (int32_t i = 0; i < r->ranks; i++) {
		most = MAX_OF(most, r->rank[i].calls);
		if (least < 0 || r->rank[i].calls < r->rank[least].calls)
			least = i;
	}
	return least >= 0 && r->rank[least].calls < most ? least : -1;
}

/* The explainer names the rank that a chain of waits ends at. Without a chain, or if the run did
 * not hang, the number of calls decides. */
static void facts_conclude(struct report *r)
{
	const struct json_node *hop = report_last_hop(r), *cause = report_cause(r);
	int64_t named = json_number(&r->waits, cause, "rank", -1);

	r->late = facts_fewest_calls(r);
	r->peer = r->channel = -1;
	if (!report_is_hang(r) || !cause)
		return;
	if (named < 0 && hop)
		named = json_number(&r->waits, hop, "rank", -1);
	r->late = named >= 0 && named < r->ranks ? (int32_t)named : r->late;
	for (const struct json_node *h = facts_first(r, cause, "hops"); h;
	     h = json_next(&r->waits, h)) {
		int64_t from = json_number(&r->waits, h, "from", -1);
		int64_t channel = json_number(&r->waits, h, "channel", -1);

		int64_t own = json_number(&r->waits, h, "rank", -1);

		r->peer = from >= 0 && from < r->ranks && from != own ? (int32_t)from : r->peer;
		r->channel = channel >= 0 && channel <= INT32_MAX ? (int32_t)channel : r->channel;
	}
}

int report_conclude(struct report *r)
{
	r->end_ns = MAX_OF(r->scenario.found.vtime_ns, r->trace.end_ns);
	r->fail_ns = r->scenario.found.vtime_ns ? r->scenario.found.vtime_ns : r->end_ns;
	r->ranks = facts_ranks(r);
	r->rank = calloc((size_t)r->ranks + 1, sizeof *r->rank);
	if (!r->rank) {
		fprintf(stderr, "doppel report: %s\n", strerror(ENOMEM));
		return ENOMEM;
	}
	for (int32_t i = 0; i < r->ranks; i++)
		r->rank[i] = (struct report_rank){.host = -1, .process = ""};
	facts_take_tasks(r);
	facts_guess_hosts(r);
	for (size_t i = 0; i < r->trace.n; i++)
		facts_take_slice(r, &r->trace.slice[i]);
	facts_conclude(r);
	return report_links(r);
}
