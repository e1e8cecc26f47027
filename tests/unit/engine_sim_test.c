/* SPDX-License-Identifier: BSD-3-Clause */
/* Engine `sim`: tasks, waits, events, time, choices, verdicts. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "sim/engine/sim.h"

static struct sim_config fifo(void)
{
	return (struct sim_config){.engine = SIM_ENGINE_SIM, .seed = 7, .strategy = SIM_FIFO};
}

static enum sim_verdict run_with(const struct sim_config *c, void (*fn)(void *), void *arg)
{
	ck_assert_int_eq(sim_start(c), 0);
	enum sim_verdict v = sim_run(fn, arg);
	return v;
}

static struct os_thread *spawn(const char *name, int rank, void (*fn)(void *), void *arg)
{
	struct os_thread_attr a = {.name = name, .rank = rank};
	struct os_thread *t = NULL;

	ck_assert_int_eq(os_thread_start(&t, &a, fn, arg), 0);
	return t;
}

static struct wait wait_word(const shared_u32 *w, enum wait_kind kind, uint64_t want)
{
	return (struct wait){.on = w, .want = want, .mask = WAIT_MASK_ALL, .kind = (uint8_t)kind,
			     .bytes = 4, .why = "test word", .from = {-1, -1, -1, NULL}};
}

/* ---- ping-pong: two tasks over two words ---------------------------------------------------- */

struct ping {
	shared_u32 there, back;
	uint32_t rounds, done;
};

static void ping_echo(void *arg)
{
	struct ping *p = arg;

	for (uint32_t i = 1; i <= p->rounds; i++) {
		struct wait w = wait_word(&p->there, WAIT_GE, i);
		ck_assert_int_eq(os_wait_one(&w, NULL), 0);
		os_charge(OS_COST_NS, 30);
		shared_store_u32(&p->back, i, SHARED_RELEASE);
	}
}

static void ping_main(void *arg)
{
	struct ping *p = arg;
	struct os_thread *t = spawn("echo", 1, ping_echo, p);

	for (uint32_t i = 1; i <= p->rounds; i++) {
		shared_store_u32(&p->there, i, SHARED_RELEASE);
		struct wait w = wait_word(&p->back, WAIT_EQ, i);
		ck_assert_int_eq(os_wait_one(&w, NULL), 0);
		os_progress();
		p->done++;
	}
	ck_assert_int_eq(os_thread_join(t), 0);
	os_trace("ping.done", p->done, 0, 0);
}

static uint64_t ping_hash(enum sim_strategy strategy, uint64_t seed)
{
	struct sim_config c = fifo();
	struct ping p = {.rounds = 200};

	c.strategy = strategy;
	c.seed = seed;
	ck_assert_int_eq(run_with(&c, ping_main, &p), SIM_PASS);
	ck_assert_uint_eq(p.done, 200);
	uint64_t h = sim_hash();
	sim_stop();
	return h;
}

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

int main(void)
{
	Suite *s = suite_create("engine_sim");
	TCase *t = tcase_create("all");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, word_waits_wake_by_stores);
	tcase_add_test(t, fifo_hash_ignores_the_seed);
	tcase_add_test(t, same_seed_same_hash_other_seed_other_hash);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
