/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Payload: what each rank puts in, what must come out, and, when something else came out, whose
 * contribution is missing or doubled. Called by the runner and by tests. Pure functions; nothing is
 * shared with the stack, so that a mistake there cannot hide here.
 *
 * Inputs that are reduced are small numbers that every data type holds exactly and whose partial
 * results are exact in any order, so a result is compared bit by bit. The one exception is the
 * average of floats over a number of ranks that is not a power of two: there a few units in the
 * last place are allowed. Inputs that are reduced may be any numbers instead (struct payload.any).
 * Integers wrap. Most results of floats are one rounding of two ranks' numbers, and are compared
 * bit by bit too; those of sums of all ranks' numbers have an error bound. Values depend on (rank,
 * element, salt); the salt changes with each operation, so a stale result is wrong too. Inputs that
 * are only moved are any bits, NaNs included.
 */
#ifndef SIM_LAB_PAYLOAD_H
#define SIM_LAB_PAYLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/include/nccl.h"

/* The sum of products of each input with its rank's factor, an operation that each program makes:
 * ncclRedOpCreatePreMulSum. */
#define PAYLOAD_MULSUM ((ncclRedOp_t)ncclNumOps)

struct payload {
	ncclDataType_t type;
	ncclRedOp_t op;
	int32_t nranks;
	uint64_t salt;
	bool moved; /* not reduced: `op` is not used */
	/* Any numbers: integers wrap, floats are rounded, and may overflow (payload_any.c). */
	bool any;
};

size_t payload_type_bytes(ncclDataType_t type);
const char *payload_type_name(ncclDataType_t type); /* "float", as nccl-tests writes it */
const char *payload_op_name(ncclRedOp_t op);

/* PAYLOAD_MULSUM: the factor of a rank, as an element of the type. */
void payload_factor(const struct payload *p, int32_t rank, void *out);
/* Elements first .. first+n-1 of what `rank` contributes. */
void payload_fill(const struct payload *p, int32_t rank, size_t first, size_t n, void *out);
/* The reduced result of the same elements. */
void payload_expect(const struct payload *p, size_t first, size_t n, void *out);

/* Compares n elements, which are those of the payload from `first` on; returns how many are wrong,
 * and the first wrong one in *where (unchanged when none is). */
size_t payload_compare(const struct payload *p, size_t first, size_t n, const void *got,
		       const void *want, size_t *where);

/* "element 7 is 3, expected 5: ", into out; returns the characters that it takes. `got` and `want`
 * hold that element. */
size_t payload_difference(const struct payload *p, uint64_t element, const void *got,
			  const void *want, char *out, size_t out_bytes);

/* One line about a wrong stretch: elements first .. first+n-1 of the result were all compared, and
 * `got` holds them. Tries every rank as missing, as doubled, and a few other mistakes; writes "no
 * single rank explains it" when none fits every wrong element. */
void payload_explain(const struct payload *p, size_t first, size_t n, const void *got, char *out,
		     size_t out_bytes);

#endif
