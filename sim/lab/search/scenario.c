/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/lab/search/scenario.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/base/macros.h"
#include "sim/lab/check/collective.h"
#include "sim/world/world.h"

void scenario_default(struct scenario *s)
{
	memset(s, 0, sizeof *s);
	lab_config_default(&s->lab);
	snprintf(s->machine, sizeof s->machine, "%s", s->lab.machine);
	snprintf(s->origin, sizeof s->origin, "options");
	s->lab.machine = NULL;
}

int scenario_set_env(struct scenario *s, const char *assignment)
{
	const char *equals = strchr(assignment, '=');
	uint32_t at = 0;

	if (!equals || equals == assignment)
		return EINVAL;
	if (strlen(assignment) >= SCENARIO_ENV_BYTES)
		return E2BIG;
	while (at < s->env_count &&
	       strncmp(s->env[at], assignment, (size_t)(equals + 1 - assignment)))
		at++;
	if (at == SCENARIO_MAX_ENV)
		return ENOSPC;
	snprintf(s->env[at], SCENARIO_ENV_BYTES, "%s", assignment);
	s->env_count = MAX_OF(s->env_count, at + 1);
	return 0;
}

const struct lab_config *scenario_lab(struct scenario *s)
{
	ASSERT(s->env_count < ARRAY_LEN(s->env_list));
	ASSERT(!s->plan[0] || !s->lab.sim.fault_random); /* a plan, or one that is drawn */
	for (uint32_t i = 0; i < s->env_count; i++)
		s->env_list[i] = s->env[i];
	s->env_list[s->env_count] = NULL;
	s->lab.machine = s->machine;
	s->lab.env = s->env_list;
	s->lab.env_odd = s->env_odd[0] ? s->env_odd : NULL;
	s->lab.sim.fault_plan = s->plan[0] ? s->plan : NULL;
	s->lab.sim.canary_step = s->canary_step;
	s->lab.refuses = scenario_expectation(s) == SCENARIO_EXPECT_REFUSED;
	s->lab.errors_allowed =
		s->lab.refuses || scenario_expectation(s) == SCENARIO_EXPECT_SUCCESS_OR_ERROR;
	return &s->lab;
}

bool scenario_has_faults(const struct scenario *s)
{
	return s->plan[0] || s->lab.sim.fault_random;
}

enum scenario_expect scenario_expectation(const struct scenario *s)
{
	if (s->expect != SCENARIO_EXPECT_AUTO)
		return s->expect;
	if (s->lab.plugin_fails)
		return SCENARIO_EXPECT_SUCCESS_OR_ERROR;
	return scenario_has_faults(s) ? SCENARIO_EXPECT_SUCCESS_OR_ERROR : SCENARIO_EXPECT_SUCCESS;
}

bool scenario_has_root(const struct scenario *s)
{
	return lab_collective_has_root(s->lab.collective) ||
	       (s->lab.before && lab_collective_has_root(s->lab.before));
}

/* The GPUs of each host's machine. */
static int scenario_machine_gpus(const struct scenario *s, uint32_t *gpus)
{
	char name[LAB_MACHINE_BYTES];
	struct world_machine *m;
	uint32_t n = lab_machines_count(s->machine);

	for (uint32_t h = 0; h < s->lab.hosts; h++) {
		int rc = h < n ? world_machine_load(lab_machine_of(s->machine, h, name), &m) : 0;

		if (rc)
			return rc;
		gpus[h] = h < n ? (uint32_t)m->gpu_count : gpus[h - n];
		if (h < n)
			world_machine_free(m);
	}
	return 0;
}

int scenario_ranks(const struct scenario *s, uint32_t *ranks)
{
	uint32_t *gpus = NULL;
	int rc = 0;

	*ranks = 0;
	if (!s->lab.device_count && !s->lab.gpus && !s->lab.host_gpus_n) {
		gpus = calloc(s->lab.hosts, sizeof *gpus);
		rc = gpus ? scenario_machine_gpus(s, gpus) : ENOMEM;
	}
	if (!rc)
		*ranks = lab_ranks(&s->lab, gpus);
	free(gpus);
	return rc;
}

/* Makes a digest of the texts of all machines in the list. */
static int scenario_machine_digest(const struct scenario *s, char out[20])
{
	uint32_t n = lab_machines_count(s->machine);
	char name[LAB_MACHINE_BYTES];
	XXH3_state_t state;
	int rc = 0;

	out[0] = 0;
	XXH3_64bits_reset(&state);
	for (uint32_t i = 0; i < n && !rc; i++) {
		struct world_machine *m;

		rc = world_machine_load(lab_machine_of(s->machine, i, name), &m);
		if (rc)
			return rc;
		XXH3_64bits_update(&state, m->xml, m->xml_bytes);
		world_machine_free(m);
	}
	snprintf(out, 20, "%016" PRIx64, (uint64_t)XXH3_64bits_digest(&state));
	return 0;
}

int scenario_stamp(struct scenario *s)
{
	snprintf(s->commit, sizeof s->commit, "%s", build_commit());
	snprintf(s->build, sizeof s->build, "%s", build_id());
	return scenario_machine_digest(s, s->machine_digest);
}

static int scenario_print_difference(FILE *out, const char *what, const char *of_file,
				     const char *here)
{
	if (!of_file[0] || strcmp(of_file, here) == 0)
		return 0;
	fprintf(out, "  %-14s %s; here %s\n", what, of_file, here);
	return 1;
}

int scenario_print_differences(const struct scenario *s, FILE *out)
{
	char digest[20];
	int n = 0;

	n += scenario_print_difference(out, "commit", s->commit, build_commit());
	n += scenario_print_difference(out, "build", s->build, build_id());
	if (scenario_machine_digest(s, digest)) {
		fprintf(out, "  machine        %s; cannot be read here\n", s->machine);
		return n + 1;
	}
	n += scenario_print_difference(out, "machine file", s->machine_digest, digest);
	return n;
}
