/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For tests of the stack: a world, a process per group of ranks, a task per rank, all torn down
 * and counted. Used by tests/sim, tests/internal and tests/collectives. A test is the function of
 * one rank; ranks meet through ranks_barrier and share `arg`.
 */
#ifndef TESTS_RANKS_H
#define TESTS_RANKS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/include/nccl.h"
#include "sim/engine/sim.h"
#include "sim/world/world.h"

#define RANKS_MOST 64

#define EXPECT(cond)                                                                               \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, #cond);        \
			abort();                                                                   \
		}                                                                                  \
	} while (0)
#define EXPECT_NCCL(want, call)                                                                    \
	do {                                                                                       \
		ncclResult_t got_ = (call);                                                        \
		if (got_ != (want)) {                                                              \
			fprintf(stderr, "%s:%d: %s gave %d (%s), expected %d; last error: %s\n",   \
				__FILE__, __LINE__, #call, (int)got_, ncclGetErrorString(got_),    \
				(int)(want), ncclGetLastError(NULL));                              \
			abort();                                                                   \
		}                                                                                  \
	} while (0)
#define EXPECT_ERROR_SAYS(part)                                                                    \
	do {                                                                                       \
		if (!strstr(ncclGetLastError(NULL), part)) {                                       \
			fprintf(stderr, "%s:%d: last error is '%s', expected it to say '%s'\n",    \
				__FILE__, __LINE__, ncclGetLastError(NULL), part);                 \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

struct ranks_config {
	uint32_t hosts, per_host, per_proc; /* 0: 1 */
	enum sim_engine engine;
	enum sim_strategy strategy;
	uint64_t seed;
	const char *machine;         /* NULL: h100-8nic */
	const char *const *machines; /* one per host; NULL: `machine` */
	const char *const *env;
	const char *fault_plan;
	const char *trace_path;   /* NULL: no trace file */
	struct sim_moment moment; /* engine sim */
	uint64_t *fired;          /* out: faults that happened; NULL: not wanted */
	bool on_proc0;            /* all ranks in the main task's own process */
	bool uncompared;          /* the world does not compare the ranks' calls */
	bool misuse;              /* a double may note some: the caller looks at sim_failure */
};

struct ranks {
	int32_t nranks;
	const struct ranks_config *config;
	void (*fn)(int32_t rank, int32_t nranks, void *arg);
	void *arg;
	ncclUniqueId id;
	shared_u64 arrived;
	struct os_proc *proc[RANKS_MOST];
};

struct ranks_task {
	struct ranks *all;
	int32_t rank;
	uint64_t barriers;
	struct os_thread *thread;
};

/* The running rank's own; NULL: not a rank's task. */
static inline struct ranks_task *ranks_self(void)
{
	return os_self()->slot[OS_SLOT_TEST];
}

/* All ranks meet. */
static inline void ranks_barrier(void)
{
	struct ranks_task *me = ranks_self();
	uint64_t want = (uint64_t)me->all->nranks * ++me->barriers;
	struct wait w = {
		.on = &me->all->arrived,
		.want = want,
		.mask = WAIT_MASK_ALL,
		.kind = WAIT_GE,
		.bytes = 8,
		.why = "test: all ranks",
		.from = {.rank = -1, .channel = -1, .step = -1},
	};
	shared_add_u64(&me->all->arrived, 1, SHARED_ACQ_REL);
	EXPECT(os_wait_one(&w, NULL) == 0);
}

/* Rank 0's unique id, for all. */
static inline ncclUniqueId ranks_id(void)
{
	struct ranks_task *me = ranks_self();
	if (me->rank == 0)
		EXPECT_NCCL(ncclSuccess, ncclGetUniqueId(&me->all->id));
	ranks_barrier();
	return me->all->id;
}

static inline void ranks_task_main(void *arg)
{
	struct ranks_task *me = arg;
	os_self()->slot[OS_SLOT_TEST] = me;
	me->all->fn(me->rank, me->all->nranks, me->all->arg);
}

static inline void ranks_main(void *arg)
{
	struct ranks *all = arg;
	const struct ranks_config *c = all->config;
	struct ranks_task task[RANKS_MOST];
	uint32_t per_host = MAX_OF(c->per_host, 1u), per_proc = MAX_OF(c->per_proc, 1u);
	int procs = 0;

	for (int32_t r = 0; r < all->nranks; r++) {
		uint32_t host = (uint32_t)r / per_host, local = (uint32_t)r % per_host;
		char name[32];
		struct os_thread_attr attr = {.name = name, .rank = r};
		task[r] = (struct ranks_task){.all = all, .rank = r};
		if (!c->on_proc0 && local % per_proc == 0) {
			snprintf(name, sizeof name, "host%u/p%u", host, local / per_proc);
			EXPECT(world_proc_create(host, name, &all->proc[procs++]) == 0);
		}
		snprintf(name, sizeof name, "rank%d main", r);
		if (c->on_proc0)
			EXPECT(os_thread_start(&task[r].thread, &attr, ranks_task_main, &task[r]) ==
			       0);
		else
			EXPECT(world_thread_start(all->proc[procs - 1], &task[r].thread, &attr,
						  ranks_task_main, &task[r]) == 0);
	}
	for (int32_t r = 0; r < all->nranks; r++)
		os_thread_join(task[r].thread);
	for (int i = 0; i < procs; i++)
		if (world_proc_alive(all->proc[i]))
			world_proc_exit(all->proc[i]);
}

/* Runs fn on every rank; expects that everything ends and nothing is left. Returns the hash. */
static inline uint64_t ranks_run(const struct ranks_config *config,
				 void (*fn)(int32_t rank, int32_t nranks, void *arg), void *arg)
{
	struct sim_config sim = {
		.engine = config->engine,
		.strategy = config->strategy,
		.seed = config->seed,
		.fault_plan = config->fault_plan,
		.fault_plan_name = "test",
		.moment = config->moment,
		.trace_path = config->trace_path,
	};
	struct world_config world = {
		.hosts = MAX_OF(config->hosts, 1u),
		.machine = config->machine ? config->machine : "h100-8nic",
		.machines = config->machines,
		.env = config->env,
		.strict_device_view = true,
		.uncompared = config->uncompared,
	};
	struct ranks all = {.config = config, .fn = fn, .arg = arg};
	all.nranks = (int32_t)(world.hosts * MAX_OF(config->per_host, 1u));
	EXPECT(all.nranks <= RANKS_MOST);
	EXPECT(sim_start(&sim) == 0);
	EXPECT(world_create(&world) == 0);
	enum sim_verdict verdict = sim_run(ranks_main, &all);
	bool noted = config->misuse && verdict == SIM_MISUSE;

	if (verdict != SIM_PASS && !noted) {
		const struct sim_failure *failure = sim_failure();

		fprintf(stderr, "seed %llu, faults '%s': verdict %d: %s\n",
			(unsigned long long)config->seed,
			config->fault_plan ? config->fault_plan : "", (int)verdict,
			failure ? failure->message : "no failure");
		abort();
	}
	uint64_t hash = sim_hash();
	if (config->fired)
		*config->fired = sim_faults_fired();
	uint64_t leaks = world_destroy();
	if (leaks) {
		fprintf(stderr, "seed %llu, faults '%s': %llu leaks\n",
			(unsigned long long)config->seed,
			config->fault_plan ? config->fault_plan : "", (unsigned long long)leaks);
		abort();
	}
	sim_stop();
	return hash;
}

#endif
