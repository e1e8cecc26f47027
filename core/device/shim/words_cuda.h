/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared words and lines of 16 bytes on a GPU: fences, loads, stores and additions of shim.h as
 * PTX. Included by shim_cuda.h, which describes orders and scopes.
 */
#ifndef CORE_DEVICE_WORDS_CUDA_H
#define CORE_DEVICE_WORDS_CUDA_H

/* ---- shared words --------------------------------------------------------------------------- */

/* One instruction for each scope. */
#define DEV_BY_SCOPE(scope, before, after, ...)                                                    \
	do {                                                                                       \
		if ((scope) == SHARED_BLOCK)                                                       \
			asm volatile(before ".cta" after __VA_ARGS__);                             \
		else if ((scope) == SHARED_GPU)                                                    \
			asm volatile(before ".gpu" after __VA_ARGS__);                             \
		else                                                                               \
			asm volatile(before ".sys" after __VA_ARGS__);                             \
	} while (0)

DEV_FN void dev_fence(struct dev *d, enum shared_order o, enum shared_scope s)
{
	if (o == SHARED_SEQ_CST)
		DEV_BY_SCOPE(s, "fence.sc", ";", ::: "memory");
	else if (o != SHARED_RELAXED)
		DEV_BY_SCOPE(s, "fence.acq_rel", ";", ::: "memory");
}

DEV_FN uint32_t dev_load_u32(struct dev *d, const shared_u32 *p, enum shared_order o,
			     enum shared_scope s)
{
	uint32_t v;

	if (o == SHARED_SEQ_CST)
		dev_fence(d, o, s);
	if (o == SHARED_RELAXED)
		DEV_BY_SCOPE(s, "ld.relaxed", ".u32 %0, [%1];", : "=r"(v) : "l"(p) : "memory");
	else
		DEV_BY_SCOPE(s, "ld.acquire", ".u32 %0, [%1];", : "=r"(v) : "l"(p) : "memory");
	return v;
}

DEV_FN uint64_t dev_load_u64(struct dev *d, const shared_u64 *p, enum shared_order o,
			     enum shared_scope s)
{
	uint64_t v;

	if (o == SHARED_SEQ_CST)
		dev_fence(d, o, s);
	if (o == SHARED_RELAXED)
		DEV_BY_SCOPE(s, "ld.relaxed", ".u64 %0, [%1];", : "=l"(v) : "l"(p) : "memory");
	else
		DEV_BY_SCOPE(s, "ld.acquire", ".u64 %0, [%1];", : "=l"(v) : "l"(p) : "memory");
	return v;
}

DEV_FN void dev_store_u32(struct dev *d, shared_u32 *p, uint32_t v, enum shared_order o,
			  enum shared_scope s)
{
	if (o == SHARED_SEQ_CST)
		dev_fence(d, o, s);
	if (o == SHARED_RELAXED)
		DEV_BY_SCOPE(s, "st.relaxed", ".u32 [%0], %1;", ::"l"(p), "r"(v) : "memory");
	else
		DEV_BY_SCOPE(s, "st.release", ".u32 [%0], %1;", ::"l"(p), "r"(v) : "memory");
}

DEV_FN void dev_store_u64(struct dev *d, shared_u64 *p, uint64_t v, enum shared_order o,
			  enum shared_scope s)
{
	if (o == SHARED_SEQ_CST)
		dev_fence(d, o, s);
	if (o == SHARED_RELAXED)
		DEV_BY_SCOPE(s, "st.relaxed", ".u64 [%0], %1;", ::"l"(p), "l"(v) : "memory");
	else
		DEV_BY_SCOPE(s, "st.release", ".u64 [%0], %1;", ::"l"(p), "l"(v) : "memory");
}

DEV_FN uint32_t dev_add_u32(struct dev *d, shared_u32 *p, uint32_t v, enum shared_order o,
			    enum shared_scope s)
{
	uint32_t old;

	if (o == SHARED_SEQ_CST)
		dev_fence(d, o, s);
	if (o == SHARED_RELAXED)
		DEV_BY_SCOPE(s, "atom.relaxed", ".add.u32 %0, [%1], %2;",
			     : "=r"(old)
			     : "l"(p), "r"(v)
			     : "memory");
	else
		DEV_BY_SCOPE(s, "atom.acq_rel", ".add.u32 %0, [%1], %2;",
			     : "=r"(old)
			     : "l"(p), "r"(v)
			     : "memory");
	return old;
}

DEV_FN uint64_t dev_add_u64(struct dev *d, shared_u64 *p, uint64_t v, enum shared_order o,
			    enum shared_scope s)
{
	uint64_t old;

	if (o == SHARED_SEQ_CST)
		dev_fence(d, o, s);
	if (o == SHARED_RELAXED)
		DEV_BY_SCOPE(s, "atom.relaxed", ".add.u64 %0, [%1], %2;",
			     : "=l"(old)
			     : "l"(p), "l"(v)
			     : "memory");
	else
		DEV_BY_SCOPE(s, "atom.acq_rel", ".add.u64 %0, [%1], %2;",
			     : "=l"(old)
			     : "l"(p), "l"(v)
			     : "memory");
	return old;
}

/* ---- lines --------------------------------------------------------------------------------------
 *
 * One instruction of two words of 8 bytes. The model gives each word whole, and no order between
 * the two. A line needs no more than that.
 */

DEV_FN struct v16 dev_load_line16(struct dev *d, const void *p)
{
	struct v16 line;

	asm volatile("ld.volatile.global.v2.u64 {%0, %1}, [%2];"
		     : "=l"(line.lo), "=l"(line.hi)
		     : "l"(p)
		     : "memory");
	return line;
}

DEV_FN void dev_store_line16(struct dev *d, void *p, struct v16 line)
{
	asm volatile("st.volatile.global.v2.u64 [%0], {%1, %2};" ::"l"(p), "l"(line.lo),
		     "l"(line.hi)
		     : "memory");
}

DEV_FN void dev_store_lines(struct dev *d, void *p, const struct v16 *lines, uint32_t n)
{
	(void)n; /* DEV_LANE_LINES */
	dev_store_line16(d, p, *lines);
}

#endif
