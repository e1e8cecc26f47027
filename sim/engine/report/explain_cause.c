/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Explains in a few lines why nothing moves. A hop is one wait of one task: the task, its wait, and
 * the rank that should end the wait. The next hop is that rank's wait that fits best: same channel,
 * same peer, same step. If the waited-on word or queue belongs to an object with a label, the
 * label's rank is the next one: that part of the work is its own. sim_on_explain describes objects
 * of the doubles (completion queues with their queue pairs and links); a stuck object ends the
 * chain. A kernel may wait for a kernel that another rank has not launched. The next hop is then
 * the task that drives that rank. A wait for the other end of a message that the other rank has not
 * called ends the chain.
 *
 * Idle waits, of tasks without work, are no hops. A chain that returns to itself is a cycle if each
 * of its tasks waits for the next one only.
 *
 * Chains start at the waits that users notice: kernels, the lowest step first, then host tasks. The
 * best chain has the firmest end: enum cause_end lists the ends from weak to firm. Among equals a
 * chain that begins at a kernel is best, then the shortest.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/engine/report/report_internal.h"
#include "sim/engine/report/explain.h"

enum { CAUSE_HOPS = 24, CAUSE_STARTS = 48, CAUSE_HOOKS = 4 };

enum cause_end {
	CAUSE_NOWHERE, /* a wait that names no rank */
	CAUSE_ROUND,   /* the chain returns, but one of its tasks waits for others too */
	CAUSE_RUNS,    /* a task that is not waiting */
	CAUSE_CYCLE,
	CAUSE_NO_WORK,   /* the target task does nothing for this channel */
	CAUSE_NO_LAUNCH, /* the rank has not launched the kernel that is waited for */
	CAUSE_NO_CALL,   /* the rank has not called the other end of a message */
	CAUSE_LEFT,      /* the rank has no task that makes calls */
	CAUSE_GONE,      /* no task of that rank is alive */
	CAUSE_STUCK,     /* an object of the doubles is the reason */
};

struct hop {
	const struct sim_task *task;
	int32_t rank;                /* rank that the wait is for: a task may work for several */
	const struct wait *wait;     /* NULL: the task has no wait that fits */
	int32_t unlaunched;          /* rank whose kernel the task has to launch; -1: none */
	struct sim_explained object; /* text "": none */
};

struct cause {
	struct hop hop[CAUSE_HOPS];
	int n, again;     /* again: index of the hop that the last one leads back to */
	int32_t rank;     /* of CAUSE_GONE, CAUSE_LEFT, CAUSE_NO_CALL and CAUSE_NO_LAUNCH */
	const char *call; /* of CAUSE_NO_CALL: "ncclRecv from" */
	enum cause_end end;
};

static bool (*cause_hook[CAUSE_HOOKS])(const struct wait *w, struct sim_explained *out);
static int cause_hooks;

void sim_on_explain(bool (*explain)(const struct wait *w, struct sim_explained *out))
{
	for (int i = 0; i < cause_hooks; i++)
		if (cause_hook[i] == explain)
			return;
	ASSERT(cause_hooks < CAUSE_HOOKS);
	cause_hook[cause_hooks++] = explain;
}

/* ---- following ------------------------------------------------------------------------------ */

/* Returns the channel that a wait is about: the one that it names, or that of the kernel's
 * block. */
static int32_t cause_channel(const struct sim_task *t, const struct wait *w)
{
	if (w && w->from.channel >= 0)
		return w->from.channel;
	return t->kind == SIM_TASK_WARP ? t->block : -1;
}

/* True if the task's name contains the first word of the object ("proxy recv", "kernel
 * that..."). */
static bool cause_names(const struct sim_task *t, const char *object)
{
	char word[16];
	size_t n = object ? strcspn(object, " ") : 0;

	if (!n || n >= sizeof word)
		return false;
	memcpy(word, object, n);
	word[n] = '\0';
	if (!strcmp(word, "kernel"))
		return t->kind == SIM_TASK_WARP;
	return strstr(t->name, object) || strstr(t->name, word);
}

/* The party that should end a wait. */
struct cause_target {
	int32_t rank, channel;
	const char *object;
};

static struct cause_target cause_target_of(const struct hop *at)
{
	const struct sim_task *t = at->task;
	const struct wait *w = at->wait;
	struct cause_target to = {w->from.rank, cause_channel(t, w), w->from.object};
	struct os_label l;

	if (t->kind == SIM_TASK_WARP && to.rank == t->self.rank)
		to.object = "kernel"; /* a barrier */
	if (w->kind == WAIT_OBJECT || !label_get(w->on, &l) || l.rank < 0 || cause_names(t, l.what))
		return to;
	to.rank = l.rank;
	to.object = l.what;
	return to;
}

/* Rates how well wait `v` of task `by` fits as the next hop after `at`; 0: not at all. */
static int cause_score(const struct hop *at, const struct cause_target *to,
		       const struct sim_task *by, const struct wait *v)
{
	const struct wait *w = at->wait;
	int score = 1 + (cause_names(by, to->object) ? 8 : 0);
	int32_t channel = cause_channel(by, v);

	if (v == w || (by->kind == SIM_TASK_WARP && to->object && !strncmp(to->object, "proxy", 5)))
		return 0;
	/* a task without a fitting wait: the proxy task that the wait names, or else the one that
	 * moves data */
	if (!v && by != at->task && to->object && !strncmp(to->object, "proxy ", 6) &&
	    strstr(by->name, to->object))
		return score + 2;
	if (!v)
		return by == at->task ? 0 : score + !!strstr(by->name, "progress");
	score++;
	if (to->channel >= 0 && channel >= 0) {
		if (to->channel != channel)
			return 0;
		score += 16;
	}
	score += v->from.rank >= 0 && (v->from.rank == w->from.rank || v->from.rank == at->rank)
			 ? 2
			 : 0;
	score += v->from.step >= 0 && strcmp(v->why, "barrier") ? 4 : 0;
	score += v->from.step >= 0 && v->from.step == w->from.step ? 3 : 0;
	return score;
}

/* True if the target rank has launched no kernel for the collective that this kernel works on. */
static bool cause_is_unlaunched(const struct sim_task *t, const struct cause_target *to)
{
	if (t->kind != SIM_TASK_WARP || !t->self.work || !to->object ||
	    strncmp(to->object, "kernel", 6) != 0 || to->rank == t->self.rank)
		return false;
	for (const struct sim_task *k = sim_task_first(); k; k = k->next)
		if (explain_alive(k) && k->kind == SIM_TASK_WARP && k->self.rank == to->rank)
			return false;
	return label_most("communicator", to->rank) <= (int64_t)t->self.work_number;
}

/* True if `rank` made more calls `what` than `peer` made calls `other`, the other end, over all
 * communicators. */
static bool cause_is_ahead(const char *what, int32_t rank, const char *other, int32_t peer)
{
	return label_sum(what, rank, peer) > label_sum(other, peer, rank);
}

/* Returns the call that the peer has not made, or NULL. A kernel moves a message in one direction;
 * a task that makes the connection waits for either. */
static const char *cause_missing_call(const struct hop *at)
{
	const char *why = at->wait->why;
	int32_t rank = at->rank, peer = at->wait->from.rank;
	bool connects = at->task->kind == SIM_TASK_HOST && !strncmp(why, "connection: ", 12);

	if (rank < 0 || peer < 0 || rank == peer)
		return NULL;
	if ((connects || !strncmp(why, "send:", 5)) &&
	    cause_is_ahead("messages to", rank, "messages from", peer))
		return "ncclRecv from";
	if ((connects || !strncmp(why, "recv:", 5)) &&
	    cause_is_ahead("messages from", rank, "messages to", peer))
		return "ncclSend to";
	return NULL;
}

/* Returns a hop for the launch of `rank`, which waits for the task that drives it. Its wait is one
 * for a missing call, if there is one, or the first. */
static struct hop cause_at_driver(const struct sim_task *driver, int32_t rank)
{
	struct hop h = {.task = driver, .unlaunched = rank};

	for (int i = 0; i < driver->wait_n; i++) {
		h.rank = explain_rank(driver, i);
		h.wait = driver->wait[i];
		if (cause_missing_call(&h))
			return h;
	}
	h.rank = explain_rank(driver, 0);
	h.wait = driver->wait_n ? driver->wait[0] : NULL;
	return h;
}

/* Moves to the task that drives the rank, if the wait is for its launch. */
static bool cause_next_driver(const struct hop *at, const struct cause_target *to, struct hop *next)
{
	const struct sim_task *driver = explain_driver(to->rank);

	if (!driver || !cause_is_unlaunched(at->task, to))
		return false;
	*next = cause_at_driver(driver, to->rank);
	return true;
}

static bool cause_has_task(int32_t rank)
{
	for (const struct sim_task *t = sim_task_first(); t; t = t->next)
		if (explain_alive(t) && explain_is_for(t, rank))
			return true;
	return false;
}

/* Finds the next hop; false: sets the end of the chain. */
static bool cause_next(struct cause *c, struct hop *next)
{
	const struct hop *at = &c->hop[c->n - 1];
	struct cause_target to = cause_target_of(at);
	bool alive = false;
	int best = 0;

	if (to.rank < 0) {
		c->end = CAUSE_NOWHERE;
		return false;
	}
	c->call = cause_missing_call(at);
	if (c->call) {
		c->rank = at->wait->from.rank;
		c->end = CAUSE_NO_CALL;
		return false;
	}
	if (cause_next_driver(at, &to, next))
		return true;
	c->rank = to.rank;
	if (cause_is_unlaunched(at->task, &to)) {
		c->end = cause_has_task(to.rank) ? CAUSE_LEFT : CAUSE_GONE;
		return false;
	}
	for (const struct sim_task *by = sim_task_first(); by; by = by->next) {
		if (!explain_alive(by) || !explain_is_for(by, to.rank))
			continue;
		alive = true;
		for (int i = -1; i < by->wait_n; i++) {
			const struct wait *v = i < 0 ? NULL : by->wait[i];

			if (v && v->idle)
				continue;
			int score = i < 0 || explain_rank(by, i) == to.rank
					    ? cause_score(at, &to, by, v)
					    : 0;

			if (score > best) {
				best = score;
				*next = (struct hop){
					.task = by, .rank = to.rank, .wait = v, .unlaunched = -1};
			}
		}
	}
	c->end = alive ? CAUSE_NOWHERE : CAUSE_GONE;
	return best > 0;
}

static int cause_seen(const struct cause *c, const struct hop *h)
{
	for (int i = 0; i < c->n; i++)
		if (c->hop[i].task == h->task && c->hop[i].wait == h->wait)
			return i;
	return -1;
}

/* Requests the doubles' description of the object; true: the object is the reason. */
static bool cause_object(struct hop *h)
{
	h->object.text[0] = '\0';
	h->object.stuck = false;
	for (int i = 0; i < cause_hooks; i++)
		if (cause_hook[i](h->wait, &h->object))
			return h->object.stuck;
	return false;
}

/* Returns the wait of a task without work; NULL: the task has work under way. */
static const struct wait *cause_idle(const struct sim_task *t)
{
	for (int i = 0; i < t->wait_n; i++)
		if (!t->wait[i]->idle)
			return NULL;
	return t->wait_n ? t->wait[0] : NULL;
}

/* True if only the next hop can end this wait. A kernel's wait, and a wait for a step of a channel,
 * is for one thing. A task with several waits may continue by any of them. */
static bool cause_is_firm(const struct hop *h)
{
	int n = 0;

	for (int i = 0; i < h->task->wait_n; i++)
		n += !h->task->wait[i]->idle;
	return n == 1 || h->task->kind == SIM_TASK_WARP || h->wait->from.step >= 0;
}

/* Appends the hop; false: the chain ends with it. */
static bool cause_append(struct cause *c, const struct hop *h)
{
	struct hop *at = &c->hop[c->n++];

	*at = *h;
	if (!at->wait) {
		const struct hop *before = c->n > 1 ? at - 1 : NULL;
		bool asleep = at->task->state == SIM_TASK_WAITING && !at->task->poll_why;

		c->end = asleep && before &&
					 (cause_channel(before->task, before->wait) >= 0 ||
					  cause_idle(at->task))
				 ? CAUSE_NO_WORK
				 : CAUSE_RUNS;
		return false;
	}
	if (cause_object(at)) {
		c->end = CAUSE_STUCK;
		return false;
	}
	return c->n < CAUSE_HOPS;
}

/* Handles a proxy without work for a kernel: its rank may not have launched that kernel. True if so
 * and if a task drives that rank. */
static bool cause_end_without_work(struct cause *c)
{
	const struct hop *first = &c->hop[0], *last = &c->hop[c->n - 1];
	const struct cause_target to = {last->rank, -1, "kernel"};
	bool fewer =
		label_most("communicator", last->rank) < label_most("communicator", first->rank);

	if (c->end != CAUSE_NO_WORK || !(fewer || cause_is_unlaunched(first->task, &to)))
		return false;
	c->rank = last->rank;
	c->end = explain_driver(c->rank) ? CAUSE_NO_LAUNCH : CAUSE_LEFT;
	return c->end == CAUSE_NO_LAUNCH;
}

/* Ends a chain that passes a kernel that is not launched at that launch, unless its end is
 * firmer. */
static void cause_end_at_launch(struct cause *c)
{
	for (int i = 0; i < c->n && c->end < CAUSE_NO_LAUNCH && c->end != CAUSE_CYCLE; i++)
		if (c->hop[i].unlaunched >= 0) {
			c->rank = c->hop[i].unlaunched;
			c->end = CAUSE_NO_LAUNCH;
		}
}

/* Follows the chain from the hop to its end. */
static void cause_walk(struct cause *c, struct hop next)
{
	while (cause_append(c, &next) && cause_next(c, &next)) {
		c->again = cause_seen(c, &next);
		if (c->again < 0)
			continue;
		c->end = CAUSE_CYCLE;
		for (int i = c->again; i < c->n; i++)
			if (!cause_is_firm(&c->hop[i]))
				c->end = CAUSE_ROUND;
		break;
	}
	cause_end_at_launch(c);
}

static void cause_follow(struct cause *c, const struct sim_task *t, int wait)
{
	const struct sim_task *driver;

	*c = (struct cause){.again = -1};
	cause_walk(c, (struct hop){.task = t,
				   .rank = explain_rank(t, wait),
				   .wait = t->wait[wait],
				   .unlaunched = -1});
	if (!cause_end_without_work(c) || c->n == CAUSE_HOPS)
		return;
	/* to a launch that waits for a call */
	driver = explain_driver(c->rank);
	const struct hop h = cause_at_driver(driver, c->rank);

	if (h.wait && cause_missing_call(&h))
		cause_walk(c, h);
}

/* ---- choosing ------------------------------------------------------------------------------- */

struct cause_start {
	const struct sim_task *task;
	int wait;
};

/* Orders starts: kernels by step, then all other tasks by age. */
static int64_t cause_rank_of(const struct cause_start *s)
{
	int64_t step = s->task->wait[s->wait]->from.step;

	return s->task->kind == SIM_TASK_WARP && step >= 0 ? step : INT64_MAX;
}

/* Inserts into start[0..n-1], which stays sorted and at most CAUSE_STARTS long; returns n. */
static int cause_start_insert(struct cause_start *start, int n, struct cause_start s)
{
	int at = n;

	while (at > 0 && cause_rank_of(&start[at - 1]) > cause_rank_of(&s))
		at--;
	if (at == CAUSE_STARTS)
		return n;
	n = MIN_OF(n + 1, CAUSE_STARTS);
	memmove(&start[at + 1], &start[at], (size_t)(n - 1 - at) * sizeof *start);
	start[at] = s;
	return n;
}

static bool cause_starts_at_kernel(const struct cause *c)
{
	return c->hop[0].task->kind == SIM_TASK_WARP;
}

static bool cause_better(const struct cause *a, const struct cause *b)
{
	if (!b->n || a->end != b->end)
		return !b->n || a->end > b->end;
	if (cause_starts_at_kernel(a) != cause_starts_at_kernel(b))
		return cause_starts_at_kernel(a);
	return a->n < b->n;
}

/* Finds the best chain; false: no task waits for another. The caller frees *best. */
static bool cause_find(struct cause **best)
{
	struct cause_start start[CAUSE_STARTS];
	struct cause *c = calloc(2, sizeof *c);
	int n = 0;

	if (!c)
		return false;
	for (const struct sim_task *t = sim_task_first(); t; t = t->next)
		for (int i = 0; explain_alive(t) && i < t->wait_n; i++)
			if (t->wait[i]->from.rank >= 0 && t->wait[i]->from.step >= 0 &&
			    !t->wait[i]->idle && strcmp(t->wait[i]->why, "barrier"))
				n = cause_start_insert(start, n, (struct cause_start){t, i});
	for (const struct sim_task *t = n ? NULL : sim_task_first(); t; t = t->next)
		for (int i = 0; explain_alive(t) && i < t->wait_n; i++)
			if (t->wait[i]->from.rank >= 0 && t->wait[i]->from.step < 0 &&
			    !t->wait[i]->idle) {
				n = cause_start_insert(start, n, (struct cause_start){t, i});
				break;
			}
	for (int i = 0; i < n; i++) {
		cause_follow(&c[1], start[i].task, start[i].wait);
		if (cause_better(&c[1], &c[0]))
			c[0] = c[1];
	}
	*best = c;
	if (c->n)
		return true;
	free(c);
	return false;
}

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
	fprintf(out, "{\"task\":%u,\"rank\":%d,\"channel\":%d,\"step\":%" PRId64 ",\"why\":",
		h->task->self.id, h->rank, cause_channel(h->task, h->wait),
		h->wait ? h->wait->from.step : -1);
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
	fprintf(out, "\"cause\":{\"end\":\"%s\",\"hops\":[", end[c->end]);
	for (int i = 0; i < c->n; i++) {
		if (i)
			fputc(',', out);
		cause_json_hop(out, &c->hop[i]);
	}
	fprintf(out, "]}");
	free(c);
}
