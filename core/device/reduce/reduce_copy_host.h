/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reduce_copy.h over plain memory, by one CPU thread. The double's dev_reduce_copy uses it, and
 * tests compare GPUs with it. A source and a destination may be equal; they must not overlap
 * partly.
 */
#ifndef CORE_DEVICE_REDUCE_COPY_HOST_H
#define CORE_DEVICE_REDUCE_COPY_HOST_H

#include "core/device/reduce/reduce_copy.h"
#include "core/device/layout/steps.h"

#define RC_TILE_BYTES 512

struct rc_job {
	const uint8_t *src[2];
	uint8_t *dst[2];
	int nsrc, ndst;
	uint64_t count;
	enum dev_type type;
	enum dev_op op;
	uint64_t scale;
	bool post;
};

#define RC_BODY "core/device/reduce/reduce_tile.h"
#include "core/device/reduce/reduce_types.h"
#undef RC_BODY

static inline bool rc_is_copy(const struct rc_job *job)
{
	return job->nsrc == 1 && job->op != DEV_PREMUL_SUM &&
	       !(job->post && job->op == DEV_SUM_POSTDIV);
}

static __attribute__((unused)) void rc_reduce_copy(const struct rc_job *job)
{
	static void (*const loop[DEV_TYPE_COUNT])(const struct rc_job *) = {
		rc_loop_i8,  rc_loop_u8,  rc_loop_i32, rc_loop_u32,  rc_loop_i64,    rc_loop_u64,
		rc_loop_f16, rc_loop_f32, rc_loop_f64, rc_loop_bf16, rc_loop_f8e4m3, rc_loop_f8e5m2,
	};

	ASSERT(job->nsrc >= 1 && job->nsrc <= 2 && job->ndst >= 1 && job->ndst <= 2);
	ASSERT(job->op != DEV_SUM_POSTDIV || !job->post || job->scale > 0); /* a number of ranks */
	ASSERT((unsigned)job->type < DEV_TYPE_COUNT && (unsigned)job->op < DEV_OP_COUNT);
	if (!rc_is_copy(job)) {
		loop[job->type](job);
		return;
	}
	size_t bytes = job->count * steps_type_bytes(job->type);
	for (int i = 0; i < job->ndst; i++)
		if (job->dst[i] != job->src[0])
			memcpy(job->dst[i], job->src[0], bytes);
}

#endif
