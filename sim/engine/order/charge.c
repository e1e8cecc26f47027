/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Virtual time: the cost of work, and resources that are used serially. Integers only.
 *
 * Costs: an API call 200 ns, a proxy pass 100 ns, a copy by the CPU 10 GB/s (1 ns per 10 bytes,
 * rounded up). They are round figures of a present server. They make time pass in plausible
 * proportions and do not predict a machine.
 */
#include "sim/engine/order/order_internal.h"

enum { COST_CALL_NS = 200, COST_PROXY_PASS_NS = 100, COST_COPY_BYTES_PER_NS = 10 };

void clock_charge(enum os_cost what, uint64_t amount)
{
	struct task *t = eng.current;
	uint64_t ns = amount;

	if (!t)
		return;
	switch (what) {
	case OS_COST_CALL:
		ns = amount * COST_CALL_NS;
		break;
	case OS_COST_PROXY_PASS:
		ns = amount * COST_PROXY_PASS_NS;
		break;
	case OS_COST_COPY:
		ns = DIV_UP(amount, (uint64_t)COST_COPY_BYTES_PER_NS);
		break;
	case OS_COST_NS:
		break;
	}
	t->pub.debt_ns += ns;
}

void sim_charge_ns(uint64_t ns)
{
	if (engine_in_sim())
		clock_charge(OS_COST_NS, ns);
}

uint64_t sim_resource_use(struct sim_resource *r, uint64_t bytes)
{
	if (!engine_in_sim())
		return 0;
	uint64_t start = MAX_OF(r->free_at_ns, eng.now_ns);

	ASSERT(bytes < UINT64_MAX / 1000);
	if (bytes != r->last_bytes) {
		/* 1 MB/s is one byte in 1,000 ns */
		r->last_ns = r->mbps ? DIV_UP(bytes * 1000, r->mbps) : 0;
		r->last_bytes = bytes;
	}
	r->free_at_ns = start + strategy_factor(r->last_ns);
	return r->free_at_ns - eng.now_ns;
}

uint64_t sim_latency(uint64_t ns)
{
	return engine_in_sim() ? strategy_factor(ns) : 0;
}
