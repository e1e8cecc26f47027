/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Faults in force: matching a visit of a site against the plan, and plans drawn from the seed.
 * Without a plan nothing here is called (eng.any_faults).
 */
#include "sim/engine/fault.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/engine/engine_internal.h"

static struct {
	struct fault *fault;
	uint32_t n;
	uint64_t fired;
	char name[64];
	pthread_mutex_t lock; /* threads engine */
	struct sim_rng rng;   /* threads engine: prob, where nothing is recorded */
} plan = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- matching ------------------------------------------------------------------------------- */

/* Where a visit happens: of the object's label, else of the calling task. -1: unknown. */
struct fault_place {
	int64_t value[FAULT_NUMBER + 1];
};

static int64_t fault_host_of_rank(int32_t rank)
{
	if (!engine_in_sim())
		pthread_mutex_lock(&threads_lock);
	int64_t host = -1;
	for (const struct sim_task *t = sim_task_first(); t; t = t->next) {
		if (t->self.rank == rank && t->self.proc) {
			host = t->self.proc->host;
			break;
		}
	}
	if (!engine_in_sim())
		pthread_mutex_unlock(&threads_lock);
	return host;
}

static void fault_place_find(const void *object, struct fault_place *place)
{
	const struct sim_task *t = sim_task_self();
	struct os_label label;
	int64_t *v = place->value;

	for (int i = 0; i <= FAULT_NUMBER; i++)
		v[i] = -1;
	if (t) {
		v[FAULT_RANK] = t->self.rank;
		v[FAULT_HOST] = t->self.proc->host;
	}
	if (!object || !label_get(object, &label))
		return;
	v[FAULT_NUMBER] = label.number;
	if (strcmp(label.what, "port") == 0) { /* a port belongs to a host; `peer` is its index */
		v[FAULT_RANK] = -1;
		v[FAULT_HOST] = label.peer;
		v[FAULT_PORT] = label.number;
		return;
	}
	v[FAULT_PEER] = label.peer;
	v[FAULT_CHANNEL] = label.channel;
	if (label.rank >= 0) {
		v[FAULT_RANK] = label.rank;
		v[FAULT_HOST] = fault_host_of_rank(label.rank);
	}
}

static bool fault_matches(const struct fault *f, const struct fault_place *place)
{
	for (int k = 0; k <= FAULT_NUMBER; k++)
		if ((f->given & 1u << k) && f->key[k] != place->value[k])
			return false;
	if ((f->given & 1u << FAULT_STEP) && eng.steps < (uint64_t)f->key[FAULT_STEP])
		return false;
	return !(f->given & 1u << FAULT_AFTER) ||
	       sim_now_ns() - eng.start_ns >= (uint64_t)f->key[FAULT_AFTER];
}

static bool fault_draw(struct fault *f)
{
	uint32_t draw;

	if (!f->prob_den)
		return true;
	if (engine_in_sim())
		draw = choice_draw(f->choice, f->prob_den);
	else
		draw = (uint32_t)sim_rng_below(&plan.rng, f->prob_den);
	return draw < f->prob_num;
}

/* A match is counted; it fires within its window of nth and count, if the draw says so. */
static bool fault_fires(struct fault *f)
{
	uint64_t nth = f->given & 1u << FAULT_NTH ? (uint64_t)f->key[FAULT_NTH] : 1;
	uint64_t count = f->given & 1u << FAULT_COUNT ? (uint64_t)f->key[FAULT_COUNT]
			 : f->prob_den                ? UINT64_MAX
						      : 1;

	if (++f->matches < nth || f->fired >= count)
		return false;
	return fault_draw(f);
}

static bool fault_visit(const struct fault_site *site, const struct fault_place *place,
			struct os_fault *out)
{
	for (uint32_t i = 0; i < plan.n; i++) {
		struct fault *f = &plan.fault[i];

		if (f->site != site || !fault_matches(f, place) || !fault_fires(f))
			continue;
		f->fired++;
		plan.fired++;
		*out = (struct os_fault){f->action->kind, f->arg};
		trace_record("fault", f->line, f->fired, f->arg);
		trace_instant("fault injected", f->text);
		return true;
	}
	return false;
}

bool fault_check(const char *name, const void *object, struct os_fault *f)
{
	const struct fault_site *site = fault_site_find(name, strlen(name));
	struct fault_place place;
	bool wanted = false, fires;

	if (eng.phase != ENGINE_RUNNING || !site)
		return false;
	for (uint32_t i = 0; i < plan.n; i++)
		wanted |= plan.fault[i].site == site;
	if (!wanted)
		return false;
	fault_place_find(object, &place);
	if (engine_in_sim())
		return fault_visit(site, &place, f);
	pthread_mutex_lock(&plan.lock);
	fires = fault_visit(site, &place, f);
	pthread_mutex_unlock(&plan.lock);
	return fires;
}

/* ---- a plan from the seed ------------------------------------------------------------------- */

/* What a drawn plan may contain; %u is drawn from 1..most. */
static const struct {
	const char *line;
	uint32_t most;
} fault_catalogue[] = {
	{"fabric.packet prob=1/%u drop", 256},
	{"fabric.packet prob=1/%u delay by=20us", 64},
	{"fabric.link after=%uus down for=100us", 2000},
	{"fabric.link after=%uus down", 2000},
	{"verbs.cqe nth=%u error", 64},
	{"verbs.reg_mr nth=%u fail", 16},
	{"os.alloc nth=%u fail", 400},
	{"os.socket nth=%u reset", 100},
	{"os.task after=%uus kill", 2000},
	{"shared.cas prob=1/%u spurious", 8},
};

/* Swarm: first which kinds exist at all in this run, then how strong each one is. */
static int fault_draw_plan(void)
{
	struct sim_rng rng;
	char text[2048];
	size_t n = 0;

	sim_rng_init(&rng, "engine.faults");
	text[0] = 0;
	for (size_t i = 0; i < ARRAY_LEN(fault_catalogue); i++) {
		uint64_t in = sim_rng_below(&rng, 4);
		uint64_t strength = sim_rng_below(&rng, fault_catalogue[i].most);

		if (in)
			continue;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		n += (size_t)snprintf(text + n, sizeof text - n, fault_catalogue[i].line,
				      1 + (unsigned)strength);
#pragma GCC diagnostic pop
		text[n++] = '\n';
		text[n] = 0;
	}
	return fault_plan_parse(text, plan.name, &plan.fault, &plan.n);
}

/* ---- life ----------------------------------------------------------------------------------- */

int fault_start(void)
{
	const struct sim_config *c = &eng.config;
	int rc = 0;

	plan.fault = NULL;
	plan.n = 0;
	plan.fired = 0;
	snprintf(plan.name, sizeof plan.name, "plan of seed 0x%" PRIx64, eng.seed);
	sim_rng_init(&plan.rng, "engine.fault_prob");
	if (c->fault_plan)
		rc = fault_plan_parse(c->fault_plan,
				      c->fault_plan_name ? c->fault_plan_name : "fault plan",
				      &plan.fault, &plan.n);
	if (!rc && c->fault_random)
		rc = fault_draw_plan();
	if (rc) {
		fault_stop();
		return rc;
	}
	for (uint32_t i = 0; i < plan.n; i++) {
		struct fault *f = &plan.fault[i];
		char name[32];

		snprintf(name, sizeof name, "fault.%u", i);
		if (f->prob_den && engine_in_sim())
			f->choice = choice_site_find(name);
		eng.any_faults = true;
		eng.point_faults |= strcmp(f->site->name, "os.task") == 0;
	}
	return 0;
}

void fault_stop(void)
{
	free(plan.fault);
	plan.fault = NULL;
	plan.n = 0;
}

uint64_t sim_faults_fired(void)
{
	return plan.fired;
}

/* ---- printing ------------------------------------------------------------------------------- */

void sim_fault_print_plan(FILE *out)
{
	for (uint32_t i = 0; i < plan.n; i++)
		fprintf(out, "fault %s   # matched %" PRIu64 ", fired %" PRIu64 "\n",
			plan.fault[i].text, plan.fault[i].matches, plan.fault[i].fired);
}

static void fault_print_actions(FILE *out, const struct fault_site *s)
{
	for (int i = 0; i < FAULT_ACTIONS_MAX && s->action[i].name; i++) {
		const struct fault_action *a = &s->action[i];

		fprintf(out, "%s%s", i ? " | " : "", a->name);
		if (a->param)
			fprintf(out, " [%s=%s]", a->param,
				strcmp(a->param, "errno") == 0    ? "NAME"
				: strcmp(a->param, "status") == 0 ? "NAME"
								  : "TIME");
	}
}

void sim_fault_print_sites(FILE *out)
{
	fprintf(out, "A fault plan has one fault a line; # starts a comment:\n\n"
		     "  LAYER.OPERATION [KEY=VALUE...] ACTION [PARAMETER=VALUE...]\n\n"
		     "sites and what they can do:\n");
	for (const struct fault_site *s = fault_sites; s->name; s++) {
		fprintf(out, "  %-19s ", s->name);
		fault_print_actions(out, s);
		fprintf(out, "   (%s)\n", s->what);
	}
	fprintf(out,
		"\nkeys:\n"
		"  host rank peer channel port number   where, all of them must match\n"
		"  step=N after=TIME                    not before that step, that virtual time\n"
		"  nth=N count=N                        from the N-th match on, that many times\n"
		"  prob=N/M                             each with that probability\n"
		"TIME is an integer with ns, us, ms or s. For example:\n"
		"  fabric.link host=1 after=200us down for=50us\n"
		"  verbs.cqe rank=3 peer=4 nth=17 error status=RETRY_EXC_ERR\n");
}
