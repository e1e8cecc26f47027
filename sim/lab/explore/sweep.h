/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A campaign: many seeds, each a whole run, in worker processes. Called outside any engine, by a
 * program without threads (workers are forked). A seed that crashes its worker, or holds it longer
 * than the limit of CPU time, costs that seed only: the worker is replaced.
 *
 * One seed in `twice_one_of` is run a second time in a fresh process, with another environment and
 * another place for everything; both must end with the same hash. Failing seeds are run once more
 * with everything recorded (sim/lab/search/fail.h): the sweep itself records nothing.
 *
 * Times are real ns unless named virtual. Errors: 0 or a positive errno, explained on stderr.
 */
#ifndef SIM_LAB_SWEEP_H
#define SIM_LAB_SWEEP_H

#include "sim/lab/check/collective.h"
#include "sim/lab/search/fail.h"

enum { SWEEP_STRATEGIES = 10, SWEEP_SITES = 256, SWEEP_NAME_BYTES = 48, SWEEP_CANARY_ONE_OF = 100 };

struct sweep_config {
	/* The subject: a swarm, with those engine settings of `base` that are not the defaults,
	 * or `base` itself with another seed each. */
	struct scenario base;
	bool swarm;
	/* With a fixed base: each seed runs one of them, cyclically; 0: base's own. */
	const struct lab_collective *collective[LAB_COLLECTIVES_MAX];
	uint32_t collectives;
	enum scenario_faults faults; /* of the swarm */
	uint64_t first, count; /* seeds first .. first+count-1; count 0: until the time is up */
	/* This one is shard `shard` of `shards`, from 1, of a campaign with that digest; the seeds
	 * above are those of the shard. */
	uint32_t shard, shards;
	uint32_t campaign;
	uint64_t time_ns;       /* 0: no limit */
	uint32_t jobs;          /* 0: a process per CPU */
	uint64_t seed_limit_ns; /* of CPU time for one seed; 0: the default, 30 s */
	uint32_t twice_one_of;  /* 0: none; default 20 */
	/* This program's first argument that makes it call sweep_again_main with the second one;
	 * NULL: none is run twice. */
	const char *again;
	uint32_t max_failures; /* stop after that many; 0: never */
	const char *fail_dir;  /* NULL: nothing is kept */
	bool canary;           /* plant failures, and expect exactly those */
	bool show_output;      /* what runs print is shown; else dropped */
	FILE *progress;        /* NULL: quiet */
	bool terminal;         /* progress is a terminal: a bar */
};

/* One seed's end, as its worker reports it. */
struct sweep_seed {
	uint64_t seed, steps, switches, virtual_ns, hash, wall_ns;
	uint32_t nranks, worker;
	uint32_t side;       /* the side world that failed; 0: its own */
	uint32_t collective; /* a row of lab_collectives */
	enum sim_verdict outcome;
	int signal; /* that ended its worker; 0: none */
	char strategy[32];
	bool twice, canary, kept, killed; /* the plan ended a process */
	struct sim_failure failure;
	char dir[FAIL_DIR_BYTES]; /* where its files are, when kept */
};

struct sweep_site {
	char name[SWEEP_NAME_BYTES];
	uint64_t visits, hits;
};

struct sweep_strategy {
	char name[32];
	uint64_t seeds;
};

struct sweep_result {
	uint64_t seeds, passed, twice, canaries, canaries_found;
	uint64_t killed;     /* seeds in which the plan ended a process */
	uint64_t unrecorded; /* failures whose files could not be written */
	int signal;          /* that ended it early; 0: none */
	uint64_t steps, switches, virtual_ns, wall_ns, busy_ns;
	struct sweep_strategy strategy[SWEEP_STRATEGIES]; /* by name; the used ones first */
	uint64_t collective[LAB_COLLECTIVES_MAX];         /* seeds */
	struct sweep_site buggify[SWEEP_SITES], fault[SWEEP_SITES], probe[SWEEP_SITES];
	uint32_t buggify_n, fault_n, probe_n;
	struct sweep_seed *failure; /* sorted: worst, fewest ranks, shortest */
	uint32_t failure_n, failure_cap;
	enum sim_verdict verdict; /* of the worst; a missed canary: SIM_USAGE */
};

void sweep_config_default(struct sweep_config *c);
/* Number of side worlds of a seed, in the default swarm with faults. */
uint32_t sweep_sides(const struct sweep_config *c, uint64_t seed);
/* Makes the scenario of a seed of this campaign, or of a side world of it. */
void sweep_scenario(const struct sweep_config *c, uint64_t seed, uint32_t side, struct scenario *s);
int sweep_run(const struct sweep_config *c, struct sweep_result *result);
/* The second run of a seed, in the process that was started for it; the exit code of the program.
 * `tweak` may change the scenario, for tests of the comparison; else NULL. */
int sweep_again_main(const char *number, void (*tweak)(struct scenario *s));
/* Adds a shard's result, including its failures. Sites beyond SWEEP_SITES are left out. */
void sweep_merge(struct sweep_result *to, const struct sweep_result *shard);
/* Ends a series of sweep_merge: the order of the failures, and the verdict. */
void sweep_merge_end(struct sweep_result *r);
/* An exit code, or SIM_BY_SIGNAL plus the signal of a crash. */
int sweep_seed_code(const struct sweep_seed *seed);
/* Returns the exit code of the worst finding. */
int sweep_exit_code(const struct sweep_result *result);
void sweep_result_free(struct sweep_result *result);
void sweep_print(const struct sweep_config *c, const struct sweep_result *r, FILE *out);
void sweep_print_json(const struct sweep_config *c, const struct sweep_result *r, FILE *out);

#endif
