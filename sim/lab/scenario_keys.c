/* SPDX-License-Identifier: BSD-3-Clause */
/* The keys of a scenario's text form: one table for writer and parser, and the values that are written in
 * a way of their own. */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "core/base/macros.h"
#include "sim/lab/collective.h"
#include "sim/lab/scenario_internal.h"

static const char *const text_strategies[] = {"portfolio", "uniform", "pct",
					      "starve",    "fifo",    NULL};
static const char *const text_engines[] = {"sim", "threads", NULL};
static const char *const text_maps[] = {"slot", "node", "seed", NULL};
static const char *const text_drives[] = {"rank", "process", NULL};
static const char *const text_memory_orders[] = {"draw", "off", "on", NULL};
static const char *const text_expects[] = {"auto", "success", "success-or-error", NULL};
static const char *const text_ends[] = {"in-order", "reversed", "seed", "each", NULL};
static const char *const text_leaves[] = {"abort", "destroy", "finalize", "each", NULL};
static const char *const text_faults[] = {"plan", "random", NULL};

/* ---- values of their own -------------------------------------------------------------------------- */

static void text_write_found_number(const struct text_key *k, const struct scenario *s, FILE *out)
{
	if (s->found.kind[0])
		text_write_number(k, s, out);
}

static void text_write_found_hex(const struct text_key *k, const struct scenario *s, FILE *out)
{
	if (s->found.kind[0])
		text_write_hex(k, s, out);
}

static void text_write_found_rank(const struct text_key *k, const struct scenario *s, FILE *out)
{
	if (s->found.kind[0] && s->found.rank >= 0)
		text_write_number(k, s, out);
}

static void text_write_found_text(const struct text_key *k, const struct scenario *s, FILE *out)
{
	if (s->found.kind[0])
		text_write_text(k, s, out);
}

static void text_write_set(const struct text_key *k, const struct scenario *s, FILE *out)
{
	if (s->lab.per_iteration)
		text_write_number(k, s, out);
}

static void text_write_ranks_per_proc(const struct text_key *k, const struct scenario *s, FILE *out)
{
	if (s->lab.ranks_per_proc == LAB_ALL_RANKS)
		fprintf(out, "%s all\n", k->name);
	else
		text_write_number(k, s, out);
}

static int text_parse_ranks_per_proc(const struct text_cursor *c, const struct text_key *k,
				     struct token v, struct scenario *s)
{
	if (!token_is(v, "all"))
		return text_parse_number(c, k, v, s);
	s->lab.ranks_per_proc = LAB_ALL_RANKS;
	return 0;
}

static void text_write_host_gpus(const struct text_key *k, const struct scenario *s, FILE *out)
{
	for (uint32_t i = 0; i < s->lab.host_gpus_n; i++)
		fprintf(out, "%s%u", i ? "," : "host-gpus ", s->lab.host_gpus[i]);
	if (s->lab.host_gpus_n)
		fputc('\n', out);
}

static int text_parse_host_gpus(const struct text_cursor *c, const struct text_key *k,
				struct token v, struct scenario *s)
{
	struct token w;
	uint64_t n;

	s->lab.host_gpus_n = 0;
	while (text_word(&v, &w)) {
		if (!token_number(w, &n) || n < 1 || n > 4096)
			return text_error(c, w.at,
					  "host-gpus: expected a number for each host, "
					  "such as 4,2,1");
		if (s->lab.host_gpus_n == LAB_MAX_HOST_GPUS)
			return text_error(c, w.at, "host-gpus: more than %d hosts",
					  LAB_MAX_HOST_GPUS);
		s->lab.host_gpus[s->lab.host_gpus_n++] = (uint32_t)n;
	}
	return 0;
}

static void text_write_devices(const struct text_key *k, const struct scenario *s, FILE *out)
{
	for (uint32_t i = 0; i < s->lab.device_count; i++)
		fprintf(out, "%s%d", i ? "," : "devices ", s->lab.devices[i]);
	if (s->lab.device_count)
		fputc('\n', out);
}

static int text_parse_devices(const struct text_cursor *c, const struct text_key *k, struct token v,
			      struct scenario *s)
{
	struct token w;
	uint64_t n;

	s->lab.device_count = 0;
	while (text_word(&v, &w)) {
		if (!token_number(w, &n) || n > INT32_MAX)
			return text_error(c, w.at, "devices: expected GPU indices such as 0,1,3");
		for (uint32_t i = 0; i < s->lab.device_count; i++)
			if (s->lab.devices[i] == (int32_t)n)
				return text_error(c, w.at, "devices: GPU %" PRIu64 " appears twice",
						  n);
		if (s->lab.device_count == LAB_MAX_DEVICES)
			return text_error(c, w.at, "devices: more than %d GPUs", LAB_MAX_DEVICES);
		s->lab.devices[s->lab.device_count++] = (int32_t)n;
	}
	return 0;
}

static void text_write_env(const struct text_key *k, const struct scenario *s, FILE *out)
{
	for (uint32_t i = 0; i < s->env_count; i++)
		fprintf(out, "env %s\n", s->env[i]);
}

int text_parse_env(const struct text_cursor *c, const struct text_key *k, struct token v,
		   struct scenario *s)
{
	char copy[SCENARIO_ENV_BYTES];

	if (v.n >= sizeof copy)
		return text_error(c, v.at, "env: expected at most %d characters, got %zu",
				  SCENARIO_ENV_BYTES - 1, v.n);
	memcpy(copy, v.at, v.n);
	copy[v.n] = 0;
	switch (scenario_set_env(s, copy)) {
	case 0:
		return 0;
	case ENOSPC:
		return text_error(c, v.at, "env: more than %d variables", SCENARIO_MAX_ENV);
	default:
		return text_error(c, v.at, "env: expected NAME=VALUE");
	}
}

/* The first row is the default, and was once the only one. */
static void text_write_collective(const struct text_key *k, const struct scenario *s, FILE *out)
{
	if (s->lab.collective != &lab_collectives[0])
		fprintf(out, "%s %s\n", k->name, s->lab.collective->name);
}

static int text_parse_collective_name(const struct text_cursor *c, const struct text_key *k,
				      struct token v, const struct lab_collective **out)
{
	const struct lab_collective *found = lab_collective_find(v.at, v.n);

	if (!found)
		return text_error(c, v.at, "%s: unknown collective \"%.*s\"; nearest: %s", k->name,
				  (int)v.n, v.at, lab_collective_nearest(v.at, v.n));
	*out = found;
	return 0;
}

static int text_parse_collective(const struct text_cursor *c, const struct text_key *k,
				 struct token v, struct scenario *s)
{
	return text_parse_collective_name(c, k, v, &s->lab.collective);
}

static void text_write_before(const struct text_key *k, const struct scenario *s, FILE *out)
{
	if (s->lab.before)
		fprintf(out, "%s %s\n", k->name, s->lab.before->name);
}

static int text_parse_before(const struct text_cursor *c, const struct text_key *k, struct token v,
			     struct scenario *s)
{
	return text_parse_collective_name(c, k, v, &s->lab.before);
}

static void text_write_root(const struct text_key *k, const struct scenario *s, FILE *out)
{
	if (!scenario_has_root(s) || s->lab.root == 0)
		return;
	if (s->lab.root == LAB_ALL_ROOTS)
		fprintf(out, "%s all\n", k->name);
	else
		fprintf(out, "%s %d\n", k->name, s->lab.root);
}

static int text_parse_root(const struct text_cursor *c, const struct text_key *k, struct token v,
			   struct scenario *s)
{
	if (!token_is(v, "all"))
		return text_parse_number(c, k, v, s);
	s->lab.root = LAB_ALL_ROOTS;
	return 0;
}

static void text_write_types(const struct text_key *k, const struct scenario *s, FILE *out)
{
	fputs("types", out);
	for (uint32_t i = 0; i < s->lab.type_count; i++)
		fprintf(out, " %s", payload_type_name(s->lab.types[i]));
	fputc('\n', out);
}

static int text_parse_types(const struct text_cursor *c, const struct text_key *k, struct token v,
			    struct scenario *s)
{
	const char *names[LAB_MAX_TYPES + 1] = {NULL};
	struct token w;
	int t;

	for (t = 0; t < LAB_MAX_TYPES; t++)
		names[t] = payload_type_name((ncclDataType_t)t);
	s->lab.type_count = 0;
	while (text_word(&v, &w)) {
		for (t = 0; t < LAB_MAX_TYPES && !token_is(w, names[t]);)
			t++;
		if (t == LAB_MAX_TYPES)
			return text_error(c, w.at, "types: unknown type \"%.*s\"; nearest: %s",
					  (int)w.n, w.at, text_nearest(w, names));
		if (s->lab.type_count == LAB_MAX_TYPES)
			return text_error(c, w.at, "types: more than %d", LAB_MAX_TYPES);
		s->lab.types[s->lab.type_count++] = (ncclDataType_t)t;
	}
	return s->lab.type_count ? 0 : text_error(c, v.at, "types: expected at least one");
}

static void text_write_ops(const struct text_key *k, const struct scenario *s, FILE *out)
{
	fputs("ops", out);
	for (uint32_t i = 0; i < s->lab.op_count; i++)
		fprintf(out, " %s", payload_op_name(s->lab.ops[i]));
	fputc('\n', out);
}

static int text_parse_ops(const struct text_cursor *c, const struct text_key *k, struct token v,
			  struct scenario *s)
{
	const char *names[LAB_MAX_OPS + 1] = {NULL};
	struct token w;
	int o;

	for (o = 0; o < LAB_MAX_OPS; o++)
		names[o] = payload_op_name((ncclRedOp_t)o);
	s->lab.op_count = 0;
	while (text_word(&v, &w)) {
		for (o = 0; o < LAB_MAX_OPS && !token_is(w, names[o]);)
			o++;
		if (o == LAB_MAX_OPS)
			return text_error(c, w.at, "ops: unknown operation \"%.*s\"; nearest: %s",
					  (int)w.n, w.at, text_nearest(w, names));
		if (s->lab.op_count == LAB_MAX_OPS)
			return text_error(c, w.at, "ops: more than %d", LAB_MAX_OPS);
		s->lab.ops[s->lab.op_count++] = (ncclRedOp_t)o;
	}
	return s->lab.op_count ? 0 : text_error(c, v.at, "ops: expected at least one");
}

static void text_write_place(const struct text_key *k, const struct scenario *s, FILE *out)
{
	fprintf(out, "place%s%s\n", s->lab.out_of_place ? " out" : "",
		s->lab.in_place ? " in" : "");
}

static int text_parse_place(const struct text_cursor *c, const struct text_key *k, struct token v,
			    struct scenario *s)
{
	struct token w;

	s->lab.in_place = s->lab.out_of_place = false;
	while (text_word(&v, &w)) {
		if (token_is(w, "in"))
			s->lab.in_place = true;
		else if (token_is(w, "out"))
			s->lab.out_of_place = true;
		else
			return text_error(c, w.at, "place: expected in, out or both words");
	}
	return s->lab.in_place || s->lab.out_of_place
		       ? 0
		       : text_error(c, v.at, "place: expected in, out or both words");
}

static void text_write_plan(const struct text_key *k, const struct scenario *s, FILE *out)
{
	bool start = true;

	if (!s->plan[0])
		return;
	fputs("plan\n", out);
	for (const char *p = s->plan; *p; p++) {
		if (start)
			fputc('\t', out);
		fputc(*p, out);
		start = *p == '\n';
	}
	if (!start)
		fputc('\n', out);
}

/* The lines of the block come through text_parse_block. */
int text_parse_plan(const struct text_cursor *c, const struct text_key *k, struct token v,
		    struct scenario *s)
{
	s->plan[0] = 0;
	return v.n ? text_error(c, v.at, "plan: its lines follow, indented") : 0;
}

/* ---- the keys ------------------------------------------------------------------------------- */

#define FIELD(f) offsetof(struct scenario, f), sizeof(((struct scenario *)0)->f)
#define NUMBER(name, f, min, max)                                                                  \
	{                                                                                          \
		name, text_write_number, text_parse_number, FIELD(f), min, max, NULL, false        \
	}
#define NAME(name, f, names)                                                                       \
	{                                                                                          \
		name, text_write_name, text_parse_name, FIELD(f), 0, 0, names, false               \
	}
#define TEXT(name, f, provenance)                                                                  \
	{                                                                                          \
		name, text_write_text, text_parse_text, FIELD(f), 0, 0, NULL, provenance           \
	}
#define OWN(name, what)                                                                            \
	{                                                                                          \
		name, text_write_##what, text_parse_##what, 0, 0, 0, 0, NULL, false                \
	}

#define FOUND_TEXT(name, f)                                                                        \
	{                                                                                          \
		name, text_write_found_text, text_parse_text, FIELD(f), 0, 0, NULL, true           \
	}
#define FOUND(name, how, f, max)                                                                   \
	{                                                                                          \
		name, text_write_found_##how, text_parse_number, FIELD(f), 0, max, NULL, true      \
	}

const struct text_key text_keys[] = {
	TEXT("origin", origin, true),
	TEXT("commit", commit, true),
	TEXT("build", build, true),
	TEXT("machine-digest", machine_digest, true),
	TEXT("found", found.kind, true),
	FOUND("found-code", number, found.verdict, 255),
	FOUND("found-rank", rank, found.rank, INT32_MAX),
	FOUND("found-step", number, found.step, UINT64_MAX),
	FOUND("found-before", number, found.before, UINT64_MAX),
	FOUND("found-ns", number, found.vtime_ns, UINT64_MAX),
	FOUND("found-hash", hex, found.hash, UINT64_MAX),
	FOUND_TEXT("found-task", found.task),
	FOUND_TEXT("found-message", found.message),
	FOUND("found-seconds", number, found_seconds, 1 << 20),
	/* the world */
	TEXT("machine", machine, false),
	NUMBER("hosts", lab.hosts, 1, 4096),
	NUMBER("gpus", lab.gpus, 0, 4096),
	OWN("host-gpus", host_gpus),
	NAME("map", lab.map, text_maps),
	OWN("devices", devices),
	{"ranks-per-process", text_write_ranks_per_proc, text_parse_ranks_per_proc,
	 FIELD(lab.ranks_per_proc), 1, 4096, NULL, false},
	NAME("drive", lab.drive, text_drives),
	NUMBER("warp", lab.warp_width, 0, 32),
	NUMBER("sms", lab.gpu_sms, 0, 4096),
	NUMBER("strict-device-view", lab.strict_device_view, 0, 1),
	OWN("env", env),
	TEXT("env-odd", env_odd, false),
	/* the collectives */
	OWN("collective", collective),
	OWN("before", before),
	{"root", text_write_root, text_parse_root, FIELD(lab.root), 0, INT32_MAX, NULL, false},
	NUMBER("bytes-min", lab.bytes_min, 0, 1ull << 40),
	NUMBER("bytes-max", lab.bytes_max, 0, 1ull << 40),
	NUMBER("bytes-step", lab.bytes_step, 0, 1ull << 40),
	NUMBER("factor", lab.factor, 0, 1u << 20),
	OWN("types", types),
	OWN("ops", ops),
	NUMBER("any-numbers", lab.any_numbers, 0, 1),
	NUMBER("iterations", lab.iterations, 1, 1u << 30),
	NUMBER("warmup", lab.warmup, 0, 1u << 30),
	NUMBER("check", lab.check, 0, 1),
	OWN("place", place),
	/* the engine */
	NAME("engine", lab.sim.engine, text_engines),
	{"seed", text_write_hex, text_parse_number, FIELD(lab.sim.seed), 0, UINT64_MAX, NULL,
	 false},
	NAME("strategy", lab.sim.strategy, text_strategies),
	NAME("memory-order", lab.sim.memory_order, text_memory_orders),
	NUMBER("races", lab.sim.races, 0, 1),
	NUMBER("budget-events", lab.sim.budget_events, 0, UINT64_MAX),
	NUMBER("budget-ns", lab.sim.budget_ns, 0, UINT64_MAX),
	NAME("expect", expect, text_expects),
	NUMBER("canary-step", canary_step, 0, UINT64_MAX),
	NAME("faults", lab.sim.fault_random, text_faults),
	NUMBER("heal-ns", lab.sim.heal_ns, 0, UINT64_MAX),
	NUMBER("recover", lab.recover, 0, 1),
	NUMBER("quiet", lab.quiet, 0, 4096),
	NUMBER("hasty", lab.hasty, 0, 1),
	NUMBER("streams", lab.streams, 0, LAB_MAX_STREAMS),
	NUMBER("group", lab.group, 0, 4096),
	NUMBER("comms", lab.comms, 0, LAB_MAX_COMMS),
	NUMBER("transient", lab.transient, 0, LAB_MAX_TRANSIENT),
	NUMBER("idle", lab.idle, 0, LAB_MAX_TRANSIENT),
	NUMBER("mixed", lab.mixed, 0, 4096),
	NUMBER("late", lab.late, 0, LAB_MAX_LATE),
	NUMBER("finalize", lab.finalize, 0, 1),
	NUMBER("nonblocking", lab.nonblocking, 0, 1),
	NUMBER("polls", lab.polls, 0, 1),
	NUMBER("refused", lab.refused, 0, 4096),
	NUMBER("init-fails", lab.init_fails, 0, LAB_MAX_TRANSIENT),
	NUMBER("pauses", lab.pauses, 0, LAB_MAX_PAUSES),
	NAME("leaves", lab.leaves, text_leaves),
	NAME("ends", lab.ends, text_ends),
	NUMBER("config-version", lab.config_version, 0, 99999),
	NUMBER("local-register", lab.local_register, 0, LAB_REGISTER_TWICE),
	NUMBER("aggregate", lab.aggregate, 0, 4096),
	NUMBER("blocking", lab.blocking, 0, LAB_BLOCKING_WAIT),
	NUMBER("cycles", lab.cycles, 0, 1u << 30),
	{"per-iteration", text_write_set, text_parse_number, FIELD(lab.per_iteration), 0, 1, NULL,
	 false},
	NUMBER("unalign", lab.unalign, 0, LAB_MAX_UNALIGN),
	OWN("plan", plan),
};

_Static_assert(ARRAY_LEN(text_keys) == TEXT_KEYS, "each key has a row");
