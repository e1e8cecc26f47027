/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The progress task: one pass over the running operation of every connection, and when nothing
 * moved, one wait for everything that any of them waits for.
 */
#include <string.h>

#include "core/base/log.h"
#include "core/proxy/proxy_internal.h"

/* ---- a connection's queue of operations ----------------------------------------------------- */

static void proxy_slot_free(struct proxy_state *p, uint32_t slot)
{
	proxy_posted_push(&p->freed, slot, slot);
}

/* The operation is gone: its slot goes back, and who drains the connection may see it. */
static void proxy_op_end(struct proxy_conn *pc, uint32_t slot)
{
	proxy_slot_free(pc->proxy, slot);
	shared_note_write(&pc->run, sizeof pc->run);
	shared_add_u32(&pc->ops_live, -1u, SHARED_RELEASE);
}

/* The next operation of the queue becomes the running one. */
static bool proxy_run_start(struct proxy_conn *pc)
{
	struct proxy_state *p = pc->proxy;
	struct proxy_run *run = &pc->run;
	uint32_t slot = pc->queue_first;

	ASSERT(!run->active);
	if (!slot)
		return false;
	pc->queue_first = p->op_next[slot];
	if (!pc->queue_first)
		pc->queue_last = 0;
	memset(run, 0, sizeof *run);
	run->active = true;
	run->slot = slot;
	run->op = p->op[slot];
	ASSERT(run->op.chunk_steps % run->op.slice_steps == 0 &&
	       DEV_STEPS % run->op.slice_steps == 0 && run->op.protocol < DEV_PROTO_COUNT);
	run->base = ALIGN_UP(pc->step, run->op.chunk_steps);
	OS_PROBE("proxy.op_waits_behind", "an operation is queued while another begins",
		 pc->queue_first != 0);
	OS_PROBE_IDLE("proxy.steps_skipped",
		      "an operation begins at another step than the last one ended at",
		      "all collectives that there are have the same chunks", run->base != pc->step);
	OS_PROBE("proxy.fifo_wraps", "an operation goes around the end of the slots",
		 run->base % DEV_STEPS + run->op.nsteps > DEV_STEPS);
	return true;
}

/* All steps are done. */
static void proxy_run_finish(struct proxy_conn *pc)
{
	struct proxy_run *run = &pc->run;

	ASSERT(run->done == run->op.nsteps);
	pc->step = run->base + run->op.nsteps;
	run->active = false;
	proxy_op_end(pc, run->slot);
}

/* Gives up the running operation and all behind it. Requests in flight stay with the network
 * until the connection closes. */
static void proxy_conn_drop_ops(struct proxy_conn *pc)
{
	if (pc->run.active) {
		pc->run.active = false;
		proxy_op_end(pc, pc->run.slot);
	}
	while (pc->queue_first) {
		uint32_t slot = pc->queue_first;

		pc->queue_first = pc->proxy->op_next[slot];
		proxy_op_end(pc, slot);
	}
	pc->queue_last = 0;
}

static void proxy_conn_queue(struct proxy_conn *pc, uint32_t slot)
{
	struct proxy_state *p = pc->proxy;

	p->op_next[slot] = 0;
	if (pc->queue_last)
		p->op_next[pc->queue_last] = slot;
	else
		pc->queue_first = slot;
	pc->queue_last = slot;
}

static bool proxy_conn_is_active(const struct proxy_conn *pc)
{
	return pc->run.active || pc->queue_first;
}

/* ---- what other ends say -------------------------------------------------------------------- */

/* From its first operation on: a connection that fails while this end has nothing to do on it is
 * news all the same, since the kernel, or another connection, may wait for what will never come. */
static void proxy_conn_hear(struct proxy_conn *pc)
{
	struct proxy_state *p = pc->proxy;

	if (pc->listening || p->deaf)
		return;
	ASSERT(p->nheard < p->conns);
	pc->listening = true;
	p->heard[p->nheard++] = pc;
	shared_add_u32(&pc->ops_live, 1, SHARED_RELAXED); /* an operation holds the connection */
}

/* Connections close, with or without abort: whoever drains them may go on. */
static void proxy_progress_hear_no_more(struct proxy_state *p)
{
	p->deaf = true;
	for (uint32_t i = 0; i < p->nheard; i++) {
		shared_note_write(&p->heard[i]->run, sizeof p->heard[i]->run);
		shared_add_u32(&p->heard[i]->ops_live, -1u, SHARED_RELEASE);
	}
	p->nheard = 0;
}

/* Those whose other ends may have something to say. */
static struct proxy_conn *const *proxy_progress_ears(const struct proxy_state *p, uint32_t *n)
{
	*n = p->deaf ? p->nactive : p->nheard;
	return p->deaf ? p->active : p->heard;
}

/* ---- the pass ------------------------------------------------------------------------------- */

/* Takes what main appended, oldest first, each to its connection. */
static bool proxy_progress_take(struct proxy_state *p)
{
	uint32_t slot = proxy_posted_take(&p->posted), next;
	bool any = slot != 0;

	for (; slot; slot = next) {
		struct proxy_conn *pc = p->op[slot].conn;

		next = p->op_next[slot];
		shared_note_read(&p->op[slot], sizeof p->op[slot]);
		if (!proxy_conn_is_active(pc))
			p->active[p->nactive++] = pc;
		proxy_conn_hear(pc);
		ASSERT(p->nactive <= p->conns);
		proxy_conn_queue(pc, slot);
	}
	return any;
}

void proxy_run_wait(struct proxy_run *run, uint64_t step, const struct wait *w)
{
	ASSERT(run->nwaits < PROXY_RUN_WAITS);
	run->wait[run->nwaits] = *w;
	run->wait[run->nwaits++].from.step = (int64_t)step;
}

ncclResult_t proxy_run_test(struct proxy_conn *pc, uint64_t step, struct net_request *req,
			    bool *done, size_t *bytes)
{
	struct wait w;
	ncclResult_t rc;

	os_self()->step = (int64_t)step;
	rc = pc->proxy->net->test(req, done, bytes, &w);
	if (!rc && !*done)
		proxy_run_wait(&pc->run, step, &w);
	return rc;
}

struct wait proxy_kernel_wait(const struct proxy_conn *pc, const void *on, enum wait_kind kind,
			      uint64_t want)
{
	return (struct wait){
		.on = on,
		.want = want,
		.mask = WAIT_MASK_ALL,
		.kind = (uint8_t)kind,
		.bytes = 8,
		.from = {.rank = pc->rank, .channel = pc->channel, .step = -1, .object = "kernel"},
	};
}

/* One step of the connection's running operation; starts the next when there is none. */
static bool proxy_conn_progress(struct proxy_conn *pc)
{
	struct proxy_run *run = &pc->run;
	bool moved = false;
	ncclResult_t rc;

	if (pc->failed) {
		proxy_conn_drop_ops(pc);
		return true;
	}
	if (!run->active)
		moved = proxy_run_start(pc);
	run->nwaits = 0;
	rc = pc->is_send ? proxy_send_step(pc, &moved) : proxy_recv_step(pc, &moved);
	os_self()->step = -1;
	if (rc) {
		pc->failed = true;
		rank_set_async_error(pc->comm, rc);
		proxy_conn_drop_ops(pc);
		return true;
	}
	if (run->done == run->op.nsteps) {
		proxy_run_finish(pc);
		moved = true;
	}
	return moved;
}

/* One pass over all connections with operations. */
static bool proxy_progress_pass(struct proxy_state *p)
{
	uint32_t kept = 0;
	bool moved = false, pass_over = false;

	for (uint32_t i = 0; i < p->nactive; i++) {
		struct proxy_conn *pc = p->active[i];

		if (!pass_over)
			moved |= proxy_conn_progress(pc);
		if (proxy_conn_is_active(pc))
			p->active[kept++] = pc;
		/* rare: one connection is enough for this pass; the others find it older */
		pass_over |=
			moved && OS_BUGGIFY("proxy.pass_one",
					    "a pass ends with the first connection that moved");
	}
	p->nactive = kept;
	os_charge(OS_COST_PROXY_PASS, 1);
	return moved;
}

/* Nothing moved: is the other end of anything gone? A failure there shows nowhere else on an end
 * that has nothing in flight. */
static bool proxy_progress_check(struct proxy_state *p)
{
	bool failed = false;
	uint32_t n;
	struct proxy_conn *const *ears = proxy_progress_ears(p, &n);

	for (uint32_t i = 0; i < n; i++) {
		struct proxy_conn *pc = ears[i];
		ncclResult_t rc;

		if (pc->failed)
			continue;
		rc = p->net->check(pc->net_comm, proxy_conn_is_active(pc), &pc->check_wait);
		if (!rc)
			continue;
		pc->failed = failed = true;
		rank_set_async_error(pc->comm, rc);
	}
	return failed;
}

static void proxy_progress_drop_all(struct proxy_state *p)
{
	for (uint32_t i = 0; i < p->nactive; i++) {
		p->active[i]->failed = true;
		proxy_conn_drop_ops(p->active[i]);
	}
	p->nactive = 0;
}

static void proxy_progress_wait(struct proxy_state *p, bool aborted, bool stopping)
{
	const struct wait **list = p->progress_wait;
	struct wait mail = {
		.on = &p->posted.head,
		.mask = WAIT_MASK_ALL,
		.kind = WAIT_NE,
		.bytes = 4,
		.why = "operations to be appended",
		.from = {.rank = p->comm->rank, .channel = -1, .step = -1, .object = "main"},
	};
	struct wait stop = mail, closing = mail;
	uint32_t nears;
	struct proxy_conn *const *ears = proxy_progress_ears(p, &nears);
	int n = 0;

	if (OS_BUGGIFY("proxy.wake_early", "the progress task's wait ends immediately"))
		return;
	stop.on = &p->stop;
	stop.why = "the proxy to be stopped";
	for (uint32_t i = 0; i < p->nactive; i++) {
		struct proxy_conn *pc = p->active[i];

		for (int k = 0; k < pc->run.nwaits; k++)
			list[n++] = &pc->run.wait[k];
	}
	for (uint32_t i = 0; i < nears; i++)
		if (!ears[i]->failed)
			list[n++] = &ears[i]->check_wait;
	list[n++] = &mail;
	closing.on = &p->closing;
	closing.why = "connections to close";
	if (p->nheard)
		list[n++] = &closing;
	if (!stopping)
		list[n++] = &stop;
	(void)os_wait(list, n, aborted ? NULL : p->comm->abort, NULL);
}

void proxy_progress_main(void *arg)
{
	struct proxy_state *p = arg;

	for (;;) {
		bool aborted = shared_load_u32(p->comm->abort, SHARED_ACQUIRE) != 0;
		bool stopping = shared_load_u32(&p->stop, SHARED_ACQUIRE) != 0;
		bool moved = proxy_progress_take(p);

		if (aborted)
			proxy_progress_drop_all(p);
		if (aborted || stopping || shared_load_u32(&p->closing, SHARED_ACQUIRE))
			proxy_progress_hear_no_more(p);
		if (stopping && !p->nactive)
			return;
		moved |= proxy_progress_pass(p);
		if (!moved && !proxy_progress_check(p))
			proxy_progress_wait(p, aborted, stopping);
	}
}
