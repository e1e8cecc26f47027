/* SPDX-License-Identifier: BSD-3-Clause */
/* Cuts of a scenario, for dimensions with a cut of their own: the smallest result first. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/macros.h"
#include "sim/lab/check/collective.h"
#include "sim/lab/search/shrink_internal.h"

/* ---- ranks ---------------------------------------------------------------------------------- */

/* The most on a host. */
static uint32_t cut_gpus(const struct scenario *s)
{
	uint32_t ranks = 0, most = 0;

	for (uint32_t h = 0; h < s->lab.host_gpus_n; h++)
		most = MAX_OF(most, s->lab.host_gpus[h]);
	if (most)
		return most;
	return scenario_ranks(s, &ranks) ? 0 : ranks / s->lab.hosts;
}

/* The k-th host has one rank less, or is not there. */
static bool cut_host(const struct scenario *s, uint32_t k, struct scenario *to)
{
	if (k >= s->lab.host_gpus_n)
		return false;
	*to = *s;
	struct lab_config *c = &to->lab;
	ASSERT(c->host_gpus_n == c->hosts && c->host_gpus[k] > 0); /* a host has a rank */
	if (--c->host_gpus[k])
		return true;
	if (c->hosts == 1)
		return false;
	c->hosts--;
	c->host_gpus_n--;
	memmove(&c->host_gpus[k], &c->host_gpus[k + 1],
		(c->host_gpus_n - k) * sizeof c->host_gpus[0]);
	return true;
}

/* Tries worlds in the order of their ranks, then of their hosts. */
static bool cut_worlds(const struct scenario *s, uint32_t k, struct scenario *to)
{
	uint32_t gpus = cut_gpus(s), hosts = s->lab.hosts, seen = 0, all = 0;

	if (scenario_ranks(s, &all))
		return false;
	for (uint32_t ranks = 1; ranks < all; ranks++)
		for (uint32_t h = 1; h <= hosts && h <= ranks; h++) {
			if (ranks % h || ranks / h > gpus || seen++ < k)
				continue;
			*to = *s;
			to->lab.hosts = h;
			to->lab.host_gpus_n = 0;
			if (to->lab.device_count)
				to->lab.device_count = ranks / h;
			else
				to->lab.gpus = ranks / h;
			return true;
		}
	ASSERT(seen <= k);
	return cut_host(s, k - seen, to);
}

/* A root that is there. */
bool cut_ranks(const struct scenario *s, uint32_t k, struct scenario *to)
{
	uint32_t ranks = 0;

	if (!cut_worlds(s, k, to))
		return false;
	if (scenario_ranks(to, &ranks))
		return true;
	ASSERT(ranks > 0); /* the last of none would be LAB_ALL_ROOTS */
	to->lab.root = MIN_OF(to->lab.root, (int32_t)ranks - 1);
	return true;
}

void print_ranks(const struct scenario *s, char out[SHRINK_VALUE_BYTES])
{
	uint32_t gpus = cut_gpus(s), ranks = 0;

	(void)scenario_ranks(s, &ranks);
	snprintf(out, SHRINK_VALUE_BYTES, "%" PRIu32 " (%" PRIu32 " hosts x %s%" PRIu32 ")", ranks,
		 s->lab.hosts, s->lab.host_gpus_n ? "at most " : "", gpus);
}

/* All hosts of one of the machines. */
bool cut_machines(const struct scenario *s, uint32_t k, struct scenario *to)
{
	char name[LAB_MACHINE_BYTES];
	uint32_t n = lab_machines_count(s->machine);

	if (n == 1 || k >= n)
		return false;
	*to = *s;
	snprintf(to->machine, sizeof to->machine, "%s", lab_machine_of(s->machine, k, name));
	return true;
}

void print_machines(const struct scenario *s, char out[SHRINK_VALUE_BYTES])
{
	snprintf(out, SHRINK_VALUE_BYTES, "%.*s", SHRINK_VALUE_BYTES - 1, s->machine);
}

/* ---- bytes, types, places, iterations ------------------------------------------------------- */

static const uint64_t cut_sizes[] = {8,        64,       512,      1 << 10,   4 << 10,   8 << 10,
				     16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20};

/* One small size; then each of the sizes that there are, alone. */
bool cut_bytes(const struct scenario *s, uint32_t k, struct scenario *to)
{
	const struct lab_config *c = &s->lab;
	uint64_t bytes;

	ASSERT(c->bytes_min <= c->bytes_max); /* text_check */
	if (k < ARRAY_LEN(cut_sizes)) {
		bytes = cut_sizes[k];
	} else {
		k -= (uint32_t)ARRAY_LEN(cut_sizes);
		bytes = c->bytes_min;
		for (uint32_t i = 0; i < k && bytes <= c->bytes_max; i++)
			bytes = c->factor >= 2 ? MAX_OF(bytes, (uint64_t)1) * c->factor
					       : bytes + MAX_OF(c->bytes_step, (uint64_t)1);
	}
	if (bytes > c->bytes_max || (bytes == c->bytes_max && c->bytes_min == c->bytes_max))
		return false;
	*to = *s;
	to->lab.bytes_min = to->lab.bytes_max = bytes;
	return true;
}

void print_bytes(const struct scenario *s, char out[SHRINK_VALUE_BYTES])
{
	if (s->lab.bytes_min == s->lab.bytes_max)
		snprintf(out, SHRINK_VALUE_BYTES, "%" PRIu64, s->lab.bytes_min);
	else
		snprintf(out, SHRINK_VALUE_BYTES, "%" PRIu64 " to %" PRIu64, s->lab.bytes_min,
			 s->lab.bytes_max);
}

bool cut_place(const struct scenario *s, uint32_t k, struct scenario *to)
{
	if (k > 1 || !s->lab.in_place || !s->lab.out_of_place)
		return false;
	*to = *s;
	to->lab.in_place = k == 0;
	to->lab.out_of_place = k != 0;
	return true;
}

void print_place(const struct scenario *s, char out[SHRINK_VALUE_BYTES])
{
	snprintf(out, SHRINK_VALUE_BYTES, "%s",
		 !s->lab.in_place      ? "out"
		 : s->lab.out_of_place ? "both"
				       : "in");
}

/* One of it first, then more: 1, 2, 3, 4, 8, 16, ... */
static bool cut_number(uint32_t now, uint32_t k, uint32_t *to)
{
	uint64_t n = k < 4 ? k + 1 : 4ull << MIN_OF(k - 3, 32u);

	if (n >= now)
		return false;
	*to = (uint32_t)n;
	return true;
}

bool cut_iterations(const struct scenario *s, uint32_t k, struct scenario *to)
{
	uint32_t all = s->lab.iterations + s->lab.warmup;

	*to = *s;
	to->lab.warmup = 0;
	return cut_number(all, k, &to->lab.iterations);
}

void print_iterations(const struct scenario *s, char out[SHRINK_VALUE_BYTES])
{
	snprintf(out, SHRINK_VALUE_BYTES, "%" PRIu32 "%s", s->lab.iterations + s->lab.warmup,
		 s->lab.warmup ? " (with warm-up)" : "");
}

bool cut_type(const struct scenario *s, uint32_t k, struct scenario *to)
{
	static const ncclDataType_t simple[] = {ncclFloat32};
	const struct lab_config *c = &s->lab;
	uint32_t n = (uint32_t)ARRAY_LEN(simple);

	ASSERT(c->type_count > 0);
	if (c->type_count == 1 && (c->types[0] == ncclFloat32 || k))
		return false;
	if (k >= n + c->type_count)
		return false;
	*to = *s;
	to->lab.types[0] = k < n ? simple[k] : c->types[k - n];
	to->lab.type_count = 1;
	return true;
}

void print_type(const struct scenario *s, char out[SHRINK_VALUE_BYTES])
{
	snprintf(out, SHRINK_VALUE_BYTES, "%s%s", payload_type_name(s->lab.types[0]),
		 s->lab.type_count > 1 ? " and others" : "");
}

bool cut_op(const struct scenario *s, uint32_t k, struct scenario *to)
{
	const struct lab_config *c = &s->lab;

	ASSERT(c->op_count > 0);
	if ((c->op_count == 1 && (c->ops[0] == ncclSum || k)) || k > c->op_count)
		return false;
	*to = *s;
	to->lab.ops[0] = k ? c->ops[k - 1] : ncclSum;
	to->lab.op_count = 1;
	return true;
}

void print_op(const struct scenario *s, char out[SHRINK_VALUE_BYTES])
{
	snprintf(out, SHRINK_VALUE_BYTES, "%s%s", payload_op_name(s->lab.ops[0]),
		 s->lab.op_count > 1 ? " and others" : "");
}

/* ---- the collective ------------------------------------------------------------------------- */

/* The rows before its own: the simplest first. */
bool cut_collective(const struct scenario *s, uint32_t k, struct scenario *to)
{
	/* a row of the table, not a copy of one */
	ASSERT(s->lab.collective >= lab_collectives &&
	       s->lab.collective < lab_collectives + lab_collectives_n);
	if (&lab_collectives[k] >= s->lab.collective)
		return false;
	*to = *s;
	to->lab.collective = &lab_collectives[k];
	return true;
}

void print_collective(const struct scenario *s, char out[SHRINK_VALUE_BYTES])
{
	snprintf(out, SHRINK_VALUE_BYTES, "%s", s->lab.collective->name);
}

bool cut_before(const struct scenario *s, uint32_t k, struct scenario *to)
{
	if (k || !s->lab.before)
		return false;
	*to = *s;
	to->lab.before = NULL;
	return true;
}

void print_before(const struct scenario *s, char out[SHRINK_VALUE_BYTES])
{
	snprintf(out, SHRINK_VALUE_BYTES, "%s", s->lab.before ? s->lab.before->name : "none");
}

bool cut_root(const struct scenario *s, uint32_t k, struct scenario *to)
{
	if (k || s->lab.root == 0 || !scenario_has_root(s))
		return false;
	*to = *s;
	to->lab.root = 0;
	return true;
}

void print_root(const struct scenario *s, char out[SHRINK_VALUE_BYTES])
{
	if (s->lab.root == LAB_ALL_ROOTS)
		snprintf(out, SHRINK_VALUE_BYTES, "all");
	else
		snprintf(out, SHRINK_VALUE_BYTES, "%d", s->lab.root);
}

/* ---- settings ------------------------------------------------------------------------------- */

bool cut_width(const struct scenario *s, uint32_t k, struct scenario *to)
{
	if (k || s->lab.warp_width != 32)
		return false;
	*to = *s;
	to->lab.warp_width = 1;
	return true;
}

void print_width(const struct scenario *s, char out[SHRINK_VALUE_BYTES])
{
	snprintf(out, SHRINK_VALUE_BYTES, "%" PRIu32, s->lab.warp_width);
}

bool cut_env(const struct scenario *s, uint32_t k, struct scenario *to)
{
	if (k >= s->env_count)
		return false;
	*to = *s;
	to->env_count--;
	memmove(to->env[k], to->env[k + 1], (to->env_count - k) * sizeof to->env[0]);
	return true;
}

void print_env(const struct scenario *s, char out[SHRINK_VALUE_BYTES])
{
	size_t n = 0;

	snprintf(out, SHRINK_VALUE_BYTES, "none");
	for (uint32_t i = 0; i < s->env_count && n < SHRINK_VALUE_BYTES - 1; i++)
		n += (size_t)snprintf(out + n, SHRINK_VALUE_BYTES - n, "%s%s", i ? " " : "",
				      s->env[i]);
}

#define CUT_CHANNELS "NCCL_MAX_NCHANNELS="

static const char *cut_channels_now(const struct scenario *s)
{
	for (uint32_t i = 0; i < s->env_count; i++)
		if (strncmp(s->env[i], CUT_CHANNELS, strlen(CUT_CHANNELS)) == 0)
			return s->env[i] + strlen(CUT_CHANNELS);
	return NULL;
}

bool cut_channels(const struct scenario *s, uint32_t k, struct scenario *to)
{
	const char *now = cut_channels_now(s);

	if (k > 1 || (now && strtoul(now, NULL, 10) <= k + 1))
		return false;
	*to = *s;
	return scenario_set_env(to, k ? CUT_CHANNELS "2" : CUT_CHANNELS "1") == 0;
}

void print_channels(const struct scenario *s, char out[SHRINK_VALUE_BYTES])
{
	const char *now = cut_channels_now(s);

	snprintf(out, SHRINK_VALUE_BYTES, "%s", now ? now : "all");
}

bool cut_memory(const struct scenario *s, uint32_t k, struct scenario *to)
{
	if (k || s->lab.sim.memory_order == SIM_MEMORY_OFF)
		return false;
	*to = *s;
	to->lab.sim.memory_order = SIM_MEMORY_OFF;
	return true;
}

void print_memory(const struct scenario *s, char out[SHRINK_VALUE_BYTES])
{
	static const char *const name[] = {"drawn", "off", "on"};

	ASSERT((unsigned)s->lab.sim.memory_order < ARRAY_LEN(name));
	snprintf(out, SHRINK_VALUE_BYTES, "%s", name[s->lab.sim.memory_order]);
}

/* ---- faults --------------------------------------------------------------------------------- */

static uint32_t plan_lines(const char *plan)
{
	uint32_t n = 0;

	for (; *plan; n++) {
		plan += strcspn(plan, "\n");
		plan += *plan == '\n';
	}
	return n;
}

bool cut_plan(const struct scenario *s, uint32_t k, struct scenario *to)
{
	const char *line = s->plan;

	if (k >= plan_lines(s->plan))
		return false;
	for (uint32_t i = 0; i < k; i++)
		line = strchr(line, '\n') + 1;
	size_t at = (size_t)(line - s->plan), n = strcspn(line, "\n");
	n += line[n] == '\n';
	ASSERT(at + n <= strlen(s->plan)); /* the line ends in the plan */
	*to = *s;
	memmove(to->plan + at, s->plan + at + n, strlen(s->plan) - at - n + 1);
	/* without its last fault it may still return an error */
	if (to->expect == SCENARIO_EXPECT_AUTO)
		to->expect = scenario_expectation(s);
	return true;
}

/* Faults, not lines: comments are cut too, and are of no interest. */
void print_plan(const struct scenario *s, char out[SHRINK_VALUE_BYTES])
{
	uint32_t n = 0;

	for (const char *line = s->plan; *line; line += line[0] == '\n') {
		line += strspn(line, " \t");
		n += *line && !strchr("#\n", *line);
		line += strcspn(line, "\n");
	}
	snprintf(out, SHRINK_VALUE_BYTES, "%" PRIu32, n);
}

int shrink_draw_plan(struct scenario *s)
{
	char *text = NULL;
	size_t bytes = 0, n = 0;

	if (!s->lab.sim.fault_random)
		return 0;
	ASSERT(!s->plan[0]); /* it would be overwritten */
	int rc = sim_start(&scenario_lab(s)->sim);
	if (rc)
		return rc;
	FILE *f = open_memstream(&text, &bytes);
	if (f) {
		sim_fault_print_plan(f);
		fclose(f);
	}
	sim_stop();
	if (!text)
		return ENOMEM;
	s->plan[0] = 0;
	for (char *line = text, *save = NULL; (line = strtok_r(line, "\n", &save)); line = NULL) {
		if (strncmp(line, "fault ", 6) != 0)
			continue;
		line[strcspn(line, "#")] = 0;
		for (size_t end = strlen(line); end && line[end - 1] == ' '; end--)
			line[end - 1] = 0;
		n += (size_t)snprintf(s->plan + n, sizeof s->plan - n, "%s\n", line + 6);
		if (n >= sizeof s->plan) {
			rc = E2BIG;
			break;
		}
	}
	free(text);
	s->lab.sim.fault_random = false;
	s->lab.sim.heal_ns = 0; /* the plan has it */
	return rc;
}

/* ---- plugins --------------------------------------------------------------------------------- */

/* None, then each one less. */
bool cut_plugins(const struct scenario *s, uint32_t k, struct scenario *to)
{
	uint32_t left = s->lab.plugins;

	if (!left)
		return false;
	*to = *s;
	to->lab.plugins = 0;
	if (!k)
		return true;
	while (--k && left)
		left &= left - 1;
	to->lab.plugins = s->lab.plugins & ~(left & -left);
	return left && to->lab.plugins;
}

void print_plugins(const struct scenario *s, char out[SHRINK_VALUE_BYTES])
{
	size_t n = 0;

	snprintf(out, SHRINK_VALUE_BYTES, "none");
	for (int i = 0; lab_plugin_names[i] && n < SHRINK_VALUE_BYTES; i++)
		if (s->lab.plugins >> i & 1)
			n += (size_t)snprintf(out + n, SHRINK_VALUE_BYTES - n, "%s%s", n ? "," : "",
					      lab_plugin_names[i]);
}
