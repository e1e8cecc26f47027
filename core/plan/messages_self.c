/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages from a rank to itself: the n-th send of a group belongs to the n-th receive of the same
 * group. A communicator of one rank copies them. With more ranks the kernel moves them together
 * with the other messages (messages_rounds.c).
 */
#include "core/base/log.h"
#include "core/plan/messages.h"
#include "core/rank/cuda_result.h"

static bool plan_message_is_to_self_of(const struct ncclComm *comm,
				       const struct plan_queued_message *m, bool is_send)
{
	return plan_message_is_to_self(comm, m) && m->call.is_send == is_send;
}

static ncclResult_t plan_self_pair_check(const struct ncclComm *comm,
					 const struct plan_queued_message *send,
					 const struct plan_queued_message *recv)
{
	if (send->call.count == recv->call.count && send->call.type == recv->call.type)
		return ncclSuccess;
	WARN("%s: rank %d sends %zu elements of %s to itself and receives %zu of %s, expected the "
	     "same of both",
	     send->call.call, comm->rank, send->call.count, plan_type_name(send->call.type),
	     recv->call.count, plan_type_name(recv->call.type));
	return ncclInvalidUsage;
}

ncclResult_t plan_self_check(const struct ncclComm *comm, const struct plan_messages *ms)
{
	uint32_t sends = ms->sends[comm->rank], receives = ms->receives[comm->rank];

	if (sends != receives) {
		WARN("rank %d has %u sends to itself and %u receives from itself in one group, "
		     "expected as many of both",
		     comm->rank, sends, receives);
		return ncclInvalidUsage;
	}
	/* the n-th send belongs to the n-th receive */
	for (int32_t i = 0, recv = 0; i < ms->queued && sends; i++) {
		ncclResult_t rc;

		if (!plan_message_is_to_self_of(comm, &ms->queue[i], true))
			continue;
		while (!plan_message_is_to_self_of(comm, &ms->queue[recv], false))
			recv++;
		rc = plan_self_pair_check(comm, &ms->queue[i], &ms->queue[recv++]);
		if (rc)
			return rc;
	}
	return ncclSuccess;
}

static ncclResult_t plan_self_copy(const struct ncclComm *comm,
				   const struct plan_queued_message *send,
				   const struct plan_queued_message *recv, cudaStream_t stream)
{
	if (send->call.buffer == recv->call.buffer || !send->bytes)
		return ncclSuccess;
	plan_message_uses(comm, send, stream);
	plan_message_uses(comm, recv, stream);
	return cuda_result(cudaMemcpyAsync(recv->call.buffer, send->call.buffer, send->bytes,
					   cudaMemcpyDefault, stream),
			   "cudaMemcpyAsync of a message to oneself");
}

/* Relies on plan_self_check: the queue has as many sends as receives. */
ncclResult_t plan_self_copies(const struct ncclComm *comm, const struct plan_messages *ms,
			      cudaStream_t stream)
{
	ncclResult_t rc = ncclSuccess;
	int32_t recv = -1;

	for (int32_t i = 0; i < ms->queued && !rc; i++) {
		const struct plan_queued_message *m = &ms->queue[i];

		if (!m->call.is_send)
			continue;
		do
			recv++;
		while (ms->queue[recv].call.is_send);
		rc = plan_self_copy(comm, m, &ms->queue[recv], stream);
	}
	return rc;
}
