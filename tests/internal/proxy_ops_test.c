/* SPDX-License-Identifier: BSD-3-Clause */
/* The lists between tasks, when every other weak compare-and-swap fails for no reason, and when
 * tasks get in each other's way at every word. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "core/os/os_ops.h"
#include "core/proxy/proxy_internal.h"
#include "sim/engine/sim.h"
#include "tests/suite.h"

/* ---- alone, with spurious failures --------------------------------------------------------------
 */

static uint32_t draws;

static bool every_other_fails(const char *site, const void *object, struct os_fault *f)
{
	(void)object;
	if (strcmp(site, "shared.cas") || draws++ % 2)
		return false;
	*f = (struct os_fault){.kind = OS_FAULT_SPURIOUS};
	return true;
}

static void no_point(const void *addr, size_t bytes, enum shared_access access,
		     enum shared_order order)
{
	(void)addr, (void)bytes, (void)access, (void)order;
}

START_TEST(push_survives_spurious_failures)
{
	struct os_sched_ops ops = os_posix_ops;
	uint32_t next[65] = {0}, node;
	struct proxy_posted list = {.next = next};

	ops.fault = every_other_fails;
	ops.shared_point = no_point;
	os_install(&ops, NULL);
	for (uint32_t i = 1; i <= 64; i++)
		proxy_posted_push(&list, i, i);
	ck_assert_uint_ge(draws, 128);
	node = proxy_posted_take(&list);
	for (uint32_t i = 1; i <= 64; i++, node = next[node])
		ck_assert_uint_eq(node, i);
	ck_assert_uint_eq(node, 0);
	ck_assert_uint_eq(proxy_posted_take(&list), 0);
	os_install(&os_posix_ops, NULL);
}
END_TEST

START_TEST(chains_come_out_oldest_first)
{
	uint32_t next[7] = {0}, node;
	struct proxy_posted list = {.next = next};

	next[3] = 2;
	next[2] = 1;
	proxy_posted_push(&list, 3, 1);
	next[5] = 4;
	proxy_posted_push(&list, 5, 4);
	node = proxy_posted_take(&list);
	for (uint32_t i = 1; i <= 5; i++, node = next[node])
		ck_assert_uint_eq(node, i);
	ck_assert_uint_eq(node, 0);
}
END_TEST

/* ---- two who push, one who takes ------------------------------------------------------------ */

#define NODES 200

struct crowd {
	uint32_t next[2 * NODES + 1];
	struct proxy_posted list;
	uint32_t last[2], taken;
};

static void crowd_push(struct crowd *c, uint32_t first)
{
	for (uint32_t i = 0; i < NODES; i++)
		proxy_posted_push(&c->list, first + i, first + i);
}

static void crowd_push_low(void *arg)
{
	crowd_push(arg, 1);
}

static void crowd_push_high(void *arg)
{
	crowd_push(arg, NODES + 1);
}

static void crowd_take(struct crowd *c)
{
	struct wait w = {.on = &c->list.head,
			 .mask = WAIT_MASK_ALL,
			 .kind = WAIT_NE,
			 .bytes = 4,
			 .why = "nodes",
			 .from = {-1, -1, -1, NULL}};
	uint32_t node = proxy_posted_take(&c->list);

	if (!node)
		os_wait_one(&w, NULL);
	for (; node; node = c->next[node]) {
		uint32_t who = node > NODES;

		ck_assert_uint_gt(node, c->last[who]); /* each one's nodes in order */
		c->last[who] = node;
		c->taken++;
	}
}

static void crowd_main(void *arg)
{
	struct os_thread_attr low = {.name = "low", .rank = -1},
			      high = {.name = "high", .rank = -1};
	struct os_thread *a, *b;
	struct crowd *c = arg;

	c->list.next = c->next;
	ck_assert_int_eq(os_thread_start(&a, &low, crowd_push_low, c), 0);
	ck_assert_int_eq(os_thread_start(&b, &high, crowd_push_high, c), 0);
	while (c->taken < 2 * NODES)
		crowd_take(c);
	os_thread_join(a);
	os_thread_join(b);
	ck_assert_uint_eq(proxy_posted_take(&c->list), 0);
}

START_TEST(nothing_is_lost_in_any_order)
{
	for (uint64_t seed = 1; seed <= 50; seed++) {
		struct sim_config config = {.engine = SIM_ENGINE_SIM, .seed = seed};
		struct crowd crowd = {.taken = 0};

		ck_assert_int_eq(sim_start(&config), 0);
		ck_assert_int_eq(sim_run(crowd_main, &crowd), SIM_PASS);
		sim_stop();
		ck_assert_uint_eq(crowd.taken, 2 * NODES);
	}
}
END_TEST

START_TEST(nothing_is_lost_between_threads)
{
	struct sim_config config = {.engine = SIM_ENGINE_THREADS};
	struct crowd crowd = {.taken = 0};

	ck_assert_int_eq(sim_start(&config), 0);
	ck_assert_int_eq(sim_run(crowd_main, &crowd), SIM_PASS);
	sim_stop();
	ck_assert_uint_eq(crowd.taken, 2 * NODES);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("proxy_ops");
	TCase *t = tcase_create("posted");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, push_survives_spurious_failures);
	tcase_add_test(t, chains_come_out_oldest_first);
	tcase_add_test(t, nothing_is_lost_in_any_order);
	tcase_add_test(t, nothing_is_lost_between_threads);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
