/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Suspending a communicator: GPU memory of its connections is freed until it is resumed. Ranks of a
 * host use each other's memory, so they meet: before the first unmaps anything, and after the last
 * has its memory again. A rank that fails breaks the bootstrap's ring, and the waits of
 * the others end.
 */
#include "core/base/log.h"
#include "core/bootstrap/bootstrap.h"
#include "core/comm/comm_internal.h"
#include "core/rank/cuda_result.h"
#include "core/transport/transport.h"

/* Tags of messages of the bootstrap: a rank has come; all have come. */
#define SUSPEND_TAG_COME 0x43680011
#define SUSPEND_TAG_ALL  0x43680012

/* Returns false if the communicator is not in state `from`, or is ending. */
static bool suspend_move(struct ncclComm *comm, enum comm_state from, enum comm_state to)
{
	struct registry_node *first = registry_lock();
	bool moves = comm->life->state == from && !comm->life->claimed;

	if (moves)
		comm->life->state = to;
	registry_unlock(first);
	return moves;
}

static bool suspend_ends(struct ncclComm *comm)
{
	struct registry_node *first = registry_lock();
	bool ends = comm->life->claimed;

	registry_unlock(first);
	return ends;
}

/* Begins a change. Another task may have aborted the communicator since the call entered. */
static ncclResult_t suspend_begin(struct ncclComm *comm, const char *call, enum comm_state from)
{
	if (suspend_move(comm, from, COMM_CHANGING))
		return ncclSuccess;
	if (suspend_ends(comm)) {
		INFO(LOG_INIT, "%s: rank %d: ended by an abort", call, comm->rank);
		return rank_error(comm, ncclInternalError);
	}
	WARN("%s: rank %d: another task changes the communicator", call, comm->rank);
	return ncclInvalidUsage;
}

bool comm_is_suspended(struct ncclComm *comm)
{
	struct registry_node *first = registry_lock();
	bool suspended = comm->life->state == COMM_SUSPENDED;

	registry_unlock(first);
	return suspended;
}

/* The host's first rank receives a message from each of the others, then answers each. */
static ncclResult_t suspend_meet_first(const struct ncclComm *comm)
{
	ncclResult_t rc = ncclSuccess;
	uint8_t word = 0;

	for (int32_t i = 1; i < comm->local_ranks && !rc; i++)
		rc = bootstrap_recv(comm->bootstrap, comm->local_to_rank[i], SUSPEND_TAG_COME,
				    &word, sizeof word);
	for (int32_t i = 1; i < comm->local_ranks && !rc; i++)
		rc = bootstrap_send(comm->bootstrap, comm->local_to_rank[i], SUSPEND_TAG_ALL, &word,
				    sizeof word);
	return rc;
}

/* Returns when every rank of the host has called it. */
static ncclResult_t suspend_meet(const struct ncclComm *comm)
{
	const int32_t first = comm->local_to_rank[0];
	uint8_t word = 0;
	ncclResult_t rc;

	if (comm->rank == first)
		return suspend_meet_first(comm);
	rc = bootstrap_send(comm->bootstrap, first, SUSPEND_TAG_COME, &word, sizeof word);
	return rc ? rc
		  : bootstrap_recv(comm->bootstrap, first, SUSPEND_TAG_ALL, &word, sizeof word);
}

static ncclResult_t suspend_memory(struct ncclComm *comm)
{
	ncclResult_t rc = suspend_meet(comm);

	return rc ? rc : transport_memory_suspend(comm);
}

static ncclResult_t resume_memory(struct ncclComm *comm)
{
	ncclResult_t rc = transport_memory_resume(comm);

	if (!rc)
		rc = suspend_meet(comm);
	return rc ? rc : transport_memory_reopen(comm);
}

/* Runs `step` while this call uses the bootstrap. */
static ncclResult_t suspend_run(struct ncclComm *comm, const char *call,
				ncclResult_t (*step)(struct ncclComm *comm))
{
	ncclResult_t rc;

	if (!comm->bootstrap)
		return ncclSuccess;
	rank_forms(comm, call, true, -1);
	rank_bootstrap_claim(comm);
	rc = step(comm);
	rank_bootstrap_release(comm);
	rank_forms(comm, NULL, false, -1);
	return rc;
}

/* Must precede all CUDA calls of a change: in a task of its own, they would otherwise make a
 * context on GPU 0, and an error there is not one of this rank's GPU. */
static ncclResult_t suspend_device(const struct ncclComm *comm)
{
	return cuda_result(cudaSetDevice(comm->cuda_dev), "cudaSetDevice");
}

/* Ends a change. A failure is the communicator's: the other ranks wait for this one. */
static ncclResult_t suspend_end(struct ncclComm *comm, ncclResult_t rc, enum comm_state to)
{
	if (!rc && comm_is_aborted(comm))
		rc = ncclInternalError;
	rc = rank_error(comm, rc);
	if (rc)
		rank_set_async_error(comm, rc);
	else
		(void)suspend_move(comm, COMM_CHANGING, to);
	INFO(LOG_INIT, "comm %p rank %d nranks %d: %s, %llu bytes of GPU memory: result %d",
	     (void *)comm, comm->rank, comm->nranks, to == COMM_SUSPENDED ? "suspended" : "resumed",
	     (unsigned long long)transport_memory_suspendable(comm), (int)rc);
	return rc;
}

ncclResult_t comm_suspend(struct ncclComm *comm)
{
	ncclResult_t rc = suspend_begin(comm, "ncclCommSuspend", COMM_READY);

	if (rc)
		return rc;
	rc = suspend_device(comm);
	if (!rc)
		rc = comm_drain_watching(comm);
	if (!rc)
		rc = suspend_run(comm, "ncclCommSuspend", suspend_memory);
	return suspend_end(comm, rc, COMM_SUSPENDED);
}

ncclResult_t comm_resume(struct ncclComm *comm)
{
	ncclResult_t rc = suspend_begin(comm, "ncclCommResume", COMM_SUSPENDED);

	if (rc)
		return rc;
	rc = suspend_device(comm);
	if (!rc)
		rc = suspend_run(comm, "ncclCommResume", resume_memory);
	return suspend_end(comm, rc, COMM_READY);
}
