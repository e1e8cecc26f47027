/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bound of virtual time: no shape of a right all-reduce under fifo exceeds it, and one that
 * would is a failure of class "time".
 */
#include <check.h>
#include <stdlib.h>

#include "sim/lab/run/runner_internal.h"
#include "tests/suite.h"

enum { BOUND_BYTES = 65536 };

struct bound_asked {
	struct lab_config c;
	uint64_t over_ns;
};

/* Checks a series that took `over_ns` more than it may. */
static void bound_ask(int32_t rank, ncclComm_t comm, void *arg)
{
	const struct lab_config *c = &((struct bound_asked *)arg)->c;
	struct lab_run run = {.config = c, .nranks = (int32_t)(c->hosts * c->gpus)};
	struct lab_rank me = {.run = &run, .rank = rank};
	struct lab_row row = {.collective = c->collective, .bytes = BOUND_BYTES};
	uint64_t over_ns = ((struct bound_asked *)arg)->over_ns;

	(void)comm;
	if (rank)
		return;
	me.elapsed_ns = (lab_bound_ns(&run, &row) + over_ns) * c->iterations;
	lab_bound_check(&me, &row);
	ck_assert_int_eq(run.judged, over_ns && sim_failure() ? SIM_NO_PROGRESS : SIM_PASS);
}

static struct lab_result bound_run(enum sim_strategy strategy, uint64_t over_ns)
{
	struct bound_asked with = {.over_ns = over_ns};
	struct lab_result r;

	lab_config_default(&with.c);
	with.c.hosts = 2;
	with.c.gpus = 2;
	with.c.iterations = 3;
	with.c.bytes_min = with.c.bytes_max = BOUND_BYTES;
	with.c.sim.strategy = strategy;
	with.c.on_ready = bound_ask;
	with.c.on_ready_arg = &with;
	ck_assert_int_eq(lab_run(&with.c, &r), 0);
	return r;
}

START_TEST(a_series_as_long_as_the_bound_passes)
{
	ck_assert(!bound_run(SIM_FIFO, 0).failed);
}
END_TEST

START_TEST(a_longer_one_is_a_failure_of_class_time)
{
	struct lab_result r = bound_run(SIM_FIFO, 1);

	ck_assert(r.failed);
	ck_assert_int_eq(r.failure.verdict, SIM_NO_PROGRESS);
	ck_assert_str_eq(r.failure.kind, "time");
}
END_TEST

START_TEST(drawn_latencies_have_no_bound)
{
	ck_assert(!bound_run(SIM_UNIFORM, 1).failed);
}
END_TEST

START_TEST(every_shape_stays_within_it)
{
	static const struct {
		uint32_t hosts, gpus;
		const char *machine;
	} shape[] = {{1, 8, "h100-8nic"},
		     {2, 8, "h100-8nic"},
		     {4, 1, "h100-8nic"},
		     {2, 4, "a100-4nic"},
		     {3, 2, "a100-4nic"}};
	static const char *const protocol[][3] = {
		{NULL},
		{"NCCL_PROTO=LL", NULL},
		{"NCCL_PROTO=LL", "NCCL_LL_BUFFSIZE=4096", NULL},
	};
	size_t i = (size_t)_i % ARRAY_LEN(shape);
	struct lab_result r;
	struct lab_config c;

	lab_config_default(&c);
	c.hosts = shape[i].hosts;
	c.gpus = shape[i].gpus;
	c.machine = shape[i].machine;
	c.env = protocol[(size_t)_i / ARRAY_LEN(shape)];
	c.bytes_min = 8;
	c.bytes_max = c.env[0] ? 1 << 18 : 1 << 20;
	c.factor = 32;
	c.sim.strategy = SIM_FIFO;
	ck_assert_int_eq(lab_run(&c, &r), 0);
	ck_assert_msg(r.verdict == SIM_PASS, "%s: %s", r.failure.kind, r.failure.message);
}
END_TEST

/* Each channel of two ranks over the network is set up by itself. */
START_TEST(many_channels_of_messages_stay_within_it)
{
	struct lab_result r;
	struct lab_config c;

	lab_config_default(&c);
	c.hosts = 3;
	c.gpus = 4;
	c.collective = lab_collective_find("all_to_all", strlen("all_to_all"));
	c.env = (const char *[]){"NCCL_NCHANNELS_PER_NET_PEER=8", NULL};
	c.bytes_min = c.bytes_max = 48 << 10;
	c.sim.strategy = SIM_FIFO;
	ck_assert_int_eq(lab_run(&c, &r), 0);
	ck_assert_msg(r.verdict == SIM_PASS, "%s: %s", r.failure.kind, r.failure.message);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("the bound of virtual time");
	TCase *t = tcase_create("bound");

	tcase_add_test(t, a_series_as_long_as_the_bound_passes);
	tcase_add_test(t, a_longer_one_is_a_failure_of_class_time);
	tcase_add_test(t, drawn_latencies_have_no_bound);
	tcase_add_loop_test(t, every_shape_stays_within_it, 0, 15);
	tcase_add_test(t, many_channels_of_messages_stay_within_it);
	tcase_set_timeout(t, 60);
	suite_add_tcase(s, t);
	return suite_run(s);
}
