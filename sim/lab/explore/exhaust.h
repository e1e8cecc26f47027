/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Faults by exhaustion: for each kind of call that the outside may fail, fail the k-th one, for k =
 * 1, 2, ... until there are no more; once, and from the k-th on without end. For kill and abort, k
 * is the moment at which a rank dies or gives up. Each run is one life of a small world (life.h) in
 * a child process, and must end with:
 *
 * 	no crash, no hang, no leak; a virtual bound (EXHAUST_BOUND_NS) on all of it
 * 	right results wherever success was returned
 * 	the same class of error everywhere: ncclRemoteError on every rank whose own call was not hit
 * 	no rank aborted by the launcher that could have known from the stack
 * 	after healing, an all-reduce over a new communicator of the survivors
 *
 * Called by the command line and by tests, outside any engine. Not for the threads engine.
 */
#ifndef SIM_LAB_EXHAUST_H
#define SIM_LAB_EXHAUST_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "sim/engine/sim.h"
#include "sim/lab/check/collective.h"
#include "sim/lab/life/life.h"

#define EXHAUST_BOUND_NS 80000000000ull /* attempts to connect to a rank go on for 60 s */
#define EXHAUST_ENV_OWN  2
#define EXHAUST_ENV_MOST 32

enum exhaust_class {
	EXHAUST_ALLOC,
	EXHAUST_VERBS,
	EXHAUST_CUDA,
	EXHAUST_SOCKET,
	EXHAUST_SHM,
	EXHAUST_FILE,
	EXHAUST_KILL,
	EXHAUST_ABORT,
	EXHAUST_CLASSES,
};
extern const char *const exhaust_class_name[EXHAUST_CLASSES];

struct exhaust_config {
	uint32_t classes;       /* bit per enum exhaust_class */
	uint64_t first, stride; /* of k; 0: 1 */
	uint64_t most;          /* runs per series; 0: until the fault no longer fires */
	int32_t rank;           /* faults hit this rank's calls; -1: those of any rank */
	const char *site;       /* only this one; NULL: all of the class */
	const char *task;       /* abort at the steps of this one only; NULL: of each */
	const char *machine;    /* of all hosts, or a list that they have in turn */
	uint32_t hosts, gpus, ranks_per_proc; /* 0: 2, 2, 1 */
	const struct lab_collective *collective;
	/* NAME=VALUE of every process, NULL-terminated; the first EXHAUST_ENV_OWN are the
	 * default's */
	const char *env[EXHAUST_ENV_MOST + 1];
	bool once, for_ever;    /* neither: both */
	bool fifo, exploring;   /* neither: both */
	bool blocking, polling; /* init; neither: by turns */
	enum lab_stage stage;   /* calls of the program between its collectives */
	uint64_t seed;          /* of exploring runs: seed + k */
	bool in_process;        /* one run, here: for gdb and for reading what it prints */
	FILE *out;              /* a line per series, and per finding; NULL: quiet */
	FILE *progress;         /* a terminal: the run under way, each second; NULL: none */
};

struct exhaust_result {
	bool named;                   /* there is a fault of these classes and this site */
	uint64_t series, runs, fired; /* runs in which the fault fired */
	uint64_t launcher_aborted;    /* runs in which the launcher aborted a rank */
	uint64_t second;              /* runs with a second communicator */
	uint64_t bad;                 /* findings */
	enum sim_verdict worst;       /* of them; SIM_PASS: none */
	char first_bad[1536];         /* the command that repeats it, and what is wrong */
};

void exhaust_config_default(struct exhaust_config *config);
/* 0, or a positive errno when it cannot be carried out (explained on stderr). */
int exhaust_run(const struct exhaust_config *config, struct exhaust_result *result);

#endif
