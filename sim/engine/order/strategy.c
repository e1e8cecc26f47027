/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Strategies: which task runs next, when a task is preempted, how long things take. Every draw is a
 * recorded choice (choice.c), so a replay needs no strategy.
 *
 *   fifo     first come, first served; preempts only by debt; latencies exact; draws nothing
 *   uniform  any ready task; preempted after a drawn number of points
 *   pct      random priorities, and a few change points at which the running task is demoted and
 *            put to sleep (Burckhardt et al., "A Randomized Scheduler with Probabilistic
 *            Guarantees of Finding Bugs")
 *   starve   a quarter of the tasks may be put to sleep for long: powers of two from 1 us to 4 ms,
 *            each twice as rare (after rr's chaos mode)
 *   jitter   as uniform, few preemptions, but latencies of 1x to 16x and many short sleeps
 *
 * portfolio draws from the seed: one of the last four, a rate of preemption (one point in 4 to
 * 1,024), and whether latencies vary. Time stands still while a task is ready. To starve a task is
 * therefore to put it to sleep, not to pass it over.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/engine/order/order_internal.h"

static struct {
	struct choice_site *pick, *preempt, *event, *tie, *factor, *sleep, *prio, *spurious;
	uint32_t preempt_mean; /* points */
	uint32_t factor_mode;  /* 0: exact, 1: 1x to 4x, 2: 1x to 16x */
	uint32_t spurious_den; /* 0: never; otherwise one in that many */
	bool memory;           /* the drawn knob: memory-order adversary */
	uint32_t changes_left; /* pct: number of change points not yet used */
	uint64_t demoted;      /* pct: next priority, below all drawn ones */
	struct task **ready;   /* array from 1; under pct a heap */
	uint32_t ready_n, ready_cap;
	struct task *first, *last; /* fifo: a list */
	const struct task *last_run;
} strat;

enum { PCT_DEMOTED_MAX = 1 << 20, PREEMPT_QUIET = 1 << 16, LAST_AMONG = 8 };
DOPPEL_STATIC_CHECK((uint64_t)PCT_DEMOTED_MAX < 1ull << 32,
		    "a demoted task is below each that was not (strategy_task)");

/* Draws the number of points until the next preemption. Quiet: PREEMPT_QUIET, a long time. */
static int64_t strategy_countdown(void)
{
	uint32_t n = 2 * strat.preempt_mean, draw = choice_draw_quiet(strat.preempt, n, n);

	return draw == n ? PREEMPT_QUIET : 1 + (int64_t)draw;
}

bool strategy_exploring(void)
{
	return eng.strategy != STRATEGY_FIFO;
}

bool strategy_memory(void)
{
	return strat.memory;
}

/* ---- start ---------------------------------------------------------------------------------- */

static void strategy_draw_kind(void)
{
	static const uint8_t one_of[8] = {STRATEGY_UNIFORM, STRATEGY_UNIFORM, STRATEGY_UNIFORM,
					  STRATEGY_PCT,     STRATEGY_PCT,     STRATEGY_STARVE,
					  STRATEGY_STARVE,  STRATEGY_JITTER};
	struct sim_rng rng;

	eng.strategy_drawn = eng.config.strategy == SIM_PORTFOLIO;
	switch (eng.config.strategy) {
	case SIM_UNIFORM:
		eng.strategy = STRATEGY_UNIFORM;
		break;
	case SIM_PCT:
		eng.strategy = STRATEGY_PCT;
		break;
	case SIM_STARVE:
		eng.strategy = STRATEGY_STARVE;
		break;
	case SIM_FIFO:
		eng.strategy = STRATEGY_FIFO;
		break;
	case SIM_PORTFOLIO:
		eng.strategy = STRATEGY_UNIFORM; /* not fifo: its streams ignore the seed */
		sim_rng_init(&rng, "engine.portfolio");
		eng.strategy = one_of[sim_rng_below(&rng, 8)];
		break;
	}
}

static void strategy_draw_knobs(void)
{
	struct sim_rng rng, memory;

	sim_rng_init(&rng, "engine.knobs");
	strat.preempt_mean = 4u << (sim_rng_below(&rng, 5) * 2);
	strat.factor_mode = sim_rng_below(&rng, 4) != 0;
	strat.spurious_den = (uint32_t[]){0, 16, 4, 64}[sim_rng_below(&rng, 4)];
	/* a stream of its own, which shifts no other knob */
	sim_rng_init(&memory, "engine.memory_order");
	strat.memory = sim_rng_below(&memory, 2) != 0;
	strat.changes_left = 0;
	strat.demoted = PCT_DEMOTED_MAX;
	eng.countdown = INT64_MAX;
	switch (eng.strategy) {
	case STRATEGY_FIFO:
		strat.memory = false;
		strat.factor_mode = 0;
		strat.spurious_den = 0;
		return;
	case STRATEGY_PCT:
		strat.changes_left = 1 + (uint32_t)sim_rng_below(&rng, 3);
		strat.preempt_mean = 16u << sim_rng_below(&rng, 12);
		break;
	case STRATEGY_JITTER:
		strat.preempt_mean = MAX_OF(strat.preempt_mean, 256u);
		strat.factor_mode = 2;
		break;
	default:
		break;
	}
	eng.countdown = strategy_countdown();
}

void strategy_start(void)
{
	struct task **keep = strat.ready;
	uint32_t cap = strat.ready_cap;

	memset(&strat, 0, sizeof strat);
	strat.ready = keep;
	strat.ready_cap = cap;
	strategy_draw_kind(); /* before any site: their streams depend on it */
	strat.pick = choice_site_get("engine.run");
	strat.preempt = choice_site_get("engine.preempt");
	strat.event = choice_site_get("engine.event");
	strat.tie = choice_site_get("engine.tie");
	strat.factor = choice_site_get("engine.factor");
	strat.sleep = choice_site_get("engine.sleep");
	strat.prio = choice_site_get("engine.prio");
	strat.spurious = choice_site_get("engine.spurious");
	strategy_draw_knobs();
}

void strategy_stop(void)
{
	free(strat.ready);
	memset(&strat, 0, sizeof strat);
}

void strategy_task(struct task *t)
{
	if (eng.strategy == STRATEGY_PCT)
		t->prio = (uint64_t)(1 + choice_draw(strat.prio, 1 << 16)) << 32 |
			  (UINT32_MAX - t->pub.self.id);
	else if (eng.strategy == STRATEGY_STARVE)
		t->starvable = choice_draw_quiet(strat.prio, 4, 1) == 0;
}

/* ---- the ready set -------------------------------------------------------------------------- */

uint32_t ready_count(void)
{
	return strat.ready_n;
}

static void fifo_add(struct task *t)
{
	t->ready_next = NULL;
	t->ready_prev = strat.last;
	if (strat.last)
		strat.last->ready_next = t;
	else
		strat.first = t;
	strat.last = t;
}

static void fifo_remove(struct task *t)
{
	if (t->ready_prev)
		t->ready_prev->ready_next = t->ready_next;
	else
		strat.first = t->ready_next;
	if (t->ready_next)
		t->ready_next->ready_prev = t->ready_prev;
	else
		strat.last = t->ready_prev;
}

static void ready_put(uint32_t at, struct task *t)
{
	strat.ready[at] = t;
	t->ready_at = at;
}

/* pct: restores the heap, with the greatest priority at the root. */
static void ready_sift(uint32_t at, struct task *t)
{
	while (at > 1 && strat.ready[at / 2]->prio < t->prio) {
		ready_put(at, strat.ready[at / 2]);
		at /= 2;
	}
	for (;;) {
		uint32_t child = 2 * at;

		if (child > strat.ready_n)
			break;
		if (child < strat.ready_n &&
		    strat.ready[child + 1]->prio > strat.ready[child]->prio)
			child++;
		if (strat.ready[child]->prio < t->prio)
			break;
		ready_put(at, strat.ready[child]);
		at = child;
	}
	ready_put(at, t);
}

void ready_add(struct task *t)
{
	ASSERT(t->ready_at == 0);
	strat.ready_n++;
	if (eng.strategy == STRATEGY_FIFO) {
		t->ready_at = 1;
		fifo_add(t);
		return;
	}
	if (strat.ready_n + 1 > strat.ready_cap) {
		strat.ready_cap = strat.ready_cap ? 2 * strat.ready_cap : 64;
		strat.ready = realloc(strat.ready, strat.ready_cap * sizeof(struct task *));
		ASSERT(strat.ready);
	}
	if (eng.strategy != STRATEGY_PCT) {
		ready_put(strat.ready_n, t);
		return;
	}
	ready_sift(strat.ready_n, t);
	/* a task of higher priority became ready: the running one stops at its next point */
	if (eng.current && eng.current != t && eng.current->prio < t->prio)
		eng.pct_preempt = true;
}

void ready_remove(struct task *t)
{
	ASSERT(t->ready_at > 0 && strat.ready_n > 0);
	uint32_t at = t->ready_at;

	t->ready_at = 0;
	if (eng.strategy == STRATEGY_FIFO) {
		strat.ready_n--;
		fifo_remove(t);
		return;
	}
	struct task *last = strat.ready[strat.ready_n--];
	if (last == t)
		return;
	if (eng.strategy == STRATEGY_PCT)
		ready_sift(at, last);
	else
		ready_put(at, last);
}

/* Returns the quiet choice: the task that ran last continues, if it was only preempted. last_run is
 * compared and never dereferenced, because that task may have ended. */
static uint32_t ready_last(void)
{
	for (uint32_t i = 0; i < LAST_AMONG && i < strat.ready_n; i++)
		if (strat.ready[strat.ready_n - i] == strat.last_run)
			return strat.ready_n - i - 1;
	return 0;
}

static struct task *ready_choose(void)
{
	uint32_t quiet = ready_last(), value = choice_draw_quiet(strat.pick, strat.ready_n, quiet);
	struct task *t = strat.ready[1 + value];

	ASSERT(quiet < strat.ready_n && value < strat.ready_n);
	if (value != quiet)
		choice_log_tasks((int32_t)t->pub.self.id,
				 (int32_t)strat.ready[1 + quiet]->pub.self.id);
	return t;
}

struct task *ready_pick(bool event_due)
{
	struct task *t;

	if (event_due) {
		if (!strat.ready_n || eng.strategy == STRATEGY_FIFO)
			return NULL;
		if (choice_draw(strat.event, 2) == 0)
			return NULL;
	}
	ASSERT(strat.ready_n > 0);
	if (eng.strategy == STRATEGY_FIFO)
		t = strat.first;
	else if (eng.strategy == STRATEGY_PCT)
		t = strat.ready[1];
	else
		t = ready_choose();
	strat.last_run = t;
	ready_remove(t);
	return t;
}

/* ---- points --------------------------------------------------------------------------------- */

/* Draws a power of two from 1 us on, each half as probable as the previous one. Quiet: 0, no
 * sleep. */
static uint64_t strategy_sleep_ns(uint32_t max_power)
{
	uint32_t draw = choice_draw_quiet(strat.sleep, 1u << max_power, 1u << max_power);

	if (draw == 1u << max_power)
		return 0;
	uint32_t power = draw ? max_power - 1 - (31 - (uint32_t)__builtin_clz(draw)) : max_power;

	ASSERT(power <= max_power);
	return 1000ull << power;
}

static uint64_t strategy_point_pct(struct task *t)
{
	if (!strat.changes_left) {
		eng.countdown = INT64_MAX;
		return 0;
	}
	strat.changes_left--;
	if (strat.changes_left)
		eng.countdown = strategy_countdown();
	else
		eng.countdown = INT64_MAX;
	t->prio = --strat.demoted;
	return strategy_sleep_ns(12);
}

uint64_t strategy_point(struct task *t, bool *yield)
{
	uint64_t ns = 0;

	ASSERT(t == eng.current);
	*yield = true;
	if (eng.strategy == STRATEGY_FIFO) {
		eng.countdown = INT64_MAX;
		*yield = false;
		return 0;
	}
	if (eng.strategy == STRATEGY_PCT)
		return strategy_point_pct(t);
	eng.countdown = strategy_countdown();
	if (eng.strategy == STRATEGY_STARVE) {
		if (t->starvable)
			ns = strategy_sleep_ns(12);
	} else if (eng.strategy == STRATEGY_JITTER) {
		if (choice_draw(strat.sleep, 2))
			ns = strategy_sleep_ns(4);
	}
	return ns;
}

/* ---- draws ---------------------------------------------------------------------------------- */

uint32_t strategy_tie(void)
{
	return eng.strategy == STRATEGY_FIFO ? 0 : choice_draw(strat.tie, 8);
}

/* Draws in sixteenths: 1x to 4x, or to 16x. One draw in 64 is drawn again: 8x, or 64x in one of
 * 16. */
uint64_t strategy_factor(uint64_t ns)
{
	if (!strat.factor_mode || !ns)
		return ns;
	uint64_t draw = choice_draw(strat.factor, 64), sixteenths;

	if (draw == 63)
		sixteenths = choice_draw(strat.factor, 16) ? 128 : 1024;
	else if (strat.factor_mode == 1)
		sixteenths = 16 + draw * 3 / 4;
	else
		sixteenths = 16 + draw * 15 / 4;
	ASSERT(sixteenths >= 16); /* nothing becomes faster than it is */
	return ns < UINT64_MAX / 1024 ? ns * sixteenths / 16 : ns;
}

bool strategy_spurious(void)
{
	return strat.spurious_den && choice_draw_quiet(strat.spurious, strat.spurious_den, 1) == 0;
}

void task_make_ready(struct task *t)
{
	ASSERT(t->pub.state != SIM_TASK_DONE && t->pub.state != SIM_TASK_KILLED);
	ASSERT(t->node_n == 0 && t->timer.at == 0);
	t->pub.state = SIM_TASK_READY;
	ready_add(t);
}
