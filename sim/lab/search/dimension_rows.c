/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of dimensions. Its order is that of a scenario's lines, and that in which shrinking
 * cuts. */
#include <stddef.h>

#include "core/base/macros.h"
#include "sim/lab/search/dimension.h"
#include "sim/lab/search/shrink_internal.h"

static const char *const row_strategies[] = {"portfolio", "uniform", "pct", "starve", "fifo", NULL};
static const char *const row_engines[] = {"sim", "threads", NULL};
static const char *const row_maps[] = {"slot", "node", "seed", NULL};
static const char *const row_drives[] = {"rank", "process", NULL};
static const char *const row_memory_orders[] = {"draw", "off", "on", NULL};
static const char *const row_expects[] = {"auto", "success", "success-or-error", "refused", NULL};
static const char *const row_ends[] = {"in-order", "reversed", "seed", "each", NULL};
static const char *const row_leaves[] = {"abort", "destroy", "finalize", "each", NULL};
static const char *const row_faults[] = {"plan", "random", NULL};

_Static_assert(ARRAY_LEN(row_strategies) == SIM_FIFO + 2, "a name for each strategy, and NULL");
_Static_assert(ARRAY_LEN(row_engines) == SIM_ENGINE_THREADS + 2, "a name for each engine");
_Static_assert(ARRAY_LEN(row_maps) == LAB_MAP_SEED + 2, "a name for each map");
_Static_assert(ARRAY_LEN(row_drives) == LAB_DRIVE_PROCESS + 2, "a name for each kind of driver");
_Static_assert(ARRAY_LEN(row_memory_orders) == SIM_MEMORY_ON + 2, "a name for each memory order");
_Static_assert(ARRAY_LEN(row_expects) == SCENARIO_EXPECT_REFUSED + 2, "a name for each outcome");
_Static_assert(ARRAY_LEN(row_ends) == LAB_ENDS_EACH + 2, "a name for each order of ends");
_Static_assert(ARRAY_LEN(row_leaves) == LAB_LEAVES_EACH + 2, "a name for each way to leave");
_Static_assert(ARRAY_LEN(row_faults) == true + 2, "a name for a plan, and for one that is drawn");

/* clang-format off */
#define FIELD(f) \
	.offset = offsetof(struct scenario, f), .bytes = sizeof(((struct scenario *)0)->f)
#define NUMBER(k, f, from, to) .key = k, FIELD(f), .min = from, .max = to
#define FLAG(k, f)       .key = k, .kind = DIMENSION_FLAG, FIELD(f)
#define NAME(k, f, list) .key = k, .kind = DIMENSION_NAME, FIELD(f), .names = list
#define TEXT(k, f)       .key = k, .kind = DIMENSION_TEXT, FIELD(f)
#define SIZE(k, f)       .key = k, .kind = DIMENSION_SIZE, FIELD(f), .max = 1ull << 40
#define OWN(k, f) \
	.key = k, .kind = DIMENSION_OWN, .write = own_write_##f, .parse = own_parse_##f
#define OPTION(g, ...)     .option = {.group = DIMENSION_##g, __VA_ARGS__}
#define HELP(k, n, a, ...) .key = k, .name = n, .arg = a, .help = __VA_ARGS__
#define CUT(w, h)          .cut = {.what = w, .how = CUT_##h}
#define CUT_BY(w, f, ...) \
	.cut = {.what = w, .how = CUT_OWN, .make = cut_##f, .print = print_##f, __VA_ARGS__}
#define PROVENANCE .provenance = true
#define FOUND      .provenance = true, .found = true

const struct dimension dimensions[] = {
	/* origin, and end */
	{TEXT("origin", origin), PROVENANCE},
	{TEXT("commit", commit), PROVENANCE},
	{TEXT("build", build), PROVENANCE},
	{TEXT("machine-digest", machine_digest), PROVENANCE},
	{TEXT("found", found.kind), PROVENANCE},
	{NUMBER("found-code", found.verdict, 0, 255), FOUND},
	{NUMBER("found-rank", found.rank, 0, INT32_MAX), FOUND, .write = own_write_found_rank},
	{NUMBER("found-step", found.step, 0, UINT64_MAX), FOUND},
	{NUMBER("found-before", found.before, 0, UINT64_MAX), FOUND},
	{NUMBER("found-ns", found.vtime_ns, 0, UINT64_MAX), FOUND},
	{NUMBER("found-hash", found.hash, 0, UINT64_MAX), FOUND, .kind = DIMENSION_HEX},
	{TEXT("found-task", found.task), FOUND},
	{TEXT("found-message", found.message), FOUND},
	{NUMBER("found-seconds", found_seconds, 0, 1 << 20), FOUND},

	/* the world */
	{NUMBER("hosts", lab.hosts, 1, 4096), CUT_BY("ranks", ranks),
	 OPTION(WORLD, HELP(OPTION_HOSTS, "hosts", "N", "hosts (default: one of each machine)"))},
	{TEXT("machine", machine), CUT_BY("machines", machines),
	 OPTION(WORLD, HELP(OPTION_MACHINE, "machine", "XML[,XML...]",
		"one of Doppel's machines, or a topology file (default h100-8nic); host i has "
		"the i-th of "
		"several, cyclically"))},
	{NUMBER("gpus", lab.gpus, 0, 4096),
	 OPTION(WORLD, .by_case = true, HELP(OPTION_GPUS, "gpus", "G|G0,G1,...",
		"ranks per host, one GPU each, or the number of each host (default: all GPUs)"))},
	{OWN("host-gpus", host_gpus)},
	{OWN("devices", devices),
	 OPTION(WORLD, .by_case = true, HELP(OPTION_DEVICES, "devices", "0,1,...",
		"which GPUs of a host, by index (default: the first --gpus)"))},
	{NAME("map", lab.map, row_maps), CUT("ranks mapped by", OFF),
	 OPTION(WORLD, HELP(OPTION_MAP, "map-by", "slot|node|seed",
		"assignment of ranks to hosts: as mpirun does, or in an order drawn from the seed "
		"(default slot: consecutive ranks)"))},
	{NUMBER("sms", lab.gpu_sms, 0, 4096),
	 OPTION(WORLD, .least = 1, HELP(OPTION_SMS, "sms", "N",
		"maximum multiprocessors of a GPU (default: all)"))},
	{FLAG("strict-device-view", lab.strict_device_view),
	 OPTION(WORLD, .by_case = true, HELP(OPTION_NO_STRICT, "no-strict-device-view", NULL,
		"let the host dereference device pointers"))},

	/* the collectives */
	{OWN("collective", collective), CUT_BY("collective", collective)},
	{OWN("before", before), CUT_BY("collective before it", before),
	 OPTION(ENGINE, .by_case = true, HELP(OPTION_BEFORE, "before", "COLLECTIVE",
		"another collective runs first on the same communicator; checked, not in the table "
		"(default: none)"))},
	{NUMBER("root", lab.root, 0, INT32_MAX), .write = own_write_root, .parse = own_parse_root,
	 CUT_BY("root", root),
	 OPTION(COLLECTIVE, .by_case = true, HELP('r', "root-rank", "RANK|all",
		"root, or all, where the collective has one (default 0)"))},
	{SIZE("bytes-min", lab.bytes_min), CUT_BY("bytes", bytes),
	 OPTION(COLLECTIVE, HELP('b', "minbytes", "SIZE", "smallest size (default 8)"))},
	{SIZE("bytes-max", lab.bytes_max),
	 OPTION(COLLECTIVE, HELP('e', "maxbytes", "SIZE", "largest size (default 1M)"))},
	{SIZE("bytes-step", lab.bytes_step),
	 OPTION(COLLECTIVE, .by_case = true, HELP('i', "stepbytes", "SIZE",
		"increment between sizes, instead of a factor (default: none)"))},
	{NUMBER("factor", lab.factor, 0, 1u << 20),
	 OPTION(COLLECTIVE, .least = 1, HELP('f', "stepfactor", "F",
		"factor between sizes (default 2)"))},
	{NUMBER("iterations", lab.iterations, 1, 1u << 30), CUT_BY("iterations", iterations),
	 OPTION(COLLECTIVE, HELP('n', "iters", "N", "timed iterations (default 1)"))},
	{NUMBER("warmup", lab.warmup, 0, 1u << 30),
	 OPTION(COLLECTIVE, HELP('w', "warmup_iters", "N", "iterations before (default 0)"))},
	{NUMBER("aggregate", lab.aggregate, 0, 4096),
	 OPTION(COLLECTIVE, .least = 1, HELP('m', "agg_iters", "N",
		"iterations are groups of N collectives (default 1)"))},
	{NUMBER("graphs", lab.graph_launches, 0, 1u << 30), CUT("launches of graphs", POWERS),
	 OPTION(COLLECTIVE, HELP('G', "cudagraph", "N",
		"launch the timed collectives N times as a CUDA graph (default 0: without)"))},
	{NUMBER("cycles", lab.cycles, 0, 1u << 30),
	 OPTION(COLLECTIVE, .least = 1, HELP('N', "run_cycles", "N",
		"run and print all rows N times (default 1)"))},
	{NUMBER("blocking", lab.blocking, 0, LAB_BLOCKING_WAIT),
	 OPTION(COLLECTIVE, HELP('z', "blocking", "0|1|2",
		"a rank waits after each collective: 1 for its stream and then for all ranks, "
		"2 for its "
		"stream (default 0)"))},
	{NUMBER("check", lab.check, 0, 1),
	 OPTION(COLLECTIVE, HELP('c', "check", "0|1", "check results (default 1)"))},
	{NUMBER("unalign", lab.unalign, 0, LAB_MAX_UNALIGN), .any = {8, 1, 7},
	 OPTION(COLLECTIVE, HELP('u', "unalign", "N",
		"offset of the buffers, in elements (default 0)"))},
	{OWN("place", place), CUT_BY("place", place),
	 OPTION(COLLECTIVE, .by_case = true, HELP(OPTION_PLACE, "place", "in|out|both",
		"in place, out of place, or both (default)"))},

	/* the program */
	{NUMBER("comms", lab.comms, 0, LAB_MAX_COMMS), CUT("communicators", COUNT),
	 OPTION(ENGINE, .least = 1, HELP(OPTION_COMMS, "comms", "N",
		"spread the parts over N communicators of the same ranks, one after the other "
		"or in one "
		"group (default 1)"))},
	{FLAG("children", lab.children), CUT("communicators made from others", OFF),
	 .any = {3, 1, 1},
	 OPTION(ENGINE, HELP(OPTION_CHILDREN, "children", NULL,
		"the communicators of --comms after the first are made from it by "
		"ncclCommSplit, those of --transient from others: split, shrunk, "
		"revoked, grown"))},
	{NUMBER("transient", lab.transient, 0, LAB_MAX_TRANSIENT),
	 CUT("transient communicators", DOWN),
	 OPTION(ENGINE, HELP(OPTION_TRANSIENT, "transient", "N",
		"while a collective runs, N communicators of drawn ranks are made, used and "
		"destroyed "
		"(default 0)"))},
	{NUMBER("idle", lab.idle, 0, LAB_MAX_TRANSIENT), CUT("communicators without a use", DOWN),
	 .calm = {12, 1, 4},
	 OPTION(ENGINE, HELP(OPTION_IDLE, "idle", "N",
		"meanwhile another task of each rank creates and destroys N communicators "
		"without using "
		"them (default 0)"))},
	{NUMBER("mixed", lab.mixed, 0, 4096), CUT("groups of different calls", DOWN),
	 OPTION(ENGINE, HELP(OPTION_MIXED, "mixed", "N",
		"afterwards, run N groups of different collectives and messages on several streams "
		"(default 0)"))},
	{NUMBER("late", lab.late, 0, LAB_MAX_LATE), CUT("seconds late", DOWN), .calm = {6, 1, 20},
	 .faulty = {4, 1, 5},
	 OPTION(ENGINE, HELP(OPTION_LATE, "late", "SECONDS",
		"delay each rank's init, and its end, by at most SECONDS, drawn from the seed "
		"(default 0)"))},
	{NUMBER("refused", lab.refused, 0, 4096), CUT("refused calls", DOWN), .any = {5, 1, 8},
	 OPTION(ENGINE, HELP(OPTION_REFUSED, "refused", "N",
		"each rank makes N calls that must be refused, after the series (default 0)"))},
	{FLAG("options", lab.options), CUT("options of calls", OFF), .calm = {4, 1, 1},
	 OPTION(ENGINE, HELP(OPTION_OPTIONS, "options", NULL,
		"half of the calls of collectives have options (ncclCollConfig_t), drawn from the "
		"seed"))},
	{NUMBER("suspends", lab.suspends, 0, 4096), CUT("suspensions", DOWN), .any = {12, 1, 3},
	 OPTION(ENGINE, HELP(OPTION_SUSPENDS, "suspends", "N",
		"after each of the first N rows, suspend the communicators and resume them "
		"(default 0)"))},
	{NUMBER("roots", lab.roots, 0, 4), CUT("unique ids", DOWN), .calm = {12, 2, 4},
	 OPTION(ENGINE, HELP(OPTION_ROOTS, "roots", "N",
		"initialise the communicator with N unique ids (ncclCommInitRankScalable), made by "
		"the first N ranks; at most 4 (default: one id, ncclCommInitRank)"))},
	{NUMBER("queries", lab.queries, 0, 4096), CUT("queries", DOWN), .any = {4, 1, 6},
	 OPTION(ENGINE, HELP(OPTION_QUERIES, "queries", "N",
		"each rank makes N queries of communicators, parameters and memory at each of some "
		"moments, and checks the answers (default 0)"))},
	{NUMBER("ras", lab.ras, 0, 4096), CUT("requests to RAS", DOWN),
	 OPTION(ENGINE, HELP(OPTION_RAS, "ras", "N",
		"N requests to RAS during the series, and N after it; needs --env "
		"NCCL_RAS_ENABLE=1 (default 0)"))},
	{NUMBER("init-fails", lab.init_fails, 0, LAB_MAX_TRANSIENT), CUT("inits that fail", DOWN),
	 .calm = {8, 1, 4},
	 OPTION(ENGINE, HELP(OPTION_INIT_FAILS, "init-fails", "N",
		"N inits that must fail, before the first one and after the series (default 0)"))},
	{NUMBER("scenes", lab.scenes, 0, 4096), CUT("scenes", DOWN), .calm = {14, 1, 2},
	 OPTION(ENGINE, HELP(OPTION_SCENES, "scenes", "N",
		"afterwards, play N short programs with communicators of their own and a known "
		"outcome, drawn from the seed (default 0)"))},
	{OWN("plugins", plugins), CUT_BY("plugins", plugins),
	 OPTION(ENGINE, .by_case = true, HELP(OPTION_PLUGINS, "plugins", "LIST",
		"plugins of the lab's own, such as tuner,profiler, which check the stack's calls; "
		"what they do is drawn from the seed (default: none)"))},
	{NAME("plugin-fails", lab.plugin_fails, lab_plugin_fails),
	 CUT("function that fails", OFF),
	 OPTION(ENGINE, HELP(OPTION_PLUGIN_FAILS, "plugin-fails", "FUNCTION",
		"one call of a function of these plugins fails, such as net-listen or tuner-init; "
		"a rank must have an error then (default: none)"))},
	{FLAG("uncompared", lab.uncompared), CUT("calls that are not compared", OFF),
	 OPTION(WORLD, HELP(OPTION_UNCOMPARED, "uncompared", NULL,
		"the world does not compare the ranks' calls when they are made, as in a real "
		"job"))},
	{FLAG("cuda-state", lab.cuda_state), CUT("CUDA state of tasks", OFF), .calm = {5, 1, 1},
	 OPTION(ENGINE, HELP(OPTION_CUDA_STATE, "cuda-state", NULL,
		"check that each call leaves the current device, the last error and the mode "
		"of captures as they were"))},
	{NUMBER("pauses", lab.pauses, 0, LAB_MAX_PAUSES), CUT("pauses, ms", POWERS),
	 OPTION(ENGINE, HELP(OPTION_PAUSES, "pauses", "MS",
		"each rank sleeps now and then before a call, so long at most, drawn from the seed "
		"(default 0)"))},
	{NAME("leaves", lab.leaves, row_leaves), CUT("ends after errors", DOWN),
	 .faulty = {2, LAB_LEAVES_DESTROY, LAB_LEAVES_EACH},
	 OPTION(ENGINE, HELP(OPTION_LEAVES, "leaves", "abort|destroy|finalize|each",
		"with faults: how a rank ends its communicators after an error; each: drawn "
		"for each "
		"rank, and after a time that is (default abort)"))},
	{FLAG("retries", lab.retries), CUT("calls made again", OFF), .faulty = {2, 1, 1},
	 OPTION(ENGINE, HELP(OPTION_RETRIES, "retries", NULL,
		"with faults: a call that fails and leaves its communicator without an error is "
		"made again"))},
	{FLAG("finalize", lab.finalize),
	 CUT("finalize", OFF), .calm = {4, 1, 1}, .faulty = {6, 1, 1},
	 OPTION(ENGINE, HELP(OPTION_FINALIZE, "finalize", NULL,
		"communicators are finalized before they are destroyed"))},
	{FLAG("nonblocking", lab.nonblocking), CUT("non-blocking communicators", OFF),
	 .calm = {8, 1, 1}, .faulty = {10, 1, 1},
	 OPTION(ENGINE, HELP(OPTION_NONBLOCKING, "nonblocking", NULL,
		"communicators are non-blocking; a rank polls them after each call"))},
	{FLAG("polls", lab.polls), CUT("watchdog that polls", OFF), .calm = {8, 1, 1},
	 .faulty = {3, 1, 1},
	 OPTION(ENGINE, HELP(OPTION_POLLS, "polls", NULL,
		"another task of each rank polls its communicators until they are destroyed"))},
	{FLAG("hasty", lab.hasty), CUT("hasty end", OFF), .any = {6, 1, 1},
	 OPTION(ENGINE, HELP(OPTION_HASTY, "hasty", NULL,
		"end with a collective that still runs when its communicator is destroyed"))},
	{NAME("ends", lab.ends, row_ends), CUT("communicators destroyed", DOWN),
	 OPTION(ENGINE, HELP(OPTION_ENDS, "ends", "in-order|reversed|seed|each",
		"order in which communicators are destroyed; seed: drawn for all ranks, each: "
		"drawn for "
		"each rank (default in-order)"))},
	{NUMBER("config-version", lab.config_version, 0, 99999), CUT("config", OFF),
	 OPTION(ENGINE, HELP(OPTION_CONFIG_VERSION, "config-version", "V",
		"make communicators with a config of NCCL V, such as 21800 (default: without "
		"one)"))},
	{FLAG("config-sockets", lab.config_sockets), CUT("configs that name sockets", OFF),
	 OPTION(ENGINE, HELP(OPTION_CONFIG_SOCKETS, "config-sockets", NULL,
		"the config of communicators names the network Socket, which children inherit"))},
	{TEXT("env-odd", env_odd), CUT("environment of every other process", OFF),
	 OPTION(ENGINE, .by_case = true, HELP(OPTION_ENV_ODD, "env-odd", "NAME=VALUE",
		"set a variable in every other process (default: none)"))},
	{FLAG("any-numbers", lab.any_numbers), CUT("any numbers", OFF), .any = {2, 1, 1},
	 OPTION(COLLECTIVE, HELP(OPTION_ANY_NUMBERS, "any-numbers", NULL,
		"reduce arbitrary numbers instead of small ones: integers wrap; floats are "
		"rounded, and "
		"compared with the only correct rounding, or with a bound"))},
	{NUMBER("local-register", lab.local_register, 0, LAB_REGISTER_TWICE),
	 CUT("registration", DOWN),
	 OPTION(COLLECTIVE, HELP('R', "local_register", "0|1|2|3|4",
		"1: register the buffers, which ncclMemAlloc allocates then; 2: as windows; 3: new "
		"buffers for each series; "
		"4: register each buffer twice (default 0)"))},
	{NUMBER("group", lab.group, 0, 4096), CUT("group", COUNT),
	 OPTION(ENGINE, .least = 1, HELP(OPTION_GROUP, "group", "N",
		"put N of these parts into a group (default 1)"))},
	{NUMBER("streams", lab.streams, 0, LAB_MAX_STREAMS), CUT("streams", COUNT),
	 OPTION(ENGINE, .least = 1, HELP(OPTION_STREAMS, "streams", "N",
		"split a collective into parts on N streams of its rank, round-robin; the "
		"streams have "
		"other work, too (default 1)"))},
	{FLAG("per-iteration", lab.per_iteration),
	 OPTION(ENGINE, HELP(OPTION_PER_ITERATION, "per-iteration", NULL,
		"print a line for each iteration of a timed series, too; in --json a list"))},
	{NUMBER("ranks-per-process", lab.ranks_per_proc, 1, 4096),
	 .write = own_write_ranks_per_proc,
	 .parse = own_parse_ranks_per_proc,
	 OPTION(WORLD, HELP(OPTION_RANKS_PER_PROC, "ranks-per-process", "R",
		"ranks in one process (default 1; real GPUs: all of a host)"))},
	{NAME("drive", lab.drive, row_drives), CUT("calls made by a task of each", OFF),
	 OPTION(WORLD, HELP(OPTION_DRIVE, "drive", "rank|process",
		"which task makes a rank's calls: its own (default), or one of its process for "
		"all ranks "
		"there, in groups"))},
	{CUT_BY("channels", channels)},
	{NUMBER("warp", lab.warp_width, 0, 32), CUT_BY("warp width", width),
	 OPTION(WORLD, .by_case = true, HELP(OPTION_WARP, "warp", "1|32",
		"lanes per warp of the GPU double (default 1)"))},
	{OWN("types", types), CUT_BY("type", type, .stale = true),
	 OPTION(COLLECTIVE, .by_case = true, HELP('d', "datatype", "TYPE",
		"data type, or all (default float)"))},
	{OWN("ops", ops), CUT_BY("operation", op, .stale = true),
	 OPTION(COLLECTIVE, .by_case = true, HELP('o', "op", "OP",
		"sum, prod, max, min, avg, or all (default sum)"))},

	/* faults */
	{NAME("faults", lab.sim.fault_random, row_faults),
	 OPTION(ENGINE, .by_case = true, HELP(OPTION_FAULTS, "faults", "PLAN",
		"a fault plan's file, or 'random' for one drawn from the seed ('doppel faults'; "
		"default: none)"))},
	{NUMBER("heal-ns", lab.sim.heal_ns, 0, UINT64_MAX)},
	{FLAG("recover", lab.recover),
	 OPTION(ENGINE, HELP(OPTION_RECOVER, "recover", NULL,
		"after a failure the survivors must create a second communicator, for which "
		"faults heal"))},
	{NUMBER("quiet", lab.quiet, 0, 4096),
	 OPTION(ENGINE, .by_case = true, HELP(OPTION_QUIET, "quiet-rank", "RANK",
		"with faults of connections: a rank that does not poll its communicator; the "
		"others must "
		"detect its failures nevertheless (default: none)"))},
	{OWN("plan", plan), CUT_BY("faults", plan, .again = true)},
	{OWN("env", env), CUT_BY("environment", env, .again = true),
	 OPTION(WORLD, .by_case = true, HELP(OPTION_ENV, "env", "NAME=VALUE",
		"environment of every rank; repeatable. NCCL_* and "
		"DOPPEL_* of the caller are passed as well (default: only those)"))},

	/* the engine */
	{NAME("engine", lab.sim.engine, row_engines),
	 OPTION(ENGINE, HELP(OPTION_ENGINE, "engine", "sim|threads",
		"virtual time and one seeded order, or pthreads and real time (default sim); "
		"with the GPU "
		"double `run' limits the channels of real time to the CPUs that a rank has, unless "
		"NCCL_MAX_NCHANNELS or the like is set"))},
	{NUMBER("seed", lab.sim.seed, 0, UINT64_MAX), .kind = DIMENSION_HEX,
	 OPTION(ENGINE, HELP(OPTION_SEED, "seed", "S", "seed (default 1)"))},
	{NAME("strategy", lab.sim.strategy, row_strategies),
	 OPTION(ENGINE, HELP(OPTION_STRATEGY, "strategy", "NAME",
		"portfolio (default), uniform, pct, starve, fifo"))},
	{NAME("memory-order", lab.sim.memory_order, row_memory_orders),
	 CUT_BY("memory order", memory),
	 OPTION(ENGINE, HELP(OPTION_MEMORY_ORDER, "memory-order", "draw|off|on",
		"stores become visible late and out of order, as far as fences allow (default "
		"draw: in "
		"half of the seeds)"))},
	{FLAG("races", lab.sim.races), .any = {5, 1, 1},
	 OPTION(ENGINE, HELP(OPTION_RACES, "races", NULL, "report accesses that nothing orders"))},
	{NUMBER("budget-events", lab.sim.budget_events, 0, UINT64_MAX),
	 OPTION(ENGINE, .least = 1, HELP(OPTION_BUDGET_EVENTS, "budget-events", "N",
		"steps without progress that end a run (default 20000000)"))},
	{NUMBER("budget-ns", lab.sim.budget_ns, 0, UINT64_MAX),
	 OPTION(ENGINE, .by_case = true, HELP(OPTION_BUDGET_TIME, "budget-time", "SECONDS",
		"virtual seconds without progress that end a run (default 3600)"))},
	{NAME("expect", expect, row_expects)},
	{NUMBER("canary-step", canary_step, 0, UINT64_MAX)},
};
/* clang-format on */

const uint32_t dimensions_n = ARRAY_LEN(dimensions);
_Static_assert(ARRAY_LEN(dimensions) <= DIMENSIONS_MAX, "each has a place");
