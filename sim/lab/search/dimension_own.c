/* SPDX-License-Identifier: BSD-3-Clause */
/* The values of dimensions that are neither a number, a name nor a text: how they are written and
 * parsed. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "core/base/macros.h"
#include "sim/lab/check/collective.h"
#include "sim/lab/search/dimension.h"

_Static_assert(LAB_MAX_TYPES == ncclNumTypes, "each type of nccl.h has a name in a list");
_Static_assert(LAB_MAX_OPS == PAYLOAD_MULSUM + 1, "after the operations of nccl.h comes ours");

void own_write_found_rank(const struct dimension *d, const struct scenario *s, FILE *out)
{
	if (s->found.rank >= 0)
		dimension_write_number(d, s, out);
}

void own_write_ranks_per_proc(const struct dimension *d, const struct scenario *s, FILE *out)
{
	if (s->lab.ranks_per_proc == LAB_ALL_RANKS)
		fprintf(out, "%s all\n", d->key);
	else
		dimension_write_number(d, s, out);
}

int own_parse_ranks_per_proc(const struct text_cursor *c, const struct dimension *d, struct token v,
			     struct scenario *s)
{
	if (!token_is(v, "all"))
		return dimension_parse_number(c, d, v, s);
	s->lab.ranks_per_proc = LAB_ALL_RANKS;
	return 0;
}

void own_write_host_gpus(const struct dimension *d, const struct scenario *s, FILE *out)
{
	for (uint32_t i = 0; i < s->lab.host_gpus_n; i++)
		fprintf(out, "%s%u", i ? "," : "host-gpus ", s->lab.host_gpus[i]);
	if (s->lab.host_gpus_n)
		fputc('\n', out);
}

int own_parse_host_gpus(const struct text_cursor *c, const struct dimension *d, struct token v,
			struct scenario *s)
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

void own_write_devices(const struct dimension *d, const struct scenario *s, FILE *out)
{
	for (uint32_t i = 0; i < s->lab.device_count; i++)
		fprintf(out, "%s%d", i ? "," : "devices ", s->lab.devices[i]);
	if (s->lab.device_count)
		fputc('\n', out);
}

int own_parse_devices(const struct text_cursor *c, const struct dimension *d, struct token v,
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

void own_write_env(const struct dimension *d, const struct scenario *s, FILE *out)
{
	for (uint32_t i = 0; i < s->env_count; i++)
		fprintf(out, "env %s\n", s->env[i]);
}

int own_parse_env(const struct text_cursor *c, const struct dimension *d, struct token v,
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
void own_write_collective(const struct dimension *d, const struct scenario *s, FILE *out)
{
	if (s->lab.collective != &lab_collectives[0])
		fprintf(out, "%s %s\n", d->key, s->lab.collective->name);
}

static int own_parse_collective_name(const struct text_cursor *c, const struct dimension *d,
				     struct token v, const struct lab_collective **out)
{
	const struct lab_collective *found = lab_collective_find(v.at, v.n);

	if (!found)
		return text_error(c, v.at, "%s: unknown collective \"%.*s\"; nearest: %s", d->key,
				  (int)v.n, v.at, lab_collective_nearest(v.at, v.n));
	*out = found;
	return 0;
}

int own_parse_collective(const struct text_cursor *c, const struct dimension *d, struct token v,
			 struct scenario *s)
{
	return own_parse_collective_name(c, d, v, &s->lab.collective);
}

void own_write_before(const struct dimension *d, const struct scenario *s, FILE *out)
{
	if (s->lab.before)
		fprintf(out, "%s %s\n", d->key, s->lab.before->name);
}

int own_parse_before(const struct text_cursor *c, const struct dimension *d, struct token v,
		     struct scenario *s)
{
	return own_parse_collective_name(c, d, v, &s->lab.before);
}

void own_write_root(const struct dimension *d, const struct scenario *s, FILE *out)
{
	if (!scenario_has_root(s) || s->lab.root == 0)
		return;
	if (s->lab.root == LAB_ALL_ROOTS)
		fprintf(out, "%s all\n", d->key);
	else
		fprintf(out, "%s %d\n", d->key, s->lab.root);
}

int own_parse_root(const struct text_cursor *c, const struct dimension *d, struct token v,
		   struct scenario *s)
{
	if (!token_is(v, "all"))
		return dimension_parse_number(c, d, v, s);
	s->lab.root = LAB_ALL_ROOTS;
	return 0;
}

/* Parses words that each are one of `names`; stores their numbers. */
static int own_parse_list(const struct text_cursor *c, const struct dimension *d, struct token v,
			  const char *what, const char *const *names, int32_t *list, uint32_t *n)
{
	uint32_t most = 0, k;
	struct token w;

	while (names[most])
		most++;
	for (*n = 0; text_word(&v, &w); list[(*n)++] = (int32_t)k) {
		for (k = 0; k < most && !token_is(w, names[k]);)
			k++;
		if (k == most)
			return text_error(c, w.at, "%s: unknown %s \"%.*s\"; nearest: %s", d->key,
					  what, (int)w.n, w.at, text_nearest(w, names));
		if (*n == most)
			return text_error(c, w.at, "%s: more than %u", d->key, most);
	}
	return *n ? 0 : text_error(c, v.at, "%s: expected at least one", d->key);
}

void own_write_types(const struct dimension *d, const struct scenario *s, FILE *out)
{
	ASSERT(s->lab.type_count > 0 && s->lab.type_count <= LAB_MAX_TYPES);
	fputs(d->key, out);
	for (uint32_t i = 0; i < s->lab.type_count; i++)
		fprintf(out, " %s", payload_type_name(s->lab.types[i]));
	fputc('\n', out);
}

int own_parse_types(const struct text_cursor *c, const struct dimension *d, struct token v,
		    struct scenario *s)
{
	const char *names[LAB_MAX_TYPES + 1] = {NULL};
	int32_t list[LAB_MAX_TYPES];

	for (int t = 0; t < LAB_MAX_TYPES; t++)
		names[t] = payload_type_name((ncclDataType_t)t);
	int rc = own_parse_list(c, d, v, "type", names, list, &s->lab.type_count);
	for (uint32_t i = 0; !rc && i < s->lab.type_count; i++)
		s->lab.types[i] = (ncclDataType_t)list[i];
	return rc;
}

void own_write_ops(const struct dimension *d, const struct scenario *s, FILE *out)
{
	ASSERT(s->lab.op_count > 0 && s->lab.op_count <= LAB_MAX_OPS);
	fputs(d->key, out);
	for (uint32_t i = 0; i < s->lab.op_count; i++)
		fprintf(out, " %s", payload_op_name(s->lab.ops[i]));
	fputc('\n', out);
}

int own_parse_ops(const struct text_cursor *c, const struct dimension *d, struct token v,
		  struct scenario *s)
{
	const char *names[LAB_MAX_OPS + 1] = {NULL};
	int32_t list[LAB_MAX_OPS];

	for (int o = 0; o < LAB_MAX_OPS; o++)
		names[o] = payload_op_name((ncclRedOp_t)o);
	int rc = own_parse_list(c, d, v, "operation", names, list, &s->lab.op_count);
	for (uint32_t i = 0; !rc && i < s->lab.op_count; i++)
		s->lab.ops[i] = (ncclRedOp_t)list[i];
	return rc;
}

void own_write_plugins(const struct dimension *d, const struct scenario *s, FILE *out)
{
	const char *before = d->key;
	char separator = ' ';

	for (int i = 0; lab_plugin_names[i]; i++) {
		if (!(s->lab.plugins >> i & 1))
			continue;
		fprintf(out, "%s%c%s", before, separator, lab_plugin_names[i]);
		before = "";
		separator = ',';
	}
	if (s->lab.plugins)
		fputc('\n', out);
}

int own_parse_plugins(const struct text_cursor *c, const struct dimension *d, struct token v,
		      struct scenario *s)
{
	int32_t list[LAB_PLUGINS];
	uint32_t n;
	int rc = own_parse_list(c, d, v, "plugin", lab_plugin_names, list, &n);

	s->lab.plugins = 0;
	for (uint32_t i = 0; !rc && i < n; i++)
		s->lab.plugins |= 1u << list[i];
	return rc;
}

void own_write_place(const struct dimension *d, const struct scenario *s, FILE *out)
{
	ASSERT(s->lab.in_place || s->lab.out_of_place); /* own_parse_place refuses neither */
	fprintf(out, "place%s%s\n", s->lab.out_of_place ? " out" : "",
		s->lab.in_place ? " in" : "");
}

int own_parse_place(const struct text_cursor *c, const struct dimension *d, struct token v,
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

void own_write_plan(const struct dimension *d, const struct scenario *s, FILE *out)
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

/* The lines of the block come through own_parse_block. */
int own_parse_plan(const struct text_cursor *c, const struct dimension *d, struct token v,
		   struct scenario *s)
{
	s->plan[0] = 0;
	return v.n ? text_error(c, v.at, "plan: its lines follow, indented") : 0;
}
