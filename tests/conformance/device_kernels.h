/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kernels for the tests of the device shim, and their arguments: shared between device_kernels.c
 * (device code, compiled like core/device/kernels/kernels.c) and the tests (host code).
 */
#ifndef TESTS_DEVICE_KERNELS_H
#define TESTS_DEVICE_KERNELS_H

#include "core/device/layout/work.h"

/* Litmus: a producer and a consumer, each a block, with a ring of `slots` slots between them. A
 * slot has one word for each thread (a line of 16 bytes for LITMUS_LINE), which holds a number that
 * depends on step and thread; for LITMUS_PAIRS it has 8 pairs of lines of 128 bytes for each
 * warp. */
enum litmus_form {
	LITMUS_RELEASE, /* one thread writes, and posts with a release store; acquire load */
	LITMUS_FENCE, /* all threads write, barrier, one posts: fence, relaxed store (as prims.h) */
	LITMUS_LINE,  /* LL: lines with flags, no order between them needed */
	LITMUS_PAIRS, /* LL128: the same, where lines arrive whole */
	LITMUS_FORMS
};
enum litmus_role { LITMUS_PRODUCER, LITMUS_CONSUMER };

struct litmus_args {
	uint64_t slots_at; /* uint64_t [slots][threads], struct v16, or pairs of each warp */
	uint64_t tail;     /* shared_u64 *: steps produced */
	uint64_t head;     /* shared_u64 *: steps consumed */
	uint64_t errors;   /* shared_u64 *: in host memory */
	uint64_t first;    /* what was seen first that was wrong: uint64_t [4] */
	uint32_t steps, slots;
	uint32_t form, scope; /* enum litmus_form, enum shared_scope */
	uint32_t role;        /* of block 0; block 1 has the other */
	uint32_t pad0;
};
DOPPEL_CHECK_SIZE(struct litmus_args, 64);

static inline
#ifdef __CUDACC__
	__host__ __device__
#endif
		uint64_t
		litmus_value(uint64_t step, uint32_t thread)
{
	return (step + 1) * 0x9e3779b97f4a7c15ull ^ thread;
}

/* One dev_reduce_copy by all threads of one block. */
struct reduce_args {
	uint64_t src[2], dst[2];
	uint64_t count, scale;
	uint32_t nsrc, ndst, type, op;
	uint32_t post, pad0;
};
DOPPEL_CHECK_SIZE(struct reduce_args, 72);

#endif
