/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The primitives of programs of PAT, parallel aggregated trees. Each rank's block is the root of a
 * binomial tree of all ranks. In an all-gather the block goes down its tree, in a reduce-scatter
 * the sums come up. All trees have the same shape and run side by side: a slot takes the blocks of
 * several trees that cross the same connection in the same step (steps.h, BINOMIAL). The protocol
 * is SIMPLE, and a chunk is one slot. All threads of the group call the same primitive with the
 * same arguments.
 *
 *	prim_pat_spread   a slot, or blocks that the rank has -> output and slots
 *	prim_pat_reduce   input op slots -> a slot, or output
 *
 * A reduction takes the rank's own input first, and then the sums that come over the levels, from
 * the lowest level on. Over level k comes the sum of the rank 2^k before this one.
 *
 * There is no memory besides the slots. The blocks that a rank has in an all-gather are in its
 * output. A sum that is not complete is in the slot of its last part. The slot is this rank's own
 * memory, and its sender gets it back only with the head, which is posted when all blocks of the
 * slot are used. At most one slot of each level waits for that, and the sender may be seven steps
 * ahead.
 *
 * Errors: as in prims.h.
 */
#ifndef CORE_DEVICE_PRIMS_PAT_H
#define CORE_DEVICE_PRIMS_PAT_H

#include "core/device/edges/prims_pat_part.h"

/* ---- one level of several ------------------------------------------------------------------- */

DEV_FN void prim_pat_from(struct prim *p, const struct prim_pat *t, uint32_t level)
{
	p->recv = prim_edge_recv(p, level);
	p->recv_step = p->recv->step + prim_pat_done(p, t, level);
	p->other = level;
	p->tail_seen = 0;
}

DEV_FN void prim_pat_to(struct prim *p, const struct prim_pat *t, uint32_t level)
{
	p->send = prim_edge_send(p, level);
	p->send_step = p->send->step + prim_pat_done(p, t, level);
	p->other = level;
	p->head_seen = 0;
}

/* Waits for data and credit. For data, each thread waits on every threads-th level, from its own
 * number on. For credit, the next `levels` threads wait in the same way. */
DEV_FN bool prim_pat_wait(struct prim *p, const struct prim_pat *t)
{
	uint32_t sender = (p->thread + p->threads - t->s.levels % p->threads) % p->threads;

	for (uint32_t k = p->thread; k < t->s.levels && !p->stopped; k += p->threads) {
		if (!(t->from >> k & 1))
			continue;
		prim_pat_from(p, t, k);
		p->stopped = !prim_wait_recv(p);
	}
	for (uint32_t k = sender; k < t->s.levels && !p->stopped; k += p->threads) {
		if (!(t->to >> k & 1))
			continue;
		prim_pat_to(p, t, k);
		p->stopped = !prim_wait_send(p);
	}
	return prim_barrier(p);
}

/* Called by one thread, after the barrier that ends the move. */
DEV_FN void prim_pat_post(struct prim *p, const struct prim_pat *t)
{
	for (uint32_t k = 0; k < t->s.levels; k++) {
		if (!(t->to >> k & 1))
			continue;
		prim_pat_to(p, t, k);
		prim_show(p, true);
		if (p->send->fifo)
			prim_fill_fifo(
				p, p->send,
				(uint32_t)(prim_pat_blocks(p, t, k) * t->count * p->type_bytes));
	}
	dev_fence(p->d, SHARED_RELEASE, SHARED_SYSTEM);
	for (uint32_t k = 0; k < t->s.levels; k++) {
		if (t->ends >> k & 1) {
			prim_pat_from(p, t, k);
			dev_store_u64(p->d, p->recv->head, p->recv_step + 1, SHARED_RELAXED,
				      SHARED_SYSTEM);
		}
		if (t->to >> k & 1) {
			prim_pat_to(p, t, k);
			dev_store_u64(p->d, p->send->tail, p->send_step + 1, SHARED_RELAXED,
				      SHARED_SYSTEM);
		}
	}
}

/* ---- the places of blocks -------------------------------------------------------------------- */

DEV_FN uint8_t *prim_pat_in_slot(const struct prim *p, const struct prim_pat *t, uint8_t *slot,
				 uint32_t level, uint32_t offset)
{
	return slot + prim_pat_place(t, level, offset) * t->count * p->type_bytes;
}

DEV_FN uint8_t *prim_pat_received(struct prim *p, const struct prim_pat *t, uint32_t level,
				  uint32_t offset)
{
	prim_pat_from(p, t, level);
	ASSERT((prim_pat_place(t, level, offset) + 1) * t->count * p->type_bytes <=
	       p->recv->step_bytes[DEV_SIMPLE]);
	return prim_pat_in_slot(p, t, prim_slot(p->recv, DEV_SIMPLE, p->recv_step), level, offset);
}

DEV_FN uint8_t *prim_pat_sent(struct prim *p, const struct prim_pat *t, uint32_t level,
			      uint32_t offset)
{
	prim_pat_to(p, t, level);
	return prim_pat_in_slot(p, t, prim_slot(p->send, DEV_SIMPLE, p->send_step), level, offset);
}

/* Returns the offset in bytes of the block's chunk, in a buffer of one block for each rank. The
 * block's owner is before this rank in an all-gather, and after it in a reduce-scatter. */
DEV_FN uint64_t prim_pat_block_at(const struct prim *p, const struct prim_pat *t, uint32_t offset)
{
	uint32_t n = (uint32_t)p->block->comm.nranks;
	uint32_t owner = (uint32_t)p->block->comm.rank + (t->reduces ? offset : n - offset);

	ASSERT(offset < n);
	owner -= owner >= n ? n : 0;
	return ((uint64_t)owner * p->count + t->at) * p->type_bytes;
}

/* ---- the threads of a block ------------------------------------------------------------------ */

/* The threads that move a block together: a warp if there are enough blocks for all warps, else all
 * threads. */
struct prim_pat_team {
	uint32_t thread, threads;
	uint32_t first, stride; /* offsets of its blocks */
};

DEV_FN struct prim_pat_team prim_pat_team(const struct prim *p, const struct prim_pat *t)
{
	uint32_t n = (uint32_t)p->block->comm.nranks, warps = p->threads / DEV_WARP_WIDTH;
	struct prim_pat_team team = {p->thread, p->threads, t->first, t->stride};

	if (warps > 1 && (n - 1 - t->first) / t->stride + 1 >= warps) {
		team.thread = p->thread % DEV_WARP_WIDTH;
		team.threads = DEV_WARP_WIDTH;
		team.first = t->first + p->thread / DEV_WARP_WIDTH * t->stride;
		team.stride = t->stride * warps;
	}
	return team;
}

/* ---- the primitives ------------------------------------------------------------------------- */

/* Copies one block from its source to its destinations, two destinations at a time. */
DEV_FN void prim_pat_spread_block(struct prim *p, const struct prim_pat *t,
				  const struct prim_pat_team *team, uint32_t offset)
{
	uint8_t *output = p->output + prim_pat_block_at(p, t, offset);
	const uint8_t *input = p->input + t->at * p->type_bytes;
	/* the first step of a loop has only this rank's block */
	bool own = !t->from && t->stride >= (uint32_t)p->block->comm.nranks;
	const void *src = t->from ? prim_pat_received(p, t, prim_pat_level(t->from), offset)
			  : own   ? input
				  : output;
	uint32_t to = t->to & prim_pat_below(p, offset, t->s.levels);
	void *dst[2];
	int n = 0;

	if (src != output)
		dst[n++] = output;
	for (uint32_t k = 0; k <= t->s.levels; k++) {
		if (to >> k & 1)
			dst[n++] = prim_pat_sent(p, t, k, offset);
		if (n < 2 && (!n || k < t->s.levels))
			continue;
		dev_reduce_copy(p->d, team->thread, team->threads, &src, 1, dst, n, t->count,
				p->type, DEV_SUM, p->scale, false);
		n = 0;
	}
}

/* Receives from at most one level. */
DEV_FN bool prim_pat_spread(struct prim *p, const struct prim_pat *t)
{
	const struct prim_pat_team team = prim_pat_team(p, t);

	ASSERT(!(t->from & (t->from - 1)));
	if (!prim_pat_wait(p, t))
		return false;
	for (uint32_t o = team.first; o < (uint32_t)p->block->comm.nranks; o += team.stride)
		prim_pat_spread_block(p, t, &team, o);
	(void)prim_barrier(p);
	if (p->thread == prim_poster(p))
		prim_pat_post(p, t);
	return true;
}

/* One pass of one block: adds the sum that came over level `pass`. A block that receives no sum has
 * only pass 0. */
DEV_FN void prim_pat_reduce_block(struct prim *p, const struct prim_pat *t,
				  const struct prim_pat_team *team, uint32_t offset, uint32_t pass)
{
	uint32_t levels = t->from & prim_pat_below(p, offset, t->s.levels);
	bool last = !(levels >> pass >> 1), adds = levels >> pass & 1;
	const void *src[2];
	void *dst;

	if (pass && !adds)
		return;
	src[0] = pass ? prim_pat_received(p, t, pass - 1, offset)
		      : p->input + prim_pat_block_at(p, t, offset);
	src[1] = adds ? prim_pat_received(p, t, pass, offset) : NULL;
	if (!last)
		dst = prim_pat_received(p, t, pass, offset);
	else if (t->to)
		dst = prim_pat_sent(p, t, prim_pat_level(t->to), offset);
	else
		dst = p->output + t->at * p->type_bytes;
	dev_reduce_copy(p->d, team->thread, team->threads, src, adds ? 2 : 1, &dst, 1, t->count,
			p->type, pass && p->op == DEV_PREMUL_SUM ? DEV_SUM : p->op, p->scale,
			last && !t->to);
}

/* Receives from any number of levels, which are the lowest ones, and sends to at most one. */
DEV_FN bool prim_pat_reduce(struct prim *p, const struct prim_pat *t)
{
	const struct prim_pat_team team = prim_pat_team(p, t);
	uint32_t pass = 0;

	ASSERT(!(t->from & (t->from + 1)) && !(t->to & (t->to - 1)));
	if (!prim_pat_wait(p, t))
		return false;
	do {
		for (uint32_t o = team.first; o < (uint32_t)p->block->comm.nranks; o += team.stride)
			prim_pat_reduce_block(p, t, &team, o, pass);
		(void)prim_barrier(p);
	} while (t->from >> ++pass & 1);
	if (p->thread == prim_poster(p))
		prim_pat_post(p, t);
	return true;
}

#endif
