/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A receive operation: receives are posted into free slots; what came in is flushed where GPU
 * memory needs it, shown to the kernel, and the slot is free when the kernel has taken it. See
 * struct proxy_run for the counts.
 */
#include "core/base/log.h"
#include "core/proxy/proxy_internal.h"

static uint8_t *proxy_recv_slot(struct proxy_conn *pc, uint64_t step)
{
	return pc->buffer + (step % DEV_STEPS) * (size_t)pc->step_bytes;
}

static ncclResult_t proxy_recv_post(struct proxy_conn *pc, bool *moved)
{
	struct proxy_run *run = &pc->run;
	uint64_t step = run->base + run->posted;
	size_t bytes = (size_t)run->op.slice_steps * pc->step_bytes;
	struct net_request *req = NULL;
	/* rare: one receive at a time, so that the sender always waits to be cleared */
	bool one = OS_BUGGIFY("proxy.recv_one_slot", "one receive posted at a time");
	uint32_t depth = one ? run->op.slice_steps : DEV_STEPS;
	struct wait w;
	ncclResult_t rc;

	if (run->posted == run->op.nsteps || run->posted + run->op.slice_steps > run->done + depth)
		return ncclSuccess;
	os_self()->step = (int64_t)step;
	rc = pc->proxy->net->irecv(pc->net_comm, proxy_recv_slot(pc, step), bytes, pc->mr, &req,
				   &w);
	if (rc)
		return rc;
	if (!req) {
		w.from.step = (int64_t)step;
		*proxy_run_wait(run) = w;
		return ncclSuccess;
	}
	run->req[step % DEV_STEPS] = req;
	run->posted += run->op.slice_steps;
	*moved = true;
	return ncclSuccess;
}

static ncclResult_t proxy_recv_receive(struct proxy_conn *pc, bool *moved)
{
	struct proxy_run *run = &pc->run;
	uint64_t step = run->base + run->received;
	size_t bytes;
	struct wait w;
	bool done;
	ncclResult_t rc;

	if (run->received == run->posted)
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
	run->bytes[step % DEV_STEPS] = bytes;
	run->received += run->op.slice_steps;
	*moved = true;
	os_progress();
	os_trace("proxy.received", (uint64_t)pc->peer << 32 | (uint32_t)pc->rank,
		 (uint64_t)pc->channel << 32 | bytes, step);
	proxy_trace_received(pc, step, bytes);
	return ncclSuccess;
}

/* Before a running kernel may read what the NIC wrote, the NIC must have pushed it out; reading
 * one byte back does that. An empty slice needs none. */
static ncclResult_t proxy_recv_flush(struct proxy_conn *pc, bool *moved)
{
	struct proxy_run *run = &pc->run;
	uint64_t step = run->base + run->flushed;
	size_t bytes = run->bytes[step % DEV_STEPS];
	bool done = true;
	struct wait w;
	ncclResult_t rc = ncclSuccess;

	if (run->flushed == run->received)
		return ncclSuccess;
	os_self()->step = (int64_t)step;
	if (pc->flush && bytes && !run->flush_req) {
		rc = pc->proxy->net->iflush(pc->net_comm, proxy_recv_slot(pc, step), bytes, pc->mr,
					    &run->flush_req, &w);
		if (!rc && !run->flush_req)
			done = false;
	}
	if (!rc && run->flush_req)
		rc = pc->proxy->net->test(run->flush_req, &done, &bytes, &w);
	if (rc)
		return rc;
	OS_PROBE("proxy.flush_waits", "data is in, but not yet pushed out to GPU memory", !done);
	OS_PROBE("proxy.empty_slice", "a slice without data", !run->bytes[step % DEV_STEPS]);
	if (!done) {
		w.from.step = (int64_t)step;
		*proxy_run_wait(run) = w;
		return ncclSuccess;
	}
	run->flush_req = NULL;
	run->flushed += run->op.slice_steps;
	*moved = true;
	return ncclSuccess;
}

static void proxy_recv_transmit(struct proxy_conn *pc, bool *moved)
{
	struct proxy_run *run = &pc->run;

	if (run->transmitted == run->flushed)
		return;
	run->transmitted = run->flushed;
	shared_store_u64(&pc->recv_mem->tail, run->base + run->transmitted, SHARED_RELEASE);
	*moved = true;
}

static void proxy_recv_consume(struct proxy_conn *pc, bool *moved)
{
	struct proxy_run *run = &pc->run;
	uint64_t taken = run->base + run->done + run->op.slice_steps, head;

	if (run->done == run->transmitted)
		return;
	head = shared_load_u64(&pc->send_mem->head, SHARED_ACQUIRE);
	ASSERT(head <= run->base + run->transmitted); /* the kernel was shown no more */
	if (head < taken) {
		OS_PROBE("proxy.recv_all_taken",
			 "every slot of a receiver holds data that the kernel has not read",
			 run->transmitted - run->done == DEV_STEPS);
		*proxy_run_wait(run) = (struct wait){
			.on = &pc->send_mem->head,
			.want = taken,
			.mask = WAIT_MASK_ALL,
			.kind = WAIT_GE,
			.bytes = 8,
			.why = "the kernel to take a slot",
			.from = {.rank = pc->rank,
				 .channel = pc->channel,
				 .step = (int64_t)(taken - run->op.slice_steps),
				 .object = "kernel"},
		};
		return;
	}
	run->done += run->op.slice_steps;
	*moved = true;
	os_progress();
}

ncclResult_t proxy_recv_step(struct proxy_conn *pc, bool *moved)
{
	ncclResult_t rc = proxy_recv_post(pc, moved);

	if (!rc)
		rc = proxy_recv_receive(pc, moved);
	if (!rc)
		rc = proxy_recv_flush(pc, moved);
	if (rc)
		return rc;
	proxy_recv_transmit(pc, moved);
	proxy_recv_consume(pc, moved);
	return ncclSuccess;
}
