/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pairs of lines of 128 bytes (work.h) on the double: the *_pairs functions of shim.h, which
 * includes this file.
 *
 * One lane of a warp stores and loads the lines, from or into an array of the warp's data in the
 * order of the user's buffers. With width 1 that array is the words of the lane itself. With width
 * 32 the lanes copy their pieces of 16 bytes to and from the array; a lane has the same pieces as
 * on a GPU. The lanes synchronize before and after that.
 */
#ifndef CORE_DEVICE_PAIRS_FAKE_H
#define CORE_DEVICE_PAIRS_FAKE_H

#include "core/device/shim/shim_fake.h"

enum { PAIRS_WORDS = DEV_WARP_DATA / 8 };
DOPPEL_STATIC_CHECK(DEV_WARP_PAIRS <= DEV_WARP_PAIRS_MOST &&
			    DEV_WARP_DATA <= DEV_LANE_WORDS * 8 * DEV_WARP_WIDTH,
		    "the lanes' words hold the data of a warp's pairs");

static inline uint32_t pairs_count(uint32_t bytes)
{
	ASSERT(bytes <= DEV_WARP_DATA);
	return DIV_UP(bytes, DEV_PAIR_DATA);
}

/* Called by one lane. */
DEV_FN void pairs_store(struct dev *d, void *p, const uint64_t *data, uint32_t bytes, uint64_t flag)
{
	fakedev_pairs_store(d, p, data, pairs_count(bytes), flag);
}

/* Called by one lane. Waits for the first line that is not filled yet. */
DEV_FN bool pairs_wait(struct dev *d, const struct wait *first, uint64_t *data, uint32_t bytes)
{
	const uint8_t *from = (const uint8_t *)first->on;
	uint32_t lines = 2 * pairs_count(bytes), done;
	struct wait w = *first;

	done = fakedev_pairs_load(d, from, w.want, data, 0, lines);
	while (done < lines) {
		w.on = from + (done + 1) * DEV_LINE128_BYTES - 8;
		if (!fakedev_wait(d, &w, NULL))
			return false;
		done = fakedev_pairs_load(d, from, w.want, data, done, lines);
	}
	return true;
}

#if DEV_WARP_WIDTH == 1

static inline void dev_store_pairs(struct dev *d, void *p, const uint64_t *data, uint32_t bytes,
				   uint64_t flag)
{
	pairs_store(d, p, data, bytes, flag);
}

static inline bool dev_wait_pairs(struct dev *d, const struct wait *w, uint64_t *data,
				  uint32_t bytes)
{
	return pairs_wait(d, w, data, bytes);
}

static inline void dev_get_pairs(struct dev *d, uint64_t *data, const void *from, uint32_t bytes,
				 uint32_t size)
{
	(void)size;
	memset(data + bytes / 8, 0, DEV_WARP_DATA - bytes / 8 * 8);
	dev_copy_in(d, data, from, bytes);
}

static inline void dev_put_pairs(struct dev *d, void *to, const uint64_t *data, uint32_t bytes,
				 uint32_t size)
{
	(void)size;
	dev_copy_out(d, to, data, bytes);
}

static inline void dev_reduce_pairs(struct dev *d, uint64_t *a, const uint64_t *b, uint32_t bytes,
				    enum dev_type type, enum dev_op op, uint64_t scale, bool post,
				    bool known)
{
	dev_reduce_data(d, a, b, bytes, type, op, scale, post, known);
}

#else

/* ---- a lane's pieces, as in pairs_cuda.h ----------------------------------------------------- */

static inline uint32_t pairs_piece_at(const struct dev *d, uint32_t piece)
{
	uint32_t lane = dev_lane(d);

	return (lane / 8 + piece / 2 * 4) * DEV_PAIR_DATA + (lane % 8 + piece % 2 * 8) * 16;
}

/* Lane 7 of eight has the flags in the place of two pieces. */
static inline uint32_t pairs_piece_bytes(const struct dev *d, uint32_t piece, uint32_t bytes)
{
	uint32_t at = pairs_piece_at(d, piece);

	if ((piece % 2 == 1 && dev_lane(d) % 8 == 7) || at >= bytes)
		return 0;
	return MIN_OF(bytes - at, 16u);
}

/* ---- the warp's array, which is on its first lane's stack ------------------------------------ */

/* Copies the lane's pieces into the array, including those beyond the end of the data. */
static inline void pairs_bring(const struct dev *d, uint64_t *all, const uint64_t *data)
{
	for (uint32_t i = 0; i < 4; i++)
		memcpy((uint8_t *)all + pairs_piece_at(d, i), data + 2 * i,
		       pairs_piece_bytes(d, i, DEV_WARP_DATA));
}

static inline void pairs_take(const struct dev *d, uint64_t *data, const uint64_t *all)
{
	memset(data, 0, DEV_LANE_WORDS * sizeof *data);
	for (uint32_t i = 0; i < 4; i++)
		memcpy(data + 2 * i, (const uint8_t *)all + pairs_piece_at(d, i),
		       pairs_piece_bytes(d, i, DEV_WARP_DATA));
}

DEV_FN void dev_store_pairs(struct dev *d, void *p, const uint64_t *data, uint32_t bytes,
			    uint64_t flag)
{
	uint64_t mine[PAIRS_WORDS];
	uint64_t *all = (uint64_t *)(uintptr_t)dev_shuffle_u64(d, (uintptr_t)mine, 0);

	pairs_bring(d, all, data);
	dev_warp_sync(d);
	if (dev_lane(d) == 0)
		pairs_store(d, p, all, bytes, flag);
}

DEV_FN bool dev_wait_pairs(struct dev *d, const struct wait *w, uint64_t *data, uint32_t bytes)
{
	uint64_t mine[PAIRS_WORDS] = {0};
	const uint64_t *all = (const uint64_t *)(uintptr_t)dev_shuffle_u64(d, (uintptr_t)mine, 0);
	bool aborted = dev_lane(d) == 0 && !pairs_wait(d, w, mine, bytes);

	if (dev_any(d, aborted))
		return false;
	pairs_take(d, data, all);
	dev_warp_sync(d);
	return true;
}

DEV_FN void dev_get_pairs(struct dev *d, uint64_t *data, const void *from, uint32_t bytes,
			  uint32_t size)
{
	(void)size;
	memset(data, 0, DEV_LANE_WORDS * sizeof *data);
	for (uint32_t i = 0; i < 4; i++) {
		uint32_t n = pairs_piece_bytes(d, i, bytes);

		if (n)
			dev_copy_in(d, data + 2 * i, (const uint8_t *)from + pairs_piece_at(d, i),
				    n);
	}
}

DEV_FN void dev_put_pairs(struct dev *d, void *to, const uint64_t *data, uint32_t bytes,
			  uint32_t size)
{
	(void)size;
	for (uint32_t i = 0; i < 4; i++) {
		uint32_t n = pairs_piece_bytes(d, i, bytes);

		if (n)
			dev_copy_out(d, (uint8_t *)to + pairs_piece_at(d, i), data + 2 * i, n);
	}
}

static inline void dev_reduce_pairs(struct dev *d, uint64_t *a, const uint64_t *b, uint32_t bytes,
				    enum dev_type type, enum dev_op op, uint64_t scale, bool post,
				    bool known)
{
	(void)bytes;
	dev_reduce_data(d, a, b, DEV_LANE_WORDS * 8, type, op, scale, post, known);
}

#endif
#endif
