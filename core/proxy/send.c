/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A send operation: the kernel fills slots; progress passes them to the network and frees them. See
 * struct proxy_run for the counts.
 */
#include "core/base/log.h"
#include "core/proxy/proxy_internal.h"

/* Shows the kernel which slots are free. A step below base never had data: the kernel skipped it
 * too. */
static void proxy_send_grant(struct proxy_conn *pc, bool *moved)
{
	struct proxy_run *run = &pc->run;
	/* Rare: one slice on the wire at a time, as with a full send queue. */
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
		for (; run->posted < most; run->posted += run->op.slice_steps)
			proxy_profile_step_begin(pc, run->base + run->posted,
						 PROFILER_SEND_GPU_WAIT);
		*moved = true;
	}
	ASSERT(run->posted <= run->done + DEV_STEPS);
}

static ncclResult_t proxy_send_slice_check(const struct proxy_conn *pc,
					   const struct proxy_slice *slice)
{
	const struct proxy_buffer *b = proxy_run_buffer(pc);

	if (slice->bytes <= pc->run.op.slice_steps * (uint64_t)b->step_bytes &&
	    slice->offset <= b->bytes && slice->bytes <= b->bytes - slice->offset)
		return ncclSuccess;
	WARN("rank %d -> rank %d channel %d: the kernel wrote a slot of %u bytes at offset %u of a "
	     "buffer of %zu",
	     pc->rank, pc->peer, pc->channel, slice->bytes, slice->offset, b->bytes);
	return ncclInternalError;
}

/* Passes the slice at `step` to the network. *req stays NULL if the receiver has sent no credit
 * yet; then *w is set. */
static ncclResult_t proxy_send_isend(struct proxy_conn *pc, uint64_t step,
				     const struct proxy_slice *slice, struct net_request **req,
				     struct wait *w)
{
	const struct proxy_buffer *b = proxy_run_buffer(pc);
	const struct net_buffer from = {.data = b->at + slice->offset,
					.bytes = slice->bytes,
					.mr = b->mr,
					.tag = (uint32_t)pc->channel,
					.type = pc->run.op.type,
					.op = pc->run.op.op,
					.step = proxy_profile_step_of(pc, step)};
	ncclResult_t rc = proxy_send_slice_check(pc, slice);
	uint64_t from_ns;

	if (rc)
		return rc;
	from_ns = proxy_trace_send_begins(pc, step);
	rc = pc->net->isend(pc->net_comm, &from, req, w);
	proxy_trace_send_ends(pc, step, slice->bytes, !rc && *req, from_ns);
	return rc;
}

/* Sends the next slice if it is filled. */
static ncclResult_t proxy_send_transmit(struct proxy_conn *pc, bool *moved)
{
	struct proxy_run *run = &pc->run;
	uint64_t step = run->base + run->transmitted;
	struct net_request *req = NULL;
	struct proxy_slice slice;
	struct wait w;
	ncclResult_t rc;

	if (run->transmitted == run->posted)
		return ncclSuccess;
	os_self()->step = (int64_t)step;
	if (!proxy_run_protocol(run)->ready(pc, step, &slice, &w)) {
		proxy_run_wait(run, step, &w);
		return ncclSuccess;
	}
	proxy_profile_step_state(pc, step, PROFILER_SEND_PEER_WAIT, slice.bytes);
	rc = proxy_send_isend(pc, step, &slice, &req, &w);
	if (rc)
		return rc;
	if (!req) {
		proxy_run_wait(run, step, &w);
		return ncclSuccess;
	}
	proxy_profile_step_state(pc, step, PROFILER_SEND_WAIT, slice.bytes);
	run->req[step % DEV_STEPS] = req;
	run->transmitted += run->op.slice_steps;
	run->lines = 0;
	OS_PROBE("proxy.send_all_in_flight", "every slot of a sender is on the wire",
		 run->transmitted - run->done == DEV_STEPS);
	*moved = true;
	os_trace("proxy.send", (uint64_t)pc->rank << 32 | (uint32_t)pc->peer,
		 (uint64_t)pc->channel << 32 | slice.bytes, step);
	return ncclSuccess;
}

/* Tests the oldest slice in flight. When it has arrived, its slot is free. */
static ncclResult_t proxy_send_complete(struct proxy_conn *pc, bool *moved)
{
	struct proxy_run *run = &pc->run;
	uint64_t step = run->base + run->done;
	size_t bytes;
	bool done;
	ncclResult_t rc;

	if (run->done == run->transmitted)
		return ncclSuccess;
	rc = proxy_run_test(pc, step, run->req[step % DEV_STEPS], &done, &bytes);
	if (rc || !done)
		return rc;
	run->req[step % DEV_STEPS] = NULL;
	proxy_profile_step_end(pc, step);
	/* Must precede the head that frees the slot: afterwards the kernel writes the size. */
	shared_store_u32(&pc->recv_mem->fifo[step % DEV_STEPS].size, DEV_FIFO_SIZE_NONE,
			 SHARED_RELAXED);
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
