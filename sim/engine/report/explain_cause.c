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

#include "sim/engine/report/explain_cause.h"
#include "sim/engine/report/report_internal.h"

enum { CAUSE_STARTS = 48, CAUSE_HOOKS = 4 };

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
int32_t cause_channel(const struct sim_task *t, const struct wait *w)
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

bool cause_is_ahead(const char *what, int32_t rank, const char *other, int32_t peer)
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

const struct wait *cause_idle(const struct sim_task *t)
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

bool cause_find(struct cause **best)
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
