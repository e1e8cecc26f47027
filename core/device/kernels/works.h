/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The works of a launch as one block sees them. The block copies its next works, at most a batch,
 * from the kernel's arguments or from the FIFO in pinned memory into its shared memory. Included by
 * kernels.c.
 */
#ifndef CORE_DEVICE_WORKS_H
#define CORE_DEVICE_WORKS_H

#include "core/device/kernels/run_messages.h"

/* The progress of a block through the works of its launch; the same in all its threads. Works are
 * counted by their place in the arguments, or by the place of their number in the FIFO. */
struct dev_works {
	uint32_t next, end;
	uint32_t count; /* in the block's shared memory */
	bool messages;  /* the block loads its parts of messages, with their connections */
};

DEV_FN bool dev_has_work(const struct dev_work *w, int channel)
{
	return channel >= w->channel_lo && channel <= w->channel_hi;
}

/* Copies the work at `at` to place n in shared memory. Called by one warp. */
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

/* Loads the block's next works, at most a batch. The warps share them, from the last warp on.
 * Called by all threads; a barrier must follow. */
DEV_FN void dev_works_load(struct dev *d, struct dev_block *b, const struct dev_args *args,
			   int channel, struct dev_works *s)
{
	uint32_t warp = dev_warps(d);

	s->count = 0;
	for (; s->next < s->end && s->count < DEV_BATCH_WORKS; s->next++) {
		if (!args->fifo.work && !dev_has_work(&args->work[s->next], channel))
			continue;
		if (dev_warp(d) == --warp) {
			dev_work_load(d, b, args, s->next, s->count);
			if (s->messages)
				dev_part_load(d, b, s->count, channel);
		}
		if (!warp)
			warp = dev_warps(d);
		s->count++;
	}
}

/* Loads the next works after those of the block have run. */
DEV_FN void dev_works_next(struct dev *d, struct dev_block *b, const struct dev_args *args,
			   int channel, struct dev_works *s)
{
	dev_works_load(d, b, args, channel, s);
	if (s->count)
		dev_barrier(d);
}

/* Frees the launch's piece of the FIFO for the host. Called after the barrier that follows the last
 * load. */
DEV_FN void dev_works_consumed(struct dev *d, const struct dev_args *args, int channel)
{
	if (args->fifo.work && dev_thread(d) == 0)
		dev_store_u64(d, args->fifo.consumed + channel, args->fifo.end, SHARED_RELEASE,
			      SHARED_SYSTEM);
}

/* ---- times of works ---------------------------------------------------------------------------
 * */

/* Stores the time of a work for the profiler. Called by one thread. A real function: inlined, it
 * would take registers from the code that moves data. */
DEV_FN_ONCE void dev_profile_store(struct dev *d, struct dev_profile *all, const struct dev_work *w,
				   int channel, bool ends)
{
	const uint32_t number =
		w->profile[0] | (uint32_t)w->profile[1] << 8 | (uint32_t)w->profile[2] << 16;
	struct dev_profile *p = all + channel;
	struct dev_profile_entry *e = (ends ? p->ended : p->began) + number % DEV_PROFILE_ENTRIES;

	if (!number)
		return;
	const uint64_t ns = dev_now_ns(d);

	dev_store_u64(d, &e->ns, ns, SHARED_RELAXED, SHARED_SYSTEM);
	dev_store_u64(d, &e->mark, DEV_PROFILE_MARK(number, ns), SHARED_RELEASE, SHARED_SYSTEM);
}

/* Brackets the run of `n` works of the block. Called by all threads. Without a profiler it is one
 * branch, the same for all threads of the block. The barrier keeps other threads from loading the
 * next works over these. */
DEV_FN void dev_profile_works(struct dev *d, struct dev_block *b, const struct dev_work *w,
			      uint32_t n, int channel, bool ends)
{
	if (!b->comm.profile)
		return;
	for (uint32_t i = 0; i < n && dev_thread(d) == 0; i++)
		dev_profile_store(d, b->comm.profile, w + i, channel, ends);
	if (ends)
		dev_barrier(d);
}

#endif
