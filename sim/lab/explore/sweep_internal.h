/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the files of a sweep: sweep.c (the campaign: workers, seeds, failures), sweep_worker.c
 * (what a worker does with a seed), sweep_record.c (a failing seed's folder), sweep_report.c (what
 * is printed).
 */
#ifndef SIM_LAB_SWEEP_INTERNAL_H
#define SIM_LAB_SWEEP_INTERNAL_H

#include <limits.h>

#include "sim/lab/explore/sweep.h"

/* A worker's end of a seed; small enough for an atomic write to the pipe. */
struct sweep_report {
	struct sweep_seed seed;
	bool last; /* the worker ends with it */
};
_Static_assert(sizeof(struct sweep_report) <= PIPE_BUF, "a report is written atomically");

/* Memory that a worker shares with the campaign: counts of sites, over all its seeds. */
struct sweep_shared {
	struct sweep_site buggify[SWEEP_SITES], fault[SWEEP_SITES], probe[SWEEP_SITES];
	uint32_t buggify_n, fault_n, probe_n;
	uint32_t side; /* which world of its seed a worker runs */
};

/* Times the limit of CPU time: the limit of real time, for a seed that does not even use a CPU. */
enum { SWEEP_LIMIT_REAL = 10 };

uint64_t sweep_now_ns(void);

/* Whether this seed has a planted failure, and at which step. */
uint64_t sweep_canary_step(const struct sweep_config *c, uint64_t seed);

/* Runs the seeds that it reads from `commands` (uint64_t each) until that is closed. Does not
 * return. */
void sweep_worker(const struct sweep_config *c, struct sweep_shared *shared, uint32_t worker,
		  int commands, int reports) __attribute__((noreturn));

/* Runs it in a fresh process and fills the log. An errno when that process did not get to its
 * end. */
int sweep_again(const struct sweep_config *c, const struct scenario *s, struct sim_hash_log *log,
		struct lab_result *result);

void sweep_add_site(struct sweep_site *sites, uint32_t *n, const char *name, uint64_t visits,
		    uint64_t hits);
void sweep_progress(const struct sweep_config *c, const struct sweep_result *r, uint64_t start_ns,
		    bool last);
/* One line of a failing seed. */
void sweep_print_seed(const struct sweep_seed *s, FILE *out);

/* sweep_record.c: runs a failing seed once more, in a child, with everything written down, and
 * compares. Sets dir and kept, and the verdict when the two differ. A positive errno: the files
 * could not be written, and what there was of them is gone; the seed is as it was. */
int sweep_record(const struct sweep_config *c, struct sweep_seed *f);

/* sweep_conclude.c: sorts the failures and adds up the sites of all workers. */
void sweep_conclude(struct sweep_result *r, const struct sweep_shared *shared, uint32_t jobs);

#endif
