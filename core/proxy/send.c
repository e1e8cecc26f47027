/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A send operation: the kernel fills slots, this hands them to the network and gives them back.
 * See struct proxy_run for the counts.
 */
#include "core/base/log.h"
#include "core/proxy/proxy_internal.h"

static struct dev_fifo_slot *proxy_send_slot(struct proxy_conn *pc, uint64_t step)
{
	return &pc->recv_mem->fifo[step % DEV_STEPS];
}

/* Shows the kernel how far slots are free. A step below base never had data: the kernel skipped
 * it too. */
static void proxy_send_grant(struct proxy_conn *pc, bool *moved)
{
	struct proxy_run *run = &pc->run;
	/* rare: one slice on the wire at a time, as with a full send queue */
	bool one = OS_BUGGIFY("proxy.send_one_slot", "one slice on the wire at a time");
	uint32_t depth = one ? run->op.slice_steps : DEV_STEPS;
	uint64_t most = MIN_OF(run->op.nsteps, run->done + depth);
	uint64_t head = run->base + run->done;

	if (pc->head_shown != head) {
		pc->head_shown = head;
		shared_store_u64(&pc->send_mem->head, head, SHARED_RELEASE);
		*moved = true;
	}
	if (run->posted < most) {
		run->posted = most;
		*moved = true;
	}
	ASSERT(run->posted <= run->done + DEV_STEPS);
}

/* Has the kernel filled the slice at run->transmitted? */
static bool proxy_send_filled(struct proxy_conn *pc, uint32_t *size, uint32_t *offset)
{
	struct proxy_run *run = &pc->run;
	uint64_t step = run->base + run->transmitted, full = step + run->op.slice_steps;
	struct dev_fifo_slot *slot = proxy_send_slot(pc, step);
	struct wait w = {
		.mask = WAIT_MASK_ALL,
		.from = {.rank = pc->rank,
			 .channel = pc->channel,
			 .step = (int64_t)step,
			 .object = "kernel"},
	};

	uint64_t tail = shared_load_u64(&pc->recv_mem->tail, SHARED_ACQUIRE);

	ASSERT(tail <= run->base + run->done + DEV_STEPS); /* the kernel has no more credit */
	if (tail < full) {
		w.on = &pc->recv_mem->tail;
		w.want = full;
		w.kind = WAIT_GE;
		w.bytes = 8;
		w.why = "the kernel to fill a slot";
		*proxy_run_wait(run) = w;
		return false;
	}
	*size = shared_load_u32(&slot->size, SHARED_ACQUIRE);
	if (*size == DEV_FIFO_SIZE_NONE) {
		w.on = &slot->size;
		w.want = DEV_FIFO_SIZE_NONE;
		w.kind = WAIT_NE;
		w.bytes = 4;
		w.why = "the kernel to write a slot's size";
		*proxy_run_wait(run) = w;
		return false;
	}
	*offset = shared_load_u32(&slot->offset, SHARED_RELAXED);
	return true;
}

static ncclResult_t proxy_send_slot_check(const struct proxy_conn *pc, uint32_t size,
					  uint32_t offset)
{
	if (size <= pc->run.op.slice_steps * (uint64_t)pc->step_bytes &&
	    offset <= pc->buffer_bytes && size <= pc->buffer_bytes - offset)
		return ncclSuccess;
	WARN("rank %d -> rank %d channel %d: the kernel wrote a slot of %u bytes at offset %u of a "
	     "buffer of %zu",
	     pc->rank, pc->peer, pc->channel, size, offset, pc->buffer_bytes);
	return ncclInternalError;
}

/* Hands the next filled slice to the network. */
static ncclResult_t proxy_send_transmit(struct proxy_conn *pc, bool *moved)
{
	struct proxy_run *run = &pc->run;
	uint64_t step = run->base + run->transmitted;
	struct net_request *req = NULL;
	uint32_t size, offset;
	uint64_t from_ns;
	struct wait w;
	ncclResult_t rc;

	if (run->transmitted == run->posted || !proxy_send_filled(pc, &size, &offset))
		return ncclSuccess;
	os_self()->step = (int64_t)step;
	rc = proxy_send_slot_check(pc, size, offset);
	from_ns = proxy_trace_send_begins(pc, step);
	if (!rc)
		rc = pc->proxy->net->isend(pc->net_comm, pc->buffer + offset, size, pc->mr, &req,
					   &w);
	proxy_trace_send_ends(pc, step, size, !rc && req, from_ns);
	if (rc)
		return rc;
	if (!req) {
		w.from.step = (int64_t)step;
		*proxy_run_wait(run) = w;
		return ncclSuccess;
	}
	run->req[step % DEV_STEPS] = req;
	run->transmitted += run->op.slice_steps;
	OS_PROBE("proxy.send_all_in_flight", "every slot of a sender is on the wire",
		 run->transmitted - run->done == DEV_STEPS);
	*moved = true;
	os_trace("proxy.send", (uint64_t)pc->rank << 32 | (uint32_t)pc->peer,
		 (uint64_t)pc->channel << 32 | size, step);
	return ncclSuccess;
}

/* The oldest slice in flight: when it is there, its slot is free. */
static ncclResult_t proxy_send_complete(struct proxy_conn *pc, bool *moved)
{
	struct proxy_run *run = &pc->run;
	uint64_t step = run->base + run->done;
	size_t bytes;
	struct wait w;
	bool done;
	ncclResult_t rc;

	if (run->done == run->transmitted)
		return ncclSuccess;
	os_self()->step = (int64_t)step;
	rc = pc->proxy->net->test(run->req[step % DEV_STEPS], &done, &bytes, &w);
	if (rc)
		return rc;
	if (!done) {
		w.from.step = (int64_t)step;
		*proxy_run_wait(run) = w;
		return ncclSuccess;
	}
	run->req[step % DEV_STEPS] = NULL;
	/* Before the head says that the slot is free: afterwards the kernel writes the size. */
	shared_store_u32(&proxy_send_slot(pc, step)->size, DEV_FIFO_SIZE_NONE, SHARED_RELAXED);
	run->done += run->op.slice_steps;
	*moved = true;
	os_progress();
	os_trace("proxy.sent", (uint64_t)pc->rank << 32 | (uint32_t)pc->peer, (uint64_t)pc->channel,
		 step);
	return ncclSuccess;
}

ncclResult_t proxy_send_step(struct proxy_conn *pc, bool *moved)
{
	ncclResult_t rc;

	proxy_send_grant(pc, moved);
	rc = proxy_send_transmit(pc, moved);
	if (!rc)
		rc = proxy_send_complete(pc, moved);
	if (!rc)
		proxy_send_grant(pc, moved);
	return rc;
}
