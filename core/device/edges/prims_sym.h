/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The primitives of programs on windows (algorithm SYMMETRIC). Every rank has the addresses of the
 * buffers of all ranks of its host, and of a piece of memory of each rank (struct dev_sym_mem).
 * There are no connections: a block loads the head of its part, and nothing else.
 *
 * LL, for short calls. A rank stores lines into the slots that the other ranks have for it.
 * All threads call, for each chunk:
 *
 *	sym_get, sym_push    a thread's lines of the input, and their way to one rank
 *	sym_pull             the lines of one rank, when they are there
 *	sym_fold             the sum of the lines of all ranks
 *	sym_put              lines into the output
 *	sym_step             the end of the chunk: a barrier of the block, the next step
 *
 * A chunk is one step. In each step every rank sends at least one line to every other one. Two
 * banks of slots therefore suffice without credit:
 *
 *	rank A    fills bank 0 (step s)    fills bank 1 (s + 1)    has lines of step s + 1 from B:
 *	                                                           may fill bank 0 (s + 2)
 *	rank B                             has read bank 0         fills bank 1 (s + 1)
 *
 * Between the steps of a launch the barrier of sym_step orders the threads of B. Between launches
 * the stream does.
 *
 * SIMPLE, for longer calls. sym_arrive is a barrier of the blocks of the same number on all ranks:
 *
 *	sym_arrive           at the start: the inputs are complete, the outputs may be written
 *	sym_reduce           loads of all ranks' inputs -> the output
 *	sym_spread           stores to the outputs of all ranks
 *	sym_arrive           at the end: all stores of the ranks are there, and no rank reads on
 *
 * A reduction in LL takes the elements in the order of the ranks. In SIMPLE one rank reduces each
 * element, beginning with its own. All ranks therefore get the same bits.
 *
 * Abort: a thread whose wait is aborted moves nothing more and continues to the next barrier, where
 * all threads end. The block's step is then DEV_SYM_ABORTED.
 */
#ifndef CORE_DEVICE_PRIMS_SYM_H
#define CORE_DEVICE_PRIMS_SYM_H

#include "core/device/prims/prims_ll.h"

/* One thread's view of a work on windows. */
struct sym {
	struct dev *d;
	const struct dev_sym_args *args;
	struct dev_sym_head *mine;
	uint32_t thread, threads;
	int32_t rank, nranks;
	uint64_t step, barriers;
	enum dev_type type;
	enum dev_op op;
	uint32_t type_bytes;
	bool known; /* type and operation are constants of the kernel */
	bool stopped;
	uint64_t scale;
};

DEV_FN int32_t sym_other(const struct sym *s, int32_t k)
{
	return (s->rank + k) % s->nranks;
}

DEV_FN const uint8_t *sym_input(const struct sym *s, uint64_t element)
{
	return (const uint8_t *)s->args->work.send + element * s->type_bytes;
}

DEV_FN uint8_t *sym_output(const struct sym *s, uint64_t element)
{
	return (uint8_t *)s->args->work.recv + element * s->type_bytes;
}

/* ---- lines ---------------------------------------------------------------------------------- */

/* Returns the slot of this step at rank `at` for lines of rank `from`. */
DEV_FN uint8_t *sym_slot(const struct sym *s, int32_t at, int32_t from)
{
	const uint64_t bank = (uint64_t)dev_block(s->d) * DEV_SYM_BANKS + s->step % DEV_SYM_BANKS;

	return (uint8_t *)(s->args->of[at].mem + 1) +
	       (bank * (uint64_t)s->nranks + (uint64_t)from) * DEV_SYM_SLOT;
}

/* Reads lines of the input from an element on, and applies this rank's factor if it has one. */
DEV_FN void sym_get(struct sym *s, uint64_t at, struct prim_lines *l)
{
	l->data[prim_lines_n(l) - 1] = 0; /* the last one may be short */
	dev_get_data(s->d, l->data, sym_input(s, at) + l->first * DEV_LINE_DATA, l->bytes,
		     s->type_bytes);
	dev_reduce_data(s->d, l->data, NULL, l->bytes, s->type, s->op, s->scale, false, s->known);
}

DEV_FN void sym_put(struct sym *s, uint64_t at, const struct prim_lines *l)
{
	dev_put_data(s->d, sym_output(s, at) + l->first * DEV_LINE_DATA, l->data, l->bytes,
		     s->type_bytes);
}

DEV_FN void sym_push(struct sym *s, int32_t to, struct prim_lines *l)
{
	const uint64_t flag = (uint64_t)DEV_LINE_FLAG(s->step) << 32;

	ASSERT(l->first + prim_lines_n(l) <= DEV_SYM_LINES);
	for (uint32_t i = 0; i < prim_lines_n(l); i++) {
		l->line[i].lo = (uint32_t)l->data[i] | flag;
		l->line[i].hi = l->data[i] >> 32 | flag;
	}
	dev_store_lines(s->d, sym_slot(s, to, s->rank) + l->first * DEV_LINE_BYTES, l->line,
			prim_lines_n(l));
}

/* Receives lines of a rank into *data. Returns false if the launch was aborted. */
DEV_FN bool sym_pull(struct sym *s, int32_t from, struct prim_lines *l, uint64_t *data)
{
	struct wait w;

	w.on = sym_slot(s, s->rank, from) + l->first * DEV_LINE_BYTES;
	w.want = DEV_LINE_FLAG(s->step);
	w.mask = l->first; /* the line's number, for reports */
	w.kind = WAIT_LINE16;
	w.bytes = 0;
	w.why = "symmetric: line of a bank";
	w.from.rank = from;
	w.from.channel = (int32_t)dev_block(s->d);
	w.from.step = (int64_t)s->step;
	w.from.object = "kernel that fills the line";
	w.deadline_ns = 0;
	w.idle = false;
	if (!dev_wait_lines(s->d, &w, l->line, prim_lines_n(l)))
		return false;
	for (uint32_t i = 0; i < prim_lines_n(l); i++)
		data[i] = (uint32_t)l->line[i].lo | l->line[i].hi << 32;
	return true;
}

/* Reduces l->data, this rank's lines, with those of all other ranks. Each rank has applied its own
 * factor to its input. Returns false if the launch was aborted. */
DEV_FN bool sym_fold(struct sym *s, struct prim_lines *l)
{
	const enum dev_op op = s->op == DEV_PREMUL_SUM ? DEV_SUM : s->op;
	uint64_t result[DEV_LANE_LINES] = {0}, next[DEV_LANE_LINES] = {0};

	for (int32_t rank = 0; rank < s->nranks; rank++) {
		if (rank != s->rank && !sym_pull(s, rank, l, next))
			return false;
		for (uint32_t i = 0; i < prim_lines_n(l) && rank == s->rank; i++)
			next[i] = l->data[i];
		for (uint32_t i = 0; i < prim_lines_n(l) && !rank; i++)
			result[i] = next[i];
		if (rank)
			dev_reduce_data(s->d, result, next, l->bytes, s->type, op, s->scale,
					rank == s->nranks - 1, s->known);
	}
	for (uint32_t i = 0; i < prim_lines_n(l); i++)
		l->data[i] = result[i];
	return true;
}

/* Stores the step's flag into the rest of the slots: see DEV_SYM_CLEAN_MASK. */
DEV_FN void sym_clean(struct sym *s, uint64_t bytes)
{
	const uint64_t from = DIV_UP(bytes, DEV_LINE_DATA);
	struct prim_lines l;

	for (uint32_t i = 0; i < DEV_LANE_LINES; i++)
		l.data[i] = 0;
	for (l.first = from + (uint64_t)s->thread * DEV_LANE_LINES; l.first < DEV_SYM_LINES;
	     l.first += (uint64_t)s->threads * DEV_LANE_LINES) {
		l.n = (uint32_t)MIN_OF(DEV_SYM_LINES - l.first, (uint64_t)DEV_LANE_LINES);
		for (int32_t k = 1; k < s->nranks; k++)
			sym_push(s, sym_other(s, k), &l);
	}
}

/* Ends a chunk. Returns false on all threads if the launch was aborted. */
DEV_FN bool sym_step(struct sym *s)
{
	s->stopped = dev_barrier_any(s->d, s->stopped);
	s->step++;
	return !s->stopped;
}

/* Calls `lines` for each of the thread's lines, chunk after chunk, with the chunk's first element.
 * Returns false on all threads if the launch was aborted. */
DEV_FN bool sym_chunks(struct sym *s, const struct steps_part *part,
		       bool (*lines)(struct sym *s, uint64_t at, struct prim_lines *l))
{
	const uint64_t chunk = DEV_SYM_DATA / s->type_bytes, end = part->offset + part->count;
	struct prim_lines l;

	for (uint64_t at = part->offset; at < end; at += chunk) {
		const uint64_t bytes = MIN_OF(chunk, end - at) * s->type_bytes;
		const uint64_t n = DIV_UP(bytes, DEV_LINE_DATA);

		for (l.first = (uint64_t)s->thread * DEV_LANE_LINES; l.first < n && !s->stopped;
		     l.first += (uint64_t)s->threads * DEV_LANE_LINES) {
			l.n = (uint32_t)MIN_OF(n - l.first, (uint64_t)DEV_LANE_LINES);
			l.bytes = (uint32_t)MIN_OF(bytes - l.first * DEV_LINE_DATA,
						   (uint64_t)(l.n * DEV_LINE_DATA));
			s->stopped = !lines(s, at, &l);
		}
		if ((s->step & DEV_SYM_CLEAN_MASK) == DEV_SYM_CLEAN_MASK)
			sym_clean(s, bytes);
		if (!sym_step(s))
			return false;
	}
	return true;
}

/* ---- loads and stores ----------------------------------------------------------------------- */

DEV_FN bool sym_wait_rank(struct sym *s, int32_t rank)
{
	struct wait w;

	w.on = &s->mine->arrived[rank];
	w.want = s->barriers;
	w.mask = WAIT_MASK_ALL;
	w.kind = WAIT_GE;
	w.bytes = 8;
	w.why = "symmetric: barrier of the ranks";
	w.from.rank = rank;
	w.from.channel = (int32_t)dev_block(s->d);
	w.from.step = (int64_t)s->barriers;
	w.from.object = "kernel that arrives";
	w.deadline_ns = 0;
	w.idle = false;
	return dev_wait(s->d, &w, NULL);
}

/* A barrier of the blocks of this number on all ranks. Everything that their threads have read and
 * written before it precedes everything after it. Returns false on all threads if the launch was
 * aborted. */
DEV_FN bool sym_arrive(struct sym *s)
{
	const uint32_t block = dev_block(s->d);

	s->barriers++;
	dev_barrier(s->d);
	for (int32_t k = 1 + (int32_t)s->thread; k < s->nranks; k += (int32_t)s->threads)
		dev_store_u64(s->d,
			      &s->args->of[sym_other(s, k)].mem->block[block].arrived[s->rank],
			      s->barriers, SHARED_RELEASE, SHARED_SYSTEM);
	for (int32_t k = 1 + (int32_t)s->thread; k < s->nranks; k += (int32_t)s->threads)
		s->stopped = s->stopped || !sym_wait_rank(s, sym_other(s, k));
	s->stopped = dev_barrier_any(s->d, s->stopped);
	return !s->stopped;
}

/* Elements of one pass of sym_reduce and sym_spread. */
struct sym_range {
	uint64_t in, out, count; /* elements from the start of each rank's buffers */
};

DEV_FN const uint8_t *sym_input_of(const struct sym *s, int32_t rank, uint64_t element)
{
	return s->args->of[rank].send + element * s->type_bytes;
}

DEV_FN uint8_t *sym_output_of(const struct sym *s, int32_t rank, uint64_t element)
{
	return s->args->of[rank].recv + element * s->type_bytes;
}

DEV_FN void sym_pass(struct sym *s, const void *const *srcs, int nsrc, void *const *dsts, int ndst,
		     uint64_t count, enum dev_op op, bool post)
{
	dev_reduce_copy(s->d, s->thread, s->threads, srcs, nsrc, dsts, ndst, count, s->type, op,
			s->scale, post);
}

/* The inputs of all ranks -> this rank's output at `out`, and with `second` also there. The output
 * holds the sum between the passes, so this rank's own input comes first: in place it is the
 * output. The first source of a pass is multiplied by the factor, which is the same on all ranks.
 * Different threads may have an element in two passes. */
DEV_FN void sym_reduce(struct sym *s, const struct sym_range *r, uint8_t *out, uint8_t *second)
{
	const uint8_t *sum = sym_input_of(s, s->rank, r->in);
	const void *srcs[2] = {sum, NULL};
	void *dsts[2] = {out, second};

	if (s->op == DEV_PREMUL_SUM) {
		sym_pass(s, srcs, 1, dsts, 1, r->count, s->op, false);
		sum = out;
	}
	for (int32_t k = 1; k < s->nranks; k++) {
		const bool last = k == s->nranks - 1;

		if (sum == out)
			dev_barrier(s->d);
		srcs[0] = sym_input_of(s, sym_other(s, k), r->in);
		srcs[1] = sum;
		sym_pass(s, srcs, 2, dsts, last && second ? 2 : 1, r->count, s->op, last);
		sum = out;
	}
}

/* From `src` to the outputs of the ranks that are from...nranks - 1 after this one, two at a
 * time. */
DEV_FN void sym_spread(struct sym *s, const struct sym_range *r, const uint8_t *src, int32_t from)
{
	for (int32_t k = from; k < s->nranks; k += 2) {
		const bool two = k + 1 < s->nranks;
		const void *srcs[1] = {src};
		void *dsts[2] = {sym_output_of(s, sym_other(s, k), r->out),
				 two ? sym_output_of(s, sym_other(s, k + 1), r->out) : NULL};

		sym_pass(s, srcs, 1, dsts, two ? 2 : 1, r->count, DEV_SUM, false);
	}
}

#endif
