/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Charges of virtual time and trace records of entry points and HCA steps. Each costs almost no
 * time if no engine, trace or listener uses it.
 */
#ifndef BACKENDS_FAKEVERBS_POINT_H
#define BACKENDS_FAKEVERBS_POINT_H

#include "core/base/macros.h"
#include "core/os/os.h"
#include "sim/engine/memory/memory.h"
#include "sim/engine/sim.h"

#pragma GCC visibility push(hidden)

/* Durations inside an HCA; round numbers, close to a current HCA. */
#define HCA_DOORBELL_NS 150u
#define HCA_LOOPBACK_NS 300u
#define HCA_POST_NS     50u
#define HCA_POLL_NS     20u
#define HCA_CONTROL_NS  5000u
#define HCA_REG_NS      20000u

/* Begins an entry point. */
static inline void hca_point(const char *site, uint64_t ns)
{
	if (LIKELY(sim_is_calm()))
		return;
	sim_point(site);
	sim_charge_ns(ns);
}
static inline void hca_charge(uint64_t ns)
{
	if (UNLIKELY(!sim_is_calm()))
		sim_charge_ns(ns);
}
/* Reports that a poll found something. */
static inline void hca_poll_hit(void)
{
	if (UNLIKELY(sim_misses_are_counted()))
		os_poll_hit();
}
static inline void hca_trace(const char *kind, uint64_t a, uint64_t b, uint64_t c)
{
	if (!sim_is_plain())
		os_trace(kind, a, b, c);
}

#pragma GCC visibility pop

#endif
