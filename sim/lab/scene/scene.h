/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Scenes: short programs of all ranks, on communicators of their own, whose outcome the lab knows.
 * A run plays them after its series (--scenes N); each rank's own task does. All ranks draw the
 * same scenes from the run's seed. Scenes without errors end with a right result; in the others
 * each rank gets the error that the documents have for it, within a bound.
 *
 * scene.c draws and plays them, and has what they share; the other files of the folder have the
 * scenes. Times are virtual ns unless a name has another unit. A scene owns its communicators, and
 * ends each that it has made; memory and streams are the player's. An outcome that is not as
 * expected is the run's failure (lab_refused_judge).
 */
#ifndef SIM_LAB_SCENE_H
#define SIM_LAB_SCENE_H

#include <cuda_runtime_api.h>

#include "sim/lab/program/refused.h"
#include "sim/lab/run/runner_internal.h"

enum {
	SCENE_COMMS = 2, /* of all ranks, at most */
	SCENE_STREAMS = 8,
	SCENE_BYTES = 64 << 10, /* of a rank's memory: input; result; both of each stream */
	SCENE_COUNT = 256,      /* elements of a call of a stream */
};

struct scene {
	struct lab_rank *me;
	const char *name;
	int32_t n, culprit;        /* the rank that does something else, if one does */
	bool mine;                 /* this rank is it */
	int32_t roots;             /* unique ids of the first communicator */
	uint64_t round;            /* of the run, from 0 */
	uint64_t timeout_ms;       /* DOPPEL_TIMEOUT_MS of the run; 0: not set */
	struct sim_rng drawn, own; /* the same on all ranks; of this rank */
	ncclComm_t comm[SCENE_COMMS];
	int32_t *mem, *host; /* SCENE_BYTES that GPUs use, and of the program */
	bool pinned;         /* `mem` is in the host */
	cudaStream_t stream[SCENE_STREAMS];
	uint64_t busy_ns[SCENE_STREAMS]; /* other work of a stream */
};

/* Initialises communicator k with the ids of the round. */
ncclResult_t scene_init(struct scene *s, int k, ncclComm_t *comm);
/* The same for communicator 0, with a config; NULL: none. */
ncclResult_t scene_init_config(struct scene *s, ncclComm_t *comm, ncclConfig_t *config);
/* The same as scene_init. True: the communicator is there. */
bool scene_open(struct scene *s, int k);
/* Destroys it, or aborts it. */
void scene_destroy(struct scene *s, int k);
void scene_abort(struct scene *s, int k);
/* False: another task of the rank makes communicators on its GPU. */
bool scene_has_gpu(const struct scene *s);
void scene_judge(struct scene *s, const char *call, ncclResult_t got, ncclResult_t want);
void scene_report(struct scene *s, const char *call, const char *text);
/* Reports a CUDA call that failed. */
bool scene_cuda(struct scene *s, cudaError_t e, const char *call);
/* Waits for a stream; false: the run has failed. */
bool scene_sync(struct scene *s, int stream);
/* Fills the input. Checks the first `count` elements of the result. False: the run has failed, or
 * the result is wrong. */
bool scene_fill(struct scene *s, size_t count, int32_t value);
bool scene_check(struct scene *s, const char *call, size_t count, int32_t want);
/* Reduces on communicator k, or sends round its ranks, in the first stream, and checks. `config`:
 * options of the call; NULL: none. False: the run or the call has failed. */
bool scene_sum(struct scene *s, int k, size_t count, ncclCollConfig_t *config);
bool scene_ring(struct scene *s, int k);
/* Waits until the communicator has an error, at most so long; judges it. */
void scene_learn(struct scene *s, int k, uint64_t most_ns, ncclResult_t want);

/* scene_deadline.c */
void scene_short_launches(struct scene *s);
void scene_shortest_deadline(struct scene *s);
void scene_absent(struct scene *s);
void scene_lonely(struct scene *s);
void scene_differ(struct scene *s);
void scene_absent_call(struct scene *s);
/* scene_group.c */
void scene_group_fails(struct scene *s);
void scene_group_connects(struct scene *s);
void scene_group_streams(struct scene *s);
void scene_simulate(struct scene *s);
/* scene_alone.c */
void scene_alone(struct scene *s);
/* scene_late.c */
void scene_late(struct scene *s);
void scene_counts(struct scene *s);
void scene_late_receiver(struct scene *s);
/* scene_abandon.c */
void scene_abandon(struct scene *s);
/* scene_suspend.c */
void scene_suspend_apart(struct scene *s);
void scene_suspend_ends(struct scene *s);
/* scene_aborted.c */
void scene_aborted(struct scene *s);
/* scene_capture.c */
void scene_captures(struct scene *s);
/* scene_state.c */
void scene_state(struct scene *s);
/* walk.c */
void scene_walk(struct scene *s);
/* scene_roots.c */
void scene_roots(struct scene *s);
/* scene_versions.c */
void scene_versions(struct scene *s);
/* scene_program.c */
void scene_program(struct scene *s);
/* scene_window.c */
void scene_window(struct scene *s);
/* scene_discard.c */
void scene_discard(struct scene *s);
void scene_changes(struct scene *s);
/* scene_ending.c */
void scene_ending(struct scene *s);

#endif
