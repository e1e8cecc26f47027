/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One work of a collective on one channel: what host and device must agree on, one thread's view of
 * it, the connections and steps of its algorithm, and the program that its row names. Included by
 * kernels.c.
 */
#ifndef CORE_DEVICE_RUN_WORK_H
#define CORE_DEVICE_RUN_WORK_H

#include "core/device/prims.h"

#define DEV_PROGRAM_FILES
#include "core/device/programs.h"

/* A kernel has the programs of one family, and of one protocol. */
enum dev_family { DEV_FAMILY_FLAT, DEV_FAMILY_TREE, DEV_FAMILY_PAT };

/* What is constant in a kernel's works. */
struct dev_known {
	bool alone; /* the kernel has one program */
	enum dev_proto proto;
	enum dev_family family; /* if not */
	int32_t type, op;       /* below 0: each work's */
};

DEV_FN enum dev_family dev_family_of(enum dev_algo algo)
{
	return algo == DEV_TREE  ? DEV_FAMILY_TREE
	       : algo == DEV_PAT ? DEV_FAMILY_PAT
				 : DEV_FAMILY_FLAT;
}

/* ---- before the first chunk ------------------------------------------------------------------ */

/* The factor or divisor. A factor in memory may be one that the program has just written in the
 * same stream. */
DEV_FN uint64_t dev_work_scale(struct dev *d, const struct dev_work *w)
{
	return w->scale_in_memory ? dev_get_bits(d, (const void *)(uintptr_t)w->scale,
						 steps_type_bytes(w->type))
				  : w->scale;
}

/* What host and device must agree on. Checked where a FIFO is, too (prim.h). */
#if DEV_CHECK_FIFO
DEV_FN void dev_work_check(struct dev *d, const struct dev_block *b, const struct dev_work *w)
{
	bool fits = w->kind == DEV_WORK_COLLECTIVE && w->type < DEV_TYPE_COUNT &&
		    w->op < DEV_OP_COUNT && b->comm.nranks >= 2 && w->root >= -1 &&
		    w->root < b->comm.nranks && w->nwarps && w->nwarps <= dev_warps(d);

	if (!fits)
		dev_trap(d, "dev_collective: this work is not one that the kernel can run");
}

/* A chunk fits the slots that it takes. */
DEV_FN void dev_chunk_check(const struct prim *p, const struct steps_part *part,
			    const struct dev_program_row *row)
{
	uint64_t bytes = (uint64_t)part->chunk * p->type_bytes;
	uint32_t step_bytes =
		MIN_OF(p->recv->step_bytes[row->proto], p->send->step_bytes[row->proto]);

	if (part->count && (!bytes || bytes % 16 || bytes > steps_chunk_bytes(row, step_bytes)))
		dev_trap(p->d, "dev_collective: a chunk does not fit its slots");
}
#else
#define dev_work_check(d, b, w)       ((void)0)
#define dev_chunk_check(p, part, row) ((void)0)
#endif

DEV_FN void dev_prim_init(struct prim *p, struct dev *d, struct dev_block *b,
			  const struct dev_work *w, struct dev_known known)
{
	prim_init(p, d, b, w);
	prim_group_set(p, 0, (uint32_t)w->nwarps * DEV_WARP_WIDTH, 1);
	p->type = (enum dev_type)(known.type < 0 ? w->type : known.type);
	p->op = (enum dev_op)(known.op < 0 ? w->op : known.op);
	p->type_bytes = steps_type_bytes(p->type);
	p->alone = known.alone;
	p->known = known.op >= 0;
	p->scale = dev_work_scale(d, w);
	p->count = w->count;
}

/* ---- connections and steps of a work --------------------------------------------------------- */

/* Do results of a work go straight into outputs? Both ends of a connection have the same rule.
 * Short ones do not: to learn the address takes longer than to copy. Nor do broadcasts: their ranks
 * follow each other, and a rank that waits for the next one's address waits until that one has
 * ended the work before (docs/figures.md). */
DEV_FN bool dev_ring_puts(const struct steps_part *part, const struct dev_program_row *row,
			  const struct dev_comm *comm, uint32_t type_bytes)
{
	const uint64_t bytes = part->count * type_bytes, others = (uint64_t)comm->nranks - 1;

	if (row->proto != DEV_SIMPLE || !bytes)
		return false;
	switch (row->func) {
	case DEV_ALL_REDUCE:
		return bytes * others / (uint64_t)comm->nranks >= comm->result_least;
	case DEV_ALL_GATHER:
		return bytes * others >= comm->result_least;
	default:
		return false;
	}
}

DEV_FN void dev_ring_begin(struct prim *p, const struct steps_part *part,
			   const struct dev_program_row *row)
{
	p->recv = &p->block->channel.ring_recv;
	p->send = &p->block->channel.ring_send;
	p->recv_step = ALIGN_UP(p->recv->step, p->chunk_steps);
	p->send_step = ALIGN_UP(p->send->step, p->chunk_steps);
	/* Nothing comes in the steps that are left out: the sender need not wait until they are
	 * read. */
	if (p->recv_step != p->recv->step && part->count && p->thread == prim_poster(p))
		dev_store_u64(p->d, p->recv->head, p->recv_step, SHARED_RELEASE, SHARED_SYSTEM);
	p->puts = dev_ring_puts(part, row, &p->block->comm, p->type_bytes);
	if (p->puts)
		prim_result_begin(p);
}

/* The block's copies have the steps for the next work; at the end of the launch they go to memory.
 * A work that did not use the connection had no barrier: other threads may still read the step. */
DEV_FN void dev_ring_end(struct prim *p)
{
	struct dev_channel *c = &p->block->channel;
	uint64_t recv, send;

	if (p->thread != 0)
		return;
	recv = steps_kept(c->ring_recv.step, p->recv_step, p->chunk_steps);
	send = steps_kept(c->ring_send.step, p->send_step, p->chunk_steps);
	if (recv != c->ring_recv.step)
		c->ring_recv.step = recv;
	if (send != c->ring_send.step)
		c->ring_send.step = send;
}

/* The block's copy of an end. */
DEV_FN struct dev_conn *dev_direct_copy(struct dev_block *b, uint32_t end)
{
	return end % 2 ? &b->direct_send[end / 2] : &b->direct_recv[end / 2];
}

DEV_FN struct dev_conn *dev_direct_conn(const struct dev_direct *direct, int channel, uint32_t end)
{
	return direct->conns + channel + (int32_t)end * direct->channels;
}

/* By the warps first, first + step... of them all. A barrier follows. */
DEV_FN void dev_direct_load(struct dev *d, struct dev_block *b, const struct dev_direct *direct,
			    int channel, uint32_t first, uint32_t step)
{
	for (uint32_t end = first; end < direct->ends; end += step)
		dev_copy_in_warp(d, dev_direct_copy(b, end), dev_direct_conn(direct, channel, end),
				 sizeof(struct dev_conn));
}

/* A kernel of one program has loaded them with its channel (kernels.c). */
DEV_FN void dev_direct_begin(struct prim *p)
{
	struct dev_block *b = p->block;
	int channel = b->channel.ring_recv.channel;

	if (channel >= b->comm.direct.channels || b->comm.nranks > DEV_DIRECT_RANKS)
		dev_trap(p->d, "dev_collective: the channel does not connect every two ranks");
	if (!p->alone) {
		dev_direct_load(p->d, b, &b->comm.direct, channel, p->thread / DEV_WARP_WIDTH,
				p->threads / DEV_WARP_WIDTH);
		prim_barrier(p);
	}
	p->recv = &b->direct_recv[0];
	p->send = &b->direct_send[0];
	p->recv_step = p->send_step = ALIGN_UP(p->recv->step, p->chunk_steps);
}

DEV_FN void dev_direct_end(struct prim *p)
{
	struct dev_block *b = p->block;

	for (uint32_t end = p->thread; end < b->comm.direct.ends && !p->stopped;
	     end += p->threads) {
		struct dev_conn *c = dev_direct_copy(b, end);

		uint64_t step = steps_kept(c->step, p->recv_step, p->chunk_steps);

		if (step == c->step)
			continue; /* without a barrier: other threads may still read it */
		c->step = step;
		prim_conn_save(p->d,
			       dev_direct_conn(&b->comm.direct, b->channel.ring_recv.channel, end),
			       c);
	}
}

/* One end of the rank's links: those that are received over first. NULL: the rank has no such
 * link. */
DEV_FN struct dev_conn *dev_tree_conn(const struct prim *p, uint32_t end)
{
	const struct dev_tree *tree = &p->block->channel.tree;
	uint32_t link = end % DEV_TREE_LINKS;
	int32_t number = end < DEV_TREE_LINKS ? tree->recv[link] : tree->send[link];

	return number < 0 ? NULL : p->block->comm.conns + number;
}

DEV_FN void dev_tree_begin(struct prim *p)
{
	struct dev_block *b = p->block;
	uint32_t links = prim_tree_links(p), first = prim_tree_next(links, 0);

	if (first == DEV_TREE_LINKS)
		dev_trap(p->d, "dev_tree: the channel has no tree");
	for (uint32_t end = p->thread / DEV_WARP_WIDTH; end < 2 * DEV_TREE_LINKS;
	     end += p->threads / DEV_WARP_WIDTH) {
		uint32_t link = end % DEV_TREE_LINKS;

		if (prim_tree_has(links, link))
			dev_copy_in_warp(p->d,
					 end < DEV_TREE_LINKS ? &b->tree_recv[link]
							      : &b->tree_send[link],
					 dev_tree_conn(p, end), sizeof(struct dev_conn));
	}
	prim_barrier(p);
	p->recv = &b->tree_recv[first];
	p->send = &b->tree_send[first];
	p->recv_step = p->send_step = 0;
}

/* They go to memory: the next work reads them there. */
DEV_FN void dev_tree_end(struct prim *p, const struct steps_part *part, enum dev_pattern pattern)
{
	const struct dev_block *b = p->block;
	uint32_t toward = prim_tree_toward(p), links = prim_tree_links(p);

	for (uint32_t end = p->thread; end < 2 * DEV_TREE_LINKS && !p->stopped; end += p->threads) {
		uint32_t link = end % DEV_TREE_LINKS;
		bool sends = end >= DEV_TREE_LINKS;
		struct steps_count n = steps_of_link(pattern, part, link, toward);
		uint64_t step =
			sends ? b->tree_send[link].step + n.send : b->tree_recv[link].step + n.recv;

		if (prim_tree_has(links, link) && (sends ? n.send : n.recv))
			dev_copy_out(p->d, &dev_tree_conn(p, end)->step, &step, sizeof step);
	}
}

/* One end of the connections of PAT: receiving and sending ends in turns, level after level. */
DEV_FN struct dev_conn *dev_pat_conn(const struct prim *p, uint32_t end)
{
	const struct dev_comm *comm = &p->block->comm;
	int32_t number = (end % 2 ? comm->pat.send : comm->pat.recv)[end / 2];

	return comm->conns + number + p->block->channel.ring_recv.channel;
}

DEV_FN void dev_pat_begin(struct prim *p)
{
	struct dev_block *b = p->block;
	uint32_t ends = 2 * steps_pat_levels(b->comm.nranks);

	if (b->channel.ring_recv.channel >= b->comm.pat_channels || ends > 2 * DEV_PAT_LEVELS)
		dev_trap(p->d, "dev_pat: the channel has no connections of PAT");
	for (uint32_t i = p->thread / DEV_WARP_WIDTH; i < ends; i += p->threads / DEV_WARP_WIDTH)
		dev_copy_in_warp(p->d, i % 2 ? &b->pat_send[i / 2] : &b->pat_recv[i / 2],
				 dev_pat_conn(p, i), sizeof(struct dev_conn));
	prim_barrier(p);
	p->recv = &b->pat_recv[0];
	p->send = &b->pat_send[0];
	p->recv_step = p->send_step = 0;
}

/* They go to memory: the next work reads them there. */
DEV_FN void dev_pat_end(struct prim *p, const struct steps_part *part)
{
	const struct dev_block *b = p->block;
	uint32_t ends = 2 * steps_pat_levels(b->comm.nranks);

	for (uint32_t i = p->thread; i < ends && !p->stopped; i += p->threads) {
		uint64_t step = (i % 2 ? b->pat_send : b->pat_recv)[i / 2].step +
				steps_of_level(part, b->comm.nranks, i / 2);

		dev_copy_out(p->d, &dev_pat_conn(p, i)->step, &step, sizeof step);
	}
}

/* ---- running a work -------------------------------------------------------------------------- */

/* The program's row is a constant for the compiler: what other rows would need is not there. */
#define DEV_RUN_ROW(id, function)                                                                  \
	do {                                                                                       \
		const struct dev_program_row row = steps_program(id);                              \
		dev_row_begin(p, part, &row);                                                      \
		function(p, part);                                                                 \
		dev_row_end(p, part, &row);                                                        \
	} while (0)

DEV_FN void dev_row_begin(struct prim *p, const struct steps_part *part,
			  const struct dev_program_row *row)
{
	p->proto = row->proto;
	p->chunk_steps = row->chunk_steps;
	p->slice_steps = row->slice_steps;
	if (row->algo == DEV_RING)
		dev_ring_begin(p, part, row);
	else if (row->algo == DEV_TREE)
		dev_tree_begin(p);
	else if (row->algo == DEV_PAT)
		dev_pat_begin(p);
	else
		dev_direct_begin(p);
	dev_chunk_check(p, part, row);
}

DEV_FN void dev_row_end(struct prim *p, const struct steps_part *part,
			const struct dev_program_row *row)
{
	if (row->algo == DEV_RING)
		dev_ring_end(p);
	else if (row->algo == DEV_TREE)
		dev_tree_end(p, part, row->pattern);
	else if (row->algo == DEV_PAT)
		dev_pat_end(p, part);
	else
		dev_direct_end(p);
}

/* An abort ended the work, of a ring in SIMPLE: the rank writes no more into the next rank's
 * output, and the rank before it no more into its own. By one thread. Inlined it takes registers
 * from what moves. */
DEV_FN_ONCE void dev_ring_leave(struct dev *d, const struct dev_block *b, const struct dev_work *w,
				int channel)
{
	const struct dev_channel *c = &b->channel;
	struct steps_part part = steps_part_of(w, channel);
	struct dev_program_row row = steps_program(w->program);
	struct steps_count n = steps_of(w, channel, &c->ring, b->comm.rank, b->comm.nranks);

	if (!dev_ring_puts(&part, &row, &b->comm, steps_type_bytes(w->type)))
		return;
	if (c->ring_send.put)
		prim_result_release(d, &c->ring_send);
	if (c->ring_recv.put)
		prim_result_withdraw(d, b, ALIGN_UP(c->ring_recv.step, row.chunk_steps) + n.recv);
}

/* Does the work have to do with results between processes? The same on all threads. */
DEV_FN bool dev_work_registered(const struct dev_work *w, struct dev_known known)
{
	return known.proto == DEV_SIMPLE && known.family == DEV_FAMILY_FLAT &&
	       (w->offers | w->takes);
}

/* By all threads of the block. Inlined it takes registers from what moves. */
DEV_FN_ONCE void dev_registered_open(struct dev *d, struct dev_block *b, const struct dev_work *w,
				     int channel)
{
	struct steps_part part = steps_part_of(w, channel);
	struct dev_program_row row = steps_program(w->program);

	if (dev_thread(d) == 0 && dev_ring_puts(&part, &row, &b->comm, steps_type_bytes(w->type)))
		prim_result_open(d, b, w);
	dev_barrier_any(d, false);
}

/* A work begins. By all threads of the block; those beyond the work's warps have nothing to do:
 * false. */
DEV_FN bool dev_work_open(struct prim *p, struct steps_part *part, struct dev *d,
			  struct dev_block *b, const struct dev_work *w, int channel,
			  struct dev_known known)
{
	*part = steps_part_of(w, channel);
	dev_work_check(d, b, w);
	dev_work_begins(d, w);
	if (dev_work_registered(w, known))
		dev_registered_open(d, b, w, channel);
	dev_prim_init(p, d, b, w, known);
	return p->thread < p->threads;
}

/* It ends. By all threads of the block. False: the launch was aborted. */
DEV_FN bool dev_work_close(struct prim *p, const struct dev_work *w, int channel,
			   struct dev_known known)
{
	if (known.proto == DEV_SIMPLE && known.family == DEV_FAMILY_FLAT && p->stopped &&
	    p->thread == 0)
		dev_ring_leave(p->d, p->block, w, channel);
	if (dev_work_registered(w, known) && p->thread == 0)
		prim_result_close(p->block);
	p->stopped = dev_barrier_any(p->d, p->stopped); /* the next work begins with these steps */
	dev_work_ends(p->d, w);
	return !p->stopped;
}

#endif
