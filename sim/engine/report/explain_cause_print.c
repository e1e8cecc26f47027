/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints the chain of waits that explains why nothing moves (explain_cause.h). */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/engine/report/explain_cause.h"
#include "sim/engine/report/report_internal.h"

/* ---- for people ----------------------------------------------------------------------------- */

static void cause_print_task(FILE *out, const struct hop *h)
{
	const struct sim_task *t = h->task;
	int32_t channel = cause_channel(t, h->wait);

	if (t->kind == SIM_TASK_WARP)
		fprintf(out, "rank %d kernel %d", h->rank, t->kernel);
	else if (h->rank >= 0 && !strncmp(t->name, "rank", 4) && strchr(t->name, ' '))
		fprintf(out, "rank %d%s", h->rank, strchr(t->name, ' '));
	else
		fprintf(out, "%s", t->name);
	if (channel >= 0)
		fprintf(out, " channel %d", channel);
	if (h->wait && h->wait->from.step >= 0)
		fprintf(out, " step %" PRId64, h->wait->from.step);
}

static void cause_print_wait(FILE *out, const struct wait *w)
{
	struct os_label l;

	fprintf(out, " waits for \"%s\"", w->why ? w->why : "?");
	if (label_get(w->on, &l)) {
		fprintf(out, " at ");
		explain_label(out, w->on);
	}
	if (w->kind != WAIT_OBJECT) {
		fprintf(out, ": ");
		explain_value(out, w);
	}
	if (w->from.rank >= 0)
		fprintf(out, ", from rank %d", w->from.rank);
}

/* Prints what the task waits for instead of doing its part. */
static void cause_print_busy(FILE *out, const struct sim_task *t)
{
	fprintf(out, " task %u \"%s\", which", t->self.id, t->name);
	if (t->wait_n)
		cause_print_wait(out, t->wait[0]);
	else if (t->poll_why)
		fprintf(out, " polls \"%s\"", t->poll_why);
	else
		fprintf(out, " is not waiting");
}

/* Prints a line if each of the two ranks waits for the same call of the other: "rank 0 and rank 1
 * both send; neither has called ncclRecv". */
static bool cause_print_both(FILE *out, const struct cause *c)
{
	int32_t rank = c->hop[c->n - 1].rank;
	bool send = !strncmp(c->call, "ncclRecv", 8);
	const char *done = send ? "messages to" : "messages from";
	const char *missing = send ? "messages from" : "messages to";

	if (!cause_is_ahead(done, c->rank, missing, rank))
		return false;
	fprintf(out, "rank %d and rank %d both %s; neither has called %.8s", MIN_OF(rank, c->rank),
		MAX_OF(rank, c->rank), send ? "send" : "receive", c->call);
	return true;
}

/* Prints "rank 1 has not called ncclRecv from rank 0; its calls come from task 5 "main", which
 * waits for...". */
static void cause_print_no_call(FILE *out, const struct cause *c)
{
	const struct sim_task *driver = explain_driver(c->rank);

	fprintf(out, "  <- ");
	bool both = cause_print_both(out, c);

	if (!both)
		fprintf(out, "rank %d has not called %s rank %d", c->rank, c->call,
			c->hop[c->n - 1].rank);
	if (driver && !both) {
		fprintf(out, "; its calls come from");
		cause_print_busy(out, driver);
	}
	fputc('\n', out);
}

static void cause_print_end(FILE *out, const struct cause *c)
{
	const struct hop *last = &c->hop[c->n - 1];

	switch (c->end) {
	case CAUSE_STUCK:
		break; /* the object's line shows it */
	case CAUSE_NO_CALL:
		cause_print_no_call(out, c);
		break;
	case CAUSE_LEFT:
		fprintf(out, "  <- rank %d has left: no task of it makes calls\n", c->rank);
		break;
	case CAUSE_GONE:
		fprintf(out, "  <- rank %d is gone: no task of it is alive\n", c->rank);
		break;
	case CAUSE_CYCLE:
		fprintf(out, "  <- ");
		cause_print_task(out, &c->hop[c->again]);
		fprintf(out, ", as above: a cycle\n");
		break;
	case CAUSE_ROUND:
		fprintf(out, "  <- ");
		cause_print_task(out, &c->hop[c->again]);
		fprintf(out, ", as above; another of the waits on the way may end first\n");
		break;
	case CAUSE_NO_WORK:
	case CAUSE_NO_LAUNCH:
	case CAUSE_RUNS:
		break; /* the hop's line shows it */
	case CAUSE_NOWHERE:
		if (last->wait)
			fprintf(out, "  <- this wait names no rank that could end it\n");
		break;
	}
}

/* Prints "rank 1: kernel not launched yet: queued after task 5 "main", which waits for...". */
static void cause_print_unlaunched(FILE *out, const struct hop *h)
{
	fprintf(out, "  <- rank %d: kernel not launched yet: queued after", h->unlaunched);
	cause_print_busy(out, h->task);
	fputc('\n', out);
}

static void cause_print_hop(FILE *out, const struct cause *c, int i)
{
	const struct hop *h = &c->hop[i], *before = i ? h - 1 : NULL;

	if (h->unlaunched >= 0) {
		cause_print_unlaunched(out, h);
		return;
	}

	fprintf(out, "  %s", i ? "<- " : "");
	if (h->task->self.work && i == 0)
		fprintf(out, "%s #%" PRIu64 ": ", h->task->self.work, h->task->self.work_number);
	cause_print_task(out, h);
	if (h->wait)
		cause_print_wait(out, h->wait);
	else if (cause_idle(h->task))
		fprintf(out, " has nothing to do: it waits for \"%s\"", cause_idle(h->task)->why);
	else if (c->end != CAUSE_NO_WORK)
		fprintf(out, h->task->poll_why ? " polls \"%s\"" : " waits for no other task",
			h->task->poll_why);
	else
		fprintf(out,
			" has nothing under way for channel %d: the operation was never handed "
			"to it, or it lost it",
			before ? cause_channel(before->task, before->wait) : -1);
	fputc('\n', out);
	if (h->object.text[0])
		fprintf(out, "  <- %s\n", h->object.text);
}

/* ---- in one line ---------------------------------------------------------------------------- */

static void cause_print_rank(FILE *out, int32_t rank)
{
	const struct sim_task *t = explain_driver(rank);

	fprintf(out, "rank %d", rank);
	for (const struct sim_task *k = t ? NULL : sim_task_first(); k && !t; k = k->next)
		t = k->self.rank == rank ? k : NULL;
	if (t && t->self.proc && t->self.proc->name)
		fprintf(out, " (%s)", t->self.proc->name);
}

/* Prints the task that makes the rank's calls, and its current state. */
static void cause_print_calls(FILE *out, int32_t rank)
{
	const struct sim_task *driver = explain_driver(rank);

	if (!driver)
		return;
	fprintf(out, "; its task \"%s\"", driver->name);
	if (driver->self.refused)
		fprintf(out, ", whose latest call returned \"%s\",", driver->self.refused);
	if (driver->wait_n)
		fprintf(out, " waits for \"%s\"", driver->wait[0]->why);
	else if (driver->poll_why)
		fprintf(out, " polls \"%s\"", driver->poll_why);
	else
		fprintf(out, " is %s",
			driver->state == SIM_TASK_SLEEPING ? "asleep" : "not waiting");
}

static void cause_print_ranks(FILE *out, const struct cause *c)
{
	uint64_t seen = 0;

	for (int i = c->again; i < c->n; i++) {
		int32_t rank = c->hop[i].rank;

		if (rank < 0 || rank > 63 || seen & 1ull << rank)
			continue;
		fprintf(out, "%s%d", seen ? ", " : "ranks that wait for one another: ", rank);
		seen |= 1ull << rank;
	}
}

static void cause_print_reason(FILE *out, const struct cause *c)
{
	const struct hop *first = &c->hop[0], *last = &c->hop[c->n - 1];

	switch (c->end) {
	case CAUSE_STUCK:
		fprintf(out, "%s", last->object.text);
		return;
	case CAUSE_GONE:
		cause_print_rank(out, c->rank);
		fprintf(out, " is gone: no task of it is alive");
		return;
	case CAUSE_LEFT:
		cause_print_rank(out, c->rank);
		fprintf(out, " has left: no task of it makes calls");
		return;
	case CAUSE_NO_CALL:
		if (cause_print_both(out, c))
			return;
		cause_print_rank(out, c->rank);
		fprintf(out, " has not called %s rank %d", c->call, last->rank);
		cause_print_calls(out, c->rank);
		return;
	case CAUSE_NO_LAUNCH:
		cause_print_rank(out, c->rank);
		if (first->task->self.work)
			fprintf(out, " has not launched %s #%" PRIu64, first->task->self.work,
				first->task->self.work_number);
		else
			fprintf(out, " has not launched operation #%" PRId64,
				label_most("communicator", c->rank));
		cause_print_calls(out, c->rank);
		return;
	case CAUSE_CYCLE:
		cause_print_ranks(out, c);
		return;
	case CAUSE_NO_WORK:
		fprintf(out, "task \"%s\" has nothing under way for it", last->task->name);
		return;
	case CAUSE_RUNS:
	case CAUSE_ROUND:
	case CAUSE_NOWHERE:
		break;
	}
	fprintf(out, "task \"%s\" ", last->task->name);
	if (last->wait)
		fprintf(out, "waits for \"%s\"", last->wait->why);
	else if (last->task->poll_why)
		fprintf(out, "polls \"%s\"", last->task->poll_why);
	else
		fprintf(out, "waits for no other task");
}

static void cause_print_summary(FILE *out, const struct cause *c)
{
	const struct hop *h = &c->hop[0];

	cause_print_rank(out, h->rank);
	fprintf(out, " waits for \"%s\" from rank %d, because ", h->wait->why, h->wait->from.rank);
	cause_print_reason(out, c);
	fputc('\n', out);
}

void explain_cause(FILE *out)
{
	struct cause *c;

	if (!cause_find(&c))
		return;
	cause_print_summary(out, c);
	fprintf(out, "why nothing moves, the innermost cause last:\n");
	for (int i = 0; i < c->n; i++)
		cause_print_hop(out, c, i);
	cause_print_end(out, c);
	free(c);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void cause_json_hop(FILE *out, const struct hop *h)
{
	fprintf(out,
		"{\"task\":%u,\"rank\":%d,\"from\":%d,\"channel\":%d,\"step\":%" PRId64 ",\"why\":",
		h->task->self.id, h->rank, h->wait ? h->wait->from.rank : -1,
		cause_channel(h->task, h->wait), h->wait ? h->wait->from.step : -1);
	explain_json_string(out, h->wait ? h->wait->why : NULL);
	fprintf(out, ",\"unlaunched_rank\":");
	if (h->unlaunched >= 0)
		fprintf(out, "%d", h->unlaunched);
	else
		fputs("null", out);
	fprintf(out, ",\"object\":");
	explain_json_string(out, h->object.text[0] ? h->object.text : NULL);
	fputc('}', out);
}

static bool cause_has_rank(const struct cause *c)
{
	return c->end == CAUSE_GONE || c->end == CAUSE_LEFT || c->end == CAUSE_NO_CALL ||
	       c->end == CAUSE_NO_LAUNCH;
}

static void cause_json_summary(FILE *out, const struct cause *c)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *f = open_memstream(&text, &bytes);

	if (!f) {
		fputs("null", out);
		return;
	}
	cause_print_summary(f, c);
	fclose(f);
	if (bytes)
		text[strcspn(text, "\n")] = '\0';
	explain_json_string(out, bytes ? text : NULL);
	free(text);
}

void explain_cause_json(FILE *out)
{
	static const char *const end[] = {
		[CAUSE_NOWHERE] = "no rank named", [CAUSE_RUNS] = "runs",
		[CAUSE_CYCLE] = "cycle",           [CAUSE_NO_WORK] = "no operation",
		[CAUSE_GONE] = "rank gone",        [CAUSE_STUCK] = "object",
		[CAUSE_NO_CALL] = "not called",    [CAUSE_NO_LAUNCH] = "not launched",
		[CAUSE_LEFT] = "rank left",        [CAUSE_ROUND] = "comes round",
	};
	struct cause *c;

	if (!cause_find(&c)) {
		fprintf(out, "\"cause\":null");
		return;
	}
	fprintf(out, "\"cause\":{\"end\":\"%s\",\"rank\":%d,\"again\":%d,\"summary\":", end[c->end],
		cause_has_rank(c) ? c->rank : -1,
		c->end == CAUSE_CYCLE || c->end == CAUSE_ROUND ? c->again : -1);
	cause_json_summary(out, c);
	fputs(",\"hops\":[", out);
	for (int i = 0; i < c->n; i++) {
		if (i)
			fputc(',', out);
		cause_json_hop(out, &c->hop[i]);
	}
	fprintf(out, "]}");
	free(c);
}
