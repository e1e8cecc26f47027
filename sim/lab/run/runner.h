/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The runner: one world, one communicator, a series of collectives, checked: what `doppel run`
 * does, as a function, so that tests, benches and sweeps do exactly the same. Called outside any
 * engine; starts one, builds the world, runs a task per rank, tears everything down, counts leaks.
 *
 * Times are ns (virtual under sim), bandwidths bytes/s. lab_run returns 0, or a positive errno
 * when the configuration cannot be carried out (explained on stderr); what happened inside is in
 * the result.
 */
#ifndef SIM_LAB_RUNNER_H
#define SIM_LAB_RUNNER_H

#include <stdio.h>

#include "core/include/nccl.h"
#include "sim/engine/sim.h"
#include "sim/world/world.h"

struct lab_life;
struct lab_collective;
struct lab_row;

#define LAB_MAX_TYPES          12
#define LAB_MAX_OPS            6 /* NCCL's, and PAYLOAD_MULSUM */
#define LAB_MAX_DEVICES        64
#define LAB_MAX_HOST_GPUS      64
#define LAB_MAX_STREAMS        8
#define LAB_MAX_TRANSIENT      8
#define LAB_MAX_COMMS          8
#define LAB_WHOLE_RESULT_BYTES (1ull << 30)
#define LAB_ALL_RANKS          UINT32_MAX /* of a host, in one process */

/* The order in which slots (host and GPU) get ranks, in the words of mpirun. */
enum lab_map {
	LAB_MAP_SLOT, /* all slots of a host, then those of the next */
	LAB_MAP_NODE, /* one slot of each host in turn */
	LAB_MAP_SEED, /* any order, drawn from the seed */
};

/* The task that makes the calls of a rank. */
enum lab_drive_by {
	LAB_DRIVE_RANK,    /* one of its own */
	LAB_DRIVE_PROCESS, /* one for all ranks of the process, in groups */
};

/* Are a rank's buffers registered? The first three are those of nccl-tests. */
enum lab_register {
	LAB_REGISTER_NOT,
	LAB_REGISTER_ONCE,
	LAB_REGISTER_WINDOW, /* as windows */
	LAB_REGISTER_RENEW,  /* other buffers for each series */
	LAB_REGISTER_TWICE,  /* each one more time, and deregistered as often */
};

/* In which order a rank's communicators are destroyed: the same on all ranks, except for the
 * last. */
enum lab_ends {
	LAB_ENDS_IN_ORDER,
	LAB_ENDS_REVERSED,
	LAB_ENDS_SEED, /* any order, drawn from the seed */
	LAB_ENDS_EACH, /* drawn for each rank; one task that drives several takes one order */
};

/* How a rank that has had an error ends its communicators. */
enum lab_leaves {
	LAB_LEAVES_ABORT,
	LAB_LEAVES_DESTROY,
	LAB_LEAVES_FINALIZE, /* and destroys them then */
	LAB_LEAVES_EACH,     /* one of these, and after a time that is drawn for each rank */
};

/* Does a rank wait after each collective of a series? nccl-tests' numbers. */
enum lab_blocking {
	LAB_BLOCKING_NOT,
	LAB_BLOCKING_MEET, /* for its stream, then for all ranks */
	LAB_BLOCKING_WAIT, /* for its stream */
};
/* Plugins of the lab's own (sim/lab/plugin/lab_plugins.h), a bit each. */
enum lab_plugin {
	LAB_PLUGIN_TUNER = 1 << 0,
	LAB_PLUGIN_PROFILER = 1 << 1,
	LAB_PLUGIN_NET = 1 << 2,
	LAB_PLUGIN_COLLNET = 1 << 3, /* and the network */
};
enum { LAB_PLUGINS = 4 };
/* A function of these plugins, one call of which fails. */
enum lab_plugin_fails { LAB_PLUGIN_FAILS_NOT, LAB_PLUGIN_FAILS_TUNER, LAB_PLUGIN_FAILS = 10 };
/* Their names, in that order; NULL after the last one. */
extern const char *const lab_plugin_names[];
extern const char *const lab_plugin_fails[];
enum { LAB_MAX_UNALIGN = 1 << 16, LAB_MAX_LATE = 50, LAB_MAX_PAUSES = 5000 };

struct lab_result;

/* One process of several, in the real world: it has some of the ranks, the communicator is all that
 * ties it to the others. The machine is its GPUs'; engine threads. */
struct lab_spread {
	int32_t first;  /* its first rank; it has as many as the machine's GPUs that are used */
	int32_t ranks;  /* of all processes */
	uint32_t hosts; /* of all processes */
	int32_t first_device; /* of its first rank, unless lab_config.devices names them */
	/* Makes the unique id, or gets it from the rank that made it. False: explained. */
	bool (*get_id)(bool make, ncclUniqueId *id, void *arg);
	void *arg;
	/* On doubles: the processes share a world of `hosts` hosts. 0 processes: no world. */
	struct world_share share;
	uint32_t limit_s; /* it fails, with the wait-for graph, when it takes longer; 0: none */
};

/* The time of a row, from the ranks' times; nccl-tests' numbers. */
enum lab_average { LAB_FIRST_RANK, LAB_MEAN, LAB_LEAST, LAB_MOST };

/* Half a line of the table: one row, out of place or in place. */
struct lab_row_result {
	const struct lab_row *row;
	double time_us, algbw_gbps, busbw_gbps;
	bool checked;
	uint64_t wrong; /* elements, over all ranks of this process */
	/* With per_iteration, of each iteration, valid during on_row; NULL otherwise. */
	const double *iteration_us;
	uint32_t iterations;
};

struct lab_config {
	struct sim_config sim;
	const struct lab_spread *spread; /* NULL: all ranks are in this process */
	/* The machine of all hosts, or a list, "A,B,C": host i has machine i modulo the list's
	 * length (machines.c). */
	const char *machine;
	uint32_t hosts;
	uint32_t gpus; /* ranks per host; 0: all GPUs of its machine */
	/* ranks of each host, when host_gpus_n > 0, which then is `hosts` */
	uint32_t host_gpus[LAB_MAX_HOST_GPUS], host_gpus_n;
	enum lab_map map;
	int32_t devices[LAB_MAX_DEVICES]; /* cards by index, when device_count > 0 */
	uint32_t device_count;
	uint32_t ranks_per_proc; /* default 1; real GPUs: LAB_ALL_RANKS */
	enum lab_drive_by drive;
	uint32_t warp_width; /* 0: default */
	uint32_t gpu_sms;    /* of a GPU, at most; 0: as the model has */
	bool strict_device_view;
	const char *const *env; /* NAME=value, NULL-terminated */

	const struct lab_collective *collective; /* collective.h */
	/* Runs first on the same communicators, with all that `collective` has but rows of the
	 * table. NULL: none does. */
	const struct lab_collective *before;
	int32_t root; /* or LAB_ALL_ROOTS; where the collective has one */
	uint64_t bytes_min, bytes_max, bytes_step; /* step: added when factor < 2 */
	uint32_t factor;
	ncclDataType_t types[LAB_MAX_TYPES];
	uint32_t type_count;
	ncclRedOp_t ops[LAB_MAX_OPS];
	uint32_t op_count;
	uint32_t iterations, warmup;
	uint32_t
		graph_launches; /* of a CUDA graph of `iterations` collectives; 0: without graphs */
	bool check, in_place, out_of_place;
	bool any_numbers; /* reduced ones are any numbers, not small ones (payload.h) */
	/* A reduced result of at most so many bytes is computed once for all ranks; a larger one by
	 * each rank, as it checks piece after piece. And a run in place alone of larger buffers has
	 * no send buffers. 0: LAB_WHOLE_RESULT_BYTES. */
	uint64_t whole_result_bytes;
	/* With faults: an error returned, or a rank killed, is no failure of the run. */
	bool errors_allowed;
	/* The settings of processes contradict each other: every init must fail. */
	bool refuses;
	uint32_t quiet; /* 1 + the rank that does not poll its communicator (quiet.c); 0: none */
	/* A collective goes as several of a part each: round the streams and the communicators of a
	 * rank, so many of them in a group. 0 or 1: one. Several streams have work of their own
	 * before and after each part (rank_streams.c). */
	uint32_t streams, group, comms;
	/* Number of communicators of some of the ranks that come and go while a collective runs. */
	uint32_t transient;
	/* Another task of each rank makes so many communicators of all ranks, one after the other,
	 * and destroys them without a use (idle.c). */
	uint32_t idle;
	bool options;        /* half of the calls of collectives have options (call_options.c) */
	uint32_t roots;      /* unique ids of the first communicator; 0: one (comms.c) */
	uint32_t suspends;   /* rows after which communicators are suspended (suspends.c) */
	uint32_t queries;    /* of each rank, at each of some moments (queries.c) */
	uint32_t ras;        /* requests to RAS, during the series and after it (queries_ras.c) */
	uint32_t refused;    /* wrong calls of each rank, at each of some moments (refused.c) */
	uint32_t init_fails; /* inits that must fail, before and after the series (init_fails.c) */
	uint32_t scenes;     /* short programs with a known outcome, after the series (scene.c) */
	uint32_t plugins;    /* enum lab_plugin, of each process */
	/* An index of lab_plugin_fails: one call of that function fails, which the seed draws. */
	uint32_t plugin_fails;
	bool uncompared; /* the world does not compare the ranks' calls, as in a real job */
	bool cuda_state; /* each call leaves the task's CUDA state as it was (cuda_state.c) */
	uint32_t pauses; /* a rank sleeps before some calls, so many ms at most (pause.c) */
	bool children;   /* communicators after the first are made from it */
	bool retries;    /* with faults: a call that failed without an error of its communicator is
		       * made again */
	enum lab_leaves leaves; /* with faults: how a rank ends its communicators after trouble */
	/* The number of groups of different calls that follow the series (mixed.c). */
	uint32_t mixed;
	/* Each rank begins its init late, by at most this many seconds, drawn from the seed. */
	uint32_t late;
	bool finalize;    /* communicators are finalized before they are destroyed */
	bool nonblocking; /* communicators are; a rank polls them after each call */
	/* Another task of each rank polls its communicators until they are gone (watchdog.c). */
	bool polls;
	enum lab_ends ends; /* of several communicators */
	/* Communicators are made with a config that a program of that version of NCCL passes, in
	 * thousands and hundreds as NCCL_VERSION_CODE has them; 0: without a config. */
	uint32_t config_version;
	/* The config of communicators names the network Socket, which their children inherit. */
	bool config_sockets;
	const char *env_odd;     /* NAME=value of every other process; NULL: none */
	uint32_t local_register; /* enum lab_register */
	/* nccl-tests' groups: a series is of groups of so many whole collectives (0 or 1: without);
	 * the rank waits after each of them; all rows so often (0: once); both buffers begin so
	 * many elements late. */
	uint32_t aggregate;
	uint32_t blocking; /* enum lab_blocking */
	uint32_t cycles, unalign;
	/* Each iteration has a time, too; with one stream, no graph, no aggregate. */
	bool per_iteration;
	bool launch_time; /* the table has the time that a rank's calls take instead */
	bool hasty;       /* ends with a collective that is still running when it destroys */
	bool recover;     /* with faults: after trouble, a second communicator of the survivors */

	/* One life of a program that survives errors (life.h) instead of the series. NULL: the
	 * series. */
	struct lab_life *life;

	enum lab_average average;
	FILE *table;   /* the nccl-tests table; NULL: quiet */
	bool progress; /* a line on stderr, a terminal, about a row that takes long */
	/* Called by every rank's task after the communicator exists, before the collectives; for
	 * tests. NULL: none. */
	void (*on_ready)(int32_t rank, ncclComm_t comm, void *arg);
	void *on_ready_arg;
	/* Called by a rank's task after each row, and once at the end, before on_failed; not when
	 * the program crashes. NULL: none. */
	void (*on_row)(const struct lab_row_result *row, void *arg);
	void (*on_result)(const struct lab_result *result, void *arg);
	void *on_row_arg; /* of both */
	/* Called when a failure ended the run, before the world is torn down: a failure in the
	 * middle of a device's step leaves it in no state to be. May end the program. NULL:
	 * none. */
	void (*on_failed)(const struct lab_result *result, void *arg);
	void *on_failed_arg;
};

/* Do other ranks have a rank's buffers mapped? */
static inline bool lab_has_windows(const struct lab_config *c)
{
	return c->local_register == LAB_REGISTER_WINDOW;
}

struct lab_result {
	enum sim_verdict verdict;
	bool recovered; /* the survivors of trouble made a second communicator */
	uint64_t seed, hash;
	uint64_t wrong;       /* elements */
	uint64_t guard_wrong; /* bytes written outside the buffers */
	uint64_t leaks;
	uint64_t fired;      /* faults of the plan */
	uint64_t matched;    /* visits of sites that a line of the plan matched */
	uint32_t scenes;     /* a bit for each kind that was played, in the order of scene.c */
	uint32_t plugins;    /* enum lab_plugin: those that the stack has used */
	uint64_t operations; /* checked collectives, over all ranks the same */
	ncclResult_t error;  /* first error that a rank saw */
	int32_t error_rank;
	uint32_t killed; /* ranks whose process a fault ended */
	int32_t nranks;
	uint64_t virtual_ns, switches, steps;
	double busbw_average;  /* GB/s */
	char explanation[256]; /* of the first wrong result */
	char strategy[32];
	/* The first failure, error returned where none is allowed included. */
	bool failed;
	struct sim_failure failure;
};

void lab_config_default(struct lab_config *config);
/* The ranks of one host, and of all. machine_gpus: how many GPUs the machine of each host has;
 * NULL: the configuration has the numbers of ranks. */
uint32_t lab_host_ranks(const struct lab_config *c, uint32_t host, const uint32_t *machine_gpus);
uint32_t lab_ranks(const struct lab_config *c, const uint32_t *machine_gpus);

/* machines.c: how many machines a list has, and the name of host `host`'s. */
#define LAB_MACHINE_BYTES 1024
uint32_t lab_machines_count(const char *list);
const char *lab_machine_of(const char *list, uint32_t host, char name[LAB_MACHINE_BYTES]);
/* Returns the outcome of a run: its verdict, or SIM_ERROR when a call returned an error, or a rank
 * was killed, and the configuration does not allow that. */
enum sim_verdict lab_outcome(const struct lab_config *config, const struct lab_result *result);
int lab_run(const struct lab_config *config, struct lab_result *result);
/* Checks that a configuration can be carried out: lab_run without the run, for a command that makes
 * many of them. */
int lab_check(const struct lab_config *config);

#endif
