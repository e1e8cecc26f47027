/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Launches as the RAS task sees them: the calls with their arguments, the numbers of messages, and
 * the deadlines. Without them the task can see neither that a rank waits too long, nor that ranks
 * launch different calls, nor that a send has no receive.
 */
#include "core/base/log.h"
#include "core/plan/messages.h"
#include "core/plan/plan_internal.h"

/* Returns the number of the next call of the process, of any communicator. */
static uint64_t watched_order(const struct ncclComm *comm)
{
	return comm->launch_order ? shared_add_u64(comm->launch_order, 1, SHARED_RELAXED) : 0;
}

/* Returns the id of the stream of the queue's launches; 0: unknown, or they are captured. */
static uint64_t watched_stream(const struct plan_state *st)
{
	unsigned long long id = 0;

	if (!st->streams.n || st->streams.capture.id ||
	    cudaStreamGetId(st->streams.stream[0], &id) != cudaSuccess)
		return 0;
	return id;
}

/* ---- calls ---------------------------------------------------------------------------------- */

/* Operations that the program made have other numbers on each rank. */
static uint8_t watched_op(const struct plan_task *t)
{
	if (!t->reduces)
		return RANK_CALL_OP_NONE;
	return t->op < ncclNumOps ? (uint8_t)t->op : RANK_CALL_OP_MADE;
}

void plan_calls_add(const struct ncclComm *comm, const struct plan_state *st)
{
	const uint64_t stream = watched_stream(st);

	/* a launch of the same numbers may have failed */
	rank_calls_drop(comm->calls, comm->op_count);
	for (int32_t i = 0; i < st->queued; i++) {
		const struct plan_task *t = &st->queue[i];

		rank_calls_add(comm->calls, &(struct rank_call){
						    .number = t->op_count,
						    .count = t->count,
						    .caller = (uint64_t)(uintptr_t)t->caller,
						    .order = watched_order(comm),
						    .stream = stream,
						    .root = t->root,
						    .func = (uint8_t)t->func,
						    .type = (uint8_t)t->type,
						    .op = watched_op(t),
					    });
	}
}

/* ---- messages ------------------------------------------------------------------------------- */

/* Makes the table at the first message. A rank without one seems to have called no message. */
static ncclResult_t watched_pairs_make(struct ncclComm *comm)
{
	struct rank_pairs *made;
	struct registry_node *first;

	if (comm->pairs || !comm->calls)
		return ncclSuccess;
	made = rank_pairs_make(comm->nranks);
	if (!made) {
		WARN("rank %d: no memory for the numbers of messages", comm->rank);
		return ncclSystemError;
	}
	first = registry_lock();
	comm->pairs = made;
	registry_unlock(first);
	return ncclSuccess;
}

ncclResult_t plan_pairs_show(struct ncclComm *comm, const struct plan_messages *ms)
{
	ncclResult_t rc = watched_pairs_make(comm);
	struct rank_pairs *pairs = comm->pairs;
	const uint64_t stream = pairs ? watched_stream(comm->plan) : 0;

	for (int32_t i = 0; i < ms->queued && pairs; i++) {
		const struct plan_queued_message *m = &ms->queue[i];

		if (plan_message_is_to_self(comm, m))
			continue;
		rank_pairs_add(pairs, &(struct rank_message){
					      .called = m->number + 1,
					      .count = m->call.count,
					      .caller = (uint64_t)(uintptr_t)m->call.caller,
					      .order = watched_order(comm),
					      .stream = stream,
					      .call = m->call.call,
					      .peer = m->call.peer,
					      .type = (uint8_t)m->call.type,
					      .is_send = m->call.is_send,
				      });
	}
	return rc;
}

void plan_pairs_hide(const struct ncclComm *comm, const struct plan_messages *ms)
{
	for (int32_t i = 0; i < ms->queued && comm->pairs; i++) {
		const struct plan_message *m = &ms->queue[i].call;

		rank_pairs_drop(comm->pairs, m->peer, m->is_send,
				m->is_send ? ms->sent[m->peer] : ms->received[m->peer]);
	}
}

/* ---- deadlines ------------------------------------------------------------------------------ */

/* A launch of several calls has the shortest of their times. *own: a call has its own. */
static void watched_collectives(const struct ncclComm *comm, const struct plan_state *st,
				const struct plan *p, struct rank_launch *l, bool *own)
{
	const struct plan_task *first = &st->queue[st->launched];

	*l = (struct rank_launch){
		.first = first->op_count, .calls = p->taken, .caller = first->caller};
	*own = false;
	for (int32_t i = 0; i < p->taken; i++) {
		uint64_t its = first[i].options.timeout_ns, ns = its ? its : comm->timeout_ns;

		*own = *own || its;
		if (ns && (!l->timeout_ns || ns < l->timeout_ns))
			l->timeout_ns = ns;
	}
}

/* `first`: index of the first message in the queue. */
static void watched_messages(const struct ncclComm *comm, const struct plan_messages *ms,
			     int32_t first, struct rank_launch *l)
{
	const struct plan_queued_message *m = &ms->queue[first];

	*l = (struct rank_launch){.timeout_ns = comm->timeout_ns,
				  .messages = ms->queued,
				  .peer = m->call.peer,
				  .is_send = m->call.is_send,
				  .type = (uint8_t)m->call.type,
				  .count = m->call.count,
				  .number = m->number,
				  .caller = m->call.caller};
}

static void watched_launch(const struct ncclComm *comm, const struct plan_state *st,
			   const struct plan *p, struct rank_launch *l, bool *own)
{
	const struct plan_messages *ms = st->messages;
	const struct plan_round *r = p->taken ? NULL : &ms->rounds[ms->next];

	*own = false;
	if (p->taken)
		watched_collectives(comm, st, p, l, own);
	else
		watched_messages(comm, ms, r->recv >= 0 ? r->recv : r->send, l);
}

/* The first message to or from a rank that is not connected yet is named. */
void plan_timed_connect(struct ncclComm *comm, const struct plan_messages *ms, bool begins)
{
	struct rank_launch l;
	int32_t first = 0;

	if (!comm->ras)
		return;
	if (!begins) {
		rank_timed_call(&comm->timed, NULL, NULL);
		return;
	}
	while (first < ms->queued - 1 && (plan_message_is_to_self(comm, &ms->queue[first]) ||
					  ms->connected[ms->queue[first].call.peer]))
		first++;
	watched_messages(comm, ms, first, &l);
	l.connects = true;
	rank_timed_call(&comm->timed, &l, ms->queue[first].call.call);
}

/* A capture has no launch to time: its replays do not pass here. */
static ncclResult_t watched_captured(struct plan_state *st, const struct rank_launch *l, bool own)
{
	if (own) {
		WARN("a call with a deadline (NCCL_DOPPEL_OPTION_TIMEOUT_MS) is captured in a CUDA "
		     "graph, expected one outside of graphs");
		return ncclInvalidUsage;
	}
	if (l->timeout_ns && !st->untimed)
		WARN("DOPPEL_TIMEOUT_MS: launches in CUDA graphs have no deadline");
	st->untimed = true;
	return ncclSuccess;
}

ncclResult_t plan_timed_begin(struct ncclComm *comm, struct plan_state *st, const struct plan *p)
{
	struct rank_launch l;
	bool own;

	watched_launch(comm, st, p, &l, &own);
	if (p->capture.id)
		return watched_captured(st, &l, own);
	return rank_timed_begin(&comm->timed, &l, p->stream);
}

ncclResult_t plan_timed_end(struct ncclComm *comm, const struct plan_state *st,
			    const struct plan *p)
{
	struct rank_launch l;
	bool own;

	watched_launch(comm, st, p, &l, &own);
	return p->capture.id ? ncclSuccess : rank_timed_end(&comm->timed, &l, p->stream);
}
