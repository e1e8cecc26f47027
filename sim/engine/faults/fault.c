/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Faults in force: matches a visit of a site against the plan, counts visits, heals. Nothing here
 * is called without a plan or a request for figures (eng.any_faults).
 */
#include "sim/engine/faults/fault_state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { FAULT_HEAL_HOOKS = 4 };

struct fault_state fault_state = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Hooks are registered once, at load, and outlive engines. */
static void (*fault_heal_hook[FAULT_HEAL_HOOKS])(void);
static uint32_t fault_heal_hooks;

/* ---- sites ---------------------------------------------------------------------------------- */

static uint32_t fault_site_index(const char *name)
{
	for (uint32_t i = 0; i < fault_state.site_n; i++)
		if (strcmp(fault_state.site[i].site->name, name) == 0)
			return i;
	fprintf(stderr, "engine: fault site \"%s\" is in no table\n", name);
	abort();
}

/* Returns the site of a name. `name` is a string constant: its address stands for it. */
static struct fault_place_site *fault_site_get(const char *name)
{
	uint64_t key = (uint64_t)(uintptr_t)name;
	uint64_t *slot = &fault_state.cache[(key * 0x9e3779b97f4a7c15ull) >> 56];
	uint64_t v = __atomic_load_n(slot, __ATOMIC_RELAXED);

	if (v >> 8 != key) {
		v = key << 8 | fault_site_index(name);
		__atomic_store_n(slot, v, __ATOMIC_RELAXED);
	}
	return &fault_state.site[v & 0xff];
}

static void fault_sites_start(void)
{
	fault_state.site_n = 0;
	memset(fault_state.cache, 0, sizeof fault_state.cache);
	for (const struct fault_layer *l = fault_layers; l->name; l++) {
		for (const struct fault_site *s = l->site; s->name; s++) {
			ASSERT(fault_state.site_n < FAULT_SITES_MAX);
			fault_state.site[fault_state.site_n++] =
				(struct fault_place_site){.layer = l, .site = s};
		}
	}
}

static bool fault_is_for(const struct fault *f, const struct fault_place_site *s)
{
	if (f->site)
		return f->site == s->site;
	return f->layer == s->layer && fault_action_fail(s->site);
}

/* Builds each site's list of the faults that may fire there. */
static int fault_sites_want(void)
{
	for (uint32_t i = 0; i < fault_state.site_n; i++) {
		struct fault_place_site *s = &fault_state.site[i];

		for (uint32_t k = 0; k < fault_state.plan.n; k++) {
			const struct fault *f = &fault_state.plan.fault[k];

			if (!fault_is_for(f, s))
				continue;
			uint32_t *more = realloc(s->wanted, (s->wanted_n + 1) * sizeof *s->wanted);
			if (!more)
				return ENOMEM;
			s->wanted = more;
			s->wanted[s->wanted_n++] = k;
			s->wants_host |= (f->given & 1u << FAULT_HOST) != 0;
		}
		eng.point_faults |= s->wanted_n && (strcmp(s->site->name, "os.task") == 0 ||
						    strcmp(s->site->name, "cuda.warp") == 0);
	}
	return 0;
}

/* ---- matching ------------------------------------------------------------------------------- */

/* The place of a visit; -1: unknown. */
struct fault_place {
	int64_t value[FAULT_PLACE];
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

static void fault_place_label(const struct fault_place_site *s, const void *object, int64_t *v)
{
	struct os_label label;

	if (!object || !label_get(object, &label))
		return;
	v[FAULT_NUMBER_KEY] = label.number;
	v[FAULT_PEER] = label.peer;
	v[FAULT_CHANNEL] = label.channel;
	if (label.rank < 0)
		return;
	if (s->wants_host && v[FAULT_RANK] != label.rank)
		v[FAULT_HOST] = fault_host_of_rank(label.rank);
	v[FAULT_RANK] = label.rank;
}

static int64_t fault_place_name(const char *name)
{
	return name ? fault_name_key(name, strlen(name)) : -1;
}

/* Fills *place from the caller's data, or else the object's label, or else the calling task. */
static void fault_place_find(const struct fault_place_site *s, const void *object,
			     const struct sim_fault_place *at, struct fault_place *place)
{
	const struct sim_task *t = sim_task_self();
	int64_t *v = place->value;

	for (int i = 0; i < FAULT_PLACE; i++)
		v[i] = -1;
	if (t) {
		v[FAULT_RANK] = t->self.rank;
		v[FAULT_HOST] = t->self.proc->host;
		v[FAULT_STEP] = t->self.step;
	}
	fault_place_label(s, object, v);
	if (!at)
		return;
	if (at->host >= 0)
		v[FAULT_HOST] = at->host;
	if (at->step >= 0)
		v[FAULT_STEP] = at->step;
	v[FAULT_PORT] = at->port;
	v[FAULT_NIC] = fault_place_name(at->nic);
	v[FAULT_PEER_HOST] = at->peer_host;
	v[FAULT_PEER_PORT] = at->peer_port;
	v[FAULT_PEER_NIC] = fault_place_name(at->peer_nic);
	v[FAULT_STATE_KEY] = at->state;
}

/* True if the time that a key of the plan names has passed. */
static bool fault_is_past(const struct fault_origin *from, int64_t ns, uint64_t now_ns)
{
	uint64_t start_ns = from->is_operation ? from->start_ns : 0;

	return start_ns != ENGINE_NEVER && now_ns >= start_ns && now_ns - start_ns >= (uint64_t)ns;
}

static bool fault_matches(const struct fault *f, const struct fault_place *place, uint64_t now_ns)
{
	for (int k = 0; k < FAULT_PLACE; k++)
		if ((f->given & 1u << k) && f->key[k] != place->value[k])
			return false;
	if ((f->given & 1u << FAULT_AT) && eng.steps < (uint64_t)f->key[FAULT_AT])
		return false;
	if ((f->given & 1u << FAULT_UNTIL) && fault_is_past(&f->until, f->key[FAULT_UNTIL], now_ns))
		return false;
	return !(f->given & 1u << FAULT_AFTER) ||
	       fault_is_past(&f->after, f->key[FAULT_AFTER], now_ns);
}

static bool fault_draw(struct fault *f)
{
	uint32_t draw;

	if (!f->prob_den)
		return true;
	if (engine_in_sim() && eng.strategy != STRATEGY_FIFO)
		draw = choice_draw_quiet(f->choice, f->prob_den, f->prob_den - 1);
	else
		draw = (uint32_t)sim_rng_below(&fault_state.rng, f->prob_den);
	return draw < f->prob_num;
}

static bool fault_is_open(struct fault *f, uint64_t now_ns)
{
	if (f->open && now_ns >= f->close_ns)
		f->open = false;
	return f->open;
}

/* Counts a match. The fault fires within its window of nth and count, if the draw allows it. A
 * lasting fault that has begun fires without being counted. */
static bool fault_fires(struct fault *f, uint64_t now_ns)
{
	uint64_t nth = f->given & 1u << FAULT_NTH ? (uint64_t)f->key[FAULT_NTH] : 1;
	uint64_t count = f->given & 1u << FAULT_COUNT ? (uint64_t)f->key[FAULT_COUNT]
			 : f->prob_den                ? UINT64_MAX
						      : 1;

	if (fault_is_open(f, now_ns))
		return true;
	if ((f->given & 1u << FAULT_CALLER) && (f->fired >= count || !fault_caller_is(f)))
		return false;
	if (++f->matches < nth || f->fired >= count || !fault_draw(f))
		return false;
	f->fired++;
	fault_state.fired++;
	if (f->action && f->action->lasts) {
		f->open = true;
		f->close_ns = f->for_ns ? now_ns + f->for_ns : ENGINE_NEVER;
	}
	trace_record("fault", f->line, f->fired, f->arg);
	timeline_instant("fault injected", f->text);
	return true;
}

static void fault_fill(const struct fault *f, const struct fault_place_site *s, uint64_t now_ns,
		       struct os_fault *out)
{
	const struct fault_action *a = f->action ? f->action : fault_action_fail(s->site);

	*out = (struct os_fault){
		.kind = a->kind,
		.arg = f->action || f->arg_given ? f->arg : a->param[0].usual,
		.more = f->more,
		.left_ns = !a->lasts                     ? 0
			   : f->close_ns == ENGINE_NEVER ? ENGINE_NEVER
							 : f->close_ns - now_ns,
	};
}

/* Records the rank that a fault hit, and the process. */
static void fault_hit(int64_t rank)
{
	uint32_t proc = os_thread_is_known() ? os_proc()->id : FAULT_RANKS;

	if (proc < FAULT_RANKS)
		fault_state.hit_proc[proc / 64] |= 1ull << proc % 64;
	if (rank < 0 || rank >= FAULT_RANKS)
		fault_state.hit_any = true;
	else
		fault_state.hit[rank / 64] |= 1ull << rank % 64;
}

/* A call that a signal interrupts is made again, and no caller reports it. */
static bool fault_is_failure(const struct fault_place_site *s, const struct os_fault *f)
{
	bool interrupted = strncmp(s->site->name, "os.", 3) == 0 && f->arg == EINTR;

	return f->kind == OS_FAULT_FAIL && !interrupted;
}

static bool fault_visit(struct fault_place_site *s, const void *object,
			const struct sim_fault_place *at, struct os_fault *out)
{
	uint64_t now_ns = sim_now_ns() - eng.start_ns;
	struct fault_place place;

	fault_place_find(s, object, at, &place);
	for (uint32_t i = 0; i < s->wanted_n; i++) {
		ASSERT(s->wanted[i] < fault_state.plan.n);
		struct fault *f = &fault_state.plan.fault[s->wanted[i]];

		if (!fault_matches(f, &place, now_ns) || !fault_fires(f, now_ns))
			continue;
		s->fires++;
		fault_hit(place.value[FAULT_RANK]);
		fault_fill(f, s, now_ns, out);
		if (fault_is_failure(s, out))
			fault_failed_note(s->site->name, place.value[FAULT_RANK]);
		return true;
	}
	return false;
}

bool fault_check(const char *name, const void *object, const struct sim_fault_place *at,
		 struct os_fault *f)
{
	bool fires;

	if (eng.phase != ENGINE_RUNNING)
		return false;
	struct fault_place_site *s = fault_site_get(name);
	__atomic_fetch_add(&s->visits, 1, __ATOMIC_RELAXED);
	fault_caller_pass((uint32_t)(s - fault_state.site));
	if (!s->wanted_n || __atomic_load_n(&fault_state.healed, __ATOMIC_RELAXED))
		return false;
	if (engine_in_sim())
		return fault_visit(s, object, at, f);
	pthread_mutex_lock(&fault_state.lock);
	fires = fault_visit(s, object, at, f);
	pthread_mutex_unlock(&fault_state.lock);
	return fires;
}

bool sim_fault_armed(const char *site, const void *object, const struct sim_fault_place *at,
		     struct os_fault *f)
{
	return fault_check(site, object, at, f);
}

/* ---- operations ----------------------------------------------------------------------------- */

static void fault_origin_begin(struct fault_origin *from, uint64_t number, uint64_t now_ns)
{
	if (from->is_operation && from->number == number && from->start_ns == ENGINE_NEVER)
		from->start_ns = now_ns;
}

void sim_faults_operation(uint64_t number)
{
	uint64_t now_ns;

	if (!eng.any_faults || eng.phase != ENGINE_RUNNING)
		return;
	now_ns = sim_now_ns() - eng.start_ns;
	if (!engine_in_sim())
		pthread_mutex_lock(&fault_state.lock);
	for (uint32_t i = 0; i < fault_state.plan.n; i++) {
		fault_origin_begin(&fault_state.plan.fault[i].after, number, now_ns);
		fault_origin_begin(&fault_state.plan.fault[i].until, number, now_ns);
	}
	if (!engine_in_sim())
		pthread_mutex_unlock(&fault_state.lock);
}

/* ---- healing -------------------------------------------------------------------------------- */

void sim_on_heal(void (*hook)(void))
{
	ASSERT(fault_heal_hooks < FAULT_HEAL_HOOKS);
	fault_heal_hook[fault_heal_hooks++] = hook;
}

void sim_faults_heal(void)
{
	if (__atomic_exchange_n(&fault_state.healed, true, __ATOMIC_ACQ_REL))
		return;
	trace_record("faults heal", fault_state.fired, 0, 0);
	timeline_instant("faults heal", "");
	for (uint32_t i = 0; i < fault_heal_hooks; i++)
		fault_heal_hook[i]();
}

uint64_t sim_faults_heal_at_ns(void)
{
	return fault_state.plan.heal_ns ? fault_state.plan.heal_ns : UINT64_MAX;
}

bool sim_faults_healed(void)
{
	return __atomic_load_n(&fault_state.healed, __ATOMIC_ACQUIRE);
}

static void fault_heal_step(void *object, uint64_t arg)
{
	sim_faults_heal();
}

/* ---- life ----------------------------------------------------------------------------------- */

static int fault_plan_make(const struct sim_config *c)
{
	int rc = 0;

	if (c->fault_plan)
		rc = fault_plan_parse(c->fault_plan,
				      c->fault_plan_name ? c->fault_plan_name : "fault plan",
				      &fault_state.plan);
	if (!rc && c->fault_random) {
		char *text = fault_random_text();
		rc = text ? fault_plan_parse(text, fault_state.name, &fault_state.plan) : ENOMEM;
		free(text);
	}
	if (c->heal_ns && (!fault_state.plan.heal_ns || c->heal_ns < fault_state.plan.heal_ns))
		fault_state.plan.heal_ns = c->heal_ns;
	return rc;
}

int fault_start(void)
{
	const struct sim_config *c = &eng.config;

	fault_plan_free(&fault_state.plan);
	fault_state.fired = 0;
	memset(fault_state.hit, 0, sizeof fault_state.hit);
	memset(fault_state.hit_proc, 0, sizeof fault_state.hit_proc);
	fault_state.hit_any = fault_state.healed = false;
	fault_failed_start();
	snprintf(fault_state.name, sizeof fault_state.name, "plan of seed 0x%" PRIx64, eng.seed);
	sim_rng_init(&fault_state.rng, "engine.fault_prob");
	fault_sites_start();
	int rc = fault_plan_make(c);
	if (!rc)
		rc = fault_sites_want();
	if (rc) {
		fault_stop();
		return rc;
	}
	for (uint32_t i = 0; i < fault_state.plan.n; i++) {
		struct fault *f = &fault_state.plan.fault[i];
		char name[32];

		snprintf(name, sizeof name, "fault.%u", i);
		if (f->prob_den && engine_in_sim())
			f->choice = choice_site_find(name);
	}
	eng.any_faults = fault_state.plan.n || c->fault_stats;
	return 0;
}

void fault_run(void)
{
	const struct sim_event_attr attr = {.name = "engine.heal",
					    .kind = SIM_EVENT_TIMER,
					    .delay_ns = fault_state.plan.heal_ns};

	if (fault_state.plan.heal_ns)
		sim_event_post(&attr, fault_heal_step, NULL, 0, NULL);
}

/* Ends the run's faults. The plan remains, for printing, until the next one. */
void fault_stop(void)
{
	for (uint32_t i = 0; i < fault_state.site_n; i++) {
		free(fault_state.site[i].wanted);
		fault_state.site[i].wanted = NULL;
		fault_state.site[i].wanted_n = 0;
	}
}
