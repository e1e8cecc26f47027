/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dev_reduce_copy on a GPU: the elements of reduce_copy.h in packs of 16 bytes, strided over all
 * threads. Included by shim_cuda.h.
 *
 * There is one function for each type and operation (reduce_pack.h). It is not inlined, and a
 * switch chooses it for each slice. Code therefore stays small, because no function is repeated for
 * each primitive; registers belong to each function; and a call is cheap compared to a slice. In
 * the function a thread has RC_UNROLL packs of each source in flight, or RC_COPY_UNROLL if it only
 * copies. With 8 for reductions too, the kernel and the functions of f16 would spill
 * (results/figures.md has the speeds).
 */
#ifndef CORE_DEVICE_REDUCE_COPY_CUDA_H
#define CORE_DEVICE_REDUCE_COPY_CUDA_H

#include "core/device/reduce/reduce_copy.h"
#include "core/device/layout/steps.h"

#define RC_UNROLL      4
#define RC_COPY_UNROLL 8
#define RC_PACK_BYTES  16
#define RC_CUDA_FN     static __device__ __forceinline__

struct rc_pack_job {
	const uint8_t *src[2];
	uint8_t *dst[2];
	uint64_t count, scale;
	uint32_t thread, threads;
	int nsrc, ndst;
	bool post;
};

/* Returns true if every range starts on a pack, so that whole packs can be moved. */
RC_CUDA_FN bool rc_pack_aligned(const struct rc_pack_job *job)
{
	uintptr_t all = (uintptr_t)job->src[0] | (uintptr_t)job->dst[0];

	if (job->nsrc == 2)
		all |= (uintptr_t)job->src[1];
	if (job->ndst == 2)
		all |= (uintptr_t)job->dst[1];
	return all % RC_PACK_BYTES == 0;
}

RC_CUDA_FN uint4 rc_pack_load(const uint8_t *base, uint64_t pack)
{
	const uint4 *p = (const uint4 *)base + pack;

	__builtin_assume(__isGlobal(p));
	return *p;
}

RC_CUDA_FN void rc_pack_store(uint8_t *base, uint64_t pack, uint4 v)
{
	uint4 *p = (uint4 *)base + pack;

	__builtin_assume(__isGlobal(p));
	*p = v;
}

RC_CUDA_FN void rc_pack_no_division(void)
{
	__assert_fail("SUM_POSTDIV is for integers", "core/device", 0, "dev_reduce_copy");
}

RC_CUDA_FN uint4 rc_pack_load_second(const struct rc_pack_job &job, uint64_t pack)
{
	return rc_pack_load(job.nsrc == 2 ? job.src[1] : job.src[0], pack);
}

RC_CUDA_FN void rc_pack_store2(const struct rc_pack_job &job, uint64_t pack, uint4 v)
{
	rc_pack_store(job.dst[0], pack, v);
	if (job.ndst == 2)
		rc_pack_store(job.dst[1], pack, v);
}

#define RC_VALUES 4
struct rc_values {
	uint4 v[RC_VALUES];
};

#define RC_BODY "core/device/reduce/reduce_pack.h"
#include "core/device/reduce/reduce_types.h"
#undef RC_BODY

/* Copies bytes without an operation. */
static __device__ __noinline__ void rc_pack_copy(const struct rc_pack_job &job, uint32_t size)
{
	uint64_t bytes = job.count * size, done = 0;

	if (rc_pack_aligned(&job)) {
		uint64_t packs = bytes / RC_PACK_BYTES, stride = job.threads, at = job.thread;

		for (; at + (RC_COPY_UNROLL - 1) * stride < packs; at += RC_COPY_UNROLL * stride) {
			uint4 v[RC_COPY_UNROLL];
#pragma unroll
			for (int u = 0; u < RC_COPY_UNROLL; u++)
				v[u] = rc_pack_load(job.src[0], at + u * stride);
#pragma unroll
			for (int u = 0; u < RC_COPY_UNROLL; u++)
				rc_pack_store(job.dst[0], at + u * stride, v[u]);
			if (job.ndst == 2)
#pragma unroll
				for (int u = 0; u < RC_COPY_UNROLL; u++)
					rc_pack_store(job.dst[1], at + u * stride, v[u]);
		}
		for (; at < packs; at += stride) {
			uint4 v = rc_pack_load(job.src[0], at);

			rc_pack_store(job.dst[0], at, v);
			if (job.ndst == 2)
				rc_pack_store(job.dst[1], at, v);
		}
		done = packs * RC_PACK_BYTES;
	}
	for (uint64_t at = done + job.thread; at < bytes; at += job.threads) {
		uint8_t v = job.src[0][at];

		job.dst[0][at] = v;
		if (job.ndst == 2)
			job.dst[1][at] = v;
	}
}

DEV_FN void rc_pack_dispatch(const struct rc_pack_job &job, enum dev_type type, enum dev_op op)
{
	switch (type) {
	case DEV_I8:
		return rc_pack_reduce_i8(job, op);
	case DEV_U8:
		return rc_pack_reduce_u8(job, op);
	case DEV_I32:
		return rc_pack_reduce_i32(job, op);
	case DEV_U32:
		return rc_pack_reduce_u32(job, op);
	case DEV_I64:
		return rc_pack_reduce_i64(job, op);
	case DEV_U64:
		return rc_pack_reduce_u64(job, op);
	case DEV_F16:
		return rc_pack_reduce_f16(job, op);
	case DEV_F32:
		return rc_pack_reduce_f32(job, op);
	case DEV_F64:
		return rc_pack_reduce_f64(job, op);
	case DEV_BF16:
		return rc_pack_reduce_bf16(job, op);
	case DEV_F8E4M3:
		return rc_pack_reduce_f8e4m3(job, op);
	default:
		return rc_pack_reduce_f8e5m2(job, op);
	}
}

DEV_FN uint64_t rc_word_dispatch(uint64_t a, uint64_t b, int nsrc, enum dev_type type,
				 enum dev_op op, uint64_t scale, bool post)
{
	switch (type) {
	case DEV_I8:
		return rc_word_reduce_i8(a, b, nsrc, op, scale, post);
	case DEV_U8:
		return rc_word_reduce_u8(a, b, nsrc, op, scale, post);
	case DEV_I32:
		return rc_word_reduce_i32(a, b, nsrc, op, scale, post);
	case DEV_U32:
		return rc_word_reduce_u32(a, b, nsrc, op, scale, post);
	case DEV_I64:
		return rc_word_reduce_i64(a, b, nsrc, op, scale, post);
	case DEV_U64:
		return rc_word_reduce_u64(a, b, nsrc, op, scale, post);
	case DEV_F16:
		return rc_word_reduce_f16(a, b, nsrc, op, scale, post);
	case DEV_F32:
		return rc_word_reduce_f32(a, b, nsrc, op, scale, post);
	case DEV_F64:
		return rc_word_reduce_f64(a, b, nsrc, op, scale, post);
	case DEV_BF16:
		return rc_word_reduce_bf16(a, b, nsrc, op, scale, post);
	case DEV_F8E4M3:
		return rc_word_reduce_f8e4m3(a, b, nsrc, op, scale, post);
	default:
		return rc_word_reduce_f8e5m2(a, b, nsrc, op, scale, post);
	}
}

/* Sums of a type that is a constant of the kernel (DEV_ONE_PROGRAMS). */
DEV_FN struct rc_pack_job rc_known_job(void)
{
	struct rc_pack_job job;

	job.nsrc = 2;
	job.scale = 0;
	job.post = false;
	return job;
}

DEV_FN uint64_t rc_word_known(uint64_t a, uint64_t b, enum dev_type type)
{
	if (type == DEV_F32)
		return rc_word_combine_f32(rc_known_job(), DEV_SUM, a, b);
	if (type == DEV_F16)
		return rc_word_combine_f16(rc_known_job(), DEV_SUM, a, b);
	return rc_word_combine_bf16(rc_known_job(), DEV_SUM, a, b);
}

DEV_FN struct rc_values rc_values_known(struct rc_values a, struct rc_values b, enum dev_type type)
{
	if (type == DEV_F32)
		return rc_values_combine_f32(rc_known_job(), DEV_SUM, a, b);
	if (type == DEV_F16)
		return rc_values_combine_f16(rc_known_job(), DEV_SUM, a, b);
	return rc_values_combine_bf16(rc_known_job(), DEV_SUM, a, b);
}

DEV_FN struct rc_values rc_values_dispatch(struct rc_values a, struct rc_values b, int nsrc,
					   enum dev_type type, enum dev_op op, uint64_t scale,
					   bool post)
{
	switch (type) {
	case DEV_I8:
		return rc_values_reduce_i8(a, b, nsrc, op, scale, post);
	case DEV_U8:
		return rc_values_reduce_u8(a, b, nsrc, op, scale, post);
	case DEV_I32:
		return rc_values_reduce_i32(a, b, nsrc, op, scale, post);
	case DEV_U32:
		return rc_values_reduce_u32(a, b, nsrc, op, scale, post);
	case DEV_I64:
		return rc_values_reduce_i64(a, b, nsrc, op, scale, post);
	case DEV_U64:
		return rc_values_reduce_u64(a, b, nsrc, op, scale, post);
	case DEV_F16:
		return rc_values_reduce_f16(a, b, nsrc, op, scale, post);
	case DEV_F32:
		return rc_values_reduce_f32(a, b, nsrc, op, scale, post);
	case DEV_F64:
		return rc_values_reduce_f64(a, b, nsrc, op, scale, post);
	case DEV_BF16:
		return rc_values_reduce_bf16(a, b, nsrc, op, scale, post);
	case DEV_F8E4M3:
		return rc_values_reduce_f8e4m3(a, b, nsrc, op, scale, post);
	default:
		return rc_values_reduce_f8e5m2(a, b, nsrc, op, scale, post);
	}
}

/* The data of one line. Bytes that belong to no element are reduced too, and not read. */
DEV_FN void dev_reduce_data(struct dev *d, uint64_t *a, const uint64_t *b, uint32_t bytes,
			    enum dev_type type, enum dev_op op, uint64_t scale, bool post,
			    bool known)
{
	bool divides = post && op == DEV_SUM_POSTDIV;

	if (!b && op != DEV_PREMUL_SUM && !divides)
		return;
	if (known)
		*a = rc_word_known(*a, *b, type);
	else
		*a = rc_word_dispatch(*a, b ? *b : *a, b ? 2 : 1, type, op, scale, divides);
}

/* Not inlined into the five primitives: the switch exists once. */
static __device__ __noinline__ void dev_reduce_copy(struct dev *d, uint32_t thread,
						    uint32_t threads, const void *const *srcs,
						    int nsrc, void *const *dsts, int ndst,
						    uint64_t count, enum dev_type type,
						    enum dev_op op, uint64_t scale, bool post)
{
	struct rc_pack_job job;

	job.src[0] = (const uint8_t *)srcs[0];
	job.src[1] = nsrc == 2 ? (const uint8_t *)srcs[1] : NULL;
	job.dst[0] = (uint8_t *)dsts[0];
	job.dst[1] = ndst == 2 ? (uint8_t *)dsts[1] : NULL;
	job.count = count;
	job.scale = scale;
	job.thread = thread;
	job.threads = threads;
	job.nsrc = nsrc;
	job.ndst = ndst;
	job.post = post && op == DEV_SUM_POSTDIV;
	if (nsrc == 1 && op != DEV_PREMUL_SUM && !job.post)
		rc_pack_copy(job, steps_type_bytes(type));
	else
		rc_pack_dispatch(job, type, op);
}

#endif
