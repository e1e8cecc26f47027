/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Revoking a communicator: its operations are stopped on this rank, and others can be made from it.
 * Each rank revokes for itself. The abort word ends the kernels and the proxy's operations, as an
 * abort does, and is cleared again for the messages that make other communicators.
 */
#include "core/base/log.h"
#include "core/comm/comm_internal.h"
#include "core/os/check.h"
#include "core/rank/cuda_result.h"
#include "core/transport/transport.h"

/* False: another task is revoking, or has revoked, or the communicator is ending. */
static bool revoke_begin(struct ncclComm *comm)
{
	struct registry_node *first = registry_lock();
	bool mine = (comm->life->state == COMM_READY || comm->life->state == COMM_SUSPENDED) &&
		    !comm->life->claimed;

	if (mine)
		comm->life->state = COMM_REVOKED;
	registry_unlock(first);
	return mine;
}

/* Clears the abort word, unless an abort follows: that one sets it after its claim. */
static void revoke_abort_clear(struct ncclComm *comm)
{
	struct registry_node *first = registry_lock();

	if (!comm->life->claimed)
		shared_store_u32(comm->abort, 0, SHARED_RELEASE);
	registry_unlock(first);
}

/* From now on no failure of another rank becomes this communicator's error. */
static void revoke_errors_end(struct ncclComm *comm)
{
	shared_store_u32(&comm->revoked, 1, SHARED_RELEASE);
	if (comm->bootstrap) {
		os_mutex_lock(&comm->watch); /* another rank's task may poll the ring */
		bootstrap_ring_forget(comm->bootstrap);
		os_mutex_unlock(&comm->watch);
	}
	shared_store_u32(&comm->async_error, ncclSuccess, SHARED_RELEASE);
	shared_store_u32(&comm->error_given, 0, SHARED_RELAXED);
	if (comm->ras) /* the verdict was about the operations that have ended */
		shared_store_u32(&comm->verdict, ncclSuccess, SHARED_RELEASE);
}

ncclResult_t comm_revoke(struct ncclComm *comm)
{
	int before = comm_device_save();
	ncclResult_t rc;

	if (!revoke_begin(comm))
		return ncclSuccess;
	shared_store_u32(comm->abort, 1, SHARED_RELEASE);
	comm_launch_wait(comm); /* the abort word ends the task */
	rc = cuda_result(cudaSetDevice(comm->cuda_dev), "cudaSetDevice");
	if (!rc)
		rc = comm_drain(comm);
	/* a rank that has left frees its memory soon */
	if (!rc && !comm_others_are_busy(comm))
		transport_leave(comm);
	comm_device_restore(before);
	if (rc) /* the abort word stays: kernels may still run */
		return rc;
	/* ranks may have made other calls of it: it has no order with those made from it */
	os_agree_member(comm->id_hash, (uint64_t)comm->cuda_dev, false);
	revoke_errors_end(comm);
	revoke_abort_clear(comm);
	INFO(LOG_INIT, "comm %p rank %d nranks %d: revoked", (void *)comm, comm->rank,
	     comm->nranks);
	return ncclSuccess;
}
