/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events of the proxy for a profiler plugin (core/profiler/profiler.h), at the places of NCCL's
 * proxy. An operation without a mask has none of them: each function is then one comparison.
 *
 *	operation   starts when progress takes it, IN_PROGRESS when it is the connection's front,
 *	            stops when its last step is done, or when it is dropped
 *	send step   starts when the slot is offered to the kernel (GPU_WAIT); PEER_WAIT when the
 *	            kernel has filled it, SEND_WAIT when the network has it; stops when it was sent
 *	recv step   starts when the receive is posted (RECV_WAIT); FLUSH_WAIT when the data is
 *	            there, GPU_WAIT when the kernel may read it; stops when the kernel has emptied
 *	            the slot
 *	control     IDLE and ACTIVE when the task begins and ends to have nothing to do, SLEEP and
 *	            WAKEUP around its wait, APPEND and APPEND_END around new operations
 */
#include "core/proxy/proxy_internal.h"

/* ---- operations ----------------------------------------------------------------------------- */

static struct profiler_step *proxy_profile_step(struct proxy_conn *pc, uint64_t step)
{
	return &pc->run.step[step % DEV_STEPS];
}

void proxy_profile_op_begin(struct proxy_conn *pc, struct proxy_slot *slot)
{
	struct profiler_op *o = &slot->op.profile;
	struct profiler_descr d = {.type = PROFILER_PROXY_OP, .parent = o->parent};

	if (!(o->mask & PROFILER_NEED_OP))
		return;
	d.op.pid = o->pid;
	d.op.channel = (uint8_t)pc->channel;
	d.op.peer = pc->peer;
	d.op.nsteps = (int)(slot->op.nsteps / slot->op.slice_steps);
	d.op.chunk_bytes = (int)(pc->buffer[slot->op.protocol].step_bytes * slot->op.slice_steps);
	d.op.is_send = pc->is_send;
	o->event = profiler_start(pc->comm, &d);
}

void proxy_profile_op_runs(struct proxy_conn *pc)
{
	profiler_record(pc->comm, pc->run.op.profile.event, PROFILER_OP_IN_PROGRESS, NULL);
}

void proxy_profile_op_end(struct proxy_conn *pc, struct proxy_slot *slot)
{
	if (!slot->op.profile.mask)
		return;
	if (pc->run.slot == slot)
		for (int i = 0; i < DEV_STEPS; i++)
			profiler_stop(pc->comm, &pc->run.step[i].event);
	profiler_stop(pc->comm, &slot->op.profile.event);
}

/* ---- steps ---------------------------------------------------------------------------------- */

void proxy_profile_step_begin(struct proxy_conn *pc, uint64_t step, enum profiler_state state)
{
	struct profiler_op *o = &pc->run.op.profile;
	struct profiler_step *s = proxy_profile_step(pc, step);
	struct profiler_descr d = {.type = PROFILER_PROXY_STEP, .parent = o->event};
	const union profiler_args args = {.step = {0}};

	if (!(o->mask & PROFILER_NEED_STEP))
		return;
	*s = (struct profiler_step){.comm = pc->comm, .mask = o->mask};
	d.step.step = (int)((step - pc->run.base) / pc->run.op.slice_steps);
	s->event = profiler_start(pc->comm, &d);
	profiler_record(pc->comm, s->event, state, &args);
}

void proxy_profile_step_state(struct proxy_conn *pc, uint64_t step, enum profiler_state state,
			      size_t bytes)
{
	struct profiler_step *s = proxy_profile_step(pc, step);
	const union profiler_args args = {.step = {bytes}};

	if (!s->event || (state == PROFILER_SEND_PEER_WAIT && s->ready))
		return;
	s->ready |= state == PROFILER_SEND_PEER_WAIT;
	profiler_record(pc->comm, s->event, state, &args);
}

void proxy_profile_step_end(struct proxy_conn *pc, uint64_t step)
{
	profiler_stop(pc->comm, &proxy_profile_step(pc, step)->event);
}

struct profiler_step *proxy_profile_step_of(struct proxy_conn *pc, uint64_t step)
{
	struct profiler_step *s = proxy_profile_step(pc, step);

	return s->comm ? s : NULL;
}

/* ---- control -------------------------------------------------------------------------------- */

/* Returns the communicator whose plugin receives events of the task: the first one with operations.
 * NULL: no communicator has any, or its plugin does not want them. */
static struct ncclComm *proxy_profile_comm(const struct proxy_gpu *p)
{
	struct ncclComm *comm = p->members ? p->members->comm : NULL;

	if (!comm || !comm->profiler || !(profiler_mask(comm) & PROFILER_PROXY_CTRL))
		return NULL;
	return comm;
}

struct proxy_profile_ctrl proxy_profile_ctrl_begin(const struct proxy_gpu *p,
						   enum profiler_state state)
{
	struct proxy_profile_ctrl c = {.comm = proxy_profile_comm(p)};
	struct profiler_descr d = {.type = PROFILER_PROXY_CTRL};
	const union profiler_args args = {.ctrl = {0}};

	if (!c.comm)
		return c;
	c.event = profiler_start(c.comm, &d);
	profiler_record(c.comm, c.event, state, &args);
	return c;
}

void proxy_profile_ctrl_end(struct proxy_profile_ctrl *c, enum profiler_state state, int appended)
{
	const union profiler_args args = {.ctrl = {appended}};

	if (!c->comm)
		return;
	if (state)
		profiler_record(c->comm, c->event, state, &args);
	profiler_stop(c->comm, &c->event);
}

void proxy_profile_idle(struct proxy_gpu *p, bool idle)
{
	struct proxy_profile_ctrl c;

	if (p->was_idle == idle)
		return;
	p->was_idle = idle;
	c = proxy_profile_ctrl_begin(p, idle ? PROFILER_CTRL_IDLE : PROFILER_CTRL_ACTIVE);
	proxy_profile_ctrl_end(&c, 0, 0);
}
