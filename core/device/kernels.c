/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernels. Launched by core/plan; compiled once per warp width for fakecuda, and through
 * kernels.cu by nvcc.
 *
 *   dev_collective_simple, dev_collective_ll, dev_collective_ll128
 *                    one block per channel of the launch: it finds its channel, brings the
 *                    communicator and the channel into shared memory, and runs every work whose
 *                    range of channels includes it, one after the other. Takes one struct dev_args
 *                    by value, with the works or with where they are. All works have the kernel's
 *                    protocol: nvcc makes a slower kernel of several (docs/device.md).
 *   dev_messages     the same for messages between pairs of ranks, which run in batches. The protocol is
 *                    that of each message.
 *   dev_one_rank     the collective of a communicator of one rank, where it is more than a copy:
 *                    a factor times the input. Takes one struct dev_work by value.
 *
 * An aborted launch (the communicator's abort word) ends without an error, its output undefined, and
 * so do the launches after it. A communicator of another layout traps. So does a work of another layout, or one
 * that does not fit its connections, where works are checked (DEV_CHECK_FIFO).
 */
#include "core/device/prims.h"
#include "core/device/send_recv.h"

#define DEV_PROGRAM_FILES
#include "core/device/programs.h"

DEV_FN int dev_channel_of_block(uint64_t mask, uint32_t block)
{
	while (block--)
		mask &= mask - 1;
	return dev_first_bit(mask);
}

/* The steps go back to global memory, where the next launch finds them. */
DEV_FN void dev_ring_save(struct dev *d, const struct dev_args *args, const struct dev_block *b,
			  int channel)
{
	struct dev_channel *to = args->channels + channel;

	dev_copy_out(d, &to->ring_recv.step, &b->channel.ring_recv.step, sizeof(uint64_t));
	dev_copy_out(d, &to->ring_send.step, &b->channel.ring_send.step, sizeof(uint64_t));
}

/* By all threads: two warps at the same time, if there are two. A barrier follows. */
DEV_FN void dev_block_load(struct dev *d, struct dev_block *b, const struct dev_args *args,
			   int channel)
{
	if (dev_warp(d) == 0)
		dev_copy_in_warp(d, &b->comm, args->comm, sizeof b->comm);
	if (dev_warp(d) == dev_warps(d) - 1)
		dev_copy_in_warp(d, &b->channel, args->channels + channel, sizeof b->channel);
	if (args->fifo.work && dev_thread(d) == 0)
		dev_copy_in(d, &b->share, args->fifo.share + dev_block(d), sizeof b->share);
}

/* An aborted launch leaves the steps where they were, and filled slots that an HCA still reads: the
 * next launch would fill them again. It finds this mark, and moves nothing. */
DEV_FN void dev_block_abandon(struct dev *d, struct dev_block *b, int channel)
{
	if (b->channel.aborted)
		return; /* other threads may still be reading it */
	b->channel.aborted = 1;
	dev_copy_out(d, &b->comm.channels[channel].aborted, &b->channel.aborted,
		     sizeof b->channel.aborted);
}

/* ---- the works of a block -------------------------------------------------------------------- */

/* How far a block is in the works of its launch; the same in all its threads. Works are counted by
 * their place in the arguments, or by that of their number in the FIFO. */
struct dev_works {
	uint32_t next, end;
	uint32_t count; /* in the block's shared memory */
};

DEV_FN bool dev_has_work(const struct dev_work *w, int channel)
{
	return channel >= w->channel_lo && channel <= w->channel_hi;
}

/* The work at `at`, to place n in shared memory. By a warp. */
DEV_FN void dev_work_load(struct dev *d, struct dev_block *b, const struct dev_args *args,
			  uint32_t at, uint32_t n)
{
	uint64_t number;

	if (dev_lane(d) == 0)
		b->at[n] = at;
	if (!args->fifo.work) {
		dev_copy_args(d, &b->work[n], &args->work[at], sizeof b->work[n]);
		return;
	}
	number = dev_get_bits(d, args->fifo.number + at, sizeof *args->fifo.number);
	if (number >= args->work_count)
		dev_trap(d, "core/device: the FIFO names a work that does not exist");
	dev_copy_in_warp(d, &b->work[n], args->fifo.work + number, sizeof b->work[n]);
}

/* Loads the block's next works, at most a batch; the warps share them, from the last one on. By all
 * threads; a barrier follows. */
DEV_FN void dev_works_load(struct dev *d, struct dev_block *b, const struct dev_args *args,
			   int channel, struct dev_works *s)
{
	uint32_t warp = dev_warps(d);

	s->count = 0;
	for (; s->next < s->end && s->count < DEV_BATCH_WORKS; s->next++) {
		if (!args->fifo.work && !dev_has_work(&args->work[s->next], channel))
			continue;
		if (dev_warp(d) == --warp)
			dev_work_load(d, b, args, s->next, s->count);
		if (!warp)
			warp = dev_warps(d);
		s->count++;
	}
}

/* After the works of the block have run. */
DEV_FN void dev_works_next(struct dev *d, struct dev_block *b, const struct dev_args *args,
			   int channel, struct dev_works *s)
{
	dev_works_load(d, b, args, channel, s);
	if (s->count)
		dev_barrier(d);
}

/* The host may overwrite what the launch has in the FIFO. Behind the barrier after the last load. */
DEV_FN void dev_works_consumed(struct dev *d, const struct dev_args *args, int channel)
{
	if (args->fifo.work && dev_thread(d) == 0)
		dev_store_u64(d, args->fifo.consumed + channel, args->fifo.end, SHARED_RELEASE,
			      SHARED_SYSTEM);
}

/* ---- collectives ----------------------------------------------------------------------------- */

/* The factor or divisor. A factor in memory may be one that the program has just written in the same
 * stream. */
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
			  const struct dev_work *w)
{
	p->d = d;
	p->block = b;
	p->thread = dev_thread(d);
	p->threads = (uint32_t)w->nwarps * DEV_WARP_WIDTH;
	p->barrier = 1;
	p->stopped = false;
	p->root = w->root;
	p->tail_seen = p->head_seen = 0;
	p->input = (const uint8_t *)w->send;
	p->output = (uint8_t *)w->recv;
	p->type = (enum dev_type)w->type;
	p->op = (enum dev_op)w->op;
	p->type_bytes = steps_type_bytes(w->type);
	p->other = p->shown = 0;
	p->scale = dev_work_scale(d, w);
	p->count = w->count;
}

/* ---- connections and steps of a work --------------------------------------------------------- */

DEV_FN void dev_ring_begin(struct prim *p)
{
	p->recv = &p->block->channel.ring_recv;
	p->send = &p->block->channel.ring_send;
	p->recv_step = ALIGN_UP(p->recv->step, p->chunk_steps);
	p->send_step = ALIGN_UP(p->send->step, p->chunk_steps);
}

/* The block's copies have the steps for the next work; at the end of the launch they go to memory. A work that
 * did not use the connection had no barrier: other threads may still read the step. */
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

DEV_FN struct dev_conn *dev_direct_conn(const struct prim *p, uint32_t end)
{
	const struct dev_direct *direct = &p->block->channel.direct;

	return p->block->comm.conns + direct->first + (int32_t)end * direct->stride;
}

DEV_FN void dev_direct_begin(struct prim *p)
{
	struct dev_block *b = p->block;
	uint32_t ends = 2 * ((uint32_t)b->comm.nranks - 1);

	if (b->channel.direct.first < 0 || b->comm.nranks > DEV_DIRECT_RANKS)
		dev_trap(p->d, "dev_collective: the channel does not connect every two ranks");
	for (uint32_t i = p->thread / DEV_WARP_WIDTH; i < ends; i += p->threads / DEV_WARP_WIDTH)
		dev_copy_in_warp(p->d, i % 2 ? &b->direct_send[i / 2] : &b->direct_recv[i / 2],
				 dev_direct_conn(p, i), sizeof(struct dev_conn));
	prim_barrier(p);
	p->recv = &b->direct_recv[0];
	p->send = &b->direct_send[0];
	p->recv_step = p->send_step = ALIGN_UP(p->recv->step, p->chunk_steps);
}

/* They go to memory: the next work reads them there. */
DEV_FN void dev_direct_end(struct prim *p)
{
	uint32_t ends = 2 * ((uint32_t)p->block->comm.nranks - 1);
	uint64_t step = steps_kept(p->block->direct_recv[0].step, p->recv_step, p->chunk_steps);

	for (uint32_t i = p->thread; i < ends && !p->stopped; i += p->threads)
		dev_copy_out(p->d, &dev_direct_conn(p, i)->step, &step, sizeof step);
}

/* ---- running a work -------------------------------------------------------------------------- */

/* The program's row is a constant for the compiler: what other rows would need is not there. */
#define DEV_RUN_ROW(id, function)                                                                  \
	do {                                                                                       \
		const struct dev_program_row row = steps_program(id);                              \
		dev_row_begin(p, part, &row);                                                      \
		function(p, part);                                                                 \
		dev_row_end(p, &row);                                                              \
	} while (0)

DEV_FN void dev_row_begin(struct prim *p, const struct steps_part *part,
			  const struct dev_program_row *row)
{
	p->proto = row->proto;
	p->chunk_steps = row->chunk_steps;
	p->slice_steps = row->slice_steps;
	if (row->algo == DEV_RING)
		dev_ring_begin(p);
	else
		dev_direct_begin(p);
	dev_chunk_check(p, part, row);
}

DEV_FN void dev_row_end(struct prim *p, const struct dev_program_row *row)
{
	if (row->algo == DEV_RING)
		dev_ring_end(p);
	else
		dev_direct_end(p);
}

/* `proto` is a constant for the compiler, too: the programs of other protocols are not in the kernel. */
DEV_FN void dev_run_program(struct prim *p, const struct steps_part *part, int program,
			    enum dev_proto proto)
{
	switch (program) {
#define DEV_RUN_PROGRAM(id, function, func, algo, protocol, pattern, chunk, slice)                 \
	case DEV_##id:                                                                             \
		if (proto != DEV_##protocol)                                                       \
			dev_trap(p->d, "dev_collective: a program of another protocol");           \
		else                                                                               \
			DEV_RUN_ROW(DEV_##id, function);                                           \
		break;
		DEV_PROGRAMS(DEV_RUN_PROGRAM)
#undef DEV_RUN_PROGRAM
	default:
		dev_trap(p->d, "dev_collective: a program that does not exist");
	}
}

/* By all threads of the block; those beyond the work's warps have nothing to do. */
DEV_FN bool dev_run_work(struct dev *d, struct dev_block *b, const struct dev_work *w, int channel,
			 enum dev_proto proto)
{
	struct steps_part part = steps_part_of(w, channel);
	struct prim p;

	dev_work_check(d, b, w);
	dev_work_begins(d, w);
	dev_prim_init(&p, d, b, w);
	if (p.thread < p.threads)
		dev_run_program(&p, &part, w->program, proto);
	p.stopped = dev_barrier_any(d, p.stopped); /* the next work begins with these steps */
	dev_work_ends(d, w);
	return !p.stopped;
}

/* ---- messages -------------------------------------------------------------------------------- */

/* How many of the loaded works are the first batch. */
DEV_FN uint32_t dev_batch_works(const struct dev_block *b, uint32_t loaded)
{
	uint32_t n = 1;

	while (n < loaded && b->work[n].batch == b->work[0].batch)
		n++;
	return n;
}

/* One end of a work as a group of threads sees it. */
DEV_FN void dev_pair_init(struct prim *p, struct dev *d, struct dev_block *b,
			  const struct dev_work *w, uint32_t group, uint32_t warps,
			  enum dev_proto proto)
{
	p->d = d;
	p->block = b;
	p->threads = warps * DEV_WARP_WIDTH;
	p->thread = dev_thread(d) - group * p->threads;
	p->barrier = warps > 1 ? 1 + group : 0;
	p->stopped = false;
	p->proto = proto;
	p->chunk_steps = p->slice_steps = 1;
	p->root = -1;
	p->send = p->recv = &b->pair[group];
	p->tail_seen = p->head_seen = 0;
	p->input = (const uint8_t *)w->send;
	p->output = (uint8_t *)w->recv;
	p->type = DEV_U8;
	p->op = DEV_SUM;
	p->type_bytes = 1;
	p->other = p->shown = 0;
	p->scale = 0;
	p->count = 0;
}

DEV_FN bool dev_pair_valid(const struct dev_work *w, const struct dev_conn *c, bool sends,
			   enum dev_proto proto)
{
	return w->kind == DEV_WORK_SEND_RECV && w->channel_lo == w->channel_hi &&
	       c->channel == w->channel_lo && c->step_bytes[proto] &&
	       (sends ? w->pair.send_bytes && w->send : w->pair.recv_bytes && w->recv);
}

/* By the threads of one group: group 2n sends for work n, group 2n + 1 receives. `proto` is a constant for
 * the compiler. False: aborted. */
DEV_FN bool dev_run_pair(struct dev *d, struct dev_block *b, const struct dev_work *w,
			 uint32_t group, uint32_t warps, enum dev_proto proto)
{
	bool sends = group % 2 == 0;
	struct dev_conn *conn = sends ? w->pair.send_conn : w->pair.recv_conn;
	struct prim p;

	dev_pair_init(&p, d, b, w, group, warps, proto);
	if (p.thread == 0)
		dev_copy_in(d, &b->pair[group], conn, sizeof b->pair[group]);
	prim_barrier(&p);
	if (!dev_pair_valid(w, &b->pair[group], sends, proto))
		dev_trap(d, "dev_messages: these messages are not ones that the kernel can move");
	p.send_step = p.recv_step = b->pair[group].step;
	dev_work_begins(d, w);
	if (sends)
		send_recv_send(&p, w->pair.send_bytes);
	else
		send_recv_recv(&p, w->pair.recv_bytes);
	dev_work_ends(d, w);
	if (p.thread == 0 && !p.stopped)
		dev_copy_out(d, &conn->step, sends ? &p.send_step : &p.recv_step, sizeof(uint64_t));
	return !p.stopped;
}

/* The group's end of the work; it may have none. */
DEV_FN bool dev_run_group(struct dev *d, struct dev_block *b, uint32_t group, uint32_t warps)
{
	const struct dev_work *w = &b->work[group / 2];
	bool sends = group % 2 == 0;

	if (!(sends ? w->pair.send_conn : w->pair.recv_conn))
		return true;
	switch (sends ? w->pair.send_proto : w->pair.recv_proto) {
	case DEV_SIMPLE:
		return dev_run_pair(d, b, w, group, warps, DEV_SIMPLE);
	case DEV_LL:
		return dev_run_pair(d, b, w, group, warps, DEV_LL);
	default:
		dev_trap(d, "dev_messages: a message in a protocol that messages do not have");
		return false;
	}
}

/* By all threads of the block: the first works of those in shared memory. */
DEV_FN bool dev_run_batch(struct dev *d, struct dev_block *b, uint32_t works)
{
	uint32_t warps = dev_warps(d) / (2 * works);
	uint32_t group = warps ? dev_warp(d) / warps : 0;
	bool ok = true;

	if (!warps)
		dev_trap(d, "dev_messages: a batch has more messages than the block has warps");
	if (group < 2 * works)
		ok = dev_run_group(d, b, group, warps);
	return !dev_barrier_any(d, !ok);
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

/* The block, its channel and its first works; false: an earlier launch was aborted. */
DEV_FN bool dev_block_begin(struct dev *d, struct dev_block *b, const struct dev_args *args,
			    int channel, struct dev_works *s)
{
	s->next = s->count = 0;
	s->end = MIN_OF(args->work_count, DEV_ARGS_WORKS);
	if (channel < 0)
		dev_trap(d, "core/device: the launch has more blocks than channels");
	dev_block_load(d, b, args, channel);
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

DEV_FN void dev_collective(struct dev *d, const struct dev_args *args, enum dev_proto proto)
{
	struct dev_block *b = (struct dev_block *)dev_shared(d);
	int channel = dev_channel_of_block(args->channel_mask, dev_block(d));
	struct dev_works s;
	bool ok = dev_block_begin(d, b, args, channel, &s);

	while (ok && s.count) {
		for (uint32_t i = 0; ok && i < s.count; i++)
			ok = dev_run_work(d, b, &b->work[i], channel, proto);
		if (ok)
			dev_works_next(d, b, args, channel, &s);
	}
	dev_works_consumed(d, args, channel);
	if (dev_thread(d) != 0)
		return;
	if (ok)
		dev_ring_save(d, args, b, channel);
	else
		dev_block_abandon(d, b, channel);
}

DEV_FN void dev_collective_simple(struct dev *d, const struct dev_args *args)
{
	dev_collective(d, args, DEV_SIMPLE);
}

DEV_FN void dev_collective_ll(struct dev *d, const struct dev_args *args)
{
	dev_collective(d, args, DEV_LL);
}

DEV_FN void dev_collective_ll128(struct dev *d, const struct dev_args *args)
{
	dev_collective(d, args, DEV_LL128);
}

DEV_FN void dev_messages(struct dev *d, const struct dev_args *args)
{
	struct dev_block *b = (struct dev_block *)dev_shared(d);
	int channel = dev_channel_of_block(args->channel_mask, dev_block(d));
	struct dev_works s;
	bool ok = dev_block_begin(d, b, args, channel, &s);
	uint32_t works;

	while (ok && s.count) {
		works = dev_batch_works(b, s.count);
		if (works < s.count)
			s.next = b->at[works]; /* the next batch is loaded as a whole */
		ok = dev_run_batch(d, b, works);
		if (ok)
			dev_works_next(d, b, args, channel, &s);
	}
	dev_works_consumed(d, args, channel);
	if (!ok && dev_thread(d) == 0)
		dev_block_abandon(d, b, channel);
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
DEV_KERNEL(dev_messages, dev_args, sizeof(struct dev_block))
DEV_KERNEL(dev_one_rank, dev_work, 0)
