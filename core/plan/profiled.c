/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events of launches for a profiler plugin (core/profiler/profiler.h). They start while a plan is
 * built, because its proxy operations need their parents, and stop when these are appended. A
 * captured launch has only the event of the launch itself: its replays do not pass the library.
 */
#include "core/base/log.h"
#include "core/device/layout/names.h"
#include "core/plan/messages.h"
#include "core/plan/plan_internal.h"

/* Returns the kinds of events that the call's launch has. */
static uint32_t profiled_mask(struct ncclComm *comm, const struct plan *p,
			      const struct profiler_call *call)
{
	if (!comm->profiler || !call->mask)
		return 0;
	if (!p->capture.id)
		return call->mask;
	INFO(LOG_PROFILE,
	     "rank %d: a launch is captured: the profiler plugin receives no events "
	     "of its collectives, messages, steps and kernels",
	     comm->rank);
	return 0;
}

/* Starts the plan's group with its first call. */
static void profiled_group(struct ncclComm *comm, struct plan *p, uint32_t mask)
{
	struct profiler_descr d = {.type = PROFILER_GROUP};

	if (p->profiled)
		return;
	p->profiled = true;
	if (mask & PROFILER_NEED_GROUP)
		p->group = profiler_start(comm, &d);
}

static void profiled_launch_of(struct plan *p, const struct profiler_call *call)
{
	if (p->launch_mask || !call->mask)
		return;
	p->launch_mask = call->mask;
	p->launch_parent = call->group;
}

void plan_profile_task(struct ncclComm *comm, struct plan *p, struct plan_task *t)
{
	const uint32_t mask = profiled_mask(comm, p, &t->profile);
	const struct dev_work *w = &t->work;
	struct profiler_descr d = {.type = PROFILER_COLL, .parent = t->profile.api};

	profiled_launch_of(p, &t->profile);
	if (!mask)
		return;
	profiled_group(comm, p, mask);
	d.coll.number = profiler_number(comm, t->func);
	d.coll.func = profiler_func_name(t->func);
	d.coll.send = t->send;
	d.coll.recv = t->recv;
	d.coll.count = t->count;
	d.coll.root = t->root;
	d.coll.type = profiler_type_name(t->type);
	d.coll.nchannels = (uint8_t)(w->channel_hi - w->channel_lo + 1);
	d.coll.nwarps = w->nwarps;
	d.coll.algo = dev_algo_name(w->program);
	d.coll.proto = dev_proto_name(w->program);
	d.coll.group = p->group;
	d.coll.tag = t->options.tag;
	if (mask & PROFILER_NEED_COLL)
		t->profile.event = profiler_start(comm, &d);
}

void plan_profile_message(struct ncclComm *comm, struct plan *p, struct plan_queued_message *m,
			  int32_t parts)
{
	struct plan_message *c = &m->call;
	const uint32_t mask = profiled_mask(comm, p, &c->profile);
	struct profiler_descr d = {.type = PROFILER_P2P, .parent = c->profile.api};

	profiled_launch_of(p, &c->profile);
	if (!mask)
		return;
	profiled_group(comm, p, mask);
	d.p2p.func = c->is_send ? "Send" : "Recv";
	d.p2p.buffer = c->buffer;
	d.p2p.type = profiler_type_name(c->type);
	d.p2p.count = c->count;
	d.p2p.peer = c->peer;
	d.p2p.nchannels = (uint8_t)parts;
	d.p2p.group = p->group;
	d.p2p.tag = c->tag;
	if (mask & PROFILER_NEED_P2P)
		c->profile.event = profiler_start(comm, &d);
}

struct profiler_op plan_profile_op(const struct plan *p, const struct profiler_call *call)
{
	if (!call || !call->mask || p->capture.id)
		return (struct profiler_op){.mask = 0};
	return (struct profiler_op){
		.mask = call->mask, .pid = os_library_pid(), .parent = call->event};
}

void plan_profile_work(struct ncclComm *comm, const struct plan *p, struct dev_work *w,
		       const struct profiler_call *first, const struct profiler_call *second)
{
	void *parent[2] = {NULL, NULL};
	uint32_t number;

	if (!comm->profiler || p->capture.id)
		return;
	if (first && first->mask & PROFILER_KERNEL_CH)
		parent[0] = first->event;
	if (second && second->mask & PROFILER_KERNEL_CH)
		parent[1] = second->event;
	number = profiler_work_expect(comm, w->channel_lo, w->channel_hi, parent);
	for (int i = 0; i < 3; i++)
		w->profile[i] = (uint8_t)(number >> 8 * i);
}

void plan_profile_appended(struct ncclComm *comm, struct plan_state *st, struct plan *p)
{
	struct plan_messages *ms = st->messages;

	if (!p->profiled)
		return;
	p->profiled = false;
	for (int32_t i = 0; i < st->queued; i++)
		profiler_stop(comm, &st->queue[i].profile.event);
	for (int32_t i = 0; ms && i < ms->queued; i++)
		profiler_stop(comm, &ms->queue[i].call.profile.event);
	profiler_stop(comm, &p->group);
}

void *plan_profile_launch_begin(struct ncclComm *comm, const struct plan *p)
{
	struct profiler_descr d = {.type = PROFILER_KERNEL_LAUNCH, .parent = p->launch_parent};

	if (!(p->launch_mask & PROFILER_KERNEL_LAUNCH))
		return NULL;
	d.launch.stream = p->stream;
	return profiler_start(comm, &d);
}
