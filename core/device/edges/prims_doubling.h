/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The primitives of recursive doubling (algorithm DOUBLING) in protocol LL. All threads of the
 * group call them in this order for each chunk:
 *
 *	prim_doubling_begin   waits until the chunk's slots are free on all edges
 *	prim_doubling_sum     the input op the elements of all other ranks -> output
 *	prim_direct_end       gives the slots back on all edges (prims_direct.h)
 *
 * The threads do not synchronize between the steps: each takes its own lines through all of them.
 * It takes all its lines through one step before it begins the next one, because a proxy sends a
 * slot only when all lines of it are there. In step k two ranks exchange sums of 2^k ranks. The sum
 * of the lower ranks is the first operand, so that all ranks get the same bits.
 *
 * Errors: as in prims.h. After an abort a thread moves nothing more and continues to the barrier of
 * prim_direct_end, where all threads end.
 */
#ifndef CORE_DEVICE_PRIMS_DOUBLING_H
#define CORE_DEVICE_PRIMS_DOUBLING_H

#include "core/device/edges/prims_direct.h"

DEV_FN int prim_doubling_edges(const struct prim *p)
{
	ASSERT(!(p->block->comm.nranks & (p->block->comm.nranks - 1))); /* a power of two */
	return (int)steps_pat_levels(p->block->comm.nranks);
}

/* Returns false on all threads if the launch was aborted. */
DEV_FN bool prim_doubling_begin(struct prim *p, uint64_t count)
{
	for (int k = (int)p->thread; k < prim_doubling_edges(p); k += (int)p->threads) {
		prim_direct_to(p, k);
		p->head_seen = 0;
		if (!prim_wait_send(p))
			p->stopped = true;
		else if (p->send->fifo)
			prim_ll_fill_fifo(p, count);
	}
	return prim_barrier(p);
}

/* Receives the peer's lines over edge k and reduces them with l->data. Returns false if the launch
 * was aborted. */
DEV_FN bool prim_doubling_recv(struct prim *p, struct prim_lines *l, int k)
{
	const enum dev_op op = p->op == DEV_PREMUL_SUM ? DEV_SUM : p->op;
	const bool high = p->block->comm.rank >> k & 1, last = k + 1 == prim_doubling_edges(p);
	uint64_t received[DEV_LANE_LINES], mine[DEV_LANE_LINES];

	if (!prim_direct_lines_of(p, k, l, received))
		return false;
	for (uint32_t i = 0; i < prim_lines_n(l); i++) {
		mine[i] = l->data[i];
		l->data[i] = high ? received[i] : mine[i];
		received[i] = high ? mine[i] : received[i];
	}
	dev_reduce_data(p->d, l->data, received, l->bytes, p->type, op, p->scale, last, p->known);
	return true;
}

/* Step k for some lines: receives them over edge k - 1, reduces, writes the output, and sends over
 * edge k. In step 0 the sum is this rank's input; it is sent and not written. Returns false if the
 * launch was aborted. */
DEV_FN bool prim_doubling_lines(struct prim *p, const struct prim_move *m, struct prim_lines *l,
				int k)
{
	uint8_t *output = p->output + m->out * p->type_bytes + l->first * DEV_LINE_DATA;

	if (k > 1)
		dev_get_data(p->d, l->data, output, l->bytes, p->type_bytes);
	else
		prim_direct_own(p, m, l);
	if (k && !prim_doubling_recv(p, l, k - 1))
		return false;
	if (k)
		dev_put_data(p->d, output, l->data, l->bytes, p->type_bytes);
	if (k == prim_doubling_edges(p))
		return true;
	prim_direct_to(p, k);
	if (p->thread == 0)
		prim_show(p, true);
	prim_ll_send(p, l);
	return true;
}

DEV_FN void prim_doubling_step(struct prim *p, const struct prim_move *m, int k)
{
	uint64_t bytes = m->count * p->type_bytes, end = prim_ll_count(p, m->count);
	struct prim_lines l;

	for (l.first = prim_ll_first(p, 0); l.first < end && !p->stopped;
	     l.first += prim_ll_stride(p)) {
		l.n = (uint32_t)MIN_OF(end - l.first, (uint64_t)DEV_LANE_LINES);
		l.bytes = (uint32_t)MIN_OF(bytes - l.first * DEV_LINE_DATA,
					   (uint64_t)(l.n * DEV_LINE_DATA));
		l.data[prim_lines_n(&l) - 1] = 0; /* the last one may be short */
		p->stopped = !prim_doubling_lines(p, m, &l, k);
	}
	if (k < prim_doubling_edges(p) && prim_ll_cleans(p)) {
		prim_direct_to(p, k);
		prim_ll_clean(p, m->count);
	}
}

DEV_FN void prim_doubling_sum(struct prim *p, uint64_t at, uint64_t count)
{
	const struct prim_move m = {PRIM_INPUT | PRIM_OUTPUT, 0, at, at, count};

	for (int k = 0; k <= prim_doubling_edges(p); k++)
		prim_doubling_step(p, &m, k);
}

#endif
