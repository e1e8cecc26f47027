/* SPDX-License-Identifier: BSD-3-Clause */
/* Moments of a run (sim_config.moment), and the names of its tasks. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>

#include "sim/engine/sim.h"
#include "tests/suite.h"

struct moment_seen {
	uint32_t called;
	char task[48];
	uint64_t at_ns, echo_ns;
};

static void moment_called(void *arg)
{
	struct moment_seen *m = arg;

	m->called++;
	m->at_ns = sim_now_ns();
	snprintf(m->task, sizeof m->task, "%s", os_self()->name);
}

static void moment_echo(void *arg)
{
	struct moment_seen *m = arg;

	sim_point("test");
	sim_point("test");
	m->echo_ns = sim_now_ns();
	sim_point("test");
}

static void moment_main(void *arg)
{
	const struct os_thread_attr a = {.name = "echo of two words", .rank = 1};
	struct os_thread *t = NULL;

	ck_assert_int_eq(os_thread_start(&t, &a, moment_echo, arg), 0);
	ck_assert_int_eq(os_thread_join(t), 0);
}

static struct moment_seen moment_at(const char *task, uint64_t nth, struct sim_task_log *log)
{
	struct moment_seen m = {.called = 0};
	struct sim_config c = {.engine = SIM_ENGINE_SIM, .seed = 7, .strategy = SIM_FIFO};

	c.moment = (struct sim_moment){
		.task = task, .nth = nth, .hold_ns = 5000, .fn = moment_called, .arg = &m};
	c.task_log = log;
	ck_assert_int_eq(sim_start(&c), 0);
	ck_assert_int_eq(sim_run(moment_main, &m), SIM_PASS);
	sim_stop();
	return m;
}

START_TEST(a_moment_is_the_nth_point_of_the_tasks_of_a_name)
{
	struct moment_seen m = moment_at("echo of two words", 2, NULL);

	ck_assert_uint_eq(m.called, 1);
	ck_assert_str_eq(m.task, "echo of two words");
	ck_assert_uint_eq(m.echo_ns, m.at_ns + 5000);
	ck_assert_uint_eq(moment_at("echo", 2, NULL).called, 1);
	ck_assert_uint_eq(moment_at("ec", 2, NULL).called, 0);
	ck_assert_uint_eq(moment_at("echo", 1000, NULL).called, 0);
	ck_assert_uint_eq(moment_at("nobody", 1, NULL).called, 0);
}
END_TEST

START_TEST(tasks_are_listed_once)
{
	struct sim_task_log *log = calloc(1, sizeof *log + 4 * sizeof log->row[0]);

	ck_assert_ptr_nonnull(log);
	log->cap = 4;
	moment_at(NULL, 0, log);
	moment_at(NULL, 0, log);
	ck_assert_uint_eq(log->n, 2);
	ck_assert_str_eq(log->row[0].name, "main");
	ck_assert_str_eq(log->row[1].name, "echo of two words");
	free(log);
}
END_TEST

START_TEST(moments_are_engine_sims)
{
	struct sim_config c = {.engine = SIM_ENGINE_THREADS, .moment = {.task = "main", .nth = 1}};

	ck_assert_int_eq(sim_start(&c), EINVAL);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("engine_moment");
	TCase *t = tcase_create("engine_moment");

	tcase_add_test(t, a_moment_is_the_nth_point_of_the_tasks_of_a_name);
	tcase_add_test(t, tasks_are_listed_once);
	tcase_add_test(t, moments_are_engine_sims);
	suite_add_tcase(s, t);
	return suite_run(s);
}
