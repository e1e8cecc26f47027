/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Generated programs: a seed draws steps that all ranks make over up to three communicators and
 * four streams, and how the program ends. program_draw.c draws them and has the model of each
 * result; it is pure. scene_program.c plays the steps, program_ends.c makes and ends communicators.
 *
 * Called by scene.c. Counts and places are in 32-bit words, ranks are those of the run unless a
 * name has "comm". A step has memory of its own, so that no step waits for another one.
 */
#ifndef SIM_LAB_SCENE_PROGRAM_H
#define SIM_LAB_SCENE_PROGRAM_H

#include "sim/lab/scene/scene.h"

enum {
	PROGRAM_COMMS = 3,
	PROGRAM_STREAMS = 4, /* the legacy one, a blocking one, two others */
	PROGRAM_CALLS = 600, /* of a step, at most */
	PROGRAM_STEPS = 12,
	PROGRAM_WORDS = 8192, /* of a step: inputs in the first half, results in the second */
	PROGRAM_FILL = 0x77,  /* each byte of a result before the step */
};

enum program_op {
	PROGRAM_ALL_REDUCE,
	PROGRAM_BROADCAST,
	PROGRAM_ALL_GATHER,
	PROGRAM_REDUCE_SCATTER,
	PROGRAM_MESSAGE, /* to the rank so many after this one; 0: to itself */
	PROGRAM_OPS
};

struct program_call {
	enum program_op op;
	int comm, stream;
	int recv_stream; /* of the second half of a message */
	int from, to;    /* the streams that bring the input and take the result */
	int32_t root;    /* in the communicator; or the distance of a message */
	int ctas;        /* channels of a collective, by its options; 0: without options */
	size_t count;
	uint32_t salt;
};

enum program_wrong {
	PROGRAM_RIGHT,
	PROGRAM_EARLY, /* an argument is wrong: the call returns the error */
	PROGRAM_LATE,  /* a message to itself has no other half: the group's end returns it */
};

struct program_step {
	int n; /* calls */
	bool grouped, many, syncs, ranks_first;
	bool apart; /* the task of a process makes a group for each of its ranks */
	enum program_wrong wrong;
	int wrong_at, wrong_comm; /* before this call; the communicator of a late one */
	int32_t only;             /* one rank alone has a group that is refused; -1: each has */
	int busy;                 /* a stream that has other work before */
	struct program_call call[PROGRAM_CALLS];
};

enum program_end {
	PROGRAM_DESTROYS,
	PROGRAM_ABORTS,      /* in one group */
	PROGRAM_DROPS_SPLIT, /* a rank's group with a split is refused */
	PROGRAM_UNCONNECTED, /* a non-blocking group, of which one communicator cannot connect */
	PROGRAM_ENDS
};

struct program_plan {
	uint64_t seed;
	int32_t n, culprit;
	int comms, steps;
	bool nonblocking[PROGRAM_COMMS];
	bool grouped_inits;
	bool split;   /* the last communicator is one of the first's ranks in reverse order */
	bool driven;  /* one task of a process makes the calls of all its ranks */
	bool options; /* half of the collectives have a number of channels of their own */
	int fails_at; /* before this step a rank's group of inits is refused; -1: no such group */
	enum program_end end;
	/* of two communicators that fail: that which the others call first, that which is
	 * aborted; and if the other one has a collective, which needs no new connection */
	int first, gone;
	bool collective;
};

struct program {
	struct scene *s;
	struct program_plan plan;
	struct program_step step;
	ncclComm_t comm[PROGRAM_COMMS], fresh[2];
	cudaStream_t stream[PROGRAM_STREAMS];
	uint32_t *mem, *host; /* on the GPU; pinned: inputs, and results as they are taken */
	uint64_t busy_ns[PROGRAM_STEPS];
	size_t free_bytes; /* of the GPU before the communicators */
	int most_ctas;     /* channels of a call, at most; 0: calls have no options */
};

/* program_draw.c: the plan of a program of n ranks, and its k-th step. */
void program_draw(struct program_plan *p, uint64_t seed, int32_t n);
void program_draw_step(const struct program_plan *p, int k, struct program_step *step);
/* Words of the input or the result of each call of a step. */
size_t program_words(const struct program_step *step);
/* True if the step's calls have an effect. */
bool program_runs(const struct program_step *step);
/* A word of the input of a call on a rank; of the result. */
uint32_t program_input(const struct program_call *c, int32_t rank, size_t word);
uint32_t program_result(const struct program_plan *p, const struct program_call *c, int32_t rank,
			size_t word);
size_t program_input_words(const struct program_plan *p, const struct program_call *c);

/* scene_program.c: judges a call that may be in progress on a non-blocking communicator. */
bool program_judge(struct program *g, const char *call, ncclResult_t got, bool may_progress);
/* Polls a communicator until it is no longer in progress, and returns its result. */
ncclResult_t program_poll(struct program *g, ncclComm_t comm);
/* A call that is refused, with one argument that no call may have. */
ncclResult_t program_wrong_call(struct program *g);

/* program_ends.c: false: the run or a call has failed. */
bool program_make(struct program *g);
bool program_init_fails(struct program *g);
void program_end(struct program *g);
/* Aborts what a failure has left. */
void program_drop(struct program *g);

#endif
