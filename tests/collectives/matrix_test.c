/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every collective of the lab's table with every type, operation and root, in both protocols, in worlds
 * of 1 to 16 ranks on 1 to 3 hosts, in and out of place, with counts that divide into nothing evenly; small buffers
 * that wrap, and large ones; with and without direct access between the GPUs of a host.
 *
 *   matrix_test                        a fixed sample, and runs drawn from the commit's hash
 *   matrix_test list                   the collectives
 *   matrix_test full [COLLECTIVE...]   all of it, or of these: one of them takes a core 10 minutes to hours
 *   matrix_test drawn HEX              runs drawn from that number
 *
 * What fails is printed as the command that repeats it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/macros.h"
#include "sim/lab/collective.h"
#include "sim/lab/scenario.h"
#include "tests/sample.h"

enum { MATRIX_DRAWN = 24 };

static const struct matrix_world {
	uint32_t hosts, gpus;
} matrix_worlds[] = {
	{1, 1}, {1, 2}, {1, 3}, {1, 4}, {1, 5}, {1, 8}, {2, 1}, {2, 2},
	{2, 3}, {2, 4}, {2, 8}, {3, 1}, {3, 2}, {3, 4}, {3, 5},
};

/* From the first size on in steps; all odd numbers of bytes, so that no count is even by habit. */
static const struct matrix_sizes {
	uint64_t first, last, step;
	bool small_buffers;
} matrix_sizes[] = {
	{1, 9001, 3000, false},
	{30011, 90033, 30011, true},
};
static const char *const matrix_protocols[] = {"NCCL_PROTO=Simple", "NCCL_PROTO=LL",
					       "NCCL_PROTO=LL128"};
enum { MATRIX_PROTOCOLS = ARRAY_LEN(matrix_protocols) };

struct matrix_count {
	uint64_t runs, operations, failed;
};

static void matrix_command(const struct scenario *s)
{
	const struct lab_config *c = &s->lab;

	printf("FAILED: doppel run %s --hosts %u --gpus %u%s -b %" PRIu64 " -e %" PRIu64
	       " -i %" PRIu64 " -d %s",
	       c->collective->name, c->hosts, c->gpus,
	       c->ranks_per_proc == 1 ? "" : " --ranks-per-process 4096", c->bytes_min,
	       c->bytes_max, c->bytes_step,
	       c->type_count > 1 ? "all" : payload_type_name(c->types[0]));
	if (c->collective->reduces)
		printf(" -o %s", c->op_count > 1 ? "all" : payload_op_name(c->ops[0]));
	if (lab_collective_has_root(c->collective) && c->root == LAB_ALL_ROOTS)
		printf(" -r all");
	else if (lab_collective_has_root(c->collective))
		printf(" -r %d", c->root);
	for (uint32_t i = 0; i < s->env_count; i++)
		printf(" --env %s", s->env[i]);
	printf(" --seed %" PRIu64 "\n", c->sim.seed);
}

/* Rows of the table, in both places where the collective has both. */
static uint64_t matrix_operations(const struct lab_config *c)
{
	uint64_t sizes = (c->bytes_max - c->bytes_min) / c->bytes_step + 1, roots = 1;
	uint64_t places = c->collective->never_in_place ? 1 : 2;

	if (lab_collective_has_root(c->collective) && c->root == LAB_ALL_ROOTS)
		roots = c->hosts * c->gpus;
	return places * sizes * c->type_count * (c->collective->reduces ? c->op_count : 1) * roots;
}

static void matrix_run(struct scenario *s, struct matrix_count *count)
{
	const struct lab_config *c = scenario_lab(s);
	struct lab_result r;
	int rc = lab_run(c, &r);

	count->runs++;
	count->operations += r.operations;
	if (rc == 0 && lab_outcome(c, &r) == SIM_PASS && r.operations == matrix_operations(c))
		return;
	count->failed++;
	matrix_command(s);
	printf("  %s: %" PRIu64 " of %" PRIu64 " rows, %" PRIu64 " wrong; %s\n",
	       rc ? strerror(rc) : "it ran", r.operations, matrix_operations(c), r.wrong,
	       r.failed ? r.failure.message : r.explanation);
}

static void matrix_scenario(struct scenario *s, const struct lab_collective *collective,
			    const struct matrix_world *w, const struct matrix_sizes *sizes,
			    const char *protocol)
{
	scenario_default(s);
	scenario_set_env(s, "NCCL_DEBUG=WARN");
	scenario_set_env(s, protocol);
	if (sizes->small_buffers) {
		scenario_set_env(s, "NCCL_BUFFSIZE=16384");
		scenario_set_env(s, "NCCL_LL_BUFFSIZE=16384");
		scenario_set_env(s, "NCCL_LL128_BUFFSIZE=16384");
	}
	s->lab.collective = collective;
	s->lab.hosts = w->hosts;
	s->lab.gpus = w->gpus;
	s->lab.factor = 0;
	s->lab.bytes_min = sizes->first;
	s->lab.bytes_max = sizes->last;
	s->lab.bytes_step = sizes->step;
}

static void matrix_all_values(struct lab_config *c)
{
	for (int t = 0; t < LAB_MAX_TYPES; t++)
		c->types[t] = (ncclDataType_t)t;
	for (int o = 0; o < LAB_MAX_OPS; o++)
		c->ops[o] = (ncclRedOp_t)o;
	c->type_count = LAB_MAX_TYPES;
	c->op_count = LAB_MAX_OPS;
	c->root = LAB_ALL_ROOTS;
}

static void matrix_full_world(const struct lab_collective *collective, size_t w,
			      struct matrix_count *count)
{
	static struct scenario s;

	for (size_t z = 0; z < ARRAY_LEN(matrix_sizes); z++)
		for (size_t p = 0; p < MATRIX_PROTOCOLS; p++) {
			matrix_scenario(&s, collective, &matrix_worlds[w], &matrix_sizes[z],
					matrix_protocols[p]);
			matrix_all_values(&s.lab);
			s.lab.ranks_per_proc = z ? LAB_ALL_RANKS : 1;
			if (((size_t)(collective - lab_collectives) + w) % 3 == 0)
				scenario_set_env(&s, "NCCL_P2P_DISABLE=1");
			s.lab.sim.seed = 1 + w;
			matrix_run(&s, count);
		}
}

static void matrix_full_collective(const struct lab_collective *c, struct matrix_count *count)
{
	for (size_t w = 0; w < ARRAY_LEN(matrix_worlds); w++) {
		matrix_full_world(c, w, count);
		printf("%s: %u hosts x %u GPUs: %" PRIu64 " runs, %" PRIu64 " rows, %" PRIu64
		       " failed until now\n",
		       c->name, matrix_worlds[w].hosts, matrix_worlds[w].gpus, count->runs,
		       count->operations, count->failed);
	}
}

/* Of these collectives; none: of all. False: one of them does not exist. */
static bool matrix_full(char **names, int n, struct matrix_count *count)
{
	for (int i = 0; i < n; i++)
		if (!lab_collective_find(names[i], strlen(names[i]))) {
			fprintf(stderr, "matrix_test: no collective is called '%s'\n", names[i]);
			return false;
		}
	for (int i = 0; i < n; i++)
		matrix_full_collective(lab_collective_find(names[i], strlen(names[i])), count);
	for (uint32_t k = 0; !n && k < lab_collectives_n; k++)
		matrix_full_collective(&lab_collectives[k], count);
	return true;
}

/* Every collective in every world; protocols, types, operations, sizes and roots by turns. */
static void matrix_sample(struct matrix_count *count)
{
	static struct scenario s;
	uint32_t n = (uint32_t)ARRAY_LEN(matrix_worlds);

	for (uint32_t k = 0; k < lab_collectives_n; k++)
		for (uint32_t w = 0; w < n; w++) {
			uint32_t i = k * n + w,
				 ranks = matrix_worlds[w].hosts * matrix_worlds[w].gpus;

			if ((k + w) % SAMPLE_THIN)
				continue;
			matrix_scenario(&s, &lab_collectives[k], &matrix_worlds[w],
					&matrix_sizes[i % ARRAY_LEN(matrix_sizes)],
					matrix_protocols[i / 2 % MATRIX_PROTOCOLS]);
			s.lab.types[0] = (ncclDataType_t)(i * 5 % LAB_MAX_TYPES);
			s.lab.ops[0] = (ncclRedOp_t)(i * 3 % LAB_MAX_OPS);
			s.lab.root = (int32_t)(i * 7 % ranks);
			s.lab.ranks_per_proc = i % 3 ? 1 : LAB_ALL_RANKS;
			if (i % 4 == 1)
				scenario_set_env(&s, "NCCL_P2P_DISABLE=1");
			s.lab.sim.seed = i;
			matrix_run(&s, count);
		}
}

static void matrix_drawn(uint64_t seed, struct matrix_count *count)
{
	static struct scenario s;
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "matrix");
	printf("drawn from %" PRIx64 "\n", seed);
	for (int i = 0; i < MATRIX_DRAWN / SAMPLE_THIN; i++) {
		uint64_t k = sim_rng_below(&rng, lab_collectives_n);
		uint64_t w = sim_rng_below(&rng, ARRAY_LEN(matrix_worlds));
		uint64_t first = sim_rng_below(&rng, 4096), step = 1 + sim_rng_below(&rng, 60000);
		bool small = sim_rng_below(&rng, 2);
		const struct matrix_sizes sizes = {first, first + step, step, small};
		uint64_t p = sim_rng_below(&rng, MATRIX_PROTOCOLS);

		matrix_scenario(&s, &lab_collectives[k], &matrix_worlds[w], &sizes,
				matrix_protocols[p]);
		s.lab.types[0] = (ncclDataType_t)sim_rng_below(&rng, LAB_MAX_TYPES);
		s.lab.ops[0] = (ncclRedOp_t)sim_rng_below(&rng, LAB_MAX_OPS);
		s.lab.root = (int32_t)sim_rng_below(&rng,
						    matrix_worlds[w].hosts * matrix_worlds[w].gpus);
		s.lab.ranks_per_proc = sim_rng_below(&rng, 2) ? 1 : LAB_ALL_RANKS;
		s.lab.sim.seed = sim_rng_below(&rng, UINT32_MAX);
		if (sim_rng_below(&rng, 3) == 0)
			scenario_set_env(&s, "NCCL_P2P_DISABLE=1");
		matrix_run(&s, count);
	}
}

int main(int argc, char **argv)
{
	bool full = argc > 1 && !strcmp(argv[1], "full");
	bool drawn = argc == 3 && !strcmp(argv[1], "drawn");
	struct matrix_count count = {0};

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 2 && !strcmp(argv[1], "list")) {
		for (uint32_t k = 0; k < lab_collectives_n; k++)
			puts(lab_collectives[k].name);
		return 0;
	}
	if (argc > 1 && !full && !drawn) {
		fprintf(stderr, "usage: matrix_test [list | full [COLLECTIVE...] | drawn HEX]\n");
		return SIM_USAGE;
	}
	if (full && !matrix_full(argv + 2, argc - 2, &count))
		return SIM_USAGE;
	if (!full && !drawn)
		matrix_sample(&count);
	if (!full)
		matrix_drawn(strtoull(drawn ? argv[2] : build_commit(), NULL, 16), &count);
	printf("%d collectives: %" PRIu64 " runs, %" PRIu64 " rows, %" PRIu64 " failed\n",
	       full && argc > 2 ? argc - 2 : (int)lab_collectives_n, count.runs, count.operations,
	       count.failed);
	return count.failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
