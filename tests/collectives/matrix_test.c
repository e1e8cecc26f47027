/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every collective of the lab's table with every type, operation and root, in both protocols, in
 * worlds of 1 to 16 ranks on 1 to 3 hosts, in and out of place, with counts that divide into
 * nothing evenly; small buffers that wrap, and large ones; in every way between two ranks
 * (matrix_ways) and with every program.
 *
 *   matrix_test                        a fixed sample, and runs drawn from the commit's hash
 *   matrix_test list                   the collectives
 *   matrix_test full [K/N] [COLLECTIVE...]
 *                                      all collectives, or these, on rings, with two ways between
 *                                      ranks in rotation: one takes a core 10 minutes to hours
 *   matrix_test ways [K/N] [COLLECTIVE...]
 *                                      every program in every way, in three worlds, with the
 *                                      operations in rotation
 *   matrix_test drawn HEX              runs drawn from that number
 *
 * K/N: the K-th of N parts, for processes that run them in parallel. A failure is printed as the
 * command that repeats it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/macros.h"
#include "core/device/layout/names.h"
#include "sim/lab/check/collective.h"
#include "sim/lab/search/scenario.h"
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
static const char *const matrix_protocols[] = {
	[DEV_SIMPLE] = "NCCL_PROTO=Simple",
	[DEV_LL] = "NCCL_PROTO=LL",
	[DEV_LL128] = "NCCL_PROTO=LL128",
};
enum { MATRIX_PROTOCOLS = ARRAY_LEN(matrix_protocols) };

/* How two ranks reach each other: what the environment forces, and a machine. */
static const struct matrix_way {
	const char *name;
	const char *env[3];
	const char *machine; /* NULL: h100-8nic */
	uint32_t gpus;       /* that a host of it has */
	bool registers;      /* the buffers */
	bool no_p2p;         /* between GPUs of a host */
	bool torn;           /* 128 bytes may arrive in parts */
} matrix_ways[] = {
	{"p2p", .gpus = 8},
	{"p2p over legacy IPC", {"NCCL_CUMEM_ENABLE=0"}, .gpus = 8},
	{"p2p, all processes apart", {"NCCL_P2P_DIRECT_DISABLE=1"}, .gpus = 8},
	{"p2p, registered buffers", .gpus = 8, .registers = true},
	{"shared memory", {"NCCL_P2P_DISABLE=1"}, .gpus = 8, .no_p2p = true},
	{"shared memory of cuMem",
	 {"NCCL_P2P_DISABLE=1", "NCCL_CUMEM_HOST_ENABLE=1"},
	 .gpus = 8,
	 .no_p2p = true},
	{"verbs within a host",
	 {"NCCL_P2P_DISABLE=1", "NCCL_SHM_DISABLE=1"},
	 .gpus = 8,
	 .no_p2p = true},
	{"verbs through host memory",
	 {"NCCL_P2P_DISABLE=1", "NCCL_SHM_DISABLE=1", "NCCL_NET_GDR_LEVEL=LOC"},
	 .gpus = 8,
	 .no_p2p = true},
	{"verbs, four queue pairs, messages split",
	 {"NCCL_IB_QPS_PER_CONNECTION=4", "NCCL_IB_SPLIT_DATA_ON_QPS=1"},
	 .gpus = 8},
	{"sockets", {"NCCL_NET=Socket"}, .gpus = 8},
	{"sockets within a host",
	 {"NCCL_P2P_DISABLE=1", "NCCL_SHM_DISABLE=1", "NCCL_NET=Socket"},
	 .gpus = 8,
	 .no_p2p = true},
	{"without NVLink", .machine = "pcie-4gpu", .gpus = 4, .no_p2p = true, .torn = true},
};

struct matrix_count {
	uint64_t runs, operations, failed;
	uint32_t part, parts; /* this process makes each parts-th run, from run number part on */
	uint32_t turn;
};

static void matrix_command(const struct scenario *s)
{
	const struct lab_config *c = &s->lab;

	printf("FAILED: doppel run %s --machine %s --hosts %u --gpus %u%s -b %" PRIu64
	       " -e %" PRIu64 " -i %" PRIu64 " -d %s",
	       c->collective->name, c->machine, c->hosts, c->gpus,
	       c->ranks_per_proc == 1 ? "" : " --ranks-per-process 4096", c->bytes_min,
	       c->bytes_max, c->bytes_step,
	       c->type_count > 1 ? "all" : payload_type_name(c->types[0]));
	if (c->collective->reduces)
		printf(" -o %s", c->op_count > 1 ? "all" : payload_op_name(c->ops[0]));
	if (lab_collective_has_root(c->collective) && c->root == LAB_ALL_ROOTS)
		printf(" -r all");
	else if (lab_collective_has_root(c->collective))
		printf(" -r %d", c->root);
	if (c->local_register)
		printf(" -R %u", c->local_register);
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
	uint32_t ranks = c->hosts * c->gpus;
	struct lab_result r;
	int rc;

	if (c->collective->chained && (ranks & (ranks - 1)))
		return; /* it is for powers of two */
	count->turn = count->turn % count->parts + 1;
	if (count->turn != count->part)
		return;
	rc = lab_run(c, &r);
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
			    const struct matrix_world *w, const struct matrix_sizes *sizes)
{
	scenario_default(s);
	scenario_set_env(s, "NCCL_DEBUG=WARN");
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

static void matrix_set_way(struct scenario *s, const struct matrix_way *way)
{
	for (size_t i = 0; i < ARRAY_LEN(way->env) && way->env[i]; i++)
		scenario_set_env(s, way->env[i]);
	if (way->machine)
		s->lab.machine = way->machine;
	s->lab.local_register = way->registers ? LAB_REGISTER_ONCE : LAB_REGISTER_NOT;
}

/* The collective's programs. Each has an algorithm and a protocol; messages have only a
 * protocol. */
/* Messages have it as well. */
static void matrix_set_protocol(struct scenario *s, const char *proto)
{
	scenario_set_env(s, proto);
	if (strstr(proto, "LL128"))
		scenario_set_env(s, "DOPPEL_P2P_LL128_THRESHOLD=1M");
}

enum { MATRIX_PROGRAMS = DEV_PROGRAM_COUNT + MATRIX_PROTOCOLS };

/* Does the collective have this program, for such ranks, reached in this way? */
static bool matrix_set_program(struct scenario *s, int program, const struct matrix_way *way)
{
	static const char *const funcs[] = {
#define MATRIX_FUNC(id, name) name,
		DEV_FUNCS(MATRIX_FUNC)
#undef MATRIX_FUNC
	};
	static const char *const algos[DEV_ALGO_COUNT] = {
		[DEV_RING] = "NCCL_ALGO=Ring",
		[DEV_ONE_SHOT] = "NCCL_ALGO=OneShot",
		[DEV_TWO_SHOT] = "NCCL_ALGO=TwoShot",
		[DEV_TREE] = "NCCL_ALGO=Tree",
		[DEV_PAT] = "NCCL_ALGO=PAT",
		[DEV_DOUBLING] = "NCCL_ALGO=Doubling",
		/* factors of the program's have no program in SIMPLE */
		[DEV_SYMMETRIC] = "NCCL_ALGO=Symmetric,Ring",
	};
	struct lab_config *c = &s->lab;

	if (c->gpus > way->gpus)
		return false;
	if (program >= DEV_PROGRAM_COUNT) {
		const char *proto = matrix_protocols[program - DEV_PROGRAM_COUNT];

		if (!c->collective->connects || (way->torn && strstr(proto, "LL128")))
			return false;
		matrix_set_protocol(s, proto);
		return true;
	}
	const struct dev_program_row row = steps_program(program);
	bool direct =
		row.algo == DEV_ONE_SHOT || row.algo == DEV_TWO_SHOT || row.algo == DEV_SYMMETRIC;
	uint32_t ranks = c->hosts * c->gpus;

	if (strcmp(funcs[row.func], c->collective->name) || (way->torn && row.proto == DEV_LL128) ||
	    (direct && (c->hosts > 1 || way->no_p2p)) ||
	    (row.algo == DEV_DOUBLING && (ranks & (ranks - 1))) ||
	    row.algo == DEV_COLLNET_CHAIN) /* it needs a plugin: sim.collnet_test */
		return false;
	if (row.algo == DEV_SYMMETRIC)
		c->local_register = LAB_REGISTER_WINDOW;
	scenario_set_env(s, algos[row.algo]);
	scenario_set_env(s, matrix_protocols[row.proto]);
	return true;
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
			matrix_scenario(&s, collective, &matrix_worlds[w], &matrix_sizes[z]);
			matrix_set_protocol(&s, matrix_protocols[p]);
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
		uint64_t runs = count->runs;

		matrix_full_world(c, w, count);
		if (count->runs == runs)
			continue;
		printf("%s: %u hosts x %u GPUs: %" PRIu64 " runs, %" PRIu64 " rows, %" PRIu64
		       " failed until now\n",
		       c->name, matrix_worlds[w].hosts, matrix_worlds[w].gpus, count->runs,
		       count->operations, count->failed);
	}
}

/* Every program, in every way, in worlds of one host, of two and of three. */
static void matrix_ways_collective(const struct lab_collective *c, struct matrix_count *count)
{
	static const struct matrix_world worlds[] = {{1, 4}, {2, 2}, {3, 3}};
	static struct scenario s;
	uint32_t turn = 0;

	for (size_t y = 0; y < ARRAY_LEN(matrix_ways); y++) {
		const struct matrix_way *way = &matrix_ways[y];
		uint64_t runs = count->runs;

		for (size_t i = 0;
		     i < MATRIX_PROGRAMS * ARRAY_LEN(worlds) * ARRAY_LEN(matrix_sizes); i++) {
			matrix_scenario(
				&s, c, &worlds[i % ARRAY_LEN(worlds)],
				&matrix_sizes[i / ARRAY_LEN(worlds) % ARRAY_LEN(matrix_sizes)]);
			if (!matrix_set_program(
				    &s, (int)(i / ARRAY_LEN(worlds) / ARRAY_LEN(matrix_sizes)),
				    way))
				continue;
			matrix_set_way(&s, way);
			matrix_all_values(&s.lab);
			s.lab.op_count = 1;
			s.lab.ops[0] = (ncclRedOp_t)(turn++ % LAB_MAX_OPS);
			s.lab.ranks_per_proc = turn % 3 ? 1 : LAB_ALL_RANKS;
			s.lab.sim.seed = turn;
			matrix_run(&s, count);
		}
		if (count->runs == runs)
			continue;
		printf("%s, %s: %" PRIu64 " runs, %" PRIu64 " rows, %" PRIu64 " failed until now\n",
		       c->name, way->name, count->runs, count->operations, count->failed);
	}
}

/* Runs these collectives, or all if no name is given. False: one of them does not exist. */
static bool matrix_each(void (*run)(const struct lab_collective *c, struct matrix_count *count),
			char **names, int n, struct matrix_count *count)
{
	for (int i = 0; i < n; i++)
		if (!lab_collective_find(names[i], strlen(names[i]))) {
			fprintf(stderr, "matrix_test: no collective is called '%s'\n", names[i]);
			return false;
		}
	for (int i = 0; i < n; i++)
		run(lab_collective_find(names[i], strlen(names[i])), count);
	for (uint32_t k = 0; !n && k < lab_collectives_n; k++)
		run(&lab_collectives[k], count);
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
					&matrix_sizes[i % ARRAY_LEN(matrix_sizes)]);
			scenario_set_env(&s, matrix_protocols[i / 2 % MATRIX_PROTOCOLS]);
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
		const struct matrix_way *way;

		do {
			way = &matrix_ways[sim_rng_below(&rng, ARRAY_LEN(matrix_ways))];
			matrix_scenario(&s, &lab_collectives[k], &matrix_worlds[w], &sizes);
		} while (!matrix_set_program(&s, (int)sim_rng_below(&rng, MATRIX_PROGRAMS), way));
		matrix_set_way(&s, way);
		s.lab.types[0] = (ncclDataType_t)sim_rng_below(&rng, LAB_MAX_TYPES);
		s.lab.ops[0] = (ncclRedOp_t)sim_rng_below(&rng, LAB_MAX_OPS);
		s.lab.root = (int32_t)sim_rng_below(&rng,
						    matrix_worlds[w].hosts * matrix_worlds[w].gpus);
		s.lab.ranks_per_proc = sim_rng_below(&rng, 2) ? 1 : LAB_ALL_RANKS;
		s.lab.sim.seed = sim_rng_below(&rng, UINT32_MAX);
		matrix_run(&s, count);
	}
}

/* False: it is no part. */
static bool matrix_part(const char *text, struct matrix_count *count)
{
	int end = 0;

	if (!strpbrk(text, "+-") &&
	    sscanf(text, "%u/%u%n", &count->part, &count->parts, &end) == 2 && !text[end] &&
	    count->part >= 1 && count->part <= count->parts)
		return true;
	fprintf(stderr, "matrix_test: part '%s': expected K/N with 1 <= K <= N\n", text);
	return false;
}

int main(int argc, char **argv)
{
	bool ways = argc > 1 && !strcmp(argv[1], "ways");
	bool full = ways || (argc > 1 && !strcmp(argv[1], "full"));
	bool drawn = argc == 3 && !strcmp(argv[1], "drawn");
	struct matrix_count count = {.part = 1, .parts = 1};
	char **names = argv + 2;
	int n = argc > 2 ? argc - 2 : 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 2 && !strcmp(argv[1], "list")) {
		for (uint32_t k = 0; k < lab_collectives_n; k++)
			puts(lab_collectives[k].name);
		return 0;
	}
	if (argc > 1 && !full && !drawn) {
		fprintf(stderr,
			"usage: matrix_test [list | full [K/N] [COLLECTIVE...] | ways [K/N] "
			"[COLLECTIVE...] | drawn HEX]\n");
		return SIM_USAGE;
	}
	if (full && n && strchr(names[0], '/')) {
		if (!matrix_part(names[0], &count))
			return SIM_USAGE;
		names++, n--;
	}
	if (full &&
	    !matrix_each(ways ? matrix_ways_collective : matrix_full_collective, names, n, &count))
		return SIM_USAGE;
	if (!full && !drawn)
		matrix_sample(&count);
	if (!full)
		matrix_drawn(strtoull(drawn ? argv[2] : build_commit(), NULL, 16), &count);
	printf("%d collectives: %" PRIu64 " runs, %" PRIu64 " rows, %" PRIu64 " failed\n",
	       full && n ? n : (int)lab_collectives_n, count.runs, count.operations, count.failed);
	return count.failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
