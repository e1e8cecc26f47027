/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernels. Launched by core/plan. Compiled once for each warp width for the doubles, and
 * through kernels.cu by nvcc.
 *
 *	dev_collective_simple, dev_collective_ll, dev_collective_ll128
 *		One block for each channel of the launch. It finds its channel, copies communicator
 *		and channel into shared memory, and runs every work whose range of channels has its
 *		channel, one after the other. Takes one struct dev_args by value, with the works or
 *		their address. All works have the kernel's protocol: nvcc makes slower kernels of
 *		several protocols (docs/device.md).
 *	dev_all_reduce_ring_ll_f32 and others (DEV_ONE_PROGRAMS)
 *		For works of one program, and of the sum of one type if it reduces. Faster for short
 *		calls.
 *	dev_tree_simple, dev_tree_ll, dev_tree_ll128
 *		For works of trees. The programs of trees would make the other kernels slower.
 *	dev_doubling_ll
 *		For works of DOUBLING.
 *	dev_pat
 *		For works of PAT, whose protocol is SIMPLE.
 *	dev_messages
 *		For messages between pairs of ranks, in batches. Each message has its protocol:
 *		SIMPLE or LL.
 *	dev_messages_ll128
 *		For messages, with LL128 as well.
 *	dev_symmetric_ll, dev_symmetric_simple, dev_all_reduce_sym_ll_f32 and others
 *		For one work on windows (run_symmetric.h). Takes one struct dev_sym_args by value.
 *	dev_one_rank
 *		For the collectives of a communicator of one rank that need more than a copy: a
 *		factor times the input. Takes one struct dev_work by value.
 *
 * An aborted launch (the communicator's abort word) ends without an error; its output is undefined.
 * Later launches of the communicator end in the same way. A communicator of another layout traps. A
 * work of another layout traps too, and so does one that does not fit its connections, in builds
 * that check works (DEV_CHECK_FIFO).
 */
#include "core/device/kernels/run_messages.h"
#include "core/device/kernels/run_symmetric.h"
#include "core/device/kernels/run_work.h"
#include "core/device/kernels/works.h"

/* ---- a block --------------------------------------------------------------------------------- */

DEV_FN int dev_channel_of_block(uint64_t mask, uint32_t block)
{
	while (block--)
		mask &= mask - 1;
	return dev_first_bit(mask);
}

/* Returns the ring's two ends. The kernel reads no argument for their place (struct dev_edges): on
 * an H200 that would make each launch 0.1 us longer. */
DEV_FN struct dev_conn *dev_ring_at(struct dev_conn *conns, int channel)
{
	return conns + 2 * channel;
}

/* Copies the steps back to global memory, for the next launch. */
DEV_FN void dev_ring_save(struct dev *d, const struct dev_args *args, const struct dev_block *b,
			  int channel)
{
	struct dev_conn *to = dev_ring_at(args->conns, channel);

	prim_conn_save(d, &to[0], &b->ring[0]);
	prim_conn_save(d, &to[1], &b->ring[1]);
}

/* Called by all threads: two warps load at the same time, if there are two. A barrier must follow.
 * `algo`: the algorithm of a kernel of one program. With DEV_RING, only the ring's ends are loaded.
 * Channels of messages may have no ring. */
DEV_FN void dev_block_load(struct dev *d, struct dev_block *b, const struct dev_args *args,
			   int channel, bool messages, enum dev_algo algo)
{
	const struct dev_edges *e = &args->edges[steps_edges(algo)];

	if (dev_warp(d) == 0)
		dev_copy_in_warp(d, &b->comm, args->comm, sizeof b->comm);
	if (dev_warp(d) == dev_warps(d) - 1)
		dev_copy_both_in_warp(d, &b->channel, args->channels + channel, sizeof b->channel,
				      b->ring, dev_ring_at(args->conns, channel),
				      messages ? 0 : sizeof b->ring);
	if (algo != DEV_RING)
		dev_edges_load(d, b, dev_edges_at(args->conns, e, channel), e->count, dev_warp(d),
			       dev_warps(d));
	if (args->fifo.work && dev_thread(d) == 0)
		dev_copy_in(d, &b->share, args->fifo.share + dev_block(d), sizeof b->share);
}

/* Marks the channel after an abort. An aborted launch leaves the steps unchanged, and filled slots
 * that an HCA may still read: the next launch would fill the same slots again. It finds this mark
 * and moves nothing. */
DEV_FN void dev_block_abandon(struct dev *d, struct dev_block *b, int channel)
{
	if (b->channel.aborted)
		return; /* no store: other threads may still be reading it */
	b->channel.aborted = 1;
	dev_copy_out(d, &b->comm.channels[channel].aborted, &b->channel.aborted,
		     sizeof b->channel.aborted);
}

/* ---- the kernels ----------------------------------------------------------------------------- */

DEV_FN void dev_block_check(struct dev *d, const struct dev_block *b, const struct dev_args *args,
			    int channel)
{
	if (b->comm.magic != DEV_COMM_MAGIC || b->comm.warp_width != DEV_WARP_WIDTH)
		dev_trap(d, "core/device: host and kernel were not built from one work.h");
	if (channel >= b->comm.nchannels || args->channels != b->comm.channels ||
	    args->work_count > (args->fifo.work ? DEV_LAUNCH_WORKS : DEV_ARGS_WORKS))
		dev_trap(d, "core/device: the launch names channels or works that do not exist");
}

/* Loads the block, its channel and its first works. Returns false if an earlier launch was
 * aborted. */
DEV_FN bool dev_block_begin(struct dev *d, struct dev_block *b, const struct dev_args *args,
			    int channel, bool messages, enum dev_algo algo, struct dev_works *s)
{
	s->next = s->count = 0;
	s->messages = messages;
	s->end = MIN_OF(args->work_count, DEV_ARGS_WORKS);
	if (channel < 0)
		dev_trap(d, "core/device: the launch has more blocks than channels");
	dev_block_load(d, b, args, channel, messages, algo);
	if (!args->fifo.work)
		dev_works_load(d, b, args, channel, s);
	dev_barrier(d);
	dev_block_check(d, b, args, channel);
	dev_set_abort(d, b->comm.abort);
	if (b->channel.aborted)
		return false;
	if (args->fifo.work) {
		s->next = b->share.first;
		s->end = b->share.first + b->share.count;
		dev_works_next(d, b, args, channel, s);
	}
	return true;
}

/* The works of one block in a launch. */
struct dev_run {
	struct dev *d;
	struct dev_block *b;
	const struct dev_args *args;
	int channel;
	bool ok;    /* false: aborted */
	uint32_t i; /* index among the works in shared memory */
	struct dev_works s;
};

DEV_FN struct dev_run dev_run_begin(struct dev *d, const struct dev_args *args, enum dev_algo algo)
{
	struct dev_run r;

	r.d = d;
	r.b = (struct dev_block *)dev_shared(d);
	r.args = args;
	r.channel = dev_channel_of_block(args->channel_mask, dev_block(d));
	r.i = 0;
	r.ok = dev_block_begin(d, r.b, args, r.channel, false, algo, &r.s);
	return r;
}

/* Returns the next work; NULL: no more works, or the launch was aborted. */
DEV_FN const struct dev_work *dev_run_next(struct dev_run *r)
{
	if (!r->ok)
		return NULL;
	if (r->i == r->s.count && r->i) {
		dev_works_next(r->d, r->b, r->args, r->channel, &r->s);
		r->i = 0;
	}
	return r->i < r->s.count ? &r->b->work[r->i++] : NULL;
}

DEV_FN void dev_run_end(struct dev_run *r)
{
	dev_works_consumed(r->d, r->args, r->channel);
	if (dev_thread(r->d) != 0)
		return;
	if (r->ok)
		dev_ring_save(r->d, r->args, r->b, r->channel);
	else
		dev_block_abandon(r->d, r->b, r->channel);
}

/* A case for one of the programs of run_programs.h. */
#define DEV_RUN_CASE(id, function, func, algo, proto, pattern, chunk, slice)                       \
	case DEV_##id: {                                                                           \
		DOPPEL_STATIC_CHECK(DEV_##proto == RUN_PROTO,                                      \
				    "a program of the kernel's protocol");                         \
		DEV_RUN_ROW(DEV_##id, function);                                                   \
		break;                                                                             \
	}

#define RUN_KERNEL   dev_collective_simple
#define RUN_PROTO    DEV_SIMPLE
#define RUN_FAMILY   DEV_FAMILY_FLAT
#define RUN_PROGRAMS DEV_PROGRAMS_RING_SIMPLE
#include "core/device/kernels/run_programs.h"

#define RUN_KERNEL      dev_collective_ll
#define RUN_PROTO       DEV_LL
#define RUN_FAMILY      DEV_FAMILY_FLAT
#define RUN_PROGRAMS(X) DEV_PROGRAMS_RING_LL(X) DEV_PROGRAMS_DIRECT_LL(X)
#include "core/device/kernels/run_programs.h"

#define RUN_KERNEL   dev_collective_ll128
#define RUN_PROTO    DEV_LL128
#define RUN_FAMILY   DEV_FAMILY_FLAT
#define RUN_PROGRAMS DEV_PROGRAMS_RING_LL128
#include "core/device/kernels/run_programs.h"

#define RUN_KERNEL   dev_doubling_ll
#define RUN_PROTO    DEV_LL
#define RUN_FAMILY   DEV_FAMILY_FLAT
#define RUN_PROGRAMS DEV_PROGRAMS_DOUBLING_LL
#include "core/device/kernels/run_programs.h"

#define RUN_KERNEL   dev_tree_simple
#define RUN_PROTO    DEV_SIMPLE
#define RUN_FAMILY   DEV_FAMILY_TREE
#define RUN_PROGRAMS DEV_PROGRAMS_TREE_SIMPLE
#include "core/device/kernels/run_programs.h"

#define RUN_KERNEL   dev_tree_ll
#define RUN_PROTO    DEV_LL
#define RUN_FAMILY   DEV_FAMILY_TREE
#define RUN_PROGRAMS DEV_PROGRAMS_TREE_LL
#include "core/device/kernels/run_programs.h"

#define RUN_KERNEL   dev_tree_ll128
#define RUN_PROTO    DEV_LL128
#define RUN_FAMILY   DEV_FAMILY_TREE
#define RUN_PROGRAMS DEV_PROGRAMS_TREE_LL128
#include "core/device/kernels/run_programs.h"

#define RUN_KERNEL   dev_pat
#define RUN_PROTO    DEV_SIMPLE
#define RUN_FAMILY   DEV_FAMILY_PAT
#define RUN_PROGRAMS DEV_PROGRAMS_PAT_SIMPLE
#include "core/device/kernels/run_programs.h"

#define RUN_KERNEL   dev_collnet
#define RUN_PROTO    DEV_SIMPLE
#define RUN_FAMILY   DEV_FAMILY_TREE
#define RUN_PROGRAMS DEV_PROGRAMS_COLLNET_SIMPLE
#include "core/device/kernels/run_programs.h"

/* Kernels of one program, and of one type and operation if it reduces. */
#define DEV_ONE_PROGRAM(name, id, function, of_type, of_op)                                        \
	DEV_FN void dev_##name(struct dev *d, const struct dev_args *args)                         \
	{                                                                                          \
		const struct dev_program_row its = steps_program(DEV_##id);                        \
		const struct dev_known known = {true, its.proto, dev_family_of(its.algo), of_type, \
						of_op};                                            \
		struct dev_run r = dev_run_begin(d, args, its.algo);                               \
		const struct dev_work *w;                                                          \
		DOPPEL_STATIC_CHECK(of_op < 0 || of_op == DEV_SUM,                                 \
				    "known operations are sums (dev_reduce_data)");                \
		while ((w = dev_run_next(&r))) {                                                   \
			struct steps_part part_of_block, *part = &part_of_block;                   \
			struct prim prim, *p = &prim;                                              \
			dev_profile_works(d, r.b, w, 1, r.channel, false);                         \
			if (dev_work_open(p, part, d, r.b, w, r.channel, known))                   \
				DEV_RUN_ROW(DEV_##id, function);                                   \
			r.ok = dev_work_close(p, w, r.channel, known);                             \
			dev_profile_works(d, r.b, w, 1, r.channel, true);                          \
		}                                                                                  \
		dev_run_end(&r);                                                                   \
	}
DEV_ONE_PROGRAMS(DEV_ONE_PROGRAM)

DEV_FN void dev_run_messages(struct dev *d, const struct dev_args *args, bool ll128)
{
	struct dev_block *b = (struct dev_block *)dev_shared(d);
	int channel = dev_channel_of_block(args->channel_mask, dev_block(d));
	struct dev_works s;
	bool ok = dev_block_begin(d, b, args, channel, true, DEV_RING, &s);
	uint32_t works;

	while (ok && s.count) {
		works = dev_batch_works(b, s.count);
		if (works < s.count)
			s.next = b->at[works]; /* the next batch is loaded as a whole */
		dev_profile_works(d, b, b->work, works, channel, false);
		ok = dev_run_batch(d, b, works, ll128);
		dev_profile_works(d, b, b->work, works, channel, true);
		if (ok)
			dev_works_next(d, b, args, channel, &s);
	}
	dev_works_consumed(d, args, channel);
	if (!ok && dev_thread(d) == 0)
		dev_block_abandon(d, b, channel);
}

DEV_FN void dev_messages(struct dev *d, const struct dev_args *args)
{
	dev_run_messages(d, args, false);
}

DEV_FN void dev_messages_ll128(struct dev *d, const struct dev_args *args)
{
	dev_run_messages(d, args, true);
}

DEV_FN void dev_one_rank(struct dev *d, const struct dev_work *w)
{
	struct steps_part part = steps_part_of(w, (int)dev_block(d));
	uint64_t at = part.offset * steps_type_bytes(w->type);
	const void *src = (const uint8_t *)w->send + at;
	void *dst = (uint8_t *)w->recv + at;

	if (w->type >= DEV_TYPE_COUNT || w->op != DEV_PREMUL_SUM || w->channel_lo != 0 ||
	    dev_blocks(d) != w->channel_hi + 1u)
		dev_trap(d, "dev_one_rank: this work is not one that the kernel can run");
	dev_reduce_copy(d, dev_thread(d), dev_threads(d), &src, 1, &dst, 1, part.count,
			(enum dev_type)w->type, (enum dev_op)w->op, dev_work_scale(d, w), true);
}

DEV_KERNEL(dev_collective_simple, dev_args, sizeof(struct dev_block))
DEV_KERNEL(dev_collective_ll, dev_args, sizeof(struct dev_block))
DEV_KERNEL(dev_collective_ll128, dev_args, sizeof(struct dev_block))
DEV_KERNEL(dev_doubling_ll, dev_args, sizeof(struct dev_block))
DEV_KERNEL(dev_tree_simple, dev_args, sizeof(struct dev_block))
DEV_KERNEL(dev_tree_ll, dev_args, sizeof(struct dev_block))
DEV_KERNEL(dev_tree_ll128, dev_args, sizeof(struct dev_block))
DEV_KERNEL(dev_pat, dev_args, sizeof(struct dev_block))
DEV_KERNEL(dev_collnet, dev_args, sizeof(struct dev_block))
DEV_KERNEL(dev_messages, dev_args, sizeof(struct dev_block))
DEV_KERNEL(dev_messages_ll128, dev_args, sizeof(struct dev_block))
DEV_KERNEL(dev_one_rank, dev_work, 0)
DEV_KERNEL(dev_symmetric_ll, dev_sym_args, 0)
DEV_KERNEL(dev_symmetric_simple, dev_sym_args, 0)
#define DEV_SYM_KERNEL(name, id, function, type, op) DEV_KERNEL(dev_##name, dev_sym_args, 0)
DEV_SYMMETRIC_ONE(DEV_SYM_KERNEL)
#define DEV_ONE_KERNEL(name, id, function, type, op)                                               \
	DEV_KERNEL(dev_##name, dev_args, sizeof(struct dev_block))
DEV_ONE_PROGRAMS(DEV_ONE_KERNEL)
