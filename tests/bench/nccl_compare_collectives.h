/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collectives that nccl_compare measures: the call, and the result that each rank must hold.
 * Buffers contain floats whose sums are exact.
 */
#ifndef TESTS_BENCH_NCCL_COMPARE_COLLECTIVES_H
#define TESTS_BENCH_NCCL_COMPARE_COLLECTIVES_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/bench/nccl_lib.h"

#define FLOAT  sizeof(float)
#define PERIOD 61 /* period of a buffer's elements */

/* One call of one rank. */
struct call {
	int rank, ranks;
	float *send, *recv;
	size_t n; /* elements of the larger buffer */
	ncclComm_t comm;
	cudaStream_t stream;
};

/*
 * Contents of a part of a buffer: element i is scale * ((first + i) % PERIOD + 1). The scale of a
 * rank's send buffer is its number + 1: a sum over 16 ranks is exact.
 */
struct content {
	int scale;
	size_t first;
};

/* A collective of the table. Sizes and bus bandwidths follow nccl-tests: a row's bytes are those of
 * the larger buffer. */
struct collective {
	const char *name;
	ncclResult_t (*call)(const struct nccl_lib *l, const struct call *c);
	struct content (*want)(const struct call *c, int part);
	/* transfers over the bus, in parts of (ranks - 1) / ranks; 0: one whole transfer */
	int sent;
	bool parted; /* a buffer has a part per rank */
	bool part;   /* the result is one part */
};

enum { COLLECTIVES = 6 };
extern const struct collective collective[COLLECTIVES];

/* Returns the contents of a rank's send buffer. */
struct content input_of(int rank);
/* Fills n elements. */
void content_fill(struct content c, float *data, size_t n);
/* Returns the number of elements that differ. */
uint64_t content_wrong(struct content c, const float *data, size_t n);

#endif
