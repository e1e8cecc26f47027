/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collectives that the lab runs and checks: one row each, in collective_rows.c. The row
 * describes the call, the buffers, and what each rank holds afterwards. Everything that works on a
 * collective (runs, the table, checks, explanations of wrong results, the time bound, lives,
 * recovery, sweeps, shrinking, scenario files, the command line) reads the row and has no case of
 * its own for one collective.
 *
 * A buffer consists of blocks of `count` elements: one block, or one for each rank. In place, both
 * buffers are in the memory of the larger one; where one has a block and the other a block per
 * rank, rank r's block is block r.
 *
 * 	            send buffer     receive buffer
 * 	one : one   count           count            the same memory
 * 	one : each  count           nranks * count   send = recv + rank * count
 * 	each : one  nranks * count  count            recv = send + rank * count
 *
 * A collective may go in parts (lab_config's streams, group, comms): each part is a call of its own
 * about elements first .. end-1 of a block, and its buffers lie one after another in the row's.
 *
 * Called by the runner, the command line and tests. Pure, apart from lab_row_start; nothing here is
 * shared with the stack, so that a mistake there cannot hide here.
 */
#ifndef SIM_LAB_COLLECTIVE_H
#define SIM_LAB_COLLECTIVE_H

#include "sim/lab/check/payload.h"

struct lab_row;

/* The arguments of a call that the row does not hold. */
struct lab_call_args {
	const struct lab_row *row;
	int32_t rank; /* the caller's */
	const void *send;
	void *recv;
	size_t count;
	ncclComm_t comm;
	cudaStream_t stream;
};

struct lab_collective {
	const char *name; /* "all_reduce": command line, scenario files, JSON, plots */
	const char *call; /* "ncclAllReduce" */
	ncclResult_t (*start)(const struct lab_call_args *a);
	bool reduces; /* with an operation; else elements are moved as they are */
	bool send_per_rank,
		recv_per_rank;          /* that buffer has a block for each rank; else it has one */
	bool root_sends, root_receives; /* only the root's send buffer counts, only it receives */
	/* A ring: the number of times that the data goes round, and whether each rank's own share
	 * crosses no link. A link carries tours * (n-1)/n times the size, or tours times. */
	uint32_t tours;
	bool own_share_stays;
	bool never_in_place;
	bool connects; /* pairs of ranks are connected at their first message */
	/* With messages. The rank whose block a rank gets as its one block. NULL: its own, or the
	 * root's. */
	int32_t (*from)(int32_t rank, int32_t nranks);
	/* How many of a block's n elements rank `from` sends to rank `to`. NULL: all; else about
	 * half of the bytes move. */
	uint64_t (*share)(uint64_t n, int32_t from, int32_t to, int32_t nranks);
	/* Several groups, each of which sends what the one before it received, between 2^k ranks:
	 * not inside another group. */
	bool chained;
};

/* Simple collectives first: shrinking tries the rows before a scenario's own. */
extern const struct lab_collective lab_collectives[];
extern const uint32_t lab_collectives_n;
enum { LAB_COLLECTIVES_MAX = 32, LAB_ALL_ROOTS = -1 };
/* The first rows are NCCL's own collectives; those after them are programs of messages. */
enum { LAB_COLLECTIVES_OF_NCCL = 8 };

/* Finds a collective by its name or by that of nccl-tests. NULL: not found. */
const struct lab_collective *lab_collective_find(const char *name, size_t bytes);
/* The name that is nearest to what was written. */
const char *lab_collective_nearest(const char *name, size_t bytes);
/* "all_reduce, all_gather" */
const char *lab_collective_names(void);

/* Is a row run in place, for a run that wants it (or not)? */
static inline bool lab_collective_in_place(const struct lab_collective *c, bool wanted)
{
	return wanted && !c->never_in_place;
}
/* And out of place? Each collective is run in one of the two. */
static inline bool lab_collective_out_of_place(const struct lab_collective *c, bool wanted)
{
	return wanted || c->never_in_place;
}

static inline bool lab_collective_has_root(const struct lab_collective *c)
{
	return c->root_sends || c->root_receives;
}

/* May any program have it: inside a group, into buffers that were not prepared? */
static inline bool lab_collective_is_plain(const struct lab_collective *c)
{
	return !c->share && !c->chained;
}

/* Bus bandwidth / algorithm bandwidth, as nccl-tests has it. */
double lab_collective_bus_factor(const struct lab_collective *c, int32_t nranks);

/* One row of the table: one size, type, operation and root. */
struct lab_row {
	const struct lab_collective *collective;
	struct payload payload;
	int32_t root;   /* -1: the collective has none */
	uint64_t count; /* elements of a block: what the call gets */
	uint64_t bytes; /* of the larger buffer: nccl-tests' size */
	uint32_t parts; /* calls that it goes in */
	bool in_place;
	ncclRedOp_t op; /* what the call gets: the payload's, or one that the program made */
	const ncclCollConfig_t *config; /* what the call gets; NULL: no options. NCCL's own alone */
};

enum lab_side { LAB_SEND, LAB_RECV };

/* `bytes` are rounded down to whole blocks of whole elements. */
struct lab_row lab_row_make(const struct lab_collective *c, const struct payload *p, int32_t root,
			    uint64_t bytes, uint32_t parts);
/* "sum", or "none" where nothing is reduced. */
const char *lab_row_op(const struct lab_row *row);
enum { LAB_ROW_TEXT = 96 };
/* "all_reduce, 64 B float sum in place" */
void lab_row_text(const struct lab_row *row, char out[LAB_ROW_TEXT]);

uint64_t lab_row_elements(const struct lab_row *row, enum lab_side side);
/* The memory of both buffers in place. */
uint64_t lab_row_most(const struct lab_row *row);

/* Elements first .. first+n-1 of a buffer, which begin `at` elements into its memory. */
struct lab_span {
	uint64_t first, at, n;
};
/* The k-th stretch of a rank's buffer that is contiguous in memory; false: there are no more. */
bool lab_row_span(const struct lab_row *row, enum lab_side side, int32_t rank, uint32_t k,
		  struct lab_span *span);

/* The memory of a part's buffer; in place, of both of its buffers. */
struct lab_span lab_row_part_memory(const struct lab_row *row, enum lab_side side, uint32_t part);

/* Calls the collective for one part. send and recv are the rank's buffers; in place they are the
 * same memory. */
ncclResult_t lab_row_start(const struct lab_row *row, uint32_t part, int32_t rank, uint8_t *send,
			   uint8_t *recv, ncclComm_t comm, void *stream);

/* The source of the result in an element of the receive buffer, and in the n-1 after it. */
struct lab_source {
	enum lab_source_kind {
		LAB_REDUCED,  /* `element` of all ranks' send buffers, reduced */
		LAB_INPUT,    /* `element` of `rank`'s send buffer */
		LAB_KEPT,     /* the same, of this rank: it gets no result, and its input is here */
		LAB_UNTOUCHED /* nothing: this rank gets no result */
	} kind;
	int32_t rank; /* of the input, or of the block that is reduced */
	uint64_t element, n;
	uint64_t block_first, block_n; /* of the send buffer: the block that `element` is in */
};
struct lab_source lab_row_source(const struct lab_row *row, int32_t rank, uint64_t at);

/* Out of place, receive buffers hold this before a collective. */
#define LAB_UNWRITTEN 0xee

/* Reduces all send buffers: lab_row_elements(row, LAB_SEND) elements, the same for all ranks. For
 * collectives that reduce. */
void lab_row_reduce(const struct lab_row *row, void *out);

/* Compares elements first .. first+n-1 of a rank's receive buffer, which `got` holds. `reduced`: of
 * lab_row_reduce, or NULL: what of it is needed is reduced here; scratch: memory for n elements.
 * Returns how many are wrong, and the first wrong one in *where (unchanged when none is). */
uint64_t lab_row_compare(const struct lab_row *row, int32_t rank, uint64_t first, uint64_t n,
			 const void *got, const void *reduced, void *scratch, uint64_t *where);

/* The same for a whole receive buffer; 0 for a rank that gets no result. `memory`: 2 *
 * row->bytes. */
uint64_t lab_row_wrong(const struct lab_row *row, int32_t rank, const void *got, void *memory,
		       uint64_t *where);

/* wrong.c. One line about element `first` of a rank's receive buffer, which is wrong; `got` holds
 * it and the n-1 elements after it. */
void lab_row_explain(const struct lab_row *row, int32_t rank, uint64_t first, uint64_t n,
		     const void *got, char *out, size_t out_bytes);

#endif
