/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From a queue of messages to launches. Missing connections between the pairs of ranks are made
 * first. Both ends of a pair do this, each in the group that has its call.
 *
 * The messages of a group move at the same time, whatever streams the calls have (streams.h).
 */
#include "core/base/log.h"
#include "core/plan/messages.h"
#include "core/rank/cuda_result.h"
#include "core/transport/transport_internal.h"
#include "core/transport/windows.h"

/* ---- connections ----------------------------------------------------------------------------- */

static int plan_wants_add(const struct ncclComm *comm, const struct plan_messages *ms, int32_t peer,
			  bool is_send, struct conn_want *wants)
{
	int32_t pair = plan_pair_channels(comm, ms, peer);
	int32_t distance = is_send ? peer - comm->rank : comm->rank - peer;
	uint32_t round = ms->round_of[(distance + comm->nranks) % comm->nranks];
	int n = 0;

	for (int32_t i = 0; i < pair; i++) {
		struct conn_want want = {.nic = -1,
					 .end = -1,
					 .channel = plan_round_channel(comm, round, i),
					 .peer = peer,
					 .is_send = is_send,
					 .index = CONN_PAIR};

		if (!transport_conn_find(comm, &want))
			wants[n++] = want;
	}
	return n;
}

static uint8_t plan_message_direction(const struct plan_queued_message *m)
{
	return m->call.is_send ? PLAN_SENDS : PLAN_RECEIVES;
}

/* Returns true if the message is between two ranks that are not yet connected in its direction. */
static bool plan_message_connects(const struct ncclComm *comm, const struct plan_messages *ms,
				  const struct plan_queued_message *m)
{
	return m->bytes && !plan_message_is_to_self(comm, m) &&
	       !(ms->connected[m->call.peer] & plan_message_direction(m));
}

bool plan_connects(const struct ncclComm *comm)
{
	const struct plan_messages *ms = comm->plan->messages;

	for (int32_t i = 0; ms && ms->nrounds && i < ms->queued; i++)
		if (plan_message_connects(comm, ms, &ms->queue[i]))
			return true;
	return false;
}

bool plan_prepares(const struct ncclComm *comm)
{
	const struct plan_messages *ms = comm->plan->messages;

	return plan_registers(comm) || plan_stages(comm) ||
	       (ms && ms->queued && plan_connects(comm));
}

/* Lists the missing ends of connections. The caller frees *wants. */
static ncclResult_t plan_wants(const struct ncclComm *comm, const struct plan_messages *ms,
			       struct conn_want **wants, int *n)
{
	size_t most = transport_conns_most(comm), ranks = (size_t)comm->nranks;
	uint8_t *directions; /* [nranks]: of messages */

	*n = 0;
	*wants = os_alloc(most * sizeof **wants + ranks, "connections to make");
	if (!*wants) {
		WARN("rank %d: no memory for a list of %zu connections", comm->rank, most);
		return ncclSystemError;
	}
	directions = (uint8_t *)(*wants + most);
	for (int32_t i = 0; i < ms->queued; i++)
		if (plan_message_connects(comm, ms, &ms->queue[i]))
			directions[ms->queue[i].call.peer] |= plan_message_direction(&ms->queue[i]);
	for (int32_t r = 0; r < comm->nranks; r++) {
		if (directions[r])
			ASSERT((size_t)(*n + 2 * transport_pair_channels(comm, r)) <= most);
		if (directions[r] & PLAN_RECEIVES)
			*n += plan_wants_add(comm, ms, r, false, *wants + *n);
		if (directions[r] & PLAN_SENDS)
			*n += plan_wants_add(comm, ms, r, true, *wants + *n);
	}
	return ncclSuccess;
}

static void plan_connected(const struct ncclComm *comm, struct plan_messages *ms)
{
	for (int32_t i = 0; i < ms->queued; i++)
		if (plan_message_connects(comm, ms, &ms->queue[i]))
			ms->connected[ms->queue[i].call.peer] |=
				plan_message_direction(&ms->queue[i]);
}

/* Logs an error. Other ranks may then wait for a connection that will not be made. */
static ncclResult_t plan_connect_result(struct ncclComm *comm, ncclResult_t rc)
{
	if (rc)
		INFO(LOG_INIT, "rank %d: connections for messages end with %d", comm->rank,
		     (int)rc);
	return rc;
}

ncclResult_t plan_connect_begin(struct ncclComm *comm)
{
	struct plan_messages *ms = comm->plan->messages;
	struct conn_want *wants;
	ncclResult_t rc;
	int n;

	rc = plan_staged_reserve(comm);
	if (rc || !plan_connects(comm))
		return rc;
	rc = plan_wants(comm, ms, &wants, &n);
	if (!rc && n) {
		rank_bootstrap_claim(comm);
		ms->connecting = true;
		plan_timed_connect(comm, ms, true);
		rc = cuda_result(cudaSetDevice(comm->cuda_dev), "cudaSetDevice to connect ranks");
	}
	if (!rc && n)
		rc = transport_connect_begin(comm, wants, n, &ms->job);
	os_free(wants);
	return plan_connect_result(comm, rc);
}

/* Called when all connections of the job are complete on this rank. */
static ncclResult_t plan_connect_done(struct ncclComm *comm, struct plan_messages *ms)
{
	ncclResult_t rc = transport_connect_upload(ms->job);

	if (rc)
		return rc;
	transport_connect_drop(ms->job);
	ms->job = NULL;
	plan_connected(comm, ms);
	ms->connecting = false;
	plan_timed_connect(comm, ms, false);
	rank_bootstrap_release(comm);
	return ncclSuccess;
}

static ncclResult_t plan_job_look(struct ncclComm *comm, struct plan_messages *ms)
{
	ncclResult_t rc =
		cuda_result(cudaSetDevice(comm->cuda_dev), "cudaSetDevice to connect ranks");

	if (!rc)
		rc = transport_connect_look(ms->job);
	if (!rc)
		rc = plan_connect_done(comm, ms);
	return rc == ncclInProgress ? rc : plan_connect_result(comm, rc);
}

ncclResult_t plan_connect_look(struct ncclComm *comm)
{
	struct plan_messages *ms = comm->plan->messages;
	ncclResult_t rc = ms && ms->job ? plan_job_look(comm, ms) : ncclSuccess;

	return rc ? rc : plan_registered_exchange(comm);
}

ncclResult_t plan_connect_waits(struct ncclComm *comm, struct os_waits *l)
{
	return plan_connect_result(comm, transport_connect_waits(comm->plan->messages->job, l));
}

/* ---- launches -------------------------------------------------------------------------------- */

/* Called for each launch; acts only before the first launch of a queue. */
static ncclResult_t plan_messages_begin(struct ncclComm *comm, struct plan_state *st,
					const struct plan *p)
{
	struct plan_messages *ms = st->messages;
	ncclResult_t rc = ncclSuccess;

	if (!ms->begun)
		rc = plan_streams_ready(comm, st, p);
	if (!rc && !ms->begun && comm->nranks == 1)
		rc = plan_self_copies(comm, ms, p->stream);
	if (!rc && !ms->begun)
		rc = plan_staged_copy(comm, ms, p);
	ms->begun |= !rc;
	return rc;
}

ncclResult_t plan_messages_launch(struct ncclComm *comm, struct plan_state *st)
{
	struct plan_messages *ms = st->messages;
	struct plan *p = &st->plan;
	ncclResult_t rc;

	rc = plan_begin(st, p);
	p->kernel = st->message_kernel;
	transport_windows_launch(comm, p->capture.id != 0);
	if (!rc)
		rc = plan_messages_begin(comm, st, p);
	if (!rc)
		rc = plan_rounds_build(comm, st, ms, p);
	if (!rc)
		rc = p->nworks ? plan_start_messages(comm, st, p) : plan_start_copies(comm, st, p);
	plan_profile_appended(comm, st, p);
	if (rc)
		return rc;
	ms->next += p->rounds;
	if (ms->next < ms->nrounds)
		return ncclSuccess;
	rc = plan_streams_end(st);
	if (rc)
		return rc;
	plan_messages_commit(comm, ms);
	plan_messages_reset(comm, ms);
	st->handed_over = false;
	return ncclSuccess;
}
