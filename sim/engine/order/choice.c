/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Choices and random streams. A choice has a site. Each site is a stream with its own generator,
 * recorded as (arity, value) and replayed from a file (choice_file.c). One more choice at one site
 * therefore shifts no other.
 *
 * Each choice has a quiet value, with which nothing special happens: the task that ran continues,
 * the latency is exact, the fault does not fire. Shrinking makes as many choices quiet as possible.
 * A replay takes a value that does not fit its arity modulo the arity. A stream that has run out,
 * or is not in the file, is quiet. Both cases are counted and reported. Under fifo every choice is
 * 0.
 *
 * Fuzzers may pass choices as bytes (sim_config.choice_bytes): records of three bytes, a slot, a
 * gap and a value. The sites that share a slot are quiet for `gap` choices and then take the value.
 * An added or removed record moves only the choices of its slot. Missing records are quiet.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/engine/order/choice_internal.h"
#include "sim/engine/base/gdb_hooks.h"
#include "sim/engine/base/output.h"

enum {
	CHOICE_CACHE = 256,
	CHOICE_SLOTS = 16, /* slots of choice_bytes */
	CHOICE_GAP_EXACT = 192,
	CHOICE_GAP_COARSE = 32,
};
DOPPEL_STATIC_CHECK(CHOICE_CACHE == 1 << (64 - 56), "choice_site_get uses the top eight bits");

static struct {
	struct choice_site *first, **end;
	struct {
		const char *name;
		struct choice_site *site;
	} cache[CHOICE_CACHE]; /* by address of the string constant; only a shortcut */
	bool record, replay, bytes;
	uint64_t strayed;
	/* the replay stopped early: later choices are not in the file, so they are not counted as
	 * strayed */
	bool cut;
} choices;

/* ---- random streams (xoshiro256**, Blackman and Vigna) -------------------------------------- */

static uint64_t rng_splitmix(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

void sim_rng_init(struct sim_rng *r, const char *stream)
{
	sim_rng_seed(r, eng.strategy == STRATEGY_FIFO ? 0 : eng.seed, stream);
}

void sim_rng_seed(struct sim_rng *r, uint64_t seed, const char *stream)
{
	uint64_t state = seed;

	state = rng_splitmix(&state);
	for (const char *p = stream; *p; p++)
		state = (state ^ (uint8_t)*p) * 0x100000001b3ull;
	for (int i = 0; i < 4; i++)
		r->s[i] = rng_splitmix(&state);
}

static inline uint64_t rng_rotl(uint64_t x, int k)
{
	return x << k | x >> (64 - k);
}

uint64_t sim_rng_u64(struct sim_rng *r)
{
	uint64_t *s = r->s, result = rng_rotl(s[1] * 5, 7) * 9, t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rng_rotl(s[3], 45);
	return result;
}

/* Multiplies instead of dividing: the bias is below n / 2^64. */
uint64_t sim_rng_below(struct sim_rng *r, uint64_t n)
{
	ASSERT(n > 0);
	return (uint64_t)(((unsigned __int128)sim_rng_u64(r) * n) >> 64);
}

bool sim_rng_ratio(struct sim_rng *r, uint32_t num, uint32_t den)
{
	ASSERT(den > 0 && num <= den);
	return sim_rng_below(r, den) < num;
}

/* ---- bytes ---------------------------------------------------------------------------------- */

/* Returns the slot of a site; the scheduler's own sites have a slot each. */
static uint32_t choice_slot(const char *name)
{
	static const char *const own[] = {"engine.run",      "engine.preempt", "engine.sleep",
					  "engine.event",    "engine.tie",     "engine.factor",
					  "engine.spurious", "engine.prio"};
	uint32_t h = 2166136261u;

	DOPPEL_STATIC_CHECK(ARRAY_LEN(own) < CHOICE_SLOTS, "other sites have slots, too");
	for (uint32_t i = 0; i < ARRAY_LEN(own); i++)
		if (strcmp(name, own[i]) == 0)
			return i;
	for (; *name; name++)
		h = (h ^ (uint8_t)*name) * 16777619u;
	return (uint32_t)ARRAY_LEN(own) + h % (CHOICE_SLOTS - (uint32_t)ARRAY_LEN(own));
}

static uint32_t choice_gap(uint8_t byte)
{
	return byte < CHOICE_GAP_EXACT
		       ? byte
		       : CHOICE_GAP_EXACT + (byte - CHOICE_GAP_EXACT) * CHOICE_GAP_COARSE;
}

static void choice_give_bytes(struct choice_site *s)
{
	const uint8_t *b = eng.config.choice_bytes;
	size_t n = eng.config.choice_bytes_n / 3;
	uint32_t slot = choice_slot(s->name), total = 0;

	for (size_t i = 0; i < n; i++)
		if (b[3 * i] % CHOICE_SLOTS == slot)
			total += choice_gap(b[3 * i + 1]) + 1;
	s->given = calloc(total ? total : 1, sizeof *s->given);
	ASSERT(s->given);
	for (size_t i = 0; i < n; i++) {
		if (b[3 * i] % CHOICE_SLOTS != slot)
			continue;
		s->given_n += choice_gap(b[3 * i + 1]);
		s->given[s->given_n++] = (struct choice){256, b[3 * i + 2]};
	}
	ASSERT(s->given_n == total);
}

/* ---- sites ---------------------------------------------------------------------------------- */

struct choice_site *choice_site_find(const char *name)
{
	struct choice_site *s;

	for (s = choices.first; s; s = s->next)
		if (strcmp(s->name, name) == 0)
			return s;
	s = calloc(1, sizeof *s);
	ASSERT(s);
	ASSERT(strlen(name) < sizeof s->name);
	strcpy(s->name, name);
	sim_rng_init(&s->rng, s->name);
	*choices.end = s;
	choices.end = &s->next;
	if (choices.bytes)
		choice_give_bytes(s);
	return s;
}

struct choice_site *choice_site_get(const char *name)
{
	uint32_t h = (uint32_t)(((uintptr_t)name * 0x9e3779b97f4a7c15ull) >> 56);

	if (choices.cache[h].name == name)
		return choices.cache[h].site;
	struct choice_site *s = choice_site_find(name);
	choices.cache[h].name = name;
	choices.cache[h].site = s;
	return s;
}

/* ---- drawing -------------------------------------------------------------------------------- */

static uint32_t choice_replay(struct choice_site *s, uint32_t n, uint32_t quiet)
{
	if (s->given_at >= s->given_n) {
		choices.strayed += !choices.cut;
		return quiet;
	}
	struct choice c = s->given[s->given_at++];
	if (!c.n)
		return quiet;
	if (choices.bytes && n > 256)
		return (uint32_t)((uint64_t)c.value * n >> 8);
	choices.strayed += c.n != n && !choices.cut;
	return c.value % n;
}

static void choice_note(struct choice_site *s, struct choice c)
{
	ASSERT(c.n ? c.value < c.n : c.value == 0); /* a quiet choice has no value */
	if (s->made_n == s->made_cap) {
		s->made_cap = s->made_cap ? 2 * s->made_cap : 256;
		s->made = realloc(s->made, s->made_cap * sizeof *s->made);
		ASSERT(s->made);
	}
	s->made[s->made_n++] = c;
}

static void choice_log(const struct choice_site *s, uint32_t n, uint32_t value)
{
	struct sim_choice_log *log = eng.config.choice_log;
	uint32_t at = log->n++;

	if (at >= log->cap)
		return;
	log->made[at] = (struct sim_choice_made){
		.index = s->drawn,
		.n = n,
		.value = value,
		.step = eng.steps,
		.task = eng.current ? (int32_t)eng.current->pub.self.id : -1,
		.other = -1,
	};
	snprintf(log->made[at].site, sizeof log->made[at].site, "%s", s->name);
}

void choice_log_tasks(int32_t task, int32_t other)
{
	struct sim_choice_log *log = eng.config.choice_log;

	if (!log || !log->n || log->n > log->cap)
		return;
	log->made[log->n - 1].task = task;
	log->made[log->n - 1].other = other;
}

uint32_t choice_draw_quiet(struct choice_site *s, uint32_t n, uint32_t quiet)
{
	uint32_t value = 0;

	ASSERT(n > 0 && quiet <= n);
	if (n == 1)
		return 0;
	if (choices.replay)
		value = choice_replay(s, n, quiet);
	else if (eng.strategy != STRATEGY_FIFO)
		value = (uint32_t)(((sim_rng_u64(&s->rng) >> 32) * n) >> 32);
	if (choices.record)
		choice_note(s, value == quiet ? (struct choice){0} : (struct choice){n, value});
	if (UNLIKELY(eng.config.choice_log) && value != quiet)
		choice_log(s, n, value);
	if (value != quiet)
		sim_gdb_point_trap(s->name);
	s->drawn++;
	return value;
}

uint32_t choice_draw(struct choice_site *s, uint32_t n)
{
	return choice_draw_quiet(s, n, 0);
}

uint32_t sim_choose(const char *site, uint32_t n)
{
	ASSERT(n > 0);
	if (eng.phase == ENGINE_OFF || !engine_in_sim())
		return 0;
	eng.steps++;
	return choice_draw(choice_site_get(site), n);
}

struct choice_site *choice_first(void)
{
	return choices.first;
}

int choice_start(void)
{
	memset(&choices, 0, sizeof choices);
	choices.end = &choices.first;
	choices.record = eng.config.choices_out || eng.config.fail_dir;
	choices.bytes = eng.config.choice_bytes != NULL;
	choices.replay = choices.bytes || eng.config.choices_in;
	int rc = eng.config.choices_out ? output_check("choices", eng.config.choices_out) : 0;
	return !rc && eng.config.choices_in ? choice_read(eng.config.choices_in) : rc;
}

void choice_cut(void)
{
	choices.cut = true;
}

void choice_stop(void)
{
	if (choices.strayed && !choices.bytes)
		fprintf(stderr,
			"choices: the replay strayed from the recording %" PRIu64 " times\n",
			choices.strayed);
	while (choices.first) {
		struct choice_site *s = choices.first;

		choices.first = s->next;
		free(s->made);
		free(s->given);
		free(s);
	}
	memset(&choices, 0, sizeof choices);
}
