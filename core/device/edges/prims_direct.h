/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The primitives of programs that connect every two ranks of a host (algorithms ONE_SHOT and
 * TWO_SHOT), in protocol LL: lines whose flags show that they are filled (prims_ll.h). All threads
 * of the group call the same primitive with the same arguments, in this order for each chunk:
 *
 *	prim_direct_begin    waits until the chunk's slots are free at all other ranks
 *	prim_direct_send     elements of the input -> one other rank; called once for each of them,
 *	                     even without elements
 *	prim_direct_copy     the input -> output, unless it is there
 *	prim_direct_reduce   the input op the elements of all other ranks -> output, and to all
 *	                     other ranks
 *	prim_direct_next     goes to the next slot of the chunk, in programs whose chunks have two
 *	prim_direct_recv     elements of one other rank -> output
 *	prim_direct_end      gives the slots back on all edges, here those to all other ranks
 *
 * A reduction takes the elements in the order of the ranks. All ranks that reduce the same elements
 * therefore get the same bits.
 *
 * All connections of a channel take the same steps. A rank that receives nothing in a step also
 * gives its slot back.
 *
 * Errors: as in prims.h. After an abort a thread moves nothing more and continues to the barrier of
 * prim_direct_end, where all threads end.
 */
#ifndef CORE_DEVICE_PRIMS_DIRECT_H
#define CORE_DEVICE_PRIMS_DIRECT_H

#include "core/device/prims/prims_ll.h"
#include "core/device/prims/prims_part.h"

DEV_FN void prim_direct_to(struct prim *p, int k)
{
	p->send = prim_edge_send(p, (uint32_t)k);
	p->other = (uint32_t)k;
}

DEV_FN void prim_direct_from(struct prim *p, int k)
{
	p->recv = prim_edge_recv(p, (uint32_t)k);
	p->other = (uint32_t)k;
}

/* Returns false on all threads if the launch was aborted. */
DEV_FN bool prim_direct_begin(struct prim *p)
{
	ASSERT(p->block->comm.nranks <= DEV_DIRECT_RANKS);
	for (int k = (int)p->thread; k < prim_others(p); k += (int)p->threads) {
		prim_direct_to(p, k);
		p->head_seen = 0;
		if (!prim_wait_send(p))
			p->stopped = true;
	}
	return prim_barrier(p);
}

DEV_FN void prim_direct_move(struct prim *p, const struct prim_move *m)
{
	if (!p->stopped)
		prim_ll_lines(p, m);
}

DEV_FN void prim_direct_send(struct prim *p, int k, uint64_t in, uint64_t count)
{
	const struct prim_move m = {PRIM_SEND | PRIM_INPUT, 0, in, 0, count};

	prim_direct_to(p, k);
	prim_direct_move(p, &m);
	if (prim_ll_cleans(p))
		prim_ll_clean(p, count);
}

DEV_FN void prim_direct_recv(struct prim *p, int k, uint64_t out, uint64_t count)
{
	const struct prim_move m = {PRIM_RECV | PRIM_OUTPUT, 0, 0, out, count};

	prim_direct_from(p, k);
	prim_direct_move(p, &m);
}

DEV_FN void prim_direct_copy(struct prim *p, uint64_t in, uint64_t out, uint64_t count)
{
	const struct prim_move m = {PRIM_INPUT | PRIM_OUTPUT, 0, in, out, count};

	if (p->input + in * p->type_bytes != p->output + out * p->type_bytes)
		prim_direct_move(p, &m);
}

/* ---- the reduction -------------------------------------------------------------------------- */

/* Reads this rank's lines of the user's input, and applies its factor if it has one. */
DEV_FN void prim_direct_own(struct prim *p, const struct prim_move *m, struct prim_lines *l)
{
	l->data[prim_lines_n(l) - 1] = 0; /* the last one may be short */
	dev_get_data(p->d, l->data, p->input + m->in * p->type_bytes + l->first * DEV_LINE_DATA,
		     l->bytes, p->type_bytes);
	dev_reduce_data(p->d, l->data, NULL, l->bytes, p->type, p->op, p->scale, false, p->known);
}

/* Receives lines over edge k into *received. Returns false if the launch was aborted. */
DEV_FN bool prim_direct_lines_of(struct prim *p, int k, struct prim_lines *l, uint64_t *received)
{
	prim_direct_from(p, k);
	if (!prim_ll_recv(p, l))
		return false;
	if (p->thread == 0)
		prim_show(p, false);
	for (uint32_t i = 0; i < prim_lines_n(l); i++)
		received[i] = (uint32_t)l->line[i].lo | l->line[i].hi << 32;
	return true;
}

/* Reduces l->data, this rank's lines, with those of all other ranks. Each rank has applied its own
 * factor to its input. Returns false if the launch was aborted. */
DEV_FN bool prim_direct_fold(struct prim *p, struct prim_lines *l)
{
	const int32_t me = p->block->comm.rank, n = p->block->comm.nranks;
	const enum dev_op op = p->op == DEV_PREMUL_SUM ? DEV_SUM : p->op;
	uint64_t result[DEV_LANE_LINES] = {0}, next[DEV_LANE_LINES] = {0};

	for (int32_t rank = 0; rank < n; rank++) {
		if (rank != me && !prim_direct_lines_of(p, prim_other_of(p, rank), l, next))
			return false;
		for (uint32_t i = 0; i < prim_lines_n(l) && rank == me; i++)
			next[i] = l->data[i];
		for (uint32_t i = 0; i < prim_lines_n(l) && !rank; i++)
			result[i] = next[i];
		if (rank)
			dev_reduce_data(p->d, result, next, l->bytes, p->type, op, p->scale,
					rank == n - 1, p->known);
	}
	for (uint32_t i = 0; i < prim_lines_n(l); i++)
		l->data[i] = result[i];
	return true;
}

/* Sends the result to all other ranks, in the slot after the one of the elements. */
DEV_FN void prim_direct_share(struct prim *p, struct prim_lines *l)
{
	p->send_step++;
	for (int k = 0; k < prim_others(p); k++) {
		prim_direct_to(p, k);
		if (p->thread == 0)
			prim_show(p, true);
		prim_ll_send(p, l);
	}
	p->send_step--;
}

/* Returns false if the launch was aborted. */
DEV_FN bool prim_direct_reduce_lines(struct prim *p, const struct prim_move *m,
				     struct prim_lines *l)
{
	prim_direct_own(p, m, l);
	if (!prim_direct_fold(p, l))
		return false;
	if (m->flags & PRIM_SEND)
		prim_direct_share(p, l);
	dev_put_data(p->d, p->output + m->out * p->type_bytes + l->first * DEV_LINE_DATA, l->data,
		     l->bytes, p->type_bytes);
	return true;
}

/* `flags`: with PRIM_SEND the result also goes to all other ranks. */
DEV_FN void prim_direct_reduce(struct prim *p, uint32_t flags, uint64_t in, uint64_t out,
			       uint64_t count)
{
	const struct prim_move m = {flags, 0, in, out, count};
	uint64_t bytes = count * p->type_bytes, end = prim_ll_count(p, count);
	struct prim_lines l;

	for (l.first = prim_ll_first(p, 0); l.first < end && !p->stopped;
	     l.first += prim_ll_stride(p)) {
		l.n = (uint32_t)MIN_OF(end - l.first, (uint64_t)DEV_LANE_LINES);
		l.bytes = (uint32_t)MIN_OF(bytes - l.first * DEV_LINE_DATA,
					   (uint64_t)(l.n * DEV_LINE_DATA));
		p->stopped = !prim_direct_reduce_lines(p, &m, &l);
	}
}

/* ---- the chunk's end ------------------------------------------------------------------------ */

/* `sent`: number of elements that prim_direct_reduce sent to all other ranks in the next slot. */
DEV_FN void prim_direct_next(struct prim *p, uint64_t sent)
{
	ASSERT(p->chunk_steps == 2 &&
	       p->send_step % 2 == 0); /* from the first slot to the second */
	p->send_step++;
	p->recv_step++;
	for (int k = 0; k < prim_others(p) && prim_ll_cleans(p); k++) {
		prim_direct_to(p, k);
		prim_ll_clean(p, sent);
	}
}

/* `edges`: the number of edges of the algorithm. Returns false on all threads if the launch was
 * aborted. */
DEV_FN bool prim_direct_end(struct prim *p, int edges)
{
	if (!prim_barrier(p)) /* all lines must be read */
		return false;
	p->send_step++;
	p->recv_step++;
	ASSERT(p->recv_step == p->send_step && p->recv_step % p->chunk_steps == 0);
	for (int k = (int)p->thread; k < edges; k += (int)p->threads)
		dev_store_u64(p->d, prim_edge_recv(p, (uint32_t)k)->head, p->recv_step,
			      SHARED_RELAXED, SHARED_SYSTEM);
	return true;
}

#endif
