/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A receive operation. Progress posts receives into free slots. It flushes received data if GPU
 * memory needs that, and shows it to the kernel. A slot is free when the kernel has emptied it. See
 * struct proxy_run for the counts.
 */
#include "core/base/log.h"
#include "core/proxy/proxy_internal.h"

/* Returns the place of the slice that begins at `step`, as a receive uses it. */
static struct proxy_slice proxy_recv_slice(const struct proxy_conn *pc, uint64_t step)
{
	const struct proxy_buffer *b = proxy_run_buffer(pc);

	return (struct proxy_slice){
		.bytes = pc->run.op.slice_steps * b->step_bytes,
		.offset = (uint32_t)(step % DEV_STEPS) * b->step_bytes,
	};
}

/* True if one more slice may be posted. */
static bool proxy_recv_has_room(const struct proxy_run *run)
{
	/* Rare: one receive at a time, so that the sender always waits for a clear-to-send. */
	bool one = OS_BUGGIFY("proxy.recv_one_slot", "one receive posted at a time");
	uint32_t depth = one ? run->op.slice_steps : DEV_STEPS;

	return run->posted < run->op.nsteps &&
	       run->posted + run->op.slice_steps <= run->done + depth;
}

/* Returns the buffer of the next slice of the connection's operation. */
static struct net_buffer proxy_recv_buffer(struct proxy_conn *pc)
{
	const struct proxy_slice slice = proxy_recv_slice(pc, pc->run.base + pc->run.posted);
	const struct proxy_buffer *b = proxy_run_buffer(pc);

	return (struct net_buffer){
		.data = b->at + slice.offset,
		.bytes = slice.bytes,
		.mr = b->mr,
		.tag = (uint32_t)pc->channel,
		.step = proxy_profile_step_of(pc, pc->run.base + pc->run.posted)};
}

static void proxy_recv_posted(struct proxy_conn *pc, struct proxy_group *g, uint32_t index)
{
	struct proxy_run *run = &pc->run;

	run->receive[(run->base + run->posted) % DEV_STEPS] =
		(struct proxy_receive){.group = g, .index = index};
	run->posted += run->op.slice_steps;
	g->slices++;
}

/* Starts the event of the next slice, unless an earlier attempt to post it did. */
static void proxy_recv_profile(struct proxy_conn *pc)
{
	const uint64_t step = pc->run.base + pc->run.posted;
	const struct profiler_step *s = proxy_profile_step_of(pc, step);

	if (!s || !s->event)
		proxy_profile_step_begin(pc, step, PROFILER_RECV_WAIT);
}

/* Posts the receives. *req stays NULL if the network has no free request; then *w is set. */
static ncclResult_t proxy_recv_irecv(struct proxy_conn *const *with, int n,
				     struct net_request **req, struct wait *w)
{
	struct net_buffer to[NET_MAX_RECVS];

	for (int i = 0; i < n; i++) {
		proxy_recv_profile(with[i]);
		to[i] = proxy_recv_buffer(with[i]);
	}
	return with[0]->net->irecv(with[0]->net_comm, to, n, req, w);
}

/* Posts the next slice, together with slices of connections that share the link and have room. */
static ncclResult_t proxy_recv_post(struct proxy_conn *pc, bool *moved)
{
	struct proxy_run *run = &pc->run;
	struct proxy_conn *with[NET_MAX_RECVS];
	struct net_request *req = NULL;
	struct proxy_group *g;
	struct wait w;
	ncclResult_t rc;
	int n;

	if (!proxy_recv_has_room(run) || !proxy_link_in_order(pc))
		return ncclSuccess;
	g = proxy_link_group(pc->link);
	if (!g)
		return ncclSuccess; /* other connections of the link must consume theirs first */
	os_self()->step = (int64_t)(run->base + run->posted);
	n = proxy_link_gather(pc, proxy_recv_has_room, with);
	rc = proxy_recv_irecv(with, n, &req, &w);
	if (rc)
		return rc;
	if (!req) {
		proxy_run_wait(run, run->base + run->posted, &w);
		return ncclSuccess;
	}
	OS_PROBE("proxy.recv_together", "slices of several channels are received together", n > 1);
	*g = (struct proxy_group){.req = req};
	for (int i = 0; i < n; i++)
		proxy_recv_posted(with[i], g, (uint32_t)i);
	*moved = true;
	return ncclSuccess;
}

/* Reports lines to the tasks that wait for them: a socket writes lines without a report. */
static void proxy_recv_report_lines(const struct proxy_conn *pc, uint64_t step, size_t bytes)
{
	const struct proxy_slice slice = proxy_recv_slice(pc, step);

	if (bytes && proxy_run_protocol(&pc->run)->lines)
		shared_lines_wrote(proxy_run_buffer(pc)->at + slice.offset, bytes);
}

/* Tests whether the slice's group is complete. The first connection that finds this sets g->done
 * for the others. */
static ncclResult_t proxy_recv_test(struct proxy_conn *pc, uint64_t step, bool *done, size_t *bytes)
{
	const struct proxy_receive *r = &pc->run.receive[step % DEV_STEPS];
	struct proxy_group *g = r->group;
	ncclResult_t rc = ncclSuccess;

	if (!g->done)
		rc = proxy_run_test(pc, step, g->req, &g->done, g->bytes);
	*done = !rc && g->done;
	if (!*done)
		return rc;
	*bytes = g->bytes[r->index];
	g->slices--;
	return ncclSuccess;
}

static ncclResult_t proxy_recv_receive(struct proxy_conn *pc, bool *moved)
{
	struct proxy_run *run = &pc->run;
	uint64_t step = run->base + run->received;
	size_t bytes;
	bool done;
	ncclResult_t rc;

	if (run->received == run->posted)
		return ncclSuccess;
	rc = proxy_recv_test(pc, step, &done, &bytes);
	if (rc || !done)
		return rc;
	run->bytes[step % DEV_STEPS] = bytes;
	proxy_recv_report_lines(pc, step, bytes);
	proxy_profile_step_state(pc, step, PROFILER_RECV_FLUSH_WAIT, bytes);
	run->received += run->op.slice_steps;
	*moved = true;
	os_progress();
	os_trace("proxy.received", (uint64_t)pc->peer << 32 | (uint32_t)pc->rank,
		 (uint64_t)pc->channel << 32 | bytes, step);
	proxy_trace_received(pc, step, bytes);
	return ncclSuccess;
}

/* Posts a flush. Before a running kernel may read data that the NIC wrote, the NIC must push the
 * data out; reading one byte back does that. *req stays NULL if the network has no free request;
 * then *w is set. */
static ncclResult_t proxy_recv_iflush(struct proxy_conn *pc, uint64_t step,
				      struct net_request **req, struct wait *w)
{
	const struct proxy_slice slice = proxy_recv_slice(pc, step);
	const struct proxy_buffer *b = proxy_run_buffer(pc);

	os_self()->step = (int64_t)step;
	return pc->net->iflush(pc->net_comm, b->at + slice.offset, pc->run.bytes[step % DEV_STEPS],
			       b->mr, req, w);
}

/* Records a stage for the trace and for breakpoints of gdb. */
static void proxy_recv_note(const char *kind, const struct proxy_conn *pc, uint64_t step)
{
	os_trace(kind, (uint64_t)pc->peer << 32 | (uint32_t)pc->rank, (uint64_t)pc->channel, step);
}

/* Tests whether the slice at `step` is in GPU memory. An empty slice needs no flush. */
static ncclResult_t proxy_recv_flushed(struct proxy_conn *pc, uint64_t step, bool *done)
{
	struct proxy_run *run = &pc->run;
	size_t bytes = run->bytes[step % DEV_STEPS];
	struct wait w;
	ncclResult_t rc;

	*done = true;
	if (pc->flush && proxy_run_buffer(pc)->on_gpu && bytes && !run->flush_req) {
		rc = proxy_recv_iflush(pc, step, &run->flush_req, &w);
		if (rc)
			return rc;
		*done = run->flush_req != NULL;
		if (!*done)
			proxy_run_wait(run, step, &w);
	}
	if (!run->flush_req)
		return ncclSuccess;
	return proxy_run_test(pc, step, run->flush_req, done, &bytes);
}

static ncclResult_t proxy_recv_flush(struct proxy_conn *pc, bool *moved)
{
	struct proxy_run *run = &pc->run;
	uint64_t step = run->base + run->flushed;
	bool done;
	ncclResult_t rc;

	if (run->flushed == run->received)
		return ncclSuccess;
	rc = proxy_recv_flushed(pc, step, &done);
	if (rc)
		return rc;
	OS_PROBE("proxy.flush_waits", "data is in, but not yet pushed out to GPU memory", !done);
	OS_PROBE("proxy.empty_slice", "a slice without data", !run->bytes[step % DEV_STEPS]);
	if (!done)
		return ncclSuccess;
	run->flush_req = NULL;
	proxy_profile_step_state(pc, step, PROFILER_RECV_GPU_WAIT, run->bytes[step % DEV_STEPS]);
	run->flushed += run->op.slice_steps;
	proxy_recv_note("proxy.flushed", pc, step);
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
	proxy_recv_note("proxy.transmitted", pc, run->base + run->transmitted);
	*moved = true;
}

static void proxy_recv_consume(struct proxy_conn *pc, bool *moved)
{
	struct proxy_run *run = &pc->run;
	uint64_t taken = run->base + run->done + run->op.slice_steps, head;
	struct wait w;

	if (run->done == run->transmitted)
		return;
	head = shared_load_u64(&pc->send_mem->head, SHARED_ACQUIRE);
	/* The proxy showed the kernel no more. After the last step the kernel may have begun the
	 * next work, of whose lines it takes empty slices without the proxy. */
	ASSERT(proxy_run_protocol(run)->lines || run->transmitted == run->op.nsteps ||
	       head <= run->base + run->transmitted);
	if (head < taken) {
		OS_PROBE("proxy.recv_all_taken",
			 "every slot of a receiver holds data that the kernel has not read",
			 run->transmitted - run->done == DEV_STEPS);
		w = proxy_kernel_wait(pc, &pc->send_mem->head, WAIT_GE, taken);
		w.why = "the kernel to take a slot";
		proxy_run_wait(run, run->base + run->done, &w);
		return;
	}
	proxy_recv_note("proxy.done", pc, run->base + run->done);
	proxy_profile_step_end(pc, run->base + run->done);
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
