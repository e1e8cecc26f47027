/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One work of a collective on one channel: the checks that host and device agree, one thread's view
 * of the work, the connections and steps of its algorithm, and the program of its row. Included by
 * kernels.c.
 */
#ifndef CORE_DEVICE_RUN_WORK_H
#define CORE_DEVICE_RUN_WORK_H

#include "core/device/edges/prims_tree.h"
#include "core/device/layout/programs.h"
#include "core/device/prims/prims.h"
#include "core/device/programs/program_files.h"

/* The programs of a kernel all have the same family and the same protocol. */
enum dev_family { DEV_FAMILY_FLAT, DEV_FAMILY_TREE, DEV_FAMILY_PAT };

/* Properties of works that are constants of the kernel. */
struct dev_known {
	bool alone; /* the kernel has one program */
	enum dev_proto proto;
	enum dev_family family; /* of a kernel of several programs */
	int32_t type, op;       /* below 0: not constant */
};

DEV_FN enum dev_family dev_family_of(enum dev_algo algo)
{
	return algo == DEV_TREE || algo == DEV_COLLNET_CHAIN ? DEV_FAMILY_TREE
	       : algo == DEV_PAT                             ? DEV_FAMILY_PAT
							     : DEV_FAMILY_FLAT;
}

/* ---- before the first chunk ------------------------------------------------------------------ */

/* Returns the factor or divisor. The program may have written a factor in memory just before, in
 * the same stream. */
DEV_FN uint64_t dev_work_scale(struct dev *d, const struct dev_work *w)
{
	return w->scale_in_memory ? dev_get_bits(d, (const void *)(uintptr_t)w->scale,
						 steps_type_bytes(w->type))
				  : w->scale;
}

/* Checks that host and device agree. Done in builds that check FIFOs (prim.h). */
#if DEV_CHECK_FIFO
DEV_FN void dev_work_check(struct dev *d, const struct dev_block *b, const struct dev_work *w)
{
	bool fits = w->kind == DEV_WORK_COLLECTIVE && w->type < DEV_TYPE_COUNT &&
		    w->op < DEV_OP_COUNT && b->comm.nranks >= 2 && w->root >= -1 &&
		    w->root < b->comm.nranks && w->nwarps && w->nwarps <= dev_warps(d);

	if (!fits)
		dev_trap(d, "dev_collective: this work is not one that the kernel can run");
}

/* Checks that a chunk fits the slots that it takes. */
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

/* Returns true if the results of a work go directly into outputs. Both ends of a connection have
 * the same rule. Short results do not: to get the address takes longer than the copy. Broadcasts do
 * not: their ranks follow each other, and a rank that waits for the next rank's address would wait
 * until that rank has ended the previous work (results/figures.md). */
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
	p->recv = &p->block->ring[0];
	p->send = &p->block->ring[1];
	p->recv_step = ALIGN_UP(p->recv->step, p->chunk_steps);
	p->send_step = ALIGN_UP(p->send->step, p->chunk_steps);
	/* Nothing comes in the steps that are skipped: the sender need not wait until they are
	 * read. */
	if (p->recv_step != p->recv->step && part->count && p->thread == prim_poster(p))
		dev_store_u64(p->d, p->recv->head, p->recv_step, SHARED_RELEASE, SHARED_SYSTEM);
	p->puts = dev_ring_puts(part, row, &p->block->comm, p->type_bytes);
	if (p->puts)
		prim_result_begin(p);
}

/* Stores the steps in the block's copies, for the next work; at the end of the launch they go to
 * memory. A work that did not use the connection stores nothing: it had no barrier, and other
 * threads may still read the step. An aborted work stores nothing either: dev_ring_leave needs the
 * step with which it began. */
DEV_FN void dev_ring_end(struct prim *p)
{
	struct dev_conn *c = p->block->ring;
	uint64_t recv, send;

	if (p->thread != 0 || p->stopped)
		return;
	recv = steps_kept(c[0].step, p->recv_step, p->chunk_steps);
	send = steps_kept(c[1].step, p->send_step, p->chunk_steps);
	if (recv != c[0].step)
		c[0].step = recv;
	if (send != c[1].step)
		c[1].step = send;
}

/* Returns the channel's first end. */
DEV_FN struct dev_conn *dev_edges_at(struct dev_conn *conns, const struct dev_edges *e, int channel)
{
	return conns + e->first + (uint32_t)channel * e->count;
}

/* Copies the ends, a part by each of `warps` warps, a word by each thread at a time. A barrier must
 * follow. */
DEV_FN void dev_edges_load(struct dev *d, struct dev_block *b, const struct dev_conn *from,
			   uint32_t count, uint32_t warp, uint32_t warps)
{
	const uint32_t part = 8 * 32, bytes = count * (uint32_t)sizeof *from;

	for (uint32_t at = warp * part; at < bytes; at += warps * part)
		dev_copy_in_warp(d, (char *)b->conn + at, (const char *)from + at,
				 MIN_OF(part, bytes - at));
}

/* Loads the connections of the algorithm, unless a kernel of one program has loaded them
 * (kernels.c). */
DEV_FN void dev_edges_begin(struct prim *p, const struct dev_program_row *row)
{
	struct dev_block *b = p->block;
	const struct dev_edges *e = &b->comm.edges[steps_edges(row->algo)];
	int channel = b->ring[0].channel;
	uint32_t edge = 0;

	ASSERT(row->algo != DEV_RING && e->count % 2 == 0); /* the two ends of each edge */
	if (channel >= e->channels || e->count > 2 * DEV_EDGES_MOST)
		dev_trap(p->d, "dev_collective: the channel has no connections of the algorithm");
	if (!p->alone) {
		dev_edges_load(p->d, b, dev_edges_at(b->comm.conns, e, channel), e->count,
			       p->thread / DEV_WARP_WIDTH, p->threads / DEV_WARP_WIDTH);
		prim_barrier(p);
	}
	/* a rank in a tree may lack any edge; one in a chain has the first */
	while (row->algo == DEV_TREE && 2 * edge + 2 < e->count &&
	       prim_edge_recv(p, edge)->peer < 0)
		edge++;
	p->recv = prim_edge_recv(p, edge);
	p->send = prim_edge_send(p, edge);
	p->recv_step = p->send_step = ALIGN_UP(p->recv->step, p->chunk_steps);
}

/* Saves the step of one end. With EXCHANGE patterns all edges take the same steps, which the
 * primitives have counted, and the next work reads them in the block's copies. With other patterns
 * it reads them in memory. */
DEV_FN void dev_edge_end(struct prim *p, const struct dev_program_row *row, struct dev_conn *to,
			 struct dev_conn *c, uint64_t n)
{
	uint64_t step = c->step + n;

	if (row->pattern == DEV_EXCHANGE || row->pattern == DEV_EXCHANGE_TWICE) {
		step = steps_kept(c->step, p->recv_step, p->chunk_steps);
		if (step == c->step)
			return; /* other threads may still read the step: no barrier came before */
		c->step = step;
		prim_conn_save(p->d, to, c);
	} else if (n) {
		dev_copy_out(p->d, &to->step, &step, sizeof step);
	}
}

DEV_FN void dev_edges_end(struct prim *p, const struct steps_part *part,
			  const struct dev_program_row *row)
{
	struct dev_block *b = p->block;
	const struct dev_edges *e = &b->comm.edges[steps_edges(row->algo)];
	struct dev_conn *to = dev_edges_at(b->comm.conns, e, b->ring[0].channel);
	struct steps_place at = {b->comm.rank, b->comm.nranks, p->root, -1, -1, DEV_TREE_SELF};

	if (row->pattern == DEV_TREE_FROM || row->pattern == DEV_TREE_TO)
		at.toward = prim_tree_toward(p);
	for (uint32_t end = p->thread; end < e->count && !p->stopped; end += p->threads) {
		struct steps_count n = steps_of_edge(row, part, &at, end / 2);

		if (dev_family_of(row->algo) != DEV_FAMILY_TREE || b->conn[end].peer >= 0)
			dev_edge_end(p, row, to + end, &b->conn[end], end % 2 ? n.send : n.recv);
	}
}

/* ---- running a work -------------------------------------------------------------------------- */

/* Runs one row. The row is a constant for the compiler, which removes code for other rows. */
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
	else
		dev_edges_begin(p, row);
	dev_chunk_check(p, part, row);
}

DEV_FN void dev_row_end(struct prim *p, const struct steps_part *part,
			const struct dev_program_row *row)
{
	if (row->algo == DEV_RING)
		dev_ring_end(p);
	else
		dev_edges_end(p, part, row);
}

/* Stops the use of outputs after an abort, for a ring in SIMPLE: this rank writes no more into the
 * next rank's output, and the previous rank no more into this one's. Called by one thread. A real
 * function: inlined, it would take registers from the code that moves data. */
DEV_FN_ONCE void dev_ring_leave(struct dev *d, const struct dev_block *b, const struct dev_work *w,
				int channel)
{
	const struct dev_ring *ring = &b->channel.ring;
	struct steps_part part = steps_part_of(w, channel);
	struct dev_program_row row = steps_program(w->program);
	struct steps_place at = {b->comm.rank, b->comm.nranks, w->root,
				 ring->prev,   ring->next,     DEV_TREE_SELF};
	struct steps_count n = steps_of_edge(&row, &part, &at, 0);

	if (!dev_ring_puts(&part, &row, &b->comm, steps_type_bytes(w->type)))
		return;
	if (b->ring[1].put)
		prim_result_release(d, &b->ring[1]);
	if (b->ring[0].put)
		prim_result_withdraw(d, b, ALIGN_UP(b->ring[0].step, row.chunk_steps) + n.recv);
}

/* Returns true if the work may have results between processes. The same on all threads. */
DEV_FN bool dev_work_registered(const struct dev_work *w, struct dev_known known)
{
	return known.proto == DEV_SIMPLE && known.family == DEV_FAMILY_FLAT &&
	       (w->offers | w->takes);
}

/* Called by all threads of the block. A real function: inlined, it would take registers from the
 * code that moves data. */
DEV_FN_ONCE void dev_registered_open(struct dev *d, struct dev_block *b, const struct dev_work *w,
				     int channel)
{
	struct steps_part part = steps_part_of(w, channel);
	struct dev_program_row row = steps_program(w->program);

	if (dev_thread(d) == 0 && dev_ring_puts(&part, &row, &b->comm, steps_type_bytes(w->type)))
		prim_result_open(d, b, w);
	dev_barrier_any(d, false);
}

/* Begins a work. Called by all threads of the block. Returns false for threads beyond the work's
 * warps, which have nothing to do. */
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

/* Ends a work. Called by all threads of the block. Returns false if the launch was aborted. */
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
