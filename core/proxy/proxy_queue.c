/* SPDX-License-Identifier: BSD-3-Clause */
/* A connection's queue of operations, and the waits of the running one. Called by progress. */
#include <string.h>

#include "core/base/log.h"
#include "core/proxy/proxy_internal.h"

void proxy_conn_forget(struct proxy_conn *pc)
{
	shared_note_write(&pc->run, sizeof pc->run);
	shared_add_u32(&pc->ops_live, -1u, SHARED_RELEASE);
}

/* Ends an operation: frees its slot, and lets the service task that drains the connection see the
 * end. */
static void proxy_op_end(struct proxy_conn *pc, struct proxy_slot *slot)
{
	proxy_profile_op_end(pc, slot);
	proxy_posted_push(&pc->proxy->freed, &slot->node, &slot->node);
	proxy_conn_forget(pc);
}

static struct proxy_slot *proxy_slot_after(const struct proxy_slot *slot)
{
	return (struct proxy_slot *)slot->node.next;
}

void proxy_conn_queue(struct proxy_conn *pc, struct proxy_slot *slot)
{
	slot->node.next = NULL;
	if (pc->queue_last)
		pc->queue_last->node.next = &slot->node;
	else
		pc->queue_first = slot;
	pc->queue_last = slot;
}

bool proxy_run_start(struct proxy_conn *pc)
{
	struct proxy_run *run = &pc->run;
	struct proxy_slot *slot = pc->queue_first;

	ASSERT(!run->active);
	if (!slot)
		return false;
	pc->queue_first = proxy_slot_after(slot);
	if (!pc->queue_first)
		pc->queue_last = NULL;
	memset(run, 0, sizeof *run);
	run->active = true;
	run->began_ns = os_now_ns();
	run->slot = slot;
	run->op = slot->op;
	ASSERT(run->op.chunk_steps % run->op.slice_steps == 0 &&
	       DEV_STEPS % run->op.slice_steps == 0 && run->op.protocol < DEV_PROTO_COUNT);
	run->base = ALIGN_UP(pc->step, run->op.chunk_steps);
	proxy_profile_op_runs(pc);
	OS_PROBE("proxy.op_waits_behind", "an operation is queued while another begins",
		 pc->queue_first != NULL);
	OS_PROBE_IDLE("proxy.steps_skipped",
		      "an operation begins at another step than the last one ended at",
		      "all collectives have the same chunks", run->base != pc->step);
	OS_PROBE("proxy.fifo_wraps", "an operation goes around the end of the slots",
		 run->base % DEV_STEPS + run->op.nsteps > DEV_STEPS);
	return true;
}

void proxy_run_finish(struct proxy_conn *pc)
{
	struct proxy_run *run = &pc->run;

	ASSERT(run->done == run->op.nsteps);
	pc->step = run->base + run->op.nsteps;
	run->active = false;
	proxy_op_end(pc, run->slot);
}

void proxy_conn_drop_ops(struct proxy_conn *pc)
{
	if (pc->run.active) {
		pc->run.active = false;
		proxy_op_end(pc, pc->run.slot);
	}
	while (pc->queue_first) {
		struct proxy_slot *slot = pc->queue_first;

		pc->queue_first = proxy_slot_after(slot);
		proxy_op_end(pc, slot);
	}
	pc->queue_last = NULL;
}

/* ---- waits of the running operation --------------------------------------------------------- */

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
	rc = pc->net->test(req, done, bytes, &w);
	if (!rc && !*done)
		proxy_run_wait(&pc->run, step, &w);
	return rc;
}

struct wait proxy_kernel_wait(const struct proxy_conn *pc, const void *on, enum wait_kind kind,
			      uint64_t want)
{
	return wait_word(on, 8, kind, want, NULL, wait_by(pc->rank, pc->channel, "kernel"));
}
