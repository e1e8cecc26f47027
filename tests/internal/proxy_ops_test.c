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

struct numbered {
	struct proxy_node node;
	uint32_t number;
};

static uint32_t number_of(const struct proxy_node *node)
{
	return ((const struct numbered *)node)->number;
}

START_TEST(push_survives_spurious_failures)
{
	struct os_sched_ops ops = os_posix_ops;
	struct numbered n[64];
	struct proxy_posted list = {};
	struct proxy_node *node;

	ops.fault = every_other_fails;
	ops.shared_point = no_point;
	os_install(&ops, NULL);
	for (uint32_t i = 0; i < 64; i++) {
		n[i].number = i;
		proxy_posted_push(&list, &n[i].node, &n[i].node);
	}
	ck_assert_uint_ge(draws, 128);
	node = proxy_posted_take(&list);
	for (uint32_t i = 0; i < 64; i++, node = node->next)
		ck_assert_uint_eq(number_of(node), i);
	ck_assert_ptr_null(node);
	ck_assert_ptr_null(proxy_posted_take(&list));
	os_install(&os_posix_ops, NULL);
}
END_TEST

START_TEST(chains_come_out_oldest_first)
{
	struct numbered n[6] = {};
	struct proxy_posted list = {};
	struct proxy_node *node;

	for (uint32_t i = 1; i <= 5; i++)
		n[i].number = i;
	n[3].node.next = &n[2].node;
	n[2].node.next = &n[1].node;
	proxy_posted_push(&list, &n[3].node, &n[1].node);
	n[5].node.next = &n[4].node;
	proxy_posted_push(&list, &n[5].node, &n[4].node);
	node = proxy_posted_take(&list);
	for (uint32_t i = 1; i <= 5; i++, node = node->next)
		ck_assert_uint_eq(number_of(node), i);
	ck_assert_ptr_null(node);
}
END_TEST

/* ---- two that push, one that takes ---------------------------------------------------------- */

#define NODES 200

struct crowd {
	struct numbered n[2 * NODES + 1];
	struct proxy_posted list;
	uint32_t last[2], taken;
};

static void crowd_push(struct crowd *c, uint32_t first)
{
	for (uint32_t i = first; i < first + NODES; i++) {
		c->n[i].number = i;
		proxy_posted_push(&c->list, &c->n[i].node, &c->n[i].node);
	}
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
	const struct wait w = proxy_posted_wait(&c->list, -1, "nodes", NULL);
	const struct proxy_node *node = proxy_posted_take(&c->list);

	if (!node)
		os_wait_one(&w, NULL);
	for (; node; node = node->next) {
		uint32_t number = number_of(node), from = number > NODES;

		ck_assert_uint_gt(number, c->last[from]); /* those of one task are in order */
		c->last[from] = number;
		c->taken++;
	}
}

static void crowd_main(void *arg)
{
	struct os_thread_attr low = {.name = "low", .rank = -1},
			      high = {.name = "high", .rank = -1};
	struct os_thread *a, *b;
	struct crowd *c = arg;

	ck_assert_int_eq(os_thread_start(&a, &low, crowd_push_low, c), 0);
	ck_assert_int_eq(os_thread_start(&b, &high, crowd_push_high, c), 0);
	while (c->taken < 2 * NODES)
		crowd_take(c);
	os_thread_join(a);
	os_thread_join(b);
	ck_assert_ptr_null(proxy_posted_take(&c->list));
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
