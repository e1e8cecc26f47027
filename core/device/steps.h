/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a channel's share of a collective becomes steps: the one derivation that the kernel
 * (core/device), the proxy's operations and the host's plan (core/plan, plan_steps) all use. Pure
 * functions, C17 and C++17, host and device. Follows reference/collectives.md, "Collective step
 * programs"; numbers are elements unless a name says bytes.
 *
 * Ring all-reduce over n ranks. A loop covers n chunks of the channel's share; the last loop, when
 * less is left, splits what is left in n chunks of alignUp(ceil(left / n), 16 bytes). Each loop
 * sends 2(n-1) chunks and receives as many, and each chunk takes DEV_CHUNK_STEPS steps of the
 * connection, whether it is full, short or empty. So
 *
 *   loops = ceil(share / (n * chunk)),  steps = loops * 2(n-1) * DEV_CHUNK_STEPS
 *
 * on every connection of the channel, send and receive alike.
 */
#ifndef CORE_DEVICE_STEPS_H
#define CORE_DEVICE_STEPS_H

#include "core/device/work.h"

#ifdef __CUDACC__
#define STEPS_FN static inline __host__ __device__
#else
#define STEPS_FN static inline
#endif

/* A channel's share of one work. */
struct steps_part {
	uint64_t offset, count; /* in the user's buffers */
	uint32_t chunk;
	uint32_t pad0;
};

STEPS_FN uint32_t steps_type_bytes(int type)
{
	switch (type) {
	case DEV_I8:
	case DEV_U8:
	case DEV_F8E4M3:
	case DEV_F8E5M2:
		return 1;
	case DEV_F16:
	case DEV_BF16:
		return 2;
	case DEV_I32:
	case DEV_U32:
	case DEV_F32:
		return 4;
	default:
		return 8;
	}
}

/* The share of `channel`, which lies in channel_lo..channel_hi. */
STEPS_FN struct steps_part steps_part_of(const struct dev_work *w, int channel)
{
	struct steps_part p;
	p.pad0 = 0;
	if (channel == w->channel_lo) {
		p.offset = 0;
		p.count = w->count_lo;
		p.chunk = w->chunk_lo;
	} else if (channel == w->channel_hi) {
		p.offset = w->count - w->count_hi;
		p.count = w->count_hi;
		p.chunk = w->chunk_hi;
	} else {
		p.offset = w->count_lo + (uint64_t)(channel - w->channel_lo - 1) * w->count_mid;
		p.count = w->count_mid;
		p.chunk = w->chunk_mid;
	}
	return p;
}

STEPS_FN uint64_t steps_ring_loops(uint64_t count, uint32_t chunk, int nranks)
{
	uint64_t loop = (uint64_t)nranks * chunk;
	return loop ? (count + loop - 1) / loop : 0;
}

/* Chunk of the loop that starts when `left` elements of the share remain. */
STEPS_FN uint64_t steps_ring_chunk(uint64_t left, uint32_t chunk, int nranks, uint32_t type_bytes)
{
	if (left >= (uint64_t)nranks * chunk)
		return chunk;
	uint64_t grain = 16 / type_bytes;
	uint64_t each = (left + nranks - 1) / nranks;
	return (each + grain - 1) / grain * grain;
}

/* Steps of one ring all-reduce on each connection of a channel with this share. */
STEPS_FN uint64_t steps_ring_all_reduce(uint64_t count, uint32_t chunk, int nranks)
{
	return steps_ring_loops(count, chunk, nranks) * 2 * (uint64_t)(nranks - 1) *
	       DEV_CHUNK_STEPS;
}

/* Elements in each slice of a chunk of `count` elements; the last slice of the chunk gets what is
 * left, maybe nothing. At least a 32nd of a full slice, so that short chunks are not cut up. */
STEPS_FN uint64_t steps_slice(uint64_t count, uint32_t step_elements)
{
	const uint64_t slices = DEV_CHUNK_STEPS / DEV_SLICE_STEPS;
	uint64_t even = (count + 16 * slices - 1) / (16 * slices) * 16;
	uint64_t least = (uint64_t)step_elements * DEV_SLICE_STEPS / 32;
	return even > least ? even : least;
}

#endif
