/* SPDX-License-Identifier: BSD-3-Clause */
/* How runs fail: verdicts, what is printed, crashes, stack overflow, dumps. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/engine/sim.h"
#include "tests/suite.h"
#include "tests/unit/engine/engine_child.h"
#include "tests/unit/engine/engine_tasks.h"

static void expect_said(const char *what)
{
	ck_assert_msg(strstr(said, what) != NULL, "expected \"%s\" in:\n%s", what, said);
}

static struct sim_config sim(void)
{
	return (struct sim_config){.seed = 42, .strategy = SIM_UNIFORM};
}

/* ---- no progress ---------------------------------------------------------------------------- */

static shared_u32 word_a, word_b;

static void wait_for(shared_u32 *on, int rank)
{
	const struct wait w = {.on = on,
			       .want = 17,
			       .mask = WAIT_MASK_ALL,
			       .kind = WAIT_GE,
			       .bytes = 4,
			       .why = "clear to send",
			       .from = {rank, 2, 17, "proxy"}};

	os_wait_one(&w, NULL);
}

static void wait_a(void *arg)
{
	wait_for(&word_a, 1);
}

static void wait_b(void *arg)
{
	wait_for(&word_b, 0);
}

static void deadlock_main(void *arg)
{
	const struct os_label l = {"qp", 0, 1, 2, 23};

	os_label(&word_a, &l);
	struct os_thread *a = spawn("rank0 proxy", 0, wait_a, NULL);
	struct os_thread *b = spawn("rank1 proxy", 1, wait_b, NULL);
	os_thread_join(a);
	os_thread_join(b);
}

START_TEST(deadlock_is_explained_with_its_cycle)
{
	ck_assert_int_eq(child_run(sim(), deadlock_main, NULL), SIM_NO_PROGRESS);
	expect_said("\"clear to send\" at qp 23 of rank 0 peer 1 channel 2: is 0, wants >= 17, "
		    "from rank 1 channel 2 step 17 (proxy)");
	expect_said("rank0 proxy -> rank1 proxy -> rank0 proxy: a cycle");
	expect_said("\nFAIL deadlock task=");
	expect_said("seed=0x2a");
}
END_TEST

static void missed_wake_main(void *arg)
{
	struct os_thread *a = spawn("rank0 proxy", 0, wait_a, NULL);

	os_sleep_ns(1000);
	word_a.v_ = 17; /* not through an accessor: no waiter is woken */
	os_thread_join(a);
}

START_TEST(missed_wake_is_not_called_a_deadlock)
{
	ck_assert_int_eq(child_run(sim(), missed_wake_main, NULL), SIM_NO_PROGRESS);
	expect_said("\nFAIL missed-wake ");
	expect_said("is 17, wants >= 17");
	ck_assert_ptr_eq(strstr(said, "FAIL deadlock"), NULL);
}
END_TEST

static void gone_main(void *arg)
{
	wait_a(NULL);
}

START_TEST(wait_for_a_rank_without_tasks_names_it)
{
	ck_assert_int_eq(child_run(sim(), gone_main, NULL), SIM_NO_PROGRESS);
	expect_said("which waits for rank 1: no task of that rank is alive");
}
END_TEST

static void livelock_main(void *arg)
{
	for (;;)
		os_sleep_ns(10);
}

static void spin_main(void *arg)
{
	while (!shared_load_u32(&word_a, SHARED_ACQUIRE))
		;
}

static void long_main(void *arg)
{
	os_sleep_ns(2000000);
}

static void progress_main(void *arg)
{
	for (int i = 0; i < 100; i++) {
		os_sleep_ns(100000);
		os_progress();
	}
}

START_TEST(no_progress_within_the_budget_is_a_livelock)
{
	struct sim_config c = sim();

	c.budget_events = 20000;
	ck_assert_int_eq(child_run(c, livelock_main, NULL), SIM_NO_PROGRESS);
	expect_said("\nFAIL livelock ");
	ck_assert_int_eq(child_run(c, spin_main, NULL), SIM_NO_PROGRESS);
	expect_said("\nFAIL livelock ");
	c.budget_ns = 1000000;
	ck_assert_int_eq(child_run(c, long_main, NULL), SIM_NO_PROGRESS);
	ck_assert_int_eq(child_run(c, progress_main, NULL), SIM_PASS);
}
END_TEST

static void background_wait(void *arg)
{
	for (;;)
		os_sleep_ns(1000);
}

static void background_main(void *arg)
{
	const struct os_thread_attr a = {.name = "beat", .rank = -1, .background = true};
	const struct sim_event_attr e = {
		.name = "keep-alive", .delay_ns = 1 << 20, .background = true};
	struct os_thread *t;

	ck_assert_int_eq(os_thread_start(&t, &a, background_wait, NULL), 0);
	sim_event_post(&e, (void (*)(void *, uint64_t))abort, NULL, 0, NULL);
	wait_a(NULL);
}

START_TEST(background_activity_does_not_hide_a_deadlock)
{
	ck_assert_int_eq(child_run(sim(), background_main, NULL), SIM_NO_PROGRESS);
	expect_said("\nFAIL deadlock ");
}
END_TEST

/* ---- ends from inside ----------------------------------------------------------------------- */

static void wrong_main(void *arg)
{
	sim_fail(SIM_WRONG_RESULT, "element %d is wrong", 3);
}

static void wrong_step(void *object, uint64_t arg)
{
	sim_fail(SIM_LEAK, "from a step");
}

static void wrong_event_main(void *arg)
{
	const struct sim_event_attr e = {.name = "wrong", .delay_ns = 100};

	sim_event_post(&e, wrong_step, NULL, 0, NULL);
	os_sleep_ns(1000);
	abort();
}

static void said_by_hook(FILE *out)
{
	fprintf(out, "replay: something\n");
}

static void hook_main(void *arg)
{
	sim_on_failure(said_by_hook);
	wrong_main(NULL);
}

START_TEST(sim_fail_ends_the_run_with_its_verdict)
{
	struct sim_config c = sim();

	ck_assert_int_eq(child_run(c, wrong_main, NULL), SIM_WRONG_RESULT);
	expect_said("correctness: element 3 is wrong\nFAIL correctness task=\"main\" rank=-1 ");
	ck_assert_int_eq(child_run(c, wrong_event_main, NULL), SIM_LEAK);
	ck_assert_int_eq(child_run(c, hook_main, NULL), SIM_WRONG_RESULT);
	expect_said("replay: something");
	c.engine = SIM_ENGINE_THREADS;
	ck_assert_int_eq(child_run(c, wrong_main, NULL), SIM_WRONG_RESULT);
}
END_TEST

static void misuse_main(void *arg)
{
	const char *const *words = arg;

	for (; *words; words++)
		sim_expect_misuse(*words);
	sim_misuse("ibv_x: the queue is of another process");
	sim_misuse("ibv_y: this is no queue");
}

START_TEST(misuse_that_nobody_expected_is_the_verdict)
{
	static const char *const none[] = {NULL}, *const one[] = {"ibv_x: the queue", NULL};
	static const char *const both[] = {"ibv_x:", "is no queue", NULL};
	static const char *const more[] = {"ibv_", "ibv_z:", NULL};
	struct sim_config c = sim();

	for (int i = 0; i < 2; i++) {
		c.engine = i ? SIM_ENGINE_THREADS : SIM_ENGINE_SIM;
		ck_assert_int_eq(child_run(c, misuse_main, (void *)none), SIM_MISUSE);
		ck_assert_int_eq(child_run(c, misuse_main, (void *)one), SIM_MISUSE);
		ck_assert_int_eq(child_run(c, misuse_main, (void *)both), SIM_PASS);
		expect_said("ibv_x: the queue is of another process");
		ck_assert_int_eq(child_run(c, misuse_main, (void *)more), SIM_WRONG_RESULT);
		expect_said("no misuse 'ibv_z:' was reported; one was expected");
	}
}
END_TEST

static void segv_main(void *arg)
{
	volatile int *volatile nowhere = (volatile int *)8;

	*nowhere = 1;
}

static void assert_main(void *arg)
{
	ASSERT(arg != NULL);
}

static void segv_task_main(void *arg)
{
	os_thread_join(spawn("rank3 proxy", 3, segv_main, NULL));
}

static bool explain_crash(int signal, const void *addr)
{
	fprintf(stderr, "address %zu was explained\n", (size_t)addr);
	return true;
}

static void segv_explained_main(void *arg)
{
	sim_on_crash(explain_crash);
	segv_main(NULL);
}

START_TEST(crash_names_the_task_and_exits_with_its_code)
{
	struct sim_config c = sim();

	for (int engine = SIM_ENGINE_SIM; engine <= SIM_ENGINE_THREADS; engine++) {
		c.engine = (enum sim_engine)engine;
		ck_assert_int_eq(child_run(c, segv_task_main, NULL), SIM_BY_SIGNAL + SIGSEGV);
		expect_said("at address 0x8 in task 1 \"rank3 proxy\"");
		ck_assert_int_eq(child_run(c, assert_main, NULL), SIM_CRASH);
		expect_said("assertion failed: arg != ");
		ck_assert_int_eq(child_run(c, segv_explained_main, NULL), SIM_BY_SIGNAL + SIGSEGV);
		expect_said("address 8 was explained");
	}
}
END_TEST

/* ---- stacks --------------------------------------------------------------------------------- */

static uint32_t dig(uint32_t depth, volatile char *above)
{
	volatile char here[512];

	here[0] = above ? above[0] : 1;
	return depth ? dig(depth - 1, here) + (uint32_t)here[0] : 1;
}

static void overflow_main(void *arg)
{
	shared_store_u32(&word_a, dig(100000, NULL), SHARED_RELAXED);
}

/* Does not touch the guard: jumps over it with one big frame, then switches. */
static void __attribute__((noinline)) leap(void)
{
	volatile char big[200 << 10];

	__asm__ volatile("" : : "r"(big) : "memory"); /* all of it exists */
	big[sizeof big - 1] = 1;
	os_sleep_ns(10);
	big[sizeof big - 2] = big[sizeof big - 1];
}

static void leap_task(void *arg)
{
	leap();
}

/* A second task, so that the sleep switches; the one that leaps is below the other's stack. */
static void leap_main(void *arg)
{
	struct os_thread *a = spawn("leaper", 0, leap_task, NULL);
	os_sleep_ns(5);
	os_thread_join(a);
}

START_TEST(stack_overflow_is_named)
{
	struct sim_config c = sim();

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return; /* the sanitizers have their own report */
#endif
	c.stack_bytes = 64 << 10;
	ck_assert_int_eq(child_run(c, overflow_main, NULL), SIM_BY_SIGNAL + SIGSEGV);
	expect_said("\"main\" overflowed its stack of 65536 bytes");
	/* memory that is mapped below the guard takes the write: the switch finds the overflow */
	int ended = child_run(c, leap_main, NULL);

	ck_assert(ended == SIM_BY_SIGNAL + SIGSEGV || ended == SIM_CRASH);
	expect_said("\"leaper\" overflowed its stack of 65536 bytes");
	c.stack_bytes = 1024;
	ck_assert_int_eq(sim_start(&c), EINVAL);
}
END_TEST

/* ---- what a failing run leaves -------------------------------------------------------------- */

START_TEST(failing_run_leaves_choices_waits_explanation_and_core)
{
	static const char *const file[] = {"choices", "explain.txt", "waits.json", "tasks.core"};
	char dir[] = "/tmp/doppel_fail_XXXXXX", path[256], command[512];
	struct sim_config c = sim();
	struct stat st;

	ck_assert_ptr_ne(mkdtemp(dir), NULL);
	c.fail_dir = dir;
	ck_assert_int_eq(child_run(c, deadlock_main, NULL), SIM_NO_PROGRESS);
	for (size_t i = 0; i < ARRAY_LEN(file); i++) {
		snprintf(path, sizeof path, "%s/%s", dir, file[i]);
		ck_assert_int_eq(stat(path, &st), 0);
		ck_assert_int_gt(st.st_size, 20);
	}
	/* the choices replay to the same failure */
	snprintf(path, sizeof path, "%s/choices", dir);
	char first[256];
	const char *fail = strstr(said, "FAIL ");
	snprintf(first, sizeof first, "%.*s", (int)strcspn(fail, "\n"), fail);
	c = (struct sim_config){.choices_in = path};
	ck_assert_int_eq(child_run(c, deadlock_main, NULL), SIM_NO_PROGRESS);
	expect_said(first);
	snprintf(command, sizeof command, "rm -r %s", dir);
	ck_assert_int_eq(system(command), 0);
}
END_TEST

static void json_main(void *arg)
{
	FILE *out = arg;

	spawn("rank0 proxy", 0, wait_a, NULL);
	os_sleep_ns(100);
	sim_explain_json(out);
	shared_store_u32(&word_a, 17, SHARED_RELEASE);
}

START_TEST(wait_graph_as_json)
{
	char *text = NULL;
	size_t n = 0;
	FILE *out = open_memstream(&text, &n);
	struct sim_config c = sim();

	ck_assert_int_eq(sim_start(&c), 0);
	ck_assert_int_eq(sim_run(json_main, out), SIM_PASS);
	sim_stop();
	fclose(out);
	ck_assert_ptr_ne(strstr(text, "\"why\":\"clear to send\""), NULL);
	ck_assert_ptr_ne(strstr(text, "\"op\":\">=\",\"want\":17"), NULL);
	ck_assert_ptr_ne(strstr(text, "\"waits_for_dead_rank\":1"), NULL);
	free(text);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("engine_verdict");
	TCase *t = tcase_create("all");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, deadlock_is_explained_with_its_cycle);
	tcase_add_test(t, missed_wake_is_not_called_a_deadlock);
	tcase_add_test(t, wait_for_a_rank_without_tasks_names_it);
	tcase_add_test(t, no_progress_within_the_budget_is_a_livelock);
	tcase_add_test(t, background_activity_does_not_hide_a_deadlock);
	tcase_add_test(t, sim_fail_ends_the_run_with_its_verdict);
	tcase_add_test(t, misuse_that_nobody_expected_is_the_verdict);
	tcase_add_test(t, crash_names_the_task_and_exits_with_its_code);
	tcase_add_test(t, stack_overflow_is_named);
	tcase_add_test(t, failing_run_leaves_choices_waits_explanation_and_core);
	tcase_add_test(t, wait_graph_as_json);
	suite_add_tcase(s, t);
	return suite_run(s);
}
