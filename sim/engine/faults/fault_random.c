/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Draws plans from a seed: the number of hard lines, the number of mild ones, then the lines
 * (fault_recipes.c). Half of the hard lines fail a call of the catalogue: a site that can fail, at
 * its k-th visit, once or at every later visit too, of one rank or of any. A new site takes part
 * without a line here.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/engine/faults/fault.h"
#include "sim/engine/order/order_internal.h"

enum {
	RANDOM_CALL_NTH = 1024,
	RANDOM_SITES = 3,
	RANDOM_SITE_NTH = 8,
	RANDOM_HEAL_US = 20000,
	RANDOM_RARE_OF_HOST = 23
};

struct random_plan {
	FILE *out;
	struct sim_rng rng;
	uint32_t hosts, ranks, host; /* host: the last one drawn */
};

/* Draws a number from a range; wide ranges evenly over the powers of two. */
static uint32_t random_number(struct sim_rng *rng, uint32_t least, uint32_t most)
{
	if (!least || most / least < 16)
		return least + (uint32_t)sim_rng_below(rng, most - least + 1);
	uint32_t low = 31 - (uint32_t)__builtin_clz(least),
		 high = 31 - (uint32_t)__builtin_clz(most);
	uint32_t power = low + (uint32_t)sim_rng_below(rng, high - low + 1);
	uint32_t first = MAX_OF(1u << power, least), last = MIN_OF((2u << power) - 1, most);

	return first + (uint32_t)sim_rng_below(rng, last - first + 1);
}

static uint32_t random_value(struct random_plan *p, uint32_t least, uint32_t most)
{
	switch (least) {
	case FAULT_DRAW_RANK:
		return (uint32_t)sim_rng_below(&p->rng, p->ranks);
	case FAULT_DRAW_HOST:
		return p->host = (uint32_t)sim_rng_below(&p->rng, p->hosts);
	case FAULT_DRAW_SAME_HOST:
		return p->host;
	case FAULT_DRAW_OTHER_HOST:
		if (p->hosts == 1)
			return p->host;
		return (p->host + 1 + (uint32_t)sim_rng_below(&p->rng, p->hosts - 1)) % p->hosts;
	default:
		return random_number(&p->rng, least, most);
	}
}

static void random_recipe(struct random_plan *p, const struct fault_recipe *r)
{
	unsigned v[FAULT_RANGES_MAX];

	for (int i = 0; i < FAULT_RANGES_MAX; i++)
		v[i] = random_value(p, r->range[i].least, r->range[i].most);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-extra-args"
	fprintf(p->out, r->text, v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
#pragma GCC diagnostic pop
	fputc('\n', p->out);
}

static void random_recipe_from(struct random_plan *p, const struct fault_recipe *list)
{
	uint64_t weight = 0;

	for (const struct fault_recipe *r = list; r->text; r++)
		weight += r->weight;
	uint64_t draw = sim_rng_below(&p->rng, weight);
	const struct fault_recipe *r = list;
	for (; draw >= r->weight; r++)
		draw -= r->weight;
	random_recipe(p, r);
}

/* ---- calls ---------------------------------------------------------------------------------- */

static bool random_site_fits(const struct fault_site *s)
{
	return fault_action_fail(s) && !s->idle;
}

static const struct fault_site *random_site(struct random_plan *p)
{
	uint32_t n = 0;

	for (const struct fault_layer *l = fault_layers; l->name; l++)
		for (const struct fault_site *s = l->site; s->name; s++)
			n += random_site_fits(s);
	uint64_t draw = sim_rng_below(&p->rng, n);
	for (const struct fault_layer *l = fault_layers; l->name; l++)
		for (const struct fault_site *s = l->site; s->name; s++)
			if (random_site_fits(s) && draw-- == 0)
				return s;
	ASSERT(!"a draw beyond the last site");
	__builtin_unreachable();
}

static bool random_layer_fits(const struct fault_layer *l)
{
	bool fits = false;

	for (const struct fault_site *s = l->site; s->name && !fits; s++)
		fits = random_site_fits(s);
	return fits;
}

static bool random_can_stick(const struct fault_site *s)
{
	for (int i = 0; i < FAULT_ACTIONS_MAX && s->action[i].name; i++)
		if (s->action[i].kind == OS_FAULT_STICKY)
			return true;
	return false;
}

/* Fails a site at its k-th visit; k is `most` at most. */
static void random_call(struct random_plan *p, uint32_t most)
{
	const struct fault_site *s = random_site(p);
	uint64_t of_rank = sim_rng_below(&p->rng, 2), lasts = sim_rng_below(&p->rng, 4);
	uint64_t sticks = sim_rng_below(&p->rng, 8);
	uint32_t nth = random_number(&p->rng, 1, most);

	fprintf(p->out, "%s", s->name);
	if (of_rank)
		fprintf(p->out, " rank=%u", (unsigned)sim_rng_below(&p->rng, p->ranks));
	fprintf(p->out, " nth=%u%s %s\n", nth, lasts ? "" : " forever",
		!sticks && random_can_stick(s) ? "sticky" : "fail");
}

/* ---- the plan ------------------------------------------------------------------------------- */

static void random_mixed(struct random_plan *p)
{
	static const uint32_t hards[] = {0, 0, 1, 1, 1, 1, 2, 3};
	uint32_t hard = hards[sim_rng_below(&p->rng, ARRAY_LEN(hards))];
	uint64_t mild = sim_rng_below(&p->rng, 5);

	for (mild += !hard && !mild; mild; mild--)
		random_recipe_from(p, fault_recipes_mild);
	for (; hard; hard--) {
		if (sim_rng_below(&p->rng, 2))
			random_recipe_from(p, fault_recipes_hard);
		else
			random_call(p, RANDOM_CALL_NTH);
	}
}

/* Fails the nth call of a layer, whichever call that is. Most plans of random_call name a site that
 * the run does not visit often enough. */
static void random_call_of_layer(struct random_plan *p)
{
	const struct fault_layer *l = fault_layers;
	uint64_t n = 0;

	while (l->name)
		n += random_layer_fits(l++);
	uint64_t draw = sim_rng_below(&p->rng, n);

	for (l = fault_layers; !random_layer_fits(l) || draw--;)
		l++;
	uint32_t rank = (uint32_t)sim_rng_below(&p->rng, p->ranks);

	fprintf(p->out, "%s.any rank=%u nth=%u fail\n", l->name, (unsigned)rank,
		(unsigned)random_number(&p->rng, 1, RANDOM_CALL_NTH));
}

/* Several sites: most plans of one name a site that the run does not visit often enough. The first
 * line that fires ends the run. */
static void random_sites(struct random_plan *p)
{
	for (int i = 0; i < RANDOM_SITES; i++)
		random_call(p, i ? RANDOM_SITE_NTH : RANDOM_CALL_NTH);
}

/* Fails a call of a rank by its caller, so that a call that is made once fails as often as one that
 * is made at each step. The numbers of callers are those that a rank of a small world has. */
static void random_caller(struct random_plan *p)
{
	static const struct {
		const char *name;
		uint32_t weight, callers;
		bool hosts; /* for worlds of several hosts */
	} layers[] = {{"os", 9, 120, false},
		      {"cuda", 8, 84, false},
		      {"verbs", 4, 36, true},
		      {"nvml", 1, 10, false}};
	static const char *const errors[] = {"EPIPE", "ECONNRESET", "ENOTCONN", "EMFILE",
					     "EPERM", "ETIMEDOUT",  "ENOMEM",   "EHOSTUNREACH"};
	uint64_t at = sim_rng_below(&p->rng, 22), k = 0;

	while (at >= layers[k].weight)
		at -= layers[k++].weight;
	if (layers[k].hosts && p->hosts == 1)
		k = 0;
	uint32_t rank = (uint32_t)sim_rng_below(&p->rng, p->ranks);
	uint32_t caller = 1 + (uint32_t)sim_rng_below(&p->rng, layers[k].callers);
	bool later = sim_rng_below(&p->rng, 4) == 0, again = sim_rng_below(&p->rng, 4) == 0;
	bool lasts = sim_rng_below(&p->rng, 8) == 0, error = sim_rng_below(&p->rng, 3) == 0;
	uint32_t nth = random_number(&p->rng, 2, 64);
	const char *of = errors[sim_rng_below(&p->rng, ARRAY_LEN(errors))];

	fprintf(p->out, "%s.any rank=%u caller=%u", layers[k].name, (unsigned)rank,
		(unsigned)(later ? 1 + caller / 2 : caller));
	if (later)
		fputs(" after=collective+0us", p->out);
	if (again)
		fprintf(p->out, " nth=%u", (unsigned)nth);
	fprintf(p->out, "%s fail", lasts ? " forever" : "");
	if (error && k == 0)
		fprintf(p->out, " errno=%s", of);
	fputc('\n', p->out);
}

/* Fails one of the first calls of a site that starts, maps or ends something. A rank has few of
 * them, and those that end something come late, after most callers. */
static void random_rare(struct random_plan *p)
{
	static const struct {
		const char *site;
		bool hosts; /* for worlds of several hosts */
	} rare[] = {{"os.thread", false},
		    {"os.thread", false},
		    {"os.thread", false},
		    {"os.thread", false},
		    {"os.shm", false},
		    {"os.mailbox", false},
		    {"cuda.ipc_get", false},
		    {"cuda.ipc_open", false},
		    {"cuda.ipc_close", false},
		    {"cuda.cu_mem_create", false},
		    {"cuda.cu_mem_export", false},
		    {"cuda.cu_mem_import", false},
		    {"cuda.cu_mem_map", false},
		    {"cuda.cu_mem_unmap", false},
		    {"cuda.cu_mem_release", false},
		    {"cuda.malloc", false},
		    {"cuda.free", false},
		    {"cuda.host_alloc", false},
		    {"cuda.free_host", false},
		    {"cuda.stream_create", false},
		    {"cuda.stream_destroy", false},
		    {"cuda.event_create", false},
		    {"cuda.event_destroy", false},
		    {"verbs.alloc_pd", true},
		    {"verbs.dealloc_pd", true},
		    {"verbs.reg_mr", true},
		    {"verbs.reg_dmabuf_mr", true},
		    {"verbs.dereg_mr", true},
		    {"verbs.dereg_mr", true},
		    {"verbs.dereg_mr", true},
		    {"verbs.create_cq", true},
		    {"verbs.destroy_cq", true},
		    {"verbs.create_qp", true},
		    {"verbs.destroy_qp", true},
		    {"verbs.close_device", true}};
	uint64_t k = sim_rng_below(&p->rng, ARRAY_LEN(rare));
	uint32_t rank = (uint32_t)sim_rng_below(&p->rng, p->ranks);
	uint32_t nth = random_number(&p->rng, 1, 16);

	if (rare[k].hosts && p->hosts == 1)
		k %= RANDOM_RARE_OF_HOST;
	fprintf(p->out, "%s rank=%u nth=%u fail\n", rare[k].site, (unsigned)rank, (unsigned)nth);
}

static void random_caller_or_rare(struct random_plan *p)
{
	if (sim_rng_below(&p->rng, 5) == 0)
		random_rare(p);
	else
		random_caller(p);
}

/* Draws by caller, by layer or by site: by layer fails the most frequent calls, by site the rare
 * ones. */
static void random_any(struct random_plan *p)
{
	uint64_t how = sim_rng_below(&p->rng, 4);

	if (how >= 2)
		random_caller(p);
	else if (how == 1)
		random_call_of_layer(p);
	else
		random_sites(p);
}

static void random_early(struct random_plan *p)
{
	if (sim_rng_below(&p->rng, 2))
		random_caller(p);
	else
		random_recipe_from(p, fault_recipes_early);
}

static void random_survivable(struct random_plan *p)
{
	for (uint64_t n = 1 + sim_rng_below(&p->rng, 4); n; n--)
		random_recipe_from(p, fault_recipes_survivable);
}

static char *random_text(uint64_t seed, uint32_t hosts, uint32_t ranks,
			 void (*lines)(struct random_plan *p))
{
	struct random_plan p = {.hosts = hosts, .ranks = ranks};
	char *text = NULL;
	size_t n = 0;

	p.out = open_memstream(&text, &n);
	if (!p.out)
		return NULL;
	sim_rng_seed(&p.rng, seed, "engine.faults");
	lines(&p);
	if (fclose(p.out)) {
		free(text);
		return NULL;
	}
	return text;
}

char *sim_fault_draw(uint64_t seed, uint32_t hosts, uint32_t ranks)
{
	return random_text(seed, hosts, ranks, random_mixed);
}

char *sim_fault_draw_early(uint64_t seed, uint32_t hosts, uint32_t ranks)
{
	return random_text(seed, hosts, ranks, random_early);
}

char *sim_fault_draw_any(uint64_t seed, uint32_t hosts, uint32_t ranks)
{
	return random_text(seed, hosts, ranks, random_any);
}

char *sim_fault_draw_caller(uint64_t seed, uint32_t hosts, uint32_t ranks)
{
	return random_text(seed, hosts, ranks, random_caller_or_rare);
}

char *sim_fault_draw_survivable(uint64_t seed, uint32_t hosts, uint32_t ranks)
{
	return random_text(seed, hosts, ranks, random_survivable);
}

char *fault_random_text(void)
{
	uint64_t seed = eng.strategy == STRATEGY_FIFO ? 0 : eng.seed;
	char *text = sim_fault_draw(seed, 2, 4), *whole;
	struct sim_rng rng;

	if (!text)
		return NULL;
	sim_rng_init(&rng, "engine.faults.heal");
	bool heals = sim_rng_below(&rng, 2);
	uint64_t after_us = 1 + sim_rng_below(&rng, RANDOM_HEAL_US);
	if (!heals)
		return text;
	if (asprintf(&whole, "%sheal after=%" PRIu64 "us\n", text, after_us) < 0)
		whole = NULL;
	free(text);
	return whole;
}
