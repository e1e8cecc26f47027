/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a kernel shows that it has filled a slice, by protocol.
 *
 *   SIMPLE   the tail shows it, and the fifo has the slice's size and offset
 *   LL128    same as SIMPLE: lines may arrive torn in a slot
 *   LL       the fifo has the size, written before the data; a line's flags show that the line is
 *            filled, and lines fill in any order
 */
#include "core/proxy/proxy_internal.h"

/* Returns the size that the kernel wrote for the slot at `step`. DEV_FIFO_SIZE_NONE: not yet
 * written, and *w is set. */
static uint32_t proxy_slot_size(const struct proxy_conn *pc, uint64_t step, struct wait *w)
{
	const shared_u32 *size = &pc->recv_mem->fifo[step % DEV_STEPS].size;
	uint32_t bytes = shared_load_u32(size, SHARED_ACQUIRE);

	if (bytes == DEV_FIFO_SIZE_NONE) {
		*w = proxy_kernel_wait(pc, size, WAIT_NE, DEV_FIFO_SIZE_NONE);
		w->bytes = sizeof *size;
		w->why = "the kernel to write a slot's size";
	}
	return bytes;
}

static bool proxy_simple_ready(struct proxy_conn *pc, uint64_t step, struct proxy_slice *slice,
			       struct wait *w)
{
	const struct proxy_run *run = &pc->run;
	uint64_t full = step + run->op.slice_steps;
	uint64_t tail = shared_load_u64(&pc->recv_mem->tail, SHARED_ACQUIRE);

	ASSERT(tail <= run->base + run->done + DEV_STEPS); /* the kernel's credit ends here */
	if (tail < full) {
		*w = proxy_kernel_wait(pc, &pc->recv_mem->tail, WAIT_GE, full);
		w->why = "the kernel to fill a slot";
		return false;
	}
	slice->bytes = proxy_slot_size(pc, step, w);
	if (slice->bytes == DEV_FIFO_SIZE_NONE)
		return false;
	slice->offset =
		shared_load_u32(&pc->recv_mem->fifo[step % DEV_STEPS].offset, SHARED_RELAXED);
	return true;
}

/* True if all lines of the slice are filled. Does not read lines again that it found filled
 * before. */
static bool proxy_lines_ready(struct proxy_conn *pc, uint64_t step, const struct proxy_slice *slice,
			      struct wait *w)
{
	const uint8_t *first = pc->buffer[DEV_LL].at + slice->offset, *next;
	uint32_t n = slice->bytes / DEV_LINE_BYTES, flag = DEV_LINE_FLAG(step);
	uint32_t *filled = &pc->run.lines;

	next = first + (size_t)*filled * DEV_LINE_BYTES;
	*filled += shared_lines_ready(next, n - *filled, flag);
	OS_PROBE("proxy.lines_partly", "some lines of a slot are filled, and others are not yet",
		 *filled && *filled < n);
	if (*filled == n)
		return true;
	*w = proxy_kernel_wait(pc, first + (size_t)*filled * DEV_LINE_BYTES, WAIT_LINE16, flag);
	w->mask = *filled;
	w->bytes = 0;
	w->why = "the kernel to fill a line";
	return false;
}

static bool proxy_ll_ready(struct proxy_conn *pc, uint64_t step, struct proxy_slice *slice,
			   struct wait *w)
{
	const struct proxy_buffer *b = &pc->buffer[DEV_LL];

	slice->offset = (uint32_t)(step % DEV_STEPS) * b->step_bytes;
	slice->bytes = proxy_slot_size(pc, step, w);
	if (slice->bytes == DEV_FIFO_SIZE_NONE)
		return false;
	/* The caller reports a size larger than a slot. */
	return slice->bytes > b->step_bytes || proxy_lines_ready(pc, step, slice, w);
}

const struct proxy_protocol proxy_protocols[DEV_PROTO_COUNT] = {
	[DEV_SIMPLE] = {.ready = proxy_simple_ready},
	[DEV_LL] = {.ready = proxy_ll_ready, .lines = true},
	[DEV_LL128] = {.ready = proxy_simple_ready},
};
