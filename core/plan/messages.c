/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages between two ranks. The n-th send from rank A to rank B belongs to the n-th receive of B
 * from A, whatever groups have the two calls. A world that sees all ranks compares the two calls;
 * elsewhere nothing is compared. messages_self.c has the messages from a rank to itself.
 */
#include "core/plan/messages.h"

#include <stdio.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/os/os_grow.h"
#include "core/rank/cuda_result.h"
#include "core/transport/transport.h"

/* ---- the queue ------------------------------------------------------------------------------ */

/* Allocates the struct and its tables together. */
static struct plan_messages *plan_messages_make(const struct ncclComm *comm)
{
	size_t n = (size_t)comm->nranks;
	size_t bytes = sizeof(struct plan_messages) +
		       n * (2 * sizeof(uint64_t) + 3 * sizeof(uint32_t) + 2);
	struct plan_messages *ms = os_alloc(bytes, "messages");

	if (!ms) {
		WARN("rank %d: no memory for the messages of %d ranks", comm->rank, comm->nranks);
		return NULL;
	}
	ms->sent = (uint64_t *)(ms + 1);
	ms->received = ms->sent + n;
	ms->sends = (uint32_t *)(ms->received + n);
	ms->receives = ms->sends + n;
	ms->round_of = ms->receives + n;
	ms->connected = (uint8_t *)(ms->round_of + n);
	ms->channels = ms->connected + n;
	plan_rounds_init(ms->round_of, comm->nranks);
	return ms;
}

ncclResult_t plan_enqueue_message(struct ncclComm *comm, const struct plan_message *call)
{
	struct plan_state *st = comm->plan;

	ASSERT(st && call->peer >= 0 && call->peer < comm->nranks);
	if (!st->messages)
		st->messages = plan_messages_make(comm);
	if (!st->messages)
		return ncclSystemError;
	struct plan_messages *ms = st->messages;

	if (ms->queued == ms->room &&
	    !OS_GROW(ms->queue, ms->queued, ms->room, 16, "message queue")) {
		WARN("rank %d: no memory to queue %d messages", comm->rank, ms->queued + 1);
		return ncclSystemError;
	}
	ncclResult_t rc = plan_streams_add(&st->streams, call->call, call->stream);

	if (rc)
		return rc;
	ms->queue[ms->queued++] = (struct plan_queued_message){
		.call = *call,
		.bytes = call->count * steps_type_bytes((int)call->type),
	};
	return ncclSuccess;
}

bool plan_message_is_to_self(const struct ncclComm *comm, const struct plan_queued_message *m)
{
	return m->call.peer == comm->rank;
}

/* ---- agreement ------------------------------------------------------------------------------- */

static uint64_t plan_message_key(const struct ncclComm *comm, const struct plan_queued_message *m)
{
	uint64_t from = (uint64_t)(m->call.is_send ? comm->rank : m->call.peer);
	uint64_t to = (uint64_t)(m->call.is_send ? m->call.peer : comm->rank);

	return hash64_combine(comm->id_hash, (from + 1) << 32 | to);
}

static ncclResult_t plan_message_agree(const struct ncclComm *comm,
				       const struct plan_queued_message *m)
{
	const struct plan_message *c = &m->call;
	struct os_agree_other other;
	char text[sizeof other.text];

	if (!os_agrees())
		return ncclSuccess;
	snprintf(text, sizeof text, "count=%zu type=%s", c->count, plan_type_name(c->type));
	if (os_agree(plan_message_key(comm, m), m->number, comm->rank, text, c->caller, &other) ==
	    0)
		return ncclSuccess;
	WARN("%s: ranks %d and %d disagree on message %llu from rank %d to rank %d of communicator "
	     "%llx: rank %d called %s at %s, rank %d called %s at %s",
	     c->call, comm->rank, other.rank, (unsigned long long)m->number,
	     c->is_send ? comm->rank : c->peer, c->is_send ? c->peer : comm->rank,
	     (unsigned long long)comm->id_hash, comm->rank, text, other.here, other.rank,
	     other.text, other.where);
	return ncclInvalidUsage;
}

/* Labels the number of calls so far. The explainer of hangs compares the two ends. */
static void plan_message_label(const struct ncclComm *comm, const struct plan_messages *ms,
			       const struct plan_queued_message *m)
{
	int32_t peer = m->call.peer;

	os_label(m->call.is_send ? &ms->sent[peer] : &ms->received[peer],
		 &(struct os_label){.what = m->call.is_send ? "messages to" : "messages from",
				    .rank = comm->rank,
				    .peer = peer,
				    .channel = -1,
				    .number = (int64_t)m->number + 1});
}

static void plan_messages_unlabel(const struct plan_messages *ms, int32_t nranks)
{
	for (int32_t r = 0; r < nranks; r++) {
		os_unlabel(&ms->sent[r]);
		os_unlabel(&ms->received[r]);
	}
}

static void plan_message_number(const struct ncclComm *comm, struct plan_messages *ms,
				struct plan_queued_message *m)
{
	int32_t peer = m->call.peer;

	m->nth = m->call.is_send ? ms->sends[peer]++ : ms->receives[peer]++;
	m->number = (m->call.is_send ? ms->sent[peer] : ms->received[peer]) + m->nth;
	plan_message_label(comm, ms, m);
}

ncclResult_t plan_messages_announce(struct ncclComm *comm, struct plan_messages *ms)
{
	ncclResult_t rc;

	memset(ms->sends, 0, (size_t)comm->nranks * sizeof *ms->sends);
	memset(ms->receives, 0, (size_t)comm->nranks * sizeof *ms->receives);
	for (int32_t i = 0; i < ms->queued; i++)
		plan_message_number(comm, ms, &ms->queue[i]);
	plan_staged_place(comm, ms);
	rc = plan_self_check(comm, ms);
	for (ms->agreed = 0; !rc && ms->agreed < ms->queued; ms->agreed += !rc)
		if (!plan_message_is_to_self(comm, &ms->queue[ms->agreed]))
			rc = plan_message_agree(comm, &ms->queue[ms->agreed]);
	if (!rc)
		rc = plan_pairs_show(comm, ms);
	return rc ? rc : plan_rounds_make(comm, ms);
}

void plan_messages_renounce(const struct ncclComm *comm, struct plan_messages *ms)
{
	plan_pairs_hide(comm, ms);
	for (int32_t i = 0; i < ms->agreed; i++) {
		const struct plan_queued_message *m = &ms->queue[i];

		if (!plan_message_is_to_self(comm, m))
			(void)os_agree(plan_message_key(comm, m), m->number, comm->rank, NULL, NULL,
				       NULL);
	}
}

void plan_messages_commit(struct ncclComm *comm, struct plan_messages *ms)
{
	for (int32_t r = 0; r < comm->nranks; r++) {
		ms->sent[r] += ms->sends[r];
		ms->received[r] += ms->receives[r];
	}
}

void plan_messages_reset(struct ncclComm *comm, struct plan_messages *ms)
{
	if (ms->job)
		transport_connect_drop(ms->job);
	ms->job = NULL;
	if (ms->connecting) {
		plan_timed_connect(comm, ms, false);
		rank_bootstrap_release(comm);
	}
	ms->connecting = ms->begun = false;
	ms->queued = ms->agreed = ms->nrounds = ms->next = 0;
}

void plan_messages_free(struct plan_messages *ms, int32_t nranks)
{
	if (!ms)
		return;
	plan_messages_unlabel(ms, nranks);
	if (ms->job)
		transport_connect_drop(ms->job);
	plan_staged_free(ms);
	os_free(ms->rounds);
	os_free(ms->queue);
	os_free(ms);
}
