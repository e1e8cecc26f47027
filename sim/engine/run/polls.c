/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fruitless polls under `sim`. The first few polls of a task take a little time. Later ones park
 * the task until something has changed since its last look, or until a timeout:
 *
 *   the lab's tasks
 *       0.1 s. If nothing else can happen, pollers look 64 times, and then it is a deadlock.
 *       The lab's loops have no limits of their own, and a look may skip some communicators.
 *   programs (a guest, the programs of a job)
 *       16 us, doubled at each look up to 0.1 s. A program may have a limit, by its clock or
 *       by a count, so its poll is not a wait without end. Only a very long row of looks in
 *       which nothing else happens is a livelock.
 */
#include "sim/engine/run/run_internal.h"

enum {
	POLL_NS = 250,
	POLL_NS_MAX = 16000,
	POLL_LAST_LOOKS = 64,
	POLL_LONG_NS = 100000000,
	PROGRAM_LOOKS = 1000000, /* and an hour: the budget of idle programs */
	CLOCK_NS = 50,
	CLOCK_ROW = 64, /* reads in a row before each takes longer */
};
#define PROGRAM_IDLE_NS 3600000000000ull

/* ---- parked pollers ------------------------------------------------------------------------- */

/* Returns the number of looks in a row between which nothing has changed. */
static uint32_t pollers_looks(void)
{
	return eng.last_look_changes == eng.changes ? eng.last_looks : 0;
}

/* Returns how long pollers stay parked before they look although nothing has changed. */
static uint64_t pollers_pause_ns(void)
{
	uint64_t ns = (uint64_t)POLL_NS_MAX << MIN_OF(pollers_looks(), 16u);

	return engine_has_programs() ? MIN_OF(ns, (uint64_t)POLL_LONG_NS) : POLL_LONG_NS;
}

static bool pollers_may_look(void)
{
	return eng.pollers && (engine_has_programs() || pollers_looks() < POLL_LAST_LOOKS);
}

bool pollers_look_before(uint64_t when)
{
	return pollers_may_look() && when - eng.parked_ns >= pollers_pause_ns();
}

bool pollers_go_on(void)
{
	return engine_has_programs() && eng.pollers;
}

static void pollers_check_budget(void)
{
	uint64_t ns = eng.now_ns - eng.last_change_ns;

	if (LIKELY(!engine_has_programs() || eng.last_looks < PROGRAM_LOOKS ||
		   ns < PROGRAM_IDLE_NS))
		return;
	engine_fail(SIM_NO_PROGRESS, "livelock",
		    "%u polls in a row found nothing, and nothing else happened in %llu s of "
		    "virtual time",
		    eng.last_looks, (unsigned long long)(ns / 1000000000));
}

/* Wakes all pollers for one more look, although nothing was reported. True: they look. A poller may
 * have found what it polled for without calling os_poll_hit, and then written what another one
 * polls for. A poller that alternates between several objects may have slept while the object
 * changed that it does not look at next. */
bool pollers_look(void)
{
	if (!pollers_may_look())
		return false;
	if (!pollers_looks())
		eng.last_change_ns = eng.now_ns;
	eng.last_looks = pollers_looks() + 1;
	eng.look++;
	eng.last_look_changes = eng.changes;
	pollers_check_budget();
	pollers_wake();
	return true;
}

/* Moves time to the next timer. Pollers that will have been parked for long by then look first,
 * however many time steps that took: a task that sleeps repeatedly and changes nothing does not
 * delay them. */
void pollers_let_pass(void)
{
	uint64_t when = eng.heap.n ? eng.heap.slot[1].when : ENGINE_NEVER;

	if (!pollers_look_before(when)) {
		/* no event is due, and without a timer only a look of pollers can follow */
		ASSERT(when > eng.now_ns && when != ENGINE_NEVER);
		eng.now_ns = when;
		return;
	}
	if (engine_has_programs())
		eng.now_ns = MAX_OF(eng.now_ns, eng.parked_ns + pollers_pause_ns());
	(void)pollers_look();
}

/* ---- polls ---------------------------------------------------------------------------------- */

/* Parks the task. If it did not take part in the last look, it comes from work of its own: the
 * looks of the others without it show nothing, and all look again. */
static void polls_park(struct task *t)
{
	if (eng.look - t->poll_look > 1 && !engine_has_programs())
		eng.last_looks = 0;
	t->poll_look = eng.look;
	pollers_park(t);
}

void polls_miss(const char *why)
{
	struct task *t = eng.current;

	if (!t)
		return;
	uint32_t row = t->poll_row++;
	uint64_t ns = POLL_NS;

	sched_sim_point();
	t->pub.poll_why = why;
	if (row >= POLL_FREE && eng.changes == t->poll_seen) {
		uint64_t since = eng.now_ns;

		polls_park(t);
		task_suspend(t, SIM_TASK_WAITING);
		timeline_wait(t, why, since);
	} else if (row >= POLL_FREE) {
		ns = row - POLL_FREE < 6 ? ns << (row - POLL_FREE) : POLL_NS_MAX;
	}
	t->poll_seen = eng.changes;
	task_sleep(t, strategy_factor(ns));
	t->pub.poll_why = NULL;
}

void polls_hit(void)
{
	if (eng.current)
		eng.current->poll_row = 0;
}

/* Reads the clock for a program. If no time has passed between two reads, the program runs a loop
 * that only reads the clock; its reads then cost more. */
uint64_t sim_clock_read(void)
{
	struct task *t = eng.current;

	if (!t)
		return eng.now_ns;
	t->clock_row = eng.now_ns == t->clock_ns ? t->clock_row + 1 : 0;
	t->pub.debt_ns += (uint64_t)CLOCK_NS << MIN_OF(t->clock_row / CLOCK_ROW, 8u);
	sched_sim_point();
	t->clock_ns = eng.now_ns;
	return eng.now_ns;
}
