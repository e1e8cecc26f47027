/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A body of reduce_types.h: the loops of one type on a GPU, in packs of 16 bytes. All callers
 * inline these functions with a constant `op`.
 */
enum { RC_F(pack_elements) = RC_PACK_BYTES / sizeof(RC_T) };

union RC_F(pack) {
	uint4 v;
	RC_T e[RC_F(pack_elements)];
};
DOPPEL_CHECK_SIZE(union RC_F(pack), RC_PACK_BYTES);

RC_CUDA_FN RC_T RC_F(pack_element)(const struct rc_pack_job &job, enum dev_op op, RC_T a, RC_T b)
{
	if (op == DEV_PREMUL_SUM)
		a = RC_F(scale)(a, job.scale);
	if (job.nsrc == 2)
		a = RC_F(apply)(op, a, b);
#if RC_INTEGER
	if (op == DEV_SUM_POSTDIV && job.post)
		a = RC_F(divide)(a, job.scale);
#endif
	return a;
}

RC_CUDA_FN uint4 RC_F(pack_combine)(const struct rc_pack_job &job, enum dev_op op, uint4 a, uint4 b)
{
	union RC_F(pack) x, y;

	x.v = a;
	y.v = b;
#pragma unroll
	for (int i = 0; i < RC_F(pack_elements); i++)
		x.e[i] = RC_F(pack_element)(job, op, x.e[i], y.e[i]);
	return x.v;
}

/* RC_UNROLL packs from `at`, `stride` apart. All loads come first, so that they overlap. */
RC_CUDA_FN void RC_F(pack_group)(const struct rc_pack_job &job, enum dev_op op, uint64_t at,
				 uint64_t stride)
{
	uint4 a[RC_UNROLL], b[RC_UNROLL];

#pragma unroll
	for (int u = 0; u < RC_UNROLL; u++)
		a[u] = b[u] = rc_pack_load(job.src[0], at + u * stride);
	if (job.nsrc == 2)
#pragma unroll
		for (int u = 0; u < RC_UNROLL; u++)
			b[u] = rc_pack_load(job.src[1], at + u * stride);
#pragma unroll
	for (int u = 0; u < RC_UNROLL; u++)
		a[u] = RC_F(pack_combine)(job, op, a[u], b[u]);
#pragma unroll
	for (int u = 0; u < RC_UNROLL; u++)
		rc_pack_store(job.dst[0], at + u * stride, a[u]);
	if (job.ndst == 2)
#pragma unroll
		for (int u = 0; u < RC_UNROLL; u++)
			rc_pack_store(job.dst[1], at + u * stride, a[u]);
}

/* The rest after whole packs, and everything if a pointer is not aligned to a pack. */
RC_CUDA_FN void RC_F(pack_single)(const struct rc_pack_job &job, enum dev_op op, uint64_t from)
{
	for (uint64_t at = from + job.thread; at < job.count; at += job.threads) {
		RC_T a = ((const RC_T *)job.src[0])[at];
		RC_T b = job.nsrc == 2 ? ((const RC_T *)job.src[1])[at] : a;

		a = RC_F(pack_element)(job, op, a, b);
		((RC_T *)job.dst[0])[at] = a;
		if (job.ndst == 2)
			((RC_T *)job.dst[1])[at] = a;
	}
}

RC_CUDA_FN void RC_F(pack_run)(const struct rc_pack_job &shared_job, enum dev_op op)
{
	const struct rc_pack_job job = shared_job;
	uint64_t done = 0;

	if (rc_pack_aligned(&job)) {
		uint64_t packs = job.count / RC_F(pack_elements);
		uint64_t stride = job.threads, at = job.thread;

		for (; at + (RC_UNROLL - 1) * stride < packs; at += RC_UNROLL * stride)
			RC_F(pack_group)(job, op, at, stride);
		for (; at < packs; at += stride)
			rc_pack_store2(job, at,
				       RC_F(pack_combine)(job, op, rc_pack_load(job.src[0], at),
							  rc_pack_load_second(job, at)));
		done = packs * RC_F(pack_elements);
	}
	RC_F(pack_single)(job, op, done);
}

static __device__ __noinline__ void RC_F(pack_sum)(const struct rc_pack_job &job)
{
	RC_F(pack_run)(job, DEV_SUM);
}

static __device__ __noinline__ void RC_F(pack_prod)(const struct rc_pack_job &job)
{
	RC_F(pack_run)(job, DEV_PROD);
}

static __device__ __noinline__ void RC_F(pack_max)(const struct rc_pack_job &job)
{
	RC_F(pack_run)(job, DEV_MAX);
}

static __device__ __noinline__ void RC_F(pack_min)(const struct rc_pack_job &job)
{
	RC_F(pack_run)(job, DEV_MIN);
}

static __device__ __noinline__ void RC_F(pack_premul_sum)(const struct rc_pack_job &job)
{
	RC_F(pack_run)(job, DEV_PREMUL_SUM);
}

#if RC_INTEGER
static __device__ __noinline__ void RC_F(pack_sum_postdiv)(const struct rc_pack_job &job)
{
	RC_F(pack_run)(job, DEV_SUM_POSTDIV);
}
#endif

RC_CUDA_FN void RC_F(pack_reduce)(const struct rc_pack_job &job, enum dev_op op)
{
	switch (op) {
	case DEV_PROD:
		return RC_F(pack_prod)(job);
	case DEV_MAX:
		return RC_F(pack_max)(job);
	case DEV_MIN:
		return RC_F(pack_min)(job);
	case DEV_PREMUL_SUM:
		return RC_F(pack_premul_sum)(job);
	case DEV_SUM_POSTDIV:
#if RC_INTEGER
		return RC_F(pack_sum_postdiv)(job);
#else
		return rc_pack_no_division();
#endif
	default:
		return RC_F(pack_sum)(job);
	}
}

/* ---- some packs, in registers ---------------------------------------------------------------- */

RC_CUDA_FN struct rc_values RC_F(values_combine)(const struct rc_pack_job &job, enum dev_op op,
						 struct rc_values a, const struct rc_values &b)
{
#pragma unroll
	for (int i = 0; i < RC_VALUES; i++)
		a.v[i] = RC_F(pack_combine)(job, op, a.v[i], b.v[i]);
	return a;
}

static __device__ __noinline__ struct rc_values RC_F(values_reduce)(struct rc_values a,
								    struct rc_values b, int nsrc,
								    enum dev_op op, uint64_t scale,
								    bool post)
{
	struct rc_pack_job job;

	job.nsrc = nsrc;
	job.scale = scale;
	job.post = post;
	switch (op) {
	case DEV_PROD:
		return RC_F(values_combine)(job, DEV_PROD, a, b);
	case DEV_MAX:
		return RC_F(values_combine)(job, DEV_MAX, a, b);
	case DEV_MIN:
		return RC_F(values_combine)(job, DEV_MIN, a, b);
	case DEV_PREMUL_SUM:
		return RC_F(values_combine)(job, DEV_PREMUL_SUM, a, b);
	case DEV_SUM_POSTDIV:
#if RC_INTEGER
		return RC_F(values_combine)(job, DEV_SUM_POSTDIV, a, b);
#else
		rc_pack_no_division();
#endif
	default:
		return RC_F(values_combine)(job, DEV_SUM, a, b);
	}
}

/* ---- one word of 8 bytes, in registers ------------------------------------------------------- */

enum { RC_F(word_elements) = 8 / sizeof(RC_T) };

union RC_F(word) {
	uint64_t v;
	RC_T e[RC_F(word_elements)];
};
DOPPEL_CHECK_SIZE(union RC_F(word), DEV_LINE_DATA);

RC_CUDA_FN uint64_t RC_F(word_combine)(const struct rc_pack_job &job, enum dev_op op, uint64_t a,
				       uint64_t b)
{
	union RC_F(word) x, y;

	x.v = a;
	y.v = b;
#pragma unroll
	for (int i = 0; i < RC_F(word_elements); i++)
		x.e[i] = RC_F(pack_element)(job, op, x.e[i], y.e[i]);
	return x.v;
}

static __device__ __noinline__ uint64_t RC_F(word_reduce)(uint64_t a, uint64_t b, int nsrc,
							  enum dev_op op, uint64_t scale, bool post)
{
	struct rc_pack_job job;

	job.nsrc = nsrc;
	job.scale = scale;
	job.post = post;
	switch (op) {
	case DEV_PROD:
		return RC_F(word_combine)(job, DEV_PROD, a, b);
	case DEV_MAX:
		return RC_F(word_combine)(job, DEV_MAX, a, b);
	case DEV_MIN:
		return RC_F(word_combine)(job, DEV_MIN, a, b);
	case DEV_PREMUL_SUM:
		return RC_F(word_combine)(job, DEV_PREMUL_SUM, a, b);
	case DEV_SUM_POSTDIV:
#if RC_INTEGER
		return RC_F(word_combine)(job, DEV_SUM_POSTDIV, a, b);
#else
		rc_pack_no_division();
#endif
	default:
		return RC_F(word_combine)(job, DEV_SUM, a, b);
	}
}
