/* SPDX-License-Identifier: BSD-3-Clause */
/* Engine `sim`: tasks, events, time, choices. Waits and polls: engine_waits_test.c. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/engine/base/gdb_hooks.h"
#include "sim/engine/sim.h"
#include "tests/suite.h"
#include "tests/unit/engine/engine_tasks.h"
#include "tests/unit/engine/engine_ping.h"

START_TEST(word_waits_wake_by_stores)
{
	struct sim_config c = fifo();
	struct ping p = {.rounds = 1000};

	ck_assert_int_eq(run_with(&c, ping_main, &p), SIM_PASS);
	ck_assert_uint_eq(p.done, 1000);
	ck_assert_uint_ge(sim_now_ns(), 1000 * 30);
	sim_stop();
}
END_TEST

START_TEST(fifo_hash_ignores_the_seed)
{
	uint64_t h = ping_hash(SIM_FIFO, 1);

	for (uint64_t seed = 2; seed < 20; seed++)
		ck_assert_uint_eq(ping_hash(SIM_FIFO, seed), h);
}
END_TEST

START_TEST(same_seed_same_hash_other_seed_other_hash)
{
	static const enum sim_strategy all[] = {SIM_PORTFOLIO, SIM_UNIFORM, SIM_PCT, SIM_STARVE};

	for (size_t s = 0; s < ARRAY_LEN(all); s++) {
		int distinct = 0;
		uint64_t last = 0;

		for (uint64_t seed = 1; seed <= 20; seed++) {
			uint64_t h = ping_hash(all[s], seed);
			ck_assert_uint_eq(ping_hash(all[s], seed), h);
			distinct += h != last;
			last = h;
		}
		ck_assert_int_ge(distinct, 15);
	}
}
END_TEST

/* ---- events --------------------------------------------------------------------------------- */

enum { WIRES = 4, PER_WIRE = 50 };
static struct {
	uint32_t next[WIRES], order[WIRES * PER_WIRE], n;
	uint64_t at[16];
} events;

static void event_arrive(void *object, uint64_t arg)
{
	uint32_t wire = (uint32_t)(arg >> 32), seq = (uint32_t)arg;

	ck_assert_ptr_eq(sim_task_self(), NULL);
	ck_assert_ptr_ne(os_self(), NULL);
	ck_assert_uint_eq(seq, events.next[wire]++);
	events.order[events.n++] = wire;
}

/* Shorter and shorter delays on one wire: order is kept all the same. */
static void events_main(void *arg)
{
	static int wire[WIRES];

	memset(&events, 0, sizeof events);
	for (uint32_t i = 0; i < PER_WIRE; i++) {
		for (uint64_t k = 0; k < WIRES; k++) {
			const struct sim_event_attr a = {.name = "packet",
							 .order = &wire[k],
							 .delay_ns = 1000 - i % 10 * 100};
			sim_event_post(&a, event_arrive, NULL, k << 32 | i, NULL);
		}
	}
	os_sleep_ns(100000);
	ck_assert_uint_eq(events.n, WIRES * PER_WIRE);
}

START_TEST(events_of_one_order_keep_it_others_do_not)
{
	struct sim_config c = fifo();
	uint32_t first[WIRES * PER_WIRE];
	int differ = 0;

	for (uint64_t seed = 0; seed < 10; seed++) {
		c.strategy = SIM_UNIFORM;
		c.seed = seed;
		ck_assert_int_eq(run_with(&c, events_main, NULL), SIM_PASS);
		sim_stop();
		if (!seed)
			memcpy(first, events.order, sizeof first);
		else
			differ += memcmp(first, events.order, sizeof first) != 0;
	}
	ck_assert_int_ge(differ, 8);
}
END_TEST

static void event_note(void *object, uint64_t arg)
{
	events.at[arg] = sim_now_ns();
}

static void event_never(void *object, uint64_t arg)
{
	ck_abort_msg("a cancelled event ran");
}

static void cancel_main(void *arg)
{
	static int object_a, object_b;
	struct sim_event_attr a = {.name = "timer", .kind = SIM_EVENT_TIMER, .delay_ns = 500};
	struct sim_event *h;

	memset(&events, 0, sizeof events);
	sim_event_post(&a, event_never, &object_a, 0, &h);
	ck_assert(sim_event_cancel(h));
	for (int i = 0; i < 20; i++) {
		a.delay_ns = 100 + (uint64_t)i * 37 % 200;
		sim_event_post(&a, event_never, &object_b, 0, NULL);
		sim_event_post(&a, event_note, &object_a, (uint64_t)i % 16, NULL);
	}
	sim_events_cancel_object(&object_b);
	a.delay_ns = 700;
	sim_event_post(&a, event_note, &object_a, 15, NULL);
	os_sleep_ns(10000);
	ck_assert_uint_eq(events.at[15], 700);
	for (int i = 4; i < 15; i++)
		ck_assert_uint_eq(events.at[i], 100 + (uint64_t)i * 37 % 200);
}

START_TEST(cancelled_events_do_not_run)
{
	struct sim_config c = fifo();

	ck_assert_int_eq(run_with(&c, cancel_main, NULL), SIM_PASS);
	sim_stop();
}
END_TEST

/* ---- time ----------------------------------------------------------------------------------- */

static void time_main(void *arg)
{
	struct sim_resource link = {.name = "link", .mbps = 25000}; /* 25 GB/s */

	ck_assert_uint_eq(sim_resource_use(&link, 1000000), 40000);
	ck_assert_uint_eq(sim_resource_use(&link, 1000000), 80000); /* after the first */
	ck_assert_uint_eq(sim_latency(1500), 1500);
	os_sleep_ns(100000);
	ck_assert_uint_eq(os_now_ns(), 100000);
	ck_assert_uint_eq(sim_resource_use(&link, 25), 1); /* idle again */
	os_charge(OS_COST_NS, 300);
	ck_assert_uint_eq(os_now_ns(), 100000); /* owed, not paid */
	sim_point("test");
	ck_assert_uint_eq(os_now_ns(), 100300);
	sim_charge_ns(700);
	sim_point("test");
	ck_assert_uint_eq(os_now_ns(), 101000);
}

START_TEST(charges_and_resources_are_exact_under_fifo)
{
	struct sim_config c = fifo();

	ck_assert_int_eq(run_with(&c, time_main, NULL), SIM_PASS);
	ck_assert_uint_eq(sim_now_ns(), 101000);
	sim_stop();
}
END_TEST

/* ---- choices -------------------------------------------------------------------------------- */

static uint32_t chosen[100];

static void choose_main(void *arg)
{
	struct sim_rng a, b;

	for (int i = 0; i < 100; i++) {
		chosen[i] = os_choose("test.choice", 7);
		ck_assert_uint_lt(chosen[i], 7);
	}
	ck_assert_uint_eq(os_choose("test.one", 1), 0);
	/* a stream depends on seed and name alone */
	sim_rng_init(&a, "test.stream");
	uint64_t first = sim_rng_u64(&a);
	sim_rng_init(&b, "test.stream");
	ck_assert_uint_eq(sim_rng_u64(&b), first);
	sim_rng_init(&b, "test.other");
	ck_assert_uint_ne(sim_rng_u64(&b), first);
	for (int i = 0; i < 1000; i++)
		ck_assert_uint_lt(sim_rng_below(&a, 10), 10);
	struct ping p = {.rounds = 100};
	ping_main(&p);
}

START_TEST(recorded_choices_replay_to_the_same_hash)
{
	char path[] = "/tmp/doppel_choices_XXXXXX";
	struct sim_config c = fifo();
	uint32_t before[100];

	close(mkstemp(path));
	for (uint64_t seed = 1; seed < 10; seed++) {
		c = fifo();
		c.strategy = SIM_PORTFOLIO;
		c.seed = seed;
		c.choices_out = path;
		ck_assert_int_eq(run_with(&c, choose_main, NULL), SIM_PASS);
		uint64_t hash = sim_hash();
		memcpy(before, chosen, sizeof before);
		sim_stop();
		c.choices_out = NULL;
		c.choices_in = path;
		c.seed = 999; /* the file's counts */
		ck_assert_int_eq(run_with(&c, choose_main, NULL), SIM_PASS);
		ck_assert_uint_eq(sim_hash(), hash);
		ck_assert_mem_eq(before, chosen, sizeof before);
		sim_stop();
	}
	unlink(path);
}
END_TEST

START_TEST(choices_come_from_bytes_and_are_quiet_elsewhere)
{
	/* slot 15 is not the scheduler's; "test.choice" has one of 8..15 */
	uint8_t bytes[3 * 400];
	struct sim_config c = fifo();
	uint64_t quiet_hash = 0, hash[2];

	for (uint8_t i = 0; i < 8; i++)
		memcpy(&bytes[3 * i], (uint8_t[]){8 + i, 10, 3}, 3);
	c.strategy = SIM_UNIFORM;
	c.choice_bytes = bytes;
	for (int i = 0; i < 3; i++) {
		c.choice_bytes_n = i ? 3 * 8 : 0;
		ck_assert_int_eq(run_with(&c, choose_main, NULL), SIM_PASS);
		for (int k = 0; k < 100; k++)
			ck_assert_uint_eq(chosen[k], i && k == 10 ? 3 : 0);
		if (i)
			hash[i - 1] = sim_hash();
		else
			quiet_hash = sim_hash();
		sim_stop();
	}
	ck_assert_uint_eq(hash[0], hash[1]);
	ck_assert_uint_eq(hash[0], quiet_hash); /* what os_choose gave is not folded in */
	/* the scheduler's own choice of a task, after a few points */
	for (int i = 0; i < 400; i++)
		memcpy(&bytes[3 * i], (uint8_t[]){i % 2, 0, i % 2 ? 2 : (uint8_t)i / 2}, 3);
	c.choice_bytes_n = sizeof bytes;
	ck_assert_int_eq(run_with(&c, choose_main, NULL), SIM_PASS);
	ck_assert_uint_ne(sim_hash(), quiet_hash);
	sim_stop();
	c.choices_in = "both";
	ck_assert_int_eq(sim_start(&c), EINVAL);
}
END_TEST

START_TEST(malformed_choice_files_are_refused)
{
	static const char *const bad[] = {
		"",
		"hello",
		"doppel-choices 1\nseed 1\nstrategy pct\n",
		"doppel-choices 2\nseed 0x1\nstrategy none\n",
		"doppel-choices 2\nseed 0x1\nstrategy pct\nsite a 2\n1:0\n",
		"doppel-choices 2\nseed 0x1\nstrategy pct\nsite a 2\n4:1 -2\n",
		"doppel-choices 2\nseed 0x1\nstrategy pct\nsite a 2\n4:1 -x\n",
		"doppel-choices 2\nseed 0x1\nstrategy pct\nsite a 2\n4:1 0:1\n",
		"doppel-choices 2\nseed 0x1\nstrategy pct\nwhat a 2\n"};
	char path[] = "/tmp/doppel_choices_XXXXXX";
	struct sim_config c = fifo();

	close(mkstemp(path));
	c.choices_in = path;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		FILE *f = fopen(path, "w");
		fputs(bad[i], f);
		fclose(f);
		ck_assert_int_eq(sim_start(&c), EINVAL);
	}
	unlink(path);
	ck_assert_int_eq(sim_start(&c), ENOENT);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("engine_sim");
	TCase *t = tcase_create("all");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, word_waits_wake_by_stores);
	tcase_add_test(t, fifo_hash_ignores_the_seed);
	tcase_add_test(t, same_seed_same_hash_other_seed_other_hash);
	tcase_add_test(t, events_of_one_order_keep_it_others_do_not);
	tcase_add_test(t, cancelled_events_do_not_run);
	tcase_add_test(t, charges_and_resources_are_exact_under_fifo);
	tcase_add_test(t, recorded_choices_replay_to_the_same_hash);
	tcase_add_test(t, choices_come_from_bytes_and_are_quiet_elsewhere);
	tcase_add_test(t, malformed_choice_files_are_refused);
	suite_add_tcase(s, t);
	return suite_run(s);
}
