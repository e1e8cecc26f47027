/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups of different calls: shared by mixed.c, mixed_draw.c, mixed_memory.c and mixed_order.c,
 * which is pure. */
#ifndef SIM_LAB_MIXED_H
#define SIM_LAB_MIXED_H

#include <cuda_runtime_api.h>

#include "sim/lab/run/runner_internal.h"

enum {
	MIXED_CALLS = 24,  /* of a group, at most */
	MIXED_STREAMS = 8, /* of a rank, at most */
	MIXED_STREAMS_OFTEN = 3,
	MIXED_BYTES = 16 << 10, /* of each buffer of a call */
	MIXED_LATE = 15,        /* a buffer begins so many bytes later, at most */
	MIXED_ROOM = MIXED_BYTES + 256,
	MIXED_FACTOR = sizeof(uint64_t),
	MIXED_OPS_LIVE = 24, /* operations of the program at the same time, at most */
};

/* The buffers of a call, one after the other in the memory of the rank. */
enum mixed_buffer { MIXED_SEND, MIXED_RECV, MIXED_TAKEN, MIXED_BUFFERS };

struct lab_mixed {
	uint8_t *memory, *host; /* of all calls: on the GPU; input and result */
	cudaStream_t stream[MIXED_STREAMS];
	bool made[MIXED_STREAMS]; /* the others are the runtime's */
	cudaEvent_t join;
	/* with options: one that waits for completion events alone; and the event of the group's
	 * calls on each communicator */
	cudaStream_t after;
	cudaEvent_t complete[LAB_MAX_COMMS];
	ncclRedOp_t op[MIXED_OPS_LIVE]; /* that the program has */
	uint32_t ops;
	ncclResult_t valid; /* of the right calls of a group with a wrong one */
};

struct mixed_call {
	struct lab_row row;
	uint32_t comm, stream; /* that the call gets */
	uint32_t from, to;     /* the streams that bring its input and take its result */
	int32_t distance; /* of a message to the rank so many after this one; -1: a collective */
	bool recv_first;  /* of a message */
	bool nested;      /* in a group of its own, within the group */
	int32_t only;     /* a message of this rank alone; -1: of each */
	bool adjacent;    /* the input ends where the result begins */
	/* bytes that this rank's buffers begin late: whole elements if they are reduced */
	uint32_t send_late, recv_late;
	uint64_t options; /* the salt of its options */
	bool completes;   /* its options have the completion event of its communicator */
	bool after;       /* its result is taken by a stream that waits for that event alone */
};

struct mixed_group {
	struct mixed_call call[MIXED_CALLS];
	uint32_t order[MIXED_CALLS]; /* in which this rank calls them */
	bool orders;                 /* each rank has one of its own */
	uint32_t n;
	/* This number of its calls and a wrong one make a group before it, which is refused; -1: no
	 * such group. */
	int32_t refused;
	bool refused_apart; /* the streams of that group go with it */
	uint32_t
		ops; /* so many operations of the program are made and destroyed before the group */
	bool renews; /* the program destroys its streams while they have work, and makes others */
};

/* Streams of each rank of the run. */
uint32_t mixed_streams(const struct lab_config *c);
/* mixed_draw.c, pure: the `round`-th group of the run, the same on all ranks; and the order in
 * which this rank calls it. */
void mixed_draw(const struct lab_run *run, uint32_t round, struct mixed_group *g);
void mixed_draw_order(const struct lab_rank *me, uint32_t round, struct mixed_group *g);

uint8_t *mixed_at(const struct lab_rank *me, uint32_t call, enum mixed_buffer which);
/* The input and the result of the i-th call, and the factor of its operation in the memory of the
 * GPU. */
uint8_t *mixed_send_at(const struct lab_rank *me, const struct mixed_call *call, uint32_t i);
uint8_t *mixed_recv_at(const struct lab_rank *me, const struct mixed_call *call, uint32_t i);
uint8_t *mixed_factor_at(const struct lab_rank *me, uint32_t call);
int mixed_streams_make(struct lab_rank *me); /* cudaError_t */
void mixed_streams_free(struct lab_mixed *m);

/* Makes calls that all ranks must have, because they give a communicator its place, calls of all
 * ranks. */
void mixed_order_comms(struct mixed_call *call, uint32_t n);
/* Another legal order of the same calls: order[0..n-1], which are 0..n-1 before. */
void mixed_order_shuffle(const struct mixed_call *call, uint32_t n, struct sim_rng *rng,
			 uint32_t *order);

#endif
