/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a communicator.
 *
 * Ranks of one process use each other's memory, so none is freed before the kernels of all of them
 * have ended. Each communicator is made quiet and parked. The last one to be parked releases all
 * that have its id. Therefore a task that destroys its ranks one after the other waits for no other
 * task. Between processes of a host, a meeting precedes the release, except after an abort. A rank
 * does not wait for ranks of other hosts: once it is quiet, it has received everything, and
 * everything that it sent has been received.
 *
 * The calls that free memory wait for all kernels of the GPU. A kernel of another communicator may
 * wait for a rank that the calling task drives and has not launched yet. Therefore the release
 * first checks whether the GPU has such kernels.
 *
 * A separate task releases each rank. The call waits for it only for a limited time
 * (COMM_PATIENCE_NS etc.): the ranks of the host may arrive late, and may wait for actions of the
 * program after the call. The task continues until they have arrived or left, or this process ends.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "core/comm/comm_internal.h"
#include "core/os/check.h"
#include "core/comm/redops.h"
#include "core/mem/mem.h"
#include "core/plan/plan.h"
#include "core/profiler/profiler.h"
#include "core/proxy/proxy.h"
#include "core/rank/cuda_result.h"
#include "core/transport/transport.h"
#include "core/transport/windows.h"

/* Time for which a call waits for the release. LOCAL: after ncclCommFinalize, which makes destroy
 * local, and after an abort. ALONE: if the process has no other communicator. It may exit next, and
 * HCAs retransmit for as long to ranks of the host that still wait. COMM_PATIENCE_NS applies
 * otherwise. */
#define COMM_PATIENCE_LOCAL_NS 100000000ull
#define COMM_PATIENCE_NS       1000000000ull
#define COMM_PATIENCE_ALONE_NS 120000000000ull
/* Number of checks, and time before each, whether the awaited ranks of the meeting still exist.
 * After that the meeting relies on the ends of their connections. */
#define COMM_MEET_LOOKS 12
#define COMM_MEET_NS    10000000000ull
/* Time for kernels to find the abort word and end if the GPU does not report their end. */
#define COMM_UNREPORTED_NS 100000000ull
/* Time between two looks at the other ranks while a task prepares a launch. */
#define COMM_LAUNCH_LOOK_NS 10000000ull

ncclResult_t comm_drain(struct ncclComm *comm)
{
	cudaError_t e = cudaSuccess;

	if (comm->launched && comm->nranks == 1)
		e = cudaStreamSynchronize(comm->internal_stream);
	else if (comm->launched)
		e = cudaEventSynchronize(comm->launch_done);
	return cuda_result(e, "waiting for launched collectives");
}

cudaError_t comm_launches_query(const struct ncclComm *comm)
{
	return comm->nranks == 1 ? cudaStreamQuery(comm->internal_stream)
				 : cudaEventQuery(comm->launch_done);
}

/* Pauses between two checks. */
static void comm_drain_pause(void)
{
	os_sleep_ns(20000);
}

ncclResult_t comm_drain_look(struct ncclComm *comm)
{
	cudaError_t e = comm->launched ? comm_launches_query(comm) : cudaSuccess;

	if (e == cudaErrorNotReady)
		return ncclInProgress;
	return cuda_result(e, "waiting for launched collectives");
}

ncclResult_t comm_drain_watching(struct ncclComm *comm)
{
	while (comm->launched && !comm_is_aborted(comm)) {
		ncclResult_t rc = comm_drain_look(comm);

		if (rc != ncclInProgress)
			return rc;
		rc = comm_async_error(comm);
		OS_PROBE("comm.error_ends_finalize",
			 "an error comes while destroy waits for kernels", rc != ncclSuccess);
		if (rc)
			return rc;
		comm_drain_pause();
	}
	return comm_drain(comm);
}

/* Waits for the end of the separate task. Returns 0, ETIMEDOUT, or ECANCELED after an abort. */
static int comm_launch_wait_until(const struct ncclComm *comm, const shared_u32 *abort,
				  uint64_t deadline_ns)
{
	struct wait w = wait_word(&comm->life->launching, 4, WAIT_EQ, 0,
				  "the task that connects ranks for a launch",
				  wait_by(comm->rank, -1, NULL));

	w.deadline_ns = deadline_ns;
	return os_wait_one(&w, abort);
}

void comm_launch_wait(const struct ncclComm *comm)
{
	(void)comm_launch_wait_until(comm, NULL, 0);
}

/* The same while other ranks may fail. The task does not learn of a failure while it waits in CUDA
 * for kernels of the communicator, and those wait for the rank that failed. */
static ncclResult_t comm_launch_wait_watching(struct ncclComm *comm)
{
	ncclResult_t rc = ncclSuccess;

	while (!rc && comm_launch_wait_until(comm, comm->abort,
					     os_now_ns() + COMM_LAUNCH_LOOK_NS) == ETIMEDOUT)
		rc = comm_async_error(comm);
	return rc;
}

ncclResult_t comm_finalize(struct ncclComm *comm)
{
	ncclResult_t rc = comm_launch_wait_watching(comm);

	if (!rc)
		rc = comm_drain_watching(comm);
	if (!rc && comm_is_aborted(comm)) {
		INFO(LOG_INIT, "rank %d: finalize ended by an abort", comm->rank);
		return rank_error(comm, ncclInternalError);
	}
	if (!rc)
		comm_state_set(comm, COMM_FINALIZED);
	else /* the other ranks' kernels may wait for this rank's: no barrier, they get an error */
		rank_set_async_error(comm, rc);
	return rc;
}

ncclResult_t comm_finalize_begin(struct ncclComm *comm)
{
	struct registry_node *first = registry_lock();

	if (comm->life->state == COMM_READY || comm->life->state == COMM_SUSPENDED)
		comm->life->state = COMM_FINALIZING;
	registry_unlock(first);
	return ncclInProgress;
}

/* ---- quiet ---------------------------------------------------------------------------------- */

void comm_launch_drop(struct comm_launch *launch)
{
	if (!launch || shared_add_u32(&launch->users, ~0u, SHARED_ACQ_REL) > 1)
		return;
	if (launch->task)
		os_thread_join(launch->task);
	os_free(launch);
}

/* Removes the launch from the communicator; its task no longer finds it. */
static struct comm_launch *comm_launch_take(struct ncclComm *comm)
{
	struct registry_node *first = registry_lock();
	struct comm_launch *launch = comm->life->launch;

	comm->life->launch = NULL;
	registry_unlock(first);
	return launch;
}

static void comm_users_wait(struct ncclComm *comm)
{
	struct comm_launch *launch = comm_launch_take(comm);
	struct wait w = wait_word(&comm->life->users, 4, WAIT_EQ, 0,
				  "calls on the communicator to return before it is freed",
				  wait_by(comm->rank, -1, NULL));
	(void)os_wait_one(&w, NULL);
	if (comm->life->init_task) {
		os_thread_join(comm->life->init_task);
		comm->life->init_task = NULL;
	}
	comm_launch_drop(launch);
}

/* Waits until no call uses the communicator and its kernels have ended. A running init is a user
 * too. It waits for ranks that may never arrive, so it is aborted. Returns the error with which a
 * communicator that was not aborted fails here: the GPU does not report the end of its kernels. */
static ncclResult_t comm_quieten(struct ncclComm *comm)
{
	bool in_init = comm_in_init(comm), aborted;
	ncclResult_t rc;

	OS_PROBE("comm.ended_in_init", "a communicator is aborted or destroyed in its init",
		 in_init);
	if (in_init || shared_load_u32(&comm->async_error, SHARED_ACQUIRE) ||
	    shared_load_u32(&comm->revoked, SHARED_ACQUIRE))
		shared_store_u32(comm->abort, 1, SHARED_RELEASE);
	comm_users_wait(comm);
	aborted = comm_is_aborted(comm);
	rc = comm_drain(comm);
	if (rc || comm->unmarked) {
		shared_store_u32(comm->abort, 1, SHARED_RELEASE);
		os_sleep_ns(COMM_UNREPORTED_NS);
	}
	if (comm_is_aborted(comm)) {
		comm_leave_others(comm);
	} else if (comm->bootstrap) {
		os_mutex_lock(&comm->watch); /* another rank's task may poll the ring */
		bootstrap_part(comm->bootstrap, comm->op_count);
		os_mutex_unlock(&comm->watch);
	}
	return aborted ? ncclSuccess : rc;
}

/* ---- released ------------------------------------------------------------------------------- */

/* Ends without the other ranks after one has failed. Its end of a connection may stay open while
 * other ranks of its process are in their communicators. Therefore data in transit to it is
 * dropped. */
static void comm_end_alone(struct ncclComm *comm)
{
	shared_store_u32(comm->abort, 1, SHARED_RELEASE);
	comm_leave_others(comm);
}

/* Meets the ranks in other processes of the host. Their kernels use this rank's memory until they
 * are quiet too. Returns false if they have not come by `until_ns`; 0: no deadline. */
static bool comm_meet(struct ncclComm *comm, uint64_t until_ns)
{
	ncclResult_t rc = ncclInProgress;
	bool late = false;

	if (!comm->bootstrap || comm->nranks == 1 || comm_is_aborted(comm))
		return true;
	rank_bootstrap_claim(comm);
	/* The other ranks of this process are being freed. */
	bootstrap_look(comm->bootstrap, NULL, NULL);
	/* Another rank failed while this one was parked. */
	if (comm->ring_broken) {
		comm_end_alone(comm);
		return true;
	}
	for (int looks = 0; rc == ncclInProgress && !late; looks++) {
		uint64_t look_ns = looks < COMM_MEET_LOOKS ? os_now_ns() + COMM_MEET_NS : until_ns;

		rc = bootstrap_meet(comm->bootstrap, comm->local_to_rank, comm->local_ranks,
				    until_ns ? MIN_OF(look_ns, until_ns) : look_ns);
		late = until_ns && os_now_ns() >= until_ns;
		OS_PROBE("comm.meets_late", "a rank of the host ends the communicator late",
			 rc == ncclInProgress);
	}
	if (rc == ncclInProgress)
		return false;
	OS_PROBE("comm.end_without_all", "a rank of the host does not end the communicator",
		 rc != 0);
	if (!rc)
		return true;
	INFO(LOG_INIT,
	     "rank %d: not all ranks of the host ended the communicator; continues without them",
	     comm->rank);
	comm_end_alone(comm);
	return true;
}

static void comm_cuda_free(struct ncclComm *comm)
{
	(void)mem_device_free(comm->dev, "the device communicator");
	rank_timed_free(&comm->timed);
	if (comm->launch_done)
		(void)cuda_result(cudaEventDestroy(comm->launch_done), "cudaEventDestroy");
	if (comm->internal_stream)
		(void)cuda_result(cudaStreamDestroy(comm->internal_stream), "cudaStreamDestroy");
	(void)mem_host_free(comm->abort, "the abort word");
}

/* Releases the communicator. If the ranks of the host have not ended it by `until_ns` (0: no
 * deadline), keeps it: their kernels may use its memory. */
static void comm_release(struct ncclComm *comm, uint64_t until_ns)
{
	bool aborted, ended;

	ASSERT(comm->life->claimed && comm->life->parked);
	log_set_device(comm->cuda_dev);
	(void)cuda_result(cudaSetDevice(comm->cuda_dev), "cudaSetDevice");
	ended = comm_let_others_end(comm, until_ns);
	/* The relays stay in the communicator until this rank meets them. */
	if (ended && !comm_is_aborted(comm))
		proxy_relays_drain(comm);
	if (!ended || !comm_meet(comm, until_ns) || !transport_left(comm, until_ns)) {
		WARN("rank %d: the communicator's memory is kept: ranks of the host or kernels "
		     "still "
		     "use it, and no task can be started that waits for them",
		     comm->rank);
		return;
	}
	aborted = comm_is_aborted(comm);
	transport_windows_end(comm);
	if (comm->topo)
		transport_close_all(comm);
	proxy_stop(comm);
	plan_fini(comm);
	profiler_close(comm);
	registry_remove(&comm->node);
	ras_leave(comm->ras);
	os_free(comm->calls);
	rank_causes_free(comm);
	bootstrap_close(comm->bootstrap);
	comm_cuda_free(comm);
	INFO(LOG_INIT, "comm %p rank %d nranks %d cudaDev %d busId %s - %s COMPLETE", (void *)comm,
	     comm->rank, comm->nranks, comm->cuda_dev, comm->bus_id, aborted ? "Abort" : "Destroy");
	comm->magic = 0;
	comm_ops_free(comm);
	os_free(comm->want);
	os_free(comm->channels);
	os_free(comm->life->release_made);
	os_free(comm->life->members);
	os_free(comm->life->ring_ranks);
	os_free(comm->life->tree_toward);
	for (int p = 0; p < TOPO_PATTERNS; p++)
		os_free(comm->graph[p]);
	os_free(comm->local_to_rank);
	os_free(comm->peers);
	os_free(comm->ras_peers);
	os_free(comm->pairs);
	os_free(comm->topo_text);
	os_free(comm);
}

/* ---- the process' ranks of one communicator ------------------------------------------------- */

/* Parks `comm`. If it is the last of its id, returns all that are not being released yet, chained
 * by release_next; otherwise NULL, or `comm` if no other rank can use it. *alone: the process has
 * no communicator of another id. */
static struct ncclComm *comm_park(struct ncclComm *comm, bool *alone)
{
	struct registry_node *first = registry_lock();
	struct ncclComm *chain = NULL, *c;
	bool last = true;

	comm->life->parked = true;
	*alone = true;
	for (struct registry_node *n = first; n; n = n->next) {
		if (!(c = comm_of(n)))
			continue;
		if (c->id_hash == comm->id_hash)
			last = last && c->life->parked;
		else
			*alone = false;
	}
	/* From now on, only tasks of the other ranks watch this rank's ring: wakes those that
	 * wait. */
	for (struct registry_node *n = first; n && !last; n = n->next)
		if ((c = comm_of(n)) && c->id_hash == comm->id_hash && c != comm && c->bootstrap)
			bootstrap_kick(c->bootstrap);
	for (struct registry_node *n = first; n && last; n = n->next) {
		/* a rank that failed before this one came is being released */
		if (!(c = comm_of(n)) || c->id_hash != comm->id_hash || c->life->released)
			continue;
		c->life->released = true;
		c->life->release_next = chain;
		chain = c;
	}
	/* No rank uses memory of one that failed before it knew the others. It would wait without
	 * end for ranks whose id is final by now. */
	if (!last && !comm->peers) {
		comm->life->released = true;
		chain = comm;
	}
	registry_unlock(first);
	OS_PROBE("comm.parked", "a rank waits for others of its process to be freed", !chain);
	return chain;
}

static void comm_release_drop(struct comm_release *r)
{
	if (shared_add_u32(&r->users, ~0u, SHARED_ACQ_REL) == 1)
		os_free(r);
}

static void comm_release_task(void *arg)
{
	struct ncclComm *comm = arg;
	struct comm_release *r = comm->life->release;

	comm_release(comm, 0);
	shared_add_u32(&r->left, ~0u, SHARED_RELEASE);
	comm_release_drop(r);
}

/* Starts a task that releases `comm`. Returns false if it cannot be started. */
static bool comm_release_start(struct ncclComm *comm, struct comm_release *r)
{
	char name[48];
	const struct os_thread_attr attr = {.name = name, .rank = comm->rank, .detached = true};

	snprintf(name, sizeof name, "rank%d release", comm->rank);
	comm->life->release = r;
	shared_add_u32(&r->left, 1, SHARED_RELAXED);
	shared_add_u32(&r->users, 1, SHARED_RELAXED);
	if (!os_thread_start(NULL, &attr, comm_release_task, comm))
		return true;
	shared_add_u32(&r->left, ~0u, SHARED_RELAXED);
	shared_add_u32(&r->users, ~0u, SHARED_RELAXED);
	return false;
}

static void comm_release_wait(const struct comm_release *r, int32_t rank, uint64_t patience_ns)
{
	const struct wait w = {
		.on = &r->left,
		.want = 0,
		.mask = WAIT_MASK_ALL,
		.kind = WAIT_EQ,
		.bytes = 4,
		.why = "the ranks of the host to end the communicator",
		.from = {.rank = rank, .channel = -1, .step = -1, .object = "release"},
		.deadline_ns = os_now_ns() + patience_ns,
	};
	bool late = os_wait_one(&w, NULL) == ETIMEDOUT;

	OS_PROBE("comm.released_later", "a communicator is released after the call that ends it",
		 late);
	if (late)
		INFO(LOG_INIT,
		     "rank %d: ranks of the host are still in the communicator, or kernels of "
		     "another one on its GPU; its memory is freed later",
		     rank);
}

/* Releases the whole chain concurrently, since each communicator meets the others. */
static void comm_release_chain(struct ncclComm *chain, uint64_t patience_ns)
{
	struct comm_release *r = chain->life->release_made;
	int32_t rank = chain->rank;
	struct ncclComm *next;

	chain->life->release_made = NULL;
	shared_store_u32(&r->users, 1, SHARED_RELAXED);
	for (struct ncclComm *c = chain; c; c = next) {
		next = c->life->release_next;
		if (comm_release_start(c, r))
			continue;
		if (next) /* the others cannot be met without a task: abort */
			shared_store_u32(c->abort, 1, SHARED_RELEASE);
		comm_release(c, os_now_ns() + MAX_OF(patience_ns, COMM_PATIENCE_NS));
	}
	comm_release_wait(r, rank, patience_ns);
	comm_release_drop(r);
}

ncclResult_t comm_close(struct ncclComm *comm, bool local)
{
	int before = comm_device_save();
	struct ncclComm *chain;
	ncclResult_t rc;
	bool alone;

	rc = comm_quieten(comm);
	local = local || comm_is_aborted(comm);
	os_agree_member(comm->id_hash, (uint64_t)comm->cuda_dev, false);
	chain = comm_park(comm, &alone);
	if (chain)
		comm_release_chain(chain, local   ? COMM_PATIENCE_LOCAL_NS
					  : alone ? COMM_PATIENCE_ALONE_NS
						  : COMM_PATIENCE_NS);
	comm_device_restore(before);
	return rc;
}
