/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pairs of lines of 128 bytes (work.h) on a GPU: the *_pairs functions of shim.h, which includes
 * this file.
 *
 * Eight lanes move a pair at a time. A warp has four such groups, and each group moves two pairs. A
 * lane has four pieces of 16 bytes, two of each of its pairs: one in the pair's first line, and one
 * in the second line. Lane 7 of eight stores the flags instead of the second of them.
 */
#ifndef CORE_DEVICE_PAIRS_CUDA_H
#define CORE_DEVICE_PAIRS_CUDA_H

#include "core/device/shim/shim_cuda.h"

DOPPEL_STATIC_CHECK(DEV_WARP_PAIRS == DEV_WARP_WIDTH / 8 * 2,
		    "each group of lanes moves two pairs");
DOPPEL_STATIC_CHECK(DEV_LANE_WORDS * 8 == RC_VALUES * RC_PACK_BYTES,
		    "a lane's words are the packs that rc_values_dispatch reduces");

/* Returns the offset of the piece in the data of the warp. */
DEV_FN uint32_t dev_piece_at(uint32_t piece)
{
	uint32_t lane = threadIdx.x % DEV_WARP_WIDTH;

	return (lane / 8 + piece / 2 * 4) * DEV_PAIR_DATA + (lane % 8 + piece % 2 * 8) * 16;
}

DEV_FN bool dev_has_flags(void)
{
	return threadIdx.x % 8 == 7;
}

DEV_FN bool dev_has_piece(uint32_t piece)
{
	return piece % 2 == 0 || !dev_has_flags();
}

DEV_FN uint32_t dev_piece_bytes(uint32_t piece, uint32_t bytes)
{
	uint32_t at = dev_piece_at(piece);

	return !dev_has_piece(piece) || at >= bytes ? 0 : MIN_OF(bytes - at, 16u);
}

/* Pieces that are not full or not aligned. Not inlined: an array whose address is taken would be in
 * memory, even for a full piece. */
static __device__ __noinline__ ulonglong2 dev_get_elements(const uint8_t *from, uint32_t bytes,
							   uint32_t size)
{
	uint64_t v[2] = {0, 0};

	dev_move_elements(v, from, bytes, size);
	return make_ulonglong2(v[0], v[1]);
}

static __device__ __noinline__ void dev_put_elements(uint8_t *to, ulonglong2 v, uint32_t bytes,
						     uint32_t size)
{
	const uint64_t word[2] = {v.x, v.y};

	dev_move_elements(to, word, bytes, size);
}

DEV_FN void dev_unpack(uint64_t *to, uint4 v)
{
	to[0] = v.x | (uint64_t)v.y << 32;
	to[1] = v.z | (uint64_t)v.w << 32;
}

DEV_FN uint4 dev_pack(const uint64_t *from)
{
	return make_uint4((uint32_t)from[0], (uint32_t)(from[0] >> 32), (uint32_t)from[1],
			  (uint32_t)(from[1] >> 32));
}

/* Returns true if all pieces of the warp are full and aligned. */
DEV_FN bool dev_is_full(const void *p, uint32_t bytes)
{
	return bytes == DEV_WARP_DATA && (uintptr_t)p % RC_PACK_BYTES == 0;
}

DEV_FN void dev_get_pairs(struct dev *d, uint64_t *data, const void *from, uint32_t bytes,
			  uint32_t size)
{
	const uint8_t *base = (const uint8_t *)from;
	const bool full = dev_is_full(from, bytes);

#pragma unroll
	for (uint32_t i = 0; i < 4; i++) {
		ulonglong2 v = {0, 0};

		if (!full)
			v = dev_get_elements(base + dev_piece_at(i), dev_piece_bytes(i, bytes),
					     size);
		data[2 * i] = v.x;
		data[2 * i + 1] = v.y;
	}
	if (full)
#pragma unroll
		for (uint32_t i = 0; i < 4; i++)
			if (dev_has_piece(i))
				dev_unpack(data + 2 * i, rc_pack_load(base + dev_piece_at(i), 0));
}

DEV_FN void dev_put_pairs(struct dev *d, void *to, const uint64_t *data, uint32_t bytes,
			  uint32_t size)
{
	uint8_t *base = (uint8_t *)to;
	const bool full = dev_is_full(to, bytes);

#pragma unroll
	for (uint32_t i = 0; i < 4; i++) {
		if (full && dev_has_piece(i))
			rc_pack_store(base + dev_piece_at(i), 0, dev_pack(data + 2 * i));
		else if (!full && dev_piece_bytes(i, bytes))
			dev_put_elements(base + dev_piece_at(i),
					 make_ulonglong2(data[2 * i], data[2 * i + 1]),
					 dev_piece_bytes(i, bytes), size);
	}
}

DEV_FN void dev_reduce_pairs(struct dev *d, uint64_t *a, const uint64_t *b, uint32_t bytes,
			     enum dev_type type, enum dev_op op, uint64_t scale, bool post,
			     bool known)
{
	const bool divides = post && op == DEV_SUM_POSTDIV;
	struct rc_values x, y;

	if (!b && op != DEV_PREMUL_SUM && !divides)
		return;
#pragma unroll
	for (int i = 0; i < 4; i++) {
		x.v[i] = dev_pack(a + 2 * i);
		y.v[i] = dev_pack(b ? b + 2 * i : a + 2 * i);
	}
	x = known ? rc_values_known(x, y, type)
		  : rc_values_dispatch(x, y, b ? 2 : 1, type, op, scale, divides);
#pragma unroll
	for (int i = 0; i < 4; i++)
		dev_unpack(a + 2 * i, x.v[i]);
}

/* Returns the lane's part of its pair's first line. Its part of the second line is
 * DEV_LINE128_BYTES further. */
DEV_FN uint8_t *dev_pair_part(const void *lines, uint32_t pair)
{
	uint32_t lane = threadIdx.x % DEV_WARP_WIDTH;

	return (uint8_t *)lines + (lane / 8 + pair * 4) * DEV_PAIR_BYTES + lane % 8 * 16;
}

/* Returns true if the lane's pair has data. */
DEV_FN bool dev_has_pair(uint32_t pair, uint32_t bytes)
{
	return (threadIdx.x % DEV_WARP_WIDTH / 8 + pair * 4) * DEV_PAIR_DATA < bytes;
}

DEV_FN void dev_store_pairs(struct dev *d, void *p, const uint64_t *data, uint32_t bytes,
			    uint64_t flag)
{
#pragma unroll
	for (uint32_t i = 0; i < 2; i++) {
		struct v16 first = {data[4 * i], data[4 * i + 1]};
		struct v16 second = {data[4 * i + 2], data[4 * i + 3]};

		if (dev_has_flags()) {
			second.lo = first.hi;
			first.hi = second.hi = flag;
		}
		if (!dev_has_pair(i, bytes))
			continue;
		dev_store_line16(d, dev_pair_part(p, i), first);
		dev_store_line16(d, dev_pair_part(p, i) + DEV_LINE128_BYTES, second);
	}
}

/* Loads the lane's parts. Returns true if the flags among them are those of the step. */
DEV_FN bool dev_load_pairs(struct dev *d, const struct wait *w, struct v16 part[4], uint32_t bytes)
{
	bool there = true;

#pragma unroll
	for (uint32_t i = 0; i < 2; i++)
		if (dev_has_pair(i, bytes)) {
			part[2 * i] = dev_load_line16(d, dev_pair_part(w->on, i));
			part[2 * i + 1] =
				dev_load_line16(d, dev_pair_part(w->on, i) + DEV_LINE128_BYTES);
		}
#pragma unroll
	for (uint32_t i = 0; i < 4; i++)
		if (dev_has_pair(i / 2, bytes) && dev_has_flags())
			there = there && part[i].hi == w->want;
	return there;
}

DEV_FN bool dev_wait_pairs(struct dev *d, const struct wait *w, uint64_t *data, uint32_t bytes)
{
	struct v16 part[4] = {};
	uint32_t spins = 0;

	while (!dev_all(d, dev_load_pairs(d, w, part, bytes))) {
		if (++spins < DEV_ABORT_SPINS)
			continue;
		spins = 0;
		if (dev_any(d,
			    d->abort && dev_load_u32(d, d->abort, SHARED_RELAXED, SHARED_SYSTEM)))
			return false;
	}
#pragma unroll
	for (int i = 0; i < 2; i++) {
		data[4 * i] = part[2 * i].lo;
		data[4 * i + 1] = dev_has_flags() ? part[2 * i + 1].lo : part[2 * i].hi;
		data[4 * i + 2] = part[2 * i + 1].lo;
		data[4 * i + 3] = part[2 * i + 1].hi;
	}
	return true;
}

#endif
