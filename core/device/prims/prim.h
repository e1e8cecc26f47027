/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The common parts of the primitives of all protocols (prims_simple.h, prims_ll.h, prims_ll128.h):
 * the block's shared memory, one thread's view of the collective, the checks of a FIFO, barriers,
 * the waits for data and for credit, and the posting of both.
 */
#ifndef CORE_DEVICE_PRIM_H
#define CORE_DEVICE_PRIM_H

#include "core/device/shim/shim.h"
#include "core/device/layout/steps.h"

/* The block's shared memory. */
struct dev_block {
	struct dev_comm comm;
	struct dev_channel channel;
	/* Copies of the channel's ends: the ring's two, whose steps are current between works, and
	 * the ends of the work's algorithm if it is another one. */
	struct dev_conn ring[2], conn[2 * DEV_EDGES_MOST];
	struct dev_conn pair[DEV_MAX_WARPS]; /* copies, for the groups of a batch of messages */
	/* For each group that puts: the address of the receiver's buffer; 0: the message goes
	 * through slots (prims_mapped.h). */
	uint64_t put[DEV_MAX_WARPS];
	/* For a ring's work that puts: the address of the next rank's output; 0: not taken yet. */
	uint64_t result;
	struct dev_work work[DEV_BATCH_WORKS]; /* copies: the works that run, and the next ones */
	uint32_t at[DEV_BATCH_WORKS];          /* their places in the launch (struct dev_works) */
	struct dev_share share;                /* the block's share of the FIFO's numbers */
};
DOPPEL_STATIC_CHECK(sizeof(struct dev_block) <= 48u << 10,
		    "a kernel gets so much shared memory without an opt-in");

/* One thread's view of the collective that its group works on. */
struct prim {
	struct dev *d;
	struct dev_block *block;
	uint32_t thread, threads; /* in the group */
	uint32_t barrier;         /* the group's named one; 0: the group is a warp or the block */
	bool stopped; /* the launch was aborted: this thread moves nothing more (prim_barrier) */
	enum dev_proto proto;
	uint32_t chunk_steps, slice_steps;
	int32_t root;
	const struct dev_conn *recv;
	struct dev_conn *send;
	uint64_t recv_step, send_step;
	uint64_t tail_seen, head_seen; /* last values seen, for the checks of a FIFO */
	const uint8_t *input;
	uint8_t *output;
	enum dev_type type;
	enum dev_op op;
	uint32_t type_bytes;
	bool puts;      /* results go directly into outputs (prims_result.h) */
	bool alone;     /* the kernel has one program */
	bool known;     /* type and operation are constants of the kernel */
	uint32_t other; /* rank, link or level of recv and send, by number; 0 in a ring */
	uint32_t shown; /* bits that the trace already has of this work: 1 << (2 * other + sent) */
	uint64_t scale;
	uint64_t count; /* elements of a rank's block: count of dev_work */
};
DOPPEL_STATIC_CHECK(2 * DEV_EDGES_MOST <= 32, "two bits of prim.shown for each edge");

/* The two ends of one edge. */
DEV_FN struct dev_conn *prim_edge_recv(const struct prim *p, uint32_t edge)
{
	ASSERT(edge < DEV_EDGES_MOST);
	return &p->block->conn[2 * edge];
}

DEV_FN struct dev_conn *prim_edge_send(const struct prim *p, uint32_t edge)
{
	return &p->block->conn[2 * edge + 1];
}

/* Puts the thread into a group: `threads` threads of the block, from `first` on. */
DEV_FN void prim_group_set(struct prim *p, uint32_t first, uint32_t threads, uint32_t barrier)
{
	ASSERT(first % DEV_WARP_WIDTH == 0 && threads % DEV_WARP_WIDTH == 0); /* whole warps */
	p->thread = dev_thread(p->d) - first;
	p->threads = threads;
	p->barrier = barrier;
}

/* Sets the fields that works of both kinds have. The caller then sets group, protocol, connections,
 * type and operation. */
DEV_FN void prim_init(struct prim *p, struct dev *d, struct dev_block *b, const struct dev_work *w)
{
	p->d = d;
	p->block = b;
	p->stopped = false;
	p->root = w->root;
	p->tail_seen = p->head_seen = 0;
	p->input = (const uint8_t *)w->send;
	p->output = (uint8_t *)w->recv;
	p->puts = p->alone = p->known = false;
	p->other = p->shown = 0;
	p->scale = p->count = 0;
}

/* The actions of one primitive on a chunk. */
enum prim_flag {
	PRIM_RECV = 1,
	PRIM_SEND = 2,
	PRIM_INPUT = 4,  /* reads the user's input */
	PRIM_OUTPUT = 8, /* writes the user's output */
	PRIM_LAST = 16,  /* the reduction ends here: divide, if the operation needs it */
	/* Sends a result: it is in this rank's output, and belongs into the next rank's. */
	PRIM_RESULT = 32,
};

/* One chunk: `count` elements, `in` and `out` elements from the start of the user's buffers. */
struct prim_move {
	uint32_t flags;
	uint32_t pad0;
	uint64_t in, out, count;
};

/* ---- the checks of a FIFO -----------------------------------------------------------------------
 *
 * Done where DEV_CHECK_FIFO is 1: always on the doubles, on hardware with -DDEV_CHECK_FIFO=1. The
 * thread that waited checks when its wait has ended. The double neither schedules nor traces these
 * reads. A check fails if a peer or a proxy counts wrong, gives credit too early, or does not take
 * back a slot.
 *
 *	receiving        step + slice <= tail <= step + DEV_STEPS, the sender's credit; only rises
 *	sending          step + slice - DEV_STEPS <= head <= step, the steps that were sent; only
 *	                 rises. A receiver of lines does not wait for an empty chunk, and may be
 *	                 further.
 *	toward a proxy   the slot was taken back before it is filled: its size is DEV_FIFO_SIZE_NONE
 */
#if DEV_CHECK_FIFO
DEV_FN void prim_check(struct prim *p, const struct dev_conn *c, bool holds, const char *what,
		       uint64_t step, uint64_t value)
{
	/* an aborted launch leaves its steps where they were, and those of later launches are wrong
	 * too */
	if (!holds && !dev_peek_u32(p->d, p->block->comm.abort))
		dev_fifo_broken(p->d, p->block->comm.rank, c->channel, c->peer, what, step, value);
}

DEV_FN void prim_check_recv(struct prim *p)
{
	const struct dev_conn *c = p->recv;
	uint64_t tail = dev_peek_u64(p->d, c->tail);

	prim_check(p, c, tail >= p->recv_step + p->slice_steps && tail >= p->tail_seen,
		   "recv: the tail went back", p->recv_step, tail);
	/* an offered buffer is credit for one more step */
	prim_check(p, c, tail <= p->recv_step + DEV_STEPS + (c->put != 0),
		   "recv: the tail is beyond the credit that was given", p->recv_step, tail);
	p->tail_seen = tail;
}

DEV_FN void prim_check_send(struct prim *p)
{
	const struct dev_conn *c = p->send;
	uint64_t head = dev_peek_u64(p->d, c->head);

	prim_check(p, c, head + DEV_STEPS >= p->send_step + p->slice_steps && head >= p->head_seen,
		   "send: the head went back", p->send_step, head);
	prim_check(p, c, head <= p->send_step || p->proto != DEV_SIMPLE,
		   "send: the head is beyond what was sent", p->send_step, head);
	p->head_seen = head;
}

DEV_FN void prim_check_slot(struct prim *p, const struct dev_conn *c, const struct dev_fifo_slot *f)
{
	uint32_t size = dev_peek_u32(p->d, &f->size);

	prim_check(p, c, size == DEV_FIFO_SIZE_NONE, "send: the proxy has not taken back the slot",
		   p->send_step, size);
}
#else
#define prim_check_recv(p)       ((void)0)
#define prim_check_send(p)       ((void)0)
#define prim_check_slot(p, c, f) ((void)0)
#endif

/* ---- the trace ----------------------------------------------------------------------------------
 *
 * On the doubles: the first slot of each connection that a work fills, and the first that it finds
 * filled.
 */
#ifdef DEV_TRACE
DEV_FN void prim_show(struct prim *p, bool sent)
{
	const uint32_t bit = 1u << (2 * p->other + sent);

	if (p->shown & bit)
		return;
	p->shown |= bit;
	dev_slot_shown(p->d, &p->block->comm, sent ? p->send : p->recv,
		       sent ? p->send_step : p->recv_step, sent);
}
#else
#define prim_show(p, sent) ((void)0)
#endif

/* ---- waiting -------------------------------------------------------------------------------- */

/* Synchronizes the group. A thread whose wait was aborted continues to the next barrier, where all
 * threads learn of it. Returns false on all threads then. */
DEV_FN bool prim_barrier(struct prim *p)
{
	ASSERT(p->thread < p->threads); /* other threads of the block would be one too many */
	if (p->threads == dev_threads(p->d))
		p->stopped = dev_barrier_any(p->d, p->stopped);
	else if (p->barrier)
		p->stopped =
			dev_barrier_named_any(p->d, (int)p->barrier, (int)p->threads, p->stopped);
	else
		p->stopped = dev_any(p->d, p->stopped);
	return !p->stopped;
}

/* Makes a wait for a word of 64 bits to be `want` or more, at step `step`. The caller sets why and
 * from.object. */
DEV_FN struct wait prim_conn_wait(const struct dev_conn *c, const shared_u64 *on, uint64_t want,
				  uint64_t step)
{
	struct wait w;

	w.on = on;
	w.want = want;
	w.mask = WAIT_MASK_ALL;
	w.kind = WAIT_GE;
	w.bytes = 8;
	w.from.rank = c->peer;
	w.from.channel = c->channel;
	w.from.step = (int64_t)step;
	w.deadline_ns = 0;
	w.idle = false;
	return w;
}

/* Waits for credit. `puts`: the connection over which this rank may write into the next rank's
 * output; if that output is withdrawn, the wait ends too. */
DEV_FN bool prim_wait_send_of(struct prim *p, const struct dev_conn *puts)
{
	struct dev_conn *c = p->send;
	uint64_t end = p->send_step + p->slice_steps, head;
	struct wait w;

	ASSERT(p->send_step >= c->step); /* that of the connection before the work */
	if (end <= c->head_seen + DEV_STEPS)
		return true; /* no wait: as in the first round, every slot is free */
	head = dev_load_u64(p->d, c->head, SHARED_ACQUIRE, SHARED_SYSTEM);
	if (end <= head + DEV_STEPS) {
		c->head_seen = head;
		prim_check_send(p);
		return true;
	}
	w = prim_conn_wait(c, c->head, end - DEV_STEPS, p->send_step);
	w.why = c->index ? "send: free slot" : "ring send: free slot";
	w.from.object = c->fifo ? "proxy that empties the slot" : "kernel that empties the slot";
	if (!dev_wait_unless(p->d, &w, puts, DEV_PUT_WITHDRAWN))
		return false;
	prim_check_send(p);
	return true;
}

DEV_FN bool prim_wait_send(struct prim *p)
{
	return prim_wait_send_of(p, NULL);
}

/* Makes the wait for the data of the next slice. */
DEV_FN struct wait prim_recv_wait(const struct prim *p)
{
	const struct dev_conn *c = p->recv;
	struct wait w = prim_conn_wait(c, c->tail, p->recv_step + p->slice_steps, p->recv_step);

	ASSERT(p->recv_step >= c->step);
	w.why = c->index ? "recv: data in slot" : "ring recv: data in slot";
	w.from.object = "kernel or proxy that fills the slot";
	return w;
}

DEV_FN bool prim_wait_recv_of(struct prim *p, const struct dev_conn *puts)
{
	struct wait w = prim_recv_wait(p);

	if (!dev_wait_unless(p->d, &w, puts, DEV_PUT_WITHDRAWN))
		return false;
	prim_check_recv(p);
	prim_show(p, false);
	return true;
}

DEV_FN bool prim_wait_recv(struct prim *p)
{
	return prim_wait_recv_of(p, NULL);
}

/* Returns the number of the thread that waits for credit: the first one of the second warp, if
 * there is one. */
DEV_FN uint32_t prim_send_waiter(const struct prim *p)
{
	return p->threads > DEV_WARP_WIDTH ? DEV_WARP_WIDTH : 0;
}

/* Returns the number of the thread that posts: the first one of the last warp. */
DEV_FN uint32_t prim_poster(const struct prim *p)
{
	return (p->threads - 1) / DEV_WARP_WIDTH * DEV_WARP_WIDTH;
}

/* Returns the first byte of the slots of a slice. A slice never wraps: it starts at a multiple of
 * its steps, which divide DEV_STEPS. */
DEV_FN uint8_t *prim_slot(const struct dev_conn *c, enum dev_proto proto, uint64_t step)
{
	ASSERT(c->step_bytes[proto] > 0); /* the connection was made for the protocol */
	return c->buffer[proto] + (step % DEV_STEPS) * c->step_bytes[proto];
}

/* Stores step and head for the next launch and for the next work that loads the connection. */
DEV_FN void prim_conn_save(struct dev *d, struct dev_conn *to, const struct dev_conn *c)
{
	DOPPEL_STATIC_CHECK(offsetof(struct dev_conn, head_seen) ==
				    offsetof(struct dev_conn, step) + sizeof c->step,
			    "step and head are adjacent: one copy");

	dev_copy_out(d, &to->step, &c->step, sizeof c->step + sizeof c->head_seen);
}

/* ---- posting -------------------------------------------------------------------------------- */

/* Stores the size and offset of the slice's slot for the proxy. */
DEV_FN void prim_fill_fifo(struct prim *p, const struct dev_conn *c, uint32_t bytes)
{
	uint32_t slot = (uint32_t)(p->send_step % DEV_STEPS);
	struct dev_fifo_slot *f = c->fifo + slot;

	ASSERT(bytes <= p->slice_steps * c->step_bytes[p->proto]);
	prim_check_slot(p, c, f);
	dev_store_u32(p->d, &f->offset, slot * c->step_bytes[p->proto], SHARED_RELAXED,
		      SHARED_SYSTEM);
	dev_store_u32(p->d, &f->size, bytes, SHARED_RELAXED, SHARED_SYSTEM);
}

/* Stores the head for the previous rank and the tail for the next one. Called by one thread, after
 * the barrier that ends the move. */
DEV_FN void prim_post(struct prim *p, uint32_t flags, uint32_t bytes)
{
	ASSERT(p->thread == prim_poster(p));
	if (flags & PRIM_SEND)
		prim_show(p, true);
	if ((flags & PRIM_SEND) && p->send->fifo)
		prim_fill_fifo(p, p->send, bytes);
	dev_fence(p->d, SHARED_RELEASE, SHARED_SYSTEM);
	if (flags & PRIM_RECV)
		dev_store_u64(p->d, p->recv->head, p->recv_step + p->slice_steps, SHARED_RELAXED,
			      SHARED_SYSTEM);
	if (flags & PRIM_SEND)
		dev_store_u64(p->d, p->send->tail, p->send_step + p->slice_steps, SHARED_RELAXED,
			      SHARED_SYSTEM);
}

#endif
