/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers about ranks, calls, channels, peers and queue pairs. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/macros.h"
#include "sim/cli/report/report.h"

/* ---- which rank, which call ----------------------------------------------------------------- */

static void glance_rank_name(const struct report *r, int32_t rank, FILE *out)
{
	fprintf(out, "rank %d", rank);
	if (rank >= 0 && rank < r->ranks && r->rank[rank].process[0])
		fprintf(out, " (%s)", r->rank[rank].process);
}

static void glance_calls(const struct report *r, FILE *out)
{
	uint32_t most = 0, least = UINT32_MAX;

	for (int32_t i = 0; i < r->ranks; i++) {
		most = MAX_OF(most, r->rank[i].calls);
		least = MIN_OF(least, r->rank[i].calls);
	}
	if (!r->has_trace || !r->ranks)
		fputs("The calls of the ranks are not recorded.", out);
	else if (most == least)
		fprintf(out, "All %d ranks have begun %u calls of NCCL.", r->ranks, most);
	else
		fprintf(out, "The ranks have begun between %u and %u calls of NCCL.", least, most);
}

static void glance_late(const struct report *r, FILE *out)
{
	const struct sim_failure *f = &r->scenario.found;
	const char *summary = json_text(&r->waits, report_cause(r), "summary", "");

	if (r->late >= 0 && report_is_hang(r) && summary[0]) {
		glance_rank_name(r, r->late, out);
		fprintf(out, ", where the chain of waits ends: %s. ", summary);
	} else if (r->late >= 0 && r->has_trace) {
		glance_rank_name(r, r->late, out);
		fprintf(out, " has begun the fewest calls: %u. ", r->rank[r->late].calls);
	} else {
		fputs("No rank is late. ", out);
	}
	if (!report_is_hang(r) && f->rank >= 0) {
		fputs("The failure is that of ", out);
		glance_rank_name(r, f->rank, out);
		fputs(". ", out);
	}
	glance_calls(r, out);
}

/* Returns the rank whose call matters; -1: none. */
static int32_t glance_rank(const struct report *r)
{
	const struct sim_failure *f = &r->scenario.found;
	int32_t rank = report_is_hang(r) || f->rank < 0 ? r->late : f->rank;

	for (int32_t i = 0; i < r->ranks && rank < 0; i++)
		rank = r->rank[i].call && r->rank[i].call->open ? i : -1;
	for (int32_t i = 0; i < r->ranks && rank < 0; i++)
		rank = r->rank[i].call ? i : -1;
	return rank < r->ranks ? rank : -1;
}

static void glance_kernel(const struct report_slice *kernel, FILE *out)
{
	char at[32];

	if (!kernel)
		return;
	sim_format_ns(at, kernel->at_ns);
	fprintf(out, " Its latest kernel %s began at %s and has %s.", kernel->name, at,
		kernel->open ? "not ended" : "ended");
}

static void glance_call(const struct report *r, FILE *out)
{
	int32_t rank = glance_rank(r);

	if (rank < 0) {
		fputs("No call is recorded.", out);
		return;
	}
	const struct report_rank *of = &r->rank[rank];
	if (!of->call)
		fprintf(out, "No call of rank %d is recorded.", rank);
	else
		report_print_slice(r, of->call, out);
	if (of->call)
		fprintf(out, "; it has %s.", of->call->open ? "not returned" : "returned");
	if (of->plan)
		fprintf(out, " The plan: %s.", of->plan->details);
	glance_kernel(of->kernel, out);
}

/* ---- which channel, which peer -------------------------------------------------------------- */

static void glance_channel(const struct report *r, FILE *out)
{
	const struct report_slice *plan = NULL;

	if (r->channel >= 0) {
		fprintf(out, "Channel %d", r->channel);
		if (report_last_hop(r) && r->peer >= 0)
			fprintf(out, ", from rank %d", r->peer);
		fputs(".", out);
		return;
	}
	for (int32_t i = 0; i < r->ranks; i++)
		if (r->rank[i].plan && (!plan || r->rank[i].plan->at_ns > plan->at_ns))
			plan = r->rank[i].plan;
	fputs("No wait names a channel. ", out);
	if (plan)
		fprintf(out, "The last planned call uses %" PRId64 " channels (%s).",
			report_detail(plan, "channels", 0), plan->details);
	else
		fputs("No call was planned before the run ended.", out);
}

/* Prints deaths of processes and tasks that the trace has. */
static void glance_deaths(const struct report *r, FILE *out)
{
	int deaths = 0;

	for (size_t i = 0; i < r->trace.n; i++) {
		const struct report_slice *s = &r->trace.slice[i];

		if (strcmp(s->name, "proc.kill") != 0 &&
		    (strcmp(s->name, "proc.exit") != 0 || report_detail(s, "failed", 0) == 0))
			continue;
		if (deaths++ < 4) {
			report_print_slice(r, s, out);
			fputs(". ", out);
		}
	}
	if (!deaths && r->has_trace)
		fputs("No process was killed or has failed.", out);
	if (deaths > 4)
		fprintf(out, "%d processes have died.", deaths);
}

static void glance_peer(const struct report *r, FILE *out)
{
	int32_t dead = 0;

	if (r->peer >= 0) {
		const struct report_rank *peer = &r->rank[r->peer];

		fputs(peer->tasks ? "Yes: " : "No: ", out);
		glance_rank_name(r, r->peer, out);
		fprintf(out, " has %u tasks alive. ", peer->tasks);
	} else if (r->waits.n) {
		for (int32_t i = 0; i < r->ranks; i++)
			dead += !r->rank[i].tasks;
		fprintf(out, "At the end %d of %d ranks have tasks alive. ", r->ranks - dead,
			r->ranks);
	}
	glance_deaths(r, out);
}

/* ---- queue pairs ---------------------------------------------------------------------------- */

/* Returns the lines after a heading of explain.txt that are indented; NULL: none. */
static const char *glance_section(const struct report *r, const char *heading, size_t *bytes)
{
	const char *at = r->explain ? strstr(r->explain, heading) : NULL;

	if (!at)
		return NULL;
	at += strlen(heading);
	const char *end = at;
	while (end[0] == '\n' && end[1] == ' ')
		end += 1 + strcspn(end + 1, "\n");
	*bytes = (size_t)(end - at);
	return *bytes ? at : NULL;
}

/* Counts the queue pairs by the last state that the trace has of them. */
static void glance_qps_by_state(const struct report *r, FILE *out)
{
	static const char *const state[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
	uint32_t n[ARRAY_LEN(state)] = {0}, made = 0;
	bool first = true;

	for (size_t i = 0; i < r->trace.n; i++) {
		const struct report_slice *s = &r->trace.slice[i];
		int64_t from = report_detail(s, "from", -1), to = report_detail(s, "to", -1);

		made += !strcmp(s->name, "qp.create");
		if (strcmp(s->name, "qp.state") != 0 || from < 0 || to < 0 ||
		    from >= (int64_t)ARRAY_LEN(state) || to >= (int64_t)ARRAY_LEN(state))
			continue;
		n[from] -= n[from] > 0;
		n[to]++;
	}
	if (!made)
		fputs(r->has_trace ? "The run made no queue pair." : "It is not recorded.", out);
	for (size_t i = 0; i < ARRAY_LEN(state) && made; i++) {
		if (!n[i])
			continue;
		fprintf(out, "%s%u in %s", first ? "By the trace: " : ", ", n[i], state[i]);
		first = false;
	}
	if (made)
		fprintf(out, "%s%u were made.", first ? "" : "; ", made);
}

static void glance_qp(const struct report *r, FILE *out)
{
	size_t bytes;
	const char *text = glance_section(r, "\nqueue pairs that are not idle:", &bytes);
	const char *object = json_text(&r->waits, report_last_hop(r), "object", "");

	if (report_is_hang(r) && strstr(object, " qp "))
		fprintf(out, "%s.\n", object);
	if (text)
		fprintf(out, "Queue pairs that are not idle:%.*s\n",
			(int)MIN_OF(bytes, (size_t)2000), text);
	else
		fputs("No queue pair has work under way. ", out);
	glance_qps_by_state(r, out);
}

/* ---- the table ------------------------------------------------------------------------------ */

const struct report_question report_questions[] = {
	{"late", "Which rank is late?", glance_late},
	{"call", "In which call?", glance_call},
	{"channel", "On which channel?", glance_channel},
	{"peer", "Is the peer alive?", glance_peer},
	{"qp", "What is the queue pair's state?", glance_qp},
	{"fault", "When did the first fault act?", report_answer_fault},
	{"link", "Which link is slow?", report_answer_link},
	{"hang", "Is it a deadlock, or is it slow?", report_answer_hang},
	{"progress", "What was the last progress?", report_answer_progress},
	{"gdb", "How do I get to gdb at that moment?", report_answer_gdb},
};
const size_t report_questions_n = ARRAY_LEN(report_questions);

char *report_answer(const struct report *r, const struct report_question *q)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *f = open_memstream(&text, &bytes);

	if (!f)
		return NULL;
	q->answer(r, f);
	fclose(f);
	return text;
}
