/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a kernel shows that it has filled a slice, by protocol. SIMPLE: the tail shows it, and the fifo
 * has the slice's size and place. A protocol whose data carries flags has functions of its own here.
 */
#include "core/proxy/proxy_internal.h"

static bool proxy_simple_ready(const struct proxy_conn *pc, uint64_t step,
			       struct proxy_slice *slice, struct wait *w)
{
	const struct proxy_run *run = &pc->run;
	struct dev_fifo_slot *slot = &pc->recv_mem->fifo[step % DEV_STEPS];
	uint64_t full = step + run->op.slice_steps;
	uint64_t tail = shared_load_u64(&pc->recv_mem->tail, SHARED_ACQUIRE);

	ASSERT(tail <= run->base + run->done + DEV_STEPS); /* the kernel has no more credit */
	if (tail < full) {
		*w = proxy_kernel_wait(pc, &pc->recv_mem->tail, WAIT_GE, full);
		w->why = "the kernel to fill a slot";
		return false;
	}
	slice->bytes = shared_load_u32(&slot->size, SHARED_ACQUIRE);
	if (slice->bytes == DEV_FIFO_SIZE_NONE) {
		*w = proxy_kernel_wait(pc, &slot->size, WAIT_NE, DEV_FIFO_SIZE_NONE);
		w->bytes = sizeof slot->size;
		w->why = "the kernel to write a slot's size";
		return false;
	}
	slice->offset = shared_load_u32(&slot->offset, SHARED_RELAXED);
	return true;
}

static uint8_t *proxy_simple_address(const struct proxy_conn *pc, const struct proxy_slice *slice)
{
	return pc->buffer + slice->offset;
}

const struct proxy_protocol proxy_protocols[DEV_PROTO_COUNT] = {
	[DEV_SIMPLE] = {.ready = proxy_simple_ready, .address = proxy_simple_address},
};
