/* SPDX-License-Identifier: BSD-3-Clause */
/* The campaign: hands out seeds, collects ends, replaces workers, records failures. */
#include "sim/lab/explore/sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/macros.h"
#include "sim/lab/check/found.h"
#include "sim/lab/explore/sweep_internal.h"

enum {
	SWEEP_JOBS_MAX = 256,
	SWEEP_POLL_MS = 100,
	SWEEP_CANARY_STEPS = 2000, /* a canary's step is below */
};

struct sweep_process {
	pid_t pid; /* 0: none */
	int commands;
	bool busy;
	uint64_t seed; /* that it runs, when busy */
	uint64_t since_ns, since_cpu_ns;
};

struct sweep {
	const struct sweep_config *config;
	struct sweep_result *result;
	struct sweep_shared *shared; /* one per worker */
	struct sweep_process process[SWEEP_JOBS_MAX];
	uint32_t jobs, busy;
	int reports[2];
	uint64_t start_ns, next;
	bool stop;
	int error; /* no worker could be started */
};

/* The first signal ends the sweep after the seeds that have ended so far; a second one
 * immediately. */
static volatile sig_atomic_t sweep_signal;

static void sweep_interrupted(int sig)
{
	sweep_signal = sig;
}

static void sweep_listen(void)
{
	const struct sigaction on = {.sa_handler = sweep_interrupted,
				     .sa_flags = (int)SA_RESETHAND};

	sweep_signal = 0;
	sigaction(SIGINT, &on, NULL);
	sigaction(SIGTERM, &on, NULL);
}

void sweep_config_default(struct sweep_config *c)
{
	memset(c, 0, sizeof *c);
	scenario_default(&c->base);
	c->swarm = true;
	c->first = 1;
	c->count = 1000;
	c->shard = c->shards = 1;
	c->seed_limit_ns = 30ull * 1000000000;
	c->twice_one_of = 20;
	c->max_failures = 20;
}

/* ---- what a seed runs ----------------------------------------------------------------------- */

uint64_t sweep_canary_step(const struct sweep_config *c, uint64_t seed)
{
	struct sim_rng rng;

	if (!c->canary)
		return 0;
	sim_rng_seed(&rng, seed, "sweep.canary");
	if (sim_rng_below(&rng, SWEEP_CANARY_ONE_OF))
		return 0;
	return 1 + sim_rng_below(&rng, SWEEP_CANARY_STEPS);
}

uint32_t sweep_sides(const struct sweep_config *c, uint64_t seed)
{
	bool some = c->swarm && c->faults != SCENARIO_FAULTS_NONE && !c->base.plan[0];

	return some ? SCENARIO_SIDES : 0;
}

void sweep_scenario(const struct sweep_config *c, uint64_t seed, uint32_t side, struct scenario *s)
{
	const struct sim_config *base = &c->base.lab.sim;

	if (!c->swarm) {
		*s = c->base;
		if (c->collectives)
			s->lab.collective = c->collective[seed % c->collectives];
	} else {
		struct sim_config *sim = &s->lab.sim;

		scenario_swarm(s, scenario_side_seed(seed, side),
			       side ? SCENARIO_FAULTS_CALL : c->faults);
		if (base->strategy != SIM_PORTFOLIO)
			sim->strategy = base->strategy;
		if (base->memory_order != SIM_MEMORY_DRAW)
			sim->memory_order = base->memory_order;
		sim->races |= base->races;
		scenario_take_plugins(s, c->base.lab.plugins);
		scenario_take_plugin_failure(s, c->base.lab.plugin_fails);
		if (base->budget_events)
			sim->budget_events = base->budget_events;
		if (base->budget_ns)
			sim->budget_ns = base->budget_ns;
		if (c->base.plan[0]) {
			memcpy(s->plan, c->base.plan, sizeof s->plan);
			sim->fault_random = false;
		}
	}
	s->lab.sim.seed = scenario_side_seed(seed, side);
	s->canary_step = side ? 0 : sweep_canary_step(c, seed);
}

/* ---- workers -------------------------------------------------------------------------------- */

static int sweep_start_worker(struct sweep *w, uint32_t i)
{
	struct sweep_process *p = &w->process[i];
	int commands[2];

	ASSERT(i < w->jobs && !p->pid);
	if (pipe2(commands, O_CLOEXEC))
		goto err;
	fflush(NULL);
	p->pid = fork();
	if (p->pid < 0) {
		close(commands[0]);
		close(commands[1]);
		goto err;
	}
	if (p->pid == 0) {
		for (uint32_t k = 0; k < w->jobs; k++)
			if (w->process[k].commands >= 0)
				close(w->process[k].commands);
		close(commands[1]);
		close(w->reports[0]);
		signal(SIGINT,
		       SIG_IGN); /* a terminal sends it to all; the sweep ends its workers */
		signal(SIGTERM, SIG_DFL);
		sweep_worker(w->config, &w->shared[i], i, commands[0], w->reports[1]);
	}
	close(commands[0]);
	p->commands = commands[1];
	p->busy = false;
	return 0;
err:
	p->pid = 0;
	fprintf(stderr, "sweep: cannot start a worker: %s\n", strerror(errno));
	return errno;
}

static bool sweep_more(const struct sweep *w)
{
	const struct sweep_config *c = w->config;

	if (w->stop || w->error || sweep_signal || (c->count && w->next >= c->count))
		return false;
	return !c->time_ns || sweep_now_ns() - w->start_ns < c->time_ns;
}

/* Returns the CPU time of a worker; 0: it has ended. On a busy machine it is much less than real
 * time. */
static uint64_t sweep_cpu_ns(pid_t pid)
{
	struct timespec t;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &t))
		return 0;
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static bool sweep_is_hung(const struct sweep *w, const struct sweep_process *p)
{
	uint64_t limit_ns = w->config->seed_limit_ns, real_ns = sweep_now_ns() - p->since_ns;

	if (!p->busy || real_ns <= limit_ns)
		return false;
	return sweep_cpu_ns(p->pid) > p->since_cpu_ns + limit_ns ||
	       real_ns > SWEEP_LIMIT_REAL * limit_ns;
}

static void sweep_assign_seed(struct sweep *w, uint32_t i)
{
	struct sweep_process *p = &w->process[i];

	ASSERT(p->pid && !p->busy);
	p->seed = w->config->first + w->next++;
	p->since_ns = sweep_now_ns();
	p->since_cpu_ns = sweep_cpu_ns(p->pid);
	p->busy = true;
	w->busy++;
	if (write(p->commands, &p->seed, sizeof p->seed) != (ssize_t)sizeof p->seed)
		fprintf(stderr, "sweep: worker %u does not listen: %s\n", i, strerror(errno));
}

/* ---- ends of seeds -------------------------------------------------------------------------- */

static void sweep_keep_failure(struct sweep_result *r, const struct sweep_seed *s)
{
	if (r->failure_n == r->failure_cap) {
		r->failure_cap = r->failure_cap ? 2 * r->failure_cap : 16;
		r->failure = realloc(r->failure, r->failure_cap * sizeof *r->failure);
		ASSERT(r->failure);
	}
	r->failure[r->failure_n++] = *s;
}

static void sweep_count_strategy(struct sweep_result *r, const char *name)
{
	for (uint32_t i = 0; i < SWEEP_STRATEGIES && name[0]; i++) {
		if (!r->strategy[i].name[0])
			snprintf(r->strategy[i].name, sizeof r->strategy[i].name, "%s", name);
		if (strcmp(r->strategy[i].name, name) == 0) {
			r->strategy[i].seeds++;
			return;
		}
	}
}

/* Writes the folder immediately, so that it is there when the sweep ends early. A full disk is an
 * error of its own; the verdict does not change. */
static void sweep_write_down(struct sweep *w, struct sweep_seed *s)
{
	const struct sweep_config *c = w->config;

	if (!c->fail_dir || s->canary || s->outcome == SIM_USAGE)
		return;
	int rc = sweep_record(c, s);
	if (!rc)
		return;
	if (!w->result->unrecorded++)
		fprintf(stderr,
			"%ssweep: no room for the files of seed 0x%" PRIx64
			" in %s: %s; its verdict stands, and those of later seeds do\n",
			c->terminal ? "\r\033[K" : "", s->seed, c->fail_dir, strerror(rc));
}

static void sweep_seed_ended(struct sweep *w, struct sweep_seed *s)
{
	const struct sweep_config *c = w->config;
	struct sweep_result *r = w->result;
	bool planted = sweep_canary_step(c, s->seed) != 0;

	ASSERT(s->collective < LAB_COLLECTIVES_MAX);
	r->seeds++;
	r->twice += s->twice;
	r->killed += s->killed;
	r->steps += s->steps;
	r->switches += s->switches;
	r->virtual_ns += s->virtual_ns;
	r->busy_ns += s->wall_ns;
	sweep_count_strategy(r, s->strategy);
	r->collective[s->collective]++;
	r->canaries += planted;
	s->canary = planted && s->outcome != SIM_PASS;
	r->canaries_found += s->canary;
	if (s->outcome == SIM_PASS) {
		r->passed++;
		return;
	}
	sweep_write_down(w, s);
	sweep_keep_failure(r, s);
	if (c->progress) {
		fprintf(c->progress, "%s", c->terminal ? "\r\033[K" : "");
		sweep_print_seed(s, c->progress);
	}
	if (c->max_failures && r->failure_n - r->canaries_found >= c->max_failures)
		w->stop = true;
}

/* It has ended, or ends by itself; its place is taken immediately. */
static void sweep_replace(struct sweep *w, uint32_t i)
{
	struct sweep_process *p = &w->process[i];

	if (p->pid) /* no waitpid for it yet */
		waitpid(p->pid, NULL, 0);
	close(p->commands);
	p->commands = -1;
	p->pid = 0;
	int rc = sweep_start_worker(w, i);
	if (rc)
		w->error = rc;
}

static void sweep_read_reports(struct sweep *w)
{
	static struct sweep_report report;

	while (read(w->reports[0], &report, sizeof report) == (ssize_t)sizeof report) {
		ASSERT(report.seed.worker < w->jobs);
		struct sweep_process *p = &w->process[report.seed.worker];

		ASSERT(p->busy && p->seed == report.seed.seed);
		p->busy = false;
		w->busy--;
		sweep_seed_ended(w, &report.seed);
		if (report.last)
			sweep_replace(w, report.seed.worker);
	}
}

/* A seed took its worker with it. */
static void sweep_seed_lost(struct sweep *w, uint32_t i, int status, bool hung)
{
	struct sweep_process *p = &w->process[i];
	struct sweep_seed s = {
		.seed = p->seed, .worker = i, .side = w->shared[i].side, .failure = {.rank = -1}};
	struct sim_failure *f = &s.failure;
	struct scenario *scenario = malloc(sizeof *scenario);

	ASSERT(scenario);
	sweep_scenario(w->config, s.seed, s.side, scenario);
	scenario_ranks(scenario, &s.nranks);
	s.collective = (uint32_t)(scenario->lab.collective - lab_collectives);
	free(scenario);
	s.wall_ns = sweep_now_ns() - p->since_ns;
	s.outcome = hung ? SIM_NO_PROGRESS : SIM_CRASH;
	s.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	f->verdict = s.outcome;
	snprintf(f->kind, sizeof f->kind, "crash");
	if (hung)
		found_hung(f, w->config->seed_limit_ns);
	else if (WIFSIGNALED(status))
		snprintf(f->message, sizeof f->message, "the process ended by signal %d (%s)",
			 WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		snprintf(f->message, sizeof f->message, "the process ended with code %d",
			 WEXITSTATUS(status));
	p->busy = false;
	w->busy--;
	sweep_seed_ended(w, &s);
}

/* Workers that died or hold on to a seed for too long are replaced. */
static void sweep_check_workers(struct sweep *w)
{
	for (uint32_t i = 0; i < w->jobs; i++) {
		struct sweep_process *p = &w->process[i];
		bool hung = sweep_is_hung(w, p);
		int status = 0;

		if (!p->pid)
			continue;
		if (hung)
			kill(p->pid, SIGKILL);
		if (waitpid(p->pid, &status, hung ? 0 : WNOHANG) != p->pid)
			continue;
		p->pid = 0;
		sweep_read_reports(w); /* its last one came before it ended, and replaces it */
		if (p->pid)
			continue;
		if (p->busy)
			sweep_seed_lost(w, i, status, hung);
		sweep_replace(w, i);
	}
}

static int sweep_seeds(struct sweep *w)
{
	struct pollfd poller = {.fd = w->reports[0], .events = POLLIN};

	for (;;) {
		for (uint32_t i = 0; i < w->jobs; i++)
			if (!w->process[i].busy && sweep_more(w))
				sweep_assign_seed(w, i);
		if (!w->busy || w->error || sweep_signal)
			return w->error;
		int n = poll(&poller, 1, SWEEP_POLL_MS);
		if (n < 0 && errno != EINTR)
			return errno;
		sweep_read_reports(w);
		if (n <= 0)
			sweep_check_workers(w);
		sweep_progress(w->config, w->result, w->start_ns, false);
	}
}

static void sweep_stop_workers(struct sweep *w)
{
	for (uint32_t i = 0; i < w->jobs; i++) {
		struct sweep_process *p = &w->process[i];

		if (p->commands >= 0)
			close(p->commands);
		if (p->pid && p->busy)
			kill(p->pid, SIGKILL);
		if (p->pid)
			waitpid(p->pid, NULL, 0);
		p->pid = 0;
	}
}

/* ---- the campaign -------------------------------------------------------------------------- */

int sweep_run(const struct sweep_config *c, struct sweep_result *result)
{
	static struct sweep w;
	size_t shared_bytes;
	int rc = 0;

	memset(result, 0, sizeof *result);
	rc = c->fail_dir ? fail_check_root(c->fail_dir) : 0;
	if (rc)
		return rc;
	w = (struct sweep){.config = c, .result = result, .start_ns = sweep_now_ns()};
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	w.jobs = MIN_OF(c->jobs ? c->jobs : (uint32_t)MAX_OF(cpus, 1l), (uint32_t)SWEEP_JOBS_MAX);
	shared_bytes = w.jobs * sizeof *w.shared;
	w.shared =
		mmap(NULL, shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (w.shared == MAP_FAILED || pipe2(w.reports, O_CLOEXEC)) {
		fprintf(stderr, "sweep: cannot start: %s\n", strerror(errno));
		return errno;
	}
	fcntl(w.reports[0], F_SETFL, O_NONBLOCK);
	signal(SIGPIPE, SIG_IGN);
	sweep_listen();
	for (uint32_t i = 0; i < w.jobs; i++)
		w.process[i].commands = -1;
	for (uint32_t i = 0; i < w.jobs && !rc; i++)
		rc = sweep_start_worker(&w, i);
	if (!rc)
		rc = sweep_seeds(&w);
	sweep_stop_workers(&w);
	result->wall_ns = sweep_now_ns() - w.start_ns;
	sweep_progress(c, result, w.start_ns, true);
	if (!rc)
		sweep_conclude(result, w.shared, w.jobs);
	result->signal = sweep_signal;
	close(w.reports[0]);
	close(w.reports[1]);
	munmap(w.shared, shared_bytes);
	return rc;
}

void sweep_result_free(struct sweep_result *result)
{
	free(result->failure);
	result->failure = NULL;
	result->failure_n = 0;
}
