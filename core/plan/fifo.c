/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/plan/fifo.h"

#include <errno.h>
#include <string.h>

#include "core/base/log.h"
#include "core/mem/mem.h"

/* The words of the channels come before the works. */
#define PLAN_FIFO_WORDS 4096u
DOPPEL_STATIC_CHECK(DEV_MAX_CHANNELS * sizeof(shared_u64) <= PLAN_FIFO_WORDS, "the words fit");

ncclResult_t plan_fifo_make(struct plan_fifo *f, uint64_t bytes)
{
	void *mem = NULL;
	ncclResult_t rc;

	*f = (struct plan_fifo){.bytes = bytes / PLAN_FIFO_ALIGN * PLAN_FIFO_ALIGN};
	rc = mem_host_alloc(&mem, PLAN_FIFO_WORDS + f->bytes,
			    "the FIFO of works (NCCL_WORK_FIFO_BYTES)");
	if (rc)
		return rc;
	f->mem = (uint8_t *)mem + PLAN_FIFO_WORDS;
	f->consumed = mem;
	/* plain stores suffice: no kernel has these words before the first launch */
	memset(mem, 0, PLAN_FIFO_WORDS);
	return ncclSuccess;
}

void plan_fifo_free(struct plan_fifo *f)
{
	(void)mem_host_free(f->consumed, "the FIFO of works");
	*f = (struct plan_fifo){.mem = NULL};
}

/* ---- the piece of one launch ----------------------------------------------------------------- */

/* Bytes before the works. Holds for any number of blocks. */
static uint64_t plan_fifo_head_bytes(uint64_t runs)
{
	return ALIGN_UP(DEV_MAX_CHANNELS * sizeof(struct dev_share) + runs * sizeof(uint16_t),
			(uint64_t)PLAN_FIFO_ALIGN);
}

static uint64_t plan_fifo_piece_bytes(int32_t works, uint64_t runs)
{
	return plan_fifo_head_bytes(runs) + (uint64_t)works * sizeof(struct dev_work);
}

bool plan_fifo_fits(const struct plan_fifo *f, int32_t works, uint64_t runs)
{
	return works <= (int32_t)DEV_LAUNCH_WORKS &&
	       plan_fifo_piece_bytes(works, runs) <= f->bytes / 2;
}

static uint64_t plan_fifo_runs(const struct plan_works *works)
{
	uint64_t runs = 0;

	for (int32_t i = 0; i < works->n; i++)
		runs += works->work[i].channel_hi - works->work[i].channel_lo + 1u;
	return runs;
}

/* Returns the position of the piece. The rest of the ring is skipped if the piece does not fit
 * there. */
static uint64_t plan_fifo_begin(const struct plan_fifo *f, uint64_t bytes)
{
	uint64_t left = f->bytes - f->produced % f->bytes;

	return bytes <= left ? f->produced : f->produced + left;
}

/* Returns the position up to which the channel's blocks must have consumed, so that the bytes
 * before `position` are free. */
static uint64_t plan_fifo_want(const struct plan_fifo *f, int32_t channel, uint64_t position)
{
	return MIN_OF(position, f->sent[channel]);
}

bool plan_fifo_may_wait(const struct plan_fifo *f, int32_t works)
{
	const uint64_t most = plan_fifo_piece_bytes(1, DEV_MAX_CHANNELS);
	const uint64_t bytes = 2 * (uint64_t)works * most, end = f->produced + bytes;
	bool waits = bytes > f->bytes;

	for (int32_t c = 0; c < DEV_MAX_CHANNELS && end > f->bytes && !waits; c++)
		waits = shared_load_u64(&f->consumed[c], SHARED_ACQUIRE) <
			plan_fifo_want(f, c, end - f->bytes);
	return waits;
}

/* WAITS until no block of the channel reads the bytes before `position`. A kernel of a failed
 * communicator may never end, so the communicator's error also ends the wait and is returned. The
 * kernel may wait for the data of a failed rank, and this task may be the only one that can detect
 * the failure. */
static ncclResult_t plan_fifo_wait_channel(struct ncclComm *comm, struct plan_fifo *f,
					   int32_t channel, uint64_t position)
{
	const struct os_label label = {.what = "works consumed",
				       .rank = comm->rank,
				       .peer = -1,
				       .channel = channel,
				       .number = -1};
	const struct wait room =
		wait_word(&f->consumed[channel], 8, WAIT_GE, plan_fifo_want(f, channel, position),
			  "room in the FIFO of works",
			  wait_by(comm->rank, channel, "kernel of an earlier launch"));
	ncclResult_t rc = ncclSuccess;

	if (shared_load_u64(&f->consumed[channel], SHARED_ACQUIRE) >= room.want)
		return ncclSuccess;
	os_label(room.on, &label);
	while (!rc && shared_load_u64(&f->consumed[channel], SHARED_ACQUIRE) < room.want)
		rc = rank_wait_beside(comm, &room, 1);
	os_unlabel(room.on);
	return rc;
}

static ncclResult_t plan_fifo_wait(struct ncclComm *comm, struct plan_fifo *f, uint64_t end)
{
	ncclResult_t rc = ncclSuccess;

	OS_PROBE("plan.fifo_wraps", "works are written where earlier ones of the FIFO were",
		 end > f->bytes);
	if (end <= f->bytes)
		return ncclSuccess;
	for (int32_t c = 0; c < comm->launch_channels && !rc; c++)
		rc = plan_fifo_wait_channel(comm, f, c, end - f->bytes);
	return rc;
}

/* Writes the numbers of a channel's works; returns how many. */
static uint32_t plan_fifo_numbers(const struct plan_works *works, int32_t channel, uint16_t *number)
{
	uint32_t n = 0;

	for (int32_t i = 0; i < works->n; i++)
		if (channel >= works->work[i].channel_lo && channel <= works->work[i].channel_hi)
			number[n++] = (uint16_t)i;
	return n;
}

static void plan_fifo_fill(const struct plan_works *works, uint8_t *piece, uint64_t head)
{
	struct dev_share *share = (struct dev_share *)piece;
	uint16_t *number = (uint16_t *)(share + DEV_MAX_CHANNELS);
	uint32_t block = 0, first = 0;

	for (int32_t c = 0; c < DEV_MAX_CHANNELS; c++) {
		if (!(works->channel_mask >> c & 1))
			continue;
		share[block].first = first;
		share[block].count = plan_fifo_numbers(works, c, number + first);
		first += share[block++].count;
	}
	shared_note_write(piece, head);
	shared_write(piece + head, works->work, (size_t)works->n * sizeof *works->work);
}

ncclResult_t plan_fifo_write(struct ncclComm *comm, struct plan_fifo *f,
			     const struct plan_works *works, struct dev_fifo *out)
{
	uint64_t runs = plan_fifo_runs(works), head = plan_fifo_head_bytes(runs);
	uint64_t bytes = plan_fifo_piece_bytes(works->n, runs);
	uint64_t begin = plan_fifo_begin(f, bytes);
	uint8_t *piece = f->mem + begin % f->bytes;
	ncclResult_t rc;

	ASSERT(f->mem && works->n > 0 && plan_fifo_fits(f, works->n, runs));
	*out = (struct dev_fifo){.work = NULL};
	rc = plan_fifo_wait(comm, f, begin + bytes);
	if (rc)
		return rc;
	plan_fifo_fill(works, piece, head);
	*out = (struct dev_fifo){
		.work = (const struct dev_work *)(piece + head),
		.share = (const struct dev_share *)piece,
		.number = (const uint16_t *)(piece + DEV_MAX_CHANNELS * sizeof(struct dev_share)),
		.consumed = f->consumed,
		.end = begin + bytes,
	};
	return ncclSuccess;
}

void plan_fifo_launched(struct plan_fifo *f, const struct plan_works *works,
			const struct dev_fifo *written)
{
	ASSERT(written->end > f->produced);
	f->produced = written->end;
	for (int32_t c = 0; c < DEV_MAX_CHANNELS; c++)
		if (works->channel_mask >> c & 1)
			f->sent[c] = written->end;
}
