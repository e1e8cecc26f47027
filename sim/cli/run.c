/* SPDX-License-Identifier: BSD-3-Clause */
/* doppel run: options, then lab_run, then what came out. */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/cli/cli.h"
#include "sim/lab/payload.h"
#include "sim/lab/runner.h"

#define RUN_MAX_ENV 64

struct run_options {
	struct lab_config lab;
	const char *env[RUN_MAX_ENV + 1];
	int env_count;
	char *fault_plan; /* text of the file */
	bool gdb;
};

enum run_key {
	RUN_MACHINE = 0x100,
	RUN_HOSTS,
	RUN_GPUS,
	RUN_DEVICES,
	RUN_RANKS_PER_PROC,
	RUN_ENGINE,
	RUN_SEED,
	RUN_STRATEGY,
	RUN_MEMORY_ORDER,
	RUN_RACES,
	RUN_FAULTS,
	RUN_TRACE,
	RUN_GDB,
	RUN_WARP,
	RUN_ENV,
	RUN_RECORD,
	RUN_REPLAY,
	RUN_FAIL_DIR,
	RUN_NO_STRICT,
	RUN_PLACE,
	RUN_BUDGET_EVENTS,
	RUN_BUDGET_TIME,
	RUN_WORKERS,
	RUN_NOTHING
};

static const struct argp_option run_argp_options[] = {
	{NULL, 0, NULL, 0, "The world:", 1},
	{"machine", RUN_MACHINE, "XML", 0,
	 "a machine that comes with Doppel, or a topology file (default h100-8nic)", 1},
	{"hosts", RUN_HOSTS, "N", 0, "hosts of that machine (default 1)", 1},
	{"gpus", RUN_GPUS, "G", 0, "ranks per host, one GPU each (default: all GPUs)", 1},
	{"devices", RUN_DEVICES, "0,1,...", 0, "which GPUs of a host, by index", 1},
	{"ranks-per-process", RUN_RANKS_PER_PROC, "R", 0,
	 "ranks in one process (default 1; real GPUs: all of a host)", 1},
	{"warp", RUN_WARP, "1|32", 0, "lanes per warp of the GPU double (default 1)", 1},
	{"env", RUN_ENV, "NAME=VALUE", 0,
	 "environment of every rank; repeatable. NCCL_* and "
	 "DOPPEL_* of the caller are passed as well",
	 1},
	{"no-strict-device-view", RUN_NO_STRICT, NULL, 0,
	 "let the host dereference device pointers", 1},
	{NULL, 0, NULL, 0, "The collective (as nccl-tests):", 2},
	{"minbytes", 'b', "SIZE", 0, "smallest size (default 8)", 2},
	{"maxbytes", 'e', "SIZE", 0, "largest size (default 1M)", 2},
	{"stepfactor", 'f', "F", 0, "factor between sizes (default 2)", 2},
	{"stepbytes", 'i', "SIZE", 0, "increment between sizes, instead of a factor", 2},
	{"datatype", 'd', "TYPE", 0, "data type, or all (default float)", 2},
	{"op", 'o', "OP", 0, "sum, prod, max, min, avg, or all (default sum)", 2},
	{"iters", 'n', "N", 0, "timed iterations (default 1)", 2},
	{"warmup_iters", 'w', "N", 0, "iterations before (default 0)", 2},
	{"check", 'c', "0|1", 0, "check results (default 1)", 2},
	{"place", RUN_PLACE, "in|out|both", 0, "in place, out of place, or both (default)", 2},
	{NULL, 0, NULL, 0, "The engine:", 3},
	{"engine", RUN_ENGINE, "sim|threads", 0,
	 "virtual time and one seeded order, or pthreads and real time (default sim)", 3},
	{"seed", RUN_SEED, "S", 0, "seed (default 1)", 3},
	{"strategy", RUN_STRATEGY, "NAME", 0, "portfolio (default), uniform, pct, starve, fifo", 3},
	{"memory-order", RUN_MEMORY_ORDER, "draw|off|on", 0,
	 "stores become visible late and out of order, as far as fences allow (default draw: in "
	 "half of the seeds)",
	 3},
	{"races", RUN_RACES, NULL, 0, "report accesses that nothing orders", 3},
	{"faults", RUN_FAULTS, "PLAN", 0,
	 "a fault plan's file, or 'random' for one drawn from the seed ('doppel faults')", 3},
	{"trace", RUN_TRACE, "FILE", 0, "write a timeline for ui.perfetto.dev", 3},
	{"record", RUN_RECORD, "FILE", 0, "write the choices made", 3},
	{"replay", RUN_REPLAY, "FILE", 0, "make the choices of a recorded run", 3},
	{"fail-dir", RUN_FAIL_DIR, "DIR", 0,
	 "where a failing run leaves its choices, waits and a core with every task as a thread", 3},
	{"budget-events", RUN_BUDGET_EVENTS, "N", 0, "steps without progress that end a run", 3},
	{"budget-time", RUN_BUDGET_TIME, "SECONDS", 0,
	 "virtual seconds without progress that end a run", 3},
	{"workers", RUN_WORKERS, "N", 0, "threads engine: workers that run warps", 3},
	{"gdb", RUN_GDB, NULL, 0, "start under gdb, with Doppel's commands loaded", 3},
	{0},
};

static const struct {
	const char *name;
	ncclDataType_t type;
} run_types[] = {
	{"int8", ncclInt8},         {"uint8", ncclUint8},       {"int32", ncclInt32},
	{"uint32", ncclUint32},     {"int64", ncclInt64},       {"uint64", ncclUint64},
	{"half", ncclFloat16},      {"float", ncclFloat32},     {"double", ncclFloat64},
	{"bfloat16", ncclBfloat16}, {"f8e4m3", ncclFloat8e4m3}, {"f8e5m2", ncclFloat8e5m2},
};

static void run_parse_type(struct run_options *o, const char *arg, struct argp_state *state)
{
	o->lab.type_count = 0;
	for (size_t i = 0; i < sizeof run_types / sizeof run_types[0]; i++)
		if (!strcmp(arg, run_types[i].name) || !strcmp(arg, "all"))
			o->lab.types[o->lab.type_count++] = run_types[i].type;
	if (o->lab.type_count == 0)
		argp_error(state,
			   "-d %s: expected int8, uint8, int32, uint32, int64, uint64, half, "
			   "float, double, bfloat16, f8e4m3, f8e5m2 or all",
			   arg);
}

static void run_parse_op(struct run_options *o, const char *arg, struct argp_state *state)
{
	o->lab.op_count = 0;
	for (int op = ncclSum; op <= ncclAvg; op++)
		if (!strcmp(arg, payload_op_name((ncclRedOp_t)op)) || !strcmp(arg, "all"))
			o->lab.ops[o->lab.op_count++] = (ncclRedOp_t)op;
	if (o->lab.op_count == 0)
		argp_error(state, "-o %s: expected sum, prod, max, min, avg or all", arg);
}

static uint64_t run_number(struct argp_state *state, const char *option, const char *arg,
			   uint64_t least, uint64_t most)
{
	uint64_t v;
	if (!cli_parse_u64(arg, &v) || v < least || v > most)
		argp_error(state, "%s %s: expected a number from %" PRIu64 " to %" PRIu64, option,
			   arg, least, most);
	return v;
}

static uint64_t run_size(struct argp_state *state, const char *option, const char *arg)
{
	uint64_t v = 0;
	if (!cli_parse_size(arg, &v))
		argp_error(state, "%s %s: expected a size such as 8, 64K, 16M or 1G", option, arg);
	return v;
}

static void run_parse_devices(struct run_options *o, const char *arg, struct argp_state *state)
{
	char copy[512], *save = NULL;
	snprintf(copy, sizeof copy, "%s", arg);
	o->lab.device_count = 0;
	for (char *t = strtok_r(copy, ",", &save); t; t = strtok_r(NULL, ",", &save)) {
		if (o->lab.device_count == LAB_MAX_DEVICES)
			argp_error(state, "--devices: more than %d GPUs", LAB_MAX_DEVICES);
		o->lab.devices[o->lab.device_count] =
			(int32_t)run_number(state, "--devices", t, 0, INT32_MAX);
		for (uint32_t i = 0; i < o->lab.device_count; i++)
			if (o->lab.devices[i] == o->lab.devices[o->lab.device_count])
				argp_error(state, "--devices: GPU %s appears twice", t);
		o->lab.device_count++;
	}
	if (o->lab.device_count == 0)
		argp_error(state, "--devices '%s': expected GPU indices such as 0,1,3", arg);
}

static void run_parse_strategy(struct run_options *o, const char *arg, struct argp_state *state)
{
	static const char *const names[] = {"portfolio", "uniform", "pct", "starve", "fifo"};
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (!strcmp(arg, names[i])) {
			o->lab.sim.strategy = (enum sim_strategy)i;
			return;
		}
	argp_error(state, "--strategy %s: expected portfolio, uniform, pct, starve or fifo", arg);
}

static void run_parse_memory_order(struct run_options *o, const char *arg, struct argp_state *state)
{
	static const char *const names[] = {"draw", "off", "on"};
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (!strcmp(arg, names[i])) {
			o->lab.sim.memory_order = (enum sim_memory_order)i;
			return;
		}
	argp_error(state, "--memory-order %s: expected draw, off or on", arg);
}

static void run_add_env(struct run_options *o, const char *assignment, struct argp_state *state)
{
	if (!strchr(assignment, '=') || assignment[0] == '=')
		argp_error(state, "--env %s: expected NAME=VALUE", assignment);
	if (o->env_count == RUN_MAX_ENV)
		argp_error(state, "--env: more than %d variables", RUN_MAX_ENV);
	o->env[o->env_count++] = assignment;
}

static void run_read_plan(struct run_options *o, const char *arg, struct argp_state *state)
{
	if (!strcmp(arg, "random")) {
		o->lab.sim.fault_random = true;
		return;
	}
	FILE *f = fopen(arg, "r");
	if (!f)
		argp_error(state, "--faults %s: %s", arg, strerror(errno));
	size_t room = 1 << 20;
	o->fault_plan = calloc(1, room);
	size_t n = o->fault_plan ? fread(o->fault_plan, 1, room - 1, f) : 0;
	bool whole = n < room - 1;
	fclose(f);
	if (!o->fault_plan || !whole)
		argp_error(state, "--faults %s: a plan has at most 1 MiB", arg);
	o->lab.sim.fault_plan = o->fault_plan;
	o->lab.sim.fault_plan_name = arg;
}

static bool run_parse_world(int key, char *arg, struct argp_state *state, struct run_options *o)
{
	switch (key) {
	case RUN_MACHINE:
		o->lab.machine = arg;
		return true;
	case RUN_HOSTS:
		o->lab.hosts = (uint32_t)run_number(state, "--hosts", arg, 1, 4096);
		return true;
	case RUN_GPUS:
		o->lab.gpus = (uint32_t)run_number(state, "--gpus", arg, 1, 4096);
		return true;
	case RUN_DEVICES:
		run_parse_devices(o, arg, state);
		return true;
	case RUN_RANKS_PER_PROC:
		o->lab.ranks_per_proc =
			(uint32_t)run_number(state, "--ranks-per-process", arg, 1, 4096);
		return true;
	case RUN_WARP:
		o->lab.warp_width = (uint32_t)run_number(state, "--warp", arg, 1, 32);
		if (o->lab.warp_width != 1 && o->lab.warp_width != 32)
			argp_error(state, "--warp %s: expected 1 or 32", arg);
		return true;
	case RUN_ENV:
		run_add_env(o, arg, state);
		return true;
	case RUN_NO_STRICT:
		o->lab.strict_device_view = false;
		return true;
	default:
		return false;
	}
}

static bool run_parse_collective(int key, char *arg, struct argp_state *state,
				 struct run_options *o)
{
	switch (key) {
	case 'b':
		o->lab.bytes_min = run_size(state, "-b", arg);
		return true;
	case 'e':
		o->lab.bytes_max = run_size(state, "-e", arg);
		return true;
	case 'f':
		o->lab.factor = (uint32_t)run_number(state, "-f", arg, 1, 1u << 20);
		return true;
	case 'i':
		o->lab.bytes_step = run_size(state, "-i", arg);
		o->lab.factor = 0;
		return true;
	case 'd':
		run_parse_type(o, arg, state);
		return true;
	case 'o':
		run_parse_op(o, arg, state);
		return true;
	case 'n':
		o->lab.iterations = (uint32_t)run_number(state, "-n", arg, 1, 1u << 30);
		return true;
	case 'w':
		o->lab.warmup = (uint32_t)run_number(state, "-w", arg, 0, 1u << 30);
		return true;
	case 'c':
		o->lab.check = run_number(state, "-c", arg, 0, 1);
		return true;
	case RUN_PLACE:
		o->lab.in_place = strcmp(arg, "out") != 0;
		o->lab.out_of_place = strcmp(arg, "in") != 0;
		if (strcmp(arg, "in") && strcmp(arg, "out") && strcmp(arg, "both"))
			argp_error(state, "--place %s: expected in, out or both", arg);
		return true;
	default:
		return false;
	}
}

static bool run_parse_engine(int key, char *arg, struct argp_state *state, struct run_options *o)
{
	struct sim_config *s = &o->lab.sim;
	switch (key) {
	case RUN_ENGINE:
		s->engine = !strcmp(arg, "threads") ? SIM_ENGINE_THREADS : SIM_ENGINE_SIM;
		if (strcmp(arg, "sim") && strcmp(arg, "threads"))
			argp_error(state, "--engine %s: expected sim or threads", arg);
		return true;
	case RUN_SEED:
		s->seed = run_number(state, "--seed", arg, 0, UINT64_MAX);
		return true;
	case RUN_STRATEGY:
		run_parse_strategy(o, arg, state);
		return true;
	case RUN_MEMORY_ORDER:
		run_parse_memory_order(o, arg, state);
		return true;
	case RUN_RACES:
		s->races = true;
		return true;
	case RUN_FAULTS:
		run_read_plan(o, arg, state);
		return true;
	case RUN_TRACE:
		s->trace_path = arg;
		return true;
	case RUN_RECORD:
		s->choices_out = arg;
		return true;
	case RUN_REPLAY:
		s->choices_in = arg;
		return true;
	case RUN_FAIL_DIR:
		s->fail_dir = arg;
		return true;
	case RUN_BUDGET_EVENTS:
		s->budget_events = run_number(state, "--budget-events", arg, 1, UINT64_MAX);
		return true;
	case RUN_BUDGET_TIME:
		s->budget_ns = run_number(state, "--budget-time", arg, 1, 1u << 30) * 1000000000ull;
		return true;
	case RUN_WORKERS:
		s->workers = (uint32_t)run_number(state, "--workers", arg, 1, 1024);
		return true;
	case RUN_GDB:
		o->gdb = true;
		return true;
	default:
		return false;
	}
}

static error_t run_parse(int key, char *arg, struct argp_state *state)
{
	struct run_options *o = state->input;
	if (run_parse_world(key, arg, state, o) || run_parse_collective(key, arg, state, o) ||
	    run_parse_engine(key, arg, state, o))
		return 0;
	switch (key) {
	case ARGP_KEY_ARG:
		if (state->arg_num > 0)
			argp_error(state, "one collective at a time; '%s' is too much", arg);
		if (strcmp(arg, "all_reduce"))
			argp_error(state, "unknown collective '%s'; there is: all_reduce", arg);
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "which collective? there is: all_reduce");
		return EINVAL;
	case ARGP_KEY_END:
		if (o->lab.bytes_min > o->lab.bytes_max)
			argp_error(state, "-b %" PRIu64 " is larger than -e %" PRIu64,
				   o->lab.bytes_min, o->lab.bytes_max);
		if (o->lab.factor == 1 && o->lab.bytes_min != o->lab.bytes_max)
			argp_error(state,
				   "-f 1 would never reach -e; use -i, or a factor of at least 2");
		if (o->lab.factor == 0 && o->lab.bytes_step == 0)
			argp_error(state, "-i 0 would never reach -e");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Warnings are shown unless the caller says otherwise. The caller's NCCL_* and DOPPEL_* reach every
 * rank; --env comes later; the last one wins. */
static void run_inherit_env(struct run_options *o)
{
	o->env[o->env_count++] = "NCCL_DEBUG=WARN";
	for (char **e = environ; *e && o->env_count < RUN_MAX_ENV; e++)
		if (!strncmp(*e, "NCCL_", 5) || !strncmp(*e, "DOPPEL_", 7))
			o->env[o->env_count++] = *e;
}

/* Replaces this process by gdb around the same command without --gdb. gdb asks no
 * server for symbols, and Doppel's commands are loaded. */
static int run_under_gdb(int argc, char **argv)
{
	static const char *const first[] = {
		"gdb",
		"-q",
		"-iex",
		"set debuginfod enabled off",
		"-iex",
		"set pagination off",
		"-iex",
		"set print thread-events off",
		"-iex",
		"set breakpoint pending on",
		"-x",
		DOPPEL_GDB_DIR "/doppel.py",
		"-ex",
		("echo Doppel: 'run' or 'break FUNCTION' first; then 'info tasks', 'task N', "
		 "'sim step', 'help sim'.\\n"),
		"--args",
	};
	const size_t firsts = sizeof first / sizeof first[0];
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	const char **args = calloc((size_t)argc + firsts + 2, sizeof *args);
	size_t k = 0;

	if (n < 0 || !args) {
		fprintf(stderr, "doppel: cannot find my own program: %s\n", strerror(errno));
		free(args);
		return SIM_USAGE;
	}
	self[n] = '\0';
	for (; k < firsts; k++)
		args[k] = first[k];
	args[k++] = self;
	for (int i = 0; i < argc; i++)
		if (strcmp(argv[i], "--gdb"))
			args[k++] = argv[i];
	execvp("gdb", (char **)args);
	fprintf(stderr, "doppel: cannot start gdb: %s (apt-get install gdb)\n", strerror(errno));
	free(args);
	return SIM_USAGE;
}

static int run_report(const struct run_options *o, const struct lab_result *r)
{
	printf("# seed %" PRIu64 " strategy %s engine %s\n", r->seed, r->strategy,
	       o->lab.sim.engine == SIM_ENGINE_SIM ? "sim" : "threads");
	if (o->lab.sim.engine == SIM_ENGINE_SIM)
		printf("# trace hash 0x%016" PRIx64 "\n", r->hash);
	else
		printf("# trace hash none (real time)\n");
	fflush(stdout);
	if (r->verdict != SIM_PASS)
		return (int)r->verdict;
	return r->error == ncclSuccess ? SIM_PASS : CLI_ERROR_RETURNED;
}

static bool run_has_both_doubles(void)
{
#if defined(DOPPEL_FAKECUDA) && defined(DOPPEL_FAKEVERBS)
	return true;
#else
	return false;
#endif
}

int cli_run(int argc, char **argv)
{
	static const struct argp argp = {
		.options = run_argp_options,
		.parser = run_parse,
		.args_doc = "all_reduce",
		.doc = "Runs a collective over all GPUs of a world of hosts, through the whole "
		       "stack, and "
		       "checks the result.\vExit status: 0 pass, 1 usage, 2 a call returned an "
		       "error, 127 "
		       "crash, 128 no progress, 129 wrong result, 131 leak.",
	};
	static struct run_options o;
	struct lab_result result;
	lab_config_default(&o.lab);
	if (!run_has_both_doubles())
		o.lab.sim.engine = SIM_ENGINE_THREADS;
	run_inherit_env(&o);
	argp_err_exit_status = SIM_USAGE;
	argp_parse(&argp, argc, argv, 0, NULL, &o);
	if (!run_has_both_doubles() && o.lab.sim.engine == SIM_ENGINE_SIM) {
		fprintf(stderr, "doppel: --engine sim needs both doubles: real GPUs and HCAs keep "
				"their own time. Use --engine threads, or the preset `fake`.\n");
		return SIM_USAGE;
	}
	if (o.gdb)
		return run_under_gdb(argc, argv);
	o.lab.env = o.env;
	o.lab.table = stdout;
	o.lab.progress = isatty(STDERR_FILENO) && !isatty(STDOUT_FILENO);
	int rc = lab_run(&o.lab, &result);
	int code = rc ? SIM_USAGE : run_report(&o, &result);
	free(o.fault_plan);
	return code;
}
