/* SPDX-License-Identifier: BSD-3-Clause */
/* The options that define a run: shared by `doppel run` and by sweeps with fixed options. */
#include "sim/cli/options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/macros.h"
#include "sim/cli/environment.h"
#include "sim/world/world.h"

static const struct argp_option options_argp_options[] = {
	{NULL, 0, NULL, 0, "The world:", 1},
	{"machine", OPTION_MACHINE, "XML[,XML...]", 0,
	 "one of Doppel's machines, or a topology file (default h100-8nic); host i has the i-th of "
	 "several, cyclically",
	 1},
	{"hosts", OPTION_HOSTS, "N", 0, "hosts (default: one of each machine)", 1},
	{"gpus", OPTION_GPUS, "G|G0,G1,...", 0,
	 "ranks per host, one GPU each, or the number of each host (default: all GPUs)", 1},
	{"map-by", OPTION_MAP, "slot|node|seed", 0,
	 "assignment of ranks to hosts: as mpirun does, or in an order drawn from the seed "
	 "(default slot: consecutive ranks)",
	 1},
	{"devices", OPTION_DEVICES, "0,1,...", 0,
	 "which GPUs of a host, by index (default: the first --gpus)", 1},
	{"ranks-per-process", OPTION_RANKS_PER_PROC, "R", 0,
	 "ranks in one process (default 1; real GPUs: all of a host)", 1},
	{"drive", OPTION_DRIVE, "rank|process", 0,
	 "which task makes a rank's calls: its own (default), or one of its process for all ranks "
	 "there, in groups",
	 1},
	{"sms", OPTION_SMS, "N", 0, "maximum multiprocessors of a GPU (default: all)", 1},
	{"warp", OPTION_WARP, "1|32", 0, "lanes per warp of the GPU double (default 1)", 1},
	{"env", OPTION_ENV, "NAME=VALUE", 0,
	 "environment of every rank; repeatable. NCCL_* and "
	 "DOPPEL_* of the caller are passed as well (default: only those)",
	 1},
	{"no-strict-device-view", OPTION_NO_STRICT, NULL, 0,
	 "let the host dereference device pointers", 1},
	{NULL, 0, NULL, 0, "The collective (as nccl-tests):", 2},
	{"minbytes", 'b', "SIZE", 0, "smallest size (default 8)", 2},
	{"maxbytes", 'e', "SIZE", 0, "largest size (default 1M)", 2},
	{"stepfactor", 'f', "F", 0, "factor between sizes (default 2)", 2},
	{"stepbytes", 'i', "SIZE", 0,
	 "increment between sizes, instead of a factor (default: none)", 2},
	{"datatype", 'd', "TYPE", 0, "data type, or all (default float)", 2},
	{"op", 'o', "OP", 0, "sum, prod, max, min, avg, or all (default sum)", 2},
	{"root-rank", 'r', "RANK|all", 0, "root, or all, where the collective has one (default 0)",
	 2},
	{"iters", 'n', "N", 0, "timed iterations (default 1)", 2},
	{"warmup_iters", 'w', "N", 0, "iterations before (default 0)", 2},
	{"check", 'c', "0|1", 0, "check results (default 1)", 2},
	{"parallel_init", 'p', "0|1", 0,
	 "ranks initialise at the same time: the default; 0 is refused", 2},
	{"any-numbers", OPTION_ANY_NUMBERS, NULL, 0,
	 "reduce arbitrary numbers instead of small ones: integers wrap; floats are rounded, and "
	 "compared with the only correct rounding, or with a bound",
	 2},
	{"cudagraph", 'G', "N", 0,
	 "real GPUs: launch the timed collectives N times as a CUDA graph (default 0: without)", 2},
	{"local_register", 'R', "0|1|2|3", 0,
	 "register the buffers, which ncclMemAlloc allocates then; 2: new buffers for each series; "
	 "3: register each buffer twice (default 0)",
	 2},
	{"ngpus", 'g', "G", 0,
	 "G ranks of a host in one process (default: as the options that it sets), whose single "
	 "task makes their calls: sets --gpus, --ranks-per-process and --drive process",
	 2},
	{"nthreads", 't', "T", 0,
	 "T ranks of a host in one process, with a task for each rank: sets --gpus and "
	 "--ranks-per-process (default: theirs)",
	 2},
	{"agg_iters", 'm', "N", 0, "iterations are groups of N collectives (default 1)", 2},
	{"run_cycles", 'N', "N", 0, "run and print all rows N times (default 1)", 2},
	{"blocking", 'z', "0|1|2", 0,
	 "a rank waits after each collective: 1 for its stream and then for all ranks, 2 for its "
	 "stream (default 0)",
	 2},
	{"report_cputime", 'C', "0|1", 0, "the time of a row is that of a rank's calls (default 0)",
	 2},
	{"unalign", 'u', "N", 0, "offset of the buffers, in elements (default 0)", 2},
	{"timeout", 'T', "S", OPTION_HIDDEN, NULL, 2},
	{"stream_null", 'y', "0|1", OPTION_HIDDEN, NULL, 2},
	{"report_timestamps", 'S', "0|1", OPTION_HIDDEN, NULL, 2},
	{"output_file", 'J', "FILE", OPTION_HIDDEN, NULL, 2},
	{"cta_policy", 'x', "0|1|2", OPTION_HIDDEN, NULL, 2},
	{"device_implementation", 'D', "N", OPTION_HIDDEN, NULL, 2},
	{"device_cta_count", 'V', "N", OPTION_HIDDEN, NULL, 2},
	{"memory_report", 'M', "0|1", OPTION_HIDDEN, NULL, 2},
	{"place", OPTION_PLACE, "in|out|both", 0, "in place, out of place, or both (default)", 2},
	{NULL, 0, NULL, 0, "The engine:", 3},
	{"engine", OPTION_ENGINE, "sim|threads", 0,
	 "virtual time and one seeded order, or pthreads and real time (default sim); with the GPU "
	 "double `run' limits the channels of real time to the CPUs that a rank has, unless "
	 "NCCL_MAX_NCHANNELS or the like is set",
	 3},
	{"seed", OPTION_SEED, "S", 0, "seed (default 1)", 3},
	{"strategy", OPTION_STRATEGY, "NAME", 0, "portfolio (default), uniform, pct, starve, fifo",
	 3},
	{"memory-order", OPTION_MEMORY_ORDER, "draw|off|on", 0,
	 "stores become visible late and out of order, as far as fences allow (default draw: in "
	 "half of the seeds)",
	 3},
	{"races", OPTION_RACES, NULL, 0, "report accesses that nothing orders", 3},
	{"faults", OPTION_FAULTS, "PLAN", 0,
	 "a fault plan's file, or 'random' for one drawn from the seed ('doppel faults'; "
	 "default: none)",
	 3},
	{"faults-must-fire", OPTION_MUST_FIRE, NULL, 0,
	 "a run that passes ends with 1 when a line of the plan never fired; a sweep, when none "
	 "did in "
	 "any seed",
	 3},
	{"recover", OPTION_RECOVER, NULL, 0,
	 "after a failure the survivors must create a second communicator, for which faults heal",
	 3},
	{"quiet-rank", OPTION_QUIET, "RANK", 0,
	 "with faults of connections: a rank that does not poll its communicator; the others must "
	 "detect its failures nevertheless (default: none)",
	 3},
	{"hasty", OPTION_HASTY, NULL, 0,
	 "end with a collective that still runs when its communicator is destroyed", 3},
	{"before", OPTION_BEFORE, "COLLECTIVE", 0,
	 "another collective runs first on the same communicator; checked, not in the table "
	 "(default: none)",
	 3},
	{"streams", OPTION_STREAMS, "N", 0,
	 "split a collective into parts on N streams of its rank, round-robin; the streams have "
	 "other work, too (default 1)",
	 3},
	{"group", OPTION_GROUP, "N", 0, "put N of these parts into a group (default 1)", 3},
	{"comms", OPTION_COMMS, "N", 0,
	 "spread the parts over N communicators of the same ranks, one after the other or in one "
	 "group (default 1)",
	 3},
	{"per-iteration", OPTION_PER_ITERATION, NULL, 0,
	 "print a line for each iteration of a timed series, too; in --json a list", 3},
	{"transient", OPTION_TRANSIENT, "N", 0,
	 "while a collective runs, N communicators of drawn ranks are made, used and destroyed "
	 "(default 0)",
	 3},
	{"idle", OPTION_IDLE, "N", 0,
	 "meanwhile another task of each rank creates and destroys N communicators without using "
	 "them (default 0)",
	 3},
	{"mixed", OPTION_MIXED, "N", 0,
	 "afterwards, run N groups of different collectives and messages on several streams "
	 "(default 0)",
	 3},
	{"late", OPTION_LATE, "SECONDS", 0,
	 "delay each rank's init, and its end, by at most SECONDS, drawn from the seed (default 0)",
	 3},
	{"finalize", OPTION_FINALIZE, NULL, 0,
	 "communicators are finalized before they are destroyed", 3},
	{"nonblocking", OPTION_NONBLOCKING, NULL, 0,
	 "communicators are non-blocking; a rank polls them after each call", 3},
	{"polls", OPTION_POLLS, NULL, 0,
	 "another task of each rank polls its communicators until they are destroyed", 3},
	{"refused", OPTION_REFUSED, "N", 0,
	 "each rank makes N calls that must be refused, after the series (default 0)", 3},
	{"init-fails", OPTION_INIT_FAILS, "N", 0,
	 "N inits that must fail, before the first one and after the series (default 0)", 3},
	{"pauses", OPTION_PAUSES, "MS", 0,
	 "each rank sleeps now and then before a call, so long at most, drawn from the seed "
	 "(default 0)",
	 3},
	{"leaves", OPTION_LEAVES, "abort|destroy|finalize|each", 0,
	 "with faults: how a rank ends its communicators after an error; each: drawn for each "
	 "rank, and after a time that is (default abort)",
	 3},
	{"ends", OPTION_ENDS, "in-order|reversed|seed|each", 0,
	 "order in which communicators are destroyed; seed: drawn for all ranks, each: drawn for "
	 "each rank (default in-order)",
	 3},
	{"config-version", OPTION_CONFIG_VERSION, "V", 0,
	 "make communicators with a config of NCCL V, such as 21800 (default: without one)", 3},
	{"env-odd", OPTION_ENV_ODD, "NAME=VALUE", 0,
	 "set a variable in every other process (default: none)", 3},
	{"trace", OPTION_TRACE, "FILE", 0, "write a timeline for ui.perfetto.dev (default: none)",
	 3},
	{"trace-detail", OPTION_TRACE_DETAIL, "FILE", 0,
	 "--trace with a track for each warp, and every record (default: none)", 3},
	{"record", OPTION_RECORD, "FILE", 0, "write the choices made (default: none)", 3},
	{"replay", OPTION_REPLAY, "FILE", 0,
	 "make the choices of a recorded run (default: draw them)", 3},
	{"fail-dir", OPTION_FAIL_DIR, "DIR", 0,
	 "folder for a failing run's choices, waits and a core with every task as a thread "
	 "(default: run none, sweep fail)",
	 3},
	{"budget-events", OPTION_BUDGET_EVENTS, "N", 0,
	 "steps without progress that end a run (default 20000000)", 3},
	{"budget-time", OPTION_BUDGET_TIME, "SECONDS", 0,
	 "virtual seconds without progress that end a run (default 3600)", 3},
	{"workers", OPTION_WORKERS, "N", 0,
	 "threads engine: workers that run warps (default: one per CPU)", 3},
	{"gdb", OPTION_GDB, NULL, 0, "start under gdb, with Doppel's commands loaded", 3},
	{NULL, 0, NULL, 0,
	 "Real processes; those of several computers with a real HCA (presets soft-roce, "
	 "hardware):",
	 4},
	{"processes", OPTION_PROCESSES, "P", 0,
	 "start P processes on this computer, with --gpus ranks each (default 1)", 4},
	{"rank", OPTION_RANK, "R", 0, "run one of them, whose first rank is R (default: start all)",
	 4},
	{"ranks", OPTION_RANKS, "N", 0, "ranks of all processes (default: needed with --rank)", 4},
	{"root", OPTION_ROOT, "HOST:PORT", 0,
	 "address at which rank 0's process accepts the others; start it first (default: needed "
	 "with --rank)",
	 4},
	{"limit", OPTION_LIMIT, "SECONDS", 0,
	 "a process that takes longer prints which task waits for which and ends with 10 (default: "
	 "no limit)",
	 4},
	{"id-fd", OPTION_ID_FD, "FD", OPTION_HIDDEN, "the launcher's, instead of --root", 4},
	{0},
};

uint64_t cli_number(struct argp_state *state, const char *option, const char *arg, uint64_t least,
		    uint64_t most)
{
	uint64_t v;
	if (!cli_parse_u64(arg, &v) || v < least || v > most)
		argp_error(state, "%s %s: expected a number from %" PRIu64 " to %" PRIu64, option,
			   *arg ? arg : "''", least, most);
	return v;
}

uint64_t cli_size(struct argp_state *state, const char *option, const char *arg)
{
	uint64_t v = 0;
	if (!cli_parse_size(arg, &v))
		argp_error(state, "%s %s: expected a size such as 8, 64K, 16M or 1G", option, arg);
	return v;
}

/* Parses one number, or one number per host. */
static void options_parse_gpus(struct cli_options *o, const char *arg, struct argp_state *state)
{
	struct lab_config *c = &o->scenario.lab;
	char copy[8 * LAB_MAX_HOST_GPUS], *rest = copy, *t;

	c->host_gpus_n = 0;
	c->gpus = 0;
	if (!strchr(arg, ',')) {
		c->gpus = (uint32_t)cli_number(state, "--gpus", arg, 1, 4096);
		return;
	}
	if ((size_t)snprintf(copy, sizeof copy, "%s", arg) >= sizeof copy)
		argp_error(state, "--gpus: longer than %zu characters", sizeof copy - 1);
	while ((t = strsep(&rest, ","))) {
		if (c->host_gpus_n == LAB_MAX_HOST_GPUS)
			argp_error(state, "--gpus: more than %d hosts", LAB_MAX_HOST_GPUS);
		c->host_gpus[c->host_gpus_n++] = (uint32_t)cli_number(state, "--gpus", t, 1, 4096);
	}
	cli_give(&o->given, OPTION_GPU_LIST);
}

static void options_parse_map(struct cli_options *o, const char *arg, struct argp_state *state)
{
	static const char *const names[] = {"slot", "node", "seed"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (!strcmp(arg, names[i])) {
			o->scenario.lab.map = (enum lab_map)i;
			return;
		}
	argp_error(state, "--map-by %s: expected slot, node or seed", arg);
}

/* Parses a list of GPUs. An empty item is an error, as it is not a number. */
static void options_parse_devices(struct cli_options *o, const char *arg, struct argp_state *state)
{
	char copy[16 * LAB_MAX_DEVICES], *rest = copy, *t;
	if ((size_t)snprintf(copy, sizeof copy, "%s", arg) >= sizeof copy)
		argp_error(state, "--devices: longer than %zu characters", sizeof copy - 1);
	o->scenario.lab.device_count = 0;
	while ((t = strsep(&rest, ","))) {
		if (o->scenario.lab.device_count == LAB_MAX_DEVICES)
			argp_error(state, "--devices: more than %d GPUs", LAB_MAX_DEVICES);
		o->scenario.lab.devices[o->scenario.lab.device_count] =
			(int32_t)cli_number(state, "--devices", t, 0, INT32_MAX);
		for (uint32_t i = 0; i < o->scenario.lab.device_count; i++)
			if (o->scenario.lab.devices[i] ==
			    o->scenario.lab.devices[o->scenario.lab.device_count])
				argp_error(state, "--devices: GPU %s appears twice", t);
		o->scenario.lab.device_count++;
	}
}

static void options_parse_strategy(struct cli_options *o, const char *arg, struct argp_state *state)
{
	static const char *const names[] = {"portfolio", "uniform", "pct", "starve", "fifo"};
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (!strcmp(arg, names[i])) {
			o->scenario.lab.sim.strategy = (enum sim_strategy)i;
			return;
		}
	argp_error(state, "--strategy %s: expected portfolio, uniform, pct, starve or fifo", arg);
}

static void options_parse_memory_order(struct cli_options *o, const char *arg,
				       struct argp_state *state)
{
	static const char *const names[] = {"draw", "off", "on"};
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (!strcmp(arg, names[i])) {
			o->scenario.lab.sim.memory_order = (enum sim_memory_order)i;
			return;
		}
	argp_error(state, "--memory-order %s: expected draw, off or on", arg);
}

static void options_add_env(struct cli_options *o, const char *assignment, struct argp_state *state)
{
	cli_env_option("--env", assignment, state);
	switch (scenario_set_env(&o->scenario, assignment)) {
	case ENOSPC:
		argp_error(state, "--env: more than %d variables", SCENARIO_MAX_ENV);
		return;
	case E2BIG:
		argp_error(state, "--env %.20s...: longer than %d characters", assignment,
			   SCENARIO_ENV_BYTES - 1);
		return;
	}
}

static void options_read_plan(struct cli_options *o, const char *arg, struct argp_state *state)
{
	o->scenario.plan[0] = 0;
	if (!strcmp(arg, "random")) {
		o->scenario.lab.sim.fault_random = true;
		cli_give(&o->given, OPTION_RANDOM_FAULTS);
		return;
	}
	FILE *f = fopen(arg, "r");
	if (!f)
		argp_error(state, "--faults %s: %s", arg, strerror(errno));
	size_t n = fread(o->scenario.plan, 1, SCENARIO_PLAN_BYTES, f);
	bool bad = ferror(f) != 0;
	fclose(f);
	if (bad || n == SCENARIO_PLAN_BYTES)
		argp_error(state, "--faults %s: a plan is a file of at most %d bytes", arg,
			   SCENARIO_PLAN_BYTES - 1);
	o->scenario.plan[n] = 0;
	if (strlen(o->scenario.plan) != n)
		argp_error(state, "--faults %s: a plan is text", arg);
	o->scenario.lab.sim.fault_random = false;
	o->scenario.lab.sim.fault_plan_name = arg;
}

static bool options_parse_world(int key, char *arg, struct argp_state *state, struct cli_options *o)
{
	switch (key) {
	case OPTION_MACHINE:
		if (strlen(arg) >= SCENARIO_PATH_BYTES)
			argp_error(state, "--machine: longer than %d characters",
				   SCENARIO_PATH_BYTES - 1);
		snprintf(o->scenario.machine, sizeof o->scenario.machine, "%s", arg);
		return true;
	case OPTION_HOSTS:
		o->scenario.lab.hosts = (uint32_t)cli_number(state, "--hosts", arg, 1, 4096);
		return true;
	case OPTION_GPUS:
		options_parse_gpus(o, arg, state);
		return true;
	case OPTION_MAP:
		options_parse_map(o, arg, state);
		return true;
	case OPTION_DEVICES:
		options_parse_devices(o, arg, state);
		return true;
	case OPTION_RANKS_PER_PROC:
		o->scenario.lab.ranks_per_proc =
			(uint32_t)cli_number(state, "--ranks-per-process", arg, 1, 4096);
		return true;
	case OPTION_DRIVE:
		o->scenario.lab.drive =
			!strcmp(arg, "process") ? LAB_DRIVE_PROCESS : LAB_DRIVE_RANK;
		if (strcmp(arg, "process") && strcmp(arg, "rank"))
			argp_error(state, "--drive %s: expected rank or process", arg);
		return true;
	case OPTION_SMS:
		o->scenario.lab.gpu_sms = (uint32_t)cli_number(state, "--sms", arg, 1, 4096);
		return true;
	case OPTION_WARP:
		o->scenario.lab.warp_width = (uint32_t)cli_number(state, "--warp", arg, 1, 32);
		if (o->scenario.lab.warp_width != 1 && o->scenario.lab.warp_width != 32)
			argp_error(state, "--warp %s: expected 1 or 32", arg);
		return true;
	case OPTION_ENV:
		options_add_env(o, arg, state);
		return true;
	case OPTION_NO_STRICT:
		o->scenario.lab.strict_device_view = false;
		return true;
	default:
		return false;
	}
}

static bool options_parse_engine(int key, char *arg, struct argp_state *state,
				 struct cli_options *o)
{
	struct sim_config *s = &o->scenario.lab.sim;
	switch (key) {
	case OPTION_ENGINE:
		s->engine = !strcmp(arg, "threads") ? SIM_ENGINE_THREADS : SIM_ENGINE_SIM;
		if (strcmp(arg, "sim") && strcmp(arg, "threads"))
			argp_error(state, "--engine %s: expected sim or threads", arg);
		return true;
	case OPTION_SEED:
		s->seed = cli_number(state, "--seed", arg, 0, UINT64_MAX);
		return true;
	case OPTION_STRATEGY:
		options_parse_strategy(o, arg, state);
		return true;
	case OPTION_MEMORY_ORDER:
		options_parse_memory_order(o, arg, state);
		return true;
	case OPTION_RECOVER:
		o->scenario.lab.recover = true;
		return true;
	case OPTION_QUIET:
		o->scenario.lab.quiet =
			1 + (uint32_t)cli_number(state, "--quiet-rank", arg, 0, 4095);
		return true;
	case OPTION_RACES:
		s->races = true;
		return true;
	case OPTION_FAULTS:
		options_read_plan(o, arg, state);
		return true;
	case OPTION_MUST_FIRE:
		o->must_fire = true;
		return true;
	case OPTION_TRACE:
	case OPTION_TRACE_DETAIL:
		s->trace_path = arg;
		s->trace_detail = key == OPTION_TRACE_DETAIL;
		return true;
	case OPTION_RECORD:
		s->choices_out = arg;
		return true;
	case OPTION_REPLAY:
		s->choices_in = arg;
		return true;
	case OPTION_FAIL_DIR:
		o->fail_dir = arg;
		return true;
	case OPTION_BUDGET_EVENTS:
		s->budget_events = cli_number(state, "--budget-events", arg, 1, UINT64_MAX);
		return true;
	case OPTION_BUDGET_TIME:
		s->budget_ns = cli_number(state, "--budget-time", arg, 1, 1u << 30) * 1000000000ull;
		return true;
	case OPTION_WORKERS:
		s->workers = (uint32_t)cli_number(state, "--workers", arg, 1, 1024);
		return true;
	case OPTION_GDB:
		o->gdb = true;
		return true;
	default:
		return false;
	}
}

/* Checks "HOST:PORT" or "[ADDRESS]:PORT". */
static const char *options_root(const char *arg, struct argp_state *state)
{
	const char *colon = strrchr(arg, ':');
	uint64_t port;

	if (!colon || colon == arg || !cli_parse_u64(colon + 1, &port) || !port || port > 65535)
		argp_error(state, "--root %s: expected HOST:PORT, such as 10.0.0.1:7500", arg);
	return arg;
}

static bool options_parse_processes(int key, char *arg, struct argp_state *state,
				    struct cli_options *o)
{
	switch (key) {
	case OPTION_PROCESSES:
		o->processes =
			(uint32_t)cli_number(state, "--processes", arg, 1, CLI_MAX_PROCESSES);
		return true;
	case OPTION_RANK:
		o->rank = (int32_t)cli_number(state, "--rank", arg, 0, 1u << 20);
		return true;
	case OPTION_RANKS:
		o->ranks = (int32_t)cli_number(state, "--ranks", arg, 1, 1u << 20);
		return true;
	case OPTION_ROOT:
		o->root = options_root(arg, state);
		return true;
	case OPTION_ID_FD:
		o->id_fd = (int)cli_number(state, "--id-fd", arg, 0, INT32_MAX);
		return true;
	case OPTION_LIMIT:
		o->limit_s = (uint32_t)cli_number(state, "--limit", arg, 1, 1u << 30);
		return true;
	default:
		return false;
	}
}

static void options_end_machines(struct cli_options *o, struct argp_state *state)
{
	uint32_t n = lab_machines_count(o->scenario.machine);

	if (n == 1)
		return;
	cli_give(&o->given, OPTION_MACHINE_LIST);
	if (!cli_is_given(&o->given, OPTION_HOSTS))
		o->scenario.lab.hosts = n;
	if (n > o->scenario.lab.hosts)
		argp_error(state,
			   "--machine with %u machines, --hosts %u: expected at most one "
			   "for each host",
			   n, o->scenario.lab.hosts);
}

static void options_end_gpus(struct cli_options *o, struct argp_state *state)
{
	struct lab_config *c = &o->scenario.lab;

	if (!cli_is_given(&o->given, OPTION_HOSTS) && c->host_gpus_n)
		c->hosts = c->host_gpus_n;
	if (c->host_gpus_n && c->host_gpus_n != c->hosts)
		argp_error(state, "--gpus with %u numbers, --hosts %u: expected one for each host",
			   c->host_gpus_n, c->hosts);
}

/* Enables detection on real GPUs, unless a machine or a topology file is named. */
static void options_end_topology(struct cli_options *o)
{
#ifndef DOPPEL_FAKECUDA
	const char *machine = getenv("DOPPEL_MACHINE");
	bool named = cli_is_given(&o->given, OPTION_MACHINE) || (machine && *machine);

	for (uint32_t i = 0; i < o->scenario.env_count; i++)
		named |= strncmp(o->scenario.env[i], "NCCL_TOPO_FILE=", 15) == 0;
	if (!named)
		(void)scenario_set_env(&o->scenario, "NCCL_TOPO_FILE=");
#else
	(void)o;
#endif
}

static error_t options_parse(int key, char *arg, struct argp_state *state)
{
	struct cli_options *o = state->input;
	cli_take(state, options_argp_options, &o->given, key, arg);
	if (cli_program_parse(key, arg, state, o) || options_parse_engine(key, arg, state, o) ||
	    options_parse_processes(key, arg, state, o))
		return 0;
	if (options_parse_world(key, arg, state, o) || cli_collective_parse(key, arg, state, o)) {
		cli_give(&o->given, OPTION_FIXED);
		return 0;
	}
	switch (key) {
	case ARGP_KEY_ARG:
		cli_collective_name(arg, state, o);
		cli_give(&o->given, OPTION_FIXED);
		return 0;
	case ARGP_KEY_END:
		options_end_machines(o, state);
		options_end_gpus(o, state);
		options_end_topology(o);
		cli_collective_end(state, o);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Shows warnings unless the caller's environment sets another level. The caller's NCCL_* and
 * DOPPEL_* variables are set in every rank. --env is applied later. The last assignment of a name
 * counts. */
static void options_inherit_env(struct scenario *s)
{
	scenario_set_env(s, "NCCL_DEBUG=WARN");
	for (char **e = environ; *e; e++)
		if ((!strncmp(*e, "NCCL_", 5) || !strncmp(*e, "DOPPEL_", 7)) &&
		    scenario_set_env(s, *e)) {
			fprintf(stderr,
				"doppel: %.40s... of the environment does not fit; expected at "
				"most %d variables of %d characters\n",
				*e, SCENARIO_MAX_ENV, SCENARIO_ENV_BYTES - 1);
			exit(SIM_USAGE);
		}
}

static void options_inherit_machine(struct cli_options *o)
{
	const char *machine = getenv("DOPPEL_MACHINE");

	if (!machine || !*machine)
		return;
	if ((size_t)snprintf(o->scenario.machine, sizeof o->scenario.machine, "%s", machine) >=
	    sizeof o->scenario.machine) {
		fprintf(stderr, "doppel: DOPPEL_MACHINE: expected at most %d characters\n",
			SCENARIO_PATH_BYTES - 1);
		exit(SIM_USAGE);
	}
	cli_give(&o->given, OPTION_FIXED);
}

bool cli_has_both_doubles(void)
{
#if defined(DOPPEL_FAKECUDA) && defined(DOPPEL_FAKEVERBS)
	return true;
#else
	return false;
#endif
}

void cli_options_default(struct cli_options *o)
{
	memset(o, 0, sizeof *o);
	scenario_default(&o->scenario);
	o->rank = o->id_fd = -1;
	if (!cli_has_both_doubles())
		o->scenario.lab.sim.engine = SIM_ENGINE_THREADS;
	options_inherit_env(&o->scenario);
	options_inherit_machine(o);
}

/* An option without an effect, or with two meanings, is refused instead of ignored. */
static const struct cli_rule options_rules[] = {
	{CLI_EXCLUDES, OPTION_DEVICES, {OPTION_GPUS}, NULL},
	{CLI_EXCLUDES, OPTION_GPU_LIST, {OPTION_PROCESSES, OPTION_RANK}, NULL},
	{CLI_EXCLUDES, OPTION_MACHINE_LIST, {OPTION_PROCESSES, OPTION_RANK}, NULL},
	{CLI_EXCLUDES, OPTION_MAP, {OPTION_PROCESSES, OPTION_RANK}, NULL},
	{CLI_EXCLUDES, 'f', {'i'}, NULL},
	{CLI_EXCLUDES,
	 'g',
	 {OPTION_GPUS, OPTION_DEVICES, OPTION_RANKS_PER_PROC, OPTION_DRIVE},
	 NULL},
	{CLI_EXCLUDES,
	 't',
	 {OPTION_GPUS, OPTION_DEVICES, OPTION_RANKS_PER_PROC, OPTION_DRIVE},
	 NULL},
	{CLI_EXCLUDES, 'm', {OPTION_GROUP, OPTION_STREAMS, OPTION_COMMS}, NULL},
	{CLI_EXCLUDES, 'z', {'G'}, NULL},
	{CLI_EXCLUDES, OPTION_PER_ITERATION, {OPTION_STREAMS, 'G', 'm'}, NULL},
	{CLI_EXCLUDES,
	 OPTION_THREADS,
	 {OPTION_STRATEGY, OPTION_MEMORY_ORDER, OPTION_RACES, OPTION_RECORD, OPTION_REPLAY,
	  OPTION_QUIET},
	 NULL},
	{CLI_EXCLUDES, OPTION_TRANSIENT, {OPTION_PROCESSES, OPTION_RANK}, NULL},
	{CLI_EXCLUDES, OPTION_IDLE, {OPTION_PROCESSES, OPTION_RANK}, NULL},
	{CLI_EXCLUDES, OPTION_INIT_FAILS, {OPTION_PROCESSES, OPTION_RANK}, NULL},
	{CLI_NEEDS, OPTION_LEAVES, {OPTION_FAULTS}, NULL},
	{CLI_EXCLUDES, OPTION_ENV_ODD, {OPTION_PROCESSES, OPTION_RANK}, NULL},
	{CLI_NEEDS, OPTION_WORKERS, {OPTION_THREADS}, NULL},
	{CLI_NEEDS, OPTION_RECOVER, {OPTION_FAULTS}, NULL},
	{CLI_NEEDS, OPTION_MUST_FIRE, {OPTION_FAULTS}, NULL},
	{CLI_EXCLUDES,
	 OPTION_MUST_FIRE,
	 {OPTION_RANDOM_FAULTS, OPTION_PROCESSES, OPTION_RANK},
	 NULL},
	{CLI_NEEDS, OPTION_QUIET, {OPTION_FAULTS}, NULL},
	{CLI_NEEDS, OPTION_ID_FD, {OPTION_RANK}, NULL},
	{CLI_NEEDS, OPTION_ROOT, {OPTION_RANK}, NULL},
	{CLI_NEEDS, OPTION_RANKS, {OPTION_RANK}, NULL},
	{CLI_NEEDS, OPTION_RANK, {OPTION_RANKS}, NULL},
	{CLI_NEEDS, OPTION_LIMIT, {OPTION_RANK, OPTION_PROCESSES}, NULL},
	{CLI_EXCLUDES, OPTION_PROCESSES, {OPTION_ROOT, OPTION_HOSTS}, NULL},
	{CLI_EXCLUDES, OPTION_RANK, {OPTION_HOSTS}, NULL},
	{CLI_EXCLUDES, OPTION_ROOT, {OPTION_ID_FD}, NULL},
};

static const struct argp_option options_words[] = {
	{"gpus G0,G1,...", OPTION_GPU_LIST, NULL, 0, NULL, 0},
	{"machine A,B,...", OPTION_MACHINE_LIST, NULL, 0, NULL, 0},
	{"engine threads", OPTION_THREADS, NULL, 0, NULL, 0},
	{"faults random", OPTION_RANDOM_FAULTS, NULL, 0, NULL, 0},
	{NULL, OPTION_FIXED, NULL, 0, "a collective or an option of the world", 0},
	{0},
};

static bool options_go_together(const char *command, const struct cli_options *o,
				const struct cli_rule *rules, size_t n,
				const struct argp_option *own)
{
	const struct argp_option *const names[] = {options_argp_options, options_words, own, NULL};

	return cli_rules_hold(command, rules, n, &o->given, names) &&
	       cli_rules_hold(command, options_rules, ARRAY_LEN(options_rules), &o->given, names);
}

bool cli_options_check(const char *command, struct cli_options *o, const struct cli_rule *rules,
		       size_t n, const struct argp_option *own)
{
	for (uint32_t i = 0; i < o->scenario.env_count; i++)
		if (world_env_check(o->scenario.env[i]))
			return false;
	if (o->scenario.lab.sim.engine == SIM_ENGINE_THREADS)
		cli_give(&o->given, OPTION_THREADS);
	if (!options_go_together(command, o, rules, n, own) || !cli_collective_check(command, o))
		return false;
	/* with --rank, a process reads its variables after its own settings */
	if (cli_has_both_doubles() && cli_is_given(&o->given, OPTION_FIXED) &&
	    !cli_is_given(&o->given, OPTION_RANK) && !cli_machines_fit(o->scenario.machine))
		return false;
	if (cli_has_both_doubles() || o->scenario.lab.sim.engine != SIM_ENGINE_SIM)
		return true;
	fprintf(stderr, "doppel: --engine sim needs both doubles: real GPUs and HCAs keep "
			"their own time. Use --engine threads, or the preset `fake`.\n");
	return false;
}

static char *options_help(int key, const char *text, void *input)
{
	(void)input;
	return key == OPTION_MACHINE && text ? cli_machines_help(text) : (char *)text;
}

const struct argp cli_options_argp = {
	.options = options_argp_options, .parser = options_parse, .help_filter = options_help};
