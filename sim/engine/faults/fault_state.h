/* SPDX-License-Identifier: BSD-3-Clause */
/* The plan in force and what has happened to it: fault.c changes it, fault_figures.c reports it. */
#ifndef SIM_ENGINE_FAULTS_FAULT_STATE_H
#define SIM_ENGINE_FAULTS_FAULT_STATE_H

#include "sim/engine/faults/fault.h"
#include "sim/engine/order/order_internal.h"

enum {
	FAULT_CACHE = 256,
	FAULT_RANKS = 4096, /* ranks whose faults are recorded one by one */
};
DOPPEL_STATIC_CHECK(FAULT_SITES_MAX <= 1 << 8, "a cached site has the low eight bits of its entry");
DOPPEL_STATIC_CHECK(FAULT_CACHE == 1 << (64 - 56), "fault_site_get uses the top eight bits");
DOPPEL_STATIC_CHECK(FAULT_RANKS % 64 == 0, "fault_state.hit is whole words of bits");

/* A site of this run, with the faults of the plan that may fire there. */
struct fault_place_site {
	const struct fault_layer *layer;
	const struct fault_site *site;
	uint32_t *wanted, wanted_n; /* indices into the plan */
	bool wants_host;            /* one of the faults has the key host= */
	uint64_t visits, fires;
};

struct fault_state {
	struct fault_plan plan;
	struct fault_place_site site[FAULT_SITES_MAX];
	uint32_t site_n;
	uint64_t cache[FAULT_CACHE]; /* address of the name << 8 | site; only a shortcut */
	uint64_t fired;
	/* A bit for each rank, and for each process, at which a fault fired. A task of a
	 * communicator of some ranks has its rank there. */
	uint64_t hit[FAULT_RANKS / 64], hit_proc[FAULT_RANKS / 64];
	bool hit_any; /* a fault fired at an unknown rank: any rank may be hit */
	bool healed;
	char name[64];
	pthread_mutex_t lock; /* threads engine */
	struct sim_rng rng;   /* prob, if choices are not drawn: threads engine, fifo */
};

#pragma GCC visibility push(hidden)
extern struct fault_state fault_state;
#pragma GCC visibility pop

#endif
