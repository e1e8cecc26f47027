/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A body of reduce_types.h: the loops of one type on the host, over tiles of constant size in local
 * memory. The compiler then knows the trip count and that nothing overlaps, and makes vector code
 * even at -O2. Only memcpy touches the user's memory, so alignment and aliasing do not matter.
 */
enum { RC_F(tile_elements) = RC_TILE_BYTES / sizeof(RC_T) };
DOPPEL_STATIC_CHECK(RC_TILE_BYTES % sizeof(RC_T) == 0, "a tile is whole elements");

RC_FN void RC_F(tile_op)(enum dev_op op, RC_T *__restrict__ a, const RC_T *__restrict__ b)
{
	for (int i = 0; i < RC_F(tile_elements); i++)
		a[i] = RC_F(apply)(op, a[i], b[i]);
}

/* a = a op b */
static __attribute__((unused)) void RC_F(tile_combine)(enum dev_op op, RC_T *a, const RC_T *b)
{
	switch (op) {
	case DEV_PROD:
		RC_F(tile_op)(DEV_PROD, a, b);
		break;
	case DEV_MAX:
		RC_F(tile_op)(DEV_MAX, a, b);
		break;
	case DEV_MIN:
		RC_F(tile_op)(DEV_MIN, a, b);
		break;
	default:
		RC_F(tile_op)(DEV_SUM, a, b);
		break;
	}
}

static __attribute__((unused)) void RC_F(tile_scale)(RC_T *a, uint64_t scale)
{
	for (int i = 0; i < RC_F(tile_elements); i++)
		a[i] = RC_F(scale)(a[i], scale);
}

static __attribute__((unused)) void RC_F(tile_divide)(RC_T *a, uint64_t divisor)
{
#if RC_INTEGER
	for (int i = 0; i < RC_F(tile_elements); i++)
		a[i] = RC_F(divide)(a[i], divisor);
#else
	(void)a, (void)divisor;
	doppel_assert_fail("SUM_POSTDIV is for integers", __FILE__, __LINE__);
#endif
}

static __attribute__((unused)) void RC_F(loop)(const struct rc_job *job)
{
	RC_T a[RC_F(tile_elements)] = {0}, b[RC_F(tile_elements)] = {0};
	size_t n = RC_F(tile_elements);

	for (uint64_t at = 0; at < job->count; at += n) {
		if (n > job->count - at)
			n = job->count - at;
		memcpy(a, job->src[0] + at * sizeof(RC_T), n * sizeof(RC_T));
		if (job->op == DEV_PREMUL_SUM)
			RC_F(tile_scale)(a, job->scale);
		if (job->nsrc == 2) {
			memcpy(b, job->src[1] + at * sizeof(RC_T), n * sizeof(RC_T));
			RC_F(tile_combine)(job->op, a, b);
		}
		if (job->post && job->op == DEV_SUM_POSTDIV)
			RC_F(tile_divide)(a, job->scale);
		for (int i = 0; i < job->ndst; i++)
			memcpy(job->dst[i] + at * sizeof(RC_T), a, n * sizeof(RC_T));
	}
}
