/* SPDX-License-Identifier: BSD-3-Clause */
/* Engine `threads`: tasks, waits, warps, events, kills. Meant to run under ThreadSanitizer too. */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "sim/engine/sim.h"
#include "tests/suite.h"

static enum sim_verdict run_threads(uint32_t workers, void (*fn)(void *), void *arg)
{
	const struct sim_config c = {.engine = SIM_ENGINE_THREADS, .workers = workers};

	ck_assert_int_eq(sim_start(&c), 0);
	enum sim_verdict v = sim_run(fn, arg);
	sim_stop();
	return v;
}

static struct os_thread *spawn(const char *name, bool background, void (*fn)(void *), void *arg)
{
	const struct os_thread_attr a = {.name = name, .rank = -1, .background = background};
	struct os_thread *t = NULL;

	ck_assert_int_eq(os_thread_start(&t, &a, fn, arg), 0);
	return t;
}

static struct wait wait_ge(const shared_u32 *w, uint64_t want)
{
	return (struct wait){.on = w,
			     .want = want,
			     .mask = WAIT_MASK_ALL,
			     .kind = WAIT_GE,
			     .bytes = 4,
			     .why = "test word",
			     .from = {-1, -1, -1, NULL}};
}

struct ping {
	shared_u32 there, back;
	uint32_t rounds, plain;
};

static void ping_echo(void *arg)
{
	struct ping *p = arg;

	for (uint32_t i = 1; i <= p->rounds; i++) {
		struct wait w = wait_ge(&p->there, i);
		ck_assert_int_eq(os_wait_one(&w, NULL), 0);
		p->plain++; /* ordered by the words: TSan agrees */
		shared_store_u32(&p->back, i, SHARED_RELEASE);
	}
}

static void ping_drive(struct ping *p)
{
	for (uint32_t i = 1; i <= p->rounds; i++) {
		p->plain++;
		shared_store_u32(&p->there, i, SHARED_RELEASE);
		struct wait w = wait_ge(&p->back, i);
		ck_assert_int_eq(os_wait_one(&w, NULL), 0);
	}
}

static void ping_main(void *arg)
{
	struct ping *p = arg;
	struct os_thread *t = spawn("echo", false, ping_echo, p);

	ping_drive(p);
	ck_assert_int_eq(os_thread_join(t), 0);
	ck_assert_uint_eq(p->plain, 2 * p->rounds);
}

START_TEST(host_tasks_wait_for_each_other)
{
	struct ping p = {.rounds = 1000};

	ck_assert_int_eq(run_threads(1, ping_main, &p), SIM_PASS);
}
END_TEST

static int warp_spawn(const char *name, uint32_t home, void (*fn)(void *), void *arg)
{
	struct sim_task *t;
	const struct sim_task_attr a = {
		.name = name, .kind = SIM_TASK_WARP, .proc = os_proc(), .rank = -1, .home = home};

	return sim_task_spawn(&t, &a, fn, arg);
}

enum { WARPS = 64, STEPS = 40 }; /* a step is 64 switches, 10 ms each on a busy machine */
static struct {
	shared_u32 word[WARPS], done;
	uint32_t sum[WARPS];
} ring;

/* Each warp waits for its left neighbour's word, over the same and over other workers. */
static void warp_ring(void *arg)
{
	uint32_t me = (uint32_t)(uintptr_t)arg, left = (me + WARPS - 1) % WARPS;

	ck_assert_ptr_ne(sim_task_self(), NULL);
	ck_assert_int_eq(sim_task_self()->kind, SIM_TASK_WARP);
	for (uint32_t i = 1; i <= STEPS; i++) {
		struct wait w = wait_ge(&ring.word[left], me ? i : i - 1);
		ck_assert_int_eq(os_wait_one(&w, NULL), 0);
		ring.sum[me] = ring.sum[left] + 1;
		shared_store_u32(&ring.word[me], i, SHARED_RELEASE);
		if (me == 0) {
			struct wait all = wait_ge(&ring.word[WARPS - 1], i);
			ck_assert_int_eq(os_wait_one(&all, NULL), 0);
		}
	}
	shared_add_u32(&ring.done, 1, SHARED_ACQ_REL);
}

static void warps_main(void *arg)
{
	memset(&ring, 0, sizeof ring);
	for (uint32_t i = 0; i < WARPS; i++)
		ck_assert_int_eq(warp_spawn("warp", i % 3, warp_ring, (void *)(uintptr_t)i), 0);
	struct wait w = wait_ge(&ring.done, WARPS);
	ck_assert_int_eq(os_wait_one(&w, NULL), 0);
	ck_assert_uint_eq(ring.sum[WARPS - 1], WARPS * STEPS);
}

START_TEST(warps_of_several_workers_wait_for_each_other)
{
	ck_assert_int_eq(run_threads(3, warps_main, NULL), SIM_PASS);
}
END_TEST

/* ---- events --------------------------------------------------------------------------------- */

static shared_u32 steps_run;

static void step_add(void *object, uint64_t arg)
{
	(void)object;
	shared_add_u32(&steps_run, (uint32_t)arg, SHARED_ACQ_REL);
}

/* Cancels one timer by its handle and one by its object. On a busy machine they can fire before:
 * again, with more time. */
static void events_cancel_timers(void *object_a, void *object_b)
{
	struct sim_event_attr timer = {.name = "timer", .kind = SIM_EVENT_TIMER};
	struct sim_event *h;
	bool in_time = false;
	uint32_t before = 0;

	for (timer.delay_ns = 20000000; !in_time; timer.delay_ns *= 4) {
		before = shared_load_u32(&steps_run, SHARED_ACQUIRE);
		sim_event_post(&timer, step_add, object_a, 1000, &h);
		sim_event_post(&timer, step_add, object_b, 1000, NULL);
		in_time = sim_event_cancel(h);
		sim_events_cancel_object(object_b);
		in_time &= shared_load_u32(&steps_run, SHARED_ACQUIRE) == before;
		os_sleep_ns(timer.delay_ns + 10000000);
	}
	ck_assert_uint_eq(shared_load_u32(&steps_run, SHARED_ACQUIRE), before);
}

static void events_main(void *arg)
{
	static int object_a, object_b;
	const struct sim_event_attr work = {.name = "work", .kind = SIM_EVENT_WORK};
	struct sim_event_attr timer = {.name = "timer", .kind = SIM_EVENT_TIMER};
	struct sim_event *h;

	steps_run.v_ = 0;
	sim_event_post(&work, step_add, &object_a, 1, NULL);
	ck_assert_uint_eq(shared_load_u32(&steps_run, SHARED_ACQUIRE), 0);
	sim_events_drain();
	ck_assert_uint_eq(shared_load_u32(&steps_run, SHARED_ACQUIRE), 1);
	sim_event_post(&work, step_add, &object_a, 10, &h);
	ck_assert(sim_event_cancel(h));
	sim_event_post(&work, step_add, &object_b, 10, NULL);
	sim_events_cancel_object(&object_b);
	sim_events_drain();
	ck_assert_uint_eq(shared_load_u32(&steps_run, SHARED_ACQUIRE), 1);
	timer.delay_ns = 2000000;
	uint64_t start = os_now_ns();
	sim_event_post(&timer, step_add, &object_a, 100, NULL);
	struct wait w = wait_ge(&steps_run, 101);
	ck_assert_int_eq(os_wait_one(&w, NULL), 0);
	ck_assert_uint_ge(os_now_ns() - start, 2000000);
	events_cancel_timers(&object_a, &object_b);
}

START_TEST(work_runs_at_drain_and_timers_when_due)
{
	ck_assert_int_eq(run_threads(1, events_main, NULL), SIM_PASS);
}
END_TEST

/* ---- deadlines, abort, objects -------------------------------------------------------------- */

static void waits_main(void *arg)
{
	static shared_u32 word, abort_word;
	static int object;
	struct wait never = wait_ge(&word, 1), two[2];
	const struct wait *list[2] = {&two[0], &two[1]};
	int index = -1;

	never.deadline_ns = os_now_ns() + 1000000;
	ck_assert_int_eq(os_wait_one(&never, NULL), ETIMEDOUT);
	shared_store_u32(&abort_word, 1, SHARED_RELEASE);
	ck_assert_int_eq(os_wait_one(&never, &abort_word), ECANCELED);
	two[0] = wait_ge(&word, 1);
	two[1] = (struct wait){.on = &object,
			       .kind = WAIT_OBJECT,
			       .want = os_event_seq(&object),
			       .why = "object",
			       .from = {-1, -1, -1, NULL}};
	os_event_post(&object);
	ck_assert_int_eq(os_wait(list, 2, NULL, &index), 0);
	ck_assert_int_eq(index, 1);
}

START_TEST(waits_end_by_deadline_abort_and_object)
{
	ck_assert_int_eq(run_threads(1, waits_main, NULL), SIM_PASS);
}
END_TEST

/* ---- ends ----------------------------------------------------------------------------------- */

static shared_u32 alive;

static void poll_main(void *arg)
{
	uint64_t before = suite_sleeps();

	(void)arg;
	for (int i = 0; i < 10000; i++)
		os_poll_miss("nothing");
	ck_assert_uint_lt(suite_sleeps() - before, 10);
	before = suite_sleeps();
	os_sleep_ns(1000000);
	ck_assert_uint_gt(suite_sleeps(), before);
}

START_TEST(a_fruitless_query_does_not_sleep)
{
	ck_assert_int_eq(run_threads(1, poll_main, NULL), SIM_PASS);
}
END_TEST

static void forever(void *arg)
{
	static shared_u32 never;
	struct wait w = wait_ge(&never, 1);

	shared_add_u32(&alive, 1, SHARED_ACQ_REL);
	os_wait_one(&w, NULL);
	ck_abort_msg("a wait that never becomes true returned");
}

static void background_main(void *arg)
{
	alive.v_ = 0;
	spawn("watchdog", true, forever, NULL);
	struct wait w = wait_ge(&alive, 1);
	ck_assert_int_eq(os_wait_one(&w, NULL), 0);
}

START_TEST(background_tasks_end_with_the_run)
{
	ck_assert_int_eq(run_threads(1, background_main, NULL), SIM_PASS);
}
END_TEST

static struct os_proc victim = {.id = 1, .name = "victim"};

static void kill_main(void *arg)
{
	struct sim_task *host, *warp;
	struct sim_task_attr a = {
		.name = "victim host", .kind = SIM_TASK_HOST, .proc = &victim, .rank = 1};

	alive.v_ = 0;
	ck_assert_int_eq(sim_task_spawn(&host, &a, forever, NULL), 0);
	a.kind = SIM_TASK_WARP;
	a.name = "victim warp";
	ck_assert_int_eq(sim_task_spawn(&warp, &a, forever, NULL), 0);
	struct wait w = wait_ge(&alive, 2);
	ck_assert_int_eq(os_wait_one(&w, NULL), 0);
	sim_kill_proc(&victim);
	ck_assert_int_eq(host->state, SIM_TASK_KILLED);
	ck_assert_int_eq(os_thread_join((struct os_thread *)host), 0);
}

START_TEST(killed_process_runs_no_more)
{
	ck_assert_int_eq(run_threads(2, kill_main, NULL), SIM_PASS);
}
END_TEST

static void *foreign(void *arg)
{
	struct os_self *self = os_self();

	ck_assert_ptr_ne(self, NULL);
	ck_assert_ptr_eq(self, os_self());
	ck_assert_ptr_eq(self->proc, arg);
	return NULL;
}

static void adopt_main(void *arg)
{
	pthread_t t;

	ck_assert_int_eq(pthread_create(&t, NULL, foreign, os_proc()), 0);
	pthread_join(t, NULL);
}

START_TEST(foreign_thread_is_adopted)
{
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(run_threads(1, adopt_main, NULL), SIM_PASS);
}
END_TEST

/* ---- the explainer, while all tasks run ----------------------------------------------------- */

enum { LOOKED_AT = 4, LOOKS = 300 };
#ifdef __SANITIZE_THREAD__ /* states are looked at as they are just then: races, on purpose */
enum { LOOKED_RUNS = 0 };
#else
enum { LOOKED_RUNS = 1 };
#endif
static struct {
	shared_u32 word[LOOKED_AT], stop, gone;
} looked;

/* Two by two they wait for each other, by words on their stacks; each names the other's rank. */
static void looked_wait(uint32_t me, uint32_t i)
{
	char object[] = {'t', 'e', 's', 't', '\0'};
	struct wait w = wait_ge(&looked.word[me ^ 1], i);
	const struct wait *list[] = {&w};

	w.from = (struct wait_from){(int32_t)(me ^ 1), 0, (int64_t)i, object};
	int rc = os_wait(list, 1, &looked.stop, NULL);

	ck_assert(rc == 0 || rc == ECANCELED);
}

static void looked_at(void *arg)
{
	uint32_t me = (uint32_t)(uintptr_t)arg;

	os_self()->rank = (int32_t)me;
	for (uint32_t i = 1; !shared_load_u32(&looked.stop, SHARED_ACQUIRE); i++) {
		shared_store_u32(&looked.word[me], i, SHARED_RELEASE);
		looked_wait(me, i);
	}
}

static void looked_short(void *arg)
{
	(void)arg;
	shared_add_u32(&looked.gone, 1, SHARED_RELEASE);
}

static void looked_main(void *arg)
{
	FILE *out = arg;
	struct os_thread *t[LOOKED_AT];

	memset(&looked, 0, sizeof looked);
	for (uint32_t i = 0; i < LOOKED_AT; i++) {
		char name[] = {'n', 'o', ' ', (char)('0' + i), '\0'};

		t[i] = spawn(name, false, looked_at, (void *)(uintptr_t)i);
	}
	for (uint32_t i = 0; i < LOOKS; i++) {
		ck_assert_int_eq(warp_spawn("short", i, looked_short, NULL), 0);
		sim_explain(out);
	}
	shared_store_u32(&looked.stop, 1, SHARED_RELEASE);
	for (uint32_t i = 0; i < LOOKED_AT; i++)
		ck_assert_int_eq(os_thread_join(t[i]), 0);
	struct wait w = wait_ge(&looked.gone, LOOKS);
	ck_assert_int_eq(os_wait_one(&w, NULL), 0);
}

/* Every explanation reports for each of the four tasks that it runs, or its wait and the task that
 * ends it. Returns the number of waiting tasks. */
static int looked_words(FILE *out, int *seen)
{
	int waiting = 0;
	char line[512];

	rewind(out);
	while (fgets(line, sizeof line, out)) {
		unsigned task, me, from, step, wants;
		const char *is = strstr(line, "wants >= ");

		if (sscanf(line, " task %u \"no %u\"", &task, &me) != 2)
			continue;
		(*seen)++;
		if (!strstr(line, " waits for "))
			continue;
		ck_assert_msg(is && sscanf(is, "wants >= %u, from rank %u channel 0 step %u (test)",
					   &wants, &from, &step) == 3,
			      "no words: %s", line);
		ck_assert_msg(from == (me ^ 1) && step == wants, "not its words: %s", line);
		waiting++;
	}
	return waiting;
}

START_TEST(who_waits_is_explained_while_all_go_on)
{
	FILE *out = tmpfile();
	int seen = 0;

	ck_assert_ptr_ne(out, NULL);
	ck_assert_int_eq(run_threads(2, looked_main, out), SIM_PASS);
	ck_assert_int_gt(looked_words(out, &seen), 0);
	ck_assert_int_eq(seen, LOOKED_AT * LOOKS);
	fclose(out);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("engine_threads");
	TCase *t = tcase_create("all");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, host_tasks_wait_for_each_other);
	tcase_add_test(t, warps_of_several_workers_wait_for_each_other);
	tcase_add_test(t, work_runs_at_drain_and_timers_when_due);
	tcase_add_test(t, waits_end_by_deadline_abort_and_object);
	tcase_add_test(t, a_fruitless_query_does_not_sleep);
	tcase_add_test(t, background_tasks_end_with_the_run);
	tcase_add_test(t, killed_process_runs_no_more);
	tcase_add_test(t, foreign_thread_is_adopted);
	tcase_add_loop_test(t, who_waits_is_explained_while_all_go_on, 0, LOOKED_RUNS);
	suite_add_tcase(s, t);
	return suite_run(s);
}
