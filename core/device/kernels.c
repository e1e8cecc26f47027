/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel. One block per channel of the launch: it finds its channel, brings the communicator
 * and the channel into shared memory, and runs every work whose range of channels includes it.
 * Launched by core/plan with one struct dev_args by value. Compiled once per warp width for
 * fakecuda, and through kernels.cu by nvcc.
 *
 * An aborted launch (the communicator's abort word) leaves quietly, its output undefined, and so do
 * those behind it. A communicator or a work of another layout, or one that does not fit its connections, traps.
 */
#include "core/device/all_reduce.h"

DEV_FN int dev_channel_of_block(uint64_t mask, uint32_t block)
{
	for (int channel = 0; channel < DEV_MAX_CHANNELS; channel++)
		if ((mask >> channel & 1) && block-- == 0)
			return channel;
	return -1;
}

/* By one thread; a barrier follows. */
DEV_FN void dev_block_load(struct dev *d, struct dev_block *b, uint64_t comm, int channel)
{
	dev_copy_in(d, &b->comm, (const void *)(uintptr_t)comm, sizeof b->comm);
	b->aborted = 0;
	if (b->comm.magic != DEV_COMM_MAGIC || channel < 0 || channel >= b->comm.nchannels)
		return;
	dev_copy_in(d, &b->channel,
		    (const struct dev_channel *)(uintptr_t)b->comm.channels + channel,
		    sizeof b->channel);
}

/* The steps go back to global memory, where the next launch finds them. */
DEV_FN void dev_block_save(struct dev *d, const struct dev_block *b, int channel)
{
	struct dev_channel *home = (struct dev_channel *)(uintptr_t)b->comm.channels + channel;

	dev_copy_out(d, &home->ring_recv.step, &b->channel.ring_recv.step, sizeof(uint64_t));
	dev_copy_out(d, &home->ring_send.step, &b->channel.ring_send.step, sizeof(uint64_t));
}

/* An aborted launch leaves the steps where they were, and filled slots that an HCA still reads: a
 * launch behind it would fill them again. It finds this, and moves nothing. */
DEV_FN void dev_block_abandon(struct dev *d, struct dev_block *b, int channel)
{
	struct dev_channel *home = (struct dev_channel *)(uintptr_t)b->comm.channels + channel;

	b->channel.aborted = 1;
	dev_copy_out(d, &home->aborted, &b->channel.aborted, sizeof home->aborted);
}

DEV_FN bool dev_work_valid(const struct dev_block *b, const struct dev_work *w,
			   const struct steps_part *part, uint32_t block_warps)
{
	uint64_t chunk_bytes = (uint64_t)part->chunk * steps_type_bytes(w->type);
	uint64_t room = (uint64_t)DEV_CHUNK_STEPS *
			MIN_OF(b->channel.ring_send.step_bytes, b->channel.ring_recv.step_bytes);

	if (w->func != DEV_ALL_REDUCE || w->algo != DEV_RING || w->proto != DEV_SIMPLE)
		return false;
	if (w->type >= DEV_TYPE_COUNT || w->op >= DEV_OP_COUNT || b->comm.nranks < 2)
		return false;
	if (w->nwarps == 0 || w->nwarps > block_warps)
		return false;
	return part->count == 0 || (chunk_bytes && chunk_bytes % 16 == 0 && chunk_bytes <= room);
}

DEV_FN void dev_prim_init(struct prim *p, struct dev *d, struct dev_block *b,
			  const struct dev_work *w)
{
	p->d = d;
	p->block = b;
	p->thread = dev_thread(d);
	p->threads = (uint32_t)w->nwarps * DEV_WARP_WIDTH;
	p->recv_step = ALIGN_UP(b->channel.ring_recv.step, DEV_CHUNK_STEPS);
	p->send_step = ALIGN_UP(b->channel.ring_send.step, DEV_CHUNK_STEPS);
	p->tail_seen = p->head_seen = 0;
	p->input = (const uint8_t *)(uintptr_t)w->send;
	p->output = (uint8_t *)(uintptr_t)w->recv;
	p->type = (enum dev_type)w->type;
	p->op = (enum dev_op)w->op;
	p->type_bytes = steps_type_bytes(w->type);
	p->pad0 = 0;
	p->scale = w->scale;
}

/* By all threads of the block; those beyond the work's warps have nothing to do. */
DEV_FN bool dev_run_work(struct dev *d, struct dev_block *b, const struct dev_work *w, int channel)
{
	struct steps_part part = steps_part_of(w, channel);
	struct prim p;

	if (!dev_work_valid(b, w, &part, dev_warps(d)))
		dev_trap(d, "dev_collective: this work is not one that the kernel can run");
	dev_work_begins(d, "all_reduce", w->op_count);
	dev_prim_init(&p, d, b, w);
	if (p.thread < p.threads)
		all_reduce_ring(&p, &part, b->comm.nranks);
	dev_barrier(d);
	if (p.thread == 0) {
		b->channel.ring_recv.step = p.recv_step;
		b->channel.ring_send.step = p.send_step;
	}
	dev_barrier(d);
	return !b->aborted;
}

DEV_FN void dev_collective(struct dev *d, const struct dev_args *args)
{
	struct dev_block *b = (struct dev_block *)dev_shared(d);
	int channel = dev_channel_of_block(args->channel_mask, dev_block(d));

	if (dev_thread(d) == 0)
		dev_block_load(d, b, args->comm, channel);
	dev_barrier(d);
	if (b->comm.magic != DEV_COMM_MAGIC || b->comm.warp_width != DEV_WARP_WIDTH)
		dev_trap(d, "dev_collective: host and kernel were not built from one work.h");
	if (channel < 0 || channel >= b->comm.nchannels || args->work_count > DEV_WORKS_PER_LAUNCH)
		dev_trap(d, "dev_collective: the launch names channels or works that do not exist");
	dev_set_abort(d, (const shared_u32 *)(uintptr_t)b->comm.abort);
	/* not b->aborted: faster threads may be waiting already, and change it */
	if (b->channel.aborted)
		return;
	for (uint32_t i = 0; i < args->work_count; i++) {
		const struct dev_work *w = &args->work[i];

		if (channel < w->channel_lo || channel > w->channel_hi)
			continue;
		if (!dev_run_work(d, b, w, channel)) {
			if (dev_thread(d) == 0)
				dev_block_abandon(d, b, channel);
			return;
		}
	}
	if (dev_thread(d) == 0)
		dev_block_save(d, b, channel);
}

DEV_KERNEL(dev_collective, dev_args, sizeof(struct dev_block))
