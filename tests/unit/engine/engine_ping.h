/* SPDX-License-Identifier: BSD-3-Clause */
/* Two tasks that wake each other over two words. */
#ifndef TESTS_UNIT_ENGINE_PING_H
#define TESTS_UNIT_ENGINE_PING_H

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/engine/base/gdb_hooks.h"
#include "sim/engine/sim.h"
#include "tests/suite.h"
#include "tests/unit/engine/engine_tasks.h"

/* ---- ping-pong: two tasks over two words ---------------------------------------------------- */

struct ping {
	shared_u32 there, back;
	uint32_t rounds, done;
};

static inline void ping_echo(void *arg)
{
	struct ping *p = arg;

	for (uint32_t i = 1; i <= p->rounds; i++) {
		struct wait w = wait_test_word(&p->there, WAIT_GE, i);
		ck_assert_int_eq(os_wait_one(&w, NULL), 0);
		os_charge(OS_COST_NS, 30);
		shared_store_u32(&p->back, i, SHARED_RELEASE);
	}
}

static inline void ping_main(void *arg)
{
	struct ping *p = arg;
	struct os_thread *t = spawn("echo", 1, ping_echo, p);

	for (uint32_t i = 1; i <= p->rounds; i++) {
		shared_store_u32(&p->there, i, SHARED_RELEASE);
		struct wait w = wait_test_word(&p->back, WAIT_EQ, i);
		ck_assert_int_eq(os_wait_one(&w, NULL), 0);
		os_progress();
		p->done++;
	}
	ck_assert_int_eq(os_thread_join(t), 0);
	os_trace("ping.done", p->done, 0, 0);
}

static inline uint64_t ping_hash(enum sim_strategy strategy, uint64_t seed)
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

#endif
