/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker of a sweep: seeds one after the other in one process. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/macros.h"
#include "sim/lab/run/child.h"
#include "sim/lab/explore/sweep_internal.h"

enum { WORKER_SAMPLES = 1024, WORKER_EVERY = 256, WORKER_WINDOW = 1 << 16 };

uint64_t sweep_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

void sweep_add_site(struct sweep_site *sites, uint32_t *n, const char *name, uint64_t visits,
		    uint64_t hits)
{
	uint32_t i;

	for (i = 0; i < *n && strcmp(sites[i].name, name) != 0;)
		i++;
	if (i == *n) {
		if (i == SWEEP_SITES)
			return;
		snprintf(sites[i].name, sizeof sites[i].name, "%s", name);
		++*n;
	}
	sites[i].visits += visits;
	sites[i].hits += hits;
}

static void worker_count_sites(struct sweep_shared *shared)
{
	const struct sim_buggify_stat *stat;
	const struct sim_probe_stat *probe;
	uint32_t n = sim_buggify_stats(&stat), probes = sim_probe_stats(&probe);
	struct sim_fault_stat fault;

	for (uint32_t i = 0; i < n; i++)
		sweep_add_site(shared->buggify, &shared->buggify_n, stat[i].name, stat[i].visits,
			       stat[i].hits);
	for (uint32_t i = 0; i < probes; i++)
		sweep_add_site(shared->probe, &shared->probe_n, probe[i].name, 0, probe[i].hits);
	for (uint32_t i = 0; sim_fault_stat(i, &fault); i++)
		sweep_add_site(shared->fault, &shared->fault_n, fault.site, fault.visits,
			       fault.fires);
}

/* ---- twice ---------------------------------------------------------------------------------- */

/* The first sample in which they differ; false: in none. */
static bool worker_first_difference(const struct sim_hash_log *a, const struct sim_hash_log *b,
				    uint64_t *before, uint64_t *step)
{
	*before = 0;
	for (uint32_t i = 0; i < a->n && i < b->n; i++) {
		*step = MIN_OF(a->sample[i].step, b->sample[i].step);
		if (a->sample[i].step != b->sample[i].step ||
		    a->sample[i].hash != b->sample[i].hash)
			return true;
		*before = *step;
	}
	*step = *before;
	return false;
}

/* Both once more, with every step logged from the last sample on in which they agreed. */
static void worker_narrow(const struct sweep_config *c, struct scenario *s, uint64_t *before,
			  uint64_t *step)
{
	struct sim_hash_log log[2];
	struct lab_result r;

	for (int i = 0; i < 2; i++) {
		log[i] = (struct sim_hash_log){
			.first = *before, .every = 1, .cap = WORKER_WINDOW, .stop_when_full = true};
		log[i].sample = calloc(WORKER_WINDOW, sizeof *log[i].sample);
		if (!log[i].sample)
			break;
		s->lab.sim.hash_log = &log[i];
		if (i == 0)
			lab_run(scenario_lab(s), &r);
		else
			(void)sweep_again(c, s, &log[i], &r);
	}
	if (log[0].sample && log[1].sample)
		worker_first_difference(&log[0], &log[1], before, step);
	for (int i = 0; i < 2; i++)
		free(log[i].sample);
	s->lab.sim.hash_log = NULL;
}

static void worker_differs(struct sweep_seed *out, uint64_t step)
{
	out->outcome = SIM_NOT_DETERMINISTIC;
	out->failure = (struct sim_failure){.verdict = SIM_NOT_DETERMINISTIC,
					    .rank = -1,
					    .step = step,
					    .vtime_ns = out->virtual_ns,
					    .hash = out->hash};
	snprintf(out->failure.kind, sizeof out->failure.kind, "nondeterminism");
}

/* The seed once more, elsewhere. */
static void worker_twice(const struct sweep_config *c, struct scenario *s, struct sweep_seed *out,
			 struct sim_hash_log *log)
{
	struct lab_result second;
	uint64_t before, step;

	ASSERT(out->twice && out->outcome == SIM_PASS); /* a failure is shrunk, not compared */
	int rc = sweep_again(c, s, &log[1], &second);

	if (rc) {
		worker_differs(out, out->steps);
		snprintf(out->failure.message, sizeof out->failure.message,
			 "it passed, but not in a fresh process: %s", strerror(rc));
		return;
	}
	if (second.hash == out->hash && second.steps == out->steps)
		return;
	bool found = worker_first_difference(&log[0], &log[1], &before, &step);
	if (found || step)
		worker_narrow(c, s, &before, &step);
	worker_differs(out, step);
	snprintf(out->failure.message, sizeof out->failure.message,
		 "two runs ended with hashes %016" PRIx64 " (%" PRIu64 " steps) and %016" PRIx64
		 " (%" PRIu64 " steps); they first differ between step %" PRIu64 " and %" PRIu64,
		 out->hash, out->steps, second.hash, second.steps, before, step);
}

/* ---- a seed --------------------------------------------------------------------------------- */

static void worker_fill(const struct scenario *s, const struct lab_result *r,
			struct sweep_seed *out)
{
	out->steps = r->steps;
	out->switches = r->switches;
	out->virtual_ns = r->virtual_ns;
	out->hash = r->hash;
	out->nranks = (uint32_t)r->nranks;
	out->collective = (uint32_t)(s->lab.collective - lab_collectives);
	ASSERT(out->collective < lab_collectives_n); /* a row of the table, not a copy of one */
	out->outcome = lab_outcome(&s->lab, r);
	out->killed = r->killed != 0;
	snprintf(out->strategy, sizeof out->strategy, "%s", r->strategy);
	if (!r->failed)
		return;
	out->failure = r->failure;
	if (!out->virtual_ns) /* it never came to its end */
		out->virtual_ns = r->failure.vtime_ns;
}

/* The world of a failed run is not torn down; the next seed gets another process. */
static struct worker_now {
	struct scenario *scenario;
	struct sweep_report *report;
	struct sweep_shared *shared;
	int reports;
} worker_now;

static void worker_failed(const struct lab_result *r, void *arg)
{
	struct worker_now *now = arg;

	worker_fill(now->scenario, r, &now->report->seed);
	worker_count_sites(now->shared);
	now->report->last = true;
	ssize_t n = write(now->reports, now->report, sizeof *now->report);
	_exit(n == (ssize_t)sizeof *now->report ? SIM_PASS : SIM_USAGE);
}

/* Runs a world of a seed; a failed run does not return. EINVAL: it cannot be run (logged). */
static int worker_run(struct sweep_shared *shared, struct scenario *s, struct lab_result *r,
		      struct sweep_seed *out)
{
	int rc;

	s->lab.on_failed = worker_failed;
	s->lab.on_failed_arg = &worker_now;
	worker_now.scenario = s;
	rc = lab_run(scenario_lab(s), r);
	if (!rc) {
		worker_count_sites(shared);
		return 0;
	}
	out->outcome = SIM_USAGE;
	snprintf(out->failure.kind, sizeof out->failure.kind, "usage");
	snprintf(out->failure.message, sizeof out->failure.message, "it cannot be carried out: %s",
		 strerror(rc));
	return EINVAL;
}

static void worker_sides(const struct sweep_config *c, struct sweep_shared *shared,
			 struct sweep_seed *out)
{
	static struct scenario s;
	struct lab_result r;

	for (uint32_t side = 1; side <= sweep_sides(c, out->seed) && out->outcome == SIM_PASS;
	     side++) {
		out->side = shared->side = side;
		sweep_scenario(c, out->seed, side, &s);
		if (worker_run(shared, &s, &r, out))
			break;
		out->outcome = lab_outcome(&s.lab, &r);
		if (out->outcome != SIM_PASS) {
			worker_fill(&s, &r, out);
			break;
		}
		out->steps += r.steps;
		out->switches += r.switches;
		out->virtual_ns += r.virtual_ns;
		out->killed |= r.killed != 0;
		out->side = 0;
	}
	shared->side = 0;
}

static void worker_seed(const struct sweep_config *c, struct sweep_shared *shared, uint64_t seed,
			struct sweep_seed *out)
{
	static struct scenario s;
	static struct sim_hash_sample sample[2][WORKER_SAMPLES];
	struct sim_hash_log log[2];
	struct lab_result r;

	*out = (struct sweep_seed){.seed = seed, .worker = out->worker};
	out->twice = c->again && c->twice_one_of && seed % c->twice_one_of == c->twice_one_of / 2;
	for (int i = 0; i < 2; i++)
		log[i] = (struct sim_hash_log){
			.every = WORKER_EVERY, .cap = WORKER_SAMPLES, .sample = sample[i]};
	shared->side = 0; /* a worker before this one may have ended in another one */
	sweep_scenario(c, seed, 0, &s);
	s.lab.sim.hash_log = out->twice ? &log[0] : NULL;
	s.lab.sim.fault_stats = out->twice; /* counting costs; a sample is enough */
	uint64_t start = sweep_now_ns();
	if (worker_run(shared, &s, &r, out))
		return;
	worker_fill(&s, &r, out);
	s.lab.on_failed = NULL;
	if (out->twice && out->outcome == SIM_PASS) {
		s.lab.sim.hash_log = NULL;
		worker_twice(c, &s, out, log);
	}
	worker_sides(c, shared, out);
	out->wall_ns = sweep_now_ns() - start;
}

/* A build for coverage writes its counters at exit. */
#ifdef DOPPEL_COVERAGE
#define worker_exit exit
#else
#define worker_exit _exit
#endif

void sweep_worker(const struct sweep_config *c, struct sweep_shared *shared, uint32_t worker,
		  int commands, int reports)
{
	static struct sweep_report report;
	uint64_t seed;

	if (!c->show_output)
		child_silence();
	worker_now = (struct worker_now){.report = &report, .shared = shared, .reports = reports};
	while (read(commands, &seed, sizeof seed) == (ssize_t)sizeof seed) {
		report.seed.worker = worker;
		worker_seed(c, shared, seed, &report.seed);
		if (write(reports, &report, sizeof report) != (ssize_t)sizeof report)
			break;
	}
	fflush(NULL);
	worker_exit(SIM_PASS);
}
