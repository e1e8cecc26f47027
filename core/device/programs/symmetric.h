/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The programs on windows (prims_sym.h), with NCCL's names of such kernels. `part` is the block's
 * share of the work; in an all-gather, a reduce-scatter and an all-to-all, of one rank's block.
 *
 *	all_reduce_sym_ll       AGxLL_R         lines to all ranks; each reduces all lines
 *	all_gather_sym_ll       LL              lines to all ranks
 *	reduce_scatter_sym_ll   LL              lines of each rank's block to it
 *	all_to_all_sym_ll       LL              lines of each rank's block to it
 *	all_reduce_sym_st       RSxLD_AGxST     loads of all inputs, stores of sums to all outputs
 *	all_gather_sym_st       ST              stores to all outputs
 *	reduce_scatter_ld       LD              loads of all inputs
 *	all_to_all_sym_st       ST              stores of each rank's block to its output
 *
 * Each returns false on all threads if the launch was aborted.
 */
#ifndef CORE_DEVICE_PROGRAMS_SYMMETRIC_H
#define CORE_DEVICE_PROGRAMS_SYMMETRIC_H

#include "core/device/edges/prims_sym.h"

/* Returns the first element of a rank's block. */
DEV_FN uint64_t sym_block_at(const struct sym *s, int32_t rank)
{
	return (uint64_t)rank * s->args->work.count;
}

/* ---- LL ------------------------------------------------------------------------------------- */

DEV_FN bool all_reduce_sym_lines(struct sym *s, uint64_t at, struct prim_lines *l)
{
	sym_get(s, at, l);
	for (int32_t k = 1; k < s->nranks; k++)
		sym_push(s, sym_other(s, k), l);
	if (!sym_fold(s, l))
		return false;
	sym_put(s, at, l);
	return true;
}

DEV_FN bool all_reduce_sym_ll(struct sym *s, const struct steps_part *part)
{
	return sym_chunks(s, part, all_reduce_sym_lines);
}

DEV_FN bool all_gather_sym_lines(struct sym *s, uint64_t at, struct prim_lines *l)
{
	sym_get(s, at, l);
	for (int32_t k = 1; k < s->nranks; k++)
		sym_push(s, sym_other(s, k), l);
	if (sym_output(s, sym_block_at(s, s->rank)) != sym_input(s, 0))
		sym_put(s, sym_block_at(s, s->rank) + at, l);
	for (int32_t k = 1; k < s->nranks; k++) {
		if (!sym_pull(s, sym_other(s, k), l, l->data))
			return false;
		sym_put(s, sym_block_at(s, sym_other(s, k)) + at, l);
	}
	return true;
}

DEV_FN bool all_gather_sym_ll(struct sym *s, const struct steps_part *part)
{
	return sym_chunks(s, part, all_gather_sym_lines);
}

DEV_FN bool reduce_scatter_sym_lines(struct sym *s, uint64_t at, struct prim_lines *l)
{
	for (int32_t k = 1; k < s->nranks; k++) {
		sym_get(s, sym_block_at(s, sym_other(s, k)) + at, l);
		sym_push(s, sym_other(s, k), l);
	}
	sym_get(s, sym_block_at(s, s->rank) + at, l);
	if (!sym_fold(s, l))
		return false;
	sym_put(s, at, l);
	return true;
}

DEV_FN bool reduce_scatter_sym_ll(struct sym *s, const struct steps_part *part)
{
	return sym_chunks(s, part, reduce_scatter_sym_lines);
}

/* In place a thread writes only the lines of the blocks that it has read before. */
DEV_FN bool all_to_all_sym_lines(struct sym *s, uint64_t at, struct prim_lines *l)
{
	const uint64_t own = sym_block_at(s, s->rank) + at;

	for (int32_t k = 1; k < s->nranks; k++) {
		sym_get(s, sym_block_at(s, sym_other(s, k)) + at, l);
		sym_push(s, sym_other(s, k), l);
	}
	if (sym_output(s, own) != sym_input(s, own)) {
		sym_get(s, own, l);
		sym_put(s, own, l);
	}
	for (int32_t k = 1; k < s->nranks; k++) {
		if (!sym_pull(s, sym_other(s, k), l, l->data))
			return false;
		sym_put(s, sym_block_at(s, sym_other(s, k)) + at, l);
	}
	return true;
}

DEV_FN bool all_to_all_sym_ll(struct sym *s, const struct steps_part *part)
{
	return sym_chunks(s, part, all_to_all_sym_lines);
}

/* ---- loads and stores ----------------------------------------------------------------------- */

/* Each rank reduces a piece of the block's share, and stores it to all ranks. */
DEV_FN bool all_reduce_sym_st(struct sym *s, const struct steps_part *part)
{
	const uint64_t each =
		ALIGN_UP(DIV_UP(part->count, (uint64_t)s->nranks), 16 / s->type_bytes);
	const uint64_t from = MIN_OF((uint64_t)s->rank * each, part->count);
	const struct sym_range r = {part->offset + from, part->offset + from,
				    MIN_OF(each, part->count - from)};
	uint8_t *out = sym_output_of(s, s->rank, r.out);

	if (!sym_arrive(s))
		return false;
	sym_reduce(s, &r, out, sym_output_of(s, sym_other(s, 1), r.out));
	if (s->nranks > 2)
		dev_barrier(s->d);
	sym_spread(s, &r, out, 2);
	return sym_arrive(s);
}

DEV_FN bool all_gather_sym_st(struct sym *s, const struct steps_part *part)
{
	const struct sym_range r = {part->offset, sym_block_at(s, s->rank) + part->offset,
				    part->count};
	const uint8_t *src = sym_input(s, r.in);

	if (!sym_arrive(s))
		return false;
	sym_spread(s, &r, src, sym_output(s, r.out) == src ? 1 : 0);
	return sym_arrive(s);
}

DEV_FN bool reduce_scatter_ld(struct sym *s, const struct steps_part *part)
{
	const struct sym_range r = {sym_block_at(s, s->rank) + part->offset, part->offset,
				    part->count};

	if (!sym_arrive(s))
		return false;
	sym_reduce(s, &r, sym_output(s, r.out), NULL);
	return sym_arrive(s);
}

/* Never in place: a rank would overwrite blocks that the other one has not sent. */
DEV_FN bool all_to_all_sym_st(struct sym *s, const struct steps_part *part)
{
	if (!sym_arrive(s))
		return false;
	for (int32_t k = 0; k < s->nranks; k++) {
		const int32_t to = sym_other(s, k);
		const void *srcs[1] = {sym_input(s, sym_block_at(s, to) + part->offset)};
		void *dsts[1] = {sym_output_of(s, to, sym_block_at(s, s->rank) + part->offset)};

		sym_pass(s, srcs, 1, dsts, 1, part->count, DEV_SUM, false);
	}
	return sym_arrive(s);
}

#endif
